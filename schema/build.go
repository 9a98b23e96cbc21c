package schema

import (
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/flightblob/flightblob/internal/fault"
)

// MaxDepth is the deepest nesting of fields that is read. No real table comes
// near it; it bounds every recursion over a tree.
const MaxDepth = 100

// anonymous is the id that data files give to the children of a blob
// descriptor; such records have no parent either (file-format sheet 2.4).
const anonymous FieldID = -1

// FromRecords builds the tree of a depth-first list of records: parents come
// before children, siblings in column order, ids unique. Records with id -1 and
// parent -1 belong to the blob field listed before them, as data files write
// the children of descriptors.
//
// Damage (unknown parents, ids given twice, too few or too many children, blob
// fields of a wrong shape: SCH-2, SCH-3, SCH-8, REJ-8) is fault.Corrupt; logical
// types and nestings that no release writes are fault.Unsupported.
func FromRecords(records []Record, metadata map[string]string) (*Schema, error) {
	s := &Schema{Metadata: metadata, byID: make(map[FieldID]*Field, len(records))}
	if s.Metadata == nil {
		s.Metadata = map[string]string{}
	}
	b := builder{schema: s, depth: make(map[FieldID]int, len(records))}
	for i := range records {
		if err := b.add(&records[i]); err != nil {
			return nil, err
		}
	}
	for _, f := range s.Fields {
		if err := finish(f, place{}); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// builder links records into a tree; what fields mean is worked out after.
type builder struct {
	schema *Schema
	depth  map[FieldID]int
	last   *Field // the field before, the owner of anonymous records
}

func (b *builder) add(r *Record) error {
	f := &Field{ID: r.ID, Name: r.Name, Logical: r.LogicalType, Nullable: r.Nullable, Metadata: fieldMetadata(r), carried: r.Carried}
	if r.ID == anonymous {
		return b.attach(f, r)
	}
	b.last = f
	if r.ID < 0 && r.ParentID != NoParent {
		return fault.Corruptf(-1, "schema: field %q has the reserved id %d below another field", r.Name, r.ID)
	}
	if _, taken := b.schema.byID[r.ID]; taken {
		return fault.Corruptf(-1, "schema: field id %d is given twice, to %q last", r.ID, r.Name)
	}
	b.schema.byID[r.ID] = f
	if r.ParentID == NoParent {
		b.depth[r.ID] = 1
		b.schema.Fields = append(b.schema.Fields, f)
		return nil
	}
	parent := b.schema.byID[r.ParentID]
	if parent == nil || parent == f {
		return fault.Corruptf(-1, "schema: field %q (id %d) has parent %d, which is not listed before it", r.Name, r.ID, r.ParentID)
	}
	depth := b.depth[r.ParentID] + 1
	if depth > MaxDepth {
		return fault.Corruptf(-1, "schema: field %q (id %d) is nested more than %d levels deep", r.Name, r.ID, MaxDepth)
	}
	b.depth[r.ID] = depth
	f.Parent = parent
	parent.Children = append(parent.Children, f)
	return nil
}

// attach hangs an anonymous record below the blob field listed before it.
func (b *builder) attach(f *Field, r *Record) error {
	if r.ParentID != NoParent || b.last == nil || !b.last.marked(KeyBlob) || b.last.Logical != "struct" {
		return fault.Corruptf(-1, "schema: field %q has id -1 but does not follow a blob descriptor", r.Name)
	}
	f.Parent = b.last
	b.last.Children = append(b.last.Children, f)
	return nil
}

func fieldMetadata(r *Record) map[string]string {
	m := make(map[string]string, len(r.Metadata)+1)
	for k, v := range r.Metadata {
		m[k] = v
	}
	if r.Extension != "" {
		m[KeyExtensionName] = r.Extension
	}
	return m
}

// place is what lies above a field, as far as it restricts the field.
type place struct {
	inBlob   bool
	blobless string // the container that cannot hold blobs (SCH-7), or ""
}

// finish works out shape, blob kind and storage of f and all below it.
func finish(f *Field, at place) error {
	switch {
	case at.inBlob:
		f.Packed = false
	case f.isBlobStruct():
		return finishBlob(f, at)
	case f.marked(KeyBlob) && isPlainBinary(f.Logical):
		if at.blobless != "" {
			return misplacedBlob(f, at)
		}
		f.Blob = LegacyBlob
	}
	switch logical, ok := nesting(f.Logical); {
	case ok:
		f.Shape = logical
		if err := finishNested(f, at); err != nil {
			return err
		}
	case len(f.Children) > 0:
		return fault.Corruptf(-1, "schema: field %s of type %q has %d children", f.dotted(), f.Logical, len(f.Children))
	}
	if f.Shape != Leaf {
		return nil
	}
	storage, err := leafStorage(f)
	if err != nil {
		return err
	}
	f.Storage = storage
	return nil
}

// nesting gives the shape of a logical type that has child fields.
func nesting(logical string) (Shape, bool) {
	switch logical {
	case "struct":
		return Struct, true
	case "list", "list.struct":
		return List, true
	case "large_list", "large_list.struct":
		return LargeList, true
	case "map":
		return Map, true
	}
	if strings.HasPrefix(logical, fixedStructPrefix) {
		return FixedSizeList, true
	}
	return Leaf, false
}

const fixedStructPrefix = "fixed_size_list:struct:"

func finishNested(f *Field, at place) error {
	below := at
	switch f.Shape {
	case Struct:
		if f.isPacked() {
			f.Packed = true
			below.blobless = "packed struct"
		}
		// A struct without children owns a column, to hold its validity.
		if f.Packed || len(f.Children) == 0 {
			f.Shape = Leaf
		}
	case List, LargeList:
		if len(f.Children) != 1 {
			return wrongChildren(f, "one item field")
		}
	case Map:
		if err := checkMap(f); err != nil {
			return err
		}
		below.blobless = "map"
	case FixedSizeList:
		n, err := positive(f, strings.TrimPrefix(f.Logical, fixedStructPrefix))
		if err != nil {
			return err
		}
		f.Dimension = int(n)
		if len(f.Children) != 1 || f.Children[0].Logical != "struct" {
			return wrongChildren(f, "one item field of type struct")
		}
		below.blobless = "fixed-size list"
	}
	if at.blobless != "" {
		below.blobless = at.blobless
	}
	for _, c := range f.Children {
		if err := finish(c, below); err != nil {
			return err
		}
	}
	return nil
}

// checkMap wants one entries struct of key and value. Their names are free.
func checkMap(f *Field) error {
	if len(f.Children) != 1 || f.Children[0].Logical != "struct" || len(f.Children[0].Children) != 2 {
		return wrongChildren(f, "one entries struct of key and value")
	}
	entries := f.Children[0]
	if entries.Nullable || entries.Children[0].Nullable {
		return fault.Corruptf(-1, "schema: the entries and keys of map %s must not be nullable", f.dotted())
	}
	return nil
}

func wrongChildren(f *Field, want string) error {
	return fault.Corruptf(-1, "schema: field %s of type %q has the children %s; it needs %s", f.dotted(), f.Logical, describe(f.Children), want)
}

// describe lists fields as name: type with nullability, for error texts.
func describe(fields []*Field) string {
	parts := make([]string, 0, len(fields))
	for i, c := range fields {
		if i == 8 {
			parts = append(parts, fmt.Sprintf("… %d more", len(fields)-i))
			break
		}
		null := " not null"
		if c.Nullable {
			null = ""
		}
		parts = append(parts, fmt.Sprintf("%s: %s%s", c.Name, c.Logical, null))
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

func leafStorage(f *Field) (arrow.DataType, error) {
	switch {
	case f.Blob != NotBlob:
		return DescriptorType, nil
	case f.Logical == "struct":
		return nestedStorage(f)
	default:
		return parseLogical(f, f.Logical, 0)
	}
}

// nestedStorage is the type of a field below a packed struct, or of the struct
// itself: what Arrow would show, but with every leaf as files hold it.
func nestedStorage(f *Field) (arrow.DataType, error) {
	if f.Storage != nil {
		return f.Storage, nil
	}
	return f.compose(func(c *Field) (arrow.Field, error) {
		t, err := nestedStorage(c)
		if err != nil {
			return arrow.Field{}, err
		}
		return arrow.Field{Name: c.Name, Type: t, Nullable: c.Nullable}, nil
	})
}
