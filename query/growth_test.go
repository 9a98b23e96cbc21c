package query_test

import (
	"strings"
	"testing"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/query"
	"github.com/flightblob/flightblob/query/engine"
	"github.com/flightblob/flightblob/schema"
)

// growing are expressions over a number i whose values can be much larger than
// what they are made of: n is a number that makes them too large for an engine of
// 64 MiB, and one that does not, with the value that they have then for i = 1.
var growing = []struct {
	name, expression string
	above, below     string
	want             string
}{
	{"range", "len(range(i * n))", "60000000", "100000", "100000"},
	{"range of times", "len(range(timestamp '2020-01-01', timestamp '2020-01-01' + to_seconds(i * n), interval 1 second))", "35000000", "3600", "3600"},
	{"range, qualified", "len(system.main.range(i * n))", "60000000", "1000", "1000"},
	{"range, chained", "len(n.range(n * i + n))", "60000000", "1000", "1000"},
	{"generate_series", "len(generate_series(0, i * n))", "60000000", "99999", "100000"},
	{"unnest of range", "(select count(*) from (select unnest(range(i * n))))", "60000000", "1000", "1000"},
	{"list_resize", "len(list_resize([i], i * n))", "60000000", "1000", "1000"},
	{"array_resize", "len(array_resize([i], i * n, i))", "60000000", "1000", "1000"},
	{"repeat", "length(repeat(chr(64 + i::int), n + i))", "300000000", "999", "1000"},
	{"repeat of lists", "len(repeat([i], i * n))", "60000000", "1000", "1000"},
	{"lpad", "length(lpad(i::varchar, i::int + n, 'ab'))", "300000000", "999", "1000"},
	{"rpad", "length(rpad(i::varchar, i::int + n, 'ab'))", "300000000", "999", "1000"},
	{"printf", "length(printf('%' || (i + n) || 'd', i))", "300000000", "999", "1000"},
	{"format", "length(format('{:' || (i + n) || 'd}', i))", "300000000", "999", "1000"},
	{"bitstring", "length(bitstring('1', i::int + n))", "2147000000", "999", "1000"},
	{"replace", "length(replace(repeat('a', i::int + n), 'a', repeat('b', n)))", "30000", "99", "9900"},
	{"regexp_replace", "length(regexp_replace(repeat('a', i::int + n), 'a', repeat('b', n), 'g'))", "30000", "99", "9900"},
	{"translate", "octet_length(encode(translate(repeat('a', i::int + n), 'a', '𝄞')))", "80000000", "999", "4000"},
	{"hex", "length(hex(repeat(chr(64 + i::int), n)))", "80000000", "999", "1998"},
	{"to_base64", "length(base64(repeat(chr(64 + i::int), n)::blob))", "120000000", "999", "1332"},
	{"url_encode", "length(url_encode(repeat('%', i::int + n)))", "60000000", "999", "3000"},
	{"strftime", "length(strftime(date '2020-01-01' + i::int, repeat('%Y', n)))", "60000000", "100", "400"},
	{"concat_ws", "length(concat_ws(repeat('x', n), i, i, i, i, i, i))", "40000000", "100", "506"},
	{"concat", "length(concat(repeat('x', n), i, repeat('x', n), repeat('y', n)))", "60000000", "100", "301"},
	{"||", "length(repeat('x', n) || i || repeat('y', n))", "90000000", "100", "201"},
	{"list_concat", "len(list_concat(range(i * n), range(n), range(n)))", "8000000", "100", "300"},
	{"list_transform", "len(flatten(list_transform(range(i * n), x -> range(n))))", "8000", "10", "100"},
	{"list comprehension", "len(flatten([range(n) for x in range(i * n)]))", "8000", "10", "100"},
	{"list_reduce", "len(list_reduce([[x] for x in range(i, i + n)], (a, b) -> a || a))", "28", "8", "128"},
	{"list_zip", "len(list_zip(range(i * n), range(n)))", "16000000", "100", "100"},
	{"list_aggregate", "length(list_aggregate(range(i * n), 'string_agg', repeat('x', 100)))", "3000000", "10", "910"},
	{"array_to_string", "length(array_to_string(range(i * n), repeat('x', 100)))", "3000000", "10", "910"},
	{"list_distinct", "len(list_distinct(range(i * n)))", "8000000", "100", "100"},
	{"list_grade_up", "len(list_grade_up(range(i * n)))", "16000000", "100", "100"},
	{"string_split", "len(string_split(repeat('a,', i::int + n), ','))", "12000000", "99", "101"},
	{"cast to text", "length(range(i * n)::varchar)", "16000000", "10", "30"},
	{"to_json", "length(to_json(range(i * n))::varchar)", "16000000", "10", "21"},
	{"map", "cardinality(map_from_entries([(x, x) for x in range(i * n)]))", "8000000", "10", "10"},
	{"damerau_levenshtein", "damerau_levenshtein(repeat('ab', n), repeat('ba', n + i::int))", "6000", "100", "2"},
	{"string_agg", "(select length(string_agg(repeat('x', n) || i || t, ',')) from range(1000) u(t))", "300000", "10", "14889"},
	{"list", "(select len(list(i * n + t)) from range(n) u(t))", "30000000", "100", "100"},
	{"array_agg in order", "(select len(array_agg(t order by -t * i)) from range(n) u(t))", "30000000", "100", "100"},
	{"histogram", "(select cardinality(histogram(t * i)) from range(n) u(t))", "8000000", "100", "100"},
	{"mode", "(select mode(t * i) is null from range(n) u(t))", "8000000", "100", "false"},
	{"median", "(select median(t * i)::bigint from range(n) u(t))", "80000000", "101", "50"},
	{"window", "(select max(s)::bigint from (select sum(t) over (order by -t) s from range(n) u(t)))", "30000000", "100", "4950"},
	{"recursion over text", "(with recursive r(k, s) as (select 1, 'abc' || i union all select k + 1, s || s from r where k < n) select max(length(s)) from r)", "40", "4", "32"},
	{"recursion over lists", "(with recursive r(k, s) as (select 1, [i] union all select k + 1, list_concat(s, s) from r where k < n) select max(len(s)) from r)", "40", "4", "8"},
}

// TestGrowth asks for values that no engine of this size may hold: they are
// refused with advice, the engine goes on, and smaller ones of the same kind are
// right.
func TestGrowth(t *testing.T) {
	h := openWith(t, query.Options{Threads: 2, Memory: 64 << 20}, "kinds_basic_v22")
	if engine.Ceiling() == 0 {
		t.Fatal("nothing counts what the engine holds")
	}
	for _, g := range growing {
		t.Run(g.name, func(t *testing.T) {
			of := func(n, from string) string {
				text := "select " + g.expression + " as x from range(1, " + from + ") t(i)"
				return within(text, n)
			}
			_, _, err := h.try(t.Context(), query.Session{}, schema.Materialized, of(g.above, "3"))
			if fault.KindOf(err) != fault.Exhausted {
				t.Fatalf("%s: %v", of(g.above, "3"), err)
			}
			if !strings.Contains(err.Error(), "--sql-memory, which is 64 MiB") {
				t.Errorf("no advice: %v", err)
			}
			if got := h.query(of(g.below, "2")); got != `[{"x":`+g.want+"}\n]" {
				t.Errorf("%s: %s", of(g.below, "2"), got)
			}
		})
	}
	if held := engine.Held(); held > 32<<20 {
		t.Errorf("the engine holds %d bytes after all", held)
	}
}

// within puts a number in the place of the word n.
func within(text, n string) string {
	var out strings.Builder
	letter := func(c byte) bool { return c >= 'a' && c <= 'z' || c == '_' || c == '%' }
	for i := range len(text) {
		alone := text[i] == 'n' && (i == 0 || !letter(text[i-1])) && (i+1 == len(text) || !letter(text[i+1]))
		if alone {
			out.WriteString("(" + n + ")")
		} else {
			out.WriteByte(text[i])
		}
	}
	return out.String()
}
