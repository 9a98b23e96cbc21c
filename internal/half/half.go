// Package half converts numbers of 16 bits as IEEE 754 has them. The Arrow
// library's own conversions lose those below 2^-14, and cut digits off instead of
// rounding.
package half

import (
	"math"

	"github.com/apache/arrow-go/v18/arrow/float16"
)

// Float32 gives the same number in 32 bits, which have all of those of 16.
func Float32(n float16.Num) float32 {
	bits := n.Uint16()
	if bits&0x7c00 != 0 { // not below 2^-14, whose numbers count in steps of 2^-24
		return n.Float32()
	}
	v := float32(bits&0x3ff) / (1 << 24)
	if bits&0x8000 != 0 {
		v = float32(math.Copysign(float64(v), -1))
	}
	return v
}

// Nearest gives the nearest number, the even one of two that are as near. From
// 65520 on that is infinity.
func Nearest(v float32) float16.Num {
	bits := math.Float32bits(v)
	sign, magnitude := uint16(bits>>16&0x8000), bits&0x7fffffff
	switch {
	case magnitude > 0x7f800000: // not a number; its upper bits stay
		return float16.FromBits(sign | 0x7c00 | uint16(max(magnitude>>13&0x3ff, 1)))
	case magnitude >= 0x477ff000: // 65520
		return float16.FromBits(sign | 0x7c00)
	case magnitude < 0x38800000: // 2^-14
		steps := math.RoundToEven(math.Abs(float64(v)) * (1 << 24))
		return float16.FromBits(sign | uint16(steps))
	}
	// The bits that go decide, with the last one that stays for ties.
	magnitude += 0xfff + magnitude>>13&1
	return float16.FromBits(sign | uint16(magnitude>>13-0x1c000))
}

// IsInf tells infinity, of either sign.
func IsInf(n float16.Num) bool { return n.Uint16()&0x7fff == 0x7c00 }
