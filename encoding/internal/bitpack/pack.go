package bitpack

import (
	"encoding/binary"
	"math/bits"
)

// Width is the number of bits that the largest of src's words needs; src holds
// whole little-endian words of wordBits bits (8, 16, 32 or 64).
func Width(src []byte, wordBits int) int {
	// Words of any size may be gathered in one register: the lanes are folded
	// together at the end.
	var or uint64
	for ; len(src) >= 32; src = src[32:] {
		or |= binary.LittleEndian.Uint64(src) | binary.LittleEndian.Uint64(src[8:]) |
			binary.LittleEndian.Uint64(src[16:]) | binary.LittleEndian.Uint64(src[24:])
	}
	for ; len(src) >= 8; src = src[8:] {
		or |= binary.LittleEndian.Uint64(src)
	}
	var rest [8]byte
	copy(rest[:], src)
	or |= binary.LittleEndian.Uint64(rest[:])
	for s := 32; s >= wordBits; s /= 2 {
		or |= or >> s
	}
	return bits.Len64(or & low(wordBits))
}

// AppendInline appends the inline form of the words in src, at most GroupSize
// of them: one word with the packed width, then one group. The width must hold
// every value.
func AppendInline(dst, src []byte, wordBits, width int) []byte {
	var word [8]byte
	word[0] = byte(width)
	dst = append(dst, word[:wordBits/8]...)
	return appendGroup(dst, src, wordBits, width)
}

// AppendOutOfLine appends the words in src as whole groups and a tail that is
// packed where that is shorter and plain otherwise: equal length would be read
// as plain. The width must hold every value.
func AppendOutOfLine(dst, src []byte, wordBits, width int) []byte {
	group := GroupSize * wordBits / 8
	for ; len(src) >= group; src = src[group:] {
		dst = appendGroup(dst, src[:group], wordBits, width)
	}
	if len(src) == 0 {
		return dst
	}
	if PackedSize(width) < len(src) {
		return appendGroup(dst, src, wordBits, width)
	}
	return append(dst, src...)
}

// OutOfLineSize is what AppendOutOfLine appends for n words.
func OutOfLineSize(n, wordBits, width int) int {
	return n/GroupSize*PackedSize(width) + min(PackedSize(width), n%GroupSize*wordBits/8)
}

// appendGroup packs up to GroupSize words, missing ones being zero.
func appendGroup(dst, src []byte, wordBits, width int) []byte {
	at := len(dst)
	size := PackedSize(width)
	if cap(dst)-at < size {
		dst = append(dst, make([]byte, size)...)
	} else {
		dst = dst[:at+size]
		clear(dst[at:])
	}
	if width == 0 {
		return dst
	}
	if full := rowBytes * wordBits; len(src) < full {
		var group [rowBytes * 64]byte
		copy(group[:], src)
		pack(dst[at:], group[:full], wordBits, width)
	} else {
		pack(dst[at:], src, wordBits, width)
	}
	return dst
}

// pack is the kernel, the mirror of unpack: every row of src is one field in
// each lane, added to the one or two packed rows that it falls into. dst has
// PackedSize(width) zero bytes.
func pack(dst, src []byte, wordBits, width int) {
	ones := ^uint64(0)
	if wordBits < 64 {
		ones /= uint64(1)<<wordBits - 1
	} else {
		ones = 1
	}
	bit := 0 // first bit of the row's field within its lane
	for r := range wordBits {
		at := (order[r/8]*16 + (r%8)*128) * (wordBits / 8)
		in := (*[rowBytes]byte)(src[at:])
		k, shift := bit/wordBits, bit%wordBits
		room := min(wordBits-shift, width)
		put(dst[k*rowBytes:], in, ones*low(room), uint(shift))
		if room < width {
			carry(dst[(k+1)*rowBytes:], in, ones*low(width-room), uint(room))
		}
		bit += width
	}
}

// put adds the bits of in under mask, moved up by shift within their lanes.
func put(out []byte, in *[rowBytes]byte, mask uint64, shift uint) {
	o := (*[rowBytes]byte)(out)
	for i := 0; i < rowBytes; i += 32 {
		p, q := o[i:i+32:i+32], in[i:i+32:i+32]
		v0 := binary.LittleEndian.Uint64(p[0:8]) | binary.LittleEndian.Uint64(q[0:8])&mask<<(shift&63)
		v1 := binary.LittleEndian.Uint64(p[8:16]) | binary.LittleEndian.Uint64(q[8:16])&mask<<(shift&63)
		v2 := binary.LittleEndian.Uint64(p[16:24]) | binary.LittleEndian.Uint64(q[16:24])&mask<<(shift&63)
		v3 := binary.LittleEndian.Uint64(p[24:32]) | binary.LittleEndian.Uint64(q[24:32])&mask<<(shift&63)
		binary.LittleEndian.PutUint64(p[0:8], v0)
		binary.LittleEndian.PutUint64(p[8:16], v1)
		binary.LittleEndian.PutUint64(p[16:24], v2)
		binary.LittleEndian.PutUint64(p[24:32], v3)
	}
}

// carry stores the upper part of fields whose lower bits went into the row
// before: mask is applied after the move down, so that nothing of the next
// lane comes along.
func carry(out []byte, in *[rowBytes]byte, mask uint64, shift uint) {
	o := (*[rowBytes]byte)(out)
	for i := 0; i < rowBytes; i += 32 {
		p, q := o[i:i+32:i+32], in[i:i+32:i+32]
		v0 := binary.LittleEndian.Uint64(q[0:8]) >> (shift & 63) & mask
		v1 := binary.LittleEndian.Uint64(q[8:16]) >> (shift & 63) & mask
		v2 := binary.LittleEndian.Uint64(q[16:24]) >> (shift & 63) & mask
		v3 := binary.LittleEndian.Uint64(q[24:32]) >> (shift & 63) & mask
		binary.LittleEndian.PutUint64(p[0:8], v0)
		binary.LittleEndian.PutUint64(p[8:16], v1)
		binary.LittleEndian.PutUint64(p[16:24], v2)
		binary.LittleEndian.PutUint64(p[24:32], v3)
	}
}
