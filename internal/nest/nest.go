// Package nest takes nested Arrow arrays apart and puts them together around
// other children. Arrays may be slices; what is put together starts at offset
// 0. The arrays must be sound (package validate).
package nest

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Assemble builds an array over parts, which it takes over.
func Assemble(t arrow.DataType, n int, buffers []*memory.Buffer, children []arrow.Array, nulls int) arrow.Array {
	data := make([]arrow.ArrayData, len(children))
	for i, child := range children {
		data[i] = child.Data()
	}
	d := array.NewData(t, n, buffers, data, nulls, 0)
	for _, b := range buffers {
		if b != nil {
			b.Release()
		}
	}
	for _, child := range children {
		child.Release()
	}
	defer d.Release()
	return array.MakeFromData(d)
}

// Validity gives the validity bitmap of an array from its first value on: its
// own where that starts a byte, else a copy. It is nil when nothing is null.
func Validity(mem memory.Allocator, a arrow.Array) *memory.Buffer {
	d := a.Data()
	if a.NullN() == 0 || len(d.Buffers()) == 0 || d.Buffers()[0] == nil {
		return nil
	}
	bits := d.Buffers()[0]
	n := int(bitutil.BytesForBits(int64(d.Len())))
	if d.Offset()%8 == 0 {
		return memory.SliceBuffer(bits, d.Offset()/8, n)
	}
	out := memory.NewResizableBuffer(mem)
	out.Resize(n)
	bitutil.CopyBitmap(bits.Bytes(), d.Offset(), d.Len(), out.Bytes(), 0)
	return out
}

// Items gives the items that lists reach, those of null lists included, and
// the number of the first one among all. The caller releases them.
func Items(a array.ListLike) (items arrow.Array, first int64) {
	last := int64(0)
	if n := a.Len(); n > 0 {
		first, _ = a.ValueOffsets(0)
		_, last = a.ValueOffsets(n - 1)
	}
	return array.NewSlice(a.ListValues(), first, last), first
}

// Elements gives the elements of fixed-size lists; the caller releases them.
func Elements(a *array.FixedSizeList) arrow.Array {
	size := int64(a.DataType().(*arrow.FixedSizeListType).Len())
	start := int64(a.Data().Offset()) * size
	return array.NewSlice(a.ListValues(), start, start+int64(a.Len())*size)
}

// Holder finds the list that holds an item, numbered among all.
func Holder(a array.ListLike, item int64) int {
	low, high := 0, a.Len()-1
	for low < high {
		mid := (low + high) / 2
		if _, end := a.ValueOffsets(mid); end > item {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return low
}

// Offsets32 gives the offsets of lists from 0, in 32 bits, which must be enough.
func Offsets32(mem memory.Allocator, a array.ListLike, first int64) *memory.Buffer {
	out := memory.NewResizableBuffer(mem)
	out.Resize(4 * (a.Len() + 1))
	offsets := arrow.Int32Traits.CastFromBytes(out.Bytes())
	offsets[0] = 0
	for i := range a.Len() {
		_, end := a.ValueOffsets(i)
		offsets[i+1] = int32(end - first)
	}
	return out
}

// Offsets64 gives the offsets of lists from 0, in 64 bits.
func Offsets64(mem memory.Allocator, a array.ListLike, first int64) *memory.Buffer {
	out := memory.NewResizableBuffer(mem)
	out.Resize(8 * (a.Len() + 1))
	offsets := arrow.Int64Traits.CastFromBytes(out.Bytes())
	offsets[0] = 0
	for i := range a.Len() {
		_, end := a.ValueOffsets(i)
		offsets[i+1] = end - first
	}
	return out
}
