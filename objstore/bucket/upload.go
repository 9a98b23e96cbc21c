package bucket

import (
	"context"
	"net/http"
	"sync"
	"time"

	"gocloud.dev/blob"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
)

const (
	// firstPartSize is the length of the first parts of an upload, in bytes.
	// An object that is not longer is put by one request.
	firstPartSize = 8 << 20
	// partsBefore is after how many parts the next ones are twice as long, so
	// that the 10 000 parts of S3 hold 7 TiB, while an object of 7 GiB needs no
	// more memory than a small one.
	partsBefore = 1000
	// partsAtOnce is how many parts of an object are sent at a time.
	partsAtOnce = 2
	// abortWithin bounds the clean-up after a write that was given up.
	abortWithin = 15 * time.Second
)

// Parts uploads an object in numbered parts. Everything is idempotent.
type Parts interface {
	// Begin gives the name of a new upload.
	Begin(ctx context.Context, path string) (upload string, err error)
	// Send sends part number, from 1, and gives its tag.
	Send(ctx context.Context, path, upload string, number int, data []byte) (tag string, err error)
	// Complete makes the object out of all parts, by number from 1.
	Complete(ctx context.Context, path, upload string, tags []string) error
	// Abort forgets the upload and frees what was sent.
	Abort(ctx context.Context, path, upload string) error
}

// Create implements objstore.Store. An upload keeps as many parts in memory as
// are being sent, and the one being filled.
func (s *Store) Create(ctx context.Context, path string) (objstore.Writer, error) {
	if err := s.beginWrite(ctx, "write", path); err != nil {
		return nil, err
	}
	w := &writer{store: s, path: path}
	w.ctx, w.cancel = context.WithCancel(ctx)
	return w, nil
}

// large is an object of more than one part that is being sent.
type large interface {
	write(p []byte) error
	commit(ctx context.Context) error
	abort()
}

// writer gathers an object, and begins to send it once it is large.
type writer struct {
	ctx    context.Context
	cancel context.CancelFunc
	store  *Store
	path   string
	first  []byte
	large  large
	err    error // of the first Write that failed
	done   bool
}

// Write implements io.Writer.
func (w *writer) Write(p []byte) (int, error) {
	switch {
	case w.done:
		return 0, w.finished()
	case w.err == nil && w.ctx.Err() != nil:
		w.err = w.store.failure(w.ctx, "write", w.path, w.ctx.Err())
	}
	if w.err != nil {
		return 0, w.err
	}
	if w.large == nil && len(p) <= w.store.partSize-len(w.first) {
		w.first = append(w.first, p...)
		return len(p), nil
	}
	if w.large == nil {
		w.large, w.err = w.begin(w.first)
		w.first = nil
	}
	if w.err == nil {
		w.err = w.large.write(p)
	}
	if w.err != nil {
		return 0, w.err
	}
	return len(p), nil
}

func (w *writer) finished() error {
	return fault.New(fault.Internal, "objstore: the writer of %s was committed or aborted already", w.store.URI(w.path))
}

// begin begins to send an object that starts with the bytes of first, which it
// keeps.
func (w *writer) begin(first []byte) (large, error) {
	s := w.store
	if s.options.Parts != nil {
		u, err := s.beginParts(w.ctx, w.path, first)
		if err != nil {
			return nil, err
		}
		return u, nil
	}
	b, err := s.bucket.NewWriter(w.ctx, w.path, &blob.WriterOptions{
		ContentType: contentType, BufferSize: s.partSize, MaxConcurrency: partsAtOnce, BeforeWrite: s.options.BeforeWrite,
	})
	if err != nil {
		return nil, s.failure(w.ctx, "write", w.path, err)
	}
	u := &driverUpload{writer: w, b: b}
	return u, u.write(first)
}

// Commit implements objstore.Writer.
func (w *writer) Commit(ctx context.Context) error {
	switch {
	case w.done:
		return w.finished()
	case w.err != nil:
	case w.ctx.Err() != nil:
		w.err = w.store.failure(w.ctx, "commit", w.path, w.ctx.Err())
	case ctx.Err() != nil:
		w.err = w.store.failure(ctx, "commit", w.path, ctx.Err())
	}
	if w.err != nil {
		w.Abort()
		return w.err
	}
	w.done = true
	defer w.cancel()
	if w.large == nil {
		data := w.first
		w.first = nil
		return w.store.put(ctx, w.path, data)
	}
	// The parts are sent under the context of Create.
	defer context.AfterFunc(ctx, w.cancel)()
	return w.large.commit(ctx)
}

// Abort implements objstore.Writer.
func (w *writer) Abort() {
	if w.done {
		return
	}
	w.done = true
	w.first = nil
	w.cancel()
	if w.large != nil {
		w.large.abort()
	}
}

// driverUpload leaves the parts to the driver.
type driverUpload struct {
	*writer
	b *blob.Writer
}

func (u *driverUpload) write(p []byte) error {
	if _, err := u.b.Write(p); err != nil {
		return u.store.writeFailure(u.ctx, "write", u.path, err, false)
	}
	return nil
}

func (u *driverUpload) commit(ctx context.Context) error {
	if err := u.b.Close(); err != nil {
		v := u.store.judge(err, true)
		return u.store.writeFailure(ctx, "commit", u.path, err, v == unknown)
	}
	return nil
}

// abort closes the driver's writer, whose context has ended.
func (u *driverUpload) abort() { _ = u.b.Close() }

// partsUpload sends parts through Options.Parts, a few at a time.
type partsUpload struct {
	ctx    context.Context
	store  *Store
	path   string
	upload string
	part   []byte // being filled
	number int    // of that part
	free   chan []byte
	wg     sync.WaitGroup

	mu   sync.Mutex
	tags []string
	err  error // of the first part that failed
}

func (s *Store) beginParts(ctx context.Context, path string, first []byte) (*partsUpload, error) {
	id, err := s.options.Parts.Begin(ctx, path)
	if err != nil {
		return nil, s.writeFailure(ctx, "write", path, err, false)
	}
	u := &partsUpload{ctx: ctx, store: s, path: path, upload: id, part: first, number: 1, free: make(chan []byte, partsAtOnce)}
	for range partsAtOnce {
		u.free <- nil
	}
	return u, nil
}

// size is the length of the part being filled.
func (u *partsUpload) size() int { return u.store.partSize << min((u.number-1)/partsBefore, 9) }

func (u *partsUpload) write(p []byte) error {
	for len(p) > 0 {
		if len(u.part) == u.size() {
			if err := u.send(); err != nil {
				return err
			}
		}
		n := min(len(p), u.size()-len(u.part))
		u.part = append(u.part, p[:n]...)
		p = p[n:]
	}
	return nil
}

// send hands the part to a goroutine and takes a buffer that is free.
func (u *partsUpload) send() error {
	var next []byte
	select {
	case next = <-u.free:
	case <-u.ctx.Done():
		return u.store.failure(u.ctx, "write", u.path, u.ctx.Err())
	}
	if err := u.failed(); err != nil {
		u.free <- next
		return err
	}
	part, number := u.part, u.number
	u.part = next[:0]
	u.number++
	if cap(u.part) < u.size() {
		u.part = make([]byte, 0, u.size())
	}
	u.wg.Go(func() {
		tag, err := u.store.options.Parts.Send(u.ctx, u.path, u.upload, number, part)
		u.mu.Lock()
		if err == nil {
			u.tags = append(u.tags, make([]string, max(0, number-len(u.tags)))...)
			u.tags[number-1] = tag
		} else if u.err == nil {
			u.err = u.store.writeFailure(u.ctx, "write", u.path, err, false)
		}
		u.mu.Unlock()
		u.free <- part
	})
	return nil
}

func (u *partsUpload) failed() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.err
}

func (u *partsUpload) commit(ctx context.Context) error {
	err := u.send()
	u.wg.Wait()
	if err == nil {
		err = u.failed()
	}
	if err != nil {
		u.forget()
		return err
	}
	v, err := u.store.attempt(ctx, func(ctx context.Context) error {
		return u.store.options.Parts.Complete(ctx, u.path, u.upload, u.tags)
	})
	if err == nil {
		return nil
	}
	// After a lost answer a repeated request no longer finds the upload.
	maybe := v == unknown || u.store.options.Status(err) == http.StatusNotFound
	u.forget()
	return u.store.writeFailure(ctx, "commit", u.path, err, maybe)
}

func (u *partsUpload) abort() {
	u.wg.Wait()
	u.forget()
}

// forget frees the parts even though the context has ended. If it fails, the
// service's rule about unfinished uploads has to do it.
func (u *partsUpload) forget() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(u.ctx), abortWithin)
	defer cancel()
	_ = u.store.options.Parts.Abort(ctx, u.path, u.upload)
}
