package query_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"golang.org/x/sync/errgroup"

	"github.com/flightblob/flightblob/catalog"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/query"
	"github.com/flightblob/flightblob/table"
)

// writable is an engine over an empty root.
func writable(tb testing.TB) *house {
	tb.Helper()
	h := &house{tb: tb}
	dir := tb.TempDir()
	return h.over([]catalog.Root{{Name: "lance", URI: dir}}, dir)
}

// change runs a statement that writes.
func (h *house) change(sql string, params ...arrow.RecordBatch) (query.Outcome, error) {
	h.tb.Helper()
	c, err := h.engine.PrepareChange(h.tb.Context(), query.Session{}, sql)
	if err != nil {
		return query.Outcome{}, err
	}
	return c.Run(h.tb.Context(), params)
}

// do is change for statements that must succeed.
func (h *house) do(sql string, params ...arrow.RecordBatch) query.Outcome {
	h.tb.Helper()
	o, err := h.change(sql, params...)
	if err != nil {
		h.tb.Fatalf("%s: %v", sql, err)
	}
	if o.Answer != nil {
		h.tb.Cleanup(o.Answer.Release)
	}
	return o
}

// version is the newest version of a table.
func (h *house) version(name string) uint64 {
	h.tb.Helper()
	t, err := h.cat.Table(h.tb.Context(), catalog.Name{Table: name})
	if err != nil {
		h.tb.Fatal(err)
	}
	s, err := t.At(h.tb.Context(), table.Ref{})
	if err != nil {
		h.tb.Fatal(err)
	}
	return s.Version()
}

// rows makes parameters from JSON, with fields "name type".
func rows(tb testing.TB, json string, fields ...arrow.Field) arrow.RecordBatch {
	tb.Helper()
	b, _, err := array.RecordFromJSON(memory.DefaultAllocator, arrow.NewSchema(fields, nil), strings.NewReader(json))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(b.Release)
	return b
}

func (h *house) expect(sql, want string) {
	h.tb.Helper()
	got := strings.ReplaceAll(strings.ReplaceAll(h.query(sql), "]\n[", ","), "\n", "")
	if got != want {
		h.tb.Errorf("%s\ngot  %s\nwant %s", sql, got, want)
	}
}

func TestCreateAndInsert(t *testing.T) {
	h := writable(t)
	o := h.do(`CREATE TABLE t (id BIGINT NOT NULL, name VARCHAR, img LANCE_BLOB, pages STRUCT(no INT, scan LANCE_BLOB)[])`)
	if o.Version != 1 || o.Rows != 0 {
		t.Errorf("CREATE TABLE: %+v", o)
	}
	o = h.do(`INSERT INTO t VALUES (1, 'a', 'xyz'::BLOB, [{'no': 1, 'scan': 'p1'::BLOB}, {'no': 2, 'scan': NULL}]), (2, NULL, NULL, NULL)`)
	if o.Version != 2 || o.Rows != 2 {
		t.Errorf("INSERT: %+v", o)
	}
	h.expect(`SELECT id, name, img::BLOB b, len(pages) n FROM t ORDER BY id`,
		`[{"b":"eHl6","id":1,"n":2,"name":"a"},{"b":null,"id":2,"n":null,"name":null}]`)
	h.expect(`SELECT blob_bytes(pages[1].scan) b, pages[2].scan IS NULL n, pages[2].no z FROM t WHERE id = 1`, `[{"b":"cDE=","n":true,"z":2}]`)
	h.do(`INSERT INTO t (name, ID) VALUES ('c', 3)`)
	h.do(`INSERT INTO t SELECT id + 10, name || '!', img, pages FROM t`)
	h.expect(`SELECT id, name, blob_size(img) s FROM t WHERE id > 10 ORDER BY id`,
		`[{"id":11,"name":"a!","s":3},{"id":12,"name":null,"s":null},{"id":13,"name":"c!","s":null}]`)
	h.do(`INSERT INTO t BY NAME SELECT 'z' AS name, 99 AS id`)
	h.expect(`SELECT name FROM t WHERE id = 99`, `[{"name":"z"}]`)
	o = h.do(`CREATE TABLE u AS SELECT id, img, pages FROM t WHERE id < 3`)
	if o.Rows != 2 || o.Version != 1 {
		t.Errorf("CREATE TABLE AS: %+v", o)
	}
	h.expect(`SELECT id, img, blob_kind(img) k, blob_bytes(pages[1].scan) p FROM u ORDER BY id`, `[{"id":1,"img":"eHl6","k":"inline","p":"cDE="},{"id":2,"img":null,"k":null,"p":null}]`)
}

func TestInsertParameters(t *testing.T) {
	h := writable(t)
	h.do(`CREATE TABLE t (id INT, name VARCHAR, img LANCE_BLOB)`)
	c, err := h.engine.PrepareChange(t.Context(), query.Session{}, `INSERT INTO t VALUES (?, ?, ?)`)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(c.Params()); got != "[{1 int64 false} {2 utf8 false} {3 large_binary false}]" {
		t.Errorf("parameters: %s", got)
	}
	exact := rows(t, `[{"0":1,"1":"a","2":"eHl6"},{"0":2,"1":null,"2":null}]`,
		arrow.Field{Name: "0", Type: arrow.PrimitiveTypes.Int32, Nullable: true},
		arrow.Field{Name: "1", Type: arrow.BinaryTypes.String, Nullable: true},
		arrow.Field{Name: "2", Type: arrow.BinaryTypes.Binary, Nullable: true})
	if o, err := c.Run(t.Context(), []arrow.RecordBatch{exact}); err != nil || o.Rows != 2 || o.Version != 2 {
		t.Errorf("%+v, %v", o, err)
	}
	wide := rows(t, `[{"0":3,"1":"c","2":"eHl6"},{"0":4,"1":"d","2":""}]`,
		arrow.Field{Name: "0", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		arrow.Field{Name: "1", Type: arrow.BinaryTypes.String, Nullable: true},
		arrow.Field{Name: "2", Type: arrow.BinaryTypes.Binary, Nullable: true})
	if o, err := c.Run(t.Context(), []arrow.RecordBatch{wide}); err != nil || o.Rows != 2 || o.Version != 3 {
		t.Errorf("%+v, %v", o, err)
	}
	h.expect(`SELECT id, name, img FROM t ORDER BY id`,
		`[{"id":1,"img":"eHl6","name":"a"},{"id":2,"img":null,"name":null},{"id":3,"img":"eHl6","name":"c"},{"id":4,"img":"","name":"d"}]`)
}

func TestRefusedChanges(t *testing.T) {
	h := writable(t)
	h.do(`CREATE TABLE t (id INT NOT NULL, name VARCHAR, img LANCE_BLOB)`)
	h.do(`INSERT INTO t VALUES (1, 'a', NULL)`)
	for _, c := range []struct {
		sql, want string
		kind      fault.Kind
	}{
		{`INSERT INTO t (id, nme) VALUES (1, 'a')`, `statement: line 1, column 20: the table has no column "nme"`, fault.Invalid},
		{`INSERT INTO t VALUES (1, 'a')`, `row 1 has 2 values for 3 columns: id, name, img`, fault.Invalid},
		{`INSERT INTO t SELECT 1`, `the query has 1 columns for the 3 of the table`, fault.Invalid},
		{`INSERT INTO t VALUES ('x', 'a', NULL)`, `column id, row 1 of VALUES: "x" is no value of INTEGER; it takes whole numbers from -2147483648 to 2147483647`, fault.Invalid},
		{`INSERT INTO t VALUES (2, 'a', NULL), (NULL, 'b', NULL)`, `column id, row 2 of VALUES: null`, fault.Invalid},
		{`INSERT INTO t (name) VALUES ('a')`, `column "id" must not be null`, fault.Invalid},
		{`INSERT INTO t (id, id) VALUES (1, 1)`, `column id is listed twice`, fault.Invalid},
		{`INSERT INTO t VALUES (1, 'a', 5)`, `takes BLOB values, blob columns and blob_ref(…), not the number 5`, fault.Invalid},
		{`INSERT INTO t SELECT 1, 'a', true`, `blob column img takes BLOB values`, fault.Invalid},
		{`INSERT INTO gone VALUES (1)`, `gone`, fault.NotFound},
		{`CREATE TABLE T (a INT)`, `exists already`, fault.Exists},
		{`CREATE TABLE u (a INT, b NOSUCH)`, `the type of column b`, fault.Invalid},
		{`CREATE TABLE u (a INT, A INT)`, `two columns A`, fault.Invalid},
		{`CREATE TABLE u (a LANCE_BLOB) WITH (managd = true)`, `there is no setting "managd"`, fault.Invalid},
		{`DELETE FROM t WHERE nme = 'a'`, `statement: line 1, column 21: `, fault.Invalid},
		{`DELETE FROM t USING u WHERE true`, `statement: line 1, column 21: `, fault.NotFound},
		{`WITH w AS (SELECT 1 AS id) DELETE FROM t USING w WHERE t.id = w.idd`, `statement: line 1, column 63: `, fault.Invalid},
		{`DELETE FROM t WHERE img = 'x'::BLOB`, `blob_bytes(b)`, fault.Invalid},
		{`DELETE FROM t RETURNING count(*)`, `RETURNING takes expressions over one row`, fault.Invalid},
		{`UPDATE t SET nme = 'a'`, `statement: line 1, column 14: the table has no column "nme"`, fault.Invalid},
		{`UPDATE t SET name = 'a', name = 'b'`, `statement: line 1, column 26: column name is set twice`, fault.Invalid},
		{`UPDATE t SET id = nme || 'é', name = nome`, `statement: line 1, column 19: `, fault.Invalid},
		{`UPDATE t SET name = 'a' WHERE idd = 1`, `statement: line 1, column 31: `, fault.Invalid},
		{`UPDATE t SET img = 5`, `statement: line 1, column 20: a blob column takes BLOB values, blob columns and blob_ref(…), not the number 5`, fault.Invalid},
		{`UPDATE t SET img = id > 3`, `statement: line 1, column 20: blob column img takes BLOB values, blob columns and blob_ref(…), not BOOLEAN`, fault.Invalid},
		{`UPDATE t SET id = NULL`, `column id, row 0 of those found: null, but the column must not be null`, fault.Invalid},
		{`UPDATE t SET id = 'x'`, `Could not convert string 'x' to INT32`, fault.Invalid},
		{`UPDATE gone SET id = 1`, `gone`, fault.NotFound},
		{`ALTER TABLE t ADD COLUMN Name INT`, `statement: line 1, column 26: the table has a column Name already`, fault.Invalid},
		{`ALTER TABLE t ADD COLUMN x NOSUCH`, `the type of column x`, fault.Invalid},
		{`ALTER TABLE t ADD COLUMN id.x INT`, `column id is no struct`, fault.Invalid},
		{`ALTER TABLE t DROP COLUMN nme`, `the table has no column nme`, fault.Invalid},
		{`ALTER TABLE t RENAME COLUMN name TO ID`, `there is a column id already`, fault.Exists},
		{`ALTER TABLE t ALTER COLUMN img SET NOT NULL`, `column img of t has nulls, the first in row 0`, fault.Precondition},
		{`ALTER TABLE gone DROP COLUMN a`, `gone`, fault.NotFound},
		{`MERGE INTO t USING u ON true WHEN MATCHED THEN DELETE`, `statement: line 1, column 20: `, fault.NotFound},
		{`MERGE INTO t USING (SELECT 1 AS k) s ON t.id = s.kk WHEN MATCHED THEN DELETE`, `statement: line 1, column 48: `, fault.Invalid},
		{`MERGE INTO t USING (SELECT 1 AS k) s ON t.id = s.k WHEN MATCHED THEN UPDATE SET nme = 'x'`, `statement: line 1, column 81: the table has no column "nme"`, fault.Invalid},
		{`MERGE INTO t USING (SELECT 1 AS k) s ON t.id = s.k WHEN NOT MATCHED THEN INSERT`, `the source has 1 columns and the table 3`, fault.Invalid},
		{`MERGE INTO t USING (SELECT 1 AS k) s ON t.id = s.k WHEN NOT MATCHED THEN INSERT BY NAME`, `BY NAME: the table has no column "k"`, fault.Invalid},
		{`MERGE INTO t USING (SELECT 1 AS k) s ON t.id = s.k WHEN NOT MATCHED THEN INSERT (name) VALUES ('a')`, `column "id" must not be null`, fault.Invalid},
		{`MERGE INTO t USING (VALUES (1), (1)) s(k) ON t.id = s.k WHEN MATCHED THEN UPDATE SET name = 'x'`, `matched by more than one row of the source`, fault.Invalid},
		{`MERGE INTO t USING (SELECT (random() * 3)::INT AS k) s ON t.id = s.k WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN DO NOTHING`, `the source has random, and each clause would see other rows`, fault.Invalid},
		{`MERGE INTO t USING (SELECT id AS k FROM t USING SAMPLE 5) s ON t.id = s.k WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN DO NOTHING`, `the source has a sample`, fault.Invalid},
		{`MERGE INTO t USING (VALUES (1)) s(k) ON t.id = s.k WHEN MATCHED THEN ERROR 'no ' || 1`, `'no ' || 1, of 1 row`, fault.Invalid},
		{`TRUNCATE gone`, `gone`, fault.NotFound},
	} {
		_, err := h.change(c.sql)
		if err == nil || fault.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v (%v), want %q", c.sql, err, fault.KindOf(err), c.want)
		}
	}
	if v := h.version("t"); v != 2 {
		t.Errorf("refused statements made version %d", v)
	}
}

func TestRemovedRows(t *testing.T) {
	h := writable(t)
	h.do(`CREATE TABLE t (id INT, img LANCE_BLOB)`)
	h.do(`INSERT INTO t SELECT id, ('v' || id)::BLOB FROM range(10) r(id)`)
	h.do(`INSERT INTO t SELECT id, ('v' || id)::BLOB FROM range(10, 20) r(id)`)
	for _, c := range []struct {
		sql       string
		rows      int64
		remaining string
	}{
		{`DELETE FROM t WHERE id = 77`, 0, `[0,19,20]`},
		{`DELETE FROM t WHERE id < 3`, 3, `[3,19,17]`},
		{`DELETE FROM t AS x USING (VALUES (3), (4), (4)) v(k) WHERE x.id = v.k`, 2, `[5,19,15]`},
		{`DELETE FROM t WHERE blob_size(img) = 3 AND id < 15`, 5, `[5,19,10]`},
		{`WITH w AS (SELECT 5 AS k) DELETE FROM t USING w WHERE id = k`, 1, `[6,19,9]`},
		{`DELETE FROM t WHERE id IN (SELECT max(id) FROM t)`, 1, `[6,18,8]`},
		{`DELETE FROM t WHERE id < 10`, 4, `[15,18,4]`}, // what is left of the first fragment
		{`TRUNCATE t`, 4, `[null,null,0]`},
	} {
		before := h.version("t")
		if o := h.do(c.sql); o.Rows != c.rows || (o.Version == before) != (c.rows == 0) || o.Version != h.version("t") {
			t.Errorf("%s: %+v, before it version %d", c.sql, o, before)
		}
		h.expect(`SELECT [min(id), max(id), count(*)] AS l FROM t`, `[{"l":`+c.remaining+`}]`)
	}
	h.do(`INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, NULL)`)
	c, err := h.engine.PrepareChange(t.Context(), query.Session{}, `DELETE FROM t WHERE id = ?`)
	if err != nil {
		t.Fatal(err)
	}
	if p := c.Params(); len(p) != 1 || p[0].Type.ID() != arrow.INT64 {
		t.Errorf("parameters %v", p)
	}
	keys := rows(t, `[{"1":1},{"1":2},{"1":1},{"1":9}]`, arrow.Field{Name: "1", Type: arrow.PrimitiveTypes.Int32, Nullable: true})
	if o, err := c.Run(t.Context(), []arrow.RecordBatch{keys}); err != nil || o.Rows != 2 {
		t.Errorf("%+v, %v", o, err)
	}
	h.expect(`SELECT id FROM t ORDER BY id`, `[{"id":3},{"id":4}]`)
	if o := h.do(`DELETE FROM t`); o.Rows != 2 {
		t.Errorf("%+v", o)
	}
}

// Rows that refer to objects of their own table are published right after the
// version that was read, however many write at once (GC-3).
func TestSharedObjectsBesideOtherWrites(t *testing.T) {
	h := writable(t)
	h.do(`CREATE TABLE t (id INT, img LANCE_BLOB) WITH (managed = true, "img.inline" = 0)`)
	h.do(`INSERT INTO t VALUES (0, 'payload'::BLOB)`)
	const writers, each = 6, 4
	var group errgroup.Group
	for range writers {
		group.Go(func() error {
			for range each {
				c, err := h.engine.PrepareChange(t.Context(), query.Session{}, `INSERT INTO t SELECT id + 1, img FROM t WHERE id = 0`)
				if err != nil {
					return err
				}
				if o, err := c.Run(t.Context(), nil); err != nil || o.Rows != 1 {
					return fmt.Errorf("%d rows: %w", o.Rows, err)
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
	h.expect(`SELECT count(*) n, count(DISTINCT blob_bytes(img)) d FROM t`, `[{"d":1,"n":25}]`)
	h.expect(`SELECT DISTINCT blob_kind(img) k FROM t`, `[{"k":"managed"}]`)
}

// What blob_ref makes is copied with the plan of a statement, is null for null,
// and stays what it is through joins, sorts and lists.
func TestGivenReferencesThroughPlans(t *testing.T) {
	h := writable(t)
	h.do(`CREATE TABLE t (id INT, img LANCE_BLOB, all_of LANCE_BLOB[])`)
	root, err := h.cat.Root("lance")
	if err != nil {
		t.Fatal(err)
	}
	uri := root.Join("x").AbsoluteURI()
	h.do(`INSERT INTO t WITH r AS (SELECT i, blob_ref('` + uri + `', i, i + 1) b FROM range(3) r(i))
		SELECT a.i, b.b, list(a.b) OVER () FROM r a JOIN r b USING (i) UNION ALL SELECT 9, blob_ref(NULL), NULL ORDER BY 1 DESC`)
	h.expect(`SELECT id, blob_uri(img) = '`+uri+`' u, blob_descriptor(img).position p, blob_descriptor(img).size s, len(all_of) n FROM t ORDER BY id`,
		`[{"id":0,"n":3,"p":0,"s":1,"u":true},{"id":1,"n":3,"p":1,"s":2,"u":true},{"id":2,"n":3,"p":2,"s":3,"u":true},{"id":9,"n":null,"p":null,"s":null,"u":null}]`)
}

// All rows that are bound to one row of VALUES are one query, in their order.
func TestBoundRowsAreOneQuery(t *testing.T) {
	h := writable(t)
	h.do(`CREATE TABLE t (id SMALLINT, name VARCHAR, img LANCE_BLOB)`)
	c, err := h.engine.PrepareChange(t.Context(), query.Session{}, `INSERT INTO t VALUES (? + 1, upper(?), ?)`)
	if err != nil {
		t.Fatal(err)
	}
	const n = 5000
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, `%s{"0":%d,"1":"n%d","2":"%s"}`, []string{"[", ","}[min(i, 1)], i, i, []string{"eHl6", ""}[i%2])
	}
	bound := rows(t, text.String()+"]",
		arrow.Field{Name: "0", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		arrow.Field{Name: "1", Type: arrow.BinaryTypes.String, Nullable: true},
		arrow.Field{Name: "2", Type: arrow.BinaryTypes.LargeBinary, Nullable: true})
	parts := []arrow.RecordBatch{bound.NewSlice(0, 1000), bound.NewSlice(1000, n)}
	defer parts[0].Release()
	defer parts[1].Release()
	if o, err := c.Run(t.Context(), parts); err != nil || o.Rows != n || o.Version != 2 {
		t.Fatalf("%+v, %v", o, err)
	}
	h.expect(`SELECT count(*) n, sum(id) s, count_if(name = 'N' || (id - 1)) u, count_if(blob_size(img) = CASE WHEN id % 2 = 1 THEN 3 ELSE 0 END) b FROM t`,
		`[{"b":"5000","n":5000,"s":"12502500","u":"5000"}]`)
	h.expect(`SELECT bool_and(id = rn) o FROM (SELECT id, row_number() OVER () rn FROM lance_scan('t'))`, `[{"o":true}]`)

	late := rows(t, `[{"0":1,"1":"a","2":null},{"0":40000,"1":"b","2":null}]`, bound.Schema().Fields()...)
	_, err = c.Run(t.Context(), []arrow.RecordBatch{late})
	if want := `column id, row 1 of the parameters: "40001" is no value of SMALLINT; it takes whole numbers from -32768 to 32767`; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}

func TestChangedRows(t *testing.T) {
	h := writable(t)
	h.do(`CREATE TABLE t (id INT, name VARCHAR, img LANCE_BLOB, st STRUCT(a INT, b LANCE_BLOB), l LANCE_BLOB[]) WITH ("img.inline" = 2)`)
	h.do(`INSERT INTO t SELECT id, 'n' || id, ('v' || id)::BLOB, {'a': id, 'b': 'in'::BLOB}, ['x'::BLOB, NULL] FROM range(4) r(id)`)
	h.do(`INSERT INTO t SELECT id, 'n' || id, ('v' || id)::BLOB, NULL, [] FROM range(4, 8) r(id)`)
	root, err := h.cat.Root("lance")
	if err != nil {
		t.Fatal(err)
	}
	h.do(`CREATE TABLE u (img LANCE_BLOB)`)
	h.do(`INSERT INTO u VALUES (blob_ref('` + root.Join("x").AbsoluteURI() + `'))`)
	for _, c := range []struct {
		sql  string
		rows int64
		want string
	}{
		{`UPDATE t SET name = 'x' WHERE id = 77`, 0, `[{"r":"n0v0"}]`},
		{`UPDATE t SET name = upper(name) || id WHERE id < 2`, 2, `[{"r":"N00v0"}]`},
		{`UPDATE t AS u SET name = v.w, id = u.id FROM (VALUES (0, 'a'), (0, 'a'), (5, 'b')) v(k, w) WHERE u.id = v.k`, 2, `[{"r":"av0"}]`},
		{`UPDATE t SET img = 'neu'::BLOB, name = DEFAULT WHERE blob_size(img) = 2 AND id = 0`, 1, `[{"r":null}]`},
		{`UPDATE t SET (name, img) = (id::VARCHAR, NULL)`, 8, `[{"r":null}]`},
		{`UPDATE t SET name = 'c', img = l[1] WHERE id = 0`, 1, `[{"r":"cx"}]`},
		{`WITH w AS (SELECT 'd' AS x) UPDATE t SET name = x FROM w WHERE id = 0`, 1, `[{"r":"dx"}]`},
		{`UPDATE t SET id = id + 10, name = name, img = img, st = st, l = l WHERE id > 0`, 7, `[{"r":"dx"}]`},
	} {
		before := h.version("t")
		if o := h.do(c.sql); o.Rows != c.rows || (o.Version == before) != (c.rows == 0) || o.Version != h.version("t") {
			t.Errorf("%s: %+v, before it version %d", c.sql, o, before)
		}
		h.expect(`SELECT name || decode(blob_bytes(img)) AS r FROM t WHERE id = 0`, c.want)
	}
	h.expect(`SELECT count(*) AS n, sum(id) AS s, count(img) AS i, sum(st.a) AS a, count(st.b) AS b, sum(len(l)) AS l FROM t`,
		`[{"a":"6","b":4,"i":1,"l":"8","n":8,"s":"98"}]`)
	h.expect(`SELECT decode(blob_bytes(st.b)) AS b, decode(blob_bytes(l[1])) AS l FROM t WHERE id = 13`, `[{"b":"in","l":"x"}]`)
	c, err := h.engine.PrepareChange(t.Context(), query.Session{}, `UPDATE t SET img = ?, name = ? WHERE id = ?`)
	if err != nil {
		t.Fatal(err)
	}
	values := rows(t, `[{"1":"YWI=","2":"p","3":0},{"1":null,"2":"q","3":11},{"1":"YWJj","2":"r","3":77}]`,
		arrow.Field{Name: "1", Type: arrow.BinaryTypes.Binary, Nullable: true},
		arrow.Field{Name: "2", Type: arrow.BinaryTypes.String, Nullable: true},
		arrow.Field{Name: "3", Type: arrow.PrimitiveTypes.Int32, Nullable: true})
	if o, err := c.Run(t.Context(), []arrow.RecordBatch{values}); err != nil || o.Rows != 2 {
		t.Errorf("%+v, %v", o, err)
	}
	twice := rows(t, `[{"1":null,"2":"lost","3":0},{"1":null,"2":"lost","3":11},{"1":null,"2":"lost","3":0}]`, values.Schema().Fields()...)
	if o, err := c.Run(t.Context(), []arrow.RecordBatch{twice}); fault.KindOf(err) != fault.Invalid || !strings.HasPrefix(err.Error(), "row 2 of the parameters: ") {
		t.Errorf("%+v, %v", o, err)
	}
	if _, err := h.change(`UPDATE t SET name = 'x', id = 99999999999`); fault.KindOf(err) != fault.Invalid ||
		!strings.Contains(err.Error(), "column 31: ") || strings.Contains(err.Error(), "source column") {
		t.Errorf("%v", err)
	}
	if o := h.do(`UPDATE t SET img = blob_ref(blob_uri(u.img), 0, 4) FROM u WHERE t.id = 12`); o.Rows != 1 {
		t.Errorf("%+v", o)
	}
	h.expect(`SELECT blob_kind(img) AS k, blob_descriptor(img).size AS s FROM t WHERE id = 12`, `[{"k":"external","s":4}]`)
	h.expect(`SELECT id, name, img FROM t WHERE id IN (0, 11) ORDER BY id`, `[{"id":0,"img":"YWI=","name":"p"},{"id":11,"img":null,"name":"q"}]`)
}

func TestMergedRows(t *testing.T) {
	h := writable(t)
	h.do(`CREATE TABLE t (id INT NOT NULL, name VARCHAR, img LANCE_BLOB)`)
	h.do(`INSERT INTO t SELECT id, 'n' || id, ('v' || id)::BLOB FROM range(6) r(id)`)
	h.do(`CREATE TABLE s (id INT, name VARCHAR, img LANCE_BLOB)`)
	h.do(`INSERT INTO s SELECT id, 's' || id, ('w' || id)::BLOB FROM range(4, 8) r(id)`)
	for _, c := range []struct {
		sql  string
		rows int64
		want string
	}{
		{`MERGE INTO t USING s ON t.id = s.id WHEN MATCHED AND s.id = 77 THEN DELETE WHEN MATCHED AND t.id > 100 THEN UPDATE`, 0, "n0v0 n1v1 n2v2 n3v3 n4v4 n5v5"},
		{`MERGE INTO t USING s USING (id) WHEN MATCHED THEN UPDATE WHEN NOT MATCHED THEN INSERT`, 4, "n0v0 n1v1 n2v2 n3v3 s4w4 s5w5 s6w6 s7w7"},
		{`MERGE INTO t AS x USING (SELECT id + 1 AS k, name FROM s) y ON x.id = y.k
			WHEN MATCHED AND x.id = 5 THEN DELETE
			WHEN MATCHED AND x.id < 7 THEN UPDATE SET name = x.name || y.name
			WHEN MATCHED THEN DO NOTHING
			WHEN NOT MATCHED BY SOURCE AND x.id = 0 THEN DELETE
			WHEN NOT MATCHED BY SOURCE AND x.id < 3 THEN UPDATE SET img = 'z'::BLOB
			WHEN NOT MATCHED BY TARGET THEN INSERT (name, id) VALUES (upper(y.name), y.k)`, 6, "n1z n2z n3v3 s4w4 s6s5w6 s7w7 S7-"},
		{`MERGE INTO t USING (SELECT id, img FROM s WHERE id = 7) s ON t.id = s.id WHEN MATCHED THEN UPDATE BY NAME`, 1, "n1z n2z n3v3 s4w4 s6s5w6 s7w7 S7-"},
		{`WITH w AS (SELECT 50 AS id) MERGE INTO t USING w ON t.id = w.id WHEN NOT MATCHED THEN INSERT BY NAME`, 1, "n1z n2z n3v3 s4w4 s6s5w6 s7w7 S7- --"},
		{`MERGE INTO t USING (SELECT 1) ON false WHEN NOT MATCHED BY SOURCE THEN DELETE`, 8, "null"},
	} {
		before := h.version("t")
		o, err := h.change(c.sql)
		if err != nil {
			t.Fatalf("%s: %v", c.sql, err)
		}
		if o.Rows != c.rows || (o.Version == before) != (c.rows == 0) || o.Version != h.version("t") {
			t.Errorf("%s: %+v, before it version %d", c.sql, o, before)
		}
		want := `[{"r":"` + c.want + `"}]`
		if c.want == "null" {
			want = `[{"r":null}]`
		}
		h.expect(`SELECT string_agg(coalesce(name, '-') || coalesce(decode(blob_bytes(img)), '-'), ' ' ORDER BY id) AS r FROM t`, want)
	}
	c, err := h.engine.PrepareChange(t.Context(), query.Session{}, `MERGE INTO t USING (SELECT ?::INT AS id, ? AS name, ?::BLOB AS img) s ON t.id = s.id
		WHEN MATCHED THEN UPDATE WHEN NOT MATCHED THEN INSERT`)
	if err != nil {
		t.Fatal(err)
	}
	fields := []arrow.Field{{Name: "1", Type: arrow.PrimitiveTypes.Int32, Nullable: true}, {Name: "2", Type: arrow.BinaryTypes.String, Nullable: true}, {Name: "3", Type: arrow.BinaryTypes.Binary, Nullable: true}}
	for i, values := range []string{`[{"1":1,"2":"a","3":"YQ=="},{"1":2,"2":"b","3":null}]`, `[{"1":2,"2":"B","3":"Qg=="},{"1":3,"2":"c","3":"Yw=="}]`} {
		if o, err := c.Run(t.Context(), []arrow.RecordBatch{rows(t, values, fields...)}); err != nil || o.Rows != 2 {
			t.Errorf("%d: %+v, %v", i, o, err)
		}
	}
	h.expect(`SELECT id, name, img FROM t ORDER BY id`, `[{"id":1,"img":"YQ==","name":"a"},{"id":2,"img":"Qg==","name":"B"},{"id":3,"img":"Yw==","name":"c"}]`)
}

// Each clause has a query of its own, whatever parameters the others take.
func TestMergeParametersOfClauses(t *testing.T) {
	h := writable(t)
	h.do(`CREATE TABLE t (id INT, name VARCHAR, img LANCE_BLOB)`)
	h.do(`INSERT INTO t VALUES (1, 'a', NULL)`)
	text, number, bytes := arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int32, arrow.BinaryTypes.Binary
	for _, c := range []struct {
		sql    string
		types  []arrow.DataType
		values string
		want   string
	}{
		{
			`MERGE INTO t USING (SELECT ?::INT AS id) s USING (id) WHEN MATCHED THEN UPDATE SET name = ? WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, ?)`,
			[]arrow.DataType{number, text, text},
			`[{"1":1,"2":"b","3":"x"},{"1":2,"2":"x","3":"c"}]`, "1b- 2c-",
		},
		{
			`MERGE INTO t USING (SELECT 2 AS id) s USING (id) WHEN MATCHED THEN UPDATE SET img = ? WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, ?)`,
			[]arrow.DataType{bytes, text},
			`[{"1":"eA==","2":"c"}]`, "1b- 2cx",
		},
		{
			`MERGE INTO t USING (SELECT $2::INT AS id) s ON t.id = s.id AND t.id > $1 WHEN MATCHED AND s.id < $3 THEN DELETE WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, $4)`,
			[]arrow.DataType{number, number, number, text},
			`[{"1":0,"2":1,"3":9,"4":"d"},{"1":0,"2":3,"3":9,"4":"d"}]`, "2cx 3d-",
		},
	} {
		change, err := h.engine.PrepareChange(t.Context(), query.Session{}, c.sql)
		if err != nil {
			t.Fatalf("%s: %v", c.sql, err)
		}
		var fields []arrow.Field
		for i, p := range change.Params() {
			if p.Open {
				t.Errorf("%s: the type of parameter %d is open", c.sql, i+1)
			}
			fields = append(fields, arrow.Field{Name: fmt.Sprint(i + 1), Type: c.types[i], Nullable: true})
		}
		if _, err := change.Run(t.Context(), []arrow.RecordBatch{rows(t, c.values, fields...)}); err != nil {
			t.Fatalf("%s: %v", c.sql, err)
		}
		h.expect(`SELECT string_agg(id || name || coalesce(decode(blob_bytes(img)), '-'), ' ' ORDER BY id) AS r FROM t`, `[{"r":"`+c.want+`"}]`)
	}
}

// Those who insert what they do not find find what others have inserted.
func TestMergesOfTheSameKeys(t *testing.T) {
	h := writable(t)
	h.do(`CREATE TABLE t (id INT, n INT)`)
	h.do(`INSERT INTO t VALUES (0, 0)`)
	var g errgroup.Group
	for i := range 4 {
		g.Go(func() error {
			for k := range 3 {
				c, err := h.engine.PrepareChange(t.Context(), query.Session{}, fmt.Sprintf(`MERGE INTO t USING (SELECT unnest([%d, %d]) AS id) s USING (id)
					WHEN MATCHED AND t.id < 0 THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (s.id, %d)`, k, k+1, i))
				if err != nil {
					return err
				}
				if _, err := c.Run(t.Context(), nil); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	h.expect(`SELECT count(*) AS rows, count(DISTINCT id) AS keys FROM t`, `[{"keys":4,"rows":4}]`)
}

// A statement whose table got other columns after it was prepared means the
// columns that are there when it runs, and loses nothing of new ones.
func TestColumnsThatComeAfterPreparation(t *testing.T) {
	h := writable(t)
	h.do(`CREATE TABLE t (id INT, name VARCHAR)`)
	h.do(`INSERT INTO t SELECT id, 'n' || id FROM range(4) r(id)`)
	prepare := func(sql string) *query.Change {
		c, err := h.engine.PrepareChange(t.Context(), query.Session{}, sql)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	update := prepare(`UPDATE t SET name = 'u' WHERE id = 1`)
	merge := prepare(`MERGE INTO t USING (SELECT 2 AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET name = 'm'`)
	late := prepare(`UPDATE t SET name = 'lost' WHERE id = 3`)
	h.do(`ALTER TABLE t ADD COLUMN more INT`)
	h.do(`UPDATE t SET more = id * 10`)
	for _, c := range []*query.Change{update, merge} {
		if o, err := c.Run(t.Context(), nil); err != nil || o.Rows != 1 {
			t.Errorf("%s: %+v, %v", c.Kind(), o, err)
		}
	}
	h.expect(`SELECT string_agg(name || more, ' ' ORDER BY id) AS r FROM t`, `[{"r":"n00 u10 m20 n330"}]`)
	insert := prepare(`INSERT INTO t VALUES (7, 'seven', 70)`)
	h.do(`ALTER TABLE t ADD COLUMN late INT`)
	if o, err := insert.Run(t.Context(), nil); err != nil || o.Rows != 1 {
		t.Errorf("%+v, %v", o, err)
	}
	h.do(`CREATE TABLE s (a VARCHAR, b VARCHAR)`)
	swapped := prepare(`INSERT INTO s SELECT 'first', 'second'`)
	for _, rename := range []string{"a TO c", "b TO a", "c TO b"} {
		h.do(`ALTER TABLE s RENAME ` + rename)
	}
	if _, err := swapped.Run(t.Context(), nil); err != nil {
		t.Error(err)
	}
	h.expect(`SELECT b, a FROM s`, `[{"a":"second","b":"first"}]`)
	h.do(`ALTER TABLE t DROP COLUMN name`)
	if _, err := late.Run(t.Context(), nil); fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), "column 14") {
		t.Errorf("%v", err)
	}
}
