package index

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/flightblob/flightblob/internal/fault"
)

func rowMapBytes(tb testing.TB, halves []uint32, bitmaps ...*roaring.Bitmap) []byte {
	tb.Helper()
	out := binary.LittleEndian.AppendUint32(nil, uint32(len(halves)))
	for i, half := range halves {
		out = binary.LittleEndian.AppendUint32(out, half)
		if bitmaps[i] == nil {
			out = binary.LittleEndian.AppendUint32(out, 0)
			continue
		}
		raw, err := bitmaps[i].ToBytes()
		if err != nil {
			tb.Fatal(err)
		}
		out = append(binary.LittleEndian.AppendUint32(out, uint32(len(raw))), raw...)
	}
	return out
}

func TestRowMap(t *testing.T) {
	t.Parallel()
	m, err := decodeRowMap(rowMapBytes(t, []uint32{2, 5, math.MaxUint32}, roaring.BitmapOf(1, 2, 3, 9), nil, roaring.BitmapOf(0, math.MaxUint32)))
	if err != nil {
		t.Fatal(err)
	}
	want := []Range{{2<<32 + 1, 2<<32 + 4}, {2<<32 + 9, 2<<32 + 10}, {5 << 32, 6 << 32}, {math.MaxUint32 << 32, math.MaxUint32<<32 + 1}, {math.MaxUint64, math.MaxUint64}}
	if got := m.appendTo(nil); !slices.Equal(got, want) || m.count != 4+1<<32+2 {
		t.Errorf("%d rows in %v", m.count, got)
	}
	empty, err := decodeRowMap([]byte{0, 0, 0, 0})
	if err != nil || empty.count != 0 {
		t.Errorf("an empty map: %v", err)
	}
	good := rowMapBytes(t, []uint32{2, 5}, roaring.BitmapOf(1), roaring.BitmapOf(2))
	for n := range good {
		if _, err := decodeRowMap(good[:n]); fault.KindOf(err) != fault.Corrupt {
			t.Errorf("%d of %d bytes: %v", n, len(good), err)
		}
	}
	for what, data := range map[string][]byte{
		"a byte too many":      append(slices.Clone(good), 0),
		"halves out of order":  rowMapBytes(t, []uint32{5, 2}, roaring.BitmapOf(1), roaring.BitmapOf(2)),
		"the same half twice":  rowMapBytes(t, []uint32{5, 5}, roaring.BitmapOf(1), roaring.BitmapOf(2)),
		"more than are there":  {9, 0, 0, 0},
		"no Roaring bitmap":    {1, 0, 0, 0, 7, 0, 0, 0, 3, 0, 0, 0, 1, 2, 3},
		"a bitmap cut short":   {1, 0, 0, 0, 7, 0, 0, 0, 99, 0, 0, 0, 1, 2, 3},
		"a number of 4G":       {0xFF, 0xFF, 0xFF, 0xFF},
		"nothing":              {},
		"a header cut in half": {1, 0, 0, 0, 7, 0},
	} {
		if _, err := decodeRowMap(data); fault.KindOf(err) != fault.Corrupt {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func FuzzRowMap(f *testing.F) {
	f.Add(rowMapBytes(f, []uint32{2, 5}, roaring.BitmapOf(1, 70000), nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := decodeRowMap(data)
		if err != nil {
			if fault.KindOf(err) != fault.Corrupt {
				t.Fatal(err)
			}
			return
		}
		if m.count > 1<<20 {
			return
		}
		rows := RowsOf(m.appendTo(nil))
		if rows.Count() > m.count {
			t.Fatalf("%d rows of %d", rows.Count(), m.count)
		}
	})
}
