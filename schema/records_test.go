package schema

import (
	"maps"
	"reflect"
	"testing"
)

func TestRecords(t *testing.T) {
	t.Parallel()
	given := []Record{
		{ID: 4, ParentID: -1, Name: "id", LogicalType: "int64", Metadata: map[string]string{"k": "v"}, Carried: Carried{
			Type: 2, Encoding: EncodingVarBinary, Dictionary: &Dictionary{Offset: 3, Length: 4}, ClusteringKey: true, Unknown: []byte{1},
		}},
		{ID: 0, ParentID: -1, Name: "st", LogicalType: "struct", Nullable: true, Metadata: map[string]string{}},
		{ID: 9, ParentID: 0, Name: "l", LogicalType: "list.struct", Metadata: map[string]string{}, Carried: Carried{Encoding: EncodingPlain}},
		{ID: 2, ParentID: 9, Name: "it", LogicalType: "struct", Nullable: true, Extension: ExtensionBlobV2, Metadata: map[string]string{KeyExtensionName: ExtensionBlobV2}},
		{ID: 5, ParentID: 2, Name: "data", LogicalType: "large_binary", Nullable: true, Metadata: map[string]string{"child": "kept"}, Carried: Carried{Encoding: EncodingVarBinary}},
		{ID: 6, ParentID: 2, Name: "uri", LogicalType: "string", Nullable: true, Metadata: map[string]string{}, Carried: Carried{Encoding: EncodingVarBinary}},
		{ID: 1, ParentID: -1, Name: "d", LogicalType: "dict:string:int16:false", Metadata: map[string]string{}, Carried: Carried{Encoding: EncodingDictionary}},
	}
	s, err := FromRecords(given, map[string]string{"m": "n"})
	if err != nil {
		t.Fatal(err)
	}
	got := s.Records()
	if !reflect.DeepEqual(given, got) {
		t.Errorf("%+v\nbecame %+v", given, got)
	}
	got[0].Metadata["k"] = "other"
	if s.Fields[0].Metadata["k"] != "v" {
		t.Error("records share metadata with the tree")
	}
	again, err := FromRecords(s.Records(), s.Metadata)
	if err != nil || !reflect.DeepEqual(again.Records(), s.Records()) {
		t.Errorf("%v, %v", again, err)
	}
}

// TestRecordsFillIn has what the reference derives and older or other writers
// leave out.
func TestRecordsFillIn(t *testing.T) {
	t.Parallel()
	for logical, want := range map[string]Encoding{
		"null": EncodingNone, "string": EncodingVarBinary, "large_string": EncodingVarBinary, "binary": EncodingVarBinary,
		"large_binary": EncodingVarBinary, "json": EncodingVarBinary, "dict:string:int8:false": EncodingDictionary,
		"int8": EncodingPlain, "timestamp:us:-": EncodingPlain, "fixed_size_list:float:4": EncodingPlain, "fixed_size_binary:3": EncodingPlain,
	} {
		s, err := FromRecords([]Record{{ParentID: -1, Name: "f", LogicalType: logical}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Records()[0].Carried.Encoding; got != want {
			t.Errorf("%s has encoding %d, want %d", logical, got, want)
		}
	}
	for _, test := range []struct {
		metadata map[string]string
		given    Carried
		want     Carried
	}{
		{map[string]string{KeyPrimary: "Yes"}, Carried{}, Carried{PrimaryKey: true}},
		{map[string]string{KeyPrimary: "true", KeyPrimaryPosition: "2"}, Carried{}, Carried{PrimaryKey: true, PrimaryKeyPosition: 2}},
		{map[string]string{KeyPrimaryPosition: "3"}, Carried{PrimaryKey: true, PrimaryKeyPosition: 1}, Carried{PrimaryKey: true, PrimaryKeyPosition: 3}},
		{map[string]string{KeyPrimary: "no", KeyPrimaryPosition: "x"}, Carried{}, Carried{}},
		{map[string]string{KeyClusteringPosition: "1"}, Carried{}, Carried{ClusteringKeyPosition: 1}},
		{nil, Carried{PrimaryKey: true, ClusteringKeyPosition: 5}, Carried{PrimaryKey: true, ClusteringKeyPosition: 5}},
	} {
		s, err := FromRecords([]Record{{ParentID: -1, Name: "f", LogicalType: "int8", Metadata: test.metadata, Carried: test.given}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		test.want.Encoding = EncodingPlain
		if got := s.Records()[0].Carried; !reflect.DeepEqual(got, test.want) {
			t.Errorf("%v: %+v, want %+v", test.metadata, got, test.want)
		}
	}
}

func TestWithMetadata(t *testing.T) {
	t.Parallel()
	s, err := FromRecords([]Record{{ParentID: -1, Name: "f", LogicalType: "int8"}}, map[string]string{"a": "b"})
	if err != nil {
		t.Fatal(err)
	}
	other := s.WithMetadata(map[string]string{"c": "d"})
	if !maps.Equal(s.Metadata, map[string]string{"a": "b"}) || !maps.Equal(other.Metadata, map[string]string{"c": "d"}) || other.ByID(0) != s.ByID(0) {
		t.Errorf("%v, %v", s.Metadata, other.Metadata)
	}
	if none := s.WithMetadata(nil); none.Metadata == nil {
		t.Error("no metadata is no map")
	}
}
