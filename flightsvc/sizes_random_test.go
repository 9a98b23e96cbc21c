package flightsvc

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/flightblob/flightblob/flightsvc/wire"
)

var leafTypes = []arrow.DataType{
	arrow.Null, arrow.FixedWidthTypes.Boolean, arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Uint16,
	arrow.PrimitiveTypes.Float32, arrow.PrimitiveTypes.Int64, &arrow.Decimal256Type{Precision: 40, Scale: 2},
	&arrow.FixedSizeBinaryType{ByteWidth: 7}, arrow.BinaryTypes.String, arrow.BinaryTypes.LargeBinary,
	arrow.BinaryTypes.StringView, arrow.FixedWidthTypes.MonthDayNanoInterval,
	&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int16, ValueType: arrow.BinaryTypes.String},
}

func someType(rng *rand.Rand, depth int) arrow.DataType {
	if depth == 0 || rng.IntN(2) == 0 {
		return leafTypes[rng.IntN(len(leafTypes))]
	}
	item := someType(rng, depth-1)
	switch rng.IntN(5) {
	case 0:
		return arrow.ListOf(item)
	case 1:
		return arrow.LargeListOf(item)
	case 2:
		return arrow.FixedSizeListOf(int32(1+rng.IntN(4)), item)
	case 3:
		return arrow.MapOf(arrow.BinaryTypes.String, item)
	}
	return arrow.StructOf(
		arrow.Field{Name: "a", Type: item, Nullable: true},
		arrow.Field{Name: "b", Type: someType(rng, depth-1), Nullable: true},
	)
}

// nested reports whether a dictionary lies below a level, where IPC readers of
// this library do not find it again.
func nested(t arrow.DataType, inside bool) bool {
	if t.ID() == arrow.DICTIONARY {
		return inside
	}
	if n, ok := t.(arrow.NestedType); ok {
		for _, f := range n.Fields() {
			if nested(f.Type, true) {
				return true
			}
		}
	}
	return false
}

func someBytes(rng *rand.Rand) []byte {
	b := make([]byte, []int{0, 3, 13, 60, 400}[rng.IntN(5)])
	for i := range b {
		b[i] = byte('a' + rng.IntN(26))
	}
	return b
}

// fill appends n values, a null among nulls of them where nulls is not 0.
func fill(b array.Builder, n, nulls int, rng *rand.Rand) {
	for range n {
		if nulls > 0 && rng.IntN(nulls) == 0 {
			b.AppendNull()
			continue
		}
		switch b := b.(type) {
		case *array.NullBuilder:
			b.AppendNull()
		case *array.BooleanBuilder:
			b.Append(rng.IntN(2) == 0)
		case *array.Int8Builder:
			b.Append(int8(rng.Int64()))
		case *array.Uint16Builder:
			b.Append(uint16(rng.Int64()))
		case *array.Float32Builder:
			b.Append(rng.Float32())
		case *array.Int64Builder:
			b.Append(rng.Int64())
		case *array.FixedSizeBinaryBuilder:
			b.Append([]byte(fmt.Sprintf("%07d", rng.IntN(1e7))))
		case *array.StringBuilder:
			b.Append(string(someBytes(rng)))
		case *array.BinaryBuilder:
			b.Append(someBytes(rng))
		case *array.StringViewBuilder:
			b.Append(string(someBytes(rng)))
		case *array.BinaryDictionaryBuilder:
			_ = b.AppendString(fmt.Sprint("word ", rng.IntN(20)))
		case *array.ListBuilder:
			b.Append(true)
			fill(b.ValueBuilder(), rng.IntN(5), nulls, rng)
		case *array.LargeListBuilder:
			b.Append(true)
			fill(b.ValueBuilder(), rng.IntN(5), nulls, rng)
		case *array.FixedSizeListBuilder:
			b.Append(true)
			fill(b.ValueBuilder(), int(b.Type().(*arrow.FixedSizeListType).Len()), nulls, rng)
		case *array.MapBuilder:
			b.Append(true)
			items := rng.IntN(4)
			fill(b.KeyBuilder(), items, 0, rng)
			fill(b.ItemBuilder(), items, nulls, rng)
		case *array.StructBuilder:
			b.Append(true)
			for i := range b.NumField() {
				fill(b.FieldBuilder(i), 1, nulls, rng)
			}
		default:
			b.AppendEmptyValue()
		}
	}
}

// roomy is a flat array with buffers of whole cache lines, as decoders make them;
// builders cut theirs to the values.
func roomy(d arrow.ArrayData) arrow.ArrayData {
	buffers := slices.Clone(d.Buffers())
	for i, b := range buffers {
		if b != nil && b.Len() > 0 {
			long := make([]byte, rounded(int64(b.Len())))
			copy(long, b.Bytes())
			buffers[i] = memory.NewBufferBytes(long)
		}
	}
	if d.Dictionary() != nil {
		return array.NewDataWithDictionary(d.DataType(), d.Len(), buffers, d.NullN(), d.Offset(), d.Dictionary().(*array.Data))
	}
	return array.NewData(d.DataType(), d.Len(), buffers, nil, d.NullN(), d.Offset())
}

// No message of random columns, whole, cut and compressed, is longer than was
// computed, and none that holds more than one row is longer than was asked for.
func TestNoMessageIsLongerThanComputed(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, 7))
			rows := 1 + rng.IntN([]int{3, 70, 700}[rng.IntN(3)])
			columns := make([]arrow.Array, 1+rng.IntN(12))
			if seed%3 == 0 { // what is left over of a message's base does not hide a column's part
				columns = make([]arrow.Array, 100)
				rows = min(rows, 70)
			}
			depth := rng.IntN(4)
			for i := range columns {
				kind := someType(rng, depth)
				for nested(kind, false) {
					kind = someType(rng, depth)
				}
				b := array.NewBuilder(memory.DefaultAllocator, kind)
				before := rng.IntN(9) // some columns are parts of longer ones
				if rng.IntN(2) == 0 {
					before = 0
				}
				fill(b, before+rows+rng.IntN(3), []int{0, 0, 3}[rng.IntN(3)], rng)
				made := b.NewArray()
				b.Release()
				if len(made.Data().Children()) == 0 && rng.IntN(2) == 0 {
					data := roomy(made.Data())
					made.Release()
					made = array.MakeFromData(data)
					data.Release()
				}
				columns[i] = array.NewSlice(made, int64(before), int64(before+rows))
				made.Release()
				t.Cleanup(columns[i].Release)
			}
			rec := batch(t, columns...)
			for _, c := range []wire.Compression{wire.Uncompressed, wire.LZ4, wire.Zstd} {
				from := int64(rng.IntN(rows))
				to := from + 1 + int64(rng.IntN(rows-int(from)))
				if rng.IntN(3) == 0 {
					from, to = 0, int64(rows)
				}
				part := rec.NewSlice(from, to)
				out, err := send(t, settings{message: maxMessage, limit: protocolLimit, compression: c}, part)
				part.Release()
				if err != nil {
					t.Fatal(err, rec.Schema())
				}
				real := int64(out.lengths[len(out.lengths)-1])
				if n := encodedBatch(rec, from, to, c); n < real {
					t.Errorf("rows %d to %d, compression %d: computed %d, real %d\n%s", from, to, c, n, real, rec.Schema())
				}
				message := int64(minMessage + rng.IntN(60_000))
				out, err = send(t, settings{message: message, limit: protocolLimit, compression: c}, rec)
				if err != nil {
					t.Fatal(err, rec.Schema())
				}
				got := out.read(t)
				batches := out.lengths[len(out.lengths)-len(got):]
				for i, part := range got {
					if n := int64(batches[i]); n > message && part.NumRows() > 1 {
						t.Errorf("message %d has %d bytes, not %d, and %d rows\n%s", i, n, message, part.NumRows(), rec.Schema())
					}
				}
			}
		})
	}
}
