package table

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/schema"
)

// Rows are told apart by the values of key columns. Of a key no more than a hash
// is kept, of 128 bits of SHA-256, so that keys of any length take the same
// memory and nobody can choose two that are one.

// keyHash stands for the values of one row.
type keyHash [16]byte

// keyHasher reads the keys of batches.
type keyHasher struct {
	scratch []byte
}

// of gives the key of a row, and whether it has one: a null is equal to nothing,
// as in SQL and as pylance's merge_insert has it.
func (h *keyHasher) of(columns []arrow.Array, row int) (key keyHash, ok bool) {
	h.scratch = h.scratch[:0]
	for _, c := range columns {
		if c.IsNull(row) {
			return key, false
		}
		if h.scratch, ok = appendKey(h.scratch, c, row); !ok {
			return key, false
		}
	}
	sum := sha256.Sum256(h.scratch)
	copy(key[:], sum[:])
	return key, true
}

// keyField refuses columns that tell no rows apart.
func keyField(f *schema.Field) error {
	if f.Shape == schema.Leaf && f.Blob == schema.NotBlob && f.Storage != nil && !f.Packed && !holdsJSON(f) {
		t := f.Storage
		if d, ok := t.(*arrow.DictionaryType); ok {
			t = d.ValueType
		}
		switch t.ID() {
		case arrow.BOOL, arrow.INT8, arrow.INT16, arrow.INT32, arrow.INT64, arrow.UINT8, arrow.UINT16, arrow.UINT32, arrow.UINT64,
			arrow.FLOAT32, arrow.FLOAT64, arrow.DATE32, arrow.DATE64, arrow.TIME32, arrow.TIME64, arrow.TIMESTAMP, arrow.DURATION,
			arrow.DECIMAL128, arrow.DECIMAL256, arrow.STRING, arrow.LARGE_STRING, arrow.BINARY, arrow.LARGE_BINARY, arrow.FIXED_SIZE_BINARY:
			return nil
		}
	}
	return fault.New(fault.Invalid, "table: rows are not told apart by column %s of type %s; keys are whole columns of numbers, text, bytes, times or booleans", f.FullName(), f.Logical)
}

// appendKey appends a value in a form that only equal values have. Numbers of
// all widths are one form, offsets of either width are one; 0 is -0, and NaN is
// NaN, as in SQL. It is false for a null item of a dictionary.
func appendKey(b []byte, a arrow.Array, row int) ([]byte, bool) {
	number := func(v uint64) ([]byte, bool) { return binary.LittleEndian.AppendUint64(b, v), true }
	bytes := func(v []byte) ([]byte, bool) {
		return append(binary.LittleEndian.AppendUint64(b, uint64(len(v))), v...), true
	}
	switch a := a.(type) {
	case *array.Boolean:
		if a.Value(row) {
			return number(1)
		}
		return number(0)
	case *array.Int8:
		return number(uint64(int64(a.Value(row))))
	case *array.Int16:
		return number(uint64(int64(a.Value(row))))
	case *array.Int32:
		return number(uint64(int64(a.Value(row))))
	case *array.Int64:
		return number(uint64(a.Value(row)))
	case *array.Uint8:
		return number(uint64(a.Value(row)))
	case *array.Uint16:
		return number(uint64(a.Value(row)))
	case *array.Uint32:
		return number(uint64(a.Value(row)))
	case *array.Uint64:
		return number(a.Value(row))
	case *array.Float32:
		return number(floatKey(float64(a.Value(row))))
	case *array.Float64:
		return number(floatKey(a.Value(row)))
	case *array.Date32:
		return number(uint64(int64(a.Value(row))))
	case *array.Date64:
		return number(uint64(a.Value(row)))
	case *array.Time32:
		return number(uint64(int64(a.Value(row))))
	case *array.Time64:
		return number(uint64(a.Value(row)))
	case *array.Timestamp:
		return number(uint64(a.Value(row)))
	case *array.Duration:
		return number(uint64(a.Value(row)))
	case *array.Decimal128:
		v := a.Value(row)
		b, _ = number(v.LowBits())
		return binary.LittleEndian.AppendUint64(b, uint64(v.HighBits())), true
	case *array.Decimal256:
		for _, word := range a.Value(row).Array() {
			b = binary.LittleEndian.AppendUint64(b, word)
		}
		return b, true
	case *array.String:
		return bytes([]byte(a.Value(row)))
	case *array.LargeString:
		return bytes([]byte(a.Value(row)))
	case *array.Binary:
		return bytes(a.Value(row))
	case *array.LargeBinary:
		return bytes(a.Value(row))
	case *array.FixedSizeBinary:
		return bytes(a.Value(row))
	case *array.Dictionary:
		item := a.GetValueIndex(row)
		if a.Dictionary().IsNull(item) {
			return b, false
		}
		return appendKey(b, a.Dictionary(), item)
	}
	panic(fmt.Sprintf("table: a key of type %s", a.DataType())) // keyField allows no others
}

func floatKey(v float64) uint64 {
	switch {
	case v == 0:
		return 0
	case math.IsNaN(v):
		return math.Float64bits(math.NaN())
	}
	return math.Float64bits(v)
}

// maxKeyText is how much of a key an error shows, in bytes.
const maxKeyText = 100

// keyText writes the key of a row for people.
func keyText(columns []arrow.Array, row int) string {
	parts := make([]string, len(columns))
	for i, c := range columns {
		parts[i] = c.ValueStr(row)
	}
	text := strings.Join(parts, ", ")
	if len(text) > maxKeyText {
		text = strings.ToValidUTF8(text[:maxKeyText], "") + "…"
	}
	return text
}
