package maintain_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/objstore/faultstore"
	"github.com/flightblob/flightblob/table"
	"github.com/flightblob/flightblob/table/maintain"
	"github.com/flightblob/flightblob/table/manifest"
	"github.com/flightblob/flightblob/table/tabletest"
)

// remove removes rows by their addresses.
func remove(ctx context.Context, tbl *table.Table, branch string, addresses ...uint64) error {
	m, err := tbl.Mutate(ctx, branch)
	if err != nil {
		return err
	}
	defer m.Abort()
	if _, err := m.Remove(addresses); err != nil {
		return err
	}
	_, err = m.Commit(ctx, table.MutationOptions{})
	return err
}

// appendRow appends a row without a value.
func appendRow(ctx context.Context, tbl *table.Table, branch string) error {
	a, err := tbl.Append(ctx, branch, pictures, table.WriteOptions{})
	if err != nil {
		return err
	}
	defer a.Abort()
	rows := emptyRow()
	defer rows.Release()
	if err := a.Write(ctx, rows); err != nil {
		return err
	}
	_, err = a.Commit(ctx)
	return err
}

// copied gives what lies in a memory store to a process of its own, which finds it
// by its URI as well, as branches find their parents; it works through what is put
// around the memory.
func copied(t *testing.T, from *objstore.Mem, through func(*objstore.Mem) objstore.Store) (*table.Table, *objstore.Mem) {
	t.Helper()
	another, m := process(t, from)
	return table.New(another(), objstore.Location{Store: through(m), Path: "t.lance"}, "t"), m
}

// process copies a memory store and makes environments over the copy, each a process
// of its own as far as tables go.
func process(t *testing.T, from *objstore.Mem) (another func() *table.Env, m *objstore.Mem) {
	t.Helper()
	registry := objstore.NewRegistry(objstore.Options{})
	t.Cleanup(func() { _ = registry.Close() })
	m = registry.Mem("m")
	for o, err := range objstore.Walk(t.Context(), objstore.Location{Store: from, Path: ""}) {
		if err != nil {
			t.Fatal(err)
		}
		data, err := objstore.ReadAll(t.Context(), o.Location, 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		m.Set(o.Location.Path, data)
	}
	return func() *table.Env { return table.NewEnv(registry, objstore.NewAccess("mem://m"), table.Limits{}) }, m
}

func itself(m *objstore.Mem) objstore.Store { return m }

// of is the table in a copy of a memory store.
func of(t *testing.T, from *objstore.Mem) *table.Table {
	t.Helper()
	tbl, _ := copied(t, from, itself)
	return tbl
}

// aged is a table with a history: main 1 to 6, of which 3 is tagged, and a branch
// from version 2, which nothing else keeps. Versions 1, 4 and 5 are of no use to
// anybody.
func aged(t *testing.T, managed bool) *objstore.Mem {
	t.Helper()
	tbl, m := copied(t, objstore.NewMem("m"), itself)
	ctx := t.Context()
	steps := []func() error{
		func() error { return write(ctx, tbl, managed, 3) },               // 1
		func() error { return remove(ctx, tbl, "", 1, 2, 3, 6, 1<<32|4) }, // 2; the object of row 6 is the first version's alone
		func() error {
			_, err := tbl.CreateBranch(ctx, "dev", table.Ref{Version: 2})
			return err
		},
		func() error { return remove(ctx, tbl, "dev", 5) },
		func() error { return appendRow(ctx, tbl, "") }, // 3
		func() error {
			_, err := tbl.CreateTag(ctx, "kept", table.Ref{Version: 3}, table.TagOptions{})
			return err
		},
		func() error { // fragments 1 and 2 go whole, and fragment 0 gets another deletion file
			all := []uint64{7}
			for f := uint64(1); f < 3; f++ {
				for row := range uint64(10) {
					if f != 1 || row != 4 {
						all = append(all, f<<32|row)
					}
				}
			}
			return remove(ctx, tbl, "", all...) // 4
		},
		func() error {
			a, err := tbl.Overwrite(ctx, "", pictures, table.CreateOptions{})
			if err != nil {
				return err
			}
			defer a.Abort()
			rows := emptyRow()
			defer rows.Release()
			if err := a.Write(ctx, rows); err != nil {
				return err
			}
			_, err = a.Commit(ctx) // 5
			return err
		},
		func() error { return appendRow(ctx, tbl, "") }, // 6
	}
	for i, step := range steps {
		if err := step(); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
	}
	return m
}

// standing reads every version, tag and branch there is: by name, the rows.
func standing(t *testing.T, tbl *table.Table) map[string][]map[string]any {
	t.Helper()
	found := map[string][]map[string]any{}
	lines := []string{""}
	branches, err := tbl.Branches(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range branches {
		lines = append(lines, b.Name)
	}
	for _, line := range lines {
		versions, err := tbl.Versions(t.Context(), line)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range versions {
			_, rows := tabletest.ScanAll(t, tabletest.At(t, tbl, table.Ref{Branch: line, Version: v.Version}), table.ScanRequest{})
			found[fmt.Sprintf("%s %d", line, v.Version)] = rows
		}
	}
	tags, err := tbl.Tags(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, tag := range tags {
		if tag.Expired(time.Now()) {
			continue
		}
		_, rows := tabletest.ScanAll(t, tabletest.At(t, tbl, table.Ref{Tag: tag.Name}), table.ScanRequest{})
		found["tag "+tag.Name] = rows
	}
	return found
}

// whole checks that what stands is what stood, and that nothing is gone that must
// stay.
func whole(t *testing.T, call string, before, now map[string][]map[string]any, must ...string) {
	t.Helper()
	for name, rows := range now {
		if want, ok := before[name]; ok {
			if diff := cmp.Diff(want, rows); diff != "" {
				t.Errorf("%s: %s (-want +got):\n%s", call, name, diff)
			}
		}
	}
	for _, name := range must {
		if _, ok := now[name]; !ok {
			t.Errorf("%s: %s is gone", call, name)
		}
	}
}

// protected are what no cleanup of the main line of aged may touch.
var protected = []string{" 2", " 3", " 6", "dev 2", "dev 3", "tag kept"}

// TestCleanupSurvivesEachFailure lets every single call of a store fail during a
// cleanup. Every version that is listed afterwards is whole, and the next cleanup
// ends as one without a failure does.
func TestCleanupSurvivesEachFailure(t *testing.T) {
	t.Parallel()
	for _, managed := range []bool{false, true} {
		t.Run(fmt.Sprintf("GC-1 GC-4 GC-6 managed %t", managed), func(t *testing.T) {
			t.Parallel()
			start := aged(t, managed)
			before := standing(t, of(t, start))
			policy := maintain.Policy{OlderThan: age(0), DeleteUnverified: true}
			tbl, clean := copied(t, start, itself)
			if _, err := maintain.Cleanup(t.Context(), tbl, policy); err != nil {
				t.Fatal(err)
			}
			want := objectsOf(t, clean)
			whole(t, "undisturbed", before, standing(t, tbl), protected...)
			for how, plan := range map[string]faultstore.Plan{
				"refused": {How: faultstore.Refused}, "lost": {How: faultstore.Lost}, "unanswered": {How: faultstore.Unanswered},
				"cancelled": {How: faultstore.Cancelled}, "killed": {How: faultstore.Refused, Forever: true},
			} {
				if !managed && how != "killed" {
					continue
				}
				failures := 0
				for n := 1; ; n++ {
					ctx, cancel := context.WithCancel(t.Context())
					plan := plan
					plan.Call, plan.Cancel = n, cancel
					var s *faultstore.Store
					tbl, m := copied(t, start, func(m *objstore.Mem) objstore.Store { s = faultstore.New(m, plan); return s })
					_, err := maintain.Cleanup(ctx, tbl, maintain.Policy{OlderThan: age(0)})
					cancel()
					if !s.Failed() {
						if err != nil || n < 30 {
							t.Errorf("without a failure: %v after %d calls", err, n)
						}
						break
					}
					call := fmt.Sprintf("%s at %s", how, s.Calls()[n-1])
					if err != nil {
						failures++
					}
					again, left := copied(t, m, itself)
					whole(t, call, before, standing(t, again), protected...)
					if _, err := maintain.Cleanup(t.Context(), again, policy); err != nil {
						t.Errorf("%s: again: %v", call, err)
					}
					if got := objectsOf(t, left); !slices.Equal(got, want) {
						t.Errorf("%s: afterwards there are %v, without a failure %v", call, got, want)
					}
					if t.Failed() {
						return
					}
				}
				if failures < 20 {
					t.Errorf("%s: only %d failures showed", how, failures)
				}
			}
		})
	}
}

// TestCleanupBesideOthers lets somebody else do something before each single call
// that a cleanup makes. What he was told is done can be read afterwards.
func TestCleanupBesideOthers(t *testing.T) {
	t.Parallel()
	for what, act := range map[string]func(ctx context.Context, tbl *table.Table) (expect string, err error){
		"GC-3 a tag": func(ctx context.Context, tbl *table.Table) (string, error) {
			_, err := tbl.CreateTag(ctx, "new", table.Ref{Version: 1}, table.TagOptions{})
			return "tag new", err
		},
		"GC-3 a lease": func(ctx context.Context, tbl *table.Table) (string, error) {
			s, err := tbl.At(ctx, table.Ref{Version: 4})
			if err != nil {
				return "", err
			}
			_, err = tbl.Lease(ctx, s, time.Now().Add(time.Hour))
			return " 4", err
		},
		"GC-3 a restore": func(ctx context.Context, tbl *table.Table) (string, error) {
			s, err := tbl.Restore(ctx, "", table.Ref{Version: 1})
			if err != nil {
				return "", err
			}
			return fmt.Sprintf(" %d", s.Version()), nil
		},
		"GC-4 a branch": func(ctx context.Context, tbl *table.Table) (string, error) {
			_, err := tbl.CreateBranch(ctx, "late", table.Ref{Version: 1})
			return "late 1", err
		},
		"GC-1 an append": func(ctx context.Context, tbl *table.Table) (string, error) {
			return " 7", appendRow(ctx, tbl, "")
		},
		"GC-4 another cleanup": func(ctx context.Context, tbl *table.Table) (string, error) {
			_, err := maintain.Cleanup(ctx, tbl, maintain.Policy{OlderThan: age(0)})
			return " 6", err
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			start := aged(t, true)
			before := standing(t, of(t, start))
			done, refused := 0, 0
			for n := 1; ; n++ {
				reached, expect := false, ""
				var acted error
				another, m := process(t, start)
				beside := table.New(another(), objstore.Location{Store: m, Path: "t.lance"}, "t")
				s := faultstore.New(m, faultstore.Plan{Before: func(c faultstore.Call) {
					if c.Number == n {
						reached = true
						expect, acted = act(t.Context(), beside)
					}
				}})
				tbl := table.New(another(), objstore.Location{Store: s, Path: "t.lance"}, "t")
				_, err := maintain.Cleanup(t.Context(), tbl, maintain.Policy{OlderThan: age(0)})
				if !reached {
					break
				}
				call := fmt.Sprintf("before %s", s.Calls()[n-1])
				if err != nil {
					t.Errorf("%s: %v", call, err)
				}
				must := protected
				switch {
				case acted == nil:
					done++
					must = append(slices.Clone(protected), expect)
				case fault.KindOf(acted) == fault.NotFound, fault.KindOf(acted) == fault.Conflict:
					refused++
				default:
					t.Errorf("%s: %v", call, acted)
				}
				now := standing(t, of(t, m))
				if _, newer := now[" 7"]; newer { // 6 is an old version then
					must = slices.DeleteFunc(slices.Clone(must), func(name string) bool { return name == " 6" })
				}
				whole(t, call, before, now, must...)
				if t.Failed() {
					return
				}
			}
			if done < 10 {
				t.Errorf("it was done %d times and refused %d times", done, refused)
			}
		})
	}
}

// TestCleanupReadsNoPayload counts what a cleanup reads (GC-5).
func TestCleanupReadsNoPayload(t *testing.T) {
	t.Parallel()
	t.Run("GC-5 GC-7", func(t *testing.T) {
		t.Parallel()
		for _, managed := range []bool{false, true} {
			counter := objstore.NewCounter(objstore.CounterOptions{})
			tbl, _ := copied(t, aged(t, managed), func(m *objstore.Mem) objstore.Store { return objstore.Counted(m, counter) })
			if _, err := maintain.Cleanup(t.Context(), tbl, maintain.Policy{OlderThan: age(0)}); err != nil {
				t.Fatal(err)
			}
			pages := 0
			for _, o := range counter.Snapshot().Objects {
				if strings.HasSuffix(o.URI, ".blob") && o.Requests() > o.Deletes {
					t.Errorf("%s was read: %+v", o.URI, o.Count)
				}
				if strings.HasSuffix(o.URI, ".lance") && o.Reads > 0 {
					pages++
				}
			}
			if managed && pages == 0 {
				t.Error("no descriptor was read")
			}
		}
	})
}

// TestCleanupReadsSharedFilesOnce lets many versions have the same data file.
func TestCleanupReadsSharedFilesOnce(t *testing.T) {
	t.Parallel()
	m := objstore.NewMem("m")
	tbl := in(t, m)
	if err := write(t.Context(), tbl, true, 1); err != nil {
		t.Fatal(err)
	}
	reads := func() (n int64) {
		counter := objstore.NewCounter(objstore.CounterOptions{})
		_, err := maintain.Cleanup(t.Context(), in(t, objstore.Counted(m, counter)), maintain.Policy{RetainVersions: 1000})
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range counter.Snapshot().Objects {
			if strings.HasSuffix(o.URI, ".lance") {
				n += o.Reads
			}
		}
		return n
	}
	once := reads()
	for i := range 20 {
		configure(t, tbl, uint64(i+1), map[string]string{"k": fmt.Sprint(i)})
	}
	if again := reads(); once == 0 || again != once {
		t.Errorf("one version takes %d reads of data files, 21 versions %d", once, again)
	}
}

// TestCleanupStopsAtDamage leaves everything alone when something that counts
// cannot be read (GC-11).
func TestCleanupStopsAtDamage(t *testing.T) {
	t.Parallel()
	put := func(path string, data []byte) func(*testing.T, *objstore.Mem) {
		return func(t *testing.T, m *objstore.Mem) {
			t.Helper()
			if err := (objstore.Location{Store: m, Path: "t.lance/" + path}).Put(t.Context(), data); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []struct {
		name   string
		damage func(*testing.T, *objstore.Mem)
		kind   fault.Kind
	}{
		{"GC-11 a manifest that would go", put(manifest.Path(1, manifest.V2), []byte("no manifest")), fault.Corrupt},
		{"GC-11 a manifest that stays", put(manifest.Path(3, manifest.V2), []byte("no manifest")), fault.Corrupt},
		{"GC-11 a manifest of a branch", put("tree/dev/"+manifest.Path(2, manifest.V2), []byte("no manifest")), fault.Corrupt},
		{"GC-11 a detached version", put("_versions/d9223372036854775809.manifest", []byte("no manifest")), fault.Corrupt},
		{"GC-11 a tag", put("_refs/tags/kept.json", []byte("{")), fault.Corrupt},
		{"GC-11 a branch", put("_refs/branches/dev.json", []byte("{")), fault.Corrupt},
		{"GC-11 both naming schemes", put("_versions/7.manifest", []byte("x")), fault.Corrupt},
		{"GC-11 descriptors of a version that stays", func(t *testing.T, m *objstore.Mem) {
			file := tabletest.At(t, of(t, m), table.Ref{Tag: "kept"}).Manifest().Fragments[0].Files[0].Path
			put("data/"+file, []byte("no data file"))(t, m)
		}, fault.Corrupt},
		{"GC-11 deletions of a version that stays", func(t *testing.T, m *objstore.Mem) {
			for _, p := range objectsOf(t, m) {
				if strings.HasPrefix(p, "_deletions/") {
					put(p, []byte("no deletions"))(t, m)
				}
			}
		}, fault.Corrupt},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			damaged := aged(t, true)
			c.damage(t, damaged)
			tbl, m := copied(t, damaged, itself)
			before := objectsOf(t, m)
			r, err := maintain.Cleanup(t.Context(), tbl, maintain.Policy{OlderThan: age(0), DeleteUnverified: true})
			if fault.KindOf(err) != c.kind || !strings.Contains(fmt.Sprint(err), "before it removed anything") {
				t.Errorf("%v, %v", r, err)
			}
			if got := objectsOf(t, m); !slices.Equal(got, before) {
				t.Errorf("%v are gone", differences(setOf(before), setOf(got)))
			}
		})
	}
}

// TestCleanupStopsAtBadDescriptors cleans a table up whose newest version has
// descriptors of unknown kinds and bad paths, without the flag of managed blobs. They
// count when an object of values would go, and not otherwise.
func TestCleanupStopsAtBadDescriptors(t *testing.T) {
	t.Parallel()
	t.Run("GC-11 REJ-2", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "t.lance")
		if err := os.CopyFS(path, os.DirFS(filepath.Join(tabletest.Fixtures(t), "descriptors_crafted", "table.lance"))); err != nil {
			t.Fatal(err)
		}
		object := filepath.Join(path, "_blobs", uuid.NewString()+".blob")
		if err := os.MkdirAll(filepath.Dir(object), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(object, []byte("value"), 0o600); err != nil {
			t.Fatal(err)
		}
		tbl := tabletest.Open(t, tabletest.Env(t, path), path)
		before := contents(t, path)
		r, err := maintain.Cleanup(t.Context(), tbl, maintain.Policy{OlderThan: age(0), DeleteUnverified: true})
		if fault.KindOf(err) != fault.Corrupt || !strings.Contains(err.Error(), "before it removed anything") || !strings.Contains(err.Error(), "unknown descriptor kind") {
			t.Errorf("%s%v", r.String(), err)
		}
		if got := contents(t, path); !maps.Equal(got, before) {
			t.Errorf("%v are gone", differences(before, got))
		}
		// A young object does not go, so nothing depends on the descriptors.
		r, err = maintain.Cleanup(t.Context(), tbl, maintain.Policy{OlderThan: age(0)})
		if err != nil || !slices.Equal(r.Removed, []uint64{1}) {
			t.Errorf("%s%v", r.String(), err)
		}
		if _, err := os.Stat(object); err != nil {
			t.Error(err)
		}
	})
}

// TestCleanupPassesOverDamageThatGoes cleans a table up whose old versions have
// lost files.
func TestCleanupPassesOverDamageThatGoes(t *testing.T) {
	t.Parallel()
	t.Run("GC-9 GC-11", func(t *testing.T) {
		t.Parallel()
		m := objstore.NewMem("m")
		tbl := in(t, m)
		if err := write(t.Context(), tbl, true, 2); err != nil {
			t.Fatal(err)
		}
		lost := tabletest.At(t, tbl, table.Ref{}).Manifest().Fragments[0].Files[0].Path
		a, err := tbl.Overwrite(t.Context(), "", pictures, table.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer a.Abort()
		rows := emptyRow()
		defer rows.Release()
		if err := a.Write(t.Context(), rows); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := (objstore.Location{Store: m, Path: "t.lance/data/" + lost}).Delete(t.Context()); err != nil {
			t.Fatal(err)
		}
		r, err := maintain.Cleanup(t.Context(), in(t, m), maintain.Policy{OlderThan: age(0)})
		if err != nil || !slices.Equal(r.Removed, []uint64{1}) || r.Files[maintain.DataFiles].Files != 1 {
			t.Errorf("%s%v", r.String(), err)
		}
		standing(t, in(t, m))
	})
}

// TestCleanupKeepsWhatBranchesNeed cleans up after the version that a branch left
// is gone: nothing but the branch's own manifests tells what it needs.
func TestCleanupKeepsWhatBranchesNeed(t *testing.T) {
	t.Parallel()
	t.Run("GC-12", func(t *testing.T) {
		t.Parallel()
		tbl, m := copied(t, aged(t, true), itself)
		before := standing(t, of(t, m))
		if err := (objstore.Location{Store: m, Path: "t.lance/" + manifest.Path(2, manifest.V2)}).Delete(t.Context()); err != nil {
			t.Fatal(err)
		}
		r, err := maintain.Cleanup(t.Context(), tbl, maintain.Policy{OlderThan: age(0), DeleteUnverified: true})
		if err != nil || !slices.Equal(r.Removed, []uint64{1, 4, 5}) {
			t.Errorf("%s%v", r.String(), err)
		}
		whole(t, "without the parent's version", before, standing(t, tbl), " 3", " 6", "dev 2", "dev 3", "tag kept")
	})
}

// TestCleanupLeases takes an expired lease for absent and removes its tag.
func TestCleanupLeases(t *testing.T) {
	t.Parallel()
	tbl := of(t, aged(t, false))
	if _, err := tbl.Lease(t.Context(), tabletest.At(t, tbl, table.Ref{Version: 1}), time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		now     time.Time
		removed []uint64
		leases  uint64
		spared  []maintain.Spared
	}{
		{time.Now(), []uint64{4, 5}, 0, []maintain.Spared{{1, "a lease"}, {2, `branch "dev"`}, {3, `tag "kept"`}}},
		{time.Now().Add(2 * time.Hour), []uint64{1}, 1, []maintain.Spared{{2, `branch "dev"`}, {3, `tag "kept"`}}},
		{time.Now().Add(3 * time.Hour), nil, 0, []maintain.Spared{{2, `branch "dev"`}, {3, `tag "kept"`}}},
	} {
		r, err := maintain.Cleanup(t.Context(), tbl, maintain.Policy{OlderThan: age(0), Now: c.now})
		for i, s := range r.Spared {
			if strings.HasPrefix(s.Why, "a lease until 2") {
				r.Spared[i].Why = "a lease"
			}
		}
		if err != nil || !slices.Equal(r.Removed, c.removed) || r.Files[maintain.Leases].Files != c.leases || !slices.Equal(r.Spared, c.spared) {
			t.Errorf("at %s: %s%v", c.now, r.String(), err)
		}
	}
	if tags, err := tbl.Tags(t.Context()); err != nil || len(tags) != 1 {
		t.Errorf("tags %v, %v", tags, err)
	}
}

func TestCleanupPoliciesAreChecked(t *testing.T) {
	t.Parallel()
	tbl := of(t, aged(t, false))
	if _, err := maintain.Cleanup(t.Context(), tbl, maintain.Policy{OlderThan: age(-time.Second)}); fault.KindOf(err) != fault.Invalid {
		t.Errorf("a negative age: %v", err)
	}
	if _, err := maintain.Cleanup(t.Context(), tbl, maintain.Policy{Branch: "none"}); fault.KindOf(err) != fault.NotFound {
		t.Errorf("a branch that does not exist: %v", err)
	}
	if _, err := maintain.Cleanup(t.Context(), in(t, objstore.NewMem("m")), maintain.Policy{}); fault.KindOf(err) != fault.NotFound {
		t.Errorf("a table that does not exist: %v", err)
	}
}

// TestCleanupOfLinkedRoot cleans a table up through a link whose files a version
// names by a base that spells the same folder otherwise.
func TestCleanupOfLinkedRoot(t *testing.T) {
	t.Parallel()
	t.Run("GC-10", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		session := tabletest.StartSession(t)
		session.Run(nil, prelude)
		path, link := filepath.Join(dir, "t.lance"), filepath.Join(dir, "link")
		if err := os.Symlink(path, link); err != nil {
			t.Fatal(err)
		}
		// The first version writes to the base that is the table's own folder.
		session.Run(nil, fmt.Sprintf(`
P = %q
os.makedirs(P)
lance.write_dataset(rows(0, managed=True), P, initial_bases=[lance.DatasetBasePath(%q, "self", True, 7)], target_bases=["self"])
append(P, 7, managed=True)
lance.dataset(P).optimize.compact_files()
lance.dataset(P).delete("id = 4")
`, path, link))
		var before, after map[string]string
		session.Run(&before, "state(P)")
		tbl := tabletest.Open(t, tabletest.Env(t, dir), path)
		r, err := maintain.Cleanup(t.Context(), tbl, maintain.Policy{OlderThan: age(0), DeleteUnverified: true})
		if err != nil || len(r.Removed) != 4 {
			t.Fatalf("%s%v", r.String(), err)
		}
		session.Run(&after, "state(P)")
		if len(after) != 1 || after["main 5"] == "" || after["main 5"] != before["main 5"] {
			t.Errorf("before %v, after %v", before, after)
		}
		readAll(t, tbl, "")
	})
}

// TestAutoCleanup commits to tables whose settings ask for cleanups, sheet section
// 7.3, and lists the versions that are left.
func TestAutoCleanup(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		settings map[string]string
		left     []uint64 // of 1 to 9
		failures int
	}{
		{map[string]string{}, []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9}, 0},
		{map[string]string{"interval": "3", "older_than": "0s"}, []uint64{8, 9}, 0},
		{map[string]string{"interval": "4", "older_than": "0s"}, []uint64{7, 8, 9}, 0},
		{map[string]string{"interval": "0", "older_than": "0"}, []uint64{8, 9}, 0},
		{map[string]string{"interval": "1", "older_than": "0s"}, []uint64{8, 9}, 0},
		{map[string]string{"interval": "3", "older_than": "14d"}, []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9}, 0},
		{map[string]string{"interval": "3", "retain_versions": "4"}, []uint64{6, 7, 8, 9}, 0},
		{map[string]string{"interval": "1", "retain_versions": "1"}, []uint64{8, 9}, 0},
		{map[string]string{"interval": "3", "retain_versions": "4", "older_than": "1h"}, []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9}, 0},
		{map[string]string{"interval": "3"}, []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9}, 0},
		{map[string]string{"interval": "x", "older_than": "0s"}, []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9}, 8},
		{map[string]string{"interval": "1", "older_than": "long"}, []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9}, 8},
		{map[string]string{"interval": "1", "retain_versions": "0"}, []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9}, 8},
	} {
		t.Run(fmt.Sprint(c.settings), func(t *testing.T) {
			t.Parallel()
			env := tabletest.Env(t, t.TempDir())
			failures := 0
			env.OnCommit(func(ctx context.Context, s *table.Snapshot) {
				if _, _, err := maintain.AutoCleanup(ctx, s); err != nil {
					if fault.KindOf(err) != fault.Invalid {
						t.Error(err)
					}
					failures++
				}
			})
			tbl := table.New(env, objstore.Location{Store: objstore.NewMem("m"), Path: "t.lance"}, "t")
			if err := write(t.Context(), tbl, false, 1); err != nil {
				t.Fatal(err)
			}
			set := map[string]string{}
			for k, v := range c.settings {
				set["lance.auto_cleanup."+k] = v
			}
			set["any"] = "thing"
			configure(t, tbl, 1, set)
			for range 7 {
				if err := appendRow(t.Context(), tbl, ""); err != nil {
					t.Fatal(err)
				}
			}
			versions, err := tbl.Versions(t.Context(), "")
			if err != nil {
				t.Fatal(err)
			}
			var left []uint64
			for _, v := range versions {
				left = append(left, v.Version)
			}
			if !slices.Equal(left, c.left) || failures != c.failures {
				t.Errorf("versions %v are left, want %v; %d failures, want %d", left, c.left, failures, c.failures)
			}
		})
	}
}

func setOf(names []string) map[string]string {
	return maps.Collect(func(yield func(string, string) bool) {
		for _, n := range names {
			if !yield(n, "") {
				return
			}
		}
	})
}

// configure sets keys of the table's configuration.
func configure(t *testing.T, tbl *table.Table, version uint64, set map[string]string) {
	t.Helper()
	var entries []manifest.UpdateEntry
	for k, v := range set {
		entries = append(entries, manifest.UpdateEntry{Key: k, Value: &v})
	}
	tx := &manifest.Transaction{ReadVersion: version, UUID: uuid.NewString(), Op: &manifest.UpdateConfig{Config: &manifest.UpdateMap{Entries: entries}}}
	if _, err := tbl.Commit(t.Context(), "", tx, table.CommitOptions{}); err != nil {
		t.Fatal(err)
	}
}

// emptyRow is a row without a value.
func emptyRow() arrow.RecordBatch {
	b := array.NewRecordBuilder(memory.DefaultAllocator, pictures)
	defer b.Release()
	b.Field(0).(*array.Int64Builder).Append(1000)
	b.Field(1).AppendNull()
	return b.NewRecordBatch()
}
