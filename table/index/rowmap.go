package index

import (
	"encoding/binary"
	"math"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/table/rowset"
)

// A bitmap index holds the rows of each value as a map of bitmaps:
//
//	u32 entries
//	u32 upper half of row numbers, u32 bytes, portable Roaring bitmap   each
//
// An entry of 0 bytes stands for all 2^32 numbers with its upper half.

// rowMap is a decoded map of bitmaps.
type rowMap struct {
	halves  []uint32
	bitmaps []*rowset.Bitmap // nil = all
	count   uint64
}

func decodeRowMap(data []byte) (*rowMap, error) {
	at := 0
	number := func() (uint32, bool) {
		if len(data)-at < 4 {
			return 0, false
		}
		at += 4
		return binary.LittleEndian.Uint32(data[at-4:]), true
	}
	entries, ok := number()
	if !ok || uint64(entries) > uint64(len(data))/8 {
		return nil, fault.Corruptf(0, "index: a map of bitmaps of %d entries in %d bytes", entries, len(data))
	}
	m := &rowMap{}
	for i := range entries {
		half, _ := number()
		size, ok := number()
		if !ok || uint64(size) > uint64(len(data)-at) {
			return nil, fault.Corruptf(int64(at), "index: bitmap %d of %d is cut short", i, entries)
		}
		if n := len(m.halves); n > 0 && half <= m.halves[n-1] {
			return nil, fault.Corruptf(int64(at), "index: bitmap %d is of upper half %d, which does not ascend", i, half)
		}
		var b *rowset.Bitmap
		rows := uint64(math.MaxUint32) + 1
		if size > 0 {
			var err error
			if b, err = rowset.DecodeBitmap(data[at : at+int(size)]); err != nil {
				return nil, fault.At(int64(at), err)
			}
			rows = b.Count()
		}
		if m.count+rows < m.count {
			return nil, fault.Corruptf(int64(at), "index: a map of bitmaps with more than 2^64 rows")
		}
		m.count += rows
		at += int(size)
		m.halves, m.bitmaps = append(m.halves, half), append(m.bitmaps, b)
	}
	if at != len(data) {
		return nil, fault.Corruptf(int64(at), "index: %d bytes follow a map of bitmaps", len(data)-at)
	}
	return m, nil
}

// appendTo adds the rows to dst as ranges. The greatest row number of all ends
// no range, and belongs to no row.
func (m *rowMap) appendTo(dst []Range) []Range {
	for i, half := range m.halves {
		base := uint64(half) << 32
		add := func(start, end uint64) {
			if end == 0 {
				end = math.MaxUint64
			}
			dst = append(dst, Range{start, end})
		}
		if m.bitmaps[i] == nil {
			add(base, base+1<<32)
			continue
		}
		for r := range m.bitmaps[i].Ranges() {
			add(base+r.Start, base+r.End)
		}
	}
	return dst
}
