// Command writefile writes a data file out of an Arrow file, for tests in which
// the reference reads what this project wrote.
//
//	writefile -manifest MANIFEST [-version 2.2] [-page-bytes N] [-batch-rows N] [-repeat N] IN.arrow OUT.lance
//
// The field tree is that of a manifest; blob columns come as plain large_binary
// at any nesting and are stored inline, or as descriptors. What was written is read back by the
// own reader and compared. The summary for a manifest is printed as JSON.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/flightblob/flightblob/datafile"
	"github.com/flightblob/flightblob/encoding"
	"github.com/flightblob/flightblob/schema"
	"github.com/flightblob/flightblob/table/manifest"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "writefile:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("writefile", flag.ContinueOnError)
	manifestPath := flags.String("manifest", "", "manifest whose field tree the file has")
	version := flags.String("version", "2.2", "format version")
	pageBytes := flags.Int("page-bytes", 0, "bytes of a page, 0 = default")
	batchRows := flags.Int64("batch-rows", 0, "rows of a batch, 0 = those of the Arrow file")
	check := flags.Bool("check", true, "read back and compare")
	repeat := flags.Int("repeat", 1, "write so many times, to measure")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 2 {
		return errors.New("an Arrow file and a data file are needed")
	}
	raw, err := os.ReadFile(*manifestPath)
	if err != nil {
		return err
	}
	m, err := manifest.Decode(raw)
	if err != nil {
		return err
	}
	v := encoding.V2_2
	if *version == "2.3" {
		v = encoding.V2_3
	}
	batches, err := batchesOf(flags.Arg(0), *batchRows)
	if err != nil {
		return err
	}
	var s datafile.Summary
	var stored []arrow.RecordBatch
	start := time.Now()
	for range *repeat {
		if s, stored, err = write(ctx, flags.Arg(1), m.Schema, batches, datafile.WriterOptions{Version: v, PageBytes: *pageBytes}); err != nil {
			return err
		}
	}
	seconds := time.Since(start).Seconds() / float64(*repeat)
	if *check {
		if err := compare(ctx, flags.Arg(1), m.Schema, s, stored); err != nil {
			return fmt.Errorf("read back: %w", err)
		}
	}
	return json.NewEncoder(stdout).Encode(map[string]any{
		"size": s.Size, "rows": s.Rows, "fields": s.Fields, "column_indices": s.Columns,
		"major": s.Major, "minor": s.Minor, "seconds": seconds,
	})
}

// batchesOf reads an Arrow file, cut into batches of so many rows.
func batchesOf(path string, rows int64) ([]arrow.RecordBatch, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, err := ipc.NewFileReader(f)
	if err != nil {
		return nil, err
	}
	var out []arrow.RecordBatch
	for i := range r.NumRecords() {
		b, err := r.RecordBatch(i)
		if err != nil {
			return nil, err
		}
		b.Retain()
		step := rows
		if step <= 0 {
			step = max(b.NumRows(), 1)
		}
		for at := int64(0); at < b.NumRows(); at += step {
			out = append(out, b.NewSlice(at, min(at+step, b.NumRows())))
		}
	}
	return out, nil
}

// file is a sink on the local disk.
type file struct{ *os.File }

func (f file) Commit(context.Context) error { return f.Close() }
func (f file) Abort()                       { _ = f.Close() }

func write(ctx context.Context, path string, s *schema.Schema, batches []arrow.RecordBatch, o datafile.WriterOptions) (datafile.Summary, []arrow.RecordBatch, error) {
	f, err := os.Create(path)
	if err != nil {
		return datafile.Summary{}, nil, err
	}
	w, err := datafile.NewWriter(file{f}, s, o)
	if err != nil {
		return datafile.Summary{}, nil, err
	}
	defer w.Abort()
	var stored []arrow.RecordBatch
	for _, b := range batches {
		b, err := described(ctx, s, b, w)
		if err != nil {
			return datafile.Summary{}, nil, err
		}
		if err := w.Write(ctx, b); err != nil {
			return datafile.Summary{}, nil, err
		}
		stored = append(stored, b)
	}
	sum, err := w.Commit(ctx)
	return sum, stored, err
}

// described replaces blob values by descriptors of payloads in the file.
func described(ctx context.Context, s *schema.Schema, b arrow.RecordBatch, w *datafile.Writer) (arrow.RecordBatch, error) {
	columns := make([]arrow.Array, b.NumCols())
	fields := make([]arrow.Field, b.NumCols())
	for i, f := range s.Fields {
		columns[i] = b.Column(i)
		for range f.Blobs() {
			data, err := describe(ctx, f, b.Column(i).Data(), w)
			if err != nil {
				return nil, err
			}
			columns[i] = array.MakeFromData(data)
			break
		}
		fields[i] = arrow.Field{Name: f.Name, Type: columns[i].DataType(), Nullable: f.Nullable}
	}
	return array.NewRecordBatch(arrow.NewSchema(fields, nil), columns, b.NumRows()), nil
}

func describe(ctx context.Context, f *schema.Field, data arrow.ArrayData, w *datafile.Writer) (arrow.ArrayData, error) {
	if f.Blob != schema.NotBlob {
		arr := array.MakeFromData(data)
		return payloads(ctx, arr, w)
	}
	kids := make([]arrow.ArrayData, len(data.Children()))
	fields := make([]arrow.Field, len(kids))
	for i, k := range data.Children() {
		var err error
		kids[i] = k
		for range f.Children[i].Blobs() {
			if kids[i], err = describe(ctx, f.Children[i], k, w); err != nil {
				return nil, err
			}
			break
		}
		fields[i] = arrow.Field{Name: f.Children[i].Name, Type: kids[i].DataType(), Nullable: f.Children[i].Nullable}
	}
	typ := data.DataType()
	switch typ.ID() {
	case arrow.STRUCT:
		typ = arrow.StructOf(fields...)
	case arrow.LIST:
		typ = arrow.ListOfField(fields[0])
	case arrow.LARGE_LIST:
		typ = arrow.LargeListOfField(fields[0])
	}
	return array.NewData(typ, data.Len(), data.Buffers(), kids, data.NullN(), data.Offset()), nil
}

func payloads(ctx context.Context, arr arrow.Array, w *datafile.Writer) (arrow.ArrayData, error) {
	if arr.DataType().ID() == arrow.STRUCT {
		return arr.Data(), nil // descriptors already
	}
	values, ok := arr.(*array.LargeBinary)
	if !ok {
		return nil, fmt.Errorf("a blob column comes as %s", arr.DataType())
	}
	b := array.NewStructBuilder(memory.DefaultAllocator, schema.DescriptorType)
	for i := range values.Len() {
		if values.IsNull(i) {
			b.AppendNull()
			continue
		}
		at, err := w.AppendOutOfLine(ctx, values.Value(i))
		if err != nil {
			return nil, err
		}
		b.Append(true)
		b.FieldBuilder(0).(*array.Uint8Builder).Append(0)
		b.FieldBuilder(1).(*array.Uint64Builder).Append(at)
		b.FieldBuilder(2).(*array.Uint64Builder).Append(uint64(len(values.Value(i))))
		b.FieldBuilder(3).(*array.Uint32Builder).Append(0)
		b.FieldBuilder(4).(*array.StringBuilder).Append("")
	}
	return b.NewArray().Data(), nil
}

// compare reads the file by the own reader.
func compare(ctx context.Context, path string, s *schema.Schema, sum datafile.Summary, batches []arrow.RecordBatch) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	r, err := openBytes(ctx, data, sum.Rows)
	if err != nil {
		return err
	}
	at := uint64(0)
	for _, b := range batches {
		rows := encoding.Range{Start: at, End: at + uint64(b.NumRows())}
		for i, f := range s.Fields {
			got, err := column(ctx, r, s, sum, f, rows)
			if err != nil {
				return fmt.Errorf("column %s: %w", f.Name, err)
			}
			if !same(b.Column(i), got) {
				return fmt.Errorf("column %s, rows %d to %d: wrote %v, read %v", f.Name, rows.Start, rows.End, short(b.Column(i)), short(got))
			}
		}
		at = rows.End
	}
	return nil
}

func short(arr arrow.Array) string {
	s := fmt.Sprint(arr)
	return s[:min(len(s), 2000)]
}

// same compares arrays, structs and dictionaries as they print.
func same(want, got arrow.Array) bool {
	if want.DataType().ID() != arrow.STRUCT && array.Equal(want, got) {
		return true
	}
	if want.DataType().ID() == arrow.DICTIONARY {
		for i := range want.Len() {
			if want.IsNull(i) != got.IsNull(i) || want.IsValid(i) && want.ValueStr(i) != got.ValueStr(i) {
				return false
			}
		}
		return want.Len() == got.Len()
	}
	a, err1 := want.MarshalJSON()
	b, err2 := got.MarshalJSON()
	return err1 == nil && err2 == nil && bytes.Equal(a, b)
}
