package schema

import (
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/google/go-cmp/cmp"

	"github.com/flightblob/flightblob/internal/fault"
)

func TestBlobV2Schema(t *testing.T) {
	t.Parallel()
	t.Run("SCH-1 recognised by the extension name alone", func(t *testing.T) {
		rs := records(node{"img", "struct", true, map[string]string{KeyExtensionMetadata: "anything"}, minimal()})
		rs[0].Extension = ExtensionBlobV2 // the record's own field counts like metadata
		s, err := FromRecords(rs, nil)
		if err != nil {
			t.Fatal(err)
		}
		if f := s.Fields[0]; f.Blob != BlobV2 || f.Shape != Leaf || f.Storage != DescriptorType || f.Metadata[KeyExtensionName] != ExtensionBlobV2 {
			t.Errorf("%+v", f)
		}
	})
	t.Run("SCH-1 inside structs and lists", func(t *testing.T) {
		s := build(t, node{"s", "struct", true, nil, []node{{"l", "list.struct", true, nil, []node{blob("item")}}}})
		if f := s.Fields[0].Children[0].Children[0]; f.Blob != BlobV2 {
			t.Errorf("%+v", f)
		}
	})
	t.Run("SCH-2 children must match one shape, ERR-4", func(t *testing.T) {
		shapes := map[string][]node{
			"none":          nil,
			"one":           minimal()[:1],
			"three":         complete()[:3],
			"five":          append(complete(), leaf("x", "int8")),
			"reordered":     {leaf("uri", "string"), leaf("data", "large_binary")},
			"binary":        {leaf("data", "binary"), leaf("uri", "string")},
			"large_string":  {leaf("data", "large_binary"), leaf("uri", "large_string")},
			"int64":         append(minimal(), leaf("position", "int64"), leaf("size", "int64")),
			"size position": append(minimal(), leaf("size", "uint64"), leaf("position", "uint64")),
			"nested":        {{"data", "large_binary", true, nil, []node{leaf("x", "int8")}}, leaf("uri", "string")},
		}
		for name, children := range shapes {
			t.Run(name, func(t *testing.T) {
				refuse(t, fault.Corrupt, `blob field s.img has the children `+describeNodes(children), node{"s", "struct", true, nil, []node{{"img", "struct", true, blobMark, children}}})
			})
		}
	})
	t.Run("SCH-3 data and uri are nullable", func(t *testing.T) {
		for i := range 2 {
			c := complete()
			c[i].null = false
			refuse(t, fault.Corrupt, c[i].name+": "+c[i].logical+" not null", node{"img", "struct", true, blobMark, c})
		}
	})
	t.Run("SCH-4 child metadata does not matter and is kept", func(t *testing.T) {
		c := minimal()
		c[0].meta = map[string]string{"note": "payload", KeyBlob: "true", KeyExtensionName: "x.y"}
		s := build(t, node{"img", "struct", true, blobMark, c})
		if f := s.Fields[0]; f.Blob != BlobV2 || f.Children[0].Blob != NotBlob || f.Children[0].Metadata["note"] != "payload" {
			t.Errorf("%+v", f.Children[0])
		}
		v, err := s.Fields[0].Arrow(Logical)
		if err != nil {
			t.Fatal(err)
		}
		if m := v.Type.(*arrow.StructType).Field(0).Metadata; m.Len() != 3 {
			t.Errorf("the logical view has child metadata %v", m)
		}
	})
	t.Run("SCH-5 position and size may be required", func(t *testing.T) {
		for i := 2; i < 4; i++ {
			c := complete()
			c[i].null = false
			if f := build(t, node{"img", "struct", true, blobMark, c}).Fields[0]; f.Blob != BlobV2 {
				t.Errorf("%+v", f)
			}
		}
	})
	t.Run("SCH-6 any name, nullable or not", func(t *testing.T) {
		s := build(t, node{"", "struct", false, blobMark, minimal()})
		for _, v := range []View{Materialized, Descriptor, Logical} {
			if f, err := s.Fields[0].Arrow(v); err != nil || f.Nullable || f.Name != "" {
				t.Errorf("view %d: %v, %v", v, f, err)
			}
		}
	})
	t.Run("SCH-7 struct, list and large list in any combination", func(t *testing.T) {
		n := blob("b")
		for range 3 {
			n = node{"s", "struct", true, nil, []node{n}}
			n = node{"l", "list.struct", true, nil, []node{n}}
			n = node{"ll", "large_list", true, nil, []node{n}}
		}
		count := 0
		for f := range build(t, n).Blobs() {
			count++
			if f.Blob != BlobV2 {
				t.Errorf("%+v", f)
			}
		}
		if count != 1 {
			t.Errorf("%d blobs", count)
		}
	})
	t.Run("SCH-7 fixed-size lists and maps are refused, ERR-5", func(t *testing.T) {
		legacy := node{"b", "large_binary", true, map[string]string{KeyBlob: "true"}, nil}
		inList := func(n node) node {
			return node{"f", "fixed_size_list:struct:2", true, nil, []node{{"item", "struct", true, nil, []node{{"l", "list", true, nil, []node{n}}}}}}
		}
		inMap := func(n node) node {
			return node{"m", "map", true, nil, []node{{"entries", "struct", false, nil, []node{{"key", "string", false, nil, nil}, n}}}}
		}
		for _, b := range []node{blob("b"), legacy} {
			refuse(t, fault.Unsupported, "f.item.l.b lies in a fixed-size list", inList(b))
			refuse(t, fault.Unsupported, "m.entries.b lies in a map", inMap(b))
			refuse(t, fault.Unsupported, "p.b lies in a packed struct", node{"p", "struct", true, map[string]string{KeyPacked: "true"}, []node{b}})
		}
		refuse(t, fault.Corrupt, "needs one item field of type struct", node{"f", "fixed_size_list:struct:2", true, nil, []node{legacy}})
		refuse(t, fault.Unsupported, "f.b lies in a fixed-size list", node{"f", "fixed_size_list:struct:2", true, nil, []node{blob("b")}})
	})
	t.Run("SCH-8 a marked field must be a struct", func(t *testing.T) {
		refuse(t, fault.Corrupt, `field img is marked lance.blob.v2 but has type "large_binary"`, node{"img", "large_binary", true, blobMark, nil})
		refuse(t, fault.Corrupt, `"list.struct"`, node{"img", "list.struct", true, blobMark, []node{blob("item")}})
	})
	t.Run("SCH-8 an unmarked struct of the same children is a struct", func(t *testing.T) {
		if f := build(t, node{"img", "struct", true, nil, complete()}).Fields[0]; f.Blob != NotBlob || f.Shape != Struct {
			t.Errorf("%+v", f)
		}
	})
	t.Run("the tree keeps the shape that the column was made with", func(t *testing.T) {
		if f := build(t, node{"img", "struct", true, blobMark, minimal()}).Fields[0]; len(f.Children) != 2 {
			t.Errorf("%d children", len(f.Children))
		}
	})
}

func describeNodes(nodes []node) string {
	var fields []*Field
	for _, n := range nodes {
		fields = append(fields, &Field{Name: n.name, Logical: n.logical, Nullable: n.null})
	}
	return describe(fields)
}

func TestLegacyBlobs(t *testing.T) {
	t.Parallel()
	mark := func(value string) map[string]string { return map[string]string{KeyBlob: value, "own": "1"} }
	t.Run("marked binary and large_binary", func(t *testing.T) {
		for _, logical := range []string{"binary", "large_binary", "blob"} {
			f := build(t, node{"b", logical, true, mark("true"), nil}).Fields[0]
			if f.Blob != LegacyBlob || f.Shape != Leaf || f.Storage != DescriptorType {
				t.Errorf("%s: %+v", logical, f)
			}
		}
	})
	t.Run("LEG-4 unmarked columns are no blobs", func(t *testing.T) {
		for _, logical := range []string{"binary", "large_binary"} {
			if f := build(t, leaf("b", logical)).Fields[0]; f.Blob != NotBlob {
				t.Errorf("%s: %+v", logical, f)
			}
		}
	})
	t.Run("LEG-11 presence of the key is the mark", func(t *testing.T) {
		for _, value := range []string{"", "false", "true", "no"} {
			if f := build(t, node{"b", "large_binary", true, mark(value), nil}).Fields[0]; f.Blob != LegacyBlob {
				t.Errorf("%q: %+v", value, f)
			}
		}
	})
	t.Run("MAT-2 a materialized legacy column keeps its mark", func(t *testing.T) {
		f, err := build(t, node{"b", "binary", false, mark("true"), nil}).Fields[0].Arrow(Materialized)
		want := arrow.Field{Name: "b", Type: arrow.BinaryTypes.LargeBinary, Metadata: arrow.MetadataFrom(mark("true"))}
		if err != nil || !f.Equal(want) {
			t.Errorf("%v, %v", f, err)
		}
	})
	t.Run("LEG-6 descriptors have five children", func(t *testing.T) {
		f, err := build(t, node{"b", "large_binary", true, mark("true"), nil}).Fields[0].Arrow(Descriptor)
		if err != nil || f.Type != arrow.DataType(DescriptorType) || !f.Nullable {
			t.Errorf("%v, %v", f, err)
		}
	})
}

func TestBlobViews(t *testing.T) {
	t.Parallel()
	meta := map[string]string{KeyExtensionName: ExtensionBlobV2, KeyExtensionMetadata: "m", "lance-encoding:blob-inline-size-threshold": "9", "own": "1"}
	s := build(t, node{"l", "list.struct", true, nil, []node{{"img", "struct", false, meta, minimal()}}})
	view := func(t *testing.T, v View) arrow.Field {
		t.Helper()
		f, err := s.Fields[0].Arrow(v)
		if err != nil {
			t.Fatal(err)
		}
		return f.Type.(*arrow.ListType).ElemField()
	}
	t.Run("MAT-1 replaced in place by large_binary", func(t *testing.T) {
		if f := view(t, Materialized); f.Name != "img" || f.Nullable || f.Type.ID() != arrow.LARGE_BINARY {
			t.Error(f)
		}
	})
	t.Run("MAT-2 metadata without the extension", func(t *testing.T) {
		want := map[string]string{"lance-encoding:blob-inline-size-threshold": "9", "own": "1"}
		if diff := cmp.Diff(want, view(t, Materialized).Metadata.ToMap()); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("MAT-2 schema metadata is kept", func(t *testing.T) {
		s, err := FromRecords(records(blob("b")), map[string]string{"b": "2", "a": "1"})
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range []View{Materialized, Descriptor, Logical} {
			got, err := s.Arrow(v)
			if err != nil {
				t.Fatal(err)
			}
			m := got.Metadata()
			if diff := cmp.Diff([]string{"a", "b"}, m.Keys()); diff != "" {
				t.Error(diff)
			}
		}
	})
	t.Run("DESC-1 five children, none nullable", func(t *testing.T) {
		f := view(t, Descriptor)
		var got []string
		for _, c := range f.Type.(*arrow.StructType).Fields() {
			got = append(got, c.Name+" "+c.Type.Name())
			if c.Nullable {
				t.Errorf("%s is nullable", c.Name)
			}
		}
		if diff := cmp.Diff("kind uint8, position uint64, size uint64, blob_id uint32, blob_uri utf8", strings.Join(got, ", ")); diff != "" || f.Nullable {
			t.Error(diff, f)
		}
	})
	t.Run("DESC-3 only the two marks", func(t *testing.T) {
		if diff := cmp.Diff(map[string]string{KeyBlob: "true", KeyPacked: "true"}, view(t, Descriptor).Metadata.ToMap()); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("the logical face is the complete shape", func(t *testing.T) {
		f := view(t, Logical)
		if f.Nullable || f.Metadata.ToMap()[KeyExtensionName] != ExtensionBlobV2 || f.Metadata.ToMap()["own"] != "1" {
			t.Error(f)
		}
		want := arrow.StructOf(
			arrow.Field{Name: "data", Type: arrow.BinaryTypes.LargeBinary, Nullable: true},
			arrow.Field{Name: "uri", Type: arrow.BinaryTypes.String, Nullable: true},
			arrow.Field{Name: "position", Type: arrow.PrimitiveTypes.Uint64, Nullable: true},
			arrow.Field{Name: "size", Type: arrow.PrimitiveTypes.Uint64, Nullable: true},
		)
		if !arrow.TypeEqual(f.Type, want, arrow.CheckMetadata()) {
			t.Errorf("%v", f.Type)
		}
		legacy := build(t, node{"b", "binary", true, map[string]string{KeyBlob: "true", "own": "1"}, nil})
		g, err := legacy.Fields[0].Arrow(Logical)
		if err != nil || !arrow.TypeEqual(g.Type, f.Type) {
			t.Errorf("a legacy column shows %v, %v", g, err)
		}
		if diff := cmp.Diff(map[string]string{KeyExtensionName: ExtensionBlobV2, "own": "1"}, g.Metadata.ToMap()); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("views share nothing that a caller could change", func(t *testing.T) {
		if s.Fields[0].Children[0].Metadata[KeyExtensionMetadata] != "m" {
			t.Error("the tree's metadata changed")
		}
	})
}

// fileSchema is how data files list a blob field.
func fileSchema(children ...Record) []Record {
	rs := []Record{
		{ID: 0, ParentID: -1, Name: "s", LogicalType: "struct", Nullable: true},
		{ID: 3, ParentID: 0, Name: "img", LogicalType: "struct", Nullable: true, Metadata: map[string]string{KeyBlob: "true", KeyPacked: "true"}},
	}
	rs = append(rs, children...)
	return append(rs, Record{ID: 9, ParentID: 0, Name: "after", LogicalType: "int8"})
}

func descriptorRecords(null bool) []Record {
	var out []Record
	for _, c := range [][2]string{{"kind", "uint8"}, {"position", "uint64"}, {"size", "uint64"}, {"blob_id", "uint32"}, {"blob_uri", "string"}} {
		out = append(out, Record{ID: -1, ParentID: -1, Name: c[0], LogicalType: c[1], Nullable: null})
	}
	return out
}

func TestFileSchemas(t *testing.T) {
	t.Parallel()
	check := func(t *testing.T, null bool) {
		t.Helper()
		s, err := FromRecords(fileSchema(descriptorRecords(null)...), nil)
		if err != nil {
			t.Fatal(err)
		}
		f := s.ByID(3)
		if f.Blob != BlobV2 || f.Shape != Leaf || f.Packed || f.Storage != DescriptorType || len(f.Children) != 5 || len(s.Fields) != 1 || s.ByID(-1) != nil {
			t.Errorf("%+v", f)
		}
		if s.ByID(9).Parent != s.ByID(0) {
			t.Error("the field after the descriptor has another parent")
		}
	}
	t.Run("DESC-2 one column for the descriptor's nameless children", func(t *testing.T) { check(t, false) })
	t.Run("DESC-4 children declared nullable", func(t *testing.T) { check(t, true) })
	t.Run("REJ-8 other names, types or order", func(t *testing.T) {
		for name, change := range map[string]func(rs []Record) []Record{
			"name":  func(rs []Record) []Record { rs[0].Name = "sort"; return rs },
			"type":  func(rs []Record) []Record { rs[1].LogicalType = "int64"; return rs },
			"order": func(rs []Record) []Record { rs[1], rs[2] = rs[2], rs[1]; return rs },
			"fewer": func(rs []Record) []Record { return rs[:4] },
			"more":  func(rs []Record) []Record { return append(rs, rs[0]) },
		} {
			_, err := FromRecords(fileSchema(change(descriptorRecords(false))...), nil)
			if fault.KindOf(err) != fault.Corrupt || !strings.Contains(err.Error(), "blob descriptor s.img has the children [") {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
	t.Run("hidden columns at the top", func(t *testing.T) {
		s, err := FromRecords([]Record{{ID: -3, ParentID: -1, Name: "_rowid", LogicalType: "uint64"}}, nil)
		if err != nil || s.ByID(-3) == nil {
			t.Errorf("%v, %v", s, err)
		}
	})
}
