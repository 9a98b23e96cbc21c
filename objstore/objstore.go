// Package objstore reads and writes bytes at a path, whatever holds them.
//
// A Store is one namespace of objects: the local file system, an in-memory
// one, or a bucket. A Location is a Store and a path in it; a Registry turns a
// URI into a Location with the options configured for its prefix. Wrappers add
// what the rest of the house relies on: counting (what was really read) and
// guarding (what this server may touch).
//
// Short reads are errors here, never results: a caller that asked for n bytes
// has n bytes or an error. A write that succeeded is durable: the object is
// there after a crash. PutIfAbsent has one winner, between goroutines,
// processes and machines; tables are committed by it.
package objstore

import (
	"context"
	"iter"
	"strings"
	"time"

	"github.com/flightblob/flightblob/internal/fault"
)

// Store is an object store. All methods may be called from any goroutine.
// Paths are slash-separated and literal: no percent-decoding, no cleaning.
// Errors are fault errors: NotFound for an absent object, Corrupt for one that
// ends before the last byte asked for, Denied for one that this server may not
// touch, Exhausted when no space is left. A write whose outcome is not known
// fails with ErrUncertain.
type Store interface {
	// ReadAt fills all of p from byte off of the object.
	ReadAt(ctx context.Context, path string, p []byte, off int64) error
	// Size gives the object's length in bytes.
	Size(ctx context.Context, path string) (int64, error)
	// List yields the direct children of folder dir ("" is the top): objects,
	// and folders that hold something. The order is that of keys, by bytes,
	// where a folder counts as its name and a slash. An absent folder yields
	// nothing.
	List(ctx context.Context, dir string) iter.Seq2[Entry, error]
	// Create begins a new object. Folders that lead to it are made.
	Create(ctx context.Context, path string) (Writer, error)
	// PutIfAbsent stores data as a whole object, unless there is one at path:
	// Exists. Of all that try at the same time, wherever they run, one wins.
	PutIfAbsent(ctx context.Context, path string, data []byte) error
	// Put stores data as a whole object and replaces one that is there: a
	// reader sees the old bytes or the new ones.
	Put(ctx context.Context, path string, data []byte) error
	// Delete removes the object, durably. One that is absent is no error.
	Delete(ctx context.Context, path string) error
	// URI prints a path of this store for messages: never a credential.
	URI(path string) string
}

// Entry is one child of a listed folder.
type Entry struct {
	Name     string // last path component
	Dir      bool
	Size     int64     // bytes; 0 for folders
	Modified time.Time // zero when the store does not say
}

// Mapper is implemented by stores that can lend an object's bytes without
// copying. Use it only for objects that are immutable once published.
type Mapper interface {
	// Map maps the whole object. The mapping stays valid until Release;
	// touching bytes past a truncation faults, so hand them to the kernel only
	// (writev), never to code that dereferences them.
	Map(ctx context.Context, path string) (Mapping, error)
}

// Mapping is a reference-counted view of an object's bytes.
type Mapping interface {
	Bytes() []byte
	Retain()
	Release()
}

// Location is an object or a folder in a store. The zero value is nowhere.
type Location struct {
	Store Store
	Path  string
}

// Join appends literal path components, each of which may hold slashes.
func (l Location) Join(elem ...string) Location {
	p := l.Path
	for _, e := range elem {
		if e == "" {
			continue
		}
		if p == "" || strings.HasSuffix(p, "/") {
			p += e
		} else {
			p += "/" + e
		}
	}
	return Location{Store: l.Store, Path: p}
}

// String prints the location as a URI without credentials.
func (l Location) String() string {
	if l.Store == nil {
		return ""
	}
	return l.Store.URI(l.Path)
}

// ReadAt fills p from byte off of the object.
func (l Location) ReadAt(ctx context.Context, p []byte, off int64) error {
	return l.Store.ReadAt(ctx, l.Path, p, off)
}

// Size gives the object's length in bytes.
func (l Location) Size(ctx context.Context) (int64, error) { return l.Store.Size(ctx, l.Path) }

// AbsoluteURI gives the location as an absolute URI in the normalised,
// percent-encoded form that descriptors store (EXT-6): file:///… for local
// files. Locate reads it back.
func (l Location) AbsoluteURI() string {
	s := l.String()
	if strings.HasPrefix(s, "/") {
		return "file://" + EscapePath(s)
	}
	return s
}

// Map maps the object. Ask AsMapper first: a store that cannot lend bytes
// answers Unsupported.
func (l Location) Map(ctx context.Context) (Mapping, error) {
	m, ok := AsMapper(l)
	if !ok {
		return nil, fault.New(fault.Unsupported, "objstore: %s lies in a store that cannot map", l)
	}
	return m.Map(ctx, l.Path)
}

// NoteRead tells a counting store that bytes [off, off+n) of a mapping of this
// object were borrowed; others ignore it.
func (l Location) NoteRead(off, n int64) {
	if c, ok := l.Store.(ReadNoter); ok {
		c.NoteRead(l.Path, off, n)
	}
}

// AsMapper gives the mapping half of the location's store. Counting and
// guarding wrappers have it exactly when the store below does.
func AsMapper(l Location) (Mapper, bool) {
	m, ok := l.Store.(Mapper)
	return m, ok
}

// List yields the children of the folder.
func (l Location) List(ctx context.Context) iter.Seq2[Entry, error] {
	return l.Store.List(ctx, l.Path)
}
