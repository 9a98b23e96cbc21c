package flightsvc

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/flightblob/flightblob/flightsvc/wire"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/materialize"
	"github.com/flightblob/flightblob/schema"
)

// tape is a stream that keeps the encoded length and rows of each message.
type tape struct {
	grpc.ServerStream
	lengths []int
	bodies  []*flight.FlightData
}

func (s *tape) Context() context.Context { return context.Background() }

func (s *tape) SendMsg(m any) error {
	b, err := wire.Codec().Marshal(m)
	if err != nil {
		return err
	}
	defer b.Free()
	raw := b.Materialize()
	fd := new(flight.FlightData)
	if err := proto.Unmarshal(raw, fd); err != nil {
		return err
	}
	s.lengths = append(s.lengths, len(raw))
	s.bodies = append(s.bodies, fd)
	return nil
}

// read decodes what was sent.
func (s *tape) read(t *testing.T) []arrow.RecordBatch {
	t.Helper()
	r, err := flight.NewRecordReader(&player{messages: s.bodies})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	var all []arrow.RecordBatch
	for r.Next() {
		b := r.RecordBatch()
		b.Retain()
		t.Cleanup(b.Release)
		all = append(all, b)
	}
	if err := r.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

type player struct{ messages []*flight.FlightData }

func (p *player) Recv() (*flight.FlightData, error) {
	if len(p.messages) == 0 {
		return nil, io.EOF
	}
	m := p.messages[0]
	p.messages = p.messages[1:]
	return m, nil
}

func fromJSON(t testing.TB, typ arrow.DataType, json string) arrow.Array {
	t.Helper()
	a, _, err := array.FromJSON(memory.DefaultAllocator, typ, strings.NewReader(json))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Release)
	return a
}

func batch(t testing.TB, columns ...arrow.Array) arrow.RecordBatch {
	t.Helper()
	fields := make([]arrow.Field, len(columns))
	for i, c := range columns {
		fields[i] = arrow.Field{Name: fmt.Sprint("c", i), Type: c.DataType(), Nullable: true}
	}
	b := array.NewRecordBatch(arrow.NewSchema(fields, nil), columns, int64(columns[0].Len()))
	t.Cleanup(b.Release)
	return b
}

func repeat(item string, n int) string {
	return "[" + strings.TrimSuffix(strings.Repeat(item+",", n), ",") + "]"
}

// varied has columns of all layouts, n rows of about width bytes in each
// variable column.
func varied(t testing.TB, n, width int) arrow.RecordBatch {
	t.Helper()
	text := `"` + strings.Repeat("x", width) + `"`
	item := arrow.StructOf(
		arrow.Field{Name: "s", Type: arrow.BinaryTypes.String, Nullable: true},
		arrow.Field{Name: "n", Type: arrow.PrimitiveTypes.Int16, Nullable: true},
	)
	return batch(t,
		fromJSON(t, arrow.PrimitiveTypes.Int64, repeat("7,null", n/2)),
		fromJSON(t, arrow.FixedWidthTypes.Boolean, repeat("true,null", n/2)),
		fromJSON(t, arrow.BinaryTypes.String, repeat(text+`,""`, n/2)),
		fromJSON(t, arrow.BinaryTypes.LargeString, repeat(`null,`+text, n/2)),
		fromJSON(t, arrow.ListOf(arrow.BinaryTypes.String), repeat(`[`+text+`,"b"],null`, n/2)),
		fromJSON(t, arrow.LargeListOf(item), repeat(`[{"s":`+text+`,"n":1}],[]`, n/2)),
		fromJSON(t, arrow.FixedSizeListOf(3, arrow.PrimitiveTypes.Float32), repeat("[1,2,3],null", n/2)),
		fromJSON(t, arrow.Null, repeat("null", n)),
		fromJSON(t, item, repeat(`{"s":`+text+`,"n":null},null`, n/2)),
		fromJSON(t, arrow.FixedWidthTypes.Date32, repeat(`"2026-01-01",null`, n/2)),
	)
}

// The computed length is at least the real one and not far above it, for whole
// batches and for slices at any offset.
func TestEncodedLength(t *testing.T) {
	t.Parallel()
	whole := varied(t, 1000, 40)
	for _, cut := range [][2]int64{{0, 1000}, {0, 1}, {3, 4}, {1, 17}, {13, 513}, {999, 1000}, {7, 7}} {
		part := whole.NewSlice(cut[0], cut[1])
		defer part.Release()
		for name, b := range map[string]struct {
			rec      arrow.RecordBatch
			from, to int64
		}{
			"of the whole": {whole, cut[0], cut[1]},
			"of the slice": {part, 0, part.NumRows()},
		} {
			var sent tape
			w, err := wire.NewWriter(&sent, part.Schema(), wire.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if err := w.Write(part, nil); err != nil {
				t.Fatal(err)
			}
			real := int64(sent.lengths[1])
			if got := encodedBatch(b.rec, b.from, b.to, wire.Uncompressed); got < real || got > real+real/20+3000 {
				t.Errorf("rows %v %s: computed %d, real %d", cut, name, got, real)
			}
		}
	}
}

// fakeRows is a reader over ready batches.
type fakeRows struct {
	array.RecordReader
	batches []arrow.RecordBatch
	cur     arrow.RecordBatch
}

func (r *fakeRows) Next() bool {
	if len(r.batches) == 0 {
		return false
	}
	r.cur, r.batches = r.batches[0], r.batches[1:]
	return true
}

func (r *fakeRows) RecordBatch() arrow.RecordBatch { return r.cur }
func (r *fakeRows) Err() error                     { return nil }

func send(t *testing.T, set settings, batches ...arrow.RecordBatch) (*tape, error) {
	t.Helper()
	s := &Server{}
	var out tape
	w, err := s.newSender(&out, batches[0].Schema(), &Ticket{}, set, wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return &out, w.all(&fakeRows{batches: batches})
}

// Batches of whatever columns are cut so that no message reaches the limit, and
// nothing is lost, added or reordered.
func TestWideRowsAreCutByBytes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		message     int64
		rows, width int
	}{{minMessage, 200, 100}, {100_000, 400, 3000}, {defaultMessage, 2000, 3000}} {
		t.Run(fmt.Sprint(tc.message), func(t *testing.T) {
			t.Parallel()
			message, b := tc.message, varied(t, tc.rows, tc.width)
			out, err := send(t, settings{message: message, limit: protocolLimit}, b)
			if err != nil {
				t.Fatal(err)
			}
			got := out.read(t)
			rows := int64(0)
			for i, part := range got {
				if n := int64(out.lengths[i+1]); n > message && part.NumRows() > 1 {
					t.Errorf("message %d has %d bytes and %d rows", i, n, part.NumRows())
				}
				if part.NumRows() == 0 {
					t.Errorf("message %d is empty", i)
				}
				want := b.NewSlice(rows, rows+part.NumRows())
				if !array.RecordEqual(part, want) {
					t.Errorf("message %d differs from rows %d on", i, rows)
				}
				want.Release()
				rows += part.NumRows()
			}
			if rows != b.NumRows() {
				t.Errorf("%d rows, want %d", rows, b.NumRows())
			}
			if message == defaultMessage && len(got) > 8 {
				t.Errorf("%d messages: they are cut too small", len(got))
			}
		})
	}
}

func TestEmptyBatchesAreLeftOut(t *testing.T) {
	t.Parallel()
	b := varied(t, 10, 3)
	none := b.NewSlice(4, 4)
	defer none.Release()
	out, err := send(t, settings{message: defaultMessage, limit: protocolLimit}, none, b, none)
	if err != nil {
		t.Fatal(err)
	}
	if len(out.lengths) != 2 {
		t.Errorf("%d messages, want schema and one batch", len(out.lengths))
	}
}

// A row that no message may hold is named, with what to do.
func TestRowOverTheLimit(t *testing.T) {
	t.Parallel()
	b := batch(t,
		fromJSON(t, arrow.PrimitiveTypes.Int64, "[1,2,3]"),
		fromJSON(t, arrow.BinaryTypes.String, `["a","`+strings.Repeat("x", 9000)+`","c"]`),
	)
	out, err := send(t, settings{message: 4000, limit: 8000}, b)
	if err == nil {
		t.Fatal("sent")
	}
	large, ok := err.(*materialize.TooLargeError) //nolint:errorlint // returned as it is
	if !ok || large.Field != "c1" || large.Row != 1 || large.Limit != 8000 || large.Size < 9000 {
		t.Fatalf("got %#v", err)
	}
	if len(out.lengths) != 2 {
		t.Errorf("%d messages before the error, want schema and the first row", len(out.lengths))
	}
	text := (&Ticket{}).detail(blobs(t, "c1"), err).Error()
	for _, want := range []string{`"c1"`, "row 1", "8000", clientOption, "max_message_bytes", headerMaxMessage, "ranges", "blob_range"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q does not name %q", text, want)
		}
	}
}

// A range ticket is no way around a long value of a column that is no blob.
func TestTooLargeWithoutRanges(t *testing.T) {
	t.Parallel()
	large := &materialize.TooLargeError{Field: "plain", Row: 3, Size: 9000, Limit: 8000}
	text := (&Ticket{}).detail(blobs(t, "c1"), large).Error()
	if strings.Contains(text, "range") || !strings.Contains(text, "fewer columns") || !strings.Contains(text, `"plain", row 3`) {
		t.Errorf("got %q", text)
	}
}

// blobs is a schema with one blob column and a plain one.
func blobs(t *testing.T, name string) *schema.Schema {
	t.Helper()
	sch, err := schema.FromRecords([]schema.Record{
		{ID: 0, ParentID: -1, Name: name, LogicalType: "large_binary", Nullable: true, Metadata: map[string]string{"lance-encoding:blob": "true"}},
		{ID: 1, ParentID: -1, Name: "plain", LogicalType: "large_binary", Nullable: true},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return sch
}

// A dictionary goes in one message whatever the rows; one that no message may
// hold is an error, and the bi profile a way around it.
func TestDictionaryOverTheLimit(t *testing.T) {
	t.Parallel()
	words := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: arrow.BinaryTypes.String}
	values := make([]string, 1000)
	for i := range values {
		values[i] = fmt.Sprintf(`"%0100d"`, i)
	}
	b := batch(t, fromJSON(t, words, "["+strings.Join(values, ",")+"]"))
	_, err := send(t, settings{message: 4000, limit: 8000}, b)
	if fault.KindOf(err) != fault.Exhausted {
		t.Fatalf("got %v", err)
	}
	text := (&Ticket{}).detail(blobs(t, "c1"), err).Error()
	for _, want := range []string{"dictionaries", "8000", clientOption, "max_message_bytes"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q does not name %q", text, want)
		}
	}
	out, err := send(t, settings{message: 4000, limit: 8000, bi: true}, b)
	if err != nil {
		t.Fatal(err)
	}
	for i, n := range out.lengths[1:] {
		if n > 4000 {
			t.Errorf("message %d has %d bytes", i, n)
		}
	}
}
