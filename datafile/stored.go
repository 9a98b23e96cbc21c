package datafile

import (
	"github.com/flightblob/flightblob/encoding"
)

// Stored gives an estimate of the bytes that a range of rows of some leaves
// takes in the file, from page tables alone: pages by their share of rows, in
// format 2.0 whole columns by theirs. Readers plan by it before they decode.
func (r *Reader) Stored(leaves []Leaf) (func(rows encoding.Range) uint64, error) {
	var columns []*encoding.Column
	mean := 0.0 // bytes per row of 2.0 columns
	for _, l := range leaves {
		c, err := r.column(l)
		if err != nil {
			return nil, err
		}
		if paged, ok := c.(*encoding.Column); ok {
			columns = append(columns, paged)
		} else if r.opts.Rows > 0 {
			mean += float64(r.stored20(l.Columns[len(l.Columns)-1])) / float64(r.opts.Rows)
		}
	}
	return func(rows encoding.Range) uint64 {
		sum := uint64(mean * float64(rows.Len()))
		for _, c := range columns {
			sum += c.Stored(rows)
		}
		return sum
	}, nil
}

func (r *Reader) stored20(column int) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if column < 0 || column >= len(r.raw20) {
		return 0
	}
	sum := uint64(0)
	for _, p := range r.raw20[column].Pages {
		for _, b := range p.Buffers {
			sum += b.Size // each lies inside the file
		}
	}
	return sum
}
