package statement

import (
	"strings"

	"github.com/flightblob/flightblob/internal/fault"
)

// Kind is what a statement does. These are all that are accepted.
type Kind uint8

// The kinds, with the field of Statement that describes each.
const (
	Select        Kind = iota + 1 // SELECT, FROM first, WITH, VALUES, TABLE t, PIVOT, UNPIVOT
	Show                          // Show: SHOW TABLES
	Describe                      // Describe: DESCRIBE t, DESCRIBE query
	Explain                       // Explain: EXPLAIN of the three above
	Insert                        // Insert
	CreateTable                   // Create, with columns
	CreateTableAs                 // Create, with a query
	DropTable                     // Drop
	CreateSchema                  // Create
	DropSchema                    // Drop
	AlterTable                    // Alter
	Update                        // Update
	Delete                        // Delete
	Truncate                      // Target alone
	Merge                         // Merge
	Call                          // Call
)

var kindNames = [...]string{
	"", "SELECT", "SHOW TABLES", "DESCRIBE", "EXPLAIN", "INSERT", "CREATE TABLE", "CREATE TABLE AS", "DROP TABLE",
	"CREATE SCHEMA", "DROP SCHEMA", "ALTER TABLE", "UPDATE", "DELETE", "TRUNCATE", "MERGE", "CALL",
}

// String names the kind as SQL does.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return ""
}

// Reads says whether statements of the kind change nothing.
func (k Kind) Reads() bool { return k >= Select && k <= Explain }

// Statement is the outline of one statement. All spans are ranges of Text.
type Statement struct {
	// Text is the parsed text with every Unicode blank outside strings, names
	// and comments turned into as many ASCII blanks, as DuckDB sees it, so that
	// offsets are those of the text that was given.
	Text string
	Span Span // the statement, without blanks and comments around and semicolons
	Kind Kind

	// With is a WITH clause in front of Main; empty when there is none. It belongs
	// to the statement as a whole: a rewritten main statement needs it too.
	With Span
	// Main is the statement behind EXPLAIN and behind WITH.
	Main Span
	// Target is what is written, described, created, dropped or altered: a table,
	// or for the schema kinds a schema. Empty for the other kinds.
	Target Name

	Params []Param // in the order of the text
	Ats    []At    // every AT clause at any depth, in the order of the text
	// Arguments are the names in front of := and => that the engine takes for the
	// beginning of a literal unless they are quoted: timestamp.
	Arguments []Span

	Explain  *ExplainClauses
	Show     *ShowClauses
	Describe *DescribeClauses
	Insert   *InsertClauses
	Update   *UpdateClauses
	Delete   *DeleteClauses
	Merge    *MergeClauses
	Create   *CreateClauses
	Drop     *DropClauses
	Alter    *AlterClauses
	Call     *CallClauses
}

// IsUpdate says whether the statement is sent by the protocol's update path.
// CALL is not: it answers a row. What has RETURNING answers rows, too.
func (s *Statement) IsUpdate() bool {
	return !s.Kind.Reads() && s.Kind != Call && s.Returning().Empty()
}

// Returning is the list behind RETURNING, empty without.
func (s *Statement) Returning() Span {
	switch {
	case s.Insert != nil:
		return s.Insert.Returning
	case s.Update != nil:
		return s.Update.Returning
	case s.Delete != nil:
		return s.Delete.Returning
	case s.Merge != nil:
		return s.Merge.Returning
	}
	return Span{}
}

// ParamCount is the number of values to bind.
func (s *Statement) ParamCount() int {
	n := 0
	for _, p := range s.Params {
		n = max(n, p.Index)
	}
	return n
}

// Split cuts text at the semicolons outside strings, names and comments, and
// gives every statement without blanks, comments and semicolons around it; empty
// ones are left out, so a text without any gives none. Only the lexical rules
// are checked; failures are *Error.
func Split(text string) ([]Span, error) {
	toks, err := lex(text)
	if err != nil {
		return nil, err
	}
	ranges := statements(text, toks)
	spans := make([]Span, len(ranges))
	c := &cursor{text: text, toks: toks, end: len(toks) - 1}
	for n, r := range ranges {
		spans[n] = c.span(r[0], r[1])
	}
	return spans, nil
}

func statements(text string, toks []token) [][2]int {
	var out [][2]int
	from := 0
	for i, t := range toks {
		if t.kind != tokEnd && (t.kind != tokOp || text[t.start] != ';') {
			continue
		}
		if i > from {
			out = append(out, [2]int{from, i})
		}
		from = i + 1
	}
	return out
}

// Parse reads the one statement of a text. Semicolons and comments may surround
// it. An empty text, several statements, kinds outside the allow-list and
// malformed outlines are *Error of kind fault.Invalid, with the place.
func Parse(text string) (*Statement, error) {
	toks, err := lex(text)
	if err != nil {
		return nil, err
	}
	found := statements(text, toks)
	switch {
	case len(found) == 0:
		return nil, fail(fault.Invalid, text, len(text), "the text holds no statement")
	case len(found) > 1:
		return nil, fail(fault.Invalid, text, int(toks[found[1][0]].start),
			"the text holds %d statements; send them one at a time, each commits by itself", len(found))
	}
	text = plainBlanks(text, toks)
	c := &cursor{text: text, toks: toks, at: found[0][0], end: found[0][1]}
	s := &Statement{Text: text, Span: c.span(c.at, c.end)}
	if err := c.guard(); err != nil {
		return nil, err
	}
	if s.Params, err = c.collectParams(c.at, c.end); err != nil {
		return nil, err
	}
	if s.Ats, err = c.collectAts(c.at, c.end, s.Params); err != nil {
		return nil, err
	}
	for i := c.at; i < c.end; i++ {
		if c.word(i, "timestamp") && (c.op(i+1, ":=") || c.op(i+1, "=>")) && (c.op(i-1, "(") && !c.isAt(i-2) || c.op(i-1, ",")) {
			s.Arguments = append(s.Arguments, c.spanOf(i))
		}
	}
	if err := c.statement(s); err != nil {
		return nil, err
	}
	return s, nil
}

// plainBlanks turns Unicode blanks between tokens into ASCII ones.
func plainBlanks(text string, toks []token) string {
	var out []byte
	at := 0
	for _, t := range toks {
		for ; at < int(t.start); at++ {
			if n := unicodeSpace(text[at:]); n > 0 {
				if out == nil {
					out = []byte(text)
				}
				copy(out[at:], "   "[:n])
			}
		}
		at = int(t.end)
	}
	if out == nil {
		return text
	}
	return string(out)
}

// statement dispatches on the first words.
func (c *cursor) statement(s *Statement) error {
	if c.word(c.at, "explain") {
		return c.explain(s)
	}
	return c.main(s)
}

// main reads a statement that is not EXPLAIN.
func (c *cursor) main(s *Statement) error {
	if c.word(c.at, "with") {
		from := c.at
		if err := c.with(); err != nil {
			return err
		}
		s.With = c.span(from, c.at)
	}
	s.Main = c.span(c.at, c.end)
	switch {
	case c.startsQuery(c.at), s.With.Empty() && c.op(c.at, "(") && c.word(c.inside(c.at), "describe", "desc", "show"):
		return c.query(s)
	case c.word(c.at, "insert"):
		return c.insert(s)
	case c.word(c.at, "update"):
		return c.update(s)
	case c.word(c.at, "delete"):
		return c.delete(s)
	case c.word(c.at, "merge"):
		return c.merge(s)
	case !s.With.Empty():
		return c.errorAt(c.at, "WITH stands in front of a query, INSERT, UPDATE, DELETE or MERGE, not of %s", shown(c.str(c.at)))
	case c.word(c.at, "describe", "desc", "show"):
		return c.show(s)
	case c.word(c.at, "truncate"):
		return c.truncate(s)
	case c.word(c.at, "create"):
		return c.create(s)
	case c.word(c.at, "drop"):
		return c.drop(s)
	case c.word(c.at, "alter"):
		return c.alter(s)
	case c.word(c.at, "call"):
		return c.call(s)
	}
	return c.refuse(c.at)
}

// words gives the first n words from token i in upper case, for messages.
func (c *cursor) words(i, n int) string {
	var w []string
	for ; n > 0 && i < c.end && c.toks[i].kind == tokWord; n-- {
		w = append(w, strings.ToUpper(c.str(i)))
		i++
	}
	return shown(strings.Join(w, " "))
}
