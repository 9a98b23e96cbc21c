package datafile

import (
	"strings"

	"github.com/flightblob/flightblob/internal/lancepb"
	"github.com/flightblob/flightblob/schema"
)

// anonymous is the id of the children of blob descriptors, which have no place
// in the table's schema (file-format sheet section 2.4).
const anonymous = -1

// Values of Field.encoding, a leftover of format 0.1 that the reference fills.
const (
	plainField      = 1
	variableField   = 2
	dictionaryField = 3
)

// fileSchema lists the fields of a file. Blob columns appear as what they are
// stored as: packed structs of a descriptor's five children.
func fileSchema(s *schema.Schema) *lancepb.FileSchema {
	out := &lancepb.FileSchema{Metadata: bytesOf(s.Metadata)}
	for _, f := range s.Fields {
		out.Fields = appendField(out.Fields, f, int32(schema.NoParent))
	}
	return out
}

func appendField(out []*lancepb.Field, f *schema.Field, parent int32) []*lancepb.Field {
	m := &lancepb.Field{
		Id: int32(f.ID), ParentId: parent, Name: f.Name, LogicalType: f.Logical, Nullable: f.Nullable,
		Encoding: legacyEncoding(f.Logical), ExtensionName: f.Metadata[schema.KeyExtensionName], Metadata: bytesOf(f.Metadata),
	}
	if m.Encoding == dictionaryField {
		m.Dictionary = &lancepb.FieldDictionary{}
	}
	if f.Blob == schema.NotBlob {
		out = append(out, m)
		for _, c := range f.Children {
			out = appendField(out, c, int32(f.ID))
		}
		return out
	}
	m.LogicalType, m.ExtensionName, m.Encoding = "struct", "", 0
	m.Metadata = bytesOf(map[string]string{schema.KeyBlob: "true", schema.KeyPacked: "true"})
	out = append(out, m)
	for _, c := range schema.DescriptorType.Fields() {
		logical := strings.Replace(c.Type.Name(), "utf8", "string", 1)
		out = append(out, &lancepb.Field{
			Id: anonymous, ParentId: int32(schema.NoParent), Name: c.Name, LogicalType: logical, Encoding: legacyEncoding(logical),
		})
	}
	return out
}

func legacyEncoding(logical string) int32 {
	switch logical {
	case "struct", "null":
		return 0
	case "string", "large_string", "binary", "large_binary", "json":
		return variableField
	}
	if strings.HasPrefix(logical, "dict:") {
		return dictionaryField
	}
	return plainField
}

func bytesOf(m map[string]string) map[string][]byte {
	if len(m) == 0 {
		return nil
	}
	out := make(map[string][]byte, len(m))
	for k, v := range m {
		out[k] = []byte(v)
	}
	return out
}
