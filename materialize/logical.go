package materialize

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// LogicalType is the complete logical shape, which results always have.
var LogicalType = arrow.StructOf(
	arrow.Field{Name: "data", Type: arrow.BinaryTypes.LargeBinary, Nullable: true},
	arrow.Field{Name: "uri", Type: arrow.BinaryTypes.String, Nullable: true},
	arrow.Field{Name: "position", Type: arrow.PrimitiveTypes.Uint64, Nullable: true},
	arrow.Field{Name: "size", Type: arrow.PrimitiveTypes.Uint64, Nullable: true},
)

// logical builds the struct array of a leaf: External values as absolute
// references, with a null range for a whole object, all others as bytes. It
// takes over the caller's reference of data.
func logical(mem memory.Allocator, dt *arrow.StructType, values []value, data *memory.Buffer, shown func(*value) bool) arrow.ArrayData {
	uri := array.NewStringBuilder(mem)
	defer uri.Release()
	position, size := array.NewUint64Builder(mem), array.NewUint64Builder(mem)
	defer position.Release()
	defer size.Release()
	for i := range values {
		v := &values[i]
		if v.state != stateReference {
			uri.AppendNull()
			position.AppendNull()
			size.AppendNull()
			continue
		}
		uri.Append(v.uri)
		if v.ext.Whole {
			position.AppendNull()
			size.AppendNull()
			continue
		}
		position.Append(v.ext.Offset)
		size.Append(v.ext.Length)
	}
	children := []arrow.ArrayData{
		binary(mem, dt.Field(0).Type, values, data, func(v *value) bool { return v.state == stateBytes }),
		finished(uri), finished(position), finished(size),
	}
	validity, nulls := bitmap(mem, values, shown)
	if validity != nil {
		defer validity.Release()
	}
	for _, c := range children {
		defer c.Release()
	}
	return array.NewData(dt, len(values), []*memory.Buffer{validity}, children, nulls, 0)
}

// finished takes the array data out of a builder.
func finished(b array.Builder) arrow.ArrayData {
	arr := b.NewArray()
	defer arr.Release()
	data := arr.Data()
	data.Retain()
	return data
}
