// Package validate says whether an Arrow array that came from outside keeps the
// promises of its type, so that code behind it may trust offsets, lengths,
// bitmaps, indices and text.
//
// Arrays from a stream are views of the sender's bytes. Arrow for Go checks
// some of it when it builds them and panics later on the rest; a List with
// decreasing offsets or a validity bitmap that is too short ends the goroutine
// that looks at it. One pass of Array per column, at the door, is enough.
package validate

import (
	"encoding/binary"
	"math"
	"sort"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/flightblob/flightblob/internal/fault"
)

// Array checks an array and all below it. The error is fault.Invalid and says
// what is wrong; the caller adds the name of the column. The content of values
// that nobody can see is free: text may be anything below a null, in a struct
// or list that is null, and where no list reaches.
func Array(a arrow.Array) error { return check(a.Data(), a.DataType(), nil, 0) }

// maxDepth bounds the nesting of types.
const maxDepth = 200

func bad(format string, args ...any) error { return fault.New(fault.Invalid, format, args...) }

// hidden tells whether value i of an array, counted from its offset, lies below
// something null or outside of every list. It is asked when something is wrong
// with the value's content only: views and indices must be sound wherever the
// value itself is not null. Nil hides nothing.
type hidden func(i int) bool

func check(d arrow.ArrayData, t arrow.DataType, h hidden, depth int) error {
	if depth > maxDepth {
		return bad("an array is nested more than %d levels deep", maxDepth)
	}
	if d.Len() < 0 || d.Offset() < 0 || d.Len() > math.MaxInt-d.Offset()-1 {
		return bad("an array of %s has length %d at offset %d", t.Name(), d.Len(), d.Offset())
	}
	if ext, ok := t.(arrow.ExtensionType); ok {
		return check(d, ext.StorageType(), h, depth+1)
	}
	if err := checkValidity(d, t); err != nil {
		return err
	}
	switch t := t.(type) {
	case *arrow.NullType:
		return nil
	case *arrow.StructType:
		return checkStruct(d, t, h, depth)
	case *arrow.ListType:
		return checkList(d, t, offsets32(d), t.Elem(), h, depth)
	case *arrow.MapType:
		return checkMap(d, t, h, depth)
	case *arrow.LargeListType:
		return checkList(d, t, offsets64(d), t.Elem(), h, depth)
	case *arrow.FixedSizeListType:
		return checkFixedList(d, t, h, depth)
	case *arrow.DictionaryType:
		return checkDictionary(d, t, depth)
	case *arrow.BinaryType, *arrow.StringType:
		return checkBytes(d, t, offsets32(d), h)
	case *arrow.LargeBinaryType, *arrow.LargeStringType:
		return checkBytes(d, t, offsets64(d), h)
	case *arrow.BinaryViewType, *arrow.StringViewType:
		return checkViews(d, t, h)
	case arrow.FixedWidthDataType:
		return checkFixed(d, t)
	}
	return bad("arrays of type %s are not taken", t)
}

// buffer gives a buffer's bytes; a missing one is empty.
func buffer(d arrow.ArrayData, i int) []byte {
	if bs := d.Buffers(); i < len(bs) && bs[i] != nil {
		return bs[i].Bytes()
	}
	return nil
}

func end(d arrow.ArrayData) int { return d.Offset() + d.Len() }

// checkValidity wants a bitmap that covers the array and whose zeros are as
// many as the array claims: code that trusts the count must see what code that
// looks at the bits sees.
func checkValidity(d arrow.ArrayData, t arrow.DataType) error {
	if t.ID() == arrow.NULL {
		return nil
	}
	bits := buffer(d, 0)
	if len(bits) == 0 {
		if d.NullN() < 0 && d.Len() > 0 { // Arrow for Go would count the bits of nothing
			return bad("an array of %s has an unknown number of nulls and no validity bitmap", t.Name())
		}
		if d.NullN() > 0 {
			return bad("an array of %s claims %d nulls and has no validity bitmap", t.Name(), d.NullN())
		}
		if bs := d.Buffers(); len(bs) > 0 && bs[0] != nil && d.Len() > 0 {
			return bad("an array of %s has an empty validity bitmap for %d values", t.Name(), d.Len())
		}
		return nil
	}
	if len(bits) < int(bitutil.BytesForBits(int64(end(d)))) {
		return bad("an array of %s has a validity bitmap of %d bytes for %d values", t.Name(), len(bits), end(d))
	}
	if n := d.NullN(); n >= 0 {
		if nulls := d.Len() - bitutil.CountSetBits(bits, d.Offset(), d.Len()); nulls != n {
			return bad("an array of %s claims %d nulls and has %d", t.Name(), n, nulls)
		}
	}
	return nil
}

// isNull tells whether value i, counted from the array's offset, is null.
func isNull(d arrow.ArrayData, i int) bool {
	bits := buffer(d, 0)
	return len(bits) > 0 && d.DataType().ID() != arrow.NULL && !bitutil.BitIsSet(bits, d.Offset()+i)
}

// hides tells whether value i is null or hidden.
func (h hidden) hides(d arrow.ArrayData, i int) bool { return isNull(d, i) || h != nil && h(i) }

func checkFixed(d arrow.ArrayData, t arrow.FixedWidthDataType) error {
	width := t.BitWidth()
	if width < 0 {
		return bad("an array of %s has values of %d bits", t, width)
	}
	if width == 0 || d.Len() == 0 {
		return nil
	}
	if end(d) > (math.MaxInt-7)/width || len(buffer(d, 1)) < (end(d)*width+7)/8 {
		return bad("an array of %s has %d bytes for %d values", t, len(buffer(d, 1)), end(d))
	}
	return nil
}

func checkStruct(d arrow.ArrayData, t *arrow.StructType, h hidden, depth int) error {
	if len(d.Children()) != t.NumFields() {
		return bad("a struct of %d fields has %d children", t.NumFields(), len(d.Children()))
	}
	below := func(i int) bool {
		row := i - d.Offset()
		return row < 0 || row >= d.Len() || h.hides(d, row)
	}
	for i, c := range d.Children() {
		if c.Len() < end(d) {
			return bad("child %s of a struct holds %d values for %d rows", fault.Quote(t.Field(i).Name), c.Len(), end(d))
		}
		if err := check(c, t.Field(i).Type, below, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// offsets reads the offset at value i, counted from the array's offset; count
// is how many the buffer holds from there.
type offsets struct {
	at    func(i int) int64
	count int
}

func offsets32(d arrow.ArrayData) offsets {
	b := arrow.Int32Traits.CastFromBytes(buffer(d, 1))
	return offsets{func(i int) int64 { return int64(b[d.Offset()+i]) }, len(b) - d.Offset()}
}

func offsets64(d arrow.ArrayData) offsets {
	b := arrow.Int64Traits.CastFromBytes(buffer(d, 1))
	return offsets{func(i int) int64 { return b[d.Offset()+i] }, len(b) - d.Offset()}
}

// rising checks that n values have n+1 offsets that never fall and stay within
// [0, limit].
func (o offsets) rising(t arrow.DataType, n int, limit int64) error {
	if n == 0 {
		return nil
	}
	if o.count < n+1 {
		return bad("an array of %s has %d offsets for %d values", t.Name(), max(o.count, 0), n)
	}
	last := o.at(0)
	if last < 0 {
		return bad("an array of %s has the offset %d", t.Name(), last)
	}
	for i := 1; i <= n; i++ {
		next := o.at(i)
		if next < last {
			return bad("an array of %s has falling offsets: %d, then %d", t.Name(), last, next)
		}
		last = next
	}
	if last > limit {
		return bad("an array of %s ends at offset %d of %d", t.Name(), last, limit)
	}
	return nil
}

func checkList(d arrow.ArrayData, t arrow.DataType, o offsets, elem arrow.DataType, h hidden, depth int) error {
	if len(d.Children()) != 1 {
		return bad("a list has %d children", len(d.Children()))
	}
	child := d.Children()[0]
	if err := o.rising(t, d.Len(), int64(child.Len())); err != nil {
		return err
	}
	return check(child, elem, func(i int) bool { return hiddenElement(d, o, h, i) }, depth+1)
}

// hiddenElement tells whether no visible list holds element i of the child.
func hiddenElement(d arrow.ArrayData, o offsets, h hidden, i int) bool {
	if d.Len() == 0 || int64(i) < o.at(0) || int64(i) >= o.at(d.Len()) {
		return true
	}
	row := sort.Search(d.Len(), func(row int) bool { return o.at(row+1) > int64(i) })
	return h.hides(d, row)
}

// checkMap also wants entries and keys without nulls.
func checkMap(d arrow.ArrayData, t *arrow.MapType, h hidden, depth int) error {
	if err := checkList(d, t, offsets32(d), t.Elem(), h, depth); err != nil {
		return err
	}
	entries := d.Children()[0]
	if len(entries.Children()) != 2 {
		return bad("the entries of a map have %d children", len(entries.Children()))
	}
	keys := entries.Children()[0]
	for i := range entries.Len() {
		if isNull(entries, i) || isNull(keys, entries.Offset()+i) {
			if !hiddenElement(d, offsets32(d), h, i) {
				return bad("a map has a null entry or key")
			}
		}
	}
	return nil
}

func checkFixedList(d arrow.ArrayData, t *arrow.FixedSizeListType, h hidden, depth int) error {
	if len(d.Children()) != 1 {
		return bad("a fixed-size list has %d children", len(d.Children()))
	}
	child, n := d.Children()[0], int(t.Len())
	if n < 0 || n > 0 && end(d) > math.MaxInt/n || child.Len() < end(d)*n {
		return bad("a fixed-size list of %d holds %d values for %d rows", n, child.Len(), end(d))
	}
	return check(child, t.Elem(), func(i int) bool {
		row := i/max(n, 1) - d.Offset()
		return row < 0 || row >= d.Len() || h.hides(d, row)
	}, depth+1)
}

func checkDictionary(d arrow.ArrayData, t *arrow.DictionaryType, depth int) error {
	width, ok := t.IndexType.(arrow.FixedWidthDataType)
	if !ok || !arrow.IsInteger(t.IndexType.ID()) {
		return bad("a dictionary has indices of type %s", t.IndexType)
	}
	if err := checkFixed(d, width); err != nil {
		return err
	}
	dictionary := d.Dictionary()
	if dictionary == nil {
		return bad("a dictionary array has no dictionary")
	}
	if err := check(dictionary, t.ValueType, nil, depth+1); err != nil {
		return err
	}
	indices := buffer(d, 1)
	size := width.Bytes()
	signed := arrow.IsSignedInteger(t.IndexType.ID())
	for i := range d.Len() {
		b := indices[(d.Offset()+i)*size:][:size]
		if v := index(b, signed); v >= uint64(dictionary.Len()) && !isNull(d, i) {
			return bad("a dictionary of %d values is asked for number %d", dictionary.Len(), int64(v))
		}
	}
	return nil
}

// index reads a little-endian index; negative ones become huge.
func index(b []byte, signed bool) uint64 {
	switch len(b) {
	case 1:
		if signed {
			return uint64(int8(b[0]))
		}
		return uint64(b[0])
	case 2:
		v := binary.LittleEndian.Uint16(b)
		if signed {
			return uint64(int16(v))
		}
		return uint64(v)
	case 4:
		v := binary.LittleEndian.Uint32(b)
		if signed {
			return uint64(int32(v))
		}
		return uint64(v)
	}
	return binary.LittleEndian.Uint64(b)
}

func isText(t arrow.DataType) bool {
	switch t.ID() {
	case arrow.STRING, arrow.LARGE_STRING, arrow.STRING_VIEW:
		return true
	}
	return false
}

func checkBytes(d arrow.ArrayData, t arrow.DataType, o offsets, h hidden) error {
	data := buffer(d, 2)
	if err := o.rising(t, d.Len(), int64(len(data))); err != nil || !isText(t) || d.Len() == 0 {
		return err
	}
	// Text that is sound as a whole and cut between characters is sound.
	if utf8.Valid(data[o.at(0):o.at(d.Len())]) && cutBetween(data, o, d.Len()) {
		return nil
	}
	for i := range d.Len() {
		if !utf8.Valid(data[o.at(i):o.at(i+1)]) && !h.hides(d, i) {
			return notText(i, data[o.at(i):o.at(i+1)])
		}
	}
	return nil
}

func cutBetween(data []byte, o offsets, n int) bool {
	last := o.at(n)
	for i := range n {
		if at := o.at(i); at < last && !utf8.RuneStart(data[at]) {
			return false
		}
	}
	return true
}

func notText(i int, value []byte) error {
	return bad("value %d of a text array is not UTF-8: %s", i, fault.Quote(string(value[:min(len(value), 64)])))
}

// checkViews checks values of at most 12 bytes in place and longer ones in the
// buffers that they name.
func checkViews(d arrow.ArrayData, t arrow.DataType, h hidden) error {
	const width = 16
	views := buffer(d, 1)
	if end(d) > math.MaxInt/width || len(views) < end(d)*width && d.Len() > 0 {
		return bad("an array of %s has %d bytes for %d values", t.Name(), len(views), end(d))
	}
	var buffers []*memory.Buffer
	if bs := d.Buffers(); len(bs) > 2 {
		buffers = bs[2:]
	}
	for i := range d.Len() {
		value, err := viewed(views[(d.Offset()+i)*width:][:width], buffers, t)
		if err != nil && !isNull(d, i) {
			return err
		}
		if err == nil && isText(t) && !utf8.Valid(value) && !h.hides(d, i) {
			return notText(i, value)
		}
	}
	return nil
}

// viewed gives the bytes that a view shows.
func viewed(v []byte, buffers []*memory.Buffer, t arrow.DataType) ([]byte, error) {
	const inPlace = 12
	n := int32(binary.LittleEndian.Uint32(v))
	switch {
	case n < 0:
		return nil, bad("a value of %s has %d bytes", t.Name(), n)
	case n <= inPlace:
		return v[4 : 4+n], nil
	}
	number, from := binary.LittleEndian.Uint32(v[8:]), int64(int32(binary.LittleEndian.Uint32(v[12:])))
	if uint64(number) >= uint64(len(buffers)) || buffers[number] == nil || from < 0 || from+int64(n) > int64(buffers[number].Len()) {
		return nil, bad("a value of %s lies outside its buffers: %d bytes at %d of buffer %d", t.Name(), n, from, number)
	}
	value := buffers[number].Bytes()[from : from+int64(n)]
	if string(value[:4]) != string(v[4:8]) {
		return nil, bad("a value of %s does not start as its view says", t.Name())
	}
	return value, nil
}
