package blob

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/google/go-cmp/cmp"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/table/manifest"
)

func basesOf(bases ...manifest.Base) map[uint32]manifest.Base {
	out := map[uint32]manifest.Base{}
	for _, b := range bases {
		out[b.ID] = b
	}
	return out
}

// TestRefer holds what pylance 14.0.2 recorded for the same URIs and bases,
// where nothing is said to the contrary.
func TestRefer(t *testing.T) {
	t.Parallel()
	base := func(id uint32, path string) manifest.Base { return manifest.Base{ID: id, Path: path} }
	for _, c := range []struct {
		rule, uri string
		bases     []manifest.Base
		want      string // "id uri", or words of the refusal
	}{
		{"EXT-3 EXT-10", "/b/x", []manifest.Base{base(1, "/b")}, "1 x"},
		{"EXT-3 EXT-10", "file:///b/x", []manifest.Base{base(1, "/b")}, "1 x"},
		{"EXT-3 EXT-10", "/b/x", []manifest.Base{base(1, "file:///b")}, "1 x"},
		{"EXT-5", "file:///b/sub%20dir/%C3%A9%23.bin", []manifest.Base{base(1, "/b")}, "1 sub dir/é#.bin"},
		{"EXT-5", "/b/sub dir/é#.bin", []manifest.Base{base(1, "/b")}, "1 sub dir/é#.bin"},
		{"EXT-5", "/b/a%20b", []manifest.Base{base(1, "/b")}, "1 a%20b"},
		{"EXT-5", "/b/a?b#c", []manifest.Base{base(1, "/b")}, "1 a?b#c"},
		{"EXT-5", "file:///b/a?b", []manifest.Base{base(1, "/b")}, "1 a"},
		{"EXT-5", "file:///b/a%5Cb", []manifest.Base{base(1, "/b")}, `1 a\b`},
		{"EXT-5", "file:///b/sub%20dir/x", []manifest.Base{base(1, "file:///b/sub%20dir")}, "1 x"},
		{"EXT-3 ERR-7", "file:///b2/x", []manifest.Base{base(1, "/b")}, `uri "file:///b2/x" lies in no registered base`},
		{"EXT-3 ERR-7", "file:///b", []manifest.Base{base(1, "/b")}, "lies in no registered base"},
		{"EXT-3 ERR-7", "file:///b/", []manifest.Base{base(1, "/b")}, "lies in no registered base"},
		{"EXT-3", "/b/../c/x", []manifest.Base{base(1, "/b")}, `path "/b/../c/x" lies in no registered base; outside of them give an absolute URI, as file:///b/../c/x`},
		{"EXT-3", "/b/./x", []manifest.Base{base(1, "/b")}, "1 x"},
		{"EXT-3", "/b//x", []manifest.Base{base(1, "/b/")}, "1 x"},
		{"EXT-3", "/b/x", []manifest.Base{base(1, "/")}, "1 b/x"},
		{"EXT-4", "file:///b/sub/x", []manifest.Base{base(7, "/b"), base(9, "/b/sub")}, "9 x"},
		{"EXT-4", "file:///b/sub/x", []manifest.Base{base(9, "/b"), base(7, "/b/sub")}, "7 x"},
		{"EXT-4 DIFF-2", "file:///b/sub/x", []manifest.Base{base(0, "/b/sub"), base(7, "/b")}, "0 x"},
		{"EXT-4", "file:///b/sub2/x", []manifest.Base{base(7, "/b"), base(9, "/b/sub")}, "7 sub2/x"},
		{"EXT-2", "file:///b/sub/x", []manifest.Base{base(7, "/b"), {ID: 9, Path: "/b/sub", IsDatasetRoot: true}}, "7 sub/x"},
		{"EXT-2", "file:///b/sub/x", []manifest.Base{{ID: 9, Path: "/b/sub", IsDatasetRoot: true}}, "lies in no registered base"},
		{"EXT-4", "/b/x", []manifest.Base{base(9, "/b"), base(7, "/b/")}, "7 x"}, // the reference takes the first one registered
		{"EXT-10", "/b/x", []manifest.Base{base(1, "relative"), base(2, "s3://user@b/"), base(3, "/b")}, "3 x"},
		{"EXT-3", "s3://b/k/a%20b", []manifest.Base{base(1, "s3://b/k")}, "1 a b"},
		{"EXT-3", "s3://B/k/x", []manifest.Base{base(1, "s3://b/k")}, "lies in no registered base"},
		{"EXT-3", "gs://b/k/x", []manifest.Base{base(1, "s3://b/k")}, "lies in no registered base"},
		{"EXT-7", "rel/x", []manifest.Base{base(1, "/b")}, `uri "rel/x" is relative; give an absolute URI`},
		{"EXT-7", "./x", nil, "is relative"},
		{"EXT-7", "mailto:a", nil, "is relative"},
		{"EXT-6", "file:///x/y", nil, `register one above it, allow references outside of the bases ("allow_outside_bases": true), or have the bytes copied ("external": "ingest")`},
		{"EXT-7", "file://host/x", nil, "names a host"},
		{"EXT-7", "s3://b", nil, "names no object"},
	} {
		t.Run(fmt.Sprintf("%s EXT-8 %s in %v", c.rule, c.uri, c.bases), func(t *testing.T) {
			for _, ranged := range []bool{false, true} {
				d := newDesk(t)
				d.policy.Bases = basesOf(c.bases...)
				position, size := uint64(0), uint64(0)
				if ranged {
					position, size = 5, 6
				}
				got, _, err := d.open().refer(c.uri, position, size, false)
				if err != nil {
					if fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), c.want) {
						t.Errorf("%v, want %s", err, c.want)
					}
					continue
				}
				if text := fmt.Sprintf("%d %s", got.ID, got.URI); text != c.want || got.Kind != External || got.Position != position || got.Size != size {
					t.Errorf("%+v, want %s", got, c.want)
				}
			}
		})
	}
	t.Run("EXT-6 outside by permission", func(t *testing.T) {
		d := newDesk(t)
		d.policy.URIs.AllowOutside = true
		for uri, want := range map[string]string{
			"FILE:///x/a b": "file:///x/a%20b", "s3://b/../c/é": "s3://b/c/%C3%A9", "file:///x/%41?q": "file:///x/%41?q", "file:/x/y": "file:///x/y",
		} {
			if got, _, err := d.open().refer(uri, 0, 0, false); err != nil || got != (Descriptor{Kind: External, URI: want}) {
				t.Errorf("%s: %+v, %v", uri, got, err)
			}
		}
		if _, rule, err := d.open().refer("/x/y", 0, 0, false); err == nil || rule != "EXT-7" {
			t.Errorf("EXT-7: %v", err)
		}
	})
	t.Run("DIFF-11 schemes that nobody reads", func(t *testing.T) {
		d := newDesk(t)
		d.policy.URIs.AllowOutside, d.policy.URIs.Schemes = true, []string{"file", "s3"}
		if _, _, err := d.open().refer("S3://a/b", 0, 0, false); err != nil {
			t.Error(err)
		}
		if _, _, err := d.open().refer("foo://a/b", 0, 0, false); fault.KindOf(err) != fault.Invalid || err == nil || !strings.Contains(err.Error(), `unknown scheme "foo"; known: file, s3`) {
			t.Error(err)
		}
	})
	t.Run("what the server may touch", func(t *testing.T) {
		d := newDesk(t)
		d.policy.Bases = basesOf(base(1, "/b"))
		d.policy.URIs = URIPolicy{AllowOutside: true, Allows: objstore.NewAccess("/ok").Allows}
		if got, _, err := d.open().refer("file:///ok/x", 0, 0, false); err != nil || got.URI != "file:///ok/x" {
			t.Errorf("%+v, %v", got, err)
		}
		if got, _, err := d.open().refer("file:///b/x", 0, 0, false); err != nil || got.ID != 1 {
			t.Errorf("below a registered base: %+v, %v", got, err)
		}
		_, _, err := d.open().refer("file:///other/dir/x", 0, 0, false)
		if fault.KindOf(err) != fault.Denied || err == nil || !strings.Contains(err.Error(), "--external /other/dir") {
			t.Errorf("got %v", err)
		}
	})
}

func TestPlaceReferences(t *testing.T) {
	t.Parallel()
	s := tableOf(t, blobField("b", minimal), field("l", list(blobField("item", whole))))
	input := []arrow.Field{blobField("b", whole), field("l", list(blobField("item", whole)))}
	t.Run("EXT-1 SCH-10 nothing is copied", func(t *testing.T) {
		d := newDesk(t)
		d.policy.Bases = basesOf(manifest.Base{ID: 3, Path: "mem://desk/ext"})
		d.policy.URIs.AllowOutside = true
		d.policy.URIs.Locate = nil
		got, err := d.place(s, batchOf(t, `[{"b":{"uri":"mem://desk/ext/a"},"l":[{"uri":"s3://x/y","position":1,"size":18446744073709551614},null]},{"b":{"uri":"mem://desk/ext/a","position":7,"size":8}},{"b":null}]`, input...))
		if err != nil {
			t.Fatal(err)
		}
		d.commit()
		if diff := cmp.Diff([]string{`3 at 0 size 0 id 3 "a"`, `3 at 7 size 8 id 3 "a"`, "null"}, shown(t, got.Column(0))); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"root/data/f.lance 0"}, d.tree()); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("IN-13 ERR-7 judged before anything is stored", func(t *testing.T) {
		d := newDesk(t)
		small := tableOf(t, limited("b", 0, 100, 100), field("l", list(blobField("item", whole))))
		_, err := d.place(small, batchOf(t, `[{"b":`+dataJSON(50, 1)+`},{"l":[{"data":""},{"uri":"file:///a"}]}]`, input...))
		var bad *InputError
		if !errors.As(err, &bad) || bad.Field != "l.item" || bad.Row != 1 || fmt.Sprint(bad.Elements) != "[1]" || bad.Rule != "EXT-6" {
			t.Errorf("got %v", err)
		}
		if left := d.tree(); len(left) != 0 || len(d.file.data) != 0 {
			t.Errorf("left: %v", left)
		}
		// What was stored before and after is not touched by the refusal.
		if _, err := d.place(small, batchOf(t, `[{"b":`+dataJSON(50, 1)+`}]`, input...)); err != nil {
			t.Error(err)
		}
		d.commit()
	})
}

func TestIngest(t *testing.T) {
	t.Parallel()
	mixed := func(t *testing.T) (*desk, []string) {
		d := newDesk(t)
		d.policy.URIs.Mode = Ingest
		d.store.Set("ext/a", payload(1024, 41))
		d.store.Set("ext/empty", nil)
		d.store.Set("ext/large", payload(9<<20, 42))
		uri := func(name string, more ...uint64) string {
			if len(more) == 0 {
				return fmt.Sprintf(`{"uri":"mem://desk/ext/%s"}`, name)
			}
			return fmt.Sprintf(`{"uri":"mem://desk/ext/%s","position":%d,"size":%d}`, name, more[0], more[1])
		}
		return d, []string{uri("a"), uri("a", 10, 64), uri("a", 10, 65), uri("a", 0, 128), uri("a", 1, 129), dataJSON(3, 1), "null", uri("empty"), uri("large"), uri("large", 1000, 5<<20), uri("a", 1023, 1)}
	}
	want := [][]byte{
		payload(1024, 41), payload(1024, 41)[10:74], payload(1024, 41)[10:75], payload(1024, 41)[:128], payload(1024, 41)[1:130],
		payload(3, 1), nil,
		{},
		payload(9<<20, 42), payload(9<<20, 42)[1000 : 1000+5<<20], payload(1024, 41)[1023:],
	}
	for _, c := range []struct {
		name                    string
		inline, dedicated, pack uint64
		managed                 bool
		want                    []string
	}{
		{"WRT-4 EXT-9 EXT-12 kinds 0 to 2", 64, 128, 400, false, []string{
			`2 at 0 size 1024 id 1 ""`, `0 at 0 size 64 id 0 ""`, `1 at 0 size 65 id 2 ""`, `1 at 65 size 128 id 2 ""`, `2 at 0 size 129 id 3 ""`, `0 at 64 size 3 id 0 ""`, "null",
			`0 at 128 size 0 id 0 ""`, fmt.Sprintf(`2 at 0 size %d id 4 ""`, 9<<20), fmt.Sprintf(`2 at 0 size %d id 5 ""`, 5<<20), `0 at 128 size 1 id 0 ""`,
		}},
		{"WRT-4 all packed", 0, 1 << 40, 1 << 40, false, []string{
			`1 at 0 size 1024 id 1 ""`, `1 at 1024 size 64 id 1 ""`, `1 at 1088 size 65 id 1 ""`, `1 at 1153 size 128 id 1 ""`, `1 at 1281 size 129 id 1 ""`, `1 at 1410 size 3 id 1 ""`, "null",
			`0 at 0 size 0 id 0 ""`, fmt.Sprintf(`1 at 1413 size %d id 1 ""`, 9<<20), fmt.Sprintf(`1 at %d size %d id 1 ""`, 1413+9<<20, 5<<20), fmt.Sprintf(`1 at %d size 1 id 1 ""`, 1413+9<<20+5<<20),
		}},
		{"WRT-4 all inline", 1 << 40, 1 << 40, 1, false, nil},
		{"WRT-4 managed", 64, 128, 400, true, nil},
	} {
		for _, limit := range []int64{1, 1 << 10, 0} {
			t.Run(fmt.Sprintf("%s, %d bytes ahead", c.name, limit), func(t *testing.T) {
				t.Parallel()
				d, values := mixed(t)
				d.policy.Managed, d.policy.CopyMemory, d.policy.Copies = c.managed, limit, 1+int(limit%3)
				got, err := d.place(tableOf(t, limited("b", c.inline, c.dedicated, c.pack)), batchOf(t, rowsOf("b", values...), blobField("b", whole)))
				if err != nil {
					t.Fatal(err)
				}
				d.commit()
				if c.want != nil {
					if diff := cmp.Diff(c.want, shown(t, got.Column(0))); diff != "" {
						t.Error(diff)
					}
				}
				column, err := AsColumn(got.Column(0))
				if err != nil {
					t.Fatal(err)
				}
				for i := range column.Len() {
					v, null, err := column.At(i)
					if err != nil || null != (want[i] == nil) || !null && string(d.read(v)) != string(want[i]) {
						t.Errorf("row %d: %+v, %v", i, v, err)
					}
				}
			})
		}
	}
	for name, c := range map[string]struct {
		value string
		kind  fault.Kind
		want  string
	}{
		"EXT-9 a missing object":      {`{"uri":"mem://desk/ext/gone"}`, fault.NotFound, "blob: column b, row 1: objstore: mem://desk/ext/gone does not exist"},
		"EXT-9 a missing range":       {`{"uri":"mem://desk/ext/gone","position":1,"size":2}`, fault.NotFound, "gone does not exist"},
		"EXT-9 a short object":        {`{"uri":"mem://desk/ext/a","position":1000,"size":25}`, fault.Invalid, "blob: column b, row 1: mem://desk/ext/a has 1024 bytes; [1000, 1025) is not all there (EXT-9)"},
		"EXT-9 a range far beyond":    {`{"uri":"mem://desk/ext/a","position":18446744073709551000,"size":25}`, fault.Invalid, "has no byte 18446744073709551000"},
		"EXT-9 a large short object":  {fmt.Sprintf(`{"uri":"mem://desk/ext/large","position":1,"size":%d}`, 9<<20), fault.Invalid, "is not all there"},
		"EXT-9 more than memory has":  {fmt.Sprintf(`{"uri":"mem://desk/ext/a","position":0,"size":%d}`, uint64(math.MaxInt64)), fault.Invalid, "mem://desk/ext/a has 1024 bytes"},
		"a place outside":             {`{"uri":"file:///etc/passwd"}`, fault.Denied, "--external"},
		"EXT-7 a relative path":       {`{"uri":"ext/a"}`, fault.Invalid, "is not an absolute URI"},
		"EXT-7 a URI without objects": {`{"uri":"mem://desk"}`, fault.Invalid, "names no object"},
	} {
		for where, inline := range map[string]uint64{"inline": 1 << 40, "outside": 0} {
			t.Run(name+" "+where, func(t *testing.T) {
				t.Parallel()
				d, _ := mixed(t)
				before := d.tree()
				s := tableOf(t, limited("b", inline, 1<<62, 1<<62))
				if where == "outside" {
					s = tableOf(t, limited("b", 0, 10, 1<<40))
				}
				_, err := d.place(s, batchOf(t, rowsOf("b", dataJSON(11, 1), c.value), blobField("b", whole)))
				if err == nil { // found out beside what followed
					err = d.open().Commit(t.Context())
				}
				var bad *InputError
				if !errors.As(err, &bad) || bad.Row != 1 || fault.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.want) {
					t.Errorf("got %v, want %s", err, c.want)
				}
				d.open().Abort(t.Context())
				if diff := cmp.Diff(before, d.tree()); diff != "" {
					t.Errorf("WRT-9: %s", diff)
				}
			})
		}
	}
	t.Run("EXT-9 not with references outside", func(t *testing.T) {
		_, err := NewPlacer(t.Context(), Policy{URIs: URIPolicy{Mode: Ingest, AllowOutside: true}}, &Owner{}, &dataFile{})
		if fault.KindOf(err) != fault.Invalid || err == nil || !strings.Contains(err.Error(), "allow_outside_bases") {
			t.Error(err)
		}
	})
	t.Run("modes have names", func(t *testing.T) {
		for text, want := range map[string]Mode{"": Reference, "reference": Reference, "ingest": Ingest} {
			if got, err := ParseMode(text); err != nil || got != want {
				t.Errorf("%q: %v, %v", text, got, err)
			}
		}
		if _, err := ParseMode("copy"); fault.KindOf(err) != fault.Invalid {
			t.Error(err)
		}
	})
}
