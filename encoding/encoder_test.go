package encoding_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"

	"github.com/flightblob/flightblob/encoding"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/schema"
)

// shapes are the types of columns, by name.
func shapes() []arrow.Field {
	item := func(t arrow.DataType) arrow.Field { return arrow.Field{Name: "item", Type: t, Nullable: true} }
	list := func(t arrow.DataType) arrow.DataType { return arrow.ListOfField(item(t)) }
	point := arrow.StructOf(
		arrow.Field{Name: "x", Type: arrow.PrimitiveTypes.Int32, Nullable: true},
		arrow.Field{Name: "label", Type: arrow.BinaryTypes.String, Nullable: true},
	)
	packed := arrow.MetadataFrom(map[string]string{"lance-encoding:packed": "true"})
	out := []arrow.Field{
		{Name: "packed", Metadata: packed, Type: arrow.StructOf(
			arrow.Field{Name: "a", Type: arrow.PrimitiveTypes.Int32}, arrow.Field{Name: "b", Type: arrow.PrimitiveTypes.Uint8})},
		{Name: "packed_text", Metadata: packed, Type: arrow.StructOf(
			arrow.Field{Name: "a", Type: arrow.BinaryTypes.String}, arrow.Field{Name: "b", Type: arrow.PrimitiveTypes.Int64},
			arrow.Field{Name: "c", Type: arrow.FixedSizeListOfField(3, arrow.Field{Name: "item", Type: arrow.PrimitiveTypes.Float32})},
			arrow.Field{Name: "d", Type: arrow.BinaryTypes.LargeBinary})},
		{Name: "packed_list", Type: list(arrow.StructOf(arrow.Field{Name: "p", Metadata: packed, Nullable: true, Type: arrow.StructOf(
			arrow.Field{Name: "a", Type: arrow.BinaryTypes.LargeString}, arrow.Field{Name: "b", Type: arrow.PrimitiveTypes.Int16})}))},
	}
	for name, t := range map[string]arrow.DataType{
		"null": arrow.Null, "bool": arrow.FixedWidthTypes.Boolean, "int8": arrow.PrimitiveTypes.Int8,
		"uint16": arrow.PrimitiveTypes.Uint16, "int32": arrow.PrimitiveTypes.Int32, "int64": arrow.PrimitiveTypes.Int64,
		"half": arrow.FixedWidthTypes.Float16, "double": arrow.PrimitiveTypes.Float64,
		"decimal128": &arrow.Decimal128Type{Precision: 38, Scale: 3}, "decimal256": &arrow.Decimal256Type{Precision: 70, Scale: 3},
		"time": arrow.FixedWidthTypes.Time64ns, "stamp": arrow.FixedWidthTypes.Timestamp_us,
		"text": arrow.BinaryTypes.String, "large_text": arrow.BinaryTypes.LargeString,
		"binary": arrow.BinaryTypes.Binary, "large_binary": arrow.BinaryTypes.LargeBinary,
		"fixed3": &arrow.FixedSizeBinaryType{ByteWidth: 3}, "fixed16": &arrow.FixedSizeBinaryType{ByteWidth: 16},
		"fixed300": &arrow.FixedSizeBinaryType{ByteWidth: 300},
		"vector":   arrow.FixedSizeListOfField(4, item(arrow.PrimitiveTypes.Float32)),
		"wide":     arrow.FixedSizeListOfField(100, item(arrow.PrimitiveTypes.Float32)),
		"flags":    arrow.FixedSizeListOfField(5, item(arrow.FixedWidthTypes.Boolean)),
		"matrix":   arrow.FixedSizeListOfField(3, item(arrow.FixedSizeListOfField(2, item(arrow.PrimitiveTypes.Int16)))),
		"struct":   point, "list": list(arrow.PrimitiveTypes.Int32), "list_text": list(arrow.BinaryTypes.String),
		"large_list":  arrow.LargeListOfField(item(arrow.PrimitiveTypes.Int64)),
		"list_list":   list(list(arrow.PrimitiveTypes.Int8)),
		"list_struct": list(point), "struct_list": arrow.StructOf(arrow.Field{Name: "l", Type: list(arrow.FixedWidthTypes.Boolean), Nullable: true}),
		"deep":        list(arrow.StructOf(arrow.Field{Name: "l", Type: list(list(point)), Nullable: true})),
		"list_vector": list(arrow.FixedSizeListOfField(2, item(arrow.PrimitiveTypes.Int16))),
		"structs":     arrow.FixedSizeListOfField(2, item(point)),
		"list_null":   list(arrow.Null),
		"map":         arrow.MapOf(arrow.BinaryTypes.String, list(arrow.PrimitiveTypes.Int32)),
		"dict":        &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String},
		"dict_int":    &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Uint16, ValueType: arrow.PrimitiveTypes.Int64},
		"dict_bool":   &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int64, ValueType: arrow.FixedWidthTypes.Boolean},
		"list_dict":   list(&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: arrow.BinaryTypes.Binary}),
	} {
		out = append(out, arrow.Field{Name: name, Type: t, Nullable: true})
	}
	return out
}

func fieldOf(t testing.TB, f arrow.Field) *schema.Field {
	t.Helper()
	s, err := schema.FromArrow(arrow.NewSchema([]arrow.Field{f}, nil), schema.FromOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return s.Fields[0]
}

// written is a column of a field with all leaves, in one run of bytes.
type written struct {
	version encoding.Version
	field   *schema.Field
	file    []byte
	pages   map[*schema.Field][]encoding.Page
}

// write encodes arrays as a top-level field.
func write(v encoding.Version, f *schema.Field, o encoding.EncoderOptions, arrays ...arrow.Array) (*written, error) {
	w := &written{version: v, field: f, pages: map[*schema.Field][]encoding.Page{}}
	for leaf := range f.Leaves() {
		e, err := encoding.NewEncoder(v, leaf.Path(), o)
		if err != nil {
			return nil, err
		}
		rows := uint64(0)
		keep := func(pages []encoding.EncodedPage, err error) error {
			for _, p := range pages {
				if p.First != rows {
					return fmt.Errorf("page starts at row %d, not %d", p.First, rows)
				}
				page := encoding.Page{Rows: p.Rows, Layout: p.Layout}
				for _, b := range p.Buffers {
					page.Buffers = append(page.Buffers, encoding.Extent{Offset: uint64(len(w.file)), Size: uint64(len(b))})
					w.file = append(w.file, b...)
				}
				w.pages[leaf] = append(w.pages[leaf], page)
				scale := uint64(1)
				for _, p := range leaf.Path() {
					scale *= max(uint64(p.Dimension), 1)
				}
				rows += p.Rows / scale
			}
			return err
		}
		for _, a := range arrays {
			if err := keep(e.Append(a)); err != nil {
				return nil, err
			}
		}
		if err := keep(e.Flush()); err != nil {
			return nil, err
		}
		if e.Buffered() != 0 {
			return nil, fmt.Errorf("%d bytes wait after the last page", e.Buffered())
		}
	}
	return w, nil
}

// read gives rows as an array.
func (w *written) read(rows ...encoding.Range) (arrow.Array, error) {
	leaves := map[*schema.Field]*encoding.Leaf{}
	total := 0
	for _, r := range rows {
		total += int(r.Len())
	}
	for leaf := range w.field.Leaves() {
		c, err := encoding.NewColumn(w.version, leaf.Path(), w.pages[leaf], nil)
		if err != nil {
			return nil, err
		}
		fetch := func(_ context.Context, extents []encoding.Extent) ([][]byte, func(), error) {
			out := make([][]byte, len(extents))
			for i, e := range extents {
				out[i] = w.file[e.Offset : e.Offset+e.Size]
			}
			return out, func() {}, nil
		}
		if leaves[leaf], err = c.Read(context.Background(), fetch, rows); err != nil {
			return nil, err
		}
	}
	return encoding.Assemble(w.field, func(l *schema.Field) *encoding.Leaf { return leaves[l] }, total)
}

// plain gives an array's values without what lies under nulls.
func plain(a arrow.Array, i int) any {
	if a.IsNull(i) {
		return nil
	}
	switch a := a.(type) {
	case *array.Struct:
		out := map[string]any{}
		t, _ := a.DataType().(*arrow.StructType)
		for k := range a.NumField() {
			out[t.Field(k).Name] = plain(a.Field(k), i)
		}
		return out
	case array.ListLike:
		from, to := a.ValueOffsets(i)
		out := []any{}
		for k := from; k < to; k++ {
			out = append(out, plain(a.ListValues(), int(k)))
		}
		return out
	case *array.Dictionary:
		return plain(a.Dictionary(), a.GetValueIndex(i))
	case *array.Float16, *array.Float64, *array.Float32:
		data := a.Data()
		width := a.DataType().(arrow.FixedWidthDataType).BitWidth() / 8
		at := (data.Offset() + i) * width
		return string(data.Buffers()[1].Bytes()[at : at+width])
	default:
		return a.ValueStr(i)
	}
}

func sameRows(t *testing.T, name string, want, got arrow.Array, from int) {
	t.Helper()
	if array.Equal(array.NewSlice(want, int64(from), int64(from+got.Len())), got) {
		return // of floats and structs it asks for too much
	}
	for i := range got.Len() {
		a, b := plain(want, from+i), plain(got, i)
		if !reflect.DeepEqual(a, b) {
			t.Fatalf("%s: row %d of %d: %s", name, from+i, want.Len(), cmp.Diff(a, b))
		}
	}
}

// check writes arrays and reads them back, whole and in parts.
func check(t *testing.T, name string, v encoding.Version, f *schema.Field, o encoding.EncoderOptions, rng *rand.Rand, arrays ...arrow.Array) *written {
	t.Helper()
	w, err := write(v, f, o, arrays...)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	at := uint64(0)
	for _, a := range arrays {
		n := uint64(a.Len())
		got, err := w.read(encoding.Range{Start: at, End: at + n})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got.Len() != a.Len() {
			t.Fatalf("%s: %d rows of %d", name, got.Len(), a.Len())
		}
		sameRows(t, name, a, got, 0)
		for range 3 {
			if n == 0 {
				break
			}
			from := rng.Uint64N(n)
			to := from + 1 + rng.Uint64N(min(n-from, 20))
			if got, err = w.read(encoding.Range{Start: at + from, End: at + to}); err != nil {
				t.Fatalf("%s: rows %d to %d: %v", name, from, to, err)
			}
			sameRows(t, name, a, got, int(from))
		}
		at += n
	}
	return w
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	t.Parallel()
	for _, v := range []encoding.Version{encoding.V2_2, encoding.V2_3} {
		for _, shape := range shapes() {
			t.Run(fmt.Sprintf("%d.%d %s", v.Major, v.Minor, shape.Name), func(t *testing.T) {
				t.Parallel()
				f := fieldOf(t, shape)
				for seed := range uint64(16) {
					rng := rand.New(rand.NewPCG(seed, 7))
					r := &source{
						Rand: rng, nulls: []float64{0, 0.3, 0.97, 1}[seed%4],
						distinct: []int{1, 3, 100, 1 << 40}[rng.IntN(4)], length: []int{1, 3, 40}[rng.IntN(3)],
					}
					var arrays []arrow.Array
					for range 1 + rng.IntN(4) {
						n := []int{0, 1, 5, 100, 1200}[rng.IntN(5)]
						arrays = append(arrays, array.MakeFromData(r.data(shape.Type, shape.Nullable, n)))
					}
					o := encoding.EncoderOptions{PageBytes: []int{0, 1, 1000, 30_000}[rng.IntN(4)]}
					check(t, fmt.Sprintf("seed %d", seed), v, f, o, rng, arrays...)
				}
			})
		}
	}
}

// TestEqualInputGivesEqualPages: the same rows give the same bytes, however
// they are cut into arrays.
func TestEqualInputGivesEqualPages(t *testing.T) {
	t.Parallel()
	for _, shape := range shapes() {
		f := fieldOf(t, shape)
		r := &source{Rand: rand.New(rand.NewPCG(3, 9)), nulls: 0.2, distinct: 50, length: 5}
		whole := array.MakeFromData(r.data(shape.Type, shape.Nullable, 3000))
		one, err := write(encoding.V2_2, f, encoding.EncoderOptions{}, whole)
		if err != nil {
			t.Fatal(err)
		}
		var parts []arrow.Array
		for at := int64(0); at < 3000; {
			to := min(at+1+r.Int64N(500), 3000)
			parts = append(parts, array.NewSlice(whole, at, to))
			at = to
		}
		many, err := write(encoding.V2_2, f, encoding.EncoderOptions{}, parts...)
		if err != nil {
			t.Fatal(err)
		}
		if string(one.file) != string(many.file) {
			t.Errorf("%s: %d bytes in one piece, %d in %d, which differ", shape.Name, len(one.file), len(many.file), len(parts))
		}
	}
}

// TestPagesAreBounded: a stream of any length waits for one page at most.
func TestPagesAreBounded(t *testing.T) {
	t.Parallel()
	const limit = 64 << 10
	for _, shape := range shapes() {
		f := fieldOf(t, shape)
		r := &source{Rand: rand.New(rand.NewPCG(3, 11)), nulls: 0.5, distinct: 1 << 40, length: 3}
		for leaf := range f.Leaves() {
			e, err := encoding.NewEncoder(encoding.V2_2, leaf.Path(), encoding.EncoderOptions{PageBytes: limit})
			if err != nil {
				t.Fatal(err)
			}
			rows, most, pages := 0, int64(0), 0
			for range 30 {
				a := array.MakeFromData(r.data(shape.Type, shape.Nullable, 2000))
				got, err := e.Append(a)
				if err != nil {
					t.Fatal(err)
				}
				pages += len(got)
				rows += a.Len()
				most = max(most, e.Buffered())
			}
			if most > limit*3/2 {
				t.Errorf("%s: %d bytes waited for a page of %d", shape.Name, most, limit)
			}
			if pages == 0 {
				t.Errorf("%s: no page in %d rows", shape.Name, rows)
			}
		}
	}
}

// TestLongGaps: lists whose levels outgrow a chunk.
func TestLongGaps(t *testing.T) {
	t.Parallel()
	inner := func(lengths ...int) []int { return lengths }
	repeat := func(n, v int) []int {
		out := make([]int, n)
		for i := range out {
			out[i] = v
		}
		return out
	}
	cases := map[string][][]int{ // rows of lists with so many items each, -1 = null
		"one row of empty lists":          {repeat(200_000, 0)},
		"many rows of nothing":            append(append(many(200_000, nil), inner(3)), many(100_000, inner(-1))...),
		"one value in a wide gap":         {append(append(repeat(70_000, 0), 1), repeat(70_000, -1)...)},
		"values far apart in a row":       {spaced(40, 5000)},
		"values far apart, some by rows":  append([][]int{spaced(5, 3000), spaced(3, 9)}, many(9000, inner(0))...),
		"values far apart in many rows":   apart(50, 4000),
		"values in reach in many rows":    apart(500, 400),
		"a wide row among narrow ones":    {inner(1, 2), repeat(100_000, 1), inner(2), repeat(40_000, 0), inner(1)},
		"gaps at the limit between rows":  {spaced(2, 2499), inner(1), append([]int{1}, repeat(2500, 0)...), append(repeat(2501, 0), 1)},
		"trailing gap after the last one": append([][]int{inner(4)}, many(50_000, inner())...),
	}
	for _, v := range []encoding.Version{encoding.V2_2, encoding.V2_3} {
		for name, rows := range cases {
			for _, item := range []arrow.DataType{arrow.PrimitiveTypes.Int32, arrow.BinaryTypes.String, arrow.FixedWidthTypes.Boolean} {
				a := listsOf(item, rows)
				f := fieldOf(t, arrow.Field{Name: "l", Type: a.DataType(), Nullable: true})
				check(t, fmt.Sprint(name, " of ", item), v, f, encoding.EncoderOptions{}, rand.New(rand.NewPCG(1, 1)), a)
			}
		}
	}
}

func many(n int, row []int) [][]int {
	out := make([][]int, n)
	for i := range out {
		out[i] = row
	}
	return out
}

// spaced is a row with so many values, each after a gap of empty lists.
func spaced(values, gap int) []int {
	var out []int
	for range values {
		out = append(append(out, make([]int, gap)...), 1)
	}
	return out
}

// apart is values in rows, with a gap of rows between them.
func apart(values, gap int) [][]int {
	var out [][]int
	for range values {
		out = append(append(out, many(gap, nil)...), []int{1})
	}
	return out
}

// listsOf makes a list of lists.
func listsOf(item arrow.DataType, rows [][]int) arrow.Array {
	out := array.NewListBuilderWithField(memory.DefaultAllocator, arrow.Field{Name: "item", Type: arrow.ListOf(item), Nullable: true})
	lists, _ := out.ValueBuilder().(*array.ListBuilder)
	n := 0
	for i, row := range rows {
		if row == nil && i%2 == 0 {
			out.AppendNull()
			continue
		}
		out.Append(true)
		for _, size := range row {
			if size < 0 {
				lists.AppendNull()
				continue
			}
			lists.Append(true)
			for range size {
				n++
				switch b := lists.ValueBuilder().(type) {
				case *array.Int32Builder:
					b.Append(int32(n))
				case *array.StringBuilder:
					b.Append(fmt.Sprint("item ", n))
				case *array.BooleanBuilder:
					b.Append(n%3 == 0)
				}
			}
		}
	}
	return out.NewArray()
}

// TestLongGapsOfDictionaries: there is no layout for these.
func TestLongGapsOfDictionaries(t *testing.T) {
	t.Parallel()
	b := array.NewDictionaryBuilder(memory.DefaultAllocator, &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String})
	if err := b.(*array.BinaryDictionaryBuilder).AppendString("x"); err != nil {
		t.Fatal(err)
	}
	dict := b.NewArray()
	offsets := memory.NewBufferBytes(make([]byte, 4*100_001))
	offsets.Bytes()[4*100_000] = 1 // the last of 100 000 lists has the one item
	inner := array.NewData(arrow.ListOf(dict.DataType()), 100_000, []*memory.Buffer{nil, offsets}, []arrow.ArrayData{dict.Data()}, 0, 0)
	outer := array.NewData(arrow.ListOf(inner.DataType()), 1, []*memory.Buffer{nil, memory.NewBufferBytes([]byte{0, 0, 0, 0, 0xA0, 0x86, 1, 0})}, []arrow.ArrayData{inner}, 0, 0)
	f := fieldOf(t, arrow.Field{Name: "l", Type: outer.DataType(), Nullable: true})
	_, err := write(encoding.V2_2, f, encoding.EncoderOptions{}, array.MakeFromData(outer))
	if fault.KindOf(err) != fault.Unsupported || !strings.Contains(err.Error(), "l.item.item") {
		t.Errorf("got %v", err)
	}
}

func TestRefusedInput(t *testing.T) {
	t.Parallel()
	int32s := func(n int, nulls ...int) arrow.Array {
		b := array.NewInt32Builder(memory.DefaultAllocator)
		for i := range n {
			b.Append(int32(i))
		}
		for _, i := range nulls {
			b.SetNull(i)
		}
		return b.NewArray()
	}
	required := arrow.Field{Name: "a", Type: arrow.PrimitiveTypes.Int32}
	listed := arrow.Field{Name: "a", Type: arrow.ListOfField(arrow.Field{Name: "item", Type: arrow.PrimitiveTypes.Int32}), Nullable: true}
	badOffsets := func(offsets ...byte) arrow.Array {
		raw := make([]byte, 0, 4*len(offsets))
		for _, o := range offsets {
			raw = append(raw, o, 0, 0, 0)
		}
		data := array.NewData(listed.Type, len(offsets)-1, []*memory.Buffer{nil, memory.NewBufferBytes(raw)}, []arrow.ArrayData{int32s(5).Data()}, 0, 0)
		return array.MakeFromData(data)
	}
	for _, c := range []struct {
		name  string
		field arrow.Field
		array arrow.Array
		text  string
	}{
		{"a null where none may be", required, int32s(9, 7), "column a is null in row 7"},
		{"another type", arrow.Field{Name: "a", Type: arrow.BinaryTypes.String, Nullable: true}, int32s(1), "an array of type int32: the column stores utf8"},
		{"no list", listed, int32s(1), "the field has the type list"},
		{"offsets beyond the items", listed, badOffsets(0, 2, 6), "over 5 items"},
		{"offsets that run backwards", listed, badOffsets(0, 3, 2, 5), "over 5 items"},
	} {
		_, err := write(encoding.V2_2, fieldOf(t, c.field), encoding.EncoderOptions{}, c.array)
		if fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if _, err := encoding.NewEncoder(encoding.V2_1, fieldOf(t, required).Path(), encoding.EncoderOptions{}); fault.KindOf(err) != fault.Unsupported {
		t.Errorf("format 2.1: %v", err)
	}
}

// FuzzEncoder: random arrays of random shapes come back.
func FuzzEncoder(f *testing.F) {
	all := shapes()
	for i := range all {
		f.Add(uint16(i), uint64(i), uint16(300), uint8(30), uint8(3), uint16(0), i%2 == 0)
	}
	f.Fuzz(func(t *testing.T, which uint16, seed uint64, rows uint16, nulls, length uint8, pageBytes uint16, next bool) {
		shape := all[int(which)%len(all)]
		rng := rand.New(rand.NewPCG(seed, 5))
		r := &source{Rand: rng, nulls: float64(nulls%101) / 100, distinct: 1 + rng.IntN(1<<rng.IntN(30)), length: int(length % 60)}
		v := encoding.V2_2
		if next {
			v = encoding.V2_3
		}
		var arrays []arrow.Array
		for range 1 + rng.IntN(3) {
			arrays = append(arrays, array.MakeFromData(r.data(shape.Type, shape.Nullable, rng.IntN(int(rows)%3000+1))))
		}
		check(t, shape.Name, v, fieldOf(t, shape), encoding.EncoderOptions{PageBytes: int(pageBytes)}, rng, arrays...)
	})
}
