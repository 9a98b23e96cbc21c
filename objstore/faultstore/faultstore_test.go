package faultstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/objstore/faultstore"
	"github.com/flightblob/flightblob/objstore/storetest"
)

// TestNoPlan runs the acceptance suite: without a plan the store is the one
// below.
func TestNoPlan(t *testing.T) {
	t.Parallel()
	mem := objstore.NewMem("m")
	s := faultstore.New(mem, faultstore.Plan{})
	var folders atomic.Int64
	storetest.Run(t, func(t *testing.T, objects map[string][]byte) objstore.Location {
		t.Helper()
		dir := fmt.Sprintf("seed-%d", folders.Add(1))
		for path, data := range objects {
			mem.Set(dir+"/"+path, data)
		}
		return objstore.Location{Store: s, Path: dir}
	})
	if s.Failed() {
		t.Error("something failed without a plan")
	}
}

// operation makes every kind of call; the first error ends it.
func operation(ctx context.Context, s objstore.Store) error {
	at := objstore.Location{Store: s, Path: "t"}
	w, err := at.Join("data").Create(ctx)
	if err != nil {
		return err
	}
	defer w.Abort()
	for range 2 {
		if _, err := w.Write([]byte("abc")); err != nil {
			return err
		}
	}
	if err := w.Commit(ctx); err != nil {
		return err
	}
	given, err := at.Join("given up").Create(ctx)
	if err != nil {
		return err
	}
	given.Abort()
	if _, err := at.Join("data").Size(ctx); err != nil {
		return err
	}
	if _, err := objstore.ReadAll(ctx, at.Join("data"), 100); err != nil {
		return err
	}
	if err := at.Join("data").ReadAt(ctx, make([]byte, 2), 1); err != nil {
		return err
	}
	for _, err := range at.List(ctx) {
		if err != nil {
			return err
		}
	}
	if err := objstore.Copy(ctx, at.Join("data"), at.Join("copy")); err != nil {
		return err
	}
	if err := at.Join("old").Delete(ctx); err != nil {
		return err
	}
	if err := at.Join("hint").Put(ctx, []byte("1")); err != nil {
		return err
	}
	return at.Join("manifest").PutIfAbsent(ctx, []byte("1"))
}

const trace = `1 create t/data
2 write t/data
3 write t/data
4 commit t/data
5 create t/given up
6 abort t/given up
7 size t/data
8 read t/data
9 read t/data
10 list t
11 copy t/copy
12 delete t/old
13 put t/hint
14 put if absent t/manifest
`

func objects(t *testing.T, m *objstore.Mem) string {
	t.Helper()
	var names []string
	for e, err := range m.List(t.Context(), "t") {
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(e.Name, objstore.TempPrefix) {
			e.Name = fmt.Sprintf("temp:%d", e.Size)
		}
		names = append(names, e.Name)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

func start() *objstore.Mem {
	m := objstore.NewMem("m")
	m.Set("t/old", []byte("old"))
	return m
}

func TestPlans(t *testing.T) {
	t.Parallel()
	effects := []string{ // after so many calls
		"old", "old", "old", "old", "data old", "data old", "data old", "data old", "data old", "data old", "data old",
		"copy data old", "copy data", "copy data hint", "copy data hint manifest",
	}
	for _, test := range []struct {
		name      string
		how       faultstore.How
		uncertain bool
		happened  int
	}{
		{"refused", faultstore.Refused, false, 0},
		{"lost", faultstore.Lost, true, 0},
		{"unanswered", faultstore.Unanswered, true, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			for n := 1; ; n++ {
				m := start()
				s := faultstore.New(m, faultstore.Plan{Call: n, How: test.how})
				err := operation(t.Context(), s)
				if !s.Failed() {
					if err != nil || s.Trace() != trace || n != 15 {
						t.Errorf("without a failure: %v after %d\n%s", err, n, s.Trace())
					}
					return
				}
				call := s.Calls()[n-1]
				if call.Op == faultstore.Abort {
					if err != nil {
						t.Errorf("%v: %v", call, err)
					}
					continue
				}
				if fault.KindOf(err) != fault.Unavailable || errors.Is(err, objstore.ErrUncertain) != (test.uncertain && faultstore.Changes(call)) {
					t.Errorf("%v: %v", call, err)
				}
				if got := objects(t, m); got != effects[n-1+test.happened] {
					t.Errorf("%v: %q is there, want %q", call, got, effects[n-1+test.happened])
				}
			}
		})
	}
}

func TestForever(t *testing.T) {
	t.Parallel()
	m := start()
	s := faultstore.New(m, faultstore.Plan{Call: 3, Forever: true, Err: fault.New(fault.Exhausted, "full")})
	if err := operation(t.Context(), s); fault.KindOf(err) != fault.Exhausted {
		t.Errorf("%v, want exhausted", err)
	}
	if err := s.Delete(t.Context(), "t/old"); fault.KindOf(err) != fault.Exhausted {
		t.Errorf("a later call: %v, want exhausted", err)
	}
	want := "1 create t/data\n2 write t/data\n3 write t/data\n4 abort t/data\n5 delete t/old\n"
	if diff := cmp.Diff(want, s.Trace()); diff != "" {
		t.Errorf("calls (-want +got)\n%s", diff)
	}
	// The abort did not get through, so a crash would leave the file.
	if got := objects(t, m.CrashClone()); got != "old temp:1" {
		t.Errorf("a crash leaves %q", got)
	}
}

func TestCancelled(t *testing.T) {
	t.Parallel()
	for n := 1; ; n++ {
		ctx, cancel := context.WithCancel(t.Context())
		s := faultstore.New(start(), faultstore.Plan{Call: n, How: faultstore.Cancelled, Cancel: cancel})
		err := operation(ctx, s)
		cancel()
		if !s.Failed() {
			return
		}
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v: %v, want context canceled", s.Calls()[n-1], err)
		}
	}
}

// TestCrashes clones the store before each change.
func TestCrashes(t *testing.T) {
	t.Parallel()
	m := start()
	var left []string
	s := faultstore.New(m, faultstore.Plan{Count: faultstore.Changes, Before: func(c faultstore.Call) {
		left = append(left, fmt.Sprintf("%s: %s", c, objects(t, m.CrashClone())))
	}})
	if err := operation(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"1 create t/data: old",
		"2 write t/data: old temp:0",
		"3 write t/data: old temp:1",
		"4 commit t/data: old temp:3",
		"5 create t/given up: data old",
		"6 abort t/given up: data old temp:0",
		"7 copy t/copy: data old",
		"8 delete t/old: copy data old",
		"9 put t/hint: copy data",
		"10 put if absent t/manifest: copy data hint",
	}
	if diff := cmp.Diff(want, left); diff != "" {
		t.Errorf("after a crash (-want +got)\n%s", diff)
	}
	// A clone shares nothing that changes.
	c := m.CrashClone()
	if err := c.Delete(t.Context(), "t/hint"); err != nil {
		t.Fatal(err)
	}
	m.Set("t/more", nil)
	if got, clone := objects(t, m), objects(t, c); got != "copy data hint manifest more" || clone != "copy data manifest" {
		t.Errorf("%q and %q are there", got, clone)
	}
}
