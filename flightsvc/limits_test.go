package flightsvc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/flight"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
)

const mib = 1 << 20

// messages reads a raw stream and gives the encoded length of each message.
func messages(ctx context.Context, t testing.TB, c flight.Client, ticket string) ([]int, error) {
	t.Helper()
	stream, err := c.DoGet(ctx, &flight.Ticket{Ticket: []byte(ticket)})
	if err != nil {
		return nil, err
	}
	var lengths []int
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return lengths, nil
		}
		if err != nil {
			return lengths, err
		}
		lengths = append(lengths, proto.Size(m))
	}
}

// A client with Go's default limit of 4 MiB reads blobs without setting
// anything.
func TestMessagesStayBelowFourMiB(t *testing.T) {
	t.Parallel()
	dir := root(t, "many="+ownTables+"/many.lance")
	sparse(t, dir)
	h := serve(t, plain, dir)
	client := h.dial(t)
	for _, tc := range []struct {
		name, ticket, header string
		most, least          int // of the longest message
	}{
		{"default", `{"table":"many","limit":40}`, "", defaultMessage, 3 * mib},
		{"batch_bytes", `{"table":"many","limit":10,"batch_bytes":1200000}`, "", 1200000, mib},
		{"header", `{"table":"many","limit":10}`, "2200000", 2200000, 2 * mib},
		{"ticket over header", `{"table":"many","limit":10,"batch_bytes":2200000}`, "1200000", 2200000, 2 * mib},
		{"clamped below", `{"table":"many","limit":2,"batch_bytes":1}`, "", mib + 2048, mib},
		{"descriptors", `{"table":"many","blobs":"descriptor","batch_bytes":1024}`, "", 1024 + 512, 256},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ctx := t.Context()
			if tc.header != "" {
				ctx = metadata.AppendToOutgoingContext(ctx, headerBatchBytes, tc.header)
			}
			got, err := messages(ctx, t, client, tc.ticket)
			if err != nil {
				t.Fatal(err)
			}
			longest := 0
			for _, n := range got {
				longest = max(longest, n)
			}
			if longest > tc.most || longest < tc.least {
				t.Errorf("%d messages, the longest of %d bytes; want %d to %d", len(got), longest, tc.least, tc.most)
			}
		})
	}
	_, err := messages(metadata.AppendToOutgoingContext(t.Context(), headerBatchBytes, "lots"), t, client, `{"table":"many"}`)
	wantError(t, "bad header", err, codes.InvalidArgument, headerBatchBytes, `"lots"`)
}

// A value that the client is not known to take is refused before its bytes are
// read, and the error says what to do; both ways that it names work.
func TestValueOverTheClientsLimit(t *testing.T) {
	t.Parallel()
	dir := root(t, "large="+ownTables+"/large.lance")
	sparse(t, dir)
	h := serve(t, plain, dir)
	ctx := t.Context()

	_, _, err := h.get(ctx, `{"table":"large"}`)
	wantError(t, "20 MiB to a Go client", err, codes.ResourceExhausted,
		`"img"`, "row 1", fmt.Sprint(goClientLimit), clientOption, "max_message_bytes", headerMaxMessage, "blob_range", "ranges")
	_, _, err = h.get(ctx, `{"table":"large","rows":[4,1]}`)
	wantError(t, "by position", err, codes.ResourceExhausted, `"img"`, "position 1 of the table")
	_, _, err = h.get(ctx, `{"table":"large","offset":1}`)
	wantError(t, "with an offset", err, codes.ResourceExhausted, `"img"`, "row 1")
	for _, o := range h.server.opts.Counter.Snapshot().Objects {
		if o.Payload() >= 20*mib {
			t.Errorf("%s was read: %d bytes", o.URI, o.Payload())
		}
	}

	lengths := func(rows []map[string]any) []int {
		var n []int
		for _, r := range rows {
			b, ok := r["img"].(string)
			if !ok {
				n = append(n, -1)
				continue
			}
			n = append(n, len(b))
		}
		return n
	}
	want := fmt.Sprint([]int{4, 20 * mib, -1, 0, 5 * mib})
	if got := fmt.Sprint(lengths(mustGet(t, h, `{"table":"large","max_message_bytes":33554432}`))); got != want {
		t.Errorf("max_message_bytes in the ticket: %s, want %s", got, want)
	}
	_, rows, err := h.get(metadata.AppendToOutgoingContext(ctx, headerMaxMessage, "33554432"), `{"table":"large"}`)
	if got := fmt.Sprint(lengths(rows)); err != nil || got != want {
		t.Errorf("max_message_bytes in the header: %s, %v", got, err)
	}
	pieces := mustGet(t, h, `{"table":"large","column":"img","ranges":[[1,0,8388608],[1,8388608,8388608],[1,16777216,4194304]]}`)
	total := 0
	for _, p := range pieces {
		total += len(p["bytes"].(string))
	}
	if total != 20*mib {
		t.Errorf("in pieces: %d bytes", total)
	}
	_, _, err = h.get(ctx, `{"table":"large","column":"img","ranges":[[1,0,20971520]]}`)
	wantError(t, "too long a range", err, codes.ResourceExhausted, "shorter ranges")

	// Others are taken to accept what the protocol does.
	other := h.dial(t, grpc.WithUserAgent("x"), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64*mib)))
	if _, err := messages(ctx, t, other, `{"table":"large"}`); err == nil {
		t.Error("grpc-go adds itself to the user agent; this client must be recognised")
	}
}

func TestUnknownClientsTakeTwoGiB(t *testing.T) {
	t.Parallel()
	for agent, want := range map[string]int64{
		"grpc-go/1.85.0":                  goClientLimit,
		"ADBC Flight SQL grpc-go/1.76.0":  goClientLimit,
		"grpc-c++/1.60 grpc-c/37 (linux)": protocolLimit,
		"grpc-java-netty/1.65":            protocolLimit,
		"":                                protocolLimit,
		"somebody imitating grpc-go":      protocolLimit,
	} {
		set, err := sources{ticket: &Ticket{}, headers: metadata.Pairs(headerUserAgent, agent)}.resolve()
		if err != nil || set.limit != want || set.message != defaultMessage {
			t.Errorf("%q: %+v, %v; want limit %d", agent, set, err, want)
		}
	}
	set, err := sources{
		ticket: &Ticket{}, headers: metadata.Pairs(headerBlobs, "logical"),
		session: map[string]string{"blobs": "descriptor", "batch_bytes": "100", "max_message_bytes": "99999999999", "profile": "bi"},
	}.resolve()
	if err != nil || faceName(set.view) != "logical" || !set.bi || set.message != minMessage || set.limit != protocolLimit {
		t.Errorf("header over session, session over default: %+v, %v", set, err)
	}
}
