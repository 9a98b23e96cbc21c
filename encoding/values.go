package encoding

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/schema"
)

// values are the values of a leaf that wait for a page, one for every entry
// that owns a slot. A null is zero bytes, whatever the input holds there.
type values struct {
	typ  arrow.DataType
	kind vectorKind
	json bool // text becomes binary JSON
	n    int

	width int    // fixedVector, dictVector: bytes of a value or index
	data  []byte // fixedVector, dictVector: values; bitVector: bits; variable: bytes

	// Variable-width: end of each value in data.
	ends []uint32

	// listVector: one level of fixed-size lists over kid, with a bitmap of its
	// items, nil while all are valid.
	dim   int
	valid []byte
	kid   *values

	kids []*values // structVector: children of a packed struct

	items *interned // dictVector
}

// newValues makes an empty collection for a leaf, or refuses its type.
func newValues(f *schema.Field) (*values, error) {
	v, err := valuesOf(f.Storage, f.FullName())
	if err != nil {
		return nil, err
	}
	v.json = f.IsJSON()
	if v.kind != structVector || f.Blob != schema.NotBlob {
		return v, nil
	}
	if len(v.kids) == 0 {
		return nil, fault.New(fault.Unsupported, "encoding: column %s is a struct without fields, which has no place in a file; leave it out", f.FullName())
	}
	for i, kid := range v.kids {
		switch kid.kind {
		case fixedVector, var32Vector, var64Vector, listVector:
		default:
			return nil, fault.New(fault.Unsupported, "encoding: column %s is a packed struct with a field %q of type %s; packed structs hold numbers, times, text, binary and fixed-size lists of these: leave out %s", f.FullName(), f.Children[i].Name, kid.typ, schema.KeyPacked)
		}
	}
	return v, nil
}

func valuesOf(typ arrow.DataType, name string) (*values, error) {
	v := &values{typ: typ}
	switch t := typ.(type) {
	case *arrow.NullType:
		v.kind = nullVector
	case *arrow.BooleanType:
		v.kind = bitVector
	case *arrow.StringType, *arrow.BinaryType:
		v.kind = var32Vector
	case *arrow.LargeStringType, *arrow.LargeBinaryType:
		v.kind = var64Vector
	case *arrow.FixedSizeListType:
		v.kind, v.dim = listVector, int(t.Len())
		kid, err := valuesOf(t.Elem(), name)
		if err != nil {
			return nil, err
		}
		switch kid.kind {
		case fixedVector, bitVector, listVector:
		default:
			return nil, fault.New(fault.Unsupported, "encoding: column %s is a fixed-size list of %s; its items must have a fixed width", name, t.Elem())
		}
		v.kid = kid
	case *arrow.StructType:
		v.kind = structVector
		for _, f := range t.Fields() {
			kid, err := valuesOf(f.Type, name)
			if err != nil {
				return nil, err
			}
			v.kids = append(v.kids, kid)
		}
	case *arrow.DictionaryType:
		v.kind = dictVector
		v.width = t.IndexType.(arrow.FixedWidthDataType).BitWidth() / 8
		kid, err := valuesOf(t.ValueType, name)
		if err != nil {
			return nil, err
		}
		switch kid.kind {
		case fixedVector, bitVector, var32Vector, var64Vector:
		default:
			return nil, fault.New(fault.Unsupported, "encoding: column %s is a dictionary of %s", name, t.ValueType)
		}
		v.items = newInterned(kid)
	case arrow.FixedWidthDataType:
		v.kind, v.width = fixedVector, t.BitWidth()/8
	default:
		return nil, fault.New(fault.Unsupported, "encoding: column %s has the type %s", name, typ)
	}
	return v, nil
}

// reset drops the values and keeps the memory.
func (v *values) reset() {
	v.n, v.data, v.ends, v.valid = 0, v.data[:0], v.ends[:0], nil
	if v.kid != nil {
		v.kid.reset()
	}
	for _, k := range v.kids {
		k.reset()
	}
	if v.items != nil {
		v.items.reset()
	}
}

// bytes is about the memory that the values take.
func (v *values) bytes() int {
	n := len(v.data) + 4*len(v.ends) + len(v.valid)
	if v.kid != nil {
		n += v.kid.bytes()
	}
	for _, k := range v.kids {
		n += k.bytes()
	}
	if v.items != nil {
		n += v.items.values.bytes()
	}
	return n
}

// overflows says that a page must be cut before an array joins it: the values
// of both dictionaries may be more than the index type can number. One array
// alone never has too many.
func (v *values) overflows(s *leafSource) bool {
	return v.items != nil && v.items.values.n > 0 && v.items.values.n > v.indexLimit()-min(s.dict.n, v.indexLimit())
}

// leafSource is the input array of a leaf. Slots are counted from the start of
// the array's slice; what is indexed by physical number says so.
type leafSource struct {
	n        int
	off      int    // physical number of slot 0
	valid    []byte // bitmap, nil = all valid
	validOff int    // bit of slot 0
	allNull  bool

	fixed []byte // values or bits, by physical number

	text  bool // variable width: UTF-8
	off32 []int32
	off64 []int64 // n+1 offsets into heap, one of the two
	heap  []byte
	views []arrow.ViewHeader // n, instead of offsets
	bufs  [][]byte           // where views point to

	dim  int         // fixed-size list
	kid  *leafSource // its items, by physical number
	kids []*leafSource

	// dictionary: the index of a slot, the values, and which index they have
	// been given here, -1 for none yet.
	index      func(i int) uint64
	dict       *leafSource
	remap      []int32
	generation int // of the page that remap numbers
}

// bind checks that an array can be read as values of v.
func (v *values) bind(data arrow.ArrayData) (*leafSource, error) {
	typ := data.DataType()
	if x, ok := typ.(arrow.ExtensionType); ok {
		typ = x.StorageType()
	}
	s := &leafSource{n: data.Len(), off: data.Offset(), validOff: data.Offset()}
	var err error
	if s.valid, err = validity(data); err != nil {
		return nil, err
	}
	if v.kind != structVector && v.kind != listVector && !v.accepts(typ) {
		return nil, fault.New(fault.Invalid, "the column stores %s", v.typ)
	}
	switch v.kind {
	case nullVector:
		s.allNull = true
	case bitVector:
		s.fixed = bufferBytes(data, 1)
		if len(s.fixed) < (s.off+s.n+7)/8 {
			err = short(data, len(s.fixed))
		}
	case fixedVector:
		s.fixed = bufferBytes(data, 1)
		if len(s.fixed) < (s.off+s.n)*v.width {
			err = short(data, len(s.fixed))
		}
	case var32Vector, var64Vector:
		err = s.bindVariable(data, typ)
	case listVector:
		err = s.bindList(v, data, typ)
	case structVector:
		err = s.bindStruct(v, data, typ)
	case dictVector:
		err = s.bindDictionary(v, data, typ)
	}
	return s, err
}

// accepts tells whether values of a type are stored as v's without a change:
// text and binary of any width are.
func (v *values) accepts(t arrow.DataType) bool {
	switch {
	case v.kind == var32Vector || v.kind == var64Vector:
		return isText(t) && (isText(v.typ) || v.json) || isBinary(t) && !isText(v.typ)
	case v.kind == dictVector:
		got, ok := t.(*arrow.DictionaryType)
		want, _ := v.typ.(*arrow.DictionaryType)
		return ok && arrow.TypeEqual(got.IndexType, want.IndexType) && arrow.TypeEqual(got.ValueType, want.ValueType)
	default:
		return arrow.TypeEqual(t, v.typ)
	}
}

func isText(t arrow.DataType) bool {
	return t.ID() == arrow.STRING || t.ID() == arrow.LARGE_STRING || t.ID() == arrow.STRING_VIEW
}

func isBinary(t arrow.DataType) bool {
	return t.ID() == arrow.BINARY || t.ID() == arrow.LARGE_BINARY || t.ID() == arrow.BINARY_VIEW
}

func short(data arrow.ArrayData, have int) error {
	return fault.New(fault.Invalid, "%d bytes for slots %d to %d", have, data.Offset(), data.Offset()+data.Len())
}

func (s *leafSource) bindVariable(data arrow.ArrayData, typ arrow.DataType) error {
	raw := bufferBytes(data, 1)
	s.text = isText(typ)
	switch typ.ID() {
	case arrow.STRING_VIEW, arrow.BINARY_VIEW:
		if len(raw) < (s.off+s.n)*arrow.ViewHeaderSizeBytes {
			return short(data, len(raw))
		}
		s.views = arrow.ViewHeaderTraits.CastFromBytes(raw)[s.off : s.off+s.n]
		for i := 2; i < len(data.Buffers()); i++ {
			s.bufs = append(s.bufs, bufferBytes(data, i))
		}
		return nil
	}
	s.heap = bufferBytes(data, 2)
	if s.n == 0 {
		s.off32 = []int32{0}
		return nil
	}
	width := 4
	if typ.ID() == arrow.LARGE_STRING || typ.ID() == arrow.LARGE_BINARY {
		width = 8
	}
	if len(raw)/width < s.off+s.n+1 {
		return short(data, len(raw))
	}
	if width == 8 {
		s.off64 = arrow.Int64Traits.CastFromBytes(raw)[s.off : s.off+s.n+1]
	} else {
		s.off32 = arrow.Int32Traits.CastFromBytes(raw)[s.off : s.off+s.n+1]
	}
	return nil
}

func (s *leafSource) bindList(v *values, data arrow.ArrayData, typ arrow.DataType) (err error) {
	t, ok := typ.(*arrow.FixedSizeListType)
	if !ok || int(t.Len()) != v.dim || len(data.Children()) != 1 {
		return fault.New(fault.Invalid, "the column stores %s", v.typ)
	}
	s.dim = v.dim
	if s.kid, err = v.kid.bind(data.Children()[0]); err != nil {
		return err
	}
	if need := (s.off + s.n) * v.dim; s.n > 0 && need > s.kid.n {
		return fault.New(fault.Invalid, "%d lists need %d items of %d", s.n, need, s.kid.n)
	}
	return nil
}

func (s *leafSource) bindStruct(v *values, data arrow.ArrayData, typ arrow.DataType) error {
	if typ.ID() != arrow.STRUCT || len(data.Children()) != len(v.kids) {
		return fault.New(fault.Invalid, "the column stores %s", v.typ)
	}
	for i, k := range v.kids {
		kid, err := k.bind(data.Children()[i])
		if err != nil {
			return err
		}
		if s.n > 0 && s.off+s.n > kid.n {
			return fault.New(fault.Invalid, "%d structs with %d values of a child", s.off+s.n, kid.n)
		}
		s.kids = append(s.kids, kid)
	}
	return nil
}

// size estimates the bytes of slots [from, to).
func (s *leafSource) size(from, to int) (int, error) {
	n := to - from
	switch {
	case from > to || to > s.n:
		return 0, fault.New(fault.Invalid, "encoding: slots %d to %d of an array of %d", from, to, s.n)
	case n == 0:
		return 0, nil
	case s.views != nil:
		size := 0
		for _, h := range s.views[from:to] {
			size += 4 + h.Len()
		}
		return size, nil
	case s.off32 != nil || s.off64 != nil:
		a, b := s.heapSpan(from, to)
		if a < 0 || b < a || b > len(s.heap) {
			return 0, fault.New(fault.Invalid, "encoding: values at bytes %d to %d of %d", a, b, len(s.heap))
		}
		return 4*n + b - a, nil
	case s.kid != nil:
		return s.kid.size((s.off+from)*s.dim, (s.off+to)*s.dim)
	case s.kids != nil:
		size := 0
		for _, k := range s.kids {
			part, err := k.size(s.off+from, s.off+to)
			if err != nil {
				return 0, err
			}
			size += part
		}
		return size, nil
	case s.index != nil:
		return 8 * n, nil
	case s.n == 0:
		return 0, nil
	default:
		return int(float64(len(s.fixed)) / float64(s.off+s.n) * float64(n)), nil
	}
}

func (s *leafSource) heapSpan(from, to int) (a, b int) {
	if s.off32 != nil {
		return int(s.off32[from]), int(s.off32[to])
	}
	return int(s.off64[from]), int(s.off64[to])
}

// append takes slots [from, to); nulls has a code other than 0 for each slot
// that is null, at whatever layer, and is nil when none is.
func (v *values) append(s *leafSource, from, to int, nulls []uint16) error {
	if from < 0 || from > to || to > s.n {
		return fault.New(fault.Invalid, "encoding: slots %d to %d of an array of %d", from, to, s.n)
	}
	n := to - from
	var err error
	switch v.kind {
	case bitVector:
		v.data = appendBits(v.data, v.n, s.fixed, s.off+from, s.off+to)
		for i, d := range nulls {
			if d != 0 {
				clearBit(v.data, v.n+i)
			}
		}
	case fixedVector:
		at := len(v.data)
		v.data = append(spacious(v.data, n*v.width), s.fixed[(s.off+from)*v.width:(s.off+to)*v.width]...)
		zeroNulls(v.data[at:], v.width, nulls)
	case var32Vector, var64Vector:
		err = v.appendVariable(s, from, to, nulls)
	case listVector:
		err = v.appendLists(s, from, to, nulls)
	case structVector:
		for i, k := range v.kids {
			if s.kids[i].anyValidNull(s.off+from, s.off+to, nulls) {
				t, _ := v.typ.(*arrow.StructType)
				return fault.New(fault.Invalid, "encoding: field %q of a packed struct is null; packed structs hold no nulls of their own fields: fill them or leave out %s", t.Field(i).Name, schema.KeyPacked)
			}
			if err := k.append(s.kids[i], s.off+from, s.off+to, nulls); err != nil {
				return err
			}
		}
	case dictVector:
		err = v.appendIndices(s, from, to, nulls)
	}
	v.n += n
	return err
}

// spacious makes room for n more elements. A page fills up in many steps, so
// memory is at least doubled; append alone would copy it four times as often.
func spacious[T any](s []T, n int) []T {
	if free := cap(s) - len(s); free < n {
		s = slices.Grow(s, max(n, cap(s)))
	}
	return s
}

func clearBit(p []byte, i int) { p[i>>3] &^= 1 << (i & 7) }

func zeroNulls(data []byte, width int, nulls []uint16) {
	switch {
	case nulls == nil:
	case width == 8:
		for i, d := range nulls {
			if d != 0 {
				binary.LittleEndian.PutUint64(data[8*i:], 0)
			}
		}
	case width == 4:
		for i, d := range nulls {
			if d != 0 {
				binary.LittleEndian.PutUint32(data[4*i:], 0)
			}
		}
	default:
		for i, d := range nulls {
			if d != 0 {
				clear(data[i*width : (i+1)*width])
			}
		}
	}
}

// anyValidNull tells whether a slot is null that the codes do not know of.
func (s *leafSource) anyValidNull(from, to int, nulls []uint16) bool {
	if s.valid == nil {
		return false
	}
	for i := from; i < to; i++ {
		if (nulls == nil || nulls[i-from] == 0) && !getBit(s.valid, s.validOff+i) {
			return true
		}
	}
	return false
}

// appendVariable copies text and binary in runs between nulls.
func (v *values) appendVariable(s *leafSource, from, to int, nulls []uint16) error {
	if s.views != nil || v.json && s.text {
		return v.appendSingly(s, from, to, nulls)
	}
	v.ends = spacious(v.ends, to-from)
	for i := from; i < to; {
		if nulls != nil && nulls[i-from] != 0 {
			v.ends = append(v.ends, uint32(len(v.data)))
			i++
			continue
		}
		end := to
		if nulls != nil {
			for end = i + 1; end < to && nulls[end-from] == 0; end++ {
			}
		}
		a, b := s.heapSpan(i, end)
		if a < 0 || a > b || b > len(s.heap) {
			return fault.New(fault.Invalid, "encoding: values at bytes %d to %d of %d", a, b, len(s.heap))
		}
		if err := v.room(b - a); err != nil {
			return err
		}
		shift := len(v.data) - a
		v.data = append(spacious(v.data, b-a), s.heap[a:b]...)
		ok := false
		if s.off32 != nil {
			v.ends, ok = appendEnds(v.ends, s.off32[i:end+1], shift)
		} else {
			v.ends, ok = appendEnds(v.ends, s.off64[i:end+1], shift)
		}
		if !ok {
			return fault.New(fault.Invalid, "encoding: the offsets of values %d to %d run backwards", i, end)
		}
		i = end
	}
	return nil
}

// appendEnds appends the ends of values, moved by shift; first and last offset
// are known to be good.
func appendEnds[T int32 | int64](ends []uint32, offs []T, shift int) ([]uint32, bool) {
	last, ok := offs[0], true
	for _, o := range offs[1:] {
		ok = ok && o >= last
		last = o
		ends = append(ends, uint32(int(o)+shift))
	}
	return ends, ok
}

// room refuses more bytes than a page can hold.
func (v *values) room(n int) error {
	if n > math.MaxInt32-len(v.data) {
		return fault.New(fault.Exhausted, "encoding: a row with %d bytes of values; at most 2^31 fit, store larger values as blobs", len(v.data)+n)
	}
	return nil
}
