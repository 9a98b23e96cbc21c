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
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/flightblob/flightblob/catalog"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/query"
	"github.com/flightblob/flightblob/schema"
	"github.com/flightblob/flightblob/table"
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
		if err := st.Bind(h.tb.Context(), values, 0); err != nil {
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

// TestLookups compares what is answered by indexes, over tables with indexes in
// all states, with scans that do not use them.
func TestLookups(t *testing.T) {
	h, log, root := indexed(t)
	t.Run("random conditions", func(t *testing.T) { compareRandom(t, h, log, root) })
	t.Run("parameters", func(t *testing.T) { compareParams(t, h, log) })
	t.Run("filters", func(t *testing.T) { compareFilters(t, h, log, root) })
	t.Run("shapes of statements", func(t *testing.T) { checkShapes(t, h, log) })
	t.Run("rows", func(t *testing.T) { compareRows(t, h, log) })
	t.Run("bytes", func(t *testing.T) { countBytes(t, h) })
	t.Run("moved rows", func(t *testing.T) { compareMoved(t, h, log, root) })
	t.Run("damage", func(t *testing.T) { checkDamage(t, root) })
}

func compareRandom(t *testing.T, h *house, log *lines, root string) {
	tables, err := filepath.Glob(filepath.Join(root, "*.lance"))
	if err != nil || len(tables) < 12 {
		t.Fatalf("%d tables: %v", len(tables), err)
	}
	seed, rounds := uint64(1), 30
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
		if name == "large" || name == "noted" {
			continue
		}
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
		if used[name] < rounds/10 && !slices.Contains([]string{"large", "noted", "lost"}, name) && !t.Failed() {
			t.Errorf("indexes of %s were used %d times of %d", name, used[name], rounds)
		}
	}
}

// compareParams binds values of the types that clients send.
func compareParams(t *testing.T, h *house, log *lines) {
	h.tb = t
	number := func(b array.Builder, text string) arrow.Array {
		defer b.Release()
		if err := b.AppendValueFromString(text); err != nil {
			t.Fatal(err)
		}
		return b.NewArray()
	}
	of := func(dt arrow.DataType, text string) arrow.Array {
		return number(array.NewBuilder(memory.DefaultAllocator, dt), text)
	}
	for _, c := range []struct {
		where  string
		params []arrow.Array
		used   bool // an index must be used
	}{
		{"i32 = ?", []arrow.Array{of(arrow.PrimitiveTypes.Int64, "17")}, true},
		{"i32 = ?", []arrow.Array{of(arrow.PrimitiveTypes.Int32, "17")}, true},
		{"i32 = ?", []arrow.Array{of(arrow.PrimitiveTypes.Uint64, "17")}, true},
		{"i32 = ?", []arrow.Array{of(arrow.PrimitiveTypes.Float64, "17.5")}, false},
		{"i32 = ?", []arrow.Array{of(arrow.PrimitiveTypes.Float64, "17")}, false},
		{"i32 = ?", []arrow.Array{array.MakeArrayOfNull(memory.DefaultAllocator, arrow.PrimitiveTypes.Int32, 1)}, false}, // no row at all
		{"i32 BETWEEN ? AND ?", []arrow.Array{of(arrow.PrimitiveTypes.Int64, "17"), of(arrow.PrimitiveTypes.Int64, "30")}, true},
		{"i32 IN (?, ?, 5)", []arrow.Array{of(arrow.PrimitiveTypes.Int64, "17"), of(arrow.PrimitiveTypes.Int64, "-30")}, true},
		{"u64 = ?", []arrow.Array{of(arrow.PrimitiveTypes.Uint64, "18446744073709551615")}, false}, // a third of the rows
		{"u64 = ?", []arrow.Array{of(arrow.PrimitiveTypes.Int64, "5")}, true},
		{"u64 < ?", []arrow.Array{of(arrow.PrimitiveTypes.Int64, "-5")}, true},
		{"f32 = ?", []arrow.Array{of(arrow.PrimitiveTypes.Float64, "0.25")}, true},
		{"f32 = ?", []arrow.Array{of(arrow.PrimitiveTypes.Float64, "0.1")}, false},
		{"f32 = ?", []arrow.Array{of(arrow.PrimitiveTypes.Float32, "0.5")}, true},
		{"f64 > ?", []arrow.Array{of(arrow.PrimitiveTypes.Int64, "990")}, true},
		{"f64 = ?", []arrow.Array{of(arrow.PrimitiveTypes.Float64, "NaN")}, true},
		{"s = ?", []arrow.Array{of(arrow.BinaryTypes.String, "name 7")}, true},
		{"s = $1 OR s = $1 || '0'", []arrow.Array{of(arrow.BinaryTypes.String, "name 7")}, true},
		{"bin = ?", []arrow.Array{of(arrow.BinaryTypes.Binary, "")}, false},
		{"fsb = ?", []arrow.Array{of(arrow.BinaryTypes.LargeBinary, "QUI=")}, true},
		{"day = ?", []arrow.Array{of(arrow.FixedWidthTypes.Date32, "1970-02-01")}, true},
		{"day64 = ?", []arrow.Array{of(arrow.FixedWidthTypes.Date32, "1970-02-01")}, true},
		{"day = ?", []arrow.Array{of(arrow.BinaryTypes.String, "1970-02-01")}, true},
		{"day < ?", []arrow.Array{of(arrow.BinaryTypes.String, "1962-2-1")}, false},
		{"ts < ?", []arrow.Array{of(&arrow.TimestampType{Unit: arrow.Second}, "1969-12-20 12:13:14")}, true},
		{"tus = ?", []arrow.Array{of(&arrow.TimestampType{Unit: arrow.Nanosecond}, "1970-01-01 00:00:00.000001000")}, true},
		{"tz = ?", []arrow.Array{of(&arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}, "1970-01-01 00:00:00.000001Z")}, true},
		{"t32 = ?", []arrow.Array{of(arrow.FixedWidthTypes.Time64us, "12:13:14")}, true},
		{"d128 = ?", []arrow.Array{of(&arrow.Decimal128Type{Precision: 12, Scale: 2}, "12.25")}, true},
		{"d128 = ?", []arrow.Array{of(&arrow.Decimal128Type{Precision: 12, Scale: 3}, "12.255")}, false},
		{"flag = ?", []arrow.Array{of(arrow.FixedWidthTypes.Boolean, "true")}, true},
		{"st.x = ?", []arrow.Array{of(arrow.PrimitiveTypes.Int64, "17")}, true},
		{"uniq = $a OR uniq = $b", []arrow.Array{of(arrow.PrimitiveTypes.Int64, "17"), of(arrow.PrimitiveTypes.Int64, "19")}, true},
	} {
		for range 2 { // the second time the statement is known
			log.take()
			got := h.ids("SELECT id FROM plain WHERE "+c.where, c.params...)
			if !strings.Contains(log.take(), "indexes were used") && c.used {
				t.Errorf("%s of %v: no index was used", c.where, c.params)
			}
			want := h.ids("SELECT id FROM plain WHERE random() >= 0 AND ("+c.where+")", c.params...)
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("%s of %v: %d rows, want %d", c.where, c.params, len(got), len(want))
			}
		}
		for _, p := range c.params {
			p.Release()
		}
	}
}

// compareFilters asks for rows by filters, as tickets do.
func compareFilters(t *testing.T, h *house, log *lines, root string) {
	r := rand.New(rand.NewPCG(11, 12))
	used := 0
	for range 40 {
		for _, name := range []string{"plain", "deleted", "stable", "appended"} {
			snap := tabletest.At(t, tabletest.Open(t, tabletest.Env(t, root), filepath.Join(root, name+".lance")), table.Ref{})
			where := predicate(r, r.IntN(2))
			rows := func(predicate string) (out []uint64) {
				t.Helper()
				for some, err := range h.engine.Positions(t.Context(), query.FilterRequest{Snapshot: snap, Predicate: predicate}) {
					if err != nil {
						t.Fatalf("%s: %v", predicate, err)
					}
					out = append(out, some...)
				}
				return out
			}
			want := rows("random() >= 0 AND (" + where + ")")
			log.take()
			got := rows(where)
			if strings.Contains(log.take(), "indexes were used") {
				used++
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: %s: %d positions, want %d", name, where, len(got), len(want))
			}
		}
	}
	if used < 20 {
		t.Errorf("indexes were used %d times", used)
	}
}

// checkShapes has statements in which the condition is not that of the statement
// itself, or is not to be used.
func checkShapes(t *testing.T, h *house, log *lines) {
	h.tb = t
	for _, c := range []struct {
		sql  string // # stands for what keeps indexes away
		used bool
	}{
		{"SELECT count(*) FROM plain WHERE uniq = 77#", true},
		{"SELECT count(*) FROM plain WHERE uniq = 78#", true}, // the same but for the value
		{"SELECT count(*) FROM plain WHERE uniq = 79 AND id IN (SELECT id FROM plain)#", false},
		{"SELECT id FROM (SELECT * FROM plain WHERE i8 >= -30) WHERE uniq BETWEEN 10 AND 19#", true},
		{"SELECT a.id FROM plain a JOIN appended b ON a.id = b.id WHERE a.uniq IN (5, 6) AND b.i32 > 2000#", true},
		{"SELECT a.id FROM plain a LEFT JOIN appended b ON a.uniq = b.uniq WHERE b.uniq = 7#", true},
		{"SELECT coalesce(b.id, -1) FROM plain a LEFT JOIN appended b ON a.uniq = b.uniq AND b.uniq = 7 WHERE a.id < 10#", true},
		{"SELECT a.id FROM plain a, plain b WHERE a.uniq = 3 AND b.uniq = 4#", true},
		{"SELECT a.id FROM plain a, plain b WHERE a.uniq = 3 AND b.id = 4#", false},
		{"SELECT id FROM (SELECT * FROM plain ORDER BY id LIMIT 100) WHERE uniq < 50#", false},
		{"SELECT id + r FROM (SELECT *, row_number() OVER (ORDER BY id) AS r FROM plain) WHERE uniq = 50#", false},
		{"SELECT max(id) FROM plain WHERE uniq < 20 GROUP BY i8 ORDER BY 1#", true},
		{"WITH x AS (SELECT * FROM plain WHERE uniq < 20) SELECT x.id FROM x, x y WHERE x.id = y.id AND x.i32 IS NOT NULL ORDER BY 1#", true},
		{"SELECT id FROM plain WHERE uniq = 3 UNION ALL SELECT id FROM plain WHERE uniq = 4#", true},
		{"SELECT id FROM plain WHERE uniq = 3 UNION ALL SELECT id FROM plain WHERE id = 4#", false},
		{"SELECT id FROM plain AT (VERSION => 1) WHERE uniq = 3#", false}, // before the indexes
		{"SELECT id FROM lance_scan('plain', row_ids := true) WHERE uniq = 3#", true},
		{"SELECT id FROM plain WHERE tus < now()::TIMESTAMP AND uniq = 3#", false},
		{"SELECT id FROM plain WHERE uniq = 3 + 4 * 5#", true},
		{"SELECT id FROM plain WHERE s COLLATE NOCASE = 'NAME 7'#", false},
		{"SELECT id FROM plain WHERE id = 7#", false},
		{"SELECT id FROM plain WHERE uniq = 7 OR id = 7#", false},
		{"SELECT id FROM plain WHERE uniq < 8000#", false},
		{"SELECT id FROM plain WHERE i8 = 3 AND i32 BETWEEN 100 AND 200#", true},
		{"SELECT id FROM plain WHERE u64 < 20::HUGEINT#", true},
		{"SELECT id FROM plain WHERE d128 BETWEEN 12.25::DECIMAL(38,10) AND 13#", true},
		{"SELECT id FROM plain WHERE sparse IS NOT NULL#", true},
		{"SELECT id FROM plain WHERE st.x = 7#", true},
		{"SELECT id FROM plain WHERE st.x IS NULL#", false},
		{"SELECT id FROM plain WHERE st.x IS NOT DISTINCT FROM NULL#", false},
		{"SELECT id FROM plain WHERE s LIKE 'name 12%' AND NOT flag#", true},
	} {
		log.take()
		got := h.ids(strings.Replace(c.sql, "#", "", 1))
		if text := log.take(); strings.Contains(text, "indexes were used") != c.used {
			t.Errorf("%s: indexes used: %v", c.sql, !c.used)
		}
		plain := strings.NewReplacer("FROM plain", "FROM (SELECT * FROM plain WHERE random() >= 0)", "FROM appended", "FROM (SELECT * FROM appended WHERE random() >= 0)",
			"JOIN appended", "JOIN (SELECT * FROM appended WHERE random() >= 0)", ", plain", ", (SELECT * FROM plain WHERE random() >= 0)", "#", "").Replace(c.sql)
		if strings.Contains(c.sql, "AT (") {
			plain = "SELECT id FROM plain WHERE uniq = 3"
		}
		want := h.ids(plain)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) || len(got) == 0 && c.used {
			t.Errorf("%s: %d rows, want %d", c.sql, len(got), len(want))
		}
	}
}

// compareRows asks for all columns, of which wide ones are read late.
func compareRows(t *testing.T, h *house, log *lines) {
	h.tb = t
	for _, tail := range []string{"uniq BETWEEN 100 AND 140 ORDER BY id", "i32 = 77 ORDER BY id", "uniq IN (8, 7, 6) ORDER BY id LIMIT 2", "sparse = 7 ORDER BY id DESC LIMIT 5", "uniq = 3 LIMIT 10"} {
		for _, name := range []string{"plain", "deleted", "stable", "moved", "clone"} {
			log.take()
			got := h.query("SELECT * EXCLUDE (f16, f32, f64, fb) FROM " + name + " WHERE " + tail)
			if !strings.Contains(log.take(), "indexes were used") {
				t.Errorf("%s: %s: no index was used", name, tail)
			}
			if want := h.query("SELECT * EXCLUDE (f16, f32, f64, fb) FROM " + name + " WHERE random() >= 0 AND " + tail); got != want {
				t.Errorf("%s: %s gives %.300s, want %.300s", name, tail, got, want)
			}
		}
	}
}

// countBytes proves that few bytes are read.
func countBytes(t *testing.T, h *house) {
	h.tb = t
	read := func(sql string) int64 {
		t.Helper()
		h.counter.Reset()
		if out := h.query(sql); !strings.Contains(out, ":") {
			t.Errorf("%s: %s", sql, out)
		}
		return h.counter.Total().Bytes
	}
	read("SELECT key, payload FROM large WHERE random() >= 0") // opens the files
	whole := read("SELECT key, payload FROM large WHERE random() >= 0")
	if whole < 24<<20 {
		t.Fatalf("the table has %d bytes", whole)
	}
	first := read("SELECT payload FROM large WHERE key = 123456")
	later := read("SELECT payload FROM large WHERE key = 123457")
	if first > 512<<10 || later > 64<<10 {
		t.Errorf("a row is looked up with %d bytes, then with %d, of %d", first, later, whole)
	}
	if n := read("SELECT count(*) AS n FROM large WHERE key = 99"); n > 64<<10 {
		t.Errorf("a row is counted with %d bytes", n)
	}
	group := read(`SELECT max(payload) AS m FROM large WHERE "group" = 7`)
	if group > whole/4 {
		t.Errorf("a group of one in 500 rows is read with %d of %d bytes", group, whole)
	}
}

// compareMoved has notes of moved rows in a file of their own.
func compareMoved(t *testing.T, h *house, log *lines, root string) {
	h.tb = t
	if notes, err := filepath.Glob(filepath.Join(root, "noted.lance/_indices/*/details.binpb")); err != nil || len(notes) != 1 {
		t.Fatalf("%d notes: %v", len(notes), err)
	}
	for _, where := range []string{"key = 0", "key = 7919", "key = 15838", "key BETWEEN 1000000 AND 1000100", "key IN (5, 50, 500, 5000)"} {
		want := h.ids("SELECT id FROM noted WHERE random() >= 0 AND " + where)
		log.take()
		got := h.ids("SELECT id FROM noted WHERE " + where)
		if !strings.Contains(log.take(), "indexes were used") {
			t.Errorf("%s: no index was used", where)
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s: rows %v, want %v", where, got, want)
		}
	}
}

// checkDamage spoils indexes: answers stay right, and the log tells.
func checkDamage(t *testing.T, root string) {
	for what, spoil := range map[string]func(dir string) error{
		"files are gone": os.RemoveAll,
		"files are cut": func(dir string) error {
			return eachFile(dir, func(b []byte) []byte { return b[:len(b)/2] })
		},
		"files are of zeros": func(dir string) error {
			return eachFile(dir, func(b []byte) []byte { return make([]byte, len(b)) })
		},
		"files are of others": func(dir string) error {
			return eachFile(dir, func(b []byte) []byte {
				for i := range len(b) / 2 {
					b[i] ^= 0x55
				}
				return b
			})
		},
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.CopyFS(filepath.Join(dir, "t.lance"), os.DirFS(filepath.Join(root, "appended.lance"))); err != nil {
				t.Fatal(err)
			}
			folders, err := filepath.Glob(filepath.Join(dir, "t.lance/_indices/*"))
			if err != nil || len(folders) < 20 {
				t.Fatalf("%d indexes: %v", len(folders), err)
			}
			for _, f := range folders {
				if err := spoil(f); err != nil {
					t.Fatal(err)
				}
			}
			h := &house{tb: t, counter: objstore.NewCounter(objstore.CounterOptions{})}
			h.over([]catalog.Root{{URI: dir}}, dir)
			log := &lines{}
			h.start(query.Options{Threads: 2, Log: slog.New(slog.NewTextHandler(log, nil))})
			for _, where := range []string{"uniq = 5", "i8 = 3", "s = 'name 5' AND uniq < 4000", "i32 = 4 OR word = 'zz'", "flag"} {
				log.take()
				got := h.ids("SELECT id FROM t WHERE " + where)
				if text := log.take(); !strings.Contains(text, "an index cannot be used") || !strings.Contains(text, "table=t") {
					t.Errorf("%s: the log has %q", where, text)
				}
				want := h.ids("SELECT id FROM t WHERE random() >= 0 AND " + where)
				slices.Sort(got)
				slices.Sort(want)
				if !slices.Equal(got, want) {
					t.Errorf("%s: %d rows, want %d", where, len(got), len(want))
				}
			}
		})
	}
}

// eachFile changes the files of a folder.
func eachFile(dir string, change func([]byte) []byte) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, f := range files {
		path := filepath.Join(dir, f.Name())
		b, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, change(b), 0o600)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
