package blob

import (
	"context"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/schema"
)

// chunk is how much of a value is held at a time when it is not read whole; a
// multiple of 64, so that inline payloads written in chunks have no gaps.
const chunk = 4 << 20

// store carries out the steps of a leaf and gives its descriptors.
func (p *Placer) store(ctx context.Context, mem memory.Allocator, l *inputLeaf, plan leafPlan, ahead *readAhead) (arrow.Array, error) {
	t, err := p.thresholds(l.field)
	if err != nil {
		return nil, err
	}
	b := newDescriptors(mem, len(plan.steps))
	defer b.release()
	for i, s := range plan.steps {
		if s.do == doNull {
			b.null()
			continue
		}
		if i%64 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		d, err := p.storeStep(ctx, l, i, plan, t, ahead)
		if err != nil {
			return nil, err
		}
		if err := b.add(d); err != nil {
			return nil, err
		}
	}
	if err := p.objects.err(); err != nil { // stop early
		return nil, err
	}
	return b.finish(), nil
}

func (p *Placer) storeStep(ctx context.Context, l *inputLeaf, i int, plan leafPlan, t schema.Thresholds, ahead *readAhead) (Descriptor, error) {
	do := plan.steps[i].do
	switch do {
	case doKeep:
		return plan.details[plan.steps[i].at].d, nil
	case doStore, doPipe:
		v, err := l.at(i)
		if err != nil {
			return Descriptor{}, err
		}
		if do == doStore {
			return p.storeBytes(ctx, v.data, placementOf(uint64(len(v.data)), t), t)
		}
		d, err := p.storeStream(ctx, v.stream.r, v.stream.size, placementOf(v.stream.size, t), t)
		return d, l.because(i, err)
	}
	s := &plan.details[plan.steps[i].at]
	where := placementOf(s.from.Length, t)
	if s.inline {
		where = inline
	}
	if s.ticket >= 0 {
		data, err := ahead.take(ctx, s.ticket)
		if err != nil {
			return Descriptor{}, l.because(i, err)
		}
		defer ahead.done(s.ticket)
		return p.storeBytes(ctx, data, where, t)
	}
	if where == dedicated {
		return p.copyDedicated(l, i, s.from)
	}
	d, err := p.storeStream(ctx, &extentReader{ctx: ctx, e: s.from}, s.from.Length, where, t)
	return d, l.because(i, err)
}

// because names the place of a value in a failure of its source.
func (l *inputLeaf) because(i int, err error) error {
	if err == nil {
		return nil
	}
	var failed *sourceError
	if asSource(err, &failed) {
		return l.fail(i, failed.rule, failed.err)
	}
	return err
}

// storeBytes stores a value that is in memory.
func (p *Placer) storeBytes(ctx context.Context, data []byte, where placement, t schema.Thresholds) (Descriptor, error) {
	n := uint64(len(data))
	switch where {
	case packed:
		k, err := p.reserve(n, t)
		if err != nil {
			return Descriptor{}, err
		}
		if _, err := k.w.Write(data); err != nil {
			return Descriptor{}, err
		}
		return k.take(n), nil
	case dedicated:
		w, d, err := p.newObject(Dedicated)
		if err != nil {
			return d, err
		}
		d.Size = n
		if _, err := w.Write(data); err != nil {
			w.Abort()
			return d, err
		}
		p.objects.finish(func() error { return w.Commit(p.ctx) })
		return d, nil
	}
	if n == 0 {
		return Descriptor{Position: p.file.NextOutOfLine()}, nil // NUL-6
	}
	at, err := p.file.AppendOutOfLine(ctx, data)
	return Descriptor{Position: at, Size: n}, err
}

// storeStream stores a value of n bytes piece by piece.
func (p *Placer) storeStream(ctx context.Context, r io.Reader, n uint64, where placement, t schema.Thresholds) (Descriptor, error) {
	switch where {
	case packed:
		k, err := p.reserve(n, t)
		if err != nil {
			return Descriptor{}, err
		}
		return k.take(n), pipe(ctx, k.w.Write, r, n)
	case dedicated:
		w, d, err := p.newObject(Dedicated)
		if err != nil {
			return d, err
		}
		d.Size = n
		if err := pipe(ctx, w.Write, r, n); err != nil {
			w.Abort()
			return d, err
		}
		p.objects.finish(func() error { return w.Commit(p.ctx) })
		return d, nil
	}
	d := Descriptor{Position: p.file.NextOutOfLine(), Size: n}
	next := d.Position
	return d, pipe(ctx, func(data []byte) (int, error) {
		at, err := p.file.AppendOutOfLine(ctx, data)
		if err == nil && at != next {
			err = fault.New(fault.Internal, "blob: an inline payload went to byte %d of the file, not to %d", at, next)
		}
		next = at + uint64(len(data))
		return len(data), err
	}, r, n)
}

// copyDedicated copies an extent into an object of its own, beside what
// follows.
func (p *Placer) copyDedicated(l *inputLeaf, i int, from Extent) (Descriptor, error) {
	w, d, err := p.newObject(Dedicated)
	if err != nil {
		return d, err
	}
	d.Size = from.Length
	failed := func(err error) error { return l.because(i, err) }
	p.objects.finish(func() error { return copyObject(p.ctx, w, from, failed) })
	return d, nil
}

func copyObject(ctx context.Context, w objstore.Writer, from Extent, failed func(error) error) error {
	if err := pipe(ctx, w.Write, &extentReader{ctx: ctx, e: from}, from.Length); err != nil {
		w.Abort()
		return failed(err)
	}
	return w.Commit(ctx)
}

// pipe moves exactly n bytes; a reader that has fewer or more is an error of
// the value.
func pipe(ctx context.Context, write func([]byte) (int, error), r io.Reader, n uint64) error {
	buf := make([]byte, min(n, chunk))
	for left := n; left > 0; {
		if err := ctx.Err(); err != nil {
			return err
		}
		part := buf[:min(left, chunk)]
		if got, err := io.ReadFull(r, part); err != nil {
			if err == io.EOF || err == io.ErrUnexpectedEOF {
				return sourced("", fault.New(fault.Invalid, "the value ends after %d of %d bytes", n-left+uint64(got), n))
			}
			return sourced("", err)
		}
		if _, err := write(part); err != nil {
			return err
		}
		left -= uint64(len(part))
	}
	switch got, err := io.ReadFull(r, make([]byte, 1)); {
	case got > 0:
		return sourced("", fault.New(fault.Invalid, "the value has more than the %d bytes that it was announced with", n))
	case err != io.EOF:
		return sourced("", err)
	}
	return nil
}
