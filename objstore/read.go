package objstore

import (
	"context"

	"github.com/flightblob/flightblob/internal/fault"
)

// WholeReader is implemented by stores that can read an object whole in one
// go, so that one which is being replaced is read either old or new.
type WholeReader interface {
	// ReadWhole gives all bytes of the object; Exhausted when it has more
	// than limit.
	ReadWhole(ctx context.Context, path string, limit int64) ([]byte, error)
}

// ReadAll gives all bytes of the object, at most limit: Exhausted when it has
// more. Use it for manifests, refs and other small objects.
func ReadAll(ctx context.Context, loc Location, limit int64) ([]byte, error) {
	if w, ok := loc.Store.(WholeReader); ok {
		return w.ReadWhole(ctx, loc.Path, limit)
	}
	return readInTwo(ctx, loc, limit)
}

func readInTwo(ctx context.Context, loc Location, limit int64) ([]byte, error) {
	size, err := loc.Size(ctx)
	if err != nil {
		return nil, err
	}
	if size < 0 {
		return nil, fault.New(fault.Corrupt, "objstore: %s has the length %d", loc, size)
	}
	if size > limit {
		return nil, tooLarge(loc.String(), size, limit)
	}
	data := make([]byte, size)
	if err := loc.ReadAt(ctx, data, 0); err != nil {
		return nil, err
	}
	return data, nil
}
