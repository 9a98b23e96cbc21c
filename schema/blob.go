package schema

import (
	"strings"

	"github.com/flightblob/flightblob/internal/fault"
)

// isBlobStruct recognises Blob v2 fields: by extension name in manifests
// (SCH-1), and in data files by the blob mark on a struct whose children have
// no ids.
func (f *Field) isBlobStruct() bool {
	if f.Metadata[KeyExtensionName] == ExtensionBlobV2 {
		return true
	}
	return f.isDescriptor()
}

func (f *Field) isDescriptor() bool {
	return f.Logical == "struct" && f.marked(KeyBlob) && len(f.Children) > 0 && f.Children[0].ID == anonymous
}

func isPlainBinary(logical string) bool {
	return logical == "binary" || logical == "large_binary" || logical == "blob"
}

func misplacedBlob(f *Field, at place) error {
	return fault.New(fault.Unsupported, "schema: blob field %s lies in a %s; blobs may lie in structs, lists and large lists only", f.dotted(), at.blobless)
}

// finishBlob checks a Blob v2 field. Its children keep their logical types, for
// the texts of errors and for writers; none of them owns a column.
func finishBlob(f *Field, at place) error {
	if f.Logical != "struct" {
		return fault.Corruptf(-1, "schema: field %s is marked %s but has type %q; it must be a struct of %s", f.dotted(), ExtensionBlobV2, f.Logical, shapeText)
	}
	if at.blobless != "" {
		return misplacedBlob(f, at)
	}
	if f.isDescriptor() {
		if !f.hasDescriptorChildren() {
			return fault.Corruptf(-1, "schema: blob descriptor %s has the children %s; it must have [kind: uint8, position: uint64, size: uint64, blob_id: uint32, blob_uri: string]", f.dotted(), describe(f.Children))
		}
	} else if !f.hasLogicalChildren() {
		return fault.Corruptf(-1, "schema: blob field %s has the children %s; it must have %s", f.dotted(), describe(f.Children), shapeText)
	}
	f.Blob = BlobV2
	f.Storage = DescriptorType
	for _, c := range f.Children {
		if err := finish(c, place{inBlob: true}); err != nil {
			return err
		}
	}
	return nil
}

const shapeText = "[data: large_binary, uri: string] or [data: large_binary, uri: string, position: uint64, size: uint64], data and uri nullable"

// blobShape is the complete logical shape; the minimal one is its first two.
var blobShape = [...]struct{ name, logical string }{
	{"data", "large_binary"},
	{"uri", "string"},
	{"position", "uint64"},
	{"size", "uint64"},
}

// hasLogicalChildren is rules SCH-2, SCH-3 and SCH-5.
func (f *Field) hasLogicalChildren() bool {
	if len(f.Children) != 2 && len(f.Children) != 4 {
		return false
	}
	for i, c := range f.Children {
		want := blobShape[i]
		if c.Name != want.name || c.Logical != want.logical || len(c.Children) > 0 || i < 2 && !c.Nullable {
			return false
		}
	}
	return true
}

// hasDescriptorChildren is rule DESC-1 without nullability (DESC-4).
func (f *Field) hasDescriptorChildren() bool {
	want := DescriptorType.Fields()
	if len(f.Children) != len(want) {
		return false
	}
	for i, c := range f.Children {
		logical := strings.Replace(want[i].Type.Name(), "utf8", "string", 1)
		if c.Name != want[i].Name || c.Logical != logical || len(c.Children) > 0 {
			return false
		}
	}
	return true
}
