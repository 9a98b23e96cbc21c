package statement

import (
	"strings"

	"github.com/flightblob/flightblob/internal/fault"
)

// cursor walks the tokens [at, end) of one statement. The token at end always
// exists: the semicolon behind the statement, a closing bracket, or tokEnd.
type cursor struct {
	text string
	toks []token
	at   int
	end  int
}

func (c *cursor) more() bool { return c.at < c.end }

// str is the text of token i.
func (c *cursor) str(i int) string { return c.text[c.toks[i].start:c.toks[i].end] }

func (c *cursor) spanOf(i int) Span { return Span{int(c.toks[i].start), int(c.toks[i].end)} }

// span covers the tokens [from, to); an empty range lies at token from.
func (c *cursor) span(from, to int) Span {
	if to <= from {
		at := int(c.toks[from].start)
		return Span{at, at}
	}
	return Span{int(c.toks[from].start), int(c.toks[to-1].end)}
}

// next is the index behind token i, behind the partner for an opening bracket.
func (c *cursor) next(i int) int {
	if c.toks[i].kind == tokOpen {
		return int(c.toks[i].pair) + 1
	}
	return i + 1
}

// word says whether token i lies in the range and is one of the given unquoted
// words, in any case. Words are given in lower case.
func (c *cursor) word(i int, words ...string) bool {
	if i < 0 || i >= c.end || c.toks[i].kind != tokWord {
		return false
	}
	s := c.str(i)
	for _, w := range words {
		if sameWord(s, w) {
			return true
		}
	}
	return false
}

// op says whether token i lies in the range and is this operator or bracket.
func (c *cursor) op(i int, s string) bool {
	if i < 0 || i >= c.end {
		return false
	}
	switch c.toks[i].kind {
	case tokOp, tokOpen, tokClose:
		return c.str(i) == s
	}
	return false
}

// keyword is word for a place where an identifier may stand too: a word that
// follows a dot or AS is a name whatever it is.
func (c *cursor) keyword(i int, words ...string) bool {
	return c.word(i, words...) && !c.op(i-1, ".") && !c.word(i-1, "as")
}

// take moves behind the word at the cursor if it is one of words.
func (c *cursor) take(words ...string) bool {
	if c.word(c.at, words...) {
		c.at++
		return true
	}
	return false
}

// takeAll moves behind the words if all follow one another here.
func (c *cursor) takeAll(words ...string) bool {
	for n, w := range words {
		if !c.word(c.at+n, w) {
			return false
		}
	}
	c.at += len(words)
	return true
}

// takeOp moves behind the operator at the cursor.
func (c *cursor) takeOp(s string) bool {
	if c.op(c.at, s) {
		c.at++
		return true
	}
	return false
}

// find gives the first index in [from, to) outside brackets for which match
// holds, else to.
func (c *cursor) find(from, to int, match func(int) bool) int {
	for i := from; i < to; i = c.next(i) {
		if match(i) {
			return i
		}
	}
	return to
}

// split cuts the tokens [from, to) at commas outside brackets. A trailing comma
// is dropped, as DuckDB does; an empty piece elsewhere is an error.
func (c *cursor) split(from, to int) ([][2]int, error) {
	var parts [][2]int
	for at := from; at < to; {
		comma := c.find(at, to, func(i int) bool { return c.op(i, ",") })
		if comma == at {
			return nil, c.errorAt(at, "something is missing before this comma")
		}
		parts = append(parts, [2]int{at, comma})
		at = comma + 1
	}
	return parts, nil
}

// errorAt is a fault.Invalid at token i.
func (c *cursor) errorAt(i int, format string, args ...any) error {
	return fail(fault.Invalid, c.text, int(c.toks[i].start), format, args...)
}

// expected says what should stand at token i.
func (c *cursor) expected(i int, what string) error {
	if i >= c.end {
		return c.errorAt(c.end, "%s is missing at the end of the statement", what)
	}
	return c.errorAt(i, "%s should stand here, not %s", what, shown(c.str(i)))
}

// finish is an error when tokens are left.
func (c *cursor) finish() error {
	if !c.more() {
		return nil
	}
	return c.errorAt(c.at, "%s is not understood here", shown(c.str(c.at)))
}

// sameWord compares without case in ASCII, as DuckDB does for keywords and
// names. Unicode folding would let other letters pass for keywords.
func sameWord(s, lower string) bool {
	if len(s) != len(lower) {
		return false
	}
	for i := range len(s) {
		if lowerByte(s[i]) != lower[i] {
			return false
		}
	}
	return true
}

func lowerByte(b byte) byte {
	if 'A' <= b && b <= 'Z' {
		return b | 0x20
	}
	return b
}

func lowerWord(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r | 0x20
		}
		return r
	}, s)
}

// reservedWords are DuckDB 1.5.6's reserved keywords: never a name unless
// quoted, behind a dot or behind AS.
var reservedWords = set(`all analyse analyze and any array as asc asymmetric both case cast check collate
	column constraint create default deferrable desc describe distinct do else end except false fetch for
	foreign from group having in initially intersect into lambda lateral leading limit not null offset on
	only or order pivot pivot_longer pivot_wider placing primary qualify references returning select show
	some summarize symmetric table then to trailing true union unique unpivot using variadic when where
	window with`)

// functionWords are the keywords that may name a type or function, but neither
// a table nor an alias.
var functionWords = set(`anti asof at authorization binary by collation columns concurrently cross freeze
	full generated glob ilike inner is isnull join left like map natural notnull outer overlaps positional
	right semi similar struct tablesample try_cast unpack verbose`)

func set(words string) map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(words) {
		m[w] = true
	}
	return m
}

// name says whether token i can be an identifier where no keyword is meant.
func (c *cursor) name(i int) bool {
	if i < 0 || i >= c.end {
		return false
	}
	switch c.toks[i].kind {
	case tokQuoted:
		return true
	case tokWord:
		return !reservedWords[lowerWord(c.str(i))]
	}
	return false
}

// relation is name for a table or an alias.
func (c *cursor) relation(i int) bool {
	return c.name(i) && (c.toks[i].kind == tokQuoted || !functionWords[lowerWord(c.str(i))])
}
