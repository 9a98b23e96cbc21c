package blob

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/schema"
	"github.com/flightblob/flightblob/table/manifest"
)

// dataFile stands for the writer of a data file: payloads start at multiples of
// 64.
type dataFile struct {
	data []byte
	fail error
}

func (f *dataFile) NextOutOfLine() uint64 { return uint64(len(f.data)+63) / 64 * 64 }

func (f *dataFile) AppendOutOfLine(_ context.Context, data []byte) (uint64, error) {
	at := f.NextOutOfLine()
	f.data = append(f.data, make([]byte, int(at)-len(f.data))...)
	f.data = append(f.data, data...)
	return at, f.fail
}

// desk is a table's folder in memory, a data file in it, and a Placer.
type desk struct {
	t      testing.TB
	store  *objstore.Mem
	owner  *Owner
	file   *dataFile
	policy Policy
	placer *Placer
	bases  map[uint32]manifest.Base
	uuids  int
}

// newDesk sets a desk with a policy; change it before the first use.
func newDesk(t testing.TB) *desk {
	d := &desk{t: t, store: objstore.NewMem("desk"), file: &dataFile{}}
	at := func(path string) objstore.Location { return objstore.Location{Store: d.store, Path: path} }
	d.owner = &Owner{File: at("root/data/f.lance"), Key: "f", Dir: at("root/data"), Base: at("root"), Immutable: true}
	d.policy.NewUUID = func() uuid.UUID {
		d.uuids++
		var id uuid.UUID
		binary.BigEndian.PutUint64(id[8:], uint64(d.uuids))
		return id
	}
	d.policy.URIs.Locate = d.locate
	return d
}

func (d *desk) locate(_ context.Context, uri string) (objstore.Location, error) {
	path, ok := strings.CutPrefix(uri, "mem://desk/")
	if !ok {
		return objstore.Location{}, fault.New(fault.Denied, "%s lies outside what this server may touch; allow it with --external %s", uri, uri)
	}
	return objstore.Location{Store: d.store, Path: path}, nil
}

func (d *desk) open() *Placer {
	d.t.Helper()
	if d.placer == nil {
		var err error
		if d.placer, err = NewPlacer(d.t.Context(), d.policy, d.owner, d.file); err != nil {
			d.t.Fatal(err)
		}
	}
	return d.placer
}

// place stores a batch of JSON rows and gives the batch of descriptors.
func (d *desk) place(s *schema.Schema, batch arrow.RecordBatch) (arrow.RecordBatch, error) {
	d.t.Helper()
	in, err := AsInputs(s, batch, nil)
	if err != nil {
		return nil, err
	}
	defer in.Release()
	return d.open().Place(d.t.Context(), memory.DefaultAllocator, in)
}

// commit ends the Placer and the data file.
func (d *desk) commit() {
	d.t.Helper()
	if err := d.open().Commit(d.t.Context()); err != nil {
		d.t.Fatal(err)
	}
	d.store.Set(d.owner.File.Path, d.file.data)
}

// tree lists the objects with their sizes.
func (d *desk) tree() []string {
	var out []string
	var list func(at objstore.Location)
	list = func(at objstore.Location) {
		for e, err := range at.List(d.t.Context()) {
			if err != nil {
				d.t.Fatal(err)
			}
			if e.Dir {
				list(at.Join(e.Name))
				continue
			}
			out = append(out, fmt.Sprintf("%s %d", at.Join(e.Name).Path, e.Size))
		}
	}
	list(objstore.Location{Store: d.store})
	return out
}

// read gives the bytes of a value.
func (d *desk) read(v Descriptor) []byte {
	d.t.Helper()
	e, err := NewResolver(d.bases, d.locate).Resolve(d.t.Context(), v, d.owner)
	if err != nil {
		d.t.Fatal(err)
	}
	out := make([]byte, e.Length)
	if e.Length > 0 {
		if err := e.Object.ReadAt(d.t.Context(), out, int64(e.Offset)); err != nil {
			d.t.Fatal(err)
		}
	}
	return out
}

// shown prints the descriptors of a column, "null" for nulls.
func shown(t testing.TB, a arrow.Array) []string {
	t.Helper()
	c, err := AsColumn(a)
	if err != nil {
		t.Fatal(err)
	}
	out := []string{}
	for i := range c.Len() {
		d, null, err := c.At(i)
		if err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprintf("%d at %d size %d id %d %q", d.Kind, d.Position, d.Size, d.ID, d.URI)
		if null {
			text = "null"
		}
		out = append(out, text)
	}
	return out
}

// payload is n bytes that differ from those of other seeds.
func payload(n, seed int) []byte {
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(i*7 + seed*31 + i>>8)
	}
	return out
}

func dataJSON(n, seed int) string {
	return `{"data":"` + base64.StdEncoding.EncodeToString(payload(n, seed)) + `"}`
}

func limited(name string, inline, dedicated, pack uint64) arrow.Field {
	f := blobField(name, whole)
	f.Metadata = arrow.MetadataFrom(map[string]string{
		schema.KeyExtensionName: schema.ExtensionBlobV2,
		schema.KeyInline:        fmt.Sprint(inline), schema.KeyDedicated: fmt.Sprint(dedicated), schema.KeyPack: fmt.Sprint(pack),
	})
	return f
}

func rowsOf(name string, values ...string) string {
	rows := make([]string, len(values))
	for i, v := range values {
		rows[i] = fmt.Sprintf(`{"%s":%s}`, name, v)
	}
	return "[" + strings.Join(rows, ",") + "]"
}

func TestPlacementThresholds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name                    string
		inline, dedicated, size uint64
		want                    placement
	}{
		{"WRT-1 both comparisons are strict", 64, 128, 64, inline},
		{"WRT-1 longer than inline", 64, 128, 65, packed},
		{"WRT-1 up to dedicated", 64, 128, 128, packed},
		{"WRT-1 longer than dedicated", 64, 128, 129, dedicated},
		{"WRT-2 dedicated comes first", 200, 100, 101, dedicated},
		{"WRT-2 dedicated comes first", 200, 100, 100, inline},
		{"WRT-3 inline 0", 0, 100, 1, packed},
		{"WRT-3 empty values stay", 0, 100, 0, inline},
		{"defaults", schema.DefaultThresholds.Inline, schema.DefaultThresholds.Dedicated, 65536, inline},
		{"defaults", schema.DefaultThresholds.Inline, schema.DefaultThresholds.Dedicated, 65537, packed},
		{"defaults", schema.DefaultThresholds.Inline, schema.DefaultThresholds.Dedicated, 4194304, packed},
		{"defaults", schema.DefaultThresholds.Inline, schema.DefaultThresholds.Dedicated, 4194305, dedicated},
	} {
		t.Run(fmt.Sprintf("%s, %d bytes", c.name, c.size), func(t *testing.T) {
			if got := placementOf(c.size, schema.Thresholds{Inline: c.inline, Dedicated: c.dedicated}); got != c.want {
				t.Errorf("goes to %d, not %d", got, c.want)
			}
		})
	}
}

func TestPlace(t *testing.T) {
	t.Parallel()
	values := []string{dataJSON(10, 1), `{"data":""}`, `null`, dataJSON(100, 2), dataJSON(90, 3), dataJSON(300, 4), dataJSON(129, 5), dataJSON(64, 6), `{"data":""}`}
	t.Run("WRT-5 PCK-4 PCK-5 PCK-8 NUL-1 NUL-6 kinds 0 to 2", func(t *testing.T) {
		d := newDesk(t)
		s := tableOf(t, limited("b", 64, 128, 400))
		got, err := d.place(s, batchOf(t, rowsOf("b", values...), blobField("b", whole)))
		if err != nil {
			t.Fatal(err)
		}
		d.commit()
		want := []string{
			`0 at 0 size 10 id 0 ""`, `0 at 64 size 0 id 0 ""`, "null", `1 at 0 size 100 id 1 ""`, `1 at 100 size 90 id 1 ""`,
			`2 at 0 size 300 id 2 ""`, `2 at 0 size 129 id 3 ""`, `0 at 64 size 64 id 0 ""`, `0 at 128 size 0 id 0 ""`,
		}
		if diff := cmp.Diff(want, shown(t, got.Column(0))); diff != "" {
			t.Error(diff)
		}
		if f := got.Schema().Field(0); !arrow.TypeEqual(f.Type, schema.DescriptorType) || !f.Nullable || got.Schema().HasMetadata() {
			t.Errorf("DESC-1: %v", got.Schema())
		}
		tree := []string{"root/data/f.lance 128", "root/data/f/01000000000000000000000000000000.blob 300", "root/data/f/10000000000000000000000000000000.blob 190", "root/data/f/11000000000000000000000000000000.blob 129"}
		if diff := cmp.Diff(tree, d.tree()); diff != "" {
			t.Error(diff)
		}
		c, err := AsColumn(got.Column(0))
		if err != nil {
			t.Fatal(err)
		}
		null := got.Column(0).(*array.Struct)
		for i := range null.NumField() {
			if null.Field(i).NullN() != 0 || strings.Trim(null.Field(i).ValueStr(2), "0") != "" {
				t.Errorf("NUL-1: child %d of a null is %s", i, null.Field(i).ValueStr(2))
			}
		}
		for i, n := range map[int][2]int{0: {10, 1}, 1: {0, 0}, 3: {100, 2}, 4: {90, 3}, 5: {300, 4}, 6: {129, 5}, 7: {64, 6}} {
			v, _, err := c.At(i)
			if err != nil || string(d.read(v)) != string(payload(n[0], n[1])) {
				t.Errorf("row %d reads wrongly: %v", i, err)
			}
		}
	})
	t.Run("WRT-6 PCK-6 managed, kind 4", func(t *testing.T) {
		d := newDesk(t)
		d.policy.Managed = true
		got, err := d.place(tableOf(t, limited("b", 64, 128, 150)), batchOf(t, rowsOf("b", values...), blobField("b", whole)))
		if err != nil {
			t.Fatal(err)
		}
		d.commit()
		name := func(i int) string { return fmt.Sprintf("_blobs/00000000-0000-0000-0000-%012d.blob", i) }
		want := []string{
			`0 at 0 size 10 id 0 ""`, `0 at 64 size 0 id 0 ""`, "null", fmt.Sprintf("4 at 0 size 100 id 0 %q", name(1)), fmt.Sprintf("4 at 0 size 90 id 0 %q", name(2)),
			fmt.Sprintf("4 at 0 size 300 id 0 %q", name(3)), fmt.Sprintf("4 at 0 size 129 id 0 %q", name(4)), `0 at 64 size 64 id 0 ""`, `0 at 128 size 0 id 0 ""`,
		}
		if diff := cmp.Diff(want, shown(t, got.Column(0))); diff != "" {
			t.Error(diff)
		}
		tree := []string{"root/" + name(1) + " 100", "root/" + name(2) + " 90", "root/" + name(3) + " 300", "root/" + name(4) + " 129", "root/data/f.lance 128"}
		if diff := cmp.Diff(tree, d.tree()); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("WRT-6 managed in a registered base, kind 5", func(t *testing.T) {
		for _, id := range []uint32{0, 7} { // DIFF-2: 0 is an id
			d := newDesk(t)
			d.policy.Managed, d.policy.TargetBase = true, &id
			d.policy.Bases = map[uint32]manifest.Base{id: {ID: id, Path: "mem://desk/other"}}
			d.bases = d.policy.Bases
			d.owner.BaseID = &id
			d.owner.Base = objstore.Location{Store: d.store, Path: "other"}
			got, err := d.place(tableOf(t, limited("b", 0, 1000, 1000)), batchOf(t, rowsOf("b", dataJSON(5, 1)), blobField("b", whole)))
			if err != nil {
				t.Fatal(err)
			}
			d.commit()
			if diff := cmp.Diff([]string{fmt.Sprintf(`5 at 0 size 5 id %d "_blobs/00000000-0000-0000-0000-000000000001.blob"`, id)}, shown(t, got.Column(0))); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff([]string{"other/_blobs/00000000-0000-0000-0000-000000000001.blob 5", "root/data/f.lance 0"}, d.tree()); diff != "" {
				t.Error(diff)
			}
		}
	})
	t.Run("PCK-1 PCK-2 PCK-3 packs roll", func(t *testing.T) {
		d := newDesk(t)
		fields := []arrow.Field{limited("a", 0, 1000, 200), limited("b", 0, 1000, 200), limited("c", 0, 1000, 100)}
		input := []arrow.Field{blobField("a", whole), blobField("b", whole), blobField("c", whole)}
		row := func(a, b, c string) string { return fmt.Sprintf(`{"a":%s,"b":%s,"c":%s}`, a, b, c) }
		s := tableOf(t, fields...)
		place := func(rows ...string) (out []string) {
			got, err := d.place(s, batchOf(t, "["+strings.Join(rows, ",")+"]", input...))
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range got.Columns() {
				for _, v := range shown(t, c) {
					out = append(out, strings.TrimSuffix(v, ` ""`))
				}
			}
			return out
		}
		first := place(row(dataJSON(100, 1), dataJSON(60, 2), dataJSON(10, 3)), row(dataJSON(40, 4), dataJSON(1, 5), "null"))
		second := place(row(dataJSON(199, 6), dataJSON(1, 7), dataJSON(500, 8)), row("null", dataJSON(201, 9), dataJSON(1, 10)))
		d.commit()
		want := []string{
			"1 at 0 size 100 id 1", "1 at 100 size 40 id 1", // a
			"1 at 140 size 60 id 1", "1 at 0 size 1 id 2", // b shares the pack, fills it exactly, and rolls
			"1 at 0 size 10 id 3", "null", // c has another limit
			"1 at 0 size 199 id 4", "null", // so a rolls again
			"1 at 199 size 1 id 4", "1 at 0 size 201 id 5", // larger than the limit: alone
			"1 at 0 size 500 id 6", "1 at 0 size 1 id 7",
		}
		if diff := cmp.Diff(want, slices.Concat(first, second)); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("the limit of the write goes before those of columns", func(t *testing.T) {
		d := newDesk(t)
		d.policy.PackLimit = 10
		got, err := d.place(tableOf(t, limited("b", 0, 1000, 400)), batchOf(t, rowsOf("b", dataJSON(6, 1), dataJSON(6, 2), dataJSON(4, 3)), blobField("b", whole)))
		if err != nil {
			t.Fatal(err)
		}
		d.commit()
		if diff := cmp.Diff([]string{`1 at 0 size 6 id 1 ""`, `1 at 0 size 6 id 2 ""`, `1 at 6 size 4 id 2 ""`}, shown(t, got.Column(0))); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("PCK-9 each data file starts anew", func(t *testing.T) {
		for range 2 {
			d := newDesk(t)
			got, err := d.place(tableOf(t, limited("b", 0, 1000, 400)), batchOf(t, rowsOf("b", dataJSON(6, 1)), blobField("b", whole)))
			if err != nil {
				t.Fatal(err)
			}
			d.commit()
			if diff := cmp.Diff([]string{`1 at 0 size 6 id 1 ""`}, shown(t, got.Column(0))); diff != "" {
				t.Error(diff)
			}
		}
	})
	t.Run("ERR-8 a table with bad thresholds", func(t *testing.T) {
		d := newDesk(t)
		s, err := schema.FromRecords([]schema.Record{
			{ID: 0, ParentID: -1, Name: "b", LogicalType: "struct", Nullable: true, Metadata: map[string]string{schema.KeyExtensionName: schema.ExtensionBlobV2, schema.KeyDedicated: "0"}},
			{ID: 1, ParentID: 0, Name: "data", LogicalType: "large_binary", Nullable: true},
			{ID: 2, ParentID: 0, Name: "uri", LogicalType: "string", Nullable: true},
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.place(s, batchOf(t, rowsOf("b", "null"), blobField("b", whole))); err == nil || !strings.Contains(err.Error(), `field b has lance-encoding:blob-dedicated-size-threshold = "0"`) {
			t.Error(err)
		}
	})
}

func TestPlaceNested(t *testing.T) {
	t.Parallel()
	fields := []arrow.Field{
		field("id", arrow.PrimitiveTypes.Int8),
		field("s", structure(field("x", arrow.BinaryTypes.String), required(limited("b", 0, 1000, 1000)))),
		field("l", list(limited("item", 0, 1000, 1000))),
		field("ll", large(field("it", structure(limited("b", 0, 1000, 1000), field("y", arrow.PrimitiveTypes.Int8))))),
	}
	rows := `[
		{"id":1,"s":{"x":"a","b":` + dataJSON(1, 1) + `},"l":[` + dataJSON(2, 2) + `,null,{"data":""}],"ll":[{"b":` + dataJSON(3, 3) + `,"y":4},null,{"b":null}]},
		{"id":2,"s":null,"l":null,"ll":null},
		{"id":3,"s":{"x":null,"b":{"data":""}},"l":[],"ll":[]},
		{"id":null,"s":{"x":"c","b":` + dataJSON(5, 5) + `},"l":[null],"ll":[{"b":{"data":""},"y":null}]}]`
	want := `[
		{"id":1,"s":{"x":"a","b":{"kind":1,"position":0,"size":1,"blob_id":1,"blob_uri":""}},
		 "l":[{"kind":1,"position":6,"size":2,"blob_id":1,"blob_uri":""},null,{"kind":0,"position":0,"size":0,"blob_id":0,"blob_uri":""}],
		 "ll":[{"b":{"kind":1,"position":8,"size":3,"blob_id":1,"blob_uri":""},"y":4},null,{"b":null,"y":null}]},
		{"id":2,"s":null,"l":null,"ll":null},
		{"id":3,"s":{"x":null,"b":{"kind":0,"position":0,"size":0,"blob_id":0,"blob_uri":""}},"l":[],"ll":[]},
		{"id":null,"s":{"x":"c","b":{"kind":1,"position":1,"size":5,"blob_id":1,"blob_uri":""}},"l":[null],"ll":[{"b":{"kind":0,"position":0,"size":0,"blob_id":0,"blob_uri":""},"y":null}]}]`
	for lead := range 10 {
		t.Run(fmt.Sprintf("NUL-11 PCK-4 lists are flattened, behind %d rows", lead), func(t *testing.T) {
			d := newDesk(t)
			mem := memory.NewCheckedAllocator(memory.DefaultAllocator)
			defer mem.AssertSize(t, 0)
			batch := batchOf(t, "["+strings.Repeat("{},", lead)+rows[1:], fields...)
			batch = batch.NewSlice(int64(lead), batch.NumRows())
			in, err := AsInputs(tableOf(t, fields...), batch, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer in.Release()
			got, err := d.open().Place(t.Context(), mem, in)
			if err != nil {
				t.Fatal(err)
			}
			defer got.Release()
			if diff := cmp.Diff(fmt.Sprint(batchOf(t, want, got.Schema().Fields()...)), fmt.Sprint(got)); diff != "" {
				t.Error(diff)
			}
			for i, f := range got.Schema().Fields() {
				if f.Name != fields[i].Name || f.Nullable != fields[i].Nullable {
					t.Errorf("field %v", f)
				}
			}
		})
	}
}

func TestPlaceStream(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		size int
		want string
	}{
		{"inline", 10, `0 at 64 size 10 id 0 ""`},
		{"empty", 0, `0 at 64 size 0 id 0 ""`},
		{"packed", 100, `1 at 3 size 100 id 1 ""`},
		{"dedicated", 10 << 20, fmt.Sprintf(`2 at 0 size %d id 2 ""`, 10<<20)},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			s := tableOf(t, limited("b", 10, 1000, 1000), limited("c", 0, 1000, 1000))
			fields := []arrow.Field{blobField("b", whole), blobField("c", whole)}
			batch := batchOf(t, `[{"b":`+dataJSON(1, 1)+`,"c":`+dataJSON(3, 3)+`},{"c":{"data":""}},{"b":`+dataJSON(2, 2)+`}]`, fields...)
			// The streamed value lies in the second column, behind what the
			// first one stores.
			if c.size <= 10 {
				s = tableOf(t, limited("b", 10, 1000, 1000), limited("c", 10, 1000, 1000))
				batch = batchOf(t, `[{"b":`+dataJSON(1, 1)+`},{"c":{"data":""}}]`, fields...)
			}
			in, err := AsInputs(s, batch, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer in.Release()
			want := payload(c.size, 9)
			if err := in.Stream("c", 1, strings.NewReader(string(want)), uint64(c.size)); err != nil {
				t.Fatal(err)
			}
			got, err := d.open().Place(t.Context(), memory.DefaultAllocator, in)
			if err != nil {
				t.Fatal(err)
			}
			d.commit()
			if text := shown(t, got.Column(1))[1]; text != c.want {
				t.Errorf("got %s, want %s", text, c.want)
			}
			column, err := AsColumn(got.Column(1))
			if err != nil {
				t.Fatal(err)
			}
			v, _, err := column.At(1)
			if err != nil || string(d.read(v)) != string(want) {
				t.Errorf("the bytes differ: %v", err)
			}
		})
	}
	t.Run("a large inline value goes in pieces", func(t *testing.T) {
		d := newDesk(t)
		s := tableOf(t, limited("b", 1<<40, 1<<40, 1000))
		in, err := AsInputs(s, batchOf(t, `[{"b":{"data":""}},{"b":{"data":""}}]`, blobField("b", whole)), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer in.Release()
		want := payload(2*chunk+77, 3)
		if err := in.Stream("b", 0, strings.NewReader(string(want)), uint64(len(want))); err != nil {
			t.Fatal(err)
		}
		got, err := d.open().Place(t.Context(), memory.DefaultAllocator, in)
		if err != nil {
			t.Fatal(err)
		}
		d.commit()
		if diff := cmp.Diff([]string{fmt.Sprintf(`0 at 0 size %d id 0 ""`, len(want)), fmt.Sprintf(`0 at %d size 0 id 0 ""`, 2*chunk+128)}, shown(t, got.Column(0))); diff != "" {
			t.Error(diff)
		}
		if string(d.file.data[:len(want)]) != string(want) {
			t.Error("the bytes differ")
		}
	})
	for name, c := range map[string]struct {
		text string
		size uint64
		want string
	}{
		"too short": {"abc", 5, "blob: column b, row 1: the value ends after 3 of 5 bytes"},
		"too long":  {"abcdef", 5, "blob: column b, row 1: the value has more than the 5 bytes"},
	} {
		for where, inline := range map[string]uint64{"inline": 10, "packed": 0} {
			t.Run(name+" "+where, func(t *testing.T) {
				t.Parallel()
				d := newDesk(t)
				in, err := AsInputs(tableOf(t, limited("b", inline, 1000, 1000)), batchOf(t, `[{"b":null},{"b":{"data":""}}]`, blobField("b", whole)), nil)
				if err != nil {
					t.Fatal(err)
				}
				defer in.Release()
				if err := in.Stream("b", 1, strings.NewReader(c.text), c.size); err != nil {
					t.Fatal(err)
				}
				_, err = d.open().Place(t.Context(), memory.DefaultAllocator, in)
				if err == nil || !strings.HasPrefix(err.Error(), c.want) || fault.KindOf(err) != fault.Invalid {
					t.Errorf("got %v, want %s", err, c.want)
				}
				d.placer.Abort(t.Context())
				if left := d.tree(); len(left) > 0 {
					t.Errorf("left: %v", left)
				}
			})
		}
	}
}
