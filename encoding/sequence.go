package encoding

import (
	"encoding/binary"

	"github.com/flightblob/flightblob/encoding/internal/bitpack"
	"github.com/flightblob/flightblob/encoding/internal/compress"
	"github.com/flightblob/flightblob/encoding/internal/rle"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/internal/lancepb"
)

// maxSequence bounds the values of one block, so that codecs that need no
// payload (constant, range, runs) cannot ask for memory that no file backs.
const maxSequence = 1 << 27

// maxUnbacked is how many values may be made of next to no bytes: more of them
// need a byte for each group of 1024 at least.
const maxUnbacked = 1 << 25

// sequence is a block of fixed-width values at block position (sheet sections
// 6.2 and 6.3): levels, offsets, positions, counts, indices.
type sequence struct {
	data []byte // n little-endian words
	bits int
	n    int
}

// at reads word i, zero-extended.
func (s sequence) at(i int) uint64 {
	switch s.bits {
	case 8:
		return uint64(s.data[i])
	case 16:
		return uint64(binary.LittleEndian.Uint16(s.data[2*i:]))
	case 32:
		return uint64(binary.LittleEndian.Uint32(s.data[4*i:]))
	default:
		return binary.LittleEndian.Uint64(s.data[8*i:])
	}
}

// indices appends words [from, to) as dictionary indices; larger ones than any
// dictionary can hold become strayIndex.
func (s sequence) indices(dst []uint32, from, to int) []uint32 {
	at := len(dst)
	dst = growTo(dst, at+to-from)
	out := dst[at:]
	switch s.bits {
	case 8:
		for i, b := range s.data[from:to] {
			out[i] = uint32(b)
		}
	case 16:
		raw := s.data[2*from : 2*to]
		for i := range out {
			out[i] = uint32(binary.LittleEndian.Uint16(raw[2*i:]))
		}
	case 32:
		raw := s.data[4*from : 4*to]
		for i := range out {
			out[i] = binary.LittleEndian.Uint32(raw[4*i:])
		}
	default:
		for i := range out {
			out[i] = uint32(min(s.at(from+i), uint64(strayIndex)))
		}
	}
	return dst
}

// u16s narrows a level sequence; the codec's width must be 16 bits.
func (s sequence) u16s() ([]uint16, error) {
	if s.bits != 16 {
		return nil, fault.Corruptf(-1, "encoding: levels of %d bits, expected 16", s.bits)
	}
	out := make([]uint16, s.n)
	for i := range out {
		out[i] = binary.LittleEndian.Uint16(s.data[2*i:])
	}
	return out, nil
}

func checkWord(bits uint64) error {
	switch bits {
	case 8, 16, 32, 64:
		return nil
	}
	return fault.Corruptf(-1, "encoding: words of %d bits, allowed are 8, 16, 32, 64", bits)
}

// needsPayload reports whether a sequence codec owns bytes of its own.
func needsPayload(ce *lancepb.CompressiveEncoding) bool {
	switch {
	case ce.GetConstant() != nil, ce.GetRange() != nil:
		return false
	case ce.GetDelta() != nil:
		return needsPayload(ce.GetDelta().GetDeltas())
	case ce.GetRle() != nil:
		return needsPayload(ce.GetRle().GetValues()) || needsPayload(ce.GetRle().GetRunLengths())
	case ce.GetDictionary() != nil:
		return needsPayload(ce.GetDictionary().GetIndices()) || needsPayload(ce.GetDictionary().GetItems())
	default:
		return true
	}
}

// decodeChild decodes a part of a composite codec, which is none itself (sheet
// section 6.3).
func decodeChild(ce *lancepb.CompressiveEncoding, buf []byte, n, depth int) (sequence, error) {
	inner := ce
	if g := ce.GetGeneral(); g != nil {
		inner = g.GetValues()
	}
	switch inner.GetCompression().(type) {
	case *lancepb.CompressiveEncoding_Delta, *lancepb.CompressiveEncoding_Rle,
		*lancepb.CompressiveEncoding_Dictionary, *lancepb.CompressiveEncoding_General:
		return sequence{}, unsupported("composite's", inner)
	}
	return decodeSequenceAt(ce, buf, n, depth)
}

// decodeSequence decodes n words from buf (nil for codecs without payload).
func decodeSequence(ce *lancepb.CompressiveEncoding, buf []byte, n int) (sequence, error) {
	return decodeSequenceAt(ce, buf, n, 0)
}

// maxNesting bounds encodings inside encodings.
const maxNesting = 16

func decodeSequenceAt(ce *lancepb.CompressiveEncoding, buf []byte, n, depth int) (sequence, error) {
	if n < 0 || n > maxSequence {
		return sequence{}, fault.Corruptf(-1, "encoding: a block of %d values", n)
	}
	if depth > maxNesting {
		return sequence{}, fault.Corruptf(-1, "encoding: encodings nested deeper than %d", maxNesting)
	}
	if n > maxUnbacked && n/bitpack.GroupSize > len(buf) {
		return sequence{}, fault.Corruptf(-1, "encoding: a block of %d values in %d bytes", n, len(buf))
	}
	switch c := ce.GetCompression().(type) {
	case *lancepb.CompressiveEncoding_Flat:
		if err := checkWord(c.Flat.GetBitsPerValue()); err != nil {
			return sequence{}, err
		}
		if c.Flat.GetData() != nil {
			return sequence{}, fault.New(fault.Unsupported, "encoding: compressed flat buffer")
		}
		bits := int(c.Flat.GetBitsPerValue())
		if len(buf) != n*bits/8 {
			return sequence{}, fault.Corruptf(-1, "encoding: %d words of %d bits in %d bytes", n, bits, len(buf))
		}
		return sequence{buf, bits, n}, nil
	case *lancepb.CompressiveEncoding_Constant:
		return constantSequence(c.Constant, n)
	case *lancepb.CompressiveEncoding_Range:
		return rangeSequence(c.Range, n)
	case *lancepb.CompressiveEncoding_Delta:
		return deltaSequence(c.Delta, buf, n, depth)
	case *lancepb.CompressiveEncoding_InlineBitpacking:
		bits := c.InlineBitpacking.GetUncompressedBitsPerValue()
		if err := checkWord(bits); err != nil {
			return sequence{}, err
		}
		if n > bitpack.GroupSize {
			return sequence{}, fault.Corruptf(-1, "encoding: %d values in one inline bitpacked group", n)
		}
		dst := make([]byte, bitpack.GroupSize*int(bits)/8)
		if err := bitpack.UnpackInline(dst, buf, n, int(bits)); err != nil {
			return sequence{}, err
		}
		return sequence{dst[:n*int(bits)/8], int(bits), n}, nil
	case *lancepb.CompressiveEncoding_OutOfLineBitpacking:
		bits, width, err := outOfLineWidths(c.OutOfLineBitpacking)
		if err != nil {
			return sequence{}, err
		}
		dst := make([]byte, n*bits/8)
		if err := bitpack.UnpackOutOfLine(dst, buf, n, bits, width); err != nil {
			return sequence{}, err
		}
		return sequence{dst, bits, n}, nil
	case *lancepb.CompressiveEncoding_General:
		raw, err := decompress(c.General, buf)
		if err != nil {
			return sequence{}, err
		}
		return decodeSequenceAt(c.General.GetValues(), raw, n, depth+1)
	case *lancepb.CompressiveEncoding_Rle:
		var vb, lb []byte
		if needsPayload(ce) {
			var err error
			if vb, lb, err = splitFirst(buf); err != nil {
				return sequence{}, err
			}
		}
		return rleSequence(c.Rle, vb, lb, n, rle.Exact, depth)
	case *lancepb.CompressiveEncoding_Dictionary:
		return dictionarySequence(c.Dictionary, buf, n, depth)
	default:
		return sequence{}, unsupported("block", ce)
	}
}

func unsupported(place string, ce *lancepb.CompressiveEncoding) error {
	return fault.New(fault.Unsupported, "encoding: %s encoding %T", place, ce.GetCompression())
}

// maxDecompressed bounds one decompressed buffer.
const maxDecompressed = 1 << 30

func decompress(g *lancepb.General, buf []byte) ([]byte, error) {
	switch g.GetCompression().GetScheme() {
	case lancepb.BufferCompression_LZ4:
		return compress.Decompress(compress.LZ4, buf, maxDecompressed)
	case lancepb.BufferCompression_ZSTD:
		return compress.Decompress(compress.Zstd, buf, maxDecompressed)
	default:
		return nil, fault.New(fault.Unsupported, "encoding: compression scheme %d", g.GetCompression().GetScheme())
	}
}

func outOfLineWidths(m *lancepb.OutOfLineBitpacking) (bits, width int, err error) {
	if err := checkWord(m.GetUncompressedBitsPerValue()); err != nil {
		return 0, 0, err
	}
	flat := m.GetValues().GetFlat()
	if flat == nil || flat.GetBitsPerValue() > m.GetUncompressedBitsPerValue() {
		return 0, 0, fault.Corruptf(-1, "encoding: out-of-line bitpacking without a packed width")
	}
	return int(m.GetUncompressedBitsPerValue()), int(flat.GetBitsPerValue()), nil
}

func constantSequence(c *lancepb.Constant, n int) (sequence, error) {
	if c.Value == nil {
		if n != 0 {
			return sequence{}, fault.Corruptf(-1, "encoding: a constant without value for %d values", n)
		}
		return sequence{nil, 64, 0}, nil
	}
	bits := 8 * len(c.Value)
	if err := checkWord(uint64(bits)); err != nil {
		return sequence{}, err
	}
	data := make([]byte, n*len(c.Value))
	fill(data, c.Value)
	return sequence{data, bits, n}, nil
}

func rangeSequence(r *lancepb.RangeSequence, n int) (sequence, error) {
	if err := checkWord(r.GetUncompressedBitsPerValue()); err != nil {
		return sequence{}, err
	}
	s := newSequence(int(r.GetUncompressedBitsPerValue()), n)
	v := r.GetStart()
	for i := range n {
		s.put(i, v)
		v += r.GetStep()
	}
	return s, nil
}

func deltaSequence(d *lancepb.Delta, buf []byte, n, depth int) (sequence, error) {
	if err := checkWord(d.GetUncompressedBitsPerValue()); err != nil {
		return sequence{}, err
	}
	if n == 0 {
		return sequence{}, fault.Corruptf(-1, "encoding: delta of no values")
	}
	deltas, err := decodeChild(d.GetDeltas(), buf, n-1, depth+1)
	if err != nil {
		return sequence{}, err
	}
	s := newSequence(int(d.GetUncompressedBitsPerValue()), n)
	v := d.GetBase()
	s.put(0, v)
	for i := range n - 1 {
		v += deltas.at(i)
		s.put(i+1, v)
	}
	return s, nil
}

func newSequence(bits, n int) sequence { return sequence{make([]byte, n*bits/8), bits, n} }

func (s sequence) put(i int, v uint64) {
	switch s.bits {
	case 8:
		s.data[i] = byte(v)
	case 16:
		binary.LittleEndian.PutUint16(s.data[2*i:], uint16(v))
	case 32:
		binary.LittleEndian.PutUint32(s.data[4*i:], uint32(v))
	default:
		binary.LittleEndian.PutUint64(s.data[8*i:], v)
	}
}

// splitFirst cuts a framed payload: u64 length of the first part, the parts.
func splitFirst(buf []byte) (first, rest []byte, err error) {
	if len(buf) < 8 {
		return nil, nil, fault.Corruptf(-1, "encoding: framed block of %d bytes", len(buf))
	}
	n := binary.LittleEndian.Uint64(buf)
	if n > uint64(len(buf)-8) {
		return nil, nil, fault.Corruptf(-1, "encoding: framed part of %d bytes in %d", n, len(buf)-8)
	}
	return buf[8 : 8+n], buf[8+n:], nil
}

// rleSequence expands runs. Either child may be any simple codec; the run
// count comes from the child whose size tells it.
func rleSequence(m *lancepb.Rle, vb, lb []byte, n int, mode rle.Mode, depth int) (sequence, error) {
	runs, err := runCount(m, vb, lb, n, depth)
	if err != nil {
		return sequence{}, err
	}
	values, err := decodeChild(m.GetValues(), vb, runs, depth+1)
	if err != nil {
		return sequence{}, err
	}
	lengths, err := decodeChild(m.GetRunLengths(), lb, runs, depth+1)
	if err != nil {
		return sequence{}, err
	}
	if lengths.bits == 64 {
		return sequence{}, fault.Corruptf(-1, "encoding: run lengths of 64 bits")
	}
	out := newSequence(values.bits, n)
	if err := rle.Expand(out.data, values.data, values.bits/8, lengths.data, lengths.bits/8, n, mode); err != nil {
		return sequence{}, err
	}
	return out, nil
}

func runCount(m *lancepb.Rle, vb, lb []byte, n, depth int) (int, error) {
	if r := m.GetRunLengths().GetConstant(); r != nil {
		step, err := constantSequence(r, 1)
		if err != nil {
			return 0, err
		}
		if step.at(0) == 0 || uint64(n)%step.at(0) != 0 {
			return 0, fault.Corruptf(-1, "encoding: runs of %d over %d values", step.at(0), n)
		}
		return n / int(step.at(0)), nil
	}
	if r := m.GetRunLengths().GetRange(); r != nil {
		total, runs, length := uint64(0), 0, r.GetStart()
		for total < uint64(n) {
			if length == 0 && r.GetStep() == 0 {
				return 0, fault.Corruptf(-1, "encoding: runs of length 0")
			}
			if runs > n+1 {
				return 0, fault.Corruptf(-1, "encoding: more runs than values")
			}
			total += length
			length += r.GetStep()
			runs++
		}
		return runs, nil
	}
	for _, child := range []struct {
		ce  *lancepb.CompressiveEncoding
		buf []byte
	}{{m.GetValues(), vb}, {m.GetRunLengths(), lb}} {
		ce, size := child.ce, len(child.buf)
		if g := ce.GetGeneral(); g != nil && g.GetValues().GetFlat() != nil {
			raw, err := decompress(g, child.buf)
			if err != nil {
				return 0, err
			}
			ce, size = g.GetValues(), len(raw)
		}
		if f := ce.GetFlat(); f != nil {
			if err := checkWord(f.GetBitsPerValue()); err != nil {
				return 0, err
			}
			return size / int(f.GetBitsPerValue()/8), nil
		}
	}
	return 0, fault.New(fault.Unsupported, "encoding: runs whose number nothing tells")
}

func dictionarySequence(m *lancepb.Dictionary, buf []byte, n, depth int) (sequence, error) {
	var ib, vb []byte
	if needsPayload(m.GetIndices()) || needsPayload(m.GetItems()) {
		if len(buf) < 16 {
			return sequence{}, fault.Corruptf(-1, "encoding: dictionary block of %d bytes", len(buf))
		}
		a, b := binary.LittleEndian.Uint64(buf), binary.LittleEndian.Uint64(buf[8:])
		rest := uint64(len(buf) - 16)
		if a > rest || b != rest-a {
			return sequence{}, fault.Corruptf(-1, "encoding: dictionary parts of %d and %d bytes in %d", a, b, rest)
		}
		ib, vb = buf[16:16+a], buf[16+a:]
	}
	idx, err := decodeChild(m.GetIndices(), ib, n, depth+1)
	if err != nil {
		return sequence{}, err
	}
	items, err := decodeChild(m.GetItems(), vb, int(m.GetNumDictionaryItems()), depth+1)
	if err != nil {
		return sequence{}, err
	}
	out := newSequence(items.bits, n)
	for i := range n {
		k := idx.at(i)
		if k >= uint64(items.n) {
			return sequence{}, fault.Corruptf(-1, "encoding: dictionary index %d of %d items", k, items.n)
		}
		out.put(i, items.at(int(k)))
	}
	return out, nil
}

// decodeLevels decodes repetition or definition levels.
func decodeLevels(ce *lancepb.CompressiveEncoding, buf []byte, n int) ([]uint16, error) {
	s, err := levelSequence(ce, buf, n)
	if err != nil {
		return nil, err
	}
	return s.u16s()
}

// levelSequence gives levels as they were packed. The recorded count of a chunk
// may have wrapped modulo 65536 when the codec is run lengths; the sum of the
// runs counts then (sheet section 4.6).
func levelSequence(ce *lancepb.CompressiveEncoding, buf []byte, n int) (sequence, error) {
	if r := ce.GetRle(); r != nil && r.GetRunLengths().GetFlat() != nil {
		_, lb, err := splitFirst(buf)
		if err != nil {
			return sequence{}, err
		}
		width := int(r.GetRunLengths().GetFlat().GetBitsPerValue() / 8)
		total, err := rle.Total(lb, width)
		if err != nil {
			return sequence{}, err
		}
		if total > uint64(n) && total <= maxSequence && total%65536 == uint64(n) {
			n = int(total)
		}
	}
	return decodeSequence(ce, buf, n)
}
