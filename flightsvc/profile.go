package flightsvc

import (
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/internal/half"
)

// The bi profile shows every column in types that JDBC and ODBC tools read:
//
//	uint8, uint16, uint32   int16, int32, int64
//	uint64                  int64; a larger value is an error
//	float16                 float32
//	dictionary              its values
//	string_view             utf8 (large_utf8 past 2 GiB is never needed: batches are cut)
//	binary_view             binary
//
// at any depth. Values of other types are passed on unread.

// biSchema is the schema that the profile shows.
func biSchema(s *arrow.Schema) *arrow.Schema {
	fields := make([]arrow.Field, s.NumFields())
	for i, f := range s.Fields() {
		fields[i] = biField(f)
	}
	m := s.Metadata()
	return arrow.NewSchema(fields, &m)
}

// biField converts a field. An extension's mark goes when its storage changes:
// clients that know the extension would refuse it.
func biField(f arrow.Field) arrow.Field {
	shown := biType(f.Type)
	if shown != f.Type && !arrow.TypeEqual(shown, f.Type) {
		f.Metadata = unmarked(f.Metadata)
	}
	f.Type = shown
	return f
}

func unmarked(m arrow.Metadata) arrow.Metadata {
	var keys, values []string
	for i, k := range m.Keys() {
		if k != ipc.ExtensionTypeKeyName && k != ipc.ExtensionMetadataKeyName {
			keys, values = append(keys, k), append(values, m.Values()[i])
		}
	}
	return arrow.NewMetadata(keys, values)
}

func biType(t arrow.DataType) arrow.DataType {
	switch t := t.(type) {
	case *arrow.Uint8Type:
		return arrow.PrimitiveTypes.Int16
	case *arrow.Uint16Type:
		return arrow.PrimitiveTypes.Int32
	case *arrow.Uint32Type, *arrow.Uint64Type:
		return arrow.PrimitiveTypes.Int64
	case *arrow.Float16Type:
		return arrow.PrimitiveTypes.Float32
	case *arrow.StringViewType:
		return arrow.BinaryTypes.String
	case *arrow.BinaryViewType:
		return arrow.BinaryTypes.Binary
	case *arrow.DictionaryType:
		return biType(t.ValueType)
	case *arrow.StructType:
		fields := make([]arrow.Field, t.NumFields())
		for i, f := range t.Fields() {
			fields[i] = biField(f)
		}
		return arrow.StructOf(fields...)
	case *arrow.MapType:
		m := arrow.MapOfFields(biField(t.KeyField()), biField(t.ItemField()))
		m.KeysSorted = t.KeysSorted
		return m
	case *arrow.ListType:
		return arrow.ListOfField(biField(t.ElemField()))
	case *arrow.LargeListType:
		return arrow.LargeListOfField(biField(t.ElemField()))
	case *arrow.FixedSizeListType:
		return arrow.FixedSizeListOfField(t.Len(), biField(t.ElemField()))
	}
	return t
}

// biBatch converts a batch to a schema of biSchema. The caller releases the
// result.
func biBatch(b arrow.RecordBatch, to *arrow.Schema, mem memory.Allocator) (arrow.RecordBatch, error) {
	columns := make([]arrow.Array, 0, b.NumCols())
	defer func() {
		for _, c := range columns {
			c.Release()
		}
	}()
	for i, c := range b.Columns() {
		data, err := biData(c.Data(), to.Field(i).Type, mem)
		if err != nil {
			return nil, fmt.Errorf("flightsvc: column %s: %w", quote(b.ColumnName(i)), err)
		}
		columns = append(columns, array.MakeFromData(data))
		data.Release()
	}
	return array.NewRecordBatch(to, columns, b.NumRows()), nil
}

// biData converts one array to the profile's type of it. Structure that stays
// is shared.
func biData(d arrow.ArrayData, to arrow.DataType, mem memory.Allocator) (arrow.ArrayData, error) {
	if arrow.TypeEqual(d.DataType(), to, arrow.CheckMetadata()) {
		d.Retain()
		return d, nil
	}
	switch from := d.DataType().(type) {
	case *arrow.StructType, *arrow.MapType, *arrow.ListType, *arrow.LargeListType, *arrow.FixedSizeListType:
		return biNested(d, to, mem)
	case *arrow.DictionaryType:
		return biDictionary(d, from, to, mem)
	case *arrow.StringViewType, *arrow.BinaryViewType:
		a := array.MakeFromData(d)
		defer a.Release()
		return biViews(a.(array.ViewLike), to, mem)
	}
	a := array.MakeFromData(d)
	defer a.Release()
	switch a := a.(type) {
	case *array.Uint8:
		return widen(a.Uint8Values(), a, to, mem, func(v uint8) int16 { return int16(v) }), nil
	case *array.Uint16:
		return widen(a.Uint16Values(), a, to, mem, func(v uint16) int32 { return int32(v) }), nil
	case *array.Uint32:
		return widen(a.Uint32Values(), a, to, mem, func(v uint32) int64 { return int64(v) }), nil
	case *array.Uint64:
		for i, v := range a.Uint64Values() {
			if v > math.MaxInt64 && a.IsValid(i) {
				return nil, fault.New(fault.Invalid, "%d does not fit the bi profile's signed 64 bits; read without header %s", v, headerProfile)
			}
		}
		return widen(a.Uint64Values(), a, to, mem, func(v uint64) int64 { return int64(v) }), nil
	case *array.Float16:
		out := make([]float32, a.Len())
		for i := range out {
			out[i] = half.Float32(a.Value(i))
		}
		return fixed(arrow.Float32Traits.CastToBytes(out), a, to, mem), nil
	}
	return nil, fault.New(fault.Internal, "flightsvc: no bi profile of %s", d.DataType())
}

func biNested(d arrow.ArrayData, to arrow.DataType, mem memory.Allocator) (arrow.ArrayData, error) {
	types := childTypes(to)
	children := make([]arrow.ArrayData, 0, len(types))
	defer func() {
		for _, c := range children {
			c.Release()
		}
	}()
	for i, c := range d.Children() {
		child, err := biData(c, types[i], mem)
		if err != nil {
			return nil, err
		}
		children = append(children, child)
	}
	return array.NewData(to, d.Len(), d.Buffers(), children, d.NullN(), d.Offset()), nil
}

func childTypes(t arrow.DataType) []arrow.DataType {
	switch t := t.(type) {
	case *arrow.StructType:
		types := make([]arrow.DataType, t.NumFields())
		for i, f := range t.Fields() {
			types[i] = f.Type
		}
		return types
	case *arrow.MapType:
		return []arrow.DataType{t.Elem()}
	case arrow.ListLikeType:
		return []arrow.DataType{t.Elem()}
	}
	return nil
}

// biDictionary puts the values in the place of their indices.
func biDictionary(d arrow.ArrayData, from *arrow.DictionaryType, to arrow.DataType, mem memory.Allocator) (arrow.ArrayData, error) {
	a := array.NewDictionaryData(d)
	defer a.Release()
	values, err := biData(a.Dictionary().Data(), to, mem)
	if err != nil {
		return nil, err
	}
	defer values.Release()
	dict := array.MakeFromData(values)
	defer dict.Release()

	out := array.NewBuilder(mem, to)
	defer out.Release()
	out.Reserve(a.Len())
	for i := range a.Len() {
		if a.IsNull(i) {
			out.AppendNull()
			continue
		}
		at := a.GetValueIndex(i)
		if at < 0 || at >= dict.Len() {
			return nil, fault.New(fault.Corrupt, "row %d names dictionary value %d of %d", i, at, dict.Len())
		}
		if err := appendValue(out, dict, at); err != nil {
			return nil, err
		}
	}
	result := out.NewArray()
	defer result.Release()
	result.Data().Retain()
	return result.Data(), nil
}

// appendValue copies one value between arrays of one type.
func appendValue(out array.Builder, from arrow.Array, at int) error {
	if from.IsNull(at) {
		out.AppendNull()
		return nil
	}
	switch from := from.(type) {
	case *array.String:
		out.(*array.StringBuilder).Append(from.Value(at))
	case *array.LargeString:
		out.(*array.LargeStringBuilder).Append(from.Value(at))
	case *array.Binary:
		out.(*array.BinaryBuilder).Append(from.Value(at))
	case *array.LargeBinary:
		out.(*array.BinaryBuilder).Append(from.Value(at))
	default:
		return out.AppendValueFromString(from.ValueStr(at))
	}
	return nil
}

func biViews(a array.ViewLike, to arrow.DataType, mem memory.Allocator) (arrow.ArrayData, error) {
	b := array.NewBuilder(mem, to)
	defer b.Release()
	b.Reserve(a.Len())
	for i := range a.Len() {
		switch v := a.(type) {
		case *array.StringView:
			sb := b.(*array.StringBuilder)
			if v.IsNull(i) {
				sb.AppendNull()
			} else {
				sb.Append(v.Value(i))
			}
		case *array.BinaryView:
			bb := b.(*array.BinaryBuilder)
			if v.IsNull(i) {
				bb.AppendNull()
			} else {
				bb.Append(v.Value(i))
			}
		}
	}
	result := b.NewArray()
	defer result.Release()
	result.Data().Retain()
	return result.Data(), nil
}

// widen converts fixed-width values one by one, null slots included.
func widen[F any, T int16 | int32 | int64](values []F, a arrow.Array, to arrow.DataType, mem memory.Allocator, convert func(F) T) arrow.ArrayData {
	out := make([]T, len(values))
	for i, v := range values {
		out[i] = convert(v)
	}
	return fixed(arrow.GetBytes(out), a, to, mem)
}

// fixed makes an array of values that start at row 0 with the nulls of a.
func fixed(values []byte, a arrow.Array, to arrow.DataType, mem memory.Allocator) arrow.ArrayData {
	var validity *memory.Buffer
	if a.NullN() > 0 {
		validity = memory.NewResizableBuffer(mem)
		validity.Resize(int(bitutil.BytesForBits(int64(a.Len()))))
		clear(validity.Bytes())
		bitutil.CopyBitmap(a.NullBitmapBytes(), a.Data().Offset(), a.Len(), validity.Bytes(), 0)
		defer validity.Release()
	}
	return array.NewData(to, a.Len(), []*memory.Buffer{validity, memory.NewBufferBytes(values)}, nil, a.NullN(), 0)
}
