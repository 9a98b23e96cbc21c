package rowset

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestFind compares the rows of ids with a walk over all of them.
func TestFind(t *testing.T) {
	t.Parallel()
	bitmap := make([]byte, 1000)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range bitmap {
		bitmap[i] = byte(random.Uint32() & 0x5A)
	}
	bitmap[0] |= 1
	ids, err := DecodeRowIDs(sequence(t,
		rangeOf(100, 300),
		holesOf(400, 500, u16s(400, 0, 1, 50, 99)),
		bitsOf(1000, 9000, bitmap),
		sortedOf(u64s(20000, 20001, 20007, math.MaxUint64-1)),
		arrayOf(u64s(7, 3, 10001, 5, 4)),
	), 200+96+uint64(ones(bitmap))+4+5)
	if err != nil {
		t.Fatal(err)
	}
	for round := range 500 {
		var want []Range
		at := random.Uint64N(200)
		for range random.IntN(6) {
			at += 1 + random.Uint64N(4000)
			end := at + 1 + random.Uint64N(1+random.Uint64N(5000))
			want = append(want, Range{at, end})
			at = end
		}
		if round%5 == 0 {
			want = append(want, Range{max(at+1, 30000), math.MaxUint64})
		}
		var expect, got []uint64
		for i := range ids.Len() {
			if inside(want, ids.At(i)) {
				expect = append(expect, i)
			}
		}
		ids.Find(want, func(r Range) {
			for i := r.Start; i < r.End; i++ {
				got = append(got, i)
			}
		})
		slices.Sort(got)
		if !slices.Equal(got, expect) {
			t.Fatalf("%v: %d rows, expected %d: %s", want, len(got), len(expect), fmt.Sprint(got, expect))
		}
	}
}

func ones(b []byte) (n int) {
	for _, x := range b {
		for ; x != 0; x &= x - 1 {
			n++
		}
	}
	return n
}
