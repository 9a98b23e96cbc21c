package statement

// InsertClauses describes INSERT INTO Target [AS alias] [(columns)] [BY NAME]
// source [RETURNING list].
type InsertClauses struct {
	Alias   Part   // name of the target in Returning; no text when not given
	Columns []Part // as listed; none means all columns in order
	ByName  bool   // columns are matched by the names of the source
	// Source is the query, VALUES included; empty for DEFAULT VALUES, which is one
	// row of defaults.
	Source Span
	// Rows are the rows, brackets included, of a source that is VALUES and nothing
	// else; none for other queries.
	Rows []Span
	// Values are the expressions of each of Rows.
	Values [][]Span
	// Defaults are the words DEFAULT in Rows. A query does not take the word; a
	// table without defaults means NULL by it.
	Defaults  []Span
	Returning Span // the list behind RETURNING
}

// Assignment is one column = value of SET.
type Assignment struct {
	Column  Part
	Value   Span // the expression
	Default bool // the value is the word DEFAULT: NULL where tables have no defaults
}

// UpdateClauses describes UPDATE Target [[AS] alias] SET … [FROM …] [WHERE …]
// [RETURNING …].
type UpdateClauses struct {
	Alias     Part
	Set       []Assignment // (a, b) = (x, y) counts as two
	From      Span         // the list of tables behind FROM
	Where     Span         // the condition
	Returning Span
}

// DeleteClauses describes DELETE FROM Target [[AS] alias] [USING …] [WHERE …]
// [RETURNING …].
type DeleteClauses struct {
	Alias     Part
	Using     Span // the list of tables behind USING
	Where     Span // the condition
	Returning Span
}

// writeTarget reads the table that a statement writes. A version cannot be
// written.
func (c *cursor) writeTarget(s *Statement) error {
	n, err := c.target("the name of a table")
	if err != nil {
		return err
	}
	s.Target = n
	return c.noAt()
}

func (c *cursor) noAt() error {
	if c.word(c.at, "at") && c.op(c.at+1, "(") {
		return c.errorAt(c.at, "a write goes to the newest version; AT stands in queries only")
	}
	return nil
}

// alias reads [AS] alias. With strict, AS is required.
func (c *cursor) alias(strict bool) (Part, error) {
	if c.take("as") {
		if !c.relation(c.at) {
			return Part{}, c.expected(c.at, "an alias")
		}
	} else if strict || !c.relation(c.at) {
		return Part{}, nil
	}
	p := c.part(c.at)
	c.at++
	return p, c.noAt()
}

// clause takes the tokens [c.at, to) as the body of the clause that began
// before it.
func (c *cursor) clause(to int, what string) (Span, error) {
	if to == c.at {
		return Span{}, c.expected(c.at, what)
	}
	s := c.span(c.at, to)
	c.at = to
	return s, nil
}

// until finds the first of the keywords outside brackets, else the end.
func (c *cursor) until(words ...string) int {
	return c.find(c.at, c.end, func(i int) bool { return c.keyword(i, words...) })
}

// returning reads the optional RETURNING list, the last clause of a write.
func (c *cursor) returning() (Span, error) {
	if !c.take("returning") {
		return Span{}, c.finish()
	}
	if at := c.find(c.at, c.end, func(i int) bool { return c.word(i, afterList...) && !c.word(i-1, "as") && !c.op(i-1, ".") }); at > c.at && at < c.end {
		return Span{}, c.errorAt(at, "%s has no place behind RETURNING, which takes expressions over one row; select from the table afterwards", c.words(at, 1))
	}
	return c.clause(c.end, "the list behind RETURNING")
}

// afterList are reserved words that go on with a query behind its list.
var afterList = []string{"from", "where", "group", "having", "window", "qualify", "order", "limit", "offset", "union", "intersect", "except"}

func (c *cursor) insert(s *Statement) error {
	const byKey = "tables have no unique keys; MERGE INTO replaces or skips rows by a condition"
	ins := &InsertClauses{}
	s.Kind, s.Insert = Insert, ins
	c.at++
	if c.word(c.at, "or") {
		return c.errorAt(c.at, "INSERT %s is refused: %s", c.words(c.at, 2), byKey)
	}
	if !c.take("into") {
		return c.expected(c.at, "INTO")
	}
	if err := c.writeTarget(s); err != nil {
		return err
	}
	var err error
	if ins.Alias, err = c.alias(true); err != nil {
		return err
	}
	if c.op(c.at, "(") && !c.startsQuery(c.at) {
		if ins.Columns, err = c.columnList("an INSERT"); err != nil {
			return err
		}
	} else if c.takeAll("by", "name") {
		ins.ByName = true
	} else {
		c.takeAll("by", "position")
	}
	if c.takeAll("default", "values") {
		if c.word(c.at, "on") {
			return c.errorAt(c.at, "ON CONFLICT is refused: %s", byKey)
		}
		ins.Returning, err = c.returning()
		return err
	}
	if !c.startsQuery(c.at) {
		return c.expected(c.at, "VALUES or a query")
	}
	to := c.until("returning")
	if on := c.conflict(to); on < to {
		return c.errorAt(on, "ON CONFLICT is refused: %s", byKey)
	}
	if err := c.values(ins, c.at, to); err != nil {
		return err
	}
	if ins.ByName && ins.Rows != nil {
		return c.errorAt(c.at, "BY NAME takes the names of a query; VALUES has none: list the columns behind the table instead")
	}
	if ins.Source, err = c.clause(to, "VALUES or a query"); err != nil {
		return err
	}
	ins.Returning, err = c.returning()
	return err
}

// conflict finds ON CONFLICT … DO in [c.at, to). ON conflict alone may be the
// condition of a join; DO stands nowhere else.
func (c *cursor) conflict(to int) int {
	do := c.find(c.at, to, func(i int) bool { return c.keyword(i, "do") })
	if do == to {
		return to
	}
	on := to
	for i := c.at; i < do; i = c.next(i) {
		if c.keyword(i, "on") && c.word(i+1, "conflict") {
			on = i
		}
	}
	return on
}

// values fills Rows and Defaults when the tokens [from, to) are one VALUES list,
// in brackets or not.
func (c *cursor) values(ins *InsertClauses, from, to int) error {
	for c.op(from, "(") && c.next(from) == to {
		from, to = from+1, to-1
	}
	plain := c.word(from, "values")
	var rows []Span
	var opens []int
	for at := from + 1; plain && at < to; {
		if !c.op(at, "(") {
			plain = false
			break
		}
		rows, opens = append(rows, c.span(at, c.next(at))), append(opens, at)
		at = c.next(at)
		if at < to {
			plain = c.op(at, ",")
			at++
		}
	}
	if plain {
		ins.Rows = rows
	}
	for _, row := range opens {
		if !plain {
			break
		}
		parts, err := c.split(row+1, int(c.toks[row].pair))
		if err != nil {
			return err
		}
		values := make([]Span, len(parts))
		for i, p := range parts {
			values[i] = c.span(p[0], p[1])
		}
		ins.Values = append(ins.Values, values)
	}
	for i := from; i < to; i++ {
		if !c.keyword(i, "default") {
			continue
		}
		if !plain {
			return c.errorAt(i, "DEFAULT stands in a plain VALUES list only; write NULL")
		}
		ins.Defaults = append(ins.Defaults, c.spanOf(i))
	}
	return nil
}

// columnList reads (a, "b", …) of top-level columns.
func (c *cursor) columnList(what string) ([]Part, error) {
	open := c.at
	closing := int(c.toks[open].pair)
	parts, err := c.split(open+1, closing)
	if err != nil {
		return nil, err
	}
	if len(parts) == 0 {
		return nil, c.errorAt(closing, "a column is missing here")
	}
	columns := make([]Part, 0, len(parts))
	for _, p := range parts {
		column, err := c.topColumn(p[0], p[1], what)
		if err != nil {
			return nil, err
		}
		columns = append(columns, column)
	}
	c.at = closing + 1
	return columns, nil
}

// topColumn reads the tokens [from, to) as a column that is written as a whole.
func (c *cursor) topColumn(from, to int, what string) (Part, error) {
	if !c.name(from) {
		return Part{}, c.expected(from, "a column")
	}
	p := c.part(from)
	if to == from+1 {
		return p, nil
	}
	if c.op(from+1, ".") || c.op(from+1, "[") {
		return p, c.errorAt(from+1, "%s writes whole columns; build the new value of %s with struct_insert, struct_pack or list functions", what, p)
	}
	return p, c.expected(from+1, "a comma")
}

func (c *cursor) update(s *Statement) error {
	u := &UpdateClauses{}
	s.Kind, s.Update = Update, u
	c.at++
	if err := c.writeTarget(s); err != nil {
		return err
	}
	var err error
	if !c.word(c.at, "set") {
		if u.Alias, err = c.alias(false); err != nil {
			return err
		}
	}
	if !c.take("set") {
		return c.expected(c.at, "SET")
	}
	to := c.setEnd(c.end)
	if u.Set, err = c.assignments(to); err != nil {
		return err
	}
	if c.take("from") {
		if u.From, err = c.clause(c.until("where", "returning"), "a table"); err != nil {
			return err
		}
	}
	if c.take("where") {
		if u.Where, err = c.clause(c.until("returning"), "a condition"); err != nil {
			return err
		}
	}
	u.Returning, err = c.returning()
	return err
}

// setEnd finds the end of a SET list before to: FROM, WHERE or RETURNING, where
// the FROM of IS [NOT] DISTINCT FROM is none.
func (c *cursor) setEnd(to int) int {
	return c.find(c.at, to, func(i int) bool {
		return c.keyword(i, "where", "returning") || c.keyword(i, "from") && !c.distinctFrom(i)
	})
}

// distinctFrom says whether the FROM at i is part of IS [NOT] DISTINCT FROM.
func (c *cursor) distinctFrom(i int) bool {
	return c.word(i-1, "distinct") && (c.word(i-2, "is") || c.word(i-2, "not") && c.word(i-3, "is"))
}

// assignments reads column = value, (a, b) = (x, y), … up to to.
func (c *cursor) assignments(to int) ([]Assignment, error) {
	if c.at == to {
		return nil, c.expected(c.at, "an assignment")
	}
	parts, err := c.split(c.at, to)
	if err != nil {
		return nil, err
	}
	var set []Assignment
	for _, p := range parts {
		eq := c.find(p[0], p[1], func(i int) bool { return c.op(i, "=") })
		switch {
		case eq == p[1]:
			return nil, c.errorAt(p[0], "an assignment is column = value, this is %s", shown(c.span(p[0], p[1]).Of(c.text)))
		case eq+1 == p[1]:
			return nil, c.errorAt(eq, "the value behind this = is missing")
		case c.op(p[0], "("):
			several, err := c.rowAssignment(p[0], eq, p[1])
			if err != nil {
				return nil, err
			}
			set = append(set, several...)
			continue
		}
		column, err := c.topColumn(p[0], eq, "SET")
		if err != nil {
			return nil, err
		}
		set = append(set, c.assign(column, eq+1, p[1]))
	}
	c.at = to
	return set, nil
}

func (c *cursor) assign(column Part, from, to int) Assignment {
	return Assignment{Column: column, Value: c.span(from, to), Default: to == from+1 && c.word(from, "default")}
}

// rowAssignment reads (a, b) = (x, y) and (a, b) = ROW(x, y) as single
// assignments.
func (c *cursor) rowAssignment(from, eq, to int) ([]Assignment, error) {
	if c.next(from) != eq {
		return nil, c.expected(c.next(from), "=")
	}
	back := c.at
	c.at = from
	columns, err := c.columnList("SET")
	c.at = back
	if err != nil {
		return nil, err
	}
	if len(columns) == 1 {
		return []Assignment{c.assign(columns[0], eq+1, to)}, nil
	}
	open := eq + 1
	if c.word(open, "row") {
		open++
	}
	if !c.op(open, "(") || c.next(open) != to || c.startsQuery(open) {
		return nil, c.errorAt(eq+1, "several columns take a row of as many expressions; for the columns of a query write UPDATE … SET … FROM (query)")
	}
	values, err := c.split(open+1, to-1)
	if err != nil {
		return nil, err
	}
	if len(values) != len(columns) {
		return nil, c.errorAt(open, "%d columns are set by %d values", len(columns), len(values))
	}
	set := make([]Assignment, len(columns))
	for n, v := range values {
		set[n] = c.assign(columns[n], v[0], v[1])
	}
	return set, nil
}

func (c *cursor) delete(s *Statement) error {
	d := &DeleteClauses{}
	s.Kind, s.Delete = Delete, d
	c.at++
	if !c.take("from") {
		return c.expected(c.at, "FROM")
	}
	if err := c.writeTarget(s); err != nil {
		return err
	}
	var err error
	if d.Alias, err = c.alias(false); err != nil {
		return err
	}
	if c.take("using") {
		if d.Using, err = c.clause(c.until("where", "returning"), "a table"); err != nil {
			return err
		}
	}
	if c.take("where") {
		if d.Where, err = c.clause(c.until("returning"), "a condition"); err != nil {
			return err
		}
	}
	d.Returning, err = c.returning()
	return err
}

func (c *cursor) truncate(s *Statement) error {
	s.Kind = Truncate
	c.at++
	c.take("table")
	if err := c.writeTarget(s); err != nil {
		return err
	}
	return c.finish()
}
