package maintain_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/objstore/faultstore"
	"github.com/flightblob/flightblob/schema"
	"github.com/flightblob/flightblob/table"
	"github.com/flightblob/flightblob/table/maintain"
	"github.com/flightblob/flightblob/table/tabletest"
)

// pictures has a blob column whose values are of all three placements.
var pictures = arrow.NewSchema([]arrow.Field{
	{Name: "id", Type: arrow.PrimitiveTypes.Int64},
	{Name: "img", Nullable: true, Type: arrow.StructOf(
		arrow.Field{Name: "data", Type: arrow.BinaryTypes.LargeBinary, Nullable: true},
		arrow.Field{Name: "uri", Type: arrow.BinaryTypes.String, Nullable: true},
	), Metadata: arrow.MetadataFrom(map[string]string{
		schema.KeyExtensionName: schema.ExtensionBlobV2, schema.KeyInline: "8", schema.KeyDedicated: "64",
	})},
}, nil)

// write makes a table of fragments of ten rows.
func write(ctx context.Context, tbl *table.Table, managed bool, fragments int) error {
	a, err := tbl.Create(ctx, pictures, table.CreateOptions{
		WriteOptions: table.WriteOptions{RowsPerFile: 10}, Settings: &table.Settings{Managed: &managed},
	})
	if err != nil {
		return err
	}
	defer a.Abort()
	b := array.NewRecordBuilder(memory.DefaultAllocator, pictures)
	defer b.Release()
	for i := range 10 * fragments {
		b.Field(0).(*array.Int64Builder).Append(int64(i))
		img := b.Field(1).(*array.StructBuilder)
		if i%7 == 0 {
			img.AppendNull()
			continue
		}
		img.Append(true)
		img.FieldBuilder(0).(*array.BinaryBuilder).Append(bytes.Repeat([]byte{byte(i), 1}, i%7*(i%7)-1))
		img.FieldBuilder(1).AppendNull()
	}
	rows := b.NewRecordBatch()
	defer rows.Release()
	if err := a.Write(ctx, rows); err != nil {
		return err
	}
	_, err = a.Commit(ctx)
	return err
}

func in(t *testing.T, s objstore.Store) *table.Table {
	t.Helper()
	return table.New(tabletest.Env(t, t.TempDir()), objstore.Location{Store: s, Path: "t.lance"}, "t")
}

func objectsOf(t *testing.T, s objstore.Store) (paths []string) {
	t.Helper()
	for o, err := range objstore.Walk(t.Context(), objstore.Location{Store: s, Path: "t.lance"}) {
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, strings.TrimPrefix(o.Name, "t.lance/"))
	}
	slices.Sort(paths)
	return paths
}

// TestCompactSurvivesEachFailure lets every single call of a store fail during a
// compaction. Rows stay whole in every version, the same compaction works
// afterwards, and what a killed process leaves goes with a cleanup by pylance.
func TestCompactSurvivesEachFailure(t *testing.T) {
	t.Parallel()
	session := tabletest.StartSession(t)
	for name, managed := range map[string]bool{"GC-1 GC-2 plain": false, "GC-1 GC-2 managed": true} {
		t.Run(name, func(t *testing.T) {
			start := objstore.NewMem("m")
			if err := write(t.Context(), in(t, start), managed, 3); err != nil {
				t.Fatal(err)
			}
			_, want := tabletest.ScanAll(t, tabletest.At(t, in(t, start), table.Ref{}), table.ScanRequest{})
			for how, plan := range map[string]faultstore.Plan{
				"refused": {How: faultstore.Refused}, "lost": {How: faultstore.Lost}, "unanswered": {How: faultstore.Unanswered},
				"cancelled": {How: faultstore.Cancelled}, "killed": {How: faultstore.Refused, Forever: true},
			} {
				for n := 1; compactFails(t, session, start, want, how, plan, n); n++ {
				}
			}
		})
	}
}

// compactFails lets the n-th call of a compaction fail and says whether it came
// to that.
func compactFails(t *testing.T, session *tabletest.Session, start *objstore.Mem, want []map[string]any, how string, plan faultstore.Plan, n int) bool {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	m := start.CrashClone()
	plan.Call, plan.Cancel = n, cancel
	s := faultstore.New(m, plan)
	_, err := maintain.Compact(ctx, in(t, s), maintain.CompactOptions{})
	cancel()
	left := m.CrashClone()
	call := how
	if s.Failed() {
		call += fmt.Sprintf(" at %s", s.Calls()[n-1])
	}
	after := checkVersions(t, call, in(t, left), want)
	checkKept(t, call, start, left)
	published := len(after.Manifest().Fragments) == 1
	switch {
	case !s.Failed():
		if err != nil || !published || n < 10 {
			t.Errorf("%s without a failure, %d calls: published %v, %v", call, n, published, err)
		}
	case published:
		if err != nil && !errors.Is(err, objstore.ErrUncertain) && how != "killed" && how != "cancelled" && fault.KindOf(err) != fault.Unavailable {
			t.Errorf("%s: published, but %v", call, err)
		}
	case err == nil:
		t.Errorf("%s: success, but nothing is published", call)
	default:
		if op := s.Calls()[n-1].Op; (how == "refused" || how == "cancelled") && op != faultstore.Abort && op != faultstore.Delete {
			if rest := payload(objectsOf(t, left)); !slices.Equal(rest, payload(objectsOf(t, start))) {
				t.Errorf("%s: %v are left of\n%s", call, rest, s.Trace())
			}
		}
		if _, err := maintain.Compact(t.Context(), in(t, left), maintain.CompactOptions{}); err != nil {
			t.Errorf("%s: again: %v", call, err)
		}
		if again := checkVersions(t, call, in(t, left), want); len(again.Manifest().Fragments) != 1 {
			t.Errorf("%s: again: %d fragments", call, len(again.Manifest().Fragments))
		}
	}
	if how == "killed" && n%3 == 0 {
		cleansUp(t, session, left, call)
	}
	return s.Failed()
}

// checkKept wants all files and objects that were there, unchanged.
func checkKept(t *testing.T, call string, before, after *objstore.Mem) {
	t.Helper()
	for _, path := range payload(objectsOf(t, before)) {
		was, err := objstore.ReadAll(t.Context(), objstore.Location{Store: before, Path: "t.lance/" + path}, 1<<30)
		is, err2 := objstore.ReadAll(t.Context(), objstore.Location{Store: after, Path: "t.lance/" + path}, 1<<30)
		if err := errors.Join(err, err2); err != nil || !bytes.Equal(was, is) {
			t.Errorf("%s: %s changed: %v", call, path, err)
		}
	}
}

// checkVersions reads every version and answers the newest.
func checkVersions(t *testing.T, call string, tbl *table.Table, want []map[string]any) *table.Snapshot {
	t.Helper()
	newest := tabletest.At(t, tbl, table.Ref{})
	for v := uint64(1); v <= newest.Version(); v++ {
		_, got := tabletest.ScanAll(t, tabletest.At(t, tbl, table.Ref{Version: v}), table.ScanRequest{})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: version %d (-want +got):\n%s", call, v, diff)
		}
	}
	return newest
}

// payload are data files and blob objects among paths.
func payload(paths []string) (out []string) {
	for _, p := range paths {
		if strings.HasPrefix(p, "data/") || strings.HasPrefix(p, "_blobs/") {
			out = append(out, p)
		}
	}
	return out
}

// cleansUp lets pylance clean up a copy of a table, read it, and list the data
// that no version has.
func cleansUp(t *testing.T, session *tabletest.Session, m *objstore.Mem, call string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "t.lance")
	for _, path := range objectsOf(t, m) {
		data, err := objstore.ReadAll(t.Context(), objstore.Location{Store: m, Path: "t.lance/" + path}, 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(dir, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o700), os.WriteFile(to, data, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	var stray []string
	if problem := session.Try(&stray, fmt.Sprintf(`
import datetime, lance, pathlib
path = pathlib.Path(%q)
ds = lance.dataset(str(path))
ds.cleanup_old_versions(older_than=datetime.timedelta(0), delete_unverified=True, error_if_tagged_old_versions=False)
ds = lance.dataset(str(path))
ds.validate()
assert len(ds.scanner(columns=["id", "img"], blob_handling="all_binary").to_table()) == 30
kept = {f.path.removesuffix(".lance") for v in ds.versions() for g in ds.checkout_version(v["version"]).get_fragments() for f in g.data_files()}
[str(f) for f in (path / "data").glob("*.lance") if f.name.removesuffix(".lance") not in kept]
`, dir)); problem != "" {
		t.Errorf("%s: pylance: %s", call, problem)
	}
	if len(stray) > 0 {
		t.Errorf("%s: pylance's cleanup leaves %v", call, stray)
	}
}

// TestCompactReadsNoPayload compacts a table that opted in to managed blobs while
// all objects but its data files are away: sidecars of rows that were written
// before are adopted where they are, as managed objects are kept.
func TestCompactReadsNoPayload(t *testing.T) {
	t.Parallel()
	for name, managed := range map[string]bool{"RWR-4 managed objects": true, "RWR-3 RWR-4 sidecars": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := objstore.NewMem("m")
			if err := write(t.Context(), in(t, m), managed, 3); err != nil {
				t.Fatal(err)
			}
			yes := true
			if _, err := in(t, m).Set(t.Context(), "", &table.Settings{Managed: &yes}); err != nil {
				t.Fatal(err)
			}
			_, want := tabletest.ScanAll(t, tabletest.At(t, in(t, m), table.Ref{}), table.ScanRequest{})
			away := map[string][]byte{}
			for _, path := range objectsOf(t, m) {
				if !strings.HasSuffix(path, ".blob") {
					continue
				}
				at := objstore.Location{Store: m, Path: "t.lance/" + path}
				data, err := objstore.ReadAll(t.Context(), at, 1<<20)
				if err := errors.Join(err, at.Delete(t.Context())); err != nil {
					t.Fatal(err)
				}
				away[at.Path] = data
			}
			if _, err := maintain.Compact(t.Context(), in(t, m), maintain.CompactOptions{}); err != nil {
				t.Fatal(err)
			}
			if len(away) < 5 {
				t.Errorf("only %d objects were away", len(away))
			}
			for _, path := range objectsOf(t, m) {
				if strings.HasSuffix(path, ".blob") {
					t.Errorf("the compaction wrote %s", path)
				}
			}
			for path, data := range away {
				if err := (objstore.Location{Store: m, Path: path}).Put(t.Context(), data); err != nil {
					t.Fatal(err)
				}
			}
			if s := checkVersions(t, "afterwards", in(t, m), want); len(s.Manifest().Fragments) != 1 {
				t.Errorf("%d fragments", len(s.Manifest().Fragments))
			}
		})
	}
}

// TestCompactHoldsWhatItReads lets a cleanup by pylance run in the middle of a
// compaction, after a commit that makes the version that is read an old one.
func TestCompactHoldsWhatItReads(t *testing.T) {
	t.Parallel()
	t.Run("GC-3", func(t *testing.T) {
		t.Parallel()
		session := tabletest.StartSession(t)
		path := filepath.Join(t.TempDir(), "t.lance")
		env := tabletest.Env(t, path)
		root, err := env.Locate(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		tbl := table.New(env, root, "t")
		if err := write(t.Context(), tbl, true, 6); err != nil {
			t.Fatal(err)
		}
		var held []table.Tag
		target := uint64(20)
		r, err := maintain.Compact(t.Context(), tbl, maintain.CompactOptions{TargetRows: &target, Progress: func(p maintain.CompactProgress) {
			if held != nil {
				return
			}
			if held, err = tbl.Tags(t.Context()); err != nil {
				t.Error(err)
			}
			session.Run(nil, fmt.Sprintf(`
import datetime, lance, pyarrow as pa
ds = lance.dataset(%q)
ds.delete("id < 35")
ds.delete("id = 59")
ds.cleanup_old_versions(older_than=datetime.timedelta(0), error_if_tagged_old_versions=False)
`, path))
		}})
		// Fragments 0 to 3 lost rows, 4 and 5 too: nothing can be published, but all of
		// it was there to be read.
		if fault.KindOf(err) != fault.Conflict || len(r.Skipped) != 3 {
			t.Errorf("%+v, %v", r, err)
		}
		if len(held) != 1 || held[0].Version != 1 {
			t.Errorf("during the compaction there were the tags %v", held)
		}
		if tags, err := tbl.Tags(t.Context()); err != nil || len(tags) != 0 {
			t.Errorf("afterwards there are the tags %v, %v", tags, err)
		}
		if r, err = maintain.Compact(t.Context(), tbl, maintain.CompactOptions{}); err != nil || r.FragmentsAdded != 1 || r.Rows != 24 {
			t.Errorf("again: %+v, %v", r, err)
		}
	})
}

// TestCompactInParts bounds what one run rewrites, so that several runs do all.
func TestCompactInParts(t *testing.T) {
	t.Parallel()
	m := objstore.NewMem("m")
	tbl := in(t, m)
	if err := write(t.Context(), tbl, false, 9); err != nil {
		t.Fatal(err)
	}
	_, want := tabletest.ScanAll(t, tabletest.At(t, tbl, table.Ref{}), table.ScanRequest{})
	target, most := uint64(30), uint64(6)
	var progress []maintain.CompactProgress
	r, err := maintain.Compact(t.Context(), tbl, maintain.CompactOptions{TargetRows: &target, MostFragments: &most, Progress: func(p maintain.CompactProgress) {
		progress = append(progress, p)
	}})
	if err != nil || r.FragmentsRemoved != 6 || r.FragmentsAdded != 2 || r.Rows != 60 || r.FilesRemoved != 6 || r.FilesAdded != 2 || r.Commits != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	if last := progress[len(progress)-1]; last.Rows != 60 || last.RowsDone != 60 || last.Tasks != 2 {
		t.Errorf("progress ended at %+v", last)
	}
	for range 2 {
		if r, err = maintain.Compact(t.Context(), tbl, maintain.CompactOptions{TargetRows: &target}); err != nil {
			t.Fatal(err)
		}
	}
	if r.Commits != 0 || r.Snapshot.Version() != 5 || len(r.Snapshot.Manifest().Fragments) != 3 {
		t.Errorf("at the end: %+v, version %d", r, r.Snapshot.Version())
	}
	_, got := tabletest.ScanAll(t, r.Snapshot, table.ScanRequest{})
	byID := func(a, b map[string]any) int {
		return strings.Compare(fmt.Sprintf("%9s", a["id"]), fmt.Sprintf("%9s", b["id"]))
	}
	slices.SortFunc(got, byID)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}

// TestCompactCommitsInParts has more tasks than one commit takes. What others
// delete before a part begins is part of it.
func TestCompactCommitsInParts(t *testing.T) {
	t.Parallel()
	m := objstore.NewMem("m")
	tbl := in(t, m)
	if err := write(t.Context(), tbl, true, 132); err != nil {
		t.Fatal(err)
	}
	target := uint64(20)
	deleted := false
	r, err := maintain.Compact(t.Context(), tbl, maintain.CompactOptions{TargetRows: &target, Progress: func(p maintain.CompactProgress) {
		if deleted {
			return
		}
		deleted = true
		mutation, err := tbl.Mutate(t.Context(), "")
		if err != nil {
			t.Error(err)
			return
		}
		defer mutation.Abort()
		_, err = mutation.Remove([]uint64{131<<32 | 4})
		_, err2 := mutation.Commit(t.Context(), table.MutationOptions{})
		if err := errors.Join(err, err2); err != nil {
			t.Error(err)
		}
	}})
	if err != nil || r.Commits != 2 || r.FragmentsAdded != 66 || r.Rows != 1319 || len(r.Skipped) != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	_, rows := tabletest.ScanAll(t, r.Snapshot, table.ScanRequest{})
	for i, row := range rows {
		want := i
		if i >= 1314 {
			want = i + 1
		}
		if got := fmt.Sprint(row["id"]); got != fmt.Sprint(want) {
			t.Fatalf("row %d has id %s, want %d", i, got, want)
		}
	}
}

func TestCompactOptionsAreChecked(t *testing.T) {
	t.Parallel()
	m := objstore.NewMem("m")
	tbl := in(t, m)
	if err := write(t.Context(), tbl, false, 2); err != nil {
		t.Fatal(err)
	}
	zero, much := uint64(0), 1.5
	for name, o := range map[string]maintain.CompactOptions{
		"target_rows_per_fragment":        {TargetRows: &zero},
		"materialize_deletions_threshold": {DeletionsAbove: &much},
	} {
		if _, err := maintain.Compact(t.Context(), tbl, o); fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := maintain.Compact(t.Context(), tbl, maintain.CompactOptions{FileVersion: "2.1"}); fault.KindOf(err) != fault.Precondition {
		t.Errorf("format 2.1: %v", err)
	}
	if _, err := maintain.Compact(t.Context(), tbl, maintain.CompactOptions{Branch: "absent"}); fault.KindOf(err) != fault.NotFound {
		t.Errorf("a branch that is not there: %v", err)
	}
}
