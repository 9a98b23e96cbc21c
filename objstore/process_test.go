package objstore

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/flightblob/flightblob/internal/fault"
)

// Tests run themselves again as other processes, told by their arguments what
// to do.
const childVariable = "OBJSTORE_TEST_CHILD"

const (
	childKill = "kill" // change, step, folder: make the change, be killed at the step
	childRace = "race" // number, keys, folder: put all keys, print those won
	childFull = "full" // folder: fill a small disk
)

func TestMain(m *testing.M) {
	if child := os.Getenv(childVariable); child != "" {
		if err := childMain(child, os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func childMain(child string, args []string) error {
	switch child {
	case childKill:
		return killMain(args)
	case childRace:
		return raceMain(args)
	case childFull:
		return fullMain(args)
	}
	return fmt.Errorf("unknown child %q", child)
}

func childCommand(t *testing.T, child string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append(os.Environ(), childVariable+"="+child)
	cmd.Stderr = os.Stderr
	return cmd
}

// runChild reports whether the child was killed, and fails when it failed.
func runChild(t *testing.T, child string, args ...string) (killed bool) {
	t.Helper()
	cmd := childCommand(t, child, args...)
	err := cmd.Run()
	if status, ok := cmd.ProcessState.Sys().(interface{ Signaled() bool }); ok && status.Signaled() {
		return true
	}
	if err != nil {
		t.Fatalf("child %s %v: %v", child, args, err)
	}
	return false
}

func killMain(args []string) error {
	change, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	at, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	l := NewLocal(LocalOptions{})
	count := 0
	l.step = func(string) error {
		if count++; count == at {
			if err := unix.Kill(os.Getpid(), unix.SIGKILL); err != nil {
				return err
			}
			select {} // until the signal arrives
		}
		return nil
	}
	return changes[change].apply(context.Background(), l, filepath.Join(args[2], changes[change].path))
}

// TestPutIfAbsentProcesses lets processes put the same keys at the same time:
// each has exactly one winner, whose bytes are there.
func TestPutIfAbsentProcesses(t *testing.T) {
	t.Parallel()
	const rivals = 8
	keys := 4000
	if testing.Short() {
		keys = 400
	}
	dir := tempDir(t)
	var start []io.Closer
	won := make([][]string, rivals)
	var wg sync.WaitGroup
	for r := range rivals {
		cmd := childCommand(t, childRace, fmt.Sprint(r), fmt.Sprint(keys), dir)
		stdin, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		start = append(start, stdin)
		var out bytes.Buffer
		cmd.Stdout = &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			if err := cmd.Wait(); err != nil {
				t.Errorf("process %d: %v", r, err)
			}
			won[r] = strings.Fields(out.String())
		})
	}
	for _, s := range start {
		s.Close()
	}
	wg.Wait()
	winner := make(map[string]int)
	for r := range won {
		for _, key := range won[r] {
			if other, twice := winner[key]; twice {
				t.Errorf("key %s was won by %d and %d", key, other, r)
			}
			winner[key] = r
		}
	}
	files := contents(t, dir)
	if len(winner) != keys || len(files) != keys {
		t.Errorf("%d keys were won, %d files are there; want %d", len(winner), len(files), keys)
	}
	for key, r := range winner {
		if got := files[key]; got != fmt.Sprintf("by %d", r) {
			t.Errorf("key %s was won by %d, but holds %q", key, r, got)
		}
	}
}

func raceMain(args []string) error {
	keys, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	l := NewLocal(LocalOptions{})
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil { // all start together
		return err
	}
	out := bufio.NewWriter(os.Stdout)
	for k := range keys {
		key := fmt.Sprintf("%d/%d", k/100, k)
		err := l.PutIfAbsent(context.Background(), filepath.Join(args[2], key), []byte("by "+args[0]))
		switch {
		case err == nil:
			fmt.Fprintln(out, key)
		case fault.KindOf(err) != fault.Exists:
			return err
		}
	}
	return out.Flush()
}
