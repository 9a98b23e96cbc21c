package objstore

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/flightblob/flightblob/internal/fault"
)

// Mem is a store in memory. Objects are immutable values: Put replaces one,
// and readers of the old one keep it. It stands for a disk in tests: CrashClone
// gives what a crash would leave.
type Mem struct {
	name    string
	mu      sync.RWMutex
	objects map[string]memObject
	open    map[*memWriter]struct{} // neither committed nor aborted
}

type memObject struct {
	data     []byte
	modified time.Time
}

// NewMem makes an empty store whose URIs start with mem://name/.
func NewMem(name string) *Mem {
	return &Mem{name: name, objects: make(map[string]memObject), open: make(map[*memWriter]struct{})}
}

func (m *Mem) object(ctx context.Context, path string) (memObject, error) {
	if err := ctx.Err(); err != nil {
		return memObject{}, fmt.Errorf("objstore: read %s: %w", m.URI(path), err)
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	o, ok := m.objects[path]
	if !ok {
		return memObject{}, fault.New(fault.NotFound, "objstore: %s does not exist", m.URI(path))
	}
	return o, nil
}

// ReadAt implements Store.
func (m *Mem) ReadAt(ctx context.Context, path string, p []byte, off int64) error {
	if off < 0 {
		return fault.New(fault.Invalid, "objstore: negative offset %d for %s", off, m.URI(path))
	}
	if len(p) == 0 {
		return nil
	}
	o, err := m.object(ctx, path)
	if err != nil {
		return err
	}
	if size := int64(len(o.data)); off > size || int64(len(p)) > size-off {
		return shortObject(m.URI(path), off, int64(len(p)), size)
	}
	copy(p, o.data[off:])
	return nil
}

// ReadWhole implements WholeReader.
func (m *Mem) ReadWhole(ctx context.Context, path string, limit int64) ([]byte, error) {
	o, err := m.object(ctx, path)
	if err != nil {
		return nil, err
	}
	if int64(len(o.data)) > limit {
		return nil, tooLarge(m.URI(path), int64(len(o.data)), limit)
	}
	return append([]byte{}, o.data...), nil
}

// Size implements Store.
func (m *Mem) Size(ctx context.Context, path string) (int64, error) {
	o, err := m.object(ctx, path)
	return int64(len(o.data)), err
}

// List implements Store.
func (m *Mem) List(ctx context.Context, dir string) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		prefix := strings.TrimSuffix(dir, "/")
		if prefix != "" {
			prefix += "/"
		}
		children := make(map[string]Entry) // by key: folders end in a slash
		m.mu.RLock()
		for path, o := range m.objects {
			rest, ok := strings.CutPrefix(path, prefix)
			if !ok || rest == "" {
				continue
			}
			if name, _, deeper := strings.Cut(rest, "/"); deeper {
				children[name+"/"] = Entry{Name: name, Dir: true}
			} else {
				children[name] = Entry{Name: name, Size: int64(len(o.data)), Modified: o.modified}
			}
		}
		m.mu.RUnlock()
		keys := make([]string, 0, len(children))
		for k := range children {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		for _, k := range keys {
			if err := ctx.Err(); err != nil {
				yield(Entry{}, fmt.Errorf("objstore: list %s: %w", m.URI(dir), err))
				return
			}
			if !yield(children[k], nil) {
				return
			}
		}
	}
}

// Map implements Mapper. The bytes stay valid for as long as they are
// referenced, whatever the reference count says.
func (m *Mem) Map(ctx context.Context, path string) (Mapping, error) {
	o, err := m.object(ctx, path)
	if err != nil {
		return nil, err
	}
	return memMapping(o.data), nil
}

// URI implements Store.
func (m *Mem) URI(path string) string {
	return target{scheme: memScheme, bucket: m.name, path: path}.uri()
}

// memMapping lends bytes that the garbage collector owns.
type memMapping []byte

func (m memMapping) Bytes() []byte { return m }
func (m memMapping) Retain()       {}
func (m memMapping) Release()      {}
