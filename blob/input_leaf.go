package blob

import (
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/schema"
)

// inputLeaf is one blob field with its values in a batch, flattened.
type inputLeaf struct {
	field *schema.Field
	array arrow.Array
	n     int
	place *place
	first int // row of the whole batch that is row 0 here

	// What the array holds: plain bytes, or the children of a struct, each of
	// which may be missing. stored and source are the parts of references.
	plain    func(i int) []byte
	outer    *array.Struct
	data     *array.LargeBinary
	uri      *array.String
	position *array.Uint64
	size     *array.Uint64
	ref      *array.Struct // nil when outer itself is the reference
	stored   Column
	source   *array.Uint32

	streams map[int]stream
}

// form says what a value that is not null is given as.
type form uint8

const (
	formBytes  form = iota // in memory
	formURI                // data elsewhere, to be referenced or copied
	formStored             // a stored value
	formStream             // bytes from a reader
)

// inputValue is one value that is not null. Its parts lie in the batch.
type inputValue struct {
	form     form
	data     []byte
	uri      string
	ranged   bool
	position uint64 // with ranged
	size     uint64 // with ranged
	stored   Descriptor
	source   uint32
	stream   stream
}

// open finds out what the array holds.
func (l *inputLeaf) open(references bool) error {
	switch a := l.array.(type) {
	case *array.Binary:
		l.plain = a.Value
	case *array.LargeBinary:
		l.plain = a.Value
	case *array.Struct:
		l.outer = a
		return l.openStruct(a, references)
	default:
		return l.wrongType()
	}
	return nil
}

func (l *inputLeaf) openStruct(a *array.Struct, references bool) error {
	t := a.DataType().(*arrow.StructType)
	if references && arrow.TypeEqual(t, schema.ReferenceType) {
		return l.openReference(a)
	}
	names := []string{"data", "uri", "position", "size", "stored"}
	n := t.NumFields()
	if n != 2 && n != 4 && (n != 5 || !references) {
		return l.wrongType()
	}
	for i := range n {
		if t.Field(i).Name != names[i] {
			return l.wrongType()
		}
	}
	var ok [4]bool
	l.data, ok[0] = a.Field(0).(*array.LargeBinary)
	l.uri, ok[1] = a.Field(1).(*array.String)
	ok[2], ok[3] = true, true
	if n > 2 {
		l.position, ok[2] = a.Field(2).(*array.Uint64)
		l.size, ok[3] = a.Field(3).(*array.Uint64)
	}
	if ok != [4]bool{true, true, true, true} {
		return l.wrongType()
	}
	if n == 5 {
		ref, isStruct := a.Field(4).(*array.Struct)
		if !isStruct || !arrow.TypeEqual(ref.DataType(), schema.ReferenceType) {
			return l.wrongType()
		}
		l.ref = ref
		return l.openReference(ref)
	}
	return nil
}

// openReference splits a reference into descriptor and source.
func (l *inputLeaf) openReference(a *array.Struct) error {
	n := schema.DescriptorType.NumFields()
	source, ok := a.Field(n).(*array.Uint32)
	if !ok {
		return l.wrongType()
	}
	d := a.Data()
	part := array.NewData(schema.DescriptorType, d.Len(), d.Buffers(), d.Children()[:n], d.NullN(), d.Offset())
	defer part.Release()
	descriptors := array.NewStructData(part)
	l.source = source
	var err error
	l.stored, err = AsColumn(descriptors)
	return err
}

// stream has the bytes of element i come from a reader.
func (l *inputLeaf) stream(i int, s stream) {
	if l.streams == nil {
		l.streams = map[int]stream{}
	}
	l.streams[i] = s
}

// release gives back what open made.
func (l *inputLeaf) release() {
	if l.stored.outer != nil {
		l.stored.outer.Release()
		l.stored = Column{}
	}
}

func (l *inputLeaf) wrongType() error {
	return fault.New(fault.Internal, "blob: column %s came as %s", l.field.FullName(), l.array.DataType())
}

// isNull tells whether element i is null or nobody can see it.
func (l *inputLeaf) isNull(i int) bool {
	if l.array.IsNull(i) || l.place.hides(i) {
		return true
	}
	switch { // NUL-2: a reference is null where its kind is, too
	case l.source == nil:
		return false
	case l.ref == nil:
		return l.stored.kind.IsNull(i)
	}
	return l.ref.IsValid(i) && l.data.IsNull(i) && l.uri.IsNull(i) && l.stored.kind.IsNull(i)
}

// check judges all values.
func (l *inputLeaf) check() error {
	for i := range l.n {
		if l.isNull(i) {
			if !l.field.Nullable && !l.place.hides(i) {
				return l.fail(i, "IN-12", fault.New(fault.Invalid, "null, but the column must not be null"))
			}
			continue
		}
		if rule, err := l.checkValue(i); err != nil {
			return l.fail(i, rule, err)
		}
	}
	return nil
}

// fail names the place of element i.
func (l *inputLeaf) fail(i int, rule string, err error) error {
	row, elements := l.place.of(i)
	return &InputError{Field: l.field.FullName(), Row: l.first + row, Elements: elements, Rule: rule, Err: err}
}

func invalid(rule, format string, args ...any) (string, error) {
	return rule, fault.New(fault.Invalid, format, args...)
}

// checkValue judges a value that is not null, in the order in which the
// reference does.
func (l *inputLeaf) checkValue(i int) (rule string, err error) {
	if l.data == nil {
		return "", l.checkStored(i)
	}
	hasData, hasURI := l.data.IsValid(i), l.uri.IsValid(i)
	hasStored := l.ref != nil && l.ref.IsValid(i)
	hasPosition := l.position != nil && l.position.IsValid(i)
	hasSize := l.size != nil && l.size.IsValid(i)
	switch {
	case hasPosition && !hasSize:
		return invalid("IN-5", "position is %d and size is null; set both or none", l.position.Value(i))
	case hasSize && !hasPosition:
		return invalid("IN-5", "size is %d and position is null; set both or none", l.size.Value(i))
	case hasPosition && !hasURI:
		beside := "without uri"
		if hasData {
			beside = "beside data"
		}
		return invalid("IN-6", "range [position %d, size %d] %s; ranges select bytes of a uri", l.position.Value(i), l.size.Value(i), beside)
	case hasData && hasURI:
		return invalid("IN-1", "both data, of %d bytes, and uri, %s, are set; set one of them", len(l.data.Value(i)), fault.Quote(l.uri.Value(i)))
	case hasStored && (hasData || hasURI):
		return "", fault.New(fault.Internal, "a reference beside data or uri")
	case hasStored:
		return "", l.checkStored(i)
	case !hasData && !hasURI:
		return invalid("IN-1", "neither data nor uri is set; set one of them, or make the value null")
	case hasURI && l.uri.Value(i) == "":
		return invalid("IN-3", `uri is ""; it must name an object`)
	case hasPosition && l.size.Value(i) == 0:
		return invalid("IN-7", "range [position %d, size 0] of %s; size must be positive, and without a range the whole object is meant",
			l.position.Value(i), fault.Quote(l.uri.Value(i)))
	case hasPosition && l.position.Value(i) > math.MaxUint64-l.size.Value(i):
		return invalid("IN-8", "range [position %d, size %d] of %s ends beyond 2^64-1", l.position.Value(i), l.size.Value(i), fault.Quote(l.uri.Value(i)))
	}
	return "", nil
}

// checkStored wants a complete descriptor; what it means is judged with its
// origin, when it is placed.
func (l *inputLeaf) checkStored(i int) error {
	if l.plain != nil {
		return nil
	}
	_, _, err := l.stored.At(i)
	return err
}

// at gives element i, which is not null and was checked.
func (l *inputLeaf) at(i int) (inputValue, error) {
	if s, ok := l.streams[i]; ok {
		return inputValue{form: formStream, stream: s}, nil
	}
	switch {
	case l.plain != nil:
		return inputValue{data: l.plain(i)}, nil
	case l.data != nil && l.data.IsValid(i):
		return inputValue{data: l.data.Value(i)}, nil
	case l.uri != nil && l.uri.IsValid(i):
		v := inputValue{form: formURI, uri: l.uri.Value(i)}
		if l.position != nil && l.position.IsValid(i) {
			v.ranged, v.position, v.size = true, l.position.Value(i), l.size.Value(i)
		}
		return v, nil
	}
	d, _, err := l.stored.At(i)
	return inputValue{form: formStored, stored: d, source: l.source.Value(i)}, err
}
