package index

import "slices"

// Move says where rows went: the rows From, in order, became the rows To, of which
// there are as many. Rows of Gone that are not in From are no more.
type Move struct {
	Gone Rows
	From []Range // ascending, disjoint
	To   []Range // in any order
}

// Moved gives the addresses that rows have after moves, one after the other.
// Addresses that none of them knows stay.
func Moved(rows Rows, moves []Move) Rows {
	for i := range moves {
		if m := &moves[i]; rows.Count() > 0 {
			rows = m.apply(rows)
		}
	}
	return rows
}

func (m *Move) apply(rows Rows) Rows {
	if rows.Intersect(m.Gone).Count() == 0 {
		return rows
	}
	out := slices.Clone(rows.Without(m.Gone).ranges)
	// Ranks of the rows among From, then the addresses of these ranks.
	var ranks []Range
	before := uint64(0)
	list := rows.ranges
	for _, from := range m.From {
		for len(list) > 0 && list[0].End <= from.Start {
			list = list[1:]
		}
		for _, r := range list {
			if r.Start >= from.End {
				break
			}
			start, end := max(r.Start, from.Start), min(r.End, from.End)
			ranks = append(ranks, Range{before + start - from.Start, before + end - from.Start})
		}
		before += from.End - from.Start
	}
	at := uint64(0)
	for _, to := range m.To {
		end := at + to.End - to.Start
		for len(ranks) > 0 && ranks[0].Start < end {
			r := ranks[0]
			stop := min(r.End, end)
			out = append(out, Range{to.Start + r.Start - at, to.Start + stop - at})
			if ranks[0].Start = stop; stop == r.End {
				ranks = ranks[1:]
			}
		}
		at = end
	}
	return RowsOf(out)
}
