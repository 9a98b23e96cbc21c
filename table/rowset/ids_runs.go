package rowset

// longRun is how many ids in a row become a segment of their own: a range takes
// about as much as a few single ids.
const longRun = 64

// RunsOf makes a sequence of ids of which long stretches count up by one, as
// those of rows that came from several fragments: each stretch is a range, what
// lies between stays as it is. It keeps values.
func RunsOf(values []uint64) *IDs {
	ids := &IDs{}
	rest := 0 // first of the values that are in no segment yet
	add := func(s segment, end int) {
		ids.segments = append(ids.segments, s)
		ids.ends = append(ids.ends, uint64(end))
	}
	for start := 0; start < len(values); {
		end := start + 1
		for end < len(values) && values[end] == values[end-1]+1 && values[end] != 0 {
			end++
		}
		// The end of a range is exclusive, so the greatest number can be in none.
		if end-start >= longRun && values[end-1]+1 != 0 {
			if rest < start {
				add(values64(values[rest:start]), start)
			}
			add(span{values[start], values[end-1] + 1}, end)
			rest = end
		}
		start = end
	}
	if rest < len(values) {
		add(values64(values[rest:]), len(values))
	}
	return ids
}
