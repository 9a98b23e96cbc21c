package datafile_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/flightblob/flightblob/datafile"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/schema"
)

var benchWords = []string{"owl", "kite", "wren", "heron", "robin", "stork", "swift", "crane"}

// benchColumns are columns of n values as tables of all day have them.
func benchColumns(n int) map[string]arrow.Array {
	rng := rand.New(rand.NewPCG(1, 2))
	ints := func(f func(i int) int64) arrow.Array {
		made := array.NewInt64Builder(memory.DefaultAllocator)
		defer made.Release()
		for i := range n {
			made.Append(f(i))
		}
		return made.NewArray()
	}
	floats := func(f func() float64) arrow.Array {
		made := array.NewFloat64Builder(memory.DefaultAllocator)
		defer made.Release()
		for range n {
			made.Append(f())
		}
		return made.NewArray()
	}
	text := func(f func() string) arrow.Array {
		made := array.NewStringBuilder(memory.DefaultAllocator)
		defer made.Release()
		for range n {
			made.Append(f())
		}
		return made.NewArray()
	}
	word := func() string { return benchWords[rng.IntN(len(benchWords))] }
	return map[string]arrow.Array{
		"sequence":      ints(func(i int) int64 { return int64(i) }),
		"small":         ints(func(int) int64 { return rng.Int64N(100) }),
		"ints":          ints(func(int) int64 { return rng.Int64N(1e10) }),
		"few ints":      ints(func(int) int64 { return 1e9 * rng.Int64N(1000) }),
		"floats":        floats(rng.Float64),
		"prices":        floats(func() float64 { return math.Round(rng.ExpFloat64()*4000) / 100 }),
		"category":      text(word),
		"keys":          text(func() string { return fmt.Sprintf("order-%08d", rng.IntN(1e8)) }),
		"three words":   text(func() string { return word() + " " + word() + " " + word() }),
		"random binary": text(func() string { return fmt.Sprintf("%x", rng.Uint64()) }),
	}
}

// BenchmarkWrite encodes a column of a million values in batches of 65 536 rows
// into a file in memory.
func BenchmarkWrite(b *testing.B) {
	const rows, batches = 65_536, 16
	for name, column := range benchColumns(rows * batches) {
		b.Run(name, func(b *testing.B) {
			sch := arrow.NewSchema([]arrow.Field{{Name: "c", Type: column.DataType(), Nullable: true}}, nil)
			tree, err := schema.FromArrow(sch, schema.FromOptions{})
			if err != nil {
				b.Fatal(err)
			}
			rec := array.NewRecordBatch(sch, []arrow.Array{column}, rows*batches)
			defer rec.Release()
			b.SetBytes(int64(column.Data().SizeInBytes()))
			b.ReportAllocs()
			for b.Loop() {
				sink, err := objstore.Location{Store: objstore.NewMem("m"), Path: "f.lance"}.Create(b.Context())
				if err != nil {
					b.Fatal(err)
				}
				w, err := datafile.NewWriter(sink, tree, datafile.WriterOptions{})
				if err != nil {
					b.Fatal(err)
				}
				for i := range int64(batches) {
					part := rec.NewSlice(i*rows, (i+1)*rows)
					err := w.Write(b.Context(), part)
					part.Release()
					if err != nil {
						b.Fatal(err)
					}
				}
				if _, err := w.Commit(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
