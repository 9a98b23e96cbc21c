package materialize

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/flightblob/flightblob/blob"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/schema"
	"github.com/flightblob/flightblob/table/manifest"
)

// fakeStore holds objects in memory and notes what is asked of it.
type fakeStore struct {
	objstore.ReadOnly
	mu      sync.Mutex
	objects map[string][]byte
	reads   []string // "path [off, end)" in order of arrival
	sizes   []string
	running int
	most    int                                          // highest number of calls at a time
	before  func(ctx context.Context, path string) error // runs inside each read, unlocked
}

func newFake() *fakeStore { return &fakeStore{objects: make(map[string][]byte)} }

func (s *fakeStore) at(path string) objstore.Location {
	return objstore.Location{Store: s, Path: path}
}

func (s *fakeStore) enter() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running++
	s.most = max(s.most, s.running)
}

func (s *fakeStore) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
}

func (s *fakeStore) ReadAt(ctx context.Context, path string, p []byte, off int64) error {
	s.enter()
	defer s.leave()
	if s.before != nil {
		if err := s.before(ctx, path); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads = append(s.reads, fmt.Sprintf("%s [%d, %d)", path, off, off+int64(len(p))))
	data, ok := s.objects[path]
	if !ok {
		return fault.New(fault.NotFound, "fake: no %s", path)
	}
	if off < 0 || off > int64(len(data)) || int64(len(p)) > int64(len(data))-off {
		return &fault.Error{Kind: fault.Corrupt, Object: path, Offset: off, Text: "ends early"}
	}
	copy(p, data[off:])
	return nil
}

func (s *fakeStore) Size(_ context.Context, path string) (int64, error) {
	s.enter()
	defer s.leave()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sizes = append(s.sizes, path)
	data, ok := s.objects[path]
	if !ok {
		return 0, fault.New(fault.NotFound, "fake: no %s", path)
	}
	return int64(len(data)), nil
}

func (s *fakeStore) List(context.Context, string) iter.Seq2[objstore.Entry, error] { return nil }
func (s *fakeStore) URI(path string) string                                        { return "fake:///" + path }

// log gives the reads so far, sorted, and forgets them.
func (s *fakeStore) log() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.Sort(s.reads)
	out := strings.Join(s.reads, " ")
	s.reads = nil
	return out
}

// mappable is a fakeStore that lends its objects and counts what is out.
type mappable struct {
	*fakeStore
	lent  atomic.Int64
	maps  atomic.Int64
	noted atomic.Int64
}

func (s *mappable) at(path string) objstore.Location {
	return objstore.Location{Store: s, Path: path}
}

func (s *mappable) NoteRead(_ string, _, n int64) { s.noted.Add(n) }

func (s *mappable) Map(_ context.Context, path string) (objstore.Mapping, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	data, ok := s.objects[path]
	if !ok {
		return nil, fault.New(fault.NotFound, "fake: no %s", path)
	}
	s.maps.Add(1)
	s.lent.Add(1)
	return &loan{store: s, data: data}, nil
}

type loan struct {
	store *mappable
	data  []byte
}

func (l *loan) Bytes() []byte { return l.data }
func (l *loan) Retain()       { l.store.lent.Add(1) }
func (l *loan) Release()      { l.store.lent.Add(-1) }

// source is a Source over prepared batches.
type source struct {
	schema  *arrow.Schema
	batches []arrow.RecordBatch
	owners  [][]*blob.Owner
	at      int
	err     error
	refs    atomic.Int64 // beyond the first
}

func (s *source) Retain()                        { s.refs.Add(1) }
func (s *source) Schema() *arrow.Schema          { return s.schema }
func (s *source) RecordBatch() arrow.RecordBatch { return s.batches[s.at-1] }
func (s *source) Record() arrow.RecordBatch      { return s.RecordBatch() }
func (s *source) Owners() []*blob.Owner          { return s.owners[s.at-1] }

func (s *source) Err() error {
	if s.at < len(s.batches) {
		return nil
	}
	return s.err
}

func (s *source) Next() bool {
	if s.at >= len(s.batches) {
		return false
	}
	s.at++
	return true
}

func (s *source) Release() {
	switch n := s.refs.Add(-1); {
	case n < -1:
		panic("source released too often")
	case n >= 0:
		return
	}
	for _, b := range s.batches {
		b.Release()
	}
}

// descriptorField is a blob leaf as descriptor scans show it.
func descriptorField(name string) arrow.Field {
	return arrow.Field{Name: name, Type: schema.DescriptorType, Nullable: true, Metadata: arrow.NewMetadata(
		[]string{schema.KeyBlob, schema.KeyPacked}, []string{"true", "true"})}
}

// world is a table's surroundings: one data file, its sidecars, external
// objects, and a resolver.
type world struct {
	tb    testing.TB
	mem   *memory.CheckedAllocator
	store *fakeStore
	maps  *mappable // set when the owner's objects can be mapped
	owner *blob.Owner
	blobs *blob.Resolver
}

func newWorld(tb testing.TB) *world {
	tb.Helper()
	w := &world{tb: tb, mem: memory.NewCheckedAllocator(memory.DefaultAllocator), store: newFake()}
	w.own(w.store.at)
	w.blobs = blob.NewResolver(map[uint32]manifest.Base{7: {ID: 7, Path: "/base seven"}},
		func(_ context.Context, uri string) (objstore.Location, error) {
			return w.store.at(strings.TrimPrefix(strings.TrimPrefix(uri, "ext://"), "/")), nil
		})
	tb.Cleanup(func() { w.mem.AssertSize(tb, 0) })
	return w
}

// lend makes the owner's objects mappable.
func (w *world) lend() *mappable {
	w.maps = &mappable{fakeStore: w.store}
	w.own(w.maps.at)
	return w.maps
}

func (w *world) own(at func(string) objstore.Location) {
	w.owner = &blob.Owner{File: at("data/f.lance"), Key: "f", Dir: at("data"), Base: at("root"), Immutable: true}
}

// sidecar is the path of a sidecar of the owner.
func sidecar(id uint32) string { return "data/f/" + blob.SidecarName(id) }

// source makes a source of one batch per JSON text.
func (w *world) source(fields []arrow.Field, texts ...string) *source {
	w.tb.Helper()
	s := &source{schema: arrow.NewSchema(fields, nil)}
	t, err := newTree(s.schema, nil, schema.Materialized, false)
	if err != nil {
		w.tb.Fatal(err)
	}
	for _, text := range texts {
		rec, _, err := array.RecordFromJSON(w.mem, s.schema, strings.NewReader(text))
		if err != nil {
			w.tb.Fatalf("%v in %s", err, text)
		}
		s.batches = append(s.batches, rec)
		owners := make([]*blob.Owner, len(t.leaves))
		for i := range owners {
			owners[i] = w.owner
		}
		s.owners = append(s.owners, owners)
	}
	return s
}

// img is a source of one blob column and one batch.
func (w *world) img(rows string) *source {
	return w.source([]arrow.Field{descriptorField("img")}, rows)
}

// options are the given ones with a budget and the checked allocator.
func (w *world) options(o Options) Options {
	if o.Budget == nil {
		o.Budget = NewBudget(64 << 20)
	}
	o.Mem = w.mem
	return o
}

// start makes a reader and leaves the source to it.
func (w *world) start(ctx context.Context, src *source, o Options) array.RecordReader {
	w.tb.Helper()
	r, err := NewReader(ctx, src, w.blobs, w.options(o))
	src.Release()
	if err != nil {
		w.tb.Fatal(err)
	}
	return r
}

// run materializes a source and gives its batches as JSON, one line each, and
// the error that ended it. It checks that everything is given back.
func (w *world) run(src *source, o Options) ([]string, error) {
	w.tb.Helper()
	o = w.options(o)
	r, err := NewReader(w.tb.Context(), src, w.blobs, o)
	src.Release()
	if err != nil {
		return nil, err
	}
	lines, err := drain(w.tb, r)
	if src.refs.Load() != -1 {
		w.tb.Error("the source was not released")
	}
	if s := o.Budget.Stats(); s.InUse != 0 || s.Waiting != 0 {
		w.tb.Errorf("the budget is left with %+v", s)
	}
	return lines, err
}

// drain reads a reader to its end and releases it.
func drain(tb testing.TB, r array.RecordReader) ([]string, error) {
	tb.Helper()
	defer r.Release()
	var lines []string
	for r.Next() {
		rec := r.RecordBatch()
		if rec.NumRows() == 0 {
			tb.Error("an empty batch came out")
		}
		text, err := rec.MarshalJSON()
		if err != nil {
			tb.Fatal(err)
		}
		for _, c := range rec.Columns() {
			if v, ok := c.(interface{ ValidateFull() error }); ok {
				if err := v.ValidateFull(); err != nil {
					tb.Error(err)
				}
			}
		}
		lines = append(lines, strings.ReplaceAll(strings.TrimSpace(string(text)), "\n", ""))
	}
	return lines, r.Err()
}

// normal parses JSON for a comparison that ignores the order of keys.
func normal(tb testing.TB, text string) any {
	tb.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		tb.Fatalf("%v in %s", err, text)
	}
	return v
}
