package blob

import (
	"context"
	"fmt"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/flightblob/flightblob/objstore"
)

// BenchmarkPlace stores batches of values of one size on the local disk.
func BenchmarkPlace(b *testing.B) {
	for _, c := range []struct {
		name  string
		size  int
		count int
	}{{"inline 100 B", 100, 100_000}, {"packed 100 KB", 100 << 10, 1000}, {"dedicated 5 MB", 5 << 20, 20}} {
		b.Run(c.name, func(b *testing.B) {
			f := blobField("b", minimal)
			s := tableOf(b, f)
			values := array.NewBinaryBuilder(memory.DefaultAllocator, arrow.BinaryTypes.LargeBinary)
			data := payload(c.size, 1)
			for range c.count {
				values.Append(data)
			}
			batch := array.NewRecordBatch(arrow.NewSchema([]arrow.Field{field("b", arrow.BinaryTypes.LargeBinary)}, nil), []arrow.Array{values.NewArray()}, int64(c.count))
			registry := objstore.NewRegistry(objstore.Options{})
			defer registry.Close()
			b.SetBytes(int64(c.size * c.count))
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				root, err := registry.Locate(b.Context(), fmt.Sprintf("%s/%d", b.TempDir(), i))
				if err != nil {
					b.Fatal(err)
				}
				owner := &Owner{Key: "f", Dir: root.Join("data"), Base: root}
				p, err := NewPlacer(b.Context(), Policy{}, owner, &discard{})
				if err != nil {
					b.Fatal(err)
				}
				in, err := AsInputs(s, batch, nil)
				if err != nil {
					b.Fatal(err)
				}
				out, err := p.Place(b.Context(), memory.DefaultAllocator, in)
				if err != nil {
					b.Fatal(err)
				}
				out.Release()
				in.Release()
				if err := p.Commit(b.Context()); err != nil {
					b.Fatal(err)
				}
				p.Abort(b.Context())
			}
		})
	}
}

// discard takes inline payloads and forgets them.
type discard struct{ at uint64 }

func (d *discard) NextOutOfLine() uint64 { return d.at }

func (d *discard) AppendOutOfLine(_ context.Context, data []byte) (uint64, error) {
	at := d.at
	d.at += uint64(len(data)+63) / 64 * 64
	return at, nil
}
