package objstore

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"github.com/flightblob/flightblob/internal/fault"
)

// Set stores a copy of data at path, for filling a store.
func (m *Mem) Set(path string, data []byte) { m.set(path, bytes.Clone(data)) }

// set stores data, which never changes, at path.
func (m *Mem) set(path string, data []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.objects[path] = memObject{data: data, modified: time.Now()}
}

// Put implements Store.
func (m *Mem) Put(ctx context.Context, path string, data []byte) error {
	if err := m.beginWrite(ctx, path); err != nil {
		return err
	}
	m.Set(path, data)
	return nil
}

// PutIfAbsent implements Store.
func (m *Mem) PutIfAbsent(ctx context.Context, path string, data []byte) error {
	if err := m.beginWrite(ctx, path); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, there := m.objects[path]; there {
		return exists(m.URI(path))
	}
	m.objects[path] = memObject{data: bytes.Clone(data), modified: time.Now()}
	return nil
}

// Delete implements Store.
func (m *Mem) Delete(ctx context.Context, path string) error {
	if err := m.beginWrite(ctx, path); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.objects, path)
	return nil
}

// Create implements Store.
func (m *Mem) Create(ctx context.Context, path string) (Writer, error) {
	if err := m.beginWrite(ctx, path); err != nil {
		return nil, err
	}
	w := &memWriter{ctx: ctx, store: m, path: path}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open[w] = struct{}{}
	return w, nil
}

func (m *Mem) beginWrite(ctx context.Context, path string) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("objstore: write %s: %w", m.URI(path), err)
	}
	if path == "" || strings.HasSuffix(path, "/") {
		return fault.New(fault.Invalid, "objstore: %s names a folder, not an object", m.URI(path))
	}
	return nil
}

// memWriter gathers an object; its fields are guarded by the store's lock.
type memWriter struct {
	ctx   context.Context
	store *Mem
	path  string
	data  []byte
	err   error
	done  bool
}

// Write implements io.Writer.
func (w *memWriter) Write(p []byte) (int, error) {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	if w.done {
		return 0, finished(w.store.URI(w.path))
	}
	if w.err == nil && w.ctx.Err() != nil {
		w.err = fmt.Errorf("objstore: write %s: %w", w.store.URI(w.path), w.ctx.Err())
	}
	if w.err != nil {
		return 0, w.err
	}
	w.data = append(w.data, p...)
	return len(p), nil
}

// Commit implements Writer.
func (w *memWriter) Commit(ctx context.Context) error {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	if w.done {
		return finished(w.store.URI(w.path))
	}
	w.end()
	if w.err != nil {
		return w.err
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("objstore: commit %s: %w", w.store.URI(w.path), err)
	}
	w.store.objects[w.path] = memObject{data: w.data, modified: time.Now()}
	return nil
}

// Abort implements Writer.
func (w *memWriter) Abort() {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	w.end()
}

func (w *memWriter) end() {
	w.done = true
	delete(w.store.open, w)
}

// CrashClone gives a store of the same name that holds what a disk would after
// a crash now: all that was written durably, and for each Writer that is still
// open a file named by TempPrefix beside the object, with a part of its bytes.
// The two stores share nothing that changes.
func (m *Mem) CrashClone() *Mem {
	c := NewMem(m.name)
	m.mu.RLock()
	defer m.mu.RUnlock()
	for path, o := range m.objects {
		c.objects[path] = o
	}
	for w := range m.open {
		dir := w.path[:strings.LastIndexByte(w.path, '/')+1]
		c.objects[dir+TempPrefix+rand.Text()] = memObject{data: bytes.Clone(w.data[:len(w.data)/2]), modified: time.Now()}
	}
	return c
}
