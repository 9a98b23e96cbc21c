// Package bss makes and joins byte stream splits (file-format sheet section 6.1): plane
// 0 holds the lowest byte of every value, plane 1 the next one, and so on.
//
// Pure and safe with any input; damage is fault.Corrupt with its offset.
package bss

import (
	"encoding/binary"

	"github.com/flightblob/flightblob/internal/fault"
)

// Join restores n values of width bytes (4 or 8) from width planes of n bytes
// each. src holds exactly the planes, dst at least n*width bytes.
func Join(dst, src []byte, n, width int) error {
	if width != 4 && width != 8 {
		return fault.Corruptf(-1, "bss: values of %d bytes, allowed are 4 and 8", width)
	}
	if n < 0 || n > len(dst)/width {
		return fault.New(fault.Internal, "bss: destination of %d bytes for %d values of %d bytes", len(dst), n, width)
	}
	if len(src) != n*width {
		return fault.Corruptf(0, "bss: %d planes of %d values have %d bytes, not %d", width, n, len(src), n*width)
	}
	// Slices of equal length n let the compiler drop the checks inside.
	a, b, c, d := src[:n], src[n:][:n], src[2*n:][:n], src[3*n:][:n]
	if width == 4 {
		for i := range a {
			v := uint32(a[i]) | uint32(b[i])<<8 | uint32(c[i])<<16 | uint32(d[i])<<24
			binary.LittleEndian.PutUint32(dst[4*i:4*i+4], v)
		}
		return nil
	}
	e, f, g, h := src[4*n:][:n], src[5*n:][:n], src[6*n:][:n], src[7*n:][:n]
	for i := range a {
		lowHalf := uint32(a[i]) | uint32(b[i])<<8 | uint32(c[i])<<16 | uint32(d[i])<<24
		highHalf := uint32(e[i]) | uint32(f[i])<<8 | uint32(g[i])<<16 | uint32(h[i])<<24
		binary.LittleEndian.PutUint64(dst[8*i:8*i+8], uint64(lowHalf)|uint64(highHalf)<<32)
	}
	return nil
}
