package encoding

import (
	"encoding/binary"
	"math"

	"github.com/flightblob/flightblob/encoding/internal/bitpack"
	"github.com/flightblob/flightblob/encoding/internal/compress"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/internal/lancepb"
)

// flat20 reads values of fixed width as Arrow stores them (sheet section 5.1).
type flat20 struct {
	buf    Extent
	bits   int
	scheme compress.Scheme // 0 = plain
	sel    []Range
	count  int
	parts  [][]byte // one per range; when compressed, the whole buffer
}

// schemeOf reads the compression of a flat buffer. Bitmaps are never
// compressed, whatever their description says.
func schemeOf(m *lancepb.Flat20) (compress.Scheme, error) {
	if m.GetBitsPerValue() == 1 {
		return 0, nil
	}
	switch s := m.GetCompression().GetScheme(); s {
	case "", "none":
		return 0, nil
	case "zstd":
		return compress.Zstd, nil
	case "lz4":
		return compress.LZ4, nil
	default:
		return 0, fault.New(fault.Unsupported, "encoding: unsupported 2.0 encoding: flat compressed with %.40q", s)
	}
}

// newFlat20 reads a selection of n values; n may be 0 when it is unknown.
func newFlat20(p *page20, m *lancepb.Flat20, n uint64, sel []Range, count int) (*flat20, error) {
	bits := m.GetBitsPerValue()
	if bits != 1 && (bits%8 != 0 || bits > maxValueBits) {
		return nil, fault.New(fault.Unsupported, "encoding: unsupported 2.0 encoding: flat values of %d bits", bits)
	}
	buf, err := p.buffer(m.GetBuffer())
	if err != nil {
		return nil, err
	}
	scheme, err := schemeOf(m)
	if err != nil {
		return nil, err
	}
	f := &flat20{buf: buf, bits: int(bits), scheme: scheme, sel: sel, count: count}
	if bits > 0 && scheme == 0 && n > bitsOf(buf)/bits {
		return nil, fault.Corruptf(int64(buf.Offset), "encoding: %d values of %d bits in a buffer of %d bytes", n, bits, buf.Size)
	}
	if count > maxVectorBytes/max(f.bits/8, 1) {
		return nil, tooLarge(int64(count) * int64(f.bits/8))
	}
	return f, nil
}

// bitsOf is the size of a buffer in bits, or as many as can be told.
func bitsOf(buf Extent) uint64 {
	if buf.Size > math.MaxUint64/8 {
		return math.MaxUint64
	}
	return 8 * buf.Size
}

// span is the bytes that hold a range of values.
func (f *flat20) span(s Range) (from, to uint64) {
	if f.bits == 1 {
		return s.Start / 8, (s.End + 7) / 8
	}
	w := uint64(f.bits / 8)
	return s.Start * w, s.End * w
}

func (f *flat20) want(q *queue20) error {
	if f.scheme != 0 {
		f.parts = make([][]byte, 1)
		return q.want(f.buf, 0, f.buf.Size, &f.parts[0])
	}
	f.parts = make([][]byte, len(f.sel))
	for i, s := range f.sel {
		from, to := f.span(s)
		if err := q.want(f.buf, from, to, &f.parts[i]); err != nil {
			return err
		}
	}
	return nil
}

func (f *flat20) more(*queue20) error { return nil }

func (f *flat20) take() (slots20, error) {
	if f.scheme != 0 {
		if err := f.inflate(); err != nil {
			return slots20{}, err
		}
	}
	b := &block{kind: fixedBlock, n: f.count, bits: f.bits}
	switch {
	case f.bits != 1:
		b.data = joinBytes(f.parts)
	case len(f.sel) == 1 && f.sel[0].Start%8 == 0:
		b.data = f.parts[0]
	default:
		at := 0
		for i, s := range f.sel {
			from := int(s.Start % 8)
			b.data = appendBits(b.data, at, f.parts[i], from, from+int(s.Len()))
			at += int(s.Len())
		}
	}
	return slots20{n: f.count, block: b}, nil
}

// inflate replaces the compressed buffer by the parts that the selection wants.
func (f *flat20) inflate() error {
	data, err := compress.Decompress(f.scheme, f.parts[0], maxVectorBytes)
	if err != nil {
		return fault.At(int64(f.buf.Offset), err)
	}
	f.parts = make([][]byte, len(f.sel))
	for i, s := range f.sel {
		if f.bits > 0 && s.End > uint64(len(data))*8/uint64(f.bits) {
			return fault.Corruptf(int64(f.buf.Offset), "encoding: compressed buffer of %d bytes has no value %d of %d bits", len(data), s.End-1, f.bits)
		}
		from, to := f.span(s)
		f.parts[i] = data[from:to]
	}
	return nil
}

// stream20 reads the plain bit stream of early writers (sheet section 5.9):
// value i is bits [i*c, i*c+c), least significant bit first.
type stream20 struct {
	buf        Extent
	from, bits int // width in the stream, width of a value
	signed     bool
	sel        []Range
	count      int
	parts      [][]byte
}

func newStream20(p *page20, m *lancepb.Bitpacked20, n uint64, sel []Range, count int) (*stream20, error) {
	buf, err := p.buffer(m.GetBuffer())
	if err != nil {
		return nil, err
	}
	c, u := m.GetCompressedBitsPerValue(), m.GetUncompressedBitsPerValue()
	if !wordBits(u) || c < 1 || c > u {
		return nil, fault.New(fault.Unsupported, "encoding: unsupported 2.0 encoding: bitpacked from %d to %d bits", u, c)
	}
	if n > bitsOf(buf)/c {
		return nil, fault.Corruptf(int64(buf.Offset), "encoding: %d values of %d bits in a buffer of %d bytes", n, c, buf.Size)
	}
	return &stream20{buf: buf, from: int(c), bits: int(u), signed: m.GetSigned(), sel: sel, count: count}, nil
}

func wordBits(bits uint64) bool { return bits == 8 || bits == 16 || bits == 32 || bits == 64 }

func (b *stream20) want(q *queue20) error {
	b.parts = make([][]byte, len(b.sel))
	c := uint64(b.from)
	for i, s := range b.sel {
		if s.End > bitsOf(b.buf)/c {
			return fault.Corruptf(int64(b.buf.Offset), "encoding: value %d of %d bits in a buffer of %d bytes", s.End, c, b.buf.Size)
		}
		if err := q.want(b.buf, s.Start*c/8, (s.End*c+7)/8, &b.parts[i]); err != nil {
			return err
		}
	}
	return nil
}

func (b *stream20) more(*queue20) error { return nil }

func (b *stream20) take() (slots20, error) {
	width := b.bits / 8
	out := make([]byte, 0, b.count*width)
	mask := ^uint64(0) >> (64 - b.from)
	for i, s := range b.sel {
		// Nine spare bytes let each value be read as one or two words.
		src := append(b.parts[i : i+1 : i+1][0], make([]byte, 9)...)
		bit := int(s.Start * uint64(b.from) % 8)
		for range s.Len() {
			at, shift := bit/8, uint(bit%8)
			v := binary.LittleEndian.Uint64(src[at:]) >> shift
			if shift > 0 {
				v |= uint64(src[at+8]) << (64 - shift)
			}
			v &= mask
			if b.signed && v>>(b.from-1) == 1 {
				v |= ^mask
			}
			for k := range width {
				out = append(out, byte(v>>(8*k)))
			}
			bit += b.from
		}
	}
	return slots20{n: b.count, block: &block{kind: fixedBlock, n: b.count, bits: b.bits, data: out}}, nil
}

// groups20 reads groups of 1024 transposed values (sheet section 5.10).
type groups20 struct {
	buf         Extent
	width, bits int
	sel         []Range
	count       int
	parts       [][]byte
}

func newGroups20(p *page20, m *lancepb.BitpackedForNonNeg20, n uint64, sel []Range, count int) (*groups20, error) {
	buf, err := p.buffer(m.GetBuffer())
	if err != nil {
		return nil, err
	}
	c, u := m.GetCompressedBitsPerValue(), m.GetUncompressedBitsPerValue()
	if !wordBits(u) || c > u {
		return nil, fault.New(fault.Unsupported, "encoding: unsupported 2.0 encoding: bitpacked_for_non_neg from %d to %d bits", u, c)
	}
	g := &groups20{buf: buf, width: int(c), bits: int(u), sel: sel, count: count}
	if c > 0 && (n+bitpack.GroupSize-1)/bitpack.GroupSize > buf.Size/g.size() {
		return nil, fault.Corruptf(int64(buf.Offset), "encoding: %d values packed to %d bits in a buffer of %d bytes", n, c, buf.Size)
	}
	return g, nil
}

func (g *groups20) size() uint64 { return uint64(bitpack.PackedSize(g.width)) }

func (g *groups20) want(q *queue20) error {
	g.parts = make([][]byte, len(g.sel))
	for i, s := range g.sel {
		first, end := s.Start/bitpack.GroupSize, (s.End+bitpack.GroupSize-1)/bitpack.GroupSize
		if g.width > 0 && end > g.buf.Size/g.size() {
			return fault.Corruptf(int64(g.buf.Offset), "encoding: group %d in a buffer of %d bytes", end-1, g.buf.Size)
		}
		if err := q.want(g.buf, first*g.size(), end*g.size(), &g.parts[i]); err != nil {
			return err
		}
	}
	return nil
}

func (g *groups20) more(*queue20) error { return nil }

func (g *groups20) take() (slots20, error) {
	word := g.bits / 8
	out := make([]byte, 0, g.count*word)
	group := make([]byte, bitpack.GroupSize*word)
	for i, s := range g.sel {
		src := g.parts[i]
		for at := s.Start; at < s.End; {
			if err := bitpack.UnpackBytes(group, src[:g.size()], g.bits, g.width); err != nil {
				return slots20{}, fault.At(int64(g.buf.Offset), err)
			}
			src = src[g.size():]
			from := at % bitpack.GroupSize
			to := min(from+s.End-at, bitpack.GroupSize)
			out = append(out, group[int(from)*word:int(to)*word]...)
			at += to - from
		}
	}
	return slots20{n: g.count, block: &block{kind: fixedBlock, n: g.count, bits: g.bits, data: out}}, nil
}

// numbers reads slots as unsigned integers; they must be plain and not null.
func (s slots20) numbers() ([]uint64, error) {
	b := s.block
	if s.idx != nil || s.valid != nil || b.kind != fixedBlock || !wordBits(uint64(b.bits)) {
		return nil, fault.New(fault.Unsupported, "encoding: unsupported 2.0 encoding: offsets or indices stored as %s", b.describe())
	}
	out := make([]uint64, s.n)
	switch b.bits {
	case 8:
		for i := range out {
			out[i] = uint64(b.data[i])
		}
	case 16:
		for i := range out {
			out[i] = uint64(binary.LittleEndian.Uint16(b.data[2*i:]))
		}
	case 32:
		for i := range out {
			out[i] = uint64(binary.LittleEndian.Uint32(b.data[4*i:]))
		}
	default:
		for i := range out {
			out[i] = binary.LittleEndian.Uint64(b.data[8*i:])
		}
	}
	return out, nil
}
