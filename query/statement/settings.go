package statement

import "strings"

// Setting is one key = literal of WITH (…) or SET (…).
type Setting struct {
	Key   string // between the quotes or as written; ParsePath splits a column's
	Value Literal
	Span  Span // key to value
}

// settings reads (key = literal, …) at the cursor.
func (c *cursor) settings(params []Param) ([]Setting, error) {
	if !c.op(c.at, "(") {
		return nil, c.expected(c.at, "a list (key = value, …)")
	}
	closing := int(c.toks[c.at].pair)
	parts, err := c.split(c.at+1, closing)
	if err != nil {
		return nil, err
	}
	if len(parts) == 0 {
		return nil, c.errorAt(closing, "a setting is missing here")
	}
	seen := map[string]bool{}
	settings := make([]Setting, 0, len(parts))
	for _, p := range parts {
		from, to := p[0], p[1]
		if k := c.toks[from].kind; k != tokWord && k != tokQuoted && k != tokString {
			return nil, c.expected(from, "the name of a setting")
		}
		s := Setting{Key: c.identifier(from), Span: c.span(from, to)}
		switch {
		case c.op(from+1, "."):
			eq := c.find(from, to, func(i int) bool { return c.op(i, "=") })
			key := strings.TrimSpace(c.span(from, eq).Of(c.text))
			return nil, c.errorAt(from, "a setting with a dot needs double quotes: %s", Quote(shown(key)))
		case from+1 >= to || !c.op(from+1, "="):
			return nil, c.errorAt(from, "setting %s needs a value: %s = value", shown(s.Key), shown(c.str(from)))
		}
		var ok bool
		if s.Value, ok = c.literal(from+2, to, params); !ok || s.Value.Kind == Bound {
			return nil, c.errorAt(min(from+2, to), "setting %s takes a literal such as true, 65536 or '2.2', not %s", shown(s.Key), shown(c.span(from+2, to).Of(c.text)))
		}
		key := lowerWord(s.Key)
		if seen[key] {
			return nil, c.errorAt(from, "setting %s is given twice", shown(s.Key))
		}
		seen[key] = true
		settings = append(settings, s)
	}
	c.at = closing + 1
	return settings, nil
}
