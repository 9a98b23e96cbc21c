package encoding_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// source makes random arrays that are as awkward as Arrow allows: slices that
// begin at odd offsets, offsets that do not start at 0 and skip items, and junk
// under every null.
type source struct {
	*rand.Rand
	nulls    float64 // share of null slots
	distinct int     // how many values there are to choose from
	length   int     // lists have up to so many items
}

// data makes an array of n slots, sliced out of a larger one.
func (r *source) data(t arrow.DataType, nullable bool, n int) arrow.ArrayData {
	before, after := r.IntN(20), r.IntN(5)
	whole := r.whole(t, nullable, before+n+after)
	return array.NewSliceData(whole, int64(before), int64(before+n))
}

func (r *source) whole(t arrow.DataType, nullable bool, n int) arrow.ArrayData {
	bitmap, nulls := r.bitmap(nullable, n)
	make := func(buffers []*memory.Buffer, kids ...arrow.ArrayData) arrow.ArrayData {
		return array.NewData(t, n, append([]*memory.Buffer{bitmap}, buffers...), kids, nulls, 0)
	}
	switch t := t.(type) {
	case *arrow.NullType:
		return array.NewData(t, n, []*memory.Buffer{nil}, nil, n, 0)
	case *arrow.StructType:
		var kids []arrow.ArrayData
		for _, f := range t.Fields() {
			kids = append(kids, r.data(f.Type, f.Nullable, n))
		}
		return make(nil, kids...)
	case *arrow.FixedSizeListType:
		f := t.ElemField()
		return make(nil, r.data(f.Type, f.Nullable, n*int(t.Len())))
	case *arrow.ListType:
		offsets, items := r.offsets(n, 4)
		return make(offsets, r.data(t.Elem(), t.ElemField().Nullable, items))
	case *arrow.LargeListType:
		offsets, items := r.offsets(n, 8)
		return make(offsets, r.data(t.Elem(), t.ElemField().Nullable, items))
	case *arrow.MapType:
		offsets, items := r.offsets(n, 4)
		return make(offsets, r.data(t.Elem(), false, items))
	case *arrow.StringType, *arrow.BinaryType:
		return make(r.text(n, 4))
	case *arrow.LargeStringType, *arrow.LargeBinaryType:
		return make(r.text(n, 8))
	case *arrow.DictionaryType:
		size := min(r.distinct, 100)
		dict := r.data(t.ValueType, true, size)
		width := t.IndexType.(arrow.FixedWidthDataType).BitWidth() / 8
		raw := make8(n * width)
		for i := range n {
			raw[i*width] = byte(r.IntN(size))
			if bitmap != nil && !bitAt(bitmap.Bytes(), i) {
				raw[i*width] = 0xEE // outside the dictionary
			}
		}
		d := dict.(*array.Data)
		return array.NewDataWithDictionary(t, n, []*memory.Buffer{bitmap, memory.NewBufferBytes(raw)}, nulls, 0, d)
	case *arrow.BooleanType:
		raw := make8((n + 7) / 8)
		for i := range raw {
			raw[i] = byte(r.Uint32())
		}
		return make([]*memory.Buffer{memory.NewBufferBytes(raw)})
	case arrow.FixedWidthDataType:
		width := t.BitWidth() / 8
		raw := make8(n * width)
		for i := range n {
			v := r.IntN(r.distinct)
			for b := range min(width, 8) {
				raw[i*width+b] = byte(uint64(v) * 0x9E3779B97F4A7C15 >> (8 * b))
			}
		}
		return make([]*memory.Buffer{memory.NewBufferBytes(raw)})
	}
	panic(fmt.Sprint("no random ", t))
}

func make8(n int) []byte { return make([]byte, n) }

func bitAt(p []byte, i int) bool { return p[i/8]>>(i%8)&1 == 1 }

func (r *source) bitmap(nullable bool, n int) (*memory.Buffer, int) {
	if !nullable || r.nulls == 0 {
		return nil, 0
	}
	raw := make8((n + 7) / 8)
	nulls := 0
	for i := range n {
		if r.Float64() < r.nulls {
			nulls++
		} else {
			raw[i/8] |= 1 << (i % 8)
		}
	}
	return memory.NewBufferBytes(raw), nulls
}

// offsets begin above 0; null lists have items, too.
func (r *source) offsets(n, width int) ([]*memory.Buffer, int) {
	at := r.IntN(7)
	raw := putOffset(nil, at, width)
	for range n {
		if r.IntN(4) > 0 {
			at += r.IntN(r.length + 1)
		}
		raw = putOffset(raw, at, width)
	}
	return []*memory.Buffer{memory.NewBufferBytes(raw)}, at + r.IntN(5)
}

func putOffset(dst []byte, at, width int) []byte {
	if width == 4 {
		return binary.LittleEndian.AppendUint32(dst, uint32(at))
	}
	return binary.LittleEndian.AppendUint64(dst, uint64(at))
}

func (r *source) text(n, width int) []*memory.Buffer {
	heap := []byte("junk"[:r.IntN(5)])
	raw := putOffset(nil, len(heap), width)
	for range n {
		v := r.IntN(r.distinct)
		switch {
		case v%11 == 3:
		case v%501 == 4:
			heap = append(heap, fmt.Sprintf("%0400d", v)...)
		default:
			heap = append(heap, fmt.Sprint("v", v, "é")...)
		}
		raw = putOffset(raw, len(heap), width)
	}
	return []*memory.Buffer{memory.NewBufferBytes(raw), memory.NewBufferBytes(heap)}
}
