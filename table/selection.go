package table

// positionRange is the half-open interval [start, end) of positions in scan
// order.
type positionRange struct{ start, end uint64 }

func (r positionRange) len() uint64 { return r.end - r.start }

// Selection is some of the rows of a snapshot, for scans of that snapshot.
type Selection struct {
	ranges []positionRange // ascending, disjoint, none empty
	rows   uint64
}

// Rows is how many rows are selected.
func (s *Selection) Rows() uint64 { return s.rows }

// add appends positions at or after all that are there.
func (s *Selection) add(start, end uint64) {
	if start >= end {
		return
	}
	s.rows += end - start
	if n := len(s.ranges); n > 0 && s.ranges[n-1].end == start {
		s.ranges[n-1].end = end
		return
	}
	s.ranges = append(s.ranges, positionRange{start, end})
}
