package query

import (
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/flightblob/flightblob/materialize"
	"github.com/flightblob/flightblob/query/engine"
	"github.com/flightblob/flightblob/schema"
)

// This file is the way from the engine's types back to those of a table.

// storedType gives the type that a field's values have in the engine, and the
// exact field of a descriptor schema.
func storedType(f *schema.Field) (*engine.Type, arrow.Field, error) {
	exact, err := f.Arrow(schema.Descriptor)
	if err != nil {
		return nil, exact, err
	}
	carried, err := newCarrier(exact)
	if err != nil {
		return nil, exact, err
	}
	t, err := engine.TypeOf(carried.field)
	return t, exact, err
}

// filling is the type in which a column of type given fills one of type t: t
// itself, but blobs that are no references come as bytes.
func filling(t, given *engine.Type) *engine.Type {
	if t.IsReference() {
		switch given.ID {
		case engine.TypeInteger, engine.TypeNull: // what NULL is; others are refused by the cast
			return t
		}
		if given.IsReference() {
			return t
		}
		return &engine.Type{ID: engine.TypeBlob}
	}
	if !t.HasReference() {
		return t
	}
	out := *t
	out.Children = make([]engine.Field, len(t.Children))
	for i, c := range t.Children {
		from := &engine.Type{}
		for k, g := range given.Children {
			if t.ID == engine.TypeStruct && strings.EqualFold(g.Name, c.Name) || t.ID != engine.TypeStruct && k == i {
				from = g.Type
			}
		}
		out.Children[i] = engine.Field{Name: c.Name, Type: filling(c.Type, from)}
	}
	return &out
}

// typeText writes a type as SQL.
func typeText(t *engine.Type) string {
	if t.IsReference() {
		return t.Alias
	}
	switch t.ID {
	case engine.TypeList:
		return typeText(t.Children[0].Type) + "[]"
	case engine.TypeArray:
		return fmt.Sprintf("%s[%d]", typeText(t.Children[0].Type), t.Size)
	case engine.TypeMap:
		return "MAP(" + typeText(t.Children[0].Type) + ", " + typeText(t.Children[1].Type) + ")"
	case engine.TypeStruct:
		parts := make([]string, len(t.Children))
		for i, f := range t.Children {
			parts[i] = engine.Quote(f.Name) + " " + typeText(f.Type)
		}
		return "STRUCT(" + strings.Join(parts, ", ") + ")"
	}
	return t.String()
}

// intoField is what a column of type t is conformed to: the exact field, with
// references or bytes in the place of blobs.
func intoField(f arrow.Field, t *engine.Type) arrow.Field {
	if d, ok := f.Type.(*arrow.DictionaryType); ok {
		f.Type = d.ValueType
	}
	if isBlob(f) {
		if t.IsReference() {
			f.Type = materialize.ReferenceType
			return f
		}
		return arrow.Field{Name: f.Name, Type: arrow.BinaryTypes.LargeBinary, Nullable: true}
	}
	child := func(i int) *engine.Type {
		if i < len(t.Children) {
			return t.Children[i].Type
		}
		return &engine.Type{}
	}
	switch dt := f.Type.(type) {
	case *arrow.StructType:
		fields := dt.Fields()
		for i := range fields {
			fields[i] = intoField(fields[i], child(i))
		}
		f.Type = arrow.StructOf(fields...)
	case *arrow.ListType:
		f.Type = arrow.ListOfField(intoField(dt.ElemField(), child(0)))
	case *arrow.LargeListType:
		f.Type = arrow.LargeListOfField(intoField(dt.ElemField(), child(0)))
	case *arrow.FixedSizeListType:
		f.Type = arrow.FixedSizeListOfField(dt.Len(), intoField(dt.ElemField(), child(0)))
	case *arrow.MapType:
		key := intoField(dt.KeyField(), child(0))
		key.Nullable = false
		f.Type = arrow.MapOfFields(key, intoField(dt.ItemField(), child(1)))
	}
	return f
}

// directRows gives bound rows the names of the fields that they fill. The caller
// releases the batch.
func directRows(params arrow.RecordBatch, fields []*schema.Field, at []int) arrow.RecordBatch {
	columns := make([]arrow.Array, len(at))
	named := make([]arrow.Field, len(at))
	for i, p := range at {
		columns[i] = params.Column(p)
		named[i] = arrow.Field{Name: fields[i].Name, Type: columns[i].DataType(), Nullable: true}
	}
	return array.NewRecordBatch(arrow.NewSchema(named, nil), columns, params.NumRows())
}

// resultColumns are those of the query: the fields that they fill, or the
// engine's own where there are none yet.
func (q *intoQuery) resultColumns(raw *arrow.Schema, types []engine.Field) ([]resultColumn, error) {
	if q.columns == nil {
		return resultColumns(raw, types, outputs{})
	}
	out := make([]resultColumn, len(q.columns))
	for i, f := range q.columns {
		out[i].reference = f
	}
	return out, nil
}

// ofInterval is the expression that makes an interval fill a column of durations,
// "" where none is needed. The engine hands over the part of an interval below a
// day in nanoseconds of 64 bits, which 293 years overflow; so that part is kept
// below a day. Durations in nanoseconds are whole numbers to the engine.
func ofInterval(name string, to arrow.DataType, given *engine.Type) string {
	duration, ok := to.(*arrow.DurationType)
	if !ok || given.ID != engine.TypeInterval && (duration.Unit == arrow.Nanosecond || !given.Unknown()) {
		return ""
	}
	i := "CAST(" + name + " AS INTERVAL)"
	months := fmt.Sprintf("(datepart('year', %s) * 12 + datepart('month', %[1]s))", i)
	days := fmt.Sprintf("datepart('day', %s)", i)
	below := fmt.Sprintf("(datepart('hour', %s) * 3600000000 + datepart('minute', %[1]s) * 60000000 + datepart('microsecond', %[1]s))", i)
	if duration.Unit == arrow.Nanosecond {
		return fmt.Sprintf("CASE WHEN %s <> 0 THEN error('an interval of months has no fixed length; a duration takes days and less') "+
			"ELSE CAST(%s::HUGEINT * 86400000000000 + %s::HUGEINT * 1000 AS BIGINT) END", months, days, below)
	}
	return fmt.Sprintf("to_months(CAST(%s AS INTEGER)) + to_days(CAST(%s + %s // 86400000000 AS INTEGER)) + to_microseconds(%[3]s %% 86400000000)",
		months, days, below)
}
