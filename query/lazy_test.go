package query_test

import (
	"encoding/base64"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/flightblob/flightblob/catalog"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/query"
	"github.com/flightblob/flightblob/schema"
	"github.com/flightblob/flightblob/table"
	"github.com/flightblob/flightblob/table/tabletest"
)

// TestLateColumns checks statements that pass wide columns on: the values are
// those of the rows, and those of other rows are not read.
func TestLateColumns(t *testing.T) {
	root := t.TempDir()
	tabletest.Pylance(t, allTypes, filepath.Join(root, "t.lance"), "2.2")
	h := &house{tb: t, counter: objstore.NewCounter(objstore.CounterOptions{})}
	h.over([]catalog.Root{{URI: root}}, root)
	snap := tabletest.At(t, tabletest.Open(t, tabletest.Env(t, root), filepath.Join(root, "t.lance")), table.Ref{})

	run := func(sql string) ([]string, []string, int64) {
		t.Helper()
		h.counter.Reset()
		st, err := h.engine.Prepare(t.Context(), query.Session{}, sql)
		if err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
		defer st.Close()
		r, err := st.Query(t.Context(), query.QueryOptions{View: schema.Materialized, AsPrepared: true})
		if err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
		defer r.Release()
		var names, rows []string
		for _, f := range r.Schema().Fields() {
			names = append(names, f.Name)
		}
		columns := whole(t, r)
		for i := range columns[0].Len() {
			row := ""
			for _, c := range columns {
				row += fmt.Sprintf("%s|", c.ValueStr(i))
			}
			rows = append(rows, row)
		}
		return names, rows, h.counter.Total().Bytes
	}
	// want is rows of the table by position, read without SQL.
	want := func(names []string, positions ...uint64) []string {
		scan, err := snap.Scan(t.Context(), table.ScanRequest{Columns: names, Rows: positions})
		if err != nil {
			t.Fatal(err)
		}
		defer scan.Release()
		var rows []string
		columns := whole(t, scan)
		for i := range columns[0].Len() {
			row := ""
			for _, c := range columns {
				if d, ok := c.(*array.Dictionary); ok {
					row += plainArray(t, d).ValueStr(i) + "|"
					continue
				}
				row += c.ValueStr(i) + "|"
			}
			rows = append(rows, row)
		}
		return rows
	}
	descending := func(from, n int) (out []uint64) {
		for i := range n {
			out = append(out, uint64(from-i))
		}
		return out
	}
	every := func(step, n int) (out []uint64) {
		for i := 0; i < n; i += step {
			out = append(out, uint64(i))
		}
		return out
	}
	for _, tt := range []struct {
		sql  string
		rows []uint64
	}{
		{`select * from t where id in (18, 4000, 2, 1699, 1700)`, []uint64{2, 18, 1699, 1700, 4000}},
		{`select s, l, fsl, st, lst, m, named, stl from t order by id desc limit 1500`, descending(4999, 1500)},
		{`select lb, s from t where id % 2 = 0`, every(2, 5000)},
		{`select s, b from (select * from t where id > 4990) where id < 4995`, []uint64{4991, 4992, 4993, 4994}},
		{`select x.s, x.l from t x join (select 5 as k union all select 9) y on x.id = y.k order by x.id limit 10`, []uint64{5, 9}},
		{`select s from t where id < 0`, nil},
		{`select s, id from t where length(s) > 0 and id = 8`, []uint64{8}},
		{`select t.s from t join t u on t.id = u.id where u.s like '%number 77' limit 3`, []uint64{77}},
	} {
		names, got, _ := run(tt.sql)
		if len(tt.rows) == 0 {
			if len(got) != 0 {
				t.Errorf("%s: %d rows", tt.sql, len(got))
			}
			continue
		}
		exp := want(names, tt.rows...)
		if !strings.Contains(tt.sql, "order by") { // then the engine may give any order
			slices.Sort(got)
			slices.Sort(exp)
		}
		if strings.Join(got, "\n") != strings.Join(exp, "\n") {
			for i := range min(len(got), len(exp)) {
				g, w := strings.Split(got[i], "|"), strings.Split(exp[i], "|")
				for k := range min(len(g), len(w)) {
					if g[k] != w[k] {
						t.Errorf("%s: row %d, column %d is %.200s, want %.200s", tt.sql, i, k, g[k], w[k])
					}
				}
			}
			t.Errorf("%s: %d rows, want %d", tt.sql, len(got), len(exp))
		}
	}
	if _, rows, _ := run(`select s || '!' x, s from t where id = 1`); len(rows) != 1 || rows[0] != "日本語 text number 1!|日本語 text number 1|" {
		t.Errorf("a column that is computed with and passed on: %v", rows)
	}

	run(`select * from t`) // open the files
	_, _, full := run(`select s, ls, lb, fsb, st, lst, text from t`)
	_, _, late := run(`select s, ls, lb, fsb, st, lst, text from t where id = 2222`)
	if late*3 > full {
		t.Errorf("one row of wide columns reads %d bytes, all rows %d", late, full)
	}
}

// TestKeys checks conditions that want few values of a column: other columns
// are read for the rows that meet them, narrow rows or not.
func TestKeys(t *testing.T) {
	root := t.TempDir()
	tabletest.Pylance(t, `
import sys, lance, pyarrow as pa
n = 200_000
lance.write_dataset(pa.table({
    "id": pa.array(range(n)), "name": pa.array([f"name of row {i * 7919 % n}" for i in range(n)]), "value": pa.array([i / 8 for i in range(n)]),
}), sys.argv[1])
lance.dataset(sys.argv[1]).delete("id % 100 = 50")
`, filepath.Join(root, "t.lance"))
	h := &house{tb: t, counter: objstore.NewCounter(objstore.CounterOptions{})}
	h.over([]catalog.Root{{URI: root}}, root)
	read := func(sql string) (string, int64) {
		t.Helper()
		h.one(sql) // so that files are open
		h.counter.Reset()
		out := h.one(sql)
		return out, h.counter.Total().Bytes
	}
	_, all := read(`select count(name), sum(value), max(id) from t`)
	for _, tt := range []struct{ sql, want string }{
		{`select name, value from t where id = 123456`, `[{"name":"name of row 48064","value":15432}]`},
		{`select value, name, id from t where 123456 = id and value > 0`, `[{"id":123456,"name":"name of row 48064","value":15432}]`},
		{`select name, id from t where id in (3, 123456, 150)`, `[{"id":3,"name":"name of row 23757"},{"id":123456,"name":"name of row 48064"}]`},
		{`select name from t where id = 3 or id = 7 or id = 250`, `[{"name":"name of row 23757"},{"name":"name of row 55433"}]`},
		{`select id, value, name from t where id in (7, 3) order by value desc`, `[{"id":7,"name":"name of row 55433","value":0.875},{"id":3,"name":"name of row 23757","value":0.375}]`},
	} {
		got, bytes := read(tt.sql)
		if got != tt.want {
			t.Errorf("%s gives %s, want %s", tt.sql, got, tt.want)
		}
		if bytes*2 > all {
			t.Errorf("%s reads %d bytes, all columns are %d", tt.sql, bytes, all)
		}
	}
	st, err := h.engine.Prepare(t.Context(), query.Session{}, `select name, value from t where id = ?`)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if !st.Known() || len(st.Params()) != 1 {
		t.Errorf("a lookup by parameter: %v", st.Params())
	}
}

// TestLateBlobs checks blob columns whose descriptors are read for the rows of
// the result only: values, nulls and owners are those of the rows.
func TestLateBlobs(t *testing.T) {
	root := t.TempDir()
	tabletest.Pylance(t, `
import sys, lance, pyarrow as pa
path, n = sys.argv[1], 9000
def value(i):
    return [None, b"", b"inline %d" % i, b"packed %d " % i * 2000][i % 4]
def rows(first, n):
    storage = pa.array([None if value(i) is None else {"data": value(i), "uri": None, "position": None, "size": None} for i in range(first, first + n)],
        pa.struct([("data", pa.large_binary()), ("uri", pa.utf8()), ("position", pa.uint64()), ("size", pa.uint64())]))
    return pa.table({"id": pa.array(range(first, first + n)), "name": [f"row {i}" for i in range(first, first + n)],
        "b": pa.ExtensionArray.from_storage(lance.blob.BlobType(), storage)},
        schema=pa.schema([pa.field("id", pa.int64()), pa.field("name", pa.string()), lance.blob_field("b", inline_size_threshold=1000)]))
lance.write_dataset(rows(0, n // 2), path, data_storage_version="2.2", max_rows_per_file=2000)
lance.write_dataset(rows(n // 2, n - n // 2), path, mode="append", max_rows_per_file=2000)
lance.dataset(path).delete("id % 10 = 9")
`, filepath.Join(root, "t.lance"))
	h := &house{tb: t, counter: objstore.NewCounter(objstore.CounterOptions{})}
	h.over([]catalog.Root{{URI: root}}, root)
	value := func(id int) string {
		text := []string{"null", "", fmt.Sprintf("inline %d", id), strings.Repeat(fmt.Sprintf("packed %d ", id), 2000)}[id%4]
		if id%4 == 0 {
			return text
		}
		return `"` + base64.StdEncoding.EncodeToString([]byte(text)) + `"`
	}
	row := func(id int) string { return fmt.Sprintf(`{"b":%s,"id":%d}`, value(id), id) }
	for _, tt := range []struct {
		sql string
		ids []int
	}{
		{`select id, b from t where id in (4, 1, 8998, 4503, 2002) order by id`, []int{1, 4, 2002, 4503, 8998}},
		{`select b, id from t where id = 7131`, []int{7131}},
		{`select id, b from t order by id desc limit 6`, []int{8998, 8997, 8996, 8995, 8994, 8993}},
		{`select id, b from t where id % 1000 = 3 limit 4`, []int{3, 1003, 2003, 3003}},
		{`select x.id, y.b from t x join t y on x.id = y.id where x.id > 6000 order by 1 limit 3`, []int{6001, 6002, 6003}},
		{`select id, b from (select * from t where id = 6) union all select id, b from (select * from t where id = 7)`, []int{6, 7}},
	} {
		var want []string
		for _, id := range tt.ids {
			want = append(want, row(id))
		}
		for range 2 {
			if got := h.one(tt.sql); got != "["+strings.Join(want, ",")+"]" {
				t.Errorf("%s gives %.600s\nwant %.600s", tt.sql, got, want)
			}
		}
	}
	// In the other faces it is the same as without a condition that makes it late.
	for _, view := range []schema.View{schema.Descriptor, schema.Logical} {
		late, _, err := h.try(t.Context(), query.Session{}, view, `select b from t where id = 4503`)
		if err != nil {
			t.Fatal(err)
		}
		early, _, err := h.try(t.Context(), query.Session{}, view, `select b from t where id between 4503 and 4503 and blob_size(b) >= 0`)
		if err != nil || late != early || !strings.Contains(late, `"b":{`) {
			t.Errorf("view %d: %s, early %s, %v", view, late, early, err)
		}
	}
	h.counter.Reset()
	h.one(`select b from t where id = 8002`)
	if bytes := h.counter.Total().Bytes; bytes > 40_000 {
		t.Errorf("one inline value of 9000 takes %d bytes", bytes)
	}
}

// TestFirstRows checks that a LIMIT without an order reads no more than it wants,
// and gives the rows that stand first.
func TestFirstRows(t *testing.T) {
	h := open(t, "fragments_and_deletions", "many_inline")
	for _, from := range []string{`fragments_and_deletions.main."table"`, `many_inline.main."table"`} {
		all := strings.Split(strings.Trim(h.one(`select id from `+from), "[]"), ",")
		for _, n := range []int{0, 1, 3, 8, len(all), len(all) + 5} {
			for _, offset := range []int{0, 1, 4, len(all) - 1, len(all) + 1} {
				want := "[" + strings.Join(all[min(offset, len(all)):min(offset+n, len(all))], ",") + "]"
				for _, sql := range []string{
					fmt.Sprintf(`select id from %s limit %d offset %d`, from, n, offset),
					fmt.Sprintf(`select id from (select *, id + 1 from %s) limit %d offset %d`, from, n, offset),
				} {
					got := h.one(sql)
					if got == "" {
						got = "[]"
					}
					if got != want {
						t.Errorf("%s: %s, want %s", sql, got, want)
					}
				}
			}
		}
		for _, sql := range []string{ // which rows come first is not known before they are computed
			`select id from (select id from ` + from + ` where id % 2 = 1) limit 2`,
			`select max(id) id from ` + from + ` limit 2`,
			`select distinct 1 id from ` + from + ` limit 2`,
			`select id from ` + from + ` order by id desc limit 2`,
			`select unnest([id, id]) id from ` + from + ` order by id desc limit 1`,
			`select row_number() over (order by id desc) id from ` + from + ` limit 2`,
			`select id from ` + from + ` where id > 3 limit 2`,
		} {
			limited, whole := h.one(sql), h.one(sql[:strings.LastIndex(sql, " limit")])
			if !strings.HasPrefix(whole, strings.TrimSuffix(limited, "]")) || limited == "" {
				t.Errorf("%s: %s, of %s", sql, limited, whole)
			}
		}
	}
	root := t.TempDir()
	tabletest.Pylance(t, allTypes, filepath.Join(root, "t.lance"), "2.2")
	h = &house{tb: t, counter: objstore.NewCounter(objstore.CounterOptions{})}
	h.over([]catalog.Root{{URI: root}}, root)
	bytes := func(sql string) int64 {
		h.query(sql) // opens the files
		h.counter.Reset()
		h.query(sql)
		return h.counter.Total().Bytes
	}
	if few, all := bytes(`select upper(s) s, lst from t limit 3`), bytes(`select upper(s) s, lst from t`); few*8 > all {
		t.Errorf("three rows read %d bytes, all of them %d", few, all)
	}
}
