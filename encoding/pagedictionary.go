package encoding

import (
	"encoding/binary"

	"github.com/flightblob/flightblob/encoding/internal/bitpack"
	"github.com/flightblob/flightblob/encoding/internal/compress"
	"github.com/flightblob/flightblob/internal/lancepb"
)

// pageDictionary is a dictionary as a page stores it.
type pageDictionary struct {
	n        int
	data     []byte
	encoding *lancepb.CompressiveEncoding
}

// distinctValues are the values of a page by number.
type distinctValues struct {
	index []uint32 // of each slot; 0 under nulls
	items view
}

// Limits of page dictionaries besides those that a column can set. The whole
// dictionary is read with the first row of a page.
const (
	dictLeastValues = 100
	dictMostItems   = 100_000
	dictSample      = 2048   // at least so many values are looked at first,
	dictMostSampled = 16_384 // of a large page more: enough to tell dictMostItems from all different
)

// dictionary numbers the distinct values of a page when that takes fewer bytes
// than size, what the best other form needs.
func (e *Encoder) dictionary(lv *pageLevels, w view, size int) (distinctValues, bool) {
	t := &e.tuning
	most := min(int(float64(lv.valid)/t.dictDivisor), dictMostItems)
	if lv.valid < dictLeastValues || most < 1 || w.v.kind == fixedVector && w.v.width < 4 {
		return distinctValues{}, false
	}
	limit := int(min(t.dictRatio, 0.95) * float64(size))
	if !e.promising(lv, w, most, limit) {
		return distinctValues{}, false
	}
	var firsts []int32
	find := w.finder(&firsts)
	index := make([]uint32, w.n)
	stored, cost := 0, 0
	full := false
	lv.eachValue(func(slot int) bool {
		k, isNew := find(slot)
		if isNew {
			if stored += len(w.bytes(slot)); w.v.kind != fixedVector {
				cost += w.v.offsetBits() / 8
			}
			if len(firsts) > most || stored > t.dictMax || stored+cost > limit {
				full = true
				return false
			}
		}
		index[slot] = uint32(k)
		return true
	})
	if full || stored+cost+w.n*bitsFor(len(firsts))/8 > limit {
		return distinctValues{}, false
	}
	return distinctValues{index, w.gathered(firsts)}, true
}

// finder numbers the values of slots in the order in which distinct ones come,
// and notes the slot that each of them was found in first.
func (w view) finder(firsts *[]int32) func(slot int) (num int32, isNew bool) {
	note := func(slot int, isNew bool) {
		if isNew {
			*firsts = append(*firsts, int32(slot))
		}
	}
	if w.v.kind == fixedVector && (w.v.width == 4 || w.v.width == 8) {
		table, data, wide := newWordTable(), w.fixed(), w.v.width == 8
		return func(slot int) (num int32, isNew bool) {
			if wide {
				num, isNew = table.find(binary.LittleEndian.Uint64(data[8*slot:]))
			} else {
				num, isNew = table.find(uint64(binary.LittleEndian.Uint32(data[4*slot:])))
			}
			note(slot, isNew)
			return num, isNew
		}
	}
	table := newByteTable(func(i int32) []byte { return w.bytes(int((*firsts)[i])) })
	return func(slot int) (num int32, isNew bool) {
		num, isNew = table.find(w.bytes(slot))
		note(slot, isNew)
		return num, isNew
	}
}

// promising looks at a sample: too many distinct values in it say that the page
// has too many.
func (e *Encoder) promising(lv *pageLevels, w view, most, limit int) bool {
	var seen []int32
	find := w.finder(&seen)
	looked := 0
	look := func(slot int) {
		looked++
		find(slot)
	}
	step := max(1, lv.valid/min(max(dictSample, lv.valid/32), dictMostSampled))
	if lv.def == nil {
		for slot := 0; slot < w.n; slot += step {
			look(slot)
		}
	} else {
		n := 0
		lv.eachValue(func(slot int) bool {
			if n--; n < 0 {
				look(slot)
				n = step - 1
			}
			return true
		})
	}
	// The sample's values are a lower bound of what the dictionary holds.
	return len(seen) <= mostDistinct(looked, most) && w.n*bitsFor(len(seen))/8 <= limit
}

// eachValue calls do for the slots that are not null, until it answers false.
func (p *pageLevels) eachValue(do func(slot int) bool) {
	if p.def == nil {
		for slot := range p.shown {
			if !do(slot) {
				return
			}
		}
		return
	}
	slot := 0
	for _, d := range p.def {
		if d == 0 && !do(slot) {
			return
		}
		if d <= p.maxVisible {
			slot++
		}
	}
}

// gathered copies some values of a view.
func (w view) gathered(slots []int32) view {
	out := &values{typ: w.v.typ, kind: w.v.kind, width: w.v.width, n: len(slots)}
	for _, s := range slots {
		out.data = append(out.data, w.bytes(int(s))...)
		if w.v.kind != fixedVector {
			out.ends = append(out.ends, uint32(len(out.data)))
		}
	}
	return view{out, 0, out.n}
}

// storeItems writes the items of a dictionary at block position (sheet section
// 6.2), packed or compressed where that helps.
func (t *tuning) storeItems(w view) (*pageDictionary, error) {
	d := &pageDictionary{n: w.n}
	switch w.v.kind {
	case bitVector:
		d.data, d.encoding = appendBits(nil, 0, w.v.data, w.at, w.at+w.n), flatEncoding(1)
	case fixedVector:
		d.data, d.encoding = append([]byte{}, w.fixed()...), flatEncoding(8*w.v.width)
	default:
		d.data, d.encoding = w.variableBlock(), variableEncoding(w.v.offsetBits())
	}
	if t.dict.scheme == 0 {
		return d, nil
	}
	plain := d.data
	if w.v.kind == fixedVector && (w.v.width == 4 || w.v.width == 8) {
		bits := 8 * w.v.width
		width := bitpack.Width(plain, bits)
		if size := bitpack.OutOfLineSize(w.n, bits, width); width > 0 && size < len(plain) {
			d.data, d.encoding = bitpack.AppendOutOfLine(nil, plain, bits, width), outOfLineEncoding(bits, width)
		}
	}
	packed, err := compress.Append(nil, t.dict.scheme, t.dict.level, plain)
	if err != nil || len(packed) >= len(d.data) {
		return d, err
	}
	d.data = packed
	if w.v.kind == fixedVector {
		d.encoding = flatEncoding(8 * w.v.width)
	}
	d.encoding = generalEncoding(t.dict, d.encoding)
	return d, nil
}

// variableBlock is the offset width, the start of the bytes, offsets from 0,
// and the bytes.
func (w view) variableBlock() []byte {
	heap, start := w.heap()
	var out []byte
	put := func(v int) { out = binary.LittleEndian.AppendUint32(out, uint32(v)) }
	width := 4
	if w.v.offsetBits() == 64 {
		width = 8
		put = func(v int) { out = binary.LittleEndian.AppendUint64(out, uint64(v)) }
	}
	put(8 * width)
	put((w.n + 3) * width)
	for i := range w.n + 1 {
		put(w.start(i) - start)
	}
	return append(out, heap...)
}
