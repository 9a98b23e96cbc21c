package objstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/flightblob/flightblob/internal/fault"
)

// changes are the ways to change one object of a local store, from "old".
var changes = []struct {
	name  string
	path  string
	want  string // after success; "" is absent
	apply func(ctx context.Context, l *Local, path string) error
}{
	{"create", "a/b/new", strings.Repeat("new", 200_000), func(ctx context.Context, l *Local, path string) error {
		w, err := l.Create(ctx, path)
		if err != nil {
			return err
		}
		defer w.Abort()
		for range 200_000 {
			if _, err := w.Write([]byte("new")); err != nil {
				return err
			}
		}
		return w.Commit(ctx)
	}},
	{"create over", "old", "new", func(ctx context.Context, l *Local, path string) error {
		w, err := l.Create(ctx, path)
		if err != nil {
			return err
		}
		defer w.Abort()
		if _, err := w.Write([]byte("new")); err != nil {
			return err
		}
		return w.Commit(ctx)
	}},
	{"put", "a/b/new", "new", func(ctx context.Context, l *Local, path string) error {
		return l.Put(ctx, path, []byte("new"))
	}},
	{"put over", "old", "new", func(ctx context.Context, l *Local, path string) error {
		return l.Put(ctx, path, []byte("new"))
	}},
	{"put if absent", "a/b/new", "new", func(ctx context.Context, l *Local, path string) error {
		return l.PutIfAbsent(ctx, path, []byte("new"))
	}},
	{"copy", "a/new", "old", func(ctx context.Context, l *Local, path string) error {
		return l.CopyObject(ctx, filepath.Join(filepath.Dir(filepath.Dir(path)), "old"), path)
	}},
	{"delete", "old", "", func(ctx context.Context, l *Local, path string) error {
		return l.Delete(ctx, path)
	}},
}

// contents gives the regular files below dir; the unpredictable part of temporary names
// is cut.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		if base := filepath.Base(name); strings.HasPrefix(base, TempPrefix) {
			name = filepath.Join(filepath.Dir(name), TempPrefix)
		}
		all[name] = string(data)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestLocalWriteSteps(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"create":        "mkdir mkdir create write write write sync [reach] rename sync-folder",
		"create over":   "create write sync [reach] rename sync-folder",
		"put":           "mkdir mkdir create write sync [reach] rename sync-folder",
		"put if absent": "mkdir mkdir create write sync [reach] link sync-folder unlink",
		"copy":          "mkdir create write sync [reach] rename sync-folder",
		"delete":        "unlink sync-folder",
	} {
		if runtime.GOOS == "linux" && name == "put if absent" {
			want = strings.TrimSuffix(want, " unlink") // it had no name but the one
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := tempDir(t)
			write(t, filepath.Join(dir, "old"), "old")
			l := NewLocal(LocalOptions{})
			var steps []string
			l.step = func(op string) error {
				steps = append(steps, strings.ReplaceAll(op, " ", "-"))
				return nil
			}
			for _, c := range changes {
				if c.name != name {
					continue
				}
				if err := c.apply(t.Context(), l, filepath.Join(dir, c.path)); err != nil {
					t.Fatal(err)
				}
				// Every folder above the object's is synced before it is published.
				depth := strings.Count(filepath.Dir(filepath.Join(dir, c.path)), "/")
				reach := strings.TrimSuffix(strings.Repeat("sync-folder ", depth), " ")
				if diff := cmp.Diff(strings.ReplaceAll(want, "[reach]", reach), strings.Join(steps, " ")); diff != "" {
					t.Errorf("steps (-want +got)\n%s", diff)
				}
				// The second time they are known.
				steps = nil
				if err := l.Put(t.Context(), filepath.Join(dir, c.path), nil); err != nil {
					t.Fatal(err)
				}
				if got := strings.Join(steps, " "); name != "delete" && got != "create write sync rename sync-folder" {
					t.Errorf("steps of another put: %s", got)
				}
			}
		})
	}
}

// TestLocalWriteFailures lets each system call of each change fail in turn.
func TestLocalWriteFailures(t *testing.T) {
	t.Parallel()
	for _, c := range changes {
		for errno, kind := range map[error]fault.Kind{unix.EIO: fault.Internal, unix.ENOSPC: fault.Exhausted, unix.EDQUOT: fault.Exhausted, unix.EROFS: fault.Denied, unix.EACCES: fault.Denied} {
			t.Run(fmt.Sprintf("%s, %v", c.name, errno), func(t *testing.T) {
				t.Parallel()
				for n := 1; ; n++ {
					dir := tempDir(t)
					write(t, filepath.Join(dir, "old"), "old")
					before := contents(t, dir)
					l := NewLocal(LocalOptions{})
					count, failed := 0, ""
					l.step = func(op string) error {
						if count++; count == n {
							failed = op
							return errno
						}
						return nil
					}
					err := c.apply(t.Context(), l, filepath.Join(dir, c.path))
					got := contents(t, dir)
					if failed == "" {
						if err != nil {
							t.Fatalf("without a failure: %v", err)
						}
						return
					}
					if failed == "unlink" && c.name == "put if absent" {
						// The object is there; its temporary name stays.
						if err != nil || got[c.path] != c.want {
							t.Errorf("unlink fails: %v, %q", err, got)
						}
						continue
					}
					if err == nil {
						t.Fatalf("step %d, %s: no error", n, failed)
					}
					if !strings.Contains(err.Error(), errno.Error()) || !strings.Contains(err.Error(), filepath.Join(dir, c.path)) && !strings.Contains(err.Error(), "sync /") {
						t.Errorf("step %d, %s: the error does not say what and where: %v", n, failed, err)
					}
					if errors.Is(err, ErrUncertain) {
						if failed != "sync folder" {
							t.Errorf("step %d, %s: uncertain: %v", n, failed, err)
						}
						if got[c.path] != c.want {
							t.Errorf("step %d, %s: uncertain, and %q is there", n, failed, got)
						}
						continue
					}
					if fault.KindOf(err) != kind {
						t.Errorf("step %d, %s: %s, want %s: %v", n, failed, fault.KindOf(err), kind, err)
					}
					if c.name == "create over" && failed == "sync folder" && len(got) == 0 {
						continue // the new object was taken back, the old one was replaced before
					}
					if diff := cmp.Diff(before, got); diff != "" {
						t.Errorf("step %d, %s: files changed (-before +after)\n%s", n, failed, diff)
					}
				}
			})
		}
	}
}

// TestLocalKilled kills a process before each system call of each change: what
// it leaves is the old object or the new one, and temporary files.
func TestLocalKilled(t *testing.T) {
	t.Parallel()
	for i, c := range changes {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for n := 1; ; n++ {
				dir := tempDir(t)
				write(t, filepath.Join(dir, "old"), "old")
				killed := runChild(t, childKill, fmt.Sprint(i), fmt.Sprint(n), dir)
				got := contents(t, dir)
				if !killed {
					if diff := cmp.Diff(got[c.path], c.want); diff != "" {
						t.Errorf("not killed, but\n%s", diff)
					}
					return
				}
				for name, data := range got {
					switch {
					case filepath.Base(name) == TempPrefix:
					case name == c.path && data == c.want:
					case name == "old" && data == "old":
					default:
						t.Errorf("killed at step %d: %s holds %d bytes", n, name, len(data))
					}
				}
				// A store that starts afterwards works as if nothing had been.
				l := NewLocal(LocalOptions{})
				if err := l.Put(t.Context(), filepath.Join(dir, c.path), []byte("next")); err != nil {
					t.Errorf("after a kill at step %d: %v", n, err)
				}
			}
		})
	}
}

func TestLocalNoHardLinks(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	l := NewLocal(LocalOptions{})
	l.step = func(op string) error {
		if op == "link" {
			return unix.EPERM // what vfat and many FUSE file systems say
		}
		return nil
	}
	at := filepath.Join(dir, "x")
	if err := l.PutIfAbsent(t.Context(), at, []byte("first")); err != nil {
		t.Fatal(err)
	}
	// A rename that lost finds the name taken, like one that came too late.
	l.step = func(op string) error {
		switch op {
		case "sync":
			return os.WriteFile(filepath.Join(dir, "y"), []byte("rival"), 0o644)
		case "link":
			return unix.EPERM
		}
		return nil
	}
	if err := l.PutIfAbsent(t.Context(), filepath.Join(dir, "y"), []byte("late")); fault.KindOf(err) != fault.Exists {
		t.Errorf("%v, want already exists", err)
	}
	want := map[string]string{"x": "first", "y": "rival"}
	if diff := cmp.Diff(want, contents(t, dir)); diff != "" {
		t.Errorf("files (-want +got)\n%s", diff)
	}
}

// linkUnfinished gives the one file of a folder that is being written a name.
func linkUnfinished(dir, at string) error {
	if temps, err := filepath.Glob(filepath.Join(dir, TempPrefix+"*")); err != nil || len(temps) > 0 {
		return errors.Join(err, os.Link(temps[0], at))
	}
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, fd := range open {
		path := "/proc/self/fd/" + fd.Name()
		if to, err := os.Readlink(path); err == nil && strings.HasPrefix(to, dir+"/#") {
			return unix.Linkat(unix.AT_FDCWD, path, unix.AT_FDCWD, at, unix.AT_SYMLINK_FOLLOW)
		}
	}
	return fmt.Errorf("nothing is being written in %s", dir)
}

// TestLocalUnnamed checks that what is put if absent has no name before it is
// whole: a process that is killed leaves nothing.
func TestLocalUnnamed(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("files without a name are Linux's")
	}
	dir := tempDir(t)
	l := NewLocal(LocalOptions{})
	steps := 0
	l.step = func(op string) error {
		if op == "sync" || op == "link" {
			steps++
			if there := contents(t, dir); len(there) > 0 {
				t.Errorf("before %s: %v", op, there)
			}
		}
		return nil
	}
	if err := l.PutIfAbsent(t.Context(), filepath.Join(dir, "x"), []byte("whole")); err != nil || steps != 2 {
		t.Fatalf("%v, after %d steps", err, steps)
	}
	if diff := cmp.Diff(map[string]string{"x": "whole"}, contents(t, dir)); diff != "" {
		t.Errorf("files (-want +got)\n%s", diff)
	}
}

// TestLocalLinkAnswerLost plays a network file system that repeats a link whose
// answer got lost and reports that the name is taken: by this very file.
func TestLocalLinkAnswerLost(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	l := NewLocal(LocalOptions{})
	at := filepath.Join(dir, "x")
	l.step = func(op string) error {
		if op != "link" {
			return nil
		}
		return linkUnfinished(dir, at)
	}
	if err := l.PutIfAbsent(t.Context(), at, []byte("mine")); err != nil {
		t.Errorf("%v; the object is the one that was put", err)
	}
	if diff := cmp.Diff(map[string]string{"x": "mine"}, contents(t, dir)); diff != "" {
		t.Errorf("files (-want +got)\n%s", diff)
	}
}

// TestLocalFoldersVanish removes empty folders as fast as others make them.
func TestLocalFoldersVanish(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	l := NewLocal(LocalOptions{})
	var stop atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		for !stop.Load() {
			_ = os.Remove(filepath.Join(dir, "a", "b"))
			_ = os.Remove(filepath.Join(dir, "a"))
		}
	})
	made := 0
	for i := range 200 {
		at := filepath.Join(dir, "a", "b", fmt.Sprint(i))
		err := l.PutIfAbsent(t.Context(), at, []byte("x"))
		if err == nil {
			made++
			err = l.Delete(t.Context(), at)
		}
		if err != nil && fault.KindOf(err) != fault.Precondition {
			t.Errorf("%d: %v", i, err)
		}
	}
	stop.Store(true)
	wg.Wait()
	if made < 100 {
		t.Errorf("only %d of 200 objects were made", made)
	}
}

func TestLocalWriteNames(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	l := NewLocal(LocalOptions{})
	write(t, filepath.Join(dir, "file"), "x")
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o755); err != nil {
		t.Fatal(err)
	}
	link(t, "nowhere", filepath.Join(dir, "dangling"))
	long := strings.Repeat("n", 300)
	for name, test := range map[string]struct {
		path string
		kind fault.Kind
	}{
		"relative":                {"x", fault.Invalid},
		"dots":                    {dir + "/../x", fault.Invalid},
		"zero byte":               {dir + "/a\x00b", fault.Invalid},
		"folder's name":           {dir + "/folder/", fault.Invalid},
		"top":                     {"/", fault.Invalid},
		"below a file":            {dir + "/file/x", fault.Invalid},
		"deep below a file":       {dir + "/file/x/y/z", fault.Invalid},
		"over a folder":           {dir + "/folder", fault.Precondition},
		"too long":                {dir + "/" + long, fault.Invalid},
		"in a folder too long":    {dir + "/" + long + "/x", fault.Invalid},
		"through a dangling link": {dir + "/dangling/x", fault.Precondition},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := l.Put(t.Context(), test.path, nil)
			if fault.KindOf(err) != test.kind {
				t.Errorf("put: %v, want %s", err, test.kind)
			}
			err = l.PutIfAbsent(t.Context(), test.path, nil)
			if want := test.kind; name == "over a folder" && fault.KindOf(err) != fault.Exists || name != "over a folder" && fault.KindOf(err) != want {
				t.Errorf("put if absent: %v, want %s", err, want)
			}
		})
	}
	t.Cleanup(func() {
		if diff := cmp.Diff(map[string]string{"file": "x"}, contents(t, dir)); diff != "" {
			t.Errorf("files (-want +got)\n%s", diff)
		}
	})
}

// TestLocalPutIsAtomic reads while the object is replaced.
func TestLocalPutIsAtomic(t *testing.T) {
	t.Parallel()
	at := filepath.Join(tempDir(t), "hint")
	l := NewLocal(LocalOptions{})
	value := func(i int) []byte { return bytes.Repeat([]byte{byte('a' + i%26)}, 1+i*37%5000) }
	if err := l.Put(t.Context(), at, value(0)); err != nil {
		t.Fatal(err)
	}
	var stop atomic.Bool
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for !stop.Load() {
				got, err := l.ReadWhole(t.Context(), at, 1<<20)
				if err != nil {
					t.Errorf("read: %v", err)
					return
				}
				if len(got) == 0 || len(bytes.Trim(got, string(got[:1]))) != 0 {
					t.Errorf("read %d mixed bytes", len(got))
					return
				}
			}
		})
	}
	for i := range 300 {
		if err := l.Put(t.Context(), at, value(i)); err != nil {
			t.Fatal(err)
		}
	}
	stop.Store(true)
	wg.Wait()
}

// TestGuardedWrites lets nothing be made, replaced or removed outside, by any
// path and any link.
func TestGuardedWrites(t *testing.T) {
	t.Parallel()
	top := tempDir(t)
	for _, d := range []string{"root/d", "out/d", "real"} {
		if err := os.MkdirAll(filepath.Join(top, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(top, "out/x"), "keep")
	write(t, filepath.Join(top, "out/d/x"), "keep")
	write(t, filepath.Join(top, "root/x"), "mine")
	link(t, filepath.Join(top, "out"), filepath.Join(top, "root/leads-out"))
	link(t, filepath.Join(top, "out/x"), filepath.Join(top, "root/file-out"))
	link(t, filepath.Join(top, "root/d"), filepath.Join(top, "root/leads-in"))
	link(t, filepath.Join(top, "root"), filepath.Join(top, "alias"))
	link(t, filepath.Join(top, "real"), filepath.Join(top, "linked-root"))
	single := filepath.Join(top, "single")
	g := Guard(Location{Store: NewLocal(LocalOptions{})}, NewAccess(filepath.Join(top, "root"), filepath.Join(top, "linked-root"), single)).Store
	ctx := t.Context()
	for name, path := range map[string]string{
		"beside": "out/x", "absent beside": "out/new", "new folders beside": "out/n/e/w", "the root's name with more": "root2/x",
		"through a link": "root/leads-out/x", "new through a link": "root/leads-out/new", "new folders through a link": "root/leads-out/n/e/w",
		"beside the single object": "single2", "below the single object": "single-not/x", "above": "x",
	} {
		at := filepath.Join(top, path)
		for op, err := range map[string]error{
			"put":           g.Put(ctx, at, []byte("bad")),
			"put if absent": g.PutIfAbsent(ctx, at, []byte("bad")),
			"delete":        g.Delete(ctx, at),
			"create":        func() error { _, err := g.Create(ctx, at); return err }(),
			"copy to":       copyObject(ctx, g, filepath.Join(top, "root/x"), at),
			"copy from":     copyObject(ctx, g, at, filepath.Join(top, "root/stolen")),
		} {
			if fault.KindOf(err) != fault.Denied {
				t.Errorf("%s %s: %v, want denied", op, name, err)
			}
		}
	}
	for name, path := range map[string]string{
		"inside": "root/new", "new folders inside": "root/n/e/w", "through a link inside": "root/leads-in/new", "by another name": "alias/d/aliased",
		"a root that is a link": "linked-root/new", "where that leads": "real/direct", "the single object": "single",
	} {
		at := filepath.Join(top, path)
		if err := g.PutIfAbsent(ctx, at, []byte("good")); err != nil {
			t.Errorf("put %s: %v", name, err)
		}
	}
	// A link is an object's name like another: it is replaced or removed
	// itself, and what it leads to stays.
	if err := g.Put(ctx, filepath.Join(top, "root/file-out"), []byte("good")); err != nil {
		t.Errorf("put over a link: %v", err)
	}
	if err := g.Delete(ctx, filepath.Join(top, "root/leads-out")); err != nil {
		t.Errorf("delete a link: %v", err)
	}
	want := map[string]string{
		"out/x": "keep", "out/d/x": "keep", "root/x": "mine", "root/file-out": "good", "root/new": "good", "root/n/e/w": "good",
		"root/d/new": "good", "root/d/aliased": "good", "real/new": "good", "real/direct": "good", "single": "good",
	}
	if diff := cmp.Diff(want, contents(t, top)); diff != "" {
		t.Errorf("files (-want +got)\n%s", diff)
	}
}

// TestGuardedWriteRace swaps folders for links that lead outside, at every
// step of a write.
func TestGuardedWriteRace(t *testing.T) {
	t.Parallel()
	for _, c := range changes {
		if c.name == "copy" || strings.HasSuffix(c.name, "over") {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for n := 1; ; n++ {
				top := tempDir(t)
				for _, d := range []string{"root/a/b", "out/b"} {
					if err := os.MkdirAll(filepath.Join(top, d), 0o755); err != nil {
						t.Fatal(err)
					}
				}
				write(t, filepath.Join(top, "root/a/old"), "old")
				write(t, filepath.Join(top, "out/old"), "keep")
				l := NewLocal(LocalOptions{})
				count := 0
				l.step = func(string) error {
					if count++; count == n {
						if err := os.Rename(filepath.Join(top, "root/a"), filepath.Join(top, "root/moved")); err != nil {
							return err
						}
						return os.Symlink(filepath.Join(top, "out"), filepath.Join(top, "root/a"))
					}
					return nil
				}
				a := NewAccess(filepath.Join(top, "root"))
				g := &Local{step: l.step}
				g.files.init(1)
				err := guardedChange(t.Context(), g, a, c.name, filepath.Join(top, "root/a", c.path))
				if err != nil && fault.KindOf(err) != fault.Denied && fault.KindOf(err) != fault.Precondition {
					t.Errorf("step %d: %v", n, err)
				}
				if diff := cmp.Diff(map[string]string{"old": "keep"}, contents(t, filepath.Join(top, "out"))); diff != "" {
					t.Fatalf("step %d: outside changed (-want +got)\n%s", n, diff)
				}
				if count < n {
					return
				}
			}
		})
	}
}

func guardedChange(ctx context.Context, l *Local, a *Access, change, path string) error {
	switch change {
	case "create":
		w, err := l.create(ctx, path, a)
		if err != nil {
			return err
		}
		defer w.Abort()
		return w.Commit(ctx)
	case "put":
		return l.put(ctx, path, nil, a)
	case "put if absent":
		return l.putIfAbsent(ctx, path, nil, a)
	default:
		return l.remove(ctx, path, a)
	}
}

func link(t *testing.T, to, at string) {
	t.Helper()
	if err := os.Symlink(to, at); err != nil {
		t.Fatal(err)
	}
}

func TestLocalRemoveFolder(t *testing.T) {
	t.Parallel()
	build := func(t *testing.T) string {
		t.Helper()
		dir := tempDir(t)
		for _, d := range []string{"t/a/b", "t/empty/er", "out"} {
			if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		for _, f := range []string{"t/x", "t/a/b/y", "t/a/z", "out/keep", "beside"} {
			write(t, filepath.Join(dir, f), f)
		}
		link(t, filepath.Join(dir, "out"), filepath.Join(dir, "t/a/link"))
		link(t, filepath.Join(dir, "out/keep"), filepath.Join(dir, "t/link"))
		return dir
	}
	rest := map[string]string{"out/keep": "out/keep", "beside": "beside"}
	t.Run("all of it, and no link is followed", func(t *testing.T) {
		t.Parallel()
		dir := build(t)
		l := NewLocal(LocalOptions{})
		for _, name := range []string{"t", "t", "absent", "no/folder", "beside", "beside/below"} {
			if err := l.RemoveFolder(t.Context(), filepath.Join(dir, name)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if diff := cmp.Diff(rest, contents(t, dir)); diff != "" {
			t.Errorf("files (-want +got)\n%s", diff)
		}
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) != 2 {
			t.Errorf("%v is there, %v", entries, err)
		}
	})
	t.Run("a link itself", func(t *testing.T) {
		t.Parallel()
		dir := build(t)
		link(t, filepath.Join(dir, "t"), filepath.Join(dir, "alias"))
		want := contents(t, dir)
		if err := NewLocal(LocalOptions{}).RemoveFolder(t.Context(), filepath.Join(dir, "alias")); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, contents(t, dir)); diff != "" {
			t.Errorf("files (-want +got)\n%s", diff)
		}
		if _, err := os.Lstat(filepath.Join(dir, "alias")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the link: %v", err)
		}
	})
	t.Run("whole or gone", func(t *testing.T) {
		t.Parallel()
		for n := 1; ; n++ {
			dir := build(t)
			before := contents(t, dir)
			l := NewLocal(LocalOptions{})
			count := 0
			l.step = func(string) error {
				if count++; count == n {
					return unix.EIO
				}
				return nil
			}
			err := l.RemoveFolder(t.Context(), filepath.Join(dir, "t"))
			got := contents(t, dir)
			if count < n {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), filepath.Join(dir, "t")) {
				t.Errorf("step %d: %v", n, err)
			}
			if n == 1 {
				if diff := cmp.Diff(before, got); diff != "" {
					t.Errorf("step %d (-want +got)\n%s", n, diff)
				}
				continue
			}
			for name := range got {
				if strings.HasPrefix(name, "t/") || !strings.HasPrefix(name, TempPrefix) && rest[name] == "" {
					t.Errorf("step %d: %s is there", n, name)
				}
			}
		}
	})
	t.Run("guarded", func(t *testing.T) {
		t.Parallel()
		dir := build(t)
		before := contents(t, dir)
		a := NewAccess(filepath.Join(dir, "t"), filepath.Join(dir, "out"))
		g := Guard(Location{Store: NewLocal(LocalOptions{})}, a)
		// The folder's name is in one that may not be changed.
		for name, kind := range map[string]fault.Kind{"t": fault.Unsupported, "beside": fault.Denied, "": fault.Denied, "absent": fault.Denied, "t/a/link/x": fault.NotFound} {
			err := RemoveFolder(t.Context(), Location{Store: g.Store, Path: filepath.Join(dir, name)})
			if kind == fault.NotFound {
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
			} else if fault.KindOf(err) != kind || err == nil {
				t.Errorf("%s: %v, want %s", name, err, kind)
			}
		}
		if diff := cmp.Diff(before, contents(t, dir)); diff != "" {
			t.Errorf("files (-want +got)\n%s", diff)
		}
		if err := RemoveFolder(t.Context(), Location{Store: g.Store, Path: filepath.Join(dir, "t/a/")}); err != nil {
			t.Error(err)
		}
		want := map[string]string{"t/x": "t/x", "out/keep": "out/keep", "beside": "beside"}
		if diff := cmp.Diff(want, contents(t, dir)); diff != "" {
			t.Errorf("files (-want +got)\n%s", diff)
		}
	})
}
