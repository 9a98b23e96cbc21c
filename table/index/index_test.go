package index

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"

	"github.com/flightblob/flightblob/datafile"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
)

// searcher is either kind of index.
type searcher interface {
	Search(ctx context.Context, test Test, most uint64) (Rows, error)
	Size() int64
}

// memory is a folder of files.
type memory map[string][]byte

func (m memory) open(ctx context.Context, name string) (*datafile.Reader, error) {
	data, ok := m[name]
	if !ok {
		return nil, fault.New(fault.NotFound, "no file %s", name)
	}
	return datafile.Open(ctx, objstore.Location{Store: object{data: data}, Path: name}, int64(len(data)), datafile.Options{Describe: true})
}

// object is a store with one object, which is only read.
type object struct {
	objstore.Store
	data []byte
}

func (o object) URI(path string) string { return path }

func (o object) Size(context.Context, string) (int64, error) { return int64(len(o.data)), nil }

func (o object) ReadAt(_ context.Context, _ string, p []byte, off int64) error {
	if off < 0 || off > int64(len(o.data)) || int64(len(p)) > int64(len(o.data))-off {
		return fault.Corruptf(off, "read past the end")
	}
	copy(p, o.data[off:])
	return nil
}

func load(tb testing.TB, dir string) memory {
	tb.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.lance"))
	if err != nil || len(files) == 0 {
		tb.Fatalf("%s: %v", dir, err)
	}
	m := memory{}
	for _, f := range files {
		if m[filepath.Base(f)], err = os.ReadFile(f); err != nil {
			tb.Fatal(err)
		}
	}
	return m
}

func openIndex(ctx context.Context, kind string, m memory, dt arrow.DataType) (searcher, error) {
	if kind == "bitmap" {
		b, err := OpenBitmap(ctx, m.open, 0, dt)
		if err != nil {
			return nil, err
		}
		return b, nil
	}
	b, err := OpenBTree(ctx, m.open, 0, dt)
	if err != nil {
		return nil, err
	}
	return b, nil
}

// columns of testdata, as they were indexed.
func goldenColumns(tb testing.TB) arrow.RecordBatch {
	tb.Helper()
	f, err := os.Open("testdata/columns.arrow")
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	r, err := ipc.NewFileReader(f)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { r.Close() })
	batch, err := r.RecordBatch(0)
	if err != nil || r.NumRecords() != 1 {
		tb.Fatalf("%d batches: %v", r.NumRecords(), err)
	}
	return batch
}

// fragmentRows is the length of the fragments that were indexed.
const fragmentRows = 100

func address(row int) uint64 { return uint64(row/fragmentRows)<<32 | uint64(row%fragmentRows) }

// TestGolden searches indexes of the reference and compares with the columns.
func TestGolden(t *testing.T) {
	t.Parallel()
	batch := goldenColumns(t)
	for i, field := range batch.Schema().Fields() {
		column, err := valuesOf(batch.Column(i))
		if err != nil {
			t.Fatal(err)
		}
		var distinct []Value
		for k := range column.len() {
			if v := column.end(k); v != nil {
				distinct = append(distinct, *v)
			}
		}
		for _, kind := range []string{"btree", "bitmap"} {
			t.Run(kind+" "+field.Name, func(t *testing.T) {
				x, err := openIndex(t.Context(), kind, load(t, filepath.Join("testdata", kind, field.Name)), field.Type)
				if err != nil {
					t.Fatal(err)
				}
				if x.Size() < 1000 {
					t.Errorf("an open index is said to take %d bytes", x.Size())
				}
				r := rand.New(rand.NewPCG(7, uint64(i)))
				tests := []Test{NewTest(True), NewTest(Unknown), NewTest(False, Interval{}), NewTest(True, Interval{})}
				for range 300 {
					if len(distinct) > 0 {
						tests = append(tests, around(r, distinct))
					}
				}
				for _, test := range tests {
					var want []uint64
					for k := range column.len() {
						if column.matches(test, k) {
							want = append(want, address(k))
						}
					}
					rows, err := x.Search(t.Context(), test, 1<<20)
					if err != nil {
						t.Fatalf("%v: %v", test, err)
					}
					var got []uint64
					for _, part := range rows.Ranges() {
						for v := part.Start; v < part.End; v++ {
							got = append(got, v)
						}
					}
					// Pages are taken whole where only NaN might lie outside.
					if kind == "btree" && KindMust(field.Type) == Float {
						for _, v := range want {
							if !slices.Contains(got, v) {
								t.Fatalf("%v: row %d is missing of %v", test, v, want)
							}
						}
					} else if !slices.Equal(got, want) {
						t.Fatalf("%v: rows %v, want %v", test, got, want)
					}
					if len(want) > 1 {
						if _, err := x.Search(t.Context(), test, uint64(len(want)-1)); !errors.Is(err, ErrMany) {
							t.Fatalf("%v: %d rows of at most %d: %v", test, len(want), len(want)-1, err)
						}
					}
				}
			})
		}
	}
}

// KindMust is KindOf of a type that it knows.
func KindMust(dt arrow.DataType) Kind {
	k, ok := KindOf(dt)
	if !ok {
		panic(dt)
	}
	return k
}

// around makes a test whose ends are values of a column.
func around(r *rand.Rand, distinct []Value) Test {
	pick := func() *Value {
		if r.IntN(5) == 0 {
			return nil
		}
		return &distinct[r.IntN(len(distinct))]
	}
	var intervals []Interval
	for range 1 + r.IntN(3) {
		if r.IntN(2) == 0 {
			intervals = append(intervals, Point(distinct[r.IntN(len(distinct))]))
			continue
		}
		in := Interval{Low: pick(), High: pick(), LowOpen: r.IntN(2) == 0, HighOpen: r.IntN(2) == 0}
		if in.Low != nil && in.High != nil && in.Low.Compare(*in.High) > 0 {
			in.Low, in.High = in.High, in.Low
		}
		intervals = append(intervals, in)
	}
	return NewTest(Truth(r.IntN(3)), intervals...)
}

// TestRefused has indexes that are not what they should be.
func TestRefused(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	good := load(t, "testdata/btree/int64")
	int64s := arrow.PrimitiveTypes.Int64
	expect := func(what string, err error, kinds ...fault.Kind) {
		t.Helper()
		if err == nil || !slices.Contains(kinds, fault.KindOf(err)) {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err := OpenBTree(ctx, good.open, 2, int64s)
	expect("a newer B-tree", err, fault.Unsupported)
	_, err = OpenBitmap(ctx, load(t, "testdata/bitmap/int64").open, 1, int64s)
	expect("a newer bitmap index", err, fault.Unsupported)
	_, err = OpenBTree(ctx, good.open, 0, arrow.PrimitiveTypes.Int32)
	expect("values of another type", err, fault.Unsupported)
	_, err = OpenBTree(ctx, memory{lookupFile: good[lookupFile]}.open, 0, int64s)
	expect("no pages", err, fault.NotFound)
	_, err = OpenBTree(ctx, memory{lookupFile: good[pagesFile], pagesFile: good[pagesFile]}.open, 0, int64s)
	expect("a file of other columns", err, fault.Unsupported)
	_, err = OpenBTree(ctx, memory{lookupFile: good[lookupFile], pagesFile: load(t, "testdata/btree/null")[pagesFile]}.open, 0, int64s)
	expect("pages of another index", err, fault.Unsupported)
	partitioned := slices.Clone(good[lookupFile])
	at := slices.Index(partitioned, 'f')
	for i := range partitioned {
		if string(partitioned[i:min(len(partitioned), i+5)]) == "false" {
			at = i
			copy(partitioned[at:], "sliced")
		}
	}
	if at < 0 {
		t.Fatal("no mark of partitions")
	}
	_, err = OpenBTree(ctx, memory{lookupFile: partitioned, pagesFile: good[pagesFile]}.open, 0, int64s)
	expect("partitions", err, fault.Unsupported, fault.Corrupt)
}

// TestDamaged cuts and changes bytes: a search answers or tells, and never
// panics.
func TestDamaged(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(8, 9))
	for _, kind := range []string{"btree", "bitmap"} {
		good := load(t, filepath.Join("testdata", kind, "string"))
		for name, data := range good {
			for range 400 {
				bad := slices.Clone(data)
				if r.IntN(8) == 0 {
					bad = bad[:r.IntN(len(bad))]
				}
				for range 1 + r.IntN(3) {
					if len(bad) > 0 {
						bad[r.IntN(len(bad))] ^= byte(1 << r.IntN(8))
					}
				}
				m := memory{}
				for k, v := range good {
					m[k] = v
				}
				m[name] = bad
				if err := exercise(t.Context(), kind, m, arrow.BinaryTypes.String); err != nil {
					t.Fatalf("%s of %s: %v", name, kind, err)
				}
			}
		}
	}
}

// exercise opens and searches an index that may be damaged, and complains of
// errors of a wrong kind.
func exercise(ctx context.Context, kind string, m memory, dt arrow.DataType) error {
	x, err := openIndex(ctx, kind, m, dt)
	if err == nil {
		a, b := String("a"), String("name 5")
		for _, test := range []Test{NewTest(True), NewTest(False, Interval{}), NewTest(Unknown, Interval{Low: &a, High: &b}), NewTest(Unknown, Point(a))} {
			if _, err = x.Search(ctx, test, 1000); err != nil {
				break
			}
		}
	}
	switch fault.KindOf(err) {
	case fault.Corrupt, fault.Unsupported, fault.Exhausted, fault.NotFound:
		return nil
	}
	if err != nil {
		return fmt.Errorf("kind %v: %w", fault.KindOf(err), err)
	}
	return nil
}

func FuzzBTree(f *testing.F) {
	for _, name := range []string{"string", "null"} {
		m := load(f, filepath.Join("testdata", "btree", name))
		f.Add(m[lookupFile], m[pagesFile])
	}
	f.Fuzz(func(t *testing.T, lookup, pages []byte) {
		if err := exercise(t.Context(), "btree", memory{lookupFile: lookup, pagesFile: pages}, arrow.BinaryTypes.String); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzBitmap(f *testing.F) {
	for _, name := range []string{"string", "null"} {
		f.Add(load(f, filepath.Join("testdata", "bitmap", name))[keysFile])
	}
	f.Fuzz(func(t *testing.T, keys []byte) {
		if err := exercise(t.Context(), "bitmap", memory{keysFile: keys}, arrow.BinaryTypes.String); err != nil {
			t.Fatal(err)
		}
	})
}
