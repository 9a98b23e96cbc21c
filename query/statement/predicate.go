package statement

import "github.com/flightblob/flightblob/internal/fault"

// CheckPredicate reads a text as one condition, such as the filter of a ticket,
// and gives it without blanks and comments around it. Subqueries, parameters,
// semicolons and anything behind the condition are *Error of fault.Invalid. It
// does not prove that the text is an expression: the engine does, with the
// result in brackets and a line break before the closing one, since a comment
// may stand in it.
func CheckPredicate(text string) (string, error) {
	toks, err := lex(text)
	if err != nil {
		return "", err
	}
	c := &cursor{text: plainBlanks(text, toks), toks: toks, end: len(toks) - 1}
	if !c.more() {
		return "", fail(fault.Invalid, text, 0, "the condition is empty")
	}
	for i := c.at; i < c.end; i++ {
		switch {
		case c.toks[i].kind == tokParam:
			return "", c.errorAt(i, "a condition takes no parameters; write the value")
		case c.op(i, ";"):
			return "", c.errorAt(i, "a condition ends without ;")
		case c.subquery(i):
			return "", c.errorAt(i, "a condition holds no subquery; run a SELECT statement instead")
		}
	}
	after := func(i int) bool {
		return c.op(i, ",") || c.op(i, ":=") || c.op(i, "=>") || c.word(i, "as") && !c.op(i-1, ".") ||
			c.keyword(i, "order", "limit", "offset", "group", "having", "union", "except", "intersect", "window", "qualify",
				"returning", "fetch", "for", "into", "on", "using", "where", "from", "asc", "desc") && !c.distinctFrom(i)
	}
	if i := c.find(c.at, c.end, after); i < c.end {
		return "", c.errorAt(i, "this is one condition; %s cannot stand behind it", shown(c.str(i)))
	}
	return c.span(c.at, c.end).Of(c.text), nil
}

// subquery says whether token i is a word that only a query holds. FROM has its
// place in IS DISTINCT FROM and inside extract, trim, substring and overlay.
func (c *cursor) subquery(i int) bool {
	switch {
	case c.keyword(i, "select", "table", "with", "pivot", "pivot_wider", "pivot_longer", "unpivot", "describe", "show", "summarize"):
		return true
	case c.keyword(i, "values"):
		return c.op(i+1, "(")
	case c.keyword(i, "from"):
		return i > 0 && c.toks[i-1].kind == tokOpen && !c.word(i-2, "trim")
	}
	return false
}
