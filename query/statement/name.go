package statement

import (
	"strings"

	"github.com/flightblob/flightblob/internal/fault"
)

// Part is one identifier: the text between the quotes, or as written.
type Part struct {
	Text   string
	Quoted bool // written in double quotes
	Span   Span // as written, quotes included
}

// String writes the part as SQL, quoted where it was or must be.
func (p Part) String() string {
	if !p.Quoted && plainName(p.Text) {
		return p.Text
	}
	return Quote(p.Text)
}

// Name is a table, schema, function or column name of one or more parts, the
// most general first. Case is kept; comparing is the catalog's work.
type Name []Part

// Empty says whether there is no name.
func (n Name) Empty() bool { return len(n) == 0 }

// Last is the text of the last part: the table of a table's name.
func (n Name) Last() string {
	if len(n) == 0 {
		return ""
	}
	return n[len(n)-1].Text
}

// Path is the text of the parts: [table], [schema, table] or [catalog, schema,
// table]. Two parts may also be catalog and table; the catalog tells.
func (n Name) Path() []string {
	path := make([]string, len(n))
	for i, p := range n {
		path[i] = p.Text
	}
	return path
}

// String writes the name as SQL.
func (n Name) String() string {
	parts := make([]string, len(n))
	for i, p := range n {
		parts[i] = p.String()
	}
	return strings.Join(parts, ".")
}

// Span covers the name as written.
func (n Name) Span() Span {
	if len(n) == 0 {
		return Span{}
	}
	return Span{n[0].Span.Start, n[len(n)-1].Span.End}
}

// Quote writes any non-empty text as a double-quoted identifier.
func Quote(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }

// QuoteString writes any text as a single-quoted string.
func QuoteString(s string) string { return `'` + strings.ReplaceAll(s, `'`, `''`) + `'` }

// plainName says whether s is an identifier without quotes everywhere.
func plainName(s string) bool {
	if s == "" || !identStart(s[0]) {
		return false
	}
	for i := range len(s) {
		if !identPart(s[i]) || unicodeSpace(s[i:]) > 0 {
			return false
		}
	}
	word := lowerWord(s)
	return !reservedWords[word] && !functionWords[word]
}

// ParseName reads a name given as a value, written as SQL would write it: t,
// schema.t, "a.b", cat."My Schema".t. Blanks and comments around the parts are
// accepted as in SQL; reserved words need quotes. More than three parts and
// anything else are fault.Invalid.
func ParseName(text string) (Name, error) { return parseDotted(text, 3) }

// ParsePath reads a column path given as a value, such as a key of WITH (…):
// img, pages.scan.pack, "a.b".c. There is no limit on its parts.
func ParsePath(text string) (Name, error) { return parseDotted(text, len(text)+1) }

func parseDotted(text string, most int) (Name, error) {
	toks, err := lex(text)
	if err != nil {
		return nil, err
	}
	c := &cursor{text: text, toks: toks, end: len(toks) - 1}
	if !c.more() {
		return nil, fail(fault.Invalid, text, 0, "the name is empty")
	}
	n, err := c.dotted("a name", most, c.name)
	if err != nil {
		return nil, err
	}
	if c.more() {
		return nil, c.errorAt(c.at, "%s is not part of a name; write it as in SQL, with double quotes around a part that is not a plain word", shown(c.str(c.at)))
	}
	return n, nil
}

// target reads a table's name: a plain string counts as one quoted part, as
// DuckDB takes it.
func (c *cursor) target(what string) (Name, error) {
	if c.more() && c.toks[c.at].kind == tokString {
		s, ok := c.stringValue(c.at)
		if !ok || s == "" {
			return nil, c.expected(c.at, what)
		}
		n := Name{{Text: s, Quoted: true, Span: c.spanOf(c.at)}}
		c.at++
		return n, nil
	}
	return c.dotted(what, 3, c.relation)
}

// dotted reads name(.name)* with at most most parts; first decides about the
// first part, behind a dot any word is a name.
func (c *cursor) dotted(what string, most int, first func(int) bool) (Name, error) {
	if !first(c.at) {
		if c.more() && c.toks[c.at].kind == tokWord {
			return nil, c.errorAt(c.at, "%s should stand here, and %s is a keyword; a name like it needs double quotes", what, c.str(c.at))
		}
		return nil, c.expected(c.at, what)
	}
	n := Name{c.part(c.at)}
	c.at++
	for c.takeOp(".") {
		if !c.more() || c.toks[c.at].kind != tokWord && c.toks[c.at].kind != tokQuoted {
			return nil, c.expected(c.at, "the next part of the name")
		}
		if len(n) == most {
			return nil, c.errorAt(c.at, "%s has at most %d parts", what, most)
		}
		n = append(n, c.part(c.at))
		c.at++
	}
	return n, nil
}

// part makes the identifier of token i.
func (c *cursor) part(i int) Part {
	p := Part{Text: c.str(i), Span: c.spanOf(i)}
	if c.toks[i].kind == tokQuoted {
		p.Quoted = true
		p.Text = unquoteName(p.Text)
	}
	return p
}

func unquoteName(s string) string { return strings.ReplaceAll(s[1:len(s)-1], `""`, `"`) }
