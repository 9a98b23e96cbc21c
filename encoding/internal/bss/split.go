package bss

import "encoding/binary"

// AppendSplit appends the planes of the values of width bytes (4 or 8) in src,
// the lowest bytes first.
func AppendSplit(dst, src []byte, width int) []byte {
	n := len(src) / width
	at := len(dst)
	dst = append(dst, src[:n*width]...)
	out := dst[at:]
	a, b, c, d := out[:n], out[n:][:n], out[2*n:][:n], out[3*n:][:n]
	if width == 4 {
		for i := range a {
			v := binary.LittleEndian.Uint32(src[4*i:])
			a[i], b[i], c[i], d[i] = byte(v), byte(v>>8), byte(v>>16), byte(v>>24)
		}
		return dst
	}
	e, f, g, h := out[4*n:][:n], out[5*n:][:n], out[6*n:][:n], out[7*n:][:n]
	for i := range a {
		v := binary.LittleEndian.Uint64(src[8*i:])
		a[i], b[i], c[i], d[i] = byte(v), byte(v>>8), byte(v>>16), byte(v>>24)
		e[i], f[i], g[i], h[i] = byte(v>>32), byte(v>>40), byte(v>>48), byte(v>>56)
	}
	return dst
}
