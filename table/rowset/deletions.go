package rowset

import (
	"fmt"
	"iter"
	"sort"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/flightblob/flightblob/internal/fault"
)

// maxRows is the most rows that a fragment can have: offsets have 32 bits.
const maxRows = uint64(1) << 32

// Range is the half-open interval [Start, End) of physical offsets.
type Range struct{ Start, End uint64 }

// Len is the number of rows of the range.
func (r Range) Len() uint64 { return r.End - r.Start }

// Deletions says which rows of a fragment are deleted.
type Deletions struct {
	rows    uint64
	count   uint64
	deleted *roaring.Bitmap // nil when count is 0
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
	decode := decodeArray
	if bitmap {
		decode = decodeBitmap
	}
	deleted, err := decode(data, physicalRows)
	if err != nil {
		return nil, err
	}
	if deleted.IsEmpty() {
		return None(physicalRows), nil
	}
	if last := deleted.Maximum(); uint64(last) >= physicalRows {
		return nil, fault.Corruptf(-1, "rowset: row %d is deleted in a fragment of %d rows", last, physicalRows)
	}
	return &Deletions{rows: physicalRows, count: deleted.GetCardinality(), deleted: deleted}, nil
}

// decodeArray reads offsets in any order. One given twice counts once.
func decodeArray(data []byte, physicalRows uint64) (*roaring.Bitmap, error) {
	offsets, err := readOffsets(data, physicalRows)
	if err != nil {
		return nil, err
	}
	deleted := roaring.BitmapOf(offsets...)
	deleted.RunOptimize()
	return deleted, nil
}

// decodeBitmap reads a Roaring bitmap with either cookie. The library reads
// containers as they come; Validate looks for what would make it answer wrong.
func decodeBitmap(data []byte, _ uint64) (deleted *roaring.Bitmap, err error) {
	defer func() {
		if r := recover(); r != nil {
			deleted, err = nil, fault.Corruptf(-1, "rowset: not a roaring bitmap: %v", r)
		}
	}()
	deleted = roaring.New()
	n, err := deleted.ReadFrom(newBytesReader(data))
	if err != nil {
		return nil, fault.Corruptf(-1, "rowset: not a roaring bitmap: %v", err)
	}
	if n != int64(len(data)) {
		return nil, fault.Corruptf(n, "rowset: %d bytes follow the roaring bitmap", int64(len(data))-n)
	}
	if deleted.IsEmpty() {
		return deleted, nil
	}
	if err := deleted.Validate(); err != nil {
		return nil, fault.Corruptf(-1, "rowset: not a roaring bitmap: %v", err)
	}
	return deleted, nil
}

// Rows is the number of physical rows.
func (d *Deletions) Rows() uint64 { return d.rows }

// Count is the number of deleted rows.
func (d *Deletions) Count() uint64 { return d.count }

// Live is the number of rows that are not deleted.
func (d *Deletions) Live() uint64 { return d.rows - d.count }

// Contains says that the row at a physical offset is deleted.
func (d *Deletions) Contains(offset uint64) bool {
	return d.deleted != nil && offset < d.rows && d.deleted.Contains(uint32(offset))
}

// LiveBefore is the number of live rows below a physical offset: for a live
// row, its live position.
func (d *Deletions) LiveBefore(offset uint64) uint64 {
	offset = min(offset, d.rows)
	if d.deleted == nil || offset == 0 {
		return offset
	}
	return offset - d.deleted.Rank(uint32(offset-1))
}

// Select is the physical offset of a live position, false if there are not so
// many live rows.
func (d *Deletions) Select(live uint64) (offset uint64, ok bool) {
	if live >= d.Live() {
		return 0, false
	}
	if d.deleted == nil {
		return live, true
	}
	// The smallest offset with live+1 live rows up to and including it; no more
	// than count rows can be deleted before it.
	n := sort.Search(int(d.count), func(i int) bool {
		return d.LiveBefore(live+uint64(i)+1) > live
	})
	return live + uint64(n), true
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
		if d.deleted == nil {
			yield(Range{start, end})
			return
		}
		at, _ := d.Select(start)
		left := end - start
		it := d.deleted.Iterator()
		it.AdvanceIfNeeded(uint32(at))
		for left > 0 {
			stop := d.rows
			if it.HasNext() {
				stop = uint64(it.Next())
			}
			if stop > at {
				r := Range{at, min(stop, at+left)}
				left -= r.Len()
				if !yield(r) {
					return
				}
			}
			at = stop + 1
		}
	}
}

// String shows the vector for tests and tools.
func (d *Deletions) String() string {
	return fmt.Sprintf("%d of %d rows deleted", d.count, d.rows)
}
