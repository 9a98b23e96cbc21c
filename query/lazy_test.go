package query_test

import (
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
