package flightsvc

import (
	"context"
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
	flightpb "github.com/apache/arrow-go/v18/arrow/flight/gen/flight"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

func (h *house) sql() *flightsql.Client { return &flightsql.Client{Client: h.client} }

// fetch reads all endpoints of an info in order, as one list of rows, and
// checks that each has the schema that was announced.
func fetch(t testing.TB, h *house, info *flight.FlightInfo) []map[string]any {
	t.Helper()
	rows, err := tryFetch(t.Context(), t, h, info)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func tryFetch(ctx context.Context, t testing.TB, h *house, info *flight.FlightInfo) ([]map[string]any, error) {
	t.Helper()
	announced := schemaOf(t, info.Schema)
	rows := []map[string]any{}
	for _, e := range info.Endpoint {
		if len(e.Location) > 0 {
			t.Errorf("endpoint with location %v", e.Location)
		}
		sch, more, err := h.get(ctx, string(e.Ticket.Ticket))
		if err != nil {
			return rows, err
		}
		sameSchema(t, "stream", announced, sch)
		rows = append(rows, more...)
	}
	return rows, nil
}

func schemaOf(t testing.TB, b []byte) *arrow.Schema {
	t.Helper()
	sch, err := flight.DeserializeSchema(b, memory.DefaultAllocator)
	if err != nil {
		t.Fatal(err)
	}
	return sch
}

// sameSchema wants two schemas equal in names, order, types, nullability and
// metadata.
func sameSchema(t testing.TB, what string, want, got *arrow.Schema) {
	t.Helper()
	if !want.Equal(got) || !want.Metadata().Equal(got.Metadata()) {
		t.Errorf("%s: schema\n%s\nwant\n%s", what, got, want)
	}
}

func numbersTo(n int) []int64 {
	list := make([]int64, n)
	for i := range list {
		list[i] = int64(i)
	}
	return list
}

func numbersIn(rows []map[string]any, column string) []int64 {
	list := make([]int64, len(rows))
	for i, r := range rows {
		list[i] = r[column].(int64)
	}
	return list
}

func TestStatements(t *testing.T) {
	t.Parallel()
	h, _ := serveSQL(t, plain, t.TempDir())
	for _, n := range []int{0, 1, 25} {
		text := fmt.Sprintf("rows %d", n)
		info, err := h.sql().Execute(t.Context(), text)
		if err != nil {
			t.Fatal(err)
		}
		if len(info.Endpoint) != 1 || info.Endpoint[0].ExpirationTime == nil || info.TotalRecords != -1 {
			t.Errorf("%s: info %v", text, info)
		}
		if diff := cmp.Diff(numbersTo(n), numbersIn(fetch(t, h, info), "n")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
		if again := len(fetch(t, h, info)); again != n {
			t.Errorf("%s: %d rows when its ticket is read again", text, again)
		}
		sch, err := h.sql().GetExecuteSchema(t.Context(), text)
		if err != nil {
			t.Fatal(err)
		}
		sameSchema(t, text, numbers, schemaOf(t, sch.Schema))
	}
	for _, tc := range []struct {
		text string
		code codes.Code
		says string
	}{
		{"", codes.InvalidArgument, "empty"},
		{" \n", codes.InvalidArgument, "empty"},
		{"gibberish", codes.InvalidArgument, `"gibberish"`},
		{strings.Repeat("x", maxStatement+1), codes.InvalidArgument, "limit"},
		{"change", codes.InvalidArgument, "INSERT"},
		{"nothing", codes.InvalidArgument, "SET"},
		{"echo", codes.InvalidArgument, "2 parameters"},
	} {
		_, err := h.sql().Execute(t.Context(), tc.text)
		wantError(t, shorten(tc.text, 20), err, tc.code, tc.says)
	}
	t.Run("failures reach the client", func(t *testing.T) {
		for text, want := range map[string]codes.Code{"fail": codes.DataLoss, "panic": codes.Internal} {
			info, err := h.sql().Execute(t.Context(), text)
			if err != nil {
				t.Fatal(err)
			}
			_, err = tryFetch(t.Context(), t, h, info)
			wantError(t, text, err, want)
		}
	})
	t.Run("transactions", func(t *testing.T) {
		_, err := h.sql().BeginTransaction(t.Context())
		wantError(t, "begin", err, codes.Unimplemented, "BeginTransaction")
		command := pack(t, &flightpb.CommandStatementQuery{Query: "rows 1", TransactionId: []byte("x")})
		_, err = h.client.GetFlightInfo(t.Context(), descriptorOf(command))
		wantError(t, "id of a transaction", err, codes.InvalidArgument, "transaction")
		for _, kind := range []string{"EndTransaction", "BeginSavepoint", "EndSavepoint", "CreatePreparedSubstraitPlan"} {
			_, err := h.act(t, kind, nil)
			wantError(t, kind, err, codes.Unimplemented, kind)
		}
		_, err = h.sql().ExecuteSubstrait(t.Context(), flightsql.SubstraitPlan{Plan: []byte("x")})
		wantError(t, "Substrait", err, codes.Unimplemented, "Substrait")
	})
}

func pack(t testing.TB, m proto.Message) []byte {
	t.Helper()
	packed, err := anypb.New(m)
	if err != nil {
		t.Fatal(err)
	}
	b, err := proto.Marshal(packed)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func descriptorOf(command []byte) *flight.FlightDescriptor {
	return &flight.FlightDescriptor{Type: flight.DescriptorCMD, Cmd: command}
}

// act does an action and gives the body of its one result.
func (h *house) act(t testing.TB, kind string, body []byte) ([]byte, error) {
	t.Helper()
	stream, err := h.client.DoAction(t.Context(), &flight.Action{Type: kind, Body: body})
	if err != nil {
		return nil, err
	}
	r, err := stream.Recv()
	if err != nil {
		return nil, err
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("%s: a second result, or %v", kind, err)
	}
	return r.Body, nil
}

// The schema is one: in the info, after preparing, from GetSchema and on the
// stream, in every face and profile.
func TestSchemasAgree(t *testing.T) {
	t.Parallel()
	h, _ := serveSQL(t, plain, t.TempDir())
	for seed := range 60 {
		ctx := metadata.AppendToOutgoingContext(t.Context(), headerBlobs, []string{"bytes", "descriptor"}[seed%2])
		if seed%3 == 0 {
			ctx = metadata.AppendToOutgoingContext(ctx, headerProfile, profileBI)
		}
		text := fmt.Sprintf("random %d", seed)
		info, err := h.sql().Execute(ctx, text)
		if err != nil {
			t.Fatal(err)
		}
		// The stream's schema is compared in fetch, and is that of the promise
		// whatever the reader prefers.
		rows, err := tryFetch(t.Context(), t, h, info)
		if err != nil || len(rows) != 1 {
			t.Errorf("%s: %d rows, %v", text, len(rows), err)
		}
		want := schemaOf(t, info.Schema)
		sch, err := h.sql().GetExecuteSchema(ctx, text)
		if err != nil {
			t.Fatal(err)
		}
		sameSchema(t, text+", GetSchema", want, schemaOf(t, sch.Schema))
		p, err := h.sql().Prepare(ctx, text)
		if err != nil {
			t.Fatal(err)
		}
		sameSchema(t, text+", prepare", want, p.DatasetSchema())
		sch, err = p.GetSchema(ctx)
		if err != nil {
			t.Fatal(err)
		}
		sameSchema(t, text+", GetSchema of prepared", want, schemaOf(t, sch.Schema))
		if info, err = p.Execute(ctx); err != nil {
			t.Fatal(err)
		}
		sameSchema(t, text+", prepared", want, schemaOf(t, info.Schema))
		fetch(t, h, info)
		if err := p.Close(ctx); err != nil {
			t.Error(err)
		}
	}
}

// paramsOf makes a batch of parameters for echo.
func paramsOf(t testing.TB, json string, fields ...arrow.Field) arrow.RecordBatch {
	t.Helper()
	b, _, err := array.RecordFromJSON(memory.DefaultAllocator, arrow.NewSchema(fields, nil), strings.NewReader(json))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func intText(names ...string) []arrow.Field {
	return []arrow.Field{
		{Name: names[0], Type: arrow.PrimitiveTypes.Int64, Nullable: true}, {Name: names[1], Type: arrow.BinaryTypes.String, Nullable: true},
	}
}

// someUnion is what flightsql-dbapi makes of a value: a child for each type.
var someUnion = arrow.DenseUnionOf([]arrow.Field{
	{Name: "0", Type: arrow.BinaryTypes.String, Nullable: true}, {Name: "1", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
}, []arrow.UnionTypeCode{0, 1})

func TestPreparedParameters(t *testing.T) {
	t.Parallel()
	h, _ := serveSQL(t, plain, t.TempDir())
	p, err := h.sql().Prepare(t.Context(), "echo")
	if err != nil {
		t.Fatal(err)
	}
	if update, said := p.IsUpdate(); update || !said {
		t.Errorf("is_update %v, said %v", update, said)
	}
	sameSchema(t, "parameters", echoed, p.ParameterSchema())
	sameSchema(t, "result", echoed, p.DatasetSchema())
	run := func(params arrow.RecordBatch) ([]map[string]any, error) {
		p.SetParameters(params)
		info, err := p.Execute(t.Context())
		if err != nil {
			return nil, err
		}
		return tryFetch(t.Context(), t, h, info)
	}
	if _, err := h.client.GetFlightInfo(t.Context(), descriptorOf(pack(t, &flightpb.CommandPreparedStatementQuery{PreparedStatementHandle: p.Handle()}))); err == nil {
		t.Error("runs without its parameters")
	} else {
		wantError(t, "unbound", err, codes.InvalidArgument, "2 parameters")
	}
	dictionary := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}
	for _, tc := range []struct {
		name   string
		fields []arrow.Field
		json   string
		want   []map[string]any
	}{
		{"one row", intText("0", "1"), `[{"0":1,"1":"a"}]`, []map[string]any{{"k": int64(1), "v": "a"}}},
		{"by position, not by name", intText("v", "k"), `[{"v":1,"k":"a"}]`, []map[string]any{{"k": int64(1), "v": "a"}}},
		{
			"several rows", intText("0", "1"), `[{"0":1,"1":"a"},{"0":null,"1":"b"},{"0":3,"1":"c"}]`,
			[]map[string]any{{"k": int64(1), "v": "a"}, {"k": nil, "v": "b"}, {"k": int64(3), "v": "c"}},
		},
		{
			"dictionary",
			[]arrow.Field{intText("0", "1")[0], {Name: "1", Type: dictionary}},
			`[{"0":1,"1":"x"},{"0":2,"1":"y"},{"0":2,"1":"x"}]`,
			[]map[string]any{{"k": int64(1), "v": "x"}, {"k": int64(2), "v": "y"}, {"k": int64(2), "v": "x"}},
		},
		{
			"string view",
			[]arrow.Field{intText("0", "1")[0], {Name: "1", Type: arrow.BinaryTypes.StringView}},
			`[{"0":1,"1":"a text that is longer than twelve bytes"}]`,
			[]map[string]any{{"k": int64(1), "v": "a text that is longer than twelve bytes"}},
		},
		{
			"unions",
			[]arrow.Field{{Name: "0", Type: someUnion}, {Name: "1", Type: someUnion}},
			`[{"0":[1,7],"1":[0,"a"]}]`,
			[]map[string]any{{"k": int64(7), "v": "a"}},
		},
		{
			"null type",
			[]arrow.Field{intText("0", "1")[0], {Name: "1", Type: arrow.Null, Nullable: true}},
			`[{"0":1,"1":null}]`,
			[]map[string]any{{"k": int64(1), "v": array.NullValueStr}},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			params := paramsOf(t, tc.json, tc.fields...)
			defer params.Release()
			rows, err := run(params)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, rows); diff != "" {
				t.Errorf("rows (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("no row", func(t *testing.T) {
		command := pack(t, &flightpb.CommandPreparedStatementQuery{PreparedStatementHandle: p.Handle()})
		bindRows(t, h, command, paramsOf(t, `[]`, intText("0", "1")...))
		info, err := h.client.GetFlightInfo(t.Context(), descriptorOf(command))
		if err != nil {
			t.Fatal(err)
		}
		if n := len(fetch(t, h, info)); n != 0 {
			t.Errorf("%d rows for no execution", n)
		}
	})
	t.Run("wrong number", func(t *testing.T) {
		_, err := run(paramsOf(t, `[{"a":1}]`, arrow.Field{Name: "a", Type: arrow.PrimitiveTypes.Int64}))
		wantError(t, "one", err, codes.InvalidArgument, "2 parameters", "1")
	})
	t.Run("a union of several types", func(t *testing.T) {
		_, err := run(paramsOf(t, `[{"0":1,"1":[0,"a"]},{"0":1,"1":[1,2]}]`, intText("0", "1")[0], arrow.Field{Name: "1", Type: someUnion}))
		wantError(t, "mixed", err, codes.InvalidArgument, "several types")
	})
	t.Run("a row that fails is named", func(t *testing.T) {
		_, err := run(paramsOf(t, `[{"0":1,"1":"a"},{"0":13,"1":"b"}]`, intText("0", "1")...))
		wantError(t, "thirteen", err, codes.InvalidArgument, "row 1 of the parameters", "thirteen")
	})
	t.Run("running results keep what they were bound to", func(t *testing.T) {
		p.SetParameters(paramsOf(t, `[{"0":1,"1":"old"}]`, intText("0", "1")...))
		info, err := p.Execute(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := run(paramsOf(t, `[{"0":2,"1":"new"}]`, intText("0", "1")...)); err != nil {
			t.Fatal(err)
		}
		if got := fetch(t, h, info)[0]["v"]; got != "old" {
			t.Errorf("the earlier result has %v", got)
		}
	})
	if err := p.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.server.leases.close()
	if n := h.server.bound.Load(); n != 0 {
		t.Errorf("%d bytes of parameters are counted after all are gone", n)
	}
}

// bindRows binds parameters as they are; the client leaves out empty ones.
func bindRows(t testing.TB, h *house, command []byte, batches ...arrow.RecordBatch) {
	t.Helper()
	stream, err := h.client.DoPut(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w := flight.NewRecordWriter(stream, ipc.WithSchema(batches[0].Schema()))
	w.SetFlightDescriptor(descriptorOf(command))
	for _, b := range batches {
		if err := w.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), stream.CloseSend()); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
}

func TestPreparedHandles(t *testing.T) {
	t.Parallel()
	opts := plain
	opts.Principal = func(ctx context.Context) string {
		md, _ := metadata.FromIncomingContext(ctx)
		return lastOf(md, "who")
	}
	h, e := serveSQL(t, opts, t.TempDir())
	as := func(pairs ...string) context.Context { return metadata.AppendToOutgoingContext(t.Context(), pairs...) }
	command := func(handle []byte) *flight.FlightDescriptor {
		return descriptorOf(pack(t, &flightpb.CommandPreparedStatementQuery{PreparedStatementHandle: handle}))
	}
	t.Run("answer to their owner only", func(t *testing.T) {
		p, err := h.sql().Prepare(as("who", "ann", headerSession, "one"), "rows 3")
		if err != nil {
			t.Fatal(err)
		}
		for _, other := range []context.Context{as("who", "bob", headerSession, "one"), as("who", "ann", headerSession, "two"), as("who", "ann"), as()} {
			_, err := h.client.GetFlightInfo(other, command(p.Handle()))
			wantError(t, "another's", err, codes.NotFound, "prepared statement")
		}
		info, err := h.client.GetFlightInfo(as("who", "ann", headerSession, "one"), command(p.Handle()))
		if err != nil {
			t.Fatal(err)
		}
		// Tickets go to other connections, but not to other principals.
		_, err = tryFetch(as("who", "bob"), t, h, info)
		wantError(t, "another's ticket", err, codes.NotFound, "ticket")
		if rows, err := tryFetch(as("who", "ann"), t, h, info); err != nil || len(rows) != 3 {
			t.Errorf("%d rows, %v", len(rows), err)
		}
	})
	t.Run("closed", func(t *testing.T) {
		p, err := h.sql().Prepare(t.Context(), "rows 3")
		if err != nil {
			t.Fatal(err)
		}
		info, err := p.Execute(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := len(fetch(t, h, info)); n != 3 {
			t.Errorf("%d rows of a result whose statement was closed", n)
		}
		_, err = h.client.GetFlightInfo(t.Context(), command(p.Handle()))
		wantError(t, "closed", err, codes.NotFound)
		_, err = h.act(t, "ClosePreparedStatement", pack(t, &flightpb.ActionClosePreparedStatementRequest{PreparedStatementHandle: p.Handle()}))
		wantError(t, "closed twice", err, codes.NotFound)
	})
	t.Run("the command as ticket", func(t *testing.T) {
		p, err := h.sql().Prepare(t.Context(), "rows 4")
		if err != nil {
			t.Fatal(err)
		}
		_, rows, err := h.get(t.Context(), string(command(p.Handle()).Cmd))
		if err != nil || len(rows) != 4 {
			t.Errorf("%d rows, %v", len(rows), err)
		}
	})
	t.Run("closing the session closes them", func(t *testing.T) {
		ctx := as(headerSession, "closing")
		p, err := h.sql().Prepare(ctx, "rows 3")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.client.CloseSession(ctx, &flight.CloseSessionRequest{}); err != nil {
			t.Fatal(err)
		}
		_, err = h.client.GetFlightInfo(ctx, command(p.Handle()))
		wantError(t, "session closed", err, codes.NotFound)
	})
	t.Run("a result that changes is refused", func(t *testing.T) {
		p, err := h.sql().Prepare(t.Context(), "moving")
		if err != nil {
			t.Fatal(err)
		}
		_, err = h.client.GetFlightInfo(t.Context(), command(p.Handle()))
		wantError(t, "moving", err, codes.FailedPrecondition, "changed", "Prepare it again")
	})
	t.Run("1000 unclosed ones", func(t *testing.T) {
		before := e.open.Load()
		handles := make([][]byte, 0, 1000)
		for range 1000 {
			p, err := h.sql().Prepare(t.Context(), "rows 2")
			if err != nil {
				t.Fatal(err)
			}
			handles = append(handles, p.Handle())
		}
		slices.SortFunc(handles, slices.Compare)
		if n := len(slices.CompactFunc(handles, slices.Equal)); n != 1000 {
			t.Errorf("%d different handles", n)
		}
		if n := e.open.Load(); n > before+maxSparesOwner {
			t.Errorf("%d statements of the engine are open for 1000 handles", n-before)
		}
		for _, handle := range [][]byte{handles[0], handles[999]} {
			info, err := h.client.GetFlightInfo(t.Context(), command(handle))
			if err != nil {
				t.Fatal(err)
			}
			fetch(t, h, info)
		}
	})
}

func TestIdlePreparedStatementsGo(t *testing.T) {
	t.Parallel()
	opts := plain
	opts.PreparedIdle = 100 * time.Millisecond
	h, _ := serveSQL(t, opts, t.TempDir())
	p, err := h.sql().Prepare(t.Context(), "rows 1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Execute(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, 2*time.Second, "the statement is gone", func() bool { return h.server.prepared.len() == 0 })
	_, err = p.Execute(t.Context())
	wantError(t, "idle", err, codes.NotFound, "not used for long")
}

// What writes is described as what it is, and is refused by name where the
// engine only reads.
func TestUpdatePath(t *testing.T) {
	t.Parallel()
	h, _ := serveSQL(t, plain, t.TempDir())
	p, err := h.sql().Prepare(t.Context(), "change")
	if err != nil {
		t.Fatal(err)
	}
	if update, said := p.IsUpdate(); !update || !said {
		t.Errorf("is_update %v, said %v", update, said)
	}
	if p.DatasetSchema() != nil {
		t.Errorf("a statement without rows has the schema %s", p.DatasetSchema())
	}
	sameSchema(t, "parameters", numbers, p.ParameterSchema())
	_, err = p.ExecuteUpdate(t.Context())
	wantError(t, "prepared update", err, codes.InvalidArgument, "1 parameter")
	p.SetParameters(paramsOf(t, `[{"n":1},{"n":2}]`, numbers.Fields()...))
	_, err = p.ExecuteUpdate(t.Context())
	wantError(t, "prepared update with rows", err, codes.Unimplemented, "INSERT")
	_, err = p.GetSchema(t.Context())
	wantError(t, "schema of an update", err, codes.InvalidArgument, "INSERT")
	_, err = h.sql().ExecuteUpdate(t.Context(), "change")
	wantError(t, "update", err, codes.InvalidArgument, "INSERT", "prepare it")
	_, err = h.sql().ExecuteUpdate(t.Context(), "rows 1")
	wantError(t, "update of a query", err, codes.InvalidArgument, "SELECT", "query")
	query, err := h.sql().Prepare(t.Context(), "echo")
	if err != nil {
		t.Fatal(err)
	}
	query.SetParameters(paramsOf(t, `[{"0":1,"1":"a"},{"0":2,"1":"b"}]`, intText("0", "1")...))
	_, err = query.ExecuteUpdate(t.Context())
	wantError(t, "executemany of a query", err, codes.InvalidArgument, "SELECT", "executemany")

	ingest := func(change func(*flightpb.CommandStatementIngest)) error {
		m := &flightpb.CommandStatementIngest{
			Table: "t", TableDefinitionOptions: &flightpb.CommandStatementIngest_TableDefinitionOptions{
				IfNotExist: flightpb.CommandStatementIngest_TableDefinitionOptions_TABLE_NOT_EXIST_OPTION_CREATE,
				IfExists:   flightpb.CommandStatementIngest_TableDefinitionOptions_TABLE_EXISTS_OPTION_APPEND,
			},
		}
		change(m)
		return put(t, h, &flight.FlightData{FlightDescriptor: descriptorOf(pack(t, m))})
	}
	for _, tc := range []struct {
		name   string
		change func(*flightpb.CommandStatementIngest)
		code   codes.Code
		says   string
	}{
		{"no rows", func(*flightpb.CommandStatementIngest) {}, codes.InvalidArgument, "no readable schema"},
		{"temporary", func(m *flightpb.CommandStatementIngest) { m.Temporary = true }, codes.Unimplemented, "temporary"},
		{"options", func(m *flightpb.CommandStatementIngest) { m.Options = map[string]string{"x": "y"} }, codes.InvalidArgument, `"x"`},
		{"no table", func(m *flightpb.CommandStatementIngest) { m.Table = "" }, codes.InvalidArgument, "no name"},
		{"no options", func(m *flightpb.CommandStatementIngest) { m.TableDefinitionOptions = nil }, codes.InvalidArgument, "if_not_exist"},
		{"no if_exists", func(m *flightpb.CommandStatementIngest) { m.TableDefinitionOptions.IfExists = 0 }, codes.InvalidArgument, "if_exists"},
		{"transaction", func(m *flightpb.CommandStatementIngest) { m.TransactionId = []byte("x") }, codes.InvalidArgument, "transaction"},
	} {
		wantError(t, tc.name, ingest(tc.change), tc.code, tc.says)
	}
}

func TestHostileSQL(t *testing.T) {
	t.Parallel()
	h, _ := serveSQL(t, plain, t.TempDir())
	p, err := h.sql().Prepare(t.Context(), "echo")
	if err != nil {
		t.Fatal(err)
	}
	bind := pack(t, &flightpb.CommandPreparedStatementQuery{PreparedStatementHandle: p.Handle()})
	junk := []byte{0xff, 0xff, 0xff, 0xff, 16, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
	for _, tc := range []struct {
		name string
		call func() error
		code codes.Code
	}{
		{"bind without a schema", func() error { return put(t, h, &flight.FlightData{FlightDescriptor: descriptorOf(bind)}) }, codes.InvalidArgument},
		{"bind with a damaged schema", func() error {
			return put(t, h, &flight.FlightData{FlightDescriptor: descriptorOf(bind), DataHeader: junk})
		}, codes.InvalidArgument},
		{"bind to nothing", func() error {
			return put(t, h, &flight.FlightData{FlightDescriptor: descriptorOf(pack(t, &flightpb.CommandPreparedStatementQuery{}))})
		}, codes.NotFound},
		{"DoPut of a command to read", func() error {
			return put(t, h, &flight.FlightData{FlightDescriptor: descriptorOf(pack(t, &flightpb.CommandGetTables{}))})
		}, codes.InvalidArgument},
		{"DoPut of a ticket", func() error {
			return put(t, h, &flight.FlightData{FlightDescriptor: descriptorOf(pack(t, &flightpb.TicketStatementQuery{}))})
		}, codes.InvalidArgument},
		{"DoPut of a damaged command", func() error {
			return put(t, h, &flight.FlightData{FlightDescriptor: descriptorOf([]byte(sqlCommand(t)))})
		}, codes.InvalidArgument},
		{"an Any of an unknown type", func() error {
			_, err := h.client.GetFlightInfo(t.Context(), descriptorOf([]byte(anyOf(t, sqlTypes+"CommandOfTomorrow"))))
			return err
		}, codes.InvalidArgument},
		{"GetFlightInfo of an update", func() error {
			_, err := h.client.GetFlightInfo(t.Context(), descriptorOf(pack(t, &flightpb.CommandStatementUpdate{Query: "change"})))
			return err
		}, codes.InvalidArgument},
		{"a ticket of nobody", func() error {
			_, _, err := h.get(t.Context(), string(pack(t, &flightpb.TicketStatementQuery{StatementHandle: []byte("x.7")})))
			return err
		}, codes.NotFound},
		{"a statement as ticket", func() error {
			_, _, err := h.get(t.Context(), string(pack(t, &flightpb.CommandStatementQuery{Query: "rows 1"})))
			return err
		}, codes.InvalidArgument},
		{"an action without its message", func() error { _, err := h.act(t, "CreatePreparedStatement", []byte("junk")); return err }, codes.InvalidArgument},
		{"an action with another's message", func() error {
			_, err := h.act(t, "CreatePreparedStatement", pack(t, &flightpb.CommandGetCatalogs{}))
			return err
		}, codes.InvalidArgument},
		{"cancel of nothing", func() error { _, err := h.act(t, "CancelFlightInfo", nil); return err }, codes.InvalidArgument},
		{"renewal of nothing", func() error { _, err := h.act(t, "RenewFlightEndpoint", nil); return err }, codes.InvalidArgument},
		{"session options of nobody", func() error { _, err := h.act(t, "SetSessionOptions", []byte("junk")); return err }, codes.InvalidArgument},
		{"an action of tomorrow", func() error { _, err := h.act(t, "Tomorrow", nil); return err }, codes.InvalidArgument},
		{"a huge body", func() error {
			_, err := h.act(t, "CancelFlightInfo", make([]byte, maxFlightBody+1))
			return err
		}, codes.InvalidArgument},
	} {
		t.Run(tc.name, func(t *testing.T) { wantError(t, tc.name, tc.call(), tc.code) })
	}
	if _, err := h.sql().Execute(t.Context(), "rows 1"); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}
