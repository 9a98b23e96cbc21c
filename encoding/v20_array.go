package encoding

import (
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/internal/lancepb"
)

// array20 decodes one ArrayEncoding for a selection of its slots. The calls
// come in this order: want, a fetch, more, a fetch, take. Two rounds are
// enough: only the bytes of strings lie at places that other buffers tell.
type array20 interface {
	want(q *queue20) error
	more(q *queue20) error
	take() (slots20, error)
}

// slots20 is what a selection decodes to.
type slots20 struct {
	n     int
	block *block
	idx   []uint32 // when set, slot i is item idx[i] of block, if it is valid
	valid []byte   // nil = all valid
}

// mask adds the nulls of a further bitmap.
func (s *slots20) mask(valid []byte) {
	if s.valid == nil {
		s.valid = valid
		return
	}
	both := make([]byte, (s.n+7)/8)
	for i := range both {
		both[i] = s.valid[i] & valid[i]
	}
	s.valid = both
}

// newArray20 plans decoding sel, sorted ranges of n slots. typed says that the
// field has a dictionary type, which decides what a dictionary means.
func newArray20(p *page20, enc *lancepb.ArrayEncoding20, n uint64, sel []Range, typed bool, depth int) (array20, error) {
	if depth > maxDepth20 {
		return nil, fault.Corruptf(-1, "encoding: array encodings nested deeper than %d", maxDepth20)
	}
	count, err := countSlots(sel)
	if err != nil {
		return nil, err
	}
	switch m := enc.GetArray().(type) {
	case *lancepb.ArrayEncoding20_Nullable:
		return newNullable20(p, m.Nullable, n, sel, count, typed, depth)
	case *lancepb.ArrayEncoding20_Flat:
		return newFlat20(p, m.Flat, n, sel, count)
	case *lancepb.ArrayEncoding20_Bitpacked:
		return newStream20(p, m.Bitpacked, n, sel, count)
	case *lancepb.ArrayEncoding20_BitpackedForNonNeg:
		return newGroups20(p, m.BitpackedForNonNeg, n, sel, count)
	case *lancepb.ArrayEncoding20_FixedSizeList:
		return newFixedList20(p, m.FixedSizeList, n, sel, count, depth)
	case *lancepb.ArrayEncoding20_Binary:
		return newBinary20(p, m.Binary, n, sel)
	case *lancepb.ArrayEncoding20_FixedSizeBinary:
		return newFixedBinary20(p, m.FixedSizeBinary, n, sel, count)
	case *lancepb.ArrayEncoding20_Fsst:
		return newFsst20(p, m.Fsst, n, sel, depth)
	case *lancepb.ArrayEncoding20_Dictionary:
		return newDictionary20(p, m.Dictionary, n, sel, typed, depth)
	case *lancepb.ArrayEncoding20_PackedStruct:
		return newPacked20(p, m.PackedStruct, n, sel, count)
	default:
		return nil, fault.New(fault.Unsupported, "encoding: unsupported 2.0 encoding: %s", kindOf20(enc))
	}
}

// newPlain20 reads what other arrays are built from: offsets, indices, bitmaps
// and bytes. They are plain numbers, known after one round of requests;
// anything else in their place is refused before it is asked for bytes.
func newPlain20(p *page20, what string, enc *lancepb.ArrayEncoding20, n uint64, sel []Range, count int) (array20, error) {
	enc = bare20(enc)
	if enc.GetFlat() == nil && count > maxSlots20 {
		return nil, tooLarge(int64(count))
	}
	switch m := enc.GetArray().(type) {
	case *lancepb.ArrayEncoding20_Flat:
		return newFlat20(p, m.Flat, n, sel, count)
	case *lancepb.ArrayEncoding20_Bitpacked:
		return newStream20(p, m.Bitpacked, n, sel, count)
	case *lancepb.ArrayEncoding20_BitpackedForNonNeg:
		return newGroups20(p, m.BitpackedForNonNeg, n, sel, count)
	default:
		return nil, fault.New(fault.Unsupported, "encoding: unsupported 2.0 encoding: %s stored as %s", what, kindOf20(enc))
	}
}

// nulls20 is a run of nulls, stored nowhere.
type nulls20 int

func (nulls20) want(*queue20) error { return nil }
func (nulls20) more(*queue20) error { return nil }
func (n nulls20) take() (slots20, error) {
	return slots20{n: int(n), block: &block{kind: nullBlock, n: int(n)}, valid: make([]byte, (n+7)/8)}, nil
}

// beside20 is an array with plain numbers beside it; those never need a second
// round.
type beside20 struct{ plain, array array20 }

func (b *beside20) want(q *queue20) error {
	if err := b.plain.want(q); err != nil {
		return err
	}
	return b.array.want(q)
}

func (b *beside20) more(q *queue20) error { return b.array.more(q) }

// masked20 is values under a validity bitmap (sheet section 5.2).
type masked20 struct{ beside20 }

func newNullable20(p *page20, m *lancepb.Nullable20, n uint64, sel []Range, count int, typed bool, depth int) (array20, error) {
	switch k := m.GetNullability().(type) {
	case *lancepb.Nullable20_NoNulls_:
		return newArray20(p, k.NoNulls.GetValues(), n, sel, typed, depth+1)
	case *lancepb.Nullable20_AllNulls_:
		return nulls20(count), nil
	case *lancepb.Nullable20_SomeNulls_:
		validity, err := newPlain20(p, "validity", k.SomeNulls.GetValidity(), n, sel, count)
		if err != nil {
			return nil, err
		}
		values, err := newArray20(p, k.SomeNulls.GetValues(), n, sel, typed, depth+1)
		if err != nil {
			return nil, err
		}
		return &masked20{beside20{validity, values}}, nil
	default:
		return nil, fault.New(fault.Unsupported, "encoding: unsupported 2.0 encoding: nullable %s", unknownField(m))
	}
}

func (m *masked20) take() (slots20, error) {
	s, err := m.array.take()
	if err != nil {
		return slots20{}, err
	}
	v, err := m.plain.take()
	if err != nil {
		return slots20{}, err
	}
	if v.block.bits != 1 {
		return slots20{}, fault.New(fault.Unsupported, "encoding: unsupported 2.0 encoding: validity of %d bits", v.block.bits)
	}
	s.mask(v.block.data)
	return s, nil
}

// fixedList20 is fixed-size lists: their items without gaps, those of null
// lists included (sheet section 5.5).
type fixedList20 struct {
	items array20
	dim   int
	count int
}

func newFixedList20(p *page20, m *lancepb.FixedSizeList20, n uint64, sel []Range, count, depth int) (array20, error) {
	dim := uint64(m.GetDimension())
	if dim == 0 || dim > maxSlots20 || n > maxItems20/dim {
		return nil, fault.Corruptf(-1, "encoding: %d lists of %d items in one page", n, dim)
	}
	scaled := make([]Range, len(sel))
	for i, s := range sel {
		scaled[i] = Range{s.Start * dim, s.End * dim}
	}
	items, err := newArray20(p, m.GetItems(), n*dim, scaled, false, depth+1)
	if err != nil {
		return nil, err
	}
	return &fixedList20{items: items, dim: int(dim), count: count}, nil
}

// maxItems20 keeps slot numbers within a page far from overflow.
const maxItems20 = 1 << 50

func (l *fixedList20) want(q *queue20) error { return l.items.want(q) }
func (l *fixedList20) more(q *queue20) error { return l.items.more(q) }

func (l *fixedList20) take() (slots20, error) {
	items, err := l.items.take()
	if err != nil {
		return slots20{}, err
	}
	if items.idx != nil || items.block.kind == varBlock {
		return slots20{}, fault.New(fault.Unsupported, "encoding: unsupported 2.0 encoding: fixed-size lists of strings")
	}
	kid := *items.block
	kid.valid = items.valid
	return slots20{n: l.count, block: &block{kind: listBlock, n: l.count, dim: l.dim, kids: []*block{&kid}}}, nil
}

// dictionary20 has two meanings (sheet section 5.4). For a field of a
// dictionary type the indices are its keys, and nulls are nulls of the items.
// For any other field index 0 is null and i is item i-1.
type dictionary20 struct {
	beside20 // indices and items
	typed    bool
}

// maxDictionary20 bounds what items that no bytes stand for can ask for.
const maxDictionary20 = 1 << 25

func newDictionary20(p *page20, m *lancepb.Dictionary20, n uint64, sel []Range, typed bool, depth int) (array20, error) {
	slots, err := countSlots(sel)
	if err != nil {
		return nil, err
	}
	indices, err := newPlain20(p, "indices", m.GetIndices(), n, sel, slots)
	if err != nil {
		return nil, err
	}
	count := uint64(m.GetNumDictionaryItems())
	if count > maxDictionary20 {
		return nil, fault.New(fault.Exhausted, "encoding: a dictionary of %d items, at most %d are read", count, maxDictionary20)
	}
	all := []Range{{0, count}}
	if count == 0 {
		all = nil
	}
	items, err := newArray20(p, m.GetItems(), count, all, false, depth+1)
	if err != nil {
		return nil, err
	}
	return &dictionary20{beside20{indices, items}, typed}, nil
}

func (d *dictionary20) take() (slots20, error) {
	// Items first: nothing is held while those of dictionaries within are made.
	items, err := d.array.take()
	if err != nil {
		return slots20{}, err
	}
	s, err := d.plain.take()
	if err != nil {
		return slots20{}, err
	}
	keys, err := s.numbers()
	if err != nil {
		return slots20{}, err
	}
	idx, nulls := make([]uint32, s.n), 0
	valid := appendOnes(nil, 0, s.n)
	for i, k := range keys {
		item := k
		if !d.typed {
			item-- // wraps to the highest number for 0, which names no item
		}
		switch {
		case !d.typed && k == 0, item < uint64(items.n) && items.valid != nil && !getBit(items.valid, int(item)):
			valid[i>>3] &^= 1 << (i & 7)
			idx[i] = strayIndex
			nulls++
		case item >= uint64(items.n):
			return slots20{}, fault.Corruptf(-1, "encoding: dictionary index %d of slot %d, with %d items", k, i, items.n)
		case items.idx != nil:
			idx[i] = items.idx[item] // the items are a dictionary themselves
		default:
			idx[i] = uint32(item)
		}
	}
	if nulls == 0 {
		valid = nil
	}
	if nulls == s.n {
		// Items may all be null, and then have no values to point at.
		return slots20{n: s.n, block: &block{kind: nullBlock, n: s.n}, valid: valid}, nil
	}
	return slots20{n: s.n, block: items.block, idx: idx, valid: valid}, nil
}
