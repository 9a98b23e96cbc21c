package index

import (
	"context"
	"math"
	"slices"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/flightblob/flightblob/encoding"
	"github.com/flightblob/flightblob/internal/fault"
)

// Names of the files of a B-tree, and the metadata of its lookup file.
const (
	lookupFile     = "page_lookup.lance"
	pagesFile      = "page_data.lance"
	keyBatch       = "batch_size"
	keyPartitioned = "range_partitioned"
	defaultBatch   = 4096
)

// btreeVersions are the format versions that are read: 0, whose rows are row
// ids, and 1, whose rows are row addresses even where rows have stable ids. The
// files are the same.
const btreeVersions = 1

// BTree is an opened B-tree index. It may be used from any goroutine.
type BTree struct {
	pages  []page
	rows   uint64
	data   *columns // values, ids
	onlyID *columns // ids
	bytes  int64
}

// page is one run of rows of the data file, in the order of their values.
type page struct {
	low, high *Value // nil: not known, or no value
	nulls     bool   // some are null
	values    bool   // some are not
	start     uint64 // row of the data file
	end       uint64
}

// OpenBTree reads the lookup table of a B-tree over values of a stored type.
// Anything but what the reference writes is fault.Unsupported or fault.Corrupt.
func OpenBTree(ctx context.Context, open Open, version int32, stored arrow.DataType) (*BTree, error) {
	if version < 0 || version > btreeVersions {
		return nil, fault.New(fault.Unsupported, "index: a B-tree of version %d; 0 to %d are read", version, btreeVersions)
	}
	lookup, err := open(ctx, lookupFile)
	if err != nil {
		return nil, err
	}
	meta := lookup.Description().Schema.Metadata
	if p, ok := meta[keyPartitioned]; ok && p != "false" {
		return nil, fault.New(fault.Unsupported, "index: a B-tree in partitions")
	}
	batch := uint64(defaultBatch)
	if text, ok := meta[keyBatch]; ok {
		if batch, err = strconv.ParseUint(text, 10, 32); err != nil || batch == 0 {
			return nil, fault.Corruptf(-1, "index: %s is %q", keyBatch, text)
		}
	}
	u32 := arrow.PrimitiveTypes.Uint32
	table, err := columnsOf(lookup, []string{"min", "max", "null_count", "page_idx"}, []arrow.DataType{stored, stored, u32, u32})
	if err != nil {
		return nil, err
	}
	bounds, bytes, err := table.whole(ctx)
	if err != nil {
		return nil, err
	}
	file, err := open(ctx, pagesFile)
	if err != nil {
		return nil, err
	}
	t := &BTree{rows: file.Description().Rows}
	if t.data, err = columnsOf(file, []string{"values", "ids"}, []arrow.DataType{stored, arrow.PrimitiveTypes.Uint64}); err != nil {
		return nil, err
	}
	ids := *t.data
	ids.leaves = ids.leaves[1:]
	t.onlyID = &ids
	if err := t.setPages(bounds, batch); err != nil {
		return nil, err
	}
	t.bytes = 4*bytes + 128*int64(len(t.pages)) + lookup.Size() + file.Size()
	return t, nil
}

// setPages makes pages of the lookup table's columns.
func (t *BTree) setPages(bounds []arrow.Array, batch uint64) error {
	low, err := valuesOf(bounds[0])
	if err != nil {
		return err
	}
	high, err := valuesOf(bounds[1])
	if err != nil {
		return err
	}
	nulls, number := bounds[2].(*array.Uint32), bounds[3].(*array.Uint32)
	if nulls.NullN() > 0 || number.NullN() > 0 {
		return fault.Corruptf(-1, "index: a page without its number or count of nulls")
	}
	covered := uint64(0)
	for i := range low.len() {
		p := page{start: uint64(number.Value(i)) * batch}
		if p.start >= t.rows {
			return fault.Corruptf(-1, "index: page %d begins at row %d of %d", number.Value(i), p.start, t.rows)
		}
		p.end = min(p.start+batch, t.rows)
		count := uint64(nulls.Value(i))
		if count > p.end-p.start {
			return fault.Corruptf(-1, "index: page %d of %d rows has %d nulls", number.Value(i), p.end-p.start, count)
		}
		p.nulls, p.values = count > 0, count < p.end-p.start
		if p.values {
			p.low, p.high = low.end(i), high.end(i)
			p.order()
		}
		covered += p.end - p.start
		t.pages = append(t.pages, p)
	}
	if covered != t.rows {
		return fault.Corruptf(-1, "index: pages of %d rows for %d", covered, t.rows)
	}
	slices.SortFunc(t.pages, func(a, b page) int {
		if a.start < b.start {
			return -1
		}
		return 1
	})
	for i := 1; i < len(t.pages); i++ {
		if t.pages[i].start != t.pages[i-1].end {
			return fault.Corruptf(-1, "index: two pages begin at row %d", t.pages[i].start)
		}
	}
	return nil
}

// order makes the ends of a page those of SQL's order. The writer takes the
// first and the last value of its own order: nulls, NaN with the sign bit set,
// numbers, NaN. So a page that begins with a null or NaN may hold NaN, which SQL
// has above all numbers.
func (p *page) order() {
	if p.high != nil && p.high.isNaN() {
		p.high = nil
	}
	if p.low != nil && p.low.isNaN() {
		p.low = nil
	}
	if p.low == nil && p.high != nil && p.high.kind == Float {
		p.high = nil
	}
}

// Size is about how many bytes the index keeps alive.
func (t *BTree) Size() int64 { return t.bytes }

// Entries is how many rows the index holds.
func (t *BTree) Entries() uint64 { return t.rows }

// match says how much of a page a test matches.
func (p *page) match(t Test) overlap {
	values, nulls := none, none
	if p.values {
		values = t.within(p.low, p.high)
	}
	if p.nulls && t.null == True {
		nulls = all
	}
	switch {
	case values == none && nulls == none:
		return none
	case (values == all || !p.values) && (nulls == all || !p.nulls):
		return all
	}
	return some
}

// Search limits.
const (
	readRows   = 64 << 10 // entries that are decoded at once
	edgesShare = 4        // more pages than one in so many must not be searched for a few rows each …
	edgesLeast = 64       // … unless they are no more than so many
)

// Search finds the rows that a test is true of, at most so many; more, or more
// work than it is worth, is ErrMany.
func (t *BTree) Search(ctx context.Context, test Test, most uint64) (Rows, error) {
	var whole, edges []encoding.Range
	sure, searched := uint64(0), 0
	for i := range t.pages {
		p := &t.pages[i]
		switch p.match(test) {
		case all:
			whole = extended(whole, p)
			sure += p.end - p.start
		case some:
			edges = extended(edges, p)
			searched++
		}
	}
	if sure > most || searched > max(edgesLeast, len(t.pages)/edgesShare) {
		return Rows{}, ErrMany
	}
	found := collector{most: most}
	for part := range parts(whole) {
		out, err := t.onlyID.read(ctx, part)
		if err != nil {
			return Rows{}, err
		}
		ids, err := rowNumbers(out[0])
		if err != nil {
			return Rows{}, err
		}
		for _, id := range ids {
			if !found.add(id) {
				return Rows{}, ErrMany
			}
		}
	}
	for part := range parts(edges) {
		out, err := t.data.read(ctx, part)
		if err != nil {
			return Rows{}, err
		}
		v, err := valuesOf(out[0])
		if err != nil {
			return Rows{}, err
		}
		ids, err := rowNumbers(out[1])
		if err != nil {
			return Rows{}, err
		}
		for i, id := range ids {
			if v.matches(test, i) && !found.add(id) {
				return Rows{}, ErrMany
			}
		}
	}
	return found.rows(), nil
}

// extended adds the rows of a page that comes after all of them.
func extended(rows []encoding.Range, p *page) []encoding.Range {
	if n := len(rows); n > 0 && rows[n-1].End == p.start {
		rows[n-1].End = p.end
		return rows
	}
	return append(rows, encoding.Range{Start: p.start, End: p.end})
}

// parts cuts rows into portions that are decoded at once.
func parts(rows []encoding.Range) func(yield func([]encoding.Range) bool) {
	return func(yield func([]encoding.Range) bool) {
		var part []encoding.Range
		left := uint64(readRows)
		for _, r := range rows {
			for r.Start < r.End {
				end := min(r.End, r.Start+left)
				part = append(part, encoding.Range{Start: r.Start, End: end})
				left -= end - r.Start
				r.Start = end
				if left == 0 {
					if !yield(part) {
						return
					}
					part, left = nil, readRows
				}
			}
		}
		if len(part) > 0 {
			yield(part)
		}
	}
}

// collector gathers rows up to a number.
type collector struct {
	most uint64
	list []uint64
}

// add takes one row. False says that there are too many.
func (c *collector) add(row uint64) bool {
	if row != math.MaxUint64 { // which ends no range, and belongs to no row
		c.list = append(c.list, row)
	}
	return uint64(len(c.list)) <= c.most
}

func (c *collector) rows() Rows {
	if len(c.list) == 0 {
		return Rows{}
	}
	return rowsOfNumbers(c.list)
}
