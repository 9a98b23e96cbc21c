package validate

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/flightblob/flightblob/internal/fault"
)

func buf[T any](values ...T) *memory.Buffer {
	var b bytes.Buffer
	if err := binary.Write(&b, binary.LittleEndian, values); err != nil {
		panic(err)
	}
	return memory.NewBufferBytes(b.Bytes())
}

func text(s string) *memory.Buffer { return memory.NewBufferBytes([]byte(s)) }

type bufs = []*memory.Buffer

func data(t arrow.DataType, n, offset, nulls int, buffers bufs, children ...arrow.ArrayData) arrow.ArrayData {
	return array.NewData(t, n, buffers, children, nulls, offset)
}

var (
	int32s  = arrow.PrimitiveTypes.Int32
	utf8s   = arrow.BinaryTypes.String
	larges  = arrow.BinaryTypes.LargeBinary
	listing = arrow.ListOf(int32s)
)

func numbers(n int) arrow.ArrayData {
	return data(int32s, n, 0, 0, bufs{nil, buf(make([]int32, n)...)})
}

// texts is three texts of which the middle one is not UTF-8.
func texts(nulls int, valid *memory.Buffer) arrow.ArrayData {
	return data(utf8s, 3, 0, nulls, bufs{valid, buf[int32](0, 1, 2, 3), text("a\xffb")})
}

func TestArray(t *testing.T) {
	t.Parallel()
	pair := arrow.StructOf(arrow.Field{Name: "s", Type: utf8s})
	dictionary := func(indices *memory.Buffer, valid *memory.Buffer, nulls int) arrow.ArrayData {
		d := array.NewDataWithDictionary(&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: utf8s}, 2,
			bufs{valid, indices}, nulls, 0, data(utf8s, 2, 0, 0, bufs{nil, buf[int32](0, 1, 2), text("ab")}).(*array.Data))
		return d
	}
	view := func(n, number, from int32, prefix string) *memory.Buffer {
		return memory.NewBufferBytes(append(append(buf(n).Bytes(), prefix...), buf(number, from).Bytes()...))
	}
	long := text("0123456789abcdef")
	mapping := arrow.MapOf(utf8s, int32s)
	entries := func(keys arrow.ArrayData) arrow.ArrayData {
		return data(mapping.Elem(), 3, 0, 0, bufs{nil}, keys, numbers(3))
	}
	tests := map[string]struct {
		data arrow.ArrayData
		want string // "" for sound
	}{
		"numbers":                     {numbers(3), ""},
		"an empty array":              {data(utf8s, 0, 0, 0, bufs{nil, nil, nil}), ""},
		"a slice":                     {data(int32s, 2, 3, 0, bufs{nil, buf[int32](1, 2, 3, 4, 5)}), ""},
		"too few numbers":             {data(int32s, 2, 4, 0, bufs{nil, buf[int32](1, 2, 3, 4, 5)}), "has 20 bytes for 6 values"},
		"too few bits":                {data(arrow.FixedWidthTypes.Boolean, 9, 0, 0, bufs{nil, buf[uint8](1)}), "has 1 bytes for 9 values"},
		"a short bitmap":              {data(int32s, 9, 0, 1, bufs{buf[uint8](0xfe), buf(make([]int32, 9)...)}), "validity bitmap of 1 bytes for 9 values"},
		"nulls without a bitmap":      {data(int32s, 1, 0, 1, bufs{nil, buf[int32](1)}), "claims 1 nulls and has no validity"},
		"an empty bitmap":             {data(int32s, 1, 0, 0, bufs{memory.NewBufferBytes(nil), buf[int32](1)}), "empty validity bitmap"},
		"a wrong number of nulls":     {data(int32s, 2, 0, 0, bufs{buf[uint8](1), buf[int32](1, 2)}), "claims 0 nulls and has 1"},
		"an unknown number of nulls":  {data(int32s, 2, 0, -1, bufs{buf[uint8](1), buf[int32](1, 2)}), ""},
		"unknown nulls and no bitmap": {data(int32s, 2, 0, -1, bufs{nil, buf[int32](1, 2)}), "unknown number of nulls"},
		"nulls of a slice":            {data(int32s, 2, 1, 1, bufs{buf[uint8](0b011), buf[int32](1, 2, 3)}), ""},
		"falling offsets":             {data(larges, 2, 0, 0, bufs{nil, buf[int64](0, 3, 2), text("abc")}), "falling offsets: 3, then 2"},
		"a negative offset":           {data(larges, 1, 0, 0, bufs{nil, buf[int64](-1, 2), text("abc")}), "has the offset -1"},
		"an offset beyond the bytes":  {data(larges, 1, 0, 0, bufs{nil, buf[int64](0, 4), text("abc")}), "ends at offset 4 of 3"},
		"too few offsets":             {data(larges, 2, 0, 0, bufs{nil, buf[int64](0, 3), text("abc")}), "2 offsets for 2 values"},
		"offsets of a slice":          {data(larges, 1, 1, 0, bufs{nil, buf[int64](9, 2, 3), text("abc")}), ""},
		"list offsets beyond":         {data(listing, 1, 0, 0, bufs{nil, buf[int32](0, 4)}, numbers(3)), "ends at offset 4 of 3"},
		"a list of lists":             {data(arrow.ListOf(listing), 1, 0, 0, bufs{nil, buf[int32](0, 1)}, data(listing, 1, 0, 0, bufs{nil, buf[int32](0, 4)}, numbers(3))), "ends at offset 4 of 3"},
		"a large list":                {data(arrow.LargeListOf(int32s), 1, 0, 0, bufs{nil, buf[int64](1, 3)}, numbers(3)), ""},
		"a fixed list":                {data(arrow.FixedSizeListOf(2, int32s), 2, 0, 0, bufs{nil}, numbers(3)), "holds 3 values for 2 rows"},
		"a struct with a short child": {data(arrow.StructOf(arrow.Field{Name: "x", Type: int32s}), 3, 1, 0, bufs{nil}, numbers(3)), `child "x" of a struct holds 3 values for 4 rows`},
		"text":                        {data(utf8s, 2, 0, 0, bufs{nil, buf[int32](0, 2, 3), text("öa")}), ""},
		"text that is none":           {texts(0, nil), `value 1 of a text array is not UTF-8: "\xff"`},
		"text cut inside a character": {data(utf8s, 2, 0, 0, bufs{nil, buf[int32](0, 1, 2), text("ö")}), "value 0 of a text array"},
		"junk below a null":           {texts(1, buf[uint8](0b101)), ""},
		"junk below a null struct":    {data(pair, 3, 0, 1, bufs{buf[uint8](0b101)}, texts(0, nil)), ""},
		"junk in a struct":            {data(pair, 3, 0, 1, bufs{buf[uint8](0b110)}, texts(0, nil)), "value 1 of a text array"},
		"junk before a slice":         {data(pair, 1, 2, 0, bufs{nil}, texts(0, nil)), ""},
		"junk below a null list":      {data(arrow.ListOf(utf8s), 3, 0, 1, bufs{buf[uint8](0b101), buf[int32](0, 1, 2, 3)}, texts(0, nil)), ""},
		"junk outside of lists":       {data(arrow.ListOf(utf8s), 1, 0, 0, bufs{nil, buf[int32](2, 3)}, texts(0, nil)), ""},
		"junk in a list":              {data(arrow.ListOf(utf8s), 2, 0, 1, bufs{buf[uint8](0b10), buf[int32](1, 1, 3)}, texts(0, nil)), "value 1 of a text array"},
		"junk in a null fixed list":   {data(arrow.FixedSizeListOf(3, utf8s), 1, 0, 1, bufs{buf[uint8](0)}, texts(0, nil)), ""},
		"a dictionary":                {dictionary(buf[int8](0, 1), nil, 0), ""},
		"an index beyond":             {dictionary(buf[int8](0, 2), nil, 0), "dictionary of 2 values is asked for number 2"},
		"a negative index":            {dictionary(buf[int8](-1, 0), nil, 0), "asked for number -1"},
		"a null index":                {dictionary(buf[int8](-1, 0), buf[uint8](0b10), 1), ""},
		"a view":                      {data(arrow.BinaryTypes.StringView, 1, 0, 0, bufs{nil, view(16, 0, 0, "0123"), long}), ""},
		"a view in place":             {data(arrow.BinaryTypes.StringView, 1, 0, 0, bufs{nil, view(8, 0, 0, "0123")}), ""},
		"a view beyond":               {data(arrow.BinaryTypes.BinaryView, 1, 0, 0, bufs{nil, view(16, 0, 1, "0123"), long}), "outside its buffers: 16 bytes at 1 of buffer 0"},
		"a view of no buffer":         {data(arrow.BinaryTypes.BinaryView, 1, 0, 0, bufs{nil, view(16, 1, 0, "0123"), long}), "of buffer 1"},
		"a view with another start":   {data(arrow.BinaryTypes.BinaryView, 1, 0, 0, bufs{nil, view(16, 0, 0, "1123"), long}), "does not start as its view says"},
		"a negative view":             {data(arrow.BinaryTypes.BinaryView, 1, 0, 0, bufs{nil, view(-1, 0, 0, "1123"), long}), "has -1 bytes"},
		"a map":                       {data(mapping, 1, 0, 0, bufs{nil, buf[int32](0, 3)}, entries(texts(1, buf[uint8](0b101)))), "null entry or key"},
		"a map of hidden keys":        {data(mapping, 1, 0, 0, bufs{nil, buf[int32](2, 3)}, entries(texts(1, buf[uint8](0b101)))), ""},
		"a union":                     {data(arrow.SparseUnionOf(nil, nil), 0, 0, 0, bufs{nil}), "are not taken"},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := check(c.data, c.data.DataType(), nil, 0)
			if c.want == "" && err != nil || c.want != "" && (err == nil || fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// FuzzArray damages the buffers of sound arrays: what passes can be looked at
// value by value. Streams themselves are not fuzzed, since the reader of Arrow
// for Go allocates what a damaged schema asks for.
func FuzzArray(f *testing.F) {
	fields := []arrow.Field{
		{Name: "s", Type: utf8s, Nullable: true},
		{Name: "v", Type: arrow.BinaryTypes.StringView, Nullable: true},
		{Name: "l", Type: arrow.ListOf(arrow.LargeListOf(utf8s)), Nullable: true},
		{Name: "m", Type: arrow.MapOf(utf8s, int32s), Nullable: true},
		{Name: "d", Type: &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.Binary}, Nullable: true},
		{Name: "f", Type: arrow.FixedSizeListOf(2, arrow.StructOf(arrow.Field{Name: "b", Type: arrow.FixedWidthTypes.Boolean, Nullable: true})), Nullable: true},
	}
	const rows = `[{"s":"aö","v":"0123456789abcdef","l":[["x",null],null],"m":[{"key":"k","value":1}],"d":"YQ==","f":[{"b":true},{"b":null}]},` +
		`{"s":null,"v":null,"l":null,"m":null,"d":null,"f":null},{"s":"b","v":"short","l":[],"m":[],"d":"YWI=","f":[{"b":false},null]}]`
	rec, _, err := array.RecordFromJSON(memory.DefaultAllocator, arrow.NewSchema(fields, nil), strings.NewReader(rows))
	if err != nil {
		f.Fatal(err)
	}
	for i := range fields {
		f.Add(uint8(i), []byte{})
		f.Add(uint8(i), []byte{1, 0, 4, 9, 0, 0, 0, 2})
	}
	f.Fuzz(func(t *testing.T, column uint8, damage []byte) {
		whole := rec.Column(int(column) % len(fields)).Data()
		a := build(damaged(whole, &damage))
		if a == nil || Array(a) != nil {
			return
		}
		for i := range min(a.Len(), 1000) {
			if a.IsValid(i) {
				_ = a.ValueStr(i)
			}
		}
	})
}

// build makes an array unless Arrow for Go refuses it itself.
func build(d arrow.ArrayData) (a arrow.Array) {
	defer func() {
		if recover() != nil {
			a = nil
		}
	}()
	return array.MakeFromData(d)
}

// damaged copies data; each buffer takes from damage how many changes it gets,
// and for each the place and the byte.
func damaged(d arrow.ArrayData, damage *[]byte) arrow.ArrayData {
	next := func() int {
		if len(*damage) == 0 {
			return 0
		}
		b := (*damage)[0]
		*damage = (*damage)[1:]
		return int(b)
	}
	var buffers bufs
	for _, b := range d.Buffers() {
		if b == nil {
			buffers = append(buffers, nil)
			continue
		}
		data := bytes.Clone(b.Bytes())
		for range next() % 4 {
			if at := next(); at < len(data) {
				data[at] = byte(next())
			}
		}
		buffers = append(buffers, memory.NewBufferBytes(data[:max(0, len(data)-next()%8)]))
	}
	var children []arrow.ArrayData
	for _, c := range d.Children() {
		children = append(children, damaged(c, damage))
	}
	n, offset := max(0, d.Len()-next()%3), next()%3
	if dictionary := d.Dictionary(); dictionary != nil && d.DataType().ID() == arrow.DICTIONARY {
		return array.NewDataWithDictionary(d.DataType(), n, buffers, -1, offset, damaged(dictionary, damage).(*array.Data))
	}
	return array.NewData(d.DataType(), n, buffers, children, -1, offset)
}
