package sqlengine_test

import (
	stdbytes "bytes"
	"context"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/flight/flightsql"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/flightblob/flightblob/catalog"
	"github.com/flightblob/flightblob/table/tabletest"
)

var (
	seed  = flag.Uint64("seed", 0, "seed of the random plans; 0 takes the clock")
	plans = flag.Int("plans", 200, "how many random plans are tried")
)

// packed is a schema as bytes: everything in it counts, nested fields too.
func packed(s *arrow.Schema) []byte { return flight.SerializeSchema(s, memory.DefaultAllocator) }

// equal wants two schemas equal to the last byte of metadata.
func equal(t *testing.T, what string, want, got *arrow.Schema) {
	t.Helper()
	if want == nil || got == nil {
		if want != got {
			t.Errorf("%s: schema %v, want %v", what, got, want)
		}
		return
	}
	if !stdbytes.Equal(packed(want), packed(got)) {
		t.Errorf("%s: schema\n%s\nwant\n%s", what, got, want)
	}
}

// TestOneSchemaOfAnyPlan writes statements at random and compares the schema of
// each wherever a client meets it: in the info, from GetSchema, after preparing,
// on the stream. Statements may be wrong; then the error blames the caller.
func TestOneSchemaOfAnyPlan(t *testing.T) {
	dir, root := tabletest.Fixtures(t), t.TempDir()
	script, err := os.ReadFile("../../query/testdata/alltypes.py")
	if err != nil {
		t.Fatal(err)
	}
	tabletest.Pylance(t, string(script), filepath.Join(root, "types.lance"), "2.2")
	roots := []catalog.Root{{Name: "all", URI: root}}
	names := []string{"all.main.types"}
	for _, f := range []string{"kinds_basic_v22", "nested_v22", "nested_v23", "legacy_v21", "non_nullable", "no_rows", "all_null"} {
		roots = append(roots, catalog.Root{Name: f, URI: filepath.Join(dir, f)})
		names = append(names, f+`.main."table"`)
	}
	h := over(t, roots, dir, root)
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	t.Logf("replay with -seed=%d", *seed)
	p := &planner{Rand: rand.New(rand.NewPCG(*seed, 1))}
	for i, name := range names {
		sch := pathSchema(t, h, roots[i].Name, strings.Trim(name[strings.LastIndex(name, ".")+1:], `"`))
		b := base{name: name}
		for _, f := range sch.Fields() {
			b.items = append(b.items, item{f.Name, kindOf(f)})
		}
		p.tables = append(p.tables, b)
	}
	answered, compared := 0, 0
	for i := range *plans {
		ctx := t.Context()
		if face := []string{"", "descriptor", "logical", "bytes"}[p.IntN(4)]; face != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, "flightblob-blobs", face)
		}
		if p.IntN(4) == 0 {
			ctx = metadata.AppendToOutgoingContext(ctx, "flightblob-profile", "bi")
		}
		p.bind = i%4 == 3
		sql := p.statement(2)
		known, whole := schemas(ctx, t, h, sql, p.params)
		if known {
			compared++
		}
		if whole {
			answered++
		}
		if t.Failed() {
			t.Fatalf("plan %d of seed %d: %s %v", i, *seed, sql, p.params)
		}
	}
	t.Logf("%d of %d plans were right, %d of them to the last row", compared, *plans, answered)
	if compared < *plans/2 || answered < *plans/3 {
		t.Errorf("of %d plans only %d were right, %d to the last row", *plans, compared, answered)
	}
}

// pathSchema is the schema of a table by its path, which that in the list of
// tables must be like, dictionaries aside.
func pathSchema(t *testing.T, h *house, cat, name string) *arrow.Schema {
	t.Helper()
	got, err := h.client.Client.GetSchema(t.Context(), &flight.FlightDescriptor{Type: flight.DescriptorPATH, Path: []string{cat, "main", name}})
	if err != nil {
		t.Fatal(err)
	}
	byPath := parse(t, got.Schema)
	info, err := h.client.GetTables(t.Context(), &flightsql.GetTablesOpts{Catalog: &cat, TableNameFilterPattern: &name, IncludeSchema: true})
	if err != nil {
		t.Fatal(err)
	}
	r, err := h.client.DoGet(t.Context(), info.Endpoint[0].Ticket)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	if !r.Next() {
		t.Fatalf("%s is not listed: %v", cat, r.Err())
	}
	listed := parse(t, slices.Clone(r.RecordBatch().Column(4).(*array.Binary).Value(0)))
	fields := byPath.Fields()
	for i, f := range fields {
		if d, ok := f.Type.(*arrow.DictionaryType); ok {
			fields[i].Type = d.ValueType
		}
	}
	same(t, cat+" in the list of tables", arrow.NewSchema(fields, nil), listed)
	return listed
}

// schemas asks for all schemas of a statement. known says that there is one,
// whole that the rows came too.
func schemas(ctx context.Context, t *testing.T, h *house, sql string, params []any) (known, whole bool) {
	t.Helper()
	blamed := func(what string, err error) {
		switch status.Code(err) {
		case codes.InvalidArgument, codes.ResourceExhausted, codes.Unimplemented:
		default:
			t.Errorf("%s: %v", what, err)
		}
	}
	var want *arrow.Schema
	if len(params) == 0 {
		info, err := h.client.Execute(ctx, sql)
		if err != nil {
			blamed("info", err)
			if _, err := h.client.Prepare(ctx, sql); err == nil {
				t.Errorf("prepared, but without an info")
			}
			return false, false
		}
		want = parse(t, info.Schema)
		got, err := h.client.GetExecuteSchema(ctx, sql)
		if err != nil {
			t.Errorf("GetSchema: %v", err)
			return false, false
		}
		equal(t, "GetSchema", want, parse(t, got.Schema))
		streamed, _, err := h.read(ctx, info)
		if err != nil {
			blamed("stream", err)
		}
		if streamed != nil {
			equal(t, "stream", want, streamed)
		}
		whole = err == nil
	}
	prepared, err := h.client.Prepare(ctx, sql)
	if err != nil {
		if want != nil {
			t.Errorf("not prepared: %v", err)
		}
		blamed("prepare", err)
		return false, false
	}
	defer func() {
		if err := prepared.Close(ctx); err != nil {
			t.Error(err)
		}
	}()
	announced := prepared.DatasetSchema()
	if want != nil {
		equal(t, "prepare", want, announced)
	}
	if len(params) > 0 {
		values := row(params)
		defer values.Release()
		prepared.SetParameters(values)
	}
	info, err := prepared.Execute(ctx)
	if err != nil {
		blamed("prepared", err)
		return false, false
	}
	bound := parse(t, info.Schema)
	if announced != nil && announced.NumFields() > 0 {
		equal(t, "prepared and bound", announced, bound)
	}
	streamed, _, err := h.read(ctx, info)
	if err != nil {
		blamed("stream of prepared", err)
	}
	if streamed != nil {
		equal(t, "stream of prepared", bound, streamed)
	}
	return true, whole || err == nil
}

// row is a batch of parameters.
func row(params []any) arrow.RecordBatch {
	var fields []arrow.Field
	var columns []arrow.Array
	for i, v := range params {
		var b array.Builder
		switch v := v.(type) {
		case string:
			b = array.NewStringBuilder(memory.DefaultAllocator)
			b.(*array.StringBuilder).Append(v)
		case int64:
			b = array.NewInt64Builder(memory.DefaultAllocator)
			b.(*array.Int64Builder).Append(v)
		}
		columns = append(columns, b.NewArray())
		fields = append(fields, arrow.Field{Name: "p", Type: columns[i].DataType(), Nullable: true})
		b.Release()
	}
	return array.NewRecordBatch(arrow.NewSchema(fields, nil), columns, 1)
}
