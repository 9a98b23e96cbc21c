package engine

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/query/reference"
)

// shelf is a provider of batches in memory, by name.
type shelf struct {
	mu     sync.Mutex
	tables map[string]*kept
	scans  []string // columns of each scan
}

type kept struct {
	shelf   *shelf
	schema  *arrow.Schema
	batches []arrow.RecordBatch
	window  int
	listed  bool // positions are listed
}

func (s *shelf) Bind(call Call) (Relation, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tables[call.Args[0]]
	if t == nil {
		return nil, fault.New(fault.NotFound, "no table %q", call.Args[0])
	}
	return t, nil
}

func (k *kept) Schema() *arrow.Schema { return k.schema }

func (k *kept) Rows() int64 { return -1 }

func (k *kept) Scan(columns []int) (Batches, error) {
	k.shelf.mu.Lock()
	k.shelf.scans = append(k.shelf.scans, fmt.Sprint(columns))
	k.shelf.mu.Unlock()
	return &reading{table: k, columns: columns}, nil
}

type reading struct {
	table   *kept
	columns []int
	at      int
	first   uint64
}

func (r *reading) Next() (Batch, error) {
	if r.at >= len(r.table.batches) {
		return nil, io.EOF
	}
	b := r.table.batches[r.at]
	r.at++
	first := r.first
	r.first += uint64(b.NumRows())
	var fields []arrow.Field
	var columns []arrow.Array
	for _, c := range r.columns {
		fields, columns = append(fields, b.Schema().Field(c)), append(columns, b.Column(c))
	}
	made := Made{Rows: array.NewRecordBatch(arrow.NewSchema(fields, nil), columns, b.NumRows()), Window: r.table.window, First: first}
	if r.table.listed {
		for i := range b.NumRows() {
			made.Positions = append(made.Positions, first+uint64(i))
		}
		made.First = 1 << 40
	}
	return made, nil
}

func (r *reading) Close() {}

func (s *shelf) put(name string, window int, batches ...arrow.RecordBatch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tables[name] = &kept{shelf: s, schema: batches[0].Schema(), batches: batches, window: window}
}

func open(t *testing.T) (*DB, *shelf) {
	t.Helper()
	s := &shelf{tables: map[string]*kept{}}
	db, err := Open(Config{Threads: 2, Memory: 256 << 20, Catalogs: []string{"lance"}, BlobBytes: 1 << 20},
		[]TableFunction{{Name: "shelf", Args: 1}}, s, reference.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return db, s
}

func connect(t *testing.T, db *DB) *Conn {
	t.Helper()
	c, err := db.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// query gives the rows of a statement as text.
func query(t *testing.T, c *Conn, sql string) []string {
	t.Helper()
	rows, err := tryQuery(t.Context(), c, sql)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return rows
}

func tryQuery(ctx context.Context, c *Conn, sql string) ([]string, error) {
	p, err := c.Prepare(ctx, sql)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	r, err := p.Execute(ctx)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var rows []string
	for {
		b, err := r.Next(ctx)
		if b == nil || err != nil {
			return rows, err
		}
		for i := range int(b.NumRows()) {
			var parts []string
			for _, col := range b.Columns() {
				parts = append(parts, strings.Clone(col.ValueStr(i)))
			}
			rows = append(rows, strings.Join(parts, "|"))
		}
		b.Release()
	}
}

func integers(mem memory.Allocator, from, n int) arrow.Array {
	b := array.NewInt64Builder(mem)
	defer b.Release()
	for i := range n {
		b.Append(int64(from + i))
	}
	return b.NewArray()
}

func texts(mem memory.Allocator, from, n int) arrow.Array {
	b := array.NewStringBuilder(mem)
	defer b.Release()
	for i := range n {
		if (from+i)%7 == 3 {
			b.AppendNull()
			continue
		}
		b.Append(fmt.Sprintf("value number %d", from+i))
	}
	return b.NewArray()
}

func batch(names []string, columns ...arrow.Array) arrow.RecordBatch {
	var fields []arrow.Field
	for i, c := range columns {
		fields = append(fields, arrow.Field{Name: names[i], Type: c.DataType(), Nullable: true})
	}
	out := array.NewRecordBatch(arrow.NewSchema(fields, nil), columns, int64(columns[0].Len()))
	for _, c := range columns {
		c.Release()
	}
	return out
}

func TestScan(t *testing.T) {
	mem := memory.NewCheckedAllocator(memory.NewGoAllocator())
	db, s := open(t)
	const rows = 5000
	var batches []arrow.RecordBatch
	for at := 0; at < 3*rows; at += rows {
		batches = append(batches, batch([]string{"id", "s"}, integers(mem, at, rows), texts(mem, at, rows)))
	}
	s.put("t", 0, batches...)
	s.put("small", 100, batches...)
	c := connect(t, db)
	for _, table := range []string{"t", "small"} {
		from := "shelf('" + table + "')"
		for _, tt := range []struct{ sql, want string }{
			{"select count(*), sum(id), min(id), max(id) from " + from, "15000|112492500|0|14999"},
			{"select count(*), count(s), max(s) from " + from, "15000|12857|value number 9998"},
			{"select id, s from " + from + " where id = 14001", "14001|value number 14001"},
			{"select count(*) from (select distinct s from " + from + ") x join " + from + " y on x.s = y.s", "12857"},
			{"select s from " + from + " order by id desc limit 1 offset 1", "value number 14998"},
			{"select list(s order by id)[2] from " + from, "value number 1"},
			{"select sum(length(s)) from " + from + " where s > 'value number 5'", ""},
		} {
			got := query(t, c, tt.sql)
			if tt.want != "" && (len(got) != 1 || got[0] != tt.want) {
				t.Errorf("%s: %q, want %q", tt.sql, got, tt.want)
			}
		}
		got := query(t, c, "select id from "+from)
		for i, v := range got {
			if v != fmt.Sprint(i) {
				t.Fatalf("row %d of %d is %s: a scan keeps its order", i, len(got), v)
			}
		}
	}
	s.mu.Lock()
	if s.scans[0] != "[0]" || s.scans[1] != "[1]" {
		t.Errorf("columns of the first scans are %v, want only those that are needed", s.scans[:2])
	}
	s.mu.Unlock()

	for _, b := range batches {
		b.Release()
	}
	mem.AssertSize(t, 0)
}

// TestVirtualColumn checks that rows can be counted without reading a column:
// the engine asks for the first one, which may be virtual.
func TestVirtualColumn(t *testing.T) {
	db, s := open(t)
	s.put("t", 0, batch([]string{"row", "id"}, integers(memory.DefaultAllocator, 0, 10), integers(memory.DefaultAllocator, 0, 10)))
	fields := s.tables["t"].schema.Fields()
	fields[0].Metadata = VirtualMetadata
	s.tables["t"].schema = arrow.NewSchema(fields, nil)
	c := connect(t, db)
	if got := query(t, c, "select count(*) from (select * exclude (row) from shelf('t'))"); got[0] != "10" {
		t.Errorf("count is %s", got[0])
	}
	if got := query(t, c, "select sum(id) from (select * exclude (row) from shelf('t'))"); got[0] != "45" {
		t.Errorf("sum is %s", got[0])
	}
	if want := []string{"[]", "[1]"}; s.scans[0] != want[0] || s.scans[1] != want[1] {
		t.Errorf("the scans read columns %v, want %v", s.scans, want)
	}
}

func TestLimitEndsScan(t *testing.T) {
	db, s := open(t)
	var batches []arrow.RecordBatch
	for range 200 {
		batches = append(batches, batch([]string{"id"}, integers(memory.DefaultAllocator, 0, 5000)))
	}
	s.put("t", 0, batches...)
	c := connect(t, db)
	if got := query(t, c, "select id from shelf('t') limit 5"); len(got) != 5 {
		t.Errorf("limit 5 gives %d rows", len(got))
	}
}

// TestViews checks that a view made while a table had other columns shows the
// columns of now, and that DESCRIBE shows the alias.
func TestViews(t *testing.T) {
	db, s := open(t)
	s.put("t", 0, batch([]string{"stub"}, integers(memory.DefaultAllocator, 0, 1)))
	c := connect(t, db)
	if err := c.Exec(t.Context(), `create view lance.main.t as from shelf('t')`); err != nil {
		t.Fatal(err)
	}
	s.put("t", 0, batch([]string{"a", "b"}, integers(memory.DefaultAllocator, 0, 3), texts(memory.DefaultAllocator, 0, 3)))
	if got := query(t, c, "select a, b from lance.main.t where a = 2"); len(got) != 1 || got[0] != "2|value number 2" {
		t.Errorf("the view gives %q", got)
	}
	if err := c.Exec(t.Context(), `use "lance"."main"`); err != nil {
		t.Fatal(err)
	}
	if got := query(t, c, "select t.b, lance.main.t.a from T where A = 1"); len(got) != 1 || got[0] != "value number 1|1" {
		t.Errorf("the view gives %q", got)
	}
}

func TestErrors(t *testing.T) {
	db, s := open(t)
	s.put("t", 0, batch([]string{"id"}, integers(memory.DefaultAllocator, 0, 3)))
	c := connect(t, db)
	for _, tt := range []struct {
		sql  string
		kind fault.Kind
		text string
	}{
		{"select nosuch from shelf('t')", fault.Invalid, "nosuch"},
		{"selec 1", fault.Invalid, "syntax error"},
		{"select * from nosuch", fault.NotFound, "nosuch"},
		{"select * from shelf('nosuch')", fault.Invalid, `no table "nosuch"`},
		{"select 'x'::int from shelf('t')", fault.Invalid, "Could not convert"},
		{"select * from read_text('/etc/passwd')", fault.Denied, "disabled"},
		{"set threads = 3", fault.Invalid, "locked"},
		{"attach '/tmp/x.db'", fault.Denied, "disabled"},
		{"select 1\x00", fault.Invalid, "NUL"},
	} {
		_, err := tryQuery(t.Context(), c, tt.sql)
		if err == nil || fault.KindOf(err) != tt.kind || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: %v (%v), want %v with %q", tt.sql, err, fault.KindOf(err), tt.kind, tt.text)
		}
	}
}

func TestInterrupt(t *testing.T) {
	db, s := open(t)
	c := connect(t, db)
	s.put("t", 0, batch([]string{"id"}, integers(memory.DefaultAllocator, 0, 3)))
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err := tryQuery(ctx, c, "select count(*) from range(1000000) a, range(1000000) b where a.range + b.range = 7")
	if err == nil || time.Since(start) > 2*time.Second {
		t.Errorf("after %v: %v", time.Since(start), err)
	}
	if got := query(t, c, "select 1"); len(got) != 1 {
		t.Errorf("the connection is of no use any more: %q", got)
	}
}

func TestParameters(t *testing.T) {
	db, s := open(t)
	s.put("t", 0, batch([]string{"id", "s"}, integers(memory.DefaultAllocator, 0, 9), texts(memory.DefaultAllocator, 0, 9)))
	c := connect(t, db)
	p, err := c.Prepare(t.Context(), "select s, $x::blob from shelf('t') where id = $id")
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	var got []string
	for _, f := range p.Params() {
		got = append(got, f.Name+" "+f.Type.String())
	}
	for _, f := range p.Columns() {
		got = append(got, f.Name+" "+f.Type.String())
	}
	if want := `x BLOB,id BIGINT,s VARCHAR,CAST($x AS "BLOB") BLOB`; strings.Join(got, ",") != want {
		t.Errorf("parameters and columns are %s, want %s", strings.Join(got, ","), want)
	}
}
