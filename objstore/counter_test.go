package objstore_test

import (
	"path/filepath"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flightblob/flightblob/objstore"
)

func TestCounter(t *testing.T) {
	t.Parallel()
	dir := realTempDir(t)
	x, y := filepath.Join(dir, "x"), filepath.Join(dir, "y")
	writeFile(t, x, make([]byte, 100))
	writeFile(t, y, make([]byte, 50))
	c := objstore.NewCounter(objstore.CounterOptions{Ranges: 2})
	r := objstore.NewRegistry(objstore.Options{Counter: c})
	loc, err := r.Locator(objstore.NewAccess(dir))(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(loc.Join("x").ReadAt(t.Context(), make([]byte, 10), 5))
	must(loc.Join("x").ReadAt(t.Context(), make([]byte, 20), 80))
	must(loc.Join("x").ReadAt(t.Context(), make([]byte, 1), 0)) // beyond the ranges kept
	if err := loc.Join("x").ReadAt(t.Context(), make([]byte, 1), 100); err == nil {
		t.Fatal("read past the end")
	}
	_, err = loc.Join("x").Size(t.Context())
	must(err)
	_, err = objstore.ReadAll(t.Context(), loc.Join("y"), 100)
	must(err)
	m, err := loc.Join("y").Map(t.Context())
	must(err)
	loc.Join("y").NoteRead(3, 7)
	m.Release()
	for _, err := range loc.List(t.Context()) {
		must(err)
	}
	want := objstore.Counts{
		Total: objstore.Count{Reads: 5, Bytes: 81, Maps: 1, MappedReads: 1, MappedBytes: 7, Sizes: 1, Lists: 1},
		Objects: []objstore.ObjectCount{
			{URI: dir, Count: objstore.Count{Lists: 1}},
			{URI: x, Count: objstore.Count{Reads: 4, Bytes: 31, Sizes: 1}, Ranges: []objstore.Range{{Offset: 5, Length: 10}, {Offset: 80, Length: 20}}},
			{URI: y, Count: objstore.Count{Reads: 1, Bytes: 50, Maps: 1, MappedReads: 1, MappedBytes: 7}, Ranges: []objstore.Range{{Length: 50}, {Offset: 3, Length: 7, Mapped: true}}},
		},
	}
	got := c.Snapshot()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("counts (-want +got)\n%s", diff)
	}
	if got.Total != c.Total() || got.Total.Requests() != 9 || got.Total.Payload() != 88 {
		t.Errorf("totals: %+v, %d requests, %d bytes", c.Total(), got.Total.Requests(), got.Total.Payload())
	}
	if diff := cmp.Diff(want.Objects[1], got.Object(x)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(objstore.ObjectCount{URI: "/nope"}, got.Object("/nope")); diff != "" {
		t.Error(diff)
	}
	c.Reset()
	if diff := cmp.Diff(objstore.Counts{Objects: []objstore.ObjectCount{}}, c.Snapshot()); diff != "" {
		t.Errorf("after reset (-want +got)\n%s", diff)
	}
}

func TestCounterForgetsNoSum(t *testing.T) {
	t.Parallel()
	c := objstore.NewCounter(objstore.CounterOptions{Objects: 2})
	mem := objstore.NewMem("m")
	s := objstore.Counted(mem, c)
	var wg sync.WaitGroup
	for _, name := range []string{"a", "b", "c", "d"} {
		mem.Set(name, []byte("12345"))
		wg.Go(func() {
			for range 100 {
				if err := s.ReadAt(t.Context(), name, make([]byte, 5), 0); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	got := c.Snapshot()
	if len(got.Objects) != 2 {
		t.Errorf("%d objects are counted one by one, want 2", len(got.Objects))
	}
	sum := got.Other
	for _, o := range got.Objects {
		sum.Reads += o.Reads
		sum.Bytes += o.Bytes
		if o.Ranges != nil {
			t.Errorf("%s keeps ranges unasked", o.URI)
		}
	}
	if want := (objstore.Count{Reads: 400, Bytes: 2000}); sum != want || got.Total != want || got.Other.Reads != 200 {
		t.Errorf("sum %+v, total %+v, other %+v", sum, got.Total, got.Other)
	}
}

func TestCounterSeesNoRefusals(t *testing.T) {
	t.Parallel()
	c := objstore.NewCounter(objstore.CounterOptions{})
	mem := objstore.NewMem("m")
	mem.Set("x", []byte("x"))
	g := objstore.Guard(objstore.Location{Store: objstore.Counted(mem, c), Path: "x"}, nil)
	for what, call := range calls {
		if call(t.Context(), g) == nil {
			t.Errorf("%s was allowed", what)
		}
	}
	if total := c.Total(); total.Payload() != 0 {
		t.Errorf("refused calls gave bytes: %+v", total)
	}
	if objstore.Counted(mem, nil) != objstore.Store(mem) {
		t.Error("no counter, but a wrapper")
	}
}

func TestCounterWrites(t *testing.T) {
	t.Parallel()
	dir := realTempDir(t)
	writeFile(t, filepath.Join(dir, "t/x"), make([]byte, 100))
	for name, at := range map[string]objstore.Location{
		"local":  {Store: objstore.NewLocal(objstore.LocalOptions{}), Path: dir},
		"memory": {Store: objstore.NewMem("m"), Path: "d"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := objstore.NewCounter(objstore.CounterOptions{})
			at := objstore.Guard(objstore.Location{Store: objstore.Counted(at.Store, c), Path: at.Path}, objstore.NewAccess(at.String()))
			must := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			must(at.Join("p").Put(t.Context(), make([]byte, 5)))
			must(at.Join("q").PutIfAbsent(t.Context(), make([]byte, 7)))
			if err := at.Join("q").PutIfAbsent(t.Context(), make([]byte, 11)); err == nil {
				t.Error("put over an object")
			}
			for _, end := range []func(objstore.Writer){
				func(w objstore.Writer) { must(w.Commit(t.Context())); w.Abort() },
				func(w objstore.Writer) { w.Abort(); w.Abort() },
			} {
				w, err := at.Join("w").Create(t.Context())
				must(err)
				for range 2 {
					_, err = w.Write(make([]byte, 10))
					must(err)
				}
				end(w)
			}
			must(objstore.Copy(t.Context(), at.Join("p"), at.Join("copy")))
			must(at.Join("p").Delete(t.Context()))
			must(at.Join("absent").Delete(t.Context()))
			for _, err := range objstore.Walk(t.Context(), at) {
				must(err)
			}
			got := c.Total()
			got.Lists, got.Sizes = 0, 0
			want := objstore.Count{Creates: 2, Puts: 3, Deletes: 2, Written: 52}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("counts (-want +got)\n%s", diff)
			}
			if got.Changes() != 7 || got.Requests() != 7 {
				t.Errorf("%d changes, %d requests", got.Changes(), got.Requests())
			}
			// What is refused asks the store for nothing.
			c.Reset()
			out := objstore.Location{Store: at.Store, Path: at.Path + "-outside/x"}
			for _, err := range []error{out.Put(t.Context(), nil), out.PutIfAbsent(t.Context(), nil), objstore.RemoveFolder(t.Context(), out), objstore.Copy(t.Context(), at.Join("q"), out)} {
				if err == nil {
					t.Error("a write outside succeeds")
				}
			}
		})
	}
}
