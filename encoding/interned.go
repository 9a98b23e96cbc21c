package encoding

import (
	"bytes"
	"hash/maphash"
	"math/bits"
	"math/rand/v2"
)

// byteTable numbers distinct byte strings in the order in which they come. The
// strings themselves are kept by its user, who gives them back by number.
type byteTable struct {
	seed  maphash.Seed
	slots []tableSlot // a power of two of them, at most half in use; placed by the hash
	n     int
	at    func(i int32) []byte
}

type tableSlot struct {
	hash uint32
	num  int32 // plus one; 0 = free
}

func newByteTable(at func(i int32) []byte) *byteTable {
	return &byteTable{seed: maphash.MakeSeed(), slots: make([]tableSlot, 256), at: at}
}

func (t *byteTable) reset() {
	clear(t.slots)
	t.n = 0
}

// find gives the number of a string; for a new one that is the next number,
// under which the caller must keep it.
func (t *byteTable) find(b []byte) (num int32, isNew bool) {
	h := maphash.Bytes(t.seed, b)
	hash := uint32(h ^ h>>32)
	mask := uint32(len(t.slots) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		s := &t.slots[i]
		if s.num == 0 {
			*s = tableSlot{hash, int32(t.n) + 1}
			t.n++
			if 2*t.n > len(t.slots) {
				t.grow()
			}
			return int32(t.n) - 1, true
		}
		if s.hash == hash && bytes.Equal(t.at(s.num-1), b) {
			return s.num - 1, false
		}
	}
}

// grow makes the table four times as large.
func (t *byteTable) grow() {
	old := t.slots
	t.slots = make([]tableSlot, 4*len(old))
	mask := uint32(len(t.slots) - 1)
	for _, s := range old {
		if s.num == 0 {
			continue
		}
		i := s.hash & mask
		for t.slots[i].num != 0 {
			i = (i + 1) & mask
		}
		t.slots[i] = s
	}
}

// wordTable numbers distinct words of at most eight bytes in the order in which
// they come. Its hash is seeded: whoever sends values cannot make them collide.
type wordTable struct {
	seed, factor uint64
	slots        []wordSlot // a power of two of them, at most half in use
	n            int
}

type wordSlot struct {
	word uint64
	num  int32 // plus one; 0 = free
}

func newWordTable() *wordTable {
	return &wordTable{seed: rand.Uint64(), factor: rand.Uint64() | 1, slots: make([]wordSlot, 256)}
}

func (t *wordTable) place(word uint64) uint64 {
	high, low := bits.Mul64(word^t.seed, t.factor)
	return high ^ low
}

// find gives the number of a word; a new one gets the next number.
func (t *wordTable) find(word uint64) (num int32, isNew bool) {
	mask := uint64(len(t.slots) - 1)
	for i := t.place(word) & mask; ; i = (i + 1) & mask {
		s := &t.slots[i]
		if s.num == 0 {
			*s = wordSlot{word, int32(t.n) + 1}
			t.n++
			if 2*t.n > len(t.slots) {
				t.grow()
			}
			return int32(t.n) - 1, true
		}
		if s.word == word {
			return s.num - 1, false
		}
	}
}

// grow makes the table four times as large.
func (t *wordTable) grow() {
	old := t.slots
	t.slots = make([]wordSlot, 4*len(old))
	mask := uint64(len(t.slots) - 1)
	for _, s := range old {
		if s.num == 0 {
			continue
		}
		i := t.place(s.word) & mask
		for t.slots[i].num != 0 {
			i = (i + 1) & mask
		}
		t.slots[i] = s
	}
}

// interned are the distinct values of a dictionary column's page.
type interned struct {
	values     *values
	table      *byteTable
	generation int // counts pages
	bit        [1]byte
}

func newInterned(v *values) *interned {
	d := &interned{values: v}
	d.table = newByteTable(func(i int32) []byte { return v.bytesAt(int(i)) })
	return d
}

func (d *interned) reset() {
	d.values.reset()
	d.table.reset()
	d.generation++
}

// add numbers slot i of a dictionary.
func (d *interned) add(s *leafSource, i int) (int32, error) {
	var b []byte
	switch d.values.kind {
	case bitVector:
		d.bit[0] = 0
		if getBit(s.fixed, s.off+i) {
			d.bit[0] = 1
		}
		b = d.bit[:]
	case fixedVector:
		w := d.values.width
		b = s.fixed[(s.off+i)*w : (s.off+i+1)*w]
	default:
		var err error
		if b, err = s.bytesOf(i); err != nil {
			return 0, err
		}
	}
	k, isNew := d.table.find(b)
	if !isNew {
		return k, nil
	}
	return k, d.values.append(s, i, i+1, nil)
}

var bits01 = [2][]byte{{0}, {1}}

// bytesAt gives the bytes of value i; a bit is a byte.
func (v *values) bytesAt(i int) []byte {
	switch v.kind {
	case bitVector:
		return bits01[v.data[i>>3]>>(i&7)&1]
	case var32Vector, var64Vector:
		from := uint32(0)
		if i > 0 {
			from = v.ends[i-1]
		}
		return v.data[from:v.ends[i]]
	default:
		return v.data[i*v.width : (i+1)*v.width]
	}
}
