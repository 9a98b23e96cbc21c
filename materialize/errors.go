package materialize

import (
	"context"
	"errors"
	"fmt"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
)

// ValueError is a failure of one value: the blob field's dotted path with the
// list items in it, and the row counted from the start of the stream (plus
// Options.FirstRow). The kind of failure is that of Err.
type ValueError struct {
	Field string
	Row   int64
	Err   error
}

// Error names field and row, then the cause.
func (e *ValueError) Error() string {
	return fmt.Sprintf("materialize: %s, row %d: %v", e.Field, e.Row, e.Err)
}

// Unwrap gives the cause.
func (e *ValueError) Unwrap() error { return e.Err }

// TooLargeError says that a row does not fit into a message by itself. Nothing
// of the row was fetched.
type TooLargeError struct {
	Field string // the blob field with the row's largest value
	Row   int64  // as in ValueError
	Size  int64  // bytes of that row's message
	Limit int64  // Options.MaxValue
}

// Error says what to do in terms of this program; the front door knows the
// client's own option and adds it.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("materialize: %s, row %d: a message of %d bytes exceeds the limit of %d; raise max_message_bytes, or read the value in pieces with blob_range",
		e.Field, e.Row, e.Size, e.Limit)
}

// Unwrap classes the error as an exhausted limit.
func (e *TooLargeError) Unwrap() error {
	return &fault.Error{Kind: fault.Exhausted, Offset: -1}
}

// readError turns a store's failure to read [off, off+n) of an object into
// what it means for the value: Lance-owned objects are there or data is lost,
// External ones may be absent (RES-14, ERR-15, ERR-16). It asks the store for
// the object's length where that explains the failure.
func readError(ctx context.Context, object objstore.Location, owned bool, off, n uint64, err error) error {
	switch fault.KindOf(err) {
	case fault.NotFound:
		if !owned {
			return fault.New(fault.NotFound, "external object %s does not exist", object)
		}
		return &fault.Error{Kind: fault.Corrupt, Object: object.String(), Offset: -1, Text: "the object is missing"}
	case fault.Corrupt:
		size, serr := object.Size(ctx)
		if serr != nil || size < 0 || beyond(off, n) == nil && off+n <= uint64(size) {
			return err // not a matter of length
		}
		return truncated(object, off, n, size)
	}
	return err
}

// truncated reports an object that ends before the last byte of a value.
func truncated(object objstore.Location, off, n uint64, size int64) error {
	return &fault.Error{
		Kind: fault.Corrupt, Object: object.String(), Offset: -1,
		Text: fmt.Sprintf("%d bytes at %d end beyond the object, which holds %d bytes", n, off, size),
	}
}

// errBeyond is a range that no object can hold.
var errBeyond = errors.New("range beyond any object")

// beyond refuses ranges that int64 offsets cannot express.
func beyond(off, n uint64) error {
	const most = 1<<63 - 1
	if off > most || n > most-off {
		return errBeyond
	}
	return nil
}
