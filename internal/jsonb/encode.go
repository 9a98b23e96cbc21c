package jsonb

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/flightblob/flightblob/internal/fault"
)

// maxWriteDepth is the deepest nesting that is written.
const maxWriteDepth = 500

// Append adds the binary form of JSON text to dst, the bytes that the reference
// writes: keys sorted by their bytes, integers in the fewest bytes that hold
// them, larger ones and all others as float64. The text must be strict JSON
// (RFC 8259): the reference also takes unquoted keys, single quotes, empty
// elements and the like, and makes null of numbers that no float64 holds; here
// they are refused. Keys that occur twice are refused by both. The error is
// fault.Invalid and names the byte of the text.
func Append(dst, text []byte) ([]byte, error) {
	e := encoder{text: text}
	e.space()
	// A value at the top that is no container is wrapped into one entry.
	if c := e.peek(); c != '{' && c != '[' {
		start := len(dst)
		dst = binary.BigEndian.AppendUint32(dst, scalar)
		dst = binary.BigEndian.AppendUint32(dst, 0)
		dst, entry, err := e.value(dst, 0)
		if err != nil {
			return nil, err
		}
		binary.BigEndian.PutUint32(dst[start+4:], entry)
		return dst, e.end()
	}
	dst, _, err := e.value(dst, 0)
	if err != nil {
		return nil, err
	}
	return dst, e.end()
}

// encoder reads text from at on.
type encoder struct {
	text []byte
	at   int
}

func (e *encoder) fail(format string, args ...any) error {
	return fault.New(fault.Invalid, "jsonb: at byte "+strconv.Itoa(e.at)+": "+format, args...)
}

func (e *encoder) space() {
	for e.at < len(e.text) {
		switch e.text[e.at] {
		case ' ', '\t', '\n', '\r':
			e.at++
		default:
			return
		}
	}
}

// peek gives the next byte, 0 at the end; a zero byte starts nothing.
func (e *encoder) peek() byte {
	if e.at < len(e.text) {
		return e.text[e.at]
	}
	return 0
}

func (e *encoder) end() error {
	e.space()
	if e.at < len(e.text) {
		return e.fail("text behind the value")
	}
	return nil
}

// next steps over c, and blanks on both sides of it, if it comes next.
func (e *encoder) next(c byte) bool {
	e.space()
	if e.peek() != c {
		return false
	}
	e.at++
	e.space()
	return true
}

// value adds the bytes of the next value and gives its entry.
func (e *encoder) value(dst []byte, depth int) ([]byte, uint32, error) {
	if depth > maxWriteDepth {
		return nil, 0, e.fail("more than %d levels", maxWriteDepth)
	}
	start, kind := len(dst), uint32(entryContainer)
	var err error
	switch c := e.peek(); {
	case c == '{':
		dst, err = e.object(dst, depth)
	case c == '[':
		dst, err = e.array(dst, depth)
	case c == '"':
		kind = entryString
		dst, err = e.quoted(dst)
	case c == '-' || c >= '0' && c <= '9':
		kind = entryNumber
		dst, err = e.number(dst)
	default:
		kind, err = e.word()
	}
	if err != nil {
		return nil, 0, err
	}
	n := len(dst) - start
	if n > 0x0FFFFFFF {
		return nil, 0, e.fail("a value of more than 256 MiB")
	}
	return dst, kind<<28 | uint32(n), nil
}

func (e *encoder) word() (uint32, error) {
	for _, w := range [...]struct {
		text string
		kind uint32
	}{{"null", entryNull}, {"true", entryTrue}, {"false", entryFalse}} {
		if rest := e.text[e.at:]; len(rest) >= len(w.text) && string(rest[:len(w.text)]) == w.text {
			e.at += len(w.text)
			return w.kind, nil
		}
	}
	if e.at == len(e.text) {
		return 0, e.fail("the text ends before the value")
	}
	return 0, e.fail("%s starts no value", strconv.QuoteRune(rune(e.text[e.at])))
}

func (e *encoder) array(dst []byte, depth int) ([]byte, error) {
	e.at++
	var entries []uint32
	var body []byte
	for first := true; !e.next(']'); first = false {
		if !first && !e.next(',') {
			return nil, e.fail("a comma or ] is missing")
		}
		var entry uint32
		var err error
		if body, entry, err = e.value(body, depth+1); err != nil {
			return nil, err
		}
		entries = append(entries, entry)
	}
	if len(entries) > countMask {
		return nil, e.fail("an array of %d elements", len(entries))
	}
	dst = binary.BigEndian.AppendUint32(dst, array|uint32(len(entries)))
	for _, entry := range entries {
		dst = binary.BigEndian.AppendUint32(dst, entry)
	}
	return append(dst, body...), nil
}

// member is one pair of an object.
type member struct {
	key   string
	entry uint32
	value []byte
}

func (e *encoder) object(dst []byte, depth int) ([]byte, error) {
	e.at++
	var members []member
	for first := true; !e.next('}'); first = false {
		if !first && !e.next(',') {
			return nil, e.fail("a comma or } is missing")
		}
		if e.peek() != '"' {
			return nil, e.fail("a key in double quotes is missing")
		}
		key, err := e.quoted(nil)
		if err != nil {
			return nil, err
		}
		if !e.next(':') {
			return nil, e.fail("a colon is missing")
		}
		value, entry, err := e.value(nil, depth+1)
		if err != nil {
			return nil, err
		}
		members = append(members, member{string(key), entry, value})
	}
	if len(members) > countMask {
		return nil, e.fail("an object of %d members", len(members))
	}
	slices.SortFunc(members, func(a, b member) int {
		if a.key < b.key {
			return -1
		}
		if a.key > b.key {
			return 1
		}
		return 0
	})
	dst = binary.BigEndian.AppendUint32(dst, object|uint32(len(members)))
	for i, m := range members {
		if i > 0 && m.key == members[i-1].key {
			return nil, e.fail("an object has the key %s twice", fault.Quote(m.key))
		}
		dst = binary.BigEndian.AppendUint32(dst, entryString<<28|uint32(len(m.key)))
	}
	for _, m := range members {
		dst = binary.BigEndian.AppendUint32(dst, m.entry)
	}
	for _, m := range members {
		dst = append(dst, m.key...)
	}
	for _, m := range members {
		dst = append(dst, m.value...)
	}
	return dst, nil
}

// quoted adds the characters of a string.
func (e *encoder) quoted(dst []byte) ([]byte, error) {
	e.at++
	for e.at < len(e.text) {
		switch c := e.text[e.at]; {
		case c == '"':
			e.at++
			return dst, nil
		case c < 0x20:
			return nil, e.fail("a control character in a string must be escaped")
		case c == '\\':
			var err error
			if dst, err = e.escape(dst); err != nil {
				return nil, err
			}
		case c < utf8.RuneSelf:
			dst = append(dst, c)
			e.at++
		default:
			r, n := utf8.DecodeRune(e.text[e.at:])
			if r == utf8.RuneError && n == 1 {
				return nil, e.fail("a string is not UTF-8")
			}
			dst = append(dst, e.text[e.at:e.at+n]...)
			e.at += n
		}
	}
	return nil, e.fail("a string has no end")
}

func (e *encoder) escape(dst []byte) ([]byte, error) {
	const from, to = `"\/bfnrt`, "\"\\/\b\f\n\r\t"
	if e.at+1 < len(e.text) {
		c := e.text[e.at+1]
		for i := range len(from) {
			if from[i] == c {
				e.at += 2
				return append(dst, to[i]), nil
			}
		}
		if c == 'u' {
			return e.unicode(dst)
		}
	}
	return nil, e.fail("an unknown escape in a string")
}

// unicode adds a \u escape, or two that make one character.
func (e *encoder) unicode(dst []byte) ([]byte, error) {
	r, ok := e.unit()
	if ok && utf16.IsSurrogate(r) {
		low, more := e.unit()
		if r = utf16.DecodeRune(r, low); !more || r == utf8.RuneError {
			return nil, e.fail("half a surrogate pair in a string")
		}
	}
	if !ok {
		return nil, e.fail("an escape \\u needs four hexadecimal digits")
	}
	return utf8.AppendRune(dst, r), nil
}

// unit reads \uXXXX.
func (e *encoder) unit() (rune, bool) {
	rest := e.text[e.at:]
	if len(rest) < 6 || rest[0] != '\\' || rest[1] != 'u' {
		return 0, false
	}
	var r rune
	for _, c := range rest[2:6] {
		r <<= 4
		switch {
		case c >= '0' && c <= '9':
			r |= rune(c - '0')
		case c >= 'a' && c <= 'f':
			r |= rune(c - 'a' + 10)
		case c >= 'A' && c <= 'F':
			r |= rune(c - 'A' + 10)
		default:
			return 0, false
		}
	}
	e.at += 6
	return r, true
}

// number adds a number's tag and bytes.
func (e *encoder) number(dst []byte) ([]byte, error) {
	start := e.at
	digits := func() int {
		from := e.at
		for c := e.peek(); c >= '0' && c <= '9'; c = e.peek() {
			e.at++
		}
		return e.at - from
	}
	if e.peek() == '-' {
		e.at++
	}
	whole := true
	leading := e.peek()
	if n := digits(); n == 0 || n > 1 && leading == '0' {
		return nil, e.fail("a malformed number")
	}
	if e.peek() == '.' {
		e.at++
		whole = false
		if digits() == 0 {
			return nil, e.fail("a malformed number")
		}
	}
	if c := e.peek(); c == 'e' || c == 'E' {
		e.at++
		whole = false
		if c := e.peek(); c == '+' || c == '-' {
			e.at++
		}
		if digits() == 0 {
			return nil, e.fail("a malformed number")
		}
	}
	text := string(e.text[start:e.at])
	if whole {
		if u, err := strconv.ParseUint(text, 10, 64); err == nil {
			return appendUnsigned(dst, u), nil
		}
		if s, err := strconv.ParseInt(text, 10, 64); err == nil {
			return appendSigned(dst, s), nil
		}
	}
	v, err := strconv.ParseFloat(text, 64)
	if errors.Is(err, strconv.ErrRange) && math.IsInf(v, 0) {
		return nil, e.fail("the number %s is larger than any float64", fault.Quote(text))
	}
	return binary.BigEndian.AppendUint64(append(dst, numberFloat), math.Float64bits(v)), nil
}

func appendUnsigned(dst []byte, u uint64) []byte {
	switch {
	case u == 0:
		return append(dst, numberZero)
	case u <= math.MaxUint8:
		return append(dst, numberUnsigned, byte(u))
	case u <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(dst, numberUnsigned), uint16(u))
	case u <= math.MaxUint32:
		return binary.BigEndian.AppendUint32(append(dst, numberUnsigned), uint32(u))
	}
	return binary.BigEndian.AppendUint64(append(dst, numberUnsigned), u)
}

// appendSigned adds a negative number, or the zero that "-0" is.
func appendSigned(dst []byte, s int64) []byte {
	switch {
	case s == 0:
		return append(dst, numberZero)
	case s >= math.MinInt8:
		return append(dst, numberSigned, byte(s))
	case s >= math.MinInt16:
		return binary.BigEndian.AppendUint16(append(dst, numberSigned), uint16(s))
	case s >= math.MinInt32:
		return binary.BigEndian.AppendUint32(append(dst, numberSigned), uint32(s))
	}
	return binary.BigEndian.AppendUint64(append(dst, numberSigned), uint64(s))
}
