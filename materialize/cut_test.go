package materialize

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/schema"
)

// encoded is the size of a batch's IPC message.
func encoded(tb testing.TB, rec arrow.RecordBatch) int64 {
	tb.Helper()
	p, err := ipc.GetRecordBatchPayload(rec)
	if err != nil {
		tb.Fatal(err)
	}
	defer p.Release()
	var buf bytes.Buffer
	if _, err := p.WritePayload(&buf); err != nil {
		tb.Fatal(err)
	}
	return int64(buf.Len())
}

// sizes materializes a source and gives rows and message size of each batch.
func (w *world) sizes(src *source, o Options) (counts []int64, messages []int64, err error) {
	w.tb.Helper()
	r, err := NewReader(w.tb.Context(), src, w.blobs, w.options(o))
	src.Release()
	if err != nil {
		return nil, nil, err
	}
	defer r.Release()
	for r.Next() {
		counts = append(counts, r.RecordBatch().NumRows())
		messages = append(messages, encoded(w.tb, r.RecordBatch()))
	}
	return counts, messages, r.Err()
}

func TestCutsByBytes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.store.objects["data/f.lance"] = make([]byte, 1<<20)
	var in []string
	for i := range 200 {
		in = append(in, inline(i*100, 1000+i*10))
	}
	counts, messages, err := w.sizes(w.img(rows(in...)), Options{BatchBytes: 20000})
	if err != nil {
		t.Fatal(err)
	}
	var total int64
	for i, n := range counts {
		total += n
		if messages[i] > 20000 {
			t.Errorf("batch %d has %d bytes", i, messages[i])
		}
		if i < len(counts)-1 && messages[i] < 14000 {
			t.Errorf("batch %d of %d bytes could be larger", i, messages[i])
		}
	}
	if total != 200 {
		t.Errorf("%d rows", total)
	}
}

func TestCutsCountAllColumns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.store.objects["data/f.lance"] = []byte(letters)
	fields := []arrow.Field{
		descriptorField("img"),
		{Name: "text", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "tags", Type: arrow.ListOf(arrow.BinaryTypes.String), Nullable: true},
	}
	var in []string
	for range 50 {
		in = append(in, fmt.Sprintf(`{"img":%s,"text":%q,"tags":[%q,%q]}`, inline(0, 5),
			strings.Repeat("x", 1000), strings.Repeat("y", 500), strings.Repeat("z", 500)))
	}
	counts, messages, err := w.sizes(w.source(fields, "["+strings.Join(in, ",")+"]"), Options{BatchBytes: 12000})
	if err != nil {
		t.Fatal(err)
	}
	if len(counts) < 8 {
		t.Errorf("cut into %v rows: the other columns were not counted", counts)
	}
	for i, n := range messages {
		if n > 12000 {
			t.Errorf("batch %d has %d bytes", i, n)
		}
	}
}

func TestLargeRowsGoAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.store.objects["data/f.lance"] = make([]byte, 100000)
	counts, _, err := w.sizes(w.img(rows(inline(0, 10), inline(0, 90000), inline(0, 10), inline(0, 10))), Options{BatchBytes: 10000})
	if err != nil || fmt.Sprint(counts) != "[1 1 2]" {
		t.Errorf("cut into %v, %v", counts, err)
	}
}

func TestTooLarge(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.store.objects["data/f.lance"] = []byte(letters)
	src := w.source([]arrow.Field{descriptorField("a"), descriptorField("b")},
		fmt.Sprintf(`[{"a":%s,"b":null},{"a":%s,"b":%s}]`, inline(0, 3), inline(0, 3), inline(0, 1<<30)))
	got, err := w.run(src, Options{MaxValue: 1 << 20, FirstRow: 10})
	var large *TooLargeError
	if !errors.As(err, &large) || large.Field != "b" || large.Row != 11 || large.Limit != 1<<20 {
		t.Fatalf("error %v", err)
	}
	if large.Size < 1<<30 || large.Size > 1<<30+4096 {
		t.Errorf("size %d", large.Size)
	}
	if fault.KindOf(err) != fault.Exhausted {
		t.Errorf("kind %v", fault.KindOf(err))
	}
	for _, text := range []string{"b", "row 11", "1048576", "blob_range", "max_message_bytes"} {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("error %q lacks %q", err, text)
		}
	}
	if len(got) != 1 || w.store.log() != "data/f.lance [0, 3)" {
		t.Errorf("the row was fetched, or the one before it lost: %s", got)
	}
	t.Run("sizes of 2^64-1 do not overflow", func(t *testing.T) {
		in := `{"kind":0,"position":0,"size":18446744073709551615,"blob_id":0,"blob_uri":""}`
		_, err := w.run(w.img(rows(in)), Options{})
		if !errors.As(err, &large) {
			t.Errorf("error %v", err)
		}
		l := descriptorField("item")
		_, err = w.run(w.source([]arrow.Field{{Name: "l", Type: arrow.ListOfField(l)}}, `[{"l":[`+in+","+in+","+in+`]}]`), Options{MaxValue: 1 << 62})
		if !errors.As(err, &large) || large.Field != "l.item" {
			t.Errorf("error %v", err)
		}
	})
}

// TestHostileSize: a descriptor's word alone does not make the server take
// memory.
func TestHostileSize(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.store.objects["data/f.lance"] = []byte(letters)
	b := NewBudget(1 << 20)
	_, err := w.run(w.img(rows(inline(0, 1<<40))), Options{MaxValue: 1 << 50, Budget: b})
	if fault.KindOf(err) != fault.Corrupt || !strings.Contains(err.Error(), "holds 26 bytes") {
		t.Errorf("error %v", err)
	}
	if s := b.Stats(); s.Peak != 0 {
		t.Errorf("%d bytes were admitted", s.Peak)
	}
}

// TestWeights compares estimates with what the IPC writer makes of the rows.
func TestWeights(t *testing.T) {
	t.Parallel()
	for _, dt := range []arrow.DataType{
		arrow.Null,
		arrow.FixedWidthTypes.Boolean,
		arrow.PrimitiveTypes.Int8,
		arrow.PrimitiveTypes.Float64,
		&arrow.Decimal128Type{Precision: 30, Scale: 2},
		&arrow.FixedSizeBinaryType{ByteWidth: 13},
		arrow.BinaryTypes.String,
		arrow.BinaryTypes.LargeString,
		arrow.BinaryTypes.Binary,
		arrow.BinaryTypes.LargeBinary,
		arrow.BinaryTypes.StringView,
		arrow.ListOf(arrow.PrimitiveTypes.Int32),
		arrow.LargeListOf(arrow.BinaryTypes.String),
		arrow.FixedSizeListOf(5, arrow.PrimitiveTypes.Float32),
		arrow.FixedSizeListOf(2, arrow.BinaryTypes.String),
		arrow.MapOf(arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int64),
		arrow.StructOf(arrow.Field{Name: "a", Type: arrow.BinaryTypes.String, Nullable: true},
			arrow.Field{Name: "b", Type: arrow.ListOf(arrow.FixedWidthTypes.Boolean), Nullable: true}),
	} {
		t.Run(dt.String(), func(t *testing.T) {
			t.Parallel()
			const n = 1000
			sch := arrow.NewSchema([]arrow.Field{{Name: "c", Type: dt, Nullable: true}}, nil)
			arr := randomArray(t, dt, n, 1)
			defer arr.Release()
			all := array.NewRecordBatch(sch, []arrow.Array{arr}, n)
			defer all.Release()
			tr, err := newTree(sch, nil, schema.Materialized, false)
			if err != nil {
				t.Fatal(err)
			}
			w := newColumnWeights(tr, all)
			parts := [][2]int{{0, n}, {0, 1}, {13, 14}, {100, 900}}
			if dt.ID() == arrow.STRING_VIEW { // a slice drags the whole data buffer along; no source has them
				parts = parts[:1]
			}
			for _, r := range parts {
				part := all.NewSlice(int64(r[0]), int64(r[1]))
				bits := overhead(sch)
				for i := r[0]; i < r[1]; i++ {
					bits += w.row(i)
				}
				got, real := bits/8, encoded(t, part)
				if got < real || got > real+real/10+4096 {
					t.Errorf("rows %v: estimate %d for %d bytes", r, got, real)
				}
				part.Release()
			}
		})
	}
}

// randomArray fills an array of any type with what JSON can say.
func randomArray(t *testing.T, dt arrow.DataType, n int, seed int) arrow.Array {
	t.Helper()
	b := array.NewBuilder(memory.DefaultAllocator, dt)
	defer b.Release()
	for i := range n {
		appendRandom(b, seed*31+i)
	}
	return b.NewArray()
}

func appendRandom(b array.Builder, k int) {
	if k%7 == 3 {
		b.AppendNull()
		return
	}
	switch b := b.(type) {
	case *array.StructBuilder:
		b.Append(true)
		for i := range b.NumField() {
			appendRandom(b.FieldBuilder(i), k*3+i)
		}
	case *array.ListBuilder:
		b.Append(true)
		for i := range k % 5 {
			appendRandom(b.ValueBuilder(), k+i)
		}
	case *array.LargeListBuilder:
		b.Append(true)
		for i := range k % 5 {
			appendRandom(b.ValueBuilder(), k+i)
		}
	case *array.MapBuilder:
		b.Append(true)
		for i := range k % 4 {
			b.KeyBuilder().(*array.StringBuilder).Append(strings.Repeat("k", i))
			appendRandom(b.ItemBuilder(), k+i)
		}
	case *array.FixedSizeListBuilder:
		b.Append(true)
		for i := range int(b.Type().(*arrow.FixedSizeListType).Len()) {
			appendRandom(b.ValueBuilder(), k+i)
		}
	case interface{ Append(string) }:
		b.Append(strings.Repeat("v", k%40))
	case interface{ Append([]byte) }:
		if f, ok := b.(*array.FixedSizeBinaryBuilder); ok {
			f.Append(make([]byte, f.Type().(*arrow.FixedSizeBinaryType).ByteWidth))
			return
		}
		b.Append(make([]byte, k%40))
	default:
		b.AppendEmptyValue()
	}
}
