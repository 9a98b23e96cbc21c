package blob

import (
	"context"

	"github.com/flightblob/flightblob/internal/fault"
)

// Length is the size of the value that e holds. For the External sentinel it
// asks the store for the object's length (NUL-9); otherwise it is known.
func Length(ctx context.Context, e Extent) (uint64, error) {
	if !e.Whole {
		return e.Length, nil
	}
	n, err := e.Object.Size(ctx)
	if err != nil {
		return 0, err
	}
	if n < 0 {
		return 0, fault.New(fault.Internal, "blob: %s reports %d bytes", e.Object, n)
	}
	return uint64(n), nil
}

// Sized turns a sentinel extent into one of a known length n, as Length gave
// it. The recorded position stays: n bytes are read from there, which only an
// empty object or position 0 allows (NUL-9, NUL-10).
func (e Extent) Sized(n uint64) Extent {
	e.Whole, e.Length = false, n
	if n == 0 {
		e.Offset = 0
	}
	return e
}

// Slice selects length bytes from offset of the value that e holds, whose
// length is known. A range that overflows or ends beyond the value is an error
// (RES-14, REJ-11).
func (e Extent) Slice(offset, length uint64) (Extent, error) {
	if err := CheckRange(offset, length); err != nil {
		return Extent{}, err
	}
	if offset+length > e.Length {
		return Extent{}, fault.New(fault.Invalid, "blob: range of %d bytes at %d ends beyond the value's size of %d bytes", length, offset, e.Length)
	}
	if e.Offset+offset < e.Offset {
		return Extent{}, fault.New(fault.Corrupt, "blob: position %d and range offset %d exceed 2^64-1", e.Offset, offset)
	}
	e.Offset += offset
	e.Length = length
	return e, nil
}

// CheckRange refuses a blob-local range that overflows, whatever the value,
// null included (REJ-11).
func CheckRange(offset, length uint64) error {
	if offset+length < offset {
		return fault.New(fault.Invalid, "blob: range of %d bytes at %d exceeds 2^64-1", length, offset)
	}
	return nil
}
