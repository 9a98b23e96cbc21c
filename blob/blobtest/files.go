package blobtest

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
)

// written is the folder below which the reference wrote the fixtures.
const written = "/tmp/flightblob-fixtures/tables/"

// Files is a read-only store over a folder, kept simple on purpose: it is what
// the resolution rules are judged with.
type Files struct {
	objstore.ReadOnly
	Dir string
}

// Locate takes the paths and file URIs recorded in the fixtures.
func (f *Files) Locate(_ context.Context, uri string) (objstore.Location, error) {
	path := uri
	if rest, ok := strings.CutPrefix(uri, "file://"); ok {
		var err error
		if path, err = url.PathUnescape(rest); err != nil {
			return objstore.Location{}, fault.New(fault.Invalid, "blobtest: %s: %w", uri, err)
		}
	}
	path, ok := strings.CutPrefix(path, written)
	if !ok {
		return objstore.Location{}, fault.New(fault.Denied, "blobtest: %s is outside the fixtures", uri)
	}
	return objstore.Location{Store: f, Path: path}, nil
}

// at locates a recorded path that is known to be one of the fixtures'.
func (f *Files) at(uri string) objstore.Location {
	loc, err := f.Locate(context.Background(), uri)
	if err != nil {
		panic(err)
	}
	return loc
}

// ReadAt implements objstore.Store.
func (f *Files) ReadAt(_ context.Context, path string, p []byte, off int64) error {
	file, err := os.Open(filepath.Join(f.Dir, path))
	if err != nil {
		return failed(path, err)
	}
	defer file.Close()
	_, err = file.ReadAt(p, off)
	return failed(path, err)
}

// Size implements objstore.Store.
func (f *Files) Size(_ context.Context, path string) (int64, error) {
	info, err := os.Stat(filepath.Join(f.Dir, path))
	if err != nil {
		return 0, failed(path, err)
	}
	return info.Size(), nil
}

// List implements objstore.Store; nothing here lists.
func (f *Files) List(context.Context, string) iter.Seq2[objstore.Entry, error] {
	return func(yield func(objstore.Entry, error) bool) {
		yield(objstore.Entry{}, fault.New(fault.Unsupported, "blobtest: list"))
	}
}

// URI implements objstore.Store.
func (f *Files) URI(path string) string { return "file://" + written + path }

func failed(path string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return fault.New(fault.NotFound, "blobtest: no object %s", path)
	case errors.Is(err, io.EOF):
		return &fault.Error{Kind: fault.Corrupt, Object: path, Offset: -1, Text: "ends early"}
	}
	return fault.New(fault.Internal, "blobtest: %w", err)
}
