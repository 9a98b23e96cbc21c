package schema

import (
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/flightblob/flightblob/internal/fault"
)

// Arrow gives the Arrow schema of all columns in a view, schema metadata
// included (MAT-2). Types, names, nullability and metadata are those that the
// reference's scans show, metadata keys in order of their bytes.
func (s *Schema) Arrow(v View) (*arrow.Schema, error) {
	fields := make([]arrow.Field, len(s.Fields))
	for i, f := range s.Fields {
		var err error
		if fields[i], err = f.Arrow(v); err != nil {
			return nil, err
		}
	}
	m := metadata(s.Metadata)
	return arrow.NewSchema(fields, &m), nil
}

// Arrow gives the Arrow field of f in a view. Fields without blobs look the
// same in all views; a blob field is replaced in place (MAT-1).
func (f *Field) Arrow(v View) (arrow.Field, error) {
	out := arrow.Field{Name: f.Name, Nullable: f.Nullable}
	if f.Blob != NotBlob {
		return f.blobView(out, v)
	}
	out.Metadata = f.arrowMetadata()
	var err error
	switch {
	case f.IsJSON():
		out.Type = arrow.BinaryTypes.String
	case f.Shape == Leaf && len(f.Children) == 0:
		out.Type = f.Storage
	default:
		out.Type, err = f.compose(func(c *Field) (arrow.Field, error) { return c.Arrow(v) })
	}
	return out, err
}

func (f *Field) arrowMetadata() arrow.Metadata {
	if f.IsJSON() && f.Metadata[KeyExtensionName] == extensionJSON {
		m := make(map[string]string, len(f.Metadata))
		for k, v := range f.Metadata {
			m[k] = v
		}
		m[KeyExtensionName] = extensionArrow
		return metadata(m)
	}
	return metadata(f.Metadata)
}

// compose builds the Arrow type of a field from those of its children.
func (f *Field) compose(child func(*Field) (arrow.Field, error)) (arrow.DataType, error) {
	fields := make([]arrow.Field, len(f.Children))
	for i, c := range f.Children {
		if f.Shape == Map { // the entries struct is part of the map type
			return composeMap(c, child)
		}
		var err error
		if fields[i], err = child(c); err != nil {
			return nil, err
		}
	}
	switch f.Shape {
	case Leaf, Struct:
		return arrow.StructOf(fields...), nil
	case List:
		return arrow.ListOfField(fields[0]), nil
	case LargeList:
		return arrow.LargeListOfField(fields[0]), nil
	case FixedSizeList:
		return arrow.FixedSizeListOfField(int32(f.Dimension), fields[0]), nil
	}
	return nil, fault.New(fault.Internal, "schema: field %s has no composed type", f.dotted())
}

// composeMap builds a map type; Arrow for Go names its parts entries, key and
// value whatever the field tree calls them.
func composeMap(entries *Field, child func(*Field) (arrow.Field, error)) (arrow.DataType, error) {
	key, err := child(entries.Children[0])
	if err != nil {
		return nil, err
	}
	value, err := child(entries.Children[1])
	if err != nil {
		return nil, err
	}
	return arrow.MapOfFields(key, value), nil
}

func (f *Field) blobView(out arrow.Field, v View) (arrow.Field, error) {
	switch v {
	case Materialized:
		out.Type = arrow.BinaryTypes.LargeBinary
		out.Metadata = metadata(f.Metadata, KeyExtensionName, KeyExtensionMetadata)
	case Descriptor:
		out.Type = DescriptorType
		out.Metadata = metadata(map[string]string{KeyBlob: "true", KeyPacked: "true"})
	case Logical:
		out.Type = f.logicalType()
		m := make(map[string]string, len(f.Metadata)+1)
		for k, v := range f.Metadata {
			m[k] = v
		}
		m[KeyExtensionName] = ExtensionBlobV2
		out.Metadata = metadata(m, KeyBlob)
	default:
		return out, fault.New(fault.Internal, "schema: unknown view %d", v)
	}
	return out, nil
}

// logicalType is the complete shape, whatever the manifest declares: results in
// it can hold ranges. Child metadata of the manifest is kept (SCH-4).
func (f *Field) logicalType() arrow.DataType {
	fields := make([]arrow.Field, len(blobShape))
	for i, c := range blobShape {
		fields[i] = arrow.Field{Name: c.name, Type: plainTypes[c.logical], Nullable: true}
		if f.Blob == BlobV2 && i < len(f.Children) && f.Children[i].Name == c.name {
			fields[i].Metadata = metadata(f.Children[i].Metadata)
		}
	}
	return arrow.StructOf(fields...)
}

// metadata turns a map into Arrow metadata with sorted keys, less some keys.
func metadata(m map[string]string, without ...string) arrow.Metadata {
	keys := make([]string, 0, len(m))
	for k := range m {
		if !slices.Contains(without, k) {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	values := make([]string, len(keys))
	for i, k := range keys {
		values[i] = m[k]
	}
	return arrow.NewMetadata(keys, values)
}
