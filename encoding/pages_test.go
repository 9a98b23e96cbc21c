package encoding

import (
	"context"
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/flightblob/flightblob/internal/lancepb"
)

func variableCE(offsets *ce) *ce {
	return &ce{Compression: &lancepb.CompressiveEncoding_Variable{Variable: &lancepb.Variable{Offsets: offsets}}}
}

// fsstCE has one symbol, "abcdefgh" under code 0.
func fsstCE(values *ce) *ce {
	table := make([]byte, 2312)
	binary.LittleEndian.PutUint64(table, 0x46535354<<32|1<<24|1)
	copy(table[8:], "abcdefgh\x08")
	return &ce{Compression: &lancepb.CompressiveEncoding_Fsst{Fsst: &lancepb.Fsst{SymbolTable: table, Values: values}}}
}

func densePage(layers []lancepb.RepDefLayer, values *lancepb.ValuePlane) *lancepb.PlanarLayout {
	return &lancepb.PlanarLayout{
		Structure: &lancepb.StructuralPlane{Structure: &lancepb.StructuralPlane_Dense{Dense: &lancepb.DenseStructure{Layers: layers}}},
		Values:    values,
	}
}

// TestHandMadePages: forms that the sheet describes and the reference was not
// seen to write.
func TestHandMadePages(t *testing.T) {
	t.Parallel()
	validItem, nullableItem := []lancepb.RepDefLayer{lancepb.RepDefLayer_ALL_VALID_ITEM}, []lancepb.RepDefLayer{lancepb.RepDefLayer_NULLABLE_ITEM}
	chunk := func(m *lancepb.MiniBlockLayout, bufs [][]byte, more ...[]byte) (proto.Message, [][]byte) {
		words, data := oneChunk(bufs...)
		return miniLayout(m), append([][]byte{words, data}, more...)
	}
	type page struct {
		layout proto.Message
		bufs   [][]byte
	}
	of := func(layout proto.Message, bufs [][]byte) page { return page{layout, bufs} }

	dictionary := func(items *ce, n uint64) *lancepb.MiniBlockLayout {
		m := miniPage(flatCE(32), 3)
		m.Dictionary, m.NumDictionaryItems = items, n
		return m
	}
	old := slices.Concat([]byte{32}, u32s(2, 1+4+4+12), u32s(0, 1, 3), []byte("abc"))
	zip := func(value *ce, bits uint32) *lancepb.PageLayout {
		return &lancepb.PageLayout{Layout: &lancepb.PageLayout_FullZip{FullZip: &lancepb.FullZipLayout{
			BitsDef: 1, Width: &lancepb.FullZipLayout_BitsPerValue{BitsPerValue: bits}, NumItems: 3, NumVisibleItems: 3,
			ValueCompression: value, Layers: nullableItem,
		}}}
	}
	// Under the null in the middle lies an index that names no item.
	stray := dictionary(flatCE(32), 2)
	stray.Layers, stray.DefCompression = nullableItem, flatCE(16)
	strayChunk := slices.Concat([]byte{3, 0, 6, 0, 12, 0, 0, 0}, []byte{0, 0, 1, 0, 0, 0, 0, 0}, u32s(1, 77, 0), make([]byte, 4))
	strayWord := binary.LittleEndian.AppendUint32(nil, uint32(len(strayChunk)/8-1)<<4)

	for _, c := range []struct {
		name    string
		version Version
		logical string
		page    page
		want    string
	}{
		{"dense page of nulls", V2_3, "int32", page{densePage(nullableItem, noValues), nil}, "null null null"},
		{"constant without bytes", V2_3, "string", page{densePage(validItem, &lancepb.ValuePlane{Plane: &lancepb.ValuePlane_Constant{Constant: &lancepb.ConstantValues{}}}), nil}, "  "},
		{
			"compressed fsst", V2_2, "string",
			of(chunk(miniPage(generalCE(fsstCE(variableCE(flatCE(32)))), 3), [][]byte{stored(slices.Concat(u32s(16, 17, 17, 19), []byte{0, 255, 'z', 0}))})),
			"abcdefgh  z",
		},
		{"old dictionary of strings", V2_2, "string", of(chunk(dictionary(variableCE(flatCE(32)), 2), [][]byte{u32s(1, 0, 1)}, old)), "bc a bc"},
		{"dictionary by runs", V2_2, "int64", of(chunk(dictionary(rleCE(flatCE(64), flatCE(8)), 3), [][]byte{u32s(2, 0, 1)}, framed(u64s(7, 9), []byte{2, 1}))), "9 7 7"},
		{"stray index under a null", V2_2, "int32", page{miniLayout(stray), [][]byte{strayWord, strayChunk, u32s(5, 6)}}, "6 null 5"},
		{"zipped constant", V2_2, "int16", page{zip(constantCE(9, 1), 16), [][]byte{{0, 0, 0, 1, 0, 0, 0, 0, 0}}}, "265 null 265"},
		{"zipped constant null", V2_2, "int16", page{zip(&ce{Compression: &lancepb.CompressiveEncoding_Constant{Constant: &lancepb.Constant{}}}, 16), [][]byte{{1, 0, 0, 1, 0, 0, 1, 0, 0}}}, "null null null"},
	} {
		for _, rows := range []Range{{0, 3}, {1, 3}} {
			l, err := readPage(t, c.version, oneField(c.logical), 3, c.page.layout, rows, c.page.bufs...)
			if err != nil {
				t.Errorf("%s %v: %v", c.name, rows, err)
				continue
			}
			var got []string
			for i := range l.Values.Len() {
				if v := l.Values; v.IsNull(i) {
					got = append(got, "null")
				} else {
					got = append(got, v.ValueStr(i))
				}
			}
			want := strings.Split(c.want, " ")[rows.Start:]
			if !slices.Equal(got, want) {
				t.Errorf("%s %v: got %q, want %q", c.name, rows, got, want)
			}
		}
	}
}

// TestDictionaryTypes: pages of a dictionary-typed column with dictionaries of
// their own, and one with none, give one array.
func TestDictionaryTypes(t *testing.T) {
	t.Parallel()
	d, err := newVector(leafPath(t, oneField("dict:bool:int8:false"))[0].Storage, 0)
	if err != nil {
		t.Fatal(err)
	}
	bits := func(b byte, n int) *block { return &block{kind: fixedBlock, bits: 1, n: n, data: []byte{b}} }
	for _, err := range []error{
		d.appendGather(bits(0b10, 2), []uint32{1, 0, 9}), // 9 names nothing, under a null
		d.appendGather(bits(0b1, 1), []uint32{0, 5}),
		d.append(bits(0b01, 2), 0, 2),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	a, err := d.array([]byte{0b1101011}, 2)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"true", "false", "", "true", "", "true", "false"}
	if a.Len() != len(want) {
		t.Fatalf("%d values", a.Len())
	}
	for i, w := range want {
		if a.IsNull(i) != (w == "") || w != "" && a.ValueStr(i) != w {
			t.Errorf("value %d is %s, want %s", i, a.ValueStr(i), w)
		}
	}
	if _, err := d.array(nil, 0); err == nil {
		t.Error("indices that name nothing are taken where nothing is null")
	}
}

// TestManyValuesInAPage: a page has as many values as its chunks say, however
// many; a read takes those it wants.
func TestManyValuesInAPage(t *testing.T) {
	t.Parallel()
	const chunks, each = 1 << 13, 1 << 15 // 2^28 booleans
	chunk := slices.Concat([]byte{0, 0}, u32s(each/8), []byte{0, 0}, make([]byte, each/8))
	chunk[8] = 0b101
	var words []byte
	for range chunks {
		words = binary.LittleEndian.AppendUint32(words, uint32(len(chunk)/8-1)<<4|15)
	}
	desc, err := proto.Marshal(miniLayout(miniPage(flatCE(1), chunks*each)))
	if err != nil {
		t.Fatal(err)
	}
	page := Page{Rows: chunks * each, Layout: desc, Buffers: []Extent{{0, uint64(len(words))}, {1 << 20, uint64(chunks * len(chunk))}}}
	c, err := NewColumn(V2_2, leafPath(t, oneField("bool")), []Page{page}, nil)
	if err != nil {
		t.Fatal(err)
	}
	fetch := func(_ context.Context, extents []Extent) ([][]byte, func(), error) {
		out := make([][]byte, len(extents))
		for i, e := range extents {
			out[i] = chunk
			if e.Offset == 0 {
				out[i] = words
			}
		}
		return out, func() {}, nil
	}
	l, err := c.Read(t.Context(), fetch, []Range{{Start: (chunks - 1) * each, End: (chunks-1)*each + 4}})
	if err != nil {
		t.Fatal(err)
	}
	if got := l.Values.String(); got != "[true false true false]" {
		t.Errorf("got %s", got)
	}
}
