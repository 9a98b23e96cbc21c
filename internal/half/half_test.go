package half

import (
	"math"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/float16"
)

// Every number of 16 bits comes back from 32 bits, and what lies between two goes
// to the nearer one, from the middle to the even one.
func TestEveryNumber(t *testing.T) {
	t.Parallel()
	if got := Float32(float16.FromBits(0x8001)); got != -0x1p-24 {
		t.Errorf("the smallest number is %v", got)
	}
	for bits := range uint16(0x7c00) {
		h := float16.FromBits(bits)
		v := Float32(h)
		if got := Nearest(v); got != h {
			t.Fatalf("%v became %v", v, got)
		}
		if got := Nearest(-v); got.Uint16() != bits|0x8000 {
			t.Fatalf("%v became %v", -v, got)
		}
		if bits == 0x7bff {
			break
		}
		next := float16.FromBits(bits + 1)
		middle := (v + Float32(next)) / 2
		even := h
		if bits%2 == 1 {
			even = next
		}
		for _, c := range []struct {
			v    float32
			want float16.Num
		}{
			{math.Nextafter32(middle, 0), h}, {middle, even}, {math.Nextafter32(middle, math.MaxFloat32), next},
		} {
			if got := Nearest(c.v); got != c.want {
				t.Fatalf("%v became %v, want %v", c.v, got, c.want)
			}
		}
	}
	if got := Nearest(65519.996); Float32(got) != 65504 {
		t.Errorf("65519.996 became %v", got)
	}
	for _, v := range []float32{65520, 1e30, float32(math.Inf(1))} {
		if got := Nearest(v); !IsInf(got) {
			t.Errorf("%v became %v", v, got)
		}
	}
	for _, bits := range []uint32{0x7fc00000, 0x7f800001, 0xffabcdef} {
		if got := Nearest(math.Float32frombits(bits)); !got.IsNaN() || IsInf(got) {
			t.Errorf("no number, %x, became %v", bits, got)
		}
	}
}
