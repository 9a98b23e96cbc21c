package encoding

import (
	"encoding/binary"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/internal/lancepb"
	"github.com/flightblob/flightblob/schema"
)

// packed20 is rows of children side by side, without padding and without nulls
// (sheet section 5.7).
type packed20 struct {
	buf    Extent
	widths []int // bytes of each child
	row    int
	sel    []Range
	count  int
	parts  [][]byte
}

func newPacked20(p *page20, m *lancepb.PackedStruct20, n uint64, sel []Range, count int) (array20, error) {
	buf, err := p.buffer(m.GetBuffer())
	if err != nil {
		return nil, err
	}
	s := &packed20{buf: buf, sel: sel, count: count}
	for _, child := range m.GetInner() {
		// Only the width counts: the buffers that children name mean nothing.
		width, err := packedWidth20(child, 0)
		if err != nil {
			return nil, err
		}
		if s.row += width; s.row > maxVectorBytes {
			return nil, fault.Corruptf(-1, "encoding: packed rows of more than %d bytes", maxVectorBytes)
		}
		s.widths = append(s.widths, width)
	}
	if s.row > 0 && n > buf.Size/uint64(s.row) {
		return nil, fault.Corruptf(int64(buf.Offset), "encoding: %d packed rows of %d bytes in a buffer of %d", n, s.row, buf.Size)
	}
	return s, nil
}

// packedWidth20 is the bytes of one child in a packed row.
func packedWidth20(enc *lancepb.ArrayEncoding20, depth int) (int, error) {
	if depth > maxDepth20 {
		return 0, fault.Corruptf(-1, "encoding: array encodings nested deeper than %d", maxDepth20)
	}
	switch enc = bare20(enc); m := enc.GetArray().(type) {
	case *lancepb.ArrayEncoding20_Flat:
		if bits := m.Flat.GetBitsPerValue(); bits > 0 && bits%8 == 0 && bits <= maxValueBits {
			return int(bits / 8), nil
		}
		return 0, fault.New(fault.Unsupported, "encoding: unsupported 2.0 encoding: packed child of %d bits", m.Flat.GetBitsPerValue())
	case *lancepb.ArrayEncoding20_FixedSizeList:
		width, err := packedWidth20(m.FixedSizeList.GetItems(), depth+1)
		dim := uint64(m.FixedSizeList.GetDimension())
		if err == nil && dim > maxVectorBytes/uint64(max(width, 1)) {
			err = fault.Corruptf(-1, "encoding: packed child of %d items", dim)
		}
		return width * int(dim), err
	default:
		return 0, fault.New(fault.Unsupported, "encoding: unsupported 2.0 encoding: packed child stored as %s", kindOf20(enc))
	}
}

func (s *packed20) want(q *queue20) error {
	s.parts = make([][]byte, len(s.sel))
	w := uint64(s.row)
	for i, r := range s.sel {
		if err := q.want(s.buf, r.Start*w, r.End*w, &s.parts[i]); err != nil {
			return err
		}
	}
	return nil
}

func (s *packed20) more(*queue20) error { return nil }

func (s *packed20) take() (slots20, error) {
	rows := joinBytes(s.parts)
	b := &block{kind: structBlock, n: s.count}
	at := 0
	for _, w := range s.widths {
		kid := &block{kind: fixedBlock, n: s.count, bits: 8 * w, data: make([]byte, s.count*w)}
		gatherColumn(kid.data, rows[min(at, len(rows)):], w, s.row)
		b.kids = append(b.kids, kid)
		at += w
	}
	return slots20{n: s.count, block: b}, nil
}

// gatherColumn copies values of w bytes that lie stride bytes apart.
func gatherColumn(dst, src []byte, w, stride int) {
	switch w {
	case 4:
		for i := 0; i < len(dst); i += 4 {
			binary.LittleEndian.PutUint32(dst[i:], binary.LittleEndian.Uint32(src[i/4*stride:]))
		}
	case 8:
		for i := 0; i < len(dst); i += 8 {
			binary.LittleEndian.PutUint64(dst[i:], binary.LittleEndian.Uint64(src[i/8*stride:]))
		}
	default:
		for i := 0; i < len(dst); i += w {
			copy(dst[i:i+w], src[i/w*stride:])
		}
	}
}

// child picks one child of a packed struct, looking through the fixed-size
// list that may be around it.
func (s slots20) child(number int) (slots20, error) {
	b := s.block
	if b.kind == listBlock {
		b = b.kids[0]
	}
	if b.kind == nullBlock {
		return slots20{n: b.n, block: b}, nil
	}
	if b.kind != structBlock || number >= len(b.kids) {
		return slots20{}, fault.Corruptf(-1, "encoding: child %d of a packed struct stored as %s", number, b.describe())
	}
	return slots20{n: b.n, block: b.kids[number]}, nil
}

// pair20 is the stored form of a blob descriptor (sheet section 7).
var pair20 = arrow.StructOf(
	arrow.Field{Name: "position", Type: arrow.PrimitiveTypes.Uint64},
	arrow.Field{Name: "size", Type: arrow.PrimitiveTypes.Uint64},
)

// descriptors makes descriptor values of stored pairs: everything else about a
// legacy blob is fixed (kind 0, the bytes are in this file). Size 0 at a
// position other than 0 is null.
func descriptors(pairs *vector) (arrow.Array, int, []byte) {
	n := pairs.n
	position, size := pairs.kids[0].data, pairs.kids[1].data
	valid, nulls := appendOnes(nil, 0, n), 0
	for i := range n {
		if binary.LittleEndian.Uint64(size[8*i:]) == 0 && binary.LittleEndian.Uint64(position[8*i:]) != 0 {
			valid[i>>3] &^= 1 << (i & 7)
			nulls++
		}
	}
	if nulls == 0 {
		valid = nil
	}
	columns := [][]byte{make([]byte, n), position, size, make([]byte, 4*n), make([]byte, 4*(n+1))}
	kids := make([]arrow.ArrayData, len(columns))
	for i, f := range schema.DescriptorType.Fields() {
		buffers := []*memory.Buffer{nil, memory.NewBufferBytes(columns[i])}
		if f.Type.ID() == arrow.STRING {
			buffers = append(buffers, memory.NewBufferBytes(nil)) // n empty strings
		}
		data := array.NewData(f.Type, n, buffers, nil, 0, 0)
		defer data.Release()
		kids[i] = data
	}
	return newStruct20(schema.DescriptorType, n, valid, nulls, kids), nulls, valid
}

func newStruct20(t arrow.DataType, n int, valid []byte, nulls int, kids []arrow.ArrayData) arrow.Array {
	var bitmap *memory.Buffer
	if nulls > 0 {
		bitmap = memory.NewBufferBytes(valid)
	}
	data := array.NewData(t, n, []*memory.Buffer{bitmap}, kids, nulls, 0)
	defer data.Release()
	return array.MakeFromData(data)
}
