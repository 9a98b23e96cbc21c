package encoding

import (
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/internal/lancepb"
)

// sparse is a 2.3 page whose structure is stored as positions and counts per
// layer, outermost first, apart from the values (sheet sections 4.7 and 5.5).
// The structure is decoded once and cached; rows are cut out of it.
type sparse struct {
	shape  *pageShape
	layers []*lancepb.SparseLayer
	values *lancepb.ValuePlane
	own    int // buffers of the value plane; the structure's follow
}

func newSparse(shape *pageShape, layers []*lancepb.SparseLayer, values *lancepb.ValuePlane) (*sparse, error) {
	s := &sparse{shape: shape, layers: layers, values: values}
	if len(layers) != len(shape.steps) {
		return nil, fault.Corruptf(-1, "encoding: page with %d layers for a column nested %d deep", len(layers), len(shape.steps))
	}
	switch v := values.GetPlane().(type) {
	case *lancepb.ValuePlane_Chunked:
		if v.Chunked.GetLevels() != nil {
			return nil, fault.Corruptf(-1, "encoding: levels beside sparse structure")
		}
		s.own = 2 + btoi(v.Chunked.GetDictionary() != nil)
	case *lancepb.ValuePlane_Zipped:
		if v.Zipped.GetLevels() != nil {
			return nil, fault.Corruptf(-1, "encoding: levels beside sparse structure")
		}
		s.own = 1 + btoi(v.Zipped.GetBitsPerOffset() != 0)
	case *lancepb.ValuePlane_Indexed:
		s.own = 3
	}
	need := s.own
	for _, l := range layers {
		for _, ce := range sequencesOf(l) {
			need += btoi(needsPayload(ce))
		}
	}
	return s, shape.needBuffers(need)
}

// sequencesOf lists a layer's sequences in the order of their buffers.
func sequencesOf(l *lancepb.SparseLayer) []*lancepb.CompressiveEncoding {
	switch k := l.GetLayer().(type) {
	case *lancepb.SparseLayer_Validity:
		return []*lancepb.CompressiveEncoding{k.Validity.GetPositions()}
	case *lancepb.SparseLayer_List:
		return []*lancepb.CompressiveEncoding{k.List.GetNonEmptyPositions(), k.List.GetCounts(), k.List.GetValidity().GetPositions()}
	case *lancepb.SparseLayer_FixedSizeList:
		return []*lancepb.CompressiveEncoding{k.FixedSizeList.GetValidity().GetPositions()}
	}
	return nil
}

type sparseIndex struct {
	layers []Layer
	leaf   int   // leaf slots
	alive  *rank // materialized leaf slots; nil = all
	bytes  int64

	page  layout // chunked or zipped values, as rows of their own
	inner pageIndex
	items *block // indexed: the dictionary
	idx   []uint32
	value *block // constant
}

func (ix *sparseIndex) size() int64 { return ix.bytes }

func (s *sparse) index() []Extent {
	out := append([]Extent(nil), s.shape.buffers[s.own:]...)
	switch v := s.values.GetPlane().(type) {
	case *lancepb.ValuePlane_Chunked:
		out = append(out, s.shape.buffers[0])
		if v.Chunked.GetDictionary() != nil {
			out = append(out, s.shape.buffers[2])
		}
	case *lancepb.ValuePlane_Indexed:
		out = append(out, s.shape.buffers[:3]...)
	}
	return out
}

func (s *sparse) newIndex(data [][]byte) (pageIndex, error) {
	structural := len(s.shape.buffers) - s.own
	b := &sparseBuilder{data: data[:structural]}
	ix := &sparseIndex{}
	if err := b.build(s, ix); err != nil {
		return nil, err
	}
	for _, l := range ix.layers {
		ix.bytes += int64(len(l.Validity)) + 8*int64(len(l.Offsets)) + 96
	}
	if b.alive != nil {
		ix.alive = newRank(b.alive, ix.leaf)
		ix.bytes += int64(len(b.alive)) + 8*int64(len(ix.alive.prefix))
	}
	return ix, s.indexValues(ix, data[structural:])
}

// indexValues prepares the value plane once the number of leaf slots is known.
func (s *sparse) indexValues(ix *sparseIndex, data [][]byte) error {
	materialized := ix.leaf
	if ix.alive != nil {
		materialized = ix.alive.before(ix.leaf)
	}
	rows := &pageShape{
		version: s.shape.version, steps: []step{{kind: ItemLayer}}, scale: 1,
		rows: uint64(ix.leaf), storage: s.shape.storage, buffers: s.shape.buffers[:s.own],
	}
	switch v := s.values.GetPlane().(type) {
	case *lancepb.ValuePlane_Chunked:
		m := &miniBlock{
			shape: rows, value: v.Chunked.GetCompression(), dict: v.Chunked.GetDictionary(),
			dictN: v.Chunked.GetNumDictionaryItems(), items: uint64(ix.leaf), large: true,
		}
		if n := v.Chunked.GetNumItems(); n != 0 && n != uint64(ix.leaf) {
			return fault.Corruptf(-1, "encoding: %d values for %d leaf slots", n, ix.leaf)
		}
		if err := m.init(v.Chunked.GetNumBuffers()); err != nil {
			return err
		}
		inner, err := m.newIndex(data)
		if err != nil {
			return err
		}
		ix.page, ix.inner = m, inner
		ix.bytes += inner.size()
	case *lancepb.ValuePlane_Zipped:
		if v.Zipped.GetNumItems() != uint64(materialized) {
			return fault.Corruptf(-1, "encoding: %d zipped values for %d materialized slots", v.Zipped.GetNumItems(), materialized)
		}
		z, err := zippedItems(rows, v.Zipped)
		if err != nil {
			return err
		}
		ix.page, ix.inner = z, noIndex{}
	case *lancepb.ValuePlane_Constant:
		value, err := inlineValue(s.shape.storage, v.Constant.GetScalar())
		if err != nil {
			return err
		}
		ix.value = value
	case *lancepb.ValuePlane_None:
		if materialized != 0 {
			return fault.Corruptf(-1, "encoding: no values for %d materialized slots", materialized)
		}
	case *lancepb.ValuePlane_Indexed:
		return s.indexDictionary(ix, v.Indexed, data)
	}
	return nil
}

// zippedItems is a full-zip page without levels, one row per item.
func zippedItems(shape *pageShape, m *lancepb.ZippedValues) (*fullZip, error) {
	one := []lancepb.RepDefLayer{lancepb.RepDefLayer_ALL_VALID_ITEM}
	plan, err := newLevelPlan(one, shape.steps)
	if err != nil {
		return nil, err
	}
	items := *shape
	items.rows = m.GetNumItems()
	if items.rows > maxSequence {
		return nil, fault.New(fault.Unsupported, "encoding: a page of %d values", items.rows)
	}
	z := &fullZip{shape: &items, levels: plan, items: m.GetNumItems(), value: m.GetCompression()}
	if err := z.setWidth(m); err != nil {
		return nil, err
	}
	return z, z.init()
}

func (s *sparse) indexDictionary(ix *sparseIndex, m *lancepb.IndexedValues, data [][]byte) error {
	shape := &pageShape{
		version: s.shape.version, steps: []step{{kind: ItemLayer}}, scale: 1,
		storage: s.shape.storage, buffers: s.shape.buffers[1:3],
	}
	z, err := zippedItems(shape, m.GetItems())
	if err != nil {
		return err
	}
	if z.fixed > 0 {
		return fault.Corruptf(-1, "encoding: indexed values of fixed width")
	}
	var payload []byte
	if needsPayload(m.GetIndices()) {
		payload = data[0]
	}
	seq, err := decodeSequence(m.GetIndices(), payload, ix.leaf)
	if err != nil {
		return err
	}
	ix.idx = make([]uint32, seq.n)
	for i := range ix.idx {
		ix.idx[i] = uint32(min(seq.at(i), uint64(strayIndex)))
	}
	spans, err := variableSpans(z, data[1], int(z.items))
	if err != nil {
		return fault.At(int64(s.shape.buffers[1].Offset), err)
	}
	codec, err := newValueCodec(z.value, 0, 0)
	if err != nil {
		return err
	}
	if ix.items, err = codec.block(data[1], spans); err != nil {
		return fault.At(int64(s.shape.buffers[1].Offset), err)
	}
	ix.bytes += 4*int64(len(ix.idx)) + ix.items.size()
	return nil
}

// variableSpans walks n length-prefixed values that fill data exactly.
func variableSpans(z *fullZip, data []byte, n int) ([]span, error) {
	if n > len(data)/z.length {
		return nil, fault.Corruptf(0, "encoding: %d values in %d bytes", n, len(data))
	}
	spans, pos := make([]span, n), 0
	for i := range spans {
		if len(data)-pos < z.length {
			return nil, fault.Corruptf(int64(pos), "encoding: length cut short")
		}
		size := readWide(data[pos:], z.length)
		pos += z.length
		if size > uint64(len(data)-pos) {
			return nil, fault.Corruptf(int64(pos), "encoding: value of %d bytes in %d", size, len(data)-pos)
		}
		spans[i] = span{pos, int(size)}
		pos += int(size)
	}
	if pos != len(data) {
		return nil, fault.Corruptf(int64(pos), "encoding: %d bytes after the last value", len(data)-pos)
	}
	return spans, nil
}

// sparsePlan is the leaf interval of each range, and what the value page plans.
type sparsePlan struct {
	leaves []Range // leaf slots, one per range
	items  []Range // rows of the value page, non-empty
	inner  pagePlan
}

// leaves maps row ranges to leaf intervals and those to rows of the value page.
func (s *sparse) leaves(ix *sparseIndex, rows []Range) sparsePlan {
	p := sparsePlan{leaves: make([]Range, len(rows))}
	for i, r := range rows {
		from, to := int(r.Start), int(r.End)
		for _, l := range ix.layers {
			switch l.Kind {
			case ListLayer:
				from, to = int(l.Offsets[from]), int(l.Offsets[to])
			case FixedListLayer:
				from, to = from*l.Dimension, to*l.Dimension
			}
		}
		p.leaves[i] = Range{uint64(from), uint64(to)}
		if _, zipped := ix.page.(*fullZip); zipped && ix.alive != nil {
			from, to = ix.alive.before(from), ix.alive.before(to)
		}
		if from < to {
			// Adjacent ranges join, so that items are disjoint and sorted.
			if n := len(p.items); n > 0 && p.items[n-1].End == uint64(from) {
				p.items[n-1].End = uint64(to)
			} else {
				p.items = append(p.items, Range{uint64(from), uint64(to)})
			}
		}
	}
	return p
}

func (s *sparse) locate(index pageIndex, rows []Range) ([]Extent, error) {
	ix, ok := index.(*sparseIndex)
	if !ok {
		return nil, errIndex
	}
	if ix.page == nil {
		return nil, nil
	}
	return ix.page.locate(ix.inner, s.leaves(ix, rows).items)
}

func (s *sparse) plan(index pageIndex, rows []Range, located [][]byte) (pagePlan, []Extent, error) {
	ix, ok := index.(*sparseIndex)
	if !ok {
		return nil, nil, errIndex
	}
	p := s.leaves(ix, rows)
	if ix.page == nil {
		return p, nil, nil
	}
	var extents []Extent
	var err error
	p.inner, extents, err = ix.page.plan(ix.inner, p.items, located)
	return p, extents, err
}

func (s *sparse) decode(index pageIndex, plan pagePlan, rows []Range, data [][]byte, out *vector) ([]Layer, error) {
	ix, ok := index.(*sparseIndex)
	p, ok2 := plan.(sparsePlan)
	if !ok || !ok2 {
		return nil, errIndex
	}
	parts := make([][]Layer, len(rows))
	for i, r := range rows {
		parts[i], _, _ = sliceLayers(ix.layers, int(r.Start), int(r.End))
	}
	var err error
	switch page := ix.page.(type) {
	case *miniBlock:
		_, err = page.decode(ix.inner, p.inner, p.items, data, out)
	case *fullZip:
		err = s.scatter(ix, page, p, data, out)
	default:
		for _, l := range p.leaves {
			n := int(l.Len())
			switch {
			case ix.items != nil:
				err = out.appendGather(ix.items, ix.idx[l.Start:l.End])
			case ix.value != nil:
				err = out.appendRepeated(ix.value, 0, n)
			default:
				err = out.appendNulls(n)
			}
			if err != nil {
				break
			}
		}
	}
	if err != nil {
		return nil, err
	}
	return joinLayers(parts), nil
}

// scatter spreads zipped values, stored for materialized slots only, over the
// leaf slots.
func (s *sparse) scatter(ix *sparseIndex, z *fullZip, p sparsePlan, data [][]byte, out *vector) error {
	codec, err := newValueCodec(z.value, z.fixed*8, 0)
	if err != nil {
		return err
	}
	bytes, _ := p.inner.([]Range)
	at := 0 // next item extent
	var spans []span
	used := 0
	for _, l := range p.leaves {
		var raw []byte
		var values []byte
		items := int(l.Len())
		if ix.alive != nil {
			items = ix.alive.before(int(l.End)) - ix.alive.before(int(l.Start))
		}
		if items > 0 {
			if at >= len(data) {
				return errIndex
			}
			raw = data[at][used:]
		}
		pos := 0
		spans = spans[:0]
		if z.fixed > 0 {
			if items*z.fixed > len(raw) {
				return fault.Corruptf(int64(z.shape.buffers[0].Offset), "encoding: %d values of %d bytes in %d", items, z.fixed, len(raw))
			}
			if int(l.Len()) > maxVectorBytes/z.fixed {
				return tooLarge(int64(l.Len()) * int64(z.fixed))
			}
			values = make([]byte, int(l.Len())*z.fixed)
		}
		for i := int(l.Start); i < int(l.End); i++ {
			alive := ix.alive == nil || getBit(ix.alive.bits, i)
			switch {
			case z.fixed > 0 && alive:
				copy(values[(i-int(l.Start))*z.fixed:], raw[pos:pos+z.fixed])
				pos += z.fixed
			case z.fixed > 0:
			case !alive:
				spans = append(spans, span{0, -1})
			default:
				if len(raw)-pos < z.length {
					return fault.Corruptf(int64(bytes[at].Start)+int64(z.shape.buffers[0].Offset), "encoding: length cut short")
				}
				size := readWide(raw[pos:], z.length)
				pos += z.length
				if size > uint64(len(raw)-pos) {
					return fault.Corruptf(int64(bytes[at].Start)+int64(z.shape.buffers[0].Offset), "encoding: value of %d bytes in %d", size, len(raw)-pos)
				}
				spans = append(spans, span{pos, int(size)})
				pos += int(size)
			}
		}
		if z.fixed > 0 {
			err = codec.appendFixed(out, values, int(l.Len()))
		} else {
			err = codec.appendSpans(out, raw, spans)
		}
		if err != nil {
			return err
		}
		if items > 0 {
			if used += pos; used == len(data[at]) {
				at, used = at+1, 0
			}
		}
	}
	if at != len(data) {
		return fault.Corruptf(int64(z.shape.buffers[0].Offset), "encoding: zipped values do not fill their bytes")
	}
	return nil
}
