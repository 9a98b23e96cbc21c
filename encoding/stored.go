package encoding

import "sort"

// Stored estimates the bytes that the rows of a range take in the file: each
// page's share of its buffers, from the page table alone. It bounds reads from
// below the decoded size, which compression makes larger.
func (c *Column) Stored(rows Range) uint64 {
	sum := 0.0
	start := sort.Search(len(c.pages), func(i int) bool { return c.pages[i].first+c.pages[i].shape.rows > rows.Start })
	for _, p := range c.pages[start:] {
		from, to := max(rows.Start, p.first), min(rows.End, p.first+p.shape.rows)
		if from >= to {
			break
		}
		bytes := 0.0
		for _, b := range p.shape.buffers {
			bytes += float64(b.Size)
		}
		sum += bytes * float64(to-from) / float64(p.shape.rows)
	}
	return uint64(sum)
}
