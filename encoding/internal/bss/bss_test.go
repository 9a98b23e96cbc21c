package bss

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/flightblob/flightblob/internal/fault"
)

// split is the definition, byte by byte.
func split(values []byte, width int) []byte {
	n := len(values) / width
	out := make([]byte, len(values))
	for i := range n {
		for j := range width {
			out[j*n+i] = values[i*width+j]
		}
	}
	return out
}

func sample(n int) []byte {
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(i*7 + i/256)
	}
	return out
}

func TestJoin(t *testing.T) {
	t.Parallel()
	for _, width := range []int{4, 8} {
		for _, n := range []int{0, 1, 2, 3, 1000} {
			want := sample(n * width)
			got := make([]byte, n*width)
			if err := Join(got, split(want, width), n, width); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("width %d, n %d: got %x, want %x", width, n, got, want)
			}
		}
	}
}

func TestJoinByHand(t *testing.T) {
	t.Parallel()
	got := make([]byte, 8)
	if err := Join(got, []byte{1, 5, 2, 6, 3, 7, 4, 8}, 2, 4); err != nil {
		t.Fatal(err)
	}
	if want := []byte{1, 2, 3, 4, 5, 6, 7, 8}; !bytes.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestDamageIsReported(t *testing.T) {
	t.Parallel()
	dst := make([]byte, 80)
	for _, c := range []struct {
		name string
		err  error
		kind fault.Kind
	}{
		{"width", Join(dst, make([]byte, 20), 10, 2), fault.Corrupt},
		{"short", Join(dst, make([]byte, 39), 10, 4), fault.Corrupt},
		{"long", Join(dst, make([]byte, 81), 10, 8), fault.Corrupt},
		{"count", Join(dst, nil, 1<<61, 8), fault.Internal},
		{"negative", Join(dst, nil, -1, 8), fault.Internal},
	} {
		if c.err == nil || fault.KindOf(c.err) != c.kind {
			t.Errorf("%s: got %v, want a %v error", c.name, c.err, c.kind)
		}
	}
}

func FuzzJoin(f *testing.F) {
	f.Add(sample(40), 10, 4)
	f.Add(sample(80), 10, 8)
	f.Fuzz(func(t *testing.T, src []byte, n, width int) {
		dst := make([]byte, len(src))
		if Join(dst, src, n, width) == nil && !bytes.Equal(split(dst, width), src) {
			t.Errorf("width %d, n %d: joined planes do not split back", width, n)
		}
	})
}

func BenchmarkJoin(b *testing.B) {
	for _, width := range []int{4, 8} {
		b.Run(fmt.Sprintf("width %d", width), func(b *testing.B) {
			src, dst := sample(4096*width), make([]byte, 4096*width)
			b.SetBytes(int64(len(src)))
			for b.Loop() {
				if err := Join(dst, src, 4096, width); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
