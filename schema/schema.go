// Package schema is the field tree of a Lance table: ids, logical types,
// metadata, and the faces that a blob field shows. It is pure: records in,
// trees and Arrow types out.
//
// A column's place in a file is found by field id, never by position or name.
// Three views exist of the same tree: Logical (what the manifest says),
// Descriptor (what data files store) and Materialized (what most readers
// want); they differ in blob fields only.
package schema

import (
	"github.com/apache/arrow-go/v18/arrow"
)

// FieldID identifies a field within one table; data files name columns by it.
type FieldID int32

// NoParent is the parent id of a top-level field.
const NoParent FieldID = -1

// Record is one field as manifests and data files list it, depth-first.
type Record struct {
	ID          FieldID
	ParentID    FieldID
	Name        string
	LogicalType string
	Nullable    bool
	Extension   string // overrides metadata ARROW:extension:name when set
	Metadata    map[string]string
	Carried     Carried
}

// Shape is how a field nests.
type Shape uint8

// The shapes. A Leaf owns a physical column (formats 2.1 and later): every
// field without children, every packed struct, every blob.
const (
	Leaf Shape = iota
	Struct
	List
	LargeList
	Map
	FixedSizeList // of structs; a fixed-size list of anything else is a Leaf
)

// Field is one node of the tree. Read-only once built.
type Field struct {
	ID       FieldID
	Name     string
	Logical  string // logical type text, table-format sheet section 2.3
	Nullable bool
	Metadata map[string]string // Arrow field metadata, extension name included
	Shape    Shape
	Blob     BlobKind
	Packed   bool // a packed struct: Leaf shape with Children kept for its type
	Children []*Field
	Parent   *Field

	// Storage is the Arrow type of the values of a Leaf as files hold them:
	// for a blob of either kind DescriptorType, for a packed struct its struct
	// type, for JSON large_binary. Nil for other shapes.
	Storage arrow.DataType
	// Dimension is the list size of a FixedSizeList.
	Dimension int

	carried Carried
}

// BlobKind says whether a field is a blob column and of which generation.
type BlobKind uint8

// The kinds of blob field.
const (
	NotBlob    BlobKind = iota
	BlobV2              // struct marked lance.blob.v2
	LegacyBlob          // large_binary marked lance-encoding:blob
)

// View chooses the face of blob fields.
type View uint8

// The views of interface.md, "Blob columns in results".
const (
	Materialized View = iota // large_binary
	Descriptor               // five-child descriptor struct
	Logical                  // data, uri, position, size
)

// Schema is the whole tree with the table's schema metadata.
type Schema struct {
	Fields   []*Field
	Metadata map[string]string

	byID map[FieldID]*Field
}

// DescriptorType is the five-child struct of rule DESC-1.
var DescriptorType = arrow.StructOf(
	arrow.Field{Name: "kind", Type: arrow.PrimitiveTypes.Uint8},
	arrow.Field{Name: "position", Type: arrow.PrimitiveTypes.Uint64},
	arrow.Field{Name: "size", Type: arrow.PrimitiveTypes.Uint64},
	arrow.Field{Name: "blob_id", Type: arrow.PrimitiveTypes.Uint32},
	arrow.Field{Name: "blob_uri", Type: arrow.BinaryTypes.String},
)

// ByID finds a field anywhere in the tree, or nil.
func (s *Schema) ByID(id FieldID) *Field { return s.byID[id] }

// Only is the schema with some of its top-level fields, in the order given.
func (s *Schema) Only(fields []*Field) *Schema {
	return &Schema{Fields: fields, Metadata: s.Metadata, byID: s.byID}
}

// Path lists the fields from the top level down to f, f included.
func (f *Field) Path() []*Field {
	var path []*Field
	for n := f; n != nil; n = n.Parent {
		path = append(path, n)
	}
	for i, j := 0, len(path)-1; i < j; i, j = i+1, j-1 {
		path[i], path[j] = path[j], path[i]
	}
	return path
}

// Stored is the field whose columns hold f: f itself, or the outermost packed
// struct above it, whose children share one column.
func (f *Field) Stored() *Field {
	stored := f
	for n := f.Parent; n != nil; n = n.Parent {
		if n.Packed {
			stored = n
		}
	}
	return stored
}
