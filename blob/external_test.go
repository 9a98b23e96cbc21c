package blob

import (
	"context"
	"math"
	"net/url"
	"strings"
	"testing"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/table/manifest"
)

func TestExternalURI(t *testing.T) {
	t.Parallel()
	r := NewResolver(map[uint32]manifest.Base{
		1: {ID: 1, Path: "/plain dir/é"},
		2: {ID: 2, Path: "file:///already%20escaped/"},
		3: {ID: 3, Path: "s3://bucket"},
		4: {ID: 4, Path: "relative"},
		6: {ID: 6, Path: "/"},
	}, func(context.Context, string) (objstore.Location, error) {
		t.Error("the text form must not touch a store")
		return objstore.Location{}, nil
	})
	for _, c := range []struct {
		name string
		id   uint32
		uri  string
		want string
	}{
		{"EXT-6 an absolute URI stays as it is", 0, "file:///a%41%20b", "file:///a%41%20b"},
		{"EXT-6 plain base", 1, "x.bin", "file:///plain%20dir/%C3%A9/x.bin"},
		{"EXT-10 base given as URI", 2, "x.bin", "file:///already%20escaped/x.bin"},
		{"EXT-6 bucket", 3, "k/x", "s3://bucket/k/x"},
		{"EXT-6 file system root", 6, "x", "file:///x"},
		{"EXT-5 reserved characters", 3, "sub dir/é#?%41[x]^|\\.bin", "s3://bucket/sub%20dir/%C3%A9%23%3F%2541[x]^|%5C.bin"},
		{"RES-9 tolerated slashes vanish", 3, "/k/x/", "s3://bucket/k/x"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := r.ExternalURI(Descriptor{Kind: External, ID: c.id, URI: c.uri})
			if err != nil || got != c.want {
				t.Fatalf("got %s, %v, want %s", got, err, c.want)
			}
			if c.id == 3 { // what a reader of the URI makes of it is the recorded path
				u, err := url.Parse(got)
				if err != nil || u.Path != "/"+strings.Trim(c.uri, "/") {
					t.Errorf("read back as %v, %v", u, err)
				}
			}
		})
	}
	for name, d := range map[string]Descriptor{
		"unknown base":  {Kind: External, ID: 99, URI: "x"},
		"relative base": {Kind: External, ID: 4, URI: "x"},
		"bad path":      {Kind: External, ID: 1, URI: "../x"},
		"empty":         {Kind: External},
	} {
		if got, err := r.ExternalURI(d); fault.KindOf(err) != fault.Corrupt {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
	if _, err := r.ExternalURI(Descriptor{Kind: Inline}); fault.KindOf(err) != fault.Internal {
		t.Errorf("inline: %v", err)
	}
}

func TestLength(t *testing.T) {
	t.Parallel()
	resolve := func(t *testing.T, w *world, position uint64, uri string) Extent {
		t.Helper()
		e, err := w.r.Resolve(t.Context(), Descriptor{Kind: External, Position: position, URI: "test:///ext/" + uri}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	t.Run("NUL-9 the object's length from the recorded position", func(t *testing.T) {
		t.Parallel()
		w := newWorld()
		e := resolve(t, w, 4, "ten")
		n, err := Length(t.Context(), e)
		if err != nil || n != 10 {
			t.Fatalf("%d, %v", n, err)
		}
		if e = e.Sized(n); e.Offset != 4 || e.Length != 10 || e.Whole {
			t.Errorf("%+v", e)
		}
		if part, err := e.Slice(2, 4); err != nil || part.Offset != 6 || part.Length != 4 {
			t.Errorf("a range inside the object: %+v, %v", part, err)
		}
	})
	t.Run("NUL-10 an empty object is an empty value at any position", func(t *testing.T) {
		t.Parallel()
		w := newWorld()
		e := resolve(t, w, math.MaxUint64, "none")
		n, err := Length(t.Context(), e)
		if err != nil || n != 0 {
			t.Fatalf("%d, %v", n, err)
		}
		if e = e.Sized(n); e.Length != 0 || e.Whole {
			t.Errorf("%+v", e)
		}
	})
	t.Run("ERR-15 a missing object is named", func(t *testing.T) {
		t.Parallel()
		w := newWorld()
		_, err := Length(t.Context(), resolve(t, w, 0, "gone"))
		if fault.KindOf(err) != fault.NotFound || !strings.Contains(err.Error(), "ext/gone") {
			t.Errorf("error %v", err)
		}
	})
	t.Run("known lengths ask nobody", func(t *testing.T) {
		t.Parallel()
		if n, err := Length(t.Context(), Extent{Length: 7}); n != 7 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	})
}

func TestSlice(t *testing.T) {
	t.Parallel()
	e := Extent{Offset: 100, Length: 10}
	for _, c := range []struct {
		name        string
		e           Extent
		offset, len uint64
		ok          bool
	}{
		{"RES-14 inner range", e, 2, 3, true},
		{"RES-14 whole value", e, 0, 10, true},
		{"RES-14 empty range at the end", e, 10, 0, true},
		{"REJ-11 one beyond the end", e, 5, 6, false},
		{"REJ-11 empty range beyond the end", e, 11, 0, false},
		{"REJ-11 overflow", e, math.MaxUint64, 2, false},
		{"RES-14 position plus offset overflows", Extent{Offset: math.MaxUint64, Length: 10}, 1, 1, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := c.e.Slice(c.offset, c.len)
			if (err == nil) != c.ok {
				t.Fatalf("error %v", err)
			}
			if c.ok && (got.Offset != 100+c.offset || got.Length != c.len) {
				t.Errorf("%+v", got)
			}
		})
	}
	t.Run("REJ-11 overflow of a null value's range", func(t *testing.T) {
		t.Parallel()
		if CheckRange(math.MaxUint64, 1) == nil || CheckRange(math.MaxUint64, 0) != nil {
			t.Error("overflow is judged wrongly")
		}
	})
}

func TestKindNames(t *testing.T) {
	t.Parallel()
	want := []string{"inline", "packed", "dedicated", "external", "managed", "managed", "kind 6"}
	for i, name := range want {
		if got := Kind(i).String(); got != name || Kind(i).Known() != (i < 6) {
			t.Errorf("kind %d: %s, known %t", i, got, Kind(i).Known())
		}
	}
}
