package index

import (
	"strings"

	"github.com/flightblob/flightblob/schema"
)

// Condition narrows down the rows that a larger condition can be true of: it is
// true of every row that the larger one is true of, and perhaps of more. A nil
// Condition says nothing.
type Condition interface {
	String() string
}

// Where is a test of one field's values.
type Where struct {
	Field *schema.Field
	Test  Test
}

// Every is true where all conditions are.
type Every []Condition

// Any is true where one condition is.
type Any []Condition

// And joins conditions, of which those that say nothing do not matter. Tests of
// one field become one.
func And(conditions ...Condition) Condition {
	var parts []Condition
	for _, c := range conditions {
		switch c := c.(type) {
		case nil:
		case Every:
			parts = append(parts, c...)
		default:
			parts = append(parts, c)
		}
	}
	parts = merged(parts, and)
	switch len(parts) {
	case 0:
		return nil
	case 1:
		return parts[0]
	}
	return Every(parts)
}

// Or joins alternatives; if one says nothing, nothing is said.
func Or(conditions ...Condition) Condition {
	var parts []Condition
	for _, c := range conditions {
		switch c := c.(type) {
		case nil:
			return nil
		case Any:
			parts = append(parts, c...)
		default:
			parts = append(parts, c)
		}
	}
	parts = merged(parts, or)
	switch len(parts) {
	case 0:
		return nil
	case 1:
		return parts[0]
	}
	return Any(parts)
}

// merged makes one test of those of each field.
func merged(parts []Condition, join func([]Test) Test) []Condition {
	tests := map[*schema.Field][]Test{}
	for _, p := range parts {
		if w, ok := p.(Where); ok {
			tests[w.Field] = append(tests[w.Field], w.Test)
		}
	}
	out := parts[:0]
	for _, p := range parts {
		w, ok := p.(Where)
		if !ok {
			out = append(out, p)
			continue
		}
		if all := tests[w.Field]; all != nil {
			if len(all) > 1 {
				w.Test = join(all)
			}
			out = append(out, w)
			delete(tests, w.Field)
		}
	}
	return out
}

// String shows the condition for tests and logs.
func (w Where) String() string { return w.Field.Name + " in " + w.Test.String() }

// String shows the condition for tests and logs.
func (e Every) String() string { return joined(e, " and ") }

// String shows the condition for tests and logs.
func (a Any) String() string { return joined(a, " or ") }

func joined(list []Condition, word string) string {
	parts := make([]string, len(list))
	for i, c := range list {
		parts[i] = c.String()
	}
	return "(" + strings.Join(parts, word) + ")"
}
