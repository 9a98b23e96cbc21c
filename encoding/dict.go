package encoding

import (
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/flightblob/flightblob/internal/fault"
)

// strayIndex stands for an index that names no item; its slot must be null.
const strayIndex = ^uint32(0)

// dictBuilder collects a dictionary-typed leaf. The dictionary of the first
// page is taken as it is; values of later ones are merged into it, so one read
// gives one dictionary.
type dictBuilder struct {
	typ    *arrow.DictionaryType
	items  *vector
	idx    []uint32
	source *block            // items of the page that the dictionary began with
	last   *block            // items that remap belongs to
	remap  []uint32          // index in last → index here
	seen   map[string]uint32 // value → index, made when a second source comes
}

func newDictBuilder(t *arrow.DictionaryType, n int) (*dictBuilder, error) {
	if n > maxSequence {
		return nil, tooLarge(4 * int64(n))
	}
	items, err := newVector(t.ValueType, 0)
	if err != nil {
		return nil, err
	}
	return &dictBuilder{typ: t, items: items, idx: make([]uint32, 0, n)}, nil
}

func (d *dictBuilder) appendNulls(count int) {
	for range count {
		d.idx = append(d.idx, strayIndex)
	}
}

// appendIndices adds slots that point into the items of one page.
func (d *dictBuilder) appendIndices(items *block, idx []uint32) error {
	if d.source == nil && d.items.n == 0 && d.seen == nil {
		d.source = items
		if err := d.items.append(items, 0, items.n); err != nil {
			return err
		}
	}
	if items == d.source {
		for _, k := range idx {
			if uint64(k) >= uint64(items.n) {
				k = strayIndex
			}
			d.idx = append(d.idx, k)
		}
		return nil
	}
	if d.last != items {
		remap := make([]uint32, items.n)
		for i := range remap {
			k, err := d.intern(items, i)
			if err != nil {
				return err
			}
			remap[i] = k
		}
		d.last, d.remap = items, remap
	}
	for _, k := range idx {
		if uint64(k) < uint64(len(d.remap)) {
			k = d.remap[k]
		} else {
			k = strayIndex
		}
		d.idx = append(d.idx, k)
	}
	return nil
}

// appendCodes is appendIndices for codes into the items that the dictionary
// began with, all of them in range; it answers false, and adds nothing, for
// others.
func (d *dictBuilder) appendCodes(items *block, codes sequence, from, to int) bool {
	if items != d.source || from == to {
		return false
	}
	at := len(d.idx)
	d.idx = codes.indices(d.idx, from, to)
	if uint64(slices.Max(d.idx[at:])) >= uint64(items.n) {
		d.idx = d.idx[:at]
		return false
	}
	return true
}

// appendPlain adds values that are stored without a page dictionary.
func (d *dictBuilder) appendPlain(b *block, from, to int) error {
	for i := from; i < to; i++ {
		k, err := d.intern(b, i)
		if err != nil {
			return err
		}
		d.idx = append(d.idx, k)
	}
	return nil
}

func (d *dictBuilder) intern(b *block, i int) (uint32, error) {
	if d.seen == nil {
		d.seen = map[string]uint32{}
		if d.source != nil {
			for k := range d.source.n {
				if key, ok := d.source.key(k); ok {
					if _, dup := d.seen[key]; !dup {
						d.seen[key] = uint32(k)
					}
				}
			}
		}
	}
	key, ok := b.key(i)
	if !ok {
		return 0, fault.Corruptf(-1, "encoding: dictionary of %s stored as %s", d.typ.ValueType, b.describe())
	}
	if k, ok := d.seen[key]; ok {
		return k, nil
	}
	k := uint32(d.items.n)
	if err := d.items.append(b, i, i+1); err != nil {
		return 0, err
	}
	d.seen[key] = k
	return k, nil
}

// key gives value i as a map key, for kinds that dictionaries hold.
func (b *block) key(i int) (string, bool) {
	switch {
	case b.kind == varBlock, b.kind == fixedBlock && b.bits%8 == 0:
		return string(b.value(i)), true
	case b.kind == fixedBlock:
		if getBit(b.data, i) {
			return "\x01", true
		}
		return "\x00", true
	default:
		return "", false
	}
}

func (d *dictBuilder) arrayData(typ arrow.DataType, vb *memory.Buffer, valid []byte, nulls int) (*array.Data, error) {
	width := d.typ.IndexType.(arrow.FixedWidthDataType).BitWidth() / 8
	limit := uint64(1)<<(8*width-1) - 1
	switch d.typ.IndexType.ID() {
	case arrow.UINT8, arrow.UINT16, arrow.UINT32, arrow.UINT64:
		limit = 1<<(8*width-1)*2 - 1
	}
	raw := make([]byte, len(d.idx)*width)
	for i, k := range d.idx {
		if k == strayIndex {
			if nulls == 0 || getBit(valid, i) {
				return nil, fault.Corruptf(-1, "encoding: value %d has a dictionary index out of range", i)
			}
			continue
		}
		if uint64(k) > limit {
			return nil, fault.New(fault.Exhausted, "encoding: %d dictionary values do not fit index type %s; ask for fewer rows", d.items.n, d.typ.IndexType)
		}
		for b := range min(width, 4) {
			raw[i*width+b] = byte(k >> (8 * b))
		}
	}
	dict, err := d.items.arrayData(nil, 0)
	if err != nil {
		return nil, err
	}
	defer dict.Release()
	return array.NewDataWithDictionary(typ, len(d.idx), []*memory.Buffer{vb, memory.NewBufferBytes(raw)}, nulls, 0, dict), nil
}
