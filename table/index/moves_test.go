package index

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestMoved compares with rows that are moved one by one.
func TestMoved(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(9, 10))
	numbers := func(rows Rows) (out []uint64) {
		for _, x := range rows.Ranges() {
			for v := x.Start; v < x.End; v++ {
				out = append(out, v)
			}
		}
		return out
	}
	for range 3000 {
		place := map[uint64]uint64{} // where each row of fragments 0 to 2 is now
		for f := range uint64(3) {
			for i := range uint64(20) {
				place[f<<32|i] = f<<32 | i
			}
		}
		next := uint64(3)
		live := []uint64{0, 1, 2}
		var moves []Move
		for range r.IntN(4) {
			// Some fragments become one or two others, without the rows that are deleted.
			n := 1 + r.IntN(len(live))
			old := slices.Clone(live[:n])
			live = live[n:]
			var m Move
			var gone []Range
			var survivors []uint64
			for _, f := range old {
				gone = append(gone, Range{f << 32, f<<32 + 100})
			}
			m.Gone = RowsOf(gone)
			for from, at := range place {
				if slices.Contains(old, at>>32) {
					if r.IntN(4) == 0 {
						delete(place, from)
					} else {
						survivors = append(survivors, at)
					}
				}
			}
			slices.Sort(survivors)
			var from []Range
			for _, at := range survivors {
				from = append(from, Range{at, at + 1})
			}
			m.From = RowsOf(from).Ranges()
			first := r.Uint64N(uint64(len(survivors)) + 1)
			m.To = []Range{{next << 32, next<<32 + first}, {(next + 1) << 32, (next+1)<<32 + uint64(len(survivors)) - first}}
			for from, at := range place {
				if slices.Contains(old, at>>32) {
					rank := uint64(slices.Index(survivors, at))
					if rank < first {
						place[from] = next<<32 | rank
					} else {
						place[from] = (next+1)<<32 | (rank - first)
					}
				}
			}
			live = append(live, next, next+1)
			next += 2
			moves = append(moves, m)
		}
		var asked []Range
		var want []uint64
		for f := range uint64(3) {
			for i := range uint64(20) {
				if r.IntN(3) == 0 {
					asked = append(asked, Range{f<<32 | i, f<<32 | i + 1})
					if at, ok := place[f<<32|i]; ok {
						want = append(want, at)
					}
				}
			}
		}
		slices.Sort(want)
		if got := numbers(Moved(RowsOf(asked), moves)); !slices.Equal(got, want) {
			t.Fatalf("%v, want %v", got, want)
		}
	}
}
