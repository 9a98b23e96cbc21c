package bucket

import (
	"context"
	"strings"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
)

// Create implements objstore.Store. The driver sends the object in parts.
func (s *Store) Create(ctx context.Context, path string) (objstore.Writer, error) {
	if err := s.beginWrite(ctx, "write", path); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	w, err := s.bucket.NewWriter(ctx, path, &blob.WriterOptions{ContentType: contentType})
	if err != nil {
		cancel()
		return nil, s.failure(ctx, "write", path, err)
	}
	return &writer{ctx: ctx, cancel: cancel, store: s, path: path, w: w}, nil
}

func (s *Store) beginWrite(ctx context.Context, op, path string) error {
	if path == "" || strings.HasSuffix(path, "/") {
		return fault.New(fault.Invalid, "objstore: %s names a folder, not an object", s.URI(path))
	}
	return s.begin(ctx, op, path)
}

// contentType keeps drivers from guessing one out of the first bytes.
const contentType = "application/octet-stream"

// writer is an upload that has not ended.
type writer struct {
	ctx    context.Context
	cancel context.CancelFunc
	store  *Store
	path   string
	w      *blob.Writer
	err    error
	done   bool
}

// Write implements io.Writer.
func (w *writer) Write(p []byte) (int, error) {
	if w.done {
		return 0, fault.New(fault.Internal, "objstore: the writer of %s was committed or aborted already", w.store.URI(w.path))
	}
	if w.err != nil {
		return 0, w.err
	}
	if w.ctx.Err() != nil {
		w.err = w.store.failure(w.ctx, "write", w.path, w.ctx.Err())
		return 0, w.err
	}
	n, err := w.w.Write(p)
	if err != nil {
		w.err = w.store.failure(w.ctx, "write", w.path, err)
	}
	return n, w.err
}

// Commit implements objstore.Writer.
func (w *writer) Commit(ctx context.Context) error {
	switch {
	case w.done:
		return fault.New(fault.Internal, "objstore: the writer of %s was committed or aborted already", w.store.URI(w.path))
	case w.err == nil && w.ctx.Err() != nil:
		w.err = w.store.failure(w.ctx, "commit", w.path, w.ctx.Err())
	case w.err == nil && ctx.Err() != nil:
		w.err = w.store.failure(ctx, "commit", w.path, ctx.Err())
	}
	if w.err != nil {
		w.Abort()
		return w.err
	}
	w.done = true
	defer context.AfterFunc(ctx, w.cancel)()
	defer w.cancel()
	if err := w.w.Close(); err != nil {
		return objstore.Uncertain(w.store.URI(w.path), w.store.failure(ctx, "commit", w.path, err))
	}
	return nil
}

// Abort implements objstore.Writer.
func (w *writer) Abort() {
	if w.done {
		return
	}
	w.done = true
	w.cancel()
	_ = w.w.Close() // fails: the context of the upload has ended
}

// PutIfAbsent implements objstore.Store by a conditional put.
func (s *Store) PutIfAbsent(ctx context.Context, path string, data []byte) error {
	return s.write(ctx, path, data, true)
}

// Put implements objstore.Store.
func (s *Store) Put(ctx context.Context, path string, data []byte) error {
	return s.write(ctx, path, data, false)
}

func (s *Store) write(ctx context.Context, path string, data []byte, ifAbsent bool) error {
	if err := s.beginWrite(ctx, "write", path); err != nil {
		return err
	}
	err := s.bucket.WriteAll(ctx, path, data, &blob.WriterOptions{ContentType: contentType, IfNotExist: ifAbsent})
	if err == nil {
		return nil
	}
	if code := gcerrors.Code(err); ifAbsent && (code == gcerrors.FailedPrecondition || code == gcerrors.AlreadyExists) {
		return fault.New(fault.Exists, "objstore: %s exists already", s.URI(path))
	}
	return objstore.Uncertain(s.URI(path), s.failure(ctx, "write", path, err))
}

// Delete implements objstore.Store.
func (s *Store) Delete(ctx context.Context, path string) error {
	if err := s.beginWrite(ctx, "delete", path); err != nil {
		return err
	}
	if err := s.bucket.Delete(ctx, path); err != nil && gcerrors.Code(err) != gcerrors.NotFound {
		return s.failure(ctx, "delete", path, err)
	}
	return nil
}
