package datafile_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"github.com/flightblob/flightblob/datafile"
	"github.com/flightblob/flightblob/encoding"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/internal/lancepb"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/objstore/faultstore"
	"github.com/flightblob/flightblob/schema"
)

func create(t testing.TB, s objstore.Store) objstore.Writer {
	t.Helper()
	w, err := s.Create(t.Context(), "data.lance")
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func stored(t testing.TB, m *objstore.Mem) []byte {
	t.Helper()
	data, err := m.ReadWhole(t.Context(), "data.lance", 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestGoldensAreWritten writes what the reference's golden files hold and reads
// it back. The files take no more than theirs and a tenth.
func TestGoldensAreWritten(t *testing.T) {
	t.Parallel()
	for _, g := range goldens(t) {
		for _, v := range []encoding.Version{encoding.V2_2, encoding.V2_3} {
			if strings.HasSuffix(g.name, "_23") && v == encoding.V2_2 {
				continue // some have settings that need 2.3
			}
			t.Run(fmt.Sprintf("%s in %d.%d", g.name, v.Major, v.Minor), func(t *testing.T) {
				t.Parallel()
				mem := objstore.NewMem("m")
				w, err := datafile.NewWriter(create(t, mem), g.manifest.Schema, datafile.WriterOptions{Version: v})
				if err != nil {
					t.Fatal(err)
				}
				if err := w.Write(t.Context(), g.want); err != nil {
					t.Fatal(err)
				}
				sum, err := w.Commit(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				data := stored(t, mem)
				if sum.Rows != g.rows() || sum.Size != int64(len(data)) {
					t.Errorf("summary %+v of %d bytes", sum, len(data))
				}
				ours := *g
				m := *g.manifest
				m.Fragments = append(m.Fragments[:0:0], m.Fragments...)
				m.Fragments[0].Files = append(m.Fragments[0].Files[:0:0], m.Fragments[0].Files[0])
				m.Fragments[0].Files[0].Fields, m.Fragments[0].Files[0].Columns = sum.Fields, sum.Columns
				ours.manifest = &m
				r, _, err := ours.open(t.Context(), data, nil)
				if err != nil {
					t.Fatal(err)
				}
				for i, f := range m.Schema.Fields {
					got, err := ours.column(t.Context(), r, f, []encoding.Range{{Start: 0, End: g.rows()}})
					if err != nil {
						t.Fatalf("%s: %v", f.Name, err)
					}
					if !equal(g.want.Column(i), got) {
						t.Errorf("%s: got %v, want %v", f.Name, got, g.want.Column(i))
					}
				}
				if major := g.manifest.Fragments[0].Files[0].Minor; v.Minor == uint16(major) && v == encoding.V2_2 && len(data) > len(g.data)*11/10 {
					t.Errorf("%d bytes, the reference %d", len(data), len(g.data))
				}
			})
		}
	}
}

// blobSchema is the example of table-format sheet section 2.5.
func blobSchema(t testing.TB) *schema.Schema {
	t.Helper()
	mark := arrow.MetadataFrom(map[string]string{"ARROW:extension:name": "lance.blob.v2"})
	blob := func(name string) arrow.Field {
		return arrow.Field{Name: name, Nullable: true, Metadata: mark, Type: arrow.StructOf(
			arrow.Field{Name: "data", Type: arrow.BinaryTypes.LargeBinary, Nullable: true},
			arrow.Field{Name: "uri", Type: arrow.BinaryTypes.String, Nullable: true},
			arrow.Field{Name: "position", Type: arrow.PrimitiveTypes.Uint64, Nullable: true},
			arrow.Field{Name: "size", Type: arrow.PrimitiveTypes.Uint64, Nullable: true},
		)}
	}
	a := arrow.Field{Name: "a", Type: arrow.PrimitiveTypes.Int32, Nullable: true}
	pair := arrow.StructOf(a, blob("b"))
	s, err := schema.FromArrow(arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64},
		{Name: "st", Type: pair, Nullable: true},
		{Name: "li", Type: arrow.ListOfField(blob("item")), Nullable: true},
		{Name: "ls", Type: arrow.LargeListOfField(arrow.Field{Name: "item", Type: pair, Nullable: true}), Nullable: true},
		{Name: "tail", Type: arrow.PrimitiveTypes.Int16, Nullable: true},
	}, nil), schema.FromOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// emptyBatch is a batch of nulls and zeros in the form that files store.
func emptyBatch(t testing.TB, s *schema.Schema, rows int) arrow.RecordBatch {
	t.Helper()
	as, err := s.Arrow(schema.Descriptor)
	if err != nil {
		t.Fatal(err)
	}
	columns := make([]arrow.Array, len(s.Fields))
	for i, f := range as.Fields() {
		if f.Nullable {
			columns[i] = array.MakeArrayOfNull(memory.DefaultAllocator, f.Type, rows)
			continue
		}
		b := array.NewInt64Builder(memory.DefaultAllocator)
		b.AppendValues(make([]int64, rows), nil)
		columns[i] = b.NewArray()
	}
	return array.NewRecordBatch(as, columns, int64(rows))
}

// TestFileForm takes a file apart by the container's plain form.
func TestFileForm(t *testing.T) {
	t.Parallel()
	s := blobSchema(t)
	mem := objstore.NewMem("m")
	w, err := datafile.NewWriter(create(t, mem), s, datafile.WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	payload := []byte("payload of a blob")
	if next := w.NextOutOfLine(); next != 0 {
		t.Errorf("the first payload will start at %d", next)
	}
	var at []uint64
	for range 3 {
		next := w.NextOutOfLine()
		pos, err := w.AppendOutOfLine(t.Context(), payload)
		if err != nil || pos != next || pos%64 != 0 {
			t.Fatalf("payload at %d, announced for %d: %v", pos, next, err)
		}
		at = append(at, pos)
	}
	for range 2 {
		if err := w.Write(t.Context(), emptyBatch(t, s, 5)); err != nil {
			t.Fatal(err)
		}
	}
	sum, err := w.Commit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	data := stored(t, mem)
	want := datafile.Summary{
		Size: int64(len(data)), Rows: 10, Major: 2, Minor: 2,
		Fields: []schema.FieldID{0, 2, 3, 9, 16, 17, 22}, Columns: []int32{0, 1, 2, 3, 4, 5, 6},
	}
	if diff := cmp.Diff(want, sum); diff != "" {
		t.Errorf("summary (-want +got):\n%s", diff)
	}
	for _, pos := range at {
		if got := string(data[pos : pos+uint64(len(payload))]); got != string(payload) {
			t.Errorf("payload %q at %d", got, pos)
		}
	}
	foot := data[len(data)-40:]
	word := func(i int) uint64 { return binary.LittleEndian.Uint64(foot[8*i:]) }
	if got := string(foot[32:]); got != "\x02\x00\x02\x00LANC" {
		t.Errorf("the file ends in %q", got)
	}
	if n := binary.LittleEndian.Uint32(foot[28:]); n != 7 {
		t.Errorf("%d columns", n)
	}
	for i := range uint64(7) {
		entry := data[word(1)+16*i:]
		pos, size := binary.LittleEndian.Uint64(entry), binary.LittleEndian.Uint64(entry[8:])
		if i == 0 && pos != word(0) {
			t.Errorf("column 0 is described at %d, the footer says %d", pos, word(0))
		}
		var m lancepb.ColumnMetadata
		if err := proto.Unmarshal(data[pos:pos+size], &m); err != nil {
			t.Fatal(err)
		}
		if got := string(m.GetEncoding().GetDirect().GetEncoding()); got != "\n\x1f/lance.encodings.ColumnEncoding\x12\x02\n\x00" {
			t.Errorf("column %d has the encoding %q", i, got)
		}
		rows := uint64(0)
		for _, p := range m.GetPages() {
			if p.GetPriority() != rows {
				t.Errorf("column %d: page at row %d has priority %d", i, rows, p.GetPriority())
			}
			rows += p.GetLength()
			for _, o := range p.GetBufferOffsets() {
				if o%64 != 0 {
					t.Errorf("column %d: buffer at %d", i, o)
				}
			}
			if d := string(p.GetEncoding().GetDirect().GetEncoding()); !strings.Contains(d, "/lance.encodings21.PageLayout") {
				t.Errorf("column %d: description %q", i, d)
			}
		}
		if rows != 10 {
			t.Errorf("column %d: %d rows", i, rows)
		}
	}
	pos, size := binary.LittleEndian.Uint64(data[word(2):]), binary.LittleEndian.Uint64(data[word(2)+8:])
	if pos%64 != 0 {
		t.Errorf("descriptor at %d", pos)
	}
	var d lancepb.FileDescriptor
	if err := proto.Unmarshal(data[pos:pos+size], &d); err != nil {
		t.Fatal(err)
	}
	var fields []string
	for _, f := range d.GetSchema().GetFields() {
		text := fmt.Sprint(f.GetName(), " ", f.GetLogicalType(), " ", f.GetId(), " ", f.GetParentId(), " ", f.GetEncoding())
		if len(f.GetMetadata()) > 0 {
			text += fmt.Sprintf(" blob=%s packed=%s", f.GetMetadata()["lance-encoding:blob"], f.GetMetadata()["lance-encoding:packed"])
		}
		fields = append(fields, text)
	}
	children := []string{"kind uint8 -1 -1 1", "position uint64 -1 -1 1", "size uint64 -1 -1 1", "blob_id uint32 -1 -1 1", "blob_uri string -1 -1 2"}
	wantFields := []string{"id int64 0 -1 1", "st struct 1 -1 0", "a int32 2 1 1", "b struct 3 1 0 blob=true packed=true"}
	wantFields = append(wantFields, children...)
	wantFields = append(wantFields, "li list.struct 8 -1 1", "item struct 9 8 0 blob=true packed=true")
	wantFields = append(wantFields, children...)
	wantFields = append(wantFields, "ls large_list.struct 14 -1 1", "item struct 15 14 0", "a int32 16 15 1", "b struct 17 15 0 blob=true packed=true")
	wantFields = append(wantFields, children...)
	wantFields = append(wantFields, "tail int16 22 -1 1")
	if diff := cmp.Diff(wantFields, fields); diff != "" || d.GetLength() != 10 {
		t.Errorf("%s\n%s", diff, prototext.Format(&d))
	}
}

// TestWriterKeepsNoBatch: what was written may be released and overwritten.
func TestWriterKeepsNoBatch(t *testing.T) {
	t.Parallel()
	pool := memory.NewCheckedAllocator(memory.DefaultAllocator)
	defer pool.AssertSize(t, 0)
	as := arrow.NewSchema([]arrow.Field{{Name: "s", Type: arrow.BinaryTypes.String}, {Name: "l", Type: arrow.ListOf(arrow.PrimitiveTypes.Int64), Nullable: true}}, nil)
	s, err := schema.FromArrow(as, schema.FromOptions{})
	if err != nil {
		t.Fatal(err)
	}
	mem := objstore.NewMem("m")
	w, err := datafile.NewWriter(create(t, mem), s, datafile.WriterOptions{PageBytes: 4 << 10})
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		b := array.NewRecordBuilder(pool, as)
		for i := range 500 {
			b.Field(0).(*array.StringBuilder).Append(fmt.Sprint("value ", i))
			l, _ := b.Field(1).(*array.ListBuilder)
			l.Append(i%3 > 0)
			if i%3 > 0 {
				l.ValueBuilder().(*array.Int64Builder).Append(int64(i))
			}
		}
		batch := b.NewRecordBatch()
		b.Release()
		if err := w.Write(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
		for _, c := range batch.Columns() {
			for _, buf := range c.Data().Buffers()[1:] {
				clear(buf.Bytes())
			}
		}
		batch.Release()
	}
	if _, err := w.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(stored(t, mem)), "value 499") {
		t.Error("values are gone")
	}
}

// discard takes a file and keeps nothing.
type discard struct{ size int64 }

func (d *discard) Write(p []byte) (int, error)  { d.size += int64(len(p)); return len(p), nil }
func (d *discard) Commit(context.Context) error { return nil }
func (d *discard) Abort()                       {}

// TestWriterMemory: the length of a stream does not show in memory.
func TestWriterMemory(t *testing.T) {
	as := arrow.NewSchema([]arrow.Field{{Name: "n", Type: arrow.PrimitiveTypes.Int64}, {Name: "s", Type: arrow.BinaryTypes.String}}, nil)
	s, err := schema.FromArrow(as, schema.FromOptions{})
	if err != nil {
		t.Fatal(err)
	}
	sink := &discard{}
	w, err := datafile.NewWriter(sink, s, datafile.WriterOptions{PageBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	b := array.NewRecordBuilder(memory.DefaultAllocator, as)
	for range 10_000 {
		b.Field(0).(*array.Int64Builder).Append(int64(rng.Uint64()))
		b.Field(1).(*array.StringBuilder).Append(fmt.Sprintf("%x", rng.Uint64()))
	}
	batch := b.NewRecordBatch()
	inUse := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before, most := inUse(), uint64(0)
	for i := range 500 {
		if err := w.Write(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
		if i%50 == 49 {
			most = max(most, inUse())
		}
	}
	if sink.size < 32<<20 {
		t.Fatalf("only %d bytes were written", sink.size)
	}
	if most > before+16<<20 {
		t.Errorf("%d MiB in use while %d MiB were written", (most-before)>>20, sink.size>>20)
	}
	w.Abort()
}

// TestWriterFaults: whatever call of the store fails, the error comes out,
// nothing can be seen, and only Abort is left.
func TestWriterFaults(t *testing.T) {
	t.Parallel()
	s := blobSchema(t)
	write := func(store objstore.Store) (err error) {
		sink, err := store.Create(context.Background(), "data.lance")
		if err != nil {
			return err
		}
		w, err := datafile.NewWriter(sink, s, datafile.WriterOptions{})
		if err != nil {
			return err
		}
		defer w.Abort()
		defer func() {
			if _, again := w.Commit(context.Background()); again == nil {
				t.Error("a second commit")
			}
		}()
		for range 3 {
			if _, err := w.AppendOutOfLine(context.Background(), make([]byte, 300<<10)); err != nil {
				return err
			}
			if err := w.Write(context.Background(), emptyBatch(t, s, 100)); err != nil {
				return err
			}
		}
		_, err = w.Commit(context.Background())
		return err
	}
	calls := faultstore.New(objstore.NewMem("m"), faultstore.Plan{Count: func(c faultstore.Call) bool { return c.Op != faultstore.Abort }})
	if err := write(calls); err != nil {
		t.Fatal(err)
	}
	if len(calls.Calls()) < 4 {
		t.Fatalf("few calls: %s", calls.Trace())
	}
	for n := range calls.Calls() {
		mem := objstore.NewMem("m")
		store := faultstore.New(mem, faultstore.Plan{Call: n + 1, Count: func(c faultstore.Call) bool { return c.Op != faultstore.Abort }})
		if err := write(store); err == nil {
			t.Errorf("call %d fails and nobody notices", n+1)
		}
		if _, err := mem.Size(t.Context(), "data.lance"); fault.KindOf(err) != fault.NotFound {
			t.Errorf("call %d failed and left a file: %v", n+1, err)
		}
	}
}

func TestWriterRefuses(t *testing.T) {
	t.Parallel()
	s := blobSchema(t)
	good := emptyBatch(t, s, 5)
	renamed := array.NewRecordBatch(arrow.NewSchema([]arrow.Field{{Name: "other", Type: arrow.PrimitiveTypes.Int64}}, nil), good.Columns()[:1], 5)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		name string
		text string
		do   func(w *datafile.Writer) error
	}{
		{"too few columns", "a batch of 1 columns for a file of 5", func(w *datafile.Writer) error { return w.Write(t.Context(), renamed) }},
		{"columns in another order", `column 0 of the batch is "tail", of the file "id"`, func(w *datafile.Writer) error {
			fields := good.Schema().Fields()
			fields[0], fields[4] = fields[4], fields[0]
			columns := append([]arrow.Array{}, good.Columns()...)
			columns[0], columns[4] = columns[4], columns[0]
			return w.Write(t.Context(), array.NewRecordBatch(arrow.NewSchema(fields, nil), columns, 5))
		}},
		{"blobs as they are asked for", "column st.b", func(w *datafile.Writer) error {
			as, err := s.Arrow(schema.Materialized)
			if err != nil {
				return err
			}
			fields, columns := good.Schema().Fields(), append([]arrow.Array{}, good.Columns()...)
			fields[1] = as.Field(1)
			columns[1] = array.MakeArrayOfNull(memory.DefaultAllocator, fields[1].Type, 5)
			return w.Write(t.Context(), array.NewRecordBatch(arrow.NewSchema(fields, nil), columns, 5))
		}},
		{"after a cancel", "cancel", func(w *datafile.Writer) error { return w.Write(cancelled, good) }},
		{"a payload after a cancel", "cancel", func(w *datafile.Writer) error {
			_, err := w.AppendOutOfLine(cancelled, nil)
			return err
		}},
	} {
		mem := objstore.NewMem("m")
		w, err := datafile.NewWriter(create(t, mem), s, datafile.WriterOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.do(w); err == nil || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v", c.name, err)
		}
		if _, err := w.Commit(t.Context()); err == nil {
			t.Errorf("%s: and then a commit", c.name)
		}
		w.Abort()
		if _, err := mem.Size(t.Context(), "data.lance"); fault.KindOf(err) != fault.NotFound {
			t.Errorf("%s: left a file", c.name)
		}
	}
	if _, err := datafile.NewWriter(&discard{}, s, datafile.WriterOptions{Version: encoding.V2_0}); fault.KindOf(err) != fault.Unsupported {
		t.Errorf("format 2.0: %v", err)
	}
}
