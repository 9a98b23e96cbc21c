package encoding

import (
	"math"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/schema"
)

// source is an input array seen along the path to a leaf. Its buffers are
// checked as far as the path reads them, so that no array can lead outside.
type source struct {
	rows   int
	layers []sourceLayer // outermost first; the last is the leaf
	leaf   *leafSource
}

// sourceLayer is one array on the way.
type sourceLayer struct {
	kind  LayerKind
	n     int
	off   int    // physical number of slot 0
	valid []byte // bitmap by physical number; nil = all valid
	nulls bool   // every slot is null
	off32 []int32
	off64 []int64 // lists: n+1 offsets, one of the two
	dim   int
	kids  int // slots of the layer below
}

// isNull tells whether slot i is null.
func (l *sourceLayer) isNull(i int) bool {
	return l.nulls || l.valid != nil && !getBit(l.valid, l.off+i)
}

// anyNull tells whether slots [from, to) may hold a null.
func (l *sourceLayer) anyNull(from, to int) bool {
	if l.valid == nil {
		return l.nulls && to > from
	}
	return countBits(l.valid, l.off+from, l.off+to) < to-from
}

// child gives the slot below slot i, the first one of a fixed-size list.
func (l *sourceLayer) child(i int) int {
	if l.kind == FixedListLayer {
		return (l.off + i) * l.dim
	}
	return l.off + i
}

// offsets gives the interval of children of list i.
func (l *sourceLayer) offsets(i int) (from, to int) {
	if l.off32 != nil {
		return int(l.off32[i]), int(l.off32[i+1])
	}
	return int(l.off64[i]), int(l.off64[i+1])
}

// span gives the interval of children of slots [from, to), checked.
func (l *sourceLayer) span(from, to int) (a, b int, ok bool) {
	switch {
	case l.kind != ListLayer:
		return l.child(from), l.child(to), true
	case from == to:
		return 0, 0, true
	}
	a, _ = l.offsets(from)
	_, b = l.offsets(to - 1)
	return a, b, a >= 0 && a <= b && b <= l.kids
}

// bind checks an array against the path.
func (e *Encoder) bind(data arrow.ArrayData) (*source, error) {
	s := &source{rows: data.Len()}
	for i, f := range e.path {
		l := sourceLayer{kind: e.steps[i].kind, dim: e.steps[i].dim, n: data.Len(), off: data.Offset()}
		if f.Shape == schema.Leaf {
			leaf, err := e.vals.bind(data)
			if err != nil {
				return nil, e.misfit(f, data, err)
			}
			l.valid, l.off, l.nulls = leaf.valid, leaf.validOff, leaf.allNull
			s.leaf = leaf
			s.layers = append(s.layers, l)
			return s, nil
		}
		kid, err := l.bind(f, e.path[i+1], data)
		if err != nil {
			return nil, e.misfit(f, data, err)
		}
		s.layers = append(s.layers, l)
		data = kid
	}
	return nil, fault.New(fault.Internal, "encoding: a path that does not end in a leaf")
}

func (e *Encoder) misfit(f *schema.Field, data arrow.ArrayData, err error) error {
	return fault.New(fault.Invalid, "encoding: column %s: an array of type %s: %w", f.FullName(), data.DataType(), err)
}

// bind reads one nested array and finds the array of the field below.
func (l *sourceLayer) bind(f, below *schema.Field, data arrow.ArrayData) (arrow.ArrayData, error) {
	typ := data.DataType()
	if x, ok := typ.(arrow.ExtensionType); ok {
		typ = x.StorageType()
	}
	var ok bool
	switch f.Shape {
	case schema.Struct:
		ok = typ.ID() == arrow.STRUCT
	case schema.List, schema.LargeList:
		ok = typ.ID() == arrow.LIST || typ.ID() == arrow.LARGE_LIST
	case schema.Map:
		ok = typ.ID() == arrow.MAP
	case schema.FixedSizeList:
		t, is := typ.(*arrow.FixedSizeListType)
		ok = is && int(t.Len()) == f.Dimension
	}
	if !ok {
		return nil, fault.New(fault.Invalid, "the field has the type %s", f.Logical)
	}
	var err error
	if l.valid, err = validity(data); err != nil {
		return nil, err
	}
	index := 0
	for k, c := range f.Children {
		if c == below {
			index = k
		}
	}
	kids := data.Children()
	if index >= len(kids) || f.Shape != schema.Struct && len(kids) != 1 || f.Shape == schema.Struct && len(kids) != len(f.Children) {
		return nil, fault.New(fault.Invalid, "it has %d children, the field %d", len(kids), len(f.Children))
	}
	kid := kids[index]
	l.kids = kid.Len()
	switch {
	case l.kind == ListLayer:
		err = l.bindOffsets(data, typ.ID() == arrow.LARGE_LIST)
	case l.n > 0 && l.child(l.n) > l.kids:
		err = fault.New(fault.Invalid, "%d slots need %d of the child, which has %d", l.n, l.child(l.n), l.kids)
	}
	return kid, err
}

func (l *sourceLayer) bindOffsets(data arrow.ArrayData, large bool) error {
	if l.n == 0 {
		l.off32 = []int32{0}
		return nil
	}
	raw := bufferBytes(data, 1)
	width := 4
	if large {
		width = 8
	}
	if len(raw)/width < l.off+l.n+1 {
		return fault.New(fault.Invalid, "%d bytes of offsets for %d lists", len(raw), l.n)
	}
	if large {
		l.off64 = arrow.Int64Traits.CastFromBytes(raw)[l.off : l.off+l.n+1]
	} else {
		l.off32 = arrow.Int32Traits.CastFromBytes(raw)[l.off : l.off+l.n+1]
	}
	return nil
}

// bufferBytes gives the bytes of a buffer, none when it is absent.
func bufferBytes(data arrow.ArrayData, i int) []byte {
	if bufs := data.Buffers(); i < len(bufs) && bufs[i] != nil {
		return bufs[i].Bytes()
	}
	return nil
}

// validity gives an array's bitmap, nil when all slots are valid.
func validity(data arrow.ArrayData) ([]byte, error) {
	bits := bufferBytes(data, 0)
	if bits == nil || data.NullN() == 0 {
		return nil, nil
	}
	if len(bits) < (data.Offset()+data.Len()+7)/8 {
		return nil, fault.New(fault.Invalid, "a bitmap of %d bytes for %d slots", len(bits), data.Len())
	}
	return bits, nil
}

// size estimates the bytes that rows [from, to) take while they wait.
func (s *source) size(from, to int) (int, error) {
	total := 0
	for i := range s.layers[:len(s.layers)-1] {
		l := &s.layers[i]
		if l.kind == ListLayer {
			total += 4 * (to - from)
		}
		a, b, ok := l.span(from, to)
		if !ok {
			return 0, l.badOffsets(from, to)
		}
		from, to = a, b
	}
	size, err := s.leaf.size(from, to)
	return total + size, err
}

func (l *sourceLayer) badOffsets(from, to int) error {
	a, _ := l.offsets(from)
	_, b := l.offsets(to - 1)
	return fault.New(fault.Invalid, "encoding: lists %d to %d have the offsets %d to %d, over %d items", from, to, a, b, l.kids)
}

// shredding is scratch memory: entries of the rows in work, down to the layer
// that has been reached.
type shredding struct {
	rep, def   []uint16
	at         []int // slot of an entry in the layer, where def is 0
	rep2, def2 []uint16
	at2        []int
	runs       []slotRun
	shown      []uint16 // codes of entries that own a value slot; none = all are values
}

// slotRun is an interval of slots of one layer.
type slotRun struct{ at, n int }

// shred adds the levels and values of rows [from, to) to those that wait.
func (e *Encoder) shred(s *source, from, to int) error {
	if e.codes.lists == 0 {
		return e.shredFlat(s, from, to)
	}
	return e.shredLists(s, from, to)
}

// shredFlat is shred without lists: every slot of the leaf is an entry.
func (e *Encoder) shredFlat(s *source, from, to int) error {
	entries := (to - from) * e.scale
	base := e.vals.n
	def := e.def
	stride := e.scale
	for i := range s.layers {
		l := &s.layers[i]
		if l.anyNull(from, to) {
			if def == nil {
				def = make([]uint16, base, base+max(entries, 1024))
			}
			if len(def) == base {
				def = grow16(def, entries)
			}
			if err := e.mark(l, i, def[base:], from, to, stride); err != nil {
				return err
			}
		}
		if i == len(s.layers)-1 {
			break
		}
		from, to = l.child(from), l.child(to)
		if l.kind == FixedListLayer {
			stride /= l.dim
		}
	}
	if def != nil && len(def) == base {
		def = grow16(def, entries)
	}
	e.def = def
	var nulls []uint16
	if def != nil {
		nulls = def[base:]
	}
	return e.vals.append(s.leaf, from, to, nulls)
}

// grow16 extends levels by n zeros.
func grow16(s []uint16, n int) []uint16 {
	at := len(s)
	if cap(s)-at < n {
		grown := make([]uint16, at, max(2*cap(s), at+n))
		copy(grown, s)
		s = grown
	}
	s = s[:at+n]
	clear(s[at:])
	return s
}

// mark gives the null code of layer i to the entries of its null slots that no
// layer above has marked; each slot has stride entries.
func (e *Encoder) mark(l *sourceLayer, i int, def []uint16, from, to, stride int) error {
	code := e.codes.layers[i].null
	for k := range to - from {
		if !l.isNull(from + k) {
			continue
		}
		for j := k * stride; j < (k+1)*stride; j++ {
			if def[j] == 0 {
				if !e.path[i].Nullable {
					return e.forbidden(i, uint64(e.rows)+e.next+uint64(j/e.scale))
				}
				def[j] = code
			}
		}
	}
	return nil
}

// forbidden is the error of a null in a field that must not have any.
func (e *Encoder) forbidden(i int, row uint64) error {
	return fault.New(fault.Invalid, "encoding: column %s is null in row %d, counted from the start of the file; the field is declared not null", e.path[i].FullName(), row)
}

// shredLists is shred for a path with lists: entries are expanded layer by
// layer down to the innermost list. From there on slots and values correspond
// one to one, which runs of slots describe.
func (e *Encoder) shredLists(s *source, from, to int) error {
	w := &e.work
	n := to - from
	w.rep, w.def, w.at = resize16(w.rep, n), resize16(w.def, n), resizeInt(w.at, n)
	for i := range n {
		w.rep[i], w.def[i], w.at[i] = uint16(e.codes.lists), 0, from+i
	}
	depth, left := 0, e.codes.lists
	for ; left > 0; depth++ {
		l := &s.layers[depth]
		var err error
		if l.kind == ListLayer {
			left--
			err = e.expand(l, depth, left == 0)
		} else {
			err = e.descend(l, depth)
		}
		if err != nil {
			return err
		}
	}
	if err := e.shown(s, depth); err != nil {
		return err
	}
	if e.def == nil {
		e.def = make([]uint16, len(e.rep), len(e.rep)+len(w.def))
	}
	e.rep = append(e.rep, w.rep...)
	e.def = append(e.def, w.def...)
	return nil
}

func resize16(s []uint16, n int) []uint16 {
	if cap(s) < n {
		return make([]uint16, n, n+n/2)
	}
	return s[:n]
}

func resizeInt(s []int, n int) []int {
	if cap(s) < n {
		return make([]int, n, n+n/2)
	}
	return s[:n]
}

// descend passes a struct layer above a list.
func (e *Encoder) descend(l *sourceLayer, depth int) error {
	w := &e.work
	nulls := l.valid != nil
	for i, d := range w.def {
		if d != 0 {
			continue
		}
		if nulls && l.isNull(w.at[i]) {
			if !e.path[depth].Nullable {
				return e.forbidden(depth, e.rowOf(i))
			}
			w.def[i] = e.codes.layers[depth].null
			continue
		}
		w.at[i] = l.child(w.at[i])
	}
	return nil
}

// rowOf is the number of the row that entry i in work belongs to.
func (e *Encoder) rowOf(i int) uint64 {
	row := e.next + uint64(e.rows)
	for _, r := range e.work.rep[1 : i+1] {
		if int(r) == e.codes.lists {
			row++
		}
	}
	return row
}

// expand replaces the entries of a list layer by those of its elements. Below
// the innermost list it notes runs of slots instead of single ones.
func (e *Encoder) expand(l *sourceLayer, depth int, innermost bool) error {
	w, codes := &e.work, &e.codes.layers[depth]
	total := 0
	for i, d := range w.def {
		if d != 0 {
			total++
			continue
		}
		a, b := l.offsets(w.at[i])
		if a < 0 || b < a || b > l.kids {
			return l.badOffsets(w.at[i], w.at[i]+1)
		}
		if total += max(b-a, 1); total > math.MaxInt32 {
			return fault.New(fault.Exhausted, "encoding: column %s: rows of more than 2^31 items; write fewer in one batch", e.path[depth].FullName())
		}
	}
	rep, def := resize16(w.rep2, total), resize16(w.def2, total)
	at := w.at2
	if !innermost {
		at = resizeInt(at, total)
	}
	w.runs = w.runs[:0]
	k := 0
	for i, d := range w.def {
		rep[k] = w.rep[i]
		if d != 0 {
			def[k] = d
			k++
			continue
		}
		slot := w.at[i]
		a, b := l.offsets(slot)
		switch {
		case l.valid != nil && l.isNull(slot):
			if !e.path[depth].Nullable {
				return e.forbidden(depth, e.rowOf(i))
			}
			def[k] = codes.null
			k++
			continue
		case a == b:
			def[k] = codes.empty
			k++
			continue
		}
		for j := k + 1; j < k+b-a; j++ {
			rep[j] = codes.rep
		}
		clear(def[k : k+b-a])
		if innermost {
			if n := len(w.runs); n > 0 && w.runs[n-1].at+w.runs[n-1].n == a {
				w.runs[n-1].n += b - a
			} else {
				w.runs = append(w.runs, slotRun{a, b - a})
			}
		} else {
			for j := range b - a {
				at[k+j] = a + j
			}
		}
		k += b - a
	}
	w.rep, w.rep2 = rep[:k], w.rep
	w.def, w.def2 = def[:k], w.def
	if !innermost {
		w.at, w.at2 = at[:k], w.at
	}
	return nil
}

// shown passes the layers below the innermost list, where every slot owns a
// value, and takes the values.
func (e *Encoder) shown(s *source, depth int) error {
	w := &e.work
	w.shown = w.shown[:0]
	slots := 0
	for _, r := range w.runs {
		slots += r.n
	}
	for ; depth < len(s.layers); depth++ {
		l, k := &s.layers[depth], 0
		for i, r := range w.runs {
			if r.at+r.n > l.n {
				return fault.New(fault.Invalid, "encoding: column %s has %d slots, a list above it refers to %d", e.path[depth].FullName(), l.n, r.at+r.n)
			}
			if l.anyNull(r.at, r.at+r.n) {
				if len(w.shown) == 0 {
					w.shown = resize16(w.shown, slots)
					clear(w.shown)
				}
				if err := e.markShown(l, depth, w.shown[k:], r); err != nil {
					return err
				}
			}
			k += r.n
			if depth < len(s.layers)-1 {
				w.runs[i].at = l.child(r.at)
			}
		}
	}
	k := 0
	for _, r := range w.runs {
		var nulls []uint16
		if len(w.shown) > 0 {
			nulls = w.shown[k : k+r.n]
		}
		if err := e.vals.append(s.leaf, r.at, r.at+r.n, nulls); err != nil {
			return err
		}
		k += r.n
	}
	if len(w.shown) == 0 {
		return nil
	}
	k = 0
	for i, d := range w.def {
		if d == 0 {
			w.def[i] = w.shown[k]
			k++
		}
	}
	return nil
}

func (e *Encoder) markShown(l *sourceLayer, depth int, shown []uint16, r slotRun) error {
	code := e.codes.layers[depth].null
	for k := range r.n {
		if shown[k] == 0 && l.isNull(r.at+k) {
			if !e.path[depth].Nullable {
				return fault.New(fault.Invalid, "encoding: column %s holds a null; the field is declared not null", e.path[depth].FullName())
			}
			shown[k] = code
		}
	}
	return nil
}
