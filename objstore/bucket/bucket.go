// Package bucket makes an objstore.Store of a gocloud bucket.
//
// What gocloud's neutral interface cannot do, or not safely, the driver's
// client does through Options: puts that are asked for exactly once, uploads in
// parts that can be given up, copies inside the service.
//
// Messages name objects by URI and never hold a credential or a signed URL,
// whatever the driver below puts into its own.
package bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"strings"
	"time"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
)

// attempts is how often a broken body is taken up again. Drivers repeat
// failed requests themselves, but not the reading of an answer.
const attempts = 4

// firstPause is the wait before the second attempt; it doubles each time.
const firstPause = 50 * time.Millisecond

// Options says how a bucket appears.
type Options struct {
	// Prefix starts all URIs: "s3://name/".
	Prefix string
	// Secrets are removed from the driver's messages.
	Secrets []objstore.Secret
	// Renames lists the characters that the driver would silently store under
	// another name; keys with one of them are refused.
	Renames string

	// Status gives the HTTP status of the answer that a driver's error reports,
	// 0 when there was none. Default: what the error's HTTPStatusCode says.
	Status func(err error) int
	// Put puts a whole object by one request, which the driver must not repeat
	// by itself: whether a conditional put won can only be told by who sees
	// every answer. Default: blob.Bucket.WriteAll.
	Put func(ctx context.Context, path string, data []byte, ifAbsent bool) error
	// Parts sends large objects; default: the driver's own way, a blob.Writer.
	Parts Parts
	// BeforeWrite is blob.WriterOptions.BeforeWrite of those blob.Writers.
	BeforeWrite func(as func(any) bool) error
	// Copy copies an object inside the bucket; nil when the service cannot.
	Copy func(ctx context.Context, from, to string) error
}

// Store is a bucket. Paths are literal keys.
type Store struct {
	bucket  *blob.Bucket
	options Options
	scrub   scrubber

	readPause  time.Duration // before a broken read is taken up
	writePause time.Duration // before a change is asked for again
	partSize   int           // of the first parts of an upload, in bytes
}

var (
	_ objstore.Store       = (*Store)(nil)
	_ objstore.WholeReader = (*Store)(nil)
)

// New makes a store over b, which it owns.
func New(b *blob.Bucket, o Options) *Store {
	if o.Status == nil {
		o.Status = httpStatus
	}
	if o.Put == nil {
		o.Put = putAny(b)
	}
	return &Store{bucket: b, options: o, scrub: newScrubber(o.Secrets), readPause: firstPause, writePause: firstWritePause, partSize: firstPartSize}
}

// Close closes the bucket.
func (s *Store) Close() error {
	if err := s.bucket.Close(); err != nil {
		return fault.New(fault.Internal, "objstore: close %s: %s", s.options.Prefix, s.scrub.text(err))
	}
	return nil
}

// URI implements objstore.Store.
func (s *Store) URI(path string) string { return s.options.Prefix + objstore.EscapePath(path) }

// ReadAt implements objstore.Store with one ranged request. An answer that
// breaks off is taken up where it ended, as long as the object is the same.
func (s *Store) ReadAt(ctx context.Context, path string, p []byte, off int64) error {
	if off < 0 {
		return fault.New(fault.Invalid, "objstore: negative offset %d for %s", off, s.URI(path))
	}
	if len(p) == 0 {
		return nil
	}
	if err := s.begin(ctx, "read", path); err != nil {
		return err
	}
	r, err := s.open(ctx, path, off, int64(len(p)))
	if err != nil {
		return err
	}
	return s.fill(ctx, path, r, p, off)
}

// ReadWhole implements objstore.WholeReader with one request.
func (s *Store) ReadWhole(ctx context.Context, path string, limit int64) ([]byte, error) {
	if err := s.begin(ctx, "read", path); err != nil {
		return nil, err
	}
	r, err := s.bucket.NewReader(ctx, path, nil)
	if err != nil {
		return nil, s.failure(ctx, "read", path, err)
	}
	if r.Size() < 0 || r.Size() > limit {
		r.Close()
		return nil, fault.New(fault.Exhausted, "objstore: %s has %d bytes, more than the %d this reader accepts", s.URI(path), r.Size(), limit)
	}
	data := make([]byte, r.Size())
	if err := s.fill(ctx, path, r, data, 0); err != nil {
		return nil, err
	}
	return data, nil
}

// Size implements objstore.Store.
func (s *Store) Size(ctx context.Context, path string) (int64, error) {
	if err := s.begin(ctx, "size of", path); err != nil {
		return 0, err
	}
	a, err := s.attributes(ctx, path)
	if err != nil {
		return 0, s.failure(ctx, "size of", path, err)
	}
	return a.Size, nil
}

// attributes asks the driver, which takes for granted what some services leave
// out of their answers.
func (s *Store) attributes(ctx context.Context, path string) (a *blob.Attributes, err error) {
	defer fault.Recover("objstore: driver", &err)
	return s.bucket.Attributes(ctx, path)
}

// List implements objstore.Store. It asks page by page, so stopping early
// saves requests.
func (s *Store) List(ctx context.Context, dir string) iter.Seq2[objstore.Entry, error] {
	return s.list(ctx, dir, "/")
}

// Walk implements objstore.Walker.
func (s *Store) Walk(ctx context.Context, dir string) iter.Seq2[objstore.Entry, error] {
	return s.list(ctx, dir, "")
}

func (s *Store) list(ctx context.Context, dir, delimiter string) iter.Seq2[objstore.Entry, error] {
	return func(yield func(objstore.Entry, error) bool) {
		prefix := strings.TrimSuffix(dir, "/")
		if prefix != "" {
			if err := s.checkKey(prefix); err != nil {
				yield(objstore.Entry{}, err)
				return
			}
			prefix += "/"
		}
		children := s.bucket.List(&blob.ListOptions{Prefix: prefix, Delimiter: delimiter})
		for {
			if ctx.Err() != nil {
				yield(objstore.Entry{}, s.failure(ctx, "list", dir, ctx.Err()))
				return
			}
			o, err := children.Next(ctx)
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(objstore.Entry{}, s.failure(ctx, "list", dir, err))
				return
			}
			name := strings.TrimPrefix(o.Key, prefix)
			if !o.IsDir && (name == "" || strings.HasSuffix(name, "/")) {
				continue // a marker object that stands for a folder
			}
			name = strings.TrimSuffix(name, "/")
			e := objstore.Entry{Name: name, Dir: o.IsDir}
			if !o.IsDir {
				e.Size, e.Modified = o.Size, o.ModTime
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

// begin refuses what needs no request to fail.
func (s *Store) begin(ctx context.Context, op, path string) error {
	if ctx.Err() != nil {
		return s.failure(ctx, op, path, ctx.Err())
	}
	return s.checkKey(path)
}

// checkKey refuses keys that the driver would rename, or that no service
// takes: reading another object than the one named must not happen.
func (s *Store) checkKey(path string) error {
	if path == "" {
		return fault.New(fault.NotFound, "objstore: %s names no object", s.URI(path))
	}
	for i := range len(path) {
		if path[i] < 0x20 || strings.IndexByte(s.options.Renames, path[i]) >= 0 {
			return fault.New(fault.Unsupported, "objstore: %s holds the character %q, which this kind of store cannot address", s.URI(path), path[i])
		}
	}
	if strings.Contains(path, "../") {
		return fault.New(fault.Unsupported, "objstore: %s holds \"../\", which this kind of store cannot address", s.URI(path))
	}
	return nil
}

// open asks for a range and makes sure that the object holds all of it:
// services cut a range that runs past the end, and refuse one that starts there.
func (s *Store) open(ctx context.Context, path string, off, n int64) (*blob.Reader, error) {
	r, err := s.bucket.NewRangeReader(ctx, path, off, n, nil)
	if err != nil {
		cause := s.failure(ctx, "read", path, err)
		if fault.KindOf(cause) != fault.Internal || ctx.Err() != nil {
			return nil, cause
		}
		size, sizeErr := s.Size(ctx, path)
		if sizeErr == nil && (off > size || n > size-off) {
			return nil, s.short(path, off, n, size)
		}
		return nil, cause
	}
	if size := r.Size(); off > size || n > size-off {
		r.Close()
		return nil, s.short(path, off, n, size)
	}
	return r, nil
}

// fill reads all of p from r, which starts at off, and closes it.
func (s *Store) fill(ctx context.Context, path string, r *blob.Reader, p []byte, off int64) error {
	size, modified := r.Size(), r.ModTime()
	pause := s.readPause
	done := 0
	for attempt := 1; ; attempt++ {
		n, err := io.ReadFull(r, p[done:])
		done += n
		if err == nil {
			err = s.atEnd(path, r)
			r.Close()
			return err
		}
		r.Close()
		if ctx.Err() != nil || attempt == attempts {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				return s.short(path, off, int64(len(p)), off+int64(done))
			}
			return s.failure(ctx, "read", path, err)
		}
		if err := wait(ctx, pause); err != nil {
			return s.failure(ctx, "read", path, err)
		}
		pause *= 2
		if r, err = s.open(ctx, path, off+int64(done), int64(len(p)-done)); err != nil {
			return err
		}
		if r.Size() != size || !r.ModTime().Equal(modified) {
			r.Close()
			return fault.New(fault.Conflict, "objstore: %s was replaced while it was being read", s.URI(path))
		}
	}
}

// atEnd makes sure that the answer ends with the range. One that goes on comes
// from a service that ignored the range and sent the object from its start.
func (s *Store) atEnd(path string, r *blob.Reader) error {
	var more [1]byte
	if _, err := io.ReadFull(r, more[:]); err != nil {
		return nil // the end, or a failure behind all bytes wanted
	}
	return &fault.Error{Kind: fault.Corrupt, Object: s.URI(path), Offset: -1, Text: "objstore: the service answered with other bytes than the range asked for"}
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Store) short(path string, off, n, size int64) error {
	return &fault.Error{
		Kind: fault.Corrupt, Object: s.URI(path), Offset: off,
		Text: fmt.Sprintf("objstore: %d bytes wanted, but the object ends at byte %d", n, size),
	}
}

// failure maps a driver's error. Its text is kept scrubbed, its value is not:
// drivers' errors hold requests with their signatures.
func (s *Store) failure(ctx context.Context, op, path string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("objstore: %s %s: %w", op, s.URI(path), ctx.Err())
	}
	kind := fault.Internal
	switch gcerrors.Code(err) {
	case gcerrors.NotFound:
		return fault.New(fault.NotFound, "objstore: %s does not exist", s.URI(path))
	case gcerrors.PermissionDenied:
		kind = fault.Denied
	case gcerrors.ResourceExhausted:
		kind = fault.Exhausted
	case gcerrors.InvalidArgument:
		kind = fault.Invalid
	case gcerrors.FailedPrecondition:
		kind = fault.Precondition
	case gcerrors.Unknown:
		if s.options.Status(err) == http.StatusNotFound {
			return fault.New(fault.NotFound, "objstore: %s does not exist", s.URI(path))
		}
		kind = s.kindOfStatus(err)
	}
	return fault.New(kind, "objstore: %s %s: %s", op, s.URI(path), s.scrub.text(err))
}

// kindOfStatus classifies what the driver leaves open by the HTTP status, if
// the error knows one.
func (s *Store) kindOfStatus(err error) fault.Kind {
	switch s.options.Status(err) {
	case 0:
		// Nothing answered: the wire or the host behind it is down.
		if wire := net.Error(nil); errors.As(err, &wire) {
			return fault.Unavailable
		}
		return fault.Internal
	case http.StatusUnauthorized, http.StatusForbidden:
		return fault.Denied
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return fault.Exhausted
	default:
		return fault.Internal
	}
}
