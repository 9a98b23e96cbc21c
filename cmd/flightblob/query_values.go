package main

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"

	"github.com/flightblob/flightblob/blob"
	"github.com/flightblob/flightblob/internal/half"
	"github.com/flightblob/flightblob/schema"
)

// style says how values are written.
type style struct {
	// short writes bytes and blobs for the eye: kind and size, or a few digits.
	short bool
}

// isBlob tells a blob column in its descriptor face.
func isBlob(f arrow.Field) bool {
	_, ok := f.Metadata.GetValue(schema.KeyBlob)
	return ok && f.Type.ID() == arrow.STRUCT
}

// text writes a value on its own: text without quotes, nested values as JSON.
func (s style) text(f arrow.Field, arr arrow.Array, i int) (string, error) {
	if a, ok := arr.(array.StringLike); ok && !arr.IsNull(i) {
		return strings.Clone(a.Value(i)), nil // the batch goes before a table has its widths
	}
	b, err := s.append(nil, f, arr, i)
	if err != nil || len(b) == 0 || b[0] != '"' {
		return string(b), err
	}
	var v string
	if err := json.Unmarshal(b, &v); err != nil {
		return "", fmt.Errorf("column %q: %w", f.Name, err)
	}
	return v, nil
}

// append writes a value as JSON. Bytes are base64; numbers keep all digits;
// what JSON has no number for is text.
func (s style) append(dst []byte, f arrow.Field, arr arrow.Array, i int) ([]byte, error) {
	if s.short && isBlob(f) {
		return s.appendBlob(dst, arr, i)
	}
	if arr.IsNull(i) {
		return append(dst, "null"...), nil
	}
	switch a := arr.(type) {
	case *array.Boolean:
		return strconv.AppendBool(dst, a.Value(i)), nil
	case *array.Int8, *array.Int16, *array.Int32, *array.Int64, *array.Uint8, *array.Uint16, *array.Uint32, *array.Uint64:
		return append(dst, arr.ValueStr(i)...), nil
	case *array.Decimal32:
		return appendDecimal(dst, big.NewInt(int64(a.Value(i))), a.DataType()), nil
	case *array.Decimal64:
		return appendDecimal(dst, big.NewInt(int64(a.Value(i))), a.DataType()), nil
	case *array.Decimal128:
		return appendDecimal(dst, a.Value(i).BigInt(), a.DataType()), nil
	case *array.Decimal256:
		return appendDecimal(dst, a.Value(i).BigInt(), a.DataType()), nil
	case *array.Float16:
		return appendFloat(dst, float64(half.Float32(a.Value(i))), 32), nil
	case *array.Float32:
		return appendFloat(dst, float64(a.Value(i)), 32), nil
	case *array.Float64:
		return appendFloat(dst, a.Value(i), 64), nil
	case *array.String:
		if v := a.Value(i); !s.short && isJSON(f) && json.Valid([]byte(v)) {
			return appendJSON(dst, v)
		}
		return appendText(dst, a.Value(i))
	case *array.LargeString:
		return appendText(dst, a.Value(i))
	case *array.StringView:
		return appendText(dst, a.Value(i))
	case *array.Binary:
		return s.appendBytes(dst, a.Value(i)), nil
	case *array.LargeBinary:
		return s.appendBytes(dst, a.Value(i)), nil
	case *array.BinaryView:
		return s.appendBytes(dst, a.Value(i)), nil
	case *array.FixedSizeBinary:
		return s.appendBytes(dst, a.Value(i)), nil
	case *array.Timestamp:
		return appendTime(dst, a, i)
	case *array.Date32:
		if limit := infinity(int64(a.Value(i)), math.MaxInt32); limit != "" {
			return appendText(dst, limit)
		}
		return appendText(dst, arr.ValueStr(i))
	case *array.Time32, *array.Time64:
		return appendText(dst, shortTime(arr.ValueStr(i)))
	case *array.MonthDayNanoInterval:
		v := a.Value(i)
		return appendText(dst, interval(int64(v.Months), int64(v.Days), v.Nanoseconds))
	case *array.Duration:
		return appendText(dst, duration(int64(a.Value(i)), a.DataType()))
	case *array.Dictionary:
		return s.append(dst, f, a.Dictionary(), a.GetValueIndex(i))
	case array.ExtensionArray:
		return s.append(dst, arrow.Field{Name: f.Name, Type: a.Storage().DataType()}, a.Storage(), i)
	case *array.Struct:
		return s.appendStruct(dst, a, i)
	case array.Union:
		return s.appendUnion(dst, a, i)
	case *array.Map:
		return s.appendMap(dst, a, i)
	case array.ListLike:
		return s.appendList(dst, a, i)
	default:
		return appendText(dst, arr.ValueStr(i))
	}
}

func appendFloat(dst []byte, v float64, bits int) []byte {
	switch {
	case math.IsNaN(v):
		return append(dst, `"NaN"`...)
	case math.IsInf(v, 1):
		return append(dst, `"Infinity"`...)
	case math.IsInf(v, -1):
		return append(dst, `"-Infinity"`...)
	case v != 0 && (math.Abs(v) < 1e-6 || math.Abs(v) >= 1e21):
		return strconv.AppendFloat(dst, v, 'e', -1, bits)
	}
	return strconv.AppendFloat(dst, v, 'f', -1, bits)
}

func appendText(dst []byte, v string) ([]byte, error) {
	if strings.IndexFunc(v, func(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' }) < 0 {
		return append(append(append(dst, '"'), v...), '"'), nil
	}
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return dst, err
	}
	return append(dst, strings.TrimSuffix(b.String(), "\n")...), nil
}

// isJSON tells a column of JSON texts, which stand in JSON as what they are.
func isJSON(f arrow.Field) bool {
	name, ok := f.Metadata.GetValue(ipc.ExtensionTypeKeyName)
	return ok && name == "arrow.json"
}

// appendJSON writes a JSON text on one line, numbers as they are.
func appendJSON(dst []byte, v string) ([]byte, error) {
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(v)); err != nil {
		return dst, err
	}
	return append(dst, b.Bytes()...), nil
}

// shown is how many bytes of a binary value a table shows.
const shown = 16

func (s style) appendBytes(dst, v []byte) []byte {
	dst = append(dst, '"')
	switch {
	case !s.short:
		dst = base64.StdEncoding.AppendEncode(dst, v)
	case len(v) <= shown:
		dst = hex.AppendEncode(append(dst, "0x"...), v)
	default:
		dst = append(dst, "‹"+sizeText(uint64(len(v)))+"›"...)
	}
	return append(dst, '"')
}

// appendUnion writes an object of the one member that counts.
func (s style) appendUnion(dst []byte, a array.Union, i int) ([]byte, error) {
	child := a.ChildID(i)
	field := a.UnionType().Fields()[child]
	dst, err := appendText(append(dst, '{'), field.Name)
	if err != nil {
		return dst, err
	}
	at := i
	if dense, ok := a.(*array.DenseUnion); ok {
		at = int(dense.ValueOffset(i))
	}
	dst, err = s.append(append(dst, ':'), field, a.Field(child), at)
	return append(dst, '}'), err
}

// appendTime writes ISO 8601, with Z where the column has a zone.
func appendTime(dst []byte, a *array.Timestamp, i int) ([]byte, error) {
	t, ok := a.DataType().(*arrow.TimestampType)
	if !ok {
		return dst, fmt.Errorf("%s is no timestamp", a.DataType())
	}
	if limit := infinity(int64(a.Value(i)), math.MaxInt64); limit != "" {
		return appendText(dst, limit)
	}
	layout := "2006-01-02T15:04:05.999999999"
	if t.TimeZone != "" {
		layout = time.RFC3339Nano
	}
	return appendText(dst, a.Value(i).ToTime(t.Unit).UTC().Format(layout))
}

func (s style) appendStruct(dst []byte, a *array.Struct, i int) ([]byte, error) {
	t, ok := a.DataType().(*arrow.StructType)
	if !ok {
		return dst, fmt.Errorf("%s is no struct", a.DataType())
	}
	var err error
	dst = append(dst, '{')
	for c, f := range t.Fields() {
		if c > 0 {
			dst = append(dst, ',')
		}
		if dst, err = appendText(dst, f.Name); err != nil {
			return dst, err
		}
		dst = append(dst, ':')
		if dst, err = s.append(dst, f, a.Field(c), i); err != nil {
			return dst, err
		}
	}
	return append(dst, '}'), nil
}

// appendMap writes pairs as a list of [key, value]: keys need not be text.
func (s style) appendMap(dst []byte, a *array.Map, i int) ([]byte, error) {
	t, ok := a.DataType().(*arrow.MapType)
	if !ok {
		return dst, fmt.Errorf("%s is no map", a.DataType())
	}
	var err error
	dst = append(dst, '[')
	start, end := a.ValueOffsets(i)
	for j := start; j < end; j++ {
		if j > start {
			dst = append(dst, ',')
		}
		if dst, err = s.append(append(dst, '['), t.KeyField(), a.Keys(), int(j)); err != nil {
			return dst, err
		}
		if dst, err = s.append(append(dst, ','), t.ItemField(), a.Items(), int(j)); err != nil {
			return dst, err
		}
		dst = append(dst, ']')
	}
	return append(dst, ']'), nil
}

func (s style) appendList(dst []byte, a array.ListLike, i int) ([]byte, error) {
	t, ok := a.DataType().(arrow.ListLikeType)
	if !ok {
		return dst, fmt.Errorf("%s is no list", a.DataType())
	}
	var err error
	dst = append(dst, '[')
	start, end := a.ValueOffsets(i)
	for j := start; j < end; j++ {
		if j > start {
			dst = append(dst, ',')
		}
		if dst, err = s.append(dst, t.ElemField(), a.ListValues(), int(j)); err != nil {
			return dst, err
		}
	}
	return append(dst, ']'), nil
}

// appendBlob writes kind and size of a descriptor.
func (s style) appendBlob(dst []byte, arr arrow.Array, i int) ([]byte, error) {
	column, err := blob.AsColumn(arr)
	if err != nil {
		return dst, err
	}
	d, null, err := column.At(i)
	if err != nil {
		return dst, err
	}
	kind := "unknown kind"
	if int(d.Kind) < len(kindNames) {
		kind = kindNames[d.Kind]
	}
	switch {
	case null:
		return append(dst, "null"...), nil
	case d.Kind == blob.External && d.Size == 0:
		return append(dst, `"‹`+kind+` object›"`...), nil
	}
	return append(dst, `"‹`+kind+" "+sizeText(d.Size)+`›"`...), nil
}

// sizeText rounds bytes to three digits.
func sizeText(n uint64) string {
	if n < 1000 {
		return strconv.FormatUint(n, 10) + " B"
	}
	v, unit := float64(n), 0
	for v >= 999.95 && unit < 6 {
		v, unit = v/1000, unit+1
	}
	return strconv.FormatFloat(v, 'f', 1, 64) + " " + []string{"B", "KB", "MB", "GB", "TB", "PB", "EB"}[unit]
}

// printable writes control characters as escapes, so that no value moves the
// cursor or breaks a row.
func printable(s string) string {
	clean := func(r rune) bool { return !unicode.IsPrint(r) && r != ' ' }
	if strings.IndexFunc(s, clean) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if clean(r) {
			q := strconv.QuoteRune(r)
			b.WriteString(q[1 : len(q)-1])
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}
