package objstore

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/flightblob/flightblob/internal/fault"
)

// TestLocalDiskFull writes to a real file system without space, mounted in a
// child with namespaces of its own.
func TestLocalDiskFull(t *testing.T) {
	t.Parallel()
	cmd := childCommand(t, childFull, tempDir(t))
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out := &strings.Builder{}
	cmd.Stdout, cmd.Stderr = out, out
	err := cmd.Run()
	if err != nil && (cmd.ProcessState == nil || strings.Contains(out.String(), cannotMount)) {
		t.Skipf("this system lets nobody mount a small disk: %v %s", err, out)
	}
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

const cannotMount = "cannot mount"

func fullMain(args []string) error {
	dir := args[0]
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=1m"); err != nil {
		return fmt.Errorf("%s: %w", cannotMount, err)
	}
	ctx := context.Background()
	l := NewLocal(LocalOptions{})
	large := make([]byte, 2<<20)
	if err := l.Put(ctx, filepath.Join(dir, "keep"), large[:100<<10]); err != nil {
		return err
	}
	at := filepath.Join(dir, "d/x")
	check := func(op string, err error) error {
		if fault.KindOf(err) != fault.Exhausted || !strings.Contains(fmt.Sprint(err), "no space left on device") || !strings.Contains(fmt.Sprint(err), at) {
			return fmt.Errorf("%s: %w, want that no space is left for %s", op, err, at)
		}
		for _, d := range []string{dir, filepath.Join(dir, "d")} {
			entries, err := os.ReadDir(d)
			if err != nil {
				return err
			}
			for _, e := range entries {
				if e.Name() != "keep" && e.Name() != "d" {
					return fmt.Errorf("%s leaves %s", op, e.Name())
				}
			}
		}
		return nil
	}
	if err := check("put", l.Put(ctx, at, large)); err != nil {
		return err
	}
	if err := check("put if absent", l.PutIfAbsent(ctx, at, large)); err != nil {
		return err
	}
	w, err := l.Create(ctx, at)
	if err != nil {
		return err
	}
	for err == nil {
		_, err = w.Write(large[:10_000])
	}
	if err := w.Commit(ctx); fault.KindOf(err) != fault.Exhausted {
		return fmt.Errorf("commit after a write that failed: %w", err)
	}
	if err := check("create", err); err != nil {
		return err
	}
	// Space comes back: nothing was kept.
	return l.Put(ctx, at, large[:500<<10])
}
