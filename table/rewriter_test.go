package table_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/google/go-cmp/cmp"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/schema"
	"github.com/flightblob/flightblob/table"
	"github.com/flightblob/flightblob/table/manifest"
	"github.com/flightblob/flightblob/table/tabletest"
)

// rewritten puts all fragments of the newest version of a branch into one group.
func rewritten(t *testing.T, tab *table.Table, branch string, o table.RewriteOptions) (*table.Rewritten, error) {
	t.Helper()
	s := tabletest.At(t, tab, table.Ref{Branch: branch})
	w, err := s.Rewrite(o)
	if err != nil {
		return nil, err
	}
	defer w.Abort()
	rows := uint64(0)
	if err := w.Group(t.Context(), 0, len(s.Manifest().Fragments), func(n uint64) { rows += n }); err != nil {
		return nil, err
	}
	if rows != s.Rows() {
		t.Errorf("progress tells of %d rows, %d are live", rows, s.Rows())
	}
	return w.Commit(t.Context())
}

// TestRewriteFixtures rewrites the newest version of every golden table, and of
// its branches, in a copy: rows, ids, lineage, nullness and references stay.
func TestRewriteFixtures(t *testing.T) {
	t.Parallel()
	dir := tabletest.Fixtures(t)
	rules := map[string]string{
		"clone_shallow": "CLN-3", "legacy_mixed": "LEG-10", "legacy_v20": "LEG-10", "legacy_v21": "LEG-10",
		"sidecars_in_bases": "RWR-6", "nested_v22": "NUL-11", "kinds_external_absolute": "DIFF-3",
	}
	for _, fixture := range tabletest.FixtureNames(t, dir) {
		name := "RWR-1 RWR-2 RWR-3 " + fixture
		if rules[fixture] != "" {
			name = rules[fixture] + " " + name
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			recorded := tabletest.ReadRecorded(t, dir, fixture)
			copied := t.TempDir()
			if err := os.CopyFS(copied, os.DirFS(filepath.Join(dir, fixture))); err != nil {
				t.Fatal(err)
			}
			env := tabletest.Env(t, filepath.Join(dir, fixture), copied)
			for name, line := range recorded.Tables {
				tab := tabletest.Open(t, env, filepath.Join(copied, name))
				checkRewrite(t, tab, "", fixture)
				for branch := range line.Branches {
					checkRewrite(t, tab, branch, fixture)
				}
			}
		})
	}
}

func checkRewrite(t *testing.T, tab *table.Table, branch, fixture string) {
	t.Helper()
	before := tabletest.At(t, tab, table.Ref{Branch: branch})
	if len(before.Manifest().Fragments) == 0 {
		return
	}
	o := table.RewriteOptions{}
	if format := before.Manifest().DataFormat; format < "2.2" {
		if _, err := rewritten(t, tab, branch, o); fault.KindOf(err) != fault.Precondition {
			t.Errorf("format %s: %v", format, err)
		}
		o.FileVersion = "2.2"
	}
	out, err := rewritten(t, tab, branch, o)
	if fixture == "descriptors_crafted" { // values of unknown kinds and bases
		if kind := fault.KindOf(err); kind != fault.Corrupt && kind != fault.Unsupported {
			t.Errorf("%v: %v", kind, err)
		}
		if s := tabletest.At(t, tab, table.Ref{Branch: branch}); s.Version() != before.Version() {
			t.Errorf("version %d after a failure", s.Version())
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	after := tabletest.At(t, tab, table.Ref{Branch: branch})
	if after.Version() != out.Snapshot.Version() || after.Version() != before.Version()+2 || len(out.Lost) != 0 {
		t.Errorf("version %d after %d, answered %d, %d lost", after.Version(), before.Version(), out.Snapshot.Version(), len(out.Lost))
	}
	m := after.Manifest()
	if len(m.Fragments) != 1 || m.Fragments[0].Deletion != nil || m.Fragments[0].Files[0].BaseID != nil ||
		m.Fragments[0].ID != uint64(*before.Manifest().MaxFragmentID)+1 {
		t.Errorf("fragments are %+v", m.Fragments)
	}
	if m.DataFormat != before.Manifest().DataFormat || m.ReaderFlags.Has(manifest.FlagManagedBlobs) != before.Manifest().ManagedBlobs() {
		t.Errorf("format %s, flags %d after format %s, flags %d", m.DataFormat, m.ReaderFlags, before.Manifest().DataFormat, before.Manifest().ReaderFlags)
	}
	descriptors, rows := tabletest.ScanAll(t, before, table.ScanRequest{})
	newDescriptors, newRows := tabletest.ScanAll(t, after, table.ScanRequest{})
	if diff := cmp.Diff(rows, newRows, sameWhenEmpty); diff != "" {
		t.Errorf("rows of %s (-want +got):\n%s", tab.Name(), diff)
	}
	managed, err := schema.Managed(after.Schema().Metadata)
	if err != nil {
		t.Fatal(err)
	}
	for i := range descriptors {
		for _, f := range after.Schema().Fields {
			checkMoved(t, f, descriptors[i][f.Name], newDescriptors[i][f.Name], managed)
		}
	}
	if before.Manifest().StableRowIDs() {
		names := []string{table.RowID, table.CreatedAt, table.UpdatedAt}
		ids, _ := tabletest.ScanAll(t, before, table.ScanRequest{Columns: names})
		newIDs, _ := tabletest.ScanAll(t, after, table.ScanRequest{Columns: names})
		if diff := cmp.Diff(ids, newIDs); diff != "" {
			t.Errorf("row ids of %s (-want +got):\n%s", tab.Name(), diff)
		}
	}
}

// checkMoved holds the descriptors of a value before and after a rewriting
// against the table of rewrites per kind.
func checkMoved(t *testing.T, f *schema.Field, was, is any, managed bool) {
	t.Helper()
	switch v := was.(type) {
	case []any:
		for i := range v {
			checkMoved(t, f.Children[0], v[i], is.([]any)[i], managed)
		}
	case map[string]any:
		d, _ := is.(map[string]any)
		if f.Blob == schema.NotBlob {
			for _, c := range f.Children {
				checkMoved(t, c, v[c.Name], d[c.Name], managed)
			}
			return
		}
		from, to := fmt.Sprint(v["kind"]), fmt.Sprint(d["kind"])
		empty := fmt.Sprint(v["size"]) == "0"
		ok := false
		switch {
		case from == "3":
			ok = cmp.Equal(v, d)
		case empty:
			ok = to == "0" && fmt.Sprint(d["size"]) == "0"
		case !managed:
			ok = to == "0" || to == "1" || to == "2"
		case from == "0":
			ok = to == "0"
		case from == "5":
			ok = cmp.Equal(v, d)
		default:
			ok = (to == "4" || to == "5") && cmp.Equal(v["size"], d["size"]) && (from == "2" || cmp.Equal(v["position"], d["position"]))
			if from == "4" {
				ok = ok && cmp.Equal(v["blob_uri"], d["blob_uri"])
			}
		}
		if !ok {
			t.Errorf("%s, managed %v: %v became %v", f.FullName(), managed, v, is)
		}
	}
}

// TestRewritingBesideOtherCommits publishes two groups, fragments 0 and 1 and
// fragments 2 and 3, after what others did to the same version (table-format
// sheet section 4.4): groups that they touched stay as they left them.
func TestRewritingBesideOtherCommits(t *testing.T) {
	t.Parallel()
	small := table.WriteOptions{RowsPerFile: 10}
	type other = func(ctx context.Context, tbl *table.Table) error
	remove := func(addresses ...uint64) other {
		return func(ctx context.Context, tbl *table.Table) error { return mutated(ctx, tbl, addresses, nil) }
	}
	third := pictures.Field(2).Name
	for name, c := range map[string]struct {
		others    []other
		fragments []uint64 // nil for a conflict
		lost      int
		rows      uint64
	}{
		"nothing": {fragments: []uint64{4, 5}, rows: 40},
		"appended": {others: []other{func(ctx context.Context, tbl *table.Table) error {
			a, err := tbl.Append(ctx, "", pictures, small)
			return wrote(ctx, t, a, err, pictureRows(t, 40, 5))
		}}, fragments: []uint64{4, 5, 6}, rows: 45},
		"removed rows of the first group":  {others: []other{remove(3, 1<<32)}, fragments: []uint64{0, 1, 4}, lost: 1, rows: 38},
		"removed rows of the second group": {others: []other{remove(2 << 32), remove(2<<32 | 1)}, fragments: []uint64{2, 3, 4}, lost: 1, rows: 38},
		"removed rows of both":             {others: []other{remove(0, 3<<32)}},
		"rewrote the second group": {others: []other{func(ctx context.Context, tbl *table.Table) error {
			s, err := tbl.At(ctx, table.Ref{})
			if err != nil {
				return err
			}
			w, err := s.Rewrite(table.RewriteOptions{})
			if err != nil {
				return err
			}
			defer w.Abort()
			if err := w.Group(ctx, 2, 2, nil); err != nil {
				return err
			}
			_, err = w.Commit(ctx)
			return err
		}}, fragments: []uint64{4, 5}, lost: 1, rows: 40},
		"dropped a column": {others: []other{func(ctx context.Context, tbl *table.Table) error {
			return second(tbl.DropColumn(ctx, "", []string{third}))
		}}, fragments: []uint64{4, 5}, rows: 40},
		"added a column without values": {others: []other{func(ctx context.Context, tbl *table.Table) error {
			return second(tbl.AddColumn(ctx, "", nil, arrow.Field{Name: "more", Type: arrow.PrimitiveTypes.Int8, Nullable: true}))
		}}, fragments: []uint64{4, 5}, rows: 40},
		"replaced all": {others: []other{func(ctx context.Context, tbl *table.Table) error {
			a, err := tbl.Overwrite(ctx, "", pictures, table.CreateOptions{WriteOptions: small})
			return wrote(ctx, t, a, err, pictureRows(t, 50, 20))
		}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := objstore.NewMem("m")
			tbl := faulty(t, m, t.TempDir()+"/x")
			a, err := tbl.Create(t.Context(), pictures, table.CreateOptions{WriteOptions: small})
			if err := wrote(t.Context(), t, a, err, pictureRows(t, 0, 40)); err != nil {
				t.Fatal(err)
			}
			w, err := tabletest.At(t, tbl, table.Ref{}).Rewrite(table.RewriteOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer w.Abort()
			objects := objectsOf(t, m)
			if err := errors.Join(w.Group(t.Context(), 0, 2, nil), w.Group(t.Context(), 2, 2, nil)); err != nil {
				t.Fatal(err)
			}
			stored := len(objectsOf(t, m)) - len(objects)
			for _, o := range c.others {
				if err := o(t.Context(), tbl); err != nil {
					t.Fatal(err)
				}
			}
			before := len(objectsOf(t, m))
			out, err := w.Commit(t.Context())
			after := tabletest.At(t, tbl, table.Ref{})
			if c.fragments == nil {
				if left := before - len(objectsOf(t, m)); fault.KindOf(err) != fault.Conflict || left != stored {
					t.Errorf("%d of %d objects were removed: %v", left, stored, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var ids []uint64
			for _, f := range after.Manifest().Fragments {
				ids = append(ids, f.ID)
			}
			if len(out.Lost) != c.lost || len(out.Groups) != 2-c.lost || after.Rows() != c.rows || !slices.Equal(ids, c.fragments) ||
				out.Snapshot.Version() != after.Version() {
				t.Errorf("%d groups lost, %d rows, fragments %v, want %v", len(out.Lost), after.Rows(), ids, c.fragments)
			}
			// Reserving and rewriting add a manifest and a transaction each; files of a
			// lost group are gone.
			if left := len(objectsOf(t, m)) - before - 4; c.lost == 0 && left != 0 || c.lost > 0 && left >= 0 {
				t.Errorf("%d more objects than before the commit", left)
			}
		})
	}
}
