package blob

import (
	"context"
	"errors"
	"iter"
	"math"
	"strings"
	"testing"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/table/manifest"
)

// lengths is a store of which only lengths are known; it counts look-ups.
type lengths struct {
	objstore.ReadOnly
	sizes map[string]int64
	asked int
}

func (s *lengths) ReadAt(context.Context, string, []byte, int64) error {
	return errors.New("blob must not read payloads")
}

func (s *lengths) Size(_ context.Context, path string) (int64, error) {
	s.asked++
	n, ok := s.sizes[path]
	if !ok {
		return 0, fault.New(fault.NotFound, "no object %s", path)
	}
	return n, nil
}

func (s *lengths) List(context.Context, string) iter.Seq2[objstore.Entry, error] { return nil }
func (s *lengths) URI(path string) string                                        { return "test:///" + path }

type world struct {
	store   *lengths
	owner   *Owner
	r       *Resolver
	located []string
}

func newWorld() *world {
	w := &world{store: &lengths{sizes: map[string]int64{"ext/ten": 10, "ext/none": 0}}}
	at := func(path string) objstore.Location { return objstore.Location{Store: w.store, Path: path} }
	w.owner = &Owner{File: at("root/data/f.lance"), Key: "f", Dir: at("root/data"), Base: at("root"), Immutable: true}
	w.r = NewResolver(map[uint32]manifest.Base{
		0:       {ID: 0, Path: "/zero", IsDatasetRoot: true},
		3:       {ID: 3, Path: "file:///three"},
		5:       {ID: 5, Path: "/five", IsDatasetRoot: true},
		1 << 31: {ID: 1 << 31, Path: "s3://bucket/far"},
		9:       {ID: 9, Path: "/forbidden"},
	}, func(_ context.Context, uri string) (objstore.Location, error) {
		w.located = append(w.located, uri)
		if strings.Contains(uri, "forbidden") {
			return objstore.Location{}, fault.New(fault.Denied, "%s may not be read", uri)
		}
		_, path, isURI := strings.Cut(uri, "://")
		if !isURI {
			path = uri
		}
		return at(strings.TrimPrefix(path, "/")), nil
	})
	return w
}

func TestResolve(t *testing.T) {
	t.Parallel()
	const one = "10000000000000000000000000000000.blob"
	for _, c := range []struct {
		name   string
		d      Descriptor
		object string
		off, n uint64
		whole  bool
	}{
		{"RES-3 inline reads the data file", Descriptor{Kind: Inline, Position: 64, Size: 5}, "root/data/f.lance", 64, 5, false},
		{"RES-4 packed reads the sidecar", Descriptor{Kind: Packed, Position: 7, Size: 5, ID: 1}, "root/data/f/" + one, 7, 5, false},
		{"RES-4 dedicated reads the sidecar", Descriptor{Kind: Dedicated, Size: 5, ID: 1}, "root/data/f/" + one, 0, 5, false},
		{"DIFF-9 dedicated ignores its position", Descriptor{Kind: Dedicated, Position: math.MaxUint64, Size: 5, ID: 1}, "root/data/f/" + one, 0, 5, false},
		{"RES-7 external absolute", Descriptor{Kind: External, Position: 1, Size: 2, URI: "test:///ext/a%20b"}, "ext/a%20b", 1, 2, false},
		{"RES-7 id 0 is absolute although base 0 exists", Descriptor{Kind: External, Size: 2, URI: "test:///ext/ten"}, "ext/ten", 0, 2, false},
		{"RES-8 external below a base given by URI EXT-10", Descriptor{Kind: External, Size: 2, ID: 3, URI: "x/y"}, "three/x/y", 0, 2, false},
		{"RES-8 external below a base given by path EXT-10", Descriptor{Kind: External, Size: 2, ID: 5, URI: "x"}, "five/x", 0, 2, false},
		{"RES-8 a base is found by id", Descriptor{Kind: External, Size: 2, ID: 1 << 31, URI: "x"}, "bucket/far/x", 0, 2, false},
		{"RES-9 a leading slash is tolerated DIFF-8", Descriptor{Kind: External, Size: 2, ID: 5, URI: "/x/y"}, "five/x/y", 0, 2, false},
		{"RES-9 a trailing slash is tolerated DIFF-8", Descriptor{Kind: External, Size: 2, ID: 5, URI: "x/y/"}, "five/x/y", 0, 2, false},
		{"NUL-9 external sentinel keeps its position", Descriptor{Kind: External, Position: 4, ID: 5, URI: "x"}, "five/x", 4, 0, true},
		{"NUL-9 external sentinel at the last position", Descriptor{Kind: External, Position: math.MaxUint64, ID: 5, URI: "x"}, "five/x", math.MaxUint64, 0, true},
		{"RES-12 managed lies below the implicit base", Descriptor{Kind: Managed, Position: 3, Size: 4, URI: "_blobs/u.blob"}, "root/_blobs/u.blob", 3, 4, false},
		{"RES-13 managed needs no _blobs prefix", Descriptor{Kind: Managed, Size: 4, URI: "data/k/x.blob"}, "root/data/k/x.blob", 0, 4, false},
		{"RES-13 managed base appends to the path itself", Descriptor{Kind: ManagedBase, Size: 4, ID: 5, URI: "_blobs/u"}, "five/_blobs/u", 0, 4, false},
		{"RES-12 DIFF-2 base 0 is a real id", Descriptor{Kind: ManagedBase, Size: 4, URI: "u"}, "zero/u", 0, 4, false},
		{"RES-11 everything else is literal", Descriptor{Kind: Managed, Size: 4, URI: "a%2Fb/c:d?e f/é#.bin"}, "root/a%2Fb/c:d?e f/é#.bin", 0, 4, false},
		{"REJ-5 the last byte may be 2^64-2", Descriptor{Kind: Inline, Position: math.MaxUint64 - 1, Size: 1}, "root/data/f.lance", math.MaxUint64 - 1, 1, false},
		{"NUL-6 empty inline", Descriptor{Kind: Inline, Position: 1 << 63}, "", 0, 0, false},
		{"NUL-7 empty packed without id", Descriptor{Kind: Packed, Position: 9}, "", 0, 0, false},
		{"NUL-7 empty dedicated without id", Descriptor{Kind: Dedicated}, "", 0, 0, false},
		{"NUL-8 empty managed at the last position", Descriptor{Kind: Managed, Position: math.MaxUint64, URI: "gone"}, "", 0, 0, false},
		{"NUL-8 empty managed base", Descriptor{Kind: ManagedBase, Position: 5, ID: 3, URI: "gone"}, "", 0, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			e, err := w.r.Resolve(t.Context(), c.d, w.owner)
			if err != nil {
				t.Fatal(err)
			}
			if e.Object.Path != c.object || e.Offset != c.off || e.Length != c.n || e.Whole != c.whole {
				t.Errorf("got %q [%d, +%d) whole=%t", e.Object.Path, e.Offset, e.Length, e.Whole)
			}
			if owned := c.d.Kind != External; e.Owned != owned || e.Immutable != owned {
				t.Errorf("owned %t immutable %t", e.Owned, e.Immutable)
			}
			if w.store.asked != 0 {
				t.Errorf("the store was asked %d times", w.store.asked)
			}
		})
	}
}

func TestResolveRefuses(t *testing.T) {
	t.Parallel()
	const max64 = math.MaxUint64
	for _, c := range []struct {
		name string
		d    Descriptor
		text string
	}{
		{"REJ-2 ERR-11 unknown kind", Descriptor{Kind: 6}, "kind 6"},
		{"REJ-2 ERR-11 last kind number", Descriptor{Kind: 255, Size: 1}, "kind 255"},
		{"REJ-3 ERR-12 external with an unknown base", Descriptor{Kind: External, Size: 1, ID: 77, URI: "x"}, "base 77"},
		{"REJ-3 ERR-12 sentinel with an unknown base", Descriptor{Kind: External, ID: 77, URI: "x"}, "base 77"},
		{"REJ-3 ERR-12 managed with an unknown base", Descriptor{Kind: ManagedBase, Size: 1, ID: 77, URI: "x"}, "base 77"},
		{"REJ-3 NUL-8 empty managed with an unknown base", Descriptor{Kind: ManagedBase, ID: 77, URI: "x"}, "base 77"},
		{"REJ-5 ERR-14 inline overflow", Descriptor{Kind: Inline, Position: max64, Size: 1}, "18446744073709551615"},
		{"REJ-5 ERR-14 packed overflow", Descriptor{Kind: Packed, Position: 2, Size: max64 - 1, ID: 1}, "18446744073709551614"},
		{"REJ-5 external overflow", Descriptor{Kind: External, Position: max64, Size: 1, URI: "test:///x"}, "2^64-1"},
		{"REJ-5 managed overflow", Descriptor{Kind: Managed, Position: max64, Size: 1, URI: "x"}, "2^64-1"},
		{"REJ-5 managed base overflow", Descriptor{Kind: ManagedBase, Position: max64, Size: 1, URI: "x"}, "2^64-1"},
		{"REJ-7 DIFF-7 packed sidecar 0", Descriptor{Kind: Packed, Size: 1}, "sidecar 0"},
		{"REJ-7 DIFF-7 dedicated sidecar 0", Descriptor{Kind: Dedicated, Size: 1}, "sidecar 0"},
		{"RES-10 DIFF-8 empty URI", Descriptor{Kind: External, Size: 1}, `""`},
		{"RES-10 empty path", Descriptor{Kind: External, ID: 5}, `""`},
		{"RES-10 slashes only", Descriptor{Kind: External, ID: 5, URI: "//"}, `"//"`},
		{"RES-9 parent", Descriptor{Kind: External, ID: 5, URI: "a/../b"}, `".."`},
		{"RES-9 dot", Descriptor{Kind: External, ID: 5, URI: "./b"}, "component ."},
		{"RES-9 empty inner component", Descriptor{Kind: External, ID: 5, URI: "a//b"}, `"a//b"`},
		{"RES-9 two leading slashes", Descriptor{Kind: External, ID: 5, URI: "//b"}, `"//b"`},
		{"RES-7 a plain path is no URI", Descriptor{Kind: External, URI: "/etc/passwd"}, `"/etc/passwd"`},
		{"RES-7 a relative path is no URI", Descriptor{Kind: External, URI: "a://b"[2:]}, `"//b"`},
		{"REJ-4 RES-11 ERR-13 empty", Descriptor{Kind: Managed}, `""`},
		{"REJ-4 RES-11 scheme", Descriptor{Kind: Managed, Size: 1, URI: "s3://x"}, `"s3://x"`},
		{"REJ-4 RES-11 backslash", Descriptor{Kind: Managed, Size: 1, URI: `a\b`}, `"a\\b"`},
		{"REJ-4 RES-11 leading slash", Descriptor{Kind: Managed, Size: 1, URI: "/a"}, `"/a"`},
		{"REJ-4 RES-11 trailing slash", Descriptor{Kind: ManagedBase, Size: 1, URI: "a/"}, `"a/"`},
		{"REJ-4 RES-11 empty component", Descriptor{Kind: ManagedBase, Size: 1, URI: "a//b"}, `"a//b"`},
		{"REJ-4 RES-11 dot", Descriptor{Kind: Managed, Size: 1, URI: "a/./b"}, `"a/./b"`},
		{"REJ-4 RES-11 parent", Descriptor{Kind: Managed, Size: 1, URI: ".."}, `".."`},
		{"REJ-4 RES-11 control character", Descriptor{Kind: Managed, Size: 1, URI: "a\nb"}, `"a\nb"`},
		{"REJ-4 RES-11 NUL", Descriptor{Kind: Managed, Size: 1, URI: "a\x00b"}, `"a\x00b"`},
		{"REJ-4 RES-11 second control block", Descriptor{Kind: Managed, Size: 1, URI: "a\u0085b"}, `"a\u0085b"`},
		{"REJ-4 NUL-8 bad path of an empty value", Descriptor{Kind: Managed, URI: "a/"}, `"a/"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			_, err := w.r.Resolve(t.Context(), c.d, w.owner)
			if err == nil || fault.KindOf(err) != fault.Corrupt {
				t.Fatalf("error %v, want a corruption", err)
			}
			if want := strings.Trim(c.text, `"`); !strings.Contains(err.Error(), want) {
				t.Errorf("error %q does not say %q", err, c.text)
			}
			if len(w.located) > 0 {
				t.Errorf("located %q", w.located)
			}
		})
	}
	t.Run("a place that is out of bounds is denied", func(t *testing.T) {
		t.Parallel()
		w := newWorld()
		for _, d := range []Descriptor{
			{Kind: External, URI: "file:///forbidden/x"},
			{Kind: ManagedBase, Size: 1, ID: 9, URI: "x"},
		} {
			if _, err := w.r.Resolve(t.Context(), d, w.owner); fault.KindOf(err) != fault.Denied {
				t.Errorf("%v: error %v", d, err)
			}
		}
	})
	t.Run("owned kinds need an owner", func(t *testing.T) {
		t.Parallel()
		w := newWorld()
		for _, k := range []Kind{Inline, Packed, Dedicated, Managed} {
			if _, err := w.r.Resolve(t.Context(), Descriptor{Kind: k, Size: 1, ID: 1, URI: "x"}, nil); fault.KindOf(err) != fault.Internal {
				t.Errorf("%v: error %v", k, err)
			}
		}
	})
}

func TestResolverRemembersBases(t *testing.T) {
	t.Parallel()
	w := newWorld()
	for range 3 {
		for _, d := range []Descriptor{
			{Kind: External, Size: 1, ID: 5, URI: "a"},
			{Kind: ManagedBase, Size: 1, ID: 5, URI: "b"},
		} {
			if _, err := w.r.Resolve(t.Context(), d, w.owner); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := strings.Join(w.located, " "); got != "/five" {
		t.Errorf("located %s", got)
	}
}

// TestCursor resolves every pair of values in a row and expects what Resolve
// gives for each alone.
func TestCursor(t *testing.T) {
	t.Parallel()
	w := newWorld()
	values := []Descriptor{
		{Kind: Inline, Position: 1, Size: 2},
		{Kind: Inline},
		{Kind: Packed, Position: 1, Size: 2, ID: 1},
		{Kind: Packed, Position: 3, Size: 2, ID: 2},
		{Kind: Dedicated, Position: 3, Size: 2, ID: 1},
		{Kind: Packed, Size: 2}, // refused
		{Kind: External, Size: 2, URI: "test:///a"},
		{Kind: External, Position: 5, URI: "test:///a"},
		{Kind: External, Position: 5, Size: 1, ID: 5, URI: "a"},
		{Kind: Managed, Position: 5, Size: 1, URI: "a"},
		{Kind: ManagedBase, Position: 5, Size: 1, ID: 5, URI: "a"},
		{Kind: ManagedBase, Position: 5, Size: 1, ID: 3, URI: "a"},
		{Kind: ManagedBase, Position: 5, Size: 1, ID: 3, URI: "b"},
		{Kind: ManagedBase, Position: 5, Size: 1, ID: 9, URI: "b"}, // denied
	}
	for _, first := range values {
		for _, second := range values {
			c := w.r.Cursor(w.owner)
			for _, d := range []Descriptor{first, second} {
				want, wantErr := w.r.Resolve(t.Context(), d, w.owner)
				got, err := c.Resolve(t.Context(), d)
				if got != want || (err == nil) != (wantErr == nil) {
					t.Errorf("%v after %v: %+v, %v, want %+v, %v", d, first, got, err, want, wantErr)
				}
			}
		}
	}
	w.located = nil
	c := w.r.Cursor(nil)
	for i := range uint64(3) {
		if _, err := c.Resolve(t.Context(), Descriptor{Kind: External, Position: i, Size: 1, URI: "test:///a"}); err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.Join(w.located, " "); got != "test:///a" {
		t.Errorf("located %s", got)
	}
}

func TestSidecarName(t *testing.T) {
	t.Parallel()
	for id, want := range map[uint32]string{
		1:          "10000000000000000000000000000000",
		2:          "01000000000000000000000000000000",
		5:          "10100000000000000000000000000000",
		0x40000001: "10000000000000000000000000000010",
		1<<32 - 1:  "11111111111111111111111111111111",
	} {
		t.Run("RES-5 "+want, func(t *testing.T) {
			t.Parallel()
			if got := SidecarName(id); got != want+".blob" {
				t.Errorf("SidecarName(%d) = %s", id, got)
			}
		})
	}
}
