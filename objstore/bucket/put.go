package bucket

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
)

// contentType keeps drivers from guessing one out of the first bytes.
const contentType = "application/octet-stream"

// Put implements objstore.Store.
func (s *Store) Put(ctx context.Context, path string, data []byte) error {
	if err := s.beginWrite(ctx, "write", path); err != nil {
		return err
	}
	return s.put(ctx, path, data)
}

func (s *Store) put(ctx context.Context, path string, data []byte) error {
	return s.repeat(ctx, "write", path, func(ctx context.Context) error {
		return s.options.Put(ctx, path, data, false)
	})
}

// PutIfAbsent implements objstore.Store by a conditional put, which S3, Google
// and Azure decide themselves.
//
// A request that may have been carried out without an answer is made again;
// the condition keeps that safe. When the object is there then, its bytes tell
// whose it is.
func (s *Store) PutIfAbsent(ctx context.Context, path string, data []byte) error {
	if err := s.beginWrite(ctx, "write", path); err != nil {
		return err
	}
	maybe := false
	for n := 1; ; n++ {
		v, err := s.attempt(ctx, func(ctx context.Context) error { return s.options.Put(ctx, path, data, true) })
		switch {
		case err == nil:
			return nil
		case v == present && !maybe:
			return s.exists(path)
		case v == unknown:
			maybe = true
		}
		if v == refused || v == present || n == writeAttempts || s.pause(ctx, n) != nil {
			if maybe && ctx.Err() == nil {
				return s.settle(ctx, path, data, err)
			}
			return s.writeFailure(ctx, "write", path, err, maybe)
		}
	}
}

// settle finds out by the object's bytes who won a conditional put that may
// have been ours.
func (s *Store) settle(ctx context.Context, path string, data []byte, cause error) error {
	size, err := s.Size(ctx, path)
	if err != nil {
		// Not there: it may still be on its way.
		return s.writeFailure(ctx, "write", path, cause, true)
	}
	if size != int64(len(data)) {
		return s.exists(path)
	}
	got, err := s.ReadWhole(ctx, path, size)
	if err != nil {
		return s.writeFailure(ctx, "write", path, cause, true)
	}
	if !bytes.Equal(got, data) {
		return s.exists(path)
	}
	return nil
}

func (s *Store) exists(path string) error {
	return fault.New(fault.Exists, "objstore: %s exists already", s.URI(path))
}

// Delete implements objstore.Store.
func (s *Store) Delete(ctx context.Context, path string) error {
	if err := s.beginWrite(ctx, "delete", path); err != nil {
		return err
	}
	return s.repeat(ctx, "delete", path, func(ctx context.Context) error {
		err := s.bucket.Delete(ctx, path)
		if gcerrors.Code(err) == gcerrors.NotFound && s.options.Status(err) != http.StatusForbidden {
			return nil
		}
		return err
	})
}

func (s *Store) beginWrite(ctx context.Context, op, path string) error {
	if path == "" || strings.HasSuffix(path, "/") {
		return fault.New(fault.Invalid, "objstore: %s names a folder, not an object", s.URI(path))
	}
	return s.begin(ctx, op, path)
}

// putAny is the default of Options.Put.
func putAny(b *blob.Bucket) func(ctx context.Context, path string, data []byte, ifAbsent bool) error {
	return func(ctx context.Context, path string, data []byte, ifAbsent bool) error {
		return b.WriteAll(ctx, path, data, &blob.WriterOptions{ContentType: contentType, IfNotExist: ifAbsent})
	}
}

func uncertain(object string, cause error) error {
	if errors.Is(cause, objstore.ErrUncertain) {
		return cause
	}
	return objstore.Uncertain(object, cause)
}
