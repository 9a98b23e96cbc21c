package query

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/query/engine"
	"github.com/flightblob/flightblob/query/reference"
	"github.com/flightblob/flightblob/schema"
)

// form is how a field's values enter the engine.
type form uint8

const (
	asIs         form = iota
	asReference       // a blob
	asNested          // by its children
	asLike            // as it is, under the type without words about its children
	asFloat32         // float16
	asDecimal128      // decimal256 of at most 38 digits
	asText            // other decimals
	asInt64           // duration[ns]
	asInterval        // other durations
	asTimestamp       // timestamp[ns] with a zone: the same numbers without it
	asList            // a fixed-size list that the engine has no type for
	asNulls           // null type
	asBool            // a struct without fields
	asValues          // a dictionary
)

// carrier turns arrays as scans give them into arrays that the engine takes.
type carrier struct {
	form     form
	text     bool        // values must be valid UTF-8
	field    arrow.Field // as the engine sees it
	children []*carrier
}

// isBlob recognises a blob leaf of a descriptor schema.
func isBlob(f arrow.Field) bool {
	return f.Type.ID() == arrow.STRUCT && f.Metadata.FindKey(schema.KeyBlob) >= 0
}

// newCarrier plans a field of a descriptor schema.
func newCarrier(f arrow.Field) (*carrier, error) {
	c := &carrier{field: arrow.Field{Name: f.Name, Type: f.Type, Nullable: true}}
	if isBlob(f) {
		c.form, c.field.Type, c.field.Metadata = asReference, reference.Type, engine.ReferenceMetadata
		return c, nil
	}
	switch dt := f.Type.(type) {
	case *arrow.StringType, *arrow.LargeStringType:
		c.text = true
	case *arrow.Float16Type:
		c.form, c.field.Type = asFloat32, arrow.PrimitiveTypes.Float32
	case *arrow.Decimal128Type:
		if !engine.Enters(dt) {
			c.form, c.field.Type = asText, arrow.BinaryTypes.String
		}
	case *arrow.Decimal256Type:
		c.form, c.field.Type = asText, arrow.BinaryTypes.String
		if narrow := (&arrow.Decimal128Type{Precision: dt.Precision, Scale: dt.Scale}); dt.Precision <= 38 && engine.Enters(narrow) {
			c.form, c.field.Type = asDecimal128, narrow
		}
	case *arrow.DurationType:
		c.form, c.field.Type = asInterval, arrow.FixedWidthTypes.MonthDayNanoInterval
		if dt.Unit == arrow.Nanosecond {
			c.form, c.field.Type = asInt64, arrow.PrimitiveTypes.Int64
		}
	case *arrow.TimestampType:
		if dt.Unit == arrow.Nanosecond && dt.TimeZone != "" {
			c.form, c.field.Type = asTimestamp, &arrow.TimestampType{Unit: arrow.Nanosecond}
		}
	case *arrow.NullType:
		c.form, c.field.Type = asNulls, arrow.PrimitiveTypes.Int32
	case *arrow.DictionaryType:
		values, err := newCarrier(arrow.Field{Name: f.Name, Type: dt.ValueType})
		if err != nil {
			return nil, err
		}
		c.form, c.field.Type, c.children = asValues, values.field.Type, []*carrier{values}
	case arrow.NestedType:
		return c, c.nested(dt)
	}
	if !engine.Enters(c.field.Type) {
		return nil, fault.New(fault.Unsupported, "query: column %q has type %s, which SQL cannot read here; read the table without SQL", f.Name, f.Type)
	}
	return c, nil
}

func (c *carrier) nested(dt arrow.NestedType) error {
	fields := dt.Fields()
	if m, ok := dt.(*arrow.MapType); ok { // its only field is the entries struct
		fields = []arrow.Field{m.KeyField(), m.ItemField()}
	}
	if len(fields) == 0 {
		c.form, c.field.Type = asBool, arrow.FixedWidthTypes.Boolean
		return nil
	}
	changed := false
	for i, f := range fields {
		child, err := newCarrier(f)
		if err != nil {
			return err
		}
		c.children = append(c.children, child)
		changed = changed || child.form != asIs && child.form != asLike
		c.text = c.text || child.text
		fields[i] = child.field
	}
	c.form = asLike
	if changed || c.text {
		c.form = asNested
	}
	switch dt := dt.(type) {
	case *arrow.StructType:
		c.field.Type = arrow.StructOf(fields...)
	case *arrow.ListType:
		c.field.Type = arrow.ListOfField(fields[0])
	case *arrow.LargeListType:
		c.field.Type = arrow.LargeListOfField(fields[0])
	case *arrow.MapType:
		fields[0].Nullable = false
		c.field.Type = arrow.MapOfFields(fields[0], fields[1])
	case *arrow.FixedSizeListType:
		c.field.Type = arrow.FixedSizeListOfField(dt.Len(), fields[0])
		if dt.Len() < 1 || dt.Len() > engine.MaxArraySize {
			c.form, c.field.Type = asList, arrow.LargeListOfField(fields[0])
		}
	default:
		return fault.New(fault.Unsupported, "query: column %q has type %s, which SQL cannot read here", c.field.Name, dt)
	}
	return nil
}

// tagger makes references out of the descriptors of one batch. Leaves come in
// depth-first order.
type tagger struct {
	numbers  []numberer
	registry *reference.Registry
	scratch  []byte
	next     int
}

// carry converts an array. The caller releases the result.
func (c *carrier) carry(data arrow.ArrayData, t *tagger) (arrow.ArrayData, error) {
	if c.text && len(c.children) == 0 {
		if err := checkText(c.field.Name, data); err != nil {
			return nil, err
		}
	}
	switch c.form {
	case asIs:
		data.Retain()
		return data, nil
	case asReference:
		return t.references(data)
	case asNested:
		return c.carryNested(data, t)
	case asFloat32:
		return widenHalf(data), nil
	case asDecimal128:
		return narrowDecimal(data, c.field)
	case asText:
		return decimalText(data)
	case asInterval:
		return intervals(data, c.field.Name)
	case asInt64, asTimestamp, asLike:
		return array.NewData(c.field.Type, data.Len(), data.Buffers(), data.Children(), data.NullN(), data.Offset()), nil
	case asList:
		return c.carryList(data, t)
	case asNulls:
		a := array.MakeArrayOfNull(memory.DefaultAllocator, c.field.Type, data.Len())
		defer a.Release()
		a.Data().Retain()
		return a.Data(), nil
	case asBool:
		return boolOf(data), nil
	default: // asValues
		values, err := dictionaryValues(data)
		if err != nil {
			return nil, err
		}
		defer values.Release()
		return c.children[0].carry(values, t)
	}
}

// carryNested converts the children and keeps everything else.
func (c *carrier) carryNested(data arrow.ArrayData, t *tagger) (arrow.ArrayData, error) {
	sources, descend := data.Children(), c.children
	if c.field.Type.ID() == arrow.MAP { // the entries struct stands between
		entries := sources[0]
		sources = entries.Children()
	}
	children := make([]arrow.ArrayData, 0, len(sources))
	defer func() {
		for _, d := range children {
			d.Release()
		}
	}()
	for i, source := range sources {
		child, err := descend[i].carry(source, t)
		if err != nil {
			return nil, err
		}
		children = append(children, child)
	}
	if c.field.Type.ID() == arrow.MAP {
		entries := data.Children()[0]
		st := c.field.Type.(*arrow.MapType).Elem()
		made := array.NewData(st, entries.Len(), entries.Buffers(), children, entries.NullN(), entries.Offset())
		defer made.Release()
		return array.NewData(c.field.Type, data.Len(), data.Buffers(), []arrow.ArrayData{made}, data.NullN(), data.Offset()), nil
	}
	return array.NewData(c.field.Type, data.Len(), data.Buffers(), children, data.NullN(), data.Offset()), nil
}

// carryList makes a large list out of a fixed-size one.
func (c *carrier) carryList(data arrow.ArrayData, t *tagger) (arrow.ArrayData, error) {
	n := int64(data.DataType().(*arrow.FixedSizeListType).Len())
	child, err := c.children[0].carry(data.Children()[0], t)
	if err != nil {
		return nil, err
	}
	defer child.Release()
	end := data.Offset() + data.Len()
	if int64(child.Len()) < int64(end)*n {
		return nil, fault.Corruptf(-1, "query: a fixed-size list of %d rows holds %d items", end, child.Len())
	}
	offsets := memory.NewResizableBuffer(memory.DefaultAllocator)
	defer offsets.Release()
	offsets.Resize(arrow.Int64Traits.BytesRequired(end + 1))
	starts := arrow.Int64Traits.CastFromBytes(offsets.Bytes())
	for i := range starts {
		starts[i] = int64(i) * n
	}
	return array.NewData(c.field.Type, data.Len(), []*memory.Buffer{data.Buffers()[0], offsets}, []arrow.ArrayData{child}, data.NullN(), data.Offset()), nil
}

// references builds the reference array of one leaf of the batch.
func (t *tagger) references(data arrow.ArrayData) (arrow.ArrayData, error) {
	if t.next >= len(t.numbers) {
		return nil, fault.New(fault.Internal, "query: more blob columns than owners")
	}
	number := t.numbers[t.next]
	t.next++
	a := array.NewStructData(data)
	defer a.Release()
	kind, okKind := a.Field(0).(*array.Uint8)
	position, okPosition := a.Field(1).(*array.Uint64)
	size, okSize := a.Field(2).(*array.Uint64)
	id, okID := a.Field(3).(*array.Uint32)
	uri, okURI := a.Field(4).(*array.String)
	if !okKind || !okPosition || !okSize || !okID || !okURI {
		return nil, fault.New(fault.Internal, "query: a descriptor is %s", a.DataType())
	}
	if err := checkText("blob_uri", uri.Data()); err != nil {
		return nil, err
	}
	n := data.Len()
	sources, tags := newBuffer(n*arrow.Uint32SizeBytes), newBuffer(n*arrow.Uint64SizeBytes)
	defer sources.Release()
	defer tags.Release()
	source := arrow.Uint32Traits.CastFromBytes(sources.Bytes())
	tag := arrow.Uint64Traits.CastFromBytes(tags.Bytes())
	validity := newBuffer(int(bitutil.BytesForBits(int64(n))))
	defer validity.Release()
	nulls := 0
	for i := range n {
		if a.IsNull(i) || kind.IsNull(i) { // NUL-2
			nulls++
			continue
		}
		bitutil.SetBit(validity.Bytes(), i)
		v := reference.Value{}
		v.Kind = blobKind(kind.Value(i))
		take := func(child uint, isNull bool) bool {
			if isNull {
				v.Nulls |= 1 << child
			}
			return !isNull
		}
		if take(1, position.IsNull(i)) {
			v.Position = position.Value(i)
		}
		if take(2, size.IsNull(i)) {
			v.Size = size.Value(i)
		}
		if take(3, id.IsNull(i)) {
			v.ID = id.Value(i)
		}
		if take(4, uri.IsNull(i)) {
			v.URI = uri.Value(i)
		}
		var err error
		if v.Source, err = number.of(v.Kind); err != nil {
			return nil, err
		}
		source[i] = v.Source
		tag[i] = t.registry.Tag(&v, &t.scratch)
	}
	children := make([]arrow.ArrayData, 0, reference.TagChild+1)
	for i := range reference.SourceChild {
		children = append(children, a.Field(i).Data())
	}
	children = append(children,
		array.NewData(arrow.PrimitiveTypes.Uint32, n, []*memory.Buffer{nil, sources}, nil, 0, 0),
		array.NewData(arrow.PrimitiveTypes.Uint64, n, []*memory.Buffer{nil, tags}, nil, 0, 0))
	defer func() {
		for _, c := range children[reference.SourceChild:] {
			c.Release()
		}
	}()
	return array.NewData(reference.Type, n, []*memory.Buffer{validity, nil}[:1], children, nulls, 0), nil
}

// newBuffer makes a cleared buffer.
func newBuffer(n int) *memory.Buffer {
	b := memory.NewResizableBuffer(memory.DefaultAllocator)
	b.Resize(n)
	clear(b.Bytes())
	return b
}
