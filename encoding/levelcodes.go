package encoding

import (
	"github.com/flightblob/flightblob/internal/lancepb"
)

// levelCodes numbers the definition codes of a path as if every layer could be
// null and every list empty, inside out as pages number them (sheet section
// 4.3). Rows that wait carry these codes; a page closes the gaps that codes it
// does not need leave.
type levelCodes struct {
	layers  []layerCodes // outermost first, like steps
	lists   int
	visible uint16 // codes up to here own a value slot
	top     uint16 // the greatest code
}

// layerCodes are the codes of one layer.
type layerCodes struct {
	kind  LayerKind
	null  uint16
	empty uint16 // lists
	rep   uint16 // lists: the repetition level of elements after the first
}

func newLevelCodes(steps []step) levelCodes {
	c := levelCodes{layers: make([]layerCodes, len(steps))}
	for i := len(steps) - 1; i >= 0; i-- {
		l := &c.layers[i]
		l.kind = steps[i].kind
		c.top++
		l.null = c.top
		if l.kind == ListLayer {
			c.top++
			l.empty = c.top
			l.rep = uint16(c.lists)
			c.lists++
		}
		if c.lists == 0 {
			c.visible = c.top
		}
	}
	return c
}

// pageLevels are the levels of one page with exactly the codes that it needs.
type pageLevels struct {
	levelPlan
	rep, def []uint16 // nil: no such stream
	entries  int
	shown    int // entries that own a value slot
	valid    int // entries that are a value
}

// narrow drops the codes that do not occur. def is nil when all entries are
// values; the answer shares nothing with it.
func (c *levelCodes) narrow(rep, def []uint16, entries int, steps []step) (*pageLevels, error) {
	seen := make([]int, c.top+1)
	if def == nil {
		seen[0] = entries
	}
	for _, d := range def {
		seen[d]++
	}
	layers := make([]lancepb.RepDefLayer, 0, len(c.layers))
	code, to := uint16(0), make([]uint16, c.top+1)
	shown := seen[0]
	assign := func(from uint16, wanted bool) bool {
		if !wanted {
			return false
		}
		code++
		to[from] = code
		if from <= c.visible {
			shown += seen[from]
		}
		return true
	}
	for i := len(c.layers) - 1; i >= 0; i-- {
		l := &c.layers[i]
		null := assign(l.null, seen[l.null] > 0 || c.masked(i, seen))
		if l.kind != ListLayer {
			layers = append(layers, itemKind(null))
		} else {
			layers = append(layers, listKind(null, assign(l.empty, seen[l.empty] > 0)))
		}
	}
	plan, err := newLevelPlan(layers, steps)
	if err != nil {
		return nil, err
	}
	p := &pageLevels{levelPlan: *plan, rep: rep, entries: entries, shown: shown, valid: seen[0]}
	if code > 0 {
		p.def = make([]uint16, len(def))
		for i, d := range def {
			p.def[i] = to[d]
		}
	}
	return p, nil
}

// masked tells whether null structs lie directly around list layer i. The list
// counts as null there: readers want its layer to say that it can be.
func (c *levelCodes) masked(i int, seen []int) bool {
	if c.layers[i].kind != ListLayer {
		return false
	}
	for i--; i >= 0 && c.layers[i].kind != ListLayer; i-- {
		if seen[c.layers[i].null] > 0 {
			return true
		}
	}
	return false
}

func itemKind(null bool) lancepb.RepDefLayer {
	if null {
		return lancepb.RepDefLayer_NULLABLE_ITEM
	}
	return lancepb.RepDefLayer_ALL_VALID_ITEM
}

func listKind(null, empty bool) lancepb.RepDefLayer {
	switch {
	case null && empty:
		return lancepb.RepDefLayer_NULL_AND_EMPTY_LIST
	case null:
		return lancepb.RepDefLayer_NULLABLE_LIST
	case empty:
		return lancepb.RepDefLayer_EMPTYABLE_LIST
	default:
		return lancepb.RepDefLayer_ALL_VALID_LIST
	}
}

// streams is the number of level streams.
func (p *pageLevels) streams() int { return btoi(p.rep != nil) + btoi(p.def != nil) }
