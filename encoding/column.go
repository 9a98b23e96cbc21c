package encoding

import (
	"context"
	"sync"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/schema"
)

// Cache keeps page indexes between reads. A nil Cache keeps none.
type Cache interface {
	Get(key any) (value any, ok bool)
	// Put stores a value that holds about size bytes.
	Put(key, value any, size int64)
}

// Column reads one physical column of formats 2.1 to 2.3. It may be used from
// any goroutine.
type Column struct {
	leaf  *schema.Field
	steps []step
	pages []*columnPage
	rows  uint64
	cache Cache
}

type columnPage struct {
	first uint64 // number of the first top-level row
	shape pageShape
	desc  []byte

	once   sync.Once
	layout layout
	err    error
}

// NewColumn describes the column of a leaf. path leads from the top-level
// field to the leaf; page descriptions are parsed when first read. It refuses
// format 2.0, whose columns are of another kind.
func NewColumn(v Version, path []*schema.Field, pages []Page, cache Cache) (*Column, error) {
	switch v {
	case V2_1, V2_2, V2_3:
	default:
		return nil, fault.New(fault.Unsupported, "encoding: columns of format %d.%d", v.Major, v.Minor)
	}
	if len(path) == 0 || path[len(path)-1].Storage == nil {
		return nil, fault.New(fault.Internal, "encoding: a path that does not end in a leaf")
	}
	c := &Column{leaf: path[len(path)-1], steps: stepsOf(path), cache: cache}
	scale, err := scaleOf(c.steps)
	if err != nil {
		return nil, err
	}
	for _, p := range pages {
		if p.Rows%scale != 0 {
			return nil, fault.Corruptf(-1, "encoding: page of %d entries, %d a row", p.Rows, scale)
		}
		rows := p.Rows / scale
		if rows == 0 {
			continue
		}
		if c.rows+rows < c.rows || c.rows+rows > maxRows {
			return nil, fault.Corruptf(-1, "encoding: column of more than %d rows", uint64(maxRows))
		}
		c.pages = append(c.pages, &columnPage{first: c.rows, desc: p.Layout, shape: pageShape{
			version: v, steps: c.steps, scale: scale, rows: rows, storage: c.leaf.Storage,
			legacy: c.leaf.Blob == schema.LegacyBlob, buffers: p.Buffers,
		}})
		c.rows += rows
	}
	return c, nil
}

// maxRows bounds the rows of a data file: row offsets have 32 bits.
const maxRows = 1 << 32

// Rows is the number of top-level rows.
func (c *Column) Rows() uint64 { return c.rows }

func (p *columnPage) parse() (layout, error) {
	p.once.Do(func() { p.layout, p.err = parseLayout(&p.shape, p.desc) })
	return p.layout, p.err
}

// pageRead is one page's share of a read.
type pageRead struct {
	page    *columnPage
	layout  layout
	index   pageIndex
	rows    []Range // page-local
	extents []Extent
	plan    pagePlan
	data    [][]byte
}

// Read decodes the rows, which are sorted and disjoint. It fetches the pages
// and chunks that hold them, in at most three rounds, and nothing else.
func (c *Column) Read(ctx context.Context, fetch Fetch, rows []Range) (*Leaf, error) {
	return c.read(ctx, fetch, rows, false)
}

func (c *Column) read(ctx context.Context, fetch Fetch, rows []Range, coded bool) (*Leaf, error) {
	reads, total, err := c.split(rows)
	if err != nil {
		return nil, err
	}
	if err := c.loadIndexes(ctx, fetch, reads); err != nil {
		return nil, err
	}
	if _, err := each(ctx, fetch, reads, func(r *pageRead) (err error) {
		r.extents, err = r.layout.locate(r.index, r.rows)
		return err
	}); err != nil {
		return nil, err
	}
	release, err := each(ctx, fetch, reads, func(r *pageRead) (err error) {
		r.plan, r.extents, err = r.layout.plan(r.index, r.rows, r.data)
		return err
	})
	if err != nil {
		return nil, err
	}
	out, err := c.collector(reads, total, coded)
	if err != nil {
		return nil, err
	}
	// What decode answers is copied out of the fetched bytes.
	defer release()
	parts := make([][]Layer, len(reads))
	for i, r := range reads {
		if parts[i], err = r.layout.decode(r.index, r.plan, r.rows, r.data, out); err != nil {
			return nil, err
		}
		r.data = nil
	}
	if len(parts) == 0 {
		parts = append(parts, plainLayers(c.steps, 0))
	}
	return c.finish(joinLayers(parts), out, total)
}

// finish checks the structure against what was asked for and makes the array.
func (c *Column) finish(layers []Layer, out *vector, total uint64) (*Leaf, error) {
	if uint64(layers[0].Slots) != total {
		return nil, fault.Corruptf(-1, "encoding: %d rows decoded of %d", layers[0].Slots, total)
	}
	last := layers[len(layers)-1]
	if last.Slots != out.n {
		return nil, fault.Corruptf(-1, "encoding: %d values for %d leaf slots", out.n, last.Slots)
	}
	assemble := out.array
	if out.typ != c.leaf.Storage {
		assemble = out.codedArray
	}
	values, err := assemble(last.Validity, last.Nulls)
	if err != nil {
		return nil, err
	}
	return &Leaf{Layers: layers, Values: values}, nil
}

// split assigns row ranges to pages.
func (c *Column) split(rows []Range) ([]*pageRead, uint64, error) {
	var reads []*pageRead
	total, last, at := uint64(0), uint64(0), 0
	for _, r := range rows {
		if r.Start < last || r.End < r.Start || r.End > c.rows {
			return nil, 0, fault.New(fault.Internal, "encoding: rows [%d, %d) of %d after row %d", r.Start, r.End, c.rows, last)
		}
		last = r.End
		total += r.Len()
		for at < len(c.pages) && r.Start < r.End {
			p := c.pages[at]
			end := p.first + p.shape.rows
			if r.Start >= end {
				at++
				continue
			}
			part := Range{r.Start - p.first, min(r.End, end) - p.first}
			if n := len(reads); n > 0 && reads[n-1].page == p {
				if k := len(reads[n-1].rows); reads[n-1].rows[k-1].End == part.Start {
					reads[n-1].rows[k-1].End = part.End
				} else {
					reads[n-1].rows = append(reads[n-1].rows, part)
				}
			} else {
				l, err := p.parse()
				if err != nil {
					return nil, 0, err
				}
				reads = append(reads, &pageRead{page: p, layout: l, rows: []Range{part}})
			}
			r.Start = p.first + part.End
		}
	}
	return reads, total, nil
}

// loadIndexes takes page indexes from the cache and fetches the others.
func (c *Column) loadIndexes(ctx context.Context, fetch Fetch, reads []*pageRead) error {
	var missing []*pageRead
	for _, r := range reads {
		if c.cache != nil {
			if ix, ok := c.cache.Get(r.page); ok {
				if r.index, ok = ix.(pageIndex); ok {
					continue
				}
			}
		}
		r.extents = r.layout.index()
		missing = append(missing, r)
	}
	release, err := fetchAll(ctx, fetch, missing)
	if err != nil {
		return err
	}
	// An index keeps nothing of what was fetched for it.
	defer release()
	for _, r := range missing {
		ix, err := r.layout.newIndex(r.data)
		if err != nil {
			return err
		}
		r.index, r.data = ix, nil
		if c.cache != nil && ix.size() > 0 {
			c.cache.Put(r.page, ix, ix.size())
		}
	}
	return nil
}

// each prepares every page's extents, then fetches them all at once.
func each(ctx context.Context, fetch Fetch, reads []*pageRead, prepare func(*pageRead) error) (release func(), err error) {
	for _, r := range reads {
		if err := prepare(r); err != nil {
			return nil, err
		}
	}
	return fetchAll(ctx, fetch, reads)
}

func fetchAll(ctx context.Context, fetch Fetch, reads []*pageRead) (release func(), err error) {
	var extents []Extent
	for _, r := range reads {
		extents = append(extents, r.extents...)
	}
	release = func() {}
	var data [][]byte
	if len(extents) > 0 {
		if data, release, err = fetch(ctx, extents); err != nil {
			return nil, err
		}
		if len(data) != len(extents) {
			return nil, fault.New(fault.Internal, "encoding: %d answers to %d fetches", len(data), len(extents))
		}
	}
	for _, r := range reads {
		n := len(r.extents)
		for i, e := range r.extents {
			if uint64(len(data[i])) != e.Size {
				return nil, fault.New(fault.Internal, "encoding: fetched %d bytes of %d", len(data[i]), e.Size)
			}
		}
		r.data, data = data[:n], data[n:]
	}
	return release, nil
}
