package query_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flightblob/flightblob/catalog"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/query"
	"github.com/flightblob/flightblob/schema"
	"github.com/flightblob/flightblob/table/tabletest"
)

// TestRecall runs statements of few shapes over a table that changes: what is
// remembered of them never shows.
func TestRecall(t *testing.T) {
	root := t.TempDir()
	h := &house{tb: t, counter: objstore.NewCounter(objstore.CounterOptions{})}
	h.over([]catalog.Root{{URI: root}}, root)
	write := func(code string) {
		tabletest.Pylance(t, "import lance, pyarrow as pa, sys\npath = sys.argv[1]\n"+code, filepath.Join(root, "t.lance"))
	}
	rounds := func(want map[string]string) {
		t.Helper()
		for range 2 { // the second time, all is known
			for sql, rows := range want {
				got, r, err := h.try(t.Context(), query.Session{}, schema.Materialized, sql)
				if err != nil {
					t.Errorf("%s: %v", sql, err)
					continue
				}
				if got = strings.ReplaceAll(got+" "+r.Schema().String(), "\n", ""); got != rows {
					t.Errorf("%s gives %s\nwant %s", sql, got, rows)
				}
				if !h.engine.Knows(sql) {
					t.Errorf("%s is not remembered", sql)
				}
			}
		}
	}
	write("lance.write_dataset(pa.table({'a': pa.array([1, 2], pa.int32()), 's': ['x', 'y']}), path)")
	rounds(map[string]string{
		`select s from t where a = 1`:        `[{"s":"x"}] schema:  fields: 1    - s: type=utf8, nullable`,
		`select s from t where a = 2`:        `[{"s":"y"}] schema:  fields: 1    - s: type=utf8, nullable`,
		`select a, a = 2 from t where a=2`:   `[{"(a = 2)":true,"a":2}] schema:  fields: 2    - a: type=int32, nullable    - (a = 2): type=bool, nullable`,
		`select a, a = 1 from t where a=2`:   `[{"(a = 1)":false,"a":2}] schema:  fields: 2    - a: type=int32, nullable    - (a = 1): type=bool, nullable`,
		`select a from t where s = 'x'`:      `[{"a":1}] schema:  fields: 1    - a: type=int32, nullable`,
		`select a from t where s = 'x;--'`:   ` schema:  fields: 1    - a: type=int32, nullable`,
		`select count(*) n from t`:           `[{"n":2}] schema:  fields: 1    - n: type=int64, nullable`,
		`select * from t order by a desc`:    `[{"a":2,"s":"y"},{"a":1,"s":"x"}] schema:  fields: 2    - a: type=int32, nullable    - s: type=utf8, nullable`,
		`select * from t order by a limit 1`: `[{"a":1,"s":"x"}] schema:  fields: 2    - a: type=int32, nullable    - s: type=utf8, nullable`,
	})
	// A new version with the same columns, large enough for late reading.
	write("lance.write_dataset(pa.table({'a': pa.array(range(3, 6001), pa.int32()), 's': [f's{i}' for i in range(3, 6001)]}), path, mode='append')")
	rounds(map[string]string{
		`select s from t where a = 1`:            `[{"s":"x"}] schema:  fields: 1    - s: type=utf8, nullable`,
		`select s from t where a = 4000`:         `[{"s":"s4000"}] schema:  fields: 1    - s: type=utf8, nullable`,
		`select count(*) n from t`:               `[{"n":6000}] schema:  fields: 1    - n: type=int64, nullable`,
		`select * from t order by a limit 1`:     `[{"a":1,"s":"x"}] schema:  fields: 2    - a: type=int32, nullable    - s: type=utf8, nullable`,
		`select s from t where a > 5999 limit 3`: `[{"s":"s6000"}] schema:  fields: 1    - s: type=utf8, nullable`,
	})
	// The same names, other types.
	write("lance.write_dataset(pa.table({'a': pa.array([1, 2], pa.int64()), 's': pa.array([b'x', b'y'], pa.binary())}), path, mode='overwrite')")
	rounds(map[string]string{
		`select s from t where a = 1`:        `[{"s":"eA=="}] schema:  fields: 1    - s: type=binary, nullable`,
		`select a, a = 2 from t where a=2`:   `[{"(a = 2)":true,"a":2}] schema:  fields: 2    - a: type=int64, nullable    - (a = 2): type=bool, nullable`,
		`select * from t order by a limit 1`: `[{"a":1,"s":"eA=="}] schema:  fields: 2    - a: type=int64, nullable    - s: type=binary, nullable`,
		`select count(*) n from t`:           `[{"n":2}] schema:  fields: 1    - n: type=int64, nullable`,
	})
	// The same types, another nullability: what passes through shows it.
	write("lance.write_dataset(pa.table({'a': pa.array([1, 2], pa.int64()), 's': pa.array([b'x', b'y'], pa.binary())}, " +
		"schema=pa.schema([pa.field('a', pa.int64(), False), pa.field('s', pa.binary())])), path, mode='overwrite')")
	rounds(map[string]string{
		`select a, a = 2 from t where a=2`: `[{"(a = 2)":true,"a":2}] schema:  fields: 2    - a: type=int64    - (a = 2): type=bool, nullable`,
	})
	// A column less.
	write("lance.dataset(path).drop_columns(['s'])")
	if err := h.fails(`select s from t where a = 1`); fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), `"s" not found`) {
		t.Errorf("a column that is gone: %v", err)
	}
	rounds(map[string]string{
		`select * from t order by a limit 1`: `[{"a":1}] schema:  fields: 1    - a: type=int64`,
		`select count(*) n from t`:           `[{"n":2}] schema:  fields: 1    - n: type=int64, nullable`,
	})
}

// TestRecallIsBounded checks that texts are forgotten.
func TestRecallIsBounded(t *testing.T) {
	h := open(t, "kinds_basic_v22")
	first := `select 0 as c from "table" limit 1`
	h.one(first)
	if !h.engine.Knows(first) {
		t.Fatal("the first text is not remembered")
	}
	wide := strings.Repeat(", id", 400)
	for i := range 30 {
		h.one(fmt.Sprintf(`select %d as c%s from "table" limit 1`, i+1, wide))
	}
	if h.engine.Knows(first) {
		t.Error("the first text is remembered after many others")
	}
}

// TestCount checks counts that the manifest answers, and those that it cannot.
func TestCount(t *testing.T) {
	h := open(t, "deletion_bitmap", "fragments_and_deletions", "kinds_basic_v22")
	for _, tt := range []struct {
		sql, want string
		read      bool // from data files
	}{
		{`select count(*) from "table"`, `[{"count_star()":5500}]`, false},
		{`select count(*) as n, count() as "N m" from "table" x`, `[{"N m":5500,"n":5500}]`, false},
		{`from "table" select count(*) n`, `[{"n":5500}]`, false},
		{`select count(*) n from (select id, id + 1 from "table")`, `[{"n":5500}]`, false},
		{`select count(*) n from lance_scan('table', version := 1)`, `[{"n":11000}]`, false},
		{`select count(*) n from "table" at (version => 1)`, `[{"n":11000}]`, false},
		{`select count(*) n from fragments_and_deletions."table"`, `[{"n":35}]`, false},
		{`select count(*) + 1 n from "table"`, `[{"n":5501}]`, false},
		{`select count(*) n from "table", range(3)`, `[{"n":16500}]`, false},
		{`select count(*) n from (select * from "table" limit 7)`, `[{"n":7}]`, false},
		{`select count(*) n from (select unnest([1, 2]) from "table")`, `[{"n":11000}]`, false},
		{`select count(*) filter (where id < 0) n from "table"`, `[{"n":0}]`, true},
		{`select count(*) n from "table" where id < 0`, `[{"n":0}]`, true},
		{`select count(distinct id) n from "table"`, `[{"n":5500}]`, true},
		{`select count(*) n from "table" group by id > 0 having count(*) > 1 order by 1 limit 1`, `[{"n":5500}]`, true},
		{`select count(*) n from "table" a, "table" b where a.id = b.id`, `[{"n":5500}]`, true},
	} {
		for round := range 2 {
			h.counter.Reset()
			if got := h.one(tt.sql); got != tt.want {
				t.Errorf("%s gives %s, want %s", tt.sql, got, tt.want)
			}
			if bytes := h.counter.Total().Bytes; round > 0 && bytes > 0 != tt.read {
				t.Errorf("%s reads %d bytes, manifests aside", tt.sql, bytes)
			}
		}
	}
}
