package query_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flightblob/flightblob/catalog"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/table/tabletest"
)

// TestListings checks what statements are told about tables: that they are
// tables, and what they hold, NOT NULL included.
func TestListings(t *testing.T) {
	h := open(t, "non_nullable", "kinds_basic_v22")
	const describes = `[{"column_name":"img","column_type":"LANCE_BLOB","default":null,"extra":null,"key":null,"null":"NO"},` +
		`{"column_name":"s","column_type":"STRUCT(n INTEGER, blob LANCE_BLOB)","default":null,"extra":null,"key":null,"null":"NO"}]`
	for _, tt := range []struct{ sql, want string }{
		{`describe "table"`, describes},
		{`desc non_nullable."table"`, describes},
		{`show main."table"`, describes},
		{`select * from (describe "table")`, describes},
		{`describe "TABLE"`, describes},
		{`select "null" n from (describe select img from "table")`, `[{"n":"YES"}]`}, // as the engine says of any query
		{`show tables`, `[{"name":"table"}]`},
		{`select name, column_types from (show all tables) order by database`, `[{"column_types":["BIGINT","LANCE_BLOB"],"name":"table"},` +
			`{"column_types":["LANCE_BLOB","STRUCT(n INTEGER, blob LANCE_BLOB)"],"name":"table"}]`},
		{`select table_catalog c, table_type t from information_schema.tables order by all`, `[{"c":"kinds_basic_v22","t":"BASE TABLE"},{"c":"non_nullable","t":"BASE TABLE"}]`},
		{
			`select column_name c, is_nullable n, data_type t from information_schema.columns where table_catalog = 'kinds_basic_v22' order by ordinal_position`,
			`[{"c":"id","n":"YES","t":"BIGINT"},{"c":"img","n":"YES","t":"LANCE_BLOB"}]`,
		},
		{`select count(*) n from information_schema.columns where is_nullable = 'NO' and table_schema = 'main'`, `[{"n":2}]`},
		{`select column_count n, sql from duckdb_tables() where database_name = 'non_nullable'`, `[{"n":2,"sql":"CREATE TABLE \"table\"(img LANCE_BLOB NOT NULL, s STRUCT(n INTEGER, blob LANCE_BLOB) NOT NULL);"}]`},
		{`select count(*) n from duckdb_views() where not internal`, `[{"n":0}]`},
		{`select count(*) n from duckdb_columns() where not internal and not is_nullable`, `[{"n":2}]`},
		{`select name, "notnull" n from pragma_table_info('table')`, `[{"n":true,"name":"img"},{"n":true,"name":"s"}]`},
		{`select tablename n from pg_catalog.pg_tables where schemaname = 'main' limit 1`, `[{"n":"table"}]`},
		{`with pg_x as (select id from kinds_basic_v22."table") select count(*) n from pg_x`, `[{"n":7}]`},
		{`with x as (select 'BASE TABLE' t) select count(*) n from information_schema.tables join x on table_type = t`, `[{"n":2}]`},
		{`select count(*) n from duckdb_databases() where path is not null`, `[{"n":0}]`},
	} {
		if got := h.one(tt.sql); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.sql, got, tt.want)
		}
	}
	for _, tt := range []struct {
		sql, text string
		kind      fault.Kind
	}{
		{`describe nosuch`, "nosuch does not exist", fault.NotFound},
		{`select * from information_schema.tables, "table"`, "one after the other", fault.Invalid},
		{`select * from (describe "table"), lance_versions('"table"')`, "one after the other", fault.Invalid},
		{`describe lance_scan('"table"')`, "(", fault.Invalid},
	} {
		if err := h.fails(tt.sql); fault.KindOf(err) != tt.kind || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: %v, want %s", tt.sql, err, tt.text)
		}
	}
}

// TestListingsFollow checks that lists show the tables of now, whatever is wrong
// with some, and that names that look like the engine's are tables'.
func TestListingsFollow(t *testing.T) {
	root := t.TempDir()
	put := func(name, fixture string) {
		to := filepath.Join(root, name+".lance")
		if err := os.RemoveAll(to); err != nil {
			t.Fatal(err)
		}
		if fixture != "" {
			if err := os.CopyFS(to, os.DirFS(filepath.Join(tabletest.Fixtures(t), fixture, "table.lance"))); err != nil {
				t.Fatal(err)
			}
		}
	}
	put("a", "kinds_basic_v22")
	put("pg_tables", "kinds_basic_v22")
	h := &house{tb: t, counter: objstore.NewCounter(objstore.CounterOptions{})}
	h.over([]catalog.Root{{URI: root}}, root)
	const columns = `select table_name t, string_agg(column_name, ' ' order by ordinal_position) c from information_schema.columns group by all order by all`
	steps := []struct{ table, fixture, want string }{
		{"", "", `[{"c":"id img","t":"a"},{"c":"id img","t":"pg_tables"}]`},
		{"a", "non_nullable", `[{"c":"img s","t":"a"},{"c":"id img","t":"pg_tables"}]`},
		{"a", "", `[{"c":"id img","t":"pg_tables"}]`},
		{"b", "non_nullable", `[{"c":"img s","t":"b"},{"c":"id img","t":"pg_tables"}]`},
	}
	for _, s := range steps {
		if s.table != "" {
			put(s.table, s.fixture)
		}
		if got := h.one(columns); got != s.want {
			t.Errorf("after %v: %s", s, got)
		}
	}
	if got := h.one(`select count(*) n from pg_tables`); got != `[{"n":7}]` {
		t.Errorf("a table pg_tables: %s", got)
	}
	versions, err := filepath.Glob(filepath.Join(root, "b.lance", "_versions", "*.manifest"))
	if err != nil || len(versions) == 0 {
		t.Fatal(versions, err)
	}
	if err := os.WriteFile(versions[0], []byte("no manifest"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := h.one(columns); !strings.Contains(got, `"c":"id img","t":"pg_tables"`) || !strings.Contains(got, `"c":"unreadable","t":"b"`) {
		t.Errorf("beside a damaged table: %s", got)
	}
	if err := h.fails(`describe b`); fault.KindOf(err) != fault.Corrupt {
		t.Errorf("a damaged table: %v", err)
	}
}
