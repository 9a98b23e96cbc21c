package query

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/flightblob/flightblob/schema"
	"github.com/flightblob/flightblob/table/index"
)

// This file turns what a plan puts on a table into a condition that indexes
// understand. Expressions that it does not know say nothing, which is always
// right: the engine evaluates the whole condition on the rows it is given.

// restriction is what a plan asks of the rows of one call of a table function:
// all expressions must be true. References in them are numbers of relation
// columns.
type restriction []object

// predicates makes index conditions for one relation, on columns with an index.
type predicates struct {
	relation *relation
	params   map[string]any // values of parameters by name, or anyParams
}

// anyParams stand for values that are not known yet: conditions only tell which
// columns they are on.
var anyParams map[string]any

// condition of all expressions of a restriction.
func (p predicates) condition(r restriction) index.Condition {
	parts := make([]index.Condition, len(r))
	for i, e := range r {
		parts[i] = p.expression(e, false)
	}
	return index.And(parts...)
}

// expression gives what is known of rows for which an expression is true, or
// false if not is set.
func (p predicates) expression(e object, not bool) index.Condition {
	children := objects(e["children"])
	switch text(e["expression_class"]) {
	case "BOUND_CONJUNCTION":
		parts := make([]index.Condition, len(children))
		for i, c := range children {
			parts[i] = p.expression(c, not)
		}
		switch kind := text(e["type"]); {
		case kind == "CONJUNCTION_AND" && !not, kind == "CONJUNCTION_OR" && not:
			return index.And(parts...)
		case kind == "CONJUNCTION_AND", kind == "CONJUNCTION_OR":
			return index.Or(parts...)
		}
		return nil
	case "BOUND_COMPARISON":
		left, _ := e["left"].(object)
		right, _ := e["right"].(object)
		return p.comparison(text(e["type"]), left, right, not)
	case "BOUND_BETWEEN":
		return p.between(e, not)
	case "BOUND_OPERATOR":
		return p.operator(text(e["type"]), children, not)
	case "BOUND_FUNCTION":
		return p.prefix(e, children, not)
	case "BOUND_REF":
		f, d, ok := p.operand(e)
		if !ok || d.typ != "BOOLEAN" {
			return nil
		}
		return where(f, d, not, index.NewTest(index.Unknown, index.Point(index.Bool(true))))
	}
	return nil
}

// where tests a field. What is not exact must not be turned round. A struct that
// is null has null members, whatever an index says of them.
func where(f *schema.Field, d domain, not bool, t index.Test) index.Condition {
	if not {
		if !d.exact() {
			return nil
		}
		t = t.Not()
	}
	if f.Parent != nil && t.Null() == index.True {
		return nil
	}
	return index.Where{Field: f, Test: t}
}

// mirrored are comparisons with their sides exchanged.
var mirrored = map[string]string{
	"COMPARE_LESSTHAN": "COMPARE_GREATERTHAN", "COMPARE_GREATERTHAN": "COMPARE_LESSTHAN",
	"COMPARE_LESSTHANOREQUALTO": "COMPARE_GREATERTHANOREQUALTO", "COMPARE_GREATERTHANOREQUALTO": "COMPARE_LESSTHANOREQUALTO",
}

func (p predicates) comparison(kind string, left, right object, not bool) index.Condition {
	f, d, ok := p.operand(left)
	if !ok {
		left, right = right, left
		if other := mirrored[kind]; other != "" {
			kind = other
		}
		if f, d, ok = p.operand(left); !ok {
			return nil
		}
	}
	c, ok := p.constant(right, d)
	if !ok {
		return nil
	}
	t, ok := compare(kind, d, c)
	if !ok {
		return nil
	}
	return where(f, d, not, t)
}

// compare makes the test of values that compare with a constant.
func compare(kind string, d domain, c constant) (index.Test, bool) {
	switch kind {
	case "COMPARE_NOTEQUAL":
		t, ok := compare("COMPARE_EQUAL", d, c)
		return t.Not(), ok && d.exact()
	case "COMPARE_DISTINCT_FROM":
		t, ok := compare("COMPARE_NOT_DISTINCT_FROM", d, c)
		return t.Not(), ok && d.exact()
	case "COMPARE_NOT_DISTINCT_FROM":
		if c.null {
			return index.NewTest(index.True), true
		}
		t, ok := compare("COMPARE_EQUAL", d, c)
		return index.NewTest(index.False, t.Intervals()...), ok
	}
	if c.null {
		return index.NewTest(index.Unknown), true
	}
	switch kind {
	case "COMPARE_EQUAL":
		return d.between(&c, false, &c, false), true
	case "COMPARE_LESSTHAN":
		return d.between(nil, false, &c, true), true
	case "COMPARE_LESSTHANOREQUALTO":
		return d.between(nil, false, &c, false), true
	case "COMPARE_GREATERTHAN":
		return d.between(&c, true, nil, false), true
	case "COMPARE_GREATERTHANOREQUALTO":
		return d.between(&c, false, nil, false), true
	}
	return index.Test{}, false
}

// between makes the test of values between two constants, of which either may
// be absent.
func (d domain) between(from *constant, fromOpen bool, to *constant, toOpen bool) index.Test {
	var i index.Interval
	if from != nil {
		b, ok := d.low(*from, fromOpen)
		if !ok {
			return index.NewTest(index.Unknown)
		}
		if b != nil {
			i.Low, i.LowOpen = &b.value, b.open
		}
	}
	if to != nil {
		b, ok := d.high(*to, toOpen)
		if !ok {
			return index.NewTest(index.Unknown)
		}
		if b != nil {
			i.High, i.HighOpen = &b.value, b.open
		}
	}
	return index.NewTest(index.Unknown, i)
}

func (p predicates) between(e object, not bool) index.Condition {
	input, _ := e["input"].(object)
	lower, _ := e["lower"].(object)
	upper, _ := e["upper"].(object)
	kinds := [2]string{"COMPARE_GREATERTHAN", "COMPARE_LESSTHAN"}
	for i, key := range []string{"lower_inclusive", "upper_inclusive"} {
		if e[key] == true {
			kinds[i] += "OREQUALTO"
		}
	}
	parts := []index.Condition{p.comparison(kinds[0], input, lower, not), p.comparison(kinds[1], input, upper, not)}
	if not {
		return index.Or(parts...)
	}
	return index.And(parts...)
}

func (p predicates) operator(kind string, children []object, not bool) index.Condition {
	if len(children) == 0 {
		return nil
	}
	switch kind {
	case "OPERATOR_NOT":
		return p.expression(children[0], !not)
	case "OPERATOR_IS_NULL", "OPERATOR_IS_NOT_NULL":
		f, _, ok := p.operand(children[0])
		if !ok || text(children[0]["expression_class"]) == "BOUND_CAST" { // which can make a null of a value
			return nil
		}
		return where(f, domain{}, not != (kind == "OPERATOR_IS_NOT_NULL"), index.NewTest(index.True))
	case "COMPARE_IN", "COMPARE_NOT_IN":
		if kind == "COMPARE_NOT_IN" {
			not = !not
		}
		f, d, ok := p.operand(children[0])
		if !ok {
			return nil
		}
		var intervals []index.Interval
		null := false
		for _, v := range children[1:] {
			c, ok := p.constant(v, d)
			if !ok {
				return nil
			}
			null = null || c.null
			if !c.null {
				intervals = append(intervals, d.between(&c, false, &c, false).Intervals()...)
			}
		}
		if not && null { // never true
			return where(f, d, false, index.NewTest(index.Unknown))
		}
		return where(f, d, not, index.NewTest(index.Unknown, intervals...))
	}
	return nil
}

// prefix understands text that begins with a constant.
func (p predicates) prefix(e object, children []object, not bool) index.Condition {
	if name := text(e["name"]); name != "prefix" && name != "starts_with" && name != "^@" || len(children) != 2 {
		return nil
	}
	f, d, ok := p.operand(children[0])
	if !ok || d.typ != "VARCHAR" {
		return nil
	}
	c, ok := p.constant(children[1], d)
	if !ok {
		return nil
	}
	if c.null {
		return where(f, d, not, index.NewTest(index.Unknown))
	}
	from := index.String(c.text)
	i := index.Interval{Low: &from}
	if after, ok := successor(c.text); ok {
		to := index.String(after)
		i.High, i.HighOpen = &to, true
	}
	return where(f, d, not, index.NewTest(index.Unknown, i))
}

// successor is the least text above all texts that begin with s, if there is one.
func successor(s string) (string, bool) {
	b := []byte(s)
	for n := len(b) - 1; n >= 0; n-- {
		if b[n] < 0xFF {
			b[n]++
			return string(b[:n+1]), true
		}
	}
	return "", false
}

// operand finds the field that an expression is the value of, perhaps in a
// struct, perhaps cast.
func (p predicates) operand(e object) (*schema.Field, domain, bool) {
	switch text(e["expression_class"]) {
	case "BOUND_REF", "BOUND_FUNCTION":
		f := p.field(e)
		if f == nil || !p.relation.snapshot.IndexedBy(f) {
			return nil, domain{}, false
		}
		d, ok := domainOf(f)
		t := planTypeOf(e["return_type"])
		return f, d, ok && t.id == d.typ && (t.id != "DECIMAL" || t.scale == d.scale)
	case "BOUND_CAST":
		child, _ := e["child"].(object)
		f, d, ok := p.operand(child)
		if !ok {
			return nil, domain{}, false
		}
		d, ok = d.cast(planTypeOf(e["return_type"]))
		return f, d, ok
	}
	return nil, domain{}, false
}

// field follows a reference and the names of struct members.
func (p predicates) field(e object) *schema.Field {
	if text(e["expression_class"]) == "BOUND_REF" {
		at, _ := whole64(e["index"])
		if at < 0 || at >= int64(len(p.relation.columns)) {
			return nil
		}
		return p.relation.columns[at].field
	}
	children := objects(e["children"])
	if text(e["expression_class"]) != "BOUND_FUNCTION" || text(e["name"]) != "struct_extract" || len(children) != 2 ||
		text(children[1]["expression_class"]) != "BOUND_CONSTANT" {
		return nil
	}
	parent := p.field(children[0])
	if parent == nil || parent.Shape != schema.Struct || parent.Blob != schema.NotBlob {
		return nil
	}
	value, _ := children[1]["value"].(object)
	name, ok := value["value"].(string)
	i := slices.IndexFunc(parent.Children, func(c *schema.Field) bool { return strings.EqualFold(c.Name, name) })
	if !ok || i < 0 {
		return nil
	}
	return parent.Children[i]
}

// constant reads what a column of a domain is compared with.
func (p predicates) constant(e object, d domain) (constant, bool) {
	var c constant
	ok := false
	switch text(e["expression_class"]) {
	case "BOUND_CONSTANT":
		c, ok = constantOf(e["value"])
	case "BOUND_PARAMETER":
		c.typ = planTypeOf(e["return_type"])
		if v, given := p.params[text(e["identifier"])]; given {
			c, ok = boundConstant(c.typ, v)
		} else if p.params == nil {
			c.null, ok = true, true
		}
	}
	switch {
	case !ok || c.typ.id != d.typ:
		return c, false
	case c.null:
		return c, true
	case d.kind == index.Number:
		return c, c.number != nil
	}
	return c, true
}

// decodePlan decodes a plan with its numbers as they are written.
func decodePlan(s string) (object, error) {
	var plan object
	d := json.NewDecoder(strings.NewReader(s))
	d.UseNumber()
	return plan, d.Decode(&plan)
}
