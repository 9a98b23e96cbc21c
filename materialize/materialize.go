// Package materialize turns descriptors into LargeBinary values, never using
// more memory than agreed.
//
// For each descriptor batch it collects the extents of all blob leaves, sorts
// and coalesces them by object, admits them against a byte budget shared by
// all streams, fetches them concurrently, rebuilds lists and structs around the
// new leaves, and cuts the result into batches by bytes.
package materialize

import (
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/flightblob/flightblob/blob"
)

// Source yields descriptor batches. Blob leaves are the fields whose type is
// schema.DescriptorType and whose metadata holds lance-encoding:blob (DESC-3),
// at any depth below structs, lists and large lists.
type Source interface {
	array.RecordReader
	// Owners lists, for the current batch, the owner of each blob leaf in
	// depth-first order over the schema. An entry is nil when every value of
	// the leaf is null in this batch, since no file holds the column.
	Owners() []*blob.Owner
}
