package statement

import (
	"strings"
	"unicode/utf8"

	"github.com/flightblob/flightblob/internal/fault"
)

// Limits on one text. They bound memory and time, and lie where the engine's
// own do or above.
const (
	// MaxText is the longest text in bytes.
	MaxText = 64 << 20
	// MaxTokens is the largest number of tokens.
	MaxTokens = 4 << 20
	// MaxDepth is the deepest nesting of brackets, DuckDB's max_expression_depth.
	MaxDepth = 1000
)

type tokenKind uint8

const (
	tokEnd    tokenKind = iota // after the last token
	tokWord                    // unquoted identifier or keyword
	tokQuoted                  // "name"
	tokString                  // 'x', E'x', X'x', B'x', N'x', $$x$$
	tokNumber                  // 1, 1_000, .5, 1e-3, 0x1f
	tokParam                   // ?, ?1, $1, $name, $"name"
	tokOp                      // operator or punctuation
	tokOpen                    // ( [ {
	tokClose                   // ) ] }
)

// token is one lexical element. For brackets, pair is the index of the partner.
type token struct {
	start, end uint32
	pair       uint32
	kind       tokenKind
}

// lexer cuts a text into tokens.
type lexer struct {
	text   string
	at     int
	tokens []token
	open   []uint32 // indexes of brackets that wait for their partner
	ops    operatorRun
}

// lex cuts text into tokens, ended by one of kind tokEnd. Brackets are matched;
// comments and blanks make no tokens. Every failure is an *Error.
func lex(text string) ([]token, error) {
	if len(text) > MaxText {
		return nil, fail(fault.Exhausted, "", 0, "the text has %d bytes, the limit is %d", len(text), MaxText)
	}
	if !utf8.ValidString(text) {
		at := 0
		for at < len(text) {
			r, n := utf8.DecodeRuneInString(text[at:])
			if r == utf8.RuneError && n == 1 {
				break
			}
			at += n
		}
		return nil, fail(fault.Invalid, text, at, "the text is not valid UTF-8 here")
	}
	// The engine takes a text that ends at its first NUL; nothing may hide behind it.
	if i := strings.IndexByte(text, 0); i >= 0 {
		return nil, fail(fault.Invalid, text, i, "the text holds a NUL character")
	}
	l := &lexer{text: text}
	if err := l.run(); err != nil {
		return nil, err
	}
	return l.tokens, nil
}

func (l *lexer) run() error {
	for {
		if err := l.skipBlank(); err != nil {
			return err
		}
		if l.at == len(l.text) {
			break
		}
		start := l.at
		kind, err := l.next()
		if err != nil {
			return err
		}
		if err := l.emit(kind, start); err != nil {
			return err
		}
	}
	if n := len(l.open); n > 0 {
		t := l.tokens[l.open[n-1]]
		return l.failAt(int(t.start), "this %s is never closed", l.text[t.start:t.end])
	}
	end := uint32(len(l.text))
	l.tokens = append(l.tokens, token{start: end, end: end, kind: tokEnd})
	return nil
}

func (l *lexer) failAt(at int, format string, args ...any) error {
	return fail(fault.Invalid, l.text, at, format, args...)
}

// emit adds the token [start, l.at) and matches brackets.
func (l *lexer) emit(kind tokenKind, start int) error {
	if len(l.tokens) >= MaxTokens {
		return fail(fault.Exhausted, l.text, start, "the text has more than %d words; send the rows by DoPut or as bound parameters", MaxTokens)
	}
	t := token{start: uint32(start), end: uint32(l.at), kind: kind}
	index := uint32(len(l.tokens))
	switch kind {
	case tokOpen:
		if len(l.open) >= MaxDepth {
			return l.failAt(start, "brackets are nested deeper than %d", MaxDepth)
		}
		l.open = append(l.open, index)
	case tokClose:
		n := len(l.open)
		if n == 0 {
			return l.failAt(start, "this %s closes nothing", l.text[start:l.at])
		}
		from := l.open[n-1]
		if open := l.text[l.tokens[from].start]; partner[open] != l.text[start] {
			return l.failAt(start, "this %c does not close the %c before it", l.text[start], open)
		}
		l.open = l.open[:n-1]
		l.tokens[from].pair, t.pair = index, from
	case tokOp:
		if l.text[start] == ';' && len(l.open) > 0 {
			open := l.tokens[l.open[len(l.open)-1]]
			return l.failAt(int(open.start), "this %s is not closed before the ;", l.text[open.start:open.end])
		}
	}
	l.tokens = append(l.tokens, t)
	return nil
}

var partner = [128]byte{'(': ')', '[': ']', '{': '}'}

// next consumes one token at l.at, which is not blank.
func (l *lexer) next() (tokenKind, error) {
	c := l.text[l.at]
	switch {
	case c == '\'':
		return tokString, l.quoted(l.at, false)
	case c == '"':
		return tokQuoted, l.quotedName()
	case isDigit(c), c == '.' && isDigit(l.peek(1)):
		l.number()
		return tokNumber, nil
	case c == '$':
		return l.dollars()
	case c == '?':
		l.at++
		for isDigit(l.peek(0)) {
			l.at++
		}
		return tokParam, nil
	case identStart(c):
		return l.word()
	case c == '(' || c == '[' || c == '{':
		l.at++
		return tokOpen, nil
	case c == ')' || c == ']' || c == '}':
		l.at++
		return tokClose, nil
	}
	l.operator()
	return tokOp, nil
}

func (l *lexer) peek(n int) byte {
	if l.at+n < len(l.text) {
		return l.text[l.at+n]
	}
	return 0
}

// word consumes an identifier, or the string that a one-letter prefix begins.
func (l *lexer) word() (tokenKind, error) {
	if l.peek(1) == '\'' {
		switch l.text[l.at] | 0x20 {
		case 'e':
			start := l.at
			l.at++
			return tokString, l.quoted(start, true)
		case 'x', 'b', 'n':
			start := l.at
			l.at++
			return tokString, l.quoted(start, false)
		}
	}
	if l.text[l.at]|0x20 == 'u' && l.peek(1) == '&' && (l.peek(2) == '\'' || l.peek(2) == '"') {
		return 0, l.failAt(l.at, "U& strings and names are not part of the dialect; write the characters themselves, or E'\\u0041'")
	}
	l.identifier()
	return tokWord, nil
}

func (l *lexer) identifier() {
	for l.at < len(l.text) && identPart(l.text[l.at]) && unicodeSpace(l.text[l.at:]) == 0 {
		l.at++
	}
}

// quotedName consumes "…" with "" for a quote.
func (l *lexer) quotedName() error {
	start := l.at
	l.at++
	for {
		i := strings.IndexByte(l.text[l.at:], '"')
		if i < 0 {
			return l.failAt(start, "this quoted name is never closed")
		}
		l.at += i + 1
		if l.peek(0) != '"' {
			break
		}
		l.at++
	}
	if l.at-start == 2 {
		return l.failAt(start, "a quoted name is empty")
	}
	return nil
}

// quoted consumes a single-quoted string whose quote is at l.at, with two quotes for
// one, and backslashes when escapes is set. Strings that follow after blanks
// with a line break between are one string with it, as in standard SQL.
func (l *lexer) quoted(start int, escapes bool) error {
	for {
		l.at++
		if !l.quotedPiece(escapes) {
			return l.failAt(start, "this string is never closed")
		}
		next, ok := continuation(l.text, l.at)
		if !ok {
			return nil
		}
		l.at = next
	}
}

// quotedPiece consumes up to and with the closing quote.
func (l *lexer) quotedPiece(escapes bool) bool {
	for l.at < len(l.text) {
		switch c := l.text[l.at]; {
		case c == '\'' && l.peek(1) == '\'', c == '\\' && escapes && l.at+1 < len(l.text):
			l.at += 2
		case c == '\'':
			l.at++
			return true
		default:
			l.at++
		}
	}
	return false
}

// continuation finds the quote that continues a string which ends before at.
func continuation(text string, at int) (int, bool) {
	line := false
	for at < len(text) {
		switch c := text[at]; {
		case c == '\n' || c == '\r':
			line = true
			at++
		case c == '-' && strings.HasPrefix(text[at:], "--"):
			i := strings.IndexAny(text[at:], "\r\n")
			if i < 0 {
				return 0, false
			}
			at += i
		case c == '\'':
			return at, line
		default:
			n := blank(text[at:])
			if n == 0 {
				return 0, false
			}
			at += n
		}
	}
	return 0, false
}

// dollars consumes $1, $name, $"name" or the dollar-quoted $tag$…$tag$. DuckDB
// allows blanks and comments between $ and the name; here they are refused.
func (l *lexer) dollars() (tokenKind, error) {
	start := l.at
	l.at++
	if isDigit(l.peek(0)) {
		for isDigit(l.peek(0)) {
			l.at++
		}
		return tokParam, nil
	}
	end := dollarTag(l.text[start:])
	if end == 0 {
		switch c := l.peek(0); {
		case c == '"':
			return tokParam, l.quotedName()
		case c != 0 && identStart(c) && unicodeSpace(l.text[l.at:]) == 0:
			l.identifier()
			return tokParam, nil
		}
		return 0, l.failAt(start, "a $ without the number or name of a parameter right behind it")
	}
	tag := l.text[start : start+end]
	i := strings.Index(l.text[start+end:], tag)
	if i < 0 {
		return 0, l.failAt(start, "the string that %s begins is never closed", shown(tag))
	}
	l.at = start + end + i + end
	return tokString, nil
}

// dollarTag gives the length of the $tag$ that s begins with, or 0.
func dollarTag(s string) int {
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '$':
			return i + 1
		case i == 1 && !identStart(c), !identPart(c), unicodeSpace(s[i:]) > 0:
			return 0
		}
	}
	return 0
}

// number consumes digits with underscores, fraction and exponent. DuckDB knows
// no 0x1f: that is 0 with the alias x1f.
func (l *lexer) number() {
	l.digits()
	if l.peek(0) == '.' {
		l.at++
		l.digits()
	}
	if l.peek(0)|0x20 == 'e' {
		n := 1
		if c := l.peek(1); c == '+' || c == '-' {
			n = 2
		}
		if isDigit(l.peek(n)) {
			l.at += n
			l.digits()
		}
	}
}

// digits consumes digits, with single underscores between them.
func (l *lexer) digits() {
	for isDigit(l.peek(0)) || l.peek(0) == '_' && isDigit(l.peek(1)) {
		l.at++
	}
}

const opChars = "~!@#^&|`+-*/%<>="

// operator consumes a run of operator characters by PostgreSQL's rule: it ends
// before a comment, and a trailing + or - belongs to the operand unless the run
// holds one of ~ ! @ # ^ & | ` %. Everything else is a token by itself.
func (l *lexer) operator() {
	if l.at >= l.ops.end {
		l.scanRun()
	}
	n := 0
	switch {
	case l.ops.unusual >= l.at:
		n = l.ops.end - l.at
	case l.ops.end > l.at:
		n = max(l.ops.plain+1-l.at, 1)
	case strings.HasPrefix(l.text[l.at:], ":="), strings.HasPrefix(l.text[l.at:], "::"):
		n = 2
	default:
		_, n = utf8.DecodeRuneInString(l.text[l.at:])
	}
	l.at += n
}

// operatorRun describes the operator characters from some place to end, so that
// a long run of signs, each a token, is scanned once: the last place of an
// unusual character, and of one that is no sign.
type operatorRun struct{ end, unusual, plain int }

func (l *lexer) scanRun() {
	l.ops = operatorRun{end: l.at, unusual: -1, plain: -1}
	for i := l.at; i < len(l.text) && strings.IndexByte(opChars, l.text[i]) >= 0; i++ {
		rest := l.text[i:]
		if i > l.at && (strings.HasPrefix(rest, "--") || strings.HasPrefix(rest, "/*")) {
			break
		}
		if strings.IndexByte("~!@#^&|`%", rest[0]) >= 0 {
			l.ops.unusual = i
		}
		if rest[0] != '+' && rest[0] != '-' {
			l.ops.plain = i
		}
		l.ops.end = i + 1
	}
}

// skipBlank consumes blanks and comments.
func (l *lexer) skipBlank() error {
	for l.at < len(l.text) {
		switch c := l.text[l.at]; {
		case c == '-' && l.peek(1) == '-':
			i := strings.IndexAny(l.text[l.at:], "\r\n")
			if i < 0 {
				l.at = len(l.text)
				return nil
			}
			l.at += i
		case c == '/' && l.peek(1) == '*':
			if err := l.blockComment(); err != nil {
				return err
			}
		default:
			n := blank(l.text[l.at:])
			if n == 0 {
				return nil
			}
			l.at += n
		}
	}
	return nil
}

// blockComment consumes /* … */ with comments nested in it.
func (l *lexer) blockComment() error {
	start, depth := l.at, 0
	for l.at < len(l.text) {
		switch {
		case strings.HasPrefix(l.text[l.at:], "/*"):
			depth++
			l.at += 2
		case strings.HasPrefix(l.text[l.at:], "*/"):
			depth--
			l.at += 2
			if depth == 0 {
				return nil
			}
		default:
			l.at++
		}
	}
	return l.failAt(start, "this comment is never closed")
}

// blank gives the length of the blank that s begins with, or 0.
func blank(s string) int {
	switch s[0] {
	case ' ', '\t', '\n', '\r', '\f':
		return 1
	}
	return unicodeSpace(s)
}

// unicodeSpace gives the length of the Unicode blank that s begins with, or 0.
// These are the ones that DuckDB turns into blanks before it parses.
func unicodeSpace(s string) int {
	switch s[0] {
	case 0xc2:
		if s[1] == 0xa0 {
			return 2
		}
	case 0xe2:
		switch s[1] {
		case 0x80:
			if s[2] <= 0x8b || s[2] == 0xaf {
				return 3
			}
		case 0x81:
			if s[2] == 0x9f || s[2] == 0xa0 {
				return 3
			}
		}
	case 0xe3:
		if s[1] == 0x80 && s[2] == 0x80 {
			return 3
		}
	case 0xef:
		if s[1] == 0xbb && s[2] == 0xbf {
			return 3
		}
	}
	return 0
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isHex(c byte) bool { return isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'f' }

func identStart(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' || c == '_' || c >= 0x80 }

func identPart(c byte) bool { return identStart(c) || isDigit(c) || c == '$' }
