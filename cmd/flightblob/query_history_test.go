package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEntries(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		want []string
	}{
		{"SELECT 1;\n", []string{"SELECT 1;"}},
		{"SELECT\n\n  1\n;\n", []string{"SELECT 1;"}},
		{"SELECT 1 -- one\n  + 2;\n", []string{"SELECT 1 -- one", "  + 2;"}},
		{"SELECT 'a\nb';\n", []string{"SELECT 'a", "b';"}},
		{"SELECT '--',\n1;\n", []string{"SELECT '--',", "1;"}},
		{"SELECT 1; /*\n*/\n", []string{"SELECT 1; /*", "*/"}},
	} {
		if got := entries(c.text); !cmp.Equal(got, c.want) {
			t.Errorf("entries(%q) = %q, want %q", c.text, got, c.want)
		}
	}
}

func TestHistory(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "new", "folder", "history")
	h, earlier, err := openHistory(path)
	if err != nil || len(earlier) != 0 {
		t.Fatalf("%q, %v", earlier, err)
	}
	for i := range 2*mostEntries + 10 {
		if err := h.append(fmt.Sprint("SELECT ", i)); err != nil {
			t.Fatal(err)
		}
	}
	for _, entry := range []string{"", "a\x1b[2J", "a\xff", strings.Repeat("x", longestEntry+1)} {
		if err := h.append(entry); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	for range 2 { // whole, then cut
		_, earlier, err = openHistory(path)
		if err != nil || len(earlier) != mostEntries || earlier[mostEntries-1] != fmt.Sprint("SELECT ", 2*mostEntries+9) {
			t.Fatalf("%d entries, the last %q, %v", len(earlier), earlier[len(earlier)-1], err)
		}
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 || st.Size() > mostEntries*12 {
		t.Errorf("%v, %v", st, err)
	}
	// What others put into the file is not shown.
	if err := os.WriteFile(path, []byte("SELECT 1\n\x1b]0;title\x07\n\xff\nSELECT 2"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, earlier, err = openHistory(path); err != nil || !cmp.Equal(earlier, []string{"SELECT 1", "SELECT 2"}) {
		t.Errorf("%q, %v", earlier, err)
	}
	if h, earlier, err = openHistory(""); h != nil || earlier != nil || err != nil || h.append("x") != nil {
		t.Errorf("without a file: %v, %q, %v", h, earlier, err)
	}
}

func TestHistoryPath(t *testing.T) {
	t.Parallel()
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	for state, want := range map[string]string{
		"/state":   "/state/flightblob/history",
		"relative": home + "/.local/state/flightblob/history",
		"":         home + "/.local/state/flightblob/history",
	} {
		if got := historyPath(func(string) string { return state }); filepath.ToSlash(got) != want {
			t.Errorf("XDG_STATE_HOME=%s: %s, want %s", state, got, want)
		}
	}
}
