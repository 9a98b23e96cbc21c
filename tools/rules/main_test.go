package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const events = `{"Action":"pass","Package":"p","Test":"TestResolve/RES-3_inline_reads"}
{"Action":"pass","Package":"p","Test":"TestRES-4_is_no_subtest"}
{"Action":"fail","Package":"p","Test":"TestResolve/RES-5_names"}
{"Action":"pass","Package":"p","Test":"TestResolve/RES-5_other"}
{"Action":"skip","Package":"p","Test":"TestResolve/RES-6_ids"}
{"Action":"pass","Package":"p","Test":"TestResolve/XRES-6"}
not an event
{"Action":"pass","Package":"p"}
`

const junit = `<?xml version="1.0"?><testsuites><testsuite name="pytest">
<testcase classname="t" name="test_rows[kinds NUL-1 NUL-13]"/>
<testcase classname="t" name="test_rows[kinds NUL-2]"><failure message="no">x</failure></testcase>
<testcase classname="t" name="test_rows[kinds NUL-3]"><skipped/></testcase>
</testsuite></testsuites>`

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRules(t *testing.T) {
	t.Parallel()
	rules := write(t, "rules.txt", "# all\nRES-3\nRES-4\nRES-5\nRES-6\nNUL-1\nNUL-2\nNUL-3\n")
	results := []string{write(t, "go.json", events), write(t, "py.xml", junit)}
	const unproved = "RES-4\nRES-5\nRES-6\nNUL-2\nNUL-3\n"
	for name, c := range map[string]struct{ known, want string }{
		"exact":   {unproved, ""},
		"growing": {strings.Replace(unproved, "RES-5\n", "", 1), "RES-5 has no passing test"},
		"stale":   {unproved + "RES-3  later\n", "RES-3 has a test now"},
		"unknown": {unproved + "RES-99\n", "RES-99, which is no rule"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := run(rules, write(t, "known.txt", c.known), true, results)
			if c.want == "" && err != nil {
				t.Fatalf("got %v, want no error", err)
			}
			if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Fatalf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}

func TestIdentifiers(t *testing.T) {
	t.Parallel()
	got := identifiers("TestX/DESC-6_and_REJ-2,GC-10[a RWR-1]-EXT-12x LEG-")
	if diff := cmp.Diff([]string{"DESC-6", "REJ-2", "GC-10", "RWR-1", "EXT-12"}, got); diff != "" {
		t.Fatal(diff)
	}
}
