package schema

import (
	"maps"
	"strconv"
	"strings"
)

// Field metadata keys of table keys that are declared and not enforced,
// table-format sheet section 8. A position is a decimal number from 1 up.
const (
	KeyPrimary            = "lance-schema:unenforced-primary-key"
	KeyPrimaryPosition    = "lance-schema:unenforced-primary-key:position"
	KeyClusteringPosition = "lance-schema:unenforced-clustering-key:position"
)

// Carried is what the record of a field says beyond what readers need, section
// 2.2: writers hand it on from version to version.
type Carried struct {
	Type                  int32 // 0 in what writers write
	Encoding              Encoding
	Dictionary            *Dictionary // format 0.1 only
	PrimaryKey            bool
	PrimaryKeyPosition    uint32
	ClusteringKey         bool
	ClusteringKeyPosition uint32
	Unknown               []byte // fields of a newer writer, as they came
}

// Encoding is a leftover of format 0.1 that writers still fill and nobody reads.
type Encoding int32

// The encodings of section 2.2.
const (
	EncodingNone Encoding = iota
	EncodingPlain
	EncodingVarBinary
	EncodingDictionary
)

// Dictionary places the dictionary of a field in files of format 0.1.
type Dictionary struct{ Offset, Length int64 }

// Records lists the fields depth-first as manifests do, the inverse of
// FromRecords: its result in there gives the same tree. What is derived is
// filled in as the reference does (section 2.2): the extension name and the
// table keys from the metadata, the encoding from the type where it is missing.
func (s *Schema) Records() []Record {
	out := make([]Record, 0, len(s.byID))
	for f := range s.All() {
		out = append(out, f.record())
	}
	return out
}

func (f *Field) record() Record {
	r := Record{
		ID:          f.ID,
		ParentID:    NoParent,
		Name:        f.Name,
		LogicalType: f.Logical,
		Nullable:    f.Nullable,
		Extension:   f.Metadata[KeyExtensionName],
		Metadata:    maps.Clone(f.Metadata),
		Carried:     f.carried,
	}
	if f.Parent != nil && f.ID != anonymous {
		r.ParentID = f.Parent.ID
	}
	if r.Carried.Encoding == EncodingNone {
		r.Carried.Encoding = encodingOf(f.Logical)
	}
	r.Carried.setKeys(f.Metadata)
	return r
}

func encodingOf(logical string) Encoding {
	switch head, _, _ := strings.Cut(logical, ":"); head {
	case "struct", "null":
		return EncodingNone
	case "string", "large_string", "binary", "large_binary", "json":
		return EncodingVarBinary
	case "dict":
		return EncodingDictionary
	}
	return EncodingPlain
}

// setKeys takes the table keys from the metadata of the field, if it has them
// there.
func (c *Carried) setKeys(metadata map[string]string) {
	if truthy(metadata[KeyPrimary]) {
		c.PrimaryKey, c.PrimaryKeyPosition = true, 0
	}
	if position, ok := position(metadata, KeyPrimaryPosition); ok {
		c.PrimaryKey, c.PrimaryKeyPosition = true, position
	}
	if position, ok := position(metadata, KeyClusteringPosition); ok {
		c.ClusteringKeyPosition = position
	}
}

func position(metadata map[string]string, key string) (uint32, bool) {
	n, err := strconv.ParseUint(metadata[key], 10, 32)
	return uint32(n), err == nil
}

func truthy(text string) bool {
	switch strings.ToLower(text) {
	case "1", "true", "on", "yes", "y":
		return true
	}
	return false
}

// WithMetadata is the same tree with other schema metadata; the fields are
// shared.
func (s *Schema) WithMetadata(metadata map[string]string) *Schema {
	out := *s
	out.Metadata = metadata
	if out.Metadata == nil {
		out.Metadata = map[string]string{}
	}
	return &out
}
