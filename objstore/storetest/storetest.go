// Package storetest is the acceptance suite of objstore.Store: what the rest
// of the house relies on, whatever holds the bytes.
package storetest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
)

// Seed puts objects into a store, by path below a fresh folder, and gives that
// folder.
type Seed func(t *testing.T, objects map[string][]byte) objstore.Location

// Run runs the suite. Every subtest seeds its own folder. Names with one of the
// characters in unaddressable are left out.
func Run(t *testing.T, seed Seed, unaddressable ...string) {
	t.Helper()
	s := suite{seed, strings.Join(unaddressable, "")}
	for _, test := range []struct {
		name string
		run  func(t *testing.T, s suite)
	}{
		{"ranges", testRanges},
		{"scattered reads", testScatter},
		{"ERR-16 short reads are errors", testShort},
		{"absent objects", testAbsent},
		{"literal names", testNames},
		{"list", testList},
		{"list stops early", testListStops},
		{"whole objects", testWhole},
		{"cancelled calls", testCancelled},
		{"many goroutines", testConcurrent},
		{"mapping", testMapping},
		{"URIs", testURIs},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, s) })
	}
	for _, test := range writes {
		t.Run(test.name, func(t *testing.T) { test.run(t, s) })
	}
}

type suite struct {
	seed          Seed
	unaddressable string
}

// names drops those that the store cannot address.
func (s suite) names(all ...string) []string {
	return slices.DeleteFunc(all, func(name string) bool { return strings.ContainsAny(name, s.unaddressable) })
}

// literal are names that a careless store would decode, encode or split.
func (s suite) literal() []string {
	return s.names("a b", "a%20b", "a%2Fb", "é", "日本", "a+b", "a:b", "a=b&c", "a'b", "(a)", "a,b;c", "a~b", "a@b", "-", "_blobs/x.blob", "a..b", "…")
}

// Bytes gives n reproducible bytes that differ by seed.
func Bytes(n int, seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, 99))
	b := make([]byte, 0, n+8)
	for len(b) < n {
		b = binary.LittleEndian.AppendUint64(b, r.Uint64())
	}
	return b[:n]
}

func testRanges(t *testing.T, s suite) {
	data := Bytes(3<<20+17, 1)
	at := s.seed(t, map[string][]byte{"d/x.bin": data, "d/empty": nil}).Join("d/x.bin")
	size, err := at.Size(t.Context())
	if err != nil || size != int64(len(data)) {
		t.Fatalf("size: %d, %v; want %d", size, err, len(data))
	}
	for _, r := range [][2]int{{0, 1}, {0, len(data)}, {1, 4096}, {4095, 2}, {len(data) - 1, 1}, {1 << 20, 2 << 20}} {
		got := make([]byte, r[1])
		if err := at.ReadAt(t.Context(), got, int64(r[0])); err != nil {
			t.Errorf("[%d,+%d): %v", r[0], r[1], err)
		} else if !bytes.Equal(got, data[r[0]:r[0]+r[1]]) {
			t.Errorf("[%d,+%d): other bytes", r[0], r[1])
		}
	}
	if size, err := at.Store.Size(t.Context(), at.Path[:len(at.Path)-len("x.bin")]+"empty"); err != nil || size != 0 {
		t.Errorf("size of the empty object: %d, %v", size, err)
	}
}

func testScatter(t *testing.T, s suite) {
	data := Bytes(300_000, 8)
	at := s.seed(t, map[string][]byte{"x": data}).Join("x")
	// More parts than one system call takes, empty ones among them.
	var parts [][]byte
	for n, i := 0, 0; n < 200_000; i++ {
		size := i % 150
		parts = append(parts, make([]byte, size))
		n += size
	}
	if err := at.ReadScatter(t.Context(), parts, 12_345); err != nil {
		t.Fatal(err)
	}
	joined := bytes.Join(parts, nil)
	if !bytes.Equal(joined, data[12_345:12_345+len(joined)]) {
		t.Error("other bytes")
	}
	err := at.ReadScatter(t.Context(), [][]byte{make([]byte, 10), make([]byte, 10)}, int64(len(data))-15)
	if fault.KindOf(err) != fault.Corrupt {
		t.Errorf("past the end: %v", err)
	}
	absent := objstore.Location{Store: at.Store, Path: at.Path + "-absent"}
	if err := absent.ReadScatter(t.Context(), [][]byte{make([]byte, 1)}, 0); fault.KindOf(err) != fault.NotFound {
		t.Errorf("absent: %v", err)
	}
}

func testShort(t *testing.T, s suite) {
	dir := s.seed(t, map[string][]byte{"x": Bytes(100, 2), "empty": nil})
	at := dir.Join("x")
	for _, r := range []struct {
		at  objstore.Location
		off int64
		n   int
	}{
		{at, 0, 101},
		{at, 99, 2},
		{at, 100, 1},
		{at, 101, 1},
		{at, 5000, 10},
		{at, math.MaxInt64, 1},
		{at, math.MaxInt64 - 5, 10},
		{dir.Join("empty"), 0, 1},
	} {
		err := r.at.ReadAt(t.Context(), make([]byte, r.n), r.off)
		var e *fault.Error
		if !errors.As(err, &e) || e.Kind != fault.Corrupt {
			t.Errorf("%s [%d,+%d): %v, want corrupt", r.at, r.off, r.n, err)
			continue
		}
		size := 100
		if r.at != at {
			size = 0
		}
		want := fault.Error{
			Kind: fault.Corrupt, Object: r.at.String(), Offset: r.off,
			Text: fmt.Sprintf("objstore: %d bytes wanted, but the object ends at byte %d", r.n, size),
		}
		if diff := cmp.Diff(want, *e); diff != "" {
			t.Errorf("[%d,+%d): error (-want +got)\n%s", r.off, r.n, diff)
		}
	}
	if err := at.ReadAt(t.Context(), make([]byte, 1), -1); fault.KindOf(err) != fault.Invalid {
		t.Errorf("negative offset: %v, want invalid", err)
	}
	for _, off := range []int64{0, 100, 5000} {
		if err := at.ReadAt(t.Context(), nil, off); err != nil {
			t.Errorf("empty read at %d: %v; it needs no bytes", off, err)
		}
	}
}

func testAbsent(t *testing.T, s suite) {
	dir := s.seed(t, map[string][]byte{"d/x": Bytes(10, 3)})
	for _, name := range []string{"y", "d/y", "d", "d/x/y", "dd", "nowhere/at/all"} {
		at := dir.Join(name)
		if err := at.ReadAt(t.Context(), make([]byte, 1), 0); fault.KindOf(err) != fault.NotFound {
			t.Errorf("read %s: %v, want not found", name, err)
		}
		if _, err := at.Size(t.Context()); fault.KindOf(err) != fault.NotFound {
			t.Errorf("size of %s: %v, want not found", name, err)
		}
		if _, err := objstore.ReadAll(t.Context(), at, 100); fault.KindOf(err) != fault.NotFound {
			t.Errorf("read all of %s: %v, want not found", name, err)
		}
	}
}

func testNames(t *testing.T, s suite) {
	names := s.literal()
	objects := make(map[string][]byte)
	for _, name := range names {
		objects["n/"+name] = []byte("<" + name + ">")
	}
	dir := s.seed(t, objects).Join("n")
	for _, name := range names {
		got, err := objstore.ReadAll(t.Context(), dir.Join(name), 100)
		if err != nil {
			t.Errorf("%q: %v", name, err)
		} else if string(got) != "<"+name+">" {
			t.Errorf("%q holds %q", name, got)
		}
	}
	listed := make(map[string]bool)
	for e, err := range dir.List(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		listed[e.Name] = true
	}
	for _, name := range names {
		if name != "_blobs/x.blob" && !listed[name] {
			t.Errorf("%q is not listed", name)
		}
	}
}

func names(t *testing.T, dir objstore.Location) []string {
	t.Helper()
	return namesOf(t, dir, dir.List(t.Context()))
}

func namesOf(t *testing.T, dir objstore.Location, entries iter.Seq2[objstore.Entry, error]) []string {
	t.Helper()
	var got []string
	for e, err := range entries {
		if err != nil {
			t.Fatalf("list %s: %v", dir, err)
		}
		name := e.Name
		if e.Dir {
			name += "/"
			if e.Size != 0 {
				t.Errorf("folder %s has the size %d", name, e.Size)
			}
		} else {
			name = fmt.Sprintf("%s %d", name, e.Size)
			if e.Modified.IsZero() {
				t.Errorf("object %s has no time", name)
			}
		}
		got = append(got, name)
	}
	return got
}

func testList(t *testing.T, s suite) {
	dir := s.seed(t, map[string][]byte{
		"t/b":           Bytes(2, 1),
		"t/a":           Bytes(1, 1),
		"t/B":           Bytes(3, 1),
		"t/f/x":         Bytes(9, 1),
		"t/f/g/y":       Bytes(9, 1),
		"t/f-1/x":       Bytes(9, 1),
		"t/f.lance/x":   Bytes(9, 1),
		"t/f0":          Bytes(4, 1),
		"t2/not":        Bytes(9, 1),
		"t/deep/er/est": Bytes(9, 1),
	})
	want := []string{"B 3", "a 1", "b 2", "deep/", "f-1/", "f.lance/", "f/", "f0 4"}
	for _, at := range []objstore.Location{dir.Join("t"), dir.Join("t/")} {
		if diff := cmp.Diff(want, names(t, at)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", at, diff)
		}
	}
	if diff := cmp.Diff([]string{"t/", "t2/"}, names(t, dir)); diff != "" {
		t.Errorf("top (-want +got)\n%s", diff)
	}
	begins := func(name string) bool { return strings.HasPrefix(name, "f") }
	if diff := cmp.Diff(want[4:], namesOf(t, dir, dir.Join("t").ListNamed(t.Context(), begins))); diff != "" {
		t.Errorf("some names (-want +got)\n%s", diff)
	}
	for _, absent := range []string{"nowhere", "t/a", "t/f/g/y/z", "t/x"} {
		if got := namesOf(t, dir, dir.Join(absent).ListNamed(t.Context(), begins)); got != nil {
			t.Errorf("some names of %s: %v, want nothing", absent, got)
		}
		if got := names(t, dir.Join(absent)); got != nil {
			t.Errorf("list of %s: %v, want nothing", absent, got)
		}
	}
}

func testListStops(t *testing.T, s suite) {
	objects := make(map[string][]byte)
	var want []string
	for i := range 30 {
		name := fmt.Sprintf("%020d.manifest", math.MaxInt64-i)
		objects["v/"+name] = []byte("x")
		want = append([]string{name}, want...)
	}
	dir := s.seed(t, objects).Join("v")
	for _, stop := range []int{1, 7, 30} {
		var got []string
		for e, err := range dir.List(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if got = append(got, e.Name); len(got) == stop {
				break
			}
		}
		if diff := cmp.Diff(want[:stop], got); diff != "" {
			t.Errorf("first %d (-want +got)\n%s", stop, diff)
		}
	}
}

func testWhole(t *testing.T, s suite) {
	data := Bytes(70000, 4)
	dir := s.seed(t, map[string][]byte{"x": data, "empty": nil})
	got, err := objstore.ReadAll(t.Context(), dir.Join("x"), 70000)
	if err != nil || !bytes.Equal(got, data) {
		t.Errorf("read all: %d bytes, %v", len(got), err)
	}
	if _, err := objstore.ReadAll(t.Context(), dir.Join("x"), 69999); fault.KindOf(err) != fault.Exhausted {
		t.Errorf("beyond the limit: %v, want exhausted", err)
	}
	if got, err := objstore.ReadAll(t.Context(), dir.Join("empty"), 0); err != nil || got == nil || len(got) != 0 {
		t.Errorf("empty object: %v, %v", got, err)
	}
}

func testCancelled(t *testing.T, s suite) {
	at := s.seed(t, map[string][]byte{"d/x": Bytes(10, 5)})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	calls := map[string]func() error{
		"read": func() error { return at.Join("d/x").ReadAt(ctx, make([]byte, 1), 0) },
		"size": func() error { _, err := at.Join("d/x").Size(ctx); return err },
		"all":  func() error { _, err := objstore.ReadAll(ctx, at.Join("d/x"), 10); return err },
		"list": func() error {
			for _, err := range at.Join("d").List(ctx) {
				return err
			}
			return nil
		},
	}
	for name, call := range calls {
		if err := call(); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, want context canceled", name, err)
		}
	}
}

func testConcurrent(t *testing.T, s suite) {
	objects := make(map[string][]byte)
	for i := range 20 {
		objects[fmt.Sprintf("c/%d", i)] = Bytes(5000+i, uint64(i))
	}
	dir := s.seed(t, objects).Join("c")
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 7))
			for range 40 {
				i := r.IntN(20)
				data := objects[fmt.Sprintf("c/%d", i)]
				off := r.IntN(len(data))
				p := make([]byte, 1+r.IntN(len(data)-off))
				if err := dir.Join(fmt.Sprint(i)).ReadAt(t.Context(), p, int64(off)); err != nil {
					t.Errorf("object %d: %v", i, err)
				} else if !bytes.Equal(p, data[off:off+len(p)]) {
					t.Errorf("object %d [%d,+%d): other bytes", i, off, len(p))
				}
			}
		})
	}
	wg.Wait()
}

func testMapping(t *testing.T, s suite) {
	data := Bytes(10000, 6)
	dir := s.seed(t, map[string][]byte{"x": data, "empty": nil})
	at := dir.Join("x")
	if _, ok := objstore.AsMapper(at); !ok {
		if _, err := at.Map(t.Context()); fault.KindOf(err) != fault.Unsupported {
			t.Errorf("map without a mapper: %v, want unsupported", err)
		}
		return
	}
	m, err := at.Map(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	m.Retain()
	m.Release()
	objstore.WillNeed(m, 4097, 100)
	objstore.WillNeed(m, 9999, math.MaxInt64)
	if !bytes.Equal(m.Bytes(), data) {
		t.Errorf("mapping: other bytes")
	}
	m.Release()
	if m, err := dir.Join("empty").Map(t.Context()); err != nil || len(m.Bytes()) != 0 {
		t.Errorf("empty object: %v", err)
	} else {
		m.Release()
	}
	if _, err := dir.Join("y").Map(t.Context()); fault.KindOf(err) != fault.NotFound {
		t.Errorf("absent object: %v, want not found", err)
	}
}

// testURIs checks that printed locations are URIs that name the same path.
func testURIs(t *testing.T, s suite) {
	dir := s.seed(t, map[string][]byte{"x": nil})
	for _, name := range []string{"a b", "a%41", "a#b?c", "é"} {
		at := dir.Join(name)
		for _, uri := range []string{at.String(), at.AbsoluteURI()} {
			scheme, path, err := objstore.SplitURI(uri)
			if err != nil {
				t.Errorf("%s: %v", uri, err)
			} else if path != at.Path {
				t.Errorf("%s (%s) names %q, want %q", uri, scheme, path, at.Path)
			}
		}
	}
}
