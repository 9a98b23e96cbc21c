package rowset

import (
	"encoding/binary"
	"math"

	"google.golang.org/protobuf/proto"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/internal/lancepb"
)

// IDRange is the sequence start, start+1, … of so many ids: what an append
// gives to its rows.
func IDRange(start, rows uint64) (*IDs, error) {
	if rows > math.MaxUint64-start {
		return nil, fault.New(fault.Exhausted, "rowset: %d row ids from %d on do not fit into 64 bits", rows, start)
	}
	ids := &IDs{}
	if rows > 0 {
		ids.segments, ids.ends = []segment{span{start, start + rows}}, []uint64{rows}
	}
	return ids, nil
}

// JoinIDs is the ids of several sequences, one after the other.
func JoinIDs(parts ...*IDs) *IDs {
	ids := &IDs{}
	for _, p := range parts {
		for _, s := range p.segments {
			have := ids.Len()
			if n := len(ids.segments); n > 0 {
				last, ok1 := ids.segments[n-1].(span)
				next, ok2 := s.(span)
				if ok1 && ok2 && last.end == next.start {
					ids.segments[n-1], ids.ends[n-1] = span{last.start, next.end}, have+next.len()
					continue
				}
			}
			ids.segments = append(ids.segments, s)
			ids.ends = append(ids.ends, have+s.len())
		}
	}
	return ids
}

// Live is the ids of the rows that are not deleted, in order: what compaction
// keeps. d is of the same fragment.
func (s *IDs) Live(d *Deletions) *IDs {
	if d.Count() == 0 {
		return s
	}
	var values []uint64
	for r := range d.LiveRanges(0, d.Live()) {
		values = s.AppendRange(values, r.Start, r.End)
	}
	return IDsOf(values)
}

// DecodePartialRowIDs reads the RowIdSequence of a fragment of which only the
// first rows have ids yet: at most so many. It is how an update tells the ids
// of the rows that it moved, before new ids are given to the rest.
func DecodePartialRowIDs(data []byte, physicalRows uint64) (*IDs, error) {
	return decodeRowIDs(data, physicalRows)
}

// Encode gives the RowIdSequence message; each segment takes the smallest form
// that can hold it.
func (s *IDs) Encode() []byte {
	pb := &lancepb.RowIDSequence{}
	for _, seg := range s.segments {
		pb.Segments = append(pb.Segments, segmentMessage(seg))
	}
	return marshal(pb)
}

// marshal cannot fail: the messages here hold no text.
func marshal(pb proto.Message) []byte {
	data, err := proto.Marshal(pb)
	if err != nil {
		panic(err)
	}
	if data == nil {
		data = []byte{} // present and empty
	}
	return data
}

func segmentMessage(seg segment) *lancepb.U64Segment {
	switch s := seg.(type) {
	case span:
		return rangeMessage(s.start, s.end)
	case holed:
		return &lancepb.U64Segment{Segment: &lancepb.U64Segment_RangeWithHoles_{RangeWithHoles: &lancepb.U64Segment_RangeWithHoles{
			Start: s.start, End: s.end, Holes: s.holes.message(),
		}}}
	case marked:
		return &lancepb.U64Segment{Segment: &lancepb.U64Segment_RangeWithBitmap_{RangeWithBitmap: &lancepb.U64Segment_RangeWithBitmap{
			Start: s.start, End: s.end, Bitmap: s.bitmap,
		}}}
	}
	return valuesMessage(seg.appendRange(nil, 0, seg.len()))
}

func rangeMessage(start, end uint64) *lancepb.U64Segment {
	return &lancepb.U64Segment{Segment: &lancepb.U64Segment_Range_{Range: &lancepb.U64Segment_Range{Start: start, End: end}}}
}

func (a encoded) message() *lancepb.EncodedU64Array {
	switch a.width {
	case 2:
		return &lancepb.EncodedU64Array{Array: &lancepb.EncodedU64Array_U16Offsets{U16Offsets: &lancepb.EncodedU64Array_Offsets16{Base: a.base, Offsets: a.raw}}}
	case 4:
		return &lancepb.EncodedU64Array{Array: &lancepb.EncodedU64Array_U32Offsets{U32Offsets: &lancepb.EncodedU64Array_Offsets32{Base: a.base, Offsets: a.raw}}}
	}
	return &lancepb.EncodedU64Array{Array: &lancepb.EncodedU64Array_U64Values{U64Values: &lancepb.EncodedU64Array_Values64{Values: a.raw}}}
}

// valuesMessage finds the smallest form of a list of ids.
func valuesMessage(values []uint64) *lancepb.U64Segment {
	n := uint64(len(values))
	if n == 0 {
		return rangeMessage(0, 0)
	}
	low, high, ascending := values[0], values[0], true
	for i, v := range values[1:] {
		low, high = min(low, v), max(high, v)
		ascending = ascending && v > values[i]
	}
	wide := high - low // one less than the values in the range
	list := encodeArray(values, low, wide)
	switch {
	case !ascending:
		return &lancepb.U64Segment{Segment: &lancepb.U64Segment_Array{Array: list.message()}}
	case wide == n-1 && high != math.MaxUint64:
		return rangeMessage(low, high+1)
	}
	sorted := &lancepb.U64Segment{Segment: &lancepb.U64Segment_SortedArray{SortedArray: list.message()}}
	if high == math.MaxUint64 { // no end could be written
		return sorted
	}
	best := uint64(len(list.raw))
	out := sorted
	missing := wide + 1 - n
	// Holes cost the same width each as values would.
	if missing <= n && missing*uint64(list.width) < best {
		best = missing * uint64(list.width)
		out = &lancepb.U64Segment{Segment: &lancepb.U64Segment_RangeWithHoles_{RangeWithHoles: &lancepb.U64Segment_RangeWithHoles{
			Start: low, End: high + 1, Holes: encodeArray(gapsOf(values, missing), low, wide).message(),
		}}}
	}
	if size := wide/8 + 1; size < best {
		bitmap := make([]byte, size)
		for _, v := range values {
			bitmap[(v-low)/8] |= 1 << ((v - low) % 8)
		}
		out = &lancepb.U64Segment{Segment: &lancepb.U64Segment_RangeWithBitmap_{RangeWithBitmap: &lancepb.U64Segment_RangeWithBitmap{
			Start: low, End: high + 1, Bitmap: bitmap,
		}}}
	}
	return out
}

// gapsOf lists what is missing between ascending values.
func gapsOf(values []uint64, missing uint64) []uint64 {
	holes := make([]uint64, 0, missing)
	for i, v := range values[1:] {
		for h := values[i] + 1; h < v; h++ {
			holes = append(holes, h)
		}
	}
	return holes
}

// encodeArray writes values in as few bytes each as their distance from low
// takes.
func encodeArray(values []uint64, low, wide uint64) encoded {
	a := encoded{base: low, width: 8}
	switch {
	case wide <= math.MaxUint16:
		a.width = 2
	case wide <= math.MaxUint32:
		a.width = 4
	default:
		a.base = 0
	}
	a.raw = make([]byte, 0, a.width*len(values))
	for _, v := range values {
		switch a.width {
		case 2:
			a.raw = binary.LittleEndian.AppendUint16(a.raw, uint16(v-low))
		case 4:
			a.raw = binary.LittleEndian.AppendUint32(a.raw, uint32(v-low))
		default:
			a.raw = binary.LittleEndian.AppendUint64(a.raw, v)
		}
	}
	return a
}
