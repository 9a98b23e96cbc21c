package transfer

import (
	"context"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"github.com/flightblob/flightblob/internal/fault"
)

// MaxParquetValue is the size of the largest value that WriteParquet takes, in
// bytes: a page holds at least one whole value, and readers in other languages
// have pages of less than 2^31 bytes.
const MaxParquetValue = 1 << 30

// Row groups and pages are cut by bytes, since a thousand rows are nothing or
// gigabytes.
const (
	rowGroupBytes = 64 << 20
	pageBytes     = 1 << 20
)

// WriteParquet writes all rows as one Parquet file to out, which it does not
// close. Blob columns must be in the Materialized view; batches must be cut by
// bytes, since one batch of a column goes into one page. It answers the number of
// rows.
//
// The Arrow schema is stored beside Parquet's own, so that readers of Arrow get
// the same types back; durations and decimals of negative scale are the
// exceptions. Types that Parquet lacks otherwise are fault.Unsupported before
// anything is written. Binary columns are neither compressed nor summed up in
// statistics: media do not shrink, and a footer must not carry them.
func WriteParquet(ctx context.Context, rows array.RecordReader, out io.Writer, p Progress) (int64, error) {
	as, err := newStorable(rows.Schema())
	if err != nil {
		return 0, err
	}
	w, err := newParquetWriter(as, out)
	if err != nil {
		return 0, err
	}
	written, err := w.all(ctx, rows, p)
	if cerr := w.close(); err == nil {
		err = cerr
	}
	if err != nil {
		return written, fmt.Errorf("transfer: write Parquet: %w", err)
	}
	return written, nil
}

type parquetWriter struct {
	as     *storable
	file   *pqarrow.FileWriter
	bytes  int64 // of all batches
	group  int64 // of the open row group
	opened bool
}

func newParquetWriter(as *storable, out io.Writer) (w *parquetWriter, err error) {
	defer fault.Recover("transfer", &err) // the library panics on types that it does not take
	options := []parquet.WriterProperty{
		parquet.WithCompression(compress.Codecs.Zstd),
		parquet.WithDataPageSize(pageBytes),
		parquet.WithMaxRowGroupLength(1 << 40), // cut by bytes alone
		parquet.WithCreatedBy("flightblob"),
	}
	stored := pqarrow.NewArrowWriterProperties(pqarrow.WithStoreSchema(), pqarrow.WithAllocator(memory.DefaultAllocator))
	layout, err := pqarrow.ToParquet(as.schema, parquet.NewWriterProperties(), stored)
	if err != nil {
		return nil, err
	}
	for i := range layout.NumColumns() {
		c := layout.Column(i)
		if c.PhysicalType() != parquet.Types.ByteArray || c.LogicalType().String() != "None" {
			continue
		}
		path := c.ColumnPath()
		options = append(options, parquet.WithDictionaryPath(path, false), parquet.WithStatsPath(path, false),
			parquet.WithCompressionPath(path, compress.Codecs.Uncompressed))
	}
	w = &parquetWriter{as: as}
	w.file, err = pqarrow.NewFileWriter(as.schema, notCloser{out}, parquet.NewWriterProperties(options...), stored)
	return w, err
}

// notCloser hides Close: the file is not the library's to close.
type notCloser struct{ io.Writer }

func (w *parquetWriter) all(ctx context.Context, rows array.RecordReader, p Progress) (written int64, err error) {
	defer fault.Recover("transfer", &err)
	for rows.Next() {
		if err := ctx.Err(); err != nil {
			return written, err
		}
		batch, err := w.as.batch(rows.RecordBatch())
		if err != nil {
			return written, err
		}
		var size int64
		for _, c := range batch.Columns() {
			size += int64(c.Data().SizeInBytes())
		}
		if w.opened && w.group+size > rowGroupBytes {
			w.file.NewBufferedRowGroup()
			w.group = 0
		}
		w.opened = true
		err = w.file.WriteBuffered(batch)
		written += batch.NumRows()
		batch.Release()
		if err != nil {
			return written, err
		}
		w.group += size
		w.bytes += size
		p.tell(written, w.bytes)
	}
	return written, rows.Err()
}

func (w *parquetWriter) close() (err error) {
	defer fault.Recover("transfer", &err)
	return w.file.Close()
}
