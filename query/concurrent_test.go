package query_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/flightblob/flightblob/catalog"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/query"
	"github.com/flightblob/flightblob/schema"
	"github.com/flightblob/flightblob/table/tabletest"
)

// TestConcurrentStatements runs statements side by side that name tables for the
// first time, read payload, fail, list tables and are given up.
func TestConcurrentStatements(t *testing.T) {
	h := open(t, "kinds_basic_v22", "nested_v22", "tags_and_branches", "external_missing")
	statements := []string{
		`select * from "table"`, `select md5(img) from "table"`, `select * from nested_v22."table"`, `select count(*) from tags_and_branches."table"`,
		`select img from "table" order by img`, `show tables`, `select * from information_schema.tables`, `select img from external_missing."table"`,
		`select list(img) from "table" group by id % 2`, `select nosuch`, `select blob_bytes(img) from external_missing."table"`,
	}
	var group sync.WaitGroup
	for worker := range 6 {
		group.Go(func() {
			for i := range 12 {
				sql := statements[(worker*5+i)%len(statements)]
				_, _, err := h.try(t.Context(), query.Session{}, schema.Materialized, sql)
				wrong := strings.Contains(sql, "order by img") || strings.Contains(sql, "nosuch") || strings.Contains(sql, "external_missing")
				if (err != nil) != wrong || fault.KindOf(err) == fault.Internal && err != nil {
					t.Errorf("%s: %v", sql, err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				st, err := h.engine.Prepare(ctx, query.Session{}, `select img, a.range from "table", range(200000) a`)
				if err != nil {
					t.Error(err)
					cancel()
					return
				}
				r, err := st.Query(ctx, query.QueryOptions{AsPrepared: true})
				if err != nil {
					t.Error(err)
				} else {
					r.Next()
					if i%2 == 0 {
						cancel()
					}
					r.Release()
				}
				cancel()
				st.Close()
			}
		})
	}
	group.Wait()
}

// TestNamespaces checks schemas that are child namespaces, and tables that
// differ in the case of letters only.
func TestNamespaces(t *testing.T) {
	script, err := os.ReadFile(filepath.Join(tabletest.Root(t), "catalog", "testdata", "live.py"))
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	tabletest.Pylance(t, string(script), root)
	h := &house{tb: t, counter: objstore.NewCounter(objstore.CounterOptions{})}
	h.over([]catalog.Root{{URI: root}}, root)
	for _, tt := range []struct {
		session query.Session
		sql     string
	}{
		{query.Session{Schema: "ns"}, `select count(*) n from t`},
		{query.Session{Schema: "ns$sub"}, `select count(*) n from t`},
		{query.Session{}, `select count(*) n from ns.t`},
		{query.Session{}, `select count(*) n from lance."ns$sub".t`},
		{query.Session{}, `select count(*) n from NS.T a, registered b`},
		{query.Session{}, `select count(*) n from lance_scan('Plain')`},
		{query.Session{}, `select count(*) n from lance_scan('plain')`},
	} {
		if out, _, err := h.try(t.Context(), tt.session, schema.Materialized, tt.sql); err != nil || !strings.Contains(out, `"n":`) {
			t.Errorf("%s: %s, %v", tt.sql, out, err)
		}
	}
	err = h.fails(`select * from plain`)
	if fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), "lance.main.Plain") || !strings.Contains(err.Error(), "lance.main.plain") {
		t.Errorf("a name that two tables have: %v", err)
	}
	if _, _, err := h.try(t.Context(), query.Session{Schema: "nosuch"}, schema.Materialized, `select 1`); fault.KindOf(err) != fault.NotFound {
		t.Errorf("a session in no schema: %v", err)
	}
}

// TestFreshness checks that statements see tables, versions and columns as they
// come and go, while a prepared one keeps its columns.
func TestFreshness(t *testing.T) {
	root := t.TempDir()
	h := &house{tb: t, counter: objstore.NewCounter(objstore.CounterOptions{})}
	h.over([]catalog.Root{{URI: root}}, root)
	if err := h.fails(`select * from t`); fault.KindOf(err) != fault.NotFound {
		t.Errorf("before: %v", err)
	}
	write := func(code string) {
		tabletest.Pylance(t, "import lance, pyarrow as pa, sys\npath = sys.argv[1]\n"+code, filepath.Join(root, "t.lance"))
	}
	write("lance.write_dataset(pa.table({'a': [1, 2]}), path)")
	if got := h.one(`select count(*) n, sum(a) s from t`); got != `[{"n":2,"s":"3"}]` {
		t.Errorf("after the first version: %s", got)
	}
	st, err := h.engine.Prepare(t.Context(), query.Session{}, `select * from t`)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	read := func(o query.QueryOptions) (string, error) {
		r, err := st.Query(t.Context(), o)
		if err != nil {
			return "", err
		}
		defer r.Release()
		rows := int64(0)
		for r.Next() {
			rows += r.RecordBatch().NumRows()
		}
		return fmt.Sprint(rows), r.Err()
	}
	write("lance.write_dataset(pa.table({'a': [3]}), path, mode='append')")
	if got := h.one(`select count(*) n from t`); got != `[{"n":3}]` {
		t.Errorf("after an append: %s", got)
	}
	if got, err := read(query.QueryOptions{}); got != "3" || err != nil {
		t.Errorf("a prepared statement after an append: %s, %v", got, err)
	}
	for range 2 {
		if got, err := read(query.QueryOptions{AsPrepared: true}); got != "2" || err != nil {
			t.Errorf("as prepared, after an append: %s, %v", got, err)
		}
	}
	write("ds = lance.dataset(path)\nds.add_columns({'b': 'a + 1'})")
	if got := h.one(`select b from t where a = 3`); got != `[{"b":4}]` {
		t.Errorf("after a new column: %s", got)
	}
	if _, err := read(query.QueryOptions{}); fault.KindOf(err) != fault.Precondition {
		t.Errorf("a prepared statement after a new column: %v", err)
	}
	if got := h.one(`select b from t at (version => 3) where a = 1`); got != `[{"b":2}]` {
		t.Errorf("version 3: %s", got)
	}
	if err := h.fails(`select b from t at (version => 1)`); fault.KindOf(err) != fault.Invalid {
		t.Errorf("version 1 has no b: %v", err)
	}
	if err := os.RemoveAll(filepath.Join(root, "t.lance")); err != nil {
		t.Fatal(err)
	}
	if err := h.fails(`select * from t`); fault.KindOf(err) != fault.NotFound {
		t.Errorf("after the table is gone: %v", err)
	}
	if got := h.one(`show tables`); got != "" {
		t.Errorf("tables that are left: %s", got)
	}
}
