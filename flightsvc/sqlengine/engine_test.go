package sqlengine_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/flight/flightsql"
	flightpb "github.com/apache/arrow-go/v18/arrow/flight/gen/flight"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/flightblob/flightblob/catalog"
	"github.com/flightblob/flightblob/flightsvc"
	"github.com/flightblob/flightblob/flightsvc/sqlengine"
	"github.com/flightblob/flightblob/flightsvc/wire"
	"github.com/flightblob/flightblob/query"
	"github.com/flightblob/flightblob/table/tabletest"
)

// fixtures are tables of all shapes, each folder a root with tables of its own.
var fixtures = []string{
	"kinds_basic_v22", "nested_v22", "nested_v23", "fragments_and_deletions", "stable_row_ids", "column_added_later",
	"legacy_v21", "non_nullable", "no_rows", "all_null", "many_inline", "shape_minimal", "tags_and_branches",
}

// house is a server over fixtures and a client of it.
type house struct {
	cat    *catalog.Catalog
	sql    *query.Engine
	engine *sqlengine.Engine
	client *flightsql.Client
	addr   string
}

// dial makes another client.
func (h *house) dial(t testing.TB, opts ...grpc.DialOption) *flightsql.Client {
	t.Helper()
	opts = append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)))
	c, err := flight.NewClientWithMiddleware(h.addr, nil, nil, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return &flightsql.Client{Client: c}
}

func serve(t testing.TB) *house {
	t.Helper()
	dir := tabletest.Fixtures(t)
	var roots []catalog.Root
	for _, name := range fixtures {
		roots = append(roots, catalog.Root{Name: name, URI: filepath.Join(dir, name)})
	}
	return over(t, roots, dir)
}

func over(t testing.TB, roots []catalog.Root, prefixes ...string) *house {
	t.Helper()
	cat, err := catalog.Open(t.Context(), roots, tabletest.Env(t, prefixes...))
	if err != nil {
		t.Fatal(err)
	}
	sql, err := query.Open(cat, query.Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	h := &house{cat: cat, sql: sql, engine: sqlengine.New(cat, sql)}
	svc, err := flightsvc.New(cat, flightsvc.Options{Plain: true, Engine: h.engine})
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer(svc.ServerOptions()...)
	svc.Register(g)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = g.Serve(wire.NewListener(l))
	}()
	t.Cleanup(func() {
		g.Stop()
		<-done
		svc.Close()
		sql.Close()
	})
	h.addr = l.Addr().String()
	h.client = h.dial(t)
	return h
}

// read gives schema and rows of all endpoints, each row in text.
func (h *house) read(ctx context.Context, info *flight.FlightInfo) (*arrow.Schema, []string, error) {
	var sch *arrow.Schema
	rows := []string{}
	for _, e := range info.Endpoint {
		stream, err := h.client.Client.DoGet(ctx, e.Ticket)
		if err != nil {
			return nil, nil, err
		}
		r, err := flight.NewRecordReader(stream)
		if err != nil {
			return nil, nil, err
		}
		sch = r.Schema()
		for r.Next() {
			b := r.RecordBatch()
			for i := range int(b.NumRows()) {
				parts := make([]string, b.NumCols())
				for c, col := range b.Columns() {
					parts[c] = col.ValueStr(i)
				}
				rows = append(rows, strings.Join(parts, " | "))
			}
		}
		err = r.Err()
		r.Release()
		if err != nil && !errors.Is(err, io.EOF) {
			return sch, rows, err
		}
	}
	return sch, rows, nil
}

func (h *house) run(ctx context.Context, sql string) ([]string, error) {
	info, err := h.client.Execute(ctx, sql)
	if err != nil {
		return nil, err
	}
	_, rows, err := h.read(ctx, info)
	return rows, err
}

func parse(t testing.TB, b []byte) *arrow.Schema {
	t.Helper()
	sch, err := flight.DeserializeSchema(b, memory.DefaultAllocator)
	if err != nil {
		t.Fatal(err)
	}
	return sch
}

// same compares what clients compare: names, order, types, nullability.
func same(t testing.TB, what string, want, got *arrow.Schema) {
	t.Helper()
	if want.NumFields() != got.NumFields() {
		t.Errorf("%s: %d columns, want %d", what, got.NumFields(), want.NumFields())
		return
	}
	for i, f := range want.Fields() {
		if g := got.Field(i); f.Name != g.Name || f.Nullable != g.Nullable || !arrow.TypeEqual(f.Type, g.Type) {
			t.Errorf("%s: column %d is %s, want %s", what, i, g, f)
		}
	}
}

// One plan has one schema, wherever a client meets it: in the list of tables,
// after preparing, from GetSchema, in the info and on the stream; for plain
// scans and for what the engine computes.
func TestOneSchema(t *testing.T) {
	t.Parallel()
	h := serve(t)
	for _, preferences := range [][]string{{}, {"descriptor"}, {"logical"}, {"bytes", "bi"}, {"descriptor", "bi"}} {
		ctx := t.Context()
		if len(preferences) > 0 {
			ctx = metadata.AppendToOutgoingContext(ctx, "flightblob-blobs", preferences[0])
		}
		if len(preferences) > 1 {
			ctx = metadata.AppendToOutgoingContext(ctx, "flightblob-profile", preferences[1])
		}
		for _, fixture := range fixtures {
			what := fmt.Sprint(fixture, preferences)
			listed := h.listed(ctx, t, fixture)
			plain := fmt.Sprintf(`SELECT * FROM %s.main."table"`, fixture)
			for _, sql := range []string{plain, plain + " WHERE 1 = 1", plain + " LIMIT 1"} {
				info, err := h.client.Execute(ctx, sql)
				if err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				announced := parse(t, info.Schema)
				same(t, what+" in the list", announced, listed)
				p, err := h.client.Prepare(ctx, sql)
				if err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				same(t, what+" prepared", announced, p.DatasetSchema())
				got, err := h.client.GetExecuteSchema(ctx, sql)
				if err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				same(t, what+" from GetSchema", announced, parse(t, got.Schema))
				streamed, _, err := h.read(ctx, info)
				if err != nil {
					t.Fatalf("%s: %s: %v", what, sql, err)
				}
				same(t, what+" streamed", announced, streamed)
				if !announced.Equal(streamed) {
					t.Errorf("%s: streamed\n%s\nannounced\n%s", what, streamed, announced)
				}
				if err := p.Close(ctx); err != nil {
					t.Error(err)
				}
			}
		}
	}
}

// listed is the schema of a table as CommandGetTables gives it.
func (h *house) listed(ctx context.Context, t testing.TB, fixture string) *arrow.Schema {
	t.Helper()
	name := "table"
	packed, err := anypb.New(&flightpb.CommandGetTables{Catalog: &fixture, TableNameFilterPattern: &name, IncludeSchema: true})
	if err != nil {
		t.Fatal(err)
	}
	ticket, err := proto.Marshal(packed)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := h.client.Client.DoGet(ctx, &flight.Ticket{Ticket: ticket})
	if err != nil {
		t.Fatal(err)
	}
	r, err := flight.NewRecordReader(stream)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	if !r.Next() || r.RecordBatch().NumRows() != 1 {
		t.Fatalf("%s is not listed: %v", fixture, r.Err())
	}
	return parse(t, slices.Clone(r.RecordBatch().Column(4).(*array.Binary).Value(0)))
}

// A plain scan answers the rows that the engine would.
func TestPlainScans(t *testing.T) {
	t.Parallel()
	h := serve(t)
	ns := flightsvc.Namespace{Catalog: "kinds_basic_v22", Schema: "main"}
	for _, tc := range []struct {
		sql     string
		columns []string // nil = left to the engine
	}{
		{`SELECT * FROM "table"`, []string{"id", "img"}},
		{`from "table"`, []string{"id", "img"}},
		{" select\n * from main.\"table\" ; ", []string{"id", "img"}},
		{`SELECT img, "id" FROM kinds_basic_v22.main."table"`, []string{"img", "id"}},
		{`SELECT ID FROM "table"`, nil},
		{`SELECT id, id FROM "table"`, nil},
		{`SELECT id AS img FROM "table"`, nil},
		{`SELECT id x FROM "table"`, nil},
		{`SELECT * FROM "table" t`, nil},
		{`SELECT * FROM "table" LIMIT 1`, nil},
		{`SELECT * FROM "table" /* all */`, []string{"id", "img"}},
		{`SELECT * /* all */ FROM "table"`, nil},
		{`SELECT DISTINCT id FROM "table"`, nil},
		{`SELECT * FROM "table" a, "table" b`, nil},
		{`SELECT * FROM "table" AT (VERSION => 1)`, nil},
		{`WITH "table" AS (SELECT 1 AS id, 2 AS img) SELECT * FROM "table"`, nil},
		{`SELECT * FROM lance_scan('table')`, nil},
		{`SELECT * FROM information_schema.tables`, nil},
		{`SELECT current_schema FROM "table"`, nil},
		{`SELECT current_date FROM "table"`, nil},
	} {
		st, err := h.engine.Prepare(t.Context(), ns, tc.sql)
		if err != nil {
			t.Errorf("%s: %v", tc.sql, err)
			continue
		}
		scan, ok := st.PlainScan()
		if ok != (tc.columns != nil) || !slices.Equal(scan.Columns, tc.columns) {
			// ID is spelt as the table spells it, or not: either is right.
			if tc.sql != `SELECT ID FROM "table"` {
				t.Errorf("%s: plain %v, columns %v", tc.sql, ok, scan.Columns)
			}
		}
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, fixture := range fixtures {
		plain := fmt.Sprintf(`SELECT * FROM %s.main."table"`, fixture)
		want, err := h.run(t.Context(), plain+" WHERE 1 = 1")
		if err != nil {
			t.Fatal(fixture, err)
		}
		got, err := h.run(t.Context(), plain)
		if err != nil {
			t.Fatal(fixture, err)
		}
		if !slices.Equal(want, got) {
			t.Errorf("%s: the scan's %d rows are not the engine's %d", fixture, len(got), len(want))
		}
	}
}

func TestParameters(t *testing.T) {
	t.Parallel()
	h := serve(t)
	bigint := func(name string) arrow.Field {
		return arrow.Field{Name: name, Type: arrow.PrimitiveTypes.Int64, Nullable: true}
	}
	text := func(name string) arrow.Field {
		return arrow.Field{Name: name, Type: arrow.BinaryTypes.String, Nullable: true}
	}
	for _, tc := range []struct {
		sql    string
		fields []arrow.Field
		json   string
		want   []string
	}{
		// Clients count from 0; a name that looks like another's number is none.
		{`SELECT ?::INT AS a, ?::INT AS b`, []arrow.Field{bigint("0"), bigint("1")}, `[{"0":1,"1":2}]`, []string{"1 | 2"}},
		{`SELECT ?::INT AS a, ?::INT AS b`, []arrow.Field{bigint("2"), bigint("1")}, `[{"2":1,"1":2}]`, []string{"1 | 2"}},
		{`SELECT $b::INT AS a, $a::INT AS b`, []arrow.Field{bigint("0"), bigint("1")}, `[{"0":1,"1":2}]`, []string{"1 | 2"}},
		{`SELECT $b::INT AS a, $a::INT AS b`, []arrow.Field{bigint("a"), bigint("b")}, `[{"a":1,"b":2}]`, []string{"2 | 1"}},
		{`SELECT $2::INT AS a, $1::INT AS b`, []arrow.Field{bigint("1"), bigint("2")}, `[{"1":1,"2":2}]`, []string{"2 | 1"}},
		// Open types become those that are bound, nulls too.
		{`SELECT ? AS v, typeof(?) AS t`, []arrow.Field{bigint("0"), text("1")}, `[{"0":7,"1":"x"}]`, []string{"7 | VARCHAR"}},
		{`SELECT ? AS v`, []arrow.Field{bigint("0")}, `[{"0":7},{"0":null},{"0":9}]`, []string{"7", array.NullValueStr, "9"}},
		{`SELECT ? AS v`, []arrow.Field{{Name: "0", Type: arrow.Null, Nullable: true}}, `[{"0":null}]`, []string{array.NullValueStr}},
		{`SELECT 1 + ? AS v`, []arrow.Field{bigint("0")}, `[{"0":7},{"0":null},{"0":9}]`, []string{"8", array.NullValueStr, "10"}},
		{`SELECT count(*) AS n FROM tags_and_branches.main."table" AT (VERSION => ?)`, []arrow.Field{bigint("0")}, `[{"0":1},{"0":2}]`, []string{"7", "14"}},
		{`SELECT count(*) AS n FROM lance_scan(?)`, []arrow.Field{text("0")}, `[{"0":"tags_and_branches.table"},{"0":"kinds_basic_v22.table"}]`, []string{"14", "7"}},
		{`SELECT id FROM kinds_basic_v22.main."table" WHERE id < ? ORDER BY id`, []arrow.Field{bigint("0")}, `[{"0":2},{"0":1}]`, []string{"0", "1", "0"}},
		{`SELECT id FROM kinds_basic_v22.main."table" WHERE id = ?`, []arrow.Field{text("0")}, `[{"0":"3"}]`, []string{"3"}},
	} {
		p, err := h.client.Prepare(t.Context(), tc.sql)
		if err != nil {
			t.Errorf("%s: %v", tc.sql, err)
			continue
		}
		if update, said := p.IsUpdate(); update || !said {
			t.Errorf("%s: is_update %v, said %v", tc.sql, update, said)
		}
		params, _, err := array.RecordFromJSON(memory.DefaultAllocator, arrow.NewSchema(tc.fields, nil), strings.NewReader(tc.json))
		if err != nil {
			t.Fatal(err)
		}
		p.SetParameters(params)
		info, err := p.Execute(t.Context())
		if err != nil {
			t.Errorf("%s: %v", tc.sql, err)
			continue
		}
		sch, rows, err := h.read(t.Context(), info)
		if err != nil || !slices.Equal(rows, tc.want) {
			t.Errorf("%s: %q, %v; want %q", tc.sql, rows, err, tc.want)
			continue
		}
		same(t, tc.sql, parse(t, info.Schema), sch)
		if err := p.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	// Clients that build what they send by the description are told what they build rightly.
	const sql = `SELECT id, ? AS open FROM kinds_basic_v22.main."table" WHERE id > ? AND blob_bytes(img) <> ? AND make_timestamp(id) < ?::TIMESTAMP`
	for agent, want := range map[string][]arrow.DataType{
		"ADBC Flight SQL Driver 1": {arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int64, arrow.BinaryTypes.LargeBinary, &arrow.TimestampType{Unit: arrow.Microsecond}},
		"grpc-java-netty/1":        {arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int64, arrow.BinaryTypes.LargeBinary, &arrow.TimestampType{Unit: arrow.Millisecond}},
		"":                         nil, // database/sql goes by the values
	} {
		client := h.dial(t, grpc.WithUserAgent(agent))
		p, err := client.Prepare(t.Context(), sql)
		if err != nil {
			t.Fatal(err)
		}
		got := p.ParameterSchema()
		if (got == nil) != (want == nil) {
			t.Fatalf("%q is told of parameters %v", agent, got)
		}
		for i, dt := range want {
			if !arrow.TypeEqual(got.Field(i).Type, dt) {
				t.Errorf("%q: parameter %d is %s, want %s", agent, i, got.Field(i).Type, dt)
			}
		}
		if ty := p.DatasetSchema().Field(1).Type; ty.ID() != arrow.STRING {
			t.Errorf("an open column is described as %s", ty)
		}
	}
}

// Statements that write are described, and carried out on the path of updates
// alone.
func TestWritingKinds(t *testing.T) {
	t.Parallel()
	h := serve(t)
	for sql, params := range map[string]int{
		`INSERT INTO "table" (id) VALUES (?)`:        1,
		`CREATE TABLE t (a INT)`:                     0,
		`DROP TABLE "table"`:                         0,
		`ALTER TABLE "table" SET ("img.inline" = 5)`: 0,
	} {
		p, err := h.client.Prepare(t.Context(), sql)
		if err != nil {
			t.Errorf("%s: %v", sql, err)
			continue
		}
		if update, said := p.IsUpdate(); !update || !said {
			t.Errorf("%s: is_update %v, said %v", sql, update, said)
		}
		if params > 0 && p.ParameterSchema().NumFields() != params {
			t.Errorf("%s: parameters %s", sql, p.ParameterSchema())
		}
		if _, err := h.client.Execute(t.Context(), sql); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "as an update") {
			t.Errorf("%s, as query: %v", sql, err)
		}
	}
	for sql, want := range map[string]string{
		`CALL add_bse('table', 'x')`:                                  "do you mean add_base?",
		`CALL add_base()`:                                             "needs a table",
		`CALL add_base(3)`:                                            "a name in quotes",
		`CALL add_base('table')`:                                      "path is missing",
		`CALL add_base('table', 'x', 'y')`:                            "2 arguments without a name",
		`CALL add_base('table', 'x', path := 'y')`:                    "given twice",
		`CALL add_base('table', 'x', dataset_root := 7)`:              "true or false",
		`CALL add_base('table', 'x', dataset_root := INTERVAL 1 DAY)`: "true or false",
		`CALL add_base('table', 'x', into := 'y')`:                    "unknown argument",
	} {
		if _, err := h.client.Execute(t.Context(), sql); status.Code(err) != codes.InvalidArgument || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%s: %v", sql, err)
		}
	}
}

// Filters answer the rows that a statement with the same condition does.
func TestFilters(t *testing.T) {
	t.Parallel()
	h := serve(t)
	for _, fixture := range []string{"fragments_and_deletions", "stable_row_ids", "kinds_basic_v22", "many_inline"} {
		for _, condition := range []string{
			"id % 3 = 0", "id IN (1, 5, 7, 11, 30)", "id > 4 -- all of them", "true", "false", "id IS NULL", "blob_size(img) > 20",
		} {
			if fixture != "kinds_basic_v22" && strings.Contains(condition, "img") {
				continue
			}
			want, err := h.run(t.Context(), fmt.Sprintf("SELECT id FROM %s.main.\"table\" WHERE (%s\n)", fixture, condition))
			if err != nil {
				t.Fatal(err)
			}
			ticket := fmt.Sprintf(`{"catalog":%q,"table":"table","columns":["id"],"filter":%q}`, fixture, condition)
			_, got, err := h.read(t.Context(), &flight.FlightInfo{Endpoint: []*flight.FlightEndpoint{{Ticket: &flight.Ticket{Ticket: []byte(ticket)}}}})
			slices.Sort(want)
			slices.Sort(got)
			if err != nil || !slices.Equal(want, got) {
				t.Errorf("%s: %d rows, %v; want %d", ticket, len(got), err, len(want))
			}
			if len(want) < 2 {
				continue
			}
			part := strings.Replace(ticket, `"filter"`, `"offset":1,"limit":1,"filter"`, 1)
			_, got, err = h.read(t.Context(), &flight.FlightInfo{Endpoint: []*flight.FlightEndpoint{{Ticket: &flight.Ticket{Ticket: []byte(part)}}}})
			if err != nil || len(got) != 1 || !slices.Contains(want, got[0]) {
				t.Errorf("%s: %v, %v", part, got, err)
			}
		}
	}
	for _, condition := range []string{"nope = 1", "id IN (SELECT 1)", "id = 1 LIMIT 1", "id = 1; SELECT 2", "count(*) > 1", ") OR (1=1", ""} {
		d := fmt.Appendf(nil, `{"catalog":"kinds_basic_v22","table":"table","filter":%q}`, condition)
		_, err := h.client.Client.GetFlightInfo(t.Context(), &flight.FlightDescriptor{Type: flight.DescriptorCMD, Cmd: d})
		if status.Code(err) != codes.InvalidArgument || strings.Contains(err.Error(), "flightblob_") {
			t.Errorf("%q: %v", condition, err)
		}
	}
}

// Tickets read what was there when they were given out, new executions what is
// there now.
func TestTicketsPinVersions(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	swap := func(fixture string) {
		to := filepath.Join(dir, "t.lance")
		if err := errors.Join(os.RemoveAll(to), os.CopyFS(to, os.DirFS(filepath.Join(tabletest.Fixtures(t), fixture, "table.lance")))); err != nil {
			t.Fatal(err)
		}
	}
	swap("tags_and_branches")
	h := over(t, []catalog.Root{{URI: dir}}, dir)
	p, err := h.client.Prepare(t.Context(), "SELECT count(*) AS n FROM t")
	if err != nil {
		t.Fatal(err)
	}
	info, err := p.Execute(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, before, err := h.read(t.Context(), info)
	if err != nil {
		t.Fatal(err)
	}
	// The newest version goes away: the one before it is now the newest.
	versions, err := filepath.Glob(filepath.Join(dir, "t.lance", "_versions", "*.manifest"))
	if err != nil || len(versions) < 2 {
		t.Fatal(versions, err)
	}
	slices.Sort(versions)
	hidden := versions[0] + ".hidden"
	if err := os.Rename(versions[0], hidden); err != nil {
		t.Fatal(err)
	}
	older, err := p.Execute(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(hidden, versions[0]); err != nil {
		t.Fatal(err)
	}
	_, then, err := h.read(t.Context(), older)
	if err != nil {
		t.Fatal(err)
	}
	if slices.Equal(before, then) {
		t.Errorf("both versions have %v rows", then)
	}
	for range 2 {
		if _, again, err := h.read(t.Context(), older); err != nil || !slices.Equal(again, then) {
			t.Errorf("the ticket reads %v, then %v, %v", then, again, err)
		}
	}
	now, err := p.Execute(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, rows, err := h.read(t.Context(), now); err != nil || !slices.Equal(rows, before) {
		t.Errorf("a new execution reads %v, %v; want %v", rows, err, before)
	}
}
