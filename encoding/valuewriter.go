package encoding

import (
	"github.com/flightblob/flightblob/encoding/internal/compress"
	"github.com/flightblob/flightblob/encoding/internal/fsst"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/internal/lancepb"
)

// valueWriter writes values that stand alone (sheet section 6.4).
type valueWriter interface {
	encoding() *lancepb.CompressiveEncoding
	// widths gives the bytes of every value, or, if that is 0, the bytes of the
	// length before each.
	widths() (fixed, length int)
	// size is about the number of bytes of all values, for memory that is set
	// aside.
	size() int
	// append appends value i.
	append(dst []byte, i int) ([]byte, error)
}

// valueWriter chooses how a page's values are stored one by one.
func (e *Encoder) valueWriter(w view) (valueWriter, error) {
	switch w.v.kind {
	case bitVector:
		return byteValues{w}, nil
	case fixedVector:
		return flatValues{w}, nil
	case listVector:
		return listValues{w, newListForm(w.v, w.at, w.n)}, nil
	case structVector:
		return e.packedValues(w), nil
	case var32Vector, var64Vector:
		return e.tuning.textValues(w)
	default:
		return nil, fault.New(fault.Internal, "encoding: values of type %s one by one", w.v.typ)
	}
}

// flatValues are values of fixed width.
type flatValues struct{ view }

func (c flatValues) encoding() *lancepb.CompressiveEncoding   { return flatEncoding(8 * c.v.width) }
func (c flatValues) widths() (int, int)                       { return c.v.width, 0 }
func (c flatValues) size() int                                { return c.n * c.v.width }
func (c flatValues) append(dst []byte, i int) ([]byte, error) { return append(dst, c.bytes(i)...), nil }

// byteValues are booleans as bytes.
type byteValues struct{ view }

func (c byteValues) encoding() *lancepb.CompressiveEncoding   { return flatEncoding(8) }
func (c byteValues) widths() (int, int)                       { return 1, 0 }
func (c byteValues) size() int                                { return c.n }
func (c byteValues) append(dst []byte, i int) ([]byte, error) { return append(dst, c.bytes(i)...), nil }

// plainValues are variable-width values as they are.
type plainValues struct{ view }

func (c plainValues) encoding() *lancepb.CompressiveEncoding {
	return variableEncoding(c.v.offsetBits())
}
func (c plainValues) widths() (int, int) { return 0, c.v.offsetBits() / 8 }
func (c plainValues) size() int          { return c.heapSize() }
func (c plainValues) append(dst []byte, i int) ([]byte, error) {
	return append(dst, c.bytes(i)...), nil
}

// codedValues are FSST codes.
type codedValues struct {
	view
	coder *fsst.Encoder
}

func (c codedValues) encoding() *lancepb.CompressiveEncoding {
	return fsstEncoding(c.coder.Table(), c.v.offsetBits())
}
func (c codedValues) widths() (int, int) { return 0, c.v.offsetBits() / 8 }
func (c codedValues) size() int          { return c.heapSize() }
func (c codedValues) append(dst []byte, i int) ([]byte, error) {
	return c.coder.AppendEncoded(dst, c.bytes(i)), nil
}

// compressedValues are compressed one by one, which is always zstd: of LZ4
// values the reference cannot read a page with nulls.
type compressedValues struct {
	view
	level int
}

func (c compressedValues) encoding() *lancepb.CompressiveEncoding {
	return generalEncoding(compression{compress.Zstd, c.level}, variableEncoding(c.v.offsetBits()))
}
func (c compressedValues) widths() (int, int) { return 0, c.v.offsetBits() / 8 }
func (c compressedValues) size() int          { return c.heapSize() }
func (c compressedValues) append(dst []byte, i int) ([]byte, error) {
	return compress.Append(dst, compress.Zstd, c.level, c.bytes(i))
}

// textValues chooses the form of variable-width values. Values of some length
// are compressed one by one where a sample says that it pays.
func (t *tuning) textValues(w view) (valueWriter, error) {
	plain := plainValues{w}
	heap, _ := w.heap()
	if t.plain || len(heap) < codedLeast && !t.fsst {
		return plain, nil
	}
	if t.general.scheme != 0 {
		return compressedValues{w, t.general.level}, nil
	}
	coder, ratio := t.coder(w)
	if t.fsst {
		return codedValues{w, coder}, nil
	}
	if len(heap)/w.n >= compressedMean {
		r, err := compressedRatio(w)
		if err != nil {
			return nil, err
		}
		if r < 0.9 && r < 0.9*ratio {
			return compressedValues{w, 0}, nil
		}
	}
	if coder != nil {
		return codedValues{w, coder}, nil
	}
	return plain, nil
}

// compressedMean is the mean size from which on values are worth a frame of
// their own.
const compressedMean = 1 << 10

// compressedRatio compresses some values.
func compressedRatio(w view) (float64, error) {
	const most = 4 * sampleBytes
	before, after := 1, 1
	step := max(1, w.n/64)
	var scratch []byte
	for i := 0; i < w.n && before < most; i += step {
		v := w.bytes(i)
		v = v[:min(len(v), most)]
		var err error
		if scratch, err = compress.Append(scratch[:0], compress.Zstd, 0, v); err != nil {
			return 0, err
		}
		before += len(v)
		after += len(scratch)
	}
	return float64(after) / float64(before), nil
}

// listValues are fixed-size lists: for every level with null items its bitmap,
// then the items.
type listValues struct {
	view
	f listForm
}

func (c listValues) encoding() *lancepb.CompressiveEncoding { return c.f.encoding() }
func (c listValues) widths() (int, int)                     { return c.f.fslPlan.rowBytes(), 0 }

func (c listValues) size() int { return c.n * c.f.fslPlan.rowBytes() }

func (c listValues) append(dst []byte, i int) ([]byte, error) {
	from, to := c.at+i, c.at+i+1
	v := c.v
	for k := range c.f.dims {
		from, to = from*v.dim, to*v.dim
		if c.f.validity[k] {
			if v.valid != nil {
				dst = append(dst, appendBits(nil, 0, v.valid, from, to)...)
			} else {
				dst = append(dst, appendOnes(nil, 0, to-from)...)
			}
		}
		v = v.kid
	}
	if v.kind == bitVector {
		return append(dst, appendBits(nil, 0, v.data, from, to)...), nil
	}
	return append(dst, v.data[from*v.width:to*v.width]...), nil
}

// packedValues are the fields of a packed struct one after the other. Blob
// descriptors are such.
type packedValues struct {
	fields []packedChild
}

type packedChild struct {
	valueWriter
	length int
}

// packedValues makes writers for all children. Text has symbols of its own
// where that pays, as long references in descriptors do.
func (e *Encoder) packedValues(w view) packedValues {
	var c packedValues
	for _, kid := range w.v.kids {
		child := view{kid, w.at, w.n}
		var vw valueWriter
		switch kid.kind {
		case listVector:
			vw = listValues{child, newListForm(kid, w.at, w.n)}
		case fixedVector:
			vw = flatValues{child}
		default:
			vw = plainValues{child}
			if coder, _ := e.tuning.coder(child); coder != nil {
				vw = codedValues{child, coder}
			}
		}
		_, length := vw.widths()
		c.fields = append(c.fields, packedChild{vw, length})
	}
	return c
}

func (c packedValues) encoding() *lancepb.CompressiveEncoding {
	m := &lancepb.VariablePackedStruct{}
	for _, f := range c.fields {
		child := &lancepb.VariablePackedStruct_Child{Value: f.encoding()}
		if fixed, length := f.widths(); fixed > 0 {
			child.Width = &lancepb.VariablePackedStruct_Child_BitsPerValue{BitsPerValue: uint64(8 * fixed)}
		} else {
			child.Width = &lancepb.VariablePackedStruct_Child_BitsPerLength{BitsPerLength: uint64(8 * length)}
		}
		m.Fields = append(m.Fields, child)
	}
	return &lancepb.CompressiveEncoding{Compression: &lancepb.CompressiveEncoding_VariablePackedStruct{VariablePackedStruct: m}}
}

func (c packedValues) widths() (int, int) { return 0, 4 }

func (c packedValues) size() int {
	n := 0
	for _, f := range c.fields {
		n += f.size()
	}
	return n
}

func (c packedValues) append(dst []byte, i int) (_ []byte, err error) {
	for _, f := range c.fields {
		at := len(dst)
		dst = append(dst, zeros[:f.length]...)
		if dst, err = f.append(dst, i); err != nil {
			return nil, err
		}
		for b := range f.length {
			dst[at+b] = byte((len(dst) - at - f.length) >> (8 * b))
		}
	}
	return dst, nil
}
