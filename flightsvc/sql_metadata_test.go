package flightsvc

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/flight/flightsql"
	"github.com/apache/arrow-go/v18/arrow/flight/flightsql/schema_ref"
	flightpb "github.com/apache/arrow-go/v18/arrow/flight/gen/flight"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/flightblob/flightblob/schema"
)

// ask sends a command about names or types and reads its answer, whose schema
// must be the protocol's everywhere.
func ask(ctx context.Context, t testing.TB, h *house, m proto.Message, want *arrow.Schema) []map[string]any {
	t.Helper()
	d := descriptorOf(pack(t, m))
	info, err := h.client.GetFlightInfo(ctx, d)
	if err != nil {
		t.Fatal(err)
	}
	sameSchema(t, "info", want, schemaOf(t, info.Schema))
	sch, err := h.client.GetSchema(ctx, d)
	if err != nil {
		t.Fatal(err)
	}
	sameSchema(t, "GetSchema", want, schemaOf(t, sch.Schema))
	rows, err := tryFetch(ctx, t, h, info)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// show lists rows with their columns joined by dots.
func show(rows []map[string]any, columns ...string) []string {
	list := []string{}
	for _, r := range rows {
		parts := make([]string, len(columns))
		for i, c := range columns {
			parts[i] = fmt.Sprint(r[c])
		}
		list = append(list, strings.Join(parts, "."))
	}
	return list
}

func TestCatalogMetadata(t *testing.T) {
	t.Parallel()
	media := demoTable + "/media.lance"
	b := root(t, "pic_tures="+media, "pics="+media, "Pics="+media, "100%="+media)
	if err := os.MkdirAll(filepath.Join(b, "broken.lance", "_versions"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(b, "broken.lance", "_versions", "1.manifest"), []byte("no manifest"), 0o644); err != nil {
		t.Fatal(err)
	}
	h, e := serveSQL(t, plain, "b="+b, "a="+root(t, "zoo="+media))
	ctx := t.Context()
	if diff := cmp.Diff([]string{"a", "b"}, show(ask(ctx, t, h, &flightpb.CommandGetCatalogs{}, schema_ref.Catalogs), "catalog_name")); diff != "" {
		t.Errorf("catalogs (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"TABLE"}, show(ask(ctx, t, h, &flightpb.CommandGetTableTypes{}, schema_ref.TableTypes), "table_type")); diff != "" {
		t.Errorf("table types (-want +got):\n%s", diff)
	}
	text := proto.String
	for _, tc := range []struct {
		ask  *flightpb.CommandGetDbSchemas
		want []string
	}{
		{&flightpb.CommandGetDbSchemas{}, []string{"a.main", "b.main"}},
		{&flightpb.CommandGetDbSchemas{Catalog: text("b")}, []string{"b.main"}},
		{&flightpb.CommandGetDbSchemas{Catalog: text("")}, []string{}},
		{&flightpb.CommandGetDbSchemas{Catalog: text("B")}, []string{}},
		{&flightpb.CommandGetDbSchemas{DbSchemaFilterPattern: text("m%")}, []string{"a.main", "b.main"}},
		{&flightpb.CommandGetDbSchemas{DbSchemaFilterPattern: text("")}, []string{}},
	} {
		got := show(ask(ctx, t, h, tc.ask, schema_ref.DBSchemas), "catalog_name", "db_schema_name")
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%v (-want +got):\n%s", tc.ask, diff)
		}
	}
	all := []string{"a.main.zoo", "b.main.100%", "b.main.Pics", "b.main.broken", "b.main.pic_tures", "b.main.pics"}
	for _, tc := range []struct {
		ask  *flightpb.CommandGetTables
		want []string
	}{
		{&flightpb.CommandGetTables{}, all},
		{&flightpb.CommandGetTables{TableNameFilterPattern: text("%")}, all},
		{&flightpb.CommandGetTables{TableTypes: []string{"VIEW", "TABLE"}}, all},
		{&flightpb.CommandGetTables{TableTypes: []string{"VIEW"}}, []string{}},
		{&flightpb.CommandGetTables{Catalog: text("a")}, []string{"a.main.zoo"}},
		{&flightpb.CommandGetTables{Catalog: text("")}, []string{}},
		{&flightpb.CommandGetTables{DbSchemaFilterPattern: text("other")}, []string{}},
		{&flightpb.CommandGetTables{TableNameFilterPattern: text("pics")}, []string{"b.main.pics"}},
		{&flightpb.CommandGetTables{TableNameFilterPattern: text("PICS")}, []string{}},
		{&flightpb.CommandGetTables{TableNameFilterPattern: text("pic_")}, []string{"b.main.pics"}},
		{&flightpb.CommandGetTables{TableNameFilterPattern: text("pic_t%")}, []string{"b.main.pic_tures"}},
		{&flightpb.CommandGetTables{TableNameFilterPattern: text(`pic\_tures`)}, []string{"b.main.pic_tures"}},
		{&flightpb.CommandGetTables{TableNameFilterPattern: text(`pic\_`)}, []string{}},
		{&flightpb.CommandGetTables{TableNameFilterPattern: text(`%\%`)}, []string{"b.main.100%"}},
		{&flightpb.CommandGetTables{TableNameFilterPattern: text("broken")}, []string{"b.main.broken"}},
		{&flightpb.CommandGetTables{TableNameFilterPattern: text("")}, []string{}},
		{&flightpb.CommandGetTables{TableNameFilterPattern: text("SELECT * FROM pics WHERE a LIKE '%x'")}, []string{}},
		{&flightpb.CommandGetTables{TableNameFilterPattern: text("../zoo")}, []string{}},
	} {
		got := show(ask(ctx, t, h, tc.ask, schema_ref.Tables), "catalog_name", "db_schema_name", "table_name")
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%v (-want +got):\n%s", tc.ask, diff)
		}
		tc.ask.IncludeSchema = true
		with := ask(ctx, t, h, tc.ask, schema_ref.TablesWithIncludedSchema)
		if diff := cmp.Diff(tc.want, show(with, "catalog_name", "db_schema_name", "table_name")); diff != "" {
			t.Errorf("%v with schemas (-want +got):\n%s", tc.ask, diff)
		}
	}
	t.Run("listing names opens no table", func(t *testing.T) {
		manifests := func() (n int64) {
			for _, o := range h.server.opts.Counter.Snapshot().Objects {
				if strings.Contains(o.URI, ".manifest") {
					n += o.Requests()
				}
			}
			return n
		}
		before := manifests()
		ask(ctx, t, h, &flightpb.CommandGetTables{}, schema_ref.Tables)
		ask(ctx, t, h, &flightpb.CommandGetTables{TableNameFilterPattern: text("pics")}, schema_ref.Tables)
		if n := manifests() - before; n != 0 {
			t.Errorf("%d requests for manifests", n)
		}
	})
	t.Run("a broken table says why", func(t *testing.T) {
		rows := ask(ctx, t, h, &flightpb.CommandGetTables{TableNameFilterPattern: text("broken"), IncludeSchema: true}, schema_ref.TablesWithIncludedSchema)
		sch := schemaOf(t, []byte(rowBytes(t, h, "broken")))
		at := sch.Metadata().FindKey("error")
		if len(rows) != 1 || sch.NumFields() != 0 || at < 0 || strings.Contains(sch.Metadata().Values()[at], b) {
			t.Errorf("%d rows, schema %s", len(rows), sch)
		}
	})
	t.Run("keys", func(t *testing.T) {
		for _, tc := range []struct {
			m   proto.Message
			sch *arrow.Schema
		}{
			{&flightpb.CommandGetPrimaryKeys{Table: "pics"}, schema_ref.PrimaryKeys},
			{&flightpb.CommandGetImportedKeys{Table: "pics"}, schema_ref.ImportedKeys},
			{&flightpb.CommandGetExportedKeys{Table: "nothing"}, schema_ref.ExportedKeys},
			{&flightpb.CommandGetCrossReference{PkTable: "pics", FkTable: "zoo"}, schema_ref.CrossReference},
		} {
			if rows := ask(ctx, t, h, tc.m, tc.sch); len(rows) != 0 {
				t.Errorf("%T: %d rows", tc.m, len(rows))
			}
		}
	})
	if n := e.prepared.Load(); n != 0 {
		t.Errorf("%d statements were prepared for metadata", n)
	}
}

// rowBytes is the packed schema of one table.
func rowBytes(t testing.TB, h *house, table string) string {
	t.Helper()
	ticket := pack(t, &flightpb.CommandGetTables{TableNameFilterPattern: &table, IncludeSchema: true})
	stream, err := h.client.DoGet(t.Context(), &flight.Ticket{Ticket: ticket})
	if err != nil {
		t.Fatal(err)
	}
	r, err := flight.NewRecordReader(stream)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	if !r.Next() || r.RecordBatch().NumRows() == 0 {
		t.Fatalf("%s: %v", table, r.Err())
	}
	return string(r.RecordBatch().Column(4).(*array.Binary).Value(0))
}

// Metadata keeps the protocol's schemas under every preference, and the schemas
// of tables follow them as SELECT * does.
func TestMetadataUnderPreferences(t *testing.T) {
	t.Parallel()
	h, _ := serveSQL(t, plain, root(t, "media="+demoTable+"/media.lance", "nested="+fixtures+"nested_v22/table.lance"))
	for _, face := range []string{"bytes", "descriptor", "logical"} {
		for _, profile := range []string{"", profileBI} {
			ctx := metadata.AppendToOutgoingContext(t.Context(), headerBlobs, face, headerBatchBytes, "1024")
			if profile != "" {
				ctx = metadata.AppendToOutgoingContext(ctx, headerProfile, profile)
			}
			ask(ctx, t, h, &flightpb.CommandGetSqlInfo{}, schema_ref.SqlInfo)
			ask(ctx, t, h, &flightpb.CommandGetCrossReference{}, schema_ref.CrossReference)
			for _, name := range []string{"media", "nested"} {
				_, err := h.client.GetFlightInfo(ctx, descriptorOf(pack(t, &flightpb.CommandGetTables{})))
				if err != nil {
					t.Fatal(err)
				}
				ticket := pack(t, &flightpb.CommandGetTables{TableNameFilterPattern: &name, IncludeSchema: true})
				stream, err := h.client.DoGet(ctx, &flight.Ticket{Ticket: ticket})
				if err != nil {
					t.Fatal(err)
				}
				r, err := flight.NewRecordReader(stream)
				if err != nil || !r.Next() {
					t.Fatal(err)
				}
				listed := schemaOf(t, r.RecordBatch().Column(4).(*array.Binary).Value(0))
				info, err := h.sql().Execute(ctx, "scan "+name)
				if err != nil {
					t.Fatal(err)
				}
				if err := agrees(schemaOf(t, info.Schema), listed); err != nil {
					t.Errorf("%s as %s %s: %v", name, face, profile, err)
				}
				fetch(t, h, info)
				r.Release()
			}
		}
	}
}

func TestColumnsAreDescribed(t *testing.T) {
	t.Parallel()
	h, _ := serveSQL(t, plain, root(t, "nested="+fixtures+"nested_v22/table.lance"))
	sch := schemaOf(t, []byte(rowBytes(t, h, "nested")))
	want := map[string]string{
		"id": "INTEGER", "s": "STRUCT(caption VARCHAR, blob LANCE_BLOB)", "l": "LANCE_BLOB[]", "ll": "LANCE_BLOB[]",
		"ls": "STRUCT(caption VARCHAR, blob LANCE_BLOB)[]", "sl": "STRUCT(n INTEGER, blobs LANCE_BLOB[])", "lli": "LANCE_BLOB[][]",
	}
	for _, f := range sch.Fields() {
		c := flightsql.ColumnMetadata{Data: &f.Metadata}
		name, _ := c.TypeName()
		table, _ := c.TableName()
		in, _ := c.SchemaName()
		of, _ := c.CatalogName()
		if name != want[f.Name] || of != "lance" || in != "main" || table != "nested" {
			t.Errorf("column %s: type %s of %s.%s.%s", f.Name, name, of, in, table)
		}
		if only, ok := c.IsReadOnly(); !only || !ok {
			t.Errorf("column %s is not said to be read only", f.Name)
		}
	}
}

func TestTypeNames(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		t    arrow.DataType
		want string
	}{
		{arrow.PrimitiveTypes.Uint64, "UBIGINT"},
		{arrow.FixedWidthTypes.Float16, "FLOAT"},
		{arrow.BinaryTypes.LargeString, "VARCHAR"},
		{&arrow.Decimal128Type{Precision: 12, Scale: 3}, "DECIMAL(12,3)"},
		{&arrow.Decimal256Type{Precision: 50, Scale: 3}, "VARCHAR"},
		{&arrow.TimestampType{Unit: arrow.Microsecond}, "TIMESTAMP"},
		{&arrow.TimestampType{Unit: arrow.Nanosecond}, "TIMESTAMP_NS"},
		{&arrow.TimestampType{Unit: arrow.Second}, "TIMESTAMP_S"},
		{&arrow.TimestampType{Unit: arrow.Millisecond}, "TIMESTAMP_MS"},
		{&arrow.TimestampType{Unit: arrow.Second, TimeZone: "UTC"}, "TIMESTAMP WITH TIME ZONE"},
		{arrow.FixedSizeListOf(3, arrow.PrimitiveTypes.Float32), "FLOAT[3]"},
		{arrow.MapOf(arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int8), "MAP(VARCHAR, TINYINT)"},
		{arrow.StructOf(arrow.Field{Name: `a "b"`, Type: arrow.PrimitiveTypes.Int8}, arrow.Field{Name: "1", Type: arrow.Null}), `STRUCT("a ""b""" TINYINT, "1" INTEGER)`},
		{&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}, "VARCHAR"},
	} {
		if got := typeName(tc.t, nil); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.t, got, tc.want)
		}
	}
	if got := typeName(schema.DescriptorType, &schema.Field{Blob: schema.BlobV2}); got != blobTypeName {
		t.Errorf("a blob column is a %s", got)
	}
}

func FuzzPattern(f *testing.F) {
	for _, seed := range [][2]string{{"a%b_", "axxbc"}, {`\%`, "%"}, {`\`, `\`}, {"%%__%", "ab"}, {"ä_", "äö"}, {"%a%a%a%a%b", "aaaaaaaaaaaaaaaaaaaaaaaa"}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, like, text string) {
		if len(like) > 30 || len(text) > 200 {
			t.Skip("too long for the expression")
		}
		var b strings.Builder
		b.WriteString(`^(?s:`)
		escaped := false
		for _, c := range like {
			switch {
			case escaped:
				b.WriteString(regexp.QuoteMeta(string(c)))
				escaped = false
			case c == '\\':
				escaped = true
			case c == '%':
				b.WriteString(`.*`)
			case c == '_':
				b.WriteString(`.`)
			default:
				b.WriteString(regexp.QuoteMeta(string(c)))
			}
		}
		if escaped {
			b.WriteString(`\\`)
		}
		b.WriteString(`)$`)
		text = strings.ToValidUTF8(text, "?")
		if want, got := regexp.MustCompile(b.String()).MatchString(text), patternOf(&like).matches(text); want != got {
			t.Errorf("%q like %q: %v, want %v", text, like, got, want)
		}
		if exact, ok := patternOf(&like).exactly(); ok && !patternOf(&like).matches(exact) {
			t.Errorf("%q does not match its one text %q", like, exact)
		}
	})
}

// Every id that clients ask for is there, with a value of the type that they
// cast it to.
func TestSQLInfo(t *testing.T) {
	t.Parallel()
	h, _ := serveSQL(t, plain, t.TempDir())
	read := func(ids ...uint32) map[uint32]any {
		t.Helper()
		ticket := pack(t, &flightpb.CommandGetSqlInfo{Info: ids})
		stream, err := h.client.DoGet(t.Context(), &flight.Ticket{Ticket: ticket})
		if err != nil {
			t.Fatal(err)
		}
		r, err := flight.NewRecordReader(stream)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Release()
		got := map[uint32]any{}
		last := int64(-1)
		for r.Next() {
			names := r.RecordBatch().Column(0).(*array.Uint32)
			values := r.RecordBatch().Column(1).(*array.DenseUnion)
			for i := range names.Len() {
				if int64(names.Value(i)) <= last {
					t.Errorf("id %d after %d", names.Value(i), last)
				}
				last = int64(names.Value(i))
				got[names.Value(i)] = infoValue(values, i)
			}
		}
		if r.Err() != nil {
			t.Fatal(r.Err())
		}
		return got
	}
	span := func(from, to uint32) (ids []uint32) {
		for id := from; id <= to; id++ {
			ids = append(ids, id)
		}
		return ids
	}
	kinds := map[string][]uint32{
		"string": slices.Concat(span(0, 2), span(6, 7), []uint32{504, 513, 514}, span(529, 531)),
		"bool": slices.Concat(span(3, 5), span(9, 11), span(500, 502), []uint32{506, 515, 516}, span(518, 521),
			[]uint32{523, 524, 527, 532, 536, 537, 539, 556, 563, 565, 566}, span(572, 576)),
		"int32":             slices.Concat([]uint32{8, 100, 101, 522, 525, 526, 528}, span(533, 535), []uint32{538, 540, 564}, span(567, 571)),
		"int64":             slices.Concat([]uint32{503, 505, 507}, span(541, 555), span(557, 562)),
		"[]string":          span(508, 512),
		"map[int32][]int32": {517},
	}
	all := read()
	n := 0
	for kind, ids := range kinds {
		for _, id := range ids {
			n++
			v, ok := all[id]
			if got := fmt.Sprintf("%T", v); !ok || got != kind {
				t.Errorf("id %d (%s) is a %s, want %s", id, flightpb.SqlInfo(id), got, kind)
			}
		}
	}
	if n != len(all) {
		t.Errorf("%d ids, %d are checked", len(all), n)
	}
	for id, want := range map[uint32]any{
		0: "flightblob", 1: "1.2.3", 2: arrow.PkgVersion, 3: false, 4: true, 5: false, 8: int32(0), 9: true, 10: true, 11: false,
		100: int32(3_600_000), 504: `"`, 513: `\`, 562: int64(0), 563: false,
	} {
		if diff := cmp.Diff(want, all[id]); diff != "" {
			t.Errorf("id %d (-want +got):\n%s", id, diff)
		}
	}
	for _, id := range []uint32{508, 509, 510, 511, 512} {
		words := all[id].([]string)
		if len(words) < 10 || len(slices.Compact(slices.Sorted(slices.Values(words)))) != len(words) {
			t.Errorf("id %d: %d words, or some twice", id, len(words))
		}
	}
	some := read(8, 3, 99999, 3, 12)
	if diff := cmp.Diff(map[uint32]any{3: false, 8: int32(0)}, some); diff != "" {
		t.Errorf("some ids (-want +got):\n%s", diff)
	}
	if n := len(read(99999)); n != 0 {
		t.Errorf("%d values for an id that does not exist", n)
	}
}

func infoValue(u *array.DenseUnion, i int) any {
	child, at := u.Field(u.ChildID(i)), int(u.ValueOffset(i))
	texts := func(l *array.List, at int) (from, to int) {
		f, t := l.ValueOffsets(at)
		return int(f), int(t)
	}
	switch c := child.(type) {
	case *array.String:
		return strings.Clone(c.Value(at))
	case *array.Boolean:
		return c.Value(at)
	case *array.Int64:
		return c.Value(at)
	case *array.Int32:
		return c.Value(at)
	case *array.Map:
		got := map[int32][]int32{}
		from, to := c.ValueOffsets(at)
		for k := int(from); k < int(to); k++ {
			f, t := texts(c.Items().(*array.List), k)
			got[c.Keys().(*array.Int32).Value(k)] = slices.Clone(c.Items().(*array.List).ListValues().(*array.Int32).Int32Values()[f:t])
		}
		return got
	case *array.List:
		var got []string
		from, to := texts(c, at)
		for k := from; k < to; k++ {
			got = append(got, strings.Clone(c.ListValues().(*array.String).Value(k)))
		}
		return got
	}
	return nil
}

func TestTypeInfo(t *testing.T) {
	t.Parallel()
	h, _ := serveSQL(t, plain, t.TempDir())
	all := ask(t.Context(), t, h, &flightpb.CommandGetXdbcTypeInfo{}, schema_ref.XdbcTypeInfo)
	if len(all) != len(types) {
		t.Errorf("%d types, want %d", len(all), len(types))
	}
	order := show(all, "data_type", "type_name")
	for _, want := range []string{"-5.BIGINT", "-4.LANCE_BLOB", "-3.BLOB", "12.VARCHAR", "93.TIMESTAMP WITH TIME ZONE"} {
		if !slices.Contains(order, want) {
			t.Errorf("%s is not among %v", want, order)
		}
	}
	code := int32(-5)
	some := ask(t.Context(), t, h, &flightpb.CommandGetXdbcTypeInfo{DataType: &code}, schema_ref.XdbcTypeInfo)
	if diff := cmp.Diff([]string{"BIGINT.19.false", "UBIGINT.20.true"}, show(some, "type_name", "column_size", "unsigned_attribute")); diff != "" {
		t.Errorf("types of code -5 (-want +got):\n%s", diff)
	}
	known := map[string]bool{}
	for _, ty := range types {
		known[ty.name] = true
	}
	for _, name := range plainTypeNames {
		if !known[name] {
			t.Errorf("columns of type %s exist, but the type is not listed", name)
		}
	}
}

// Without an engine, names and types are still answered.
func TestMetadataWithoutEngine(t *testing.T) {
	t.Parallel()
	h := serve(t, plain, root(t, "media="+demoTable+"/media.lance"))
	rows := ask(t.Context(), t, h, &flightpb.CommandGetTables{IncludeSchema: true}, schema_ref.TablesWithIncludedSchema)
	if len(rows) != 1 {
		t.Errorf("%d tables", len(rows))
	}
	ask(t.Context(), t, h, &flightpb.CommandGetSqlInfo{Info: []uint32{4}}, schema_ref.SqlInfo)
}
