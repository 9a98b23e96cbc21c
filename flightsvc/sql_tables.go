package flightsvc

import (
	"context"
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/flight/flightsql"
	"github.com/apache/arrow-go/v18/arrow/flight/flightsql/schema_ref"
	flightpb "github.com/apache/arrow-go/v18/arrow/flight/gen/flight"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"golang.org/x/sync/errgroup"

	"github.com/flightblob/flightblob/catalog"
	"github.com/flightblob/flightblob/schema"
)

const (
	// openers is how many tables are opened at once for their schemas.
	openers = 8
	// tablesBatch is how many tables go into one batch with their schemas.
	tablesBatch = 64
)

// tableRows answers CommandGetTables. Tables are opened only when their schemas
// are asked for, a few at a time while the answer is being sent.
func (s *Server) tableRows(ctx context.Context, m *flightpb.CommandGetTables, set settings) (array.RecordReader, error) {
	names, err := s.tables(ctx, m)
	if err != nil {
		return nil, err
	}
	if !m.IncludeSchema {
		return oneBatch(schema_ref.Tables, func(b *array.RecordBuilder) {
			for _, name := range names {
				appendTable(b, name)
			}
		}), nil
	}
	return newPull(schema_ref.TablesWithIncludedSchema, func() (arrow.RecordBatch, error) {
		if len(names) == 0 {
			return nil, nil
		}
		some := names[:min(tablesBatch, len(names))]
		names = names[len(some):]
		schemas, err := s.tableSchemas(ctx, some, set)
		if err != nil {
			return nil, err
		}
		b := array.NewRecordBuilder(memory.DefaultAllocator, schema_ref.TablesWithIncludedSchema)
		defer b.Release()
		for i, name := range some {
			appendTable(b, name)
			b.Field(4).(*array.BinaryBuilder).Append(schemas[i])
		}
		return b.NewRecordBatch(), nil
	}, nil), nil
}

func appendTable(b *array.RecordBuilder, name catalog.Name) {
	appendText(b, 0, name.Catalog)
	appendText(b, 1, name.Schema)
	appendText(b, 2, name.Table)
	appendText(b, 3, tableType)
}

// tableSchemas opens tables and gives their schemas as the protocol packs them.
// One that cannot be opened does not hide the others: its schema has no fields
// and says why in its metadata.
func (s *Server) tableSchemas(ctx context.Context, names []catalog.Name, set settings) ([][]byte, error) {
	packed := make([][]byte, len(names))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(openers)
	for i, name := range names {
		group.Go(func() error {
			sch, err := s.tableSchema(ctx, name, set)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				m := arrow.NewMetadata([]string{"error"}, []string{s.redact.text(err.Error())})
				sch = arrow.NewSchema(nil, &m)
			}
			packed[i] = serialize(sch)
			return nil
		})
	}
	return packed, group.Wait()
}

// tableSchema is the schema of SELECT * FROM a table, in the session's face and
// profile, with the protocol's words on each column.
func (s *Server) tableSchema(ctx context.Context, name catalog.Name, set settings) (sch *arrow.Schema, err error) {
	snap, err := s.snapshot(ctx, &Ticket{Name: name})
	if err != nil {
		return nil, err
	}
	sch, err = sqlSchemaOf(snap, set.view)
	if err != nil {
		return nil, err
	}
	if set.bi {
		sch = biSchema(sch)
	}
	tree := snap.Schema().Fields
	fields := make([]arrow.Field, sch.NumFields())
	for i, f := range sch.Fields() {
		var node *schema.Field
		if i < len(tree) && tree[i].Name == f.Name {
			node = tree[i]
		}
		fields[i] = describedColumn(f, node, name)
	}
	m := sch.Metadata()
	return arrow.NewSchema(fields, &m), nil
}

// describedColumn adds the metadata that Flight SQL defines for columns.
func describedColumn(f arrow.Field, node *schema.Field, of catalog.Name) arrow.Field {
	keys, values := append([]string{}, f.Metadata.Keys()...), append([]string{}, f.Metadata.Values()...)
	add := func(key, value string) {
		keys, values = append(keys, key), append(values, value)
	}
	add(flightsql.CatalogNameKey, of.Catalog)
	add(flightsql.SchemaNameKey, of.Schema)
	add(flightsql.TableNameKey, of.Table)
	add(flightsql.TypeNameKey, typeName(f.Type, node))
	if precision, scale, ok := digits(f.Type); ok {
		add(flightsql.PrecisionKey, fmt.Sprint(precision))
		add(flightsql.ScaleKey, fmt.Sprint(scale))
	}
	add(flightsql.IsAutoIncrementKey, "0")
	add(flightsql.IsCaseSensitiveKey, flag(isText(f.Type)))
	add(flightsql.IsReadOnlyKey, "1")
	add(flightsql.IsSearchableKey, "1")
	f.Metadata = arrow.NewMetadata(keys, values)
	return f
}

func flag(on bool) string {
	if on {
		return "1"
	}
	return "0"
}

func isText(t arrow.DataType) bool {
	switch t.ID() {
	case arrow.STRING, arrow.LARGE_STRING, arrow.STRING_VIEW:
		return true
	}
	return false
}

// digits is the precision and scale of exact numbers.
func digits(t arrow.DataType) (precision, scale int32, ok bool) {
	switch t := t.(type) {
	case arrow.DecimalType:
		return t.GetPrecision(), t.GetScale(), true
	case *arrow.Int8Type, *arrow.Uint8Type:
		return 3, 0, true
	case *arrow.Int16Type, *arrow.Uint16Type:
		return 5, 0, true
	case *arrow.Int32Type, *arrow.Uint32Type:
		return 10, 0, true
	case *arrow.Int64Type:
		return 19, 0, true
	case *arrow.Uint64Type:
		return 20, 0, true
	}
	return 0, 0, false
}

// blobTypeName is the SQL type of blob columns, at any depth.
const blobTypeName = "LANCE_BLOB"

// typeName is the name of a column's type in SQL. node is the table's field,
// which knows blob columns in every face; it may be nil.
func typeName(t arrow.DataType, node *schema.Field) string {
	if node != nil && node.Blob != schema.NotBlob {
		return blobTypeName
	}
	child := func(i int) *schema.Field {
		if node != nil && i < len(node.Children) {
			return node.Children[i]
		}
		return nil
	}
	switch t := t.(type) {
	case *arrow.StructType:
		parts := make([]string, t.NumFields())
		for i, f := range t.Fields() {
			parts[i] = quoteName(f.Name) + " " + typeName(f.Type, child(i))
		}
		return "STRUCT(" + strings.Join(parts, ", ") + ")"
	case *arrow.MapType:
		return "MAP(" + typeName(t.KeyType(), nil) + ", " + typeName(t.ItemType(), nil) + ")"
	case *arrow.FixedSizeListType:
		return fmt.Sprintf("%s[%d]", typeName(t.Elem(), child(0)), t.Len())
	case arrow.ListLikeType:
		return typeName(t.Elem(), child(0)) + "[]"
	case *arrow.DictionaryType:
		return typeName(t.ValueType, nil)
	case arrow.DecimalType:
		if t.GetPrecision() > 38 {
			return "VARCHAR"
		}
		return fmt.Sprintf("DECIMAL(%d,%d)", t.GetPrecision(), t.GetScale())
	case *arrow.TimestampType:
		switch {
		case t.TimeZone != "":
			return "TIMESTAMP WITH TIME ZONE"
		case t.Unit == arrow.Second:
			return "TIMESTAMP_S"
		case t.Unit == arrow.Millisecond:
			return "TIMESTAMP_MS"
		case t.Unit == arrow.Nanosecond:
			return "TIMESTAMP_NS"
		}
		return "TIMESTAMP"
	}
	if name, ok := plainTypeNames[t.ID()]; ok {
		return name
	}
	return strings.ToUpper(t.Name())
}

var plainTypeNames = map[arrow.Type]string{
	arrow.BOOL: "BOOLEAN",
	arrow.INT8: "TINYINT", arrow.INT16: "SMALLINT", arrow.INT32: "INTEGER", arrow.INT64: "BIGINT",
	arrow.UINT8: "UTINYINT", arrow.UINT16: "USMALLINT", arrow.UINT32: "UINTEGER", arrow.UINT64: "UBIGINT",
	arrow.FLOAT16: "FLOAT", arrow.FLOAT32: "FLOAT", arrow.FLOAT64: "DOUBLE",
	arrow.STRING: "VARCHAR", arrow.LARGE_STRING: "VARCHAR", arrow.STRING_VIEW: "VARCHAR",
	arrow.BINARY: "BLOB", arrow.LARGE_BINARY: "BLOB", arrow.FIXED_SIZE_BINARY: "BLOB", arrow.BINARY_VIEW: "BLOB",
	arrow.DATE32: "DATE", arrow.DATE64: "DATE", arrow.TIME32: "TIME", arrow.TIME64: "TIME",
	arrow.DURATION: "INTERVAL", arrow.NULL: "INTEGER",
	arrow.INTERVAL_MONTHS: "INTERVAL", arrow.INTERVAL_DAY_TIME: "INTERVAL", arrow.INTERVAL_MONTH_DAY_NANO: "INTERVAL",
}

// quoteName quotes a name as SQL does where it must.
func quoteName(name string) string {
	for i, c := range name {
		if c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (i == 0 || c < '0' || c > '9') {
			return `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
		}
	}
	if name == "" {
		return `""`
	}
	return name
}
