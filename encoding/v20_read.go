package encoding

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/schema"
)

// Read decodes the leaf for rows of the top-level field: sorted, disjoint
// ranges. Only pages that hold them are touched; pages of fixed width and
// offsets are read in part, and so are the bytes of strings. Each list above
// the leaf costs one round of requests, the leaf one or two.
//
// A null list has no children in the answer, although files may keep items
// under it. The values of blobs are of schema.DescriptorType, also for a field
// that has become a Blob v2 since the file was written (LEG-6), or large_binary
// when PlainBlob says so.
func (r *Reader20) Read(ctx context.Context, fetch Fetch, rows []Range) (*Leaf, error) {
	sel := make([]Range, 0, len(rows))
	var last uint64
	for _, s := range rows {
		if s.Start < last || s.End < s.Start {
			return nil, fault.New(fault.Internal, "encoding: row ranges are not sorted and disjoint")
		}
		if last = s.End; s.Len() > 0 {
			sel = append(sel, s)
		}
	}
	leaf, err := r.read(ctx, fetch, sel)
	return leaf, r.wrap(err)
}

func (r *Reader20) read(ctx context.Context, fetch Fetch, sel []Range) (*Leaf, error) {
	out := &Leaf{Layers: make([]Layer, 0, len(r.path))}
	for _, lists := range r.above {
		slots, err := countSlots(sel)
		if err != nil {
			return nil, err
		}
		layer := Layer{Kind: ItemLayer, Slots: slots}
		if lists != nil {
			if layer, sel, err = lists.lists20(ctx, fetch, sel); err != nil {
				return nil, err
			}
		}
		out.Layers = append(out.Layers, layer)
	}
	slots, err := countSlots(sel)
	if err != nil {
		return nil, err
	}
	switch r.kind {
	case structLeaf20:
		return r.readKids(ctx, fetch, sel, out)
	case charsLeaf20:
		return r.readChars(ctx, fetch, sel, out)
	case emptyLeaf20:
		if err := r.leaf.select20(sel, func(*page20, []Range) error { return nil }); err != nil {
			return nil, err
		}
		out.Layers = append(out.Layers, Layer{Kind: ItemLayer, Slots: slots})
		out.Values = newStruct20(r.typ, slots, nil, 0, nil)
		return out, nil
	default:
		return r.readArrays(ctx, fetch, sel, slots, out)
	}
}

// lists20 reads the lists of a selection: their layer, and the items that the
// valid ones own as a selection of the items' column.
func (p *pages20) lists20(ctx context.Context, fetch Fetch, sel []Range) (Layer, []Range, error) {
	type part struct {
		page *page20
		ends *ends20
	}
	var parts []part
	q := new(queue20)
	err := p.select20(sel, func(page *page20, sel []Range) error {
		ends, err := newEnds20(page, page.enc.GetList().GetOffsets(), page.slots, sel, page.nullAdd)
		if err != nil {
			return err
		}
		parts = append(parts, part{page, ends})
		return ends.offsets.want(q)
	})
	if err == nil {
		err = q.run(ctx, fetch)
	}
	if err != nil {
		return Layer{}, nil, err
	}
	slots := s20len(sel)
	layer := Layer{Kind: ListLayer, Slots: slots, Offsets: append(make([]int64, 0, slots+1), 0)}
	var items []Range
	var total uint64
	bits := bitmap20{slots: slots}
	for _, part := range parts {
		e := part.ends
		if err := e.resolve(); err != nil {
			return Layer{}, nil, err
		}
		i := 0
		for k, s := range e.sel {
			from := e.starts[k]
			for range s.Len() {
				end := e.ends[i]
				if end > part.page.items {
					return Layer{}, nil, fault.Corruptf(-1, "encoding: list ends at item %d of %d", end, part.page.items)
				}
				if end > from && (e.valid == nil || getBit(e.valid, i)) {
					items = appendRange(items, Range{part.page.item + from, part.page.item + end})
					if total += end - from; total > maxSlots20 {
						return Layer{}, nil, fault.New(fault.Exhausted, "encoding: lists of more than %d items in one read; ask for fewer rows", maxSlots20)
					}
				}
				layer.Offsets = append(layer.Offsets, int64(total))
				from = end
				i++
			}
		}
		bits.add(len(e.ends), e.valid, e.nulls)
	}
	layer.Validity, layer.Nulls = bits.result()
	return layer, items, nil
}

// appendRange adds a range that lies after all others, joining neighbours.
func appendRange(sel []Range, r Range) []Range {
	if n := len(sel); n > 0 && sel[n-1].End == r.Start {
		sel[n-1].End = r.End
		return sel
	}
	return append(sel, r)
}

// bitmap20 gathers validity; it stays nil while nothing is null.
type bitmap20 struct {
	slots int // expected in the end
	n     int
	bits  []byte
	nulls int
}

func (b *bitmap20) add(n int, valid []byte, nulls int) {
	switch {
	case nulls > 0 && b.bits == nil:
		b.bits = appendOnes(make([]byte, 0, (b.slots+7)/8), 0, b.n)
		b.bits = appendBits(b.bits, b.n, valid, 0, n)
	case nulls > 0:
		b.bits = appendBits(b.bits, b.n, valid, 0, n)
	case b.bits != nil:
		b.bits = appendOnes(b.bits, b.n, n)
	}
	b.n += n
	b.nulls += nulls
}

func (b *bitmap20) result() ([]byte, int) { return b.bits, b.nulls }

// readArrays reads a leaf with an array per page, blobs included.
func (r *Reader20) readArrays(ctx context.Context, fetch Fetch, sel []Range, slots int, out *Leaf) (*Leaf, error) {
	var arrays []array20
	q := new(queue20)
	err := r.leaf.select20(sel, func(page *page20, sel []Range) error {
		a, err := newArray20(page, page.enc, page.slots, sel, r.typ.ID() == arrow.DICTIONARY, 0)
		if err != nil {
			return err
		}
		arrays = append(arrays, a)
		return a.want(q)
	})
	if err == nil {
		err = q.run(ctx, fetch)
	}
	for _, a := range arrays {
		if err == nil {
			err = a.more(q)
		}
	}
	if err == nil {
		err = q.run(ctx, fetch)
	}
	if err != nil {
		return nil, err
	}
	return r.assemble(arrays, slots, out)
}

// assemble turns decoded pages into the layers of the leaf's column and values.
func (r *Reader20) assemble(arrays []array20, slots int, out *Leaf) (*Leaf, error) {
	typ, root := r.typ, r.path[len(out.Layers)]
	if r.kind == blobLeaf20 {
		typ = pair20
	}
	leaves := slots
	if root.Shape == schema.FixedSizeList {
		if root.Dimension <= 0 || slots > maxSlots20/root.Dimension {
			return nil, fault.New(fault.Exhausted, "encoding: %d lists of %d structs in one read; ask for fewer rows", slots, root.Dimension)
		}
		leaves *= root.Dimension
	}
	values, err := newVector(typ, leaves)
	if err != nil {
		return nil, err
	}
	outer, bits := bitmap20{slots: slots}, bitmap20{slots: leaves}
	for _, a := range arrays {
		s, err := a.take()
		if err != nil {
			return nil, err
		}
		if root.Shape == schema.FixedSizeList {
			if s.block.kind == listBlock && s.block.dim != root.Dimension {
				return nil, fault.Corruptf(-1, "encoding: lists of %d items, the schema says %d", s.block.dim, root.Dimension)
			}
			outer.add(s.n, s.valid, s.nulls())
			s = s.items(root.Dimension)
		}
		if r.packed != wholeRow {
			if s, err = s.child(r.packed); err != nil {
				return nil, err
			}
		}
		if err := s.appendTo(values); err != nil {
			return nil, err
		}
		bits.add(s.n, s.valid, s.nulls())
	}
	if root.Shape == schema.FixedSizeList {
		l := Layer{Kind: FixedListLayer, Slots: slots, Dimension: root.Dimension}
		l.Validity, l.Nulls = outer.result()
		out.Layers = append(out.Layers, l)
	}
	// What is left of the path are structs without nulls, down to the leaf.
	for len(out.Layers) < len(r.path)-1 {
		out.Layers = append(out.Layers, Layer{Kind: ItemLayer, Slots: leaves})
	}
	layer := Layer{Kind: ItemLayer, Slots: leaves}
	if r.kind == blobLeaf20 {
		out.Values, layer.Nulls, layer.Validity = descriptors(values)
	} else {
		layer.Validity, layer.Nulls = bits.result()
		if out.Values, err = values.array(layer.Validity, layer.Nulls); err != nil {
			return nil, err
		}
	}
	out.Layers = append(out.Layers, layer)
	return out, nil
}

// nulls counts the null slots.
func (s slots20) nulls() int {
	if s.valid == nil {
		return 0
	}
	return s.n - countBits(s.valid, 0, s.n)
}

// items are the slots of fixed-size lists' children.
func (s slots20) items(dim int) slots20 {
	if s.block.kind != listBlock {
		return slots20{n: s.n * dim, block: &block{kind: nullBlock, n: s.n * dim}}
	}
	return slots20{n: s.block.kids[0].n, block: s.block.kids[0]}
}

// appendTo adds the slots to a vector.
func (s slots20) appendTo(v *vector) error {
	if s.idx != nil {
		return v.appendGather(s.block, s.idx)
	}
	return v.append(s.block, 0, s.n)
}

// readChars reads strings that early writers stored as lists of bytes: lists
// in one column, their bytes in the next (sheet section 5.6).
func (r *Reader20) readChars(ctx context.Context, fetch Fetch, sel []Range, out *Leaf) (*Leaf, error) {
	layer, chars, err := r.leaf.lists20(ctx, fetch, sel)
	if err != nil {
		return nil, err
	}
	var arrays []array20
	q := new(queue20)
	err = r.chars.select20(chars, func(page *page20, sel []Range) error {
		a, err := newPlain20(page, "bytes of strings", page.enc, page.slots, sel, s20len(sel))
		if err != nil {
			return err
		}
		arrays = append(arrays, a)
		return a.want(q)
	})
	if err == nil {
		err = q.run(ctx, fetch)
	}
	if err != nil {
		return nil, err
	}
	parts := make([][]byte, len(arrays))
	for i, a := range arrays {
		if parts[i], err = takeBytes20(a); err != nil {
			return nil, err
		}
	}
	b, err := newVar(joinBytes(parts), layer.Offsets)
	if err != nil {
		return nil, err
	}
	values, err := newVector(r.typ, layer.Slots)
	if err != nil {
		return nil, err
	}
	if err := values.append(b, 0, b.n); err != nil {
		return nil, err
	}
	if out.Values, err = values.array(layer.Validity, layer.Nulls); err != nil {
		return nil, err
	}
	layer.Kind, layer.Offsets = ItemLayer, nil
	out.Layers = append(out.Layers, layer)
	return out, nil
}

// readKids reads a struct that is marked packed but stored with a column per
// child, as early writers did.
func (r *Reader20) readKids(ctx context.Context, fetch Fetch, sel []Range, out *Leaf) (*Leaf, error) {
	slots := s20len(sel)
	data := make([]arrow.ArrayData, len(r.kids))
	want := r.typ.(*arrow.StructType).Fields()
	for i, kid := range r.kids {
		// The kid's path repeats the lists above, which are resolved already.
		leaf, err := kid.readLeafOnly(ctx, fetch, sel)
		if err != nil {
			return nil, err
		}
		if leaf.Values.Len() != slots || !arrow.TypeEqual(leaf.Values.DataType(), want[i].Type) {
			return nil, fault.Corruptf(-1, "encoding: child %q of a packed struct is %d values of %s", want[i].Name, leaf.Values.Len(), leaf.Values.DataType())
		}
		data[i] = leaf.Values.Data()
	}
	out.Layers = append(out.Layers, Layer{Kind: ItemLayer, Slots: slots})
	out.Values = newStruct20(r.typ, slots, nil, 0, data)
	return out, nil
}

// readLeafOnly reads slots of the leaf's own column.
func (r *Reader20) readLeafOnly(ctx context.Context, fetch Fetch, sel []Range) (*Leaf, error) {
	own := *r
	own.above, own.path = nil, r.path[len(r.above):]
	return own.read(ctx, fetch, sel)
}
