package rowset

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"

	"github.com/flightblob/flightblob/internal/fault"
)

var deletedField = arrow.Field{Name: "row_id", Type: arrow.PrimitiveTypes.Uint32}

// arrowFile writes batches as an Arrow file.
func arrowFile(t testing.TB, field arrow.Field, batches [][]uint32, options ...ipc.Option) []byte {
	t.Helper()
	schema := arrow.NewSchema([]arrow.Field{field}, nil)
	var out bytes.Buffer
	w, err := ipc.NewFileWriter(&out, append([]ipc.Option{ipc.WithSchema(schema)}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	for _, values := range batches {
		b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
		for _, v := range values {
			switch b := b.Field(0).(type) {
			case *array.Uint32Builder:
				b.Append(v)
			case *array.Int32Builder:
				b.Append(int32(v))
			case *array.Uint64Builder:
				b.Append(uint64(v))
			}
		}
		if err := w.Write(b.NewRecordBatch()); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func bitmapFile(t testing.TB, b *roaring.Bitmap) []byte {
	t.Helper()
	data, err := b.ToBytes()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// model is the obvious form of a deletion vector.
type model []bool

func modelOf(rows uint64, b *roaring.Bitmap) model {
	m := make(model, rows)
	for _, v := range b.ToArray() {
		m[v] = true
	}
	return m
}

func (m model) live() []uint64 {
	var out []uint64
	for i, deleted := range m {
		if !deleted {
			out = append(out, uint64(i))
		}
	}
	return out
}

// ranges joins the live rows [start, end) where they are neighbours.
func ranges(live []uint64, start, end uint64) []Range {
	var out []Range
	for _, at := range live[min(start, uint64(len(live))):min(end, uint64(len(live)))] {
		if n := len(out); n > 0 && out[n-1].End == at {
			out[n-1].End++
		} else {
			out = append(out, Range{at, at + 1})
		}
	}
	return out
}

func collect(d *Deletions, start, end uint64) []Range {
	var out []Range
	for r := range d.LiveRanges(start, end) {
		out = append(out, r)
	}
	return out
}

// shapes are bitmaps with each kind of container and the borders between them.
func shapes() map[string]struct {
	rows uint64
	b    *roaring.Bitmap
} {
	type shape = struct {
		rows uint64
		b    *roaring.Bitmap
	}
	rng := rand.New(rand.NewPCG(1, 2))
	sparse, dense, mixed, runs, edges := roaring.New(), roaring.New(), roaring.New(), roaring.New(), roaring.New()
	for range 3000 {
		sparse.Add(uint32(rng.IntN(200_000)))
	}
	for range 60_000 {
		dense.Add(uint32(rng.IntN(150_000)))
	}
	mixed.AddRange(10, 70_000)
	for range 9000 {
		mixed.Add(140_000 + uint32(rng.IntN(50_000)))
	}
	mixed.Add(299_999)
	mixed.RunOptimize()
	for i := uint64(0); i < 320_000; i += 1000 {
		runs.AddRange(i, i+uint64(rng.IntN(900)))
	}
	runs.RunOptimize()
	edges.AddMany([]uint32{0, 65535, 65536, 131071, 131072, 200_000})
	all := roaring.New()
	all.AddRange(0, 70_000)
	return map[string]shape{
		"sparse": {200_000, sparse}, "dense": {150_000, dense}, "mixed": {300_000, mixed},
		"runs": {320_000, runs}, "edges": {200_001, edges}, "all": {70_000, all},
		"empty": {100, roaring.New()}, "one": {1, roaring.BitmapOf(0)},
	}
}

func TestDeletionsAgainstModel(t *testing.T) {
	t.Parallel()
	for name, s := range shapes() {
		files := map[string][]byte{"bitmap": bitmapFile(t, s.b)}
		offsets := s.b.ToArray()
		rand.New(rand.NewPCG(3, 4)).Shuffle(len(offsets), func(i, j int) { offsets[i], offsets[j] = offsets[j], offsets[i] })
		files["plain array"] = arrowFile(t, deletedField, [][]uint32{offsets})
		files["zstd array"] = arrowFile(t, deletedField, [][]uint32{offsets}, ipc.WithZstd())
		files["lz4 array"] = arrowFile(t, deletedField, [][]uint32{offsets}, ipc.WithLZ4())
		for form, data := range files {
			t.Run(name+" "+form, func(t *testing.T) {
				t.Parallel()
				d, err := DecodeDeletions(data, form == "bitmap", s.rows)
				if err != nil {
					t.Fatal(err)
				}
				checkModel(t, d, modelOf(s.rows, s.b))
			})
		}
	}
}

// sampled picks the rows that are compared one by one: some, and all around
// the borders of chunks.
func sampled(row uint64) bool {
	low := row % chunkSize
	return row%17 == 0 || low < 70 || low > chunkSize-70
}

func checkModel(t *testing.T, d *Deletions, m model) {
	t.Helper()
	live := m.live()
	if d.Live() != uint64(len(live)) || d.Count() != uint64(len(m)-len(live)) || d.Rows() != uint64(len(m)) {
		t.Fatalf("%d live, %d deleted, %d rows", d.Live(), d.Count(), d.Rows())
	}
	for i, at := range live {
		if !sampled(at) && i > 0 && i < len(live)-1 {
			continue
		}
		if got, ok := d.Select(uint64(i)); !ok || got != at {
			t.Fatalf("Select(%d) = %d, %v, want %d", i, got, ok, at)
		}
	}
	if at, ok := d.Select(uint64(len(live))); ok {
		t.Fatalf("Select past the end = %d", at)
	}
	before := uint64(0)
	for i, deleted := range m {
		if sampled(uint64(i)) && d.Contains(uint64(i)) != deleted {
			t.Fatalf("Contains(%d) = %v", i, !deleted)
		}
		if sampled(uint64(i)) {
			if got := d.LiveBefore(uint64(i)); got != before {
				t.Fatalf("LiveBefore(%d) = %d, want %d", i, got, before)
			}
		}
		if !deleted {
			before++
		}
	}
	if got := d.LiveBefore(uint64(len(m)) + 5); got != before {
		t.Fatalf("LiveBefore past the end = %d, want %d", got, before)
	}
	if d.Contains(uint64(len(m))) {
		t.Fatal("a row past the end is deleted")
	}
	n := uint64(len(live))
	for _, r := range [][2]uint64{{0, n}, {0, 1}, {n / 3, n / 2}, {n / 2, n + 10}, {n, n + 1}, {5, 5}, {7, 3}, {n - min(n, 1), n}} {
		if want, got := ranges(live, r[0], max(r[0], r[1])), collect(d, r[0], r[1]); !slices.Equal(want, got) {
			t.Fatalf("LiveRanges(%d, %d) = %v, want %v", r[0], r[1], got, want)
		}
	}
	for range d.LiveRanges(0, n) { // breaking off early must be harmless
		break
	}
}

func TestDeletionsAtTheLastAddress(t *testing.T) {
	t.Parallel()
	b := roaring.New()
	b.AddRange(1<<32-3, 1<<32)
	b.Add(0)
	d, err := DecodeDeletions(bitmapFile(t, b), true, 1<<32)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Range{{1, 1<<32 - 3}}, collect(d, 0, 1<<32)); diff != "" {
		t.Error(diff)
	}
	if at, ok := d.Select(1<<32 - 5); !ok || at != 1<<32-4 {
		t.Errorf("the last live row is %d, %v", at, ok)
	}
	if !d.Contains(1<<32-1) || d.LiveBefore(1<<32) != 1<<32-4 {
		t.Error("the last row is not deleted")
	}
}

func TestNone(t *testing.T) {
	t.Parallel()
	checkModel(t, None(10), make(model, 10))
	checkModel(t, None(0), model{})
	if got := None(10).String(); got != "0 of 10 rows deleted" {
		t.Error(got)
	}
}

// fixtureDeletions lists the deletion files that the reference wrote.
func fixtureDeletions(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob("../../conformance/fixtures/tables/*/*.lance/_deletions/*")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 10 {
		t.Fatalf("only %d deletion files among the fixtures", len(files))
	}
	return files
}

// TestReferenceDeletions reads what the reference wrote and compares with the
// libraries' readers; that counts agree with manifests is tested there.
func TestReferenceDeletions(t *testing.T) {
	t.Parallel()
	for _, file := range fixtureDeletions(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			bitmap := strings.HasSuffix(file, ".bin")
			want := roaring.New()
			if bitmap {
				if err := want.UnmarshalBinary(data); err != nil {
					t.Fatal(err)
				}
			} else {
				r, err := ipc.NewFileReader(bytes.NewReader(data))
				if err != nil {
					t.Fatal(err)
				}
				batch, err := r.RecordBatch(0)
				if err != nil {
					t.Fatal(err)
				}
				want.AddMany(batch.Column(0).(*array.Uint32).Uint32Values())
			}
			if want.IsEmpty() {
				t.Fatal("the file deletes nothing")
			}
			rows := uint64(want.Maximum()) + 10
			d, err := DecodeDeletions(data, bitmap, rows)
			if err != nil {
				t.Fatal(err)
			}
			checkModel(t, d, modelOf(rows, want))
			if _, err := DecodeDeletions(data, bitmap, uint64(want.Maximum())); fault.KindOf(err) != fault.Corrupt {
				t.Errorf("a row past the fragment gives %v", err)
			}
		})
	}
}

func TestDamagedDeletions(t *testing.T) {
	t.Parallel()
	good := arrowFile(t, deletedField, [][]uint32{{3, 1, 2}})
	zipped := arrowFile(t, deletedField, [][]uint32{make([]uint32, 1000)}, ipc.WithZstd())
	bits := roaring.New()
	bits.AddRange(0, 5000)
	dense := roaring.New()
	for i := uint32(0); i < 60_000; i += 2 {
		dense.Add(i)
	}
	nullable := deletedField
	nullable.Nullable = true
	renamed := deletedField
	renamed.Name = "rowid"
	patch := func(data []byte, at int, b ...byte) []byte {
		out := bytes.Clone(data)
		copy(out[at:], b)
		return out
	}
	tests := []struct {
		name   string
		data   []byte
		bitmap bool
		rows   uint64
		want   string
	}{
		{"array empty file", nil, false, 10, "magic"},
		{"array cut short", good[:len(good)-1], false, 10, "magic"},
		{"array of text", []byte(strings.Repeat("ARROW1", 20)), false, 10, "footer"},
		{"array footer length", patch(good, len(good)-10, 0xFF, 0xFF, 0xFF, 0x7F), false, 10, "footer"},
		{"array two batches", arrowFile(t, deletedField, [][]uint32{{1}, {2}}), false, 10, "2 batches"},
		{"array no batch", arrowFile(t, deletedField, nil), false, 10, "0 batches"},
		{"array nullable", arrowFile(t, nullable, [][]uint32{{1}}), false, 10, "nullable"},
		{"array other name", arrowFile(t, renamed, [][]uint32{{1}}), false, 10, `"rowid"`},
		{"array signed", arrowFile(t, arrow.Field{Name: "row_id", Type: arrow.PrimitiveTypes.Int32}, [][]uint32{{1}}), false, 10, "not of type uint32"},
		{"array wide", arrowFile(t, arrow.Field{Name: "row_id", Type: arrow.PrimitiveTypes.Uint64}, [][]uint32{{1}}), false, 10, "not of type uint32"},
		{"array more rows than the fragment", good, false, 2, "it has 3 rows, the fragment 2"},
		{"array offset past the fragment", good, false, 3, "row 3 is deleted in a fragment of 3 rows"},
		{"array claims much", patch(zipped, bytes.Index(zipped, []byte{0x28, 0xB5, 0x2F, 0xFD})-8, 0, 0, 0, 0, 0xFF), false, 5000, "claim"},
		{"array broken frame", patch(zipped, bytes.Index(zipped, []byte{0x28, 0xB5, 0x2F, 0xFD})+4, 0xFF, 0xFF, 0xFF, 0xFF), false, 5000, "decompress"},
		{"rows past 32 bits", good, false, 1<<32 + 1, "more than a fragment can have"},
		{"bitmap empty file", nil, true, 10, "cookie"},
		{"bitmap cookie", []byte("LANCLANC"), true, 10, "the cookie is"},
		{"bitmap cut short", bitmapFile(t, dense)[:5000], true, 1 << 20, "cut short"},
		{"bitmap followed", append(bitmapFile(t, bits), 0), true, 1 << 20, "1 bytes follow"},
		{"bitmap count", patch(bitmapFile(t, dense), 16, 0xFF), true, 1 << 20, "bits are set"},
		{"bitmap containers", []byte{0x3A, 0x30, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF}, true, 10, "containers"},
		{"bitmap keys", roaringOf([]uint16{1, 1}, [][]uint16{{0}, {0}}), true, 1 << 20, "does not ascend"},
		{"bitmap members", roaringOf([]uint16{0}, [][]uint16{{7, 5}}), true, 1 << 20, "members do not ascend"},
		{"bitmap offset past the fragment", bitmapFile(t, bits), true, 4999, "row 4999 is deleted in a fragment of 4999 rows"},
		{"bitmap runs overlap", []byte{0x3B, 0x30, 0, 0, 1, 0, 0, 9, 0, 2, 0, 0, 0, 5, 0, 3, 0, 5, 0}, true, 100, "runs"},
		{"bitmap runs leave", []byte{0x3B, 0x30, 0, 0, 1, 0, 0, 9, 0, 1, 0, 0xFF, 0xFF, 1, 0}, true, 1 << 20, "runs"},
		{"bitmap no runs", []byte{0x3B, 0x30, 0, 0, 1, 0, 0, 9, 0, 0, 0}, true, 1 << 20, "runs"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := DecodeDeletions(tt.data, tt.bitmap, tt.rows)
			if fault.KindOf(err) != fault.Corrupt || !strings.Contains(fmt.Sprint(err), tt.want) {
				t.Errorf("got %v, want corruption with %q", err, tt.want)
			}
		})
	}
}

// TestNullOffsets damages a file so that it claims a null.
func TestNullOffsets(t *testing.T) {
	t.Parallel()
	nullable := deletedField
	nullable.Nullable = true
	schema := arrow.NewSchema([]arrow.Field{nullable}, nil)
	var out bytes.Buffer
	w, err := ipc.NewFileWriter(&out, ipc.WithSchema(schema))
	if err != nil {
		t.Fatal(err)
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	b.Field(0).(*array.Uint32Builder).AppendValues([]uint32{1, 2}, []bool{true, false})
	if err := w.Write(b.NewRecordBatch()); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	// Turn every "nullable: true" of the schema off by way of a writer that
	// never says so: the batch keeps its null.
	data := out.Bytes()
	clean := arrowFile(t, deletedField, [][]uint32{{1, 2}})
	if _, err := DecodeDeletions(clean, false, 10); err != nil {
		t.Fatal(err)
	}
	if _, err := DecodeDeletions(data, false, 10); !strings.Contains(fmt.Sprint(err), "nullable") {
		t.Errorf("a nullable column gives %v", err)
	}
	footer, ok := rootTable(buffer(data[len(data)-ipcTail-int(binary.LittleEndian.Uint32(data[len(data)-ipcTail:])) : len(data)-ipcTail]))
	if !ok {
		t.Fatal("no footer")
	}
	s, _ := footer.table(1)
	fields, _ := s.tables(1)
	field, _ := fields.at(0)
	at, ok := field.field(1)
	if !ok {
		t.Fatal("the field does not say nullable")
	}
	field.b[at] = 0
	if _, err := DecodeDeletions(data, false, 10); !strings.Contains(fmt.Sprint(err), "it has 1 nulls") {
		t.Errorf("a null gives %v", err)
	}
}

// roaringOf writes sorted containers as they are given, right or wrong.
func roaringOf(keys []uint16, members [][]uint16) []byte {
	out := binary.LittleEndian.AppendUint32(nil, roaringPlain)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(keys)))
	for i, k := range keys {
		out = binary.LittleEndian.AppendUint16(out, k)
		out = binary.LittleEndian.AppendUint16(out, uint16(len(members[i])-1))
	}
	out = append(out, make([]byte, 4*len(keys))...)
	for _, m := range members {
		for _, v := range m {
			out = binary.LittleEndian.AppendUint16(out, v)
		}
	}
	return out
}

func FuzzDecodeDeletions(f *testing.F) {
	for _, file := range fixtureDeletions(f) {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, strings.HasSuffix(file, ".bin"), uint32(20_000))
	}
	for _, s := range shapes() {
		f.Add(bitmapFile(f, s.b), true, uint32(s.rows))
	}
	f.Add(arrowFile(f, deletedField, [][]uint32{{5, 3}}, ipc.WithLZ4()), false, uint32(8))
	f.Fuzz(func(t *testing.T, data []byte, bitmap bool, rows uint32) {
		d, err := DecodeDeletions(data, bitmap, uint64(rows))
		if err != nil {
			if fault.KindOf(err) != fault.Corrupt {
				t.Fatalf("kind %v: %v", fault.KindOf(err), err)
			}
			return
		}
		live, at, checked := uint64(0), uint64(0), 0
		for r := range d.LiveRanges(0, d.Live()) {
			if r.Start >= r.End || r.Start < at || r.End > d.Rows() {
				t.Fatalf("range %v after %d", r, at)
			}
			if checked++; checked < 500 {
				if got, ok := d.Select(live); !ok || got != r.Start {
					t.Fatalf("Select(%d) = %d, %v, want %d", live, got, ok, r.Start)
				}
				if d.Contains(r.Start) || d.LiveBefore(r.Start) != live {
					t.Fatalf("row %d is deleted, or not the live row %d", r.Start, live)
				}
			}
			live += r.Len()
			at = r.End
		}
		if live != d.Live() {
			t.Fatalf("%d of %d live rows", live, d.Live())
		}
		again, err := DecodeDeletions(d.EncodeBitmap(), true, d.Rows())
		if err != nil || !same(d, again) {
			t.Fatalf("encoded anew: %v, %v", again, err)
		}
	})
}
