package encoding

import (
	"encoding/binary"

	"github.com/flightblob/flightblob/encoding/internal/bitpack"
	"github.com/flightblob/flightblob/internal/lancepb"
)

// sparsePage is a 2.3 page whose structure stands apart from its values, of
// which it needs no bytes: there are none, or all are one (sheet sections 4.7
// and 5.5). Format 2.3 has no dense page for these when there are levels.
func (e *Encoder) sparsePage(lv *pageLevels, values *lancepb.ValuePlane) (EncodedPage, error) {
	layers, err := lv.structure(lv.rep, lv.def, lv.entries, e.steps)
	if err != nil {
		return EncodedPage{}, err
	}
	p := EncodedPage{}
	s := &lancepb.SparseStructure{}
	sequence := func(words []uint64) *lancepb.CompressiveEncoding {
		ce, payload := encodeSequence(words)
		if payload != nil {
			p.Buffers = append(p.Buffers, payload)
		}
		return ce
	}
	for _, l := range layers {
		out := &lancepb.SparseLayer{}
		switch l.Kind {
		case ItemLayer:
			out.Layer = &lancepb.SparseLayer_Validity{Validity: storedValidity(&l, sequence)}
		case FixedListLayer:
			out.Layer = &lancepb.SparseLayer_FixedSizeList{FixedSizeList: &lancepb.SparseFixedSizeList{
				Dimension: uint64(l.Dimension), Validity: storedValidity(&l, sequence),
			}}
		case ListLayer:
			var positions, counts []uint64
			for i := range l.Slots {
				if n := l.Offsets[i+1] - l.Offsets[i]; n > 0 {
					positions, counts = append(positions, uint64(i)), append(counts, uint64(n))
				}
			}
			list := &lancepb.SparseList{NumChildSlots: uint64(l.Offsets[l.Slots]), NumNonEmptyPositions: uint64(len(positions))}
			list.NonEmptyPositions = sequence(positions)
			list.Counts = sequence(counts)
			list.Validity = storedValidity(&l, sequence)
			out.Layer = &lancepb.SparseLayer_List{List: list}
		}
		s.Layers = append(s.Layers, out)
	}
	p.Layout, err = marshal(&lancepb.PlanarLayout{
		Structure: &lancepb.StructuralPlane{Structure: &lancepb.StructuralPlane_Sparse{Sparse: s}},
		Values:    values,
	})
	return p, err
}

// storedValidity lists the null slots of a layer, or the valid ones if these are
// fewer.
func storedValidity(l *Layer, sequence func([]uint64) *lancepb.CompressiveEncoding) *lancepb.ValiditySet {
	v := &lancepb.ValiditySet{Meaning: lancepb.ValiditySet_NULL_POSITIONS}
	if l.Nulls > l.Slots/2 {
		v.Meaning = lancepb.ValiditySet_VALID_POSITIONS
	}
	var positions []uint64
	for i := range l.Slots {
		null := l.Nulls > 0 && !getBit(l.Validity, i)
		if null == (v.Meaning == lancepb.ValiditySet_NULL_POSITIONS) {
			positions = append(positions, uint64(i))
		}
	}
	v.Positions, v.NumPositions = sequence(positions), uint64(len(positions))
	return v
}

// encodeSequence stores words at generic block position (sheet section 6.3):
// nothing, one value, an arithmetic sequence, or packed words.
func encodeSequence(words []uint64) (ce *lancepb.CompressiveEncoding, payload []byte) {
	if len(words) == 0 {
		return &lancepb.CompressiveEncoding{Compression: &lancepb.CompressiveEncoding_Constant{Constant: &lancepb.Constant{}}}, nil
	}
	step := uint64(0)
	regular := true
	if len(words) > 1 {
		step = words[1] - words[0]
		regular = words[1] >= words[0] // a range never runs down
	}
	raw := make([]byte, 0, 8*len(words))
	for i, v := range words {
		regular = regular && v == words[0]+uint64(i)*step
		raw = binary.LittleEndian.AppendUint64(raw, v)
	}
	switch {
	case regular && step == 0:
		return &lancepb.CompressiveEncoding{Compression: &lancepb.CompressiveEncoding_Constant{Constant: &lancepb.Constant{Value: raw[:8]}}}, nil
	case regular:
		return &lancepb.CompressiveEncoding{Compression: &lancepb.CompressiveEncoding_Range{
			Range: &lancepb.RangeSequence{UncompressedBitsPerValue: 64, Start: words[0], Step: step},
		}}, nil
	}
	width := bitpack.Width(raw, 64)
	if width >= 64 || bitpack.OutOfLineSize(len(words), 64, width) >= len(raw) {
		return flatEncoding(64), raw
	}
	return outOfLineEncoding(64, width), bitpack.AppendOutOfLine(nil, raw, 64, width)
}
