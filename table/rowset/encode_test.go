package rowset

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
	"google.golang.org/protobuf/proto"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/internal/lancepb"
)

// same says that two vectors have the same rows.
func same(a, b *Deletions) bool {
	return a.Rows() == b.Rows() && a.Count() == b.Count() && slices.Equal(slices.Collect(a.Offsets()), slices.Collect(b.Offsets()))
}

func TestEncodeDeletions(t *testing.T) {
	t.Parallel()
	for name, s := range shapes() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, err := Deleted(s.rows, func(yield func(uint64) bool) {
				for _, v := range s.b.ToArray() {
					if !yield(uint64(v)) {
						return
					}
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			checkModel(t, d, modelOf(s.rows, s.b))

			// Another implementation reads our bitmaps, and finds nothing to save.
			raw := d.EncodeBitmap()
			other := roaring.New()
			if n, err := other.ReadFrom(bytes.NewReader(raw)); err != nil || n != int64(len(raw)) || !other.Equals(s.b) {
				t.Fatalf("%d of %d bytes read, %v", n, len(raw), err)
			}
			smallest := s.b.Clone()
			smallest.RunOptimize()
			if best := int(smallest.GetSerializedSizeInBytes()); len(raw) > best+8 {
				t.Errorf("%d bytes, %d are enough", len(raw), best)
			}

			array, err := d.EncodeArray()
			if err != nil {
				t.Fatal(err)
			}
			for form, data := range map[bool][]byte{true: raw, false: array} {
				got, err := DecodeDeletions(data, form, s.rows)
				if err != nil || !same(d, got) {
					t.Errorf("bitmap %v: %v, %v", form, got, err)
				}
				// What was decoded encodes as what was built does.
				if again := got.EncodeBitmap(); !bytes.Equal(again, raw) {
					t.Errorf("bitmap %v: %d bytes become %d", form, len(raw), len(again))
				}
			}
			data, bitmap, err := d.Encode()
			if err != nil || bitmap != (d.Count() >= 5000) {
				t.Errorf("%d rows in a bitmap: %v, %v", d.Count(), bitmap, err)
			}
			if got, err := DecodeDeletions(data, bitmap, s.rows); err != nil || !same(d, got) {
				t.Errorf("%v, %v", got, err)
			}
		})
	}
}

// TestEncodeReferenceDeletions writes the deletion files of the fixtures anew.
func TestEncodeReferenceDeletions(t *testing.T) {
	t.Parallel()
	for _, file := range fixtureDeletions(t) {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		d, err := DecodeDeletions(data, strings.HasSuffix(file, ".bin"), 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		array, err := d.EncodeArray()
		if err != nil {
			t.Fatal(err)
		}
		for form, data := range map[bool][]byte{true: d.EncodeBitmap(), false: array} {
			if got, err := DecodeDeletions(data, form, 1<<20); err != nil || !same(d, got) {
				t.Errorf("%s, bitmap %v: %v, %v", file, form, got, err)
			}
		}
	}
}

// TestDeletionSets compares unions, differences and common rows with the same
// of another implementation.
func TestDeletionSets(t *testing.T) {
	t.Parallel()
	const rows = 320_000
	of := func(b *roaring.Bitmap) *Deletions {
		d, err := DecodeDeletions(bitmapFile(t, b), true, rows)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	is := func(what string, got *Deletions, want *roaring.Bitmap) {
		t.Helper()
		if got.Rows() != rows || !same(got, of(want)) {
			t.Errorf("%s has %d rows, want %d", what, got.Count(), want.GetCardinality())
		}
	}
	for nameA, a := range shapes() {
		for nameB, b := range shapes() {
			da, db := of(a.b), of(b.b)
			union, err := da.Union(db)
			if err != nil {
				t.Fatal(err)
			}
			is(nameA+" or "+nameB, union, roaring.Or(a.b, b.b))
			is(nameA+" without "+nameB, da.Without(db), roaring.AndNot(a.b, b.b))
			common := roaring.And(a.b, b.b)
			at, ok := da.Common(db)
			if ok == common.IsEmpty() || ok && uint32(at) != common.Minimum() {
				t.Errorf("%s and %s have %d in common: %v", nameA, nameB, at, ok)
			}
		}
	}
	if _, err := None(3).Union(None(4)); fault.KindOf(err) != fault.Internal {
		t.Errorf("a union of two fragments: %v", err)
	}
	for rows, offset := range map[uint64]uint64{3: 3, 1 << 33: 0} {
		if _, err := Deleted(rows, slices.Values([]uint64{offset})); fault.KindOf(err) != fault.Invalid {
			t.Errorf("row %d of %d: %v", offset, rows, err)
		}
	}
	d, err := Deleted(1<<32, slices.Values([]uint64{1<<32 - 1, 5, 5}))
	if err != nil || !slices.Equal(slices.Collect(d.Offsets()), []uint64{5, 1<<32 - 1}) {
		t.Errorf("%v, %v", d, err)
	}
	for range d.Offsets() {
		break
	}
	if got, err := DecodeDeletions(d.EncodeBitmap(), true, 1<<32); err != nil || !same(d, got) {
		t.Errorf("%v, %v", got, err)
	}
	full, err := Deleted(1<<25, func(yield func(uint64) bool) {
		for i := uint64(0); i < 1<<25 && yield(i); i++ {
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := full.EncodeArray(); fault.KindOf(err) != fault.Exhausted {
		t.Errorf("an array of %d rows: %v", full.Count(), err)
	}
	if raw := full.EncodeBitmap(); len(raw) > 512*20 {
		t.Errorf("a bitmap of all rows has %d bytes", len(raw))
	}
}

// TestEncodeRowIDs has ids of each form, which comes out as small as it can.
func TestEncodeRowIDs(t *testing.T) {
	t.Parallel()
	spread := func(n int, step uint64) []uint64 {
		out := make([]uint64, n)
		for i := range out {
			out[i] = 7 + uint64(i)*step
		}
		return out
	}
	holed := spread(1000, 1)
	holed = slices.Delete(holed, 500, 501)
	random := spread(300, 1)
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(random), func(i, j int) { random[i], random[j] = random[j], random[i] })
	for _, test := range []struct {
		name   string
		values []uint64
		kind   any
	}{
		{"none", nil, nil},
		{"range", spread(1000, 1), &lancepb.U64Segment_Range_{}},
		{"one", []uint64{42}, &lancepb.U64Segment_Range_{}},
		{"holes", holed, &lancepb.U64Segment_RangeWithHoles_{}},
		{"every second", spread(1000, 2), &lancepb.U64Segment_RangeWithBitmap_{}},
		{"every thousandth", spread(50, 1000), &lancepb.U64Segment_SortedArray{}},
		{"far apart", spread(50, 1<<20), &lancepb.U64Segment_SortedArray{}},
		{"very far apart", spread(5, 1<<40), &lancepb.U64Segment_SortedArray{}},
		{"out of order", random, &lancepb.U64Segment_Array{}},
		{"twice", []uint64{5, 5}, &lancepb.U64Segment_Array{}},
		{"far and out of order", []uint64{1 << 50, 3}, &lancepb.U64Segment_Array{}},
		{"to the end", []uint64{math.MaxUint64 - 1, math.MaxUint64}, &lancepb.U64Segment_SortedArray{}},
		{"all there is", []uint64{0, math.MaxUint64}, &lancepb.U64Segment_SortedArray{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			data := IDsOf(test.values).Encode()
			pb := new(lancepb.RowIDSequence)
			if err := proto.Unmarshal(data, pb); err != nil || data == nil {
				t.Fatal(err)
			}
			if test.kind != nil && (len(pb.GetSegments()) != 1 || fmt.Sprintf("%T", pb.GetSegments()[0].GetSegment()) != fmt.Sprintf("%T", test.kind)) {
				t.Errorf("encoded as %v", pb)
			}
			ids, err := DecodeRowIDs(data, uint64(len(test.values)))
			if err != nil {
				t.Fatal(err)
			}
			checkIDs(t, ids, test.values)
			if again := ids.Encode(); !bytes.Equal(data, again) {
				t.Errorf("%x becomes %x", data, again)
			}
		})
	}
	t.Run("segments keep their forms", func(t *testing.T) {
		t.Parallel()
		data := sequence(t, rangeOf(0, 2), holesOf(10, 18, u16s(10, 0, 3, 4, 7)), arrayOf(u32s(50, 3, 1)), bitsOf(8, 12, []byte{0b1010}), sortedOf(u64s(1, 1<<60)))
		ids, err := DecodeRowIDs(data, 12)
		if err != nil {
			t.Fatal(err)
		}
		again, err := DecodeRowIDs(ids.Encode(), 12)
		if err != nil {
			t.Fatal(err)
		}
		checkIDs(t, again, ids.AppendRange(nil, 0, 12))
	})
	t.Run("the reference's sequences", func(t *testing.T) {
		t.Parallel()
		for _, data := range fixtureSequences(t) {
			if ids, err := DecodePartialRowIDs(data, 1<<20); err == nil {
				again, err := DecodeRowIDs(ids.Encode(), ids.Len())
				if err != nil {
					t.Fatal(err)
				}
				checkIDs(t, again, ids.AppendRange(nil, 0, ids.Len()))
			}
		}
	})
	t.Run("joined, and without deleted rows", func(t *testing.T) {
		t.Parallel()
		part := func(start, n uint64) *IDs {
			ids, err := IDRange(start, n)
			if err != nil {
				t.Fatal(err)
			}
			return ids
		}
		joined := JoinIDs(part(3, 2), part(0, 0), part(5, 1), IDsOf([]uint64{9, 8}), part(10, 2))
		checkIDs(t, joined, []uint64{3, 4, 5, 9, 8, 10, 11})
		if len(joined.segments) != 3 {
			t.Errorf("%d segments", len(joined.segments))
		}
		gone, err := Deleted(7, slices.Values([]uint64{0, 4}))
		if err != nil {
			t.Fatal(err)
		}
		checkIDs(t, joined.Live(gone), []uint64{4, 5, 9, 10, 11})
		if joined.Live(None(7)) != joined {
			t.Error("no deletion makes another sequence")
		}
		checkIDs(t, joined, []uint64{3, 4, 5, 9, 8, 10, 11})
		if _, err := IDRange(math.MaxUint64, 1); fault.KindOf(err) != fault.Exhausted {
			t.Errorf("ids past the end: %v", err)
		}
		if _, err := DecodePartialRowIDs(joined.Encode(), 6); fault.KindOf(err) != fault.Corrupt {
			t.Errorf("7 ids for 6 rows: %v", err)
		}
	})
}

func TestEncodeVersions(t *testing.T) {
	t.Parallel()
	values := []uint64{3, 3, 3, 1, 1, 9, 3}
	v := VersionsOf(values)
	decoded, err := DecodeVersions(v.Encode(), 7)
	if err != nil || !slices.Equal(decoded.AppendRange(nil, 0, 7), values) {
		t.Errorf("%v, %v", decoded, err)
	}
	if empty, err := DecodeVersions(VersionsOf(nil).Encode(), 0); err != nil || empty.Len() != 0 || VersionsOf(nil).Encode() == nil {
		t.Errorf("%v, %v", empty, err)
	}
	gone, err := Deleted(7, slices.Values([]uint64{0, 4, 5}))
	if err != nil {
		t.Fatal(err)
	}
	for what, got := range map[string]*Versions{
		"[3 3 1 3]":               v.Live(gone),
		"[8 3 3 1 8 8 3]":         v.With(gone, 8),
		"[3 3 3 1 1 9 3 5 5]":     JoinVersions(v, UniformVersions(2, 5)),
		"[5 5 3 3 3 1 1 9 3 3 3]": JoinVersions(UniformVersions(2, 5), v, VersionsOf(nil), UniformVersions(2, 3)),
		"[]":                      UniformVersions(0, 4),
	} {
		if have := fmt.Sprint(got.AppendRange(nil, 0, got.Len())); have != what {
			t.Errorf("%s, want %s", have, what)
		}
	}
	if !slices.Equal(v.AppendRange(nil, 0, 7), values) {
		t.Error("a sequence changed")
	}
	for _, data := range fixtureSequences(t) {
		pb := new(lancepb.RowVersionSequence)
		if proto.Unmarshal(data, pb) != nil || len(pb.GetRuns()) == 0 || pb.GetRuns()[0].GetSpan().GetSegment() == nil {
			continue
		}
		rows := uint64(0)
		for _, r := range pb.GetRuns() {
			rows += r.GetSpan().GetRange().GetEnd() - r.GetSpan().GetRange().GetStart()
		}
		if v, err := DecodeVersions(data, rows); err == nil {
			if again := v.Encode(); !bytes.Equal(again, data) {
				t.Errorf("%x becomes %x", data, again)
			}
		}
	}
}
