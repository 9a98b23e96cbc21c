// Package jsonb turns the binary JSON that Lance stores for JSON columns into
// JSON text, spelled as the reference spells it, and text into the bytes that
// the reference stores.
//
// All integers are big-endian. A value starts with a header, kind in the top
// three bits and a count n in the rest:
//
//	0x20000000 scalar   one entry, its bytes
//	0x40000000 object   n key entries, n value entries, key bytes, value bytes
//	0x80000000 array    n entries, their bytes
//
// An entry has a type in bits 28 to 30 and the length of its bytes in the low
// 28: 0 null, 1 string, 2 number, 3 false, 4 true, 5 a nested value with a
// header of its own. A number is a tag and its digits: 0x00 zero, 0x40 signed,
// 0x50 unsigned (1, 2, 4 or 8 bytes), 0x60 a float64.
package jsonb

import (
	"encoding/binary"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/flightblob/flightblob/internal/fault"
)

const (
	kindMask  = 0xE0000000
	countMask = 0x1FFFFFFF
	scalar    = 0x20000000
	object    = 0x40000000
	array     = 0x80000000

	entryNull      = 0
	entryString    = 1
	entryNumber    = 2
	entryFalse     = 3
	entryTrue      = 4
	entryContainer = 5

	numberZero     = 0x00
	numberSigned   = 0x40
	numberUnsigned = 0x50
	numberFloat    = 0x60

	// maxDepth bounds nesting, so that hostile bytes cannot exhaust the stack;
	// JSON parsers commonly stop at 128.
	maxDepth = 1000
)

// AppendText adds the JSON text of a stored value to dst. Errors are
// fault.Corrupt with the offset inside data, or fault.Unsupported for number
// and entry kinds that the reference does not write.
func AppendText(dst, data []byte) ([]byte, error) {
	d := decoder{data: data}
	return d.value(dst, 0, len(data), maxDepth)
}

type decoder struct{ data []byte }

// value reads the value that fills data[from:to].
func (d *decoder) value(dst []byte, from, to, depth int) ([]byte, error) {
	if depth == 0 {
		return nil, fault.Corruptf(int64(from), "jsonb: more than %d levels", maxDepth)
	}
	if to-from < 4 {
		return nil, fault.Corruptf(int64(from), "jsonb: %d bytes are too short for a value", to-from)
	}
	header := binary.BigEndian.Uint32(d.data[from:])
	count := int(header & countMask)
	switch header & kindMask {
	case scalar:
		return d.list(dst, from+4, to, 1, depth)
	case array:
		dst = append(dst, '[')
		dst, err := d.list(dst, from+4, to, count, depth)
		return append(dst, ']'), err
	case object:
		return d.object(dst, from+4, to, count, depth)
	}
	return nil, fault.Corruptf(int64(from), "jsonb: unknown header %#08x", header)
}

// list reads count entries and their bytes, separated by commas.
func (d *decoder) list(dst []byte, from, to, count, depth int) ([]byte, error) {
	if err := d.room(from, to, count); err != nil {
		return nil, err
	}
	at := from + 4*count
	for i := range count {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, at, err = d.entry(dst, from+4*i, at, to, depth); err != nil {
			return nil, err
		}
	}
	return dst, nil
}

func (d *decoder) object(dst []byte, from, to, count, depth int) ([]byte, error) {
	if err := d.room(from, to, 2*count); err != nil {
		return nil, err
	}
	key := from + 8*count // the keys' bytes come first
	value := key
	for i := range count {
		kind, n := d.at(from + 4*i)
		if kind != entryString {
			return nil, fault.Corruptf(int64(from+4*i), "jsonb: an object key is no string")
		}
		value += n
	}
	if value > to {
		return nil, fault.Corruptf(int64(from), "jsonb: the keys of an object end past its %d bytes", to-from)
	}
	dst = append(dst, '{')
	for i := range count {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, key, err = d.entry(dst, from+4*i, key, to, depth); err != nil {
			return nil, err
		}
		dst = append(dst, ':')
		if dst, value, err = d.entry(dst, from+4*(count+i), value, to, depth); err != nil {
			return nil, err
		}
	}
	return append(dst, '}'), nil
}

func (d *decoder) room(from, to, entries int) error {
	if entries > (to-from)/4 {
		return fault.Corruptf(int64(from), "jsonb: %d entries do not fit into %d bytes", entries, to-from)
	}
	return nil
}

// at reads an entry: its type and the length of its bytes.
func (d *decoder) at(pos int) (kind uint32, n int) {
	e := binary.BigEndian.Uint32(d.data[pos:])
	return e >> 28 & 7, int(e & 0x0FFFFFFF)
}

// entry adds the value of the entry at pos, whose bytes start at from, and
// answers where they end.
func (d *decoder) entry(dst []byte, pos, from, to, depth int) ([]byte, int, error) {
	kind, n := d.at(pos)
	if n > to-from {
		return nil, 0, fault.Corruptf(int64(pos), "jsonb: %d bytes end past the value", n)
	}
	bytes, end := d.data[from:from+n], from+n
	var err error
	switch kind {
	case entryNull:
		dst = append(dst, "null"...)
	case entryTrue:
		dst = append(dst, "true"...)
	case entryFalse:
		dst = append(dst, "false"...)
	case entryString:
		if !utf8.Valid(bytes) {
			return nil, 0, fault.Corruptf(int64(from), "jsonb: a string is no UTF-8")
		}
		dst = appendString(dst, bytes)
	case entryNumber:
		dst, err = appendNumber(dst, bytes, from)
	case entryContainer:
		dst, err = d.value(dst, from, end, depth-1)
	default:
		err = fault.New(fault.Unsupported, "jsonb: entry of kind %d, which this program does not know", kind)
	}
	return dst, end, err
}

func appendNumber(dst, b []byte, at int) ([]byte, error) {
	if len(b) == 0 {
		return nil, fault.Corruptf(int64(at), "jsonb: a number without bytes")
	}
	tag, digits := b[0], b[1:]
	switch tag {
	case numberZero:
		if len(digits) == 0 {
			return append(dst, '0'), nil
		}
	case numberSigned, numberUnsigned:
		var u uint64
		var s int64
		switch len(digits) {
		case 1:
			u, s = uint64(digits[0]), int64(int8(digits[0]))
		case 2:
			v := binary.BigEndian.Uint16(digits)
			u, s = uint64(v), int64(int16(v))
		case 4:
			v := binary.BigEndian.Uint32(digits)
			u, s = uint64(v), int64(int32(v))
		case 8:
			u = binary.BigEndian.Uint64(digits)
			s = int64(u)
		default:
			return nil, fault.Corruptf(int64(at), "jsonb: an integer of %d bytes", len(digits))
		}
		if tag == numberSigned {
			return strconv.AppendInt(dst, s, 10), nil
		}
		return strconv.AppendUint(dst, u, 10), nil
	case numberFloat:
		if len(digits) == 8 {
			return appendFloat(dst, math.Float64frombits(binary.BigEndian.Uint64(digits)))
		}
	default:
		return nil, fault.New(fault.Unsupported, "jsonb: number of kind %#02x, which this program does not know", tag)
	}
	return nil, fault.Corruptf(int64(at), "jsonb: a number of kind %#02x with %d bytes", tag, len(digits))
}

// appendFloat spells a float as the reference does: the shortest digits that
// read back, plain for exponents from -5 to 15, always recognisable as a float.
func appendFloat(dst []byte, v float64) ([]byte, error) {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil, fault.New(fault.Unsupported, "jsonb: %v is no JSON number", v)
	}
	start := len(dst)
	dst = strconv.AppendFloat(dst, v, 'e', -1, 64)
	e := len(dst) - 1
	for dst[e] != 'e' {
		e--
	}
	exponent, err := strconv.Atoi(string(dst[e+1:]))
	if err != nil {
		return nil, fault.New(fault.Internal, "jsonb: exponent of %v: %v", v, err)
	}
	if exponent >= -5 && exponent < 16 {
		dst = strconv.AppendFloat(dst[:start], v, 'f', -1, 64)
		for _, c := range dst[start:] {
			if c == '.' {
				return dst, nil
			}
		}
		return append(dst, '.', '0'), nil
	}
	dst = dst[:e+1]
	if exponent >= 0 {
		dst = append(dst, '+')
	}
	return strconv.AppendInt(dst, int64(exponent), 10), nil
}

func appendString(dst, s []byte) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c >= 0x20:
			dst = append(dst, c)
		case c == '\b':
			dst = append(dst, `\b`...)
		case c == '\f':
			dst = append(dst, `\f`...)
		case c == '\n':
			dst = append(dst, `\n`...)
		case c == '\r':
			dst = append(dst, `\r`...)
		case c == '\t':
			dst = append(dst, `\t`...)
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
	}
	return append(dst, '"')
}
