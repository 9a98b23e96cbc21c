package encoding_test

import (
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"google.golang.org/protobuf/proto"

	"github.com/flightblob/flightblob/encoding"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/internal/lancepb"
	"github.com/flightblob/flightblob/schema"
	"github.com/flightblob/flightblob/table/manifest"
)

// seedPage is one page that the reference wrote.
type seedPage struct {
	version encoding.Version
	path    []*schema.Field
	page    encoding.Page
	file    []byte
	layout  string // which layout describes it
}

// seedPages takes the pages out of golden files by the container's plain form.
func seedPages(t testing.TB) []seedPage {
	t.Helper()
	var out []seedPage
	files, _ := filepath.Glob("../datafile/testdata/golden/*/data.lance")
	legacy, _ := filepath.Glob("../conformance/fixtures/tables/legacy_v21/table.lance/data/*.lance")
	blobs, _ := filepath.Glob("../conformance/fixtures/tables/nested_v2*/table.lance/data/*.lance")
	for _, name := range append(append(files, legacy...), blobs...) {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		manifests, _ := filepath.Glob(filepath.Dir(name) + "/manifest")
		if len(manifests) == 0 {
			manifests, _ = filepath.Glob(filepath.Dir(name) + "/../_versions/*.manifest")
		}
		raw, err := os.ReadFile(manifests[0])
		if err != nil {
			t.Fatal(err)
		}
		m, err := manifest.Decode(raw)
		if err != nil {
			t.Fatal(err)
		}
		foot := data[len(data)-40:]
		version := encoding.Version{Major: binary.LittleEndian.Uint16(foot[32:]), Minor: binary.LittleEndian.Uint16(foot[34:])}
		if version.Major != 2 {
			continue // format 2.0 has goldens of its own
		}
		table := data[binary.LittleEndian.Uint64(foot[8:]):]
		column := 0
		for leaf := range m.Schema.Leaves() {
			at, size := binary.LittleEndian.Uint64(table[16*column:]), binary.LittleEndian.Uint64(table[16*column+8:])
			column++
			var meta lancepb.ColumnMetadata
			if err := proto.Unmarshal(data[at:at+size], &meta); err != nil {
				t.Fatal(err)
			}
			for _, p := range meta.GetPages() {
				var described lancepb.AnyValue
				if err := proto.Unmarshal(p.GetEncoding().GetDirect().GetEncoding(), &described); err != nil {
					t.Fatal(err)
				}
				s := seedPage{version: version, path: leaf.Path(), file: data, page: encoding.Page{Rows: p.GetLength(), Layout: described.GetValue()}}
				for i, o := range p.GetBufferOffsets() {
					s.page.Buffers = append(s.page.Buffers, encoding.Extent{Offset: o, Size: p.GetBufferSizes()[i]})
				}
				s.layout = layoutOf(t, version, described.GetValue())
				out = append(out, s)
			}
		}
	}
	if len(out) == 0 {
		t.Fatal("no golden pages")
	}
	return out
}

func layoutOf(t testing.TB, v encoding.Version, raw []byte) string {
	t.Helper()
	if v != encoding.V2_3 {
		var l lancepb.PageLayout
		if err := proto.Unmarshal(raw, &l); err != nil {
			t.Fatal(err)
		}
		switch l.GetLayout().(type) {
		case *lancepb.PageLayout_MiniBlock:
			return "mini-block"
		case *lancepb.PageLayout_FullZip:
			return "full-zip"
		case *lancepb.PageLayout_Constant:
			return "constant"
		default:
			return "blob"
		}
	}
	var l lancepb.PlanarLayout
	if err := proto.Unmarshal(raw, &l); err != nil {
		t.Fatal(err)
	}
	if l.GetStructure().GetSparse() != nil {
		return "sparse"
	}
	return "dense"
}

// fuzzLayout damages descriptions and buffers of pages of one layout. The
// reader must answer with an error of a kind that stands for damage, or with
// the number of rows asked for.
func fuzzLayout(f *testing.F, layout string) {
	seeds := seedPages(f)
	added := 0
	for i, s := range seeds {
		if s.layout != layout {
			continue
		}
		var bufs []byte
		for _, b := range s.page.Buffers {
			bufs = binary.LittleEndian.AppendUint32(bufs, uint32(b.Size))
			bufs = append(bufs, s.file[b.Offset:b.Offset+b.Size]...)
		}
		if len(bufs) > 20_000 {
			continue
		}
		f.Add(uint16(i), s.page.Rows, s.page.Layout, bufs)
		added++
	}
	if added == 0 {
		f.Fatalf("no seeds for %s pages", layout)
	}
	f.Fuzz(func(t *testing.T, which uint16, rows uint64, desc, bufs []byte) {
		s := seeds[int(which)%len(seeds)]
		if rows > 1<<16 {
			return
		}
		page := encoding.Page{Rows: rows, Layout: desc}
		for at := 0; at+4 <= len(bufs) && len(page.Buffers) < 16; {
			size := min(uint64(binary.LittleEndian.Uint32(bufs[at:])), uint64(len(bufs)-at-4))
			page.Buffers = append(page.Buffers, encoding.Extent{Offset: uint64(at + 4), Size: size})
			at += 4 + int(size)
		}
		read(t, s, page, bufs)
	})
}

func read(t *testing.T, s seedPage, page encoding.Page, file []byte) {
	t.Helper()
	ok := func(err error) bool {
		if err == nil {
			return true
		}
		switch fault.KindOf(err) {
		case fault.Corrupt, fault.Unsupported, fault.Exhausted:
			return false
		}
		t.Fatalf("%s error: %v", fault.KindOf(err), err)
		return false
	}
	c, err := encoding.NewColumn(s.version, s.path, []encoding.Page{page}, nil)
	if !ok(err) {
		return
	}
	fetch := func(_ context.Context, extents []encoding.Extent) ([][]byte, func(), error) {
		out := make([][]byte, len(extents))
		for i, e := range extents {
			out[i] = append([]byte(nil), file[e.Offset:e.Offset+e.Size]...)
		}
		return out, func() {
			for _, b := range out {
				clear(b)
			}
		}, nil
	}
	for _, rows := range [][]encoding.Range{{{Start: 0, End: c.Rows()}}, {{Start: c.Rows() / 3, End: c.Rows() / 2}}} {
		leaf, err := c.Read(context.Background(), fetch, rows)
		coded, codedErr := c.ReadCoded(context.Background(), fetch, rows)
		if !ok(err) {
			ok(codedErr)
			continue
		}
		sameCoded(t, leaf, coded, codedErr)
		if leaf.Layers[0].Slots != int(rows[0].Len()) || leaf.Values.Len() != leaf.Layers[len(leaf.Layers)-1].Slots {
			t.Fatalf("%d slots, %d values for %d rows", leaf.Layers[0].Slots, leaf.Values.Len(), rows[0].Len())
		}
	}
}

// sameCoded compares what was read as dictionaries with what was not.
func sameCoded(t *testing.T, leaf, coded *encoding.Leaf, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("read as dictionaries: %v", err)
	}
	d, ok := coded.Values.(*array.Dictionary)
	if !ok || arrow.TypeEqual(leaf.Values.DataType(), d.DataType()) {
		if leaf.Values.Len() != coded.Values.Len() {
			t.Fatalf("read as dictionaries: %d values, otherwise %d", coded.Values.Len(), leaf.Values.Len())
		}
		return
	}
	for i := range leaf.Values.Len() {
		at := d.GetValueIndex(i)
		if leaf.Values.IsNull(i) != d.Dictionary().IsNull(at) || leaf.Values.IsValid(i) && leaf.Values.ValueStr(i) != d.Dictionary().ValueStr(at) {
			t.Fatalf("read as dictionaries: value %d of %v, otherwise %v", i, d, leaf.Values)
		}
	}
}

func FuzzMiniBlock(f *testing.F)   { fuzzLayout(f, "mini-block") }
func FuzzFullZip(f *testing.F)     { fuzzLayout(f, "full-zip") }
func FuzzConstant(f *testing.F)    { fuzzLayout(f, "constant") }
func FuzzBlobLayout(f *testing.F)  { fuzzLayout(f, "blob") }
func FuzzPlanarDense(f *testing.F) { fuzzLayout(f, "dense") }
func FuzzSparse(f *testing.F)      { fuzzLayout(f, "sparse") }

// TestSeedsCoverLayouts: the golden pages show every layout, and reading each
// page by itself gives its rows.
func TestSeedsCoverLayouts(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, s := range seedPages(t) {
		seen[s.layout] = true
		read(t, s, s.page, s.file)
	}
	for _, want := range []string{"mini-block", "full-zip", "constant", "blob", "dense", "sparse"} {
		if !seen[want] {
			t.Errorf("no golden page of layout %s; have %s", want, strings.Join(keys(seen), ", "))
		}
	}
}

func keys(m map[string]bool) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	return out
}
