package materialize

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/flightblob/flightblob/blob"
	"github.com/flightblob/flightblob/objstore"
)

// BenchmarkPackedScan scans 200 MB of packed values of a local file.
func BenchmarkPackedScan(b *testing.B) {
	for _, c := range []struct {
		name string
		size int
		lend bool
	}{
		{"100KiB", 100 << 10, false},
		{"100KiB/mapped", 100 << 10, true},
		{"4KiB", 4 << 10, false},
		{"4KiB/mapped", 4 << 10, true},
		{"100B", 100, false},
	} {
		b.Run(c.name, func(b *testing.B) {
			total := 200 << 20
			if c.size < 1000 {
				total = 20 << 20
			}
			benchmarkScan(b, total/c.size, c.size, c.lend)
		})
	}
}

func benchmarkScan(b *testing.B, n, size int, lend bool) {
	registry := objstore.NewRegistry(objstore.Options{})
	defer registry.Close()
	dir := b.TempDir()
	folder, err := registry.Locate(b.Context(), dir)
	if err != nil {
		b.Fatal(err)
	}
	owner := &blob.Owner{Key: "f", Dir: folder, File: folder.Join("f.lance"), Base: folder, Immutable: true}
	if err := os.Mkdir(filepath.Join(dir, "f"), 0o755); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "f", blob.SidecarName(1)), large(n*size), 0o644); err != nil {
		b.Fatal(err)
	}
	sch := arrow.NewSchema([]arrow.Field{descriptorField("img")}, nil)
	const rows = 8192
	var batches []arrow.RecordBatch
	var owners [][]*blob.Owner
	for from := 0; from < n; from += rows {
		builder := array.NewRecordBuilder(memory.DefaultAllocator, sch)
		sb := builder.Field(0).(*array.StructBuilder)
		for i := from; i < min(from+rows, n); i++ {
			(&model{}).append(sb, blob.Descriptor{Kind: blob.Packed, Position: uint64(i * size), Size: uint64(size), ID: 1})
		}
		batches = append(batches, builder.NewRecordBatch())
		owners = append(owners, []*blob.Owner{owner})
	}
	o := Options{Budget: NewBudget(256 << 20), Map: lend}
	r := blob.NewResolver(nil, func(ctx context.Context, uri string) (objstore.Location, error) { return registry.Locate(ctx, uri) })
	b.SetBytes(int64(n * size))
	b.ReportAllocs()
	for b.Loop() {
		src := &source{schema: sch, batches: batches, owners: owners}
		src.Retain() // the batches serve all rounds
		reader, err := NewReader(b.Context(), src, r, o)
		if err != nil {
			b.Fatal(err)
		}
		got := 0
		for reader.Next() {
			got += int(reader.RecordBatch().NumRows())
		}
		if err := reader.Err(); err != nil || got != n {
			b.Fatal(got, err)
		}
		reader.Release()
	}
}
