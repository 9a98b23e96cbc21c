package encoding

import (
	"encoding/binary"

	"github.com/flightblob/flightblob/encoding/internal/bitpack"
	"github.com/flightblob/flightblob/encoding/internal/bss"
	"github.com/flightblob/flightblob/encoding/internal/fsst"
	"github.com/flightblob/flightblob/encoding/internal/rle"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/internal/lancepb"
)

// chunkCodec decodes the value buffers of mini-block chunks of one page (sheet
// section 6.1). A decoded block borrows the codec's scratch memory: it is valid
// until the next call. One goroutine at a time.
type chunkCodec struct {
	ce      *lancepb.CompressiveEncoding
	inner   *chunkCodec // of fsst and general
	fsst    *fsst.Decoder
	fsl     *fslPlan
	scratch []byte
	offs    []int64
}

func newChunkCodec(ce *lancepb.CompressiveEncoding, depth int) (*chunkCodec, error) {
	if depth > maxNesting {
		return nil, fault.Corruptf(-1, "encoding: encodings nested deeper than %d", maxNesting)
	}
	c := &chunkCodec{ce: ce}
	var err error
	switch k := ce.GetCompression().(type) {
	case *lancepb.CompressiveEncoding_Fsst:
		if c.fsst, err = fsst.Parse(k.Fsst.GetSymbolTable()); err == nil {
			c.inner, err = newChunkCodec(k.Fsst.GetValues(), depth+1)
		}
	case *lancepb.CompressiveEncoding_General:
		c.inner, err = newChunkCodec(k.General.GetValues(), depth+1)
	case *lancepb.CompressiveEncoding_FixedSizeList:
		c.fsl, err = newFSLPlan(k.FixedSizeList)
	case *lancepb.CompressiveEncoding_Flat, *lancepb.CompressiveEncoding_InlineBitpacking,
		*lancepb.CompressiveEncoding_Variable, *lancepb.CompressiveEncoding_Rle,
		*lancepb.CompressiveEncoding_ByteStreamSplit, *lancepb.CompressiveEncoding_PackedStruct:
	default:
		err = unsupported("mini-block", ce)
	}
	return c, err
}

// buffers is the number of value buffers that each chunk has.
func (c *chunkCodec) buffers() int {
	switch {
	case c.inner != nil:
		return c.inner.buffers()
	case c.ce.GetRle() != nil:
		return 2
	case c.ce.GetVariable() != nil:
		if off := c.ce.GetVariable().GetOffsets(); off.GetFlat() == nil && needsPayload(off) {
			return 2
		}
		return 1
	case c.fsl != nil:
		return 1 + c.fsl.validities()
	default:
		return 1
	}
}

func (c *chunkCodec) grow(n int) []byte {
	if cap(c.scratch) < n {
		c.scratch = make([]byte, n)
	}
	return c.scratch[:n]
}

// codes is decode, but leaves FSST codes as they are when raw is set, so that
// they are expanded into their destination and only where wanted.
func (c *chunkCodec) codes(bufs [][]byte, n int, raw bool) (*block, error) {
	if c.fsst != nil && raw {
		return c.inner.decode(bufs, n)
	}
	return c.decode(bufs, n)
}

// decode decodes a chunk of n values; len(bufs) is buffers().
func (c *chunkCodec) decode(bufs [][]byte, n int) (*block, error) {
	switch k := c.ce.GetCompression().(type) {
	case *lancepb.CompressiveEncoding_Flat:
		if k.Flat.GetData() != nil {
			return nil, fault.New(fault.Unsupported, "encoding: compressed flat buffer")
		}
		return newFixed(bufs[0], clampBits(k.Flat.GetBitsPerValue()), n)
	case *lancepb.CompressiveEncoding_InlineBitpacking:
		bits := k.InlineBitpacking.GetUncompressedBitsPerValue()
		if err := checkWord(bits); err != nil {
			return nil, err
		}
		if n > bitpack.GroupSize {
			return nil, fault.Corruptf(-1, "encoding: %d values in one inline bitpacked group", n)
		}
		dst := c.grow(bitpack.GroupSize * int(bits) / 8)
		if err := bitpack.UnpackInline(dst, bufs[0], n, int(bits)); err != nil {
			return nil, err
		}
		return newFixed(dst[:n*int(bits)/8], int(bits), n)
	case *lancepb.CompressiveEncoding_Variable:
		return c.variable(k.Variable, bufs, n)
	case *lancepb.CompressiveEncoding_Fsst:
		b, err := c.inner.decode(bufs, n)
		if err != nil {
			return nil, err
		}
		return c.expand(b)
	case *lancepb.CompressiveEncoding_Rle:
		s, err := c.runs(k.Rle, bufs, n)
		if err != nil {
			return nil, err
		}
		return newFixed(s.data, s.bits, n)
	case *lancepb.CompressiveEncoding_ByteStreamSplit:
		bits := k.ByteStreamSplit.GetValues().GetFlat().GetBitsPerValue()
		if bits != 32 && bits != 64 {
			return nil, fault.Corruptf(-1, "encoding: byte stream split of %d bits", bits)
		}
		if len(bufs[0]) != n*int(bits/8) {
			return nil, fault.Corruptf(-1, "encoding: byte stream split of %d values in %d bytes", n, len(bufs[0]))
		}
		dst := c.grow(len(bufs[0]))
		if err := bss.Join(dst, bufs[0], n, int(bits/8)); err != nil {
			return nil, err
		}
		return newFixed(dst, int(bits), n)
	case *lancepb.CompressiveEncoding_General:
		raw, err := decompress(k.General, bufs[0])
		if err != nil {
			return nil, err
		}
		return c.inner.decode(append([][]byte{raw}, bufs[1:]...), n)
	case *lancepb.CompressiveEncoding_FixedSizeList:
		return c.fsl.chunk(bufs, n)
	case *lancepb.CompressiveEncoding_PackedStruct:
		return packedRows(k.PackedStruct, bufs[0], n)
	default:
		return nil, unsupported("mini-block", c.ce)
	}
}

func clampBits(bits uint64) int {
	if bits > maxValueBits {
		return -1
	}
	return int(bits)
}

// runs expands run lengths, reusing the scratch for the plain 2.2 form.
func (c *chunkCodec) runs(m *lancepb.Rle, bufs [][]byte, n int) (sequence, error) {
	vf, lf := m.GetValues().GetFlat(), m.GetRunLengths().GetFlat()
	if vf == nil || lf == nil {
		return rleSequence(m, bufs[0], bufs[1], n, rle.Cut, 0)
	}
	bits := clampBits(vf.GetBitsPerValue())
	if bits <= 0 || bits%8 != 0 || n > maxVectorBytes/(bits/8) {
		return sequence{}, fault.Corruptf(-1, "encoding: runs of %d-bit values", bits)
	}
	dst := c.grow(n * bits / 8)
	err := rle.Expand(dst, bufs[0], bits/8, bufs[1], int(lf.GetBitsPerValue()/8), n, rle.Cut)
	return sequence{dst, bits, n}, err
}

// variable decodes strings of a chunk: flat offsets count from the start of
// the chunk's buffer, other ones (2.3) from the start of the bytes.
func (c *chunkCodec) variable(m *lancepb.Variable, bufs [][]byte, n int) (*block, error) {
	if m.GetValues() != nil {
		return nil, fault.New(fault.Unsupported, "encoding: compressed bytes of a variable chunk")
	}
	off := m.GetOffsets()
	if f := off.GetFlat(); f != nil {
		buf, width := bufs[0], int(f.GetBitsPerValue()/8)
		if width != 4 && width != 8 {
			return nil, fault.Corruptf(-1, "encoding: offsets of %d bits", f.GetBitsPerValue())
		}
		if n >= maxSequence || (n+1)*width > len(buf) {
			return nil, fault.Corruptf(-1, "encoding: %d offsets of %d bytes in a chunk of %d", n+1, width, len(buf))
		}
		offs, err := c.offsets(sequence{buf[:(n+1)*width], width * 8, n + 1})
		if err != nil {
			return nil, err
		}
		if offs[0] != int64((n+1)*width) {
			return nil, fault.Corruptf(-1, "encoding: the first value of a chunk starts at %d, not %d", offs[0], (n+1)*width)
		}
		return newVar(buf, offs)
	}
	var payload []byte
	if needsPayload(off) {
		payload, bufs = bufs[0], bufs[1:]
	}
	s, err := decodeSequence(off, payload, n+1)
	if err != nil {
		return nil, err
	}
	offs, err := c.offsets(s)
	if err != nil {
		return nil, err
	}
	if offs[0] != 0 || offs[n] != int64(len(bufs[0])) {
		return nil, fault.Corruptf(-1, "encoding: offsets from %d to %d over %d bytes", offs[0], offs[n], len(bufs[0]))
	}
	return newVar(bufs[0], offs)
}

func (c *chunkCodec) offsets(s sequence) ([]int64, error) {
	if cap(c.offs) < s.n {
		c.offs = make([]int64, s.n)
	}
	offs := c.offs[:s.n]
	switch s.bits {
	case 32:
		for i := range offs {
			offs[i] = int64(binary.LittleEndian.Uint32(s.data[4*i:]))
		}
	case 64:
		for i := range offs {
			offs[i] = int64(binary.LittleEndian.Uint64(s.data[8*i:]))
		}
	default:
		return nil, fault.Corruptf(-1, "encoding: offsets of %d bits", s.bits)
	}
	return offs, nil
}

// expand decodes FSST codes value by value.
func (c *chunkCodec) expand(b *block) (*block, error) {
	return expandFSST(c.fsst, b, &c.scratch)
}

func expandFSST(d *fsst.Decoder, b *block, scratch *[]byte) (*block, error) {
	if b.kind != varBlock {
		return nil, fault.Corruptf(-1, "encoding: fsst over %s", b.describe())
	}
	out := (*scratch)[:0]
	offs := make([]int64, b.n+1)
	for i := range b.n {
		var err error
		if out, err = d.AppendDecoded(out, b.value(i)); err != nil {
			return nil, err
		}
		offs[i+1] = int64(len(out))
	}
	*scratch = out
	return &block{kind: varBlock, n: b.n, data: out, offs: offs}, nil
}

// packedRows splits row-major fixed rows into one block per child.
func packedRows(m *lancepb.PackedStruct, data []byte, n int) (*block, error) {
	row := 0
	for _, bits := range m.GetBitsPerValue() {
		if bits == 0 || bits%8 != 0 || bits > maxValueBits {
			return nil, fault.Corruptf(-1, "encoding: packed child of %d bits", bits)
		}
		row += int(bits / 8)
	}
	if row > maxValueBits || n > maxVectorBytes/max(row, 1) || len(data) != n*row {
		return nil, fault.Corruptf(-1, "encoding: %d packed rows of %d bytes in %d", n, row, len(data))
	}
	out := &block{kind: structBlock, n: n}
	at := 0
	for _, bits := range m.GetBitsPerValue() {
		w := int(bits / 8)
		kid := &block{kind: fixedBlock, n: n, bits: int(bits), data: make([]byte, n*w)}
		for i := range n {
			copy(kid.data[i*w:(i+1)*w], data[i*row+at:])
		}
		out.kids = append(out.kids, kid)
		at += w
	}
	return out, nil
}
