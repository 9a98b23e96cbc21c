package sqlengine_test

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
)

// kind is what plans know of a column: which expressions fit.
type kind int

const (
	other kind = iota
	number
	words
	bytes
	payload // a blob column
	moment
	truth
	list
	record
	kinds
)

// kindOf classes a column of a table.
func kindOf(f arrow.Field) kind {
	if strings.HasPrefix(f.Metadata.String(), "[") && strings.Contains(f.Metadata.String(), "lance") {
		return payload
	}
	switch f.Type.ID() {
	case arrow.INT8, arrow.INT16, arrow.INT32, arrow.INT64, arrow.UINT8, arrow.UINT16, arrow.UINT32, arrow.UINT64,
		arrow.FLOAT32, arrow.FLOAT64, arrow.DECIMAL128:
		return number
	case arrow.STRING, arrow.LARGE_STRING:
		return words
	case arrow.BINARY, arrow.LARGE_BINARY, arrow.FIXED_SIZE_BINARY:
		return bytes
	case arrow.DATE32, arrow.TIMESTAMP:
		return moment
	case arrow.BOOL:
		return truth
	case arrow.LIST, arrow.LARGE_LIST:
		return list
	case arrow.STRUCT:
		return record
	}
	return other
}

// item is a column of a plan.
type item struct {
	name string
	kind kind
}

// source is something to select from.
type source struct {
	sql   string // behind FROM, with an alias
	items []item // written with the alias in front
}

// base is a table of the catalog.
type base struct {
	name  string
	items []item
}

// planner writes statements at random.
type planner struct {
	*rand.Rand
	tables []base
	names  int
	params []any // of the statement, one for each ?
	bind   bool  // it may have parameters
}

func (p *planner) fresh(prefix string) string {
	p.names++
	return fmt.Sprintf("%s%d", prefix, p.names)
}

func pick[T any](p *planner, from ...T) T { return from[p.IntN(len(from))] }

// statement writes a query of some depth.
func (p *planner) statement(depth int) string {
	p.params = nil
	sql := p.query(depth)
	switch p.IntN(6) {
	case 0:
		name := p.fresh("c")
		return fmt.Sprintf("WITH %s AS (%s) SELECT * FROM %s", name, sql, name)
	case 1:
		name := p.fresh("c")
		return fmt.Sprintf("WITH %s AS MATERIALIZED (%s) SELECT a.*, b.* FROM %s a, %s b LIMIT 2", name, sql, name, name)
	}
	return sql
}

func (p *planner) query(depth int) string {
	from := p.from(depth)
	switch p.IntN(8) {
	case 0:
		return p.grouped(from)
	case 1:
		return p.windows(from)
	case 2:
		one := p.selected(from)
		return fmt.Sprintf("(%s) UNION ALL (%s)", one, pick(p, one, strings.Replace(one, " LIMIT 2", " LIMIT 1", 1)))
	case 3:
		return "SELECT DISTINCT " + strings.TrimPrefix(p.selected(from), "SELECT ")
	case 4:
		return "SELECT * FROM " + from.sql + p.where(from) + " LIMIT 2"
	}
	return p.selected(from)
}

// from writes what a query reads.
func (p *planner) from(depth int) source {
	if depth > 0 && p.IntN(2) == 0 {
		switch p.IntN(3) {
		case 0:
			return p.joined(p.from(depth-1), p.from(depth-1))
		default:
			return p.nested(depth - 1)
		}
	}
	t := pick(p, p.tables...)
	alias := p.fresh("t")
	return p.aliased(t.name, alias, t.items)
}

func (p *planner) aliased(sql, alias string, items []item) source {
	s := source{sql: sql + " " + alias}
	for _, it := range items {
		s.items = append(s.items, item{alias + `."` + strings.ReplaceAll(it.name, `"`, `""`) + `"`, it.kind})
	}
	return s
}

// nested writes a subquery with names of its own.
func (p *planner) nested(depth int) source {
	from := p.from(depth)
	var parts []string
	var items []item
	for range 1 + p.IntN(4) {
		k := kind(p.IntN(int(kinds)))
		e, k := p.expression(from, k, 1)
		name := p.fresh("x")
		parts, items = append(parts, e+" AS "+name), append(items, item{name, k})
	}
	sql := fmt.Sprintf("(SELECT %s FROM %s%s LIMIT 3)", strings.Join(parts, ", "), from.sql, p.where(from))
	return p.aliased(sql, p.fresh("s"), items)
}

func (p *planner) joined(a, b source) source {
	how := pick(p, "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN", "POSITIONAL JOIN")
	sql := a.sql + " " + how + " " + b.sql
	if !strings.HasPrefix(how, "CROSS") && !strings.HasPrefix(how, "POSITIONAL") {
		left, _ := p.expression(a, number, 0)
		right, _ := p.expression(b, number, 0)
		sql += fmt.Sprintf(" ON (%s)::DOUBLE = (%s)::DOUBLE", left, right)
	}
	return source{sql, append(append([]item{}, a.items...), b.items...)}
}

func (p *planner) where(from source) string {
	switch p.IntN(4) {
	case 0:
		e, _ := p.expression(from, truth, 1)
		return " WHERE " + e
	case 1:
		it := pick(p, from.items...)
		return " WHERE " + it.name + pick(p, " IS NOT NULL", " IS NULL")
	}
	return ""
}

func (p *planner) selected(from source) string {
	var parts []string
	for range 1 + p.IntN(5) {
		e, _ := p.expression(from, kind(p.IntN(int(kinds))), 2)
		if p.IntN(2) == 0 {
			e += " AS " + pick(p, p.fresh("y"), `"Ü `+p.fresh("z")+`"`)
		}
		parts = append(parts, e)
	}
	return fmt.Sprintf("SELECT %s FROM %s%s LIMIT 2", strings.Join(parts, ", "), from.sql, p.where(from))
}

func (p *planner) grouped(from source) string {
	key, _ := p.expression(from, pick(p, number, words, truth), 1)
	parts := []string{"count(*)"}
	for range 1 + p.IntN(4) {
		k := kind(p.IntN(int(kinds)))
		e, k := p.expression(from, k, 1)
		f := pick(p, "any_value", "first", "list", "count")
		if k == number && p.IntN(2) == 0 {
			f = pick(p, "sum", "avg", "min", "max")
		}
		if (k == words || k == moment) && p.IntN(2) == 0 {
			f = pick(p, "min", "max")
		}
		parts = append(parts, fmt.Sprintf("%s(%s)", f, e))
	}
	group := pick(p, " GROUP BY g", " GROUP BY ROLLUP (g)", " GROUP BY g HAVING count(*) > 0")
	return fmt.Sprintf("SELECT %s AS g, %s FROM %s%s%s LIMIT 3", key, strings.Join(parts, ", "), from.sql, p.where(from), group)
}

func (p *planner) windows(from source) string {
	order, _ := p.expression(from, number, 0)
	it := pick(p, from.items...)
	return fmt.Sprintf("SELECT %s, %s(%s) OVER (ORDER BY %s), row_number() OVER (), count(*) OVER (PARTITION BY %s) FROM (SELECT * FROM %s LIMIT 50) w LIMIT 2",
		unaliased(it.name), pick(p, "lag", "lead", "first_value", "last_value"), unaliased(it.name), unaliased(order), unaliased(order), from.sql)
}

// unaliased leaves the alias of a column out: that of the table is hidden behind
// a subquery. A constant has none.
func unaliased(name string) string {
	if at := strings.Index(name, `."`); at >= 0 && !strings.ContainsAny(name, "(: ") {
		return name[at+1:]
	}
	return name
}
