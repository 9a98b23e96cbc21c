package transfer

import (
	"context"
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
)

// Batches of a Parquet file have as many rows as weigh about this much.
const (
	parquetBatchBytes = 8 << 20
	parquetBatchRows  = 64 << 10
)

// Parquet is an open Parquet file. It is a stream of its rows, in order, each
// row group page by page.
type Parquet struct {
	array.RecordReader
	file   *file.Reader
	schema *arrow.Schema
	batch  arrow.RecordBatch
	err    error
	rows   int64
}

// OpenParquet opens a Parquet file and reads its footer. Only the columns that
// are named, at the top, are read; nil means all. The caller releases it. Damage
// is fault.Corrupt with the file's name.
func OpenParquet(ctx context.Context, loc objstore.Location, columns []string) (p *Parquet, err error) {
	defer named(loc, &err)
	defer fault.Recover("transfer", &err)
	size, err := loc.Size(ctx)
	if err != nil {
		return nil, err
	}
	options := parquet.NewReaderProperties(memory.DefaultAllocator)
	options.BufferedStreamEnabled = true // pages, not whole column chunks
	options.BufferSize = 1 << 20
	options.MaxCompressedPageSize, options.MaxUncompressedPageSize = mostOfPage(size)
	f, err := file.NewParquetReader(&objectReader{ctx: ctx, loc: loc, size: size}, file.WithReadProps(options))
	if err != nil {
		return nil, fault.Corruptf(-1, "not a Parquet file: %v", err)
	}
	p = &Parquet{file: f, rows: f.NumRows()}
	if err := p.open(ctx, columns); err != nil {
		_ = f.Close()
		return nil, err
	}
	return p, nil
}

// mostOfPage bounds what the header of a page may claim. Writers cut pages by
// rows as well, and a thousand large values may be one page, so the bounds are
// those of the format; but no page is longer than its file, nor many times as
// long when it is uncompressed.
func mostOfPage(file int64) (compressed, uncompressed int64) {
	const ratio = 256
	compressed = min(file, math.MaxInt32)
	return max(compressed, 1), min(max(ratio*compressed, parquet.DefaultMaxUncompressedPageSize), math.MaxInt32)
}

func (p *Parquet) open(ctx context.Context, columns []string) error {
	reader, err := pqarrow.NewFileReader(p.file, pqarrow.ArrowReadProperties{BatchSize: batchRows(p.file)}, memory.DefaultAllocator)
	if err != nil {
		return fault.Corruptf(-1, "its schema cannot be read: %v", err)
	}
	leaves, err := leavesOf(reader, columns)
	if err != nil {
		return err
	}
	if p.RecordReader, err = reader.GetRecordReader(ctx, leaves, nil); err != nil {
		return err
	}
	fields := make([]arrow.Field, p.RecordReader.Schema().NumFields())
	for i, f := range p.RecordReader.Schema().Fields() {
		fields[i] = withoutFieldIDs(f)
	}
	m := p.RecordReader.Schema().Metadata()
	p.schema = arrow.NewSchema(fields, &m)
	return nil
}

// keyParquetFieldID is what the library makes of Parquet's own field numbers.
const keyParquetFieldID = "PARQUET:field_id"

// withoutFieldIDs leaves out metadata that belongs to the file and not to the
// data.
func withoutFieldIDs(f arrow.Field) arrow.Field {
	if i := f.Metadata.FindKey(keyParquetFieldID); i >= 0 {
		m := f.Metadata.ToMap()
		delete(m, keyParquetFieldID)
		f.Metadata = arrow.MetadataFrom(m)
	}
	switch t := f.Type.(type) {
	case *arrow.StructType:
		fields := make([]arrow.Field, t.NumFields())
		for i, c := range t.Fields() {
			fields[i] = withoutFieldIDs(c)
		}
		f.Type = arrow.StructOf(fields...)
	case *arrow.ListType:
		f.Type = arrow.ListOfField(withoutFieldIDs(t.ElemField()))
	case *arrow.LargeListType:
		f.Type = arrow.LargeListOfField(withoutFieldIDs(t.ElemField()))
	case *arrow.FixedSizeListType:
		f.Type = arrow.FixedSizeListOfField(t.Len(), withoutFieldIDs(t.ElemField()))
	case *arrow.MapType:
		f.Type = arrow.MapOfFields(withoutFieldIDs(t.KeyField()), withoutFieldIDs(t.ItemField()))
	}
	return f
}

// Schema implements array.RecordReader.
func (p *Parquet) Schema() *arrow.Schema { return p.schema }

// Next implements array.RecordReader.
func (p *Parquet) Next() (more bool) {
	p.drop()
	defer func() { more = more && p.err == nil }()
	defer fault.Recover("transfer", &p.err)
	if p.err != nil || !p.RecordReader.Next() {
		return false
	}
	p.batch, p.err = retyped(p.RecordReader.RecordBatch(), p.schema)
	return true
}

// RecordBatch implements array.RecordReader.
func (p *Parquet) RecordBatch() arrow.RecordBatch { return p.batch }

// Record implements array.RecordReader.
//
// Deprecated: use RecordBatch.
func (p *Parquet) Record() arrow.RecordBatch { return p.batch }

// Err implements array.RecordReader.
func (p *Parquet) Err() error {
	if p.err != nil {
		return p.err
	}
	return p.RecordReader.Err()
}

func (p *Parquet) drop() {
	if p.batch != nil {
		p.batch.Release()
		p.batch = nil
	}
}

// Rows is the number of rows that the footer promises.
func (p *Parquet) Rows() int64 { return p.rows }

// Release implements array.RecordReader.
func (p *Parquet) Release() {
	p.drop()
	p.RecordReader.Release()
	_ = p.file.Close()
}

// batchRows is how many rows of the heaviest row group make a batch.
func batchRows(f *file.Reader) int64 {
	heaviest := int64(1)
	for i := range f.NumRowGroups() {
		g := f.MetaData().RowGroup(i)
		if g.NumRows() > 0 {
			heaviest = max(heaviest, g.TotalByteSize()/g.NumRows())
		}
	}
	return min(max(parquetBatchBytes/heaviest, 1), parquetBatchRows)
}

// leavesOf finds the physical columns below some columns at the top.
func leavesOf(r *pqarrow.FileReader, columns []string) ([]int, error) {
	if columns == nil {
		return nil, nil
	}
	s, err := r.Schema()
	if err != nil {
		return nil, fault.Corruptf(-1, "its schema cannot be read: %v", err)
	}
	var leaves []int
	for _, name := range columns {
		if !s.HasField(name) {
			return nil, fault.New(fault.Invalid, "it has no column %q; it has %s", name, names(s))
		}
	}
	for i := range r.ParquetReader().MetaData().Schema.NumColumns() {
		top := r.ParquetReader().MetaData().Schema.Column(i).ColumnPath()[0]
		for _, name := range columns {
			if top == name {
				leaves = append(leaves, i)
			}
		}
	}
	return leaves, nil
}

func names(s *arrow.Schema) string {
	out := ""
	for i, f := range s.Fields() {
		if i > 0 {
			out += ", "
		}
		if i == 20 {
			return out + "…"
		}
		out += f.Name
	}
	return out
}

// named says which file an error is about.
func named(loc objstore.Location, err *error) {
	if *err == nil {
		return
	}
	*err = fmt.Errorf("transfer: Parquet file %s: %w", loc, fault.In(loc.String(), *err))
}
