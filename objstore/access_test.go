package objstore_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
)

// calls are all ways to touch an object through a location.
var calls = map[string]func(ctx context.Context, l objstore.Location) error{
	"read":       func(ctx context.Context, l objstore.Location) error { return l.ReadAt(ctx, make([]byte, 1), 0) },
	"empty read": func(ctx context.Context, l objstore.Location) error { return l.ReadAt(ctx, nil, 0) },
	"size":       func(ctx context.Context, l objstore.Location) error { _, err := l.Size(ctx); return err },
	"all": func(ctx context.Context, l objstore.Location) error {
		_, err := objstore.ReadAll(ctx, l, 1<<20)
		return err
	},
	"map": func(ctx context.Context, l objstore.Location) error {
		m, err := l.Map(ctx)
		if err == nil {
			m.Release()
		}
		return err
	},
	"list": func(ctx context.Context, l objstore.Location) error {
		for _, err := range l.List(ctx) {
			return err
		}
		return nil
	},
}

func symlink(t *testing.T, to, at string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(to, at); err != nil {
		t.Fatal(err)
	}
}

func TestGuardLocal(t *testing.T) {
	t.Parallel()
	dir := realTempDir(t)
	at := func(path string) string { return filepath.Join(dir, path) }
	for _, name := range []string{"root/x", "root/d/y", "root2/z", "other/secret", "other/d/deep", "one/file", "one/file2"} {
		writeFile(t, at(name), []byte(name))
	}
	symlink(t, "d/y", at("root/inside"))
	symlink(t, at("other/secret"), at("root/escape"))
	symlink(t, "../other", at("root/out"))
	symlink(t, "escape", at("root/chain"))
	symlink(t, at("other/gone"), at("root/dangling"))
	symlink(t, at("root"), at("alias"))
	symlink(t, at("other"), at("link-root"))

	for _, test := range []struct {
		name     string
		prefixes []string
		allowed  []string
		denied   []string
	}{
		{
			"root",
			[]string{at("root")},
			[]string{"root/x", "root/d/y", "root/inside", "alias/x", "alias/d/y"},
			[]string{
				"root2/z", "other/secret", "root/escape", "root/out/secret", "root/out/d/deep", "root/chain",
				"other/absent", "root/out/absent", "alias/escape", "nowhere/x", "link-root/secret",
			},
		},
		{"URI", []string{"file://" + at("root/d")}, []string{"root/d/y", "root/inside"}, []string{"root/x", "other/secret"}},
		{"trailing slash", []string{at("root") + "/"}, []string{"root/x"}, []string{"root2/z"}},
		{"a link as prefix", []string{at("alias")}, []string{"root/x", "alias/x", "root/inside"}, []string{"root/escape", "other/secret", "root2/z"}},
		{"another link as prefix", []string{at("link-root")}, []string{"other/secret", "link-root/secret", "root/escape", "root/out/d/deep"}, []string{"root/x", "root2/z"}},
		{"a file as prefix", []string{at("one/file")}, []string{"one/file"}, []string{"one/file2", "root/x"}},
		{"two prefixes", []string{at("root2"), at("root/d")}, []string{"root2/z", "root/d/y"}, []string{"root/x"}},
		{"everything", []string{"*"}, []string{"root/x", "root/escape", "other/secret"}, nil},
		{"the top", []string{"/"}, []string{"root/x", "root/escape", "other/secret"}, nil},
		{"nothing", nil, nil, []string{"root/x", "nowhere/x"}},
		{"no URI", []string{"mem://a:b/c", ""}, nil, []string{"root/x"}},
		{"another store", []string{"mem://m/"}, nil, []string{"root/x"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			a := objstore.NewAccess(test.prefixes...)
			local := objstore.NewLocal(objstore.LocalOptions{})
			for layer, store := range map[string]objstore.Store{
				"local":   local,
				"counted": objstore.Counted(local, objstore.NewCounter(objstore.CounterOptions{})),
				"foreign": foreign{local},
			} {
				g := objstore.Guard(objstore.Location{Store: store}, a).Store
				for round := range 2 { // with cold and warm caches
					for _, path := range test.allowed {
						for name, call := range calls {
							if layer == "foreign" && name == "map" {
								continue // lends nothing
							}
							if err := call(t.Context(), objstore.Location{Store: g, Path: at(path)}); err != nil {
								t.Errorf("%s, round %d: %s %s: %v", layer, round, name, path, err)
							}
						}
					}
					for _, path := range test.denied {
						for name, call := range calls {
							if layer == "foreign" && name == "map" {
								continue
							}
							err := call(t.Context(), objstore.Location{Store: g, Path: at(path)})
							if err == nil || fault.KindOf(err) != fault.Denied || !strings.Contains(err.Error(), "--external") {
								t.Errorf("%s, round %d: %s %s: %v, want denied", layer, round, name, path, err)
							}
						}
					}
				}
			}
		})
	}
}

func TestGuardTellsNothing(t *testing.T) {
	t.Parallel()
	dir := realTempDir(t)
	writeFile(t, filepath.Join(dir, "root/x"), []byte("x"))
	writeFile(t, filepath.Join(dir, "other/there"), []byte("secret"))
	symlink(t, filepath.Join(dir, "other"), filepath.Join(dir, "root/out"))
	g := objstore.Guard(objstore.Location{Store: objstore.NewLocal(objstore.LocalOptions{}), Path: dir}, objstore.NewAccess(filepath.Join(dir, "root")))
	for name, call := range calls {
		for _, folder := range []string{"other", "root/out"} {
			there, absent := g.Join(folder, "there"), g.Join(folder, "nope!")
			a, b := call(t.Context(), there), call(t.Context(), absent)
			if a == nil || b == nil {
				t.Fatalf("%s: %v, %v", name, a, b)
			}
			if got, want := strings.ReplaceAll(b.Error(), "nope!", "there"), a.Error(); got != want {
				t.Errorf("%s: refusals differ:\n%s\n%s", name, got, want)
			}
		}
	}
	want := fmt.Sprintf("objstore: %[1]s/other/there lies outside what this server may touch; allow it with --external %[1]s/other", dir)
	if got := calls["read"](t.Context(), g.Join("other/there")).Error(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	// Where a link leads is not told either.
	if got := calls["read"](t.Context(), g.Join("root/out/there")).Error(); strings.Contains(got, dir+"/other") || !strings.Contains(got, "link") {
		t.Errorf("got %s", got)
	}
}

func TestGuardDots(t *testing.T) {
	t.Parallel()
	dir := realTempDir(t)
	writeFile(t, filepath.Join(dir, "root/x"), []byte("x"))
	writeFile(t, filepath.Join(dir, "secret"), []byte("s"))
	mem := objstore.NewMem("m")
	mem.Set("root/x", []byte("x"))
	mem.Set("secret", []byte("s"))
	mem.Set("root/../secret", []byte("s"))
	for name, l := range map[string]objstore.Location{
		"local":   objstore.Guard(objstore.Location{Store: objstore.NewLocal(objstore.LocalOptions{}), Path: dir}, objstore.NewAccess(dir+"/root")),
		"foreign": objstore.Guard(objstore.Location{Store: foreign{objstore.NewLocal(objstore.LocalOptions{})}, Path: dir}, objstore.NewAccess(dir+"/root")),
		"memory":  objstore.Guard(objstore.Location{Store: mem}, objstore.NewAccess("mem://m/root")),
	} {
		for _, path := range []string{"root/../secret", "root/../root/x", "root/./x", "root/..", "root/x/..", ".."} {
			for what, call := range calls {
				if name == "foreign" && what == "map" {
					continue
				}
				if err := call(t.Context(), l.Join(path)); err == nil {
					t.Errorf("%s: %s %s: no error", name, what, path)
				}
			}
		}
		if err := calls["read"](t.Context(), l.Join("root/x")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestGuardBuckets(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		prefix          string
		allowed, denied []string
	}{
		{"mem://m/a/b", []string{"a/b", "a/b/c", "a/b/c/d"}, []string{"a/bc", "a", "", "b"}},
		{"mem://m/a/b/", []string{"a/b", "a/b/c"}, []string{"a/bc"}},
		{"mem://m/a%20b", []string{"a b", "a b/c"}, []string{"a%20b", "a"}},
		{"mem://m", []string{"a", "x/y", ""}, nil},
		{"mem://m/", []string{"a", ""}, nil},
		{"mem://", []string{"a", ""}, nil},
		{"*", []string{"a", ""}, nil},
		{"mem://n/", nil, []string{"a", ""}},
		{"mem://mm/", nil, []string{"a", ""}},
		{"s3://m/", nil, []string{"a"}},
		{"/", nil, []string{"a"}},
	} {
		a := objstore.NewAccess(test.prefix)
		mem := objstore.NewMem("m")
		for _, path := range append(test.allowed, test.denied...) {
			mem.Set(path, []byte("x"))
		}
		g := objstore.Guard(objstore.Location{Store: mem}, a)
		for what, call := range calls {
			for _, path := range test.allowed {
				l := objstore.Location{Store: g.Store, Path: path}
				if err := call(t.Context(), l); err != nil {
					t.Errorf("%s: %s %q: %v", test.prefix, what, path, err)
				}
				if err := a.Allows(l.String()); err != nil {
					t.Errorf("%s allows %s: %v", test.prefix, l, err)
				}
			}
			for _, path := range test.denied {
				l := objstore.Location{Store: g.Store, Path: path}
				if err := call(t.Context(), l); fault.KindOf(err) != fault.Denied {
					t.Errorf("%s: %s %q: %v, want denied", test.prefix, what, path, err)
				}
				if err := a.Allows(l.String()); fault.KindOf(err) != fault.Denied {
					t.Errorf("%s allows %s: %v, want denied", test.prefix, l, err)
				}
			}
		}
	}
	for uri, want := range map[string]string{
		"mem://m/d/a b": "objstore: mem://m/d/a%20b lies outside what this server may touch; allow it with --external mem://m/d",
		"mem://m/a":     "objstore: mem://m/a lies outside what this server may touch; allow it with --external mem://m/",
		"/top":          "objstore: /top lies outside what this server may touch; allow it with --external /top",
	} {
		if err := objstore.NewAccess().Allows(uri); err == nil || err.Error() != want {
			t.Errorf("got %v\nwant %s", err, want)
		}
	}
}

func TestAccess(t *testing.T) {
	t.Parallel()
	var none *objstore.Access
	if err := none.Allows("/x"); fault.KindOf(err) != fault.Denied {
		t.Errorf("the nil access: %v, want denied", err)
	}
	a := objstore.NewAccess("/a")
	if a.With("/a", "file:///a/", "not a\x00path") != a {
		t.Error("adding nothing made another access")
	}
	b := a.With("/b")
	if err := a.Allows("/b"); fault.KindOf(err) != fault.Denied {
		t.Errorf("the smaller access grew: %v", err)
	}
	for _, path := range []string{"/a/x", "/b/x"} {
		if err := b.Allows(path); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	if err := none.With("/c").Allows("/c/d"); err != nil {
		t.Error(err)
	}
	if err := b.With("*").Allows("s3://anything/x"); err != nil {
		t.Error(err)
	}
	if err := objstore.NewAccess("*").Allows("ftp://u@h/x"); fault.KindOf(err) != fault.Invalid {
		t.Errorf("no URI: %v, want invalid", err)
	}
	for prefix, want := range map[string]bool{"*": true, "/x": true, "s3://b/p": true, "s3://": true, "": false, "s3://a:1/": false} {
		if err := objstore.CheckPrefix(prefix); (err == nil) != want {
			t.Errorf("%q: %v", prefix, err)
		}
	}
}

func TestGuardKeepsStoresComparable(t *testing.T) {
	t.Parallel()
	dir := realTempDir(t)
	writeFile(t, filepath.Join(dir, "a/x"), []byte("x"))
	writeFile(t, filepath.Join(dir, "b/x"), []byte("x"))
	r := objstore.NewRegistry(objstore.Options{Counter: objstore.NewCounter(objstore.CounterOptions{})})
	r.Mem("m").Set("a/x", []byte("x"))
	r.Mem("m").Set("b/x", []byte("x"))
	for _, root := range []string{dir, "mem://m"} {
		wide, narrow := objstore.NewAccess(root), objstore.NewAccess(root+"/a")
		loc, err := r.Locate(t.Context(), root)
		if err != nil {
			t.Fatal(err)
		}
		once := objstore.Guard(loc, wide)
		if objstore.Guard(loc, wide) != once || objstore.Guard(once, wide) != once {
			t.Errorf("%s: guarding again gives another store", root)
		}
		if located, err := r.Locator(wide)(t.Context(), root); err != nil || located != once {
			t.Errorf("%s: the locator gives another store, %v", root, err)
		}
		for _, both := range []objstore.Location{objstore.Guard(once, narrow), objstore.Guard(objstore.Guard(loc, narrow), wide)} {
			if objstore.Guard(both, narrow) != both || objstore.Guard(both, wide) != both {
				t.Errorf("%s: guarding with either again gives another store", root)
			}
			for what, call := range calls {
				if err := call(t.Context(), both.Join("a/x")); err != nil {
					t.Errorf("%s: %s: %v", root, what, err)
				}
				if err := call(t.Context(), both.Join("b/x")); fault.KindOf(err) != fault.Denied {
					t.Errorf("%s: %s: %v, want denied", root, what, err)
				}
			}
		}
	}
	if objstore.Guard(objstore.Location{}, nil) != (objstore.Location{}) {
		t.Error("guarding nowhere gives a place")
	}
}

func TestLocatorRefusesWithoutOpening(t *testing.T) {
	t.Parallel()
	var opened []string
	open := func(_ context.Context, bucket string, _ *objstore.StorageOptions) (objstore.Store, error) {
		opened = append(opened, bucket)
		return objstore.NewMem(bucket), nil
	}
	r := objstore.NewRegistry(objstore.Options{Schemes: map[string]objstore.Opener{"s3": open}})
	locate := r.Locator(objstore.NewAccess("s3://mine/p"))
	for uri, want := range map[string]fault.Kind{
		"s3://theirs/x": fault.Denied,
		"s3://mine/q":   fault.Denied,
		"gs://mine/p":   fault.Invalid,
		"mem://m/x":     fault.Denied,
		"s3://a b/":     fault.Invalid,
	} {
		if _, err := locate(t.Context(), uri); err == nil || fault.KindOf(err) != want {
			t.Errorf("%s: %v, want %s", uri, err, want)
		}
	}
	if opened != nil {
		t.Errorf("opened %q", opened)
	}
	if _, err := locate(t.Context(), "s3://mine/p/x"); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"mine"}, opened); diff != "" {
		t.Error(diff)
	}
}

func TestGuardedListLeavesOutEscapes(t *testing.T) {
	t.Parallel()
	dir := realTempDir(t)
	writeFile(t, filepath.Join(dir, "root/in/x"), []byte("x"))
	writeFile(t, filepath.Join(dir, "other/x"), []byte("secret"))
	symlink(t, filepath.Join(dir, "other"), filepath.Join(dir, "root/folder"))
	symlink(t, filepath.Join(dir, "other/x"), filepath.Join(dir, "root/file"))
	symlink(t, "in", filepath.Join(dir, "root/within"))
	symlink(t, "gone", filepath.Join(dir, "root/dangling"))
	l := objstore.Location{Store: objstore.NewLocal(objstore.LocalOptions{}), Path: filepath.Join(dir, "root")}
	for name, test := range map[string]struct {
		at   objstore.Location
		want []string
	}{
		"plain":   {l, []string{"file", "folder", "in", "within"}},
		"guarded": {objstore.Guard(l, objstore.NewAccess(l.Path)), []string{"in", "within"}},
	} {
		var got []string
		for e, err := range test.at.List(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, e.Name)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
}

// TestGuardRace swaps a link between an allowed and a forbidden file while
// others read through it: they may see the one or an error, never the other.
func TestGuardRace(t *testing.T) {
	t.Parallel()
	dir := realTempDir(t)
	writeFile(t, filepath.Join(dir, "root/good"), []byte("good"))
	writeFile(t, filepath.Join(dir, "other/evil"), []byte("evil"))
	link := filepath.Join(dir, "root/x")
	g := objstore.Guard(objstore.Location{Store: objstore.NewLocal(objstore.LocalOptions{}), Path: link}, objstore.NewAccess(dir+"/root"))
	done := make(chan struct{})
	var swapper, readers sync.WaitGroup
	swapper.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
			}
			to := []string{"good", "../other/evil"}[i%2]
			next := fmt.Sprintf("%s.%d", link, i)
			if err := os.Symlink(to, next); err != nil {
				t.Error(err)
				return
			}
			if err := os.Rename(next, link); err != nil {
				t.Error(err)
				return
			}
		}
	})
	var mu sync.Mutex
	seen := map[string]int{}
	for range 4 {
		readers.Go(func() {
			for range 1000 {
				p := make([]byte, 4)
				err := g.ReadAt(t.Context(), p, 0)
				var what string
				switch {
				case err == nil:
					what = string(p)
				default:
					what = fault.KindOf(err).String()
				}
				mu.Lock()
				seen[what]++
				mu.Unlock()
				if m, err := g.Map(t.Context()); err == nil {
					if string(m.Bytes()) != "good" {
						t.Errorf("mapped %q", m.Bytes())
					}
					m.Release()
				}
			}
		})
	}
	readers.Wait()
	close(done)
	swapper.Wait()
	if seen["evil"] != 0 || seen["good"] == 0 || seen["denied"] == 0 {
		t.Errorf("seen %v, want only good and denied (and not found before the first link)", seen)
	}
}
