package encoding

import (
	"encoding/binary"
	"math/bits"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/internal/lancepb"
)

// fullZipPage stores the values of a page one by one, each after a control word
// with its levels (sheet section 5.2).
func (e *Encoder) fullZipPage(lv *pageLevels, w view, rows int) (EncodedPage, error) {
	codec, err := e.valueWriter(w)
	if err != nil {
		return EncodedPage{}, err
	}
	z := zipper{lv: lv, codec: codec, bitsRep: widthOf(lv.rep), bitsDef: widthOf(lv.def)}
	m := &lancepb.FullZipLayout{
		BitsRep: uint32(z.bitsRep), BitsDef: uint32(z.bitsDef), NumItems: uint32(lv.entries), NumVisibleItems: uint32(lv.shown),
		ValueCompression: codec.encoding(), Layers: lv.layers,
	}
	fixed, length := codec.widths()
	if fixed > 0 {
		m.Width = &lancepb.FullZipLayout_BitsPerValue{BitsPerValue: uint32(8 * fixed)}
	} else {
		m.Width = &lancepb.FullZipLayout_BitsPerOffset{BitsPerOffset: uint32(8 * length)}
	}
	p := EncodedPage{}
	data, starts, err := z.write(rows)
	if err != nil {
		return p, err
	}
	p.Buffers = [][]byte{data}
	if fixed == 0 || lv.rep != nil {
		p.Buffers = append(p.Buffers, positionIndex(starts, len(data)))
	}
	p.Layout, err = describeFullZip(e.version, m)
	return p, err
}

// widthOf is the number of bits of the greatest level.
func widthOf(levels []uint16) int {
	or := uint16(0)
	for _, l := range levels {
		or |= l
	}
	return bits.Len16(or)
}

// zipper writes entries.
type zipper struct {
	lv               *pageLevels
	codec            valueWriter
	bitsRep, bitsDef int
}

// write gives the entries and the position of each row's first one.
func (z *zipper) write(rows int) (data []byte, starts []int, err error) {
	fixed, length := z.codec.widths()
	control := 0
	switch n := z.bitsRep + z.bitsDef; {
	case n > 16:
		control = 4
	case n > 8:
		control = 2
	case n > 0:
		control = 1
	}
	starts = make([]int, 0, rows+1)
	data = make([]byte, 0, z.lv.entries*(control+length)+z.codec.size())
	slot := 0
	for i := range z.lv.entries {
		var rep, def uint16
		if z.lv.rep != nil {
			rep = z.lv.rep[i]
		}
		if z.lv.def != nil {
			def = z.lv.def[i]
		}
		if z.lv.rep == nil || int(rep) == z.lv.lists {
			starts = append(starts, len(data))
		}
		word := uint32(rep)<<z.bitsDef | uint32(def)
		switch control {
		case 1:
			data = append(data, byte(word))
		case 2:
			data = binary.LittleEndian.AppendUint16(data, uint16(word))
		case 4:
			data = binary.LittleEndian.AppendUint32(data, word)
		}
		if def > z.lv.maxVisible {
			continue
		}
		if fixed == 0 && def > 0 {
			slot++ // a null has no length
			continue
		}
		at := len(data)
		data = append(data, zeros[:length]...)
		if data, err = z.codec.append(data, slot); err != nil {
			return nil, nil, err
		}
		size := len(data) - at - length
		switch length {
		case 4:
			binary.LittleEndian.PutUint32(data[at:], uint32(size))
		case 8:
			binary.LittleEndian.PutUint64(data[at:], uint64(size))
		}
		if size > 1<<31 {
			return nil, nil, fault.New(fault.Exhausted, "encoding: a value of %d bytes", size)
		}
		slot++
	}
	return data, starts, nil
}

var zeros [8]byte

// positionIndex is the position of every row and the end, at the width that
// the end needs.
func positionIndex(starts []int, end int) []byte {
	width := 1
	for width < 8 && uint64(end)>>(8*width) != 0 {
		width *= 2
	}
	out := make([]byte, 0, width*(len(starts)+1))
	for _, s := range append(starts, end) {
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], uint64(s))
		out = append(out, b[:width]...)
	}
	return out
}
