package statement

// Match is which rows a WHEN clause of MERGE is for.
type Match uint8

// The matches.
const (
	Matched            Match = iota + 1 // a target row with a source row
	NotMatched                          // a source row without target row; also written BY TARGET
	NotMatchedBySource                  // a target row without source row
)

// String names the match as SQL does.
func (m Match) String() string {
	return [...]string{"", "MATCHED", "NOT MATCHED", "NOT MATCHED BY SOURCE"}[min(m, NotMatchedBySource)]
}

// Action is what a WHEN clause of MERGE does.
type Action uint8

// The actions.
const (
	MergeUpdate  Action = iota + 1
	MergeDelete         // the target row
	MergeInsert         // one row
	MergeNothing        // DO NOTHING: the row is left out of later clauses
	MergeError          // the whole statement fails
)

// String names the action as SQL does.
func (a Action) String() string {
	return [...]string{"", "UPDATE", "DELETE", "INSERT", "DO NOTHING", "ERROR"}[min(a, MergeError)]
}

// Columns is how UPDATE and INSERT of MERGE find their columns.
type Columns uint8

// The ways.
const (
	Listed     Columns = iota + 1 // SET list, or VALUES with or without column list
	ByPosition                    // all source columns in order: also UPDATE SET *, INSERT *, and nothing written
	ByName                        // the source columns by name
	Defaults                      // INSERT DEFAULT VALUES
)

// String names the way.
func (w Columns) String() string {
	return [...]string{"", "listed", "by position", "by name", "defaults"}[min(w, Defaults)]
}

// MergeClauses describes MERGE INTO Target [[AS] alias] USING source (ON
// condition | USING (columns)) WHEN … [RETURNING …].
type MergeClauses struct {
	Alias  Part
	Source Span // the table reference, alias and AT clause included
	// SourceName is by what the columns of the source are qualified: its alias, or
	// the last part of a table's or function's name. Empty when there is none or,
	// for a join, when there are several.
	SourceName  string
	On          Span   // the condition; empty with Using
	Using       []Part // the columns equal on both sides
	When        []WhenClause
	Returning   Span
	ActionWords []ActionWord // merge_action behind RETURNING
}

// ActionWord is the word merge_action in a list behind RETURNING.
type ActionWord struct {
	Span  Span
	Alone bool // it is a whole item
}

// ActionNames puts the name of an action in the place of merge_action.
func (m *MergeClauses) ActionNames(a Action) []Edit {
	var edits []Edit
	for _, n := range m.ActionWords {
		text := "'" + a.String() + "'"
		if n.Alone {
			text += " AS merge_action"
		}
		edits = append(edits, Edit{Span: n.Span, Text: text})
	}
	return edits
}

// WhenClause is WHEN match [AND condition] THEN action. For a row the first
// clause counts whose match and condition hold.
type WhenClause struct {
	Span      Span // from WHEN to the end of the action
	Match     Match
	Condition Span // behind AND; empty when unconditional
	Action    Action
	Columns   Columns      // of MergeUpdate and MergeInsert
	Set       []Assignment // of a Listed MergeUpdate
	Into      []Part       // column list of a Listed MergeInsert; none means all
	Values    []Value      // of a Listed MergeInsert
	Message   Span         // expression behind ERROR; may be empty
}

// Value is one expression of VALUES.
type Value struct {
	Span    Span
	Default bool // the word DEFAULT: NULL where tables have no defaults
}

func (c *cursor) merge(s *Statement) error {
	m := &MergeClauses{}
	s.Kind, s.Merge = Merge, m
	c.at++
	if !c.take("into") {
		return c.expected(c.at, "INTO")
	}
	if err := c.writeTarget(s); err != nil {
		return err
	}
	var err error
	if m.Alias, err = c.alias(false); err != nil {
		return err
	}
	if !c.take("using") {
		return c.expected(c.at, "USING")
	}
	whens := c.whens()
	if err := c.mergeSource(m, whens[0]); err != nil {
		return err
	}
	if whens[0] == c.end {
		return c.expected(c.end, "WHEN MATCHED or WHEN NOT MATCHED")
	}
	for n := range len(whens) - 1 {
		inner := *c
		inner.at, inner.end = whens[n], whens[n+1]
		w, err := inner.when()
		if err != nil {
			return err
		}
		m.When = append(m.When, w)
	}
	c.at = whens[len(whens)-1]
	from := c.at + 1
	if m.Returning, err = c.returning(); err != nil || m.Returning.Empty() {
		return err
	}
	items, err := c.split(from, c.end)
	for _, item := range items {
		for i := item[0]; i < item[1]; i++ {
			if c.word(i, "merge_action") && !c.op(i-1, ".") && !c.op(i+1, "(") && !c.op(i+1, ".") {
				m.ActionWords = append(m.ActionWords, ActionWord{Span: c.spanOf(i), Alone: item[1] == item[0]+1})
			}
		}
	}
	return err
}

// whens finds the WHEN words outside brackets and CASE, and behind them the end
// of the last clause: RETURNING or the end.
func (c *cursor) whens() []int {
	var found []int
	cases := 0
	for i := c.at; i < c.end; i = c.next(i) {
		switch {
		case c.keyword(i, "case"):
			cases++
		case c.keyword(i, "end") && cases > 0:
			cases--
		case cases > 0:
		case c.keyword(i, "when"):
			found = append(found, i)
		case c.keyword(i, "returning"):
			return append(found, i)
		}
	}
	return append(found, c.end)
}

// mergeSource reads the source and the join condition up to the first WHEN.
func (c *cursor) mergeSource(m *MergeClauses, to int) error {
	last := -1
	for i := c.at; i < to; i = c.next(i) {
		if c.keyword(i, "on", "using") {
			last = i
		}
	}
	if last < 0 {
		return c.expected(to, "ON condition or USING (columns)")
	}
	from := c.at
	var err error
	if m.Source, err = c.clause(last, "a table or a query in brackets"); err != nil {
		return err
	}
	m.SourceName = c.sourceName(from, last)
	c.at = last + 1
	if c.word(last, "on") {
		m.On, err = c.clause(to, "a condition")
		return err
	}
	if !c.op(c.at, "(") {
		return c.expected(c.at, "a list of columns in brackets")
	}
	if m.Using, err = c.columnList("USING"); err != nil {
		return err
	}
	if c.at != to {
		return c.expected(c.at, "WHEN")
	}
	return nil
}

// sourceName finds by what name the table reference in [from, to) is known.
func (c *cursor) sourceName(from, to int) string {
	at := from
	own := ""
	if c.op(from+1, ":") && (c.name(from) || c.toks[from].kind == tokString) {
		return c.identifier(from) // alias : table
	}
	switch {
	case c.op(at, "("):
		at = c.next(at)
	case c.toks[at].kind == tokString:
		own = c.identifier(at)
		at++
	default:
		for at < to && (c.toks[at].kind == tokWord || c.toks[at].kind == tokQuoted) {
			own = c.identifier(at)
			at++
			if !c.op(at, ".") {
				break
			}
			at++
		}
		if c.op(at, "(") {
			at = c.next(at)
		}
	}
	alias := own
	if c.word(at, "as") {
		at++
	}
	if at < to && (c.relation(at) || c.toks[at].kind == tokString) {
		alias = c.identifier(at)
		at++
		if c.op(at, "(") {
			at = c.next(at)
		}
	}
	if c.word(at, "at") && c.op(at+1, "(") {
		at = c.next(at + 1)
	}
	if at != to {
		return ""
	}
	return alias
}

// identifier is the name that token i, a word, a quoted name or a string, means.
func (c *cursor) identifier(i int) string {
	if c.toks[i].kind == tokString {
		s, _ := c.stringValue(i)
		return s
	}
	return c.part(i).Text
}

// when reads one clause, which is all of the cursor.
func (c *cursor) when() (WhenClause, error) {
	w := WhenClause{Span: c.span(c.at, c.end)}
	c.at++
	switch {
	case c.takeAll("not", "matched", "by", "source"):
		w.Match = NotMatchedBySource
	case c.takeAll("not", "matched", "by", "target"), c.takeAll("not", "matched"):
		w.Match = NotMatched
	case c.takeAll("matched"):
		w.Match = Matched
	default:
		return w, c.expected(c.at, "MATCHED or NOT MATCHED [BY SOURCE | BY TARGET]")
	}
	if c.word(c.at, "by") {
		return w, c.expected(c.at, "THEN or AND")
	}
	then := c.then()
	if then == c.end {
		return w, c.expected(c.end, "THEN and an action")
	}
	if c.take("and") {
		var err error
		if w.Condition, err = c.clause(then, "a condition"); err != nil {
			return w, err
		}
	}
	if c.at != then {
		return w, c.expected(c.at, "THEN or AND")
	}
	c.at++
	at := c.at
	if err := c.action(&w); err != nil {
		return w, err
	}
	if w.Match == NotMatched && (w.Action == MergeUpdate || w.Action == MergeDelete) {
		return w, c.errorAt(at, "a row that is not matched has no target row: WHEN NOT MATCHED takes INSERT, DO NOTHING or ERROR")
	}
	return w, nil
}

// then finds THEN outside brackets and CASE.
func (c *cursor) then() int {
	cases := 0
	return c.find(c.at, c.end, func(i int) bool {
		switch {
		case c.keyword(i, "case"):
			cases++
		case c.keyword(i, "end") && cases > 0:
			cases--
		}
		return cases == 0 && c.keyword(i, "then")
	})
}

func (c *cursor) action(w *WhenClause) error {
	var err error
	switch {
	case c.take("delete"):
		w.Action = MergeDelete
	case c.takeAll("do", "nothing"):
		w.Action = MergeNothing
	case c.take("error"):
		w.Action = MergeError
		if c.more() {
			w.Message = c.span(c.at, c.end)
			c.at = c.end
		}
	case c.take("update"):
		w.Action = MergeUpdate
		if c.take("set") && !c.op(c.at, "*") {
			w.Columns = Listed
			if w.Set, err = c.assignments(c.end); err != nil {
				return err
			}
			break
		}
		c.columnsWay(w)
	case c.take("insert"):
		w.Action = MergeInsert
		if err := c.mergeInsert(w); err != nil {
			return err
		}
	default:
		return c.expected(c.at, "UPDATE, DELETE, INSERT, DO NOTHING or ERROR")
	}
	return c.finish()
}

// columnsWay reads *, BY NAME, BY POSITION or nothing.
func (c *cursor) columnsWay(w *WhenClause) {
	w.Columns = ByPosition
	switch {
	case c.takeOp("*"), c.takeAll("by", "position"):
	case c.takeAll("by", "name"):
		w.Columns = ByName
	}
}

func (c *cursor) mergeInsert(w *WhenClause) error {
	var err error
	if c.op(c.at, "(") {
		if w.Into, err = c.columnList("an INSERT"); err != nil {
			return err
		}
	}
	switch {
	case w.Into == nil && c.takeAll("default", "values"):
		w.Columns = Defaults
		return nil
	case c.take("values"):
	case w.Into != nil:
		return c.expected(c.at, "VALUES")
	default:
		c.columnsWay(w)
		return nil
	}
	w.Columns = Listed
	if !c.op(c.at, "(") {
		return c.expected(c.at, "a row in brackets")
	}
	closing := int(c.toks[c.at].pair)
	parts, err := c.split(c.at+1, closing)
	if err != nil {
		return err
	}
	if w.Into != nil && len(parts) != len(w.Into) {
		return c.errorAt(c.at, "%d columns take %d values", len(w.Into), len(parts))
	}
	for _, p := range parts {
		w.Values = append(w.Values, Value{Span: c.span(p[0], p[1]), Default: p[1] == p[0]+1 && c.word(p[0], "default")})
	}
	c.at = closing + 1
	return nil
}
