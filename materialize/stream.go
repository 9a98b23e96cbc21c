package materialize

import (
	"context"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
)

// stream is an array.RecordReader over batches that a goroutine produces. The
// caller holds one batch while the goroutine prepares the next ones. Next and
// Release are for one goroutine at a time.
type stream struct {
	refs   atomic.Int64
	schema *arrow.Schema
	ctx    context.Context // the reader interface has no other place for it
	cancel context.CancelFunc
	out    chan arrow.RecordBatch
	failed error // written before out is closed
	cur    arrow.RecordBatch
	err    error
	ended  bool
}

// emit hands a batch on; it takes over the caller's reference.
type emit func(arrow.RecordBatch) error

// newStream starts produce, which emits batches until it returns.
func newStream(ctx context.Context, s *arrow.Schema, prefetch int, produce func(context.Context, emit) error) *stream {
	r := &stream{schema: s, out: make(chan arrow.RecordBatch, prefetch-1)}
	r.ctx, r.cancel = context.WithCancel(ctx)
	r.refs.Store(1)
	go func() {
		defer close(r.out)
		r.failed = guard(func() error { return produce(r.ctx, r.send) })
	}()
	return r
}

func (r *stream) send(rec arrow.RecordBatch) error {
	select {
	case r.out <- rec:
		return nil
	case <-r.ctx.Done():
		rec.Release()
		return r.ctx.Err()
	}
}

// Schema is that of all batches.
func (r *stream) Schema() *arrow.Schema { return r.schema }

// RecordBatch is the current batch, valid until the next call of Next.
func (r *stream) RecordBatch() arrow.RecordBatch { return r.cur }

// Record is RecordBatch under its old name.
func (r *stream) Record() arrow.RecordBatch { return r.cur }

// Err is the failure that ended the stream, or nil. After a cancelled context
// it is that of the context.
func (r *stream) Err() error { return r.err }

// Next releases the current batch and waits for the next one. The end of the
// context ends the wait at once, even if a store does not react to it.
func (r *stream) Next() bool {
	if r.cur != nil {
		r.cur.Release()
		r.cur = nil
	}
	if r.ended {
		return false
	}
	select {
	case rec, ok := <-r.out:
		if ok {
			r.cur = rec
			return true
		}
		r.err = r.failed
	case <-r.ctx.Done():
		r.err = r.ctx.Err()
	}
	r.ended = true
	return false
}

// Retain adds a reference.
func (r *stream) Retain() { r.refs.Add(1) }

// Release gives a reference back. The last one stops the goroutine and waits
// for it, so that nothing is read and nothing is held afterwards.
func (r *stream) Release() {
	if r.refs.Add(-1) != 0 {
		return
	}
	r.ended = true
	r.cancel()
	if r.cur != nil {
		r.cur.Release()
		r.cur = nil
	}
	for rec := range r.out { // closed when the goroutine has ended
		rec.Release()
	}
}
