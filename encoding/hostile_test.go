package encoding

import (
	"context"
	"encoding/binary"
	"runtime"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"google.golang.org/protobuf/proto"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/internal/lancepb"
	"github.com/flightblob/flightblob/schema"
)

type ce = lancepb.CompressiveEncoding

func flatCE(bits uint64) *ce {
	return &ce{Compression: &lancepb.CompressiveEncoding_Flat{Flat: &lancepb.Flat{BitsPerValue: bits}}}
}

func constantCE(value ...byte) *ce {
	return &ce{Compression: &lancepb.CompressiveEncoding_Constant{Constant: &lancepb.Constant{Value: value}}}
}

func rangeCE(bits, start, step uint64) *ce {
	return &ce{Compression: &lancepb.CompressiveEncoding_Range{Range: &lancepb.RangeSequence{UncompressedBitsPerValue: bits, Start: start, Step: step}}}
}

func deltaCE(bits, base uint64, deltas *ce) *ce {
	return &ce{Compression: &lancepb.CompressiveEncoding_Delta{Delta: &lancepb.Delta{UncompressedBitsPerValue: bits, Base: base, Deltas: deltas}}}
}

func rleCE(values, lengths *ce) *ce {
	return &ce{Compression: &lancepb.CompressiveEncoding_Rle{Rle: &lancepb.Rle{Values: values, RunLengths: lengths}}}
}

func dictionaryCE(indices, items *ce, n uint32) *ce {
	return &ce{Compression: &lancepb.CompressiveEncoding_Dictionary{Dictionary: &lancepb.Dictionary{Indices: indices, Items: items, NumDictionaryItems: n}}}
}

func outOfLineCE(bits, width uint64) *ce {
	return &ce{Compression: &lancepb.CompressiveEncoding_OutOfLineBitpacking{OutOfLineBitpacking: &lancepb.OutOfLineBitpacking{UncompressedBitsPerValue: bits, Values: flatCE(width)}}}
}

// miniPage describes a page of one chunk without levels.
func miniPage(value *ce, items uint64) *lancepb.MiniBlockLayout {
	return &lancepb.MiniBlockLayout{
		ValueCompression: value, Layers: []lancepb.RepDefLayer{lancepb.RepDefLayer_ALL_VALID_ITEM},
		NumBuffers: 1, NumItems: items, HasLargeChunk: true,
	}
}

func miniLayout(m *lancepb.MiniBlockLayout) *lancepb.PageLayout {
	return &lancepb.PageLayout{Layout: &lancepb.PageLayout_MiniBlock{MiniBlock: m}}
}

// oneChunk makes chunk words and data of a single chunk without levels.
func oneChunk(bufs ...[]byte) (words, data []byte) {
	data = make([]byte, 2)
	for _, b := range bufs {
		data = binary.LittleEndian.AppendUint32(data, uint32(len(b)))
	}
	for _, b := range append([][]byte{nil}, bufs...) {
		data = append(data, b...)
		data = append(data, make([]byte, pad8(len(data))-len(data))...)
	}
	return binary.LittleEndian.AppendUint32(nil, uint32(len(data)/8-1)<<4), data
}

func leafPath(t testing.TB, records []schema.Record) []*schema.Field {
	t.Helper()
	s, err := schema.FromRecords(records, nil)
	if err != nil {
		t.Fatal(err)
	}
	for leaf := range s.Leaves() {
		return leaf.Path()
	}
	t.Fatal("no leaf")
	return nil
}

// readPage reads rows of a hand-made page.
func readPage(t testing.TB, v Version, records []schema.Record, rows uint64, layout proto.Message, sel Range, bufs ...[]byte) (*Leaf, error) {
	t.Helper()
	desc, err := proto.Marshal(layout)
	if err != nil {
		t.Fatal(err)
	}
	var file []byte
	page := Page{Rows: rows, Layout: desc}
	for _, b := range bufs {
		page.Buffers = append(page.Buffers, Extent{uint64(len(file)), uint64(len(b))})
		file = append(file, b...)
	}
	c, err := NewColumn(v, leafPath(t, records), []Page{page}, nil)
	if err != nil {
		return nil, err
	}
	return c.Read(t.Context(), func(_ context.Context, extents []Extent) ([][]byte, func(), error) {
		out := make([][]byte, len(extents))
		for i, e := range extents {
			out[i] = file[e.Offset : e.Offset+e.Size]
		}
		return out, func() {}, nil
	}, []Range{sel})
}

func sparsePage(values *lancepb.ValuePlane, layers ...*lancepb.SparseLayer) *lancepb.PlanarLayout {
	return &lancepb.PlanarLayout{
		Structure: &lancepb.StructuralPlane{Structure: &lancepb.StructuralPlane_Sparse{Sparse: &lancepb.SparseStructure{Layers: layers}}},
		Values:    values,
	}
}

func validitySet(positions *ce, n uint64) *lancepb.ValiditySet {
	return &lancepb.ValiditySet{Meaning: lancepb.ValiditySet_NULL_POSITIONS, Positions: positions, NumPositions: n}
}

func validityLayer(positions *ce, n uint64) *lancepb.SparseLayer {
	return &lancepb.SparseLayer{Layer: &lancepb.SparseLayer_Validity{Validity: validitySet(positions, n)}}
}

var noValues = &lancepb.ValuePlane{Plane: &lancepb.ValuePlane_None{None: &lancepb.NoValues{}}}

// TestOddIndexWidths: page dictionaries have indices of whole words.
func TestOddIndexWidths(t *testing.T) {
	t.Parallel()
	for _, bits := range []uint64{24, 40, 48, 56, 128} {
		m := miniPage(flatCE(bits), 2)
		m.Dictionary, m.NumDictionaryItems = flatCE(32), 1
		words, data := oneChunk(make([]byte, 2*bits/8))
		_, err := readPage(t, V2_2, oneField("int32"), 2, miniLayout(m), Range{0, 2}, words, data, make([]byte, 4))
		if fault.KindOf(err) != fault.Corrupt {
			t.Errorf("indices of %d bits: %v", bits, err)
		}
	}
}

// TestFewBytesAskForMuch: pages of some hundred bytes that claim many millions
// of values are refused before memory is taken for them.
func TestFewBytesAskForMuch(t *testing.T) {
	words, data := oneChunk([]byte{1, 0, 0, 0, 0, 0, 0, 0}, []byte{255, 255, 255, 255})
	runs := miniPage(rleCE(flatCE(64), flatCE(32)), 1<<27)
	runs.NumBuffers = 2
	empty := constantCE()
	list := &lancepb.SparseLayer{Layer: &lancepb.SparseLayer_List{List: &lancepb.SparseList{
		NonEmptyPositions: empty, Counts: empty, Validity: validitySet(empty, 0),
	}}}
	one := []byte{1, 0, 0, 0, 0, 0, 0, 0}
	for _, c := range []struct {
		name    string
		version Version
		records []schema.Record
		rows    uint64
		layout  proto.Message
		bufs    [][]byte
	}{
		{"runs of a chunk", V2_2, oneField("int64"), 1 << 27, miniLayout(runs), [][]byte{words, data}},
		{"empty lists", V2_3, listOf("int8"), 1<<31 - 1, sparsePage(noValues, list, validityLayer(empty, 0)), nil},
		{"positions of a range", V2_3, oneField("int8"), 1 << 27, sparsePage(noValues, validityLayer(rangeCE(64, 0, 1), 1<<27)), nil},
		{"positions by differences", V2_3, oneField("int8"), 1 << 27, sparsePage(noValues, validityLayer(deltaCE(64, 0, constantCE(one...)), 1<<27)), nil},
		{"nested differences", V2_3, oneField("int8"), 1 << 24, sparsePage(noValues, validityLayer(deltaCE(64, 0, deltaCE(64, 0, constantCE(one...))), 1<<24)), nil},
		{"nested dictionaries", V2_3, oneField("int8"), 1 << 24, sparsePage(noValues, validityLayer(
			dictionaryCE(rangeCE(32, 0, 1), dictionaryCE(rangeCE(32, 0, 1), rangeCE(64, 0, 1), 1<<24), 1<<24), 1<<24)), nil},
		{"items of a dictionary", V2_3, oneField("int8"), 9, sparsePage(noValues, validityLayer(
			dictionaryCE(rangeCE(32, 0, 1), rangeCE(64, 0, 1), 1<<32-1), 9)), nil},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := readPage(t, c.version, c.records, c.rows, c.layout, Range{0, 1}, c.bufs...)
		runtime.ReadMemStats(&after)
		if k := fault.KindOf(err); err == nil || k != fault.Corrupt && k != fault.Unsupported {
			t.Errorf("%s: %v", c.name, err)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > 256<<20 {
			t.Errorf("%s: took %d MiB", c.name, took>>20)
		}
	}
}

// TestAbsentWideColumns: a column that no file holds is null, but not at any
// price.
func TestAbsentWideColumns(t *testing.T) {
	t.Parallel()
	for _, logical := range []string{"fixed_size_binary:2147483647", "fixed_size_list:double:2147483647", "fixed_size_list:fixed_size_binary:2147483647:3"} {
		f := leafPath(t, oneField(logical))[0]
		if _, err := Assemble(f, func(*schema.Field) *Leaf { return nil }, 8192); fault.KindOf(err) != fault.Exhausted {
			t.Errorf("%s: %v", logical, err)
		}
	}
	f := leafPath(t, oneField("fixed_size_list:float:768"))[0]
	a, err := Assemble(f, func(*schema.Field) *Leaf { return nil }, 1024)
	if err != nil || a.Len() != 1024 || a.NullN() != 1024 || a.DataType().ID() != arrow.FIXED_SIZE_LIST {
		t.Errorf("ordinary vectors: %v, %v", a, err)
	}
}
