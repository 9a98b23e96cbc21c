package encoding

import (
	"math"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/schema"
)

// Assemble builds the nested array of a field over rows top-level rows from the
// leaves of its subtree. leaf answers nil for a leaf that no file holds: it
// reads as null. Structure is taken from any leaf that is present, and must
// agree among siblings. The field may itself lie inside structs; then the
// result is the flat column of it, null where a parent is null.
//
// Blob leaves come out as descriptor structs.
func Assemble(field *schema.Field, leaf func(*schema.Field) *Leaf, rows int) (arrow.Array, error) {
	a := &assembler{leaf: leaf}
	depth := len(field.Path()) - 1
	data, err := a.build(field, depth, rows)
	if err != nil {
		return nil, err
	}
	defer data.Release()
	if depth > 0 {
		if masked, err := a.maskParents(field, depth, data); err != nil {
			return nil, err
		} else if masked != nil {
			defer masked.Release()
			return array.MakeFromData(masked), nil
		}
	}
	return array.MakeFromData(data), nil
}

type assembler struct {
	leaf func(*schema.Field) *Leaf
}

// any finds a present leaf of a subtree, to take structure from.
func (a *assembler) any(f *schema.Field) *Leaf {
	if f.Shape == schema.Leaf {
		return a.leaf(f)
	}
	for _, c := range f.Children {
		if l := a.any(c); l != nil {
			return l
		}
	}
	return nil
}

// build makes the array data of f, which has n slots; depth is the index of f
// in its path and so of its layer in the leaves below it.
func (a *assembler) build(f *schema.Field, depth, n int) (arrow.ArrayData, error) {
	l := a.any(f)
	if l == nil {
		return nullData(f, n)
	}
	layer, err := a.layer(f, l, depth)
	if err != nil {
		return nil, err
	}
	if layer.Slots != n {
		return nil, fault.Corruptf(-1, "encoding: field %q has %d slots, its parent %d", f.Name, layer.Slots, n)
	}
	if f.Shape == schema.Leaf {
		data := l.Values.Data()
		data.Retain()
		return data, nil
	}
	typ, err := DescriptorArrowType(f)
	if err != nil {
		return nil, err
	}
	valid := bitmapBuffer(layer)
	switch f.Shape {
	case schema.Struct:
		kids := make([]arrow.ArrayData, len(f.Children))
		defer release(kids)
		for i, c := range f.Children {
			if kids[i], err = a.build(c, depth+1, n); err != nil {
				return nil, err
			}
		}
		return array.NewData(typ, n, []*memory.Buffer{valid}, kids, layer.Nulls, 0), nil
	case schema.List, schema.Map, schema.LargeList:
		items := layer.Offsets[n]
		offsets, err := offsetBuffer(f, layer.Offsets)
		if err != nil {
			return nil, err
		}
		kid, err := a.build(f.Children[0], depth+1, int(items))
		if err != nil {
			return nil, err
		}
		defer kid.Release()
		return array.NewData(typ, n, []*memory.Buffer{valid, offsets}, []arrow.ArrayData{kid}, layer.Nulls, 0), nil
	default:
		kid, err := a.build(f.Children[0], depth+1, n*f.Dimension)
		if err != nil {
			return nil, err
		}
		defer kid.Release()
		return array.NewData(typ, n, []*memory.Buffer{valid}, []arrow.ArrayData{kid}, layer.Nulls, 0), nil
	}
}

func release(data []arrow.ArrayData) {
	for _, d := range data {
		if d != nil {
			d.Release()
		}
	}
}

// layer takes f's layer from one leaf and checks that every other leaf below f
// tells the same: damage in one sibling must not shift rows against another.
func (a *assembler) layer(f *schema.Field, l *Leaf, depth int) (*Layer, error) {
	if depth >= len(l.Layers) {
		return nil, fault.New(fault.Internal, "encoding: leaf with %d layers for a field %d deep", len(l.Layers), depth)
	}
	layer := &l.Layers[depth]
	if f.Shape == schema.Leaf || len(f.Children) < 2 && f.Shape == schema.Struct {
		return layer, nil
	}
	var err error
	a.each(f, func(o *Leaf) {
		if o == l || err != nil {
			return
		}
		switch other := &o.Layers[depth]; {
		case other.Slots != layer.Slots || other.Nulls != layer.Nulls:
			err = fault.Corruptf(-1, "encoding: children of %q disagree: %d slots with %d nulls, and %d with %d",
				f.Name, layer.Slots, layer.Nulls, other.Slots, other.Nulls)
		case !slices.Equal(other.Offsets, layer.Offsets):
			err = fault.Corruptf(-1, "encoding: children of list %q disagree about its borders", f.Name)
		}
	})
	return layer, err
}

func (a *assembler) each(f *schema.Field, do func(*Leaf)) {
	if f.Shape == schema.Leaf {
		if l := a.leaf(f); l != nil {
			do(l)
		}
		return
	}
	for _, c := range f.Children {
		a.each(c, do)
	}
}

// maskParents makes a field inside structs null where a parent is null. It
// answers nil when nothing changes.
func (a *assembler) maskParents(f *schema.Field, depth int, data arrow.ArrayData) (arrow.ArrayData, error) {
	l := a.any(f)
	if l == nil || f.Shape == schema.Leaf && f.Storage.ID() == arrow.NULL {
		return nil, nil
	}
	n := data.Len()
	own := &l.Layers[depth]
	var valid []byte
	for d := range depth {
		p := &l.Layers[d]
		if p.Kind != ItemLayer {
			return nil, fault.New(fault.Internal, "encoding: flat column of %q below a list", f.Name)
		}
		if p.Nulls == 0 {
			continue
		}
		if valid == nil {
			valid = appendOnes(nil, 0, n)
			if own.Validity != nil {
				copy(valid, own.Validity)
			}
		}
		for i := range valid {
			valid[i] &= p.Validity[i]
		}
	}
	if valid == nil {
		return nil, nil
	}
	nulls := n - countBits(valid, 0, n)
	buffers := slices.Clone(data.Buffers())
	buffers[0] = memory.NewBufferBytes(valid)
	// Data without a dictionary answers a nil one in a non-nil interface.
	if dict, ok := data.Dictionary().(*array.Data); ok && dict != nil {
		return array.NewDataWithDictionary(data.DataType(), n, buffers, nulls, data.Offset(), dict), nil
	}
	return array.NewData(data.DataType(), n, buffers, data.Children(), nulls, data.Offset()), nil
}

func bitmapBuffer(l *Layer) *memory.Buffer {
	if l.Nulls == 0 {
		return nil
	}
	return memory.NewBufferBytes(l.Validity)
}

func offsetBuffer(f *schema.Field, offsets []int64) (*memory.Buffer, error) {
	if f.Shape == schema.LargeList {
		return memory.NewBufferBytes(arrow.Int64Traits.CastToBytes(offsets)), nil
	}
	if last := offsets[len(offsets)-1]; last > math.MaxInt32 {
		return nil, fault.New(fault.Exhausted, "encoding: %d items of list %q in one read; ask for fewer rows", last, f.Name)
	}
	narrow := make([]int32, len(offsets))
	for i, o := range offsets {
		narrow[i] = int32(o)
	}
	return memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(narrow)), nil
}

// DescriptorArrowType is the Arrow type of a field with blobs as descriptors.
func DescriptorArrowType(f *schema.Field) (arrow.DataType, error) {
	if f.Shape == schema.Leaf {
		return f.Storage, nil
	}
	af, err := f.Arrow(schema.Descriptor)
	if err != nil {
		return nil, err
	}
	return af.Type, nil
}

// nullData makes n null slots of a field.
func nullData(f *schema.Field, n int) (arrow.ArrayData, error) {
	typ, err := DescriptorArrowType(f)
	if err != nil {
		return nil, err
	}
	if size := slotBytes(typ); int64(n) > maxVectorBytes/max(size, 1) {
		return nil, tooLarge(min(int64(n), maxVectorBytes) * size)
	}
	arr := array.MakeArrayOfNull(memory.DefaultAllocator, typ, n)
	defer arr.Release()
	data := arr.Data()
	data.Retain()
	return data, nil
}

// slotBytes is about what a null slot of a type takes, at most 2^32.
func slotBytes(t arrow.DataType) int64 {
	size := int64(8) // offsets and the like
	switch t := t.(type) {
	case *arrow.FixedSizeListType:
		size = int64(t.Len()) * slotBytes(t.Elem())
	case *arrow.StructType:
		size = 1
		for _, f := range t.Fields() {
			size += slotBytes(f.Type)
		}
	case arrow.FixedWidthDataType:
		size = int64(t.Bytes())
	}
	return min(size, 1<<32)
}
