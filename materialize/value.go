package materialize

import (
	"context"

	"github.com/flightblob/flightblob/blob"
	"github.com/flightblob/flightblob/internal/fault"
)

// value is one element of a leaf in an output batch.
type value struct {
	state state
	row   int64       // of the stream, for messages
	ext   blob.Extent // resolved and sized; Length is what goes into data
	uri   string      // stateReference: the absolute URI
}

// state is what an element becomes.
type state uint8

const (
	stateNull      state = iota
	stateHidden          // below a null ancestor: shown to nobody, read by nobody
	stateBytes           // ext.Length bytes, possibly none
	stateReference       // logical face of an External value: uri, range in ext
)

// resolver turns elements of leaf views into values, lazily, so that a
// broken value fails when its row is reached and no earlier (RES-15).
type resolver struct {
	blobs   *blob.Resolver
	logical bool
	lengths lengths
}

// element resolves element i of a leaf. Errors are ValueErrors.
func (r *resolver) element(ctx context.Context, l *leafView, i int, row int64) (value, error) {
	v := value{row: row}
	if l.hidden(i) {
		v.state = stateHidden
		return v, nil
	}
	d, isNull, err := l.column.At(i)
	if err == nil && !isNull {
		err = r.resolve(ctx, &v, d, l, i)
	}
	if err != nil {
		return v, &ValueError{Field: l.path, Row: row, Err: err}
	}
	return v, nil
}

func (r *resolver) resolve(ctx context.Context, v *value, d blob.Descriptor, l *leafView, i int) (err error) {
	if r.logical && d.Kind == blob.External {
		return r.reference(v, d, l, i)
	}
	v.state = stateBytes
	if v.ext, err = l.resolve(ctx, i, d); err != nil || !v.ext.Whole {
		return err
	}
	n, err := r.lengths.of(ctx, l, i, v.ext)
	if err != nil {
		return readError(ctx, v.ext.Object, false, 0, 0, err)
	}
	whole := v.ext.Sized(n)
	if n > 0 && whole.Offset > 0 { // the interval [p, p+N) ends beyond N, NUL-9
		return truncated(whole.Object, whole.Offset, n, int64(n))
	}
	v.ext = whole
	return nil
}

// reference fills in the logical face of an External value. It is not read, so
// an absent object does not matter; but logical input has no way to say "from
// here, as many bytes as the object has" (IN-7, NUL-9).
func (r *resolver) reference(v *value, d blob.Descriptor, l *leafView, i int) error {
	blobs, err := l.resolver(i, r.blobs)
	if err != nil {
		return err
	}
	if err := blobs.Check(d); err != nil {
		return err
	}
	if d.Size == 0 && d.Position > 0 {
		return fault.New(fault.Precondition, "external value starts at %d and has no length; the logical face cannot express that", d.Position)
	}
	v.state = stateReference
	v.ext.Offset, v.ext.Length, v.ext.Whole = d.Position, d.Size, d.Size == 0
	v.uri, err = blobs.ExternalURI(d)
	return err
}

// payload is how many bytes of the object's go into the batch.
func (v *value) payload() uint64 {
	if v.state != stateBytes {
		return 0
	}
	return v.ext.Length
}
