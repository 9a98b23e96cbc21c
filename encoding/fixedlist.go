package encoding

import (
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/internal/lancepb"
)

// fslPlan is a chain of fixed-size lists, outer to inner, over flat items.
type fslPlan struct {
	dims     []int
	validity []bool // has item validity at this level
	cum      []int  // items per value at this level
	bits     int    // of an innermost item; 0 = all items null, none stored
}

func newFSLPlan(m *lancepb.FixedSizeList) (*fslPlan, error) {
	p := &fslPlan{}
	cum := 1
	for depth := 0; ; depth++ {
		d := m.GetItemsPerValue()
		if d > maxSequence || depth > maxNesting || cum > maxSequence/max(int(d), 1) {
			return nil, fault.Corruptf(-1, "encoding: fixed-size lists of %d items", d)
		}
		cum *= int(d)
		p.dims = append(p.dims, int(d))
		p.validity = append(p.validity, m.GetHasValidity())
		p.cum = append(p.cum, cum)
		switch v := m.GetValues().GetCompression().(type) {
		case *lancepb.CompressiveEncoding_FixedSizeList:
			m = v.FixedSizeList
		case *lancepb.CompressiveEncoding_Flat:
			p.bits = clampBits(v.Flat.GetBitsPerValue())
			if p.bits != 1 && (p.bits <= 0 || p.bits%8 != 0) {
				return nil, fault.Corruptf(-1, "encoding: list items of %d bits", v.Flat.GetBitsPerValue())
			}
			return p, nil
		case *lancepb.CompressiveEncoding_Constant:
			if v.Constant.Value != nil {
				return nil, unsupported("fixed-size list item", m.GetValues())
			}
			return p, nil
		default:
			return nil, unsupported("fixed-size list item", m.GetValues())
		}
	}
}

func (p *fslPlan) validities() int {
	n := 0
	for _, v := range p.validity {
		if v {
			n++
		}
	}
	return n
}

// rowBytes is the size of one value at per-value position: bitmaps, then items.
func (p *fslPlan) rowBytes() int {
	n := 0
	for i, v := range p.validity {
		if v {
			n += (p.cum[i] + 7) / 8
		}
	}
	return n + bytesFor(p.cum[len(p.cum)-1], max(p.bits, 1))*min(p.bits, 1)
}

// build nests n values' items under their validities.
func (p *fslPlan) build(items []byte, valid [][]byte, n int) (*block, error) {
	last := len(p.dims) - 1
	total := n * p.cum[last]
	kid := &block{kind: nullBlock, n: total}
	if p.bits > 0 {
		var err error
		if kid, err = newFixed(items, p.bits, total); err != nil {
			return nil, err
		}
	}
	for i := last; i >= 0; i-- {
		kid.valid = valid[i]
		kid = &block{kind: listBlock, n: kid.n / max(p.dims[i], 1), dim: p.dims[i], kids: []*block{kid}}
	}
	kid.n = n
	return kid, nil
}

func (p *fslPlan) bounded(n int) error {
	if c := p.cum[len(p.cum)-1]; n > maxSequence/max(c, 1) {
		return fault.Corruptf(-1, "encoding: %d lists of %d items in one block", n, c)
	}
	return nil
}

// chunk decodes a mini-block chunk: a bitmap per level that has one, then the
// items.
func (p *fslPlan) chunk(bufs [][]byte, n int) (*block, error) {
	if err := p.bounded(n); err != nil {
		return nil, err
	}
	valid := make([][]byte, len(p.dims))
	for i, v := range p.validity {
		if !v {
			continue
		}
		if len(bufs[0]) < (n*p.cum[i]+7)/8 {
			return nil, fault.Corruptf(-1, "encoding: item bitmap of %d bytes for %d items", len(bufs[0]), n*p.cum[i])
		}
		valid[i], bufs = bufs[0], bufs[1:]
	}
	return p.build(bufs[0], valid, n)
}

// rows decodes per-value rows: each value holds its bitmaps and its items.
func (p *fslPlan) rows(data []byte, n int) (*block, error) {
	if err := p.bounded(n); err != nil {
		return nil, err
	}
	row := p.rowBytes()
	if len(data) != n*row {
		return nil, fault.Corruptf(-1, "encoding: %d lists of %d bytes in %d", n, row, len(data))
	}
	if p.validities() == 0 && (p.bits != 1 || p.cum[len(p.cum)-1]%8 == 0) {
		return p.build(data, make([][]byte, len(p.dims)), n)
	}
	valid, items := make([][]byte, len(p.dims)), []byte(nil)
	inner := p.cum[len(p.cum)-1]
	for r := range n {
		at := data[r*row : (r+1)*row]
		for i, v := range p.validity {
			if v {
				valid[i] = appendBits(valid[i], r*p.cum[i], at, 0, p.cum[i])
				at = at[(p.cum[i]+7)/8:]
			}
		}
		switch {
		case p.bits == 1:
			items = appendBits(items, r*inner, at, 0, inner)
		case p.bits > 1:
			items = append(items, at...)
		}
	}
	return p.build(items, valid, n)
}
