package rowset

import (
	"encoding/binary"
	"iter"
	"math"

	"github.com/flightblob/flightblob/internal/fault"
)

// Bitmap is a set of 32-bit numbers: fragment ids, or offsets in a fragment.
type Bitmap struct{ members Deletions }

// DecodeBitmap reads a portable Roaring bitmap; nothing may follow it.
func DecodeBitmap(data []byte) (*Bitmap, error) {
	b := &Bitmap{members: Deletions{rows: maxRows}}
	if err := b.members.readRoaring(data); err != nil {
		return nil, err
	}
	return b, nil
}

// Count is the number of members.
func (b *Bitmap) Count() uint64 { return b.members.count }

// Contains says that v is a member.
func (b *Bitmap) Contains(v uint32) bool { return b.members.Contains(uint64(v)) }

// Ranges gives the members as half-open ranges, ascending, none empty; some may
// be adjacent.
func (b *Bitmap) Ranges() iter.Seq[Range] { return b.members.deletedFrom(0) }

// DecodeTreemap reads a Roaring bitmap of 64-bit numbers and gives its members as
// ranges, ascending and disjoint; more than so many are fault.Unsupported:
//
//	u64 entries
//	u32 upper half of members, portable Roaring bitmap   each, ascending
//
// Nothing may follow it. The greatest number of all is left out, which ends no
// range.
func DecodeTreemap(data []byte, most int) ([]Range, error) {
	if len(data) < 8 {
		return nil, notRoaring(0, "%d bytes of a map of bitmaps", len(data))
	}
	entries, at := binary.LittleEndian.Uint64(data), 8
	var out []Range
	last := int64(-1)
	for range entries {
		if len(data)-at < 4 {
			return nil, notRoaring(at, "a map of %d bitmaps is cut short", entries)
		}
		half := binary.LittleEndian.Uint32(data[at:])
		if int64(half) <= last {
			return nil, notRoaring(at, "upper half %d does not ascend", half)
		}
		last, at = int64(half), at+4
		members := Deletions{rows: maxRows}
		n, err := members.readRoaringFirst(data[at:])
		if err != nil {
			return nil, fault.At(int64(at), err)
		}
		at += n
		base := uint64(half) << 32
		for r := range members.deletedFrom(0) {
			end := base + r.End
			if end == 0 {
				end = math.MaxUint64
			}
			if k := len(out); k > 0 && out[k-1].End == base+r.Start {
				out[k-1].End = end
			} else {
				out = append(out, Range{base + r.Start, end})
			}
			if len(out) > most {
				return nil, fault.New(fault.Unsupported, "rowset: a bitmap of more than %d ranges", most)
			}
		}
	}
	if at < len(data) {
		return nil, notRoaring(at, "%d bytes follow a map of bitmaps", len(data)-at)
	}
	return out, nil
}
