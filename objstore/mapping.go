package objstore

import (
	"container/list"
	"context"
	"fmt"
	"math"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/flightblob/flightblob/internal/fault"
)

// fileMapping is a mapped file shared by its users and the cache; the last
// release unmaps it.
type fileMapping struct {
	path  string
	inode inode
	data  []byte
	refs  atomic.Int64
	used  time.Time // guarded by the cache's lock
}

// Bytes gives the whole object. Valid while the caller holds a reference.
func (m *fileMapping) Bytes() []byte { return m.data }

// Retain adds a reference. The caller must hold one.
func (m *fileMapping) Retain() {
	if m.count(1) < 0 {
		panic("objstore: Retain of a released mapping")
	}
}

// Release gives one reference back.
func (m *fileMapping) Release() {
	switch n := m.count(-1); {
	case n < 0:
		panic("objstore: Release of a released mapping")
	case n == 0 && len(m.data) > 0:
		// Fails only for an address that is not mapped, which would be a bug
		// with no remedy here.
		_ = unix.Munmap(m.data)
	}
}

// count changes the number of references and answers it. Of a released mapping
// it stays 0, so that no later misuse passes for right; the answer is negative.
func (m *fileMapping) count(by int64) int64 {
	for {
		n := m.refs.Load()
		if n <= 0 {
			return -1
		}
		if m.refs.CompareAndSwap(n, n+by) {
			return n + by
		}
	}
}

// WillNeed brings the range into memory where the system can do that in one
// call, so that a cold disk keeps this goroutine waiting and not a connection;
// elsewhere it asks for reading ahead.
func (m *fileMapping) WillNeed(off, n int64) {
	if off < 0 || n <= 0 || off >= int64(len(m.data)) {
		return
	}
	end := min(int64(len(m.data)), off+min(n, math.MaxInt64-off))
	start := off &^ int64(os.Getpagesize()-1)
	populate(m.data[start:end])
}

// WillNeed tells the system that bytes [off, off+n) of a mapping are about to
// be used, so that cold pages are read ahead in one go. It does nothing where
// that has no meaning.
func WillNeed(m Mapping, off, n int64) {
	if w, ok := m.(interface{ WillNeed(off, n int64) }); ok {
		w.WillNeed(off, n)
	}
}

// Forget takes the range out of this process's resident memory; the system
// keeps it cached and brings it back when it is touched again.
func (m *fileMapping) Forget(off, n int64) {
	if off < 0 || n <= 0 || off >= int64(len(m.data)) {
		return
	}
	end := min(int64(len(m.data)), off+min(n, math.MaxInt64-off))
	start := off &^ int64(os.Getpagesize()-1)
	_ = unix.Madvise(m.data[start:end], unix.MADV_DONTNEED) // advice: failing costs memory only
}

// Forget tells the system that bytes [off, off+n) of a mapping, which the
// caller still holds, have been used. Without it a process that lends whole
// objects seems to be as large as they are.
func Forget(m Mapping, off, n int64) {
	if f, ok := m.(interface{ Forget(off, n int64) }); ok {
		f.Forget(off, n)
	}
}

func (l *Local) mapFile(ctx context.Context, path string, a *Access) (Mapping, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("objstore: map %s: %w", path, err)
	}
	f, err := l.acquire(path, a)
	if err != nil {
		return nil, err
	}
	defer f.release()
	var st unix.Stat_t
	if err := unix.Fstat(f.fd, &st); err != nil {
		return nil, fileError("stat", path, err)
	}
	if m := l.maps.get(path, &st); m != nil {
		return m, nil
	}
	m := &fileMapping{path: path, inode: inodeOf(&st)}
	m.refs.Store(1)
	if st.Size == 0 { // the kernel maps no empty range
		return m, nil
	}
	if st.Size > math.MaxInt {
		return nil, fault.New(fault.Exhausted, "objstore: %s has %d bytes, more than this machine can map", path, st.Size)
	}
	m.data, err = unix.Mmap(f.fd, 0, int(st.Size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, fileError("map", path, err)
	}
	return l.maps.put(m), nil
}

// mapCache keeps the most recently used mappings, bounded by number and bytes.
// It owns one reference of each; users of an evicted mapping keep it alive.
type mapCache struct {
	mu       sync.Mutex
	limit    int
	maxBytes int64
	bytes    int64
	byKey    map[string]*list.Element // path → *fileMapping
	order    list.List                // front = most recent
}

func (c *mapCache) init(limit int, maxBytes int64) {
	c.limit, c.maxBytes = limit, maxBytes
	c.byKey = make(map[string]*list.Element)
}

// get gives the mapping of the inode and length that st describes.
func (c *mapCache) get(path string, st *unix.Stat_t) *fileMapping {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.byKey[path]
	if e == nil {
		return nil
	}
	m := e.Value.(*fileMapping)
	if m.inode != inodeOf(st) || int64(len(m.data)) != st.Size {
		c.remove(e)
		return nil
	}
	c.order.MoveToFront(e)
	m.used = time.Now()
	m.Retain()
	return m
}

// put adds a mapping that the caller holds and gives the one to use.
func (c *mapCache) put(m *fileMapping) *fileMapping {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.byKey[m.path]; e != nil {
		if have := e.Value.(*fileMapping); have.inode == m.inode && len(have.data) == len(m.data) {
			have.Retain()
			m.Release()
			return have
		}
		c.remove(e)
	}
	size := int64(len(m.data))
	if size > c.maxBytes {
		return m
	}
	now := time.Now()
	m.used = now
	m.Retain()
	c.byKey[m.path] = c.order.PushFront(m)
	c.bytes += size
	for e := c.order.Back(); e != nil; e = c.order.Back() {
		idle := now.Sub(e.Value.(*fileMapping).used) >= idleLimit
		if c.order.Len() <= c.limit && c.bytes <= c.maxBytes && !idle {
			break
		}
		c.remove(e)
	}
	return m
}

func (c *mapCache) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for e := c.order.Back(); e != nil; e = c.order.Back() {
		c.remove(e)
	}
}

func (c *mapCache) remove(e *list.Element) {
	m := c.order.Remove(e).(*fileMapping)
	delete(c.byKey, m.path)
	c.bytes -= int64(len(m.data))
	m.Release()
}
