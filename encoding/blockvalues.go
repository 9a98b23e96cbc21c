package encoding

import (
	"encoding/binary"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/internal/lancepb"
)

// blockValues decodes the items of a page dictionary: n values at block
// position (sheet section 6.2). The block aliases buf where it can.
func blockValues(ce *lancepb.CompressiveEncoding, buf []byte, n, depth int) (*block, error) {
	if depth > maxNesting {
		return nil, fault.Corruptf(-1, "encoding: encodings nested deeper than %d", maxNesting)
	}
	switch c := ce.GetCompression().(type) {
	case *lancepb.CompressiveEncoding_Variable:
		return variableBlock(c.Variable, buf, n)
	case *lancepb.CompressiveEncoding_Flat:
		return newFixed(buf, clampBits(c.Flat.GetBitsPerValue()), n)
	case *lancepb.CompressiveEncoding_General:
		raw, err := decompress(c.General, buf)
		if err != nil {
			return nil, err
		}
		return blockValues(c.General.GetValues(), raw, n, depth+1)
	case *lancepb.CompressiveEncoding_FixedSizeList:
		p, err := newFSLPlan(c.FixedSizeList)
		if err != nil {
			return nil, err
		}
		return p.rows(buf, n)
	default:
		s, err := decodeSequenceAt(ce, buf, n, depth)
		if err != nil {
			return nil, err
		}
		return newFixed(s.data, s.bits, n)
	}
}

// variableBlock decodes
//
//	u32 32 | u32 start | (n+1) × u32 offset | bytes
//	u64 64 | u64 start | (n+1) × u64 offset | bytes
//	u8 32|64 | count | start | …            (an old form, told by bytes 1 to 3)
func variableBlock(m *lancepb.Variable, buf []byte, n int) (*block, error) {
	if m.GetValues() != nil {
		return nil, fault.New(fault.Unsupported, "encoding: compressed bytes of a variable block")
	}
	if len(buf) < 8 {
		return nil, fault.Corruptf(-1, "encoding: variable block of %d bytes", len(buf))
	}
	width := int(buf[0]) / 8
	if width != 4 && width != 8 {
		return nil, fault.Corruptf(-1, "encoding: variable block with offsets of %d bits", buf[0])
	}
	word := func(at int) uint64 {
		if width == 4 {
			return uint64(binary.LittleEndian.Uint32(buf[at:]))
		}
		return binary.LittleEndian.Uint64(buf[at:])
	}
	head := width
	if buf[1]|buf[2]|buf[3] != 0 {
		if len(buf) < 1+2*width || word(1) != uint64(n) {
			return nil, fault.Corruptf(-1, "encoding: variable block does not hold %d values", n)
		}
		head = 1 + width
	}
	if len(buf) < head+width || n >= maxSequence {
		return nil, fault.Corruptf(-1, "encoding: variable block of %d bytes", len(buf))
	}
	start, offs := word(head), head+width
	if start > uint64(len(buf)) || start != uint64(offs+(n+1)*width) {
		return nil, fault.Corruptf(-1, "encoding: bytes of a variable block start at %d, expected %d", start, offs+(n+1)*width)
	}
	out := make([]int64, n+1)
	for i := range out {
		out[i] = int64(word(offs + i*width))
	}
	return newVar(buf[start:], out)
}
