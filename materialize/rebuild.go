package materialize

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/flightblob/flightblob/internal/fault"
)

// rebuild makes the slots [from, to) of a source array with new blob leaves in
// it: same structure, validity, boundaries and order (MAT-1). Fields without
// blobs below are slices of the source. leaves holds the array of each blob
// leaf for exactly the elements in range. The caller releases the result.
func rebuild(mem memory.Allocator, n *node, arr arrow.Array, from, to int, leaves []arrow.ArrayData) (arrow.ArrayData, error) {
	if n == nil {
		return array.NewSliceData(arr.Data(), int64(from), int64(to)), nil
	}
	if n.leaf >= 0 {
		leaf := leaves[n.leaf]
		if leaf.Len() != to-from {
			return nil, fault.New(fault.Internal, "materialize: %s has %d values for %d slots", n.out.Name, leaf.Len(), to-from)
		}
		leaf.Retain()
		return leaf, nil
	}
	validity, nulls := sliceValidity(mem, arr, from, to)
	if validity != nil {
		defer validity.Release()
	}
	switch a := arr.(type) {
	case *array.Struct:
		children := make([]arrow.ArrayData, 0, a.NumField())
		defer func() {
			for _, c := range children {
				c.Release()
			}
		}()
		for i := range a.NumField() {
			c, err := rebuild(mem, n.children[i], a.Field(i), from, to, leaves)
			if err != nil {
				return nil, err
			}
			children = append(children, c)
		}
		return array.NewData(n.out.Type, to-from, []*memory.Buffer{validity}, children, nulls, 0), nil
	case *array.List:
		offsets, first, last := rebase(mem, window(a.Offsets(), a), from, to, arrow.Int32Traits.CastFromBytes)
		defer offsets.Release()
		return rebuildList(mem, n, a.ListValues(), first, last, to-from, []*memory.Buffer{validity, offsets}, nulls, leaves)
	case *array.LargeList:
		offsets, first, last := rebase(mem, window(a.Offsets(), a), from, to, arrow.Int64Traits.CastFromBytes)
		defer offsets.Release()
		return rebuildList(mem, n, a.ListValues(), first, last, to-from, []*memory.Buffer{validity, offsets}, nulls, leaves)
	}
	return nil, fault.New(fault.Internal, "materialize: %s is %T", n.out.Name, arr)
}

func rebuildList(mem memory.Allocator, n *node, values arrow.Array, first, last, length int, buffers []*memory.Buffer, nulls int, leaves []arrow.ArrayData) (arrow.ArrayData, error) {
	child, err := rebuild(mem, n.children[0], values, first, last, leaves)
	if err != nil {
		return nil, err
	}
	defer child.Release()
	return array.NewData(n.out.Type, length, buffers, []arrow.ArrayData{child}, nulls, 0), nil
}

// rebase copies the list offsets of slots [from, to), counted from the first
// element in range, and gives the range of elements. The elements of null
// lists stay where they are.
func rebase[T int32 | int64](mem memory.Allocator, offsets []T, from, to int, cast func([]byte) []T) (buf *memory.Buffer, first, last int) {
	buf = memory.NewResizableBuffer(mem)
	var zero T
	buf.Resize((to - from + 1) * sizeOf(zero))
	out := cast(buf.Bytes())
	for i := range out {
		out[i] = offsets[from+i] - offsets[from]
	}
	return buf, int(offsets[from]), int(offsets[to])
}

func sizeOf[T int32 | int64](v T) int {
	if _, wide := any(v).(int64); wide {
		return arrow.Int64SizeBytes
	}
	return arrow.Int32SizeBytes
}

// sliceValidity copies the validity bits of slots [from, to) to offset 0; nil
// when all are valid.
func sliceValidity(mem memory.Allocator, arr arrow.Array, from, to int) (*memory.Buffer, int) {
	if arr.NullN() == 0 || len(arr.NullBitmapBytes()) == 0 {
		return nil, 0
	}
	start, length := arr.Data().Offset()+from, to-from
	nulls := length - bitutil.CountSetBits(arr.NullBitmapBytes(), start, length)
	if nulls == 0 {
		return nil, 0
	}
	buf := memory.NewResizableBuffer(mem)
	buf.Resize(int(bitutil.BytesForBits(int64(length))))
	clear(buf.Bytes())
	bitutil.CopyBitmap(arr.NullBitmapBytes(), start, length, buf.Bytes(), 0)
	return buf, nulls
}
