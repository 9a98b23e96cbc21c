package objstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"

	"golang.org/x/sys/unix"

	"github.com/flightblob/flightblob/internal/fault"
)

// copyChunk is how many bytes a streamed copy moves at a time. Two of them are
// in memory: one being read, one being written.
const copyChunk = 4 << 20

// Copier is implemented by stores that can copy an object of theirs without
// its bytes passing through the caller. Counting and guarding wrappers have it
// always, and answer Unsupported when the store below cannot.
type Copier interface {
	// CopyObject copies the whole object, durably, and replaces one that is at
	// to. NotFound when there is none at from.
	CopyObject(ctx context.Context, from, to string) error
}

// Copy copies an object: inside the store where both are in the same one and it
// can, else through this process in bounded memory. It is durable then; a
// failure leaves nothing behind, unless it is ErrUncertain.
func Copy(ctx context.Context, from, to Location) error {
	if same(from.Store, to.Store) {
		if from.Path == to.Path {
			_, err := from.Size(ctx)
			return err
		}
		err := copyObject(ctx, from.Store, from.Path, to.Path)
		if err == nil || fault.KindOf(err) != fault.Unsupported {
			return err
		}
	}
	size, err := from.Size(ctx)
	if err != nil {
		return err
	}
	return CopyRange(ctx, from, 0, size, to)
}

// CopyRange makes an object of the n bytes from off on of another one, through
// this process in bounded memory. Corrupt when that one ends before them.
func CopyRange(ctx context.Context, from Location, off, n int64, to Location) error {
	if off < 0 || n < 0 || n > math.MaxInt64-off {
		return fault.New(fault.Invalid, "objstore: copy bytes [%d, +%d) of %s", off, n, from)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w, err := to.Create(ctx)
	if err != nil {
		return err
	}
	defer w.Abort()

	type chunk struct {
		data []byte
		err  error
	}
	read := make(chan chunk)
	free := make(chan []byte, 2)
	go func() {
		defer close(read)
		for done := int64(0); done < n; {
			var c chunk
			select {
			case c.data = <-free:
			case <-ctx.Done():
				return
			}
			size := min(n-done, copyChunk)
			if int64(cap(c.data)) < size {
				c.data = make([]byte, size)
			}
			c.data = c.data[:size]
			c.err = from.ReadAt(ctx, c.data, off+done)
			done += size
			select {
			case read <- c:
			case <-ctx.Done():
				return
			}
			if c.err != nil {
				return
			}
		}
	}()
	free <- nil
	free <- nil
	for c := range read {
		if c.err == nil {
			_, c.err = w.Write(c.data)
		}
		if c.err != nil {
			cancel()
			for range read { // until the reader has ended
			}
			return c.err
		}
		free <- c.data
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("objstore: copy %s: %w", from, err)
	}
	return w.Commit(ctx)
}

func copyObject(ctx context.Context, s Store, from, to string) error {
	if c, ok := s.(Copier); ok {
		return c.CopyObject(ctx, from, to)
	}
	return fault.New(fault.Unsupported, "objstore: the store of %s does not copy", s.URI(from))
}

// same reports that two stores are one.
func same(a, b Store) bool {
	return a != nil && b != nil && reflect.TypeOf(a) == reflect.TypeOf(b) && reflect.TypeOf(a).Comparable() && a == b
}

// CopyObject implements Copier. The bytes are immutable, so both objects share
// them.
func (m *Mem) CopyObject(ctx context.Context, from, to string) error {
	if err := m.beginWrite(ctx, to); err != nil {
		return err
	}
	o, err := m.object(ctx, from)
	if err != nil {
		return err
	}
	m.set(to, o.data)
	return nil
}

// CopyObject implements Copier. File systems that share blocks between files
// copy in no time.
func (l *Local) CopyObject(ctx context.Context, from, to string) error {
	return l.copyObject(ctx, from, to, everything)
}

func (l *Local) copyObject(ctx context.Context, from, to string, a *Access) error {
	src, err := l.acquire(from, a)
	if err != nil {
		return err
	}
	defer src.release()
	var st unix.Stat_t
	if err := unix.Fstat(src.fd, &st); err != nil {
		return fileError("stat", from, err)
	}
	t, err := l.newTemp(ctx, to, a, false)
	if err != nil {
		return err
	}
	if err = t.copyFrom(ctx, src, st.Size); err == nil {
		err = t.publish()
	}
	if err != nil {
		t.discard()
	}
	return err
}

// copyFrom fills the file with the first bytes of another one.
func (t *tempFile) copyFrom(ctx context.Context, src *openFile, size int64) error {
	if err := t.store.at("write"); err != nil {
		return writeError("write", t.path, err)
	}
	done, err := copyInKernel(ctx, int(t.file.Fd()), src.fd, size)
	if err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("objstore: copy %s: %w", t.path, err)
		}
		return writeError("write", t.path, err)
	}
	var chunk []byte
	for done < size {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("objstore: copy %s: %w", t.path, err)
		}
		if chunk == nil {
			chunk = make([]byte, min(copyChunk, size-done))
		}
		p := chunk[:min(int64(len(chunk)), size-done)]
		if err := src.readFull(ctx, p, done); err != nil {
			return err
		}
		if _, err := t.file.WriteAt(p, done); err != nil {
			return writeError("write", t.path, err)
		}
		done += int64(len(p))
	}
	return nil
}

// cannotCopy reports that the kernel leaves a copy to others.
func cannotCopy(err error) bool {
	for _, e := range []error{unix.EXDEV, unix.ENOSYS, unix.EINVAL, unix.EOPNOTSUPP, unix.EPERM, unix.EBADF, unix.ENOTTY, unix.EISDIR, unix.ETXTBSY} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
