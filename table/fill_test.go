package table_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/objstore/faultstore"
	"github.com/flightblob/flightblob/table"
	"github.com/flightblob/flightblob/table/tabletest"
)

// filledBy is a column that holds ten times the address of each row. during is
// called once, while values are computed.
func filledBy(column arrow.Field, during func(context.Context) error) table.Filling {
	input := arrow.NewSchema([]arrow.Field{column}, nil)
	return table.Filling{Column: column, Input: input, Values: func(ctx context.Context, of *table.Snapshot, fragments []uint64, write func([]uint64, arrow.RecordBatch) error) error {
		wanted := map[uint64]bool{}
		for _, id := range fragments {
			wanted[id] = true
		}
		scan, err := of.Scan(ctx, table.ScanRequest{Columns: []string{table.RowAddr}, BatchRows: 5})
		if err != nil {
			return err
		}
		defer scan.Release()
		for scan.Next() {
			addresses := scan.RecordBatch().Column(0).(*array.Uint64).Uint64Values()
			if !wanted[addresses[0]>>32] {
				continue
			}
			b := array.NewInt64Builder(memory.DefaultAllocator)
			for _, a := range addresses {
				b.Append(int64(10 * a))
			}
			values := b.NewArray()
			batch := array.NewRecordBatch(input, []arrow.Array{values}, int64(len(addresses)))
			err := write(addresses, batch)
			batch.Release()
			values.Release()
			b.Release()
			if err != nil {
				return err
			}
		}
		if during != nil {
			d := during
			during = nil
			return errors.Join(scan.Err(), d(ctx))
		}
		return scan.Err()
	}}
}

var tens = arrow.Field{Name: "tens", Type: arrow.PrimitiveTypes.Int64, Nullable: true}

// checkFilled reads the column: every row has its value, the one that it had
// where it was when the column was added.
func checkFilled(t *testing.T, s *table.Snapshot) {
	t.Helper()
	scan, err := s.Scan(t.Context(), table.ScanRequest{Columns: []string{"tens", table.RowAddr}})
	if err != nil {
		t.Fatal(err)
	}
	defer scan.Release()
	for scan.Next() {
		values, addresses := scan.RecordBatch().Column(0).(*array.Int64), scan.RecordBatch().Column(1).(*array.Uint64)
		for i := range values.Len() {
			if values.IsNull(i) || values.Value(i) != int64(10*addresses.Value(i)) {
				t.Errorf("row %d has %s", addresses.Value(i), values.ValueStr(i))
			}
		}
	}
	if err := scan.Err(); err != nil {
		t.Error(err)
	}
}

// TestFilledColumnsBesideOtherCommits checks RWR-8: values reach every row, those
// in fragments of others, too, and what was deleted or moved meanwhile.
func TestFilledColumnsBesideOtherCommits(t *testing.T) {
	t.Parallel()
	small := table.WriteOptions{RowsPerFile: 12}
	for name, c := range map[string]struct {
		during   func(ctx context.Context, tbl *table.Table) error
		rows     uint64
		conflict bool
	}{
		"nothing": {func(context.Context, *table.Table) error { return nil }, 17, false},
		"appended": {func(ctx context.Context, tbl *table.Table) error {
			a, err := tbl.Append(ctx, "", pictures, small)
			return wrote(ctx, t, a, err, pictureRows(t, 25, 20))
		}, 37, false},
		"removed": {func(ctx context.Context, tbl *table.Table) error {
			return mutated(ctx, tbl, []uint64{4, 1<<32 | 2}, nil)
		}, 15, false},
		"replaced": {func(ctx context.Context, tbl *table.Table) error {
			return upserted(ctx, tbl, table.UpsertOptions{WriteOptions: small, On: []string{"id"}}, pictureRows(t, 10, 20))
		}, 29, false},
		"removed a fragment": {func(ctx context.Context, tbl *table.Table) error {
			return mutated(ctx, tbl, []uint64{0, 2, 3, 4, 5, 6, 7, 8, 9, 10}, nil)
		}, 7, false},
		"added another column": {func(ctx context.Context, tbl *table.Table) error {
			return second(tbl.AddColumn(ctx, "", nil, arrow.Field{Name: "more", Type: arrow.PrimitiveTypes.Int8, Nullable: true}))
		}, 17, false},
		"added the same column": {func(ctx context.Context, tbl *table.Table) error {
			return second(tbl.AddColumn(ctx, "", nil, tens))
		}, 17, true},
	} {
		for _, nullable := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, nullable %v", name, nullable), func(t *testing.T) {
				t.Parallel()
				m := objstore.NewMem("m")
				tbl := faulty(t, m, t.TempDir()+"/x")
				if err := fallibles("")[0].write(t, t.Context(), tbl); err != nil {
					t.Fatal(err)
				}
				if err := mutated(t.Context(), tbl, []uint64{1, 11, 1 << 32}, nil); err != nil {
					t.Fatal(err)
				}
				column := tens
				column.Nullable = nullable
				s, err := tbl.AddFilledColumn(t.Context(), "", filledBy(column, func(ctx context.Context) error { return c.during(ctx, tbl) }))
				if c.conflict {
					if err == nil {
						t.Error("no error")
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if s.Rows() != c.rows {
					t.Errorf("%d rows, want %d", s.Rows(), c.rows)
				}
				checkFilled(t, s)
				if files := s.Fragments()[0].Files; len(files) != 2 {
					t.Errorf("a fragment has the files %v", files)
				}
			})
		}
	}
}

// TestFillsThatAreRefused are values that are not one for each row, and nulls
// where there must be none.
func TestFillsThatAreRefused(t *testing.T) {
	t.Parallel()
	m := objstore.NewMem("m")
	tbl := faulty(t, m, t.TempDir()+"/x")
	if err := fallibles("")[0].write(t, t.Context(), tbl); err != nil {
		t.Fatal(err)
	}
	before := len(objectsOf(t, m))
	for name, addresses := range map[string][]uint64{
		"none": {}, "twice the same": {0, 0}, "backwards": {1, 0}, "of no fragment": {7 << 32}, "behind the end": {0, 12}, "too few": {0, 1, 2},
	} {
		f := filledBy(tens, nil)
		f.Values = func(_ context.Context, _ *table.Snapshot, _ []uint64, write func([]uint64, arrow.RecordBatch) error) error {
			a := array.MakeArrayOfNull(memory.DefaultAllocator, tens.Type, len(addresses))
			defer a.Release()
			batch := array.NewRecordBatch(f.Input, []arrow.Array{a}, int64(len(addresses)))
			defer batch.Release()
			return write(addresses, batch)
		}
		if _, err := tbl.AddFilledColumn(t.Context(), "", f); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%s: %v", name, err)
		}
		if left := len(objectsOf(t, m)); left != before {
			t.Errorf("%s: %d objects, %d before", name, left, before)
		}
	}
	if s := tabletest.At(t, tbl, table.Ref{}); s.Version() != 1 {
		t.Errorf("version %d", s.Version())
	}
}

// TestFillsSurviveEachFailure lets every single call of a store fail while a
// column is added with values: it is there with all of them, or nothing is.
func TestFillsSurviveEachFailure(t *testing.T) {
	t.Parallel()
	filled := objstore.NewMem("m")
	file := t.TempDir() + "/x"
	if err := fallibles("")[0].write(t, t.Context(), faulty(t, filled, file)); err != nil {
		t.Fatal(err)
	}
	before := objectsOf(t, filled)
	for name, how := range map[string]faultstore.How{
		"refused": faultstore.Refused, "lost": faultstore.Lost, "unanswered": faultstore.Unanswered,
	} {
		for n := 1; ; n++ {
			m := filled.CrashClone()
			s := faultstore.New(m, faultstore.Plan{How: how, Call: n})
			_, err := faulty(t, s, file).AddFilledColumn(t.Context(), "", filledBy(tens, nil))
			tbl := faulty(t, m.CrashClone(), file)
			after := tabletest.At(t, tbl, table.Ref{})
			if got := held(t, tbl); len(got) != 20 {
				t.Errorf("%s at %d: rows %v", name, n, got)
			}
			there := after.HasColumn([]string{"tens"})
			if there {
				checkFilled(t, after)
			}
			if !s.Failed() {
				if err != nil || !there || n < 8 {
					t.Errorf("%s: after %d calls without a failure: %v", name, n, err)
				}
				break
			}
			call := fmt.Sprintf("%s at %s", name, s.Calls()[n-1])
			if op := s.Calls()[n-1].Op; !there && how == faultstore.Refused && op != faultstore.Abort && op != faultstore.Delete {
				if rest := beyond(objectsOf(t, m), before); len(rest) > 0 {
					t.Errorf("%s: %v are left of\n%s", call, rest, s.Trace())
				}
			}
			if err == nil && !there {
				t.Errorf("%s: success, but no column", call)
			}
			if !there {
				if _, err := tbl.AddFilledColumn(t.Context(), "", filledBy(tens, nil)); err != nil {
					t.Errorf("%s: again: %v", call, err)
				}
			}
		}
	}
}
