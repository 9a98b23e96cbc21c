package fsst

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// symbol is a byte string of 1 to 8 bytes, the first one lowest.
type symbol struct {
	bytes  uint64
	length int
}

func (s symbol) first() byte { return byte(s.bytes) }

// join is the concatenation of two symbols that fit into one.
func (s symbol) join(t symbol) symbol {
	return symbol{s.bytes | t.bytes<<(8*s.length), s.length + t.length}
}

const (
	maxSymbols = 255
	rounds     = 5
	// pseudo codes 0 to 255 stand for bytes that no symbol covers, codes from
	// firstCode on for the symbols of the table.
	firstCode = 256
	codes     = firstCode + maxSymbols
)

// Train makes an encoder whose symbols shorten the sample: some tens of
// kilobytes of what will be encoded. The table grows in rounds: the sample is
// cut by the symbols found so far, and out of them, of pairs of neighbours and
// of single bytes those are kept that cover most. Equal samples give equal
// tables.
func Train(sample [][]byte) *Encoder {
	e := newEncoder(nil)
	t := trainer{single: make([]uint32, codes), pairs: make([]uint16, codes*codes)}
	for round := range rounds {
		// Early rounds see a part of the sample: they only have to find short
		// symbols that later ones grow from.
		step := rounds - round
		t.count(e, sample, step)
		e = newEncoder(t.best(e))
	}
	return e
}

// trainer counts how often codes and pairs of codes occur.
type trainer struct {
	single []uint32
	pairs  []uint16 // [first*codes+second], stops at its largest value
}

func (t *trainer) count(e *Encoder, sample [][]byte, step int) {
	clear(t.single)
	clear(t.pairs)
	for i := 0; i < len(sample); i += step {
		last := -1
		for v := sample[i]; len(v) > 0; {
			code, length := e.match(v)
			t.single[code]++
			// The first byte alone may turn out to be the better symbol.
			if length > 1 {
				t.single[v[0]]++
			}
			if last >= 0 {
				t.pair(last, code)
				if length > 1 {
					t.pair(last, int(v[0]))
				}
			}
			last = code
			v = v[length:]
		}
	}
}

func (t *trainer) pair(first, second int) {
	if n := &t.pairs[first*codes+second]; *n < 1<<16-1 {
		*n++
	}
}

// best chooses the symbols of the next table by what they save.
func (t *trainer) best(e *Encoder) []symbol {
	gains := map[symbol]uint64{}
	for a, n := range t.single {
		if n == 0 {
			continue
		}
		s := e.symbolOf(a)
		gain := uint64(n) * uint64(s.length)
		if s.length == 1 {
			gain *= 8 // a byte without a symbol costs an escape
		}
		gains[s] += gain
		for b, n := range t.pairs[a*codes : (a+1)*codes] {
			if n < 2 {
				continue
			}
			if u := e.symbolOf(b); s.length+u.length <= maxSymbol {
				gains[s.join(u)] += uint64(n) * uint64(s.length+u.length)
			}
		}
	}
	type candidate struct {
		symbol
		gain uint64
	}
	all := make([]candidate, 0, len(gains))
	for s, g := range gains {
		all = append(all, candidate{s, g})
	}
	slices.SortFunc(all, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.gain, a.gain), cmp.Compare(b.length, a.length), cmp.Compare(a.bytes, b.bytes))
	})
	// Of the long symbols in one place of the hash only the first is ever found.
	var taken [hashSize]bool
	out := make([]symbol, 0, maxSymbols)
	for _, c := range all {
		if len(out) == maxSymbols {
			break
		}
		if c.length >= 3 {
			if h := hash(c.bytes); !taken[h] {
				taken[h] = true
			} else {
				continue
			}
		}
		out = append(out, c.symbol)
	}
	return out
}

// Encoder replaces byte strings by the codes of one table. It is read-only:
// goroutines may share it.
type Encoder struct {
	symbols []symbol
	// byPair has for every two first bytes the symbol of at most two bytes that
	// fits, or the first byte's pseudo code; byByte for one byte at the end.
	// The code is in the lower bits, the length above.
	byPair [1 << 16]uint16
	byByte [256]uint16
	// byHash has symbols of three bytes and more by a hash of the first three;
	// of several in one place only the first of the table is ever found.
	byHash [hashSize]hashEntry
}

type hashEntry struct {
	bytes, mask uint64 // no word under mask 0 equals the bytes of an empty entry
	code        uint16
	length      uint16
}

const (
	hashSize    = 4096
	lengthShift = 12
	codeMask    = 1<<lengthShift - 1
)

func hash(word uint64) uint64 {
	return (word & 0xFFFFFF) * 2971215073 >> 15 & (hashSize - 1)
}

func newEncoder(symbols []symbol) *Encoder {
	e := &Encoder{symbols: symbols}
	for i := range e.byByte {
		e.byByte[i] = uint16(i) | 1<<lengthShift
	}
	for i, s := range symbols {
		if s.length == 1 {
			e.byByte[s.first()] = uint16(firstCode+i) | 1<<lengthShift
		}
	}
	for i := range e.byPair {
		e.byPair[i] = e.byByte[byte(i)]
	}
	for i := range e.byHash {
		e.byHash[i].bytes = 1
	}
	for i, s := range symbols {
		if s.length == 2 {
			e.byPair[uint16(s.bytes)] = uint16(firstCode+i) | 2<<lengthShift
		}
		if s.length < 3 {
			continue
		}
		if h := &e.byHash[hash(s.bytes)]; h.length == 0 {
			*h = hashEntry{s.bytes, ^uint64(0) >> (64 - 8*s.length), uint16(firstCode + i), uint16(s.length)}
		}
	}
	return e
}

func (e *Encoder) symbolOf(code int) symbol {
	if code < firstCode {
		return symbol{uint64(code), 1}
	}
	return e.symbols[code-firstCode]
}

// match finds the code for the start of v and the bytes that it covers.
func (e *Encoder) match(v []byte) (code, length int) {
	if len(v) >= 8 {
		return e.matchWord(binary.LittleEndian.Uint64(v))
	}
	var word uint64
	for i := len(v) - 1; i >= 0; i-- {
		word = word<<8 | uint64(v[i])
	}
	if h := &e.byHash[hash(word)]; word&h.mask == h.bytes && int(h.length) <= len(v) {
		return int(h.code), int(h.length)
	}
	c := e.byByte[v[0]]
	if len(v) > 1 {
		c = e.byPair[uint16(word)]
	}
	return int(c & codeMask), int(c >> lengthShift)
}

// matchWord is match for eight bytes or more.
func (e *Encoder) matchWord(word uint64) (code, length int) {
	if h := &e.byHash[hash(word)]; word&h.mask == h.bytes {
		return int(h.code), int(h.length)
	}
	c := e.byPair[uint16(word)]
	return int(c & codeMask), int(c >> lengthShift)
}

// AppendEncoded appends the codes of src, at most twice its bytes.
func (e *Encoder) AppendEncoded(dst, src []byte) []byte {
	dst = slices.Grow(dst, 2*len(src))
	out, at := dst[:cap(dst)], len(dst)
	for pos := 0; pos < len(src); {
		var code, length int
		if len(src)-pos >= 8 {
			code, length = e.matchWord(binary.LittleEndian.Uint64(src[pos:]))
		} else {
			code, length = e.match(src[pos:])
		}
		if code >= firstCode {
			out[at] = byte(code) // the codes of symbols begin at a multiple of 256
			at++
		} else {
			out[at], out[at+1] = escape, byte(code)
			at += 2
		}
		pos += length
	}
	return dst[:at]
}

// Table is the symbol table as files hold it.
func (e *Encoder) Table() []byte {
	table := make([]byte, TableSize)
	n := len(e.symbols)
	binary.LittleEndian.PutUint64(table, magic<<32|enabled|uint64(n))
	for i, s := range e.symbols {
		binary.LittleEndian.PutUint64(table[8+maxSymbol*i:], s.bytes)
		table[8+maxSymbol*n+i] = byte(s.length)
	}
	return table
}
