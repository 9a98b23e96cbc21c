package table_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/table"
	"github.com/flightblob/flightblob/table/tabletest"
)

// TestMutationsBesideOtherCommits commits an update of rows 1 and 2, which
// removes row 12 and inserts rows 30 to 32, after what others did to the same
// version (table-format sheet section 4.4): it comes through with all of it, or is
// a conflict and leaves what they did.
func TestMutationsBesideOtherCommits(t *testing.T) {
	t.Parallel()
	small := table.WriteOptions{RowsPerFile: 12}
	third := pictures.Field(2).Name
	nullable := arrow.Field{Name: "more", Type: arrow.PrimitiveTypes.Int8, Nullable: true}
	type other = func(ctx context.Context, tbl *table.Table) error
	remove := func(addresses ...uint64) other {
		return func(ctx context.Context, tbl *table.Table) error { return mutated(ctx, tbl, addresses, nil) }
	}
	appended := func(ctx context.Context, tbl *table.Table) error {
		a, err := tbl.Append(ctx, "", pictures, small)
		return wrote(ctx, t, a, err, pictureRows(t, 20, 5))
	}
	for name, c := range map[string]struct {
		others    []other
		unmatched bool
		rows      uint64 // 0 for a conflict
		newRows   bool
	}{
		"nothing":                        {unmatched: true, rows: 22},
		"appended":                       {others: []other{appended}, rows: 27},
		"appended, where new rows count": {others: []other{appended}, unmatched: true, newRows: true},
		"removed other rows":             {others: []other{remove(0, 5), remove(1<<32|1, 3)}, unmatched: true, rows: 18},
		"removed the rest of a fragment": {others: []other{remove(1<<32|1, 1<<32|2, 1<<32|3, 1<<32|4, 1<<32|5, 1<<32|6, 1<<32|7)}, rows: 15},
		"removed a row that is updated":  {others: []other{remove(0), remove(5, 2)}},
		"removed a row that is removed":  {others: []other{remove(1 << 32)}},
		"dropped a column": {others: []other{func(ctx context.Context, tbl *table.Table) error {
			return second(tbl.DropColumn(ctx, "", []string{third}))
		}}, rows: 22},
		"renamed a column": {others: []other{func(ctx context.Context, tbl *table.Table) error {
			return second(tbl.RenameColumn(ctx, "", []string{third}, "x"))
		}}, rows: 22},
		"added a column": {others: []other{func(ctx context.Context, tbl *table.Table) error {
			return second(tbl.AddColumn(ctx, "", nil, nullable))
		}}},
		"forbade nulls, which may be among ours": {others: []other{func(ctx context.Context, tbl *table.Table) error {
			return second(tbl.SetNullable(ctx, "", []string{"id"}, false))
		}}},
		"removed all rows": {others: []other{func(ctx context.Context, tbl *table.Table) error {
			m, err := tbl.Mutate(ctx, "")
			if err != nil {
				return err
			}
			m.RemoveAll()
			return second(m.Commit(ctx, table.MutationOptions{}))
		}}},
		"replaced all, after something harmless": {others: []other{remove(9), func(ctx context.Context, tbl *table.Table) error {
			a, err := tbl.Overwrite(ctx, "", pictures, table.CreateOptions{WriteOptions: small})
			return wrote(ctx, t, a, err, pictureRows(t, 50, 20))
		}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := objstore.NewMem("m")
			tbl := faulty(t, m, t.TempDir()+"/x")
			if err := fallibles("")[0].write(t, t.Context(), tbl); err != nil {
				t.Fatal(err)
			}
			ours, err := tbl.Mutate(t.Context(), "")
			if err != nil {
				t.Fatal(err)
			}
			moved, added := pictureRows(t, 1, 2), pictureRows(t, 30, 3)
			defer moved.Release()
			defer added.Release()
			if _, err := ours.Remove([]uint64{1, 2, 1 << 32}); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(ours.Replace(t.Context(), moved, []uint64{1, 2}, small), ours.Insert(t.Context(), added, small)); err != nil {
				t.Fatal(err)
			}
			for _, o := range c.others {
				if err := o(t.Context(), tbl); err != nil {
					t.Fatal(err)
				}
			}
			before, objects := tabletest.At(t, tbl, table.Ref{}), len(objectsOf(t, m))
			s, err := ours.Commit(t.Context(), table.MutationOptions{Unmatched: c.unmatched})
			after := tabletest.At(t, tbl, table.Ref{})
			switch {
			case c.rows == 0:
				if fault.KindOf(err) != fault.Conflict || errors.Is(err, table.ErrNewRows) != c.newRows || after.Version() != before.Version() {
					t.Errorf("version %d after %d: %v", after.Version(), before.Version(), err)
				}
				if left := len(objectsOf(t, m)); left != objects {
					t.Errorf("%d objects are left, %d before the commit", left, objects)
				}
			case err != nil || s.Rows() != c.rows || after.Version() != before.Version()+1 || after.Rows() != c.rows:
				t.Errorf("%d rows in version %d, want %d: %v", after.Rows(), after.Version(), c.rows, err)
			default:
				scan, err := after.Scan(t.Context(), table.ScanRequest{Columns: []string{"id", "img"}})
				if err != nil {
					t.Fatal(err)
				}
				defer scan.Release()
				n := int64(0)
				for scan.Next() {
					n += scan.RecordBatch().NumRows()
				}
				if scan.Err() != nil || n != int64(c.rows) {
					t.Errorf("%d rows are read, want %d: %v", n, c.rows, scan.Err())
				}
			}
		})
	}
}

// secretive publishes manifests as it should, says that another one was faster,
// and lets nobody look.
type secretive struct {
	*objstore.Mem
	silent bool
}

func (s *secretive) PutIfAbsent(ctx context.Context, path string, data []byte) error {
	err := s.Mem.PutIfAbsent(ctx, path, data)
	if err == nil && s.silent && strings.HasSuffix(path, ".manifest") {
		return fault.New(fault.Exists, "%s exists", path)
	}
	return err
}

func (s *secretive) ReadWhole(ctx context.Context, path string, limit int64) ([]byte, error) {
	if s.silent && strings.HasSuffix(path, ".manifest") {
		return nil, fault.New(fault.Unavailable, "no answer")
	}
	return s.Mem.ReadWhole(ctx, path, limit)
}

func (s *secretive) ReadAt(ctx context.Context, path string, p []byte, off int64) error {
	if s.silent && strings.HasSuffix(path, ".manifest") {
		return fault.New(fault.Unavailable, "no answer")
	}
	return s.Mem.ReadAt(ctx, path, p, off)
}

// What may have been published keeps its files.
func TestUnknownOutcomeKeepsFiles(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(context.Context, *table.Table, func()) error{
		"append": func(ctx context.Context, tbl *table.Table, last func()) error {
			a, err := tbl.Append(ctx, "", pictures, table.WriteOptions{})
			if err != nil {
				return err
			}
			defer a.Abort()
			rec := pictureRows(t, 20, 5)
			defer rec.Release()
			if err := a.Write(ctx, rec); err != nil {
				return err
			}
			last()
			return second(a.Commit(ctx))
		},
		"mutation": func(ctx context.Context, tbl *table.Table, last func()) error {
			return mutated(ctx, tbl, []uint64{3}, func(m *table.Mutation) error {
				rec := pictureRows(t, 20, 6)
				defer rec.Release()
				defer last()
				return m.Insert(ctx, rec, table.WriteOptions{})
			})
		},
	} {
		s := &secretive{Mem: objstore.NewMem("m")}
		tbl := faulty(t, s, t.TempDir()+"/x")
		if err := fallibles("")[0].write(t, t.Context(), tbl); err != nil {
			t.Fatal(err)
		}
		err := write(t.Context(), tbl, func() { s.silent = true })
		if !errors.Is(err, objstore.ErrUncertain) || fault.KindOf(err) != fault.Unavailable {
			t.Errorf("%s: %v", name, err)
		}
		s.silent = false
		if n := len(readPictures(t, tabletest.At(t, tbl, table.Ref{}))); n != 25 {
			t.Errorf("%s: %d rows", name, n)
		}
	}
}

func second(_ *table.Snapshot, err error) error { return err }
