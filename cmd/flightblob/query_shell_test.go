//go:build unix

package main

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
)

// Keys as terminals send them.
const (
	keyEnter = "\r"
	keyUp    = "\x1b[A"
	keyLeft  = "\x1b[D"
	keyHome  = "\x1b[H"
	keyErase = "\x7f"
	ctrlC    = "\x03"
	ctrlD    = "\x04"
	ctrlR    = "\x12"
	ctrlU    = "\x15"
)

// seat is a person at a terminal with a shell.
type seat struct {
	t      *testing.T
	cmd    *exec.Cmd
	tty    *os.File
	screen *lockedBuffer
	seen   int // bytes of the screen that were looked at
	read   chan struct{}
}

// sit starts flightblob query on a terminal of 80 columns.
func sit(t *testing.T, state, term string, args ...string) *seat {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, append([]string{"query"}, args...)...)
	cmd.Env = append(os.Environ(), asProgram+"=1", "XDG_STATE_HOME="+state, "TERM="+term, "COLUMNS=")
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: 80})
	if err != nil {
		t.Fatal(err)
	}
	s := &seat{t: t, cmd: cmd, tty: tty, screen: &lockedBuffer{}, read: make(chan struct{})}
	go func() {
		defer close(s.read)
		_, _ = io.Copy(s.screen, tty) // ends with the program
	}()
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
		_ = tty.Close()
	})
	s.expect("Ctrl-D leaves.")
	s.expect(promptNew)
	return s
}

// press sends keys.
func (s *seat) press(keys ...string) {
	s.t.Helper()
	if _, err := s.tty.WriteString(strings.Join(keys, "")); err != nil {
		s.t.Fatal(err)
	}
}

// moves are what the editor writes beside text.
var moves = regexp.MustCompile("\x1b\\[[0-9;]*[A-Za-z]|\r")

// expect waits until a text is on the screen behind what was expected before.
func (s *seat) expect(want string) {
	s.t.Helper()
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		text := moves.ReplaceAllString(s.screen.String(), "")
		s.seen = min(s.seen, len(text)) // a sequence was cut
		if i := strings.Index(text[s.seen:], want); i >= 0 {
			s.seen += i + len(want)
			return
		}
		if time.Now().After(end) {
			s.t.Fatalf("no %q on the screen behind\n%s\nin\n%.5000s", want, text[:s.seen], text[s.seen:])
		}
	}
}

// leaves waits for the end of the program.
func (s *seat) leaves(want int) {
	s.t.Helper()
	<-s.read
	_ = s.cmd.Wait()
	if got := s.cmd.ProcessState.ExitCode(); got != want {
		s.t.Errorf("exit status %d, want %d: %s", got, want, s.screen)
	}
}

func TestShell(t *testing.T) {
	t.Parallel()
	state, root := t.TempDir(), fixture(t, "kinds_basic_v22")
	s := sit(t, state, "xterm", "--root", root)

	// A statement of several lines, edited while it is typed.
	s.press("SELECT idd", keyErase, " AS a,", keyEnter)
	s.expect(promptMore)
	s.press(`  blob_size(img) AS s FROM "table" WHERE = 3`, strings.Repeat(keyLeft, 3), "id ", keyEnter)
	s.expect(promptMore)
	s.press(";", keyEnter)
	s.expect("a │   s\n")
	s.expect("3 │ 100\n")
	s.expect("1 row in ")
	s.expect(promptNew)

	// What was typed is found again, in one line, and changed.
	s.press(keyUp, keyLeft, keyErase, "4", keyEnter)
	s.expect(`SELECT id AS a, blob_size(img) AS s FROM "table" WHERE id = 4;`)
	s.expect("4 │ 90\n")
	s.expect(promptNew)

	// The place of an error is under it, whatever characters stand before it.
	s.press("SELECT '日本', 'e\u0301', nope;", keyEnter)
	s.expect("SELECT '日本', 'e\u0301', nope\n" + strings.Repeat(" ", 20) + "^\n")
	s.expect(promptNew)

	// Ctrl-C drops what is typed, the lines before it too, and stops what runs.
	s.press("SELECT (", keyEnter)
	s.expect(promptMore)
	s.press("1 AS", ctrlC)
	s.expect("^C\n" + promptNew)
	s.press(ctrlC)
	s.expect("Ctrl-D or .quit leaves\n")
	s.expect(promptNew)
	s.press("SELECT range AS n FROM range(1000000000000);", keyEnter)
	s.expect("\n10000\n") // rows come while it runs
	s.press(ctrlC)
	s.expect("query: interrupted\n")
	s.expect(promptNew)

	// Commands.
	s.press(".tables", keyEnter)
	s.expect("lance   │ main   │ table\n")
	s.expect(promptNew)
	s.press(".mode json", keyEnter)
	s.expect(promptNew)
	s.press(`SELECT blob_range(img, 0, 3) AS b FROM "table" WHERE id = 0;`, keyEnter)
	s.expect(`{"b":"FIQv"}`)
	s.expect(promptNew)
	s.press(".mode arrow", keyEnter)
	s.expect("not for a terminal")
	s.expect(promptNew)
	s.press(".mode", keyEnter)
	s.expect("json\n")
	s.expect(promptNew)
	s.press(".help", keyEnter)
	s.expect(".tables")
	s.expect(promptNew)
	s.press(".nonsense", keyEnter)
	s.expect(`unknown command ".nonsense"; .help lists them`)
	s.expect(promptNew)

	// What begins with a blank is not kept.
	s.press(" SELECT 'private';", keyEnter)
	s.expect("private")
	s.expect(promptNew)
	s.press("x", ctrlU, "SELECT 5 AS five;", keyHome, keyEnter)
	s.expect(`{"five":5}`)
	s.expect(promptNew)
	s.press("SELECT not run", keyEnter)
	s.expect(promptMore)
	s.press(ctrlD)
	s.leaves(exitDone)

	file := filepath.Join(state, "flightblob", "history")
	st, err := os.Stat(file)
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("history %v, %v", st, err)
	}
	kept, _ := os.ReadFile(file)
	if text := string(kept); strings.Contains(text, "private") || !strings.HasSuffix(text, "\n.nonsense\nSELECT 5 AS five;\n") {
		t.Errorf("history\n%s", text)
	}

	// The next session has it.
	s = sit(t, state, "xterm", "--root", root)
	s.press(keyUp, keyEnter)
	s.expect("five\n────\n   5\n")
	s.expect(promptNew)
	s.press(ctrlR, "'日", keyEnter)
	s.expect(strings.Repeat(" ", 20) + "^\n")
	s.expect(promptNew)
	s.press(".quit", keyEnter)
	s.leaves(exitDone)
}

// A statement that is stopped here stops on the server.
func TestShellConnected(t *testing.T) {
	t.Parallel()
	server := start(t, t.TempDir(), nil, "serve", "--root", fixture(t, "kinds_basic_v22"), "--listen", "127.0.0.1:0",
		"--metrics", "127.0.0.1:0")
	metrics := ""
	for address := regexp.MustCompile(`http://127\.0\.0\.1:\d+/metrics`); metrics == ""; time.Sleep(5 * time.Millisecond) {
		metrics = address.FindString(server.stderr.String())
	}
	call := regexp.MustCompile(`(?m)^flightblob_calls_running\{.*\} 1$`)
	running := func(want bool) {
		t.Helper()
		for end := time.Now().Add(2 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
			resp, err := http.Get(metrics)
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if err != nil {
				t.Fatal(err)
			}
			if call.Match(text) == want {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("a call runs: never %t", want)
			}
		}
	}
	s := sit(t, t.TempDir(), "xterm", "--connect", server.uri)
	s.press("SELECT count(*) FROM range(1000000000000) a, range(1000) b WHERE a.range % 7 = b.range % 5;", keyEnter)
	running(true)
	s.press(ctrlC)
	s.expect("query: interrupted\n")
	running(false)
	s.expect(promptNew)
	s.press(`SELECT id FROM "table" WHERE id = 6; .tables`, keyEnter)
	s.expect("6\n")
	s.expect(promptMore)
	s.press(ctrlC)
	s.expect(promptNew)
	s.press(".tables", keyEnter)
	s.expect("lance   │ main   │ table\n")
	s.expect(promptNew)
	s.press(".quit", keyEnter)
	s.leaves(exitDone)
}

// A terminal that cannot move its cursor has prompts without an editor; what
// ends the program ends the shell.
func TestShellPlainTerminal(t *testing.T) {
	t.Parallel()
	for _, term := range []string{"dumb", "xterm"} {
		s := sit(t, t.TempDir(), term, "--root", fixture(t, "kinds_basic_v22"), "--history", "")
		s.press("SELECT 1 +", keyEnter)
		s.expect(promptMore)
		s.press(ctrlC)
		s.expect(promptNew)
		s.press("SELECT 41 + 1 AS sum;", keyEnter)
		s.expect("sum\n───\n 42\n")
		s.expect(promptNew)
		if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		s.leaves(exitFailed)
	}
}
