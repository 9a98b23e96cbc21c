package schema

import (
	"math"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/internal/jsonb"
	"github.com/flightblob/flightblob/internal/nest"
)

const maxOffset32 = math.MaxInt32

// blob gives the values of a blob column without views.
func (c *converter) blob(p *plan, in arrow.Array, s seen) (arrow.Array, error) {
	from, ok := in.(*array.Struct)
	if !ok {
		return c.leaf(p.to, in, p.out, s)
	}
	fields := p.out.(*arrow.StructType).Fields()
	children := make([]arrow.Array, 0, len(fields))
	for i, f := range fields {
		child, err := unwrapped(from.Field(i)), error(nil)
		if child.DataType().ID() == arrow.STRUCT { // a reference
			child.Retain()
		} else {
			child, err = c.leaf(p.to, child, f.Type, s)
		}
		if err != nil {
			for _, done := range children {
				done.Release()
			}
			return nil, err
		}
		children = append(children, child)
	}
	return nest.Assemble(p.out, from.Len(), []*memory.Buffer{nest.Validity(c.mem, from)}, children, from.NullN()), nil
}

// leaf brings values into a type that holds the same values.
func (c *converter) leaf(to *Field, in arrow.Array, t arrow.DataType, s seen) (arrow.Array, error) {
	if to.IsJSON() && to.Blob == NotBlob {
		return c.json(to, in, s)
	}
	have, isDictionary := in.DataType().(*arrow.DictionaryType)
	want, wantDictionary := t.(*arrow.DictionaryType)
	switch {
	case isDictionary && wantDictionary && arrow.TypeEqual(have.IndexType, want.IndexType) && arrow.TypeEqual(have.ValueType, want.ValueType):
		d := in.Data()
		return owned(array.NewDataWithDictionary(t, d.Len(), d.Buffers(), d.NullN(), d.Offset(), in.(*array.Dictionary).Dictionary().Data().(*array.Data))), nil
	case isDictionary:
		plain, err := c.decoded(to, in.(*array.Dictionary), valueTypeOf(t))
		if err != nil || !wantDictionary {
			return plain, err
		}
		defer plain.Release()
		return c.encoded(to, plain, want)
	case wantDictionary:
		plain, err := c.plain(to, in, want.ValueType)
		if err != nil {
			return nil, err
		}
		defer plain.Release()
		return c.encoded(to, plain, want)
	}
	return c.plain(to, in, t)
}

func valueTypeOf(t arrow.DataType) arrow.DataType {
	if d, ok := t.(*arrow.DictionaryType); ok {
		return d.ValueType
	}
	return t
}

// owned makes an array of data and gives the data back.
func owned(d arrow.ArrayData) arrow.Array {
	defer d.Release()
	return array.MakeFromData(d)
}

// plain changes what holds the values; neither side is a dictionary.
func (c *converter) plain(to *Field, in arrow.Array, t arrow.DataType) (arrow.Array, error) {
	if in.DataType().ID() == t.ID() {
		return owned(retyped(in.Data(), t)), nil
	}
	value := bytesOf(in)
	if value == nil {
		return nil, unexpectedArray(to, in)
	}
	return c.bytes(to, in, value, t)
}

// retyped lends the buffers of data to a type of the same layout. Types differ
// in names and nullability of what they hold, and in spellings of no time zone.
func retyped(d arrow.ArrayData, t arrow.DataType) arrow.ArrayData {
	var children []arrow.ArrayData
	if l, ok := t.(*arrow.FixedSizeListType); ok {
		child := retyped(d.Children()[0], l.Elem())
		defer child.Release()
		children = []arrow.ArrayData{child}
	}
	return array.NewData(t, d.Len(), d.Buffers(), children, d.NullN(), d.Offset())
}

// bytesOf gives access to binary and text values, nil for other arrays.
func bytesOf(a arrow.Array) func(i int) []byte {
	switch a := a.(type) {
	case *array.Binary:
		return a.Value
	case *array.LargeBinary:
		return a.Value
	case *array.BinaryView:
		return a.Value
	case *array.String:
		return textOf(a.Value)
	case *array.LargeString:
		return textOf(a.Value)
	case *array.StringView:
		return textOf(a.Value)
	}
	return nil
}

func textOf(value func(int) string) func(int) []byte {
	return func(i int) []byte { return []byte(value(i)) }
}

// bytes copies binary or text values into the layout of t, which has offsets
// of 32 or 64 bits.
func (c *converter) bytes(to *Field, in arrow.Array, value func(int) []byte, t arrow.DataType) (arrow.Array, error) {
	w, err := c.newBytes(to, t, in)
	if err != nil {
		return nil, err
	}
	for i := range in.Len() {
		var v []byte
		if in.IsValid(i) {
			v = value(i)
		}
		if err := w.add(v); err != nil {
			w.release()
			return nil, err
		}
	}
	return w.finish(), nil
}

// byteWriter builds an array of binary or text values with the validity of
// another array.
type byteWriter struct {
	c       *converter
	to      *Field
	t       arrow.DataType
	in      arrow.Array
	offsets *memory.Buffer
	data    *memory.Buffer
	next32  []int32
	next64  []int64
	rows    int
	used    int
}

func (c *converter) newBytes(to *Field, t arrow.DataType, in arrow.Array) (*byteWriter, error) {
	w := &byteWriter{c: c, to: to, t: t, in: in, offsets: memory.NewResizableBuffer(c.mem), data: memory.NewResizableBuffer(c.mem)}
	switch t.ID() {
	case arrow.BINARY, arrow.STRING:
		w.offsets.Resize(4 * (in.Len() + 1))
		w.next32 = arrow.Int32Traits.CastFromBytes(w.offsets.Bytes())
		w.next32[0] = 0
	case arrow.LARGE_BINARY, arrow.LARGE_STRING:
		w.offsets.Resize(8 * (in.Len() + 1))
		w.next64 = arrow.Int64Traits.CastFromBytes(w.offsets.Bytes())
		w.next64[0] = 0
	default:
		w.release()
		return nil, unexpectedArray(to, in)
	}
	return w, nil
}

func (w *byteWriter) add(v []byte) error {
	if w.next32 != nil && len(v) > maxOffset32-w.used {
		return tooLarge(w.to, "bytes")
	}
	if need := w.used + len(v); need > w.data.Len() {
		w.data.Resize(max(need, 2*w.data.Len(), 1024))
	}
	w.used += copy(w.data.Bytes()[w.used:], v)
	w.rows++
	if w.next32 != nil {
		w.next32[w.rows] = int32(w.used)
	} else {
		w.next64[w.rows] = int64(w.used)
	}
	return nil
}

func (w *byteWriter) release() {
	w.offsets.Release()
	w.data.Release()
}

func (w *byteWriter) finish() arrow.Array {
	w.data.Reserve(1) // empty values are not nil
	w.data.ResizeNoShrink(w.used)
	return nest.Assemble(w.t, w.in.Len(), []*memory.Buffer{nest.Validity(w.c.mem, w.in), w.offsets, w.data}, nil, w.in.NullN())
}

// json turns JSON text into the binary form that files hold, and checks values
// that come in that form.
func (c *converter) json(to *Field, in arrow.Array, s seen) (arrow.Array, error) {
	if d, ok := in.(*array.Dictionary); ok {
		plain, err := c.decoded(to, d, arrow.BinaryTypes.LargeString)
		if err != nil {
			return nil, err
		}
		defer plain.Release()
		in = plain
	}
	value := bytesOf(in)
	if value == nil {
		return nil, unexpectedArray(to, in)
	}
	stored := in.DataType().ID() == arrow.LARGE_BINARY
	w, err := c.newBytes(to, arrow.BinaryTypes.LargeBinary, in)
	if err != nil {
		return nil, err
	}
	var scratch []byte
	for i := range in.Len() {
		var v []byte
		if in.IsValid(i) {
			v = value(i)
			text := v
			if stored {
				_, err = jsonb.AppendText(nil, v)
			} else {
				v, err = jsonb.Append(scratch[:0], text)
				scratch = v
			}
			if err != nil {
				row, visible := s.at(i)
				if visible {
					w.release()
					return nil, &RowError{Field: to.dotted(), Row: row, Element: -1, Err: fault.New(fault.Invalid, "%s is not JSON: %w", fault.Quote(string(text)), err)}
				}
				v = nil
			}
		}
		if err := w.add(v); err != nil {
			w.release()
			return nil, err
		}
	}
	return w.finish(), nil
}

// decoded gives the values of a dictionary array one by one.
func (c *converter) decoded(to *Field, in *array.Dictionary, t arrow.DataType) (arrow.Array, error) {
	values, err := c.plain(to, unwrapped(in.Dictionary()), t)
	if err != nil {
		return nil, err
	}
	defer values.Release()
	if value := bytesOf(values); value != nil {
		// A value of the dictionary may be null, too.
		w, err := c.newBytes(to, t, in)
		if err != nil {
			return nil, err
		}
		for i := range in.Len() {
			var v []byte
			if in.IsValid(i) {
				v = value(in.GetValueIndex(i))
			}
			if err := w.add(v); err != nil {
				w.release()
				return nil, err
			}
		}
		return c.withNulls(w.finish(), in, values), nil
	}
	if t.ID() == arrow.NULL {
		return array.NewNull(in.Len()), nil
	}
	width, ok := t.(arrow.FixedWidthDataType)
	if !ok {
		return nil, unexpectedArray(to, in)
	}
	data := memory.NewResizableBuffer(c.mem)
	data.Resize((width.BitWidth()*in.Len() + 7) / 8)
	memory.Set(data.Bytes(), 0)
	from := values.Data().Buffers()[1].Bytes()
	for i := range in.Len() {
		if !in.IsValid(i) {
			continue
		}
		at := values.Data().Offset() + in.GetValueIndex(i)
		if width.BitWidth() == 1 {
			bitutil.SetBitTo(data.Bytes(), i, bitutil.BitIsSet(from, at))
			continue
		}
		n := width.BitWidth() / 8
		copy(data.Bytes()[i*n:], from[at*n:(at+1)*n])
	}
	out := nest.Assemble(t, in.Len(), []*memory.Buffer{nest.Validity(c.mem, in), data}, nil, in.NullN())
	return c.withNulls(out, in, values), nil
}

// withNulls makes those values null that are null in the dictionary.
func (c *converter) withNulls(out arrow.Array, in *array.Dictionary, values arrow.Array) arrow.Array {
	if values.NullN() == 0 {
		return out
	}
	defer out.Release()
	valid := memory.NewResizableBuffer(c.mem)
	valid.Resize(int(bitutil.BytesForBits(int64(in.Len()))))
	memory.Set(valid.Bytes(), 0)
	nulls := in.Len()
	for i := range in.Len() {
		if in.IsValid(i) && values.IsValid(in.GetValueIndex(i)) {
			bitutil.SetBit(valid.Bytes(), i)
			nulls--
		}
	}
	defer valid.Release()
	buffers := append([]*memory.Buffer{valid}, out.Data().Buffers()[1:]...)
	return owned(array.NewData(out.DataType(), out.Len(), buffers, nil, nulls, 0))
}

// encoded gives values as a dictionary array, numbered as they come.
func (c *converter) encoded(to *Field, in arrow.Array, t *arrow.DictionaryType) (arrow.Array, error) {
	key := keyOf(in)
	if key == nil {
		return nil, unexpectedArray(to, in)
	}
	width := t.IndexType.(arrow.FixedWidthDataType).Bytes()
	most := uint64(1)<<(8*width-1) - 1 // signed indices are the smaller ones
	if !arrow.IsSignedInteger(t.IndexType.ID()) {
		most = most*2 + 1
	}
	indices := memory.NewResizableBuffer(c.mem)
	indices.Resize(width * in.Len())
	memory.Set(indices.Bytes(), 0)
	defer indices.Release()
	numbers := map[string]uint64{}
	var first []int // the value that each number was given for
	for i := range in.Len() {
		if !in.IsValid(i) {
			continue
		}
		k := key(i)
		n, ok := numbers[k]
		if !ok {
			n = uint64(len(numbers))
			if n > most {
				return nil, fault.New(fault.Invalid, "schema: column %s has type %s; a batch may have %s distinct values", to.dotted(), to.typeName(), strconv.FormatUint(most+1, 10))
			}
			numbers[k] = n
			first = append(first, i)
		}
		for b := range width {
			indices.Bytes()[i*width+b] = byte(n >> (8 * b))
		}
	}
	values, err := c.taken(to, in, first)
	if err != nil {
		return nil, err
	}
	defer values.Release()
	valid := nest.Validity(c.mem, in)
	if valid != nil {
		defer valid.Release()
	}
	return owned(array.NewDataWithDictionary(t, in.Len(), []*memory.Buffer{valid, indices}, in.NullN(), 0, values.Data().(*array.Data))), nil
}

// keyOf gives access to the bytes that tell values apart.
func keyOf(in arrow.Array) func(i int) string {
	if value := bytesOf(in); value != nil {
		return func(i int) string { return string(value(i)) }
	}
	if in.DataType().ID() == arrow.NULL {
		return func(int) string { return "" }
	}
	width, ok := in.DataType().(arrow.FixedWidthDataType)
	if !ok || len(in.Data().Buffers()) < 2 || in.Data().Buffers()[1] == nil {
		return nil
	}
	data, offset := in.Data().Buffers()[1].Bytes(), in.Data().Offset()
	if width.BitWidth() == 1 {
		return func(i int) string { return strconv.FormatBool(bitutil.BitIsSet(data, offset+i)) }
	}
	n := width.Bytes()
	return func(i int) string { return string(data[(offset+i)*n : (offset+i+1)*n]) }
}

// taken gives some values of an array, none of them null.
func (c *converter) taken(to *Field, in arrow.Array, at []int) (arrow.Array, error) {
	t := in.DataType()
	if value := bytesOf(in); value != nil {
		b := array.NewBuilder(c.mem, t)
		defer b.Release()
		for _, i := range at {
			switch b := b.(type) {
			case *array.BinaryBuilder:
				b.Append(value(i))
			case *array.StringBuilder:
				b.Append(string(value(i)))
			case *array.LargeStringBuilder:
				b.Append(string(value(i)))
			default:
				return nil, unexpectedArray(to, in)
			}
		}
		return b.NewArray(), nil
	}
	if t.ID() == arrow.NULL {
		return array.NewNull(0), nil
	}
	width := t.(arrow.FixedWidthDataType).BitWidth()
	data := memory.NewResizableBuffer(c.mem)
	data.Resize((width*len(at) + 7) / 8)
	memory.Set(data.Bytes(), 0)
	from, offset := in.Data().Buffers()[1].Bytes(), in.Data().Offset()
	for n, i := range at {
		if width == 1 {
			bitutil.SetBitTo(data.Bytes(), n, bitutil.BitIsSet(from, offset+i))
			continue
		}
		w := width / 8
		copy(data.Bytes()[n*w:], from[(offset+i)*w:(offset+i+1)*w])
	}
	return nest.Assemble(t, len(at), []*memory.Buffer{nil, data}, nil, 0), nil
}
