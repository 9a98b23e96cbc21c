package index

import (
	"cmp"
	"iter"
	"maps"
	"math/bits"
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

// rowsOfNumbers makes a set of single rows in any order, each of which comes
// once or more. It changes them.
func rowsOfNumbers(rows []uint64) Rows {
	var ranges []Range
	for _, half := range byHalf(rows) {
		low, high := half[0], half[0]
		for _, r := range half {
			low, high = min(low, r), max(high, r)
		}
		if words := (high-low)/64 + 1; words <= uint64(len(half)) { // marking them beats sorting
			ranges = marked(ranges, half, low, words)
			continue
		}
		slices.Sort(half)
		for _, r := range half {
			if n := len(ranges); n > 0 && r <= ranges[n-1].End {
				ranges[n-1].End = max(ranges[n-1].End, r+1)
			} else {
				ranges = append(ranges, Range{r, r + 1})
			}
		}
	}
	return RowsOf(ranges)
}

// byHalf sorts rows into those of each upper half, ascending.
func byHalf(rows []uint64) [][]uint64 {
	count := map[uint64]int{}
	for _, r := range rows {
		count[r>>32]++
	}
	if len(count) == 1 {
		return [][]uint64{rows}
	}
	parts := map[uint64][]uint64{}
	for half, n := range count {
		parts[half] = make([]uint64, 0, n)
	}
	for _, r := range rows {
		parts[r>>32] = append(parts[r>>32], r)
	}
	out := make([][]uint64, 0, len(parts))
	for _, half := range slices.Sorted(maps.Keys(parts)) {
		out = append(out, parts[half])
	}
	return out
}

// marked adds the ranges of rows, the least of which is low, by a bit for each.
func marked(ranges []Range, rows []uint64, low, words uint64) []Range {
	bitmap := make([]uint64, words)
	for _, r := range rows {
		bitmap[(r-low)/64] |= 1 << ((r - low) % 64)
	}
	for i, word := range bitmap {
		base := low + uint64(i)*64
		for word != 0 {
			start := bits.TrailingZeros64(word)
			length := bits.TrailingZeros64(^(word >> start))
			from, to := base+uint64(start), base+uint64(start+length)
			if n := len(ranges); n > 0 && ranges[n-1].End == from {
				ranges[n-1].End = to
			} else {
				ranges = append(ranges, Range{from, to})
			}
			if start+length == 64 {
				break
			}
			word &= ^uint64(0) << (start + length)
		}
	}
	return ranges
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

// Without has the rows that are not in o.
func (r Rows) Without(o Rows) Rows {
	var out []Range
	left := o.ranges
	for _, x := range r.ranges {
		for len(left) > 0 && left[0].End <= x.Start {
			left = left[1:]
		}
		for _, gone := range left {
			if gone.Start >= x.End {
				break
			}
			if gone.Start > x.Start {
				out = append(out, Range{x.Start, gone.Start})
			}
			x.Start = min(x.End, gone.End)
		}
		if x.Start < x.End {
			out = append(out, x)
		}
	}
	return RowsOf(out)
}
