package bucket

import (
	"context"

	"github.com/flightblob/flightblob/internal/fault"
)

// CopyObject implements objstore.Copier inside the service.
func (s *Store) CopyObject(ctx context.Context, from, to string) error {
	if s.options.Copy == nil {
		return fault.New(fault.Unsupported, "objstore: %s lies in a store that does not copy", s.URI(from))
	}
	if err := s.begin(ctx, "copy", from); err != nil {
		return err
	}
	if err := s.beginWrite(ctx, "copy to", to); err != nil {
		return err
	}
	v, err := s.attempt(ctx, func(ctx context.Context) error { return s.options.Copy(ctx, from, to) })
	if err == nil {
		return nil
	}
	if failed := s.failure(ctx, "copy", from, err); fault.KindOf(failed) == fault.NotFound {
		return failed
	}
	return s.writeFailure(ctx, "copy to", to, err, v == unknown)
}
