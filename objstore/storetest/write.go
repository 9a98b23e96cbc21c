package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
)

// writes is the half of the suite about what changes a store.
var writes = []struct {
	name string
	run  func(t *testing.T, s suite)
}{
	{"create", testCreate},
	{"abort", testAbort},
	{"a writer ends once", testWriterEnds},
	{"put", testPut},
	{"put if absent", testPutIfAbsent},
	{"one winner", testOneWinner},
	{"delete", testDelete},
	{"copy", testCopy},
	{"copy ranges", testCopyRange},
	{"folders are no objects", testFolderNames},
	{"random operations", testRandom},
	{"literal names written", testNamesWritten},
	{"cancelled writes", testCancelledWrites},
}

// create streams an object in pieces of the given sizes.
func create(t *testing.T, at objstore.Location, data []byte, pieces ...int) {
	t.Helper()
	w, err := at.Create(t.Context())
	if err != nil {
		t.Fatalf("create %s: %v", at, err)
	}
	defer w.Abort()
	rest := data
	for _, n := range append(pieces, len(data)) {
		n = min(n, len(rest))
		if got, err := w.Write(rest[:n]); err != nil || got != n {
			t.Fatalf("write %s: %d of %d bytes, %v", at, got, n, err)
		}
		rest = rest[n:]
	}
	if err := w.Commit(t.Context()); err != nil {
		t.Fatalf("commit %s: %v", at, err)
	}
}

func wantObject(t *testing.T, at objstore.Location, want []byte) {
	t.Helper()
	got, err := objstore.ReadAll(t.Context(), at, 1<<30)
	if err != nil {
		t.Errorf("%s: %v", at, err)
	} else if !bytes.Equal(got, want) {
		t.Errorf("%s holds %d other bytes, want %d", at, len(got), len(want))
	}
}

func wantAbsent(t *testing.T, at objstore.Location) {
	t.Helper()
	if _, err := at.Size(t.Context()); fault.KindOf(err) != fault.NotFound {
		t.Errorf("%s: %v, want not found", at, err)
	}
}

// tree gives all objects below a folder, by path.
func tree(t *testing.T, dir objstore.Location) []string {
	t.Helper()
	var all []string
	for e, err := range dir.List(t.Context()) {
		if err != nil {
			t.Fatalf("list %s: %v", dir, err)
		}
		if !e.Dir {
			all = append(all, e.Name)
			continue
		}
		for _, below := range tree(t, dir.Join(e.Name)) {
			all = append(all, e.Name+"/"+below)
		}
	}
	return all
}

func testCreate(t *testing.T, s suite) {
	dir := s.seed(t, map[string][]byte{"keep": Bytes(3, 1)})
	for name, data := range map[string][]byte{
		"empty":          nil,
		"one":            Bytes(1, 1),
		"a/b/c/d/nested": Bytes(100, 2),
		"large":          Bytes(12<<20+5, 3), // several parts of an upload
	} {
		create(t, dir.Join(name), data, 0, 1, 7, 4096, 300_000, 0, 6<<20)
		wantObject(t, dir.Join(name), data)
	}
	// One that is there is replaced, and never seen half.
	at := dir.Join("one")
	w, err := at.Create(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	if _, err := w.Write(Bytes(50, 4)); err != nil {
		t.Fatal(err)
	}
	wantObject(t, at, Bytes(1, 1))
	if err := w.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantObject(t, at, Bytes(50, 4))
	want := []string{"a/b/c/d/nested", "empty", "keep", "large", "one"}
	if diff := cmp.Diff(want, tree(t, dir)); diff != "" {
		t.Errorf("objects (-want +got)\n%s", diff)
	}
}

func testAbort(t *testing.T, s suite) {
	dir := s.seed(t, map[string][]byte{"keep": Bytes(3, 1)})
	for name, n := range map[string]int{"a/nothing": 0, "a/little": 10, "keep": 10, "much": 12 << 20} {
		w, err := dir.Join(name).Create(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(Bytes(n, 5)); err != nil {
			t.Fatal(err)
		}
		w.Abort()
		w.Abort()
		if err := w.Commit(t.Context()); err == nil {
			t.Errorf("%s: commit after abort succeeds", name)
		}
		if _, err := w.Write([]byte("x")); err == nil {
			t.Errorf("%s: write after abort succeeds", name)
		}
	}
	if diff := cmp.Diff([]string{"keep"}, tree(t, dir)); diff != "" {
		t.Errorf("objects (-want +got)\n%s", diff)
	}
	wantObject(t, dir.Join("keep"), Bytes(3, 1))
}

func testWriterEnds(t *testing.T, s suite) {
	at := s.seed(t, nil).Join("x")
	w, err := at.Create(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte("abc")); err != nil {
		t.Fatal(err)
	}
	if err := w.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Abort()
	if err := w.Commit(t.Context()); err == nil {
		t.Error("a second commit succeeds")
	}
	if _, err := w.Write([]byte("d")); err == nil {
		t.Error("a write after the commit succeeds")
	}
	wantObject(t, at, []byte("abc"))
}

func testPut(t *testing.T, s suite) {
	dir := s.seed(t, map[string][]byte{"old": Bytes(10, 1)})
	for _, name := range []string{"old", "new", "deep/er/new"} {
		for _, n := range []int{5, 0, 100_000} {
			data := Bytes(n, uint64(n))
			if err := dir.Join(name).Put(t.Context(), data); err != nil {
				t.Fatalf("put %s: %v", name, err)
			}
			wantObject(t, dir.Join(name), data)
		}
	}
	data := []byte("mine")
	at := dir.Join("kept")
	if err := at.Put(t.Context(), data); err != nil {
		t.Fatal(err)
	}
	data[0] = 'M' // the store has its own bytes
	wantObject(t, at, []byte("mine"))
	if diff := cmp.Diff([]string{"deep/er/new", "kept", "new", "old"}, tree(t, dir)); diff != "" {
		t.Errorf("objects (-want +got)\n%s", diff)
	}
}

func testPutIfAbsent(t *testing.T, s suite) {
	dir := s.seed(t, map[string][]byte{"old": Bytes(10, 1)})
	if err := dir.Join("old").PutIfAbsent(t.Context(), Bytes(10, 2)); fault.KindOf(err) != fault.Exists || errors.Is(err, objstore.ErrUncertain) {
		t.Errorf("over an object: %v, want already exists", err)
	}
	wantObject(t, dir.Join("old"), Bytes(10, 1))
	for name, n := range map[string]int{"new": 5, "empty": 0, "deep/er/new": 70_000} {
		if err := dir.Join(name).PutIfAbsent(t.Context(), Bytes(n, 3)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := dir.Join(name).PutIfAbsent(t.Context(), Bytes(n, 4)); fault.KindOf(err) != fault.Exists {
			t.Errorf("%s again: %v, want already exists", name, err)
		}
		wantObject(t, dir.Join(name), Bytes(n, 3))
	}
	if err := dir.Join("new").Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := dir.Join("new").PutIfAbsent(t.Context(), Bytes(6, 5)); err != nil {
		t.Errorf("after a deletion: %v", err)
	}
	if diff := cmp.Diff([]string{"deep/er/new", "empty", "new", "old"}, tree(t, dir)); diff != "" {
		t.Errorf("objects (-want +got)\n%s", diff)
	}
}

func testOneWinner(t *testing.T, s suite) {
	dir := s.seed(t, nil)
	const keys, rivals = 20, 8
	var wins [keys]atomic.Int64
	var winner [keys]atomic.Int64
	var wg sync.WaitGroup
	for g := range rivals {
		wg.Go(func() {
			for k := range keys {
				err := dir.Join(fmt.Sprint(k)).PutIfAbsent(t.Context(), fmt.Appendf(nil, "by %d", g))
				switch {
				case err == nil:
					wins[k].Add(1)
					winner[k].Store(int64(g))
				case fault.KindOf(err) != fault.Exists:
					t.Errorf("key %d: %v", k, err)
				}
			}
		})
	}
	wg.Wait()
	for k := range keys {
		if n := wins[k].Load(); n != 1 {
			t.Errorf("key %d has %d winners", k, n)
		}
		wantObject(t, dir.Join(fmt.Sprint(k)), fmt.Appendf(nil, "by %d", winner[k].Load()))
	}
	if got := tree(t, dir); len(got) != keys {
		t.Errorf("%d objects, want %d: %v", len(got), keys, got)
	}
}

func testDelete(t *testing.T, s suite) {
	dir := s.seed(t, map[string][]byte{"d/x": Bytes(1, 1), "d/y": Bytes(2, 1), "z": Bytes(3, 1)})
	for _, name := range []string{"d/x", "d/x", "absent", "no/folder/here", "z/below an object"} {
		if err := dir.Join(name).Delete(t.Context()); err != nil {
			t.Errorf("delete %s: %v", name, err)
		}
	}
	wantAbsent(t, dir.Join("d/x"))
	// A folder is no object, so there is nothing to delete.
	if err := dir.Join("d").Delete(t.Context()); err != nil {
		t.Errorf("delete a folder: %v", err)
	}
	if diff := cmp.Diff([]string{"d/y", "z"}, tree(t, dir)); diff != "" {
		t.Errorf("objects (-want +got)\n%s", diff)
	}
	if err := dir.Join("d/y").Delete(t.Context()); err != nil {
		t.Error(err)
	}
	if got := names(t, dir); len(got) != 1 {
		t.Errorf("a folder without objects is listed: %v", got)
	}
}

func testCopy(t *testing.T, s suite) {
	odd := s.names("a b+c%20", "a b+c")[0]
	dir := s.seed(t, map[string][]byte{"d/x": Bytes(9<<20+3, 1), "empty": nil, odd: Bytes(20, 2), "old": Bytes(5, 3)})
	for _, c := range []struct{ from, to string }{
		{"d/x", "copies/x"}, {"empty", "copies/empty"}, {odd, "copies/" + odd}, {"d/x", "old"}, {odd, odd},
	} {
		want, err := objstore.ReadAll(t.Context(), dir.Join(c.from), 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		if err := objstore.Copy(t.Context(), dir.Join(c.from), dir.Join(c.to)); err != nil {
			t.Errorf("copy %s to %s: %v", c.from, c.to, err)
			continue
		}
		wantObject(t, dir.Join(c.to), want)
	}
	for _, from := range []string{"absent", "d", "no/folder"} {
		if err := objstore.Copy(t.Context(), dir.Join(from), dir.Join("never")); fault.KindOf(err) != fault.NotFound {
			t.Errorf("copy %s: %v, want not found", from, err)
		}
	}
	// Between stores the bytes pass through the process.
	mem := objstore.NewMem("other")
	for _, name := range []string{"d/x", "empty"} {
		there := objstore.Location{Store: mem, Path: name}
		want, err := objstore.ReadAll(t.Context(), dir.Join(name), 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		if err := objstore.Copy(t.Context(), dir.Join(name), there); err != nil {
			t.Errorf("copy %s to memory: %v", name, err)
		} else if err := objstore.Copy(t.Context(), there, dir.Join("back", name)); err != nil {
			t.Errorf("copy %s back: %v", name, err)
		}
		wantObject(t, there, want)
		wantObject(t, dir.Join("back", name), want)
	}
	want := []string{odd, "back/d/x", "back/empty", "copies/" + odd, "copies/empty", "copies/x", "d/x", "empty", "old"}
	if diff := cmp.Diff(want, tree(t, dir)); diff != "" {
		t.Errorf("objects (-want +got)\n%s", diff)
	}
}

func testCopyRange(t *testing.T, s suite) {
	data := Bytes(10<<20, 1)
	dir := s.seed(t, map[string][]byte{"x": data})
	for _, r := range [][2]int64{{0, 10 << 20}, {0, 0}, {17, 1}, {5000, 4<<20 + 1}, {10<<20 - 1, 1}, {10 << 20, 0}} {
		to := dir.Join(fmt.Sprintf("part/%d+%d", r[0], r[1]))
		if err := objstore.CopyRange(t.Context(), dir.Join("x"), r[0], r[1], to); err != nil {
			t.Errorf("[%d,+%d): %v", r[0], r[1], err)
			continue
		}
		wantObject(t, to, data[r[0]:r[0]+r[1]])
	}
	for _, r := range []struct {
		off, n int64
		kind   fault.Kind
	}{
		{0, 10<<20 + 1, fault.Corrupt},
		{10 << 20, 1, fault.Corrupt},
		{-1, 1, fault.Invalid},
		{0, -1, fault.Invalid},
		{math.MaxInt64, 1, fault.Invalid},
	} {
		to := dir.Join("never")
		if err := objstore.CopyRange(t.Context(), dir.Join("x"), r.off, r.n, to); fault.KindOf(err) != r.kind {
			t.Errorf("[%d,+%d): %v, want %s", r.off, r.n, err, r.kind)
		}
		wantAbsent(t, to)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := objstore.CopyRange(ctx, dir.Join("x"), 0, 100, dir.Join("never")); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	wantAbsent(t, dir.Join("never"))
}

func testFolderNames(t *testing.T, s suite) {
	dir := s.seed(t, map[string][]byte{"d/x": Bytes(1, 1)})
	at := objstore.Location{Store: dir.Store, Path: dir.Path + "/d/"}
	for name, err := range map[string]error{
		"put":           at.Put(t.Context(), nil),
		"put if absent": at.PutIfAbsent(t.Context(), nil),
		"delete":        at.Delete(t.Context()),
		"create":        func() error { _, err := at.Create(t.Context()); return err }(),
	} {
		if fault.KindOf(err) != fault.Invalid {
			t.Errorf("%s a name that ends in a slash: %v, want invalid", name, err)
		}
	}
	wantObject(t, dir.Join("d/x"), Bytes(1, 1))
}

func testNamesWritten(t *testing.T, s suite) {
	dir := s.seed(t, nil)
	names := s.literal()
	for i, name := range names {
		at := dir.Join("n", name)
		switch i % 3 {
		case 0:
			create(t, at, []byte(name))
		case 1:
			if err := at.Put(t.Context(), []byte(name)); err != nil {
				t.Errorf("put %q: %v", name, err)
			}
		case 2:
			if err := at.PutIfAbsent(t.Context(), []byte(name)); err != nil {
				t.Errorf("put %q: %v", name, err)
			}
		}
	}
	for _, name := range names {
		wantObject(t, dir.Join("n", name), []byte(name))
	}
	for _, name := range names {
		if err := dir.Join("n", name).Delete(t.Context()); err != nil {
			t.Errorf("delete %q: %v", name, err)
		}
	}
	if got := tree(t, dir); len(got) != 0 {
		t.Errorf("left behind: %q", strings.Join(got, " "))
	}
}

func testCancelledWrites(t *testing.T, s suite) {
	dir := s.seed(t, map[string][]byte{"x": Bytes(10, 1)})
	ctx, cancel := context.WithCancel(t.Context())
	early, err := dir.Join("early").Create(ctx)
	if err != nil {
		t.Fatal(err)
	}
	late, err := dir.Join("late").Create(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := late.Write([]byte("abc")); err != nil {
		t.Fatal(err)
	}
	cancel()
	for name, err := range map[string]error{
		"put":           dir.Join("x").Put(ctx, nil),
		"put if absent": dir.Join("y").PutIfAbsent(ctx, nil),
		"delete":        dir.Join("x").Delete(ctx),
		"create":        func() error { _, err := dir.Join("z").Create(ctx); return err }(),
		"write":         func() error { _, err := early.Write([]byte("x")); return err }(),
		"commit early":  early.Commit(t.Context()),
		"commit late":   late.Commit(ctx),
	} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, want context canceled", name, err)
		}
		if errors.Is(err, objstore.ErrUncertain) {
			t.Errorf("%s: %v; nothing was begun", name, err)
		}
	}
	wantObject(t, dir.Join("x"), Bytes(10, 1))
	if diff := cmp.Diff([]string{"x"}, tree(t, dir)); diff != "" {
		t.Errorf("objects (-want +got)\n%s", diff)
	}
}
