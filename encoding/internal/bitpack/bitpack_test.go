package bitpack

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flightblob/flightblob/internal/fault"
)

// reference is the transposition written out from the sheet's definition, value by
// value: the oracle of these tests.
func reference(values []uint64, bits, width int) []byte {
	lanes := GroupSize / bits
	words := make([]uint64, lanes*width)
	for r := range bits {
		for l := range lanes {
			v := values[order[r/8]*16+(r%8)*128+l]
			for i := range width {
				if v>>i&1 == 1 {
					at := r*width + i
					words[at/bits*lanes+l] |= 1 << (at % bits)
				}
			}
		}
	}
	return toBytes(words, bits)
}

func toBytes(words []uint64, bits int) []byte {
	var out []byte
	for _, w := range words {
		out = append(out, binary.LittleEndian.AppendUint64(nil, w)[:bits/8]...)
	}
	return out
}

func fromBytes(b []byte, bits int) []uint64 {
	var out []uint64
	for ; len(b) > 0; b = b[bits/8:] {
		var w [8]byte
		copy(w[:], b[:bits/8])
		out = append(out, binary.LittleEndian.Uint64(w[:]))
	}
	return out
}

func randomValues(seed uint64, n, width int) []uint64 {
	rng := rand.New(rand.NewPCG(seed, 1))
	out := make([]uint64, n)
	for i := range out {
		out[i] = rng.Uint64() & low(width)
	}
	return out
}

func TestUnpackCheckValues(t *testing.T) {
	t.Parallel()
	// Section 6.7: at width 1, where does each element's bit lie?
	cases := map[int]map[int][2]int{
		8:  {64: {64, 0}, 128: {0, 1}, 960: {64, 7}},
		16: {1: {1, 0}, 64: {0, 8}, 128: {0, 1}, 960: {0, 15}, 1023: {63, 15}},
		32: {32: {0, 16}, 64: {0, 8}, 128: {0, 1}, 1023: {31, 31}},
		64: {16: {0, 32}, 32: {0, 16}, 64: {0, 8}, 128: {0, 1}, 1023: {15, 63}},
	}
	for bits, elements := range cases {
		for element, place := range elements {
			words := make([]uint64, GroupSize/bits)
			words[place[0]] = 1 << place[1]
			dst := make([]byte, GroupSize*bits/8)
			if err := UnpackBytes(dst, toBytes(words, bits), bits, 1); err != nil {
				t.Fatal(err)
			}
			want := make([]uint64, GroupSize)
			want[element] = 1
			if diff := cmp.Diff(want, fromBytes(dst, bits)); diff != "" {
				t.Errorf("%d-bit words, element %d: %s", bits, element, diff)
			}
		}
	}
}

func TestUnpackEveryWidth(t *testing.T) {
	t.Parallel()
	for _, bits := range []int{8, 16, 32, 64} {
		for width := range bits + 1 {
			values := randomValues(uint64(width), GroupSize, width)
			dst := make([]byte, GroupSize*bits/8)
			for i := range dst {
				dst[i] = 0xAA
			}
			if err := UnpackBytes(dst, reference(values, bits, width), bits, width); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(values, fromBytes(dst, bits)); diff != "" {
				t.Fatalf("%d:%d: %s", bits, width, diff)
			}
		}
	}
}

func TestUnpackOutOfLine(t *testing.T) {
	t.Parallel()
	for _, bits := range []int{8, 16, 32, 64} {
		for _, width := range []int{0, 1, 3, bits - 1, bits} {
			for _, n := range []int{0, 1, 63, 1023, 1024, 1025, 3000} {
				for _, raw := range []bool{true, false} {
					tail := n % GroupSize
					// A packed tail as long as the plain one would be read as plain.
					if !raw && tail*bits/8 == PackedSize(width) {
						continue
					}
					values := randomValues(uint64(n), n, width)
					var src []byte
					for i := 0; i < n; i += GroupSize {
						group := values[i:min(i+GroupSize, n)]
						if len(group) < GroupSize && raw {
							src = append(src, toBytes(group, bits)...)
							continue
						}
						padded := make([]uint64, GroupSize)
						copy(padded, group)
						src = append(src, reference(padded, bits, width)...)
					}
					dst := make([]byte, n*bits/8)
					if err := UnpackOutOfLine(dst, src, n, bits, width); err != nil {
						t.Fatalf("%d:%d n=%d raw=%v: %v", bits, width, n, raw, err)
					}
					if got := fromBytes(dst, bits); !(n == 0 && len(got) == 0) && !cmp.Equal(values, got) {
						t.Fatalf("%d:%d n=%d raw=%v: %s", bits, width, n, raw, cmp.Diff(values, got))
					}
				}
			}
		}
	}
}

func TestUnpackInline(t *testing.T) {
	t.Parallel()
	for _, bits := range []int{8, 16, 32, 64} {
		for _, width := range []int{0, 1, 5, bits} {
			for _, n := range []int{0, 1, 1000, 1024} {
				values := randomValues(uint64(n), GroupSize, width)
				src := append(toBytes([]uint64{uint64(width)}, bits), reference(values, bits, width)...)
				dst := make([]byte, n*bits/8)
				if err := UnpackInline(dst, src, n, bits); err != nil {
					t.Fatal(err)
				}
				for i, v := range fromBytes(dst, bits) {
					if v != values[i] {
						t.Fatalf("%d:%d n=%d: value %d is %d, not %d", bits, width, n, i, v, values[i])
					}
				}
			}
		}
	}
}

func TestDamageIsReported(t *testing.T) {
	t.Parallel()
	dst := make([]byte, 8*GroupSize)
	cases := []struct {
		name string
		err  error
		kind fault.Kind
	}{
		{"word size", UnpackBytes(dst, nil, 24, 0), fault.Corrupt},
		{"width", UnpackBytes(dst, nil, 8, 9), fault.Corrupt},
		{"negative width", UnpackBytes(dst, nil, 8, -1), fault.Corrupt},
		{"short group", UnpackBytes(dst, make([]byte, 127), 8, 1), fault.Corrupt},
		{"small destination", UnpackBytes(dst[:10], make([]byte, 128), 8, 1), fault.Internal},
		{"out of line, short", UnpackOutOfLine(dst, make([]byte, 127), 1024, 8, 1), fault.Corrupt},
		{"out of line, long", UnpackOutOfLine(dst, make([]byte, 129), 1024, 8, 1), fault.Corrupt},
		{"out of line, count", UnpackOutOfLine(dst, nil, 1<<62, 8, 1), fault.Internal},
		{"inline, no width", UnpackInline(dst, []byte{1}, 5, 16), fault.Corrupt},
		{"inline, wide", UnpackInline(dst, []byte{17, 0}, 5, 16), fault.Corrupt},
		{"inline, short", UnpackInline(dst, []byte{1, 0, 0, 0}, 5, 16), fault.Corrupt},
		{"inline, count", UnpackInline(dst, []byte{0, 0}, 1025, 16), fault.Corrupt},
	}
	for _, c := range cases {
		if c.err == nil || fault.KindOf(c.err) != c.kind {
			t.Errorf("%s: got %v, want a %v error", c.name, c.err, c.kind)
		}
	}
}

func FuzzUnpack(f *testing.F) {
	f.Add(make([]byte, 128), 1024, uint8(8), uint8(1))
	f.Add(append([]byte{3, 0}, make([]byte, 384)...), 1000, uint8(16), uint8(3))
	f.Add([]byte{1, 2, 3, 4}, 1, uint8(32), uint8(7))
	f.Fuzz(func(t *testing.T, src []byte, n int, bits, width uint8) {
		dst := make([]byte, 8*4096)
		_ = UnpackBytes(dst, src, int(bits), int(width))
		_ = UnpackInline(dst, src, n, int(bits))
		_ = UnpackOutOfLine(dst, src, n, int(bits), int(width))
	})
}

func BenchmarkUnpack(b *testing.B) {
	for _, bits := range []int{8, 16, 32, 64} {
		for _, width := range []int{1, bits/2 - 1, bits / 2, bits - 1} {
			b.Run(fmt.Sprintf("%d to %d", width, bits), func(b *testing.B) {
				src := reference(randomValues(1, GroupSize, width), bits, width)
				dst := make([]byte, GroupSize*bits/8)
				b.SetBytes(int64(len(dst)))
				for b.Loop() {
					if err := UnpackBytes(dst, src, bits, width); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
