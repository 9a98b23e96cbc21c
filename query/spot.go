package query

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/flightblob/flightblob/query/engine"
)

// spot says what to look for in the parser's tree of a statement when the plan
// does not say where something stands.
type spot struct {
	err      error
	function string // of a call, by name
	compares bool   // a comparison by order
	orders   int    // length of a list of ORDER BY, of which item is meant
	item     int
	alias    string // name that the plan has for the column
	within   int    // where something in a call stands; 0 or less when not known
}

func (s *spot) Error() string { return s.err.Error() }

func (s *spot) Unwrap() error { return s.err }

// incomparable refuses a comparison by order.
func incomparable(n object) error {
	left, _ := n["left"].(object)
	return &spot{
		err:      misuse("blob columns have no order; they can be compared by = and <> only"),
		compares: true, alias: text(left["alias"]),
	}
}

// unordered refuses an item of a list of ORDER BY.
func unordered(orders []object, item int) error {
	expression, _ := orders[item]["expression"].(object)
	return &spot{
		err:    misuse("blob columns have no order, so ORDER BY cannot sort by one"),
		orders: len(orders), item: item, alias: text(expression["alias"]),
	}
}

// spotted puts the error of a spot where it stands in the text, as far as that can
// be told. Other errors are left alone.
func (r *run) spotted(ctx context.Context, sql string, err error) error {
	var s *spot
	var known *engine.Placed
	if !errors.As(err, &s) || errors.As(err, &known) {
		return err
	}
	var answer struct {
		Statements []any `json:"statements"`
	}
	tree, bad := r.conn.Text(ctx, treeSQL, sql)
	if bad != nil || json.Unmarshal([]byte(tree), &answer) != nil {
		return s.err
	}
	if offset := s.in(answer.Statements); offset >= 0 {
		return &engine.Placed{Offset: offset, Err: s.err}
	}
	if s.within > 0 {
		return &engine.Placed{Offset: s.within, Err: s.err}
	}
	return s.err
}

// candidate is an expression of the tree that a spot may mean.
type candidate struct {
	offset int
	named  bool // it has the column's name, too
	listed bool // it is the item of a list of the right length, or stands for all
}

// in gives the offset of the one expression that can be meant, or of the first
// among those that agree in everything; -1 when that is not known.
func (s *spot) in(statements []any) int {
	var found []candidate
	s.collect(statements, &found)
	slices.SortFunc(found, func(a, b candidate) int { return a.offset - b.offset })
	only := func(all []candidate, keep func(candidate) bool) []candidate {
		return slices.DeleteFunc(slices.Clone(all), func(c candidate) bool { return !keep(c) })
	}
	if len(found) == 1 {
		return found[0].offset
	}
	if best := only(found, func(c candidate) bool { return c.named && c.listed }); len(best) > 0 {
		return best[0].offset
	}
	for _, keep := range []func(candidate) bool{
		func(c candidate) bool { return c.listed },
		func(c candidate) bool { return c.named },
	} {
		if best := only(found, keep); len(best) == 1 {
			return best[0].offset
		}
	}
	return -1
}

func (s *spot) collect(v any, found *[]candidate) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			s.collect(e, found)
		}
	case object:
		name, isCall := v["function_name"].(string)
		if s.function != "" && isCall && strings.EqualFold(name, s.function) {
			if offset := own(v); offset >= 0 {
				*found = append(*found, candidate{offset, s.names(v["children"]), true})
			}
		}
		if s.compares && slices.Contains(orderings, text(v["type"])) {
			if offset := location(v); offset >= 0 {
				*found = append(*found, candidate{offset, s.names([]any{v["left"], v["right"]}), true})
			}
		}
		if s.orders > 0 {
			orders := objects(v["orders"])
			for i, o := range orders {
				expression, _ := o["expression"].(object)
				if offset := location(expression); offset >= 0 {
					all := text(expression["class"]) == "STAR"
					*found = append(*found, candidate{offset, all || s.names(expression), all || i == s.item && len(orders) == s.orders})
				}
			}
		}
		for _, e := range v {
			s.collect(e, found)
		}
	}
}

// names says that an expression speaks of a column that is called as the plan
// calls it: by the last part of its name.
func (s *spot) names(v any) bool {
	switch v := v.(type) {
	case []any:
		return slices.ContainsFunc(v, s.names)
	case object:
		if parts, ok := v["column_names"].([]any); ok && len(parts) > 0 {
			last := text(parts[len(parts)-1])
			alias := strings.ToLower(strings.TrimSuffix(s.alias, `"`))
			return last != "" && (alias == strings.ToLower(last) || strings.HasSuffix(alias, "."+strings.ToLower(last)) ||
				strings.HasSuffix(alias, `"`+strings.ToLower(last)))
		}
		for _, e := range v {
			if s.names(e) {
				return true
			}
		}
	}
	return false
}
