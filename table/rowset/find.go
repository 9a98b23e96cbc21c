package rowset

import (
	"math/bits"
	"sort"
)

// Find gives the physical offsets of the rows whose ids lie in some ranges,
// which are ascending and disjoint. Offsets come as ranges, in no order, each
// once. It takes a step for each range, and for each id only where ids are kept
// as an array.
func (s *IDs) Find(ids []Range, yield func(Range)) {
	first := uint64(0)
	for i, seg := range s.segments {
		switch seg := seg.(type) {
		case ordered:
			findOrdered(seg, ids, func(r Range) { yield(Range{first + r.Start, first + r.End}) })
		default:
			for k := range seg.len() {
				if inside(ids, seg.at(k)) {
					yield(Range{first + k, first + k + 1})
				}
			}
		}
		first = s.ends[i]
	}
}

// ordered is a segment whose ids ascend.
type ordered interface {
	segment
	// before is how many ids of the segment are below an id.
	before(id uint64) uint64
}

// findOrdered uses that the ids of a range follow each other in the segment.
func findOrdered(seg ordered, ids []Range, yield func(Range)) {
	n := seg.len()
	low, high := seg.at(0), seg.at(n-1)
	from := sort.Search(len(ids), func(i int) bool { return ids[i].End > low })
	for _, r := range ids[from:] {
		if r.Start > high {
			return
		}
		found := Range{seg.before(r.Start), n}
		if r.End <= high {
			found.End = seg.before(r.End)
		}
		if found.Start < found.End {
			yield(found)
		}
	}
}

func inside(ids []Range, id uint64) bool {
	i := sort.Search(len(ids), func(i int) bool { return ids[i].End > id })
	return i < len(ids) && ids[i].Start <= id
}

func (s span) before(id uint64) uint64 {
	return min(max(id, s.start), s.end) - s.start
}

func (s holed) before(id uint64) uint64 {
	holes := sort.Search(int(s.holes.len()), func(h int) bool { return s.holes.at(uint64(h)) >= id })
	return s.span.before(id) - uint64(holes)
}

func (s marked) before(id uint64) uint64 {
	bit := s.span.before(id)
	if bit == s.span.len() {
		return s.len()
	}
	n := s.counts[bit/8/rankStep]
	for k := bit / 8 / rankStep * rankStep; k < bit/8; k++ {
		n += uint64(bits.OnesCount8(s.bitmap[k]))
	}
	return n + uint64(bits.OnesCount8(s.bitmap[bit/8]&(1<<(bit%8)-1)))
}

// ascending is an array of ids that ascend.
type ascending struct{ encoded }

func (a ascending) before(id uint64) uint64 {
	return uint64(sort.Search(int(a.len()), func(i int) bool { return a.at(uint64(i)) >= id }))
}
