package blob

import (
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/schema"
)

// Column is a typed view of a descriptor array. It borrows the array: it and
// the URIs it gives are valid while the array is retained.
type Column struct {
	outer    *array.Struct
	kind     *array.Uint8
	position *array.Uint64
	size     *array.Uint64
	id       *array.Uint32
	uri      *array.String
	plain    bool // no null anywhere: the common case needs no bitmap look-ups
}

// CheckType refuses any type but the five-child descriptor struct: names,
// types and order count (REJ-8), declared nullability does not (DESC-4).
func CheckType(dt arrow.DataType) error {
	st, ok := dt.(*arrow.StructType)
	want := schema.DescriptorType
	if ok && st.NumFields() == want.NumFields() {
		for i := range want.NumFields() {
			if got := st.Field(i); got.Name != want.Field(i).Name || !arrow.TypeEqual(got.Type, want.Field(i).Type) {
				ok = false
			}
		}
		if ok {
			return nil
		}
	}
	return fault.New(fault.Corrupt, "blob: a descriptor column is %s, got %s", shape(want), shape(dt))
}

// shape prints a struct type in one line, names and types only.
func shape(dt arrow.DataType) string {
	st, ok := dt.(*arrow.StructType)
	if !ok {
		return fmt.Sprint(dt)
	}
	var b strings.Builder
	for i, f := range st.Fields() {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s %s", f.Name, f.Type)
	}
	return "struct<" + b.String() + ">"
}

// AsColumn views arr as descriptors. Sliced arrays are fine. The error is that
// of CheckType, or tells of children shorter than the struct.
func AsColumn(arr arrow.Array) (Column, error) {
	if err := CheckType(arr.DataType()); err != nil {
		return Column{}, err
	}
	s, ok := arr.(*array.Struct)
	if !ok {
		return Column{}, fault.New(fault.Internal, "blob: a descriptor array is a struct array, got %T", arr)
	}
	nulls := s.NullN()
	for i := range s.NumField() {
		if s.Field(i).Len() != s.Len() {
			return Column{}, fault.New(fault.Corrupt, "blob: descriptor child %s holds %d values for %d rows",
				schema.DescriptorType.Field(i).Name, s.Field(i).Len(), s.Len())
		}
		nulls += s.Field(i).NullN()
	}
	return Column{
		outer:    s,
		kind:     s.Field(0).(*array.Uint8),
		position: s.Field(1).(*array.Uint64),
		size:     s.Field(2).(*array.Uint64),
		id:       s.Field(3).(*array.Uint32),
		uri:      s.Field(4).(*array.String),
		plain:    nulls == 0,
	}, nil
}

// Len is the number of rows.
func (c Column) Len() int { return c.outer.Len() }

// At gives the descriptor of row i, which must be in [0, Len). A value is null
// when the struct or its kind is null (NUL-2), never because of what the other
// children hold (NUL-3). A child that the kind needs and that is null is an
// error naming it (NUL-4). The kind itself is not judged here: a scan may show
// numbers that only a read refuses (DESC-6).
func (c Column) At(i int) (d Descriptor, null bool, err error) {
	if !c.plain {
		if c.outer.IsNull(i) || c.kind.IsNull(i) {
			return Descriptor{}, true, nil
		}
		if err := c.missing(i); err != nil {
			return Descriptor{}, false, err
		}
	}
	d = Descriptor{Kind: Kind(c.kind.Value(i))}
	if c.plain || c.position.IsValid(i) {
		d.Position = c.position.Value(i)
	}
	if c.plain || c.size.IsValid(i) {
		d.Size = c.size.Value(i)
	}
	if c.plain || c.id.IsValid(i) {
		d.ID = c.id.Value(i)
	}
	if c.plain || c.uri.IsValid(i) {
		d.URI = c.uri.Value(i)
	}
	return d, false, nil
}

// missing reports the first null child that row i's kind needs.
func (c Column) missing(i int) error {
	k := Kind(c.kind.Value(i))
	uses := needs(k)
	for _, child := range [...]struct {
		need  child
		array arrow.Array
	}{{usesPosition, c.position}, {usesSize, c.size}, {usesID, c.id}, {usesURI, c.uri}} {
		if uses&child.need != 0 && child.array.IsNull(i) {
			return fault.New(fault.Corrupt, "blob: descriptor of kind %d (%s) needs %s, which is null", uint8(k), k, child.need)
		}
	}
	return nil
}

// child is a set of descriptor children.
type child uint8

const (
	usesPosition child = 1 << iota
	usesSize
	usesID
	usesURI
)

// String names a single child.
func (c child) String() string {
	switch c {
	case usesPosition:
		return "position"
	case usesSize:
		return "size"
	case usesID:
		return "blob_id"
	default:
		return "blob_uri"
	}
}

// needs is the table of NUL-4.
func needs(k Kind) child {
	switch k {
	case Inline:
		return usesPosition | usesSize
	case Packed:
		return usesPosition | usesSize | usesID
	case Dedicated:
		return usesSize | usesID
	case External:
		return usesPosition | usesSize | usesID | usesURI
	case Managed:
		return usesPosition | usesSize | usesURI
	case ManagedBase:
		return usesPosition | usesSize | usesID | usesURI
	}
	return 0
}
