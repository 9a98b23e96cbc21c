package encoding

import (
	"github.com/flightblob/flightblob/encoding/internal/fsst"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/internal/lancepb"
)

// valueCodec decodes values that stand alone, as full-zip pages store them
// (sheet section 6.4). One goroutine at a time.
type valueCodec struct {
	ce      *lancepb.CompressiveEncoding
	fsst    *fsst.Decoder
	inner   *valueCodec // of fsst and general
	fsl     *fslPlan
	fields  []packedField
	bits    int
	scratch []byte
	offs    []int64
}

// packedField is one child of a variable packed struct.
type packedField struct {
	codec  *valueCodec
	fixed  int // bytes of a fixed-width child
	length int // bytes of the length of a variable one
	simple bool
	spans  []span
	values []byte
}

func newValueCodec(ce *lancepb.CompressiveEncoding, bits, depth int) (*valueCodec, error) {
	if depth > maxNesting {
		return nil, fault.Corruptf(-1, "encoding: encodings nested deeper than %d", maxNesting)
	}
	c := &valueCodec{ce: ce, bits: bits}
	var err error
	switch k := ce.GetCompression().(type) {
	case *lancepb.CompressiveEncoding_Flat:
		if k.Flat.GetBitsPerValue() != uint64(bits) {
			return nil, fault.Corruptf(-1, "encoding: values of %d bits in slots of %d", k.Flat.GetBitsPerValue(), bits)
		}
	case *lancepb.CompressiveEncoding_PackedStruct:
		if bits == 0 {
			return nil, fault.Corruptf(-1, "encoding: fixed-width values in a variable-width page")
		}
	case *lancepb.CompressiveEncoding_Constant:
		if v := k.Constant.Value; bits == 0 || v != nil && 8*len(v) != bits {
			return nil, fault.Corruptf(-1, "encoding: constant of %d bytes in slots of %d bits", len(v), bits)
		}
	case *lancepb.CompressiveEncoding_FixedSizeList:
		if c.fsl, err = newFSLPlan(k.FixedSizeList); err == nil && c.fsl.rowBytes()*8 != bits {
			err = fault.Corruptf(-1, "encoding: lists of %d bytes in slots of %d bits", c.fsl.rowBytes(), bits)
		}
	case *lancepb.CompressiveEncoding_Variable:
		if bits != 0 || k.Variable.GetOffsets().GetFlat() == nil {
			err = fault.Corruptf(-1, "encoding: variable-width values out of place")
		}
	case *lancepb.CompressiveEncoding_Fsst:
		if c.fsst, err = fsst.Parse(k.Fsst.GetSymbolTable()); err == nil {
			c.inner, err = newValueCodec(k.Fsst.GetValues(), bits, depth+1)
		}
	case *lancepb.CompressiveEncoding_General:
		c.inner, err = newValueCodec(k.General.GetValues(), bits, depth+1)
	case *lancepb.CompressiveEncoding_VariablePackedStruct:
		err = c.setFields(k.VariablePackedStruct, depth)
	default:
		err = unsupported("per-value", ce)
	}
	if err == nil && bits != 0 && (c.fsst != nil || ce.GetGeneral() != nil || c.fields != nil) {
		err = fault.Corruptf(-1, "encoding: variable-width values in slots of %d bits", bits)
	}
	return c, err
}

func (c *valueCodec) setFields(m *lancepb.VariablePackedStruct, depth int) error {
	if len(m.GetFields()) == 0 {
		return fault.Corruptf(-1, "encoding: packed struct without children")
	}
	for _, f := range m.GetFields() {
		var pf packedField
		var err error
		bits := 0
		switch w := f.GetWidth().(type) {
		case *lancepb.VariablePackedStruct_Child_BitsPerValue:
			if w.BitsPerValue == 0 || w.BitsPerValue%8 != 0 || w.BitsPerValue > maxValueBits {
				return fault.Corruptf(-1, "encoding: packed child of %d bits", w.BitsPerValue)
			}
			bits = int(w.BitsPerValue)
			pf.fixed = bits / 8
			pf.simple = f.GetValue().GetFlat() != nil
		case *lancepb.VariablePackedStruct_Child_BitsPerLength:
			if w.BitsPerLength != 32 && w.BitsPerLength != 64 {
				return fault.Corruptf(-1, "encoding: packed child with lengths of %d bits", w.BitsPerLength)
			}
			pf.length = int(w.BitsPerLength / 8)
			pf.simple = f.GetValue().GetVariable() != nil
		default:
			return fault.Corruptf(-1, "encoding: packed child without a width")
		}
		if pf.codec, err = newValueCodec(f.GetValue(), bits, depth+1); err != nil {
			return err
		}
		c.fields = append(c.fields, pf)
	}
	return nil
}

// appendFixed appends n values that lie one after the other.
func (c *valueCodec) appendFixed(out *vector, data []byte, n int) error {
	var b *block
	var err error
	switch k := c.ce.GetCompression().(type) {
	case *lancepb.CompressiveEncoding_Flat:
		b, err = newFixed(data, c.bits, n)
	case *lancepb.CompressiveEncoding_PackedStruct:
		b, err = packedRows(k.PackedStruct, data, n)
	case *lancepb.CompressiveEncoding_Constant:
		b, err = constantBlock(k.Constant, n)
	case *lancepb.CompressiveEncoding_FixedSizeList:
		b, err = c.fsl.rows(data, n)
	default:
		err = unsupported("per-value", c.ce)
	}
	if err != nil {
		return err
	}
	return out.append(b, 0, n)
}

// constantBlock repeats a value for n slots, which their own bytes back.
func constantBlock(m *lancepb.Constant, n int) (*block, error) {
	if m.Value == nil {
		return &block{kind: nullBlock, n: n}, nil
	}
	data := make([]byte, n*len(m.Value))
	fill(data, m.Value)
	return newFixed(data, 8*len(m.Value), n)
}

// appendSpans appends variable-width values that lie at spans of data.
func (c *valueCodec) appendSpans(out *vector, data []byte, spans []span) error {
	if c.fields != nil {
		return c.appendPacked(out, data, spans)
	}
	if c.ce.GetVariable() != nil && (out.kind == var32Vector || out.kind == var64Vector) {
		return out.appendSpans(data, spans)
	}
	b, err := c.block(data, spans)
	if err != nil {
		return err
	}
	return out.append(b, 0, b.n)
}

// block decodes spans into a variable block over scratch memory.
func (c *valueCodec) block(data []byte, spans []span) (*block, error) {
	if cap(c.offs) <= len(spans) {
		c.offs = make([]int64, len(spans)+1)
	}
	offs, out := c.offs[:len(spans)+1], c.scratch[:0]
	offs[0] = 0
	for i, s := range spans {
		if s.size > 0 {
			v, err := c.one(data[s.at : s.at+s.size])
			if err != nil {
				return nil, fault.At(int64(s.at), err)
			}
			if len(out)+len(v) > maxVectorBytes {
				return nil, tooLarge(int64(len(out) + len(v)))
			}
			out = append(out, v...)
		}
		offs[i+1] = int64(len(out))
	}
	c.scratch = out
	return &block{kind: varBlock, n: len(spans), data: out, offs: offs}, nil
}

// one decodes the bytes of a single value.
func (c *valueCodec) one(v []byte) ([]byte, error) {
	switch k := c.ce.GetCompression().(type) {
	case *lancepb.CompressiveEncoding_Variable:
		return v, nil
	case *lancepb.CompressiveEncoding_Fsst:
		v, err := c.inner.one(v)
		if err != nil {
			return nil, err
		}
		return c.fsst.AppendDecoded(nil, v)
	case *lancepb.CompressiveEncoding_General:
		v, err := decompress(k.General, v)
		if err != nil {
			return nil, err
		}
		return c.inner.one(v)
	default:
		return nil, unsupported("per-value", c.ce)
	}
}

// appendPacked appends rows of a variable packed struct: children one after
// the other, each row consumed exactly; a null row is zeros.
func (c *valueCodec) appendPacked(out *vector, data []byte, spans []span) error {
	if out.kind != structVector || len(out.kids) != len(c.fields) {
		return fault.Corruptf(-1, "encoding: type %s stored as a packed struct of %d children", out.typ, len(c.fields))
	}
	direct := true
	for i := range c.fields {
		f, kid := &c.fields[i], out.kids[i]
		f.spans, f.values = f.spans[:0], f.values[:0]
		direct = direct && f.simple && (f.fixed > 0 && kid.kind == fixedVector && kid.width == f.fixed || f.length > 0 && kid.kind == var32Vector)
	}
	if direct {
		return c.appendDirect(out, data, spans)
	}
	for _, s := range spans {
		pos, end := s.at, s.at+max(s.size, 0)
		for i := range c.fields {
			f := &c.fields[i]
			at, size, next, err := f.next(data, pos, end, s.size <= 0)
			if err != nil {
				return err
			}
			switch {
			case f.length > 0:
				f.spans = append(f.spans, span{at, size})
			case s.size <= 0:
				f.values = append(f.values, make([]byte, f.fixed)...)
			default:
				f.values = append(f.values, data[at:at+size]...)
			}
			pos = next
		}
		if pos != end {
			return fault.Corruptf(int64(s.at), "encoding: packed row of %d bytes uses %d", s.size, pos-s.at)
		}
	}
	for i := range c.fields {
		f := &c.fields[i]
		var err error
		if f.length > 0 {
			err = f.codec.appendSpans(out.kids[i], data, f.spans)
		} else {
			err = f.codec.appendFixed(out.kids[i], f.values, len(spans))
		}
		if err != nil {
			return err
		}
	}
	out.n += len(spans)
	return nil
}

// next finds a child's bytes at pos of a row that ends at end.
func (f *packedField) next(data []byte, pos, end int, empty bool) (at, size, after int, err error) {
	if empty {
		return pos, 0, pos, nil
	}
	size = f.fixed
	if f.length > 0 {
		if end-pos < f.length {
			return 0, 0, 0, fault.Corruptf(int64(pos), "encoding: packed length cut short")
		}
		n := readWide(data[pos:], f.length)
		pos += f.length
		if n > uint64(end-pos) {
			return 0, 0, 0, fault.Corruptf(int64(pos), "encoding: packed child of %d bytes in %d", n, end-pos)
		}
		size = int(n)
	}
	if size > end-pos {
		return 0, 0, 0, fault.Corruptf(int64(pos), "encoding: packed child of %d bytes in %d", size, end-pos)
	}
	return pos, size, pos + size, nil
}

// appendDirect is appendPacked for plain children of a descriptor-like struct:
// bytes go straight from the row into the columns.
func (c *valueCodec) appendDirect(out *vector, data []byte, spans []span) error {
	for i := range c.fields {
		kid := out.kids[i]
		if kid.kind == fixedVector {
			kid.data = growTo(kid.data, len(kid.data)+len(spans)*kid.width)
		} else {
			kid.off32 = growTo(kid.off32, len(kid.off32)+len(spans))
		}
	}
	for r, s := range spans {
		pos, end := s.at, s.at+max(s.size, 0)
		for i := range c.fields {
			f, kid := &c.fields[i], out.kids[i]
			slot := out.n + r
			if s.size <= 0 {
				if f.fixed > 0 {
					clear(kid.data[slot*f.fixed : (slot+1)*f.fixed])
				} else {
					kid.off32[slot+1] = int32(len(kid.data))
				}
				continue
			}
			at, size, after, err := f.next(data, pos, end, false)
			if err != nil {
				return err
			}
			if f.fixed > 0 {
				copy(kid.data[slot*f.fixed:], data[at:at+size])
			} else {
				if len(kid.data)+size > maxVectorBytes {
					return tooLarge(int64(len(kid.data) + size))
				}
				kid.data = append(kid.data, data[at:at+size]...)
				kid.off32[slot+1] = int32(len(kid.data))
			}
			pos = after
		}
		if pos != end {
			return fault.Corruptf(int64(s.at), "encoding: packed row of %d bytes uses %d", s.size, pos-s.at)
		}
	}
	for _, kid := range out.kids {
		kid.n += len(spans)
	}
	out.n += len(spans)
	return nil
}
