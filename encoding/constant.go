package encoding

import (
	"encoding/binary"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/internal/lancepb"
)

// constant is the layout of pages whose visible values are all equal, or all
// null (sheet section 5.3). It holds levels at most.
type constant struct {
	shape  *pageShape
	levels *levelPlan // nil: plain rows, every leaf null
	rep    *lancepb.CompressiveEncoding
	def    *lancepb.CompressiveEncoding
	repN   uint64
	defN   uint64
	inline []byte // the value, when it stands in the description
	valued bool   // there is a value
	buffer bool   // it stands in buffer 0
	leveld bool   // the last two buffers are levels
}

func newConstant(shape *pageShape, m *lancepb.ConstantLayout) (*constant, error) {
	c := &constant{
		shape: shape, rep: m.GetRepCompression(), def: m.GetDefCompression(),
		repN: m.GetNumRepValues(), defN: m.GetNumDefValues(), inline: m.InlineValue, valued: m.InlineValue != nil,
	}
	switch n := len(shape.buffers); {
	case n == 0:
	case n == 2:
		c.leveld = true
	case n == 1 && !c.valued:
		c.valued, c.buffer = true, true
	case n == 3 && !c.valued:
		c.valued, c.buffer, c.leveld = true, true, true
	default:
		return nil, fault.Corruptf(-1, "encoding: constant page with %d buffers", n)
	}
	if !c.valued && !c.leveld {
		for _, s := range shape.steps {
			if s.kind == ListLayer {
				return nil, fault.Corruptf(-1, "encoding: constant page of lists without levels")
			}
		}
		return c, nil
	}
	var err error
	c.levels, err = newLevelPlan(m.GetLayers(), shape.steps)
	return c, err
}

// constantIndex is a page's levels and value.
type constantIndex struct {
	rep, def []uint16
	starts   []int32 // first entry of each row, and the end; only with lists
	value    *block  // one value, nil when all are null
}

func (ix *constantIndex) size() int64 {
	return int64(2*len(ix.rep)+2*len(ix.def)+4*len(ix.starts)) + ix.value.size() + 128
}

func (c *constant) index() []Extent { return c.shape.buffers }

func (c *constant) newIndex(data [][]byte) (pageIndex, error) {
	ix := &constantIndex{}
	var err error
	switch {
	case c.buffer:
		if ix.value, err = valueFromBuffer(c.shape.storage, data[0]); err != nil {
			return nil, fault.At(int64(c.shape.buffers[0].Offset), err)
		}
		ix.value = ix.value.own()
		data = data[1:]
	case c.valued:
		if ix.value, err = inlineValue(c.shape.storage, c.inline); err != nil {
			return nil, err
		}
	}
	if !c.leveld {
		return ix, nil
	}
	at := int64(c.shape.buffers[len(c.shape.buffers)-2].Offset)
	if ix.rep, err = constantLevels(c.rep, data[0], c.repN); err != nil {
		return nil, fault.At(at, err)
	}
	if ix.def, err = constantLevels(c.def, data[1], c.defN); err != nil {
		return nil, fault.At(at, err)
	}
	if err := c.levels.check(ix.rep, ix.def); err != nil {
		return nil, fault.At(at, err)
	}
	if c.levels.lists == 0 {
		if ix.rep != nil || ix.def != nil && uint64(len(ix.def)) != c.shape.rows*c.shape.scale {
			return nil, fault.Corruptf(at, "encoding: %d levels for %d entries", len(ix.def), c.shape.rows*c.shape.scale)
		}
		return ix, nil
	}
	for i, r := range ix.rep {
		if int(r) == c.levels.lists {
			ix.starts = append(ix.starts, int32(i))
		}
	}
	if uint64(len(ix.starts)) != c.shape.rows {
		return nil, fault.Corruptf(at, "encoding: levels of %d rows in a page of %d", len(ix.starts), c.shape.rows)
	}
	ix.starts = append(ix.starts, int32(len(ix.rep)))
	return ix, nil
}

// constantLevels decodes raw or encoded levels; an empty buffer means that the
// stream is absent.
func constantLevels(ce *lancepb.CompressiveEncoding, buf []byte, n uint64) ([]uint16, error) {
	if ce != nil {
		if n > maxSequence {
			return nil, fault.Corruptf(-1, "encoding: %d levels", n)
		}
		return decodeLevels(ce, buf, int(n))
	}
	if len(buf) == 0 {
		return nil, nil
	}
	if len(buf)%2 != 0 {
		return nil, fault.Corruptf(-1, "encoding: levels of %d bytes", len(buf))
	}
	return sequence{buf, 16, len(buf) / 2}.u16s()
}

// inlineValue makes a one-value block of a value's Arrow bytes.
func inlineValue(storage arrow.DataType, raw []byte) (*block, error) {
	switch {
	case storage.ID() == arrow.BOOL:
		if len(raw) != 1 {
			return nil, fault.Corruptf(-1, "encoding: boolean constant of %d bytes", len(raw))
		}
		return newFixed([]byte{raw[0] & 1}, 1, 1)
	case arrow.IsBinaryLike(storage.ID()), arrow.IsLargeBinaryLike(storage.ID()):
		return newVar(raw, []int64{0, int64(len(raw))})
	case len(raw) == 0:
		if f, ok := storage.(*arrow.FixedSizeBinaryType); ok && f.ByteWidth == 0 {
			return &block{kind: nullBlock, n: 1}, nil // fillers of no bytes
		}
		return nil, fault.Corruptf(-1, "encoding: constant of no bytes for type %s", storage)
	default:
		return newFixed(raw, 8*len(raw), 1)
	}
}

// valueFromBuffer reads "u32 n, u32 length × n, then the n Arrow buffers" of a
// one-element array.
func valueFromBuffer(storage arrow.DataType, raw []byte) (*block, error) {
	if len(raw) < 4 {
		return nil, fault.Corruptf(0, "encoding: constant buffer of %d bytes", len(raw))
	}
	n := binary.LittleEndian.Uint32(raw)
	if n == 0 || n > 16 || uint64(len(raw)) < 4+4*uint64(n) {
		return nil, fault.Corruptf(0, "encoding: constant of %d buffers", n)
	}
	bufs, at := make([][]byte, n), 4+4*int(n)
	for i := range bufs {
		size := binary.LittleEndian.Uint32(raw[4+4*i:])
		if uint64(size) > uint64(len(raw)-at) {
			return nil, fault.Corruptf(int64(at), "encoding: constant part of %d bytes in %d", size, len(raw)-at)
		}
		bufs[i] = raw[at : at+int(size)]
		at += int(size)
	}
	width := 0
	switch {
	case arrow.IsBinaryLike(storage.ID()):
		width = 4
	case arrow.IsLargeBinaryLike(storage.ID()):
		width = 8
	default:
		return inlineValue(storage, bufs[0])
	}
	if len(bufs) != 2 || len(bufs[0]) < 2*width {
		return nil, fault.Corruptf(0, "encoding: variable-width constant of %d buffers", n)
	}
	from, to := readWide(bufs[0], width), readWide(bufs[0][width:], width)
	if from > to || to > uint64(len(bufs[1])) {
		return nil, fault.Corruptf(0, "encoding: constant at bytes [%d, %d) of %d", from, to, len(bufs[1]))
	}
	return newVar(bufs[1], []int64{int64(from), int64(to)})
}

func (c *constant) locate(pageIndex, []Range) ([]Extent, error) { return nil, nil }

func (c *constant) plan(pageIndex, []Range, [][]byte) (pagePlan, []Extent, error) {
	return nil, nil, nil
}

func (c *constant) decode(index pageIndex, _ pagePlan, rows []Range, _ [][]byte, out *vector) ([]Layer, error) {
	ix, ok := index.(*constantIndex)
	if !ok {
		return nil, errIndex
	}
	total := uint64(0)
	for _, r := range rows {
		total += r.Len()
	}
	if total > maxSequence/c.shape.scale {
		return nil, fault.New(fault.Exhausted, "encoding: %d rows in one read; ask for fewer rows", total)
	}
	if c.levels == nil {
		n := int(total)
		layers := plainLayers(c.shape.steps, n)
		last := &layers[len(layers)-1]
		last.Nulls, last.Validity = last.Slots, make([]byte, (last.Slots+7)/8)
		return layers, out.appendNulls(last.Slots)
	}
	var rep, def []uint16
	entries := int(total * c.shape.scale)
	if c.leveld {
		entries = 0
		for _, r := range rows {
			from, to := int(r.Start*c.shape.scale), int(r.End*c.shape.scale)
			if ix.starts != nil {
				from, to = int(ix.starts[r.Start]), int(ix.starts[r.End])
				rep = append(rep, ix.rep[from:to]...)
			}
			if ix.def != nil {
				def = append(def, ix.def[from:to]...)
			}
			entries += to - from
		}
	}
	visible := entries
	if def != nil {
		visible = c.levels.visible(def)
	}
	layers, err := c.levels.structure(rep, def, entries, c.shape.steps)
	if err != nil {
		return nil, err
	}
	if ix.value != nil {
		return layers, out.appendRepeated(ix.value, 0, visible)
	}
	last := &layers[len(layers)-1]
	if last.Nulls != last.Slots {
		return nil, fault.Corruptf(-1, "encoding: %d values in a page of nulls", last.Slots-last.Nulls)
	}
	return layers, out.appendNulls(visible)
}

// plainLayers is the structure of n rows without nulls and lists.
func plainLayers(steps []step, n int) []Layer {
	layers := make([]Layer, len(steps))
	for i, s := range steps {
		layers[i] = Layer{Kind: s.kind, Slots: n, Dimension: s.dim}
		if s.kind == ListLayer {
			layers[i].Offsets = make([]int64, n+1)
			n = 0
		}
		if s.kind == FixedListLayer {
			n *= s.dim
		}
	}
	return layers
}

// rank counts set bits before each 512th bit, for quick counting of prefixes.
type rank struct {
	bits   []byte
	n      int
	prefix []int
}

const rankStep = 512

func newRank(bits []byte, n int) *rank {
	r := &rank{bits: bits, n: n, prefix: make([]int, 0, n/rankStep+1)}
	for at, sum := 0, 0; at <= n; at += rankStep {
		r.prefix = append(r.prefix, sum)
		sum += countBits(bits, at, min(at+rankStep, n))
	}
	return r
}

// before counts set bits in [0, i).
func (r *rank) before(i int) int {
	k := i / rankStep
	return r.prefix[k] + countBits(r.bits, k*rankStep, i)
}
