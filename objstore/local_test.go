package objstore

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/flightblob/flightblob/internal/fault"
)

func write(t *testing.T, path string, data string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(data), 0o644); err != nil {
		t.Fatal(err)
	}
}

func replace(t *testing.T, path string, data string) {
	t.Helper()
	write(t, path+".tmp", data)
	if err := os.Rename(path+".tmp", path); err != nil {
		t.Fatal(err)
	}
}

// openFDs counts this process's descriptors of files below dir.
func openFDs(t *testing.T, dir string) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skipf("no /proc to count descriptors: %v", err)
	}
	n := 0
	for _, e := range entries {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && pathWithin(to, dir) {
			n++
		}
	}
	return n
}

func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestLocalReplacedFiles(t *testing.T) {
	t.Parallel()
	path := filepath.Join(tempDir(t), "ref.json")
	l := NewLocal(LocalOptions{})
	loc := Location{Store: l, Path: path}
	guarded := Guard(loc, NewAccess(filepath.Dir(path)))
	for i, data := range []string{"one", "three", "two", "", "once more"} {
		replace(t, path, data)
		for _, at := range []Location{loc, guarded} {
			if got, err := ReadAll(t.Context(), at, 100); err != nil || string(got) != data {
				t.Errorf("version %d: read %q, %v; want %q", i, got, err, data)
			}
			if n, err := at.Size(t.Context()); err != nil || n != int64(len(data)) {
				t.Errorf("version %d: size %d, %v", i, n, err)
			}
			p := make([]byte, len(data))
			if err := at.ReadAt(t.Context(), p, 0); err != nil || string(p) != data {
				t.Errorf("version %d: read %q, %v", i, p, err)
			}
			m, err := at.Map(t.Context())
			if err != nil || string(m.Bytes()) != data {
				t.Errorf("version %d: mapped %q, %v", i, m.Bytes(), err)
			}
			m.Release()
		}
	}
	write(t, path, "in place") // the same inode with another length
	if got, err := ReadAll(t.Context(), loc, 100); err != nil || string(got) != "in place" {
		t.Errorf("in place: read %q, %v", got, err)
	}
	if m, err := loc.Map(t.Context()); err != nil || string(m.Bytes()) != "in place" {
		t.Errorf("in place: mapped %v", err)
	} else {
		m.Release()
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := loc.ReadAt(t.Context(), make([]byte, 1), 0); fault.KindOf(err) != fault.NotFound {
		t.Errorf("removed: %v, want not found", err)
	}
	if _, err := loc.Map(t.Context()); fault.KindOf(err) != fault.NotFound {
		t.Errorf("removed: %v, want not found", err)
	}
	if n := openFDs(t, filepath.Dir(path)); n != 0 {
		t.Errorf("%d descriptors of a removed file", n)
	}
}

func TestLocalTruncated(t *testing.T) {
	t.Parallel()
	path := filepath.Join(tempDir(t), "x")
	write(t, path, "0123456789")
	loc := Location{Store: NewLocal(LocalOptions{}), Path: path}
	p := make([]byte, 4)
	if err := loc.ReadAt(t.Context(), p, 6); err != nil || string(p) != "6789" {
		t.Fatalf("before: %q, %v", p, err)
	}
	if err := os.Truncate(path, 7); err != nil {
		t.Fatal(err)
	}
	t.Run("ERR-16 truncated file", func(t *testing.T) {
		err := loc.ReadAt(t.Context(), p, 6)
		want := path + " at byte 6: objstore: 4 bytes wanted, but the object ends at byte 7"
		if fault.KindOf(err) != fault.Corrupt || err.Error() != want {
			t.Errorf("got %v\nwant %s", err, want)
		}
	})
	if err := loc.ReadAt(t.Context(), p[:1], 6); err != nil || p[0] != '6' {
		t.Errorf("what is left: %q, %v", p[0], err)
	}
}

func TestLocalDescriptorCache(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	l := NewLocal(LocalOptions{OpenFiles: 3})
	for i := range 20 {
		path := filepath.Join(dir, fmt.Sprint(i))
		write(t, path, "x")
		for range 2 {
			if err := l.ReadAt(t.Context(), path, make([]byte, 1), 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := openFDs(t, dir); n != 3 {
		t.Errorf("%d descriptors are open, want 3", n)
	}
	// A held descriptor outlives its eviction, and closes on its last release.
	held, err := l.acquire(filepath.Join(dir, "0"), everything)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if n := openFDs(t, dir); n != 1 {
		t.Errorf("%d descriptors are open, want the held one", n)
	}
	p := make([]byte, 1)
	if err := held.readFull(t.Context(), p, 0); err != nil || p[0] != 'x' {
		t.Errorf("read through the held descriptor: %q, %v", p, err)
	}
	held.release()
	if n := openFDs(t, dir); n != 0 {
		t.Errorf("%d descriptors are open, want none", n)
	}
}

func TestLocalIdleDescriptorsClose(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	l := NewLocal(LocalOptions{})
	for _, name := range []string{"old", "new"} {
		path := filepath.Join(dir, name)
		write(t, path, "x")
		m, err := l.Map(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		m.Release()
		if name == "old" {
			l.files.order.Front().Value.(*openFile).used = time.Now().Add(-2 * idleLimit)
			l.maps.order.Front().Value.(*fileMapping).used = time.Now().Add(-2 * idleLimit)
		}
	}
	if n, m := l.files.order.Len(), l.maps.order.Len(); n != 1 || m != 1 {
		t.Errorf("%d descriptors and %d mappings are cached, want the new ones", n, m)
	}
}

// TestLocalConcurrentEviction reads, maps, replaces and evicts all at once;
// every object holds one repeated byte, so a descriptor that was closed too
// early and reused for another file shows as foreign bytes.
func TestLocalConcurrentEviction(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	l := NewLocal(LocalOptions{OpenFiles: 2, Mappings: 2, MappedBytes: 3 * 4096})
	a := NewAccess(dir)
	path := func(i int) string { return filepath.Join(dir, fmt.Sprint(i)) }
	content := func(i int) string { return string(bytes.Repeat([]byte{byte('a' + i)}, 4096)) }
	for i := range 8 {
		write(t, path(i), content(i))
	}
	var wg sync.WaitGroup
	for g := range 6 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 1))
			store := Guard(Location{Store: l}, a).Store
			var held []Mapping
			var whose []int
			for round := range 300 {
				i := r.IntN(8)
				p := make([]byte, 1+r.IntN(4096))
				if err := store.ReadAt(t.Context(), path(i), p, int64(4096-len(p))); err != nil {
					t.Error(err)
					return
				}
				if want := content(i)[:len(p)]; string(p) != want {
					t.Errorf("object %d holds %q…", i, p[0])
					return
				}
				if m, err := store.(Mapper).Map(t.Context(), path(i)); err != nil {
					t.Error(err)
				} else {
					held, whose = append(held, m), append(whose, i)
				}
				if len(held) == 5 || round == 299 {
					for n, m := range held {
						if string(m.Bytes()) != content(whose[n]) {
							t.Errorf("mapping of object %d holds %q…", whose[n], m.Bytes()[0])
						}
						m.Release()
					}
					held, whose = nil, nil
				}
				switch {
				case g == 0 && round%10 == 0:
					replace(t, path(i), content(i))
				case g == 1 && round%25 == 0:
					_ = l.Close()
				}
			}
		})
	}
	wg.Wait()
	_ = l.Close()
	if n := openFDs(t, dir); n != 0 {
		t.Errorf("%d descriptors are left open", n)
	}
}

func TestMappingLifetime(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	path := filepath.Join(dir, "x")
	write(t, path, "0123456789")
	l := NewLocal(LocalOptions{})
	first, err := l.Map(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	second, err := l.Map(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if &first.Bytes()[0] != &second.Bytes()[0] {
		t.Error("two streams do not share the mapping")
	}
	second.Release()
	// Neither eviction nor removal takes the bytes from who still holds them.
	_ = l.Close()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	first.Retain()
	first.Release()
	if got := string(first.Bytes()); got != "0123456789" {
		t.Errorf("the mapping holds %q", got)
	}
	if n := mappedFiles(t, dir); n != 1 {
		t.Errorf("%d mappings, want 1", n)
	}
	first.Release()
	if n := mappedFiles(t, dir); n != 0 {
		t.Errorf("%d mappings after the last release, want none", n)
	}
	// Each of them shows without help of the other: neither changes the count.
	for range 2 {
		for name, misuse := range map[string]func(){"Release": first.Release, "Retain": first.Retain} {
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%s after the last release went unseen", name)
					}
				}()
				misuse()
			}()
		}
	}
}

func mappedFiles(t *testing.T, dir string) int {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Skipf("no /proc to count mappings: %v", err)
	}
	return bytes.Count(maps, []byte(dir+"/"))
}

func TestMappingCacheBounds(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	l := NewLocal(LocalOptions{Mappings: 4, MappedBytes: 10000})
	put := func(name string, n int) {
		path := filepath.Join(dir, name)
		write(t, path, string(make([]byte, n)))
		m, err := l.Map(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		if len(m.Bytes()) != n {
			t.Errorf("%s: %d bytes, want %d", name, len(m.Bytes()), n)
		}
		m.Release()
	}
	for i := range 6 {
		put(fmt.Sprint("small", i), 100)
	}
	if n := mappedFiles(t, dir); n != 4 || l.maps.bytes != 400 {
		t.Errorf("%d mappings of %d bytes, want 4 of 400", n, l.maps.bytes)
	}
	put("a", 6000)
	put("b", 6000)
	if n := mappedFiles(t, dir); n != 1 || l.maps.bytes != 6000 {
		t.Errorf("%d mappings of %d bytes, want 1 of 6000", n, l.maps.bytes)
	}
	put("huge", 10001)
	if n := mappedFiles(t, dir); n != 1 || l.maps.bytes != 6000 {
		t.Errorf("%d mappings of %d bytes, want the huge one gone", n, l.maps.bytes)
	}
	_ = l.Close()
	if n := mappedFiles(t, dir); n != 0 || l.maps.bytes != 0 {
		t.Errorf("%d mappings of %d bytes after close", n, l.maps.bytes)
	}
}

func TestLocalSpecialFiles(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	fifo := filepath.Join(dir, "fifo")
	if err := unix.Mkfifo(fifo, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o755); err != nil {
		t.Fatal(err)
	}
	l := NewLocal(LocalOptions{})
	for path, want := range map[string]fault.Kind{
		fifo:                          fault.Denied,
		"/dev/null":                   fault.Denied,
		"/dev/zero":                   fault.Denied,
		filepath.Join(dir, "folder"):  fault.NotFound,
		"relative":                    fault.Invalid,
		"":                            fault.Invalid,
		dir + "/../x":                 fault.Invalid,
		dir + "/a\x00b":               fault.Invalid,
		dir + "/" + longName:          fault.NotFound,
		filepath.Join(fifo, "beyond"): fault.NotFound,
	} {
		// A reader that opened the pipe would wait for ever.
		_, sizeErr := l.Size(t.Context(), path)
		_, mapErr := l.Map(t.Context(), path)
		for _, err := range []error{l.ReadAt(t.Context(), path, make([]byte, 1), 0), sizeErr, mapErr} {
			if err == nil || fault.KindOf(err) != want {
				t.Errorf("%q: %v, want %s", path, err, want)
			}
		}
	}
	for e, err := range l.List(t.Context(), dir) {
		t.Errorf("listed %+v, %v; neither pipes nor empty folders are children", e, err)
	}
	for _, err := range l.List(t.Context(), "relative") {
		if fault.KindOf(err) != fault.Invalid {
			t.Errorf("list of a relative path: %v", err)
		}
	}
}

var longName = string(bytes.Repeat([]byte("n"), 300))

func TestLocalLinkLoop(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	if err := os.Symlink("loop", filepath.Join(dir, "loop")); err != nil {
		t.Fatal(err)
	}
	l := NewLocal(LocalOptions{})
	loc := Guard(Location{Store: l, Path: dir}, NewAccess(dir))
	if _, err := loc.Join("loop/x").Size(t.Context()); err == nil || fault.KindOf(err) != fault.Invalid {
		t.Errorf("%v, want invalid", err)
	}
}

func TestFileErrors(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err  error
		want fault.Kind
	}{
		{unix.ENOENT, fault.NotFound},
		{unix.ENOTDIR, fault.NotFound},
		{unix.EACCES, fault.Denied},
		{unix.EMFILE, fault.Exhausted},
		{unix.EIO, fault.Internal},
		{&os.PathError{Op: "readdirent", Path: "/proc/self/fd/7", Err: unix.EACCES}, fault.Denied},
	} {
		err := fileError("open", "/a/b", test.err)
		if fault.KindOf(err) != test.want || bytes.Contains([]byte(err.Error()), []byte("/proc")) {
			t.Errorf("%v became %v, want %s", test.err, err, test.want)
		}
		if test.want == fault.Internal && !errors.Is(err, unix.EIO) {
			t.Errorf("%v lost its cause", err)
		}
	}
}

func BenchmarkLocalReadAt(b *testing.B) {
	path := filepath.Join(b.TempDir(), "x")
	if err := os.WriteFile(path, make([]byte, 1<<20), 0o644); err != nil {
		b.Fatal(err)
	}
	dir := filepath.Dir(path)
	l := NewLocal(LocalOptions{})
	plain := Location{Store: l, Path: path}
	for name, at := range map[string]Location{
		"plain":   plain,
		"guarded": Guard(plain, NewAccess(dir)),
		"counted": Guard(Location{Store: Counted(l, NewCounter(CounterOptions{})), Path: path}, NewAccess(dir)),
	} {
		b.Run(name, func(b *testing.B) {
			p := make([]byte, 512)
			for b.Loop() {
				if err := at.ReadAt(b.Context(), p, 4096); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestWithoutProc covers the way that systems without /proc go: resolve by
// name, then make sure that the same file is opened.
func TestWithoutProc(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	x, link := filepath.Join(dir, "x"), filepath.Join(dir, "link")
	write(t, x, "x")
	if err := os.Symlink("x", link); err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Stat(link, &st); err != nil {
		t.Fatal(err)
	}
	real, err := resolvedSame(link, &st)
	if err != nil || real != x {
		t.Fatalf("resolved to %q, %v", real, err)
	}
	fd, err := openSame(real, unix.O_RDONLY|unix.O_CLOEXEC, &st)
	if err != nil {
		t.Fatal(err)
	}
	_ = unix.Close(fd)
	if _, err := openSame(link, unix.O_RDONLY|unix.O_CLOEXEC, &st); !errors.Is(err, unix.ELOOP) {
		t.Errorf("opened through a link: %v", err)
	}
	write(t, filepath.Join(dir, "y"), "y")
	if err := os.Rename(filepath.Join(dir, "y"), x); err != nil {
		t.Fatal(err)
	}
	if _, err := resolvedSame(link, &st); fault.KindOf(err) != fault.Conflict {
		t.Errorf("another file resolved: %v, want conflict", err)
	}
	if _, err := openSame(x, unix.O_RDONLY|unix.O_CLOEXEC, &st); fault.KindOf(err) != fault.Conflict {
		t.Errorf("another file opened: %v, want conflict", err)
	}
	if _, err := resolvedSame(filepath.Join(dir, "gone"), &st); !errors.Is(err, unix.ENOENT) {
		t.Errorf("absent: %v", err)
	}
}
