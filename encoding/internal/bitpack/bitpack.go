// Package bitpack packs and restores integers by the 1024-value transposed bit packing
// of file-format sheet section 6.7 (FastLanes) and its three framings: bare
// groups, the inline form of 6.1 and the out-of-line form of 6.2.
//
// A group of 1024 values of b bits (8, 16, 32 or 64) is seen as b rows of
// 1024/b lanes. Each lane concatenates its b values as w-bit fields, least
// significant bit first, into w words; word k of all lanes lies side by side.
// A row is therefore 1024 bits for every b:
//
//	packed     w rows of 128 bytes
//	unpacked   b rows of 128 bytes, row r at element order[r/8]*16 + (r%8)*128
//	           order = 0 4 2 6 1 5 3 7
//
// which lets one kernel serve all word sizes: it treats a row as sixteen
// 64-bit registers that hold 8, 4, 2 or 1 lanes each.
//
// All functions are pure, accept any input and report damage as fault.Corrupt
// with the offset in src. Bytes are little-endian on every machine.
package bitpack

import (
	"encoding/binary"

	"github.com/flightblob/flightblob/internal/fault"
)

// GroupSize is the number of values of one packed group.
const GroupSize = 1024

// rowBytes is the size of one row, packed or not.
const rowBytes = GroupSize / 8

// order is the place of each block of eight rows in the unpacked group.
var order = [8]int{0, 4, 2, 6, 1, 5, 3, 7}

// PackedSize is the byte size of one packed group of values of width bits.
// It does not depend on the word size.
func PackedSize(width int) int { return rowBytes * width }

// checkWidths refuses word sizes and widths that the format does not know.
func checkWidths(bits, width int) error {
	switch bits {
	case 8, 16, 32, 64:
	default:
		return fault.Corruptf(-1, "bitpack: word size of %d bits, allowed are 8, 16, 32, 64", bits)
	}
	if width < 0 || width > bits {
		return fault.Corruptf(-1, "bitpack: packed width %d of %d-bit words", width, bits)
	}
	return nil
}

// UnpackBytes restores one group: src holds exactly PackedSize(width) bytes,
// dst at least 1024 words of the given size. dst and src must not overlap.
func UnpackBytes(dst, src []byte, bits, width int) error {
	if err := checkWidths(bits, width); err != nil {
		return err
	}
	if len(src) != PackedSize(width) {
		return fault.Corruptf(0, "bitpack: group of width %d has %d bytes, not %d", width, len(src), PackedSize(width))
	}
	if len(dst) < rowBytes*bits {
		return fault.New(fault.Internal, "bitpack: destination of %d bytes for a group of %d", len(dst), rowBytes*bits)
	}
	unpack(dst[:rowBytes*bits], src, bits, width)
	return nil
}

// UnpackOutOfLine restores n values packed as whole groups followed by a tail
// (sheet section 6.2). The tail of t < 1024 values is plain words when src is
// exactly that long, otherwise one more padded group. dst needs n words.
func UnpackOutOfLine(dst, src []byte, n, bits, width int) error {
	if err := checkWidths(bits, width); err != nil {
		return err
	}
	word := bits / 8
	if n < 0 || n > len(dst)/word {
		return fault.New(fault.Internal, "bitpack: destination of %d bytes for %d values of %d bits", len(dst), n, bits)
	}
	size, groups, tail := PackedSize(width), n/GroupSize, n%GroupSize
	// groups is bounded by len(dst), so the products below cannot overflow.
	full := groups * size
	raw := tail > 0 && len(src) == full+tail*word
	want := full
	switch {
	case raw:
		want += tail * word
	case tail > 0:
		want += size
	}
	if len(src) != want {
		return fault.Corruptf(0, "bitpack: %d values of %d bits packed to %d have %d bytes, expected %d", n, bits, width, len(src), want)
	}
	for i := range groups {
		unpack(dst[i*GroupSize*word:][:GroupSize*word], src[i*size:][:size], bits, width)
	}
	rest := dst[groups*GroupSize*word:][:tail*word]
	switch {
	case raw:
		copy(rest, src[full:])
	case tail > 0:
		unpackPart(rest, src[full:], bits, width)
	}
	return nil
}

// UnpackInline restores n <= 1024 values of the inline form (sheet section
// 6.1): one word with the packed width, then one group. dst needs n words.
func UnpackInline(dst, src []byte, n, bits int) error {
	if err := checkWidths(bits, 0); err != nil {
		return err
	}
	word := bits / 8
	if n < 0 || n > GroupSize {
		return fault.Corruptf(0, "bitpack: inline form of %d values, at most 1024 fit", n)
	}
	if n > len(dst)/word {
		return fault.New(fault.Internal, "bitpack: destination of %d bytes for %d values of %d bits", len(dst), n, bits)
	}
	if n == 0 {
		return nil
	}
	if len(src) < word {
		return fault.Corruptf(0, "bitpack: inline form of %d bytes has no width word", len(src))
	}
	var width uint64
	for i := word - 1; i >= 0; i-- {
		width = width<<8 | uint64(src[i])
	}
	if width > uint64(bits) {
		return fault.Corruptf(0, "bitpack: inline width %d of %d-bit words", width, bits)
	}
	packed := src[word:]
	if len(packed) != PackedSize(int(width)) {
		return fault.Corruptf(int64(word), "bitpack: inline group of width %d has %d bytes, not %d", width, len(packed), PackedSize(int(width)))
	}
	if n == GroupSize {
		unpack(dst[:GroupSize*word], packed, bits, int(width))
	} else {
		unpackPart(dst[:n*word], packed, bits, int(width))
	}
	return nil
}

// unpackPart restores the first len(dst) bytes of a group.
func unpackPart(dst, src []byte, bits, width int) {
	var group [rowBytes * 64]byte
	unpack(group[:rowBytes*bits], src, bits, width)
	copy(dst, group[:])
}

// unpack is the kernel. The caller has checked that bits is a word size,
// width <= bits, len(dst) == rowBytes*bits and len(src) == rowBytes*width.
func unpack(dst, src []byte, bits, width int) {
	if width == 0 {
		clear(dst)
		return
	}
	// ones has the lowest bit of every lane of a 64-bit register set, so a
	// product with it copies a per-lane constant into all lanes.
	ones := ^uint64(0)
	if bits < 64 {
		ones /= uint64(1)<<bits - 1
	} else {
		ones = 1
	}
	mask := ones * low(width)
	bit := 0 // first bit of the row's field within its lane
	for r := range bits {
		at := (order[r/8]*16 + (r%8)*128) * (bits / 8)
		out := (*[rowBytes]byte)(dst[at:])
		k, shift := bit/bits, bit%bits
		a := (*[rowBytes]byte)(src[k*rowBytes:])
		switch got := bits - shift; {
		case got >= width:
			// Bits that a shift drags in from the next lane up land at or
			// above got >= width, where the mask drops them.
			cut(out, a, uint(shift), mask)
		default:
			b := (*[rowBytes]byte)(src[(k+1)*rowBytes:])
			lowMask := ones * low(got)
			join(out, a, b, uint(shift), uint(got), lowMask, mask&^lowMask)
		}
		bit += width
	}
}

// low has the n lowest bits set, n <= 64.
func low(n int) uint64 {
	if n == 64 {
		return ^uint64(0)
	}
	return uint64(1)<<n - 1
}

// cut extracts a row whose fields lie within one packed row.
func cut(out, a *[rowBytes]byte, shift uint, mask uint64) {
	for i := 0; i < rowBytes; i += 32 {
		o, p := out[i:i+32:i+32], a[i:i+32:i+32]
		v0 := binary.LittleEndian.Uint64(p[0:8]) >> (shift & 63) & mask
		v1 := binary.LittleEndian.Uint64(p[8:16]) >> (shift & 63) & mask
		v2 := binary.LittleEndian.Uint64(p[16:24]) >> (shift & 63) & mask
		v3 := binary.LittleEndian.Uint64(p[24:32]) >> (shift & 63) & mask
		binary.LittleEndian.PutUint64(o[0:8], v0)
		binary.LittleEndian.PutUint64(o[8:16], v1)
		binary.LittleEndian.PutUint64(o[16:24], v2)
		binary.LittleEndian.PutUint64(o[24:32], v3)
	}
}

// join extracts a row whose fields begin in row a and end in row b: the first
// got bits come from a at shift, the others from the low end of b.
func join(out, a, b *[rowBytes]byte, shift, got uint, maskA, maskB uint64) {
	for i := 0; i < rowBytes; i += 32 {
		o, p, q := out[i:i+32:i+32], a[i:i+32:i+32], b[i:i+32:i+32]
		v0 := binary.LittleEndian.Uint64(p[0:8])>>(shift&63)&maskA | binary.LittleEndian.Uint64(q[0:8])<<(got&63)&maskB
		v1 := binary.LittleEndian.Uint64(p[8:16])>>(shift&63)&maskA | binary.LittleEndian.Uint64(q[8:16])<<(got&63)&maskB
		v2 := binary.LittleEndian.Uint64(p[16:24])>>(shift&63)&maskA | binary.LittleEndian.Uint64(q[16:24])<<(got&63)&maskB
		v3 := binary.LittleEndian.Uint64(p[24:32])>>(shift&63)&maskA | binary.LittleEndian.Uint64(q[24:32])<<(got&63)&maskB
		binary.LittleEndian.PutUint64(o[0:8], v0)
		binary.LittleEndian.PutUint64(o[8:16], v1)
		binary.LittleEndian.PutUint64(o[16:24], v2)
		binary.LittleEndian.PutUint64(o[24:32], v3)
	}
}
