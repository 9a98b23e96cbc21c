package encoding_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/flightblob/flightblob/encoding"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/internal/lancepb"
)

// form names how values are stored, from the outside in.
func form(ce *lancepb.CompressiveEncoding) string {
	switch c := ce.GetCompression().(type) {
	case nil:
		return ""
	case *lancepb.CompressiveEncoding_Flat:
		return fmt.Sprintf("flat%d", c.Flat.GetBitsPerValue())
	case *lancepb.CompressiveEncoding_InlineBitpacking:
		return fmt.Sprintf("packed%d", c.InlineBitpacking.GetUncompressedBitsPerValue())
	case *lancepb.CompressiveEncoding_OutOfLineBitpacking:
		return fmt.Sprintf("packed%d to %d", c.OutOfLineBitpacking.GetUncompressedBitsPerValue(), c.OutOfLineBitpacking.GetValues().GetFlat().GetBitsPerValue())
	case *lancepb.CompressiveEncoding_Rle:
		return "runs " + form(c.Rle.GetValues())
	case *lancepb.CompressiveEncoding_ByteStreamSplit:
		return "planes " + form(c.ByteStreamSplit.GetValues())
	case *lancepb.CompressiveEncoding_Variable:
		return "text " + form(c.Variable.GetOffsets())
	case *lancepb.CompressiveEncoding_Fsst:
		return "symbols " + form(c.Fsst.GetValues())
	case *lancepb.CompressiveEncoding_General:
		level := ""
		if l := c.General.GetCompression().Level; l != nil {
			level = fmt.Sprint(" ", *l)
		}
		return strings.ToLower(c.General.GetCompression().GetScheme().String()) + level + " " + form(c.General.GetValues())
	case *lancepb.CompressiveEncoding_FixedSizeList:
		valid := ""
		if c.FixedSizeList.GetHasValidity() {
			valid = " with nulls"
		}
		return fmt.Sprintf("lists of %d%s %s", c.FixedSizeList.GetItemsPerValue(), valid, form(c.FixedSizeList.GetValues()))
	case *lancepb.CompressiveEncoding_PackedStruct:
		return fmt.Sprintf("rows %v", c.PackedStruct.GetBitsPerValue())
	case *lancepb.CompressiveEncoding_VariablePackedStruct:
		var parts []string
		for _, f := range c.VariablePackedStruct.GetFields() {
			parts = append(parts, form(f.GetValue()))
		}
		return "rows [" + strings.Join(parts, ", ") + "]"
	}
	return fmt.Sprintf("%T", ce.GetCompression())
}

// pageForms names the layouts of all pages of the first leaf of a 2.2 column.
func (w *written) pageForms(t *testing.T) string {
	t.Helper()
	var out []string
	for leaf := range w.field.Leaves() {
		for _, p := range w.pages[leaf] {
			var l lancepb.PageLayout
			if err := proto.Unmarshal(p.Layout, &l); err != nil {
				t.Fatal(err)
			}
			switch l := l.GetLayout().(type) {
			case *lancepb.PageLayout_MiniBlock:
				m := l.MiniBlock
				text := "chunks: " + form(m.GetValueCompression())
				if m.GetDictionary() != nil {
					text += ", dictionary: " + form(m.GetDictionary())
				}
				if m.GetRepCompression() != nil {
					text += ", rep: " + form(m.GetRepCompression())
				}
				if m.GetDefCompression() != nil {
					text += ", def: " + form(m.GetDefCompression())
				}
				out = append(out, text)
			case *lancepb.PageLayout_FullZip:
				out = append(out, "zipped: "+form(l.FullZip.GetValueCompression()))
			case *lancepb.PageLayout_Constant:
				text := "constant"
				if len(p.Buffers) > 0 {
					text += fmt.Sprintf(" with %d buffers", len(p.Buffers))
				}
				out = append(out, text)
			}
		}
		break
	}
	return strings.Join(out, "; ")
}

func ints(n int, of func(i int) int64) arrow.Array {
	b := array.NewInt64Builder(memory.DefaultAllocator)
	for i := range n {
		b.Append(of(i))
	}
	return b.NewArray()
}

func floats(n int, of func(i int) float64) arrow.Array {
	b := array.NewFloat64Builder(memory.DefaultAllocator)
	for i := range n {
		b.Append(of(i))
	}
	return b.NewArray()
}

func texts(n int, of func(i int) string) arrow.Array {
	b := array.NewStringBuilder(memory.DefaultAllocator)
	for i := range n {
		if s := of(i); s == "null" {
			b.AppendNull()
		} else {
			b.Append(s)
		}
	}
	return b.NewArray()
}

// TestForms: which form values take, by what they are and by the settings of
// their column.
func TestForms(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	word := func(int) string { return []string{"north", "north-east", "east", "south-east"}[rng.IntN(4)] }
	name := func(i int) string { return fmt.Sprintf("north of station %02d", i*i%60) }
	sentence := func(int) string {
		var b strings.Builder
		for range 6 + rng.IntN(6) {
			b.WriteString([]string{"river ", "mountain ", "valley ", "lake ", "forest ", "meadow "}[rng.IntN(6)])
		}
		return fmt.Sprint(b.String(), rng.IntN(1000))
	}
	hex := func(int) string { return fmt.Sprintf("%016x", rng.Uint64()) }
	wave := floats(9000, func(i int) float64 { return 20 + float64(i)/1e5 })
	noise := ints(9000, func(int) int64 { return int64(rng.Uint64()) })
	small := ints(9000, func(int) int64 { return rng.Int64N(200) })
	few := ints(9000, func(i int) int64 { return int64(i*i%5) << 55 })
	runs := ints(9000, func(i int) int64 { return int64(i/300) << 33 })
	same := ints(9000, func(int) int64 { return 7 })
	words, sentences, hexes := texts(9000, word), texts(9000, sentence), texts(9000, hex)
	wide := texts(500, func(i int) string { return sentence(i) + sentence(i) + sentence(i) + sentence(i) })
	huge := texts(20, func(i int) string { return strings.Repeat(sentence(i), 900) })
	set := func(kv ...string) map[string]string {
		m := map[string]string{}
		for i := 0; i < len(kv); i += 2 {
			m["lance-encoding:"+kv[i]] = kv[i+1]
		}
		return m
	}
	for _, c := range []struct {
		name     string
		values   arrow.Array
		settings map[string]string
		want     string
	}{
		{"noise", noise, nil, "chunks: flat64"},
		{"small numbers", small, nil, "chunks: packed64"},
		{"few wide numbers", few, nil, "chunks: packed32, dictionary: flat64"},
		{"runs", runs, nil, "chunks: runs flat64"},
		{"one number", same, nil, "constant"},
		{"one number, none", same, set("compression", "none"), "constant"},
		{"small numbers, none", small, set("compression", "none"), "chunks: flat32, dictionary: lz4 flat64"},
		{"runs, none", runs, set("compression", "none"), "chunks: flat32, dictionary: lz4 flat64"},
		{"runs, few allowed", runs, set("rle-threshold", "0.001", "dict-divisor", "9000"), "chunks: packed64"},
		{"few wide numbers, no dictionary", few, set("dict-divisor", "1e9"), "chunks: runs flat64"},
		{"few wide numbers, poor dictionary", few, set("dict-size-ratio", "0.001"), "chunks: runs flat64"},
		{"few wide numbers, plain dictionary", few, set("dict-values-compression", "none"), "chunks: packed32, dictionary: flat64"},
		{"few wide numbers, zstd dictionary", few, set("dict-values-compression", "zstd", "dict-values-compression-level", "9"), "chunks: packed32, dictionary: flat64"},
		{"a wave", wave, nil, "chunks: flat64"},
		{"a wave, zstd", wave, set("compression", "zstd"), "chunks: zstd planes flat64"},
		{"a wave, zstd 9, split", wave, set("compression", "zstd", "compression-level", "9", "bss", "on"), "chunks: zstd 9 planes flat64"},
		{"noise, zstd", noise, set("compression", "zstd"), "chunks: flat64"},
		{"noise, lz4, split", noise, set("compression", "lz4", "bss", "on"), "chunks: lz4 planes flat64"},
		{"numbers one by one", small, set("structural-encoding", "fullzip"), "zipped: flat64"},
		{"words", words, nil, "chunks: packed32, dictionary: text flat32"},
		{"names", texts(9000, name), nil, "chunks: packed32, dictionary: lz4 text flat32"},
		{"names, zstd dictionary", texts(9000, name), set("dict-values-compression", "zstd"), "chunks: packed32, dictionary: zstd text flat32"},
		{"words, none", words, set("compression", "none"), "chunks: flat32, dictionary: text flat32"},
		{"words, no dictionary", words, set("dict-max-size", "0"), "chunks: symbols text flat32"},
		{"sentences", sentences, nil, "chunks: symbols text flat32"},
		{"sentences, none", sentences, set("compression", "none"), "chunks: text flat32"},
		{"sentences, zstd", sentences, set("compression", "zstd"), "chunks: zstd text flat32"},
		{"sentences, lz4", sentences, set("compression", "lz4"), "chunks: lz4 text flat32"},
		{"sentences one by one", sentences, set("structural-encoding", "fullzip"), "zipped: symbols text flat32"},
		{"hexadecimal digits", hexes, nil, "chunks: symbols text flat32"},
		{"few sentences", array.NewSlice(sentences, 0, 20), nil, "chunks: text flat32"},
		{"few sentences, fsst", array.NewSlice(sentences, 0, 20), set("compression", "fsst"), "chunks: symbols text flat32"},
		{"wide text", wide, nil, "zipped: symbols text flat32"},
		{"wide text in chunks", wide, set("structural-encoding", "miniblock"), "chunks: symbols text flat32"},
		{"wide text, none", wide, set("compression", "none"), "zipped: text flat32"},
		{"wide text, lz4 becomes zstd", wide, set("compression", "lz4"), "zipped: zstd text flat32"},
		{"huge text", huge, nil, "zipped: zstd text flat32"},
		{"words and nulls", texts(9000, func(i int) string { return map[bool]string{true: "null", false: word(i)}[rng.IntN(3) == 0] }), nil, "chunks: packed32, dictionary: text flat32, def: packed16 to 1"},
		{"nulls first", texts(9000, func(i int) string { return map[bool]string{true: "null", false: word(i)}[i < 5000] }), nil, "chunks: packed32, dictionary: text flat32, def: runs flat16"},
		{"nulls", texts(9000, func(int) string { return "null" }), nil, "constant"},
		{"one text", texts(9000, func(int) string { return "north" }), nil, "constant with 1 buffers"},
	} {
		field := arrow.Field{Name: "c", Type: c.values.DataType(), Nullable: true, Metadata: arrow.MetadataFrom(c.settings)}
		w := check(t, c.name, encoding.V2_2, fieldOf(t, field), encoding.EncoderOptions{}, rng, c.values)
		if got := w.pageForms(t); got != c.want {
			t.Errorf("%s: %s; want %s", c.name, got, c.want)
		}
	}
}

// TestWrongSettings: settings that nothing can follow are refused by name,
// numbers that cannot be read count as absent.
func TestWrongSettings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		key, value, text string
	}{
		{"compression", "gzip", "none, lz4, zstd and fsst"},
		{"dict-values-compression", "fsst", "none, lz4 and zstd"},
		{"structural-encoding", "sparse", "needs files of format 2.3"},
		{"structural-encoding", "columns", ""},
		{"compression-level", "high", ""},
		{"rle-threshold", "-1", ""},
		{"minichunk-size", "x", ""},
		{"bss", "maybe", ""},
	} {
		field := arrow.Field{Name: "c", Type: arrow.BinaryTypes.String, Nullable: true, Metadata: arrow.MetadataFrom(map[string]string{"lance-encoding:" + c.key: c.value})}
		_, err := encoding.NewEncoder(encoding.V2_2, fieldOf(t, field).Path(), encoding.EncoderOptions{})
		switch {
		case c.text == "" && err != nil:
			t.Errorf("%s=%s: %v", c.key, c.value, err)
		case c.text != "" && (fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), c.text) || !strings.Contains(err.Error(), "column c")):
			t.Errorf("%s=%s: %v", c.key, c.value, err)
		}
	}
}
