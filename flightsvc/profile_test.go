package flightsvc

import (
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/float16"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/flightblob/flightblob/internal/fault"
)

// What the bi profile makes of each type, whole and sliced at an odd offset.
func TestBIProfile(t *testing.T) {
	t.Parallel()
	pair := arrow.StructOf(
		arrow.Field{Name: "kind", Type: arrow.PrimitiveTypes.Uint8},
		arrow.Field{Name: "size", Type: arrow.PrimitiveTypes.Uint64, Nullable: true},
	)
	signed := arrow.StructOf(
		arrow.Field{Name: "kind", Type: arrow.PrimitiveTypes.Int16},
		arrow.Field{Name: "size", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
	)
	words := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}
	counts := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Uint16, ValueType: arrow.PrimitiveTypes.Uint32}
	for _, tc := range []struct {
		name     string
		from, to arrow.DataType
		json     string
	}{
		{"uint8", arrow.PrimitiveTypes.Uint8, arrow.PrimitiveTypes.Int16, "[0,255,null,3,4]"},
		{"uint16", arrow.PrimitiveTypes.Uint16, arrow.PrimitiveTypes.Int32, "[0,65535,null,3,4]"},
		{"uint32", arrow.PrimitiveTypes.Uint32, arrow.PrimitiveTypes.Int64, "[0,4294967295,null,3,4]"},
		{"uint64", arrow.PrimitiveTypes.Uint64, arrow.PrimitiveTypes.Int64, "[0,9223372036854775807,null,3,4]"},
		{"string_view", arrow.BinaryTypes.StringView, arrow.BinaryTypes.String, `["","a string that is longer than twelve",null,"x","y"]`},
		{"binary_view", arrow.BinaryTypes.BinaryView, arrow.BinaryTypes.Binary, `["","YWJj",null,"eA==","eQ=="]`},
		{"dictionary of strings", words, arrow.BinaryTypes.String, `["a","b",null,"a","c"]`},
		{"dictionary of uint32", counts, arrow.PrimitiveTypes.Int64, `[7,4294967295,null,7,8]`},
		{"struct", pair, signed, `[{"kind":1,"size":2},{"kind":255,"size":null},null,{"kind":3,"size":4},{"kind":5,"size":6}]`},
		{"list of struct", arrow.ListOf(pair), arrow.ListOf(signed), `[[{"kind":1,"size":2}],[],null,[{"kind":3,"size":4},null],[]]`},
		{"large list of uint8", arrow.LargeListOf(arrow.PrimitiveTypes.Uint8), arrow.LargeListOf(arrow.PrimitiveTypes.Int16), `[[1,2],[],null,[3,null],[4]]`},
		{"fixed-size list", arrow.FixedSizeListOf(2, arrow.PrimitiveTypes.Uint8), arrow.FixedSizeListOf(2, arrow.PrimitiveTypes.Int16), `[[1,2],[3,4],null,[5,null],[6,7]]`},
		{"map", arrow.MapOf(words, arrow.PrimitiveTypes.Uint8), arrow.MapOf(arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int16), `[[{"key":"a","value":1}],[],null,[{"key":"b","value":null}],[]]`},
		{"large_binary stays", arrow.BinaryTypes.LargeBinary, arrow.BinaryTypes.LargeBinary, `["","YWJj",null,"eA==","eQ=="]`},
		{"date stays", arrow.FixedWidthTypes.Date32, arrow.FixedWidthTypes.Date32, `["2026-01-01",null,null,"2026-01-02","1969-01-01"]`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			whole := batch(t, fromJSON(t, tc.from, tc.json))
			want := fromJSON(t, tc.to, tc.json)
			for _, cut := range [][2]int64{{0, 5}, {1, 4}, {2, 3}, {3, 5}, {2, 2}} {
				b := whole.NewSlice(cut[0], cut[1])
				defer b.Release()
				to := biSchema(b.Schema())
				if !arrow.TypeEqual(to.Field(0).Type, tc.to) {
					t.Fatalf("type %v, want %v", to.Field(0).Type, tc.to)
				}
				got, err := biBatch(b, to, memory.DefaultAllocator)
				if err != nil {
					t.Fatal(err)
				}
				defer got.Release()
				if !array.SliceEqual(got.Column(0), 0, got.NumRows(), want, cut[0], cut[1]) {
					t.Errorf("rows %v: got %v, want %v", cut, got.Column(0), want)
				}
			}
		})
	}
}

func TestBIProfileOfHalfFloats(t *testing.T) {
	t.Parallel()
	b := array.NewFloat16Builder(memory.DefaultAllocator)
	defer b.Release()
	b.AppendValues([]float16.Num{float16.New(1.5), float16.New(0), float16.New(-2)}, []bool{true, false, true})
	rec := batch(t, b.NewArray())
	got, err := biBatch(rec, biSchema(rec.Schema()), memory.DefaultAllocator)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Release()
	if want := fromJSON(t, arrow.PrimitiveTypes.Float32, "[1.5,null,-2]"); !array.Equal(got.Column(0), want) {
		t.Errorf("got %v", got.Column(0))
	}
}

func TestBIProfileRefusesWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	rec := batch(t, fromJSON(t, arrow.PrimitiveTypes.Uint64, "[1,9223372036854775808]"))
	_, err := biBatch(rec, biSchema(rec.Schema()), memory.DefaultAllocator)
	if fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), "9223372036854775808") || !strings.Contains(err.Error(), `"c0"`) {
		t.Errorf("got %v", err)
	}
}

// A client that knows an extension refuses it over other storage.
func TestBIProfileDropsMarksOfChangedStorage(t *testing.T) {
	t.Parallel()
	marked := arrow.NewMetadata(
		[]string{"ARROW:extension:name", "ARROW:extension:metadata", "own"}, []string{"lance.blob.v2", "", "kept"})
	minimal := arrow.StructOf(arrow.Field{Name: "data", Type: arrow.BinaryTypes.LargeBinary})
	complete := arrow.StructOf(arrow.Field{Name: "size", Type: arrow.PrimitiveTypes.Uint64})
	got := biSchema(arrow.NewSchema([]arrow.Field{
		{Name: "minimal", Type: minimal, Metadata: marked},
		{Name: "complete", Type: complete, Metadata: marked},
		{Name: "list", Type: arrow.ListOfField(arrow.Field{Name: "item", Type: complete, Metadata: marked})},
	}, nil))
	item := got.Field(2).Type.(*arrow.ListType).ElemField()
	for _, tc := range []struct {
		field  arrow.Field
		marked bool
	}{{got.Field(0), true}, {got.Field(1), false}, {item, false}} {
		if _, ok := tc.field.Metadata.GetValue("ARROW:extension:name"); ok != tc.marked {
			t.Errorf("%s: marked %t, want %t", tc.field.Name, ok, tc.marked)
		}
		if v, _ := tc.field.Metadata.GetValue("own"); v != "kept" {
			t.Errorf("%s: own metadata is %q", tc.field.Name, v)
		}
	}
}
