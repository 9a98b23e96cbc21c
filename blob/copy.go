package blob

import (
	"context"
	"errors"
	"io"
	"math"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
)

// sourceError is a failure to get the bytes of a value, as opposed to one to
// store them.
type sourceError struct {
	rule string
	err  error
}

func (e *sourceError) Error() string { return e.err.Error() }
func (e *sourceError) Unwrap() error { return e.err }

func sourced(rule string, err error) error {
	if err == nil {
		return nil
	}
	return &sourceError{rule, err}
}

func asSource(err error, target **sourceError) bool { return errors.As(err, target) }

// source finds the object that a URI names, to copy it (EXT-9).
func (p *Placer) source(ctx context.Context, uri string) (objstore.Location, string, error) {
	if !strings.HasPrefix(uri, "/") {
		var err error
		if uri, err = objstore.NormalURI(uri); err != nil {
			return objstore.Location{}, "EXT-7", err
		}
	}
	if p.policy.URIs.Locate == nil {
		return objstore.Location{}, "", fault.New(fault.Internal, "no locator for %s", fault.Quote(uri))
	}
	object, err := p.policy.URIs.Locate(ctx, strings.Clone(uri))
	return object, "", err
}

// readable explains why an extent could not be read. A range that ends beyond
// its object is a fault of the input; an absent External object is NotFound,
// an absent one of the table Corrupt.
func (e Extent) readable(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil {
		return err
	}
	switch fault.KindOf(err) {
	case fault.NotFound:
		if e.Owned {
			return sourced("", fault.New(fault.Corrupt, "%s is missing", e.Object))
		}
	case fault.Corrupt:
		if n, sizeErr := e.Object.Size(ctx); sizeErr == nil && !e.Owned {
			return sourced("EXT-9", fault.New(fault.Invalid, "%s has %d bytes; [%d, %d) is not all there", e.Object, n, e.Offset, e.Offset+e.Length))
		}
	}
	return sourced("EXT-9", err)
}

// extentReader reads an extent from its start, once.
type extentReader struct {
	ctx context.Context // io.Reader has no other place for it
	e   Extent
	at  uint64
}

func (r *extentReader) Read(p []byte) (int, error) {
	left := r.e.Length - r.at
	if left == 0 {
		return 0, io.EOF
	}
	p = p[:min(uint64(len(p)), left)]
	if err := r.e.read(r.ctx, p, r.at); err != nil {
		return 0, err
	}
	r.at += uint64(len(p))
	return len(p), nil
}

// read fills p from byte at of the extent.
func (e Extent) read(ctx context.Context, p []byte, at uint64) error {
	if e.Offset+at > math.MaxInt64-uint64(len(p)) {
		return sourced("EXT-9", fault.New(fault.Invalid, "%s has no byte %d", e.Object, e.Offset+at))
	}
	return e.readable(ctx, e.Object.ReadAt(ctx, p, int64(e.Offset+at)))
}

// sizes finds the lengths of whole objects that are to be copied, a few at a
// time.
func (p *Placer) sizes(ctx context.Context, in *Inputs, plans []leafPlan) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(p.policy.Copies)
	for i, plan := range plans {
		l := in.leaves[i]
		for j, step := range plan.steps {
			if step.do != doCopy {
				continue
			}
			s := &plan.details[step.at]
			if !s.from.Whole {
				continue
			}
			group.Go(func() (err error) {
				defer fault.Recover("blob", &err)
				n, err := Length(ctx, s.from)
				if err == nil && n > 0 && s.from.Offset > 0 { // the interval [p, p+n) ends beyond n, NUL-9
					err = fault.New(fault.Invalid, "%s has %d bytes; [%d, %d) is not all there", s.from.Object, n, s.from.Offset, s.from.Offset+n)
				}
				if err != nil {
					return l.because(j, s.from.readable(ctx, err))
				}
				s.from = s.from.Sized(n)
				return nil
			})
		}
	}
	return group.Wait()
}

// wholeUpTo is the largest value that is read in one piece, ahead of being
// stored.
const wholeUpTo = 4 << 20

// readAhead reads values in the order in which they are stored, some before
// their turn. Few enough bytes are held, one value at least.
type readAhead struct {
	cancel context.CancelFunc
	all    sync.WaitGroup
	values []*aheadValue
	wake   chan struct{}

	mu   sync.Mutex
	free int64
	held int // values
}

type aheadValue struct {
	from  Extent
	data  []byte
	err   error
	ready chan struct{}
}

// readAhead starts reading the values of a batch that are small enough. Their
// steps get the numbers by which take hands them out.
func (p *Placer) readAhead(ctx context.Context, plans []leafPlan) *readAhead {
	ctx, cancel := context.WithCancel(ctx)
	a := &readAhead{cancel: cancel, wake: make(chan struct{}, 1), free: p.policy.CopyMemory}
	for _, plan := range plans {
		for _, step := range plan.steps {
			if step.do != doCopy {
				continue
			}
			s := &plan.details[step.at]
			if s.ticket = -1; s.from.Length <= wholeUpTo {
				s.ticket = len(a.values)
				a.values = append(a.values, &aheadValue{from: s.from, ready: make(chan struct{})})
			}
		}
	}
	if len(a.values) > 0 {
		a.all.Add(1)
		go a.run(ctx, p.policy.Copies)
	}
	return a
}

// run admits values in order, as memory allows.
func (a *readAhead) run(ctx context.Context, most int) {
	defer a.all.Done()
	var readers errgroup.Group
	readers.SetLimit(most)
	defer func() { _ = readers.Wait() }()
	for _, v := range a.values {
		if err := a.admit(ctx, int64(v.from.Length)); err != nil {
			v.err = err
			close(v.ready)
			continue
		}
		readers.Go(func() (err error) {
			defer close(v.ready)
			defer fault.Recover("blob", &v.err)
			v.data = make([]byte, v.from.Length)
			if len(v.data) > 0 {
				v.err = v.from.read(ctx, v.data, 0)
			}
			return nil
		})
	}
}

// admit waits until n bytes may be held.
func (a *readAhead) admit(ctx context.Context, n int64) error {
	for {
		a.mu.Lock()
		if a.free >= n || a.held == 0 {
			a.free -= n
			a.held++
			a.mu.Unlock()
			return nil
		}
		a.mu.Unlock()
		select {
		case <-a.wake:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// take waits for a value.
func (a *readAhead) take(ctx context.Context, ticket int) ([]byte, error) {
	v := a.values[ticket]
	select {
	case <-v.ready:
		return v.data, v.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// done gives the memory of a value back.
func (a *readAhead) done(ticket int) {
	v := a.values[ticket]
	a.mu.Lock()
	a.free += int64(v.from.Length)
	a.held--
	a.mu.Unlock()
	v.data = nil
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// close stops reading and waits for it to end.
func (a *readAhead) close() {
	a.cancel()
	a.all.Wait()
}
