package rle

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

func TestRunsReturn(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	for _, width := range []int{1, 2, 3, 4, 8, 16} {
		for _, longest := range []int{1, 3, 255, 256, 1000} {
			var src []byte
			n := 0
			for range 50 {
				value := make([]byte, width)
				value[width-1] = byte(rng.IntN(3))
				count := 1 + rng.IntN(longest)
				src = append(src, bytes.Repeat(value, count)...)
				n += count
			}
			values, lengths := Append([]byte{9}, []byte{9}, src, width)
			if got := Runs(src, width); len(lengths)-1 != got || len(values)-1 != got*width {
				t.Fatalf("width %d: %d runs counted, %d lengths, %d bytes of values", width, got, len(lengths)-1, len(values)-1)
			}
			got := make([]byte, len(src))
			if err := Expand(got, values[1:], width, lengths[1:], 1, n, Exact); err != nil || !bytes.Equal(got, src) {
				t.Fatalf("width %d, runs up to %d: %v", width, longest, err)
			}
		}
	}
	if v, l := Append(nil, nil, nil, 4); len(v)+len(l) != 0 || Runs(nil, 4) != 0 {
		t.Error("no values make runs")
	}
}

func TestLongRunsAreSplit(t *testing.T) {
	t.Parallel()
	values, lengths := Append(nil, nil, bytes.Repeat([]byte{7}, 511), 1)
	if !bytes.Equal(values, []byte{7, 7, 7}) || !bytes.Equal(lengths, []byte{255, 255, 1}) {
		t.Errorf("runs %v of %v", lengths, values)
	}
}

func BenchmarkRuns(b *testing.B) {
	src := make([]byte, 1<<16)
	for i := range src {
		src[i] = byte(i / 40)
	}
	b.SetBytes(int64(len(src)))
	for b.Loop() {
		Runs(src, 4)
	}
}
