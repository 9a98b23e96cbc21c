package query

import (
	"fmt"
	"math"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/flightblob/flightblob/blob"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/materialize"
	"github.com/flightblob/flightblob/query/reference"
)

func blobKind(k uint8) blob.Kind { return blob.Kind(k) }

// conformer turns arrays of the engine into arrays of a result's types. Blob
// leaves become references as materialize takes them; their tags are checked,
// so no forged one ever leaves the engine.
type conformer struct {
	registry *reference.Registry
}

// isReferenceType recognises the engine's references by shape; what tells them
// from other structs is that the target says so.
func isReferenceLeaf(f arrow.Field) bool {
	return isBlob(f) && arrow.TypeEqual(f.Type, materialize.ReferenceType)
}

// conform converts data to the type of a field. visible tells which slots no
// null ancestor hides; nil = all. The caller releases the result.
func (c *conformer) conform(data arrow.ArrayData, to arrow.Field, visible []bool) (arrow.ArrayData, error) {
	from := data.DataType()
	if from.ID() == arrow.INT32 && data.NullN() == data.Len() && to.Type.ID() != arrow.INT32 && to.Type.ID() != arrow.NULL {
		// NULL that was bound has no type, and what is computed of it neither.
		return taken(array.MakeArrayOfNull(memory.DefaultAllocator, to.Type, data.Len())), nil
	}
	if isReferenceLeaf(to) {
		return c.references(data, to.Type, visible)
	}
	switch dt := to.Type.(type) {
	case *arrow.StringType, *arrow.BinaryType:
		return narrowBinary(data, to.Type)
	case *arrow.LargeStringType, *arrow.LargeBinaryType:
		return relabel(data, to.Type, arrow.LARGE_STRING, arrow.LARGE_BINARY)
	case *arrow.FixedSizeBinaryType:
		return fixedBinary(data, dt)
	case *arrow.Float16Type:
		if from.ID() == arrow.FLOAT32 {
			a := array.NewFloat32Data(data)
			defer a.Release()
			return narrowHalf(a)
		}
	case *arrow.Decimal128Type, *arrow.Decimal256Type:
		return conformDecimal(data, dt.(arrow.DecimalType))
	case *arrow.NullType:
		if err := nullsOnly(data, visible); err != nil {
			return nil, err
		}
		return array.NewData(dt, data.Len(), []*memory.Buffer{nil}, nil, data.Len(), 0), nil
	case *arrow.Time32Type:
		return time32(data, dt)
	case *arrow.Time64Type:
		return relabel(data, to.Type, arrow.TIME64)
	case *arrow.Date64Type:
		return numbers(data, dt, func(d int32) (int64, bool) { return int64(d) * 86400000, true }, func(int32) string { return "" })
	case *arrow.TimestampType:
		return timestamps(data, dt)
	case *arrow.DurationType:
		if from.ID() == arrow.INTERVAL_MONTH_DAY_NANO {
			a := array.NewMonthDayNanoIntervalData(data)
			defer a.Release()
			return durations(a, dt)
		}
		return relabel(data, to.Type, arrow.INT64)
	case *arrow.ListType:
		return c.list(data, to, dt.ElemField(), visible)
	case *arrow.LargeListType:
		return c.list(data, to, dt.ElemField(), visible)
	case *arrow.FixedSizeListType:
		return c.fixedList(data, dt, visible)
	case *arrow.MapType:
		return c.list(data, to, arrow.Field{Type: dt.Elem()}, visible)
	case *arrow.StructType:
		if from.ID() == arrow.STRUCT {
			return c.structure(data, dt, visible)
		}
		if dt.NumFields() == 0 {
			validity := validityOf(data)
			if validity != nil {
				defer validity.Release()
			}
			return array.NewData(dt, data.Len(), []*memory.Buffer{validity}, nil, data.NullN(), 0), nil
		}
	}
	if from.ID() == to.Type.ID() {
		data.Retain()
		return data, nil
	}
	return nil, misfit(from, to.Type)
}

func misfit(from, to arrow.DataType) error {
	return fault.New(fault.Internal, "query: the engine gave %s where %s was announced", from, to)
}

// relabel gives the same buffers another type of the same layout.
func relabel(data arrow.ArrayData, to arrow.DataType, allowed ...arrow.Type) (arrow.ArrayData, error) {
	for _, id := range allowed {
		if data.DataType().ID() == id {
			return array.NewData(to, data.Len(), data.Buffers(), nil, data.NullN(), data.Offset()), nil
		}
	}
	return nil, misfit(data.DataType(), to)
}

// narrowBinary turns 64-bit offsets into 32-bit ones. ENUM values come as a
// dictionary and are spelt out.
func narrowBinary(data arrow.ArrayData, to arrow.DataType) (arrow.ArrayData, error) {
	switch data.DataType().ID() {
	case arrow.STRING, arrow.BINARY:
		return relabel(data, to, arrow.STRING, arrow.BINARY)
	case arrow.DICTIONARY:
		return spelt(data, to)
	case arrow.LARGE_STRING, arrow.LARGE_BINARY:
	default:
		return nil, misfit(data.DataType(), to)
	}
	offsets, first, _, err := narrowOffsets(data)
	if err != nil {
		return nil, err
	}
	defer offsets.Release()
	validity := validityOf(data)
	if validity != nil {
		defer validity.Release()
	}
	var bytes *memory.Buffer
	if buf := data.Buffers()[2]; buf != nil && buf.Len() > 0 {
		bytes = memory.SliceBuffer(buf, int(first), buf.Len()-int(first))
	} else {
		bytes = memory.NewBufferBytes([]byte{})
	}
	defer bytes.Release()
	return array.NewData(to, data.Len(), []*memory.Buffer{validity, offsets, bytes}, nil, data.NullN(), 0), nil
}

// narrowOffsets copies 64-bit offsets as 32-bit ones from 0, and gives the first
// and last of them.
func narrowOffsets(data arrow.ArrayData) (*memory.Buffer, int64, int64, error) {
	out := newBuffer(arrow.Int32Traits.BytesRequired(data.Len() + 1))
	buf := data.Buffers()[1]
	if data.Len() == 0 || buf == nil || buf.Len() == 0 {
		return out, 0, 0, nil
	}
	wide := arrow.Int64Traits.CastFromBytes(buf.Bytes())[data.Offset() : data.Offset()+data.Len()+1]
	narrow := arrow.Int32Traits.CastFromBytes(out.Bytes())
	for i, at := range wide {
		n := at - wide[0]
		if n < 0 || n > math.MaxInt32 {
			out.Release()
			return nil, 0, 0, fault.New(fault.Exhausted, "query: a value or list of the result is larger than 2 GiB; ask for less of it at a time")
		}
		narrow[i] = int32(n)
	}
	return out, wide[0], wide[data.Len()], nil
}

// spelt turns a dictionary of text into text.
func spelt(data arrow.ArrayData, to arrow.DataType) (arrow.ArrayData, error) {
	a := array.NewDictionaryData(data)
	defer a.Release()
	b := array.NewStringBuilder(memory.DefaultAllocator)
	defer b.Release()
	var value func(int) string
	switch d := a.Dictionary().(type) {
	case *array.String:
		value = d.Value
	case *array.LargeString:
		value = d.Value
	default:
		return nil, misfit(data.DataType(), to)
	}
	for i := range a.Len() {
		if a.IsNull(i) {
			b.AppendNull()
			continue
		}
		b.Append(value(a.GetValueIndex(i)))
	}
	return taken(b.NewArray()), nil
}

func fixedBinary(data arrow.ArrayData, to *arrow.FixedSizeBinaryType) (arrow.ArrayData, error) {
	a := array.MakeFromData(data)
	defer a.Release()
	in, ok := a.(array.BinaryLike)
	if !ok {
		return nil, misfit(data.DataType(), to)
	}
	b := array.NewFixedSizeBinaryBuilder(memory.DefaultAllocator, to)
	defer b.Release()
	b.Reserve(a.Len())
	values, _ := a.(interface{ Value(int) []byte })
	if values == nil {
		return nil, misfit(data.DataType(), to)
	}
	for i := range a.Len() {
		if a.IsNull(i) {
			b.AppendNull()
			continue
		}
		if in.ValueLen(i) != to.ByteWidth {
			return nil, cellf(i, "a value of %d bytes, and the column takes exactly %d", in.ValueLen(i), to.ByteWidth)
		}
		b.Append(values.Value(i))
	}
	return taken(b.NewArray()), nil
}

func conformDecimal(data arrow.ArrayData, to arrow.DecimalType) (arrow.ArrayData, error) {
	a := array.MakeFromData(data)
	defer a.Release()
	switch a := a.(type) {
	case *array.LargeString:
		return decimals(a, to)
	case *array.Decimal128:
		if wide, ok := to.(*arrow.Decimal256Type); ok {
			return widenDecimal(a, wide), nil
		}
		return array.NewData(to, data.Len(), data.Buffers(), nil, data.NullN(), data.Offset()), nil
	}
	return nil, misfit(data.DataType(), to)
}

// time32 narrows microseconds of a day.
func time32(data arrow.ArrayData, to *arrow.Time32Type) (arrow.ArrayData, error) {
	if data.DataType().ID() != arrow.TIME64 {
		return nil, misfit(data.DataType(), to)
	}
	unit := 1_000_000 / perSecond(to.Unit)
	return numbers(data, to, func(v int64) (int32, bool) { return int32(v / unit), v%unit == 0 && v/unit <= math.MaxInt32 }, func(v int64) string {
		return fmt.Sprintf("%s has a fraction that the column, of whole %s, does not hold", time.UnixMicro(v).UTC().Format("15:04:05.999999"), unitNames[to.Unit])
	})
}

// timestamps gives times their unit back: with a zone, the engine counts
// microseconds whatever they were.
func timestamps(data arrow.ArrayData, to *arrow.TimestampType) (arrow.ArrayData, error) {
	from, ok := data.DataType().(*arrow.TimestampType)
	if !ok || perSecond(from.Unit) < perSecond(to.Unit) {
		return nil, misfit(data.DataType(), to)
	}
	unit := perSecond(from.Unit) / perSecond(to.Unit)
	if unit == 1 {
		return relabel(data, to, arrow.TIMESTAMP)
	}
	return numbers(data, to, func(v int64) (int64, bool) { return v / unit, v%unit == 0 }, func(v int64) string {
		return fmt.Sprintf("the time %d, counted in %s, has a fraction that the column, of whole %s, does not hold", v, unitNames[from.Unit], unitNames[to.Unit])
	})
}

// list converts a list or map to a list, large list or map.
func (c *conformer) list(data arrow.ArrayData, to, elem arrow.Field, visible []bool) (arrow.ArrayData, error) {
	if data.DataType().ID() == arrow.FIXED_SIZE_LIST {
		return c.listOfArray(data, to, elem, visible)
	}
	offsets, validity, first, last, err := listOffsets(data, to.Type)
	if err != nil {
		return nil, err
	}
	defer offsets.Release()
	if validity != nil {
		defer validity.Release()
	}
	items := array.NewSliceData(data.Children()[0], first, last)
	defer items.Release()
	child, err := c.conform(items, elem, innerVisible(offsets, to.Type, data, validity, visible, int(last-first)))
	if err != nil {
		return nil, ofHolder(err, func(item int) int { return holderOf(offsets, to.Type, data.Len(), item) })
	}
	defer child.Release()
	return array.NewData(to.Type, data.Len(), []*memory.Buffer{validity, offsets}, []arrow.ArrayData{child}, data.NullN(), 0), nil
}

// listOffsets gives the offsets that the target wants, from 0, and the range of
// items that they mean.
func listOffsets(data arrow.ArrayData, to arrow.DataType) (offsets, validity *memory.Buffer, first, last int64, err error) {
	wideTarget := to.ID() == arrow.LARGE_LIST
	switch from := data.DataType().ID(); {
	case from == arrow.LARGE_LIST && !wideTarget:
		offsets, first, last, err = narrowOffsets(data)
	case from == arrow.LARGE_LIST:
		offsets, first, last = rebasedOffsets(data, arrow.Int64Traits.CastFromBytes, arrow.Int64SizeBytes)
	case (from == arrow.LIST || from == arrow.MAP) && !wideTarget:
		offsets, first, last = rebasedOffsets(data, arrow.Int32Traits.CastFromBytes, arrow.Int32SizeBytes)
	default:
		err = misfit(data.DataType(), to)
	}
	if err != nil {
		return nil, nil, 0, 0, err
	}
	return offsets, validityOf(data), first, last, nil
}

func rebasedOffsets[T int32 | int64](data arrow.ArrayData, cast func([]byte) []T, width int) (*memory.Buffer, int64, int64) {
	out := newBuffer((data.Len() + 1) * width)
	buf := data.Buffers()[1]
	if data.Len() == 0 || buf == nil || buf.Len() == 0 {
		return out, 0, 0
	}
	in, dst := cast(buf.Bytes())[data.Offset():data.Offset()+data.Len()+1], cast(out.Bytes())
	for i, at := range in {
		dst[i] = at - in[0]
	}
	return out, int64(in[0]), int64(in[data.Len()])
}

// innerVisible tells which items of a list are shown.
func innerVisible(offsets *memory.Buffer, to arrow.DataType, data arrow.ArrayData, validity *memory.Buffer, visible []bool, items int) []bool {
	if validity == nil && visible == nil {
		return nil
	}
	inner := make([]bool, items)
	at := func(i int) int {
		if to.ID() == arrow.LARGE_LIST {
			return int(arrow.Int64Traits.CastFromBytes(offsets.Bytes())[i])
		}
		return int(arrow.Int32Traits.CastFromBytes(offsets.Bytes())[i])
	}
	for i := range data.Len() {
		if (validity == nil || bitutil.BitIsSet(validity.Bytes(), i)) && (visible == nil || visible[i]) {
			for k := at(i); k < at(i+1); k++ {
				inner[k] = true
			}
		}
	}
	return inner
}

// fixedList converts an array of the engine, or a list of it when the engine
// has no array type that long.
func (c *conformer) fixedList(data arrow.ArrayData, to *arrow.FixedSizeListType, visible []bool) (arrow.ArrayData, error) {
	n := int64(to.Len())
	validity := validityOf(data)
	if validity != nil {
		defer validity.Release()
	}
	var items arrow.ArrayData
	switch data.DataType().ID() {
	case arrow.FIXED_SIZE_LIST:
		if int64(data.DataType().(*arrow.FixedSizeListType).Len()) != n {
			return nil, misfit(data.DataType(), to)
		}
		from := int64(data.Offset()) * n
		items = array.NewSliceData(data.Children()[0], from, from+int64(data.Len())*n)
	case arrow.LARGE_LIST:
		a := array.NewLargeListData(data)
		defer a.Release()
		parts := make([]arrow.Array, 0, a.Len()+1)
		defer func() {
			for _, p := range parts {
				p.Release()
			}
		}()
		for i := range a.Len() {
			if a.IsNull(i) {
				parts = append(parts, array.MakeArrayOfNull(memory.DefaultAllocator, a.ListValues().DataType(), int(n)))
				continue
			}
			from, end := a.ValueOffsets(i)
			if end-from != n {
				return nil, cellf(i, "a list of %d items, and the column takes exactly %d", end-from, n)
			}
			parts = append(parts, array.NewSlice(a.ListValues(), from, end))
		}
		if len(parts) == 0 {
			parts = append(parts, array.NewSlice(a.ListValues(), 0, 0))
		}
		whole, err := array.Concatenate(parts, memory.DefaultAllocator)
		if err != nil {
			return nil, fault.New(fault.Internal, "query: %w", err)
		}
		items = taken(whole)
	default:
		return nil, misfit(data.DataType(), to)
	}
	defer items.Release()
	var inner []bool
	if validity != nil || visible != nil {
		inner = make([]bool, data.Len()*int(n))
		for i := range inner {
			row := i / int(n)
			inner[i] = (validity == nil || bitutil.BitIsSet(validity.Bytes(), row)) && (visible == nil || visible[row])
		}
	}
	child, err := c.conform(items, to.ElemField(), inner)
	if err != nil {
		return nil, ofHolder(err, func(item int) int { return item / int(n) })
	}
	defer child.Release()
	return array.NewData(to, data.Len(), []*memory.Buffer{validity}, []arrow.ArrayData{child}, data.NullN(), 0), nil
}

// listOfArray converts an array of the engine to a list.
func (c *conformer) listOfArray(data arrow.ArrayData, to, elem arrow.Field, visible []bool) (arrow.ArrayData, error) {
	n := int(data.DataType().(*arrow.FixedSizeListType).Len())
	if to.Type.ID() != arrow.LIST || int64(n)*int64(data.Len()) > math.MaxInt32 {
		return nil, misfit(data.DataType(), to.Type)
	}
	fixed, err := c.fixedList(data, arrow.FixedSizeListOfField(int32(n), elem), visible)
	if err != nil {
		return nil, err
	}
	defer fixed.Release()
	offsets := newBuffer(arrow.Int32Traits.BytesRequired(data.Len() + 1))
	defer offsets.Release()
	starts := arrow.Int32Traits.CastFromBytes(offsets.Bytes())
	for i := range starts {
		starts[i] = int32(i * n)
	}
	return array.NewData(to.Type, fixed.Len(), []*memory.Buffer{fixed.Buffers()[0], offsets}, fixed.Children(), fixed.NullN(), 0), nil
}

func (c *conformer) structure(data arrow.ArrayData, to *arrow.StructType, visible []bool) (arrow.ArrayData, error) {
	if len(data.Children()) != to.NumFields() {
		return nil, misfit(data.DataType(), to)
	}
	validity := validityOf(data)
	if validity != nil {
		defer validity.Release()
		narrowed := make([]bool, data.Len())
		for i := range narrowed {
			narrowed[i] = bitutil.BitIsSet(validity.Bytes(), i) && (visible == nil || visible[i])
		}
		visible = narrowed
	}
	children := make([]arrow.ArrayData, 0, to.NumFields())
	defer func() {
		for _, d := range children {
			d.Release()
		}
	}()
	for i, child := range data.Children() {
		part := array.NewSliceData(child, int64(data.Offset()), int64(data.Offset()+data.Len()))
		d, err := c.conform(part, to.Field(i), visible)
		part.Release()
		if err != nil {
			return nil, err
		}
		children = append(children, d)
	}
	return array.NewData(to, data.Len(), []*memory.Buffer{validity}, children, data.NullN(), 0), nil
}

// references checks the tags of references and drops them.
func (c *conformer) references(data arrow.ArrayData, to arrow.DataType, visible []bool) (arrow.ArrayData, error) {
	if data.DataType().ID() != arrow.STRUCT || len(data.Children()) != reference.TagChild+1 {
		return nil, misfit(data.DataType(), to)
	}
	a := array.NewStructData(data)
	defer a.Release()
	kind, ok1 := a.Field(0).(*array.Uint8)
	position, ok2 := a.Field(1).(*array.Uint64)
	size, ok3 := a.Field(2).(*array.Uint64)
	id, ok4 := a.Field(3).(*array.Uint32)
	uri, ok5 := a.Field(4).(*array.LargeString)
	source, ok6 := a.Field(reference.SourceChild).(*array.Uint32)
	tag, ok7 := a.Field(reference.TagChild).(*array.Uint64)
	if !ok1 || !ok2 || !ok3 || !ok4 || !ok5 || !ok6 || !ok7 {
		return nil, misfit(data.DataType(), to)
	}
	n := data.Len()
	checker := c.registry.Checker()
	validity := newBuffer(int(bitutil.BytesForBits(int64(n))))
	defer validity.Release()
	nulls := 0
	for i := range n {
		if a.IsNull(i) || kind.IsNull(i) || visible != nil && !visible[i] {
			nulls++
			continue
		}
		bitutil.SetBit(validity.Bytes(), i)
		v := valueOf(i, position, size, id, uri)
		v.Kind = blobKind(kind.Value(i))
		if source.IsValid(i) && tag.IsValid(i) {
			v.Source, v.Tag = source.Value(i), tag.Value(i)
		}
		if _, err := checker.Check(&v); err != nil {
			return nil, err
		}
	}
	text, err := narrowBinary(uri.Data(), arrow.BinaryTypes.String)
	if err != nil {
		return nil, err
	}
	defer text.Release()
	children := []arrow.ArrayData{kind.Data(), position.Data(), size.Data(), id.Data(), text, source.Data()}
	return array.NewData(to, n, []*memory.Buffer{validity}, children, nulls, 0), nil
}

// newBits makes a cleared bitmap.
func newBits(n int) *memory.Buffer { return newBuffer(int(bitutil.BytesForBits(int64(n)))) }

func setBit(b *memory.Buffer, i int) { bitutil.SetBit(b.Bytes(), i) }

// valueOf reads the children of reference i; those that are null are noted.
func valueOf(i int, position, size *array.Uint64, id *array.Uint32, uri array.StringLike) reference.Value {
	v := reference.Value{Nulls: nullsOf(i, position, size, id, uri)}
	if v.Nulls&2 == 0 {
		v.Position = position.Value(i)
	}
	if v.Nulls&4 == 0 {
		v.Size = size.Value(i)
	}
	if v.Nulls&8 == 0 {
		v.ID = id.Value(i)
	}
	if v.Nulls&16 == 0 {
		v.URI = uri.Value(i)
	}
	return v
}

// nullsOf is the set of null children, bit by child.
func nullsOf(i int, children ...arrow.Array) reference.Nulls {
	n := reference.Nulls(0)
	for c, a := range children {
		if a.IsNull(i) {
			n |= 1 << (c + 1)
		}
	}
	return n
}

// descriptors turns reference leaves into descriptors.
func descriptors(data arrow.ArrayData, to arrow.Field) arrow.ArrayData {
	if isBlob(to) {
		n := len(data.Children()) - 1
		return array.NewData(to.Type, data.Len(), data.Buffers(), data.Children()[:n], data.NullN(), data.Offset())
	}
	nested, ok := to.Type.(arrow.NestedType)
	if !ok || len(data.Children()) == 0 {
		data.Retain()
		return data
	}
	children := make([]arrow.ArrayData, len(data.Children()))
	fields := nested.Fields()
	if m, ok := to.Type.(*arrow.MapType); ok {
		fields = []arrow.Field{{Type: m.Elem()}}
	}
	for i, c := range data.Children() {
		children[i] = descriptors(c, fields[i])
		defer children[i].Release()
	}
	return array.NewData(to.Type, data.Len(), data.Buffers(), children, data.NullN(), data.Offset())
}
