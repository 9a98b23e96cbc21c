package statement

// ExplainClauses describes EXPLAIN [ANALYZE] [(options)] of a reading statement.
type ExplainClauses struct {
	Kind    Kind // of the explained statement: Select, Show or Describe
	Analyze bool // the statement is run as well
	Options Span // what stands in brackets behind EXPLAIN, brackets included
}

// ShowClauses describes SHOW [ALL] TABLES [FROM schema]. A bare SHOW or
// DESCRIBE is SHOW ALL TABLES, as in DuckDB.
type ShowClauses struct {
	All  bool // database, schema, name, columns, … of every schema instead of names
	From Name // schema, catalog, or catalog and schema; empty when not given
}

// DescribeClauses describes DESCRIBE, DESC or SHOW of a table, which is the
// statement's Target, or of a query.
type DescribeClauses struct {
	Query Span // empty for a table
}

var queryWords = []string{
	"select", "from", "values", "table", "with", "pivot", "pivot_wider", "pivot_longer", "unpivot",
}

// startsQuery says whether a query begins at token i, in brackets or not.
func (c *cursor) startsQuery(i int) bool {
	i = c.inside(i)
	return c.word(i, queryWords...) && (!c.word(i, "values") || c.op(i+1, "("))
}

// inside skips opening round brackets.
func (c *cursor) inside(i int) int {
	for c.op(i, "(") {
		i++
	}
	return i
}

// query takes the rest as a query.
func (c *cursor) query(s *Statement) error {
	s.Kind = Select
	c.at = c.end
	return nil
}

// explain reads EXPLAIN [ANALYZE] [(options)] statement. Only statements that
// read are explained: the engine runs what EXPLAIN ANALYZE names.
func (c *cursor) explain(s *Statement) error {
	e := &ExplainClauses{}
	c.at++
	if c.take("analyze", "analyse") {
		e.Analyze = true
	}
	if c.op(c.at, "(") && !c.startsQuery(c.at) && !c.word(c.inside(c.at), "describe", "desc", "show", "summarize") {
		closing := c.next(c.at)
		for i := c.at + 1; i < closing-1; i++ {
			e.Analyze = e.Analyze || c.word(i, "analyze", "analyse")
		}
		e.Options = c.span(c.at, closing)
		c.at = closing
	}
	if !c.more() {
		return c.expected(c.at, "a SELECT, SHOW TABLES or DESCRIBE to explain")
	}
	at := c.at
	if c.word(at, "explain") {
		return c.errorAt(at, "EXPLAIN of EXPLAIN is refused; name the query itself")
	}
	if err := c.main(s); err != nil {
		return err
	}
	if !s.Kind.Reads() {
		return c.errorAt(at, "EXPLAIN of %s is refused: only SELECT, SHOW TABLES and DESCRIBE can be explained; explain the query that feeds it", s.Kind)
	}
	e.Kind, s.Kind, s.Explain = s.Kind, Explain, e
	return nil
}

// with reads WITH [RECURSIVE] name [(columns)] [USING KEY (…)] AS
// [[NOT] MATERIALIZED] (query), … and stops at the main statement.
func (c *cursor) with() error {
	c.at++
	c.take("recursive")
	for {
		if !c.name(c.at) {
			return c.expected(c.at, "the name of a WITH query")
		}
		c.at++
		if c.op(c.at, "(") {
			c.at = c.next(c.at)
		}
		if c.takeAll("using", "key") {
			if !c.op(c.at, "(") {
				return c.expected(c.at, "the list of key columns")
			}
			c.at = c.next(c.at)
		}
		if !c.take("as") {
			return c.expected(c.at, "AS")
		}
		if !c.takeAll("not", "materialized") {
			c.take("materialized")
		}
		if !c.op(c.at, "(") {
			return c.expected(c.at, "a query in brackets")
		}
		if !c.startsQuery(c.at) {
			i := c.inside(c.at)
			return c.errorAt(i, "a WITH query must be a SELECT, FROM, VALUES or TABLE; %s is refused there", shown(c.str(i)))
		}
		c.at = c.next(c.at)
		if !c.takeOp(",") {
			break
		}
		// DuckDB takes a comma behind the last query too, but not in front of it.
		if c.word(c.at, queryWords...) {
			return c.errorAt(c.at-1, "this comma is one too many")
		}
	}
	if !c.more() {
		return c.expected(c.at, "a statement behind WITH")
	}
	return nil
}

// show reads SHOW and DESCRIBE.
func (c *cursor) show(s *Statement) error {
	isShow := c.word(c.at, "show")
	c.at++
	switch {
	case !c.more():
		s.Kind, s.Show = Show, &ShowClauses{All: true}
		return nil
	case isShow && c.takeAll("all", "tables"):
		s.Kind, s.Show = Show, &ShowClauses{All: true}
		return c.finish()
	case isShow && c.word(c.at, "tables") && (c.at+1 == c.end || c.word(c.at+1, "from")):
		c.at++
		s.Kind, s.Show = Show, &ShowClauses{}
		if c.take("from") {
			n, err := c.dotted("a schema", 2, c.relation)
			if err != nil {
				return err
			}
			s.Show.From = n
		}
		return c.finish()
	case isShow && c.at+1 == c.end && c.word(c.at, "databases", "schemas"):
		return c.errorAt(c.at, "SHOW %s is refused; select from information_schema.schemata, or use SHOW ALL TABLES", c.words(c.at, 1))
	case isShow && c.at+1 == c.end && c.word(c.at, "variables", "all"):
		return c.errorAt(c.at, "SHOW %s is refused: the engine's settings are fixed; the choices of a session are its session options", c.words(c.at, 1))
	}
	s.Kind, s.Describe = Describe, &DescribeClauses{}
	if c.startsQuery(c.at) {
		s.Describe.Query = c.span(c.at, c.end)
		c.at = c.end
		return nil
	}
	if i := c.inside(c.at); c.word(i, "insert", "update", "delete", "merge", "create", "drop", "alter", "call", "truncate") && i+1 < c.end {
		return c.errorAt(i, "DESCRIBE takes a table or a query, not %s", c.words(i, 1))
	}
	n, err := c.target("a table or a query")
	if err != nil {
		return err
	}
	s.Target = n
	if c.word(c.at, "at") {
		return c.errorAt(c.at, "DESCRIBE takes no AT clause; write DESCRIBE FROM %s AT (…)", n)
	}
	return c.finish()
}

// guard refuses what must not occur at any depth of any statement.
func (c *cursor) guard() error {
	for i := c.at; i < c.end; i++ {
		switch {
		case c.keyword(i, "summarize"):
			return c.errorAt(i, "SUMMARIZE is refused; name the columns in a SELECT, such as SELECT count(x), min(x), max(x) FROM t")
		case c.word(i, "pivot", "pivot_wider") && !c.op(i-1, ".") && (!c.word(i-1, "as") || c.relation(i+1) || c.op(i+1, "(")):
			if err := c.pivot(i); err != nil {
				return err
			}
		}
	}
	return nil
}

// pivot refuses PIVOT … ON column without IN list: it would need two statements,
// one that collects the values and one whose columns depend on them.
func (c *cursor) pivot(i int) error {
	until := i + 1
	for until < c.end && c.toks[until].kind != tokClose && !c.keyword(until, "pivot", "pivot_wider") {
		until = c.next(until)
	}
	if c.op(i+1, "(") {
		closing := int(c.toks[i+1].pair)
		f := c.find(i+2, closing, func(i int) bool { return c.keyword(i, "for") })
		if f < closing { // the form behind a table, whose grammar requires the lists
			return c.pivotLists(f, closing)
		}
	}
	on := c.find(i+1, until, func(i int) bool { return c.keyword(i, "on") })
	if on == until {
		return nil
	}
	last := c.find(on+1, until, func(i int) bool { return c.keyword(i, "using", "group", "order", "limit") })
	parts, err := c.split(on+1, last)
	if err != nil {
		return err
	}
	for _, p := range parts {
		if c.find(p[0], p[1], func(i int) bool { return c.keyword(i, "in") }) == p[1] {
			return c.errorAt(p[0], "PIVOT needs its IN list here: ON %s IN (value, …)", shown(c.span(p[0], p[1]).Of(c.text)))
		}
	}
	return c.pivotLists(on, last)
}

// pivotLists refuses IN (query) among the tokens [from, to).
func (c *cursor) pivotLists(from, to int) error {
	i := c.find(from, to, func(i int) bool { return c.keyword(i, "in") && c.op(i+1, "(") && c.startsQuery(i+1) })
	if i < to {
		return c.errorAt(i, "PIVOT needs the values themselves in its IN list, not a query")
	}
	return nil
}
