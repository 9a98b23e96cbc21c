package schema

import (
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/internal/spelling"
)

// ReferenceType is what stands for a stored blob value in batches that are made
// inside this program: the descriptor's children, and behind them the number of
// the place that the value came from. It never comes from outside.
var ReferenceType = arrow.StructOf(append(DescriptorType.Fields(),
	arrow.Field{Name: "source", Type: arrow.PrimitiveTypes.Uint32})...)

// AnyBlobType is the input of a blob column whose rows differ in kind: bytes,
// URIs with or without a range, and references to stored values. Exactly one of
// data, uri and stored is set in a row that is not null. It never comes from
// outside.
var AnyBlobType = arrow.StructOf(
	arrow.Field{Name: "data", Type: arrow.BinaryTypes.LargeBinary, Nullable: true},
	arrow.Field{Name: "uri", Type: arrow.BinaryTypes.String, Nullable: true},
	arrow.Field{Name: "position", Type: arrow.PrimitiveTypes.Uint64, Nullable: true},
	arrow.Field{Name: "size", Type: arrow.PrimitiveTypes.Uint64, Nullable: true},
	arrow.Field{Name: "stored", Type: ReferenceType, Nullable: true},
)

// isStored tells the types that only this program makes.
func isStored(t arrow.DataType) bool {
	return arrow.TypeEqual(t, ReferenceType) || arrow.TypeEqual(t, AnyBlobType)
}

// Accepts tells how batches of an input schema become rows of the table, or
// why they cannot: fault.Invalid with the dotted name of the field, both types,
// and what to do.
//
// Fields are found by name, at every level of nesting and in any order. Those
// that the table has and the input has not are null, and must be allowed to be;
// unknown ones are refused. Types must be equal in what a value can be. How
// values lie in memory makes no difference: views, offsets of 32 or 64 bits,
// dictionaries, and names of list items are brought into the table's form. The
// declared nullability of the input does not matter; rows with nulls in
// required fields are refused when they come (SCH-11, IN-12, ERR-19).
//
// A blob column takes both logical shapes (SCH-10), also without the mark, and
// plain binary values. Thresholds that the input states must be those in effect
// (WRT-8).
func (s *Schema) Accepts(input *arrow.Schema) (*Mapping, error) { return s.accepts(input, false) }

// AcceptsStored is Accepts for batches made inside this program: blob columns
// may also be of ReferenceType and AnyBlobType.
func (s *Schema) AcceptsStored(input *arrow.Schema) (*Mapping, error) { return s.accepts(input, true) }

func (s *Schema) accepts(input *arrow.Schema, stored bool) (*Mapping, error) {
	in := intake{version: "2.3", stored: stored}
	tree, err := in.schema(input)
	if err != nil {
		return nil, err
	}
	m := matcher{types: in.types}
	plans, err := m.siblings(s.Fields, tree.Fields, nil)
	if err != nil {
		return nil, err
	}
	return newMapping(s, input, plans)
}

// plan says how one field of the table is filled.
type plan struct {
	to       *Field
	from     int            // place among the input's siblings, -1 if it has none
	in       arrow.DataType // of the input, extension types unwrapped
	out      arrow.DataType // as Mapping.Apply gives it
	children []*plan
}

// matcher compares a table's fields with those of an input.
type matcher struct{ types map[FieldID]arrow.DataType }

// siblings matches fields by name. parent is the table's field above.
func (m *matcher) siblings(table, input []*Field, parent *Field) ([]*plan, error) {
	places := make(map[string]int, len(input))
	for i, f := range input {
		places[f.Name] = i
	}
	plans := make([]*plan, len(table))
	for i, to := range table {
		at, ok := places[to.Name]
		if !ok {
			if !to.Nullable {
				return nil, fault.New(fault.Invalid, "schema: the input has no column %s, which must not be null; it has %s", to.dotted(), names(input))
			}
			plans[i] = &plan{to: to, from: -1, out: absentType(to)}
			continue
		}
		delete(places, to.Name)
		p, err := m.field(to, input[at])
		if err != nil {
			return nil, err
		}
		p.from = at
		plans[i] = p
	}
	if len(places) > 0 {
		return nil, unexpected(table, input, places, parent)
	}
	return plans, nil
}

// unexpected refuses fields of the input that the table does not have.
func unexpected(table, input []*Field, places map[string]int, parent *Field) error {
	var extra, have []string
	for _, f := range input {
		if _, ok := places[f.Name]; ok {
			extra = append(extra, fault.Quote(f.dotted()))
		}
	}
	prefix := ""
	if parent != nil {
		prefix = parent.dotted() + "."
	}
	for _, f := range table {
		have = append(have, prefix+f.Name)
	}
	near := spelling.Nearest(input[places[anyKey(places)]].dotted(), have, 3, -1)
	more := ""
	if len(extra) > 8 {
		extra, more = extra[:8], ", …"
	}
	return fault.New(fault.Invalid, "schema: the table has no column %s; the nearest are %s", strings.Join(extra, ", ")+more, strings.Join(near, ", "))
}

func anyKey(m map[string]int) string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	return slices.Min(keys)
}

func names(fields []*Field) string {
	var out []string
	for i, f := range fields {
		if i == 16 {
			out = append(out, "…")
			break
		}
		out = append(out, fault.Quote(f.Name))
	}
	if len(out) == 0 {
		return "none"
	}
	return strings.Join(out, ", ")
}

// field matches one field with one of the input.
func (m *matcher) field(to, in *Field) (*plan, error) {
	p := &plan{to: to, in: m.types[in.ID]}
	if p.in.ID() == arrow.NULL && to.Logical != "null" {
		if !to.Nullable {
			return nil, fault.New(fault.Invalid, "schema: column %s has type null in the input, but must not be null", to.dotted())
		}
		p.out = absentType(to)
		return p, nil
	}
	if to.Blob != NotBlob {
		return p, m.blob(p, to, in)
	}
	if err := sameExtension(to, in); err != nil {
		return nil, err
	}
	if in.Blob != NotBlob || !sameShapes(to, in) {
		return nil, m.mismatch(to, in)
	}
	var err error
	switch {
	case to.Logical == "struct":
		p.children, err = m.siblings(to.Children, in.Children, to)
	case to.Shape == Map:
		p.children, err = m.positions(to.Children[0].Children, in.Children[0].Children)
	case to.Shape != Leaf:
		p.children, err = m.positions(to.Children, in.Children)
	case !sameValues(to.Logical, in.Logical, p.in):
		err = m.mismatch(to, in)
	}
	if err != nil {
		return nil, err
	}
	p.out, err = p.composed()
	return p, err
}

// positions matches the items of lists and the parts of maps, whose names do
// not matter.
func (m *matcher) positions(table, input []*Field) ([]*plan, error) {
	plans := make([]*plan, len(table))
	for i, to := range table {
		p, err := m.field(to, input[i])
		if err != nil {
			return nil, err
		}
		p.from = i
		plans[i] = p
	}
	return plans, nil
}

// sameShapes compares what is below two fields: lists of either kind count as
// the same, all leaves too.
func sameShapes(to, in *Field) bool {
	if to.Logical == "struct" || in.Logical == "struct" {
		return to.Logical == in.Logical
	}
	if isList(to) || isList(in) {
		return isList(to) && isList(in)
	}
	return to.Shape == in.Shape && (to.Shape != FixedSizeList || to.Dimension == in.Dimension)
}

func isList(f *Field) bool { return f.Shape == List || f.Shape == LargeList }

// sameValues compares the logical types of leaves by what a value can be.
func sameValues(to, in string, input arrow.DataType) bool {
	if valueKind(to) == valueKind(in) {
		return true
	}
	switch {
	case to == "json": // text is parsed when it comes
		return valueKind(in) == "string"
	case valueKind(to) == "string": // JSON text is text, JSON as files hold it is not
		return in == "json" && input.ID() != arrow.LARGE_BINARY
	}
	return false
}

// valueKind is the logical type of the values, whatever they lie in.
func valueKind(logical string) string {
	if rest, ok := strings.CutPrefix(logical, "dict:"); ok {
		logical, _, _ = strings.Cut(rest, ":")
	}
	switch logical {
	case "large_string":
		return "string"
	case "large_binary", "blob":
		return "binary"
	}
	return logical
}

// sameExtension refuses values that say to be of another kind than the column.
// One side without an extension is no contradiction: many tools drop them.
func sameExtension(to, in *Field) error {
	a, b := to.Metadata[KeyExtensionName], in.Metadata[KeyExtensionName]
	if a == "" || b == "" || a == b {
		return nil
	}
	return fault.New(fault.Invalid, "schema: column %s is of extension type %s and the input of %s", to.dotted(), fault.Quote(a), fault.Quote(b))
}

func (m *matcher) mismatch(to, in *Field) error {
	hint := "cast the input"
	if in.Blob != NotBlob {
		hint = "the column is no blob column"
		if isPlainBinary(to.Logical) {
			hint += "; send plain binary values"
		}
	}
	return fault.New(fault.Invalid, "schema: column %s has type %s and the input has %s; %s", to.dotted(), to.typeName(), typeText(m.types[in.ID]), hint)
}

// typeName is the Arrow type of a field as its readers see it.
func (f *Field) typeName() string {
	if a, err := f.Arrow(Logical); err == nil {
		return typeText(a.Type)
	}
	return f.Logical
}

// blob matches a blob column with what may fill it.
func (m *matcher) blob(p *plan, to, in *Field) error {
	if err := to.sameThresholds(in); err != nil {
		return err
	}
	p.out = plainType(p.in)
	if isBinary(p.in) && in.Logical != "json" {
		if to.Blob == LegacyBlob {
			p.out = arrow.BinaryTypes.LargeBinary
		}
		return nil
	}
	shaped := in.Blob == BlobV2 || in.Logical == "struct" && in.hasLogicalChildren()
	if !shaped {
		return fault.New(fault.Invalid, "schema: blob column %s cannot be filled from type %s; send a struct of %s, or binary values",
			to.dotted(), typeText(p.in), shapeText)
	}
	if to.Blob == LegacyBlob {
		return fault.New(fault.Invalid, "schema: column %s is a blob column of files before 2.2 and takes binary values; "+
			"structs of %s need file version 2.2 or later: give it for this write", to.dotted(), ExtensionBlobV2)
	}
	return nil
}

// composed is the type that Apply gives for a field of the input.
func (p *plan) composed() (arrow.DataType, error) {
	if len(p.children) == 0 {
		if p.to.Logical == "struct" {
			return arrow.StructOf(), nil
		}
		return p.to.Storage, nil
	}
	i := -1
	return p.to.compose(func(c *Field) (arrow.Field, error) {
		i++
		return arrow.Field{Name: c.Name, Type: p.children[i].out, Nullable: c.Nullable}, nil
	})
}

// absentType is the type of a field that the input does not have: blobs are
// null structs of the minimal shape.
func absentType(f *Field) arrow.DataType {
	if f.Blob != NotBlob {
		return absentBlob
	}
	if f.Storage != nil {
		return f.Storage
	}
	t, err := f.compose(func(c *Field) (arrow.Field, error) {
		return arrow.Field{Name: c.Name, Type: absentType(c), Nullable: c.Nullable}, nil
	})
	if err != nil { // every shape without storage composes
		return arrow.Null
	}
	return t
}

// absentBlob is the minimal shape.
var absentBlob = arrow.StructOf(AnyBlobType.Fields()[:2]...)

// plainType is a type without views, which nothing behind this room knows.
func plainType(t arrow.DataType) arrow.DataType {
	switch t := t.(type) {
	case arrow.ExtensionType:
		return plainType(t.StorageType())
	case *arrow.StringViewType:
		return arrow.BinaryTypes.String
	case *arrow.BinaryViewType:
		return arrow.BinaryTypes.Binary
	case *arrow.StructType:
		fields := slices.Clone(t.Fields())
		for i := range fields {
			fields[i].Type, fields[i].Metadata = plainType(fields[i].Type), arrow.Metadata{}
		}
		return arrow.StructOf(fields...)
	}
	return t
}

// sameThresholds refuses an input that states a threshold other than the one
// in effect for the column (WRT-8).
func (f *Field) sameThresholds(in *Field) error {
	have, err := f.Thresholds()
	if err != nil {
		return err
	}
	stated, err := in.Thresholds()
	if err != nil {
		return err
	}
	for _, k := range thresholdKeys {
		_, ok := in.Metadata[k.key]
		if a, b := *k.of(&have), *k.of(&stated); ok && a != b {
			return fault.New(fault.Invalid, "schema: the input states %s = %d for field %s, where %d is in effect; "+
				"thresholds of a column are kept in the table: leave the key out, or change the table's value first",
				k.key, b, f.dotted(), a)
		}
	}
	return nil
}
