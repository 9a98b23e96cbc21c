package bitpack

import (
	"bytes"
	"fmt"
	"testing"
)

func TestPackFollowsTheDefinition(t *testing.T) {
	t.Parallel()
	for _, bits := range []int{8, 16, 32, 64} {
		for width := range bits + 1 {
			values := randomValues(uint64(width), GroupSize, width)
			src := toBytes(values, bits)
			// Bytes that dst held before must not shine through.
			dst := bytes.Repeat([]byte{0xAA}, 3+8+PackedSize(width))[:3]
			got := appendGroup(dst, src, bits, width)
			if !bytes.Equal(got[3:], reference(values, bits, width)) {
				t.Fatalf("%d:%d: packed words differ", bits, width)
			}
			if w := Width(src, bits); w > width || width > 0 && w < width-1 {
				t.Errorf("%d:%d: width %d", bits, width, w)
			}
		}
	}
}

func TestWidth(t *testing.T) {
	t.Parallel()
	for _, bits := range []int{8, 16, 32, 64} {
		for _, n := range []int{0, 1, 2, 3, 5, 31, 1024} {
			for width := range bits + 1 {
				values := make([]uint64, n)
				if n > 0 && width > 0 {
					values[n-1] = 1 << (width - 1)
				}
				want := width
				if n == 0 {
					want = 0
				}
				if got := Width(toBytes(values, bits), bits); got != want {
					t.Errorf("%d words of %d bits: width %d, want %d", n, bits, got, want)
				}
			}
		}
	}
}

func TestOutOfLineReturns(t *testing.T) {
	t.Parallel()
	for _, bits := range []int{8, 16, 32, 64} {
		for _, width := range []int{0, 1, 3, bits - 1, bits} {
			for _, n := range []int{0, 1, 63, 64, 65, 128, 1023, 1024, 1025, 3000} {
				src := toBytes(randomValues(uint64(n), n, width), bits)
				packed := AppendOutOfLine(nil, src, bits, width)
				if len(packed) != OutOfLineSize(n, bits, width) {
					t.Fatalf("%d:%d n=%d: %d bytes, promised %d", bits, width, n, len(packed), OutOfLineSize(n, bits, width))
				}
				got := make([]byte, len(src))
				if err := UnpackOutOfLine(got, packed, n, bits, width); err != nil || !bytes.Equal(got, src) {
					t.Fatalf("%d:%d n=%d: %v", bits, width, n, err)
				}
			}
		}
	}
}

func TestInlineReturns(t *testing.T) {
	t.Parallel()
	for _, bits := range []int{8, 16, 32, 64} {
		for _, width := range []int{0, 1, 5, bits} {
			for _, n := range []int{1, 1000, 1024} {
				src := toBytes(randomValues(uint64(n), n, width), bits)
				packed := AppendInline(nil, src, bits, width)
				got := make([]byte, len(src))
				if err := UnpackInline(got, packed, n, bits); err != nil || !bytes.Equal(got, src) {
					t.Fatalf("%d:%d n=%d: %v", bits, width, n, err)
				}
			}
		}
	}
}

func BenchmarkPack(b *testing.B) {
	for _, bits := range []int{8, 16, 32, 64} {
		for _, width := range []int{1, bits/2 - 1, bits / 2, bits - 1} {
			b.Run(fmt.Sprintf("%d to %d", bits, width), func(b *testing.B) {
				src := toBytes(randomValues(1, GroupSize, width), bits)
				dst := make([]byte, 0, PackedSize(width))
				b.SetBytes(int64(len(src)))
				for b.Loop() {
					dst = appendGroup(dst[:0], src, bits, width)
				}
			})
		}
	}
}
