package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/google/go-cmp/cmp"
)

// runQuery runs the command in this process and gives its status and output.
func runQuery(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	none := func(string) (string, bool) { return "", false }
	status = run(context.Background(), append([]string{"query"}, args...), &out, &errs, none)
	return status, out.String(), errs.String()
}

func fixture(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs("../../conformance/fixtures/tables/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// What a server answers is what the same statement answers in process.
func TestQueryConnect(t *testing.T) {
	t.Parallel()
	root := fixture(t, "kinds_basic_v22")
	server := start(t, t.TempDir(), nil, "serve", "--root", root, "--listen", "127.0.0.1:0")
	for _, format := range []string{"table", "json", "csv", "arrow"} {
		for _, sql := range []string{
			`SELECT * FROM "table" ORDER BY id`,
			`SELECT id, [img] AS l, {'b': img} AS s FROM "table" WHERE id > 2 ORDER BY id`,
			`SELECT id FROM "table" WHERE false`,
			`SELECT 1 AS a; SHOW TABLES`,
		} {
			status, local, errs := runQuery(t, "--root", root, "--format", format, sql)
			if status != exitDone || (local == "" && !strings.Contains(sql, "false")) {
				t.Fatalf("%s of %s: status %d, %s", format, sql, status, errs)
			}
			status, remote, errs := runQuery(t, "--connect", server.uri, "--format", format, sql)
			if status != exitDone {
				t.Fatalf("%s of %s: status %d, %s", format, sql, status, errs)
			}
			if diff := cmp.Diff(local, remote); diff != "" && format != "arrow" {
				t.Errorf("%s of %s, in process and by the server:\n%s", format, sql, diff)
			}
		}
	}
	for _, c := range []struct{ sql, want string }{
		{"SELEC 1", "SELEC 1\n^\n"},
		{"SELECT 1,\n  'x", "  'x\n  ^\n"},
		{`SELECT nope FROM "table"`, "^"},
		{"SELECT * FROM absent", "absent does not exist"},
		{"DELETE FROM absent", "absent"},
	} {
		status, out, errs := runQuery(t, "--connect", server.uri, c.sql)
		if status != exitFailed || out != "" || !strings.Contains(errs, c.want) {
			t.Errorf("%s: status %d, stdout %q, stderr %q without %q", c.sql, status, out, errs, c.want)
		}
	}
}

func TestQueryArrow(t *testing.T) {
	t.Parallel()
	status, out, errs := runQuery(t, "--root", fixture(t, "kinds_basic_v22"), "--format", "arrow", `SELECT * FROM "table"`)
	if status != exitDone {
		t.Fatal(errs)
	}
	r, err := ipc.NewReader(strings.NewReader(out))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	rows := int64(0)
	for r.Next() {
		rows += r.RecordBatch().NumRows()
	}
	if r.Err() != nil || rows != 7 {
		t.Errorf("%d rows, %v", rows, r.Err())
	}
	if got := r.Schema().Field(1).Type.String(); got != "large_binary" {
		t.Errorf("img is %s", got)
	}
}

func TestComplete(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text  string
		end   bool
		ready []string
		rest  string
	}{
		{"SELECT 1;\n", false, []string{"SELECT 1"}, ""},
		{"SELECT 1\n", false, nil, "SELECT 1\n"},
		{"SELECT 1\n", true, []string{"SELECT 1"}, ""},
		{"\n", false, nil, ""},
		{"SELECT ';\n", false, nil, "SELECT ';\n"},
		{"SELECT /* ;\n", false, nil, "SELECT /* ;\n"},
		{"SELECT (1\n", false, nil, "SELECT (1\n"},
		{"SELECT 1; SELECT 2 -- ;\n", false, []string{"SELECT 1"}, "SELECT 2 -- ;\n"},
		{"SELECT 1 /* a */; SELECT 2 /* b */ ; -- c\n", false, []string{"SELECT 1", "SELECT 2"}, ""},
		{";;\n", false, nil, ""},
	} {
		ready, rest, err := (&runner{}).complete(c.text, c.end)
		if err != nil || rest != c.rest || !cmp.Equal(ready, c.ready) {
			t.Errorf("complete(%q, %t) = %q, %q, %v; want %q, %q", c.text, c.end, ready, rest, err, c.ready, c.rest)
		}
	}
	if _, _, err := (&runner{}).complete("SELECT 'x", true); err == nil || !strings.HasSuffix(err.Error(), "\nSELECT 'x\n       ^") {
		t.Errorf("an open string at the end: %v", err)
	}
}

// A person who interrupts does not wait for the next line.
func TestShellInterrupted(t *testing.T) {
	t.Parallel()
	in, out := io.Pipe()
	defer out.Close()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	s := &shell{runner: &runner{}, in: plainLines(ctx, in, io.Discard, nil, false), talk: io.Discard}
	if err := s.run(ctx); err == nil || err.Error() != "query: interrupted" {
		t.Error(err)
	}
}

func TestFit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		widths  []int
		numbers []bool
		width   int
		want    []int
	}{
		{[]int{3, 4}, []bool{false, false}, 10, []int{3, 4}},
		{[]int{3, 40, 10}, []bool{true, false, false}, 30, []int{3, 11, 10}},
		{[]int{30, 30}, []bool{false, false}, 23, []int{10, 10}},
		{[]int{30, 30, 30}, []bool{false, false, false}, 24, []int{10, 11}},
		{[]int{19, 30}, []bool{true, false}, 32, []int{19, 10}},
		{[]int{19, 30}, []bool{true, false}, 24, []int{19}},
		{[]int{30}, []bool{false}, 4, []int{8}},
		{[]int{30}, []bool{true}, 4, []int{30}},
		{[]int{}, []bool{}, 4, []int{}},
	} {
		if got := fit(append([]int{}, c.widths...), c.numbers, c.width); !cmp.Equal(got, c.want) {
			t.Errorf("fit(%v, %d) = %v, want %v", c.widths, c.width, got, c.want)
		}
	}
}

// Rows that come later have room, as long as the screen has; numbers always.
func TestTableLater(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		width      int
		text, want string
	}{
		{0, "1", "1 │ 1"},
		{12, "123456", "7 │ 123456"},
		{12, "1234567890", "7 │ 1234567…"},
	} {
		w := &tableWriter{
			out: bufio.NewWriter(io.Discard), screen: screen{width: c.width}, right: []bool{true, false},
			fields: []arrow.Field{{Name: "n"}, {Name: "s"}}, waiting: [][]string{{"1", "2"}},
		}
		w.begin()
		var b bytes.Buffer
		w.out = bufio.NewWriter(&b)
		w.line([]string{c.want[:1], c.text}, between)
		w.line([]string{"12345", c.text}, between)
		w.line([]string{"123456789", c.text}, between)
		_ = w.out.Flush()
		if got, _, _ := strings.Cut(b.String(), "\n"); got != c.want || !strings.Contains(b.String(), "\n12345 │") || !strings.Contains(b.String(), "\n123456789 │") {
			t.Errorf("%d cells:\n%swant\n%s", c.width, &b, c.want)
		}
	}
}

func TestTextOnScreens(t *testing.T) {
	t.Parallel()
	for n, want := range map[uint64]string{
		0: "0 B", 999: "999 B", 1000: "1.0 KB", 12345: "12.3 KB", 999_949: "999.9 KB", 999_950: "1.0 MB", 1 << 63: "9.2 EB",
	} {
		if got := sizeText(n); got != want {
			t.Errorf("sizeText(%d) = %q, want %q", n, got, want)
		}
	}
	if got := printable("a\tb\u202ec\x1bd é"); got != `a\tb\u202ec\x1bd é` {
		t.Errorf("printable: %q", got)
	}
}

func TestOffsetOf(t *testing.T) {
	t.Parallel()
	text := "ab\ncdé\nf"
	for _, c := range []struct {
		line, column, offset int
		ok                   bool
	}{{1, 1, 0, true}, {2, 3, 5, true}, {3, 1, 8, true}, {3, 2, 9, true}, {9, 1, 0, false}} {
		if got, ok := offsetOf(text, c.line, c.column); got != c.offset || ok != c.ok {
			t.Errorf("line %d, column %d: %d, %t", c.line, c.column, got, ok)
		}
	}
}
