package encoding

import (
	"math"

	"github.com/apache/arrow-go/v18/arrow"

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
