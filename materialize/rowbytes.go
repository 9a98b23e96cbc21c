package materialize

import (
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// This file estimates what rows weigh in an Arrow IPC message, in bits, since a
// validity bit is a bit. Estimates are never below the truth by more than the
// rounding that overhead covers.

// maxWeight caps weights so that sums of hostile sizes cannot overflow.
const maxWeight = int64(1) << 60

// weight turns bytes into bits, saturating.
func weight(bytes uint64) int64 {
	if bytes > uint64(maxWeight>>3) {
		return maxWeight
	}
	return int64(bytes) << 3
}

// plus adds two weights, saturating.
func plus(a, b int64) int64 { return min(a+b, maxWeight) }

// overhead is what a message of this schema weighs without rows: metadata of
// buffers and fields, and the padding of each buffer.
func overhead(s *arrow.Schema) int64 {
	var bytes int64 = 1 << 10
	for _, f := range s.Fields() {
		bytes += fieldOverhead(f.Type)
	}
	return bytes << 3
}

func fieldOverhead(dt arrow.DataType) int64 {
	const field, buffer = 16, 16 + 64 // flatbuffer structs; padding of the body to 8, to 64 for writers that choose so
	bytes := int64(field + 3*buffer)
	for _, c := range children(dt) {
		bytes += fieldOverhead(c.Type)
	}
	return bytes
}

// columnWeights weighs rows of one batch apart from blob values.
type columnWeights struct {
	fixed int64 // bits of each row
	rest  []weighed
}

type weighed struct {
	node *node
	arr  arrow.Array
}

func newColumnWeights(t *tree, rec arrow.RecordBatch) columnWeights {
	var w columnWeights
	for i, arr := range rec.Columns() {
		n := t.columns[i]
		if bits, ok := fixedBits(arr.DataType()); ok && n == nil {
			w.fixed += bits
			continue
		}
		if n != nil && n.leaf >= 0 {
			continue
		}
		w.rest = append(w.rest, weighed{n, arr})
	}
	return w
}

// row gives the bits of row r, without blob values.
func (w *columnWeights) row(r int) int64 {
	bits := w.fixed
	for _, c := range w.rest {
		bits = plus(bits, arrayBits(c.node, c.arr, r, r+1))
	}
	return bits
}

// fixedBits is the width of a value and its validity bit, for types of fixed
// width at any depth.
func fixedBits(dt arrow.DataType) (int64, bool) {
	switch dt := dt.(type) {
	case *arrow.NullType:
		return 0, true
	case *arrow.DictionaryType:
		return fixedBits(dt.IndexType)
	case *arrow.FixedSizeListType:
		bits, ok := fixedBits(dt.Elem())
		return 1 + bits*int64(dt.Len()), ok
	case *arrow.StructType:
		total := int64(1)
		for _, f := range dt.Fields() {
			bits, ok := fixedBits(f.Type)
			if !ok {
				return 0, false
			}
			total += bits
		}
		return total, true
	case arrow.ExtensionType:
		return fixedBits(dt.StorageType())
	case arrow.FixedWidthDataType:
		return int64(dt.BitWidth()) + 1, true
	}
	return 0, false
}

// arrayBits weighs slots [from, to) of an array. Blob leaves below n count
// nothing here: their values are known from the descriptors.
func arrayBits(n *node, arr arrow.Array, from, to int) int64 {
	if n != nil && n.leaf >= 0 || from >= to {
		return 0
	}
	count := int64(to - from)
	if bits, ok := fixedBits(arr.DataType()); ok && n == nil {
		return count * bits
	}
	child := func(i int) *node {
		if n == nil {
			return nil
		}
		return n.children[i]
	}
	switch a := arr.(type) {
	case *array.Struct:
		bits := count
		for i := range a.NumField() {
			bits = plus(bits, arrayBits(child(i), a.Field(i), from, to))
		}
		return bits
	case array.ListLike:
		width := int64(33)
		switch a.DataType().ID() {
		case arrow.LARGE_LIST:
			width = 65
		case arrow.FIXED_SIZE_LIST:
			width = 1
		}
		first, _ := a.ValueOffsets(from)
		_, last := a.ValueOffsets(to - 1)
		values := a.ListValues()
		first, last = clamp(first, values.Len()), clamp(last, values.Len())
		return plus(count*width, arrayBits(child(0), values, int(first), int(last)))
	case array.ExtensionArray:
		return arrayBits(n, a.Storage(), from, to)
	case array.ViewLike:
		bits := count * (1 + 8*int64(arrow.ViewHeaderSizeBytes))
		for i := from; i < to; i++ {
			bits = plus(bits, weight(uint64(a.ValueHeader(i).Len())))
		}
		return bits
	case array.BinaryLike:
		width := int64(33)
		switch a.DataType().ID() {
		case arrow.LARGE_BINARY, arrow.LARGE_STRING:
			width = 65
		}
		end := a.ValueOffset64(to-1) + int64(a.ValueLen(to-1))
		return plus(count*width, weight(uint64(max(end-a.ValueOffset64(from), 0))))
	}
	// Types that Lance does not store: their share of the whole array.
	all := weight(arr.Data().SizeInBytes())
	return int64(math.Ceil(float64(all) / float64(max(arr.Len(), 1)) * float64(count)))
}

func clamp(i int64, n int) int64 { return max(0, min(i, int64(n))) }

// leafBits weighs one element of a leaf.
func leafBits(v *value, logical bool) int64 {
	bits := plus(64+1, weight(v.payload())) // an offset of large_binary and a validity bit
	if logical {
		bits = plus(bits, 1+33+2*65+weight(uint64(len(v.uri)))) // struct, uri, position, size
	}
	return bits
}
