package wire

import (
	"bytes"
	"context"
	"fmt"
	"math/rand"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
)

// server answers DoGet by a function.
type server struct {
	flight.BaseFlightServer
	get func(flight.FlightService_DoGetServer) error
}

func (s *server) DoGet(_ *flight.Ticket, stream flight.FlightService_DoGetServer) error {
	return s.get(stream)
}

// serve starts a loopback server with this package's codec and listener and
// gives a client of it.
func serve(t testing.TB, get func(flight.FlightService_DoGetServer) error, dial ...grpc.DialOption) flight.Client {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(grpc.ForceServerCodecV2(Codec()), grpc.WriteBufferSize(0))
	flight.RegisterFlightServiceServer(s, &server{get: get})
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(NewListener(l))
	}()
	t.Cleanup(func() {
		s.Stop()
		<-done
	})
	return connect(t, l.Addr().String(), dial...)
}

func connect(t testing.TB, addr string, dial ...grpc.DialOption) flight.Client {
	t.Helper()
	dial = append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(1 << 30)),
	}, dial...)
	c, err := flight.NewClientWithMiddleware(addr, nil, nil, dial...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// write sends batches by a Writer.
func write(stream grpc.ServerStream, schema *arrow.Schema, opts Options, batches ...arrow.RecordBatch) error {
	w, err := NewWriter(stream, schema, opts)
	if err != nil {
		return err
	}
	defer w.Close()
	if err := w.WriteSchema(); err != nil {
		return err
	}
	for i, b := range batches {
		if err := w.Write(b, fmt.Appendf(nil, "batch %d", i)); err != nil {
			return err
		}
	}
	return nil
}

// recorder is a stream that marshals what it is sent and keeps it.
type recorder struct {
	grpc.ServerStream
	messages []*flight.FlightData
	buffers  int
}

func (r *recorder) Context() context.Context     { return context.Background() }
func (r *recorder) SetHeader(metadata.MD) error  { return nil }
func (r *recorder) SendHeader(metadata.MD) error { return nil }

func (r *recorder) SendMsg(m any) error {
	b, err := Codec().Marshal(m)
	if err != nil {
		return err
	}
	r.buffers += len(b)
	fd := new(flight.FlightData)
	if err := proto.Unmarshal(b.Materialize(), fd); err != nil {
		return err
	}
	b.Free()
	r.messages = append(r.messages, fd)
	return nil
}

// Send implements flight.DataStreamWriter.
func (r *recorder) Send(fd *flight.FlightData) error {
	r.messages = append(r.messages, proto.Clone(fd).(*flight.FlightData))
	return nil
}

// passage is a schema and batches that pass through IPC in a certain way.
type passage struct {
	name    string
	batches []arrow.RecordBatch
	deltas  bool
}

func build(mem memory.Allocator, typ arrow.DataType, json string) arrow.Array {
	a, _, err := array.FromJSON(mem, typ, strings.NewReader(json))
	if err != nil {
		panic(err)
	}
	return a
}

func batchOf(cols ...arrow.Array) arrow.RecordBatch {
	fields := make([]arrow.Field, len(cols))
	for i, c := range cols {
		fields[i] = arrow.Field{Name: fmt.Sprint("c", i), Type: c.DataType(), Nullable: true}
	}
	b := array.NewRecordBatch(arrow.NewSchema(fields, nil), cols, int64(cols[0].Len()))
	for _, c := range cols {
		c.Release()
	}
	return b
}

// payloads is a nullable large_binary column of n values of random lengths up
// to max bytes, different on every row.
func payloads(mem memory.Allocator, n, max int, seed int64) arrow.Array {
	r := rand.New(rand.NewSource(seed))
	b := array.NewBinaryBuilder(mem, arrow.BinaryTypes.LargeBinary)
	defer b.Release()
	for i := range n {
		if i%7 == 3 {
			b.AppendNull()
			continue
		}
		v := make([]byte, r.Intn(max+1))
		r.Read(v)
		b.Append(v)
	}
	return b.NewArray()
}

func cases(mem memory.Allocator) []passage {
	numbers := func(n int) string {
		var s strings.Builder
		s.WriteString("[")
		for i := range n {
			if i > 0 {
				s.WriteString(",")
			}
			if i%5 == 2 {
				s.WriteString("null")
			} else {
				fmt.Fprint(&s, i)
			}
		}
		return s.String() + "]"
	}
	nested := func() arrow.Array {
		item := arrow.StructOf(
			arrow.Field{Name: "caption", Type: arrow.BinaryTypes.String, Nullable: true},
			arrow.Field{Name: "n", Type: arrow.PrimitiveTypes.Int32, Nullable: true},
		)
		var s strings.Builder
		s.WriteString("[")
		for i := range 41 {
			switch {
			case i > 0:
				s.WriteString(",")
				fallthrough
			default:
				switch i % 4 {
				case 0:
					s.WriteString("null")
				case 1:
					s.WriteString("[]")
				default:
					fmt.Fprintf(&s, `[{"caption":"%s","n":%d},null,{"caption":null,"n":null}]`, strings.Repeat("x", i), i)
				}
			}
		}
		return build(mem, arrow.LargeListOf(item), s.String()+"]")
	}
	dict := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}
	words := func(indices, values string) arrow.RecordBatch {
		idx := build(mem, arrow.PrimitiveTypes.Int8, indices)
		val := build(mem, arrow.BinaryTypes.String, values)
		d := array.NewDictionaryArray(dict, idx, val)
		idx.Release()
		val.Release()
		return batchOf(d)
	}
	slice := func(b arrow.RecordBatch, from, to int64) arrow.RecordBatch {
		s := b.NewSlice(from, to)
		b.Release()
		return s
	}
	wide := func() arrow.RecordBatch {
		return batchOf(
			build(mem, arrow.PrimitiveTypes.Int64, numbers(41)),
			build(mem, arrow.FixedWidthTypes.Boolean, strings.NewReplacer("1,", "true,", "0,", "false,").Replace("["+strings.Repeat("1,null,0,", 13)+"1,0]")),
			payloads(mem, 41, 5000, 1),
			payloads(mem, 41, 60, 2),
			nested(),
			build(mem, arrow.BinaryTypes.String, "["+strings.Repeat(`"twenty","",null,`, 13)+`"b","c"]`),
			build(mem, arrow.FixedSizeListOf(2, arrow.PrimitiveTypes.Int16), "["+strings.Repeat("[1,2],null,[3,null],", 13)+"[5,6],null]"),
		)
	}
	all := []passage{
		{name: "whole", batches: []arrow.RecordBatch{wide()}},
		{name: "empty batch", batches: []arrow.RecordBatch{slice(wide(), 5, 5)}},
		{name: "zero rows built", batches: []arrow.RecordBatch{batchOf(payloads(mem, 0, 1, 1), build(mem, arrow.LargeListOf(arrow.PrimitiveTypes.Int64), "[]"))}},
		{name: "no batch"},
		{name: "large list of large binary", batches: []arrow.RecordBatch{batchOf(listOf(mem, payloads(mem, 90, 3000, 7), 3))}},
		{name: "large list of large binary, sliced", batches: []arrow.RecordBatch{slice(batchOf(listOf(mem, payloads(mem, 90, 3000, 7), 3)), 13, 29)}},
		{name: "dictionary kept", batches: []arrow.RecordBatch{words("[0,1,null]", `["a","b"]`), words("[1,1]", `["a","b"]`)}},
		{name: "dictionary replaced", batches: []arrow.RecordBatch{words("[0,1,null]", `["a","b"]`), words("[1,0]", `["c","d"]`), words("[2]", `["c","d","e"]`)}},
		{name: "dictionary delta", deltas: true, batches: []arrow.RecordBatch{words("[0,1,null]", `["a","b"]`), words("[1,2]", `["a","b","c"]`)}},
		{name: "dictionary sliced", batches: []arrow.RecordBatch{slice(words("[0,1,null,1,1,0]", `["a","b"]`), 3, 6)}},
	}
	for _, cut := range [][2]int64{{0, 7}, {1, 9}, {3, 41}, {8, 16}, {9, 10}, {13, 38}, {40, 41}} {
		all = append(all, passage{name: fmt.Sprintf("slice %d:%d", cut[0], cut[1]), batches: []arrow.RecordBatch{slice(wide(), cut[0], cut[1])}})
	}
	return all
}

// listOf groups values n by n; every fourth list is null, every fifth empty.
func listOf(mem memory.Allocator, values arrow.Array, n int) arrow.Array {
	b := array.NewLargeListBuilder(mem, values.DataType())
	defer b.Release()
	vb := b.ValueBuilder().(*array.BinaryBuilder)
	src := values.(*array.LargeBinary)
	for i := 0; i < src.Len(); i += n {
		if i/n%4 == 1 {
			b.AppendNull()
			continue
		}
		b.Append(true)
		if i/n%5 == 2 {
			continue
		}
		for j := i; j < min(i+n, src.Len()); j++ {
			if src.IsNull(j) {
				vb.AppendNull()
			} else {
				vb.Append(src.Value(j))
			}
		}
	}
	values.Release()
	return b.NewArray()
}

func (c passage) schema() *arrow.Schema {
	if len(c.batches) == 0 {
		return arrow.NewSchema([]arrow.Field{{Name: "x", Type: arrow.BinaryTypes.LargeBinary}}, nil)
	}
	return c.batches[0].Schema()
}

func (c passage) release() {
	for _, b := range c.batches {
		b.Release()
	}
}

// The messages equal those of arrow-go's own Flight writer byte for byte.
func TestMessagesEqualRecordWriter(t *testing.T) {
	t.Parallel()
	mem := memory.NewCheckedAllocator(memory.DefaultAllocator)
	defer mem.AssertSize(t, 0)
	for _, c := range cases(mem) {
		t.Run(c.name, func(t *testing.T) {
			defer c.release()
			var ours, theirs recorder
			if err := write(&ours, c.schema(), Options{DictionaryDeltas: c.deltas}, c.batches...); err != nil {
				t.Fatal(err)
			}
			w := flight.NewRecordWriter(&theirs, ipc.WithSchema(c.schema()), ipc.WithDictionaryDeltas(c.deltas))
			for i, b := range c.batches {
				if err := w.WriteWithAppMetadata(b, fmt.Appendf(nil, "batch %d", i)); err != nil {
					t.Fatal(err)
				}
			}
			w.Close()
			if len(ours.messages) != len(theirs.messages) {
				t.Fatalf("%d messages, want %d", len(ours.messages), len(theirs.messages))
			}
			batches := 0
			for i := range ours.messages {
				// arrow-go repeats the batch's metadata on what goes before it.
				if len(ours.messages[i].AppMetadata) == 0 {
					theirs.messages[i].AppMetadata = nil
				} else {
					batches++
				}
				if !proto.Equal(ours.messages[i], theirs.messages[i]) {
					t.Errorf("message %d differs:\n%d body bytes, want %d", i, len(ours.messages[i].DataBody), len(theirs.messages[i].DataBody))
				}
			}
			if batches != len(c.batches) {
				t.Errorf("%d messages with app_metadata, want %d", batches, len(c.batches))
			}
		})
	}
}

// What an Arrow client reads over loopback is what was written.
func TestClientReadsWhatWasWritten(t *testing.T) {
	t.Parallel()
	mem := memory.NewCheckedAllocator(memory.DefaultAllocator)
	for _, c := range cases(mem) {
		t.Run(c.name, func(t *testing.T) {
			defer c.release()
			client := serve(t, func(s flight.FlightService_DoGetServer) error {
				return write(s, c.schema(), Options{DictionaryDeltas: c.deltas}, c.batches...)
			})
			stream, err := client.DoGet(t.Context(), &flight.Ticket{})
			if err != nil {
				t.Fatal(err)
			}
			r, err := flight.NewRecordReader(stream)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Release()
			if !r.Schema().Equal(c.schema()) {
				t.Fatalf("schema %v, want %v", r.Schema(), c.schema())
			}
			n := 0
			for ; r.Next(); n++ {
				if got := string(r.LatestAppMetadata()); got != fmt.Sprint("batch ", n) {
					t.Errorf("app_metadata %q at batch %d", got, n)
				}
				if !array.RecordEqual(r.RecordBatch(), c.batches[n]) {
					t.Errorf("batch %d: got %v, want %v", n, r.RecordBatch(), c.batches[n])
				}
			}
			if err := r.Err(); err != nil {
				t.Fatal(err)
			}
			if n != len(c.batches) {
				t.Errorf("%d batches, want %d", n, len(c.batches))
			}
		})
	}
	eventually(t, 2*time.Second, "all memory is back", func() bool { return mem.CurrentAlloc() == 0 })
}

// Large buffers are referenced, and IPC reads none of their bytes: it is
// enough that they exist.
func TestBuffersAreNotCopied(t *testing.T) {
	t.Parallel()
	col := payloads(memory.DefaultAllocator, 50, 9000, 3)
	values := col.(*array.LargeBinary).ValueBytes()
	b := batchOf(col)
	defer b.Release()
	s := b.NewSlice(11, 37)
	defer s.Release()
	sent := &capture{}
	if err := write(sent, s.Schema(), Options{}, s); err != nil {
		t.Fatal(err)
	}
	aliased := 0
	for _, data := range sent.data {
		if len(data) > copyLimit && within(values, data) {
			aliased += len(data)
		}
	}
	if want := len(s.Column(0).(*array.LargeBinary).ValueBytes()); aliased != want {
		t.Errorf("%d bytes lie in the source array, want %d", aliased, want)
	}
}

type capture struct {
	recorder
	data [][]byte
}

func (c *capture) SendMsg(m any) error {
	b, err := Codec().Marshal(m)
	for _, p := range b {
		c.data = append(c.data, p.ReadOnlyData())
	}
	b.Free()
	return err
}

func within(outer, inner []byte) bool {
	for off := range len(outer) - len(inner) + 1 {
		if &outer[off] == &inner[0] {
			return true
		}
	}
	return false
}

// An encoded message takes the prefix, then data_body as the last field.
func TestMessageBytes(t *testing.T) {
	t.Parallel()
	var inFlight atomic.Int64
	released := 0
	big := bytes.Repeat([]byte{7}, copyLimit+1)
	m, err := newMessage(nil, []byte("head"), []byte("meta"), [][]byte{{1, 2}, big, {3}}, &inFlight, func() { released++ })
	if err != nil {
		t.Fatal(err)
	}
	out, err := Codec().Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	want := append([]byte("\x12\x04head\x1a\x04meta\xc2\x3e\x84\x08\x01\x02"), append(big, 3)...)
	if got := out.Materialize(); !bytes.Equal(got, want) {
		t.Errorf("got %x\nwant %x", got, want)
	}
	if m.size != int64(len(want)) {
		t.Errorf("size %d, want %d", m.size, len(want))
	}
	if released != 0 || inFlight.Load() != 1 {
		t.Errorf("released %d times while gRPC holds it, %d in flight", released, inFlight.Load())
	}
	out.Free()
	if released != 1 || inFlight.Load() != 0 {
		t.Errorf("released %d times after gRPC let go, %d in flight", released, inFlight.Load())
	}
	if _, err := Codec().Marshal(m); err == nil {
		t.Error("marshalled twice")
	}
}

func eventually(t testing.TB, within time.Duration, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(within)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", within, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
