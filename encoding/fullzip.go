package encoding

import (
	"encoding/binary"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/internal/lancepb"
)

// fullZip is the layout of wide values (sheet section 5.2): per entry a control
// word, then the value if the entry is visible. Variable-width pages and pages
// with lists have a repetition index in buffer 1, the byte position of each row.
//
//	fixed:     control | value
//	variable:  control | length | bytes       (a null has no length)
type fullZip struct {
	shape     *pageShape
	levels    *levelPlan
	bitsRep   uint
	bitsDef   uint
	control   int // bytes of a control word
	items     uint64
	fixed     int // bytes of a fixed-width value, 0 for variable ones
	length    int // bytes of a length
	value     *lancepb.CompressiveEncoding
	indexed   bool
	indexWide int // bytes of an index entry
}

func newFullZip(shape *pageShape, m *lancepb.FullZipLayout) (*fullZip, error) {
	levels, err := newLevelPlan(m.GetLayers(), shape.steps)
	if err != nil {
		return nil, err
	}
	z := &fullZip{
		shape: shape, levels: levels, bitsRep: uint(m.GetBitsRep()), bitsDef: uint(m.GetBitsDef()),
		items: uint64(m.GetNumItems()), value: m.GetValueCompression(),
	}
	switch w := m.GetWidth().(type) {
	case *lancepb.FullZipLayout_BitsPerValue:
		err = z.setFixed(uint64(w.BitsPerValue))
	case *lancepb.FullZipLayout_BitsPerOffset:
		err = z.setVariable(uint64(w.BitsPerOffset))
	default:
		err = fault.Corruptf(-1, "encoding: full-zip page without a width")
	}
	if err != nil {
		return nil, err
	}
	return z, z.init()
}

func (z *fullZip) setFixed(bits uint64) error {
	if bits == 0 || bits%8 != 0 || bits > maxValueBits {
		return fault.Corruptf(-1, "encoding: full-zip values of %d bits", bits)
	}
	z.fixed = int(bits / 8)
	return nil
}

func (z *fullZip) setVariable(bits uint64) error {
	if bits != 32 && bits != 64 {
		return fault.Corruptf(-1, "encoding: full-zip lengths of %d bits", bits)
	}
	z.length = int(bits / 8)
	return nil
}

func (z *fullZip) init() error {
	switch bits := z.bitsRep + z.bitsDef; {
	case z.bitsRep > 16 || z.bitsDef > 16:
		return fault.Corruptf(-1, "encoding: control words of %d and %d bits", z.bitsRep, z.bitsDef)
	case bits == 0:
	case bits <= 8:
		z.control = 1
	case bits <= 16:
		z.control = 2
	default:
		z.control = 4
	}
	if (z.levels.lists > 0) != (z.bitsRep > 0) {
		return fault.Corruptf(-1, "encoding: %d list layers with repetition levels of %d bits", z.levels.lists, z.bitsRep)
	}
	z.indexed = z.fixed == 0 || z.bitsRep > 0
	if err := z.shape.needBuffers(1 + btoi(z.indexed)); err != nil {
		return err
	}
	if z.indexed {
		// Entries of fixed-size lists count as rows here.
		rows := z.shape.rows * z.shape.scale
		wide := z.shape.buffers[1].Size / (rows + 1)
		switch wide {
		case 1, 2, 4, 8:
		default:
			return fault.Corruptf(int64(z.shape.buffers[1].Offset), "encoding: repetition index of %d bytes for %d rows", z.shape.buffers[1].Size, rows)
		}
		if wide*(rows+1) != z.shape.buffers[1].Size {
			return fault.Corruptf(int64(z.shape.buffers[1].Offset), "encoding: repetition index of %d bytes for %d rows", z.shape.buffers[1].Size, rows)
		}
		z.indexWide = int(wide)
		return nil
	}
	if stride := uint64(z.control + z.fixed); z.items != z.shape.rows*z.shape.scale || z.items > z.shape.buffers[0].Size/stride || z.items*stride != z.shape.buffers[0].Size {
		return fault.Corruptf(int64(z.shape.buffers[0].Offset), "encoding: %d entries of %d bytes for %d rows in %d bytes", z.items, stride, z.shape.rows, z.shape.buffers[0].Size)
	}
	return nil
}

func (z *fullZip) index() []Extent                      { return nil }
func (z *fullZip) newIndex([][]byte) (pageIndex, error) { return noIndex{}, nil }
func (z *fullZip) locate(_ pageIndex, rows []Range) ([]Extent, error) {
	if !z.indexed {
		return nil, nil
	}
	return positionExtents(z.shape.buffers[1], z.indexWide, z.scaled(rows))
}

// scaled turns rows into entries of fixed-size lists.
func (z *fullZip) scaled(rows []Range) []Range {
	if z.shape.scale == 1 {
		return rows
	}
	out := make([]Range, len(rows))
	for i, r := range rows {
		out[i] = Range{r.Start * z.shape.scale, r.End * z.shape.scale}
	}
	return out
}

// positionExtents names the index entries that bound each range: both ends, in
// one extent when they are close.
func positionExtents(buf Extent, wide int, rows []Range) ([]Extent, error) {
	var out []Extent
	for _, r := range rows {
		w := uint64(wide)
		if r.Len() <= closeEntries {
			e, err := within(buf, r.Start*w, (r.End+1)*w)
			if err != nil {
				return nil, err
			}
			out = append(out, e)
			continue
		}
		for _, at := range []uint64{r.Start, r.End} {
			e, err := within(buf, at*w, (at+1)*w)
			if err != nil {
				return nil, err
			}
			out = append(out, e)
		}
	}
	return out, nil
}

// closeEntries is how many index entries are read at once rather than by ends.
const closeEntries = 64

// positions reads what positionExtents asked for: the byte interval of each
// range in a buffer of size bytes.
func positions(located [][]byte, buf Extent, size uint64, wide int, rows []Range) ([]Range, error) {
	out := make([]Range, len(rows))
	for i, r := range rows {
		var from, to uint64
		if r.Len() <= closeEntries {
			from, to = readWide(located[0], wide), readWide(located[0][int(r.Len())*wide:], wide)
			located = located[1:]
		} else {
			from, to = readWide(located[0], wide), readWide(located[1], wide)
			located = located[2:]
		}
		if from > to || to > size {
			return nil, fault.Corruptf(int64(buf.Offset)+int64(r.Start)*int64(wide), "encoding: rows [%d, %d) at bytes [%d, %d) of %d", r.Start, r.End, from, to, size)
		}
		out[i] = Range{from, to}
	}
	return out, nil
}

func readWide(p []byte, wide int) uint64 {
	switch wide {
	case 1:
		return uint64(p[0])
	case 2:
		return uint64(binary.LittleEndian.Uint16(p))
	case 4:
		return uint64(binary.LittleEndian.Uint32(p))
	default:
		return binary.LittleEndian.Uint64(p)
	}
}

func (z *fullZip) plan(_ pageIndex, rows []Range, located [][]byte) (pagePlan, []Extent, error) {
	bytes := make([]Range, len(rows))
	if z.indexed {
		var err error
		if bytes, err = positions(located, z.shape.buffers[1], z.shape.buffers[0].Size, z.indexWide, z.scaled(rows)); err != nil {
			return nil, nil, err
		}
	} else {
		stride := uint64(z.control+z.fixed) * z.shape.scale
		for i, r := range rows {
			bytes[i] = Range{r.Start * stride, r.End * stride}
		}
	}
	extents := make([]Extent, len(bytes))
	for i, b := range bytes {
		e, err := within(z.shape.buffers[0], b.Start, b.End)
		if err != nil {
			return nil, nil, err
		}
		extents[i] = e
	}
	return bytes, extents, nil
}

func (z *fullZip) decode(_ pageIndex, plan pagePlan, rows []Range, data [][]byte, out *vector) ([]Layer, error) {
	bytes, ok := plan.([]Range)
	if !ok {
		return nil, errIndex
	}
	codec, err := newValueCodec(z.value, z.fixed*8, 0)
	if err != nil {
		return nil, err
	}
	rd := zipRead{z: z, codec: codec, out: out}
	if z.bitsRep > 0 {
		rd.levels.rep = []uint16{}
	}
	if z.bitsDef > 0 {
		rd.levels.def = []uint16{}
	}
	for i, r := range rows {
		if err := rd.rows(data[i], r.Len()); err != nil {
			return nil, fault.At(int64(z.shape.buffers[0].Offset+bytes[i].Start), err)
		}
	}
	if err := z.levels.check(rd.levels.rep, rd.levels.def); err != nil {
		return nil, fault.At(int64(z.shape.buffers[0].Offset), err)
	}
	return z.levels.structure(rd.levels.rep, rd.levels.def, rd.levels.entries, z.shape.steps)
}

type zipRead struct {
	z      *fullZip
	codec  *valueCodec
	out    *vector
	levels levelRun
	spans  []span
	values []byte
}

// span is the place of a variable-width value; size -1 marks a null.
type span struct{ at, size int }

// rows decodes the bytes of count whole rows.
func (r *zipRead) rows(data []byte, count uint64) error {
	z := r.z
	if z.control == 0 && z.fixed > 0 {
		n := len(data) / z.fixed
		r.levels.entries += n
		return r.codec.appendFixed(r.out, data, n)
	}
	begun := uint64(0)
	entries, visible, pos := 0, 0, 0
	r.spans, r.values = r.spans[:0], r.values[:0]
	maskDef := uint32(1)<<z.bitsDef - 1
	for pos < len(data) {
		word := uint32(0)
		if len(data)-pos < z.control {
			return fault.Corruptf(int64(pos), "encoding: control word cut short")
		}
		switch z.control {
		case 1:
			word = uint32(data[pos])
		case 2:
			word = uint32(binary.LittleEndian.Uint16(data[pos:]))
		case 4:
			word = binary.LittleEndian.Uint32(data[pos:])
		}
		pos += z.control
		rep, def := uint16(word>>z.bitsDef), uint16(word&maskDef)
		if z.bitsRep > 0 {
			r.levels.rep = append(r.levels.rep, rep)
			if int(rep) == z.levels.lists {
				begun++
			} else if entries == 0 {
				return fault.Corruptf(int64(pos), "encoding: rows start with repetition level %d", rep)
			}
		} else {
			begun++
		}
		if z.bitsDef > 0 {
			r.levels.def = append(r.levels.def, def)
		}
		entries++
		if def > z.levels.maxVisible {
			continue
		}
		visible++
		switch {
		case z.fixed > 0:
			if len(data)-pos < z.fixed {
				return fault.Corruptf(int64(pos), "encoding: value cut short")
			}
			r.values = append(r.values, data[pos:pos+z.fixed]...)
			pos += z.fixed
		case def > 0:
			r.spans = append(r.spans, span{0, -1})
		default:
			if len(data)-pos < z.length {
				return fault.Corruptf(int64(pos), "encoding: length cut short")
			}
			size := readWide(data[pos:], z.length)
			pos += z.length
			if size > uint64(len(data)-pos) {
				return fault.Corruptf(int64(pos), "encoding: value of %d bytes in %d", size, len(data)-pos)
			}
			r.spans = append(r.spans, span{pos, int(size)})
			pos += int(size)
		}
	}
	if begun != count*z.shape.scale {
		return fault.Corruptf(0, "encoding: %d rows where the index says %d", begun, count*z.shape.scale)
	}
	r.levels.entries += entries
	if z.fixed > 0 {
		return r.codec.appendFixed(r.out, r.values, visible)
	}
	return r.codec.appendSpans(r.out, data, r.spans)
}
