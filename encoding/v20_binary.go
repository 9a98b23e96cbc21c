package encoding

import (
	"math"

	"github.com/flightblob/flightblob/encoding/internal/fsst"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/internal/lancepb"
)

// ends20 reads the end offsets of strings and lists. There is no leading zero,
// nulls are told by an adjustment A added to the end:
//
//	e(i) = off[i] < A ? off[i] : off[i] - A      valid(i) = off[i] < A
//
// A null slot may own bytes or items, so a slot starts where the one before it
// ends, null or not.
type ends20 struct {
	offsets array20
	adjust  uint64
	sel     []Range

	starts []uint64 // per range of sel: where its first slot starts
	ends   []uint64 // per slot
	valid  []byte   // nil = all valid
	nulls  int
}

func newEnds20(p *page20, enc *lancepb.ArrayEncoding20, n uint64, sel []Range, adjust uint64) (*ends20, error) {
	// One more offset before each range tells where it starts.
	wider := make([]Range, len(sel))
	for i, s := range sel {
		wider[i] = Range{max(s.Start, 1) - 1, s.End}
	}
	count, err := countSlots(wider)
	if err != nil {
		return nil, err
	}
	offsets, err := newPlain20(p, "offsets", enc, n, wider, count)
	if err != nil {
		return nil, err
	}
	return &ends20{offsets: offsets, adjust: adjust, sel: sel}, nil
}

// resolve makes starts, ends and valid from fetched offsets.
func (e *ends20) resolve() error {
	s, err := e.offsets.take()
	if err != nil {
		return err
	}
	raw, err := s.numbers()
	if err != nil {
		return err
	}
	e.starts = make([]uint64, len(e.sel))
	// Ends replace offsets in place: there are at most as many.
	ends, at := raw, 0
	var valid []byte
	for i, s := range e.sel {
		var last uint64
		if s.Start > 0 {
			if last = raw[0]; last >= e.adjust {
				last -= e.adjust
			}
			raw = raw[1:]
		}
		e.starts[i] = last
		for k, end := range raw[:s.Len()] {
			if end >= e.adjust {
				if valid == nil {
					valid = appendOnes(nil, 0, s20len(e.sel))
				}
				valid[at>>3] &^= 1 << (at & 7)
				e.nulls++
				end -= e.adjust
			}
			if end < last || end > math.MaxInt64 {
				return fault.Corruptf(-1, "encoding: slot %d ends at %d, the one before it at %d", s.Start+uint64(k), end, last)
			}
			ends[at] = end
			at++
			last = end
		}
		raw = raw[s.Len():]
	}
	e.ends, e.valid = ends[:at], valid
	return nil
}

func s20len(sel []Range) int {
	n := uint64(0)
	for _, s := range sel {
		n += s.Len()
	}
	return int(n)
}

// binary20 is strings and binaries of any offset width (sheet section 5.3).
type binary20 struct {
	ends *ends20
	page *page20
	enc  *lancepb.ArrayEncoding20 // of the bytes
	sel  []Range

	early bool // all bytes are fetched in the first round
	buf   Extent
	all   []byte
	bytes array20 // what is fetched when the offsets are known
	offs  []int64
}

func newBinary20(p *page20, m *lancepb.Binary20, n uint64, sel []Range) (array20, error) {
	ends, err := newEnds20(p, m.GetIndices(), n, sel, m.GetNullAdjustment())
	if err != nil {
		return nil, err
	}
	b := &binary20{ends: ends, page: p, enc: bare20(m.GetBytes()), sel: sel}
	flat := b.enc.GetFlat()
	if flat == nil {
		return b, nil
	}
	scheme, err := schemeOf(flat)
	if err != nil {
		return nil, err
	}
	// All bytes of a page need not wait for its offsets.
	if b.early = scheme == 0 && whole(sel, n) && flat.GetBitsPerValue() == 8; b.early {
		b.buf, err = p.buffer(flat.GetBuffer())
	}
	return b, err
}

func (b *binary20) want(q *queue20) error {
	if err := b.ends.offsets.want(q); err != nil {
		return err
	}
	if b.early {
		return q.want(b.buf, 0, b.buf.Size, &b.all)
	}
	return nil
}

func (b *binary20) more(q *queue20) error {
	if err := b.ends.resolve(); err != nil {
		return err
	}
	var at uint64
	b.offs = make([]int64, len(b.ends.ends)+1)
	offs := b.offs[1:]
	parts, ends := make([]Range, 0, len(b.sel)), b.ends.ends
	for i, s := range b.sel {
		start := b.ends.starts[i]
		// Ends do not run backwards, so the last one bounds all.
		base, last := at, ends[s.Len()-1]
		if last-start > maxVectorBytes-base {
			return tooLarge(int64(min(last-start, math.MaxInt64-base) + base))
		}
		for k, end := range ends[:s.Len()] {
			offs[k] = int64(base + end - start)
		}
		at += last - start
		ends, offs = ends[s.Len():], offs[s.Len():]
		if last > start {
			parts = append(parts, Range{start, last})
		}
	}
	if b.early {
		if at > uint64(len(b.all)) {
			return fault.Corruptf(int64(b.buf.Offset), "encoding: strings end at byte %d of %d", at, len(b.all))
		}
		return nil
	}
	var end uint64
	if len(parts) > 0 {
		end = parts[len(parts)-1].End
	}
	var err error
	if b.bytes, err = newPlain20(b.page, "bytes of strings", b.enc, end, parts, int(at)); err != nil {
		return err
	}
	return b.bytes.want(q)
}

func (b *binary20) take() (slots20, error) {
	data := b.all
	if b.bytes != nil {
		var err error
		if data, err = takeBytes20(b.bytes); err != nil {
			return slots20{}, err
		}
	}
	n := len(b.offs) - 1
	if b.offs[n] > int64(len(data)) {
		return slots20{}, fault.Corruptf(-1, "encoding: strings end at byte %d of %d", b.offs[n], len(data))
	}
	return slots20{n: n, block: &block{kind: varBlock, n: n, data: data, offs: b.offs}, valid: b.ends.valid}, nil
}

func takeBytes20(a array20) ([]byte, error) {
	s, err := a.take()
	if err != nil {
		return nil, err
	}
	if s.block.bits != 8 {
		return nil, fault.New(fault.Unsupported, "encoding: unsupported 2.0 encoding: bytes of strings of %d bits", s.block.bits)
	}
	return s.block.data, nil
}

// fsst20 is strings whose bytes are FSST codes (sheet section 5.8).
type fsst20 struct {
	codes   array20
	decoder *fsst.Decoder
}

func newFsst20(p *page20, m *lancepb.Fsst20, n uint64, sel []Range, depth int) (array20, error) {
	decoder, err := fsst.Parse(m.GetSymbolTable())
	if err != nil {
		return nil, err
	}
	codes, err := newArray20(p, m.GetBinary(), n, sel, false, depth+1)
	if err != nil {
		return nil, err
	}
	return &fsst20{codes, decoder}, nil
}

func (f *fsst20) want(q *queue20) error { return f.codes.want(q) }
func (f *fsst20) more(q *queue20) error { return f.codes.more(q) }

func (f *fsst20) take() (slots20, error) {
	s, err := f.codes.take()
	if err != nil {
		return slots20{}, err
	}
	if s.block.kind == nullBlock {
		return s, nil
	}
	if s.block.kind != varBlock || s.idx != nil {
		return slots20{}, fault.New(fault.Unsupported, "encoding: unsupported 2.0 encoding: fsst over %s", s.block.describe())
	}
	var out []byte
	offs := make([]int64, s.n+1)
	for i := range s.n {
		// What lies under a null need not be valid codes.
		if s.valid == nil || getBit(s.valid, i) {
			if out, err = f.decoder.AppendDecoded(out, s.block.value(i)); err != nil {
				return slots20{}, err
			}
			if len(out) > maxVectorBytes {
				return slots20{}, tooLarge(int64(len(out)))
			}
		}
		offs[i+1] = int64(len(out))
	}
	s.block = &block{kind: varBlock, n: s.n, data: out, offs: offs}
	return s, nil
}

// fixedBinary20 is strings of one length (sheet section 5.10).
type fixedBinary20 struct {
	bytes        array20
	width, count int
}

func newFixedBinary20(p *page20, m *lancepb.FixedSizeBinary20, n uint64, sel []Range, count int) (array20, error) {
	width := uint64(m.GetByteWidth())
	if width > maxVectorBytes || n > maxItems20/max(width, 1) {
		return nil, fault.Corruptf(-1, "encoding: %d strings of %d bytes in one page", n, width)
	}
	if uint64(count) > maxVectorBytes/max(width, 1) {
		return nil, tooLarge(int64(count) * int64(width))
	}
	var scaled []Range // stays empty when the strings are: no decoder gets empty ranges
	for _, s := range sel {
		if width > 0 {
			scaled = append(scaled, Range{s.Start * width, s.End * width})
		}
	}
	bytes, err := newPlain20(p, "bytes of strings", m.GetBytes(), n*width, scaled, count*int(width))
	if err != nil {
		return nil, err
	}
	return &fixedBinary20{bytes, int(width), count}, nil
}

func (f *fixedBinary20) want(q *queue20) error { return f.bytes.want(q) }
func (f *fixedBinary20) more(*queue20) error   { return nil }

func (f *fixedBinary20) take() (slots20, error) {
	data, err := takeBytes20(f.bytes)
	if err != nil {
		return slots20{}, err
	}
	offs := make([]int64, f.count+1)
	for i := range offs {
		offs[i] = int64(i * f.width)
	}
	v, err := newVar(data, offs)
	if err != nil {
		return slots20{}, err
	}
	return slots20{n: f.count, block: v}, nil
}
