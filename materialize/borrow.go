package materialize

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
)

// borrow lends the mapped bytes of an object as the data buffer of a leaf, when
// its values lie in one object one directly after the other, as a scan of
// packed values has them, or a single dedicated one. It gives nil when they do
// not, or the object may change, or its store cannot map.
//
// The bytes are never looked at here. They end with the object's length of this
// moment, so an object that is too short by now is an error, not a fault.
func borrow(ctx context.Context, path string, values []value, total int64) (*memory.Buffer, error) {
	first, ok := adjacent(values)
	if !ok || !first.ext.Owned || !first.ext.Immutable {
		return nil, nil
	}
	object := first.ext.Object
	if _, ok := objstore.AsMapper(object); !ok {
		return nil, nil
	}
	m, err := object.Map(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if fault.KindOf(err) == fault.NotFound {
			return nil, &ValueError{Field: path, Row: first.row, Err: readError(ctx, object, true, 0, 0, err)}
		}
		return nil, nil // reading may still work, and reports better if not
	}
	start, size := first.ext.Offset, int64(len(m.Bytes()))
	if int64(start)+total > size {
		m.Release()
		for i := range values {
			if e := &values[i].ext; values[i].payload() > 0 && int64(e.Offset+e.Length) > size {
				return nil, &ValueError{Field: path, Row: values[i].row, Err: truncated(object, e.Offset, e.Length, size)}
			}
		}
		return nil, nil // offsets too large to add up; reading says so
	}
	objstore.WillNeed(m, int64(start), total)
	object.NoteRead(int64(start), total)
	end := start + uint64(total)
	return memory.NewBufferWithAllocator(m.Bytes()[start:end:end], hook(func([]byte) {
		objstore.Forget(m, int64(start), total)
		m.Release()
	})), nil
}

// adjacent gives the first non-empty value when all lie behind it in order.
func adjacent(values []value) (first *value, ok bool) {
	var next uint64
	for i := range values {
		v := &values[i]
		n := v.payload()
		if n == 0 {
			continue
		}
		switch {
		case first == nil:
			first = v
		case v.ext.Offset != next || v.ext.Object.Path != first.ext.Object.Path || !same(v.ext.Object.Store, first.ext.Object.Store):
			return nil, false
		}
		next = v.ext.Offset + n
	}
	return first, first != nil
}
