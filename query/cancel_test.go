package query_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/query"
	"github.com/flightblob/flightblob/schema"
)

// endless are statements that go on for hours, by what the engine does then.
var endless = []struct{ name, sql string }{
	{"scan", "select count(*) from range(100000000000) t(i) where i % 7 = 8"},
	{"rows", "select i from range(100000000000) t(i)"},
	{"cross join", "select count(*) from range(1000000) a(i), range(1000000) b(j) where i + j = -1"},
	{"hash join", "select count(*) from range(100000000) a(i) join range(100000000) b(j) on i % 10 = j % 10"},
	{"join by ranges", "select count(*) from range(1000000) a(i) join range(1000000) b(j) on i < j and i * 2 > j"},
	{"left join on a condition", "select count(*) from range(1000000) a(i) left join range(1000000) b(j) on i + j = -1"},
	{"asof join", "select count(*) from range(1000000000) a(i) asof join range(1000000000) b(j) on i >= j"},
	{"sort", "select i from range(10000000000) t(i) order by hash(i)"},
	{"top", "select i from range(100000000000) t(i) order by hash(i) limit 10"},
	{"groups", "select count(*) from (select hash(i) g from range(10000000000) t(i) group by g)"},
	{"few groups", "select i % 10 g, sum(i), avg(i) from range(100000000000) t(i) group by g"},
	{"distinct", "select count(distinct hash(i)) from range(10000000000) t(i)"},
	{"window", "select sum(i) over (partition by i % 10 order by hash(i)) from range(10000000000) t(i)"},
	{"frame", "select max(s) from (select list(i) over (order by i rows between 20000 preceding and current row) s from range(2000000) t(i))"},
	{"regex", "select count(*) from range(10000000000) t(i) where regexp_matches(repeat(i::varchar, 200), '(a|b)*[0-9]+x')"},
	{"long texts by regex", "select sum(length(regexp_replace(repeat(i::varchar, 100000), '([0-9])1', '\\1\\1x', 'g'))) from range(100000000) t(i)"},
	{"md5", "select max(md5(repeat(i::varchar, 10000))) from range(10000000000) t(i)"},
	{"recursion", "with recursive r(n) as (select 1 union all select n + 1 from r where n < 1000000000) select max(n) from r"},
	{"recursion to a set", "with recursive r(n) as (select 1::bigint union select (n::bigint * 7 + 1) % 1000000007 from r) select max(n) from r"},
	{"unnest", "select count(*) from (select unnest(range(1000)) u from range(1000000000) t(i)) where u = -1"},
	{"subquery of each row", "select max((select sum(j * i) from range(100000) b(j))) from range(10000000) a(i)"},
	{"lateral join", "select count(*) from range(10000000) a(i), lateral (select sum(j) s from range(i + 1000000) b(j)) where s = -1"},
	{"lambda", "select max(len(list_filter(range(20000), x -> x % 7 = i % 7))) from range(10000000) t(i)"},
	{"texts compared", "select max(levenshtein(repeat(i::varchar, 100), repeat((i + 1)::varchar, 100))) from range(10000000) t(i)"},
	{"long texts compared", "select max(levenshtein(repeat('ab' || i, 1000), repeat('ba', 2500))) from range(10000000) t(i)"},
	{"lambda in a lambda", "select max(list_sum(list_transform(range(i, i + 10000), x -> list_sum(list_transform(range(10000), y -> x * y % 7))))) from range(10000000) t(i)"},
	{"lists searched", "select max(len(list_filter(range(i, i + 5000), x -> list_contains(range(i, i + 5000), -x)))) from range(10000000) t(i)"},
	{"range of times", "select max(len(range(timestamp '2020-01-01', timestamp '2029-01-01' + to_days(i::int), interval 1 microsecond))) from range(1, 3) t(i)"},
	{"series of times", "select max(len(generate_series(timestamp '2020-01-01', timestamp '2029-01-01' + to_days(i::int), interval 1 microsecond))) from range(1, 3) t(i)"},
	{"range of times in zones", "select max(len(range(timestamptz '2020-01-01', timestamptz '2029-01-01' + to_days(i::int), interval 1 microsecond))) from range(1, 3) t(i)"},
	{"constants", "select len(range(timestamp '2020-01-01', timestamp '2029-01-01', interval 1 microsecond)), list_sum(list_transform(range(100000), x -> list_sum(list_transform(range(10000), y -> x * y % 7))))"},
	{"bits", "select max(bit_length(bitstring('1', i::int + 1000000))) from range(10000000) t(i)"},
	{"table", `select count(*) from "table" a, "table" b, "table" c, "table" d, range(100000000) r(i) where a.id + i = -1`},
	{"payload", `select max(md5(blob_bytes(a.img))) from "table" a, range(100000000) r(i)`},
	{"descriptors", `select count(*) from "table" a, range(1000000000) r(i) where blob_size(a.img) + i = 0`},
	{"union", "select i from range(10000000000) t(i) union select -i from range(10000000000) t(i)"},
	{"pivot", "pivot (select i % 3 a, i % 5 b, i from range(10000000000) t(i)) on a in (0, 1, 2) using sum(i) group by b"},
	{"sample", "select count(*) from (from range(100000000000) t(i) using sample 10 percent)"},
}

// TestCancelled checks that the engine stops when a statement is cancelled, when
// its time is up, and when its reader gives it up, whatever it is at.
func TestCancelled(t *testing.T) {
	spill := t.TempDir()
	h := openWith(t, query.Options{Threads: 2, Memory: 256 << 20, SpillDir: spill, SpillBytes: 1 << 30}, "kinds_basic_v22")
	for _, s := range endless {
		t.Run(s.name, func(t *testing.T) {
			mine := errors.New("the caller has seen enough")
			ctx, cancel := context.WithCancelCause(t.Context())
			result := make(chan error, 1)
			go func() {
				_, _, err := h.try(ctx, query.Session{}, schema.Materialized, s.sql)
				result <- err
			}()
			time.Sleep(300 * time.Millisecond)
			begun := time.Now()
			cancel(mine)
			select {
			case err := <-result:
				if !errors.Is(err, mine) {
					t.Fatalf("ended with %v", err)
				}
			case <-time.After(stopping):
				t.Fatalf("goes on %s after it was cancelled", stopping)
			}
			t.Logf("stopped after %s", time.Since(begun))
			if n := h.engine.Stats().Working; n != 0 {
				t.Errorf("the engine is at work on %d statements", n)
			}
		})
	}
	spills(t, spill)
}

// stopping is how long a machine that has other things to do may take.
const stopping = 30 * time.Second

func TestTimeout(t *testing.T) {
	h := openWith(t, query.Options{Threads: 2, Memory: 256 << 20, SpillDir: t.TempDir(), Timeout: 300 * time.Millisecond}, "kinds_basic_v22")
	for _, s := range endless {
		_, _, err := h.try(t.Context(), query.Session{}, schema.Materialized, s.sql)
		if fault.KindOf(err) != fault.Exhausted {
			t.Errorf("%s: %v", s.name, err)
		}
		if n := h.engine.Stats().Working; n != 0 {
			t.Errorf("%s: the engine is at work on %d statements", s.name, n)
		}
	}
}
