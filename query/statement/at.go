package statement

// Unit is how an AT clause names a version.
type Unit uint8

// The units of AT.
const (
	AtVersion   Unit = iota + 1 // AT (VERSION => n)
	AtTimestamp                 // AT (TIMESTAMP => t)
)

// String names the unit as SQL does.
func (u Unit) String() string {
	return [...]string{"", "VERSION", "TIMESTAMP"}[min(u, AtTimestamp)]
}

// At is one AT clause behind a table.
type At struct {
	Span  Span // AT (…)
	Ref   Span // the table reference: table, alias and AT clause
	Table Name // as written; a plain string is one quoted part
	// Alias is the alias with its AS and column list as written, empty when none
	// stands behind the table.
	Alias Span
	// Prefixed says that the alias stands in front, as in FROM a : t, outside Ref.
	Prefixed bool
	Unit     Unit
	Value    Span    // the expression behind =>
	Literal  Literal // the value when it is a literal, else of kind 0
}

// Replace makes the edit of text that puts another table expression, such as a
// call of a table function, where the clause's table stands. Columns qualified
// by the table's name or alias still find it.
func (a At) Replace(text, table string) Edit {
	switch {
	case !a.Alias.Empty():
		table += " " + a.Alias.Of(text)
	case !a.Prefixed:
		table += " AS " + Quote(a.Table.Last())
	}
	return Edit{Span: a.Ref, Text: table}
}

// collectAts finds the AT clauses in the tokens [from, to).
func (c *cursor) collectAts(from, to int, params []Param) ([]At, error) {
	var ats []At
	for i := from; i < to; i++ {
		if !c.isAt(i) {
			continue
		}
		at, err := c.atClause(from, i, params)
		if err != nil {
			return nil, err
		}
		ats = append(ats, at)
	}
	return ats, nil
}

// isAt tells AT (unit => …) behind a table from a function named at.
func (c *cursor) isAt(i int) bool {
	if !c.keyword(i, "at") || !c.op(i+1, "(") || i+3 >= c.end {
		return false
	}
	if c.toks[i+2].kind != tokWord || !c.op(i+3, "=>") && !c.op(i+3, ":=") {
		return false
	}
	return i > 0 && (c.toks[i-1].kind == tokClose || c.nameEnd(i-1))
}

func (c *cursor) atClause(from, i int, params []Param) (At, error) {
	closing := int(c.toks[i+1].pair)
	at := At{Span: c.span(i, closing+1)}
	switch {
	case c.word(i+2, "version"):
		at.Unit = AtVersion
	case c.word(i+2, "timestamp"):
		at.Unit = AtTimestamp
	default:
		return at, c.errorAt(i+2, "AT takes VERSION or TIMESTAMP; for a tag or branch write lance_scan('t', tag := 'x')")
	}
	if !c.op(i+3, "=>") {
		return at, c.errorAt(i+3, "AT takes => and not :=")
	}
	if i+4 == closing {
		return at, c.errorAt(closing, "the value is missing here")
	}
	if n := c.find(i+4, closing, func(i int) bool { return c.op(i, ",") }); n < closing {
		return at, c.errorAt(n, "AT takes one version or timestamp")
	}
	at.Value = c.span(i+4, closing)
	if l, ok := c.literal(i+4, closing, params); ok {
		at.Literal = l
	}
	if err := c.atTable(&at, from, i); err != nil {
		return at, err
	}
	at.Ref.End = at.Span.End
	return at, nil
}

// atTable reads backwards from AT: table [[AS] alias [(columns)]].
func (c *cursor) atTable(at *At, from, i int) error {
	notTable := func() error {
		return c.errorAt(i, "AT stands behind the name of a table and its alias; a function takes the version itself: lance_scan('t', version := 3)")
	}
	j := i - 1
	list := c.toks[j].kind == tokClose
	if list {
		if !c.op(j, ")") {
			return notTable()
		}
		j = int(c.toks[j].pair) - 1
		if j < from {
			return notTable()
		}
	}
	if !c.nameEnd(j) {
		return notTable()
	}
	end := j // last token of the table's name
	switch {
	case c.word(j-1, "as"):
		at.Alias = c.span(j-1, i)
		end = j - 2
	case c.nameEnd(j-1) && c.toks[j].kind != tokString:
		at.Alias = c.span(j, i)
		end = j - 1
	case list:
		return notTable()
	}
	first := end
	for c.op(first-1, ".") && first-2 >= from {
		first -= 2
	}
	if first < from || !c.nameEnd(end) || c.op(first-1, ")") {
		return notTable()
	}
	if c.word(first-1, "table") {
		return c.errorAt(first-1, "TABLE takes no AT clause; write FROM in its place")
	}
	inner := &cursor{text: c.text, toks: c.toks, at: first, end: end + 1}
	name, err := inner.target("a table")
	if err != nil {
		return err
	}
	if inner.more() {
		return notTable()
	}
	at.Table = name
	at.Prefixed = c.op(first-1, ":")
	at.Ref.Start = name.Span().Start
	return nil
}

// nameEnd says whether a table's name can end with token i.
func (c *cursor) nameEnd(i int) bool {
	if i < 0 || i >= c.end {
		return false
	}
	return c.toks[i].kind == tokString || c.relation(i) || c.op(i-1, ".") && c.toks[i].kind == tokWord
}
