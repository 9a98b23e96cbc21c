package rowset

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/internal/lancepb"
)

func rangeOf(start, end uint64) *lancepb.U64Segment {
	return &lancepb.U64Segment{Segment: &lancepb.U64Segment_Range_{Range: &lancepb.U64Segment_Range{Start: start, End: end}}}
}

func holesOf(start, end uint64, holes *lancepb.EncodedU64Array) *lancepb.U64Segment {
	return &lancepb.U64Segment{Segment: &lancepb.U64Segment_RangeWithHoles_{
		RangeWithHoles: &lancepb.U64Segment_RangeWithHoles{Start: start, End: end, Holes: holes},
	}}
}

func bitsOf(start, end uint64, bitmap []byte) *lancepb.U64Segment {
	return &lancepb.U64Segment{Segment: &lancepb.U64Segment_RangeWithBitmap_{
		RangeWithBitmap: &lancepb.U64Segment_RangeWithBitmap{Start: start, End: end, Bitmap: bitmap},
	}}
}

func sortedOf(a *lancepb.EncodedU64Array) *lancepb.U64Segment {
	return &lancepb.U64Segment{Segment: &lancepb.U64Segment_SortedArray{SortedArray: a}}
}

func arrayOf(a *lancepb.EncodedU64Array) *lancepb.U64Segment {
	return &lancepb.U64Segment{Segment: &lancepb.U64Segment_Array{Array: a}}
}

func u16s(base uint64, offsets ...uint16) *lancepb.EncodedU64Array {
	var raw []byte
	for _, o := range offsets {
		raw = binary.LittleEndian.AppendUint16(raw, o)
	}
	return &lancepb.EncodedU64Array{Array: &lancepb.EncodedU64Array_U16Offsets{
		U16Offsets: &lancepb.EncodedU64Array_Offsets16{Base: base, Offsets: raw},
	}}
}

func u32s(base uint64, offsets ...uint32) *lancepb.EncodedU64Array {
	var raw []byte
	for _, o := range offsets {
		raw = binary.LittleEndian.AppendUint32(raw, o)
	}
	return &lancepb.EncodedU64Array{Array: &lancepb.EncodedU64Array_U32Offsets{
		U32Offsets: &lancepb.EncodedU64Array_Offsets32{Base: base, Offsets: raw},
	}}
}

func u64s(values ...uint64) *lancepb.EncodedU64Array {
	var raw []byte
	for _, o := range values {
		raw = binary.LittleEndian.AppendUint64(raw, o)
	}
	return &lancepb.EncodedU64Array{Array: &lancepb.EncodedU64Array_U64Values{
		U64Values: &lancepb.EncodedU64Array_Values64{Values: raw},
	}}
}

func sequence(t testing.TB, segments ...*lancepb.U64Segment) []byte {
	t.Helper()
	data, err := proto.Marshal(&lancepb.RowIDSequence{Segments: segments})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestRowIDs(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		segments []*lancepb.U64Segment
		want     []uint64
	}{
		{"none", nil, nil},
		{"range", []*lancepb.U64Segment{rangeOf(5, 8)}, []uint64{5, 6, 7}},
		{"empty range", []*lancepb.U64Segment{rangeOf(0, 0), rangeOf(9, 10), rangeOf(3, 3)}, []uint64{9}},
		{"range to the end", []*lancepb.U64Segment{rangeOf(math.MaxUint64-2, math.MaxUint64)}, []uint64{math.MaxUint64 - 2, math.MaxUint64 - 1}},
		{"holes u16", []*lancepb.U64Segment{holesOf(10, 18, u16s(10, 0, 3, 4, 7))}, []uint64{11, 12, 15, 16}},
		{"holes u32", []*lancepb.U64Segment{holesOf(1, 5, u32s(2, 0))}, []uint64{1, 3, 4}},
		{"holes u64", []*lancepb.U64Segment{holesOf(1, 4, u64s(3))}, []uint64{1, 2}},
		{"no holes", []*lancepb.U64Segment{holesOf(1, 4, u16s(0))}, []uint64{1, 2, 3}},
		{"only holes", []*lancepb.U64Segment{holesOf(1, 3, u16s(1, 0, 1)), rangeOf(0, 1)}, []uint64{0}},
		{"bitmap least significant bit first", []*lancepb.U64Segment{bitsOf(100, 110, []byte{0b1000_0101, 0b10})}, []uint64{100, 102, 107, 109}},
		{"bitmap padding bits", []*lancepb.U64Segment{bitsOf(100, 103, []byte{0b1111_1110})}, []uint64{101, 102}},
		{"sorted array", []*lancepb.U64Segment{sortedOf(u16s(7, 0, 65535))}, []uint64{7, 65542}},
		{"array u16", []*lancepb.U64Segment{arrayOf(u16s(1000, 5, 1, 5))}, []uint64{1005, 1001, 1005}},
		{"array u32", []*lancepb.U64Segment{arrayOf(u32s(math.MaxUint64-math.MaxUint32, math.MaxUint32, 0))}, []uint64{math.MaxUint64, math.MaxUint64 - math.MaxUint32}},
		{"array u64", []*lancepb.U64Segment{arrayOf(u64s(9, math.MaxUint64, 0))}, []uint64{9, math.MaxUint64, 0}},
		{"mixed", []*lancepb.U64Segment{rangeOf(0, 2), arrayOf(u16s(50, 3, 1)), bitsOf(8, 12, []byte{0b1010}), rangeOf(90, 91)}, []uint64{0, 1, 53, 51, 9, 11, 90}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ids, err := DecodeRowIDs(sequence(t, tt.segments...), uint64(len(tt.want)))
			if err != nil {
				t.Fatal(err)
			}
			checkIDs(t, ids, tt.want)
		})
	}
}

func checkIDs(t *testing.T, ids *IDs, want []uint64) {
	t.Helper()
	n := uint64(len(want))
	if ids.Len() != n {
		t.Fatalf("%d ids, want %d", ids.Len(), n)
	}
	for i, v := range want {
		if got := ids.At(uint64(i)); got != v {
			t.Fatalf("At(%d) = %d, want %d", i, got, v)
		}
	}
	step := max(1, n/20)
	for start := uint64(0); start <= n; start += step {
		for end := start; end <= n; end += step {
			got := ids.AppendRange([]uint64{42}, start, end)
			if got[0] != 42 || !slices.Equal(want[start:end], got[1:]) {
				t.Fatalf("AppendRange(%d, %d) = %v", start, end, got)
			}
		}
	}
}

// TestLongRowIDs has segments longer than the steps of their directories.
func TestLongRowIDs(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(5, 6))
	const start, end = 1000, 9003
	bitmap := make([]byte, (end-start+7)/8)
	var holes, present []uint64
	for v := uint64(start); v < end; v++ {
		if rng.IntN(3) == 0 {
			holes = append(holes, v)
		} else {
			bitmap[(v-start)/8] |= 1 << ((v - start) % 8)
			present = append(present, v)
		}
	}
	both := append(append([]uint64{}, present...), present...)
	data := sequence(t, holesOf(start, end, u64s(holes...)), bitsOf(start, end, bitmap))
	ids, err := DecodeRowIDs(data, uint64(len(both)))
	if err != nil {
		t.Fatal(err)
	}
	checkIDs(t, ids, both)
}

func TestIDsOf(t *testing.T) {
	t.Parallel()
	checkIDs(t, IDsOf([]uint64{4, 2, 9}), []uint64{4, 2, 9})
	checkIDs(t, IDsOf(nil), nil)
}

func TestDamagedRowIDs(t *testing.T) {
	t.Parallel()
	raw := func(a *lancepb.EncodedU64Array, b []byte) *lancepb.EncodedU64Array {
		switch v := a.Array.(type) {
		case *lancepb.EncodedU64Array_U16Offsets:
			v.U16Offsets.Offsets = b
		case *lancepb.EncodedU64Array_U32Offsets:
			v.U32Offsets.Offsets = b
		case *lancepb.EncodedU64Array_U64Values:
			v.U64Values.Values = b
		}
		return a
	}
	tests := []struct {
		name string
		data []byte
		rows uint64
		want string
	}{
		{"no message", []byte{0xFF}, 0, "not a row id sequence"},
		{"too few", sequence(t, rangeOf(0, 3)), 4, "3 row ids for 4 rows"},
		{"too many", sequence(t, rangeOf(0, 3), rangeOf(5, 9)), 5, "more than 3 row ids for 5 rows"},
		{"too many to count", sequence(t, rangeOf(0, math.MaxUint64), rangeOf(0, math.MaxUint64)), 5, "more than 0 row ids"},
		{"no kind", sequence(t, &lancepb.U64Segment{}), 0, "no known kind"},
		{"backwards", sequence(t, rangeOf(3, 2)), 1, "backwards"},
		{"holes missing", sequence(t, holesOf(0, 3, nil)), 3, "array is missing"},
		{"hole before", sequence(t, holesOf(5, 9, u64s(4))), 3, "outside the range"},
		{"hole behind", sequence(t, holesOf(5, 9, u64s(9))), 3, "outside the range"},
		{"holes unsorted", sequence(t, holesOf(5, 9, u64s(7, 6))), 2, "does not increase"},
		{"bitmap short", sequence(t, bitsOf(0, 9, []byte{1})), 1, "a bitmap of 1 bytes"},
		{"bitmap long", sequence(t, bitsOf(0, 8, []byte{1, 0})), 1, "a bitmap of 2 bytes"},
		{"bitmap of everything", sequence(t, bitsOf(0, math.MaxUint64, []byte{1})), 1, "a bitmap of 1 bytes"},
		{"sorted twice", sequence(t, sortedOf(u16s(0, 4, 4))), 2, "does not increase"},
		{"array missing", sequence(t, arrayOf(&lancepb.EncodedU64Array{})), 0, "missing"},
		{"u16 bytes", sequence(t, arrayOf(raw(u16s(0), []byte{1}))), 1, "no whole number"},
		{"u32 bytes", sequence(t, arrayOf(raw(u32s(0), []byte{1, 2}))), 1, "no whole number"},
		{"u64 bytes", sequence(t, arrayOf(raw(u64s(), []byte{1, 2, 3, 4}))), 1, "no whole number"},
		{"past 64 bits", sequence(t, arrayOf(u16s(math.MaxUint64, 1))), 1, "past 2^64"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := DecodeRowIDs(tt.data, tt.rows)
			if fault.KindOf(err) != fault.Corrupt || !strings.Contains(fmt.Sprint(err), tt.want) {
				t.Errorf("got %v, want corruption with %q", err, tt.want)
			}
		})
	}
}

func versionSequence(t testing.TB, runs ...*lancepb.RowVersionSequence_Run) []byte {
	t.Helper()
	data, err := proto.Marshal(&lancepb.RowVersionSequence{Runs: runs})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestVersions(t *testing.T) {
	t.Parallel()
	run := func(span *lancepb.U64Segment, version uint64) *lancepb.RowVersionSequence_Run {
		return &lancepb.RowVersionSequence_Run{Span: span, Version: version}
	}
	data := versionSequence(t, run(rangeOf(0, 2), 7), run(rangeOf(70, 71), 7), run(rangeOf(0, 0), 9), run(arrayOf(u16s(0, 3, 3)), 8))
	v, err := DecodeVersions(data, 5)
	if err != nil {
		t.Fatal(err)
	}
	want := []uint64{7, 7, 7, 8, 8}
	for start := range uint64(6) {
		for end := start; end <= 5; end++ {
			if got := v.AppendRange(nil, start, end); !cmp.Equal(append([]uint64(nil), want[start:end]...), got) {
				t.Errorf("AppendRange(%d, %d) = %v", start, end, got)
			}
		}
		if start < 5 && v.At(start) != want[start] {
			t.Errorf("At(%d) = %d", start, v.At(start))
		}
	}
	if got := VersionsOf(want).AppendRange(nil, 0, 5); !cmp.Equal(want, got) {
		t.Errorf("VersionsOf = %v", got)
	}
	if got := DefaultVersions(2).AppendRange(nil, 0, 2); !cmp.Equal([]uint64{1, 1}, got) {
		t.Errorf("DefaultVersions = %v", got)
	}
	if DefaultVersions(0).Len() != 0 {
		t.Error("no rows have a version")
	}
	damaged := map[string][]byte{
		"for 4 rows":        versionSequence(t, run(rangeOf(0, 3), 1)),
		"more than 0":       versionSequence(t, run(rangeOf(0, math.MaxUint64), 1)),
		"no known kind":     versionSequence(t, run(nil, 1)),
		"not a sequence of": {0xFF},
	}
	for want, data := range damaged {
		if _, err := DecodeVersions(data, 4); fault.KindOf(err) != fault.Corrupt || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("got %v, want corruption with %q", err, want)
		}
	}
}

func FuzzDecodeRowIDs(f *testing.F) {
	f.Add(sequence(f, rangeOf(0, 2), arrayOf(u16s(50, 3, 1)), bitsOf(8, 12, []byte{0b1010}), rangeOf(90, 91)), uint32(7))
	f.Add(sequence(f, holesOf(10, 18, u16s(10, 0, 3, 4, 7)), sortedOf(u32s(1, 2)), arrayOf(u64s(1))), uint32(6))
	for _, data := range fixtureSequences(f) {
		f.Add(data, uint32(7))
	}
	f.Fuzz(func(t *testing.T, data []byte, rows uint32) {
		v, err := DecodeVersions(data, uint64(rows))
		if err == nil && v.Len() != uint64(rows) {
			t.Fatalf("%d versions for %d rows", v.Len(), rows)
		}
		if err == nil {
			if _, err := DecodeVersions(v.Encode(), uint64(rows)); err != nil {
				t.Fatalf("versions encoded anew: %v", err)
			}
		}
		ids, err := DecodeRowIDs(data, uint64(rows))
		if err != nil {
			if fault.KindOf(err) != fault.Corrupt {
				t.Fatalf("kind %v: %v", fault.KindOf(err), err)
			}
			return
		}
		n := min(ids.Len(), 5000)
		for i, id := range ids.AppendRange(nil, 0, n) {
			if ids.At(uint64(i)) != id {
				t.Fatalf("At(%d) = %d, AppendRange says %d", i, ids.At(uint64(i)), id)
			}
		}
		if ids.Len() > 1<<20 {
			return
		}
		again, err := DecodeRowIDs(ids.Encode(), ids.Len())
		if err != nil || !slices.Equal(again.AppendRange(nil, 0, ids.Len()), ids.AppendRange(nil, 0, ids.Len())) {
			t.Fatalf("encoded anew: %v", err)
		}
	})
}

// fixtureSequences are the row id and version sequences that the reference
// wrote: the bytes fields of the fragments in manifests of tables that have
// them.
func fixtureSequences(t testing.TB) [][]byte {
	t.Helper()
	var out [][]byte
	for _, body := range fixtureManifests(t, "stable_row_ids") {
		for _, f := range body.GetFragments() {
			for _, b := range [][]byte{f.GetInlineRowIds(), f.GetInlineCreatedAtVersions(), f.GetInlineLastUpdatedAtVersions()} {
				if len(b) > 0 {
					out = append(out, bytes.Clone(b))
				}
			}
		}
	}
	if len(out) < 10 {
		t.Fatalf("only %d sequences among the fixtures", len(out))
	}
	return out
}
