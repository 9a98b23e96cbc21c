package encoding

import (
	"encoding/binary"
	"math/bits"
	"slices"

	"github.com/flightblob/flightblob/internal/fault"
)

// blockKind tells what a block's values look like.
type blockKind uint8

const (
	nullBlock   blockKind = iota // no values stored: every slot is null
	fixedBlock                   // bits per value, packed
	varBlock                     // bytes between offsets
	listBlock                    // fixed-size lists over kids[0]
	structBlock                  // packed struct, one kid per child
)

// block is a decoded run of values, borrowed: it may alias fetched bytes or
// scratch memory, so it is copied into a vector before the next one is decoded.
type block struct {
	kind  blockKind
	n     int
	bits  int      // fixedBlock: 1, or a multiple of 8
	data  []byte   // fixedBlock: values; varBlock: bytes
	offs  []int64  // varBlock: n+1 checked, non-decreasing offsets into data
	dim   int      // listBlock
	kids  []*block // listBlock: one of n*dim items; structBlock: children
	valid []byte   // items of a listBlock only: bitmap, nil = all valid
}

// value gives the bytes of value i of a fixed (byte-wide) or variable block.
func (b *block) value(i int) []byte {
	if b.kind == varBlock {
		return b.data[b.offs[i]:b.offs[i+1]]
	}
	w := b.bits / 8
	return b.data[i*w : (i+1)*w]
}

// own makes a block that shares no bytes with what was fetched, so that an index
// can keep it.
func (b *block) own() *block {
	if b == nil {
		return nil
	}
	kept := *b
	kept.data, kept.offs, kept.valid = slices.Clone(b.data), slices.Clone(b.offs), slices.Clone(b.valid)
	kept.kids = make([]*block, len(b.kids))
	for i, kid := range b.kids {
		kept.kids[i] = kid.own()
	}
	return &kept
}

// size is the number of bytes that a block holds.
func (b *block) size() int64 {
	if b == nil {
		return 0
	}
	n := int64(len(b.data)+8*len(b.offs)+len(b.valid)) + 128
	for _, kid := range b.kids {
		n += kid.size()
	}
	return n
}

// newFixed checks that data holds exactly n values of the width.
func newFixed(data []byte, bits, n int) (*block, error) {
	if bits != 1 && (bits <= 0 || bits%8 != 0 || bits > maxValueBits) {
		return nil, fault.Corruptf(-1, "encoding: values of %d bits", bits)
	}
	if want := bytesFor(n, bits); len(data) != want {
		return nil, fault.Corruptf(-1, "encoding: %d values of %d bits in %d bytes, expected %d", n, bits, len(data), want)
	}
	return &block{kind: fixedBlock, n: n, bits: bits, data: data}, nil
}

// maxValueBits bounds the width of one fixed value: 64 MiB.
const maxValueBits = 8 << 26

// bytesFor is the packed size of n values; callers have bounded n.
func bytesFor(n, bits int) int {
	if bits == 1 {
		return (n + 7) / 8
	}
	return n * (bits / 8)
}

// newVar checks offsets against data and makes a variable block of them.
func newVar(data []byte, offs []int64) (*block, error) {
	last := int64(0)
	for i, o := range offs {
		if o < last || o > int64(len(data)) {
			return nil, fault.Corruptf(-1, "encoding: offset %d of value %d outside [%d, %d]", o, i, last, len(data))
		}
		last = o
	}
	return &block{kind: varBlock, n: len(offs) - 1, data: data, offs: offs}, nil
}

// getBit reads bit i, least significant bit first.
func getBit(p []byte, i int) bool { return p[i>>3]>>(i&7)&1 != 0 }

// setBit sets bit i.
func setBit(p []byte, i int) { p[i>>3] |= 1 << (i & 7) }

// appendBits appends bits [from, to) of src to dst, which holds n bits.
func appendBits(dst []byte, n int, src []byte, from, to int) []byte {
	count := to - from
	if need := (n+count+7)/8 - len(dst); need > 0 {
		dst = append(dst, make([]byte, need)...)
	}
	if n%8 == 0 && from%8 == 0 {
		copy(dst[n/8:], src[from/8:(to+7)/8])
		if rest := (n + count) % 8; rest != 0 {
			dst[(n+count)/8] &= 1<<rest - 1
		}
		return dst
	}
	i := 0
	for ; i < count && (n+i)%8 != 0; i++ {
		if getBit(src, from+i) {
			setBit(dst, n+i)
		}
	}
	// The destination is at a byte border now: gather whole source bytes.
	shift := uint((from + i) % 8)
	for ; i+8 <= count; i += 8 {
		at := (from + i) / 8
		b := src[at] >> shift
		if shift != 0 {
			b |= src[at+1] << (8 - shift)
		}
		dst[(n+i)/8] = b
	}
	for ; i < count; i++ {
		if getBit(src, from+i) {
			setBit(dst, n+i)
		}
	}
	return dst
}

// appendOnes appends count set bits to dst, which holds n bits.
func appendOnes(dst []byte, n, count int) []byte {
	if need := (n+count+7)/8 - len(dst); need > 0 {
		dst = append(dst, make([]byte, need)...)
	}
	i := n
	for ; i < n+count && i%8 != 0; i++ {
		setBit(dst, i)
	}
	for ; i+8 <= n+count; i += 8 {
		dst[i/8] = 0xff
	}
	for ; i < n+count; i++ {
		setBit(dst, i)
	}
	return dst
}

// appendZeros appends count clear bits to dst, which holds n bits.
func appendZeros(dst []byte, n, count int) []byte {
	if need := (n+count+7)/8 - len(dst); need > 0 {
		dst = append(dst, make([]byte, need)...)
	}
	return dst
}

// countBits counts set bits in [from, to).
func countBits(p []byte, from, to int) int {
	count := 0
	for from < to && from%8 != 0 {
		if getBit(p, from) {
			count++
		}
		from++
	}
	for ; from+64 <= to; from += 64 {
		count += bits.OnesCount64(binary.LittleEndian.Uint64(p[from/8:]))
	}
	for ; from < to; from++ {
		if getBit(p, from) {
			count++
		}
	}
	return count
}
