package encoding

import (
	"math"
	"math/bits"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/internal/lancepb"
	"github.com/flightblob/flightblob/schema"
)

// step is what one field of the path to a leaf adds to the structure.
type step struct {
	kind LayerKind
	dim  int
}

// stepsOf derives the steps of a path, outermost first.
func stepsOf(path []*schema.Field) []step {
	steps := make([]step, len(path))
	for i, f := range path {
		switch f.Shape {
		case schema.List, schema.LargeList, schema.Map:
			steps[i].kind = ListLayer
		case schema.FixedSizeList:
			steps[i] = step{FixedListLayer, f.Dimension}
		default:
			steps[i].kind = ItemLayer
		}
	}
	return steps
}

// scaleOf is the number of leaf entries per row that fixed-size lists of
// structs make: the product of their dimensions.
func scaleOf(steps []step) (uint64, error) {
	scale := uint64(1)
	for _, s := range steps {
		if s.kind != FixedListLayer {
			continue
		}
		if s.dim <= 0 || scale > maxSequence/uint64(s.dim) {
			return 0, fault.New(fault.Unsupported, "encoding: fixed-size lists of %d structs", s.dim)
		}
		scale *= uint64(s.dim)
	}
	return scale, nil
}

// levelPlan is the arithmetic of a page's layers (sheet section 4.3): which
// definition codes belong to which layer.
type levelPlan struct {
	layers     []lancepb.RepDefLayer // innermost first, as stored
	base       []uint16              // codes used by the layers inside layers[i]
	lists      int                   // list layers = the repetition level of a new row
	maxVisible uint16                // definition levels up to here own a value slot
	maxDef     uint16
}

func isList(l lancepb.RepDefLayer) bool {
	switch l {
	case lancepb.RepDefLayer_ALL_VALID_LIST, lancepb.RepDefLayer_NULLABLE_LIST,
		lancepb.RepDefLayer_EMPTYABLE_LIST, lancepb.RepDefLayer_NULL_AND_EMPTY_LIST:
		return true
	}
	return false
}

func codesOf(l lancepb.RepDefLayer) uint16 {
	switch l {
	case lancepb.RepDefLayer_NULLABLE_ITEM, lancepb.RepDefLayer_NULLABLE_LIST, lancepb.RepDefLayer_EMPTYABLE_LIST:
		return 1
	case lancepb.RepDefLayer_NULL_AND_EMPTY_LIST:
		return 2
	}
	return 0
}

// newLevelPlan checks that the page's layers fit the schema's path.
func newLevelPlan(layers []lancepb.RepDefLayer, steps []step) (*levelPlan, error) {
	if len(layers) != len(steps) {
		return nil, fault.Corruptf(-1, "encoding: page with %d layers for a column nested %d deep", len(layers), len(steps))
	}
	p := &levelPlan{layers: layers, base: make([]uint16, len(layers))}
	for i, l := range layers {
		if l < lancepb.RepDefLayer_ALL_VALID_ITEM || l > lancepb.RepDefLayer_NULL_AND_EMPTY_LIST {
			return nil, fault.Corruptf(-1, "encoding: layer kind %d", l)
		}
		if s := steps[len(steps)-1-i]; isList(l) != (s.kind == ListLayer) {
			return nil, fault.Corruptf(-1, "encoding: layer %d is %s, which the schema does not have there", i, l)
		}
		p.base[i] = p.maxDef
		if isList(l) {
			p.lists++
		}
		p.maxDef += codesOf(l)
		if p.lists == 0 {
			p.maxVisible = p.maxDef
		}
	}
	return p, nil
}

// check refuses levels that the layers cannot produce.
func (p *levelPlan) check(rep, def []uint16) error {
	if rep != nil && def != nil && len(rep) != len(def) {
		return fault.Corruptf(-1, "encoding: %d repetition and %d definition levels", len(rep), len(def))
	}
	for i, r := range rep {
		if int(r) > p.lists {
			return fault.Corruptf(-1, "encoding: repetition level %d of entry %d, at most %d", r, i, p.lists)
		}
	}
	for i, d := range def {
		if d > p.maxDef {
			return fault.Corruptf(-1, "encoding: definition level %d of entry %d, at most %d", d, i, p.maxDef)
		}
	}
	if len(rep) > 0 && int(rep[0]) != p.lists {
		return fault.Corruptf(-1, "encoding: a page selection that starts inside a row")
	}
	return nil
}

// visible counts entries that own a value slot.
func (p *levelPlan) visible(def []uint16) int {
	if p.maxVisible >= p.maxDef {
		return len(def)
	}
	count := 0
	for _, d := range def {
		if d <= p.maxVisible {
			count++
		}
	}
	return count
}

// structure turns levels of whole rows into layers, outermost first (sheet
// section 4.4). n is the number of entries; rep and def may be nil.
func (p *levelPlan) structure(rep, def []uint16, n int, steps []step) ([]Layer, error) {
	if p.lists > 0 && rep == nil && n > 0 {
		return nil, fault.Corruptf(-1, "encoding: lists without repetition levels")
	}
	scale, err := scaleOf(steps)
	if err != nil {
		return nil, err
	}
	if scale > 1 && p.lists > 0 {
		return nil, fault.New(fault.Unsupported, "encoding: fixed-size lists of structs among lists")
	}
	out := make([]Layer, len(steps))
	if p.lists == 0 {
		p.flat(out, def, n, int(scale), steps)
		return out, nil
	}
	slots := make([]int32, 0, n)
	if n > math.MaxInt32 {
		return nil, fault.New(fault.Exhausted, "encoding: %d levels in one read; ask for fewer rows", n)
	}
	for i, r := range rep {
		if int(r) == p.lists {
			slots = append(slots, int32(i))
		}
	}
	rank := p.lists
	for i := range steps {
		li := len(steps) - 1 - i // index into the stored, innermost-first layers
		base, above := p.base[li], p.base[li]+codesOf(p.layers[li])
		if steps[i].kind == ItemLayer {
			out[i] = itemLayer(slots, def, base)
			continue
		}
		nullCode := uint16(0)
		if l := p.layers[li]; l == lancepb.RepDefLayer_NULLABLE_LIST || l == lancepb.RepDefLayer_NULL_AND_EMPTY_LIST {
			nullCode = base + 1
		}
		out[i], slots = listLayer(slots, rep, def, uint16(rank-1), base, above, nullCode)
		rank--
	}
	return out, nil
}

// flat is structure without lists: every entry is a leaf slot.
func (p *levelPlan) flat(out []Layer, def []uint16, n, scale int, steps []step) {
	stride := scale
	for i, s := range steps {
		base := p.base[len(steps)-1-i]
		l := Layer{Kind: s.kind, Slots: n / stride, Dimension: s.dim}
		if def != nil && codesOf(p.layers[len(steps)-1-i])+(p.maxDef-base) > 0 {
			l.Validity, l.Nulls = validBits(def, base, stride, l.Slots)
		}
		out[i] = l
		if s.kind == FixedListLayer {
			stride /= s.dim
		}
	}
}

// validBits marks slots whose level, every stride-th of def, is at most base.
// The bitmap is nil when all are.
func validBits(def []uint16, base uint16, stride, slots int) (valid []byte, nulls int) {
	valid = make([]byte, (slots+7)/8)
	set, k := 0, 0
	if stride == 1 {
		for ; k+8 <= slots; k += 8 {
			var b uint32
			for i, d := range def[k : k+8] {
				// The sign bit of d-base-1 is set exactly when d <= base.
				b |= (uint32(d) - uint32(base) - 1) >> 31 << i
			}
			valid[k/8] = byte(b)
			set += bits.OnesCount32(b)
		}
	}
	for ; k < slots; k++ {
		if def[k*stride] <= base {
			setBit(valid, k)
			set++
		}
	}
	if set == slots {
		return nil, 0
	}
	return valid, slots - set
}

func itemLayer(slots []int32, def []uint16, base uint16) Layer {
	l := Layer{Kind: ItemLayer, Slots: len(slots)}
	if def == nil {
		return l
	}
	l.Validity = make([]byte, (len(slots)+7)/8)
	for k, s := range slots {
		if def[s] <= base {
			l.Validity[k>>3] |= 1 << (k & 7)
		} else {
			l.Nulls++
		}
	}
	if l.Nulls == 0 {
		l.Validity = nil
	}
	return l
}

// listLayer finds the children of each slot: entries that start an element of
// this list (repetition at least minRep) and are not stopped by it or by
// anything outside it (definition at most base).
func listLayer(slots []int32, rep, def []uint16, minRep, base, above, nullCode uint16) (Layer, []int32) {
	l := Layer{Kind: ListLayer, Slots: len(slots), Offsets: make([]int64, len(slots)+1)}
	if def != nil {
		l.Validity = make([]byte, (len(slots)+7)/8)
	}
	children := make([]int32, 0, len(rep))
	for k, s := range slots {
		if def != nil {
			if d := def[s]; d > above || nullCode != 0 && d == nullCode {
				l.Nulls++
			} else {
				l.Validity[k>>3] |= 1 << (k & 7)
			}
		}
		end := int32(len(rep))
		if k+1 < len(slots) {
			end = slots[k+1]
		}
		for e := s; e < end; e++ {
			if rep[e] >= minRep && (def == nil || def[e] <= base) {
				children = append(children, e)
			}
		}
		l.Offsets[k+1] = int64(len(children))
	}
	if l.Nulls == 0 {
		l.Validity = nil
	}
	return l, children
}

// joinLayers concatenates the structure of consecutive page selections.
func joinLayers(parts [][]Layer) []Layer {
	if len(parts) == 1 {
		return parts[0]
	}
	out := make([]Layer, len(parts[0]))
	for i := range out {
		j := Layer{Kind: parts[0][i].Kind, Dimension: parts[0][i].Dimension}
		for _, p := range parts {
			j.Slots += p[i].Slots
			j.Nulls += p[i].Nulls
		}
		if j.Nulls > 0 {
			j.Validity = make([]byte, 0, (j.Slots+7)/8)
		}
		if j.Kind == ListLayer {
			j.Offsets = append(make([]int64, 0, j.Slots+1), 0)
		}
		at := 0
		for _, p := range parts {
			l := p[i]
			if j.Nulls > 0 {
				if l.Validity != nil {
					j.Validity = appendBits(j.Validity, at, l.Validity, 0, l.Slots)
				} else {
					j.Validity = appendOnes(j.Validity, at, l.Slots)
				}
			}
			at += l.Slots
			if j.Kind == ListLayer {
				shift := j.Offsets[len(j.Offsets)-1]
				for _, o := range l.Offsets[1:] {
					j.Offsets = append(j.Offsets, o+shift)
				}
			}
		}
		out[i] = j
	}
	return out
}

// sliceLayers cuts top-level slots [from, to) out of a structure and gives the
// interval of leaf slots below them.
func sliceLayers(layers []Layer, from, to int) (cut []Layer, leafFrom, leafTo int) {
	cut = make([]Layer, len(layers))
	for i, l := range layers {
		c := Layer{Kind: l.Kind, Slots: to - from, Dimension: l.Dimension}
		if l.Validity != nil {
			c.Nulls = c.Slots - countBits(l.Validity, from, to)
			if c.Nulls > 0 {
				c.Validity = appendBits(nil, 0, l.Validity, from, to)
			}
		}
		switch l.Kind {
		case ListLayer:
			c.Offsets = make([]int64, c.Slots+1)
			first := l.Offsets[from]
			for k := range c.Offsets {
				c.Offsets[k] = l.Offsets[from+k] - first
			}
			from, to = int(first), int(l.Offsets[to])
		case FixedListLayer:
			from, to = from*l.Dimension, to*l.Dimension
		}
		cut[i] = c
	}
	return cut, from, to
}
