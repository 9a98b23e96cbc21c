package encoding

// section is an interval of the rows that wait which makes one page.
type section struct {
	row, rows   int
	entry, last int // entries [entry, last)
	value, n    int // n values from value on
	zipped      bool
}

// Entries without a value (null and empty lists) travel in the chunk of the
// value after them, and every chunk but the last holds at least two values. The
// levels of a chunk have an upper bound, so long runs of such entries are kept
// out of mini-block pages: between two values lie at most
// 2*maxRowGap+maxRunGap, and three times that fits a chunk.
const (
	maxRowGap = 2_500  // at the start, at the end and within one row
	maxRunGap = 16_000 // rows without any value in sequence
)

// maxChunkLevels bounds the levels of a chunk so that each stream stays below
// 65 536 bytes (sheet section 8.1): that many levels are never stored plain, and
// levels have at most 8 bits.
const maxChunkLevels = 65_000

// sections cuts the rows that wait into pages, mostly into one. Long runs of
// rows without any value become pages of their own, which hold levels only;
// rows with long runs inside go to full-zip pages, which have no chunks.
func (e *Encoder) sections() []section {
	whole := section{rows: e.rows, last: e.rows * e.scale, n: e.vals.n}
	if e.codes.lists > 0 {
		whole.last = len(e.rep)
	}
	if e.codes.lists == 0 || whole.last-whole.n <= maxRowGap || e.longestGap() <= maxRowGap {
		return []section{whole}
	}
	var out []section
	var idle section // rows without values that belong nowhere yet
	at := section{}
	for at.last < len(e.rep) {
		at = e.rowAt(at)
		if at.n == 0 {
			idle = joined(idle, at)
			continue
		}
		n := len(out)
		if idle.last-idle.entry > maxRunGap {
			out, idle = append(out, idle), section{}
			n++
		}
		if n > 0 && out[n-1].n > 0 && out[n-1].zipped == at.zipped {
			out[n-1] = joined(joined(out[n-1], idle), at)
		} else {
			out = append(out, joined(idle, at))
		}
		idle = section{}
	}
	if idle.rows > 0 {
		if n := len(out); n > 0 && idle.last-idle.entry <= maxRunGap {
			out[n-1] = joined(out[n-1], idle)
		} else {
			out = append(out, idle)
		}
	}
	return out
}

// longestGap is the longest run of entries without a value.
func (e *Encoder) longestGap() int {
	last, longest := -1, 0
	for i, d := range e.def {
		if d <= e.codes.visible {
			longest = max(longest, i-last-1)
			last = i
		}
	}
	return max(longest, len(e.def)-last-1)
}

// joined appends b to a.
func joined(a, b section) section {
	switch {
	case b.rows == 0:
		return a
	case a.rows == 0:
		return b
	}
	a.rows += b.rows
	a.last = b.last
	a.n += b.n
	a.zipped = a.zipped || b.zipped
	return a
}

// rowAt describes the row after a section, as a section of its own; zipped
// says that it has a gap which is too long for chunks.
func (e *Encoder) rowAt(prev section) section {
	s := section{row: prev.row + prev.rows, rows: 1, entry: prev.last, value: prev.value + prev.n}
	gap, longest := 0, 0
	i := s.entry
	for ; i < len(e.rep) && (i == s.entry || int(e.rep[i]) != e.codes.lists); i++ {
		if e.def[i] > e.codes.visible {
			gap++
			longest = max(longest, gap)
			continue
		}
		gap = 0
		s.n++
	}
	s.last = i
	s.zipped = s.n > 0 && longest > maxRowGap && e.vals.kind != dictVector
	return s
}
