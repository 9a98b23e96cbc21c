package objstore

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/flightblob/flightblob/internal/fault"
)

// CounterOptions bounds what a Counter remembers. Zero values give the
// defaults.
type CounterOptions struct {
	// Objects bounds the objects counted one by one; the rest is summed
	// under Other. Default 4096.
	Objects int
	// Ranges bounds the ranges remembered per object; default 0, none.
	Ranges int
}

// Counter counts what was really asked of stores: requests and bytes, in
// total and per object. Safe for concurrent use.
type Counter struct {
	options CounterOptions
	mu      sync.Mutex
	total   Count
	other   Count
	objects map[counterKey]*objectCount
}

// Count is what was asked of one object, or of all.
type Count struct {
	Reads       int64 // ranged or whole reads, failed ones included
	Bytes       int64 // bytes they gave
	Maps        int64 // objects mapped, or found mapped already
	MappedReads int64 // borrowed ranges of mapped objects, see NoteRead
	MappedBytes int64 // bytes of those
	Sizes       int64 // length requests
	Lists       int64 // listings begun
	Creates     int64 // objects streamed or copied inside the store, once they are there
	Puts        int64 // whole objects put, failed ones included
	Deletes     int64 // objects deleted, absent ones included, and folders removed
	Written     int64 // bytes that streams and puts took
}

// Requests sums all calls: everything but the bytes.
func (c Count) Requests() int64 {
	return c.Reads + c.Maps + c.MappedReads + c.Sizes + c.Lists + c.Changes()
}

// Changes sums the calls that write or delete.
func (c Count) Changes() int64 { return c.Creates + c.Puts + c.Deletes }

// Payload sums the bytes read, by copy or by mapping.
func (c Count) Payload() int64 { return c.Bytes + c.MappedBytes }

func (c *Count) add(d Count) {
	c.Reads += d.Reads
	c.Bytes += d.Bytes
	c.Maps += d.Maps
	c.MappedReads += d.MappedReads
	c.MappedBytes += d.MappedBytes
	c.Sizes += d.Sizes
	c.Lists += d.Lists
	c.Creates += d.Creates
	c.Puts += d.Puts
	c.Deletes += d.Deletes
	c.Written += d.Written
}

// Range is a byte interval [Offset, Offset+Length) that was read.
type Range struct {
	Offset, Length int64
	Mapped         bool
}

// ObjectCount is the count of one object or listed folder.
type ObjectCount struct {
	URI string
	Count
	Ranges []Range // the first ones, in order, if the Counter keeps them
}

// Counts is a snapshot of a Counter.
type Counts struct {
	Total   Count
	Other   Count         // objects beyond CounterOptions.Objects
	Objects []ObjectCount // by URI
}

// Object gives the count of the object with that URI, zero if there is none.
func (c Counts) Object(uri string) ObjectCount {
	for _, o := range c.Objects {
		if o.URI == uri {
			return o
		}
	}
	return ObjectCount{URI: uri}
}

type counterKey struct {
	root Store // the store below all wrappers
	path string
}

type objectCount struct {
	Count
	ranges []Range
}

// NewCounter makes a Counter with nothing counted.
func NewCounter(o CounterOptions) *Counter {
	if o.Objects <= 0 {
		o.Objects = 4096
	}
	return &Counter{options: o, objects: make(map[counterKey]*objectCount)}
}

// Reset forgets everything counted.
func (c *Counter) Reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.total, c.other = Count{}, Count{}
	clear(c.objects)
}

// Total gives the sum over all objects.
func (c *Counter) Total() Count {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.total
}

// Snapshot copies everything counted so far.
func (c *Counter) Snapshot() Counts {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := Counts{Total: c.total, Other: c.other, Objects: make([]ObjectCount, 0, len(c.objects))}
	for k, o := range c.objects {
		s.Objects = append(s.Objects, ObjectCount{URI: k.root.URI(k.path), Count: o.Count, Ranges: slices.Clone(o.ranges)})
	}
	slices.SortFunc(s.Objects, func(a, b ObjectCount) int { return cmp.Compare(a.URI, b.URI) })
	return s
}

func (c *Counter) note(root Store, path string, d Count, r Range) {
	key := counterKey{root, path}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.total.add(d)
	o := c.objects[key]
	if o == nil {
		if len(c.objects) >= c.options.Objects {
			c.other.add(d)
			return
		}
		// The path may be cut out of a larger string that should not live on.
		key.path = strings.Clone(path)
		o = &objectCount{}
		c.objects[key] = o
	}
	o.add(d)
	if d.Reads+d.MappedReads > 0 && len(o.ranges) < c.options.Ranges {
		o.ranges = append(o.ranges, r)
	}
}

// ReadNoter is implemented by counting stores. Bytes borrowed from a Mapping
// pass by the store unseen, so who borrows them says so.
type ReadNoter interface {
	NoteRead(path string, off, n int64)
}

// Counted gives a store that counts into c. A nil Counter counts nothing.
func Counted(s Store, c *Counter) Store {
	if c == nil {
		return s
	}
	return count(s, s, c)
}

// counting marks counting stores, mapping or not.
type counting interface {
	Store
	counted() *countedStore
}

func count(s, root Store, c *Counter) Store {
	plain := &countedStore{store: s, root: root, counter: c}
	if m, ok := s.(Mapper); ok {
		return &countedMapper{countedStore: plain, mapper: m}
	}
	return plain
}

type countedStore struct {
	store   Store
	root    Store // what store wraps at the bottom: the identity of objects
	counter *Counter
}

func (c *countedStore) counted() *countedStore { return c }

func (c *countedStore) ReadAt(ctx context.Context, path string, p []byte, off int64) error {
	err := c.store.ReadAt(ctx, path, p, off)
	d := Count{Reads: 1}
	if err == nil {
		d.Bytes = int64(len(p))
	}
	c.counter.note(c.root, path, d, Range{Offset: off, Length: int64(len(p))})
	return err
}

func (c *countedStore) ReadWhole(ctx context.Context, path string, limit int64) ([]byte, error) {
	w, ok := c.store.(WholeReader)
	if !ok { // counts its own Size and ReadAt
		return readInTwo(ctx, Location{Store: c, Path: path}, limit)
	}
	data, err := w.ReadWhole(ctx, path, limit)
	c.counter.note(c.root, path, Count{Reads: 1, Bytes: int64(len(data))}, Range{Length: int64(len(data))})
	return data, err
}

func (c *countedStore) Size(ctx context.Context, path string) (int64, error) {
	c.counter.note(c.root, path, Count{Sizes: 1}, Range{})
	return c.store.Size(ctx, path)
}

func (c *countedStore) List(ctx context.Context, dir string) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		c.counter.note(c.root, dir, Count{Lists: 1}, Range{})
		c.store.List(ctx, dir)(yield)
	}
}

func (c *countedStore) Create(ctx context.Context, path string) (Writer, error) {
	w, err := c.store.Create(ctx, path)
	if err != nil {
		return nil, err
	}
	return &countedWriter{Writer: w, store: c, path: path}, nil
}

func (c *countedStore) PutIfAbsent(ctx context.Context, path string, data []byte) error {
	err := c.store.PutIfAbsent(ctx, path, data)
	c.notePut(path, data, err)
	return err
}

func (c *countedStore) Put(ctx context.Context, path string, data []byte) error {
	err := c.store.Put(ctx, path, data)
	c.notePut(path, data, err)
	return err
}

func (c *countedStore) notePut(path string, data []byte, err error) {
	d := Count{Puts: 1}
	if err == nil {
		d.Written = int64(len(data))
	}
	c.counter.note(c.root, path, d, Range{})
}

func (c *countedStore) Delete(ctx context.Context, path string) error {
	c.counter.note(c.root, path, Count{Deletes: 1}, Range{})
	return c.store.Delete(ctx, path)
}

// CopyObject counts an object made; its bytes are neither read nor written here.
func (c *countedStore) CopyObject(ctx context.Context, from, to string) error {
	err := copyObject(ctx, c.store, from, to)
	if err == nil {
		c.counter.note(c.root, to, Count{Creates: 1}, Range{})
	}
	return err
}

// RemoveFolder counts one deletion where the store below makes one.
func (c *countedStore) RemoveFolder(ctx context.Context, dir string) error {
	err := removeFolder(ctx, c.store, dir)
	if fault.KindOf(err) != fault.Unsupported || err == nil {
		c.counter.note(c.root, dir, Count{Deletes: 1}, Range{})
	}
	return err
}

// Walk counts one listing where the store below makes one.
func (c *countedStore) Walk(ctx context.Context, dir string) iter.Seq2[Entry, error] {
	w, ok := c.store.(Walker)
	if !ok {
		return walkLists(ctx, c, dir)
	}
	return func(yield func(Entry, error) bool) {
		c.counter.note(c.root, dir, Count{Lists: 1}, Range{})
		w.Walk(ctx, dir)(yield)
	}
}

// countedWriter counts what the writer below takes.
type countedWriter struct {
	Writer
	store   *countedStore
	path    string
	written int64
}

func (w *countedWriter) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	w.written += int64(n)
	return n, err
}

func (w *countedWriter) Commit(ctx context.Context) error {
	err := w.Writer.Commit(ctx)
	if err == nil {
		w.note(Count{Creates: 1})
	}
	return err
}

func (w *countedWriter) Abort() {
	w.Writer.Abort()
	w.note(Count{})
}

// note counts the bytes once: who commits may abort afterwards.
func (w *countedWriter) note(d Count) {
	d.Written, w.written = w.written, 0
	if d != (Count{}) {
		w.store.counter.note(w.store.root, w.path, d, Range{})
	}
}

func (c *countedStore) URI(path string) string { return c.store.URI(path) }

// NoteRead implements ReadNoter.
func (c *countedStore) NoteRead(path string, off, n int64) {
	c.counter.note(c.root, path, Count{MappedReads: 1, MappedBytes: n}, Range{Offset: off, Length: n, Mapped: true})
}

type countedMapper struct {
	*countedStore
	mapper Mapper
}

func (c *countedMapper) Map(ctx context.Context, path string) (Mapping, error) {
	m, err := c.mapper.Map(ctx, path)
	c.counter.note(c.root, path, Count{Maps: 1}, Range{})
	return m, err
}
