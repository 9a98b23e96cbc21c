package objstore

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/flightblob/flightblob/internal/fault"
)

// errNotDir is what a look-up below a file ends with.
var errNotDir error = unix.ENOTDIR

// idleLimit is how long an unused descriptor or mapping may stay cached once
// others come in: it would keep the disk space of a deleted file in use.
const idleLimit = time.Minute

// readChunk bounds one pread, so that cancellation is seen during long reads.
const readChunk = 16 << 20

// inode identifies a file while somebody holds it open.
type inode struct{ dev, ino uint64 }

func inodeOf(st *unix.Stat_t) inode { return inode{uint64(st.Dev), st.Ino} } //nolint:unconvert // signed on some systems

// openFile is a descriptor shared by its users; the last release closes it.
type openFile struct {
	path    string
	fd      int
	real    string // where it really lay when it was opened
	inode   inode
	refs    atomic.Int64
	checked atomic.Pointer[Access] // the access that last allowed it
	used    time.Time              // guarded by the cache's lock
}

func newOpenFile(path string, fd int, p *pin) *openFile {
	f := &openFile{path: path, fd: fd, real: p.real, inode: inodeOf(&p.stat)}
	f.refs.Store(1)
	return f
}

func (f *openFile) release() {
	if f.refs.Add(-1) == 0 {
		_ = unix.Close(f.fd)
	}
}

// check asks the access once and remembers a yes, so hot reads cost nothing.
func (f *openFile) check(a *Access) error {
	if a.all || f.checked.Load() == a {
		return nil
	}
	if err := a.checkReal(f.path, f.real); err != nil {
		return err
	}
	f.checked.Store(a)
	return nil
}

// readFull fills p from byte off or says how far the file goes.
func (f *openFile) readFull(ctx context.Context, p []byte, off int64) error {
	want := int64(len(p))
	for done := int64(0); done < want; {
		if done > 0 {
			if err := ctx.Err(); err != nil {
				return fmt.Errorf("objstore: read %s: %w", f.path, err)
			}
		}
		part := p[done:min(done+readChunk, want)]
		var n int
		var err error
		if off <= math.MaxInt64-want {
			err = ignoringEINTR(func() error {
				n, err = unix.Pread(f.fd, part, off+done)
				return err
			})
		}
		if err != nil {
			return fileError("read", f.path, err)
		}
		if n == 0 {
			return f.endsEarly(off, want)
		}
		done += int64(n)
	}
	return nil
}

// endsEarly says how far a file goes that ended before the bytes asked for.
func (f *openFile) endsEarly(off, want int64) error {
	var st unix.Stat_t
	if err := unix.Fstat(f.fd, &st); err != nil {
		return fileError("stat", f.path, err)
	}
	return shortObject(f.path, off, want, st.Size)
}

// fileCache keeps the most recently used descriptors open. The cache owns one
// reference of each; evicting gives that one up.
type fileCache struct {
	mu    sync.Mutex
	limit int
	byKey map[string]*list.Element // path → *openFile
	order list.List                // front = most recent
}

func (c *fileCache) init(limit int) {
	c.limit = limit
	c.byKey = make(map[string]*list.Element)
}

// get gives the descriptor for path when it is the inode that st describes.
func (c *fileCache) get(path string, st *unix.Stat_t) *openFile {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.byKey[path]
	if e == nil {
		return nil
	}
	f := e.Value.(*openFile)
	if f.inode != inodeOf(st) {
		c.remove(e)
		return nil
	}
	c.order.MoveToFront(e)
	f.used = time.Now()
	f.refs.Add(1)
	return f
}

// put adds a descriptor that the caller holds, and gives the one to use: the
// same, or an equal one that another goroutine put first.
func (c *fileCache) put(f *openFile) *openFile {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.byKey[f.path]; e != nil {
		if have := e.Value.(*openFile); have.inode == f.inode {
			have.refs.Add(1)
			f.release()
			return have
		}
		c.remove(e)
	}
	now := time.Now()
	f.used = now
	f.refs.Add(1)
	c.byKey[f.path] = c.order.PushFront(f)
	for e := c.order.Back(); e != nil; e = c.order.Back() {
		if c.order.Len() <= c.limit && now.Sub(e.Value.(*openFile).used) < idleLimit {
			break
		}
		c.remove(e)
	}
	return f
}

func (c *fileCache) drop(path string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.byKey[path]; e != nil {
		c.remove(e)
	}
}

func (c *fileCache) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for e := c.order.Back(); e != nil; e = c.order.Back() {
		c.remove(e)
	}
}

func (c *fileCache) remove(e *list.Element) {
	f := c.order.Remove(e).(*openFile)
	delete(c.byKey, f.path)
	f.release()
}

// resolvedSame resolves links by name and makes sure that the result is the
// file that st describes.
func resolvedSame(path string, st *unix.Stat_t) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", errnoOf(err)
	}
	var now unix.Stat_t
	if err := unix.Lstat(real, &now); err != nil {
		return "", err
	}
	if inodeOf(&now) != inodeOf(st) {
		return "", fault.New(fault.Conflict, "objstore: %s changed while it was being opened", path)
	}
	return real, nil
}

// openSame opens a resolved path without following links and makes sure that
// it is still the file that st describes.
func openSame(real string, flags int, st *unix.Stat_t) (int, error) {
	fd, err := unix.Open(real, flags|unix.O_NOFOLLOW, 0)
	if err != nil {
		return -1, err
	}
	var now unix.Stat_t
	if err := unix.Fstat(fd, &now); err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	if inodeOf(&now) != inodeOf(st) {
		_ = unix.Close(fd)
		return -1, fault.New(fault.Conflict, "objstore: %s changed while it was being opened", real)
	}
	return fd, nil
}

func errnoOf(err error) error {
	var perr *fs.PathError
	if errors.As(err, &perr) {
		return perr.Err
	}
	return err
}
