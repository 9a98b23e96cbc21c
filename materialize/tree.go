package materialize

import (
	"github.com/apache/arrow-go/v18/arrow"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/schema"
)

// node is a field on the way to a blob leaf; fields without blobs below have
// none and pass through untouched.
type node struct {
	out      arrow.Field // what the field becomes
	leaf     int         // index of the blob leaf, or -1 for a container
	children []*node     // struct: one for each child, nil when untouched; list: one
}

// leafInfo is what is known of a blob leaf before any batch.
type leafInfo struct {
	path     string // dotted, list items by their name in the Arrow type
	nullable bool
	out      arrow.DataType
}

// tree is the plan of a stream's schema: a node for each column that holds
// blobs, the leaves in depth-first order.
type tree struct {
	columns []*node
	leaves  []leafInfo
	schema  *arrow.Schema // of the result
	mixed   bool          // leaves are of ReferenceType
}

// isLeaf recognises a blob leaf of a descriptor batch: a struct with the blob
// mark of DESC-3. The mark alone is not enough, since materialized legacy
// columns keep it (MAT-2).
func isLeaf(f arrow.Field) bool {
	return f.Type.ID() == arrow.STRUCT && f.HasMetadata() && f.Metadata.FindKey(schema.KeyBlob) >= 0
}

// newTree matches the source's schema with the one wanted. A nil out derives
// one: leaves lose their storage marks and keep all other metadata.
func newTree(src, out *arrow.Schema, view schema.View, mixed bool) (*tree, error) {
	if view != schema.Materialized && view != schema.Logical {
		return nil, fault.New(fault.Internal, "materialize: view %d needs no materialization", view)
	}
	if out == nil {
		out = derive(src, view)
	}
	if src.NumFields() != out.NumFields() {
		return nil, fault.New(fault.Internal, "materialize: %d source columns for %d result columns", src.NumFields(), out.NumFields())
	}
	t := &tree{schema: out, mixed: mixed, columns: make([]*node, src.NumFields())}
	for i := range src.NumFields() {
		var err error
		if t.columns[i], err = t.add(src.Field(i), out.Field(i), "", view); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func (t *tree) add(src, out arrow.Field, parent string, view schema.View) (*node, error) {
	path := src.Name
	if parent != "" {
		path = parent + "." + src.Name
	}
	n := &node{out: out, leaf: -1}
	if isLeaf(src) {
		if err := checkLeaf(src.Type, t.mixed); err != nil {
			return nil, fault.New(fault.KindOf(err), "materialize: %s: %w", path, err)
		}
		if want := leafType(view); !sameShape(out.Type, want) {
			return nil, fault.New(fault.Internal, "materialize: %s becomes %s, not %s", path, want, out.Type)
		}
		n.leaf = len(t.leaves)
		t.leaves = append(t.leaves, leafInfo{path: path, nullable: out.Nullable, out: out.Type})
		return n, nil
	}
	from, to := children(src.Type), children(out.Type)
	if src.Type.ID() != out.Type.ID() || len(from) != len(to) {
		return nil, fault.New(fault.Internal, "materialize: %s is %s in the source and %s in the result", path, src.Type, out.Type)
	}
	before := len(t.leaves)
	n.children = make([]*node, len(from))
	for i := range from {
		var err error
		if n.children[i], err = t.add(from[i], to[i], path, view); err != nil {
			return nil, err
		}
	}
	if len(t.leaves) == before {
		return nil, nil
	}
	switch src.Type.ID() {
	case arrow.STRUCT, arrow.LIST, arrow.LARGE_LIST:
		return n, nil
	}
	return nil, fault.New(fault.Unsupported, "materialize: %s: blobs lie below structs, lists and large lists only, not %s", path, src.Type)
}

// children lists the fields of a nested type, whatever kind it is.
func children(dt arrow.DataType) []arrow.Field {
	if nested, ok := dt.(arrow.NestedType); ok {
		return nested.Fields()
	}
	return nil
}

// leafType is the type that a leaf has in a view.
func leafType(view schema.View) arrow.DataType {
	if view == schema.Logical {
		return LogicalType
	}
	return arrow.BinaryTypes.LargeBinary
}

// sameShape compares names and types, not nullability or metadata.
func sameShape(a, b arrow.DataType) bool {
	if a.ID() != b.ID() {
		return false
	}
	x, y := children(a), children(b)
	if len(x) != len(y) {
		return false
	}
	for i := range x {
		if x[i].Name != y[i].Name || !sameShape(x[i].Type, y[i].Type) {
			return false
		}
	}
	return true
}

func derive(src *arrow.Schema, view schema.View) *arrow.Schema {
	fields := make([]arrow.Field, src.NumFields())
	for i := range fields {
		fields[i] = deriveField(src.Field(i), view)
	}
	m := src.Metadata()
	return arrow.NewSchema(fields, &m)
}

func deriveField(f arrow.Field, view schema.View) arrow.Field {
	if isLeaf(f) {
		return deriveLeaf(f, view)
	}
	switch dt := f.Type.(type) {
	case *arrow.StructType:
		fields := make([]arrow.Field, dt.NumFields())
		for i := range fields {
			fields[i] = deriveField(dt.Field(i), view)
		}
		f.Type = arrow.StructOf(fields...)
	case *arrow.ListType:
		f.Type = arrow.ListOfField(deriveField(dt.ElemField(), view))
	case *arrow.LargeListType:
		f.Type = arrow.LargeListOfField(deriveField(dt.ElemField(), view))
	}
	return f
}

func deriveLeaf(f arrow.Field, view schema.View) arrow.Field {
	f.Type = leafType(view)
	var keys, values []string
	for i, key := range f.Metadata.Keys() {
		if key != schema.KeyBlob && key != schema.KeyPacked {
			keys, values = append(keys, key), append(values, f.Metadata.Values()[i])
		}
	}
	if view == schema.Logical {
		keys, values = append(keys, schema.KeyExtensionName), append(values, schema.ExtensionBlobV2)
	}
	f.Metadata = arrow.NewMetadata(keys, values)
	return f
}
