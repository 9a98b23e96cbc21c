package encoding

import (
	"github.com/apache/arrow-go/v18/arrow"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/internal/jsonb"
)

// appendSingly takes variable-width values one by one: views, and JSON text
// that is stored in binary form.
func (v *values) appendSingly(s *leafSource, from, to int, nulls []uint16) error {
	for i := from; i < to; i++ {
		if nulls == nil || nulls[i-from] == 0 {
			value, err := s.bytesOf(i)
			if err != nil {
				return err
			}
			if err := v.room(len(value)); err != nil {
				return err
			}
			if v.json && s.text {
				if v.data, err = jsonb.Append(v.data, value); err != nil {
					return fault.New(fault.Invalid, "encoding: value %d of a JSON column: %w", i, err)
				}
			} else {
				v.data = append(v.data, value...)
			}
		}
		v.ends = append(v.ends, uint32(len(v.data)))
	}
	return nil
}

// bytesOf gives the bytes of a slot of fixed or variable width.
func (s *leafSource) bytesOf(i int) ([]byte, error) {
	if s.views == nil {
		a, b := s.heapSpan(i, i+1)
		if a < 0 || a > b || b > len(s.heap) {
			return nil, fault.New(fault.Invalid, "encoding: value %d lies at bytes %d to %d of %d", i, a, b, len(s.heap))
		}
		return s.heap[a:b], nil
	}
	h := &s.views[i]
	if h.Len() < 0 {
		return nil, fault.New(fault.Invalid, "encoding: value %d has %d bytes", i, h.Len())
	}
	if h.IsInline() {
		return h.InlineBytes(), nil
	}
	buf, at := int(h.BufferIndex()), int(h.BufferOffset())
	if buf < 0 || buf >= len(s.bufs) || at < 0 || at > len(s.bufs[buf]) || h.Len() > len(s.bufs[buf])-at {
		return nil, fault.New(fault.Invalid, "encoding: value %d lies at bytes %d to %d of buffer %d", i, at, at+h.Len(), buf)
	}
	return s.bufs[buf][at : at+h.Len()], nil
}

// appendLists takes fixed-size lists; null ones become lists of zeros, whose
// items count as valid.
func (v *values) appendLists(s *leafSource, from, to int, nulls []uint16) error {
	a, b := (s.off+from)*v.dim, (s.off+to)*v.dim
	items := expandNulls(nulls, v.dim)
	before := v.kid.n
	if err := v.kid.append(s.kid, a, b, items); err != nil {
		return err
	}
	if v.valid == nil && s.kid.anyValidNull(a, b, items) {
		v.valid = appendOnes(make([]byte, 0, (before+b-a+7)/8), 0, before)
	}
	if v.valid == nil {
		return nil
	}
	if s.kid.valid == nil {
		v.valid = appendOnes(v.valid, before, b-a)
		return nil
	}
	v.valid = appendBits(v.valid, before, s.kid.valid, s.kid.validOff+a, s.kid.validOff+b)
	for i, d := range items {
		if d != 0 {
			setBit(v.valid, before+i)
		}
	}
	// A null item is zeros, too.
	for i := range b - a {
		if !getBit(v.valid, before+i) {
			v.kid.zero(before + i)
		}
	}
	return nil
}

// expandNulls repeats each code for the items of its list.
func expandNulls(nulls []uint16, dim int) []uint16 {
	if nulls == nil {
		return nil
	}
	out := make([]uint16, len(nulls)*dim)
	for i, d := range nulls {
		if d != 0 {
			for k := i * dim; k < (i+1)*dim; k++ {
				out[k] = d
			}
		}
	}
	return out
}

// zero clears value i of fixed width, with all below it.
func (v *values) zero(i int) {
	switch v.kind {
	case bitVector:
		clearBit(v.data, i)
	case fixedVector:
		clear(v.data[i*v.width : (i+1)*v.width])
	case listVector:
		for k := i * v.dim; k < (i+1)*v.dim; k++ {
			v.kid.zero(k)
			if v.valid != nil {
				setBit(v.valid, k)
			}
		}
	}
}

// bindDictionary finds the indices and values of a dictionary array. A slot
// whose value is null is null.
func (s *leafSource) bindDictionary(v *values, data arrow.ArrayData, typ arrow.DataType) error {
	t, _ := typ.(*arrow.DictionaryType)
	dict := data.Dictionary()
	if dict == nil {
		return fault.New(fault.Invalid, "a dictionary array without a dictionary")
	}
	var err error
	if s.dict, err = v.items.values.bind(dict); err != nil {
		return err
	}
	raw := bufferBytes(data, 1)
	if len(raw) < (s.off+s.n)*v.width {
		return short(data, len(raw))
	}
	raw = raw[s.off*v.width : (s.off+s.n)*v.width]
	s.index = indexReader(t.IndexType, raw)
	s.remap = make([]int32, s.dict.n)
	for i := range s.remap {
		s.remap[i] = -1
	}
	if s.dict.valid == nil {
		return nil
	}
	valid := make([]byte, (s.n+7)/8)
	for i := range s.n {
		k := s.index(i)
		if (s.valid == nil || getBit(s.valid, s.validOff+i)) && k < uint64(s.dict.n) && getBit(s.dict.valid, s.dict.validOff+int(k)) {
			setBit(valid, i)
		}
	}
	s.valid, s.validOff = valid, 0
	return nil
}

// indexReader reads dictionary indices; negative ones become too large.
func indexReader(t arrow.DataType, raw []byte) func(i int) uint64 {
	switch t.ID() {
	case arrow.INT8:
		return readIndex(arrow.Int8Traits.CastFromBytes(raw))
	case arrow.UINT8:
		return readIndex(raw)
	case arrow.INT16:
		return readIndex(arrow.Int16Traits.CastFromBytes(raw))
	case arrow.UINT16:
		return readIndex(arrow.Uint16Traits.CastFromBytes(raw))
	case arrow.INT32:
		return readIndex(arrow.Int32Traits.CastFromBytes(raw))
	case arrow.UINT32:
		return readIndex(arrow.Uint32Traits.CastFromBytes(raw))
	case arrow.INT64:
		return readIndex(arrow.Int64Traits.CastFromBytes(raw))
	default:
		return readIndex(arrow.Uint64Traits.CastFromBytes(raw))
	}
}

func readIndex[T int8 | uint8 | int16 | uint16 | int32 | uint32 | int64 | uint64](idx []T) func(i int) uint64 {
	return func(i int) uint64 { return uint64(idx[i]) }
}

// appendIndices takes slots of a dictionary array, numbering their values anew:
// a page holds the values that occur in it.
func (v *values) appendIndices(s *leafSource, from, to int, nulls []uint16) error {
	if s.remap == nil || v.items.generation != s.generation {
		s.generation = v.items.generation
		for i := range s.remap {
			s.remap[i] = -1
		}
	}
	for i := from; i < to; i++ {
		k := int32(0)
		if nulls == nil || nulls[i-from] == 0 {
			index := s.index(i)
			if index >= uint64(len(s.remap)) {
				return fault.New(fault.Invalid, "encoding: the dictionary index of slot %d lies outside the %d values", i, len(s.remap))
			}
			if k = s.remap[index]; k < 0 {
				var err error
				if k, err = v.items.add(s.dict, int(index)); err != nil {
					return err
				}
				s.remap[index] = k
			}
		}
		for b := range v.width {
			v.data = append(v.data, byte(uint64(k)>>(8*b)))
		}
	}
	return nil
}

// indexLimit is how many values the index type can number.
func (v *values) indexLimit() int {
	t, _ := v.typ.(*arrow.DictionaryType)
	switch t.IndexType.ID() {
	case arrow.INT8:
		return 1 << 7
	case arrow.UINT8:
		return 1 << 8
	case arrow.INT16:
		return 1 << 15
	case arrow.UINT16:
		return 1 << 16
	default:
		return 1<<31 - 1
	}
}
