package tabletest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Pylance runs a Python script with pylance and gives what it prints. Without
// an interpreter (FLIGHTBLOB_PYTHON, or .venv at the top of the repository) the
// test is skipped with the reason, or fails where CI or
// FLIGHTBLOB_REQUIRE_PYTHON is set.
func Pylance(tb testing.TB, script string, args ...string) []byte {
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
	cmd := exec.CommandContext(tb.Context(), python, append([]string{"-c", script}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		tb.Fatalf("pylance script: %v\n%s", err, out)
	}
	return out
}
