package maintain_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/objstore/faultstore"
	"github.com/flightblob/flightblob/table"
	"github.com/flightblob/flightblob/table/maintain"
	"github.com/flightblob/flightblob/table/manifest"
	"github.com/flightblob/flightblob/table/tabletest"
)

// unwritable is a store that takes no writes.
type unwritable struct{ objstore.Store }

func (unwritable) Create(context.Context, string) (objstore.Writer, error) { return nil, errUnwritable }
func (unwritable) PutIfAbsent(context.Context, string, []byte) error       { return errUnwritable }
func (unwritable) Put(context.Context, string, []byte) error               { return errUnwritable }
func (unwritable) Delete(context.Context, string) error                    { return errUnwritable }

var errUnwritable = fault.New(fault.Denied, "the store takes no writes")

// TestClonesOfFixtures clones every version of every golden table, which lie where
// nothing can be written.
func TestClonesOfFixtures(t *testing.T) {
	t.Parallel()
	dir := tabletest.Fixtures(t)
	for _, fixture := range tabletest.FixtureNames(t, dir) {
		t.Run("CLN-1 CLN-5 DIFF-4 "+fixture, func(t *testing.T) {
			t.Parallel()
			env := tabletest.Env(t, filepath.Join(dir, fixture))
			for name, line := range tabletest.ReadRecorded(t, dir, fixture).Tables {
				source := tabletest.Open(t, env, filepath.Join(dir, fixture, name))
				root := source.Root()
				root.Store = unwritable{root.Store}
				source = table.New(env, root, name)
				lines := map[string][]tabletest.RecordedVersion{"": line.Versions}
				for branch, b := range line.Branches {
					lines[branch] = b.Versions
				}
				for branch, versions := range lines {
					for _, v := range versions {
						checkClones(t, env, source, table.Ref{Branch: branch, Version: v.Version}, fixture == "descriptors_crafted" && v.Version > 1)
					}
				}
			}
		})
	}
}

// checkClones makes a shallow and a deep clone of a version in memory and reads
// them.
func checkClones(t *testing.T, env *table.Env, source *table.Table, ref table.Ref, broken bool) {
	t.Helper()
	s := tabletest.At(t, source, ref)
	_, want := tabletest.ScanAll(t, s, table.ScanRequest{})
	place := func(name string) *table.Table {
		return table.New(env, objstore.Location{Store: objstore.NewMem(name), Path: "copy"}, name)
	}
	shallow, err := maintain.ShallowClone(t.Context(), source, ref, place("shallow"), maintain.ShallowOptions{})
	if err != nil {
		t.Fatalf("%v: %v", ref, err)
	}
	if shallow.Clone.Version() != s.Version() || shallow.Clone.Ref().Branch != "" {
		t.Errorf("%v: the clone begins with %v", ref, shallow.Clone.Ref())
	}
	if _, got := tabletest.ScanAll(t, shallow.Clone, table.ScanRequest{}); !cmp.Equal(want, got) {
		t.Errorf("%v, shallow (-want +got):\n%s", ref, cmp.Diff(want, got))
	}
	deep, err := maintain.DeepClone(t.Context(), source, ref, place("deep"), maintain.DeepOptions{})
	if broken {
		if fault.KindOf(err) != fault.Corrupt || !strings.Contains(err.Error(), "row ") {
			t.Errorf("%v: values that cannot be read were copied: %v", ref, err)
		}
		return
	}
	if err != nil {
		t.Fatalf("%v: %v", ref, err)
	}
	descriptors, got := tabletest.ScanAll(t, deep.Clone, table.ScanRequest{})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%v, deep (-want +got):\n%s", ref, diff)
	}
	if text := fmt.Sprint(descriptors); strings.Contains(text, "kind:5 ") {
		t.Errorf("%v: bases are named: %s", ref, text)
	}
	m, of := deep.Clone.Manifest(), s.Manifest()
	if m.Version != of.Version || m.NextRowID != of.NextRowID || !maps.Equal(m.Config, of.Config) || !maps.Equal(m.TableMetadata, of.TableMetadata) ||
		m.StableRowIDs() != of.StableRowIDs() || m.ManagedBlobs() != of.ManagedBlobs() || len(m.Indexes) != len(of.Indexes) {
		t.Errorf("%v: other settings, ids or indexes than %v", ref, of.Version)
	}
	for i, f := range m.Fragments {
		if f.ID != of.Fragments[i].ID || !bytes.Equal(f.RowIDs, of.Fragments[i].RowIDs) || !bytes.Equal(f.UpdatedAt, of.Fragments[i].UpdatedAt) {
			t.Errorf("%v: fragment %d is other than %d", ref, f.ID, of.Fragments[i].ID)
		}
		for _, d := range f.Files {
			if d.BaseID != nil {
				t.Errorf("%v: %s lies in base %d", ref, d.Path, *d.BaseID)
			}
		}
	}
	for id, b := range m.Bases {
		if of.Bases[id] != b {
			t.Errorf("%v: base %+v was %+v", ref, b, of.Bases[id])
		}
	}
}

// mixed makes a table with values of all kinds that writes make: in a base on a
// disk, kind 5, and below its own root.
func mixed(ctx context.Context, tbl *table.Table, base string) error {
	managed := true
	for i := range 2 {
		o := table.WriteOptions{RowsPerFile: 10}
		var a *table.Appender
		var err error
		if i == 0 {
			o.TargetBase = base
			a, err = tbl.Create(ctx, pictures, table.CreateOptions{
				WriteOptions: o, Settings: &table.Settings{Managed: &managed}, Bases: []manifest.Base{{Path: base, Name: "b"}},
			})
		} else {
			a, err = tbl.Append(ctx, "", pictures, o)
		}
		if err != nil {
			return err
		}
		defer a.Abort()
		b := array.NewRecordBuilder(memory.DefaultAllocator, pictures)
		defer b.Release()
		for k := range 10 {
			b.Field(0).(*array.Int64Builder).Append(int64(10*i + k))
			img := b.Field(1).(*array.StructBuilder)
			if k == 4 {
				img.AppendNull()
				continue
			}
			img.Append(true)
			img.FieldBuilder(0).(*array.BinaryBuilder).Append(bytes.Repeat([]byte{byte(i), byte(k)}, 8*(k%7)))
			img.FieldBuilder(1).AppendNull()
		}
		rows := b.NewRecordBatch()
		defer rows.Release()
		if err := a.Write(ctx, rows); err != nil {
			return err
		}
		if _, err := a.Commit(ctx); err != nil {
			return err
		}
	}
	m, err := tbl.Mutate(ctx, "")
	if err != nil {
		return err
	}
	defer m.Abort()
	if _, err := m.Remove([]uint64{3, 6, 1<<32 | 2}); err != nil {
		return err
	}
	_, err = m.Commit(ctx, table.MutationOptions{})
	return err
}

// beside is a table of another name in the store of in.
func beside(t *testing.T, tbl *table.Table, s objstore.Store) *table.Table {
	t.Helper()
	return table.New(tabletest.Env(t, t.TempDir()), objstore.Location{Store: s, Path: "c.lance"}, "c")
}

// TestClonesSurviveEachFailure lets every single call of a store fail during a
// clone: it is complete, or there is none and the same clone can be made then. The
// source is as it was.
func TestClonesSurviveEachFailure(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	start := objstore.NewMem("m")
	at := func(s objstore.Store, path string) *table.Table {
		return table.New(tabletest.Env(t, base), objstore.Location{Store: s, Path: path}, path[:1])
	}
	if err := mixed(t.Context(), at(start, "t.lance"), base); err != nil {
		t.Fatal(err)
	}
	_, want := tabletest.ScanAll(t, tabletest.At(t, at(start, "t.lance"), table.Ref{}), table.ScanRequest{})
	objects := func(s objstore.Store) (n int) {
		for o, err := range objstore.Walk(t.Context(), objstore.Location{Store: s, Path: "c.lance"}) {
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(o.Name, "_transactions/") {
				n++
			}
		}
		return n
	}
	make := map[string]func(ctx context.Context, s objstore.Store) (*maintain.Cloned, error){
		"shallow": func(ctx context.Context, s objstore.Store) (*maintain.Cloned, error) {
			return maintain.ShallowClone(ctx, at(s, "t.lance"), table.Ref{}, at(s, "c.lance"), maintain.ShallowOptions{TagSource: true})
		},
		"deep": func(ctx context.Context, s objstore.Store) (*maintain.Cloned, error) {
			return maintain.DeepClone(ctx, at(s, "t.lance"), table.Ref{}, at(s, "c.lance"), maintain.DeepOptions{})
		},
	}
	for what, clone := range make {
		whole := start.CrashClone()
		if _, err := clone(t.Context(), whole); err != nil {
			t.Fatal(err)
		}
		complete := objects(whole)
		for how, plan := range map[string]faultstore.Plan{
			"refused": {How: faultstore.Refused}, "lost": {How: faultstore.Lost}, "unanswered": {How: faultstore.Unanswered},
			"cancelled": {How: faultstore.Cancelled}, "killed": {How: faultstore.Refused, Forever: true},
		} {
			for n := 1; ; n++ {
				ctx, cancel := context.WithCancel(t.Context())
				m, plan := start.CrashClone(), plan
				plan.Call, plan.Cancel = n, cancel
				s := faultstore.New(m, plan)
				_, err := clone(ctx, s)
				cancel()
				left := m.CrashClone()
				if !s.Failed() {
					if err != nil || n < 15 {
						t.Errorf("%s without a failure, %d calls: %v", what, n, err)
					}
					break
				}
				call := fmt.Sprintf("%s, %s at %s", what, how, s.Calls()[n-1])
				there, eerr := at(left, "c.lance").Exists(t.Context())
				if eerr != nil {
					t.Fatal(eerr)
				}
				switch {
				case there && err != nil && !errors.Is(err, objstore.ErrUncertain) && how != "killed" && how != "cancelled" && fault.KindOf(err) != fault.Unavailable:
					t.Errorf("%s: published, but %v", call, err)
				case !there && err == nil:
					t.Errorf("%s: success, but nothing is published", call)
				case !there:
					tags, terr := at(left, "t.lance").Tags(t.Context())
					if terr != nil {
						t.Fatal(terr)
					}
					if how == "refused" && len(tags) > 0 && s.Calls()[n-1].Op != faultstore.Delete {
						t.Errorf("%s: the source has tags %v", call, tags)
					}
					done, err := clone(t.Context(), left)
					if err != nil {
						t.Errorf("%s: again: %v", call, err)
						continue
					}
					if what == "deep" && how == "refused" && objects(left) != complete {
						t.Errorf("%s: again: %d objects, want %d", call, objects(left), complete)
					}
					if what == "deep" && objects(m) > 5 && done.Copied.Found == 0 {
						t.Errorf("%s: again: nothing of %d objects was used", call, objects(m))
					}
				}
				for _, path := range []string{"t.lance", "c.lance"} {
					if what == "shallow" && path == "c.lance" { // its base names a store that nobody can open
						m := tabletest.At(t, at(left, path), table.Ref{}).Manifest()
						if m.Rows() != uint64(len(want)) || m.Bases[0].Path != "mem://m/t.lance" || !m.Bases[0].IsDatasetRoot || m.Bases[1].Path != base {
							t.Errorf("%s: %d rows, bases %v", call, m.Rows(), m.Bases)
						}
						continue
					}
					_, got := tabletest.ScanAll(t, tabletest.At(t, at(left, path), table.Ref{}), table.ScanRequest{})
					if diff := cmp.Diff(want, got); diff != "" {
						t.Errorf("%s: %s (-want +got):\n%s", call, path, diff)
					}
				}
			}
		}
	}
}

// TestDeepCloneGoesOn begins a clone again: with the same source it goes on, any
// other is refused, and so is a folder with other things in it.
func TestDeepCloneGoesOn(t *testing.T) {
	t.Parallel()
	base, m := t.TempDir(), objstore.NewMem("m")
	at := func(s objstore.Store, path string) *table.Table {
		return table.New(tabletest.Env(t, base), objstore.Location{Store: s, Path: path}, path)
	}
	if err := mixed(t.Context(), at(m, "t.lance"), base); err != nil {
		t.Fatal(err)
	}
	deep := func(s objstore.Store, ref table.Ref, to string) (*maintain.Cloned, error) {
		return maintain.DeepClone(t.Context(), at(s, "t.lance"), ref, at(s, to), maintain.DeepOptions{})
	}
	broken := faultstore.New(m, faultstore.Plan{Call: 1, How: faultstore.Refused, Count: func(c faultstore.Call) bool {
		return strings.Contains(c.Path, "c.lance/_versions") && c.Op == faultstore.PutIfAbsent
	}})
	if _, err := deep(broken, table.Ref{}, "c.lance"); fault.KindOf(err) != fault.Unavailable || !strings.Contains(err.Error(), "again") {
		t.Fatalf("the manifest was refused: %v", err)
	}
	if _, err := deep(m, table.Ref{Version: 1}, "c.lance"); fault.KindOf(err) != fault.Precondition || !strings.Contains(err.Error(), "version 3") {
		t.Errorf("another version in the place: %v", err)
	}
	done, err := deep(m, table.Ref{}, "c.lance")
	if err != nil || done.Copied.Found == 0 || done.Copied.Found != done.Copied.Objects-done.Copied.Rewritten || done.Copied.Rewritten != 1 {
		t.Errorf("%+v, %v", done, err)
	}
	if _, err := deep(m, table.Ref{}, "c.lance"); fault.KindOf(err) != fault.Exists {
		t.Errorf("a clone in the place of one: %v", err)
	}
	for _, to := range []string{"t.lance/below", "t.lance"} {
		if _, err := deep(m, table.Ref{}, to); fault.KindOf(err) != fault.Invalid && fault.KindOf(err) != fault.Exists {
			t.Errorf("a clone to %s: %v", to, err)
		}
	}
	if err := m.Put(t.Context(), "full/readme.txt", []byte("mine")); err != nil {
		t.Fatal(err)
	}
	if _, err := deep(m, table.Ref{}, "full"); fault.KindOf(err) != fault.Precondition || !strings.Contains(err.Error(), "readme.txt") {
		t.Errorf("a folder with other things: %v", err)
	}
	t.Run("what no other attempt finds is removed", func(t *testing.T) {
		broken := faultstore.New(m, faultstore.Plan{Call: 1, How: faultstore.Refused, Count: func(c faultstore.Call) bool {
			return strings.Contains(c.Path, "once/_versions") && c.Op == faultstore.PutIfAbsent
		}})
		_, err := maintain.DeepClone(t.Context(), at(m, "t.lance"), table.Ref{}, at(broken, "once"), maintain.DeepOptions{Once: true})
		if fault.KindOf(err) != fault.Unavailable {
			t.Errorf("%v", err)
		}
		for o, err := range objstore.Walk(t.Context(), objstore.Location{Store: m, Path: "once"}) {
			t.Errorf("%s is left, %v", o.Name, err)
		}
	})
	t.Run("a lost sidecar is told of", func(t *testing.T) {
		left := m.CrashClone()
		for o, err := range objstore.Walk(t.Context(), objstore.Location{Store: left, Path: "t.lance/_blobs"}) {
			if err != nil {
				t.Fatal(err)
			}
			if err := o.Delete(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := deep(left, table.Ref{}, "lost"); fault.KindOf(err) != fault.Corrupt || !strings.Contains(err.Error(), "_blobs/") {
			t.Errorf("%v", err)
		}
	})
}

// TestDeepCloneCopiesInsideStores counts what is read where source, base and clone
// lie in one bucket: no object as a whole, but the values in the data file whose
// column is written anew.
func TestDeepCloneCopiesInsideStores(t *testing.T) {
	t.Parallel()
	counter := objstore.NewCounter(objstore.CounterOptions{})
	env := tabletest.CountedEnv(t, counter, "mem://m")
	at := func(path string) *table.Table {
		loc, err := env.Locate(t.Context(), "mem://m/"+path)
		if err != nil {
			t.Fatal(err)
		}
		return table.New(env, loc, path)
	}
	source := at("t.lance")
	if err := mixed(t.Context(), source, "mem://m/base"); err != nil {
		t.Fatal(err)
	}
	_, want := tabletest.ScanAll(t, tabletest.At(t, source, table.Ref{}), table.ScanRequest{})
	counter.Reset()
	done, err := maintain.DeepClone(t.Context(), source, table.Ref{}, at("c.lance"), maintain.DeepOptions{})
	if err != nil {
		t.Fatal(err)
	}
	objects := 0
	for _, o := range counter.Snapshot().Objects {
		if !strings.HasSuffix(o.URI, ".blob") {
			continue
		}
		objects += int(o.Creates)
		if o.Reads > 0 {
			t.Errorf("%s was read %d times", o.URI, o.Reads)
		}
	}
	if objects != 5 { // two packs and three values of their own; one more is of a deleted row
		t.Errorf("%d objects were made", objects)
	}
	if _, got := tabletest.ScanAll(t, done.Clone, table.ScanRequest{}); !cmp.Equal(want, got) {
		t.Errorf("(-want +got):\n%s", cmp.Diff(want, got))
	}
}

// TestShallowCloneHasItsTag makes clones of a version that has tags already: the
// one that is asked for is the clone's alone, and the same for a clone made again.
func TestShallowCloneHasItsTag(t *testing.T) {
	t.Parallel()
	m := objstore.NewMem("m")
	source := in(t, m)
	if err := write(t.Context(), source, true, 2); err != nil {
		t.Fatal(err)
	}
	if _, err := source.CreateTag(t.Context(), "release", table.Ref{}, table.TagOptions{}); err != nil {
		t.Fatal(err)
	}
	clone := func(name string) *maintain.Cloned {
		t.Helper()
		to := table.New(tabletest.Env(t, t.TempDir()), objstore.Location{Store: m, Path: name + ".lance"}, name)
		done, err := maintain.ShallowClone(t.Context(), source, table.Ref{}, to, maintain.ShallowOptions{TagSource: true})
		if err != nil || !done.Tagged || done.Tag != "clone-"+name+"-v1" {
			t.Fatalf("%s: %+v, %v", name, done, err)
		}
		return done
	}
	clone("c")
	kept := clone("d")
	for _, tag := range []string{"release", "clone-c-v1"} {
		if _, err := source.DeleteTag(t.Context(), tag); err != nil {
			t.Fatal(err)
		}
	}
	retire(t, source)
	if err := kept.Clone.Table().Drop(t.Context()); err != nil {
		t.Fatal(err)
	}
	old, err := source.At(t.Context(), table.Ref{Tag: kept.Tag})
	if err != nil {
		t.Fatal(err)
	}
	tabletest.ScanAll(t, old, table.ScanRequest{})
	again := table.New(tabletest.Env(t, t.TempDir()), objstore.Location{Store: m, Path: "d.lance"}, "d")
	if done, err := maintain.ShallowClone(t.Context(), source, old.Ref(), again, maintain.ShallowOptions{TagSource: true}); err != nil || done.Tag != kept.Tag {
		t.Errorf("made again: %+v, %v", done, err)
	}
}

// retire overwrites a table with no rows and cleans up what nothing keeps.
func retire(t *testing.T, source *table.Table) {
	t.Helper()
	a, err := source.Overwrite(t.Context(), "", pictures, table.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	zero := time.Duration(0)
	if _, err := maintain.Cleanup(t.Context(), source, maintain.Policy{OlderThan: &zero, DeleteUnverified: true}); err != nil {
		t.Fatal(err)
	}
}

// TestShallowCloneNeedsTag shows CLN-4: a cleanup of the source breaks a clone
// whose version no tag keeps.
func TestShallowCloneNeedsTag(t *testing.T) {
	t.Parallel()
	for _, tagged := range []bool{false, true} {
		t.Run(fmt.Sprintf("CLN-4 tagged %v", tagged), func(t *testing.T) {
			t.Parallel()
			m := objstore.NewMem("m")
			source := in(t, m)
			if err := write(t.Context(), source, true, 2); err != nil {
				t.Fatal(err)
			}
			if done, err := maintain.ShallowClone(t.Context(), source, table.Ref{}, beside(t, source, m), maintain.ShallowOptions{TagSource: tagged}); err != nil ||
				done.Tag != "clone-c-v1" || done.Tagged != tagged {
				t.Fatalf("%+v, %v", done, err)
			}
			other := table.New(tabletest.Env(t, t.TempDir()), objstore.Location{Store: m, Path: "d.lance"}, "d")
			if done, err := maintain.ShallowClone(t.Context(), source, table.Ref{}, other, maintain.ShallowOptions{}); err != nil || done.Tagged != tagged ||
				tagged && done.Tag != "clone-c-v1" || !tagged && done.Tag != "clone-d-v1" {
				t.Errorf("another clone: %+v, %v", done, err)
			}
			retire(t, source)
			left := objectsOf(t, m)
			if kept := slices.ContainsFunc(left, func(p string) bool { return strings.HasPrefix(p, "data/") }); kept != tagged {
				t.Errorf("the source has %v", left)
			}
		})
	}
}

// TestClonesHoldWhatTheyRead cleans the source up at every call of a store during
// clones of a version that nothing else keeps.
func TestClonesHoldWhatTheyRead(t *testing.T) {
	t.Parallel()
	start := objstore.NewMem("m")
	source := in(t, start)
	if err := write(t.Context(), source, true, 2); err != nil {
		t.Fatal(err)
	}
	_, want := tabletest.ScanAll(t, tabletest.At(t, source, table.Ref{}), table.ScanRequest{})
	a, err := source.Overwrite(t.Context(), "", pictures, table.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	zero := time.Duration(0)
	for _, deep := range []bool{false, true} {
		t.Run(fmt.Sprintf("GC-3 deep %v", deep), func(t *testing.T) {
			t.Parallel()
			done := 0
			for n, calls := 0, 0; n <= calls; n++ { // the first one tells how many calls there are
				m := start.CrashClone()
				s := faultstore.New(m, faultstore.Plan{Before: func(c faultstore.Call) {
					if calls = max(calls, c.Number); c.Number != n {
						return
					}
					if _, err := maintain.Cleanup(t.Context(), in(t, m), maintain.Policy{OlderThan: &zero, DeleteUnverified: true}); err != nil {
						t.Error(err)
					}
				}})
				clone := func() (*maintain.Cloned, error) {
					if deep {
						return maintain.DeepClone(t.Context(), in(t, s), table.Ref{Version: 1}, beside(t, source, s), maintain.DeepOptions{})
					}
					return maintain.ShallowClone(t.Context(), in(t, s), table.Ref{Version: 1}, beside(t, source, s), maintain.ShallowOptions{TagSource: true})
				}
				made, err := clone()
				switch {
				case err == nil && deep:
					done++
					if _, got := tabletest.ScanAll(t, made.Clone, table.ScanRequest{}); !cmp.Equal(want, got) {
						t.Errorf("cleaned up at call %d (-want +got):\n%s", n, cmp.Diff(want, got))
					}
				case err == nil:
					done++
					_, got := tabletest.ScanAll(t, tabletest.At(t, in(t, m), table.Ref{Version: 1}), table.ScanRequest{})
					if diff := cmp.Diff(want, got); diff != "" {
						t.Errorf("cleaned up at call %d, tagged %v (-want +got):\n%s", n, made.Tagged, diff)
					}
				case fault.KindOf(err) != fault.NotFound: // before the lease was there
					t.Errorf("cleaned up at call %d: %v", n, err)
				}
			}
			if done < 5 {
				t.Errorf("%d clones came through", done)
			}
		})
	}
}

// TestDeepCloneKeepsPlaces gives objects of one path in two bases, and managed
// paths that a table uses for itself, places of their own.
func TestDeepCloneKeepsPlaces(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	session := tabletest.StartSession(t)
	session.Run(nil, prelude+fmt.Sprintf(`
import pathlib
os.chdir(%q)
from lance import DatasetBasePath
ds = lance.write_dataset(rows(0), "t.lance", data_storage_version="2.2", initial_bases=[DatasetBasePath(os.path.abspath(b), b, b == "x", i + 4) for i, b in enumerate("xy")], target_bases=["x"])
ds = lance.write_dataset(rows(50), "t.lance", mode="append", target_bases=["y"])
ds = lance.write_dataset(rows(100), "t.lance", mode="append")
names = [f.metadata.files[0].path for f in ds.get_fragments()]
`, dir))
	env := tabletest.Env(t, dir)
	source := tabletest.Open(t, env, filepath.Join(dir, "t.lance"))
	s := tabletest.At(t, source, table.Ref{})
	_, want := tabletest.ScanAll(t, s, table.ScanRequest{})
	// The file of base y gets the name of that in base x, and its sidecars with it.
	m := s.Manifest()
	first, second := m.Fragments[0].Files[0].Path, m.Fragments[1].Files[0].Path
	for _, end := range []string{".lance", ""} {
		if err := os.Rename(filepath.Join(dir, "y", strings.TrimSuffix(second, ".lance")+end), filepath.Join(dir, "y", strings.TrimSuffix(first, ".lance")+end)); err != nil {
			t.Fatal(err)
		}
	}
	manifests, err := filepath.Glob(filepath.Join(dir, "t.lance", "_versions", "*.manifest"))
	if err != nil || len(manifests) != 3 {
		t.Fatal(manifests, err)
	}
	slices.Sort(manifests)
	data, err := os.ReadFile(manifests[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(manifests[0], bytes.ReplaceAll(data, []byte(second), []byte(first)), 0o600); err != nil {
		t.Fatal(err)
	}
	source = tabletest.Open(t, tabletest.Env(t, dir), filepath.Join(dir, "t.lance"))
	target := table.New(env, objstore.Location{Store: objstore.NewMem("c"), Path: "c.lance"}, "c")
	done, err := maintain.DeepClone(t.Context(), source, table.Ref{}, target, maintain.DeepOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, got := tabletest.ScanAll(t, done.Clone, table.ScanRequest{}); !cmp.Equal(want, got) {
		t.Errorf("(-want +got):\n%s", cmp.Diff(want, got))
	}
	got := done.Clone.Manifest()
	if a, b := got.Fragments[0].Files[0].Path, got.Fragments[1].Files[0].Path; a != first || a == b || done.Copied.Rewritten != 0 {
		t.Errorf("files %s and %s, %+v", a, b, done.Copied)
	}
}

// unflag publishes a version anew without the managed-blob flag.
func unflag(t *testing.T, m *objstore.Mem, s *table.Snapshot) {
	t.Helper()
	path := "t.lance/" + manifest.Path(s.Version(), manifest.V2)
	data, err := objstore.ReadAll(t.Context(), objstore.Location{Store: m, Path: path}, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	now, err := manifest.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	tx, err := manifest.InlineTransaction(data)
	if err != nil {
		t.Fatal(err)
	}
	inline, err := tx.Encode()
	if err != nil {
		t.Fatal(err)
	}
	now.ReaderFlags &^= manifest.FlagManagedBlobs
	now.WriterFlags &^= manifest.FlagManagedBlobs
	now.Schema = now.Schema.WithMetadata(nil)
	if data, err = now.Encode(inline); err != nil {
		t.Fatal(err)
	}
	if err := m.Put(t.Context(), path, data); err != nil {
		t.Fatal(err)
	}
}

// TestDeepCloneOfOldReferences clones a table whose values of kinds 4 and 5 stand
// under a manifest without the flag: the clone has it (DIFF-10).
func TestDeepCloneOfOldReferences(t *testing.T) {
	t.Parallel()
	base, m := t.TempDir(), objstore.NewMem("m")
	env := tabletest.Env(t, base)
	source := table.New(env, objstore.Location{Store: m, Path: "t.lance"}, "t")
	if err := mixed(t.Context(), source, base); err != nil {
		t.Fatal(err)
	}
	s := tabletest.At(t, source, table.Ref{})
	_, want := tabletest.ScanAll(t, s, table.ScanRequest{})
	unflag(t, m, s)
	source = table.New(tabletest.Env(t, base), objstore.Location{Store: m, Path: "t.lance"}, "t")
	if tabletest.At(t, source, table.Ref{}).Manifest().ManagedBlobs() {
		t.Fatal("the flag is still there")
	}
	done, err := maintain.DeepClone(t.Context(), source, table.Ref{}, table.New(env, objstore.Location{Store: m, Path: "c.lance"}, "c"), maintain.DeepOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !done.Clone.Manifest().ManagedBlobs() {
		t.Error("DESC-8: the clone has no flag")
	}
	descriptors, got := tabletest.ScanAll(t, done.Clone, table.ScanRequest{})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	kinds := map[string]bool{}
	for _, u := range descriptors {
		if d, ok := u["img"].(map[string]any); ok {
			kinds[fmt.Sprint(d["kind"])] = true
		}
	}
	if !kinds["4"] || kinds["5"] {
		t.Errorf("kinds %v", kinds)
	}
}
