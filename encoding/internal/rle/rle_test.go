package rle

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/flightblob/flightblob/internal/fault"
)

func encodeLengths(runs []int, width int) []byte {
	var out []byte
	for _, r := range runs {
		out = append(out, binary.LittleEndian.AppendUint64(nil, uint64(r))[:width]...)
	}
	return out
}

func TestExpand(t *testing.T) {
	t.Parallel()
	shapes := map[string][]int{
		"none":     nil,
		"one":      {1},
		"mixed":    {3, 0, 1, 255, 7, 32, 33, 9},
		"all zero": {0, 0},
	}
	for name, runs := range shapes {
		for width := 1; width <= MaxWidth; width++ {
			for _, lengthWidth := range []int{1, 2, 4} {
				var values, want []byte
				n := 0
				for i, r := range runs {
					v := bytes.Repeat([]byte{byte(i + 1)}, width)
					v[width-1] = byte(0xF0 + i)
					values = append(values, v...)
					want = append(want, bytes.Repeat(v, r)...)
					n += r
				}
				lengths := encodeLengths(runs, lengthWidth)
				got := make([]byte, len(want))
				if err := Expand(got, values, width, lengths, lengthWidth, n, Exact); err != nil {
					t.Fatalf("%s, width %d: %v", name, width, err)
				}
				if !bytes.Equal(got, want) {
					t.Fatalf("%s, width %d, lengths of %d: got %x, want %x", name, width, lengthWidth, got, want)
				}
				if sum, err := Total(lengths, lengthWidth); err != nil || sum != uint64(n) {
					t.Fatalf("%s: Total = %d, %v, want %d", name, sum, err, n)
				}
			}
		}
	}
}

func TestExpandLongRun(t *testing.T) {
	t.Parallel()
	for _, width := range []int{1, 2, 3, 4, 8, 16} {
		value := []byte("abcdefghijklmnop")[:width]
		got := make([]byte, 100_001*width)
		if err := Expand(got, value, width, encodeLengths([]int{100_001}, 4), 4, 100_001, Exact); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, bytes.Repeat(value, 100_001)) {
			t.Errorf("width %d: long run differs", width)
		}
	}
}

func TestModes(t *testing.T) {
	t.Parallel()
	values, lengths := []byte{1, 2, 3}, []byte{2, 255, 9}
	got := make([]byte, 5)
	if err := Expand(got, values, 1, lengths, 1, 5, Cut); err != nil {
		t.Fatal(err)
	}
	if want := []byte{1, 1, 2, 2, 2}; !bytes.Equal(got, want) {
		t.Errorf("cut: got %v, want %v", got, want)
	}
	if err := Expand(got, values, 1, lengths, 1, 5, Exact); fault.KindOf(err) != fault.Corrupt {
		t.Errorf("exact with a surplus: %v", err)
	}
}

func TestDamageIsReported(t *testing.T) {
	t.Parallel()
	dst := make([]byte, 100)
	for _, c := range []struct {
		name string
		err  error
		kind fault.Kind
	}{
		{"too few", Expand(dst, []byte{1}, 1, []byte{4}, 1, 5, Cut), fault.Corrupt},
		{"too few, exact", Expand(dst, []byte{1}, 1, []byte{4}, 1, 5, Exact), fault.Corrupt},
		{"values missing", Expand(dst, []byte{1}, 1, []byte{4, 1}, 1, 5, Exact), fault.Corrupt},
		{"values broken", Expand(dst, []byte{1, 2, 3}, 2, []byte{4}, 1, 4, Exact), fault.Corrupt},
		{"lengths broken", Expand(dst, []byte{1}, 1, []byte{4}, 2, 4, Exact), fault.Corrupt},
		{"length width", Expand(dst, []byte{1}, 1, make([]byte, 8), 8, 4, Exact), fault.Corrupt},
		{"value width", Expand(dst, make([]byte, 33), 33, []byte{4}, 1, 4, Exact), fault.Corrupt},
		{"destination", Expand(dst, []byte{1}, 1, []byte{200}, 1, 200, Exact), fault.Internal},
		{"overflow", Expand(dst, make([]byte, 8), 4, bytes.Repeat([]byte{255}, 8), 4, 25, Exact), fault.Corrupt},
	} {
		if c.err == nil || fault.KindOf(c.err) != c.kind {
			t.Errorf("%s: got %v, want a %v error", c.name, c.err, c.kind)
		}
	}
	if _, err := Total([]byte{1, 2, 3}, 2); fault.KindOf(err) != fault.Corrupt {
		t.Errorf("Total of a broken length: %v", err)
	}
}

func FuzzExpand(f *testing.F) {
	f.Add([]byte{1, 2, 3}, 1, []byte{2, 3, 4}, 1, 9, true)
	f.Add([]byte{1, 2, 3, 4, 5, 6}, 3, []byte{2, 0, 3, 0}, 2, 4, false)
	f.Fuzz(func(t *testing.T, values []byte, width int, lengths []byte, lengthWidth, n int, cut bool) {
		mode := Exact
		if cut {
			mode = Cut
		}
		dst := make([]byte, 1<<16)
		if Expand(dst, values, width, lengths, lengthWidth, n, mode) != nil {
			return
		}
		sum, err := Total(lengths, lengthWidth)
		if err != nil || sum < uint64(n) || !cut && sum != uint64(n) {
			t.Errorf("expanded %d values from runs of %d (%v)", n, sum, err)
		}
	})
}

func BenchmarkExpand(b *testing.B) {
	for _, width := range []int{2, 4, 8, 16} {
		for _, run := range []int{2, 10, 250} {
			b.Run(fmt.Sprintf("width %d, runs of %d", width, run), func(b *testing.B) {
				const n = 4000
				lengths := bytes.Repeat([]byte{byte(run)}, n/run)
				values := make([]byte, n/run*width)
				dst := make([]byte, n*width)
				b.SetBytes(int64(len(dst)))
				for b.Loop() {
					if err := Expand(dst, values, width, lengths, 1, n, Exact); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
