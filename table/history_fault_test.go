package table_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/objstore/faultstore"
	"github.com/flightblob/flightblob/table"
	"github.com/flightblob/flightblob/table/tabletest"
)

// inMemoryOf gives what lies in a memory store to a process of its own, which
// finds it by its URI as well, as branches find their parents; it works through
// what is put around the memory.
func inMemoryOf(t *testing.T, from *objstore.Mem, through func(*objstore.Mem) objstore.Store) (*table.Table, *objstore.Mem) {
	t.Helper()
	registry := objstore.NewRegistry(objstore.Options{})
	t.Cleanup(func() { _ = registry.Close() })
	m := registry.Mem("m")
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
	env := table.NewEnv(registry, objstore.NewAccess("mem://m"), table.Limits{})
	return table.New(env, objstore.Location{Store: through(m), Path: "t.lance"}, "t"), m
}

func itself(m *objstore.Mem) objstore.Store { return m }

// change is one change of the history, with what may be seen of it.
type change struct {
	name string
	do   func(ctx context.Context, tbl *table.Table) error
	// done says whether it is there; what is half there fails the test.
	done func(t *testing.T, tbl *table.Table) bool
	// already is the kind of error of doing it once more.
	already fault.Kind
}

func hasTag(t *testing.T, tbl *table.Table, name string, version uint64) bool {
	t.Helper()
	s, err := tbl.At(t.Context(), table.Ref{Tag: name})
	if err != nil && fault.KindOf(err) != fault.NotFound {
		t.Error(err)
	}
	return err == nil && s.Version() == version
}

func hasBranch(t *testing.T, tbl *table.Table, name string, rows int) bool {
	t.Helper()
	branches, err := tbl.Branches(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range branches {
		if b.Name == name {
			if got := readPictures(t, tabletest.At(t, tbl, table.Ref{Branch: name})); len(got) != rows {
				t.Errorf("branch %s has %d rows", name, len(got))
			}
			return true
		}
	}
	return false
}

func changes() []change {
	return []change{
		{"create tag", func(ctx context.Context, tbl *table.Table) error {
			_, err := tbl.CreateTag(ctx, "x", table.Ref{Version: 1}, table.TagOptions{})
			return err
		}, func(t *testing.T, tbl *table.Table) bool { return hasTag(t, tbl, "x", 1) }, fault.Exists},
		{"move tag", func(ctx context.Context, tbl *table.Table) error {
			_, err := tbl.CreateTag(ctx, "there", table.Ref{Version: 2}, table.TagOptions{Replace: true})
			return err
		}, func(t *testing.T, tbl *table.Table) bool {
			moved := hasTag(t, tbl, "there", 2)
			if !moved && !hasTag(t, tbl, "there", 1) {
				t.Error("the tag is gone")
			}
			return moved
		}, fault.Internal},
		{"delete tag", func(ctx context.Context, tbl *table.Table) error {
			_, err := tbl.DeleteTag(ctx, "there")
			return err
		}, func(t *testing.T, tbl *table.Table) bool { return !hasTag(t, tbl, "there", 1) }, fault.NotFound},
		{"create branch", func(ctx context.Context, tbl *table.Table) error {
			_, err := tbl.CreateBranch(ctx, "b", table.Ref{Version: 1})
			return err
		}, func(t *testing.T, tbl *table.Table) bool { return hasBranch(t, tbl, "b", 20) }, fault.Exists},
		{"branch off a branch", func(ctx context.Context, tbl *table.Table) error {
			_, err := tbl.CreateBranch(ctx, "old/b", table.Ref{Branch: "old"})
			return err
		}, func(t *testing.T, tbl *table.Table) bool { return hasBranch(t, tbl, "old/b", 28) }, fault.Exists},
		{
			"delete branch", func(ctx context.Context, tbl *table.Table) error { return tbl.DeleteBranch(ctx, "old") },
			func(t *testing.T, tbl *table.Table) bool { return !hasBranch(t, tbl, "old", 28) }, fault.NotFound,
		},
		{"restore", func(ctx context.Context, tbl *table.Table) error {
			_, err := tbl.Restore(ctx, "", table.Ref{Version: 1})
			return err
		}, func(t *testing.T, tbl *table.Table) bool {
			s := tabletest.At(t, tbl, table.Ref{})
			if want := map[uint64]uint64{2: 25, 3: 20, 4: 20}[s.Version()]; s.Rows() != want {
				t.Errorf("version %d has %d rows", s.Version(), s.Rows())
			}
			return s.Version() > 2
		}, fault.Internal},
	}
}

// TestHistorySurvivesEachFailure lets every single call of a store fail during
// every change of a table's history: it is there or not, the versions stay as
// they are, and the same change works afterwards.
func TestHistorySurvivesEachFailure(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	tbl, start := inMemoryOf(t, objstore.NewMem("m"), itself)
	a, err := tbl.Create(ctx, pictures, table.CreateOptions{})
	if err := wrote(ctx, t, a, err, pictureRows(t, 0, 20)); err != nil {
		t.Fatal(err)
	}
	addPictures(t, tbl, "", 20, 5)
	if _, err := tbl.CreateBranch(ctx, "old", table.Ref{}); err != nil {
		t.Fatal(err)
	}
	addPictures(t, tbl, "old", 25, 3)
	if _, err := tbl.CreateTag(ctx, "there", table.Ref{Version: 1}, table.TagOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, c := range changes() {
		for how, plan := range map[string]faultstore.Plan{
			"refused": {How: faultstore.Refused}, "lost": {How: faultstore.Lost}, "unanswered": {How: faultstore.Unanswered},
			"cancelled": {How: faultstore.Cancelled}, "killed": {How: faultstore.Refused, Forever: true},
		} {
			for n := 1; ; n++ {
				failing, cancel := context.WithCancel(ctx)
				plan := plan
				plan.Call, plan.Cancel = n, cancel
				var s *faultstore.Store
				tbl, m := inMemoryOf(t, start, func(m *objstore.Mem) objstore.Store { s = faultstore.New(m, plan); return s })
				err := c.do(failing, tbl)
				cancel()
				left, now := inMemoryOf(t, m, itself)
				done := c.done(t, left)
				if !s.Failed() {
					if err != nil || !done {
						t.Errorf("%s without a failure: %v, done %t", c.name, err, done)
					}
					break
				}
				call := fmt.Sprintf("%s, %s at %s", c.name, how, s.Calls()[n-1])
				checkPictures(t, tabletest.At(t, left, table.Ref{Version: 2}), 25)
				checkPictures(t, tabletest.At(t, left, table.Ref{Version: 1}), 20)
				if err == nil && !done {
					t.Errorf("%s: success, but nothing is there", call)
				}
				if err != nil && done && !errors.Is(err, objstore.ErrUncertain) && how != "killed" && how != "cancelled" && fault.KindOf(err) != fault.Unavailable {
					t.Errorf("%s: it is done, but %v", call, err)
				}
				onlyLeases(t, left, call, how)
				switch err := c.do(ctx, left); {
				case err != nil && (!done || fault.KindOf(err) != c.already):
					t.Errorf("%s: again: %v", call, err)
				case !c.done(t, left):
					t.Errorf("%s: again: nothing is there", call)
				}
				if c.name == "delete branch" {
					if err := left.DeleteBranch(ctx, "old"); err != nil && fault.KindOf(err) != fault.NotFound {
						t.Errorf("%s: %v", call, err)
					}
					for _, o := range objectsOf(t, now) {
						if strings.Contains(o, "tree/") && strings.HasSuffix(o, ".manifest") {
							t.Errorf("%s: %s stays", call, o)
						}
					}
				}
			}
		}
	}
}

// onlyLeases checks that a change which failed leaves no tag but a lease, and
// that one only when it could not be freed.
func onlyLeases(t *testing.T, tbl *table.Table, call, how string) {
	t.Helper()
	tags, err := tbl.Tags(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, tag := range tags {
		if _, ok := tag.LeasedUntil(); ok && (how == "cancelled" || how == "refused" && !strings.Contains(call, "delete ")) {
			t.Errorf("%s leaves %s", call, tag.Name)
		} else if !ok && tag.Name != "there" && tag.Name != "x" {
			t.Errorf("%s leaves %s", call, tag.Name)
		}
	}
}

// TestABranchOfAnOldLance has a parent whose file does not say its descent.
func TestABranchOfAnOldLance(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	tbl := pictureTable(t)
	if _, err := tbl.CreateBranch(ctx, "old", table.Ref{}); err != nil {
		t.Fatal(err)
	}
	if err := tbl.Root().Join("_refs", "branches", "old.json").Put(ctx, []byte(`{"parentBranch":null,"parentVersion":2,"createAt":1796017313,"manifestSize":5}`)); err != nil {
		t.Fatal(err)
	}
	_, err := tbl.CreateBranch(ctx, "b", table.Ref{Branch: "old"})
	refused(t, err, fault.Precondition, "old Lance")
	if _, err := tbl.CreateBranch(ctx, "b", table.Ref{Version: 1}); err != nil {
		t.Error(err)
	}
	if err := tbl.DeleteBranch(ctx, "old"); err != nil {
		t.Error(err)
	}
}

// TestABranchIsMadeOverWhatWasLeft makes a branch where the making of another
// one was killed before it was a branch.
func TestABranchIsMadeOverWhatWasLeft(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	tbl := pictureTable(t)
	leave := func() {
		t.Helper()
		if _, err := tbl.CreateBranch(ctx, "b", table.Ref{Version: 1}); err != nil {
			t.Fatal(err)
		}
		if err := tbl.Root().Join("_refs", "branches", "b.json").Delete(ctx); err != nil {
			t.Fatal(err)
		}
	}
	leave()
	_, err := tbl.At(ctx, table.Ref{Branch: "b"})
	refused(t, err, fault.NotFound, "it has none")
	_, err = tbl.CreateBranch(ctx, "b", table.Ref{Version: 2})
	refused(t, err, fault.Conflict, "delete the branch")
	if err := tbl.DeleteBranch(ctx, "b"); err != nil {
		t.Fatal(err)
	}
	if s, err := tbl.CreateBranch(ctx, "b", table.Ref{Version: 2}); err != nil || s.Version() != 2 {
		t.Fatalf("%v, %v", s, err)
	}
	if err := tbl.DeleteBranch(ctx, "b"); err != nil {
		t.Fatal(err)
	}
	leave()
	if s, err := tbl.CreateBranch(ctx, "b", table.Ref{Version: 1}); err != nil || s.Rows() != 20 {
		t.Fatalf("%v, %v", s, err)
	}
	addPictures(t, tbl, "b", 20, 1)
	checkPictures(t, tabletest.At(t, tbl, table.Ref{Branch: "b"}), 21)
}
