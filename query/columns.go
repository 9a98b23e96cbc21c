package query

import (
	"github.com/apache/arrow-go/v18/arrow"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/materialize"
	"github.com/flightblob/flightblob/query/engine"
	"github.com/flightblob/flightblob/schema"
)

// resultColumn is one column of a result.
type resultColumn struct {
	// reference is what batches are conformed to: blob leaves are references.
	reference arrow.Field
	// passed is the table's field that the column is, nil for a computed one.
	passed *passed
	// late is set when the engine has only the positions of the values.
	late *lateColumn
}

// resultColumns decides the types of a result: raw is the engine's own schema,
// found the columns that pass through unchanged.
func resultColumns(raw *arrow.Schema, types []engine.Field, found outputs) ([]resultColumn, error) {
	if len(types) != raw.NumFields() {
		return nil, fault.New(fault.Internal, "query: %d types for %d columns", len(types), raw.NumFields())
	}
	columns := make([]resultColumn, len(types))
	for i, t := range types {
		c := &columns[i]
		c.reference = publicField(raw.Field(i), t.Type)
		c.reference.Name = t.Name
		if !found.known || len(found.columns) != len(types) || found.columns[i] == nil {
			continue
		}
		p := found.columns[i]
		exact, err := p.field.Arrow(schema.Descriptor)
		if err != nil {
			return nil, err
		}
		carried, err := newCarrier(exact)
		if err != nil {
			return nil, err
		}
		// The plan was read by numbers; the types must bear it out.
		if !sameType(carried.field, t.Type) {
			continue
		}
		c.passed = p
		c.reference = referenceField(exact)
		c.reference.Name = t.Name
		c.reference.Nullable = c.reference.Nullable || p.nullable
	}
	return columns, nil
}

// sameType compares a field as it enters the engine with a type of the engine.
func sameType(f arrow.Field, t *engine.Type) bool {
	entered, err := engine.TypeOf(f)
	return err == nil && entered.String() == t.String()
}

// schemaOf is the schema of a result with blobs in a face.
func schemaOf(columns []resultColumn, view schema.View) (*arrow.Schema, error) {
	fields := make([]arrow.Field, len(columns))
	for i, c := range columns {
		if c.passed == nil {
			fields[i] = facedField(c.reference, view)
			continue
		}
		exact, err := c.passed.field.Arrow(view)
		if err != nil {
			return nil, err
		}
		exact = plainField(exact)
		exact.Name, exact.Nullable = c.reference.Name, c.reference.Nullable
		fields[i] = exact
	}
	return arrow.NewSchema(fields, nil), nil
}

// mapField rebuilds a field with another function for its leaves; change gives
// the new field and whether it is final.
func mapField(f arrow.Field, change func(arrow.Field) (arrow.Field, bool)) arrow.Field {
	f, done := change(f)
	if done {
		return f
	}
	switch dt := f.Type.(type) {
	case *arrow.StructType:
		fields := dt.Fields()
		for i := range fields {
			fields[i] = mapField(fields[i], change)
		}
		f.Type = arrow.StructOf(fields...)
	case *arrow.ListType:
		f.Type = arrow.ListOfField(mapField(dt.ElemField(), change))
	case *arrow.LargeListType:
		f.Type = arrow.LargeListOfField(mapField(dt.ElemField(), change))
	case *arrow.FixedSizeListType:
		f.Type = arrow.FixedSizeListOfField(dt.Len(), mapField(dt.ElemField(), change))
	case *arrow.MapType:
		f.Type = arrow.MapOfFields(mapField(dt.KeyField(), change), mapField(dt.ItemField(), change))
	}
	return f
}

// plainField shows dictionaries as their values.
func plainField(f arrow.Field) arrow.Field {
	return mapField(f, func(f arrow.Field) (arrow.Field, bool) {
		if d, ok := f.Type.(*arrow.DictionaryType); ok {
			f.Type = d.ValueType
		}
		return f, false
	})
}

// referenceField turns blob leaves of a descriptor schema into references.
func referenceField(f arrow.Field) arrow.Field {
	return mapField(plainField(f), func(f arrow.Field) (arrow.Field, bool) {
		if !isBlob(f) {
			return f, false
		}
		f.Type = materialize.ReferenceType
		return f, true
	})
}

// blobMetadata marks a computed blob leaf.
var blobMetadata = arrow.NewMetadata([]string{schema.KeyBlob, schema.KeyPacked}, []string{"true", "true"})

// facedField turns the reference leaves of a computed column into a face.
func facedField(f arrow.Field, view schema.View) arrow.Field {
	return mapField(f, func(f arrow.Field) (arrow.Field, bool) {
		if !isReferenceLeaf(f) {
			return f, false
		}
		switch view {
		case schema.Descriptor:
			f.Type = schema.DescriptorType
		case schema.Logical:
			f.Type = materialize.LogicalType
			f.Metadata = arrow.NewMetadata([]string{schema.KeyExtensionName}, []string{schema.ExtensionBlobV2})
		default:
			f.Type, f.Metadata = arrow.BinaryTypes.LargeBinary, arrow.Metadata{}
		}
		return f, true
	})
}

// unsignedWide is the type of whole numbers of 128 bits without sign: no other
// column of a result has it, as decimals beyond 38 digits are text to the engine.
var unsignedWide = &arrow.Decimal256Type{Precision: 39}

// publicField is the field of a computed column: the engine's type with 32-bit
// offsets, ENUM as text, references as leaves.
func publicField(f arrow.Field, t *engine.Type) arrow.Field {
	f.Nullable, f.Metadata = true, arrow.Metadata{}
	if t.IsReference() {
		f.Type, f.Metadata = materialize.ReferenceType, blobMetadata
		return f
	}
	child := func(i int) *engine.Type {
		if i < len(t.Children) {
			return t.Children[i].Type
		}
		return &engine.Type{}
	}
	switch dt := f.Type.(type) {
	case *arrow.LargeStringType, *arrow.DictionaryType:
		f.Type = arrow.BinaryTypes.String
	case *arrow.Decimal128Type:
		if t.ID == engine.TypeUHugeInt { // whose bits the engine gives as those of a signed number
			f.Type = unsignedWide
		}
	case *arrow.TimestampType:
		if dt.TimeZone != "" {
			f.Type = &arrow.TimestampType{Unit: dt.Unit, TimeZone: "UTC"}
		}
	case *arrow.LargeListType:
		f.Type = arrow.ListOfField(itemField(dt.ElemField(), child(0)))
	case *arrow.ListType:
		f.Type = arrow.ListOfField(itemField(dt.ElemField(), child(0)))
	case *arrow.FixedSizeListType:
		if t.HasReference() { // blobs lie below structs and lists only
			f.Type = arrow.ListOfField(itemField(dt.ElemField(), child(0)))
			break
		}
		f.Type = arrow.FixedSizeListOfField(dt.Len(), itemField(dt.ElemField(), child(0)))
	case *arrow.MapType:
		key := publicField(dt.KeyField(), child(0))
		key.Nullable = false
		value := publicField(dt.ItemField(), child(1))
		f.Type = arrow.MapOfFields(key, value)
		if t.HasReference() {
			f.Type = arrow.ListOfField(arrow.Field{Name: "entries", Type: arrow.StructOf(key, value)})
		}
	case *arrow.StructType:
		fields := dt.Fields()
		for i := range fields {
			fields[i] = publicField(fields[i], child(i))
		}
		f.Type = arrow.StructOf(fields...)
	}
	return f
}

func itemField(f arrow.Field, t *engine.Type) arrow.Field {
	f = publicField(f, t)
	f.Name = "item"
	return f
}

// leavesOf counts reference leaves.
func leavesOf(f arrow.Field) int {
	n := 0
	mapField(f, func(f arrow.Field) (arrow.Field, bool) {
		if isReferenceLeaf(f) {
			n++
			return f, true
		}
		return f, false
	})
	return n
}
