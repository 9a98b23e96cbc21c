package rowset

import (
	"slices"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/flightblob/flightblob/internal/fault"
)

func TestBitmap(t *testing.T) {
	t.Parallel()
	r := roaring.BitmapOf(0, 1, 2, 70000, 70002, 1<<32-1)
	r.AddRange(200000, 300000)
	r.RunOptimize()
	data, err := r.ToBytes()
	if err != nil {
		t.Fatal(err)
	}
	b, err := DecodeBitmap(data)
	if err != nil {
		t.Fatal(err)
	}
	if b.Count() != r.GetCardinality() || !b.Contains(70002) || b.Contains(70001) || !b.Contains(1<<32-1) {
		t.Errorf("%d members", b.Count())
	}
	var got []uint32
	for x := range b.Ranges() {
		for v := x.Start; v < x.End; v++ {
			got = append(got, uint32(v))
		}
	}
	if !slices.Equal(got, r.ToArray()) {
		t.Errorf("members %v", got[:10])
	}
	for n := range 40 {
		if _, err := DecodeBitmap(data[:n]); fault.KindOf(err) != fault.Corrupt {
			t.Errorf("%d bytes give %v", n, err)
		}
	}
	if _, err := DecodeBitmap(append(data, 0)); fault.KindOf(err) != fault.Corrupt {
		t.Errorf("a byte too many gives %v", err)
	}
}
