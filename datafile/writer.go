package datafile

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"runtime"

	"github.com/apache/arrow-go/v18/arrow"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	"github.com/flightblob/flightblob/encoding"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/internal/lancepb"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/schema"
)

// WriterOptions tune a Writer. The zero value works.
type WriterOptions struct {
	// Version is the format of the file, 2.2 if not set; 2.3 is possible.
	Version encoding.Version
	// PageBytes is how many bytes of one column wait for a page; 0 means 8 MiB.
	PageBytes int
}

// Summary is what a manifest has to know of a finished file.
type Summary struct {
	Size    int64 // bytes
	Rows    uint64
	Fields  []schema.FieldID // fields that own a column, in order of the columns
	Columns []int32          // the column of each
	Major   uint32
	Minor   uint32
}

// Writer makes one data file. Payloads of blobs and pages are written as they
// come; what waits in memory is at most about one page of each column. One
// goroutine at a time. After an error only Abort is left.
type Writer struct {
	sink    objstore.Writer
	out     *bufio.Writer
	schema  *schema.Schema
	version encoding.Version

	at      uint64 // bytes written
	rows    uint64
	columns []*column
	err     error
}

// column is one physical column in the making.
type column struct {
	leaf    *schema.Field
	top     int // index of the top-level field
	encoder *encoding.Encoder
	pages   []*lancepb.Page
	fresh   []encoding.EncodedPage // not written yet
}

// alignment is what page buffers, global buffers and payloads start at a
// multiple of.
const alignment = 64

// writeBuffer is how many bytes are gathered for one write of the sink.
const writeBuffer = 256 << 10

// NewWriter begins a file with the columns of a schema. The sink is the
// Writer's from here on, on error too.
func NewWriter(sink objstore.Writer, s *schema.Schema, o WriterOptions) (*Writer, error) {
	if o.Version == (encoding.Version{}) {
		o.Version = encoding.V2_2
	}
	w := &Writer{sink: sink, out: bufio.NewWriterSize(sink, writeBuffer), schema: s, version: o.Version}
	for top, f := range s.Fields {
		for leaf := range f.Leaves() {
			e, err := encoding.NewEncoder(o.Version, leaf.Path(), encoding.EncoderOptions{PageBytes: o.PageBytes})
			if err != nil {
				sink.Abort()
				return nil, err
			}
			w.columns = append(w.columns, &column{leaf: leaf, top: top, encoder: e})
		}
	}
	return w, nil
}

// sliceBytes is about how much of a batch is encoded before its pages are
// written, so that a large batch does not stand in memory twice.
const sliceBytes = 32 << 20

// Write adds the rows of a batch. Its columns are those of the schema in order,
// blob columns as descriptor structs, JSON columns as text or in binary form.
// Nothing of the batch is kept. Batches that do not fit are fault.Invalid.
func (w *Writer) Write(ctx context.Context, batch arrow.RecordBatch) error {
	if w.err != nil {
		return w.err
	}
	w.err = w.write(ctx, batch)
	return w.err
}

func (w *Writer) write(ctx context.Context, batch arrow.RecordBatch) error {
	if int(batch.NumCols()) != len(w.schema.Fields) {
		return fault.New(fault.Invalid, "datafile: a batch of %d columns for a file of %d", batch.NumCols(), len(w.schema.Fields))
	}
	for i, f := range w.schema.Fields {
		if name := batch.ColumnName(i); name != f.Name {
			return fault.New(fault.Invalid, "datafile: column %d of the batch is %q, of the file %q", i, name, f.Name)
		}
	}
	rows := batch.NumRows()
	step := max(1, int64(float64(rows)*sliceBytes/float64(max(sizeOf(batch), 1))))
	for from := int64(0); from < rows; from += step {
		if err := ctx.Err(); err != nil {
			return err
		}
		to := min(from+step, rows)
		part := batch.NewSlice(from, to)
		err := w.encode(func(c *column) ([]encoding.EncodedPage, error) { return c.encoder.Append(part.Column(c.top)) })
		part.Release()
		if err != nil {
			return err
		}
		w.rows += uint64(to - from)
	}
	return nil
}

// sizeOf is the memory that a batch refers to.
func sizeOf(batch arrow.RecordBatch) uint64 {
	size := uint64(0)
	for _, c := range batch.Columns() {
		size += c.Data().SizeInBytes()
	}
	return size
}

// encode runs a step of every column's encoder, several at a time, and writes
// the pages that come of it in order of the columns.
func (w *Writer) encode(step func(*column) ([]encoding.EncodedPage, error)) error {
	var group errgroup.Group
	group.SetLimit(max(1, runtime.GOMAXPROCS(0)))
	for _, c := range w.columns {
		group.Go(func() (err error) {
			defer fault.Recover("datafile", &err)
			c.fresh, err = step(c)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for _, c := range w.columns {
		for _, p := range c.fresh {
			if err := w.page(c, p); err != nil {
				return err
			}
		}
		c.fresh = nil
	}
	return nil
}

// page writes the buffers of a page and notes where they are.
func (w *Writer) page(c *column, p encoding.EncodedPage) error {
	m := &lancepb.Page{Length: p.Rows, Priority: p.First}
	for _, b := range p.Buffers {
		if err := w.align(); err != nil {
			return err
		}
		m.BufferOffsets = append(m.BufferOffsets, w.at)
		m.BufferSizes = append(m.BufferSizes, uint64(len(b)))
		if err := w.put(b); err != nil {
			return err
		}
	}
	var err error
	m.Encoding, err = direct(w.version.LayoutURL(), p.Layout)
	c.pages = append(c.pages, m)
	return err
}

// direct puts a description beside what it describes.
func direct(url string, value []byte) (*lancepb.PayloadEncoding, error) {
	raw, err := proto.Marshal(&lancepb.AnyValue{TypeUrl: url, Value: value})
	if err != nil {
		return nil, fault.New(fault.Internal, "datafile: description: %w", err)
	}
	return &lancepb.PayloadEncoding{Location: &lancepb.PayloadEncoding_Direct_{Direct: &lancepb.PayloadEncoding_Direct{Encoding: raw}}}, nil
}

var zeros [alignment]byte

func (w *Writer) align() error {
	return w.put(zeros[:aligned(w.at)-w.at])
}

func aligned(at uint64) uint64 { return (at + alignment - 1) &^ (alignment - 1) }

func (w *Writer) put(b []byte) error {
	n, err := w.out.Write(b)
	w.at += uint64(n)
	return err
}

// NextOutOfLine is where the next payload will start.
func (w *Writer) NextOutOfLine() uint64 { return aligned(w.at) }

// AppendOutOfLine writes the payload of a blob into the file and gives the
// position that its descriptor names. It must be written before the batch with
// the descriptor.
func (w *Writer) AppendOutOfLine(ctx context.Context, payload []byte) (uint64, error) {
	if w.err == nil {
		w.err = ctx.Err()
	}
	if w.err == nil {
		w.err = w.align()
	}
	at := w.at
	if w.err == nil {
		w.err = w.put(payload)
	}
	return at, w.err
}

// Size is the number of bytes written so far, with those that wait: an estimate
// of the finished file from above where values can be compressed.
func (w *Writer) Size() int64 {
	size := int64(w.at)
	for _, c := range w.columns {
		size += c.encoder.Buffered()
	}
	return size
}

// Commit writes what waits and the end of the file, and makes it durable.
func (w *Writer) Commit(ctx context.Context) (Summary, error) {
	if w.err == nil {
		w.err = w.finish(ctx)
	}
	if w.err != nil {
		return Summary{}, w.err
	}
	s := Summary{Size: int64(w.at), Rows: w.rows, Major: uint32(w.version.Major), Minor: uint32(w.version.Minor)}
	for i, c := range w.columns {
		s.Fields = append(s.Fields, c.leaf.ID)
		s.Columns = append(s.Columns, int32(i))
	}
	w.err = fault.New(fault.Internal, "datafile: the file is finished")
	return s, nil
}

// Abort drops the file. After Commit it does nothing.
func (w *Writer) Abort() {
	if w.err == nil {
		w.err = fault.New(fault.Internal, "datafile: the file was dropped")
	}
	w.sink.Abort()
}

func (w *Writer) finish(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := w.encode(func(c *column) ([]encoding.EncodedPage, error) { return c.encoder.Flush() }); err != nil {
		return err
	}
	if err := w.align(); err != nil {
		return err
	}
	descriptor, err := proto.MarshalOptions{Deterministic: true}.Marshal(&lancepb.FileDescriptor{Schema: fileSchema(w.schema), Length: w.rows})
	if err != nil {
		return fault.New(fault.Internal, "datafile: descriptor: %w", err)
	}
	buffers := []encoding.Extent{{Offset: w.at, Size: uint64(len(descriptor))}}
	if err := w.put(descriptor); err != nil {
		return err
	}
	metadata := w.at
	columns, err := w.columnMetadata()
	if err != nil {
		return err
	}
	var tail []byte
	columnTable := w.at
	for _, c := range columns {
		tail = appendExtent(tail, c)
	}
	bufferTable := w.at + uint64(len(tail))
	for _, b := range buffers {
		tail = appendExtent(tail, b)
	}
	for _, v := range []uint64{metadata, columnTable, bufferTable} {
		tail = binary.LittleEndian.AppendUint64(tail, v)
	}
	tail = binary.LittleEndian.AppendUint32(tail, uint32(len(buffers)))
	tail = binary.LittleEndian.AppendUint32(tail, uint32(len(columns)))
	tail = binary.LittleEndian.AppendUint16(tail, w.version.Major)
	tail = binary.LittleEndian.AppendUint16(tail, w.version.Minor)
	if err := w.put(append(tail, "LANC"...)); err != nil {
		return err
	}
	if err := w.out.Flush(); err != nil {
		return err
	}
	return w.sink.Commit(ctx)
}

func appendExtent(dst []byte, e encoding.Extent) []byte {
	return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(dst, e.Offset), e.Size)
}

// plainColumn is the mandatory encoding of a column whose pages say everything
// themselves.
var plainColumn = []byte{0x0a, 0x00}

func (w *Writer) columnMetadata() ([]encoding.Extent, error) {
	var out []encoding.Extent
	for i, c := range w.columns {
		ce, err := direct("/lance.encodings.ColumnEncoding", plainColumn)
		if err != nil {
			return nil, err
		}
		raw, err := proto.Marshal(&lancepb.ColumnMetadata{Encoding: ce, Pages: c.pages})
		if err != nil {
			return nil, fault.New(fault.Internal, "datafile: metadata of column %d: %w", i, err)
		}
		out = append(out, encoding.Extent{Offset: w.at, Size: uint64(len(raw))})
		if err := w.put(raw); err != nil {
			return nil, fmt.Errorf("datafile: metadata of column %d: %w", i, err)
		}
	}
	return out, nil
}
