package rowset

import (
	"encoding/binary"
	"math"
	"math/bits"
	"sort"

	"google.golang.org/protobuf/proto"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/internal/lancepb"
)

// IDs are the stable row ids of a fragment, one for each physical row, deleted
// ones included (section 5.3).
type IDs struct {
	segments []segment
	ends     []uint64 // row after the last of each segment
}

// segment is one stretch of ids.
type segment interface {
	len() uint64
	at(i uint64) uint64
	// appendRange adds the ids of the rows [start, end), which exist.
	appendRange(dst []uint64, start, end uint64) []uint64
}

// DecodeRowIDs reads a RowIdSequence of a fragment with so many physical rows.
// Fewer or more ids than rows, ids that do not fit into 64 bits and arrays
// that break their own order are fault.Corrupt.
func DecodeRowIDs(data []byte, physicalRows uint64) (*IDs, error) {
	ids, err := decodeRowIDs(data, physicalRows)
	if err != nil {
		return nil, err
	}
	if n := ids.Len(); n != physicalRows {
		return nil, fault.Corruptf(-1, "rowset: %d row ids for %d rows", n, physicalRows)
	}
	return ids, nil
}

// decodeRowIDs reads at most so many ids.
func decodeRowIDs(data []byte, most uint64) (*IDs, error) {
	pb := new(lancepb.RowIDSequence)
	if err := proto.Unmarshal(data, pb); err != nil {
		return nil, fault.Corruptf(-1, "rowset: not a row id sequence: %v", err)
	}
	ids := &IDs{}
	for i, s := range pb.GetSegments() {
		seg, err := decodeSegment(s)
		if err != nil {
			return nil, fault.Corruptf(-1, "rowset: row id segment %d: %v", i, err)
		}
		if err := ids.add(seg, most); err != nil {
			return nil, err
		}
	}
	return ids, nil
}

// IDsOf makes a sequence of the values of the hidden column _rowid, which it
// keeps.
func IDsOf(values []uint64) *IDs {
	ids := &IDs{}
	if len(values) > 0 {
		ids.segments, ids.ends = []segment{values64(values)}, []uint64{uint64(len(values))}
	}
	return ids
}

func (s *IDs) add(seg segment, limit uint64) error {
	have, n := s.Len(), seg.len()
	if n > limit-have {
		return fault.Corruptf(-1, "rowset: more than %d row ids for %d rows", have, limit)
	}
	if n > 0 {
		s.segments = append(s.segments, seg)
		s.ends = append(s.ends, have+n)
	}
	return nil
}

// Len is the number of rows.
func (s *IDs) Len() uint64 {
	if len(s.ends) == 0 {
		return 0
	}
	return s.ends[len(s.ends)-1]
}

// At is the id of the row at a physical offset below Len.
func (s *IDs) At(offset uint64) uint64 {
	i, start := s.locate(offset)
	return s.segments[i].at(offset - start)
}

// AppendRange adds the ids of the physical rows [start, end) to dst; end is at
// most Len.
func (s *IDs) AppendRange(dst []uint64, start, end uint64) []uint64 {
	if start >= end {
		return dst
	}
	i, first := s.locate(start)
	for ; start < end; i++ {
		stop := min(end, s.ends[i])
		dst = s.segments[i].appendRange(dst, start-first, stop-first)
		start, first = stop, s.ends[i]
	}
	return dst
}

// locate gives the segment of a row and the first row of the segment.
func (s *IDs) locate(offset uint64) (i int, start uint64) {
	i = sort.Search(len(s.ends), func(i int) bool { return s.ends[i] > offset })
	if i > 0 {
		start = s.ends[i-1]
	}
	return i, start
}

func decodeSegment(pb *lancepb.U64Segment) (segment, error) {
	switch s := pb.GetSegment().(type) {
	case *lancepb.U64Segment_Range_:
		return newRange(s.Range.GetStart(), s.Range.GetEnd())
	case *lancepb.U64Segment_RangeWithHoles_:
		return newHoles(s.RangeWithHoles)
	case *lancepb.U64Segment_RangeWithBitmap_:
		return newBits(s.RangeWithBitmap)
	case *lancepb.U64Segment_SortedArray:
		a, err := newSorted(s.SortedArray)
		return ascending{a}, err
	case *lancepb.U64Segment_Array:
		return newArray(s.Array)
	}
	return nil, damage("it is of no known kind")
}

func damage(format string, args ...any) error { return fault.New(fault.Corrupt, format, args...) }

// span is start, start+1, … end-1.
type span struct{ start, end uint64 }

func newRange(start, end uint64) (span, error) {
	if start > end {
		return span{}, damage("the range from %d to %d runs backwards", start, end)
	}
	return span{start, end}, nil
}

func (s span) len() uint64        { return s.end - s.start }
func (s span) at(i uint64) uint64 { return s.start + i }

func (s span) appendRange(dst []uint64, start, end uint64) []uint64 {
	for v := s.start + start; v < s.start+end; v++ {
		dst = append(dst, v)
	}
	return dst
}

// holed is a span without some of its values.
type holed struct {
	span
	holes encoded // strictly increasing, inside the span
}

func newHoles(pb *lancepb.U64Segment_RangeWithHoles) (segment, error) {
	all, err := newRange(pb.GetStart(), pb.GetEnd())
	if err != nil {
		return nil, err
	}
	holes, err := newSorted(pb.GetHoles())
	if err != nil {
		return nil, err
	}
	if n := holes.len(); n > 0 && (holes.at(0) < all.start || holes.at(n-1) >= all.end) {
		return nil, damage("a hole lies outside the range from %d to %d", all.start, all.end)
	}
	return holed{all, holes}, nil
}

func (s holed) len() uint64 { return s.span.len() - s.holes.len() }

// at skips the holes below the value: hole h has h-th value of the result
// below it when hole - start - h values are.
func (s holed) at(i uint64) uint64 {
	h := sort.Search(int(s.holes.len()), func(h int) bool {
		return s.holes.at(uint64(h))-s.start-uint64(h) > i
	})
	return s.start + i + uint64(h)
}

func (s holed) appendRange(dst []uint64, start, end uint64) []uint64 {
	if start >= end {
		return dst
	}
	v := s.at(start)
	// The next hole is the first one above v; v is none itself.
	h := v - s.start - start
	for n := start; n < end; v++ {
		if h < s.holes.len() && s.holes.at(h) == v {
			h++
			continue
		}
		dst = append(dst, v)
		n++
	}
	return dst
}

// rankStep is how many bytes of a bitmap have one count in front.
const rankStep = 64

// marked is a span of which a bitmap tells the values that exist: bit i of
// byte k is value start + 8k + i, least significant bit first.
type marked struct {
	span
	bitmap []byte
	counts []uint64 // set bits before each rankStep bytes, and in all
}

func newBits(pb *lancepb.U64Segment_RangeWithBitmap) (segment, error) {
	all, err := newRange(pb.GetStart(), pb.GetEnd())
	if err != nil {
		return nil, err
	}
	bitmap, n := pb.GetBitmap(), all.len()
	size := n / 8
	if n%8 != 0 {
		size++
	}
	if uint64(len(bitmap)) != size {
		return nil, damage("a bitmap of %d bytes for the range from %d to %d", len(bitmap), all.start, all.end)
	}
	if n%8 != 0 {
		if last := bitmap[size-1]; last>>(n%8) != 0 {
			bitmap = append([]byte(nil), bitmap...)
			bitmap[size-1] = last & (1<<(n%8) - 1)
		}
	}
	s := marked{span: all, bitmap: bitmap}
	count := uint64(0)
	for i, b := range bitmap {
		if i%rankStep == 0 {
			s.counts = append(s.counts, count)
		}
		count += uint64(bits.OnesCount8(b))
	}
	s.counts = append(s.counts, count)
	return s, nil
}

func (s marked) len() uint64 { return s.counts[len(s.counts)-1] }

// find gives the distance from start of the i-th value.
func (s marked) find(i uint64) uint64 {
	block := sort.Search(len(s.counts), func(k int) bool { return s.counts[k] > i }) - 1
	left := i - s.counts[block]
	for k := block * rankStep; ; k++ {
		b := s.bitmap[k]
		n := uint64(bits.OnesCount8(b))
		if left >= n {
			left -= n
			continue
		}
		for ; left > 0; left-- {
			b &= b - 1
		}
		return uint64(k)*8 + uint64(bits.TrailingZeros8(b))
	}
}

func (s marked) at(i uint64) uint64 { return s.start + s.find(i) }

func (s marked) appendRange(dst []uint64, start, end uint64) []uint64 {
	if start >= end {
		return dst
	}
	bit := s.find(start)
	for n := start; n < end; bit++ {
		if s.bitmap[bit/8]>>(bit%8)&1 != 0 {
			dst = append(dst, s.start+bit)
			n++
		}
	}
	return dst
}

// encoded is an EncodedU64Array: numbers of width bytes, to each of which base is
// added. It stays in that form.
type encoded struct {
	base  uint64
	raw   []byte
	width int
}

func newArray(pb *lancepb.EncodedU64Array) (encoded, error) {
	var a encoded
	switch v := pb.GetArray().(type) {
	case *lancepb.EncodedU64Array_U16Offsets:
		a = encoded{v.U16Offsets.GetBase(), v.U16Offsets.GetOffsets(), 2}
	case *lancepb.EncodedU64Array_U32Offsets:
		a = encoded{v.U32Offsets.GetBase(), v.U32Offsets.GetOffsets(), 4}
	case *lancepb.EncodedU64Array_U64Values:
		a = encoded{0, v.U64Values.GetValues(), 8}
	default:
		return a, damage("its array is missing or of no known kind")
	}
	if len(a.raw)%a.width != 0 {
		return a, damage("an array of %d bytes holds no whole number of %d-byte values", len(a.raw), a.width)
	}
	for i := range a.len() {
		if a.offset(i) > math.MaxUint64-a.base {
			return a, damage("value %d of an array with base %d is past 2^64", i, a.base)
		}
	}
	return a, nil
}

func newSorted(pb *lancepb.EncodedU64Array) (encoded, error) {
	a, err := newArray(pb)
	if err != nil {
		return a, err
	}
	for i := uint64(1); i < a.len(); i++ {
		if a.offset(i) <= a.offset(i-1) {
			return a, damage("value %d of an increasing array does not increase", i)
		}
	}
	return a, nil
}

func (a encoded) offset(i uint64) uint64 {
	switch a.width {
	case 2:
		return uint64(binary.LittleEndian.Uint16(a.raw[2*i:]))
	case 4:
		return uint64(binary.LittleEndian.Uint32(a.raw[4*i:]))
	}
	return binary.LittleEndian.Uint64(a.raw[8*i:])
}

func (a encoded) len() uint64        { return uint64(len(a.raw) / a.width) }
func (a encoded) at(i uint64) uint64 { return a.base + a.offset(i) }

func (a encoded) appendRange(dst []uint64, start, end uint64) []uint64 {
	for i := start; i < end; i++ {
		dst = append(dst, a.at(i))
	}
	return dst
}

// values64 is an array in memory.
type values64 []uint64

func (v values64) len() uint64        { return uint64(len(v)) }
func (v values64) at(i uint64) uint64 { return v[i] }

func (v values64) appendRange(dst []uint64, start, end uint64) []uint64 {
	return append(dst, v[start:end]...)
}
