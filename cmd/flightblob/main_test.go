package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/rogpeppe/go-internal/testscript"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// asProgram makes the test binary be the program.
const asProgram = "FLIGHTBLOB_TEST_BINARY_IS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	testscript.Main(m, map[string]func(){"flightblob": main})
}

func TestScripts(t *testing.T) {
	t.Parallel()
	fixtures, err := filepath.Abs("../../conformance/fixtures/tables")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("FIXTURES", fixtures)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
	})
}

// exits runs a command and wants exactly one exit status: exits 2 COMMAND….
// Its output is left in the files stdout and stderr.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits STATUS COMMAND [ARG]…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit, ok := err.(*exec.ExitError) //nolint:errorlint // as os/exec returns it
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}

// program is a running server in a process of its own.
type program struct {
	cmd    *exec.Cmd
	uri    string
	stdout *bytes.Buffer // after the first line
	stderr *lockedBuffer
	read   sync.WaitGroup
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

var listening = regexp.MustCompile(`^flightblob listening on (grpc://127\.0\.0\.1:\d+)\n$`)

// start runs the program in dir until it is ready.
func start(t *testing.T, dir string, env []string, args ...string) *program {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &program{cmd: exec.Command(self, args...), stdout: &bytes.Buffer{}, stderr: &lockedBuffer{}}
	p.cmd.Dir = dir
	p.cmd.Env = append(append(os.Environ(), asProgram+"=1"), env...)
	p.cmd.Stderr = p.stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if p.cmd.ProcessState == nil {
			_ = p.cmd.Process.Kill()
			p.wait()
		}
	})
	r := bufio.NewReader(out)
	line, err := r.ReadString('\n')
	m := listening.FindStringSubmatch(line)
	if m == nil {
		t.Fatalf("first line %q (%v), stderr: %s", line, err, p.stderr)
	}
	p.uri = m[1]
	p.read.Add(1)
	go func() {
		defer p.read.Done()
		_, _ = io.Copy(p.stdout, r)
	}()
	return p
}

// wait gives the exit status.
func (p *program) wait() int {
	p.read.Wait()
	_ = p.cmd.Wait()
	return p.cmd.ProcessState.ExitCode()
}

func (p *program) client(t *testing.T) flight.Client {
	t.Helper()
	c, err := flight.NewClientWithMiddleware(strings.TrimPrefix(p.uri, "grpc://"), nil, nil,
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// column reads the first column of a ticket's stream as text.
func column(ctx context.Context, c flight.Client, ticket string) ([]string, error) {
	stream, err := c.DoGet(ctx, &flight.Ticket{Ticket: []byte(ticket)})
	if err != nil {
		return nil, err
	}
	r, err := flight.NewRecordReader(stream)
	if err != nil {
		return nil, err
	}
	defer r.Release()
	var values []string
	for r.Next() {
		col := r.RecordBatch().Column(0)
		for i := range col.Len() {
			if b, ok := col.(*array.LargeBinary); ok {
				values = append(values, string(b.Value(i)))
			} else {
				values = append(values, col.ValueStr(i))
			}
		}
	}
	return values, r.Err()
}

// The demo makes the default root, serves the table, keeps stdout to its one
// line, prints a client, and ends in order on SIGTERM.
func TestDemo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := start(t, dir, nil, "demo", "--listen", "127.0.0.1:0")
	c := p.client(t)
	names, err := column(t.Context(), c, `{"table":"media","columns":["name"]}`)
	if err != nil || len(names) != 16 || names[0] != "mandelbrot" {
		t.Fatalf("%q, %v", names, err)
	}
	data, err := column(t.Context(), c, `{"table":"media","columns":["data"]}`)
	if err != nil {
		t.Fatal(err)
	}
	for i, d := range data {
		if want := map[bool]string{true: "\x89PNG\r\n\x1a\n", false: "RIFF"}[i < 12]; !strings.HasPrefix(d, want) {
			t.Errorf("%s starts with %q", names[i], d[:min(len(d), 8)])
		}
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if status := p.wait(); status != exitDone {
		t.Errorf("exit status %d, stderr: %s", status, p.stderr)
	}
	if p.stdout.Len() > 0 {
		t.Errorf("more on stdout: %q", p.stdout)
	}
	if s := p.stderr.String(); !strings.Contains(s, "fl.connect(\""+p.uri+"\")") || !strings.Contains(s, `{"table":"media","rows":[0]}`) {
		t.Errorf("no client to paste on stderr: %s", s)
	}
	// A second start finds the table and leaves it alone.
	before, err := os.Stat(filepath.Join(dir, "warehouse/media.lance/_versions"))
	if err != nil {
		t.Fatal(err)
	}
	start(t, dir, nil, "demo", "--listen", "127.0.0.1:0")
	after, err := os.Stat(filepath.Join(dir, "warehouse/media.lance/_versions"))
	if err != nil || !os.SameFile(before, after) {
		t.Errorf("the table was made anew: %v", err)
	}
}

// A root that is named and absent is made by the demo, as its help says. Two
// servers cannot have one address; the second says so.
func TestDemoMakesItsRoot(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := start(t, dir, nil, "demo", "--root", "a/b", "--listen", "127.0.0.1:0")
	if names, err := column(t.Context(), p.client(t), `{"table":"media","columns":["name"]}`); err != nil || len(names) != 16 {
		t.Errorf("%q, %v", names, err)
	}
	var out, logs bytes.Buffer
	args := []string{"serve", "--root", filepath.Join(dir, "a/b"), "--listen", strings.TrimPrefix(p.uri, "grpc://")}
	status := run(t.Context(), args, &out, &logs, func(string) (string, bool) { return "", false })
	if status != exitFailed || out.Len() > 0 || !strings.Contains(logs.String(), "--listen 127.0.0.1:") || !strings.Contains(logs.String(), "in use") {
		t.Errorf("status %d, stdout %q, stderr %q", status, &out, &logs)
	}
}

// warehouse is a folder whose default root holds the demo table.
func warehouse(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	demo := os.DirFS(filepath.Join("..", "..", "flightsvc", "testdata", "demo"))
	if err := os.CopyFS(filepath.Join(dir, "warehouse"), demo); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestSettingsFromEnvironmentAndFile(t *testing.T) {
	t.Parallel()
	dir := warehouse(t)
	config := filepath.Join(dir, "flightblob.toml")
	text := "listen = \"127.0.0.1:1\"\n\n[serve]\nmemory = \"64MiB\"\nlog-format = \"json\"\nroot = [\"a=./warehouse\", \"b=./warehouse\"]\n"
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	p := start(t, dir, []string{"FLIGHTBLOB_CONFIG=" + config, "FLIGHTBLOB_MEMORY=32MiB", "FLIGHTBLOB_LISTEN=127.0.0.1:2"},
		"serve", "--listen", "127.0.0.1:0")
	names, err := column(t.Context(), p.client(t), `{"table":"media","schema":"main","catalog":"b","columns":["name"]}`)
	if err != nil || len(names) != 16 {
		t.Errorf("%q, %v", names, err)
	}
	var entry struct {
		Memory   string
		Catalogs []string
	}
	first, _, _ := strings.Cut(p.stderr.String(), "\n")
	if err := json.Unmarshal([]byte(first), &entry); err != nil {
		t.Fatalf("log entry %q: %v", first, err)
	}
	if entry.Memory != "32MiB" || fmt.Sprint(entry.Catalogs) != "[a b]" {
		t.Errorf("settings %+v", entry)
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	dir := warehouse(t)
	p := start(t, dir, nil, "serve", "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--log-format", "json")
	if _, err := column(t.Context(), p.client(t), `{"table":"media"}`); err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`"(http://127\.0\.0\.1:\d+/metrics)"`).FindStringSubmatch(p.stderr.String())
	if m == nil {
		t.Fatalf("no address of metrics in the log: %s", p.stderr)
	}
	resp, err := http.Get(m[1])
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`flightblob_calls_total{code="OK",method="DoGet"} 1`,
		`flightblob_sent_rows_total 16`,
		`flightblob_budget_bytes{state="capacity"} 2.68435456e+08`,
		`flightblob_calls_running{method="DoGet"} 0`,
		`flightblob_panics_total 0`,
		`flightblob_store_requests_total{kind="read"}`,
	} {
		if !strings.Contains(string(body), want) {
			t.Errorf("metrics lack %s", want)
		}
	}
	if regexp.MustCompile(`flightblob_sent_bytes_total 1?\d{1,4}\n`).Match(body) {
		t.Error("sent bytes are fewer than the payload")
	}
}

// A running stream holds the end up until the drain timeout, or until a second
// signal.
func TestDrain(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		drain   string
		signals int
	}{
		{"timeout", "300ms", 1},
		{"second signal", "1h", 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p := start(t, warehouse(t), nil, "serve", "--listen", "127.0.0.1:0", "--drain-timeout", tc.drain)
			// An exchange that never says what it wants keeps its call alive.
			// A later call's answer says that it has begun.
			c := p.client(t)
			if _, err := c.DoExchange(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := column(t.Context(), c, `{"table":"media","limit":1}`); err != nil {
				t.Fatal(err)
			}
			for i := range tc.signals {
				if i > 0 {
					eventually(t, 5*time.Second, "draining", func() bool { return strings.Contains(p.stderr.String(), "draining") })
				}
				if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
					t.Fatal(err)
				}
			}
			if status := p.wait(); status != exitDone {
				t.Errorf("exit status %d", status)
			}
			if s := p.stderr.String(); !strings.Contains(s, "stopping at once") || !strings.Contains(s, tc.name) {
				t.Errorf("log: %s", s)
			}
		})
	}
}

func eventually(t *testing.T, within time.Duration, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(within)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", within, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestByteSize(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		"0": 0, "65536": 65536, "64KiB": 65536, "256 MiB": 256 << 20, "1gib": 1 << 30, "2TiB": 2 << 40, "1MB": 1e6, "12B": 12,
	} {
		var b byteSize
		if err := b.Set(text); err != nil || int64(b) != want {
			t.Errorf("%q: %d, %v; want %d", text, b, err, want)
			continue
		}
		var again byteSize
		if err := again.Set(b.String()); err != nil || again != b {
			t.Errorf("%q prints as %q", text, b.String())
		}
	}
	for _, text := range []string{"", "MiB", "-1", "1.5GiB", "9999999999TiB", "7 apples"} {
		var b byteSize
		if err := b.Set(text); err == nil {
			t.Errorf("%q is taken as %d", text, b)
		}
	}
}

func TestLoopback(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]bool{
		"127.0.0.1:1": true, "127.8.9.1:0": true, "localhost:1": true, "[::1]:1": true,
		"0.0.0.0:1": false, ":1": false, "[::]:1": false, "10.0.0.1:1": false, "example.org:1": false,
	} {
		if got, err := loopback(addr); err != nil || got != want {
			t.Errorf("%s: %t, %v; want %t", addr, got, err, want)
		}
	}
	if _, err := loopback("31337"); err == nil {
		t.Error("a bare port is taken")
	}
}

func TestParseRoots(t *testing.T) {
	t.Parallel()
	roots, err := parseRoots([]string{"./a", "cam=s3://b/x=y", "./odd=name", "/abs=olute", "file:///x"})
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(roots)
	if want := "[{ ./a} {cam s3://b/x=y} { ./odd=name} { /abs=olute} { file:///x}]"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if _, err := parseRoots([]string{"cam="}); err == nil {
		t.Error("a root without a place is taken")
	}
}
