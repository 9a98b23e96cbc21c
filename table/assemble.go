package table

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/flightblob/flightblob/encoding"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/schema"
)

// assemble builds a column from the leaves that were read; leaves that no file
// holds are nil.
func (f *fragment) assemble(index int, field *schema.Field, leaves []*encoding.Leaf, rows int) (arrow.Array, error) {
	plan := f.reader.plan
	stored := field.Stored()
	a, err := encoding.Assemble(stored, func(leaf *schema.Field) *encoding.Leaf {
		return leaves[plan.slot[leaf.ID]]
	}, rows)
	if err != nil {
		return nil, err
	}
	if stored != field {
		if a, err = packedChild(a, stored, field); err != nil {
			return nil, err
		}
	}
	if shown := plan.schema.Field(index).Type; !f.reader.isCoded(a, shown) {
		return conform(a, field, shown)
	}
	return a, nil
}

// packedChild takes a field out of the packed struct that it is stored in, null
// where a struct above it is.
func packedChild(a arrow.Array, from, to *schema.Field) (arrow.Array, error) {
	for _, step := range to.Path()[len(from.Path()):] {
		parent, ok := a.(*array.Struct)
		if !ok {
			return nil, fault.New(fault.Internal, "table: packed struct %q was read as %s", from.Name, a.DataType())
		}
		at, ok := a.DataType().(*arrow.StructType).FieldIdx(step.Name)
		if !ok || at >= parent.NumField() {
			return nil, fault.New(fault.Internal, "table: packed struct %q was read without %q", from.Name, step.Name)
		}
		a = under(parent, parent.Field(at))
	}
	return a, nil
}

// under gives a child of a struct as a column of its own: null where the struct
// is.
func under(parent *array.Struct, child arrow.Array) arrow.Array {
	if parent.NullN() == 0 || child.DataType().ID() == arrow.NULL {
		return child
	}
	data, n := child.Data(), child.Len()
	valid := make([]byte, bitutil.BytesForBits(int64(data.Offset()+n)))
	nulls := n
	for i := range n {
		if parent.IsValid(i) && child.IsValid(i) {
			bitutil.SetBit(valid, data.Offset()+i)
			nulls--
		}
	}
	buffers := append([]*memory.Buffer{memory.NewBufferBytes(valid)}, data.Buffers()[1:]...)
	if dict, ok := data.Dictionary().(*array.Data); ok && dict != nil {
		masked := array.NewDataWithDictionary(data.DataType(), n, buffers, nulls, data.Offset(), dict)
		defer masked.Release()
		return array.MakeFromData(masked)
	}
	masked := array.NewData(data.DataType(), n, buffers, data.Children(), nulls, data.Offset())
	defer masked.Release()
	return array.MakeFromData(masked)
}
