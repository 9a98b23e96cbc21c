package encoding

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"google.golang.org/protobuf/proto"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/internal/lancepb"
	"github.com/flightblob/flightblob/schema"
)

// file20 is a 2.0 data file opened the way tests need it: by its own schema.
type file20 struct {
	data   []byte
	schema *schema.Schema
	file   *File20

	calls int    // rounds of requests
	bytes uint64 // bytes asked for
}

// openFile20 reads a container. It trusts its input: the container is not what
// is tested here.
func openFile20(t testing.TB, path string) *file20 {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	u64 := func(at int) int { return int(binary.LittleEndian.Uint64(data[at:])) }
	foot := len(data) - 40
	globals, columns := u64(foot+16), u64(foot+8)
	f := &file20{data: data, file: &File20{ByField: map[schema.FieldID]int{}}}
	desc := new(lancepb.FileDescriptor)
	parse(t, data[u64(globals):][:u64(globals+8)], desc)
	var records []schema.Record
	for _, p := range desc.GetSchema().GetFields() {
		r := schema.Record{ID: schema.FieldID(p.GetId()), ParentID: schema.FieldID(p.GetParentId()), Name: p.GetName(), LogicalType: p.GetLogicalType(), Nullable: p.GetNullable(), Extension: p.GetExtensionName(), Metadata: map[string]string{}}
		for k, v := range p.GetMetadata() {
			r.Metadata[k] = string(v)
		}
		records = append(records, r)
	}
	if f.schema, err = schema.FromRecords(records, nil); err != nil {
		t.Fatal(err)
	}
	for i := range int(binary.LittleEndian.Uint32(data[foot+28:])) {
		m := new(lancepb.ColumnMetadata)
		parse(t, data[u64(columns+16*i):][:u64(columns+16*i+8)], m)
		c := Column20{Encoding: described(t, m.GetEncoding()), Buffers: extents20(m.GetBufferOffsets(), m.GetBufferSizes())}
		for _, p := range m.GetPages() {
			c.Pages = append(c.Pages, Page{Rows: p.GetLength(), Buffers: extents20(p.GetBufferOffsets(), p.GetBufferSizes()), Layout: described(t, p.GetEncoding())})
		}
		f.file.Columns = append(f.file.Columns, c)
	}
	next := 0
	for _, top := range f.schema.Fields {
		f.number(t, top, &next)
	}
	if next != len(f.file.Columns) {
		t.Fatalf("%s: the schema asks for %d columns, the file has %d", path, next, len(f.file.Columns))
	}
	return f
}

func parse(t testing.TB, raw []byte, m proto.Message) {
	t.Helper()
	if err := proto.Unmarshal(raw, m); err != nil {
		t.Fatal(err)
	}
}

func described(t testing.TB, e *lancepb.PayloadEncoding) []byte {
	t.Helper()
	a := new(lancepb.AnyValue)
	parse(t, e.GetDirect().GetEncoding(), a)
	return a.GetValue()
}

func extents20(offsets, sizes []uint64) []Extent {
	out := make([]Extent, len(offsets))
	for i := range out {
		out[i] = Extent{offsets[i], sizes[i]}
	}
	return out
}

// number gives columns to fields as section 3 of the sheet does.
func (f *file20) number(t testing.TB, field *schema.Field, next *int) {
	t.Helper()
	f.file.ByField[field.ID] = *next
	pages, err := newPages20(&f.file.Columns[*next])
	if err != nil {
		t.Fatal(err)
	}
	*next++
	first := pages.first()
	if len(field.Children) == 0 {
		if first.GetList() != nil {
			*next++ // strings as lists of bytes
		}
		return
	}
	if first.GetPackedStruct() != nil || first.GetNullable() != nil || first.GetFixedSizeList() != nil {
		return
	}
	for _, c := range field.Children {
		f.number(t, c, next)
	}
}

func (f *file20) fetch(_ context.Context, extents []Extent) ([][]byte, func(), error) {
	f.calls++
	out := make([][]byte, len(extents))
	for i, e := range extents {
		if e.Offset+e.Size > uint64(len(f.data)) || e.Size == 0 {
			return nil, nil, fault.Corruptf(int64(e.Offset), "extent of %d bytes", e.Size)
		}
		out[i] = append([]byte(nil), f.data[e.Offset:e.Offset+e.Size]...)
		f.bytes += e.Size
	}
	return out, func() {}, nil
}

// leaves visits all fields that Reader20 can read, with their paths.
func (f *file20) leaves(visit func(path []*schema.Field)) {
	var walk func(f *schema.Field)
	walk = func(f *schema.Field) {
		if f.Shape == schema.Leaf {
			visit(f.Path())
			return
		}
		for _, c := range f.Children {
			walk(c)
		}
	}
	for _, top := range f.schema.Fields {
		walk(top)
	}
}

func readArrow(t testing.TB, path string) arrow.RecordBatch {
	t.Helper()
	in, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	r, err := ipc.NewReader(in)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Next() {
		t.Fatalf("%s: no batch (%v)", path, r.Err())
	}
	batch := r.RecordBatch()
	batch.Retain()
	return batch
}

// anything is expected of a value below a null fixed-size list.
const anything = "anything"

// expectLeaf shreds rows of an Arrow column into what a reader must answer:
// layers, and the printed value of each leaf slot.
func expectLeaf(column arrow.Array, path []*schema.Field, rows []Range) ([]Layer, []string) {
	var slots []int // slot numbers in column; unseen below a null fixed-size list
	const unseen = -1
	for _, r := range rows {
		for i := r.Start; i < r.End; i++ {
			slots = append(slots, int(i))
		}
	}
	var layers []Layer
	for depth, f := range path {
		l := Layer{Kind: ItemLayer, Slots: len(slots)}
		isList := f.Shape == schema.List || f.Shape == schema.LargeList
		isFixed := f.Shape == schema.FixedSizeList
		var below []int
		switch {
		case isList:
			l.Kind, l.Offsets = ListLayer, []int64{0}
		case isFixed:
			l.Kind, l.Dimension = FixedListLayer, f.Dimension
		}
		valid := make([]byte, (len(slots)+7)/8)
		for i, s := range slots {
			ok := s == unseen || column.IsValid(s) && column.DataType().ID() != arrow.NULL
			if ok {
				setBit(valid, i)
				if isList {
					from, to := column.(array.ListLike).ValueOffsets(s)
					for k := from; k < to; k++ {
						below = append(below, int(k))
					}
				}
			} else {
				l.Nulls++
			}
			if isList {
				l.Offsets = append(l.Offsets, int64(len(below)))
			}
			for k := range l.Dimension {
				if !ok || s == unseen {
					below = append(below, unseen)
				} else {
					below = append(below, s*l.Dimension+k)
				}
			}
		}
		if l.Nulls > 0 {
			l.Validity = valid
		}
		layers = append(layers, l)
		switch {
		case isList || isFixed:
			column, slots = column.(array.ListLike).ListValues(), below
		case depth < len(path)-1:
			number := childIndex(f, path[depth+1])
			column = column.(*array.Struct).Field(number)
		}
	}
	last := layers[len(layers)-1]
	text := make([]string, len(slots))
	for i, s := range slots {
		if s == unseen {
			text[i] = anything
			continue
		}
		if text[i] = "null"; last.Nulls == 0 || getBit(last.Validity, i) {
			text[i] = column.ValueStr(s)
		}
	}
	return layers, text
}

// printValue prints a value; for a descriptor the payload that it names.
func (f *file20) printValue(a arrow.Array, i int) string {
	s, ok := a.(*array.Struct)
	if !ok || !arrow.TypeEqual(a.DataType(), schema.DescriptorType) {
		return a.ValueStr(i)
	}
	if s.Field(0).(*array.Uint8).Value(i) != 0 || s.Field(3).(*array.Uint32).Value(i) != 0 || s.Field(4).(*array.String).Value(i) != "" {
		return "odd descriptor " + a.ValueStr(i)
	}
	position, size := s.Field(1).(*array.Uint64).Value(i), s.Field(2).(*array.Uint64).Value(i)
	return base64.StdEncoding.EncodeToString(f.data[position : position+size])
}

// checkLeaf reads rows of a leaf and compares with the expected column.
func checkLeaf(t testing.TB, f *file20, r *Reader20, path []*schema.Field, column arrow.Array, rows []Range) {
	t.Helper()
	leaf, err := r.Read(t.Context(), f.fetch, rows)
	if err != nil {
		t.Fatalf("%s %v: %v", r.name(), rows, err)
	}
	wantLayers, wantText := expectLeaf(column, path, rows)
	for i, want := range wantLayers {
		got := leaf.Layers[i]
		if got.Kind != want.Kind || got.Slots != want.Slots || got.Nulls != want.Nulls || got.Dimension != want.Dimension || fmt.Sprint(got.Offsets) != fmt.Sprint(want.Offsets) {
			t.Fatalf("%s %v: layer %d is %+v, want %+v", r.name(), rows, i, got, want)
		}
		for k := range got.Slots {
			if a, b := want.Nulls == 0 || getBit(want.Validity, k), got.Nulls == 0 || getBit(got.Validity, k); a != b {
				t.Fatalf("%s %v: layer %d slot %d valid %v, want %v", r.name(), rows, i, k, b, a)
			}
		}
	}
	last := leaf.Layers[len(leaf.Layers)-1]
	if len(leaf.Layers) != len(path) || leaf.Values.Len() != len(wantText) || leaf.Values.NullN() != last.Nulls {
		t.Fatalf("%s %v: %d layers, %d values, %d nulls, want %d, %d, %d", r.name(), rows, len(leaf.Layers), leaf.Values.Len(), leaf.Values.NullN(), len(path), len(wantText), last.Nulls)
	}
	if want := path[len(path)-1].Storage; !r.PlainBlob() && !arrow.TypeEqual(leaf.Values.DataType(), want) {
		t.Fatalf("%s: values of %s, want %s", r.name(), leaf.Values.DataType(), want)
	}
	for i, want := range wantText {
		if want == anything {
			continue
		}
		got := "null"
		if leaf.Values.IsValid(i) && leaf.Values.DataType().ID() != arrow.NULL {
			got = f.printValue(leaf.Values, i)
		}
		if got != want {
			t.Fatalf("%s %v: value %d is %q, want %q", r.name(), rows, i, got, want)
		}
	}
}

// randomRows is a selection of some ranges of n rows.
func randomRows(rng *rand.Rand, n int) []Range {
	var rows []Range
	for at := rng.IntN(5); at < n; at += 1 + rng.IntN(max(n/4, 2)) {
		to := min(at+rng.IntN(6), n)
		rows = append(rows, Range{uint64(at), uint64(to)})
		at = to
	}
	return rows
}

// checkFile20 compares every leaf of a file with the Arrow stream beside it.
func checkFile20(t *testing.T, path string) {
	f := openFile20(t, path)
	want := readArrow(t, strings.TrimSuffix(path, ".lance")+".arrow")
	rng := rand.New(rand.NewPCG(1, 2))
	n := int(want.NumRows())
	f.leaves(func(path []*schema.Field) {
		column := want.Column(childIndexOf(f.schema.Fields, path[0]))
		r, err := NewReader20(path, f.file)
		if err != nil {
			t.Fatal(err)
		}
		if r.Rows() != uint64(n) {
			t.Fatalf("%s: %d rows, want %d", r.name(), r.Rows(), n)
		}
		checkLeaf(t, f, r, path, column, []Range{{0, uint64(n)}})
		checkLeaf(t, f, r, path, column, nil)
		for range 8 {
			checkLeaf(t, f, r, path, column, randomRows(rng, n))
		}
	})
}

func childIndexOf(fields []*schema.Field, f *schema.Field) int {
	return childIndex(&schema.Field{Children: fields}, f)
}

func TestGoldens20(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/v20/*.lance")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files (%v)", err)
	}
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".lance"), func(t *testing.T) {
			t.Parallel()
			checkFile20(t, path)
		})
	}
}

func TestLegacyFixture20(t *testing.T) {
	t.Parallel()
	const dir = "../conformance/fixtures/tables/legacy_v20/"
	files, err := filepath.Glob(dir + "table.lance/data/*.lance")
	if err != nil || len(files) != 1 {
		t.Fatalf("%d data files (%v)", len(files), err)
	}
	raw, err := os.ReadFile(dir + "expected.json")
	if err != nil {
		t.Fatal(err)
	}
	type value struct {
		Len    int
		SHA256 string
	}
	var expected struct {
		Tables map[string]struct {
			Snapshots map[string]struct {
				Rows        []struct{ Img *value }
				Descriptors []struct {
					Img struct{ Position, Size uint64 }
				}
			}
		}
	}
	if err := json.Unmarshal(raw, &expected); err != nil {
		t.Fatal(err)
	}
	want := expected.Tables["table.lance"].Snapshots["1"]
	f := openFile20(t, files[0])
	img := f.schema.Fields[1]
	// A field that became a Blob v2 later reads the same from its old files.
	grown := *img
	grown.Blob = schema.BlobV2
	for name, field := range map[string]*schema.Field{"LEG-9 legacy field": img, "LEG-6 field of a mixed table": &grown} {
		t.Run(name, func(t *testing.T) {
			r, err := NewReader20(field.Path(), f.file)
			if err != nil {
				t.Fatal(err)
			}
			leaf, err := r.Read(t.Context(), f.fetch, []Range{{0, uint64(len(want.Rows))}})
			if err != nil {
				t.Fatal(err)
			}
			desc := leaf.Values.(*array.Struct)
			for i, row := range want.Rows {
				if (row.Img == nil) != desc.IsNull(i) {
					t.Errorf("row %d: null is %v", i, desc.IsNull(i))
				}
				position, size := desc.Field(1).(*array.Uint64).Value(i), desc.Field(2).(*array.Uint64).Value(i)
				if d := want.Descriptors[i].Img; position != d.Position || size != d.Size {
					t.Errorf("row %d: %d+%d, want %d+%d", i, position, size, d.Position, d.Size)
				}
				if row.Img == nil {
					continue
				}
				payload := f.data[position : position+size]
				if sum := sha256.Sum256(payload); len(payload) != row.Img.Len || hex.EncodeToString(sum[:]) != row.Img.SHA256 {
					t.Errorf("row %d: %d bytes with hash %x", i, len(payload), sum)
				}
			}
		})
	}
}
