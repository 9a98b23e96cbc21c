package table

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/schema"
)

// samples are arrays of every type that tables have, as JSON.
var samples = []struct {
	typ  arrow.DataType
	json string
}{
	{arrow.Null, `[null, null, null, null, null, null]`},
	{arrow.FixedWidthTypes.Boolean, `[true, null, false, true, true, null]`},
	{arrow.PrimitiveTypes.Int8, `[1, null, -3, 4, 5, 6]`},
	{arrow.PrimitiveTypes.Uint64, `[1, null, 3, 4, 5, 6]`},
	{arrow.FixedWidthTypes.Float16, `[1, null, 0.5, 4, 5, 6]`},
	{arrow.PrimitiveTypes.Float64, `[1, null, 0.5, 4, 5, 6]`},
	{arrow.BinaryTypes.String, `["a", null, "", "four", "5", "six"]`},
	{arrow.BinaryTypes.LargeString, `["a", null, "", "four", "5", "six"]`},
	{arrow.BinaryTypes.Binary, `["AA==", null, "", "AQID", "BA==", "BQ=="]`},
	{arrow.BinaryTypes.LargeBinary, `["AA==", null, "", "AQID", "BA==", "BQ=="]`},
	{&arrow.FixedSizeBinaryType{ByteWidth: 2}, `["AAE=", null, "AgM=", "BAU=", "Bgc=", "CAk="]`},
	{&arrow.Decimal128Type{Precision: 20, Scale: 2}, `["1.10", null, "-3.00", "4.00", "5.00", "6.00"]`},
	{&arrow.Decimal256Type{Precision: 50, Scale: 2}, `["1.10", null, "-3.00", "4.00", "5.00", "6.00"]`},
	{arrow.FixedWidthTypes.Date32, `["2020-01-01", null, "2020-01-03", "2020-01-04", "2020-01-05", "2020-01-06"]`},
	{&arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}, `["2020-01-01T00:00:00Z", null, "2020-01-03T00:00:00Z", "2021-01-01T00:00:00Z", "2022-01-01T00:00:00Z", "2023-01-01T00:00:00Z"]`},
	{arrow.FixedWidthTypes.Duration_ns, `["1ns", null, "3ns", "4ns", "5ns", "6ns"]`},
	{&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}, `["a", null, "b", "a", "c", "b"]`},
	{arrow.ListOfField(arrow.Field{Name: "it", Type: arrow.PrimitiveTypes.Int32, Nullable: true}), `[[1, 2], null, [], [null, 4], [5], [6, 7, 8]]`},
	{arrow.LargeListOf(arrow.BinaryTypes.String), `[["a", null], null, [], ["b"], ["c", "d"], ["e"]]`},
	{arrow.ListOf(arrow.ListOf(arrow.PrimitiveTypes.Int8)), `[[[1], null, []], null, [], [[2, 3]], [null], [[4], [5]]]`},
	{arrow.FixedSizeListOf(2, arrow.PrimitiveTypes.Float32), `[[1, 2], null, [3, null], [4, 5], [6, 7], [8, 9]]`},
	{arrow.MapOf(arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int32), `[[{"key": "a", "value": 1}], null, [], [{"key": "b", "value": null}, {"key": "c", "value": 3}], [], [{"key": "d", "value": 4}]]`},
	{arrow.StructOf(
		arrow.Field{Name: "a", Type: arrow.PrimitiveTypes.Int32, Nullable: true},
		arrow.Field{Name: "l", Type: arrow.ListOf(schema.DescriptorType), Nullable: true},
	), `[{"a": 1, "l": [{"kind": 1, "position": 2, "size": 3, "blob_id": 4, "blob_uri": "u"}, null]}, null, {"a": null, "l": null}, {"a": 4, "l": []}, {"a": 5, "l": [null]}, {"a": 6, "l": [{"kind": 3, "position": 0, "size": 0, "blob_id": 0, "blob_uri": "file:///x"}]}]`},
}

func TestGather(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for _, c := range samples {
		t.Run(c.typ.String(), func(t *testing.T) {
			whole, _, err := array.FromJSON(memory.DefaultAllocator, c.typ, strings.NewReader(c.json))
			if err != nil {
				t.Fatal(err)
			}
			// A slice has an offset, which every branch must respect.
			for _, a := range []arrow.Array{whole, array.NewSlice(whole, 1, 5), array.NewSlice(whole, 5, 6), array.NewSlice(whole, 2, 2)} {
				selections := [][]int{{}, nil}
				if n := a.Len(); n > 0 {
					selections = append(selections, []int{n - 1, 0}, []int{0, 0, 0}, upToInts(n), []int{n - 1})
					for range 10 {
						rows := make([]int, random.IntN(12))
						for i := range rows {
							rows[i] = random.IntN(n)
						}
						selections = append(selections, rows)
					}
				}
				for _, rows := range selections {
					checkGather(t, a, rows)
					if got, err := gather(a, rows); err == nil && got.Len() > 2 { // of what was gathered
						checkGather(t, array.NewSlice(got, 1, int64(got.Len())), []int{1, 0, 1})
					}
				}
			}
		})
	}
}

func upToInts(n int) []int {
	rows := make([]int, n)
	for i := range rows {
		rows[i] = i
	}
	return rows
}

func checkGather(t *testing.T, a arrow.Array, rows []int) {
	t.Helper()
	got, err := gather(a, rows)
	if err != nil {
		t.Fatalf("rows %v: %v", rows, err)
	}
	if got.Len() != len(rows) || !arrow.TypeEqual(got.DataType(), a.DataType(), arrow.CheckMetadata()) {
		t.Fatalf("rows %v: %d of %s, want %d of %s", rows, got.Len(), got.DataType(), len(rows), a.DataType())
	}
	nulls := 0
	for i, r := range rows {
		if !array.SliceEqual(got, int64(i), int64(i)+1, a, int64(r), int64(r)+1) {
			t.Fatalf("rows %v: value %d is %s, want %s", rows, i, got.ValueStr(i), a.ValueStr(r))
		}
		if a.IsNull(r) {
			nulls++
		}
	}
	if got.NullN() != nulls && got.DataType().ID() != arrow.NULL {
		t.Fatalf("rows %v: %d nulls, want %d", rows, got.NullN(), nulls)
	}
}

// TestGatherOverflow picks one large value so often that 32-bit offsets cannot
// address the result: an error, not wrong offsets.
func TestGatherOverflow(t *testing.T) {
	t.Parallel()
	b := array.NewStringBuilder(memory.DefaultAllocator)
	b.Append(strings.Repeat("x", 1<<20))
	b.Append("y")
	a := b.NewArray()
	rows := make([]int, math.MaxInt32/(1<<20)+2)
	rows[1] = 1
	if _, err := gather(a, rows); fault.KindOf(err) != fault.Exhausted {
		t.Errorf("got %v, want an exhausted error", err)
	}
}

func TestByteSize(t *testing.T) {
	t.Parallel()
	for _, c := range samples {
		t.Run(c.typ.String(), func(t *testing.T) {
			a, _, err := array.FromJSON(memory.DefaultAllocator, c.typ, strings.NewReader(c.json))
			if err != nil {
				t.Fatal(err)
			}
			whole, sum := byteSize(a, 0, a.Len()), int64(0)
			for i := range a.Len() {
				sum += byteSize(a, i, i+1)
			}
			// Bitmaps of single rows round up to bytes, nothing else may differ.
			if whole > sum || sum > whole+int64(a.Len())*8 {
				t.Errorf("%d bytes as a whole, %d row by row", whole, sum)
			}
			if a.DataType().ID() != arrow.NULL && whole == 0 {
				t.Error("no bytes at all")
			}
			// The slice has no null, so it counts no bitmap.
			if got, want := byteSize(array.NewSlice(a, 2, 4), 0, 2), byteSize(a, 2, 4); got > want || got < want-2 {
				t.Errorf("a slice has %d bytes, the range has %d", got, want)
			}
		})
	}
	b := array.NewLargeStringBuilder(memory.DefaultAllocator)
	for i := range 10 {
		b.Append(fmt.Sprintf("%*d", i*100, i))
	}
	a := b.NewArray()
	if got, want := byteSize(a, 3, 5), int64(300+400+2*8); got != want {
		t.Errorf("two strings have %d bytes, want %d", got, want)
	}
}
