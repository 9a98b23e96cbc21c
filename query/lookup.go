package query

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/flightblob/flightblob/table"
	"github.com/flightblob/flightblob/table/index"
)

// Indexes of a table are used where a plan filters the rows of a scan and
// nothing stands between: then the scan may leave out rows that the filter would
// drop. The engine's optimiser brings filters there, through joins, views and
// subqueries, with constants worked out, so its plan is what is looked at. The
// engine does not know; it filters what it is given.
//
// A plan that may leave out rows of a table is right for the table without these
// rows, and so is every other plan of the same statement. So it does not matter
// that the statement is planned again when it is executed. What matters is that
// constants are still the same then: statements with functions such as now() are
// left alone.

// lookupRows is how many rows a table must have for its indexes to be worth
// looking at.
const lookupRows = 4096

// looked is what a statement's plan allows scans to leave out: for each call of
// a table function the restrictions of each of its occurrences.
type looked map[string][]restriction

// sight is what is remembered of that for all texts that differ in values only.
type sight struct {
	moves  bool // functions make constants differ from one execution to the next
	text   string
	looked looked // of that text; nil when its plan has not been looked at
}

const optimisedSQL = "SELECT json_serialize_plan(?::VARCHAR, skip_null := true, skip_empty := true, skip_default := false, optimize := true)"

// lookAt prepares the use of indexes for a statement, with what is known of texts
// like it. It gives what is known then. Whatever goes wrong only means that no
// index is used.
func (r *run) lookAt(ctx context.Context, known sight, sql string) sight {
	if known.moves || !r.indexed(known.looked) {
		return known
	}
	if known.looked == nil || known.text != sql {
		found := r.look(ctx, sql)
		if known.looked == nil {
			known.looked, known.text = found, sql
		}
		r.see(found)
		return known
	}
	r.see(known.looked)
	return known
}

// see tells scans what they may leave out.
func (r *run) see(l looked) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.looked = l
}

// look follows the optimised plan of a statement.
func (r *run) look(ctx context.Context, sql string) looked {
	found := looked{}
	text, err := r.conn.Text(ctx, optimisedSQL, sql)
	if err != nil {
		return found
	}
	answer, err := decodePlan(text)
	if err != nil {
		return found
	}
	if plans := objects(answer["plans"]); len(plans) == 1 {
		found.follow(plans[0], nil)
	}
	return found
}

// indexed says that indexes may be of use: a table has some, and if it is known
// what columns a condition is on, over one of them.
func (r *run) indexed(l looked) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for call, rel := range r.relations {
		if rel.Rows() >= lookupRows && rel.snapshot.Indexed() && (l == nil || rel.condition(l[call], anyParams) != nil) {
			return true
		}
	}
	return false
}

// alsoMoving are functions whose results change from statement to statement
// though the engine calls them constant.
var alsoMoving = []string{"age"}

const movingSQL = "SELECT string_agg(DISTINCT function_name, ' ') FROM duckdb_functions() WHERE stability <> 'CONSISTENT' AND ?::VARCHAR IS NOT NULL"

// moves says that a plan calls functions whose results may differ between two
// statements.
func (r *run) moves(ctx context.Context, plan any) bool {
	called := map[string]bool{}
	calls(plan, called)
	if len(called) == 0 {
		return false
	}
	moving := r.engine.moving.Load()
	if moving == nil {
		text, err := r.conn.Text(context.WithoutCancel(ctx), movingSQL, "")
		if err != nil {
			return true
		}
		names := append(strings.Fields(text), alsoMoving...)
		moving = &names
		r.engine.moving.Store(moving)
	}
	return slices.ContainsFunc(*moving, func(name string) bool { return called[name] })
}

// calls collects the functions that a plan calls.
func calls(v any, called map[string]bool) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			calls(e, called)
		}
	case object:
		if text(v["expression_class"]) == "BOUND_FUNCTION" {
			called[strings.ToLower(text(v["name"]))] = true
		}
		for _, e := range v {
			calls(e, called)
		}
	}
}

// follow walks down a plan with what must be true of the rows of an operator for
// them to matter. References in that are numbers of its columns.
func (l looked) follow(n object, asked restriction) {
	children := objects(n["children"])
	switch text(n["type"]) {
	case "LOGICAL_GET":
		l.get(n, asked)
	case "LOGICAL_FILTER":
		if len(children) != 1 {
			break
		}
		below := asked.through(numbersOf(n["projection_map"]))
		l.follow(children[0], append(below, objects(n["expressions"])...))
		return
	case "LOGICAL_PROJECTION":
		if len(children) != 1 {
			break
		}
		l.follow(children[0], asked.replaced(objects(n["expressions"])))
		return
	case "LOGICAL_COMPARISON_JOIN":
		if text(n["join_type"]) == "MARK" && len(children) == 2 {
			l.list(n, children, asked)
			return
		}
	}
	for _, c := range children {
		l.follow(c, nil)
	}
}

// list follows the join with a list of constants that the engine makes of a
// longer IN.
func (l looked) list(n object, children []object, asked restriction) {
	left := numbersOf(n["left_projection_map"])
	conditions := objects(n["conditions"])
	if text(children[1]["type"]) != "LOGICAL_CHUNK_GET" || len(conditions) != 1 || text(conditions[0]["comparison"]) != "COMPARE_EQUAL" {
		l.follow(children[0], nil)
		l.follow(children[1], nil)
		return
	}
	in := object{"expression_class": "BOUND_OPERATOR", "type": "COMPARE_IN"}
	list := []any{conditions[0]["left"]}
	collection, _ := children[1]["collection"].(object)
	columns, _ := collection["values"].([]any)
	if len(columns) == 1 {
		values, _ := columns[0].([]any)
		for _, v := range values {
			list = append(list, object{"expression_class": "BOUND_CONSTANT", "value": v})
		}
		in["children"] = list
	}
	// The mark comes after the columns of the left side, whose number is not told
	// when all of them pass.
	var below restriction
	for _, e := range asked {
		if e := replace(e, func(at int) object {
			switch {
			case left == nil && at < columnsOf(children[0]):
				return columnAt(at)
			case left == nil && at == columnsOf(children[0]), left != nil && at == len(left):
				return in
			case left != nil && at < len(left):
				return columnAt(left[at])
			}
			return nil
		}); e != nil {
			below = append(below, e)
		}
	}
	l.follow(children[0], below)
}

// columnsOf is the number of columns of an operator, -1 when it is not known.
func columnsOf(n object) int {
	children := objects(n["children"])
	switch text(n["type"]) {
	case "LOGICAL_GET":
		if len(listOf(n["projection_ids"])) == 0 {
			return len(listOf(n["column_indexes"]))
		}
	case "LOGICAL_PROJECTION":
		return len(listOf(n["expressions"]))
	case "LOGICAL_FILTER":
		if m := numbersOf(n["projection_map"]); m != nil {
			return len(m)
		}
		if len(children) == 1 {
			return columnsOf(children[0])
		}
	case "LOGICAL_COMPARISON_JOIN":
		if m := numbersOf(n["left_projection_map"]); m != nil {
			return len(m) + 1
		}
		if text(n["join_type"]) == "MARK" && len(children) == 2 {
			if n := columnsOf(children[0]); n >= 0 {
				return n + 1
			}
		}
	}
	return -1
}

// get notes what is asked of an occurrence of a call.
func (l looked) get(n object, asked restriction) {
	var columns []object
	if len(listOf(n["projection_ids"])) == 0 {
		for _, id := range objects(n["column_indexes"]) {
			at, ok := whole64(id["index"])
			if !ok && id["index"] != nil {
				columns = nil
				break
			}
			columns = append(columns, columnAt(int(at)))
		}
	}
	call := callOf(n)
	l[call] = append(l[call], asked.replaced(columns))
}

// numbersOf reads a list of numbers, nil when there is none.
func numbersOf(v any) []int {
	list, _ := v.([]any)
	var out []int
	for _, e := range list {
		n, ok := whole64(e)
		if !ok {
			return []int{}
		}
		out = append(out, int(n))
	}
	return out
}

// columnAt is an expression that is a column.
func columnAt(at int) object {
	return object{"expression_class": "BOUND_REF", "index": json.Number(strconv.Itoa(at))}
}

// through renames the columns of a restriction by a map, nil = as they are.
func (r restriction) through(m []int) restriction {
	if m == nil {
		return slices.Clone(r)
	}
	columns := make([]object, len(m))
	for i, at := range m {
		columns[i] = columnAt(at)
	}
	return r.replaced(columns)
}

// replaced puts expressions in the place of columns. What refers to others is
// left out.
func (r restriction) replaced(columns []object) restriction {
	var out restriction
	for _, e := range r {
		if e := replace(e, func(at int) object {
			if at < 0 || at >= len(columns) {
				return nil
			}
			return columns[at]
		}); e != nil {
			out = append(out, e)
		}
	}
	return out
}

// replace rebuilds an expression with others in the place of its columns, nil if
// there is none for one of them. The type of a column is told by who uses it.
func replace(e object, column func(at int) object) object {
	if text(e["expression_class"]) == "BOUND_REF" {
		at, _ := whole64(e["index"])
		with := column(int(at))
		if with == nil || e["return_type"] == nil || with["expression_class"] != "BOUND_REF" {
			return with
		}
		with = maps.Clone(with)
		with["return_type"] = e["return_type"]
		return with
	}
	out := make(object, len(e))
	for k, v := range e {
		if out[k] = v; k == "return_type" || k == "value" {
			continue
		}
		var ok bool
		if out[k], ok = replaceIn(v, column); !ok {
			return nil
		}
	}
	return out
}

func replaceIn(v any, column func(at int) object) (any, bool) {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			var ok bool
			if out[i], ok = replaceIn(e, column); !ok {
				return nil, false
			}
		}
		return out, true
	case object:
		e := replace(v, column)
		return e, e != nil
	}
	return v, true
}

// setParams tells lookups the values of the parameters.
func (r *run) setParams(values []any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.params = make(map[string]any, len(values))
	for i, v := range values {
		r.params[strconv.Itoa(i+1)] = v
	}
}

// condition is what all occurrences of a relation's call have in common, for
// columns with an index.
func (rel *relation) condition(asked []restriction, params map[string]any) index.Condition {
	p := predicates{relation: rel, params: params}
	parts := make([]index.Condition, len(asked))
	for i, a := range asked {
		parts[i] = p.condition(a)
	}
	return index.Or(parts...)
}

// only is the rows that a scan of a relation must give, nil for all of them. The
// indexes are asked once.
func (rel *relation) only() (*table.Selection, error) {
	rel.asked.Do(func() { rel.selected, rel.failed = rel.askIndexes() })
	return rel.selected, rel.failed
}

func (rel *relation) askIndexes() (*table.Selection, error) {
	r := rel.run
	r.mu.Lock()
	asked, params := r.looked[rel.call], r.params
	r.mu.Unlock()
	if len(asked) == 0 || rel.Rows() < lookupRows {
		return nil, nil
	}
	condition := rel.condition(asked, params)
	if condition == nil {
		return nil, nil
	}
	found, err := rel.snapshot.Lookup(r.ctx, condition)
	log := r.engine.opts.Log.With("table", rel.snapshot.Table().Name(), "version", rel.snapshot.Version())
	for _, f := range found.Failed {
		log.Warn("an index cannot be used", "error", f)
	}
	if err != nil || found.Selection == nil {
		return nil, err
	}
	log.Debug("indexes were used", "indexes", found.Used, "candidates", found.Selection.Rows(), "rows", rel.Rows())
	return found.Selection, nil
}
