// Package fsst makes and decodes strings compressed with a static symbol table
// (file-format sheet section 6.5).
//
// The table of 2312 bytes:
//
//	0     u64  header: "TSSF" (0x46535354) in the upper half, bit 24 = enabled,
//	           byte 0 = number of symbols n, bytes 1 and 2 = hints for encoders
//	8     n symbols of 8 bytes each
//	8+8n  n symbol lengths of one byte each, 1 to 8
//	      the rest is unused
//
// A code c < 255 stands for the first length[c] bytes of symbol c; 255 says
// that the next byte stands for itself.
package fsst

import (
	"encoding/binary"
	"slices"

	"github.com/flightblob/flightblob/internal/fault"
)

// TableSize is the size of a symbol table in bytes.
const TableSize = 2312

const (
	magic     = 0x46535354
	enabled   = 1 << 24
	escape    = 255
	maxSymbol = 8 // bytes
)

// Decoder holds a parsed table. It is read-only: goroutines may share it.
type Decoder struct {
	plain   bool // the data is not compressed at all
	lengths [256]uint8
	symbols [256]uint64
}

// Parse reads a symbol table. Damage is fault.Corrupt with its offset.
func Parse(table []byte) (*Decoder, error) {
	if len(table) != TableSize {
		return nil, fault.Corruptf(0, "fsst: symbol table of %d bytes, not %d", len(table), TableSize)
	}
	header := binary.LittleEndian.Uint64(table)
	if header>>32 != magic {
		return nil, fault.Corruptf(0, "fsst: symbol table begins with %#x", header)
	}
	if header&enabled == 0 {
		return &Decoder{plain: true}, nil
	}
	// n is at most 255, so symbols and lengths end at byte 8+9*255 = 2303.
	d, n := new(Decoder), int(header&0xFF)
	lengths := 8 + maxSymbol*n
	for i := range n {
		size := table[lengths+i]
		if size < 1 || size > maxSymbol {
			return nil, fault.Corruptf(int64(lengths+i), "fsst: symbol %d has %d bytes, allowed are 1 to 8", i, size)
		}
		d.lengths[i] = size
		d.symbols[i] = binary.LittleEndian.Uint64(table[8+maxSymbol*i:])
	}
	return d, nil
}

// MaxDecoded is the largest size that n bytes of codes can decode to.
func (d *Decoder) MaxDecoded(n int) int {
	if d.plain {
		return n
	}
	return maxSymbol * n
}

// AppendDecoded appends the decoded form of src to dst, at most MaxDecoded of
// it, and returns the extended slice. dst grows in proportion to what is
// written; callers that decode many values should hand in spare capacity.
// Damage is fault.Corrupt with the offset in src.
func (d *Decoder) AppendDecoded(dst, src []byte) ([]byte, error) {
	if d.plain {
		return append(dst, src...), nil
	}
	for i := 0; i < len(src); {
		// Symbols are stored as whole registers, so eight bytes must be free
		// for each code of a batch; that is checked once per batch.
		room := (cap(dst) - len(dst)) / maxSymbol
		if room == 0 {
			dst = slices.Grow(dst, max(2*(len(src)-i), 8*maxSymbol))
			room = (cap(dst) - len(dst)) / maxSymbol
		}
		batch := src[i:min(len(src), i+room)]
		out, at := dst[:cap(dst)], len(dst)
		k := 0
		for ; k < len(batch); k++ {
			size := int(d.lengths[batch[k]])
			if size == 0 {
				break
			}
			binary.LittleEndian.PutUint64(out[at:], d.symbols[batch[k]])
			at += size
		}
		dst = out[:at]
		if i += k; k == len(batch) {
			continue
		}
		// Only the escape and codes without a symbol have no length. There is
		// room for the literal: the batch counted eight bytes for its code.
		if src[i] != escape {
			return nil, fault.Corruptf(int64(i), "fsst: code %d has no symbol", src[i])
		}
		if i+1 >= len(src) {
			return nil, fault.Corruptf(int64(i), "fsst: escape at the end of a value")
		}
		dst = append(dst, src[i+1])
		i += 2
	}
	return dst, nil
}

// AppendValues decodes consecutive values, value i being src[offs[i]:offs[i+1]],
// appends them to dst and puts the end of each in the extended slice into
// ends[i], which has one entry less than offs. Offsets must not run backwards
// or past src. Damage is fault.Corrupt with the offset in src.
func AppendValues[E int32 | int64](d *Decoder, dst, src []byte, offs []int64, ends []E) ([]byte, error) {
	if d.plain {
		shift := int64(len(dst)) - offs[0]
		for i := range ends {
			ends[i] = E(offs[i+1] + shift)
		}
		return append(dst, src[offs[0]:offs[len(ends)]]...), nil
	}
	for i := range ends {
		v := src[offs[i]:offs[i+1]]
		// Room for every code to be a whole register: checked once a value.
		if cap(dst)-len(dst) < maxSymbol*(len(v)+1) {
			rest := int(offs[len(ends)] - offs[i])
			dst = slices.Grow(dst, max(maxSymbol*(len(v)+1), 2*rest))
		}
		out, at := dst[:cap(dst)], len(dst)
		for k := 0; k < len(v); k++ {
			c := v[k]
			size := int(d.lengths[c])
			if size == 0 {
				if c != escape || k+1 >= len(v) {
					return nil, fault.Corruptf(offs[i]+int64(k), "fsst: code %d has no symbol or literal", c)
				}
				k++
				out[at] = v[k]
				at++
				continue
			}
			binary.LittleEndian.PutUint64(out[at:], d.symbols[c])
			at += size
		}
		dst = out[:at]
		ends[i] = E(at)
	}
	return dst, nil
}
