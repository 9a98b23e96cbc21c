package index

import (
	"cmp"
	"iter"
	"slices"
)

// Range is the half-open interval [Start, End) of row addresses or row ids.
type Range struct{ Start, End uint64 }

// Rows is a set of row addresses or row ids: ranges, ascending, disjoint, not
// adjacent, none empty. It is read-only.
type Rows struct {
	ranges []Range
	count  uint64
}

// RowsOf makes a set of ranges in any order, which it keeps and changes.
func RowsOf(ranges []Range) Rows {
	ascending := func(a, b Range) int { return cmp.Compare(a.Start, b.Start) }
	if !slices.IsSortedFunc(ranges, ascending) {
		slices.SortFunc(ranges, ascending)
	}
	r := Rows{ranges: ranges[:0]}
	for _, next := range ranges {
		if next.Start >= next.End {
			continue
		}
		if n := len(r.ranges); n > 0 && next.Start <= r.ranges[n-1].End {
			r.ranges[n-1].End = max(r.ranges[n-1].End, next.End)
			continue
		}
		r.ranges = append(r.ranges, next)
	}
	for _, x := range r.ranges {
		r.count += x.End - x.Start
	}
	return r
}

// Count is the number of rows.
func (r Rows) Count() uint64 { return r.count }

// Ranges are the rows in order.
func (r Rows) Ranges() []Range { return r.ranges }

// Union has the rows of both sets.
func (r Rows) Union(o Rows) Rows {
	if r.count == 0 {
		return o
	}
	if o.count == 0 {
		return r
	}
	return RowsOf(append(slices.Clone(r.ranges), o.ranges...))
}

// Intersect has the rows that are in both sets.
func (r Rows) Intersect(o Rows) Rows {
	var out []Range
	for x := range r.common(o) {
		out = append(out, x)
	}
	return RowsOf(out)
}

func (r Rows) common(o Rows) iter.Seq[Range] {
	return func(yield func(Range) bool) {
		a, b := r.ranges, o.ranges
		for len(a) > 0 && len(b) > 0 {
			x := Range{max(a[0].Start, b[0].Start), min(a[0].End, b[0].End)}
			if x.Start < x.End && !yield(x) {
				return
			}
			if a[0].End < b[0].End {
				a = a[1:]
			} else {
				b = b[1:]
			}
		}
	}
}
