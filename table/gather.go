package table

import (
	"encoding/binary"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/flightblob/flightblob/internal/fault"
)

// Gather builds the array whose i-th value is a's rows[i]-th one. Rows may repeat
// and stand in any order; each must lie in [0, a.Len()). The type is kept exactly.
func Gather(a arrow.Array, rows []int) (arrow.Array, error) { return gather(a, rows) }

// gather builds the array whose i-th value is a's rows[i]-th one. Rows may
// repeat and stand in any order; each must lie in [0, a.Len()). The type is
// kept exactly, child names, nullability and dictionaries included.
//
// It exists beside compute.Take because that keeps hidden bytes, drags in every
// kernel of the compute package, and answers batches whose 32-bit offsets
// overflow; here an overflow is an Exhausted error.
func gather(a arrow.Array, rows []int) (arrow.Array, error) {
	if from, ok := contiguous(rows); ok {
		return array.NewSlice(a, int64(from), int64(from+len(rows))), nil
	}
	data, err := gatherData(a, rows)
	if err != nil {
		return nil, err
	}
	defer data.Release()
	return array.MakeFromData(data), nil
}

// contiguous says whether rows counts up from its first entry.
func contiguous(rows []int) (int, bool) {
	if len(rows) == 0 {
		return 0, false
	}
	for i, r := range rows {
		if r != rows[0]+i {
			return 0, false
		}
	}
	return rows[0], true
}

func gatherData(a arrow.Array, rows []int) (arrow.ArrayData, error) {
	n := len(rows)
	valid, nulls := gatherValidity(a, rows)
	done := func(children []arrow.ArrayData, buffers ...*memory.Buffer) arrow.ArrayData {
		d := array.NewData(a.DataType(), n, append([]*memory.Buffer{valid}, buffers...), children, nulls, 0)
		for _, c := range children {
			c.Release()
		}
		return d
	}
	switch a := a.(type) {
	case *array.Null:
		return array.NewData(a.DataType(), n, []*memory.Buffer{nil}, nil, n, 0), nil
	case *array.Boolean:
		bits := make([]byte, bitutil.BytesForBits(int64(n)))
		for i, r := range rows {
			if a.IsValid(r) && a.Value(r) {
				bitutil.SetBit(bits, i)
			}
		}
		return done(nil, memory.NewBufferBytes(bits)), nil
	case *array.Struct:
		children := make([]arrow.ArrayData, a.NumField())
		for i := range children {
			child, err := gatherData(a.Field(i), rows)
			if err != nil {
				for _, c := range children[:i] {
					c.Release()
				}
				return nil, err
			}
			children[i] = child
		}
		return done(children), nil
	case *array.FixedSizeList:
		size := int(a.DataType().(*arrow.FixedSizeListType).Len())
		items := make([]int, 0, n*size)
		base := a.Offset() * size
		for _, r := range rows {
			for k := range size {
				items = append(items, base+r*size+k)
			}
		}
		child, err := gatherData(a.ListValues(), items)
		if err != nil {
			return nil, err
		}
		return done([]arrow.ArrayData{child}), nil
	case *array.List:
		return gatherList(a, rows, done)
	case *array.LargeList:
		return gatherList(a, rows, done)
	case *array.Map:
		return gatherList(a, rows, done)
	case *array.Dictionary:
		index, err := gatherData(a.Indices(), rows)
		if err != nil {
			return nil, err
		}
		defer index.Release()
		return array.NewDataWithDictionary(a.DataType(), n, index.Buffers(), index.NullN(), 0,
			a.Dictionary().Data().(*array.Data)), nil
	case array.ExtensionArray:
		storage, err := gatherData(a.Storage(), rows)
		if err != nil {
			return nil, err
		}
		defer storage.Release()
		return array.NewData(a.DataType(), n, storage.Buffers(), storage.Children(), storage.NullN(), 0), nil
	}
	switch t := a.DataType().(type) {
	case arrow.FixedWidthDataType:
		return done(nil, gatherFixed(a, rows, t.BitWidth()/8)), nil
	case arrow.BinaryDataType:
		return gatherBinary(a, rows, done)
	}
	return nil, fault.New(fault.Unsupported, "table: cannot pick single rows of type %s", a.DataType())
}

// gatherValidity gives the bitmap of the picked rows, nil when none is null.
func gatherValidity(a arrow.Array, rows []int) (*memory.Buffer, int) {
	if a.NullN() == 0 {
		return nil, 0
	}
	bits, nulls := make([]byte, bitutil.BytesForBits(int64(len(rows)))), 0
	for i, r := range rows {
		if a.IsValid(r) {
			bitutil.SetBit(bits, i)
		} else {
			nulls++
		}
	}
	return memory.NewBufferBytes(bits), nulls
}

func gatherFixed(a arrow.Array, rows []int, width int) *memory.Buffer {
	out := make([]byte, len(rows)*width)
	if len(rows) == 0 {
		return memory.NewBufferBytes(out)
	}
	src, base := a.Data().Buffers()[1].Bytes(), a.Data().Offset()
	for i, r := range rows {
		if a.IsValid(r) {
			copy(out[i*width:(i+1)*width], src[(base+r)*width:])
		}
	}
	return memory.NewBufferBytes(out)
}

type finish func(children []arrow.ArrayData, buffers ...*memory.Buffer) arrow.ArrayData

func gatherBinary(a arrow.Array, rows []int, done finish) (arrow.ArrayData, error) {
	value, wide, err := binaryValues(a)
	if err != nil {
		return nil, err
	}
	total := int64(0)
	for _, r := range rows {
		if a.IsValid(r) {
			from, to := value(r)
			total += to - from
		}
	}
	offsets, err := newOffsets(len(rows), wide, total, a.DataType())
	if err != nil {
		return nil, err
	}
	bytes := make([]byte, 0, total)
	var src []byte
	if b := a.Data().Buffers()[2]; b != nil {
		src = b.Bytes()
	}
	for _, r := range rows {
		if a.IsValid(r) {
			from, to := value(r)
			bytes = append(bytes, src[from:to]...)
		}
		offsets.add(int64(len(bytes)))
	}
	return done(nil, offsets.buffer(), memory.NewBufferBytes(bytes)), nil
}

// binaryValues tells where value r lies in the value buffer, and whether the
// offsets have 64 bits.
func binaryValues(a arrow.Array) (at func(r int) (int64, int64), wide bool, err error) {
	narrow := func(offsets func() []int32) func(int) (int64, int64) {
		if a.Len() == 0 { // an empty array may come without offsets
			return nil
		}
		off := offsets()
		return func(r int) (int64, int64) { return int64(off[r]), int64(off[r+1]) }
	}
	large := func(offsets func() []int64) func(int) (int64, int64) {
		if a.Len() == 0 {
			return nil
		}
		off := offsets()
		return func(r int) (int64, int64) { return off[r], off[r+1] }
	}
	switch a := a.(type) {
	case *array.String:
		return narrow(a.ValueOffsets), false, nil
	case *array.Binary:
		return narrow(a.ValueOffsets), false, nil
	case *array.LargeString:
		return large(a.ValueOffsets), true, nil
	case *array.LargeBinary:
		return large(a.ValueOffsets), true, nil
	}
	return nil, false, fault.New(fault.Unsupported, "table: cannot pick single rows of type %s", a.DataType())
}

func gatherList(a array.ListLike, rows []int, done finish) (arrow.ArrayData, error) {
	total := int64(0)
	for _, r := range rows {
		if a.IsValid(r) {
			from, to := a.ValueOffsets(r)
			total += to - from
		}
	}
	_, wide := a.DataType().(*arrow.LargeListType)
	offsets, err := newOffsets(len(rows), wide, total, a.DataType())
	if err != nil {
		return nil, err
	}
	items := make([]int, 0, total)
	for _, r := range rows {
		if a.IsValid(r) {
			from, to := a.ValueOffsets(r)
			for k := from; k < to; k++ {
				items = append(items, int(k))
			}
		}
		offsets.add(int64(len(items)))
	}
	child, err := gatherData(a.ListValues(), items)
	if err != nil {
		return nil, err
	}
	return done([]arrow.ArrayData{child}, offsets.buffer()), nil
}

// offsetsBuilder writes an offsets buffer of either width.
type offsetsBuilder struct {
	bytes []byte
	wide  bool
}

func newOffsets(n int, wide bool, total int64, t arrow.DataType) (*offsetsBuilder, error) {
	width := 4
	if wide {
		width = 8
	} else if total > math.MaxInt32 {
		return nil, fault.New(fault.Exhausted,
			"table: the picked rows hold %d values or bytes in one column of type %s, more than its 32-bit offsets can address; ask for fewer rows at once", total, t)
	}
	b := &offsetsBuilder{bytes: make([]byte, 0, (n+1)*width), wide: wide}
	b.add(0)
	return b, nil
}

func (b *offsetsBuilder) add(v int64) {
	if b.wide {
		b.bytes = binary.LittleEndian.AppendUint64(b.bytes, uint64(v))
	} else {
		b.bytes = binary.LittleEndian.AppendUint32(b.bytes, uint32(v))
	}
}

func (b *offsetsBuilder) buffer() *memory.Buffer { return memory.NewBufferBytes(b.bytes) }

// byteSize is the number of bytes that rows [from, to) of a take in Arrow form:
// what a copy of just them would hold, whatever larger buffers they share.
func byteSize(a arrow.Array, from, to int) int64 {
	n := int64(to - from)
	if n == 0 {
		return 0
	}
	size := int64(0)
	if a.NullN() > 0 {
		size = (n + 7) / 8
	}
	switch a := a.(type) {
	case *array.Null:
		return 0
	case *array.Boolean:
		return size + (n+7)/8
	case *array.Struct:
		for i := range a.NumField() {
			size += byteSize(a.Field(i), from, to)
		}
		return size
	case *array.FixedSizeList:
		k := int(a.DataType().(*arrow.FixedSizeListType).Len())
		return size + byteSize(a.ListValues(), (a.Offset()+from)*k, (a.Offset()+to)*k)
	case array.ListLike:
		start, _ := a.ValueOffsets(from)
		_, end := a.ValueOffsets(to - 1)
		width := int64(4)
		if _, wide := a.DataType().(*arrow.LargeListType); wide {
			width = 8
		}
		return size + n*width + byteSize(a.ListValues(), int(start), int(end))
	case *array.Dictionary:
		return size + byteSize(a.Indices(), from, to)
	case array.ExtensionArray:
		return byteSize(a.Storage(), from, to)
	}
	if t, ok := a.DataType().(arrow.FixedWidthDataType); ok {
		return size + n*int64(t.BitWidth()/8)
	}
	if value, wide, err := binaryValues(a); err == nil {
		start, _ := value(from)
		_, end := value(to - 1)
		if wide {
			size += 4 * n
		}
		return size + 4*n + end - start
	}
	return size + 16*n
}
