package rowset

import (
	"fmt"
	"iter"
	"sort"

	"github.com/flightblob/flightblob/internal/fault"
)

// maxRows is the most rows that a fragment can have: offsets have 32 bits.
const maxRows = uint64(1) << 32

// Range is the half-open interval [Start, End) of physical offsets.
type Range struct{ Start, End uint64 }

// Len is the number of rows of the range.
func (r Range) Len() uint64 { return r.End - r.Start }

// Deletions says which rows of a fragment are deleted. Offsets are kept as
// Roaring does: by their upper 16 bits in chunks, which hold the lower ones.
type Deletions struct {
	rows   uint64
	count  uint64
	keys   []uint16 // upper bits of each chunk, ascending
	before []uint64 // deleted rows in the chunks before each
	chunks []chunk
}

// None is the deletion vector of a fragment of so many rows without a deletion
// file.
func None(physicalRows uint64) *Deletions { return &Deletions{rows: physicalRows} }

// DecodeDeletions reads a deletion file (section 5.2) of a fragment with so
// many physical rows: a portable Roaring bitmap, or else an Arrow IPC file.
// Anything but the one form that writers produce is fault.Corrupt, as are
// offsets outside the fragment. The caller compares Count with the manifest.
func DecodeDeletions(data []byte, bitmap bool, physicalRows uint64) (*Deletions, error) {
	if physicalRows > maxRows {
		return nil, fault.Corruptf(-1, "rowset: %d rows are more than a fragment can have", physicalRows)
	}
	d := None(physicalRows)
	decode := d.readArray
	if bitmap {
		decode = d.readRoaring
	}
	if err := decode(data); err != nil {
		return nil, err
	}
	if last, ok := d.last(); ok && last >= physicalRows {
		return nil, fault.Corruptf(-1, "rowset: row %d is deleted in a fragment of %d rows", last, physicalRows)
	}
	return d, nil
}

// add appends a chunk; the caller has checked that keys ascend.
func (d *Deletions) add(key uint16, c chunk) {
	d.keys = append(d.keys, key)
	d.before = append(d.before, d.count)
	d.chunks = append(d.chunks, c)
	d.count += uint64(c.count())
}

// last is the greatest deleted offset.
func (d *Deletions) last() (uint64, bool) {
	if len(d.chunks) == 0 {
		return 0, false
	}
	i := len(d.chunks) - 1
	return d.base(i) + uint64(d.chunks[i].last()), true
}

func (d *Deletions) base(i int) uint64 { return uint64(d.keys[i]) << 16 }

// find gives the first chunk at or above the one of an offset, and whether it
// is the very one.
func (d *Deletions) find(offset uint64) (i int, same bool) {
	key := offset >> 16
	i = sort.Search(len(d.keys), func(i int) bool { return uint64(d.keys[i]) >= key })
	return i, i < len(d.keys) && uint64(d.keys[i]) == key
}

// Rows is the number of physical rows.
func (d *Deletions) Rows() uint64 { return d.rows }

// Count is the number of deleted rows.
func (d *Deletions) Count() uint64 { return d.count }

// Live is the number of rows that are not deleted.
func (d *Deletions) Live() uint64 { return d.rows - d.count }

// Contains says that the row at a physical offset is deleted.
func (d *Deletions) Contains(offset uint64) bool {
	i, ok := d.find(offset)
	if !ok {
		return false
	}
	low := uint32(offset & 0xFFFF)
	return d.chunks[i].rank(low+1) > d.chunks[i].rank(low)
}

// LiveBefore is the number of live rows below a physical offset: for a live
// row, its live position.
func (d *Deletions) LiveBefore(offset uint64) uint64 {
	offset = min(offset, d.rows)
	i, same := d.find(offset)
	if same {
		return offset - d.before[i] - uint64(d.chunks[i].rank(uint32(offset&0xFFFF)))
	}
	if i == len(d.before) {
		return offset - d.count
	}
	return offset - d.before[i]
}

// Select is the physical offset of a live position, false if there are not so
// many live rows.
func (d *Deletions) Select(live uint64) (offset uint64, ok bool) {
	if live >= d.Live() {
		return 0, false
	}
	// The last chunk that begins at or before the row.
	i := sort.Search(len(d.chunks), func(i int) bool { return d.base(i)-d.before[i] > live }) - 1
	if i < 0 {
		return live, true
	}
	c, inside := d.chunks[i], live-(d.base(i)-d.before[i])
	if inside >= chunkSize-uint64(c.count()) {
		return live + d.before[i] + uint64(c.count()), true
	}
	low := sort.Search(chunkSize-1, func(low int) bool {
		return uint64(low+1)-uint64(c.rank(uint32(low+1))) > inside
	})
	return d.base(i) + uint64(low), true
}

// LiveRanges gives the physical ranges that hold the live positions
// [start, end), ascending, none empty, no two adjacent. Positions past the last
// live row are left out.
func (d *Deletions) LiveRanges(start, end uint64) iter.Seq[Range] {
	return func(yield func(Range) bool) {
		end := min(end, d.Live())
		if start >= end {
			return
		}
		at, _ := d.Select(start)
		left := end - start
		for gap := range d.deletedFrom(at) {
			if gap.Start > at {
				r := Range{at, min(gap.Start, at+left)}
				left -= r.Len()
				if !yield(r) || left == 0 {
					return
				}
			}
			at = gap.End
		}
		yield(Range{at, at + left})
	}
}

// deletedFrom gives ranges of deleted rows at and above an offset, ascending;
// some may be adjacent, where chunks meet.
func (d *Deletions) deletedFrom(offset uint64) iter.Seq[Range] {
	return func(yield func(Range) bool) {
		i, same := d.find(offset)
		from := uint32(0)
		if same {
			from = uint32(offset & 0xFFFF)
		}
		for ; i < len(d.chunks); i++ {
			base := d.base(i)
			for start, end := range d.chunks[i].runs(from) {
				if !yield(Range{base + uint64(start), base + uint64(end)}) {
					return
				}
			}
			from = 0
		}
	}
}

// String shows the vector for tests and tools.
func (d *Deletions) String() string {
	return fmt.Sprintf("%d of %d rows deleted", d.count, d.rows)
}
