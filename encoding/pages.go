package encoding

import (
	"bytes"
	"encoding/binary"

	"github.com/flightblob/flightblob/internal/lancepb"
)

// view is an interval of the values that wait: those of one page.
type view struct {
	v     *values
	at, n int
}

// fixed gives the bytes of all values of byte-wide fixed width.
func (w view) fixed() []byte {
	return w.v.data[w.at*w.v.width : (w.at+w.n)*w.v.width]
}

// bytes gives the bytes of value i of the view.
func (w view) bytes(i int) []byte { return w.v.bytesAt(w.at + i) }

// heap gives the bytes of all variable-width values and where they start.
func (w view) heap() (data []byte, start int) {
	from, to := w.start(0), w.start(w.n)
	return w.v.data[from:to], from
}

// heapSize is the number of bytes of all variable-width values.
func (w view) heapSize() int { return w.start(w.n) - w.start(0) }

// start is the position of value i in data, i = n being the end of the last.
func (w view) start(i int) int {
	if w.at+i == 0 {
		return 0
	}
	return int(w.v.ends[w.at+i-1])
}

// page makes the page of a section.
func (e *Encoder) page(s section) (EncodedPage, error) {
	var rep, def []uint16
	if e.codes.lists > 0 {
		rep = e.rep[s.entry:s.last]
	}
	if e.def != nil {
		def = e.def[s.entry:s.last]
	}
	lv, err := e.codes.narrow(rep, def, s.last-s.entry, e.steps)
	if err != nil {
		return EncodedPage{}, err
	}
	vals := view{e.vals, s.value, s.n}
	if lv.valid == 0 {
		return e.nullPage(lv)
	}
	if p, ok, err := e.constantPage(lv, vals); ok || err != nil {
		return p, err
	}
	if s.zipped || e.wide(vals) {
		return e.fullZipPage(lv, vals, s.rows)
	}
	return e.miniBlockPage(lv, vals)
}

// wideBytes is the size from which on values are stored one by one rather than
// in chunks.
const wideBytes = 256

// wide tells whether a page's values go into the full-zip layout.
func (e *Encoder) wide(w view) bool {
	switch e.vals.kind {
	case structVector:
		return !e.vals.plainRows()
	case dictVector, bitVector:
		return false
	}
	switch e.tuning.structure {
	case "miniblock":
		return false
	case "fullzip":
		return true
	}
	switch e.vals.kind {
	case fixedVector:
		return e.vals.width >= wideBytes
	case listVector:
		return e.vals.rowBytes() >= wideBytes
	default:
		for i := range w.n {
			if w.start(i+1)-w.start(i) >= wideBytes {
				return true
			}
		}
		return false
	}
}

// nullPage is the page of entries none of which is a value.
func (e *Encoder) nullPage(lv *pageLevels) (EncodedPage, error) {
	plain := len(e.steps) == 1
	if e.version == V2_3 && !plain {
		return e.sparsePage(lv, &lancepb.ValuePlane{Plane: &lancepb.ValuePlane_None{None: &lancepb.NoValues{}}})
	}
	m := &lancepb.ConstantLayout{Layers: lv.layers}
	p := EncodedPage{}
	if !plain {
		whole := func(int) int { return lv.entries }
		p.Buffers = [][]byte{nil, nil}
		if lv.rep != nil {
			c := chooseLevels(lv.rep, 1, whole)
			p.Buffers[0] = c.append(nil, lv.rep)
			m.RepCompression, m.NumRepValues = c.encoding(), uint64(lv.entries)
		}
		if lv.def != nil {
			c := chooseLevels(lv.def, 1, whole)
			p.Buffers[1] = c.append(nil, lv.def)
			m.DefCompression, m.NumDefValues = c.encoding(), uint64(lv.entries)
		}
	}
	var err error
	p.Layout, err = describeConstant(e.version, m)
	return p, err
}

// inlineBytes is the widest value that a description holds itself.
const inlineBytes = 32

// constantPage is the page of values that are all the same. ok is false when
// they are not, or when another layout is smaller: the levels of a constant
// page take two bytes each.
func (e *Encoder) constantPage(lv *pageLevels, w view) (p EncodedPage, ok bool, err error) {
	switch e.vals.kind {
	case bitVector, fixedVector, var32Vector, var64Vector:
	default:
		return p, false, nil
	}
	first := lv.firstValue()
	value := w.bytes(first)
	inline := (e.vals.kind == bitVector || e.vals.kind == fixedVector) && len(value) <= inlineBytes
	if e.version == V2_3 && !inline {
		return p, false, nil
	}
	// What the levels cost here, and what values and levels cost elsewhere, as
	// far as that is worth a thought.
	cost, other := 2*lv.streams()*lv.entries, smallLevels
	if e.version == V2_3 {
		cost = 3 * (lv.entries - lv.valid)
	}
	if !e.packs(value) {
		other = max(other, lv.shown*len(value))
	}
	none := e.vals.kind == fixedVector && e.vals.width == 0 // has no other layout
	if !none && cost > other || !lv.same(w, value) {
		return p, false, nil
	}
	if e.version == V2_3 && (lv.streams() > 0 || e.scale > 1) {
		p, err = e.sparsePage(lv, &lancepb.ValuePlane{Plane: &lancepb.ValuePlane_Constant{Constant: &lancepb.ConstantValues{Scalar: value}}})
		return p, true, err
	}
	m := &lancepb.ConstantLayout{Layers: lv.layers}
	if inline {
		m.InlineValue = append([]byte{}, value...)
	} else {
		p.Buffers = append(p.Buffers, e.vals.scalarBuffer(value))
	}
	if lv.streams() > 0 {
		p.Buffers = append(p.Buffers, levelCodec{}.append(nil, lv.rep), levelCodec{}.append(nil, lv.def))
	}
	p.Layout, err = describeConstant(e.version, m)
	return p, true, err
}

// packs tells whether repeating a value takes next to no bytes in chunks: words
// are packed, short text has a page dictionary.
func (e *Encoder) packs(value []byte) bool {
	switch e.vals.kind {
	case bitVector:
		return true
	case fixedVector:
		return len(value) == 1 || len(value) == 2 || len(value) == 4 || len(value) == 8
	default:
		return len(value) < wideBytes
	}
}

// smallLevels is how many bytes of plain levels are not worth a thought.
const smallLevels = 256

// firstValue is the number of the first slot that is not null.
func (p *pageLevels) firstValue() int {
	slot := 0
	for _, d := range p.def {
		if d == 0 {
			return slot
		}
		if d <= p.maxVisible {
			slot++
		}
	}
	return 0
}

// same tells whether every value equals the given one.
func (p *pageLevels) same(w view, value []byte) bool {
	if p.def == nil && w.v.kind == fixedVector {
		data := w.fixed()
		return bytes.Equal(data[w.v.width:], data[:len(data)-w.v.width])
	}
	if p.def == nil {
		for i := range w.n {
			if !bytes.Equal(w.bytes(i), value) {
				return false
			}
		}
		return true
	}
	slot := 0
	for _, d := range p.def {
		if d > p.maxVisible {
			continue
		}
		if d == 0 && !bytes.Equal(w.bytes(slot), value) {
			return false
		}
		slot++
	}
	return true
}

// scalarBuffer holds one value as "u32 n, u32 length × n, then the n Arrow
// buffers" of an array of it (sheet section 5.3).
func (v *values) scalarBuffer(value []byte) []byte {
	var offsets []byte
	switch v.kind {
	case var32Vector:
		offsets = binary.LittleEndian.AppendUint32(make([]byte, 4, 8), uint32(len(value)))
	case var64Vector:
		offsets = binary.LittleEndian.AppendUint64(make([]byte, 8, 16), uint64(len(value)))
	default:
		out := binary.LittleEndian.AppendUint32([]byte{1, 0, 0, 0}, uint32(len(value)))
		return append(out, value...)
	}
	out := binary.LittleEndian.AppendUint32([]byte{2, 0, 0, 0}, uint32(len(offsets)))
	out = binary.LittleEndian.AppendUint32(out, uint32(len(value)))
	out = append(out, offsets...)
	return append(out, value...)
}
