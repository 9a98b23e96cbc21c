package rowset

import (
	"encoding/binary"
	"iter"
	"math/bits"

	"github.com/flightblob/flightblob/internal/fault"
)

// Deleted is the deletion vector of a fragment of so many physical rows with
// the rows at these offsets, in any order; one given twice counts once. Offsets
// outside the fragment are fault.Invalid.
func Deleted(physicalRows uint64, offsets iter.Seq[uint64]) (*Deletions, error) {
	if physicalRows > maxRows {
		return nil, fault.New(fault.Invalid, "rowset: %d rows are more than a fragment can have", physicalRows)
	}
	b := builder{}
	for offset := range offsets {
		if offset >= physicalRows {
			return nil, fault.New(fault.Invalid, "rowset: row %d cannot be deleted in a fragment of %d rows", offset, physicalRows)
		}
		b.set(offset)
	}
	return b.finish(physicalRows), nil
}

// Marks collects rows of one fragment, in any order, in a bit for each of the
// pages that have one. The zero value is empty.
type Marks struct{ b builder }

// Add marks an offset, which must lie below 2^32, and says whether it was not
// marked yet.
func (m *Marks) Add(offset uint64) bool {
	low := offset & (chunkSize - 1)
	word, bit := &m.b.at(uint16(offset >> 16))[low/64], uint64(1)<<(low%64)
	fresh := *word&bit == 0
	*word |= bit
	return fresh
}

// Deleted is the deletion vector of a fragment of so many physical rows with the
// marked ones. One outside the fragment is fault.Invalid.
func (m *Marks) Deleted(physicalRows uint64) (*Deletions, error) {
	d := m.b.finish(maxRows)
	for last := range d.Offsets() {
		if last >= physicalRows {
			return nil, fault.New(fault.Invalid, "rowset: row %d cannot be deleted in a fragment of %d rows", last, physicalRows)
		}
	}
	d.rows = physicalRows
	return d, nil
}

// Union has the rows that d or other has; both are of the same fragment.
func (d *Deletions) Union(other *Deletions) (*Deletions, error) {
	if d.rows != other.rows {
		return nil, fault.New(fault.Internal, "rowset: deletions of %d and of %d rows are not of one fragment", d.rows, other.rows)
	}
	b := builder{}
	for _, from := range []*Deletions{d, other} {
		for r := range from.Ranges() {
			b.setRange(r)
		}
	}
	return b.finish(d.rows), nil
}

// Without has the rows of d that other does not have.
func (d *Deletions) Without(other *Deletions) *Deletions {
	b := builder{}
	for r := range d.Ranges() {
		b.setRange(r)
	}
	for r := range other.Ranges() {
		b.clearRange(r)
	}
	return b.finish(d.rows)
}

// Common is the first row that both have, false if there is none.
func (d *Deletions) Common(other *Deletions) (offset uint64, ok bool) {
	for r := range d.Ranges() {
		for gap := range other.deletedFrom(r.Start) {
			if gap.Start >= r.End {
				break
			}
			return max(r.Start, gap.Start), true
		}
	}
	return 0, false
}

// Ranges gives the deleted rows, ascending, none empty; two may be adjacent.
func (d *Deletions) Ranges() iter.Seq[Range] { return d.deletedFrom(0) }

// Offsets gives the deleted rows one by one, ascending.
func (d *Deletions) Offsets() iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for r := range d.Ranges() {
			for offset := r.Start; offset < r.End; offset++ {
				if !yield(offset) {
					return
				}
			}
		}
	}
}

// builder collects offsets: a page of bits for every 2^16 of them that has one.
type builder struct {
	pages map[uint16]*[chunkSize / 64]uint64
	last  uint16 // key of page, the one used last
	page  *[chunkSize / 64]uint64
}

func (b *builder) at(key uint16) *[chunkSize / 64]uint64 {
	if b.page != nil && b.last == key {
		return b.page
	}
	page := b.pages[key]
	if page == nil {
		if b.pages == nil {
			b.pages = map[uint16]*[chunkSize / 64]uint64{}
		}
		page = new([chunkSize / 64]uint64)
		b.pages[key] = page
	}
	b.last, b.page = key, page
	return page
}

func (b *builder) set(offset uint64) {
	low := offset & (chunkSize - 1)
	b.at(uint16(offset >> 16))[low/64] |= 1 << (low % 64)
}

func (b *builder) setRange(r Range)   { b.eachWord(r, func(w *uint64, mask uint64) { *w |= mask }) }
func (b *builder) clearRange(r Range) { b.eachWord(r, func(w *uint64, mask uint64) { *w &^= mask }) }

// eachWord visits the words of a range, with a mask of the bits in it.
func (b *builder) eachWord(r Range, visit func(word *uint64, mask uint64)) {
	for at := r.Start; at < r.End; {
		word := at &^ 63
		mask := ^uint64(0) << (at - word)
		if end := word + 64; r.End < end {
			mask &= ^uint64(0) >> (end - r.End)
		}
		visit(&b.at(uint16(at >> 16))[at&(chunkSize-1)/64], mask)
		at = word + 64
	}
}

func (b *builder) finish(rows uint64) *Deletions {
	d := None(rows)
	for key := range chunkSize {
		page := b.pages[uint16(key)]
		if page == nil {
			continue
		}
		if c := pageChunk(page); c != nil {
			d.add(uint16(key), c)
		}
	}
	return d
}

// pageChunk gives a page the form that Roaring wants for its size; nil if empty.
func pageChunk(page *[chunkSize / 64]uint64) chunk {
	members := 0
	for _, w := range page {
		members += bits.OnesCount64(w)
	}
	switch {
	case members == 0:
		return nil
	case members <= roaringSortedMost:
		out := make(sortedChunk, 0, 2*members)
		for i, w := range page {
			for ; w != 0; w &= w - 1 {
				out = binary.LittleEndian.AppendUint16(out, uint16(64*i+bits.TrailingZeros64(w)))
			}
		}
		return out
	}
	raw := make([]byte, 0, chunkSize/8)
	for _, w := range page {
		raw = binary.LittleEndian.AppendUint64(raw, w)
	}
	return newBitChunk(raw)
}
