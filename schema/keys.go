package schema

import "strings"

// Field metadata keys, table-format sheet section 8.
const (
	KeyExtensionName     = "ARROW:extension:name"
	KeyExtensionMetadata = "ARROW:extension:metadata"
	KeyBlob              = "lance-encoding:blob"
	KeyPacked            = "lance-encoding:packed"
	keyPackedOld         = "packed"
)

// Extension names that decide how a field is read.
const (
	ExtensionBlobV2   = "lance.blob.v2"
	extensionJSON     = "lance.json" // in manifests
	extensionArrow    = "arrow.json" // in Arrow schemas
	extensionBFloat16 = "lance.bfloat16"
)

// KeyManaged is the schema metadata key of the managed-blob opt-in (CAP-1).
const KeyManaged = "lance.blob.managed"

// marked says that a metadata key is present, with whatever value (LEG-11).
func (f *Field) marked(key string) bool {
	_, ok := f.Metadata[key]
	return ok
}

// isPacked reads the packed mark: unlike the blob mark it needs a true value.
func (f *Field) isPacked() bool {
	return strings.EqualFold(f.Metadata[KeyPacked], "true") || strings.EqualFold(f.Metadata[keyPackedOld], "true")
}

// InRows20 says that files of format 2.0 may hold the fields below f in f's own
// column, as rows: fixed-size lists of structs, and structs with a packed mark,
// which writers of that format obeyed whatever its value (format 2.0 sheet
// section 3).
func (f *Field) InRows20() bool {
	switch f.Shape {
	case FixedSizeList:
		return true
	case Struct:
		return f.marked(KeyPacked) || f.marked(keyPackedOld)
	}
	return false
}

// IsJSON says that files hold this leaf as binary JSON (JSONB, Storage
// large_binary) where Arrow views show text with the extension arrow.json: a
// reader must turn the one into the other.
func (f *Field) IsJSON() bool { return f.Logical == "json" }

// dotted is the full name of a field for texts: names joined by dots.
func (f *Field) dotted() string {
	path := f.Path()
	names := make([]string, len(path))
	for i, p := range path {
		names[i] = p.Name
	}
	return strings.Join(names, ".")
}

// FullName is the dotted name from the top level down, as Project takes it.
func (f *Field) FullName() string { return f.dotted() }
