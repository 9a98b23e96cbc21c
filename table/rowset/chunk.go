package rowset

import (
	"encoding/binary"
	"iter"
	"math/bits"
	"sort"
)

// chunkSize is how many offsets share their upper 16 bits.
const chunkSize = 1 << 16

// chunk is a non-empty set of 16-bit numbers, in one of Roaring's three forms.
type chunk interface {
	count() int
	last() uint16
	// rank is the number of members below v, which is at most chunkSize.
	rank(v uint32) int
	// runs gives the half-open ranges of members at and above a number.
	runs(from uint32) iter.Seq2[uint32, uint32]
}

// sortedChunk lists its members, u16 each, ascending.
type sortedChunk []byte

func (c sortedChunk) at(i int) uint32 { return uint32(binary.LittleEndian.Uint16(c[2*i:])) }
func (c sortedChunk) count() int      { return len(c) / 2 }
func (c sortedChunk) last() uint16    { return uint16(c.at(c.count() - 1)) }

func (c sortedChunk) rank(v uint32) int {
	return sort.Search(c.count(), func(i int) bool { return c.at(i) >= v })
}

func (c sortedChunk) runs(from uint32) iter.Seq2[uint32, uint32] {
	return func(yield func(uint32, uint32) bool) {
		for i := c.rank(from); i < c.count(); {
			start := c.at(i)
			end := start + 1
			for i++; i < c.count() && c.at(i) == end; i++ {
				end++
			}
			if !yield(start, end) {
				return
			}
		}
	}
}

// ascending says that the members are in order, each once.
func (c sortedChunk) ascending() bool {
	for i := 1; i < c.count(); i++ {
		if c.at(i) <= c.at(i-1) {
			return false
		}
	}
	return true
}

// bitChunk has a bit for each number: 1024 words of 64, least significant
// first.
type bitChunk struct {
	words []byte   // chunkSize/8 bytes
	ranks []uint32 // members before each rankWords words, and all
}

// rankWords is how many words of a bitChunk are counted in one step.
const rankWords = 16

func newBitChunk(words []byte) bitChunk {
	c := bitChunk{words: words, ranks: make([]uint32, 1, chunkSize/64/rankWords+1)}
	members := uint32(0)
	for i := range uint32(chunkSize / 64) {
		members += uint32(bits.OnesCount64(c.word(i)))
		if (i+1)%rankWords == 0 {
			c.ranks = append(c.ranks, members)
		}
	}
	return c
}

func (c bitChunk) word(i uint32) uint64 { return binary.LittleEndian.Uint64(c.words[8*i:]) }
func (c bitChunk) count() int           { return int(c.ranks[len(c.ranks)-1]) }

func (c bitChunk) last() uint16 {
	for i := uint32(chunkSize / 64); i > 0; i-- {
		if w := c.word(i - 1); w != 0 {
			return uint16(64*i - 1 - uint32(bits.LeadingZeros64(w)))
		}
	}
	return 0
}

func (c bitChunk) rank(v uint32) int {
	step := v / 64 / rankWords
	n := int(c.ranks[step])
	for i := step * rankWords; i < v/64; i++ {
		n += bits.OnesCount64(c.word(i))
	}
	if rest := v % 64; rest != 0 {
		n += bits.OnesCount64(c.word(v/64) & (1<<rest - 1))
	}
	return n
}

// next is the first number at or above from that is a member, or that is none
// when flip has all bits set; chunkSize if there is no such number.
func (c bitChunk) next(from uint32, flip uint64) uint32 {
	for from < chunkSize {
		w := (c.word(from/64) ^ flip) >> (from % 64)
		if w != 0 {
			return from + uint32(bits.TrailingZeros64(w))
		}
		from = from/64*64 + 64
	}
	return chunkSize
}

func (c bitChunk) runs(from uint32) iter.Seq2[uint32, uint32] {
	return func(yield func(uint32, uint32) bool) {
		for {
			start := c.next(from, 0)
			if start == chunkSize {
				return
			}
			from = c.next(start, ^uint64(0))
			if !yield(start, from) {
				return
			}
		}
	}
}

// runChunk lists runs: u16 first member, u16 how many follow it.
type runChunk struct {
	raw   []byte
	ranks []uint32 // members of the runs before each, and of all
}

func (c runChunk) start(i int) uint32 { return uint32(binary.LittleEndian.Uint16(c.raw[4*i:])) }
func (c runChunk) end(i int) uint32 {
	return c.start(i) + uint32(binary.LittleEndian.Uint16(c.raw[4*i+2:])) + 1
}
func (c runChunk) len() int     { return len(c.raw) / 4 }
func (c runChunk) count() int   { return int(c.ranks[c.len()]) }
func (c runChunk) last() uint16 { return uint16(c.end(c.len()-1) - 1) }

// newRunChunk gives false for runs out of order, overlapping or too long.
func newRunChunk(raw []byte) (runChunk, bool) {
	c := runChunk{raw: raw, ranks: make([]uint32, 1, len(raw)/4+1)}
	free, members := uint32(0), uint32(0)
	for i := range c.len() {
		start, end := c.start(i), c.end(i)
		if start < free || end > chunkSize {
			return c, false
		}
		free = end
		members += end - start
		c.ranks = append(c.ranks, members)
	}
	return c, members > 0
}

// after is the first run that ends above v.
func (c runChunk) after(v uint32) int {
	return sort.Search(c.len(), func(i int) bool { return c.end(i) > v })
}

func (c runChunk) rank(v uint32) int {
	i := c.after(v)
	n := int(c.ranks[i])
	if i < c.len() && c.start(i) < v {
		n += int(v - c.start(i))
	}
	return n
}

func (c runChunk) runs(from uint32) iter.Seq2[uint32, uint32] {
	return func(yield func(uint32, uint32) bool) {
		for i := c.after(from); i < c.len(); i++ {
			if !yield(max(from, c.start(i)), c.end(i)) {
				return
			}
		}
	}
}
