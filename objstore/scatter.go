package objstore

import (
	"context"
	"fmt"
	"math"

	"github.com/flightblob/flightblob/internal/fault"
)

// ScatterReader is implemented by stores that read one interval of an object
// into several places at once. Counting and guarding wrappers have it when the
// store below does.
type ScatterReader interface {
	// ReadScatter fills the parts, one after the other, with consecutive bytes
	// from off on. Errors are those of ReadAt for the whole interval.
	ReadScatter(ctx context.Context, path string, parts [][]byte, off int64) error
}

// ReadScatter fills the parts, one after the other, with consecutive bytes of
// the object from off on, in one request where the store can do that and in one
// per part elsewhere.
func (l Location) ReadScatter(ctx context.Context, parts [][]byte, off int64) error {
	return readScatter(ctx, l.Store, l.Path, parts, off)
}

func readScatter(ctx context.Context, s Store, path string, parts [][]byte, off int64) error {
	if r, ok := s.(ScatterReader); ok {
		return r.ReadScatter(ctx, path, parts, off)
	}
	return readParts(ctx, s, path, parts, off)
}

// readParts makes one request per part.
func readParts(ctx context.Context, s Store, path string, parts [][]byte, off int64) error {
	for _, p := range parts {
		if err := s.ReadAt(ctx, path, p, off); err != nil {
			return err
		}
		off += int64(len(p))
	}
	return nil
}

func total(parts [][]byte) int64 {
	var n int64
	for _, p := range parts {
		n += int64(len(p))
	}
	return n
}

// ReadScatter implements ScatterReader.
func (l *Local) ReadScatter(ctx context.Context, path string, parts [][]byte, off int64) error {
	return l.readScatter(ctx, path, parts, off, everything)
}

func (l *Local) readScatter(ctx context.Context, path string, parts [][]byte, off int64, a *Access) error {
	n := total(parts)
	switch {
	case off < 0 || n > math.MaxInt64-off:
		return fault.New(fault.Invalid, "objstore: bytes [%d, +%d) of %s", off, n, path)
	case n == 0:
		return a.checkPath(path)
	}
	f, err := l.acquire(path, a)
	if err != nil {
		return err
	}
	defer f.release()
	return f.scatter(ctx, parts, off, n)
}

// scatter fills parts from byte off or says how far the file goes. It works on
// a copy of parts.
func (f *openFile) scatter(ctx context.Context, parts [][]byte, off, want int64) error {
	rest := append([][]byte(nil), parts...)
	for done := int64(0); done < want; {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("objstore: read %s: %w", f.path, err)
		}
		var n int
		err := ignoringEINTR(func() (err error) {
			n, err = preadv(f.fd, rest[:min(len(rest), maxParts)], off+done)
			return err
		})
		if err != nil {
			return fileError("read", f.path, err)
		}
		if n == 0 {
			return f.endsEarly(off, want)
		}
		done += int64(n)
		for len(rest) > 0 && n >= len(rest[0]) {
			n -= len(rest[0])
			rest = rest[1:]
		}
		if n > 0 {
			rest[0] = rest[0][n:]
		}
	}
	return nil
}

// maxParts is how many parts one system call takes (IOV_MAX).
const maxParts = 1024

func (g *guardedLocal) ReadScatter(ctx context.Context, path string, parts [][]byte, off int64) error {
	return g.local.readScatter(ctx, path, parts, off, g.access)
}

// ReadScatter counts one read where the store below makes one.
func (c *countedStore) ReadScatter(ctx context.Context, path string, parts [][]byte, off int64) error {
	r, ok := c.store.(ScatterReader)
	if !ok {
		return readParts(ctx, c, path, parts, off) // counts its own ReadAt
	}
	err := r.ReadScatter(ctx, path, parts, off)
	d := Count{Reads: 1}
	if err == nil {
		d.Bytes = total(parts)
	}
	c.counter.note(c.root, path, d, Range{Offset: off, Length: total(parts)})
	return err
}
