package main

import (
	"context"
	"database/sql"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/flight/flightsql"
	_ "github.com/apache/arrow-go/v18/arrow/flight/flightsql/driver"
	"github.com/apache/arrow-go/v18/arrow/flight/flightsql/schema_ref"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// The clients in Go against the program: Arrow's for Flight SQL, and its driver
// for database/sql. With the ones in conformance/ they are the matrix of
// docs/clients.md.

// endless is minutes of work, so that what ends early was ended.
const endless = "SELECT count(*) FROM range(100000000) a, range(1000000) b WHERE (a.range * b.range) % 7 = 3"

// served runs the program over fixtures, each a catalog.
func served(t *testing.T, args []string, fixtures ...string) *program {
	t.Helper()
	all := []string{"serve", "--listen", "127.0.0.1:0"}
	for _, name := range fixtures {
		all = append(all, "--root", name+"="+fixture(t, name))
	}
	return start(t, t.TempDir(), nil, append(all, args...)...)
}

func (p *program) address() string { return strings.TrimPrefix(p.uri, "grpc://") }

// dialSQL is a client of a program. Without options it is as stock as it gets.
func dialSQL(t *testing.T, p *program, middleware []flight.ClientMiddleware, opts ...grpc.DialOption) *flightsql.Client {
	t.Helper()
	opts = append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))
	c, err := flightsql.NewClient(p.address(), nil, middleware, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// rowsOf reads all endpoints in order, each row as text, and wants every stream
// to have the schema that was announced.
func rowsOf(ctx context.Context, c *flightsql.Client, info *flight.FlightInfo) ([]string, error) {
	announced, err := flight.DeserializeSchema(info.Schema, memory.DefaultAllocator)
	if err != nil {
		return nil, err
	}
	rows := []string{}
	for _, e := range info.Endpoint {
		r, err := c.DoGet(ctx, e.Ticket)
		if err != nil {
			return rows, err
		}
		if !announced.Equal(r.Schema()) {
			r.Release()
			return rows, fmt.Errorf("announced %s, sent %s", announced, r.Schema())
		}
		for r.Next() {
			rows = append(rows, textRows(r.RecordBatch())...)
		}
		err = r.Err()
		r.Release()
		if err != nil && !errors.Is(err, io.EOF) {
			return rows, err
		}
	}
	return rows, nil
}

func textRows(b arrow.RecordBatch) []string {
	rows := make([]string, b.NumRows())
	for i := range rows {
		values := make([]string, b.NumCols())
		for c, column := range b.Columns() {
			values[c] = column.ValueStr(i)
		}
		rows[i] = strings.Join(values, "|")
	}
	return rows
}

func ask(ctx context.Context, c *flightsql.Client, sql string) ([]string, error) {
	info, err := c.Execute(ctx, sql)
	if err != nil {
		return nil, err
	}
	return rowsOf(ctx, c, info)
}

func wantRows(t *testing.T, what string, got []string, err error, want ...string) {
	t.Helper()
	if err != nil {
		t.Errorf("%s: %v", what, err)
	} else if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s:\n%s", what, diff)
	}
}

func wantCode(t *testing.T, what string, err error, code codes.Code, says string) {
	t.Helper()
	if status.Code(err) != code || !strings.Contains(fmt.Sprint(err), says) {
		t.Errorf("%s: %v; want code %v and %q", what, err, code, says)
	}
}

func TestFlightSQLClient(t *testing.T) {
	t.Parallel()
	p := served(t, nil, "kinds_basic_v22", "nested_v22")
	c := dialSQL(t, p, nil)
	ctx := t.Context()

	t.Run("query", func(t *testing.T) {
		const text = `SELECT id, blob_size(img) AS bytes FROM "table" WHERE id BETWEEN 1 AND 3 ORDER BY id`
		info, err := c.Execute(ctx, text)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := rowsOf(ctx, c, info)
		if err != nil || len(rows) != 3 || !strings.HasPrefix(rows[0], "1|") {
			t.Errorf("%v, %v", rows, err)
		}
		only, err := c.GetExecuteSchema(ctx, text)
		if err != nil || string(only.Schema) != string(info.Schema) {
			t.Errorf("GetSchema and GetFlightInfo differ, or %v", err)
		}
		// A scan knows its rows.
		if info, err = c.Execute(ctx, `FROM "table"`); err != nil || info.TotalRecords < 4 {
			t.Errorf("%v, %v", info, err)
		}
	})
	t.Run("parameters", func(t *testing.T) {
		st, err := c.Prepare(ctx, `SELECT id, ?::VARCHAR AS given FROM "table" WHERE id < ? ORDER BY id`)
		if err != nil {
			t.Fatal(err)
		}
		if update, said := st.IsUpdate(); update || !said {
			t.Errorf("is an update: %v, said: %v", update, said)
		}
		if p := st.ParameterSchema(); p.NumFields() != 2 || p.Field(0).Type.ID() != arrow.STRING || p.Field(1).Type.ID() != arrow.INT64 {
			t.Errorf("parameters %s", p)
		}
		only, err := st.GetSchema(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if sch, err := flight.DeserializeSchema(only.Schema, memory.DefaultAllocator); err != nil || !sch.Equal(st.DatasetSchema()) {
			t.Errorf("prepared as %s, then %s, %v", st.DatasetSchema(), sch, err)
		}
		run := func(bind func()) ([]string, error) {
			bind()
			info, err := st.Execute(ctx)
			if err != nil {
				return nil, err
			}
			return rowsOf(ctx, c, info)
		}
		one, two := bound(t, `[{"s":"a","n":1}]`), bound(t, `[{"s":"b","n":2},{"s":null,"n":1},{"s":"c","n":null}]`)
		defer one.Release()
		defer two.Release()
		_, err = run(func() {})
		wantCode(t, "unbound", err, codes.InvalidArgument, "none is bound")
		rows, err := run(func() { st.SetParameters(one) })
		wantRows(t, "one row", rows, err, "0|a")
		rows, err = run(func() { st.SetParameters(two) })
		wantRows(t, "several rows", rows, err, "0|b", "1|b", "0|(null)")
		rows, err = run(func() {
			r, err := array.NewRecordReader(one.Schema(), []arrow.RecordBatch{one, two, one})
			if err != nil {
				t.Fatal(err)
			}
			st.SetRecordReader(r)
			r.Release()
		})
		wantRows(t, "several batches", rows, err, "0|a", "0|b", "1|b", "0|(null)", "0|a")
		if err := st.Close(ctx); err != nil {
			t.Fatal(err)
		}
		again := flightsql.NewPreparedStatement(c, st.Handle())
		_, err = again.Execute(ctx)
		wantCode(t, "closed", err, codes.NotFound, "Prepare it again")
	})
	t.Run("metadata", func(t *testing.T) { checkMetadata(t, c) })
	t.Run("blobs", func(t *testing.T) {
		const text = `SELECT img FROM "table" ORDER BY id LIMIT 3`
		for face, id := range map[string]arrow.Type{"bytes": arrow.LARGE_BINARY, "descriptor": arrow.STRUCT, "logical": arrow.STRUCT} {
			header := metadata.AppendToOutgoingContext(ctx, "flightblob-blobs", face)
			info, err := c.Execute(header, text)
			if err != nil {
				t.Fatal(err)
			}
			// The ticket knows its face: the reader needs no header.
			rows, err := rowsOf(ctx, c, info)
			sch, _ := flight.DeserializeSchema(info.Schema, memory.DefaultAllocator)
			if err != nil || len(rows) != 3 || sch.Field(0).Type.ID() != id {
				t.Errorf("%s: %v of %s, %v", face, rows, sch, err)
			}
			inSession := dialSQL(t, p, nil)
			options, err := flight.NewSessionOptionValues(map[string]any{"blobs": face})
			if err != nil {
				t.Fatal(err)
			}
			if r, err := inSession.SetSessionOptions(ctx, &flight.SetSessionOptionsRequest{SessionOptions: options}); err != nil || len(r.Errors) > 0 {
				t.Fatal(r, err)
			}
			same, err := ask(ctx, inSession, text)
			wantRows(t, face+" by session option", same, err, rows...)
		}
	})
	t.Run("large values", func(t *testing.T) {
		const text = "SELECT repeat('x', 6 << 20)::BLOB AS v"
		// grpc-go takes 4 MiB. The server takes its clients for ADBC, which takes
		// 16, unless told.
		_, err := ask(ctx, c, text)
		wantCode(t, "stock", err, codes.ResourceExhausted, "received message larger than max")
		_, err = ask(metadata.AppendToOutgoingContext(ctx, "flightblob-max-message-bytes", fmt.Sprint(4<<20)), c, text)
		wantCode(t, "told", err, codes.ResourceExhausted, "grpc.MaxCallRecvMsgSize")
		wide := dialSQL(t, p, nil, grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)))
		rows, err := ask(ctx, wide, text)
		if err != nil || len(rows) != 1 {
			t.Errorf("%d rows, %v", len(rows), err)
		}
		const larger = "SELECT repeat('x', 20 << 20)::BLOB AS v"
		_, err = ask(ctx, wide, larger)
		wantCode(t, "more than 16 MiB", err, codes.ResourceExhausted, "flightblob-max-message-bytes")
		rows, err = ask(metadata.AppendToOutgoingContext(ctx, "flightblob-max-message-bytes", fmt.Sprint(64<<20)), wide, larger)
		if err != nil || len(rows) != 1 {
			t.Errorf("%d rows, %v", len(rows), err)
		}
	})
	t.Run("errors", func(t *testing.T) {
		for text, want := range map[string]codes.Code{
			"SELEC 1": codes.InvalidArgument, "SELECT absent FROM \"table\"": codes.InvalidArgument,
			"SELECT * FROM absent": codes.NotFound, `SELECT * FROM "table" ORDER BY img`: codes.InvalidArgument,
			"SELECT CAST('x' AS INT)": codes.InvalidArgument, "SELECT 1; SELECT 2": codes.InvalidArgument,
		} {
			_, err := ask(ctx, c, text)
			wantCode(t, text, err, want, "")
		}
		_, err := c.ExecuteUpdate(ctx, "SELECT 1")
		wantCode(t, "a query as an update", err, codes.InvalidArgument, "run it as a query")
		_, err = c.BeginTransaction(ctx)
		wantCode(t, "transaction", err, codes.Unimplemented, "each statement stands for itself")
		_, err = c.ExecuteSubstrait(ctx, flightsql.SubstraitPlan{Plan: []byte("plan"), Version: "1"})
		wantCode(t, "Substrait", err, codes.Unimplemented, "send SQL")
		_, err = c.PrepareSubstrait(ctx, flightsql.SubstraitPlan{Plan: []byte("plan"), Version: "1"})
		wantCode(t, "prepared Substrait", err, codes.Unimplemented, "send SQL")
	})
	t.Run("cancel", func(t *testing.T) {
		began := time.Now()
		short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		defer cancel()
		_, err := ask(short, c, endless)
		wantCode(t, "deadline", err, codes.DeadlineExceeded, "")
		info, err := c.Execute(ctx, endless)
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() {
			_, err := rowsOf(ctx, c, info)
			ended <- err
		}()
		time.Sleep(200 * time.Millisecond)
		result, err := c.CancelFlightInfo(ctx, &flight.CancelFlightInfoRequest{Info: info})
		if err != nil || result.Status != flight.CancelStatusCancelled {
			t.Errorf("%v, %v", result, err)
		}
		wantCode(t, "reader of a cancelled statement", <-ended, codes.Canceled, "cancelled by its client")
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("it took %s", took)
		}
	})
}

// bound makes parameters s and n.
func bound(t *testing.T, json string) arrow.RecordBatch {
	t.Helper()
	sch := arrow.NewSchema([]arrow.Field{
		{Name: "s", Type: arrow.BinaryTypes.String, Nullable: true}, {Name: "n", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
	}, nil)
	b, _, err := array.RecordFromJSON(memory.DefaultAllocator, sch, strings.NewReader(json))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// checkMetadata calls every command about names and types, as a client of two
// catalogs with a table each.
func checkMetadata(t *testing.T, c *flightsql.Client) {
	ctx := t.Context()
	text := func(s string) *string { return &s }
	ref := flightsql.TableRef{Catalog: text("kinds_basic_v22"), DBSchema: text("main"), Table: "table"}
	code := int32(-5)
	for _, tc := range []struct {
		name   string
		ask    func() (*flight.FlightInfo, error)
		schema func() (*flight.SchemaResult, error)
		want   *arrow.Schema
		rows   []string // nil: not looked at
	}{
		{
			"catalogs", func() (*flight.FlightInfo, error) { return c.GetCatalogs(ctx) },
			func() (*flight.SchemaResult, error) { return c.GetCatalogsSchema(ctx) },
			schema_ref.Catalogs,
			[]string{"kinds_basic_v22", "nested_v22"},
		},
		{
			"schemas", func() (*flight.FlightInfo, error) { return c.GetDBSchemas(ctx, &flightsql.GetDBSchemasOpts{}) },
			func() (*flight.SchemaResult, error) { return c.GetDBSchemasSchema(ctx) },
			schema_ref.DBSchemas,
			[]string{"kinds_basic_v22|main", "nested_v22|main"},
		},
		{
			"schemas of a catalog", func() (*flight.FlightInfo, error) {
				return c.GetDBSchemas(ctx, &flightsql.GetDBSchemasOpts{Catalog: text("nested_v22"), DbSchemaFilterPattern: text("m_i%")})
			}, nil, schema_ref.DBSchemas, []string{"nested_v22|main"},
		},
		{
			"schemas without a catalog", func() (*flight.FlightInfo, error) {
				return c.GetDBSchemas(ctx, &flightsql.GetDBSchemasOpts{Catalog: text("")})
			}, nil, schema_ref.DBSchemas, []string{},
		},
		{
			"tables", func() (*flight.FlightInfo, error) { return c.GetTables(ctx, &flightsql.GetTablesOpts{}) },
			func() (*flight.SchemaResult, error) { return c.GetTablesSchema(ctx, &flightsql.GetTablesOpts{}) },
			schema_ref.Tables,
			[]string{"kinds_basic_v22|main|table|TABLE", "nested_v22|main|table|TABLE"},
		},
		{
			"tables by pattern", func() (*flight.FlightInfo, error) {
				return c.GetTables(ctx, &flightsql.GetTablesOpts{
					Catalog: text("nested_v22"), DbSchemaFilterPattern: text("%"), TableNameFilterPattern: text(`t\able%`), TableTypes: []string{"VIEW", "TABLE"},
				})
			}, nil, schema_ref.Tables, []string{"nested_v22|main|table|TABLE"},
		},
		{
			"tables of another type", func() (*flight.FlightInfo, error) {
				return c.GetTables(ctx, &flightsql.GetTablesOpts{TableTypes: []string{"VIEW"}})
			}, nil, schema_ref.Tables, []string{},
		},
		{
			"a statement as pattern", func() (*flight.FlightInfo, error) {
				return c.GetTables(ctx, &flightsql.GetTablesOpts{TableNameFilterPattern: text(`SELECT * FROM "table" WHERE a LIKE '%\'`)})
			}, nil, schema_ref.Tables, []string{},
		},
		{
			"tables with schemas", func() (*flight.FlightInfo, error) {
				return c.GetTables(ctx, &flightsql.GetTablesOpts{IncludeSchema: true})
			},
			func() (*flight.SchemaResult, error) {
				return c.GetTablesSchema(ctx, &flightsql.GetTablesOpts{IncludeSchema: true})
			},
			schema_ref.TablesWithIncludedSchema, nil,
		},
		{
			"table types", func() (*flight.FlightInfo, error) { return c.GetTableTypes(ctx) },
			func() (*flight.SchemaResult, error) { return c.GetTableTypesSchema(ctx) }, schema_ref.TableTypes,
			[]string{"TABLE"},
		},
		{
			"primary keys", func() (*flight.FlightInfo, error) { return c.GetPrimaryKeys(ctx, ref) },
			func() (*flight.SchemaResult, error) { return c.GetPrimaryKeysSchema(ctx) }, schema_ref.PrimaryKeys,
			[]string{},
		},
		{
			"exported keys", func() (*flight.FlightInfo, error) { return c.GetExportedKeys(ctx, ref) },
			func() (*flight.SchemaResult, error) { return c.GetExportedKeysSchema(ctx) }, schema_ref.ExportedKeys,
			[]string{},
		},
		{
			"imported keys", func() (*flight.FlightInfo, error) { return c.GetImportedKeys(ctx, ref) },
			func() (*flight.SchemaResult, error) { return c.GetImportedKeysSchema(ctx) }, schema_ref.ImportedKeys,
			[]string{},
		},
		{
			"cross reference", func() (*flight.FlightInfo, error) { return c.GetCrossReference(ctx, ref, ref) },
			func() (*flight.SchemaResult, error) { return c.GetCrossReferenceSchema(ctx) }, schema_ref.CrossReference,
			[]string{},
		},
		{
			"types", func() (*flight.FlightInfo, error) { return c.GetXdbcTypeInfo(ctx, nil) },
			func() (*flight.SchemaResult, error) { return c.GetXdbcTypeInfoSchema(ctx) }, schema_ref.XdbcTypeInfo, nil,
		},
		{
			"types of a code", func() (*flight.FlightInfo, error) { return c.GetXdbcTypeInfo(ctx, &code) }, nil, schema_ref.XdbcTypeInfo, nil,
		},
		{
			"server", func() (*flight.FlightInfo, error) {
				return c.GetSqlInfo(ctx, []flightsql.SqlInfo{flightsql.SqlInfoFlightSqlServerReadOnly, flightsql.SqlInfoFlightSqlServerName, 9999})
			},
			func() (*flight.SchemaResult, error) { return c.GetSqlInfoSchema(ctx) }, schema_ref.SqlInfo, nil,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			info, err := tc.ask()
			if err != nil {
				t.Fatal(err)
			}
			announced, err := flight.DeserializeSchema(info.Schema, memory.DefaultAllocator)
			if err != nil || !announced.Equal(tc.want) {
				t.Errorf("announced %s, %v", announced, err)
			}
			rows, err := rowsOf(ctx, c, info)
			if err != nil {
				t.Fatal(err)
			}
			if tc.rows != nil && !slices.Equal(rows, tc.rows) {
				t.Errorf("rows %v, want %v", rows, tc.rows)
			}
			if tc.rows == nil && len(rows) < 2 {
				t.Errorf("rows %v", rows)
			}
			if tc.schema == nil {
				return
			}
			only, err := tc.schema()
			if err != nil {
				t.Fatal(err)
			}
			if sch, err := flight.DeserializeSchema(only.Schema, memory.DefaultAllocator); err != nil || !sch.Equal(tc.want) {
				t.Errorf("GetSchema: %s, %v", sch, err)
			}
		})
	}
}

// database/sql over Arrow's driver.
func TestDatabaseSQLDriver(t *testing.T) {
	t.Parallel()
	p := served(t, nil, "kinds_basic_v22")
	open := func(t *testing.T, parameters string) *sql.DB {
		t.Helper()
		db, err := sql.Open("flightsql", "flightsql://"+p.address()+parameters)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		return db
	}
	db := open(t, "")
	ctx := t.Context()
	t.Run("query", func(t *testing.T) {
		if err := db.PingContext(ctx); err != nil {
			t.Fatal(err)
		}
		rows, err := db.QueryContext(ctx, `SELECT id, blob_kind(img) AS kind FROM "table" WHERE id < 2 ORDER BY id`)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = rows.Close() }()
		if names, err := rows.Columns(); err != nil || !slices.Equal(names, []string{"id", "kind"}) {
			t.Errorf("columns %v, %v", names, err)
		}
		var id, n int64
		var kind sql.NullString
		for ; rows.Next(); n++ {
			if err := rows.Scan(&id, &kind); err != nil || id != n {
				t.Errorf("row %d: %d, %v, %v", n, id, kind, err)
			}
		}
		if rows.Err() != nil || n != 2 {
			t.Errorf("%d rows, %v", n, rows.Err())
		}
	})
	t.Run("parameters", func(t *testing.T) {
		st, err := db.PrepareContext(ctx, `SELECT count(*) FROM "table" WHERE id < ? AND blob_kind(img) <> ?`)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = st.Close() }()
		var before int64 = -1
		for _, most := range []int64{1, 100} {
			var n int64
			if err := st.QueryRowContext(ctx, most, "nothing").Scan(&n); err != nil || n <= before {
				t.Errorf("%d rows below %d, %v", n, most, err)
			}
			before = n
		}
		for _, given := range []any{int64(-7), "öé", 2.5, true} {
			var got any
			if err := db.QueryRowContext(ctx, map[string]string{
				"int64": "SELECT ?::BIGINT", "string": "SELECT ?::VARCHAR", "float64": "SELECT ?::DOUBLE", "bool": "SELECT ?::BOOLEAN",
			}[fmt.Sprintf("%T", given)], given).Scan(&got); err != nil || got != given {
				t.Errorf("%v (%T) comes back as %v (%T), %v", given, given, got, got, err)
			}
		}
		// The types of values decide where the statement leaves them open; what the
		// driver has no type for goes as text.
		for _, given := range []any{int64(-7), "öé", 2.5, true} {
			var got any
			if err := db.QueryRowContext(ctx, "SELECT ?", given).Scan(&got); err != nil || got != given {
				t.Errorf("%v (%T) comes back as %v (%T), %v", given, given, got, got, err)
			}
		}
		for query, given := range map[string]any{
			"SELECT 1 + ? = 8": int64(7), "SELECT 1 + ? = 8.5": 7.5, "SELECT DATE '2026-01-02' = ?": "2026-01-02",
			"SELECT TIMESTAMPTZ '2026-01-02 03:04:05Z' = ?": "2026-01-02 03:04:05Z", "SELECT 1.25 = ?::DECIMAL(5, 2)": "1.25",
			"SELECT 'abc'::BLOB = from_hex(?)": "616263",
		} {
			var got bool
			if err := db.QueryRowContext(ctx, query, given).Scan(&got); err != nil || !got {
				t.Errorf("%s with %v: %v, %v", query, given, got, err)
			}
		}
		var none sql.NullInt64
		if err := db.QueryRowContext(ctx, "SELECT ?::BIGINT", nil).Scan(&none); err == nil || !strings.Contains(err.Error(), "invalid value type <nil>") {
			t.Errorf("null is bound, %v: docs/clients.md says otherwise", err)
		}
	})
	t.Run("blobs", func(t *testing.T) {
		const where = ` FROM "table" WHERE blob_size(img) > 0 ORDER BY id LIMIT 1`
		var data []byte
		if err := db.QueryRowContext(ctx, "SELECT img"+where).Scan(&data); err == nil {
			t.Error("large_binary is read: docs/clients.md says otherwise")
		}
		var text string
		var size uint64
		if err := db.QueryRowContext(ctx, "SELECT base64(blob_bytes(img))"+where).Scan(&text); err != nil {
			t.Fatal(err)
		}
		if err := db.QueryRowContext(ctx, "SELECT blob_size(img)::BIGINT"+where).Scan(&size); err != nil {
			t.Fatal(err)
		}
		if data, err := base64.StdEncoding.DecodeString(text); err != nil || uint64(len(data)) != size {
			t.Errorf("%d bytes of %d, %v", len(data), size, err)
		}
	})
	t.Run("errors", func(t *testing.T) {
		_, err := db.QueryContext(ctx, "SELECT * FROM absent")
		if err == nil || !strings.Contains(err.Error(), "absent does not exist") {
			t.Error(err)
		}
		if _, err := db.BeginTx(ctx, nil); err == nil || !strings.Contains(err.Error(), "each statement stands for itself") {
			t.Error(err)
		}
		var n int
		if err := db.QueryRowContext(ctx, "SELECT 1").Scan(&n); err != nil || n != 1 {
			t.Errorf("afterwards: %d, %v", n, err)
		}
	})
	t.Run("cancel", func(t *testing.T) {
		began := time.Now()
		short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		defer cancel()
		var n int64
		if err := db.QueryRowContext(short, endless).Scan(&n); !errors.Is(err, context.DeadlineExceeded) && status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("a deadline: %v", err)
		}
		early, stop := context.WithCancel(ctx)
		rows, err := db.QueryContext(early, "SELECT range FROM range(1000000000)")
		if err != nil {
			t.Fatal(err)
		}
		if !rows.Next() {
			t.Error(rows.Err())
		}
		stop()
		if err := rows.Close(); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("it took %s", took)
		}
	})
}
