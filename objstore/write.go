package objstore

import (
	"context"
	"errors"
	"io"

	"github.com/flightblob/flightblob/internal/fault"
)

// Writer streams one new object into a store. It is used by one goroutine at a
// time and ends by exactly one of Commit and Abort.
//
// Nothing of the object can be seen before Commit. The context of Create
// governs Write. After a Write that failed, Commit fails too.
type Writer interface {
	io.Writer
	// Commit returns when the object, and the folders that lead to it, are
	// durable. An object that lies there already is replaced, so callers that
	// must not lose one choose fresh names. A failed Commit leaves nothing
	// behind, unless the error is ErrUncertain.
	Commit(ctx context.Context) error
	// Abort ends the write and leaves nothing behind. After a Commit, failed or
	// not, and after another Abort, it does nothing.
	Abort()
}

// ErrUncertain marks failures after which the object may be there or not,
// because the answer was lost or the object could not be made durable. Whoever
// depends on the outcome reads the object back and compares.
var ErrUncertain = errors.New("the outcome of a write is unknown")

// Uncertain makes an error of kind Unavailable that is ErrUncertain and names
// the object; cause is what was seen.
func Uncertain(object string, cause error) error {
	return &fault.Error{
		Kind: fault.Unavailable, Offset: -1,
		Text: "objstore: it is unknown whether " + object + " was written; read it back",
		Err:  uncertainCause{cause},
	}
}

type uncertainCause struct{ error }

func (u uncertainCause) Is(target error) bool { return target == ErrUncertain }
func (u uncertainCause) Unwrap() error        { return u.error }

// Create begins a new object at the location.
func (l Location) Create(ctx context.Context) (Writer, error) { return l.Store.Create(ctx, l.Path) }

// PutIfAbsent stores data as the object, unless there is one.
func (l Location) PutIfAbsent(ctx context.Context, data []byte) error {
	return l.Store.PutIfAbsent(ctx, l.Path, data)
}

// Put stores data as the object, replacing one that is there.
func (l Location) Put(ctx context.Context, data []byte) error {
	return l.Store.Put(ctx, l.Path, data)
}

// Delete removes the object. One that is absent is no error.
func (l Location) Delete(ctx context.Context) error { return l.Store.Delete(ctx, l.Path) }

// exists reports an object that is in the way of PutIfAbsent.
func exists(object string) error {
	return fault.New(fault.Exists, "objstore: %s exists already", object)
}

// finished reports the use of a Writer that was committed or aborted.
func finished(object string) error {
	return fault.New(fault.Internal, "objstore: the writer of %s was committed or aborted already", object)
}

// ReadOnly is the writing half of a store that takes no writes: embed it.
type ReadOnly struct{}

// Create implements Store.
func (ReadOnly) Create(_ context.Context, path string) (Writer, error) { return nil, readOnly(path) }

// PutIfAbsent implements Store.
func (ReadOnly) PutIfAbsent(_ context.Context, path string, _ []byte) error { return readOnly(path) }

// Put implements Store.
func (ReadOnly) Put(_ context.Context, path string, _ []byte) error { return readOnly(path) }

// Delete implements Store.
func (ReadOnly) Delete(_ context.Context, path string) error { return readOnly(path) }

func readOnly(path string) error {
	return fault.New(fault.Unsupported, "objstore: %s lies in a store that takes no writes", path)
}
