package flightsvc

import (
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/float16"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

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

// Parameters of the profile: described in its types, bound in those or in
// others, and what the statement takes in the end.
func TestBIParams(t *testing.T) {
	utc := &arrow.TimestampType{Unit: arrow.Millisecond, TimeZone: "UTC"}
	field := func(t arrow.DataType) arrow.Field { return arrow.Field{Name: "p", Type: t, Nullable: true} }
	for _, tc := range []struct {
		name            string
		declared, shown arrow.DataType
		bound           arrow.DataType // nil: as shown
		values, want    string
		refused         string
	}{
		{name: "uint8", declared: arrow.PrimitiveTypes.Uint8, shown: arrow.PrimitiveTypes.Int16, values: `[0, 255, null]`, want: `[0 255 (null)]`},
		{name: "uint16", declared: arrow.PrimitiveTypes.Uint16, shown: arrow.PrimitiveTypes.Int32, values: `[65535]`, want: `[65535]`},
		{name: "uint32", declared: arrow.PrimitiveTypes.Uint32, shown: arrow.PrimitiveTypes.Int64, values: `[4294967295]`, want: `[4294967295]`},
		{name: "uint64", declared: arrow.PrimitiveTypes.Uint64, shown: arrow.PrimitiveTypes.Int64, values: `[9223372036854775807]`, want: `[9223372036854775807]`},
		{name: "too large", declared: arrow.PrimitiveTypes.Uint8, shown: arrow.PrimitiveTypes.Int16, values: `[0, 256]`, refused: "row 1: 256 is no uint8"},
		{name: "negative", declared: arrow.PrimitiveTypes.Uint64, shown: arrow.PrimitiveTypes.Int64, values: `[-1]`, refused: "row 0: -1 is no uint64"},
		{
			name: "microseconds", declared: &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}, shown: utc,
			values: `["2030-01-02 03:04:05.678Z", null]`, want: `[1893553445678000 (null)]`,
		},
		{
			name: "nanoseconds before 1970", declared: arrow.FixedWidthTypes.Timestamp_ns, shown: utc,
			values: `["1969-12-31 23:59:59.999Z"]`, want: `[-1000000]`,
		},
		{
			name: "seconds", declared: arrow.FixedWidthTypes.Timestamp_s, shown: utc,
			values: `["2030-01-02 03:04:05Z"]`, want: `[1893553445]`,
		},
		{
			name: "parts of seconds", declared: arrow.FixedWidthTypes.Timestamp_s, shown: utc,
			values: `["2030-01-02 03:04:05.5Z"]`, refused: "are no timestamp[s, tz=UTC]",
		},
		{
			name: "years that nanoseconds do not reach", declared: arrow.FixedWidthTypes.Timestamp_ns, shown: utc,
			values: `["2500-01-01 00:00:00Z"]`, refused: "are no timestamp[ns, tz=UTC]",
		},
		{name: "text", declared: arrow.BinaryTypes.String, shown: arrow.BinaryTypes.String, values: `["a"]`, want: `["a"]`},
		{
			name: "as it is declared", declared: arrow.PrimitiveTypes.Uint8, shown: arrow.PrimitiveTypes.Int16,
			bound: arrow.PrimitiveTypes.Uint8, values: `[7]`, want: `[7]`,
		},
		{
			name: "as something else", declared: arrow.PrimitiveTypes.Uint8, shown: arrow.PrimitiveTypes.Int16,
			bound: arrow.BinaryTypes.String, values: `["7"]`, want: `["7"]`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			mem := memory.NewCheckedAllocator(memory.NewGoAllocator())
			defer mem.AssertSize(t, 0)
			declared := arrow.NewSchema([]arrow.Field{field(tc.declared)}, nil)
			if got := biParams(declared).Field(0).Type; !arrow.TypeEqual(got, tc.shown) {
				t.Errorf("shown as %s, want %s", got, tc.shown)
			}
			bound := tc.bound
			if bound == nil {
				bound = tc.shown
			}
			column, _, err := array.FromJSON(mem, bound, strings.NewReader(tc.values))
			if err != nil {
				t.Fatal(err)
			}
			defer column.Release()
			// Slices have offsets, which conversions must respect.
			for from := range column.Len() {
				part := array.NewSlice(column, int64(from), int64(column.Len()))
				b := array.NewRecordBatch(arrow.NewSchema([]arrow.Field{field(bound)}, nil), []arrow.Array{part}, int64(part.Len()))
				part.Release()
				got, err := fromBIParams(b, fromBISchema(b.Schema(), declared), mem)
				b.Release()
				if tc.refused != "" {
					if from == 0 {
						wantError(t, tc.name, status.Error(code(err), err.Error()), codes.InvalidArgument, tc.refused)
					}
					if err == nil {
						got.Release()
					}
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				if text := got.Column(0).String(); from == 0 && text != tc.want {
					t.Errorf("%s, want %s", text, tc.want)
				}
				if tc.bound == nil && !arrow.TypeEqual(got.Column(0).DataType(), tc.declared) {
					t.Errorf("%s, want %s", got.Column(0).DataType(), tc.declared)
				}
				got.Release()
			}
		})
	}
}
