package encoding_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/flightblob/flightblob/encoding"
)

// fetched counts what a read asked for.
type fetched struct {
	rounds int
	bytes  uint64
}

func (f *fetched) from(file []byte) encoding.Fetch {
	return func(_ context.Context, extents []encoding.Extent) ([][]byte, func(), error) {
		f.rounds++
		out := make([][]byte, len(extents))
		for i, e := range extents {
			f.bytes += e.Size
			out[i] = file[e.Offset : e.Offset+e.Size]
		}
		return out, func() {}, nil
	}
}

// TestPagesOfAColumn repeats golden pages: a read costs the pages that hold its
// rows, the parts of all pages it spans come one after the other, and what is
// in the cache is not fetched again.
func TestPagesOfAColumn(t *testing.T) {
	t.Parallel()
	for i, s := range seedPages(t) {
		name := fmt.Sprintf("page %d, %s at %d.%d of %s", i, s.layout, s.version.Major, s.version.Minor, s.path[0].Name)
		column := func(pages int, cache encoding.Cache) *encoding.Column {
			list := make([]encoding.Page, pages)
			for k := range list {
				list[k] = s.page
			}
			c, err := encoding.NewColumn(s.version, s.path, list, cache)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			return c
		}
		read := func(c *encoding.Column, rows ...encoding.Range) (*encoding.Leaf, fetched) {
			var f fetched
			l, err := c.Read(t.Context(), f.from(s.file), rows)
			if err != nil {
				t.Fatalf("%s %v: %v", name, rows, err)
			}
			return l, f
		}
		one, three := column(1, nil), column(3, mapCache{})
		n := one.Rows()
		last, cost := read(one, encoding.Range{Start: n - 1, End: n})
		first, _ := read(one, encoding.Range{Start: 0, End: 1})
		whole, _ := read(one, encoding.Range{Start: 0, End: n})

		got, paid := read(three, encoding.Range{Start: 2*n - 1, End: 2 * n})
		if paid != cost || !array.Equal(got.Values, last.Values) {
			t.Errorf("%s: one row of three pages cost %+v, of one page %+v", name, paid, cost)
		}
		if _, again := read(three, encoding.Range{Start: 2*n - 1, End: 2 * n}); again.rounds > 2 || again.bytes > paid.bytes {
			t.Errorf("%s: the second read cost %+v, the first %+v", name, again, paid)
		}
		for _, c := range []struct {
			rows  []encoding.Range
			parts []*encoding.Leaf
		}{
			{[]encoding.Range{{Start: n - 1, End: n + 1}}, []*encoding.Leaf{last, first}},
			{[]encoding.Range{{Start: 0, End: 3 * n}}, []*encoding.Leaf{whole, whole, whole}},
			{[]encoding.Range{{Start: 0, End: 1}, {Start: n, End: n + 1}, {Start: 3*n - 1, End: 3 * n}}, []*encoding.Leaf{first, first, last}},
		} {
			got, _ := read(three, c.rows...)
			for depth := range got.Layers {
				slots, nulls := 0, 0
				for _, p := range c.parts {
					slots += p.Layers[depth].Slots
					nulls += p.Layers[depth].Nulls
				}
				if l := got.Layers[depth]; l.Slots != slots || l.Nulls != nulls {
					t.Errorf("%s %v: layer %d has %d slots, %d nulls, want %d, %d", name, c.rows, depth, l.Slots, l.Nulls, slots, nulls)
				}
			}
			arrays := make([]arrow.Array, len(c.parts))
			for k, p := range c.parts {
				arrays[k] = p.Values
			}
			if want, err := array.Concatenate(arrays, memory.DefaultAllocator); err != nil {
				t.Fatalf("%s: %v", name, err)
			} else if !sameValues(got.Values, want) {
				t.Errorf("%s %v: got %v, want %v", name, c.rows, got.Values, want)
			}
		}
	}
}

// sameValues compares arrays whose dictionaries may differ.
func sameValues(a, b arrow.Array) bool {
	if a.DataType().ID() != arrow.DICTIONARY {
		return array.Equal(a, b)
	}
	for i := range a.Len() {
		if a.IsNull(i) != b.IsNull(i) || a.IsValid(i) && a.ValueStr(i) != b.ValueStr(i) {
			return false
		}
	}
	return a.Len() == b.Len()
}
