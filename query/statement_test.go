package query_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/flightblob/flightblob/catalog"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/materialize"
	"github.com/flightblob/flightblob/query"
	"github.com/flightblob/flightblob/query/statement"
	"github.com/flightblob/flightblob/schema"
	"github.com/flightblob/flightblob/table"
	"github.com/flightblob/flightblob/table/tabletest"
)

// one gives the only batch of a result without the line breaks that the JSON
// writer puts between rows.
func (h *house) one(sql string) string {
	h.tb.Helper()
	return strings.ReplaceAll(strings.ReplaceAll(h.query(sql), "\n", ""), "][", ",")
}

// fails runs a statement that must not work, whether at prepare or later.
func (h *house) fails(sql string) error {
	h.tb.Helper()
	out, _, err := h.try(h.tb.Context(), query.Session{}, schema.Materialized, sql)
	if err == nil {
		h.tb.Errorf("%s: no error but %s", sql, out)
	}
	return err
}

// TestFixturesThroughSQL compares SELECT * with a scan without SQL, in every
// face, for every table of the golden fixtures.
func TestFixturesThroughSQL(t *testing.T) {
	dir := tabletest.Fixtures(t)
	h := open(t, tabletest.FixtureNames(t, dir)...)
	env := tabletest.Env(t, dir)
	tables := 0
	for _, fixture := range tabletest.FixtureNames(t, dir) {
		for name := range tabletest.ReadRecorded(t, dir, fixture).Tables {
			tables++
			at := dir + "/" + fixture + "/" + name
			snap := tabletest.At(t, tabletest.Open(t, env, at), table.Ref{})
			for _, view := range []schema.View{schema.Descriptor, schema.Materialized, schema.Logical} {
				want, fields, wantErr := direct(t, snap, view)
				sql := fmt.Sprintf(`select * from %q.main.%q`, fixture, strings.TrimSuffix(name, ".lance"))
				got, r, err := h.try(t.Context(), query.Session{}, view, sql)
				if r != nil && !r.Schema().Equal(fields) { // no fixture has dictionaries
					t.Errorf("%s, view %d: has schema\n%v\nwant\n%v", sql, view, r.Schema(), fields)
				}
				switch {
				case (err == nil) != (wantErr == nil):
					t.Errorf("%s, view %d: %v, without SQL %v", sql, view, err, wantErr)
				case err != nil && fault.KindOf(err) != fault.KindOf(wantErr):
					t.Errorf("%s, view %d: %v, without SQL %v", sql, view, err, wantErr)
				case err == nil && rowsOf(got) != rowsOf(want):
					t.Errorf("%s, view %d: got\n%.2000s\nwant\n%.2000s", sql, view, got, want)
				}
			}
		}
	}
	if tables < 40 {
		t.Errorf("only %d tables were compared", tables)
	}
}

// rowsOf joins the rows of batches, which may be cut differently.
func rowsOf(batches string) string {
	return strings.NewReplacer("\n", "", "][", ",", "[]", "").Replace(strings.ReplaceAll(batches, "]\n[", ","))
}

// direct reads a snapshot without SQL. The schema is without its own metadata.
func direct(t *testing.T, s *table.Snapshot, view schema.View) (string, *arrow.Schema, error) {
	t.Helper()
	scan, err := s.Scan(t.Context(), table.ScanRequest{})
	if err != nil {
		t.Fatal(err)
	}
	defer scan.Release()
	var r array.RecordReader = scan
	if view != schema.Descriptor {
		out, err := scan.SchemaAs(view)
		if err != nil {
			t.Fatal(err)
		}
		if r, err = materialize.NewReader(t.Context(), scan, s.Resolver(), materialize.Options{View: view, Schema: out}); err != nil {
			t.Fatal(err)
		}
		defer r.Release()
	}
	var rows []string
	for r.Next() {
		text, err := r.RecordBatch().MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, strings.TrimSpace(string(text)))
	}
	return strings.Join(rows, "\n"), arrow.NewSchema(r.Schema().Fields(), nil), r.Err()
}

// TestSchemaFollowsColumns checks that a column keeps its own field in a
// result, also behind joins, structs and lists.
func TestSchemaFollowsColumns(t *testing.T) {
	h := open(t, "kinds_basic_v22", "nested_v22", "non_nullable")
	for _, tt := range []struct {
		sql  string
		want string
	}{
		{`select img from "table"`, `img: large_binary nullable lance-encoding:blob-dedicated-size-threshold=128`},
		{`select img as i2 from "table" order by id`, `i2: large_binary nullable lance-encoding:blob-dedicated-size-threshold=128`},
		{`select coalesce(img, img) c from "table"`, `c: large_binary nullable`},
		{`select n.img from non_nullable.main."table" n`, `img: large_binary lance-encoding:blob-dedicated-size-threshold=128`},
		{`select n.img from "table" t left join non_nullable.main."table" n on blob_size(n.img) = t.id`, `img: large_binary nullable lance-encoding:blob-dedicated-size-threshold=128`},
		{`select n.img from "table" t join non_nullable.main."table" n on blob_size(n.img) = t.id`, `img: large_binary lance-encoding:blob-dedicated-size-threshold=128`},
		{`select img, count(*) from non_nullable.main."table" group by img`, `img: large_binary lance-encoding:blob-dedicated-size-threshold=128`},
		{`select img from non_nullable.main."table" group by rollup (img)`, `img: large_binary nullable lance-encoding:blob-dedicated-size-threshold=128`},
		{`select ll from nested_v22.main."table"`, `ll: large_list<item: large_binary, nullable> nullable`},
		{`select list(id) x from nested_v22.main."table"`, `x: list<item: int32, nullable> nullable`},
		{`select s.blob, s.caption c from nested_v22.main."table"`, `blob: large_binary nullable lance-encoding:blob-dedicated-size-threshold=128`},
		{`select s.caption c from nested_v22.main."table"`, `c: utf8 nullable`},
		{`select unnest(ls) u from nested_v22.main."table"`, `u: struct<caption: utf8 nullable, blob: large_binary nullable> nullable`},
	} {
		st, err := h.engine.Prepare(t.Context(), query.Session{}, tt.sql)
		if err != nil {
			t.Errorf("%s: %v", tt.sql, err)
			continue
		}
		s, err := st.Schema(schema.Materialized)
		st.Close()
		if err != nil {
			t.Fatal(err)
		}
		f := s.Field(0)
		got := f.Name + ": " + strings.ReplaceAll(f.Type.String(), ", nullable>", ", nullable>")
		if f.Nullable {
			got += " nullable"
		}
		for i, k := range f.Metadata.Keys() {
			if k == "lance-encoding:blob-dedicated-size-threshold" {
				got += " " + k + "=" + f.Metadata.Values()[i]
			}
		}
		if got != tt.want {
			t.Errorf("%s: %s, want %s", tt.sql, got, tt.want)
		}
	}
}

// TestReferencesTravel runs shapes of statements that move blob columns and
// compares the bytes with those of the plain column.
func TestReferencesTravel(t *testing.T) {
	h := open(t, "kinds_basic_v22", "nested_v22", "tags_and_branches")
	values := map[string]string{}
	for i := range 7 {
		out := h.one(fmt.Sprintf(`select img from "table" where id = %d`, i))
		values[fmt.Sprint(i)] = strings.TrimSuffix(strings.TrimPrefix(out, `[{"img":`), `}]`)
	}
	if values["2"] != "null" || values["1"] != `""` || len(values["6"]) < 100 {
		t.Fatalf("the column reads %v", values)
	}
	v := func(i int) string { return values[fmt.Sprint(i)] }
	for _, tt := range []struct{ sql, want string }{
		{`select img x from "table" order by id desc limit 2`, `[{"x":` + v(6) + `},{"x":` + v(5) + `}]`},
		{`select a.img x, b.img y from "table" a join "table" b on a.id = b.id + 1 where a.id = 4`, `[{"x":` + v(4) + `,"y":` + v(3) + `}]`},
		{`select case when id = 3 then img end x from "table" where id in (3, 4) order by id`, `[{"x":` + v(3) + `},{"x":null}]`},
		{`select img x from "table" where id = 0 union all select img from "table" where id = 6`, `[{"x":` + v(0) + `},{"x":` + v(6) + `}]`},
		{`with c as materialized (select * from "table") select c.img x from c where id = 5`, `[{"x":` + v(5) + `}]`},
		{`select (select img from "table" where id = 4) x`, `[{"x":` + v(4) + `}]`},
		{`select list(img order by id)[4] x from "table"`, `[{"x":` + v(3) + `}]`},
		{`select unnest(list(img order by id desc)) x from "table" limit 1`, `[{"x":` + v(6) + `}]`},
		{`select {'a': img, 'n': id} x from "table" where id = 0`, `[{"x":{"a":` + v(0) + `,"n":0}}]`},
		{`select [img, null, img] x from "table" where id = 0`, `[{"x":[` + v(0) + `,null,` + v(0) + `]}]`},
		{`select map {'k': img} x from "table" where id = 0`, `[{"x":[{"key":"k","value":` + v(0) + `}]}]`},
		{`select first(img order by id) x, max_by(img, id) y from "table"`, `[{"x":` + v(0) + `,"y":` + v(6) + `}]`},
		{`select lag(img) over (order by id) x from "table" order by id limit 1 offset 1`, `[{"x":` + v(0) + `}]`},
		{`select distinct img x from "table" where id = 5`, `[{"x":` + v(5) + `}]`},
		{`select img x, count(*) n from "table" where id = 6 group by img`, `[{"n":1,"x":` + v(6) + `}]`},
		{`select t.img x from "table" t semi join (select 3 as id) u using (id)`, `[{"x":` + v(3) + `}]`},
		{`from "table" select img x where id = 6`, `[{"x":` + v(6) + `}]`},
		{`select x from (select img, id from "table") as q(x, y) where y = 6`, `[{"x":` + v(6) + `}]`},
		{`select list_transform([img], e -> e)[1] x from "table" where id = 6`, `[{"x":` + v(6) + `}]`},
		{`select list_filter(list(img), e -> blob_size(e) = 10) x from "table"`, `[{"x":[` + v(0) + `]}]`},
		{`select coalesce(null, img) x from "table" where id = 6`, `[{"x":` + v(6) + `}]`},
		{`select array_value(img, img) x from "table" where id = 0`, `[{"x":[` + v(0) + `,` + v(0) + `]}]`},
		{`select count(*) n from "table" a join "table" b on a.img = b.img`, `[{"n":6}]`},
		{`select count(distinct img) n from (select img from "table" union all select img from "table")`, `[{"n":6}]`},
		{`select count(*) n from "table" where img is null`, `[{"n":1}]`},
		{`select count(*) n from (select img from "table" intersect select img from "table")`, `[{"n":7}]`},
		{`select blob_bytes(img) x, img::blob y from "table" where id = 6`, `[{"x":` + v(6) + `,"y":` + v(6) + `}]`},
		{`select md5(img) = md5(blob_bytes(img)) x, hex(img) = hex(img::blob) y from "table" where id = 6`, `[{"x":true,"y":true}]`},
		{`select blob_size(l[1]) x, l[1] is null y from nested_v22.main."table" where id = 0`, `[{"x":5,"y":false}]`},
		{`select sum(octet_length(img)) = sum(octet_length(blob_bytes(img))) x from "table"`, `[{"x":true}]`},
		{`select count(*) n from tags_and_branches.main."table" at (version => 1)`, `[{"n":7}]`},
		{`select count(*) n from tags_and_branches.main."table" at (timestamp => '2100-01-01')`, `[{"n":14}]`},
		{`select count(*) n from tags_and_branches.main."table" at (timestamp => now() + interval 1 hour)`, `[{"n":14}]`},
		{`select count(*) n from tags_and_branches.main."table" t at (version => 3 - 2) where t.id >= 0`, `[{"n":7}]`},
		{`select count(*) n from lance_scan('tags_and_branches.main."table"', timestamp := '2100-01-01')`, `[{"n":14}]`},
		{`select count(*) n from lance_scan('tags_and_branches.main."table"', tag := 'second')`, `[{"n":14}]`},
		{`select count(_rowaddr) n, max(_rowid) m from lance_scan('"table"', row_ids := true)`, `[{"m":6,"n":7}]`},
		{`pivot (select id % 2 p, id from "table") on p in (0, 1) using sum(id)`, `[{"0":"12","1":"9"}]`},
		{`select * from (values (1), (2)) t(a)`, `[{"a":1},{"a":2}]`},
	} {
		if got := h.one(tt.sql); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.sql, got, tt.want)
		}
	}
}

// TestRanges checks blob_range against the whole value.
func TestRanges(t *testing.T) {
	h := open(t, "kinds_basic_v22")
	whole, err := base64.StdEncoding.DecodeString(strings.TrimSuffix(strings.TrimPrefix(h.one(`select img x from "table" where id = 6`), `[{"x":"`), `"}]`))
	if err != nil {
		t.Fatal(err)
	}
	got := h.one(`select blob_range(img, 3, 5) x, blob_range(img, blob_size(img) - 1, 1) y, blob_range(img, 0, 0) z, blob_range(img, null, 1) n, blob_range(null, 0, 1) o from "table" where id = 6`)
	b64 := base64.StdEncoding.EncodeToString
	want := `[{"n":null,"o":null,"x":"` + b64(whole[3:8]) + `","y":"` + b64(whole[len(whole)-1:]) + `","z":""}]`
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := h.one(`select blob_range(img, 0, 1) x from "table" where id = 2`); got != `[{"x":null}]` {
		t.Errorf("the range of a null value is %s", got)
	}
	err = h.fails(fmt.Sprintf(`select blob_range(img, %d, 2) from "table" where id = 6`, len(whole)-1))
	if fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), fmt.Sprint(len(whole))) {
		t.Errorf("a range that ends beyond the value: %v", err)
	}
	if want := fmt.Sprintf("blob_range: table table, column \"img\", row 6: blob: range of 2 bytes at %d ends beyond the value's size of %d bytes", len(whole)-1, len(whole)); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	if err = h.fails(`select blob_range(img, -1, 2) from "table" where id = 6`); fault.KindOf(err) != fault.Invalid {
		t.Errorf("a negative offset: %v", err)
	}
}

// TestWhereabouts checks that errors of functions name column and row, however
// the values came to them.
func TestWhereabouts(t *testing.T) {
	h := open(t, "nested_v22", "fragments_and_deletions", "external_missing", "kinds_basic_v22")
	for _, tt := range []struct{ sql, want string }{
		{`select max(octet_length(blob_range(u.blob, 0, 4000))) from (select unnest(ls) u from nested_v22.main."table")`, `column "ls.blob", row `},
		{`select blob_range(s.blob, 1000000, 1) from nested_v22.main."table" order by id desc`, `column "s.blob", row `},
		{`select blob_range(list(img order by id)[5], 0, 4000000) from kinds_basic_v22.main."table"`, `column "img", row 4`},
		{`select blob_range(img, 0, 4000000) from (select img from fragments_and_deletions.main."table" where id = 11)`, `column "img", row `},
		{`select md5(img) from external_missing.main."table"`, `column "img", row `},
		{`select blob_size(img) from external_missing.main."table"`, `column "img", row `},
	} {
		err := h.fails(tt.sql)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %s", tt.sql, err, tt.want)
		}
	}
	// The row is the one that tickets count.
	err := h.fails(`select blob_range(img, 0, 4000000) from fragments_and_deletions.main."table" where id = 11`)
	var row int
	if _, scanned := fmt.Sscanf(err.Error()[strings.Index(err.Error(), "row "):], "row %d", &row); scanned != nil {
		t.Fatal(err, scanned)
	}
	want := h.one(fmt.Sprintf(`select id from fragments_and_deletions.main."table" limit 1 offset %d`, row))
	if want != `[{"id":11}]` {
		t.Errorf("%v: that is the row of %s", err, want)
	}
}

// TestMisuse checks that what makes no sense for blob columns is refused before
// anything runs, with advice.
// TestMisusePlaces checks that refusals about blob columns point at what they are
// about, where the plan does not say it either.
func TestMisusePlaces(t *testing.T) {
	h := open(t, "kinds_basic_v22", "nested_v22")
	for _, sql := range []string{ // ‹ stands where the place is
		`select id from "table" order by ‹img`,
		`select id from "table" order by id, ‹img desc, 1`,
		`select * from "table" order by ‹2`,
		`select * from "table" order by ‹all`,
		`select img as x from "table" order by ‹x limit 3`,
		`select img from "table" union select img from "table" order by ‹1`,
		`select id from (select id, {'a': [img]} as s from "table" order by id) order by ‹s, id`,
		`select l from nested_v22.main."table" order by ‹l`,
		`select row_number() over (order by id), rank() over (order by id, ‹img) from "table"`,
		`select id from "table" qualify rank() over (partition by id order by ‹img) = 1`,
		`select array_agg(id order by ‹img) from "table"`,
		`select count(*), min(id), ‹min("table".img) from "table"`,
		`select ‹max([img]) over () from "table"`,
		`select id from "table" group by id having ‹max({'a': img}) is null`,
		`select id from "table" where id in (select ‹arg_max(id, img) from "table")`,
		`select img ‹< img from "table"`,
		`select img ‹between img and img from "table"`,
		`select a.id from "table" a join "table" b on a.id = b.id and a.id < b.id and a.img ‹< b.img`,
		`select img‹::varchar from "table"`,
		`select [img]‹::varchar from "table"`,
	} {
		before, after, _ := strings.Cut(sql, "‹")
		_, err := h.engine.Prepare(t.Context(), query.Session{}, before+after)
		var at *statement.Error
		if !errors.As(err, &at) || at.Offset != len(before) {
			t.Errorf("%s: %v", sql, err)
			continue
		}
		for _, way := range []string{"blob_bytes(b)", "blob_descriptor(b)", "blob_size(b)"} {
			if !strings.Contains(err.Error(), way) {
				t.Errorf("%s: %v does not name %s", sql, err, way)
			}
		}
	}
	// Two lists alike and nothing that tells them apart: no place rather than a wrong one.
	_, err := h.engine.Prepare(t.Context(), query.Session{}, `select a from (select id as a, img as b from "table" order by 1) order by [b]`)
	if err == nil || !strings.Contains(err.Error(), "no order") {
		t.Error(err)
	}
}

func TestMisuse(t *testing.T) {
	h := open(t, "kinds_basic_v22", "nested_v22")
	forged := `{'kind':0::utinyint,'position':0::ubigint,'size':10::ubigint,'blob_id':0::uinteger,'blob_uri':'','source':1::uinteger,'tag':1::ubigint}`
	nested := `nested_v22.main."table"`
	for _, sql := range []string{
		`select id from "table" order by img`,
		`select * from "table" order by all`,
		`select s from ` + nested + ` order by s`,
		`select min(img) from "table"`,
		`select max(l) from ` + nested,
		`select arg_max(id, img) from "table"`,
		`select list(id order by img) from "table"`,
		`select row_number() over (order by img) from "table"`,
		`select img < img from "table"`,
		`select id from "table" where img between img and img`,
		`select {'a': img} > {'a': img} from "table"`,
		`select a.id from "table" a join "table" b on a.img < b.img`,
		`select img::varchar from "table"`,
		`select 'x' || img from "table"`,
		`select concat(img, 'x') from "table"`,
		`select format('{}', img) from "table"`,
		`select s::varchar from ` + nested,
		`select l::varchar from ` + nested,
		`select to_json(img) from "table"`,
		`select to_json(ls) from ` + nested,
		`select hash(img) from "table"`,
		`select list_sort(l) from ` + nested,
		`select list_max(l) from ` + nested,
		`select greatest(img, img) from "table"`,
		`select id from "table" where img = 'x'::blob`,
		`select id from "table" where img in ('x'::blob)`,
		`select img from "table" union all select 'x'::blob`,
		`select case when id = 0 then img else 'x'::blob end from "table"`,
		`select img from "table" union all select ` + forged,
		`select case when id = 0 then img else ` + forged + ` end from "table"`,
		`select [img, ` + forged + `] from "table"`,
		`select coalesce(` + forged + `, img) from "table"`,
		`select img::struct(kind utinyint, position ubigint, size ubigint, blob_id uinteger, blob_uri varchar, source uinteger, tag ubigint) from "table"`,
		`select string_agg(img, ',') from "table"`,
	} {
		st, err := h.engine.Prepare(t.Context(), query.Session{}, sql)
		if err == nil {
			st.Close()
			t.Errorf("%s: prepared", sql)
			continue
		}
		for _, advice := range []string{"blob_bytes(b)", "blob_descriptor(b)", "blob_size(b)"} {
			if !strings.Contains(err.Error(), advice) {
				t.Errorf("%s: %v, without %s", sql, err, advice)
			}
		}
		if fault.KindOf(err) != fault.Invalid {
			t.Errorf("%s: %v is %v", sql, err, fault.KindOf(err))
		}
	}
}

// TestRefusedStatements checks kinds, functions and names that are not served.
func TestRefusedStatements(t *testing.T) {
	h := open(t, "kinds_basic_v22", "nested_v22")
	for _, tt := range []struct {
		sql  string
		kind fault.Kind
		text string
	}{
		{"insert into t values (1)", fault.Unsupported, "INSERT is not served by this server: it only reads"},
		{"create table t (a int)", fault.Unsupported, "CREATE TABLE is not served"},
		{"call compact('t')", fault.Unsupported, "CALL is not served"},
		{"explain analyze delete from \"table\"", fault.Invalid, ""},
		{"copy (select 1) to 'x'", fault.Invalid, "COPY"},
		{"attach 'x'", fault.Invalid, "ATTACH"},
		{"set threads = 1", fault.Invalid, "SET"},
		{"begin", fault.Invalid, "BEGIN"},
		{"pragma version", fault.Invalid, "PRAGMA"},
		{"", fault.Invalid, "no statement"},
		{"select 1; select 2", fault.Invalid, "2 statements"},
		{"select * from read_text('/etc/passwd')", fault.Invalid, "read_text"},
		{"select * from '/etc/passwd'", fault.NotFound, ""},
		{"select * from flightblob_table('a','b','c')", fault.Invalid, "flightblob_table"},
		{"select * from query('select 1')", fault.Invalid, "query"},
		{"select current_setting('temp_directory')", fault.Invalid, "current_setting"},
		{"select * from duckdb_settings()", fault.Invalid, "duckdb_settings"},
		{"selec 1", fault.Invalid, ""},
		{"select nosuch from \"table\"", fault.Invalid, "nosuch"},
		{"select * from tabel", fault.NotFound, "did you mean table?"},
		{"select * from nested_v22.main.nosuch", fault.NotFound, "nested_v22.main.nosuch"},
		{"select * from nosuch.main.t", fault.NotFound, ""},
		{"select * from \"table\" at (version => 99)", fault.NotFound, "version 99"},
		{"select * from lance_scan('\"table\"', version := 1, tag := 'x')", fault.Invalid, "at most one"},
		{"select * from lance_scan('\"table\"', version := 0)", fault.Invalid, "version"},
		{"select * from lance_scan('nosuch')", fault.NotFound, "nosuch"},
		{"select 1/'x'", fault.Invalid, ""},
		{"summarize \"table\"", fault.Invalid, "SUMMARIZE"},
	} {
		if err := h.fails(tt.sql); err != nil && (fault.KindOf(err) != tt.kind || !strings.Contains(err.Error(), tt.text)) {
			t.Errorf("%s: %v (%v), want %v with %q", tt.sql, err, fault.KindOf(err), tt.kind, tt.text)
		}
	}
}

// TestPayloadReads counts what statements read of the objects that hold
// payload.
func TestPayloadReads(t *testing.T) {
	h := open(t, "kinds_basic_v22")
	payload := func(sql string) (reads, bytes int64) {
		h.counter.Reset()
		h.one(sql)
		for _, o := range h.counter.Snapshot().Objects {
			if strings.HasSuffix(o.URI, ".blob") {
				reads, bytes = reads+o.Reads+o.MappedReads, bytes+o.Payload()
			}
		}
		return reads, bytes
	}
	if _, bytes := payload(`select img from "table"`); bytes == 0 {
		t.Fatal("the whole column reads no sidecar")
	}
	for _, sql := range []string{
		`select count(*) from "table"`, `select count(img) from "table"`, `select id from "table" where img is not null`,
		`select sum(blob_size(img)), sum(octet_length(img)) from "table"`, `select blob_kind(img), blob_uri(img) from "table"`,
		`select blob_descriptor(img) from "table"`, `select id from "table" order by id desc limit 3`,
		`select a.id from "table" a join "table" b on a.img = b.img`, `select count(*) from (select img from "table" group by img)`,
		`select img from "table" where id = 99`, `select img from "table" order by id limit 0`, `explain select img from "table"`,
	} {
		if _, bytes := payload(sql); bytes != 0 {
			t.Errorf("%s reads %d bytes of payload", sql, bytes)
		}
	}
	for _, tt := range []struct{ sql, sizes string }{
		{`select img from "table" order by id desc limit 3`, `select sum(blob_size(img)) n from "table" where id > 3 and blob_kind(img) <> 'inline'`},
		{`select img from "table" where id = 6`, `select sum(blob_size(img)) n from "table" where id = 6`},
		{`select a.img from "table" a join "table" b on a.id = b.id where b.id = 5`, `select sum(blob_size(img)) n from "table" where id = 5`},
		{`select blob_range(img, 3, 5) from "table" where id = 6`, `select 5 n`},
		{`select md5(img) from "table" where id = 6`, `select sum(blob_size(img)) n from "table" where id = 6`},
	} {
		_, bytes := payload(tt.sql)
		if want := strings.Trim(h.one(tt.sizes), `[{n":}]`); fmt.Sprint(bytes) != want {
			t.Errorf("%s reads %d bytes of payload, want %s", tt.sql, bytes, want)
		}
	}
}

func TestParams(t *testing.T) {
	h := open(t, "kinds_basic_v22")
	st, err := h.engine.Prepare(t.Context(), query.Session{}, `select id, $label::varchar l from "table" where id >= $low and blob_size(img) < $size order by id`)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	var got []string
	for _, p := range st.Params() {
		got = append(got, p.Name+" "+p.Type.String())
	}
	if want := "label utf8,low int64,size int64"; strings.Join(got, ",") != want {
		t.Errorf("parameters are %s, want %s", strings.Join(got, ","), want)
	}
	if _, err := st.Query(t.Context(), query.QueryOptions{}); fault.KindOf(err) != fault.Invalid {
		t.Errorf("without values: %v", err)
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema([]arrow.Field{
		{Name: "label", Type: arrow.BinaryTypes.String}, {Name: "low", Type: arrow.PrimitiveTypes.Int32}, {Name: "size", Type: arrow.PrimitiveTypes.Uint64},
	}, nil))
	defer b.Release()
	for _, low := range []int32{0, 1} {
		b.Field(0).(*array.StringBuilder).Append("x")
		b.Field(1).(*array.Int32Builder).Append(low)
		b.Field(2).(*array.Uint64Builder).Append(11)
	}
	rec := b.NewRecordBatch()
	defer rec.Release()
	for row, want := range []string{`[{"id":0,"l":"x"},{"id":1,"l":"x"}]`, `[{"id":1,"l":"x"}]`} {
		if err := st.Bind(t.Context(), rec, row); err != nil {
			t.Fatal(err)
		}
		r, err := st.Query(t.Context(), query.QueryOptions{})
		if err != nil {
			t.Fatal(err)
		}
		text := ""
		for r.Next() {
			b, err := r.RecordBatch().MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			text += strings.ReplaceAll(strings.TrimSpace(string(b)), "\n", "")
		}
		if r.Err() != nil || text != want {
			t.Errorf("row %d: %s, %v, want %s", row, text, r.Err(), want)
		}
		r.Release()
	}
	if err := st.Bind(t.Context(), rec, 2); fault.KindOf(err) != fault.Invalid {
		t.Errorf("a row that is not there: %v", err)
	}
}

// bindOne binds a row of values to a statement and gives types and rows of the
// result.
func (h *house) bindOne(sql string, values ...any) (string, error) {
	h.tb.Helper()
	st, err := h.engine.Prepare(h.tb.Context(), query.Session{}, sql)
	if err != nil {
		return "", err
	}
	defer st.Close()
	var fields []arrow.Field
	var columns []arrow.Array
	for i, v := range values {
		a := arrayOf(h.tb, v)
		fields, columns = append(fields, arrow.Field{Name: fmt.Sprint("p", i), Type: a.DataType(), Nullable: true}), append(columns, a)
	}
	rec := array.NewRecordBatch(arrow.NewSchema(fields, nil), columns, 1)
	if err := st.Bind(h.tb.Context(), rec, 0); err != nil {
		return "", err
	}
	announced, err := st.Schema(schema.Materialized)
	if err != nil {
		return "", err
	}
	r, err := st.Query(h.tb.Context(), query.QueryOptions{AsPrepared: true})
	if err != nil {
		return "", err
	}
	defer r.Release()
	if !announced.Equal(r.Schema()) {
		h.tb.Errorf("%s: announced %s, sent %s", sql, announced, r.Schema())
	}
	var out []string
	for _, f := range r.Schema().Fields() {
		out = append(out, f.Name+" "+f.Type.String())
	}
	text := strings.Join(out, ",") + ":"
	for r.Next() {
		for i := range int(r.RecordBatch().NumRows()) {
			for _, c := range r.RecordBatch().Columns() {
				text += " " + c.ValueStr(i)
			}
		}
	}
	return text, r.Err()
}

// arrayOf makes an array of one value.
func arrayOf(tb testing.TB, v any) arrow.Array {
	tb.Helper()
	one := func(dt arrow.DataType, text string) arrow.Array {
		a, _, err := array.FromJSON(memory.DefaultAllocator, dt, strings.NewReader("["+text+"]"))
		if err != nil {
			tb.Fatal(err)
		}
		return a
	}
	switch v := v.(type) {
	case nil:
		return array.NewNull(1)
	case int:
		return one(arrow.PrimitiveTypes.Int64, fmt.Sprint(v))
	case int32:
		return one(arrow.PrimitiveTypes.Int32, fmt.Sprint(v))
	case uint64:
		return one(arrow.PrimitiveTypes.Uint64, fmt.Sprint(v))
	case float64:
		b := array.NewFloat64Builder(memory.DefaultAllocator)
		b.Append(v)
		return b.NewArray()
	case bool:
		return one(arrow.FixedWidthTypes.Boolean, fmt.Sprint(v))
	case string:
		return one(arrow.BinaryTypes.String, fmt.Sprintf("%q", v))
	case []byte:
		b := array.NewBinaryBuilder(memory.DefaultAllocator, arrow.BinaryTypes.Binary)
		b.Append(v)
		return b.NewArray()
	case []int64:
		return one(arrow.ListOf(arrow.PrimitiveTypes.Int64), strings.ReplaceAll(fmt.Sprint(v), " ", ","))
	case hundredths:
		b := array.NewDecimal128Builder(memory.DefaultAllocator, &arrow.Decimal128Type{Precision: 5, Scale: 2})
		b.Append(decimal128.FromI64(int64(v)))
		return b.NewArray()
	case arrow.Date32:
		b := array.NewDate32Builder(memory.DefaultAllocator)
		b.Append(v)
		return b.NewArray()
	case arrow.Duration:
		b := array.NewDurationBuilder(memory.DefaultAllocator, &arrow.DurationType{Unit: arrow.Second})
		b.Append(v)
		return b.NewArray()
	case arrow.MonthDayNanoInterval:
		b := array.NewMonthDayNanoIntervalBuilder(memory.DefaultAllocator)
		b.Append(v)
		return b.NewArray()
	case arrow.Time64:
		b := array.NewTime64Builder(memory.DefaultAllocator, &arrow.Time64Type{Unit: arrow.Nanosecond})
		b.Append(v)
		return b.NewArray()
	case time.Time: // in UTC microseconds without, elsewhere nanoseconds with a zone
		dt := &arrow.TimestampType{Unit: arrow.Microsecond}
		value := arrow.Timestamp(v.UnixMicro())
		if v.Location() != time.UTC {
			dt, value = &arrow.TimestampType{Unit: arrow.Nanosecond, TimeZone: "Europe/Berlin"}, arrow.Timestamp(v.UnixNano())
		}
		b := array.NewTimestampBuilder(memory.DefaultAllocator, dt)
		b.Append(value)
		return b.NewArray()
	}
	tb.Fatalf("no array of %T", v)
	return nil
}

// hundredths is a decimal of two places.
type hundredths int64

// TestBoundTypes checks that what is bound decides about types: of parameters
// that the statement leaves open, and where a value does not fit what the
// statement takes it for.
func TestBoundTypes(t *testing.T) {
	h := open(t, "kinds_basic_v22", "tags_and_branches")
	noon := time.Date(2026, 1, 2, 12, 0, 0, 123456000, time.UTC)
	berlin := time.Date(2026, 1, 2, 12, 0, 0, 123456789, time.FixedZone("CET", 3600))
	for _, tt := range []struct {
		sql    string
		values []any
		want   string
	}{
		{`select ?`, []any{7}, "$1 int64: 7"},
		{`select ?`, []any{1.5}, "$1 float64: 1.5"},
		{`select ?`, []any{math.Inf(-1)}, "$1 float64: -Inf"},
		{`select ?`, []any{"x"}, "$1 utf8: x"},
		{`select ?`, []any{[]byte("a\x00'\\")}, "$1 large_binary: YQAnXA=="},
		{`select ?`, []any{true}, "$1 bool: true"},
		{`select ?`, []any{nil}, "$1 utf8: (null)"},
		{`select ?`, []any{hundredths(-125)}, "$1 decimal(5, 2): -1.25"},
		{`select ?`, []any{arrow.Date32(20455)}, "$1 date32: 2026-01-02"},
		{`select ?`, []any{noon}, "$1 timestamp[us]: 2026-01-02T12:00:00.123456"},
		{`select ?`, []any{berlin}, "$1 timestamp[ns]: 2026-01-02T11:00:00.123456789"},
		{`select ?`, []any{arrow.Time64(3_600_000_000_001)}, "$1 time64[ns]: 01:00:00.000000001"},
		{`select ?`, []any{arrow.Duration(90_000)}, "$1 month_day_nano_interval: {\"months\":0,\"days\":0,\"nanoseconds\":90000000000000}"},
		{`select ?`, []any{arrow.MonthDayNanoInterval{Months: -1, Days: 2, Nanoseconds: 3000}}, "$1 month_day_nano_interval: {\"months\":-1,\"days\":2,\"nanoseconds\":3000}"},
		{`select ?`, []any{uint64(1<<64 - 1)}, "$1 uint64: 18446744073709551615"},
		{`select ?`, []any{[]int64{1, 2}}, "$1 list<item: int64, nullable>: [1,2]"},
		{`select $label`, []any{7}, "$label int64: 7"},
		{`select 1 + ?`, []any{7}, "(1 + $1) int64: 8"},
		{`select 1 + ?`, []any{1.5}, "(1 + $1) float64: 2.5"},
		{`select 1 + ?`, []any{nil}, "(1 + $1) float64: (null)"},
		{`select 1 + ?`, []any{hundredths(125)}, "(1 + $1) decimal(13, 2): 2.25"},
		{`select octet_length(?)`, []any{[]byte("abc")}, "octet_length($1) int64: 3"},
		{`select octet_length(?) n`, []any{nil}, "n int64: (null)"},
		{`select date_trunc('day', ?) d`, []any{noon}, "d timestamp[us]: 2026-01-02T00:00:00"},
		{`select ? || 'x' v`, []any{"y"}, "v utf8: yx"},
		{`select ? || 'x' v`, []any{nil}, "v utf8: (null)"},
		{`select img v, ? || 'x' w from "table" where id = 2`, []any{nil}, "v large_binary,w utf8: (null) (null)"},
		{`select ? + ? v`, []any{noon, arrow.Duration(5)}, "v timestamp[us]: 2026-01-02T12:00:05.123456"},
		{`select [?, ?] v`, []any{1, 1.5}, "v list<item: float64, nullable>: [1,1.5]"},
		{`select ? in (select id from "table") v`, []any{3}, "v bool: true"},
		{`select range v from range(?)`, []any{3}, "v int64: 0 1 2"},
		{`select sum(unnest)::bigint v from unnest(?)`, []any{[]int64{1, 2}}, "v int64: 3"},
		{`with c as (select ? as x) select ? as y, x from c`, []any{1, "b"}, "y utf8,x int64: b 1"},
		{`select count(*) n from "table" where id = ?`, []any{hundredths(125)}, "n int64: 0"},
		{`select count(*) n from "table" where id = ?`, []any{1.25}, "n int64: 0"},
		{`select count(*) n from "table" where id = ?`, []any{int32(1)}, "n int64: 1"},
		{`select count(*) n from "table" where id = ?`, []any{"1"}, "n int64: 1"},
		{`select count(*) n from "table" where id < ?`, []any{uint64(1 << 63)}, "n int64: 7"},
		{`select count(*) n from "table" where id = ?`, []any{nil}, "n int64: 0"},
		{`select id from "table" order by id limit ? offset ?`, []any{1, 2}, "id int64: 2"},
		{`select octet_length(blob_range(img, ?, ?)) n from "table" where id = 6`, []any{1, 2}, "n int64: 2"},
		{`select count(*) n from (select timestamp_ns '2026-01-02 11:00:00.123456789' t) where t = ?`, []any{berlin}, "n int64: 1"},
		{`select count(*) n from (select timestamptz '2026-01-02 12:00:00.123456' t) where t = ?`, []any{noon}, "n int64: 1"},
		{`select count(*) n from (select date '2026-01-02' d) where d < ?`, []any{noon}, "n int64: 1"},
		{`select count(*) n from lance_scan(?)`, []any{"tags_and_branches.table"}, "n int64: 14"},
		{`select count(*) n from lance_scan('tags_and_branches.table', version := ?)`, []any{1}, "n int64: 7"},
		{`select count(*) n from lance_scan('tags_and_branches.table', tag := $tag)`, []any{"second"}, "n int64: 14"},
		{`select count(*) n from tags_and_branches.main."table" at (version => ?)`, []any{2}, "n int64: 14"},
		{`select count(*) n from tags_and_branches.main."table" t at (version => ? + 1) where t.id >= ?`, []any{1, 0}, "n int64: 14"},
		{`explain select ? as v`, []any{1}, ""},
	} {
		got, err := h.bindOne(tt.sql, tt.values...)
		if err != nil || tt.want != "" && got != tt.want {
			t.Errorf("%s with %v: %s, %v; want %s", tt.sql, tt.values, got, err, tt.want)
		}
	}
	for _, tt := range []struct {
		sql    string
		values []any
		want   string
	}{
		{`select ?`, []any{1, 2}, "2 values for the 1 parameter"},
		{`select ?, ?`, []any{1}, "1 value for the 2 parameters"},
		{`select $1, $3`, nil, "no parameter 2"},
		{`select id from "table" where img = ?`, []any{[]byte("x")}, "blob_bytes(b)"},
		{`select count(*) from tags_and_branches.main."table" at (version => ?)`, []any{nil}, "AT (VERSION => …) is NULL or empty"},
		{`select count(*) from lance_scan('table', version := ?)`, []any{-1}, ""},
		{`select count(*) from lance_scan('table', version := ?)`, []any{99}, "99"},
		{`select ?::int`, []any{"x"}, "x"},
	} {
		if got, err := h.bindOne(tt.sql, tt.values...); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s with %v: %s, %v; want %s", tt.sql, tt.values, got, err, tt.want)
		}
	}
}

// TestOpenTypes checks what a statement says about types before values are
// bound.
func TestOpenTypes(t *testing.T) {
	h := open(t, "kinds_basic_v22")
	for _, tt := range []struct {
		sql, params, columns string
	}{
		{`select ? x, img from "table" where id > ?`, "utf8 open,int64", "utf8,large_binary"},
		{`select 1 + ?`, "float64 open", "float64"},
		{`select octet_length(?)`, "large_binary open", "int64"},
		{`select 1 + ?, ?::date, id = ? from "table"`, "float64 open,date32,int64", "float64,date32,bool"},
		{`select octet_length(?) + ?`, "large_binary open,float64 open", "float64"},
		{
			`select ?, ? + 1, octet_length(?), id + ?, date_trunc('day', ?) from "table" where ? || 'x' = ?`,
			"utf8 open,float64 open,large_binary open,float64 open,timestamp[us] open,utf8 open,utf8", "utf8,float64,int64,float64,timestamp[us]",
		},
		{`select id from "table" where ? is null`, "utf8 open", "int64"},
		{`select * from range(?)`, "null open", ""},
		{`select * from "table" at (version => ?)`, "int64 open", ""},
		{`select id from "table" t at (version => ?) where id < ? and md5(img) = ?`, "int64 open,int64,utf8", ""},
		{`select * from "table" at (timestamp => $1)`, "timestamp[us, tz=UTC] open", ""},
		{`select * from lance_scan(?)`, "null open", ""},
		{`select blob_range(img, ?, ?) from "table"`, "int64,int64", "large_binary"},
		{`select id::utinyint = ?, 1.5::float = ? from "table"`, "int64,float64", "bool,bool"},
	} {
		st, err := h.engine.Prepare(t.Context(), query.Session{}, tt.sql)
		if err != nil {
			t.Errorf("%s: %v", tt.sql, err)
			continue
		}
		var params []string
		for _, p := range st.Params() {
			text := p.Type.String()
			if p.Open {
				text += " open"
			}
			params = append(params, text)
		}
		if got := strings.Join(params, ","); got != tt.params {
			t.Errorf("%s: parameters %s, want %s", tt.sql, got, tt.params)
		}
		var columns []string
		s, err := st.Schema(schema.Materialized)
		if err != nil && !errors.Is(err, query.ErrOpen) {
			t.Errorf("%s: %v", tt.sql, err)
		}
		if err == nil {
			for _, f := range s.Fields() {
				columns = append(columns, f.Type.String())
			}
		}
		if got := strings.Join(columns, ","); got != tt.columns {
			t.Errorf("%s: columns %s, want %s", tt.sql, got, tt.columns)
		}
		if _, err := st.Query(t.Context(), query.QueryOptions{}); fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), "no values are bound") {
			t.Errorf("%s without values: %v", tt.sql, err)
		}
		st.Close()
	}
}

// TestPlaces checks that errors tell where in the text as it was given they are,
// whoever finds them and whatever the engine runs instead.
func TestPlaces(t *testing.T) {
	h := open(t, "kinds_basic_v22")
	for _, tt := range []struct{ sql, at string }{
		{`SELEC 1`, "SELEC"},
		{`select 1 +`, ""},
		{`select (1`, "(1"},
		{`select nope from "table"`, "nope"},
		{"-- first\n  select 1,\n\tnope(2)", "nope"},
		{`select 'é', nope`, "nope"},
		{`explain select nope`, "nope"},
		{`explain select id from "table" where`, ""},
		{`describe select nope`, "nope"},
		{`select x.id from "table" t at (version => 1)`, "x.id"},
		{`select t.id from "table" t at (version => 1) where nope`, "nope"},
		{`select 1 from "table" at (version => 1 + nope)`, "1 + nope"},
		{`select 1 from "table" at (version => 99)`, `"table" at`},
		{`select * from nosuch`, "nosuch"},
		{`select * from lance_scan('nosuch')`, "lance_scan"},
		{`select * from read_csv('x')`, "read_csv"},
		{`select id, getenv('x') from "table"`, "getenv"},
		{`select id, img::varchar from "table"`, "::"},
		{`select id from "table" where img = 'x'::blob`, "::blob"},
		{`select md5(concat(img, 'x')) from "table"`, "img, "},
		{`select id + 'x'::int from "table"`, "::int"},
		{`select 1 as a, 2 + b'x'`, "+ b'x'"},
	} {
		err := h.fails(tt.sql)
		var at *statement.Error
		switch {
		case err == nil:
		case !errors.As(err, &at):
			t.Errorf("%s: %v, without a place", tt.sql, err)
		case !strings.HasPrefix(tt.sql[at.Offset:], tt.at) || tt.at == "" && at.Offset != len(tt.sql):
			t.Errorf("%s: %v, at %q, want %q", tt.sql, err, tt.sql[at.Offset:], tt.at)
		}
	}
	_, err := h.engine.Filter(t.Context(), query.FilterRequest{
		Snapshot:  tabletest.At(t, tabletest.Open(t, tabletest.Env(t, tabletest.Fixtures(t)), tabletest.Fixtures(t)+"/kinds_basic_v22/table.lance"), table.Ref{}),
		Predicate: " /* all */ id > 3 and nope",
	})
	var at *statement.Error
	if !errors.As(err, &at) || at.Column != 23 {
		t.Errorf("a filter: %v", err)
	}
}

// TestPins checks that a session with pins sees the versions that a statement
// saw, and that two uses of a table in one statement see the same.
func TestPins(t *testing.T) {
	h := open(t, "tags_and_branches")
	st, err := h.engine.Prepare(t.Context(), query.Session{}, `select count(*) n from "table" a, lance_scan('"table"') b`)
	if err != nil {
		t.Fatal(err)
	}
	pins := st.Pins()
	st.Close()
	name := catalog.Name{Catalog: "tags_and_branches", Schema: "main", Table: "table"}
	if len(pins) != 1 || pins[0].Name != name || pins[0].Ref.Version == 0 {
		t.Fatalf("pins are %v", pins)
	}
	pins[0].Ref.Version = 1
	out, _, err := h.try(t.Context(), query.Session{Pins: pins}, schema.Materialized, `select count(*) n from "table"`)
	if err != nil || !strings.HasPrefix(out, `[{"n":7}`) {
		t.Errorf("with version 1 pinned: %s, %v", out, err)
	}
}

func TestCancelAndTimeout(t *testing.T) {
	h := open(t, "kinds_basic_v22")
	endless := `select count(*) from range(1000000) a, range(1000000) b where a.range + b.range = 7`
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	start := time.Now()
	if _, _, err := h.try(ctx, query.Session{}, schema.Materialized, endless); err == nil || time.Since(start) > 2*time.Second {
		t.Errorf("cancelled: %v after %v", err, time.Since(start))
	}
	start = time.Now()
	slow := open(t, "kinds_basic_v22")
	slow.timeout(300 * time.Millisecond)
	if _, _, err := slow.try(t.Context(), query.Session{}, schema.Materialized, endless); fault.KindOf(err) != fault.Exhausted || time.Since(start) > 3*time.Second {
		t.Errorf("timed out: %v after %v", err, time.Since(start))
	}
	// A reader that is given up half-way gives everything back.
	st, err := h.engine.Prepare(t.Context(), query.Session{}, `select img, repeat('x', 1000) from "table", range(100000)`)
	if err != nil {
		t.Fatal(err)
	}
	r, err := st.Query(t.Context(), query.QueryOptions{AsPrepared: true})
	if err != nil {
		t.Fatal(err)
	}
	if !r.Next() {
		t.Error(r.Err())
	}
	r.Release()
	st.Close()
}

func TestMemoryLimit(t *testing.T) {
	h := open(t, "kinds_basic_v22")
	h.limit(32 << 20)
	err := h.fails(`select list(repeat('x', 100000) || range) from range(100000)`)
	if fault.KindOf(err) != fault.Exhausted || !strings.Contains(err.Error(), "32 MiB") {
		t.Errorf("more than the limit: %v (%v)", err, fault.KindOf(err))
	}
	if got := h.one(`select 1 x`); got != `[{"x":1}]` {
		t.Errorf("afterwards: %s", got)
	}
}

// TestNames checks letters of either case, sessions, and SHOW and DESCRIBE.
func TestNames(t *testing.T) {
	h := open(t, "kinds_basic_v22", "nested_v22")
	for _, tt := range []struct {
		session query.Session
		sql     string
		want    string
	}{
		{query.Session{}, `select count(*) n from "TABLE"`, `[{"n":7}]`},
		{query.Session{}, `select count(*) n from KINDS_basic_v22.Main."Table"`, `[{"n":7}]`},
		{query.Session{}, `select count(*) n from nested_v22."table"`, `[{"n":5}]`},
		{query.Session{Catalog: "nested_v22"}, `select count(lli) n from "table"`, ``},
		{query.Session{Catalog: "nested_v22", Schema: "main"}, `select count(*) n from main."table"`, ``},
		{query.Session{}, `show tables`, `[{"name":"table"}]`},
		{query.Session{}, `select table_name n from information_schema.tables where table_catalog = 'nested_v22'`, `[{"n":"table"}]`},
		{query.Session{}, `select string_agg(column_name, ',') n from information_schema.columns where table_catalog = 'kinds_basic_v22'`, `[{"n":"id,img"}]`},
	} {
		out, _, err := h.try(t.Context(), tt.session, schema.Materialized, tt.sql)
		if out = strings.ReplaceAll(out, "\n", ""); err != nil || tt.want != "" && out != tt.want {
			t.Errorf("%s: %s, %v, want %s", tt.sql, out, err, tt.want)
		}
	}
	if got := h.one(`describe "table"`); !strings.Contains(got, `"column_name":"img","column_type":"LANCE_BLOB"`) {
		t.Errorf("describe: %s", got)
	}
	if _, _, err := h.try(t.Context(), query.Session{Schema: "nosuch"}, schema.Materialized, `select 1`); fault.KindOf(err) != fault.NotFound {
		t.Errorf("a session in no schema: %v", err)
	}
}
