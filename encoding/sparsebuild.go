package encoding

import (
	"math"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/internal/lancepb"
)

// sparseBuilder turns the sequences of a sparse page into layers.
type sparseBuilder struct {
	data  [][]byte
	alive []byte // leaf slots valid at every layer so far; nil = all
	slots int
}

func (b *sparseBuilder) build(s *sparse, ix *sparseIndex) error {
	b.slots = int(min(s.shape.rows, math.MaxInt32))
	if uint64(b.slots) != s.shape.rows {
		return fault.New(fault.Unsupported, "encoding: a page of %d rows", s.shape.rows)
	}
	for i, l := range s.layers {
		var layer Layer
		var err error
		switch k := l.GetLayer().(type) {
		case *lancepb.SparseLayer_Validity:
			layer, err = b.item(k.Validity)
		case *lancepb.SparseLayer_List:
			layer, err = b.list(k.List)
		case *lancepb.SparseLayer_FixedSizeList:
			layer, err = b.fixedList(k.FixedSizeList, s.shape.steps[i].dim)
		default:
			err = fault.Corruptf(-1, "encoding: sparse layer without a kind")
		}
		if err != nil {
			return err
		}
		if layer.Kind != s.shape.steps[i].kind {
			return fault.Corruptf(-1, "encoding: sparse layer %d does not fit the schema", i)
		}
		ix.layers = append(ix.layers, layer)
	}
	ix.leaf = b.slots
	return nil
}

func (b *sparseBuilder) sequence(ce *lancepb.CompressiveEncoding, n uint64) (sequence, error) {
	if n > maxSequence {
		return sequence{}, fault.Corruptf(-1, "encoding: a sequence of %d values", n)
	}
	var payload []byte
	if needsPayload(ce) {
		payload, b.data = b.data[0], b.data[1:]
	}
	// An empty sequence is a constant without value, and nothing else is one.
	if c := ce.GetConstant(); (n == 0) != (c != nil && c.Value == nil) {
		return sequence{}, fault.Corruptf(-1, "encoding: a sequence of %d values stored as %T", n, ce.GetCompression())
	}
	return decodeSequence(ce, payload, int(n))
}

// positionBits decodes strictly increasing positions below n into a bitmap.
func (b *sparseBuilder) positionBits(ce *lancepb.CompressiveEncoding, count uint64, n int) ([]byte, error) {
	s, err := b.sequence(ce, count)
	if err != nil {
		return nil, err
	}
	out := make([]byte, (n+7)/8)
	last := -1
	for i := range s.n {
		p := s.at(i)
		if p >= uint64(n) || int(p) <= last {
			return nil, fault.Corruptf(-1, "encoding: position %d after %d of %d slots", p, last, n)
		}
		last = int(p)
		setBit(out, last)
	}
	return out, nil
}

// validity gives the bitmap (nil = all valid) and the number of nulls.
func (b *sparseBuilder) validity(m *lancepb.ValiditySet) ([]byte, int, error) {
	bits, err := b.positionBits(m.GetPositions(), m.GetNumPositions(), b.slots)
	if err != nil {
		return nil, 0, err
	}
	count := int(m.GetNumPositions())
	switch m.GetMeaning() {
	case lancepb.ValiditySet_NULL_POSITIONS:
		if count == 0 {
			return nil, 0, nil
		}
		for i := range bits {
			bits[i] = ^bits[i]
		}
		if rest := b.slots % 8; rest != 0 {
			bits[len(bits)-1] &= 1<<rest - 1
		}
		return bits, count, nil
	case lancepb.ValiditySet_VALID_POSITIONS:
		if count == b.slots {
			return nil, 0, nil
		}
		return bits, b.slots - count, nil
	default:
		return nil, 0, fault.Corruptf(-1, "encoding: validity of meaning %d", m.GetMeaning())
	}
}

// mask narrows alive by a layer's validity.
func (b *sparseBuilder) mask(valid []byte) {
	switch {
	case valid == nil:
	case b.alive == nil:
		b.alive = append([]byte(nil), valid...)
	default:
		for i := range b.alive {
			b.alive[i] &= valid[i]
		}
	}
}

func (b *sparseBuilder) item(m *lancepb.ValiditySet) (Layer, error) {
	valid, nulls, err := b.validity(m)
	if err != nil {
		return Layer{}, err
	}
	b.mask(valid)
	return Layer{Kind: ItemLayer, Slots: b.slots, Validity: valid, Nulls: nulls}, nil
}

func (b *sparseBuilder) list(m *lancepb.SparseList) (Layer, error) {
	if b.slots > maxUnbacked { // each takes an offset
		return Layer{}, fault.New(fault.Unsupported, "encoding: a page of %d lists", b.slots)
	}
	positions, err := b.sequence(m.GetNonEmptyPositions(), m.GetNumNonEmptyPositions())
	if err != nil {
		return Layer{}, err
	}
	counts, err := b.sequence(m.GetCounts(), m.GetNumNonEmptyPositions())
	if err != nil {
		return Layer{}, err
	}
	valid, nulls, err := b.validity(m.GetValidity())
	if err != nil {
		return Layer{}, err
	}
	if m.GetNumChildSlots() > maxSequence {
		return Layer{}, fault.New(fault.Unsupported, "encoding: a page of %d list items", m.GetNumChildSlots())
	}
	l := Layer{Kind: ListLayer, Slots: b.slots, Validity: valid, Nulls: nulls, Offsets: make([]int64, b.slots+1)}
	next := 0
	for i := range positions.n {
		p, c := positions.at(i), counts.at(i)
		if p >= uint64(b.slots) || int(p) < next || c == 0 || c > m.GetNumChildSlots() {
			return Layer{}, fault.Corruptf(-1, "encoding: list %d of %d holds %d items", p, b.slots, c)
		}
		if valid != nil && !getBit(valid, int(p)) {
			return Layer{}, fault.Corruptf(-1, "encoding: null list %d holds %d items", p, c)
		}
		for ; next < int(p); next++ {
			l.Offsets[next+1] = l.Offsets[next]
		}
		l.Offsets[next+1] = l.Offsets[next] + int64(c)
		next++
	}
	for ; next < b.slots; next++ {
		l.Offsets[next+1] = l.Offsets[next]
	}
	if uint64(l.Offsets[b.slots]) != m.GetNumChildSlots() {
		return Layer{}, fault.Corruptf(-1, "encoding: lists of %d items, the page says %d", l.Offsets[b.slots], m.GetNumChildSlots())
	}
	b.mask(valid)
	b.spread(func(i int) int { return int(l.Offsets[i+1] - l.Offsets[i]) }, int(m.GetNumChildSlots()))
	return l, nil
}

func (b *sparseBuilder) fixedList(m *lancepb.SparseFixedSizeList, dim int) (Layer, error) {
	if m.GetDimension() != uint64(dim) || dim == 0 || b.slots > maxSequence/dim {
		return Layer{}, fault.Corruptf(-1, "encoding: lists of %d items, the schema says %d", m.GetDimension(), dim)
	}
	valid, nulls, err := b.validity(m.GetValidity())
	if err != nil {
		return Layer{}, err
	}
	l := Layer{Kind: FixedListLayer, Slots: b.slots, Validity: valid, Nulls: nulls, Dimension: dim}
	b.mask(valid)
	b.spread(func(int) int { return dim }, b.slots*dim)
	return l, nil
}

// spread repeats alive for the children of each slot.
func (b *sparseBuilder) spread(count func(i int) int, total int) {
	if b.alive != nil {
		out := make([]byte, (total+7)/8)
		at := 0
		for i := range b.slots {
			n := count(i)
			if getBit(b.alive, i) {
				for k := range n {
					setBit(out, at+k)
				}
			}
			at += n
		}
		b.alive = out
	}
	b.slots = total
}
