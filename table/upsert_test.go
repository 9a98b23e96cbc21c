package table_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/table"
	"github.com/flightblob/flightblob/table/tabletest"
)

// TestUpsertsBesideOtherCommits stores rows 10 to 29 over a table of rows 0 to
// 19 while others commit: the rows are matched anew in what is there then, and
// stored once.
func TestUpsertsBesideOtherCommits(t *testing.T) {
	t.Parallel()
	small := table.WriteOptions{RowsPerFile: 12}
	for name, c := range map[string]struct {
		other   func(ctx context.Context, tbl *table.Table) error
		rows    uint64 // 0 for a conflict
		updated uint64
	}{
		"nothing": {func(context.Context, *table.Table) error { return nil }, 30, 10},
		"appended rows that match": {func(ctx context.Context, tbl *table.Table) error {
			a, err := tbl.Append(ctx, "", pictures, small)
			return wrote(ctx, t, a, err, pictureRows(t, 25, 10))
		}, 35, 15},
		"removed rows that match": {func(ctx context.Context, tbl *table.Table) error {
			return mutated(ctx, tbl, []uint64{3, 11, 1 << 32}, nil)
		}, 29, 8},
		"upserted the same": {func(ctx context.Context, tbl *table.Table) error {
			return upserted(ctx, tbl, table.UpsertOptions{WriteOptions: small, On: []string{"id"}}, pictureRows(t, 10, 20))
		}, 30, 20},
		"added a column": {func(ctx context.Context, tbl *table.Table) error {
			return second(tbl.AddColumn(ctx, "", nil, arrow.Field{Name: "more", Type: arrow.PrimitiveTypes.Int8, Nullable: true}))
		}, 0, 0},
	} {
		for _, stable := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				m := objstore.NewMem("m")
				tbl := faulty(t, m, t.TempDir()+"/x")
				a, err := tbl.Create(t.Context(), pictures, table.CreateOptions{WriteOptions: small, StableRowIDs: stable})
				if err := wrote(t.Context(), t, a, err, pictureRows(t, 0, 20)); err != nil {
					t.Fatal(err)
				}
				u, err := tbl.Upsert(t.Context(), "", pictures, table.UpsertOptions{WriteOptions: small, On: []string{"id"}})
				if err != nil {
					t.Fatal(err)
				}
				defer u.Abort()
				rec := pictureRows(t, 10, 20)
				defer rec.Release()
				if err := u.Write(t.Context(), rec); err != nil {
					t.Fatal(err)
				}
				if err := c.other(t.Context(), tbl); err != nil {
					t.Fatal(err)
				}
				before := tabletest.At(t, tbl, table.Ref{})
				s, err := u.Commit(t.Context())
				if c.rows == 0 {
					if after := tabletest.At(t, tbl, table.Ref{}); fault.KindOf(err) != fault.Conflict || after.Version() != before.Version() {
						t.Errorf("version %d after %d: %v", after.Version(), before.Version(), err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if s.Rows() != c.rows || u.Updated() != c.updated {
					t.Errorf("%d rows, %d of them updated; want %d and %d", s.Rows(), u.Updated(), c.rows, c.updated)
				}
				held(t, tbl)
				distinctIDs(t, s)
			})
		}
	}
}

// distinctIDs checks that no two rows have the same row id, and none has one that
// is still to be given.
func distinctIDs(t *testing.T, s *table.Snapshot) {
	t.Helper()
	scan, err := s.Scan(t.Context(), table.ScanRequest{Columns: []string{table.RowID}})
	if err != nil {
		t.Fatal(err)
	}
	defer scan.Release()
	seen := map[uint64]bool{}
	for scan.Next() {
		for _, id := range scan.RecordBatch().Column(0).(*array.Uint64).Uint64Values() {
			if seen[id] || s.Manifest().StableRowIDs() && id >= s.Manifest().NextRowID {
				t.Errorf("row id %d is there twice, or not below %d", id, s.Manifest().NextRowID)
			}
			seen[id] = true
		}
	}
	if err := scan.Err(); err != nil {
		t.Error(err)
	}
}

// TestUpsertRefusals are inputs that are refused before they are stored, or before
// they are published; nothing of them is left.
func TestUpsertRefusals(t *testing.T) {
	t.Parallel()
	m := objstore.NewMem("m")
	tbl := faulty(t, m, t.TempDir()+"/x")
	if err := fallibles("")[0].write(t, t.Context(), tbl); err != nil {
		t.Fatal(err)
	}
	before := len(objectsOf(t, m))
	full := errors.New("full")
	twice := func() arrow.RecordBatch {
		a, b := pictureRows(t, 5, 3), pictureRows(t, 7, 1)
		defer a.Release()
		defer b.Release()
		columns := make([]arrow.Array, a.NumCols())
		for i := range columns {
			var err error
			if columns[i], err = array.Concatenate([]arrow.Array{a.Column(i), b.Column(i)}, memory.DefaultAllocator); err != nil {
				t.Fatal(err)
			}
		}
		return array.NewRecordBatch(pictures, columns, 4)
	}
	for name, c := range map[string]struct {
		o    table.UpsertOptions
		rec  func() arrow.RecordBatch
		kind fault.Kind
		text string
	}{
		"twice the same key": {table.UpsertOptions{On: []string{"id"}}, twice, fault.Invalid, "column id is 7 in rows 2 and 3"},
		"no key":             {table.UpsertOptions{}, twice, fault.Invalid, "key columns"},
		"a blob as key":      {table.UpsertOptions{On: []string{"img"}}, twice, fault.Invalid, "column img"},
		"a list as key":      {table.UpsertOptions{On: []string{"pages"}}, twice, fault.Invalid, "column pages"},
		"twice the same":     {table.UpsertOptions{On: []string{"id", "id"}}, twice, fault.Invalid, `"id" twice`},
		"an unknown key":     {table.UpsertOptions{On: []string{"ID"}}, twice, fault.Invalid, `no column "ID"`},
		"no memory for keys": {table.UpsertOptions{On: []string{"id"}, Hold: func(int64) error { return full }}, twice, fault.Internal, "full"},
	} {
		t.Run(name, func(t *testing.T) {
			err := upserted(t.Context(), tbl, c.o, c.rec())
			if err == nil || c.kind != fault.Internal && fault.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.text) {
				t.Errorf("%v", err)
			}
			if left := len(objectsOf(t, m)); left != before {
				t.Errorf("%d objects, %d before", left, before)
			}
		})
	}
}
