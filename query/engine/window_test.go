package engine

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// fill appends random values, a fifth of them null at every level.
func fill(b array.Builder, n int, rng *rand.Rand) {
	for range n {
		if rng.IntN(5) == 0 {
			b.AppendNull()
			continue
		}
		switch b := b.(type) {
		case *array.BooleanBuilder:
			b.Append(rng.IntN(2) == 0)
		case *array.Int32Builder:
			b.Append(int32(rng.Uint32()))
		case *array.Uint8Builder:
			b.Append(uint8(rng.Uint32()))
		case *array.StringBuilder:
			b.Append(fmt.Sprintf("%x", rng.Uint64()>>rng.IntN(64)))
		case *array.FixedSizeBinaryBuilder:
			b.Append([]byte{byte(rng.Uint32()), byte(rng.Uint32()), 'z'})
		case *array.Decimal128Builder:
			b.Append(decimal128.FromI64(rng.Int64N(1000)))
		case *array.ListBuilder:
			b.Append(true)
			fill(b.ValueBuilder(), rng.IntN(4), rng)
		case *array.LargeListBuilder:
			b.Append(true)
			fill(b.ValueBuilder(), rng.IntN(4), rng)
		case *array.FixedSizeListBuilder:
			b.Append(true)
			fill(b.ValueBuilder(), int(b.Type().(*arrow.FixedSizeListType).Len()), rng)
		case *array.StructBuilder:
			b.Append(true)
			for i := range b.NumField() {
				fill(b.FieldBuilder(i), 1, rng)
			}
		default:
			panic(fmt.Sprintf("%T", b))
		}
	}
}

// TestWindows checks that every row of a batch enters the engine as it is,
// wherever the batch is cut out of its arrays and however it is cut again.
func TestWindows(t *testing.T) {
	flag, number := arrow.FixedWidthTypes.Boolean, arrow.PrimitiveTypes.Int32
	structOf := func(types ...arrow.DataType) arrow.DataType {
		var fields []arrow.Field
		for i, dt := range types {
			fields = append(fields, arrow.Field{Name: fmt.Sprintf("c%d", i), Type: dt, Nullable: true})
		}
		return arrow.StructOf(fields...)
	}
	inner := structOf(flag, arrow.BinaryTypes.String, number)
	deep := structOf(number, structOf(inner, flag))
	for name, dt := range map[string]arrow.DataType{
		"bool":                 flag,
		"fixed binary":         &arrow.FixedSizeBinaryType{ByteWidth: 3},
		"decimal":              &arrow.Decimal128Type{Precision: 4, Scale: 1},
		"struct":               inner,
		"struct in struct":     structOf(inner, arrow.PrimitiveTypes.Uint8),
		"struct to four":       deep,
		"list in struct":       structOf(structOf(arrow.ListOf(number), arrow.LargeListOf(flag))),
		"array in struct":      structOf(structOf(arrow.FixedSizeListOf(3, flag))),
		"list of bool":         arrow.ListOf(flag),
		"list of struct":       arrow.ListOf(inner),
		"list of deep struct":  arrow.LargeListOf(deep),
		"list of list":         arrow.ListOf(arrow.ListOf(flag)),
		"array of bool":        arrow.FixedSizeListOf(5, flag),
		"array of struct":      arrow.FixedSizeListOf(2, inner),
		"array of deep struct": arrow.FixedSizeListOf(2, deep),
		"array of array":       arrow.FixedSizeListOf(2, arrow.FixedSizeListOf(3, flag)),
		"list of array":        arrow.ListOf(arrow.FixedSizeListOf(3, inner)),
		"binary in struct":     structOf(structOf(&arrow.FixedSizeBinaryType{ByteWidth: 3})),
	} {
		t.Run(name, func(t *testing.T) {
			mem := memory.NewCheckedAllocator(memory.NewGoAllocator())
			defer mem.AssertSize(t, 0)
			db, s := open(t)
			c := connect(t, db)
			rng := rand.New(rand.NewPCG(1, 2))
			const rows = 4200
			b := array.NewBuilder(mem, dt)
			fill(b, rows, rng)
			whole := b.NewArray()
			b.Release()
			defer whole.Release()
			for _, window := range []int{0, 3} {
				for _, from := range []int64{0, 5, 2051} {
					part := array.NewSlice(whole, from, min(rows, from+2100))
					want := make([]string, part.Len())
					for i := range want {
						want[i] = asJSON(t, part, i)
					}
					cut := batch([]string{"c"}, part)
					s.put("t", window, cut)
					got := columnJSON(t, c, "select c from shelf('t')")
					cut.Release()
					if len(got) != len(want) {
						t.Fatalf("windows of %d from %d: %d rows of %d", window, from, len(got), len(want))
					}
					for i := range want {
						if got[i] != want[i] {
							t.Fatalf("windows of %d from %d: row %d is %s, want %s", window, from, i, got[i], want[i])
						}
					}
				}
			}
		})
	}
}

func asJSON(t *testing.T, a arrow.Array, i int) string {
	t.Helper()
	text, err := json.Marshal(a.GetOneForMarshal(i))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// columnJSON gives the rows of a statement's first column.
func columnJSON(t *testing.T, c *Conn, sql string) []string {
	t.Helper()
	p, err := c.Prepare(t.Context(), sql)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	r, err := p.Execute(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var rows []string
	for {
		b, err := r.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if b == nil {
			return rows
		}
		for i := range int(b.NumRows()) {
			rows = append(rows, asJSON(t, b.Column(0), i))
		}
		b.Release()
	}
}
