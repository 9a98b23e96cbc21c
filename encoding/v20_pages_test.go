package encoding

import (
	"encoding/binary"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/internal/lancepb"
	"github.com/flightblob/flightblob/schema"
)

type ae20 = lancepb.ArrayEncoding20

func flatAE(bits uint64, buffer uint32) *ae20 {
	return &ae20{Array: &lancepb.ArrayEncoding20_Flat{Flat: &lancepb.Flat20{BitsPerValue: bits, Buffer: &lancepb.BufferRef20{BufferIndex: buffer}}}}
}

func noNullsAE(v *ae20) *ae20 {
	return &ae20{Array: &lancepb.ArrayEncoding20_Nullable{Nullable: &lancepb.Nullable20{Nullability: &lancepb.Nullable20_NoNulls_{NoNulls: &lancepb.Nullable20_NoNulls{Values: v}}}}}
}

func someNullsAE(validity, v *ae20) *ae20 {
	return &ae20{Array: &lancepb.ArrayEncoding20_Nullable{Nullable: &lancepb.Nullable20{Nullability: &lancepb.Nullable20_SomeNulls_{SomeNulls: &lancepb.Nullable20_SomeNulls{Validity: validity, Values: v}}}}}
}

func allNullsAE() *ae20 {
	return &ae20{Array: &lancepb.ArrayEncoding20_Nullable{Nullable: &lancepb.Nullable20{Nullability: &lancepb.Nullable20_AllNulls_{AllNulls: &lancepb.Nullable20_AllNulls{}}}}}
}

func binaryAE(indices, bytes *ae20, adjust uint64) *ae20 {
	return &ae20{Array: &lancepb.ArrayEncoding20_Binary{Binary: &lancepb.Binary20{Indices: indices, Bytes: bytes, NullAdjustment: adjust}}}
}

func dictionaryAE(indices, items *ae20, n uint32) *ae20 {
	return &ae20{Array: &lancepb.ArrayEncoding20_Dictionary{Dictionary: &lancepb.Dictionary20{Indices: indices, Items: items, NumDictionaryItems: n}}}
}

func listAE(offsets *ae20, adjust, items uint64) *ae20 {
	return &ae20{Array: &lancepb.ArrayEncoding20_List{List: &lancepb.List20{Offsets: offsets, NullOffsetAdjustment: adjust, NumItems: items}}}
}

func bitpackedAE(c, u uint64, signed bool) *ae20 {
	return &ae20{Array: &lancepb.ArrayEncoding20_Bitpacked{Bitpacked: &lancepb.Bitpacked20{CompressedBitsPerValue: c, UncompressedBitsPerValue: u, Signed: signed}}}
}

func nonNegAE(c, u uint64) *ae20 {
	return &ae20{Array: &lancepb.ArrayEncoding20_BitpackedForNonNeg{BitpackedForNonNeg: &lancepb.BitpackedForNonNeg20{CompressedBitsPerValue: c, UncompressedBitsPerValue: u}}}
}

func u64s(v ...uint64) []byte {
	var out []byte
	for _, x := range v {
		out = binary.LittleEndian.AppendUint64(out, x)
	}
	return out
}

// page20In is one hand-made page: its buffers are laid into a file.
type page20In struct {
	rows    uint64
	enc     *ae20
	buffers [][]byte
}

// handMade builds a file from pages per column, numbered in field order.
func handMade(t testing.TB, records []schema.Record, columns ...[]page20In) *file20 {
	t.Helper()
	s, err := schema.FromRecords(records, nil)
	if err != nil {
		t.Fatal(err)
	}
	f := &file20{schema: s, file: &File20{ByField: map[schema.FieldID]int{}}}
	for i, pages := range columns {
		var c Column20
		for _, p := range pages {
			layout, err := proto.Marshal(p.enc)
			if err != nil {
				t.Fatal(err)
			}
			page := Page{Rows: p.rows, Layout: layout}
			for _, b := range p.buffers {
				page.Buffers = append(page.Buffers, Extent{uint64(len(f.data)), uint64(len(b))})
				f.data = append(f.data, b...)
			}
			c.Pages = append(c.Pages, page)
		}
		f.file.Columns = append(f.file.Columns, c)
		if i < len(records) {
			f.file.ByField[records[i].ID] = i
		}
	}
	return f
}

func oneField(logical string) []schema.Record {
	return []schema.Record{{ID: 0, ParentID: schema.NoParent, Name: "f", LogicalType: logical, Nullable: true}}
}

func listOf(logical string) []schema.Record {
	return []schema.Record{
		{ID: 0, ParentID: schema.NoParent, Name: "f", LogicalType: "list", Nullable: true},
		{ID: 1, ParentID: 0, Name: "item", LogicalType: logical, Nullable: true},
	}
}

// read reads the only leaf of a hand-made file.
func (f *file20) read(t testing.TB, rows ...Range) (*Leaf, error) {
	t.Helper()
	var path []*schema.Field
	f.leaves(func(p []*schema.Field) { path = p })
	r, err := NewReader20(path, f.file)
	if err != nil {
		return nil, err
	}
	return r.Read(t.Context(), f.fetch, rows)
}

// text prints a column of a leaf's values.
func text(a arrow.Array) string {
	var out []string
	for i := range a.Len() {
		if a.IsNull(i) {
			out = append(out, "null")
		} else {
			out = append(out, a.ValueStr(i))
		}
	}
	return strings.Join(out, " ")
}

// TestHandMadePages20 decodes pages that no writer at hand makes, or makes
// only for some types, by the sheet's words and examples.
func TestHandMadePages20(t *testing.T) {
	t.Parallel()
	strs := binaryAE(noNullsAE(flatAE(64, 0)), flatAE(8, 1), 4)
	offs, chars := u64s(2, 6, 2, 3), []byte("abc")
	// Group of 1024 32-bit values, width 1: elements 32, 64 and 1023 set.
	group := make([]byte, 128)
	binary.LittleEndian.PutUint32(group, 1<<16|1<<8)
	binary.LittleEndian.PutUint32(group[31*4:], 1<<31)
	for _, c := range []struct {
		name    string
		logical string
		page    page20In
		rows    []Range
		want    string
	}{
		{"sheet example of strings", "string", page20In{4, strs, [][]byte{offs, chars}}, []Range{{0, 4}}, "ab null  c"},
		{"strings in part", "large_string", page20In{4, strs, [][]byte{offs, chars}}, []Range{{0, 1}, {3, 4}}, "ab c"},
		{"null owning bytes", "string", page20In{3, binaryAE(flatAE(64, 0), flatAE(8, 1), 5), [][]byte{u64s(1, 5+3, 4), []byte("aXXb")}}, []Range{{1, 3}}, "null b"},
		{"strings all null", "string", page20In{3, allNullsAE(), nil}, []Range{{0, 2}}, "null null"},
		{"strings without nulls, wrapped", "string", page20In{4, noNullsAE(binaryAE(flatAE(64, 0), noNullsAE(flatAE(8, 1)), 4)), [][]byte{offs, chars}}, []Range{{0, 4}}, "ab null  c"},
		{"strings under a bitmap", "string", page20In{4, someNullsAE(flatAE(1, 2), strs), [][]byte{offs, chars, {0b0110}}}, []Range{{0, 4}}, "null null  null"},
		{"ints, plain flat", "int32", page20In{2, flatAE(32, 0), [][]byte{{1, 0, 0, 0, 255, 255, 255, 255}}}, []Range{{0, 2}}, "1 -1"},
		{"bools in part", "bool", page20In{12, someNullsAE(flatAE(1, 0), flatAE(1, 1)), [][]byte{{0xFF, 0x07}, {0b10101010, 0b0101}}}, []Range{{3, 4}, {6, 12}}, "true false true true false true null"},
		{"bitpacked", "uint16", page20In{5, bitpackedAE(3, 16, false), [][]byte{{0b10_001_111, 0b1_010_011_1}}}, []Range{{0, 5}}, "7 1 6 3 2"},
		{"bitpacked, in part", "uint16", page20In{5, bitpackedAE(3, 16, false), [][]byte{{0b10_001_111, 0b1_010_011_1}}}, []Range{{1, 2}, {3, 5}}, "1 3 2"},
		{"bitpacked, signed", "int16", page20In{5, bitpackedAE(3, 16, true), [][]byte{{0b10_001_111, 0b1_010_011_1}}}, []Range{{0, 5}}, "-1 1 -2 3 2"},
		{"bitpacked to 63 bits", "int64", page20In{2, bitpackedAE(63, 64, true), [][]byte{append(u64s(1<<63|5), 255, 255, 255, 255, 255, 255, 255, 0x1F)}}, []Range{{0, 2}}, "5 4611686018427387903"},
		{"groups of 1024", "uint32", page20In{1024, nonNegAE(1, 32), [][]byte{group}}, []Range{{31, 33}, {64, 65}, {1022, 1024}}, "0 1 1 0 1"},
		{"strings of one length", "string", page20In{3, someNullsAE(flatAE(1, 0), &ae20{Array: &lancepb.ArrayEncoding20_FixedSizeBinary{FixedSizeBinary: &lancepb.FixedSizeBinary20{Bytes: flatAE(8, 1), ByteWidth: 2}}}), [][]byte{{0b101}, []byte("aabbcc")}}, []Range{{0, 3}}, "aa null cc"},
		{"strings of no length", "string", page20In{3, &ae20{Array: &lancepb.ArrayEncoding20_FixedSizeBinary{FixedSizeBinary: &lancepb.FixedSizeBinary20{Bytes: flatAE(8, 0)}}}, [][]byte{nil}}, []Range{{1, 3}}, " "},
		{"plain dictionary: 0 is null", "string", page20In{5, dictionaryAE(noNullsAE(flatAE(8, 2)), strs, 4), [][]byte{offs, chars, {4, 0, 1, 2, 3}}}, []Range{{0, 5}}, "c null ab null "},
		{"typed dictionary: null items", "dict:string:int16:false", page20In{5, dictionaryAE(noNullsAE(flatAE(16, 2)), strs, 4), [][]byte{offs, chars, {3, 0, 1, 0, 0, 0, 2, 0, 3, 0}}}, []Range{{0, 5}}, "c null ab  c"},
		{"dictionary of a dictionary", "dict:string:int8:false", page20In{3, dictionaryAE(flatAE(8, 2), dictionaryAE(flatAE(8, 3), strs, 4), 3), [][]byte{offs, chars, {2, 1, 0}, {1, 0, 4}}}, []Range{{0, 3}}, "c null ab"},
		{"dictionary of nulls", "string", page20In{2, dictionaryAE(flatAE(8, 0), allNullsAE(), 1), [][]byte{{0, 1}}}, []Range{{0, 2}}, "null null"},
		{"plain page of a dictionary field", "dict:string:int8:false", page20In{4, strs, [][]byte{offs, chars}}, []Range{{0, 4}}, "ab null  c"},
		{"bitmaps are never compressed", "bool", page20In{3, &ae20{Array: &lancepb.ArrayEncoding20_Flat{Flat: &lancepb.Flat20{BitsPerValue: 1, Compression: &lancepb.Flat20_Compression{Scheme: "zstd"}}}}, [][]byte{{0b101}}}, []Range{{0, 3}}, "true false true"},
	} {
		f := handMade(t, oneField(c.logical), []page20In{c.page})
		leaf, err := f.read(t, c.rows...)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := text(leaf.Values); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

func TestColumnBuffers20(t *testing.T) {
	t.Parallel()
	enc := flatAE(8, 0)
	enc.GetFlat().GetBuffer().BufferType = lancepb.BufferRef20_COLUMN
	f := handMade(t, oneField("uint8"), []page20In{{rows: 2, enc: enc}})
	f.data = []byte{9, 8, 7}
	f.file.Columns[0].Buffers = []Extent{{1, 2}}
	leaf, err := f.read(t, Range{0, 2})
	if err != nil || text(leaf.Values) != "8 7" {
		t.Errorf("got %v, %v", leaf, err)
	}
}

func TestStringsOverTwoPagesMixed20(t *testing.T) {
	t.Parallel()
	// Pages of one column may mix dictionary and plain form.
	f := handMade(t, oneField("string"), []page20In{
		{2, binaryAE(flatAE(64, 0), flatAE(8, 1), 3), [][]byte{u64s(1, 2), []byte("ab")}},
		{3, dictionaryAE(flatAE(8, 0), binaryAE(flatAE(64, 1), flatAE(8, 2), 3), 1), [][]byte{{1, 0, 1}, u64s(2), []byte("cd")}},
	})
	leaf, err := f.read(t, Range{1, 5})
	if err != nil {
		t.Fatal(err)
	}
	if got := text(leaf.Values); got != "b cd null cd" || leaf.Layers[0].Nulls != 1 {
		t.Errorf("got %q, layer %+v", got, leaf.Layers[0])
	}
}

func TestSheetListExample20(t *testing.T) {
	t.Parallel()
	// [1,2] null [] [3,null] [4], and the same with a null that owns items.
	for _, c := range []struct {
		name  string
		offs  []byte
		items page20In
		n     uint64
	}{
		{"plain", u64s(2, 8, 2, 4, 5), page20In{5, someNullsAE(flatAE(1, 0), flatAE(8, 1)), [][]byte{{0x17}, {1, 2, 3, 0, 4}}}, 5},
		{"null owns items", u64s(2, 4+8, 4, 6, 7), page20In{7, someNullsAE(flatAE(1, 0), flatAE(8, 1)), [][]byte{{0b1011111}, {1, 2, 77, 78, 3, 0, 4}}}, 7},
	} {
		f := handMade(t, listOf("int8"), []page20In{{5, listAE(noNullsAE(flatAE(64, 0)), c.n+1, c.n), [][]byte{c.offs}}}, []page20In{c.items})
		leaf, err := f.read(t, Range{0, 5})
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		l := leaf.Layers[0]
		if got := text(leaf.Values); got != "1 2 3 null 4" || fmt.Sprint(l.Offsets) != "[0 2 2 2 4 5]" || l.Nulls != 1 || getBit(l.Validity, 1) {
			t.Errorf("%s: %q, %+v", c.name, got, l)
		}
		if leaf, err = f.read(t, Range{1, 2}, Range{3, 4}); err != nil || text(leaf.Values) != "3 null" || fmt.Sprint(leaf.Layers[0].Offsets) != "[0 0 2]" {
			t.Errorf("%s, in part: %v, %v", c.name, leaf, err)
		}
	}
}

func TestOnlyNeededBytes20(t *testing.T) {
	t.Parallel()
	ints := make([]byte, 8000)
	enc := someNullsAE(flatAE(1, 1), flatAE(64, 0))
	bitmap := make([]byte, 125)
	page := page20In{1000, enc, [][]byte{ints, bitmap}}
	f := handMade(t, oneField("int64"), []page20In{page, page, page})
	if _, err := f.read(t, Range{10, 12}, Range{1999, 2001}); err != nil {
		t.Fatal(err)
	}
	// Two values, then one in each of two pages: 8 bytes each and a byte of bitmap per range.
	if want := uint64(16 + 8 + 8 + 3); f.calls != 1 || f.bytes != want {
		t.Errorf("%d calls, %d bytes, want 1 and %d", f.calls, f.bytes, want)
	}

	lists := page20In{1000, listAE(flatAE(64, 0), 1001, 1000), [][]byte{make([]byte, 8000)}}
	for i := range 1000 {
		binary.LittleEndian.PutUint64(lists.buffers[0][8*i:], uint64(i+1))
	}
	f = handMade(t, listOf("int64"), []page20In{lists, lists}, []page20In{{2000, flatAE(64, 0), [][]byte{make([]byte, 16000)}}})
	if _, err := f.read(t, Range{5, 7}, Range{1500, 1501}); err != nil {
		t.Fatal(err)
	}
	if want := uint64(3*8 + 2*8 + 3*8); f.calls != 2 || f.bytes != want {
		t.Errorf("lists: %d calls, %d bytes, want 2 and %d", f.calls, f.bytes, want)
	}
}

func TestUnsupported20(t *testing.T) {
	t.Parallel()
	fileScope := flatAE(64, 0)
	fileScope.GetFlat().GetBuffer().BufferType = lancepb.BufferRef20_FILE
	for _, c := range []struct {
		name string
		enc  *ae20
		text string
	}{
		{"constant", &ae20{Array: &lancepb.ArrayEncoding20_Constant{Constant: &lancepb.Constant20{}}}, "constant"},
		{"number 16", &ae20{}, "number 16"},
		{"none", &ae20{}, "missing"},
		{"odd width", flatAE(12, 0), "12 bits"},
		{"file buffer", fileScope, "scope 2"},
		{"scheme", &ae20{Array: &lancepb.ArrayEncoding20_Flat{Flat: &lancepb.Flat20{BitsPerValue: 64, Compression: &lancepb.Flat20_Compression{Scheme: "brotli"}}}}, "brotli"},
		{"validity of bytes", someNullsAE(flatAE(8, 0), flatAE(64, 0)), "validity"},
	} {
		f := handMade(t, oneField("int64"), []page20In{{1, c.enc, [][]byte{make([]byte, 8)}}})
		if c.name == "number 16" {
			f.file.Columns[0].Pages[0].Layout = append(protowire.AppendTag(nil, 16, protowire.BytesType), 0)
		}
		_, err := f.read(t, Range{0, 1})
		if fault.KindOf(err) != fault.Unsupported || !strings.Contains(err.Error(), "unsupported 2.0 encoding") || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	f := handMade(t, oneField("int64"), []page20In{{1, flatAE(64, 0), [][]byte{make([]byte, 8)}}})
	f.file.Columns[0].Encoding, _ = proto.Marshal(&lancepb.ColumnEncoding20{Column: &lancepb.ColumnEncoding20_ZoneIndex{ZoneIndex: &lancepb.ZoneIndex20{}}})
	if _, err := f.read(t, Range{0, 1}); fault.KindOf(err) != fault.Unsupported || !strings.Contains(err.Error(), "zone_index") {
		t.Errorf("zone index: %v", err)
	}
}

func TestDamage20(t *testing.T) {
	t.Parallel()
	strs := func(adjust uint64) *ae20 { return binaryAE(flatAE(64, 0), flatAE(8, 1), adjust) }
	type columns = [][]page20In
	for _, c := range []struct {
		name    string
		records []schema.Record
		columns columns
		kind    fault.Kind
	}{
		{"short buffer", oneField("int64"), columns{{{2, flatAE(64, 0), [][]byte{make([]byte, 15)}}}}, fault.Corrupt},
		{"rows beyond all bytes", oneField("int64"), columns{{{1 << 62, flatAE(64, 0), [][]byte{make([]byte, 16)}}}}, fault.Corrupt},
		{"no such buffer", oneField("int64"), columns{{{2, flatAE(64, 1), [][]byte{make([]byte, 16)}}}}, fault.Corrupt},
		{"other width", oneField("int64"), columns{{{2, flatAE(32, 0), [][]byte{make([]byte, 16)}}}}, fault.Corrupt},
		{"strings for numbers", oneField("int64"), columns{{{2, strs(4), [][]byte{u64s(0, 0), nil}}}}, fault.Corrupt},
		{"numbers for strings", oneField("string"), columns{{{2, flatAE(64, 0), [][]byte{make([]byte, 16)}}}}, fault.Corrupt},
		{"strings within strings", oneField("string"), columns{{{2, &ae20{Array: &lancepb.ArrayEncoding20_FixedSizeBinary{FixedSizeBinary: &lancepb.FixedSizeBinary20{Bytes: strs(4)}}}, [][]byte{u64s(3, 2), []byte("abc")}}}}, fault.Unsupported},
		{"ends backwards", oneField("string"), columns{{{2, strs(4), [][]byte{u64s(3, 2), []byte("abc")}}}}, fault.Corrupt},
		{"ends past the bytes", oneField("string"), columns{{{2, strs(9), [][]byte{u64s(3, 4), []byte("abc")}}}}, fault.Corrupt},
		{"adjustment too small", oneField("string"), columns{{{2, strs(1), [][]byte{u64s(1, 1<<63|1), []byte("abc")}}}}, fault.Corrupt},
		{"dictionary index", oneField("string"), columns{{{2, dictionaryAE(flatAE(8, 2), strs(4), 1), [][]byte{u64s(3), []byte("abc"), {1, 2}}}}}, fault.Corrupt},
		{"lz4 that is none", oneField("int64"), columns{{{2, &ae20{Array: &lancepb.ArrayEncoding20_Flat{Flat: &lancepb.Flat20{BitsPerValue: 64, Compression: &lancepb.Flat20_Compression{Scheme: "lz4"}}}}, [][]byte{make([]byte, 16)}}}}, fault.Corrupt},
		{"list adjustment", listOf("int8"), columns{{{1, listAE(flatAE(64, 0), 5, 5), [][]byte{u64s(5)}}}, {{5, flatAE(8, 0), [][]byte{make([]byte, 5)}}}}, fault.Corrupt},
		{"list ends past the page's items", listOf("int8"), columns{{{1, listAE(flatAE(64, 0), 9, 5), [][]byte{u64s(6)}}}, {{6, flatAE(8, 0), [][]byte{make([]byte, 6)}}}}, fault.Corrupt},
		{"list ends past all items", listOf("int8"), columns{{{1, listAE(flatAE(64, 0), 7, 6), [][]byte{u64s(6)}}}, {{5, flatAE(8, 0), [][]byte{make([]byte, 5)}}}}, fault.Corrupt},
		{"lists of too many items", listOf("null"), columns{{{1, listAE(flatAE(64, 0), 1<<62, 1<<61), [][]byte{u64s(1 << 61)}}}, {{1 << 61, allNullsAE(), nil}}}, fault.Exhausted},
		{"list column of values", listOf("int8"), columns{{{1, flatAE(64, 0), [][]byte{u64s(6)}}}, {{5, flatAE(8, 0), [][]byte{make([]byte, 5)}}}}, fault.Corrupt},
		{"no column for the items", listOf("int8"), columns{{{1, listAE(flatAE(64, 0), 7, 6), [][]byte{u64s(6)}}}}, fault.Corrupt},
		{"strings as lists without bytes", oneField("string"), columns{{{1, listAE(flatAE(64, 0), 7, 6), [][]byte{u64s(6)}}}}, fault.Corrupt},
		{"rows past the end", oneField("int8"), columns{{{0, flatAE(8, 0), [][]byte{nil}}}}, fault.Corrupt},
		{"more than 2^63 rows", oneField("int8"), columns{{{1 << 63, allNullsAE(), nil}, {1 << 63, allNullsAE(), nil}}}, fault.Corrupt},
	} {
		f := handMade(t, c.records, c.columns...)
		if _, err := f.read(t, Range{0, 1}); err == nil || fault.KindOf(err) != c.kind {
			// Some damage shows on the second row only.
			if _, err2 := f.read(t, Range{0, 2}); err2 == nil || fault.KindOf(err2) != c.kind {
				t.Errorf("%s: got %v and %v, want a %v error", c.name, err, err2, c.kind)
			}
		}
	}
	deep := flatAE(64, 0)
	for range 100 {
		deep = someNullsAE(flatAE(1, 0), deep)
	}
	f := handMade(t, oneField("int64"), []page20In{{1, deep, [][]byte{make([]byte, 8)}}})
	if _, err := f.read(t, Range{0, 1}); fault.KindOf(err) != fault.Corrupt {
		t.Errorf("nested encodings: %v", err)
	}
}

// TestGoldenCoverage20 keeps the goldens from losing what they are there for.
func TestGoldenCoverage20(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	files, err := filepath.Glob("testdata/v20/*.lance")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		for _, c := range openFile20(t, path).file.Columns {
			if len(c.Encoding) == 0 {
				seen["no column encoding"] = true
			}
			if blob, _ := blobColumn20(c.Encoding); blob {
				seen["blob column"] = true
			}
			if len(c.Pages) > 1 {
				seen["several pages"] = true
			}
			for _, p := range c.Pages {
				enc := new(ae20)
				parse(t, p.Layout, enc)
				walk20(enc, seen)
			}
		}
	}
	for _, want := range []string{
		"flat", "nullable", "fixed_size_list", "list", "struct", "binary", "dictionary", "fsst", "packed_struct", "bitpacked",
		"zstd", "lz4", "no column encoding", "blob column", "several pages",
	} {
		if !seen[want] {
			t.Errorf("no golden file holds %s", want)
		}
	}
}

func walk20(enc *ae20, seen map[string]bool) {
	if enc == nil {
		return
	}
	seen[kindOf20(enc)] = true
	seen[enc.GetFlat().GetCompression().GetScheme()] = true
	for _, inner := range []*ae20{
		enc.GetNullable().GetNoNulls().GetValues(), enc.GetNullable().GetSomeNulls().GetValues(), enc.GetFixedSizeList().GetItems(),
		enc.GetList().GetOffsets(), enc.GetBinary().GetIndices(), enc.GetBinary().GetBytes(), enc.GetDictionary().GetIndices(),
		enc.GetDictionary().GetItems(), enc.GetFsst().GetBinary(),
	} {
		walk20(inner, seen)
	}
}

func TestPlainBlobIsReported20(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]bool{"early012_blobs": true, "early013_blobs": true, "blobs": false} {
		f := openFile20(t, "testdata/v20/"+file+".lance")
		r, err := NewReader20(f.schema.Fields[0].Path(), f.file)
		if err != nil {
			t.Fatal(err)
		}
		if r.PlainBlob() != want {
			t.Errorf("%s: PlainBlob is %v", file, !want)
		}
	}
}

// FuzzPage20 reads one page of hostile description and bytes, as a column of
// its own and as the items of a list.
func FuzzPage20(f *testing.F) {
	logical := []string{"int64", "bool", "string", "large_binary", "fixed_size_list:float:4", "dict:string:int8:false", "fixed_size_binary:3", "null"}
	files, err := filepath.Glob("testdata/v20/*.lance")
	if err != nil {
		f.Fatal(err)
	}
	seen := map[string]bool{} // one seed per sort of description and type
	for _, path := range files {
		g := openFile20(f, path)
		for _, c := range g.file.Columns {
			for _, p := range c.Pages {
				enc, words := new(ae20), map[string]bool{}
				parse(f, p.Layout, enc)
				if walk20(enc, words); seen[fmt.Sprint(words)] {
					continue
				}
				seen[fmt.Sprint(words)] = true
				var bufs [3][]byte
				for k, e := range p.Buffers[:min(len(p.Buffers), 3)] {
					bufs[k] = g.data[e.Offset : e.Offset+e.Size]
				}
				for kind := range 2 * len(logical) {
					kind = kind%len(logical) + kind/len(logical)*(64+128)
					f.Add(uint8(kind), p.Layout, bufs[0], bufs[1], bufs[2], uint32(p.Rows), uint32(1), uint32(p.Rows-1))
				}
			}
		}
	}
	f.Fuzz(func(t *testing.T, kind uint8, layout, a, b, c []byte, rows, from, to uint32) {
		g := handMade(t, oneField(logical[int(kind)%len(logical)]), nil)
		if kind&64 != 0 {
			g = handMade(t, listOf(logical[int(kind)%len(logical)]), nil, []page20In{{1 << 20, allNullsAE(), nil}})
		}
		g.data = append(append(append([]byte(nil), a...), b...), c...)
		x, y := uint64(len(a)), uint64(len(a)+len(b))
		g.file.Columns[0].Pages = []Page{{Rows: uint64(rows), Layout: layout, Buffers: []Extent{{0, x}, {x, y - x}, {y, uint64(len(c))}}}}
		if kind&128 != 0 {
			g.file.Columns = append(g.file.Columns, g.file.Columns[0]) // the bytes of strings as lists
		}
		from %= 1 << 12
		to = from + to%(1<<12)
		leaf, err := g.read(t, Range{uint64(from), uint64(to)})
		if err != nil {
			if k := fault.KindOf(err); k != fault.Corrupt && k != fault.Unsupported && k != fault.Exhausted {
				t.Fatalf("a %v error: %v", k, err)
			}
			return
		}
		last := leaf.Layers[len(leaf.Layers)-1]
		if leaf.Values.Len() != last.Slots || leaf.Layers[0].Slots != int(to-from) {
			t.Fatalf("%d values in %d slots", leaf.Values.Len(), last.Slots)
		}
		if leaf.Values.Len() < 1<<13 {
			_ = text(leaf.Values)
		}
		if v, ok := leaf.Values.(*array.String); ok && v.Len() > 0 {
			_ = v.Value(v.Len() - 1)
		}
	})
}

func BenchmarkRead20(b *testing.B) {
	const n = 1 << 16
	ints := page20In{n, someNullsAE(flatAE(1, 1), flatAE(64, 0)), [][]byte{make([]byte, 8*n), make([]byte, n/8)}}
	chars := page20In{n, binaryAE(noNullsAE(flatAE(64, 0)), flatAE(8, 1), 16*n+1), [][]byte{nil, make([]byte, 16*n)}}
	for i := range uint64(n) {
		chars.buffers[0] = binary.LittleEndian.AppendUint64(chars.buffers[0], 16*(i+1))
	}
	lists := page20In{n / 4, listAE(noNullsAE(flatAE(64, 0)), n+1, n), [][]byte{nil}}
	for i := range uint64(n / 4) {
		lists.buffers[0] = binary.LittleEndian.AppendUint64(lists.buffers[0], 4*(i+1))
	}
	for _, c := range []struct {
		name string
		file *file20
		rows uint64
	}{
		{"int64", handMade(b, oneField("int64"), []page20In{ints}), n},
		{"string", handMade(b, oneField("string"), []page20In{chars}), n},
		{"list of int64", handMade(b, listOf("int64"), []page20In{lists}, []page20In{ints}), n / 4},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(c.file.data)))
			for b.Loop() {
				if _, err := c.file.read(b, Range{0, c.rows}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
