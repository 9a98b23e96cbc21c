package schema

import (
	"github.com/flightblob/flightblob/internal/fault"
)

// HasLegacyBlobs tells whether some blob column has the schema of files before
// 2.2.
func (s *Schema) HasLegacyBlobs() bool {
	for f := range s.Blobs() {
		if f.Blob == LegacyBlob {
			return true
		}
	}
	return false
}

// WithoutLegacyBlobs gives the tree that a snapshot has from its first file of
// format 2.2 or later on (LEG-2, LEG-5): blob columns of older files become
// structs of the minimal shape under the same field id, and their children take
// ids from next on. Older files stay readable under it, and their rows show the
// same descriptors as all others (LEG-6). A tree without such columns is
// returned as it is.
func (s *Schema) WithoutLegacyBlobs(next FieldID) (*Schema, error) {
	if !s.HasLegacyBlobs() {
		return s, nil
	}
	var records []Record
	for f := range s.All() {
		if f.ID == anonymous {
			return nil, fault.New(fault.Internal, "schema: the schema of a data file is not that of a table")
		}
		r := f.record()
		if f.Blob != LegacyBlob {
			records = append(records, r)
			continue
		}
		delete(r.Metadata, KeyBlob)
		r.Metadata[KeyExtensionName] = ExtensionBlobV2
		r.LogicalType, r.Extension, r.Carried.Encoding = "struct", ExtensionBlobV2, EncodingNone
		records = append(records, r)
		records = append(records, minimalShape(f.ID, next)...)
		next += 2
	}
	return FromRecords(records, s.Metadata)
}
