package statement

// CreateClauses describes CREATE [OR REPLACE] TABLE [IF NOT EXISTS] Target
// (columns) [WITH (…)], CREATE TABLE Target [(names)] [WITH (…)] AS query, and
// CREATE SCHEMA [IF NOT EXISTS] Target.
type CreateClauses struct {
	OrReplace   bool
	IfNotExists bool
	Columns     []ColumnDef // of CreateTable
	Names       []Part      // of CreateTableAs: names for the columns of the query
	With        Span        // WITH (…), to be cut out before the engine sees the text
	Settings    []Setting   // of With
	Query       Span        // of CreateTableAs
	NoData      bool        // WITH NO DATA behind Query
}

// DropClauses describes DROP TABLE and DROP SCHEMA.
type DropClauses struct {
	IfExists bool
}

// otherObjects says what to do instead of objects that a Lance namespace has not.
var otherObjects = map[string]string{
	"view":         "keep the query in the client, or store its rows by CREATE TABLE AS",
	"materialized": "store the rows by CREATE TABLE AS",
	"recursive":    "keep the query in the client, or store its rows by CREATE TABLE AS",
	"macro":        "write the expression into the query",
	"function":     "write the expression into the query",
	"aggregate":    "write the expression into the query",
	"type":         "write the type out, such as STRUCT(a INT, b LANCE_BLOB)",
	"sequence":     "number rows with row_number() OVER ()",
	"index":        "scans need none; existing indexes of a table are kept",
	"unique":       "tables enforce no keys; MERGE INTO … ON keeps rows unique",
	"secret":       "start the server with --storage FILE",
	"persistent":   "start the server with --storage FILE",
	"database":     "catalogs are the server's roots; start it with --root NAME=URI",
	"trigger":      "tables run nothing by themselves",
	"role":         "access is set by the server's flags",
	"user":         "access is set by the server's flags",
	"extension":    "extensions are not loaded here",
	"external":     "start the server with a --root that holds the table",
}

// otherObject names the object at the cursor that only refused statements have.
func (c *cursor) otherObject() (string, bool) {
	if !c.more() || c.toks[c.at].kind != tokWord {
		return "", false
	}
	advice, ok := otherObjects[lowerWord(c.str(c.at))]
	return advice, ok
}

func (c *cursor) create(s *Statement) error {
	cr := &CreateClauses{}
	s.Create = cr
	start := c.at
	c.at++
	cr.OrReplace = c.takeAll("or", "replace")
	switch {
	case c.word(c.at, "temp", "temporary", "local", "global", "unlogged"):
		return c.errorAt(c.at, "%s objects are refused: each statement stands alone, there is no session to keep them; use WITH in the statement that needs them", c.words(c.at, 1))
	case c.take("table"):
	case c.take("schema"):
		if cr.OrReplace {
			return c.errorAt(start, "CREATE OR REPLACE SCHEMA is refused; use CREATE SCHEMA IF NOT EXISTS")
		}
		s.Kind = CreateSchema
	default:
		if advice, ok := c.otherObject(); ok {
			return c.errorAt(start, "CREATE %s is refused: %s", c.words(c.at, 1), advice)
		}
		return c.expected(c.at, "TABLE or SCHEMA")
	}
	if c.takeAll("if", "not", "exists") {
		if cr.OrReplace {
			return c.errorAt(start, "OR REPLACE and IF NOT EXISTS exclude each other")
		}
		cr.IfNotExists = true
	}
	if s.Kind == CreateSchema {
		return c.schemaName(s)
	}
	if err := c.writeTarget(s); err != nil {
		return err
	}
	return c.createTable(s)
}

// schemaName reads the last thing of CREATE SCHEMA and DROP SCHEMA.
func (c *cursor) schemaName(s *Statement) error {
	n, err := c.dotted("the name of a schema", 2, c.relation)
	if err != nil {
		return err
	}
	s.Target = n
	if c.word(c.at, "cascade") {
		return c.errorAt(c.at, "CASCADE is refused for a schema; drop its tables first")
	}
	if s.Kind == DropSchema {
		c.take("restrict")
	}
	return c.finish()
}

func (c *cursor) createTable(s *Statement) error {
	cr := s.Create
	open := c.at
	if c.op(open, "(") {
		c.at = c.next(open)
	} else if !c.word(c.at, "as", "with") {
		return c.expected(c.at, "a list of columns, or AS and a query,")
	}
	if c.word(c.at, "with") && c.op(c.at+1, "(") {
		from := c.at
		c.at++
		var err error
		if cr.Settings, err = c.settings(s.Params); err != nil {
			return err
		}
		cr.With = c.span(from, c.at)
	}
	switch {
	case c.take("as"):
		return c.createAs(s, open)
	case c.word(c.at, "partitioned", "sorted"):
		return c.errorAt(c.at, "%s is refused: a table keeps its rows in the order of writing", c.words(c.at, 2))
	case c.word(c.at, "on"):
		return c.errorAt(c.at, "ON COMMIT is refused: there are no temporary tables")
	case !c.op(open, "("):
		return c.expected(c.at, "AS and a query")
	}
	if err := c.finish(); err != nil {
		return err
	}
	s.Kind = CreateTable
	var err error
	cr.Columns, err = c.columnDefs(open)
	return err
}

// createAs reads the query behind AS; open is the bracket of a list of names, if
// one stands there.
func (c *cursor) createAs(s *Statement, open int) error {
	cr := s.Create
	s.Kind = CreateTableAs
	if c.op(open, "(") {
		back := c.at
		c.at = open
		var err error
		if cr.Names, err = c.columnList("CREATE TABLE AS"); err != nil {
			return err
		}
		c.at = back
	}
	if !c.startsQuery(c.at) {
		return c.expected(c.at, "a query")
	}
	to := c.end
	switch {
	case c.word(to-1, "data") && c.word(to-2, "no") && c.keyword(to-3, "with"):
		to -= 3
		cr.NoData = true
	case c.word(to-1, "data") && c.keyword(to-2, "with"):
		to -= 2
	}
	var err error
	if cr.Query, err = c.clause(to, "a query"); err != nil {
		return err
	}
	c.at = c.end
	return nil
}

func (c *cursor) drop(s *Statement) error {
	s.Drop = &DropClauses{}
	start := c.at
	c.at++
	switch {
	case c.take("table"):
		s.Kind = DropTable
	case c.take("schema"):
		s.Kind = DropSchema
	default:
		if _, ok := c.otherObject(); ok {
			return c.errorAt(start, "DROP %s is refused: there are tables and schemas only", c.words(c.at, 1))
		}
		return c.expected(c.at, "TABLE or SCHEMA")
	}
	s.Drop.IfExists = c.takeAll("if", "exists")
	if s.Kind == DropSchema {
		return c.schemaName(s)
	}
	if err := c.writeTarget(s); err != nil {
		return err
	}
	if c.op(c.at, ",") {
		return c.errorAt(c.at, "one table is dropped at a time; each statement commits by itself")
	}
	// Nothing depends on a table, so both words mean the same.
	c.take("cascade", "restrict")
	return c.finish()
}
