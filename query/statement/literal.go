package statement

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// LiteralKind is the sort of a literal.
type LiteralKind uint8

// The literals, with the field of Literal that holds the value.
const (
	Null    LiteralKind = iota + 1
	Bool                // Bool
	Integer             // Text: optional minus, then digits as written
	Decimal             // Text: a number with point or exponent
	String              // Text: the characters
	Typed               // Text and Type: TIMESTAMP '…', '…'::INTERVAL, INTERVAL 7 DAY
	Bound               // Param: a parameter, whose value comes later
)

var literalNames = [...]string{"", "null", "boolean", "integer", "decimal", "string", "typed", "parameter"}

// String names the kind.
func (k LiteralKind) String() string {
	if int(k) < len(literalNames) {
		return literalNames[k]
	}
	return ""
}

// Literal is a value that stands in the text as it is, without computing.
type Literal struct {
	Kind  LiteralKind
	Span  Span   // the whole literal; SELECT of it gives the value
	Bool  bool   // of Bool
	Text  string // unquoted characters, or digits without underscores
	Type  string // of Typed: the type in upper case, blanks single, such as TIMESTAMP
	Param int    // of Bound: the parameter's Index
}

// Int gives the value of an Integer that fits 64 bits.
func (l Literal) Int() (int64, bool) {
	if l.Kind != Integer {
		return 0, false
	}
	n, err := strconv.ParseInt(l.Text, 10, 64)
	return n, err == nil
}

// literal reads the tokens [from, to) as one literal.
func (c *cursor) literal(from, to int, params []Param) (Literal, bool) {
	l := Literal{Span: c.span(from, to)}
	if to <= from {
		return l, false
	}
	if n := c.find(from, to, func(i int) bool { return c.op(i, "::") }); n < to {
		return c.cast(from, n, n+1, to, params, l)
	}
	switch {
	case to == from+1:
		return c.single(from, l, params)
	case to == from+2 && (c.op(from, "-") || c.op(from, "+")) && c.toks[from+1].kind == tokNumber:
		l, ok := c.single(from+1, l, params)
		if c.op(from, "-") {
			l.Text = "-" + l.Text
		}
		return l, ok
	case c.word(from, "cast") && c.op(from+1, "(") && c.next(from+1) == to:
		as := c.find(from+2, to-1, func(i int) bool { return c.word(i, "as") })
		return c.cast(from+2, as, as+1, to-1, params, l)
	case c.word(from, "interval"):
		return c.interval(from, to, l)
	case c.toks[to-1].kind == tokString:
		typ, ok := c.typeName(from, to-1)
		text, plain := c.stringValue(to - 1)
		l.Kind, l.Type, l.Text = Typed, typ, text
		return l, ok && plain
	}
	return l, false
}

// cast reads the value in [from, to) of the type in [typeFrom, typeTo). Only the
// plain literals are values here, so it does not nest.
func (c *cursor) cast(from, to, typeFrom, typeTo int, params []Param, l Literal) (Literal, bool) {
	if to <= from || to > from+2 || typeTo <= typeFrom {
		return l, false
	}
	inner, ok := c.literal(from, to, params)
	typ, plain := c.typeName(typeFrom, typeTo)
	if !ok || !plain || inner.Kind == Bound || inner.Kind == Typed {
		return l, false
	}
	inner.Kind, inner.Type, inner.Span = Typed, typ, l.Span
	return inner, true
}

// single reads a literal of one token.
func (c *cursor) single(i int, l Literal, params []Param) (Literal, bool) {
	s := c.str(i)
	switch c.toks[i].kind {
	case tokWord:
		switch {
		case c.word(i, "null"):
			l.Kind = Null
		case c.word(i, "true", "false"):
			l.Kind, l.Bool = Bool, c.word(i, "true")
		default:
			return l, false
		}
		return l, true
	case tokString:
		text, ok := c.stringValue(i)
		l.Kind, l.Text = String, text
		return l, ok
	case tokNumber:
		l.Kind, l.Text = Integer, strings.ReplaceAll(s, "_", "")
		if strings.ContainsAny(s, ".eE") {
			l.Kind = Decimal
		}
		return l, true
	case tokParam:
		n, ok := slices.BinarySearchFunc(params, int(c.toks[i].start), func(p Param, at int) int { return p.Span.Start - at })
		if ok {
			l.Kind, l.Param = Bound, params[n].Index
		}
		return l, ok
	}
	return l, false
}

// interval reads INTERVAL 7 DAY, INTERVAL '7' DAY, INTERVAL '7 days',
// INTERVAL (7) DAYS.
func (c *cursor) interval(from, to int, l Literal) (Literal, bool) {
	l.Kind, l.Type = Typed, "INTERVAL"
	at := from + 1
	if c.op(at, "(") && c.next(at) <= at+4 {
		at++
	}
	minus := ""
	if c.op(at, "-") {
		minus = "-"
		at++
	}
	if at >= to {
		return l, false
	}
	switch c.toks[at].kind {
	case tokNumber:
		l.Text = minus + strings.ReplaceAll(c.str(at), "_", "")
	case tokString:
		s, ok := c.stringValue(at)
		if !ok || minus != "" {
			return l, false
		}
		l.Text = s
	default:
		return l, false
	}
	at++
	if c.op(at, ")") && c.op(from+1, "(") {
		at++
	}
	if at == to {
		return l, true
	}
	if at+1 != to || c.toks[at].kind != tokWord {
		return l, false
	}
	l.Text += " " + lowerWord(c.str(at))
	return l, true
}

// typeName reads words with optional (n, …) behind them as a type. No type of a
// literal is longer than a few words.
func (c *cursor) typeName(from, to int) (string, bool) {
	if to-from > 16 || !c.name(from) {
		return "", false
	}
	var words []string
	for i := from; i < to; i = c.next(i) {
		switch {
		case c.toks[i].kind == tokWord:
			words = append(words, strings.ToUpper(c.str(i)))
		case c.op(i, "(") && i > from:
			words[len(words)-1] += c.span(i, c.next(i)).Of(c.text)
		default:
			return "", false
		}
	}
	return strings.Join(words, " "), len(words) > 0
}

// stringValue decodes the string token i. X'…' and B'…' are not text and give
// false, as do escapes that make no valid UTF-8.
func (c *cursor) stringValue(i int) (string, bool) {
	s := c.str(i)
	switch s[0] {
	case '$':
		n := dollarTag(s)
		return s[n : len(s)-n], true
	case '\'':
		return unquoteString(s, false)
	case 'e', 'E':
		return unquoteString(s[1:], true)
	case 'n', 'N':
		return unquoteString(s[1:], false)
	}
	return "", false
}

// unquoteString decodes one string, continuations included.
func unquoteString(s string, escapes bool) (string, bool) {
	var out strings.Builder
	at := 1
	for at < len(s) {
		switch {
		case s[at] == '\'' && at+1 < len(s) && s[at+1] == '\'':
			out.WriteByte('\'')
			at += 2
		case s[at] == '\'':
			next, ok := continuation(s, at+1)
			if !ok {
				at = len(s)
				continue
			}
			at = next + 1
		case s[at] == '\\' && escapes && at+1 < len(s):
			at += unescape(&out, s[at:])
		default:
			out.WriteByte(s[at])
			at++
		}
	}
	v := out.String()
	return v, utf8.ValidString(v)
}

// unescape writes the character of the backslash escape that s begins with and
// gives its length: \b \f \n \r \t \ooo \xhh \uhhhh \Uhhhhhhhh, else the
// character itself.
func unescape(out *strings.Builder, s string) int {
	number := func(from, most, base int) (uint64, int) {
		to := from
		for to < len(s) && to < from+most && isHex(s[to]) && (base == 16 || '0' <= s[to] && s[to] <= '7') {
			to++
		}
		n, _ := strconv.ParseUint(s[from:to], base, 32)
		return n, to
	}
	switch c := s[1]; {
	case '0' <= c && c <= '7':
		n, to := number(1, 3, 8)
		out.WriteByte(byte(n))
		return to
	case c == 'x':
		if n, to := number(2, 2, 16); to > 2 {
			out.WriteByte(byte(n))
			return to
		}
	case c == 'u' || c == 'U':
		digits := 4
		if c == 'U' {
			digits = 8
		}
		if n, to := number(2, digits, 16); to == 2+digits {
			out.WriteRune(rune(min(n, utf8.MaxRune+1)))
			return to
		}
	default:
		if i := strings.IndexByte("bfnrt", c); i >= 0 {
			out.WriteByte("\b\f\n\r\t"[i])
			return 2
		}
	}
	out.WriteByte(s[1])
	return 2
}
