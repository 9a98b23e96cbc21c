package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	protobuf "google.golang.org/protobuf/proto"

	"github.com/flightblob/flightblob/internal/fault"
)

// Options changes what a Writer sends. The zero value works.
type Options struct {
	// Descriptor goes with the schema message.
	Descriptor *flight.FlightDescriptor
	// DictionaryDeltas sends a grown dictionary as its new values only. Not
	// every client takes them; without, a changed dictionary is sent anew.
	DictionaryDeltas bool
	// Limit is the encoded length that no message may exceed, 0 for that of the
	// protocol. A longer one is not sent but fails with *TooLongError. Batches
	// can be cut to fit; a dictionary cannot.
	Limit int64
	// Compression of buffers. They are then copies, and a message may get longer
	// by a few bytes for each.
	Compression Compression
}

// TooLongError says that a message, a dictionary's perhaps, is over the limit.
type TooLongError struct{ Size, Limit int64 } // encoded bytes

// Error names both lengths.
func (e *TooLongError) Error() string {
	return fmt.Sprintf("wire: a message of %d bytes, dictionaries included, exceeds the limit of %d", e.Size, e.Limit)
}

// Unwrap classes the error as an exhausted limit.
func (e *TooLongError) Unwrap() error { return &fault.Error{Kind: fault.Exhausted, Offset: -1} }

// Writer sends a schema and record batches over one gRPC stream whose server
// uses Codec. It is for one goroutine.
type Writer struct {
	stream  grpc.ServerStream
	schema  *arrow.Schema
	ipc     *ipc.Writer
	payload payloadWriter
}

// NewWriter starts nothing yet: the schema goes out with WriteSchema, the
// first Write, or Close, whichever comes first.
//
// It switches message compression off for the stream, because compressing
// would read buffers that only the kernel may touch.
func NewWriter(stream grpc.ServerStream, schema *arrow.Schema, opts Options) (*Writer, error) {
	w := &Writer{stream: stream, schema: schema}
	w.payload.stream = stream
	w.payload.inFlight = new(atomic.Int64)
	w.payload.limit = opts.Limit
	if opts.Descriptor != nil {
		b, err := protobuf.Marshal(opts.Descriptor)
		if err != nil {
			return nil, fmt.Errorf("wire: encode descriptor: %w", err)
		}
		w.payload.descriptor = b
	}
	// Fails only when headers went out before; they then went without
	// compression or the caller asked for it on purpose.
	_ = grpc.SetSendCompressor(stream.Context(), encoding.Identity)
	// Buffers that IPC makes anew (shifted offsets, bitmaps) are released before
	// they are written, hence the collector's memory and no pool.
	w.ipc = ipc.NewWriterWithPayloadWriter(&w.payload, append(opts.Compression.ipcOptions(),
		ipc.WithSchema(schema),
		ipc.WithAllocator(memory.NewGoAllocator()),
		ipc.WithDictionaryDeltas(opts.DictionaryDeltas))...)
	return w, nil
}

// WriteSchema sends the schema message now, so that a client sees the columns
// before the first batch is ready. Later calls do nothing.
func (w *Writer) WriteSchema() error {
	if w.payload.messages > 0 {
		return nil
	}
	p := ipc.GetSchemaPayload(w.schema, memory.NewGoAllocator())
	defer p.Release()
	if err := w.payload.WritePayload(p); err != nil {
		return err
	}
	w.payload.skip = true
	return nil
}

// Write sends a batch, dictionaries first, and keeps it retained until the
// client has taken it. It blocks while the message before it is not written
// (flow control). appMetadata goes with the batch and may be nil.
func (w *Writer) Write(batch arrow.RecordBatch, appMetadata []byte) error {
	// A short part of a truncated mapping is copied here, in this goroutine, and
	// all of it is read when it is compressed.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	w.payload.batch, w.payload.appMetadata = batch, appMetadata
	defer func() { w.payload.batch, w.payload.appMetadata = nil, nil }()
	err := w.ipc.Write(batch)
	if isFault(err) { // the IPC writer makes errors of panics
		return errCutShort
	}
	return err
}

// Close sends the schema if nothing was sent yet and lets go of dictionaries.
// The stream itself ends when the gRPC handler returns. Call it once, also
// after an error.
func (w *Writer) Close() error {
	err := w.ipc.Close()
	if w.payload.inFlight.Load() > 0 {
		reap(w.payload.inFlight)
	}
	return err
}

// Messages is the number of messages sent, the schema's included.
func (w *Writer) Messages() int64 { return w.payload.messages }

// Bytes is the encoded length of all messages sent.
func (w *Writer) Bytes() int64 { return w.payload.bytes }

// payloadWriter turns IPC payloads into messages.
type payloadWriter struct {
	stream      grpc.ServerStream
	descriptor  []byte
	appMetadata []byte
	batch       arrow.RecordBatch
	skip        bool // the IPC writer's own schema payload was sent already
	inFlight    *atomic.Int64
	limit       int64
	messages    int64
	bytes       int64
	parts       collector
}

func (p *payloadWriter) Start() error { return nil }
func (p *payloadWriter) Close() error { return nil }

// WritePayload implements ipc.PayloadWriter.
func (p *payloadWriter) WritePayload(payload ipc.Payload) (err error) {
	if p.skip {
		p.skip = false
		return nil
	}
	m, err := p.message(payload)
	if err != nil {
		return err
	}
	size := m.size
	if p.limit > 0 && size > p.limit {
		m.discard()
		return &TooLongError{Size: size, Limit: p.limit}
	}
	if err := p.stream.SendMsg(m); err != nil {
		m.discard()
		return err
	}
	p.messages++
	p.bytes += size
	return nil
}

func (p *payloadWriter) message(payload ipc.Payload) (m *message, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = faulted(r)
		}
	}()
	meta := payload.Meta()
	defer meta.Release()
	p.parts = p.parts[:0]
	if err := payload.SerializeBody(&p.parts); err != nil {
		return nil, err
	}
	release := func() {}
	if batch := p.batch; batch != nil {
		batch.Retain()
		release = batch.Release
	}
	// The message keeps the slice of parts, so each gets its own.
	parts := append([][]byte(nil), p.parts...)
	var appMetadata []byte
	if isRecordBatch(meta.Bytes()) {
		appMetadata = p.appMetadata
	}
	m, err = newMessage(p.descriptor, meta.Bytes(), appMetadata, parts, p.inFlight, release)
	clear(p.parts)
	if err != nil {
		release()
		return nil, fault.New(fault.Exhausted, "%w", err)
	}
	p.descriptor = nil
	return m, nil
}

// isRecordBatch tells a record batch from the dictionaries that go before it:
// the flatbuffer Message {version, header_type, …} holds 3 as its header_type.
func isRecordBatch(message []byte) bool {
	u32 := func(at uint64) uint64 {
		if at+4 > uint64(len(message)) {
			return 0
		}
		return uint64(binary.LittleEndian.Uint32(message[at:]))
	}
	table := u32(0)
	vtable := table - uint64(int64(int32(u32(table))))
	field := table + u32(vtable+6)&0xffff // slot 1
	return field > table && field < uint64(len(message)) && message[field] == 3
}

// faulted turns a fault of a mapped page into the corruption that it is.
// Other panics go on.
func faulted(r any) error {
	if err, ok := r.(error); ok && isFault(err) {
		return errCutShort
	}
	panic(r)
}

// isFault says that an error is the fault of a mapped page.
func isFault(err error) bool {
	var re runtime.Error
	if !errors.As(err, &re) {
		return false
	}
	_, ok := re.(interface{ Addr() uintptr })
	return ok
}

var errCutShort = fault.New(fault.Corrupt, "wire: an object was cut short while it was being sent")

// collector is an io.Writer that keeps what it is given.
type collector [][]byte

func (c *collector) Write(b []byte) (int, error) {
	*c = append(*c, b)
	return len(b), nil
}
