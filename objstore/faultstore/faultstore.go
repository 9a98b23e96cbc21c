// Package faultstore is a test room: a store whose n-th call fails, before or
// after its effect, or is cancelled.
//
// Every call of the store and of its writers has a number, from 1. A test runs
// an operation again and again, and lets another call fail each time, until
// none is left:
//
//	for n := 1; ; n++ {
//		s := faultstore.New(store, faultstore.Plan{Call: n, How: faultstore.Unanswered})
//		err := operation(s)
//		… // check what is there now
//		if !s.Failed() {
//			break
//		}
//	}
//
// With Plan.Before and objstore.Mem.CrashClone it sees what a crash at any call
// would leave.
package faultstore

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"sync"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
)

// How says in which way a call fails.
type How uint8

// The ways to fail.
const (
	Refused    How = iota // no effect, and the caller knows: fault.Unavailable
	Lost                  // no effect, but a writer cannot know: objstore.ErrUncertain
	Unanswered            // the effect happens, but a writer cannot know: objstore.ErrUncertain
	Cancelled             // Plan.Cancel is called, then the call is made
)

// Plan says what fails.
type Plan struct {
	Call int // the number of the call; 0 for none
	How  How
	// Forever lets all later calls be refused too: the process has lost its
	// store, so no clean-up reaches it.
	Forever bool
	// Err replaces the error of Refused, such as a fault.Exhausted one.
	Err error
	// Cancel is called for Cancelled.
	Cancel context.CancelFunc
	// Count selects the calls that have numbers; nil for all.
	Count func(Call) bool
	// Before, if set, sees every numbered call before its effect.
	Before func(Call)
}

// Call is one call.
type Call struct {
	Number int
	Op     string
	Path   string // of the object or folder; of a copy, where it goes
}

// The operations in Call.Op.
const (
	Read        = "read"
	Size        = "size"
	List        = "list"
	Create      = "create"
	Write       = "write"
	Commit      = "commit"
	Abort       = "abort"
	PutIfAbsent = "put if absent"
	Put         = "put"
	Delete      = "delete"
	Copy        = "copy"
	Remove      = "remove folder"
)

// Changes reports that a call may change the store: a selection for Plan.Count.
func Changes(c Call) bool { return c.Op != Read && c.Op != Size && c.Op != List }

// String prints the call as "3 put if absent t/_versions/1.manifest".
func (c Call) String() string { return fmt.Sprintf("%d %s %s", c.Number, c.Op, c.Path) }

// Store is a store with a plan. It lends no bytes.
type Store struct {
	inner objstore.Store
	plan  Plan

	mu     sync.Mutex
	calls  []Call
	failed bool
}

var (
	_ objstore.WholeReader   = (*Store)(nil)
	_ objstore.Copier        = (*Store)(nil)
	_ objstore.FolderRemover = (*Store)(nil)
)

// New puts a plan around a store.
func New(s objstore.Store, p Plan) *Store { return &Store{inner: s, plan: p} }

// Calls lists the numbered calls made so far.
func (s *Store) Calls() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Call(nil), s.calls...)
}

// Trace prints the calls, one a line, for golden texts.
func (s *Store) Trace() string {
	var b strings.Builder
	for _, c := range s.Calls() {
		fmt.Fprintln(&b, c)
	}
	return b.String()
}

// Failed reports whether the planned call was made.
func (s *Store) Failed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// begin numbers a call and says how it fails, if it does.
func (s *Store) begin(op, path string) (how How, fails bool) {
	c := Call{Op: op, Path: path}
	s.mu.Lock()
	defer s.mu.Unlock()
	over := s.failed && s.plan.Forever
	if s.plan.Count != nil && !s.plan.Count(c) {
		return Refused, over
	}
	c.Number = len(s.calls) + 1
	s.calls = append(s.calls, c)
	if s.plan.Before != nil {
		s.plan.Before(c)
	}
	if over {
		return Refused, true
	}
	if c.Number != s.plan.Call {
		return Refused, false
	}
	s.failed = true
	if s.plan.How == Cancelled {
		if s.plan.Cancel != nil {
			s.plan.Cancel()
		}
		return Cancelled, false
	}
	return s.plan.How, true
}

// do makes a call according to the plan.
func (s *Store) do(op, path string, call func() error) error {
	how, fails := s.begin(op, path)
	if !fails {
		return call()
	}
	if how == Unanswered {
		if err := call(); err != nil {
			return err
		}
	}
	return s.failure(op, path, how)
}

func (s *Store) failure(op, path string, how How) error {
	err := fault.New(fault.Unavailable, "faultstore: %s %s: planned failure", op, path)
	switch {
	case how == Refused && s.plan.Err != nil:
		return s.plan.Err
	case how == Refused, !Changes(Call{Op: op}):
		return err
	default:
		return objstore.Uncertain(s.URI(path), err)
	}
}

// ReadAt implements objstore.Store.
func (s *Store) ReadAt(ctx context.Context, path string, p []byte, off int64) error {
	return s.do(Read, path, func() error { return s.inner.ReadAt(ctx, path, p, off) })
}

// ReadWhole implements objstore.WholeReader, by one call.
func (s *Store) ReadWhole(ctx context.Context, path string, limit int64) (data []byte, err error) {
	err = s.do(Read, path, func() (err error) {
		data, err = objstore.ReadAll(ctx, objstore.Location{Store: s.inner, Path: path}, limit)
		return err
	})
	if err != nil {
		return nil, err
	}
	return data, nil
}

// Size implements objstore.Store.
func (s *Store) Size(ctx context.Context, path string) (n int64, err error) {
	err = s.do(Size, path, func() (err error) {
		n, err = s.inner.Size(ctx, path)
		return err
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

// List implements objstore.Store. Unanswered fails behind the last entry.
func (s *Store) List(ctx context.Context, dir string) iter.Seq2[objstore.Entry, error] {
	return func(yield func(objstore.Entry, error) bool) {
		how, fails := s.begin(List, dir)
		if !fails || how == Unanswered {
			for e, err := range s.inner.List(ctx, dir) {
				if !yield(e, err) {
					return
				}
			}
		}
		if fails {
			yield(objstore.Entry{}, s.failure(List, dir, how))
		}
	}
}

// PutIfAbsent implements objstore.Store.
func (s *Store) PutIfAbsent(ctx context.Context, path string, data []byte) error {
	return s.do(PutIfAbsent, path, func() error { return s.inner.PutIfAbsent(ctx, path, data) })
}

// Put implements objstore.Store.
func (s *Store) Put(ctx context.Context, path string, data []byte) error {
	return s.do(Put, path, func() error { return s.inner.Put(ctx, path, data) })
}

// Delete implements objstore.Store.
func (s *Store) Delete(ctx context.Context, path string) error {
	return s.do(Delete, path, func() error { return s.inner.Delete(ctx, path) })
}

// CopyObject implements objstore.Copier. One that the store below cannot make
// has no number.
func (s *Store) CopyObject(ctx context.Context, from, to string) error {
	c, ok := s.inner.(objstore.Copier)
	if !ok {
		return fault.New(fault.Unsupported, "faultstore: the store below does not copy")
	}
	return s.do(Copy, to, func() error { return c.CopyObject(ctx, from, to) })
}

// RemoveFolder implements objstore.FolderRemover. One that the store below
// cannot remove has no number.
func (s *Store) RemoveFolder(ctx context.Context, dir string) error {
	r, ok := s.inner.(objstore.FolderRemover)
	if !ok {
		return fault.New(fault.Unsupported, "faultstore: the store below removes no folders")
	}
	return s.do(Remove, dir, func() error { return r.RemoveFolder(ctx, dir) })
}

// URI implements objstore.Store.
func (s *Store) URI(path string) string { return s.inner.URI(path) }

// Create implements objstore.Store. A writer that could not be handed over is
// left open below, as if the process had lost it.
func (s *Store) Create(ctx context.Context, path string) (objstore.Writer, error) {
	var w objstore.Writer
	err := s.do(Create, path, func() (err error) {
		w, err = s.inner.Create(ctx, path)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &writer{store: s, path: path, inner: w}, nil
}

// writer numbers the calls of a writer.
type writer struct {
	store *Store
	path  string
	inner objstore.Writer
	err   error // of the first Write that failed
	done  bool
}

func (w *writer) Write(p []byte) (n int, err error) {
	if w.err != nil {
		return 0, w.err
	}
	err = w.store.do(Write, w.path, func() (err error) {
		n, err = w.inner.Write(p)
		return err
	})
	if err != nil {
		w.err = err
		return 0, err
	}
	return n, nil
}

// Commit fails like the write that failed. A commit that fails by plan without
// effect leaves nothing behind, as the contract wants, unless the store is
// lost.
func (w *writer) Commit(ctx context.Context) error {
	if w.err != nil {
		w.Abort()
		return w.err
	}
	if w.done {
		return w.inner.Commit(ctx) // which refuses
	}
	w.done = true
	how, fails := w.store.begin(Commit, w.path)
	if !fails || how == Unanswered {
		if err := w.inner.Commit(ctx); err != nil {
			return err
		}
	} else if !w.store.plan.Forever {
		w.inner.Abort()
	}
	if fails {
		return w.store.failure(Commit, w.path, how)
	}
	return nil
}

// Abort is one call, unless there is nothing left to do.
func (w *writer) Abort() {
	if w.done {
		return
	}
	w.done = true
	if how, fails := w.store.begin(Abort, w.path); !fails || how == Unanswered {
		w.inner.Abort()
	}
}
