package objstore_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
)

// What the reference, pylance 14.0.2, opened for External URIs that it stored,
// measured on files of these names.
func TestLocateFileURIs(t *testing.T) {
	t.Parallel()
	r := objstore.NewRegistry(objstore.Options{})
	for _, test := range []struct{ uri, path string }{
		{"file:///r/plain", "/r/plain"},
		{"FILE:///r/plain", "/r/plain"},
		{"file://localhost/r/plain", "/r/plain"},
		{"file:/r/plain", "/r/plain"},
		{"file:///r/a b", "/r/a b"},
		{"file:///r/a%20b", "/r/a b"},
		{"file:///r/a%2520b", "/r/a%20b"},
		{"file:///r/é", "/r/é"},
		{"file:///r/%C3%A9", "/r/é"},
		{"file:///r/a#b", "/r/a"},
		{"file:///r/a%23b", "/r/a#b"},
		{"file:///r/a?b", "/r/a"},
		{"file:///r/a%3Fb", "/r/a?b"},
		{"file:///r/a?b#c", "/r/a"},
		{"file:///r/a%25b", "/r/a%b"},
		{"file:///r/a%41", "/r/aA"},
		{"file:///r/a%2541", "/r/a%41"},
		{`file:///r/a\b`, "/r/a/b"},
		{"file:///r/a%5Cb", `/r/a\b`},
		{"file:///r/d/../plain", "/r/plain"},
		{"file:///r/d/%2e%2e/plain", "/r/plain"},
		{"file:///r/d/.%2E/plain", "/r/plain"},
		{"file:///../../r/./plain", "/r/plain"},
		{"file:///r/d//x", "/r/d/x"},
		{"file:///r/d%2Fx", "/r/d/x"},
		{"file:///r/x%zz", "/r/x%zz"},
		{"file:///r/x%4", "/r/x%4"},
		{"file:///r/a+b", "/r/a+b"},
		{"file:///r/a%7Bb", "/r/a{b"},
		{"file:///r/plain/", "/r/plain"},
		{"file:///", "/"},
	} {
		t.Run("EXT-6 "+test.uri, func(t *testing.T) {
			loc, err := r.Locate(t.Context(), test.uri)
			if err != nil {
				t.Fatal(err)
			}
			if loc.Path != test.path || loc.String() != test.path {
				t.Errorf("names %q, want %q", loc.Path, test.path)
			}
		})
	}
}

func TestLocatePlainPaths(t *testing.T) {
	t.Parallel()
	r := objstore.NewRegistry(objstore.Options{})
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ uri, path string }{
		{"/r/a%20b", "/r/a%20b"}, // literal
		{"/r/a#b?c", "/r/a#b?c"},
		{"/r//d/./../x/", "/r/x"},
		{"warehouse", filepath.Join(wd, "warehouse")},
		{"./a/../b", filepath.Join(wd, "b")},
		{"c:/x", filepath.Join(wd, "c:/x")},
		{"1://x", filepath.Join(wd, "1:/x")},
	} {
		loc, err := r.Locate(t.Context(), test.uri)
		if err != nil || loc.Path != test.path {
			t.Errorf("%s: %q, %v; want %q", test.uri, loc.Path, err, test.path)
		}
	}
}

func TestLocateBuckets(t *testing.T) {
	t.Parallel()
	r := objstore.NewRegistry(objstore.Options{})
	for _, test := range []struct{ uri, path, printed string }{
		{"mem://m/a/b", "a/b", "mem://m/a/b"},
		{"MEM://m/a/b/", "a/b", "mem://m/a/b"},
		{"mem://m", "", "mem://m/"},
		{"mem://m/", "", "mem://m/"},
		{"mem://m/a%20b%25?x#y", "a b%", "mem://m/a%20b%25"},
		{"mem://m/a/../b", "b", "mem://m/b"},
		{`mem://m/a\b`, `a\b`, "mem://m/a%5Cb"},
		{"mem://m/a/..", "", "mem://m/"},
	} {
		loc, err := r.Locate(t.Context(), test.uri)
		if err != nil || loc.Path != test.path || loc.String() != test.printed {
			t.Errorf("%s: %q, %s, %v; want %q, %s", test.uri, loc.Path, loc, err, test.path, test.printed)
		}
	}
}

func TestLocateRefuses(t *testing.T) {
	t.Parallel()
	r := objstore.NewRegistry(objstore.Options{})
	for _, test := range []struct{ uri, text string }{
		{"", "empty URI"},
		{"ftp://h/x", `unknown scheme "ftp" in "ftp://h/x"; known: file, mem`},
		{"http://h/x?sig=hunter2#hunter2", `unknown scheme "http" in "http://h/x"`},
		{"ftp://user:hunter2@h/x?hunter2", `bucket name in "ftp://h/x" may hold letters`},
		{"mem://user:hunter2@m/x", "may hold letters"},
		{"mem://m:80/x", "may hold letters"},
		{"mem://m%2F/x", "may hold letters"},
		{"mem://m//x", "empty path component"},
		{"mem://m/a//x", "empty path component"},
		{"mem://m/a%2F..%2Fb", "behind escapes"},
		{"mem://m/%FF", "not UTF-8"},
		{"mem://m/a%00b", "zero byte"},
		{"file:///r/d%2F..%2Fplain", "behind escapes"},
		{"file:///r/%2e%2e%2fx", "behind escapes"},
		{"file:///r/%FF", "not UTF-8"},
		{"file:///r/a%00b", "zero byte"},
		{"file://host/r", "names a host"},
		{"file://", "no absolute path"},
		{"/a\x00b", "zero byte"},
		{"ftp://" + strings.Repeat("é", 1000), "may hold letters"},
	} {
		_, err := r.Locate(t.Context(), test.uri)
		if fault.KindOf(err) != fault.Invalid || err == nil {
			t.Errorf("%s: %v, want invalid", test.uri, err)
			continue
		}
		text := err.Error()
		if !strings.Contains(text, test.text) || strings.Contains(text, "hunter2") || len(text) > 2048 {
			t.Errorf("%s: %s, want %q", test.uri, text, test.text)
		}
	}
}

func TestAbsoluteURI(t *testing.T) {
	t.Parallel()
	r := objstore.NewRegistry(objstore.Options{})
	for in, want := range map[string]string{
		"/r/plain":        "file:///r/plain",
		"/r/a b":          "file:///r/a%20b",
		"/r/é":            "file:///r/%C3%A9",
		"/r/a#b?c%d":      "file:///r/a%23b%3Fc%25d",
		`/r/a\b`:          "file:///r/a%5Cb",
		"/r/a^b|c~d[e]*'": "file:///r/a^b|c~d[e]*'",
		"/r/{<\"`>}":      "file:///r/%7B%3C%22%60%3E%7D",
		"mem://m/a b":     "mem://m/a%20b",
	} {
		t.Run("EXT-6 "+want, func(t *testing.T) {
			loc, err := r.Locate(t.Context(), in)
			if err != nil {
				t.Fatal(err)
			}
			if got := loc.AbsoluteURI(); got != want {
				t.Errorf("got %s", got)
			}
			back, err := r.Locate(t.Context(), want)
			if err != nil || back != loc {
				t.Errorf("reads back as %q, %v", back.Path, err)
			}
		})
	}
	if got := (objstore.Location{}).AbsoluteURI(); got != "" {
		t.Errorf("nowhere prints as %q", got)
	}
}

func FuzzLocate(f *testing.F) {
	for _, s := range []string{"file:///a/%2e%2e/b", "s3://b/k", "mem://m/a%2Fb?c", "a/../b", "FILE:x", "mem://m/%", "://", "mem://m/a/.%2e"} {
		f.Add(s)
	}
	r := objstore.NewRegistry(objstore.Options{})
	f.Fuzz(func(t *testing.T, uri string) {
		loc, err := r.Locate(t.Context(), uri)
		if err != nil {
			if fault.KindOf(err) != fault.Invalid && fault.KindOf(err) != fault.Exhausted {
				t.Fatalf("%q: %v", uri, err)
			}
			return
		}
		for part := range strings.SplitSeq(loc.Path, "/") {
			if part == "." || part == ".." {
				t.Fatalf("%q names %q", uri, loc.Path)
			}
		}
		if !utf8.ValidString(loc.Path) { // a local name that no URI can hold
			return
		}
		if back, err := r.Locate(t.Context(), loc.AbsoluteURI()); err != nil || back != loc {
			t.Fatalf("%q names %q, which prints as %q and reads back as %q, %v", uri, loc.Path, loc.AbsoluteURI(), back.Path, err)
		}
	})
}

// TestNormalURI holds what pylance 14.0.2 stored for the same URIs.
func TestNormalURI(t *testing.T) {
	t.Parallel()
	normal := map[string]string{
		"file:///x/a b":      "file:///x/a%20b",
		"file:///x/a%20b":    "file:///x/a%20b",
		"file:///x/%41":      "file:///x/%41",
		"file:///x/é":        "file:///x/%C3%A9",
		"file:///x/a#f":      "file:///x/a#f",
		"file:///x/a?q=1":    "file:///x/a?q=1",
		"file:///x/a%23b":    "file:///x/a%23b",
		"file:///x/../y":     "file:///y",
		"file:///x/./y":      "file:///x/y",
		"file:///x/%2e%2e/y": "file:///y",
		"file:///x//y":       "file:///x//y",
		"file:///x/y/":       "file:///x/y/",
		"FILE:///x/y":        "file:///x/y",
		"file:/x/y":          "file:///x/y",
		"file://localhost/x": "file:///x",
		"s3://b/k":           "s3://b/k",
		"S3://B/K":           "s3://B/K",
		"s3://b/a b":         "s3://b/a%20b",
		"s3://b/a%2Fb":       "s3://b/a%2Fb",
		"s3://b/../c":        "s3://b/c",
		"s3://b/é":           "s3://b/%C3%A9",
		"s3://b/k?v=1#f":     "s3://b/k?v=1#f",
		`file:///x/a\b`:      "file:///x/a/b",
		`s3://b/a\b`:         `s3://b/a\b`,
		"file:///x/a\"b<c>d`e{f}g|h^i[j]k~l!m'n(o)p*q;r:s@t&u=v+w$x,y": "file:///x/a%22b%3Cc%3Ed%60e%7Bf%7Dg|h^i[j]k~l!m'n(o)p*q;r:s@t&u=v+w$x,y",
		"s3://b/a\"b<c>d`e{f}g|h^i[j]k~":                               "s3://b/a%22b%3Cc%3Ed%60e%7Bf%7Dg|h^i[j]k~",
		"file:///x/%zz":                                                "file:///x/%zz",
		"file:///x/%":                                                  "file:///x/%",
		"file:///x/a\tb":                                               "file:///x/ab",
		"file:///x/a\nb":                                               "file:///x/ab",
		" file:///x/y ":                                                "file:///x/y",
		"file:///c:/x":                                                 "file:///c:/x",
		"file:///x/a%2fb":                                              "file:///x/a%2fb",
		"file:///%78/y":                                                "file:///%78/y",
	}
	for uri, want := range normal {
		t.Run("EXT-6 "+uri, func(t *testing.T) {
			got, err := objstore.NormalURI(uri)
			if err != nil || got != want {
				t.Fatalf("%q, %v; want %q", got, err, want)
			}
			if again, err := objstore.NormalURI(got); err != nil || again != got {
				t.Errorf("%q is normal, but becomes %q, %v", got, again, err)
			}
		})
	}
	for uri, want := range map[string]string{
		"/x/y": "is not an absolute URI", "x/y": "is not an absolute URI", "": "is not an absolute URI",
		"s3://b": "names no object", "s3://b/": "names no object", "file:///": "names no object",
		"file://host/x": "names a host", "s3://user:pw@b/k": "bucket name", "s3://b/a//b": "empty path component",
		"file:///x/a%00b": "zero byte", "file:///x/%FF": "not UTF-8",
	} {
		t.Run("EXT-7 "+uri, func(t *testing.T) {
			if got, err := objstore.NormalURI(uri); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "pw@") {
				t.Errorf("%q, %v; want %q", got, err, want)
			}
		})
	}
}

func TestBelow(t *testing.T) {
	t.Parallel()
	type answer struct {
		Rest  string
		Depth int
		OK    bool
	}
	for _, c := range []struct {
		uri, folder string
		want        answer
	}{
		{"/b/x", "/b", answer{"x", 1, true}},
		{"file:///b/x", "/b", answer{"x", 1, true}},
		{"/b/x", "file:///b", answer{"x", 1, true}},
		{"file:///b/sub%20dir/%C3%A9%23.bin", "/b", answer{"sub dir/é#.bin", 1, true}},
		{"file:///b2/x", "/b", answer{}},
		{"file:///b", "/b", answer{}},
		{"file:///b/", "/b", answer{}},
		{"/b/../c/x", "/b", answer{}},
		{"file:///b/%2e%2e/x", "/b", answer{}},
		{"/b//x", "/b/", answer{"x", 1, true}},
		{"/b/x", "/", answer{"b/x", 0, true}},
		{"s3://b/k/a%20b", "s3://b/k", answer{"a b", 1, true}},
		{"s3://b/k/x", "s3://b", answer{"k/x", 0, true}},
		{"s3://b/k", "s3://b/k", answer{}},
		{"s3://B/k/x", "s3://b/k", answer{}},
		{"gs://b/k/x", "s3://b/k", answer{}},
		{"/b/a%20b", "/b", answer{"a%20b", 1, true}},
		{"/b/a?b#c", "/b", answer{"a?b#c", 1, true}},
		{"file:///b/a?b", "/b", answer{"a", 1, true}},
		{`file:///b/a\b`, "/b", answer{"a/b", 1, true}},
		{"file:///b/sub%20dir/x", "/b/sub%20dir", answer{}},
		{"file:///b/sub%20dir/x", "/b/sub dir", answer{"x", 2, true}},
		{"file:///b/sub%20dir/x", "file:///b/sub%20dir", answer{"x", 2, true}},
	} {
		t.Run(fmt.Sprintf("EXT-3 EXT-5 %s in %s", c.uri, c.folder), func(t *testing.T) {
			rest, depth, ok, err := objstore.Below(c.uri, c.folder)
			if got := (answer{rest, depth, ok}); err != nil || got != c.want {
				t.Errorf("%v, %v; want %v", got, err, c.want)
			}
		})
	}
}
