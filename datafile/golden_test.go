package datafile_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"

	"github.com/flightblob/flightblob/datafile"
	"github.com/flightblob/flightblob/encoding"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/schema"
	"github.com/flightblob/flightblob/table/manifest"
)

// golden is a data file that the reference wrote, with what it reads as.
type golden struct {
	name     string
	manifest *manifest.Manifest
	data     []byte
	want     arrow.RecordBatch
}

func (g *golden) rows() uint64 { return g.manifest.Fragments[0].PhysicalRows }

func goldens(t testing.TB) []*golden {
	t.Helper()
	dirs, err := filepath.Glob("testdata/golden/*")
	if err != nil || len(dirs) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	var out []*golden
	for _, dir := range dirs {
		g := &golden{name: filepath.Base(dir)}
		if g.manifest, err = manifest.Decode(read(t, dir+"/manifest")); err != nil {
			t.Fatal(err)
		}
		g.data = read(t, dir+"/data.lance")
		f, err := os.Open(dir + "/expected.arrow")
		if err != nil {
			t.Fatal(err)
		}
		r, err := ipc.NewFileReader(f)
		if err != nil {
			t.Fatal(err)
		}
		if g.want, err = r.RecordBatch(0); err != nil {
			t.Fatal(err)
		}
		out = append(out, g)
	}
	return out
}

func read(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// bytesStore serves one object from memory and notes what was read.
type bytesStore struct {
	objstore.Store
	data []byte

	mu    sync.Mutex
	reads []encoding.Extent
}

func (s *bytesStore) ReadAt(_ context.Context, _ string, p []byte, off int64) error {
	if off < 0 || off > int64(len(s.data)) || int64(len(p)) > int64(len(s.data))-off {
		return fault.Corruptf(off, "read of %d bytes past the end", len(p))
	}
	copy(p, s.data[off:])
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads = append(s.reads, encoding.Extent{Offset: uint64(off), Size: uint64(len(p))})
	return nil
}

func (s *bytesStore) Size(context.Context, string) (int64, error) { return int64(len(s.data)), nil }
func (s *bytesStore) URI(path string) string                      { return path }

// open opens data as the golden's file.
func (g *golden) open(ctx context.Context, data []byte, cache *datafile.Cache) (*datafile.Reader, *bytesStore, error) {
	s := &bytesStore{data: data}
	r, err := datafile.Open(ctx, objstore.Location{Store: s, Path: "data.lance"}, int64(len(data)), datafile.Options{Rows: g.rows(), Cache: cache})
	return r, s, err
}

// column reads one top-level field.
func (g *golden) column(ctx context.Context, r *datafile.Reader, f *schema.Field, rows []encoding.Range) (arrow.Array, error) {
	file := &g.manifest.Fragments[0].Files[0]
	leaves := map[schema.FieldID]*encoding.Leaf{}
	for leaf := range g.manifest.Schema.Leaves() {
		path := leaf.Path()
		if path[0] != f {
			continue
		}
		ref := datafile.Leaf{Path: path, Columns: make([]int, len(path))}
		for i, p := range path {
			ref.Columns[i] = -1
			for k, id := range file.Fields {
				if id == p.ID {
					ref.Columns[i] = int(file.Columns[k])
				}
			}
		}
		got, err := r.ReadLeaves(ctx, []datafile.Leaf{ref}, rows)
		if err != nil {
			return nil, err
		}
		leaves[leaf.ID] = got[0]
	}
	n := 0
	for _, r := range rows {
		n += int(r.Len())
	}
	return encoding.Assemble(f, func(l *schema.Field) *encoding.Leaf { return leaves[l.ID] }, n)
}

// equal compares values, not the dictionaries behind them. It looks through
// arrays of its own: one makes its dictionary when first asked, under no lock.
func equal(a, b arrow.Array) bool {
	a, b = array.MakeFromData(a.Data()), array.MakeFromData(b.Data())
	da, ok := a.(*array.Dictionary)
	if !ok {
		return array.Equal(a, b) || a.DataType().ID() == arrow.STRUCT && sameText(a, b)
	}
	db, ok := b.(*array.Dictionary)
	if !ok || a.Len() != b.Len() {
		return false
	}
	for i := range a.Len() {
		if a.IsNull(i) != b.IsNull(i) || a.IsValid(i) && da.ValueStr(i) != db.ValueStr(i) {
			return false
		}
	}
	return true
}

// sameText compares structs as they print: what lies under null ones, which
// packed structs do not store, is free.
func sameText(a, b arrow.Array) bool {
	ta, err1 := a.MarshalJSON()
	tb, err2 := b.MarshalJSON()
	return err1 == nil && err2 == nil && arrow.TypeEqual(a.DataType(), b.DataType()) && bytes.Equal(ta, tb)
}

func TestGoldenColumns(t *testing.T) {
	t.Parallel()
	for _, g := range goldens(t) {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			cache := datafile.NewCache(1 << 20)
			r, _, err := g.open(t.Context(), g.data, cache)
			if err != nil {
				t.Fatal(err)
			}
			rng := rand.New(rand.NewPCG(1, 2))
			// All columns are read before any is compared: what was answered
			// must not lie in buffers that later reads use again.
			whole := make([]arrow.Array, len(g.manifest.Schema.Fields))
			for i, f := range g.manifest.Schema.Fields {
				if whole[i], err = g.column(t.Context(), r, f, []encoding.Range{{Start: 0, End: g.rows()}}); err != nil {
					t.Fatalf("%s: %v", f.Name, err)
				}
			}
			for i, f := range g.manifest.Schema.Fields {
				want := g.want.Column(i)
				if !equal(want, whole[i]) {
					t.Errorf("%s: got %v, want %v", f.Name, whole[i], want)
					continue
				}
				for range 20 {
					rows := randomRanges(rng, g.rows())
					got, err := g.column(t.Context(), r, f, rows)
					if err != nil {
						t.Errorf("%s %v: %v", f.Name, rows, err)
						break
					}
					if !equalRanges(want, got, rows) {
						t.Errorf("%s: rows %v differ: %v", f.Name, rows, got)
						break
					}
				}
			}
		})
	}
}

func randomRanges(rng *rand.Rand, n uint64) []encoding.Range {
	var rows []encoding.Range
	for at := rng.Uint64N(n); at < n; at += 1 + rng.Uint64N(n/2+1) {
		end := min(n, at+1+rng.Uint64N(1+rng.Uint64N(n)))
		rows = append(rows, encoding.Range{Start: at, End: end})
		at = end
	}
	return rows
}

func equalRanges(want, got arrow.Array, rows []encoding.Range) bool {
	at := int64(0)
	for _, r := range rows {
		w := array.NewSlice(want, int64(r.Start), int64(r.End))
		g := array.NewSlice(got, at, at+int64(r.Len()))
		if !equal(w, g) {
			return false
		}
		at += int64(r.Len())
	}
	return at == int64(got.Len())
}

// TestReadCost: metadata comes in at most two requests, and rows cost the
// chunks that hold them.
func TestReadCost(t *testing.T) {
	t.Parallel()
	for _, g := range goldens(t) {
		r, s, err := g.open(t.Context(), g.data, nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(s.reads) > 2 {
			t.Errorf("%s: opened in %d requests", g.name, len(s.reads))
		}
		if g.name != "codecs_22" {
			continue
		}
		s.reads = nil
		f := g.manifest.Schema.Fields[9] // 1500 plain int32 values
		if _, err := g.column(t.Context(), r, f, []encoding.Range{{Start: 3, End: 4}}); err != nil {
			t.Fatal(err)
		}
		total := uint64(0)
		for _, e := range s.reads {
			total += e.Size
		}
		if total > 5<<10 {
			t.Errorf("one row of %s read %d bytes", f.Name, total)
		}
	}
}

// TestDamage flips bytes all over the files. A reader answers with an error
// that names file and offset, or with rows of the right number and type; it
// never panics.
func TestDamage(t *testing.T) {
	t.Parallel()
	for _, g := range goldens(t) {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(3, 4))
			refused, rounds := 0, 120
			if g.rows() > 1000 {
				rounds = 30 // as much is decoded
			}
			for range rounds {
				data := append([]byte(nil), g.data...)
				for range 1 + rng.IntN(3) {
					data[rng.IntN(len(data))] ^= byte(1 + rng.IntN(255))
				}
				if g.readAll(t, data) != nil {
					refused++
				}
			}
			// The footer, tables and descriptions are a good part of these
			// small files: damage there cannot go unseen.
			if refused == 0 {
				t.Error("no damage was noticed")
			}
		})
	}
}

// readAll reads every column and gives the first error, checking its kind.
func (g *golden) readAll(t testing.TB, data []byte) error {
	t.Helper()
	ctx := context.Background()
	r, _, err := g.open(ctx, data, datafile.NewCache(1<<20))
	if err != nil {
		wellFormed(t, err)
		return err
	}
	var first error
	for _, f := range g.manifest.Schema.Fields {
		got, err := g.column(ctx, r, f, []encoding.Range{{Start: 1, End: 3}, {Start: 5, End: g.rows()}})
		if err != nil {
			wellFormed(t, err)
			first = err
			continue
		}
		if got.Len() != int(g.rows())-3 {
			t.Fatalf("%s: %d rows", f.Name, got.Len())
		}
	}
	return first
}

func wellFormed(t testing.TB, err error) {
	t.Helper()
	switch fault.KindOf(err) {
	case fault.Corrupt, fault.Unsupported, fault.Exhausted:
	default:
		t.Fatalf("damage gives a %s error: %v", fault.KindOf(err), err)
	}
}
