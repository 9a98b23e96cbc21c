package schema

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/internal/jsonb"
)

// fake makes random arrays, with junk below nulls and offsets that do not start
// at 0.
type fake struct{ *rand.Rand }

func (r fake) array(t arrow.DataType, n int, nullable bool) arrow.Array {
	if t.ID() == arrow.NULL {
		return array.NewNull(n)
	}
	lead := r.IntN(12) // values before the first one
	total := lead + n
	var valid *memory.Buffer
	nulls := 0
	if nullable && r.IntN(4) > 0 {
		bits := make([]byte, bitutil.BytesForBits(int64(total)))
		for i := range bits {
			bits[i] = byte(r.Uint32() | r.Uint32())
		}
		valid, nulls = memory.NewBufferBytes(bits), array.UnknownNullCount
	}
	build := func(buffers []*memory.Buffer, children ...arrow.Array) arrow.Array {
		var data []arrow.ArrayData
		for _, c := range children {
			data = append(data, c.Data())
		}
		return array.MakeFromData(array.NewData(t, n, append([]*memory.Buffer{valid}, buffers...), data, nulls, lead))
	}
	words := []string{"", "a", "bc", "a longer text, not in place", "ü", "def"}
	offsets := func(lengths func() int) (*memory.Buffer, *memory.Buffer, int) {
		small, large, at := make([]int32, total+1), make([]int64, total+1), 3
		for i := range total + 1 {
			small[i], large[i] = int32(at), int64(at)
			at += lengths()
		}
		return memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(small)), memory.NewBufferBytes(arrow.Int64Traits.CastToBytes(large)), int(large[total])
	}
	switch t := t.(type) {
	case *arrow.StringType, *arrow.BinaryType, *arrow.LargeStringType, *arrow.LargeBinaryType:
		text := "xyz"
		small, large, _ := offsets(func() int { w := words[r.IntN(len(words))]; text += w; return len(w) })
		if t.ID() == arrow.STRING || t.ID() == arrow.BINARY {
			return build([]*memory.Buffer{small, memory.NewBufferBytes([]byte(text))})
		}
		return build([]*memory.Buffer{large, memory.NewBufferBytes([]byte(text))})
	case *arrow.StringViewType, *arrow.BinaryViewType:
		b := array.NewBuilder(memory.DefaultAllocator, t)
		defer b.Release()
		for range n {
			w := words[r.IntN(len(words))]
			switch b := b.(type) {
			case *array.StringViewBuilder:
				b.Append(w)
			case *array.BinaryViewBuilder:
				b.Append([]byte(w))
			}
			if nullable && r.IntN(4) == 0 {
				b.AppendNull()
			}
		}
		return array.NewSlice(b.NewArray(), 0, int64(n))
	case *arrow.ListType:
		small, _, end := offsets(func() int { return r.IntN(4) })
		return build([]*memory.Buffer{small}, r.array(t.Elem(), end+r.IntN(3), t.ElemField().Nullable))
	case *arrow.LargeListType:
		_, large, end := offsets(func() int { return r.IntN(4) })
		return build([]*memory.Buffer{large}, r.array(t.Elem(), end+r.IntN(3), t.ElemField().Nullable))
	case *arrow.MapType:
		small, _, end := offsets(func() int { return r.IntN(3) })
		entries := array.NewData(t.Elem(), end, []*memory.Buffer{nil}, []arrow.ArrayData{
			r.array(t.KeyType(), end, false).Data(), r.array(t.ItemType(), end, t.ItemField().Nullable).Data(),
		}, 0, 0)
		return build([]*memory.Buffer{small}, array.MakeFromData(entries))
	case *arrow.FixedSizeListType:
		return build(nil, r.array(t.Elem(), total*int(t.Len()), t.ElemField().Nullable))
	case *arrow.StructType:
		var children []arrow.Array
		for _, f := range t.Fields() {
			children = append(children, r.array(f.Type, total, f.Nullable))
		}
		return build(nil, children...)
	case *arrow.DictionaryType:
		values := r.array(t.ValueType, 5, true)
		width := t.IndexType.(arrow.FixedWidthDataType).Bytes()
		indices := make([]byte, total*width)
		for i := range total {
			indices[i*width] = byte(r.IntN(5))
		}
		return array.MakeFromData(array.NewDataWithDictionary(t, n, []*memory.Buffer{valid, memory.NewBufferBytes(indices)}, nulls, lead, values.Data().(*array.Data)))
	case *arrow.Float64Type:
		values := make([]float64, total)
		for i := range values {
			values[i] = float64(r.IntN(100))
		}
		return build([]*memory.Buffer{memory.NewBufferBytes(arrow.Float64Traits.CastToBytes(values))})
	case arrow.FixedWidthDataType:
		bytes := make([]byte, (t.BitWidth()*total+7)/8)
		for i := range bytes {
			bytes[i] = byte(r.Uint32())
			if t.BitWidth() > 32 && i%(t.BitWidth()/8) > 3 {
				bytes[i] = 0
			}
		}
		return build([]*memory.Buffer{memory.NewBufferBytes(bytes)})
	}
	panic(t)
}

// shown is the JSON of an array's values, structs in no order.
func shown(t *testing.T, a arrow.Array) any {
	t.Helper()
	data, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// TestApplyKeepsValues brings random batches of every accepted input into its
// table: each value is what it was, and what is missing is null.
func TestApplyKeepsValues(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	for name, c := range appendings() {
		if c.refused != "" || strings.Contains(name, "json") || strings.Contains(name, "tz=-") { // a zone that prints as none
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := fake{rand.New(rand.NewPCG(seed, uint64(len(name))))}
			input := arrow.NewSchema(c.input, nil)
			m, err := table(t, c.version, c.table...).Accepts(input)
			if err != nil {
				t.Fatal(err)
			}
			mem := memory.NewCheckedAllocator(memory.DefaultAllocator)
			defer mem.AssertSize(t, 0)
			for round := range 20 {
				n := r.IntN(20)
				var columns []arrow.Array
				for _, f := range c.input {
					columns = append(columns, r.array(f.Type, n, f.Nullable))
				}
				batch := array.NewRecordBatch(input, columns, int64(n))
				got, err := m.Apply(mem, batch)
				if err != nil {
					if strings.Contains(err.Error(), "must not be null") { // a required column of nullable input
						continue
					}
					t.Fatalf("seed %d, round %d: %v", seed, round, err)
				}
				if !got.Schema().Equal(m.Schema()) || got.NumRows() != int64(n) {
					t.Fatalf("got %v", got)
				}
				for i, f := range c.table {
					at := slices.IndexFunc(c.input, func(in arrow.Field) bool { return in.Name == f.Name })
					if a := got.Column(i); !arrow.TypeEqual(a.DataType(), m.Schema().Field(i).Type) {
						t.Fatalf("column %s has type %s, not %s", f.Name, a.DataType(), m.Schema().Field(i).Type)
					}
					if at < 0 {
						if got.Column(i).NullN() != n {
							t.Errorf("seed %d: the missing column %s is not null", seed, f.Name)
						}
						continue
					}
					want := shown(t, columns[at])
					have := shown(t, got.Column(i))
					if diff := cmp.Diff(want, prune(have, want)); diff != "" {
						t.Fatalf("seed %d, round %d, column %s: %s", seed, round, f.Name, diff)
					}
				}
				got.Release()
			}
		})
	}
}

// prune drops the null members of have that want does not have: fields that
// the input lacks.
func prune(have, want any) any {
	switch h := have.(type) {
	case map[string]any:
		w, ok := want.(map[string]any)
		for k, v := range h {
			switch {
			case !ok:
			case w[k] == nil && v == nil:
				if _, there := w[k]; !there {
					delete(h, k)
				}
			default:
				h[k] = prune(v, w[k])
			}
		}
	case []any:
		if w, ok := want.([]any); ok && len(w) == len(h) {
			for i := range h {
				h[i] = prune(h[i], w[i])
			}
		}
	}
	return have
}

func fromJSON(t *testing.T, rows string, fields ...arrow.Field) arrow.RecordBatch {
	t.Helper()
	batch, _, err := array.RecordFromJSON(memory.DefaultAllocator, arrow.NewSchema(fields, nil), strings.NewReader(rows))
	if err != nil {
		t.Fatal(err)
	}
	return batch
}

func TestApplyJSON(t *testing.T) {
	t.Parallel()
	s := table(t, "", col("j", listOf(col("item", tText, KeyExtensionName, "arrow.json"))))
	for _, in := range []arrow.DataType{tText, arrow.BinaryTypes.LargeString, arrow.BinaryTypes.StringView, extension("arrow.json", tText)} {
		mem := memory.NewCheckedAllocator(memory.DefaultAllocator)
		m, err := s.Accepts(arrow.NewSchema([]arrow.Field{col("j", listOf(col("item", in)))}, nil))
		if err != nil {
			t.Fatal(err)
		}
		batch := fromJSON(t, `[{"j":["{\"a\": 1}",null,"[]"]},{"j":null},{"j":["2"]}]`, col("j", listOf(col("item", plainType(in)))))
		if ext, ok := in.(arrow.ExtensionType); ok {
			batch = asExtension(t, batch, ext)
		} else {
			batch = array.NewRecordBatch(m.input, recast(t, batch, in), 3)
		}
		got, err := m.Apply(mem, batch)
		if err != nil {
			t.Fatal(err)
		}
		items := got.Column(0).(*array.List).ListValues().(*array.LargeBinary)
		var texts []string
		for i := range items.Len() {
			if items.IsNull(i) {
				texts = append(texts, "null value")
				continue
			}
			text, err := jsonb.AppendText(nil, items.Value(i))
			if err != nil {
				t.Fatal(err)
			}
			texts = append(texts, string(text))
		}
		if diff := cmp.Diff([]string{`{"a":1}`, "null value", "[]", "2"}, texts); diff != "" {
			t.Errorf("%s: %s", in, diff)
		}
		got.Release()
		mem.AssertSize(t, 0)
	}
	m, err := s.Accepts(arrow.NewSchema([]arrow.Field{col("j", listOf(col("item", tText)))}, nil))
	if err != nil {
		t.Fatal(err)
	}
	_, err = m.Apply(memory.DefaultAllocator, fromJSON(t, `[{"j":["1"]},{"j":null},{"j":["1","{a}"]}]`, col("j", listOf(col("item", tText)))))
	if want := `column j.item, row 2: "{a}" is not JSON: jsonb: at byte 1: a key in double quotes is missing`; err == nil || fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}

// recast builds the list column of a batch with items of another text type.
func recast(t *testing.T, batch arrow.RecordBatch, item arrow.DataType) []arrow.Array {
	t.Helper()
	list := batch.Column(0).(*array.List)
	values := list.ListValues()
	b := array.NewBuilder(memory.DefaultAllocator, item)
	for i := range values.Len() {
		if values.IsNull(i) {
			b.AppendNull()
		} else if err := b.AppendValueFromString(values.ValueStr(i)); err != nil {
			t.Fatal(err)
		}
	}
	d := list.Data()
	return []arrow.Array{array.MakeFromData(array.NewData(listOf(col("item", item)), list.Len(), d.Buffers(), []arrow.ArrayData{b.NewArray().Data()}, d.NullN(), 0))}
}

func asExtension(t *testing.T, batch arrow.RecordBatch, ext arrow.ExtensionType) arrow.RecordBatch {
	t.Helper()
	list := batch.Column(0).(*array.List)
	values := list.ListValues().Data()
	item := array.NewData(ext, values.Len(), values.Buffers(), nil, values.NullN(), 0)
	d := list.Data()
	out := array.NewData(listOf(col("item", ext)), list.Len(), d.Buffers(), []arrow.ArrayData{item}, d.NullN(), 0)
	return array.NewRecordBatch(arrow.NewSchema([]arrow.Field{col("j", listOf(col("item", ext)))}, nil), []arrow.Array{array.MakeFromData(out)}, batch.NumRows())
}

func TestApplyRequired(t *testing.T) {
	t.Parallel()
	inner := []arrow.Field{col("a", tInt32), col("b", tText)}
	for name, c := range map[string]struct {
		table arrow.Field
		input arrow.Field
		rows  string
		want  string // "" is taken
	}{
		"ERR-19 top":           {req("a", tInt32), col("a", tInt32), `[{"a":1},{"a":null}]`, "column a, row 1: null, but the column must not be null"},
		"no null":              {req("a", tInt32), col("a", tInt32), `[{"a":1}]`, ""},
		"ERR-19 nested":        {col("s", structOf(req("a", tInt32), inner[1])), col("s", structOf(inner...)), `[{"s":{"a":1}},{"s":null},{"s":{"b":"x"}}]`, "column s.a, row 2: null"},
		"below a null struct":  {col("s", structOf(req("a", tInt32), inner[1])), col("s", structOf(inner...)), `[{"s":{"a":1}},{"s":null}]`, ""},
		"ERR-19 list items":    {col("l", listOf(req("item", tInt32))), col("l", listOf(inner[0])), `[{"l":[1]},{"l":null},{"l":[1,2,null]}]`, "column l.item, row 2, element 2: null"},
		"ERR-19 in list items": {col("l", largeListOf(col("item", structOf(req("a", tInt32))))), col("l", listOf(col("item", structOf(inner[0])))), `[{"l":[]},{"l":[null,{"a":1},{"a":null}]}]`, "column l.item.a, row 1, element 2: null"},
		"null items":           {col("l", listOf(col("item", structOf(req("a", tInt32))))), col("l", listOf(col("item", structOf(inner[0])))), `[{"l":[null,{"a":1}]}]`, ""},
		"ERR-19 map values":    {col("m", arrow.MapOfFields(req("key", tText), req("value", tInt32))), col("m", arrow.MapOf(tText, tInt32)), `[{"m":[{"key":"a","value":1}]},{"m":[{"key":"b","value":null}]}]`, "column m.entries.value, row 1, element 0: null"},
		"ERR-19 fixed":         {col("f", fixedOf(2, structOf(req("a", tInt32)))), col("f", fixedOf(2, structOf(inner[0]))), `[{"f":null},{"f":[{"a":1},{"a":null}]}]`, "column f.item.a, row 1, element 1: null"},
		"blobs are not judged": {mandatory(blobCol("c", minimalType)), blobCol("c", minimalType), `[{"c":null}]`, ""},
		"lists of blobs are":   {req("l", listOf(blobCol("item", minimalType))), col("l", listOf(blobCol("item", minimalType))), `[{"l":null}]`, "column l, row 0: null"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, err := table(t, "", c.table).Accepts(arrow.NewSchema([]arrow.Field{c.input}, nil))
			if err != nil {
				t.Fatal(err)
			}
			mem := memory.NewCheckedAllocator(memory.DefaultAllocator)
			defer mem.AssertSize(t, 0)
			for lead := range 10 {
				// The same rows behind others that do no harm, cut off again.
				batch := fromJSON(t, "["+strings.Repeat(`{},`, lead)+c.rows[1:], c.input)
				batch = batch.NewSlice(int64(lead), batch.NumRows())
				got, err := m.Apply(mem, batch)
				if err == nil {
					got.Release()
				}
				if c.want == "" && err != nil || c.want != "" && (err == nil || fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), c.want)) {
					t.Fatalf("got %v, want %q", err, c.want)
				}
			}
		})
	}
}

func TestApplyRefuses(t *testing.T) {
	t.Parallel()
	apply := func(table, input []arrow.Field, columns ...arrow.Array) error {
		m, err := made(table).Accepts(arrow.NewSchema(input, nil))
		if err != nil {
			t.Fatal(err)
		}
		mem := memory.NewCheckedAllocator(memory.DefaultAllocator)
		defer mem.AssertSize(t, 0)
		fields := make([]arrow.Field, len(columns))
		for i, c := range columns {
			fields[i] = arrow.Field{Name: "x", Type: c.DataType(), Nullable: true}
		}
		got, err := m.Apply(mem, array.NewRecordBatch(arrow.NewSchema(fields, nil), columns, -1))
		if err == nil {
			got.Release()
		}
		return err
	}
	many := make([]string, 200)
	for i := range many {
		many[i] = fmt.Sprintf("%q", fmt.Sprint(i))
	}
	texts := fromJSON(t, `[{"c":`+strings.Join(many, `},{"c":`)+`}]`, col("c", tText)).Column(0)
	broken := array.MakeFromData(array.NewData(tText, 1, []*memory.Buffer{nil, memory.NewBufferBytes(arrow.Int32Traits.CastToBytes([]int32{0, 1})), memory.NewBufferBytes([]byte{0xff})}, nil, 0, 0))
	one := []arrow.Field{col("c", tText)}
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"too few columns":       {apply(one, one), "a batch has 0 columns, its schema 1"},
		"another type":          {apply(one, one, array.NewNull(1)), "column c has type null in a batch and utf8 in the schema before it"},
		"damaged text":          {apply(one, one, broken), "column c: value 0 of a text array is not UTF-8"},
		"too many for an index": {apply([]arrow.Field{col("c", dict(tInt8, tText))}, one, texts), "column c has type dictionary<values=utf8, indices=int8, ordered=false>; a batch may have 128 distinct values"},
		"enough for unsigned":   {apply([]arrow.Field{col("c", dict(arrow.PrimitiveTypes.Uint8, tText))}, one, texts), ""},
	} {
		if c.want == "" && c.err != nil || c.want != "" && (c.err == nil || fault.KindOf(c.err) != fault.Invalid || !strings.Contains(c.err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, c.err, c.want)
		}
	}
}

func TestAcceptsStored(t *testing.T) {
	t.Parallel()
	s := table(t, "", blobCol("a", minimalType), col("l", listOf(blobCol("item", completeType))))
	reference := col("a", ReferenceType, KeyBlob, "true")
	anyBlob := col("l", listOf(col("item", AnyBlobType)))
	input := arrow.NewSchema([]arrow.Field{anyBlob, reference}, nil)
	m, err := s.AcceptsStored(input)
	if err != nil {
		t.Fatal(err)
	}
	batch := fromJSON(t, `[{"a":{"kind":3,"position":0,"size":0,"blob_id":0,"blob_uri":"u","source":7},`+
		`"l":[{"data":"YQ=="},{"stored":{"kind":1,"position":5,"size":6,"blob_id":1,"blob_uri":"","source":8}},null]},{"a":null,"l":null}]`, anyBlob, reference)
	mem := memory.NewCheckedAllocator(memory.DefaultAllocator)
	defer mem.AssertSize(t, 0)
	got, err := m.Apply(mem, batch)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Release()
	if !arrow.TypeEqual(got.Column(0).DataType(), ReferenceType) || !arrow.TypeEqual(got.Column(1).(*array.List).ListValues().DataType(), AnyBlobType) {
		t.Errorf("got %v", got.Schema())
	}
	for i, name := range []string{"a", "l"} {
		if diff := cmp.Diff(shown(t, batch.Column(1-i)), shown(t, got.Column(i))); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestWithoutLegacyBlobs(t *testing.T) {
	t.Parallel()
	s := table(t, "2.1", col("b", tLarge, KeyBlob, "true", "own", "1"), col("k", tInt8), col("l", listOf(req("q", tLarge, KeyBlob, "false"))))
	got, err := s.WithoutLegacyBlobs(9)
	if err != nil {
		t.Fatal(err)
	}
	want := `0<-1 "b" struct [ARROW:extension:name="lance.blob.v2" own="1"]
9<0 "data" large_binary []
10<0 "uri" string []
1<-1 "k" int8 []
2<-1 "l" list []
3<2 "q" struct not null [ARROW:extension:name="lance.blob.v2"]
11<3 "data" large_binary []
12<3 "uri" string []
`
	t.Run("LEG-2 LEG-5 the same id, new ids for its children", func(t *testing.T) {
		if diff := cmp.Diff(want, text(listed(got))); diff != "" {
			t.Error(diff)
		}
	})
	if again, err := got.WithoutLegacyBlobs(20); err != nil || again != got {
		t.Errorf("%v, %v", again, err)
	}
	if _, err := s.Accepts(arrow.NewSchema([]arrow.Field{blobCol("b", minimalType), col("k", tInt8), col("l", listOf(mandatory(blobCol("q", minimalType))))}, nil)); err == nil {
		t.Error("LEG-8: a struct is taken for files of 2.1")
	}
	if _, err := got.Accepts(arrow.NewSchema([]arrow.Field{blobCol("b", minimalType), col("l", listOf(col("q", tBin)))}, nil)); err != nil {
		t.Error(err)
	}
}
