package schema

import (
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/google/go-cmp/cmp"

	"github.com/flightblob/flightblob/internal/fault"
)

// node describes a field; records gives it and its children ids in order.
type node struct {
	name, logical string
	null          bool
	meta          map[string]string
	children      []node
}

func records(nodes ...node) []Record {
	var out []Record
	var add func(n node, parent FieldID)
	add = func(n node, parent FieldID) {
		id := FieldID(len(out))
		out = append(out, Record{ID: id, ParentID: parent, Name: n.name, LogicalType: n.logical, Nullable: n.null, Metadata: n.meta})
		for _, c := range n.children {
			add(c, id)
		}
	}
	for _, n := range nodes {
		add(n, NoParent)
	}
	return out
}

func build(t *testing.T, nodes ...node) *Schema {
	t.Helper()
	s, err := FromRecords(records(nodes...), nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func refuse(t *testing.T, kind fault.Kind, want string, nodes ...node) {
	t.Helper()
	_, err := FromRecords(records(nodes...), nil)
	if err == nil || fault.KindOf(err) != kind || !strings.Contains(fmt.Sprint(err), want) {
		t.Errorf("got %v, want %v with %q", err, kind, want)
	}
}

var blobMark = map[string]string{KeyExtensionName: ExtensionBlobV2}

func minimal() []node {
	return []node{{"data", "large_binary", true, nil, nil}, {"uri", "string", true, nil, nil}}
}

func complete() []node {
	return append(minimal(), node{"position", "uint64", true, nil, nil}, node{"size", "uint64", true, nil, nil})
}

func blob(name string) node { return node{name, "struct", true, blobMark, complete()} }

func leaf(name, logical string) node { return node{name, logical, true, nil, nil} }

func TestStorage(t *testing.T) {
	t.Parallel()
	tests := map[string]arrow.DataType{
		"null": arrow.Null, "bool": arrow.FixedWidthTypes.Boolean,
		"int8": arrow.PrimitiveTypes.Int8, "uint8": arrow.PrimitiveTypes.Uint8, "int16": arrow.PrimitiveTypes.Int16, "uint16": arrow.PrimitiveTypes.Uint16,
		"int32": arrow.PrimitiveTypes.Int32, "uint32": arrow.PrimitiveTypes.Uint32, "int64": arrow.PrimitiveTypes.Int64, "uint64": arrow.PrimitiveTypes.Uint64,
		"halffloat": arrow.FixedWidthTypes.Float16, "float": arrow.PrimitiveTypes.Float32, "double": arrow.PrimitiveTypes.Float64,
		"string": arrow.BinaryTypes.String, "large_string": arrow.BinaryTypes.LargeString, "binary": arrow.BinaryTypes.Binary, "large_binary": arrow.BinaryTypes.LargeBinary,
		"json": arrow.BinaryTypes.LargeBinary, "blob": arrow.BinaryTypes.LargeBinary,
		"fixed_size_binary:0": &arrow.FixedSizeBinaryType{}, "fixed_size_binary:12": &arrow.FixedSizeBinaryType{ByteWidth: 12},
		"date32:day": arrow.FixedWidthTypes.Date32, "date64:ms": arrow.FixedWidthTypes.Date64,
		"time32:s": arrow.FixedWidthTypes.Time32s, "time32:ms": arrow.FixedWidthTypes.Time32ms, "time64:us": arrow.FixedWidthTypes.Time64us, "time64:ns": arrow.FixedWidthTypes.Time64ns,
		"timestamp:s:-": &arrow.TimestampType{Unit: arrow.Second}, "timestamp:ns:+08:00": &arrow.TimestampType{Unit: arrow.Nanosecond, TimeZone: "+08:00"},
		"timestamp:ms:Europe/Berlin": &arrow.TimestampType{Unit: arrow.Millisecond, TimeZone: "Europe/Berlin"},
		"duration:us":                arrow.FixedWidthTypes.Duration_us,
		"decimal:128:38:10":          &arrow.Decimal128Type{Precision: 38, Scale: 10}, "decimal:256:76:-3": &arrow.Decimal256Type{Precision: 76, Scale: -3},
		"dict:string:int8:false":                                  &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String},
		"dict:timestamp:us:-:uint16:false":                        &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Uint16, ValueType: &arrow.TimestampType{Unit: arrow.Microsecond}},
		"fixed_size_list:float:4":                                 arrow.FixedSizeListOf(4, arrow.PrimitiveTypes.Float32),
		"fixed_size_list:decimal:128:5:2:3":                       arrow.FixedSizeListOf(3, &arrow.Decimal128Type{Precision: 5, Scale: 2}),
		"fixed_size_list:timestamp:us:+08:00:2":                   arrow.FixedSizeListOf(2, &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "+08:00"}),
		"fixed_size_list:fixed_size_list:fixed_size_binary:3:4:2": arrow.FixedSizeListOf(2, arrow.FixedSizeListOf(4, &arrow.FixedSizeBinaryType{ByteWidth: 3})),
		"fixed_size_list:lance.bfloat16:8": arrow.FixedSizeListOfField(8, arrow.Field{
			Name: "item", Type: &arrow.FixedSizeBinaryType{ByteWidth: 2}, Nullable: true,
			Metadata: arrow.MetadataFrom(map[string]string{KeyExtensionName: "lance.bfloat16", KeyExtensionMetadata: ""}),
		}),
	}
	for logical, want := range tests {
		t.Run(logical, func(t *testing.T) {
			t.Parallel()
			f := build(t, leaf("x", logical)).Fields[0]
			if f.Shape != Leaf || !arrow.TypeEqual(f.Storage, want, arrow.CheckMetadata()) {
				t.Errorf("shape %d, storage %v, want %v", f.Shape, f.Storage, want)
			}
			if f.IsJSON() != (logical == "json") {
				t.Error("JSON is told wrongly")
			}
		})
	}
}

func TestImpossibleTypes(t *testing.T) {
	t.Parallel()
	unknown := []string{
		"", "tensor", "int128", "list:int8", "timestamp", "timestamp:us", "timestamp:min:-", "time32:us", "time64:s", "date32", "duration:min",
		"decimal:128:5", "decimal:64:5:2", "decimal:128:x:2", "decimal:128:5:200", "dict:string", "dict:string:int8", "dict:string:float:false",
		"dict:string:int8:maybe", "dict:dict:string:int8:false:int8:false", "fixed_size_list:tensor:3", "fixed_size_list", "list.map", "fixed_size_list:list:3",
	}
	for _, logical := range unknown {
		t.Run("unknown "+logical, func(t *testing.T) { refuse(t, fault.Unsupported, "unknown logical type", leaf("x", logical)) })
	}
	damaged := []string{
		"fixed_size_binary:-1", "fixed_size_binary:", "fixed_size_binary:2147483648", "fixed_size_list:float:0", "fixed_size_list:float:x", "fixed_size_list:float:-4",
		"fixed_size_list:fixed_size_list:float:65536:65536", "decimal:128:39:0", "decimal:256:77:0", "decimal:128:0:0", "decimal:128:5:6",
		strings.Repeat("fixed_size_list:", 200) + "float" + strings.Repeat(":1", 200), "fixed_size_list:struct:0",
	}
	for _, logical := range damaged {
		t.Run("damaged "+logical[:min(len(logical), 60)], func(t *testing.T) {
			refuse(t, fault.Corrupt, "x", leaf("x", logical))
		})
	}
}

func TestShapes(t *testing.T) {
	t.Parallel()
	s := build(t,
		node{"s", "struct", true, nil, []node{leaf("a", "int8"), leaf("b", "string")}},
		node{"l", "list", true, nil, []node{leaf("it", "int8")}},
		node{"ll", "large_list.struct", true, nil, []node{{"item", "struct", true, nil, []node{leaf("a", "int8")}}}},
		node{"m", "map", true, nil, []node{{"entries", "struct", false, nil, []node{{"key", "string", false, nil, nil}, leaf("value", "int8")}}}},
		node{"f", "fixed_size_list:struct:3", true, nil, []node{{"item", "struct", true, nil, []node{leaf("a", "int8")}}}},
		node{"p", "struct", true, map[string]string{"packed": "True"}, []node{leaf("a", "int8"), leaf("j", "json")}},
		node{"e", "struct", true, nil, nil},
		blob("b"),
	)
	want := map[string]Shape{"s": Struct, "l": List, "ll": LargeList, "m": Map, "f": FixedSizeList, "p": Leaf, "e": Leaf, "b": Leaf}
	for _, f := range s.Fields {
		if f.Shape != want[f.Name] || f.Packed != (f.Name == "p") || (f.Storage != nil) != (f.Shape == Leaf) {
			t.Errorf("%s: shape %d, packed %v, storage %v", f.Name, f.Shape, f.Packed, f.Storage)
		}
		if s.ByID(f.ID) != f {
			t.Errorf("%s is not found by id %d", f.Name, f.ID)
		}
	}
	if s.Fields[4].Dimension != 3 {
		t.Errorf("dimension %d", s.Fields[4].Dimension)
	}
	packed := arrow.StructOf(arrow.Field{Name: "a", Type: arrow.PrimitiveTypes.Int8, Nullable: true}, arrow.Field{Name: "j", Type: arrow.BinaryTypes.LargeBinary, Nullable: true})
	if !arrow.TypeEqual(s.Fields[5].Storage, packed) || len(s.Fields[5].Children) != 2 {
		t.Errorf("packed storage %v", s.Fields[5].Storage)
	}
	var leaves, all []string
	for f := range s.Leaves() {
		leaves = append(leaves, f.FullName())
	}
	if diff := cmp.Diff([]string{"s.a", "s.b", "l.it", "ll.item.a", "m.entries.key", "m.entries.value", "f.item.a", "p", "e", "b"}, leaves); diff != "" {
		t.Error(diff)
	}
	for f := range s.All() {
		all = append(all, f.FullName())
	}
	every := "s s.a s.b l l.it ll ll.item ll.item.a m m.entries m.entries.key m.entries.value f f.item f.item.a p p.a p.j e b b.data b.uri b.position b.size"
	if diff := cmp.Diff(every, strings.Join(all, " ")); diff != "" {
		t.Error(diff)
	}
	for f := range s.Leaves() { // breaking off must be harmless
		if f.Name == "a" {
			break
		}
	}
	leaves = nil
	for f := range s.Fields[2].Leaves() {
		leaves = append(leaves, f.Name)
	}
	if len(leaves) != 1 || leaves[0] != "a" {
		t.Errorf("leaves of ll: %v", leaves)
	}
}

func TestDamagedTrees(t *testing.T) {
	t.Parallel()
	raw := func(name, want string, kind fault.Kind, rs ...Record) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := FromRecords(rs, nil)
			if err == nil || fault.KindOf(err) != kind || !strings.Contains(fmt.Sprint(err), want) {
				t.Errorf("got %v, want %v with %q", err, kind, want)
			}
		})
	}
	top := Record{ID: 0, ParentID: -1, Name: "a", LogicalType: "struct"}
	raw("id twice", "field id 0 is given twice", fault.Corrupt, top, top)
	raw("unknown parent", "parent 7", fault.Corrupt, top, Record{ID: 1, ParentID: 7, Name: "b", LogicalType: "int8"})
	raw("parent after child", "parent 1", fault.Corrupt, Record{ID: 0, ParentID: 1, Name: "b", LogicalType: "int8"}, Record{ID: 1, ParentID: -1, Name: "a", LogicalType: "struct"})
	raw("own parent", "parent 0", fault.Corrupt, Record{ID: 0, ParentID: 0, Name: "b", LogicalType: "struct"})
	raw("no id", "does not follow a blob", fault.Corrupt, top, Record{ID: -1, ParentID: -1, Name: "kind", LogicalType: "uint8"})
	raw("no id at all", "does not follow a blob", fault.Corrupt, Record{ID: -1, ParentID: -1, Name: "kind", LogicalType: "uint8"})
	raw("reserved id below a field", "reserved id -3", fault.Corrupt, top, Record{ID: -3, ParentID: 0, Name: "b", LogicalType: "int8"})
	raw("child of a leaf", "has 1 children", fault.Corrupt, Record{ID: 0, ParentID: -1, Name: "a", LogicalType: "int8"}, Record{ID: 1, ParentID: 0, Name: "b", LogicalType: "int8"})
	deep := []Record{{ID: 0, ParentID: -1, Name: "d", LogicalType: "struct"}}
	for i := FieldID(1); i < MaxDepth+1; i++ {
		deep = append(deep, Record{ID: i, ParentID: i - 1, Name: "d", LogicalType: "struct"})
	}
	raw("too deep", "more than 100 levels", fault.Corrupt, deep...)
	if _, err := FromRecords(deep[:MaxDepth], nil); err != nil {
		t.Error(err)
	}
	for name, n := range map[string]node{
		"list without item":       {"x", "list", true, nil, nil},
		"list of two":             {"x", "large_list", true, nil, []node{leaf("a", "int8"), leaf("b", "int8")}},
		"map without entries":     {"x", "map", true, nil, nil},
		"map of three":            {"x", "map", true, nil, []node{{"entries", "struct", false, nil, []node{{"k", "int8", false, nil, nil}, leaf("v", "int8"), leaf("w", "int8")}}}},
		"map of a list":           {"x", "map", true, nil, []node{{"entries", "list", false, nil, []node{leaf("v", "int8")}}}},
		"map with null keys":      {"x", "map", true, nil, []node{{"entries", "struct", false, nil, []node{leaf("k", "int8"), leaf("v", "int8")}}}},
		"fixed list without item": {"x", "fixed_size_list:struct:2", true, nil, nil},
		"fixed list of a number":  {"x", "fixed_size_list:struct:2", true, nil, []node{leaf("a", "int8")}},
	} {
		t.Run(name, func(t *testing.T) { refuse(t, fault.Corrupt, "x", n) })
	}
}

func FuzzLogicalType(f *testing.F) {
	for _, s := range []string{"fixed_size_list:fixed_size_list:float:4:2", "timestamp:us:+08:00", "decimal:128:10:-2", "dict:string:int8:false", "fixed_size_list:struct:3"} {
		f.Add(s, "struct", int32(0), int32(-1))
	}
	f.Fuzz(func(t *testing.T, a, b string, id, parent int32) {
		s, err := FromRecords([]Record{
			{ID: 0, ParentID: -1, Name: "a", LogicalType: a, Metadata: map[string]string{KeyBlob: ""}},
			{ID: FieldID(id), ParentID: FieldID(parent), Name: "b", LogicalType: b, Nullable: true},
		}, nil)
		if err != nil {
			if k := fault.KindOf(err); k != fault.Corrupt && k != fault.Unsupported {
				t.Fatalf("kind %v: %v", k, err)
			}
			return
		}
		for _, v := range []View{Materialized, Descriptor, Logical} {
			if _, err := s.Arrow(v); err != nil {
				t.Fatal(err)
			}
		}
	})
}
