package flightsvc

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/flight"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/flightblob/flightblob/internal/fault"
)

// put sends messages by DoPut and gives the error that comes of it.
func put(t *testing.T, h *house, messages ...*flight.FlightData) error {
	t.Helper()
	stream, err := h.client.DoPut(t.Context())
	if err != nil {
		return err
	}
	for _, m := range messages {
		if err := stream.Send(m); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	_, err = stream.Recv()
	return err
}

func exchange(t *testing.T, h *house, messages ...*flight.FlightData) error {
	t.Helper()
	stream, err := h.client.DoExchange(t.Context())
	if err != nil {
		return err
	}
	for _, m := range messages {
		if err := stream.Send(m); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	_, err = stream.Recv()
	return err
}

// No input ends the process or hangs: the server answers an ordinary request
// after each.
func TestHostileRequests(t *testing.T) {
	t.Parallel()
	h := serve(t, plain, root(t, "media="+demoTable+"/media.lance"))
	alive := func(t *testing.T) {
		t.Helper()
		if n := len(mustGet(t, h, `{"table":"media","columns":["name"]}`)); n != 16 {
			t.Errorf("%d rows afterwards", n)
		}
	}
	command := func(b string) *flight.FlightDescriptor {
		return &flight.FlightDescriptor{Type: flight.DescriptorCMD, Cmd: []byte(b)}
	}
	schema := []byte{0xff, 0xff, 0xff, 0x7f, 0, 0, 0, 0}
	for _, tc := range []struct {
		name string
		call func(*testing.T) error
		code codes.Code
		says string
	}{
		{"DoPut without a message", func(t *testing.T) error { return put(t, h) }, codes.InvalidArgument, "empty"},
		{"DoPut without a descriptor", func(t *testing.T) error { return put(t, h, &flight.FlightData{DataHeader: schema}) }, codes.InvalidArgument, "no descriptor"},
		{"DoPut of nothing at all", func(t *testing.T) error { return put(t, h, &flight.FlightData{}) }, codes.InvalidArgument, "no descriptor"},
		{"DoPut with a bad header", func(t *testing.T) error {
			return put(t, h, &flight.FlightData{DataHeader: schema, FlightDescriptor: command(`{"table":"t"}`)})
		}, codes.InvalidArgument, "no readable schema"},
		{"DoPut to a path", func(t *testing.T) error {
			return put(t, h, &flight.FlightData{FlightDescriptor: &flight.FlightDescriptor{Type: flight.DescriptorPATH, Path: []string{"t"}}})
		}, codes.InvalidArgument, "no readable schema"},
		{"DoPut of a SQL command", func(t *testing.T) error {
			return put(t, h, &flight.FlightData{FlightDescriptor: command(sqlCommand(t))})
		}, codes.Unimplemented, "CommandStatementQuery"},
		{"DoPut of an unknown Any", func(t *testing.T) error {
			return put(t, h, &flight.FlightData{FlightDescriptor: command(anyOf(t, "type.googleapis.com/x.Y"))})
		}, codes.InvalidArgument, "x.Y"},
		{"DoExchange without a message", func(t *testing.T) error { return exchange(t, h) }, codes.InvalidArgument, "empty"},
		{"DoExchange without a descriptor", func(t *testing.T) error { return exchange(t, h, &flight.FlightData{}) }, codes.InvalidArgument, "missing"},
		{"SQL in GetFlightInfo", func(t *testing.T) error {
			_, err := h.client.GetFlightInfo(t.Context(), command(sqlCommand(t)))
			return err
		}, codes.Unimplemented, "CommandStatementQuery"},
		{"SQL in GetSchema", func(t *testing.T) error {
			_, err := h.client.GetSchema(t.Context(), command(sqlCommand(t)))
			return err
		}, codes.Unimplemented, "no SQL"},
		{"SQL ticket", func(t *testing.T) error { _, _, err := h.get(t.Context(), sqlCommand(t)); return err }, codes.Unimplemented, "no SQL"},
		{"no ticket", func(t *testing.T) error { _, _, err := h.get(t.Context(), ""); return err }, codes.InvalidArgument, "ticket"},
		{"SQL in PollFlightInfo", func(t *testing.T) error {
			_, err := h.client.PollFlightInfo(t.Context(), command(sqlCommand(t)))
			return err
		}, codes.Unimplemented, "no SQL"},
		{"a ticket of an own kind with a forged profile", func(t *testing.T) error {
			_, _, err := h.get(t.Context(), mintedPrefix+`{"table":"media","profile":"root"}`)
			return err
		}, codes.InvalidArgument, `"root"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			wantError(t, tc.name, tc.call(t), tc.code, tc.says)
			alive(t)
		})
	}
	t.Run("junk tickets", func(t *testing.T) {
		r := rand.New(rand.NewSource(1))
		for i := range 300 {
			b := make([]byte, r.Intn(40))
			r.Read(b)
			if i%3 == 0 && len(b) > 2 {
				copy(b, mintedPrefix)
			}
			if i%5 == 0 {
				b = append([]byte(`{"table":`), b...)
			}
			if _, _, err := h.get(t.Context(), string(b)); err == nil {
				t.Fatalf("ticket %q is answered", b)
			} else if c := status.Code(err); c != codes.InvalidArgument {
				t.Errorf("ticket %q: %v", b, err)
			}
		}
		alive(t)
	})
	t.Run("a very large header", func(t *testing.T) {
		ctx := metadata.AppendToOutgoingContext(t.Context(), headerBlobs, strings.Repeat("x", 30<<10))
		_, _, err := h.get(ctx, `{"table":"media"}`)
		wantError(t, "header", err, codes.InvalidArgument, headerBlobs)
		if err != nil && len(err.Error()) > maxErrorText+100 {
			t.Errorf("an error text of %d bytes", len(err.Error()))
		}
		alive(t)
	})
}

func anyOf(t *testing.T, url string) string {
	t.Helper()
	b, err := proto.Marshal(&anypb.Any{TypeUrl: url, Value: []byte("x")})
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func sqlCommand(t *testing.T) string {
	return anyOf(t, sqlTypes+"CommandStatementQuery")
}

// A panic in a call is an Internal error for its client, with nothing of the
// panic in it, and an entry in the log; others go on.
func TestPanicsBecomeErrors(t *testing.T) {
	t.Parallel()
	var logged bytes.Buffer
	var panicked atomic.Int32
	var ended []Call
	s := &Server{log: slog.New(slog.NewTextHandler(&logged, nil))}
	s.opts.Events = Events{
		Panicked:  func(string) { panicked.Add(1) },
		CallEnded: func(c Call) { ended = append(ended, c) },
	}
	_, err := s.unary(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: "/arrow.flight.protocol.FlightService/GetFlightInfo"},
		func(context.Context, any) (any, error) { panic(errors.New("nil map of secrets")) })
	wantError(t, "unary", err, codes.Internal)
	if strings.Contains(err.Error(), "nil map") || strings.Contains(err.Error(), "goroutine") {
		t.Errorf("the error shows the panic: %v", err)
	}
	err = s.streaming(nil, &tape{}, &grpc.StreamServerInfo{FullMethod: "/arrow.flight.protocol.FlightService/DoGet"},
		func(any, grpc.ServerStream) error { panic("boom") })
	wantError(t, "stream", err, codes.Internal)
	if panicked.Load() != 2 || !strings.Contains(logged.String(), "boom") || !strings.Contains(logged.String(), "stack") {
		t.Errorf("%d panics reported, log: %s", panicked.Load(), logged.String())
	}
	if len(ended) != 2 || ended[0].Method != "GetFlightInfo" || ended[1].Code != codes.Internal || !ended[1].Stream {
		t.Errorf("calls %+v", ended)
	}
}

type who struct{}

func TestAuthenticate(t *testing.T) {
	t.Parallel()
	opts := Options{Authenticate: func(ctx context.Context, method string) (context.Context, error) {
		md, _ := metadata.FromIncomingContext(ctx)
		if len(md.Get("authorization")) == 0 {
			return nil, status.Error(codes.Unauthenticated, "who are you? "+method)
		}
		return context.WithValue(ctx, who{}, "me"), nil
	}}
	h := serve(t, opts, root(t, "media="+demoTable+"/media.lance"))
	_, _, err := h.get(t.Context(), `{"table":"media"}`)
	wantError(t, "no credentials", err, codes.Unauthenticated, "DoGet")
	_, err = h.client.GetFlightInfo(t.Context(), &flight.FlightDescriptor{Type: flight.DescriptorPATH, Path: []string{"media"}})
	wantError(t, "no credentials", err, codes.Unauthenticated, "GetFlightInfo")
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer x")
	if _, rows, err := h.get(ctx, `{"table":"media"}`); err != nil || len(rows) != 16 {
		t.Errorf("with credentials: %d rows, %v", len(rows), err)
	}
}

// Clients that shake hands get on, with and without credentials.
func TestHandshake(t *testing.T) {
	t.Parallel()
	h := serve(t, plain, root(t))
	ctx, err := h.client.AuthenticateBasicToken(t.Context(), "user", "password")
	if err != nil {
		t.Fatal(err)
	}
	if md, _ := metadata.FromOutgoingContext(ctx); len(md.Get("authorization")) == 0 {
		t.Error("no token to go on with")
	}
	stream, err := h.client.Handshake(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(stream.Send(&flight.HandshakeRequest{Payload: []byte("hello")}), stream.CloseSend()); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Errorf("no answer: %v", err)
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("after the answer: %v", err)
	}
}

// However and wherever a stream ends, goroutines and budget are back within a
// second.
func TestCancelledStreamsLeaveNothing(t *testing.T) {
	dir := root(t, "many="+ownTables+"/many.lance")
	sparse(t, dir)
	for _, tc := range []struct {
		view string
		opts Options
	}{{"bytes", plain}, {"bytes", Options{}}, {"logical", Options{}}, {"descriptor", plain}} {
		view := tc.view
		t.Run(fmt.Sprintf("%s mapped %t", view, tc.opts.Plain), func(t *testing.T) {
			h := serve(t, tc.opts, dir)
			ticket := &flight.Ticket{Ticket: []byte(`{"table":"many","blobs":"` + view + `","batch_bytes":300000}`)}
			mustGet(t, h, `{"table":"many","blobs":"`+view+`","limit":2}`) // connections and pools are there
			before := runtime.NumGoroutine()
			for stop := range 12 {
				ctx, cancel := context.WithCancel(t.Context())
				stream, err := h.client.DoGet(ctx, ticket)
				if err != nil {
					t.Fatal(err)
				}
				for range stop {
					if _, err := stream.Recv(); err != nil {
						break
					}
				}
				cancel()
			}
			eventually(t, time.Second, "goroutines have ended", func() bool { return runtime.NumGoroutine() <= before })
			eventually(t, time.Second, "the budget is free", func() bool { return h.budget.Stats().InUse == 0 })
		})
	}
}

// A client that breaks its connection in the middle of large messages gives the
// budget back, though gRPC forgets what it has queued.
func TestBrokenConnectionsLeaveNothing(t *testing.T) {
	t.Parallel()
	dir := root(t, "many="+ownTables+"/many.lance")
	sparse(t, dir)
	h := serve(t, Options{}, dir)
	for range 5 {
		c := h.dial(t, grpc.WithInitialWindowSize(65535), grpc.WithInitialConnWindowSize(65535))
		stream, err := c.DoGet(t.Context(), &flight.Ticket{Ticket: []byte(`{"table":"many"}`)})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := stream.Recv(); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, 2*time.Second, "the budget is free", func() bool { return h.budget.Stats().InUse == 0 })
}

// A client that reads slowly holds a bounded part of the budget, and others are
// served meanwhile.
func TestSlowReaderLeavesRoomForOthers(t *testing.T) {
	t.Parallel()
	dir := root(t, "many="+ownTables+"/many.lance", "media="+demoTable+"/media.lance")
	sparse(t, dir)
	h := serve(t, Options{}, dir) // copies: mapped values cost no budget
	slow := h.dial(t, grpc.WithInitialWindowSize(65535), grpc.WithInitialConnWindowSize(65535))
	stream, err := slow.DoGet(t.Context(), &flight.Ticket{Ticket: []byte(`{"table":"many"}`)})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := stream.Recv(); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(200 * time.Millisecond)
	if stats := h.budget.Stats(); stats.InUse > stats.Capacity/2 || stats.InUse == 0 {
		t.Errorf("one slow reader holds %d of %d bytes", stats.InUse, stats.Capacity)
	}
	if n := len(mustGet(t, h, `{"table":"many","limit":64}`)); n != 64 {
		t.Errorf("%d rows beside a slow reader", n)
	}
}

// What a client sends may be as long as the server says.
func TestReceiveLimit(t *testing.T) {
	t.Parallel()
	h := serve(t, plain, root(t))
	body := make([]byte, 20<<20)
	binary.BigEndian.PutUint32(body, 7)
	err := put(t, h, &flight.FlightData{DataBody: body})
	wantError(t, "20 MiB", err, codes.InvalidArgument, "no descriptor")
	err = put(t, h, &flight.FlightData{DataBody: make([]byte, 65<<20)})
	wantError(t, "65 MiB", err, codes.ResourceExhausted)
}

func TestWrappedStatusKeepsItsKind(t *testing.T) {
	t.Parallel()
	s := &Server{}
	err := s.status(fault.New(fault.Corrupt, "x"))
	if again := s.status(err); status.Code(again) != codes.DataLoss || status.Convert(again).Message() != "x" {
		t.Errorf("converted twice: %v", again)
	}
}
