package encoding

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/flightblob/flightblob/internal/fault"
)

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
