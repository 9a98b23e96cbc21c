package encoding

import (
	"encoding/binary"
	"math"
	"math/bits"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/flightblob/flightblob/encoding/internal/fsst"
	"github.com/flightblob/flightblob/internal/fault"
)

type vectorKind uint8

const (
	nullVector vectorKind = iota
	bitVector
	fixedVector
	var32Vector
	var64Vector
	listVector
	structVector
	dictVector
)

// maxVectorBytes bounds the value bytes of one leaf of one read. A reader that
// meets it asks for fewer rows.
const maxVectorBytes = 1 << 30

// vector collects the values of one leaf, copied out of blocks, until they
// become an Arrow array.
type vector struct {
	typ   arrow.DataType
	kind  vectorKind
	n     int
	want  int // values that the read will append, as far as known
	width int // fixedVector: bytes per value
	data  []byte
	off32 []int32
	off64 []int64
	dim   int
	kids  []*vector
	dict  *dictBuilder

	// item marks the items of a fixed-size list, the only values whose nulls
	// are collected here (a leaf's own are in its Layer): valid is their
	// bitmap, nil while every item is valid.
	item  bool
	valid []byte
	nulls int

	// stray holds slots whose dictionary index was out of range, which is
	// tolerated under a null only.
	stray []int
}

// newVector makes an empty vector for a storage type, with room for n values.
func newVector(typ arrow.DataType, n int) (*vector, error) {
	v := &vector{typ: typ, want: n}
	switch t := typ.(type) {
	case *arrow.NullType:
		v.kind = nullVector
	case *arrow.BooleanType:
		v.kind = bitVector
		v.data = make([]byte, 0, (n+7)/8)
	case *arrow.StringType, *arrow.BinaryType:
		v.kind = var32Vector
		if n > maxSequence {
			return nil, tooLarge(4 * int64(n))
		}
		v.off32 = append(make([]int32, 0, n+1), 0)
	case *arrow.LargeStringType, *arrow.LargeBinaryType:
		v.kind = var64Vector
		if n > maxSequence {
			return nil, tooLarge(8 * int64(n))
		}
		v.off64 = append(make([]int64, 0, n+1), 0)
	case *arrow.FixedSizeListType:
		v.kind = listVector
		v.dim = int(t.Len())
		if v.dim < 0 || (v.dim > 0 && n > math.MaxInt32/v.dim) {
			return nil, fault.New(fault.Exhausted, "encoding: %d lists of %d items in one read; ask for fewer rows", n, v.dim)
		}
		kid, err := newVector(t.Elem(), n*v.dim)
		if err != nil {
			return nil, err
		}
		kid.item = true
		v.kids = []*vector{kid}
	case *arrow.StructType:
		v.kind = structVector
		for _, f := range t.Fields() {
			kid, err := newVector(f.Type, n)
			if err != nil {
				return nil, err
			}
			v.kids = append(v.kids, kid)
		}
	case *arrow.DictionaryType:
		v.kind = dictVector
		d, err := newDictBuilder(t, n)
		if err != nil {
			return nil, err
		}
		v.dict = d
	case arrow.FixedWidthDataType:
		v.kind = fixedVector
		v.width = t.BitWidth() / 8
		if v.width > 0 && n > maxVectorBytes/v.width {
			return nil, tooLarge(int64(n) * int64(v.width))
		}
		v.data = make([]byte, 0, n*v.width)
	default:
		return nil, fault.New(fault.Unsupported, "encoding: values of type %s", typ)
	}
	return v, nil
}

func tooLarge(n int64) error {
	return fault.New(fault.Exhausted, "encoding: %d bytes of values in one read; ask for fewer rows", n)
}

func (v *vector) mismatch(b *block) error {
	return fault.Corruptf(-1, "encoding: type %s stored as %s", v.typ, b.describe())
}

func (b *block) describe() string {
	switch b.kind {
	case fixedBlock:
		return "fixed-width values"
	case varBlock:
		return "variable-width values"
	case listBlock:
		return "fixed-size lists"
	case structBlock:
		return "a packed struct"
	default:
		return "nulls"
	}
}

// append copies values [from, to) of a block.
func (v *vector) append(b *block, from, to int) error {
	if from < 0 || to < from || to > b.n {
		return fault.Corruptf(-1, "encoding: values [%d, %d) of %d", from, to, b.n)
	}
	if b.kind == nullBlock {
		return v.appendNulls(to - from)
	}
	if v.valid != nil {
		if b.valid != nil {
			v.valid = appendBits(v.valid, v.n, b.valid, from, to)
		} else {
			v.valid = appendOnes(v.valid, v.n, to-from)
		}
	} else if b.valid != nil {
		v.valid = appendBits(appendOnes(nil, 0, v.n), v.n, b.valid, from, to)
	}
	if b.valid != nil {
		v.nulls += to - from - countBits(b.valid, from, to)
	}
	switch v.kind {
	case nullVector:
		// A null-typed column stores nothing that matters.
	case bitVector:
		switch {
		case b.kind == fixedBlock && b.bits == 1:
			v.data = appendBits(v.data, v.n, b.data, from, to)
		case b.kind == fixedBlock && b.bits == 8: // full-zip widens booleans
			v.data = appendZeros(v.data, v.n, to-from)
			for i := from; i < to; i++ {
				if b.data[i]&1 != 0 {
					setBit(v.data, v.n+i-from)
				}
			}
		default:
			return v.mismatch(b)
		}
	case fixedVector:
		if b.kind != fixedBlock || b.bits != v.width*8 {
			return v.mismatch(b)
		}
		if len(v.data)+(to-from)*v.width > maxVectorBytes {
			return tooLarge(int64(len(v.data) + (to-from)*v.width))
		}
		v.data = append(v.data, b.data[from*v.width:to*v.width]...)
	case var32Vector, var64Vector:
		if b.kind != varBlock {
			return v.mismatch(b)
		}
		return v.appendVar(b, from, to)
	case listVector:
		if err := v.appendList(b, from, to); err != nil {
			return err
		}
	case structVector:
		if b.kind != structBlock || len(b.kids) != len(v.kids) {
			return v.mismatch(b)
		}
		for i, kid := range v.kids {
			if err := kid.append(b.kids[i], from, to); err != nil {
				return err
			}
		}
	case dictVector:
		if err := v.dict.appendPlain(b, from, to); err != nil {
			return err
		}
	}
	v.n += to - from
	return nil
}

func (v *vector) appendVar(b *block, from, to int) error {
	first, last := b.offs[from], b.offs[to]
	if err := v.reserve(int(last-first), to-from); err != nil {
		return err
	}
	shift := int64(len(v.data)) - first
	v.data = append(v.data, b.data[first:last]...)
	v.appendOffsets(b.offs[from+1:to+1], shift)
	v.n += to - from
	return nil
}

// appendFSST expands FSST codes [from, to) straight into the vector.
func (v *vector) appendFSST(d *fsst.Decoder, b *block, from, to int) error {
	if b.kind != varBlock {
		return fault.Corruptf(-1, "encoding: fsst over %s", b.describe())
	}
	codes := int(b.offs[to] - b.offs[from])
	if most := d.MaxDecoded(codes); most > maxVectorBytes-len(v.data) {
		return tooLarge(int64(len(v.data) + most))
	}
	if err := v.reserve(2*codes, to-from); err != nil {
		return err
	}
	at32, at64 := len(v.off32), len(v.off64)
	if v.kind == var32Vector {
		v.off32 = growTo(v.off32, at32+to-from)
	} else {
		v.off64 = growTo(v.off64, at64+to-from)
	}
	var out []byte
	var err error
	if v.kind == var32Vector {
		out, err = fsst.AppendValues(d, v.data, b.data, b.offs[from:to+1], v.off32[at32:])
	} else {
		out, err = fsst.AppendValues(d, v.data, b.data, b.offs[from:to+1], v.off64[at64:])
	}
	if err != nil {
		return err
	}
	if len(out) > maxVectorBytes {
		return tooLarge(int64(len(out)))
	}
	v.data = out
	v.n += to - from
	return nil
}

// appendOffsets adds end offsets, each moved by shift.
func (v *vector) appendOffsets(ends []int64, shift int64) {
	if v.kind == var32Vector {
		at := len(v.off32)
		v.off32 = growTo(v.off32, at+len(ends))
		out := v.off32[at:]
		for i, o := range ends {
			out[i] = int32(o + shift)
		}
		return
	}
	at := len(v.off64)
	v.off64 = growTo(v.off64, at+len(ends))
	out := v.off64[at:]
	for i, o := range ends {
		out[i] = o + shift
	}
}

// reserve makes room for more bytes of variable-width values, count of them,
// and on growing for as much as the values still wanted will take if they are
// like those so far.
func (v *vector) reserve(more, count int) error {
	need := len(v.data) + more
	if need > maxVectorBytes {
		return tooLarge(int64(need))
	}
	if need <= cap(v.data) {
		return nil
	}
	room := need
	if n := v.n + count; n > 0 && n < v.want {
		room = int(min(float64(need)/float64(n)*float64(v.want)*1.02, maxVectorBytes)) + 64
	}
	v.data = append(make([]byte, 0, max(need, min(room, 8*need+4096))), v.data...)
	return nil
}

// appendSpans copies values that lie apart in data; size -1 marks a null slot.
func (v *vector) appendSpans(data []byte, spans []span) error {
	total := 0
	for _, s := range spans {
		total += max(s.size, 0)
	}
	if err := v.reserve(total, len(spans)); err != nil {
		return err
	}
	out := v.data
	if v.kind == var32Vector {
		at := len(v.off32)
		v.off32 = growTo(v.off32, at+len(spans))
		ends := v.off32[at:]
		for i, s := range spans {
			out = append(out, data[s.at:s.at+max(s.size, 0)]...)
			ends[i] = int32(len(out))
		}
	} else {
		at := len(v.off64)
		v.off64 = growTo(v.off64, at+len(spans))
		ends := v.off64[at:]
		for i, s := range spans {
			out = append(out, data[s.at:s.at+max(s.size, 0)]...)
			ends[i] = int64(len(out))
		}
	}
	v.data = out
	v.n += len(spans)
	return nil
}

// growTo extends s to length n, doubling its capacity when it must move.
func growTo[T any](s []T, n int) []T {
	if n <= cap(s) {
		return s[:n]
	}
	grown := make([]T, n, max(n, 2*cap(s)))
	copy(grown, s)
	return grown
}

func (v *vector) appendList(b *block, from, to int) error {
	kid := v.kids[0]
	switch {
	case b.kind == listBlock && b.dim == v.dim:
		return kid.append(b.kids[0], from*v.dim, to*v.dim)
	case b.kind == fixedBlock && v.dim > 0:
		// The encoder may flatten a list into one wide value.
		item := *b
		if b.bits == 1 || b.bits%v.dim != 0 {
			return v.mismatch(b)
		}
		item.bits, item.n, item.valid = b.bits/v.dim, b.n*v.dim, nil
		return kid.append(&item, from*v.dim, to*v.dim)
	case v.dim == 0:
		return nil
	default:
		return v.mismatch(b)
	}
}

// appendNulls adds count slots whose values do not matter; items of a
// fixed-size list become null.
func (v *vector) appendNulls(count int) error {
	if v.item {
		if v.valid == nil {
			v.valid = appendOnes(nil, 0, v.n)
		}
		v.valid = appendZeros(v.valid, v.n, count)
		v.nulls += count
	}
	switch v.kind {
	case bitVector:
		v.data = appendZeros(v.data, v.n, count)
	case fixedVector:
		if v.width > 0 && count > (maxVectorBytes-len(v.data))/v.width {
			return tooLarge(int64(count) * int64(v.width))
		}
		at := len(v.data)
		v.data = growTo(v.data, at+count*v.width)
		clear(v.data[at:])
	case var32Vector:
		at := len(v.off32)
		v.off32 = growTo(v.off32, at+count)
		for i := at; i < len(v.off32); i++ {
			v.off32[i] = v.off32[at-1]
		}
	case var64Vector:
		at := len(v.off64)
		v.off64 = growTo(v.off64, at+count)
		for i := at; i < len(v.off64); i++ {
			v.off64[i] = v.off64[at-1]
		}
	case listVector:
		if v.dim > 0 && count > math.MaxInt32/v.dim {
			return tooLarge(int64(count) * int64(v.dim))
		}
		if err := v.kids[0].appendNulls(count * v.dim); err != nil {
			return err
		}
	case structVector:
		for _, kid := range v.kids {
			if err := kid.appendNulls(count); err != nil {
				return err
			}
		}
	case dictVector:
		v.dict.appendNulls(count)
	}
	v.n += count
	return nil
}

// appendRepeated adds count copies of value i of a block.
func (v *vector) appendRepeated(b *block, i, count int) error {
	switch {
	case count == 0:
		return nil
	case v.kind == fixedVector && b.kind == fixedBlock && b.bits == v.width*8 && v.width > 0:
		if count > (maxVectorBytes-len(v.data))/v.width {
			return tooLarge(int64(count) * int64(v.width))
		}
		at := len(v.data)
		v.data = growTo(v.data, at+count*v.width)
		fill(v.data[at:], b.data[i*v.width:(i+1)*v.width])
		v.n += count
		return nil
	case v.kind == bitVector && b.kind == fixedBlock:
		set := b.bits == 1 && getBit(b.data, i) || b.bits == 8 && b.data[i]&1 != 0
		if b.bits != 1 && b.bits != 8 {
			return v.mismatch(b)
		}
		if set {
			v.data = appendOnes(v.data, v.n, count)
		} else {
			v.data = appendZeros(v.data, v.n, count)
		}
		v.n += count
		return nil
	}
	for range count {
		if err := v.append(b, i, i+1); err != nil {
			return err
		}
	}
	return nil
}

// fill repeats pattern over dst, whose length is a multiple of it.
func fill(dst, pattern []byte) {
	if len(dst) == 0 {
		return
	}
	n := copy(dst, pattern)
	for n < len(dst) {
		n += copy(dst[n:], dst[:n])
	}
}

// appendGather adds values idx of items, page dictionaries' way. Indices of
// null slots may be anything; those out of range become fillers.
func (v *vector) appendGather(items *block, idx []uint32) error {
	for i, k := range idx {
		if uint64(k) >= uint64(items.n) {
			v.stray = append(v.stray, v.n+i)
		}
	}
	switch {
	case v.kind == fixedVector && items.kind == fixedBlock && items.bits == v.width*8:
		if v.width > 0 && len(idx) > (maxVectorBytes-len(v.data))/v.width {
			return tooLarge(int64(len(idx)) * int64(v.width))
		}
		at := len(v.data)
		v.data = growTo(v.data, at+len(idx)*v.width)
		gatherFixed(v.data[at:], items.data, idx, items.n, v.width)
		v.n += len(idx)
		return nil
	case v.kind == var32Vector && items.kind == varBlock:
		total := int64(0)
		for _, k := range idx {
			if int(k) < items.n {
				total += items.offs[k+1] - items.offs[k]
			}
		}
		if total > maxVectorBytes {
			return tooLarge(total)
		}
		if err := v.reserve(int(total), len(idx)); err != nil {
			return err
		}
		at := len(v.off32)
		v.off32 = growTo(v.off32, at+len(idx))
		ends, out := v.off32[at:], v.data
		for i, k := range idx {
			if int(k) < items.n {
				out = append(out, items.data[items.offs[k]:items.offs[k+1]]...)
			}
			ends[i] = int32(len(out))
		}
		v.data = out
		v.n += len(idx)
		return nil
	case v.kind == dictVector:
		if err := v.dict.appendIndices(items, idx); err != nil {
			return err
		}
		v.n += len(idx)
		return nil
	}
	for _, k := range idx {
		var err error
		if int(k) < items.n {
			err = v.append(items, int(k), int(k)+1)
		} else {
			err = v.appendNulls(1)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func gatherFixed(dst, src []byte, idx []uint32, n, width int) {
	switch width {
	case 4:
		for i, k := range idx {
			if int(k) < n {
				binary.LittleEndian.PutUint32(dst[4*i:], binary.LittleEndian.Uint32(src[4*k:]))
			}
		}
	case 8:
		for i, k := range idx {
			if int(k) < n {
				binary.LittleEndian.PutUint64(dst[8*i:], binary.LittleEndian.Uint64(src[8*k:]))
			}
		}
	default:
		for i, k := range idx {
			if int(k) < n {
				copy(dst[i*width:(i+1)*width], src[int(k)*width:(int(k)+1)*width])
			}
		}
	}
}

// array makes the Arrow array of the collected values under a validity bitmap
// (nil when nulls is 0).
func (v *vector) array(valid []byte, nulls int) (arrow.Array, error) {
	for _, i := range v.stray {
		if nulls == 0 || getBit(valid, i) {
			return nil, fault.Corruptf(-1, "encoding: value %d has a dictionary index out of range", i)
		}
	}
	data, err := v.arrayData(valid, nulls)
	if err != nil {
		return nil, err
	}
	defer data.Release()
	return array.MakeFromData(data), nil
}

func (v *vector) arrayData(valid []byte, nulls int) (*array.Data, error) {
	var vb *memory.Buffer
	if nulls > 0 {
		vb = memory.NewBufferBytes(valid)
	}
	switch v.kind {
	case nullVector:
		return array.NewData(v.typ, v.n, []*memory.Buffer{nil}, nil, v.n, 0), nil
	case bitVector, fixedVector:
		return array.NewData(v.typ, v.n, []*memory.Buffer{vb, memory.NewBufferBytes(v.data)}, nil, nulls, 0), nil
	case var32Vector:
		off := memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(v.off32))
		return array.NewData(v.typ, v.n, []*memory.Buffer{vb, off, memory.NewBufferBytes(v.data)}, nil, nulls, 0), nil
	case var64Vector:
		off := memory.NewBufferBytes(arrow.Int64Traits.CastToBytes(v.off64))
		return array.NewData(v.typ, v.n, []*memory.Buffer{vb, off, memory.NewBufferBytes(v.data)}, nil, nulls, 0), nil
	case listVector:
		kid, err := v.kids[0].arrayData(v.kids[0].valid, v.kids[0].nulls)
		if err != nil {
			return nil, err
		}
		defer kid.Release()
		return array.NewData(v.typ, v.n, []*memory.Buffer{vb}, []arrow.ArrayData{kid}, nulls, 0), nil
	case structVector:
		kids := make([]arrow.ArrayData, len(v.kids))
		for i, k := range v.kids {
			kid, err := k.arrayData(nil, 0)
			if err != nil {
				return nil, err
			}
			defer kid.Release()
			kids[i] = kid
		}
		return array.NewData(v.typ, v.n, []*memory.Buffer{vb}, kids, nulls, 0), nil
	default:
		return v.dict.arrayData(v.typ, vb, valid, nulls)
	}
}

// countBits counts set bits in [from, to).
func countBits(p []byte, from, to int) int {
	count := 0
	for from < to && from%8 != 0 {
		if getBit(p, from) {
			count++
		}
		from++
	}
	for ; from+64 <= to; from += 64 {
		count += bits.OnesCount64(binary.LittleEndian.Uint64(p[from/8:]))
	}
	for ; from < to; from++ {
		if getBit(p, from) {
			count++
		}
	}
	return count
}
