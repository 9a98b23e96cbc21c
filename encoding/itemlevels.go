package encoding

import (
	"encoding/binary"
	"math/bits"

	"github.com/flightblob/flightblob/encoding/internal/bitpack"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/internal/lancepb"
)

// itemLevels turns the definition levels of a column without nesting into its
// validity, chunk by chunk: 0 is a value and 1 is null.
type itemLevels struct {
	most    uint16 // the highest level that may be: 0 or 1
	words   []byte // levels of the current chunk, 16 bits each
	scratch []byte
	valid   []byte // bitmap of the n slots that were taken
	n       int
	nulls   int
}

// read decodes the levels of a chunk of count values.
func (l *itemLevels) read(ce *lancepb.CompressiveEncoding, buf []byte, n, count int) error {
	if p := ce.GetInlineBitpacking(); p != nil && p.GetUncompressedBitsPerValue() == 16 && n <= bitpack.GroupSize {
		if l.scratch == nil {
			l.scratch = make([]byte, 2*bitpack.GroupSize)
		}
		if err := bitpack.UnpackInline(l.scratch, buf, n, 16); err != nil {
			return err
		}
		l.words = l.scratch[:2*n]
	} else {
		s, err := levelSequence(ce, buf, n)
		if err != nil {
			return err
		}
		if s.bits != 16 {
			return fault.Corruptf(-1, "encoding: levels of %d bits, expected 16", s.bits)
		}
		l.words = s.data[:2*s.n]
	}
	if got := len(l.words) / 2; got != count {
		return fault.Corruptf(-1, "encoding: %d definition levels for %d values", got, count)
	}
	return nil
}

// take appends entries [from, to) of the chunk.
func (l *itemLevels) take(from, to int) error {
	words, at := l.words[2*from:2*to], l.n
	l.n += to - from
	size := len(l.valid)
	l.valid = growTo(l.valid, (l.n+7)/8)
	clear(l.valid[size:])
	seen, set := uint64(0), 0
	if at%8 == 0 {
		for ; len(words) >= 16; words = words[16:] {
			low, high := binary.LittleEndian.Uint64(words), binary.LittleEndian.Uint64(words[8:])
			seen |= low | high
			b := ^(fourBits(low) | fourBits(high)<<4)
			l.valid[at/8] = b
			set += bits.OnesCount8(b)
			at += 8
		}
	}
	for ; len(words) > 0; words = words[2:] {
		word := binary.LittleEndian.Uint16(words)
		seen |= uint64(word)
		if word == 0 {
			setBit(l.valid, at)
			set++
		}
		at++
	}
	const ones = 0x0001_0001_0001_0001
	if seen&^(ones*uint64(l.most)) != 0 {
		return l.above(from, to)
	}
	l.nulls += to - from - set
	return nil
}

// fourBits gathers the lowest bits of four 16-bit words.
func fourBits(x uint64) byte { return byte(x|x>>15|x>>30|x>>45) & 15 }

// above names the level that is too high.
func (l *itemLevels) above(from, to int) error {
	for i := from; i < to; i++ {
		if d := binary.LittleEndian.Uint16(l.words[2*i:]); d > l.most {
			return fault.Corruptf(-1, "encoding: definition level %d of entry %d, at most %d", d, i, l.most)
		}
	}
	return fault.New(fault.Internal, "encoding: definition levels above %d that are not", l.most)
}

// layer is the structure of what was taken.
func (l *itemLevels) layer() Layer {
	out := Layer{Kind: ItemLayer, Slots: l.n, Nulls: l.nulls}
	if l.nulls > 0 {
		out.Validity = l.valid
	}
	return out
}
