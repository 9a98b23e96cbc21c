package materialize

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/flightblob/flightblob/blob"
	"github.com/flightblob/flightblob/internal/fault"
)

// leafView is one blob leaf of one source batch: its descriptors, and which of
// them belong to which row.
type leafView struct {
	leafInfo
	column blob.Column
	cursor blob.Cursor
	// sources and origins replace the cursor for a Mixed source.
	sources *array.Uint32
	origins *origins
	levels  []level // one for each list on the way, outermost first
	// visible tells the elements that no null ancestor hides; nil = all.
	// Hidden ones are never read, whatever they hold (IN-11).
	visible []bool
}

// level maps the slots of one list layer to ranges of the next layer's slots.
type level struct {
	off32 []int32
	off64 []int64
}

func (l level) at(i int) int {
	if l.off32 != nil {
		return int(l.off32[i])
	}
	return int(l.off64[i])
}

// bound gives the first leaf element of row r; that of row r+1 ends it.
func (l *leafView) bound(r int) int {
	for _, level := range l.levels {
		r = level.at(r)
	}
	return r
}

// hidden tells whether a null ancestor hides element i.
func (l *leafView) hidden(i int) bool { return l.visible != nil && !l.visible[i] }

// collect views the blob leaves of a batch. Owners are in leaf order.
func (t *tree) collect(rec arrow.RecordBatch, blobs *blob.Resolver, src Source, mixed *origins) ([]*leafView, error) {
	var owners []*blob.Owner
	if mixed == nil {
		owners = src.Owners()
	}
	if mixed == nil && len(owners) != len(t.leaves) {
		return nil, fault.New(fault.Internal, "materialize: %d owners for %d blob columns", len(owners), len(t.leaves))
	}
	if int(rec.NumCols()) != len(t.columns) {
		return nil, fault.New(fault.Internal, "materialize: a batch of %d columns for %d", rec.NumCols(), len(t.columns))
	}
	c := collector{tree: t, blobs: blobs, owners: owners, origins: mixed}
	for i, n := range t.columns {
		if n == nil {
			continue
		}
		if err := c.walk(n, rec.Column(i), nil, nil); err != nil {
			return nil, err
		}
	}
	return c.views, nil
}

type collector struct {
	tree   *tree
	blobs  *blob.Resolver
	owners []*blob.Owner
	// origins is set for a Mixed source, which has no owners.
	origins *origins
	views   []*leafView
}

func (c *collector) walk(n *node, arr arrow.Array, levels []level, visible []bool) error {
	if n.leaf >= 0 {
		view, err := c.leaf(n, arr)
		if err != nil {
			return fault.New(fault.KindOf(err), "materialize: %s: %w", c.tree.leaves[n.leaf].path, err)
		}
		view.levels, view.visible = append([]level(nil), levels...), visible
		c.views = append(c.views, view)
		return nil
	}
	switch a := arr.(type) {
	case *array.Struct:
		if a.NumField() != len(n.children) {
			return fault.New(fault.Internal, "materialize: %s has %d children, not %d", n.out.Name, a.NumField(), len(n.children))
		}
		visible = below(a, visible)
		for i, child := range n.children {
			if child == nil {
				continue
			}
			if a.Field(i).Len() != a.Len() {
				return fault.New(fault.Corrupt, "materialize: %s holds %d values for %d rows", child.out.Name, a.Field(i).Len(), a.Len())
			}
			if err := c.walk(child, a.Field(i), levels, visible); err != nil {
				return err
			}
		}
		return nil
	case *array.List:
		return c.list(n, a, level{off32: window(a.Offsets(), a)}, levels, visible)
	case *array.LargeList:
		return c.list(n, a, level{off64: window(a.Offsets(), a)}, levels, visible)
	}
	return fault.New(fault.Internal, "materialize: %s is %T", n.out.Name, arr)
}

// leaf views the values of a leaf.
func (c *collector) leaf(n *node, arr arrow.Array) (v *leafView, err error) {
	v = &leafView{leafInfo: c.tree.leaves[n.leaf]}
	if c.origins != nil {
		v.origins = c.origins
		v.column, v.sources, err = reference(arr)
		return v, err
	}
	v.cursor = c.blobs.Cursor(c.owners[n.leaf])
	v.column, err = blob.AsColumn(arr)
	return v, err
}

// window cuts an offsets buffer to the array's slots; one that is too short is
// found by level.check. An empty list array may come without offsets.
func window[T int32 | int64](offsets []T, arr arrow.Array) []T {
	from, to := arr.Data().Offset(), arr.Data().Offset()+arr.Len()+1
	if arr.Len() == 0 {
		return []T{0}
	}
	return offsets[min(from, len(offsets)):min(to, len(offsets))]
}

// below narrows visibility by the validity of arr's slots; nil = all visible.
func below(arr arrow.Array, visible []bool) []bool {
	if arr.NullN() == 0 {
		return visible
	}
	narrowed := make([]bool, arr.Len())
	for i := range narrowed {
		narrowed[i] = arr.IsValid(i) && (visible == nil || visible[i])
	}
	return narrowed
}

func (c *collector) list(n *node, arr array.ListLike, l level, levels []level, visible []bool) error {
	values := arr.ListValues()
	if err := l.check(arr.Len(), values.Len()); err != nil {
		return fault.New(fault.Corrupt, "materialize: %s: %w", n.out.Name, err)
	}
	if visible = below(arr, visible); visible != nil {
		inner := make([]bool, values.Len())
		for i, shown := range visible {
			if shown {
				for k := l.at(i); k < l.at(i+1); k++ {
					inner[k] = true
				}
			}
		}
		visible = inner
	}
	return c.walk(n.children[0], values, append(levels[:len(levels):len(levels)], l), visible)
}

// check refuses offsets that do not rise from 0 to at most the child's length.
func (l level) check(rows, values int) error {
	if have := max(len(l.off32), len(l.off64)); have < rows+1 {
		return fmt.Errorf("%d list offsets for %d rows", have, rows)
	}
	last := 0
	for i := range rows + 1 {
		at := l.at(i)
		if at < last {
			return fmt.Errorf("list offset %d after %d", at, last)
		}
		last = at
	}
	if last > values {
		return fmt.Errorf("list offset %d beyond %d elements", last, values)
	}
	return nil
}
