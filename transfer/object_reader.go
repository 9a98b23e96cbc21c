package transfer

import (
	"context"
	"errors"
	"io"

	"github.com/flightblob/flightblob/objstore"
)

// objectReader shows an object of a store as a file, for libraries that want
// one. Its methods may be called as io.ReaderAt and io.Seeker say.
type objectReader struct {
	ctx  context.Context //nolint:containedctx // files have no context
	loc  objstore.Location
	size int64
	at   int64
}

// ReadAt implements io.ReaderAt.
func (r *objectReader) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, errors.New("a negative offset")
	}
	if off >= r.size {
		return 0, io.EOF
	}
	n := min(int64(len(p)), r.size-off)
	if err := r.loc.ReadAt(r.ctx, p[:n], off); err != nil {
		return 0, err
	}
	if n < int64(len(p)) {
		return int(n), io.EOF
	}
	return int(n), nil
}

// Read implements io.Reader.
func (r *objectReader) Read(p []byte) (int, error) {
	n, err := r.ReadAt(p, r.at)
	r.at += int64(n)
	if n > 0 && err == io.EOF { //nolint:errorlint // ReadAt answers it bare
		err = nil
	}
	return n, err
}

// Seek implements io.Seeker.
func (r *objectReader) Seek(off int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		off += r.at
	case io.SeekEnd:
		off += r.size
	}
	if off < 0 {
		return r.at, errors.New("a place before the beginning")
	}
	r.at = off
	return off, nil
}
