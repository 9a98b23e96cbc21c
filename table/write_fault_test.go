package table_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/flightblob/flightblob/blob"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/objstore/faultstore"
	"github.com/flightblob/flightblob/table"
	"github.com/flightblob/flightblob/table/tabletest"
)

// fallible is one way to write; a store call of it fails.
type fallible struct {
	name   string
	absent bool // begins without a table
	write  func(t *testing.T, ctx context.Context, tbl *table.Table) error
	rows   []int64 // ids afterwards
}

func ids(ranges ...[2]int64) (out []int64) {
	for _, r := range ranges {
		for i := r[0]; i < r[1]; i++ {
			out = append(out, i)
		}
	}
	return out
}

// wrote writes a batch and commits.
func wrote(ctx context.Context, t *testing.T, a *table.Appender, err error, rec arrow.RecordBatch) error {
	t.Helper()
	defer rec.Release()
	if err != nil {
		return err
	}
	defer a.Abort()
	if err := a.Write(ctx, rec); err != nil {
		return err
	}
	_, err = a.Commit(ctx)
	return err
}

// references are rows 100 and 105, whose values are in a file beside the table.
func references(t *testing.T, uri string) arrow.RecordBatch {
	t.Helper()
	b := array.NewRecordBuilder(memory.DefaultAllocator, pictures)
	defer b.Release()
	for i := range int64(2) {
		b.Field(0).(*array.Int64Builder).Append(100 + 5*i)
		img := b.Field(1).(*array.StructBuilder)
		img.Append(true)
		img.FieldBuilder(0).AppendNull()
		img.FieldBuilder(1).(*array.StringBuilder).Append(uri)
		b.Field(2).AppendNull()
	}
	return b.NewRecordBatch()
}

func fallibles(uri string) []fallible {
	small := table.WriteOptions{RowsPerFile: 12}
	return []fallible{
		{"create", true, func(t *testing.T, ctx context.Context, tbl *table.Table) error {
			a, err := tbl.Create(ctx, pictures, table.CreateOptions{WriteOptions: small})
			return wrote(ctx, t, a, err, pictureRows(t, 0, 20))
		}, ids([2]int64{0, 20})},
		{"append", false, func(t *testing.T, ctx context.Context, tbl *table.Table) error {
			a, err := tbl.Append(ctx, "", pictures, small)
			return wrote(ctx, t, a, err, pictureRows(t, 20, 20))
		}, ids([2]int64{0, 40})},
		{"overwrite", false, func(t *testing.T, ctx context.Context, tbl *table.Table) error {
			a, err := tbl.Overwrite(ctx, "", pictures, table.CreateOptions{WriteOptions: small})
			return wrote(ctx, t, a, err, pictureRows(t, 50, 20))
		}, ids([2]int64{50, 70})},
		{"one value", false, func(t *testing.T, ctx context.Context, tbl *table.Table) error {
			a, err := tbl.Append(ctx, "", pictures, table.WriteOptions{})
			if err != nil {
				return err
			}
			defer a.Abort()
			rec := pictureRows(t, 20, 1)
			defer rec.Release()
			value := picture(20)
			if err := a.WriteStream(ctx, rec, "img", io.LimitReader(bytes.NewReader(value), int64(len(value))), uint64(len(value))); err != nil {
				return err
			}
			_, err = a.Commit(ctx)
			return err
		}, ids([2]int64{0, 21})},
		{"ingest", false, func(t *testing.T, ctx context.Context, tbl *table.Table) error {
			a, err := tbl.Append(ctx, "", pictures, table.WriteOptions{URIs: blob.Ingest})
			return wrote(ctx, t, a, err, references(t, uri))
		}, ids([2]int64{0, 20}, [2]int64{100, 101}, [2]int64{105, 106})},
		{"delete", false, func(_ *testing.T, ctx context.Context, tbl *table.Table) error {
			return mutated(ctx, tbl, []uint64{2, 3, 1 << 32, 1<<32 | 1, 1<<32 | 2, 1<<32 | 3, 1<<32 | 4, 1<<32 | 5, 1<<32 | 6, 1<<32 | 7}, nil)
		}, ids([2]int64{0, 2}, [2]int64{4, 12})},
		{"upsert", false, func(t *testing.T, ctx context.Context, tbl *table.Table) error {
			return upserted(ctx, tbl, table.UpsertOptions{WriteOptions: small, On: []string{"id"}}, pictureRows(t, 10, 20))
		}, ids([2]int64{0, 30})},
		{"upsert of a column", false, func(t *testing.T, ctx context.Context, tbl *table.Table) error {
			some := pictureRows(t, 3, 12)
			defer some.Release()
			fields := []arrow.Field{pictures.Field(2), pictures.Field(0)}
			part := array.NewRecordBatch(arrow.NewSchema(fields, nil), []arrow.Array{some.Column(2), some.Column(0)}, some.NumRows())
			return upserted(ctx, tbl, table.UpsertOptions{WriteOptions: small, On: []string{"id"}}, part)
		}, ids([2]int64{0, 20})},
		{"update", false, func(t *testing.T, ctx context.Context, tbl *table.Table) error {
			moved, added := pictureRows(t, 10, 3), pictureRows(t, 20, 4)
			defer moved.Release()
			defer added.Release()
			return mutated(ctx, tbl, []uint64{10, 11, 1 << 32}, func(m *table.Mutation) error {
				if err := m.Replace(ctx, moved, []uint64{10, 11, 1 << 32}, small); err != nil {
					return err
				}
				return m.Insert(ctx, added, small)
			})
		}, ids([2]int64{0, 24})},
	}
}

// upserted writes a batch over the rows of its ids.
func upserted(ctx context.Context, tbl *table.Table, o table.UpsertOptions, rec arrow.RecordBatch) error {
	defer rec.Release()
	u, err := tbl.Upsert(ctx, "", rec.Schema(), o)
	if err != nil {
		return err
	}
	defer u.Abort()
	if err := u.Write(ctx, rec); err != nil {
		return err
	}
	_, err = u.Commit(ctx)
	return err
}

// mutated removes rows and writes others.
func mutated(ctx context.Context, tbl *table.Table, addresses []uint64, write func(*table.Mutation) error) error {
	m, err := tbl.Mutate(ctx, "")
	if err != nil {
		return err
	}
	defer m.Abort()
	if _, err := m.Remove(addresses); err != nil {
		return err
	}
	if write != nil {
		if err := write(m); err != nil {
			return err
		}
	}
	_, err = m.Commit(ctx, table.MutationOptions{})
	return err
}

// held are the ids of the newest version, nil without a table. Every version
// must open, and every value be the one that was written.
func held(t *testing.T, tbl *table.Table) []int64 {
	t.Helper()
	found, err := tbl.Exists(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !found {
		return nil
	}
	newest := tabletest.At(t, tbl, table.Ref{})
	for v := uint64(1); v <= newest.Version(); v++ {
		tabletest.At(t, tbl, table.Ref{Version: v})
	}
	rows := map[int64][]byte{}
	for id, value := range readPictures(t, newest) {
		want := picture(int(id))
		if id >= 100 {
			want = outside
		}
		if !bytes.Equal(value, want) {
			t.Errorf("row %d has %d bytes, want %d", id, len(value), len(want))
		}
		rows[id] = value
	}
	return slices.Sorted(maps.Keys(rows))
}

var outside = bytes.Repeat([]byte("outside"), 20)

// faulty gives a table in a store to a process of its own, which may read the
// folder of a file.
func faulty(t *testing.T, s objstore.Store, file string) *table.Table {
	t.Helper()
	env, _ := environment(t, filepath.Dir(file))
	return table.New(env, objstore.Location{Store: s, Path: "t.lance"}, "t")
}

func objectsOf(t *testing.T, m objstore.Store) (paths []string) {
	t.Helper()
	for o, err := range objstore.Walk(t.Context(), objstore.Location{Store: m, Path: "t.lance"}) {
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, o.Name)
	}
	slices.Sort(paths)
	return paths
}

// TestWritesSurviveEachFailure lets every single call of a store fail during
// every kind of write. What was there stays whole and readable, the same write
// works afterwards, and what a killed process leaves goes with a cleanup by
// pylance.
func TestWritesSurviveEachFailure(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "outside.bin")
	if err := os.WriteFile(file, outside, 0o600); err != nil {
		t.Fatal(err)
	}
	filled := objstore.NewMem("m")
	if err := fallibles("")[0].write(t, t.Context(), faulty(t, filled, file)); err != nil {
		t.Fatal(err)
	}
	session := tabletest.StartSession(t)
	for _, w := range fallibles("file://" + file) {
		start, before := filled, ids([2]int64{0, 20})
		if w.absent {
			start, before = objstore.NewMem("m"), nil
		}
		for how, plan := range map[string]faultstore.Plan{
			"refused": {How: faultstore.Refused}, "lost": {How: faultstore.Lost}, "unanswered": {How: faultstore.Unanswered},
			"cancelled": {How: faultstore.Cancelled}, "killed": {How: faultstore.Refused, Forever: true},
		} {
			for n := 1; ; n++ {
				ctx, cancel := context.WithCancel(t.Context())
				m, plan := start.CrashClone(), plan
				plan.Call, plan.Cancel = n, cancel
				s := faultstore.New(m, plan)
				err := w.write(t, ctx, faulty(t, s, file))
				cancel()
				left := m.CrashClone()
				got := held(t, faulty(t, left, file))
				if !s.Failed() {
					if err != nil || !slices.Equal(got, w.rows) {
						t.Errorf("%s without a failure: %v, rows %v", w.name, err, got)
					}
					if n < 8 {
						t.Errorf("%s made only %d calls", w.name, n)
					}
					break
				}
				call := fmt.Sprintf("%s, %s at %s", w.name, how, s.Calls()[n-1])
				switch {
				case slices.Equal(got, w.rows): // published
					if err != nil && !errors.Is(err, objstore.ErrUncertain) && how != "killed" && how != "cancelled" &&
						fault.KindOf(err) != fault.Unavailable {
						t.Errorf("%s: %v", call, err)
					}
				case err == nil:
					t.Errorf("%s: success, but rows %v", call, got)
				case !slices.Equal(got, before):
					t.Errorf("%s: rows %v, neither before nor after", call, got)
				default:
					if how == "refused" || how == "cancelled" {
						op := s.Calls()[n-1].Op
						if rest := objectsOf(t, left); op != faultstore.Abort && op != faultstore.Delete && !slices.Equal(rest, objectsOf(t, start)) {
							t.Errorf("%s: %v are left of\n%s", call, beyond(rest, objectsOf(t, start)), s.Trace())
						}
					}
					if err := w.write(t, t.Context(), faulty(t, left, file)); err != nil {
						t.Errorf("%s: again: %v", call, err)
					}
					if got := held(t, faulty(t, left, file)); !slices.Equal(got, w.rows) {
						t.Errorf("%s: again: rows %v", call, got)
					}
				}
				if how == "killed" && len(objectsOf(t, left)) > 0 {
					cleansUp(t, session, left, call)
				}
			}
		}
	}
}

func beyond(all, some []string) (rest []string) {
	for _, s := range all {
		if !slices.Contains(some, s) {
			rest = append(rest, s)
		}
	}
	return rest
}

// cleansUp lets pylance clean up a copy of a table and looks for data that no
// fragment of the newest version has.
func cleansUp(t *testing.T, session *tabletest.Session, m *objstore.Mem, call string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "t.lance")
	for _, path := range objectsOf(t, m) {
		data, err := objstore.ReadAll(t.Context(), objstore.Location{Store: m, Path: "t.lance/" + strings.TrimPrefix(path, "t.lance/")}, 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(dir, strings.TrimPrefix(path, "t.lance/"))
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var stray []string
	if problem := session.Try(&stray, fmt.Sprintf(`
import datetime, lance, pathlib
path = pathlib.Path(%q)
lance.dataset(str(path)).cleanup_old_versions(older_than=datetime.timedelta(0), delete_unverified=True)
kept = {d.path.removesuffix(".lance") for f in lance.dataset(str(path)).get_fragments() for d in f.data_files()}
[str(f) for f in (path / "data").rglob("*") if f.is_file() and f.relative_to(path / "data").parts[0].removesuffix(".lance") not in kept]
`, dir)); problem != "" {
		t.Errorf("%s: pylance: %s", call, problem)
	}
	if len(stray) > 0 {
		t.Errorf("%s: pylance's cleanup leaves %v", call, stray)
	}
}
