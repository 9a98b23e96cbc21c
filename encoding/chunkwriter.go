package encoding

import (
	"encoding/binary"
	"math/bits"

	"github.com/flightblob/flightblob/encoding/internal/bitpack"
	"github.com/flightblob/flightblob/encoding/internal/bss"
	"github.com/flightblob/flightblob/encoding/internal/compress"
	"github.com/flightblob/flightblob/encoding/internal/rle"
	"github.com/flightblob/flightblob/internal/lancepb"
)

// chunkWriter writes the value buffers of mini-block chunks (sheet section 6.1).
type chunkWriter interface {
	encoding() *lancepb.CompressiveEncoding
	// buffers is the number of value buffers of each chunk.
	buffers() int
	// want is how many values the chunk that begins with value i should hold: a
	// power of two, at least 2. It may be more than there are.
	want(i int) int
	// size is about the number of bytes of n values, for memory that is set aside.
	size(n int) int
	// append appends the buffers of values [from, to), each padded to 8 bytes,
	// and notes their sizes. dst is a multiple of 8 long.
	append(dst []byte, from, to int, sizes []uint32) ([]byte, error)
}

const (
	chunkTarget = 8 << 10 // bytes of a chunk's values
	mostValues  = 4096    // of a chunk
)

// fitting is the power of two of values of a size that make a chunk.
func fitting(size int) int {
	n := min(max(chunkTarget/max(size, 1), 2), mostValues)
	return 1 << (bits.Len(uint(n)) - 1)
}

func padTo8(dst []byte) []byte {
	for len(dst)%8 != 0 {
		dst = append(dst, 0)
	}
	return dst
}

// flatChunks stores values of fixed width as they are.
type flatChunks struct {
	data []byte
	bits int // 1, or a multiple of 8
	off  int // first bit, if bits is 1
}

func (c flatChunks) encoding() *lancepb.CompressiveEncoding { return flatEncoding(c.bits) }
func (c flatChunks) buffers() int                           { return 1 }
func (c flatChunks) want(int) int                           { return fitting(c.bits / 8) }
func (c flatChunks) size(n int) int                         { return bytesFor(n, c.bits) }

func (c flatChunks) append(dst []byte, from, to int, sizes []uint32) ([]byte, error) {
	at := len(dst)
	if c.bits == 1 {
		dst = append(dst, appendBits(nil, 0, c.data, c.off+from, c.off+to)...)
	} else {
		dst = append(dst, c.data[from*c.bits/8:to*c.bits/8]...)
	}
	sizes[0] = uint32(len(dst) - at)
	return padTo8(dst), nil
}

// packedChunks stores words at the width of each chunk's largest.
type packedChunks struct {
	data []byte
	bits int
}

func (c packedChunks) encoding() *lancepb.CompressiveEncoding {
	return &lancepb.CompressiveEncoding{Compression: &lancepb.CompressiveEncoding_InlineBitpacking{
		InlineBitpacking: &lancepb.InlineBitpacking{UncompressedBitsPerValue: uint64(c.bits)},
	}}
}

func (c packedChunks) buffers() int { return 1 }
func (c packedChunks) want(int) int { return bitpack.GroupSize }
func (c packedChunks) size(int) int { return packedSize(c.data, c.bits, bitpack.GroupSize) }

func (c packedChunks) append(dst []byte, from, to int, sizes []uint32) ([]byte, error) {
	at, src := len(dst), c.data[from*c.bits/8:to*c.bits/8]
	dst = bitpack.AppendInline(dst, src, c.bits, bitpack.Width(src, c.bits))
	sizes[0] = uint32(len(dst) - at)
	return padTo8(dst), nil
}

// packedSize is what packedChunks takes for all values, with at most so many in
// each chunk.
func packedSize(data []byte, wordBits, most int) int {
	n := bitpack.GroupSize
	for n > 2 && n > most {
		n /= 2
	}
	size, group := 0, n*wordBits/8
	for ; len(data) > 0; data = data[min(group, len(data)):] {
		size += wordBits/8 + bitpack.PackedSize(bitpack.Width(data[:min(group, len(data))], wordBits))
	}
	return size
}

// runChunks stores words as runs.
type runChunks struct {
	data    []byte
	bits    int
	lengths *[]byte // scratch
}

func (c runChunks) encoding() *lancepb.CompressiveEncoding { return rleEncoding(c.bits) }
func (c runChunks) buffers() int                           { return 2 }
func (c runChunks) want(int) int                           { return mostValues }
func (c runChunks) size(int) int                           { return rle.Runs(c.data, c.bits/8) * (c.bits/8 + 1) }

func (c runChunks) append(dst []byte, from, to int, sizes []uint32) ([]byte, error) {
	at := len(dst)
	dst, lengths := rle.Append(dst, (*c.lengths)[:0], c.data[from*c.bits/8:to*c.bits/8], c.bits/8)
	sizes[0], sizes[1] = uint32(len(dst)-at), uint32(len(lengths))
	*c.lengths = lengths
	return padTo8(append(padTo8(dst), lengths...)), nil
}

// splitChunks stores numbers by byte planes.
type splitChunks struct {
	data []byte
	bits int
}

func (c splitChunks) encoding() *lancepb.CompressiveEncoding {
	return &lancepb.CompressiveEncoding{Compression: &lancepb.CompressiveEncoding_ByteStreamSplit{
		ByteStreamSplit: &lancepb.ByteStreamSplit{Values: flatEncoding(c.bits)},
	}}
}

func (c splitChunks) buffers() int   { return 1 }
func (c splitChunks) want(int) int   { return fitting(c.bits / 8) }
func (c splitChunks) size(n int) int { return n * c.bits / 8 }

func (c splitChunks) append(dst []byte, from, to int, sizes []uint32) ([]byte, error) {
	at := len(dst)
	dst = bss.AppendSplit(dst, c.data[from*c.bits/8:to*c.bits/8], c.bits/8)
	sizes[0] = uint32(len(dst) - at)
	return padTo8(dst), nil
}

// textChunks stores offsets from the start of the chunk's buffer, then bytes.
type textChunks struct {
	data   []byte
	start  int      // of the first value in data
	ends   []uint32 // of each value in data
	bits   int      // of an offset: 32 or 64
	target int      // bytes of a chunk
}

func (c textChunks) encoding() *lancepb.CompressiveEncoding { return variableEncoding(c.bits) }
func (c textChunks) buffers() int                           { return 1 }
func (c textChunks) size(n int) int                         { return n*c.bits/8 + c.startOf(n) - c.start }

// startOf is the position of value i in data.
func (c textChunks) startOf(i int) int {
	if i == 0 {
		return c.start
	}
	return int(c.ends[i-1])
}

func (c textChunks) want(i int) int {
	n, from := 2, c.startOf(i)
	for n < mostValues {
		last := min(i+2*n, len(c.ends))
		if int(c.ends[last-1])-from+(2*n+1)*c.bits/8 > c.target {
			break
		}
		n *= 2
	}
	return n
}

func (c textChunks) append(dst []byte, from, to int, sizes []uint32) ([]byte, error) {
	at, first := len(dst), c.startOf(from)
	head := (to - from + 1) * c.bits / 8
	shift := head - first
	if c.bits == 32 {
		dst = binary.LittleEndian.AppendUint32(dst, uint32(head))
		for _, e := range c.ends[from:to] {
			dst = binary.LittleEndian.AppendUint32(dst, uint32(int(e)+shift))
		}
	} else {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(head))
		for _, e := range c.ends[from:to] {
			dst = binary.LittleEndian.AppendUint64(dst, uint64(int(e)+shift))
		}
	}
	dst = append(dst, c.data[first:c.startOf(to)]...)
	// The buffer itself is a multiple of the offset width.
	for (len(dst)-at)%(c.bits/8) != 0 {
		dst = append(dst, 0)
	}
	sizes[0] = uint32(len(dst) - at)
	return padTo8(dst), nil
}

// codedChunks are textChunks of FSST codes.
type codedChunks struct {
	textChunks
	table []byte
}

func (c codedChunks) encoding() *lancepb.CompressiveEncoding {
	return fsstEncoding(c.table, c.bits)
}

func fsstEncoding(table []byte, bits int) *lancepb.CompressiveEncoding {
	return &lancepb.CompressiveEncoding{Compression: &lancepb.CompressiveEncoding_Fsst{
		Fsst: &lancepb.Fsst{SymbolTable: table, Values: variableEncoding(bits)},
	}}
}

// generalChunks compresses the first buffer of another form.
type generalChunks struct {
	chunkWriter
	c       compression
	scratch *[]byte
}

func (c generalChunks) encoding() *lancepb.CompressiveEncoding {
	return generalEncoding(c.c, c.chunkWriter.encoding())
}

func (c generalChunks) append(dst []byte, from, to int, sizes []uint32) ([]byte, error) {
	plain, err := c.chunkWriter.append((*c.scratch)[:0], from, to, sizes)
	if err != nil {
		return nil, err
	}
	*c.scratch = plain
	at := len(dst)
	first := int(sizes[0])
	if dst, err = compress.Append(dst, c.c.scheme, c.c.level, plain[:first]); err != nil {
		return nil, err
	}
	sizes[0] = uint32(len(dst) - at)
	return append(padTo8(dst), plain[pad8(first):]...), nil
}

// listChunks stores fixed-size lists: a bitmap of items per level that has null
// ones, then the innermost items.
type listChunks struct {
	v  *values
	at int
	f  listForm
}

func (c listChunks) encoding() *lancepb.CompressiveEncoding { return c.f.encoding() }
func (c listChunks) buffers() int                           { return 1 + c.f.validities() }
func (c listChunks) want(int) int                           { return fitting(c.f.rowBytes()) }
func (c listChunks) size(n int) int                         { return n * c.f.rowBytes() }

func (c listChunks) append(dst []byte, from, to int, sizes []uint32) ([]byte, error) {
	from, to = c.at+from, c.at+to
	v := c.v
	for i := range c.f.dims {
		from, to = from*v.dim, to*v.dim
		if c.f.validity[i] {
			bitmap := appendOnes(nil, 0, to-from)
			if v.valid != nil {
				bitmap = appendBits(nil, 0, v.valid, from, to)
			}
			sizes[0] = uint32(len(bitmap))
			sizes = sizes[1:]
			dst = padTo8(append(dst, bitmap...))
		}
		v = v.kid
	}
	at := len(dst)
	if v.kind == bitVector {
		dst = append(dst, appendBits(nil, 0, v.data, from, to)...)
	} else {
		dst = append(dst, v.data[from*v.width:to*v.width]...)
	}
	sizes[0] = uint32(len(dst) - at)
	return padTo8(dst), nil
}

// rowChunks stores packed structs of fixed width row by row.
type rowChunks struct {
	v  *values
	at int
}

func (c rowChunks) encoding() *lancepb.CompressiveEncoding { return c.v.packedEncoding() }
func (c rowChunks) buffers() int                           { return 1 }
func (c rowChunks) want(int) int                           { return fitting(c.v.rowBytes()) }
func (c rowChunks) size(n int) int                         { return n * c.v.rowBytes() }

func (c rowChunks) append(dst []byte, from, to int, sizes []uint32) ([]byte, error) {
	at := len(dst)
	for i := c.at + from; i < c.at+to; i++ {
		for _, k := range c.v.kids {
			dst = append(dst, k.bytesAt(i)...)
		}
	}
	sizes[0] = uint32(len(dst) - at)
	return padTo8(dst), nil
}

func (v *values) packedEncoding() *lancepb.CompressiveEncoding {
	m := &lancepb.PackedStruct{}
	total := 0
	for _, k := range v.kids {
		m.BitsPerValue = append(m.BitsPerValue, uint64(8*k.width))
		total += 8 * k.width
	}
	m.Values = flatEncoding(total)
	return &lancepb.CompressiveEncoding{Compression: &lancepb.CompressiveEncoding_PackedStruct{PackedStruct: m}}
}

// plainRows tells whether a packed struct has children of fixed width only, so
// that it can lie in chunks.
func (v *values) plainRows() bool {
	for _, k := range v.kids {
		if k.kind != fixedVector {
			return false
		}
	}
	return true
}

// rowBytes is the size of one value of fixed width: of a packed struct, or of a
// fixed-size list without its bitmaps.
func (v *values) rowBytes() int {
	switch v.kind {
	case structVector:
		n := 0
		for _, k := range v.kids {
			n += k.rowBytes()
		}
		return n
	case listVector:
		items, k := v.dim, v.kid
		for ; k.kind == listVector; k = k.kid {
			items *= k.dim
		}
		if k.kind == bitVector {
			return (items + 7) / 8
		}
		return items * k.width
	default:
		return v.width
	}
}

// listForm is how the fixed-size lists of one page are stored.
type listForm struct {
	fslPlan
}

// newListForm finds out which levels of the lists in [at, at+n) have null items.
func newListForm(v *values, at, n int) listForm {
	f := listForm{}
	from, to, cum := at, at+n, 1
	for ; v.kind == listVector; v = v.kid {
		from, to, cum = from*v.dim, to*v.dim, cum*v.dim
		f.dims, f.cum = append(f.dims, v.dim), append(f.cum, cum)
		f.validity = append(f.validity, v.valid != nil && countBits(v.valid, from, to) < to-from)
	}
	f.bits = 8 * v.width
	if v.kind == bitVector {
		f.bits = 1
	}
	return f
}

func (f listForm) encoding() *lancepb.CompressiveEncoding {
	ce := flatEncoding(f.bits)
	for i := len(f.dims) - 1; i >= 0; i-- {
		ce = &lancepb.CompressiveEncoding{Compression: &lancepb.CompressiveEncoding_FixedSizeList{
			FixedSizeList: &lancepb.FixedSizeList{ItemsPerValue: uint64(f.dims[i]), Values: ce, HasValidity: f.validity[i]},
		}}
	}
	return ce
}
