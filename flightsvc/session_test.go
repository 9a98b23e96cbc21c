package flightsvc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/flight/flightsql"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/testing/protocmp"
)

// options makes a request of names and values; nil unsets.
func options(t testing.TB, values map[string]any) *flight.SetSessionOptionsRequest {
	t.Helper()
	req := &flight.SetSessionOptionsRequest{SessionOptions: map[string]*flight.SessionOptionValue{}}
	for name, v := range values {
		if v == nil {
			req.SessionOptions[name] = &flight.SessionOptionValue{}
			continue
		}
		value, err := flight.NewSessionOptionValue(v)
		if err != nil {
			t.Fatal(err)
		}
		req.SessionOptions[name] = &value
	}
	return req
}

func setOptions(ctx context.Context, t testing.TB, c flight.Client, values map[string]any, opts ...grpc.CallOption) map[string]string {
	t.Helper()
	r, err := c.SetSessionOptions(ctx, options(t, values), opts...)
	if err != nil {
		t.Fatal(err)
	}
	bad := map[string]string{}
	for name, e := range r.Errors {
		bad[name] = e.Value.String()
	}
	return bad
}

func getOptions(ctx context.Context, t testing.TB, c flight.Client) map[string]any {
	t.Helper()
	r, err := c.GetSessionOptions(ctx, &flight.GetSessionOptionsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]any{}
	for name, v := range r.SessionOptions {
		switch {
		case v.GetStringValue() != "":
			got[name] = v.GetStringValue()
		default:
			got[name] = v.GetInt64Value()
		}
	}
	return got
}

// twoRoots are catalogs a and b, the latter with a namespace of its own.
func twoRoots(t testing.TB) []string {
	media := "media=" + demoTable + "/media.lance"
	return []string{"a=" + root(t, media), "b=" + root(t, media)}
}

func TestSessionOptions(t *testing.T) {
	t.Parallel()
	h, _ := serveSQL(t, plain, twoRoots(t)...)
	ctx := metadata.AppendToOutgoingContext(t.Context(), headerSession, "s")
	if diff := cmp.Diff(map[string]any{"catalog": "a", "schema": "main"}, getOptions(ctx, t, h.client)); diff != "" {
		t.Errorf("before anything is set (-want +got):\n%s", diff)
	}
	bad := setOptions(ctx, t, h.client, map[string]any{
		"catalog": "B", "schema": "MAIN", "blobs": "descriptor", "flightblob-batch-bytes": int64(70000), "max_message_bytes": "5000000", "profile": "bi",
		"compression": "LZ4",
	})
	if len(bad) > 0 {
		t.Errorf("refused %v", bad)
	}
	want := map[string]any{
		"catalog": "b", "schema": "main", "blobs": "descriptor", "flightblob-batch-bytes": int64(70000), "max_message_bytes": "5000000", "profile": "bi",
		"compression": "LZ4",
	}
	if diff := cmp.Diff(want, getOptions(ctx, t, h.client)); diff != "" {
		t.Errorf("options (-want +got):\n%s", diff)
	}
	info, err := h.sql().Execute(ctx, "names")
	if err != nil {
		t.Fatal(err)
	}
	if rows := fetch(t, h, info); rows[0]["catalog"] != "b" || rows[0]["schema"] != "main" {
		t.Errorf("names are looked up in %v", rows)
	}
	t.Run("what is wrong with them", func(t *testing.T) {
		bad := setOptions(ctx, t, h.client, map[string]any{
			"catalog": "c", "schema": "nowhere", "blobs": "pictures", "batch_bytes": "many", "max_message_bytes": int64(-1), "profile": "x",
			"compression": "gzip", "color": "red", "flightblob-blobs": []string{"bytes"},
		})
		want := map[string]string{
			"catalog": "INVALID_VALUE", "schema": "INVALID_VALUE", "blobs": "INVALID_VALUE", "batch_bytes": "INVALID_VALUE",
			"max_message_bytes": "INVALID_VALUE", "profile": "INVALID_VALUE", "compression": "INVALID_VALUE", "color": "INVALID_NAME", "flightblob-blobs": "INVALID_VALUE",
		}
		if diff := cmp.Diff(want, bad); diff != "" {
			t.Errorf("errors (-want +got):\n%s", diff)
		}
		if got := getOptions(ctx, t, h.client)["blobs"]; got != "descriptor" {
			t.Errorf("blobs became %v", got)
		}
	})
	t.Run("precedence", func(t *testing.T) {
		face := func(ctx context.Context, ticket string) string {
			sch, _, err := h.get(ctx, ticket)
			if err != nil {
				t.Fatal(err)
			}
			f, _ := sch.FieldsByName("data")
			return f[0].Type.Name()
		}
		for _, tc := range []struct {
			ctx    context.Context
			ticket string
			want   string
		}{
			{ctx, `{"table":"media"}`, "struct"},
			{metadata.AppendToOutgoingContext(ctx, headerBlobs, "bytes"), `{"table":"media"}`, "large_binary"},
			{ctx, `{"table":"media","blobs":"bytes"}`, "large_binary"},
			{t.Context(), `{"table":"media"}`, "large_binary"},
		} {
			if got := face(tc.ctx, tc.ticket); got != tc.want {
				t.Errorf("%s: %s, want %s", tc.ticket, got, tc.want)
			}
		}
	})
	t.Run("back to defaults", func(t *testing.T) {
		setOptions(ctx, t, h.client, map[string]any{"catalog": nil, "blobs": nil, "batch_bytes": nil, "profile": nil, "max_message_bytes": nil, "compression": nil})
		if diff := cmp.Diff(map[string]any{"catalog": "a", "schema": "main"}, getOptions(ctx, t, h.client)); diff != "" {
			t.Errorf("options (-want +got):\n%s", diff)
		}
	})
}

func TestWhoseSession(t *testing.T) {
	t.Parallel()
	h, _ := serveSQL(t, plain, twoRoots(t)...)
	other := h.dial(t)
	catalogOf := func(ctx context.Context, c flight.Client) any {
		t.Helper()
		return getOptions(ctx, t, c)["catalog"]
	}
	toB := map[string]any{"catalog": "b"}
	for name, pair := range map[string][2]string{
		"header": {headerSession, "mine"},
		"bearer": {headerAuth, "Bearer secret"},
	} {
		t.Run(name, func(t *testing.T) {
			c := h.dial(t)
			ctx := metadata.AppendToOutgoingContext(t.Context(), pair[0], pair[1])
			var header metadata.MD
			setOptions(ctx, t, c, toB, grpc.Header(&header))
			if len(header.Get("set-cookie")) > 0 {
				t.Errorf("a client with a key gets the cookie %v", header.Get("set-cookie"))
			}
			if catalogOf(ctx, other) != "b" {
				t.Error("lost on another connection")
			}
			if catalogOf(t.Context(), c) != "a" {
				t.Error("found without its key")
			}
			if catalogOf(metadata.AppendToOutgoingContext(t.Context(), pair[0], pair[1]+"2"), c) != "a" {
				t.Error("found by another key")
			}
		})
	}
	t.Run("cookie", func(t *testing.T) {
		c := h.dial(t)
		var header metadata.MD
		setOptions(t.Context(), t, c, toB, grpc.Header(&header))
		cookie, _, _ := strings.Cut(strings.Join(header.Get("set-cookie"), ""), ";")
		if !strings.HasPrefix(cookie, sessionCookie+"=") || len(cookie) < len(sessionCookie)+20 {
			t.Fatalf("set-cookie %q", cookie)
		}
		ctx := metadata.AppendToOutgoingContext(t.Context(), "cookie", "x=1; "+cookie)
		if catalogOf(ctx, other) != "b" {
			t.Error("lost on another connection")
		}
		if catalogOf(ctx, c) != "b" {
			t.Error("lost on its own connection")
		}
		// It was seen to keep cookies: the connection alone means nothing now.
		if catalogOf(t.Context(), c) != "a" {
			t.Error("found without its cookie")
		}
		forged := metadata.AppendToOutgoingContext(t.Context(), "cookie", sessionCookie+"=chosen")
		setOptions(forged, t, c, toB)
		if catalogOf(forged, other) != "a" {
			t.Error("a client chose the id of its session")
		}
		header = nil
		if r, err := c.CloseSession(ctx, &flight.CloseSessionRequest{}, grpc.Header(&header)); err != nil || r.Status != flight.CloseSessionResultClosed {
			t.Errorf("close: %v, %v", r, err)
		}
		if !strings.Contains(strings.Join(header.Get("set-cookie"), ""), "Max-Age=0") || catalogOf(ctx, other) != "a" {
			t.Errorf("the session is there after it was closed; set-cookie %v", header.Get("set-cookie"))
		}
	})
	t.Run("connection", func(t *testing.T) {
		c := h.dial(t)
		setOptions(t.Context(), t, c, toB)
		if catalogOf(t.Context(), c) != "b" {
			t.Error("lost by a client without cookies")
		}
		if catalogOf(t.Context(), other) != "a" {
			t.Error("found on another connection")
		}
		proxied := metadata.AppendToOutgoingContext(t.Context(), "x-forwarded-for", "10.0.0.1")
		if catalogOf(proxied, c) != "a" {
			t.Error("a proxy's connection was taken for a client's")
		}
		if _, err := c.CloseSession(t.Context(), &flight.CloseSessionRequest{}); err != nil {
			t.Error(err)
		}
		if catalogOf(t.Context(), c) != "a" {
			t.Error("the session is there after it was closed")
		}
	})
	t.Run("the tokens that many have", func(t *testing.T) {
		for _, token := range []string{anonymousToken, noToken} {
			ctx := metadata.AppendToOutgoingContext(t.Context(), headerAuth, bearerPrefix+token)
			setOptions(ctx, t, h.dial(t), toB)
			if catalogOf(ctx, other) != "a" {
				t.Errorf("%s is a key", token)
			}
		}
	})
	t.Run("a key without end", func(t *testing.T) {
		ctx := metadata.AppendToOutgoingContext(t.Context(), headerSession, strings.Repeat("x", maxSessionKey+1))
		_, err := other.GetSessionOptions(ctx, &flight.GetSessionOptionsRequest{})
		wantError(t, "key", err, codes.InvalidArgument, headerSession)
	})
	t.Run("closing what was never opened", func(t *testing.T) {
		if r, err := other.CloseSession(t.Context(), &flight.CloseSessionRequest{}); err != nil || r.Status != flight.CloseSessionResultClosed {
			t.Errorf("%v, %v", r, err)
		}
	})
	t.Run("too many options", func(t *testing.T) {
		many := map[string]any{}
		for i := range maxOptions + 1 {
			many[strings.Repeat("x", i+1)] = "y"
		}
		_, err := other.SetSessionOptions(t.Context(), options(t, many))
		wantError(t, "options", err, codes.InvalidArgument)
	})
}

func TestSessionsAreBounded(t *testing.T) {
	t.Parallel()
	opts := plain
	opts.SessionIdle = 200 * time.Millisecond
	h, _ := serveSQL(t, opts, t.TempDir())
	for range 50 {
		// Each call on a connection behind a proxy makes a session of its own.
		ctx := metadata.AppendToOutgoingContext(t.Context(), "via", "proxy")
		setOptions(ctx, t, h.client, map[string]any{"blobs": "logical"})
	}
	if n := h.server.sessions.len(); n == 0 || n > 50 {
		t.Errorf("%d sessions", n)
	}
	eventually(t, 2*time.Second, "idle sessions are gone", func() bool { return h.server.sessions.len() == 0 })
}

// A connection that is gone never lends its session to the next one, whatever
// port that has.
func TestConnectionKeysAreNotReused(t *testing.T) {
	t.Parallel()
	s := &Server{}
	key := func(addr net.Addr) string {
		c, err := s.callerOf(peer.NewContext(t.Context(), &peer.Peer{Addr: addr}))
		if err != nil {
			t.Fatal(err)
		}
		return c.conn
	}
	one, two := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7}, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7}
	if first := key(one); first == "" || first != key(one) || first == key(two) {
		t.Error("connections are told apart by their ports")
	}
	var value fixedAddr
	if key(value) != "" {
		t.Error("an address without identity is a key")
	}
}

type fixedAddr struct{}

func (fixedAddr) Network() string { return "fixed" }
func (fixedAddr) String() string  { return "fixed" }

func TestSessionValuesComeBackAsGiven(t *testing.T) {
	t.Parallel()
	h, _ := serveSQL(t, plain, t.TempDir())
	ctx := metadata.AppendToOutgoingContext(t.Context(), headerSession, "s")
	req := options(t, map[string]any{"batch_bytes": float64(65536), "flightblob-profile": "bi"})
	if _, err := h.client.SetSessionOptions(ctx, req); err != nil {
		t.Fatal(err)
	}
	r, err := h.client.GetSessionOptions(ctx, &flight.GetSessionOptionsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range req.SessionOptions {
		if diff := cmp.Diff(want, r.SessionOptions[name], protocmp.Transform()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Where names are looked up: by header, then session, then the first catalog.
func TestNamespace(t *testing.T) {
	t.Parallel()
	h, _ := serveSQL(t, plain, twoRoots(t)...)
	inB := h.dial(t)
	setOptions(t.Context(), t, inB, map[string]any{"catalog": "b"})
	for _, tc := range []struct {
		name    string
		client  flight.Client
		headers []string
		want    string // catalog.schema
		refused string
	}{
		{name: "nothing said", client: h.client, want: "a.main"},
		{name: "session", client: inB, want: "b.main"},
		{name: "header", client: h.client, headers: []string{headerCatalog, "b"}, want: "b.main"},
		{name: "header without case", client: h.client, headers: []string{headerCatalog, "B"}, want: "b.main"},
		{name: "header before session", client: inB, headers: []string{headerCatalog, "a"}, want: "a.main"},
		{name: "schema", client: h.client, headers: []string{headerSchema, "MAIN"}, want: "a.main"},
		{name: "schema as JDBC sends it", client: inB, headers: []string{headerSchemaJDBC, "main"}, want: "b.main"},
		{name: "ours before JDBC's", client: inB, headers: []string{headerSchemaJDBC, "absent", headerSchema, "main"}, want: "b.main"},
		{name: "empty", client: h.client, headers: []string{headerCatalog, "", headerSchemaJDBC, ""}, want: "a.main"},
		{name: "unknown catalog", client: h.client, headers: []string{headerCatalog, "c"}, refused: "header flightblob-catalog is \"c\", there are a, b"},
		{name: "unknown schema", client: h.client, headers: []string{headerSchema, "s"}, refused: "header flightblob-schema is \"s\", there are main"},
		{name: "unknown schema from JDBC", client: h.client, headers: []string{headerSchemaJDBC, "s"}, refused: "header schema is \"s\""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ctx := metadata.AppendToOutgoingContext(t.Context(), tc.headers...)
			sql := &flightsql.Client{Client: tc.client}
			_, optionsErr := tc.client.GetSessionOptions(ctx, &flight.GetSessionOptionsRequest{})
			info, err := sql.Execute(ctx, "names")
			_, prepareErr := sql.Prepare(ctx, "names")
			if tc.refused != "" {
				for _, err := range []error{optionsErr, err, prepareErr} {
					wantError(t, tc.name, err, codes.InvalidArgument, tc.refused)
				}
				return
			}
			if err := errors.Join(optionsErr, err, prepareErr); err != nil {
				t.Fatal(err)
			}
			// What was looked up at first stays, whatever the reader's headers are.
			rows := fetch(t, h, info)
			if got := fmt.Sprintf("%v.%v", rows[0]["catalog"], rows[0]["schema"]); got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
			got := getOptions(ctx, t, tc.client)
			if got := fmt.Sprintf("%v.%v", got["catalog"], got["schema"]); got != tc.want {
				t.Errorf("session options say %s, want %s", got, tc.want)
			}
		})
	}
}

// Batches are compressed for those who ask, by header before session.
func TestCompression(t *testing.T) {
	t.Parallel()
	h, _ := serveSQL(t, plain, t.TempDir())
	// size reads 2000 numbers and gives the length of the bodies.
	size := func(ctx context.Context, c flight.Client) (n int) {
		t.Helper()
		info, err := (&flightsql.Client{Client: c}).Execute(ctx, "rows 2000")
		if err != nil {
			t.Fatal(err)
		}
		stream, err := c.DoGet(ctx, info.Endpoint[0].Ticket)
		if err != nil {
			t.Fatal(err)
		}
		for {
			m, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				return n
			}
			if err != nil {
				t.Fatal(err)
			}
			n += len(m.DataBody)
		}
	}
	whole := size(t.Context(), h.client)
	if whole < 16000 {
		t.Fatalf("%d bytes", whole)
	}
	inSession := h.dial(t)
	setOptions(t.Context(), t, inSession, map[string]any{"compression": "zstd"})
	for name, n := range map[string]int{
		"zstd by header":  size(metadata.AppendToOutgoingContext(t.Context(), headerCompress, "zstd"), h.client),
		"zstd by session": size(t.Context(), inSession),
	} {
		if n >= whole {
			t.Errorf("%s: %d bytes, %d without", name, n, whole)
		}
	}
	if n := size(metadata.AppendToOutgoingContext(t.Context(), headerCompress, "none"), inSession); n != whole {
		t.Errorf("none by header: %d bytes, want %d", n, whole)
	}
	_, err := h.sql().Execute(metadata.AppendToOutgoingContext(t.Context(), headerCompress, "gzip"), "rows 1")
	wantError(t, "gzip", err, codes.InvalidArgument, headerCompress, "none, lz4 or zstd")
}
