package blob

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"

	"github.com/flightblob/flightblob/internal/nest"
)

// place says where the elements of an array lie in a batch, and which of them
// nobody can see. The nil place is a column of the batch itself.
type place struct {
	above  *place
	hidden []byte         // bit by element, nil if all can be seen
	lists  array.ListLike // the lists that hold the elements; nil below a struct
	first  int64          // number of element 0 among all items of lists
}

// inStruct is the place of the children of structs that lie at p.
func (p *place) inStruct(a *array.Struct) *place {
	below := &place{above: p}
	if p != nil {
		below.hidden = p.hidden
	}
	if a.NullN() == 0 {
		return below
	}
	hidden := make([]byte, bitutil.BytesForBits(int64(a.Len())))
	for i := range a.Len() {
		if a.IsNull(i) || p.hides(i) {
			bitutil.SetBit(hidden, i)
		}
	}
	below.hidden = hidden
	return below
}

// inLists is the place of the items of lists that lie at p, with the items;
// the caller releases them.
func (p *place) inLists(a array.ListLike) (arrow.Array, *place) {
	items, first := nest.Items(a)
	below := &place{above: p, lists: a, first: first}
	if a.NullN() == 0 && (p == nil || p.hidden == nil) {
		return items, below
	}
	below.hidden = make([]byte, bitutil.BytesForBits(int64(items.Len())))
	for i := range a.Len() {
		if a.IsNull(i) || p.hides(i) {
			from, to := a.ValueOffsets(i)
			bitutil.SetBitsTo(below.hidden, from-first, to-from, true)
		}
	}
	return items, below
}

// hides tells whether element i lies below something null.
func (p *place) hides(i int) bool {
	return p != nil && p.hidden != nil && bitutil.BitIsSet(p.hidden, i)
}

// inList tells whether some list lies above.
func (p *place) inList() bool {
	for ; p != nil; p = p.above {
		if p.lists != nil {
			return true
		}
	}
	return false
}

// of gives the row of the batch that element i lies in, and its place in each
// list on the way, outermost first.
func (p *place) of(i int) (row int, elements []int) {
	for ; p != nil; p = p.above {
		if p.lists == nil {
			continue
		}
		item := p.first + int64(i)
		i = nest.Holder(p.lists, item)
		start, _ := p.lists.ValueOffsets(i)
		elements = append([]int{int(item - start)}, elements...)
	}
	return i, elements
}
