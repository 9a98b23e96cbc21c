package query_test

import (
	"os"
	"strings"
	"testing"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/query"
)

// spills checks that nothing is left in the spill folder.
func spills(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for _, e := range entries {
		t.Errorf("left in the spill folder: %s", e.Name())
	}
}

// large need more than an engine of 64 MiB has, each with the answer.
var large = []struct{ name, sql, want string }{
	{
		"sort", "select count(*) n, count_if(h < prev)::int wrong, sum(i)::bigint s from (select i, h, lag(h) over () prev from " +
			"(select i, hash(i) h from range(6000000) t(i) order by h))",
		`[{"n":6000000,"s":17999997000000,"wrong":0}`,
	},
	{
		"group by", "select count(*) n, sum(c)::bigint c, max(m)::bigint m from " +
			"(select (i * 7919) % 3000017 g, count(*) c, max(i) m from range(6000034) t(i) group by g)",
		`[{"c":6000034,"m":6000033,"n":3000017}`,
	},
	{
		"join", "select count(*) n, sum(a.i - b.j)::bigint d from range(4000000) a(i) join " +
			"(select (j * 7919) % 4000037 j, repeat('x', 20) s from range(4000037) t(j)) b on a.i = b.j where length(s) = 20",
		`[{"d":0,"n":4000000}`,
	},
	{
		"distinct", "select count(*) n from (select distinct repeat((i % 2000000)::varchar, 5) from range(4000000) t(i))",
		`[{"n":2000000}`,
	},
}

// TestSpill runs statements that need more than the engine has: they answer
// right, and leave nothing in the spill folder; without one, or with too little
// room in it, they fail with what to do.
func TestSpill(t *testing.T) {
	dir := t.TempDir()
	h := openWith(t, query.Options{Threads: 2, Memory: 64 << 20, SpillDir: dir}, "kinds_basic_v22")
	for _, l := range large {
		t.Run(l.name, func(t *testing.T) {
			if got := h.query(l.sql); strings.TrimSuffix(got, "\n]") != l.want {
				t.Errorf("%s", got)
			}
			spills(t, dir)
		})
	}
	small := t.TempDir()
	for _, tt := range []struct {
		name, advice string
		options      query.Options
	}{
		{"no folder", "--sql-spill", query.Options{}},
		{"little room", "--sql-spill-bytes", query.Options{SpillDir: small, SpillBytes: 16 << 20}},
	} {
		tt.options.Threads, tt.options.Memory = 2, 64<<20
		h := openWith(t, tt.options, "kinds_basic_v22")
		for _, l := range large[:3] {
			err := h.fails(l.sql)
			if fault.KindOf(err) != fault.Exhausted || !strings.Contains(err.Error(), tt.advice) || !strings.Contains(err.Error(), "--sql-memory, which is 64 MiB") {
				t.Errorf("%s, %s: %v", tt.name, l.name, err)
			}
			spills(t, small)
		}
	}
}
