package query_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/flightblob/flightblob/catalog"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/query"
	"github.com/flightblob/flightblob/schema"
	"github.com/flightblob/flightblob/table/tabletest"
)

// lines is a log that tells what was written since it was asked last.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.buf.Reset()
	return l.buf.String()
}

// indexed is a house over the tables of testdata/indexed.py, with a log.
func indexed(t *testing.T) (*house, *lines, string) {
	t.Helper()
	script, err := os.ReadFile("testdata/indexed.py")
	if err != nil {
		t.Fatal(err)
	}
	root := os.Getenv("FLIGHTBLOB_INDEXED") // tables of an earlier run
	if root == "" {
		root = t.TempDir()
		tabletest.Pylance(t, string(script), root)
	}
	h := &house{tb: t, counter: objstore.NewCounter(objstore.CounterOptions{})}
	h.over([]catalog.Root{{URI: root}}, root)
	log := &lines{}
	h.start(query.Options{Threads: 2, Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	return h, log, root
}

// ids runs a statement with one column of integers, with values for its
// parameters.
func (h *house) ids(sql string, params ...arrow.Array) []int64 {
	h.tb.Helper()
	st, err := h.engine.Prepare(h.tb.Context(), query.Session{}, sql)
	if err != nil {
		h.tb.Fatalf("%s: %v", sql, err)
	}
	defer st.Close()
	if len(params) > 0 {
		fields := make([]arrow.Field, len(params))
		for i, p := range params {
			fields[i] = arrow.Field{Name: fmt.Sprint(i + 1), Type: p.DataType()}
		}
		values := array.NewRecordBatch(arrow.NewSchema(fields, nil), params, 1)
		defer values.Release()
		if err := st.Bind(values, 0); err != nil {
			h.tb.Fatalf("%s: %v", sql, err)
		}
	}
	r, err := st.Query(h.tb.Context(), query.QueryOptions{View: schema.Descriptor, AsPrepared: true})
	if err != nil {
		h.tb.Fatalf("%s: %v", sql, err)
	}
	defer r.Release()
	ids := []int64{}
	for r.Next() {
		ids = append(ids, r.RecordBatch().Column(0).(*array.Int64).Int64Values()...)
	}
	if err := r.Err(); err != nil {
		h.tb.Fatalf("%s: %v", sql, err)
	}
	return ids
}

// literals make a value of each column as SQL writes it.
var literals = map[string]func(r *rand.Rand) string{
	"i8":    numberIn(-22, 22),
	"i32":   numberIn(-3100, 3100),
	"i64":   oneOf(numberIn(-3100, 3100), fixed("9223372036854775807", "-9223372036854775807", "9007199254740992", "9007199254740993", "9007199254740993::DOUBLE")),
	"u64":   oneOf(numberIn(0, 3100), fixed("18446744073709551615", "9223372036854775808", "9223372036854775808::DOUBLE")),
	"f16":   fraction,
	"f32":   fraction,
	"f64":   fraction,
	"fb":    oneOf(fraction, fixed("1", "2.5")),
	"d128":  cents,
	"d256":  cents,
	"day":   oneOf(inDays("DATE"), inDays("TIMESTAMP")),
	"day64": oneOf(inDays("DATE"), inDays("TIMESTAMP")),
	"t32": func(r *rand.Rand) string {
		return fmt.Sprintf("TIME '%02d:%02d:%02d'", r.IntN(24), r.IntN(60), r.IntN(60))
	},
	"t64": func(r *rand.Rand) string {
		return fmt.Sprintf("'%02d:%02d:%02d.5'::TIME_NS", r.IntN(24), r.IntN(60), r.IntN(60))
	},
	"ts":     moment("TIMESTAMP", 1e6, "second"),
	"tms":    moment("TIMESTAMP", 22, "millisecond"),
	"tus":    moment("TIMESTAMP", 3100, "microsecond"),
	"tz":     moment("TIMESTAMPTZ", 3100, "microsecond"),
	"tns":    func(r *rand.Rand) string { return fmt.Sprintf("make_timestamp_ns(%d)", r.IntN(6200)-3100) },
	"s":      oneOf(word, func(r *rand.Rand) string { return fmt.Sprintf("'name %d'", r.IntN(3000)) }, fixed("'changed'", "'name 7!'")),
	"ls":     word,
	"bin":    bytesOf,
	"fsb":    bytesOf,
	"flag":   fixed("true", "false"),
	"word":   oneOf(word, fixed("'changed'", "'ok'")),
	"sparse": numberIn(-2, 52),
	"st.x":   numberIn(-2, 910),
	"uniq":   numberIn(-5, 9005),
	"id":     numberIn(-5, 9005), // has no index
}

func numberIn(low, high int) func(*rand.Rand) string {
	return func(r *rand.Rand) string {
		n := low + r.IntN(high-low+1)
		switch r.IntN(12) {
		case 0:
			return fmt.Sprintf("%d.5", n)
		case 1:
			return fmt.Sprintf("%d::DOUBLE", n)
		case 2:
			return fmt.Sprintf("(%d + 0.25::FLOAT)", n)
		}
		return fmt.Sprint(n)
	}
}

func oneOf(of ...func(*rand.Rand) string) func(*rand.Rand) string {
	return func(r *rand.Rand) string { return of[r.IntN(len(of))](r) }
}

func fixed(values ...string) func(*rand.Rand) string {
	return func(r *rand.Rand) string { return values[r.IntN(len(values))] }
}

func fraction(r *rand.Rand) string {
	return oneOf(fixed("'nan'::DOUBLE", "'nan'::FLOAT", "0", "-0.0", "'inf'::DOUBLE", "'-inf'::FLOAT", "0.1", "0.1::DOUBLE"),
		func(r *rand.Rand) string { return fmt.Sprint(float64(r.IntN(8400)-4200) / 4) })(r)
}

func cents(r *rand.Rand) string {
	return fmt.Sprintf([]string{"%.2f", "%.0f", "%.3f", "%.2f::DOUBLE"}[r.IntN(4)], float64(r.IntN(210000)-105000)/100)
}

func inDays(typ string) func(*rand.Rand) string {
	return func(r *rand.Rand) string {
		return fmt.Sprintf("(DATE '1970-01-01' + %d)::%s", r.IntN(6200)-3100, typ)
	}
}

func moment(typ string, most int, unit string) func(*rand.Rand) string {
	return func(r *rand.Rand) string {
		return fmt.Sprintf("(%s '1970-01-01 00:00:00+00' + INTERVAL '%d %s')", typ, r.IntN(2*most)-most, unit)
	}
}

var word = fixed("''", "'a'", "'ab'", "'abc'", "'b'", "'Ünï'", "'zz'", "'日本'", "'nothing'", "chr(128512)", "'a' || chr(0) || 'b'")

func bytesOf(r *rand.Rand) string {
	return fmt.Sprintf(`'%s'::BLOB`, []string{"", `\x00`, `\xFF`, `A`, `\x27`, `\x5C\x41`, `\x01\x02`, `\xFF\xFE`}[r.IntN(8)])
}

var columnNames = func() (names []string) {
	for n := range literals {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}()

// predicate makes a condition.
func predicate(r *rand.Rand, depth int) string {
	if depth > 0 && r.IntN(3) > 0 {
		a, b := predicate(r, depth-1), predicate(r, depth-1)
		switch r.IntN(5) {
		case 0:
			return "(" + a + " OR " + b + ")"
		case 1:
			return "NOT (" + a + " AND " + b + ")"
		case 2:
			return "NOT (" + a + " OR " + b + ")"
		}
		return "(" + a + " AND " + b + ")"
	}
	c := columnNames[r.IntN(len(columnNames))]
	value := func() string {
		if r.IntN(40) == 0 {
			return "NULL"
		}
		return literals[c](r)
	}
	switch r.IntN(12) {
	case 0:
		return c + " IS NULL"
	case 1:
		return c + " IS NOT NULL"
	case 2, 3:
		return fmt.Sprintf("%s BETWEEN %s AND %s", c, value(), value())
	case 4:
		list := []string{}
		for range 1 + r.IntN(12) {
			list = append(list, value())
		}
		return fmt.Sprintf("%s %sIN (%s)", c, []string{"", "", "NOT "}[r.IntN(3)], strings.Join(list, ", "))
	case 5:
		return fmt.Sprintf("%s IS %sDISTINCT FROM %s", c, []string{"", "NOT "}[r.IntN(2)], value())
	case 6:
		if c == "s" || c == "ls" || c == "word" {
			return fmt.Sprintf("%s%s LIKE '%s%%'", []string{"", "NOT "}[r.IntN(2)], c, []string{"a", "name 1", "name 12", "Ü", "日", ""}[r.IntN(6)])
		}
		if c == "flag" {
			return []string{"flag", "NOT flag"}[r.IntN(2)]
		}
	}
	op := []string{"=", "=", "=", "<", "<=", ">", ">=", "<>"}[r.IntN(8)]
	if r.IntN(6) == 0 {
		return fmt.Sprintf("%s %s %s", value(), op, c)
	}
	return fmt.Sprintf("%s %s %s", c, op, value())
}

// TestLookups compares random conditions over tables with indexes in all states
// with a scan that does not use them.
func TestLookups(t *testing.T) {
	h, log, root := indexed(t)
	tables, err := filepath.Glob(filepath.Join(root, "*.lance"))
	if err != nil || len(tables) < 12 {
		t.Fatalf("%d tables: %v", len(tables), err)
	}
	seed, rounds := uint64(1), 50
	if text := os.Getenv("FLIGHTBLOB_SEED"); text != "" {
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
		rounds = 500
	}
	r := rand.New(rand.NewPCG(seed, 0))
	used := map[string]int{}
	for _, path := range tables {
		name := strings.TrimSuffix(filepath.Base(path), ".lance")
		t.Run(name, func(t *testing.T) {
			h.tb = t
			for range rounds {
				where := predicate(r, r.IntN(3))
				if strings.Contains(where, "f64") && name == "columns" {
					continue
				}
				want := h.ids("SELECT id FROM " + name + " WHERE random() >= 0 AND (" + where + ")")
				if text := log.take(); text != "" {
					t.Fatalf("%s: the plain scan logs %s", where, text)
				}
				slices.Sort(want)
				got := h.ids("SELECT id FROM " + name + " WHERE " + where)
				text := log.take()
				if strings.Contains(text, "level=WARN") {
					t.Errorf("%s: %s", where, text)
				}
				if strings.Contains(text, "indexes were used") {
					used[name]++
				}
				slices.Sort(got)
				if !slices.Equal(got, want) {
					t.Errorf("%s: %d rows, without indexes %d\n%s", where, len(got), len(want), text)
				}
			}
		})
	}
	t.Logf("indexes were used: %v", used)
	for _, path := range tables {
		name := strings.TrimSuffix(filepath.Base(path), ".lance")
		if used[name] < rounds/10 && name != "deferred" && !t.Failed() {
			t.Errorf("indexes of %s were used %d times of %d", name, used[name], rounds)
		}
	}
}
