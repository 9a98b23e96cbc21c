package table_test

import (
	"context"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/objstore/faultstore"
	"github.com/flightblob/flightblob/table"
	"github.com/flightblob/flightblob/table/tabletest"
)

// inMemory puts a fixture's table into memory, at t.lance.
func inMemory(t *testing.T, fixture string) *objstore.Mem {
	t.Helper()
	m := objstore.NewMem("m")
	files := os.DirFS(filepath.Join(tabletest.Root(t), "conformance", "fixtures", "tables", fixture, "table.lance"))
	err := fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(files, path)
		m.Set("t.lance/"+path, data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	m.Set("t.lance2/beside", nil)
	return m
}

// tableIn gives the table to a process of its own.
func tableIn(t *testing.T, s objstore.Store) *table.Table {
	t.Helper()
	env, _ := environment(t, "/nowhere")
	return table.New(env, objstore.Location{Store: s, Path: "t.lance"}, "t")
}

func everyRow(t *testing.T, tbl *table.Table) []map[string]any {
	t.Helper()
	_, rows := tabletest.ScanAll(t, tabletest.At(t, tbl, table.Ref{}), table.ScanRequest{})
	return rows
}

// TestDropIsAllOrNothing breaks off a drop at each deletion, in a store that
// deletes one by one.
func TestDropIsAllOrNothing(t *testing.T) {
	t.Parallel()
	want := everyRow(t, tableIn(t, inMemory(t, "tags_and_branches")))
	if len(want) == 0 {
		t.Fatal("the fixture has no rows")
	}
	readable, gone := 0, 0
	for n := 1; ; n++ {
		m := inMemory(t, "tags_and_branches")
		s := faultstore.New(m, faultstore.Plan{Call: n, Forever: true, Count: faultstore.Changes})
		err := tableIn(t, s).Drop(t.Context())
		left := m.CrashClone()
		if _, err := left.Size(t.Context(), "t.lance2/beside"); err != nil {
			t.Errorf("beside the table: %v", err)
		}
		if !s.Failed() {
			if err != nil {
				t.Error(err)
			}
			for o, err := range objstore.Walk(t.Context(), objstore.Location{Store: left, Path: "t.lance"}) {
				t.Errorf("%s is left, %v", o.Name, err)
			}
			break
		}
		if fault.KindOf(err) != fault.Unavailable || !strings.Contains(fmt.Sprint(err), "drop t") {
			t.Errorf("broken off at %d: %v", n, err)
		}
		tbl := tableIn(t, left)
		found, err := tbl.Exists(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if found {
			readable++
			if diff := cmp.Diff(want, everyRow(t, tbl)); diff != "" {
				t.Errorf("broken off at %d (-before +after)\n%s", n, diff)
			}
			continue
		}
		gone++
		// A table made in its place sees nothing of the old one.
		fresh := newTable(t, mustEnv(t), objstore.Location{Store: left, Path: "t.lance"})
		tags, err := fresh.Tags(t.Context())
		branches, err2 := fresh.Branches(t.Context())
		if err != nil || err2 != nil || len(tags)+len(branches) > 0 {
			t.Errorf("broken off at %d: a new table has tags %v and branches %v, %v, %v", n, tags, branches, err, err2)
		}
		if at := tabletest.At(t, fresh, table.Ref{}); at.Version() != 1 || at.Rows() != 0 {
			t.Errorf("broken off at %d: a new table has version %d with %d rows", n, at.Version(), at.Rows())
		}
	}
	if readable == 0 || gone == 0 {
		t.Errorf("%d times readable, %d times gone", readable, gone)
	}
}

func mustEnv(t *testing.T) *table.Env {
	t.Helper()
	env, _ := environment(t, "/nowhere")
	return env
}

func TestDropLocal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	env, root := environment(t, dir)
	tbl := newTable(t, env, root)
	if err := os.WriteFile(filepath.Join(dir, "beside"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := tbl.Drop(t.Context()); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("%v is left, %v", entries, err)
	}
	if err := tbl.Drop(t.Context()); fault.KindOf(err) != fault.NotFound {
		t.Errorf("once more: %v, want not found", err)
	}
	if _, err := tbl.Commit(t.Context(), "", transaction(1, setKey("k", "v")), table.CommitOptions{}); fault.KindOf(err) != fault.NotFound {
		t.Errorf("a commit afterwards: %v, want not found", err)
	}
	if again := newTable(t, env, root); tabletest.At(t, again, table.Ref{}).Version() != 1 {
		t.Error("a new table does not start anew")
	}
}

// TestDropForgets makes a table anew where times are too coarse to tell the
// manifests apart.
func TestDropForgets(t *testing.T) {
	t.Parallel()
	s := coarse{objstore.NewMem("m")}
	env := mustEnv(t)
	root := objstore.Location{Store: s, Path: "t.lance"}
	for i := range 3 {
		tbl := newTable(t, env, root)
		if _, err := tbl.Commit(t.Context(), "", transaction(1, setKey("k", fmt.Sprint(i))), table.CommitOptions{}); err != nil {
			t.Fatal(err)
		}
		if got := tabletest.At(t, tbl, table.Ref{}).Manifest().Config["k"]; got != fmt.Sprint(i) {
			t.Errorf("table %d is remembered as %q", i, got)
		}
		if err := tbl.Drop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// coarse is a store whose objects all have the same time.
type coarse struct{ *objstore.Mem }

func (c coarse) List(ctx context.Context, dir string) iter.Seq2[objstore.Entry, error] {
	return func(yield func(objstore.Entry, error) bool) {
		for e, err := range c.Mem.List(ctx, dir) {
			if !e.Dir {
				e.Modified = e.Modified.Truncate(1 << 62)
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// TestDropWaitsForCommits drops while this process commits: no version comes
// back without the table.
func TestDropWaitsForCommits(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	env, root := environment(t, dir)
	for range 10 {
		tbl := newTable(t, env, root)
		done := make(chan error)
		go func() {
			var err error
			for i := 0; err == nil; i++ {
				_, err = tbl.Commit(t.Context(), "", transaction(1, setKey("k", fmt.Sprint(i))), table.CommitOptions{})
			}
			done <- err
		}()
		if err := tbl.Drop(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-done; fault.KindOf(err) != fault.NotFound {
			t.Errorf("a commit beside a drop: %v, want not found", err)
		}
		if found, err := tbl.Exists(t.Context()); err != nil || found {
			t.Errorf("the table is there again: %v, %v", found, err)
		}
	}
}

// interrupted is a store in which others do something before a change is made.
type interrupted struct {
	*objstore.Mem
	before func(path string)
}

func (s interrupted) Delete(ctx context.Context, path string) error {
	s.before(path)
	return s.Mem.Delete(ctx, path)
}

func (s interrupted) PutIfAbsent(ctx context.Context, path string, data []byte) error {
	s.before(path)
	return s.Mem.PutIfAbsent(ctx, path, data)
}

// versionsIn lists the manifests of t.lance.
func versionsIn(t *testing.T, m *objstore.Mem) (names []string) {
	t.Helper()
	for e, err := range (objstore.Location{Store: m, Path: "t.lance/_versions"}).List(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, e.Name)
	}
	return names
}

// TestDropTakesWhatIsPublishedMeanwhile has another process publish a version
// while the files of the table go.
func TestDropTakesWhatIsPublishedMeanwhile(t *testing.T) {
	t.Parallel()
	m := inMemory(t, "tags_and_branches")
	var times atomic.Uint64
	s := interrupted{m, func(path string) {
		if !strings.HasPrefix(path, "t.lance/data/") {
			return
		}
		if n := times.Add(1); n <= 2 { // a version whose number nobody has, as a commit would have it
			m.Set(fmt.Sprintf("t.lance/_versions/%020d.manifest", ^uint64(0)-100-n), []byte("published"))
		}
	}}
	if err := tableIn(t, s).Drop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := versionsIn(t, m); times.Load() == 0 || len(left) > 0 {
		t.Errorf("after %d removals of files these versions are left: %v", times.Load(), left)
	}
}

// TestCommitAfterDrop has another process drop the table when a commit is about to
// publish its version.
func TestCommitAfterDrop(t *testing.T) {
	t.Parallel()
	m := inMemory(t, "tags_and_branches")
	dropped := false
	s := interrupted{m, func(path string) {
		if !dropped && strings.HasPrefix(path, "t.lance/_versions/") {
			dropped = true
			if err := tableIn(t, m).Drop(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}}
	tbl := tableIn(t, s)
	version := tabletest.At(t, tbl, table.Ref{}).Version()
	_, err := tbl.Commit(t.Context(), "", transaction(version, setKey("k", "v")), table.CommitOptions{})
	if fault.KindOf(err) != fault.NotFound || !strings.Contains(fmt.Sprint(err), "dropped while it was written") {
		t.Errorf("%v, want not found", err)
	}
	for o, err := range objstore.Walk(t.Context(), objstore.Location{Store: m, Path: "t.lance"}) {
		t.Errorf("%s is left, %v", o.Name, err)
	}
}

// TestReferenceSeesDrops lets pylance list what is left and write in its place.
func TestReferenceSeesDrops(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	tabletest.Pylance(t, `
import sys, lance, pyarrow as pa
for name in ("t", "u"):
    ds = lance.write_dataset(pa.table({"a": [1, 2]}), f"{sys.argv[1]}/{name}.lance")
    ds.tags.create("tag", 1)
    lance.write_dataset(pa.table({"a": [3]}), ds.uri, mode="append")`, dir)
	env, root := environment(t, dir)
	if err := table.New(env, root, "t").Drop(t.Context()); err != nil {
		t.Fatal(err)
	}
	out := tabletest.Pylance(t, `
import sys, lance, pyarrow as pa
from lance.namespace import DirectoryNamespace
from lance_namespace import ListTablesRequest
ns = DirectoryNamespace(root=sys.argv[1])
print(sorted(ns.list_tables(ListTablesRequest(id=[])).tables))
try:
    lance.dataset(f"{sys.argv[1]}/t.lance")
    print("opens")
except ValueError:
    print("gone")
ds = lance.write_dataset(pa.table({"b": ["x"]}), f"{sys.argv[1]}/t.lance")
print(ds.version, ds.tags.list(), ds.to_table().to_pydict(), lance.dataset(f"{sys.argv[1]}/u.lance").count_rows())`, dir)
	want := "['u']\ngone\n1 {} {'b': ['x']} 3\n"
	if diff := cmp.Diff(want, string(out)); diff != "" {
		t.Errorf("pylance sees (-want +got)\n%s", diff)
	}
	if got := tabletest.At(t, table.New(env, root, "t"), table.Ref{}); got.Version() != 1 || got.Rows() != 1 {
		t.Errorf("version %d with %d rows", got.Version(), got.Rows())
	}
}
