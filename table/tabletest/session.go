package tabletest

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// session executes one JSON string of Python per line of its standard input, in
// one scope, and answers with the value of the last expression or with the
// error. What the code prints goes to standard error.
const session = `
import ast, json, os, sys
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
scope = {}
for line in sys.stdin:
    try:
        tree = ast.parse(json.loads(line))
        last = ast.Expression(tree.body.pop().value) if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, "session", "exec"), scope)
        value = eval(compile(last, "session", "eval"), scope) if last else None
        answer = {"value": value}
    except BaseException as e:
        answer = {"error": "%s: %s" % (type(e).__name__, e)}
    print(json.dumps(answer, default=str), file=answers, flush=True)
`

// Session is a Python process that a test talks to, so that handles on tables
// stay open while the test writes to them. It ends with the test.
type Session struct {
	tb  testing.TB
	in  *json.Encoder
	out *bufio.Reader
}

// StartSession starts Python; see Pylance for what happens without it.
func StartSession(tb testing.TB) *Session {
	tb.Helper()
	python := os.Getenv("FLIGHTBLOB_PYTHON")
	if python == "" {
		python = filepath.Join(Root(tb), ".venv", "bin", "python")
	}
	missing := tb.Skipf
	if os.Getenv("CI") != "" || os.Getenv("FLIGHTBLOB_REQUIRE_PYTHON") != "" {
		missing = tb.Fatalf
	}
	if _, err := exec.LookPath(python); err != nil {
		missing("no Python with pylance at %s: run make .venv/ready, or set FLIGHTBLOB_PYTHON", python)
	}
	cmd := exec.CommandContext(tb.Context(), python, "-c", session)
	cmd.Stderr = os.Stderr
	cmd.Env = append(os.Environ(), "LANCE_LOG=error")
	in, err := cmd.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	return &Session{tb: tb, in: json.NewEncoder(in), out: bufio.NewReaderSize(out, 1<<20)}
}

// Try runs code and decodes the value of its last expression into value, if
// that is not nil. It gives the text of a Python error, "" if there is none.
func (s *Session) Try(value any, code string) string {
	s.tb.Helper()
	if err := s.in.Encode(code); err != nil {
		s.tb.Fatal(err)
	}
	line, err := s.out.ReadBytes('\n')
	if err != nil {
		s.tb.Fatalf("the Python process ended: %v", err)
	}
	var answer struct {
		Value json.RawMessage
		Error string
	}
	if err := json.Unmarshal(line, &answer); err != nil {
		s.tb.Fatalf("%v: %s", err, line)
	}
	if answer.Error == "" && value != nil {
		if err := json.Unmarshal(answer.Value, value); err != nil {
			s.tb.Fatalf("%v: %s", err, answer.Value)
		}
	}
	return answer.Error
}

// Run is Try where an error fails the test.
func (s *Session) Run(value any, code string) {
	s.tb.Helper()
	if text := s.Try(value, code); text != "" {
		s.tb.Fatalf("%s\n%s", text, code)
	}
}
