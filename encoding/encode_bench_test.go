package encoding_test

import (
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/flightblob/flightblob/encoding"
)

// BenchmarkEncode encodes columns of every shape in batches of 8192 rows, of
// values that cannot be compressed and of a hundred distinct ones.
func BenchmarkEncode(b *testing.B) {
	for _, shape := range shapes() {
		for name, r := range map[string]*source{
			"random": {nulls: 0, distinct: 1 << 62, length: 8},
			"nulls":  {nulls: 0.3, distinct: 1 << 62, length: 8},
			"few":    {nulls: 0, distinct: 100, length: 8},
		} {
			r.Rand = rand.New(rand.NewPCG(1, 2))
			b.Run(shape.Name+"/"+name, func(b *testing.B) {
				f := fieldOf(b, shape)
				const rows = 8192
				var batches []arrow.Array
				size := int64(0)
				for range 8 {
					a := array.MakeFromData(r.data(shape.Type, shape.Nullable, rows))
					batches = append(batches, a)
					size += int64(a.Data().SizeInBytes())
				}
				b.SetBytes(size)
				b.ReportAllocs()
				for b.Loop() {
					for leaf := range f.Leaves() {
						e, err := encoding.NewEncoder(encoding.V2_2, leaf.Path(), encoding.EncoderOptions{})
						if err != nil {
							b.Fatal(err)
						}
						for _, a := range batches {
							if _, err := e.Append(a); err != nil {
								b.Fatal(err)
							}
						}
						if _, err := e.Flush(); err != nil {
							b.Fatal(err)
						}
					}
				}
			})
		}
	}
}
