package flightsvc

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/flightblob/flightblob/catalog"
	"github.com/flightblob/flightblob/flightsvc/wire"
	"github.com/flightblob/flightblob/materialize"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/operation"
	"github.com/flightblob/flightblob/table"
)

// Folders with tables, relative to this package.
const (
	ownTables = "testdata/tables"
	demoTable = "testdata/demo"
	fixtures  = "../conformance/fixtures/tables/"
)

// root copies table folders into a new root, under new names: name=folder.
func root(t testing.TB, tables ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, spec := range tables {
		name, from, _ := strings.Cut(spec, "=")
		if err := os.CopyFS(filepath.Join(dir, name+".lance"), os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// sparse makes the sidecars of this package's own tables in a root.
func sparse(t testing.TB, dir string) {
	t.Helper()
	f, err := os.Open(filepath.Join(ownTables, "sidecars.txt"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var size int64
		var path string
		if _, err := fmt.Sscan(lines.Text(), &size, &path); err != nil {
			t.Fatal(err)
		}
		path = filepath.Join(dir, path)
		if _, err := os.Stat(filepath.Dir(filepath.Dir(path))); errors.Is(err, fs.ErrNotExist) {
			continue // a table that this root does not have
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, size); err != nil {
			t.Fatal(err)
		}
	}
}

// house is a server on loopback with a client of it.
type house struct {
	server *Server
	client flight.Client
	addr   string
	budget *materialize.Budget
}

// plain serves as the program does: mapped objects, frames by writev.
var plain = Options{Plain: true}

// serve starts a server over roots given as NAME=folder or folder.
func serve(t testing.TB, opts Options, roots ...string) *house {
	t.Helper()
	var list []catalog.Root
	allowed := []string{}
	for _, r := range roots {
		name, uri, ok := strings.Cut(r, "=")
		if !ok {
			name, uri = "", r
		}
		list = append(list, catalog.Root{Name: name, URI: uri})
		allowed = append(allowed, uri)
	}
	opts.Counter = objstore.NewCounter(objstore.CounterOptions{Ranges: 8})
	registry := objstore.NewRegistry(objstore.Options{Counter: opts.Counter})
	cat, err := catalog.Open(t.Context(), list, table.NewEnv(registry, objstore.NewAccess(allowed...), table.Limits{}))
	if err != nil {
		t.Fatal(err)
	}
	if opts.Budget == nil {
		opts.Budget = materialize.NewBudget(64 << 20)
	}
	s, err := New(cat, opts)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer(s.ServerOptions()...)
	s.Register(g)
	if opts.Plain {
		l = wire.NewListener(l)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = g.Serve(l)
	}()
	t.Cleanup(func() {
		g.Stop()
		<-done
		s.Close()
		if err := registry.Close(); err != nil {
			t.Error(err)
		}
	})
	h := &house{server: s, addr: l.Addr().String(), budget: opts.Budget}
	h.client = h.dial(t, grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)))
	return h
}

func (h *house) dial(t testing.TB, opts ...grpc.DialOption) flight.Client {
	t.Helper()
	opts = append([]grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}, opts...)
	c, err := flight.NewClientWithMiddleware(h.addr, nil, nil, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// get reads a whole stream as one table of rows in Go values.
func (h *house) get(ctx context.Context, ticket string) (*arrow.Schema, []map[string]any, error) {
	stream, err := h.client.DoGet(ctx, &flight.Ticket{Ticket: []byte(ticket)})
	if err != nil {
		return nil, nil, err
	}
	return readRows(stream)
}

func readRows(stream flight.DataStreamReader) (*arrow.Schema, []map[string]any, error) {
	r, err := flight.NewRecordReader(stream)
	if err != nil {
		return nil, nil, err
	}
	defer r.Release()
	rows := []map[string]any{}
	for r.Next() {
		b := r.RecordBatch()
		for i := range int(b.NumRows()) {
			row := map[string]any{}
			for c, col := range b.Columns() {
				row[b.ColumnName(c)] = value(col, i)
			}
			rows = append(rows, row)
		}
	}
	return r.Schema(), rows, r.Err()
}

// value is one slot in comparable form: bytes as string.
func value(a arrow.Array, i int) any {
	if a.IsNull(i) {
		return nil
	}
	switch a := a.(type) {
	case *array.LargeBinary:
		return string(a.Value(i))
	case *array.Int64:
		return a.Value(i)
	case *array.Uint32:
		return a.Value(i)
	case *array.Uint64:
		return a.Value(i)
	case *array.String:
		return strings.Clone(a.Value(i))
	case *array.Struct:
		m := map[string]any{}
		for f := range a.NumField() {
			m[a.DataType().(*arrow.StructType).Field(f).Name] = value(a.Field(f), i)
		}
		return m
	}
	return a.ValueStr(i)
}

func mustGet(t testing.TB, h *house, ticket string) []map[string]any {
	t.Helper()
	_, rows, err := h.get(t.Context(), ticket)
	if err != nil {
		t.Fatalf("%s: %v", ticket, err)
	}
	return rows
}

// wantError checks an error's code and that its text says all of some things.
func wantError(t testing.TB, what string, err error, code codes.Code, says ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: no error, want %v", what, code)
		return
	}
	if status.Code(err) != code {
		t.Errorf("%s: %v, want code %v", what, err, code)
	}
	for _, s := range says {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("%s: %v; want it to say %q", what, err, s)
		}
	}
}

func ids(rows []map[string]any) []int64 {
	list := []int64{}
	for _, r := range rows {
		list = append(list, r["id"].(int64))
	}
	return list
}

func TestGet(t *testing.T) {
	t.Parallel()
	h := serve(t, plain, root(t, "basic="+fixtures+"kinds_basic_v22/table.lance", "media="+demoTable+"/media.lance"))

	t.Run("bytes equal those the reference wrote", func(t *testing.T) {
		var expected struct {
			Tables map[string]struct {
				Latest    int `json:"latest_version"`
				Snapshots map[string]struct {
					Rows []struct {
						ID  int64
						Img *struct {
							Len    int
							SHA256 string
						}
					}
				}
			}
		}
		text, err := os.ReadFile(fixtures + "kinds_basic_v22/expected.json")
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &expected); err != nil {
			t.Fatal(err)
		}
		tbl := expected.Tables["table.lance"]
		want := tbl.Snapshots[fmt.Sprint(tbl.Latest)].Rows
		got := mustGet(t, h, `{"table":"basic"}`)
		if len(got) != len(want) || len(got) == 0 {
			t.Fatalf("%d rows, want %d", len(got), len(want))
		}
		for i, w := range want {
			b, valid := got[i]["img"].(string)
			switch {
			case got[i]["id"] != w.ID || valid != (w.Img != nil):
				t.Errorf("row %d: %v, want %+v", i, got[i], w)
			case valid:
				if sum := sha256.Sum256([]byte(b)); len(b) != w.Img.Len || hex.EncodeToString(sum[:]) != w.Img.SHA256 {
					t.Errorf("row %d: %d other bytes than the reference's %d", i, len(b), w.Img.Len)
				}
			}
		}
	})
	t.Run("rows in the order asked for, duplicates kept", func(t *testing.T) {
		got := ids(mustGet(t, h, `{"table":"basic","columns":["id"],"rows":[5,0,5,3]}`))
		if diff := cmp.Diff([]int64{5, 0, 5, 3}, got); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("offset and limit", func(t *testing.T) {
		if got := ids(mustGet(t, h, `{"table":"basic","offset":2,"limit":3}`)); !slices.Equal(got, []int64{2, 3, 4}) {
			t.Errorf("got %v", got)
		}
		if got := mustGet(t, h, `{"table":"basic","limit":0}`); len(got) != 0 {
			t.Errorf("limit 0: %d rows", len(got))
		}
		if got := mustGet(t, h, `{"table":"basic","offset":1000}`); len(got) != 0 {
			t.Errorf("offset past the end: %d rows", len(got))
		}
		if got := mustGet(t, h, `{"table":"basic","rows":[]}`); len(got) != 0 {
			t.Errorf("no rows: %d rows", len(got))
		}
	})
	t.Run("faces by ticket, then header, then default", func(t *testing.T) {
		header := func(v string) context.Context {
			return metadata.AppendToOutgoingContext(t.Context(), headerBlobs, v)
		}
		for _, tc := range []struct {
			what, ticket string
			ctx          context.Context
			want         string
		}{
			{"default", `{"table":"basic"}`, t.Context(), "large_binary"},
			{"header", `{"table":"basic"}`, header("descriptor"), "struct<kind: uint8, position: uint64, size: uint64, blob_id: uint32, blob_uri: utf8>"},
			{"ticket over header", `{"table":"basic","blobs":"logical"}`, header("descriptor"), "struct<data: large_binary, uri: utf8, position: uint64, size: uint64>"},
		} {
			sch, _, err := h.get(tc.ctx, tc.ticket)
			if err != nil {
				t.Errorf("%s: %v", tc.what, err)
				continue
			}
			got := strings.ReplaceAll(sch.Field(1).Type.String(), " nullable", "")
			if got != tc.want {
				t.Errorf("%s: %s, want %s", tc.what, got, tc.want)
			}
		}
		_, _, err := h.get(header("raw"), `{"table":"basic"}`)
		wantError(t, "unknown face", err, codes.InvalidArgument, headerBlobs, `"raw"`)
	})
	t.Run("profile bi", func(t *testing.T) {
		ctx := metadata.AppendToOutgoingContext(t.Context(), headerProfile, "bi", headerBlobs, "descriptor")
		sch, rows, err := h.get(ctx, `{"table":"basic","columns":["img"],"limit":1}`)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := sch.Field(0).Type.(*arrow.StructType).Field(0).Type.ID(), arrow.INT16; got != want || len(rows) != 1 {
			t.Errorf("kind is %v, want %v", got, want)
		}
		info, err := h.client.GetFlightInfo(ctx, &flight.FlightDescriptor{Type: flight.DescriptorPATH, Path: []string{"basic"}})
		if err != nil {
			t.Fatal(err)
		}
		sch, _, err = h.get(t.Context(), string(info.Endpoint[0].Ticket.Ticket)) // without the headers
		if err != nil {
			t.Fatal(err)
		}
		announced, err := flight.DeserializeSchema(info.Schema, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !announced.Equal(sch) {
			t.Errorf("announced %v, sent %v", announced, sch)
		}
	})
	t.Run("ranges", func(t *testing.T) {
		data := mustGet(t, h, `{"table":"media","columns":["data"],"rows":[0,15]}`)
		first, last := data[0]["data"].(string), data[1]["data"].(string)
		got := mustGet(t, h, `{"table":"media","column":"data","ranges":[[15,0,4],[0,1,3],[0,100,0]]}`)
		want := []map[string]any{
			{"request": uint32(0), "bytes": last[:4]},
			{"request": uint32(1), "bytes": first[1:4]},
			{"request": uint32(2), "bytes": ""},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		got = mustGet(t, h, `{"table":"basic","column":"img","ranges":[[2,0,5]]}`)
		if diff := cmp.Diff([]map[string]any{{"request": uint32(0), "bytes": nil}}, got); diff != "" {
			t.Errorf("range of a null value: %s", diff)
		}
		for ticket, says := range map[string][]string{
			`{"table":"media","column":"name","ranges":[[0,0,1]]}`:                       {`"name"`, "blob"},
			`{"table":"media","column":"data","ranges":[[16,0,1]]}`:                      {"row 16", "16 rows"},
			`{"table":"media","column":"data","ranges":[[0,6217,1]]}`:                    {"data", "row 0", "6217"},
			`{"table":"media","column":"data","ranges":[[0,18446744073709551615,9]]}`:    {"data", "row 0"},
			`{"table":"media","column":"data","ranges":[[0,0,1]],"batch_bytes":1,"x":1}`: {`"x"`},
		} {
			_, _, err := h.get(t.Context(), ticket)
			wantError(t, ticket, err, codes.InvalidArgument, says...)
		}
	})
	t.Run("range by exchange", func(t *testing.T) {
		for _, d := range []*flight.FlightDescriptor{
			{Type: flight.DescriptorCMD, Cmd: []byte(`{"table":"media","column":"data","ranges":[[15,0,4]]}`)},
		} {
			stream, err := h.client.DoExchange(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := stream.Send(&flight.FlightData{FlightDescriptor: d}); err != nil {
				t.Fatal(err)
			}
			if err := stream.CloseSend(); err != nil {
				t.Fatal(err)
			}
			_, rows, err := readRows(stream)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]map[string]any{{"request": uint32(0), "bytes": "RIFF"}}, rows); diff != "" {
				t.Error(diff)
			}
		}
	})
	t.Run("errors name what is wrong", func(t *testing.T) {
		for _, tc := range []struct {
			ticket string
			code   codes.Code
			says   []string
		}{
			{`{"table":"nope"}`, codes.NotFound, []string{"nope"}},
			{`{"table":"basik"}`, codes.NotFound, []string{"basik", "basic"}},
			{`{"table":"basic","schema":"s"}`, codes.NotFound, []string{`"s"`}},
			{`{"table":"basic","schema":"main","catalog":"c"}`, codes.NotFound, []string{`"c"`}},
			{`{"table":"basic","version":9}`, codes.NotFound, []string{"version 9", "basic"}},
			{`{"table":"basic","tag":"x"}`, codes.NotFound, []string{`"x"`}},
			{`{"table":"basic","branch":"x"}`, codes.NotFound, []string{`"x"`}},
			{`{"table":"basic","timestamp":"1999-01-01"}`, codes.NotFound, []string{"1999-01-01"}},
			{`{"table":"basic","columns":["imgg"]}`, codes.NotFound, []string{`"imgg"`, `"img"`}},
			{`{"table":"basic","rows":[0,99]}`, codes.InvalidArgument, []string{"99"}},
			{`{"table":"basic","filter":"id=1"}`, codes.Unimplemented, []string{"filter", "rows"}},
		} {
			_, _, err := h.get(t.Context(), tc.ticket)
			wantError(t, tc.ticket, err, tc.code, tc.says...)
		}
	})
}

func TestInfo(t *testing.T) {
	t.Parallel()
	h := serve(t, plain, root(t, "versions="+fixtures+"tags_and_branches/table.lance", "media="+demoTable+"/media.lance"))
	command := func(json string) *flight.FlightDescriptor {
		return &flight.FlightDescriptor{Type: flight.DescriptorCMD, Cmd: []byte(json)}
	}
	path := func(p ...string) *flight.FlightDescriptor {
		return &flight.FlightDescriptor{Type: flight.DescriptorPATH, Path: p}
	}
	for _, tc := range []struct {
		name string
		d    *flight.FlightDescriptor
		rows int64
	}{
		{"path", path("media"), 16},
		{"schema and table", path("main", "media"), 16},
		{"full path", path("lance", "main", "media"), 16},
		{"command", command(`{"table":"media","columns":["name","data"],"blobs":"descriptor","offset":3,"limit":5}`), 5},
		{"rows", command(`{"table":"media","rows":[3,3,1]}`), 3},
		{"no rows", command(`{"table":"media","limit":0}`), 0},
		{"ranges", command(`{"table":"media","column":"data","ranges":[[1,0,1],[2,0,1]]}`), 2},
		{"old version", command(`{"table":"media","version":1}`), 12},
		{"row ids", command(`{"table":"media","columns":["_rowid","data","_rowaddr"]}`), 16},
	} {
		t.Run(tc.name, func(t *testing.T) {
			info, err := h.client.GetFlightInfo(t.Context(), tc.d)
			if err != nil {
				t.Fatal(err)
			}
			if len(info.Endpoint) != 1 || len(info.Endpoint[0].Location) != 0 || !proto.Equal(info.FlightDescriptor, tc.d) {
				t.Errorf("endpoints %v, descriptor %v", info.Endpoint, info.FlightDescriptor)
			}
			if says := string(info.Endpoint[0].AppMetadata); !strings.HasSuffix(says, fmt.Sprintf(`,"rows":%d}`, tc.rows)) {
				t.Errorf("endpoint says %s", says)
			}
			if info.TotalRecords != tc.rows {
				t.Errorf("total_records %d, want %d", info.TotalRecords, tc.rows)
			}
			announced, err := flight.DeserializeSchema(info.Schema, nil)
			if err != nil {
				t.Fatal(err)
			}
			sch, rows, err := h.get(t.Context(), string(info.Endpoint[0].Ticket.Ticket))
			if err != nil {
				t.Fatal(err)
			}
			if !announced.Equal(sch) {
				t.Errorf("announced %v, sent %v", announced, sch)
			}
			if int64(len(rows)) != tc.rows {
				t.Errorf("%d rows, announced %d", len(rows), tc.rows)
			}
			only, err := h.client.GetSchema(t.Context(), tc.d)
			if err != nil {
				t.Fatal(err)
			}
			if string(only.Schema) != string(info.Schema) {
				t.Error("GetSchema and GetFlightInfo differ")
			}
		})
	}
	t.Run("tickets pin version and branch", func(t *testing.T) {
		info, err := h.client.GetFlightInfo(t.Context(), command(`{"table":"versions"}`))
		if err != nil {
			t.Fatal(err)
		}
		pinned, err := ParseTicket(info.Endpoint[0].Ticket.Ticket)
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf(`{"version":%d}`, pinned.Ref.Version); pinned.Ref.Version == 0 || string(info.AppMetadata) != want {
			t.Errorf("pinned %+v, app_metadata %s", pinned.Ref, info.AppMetadata)
		}
	})
	for name, d := range map[string]*flight.FlightDescriptor{
		"no path":       path(),
		"long path":     path("a", "b", "c", "d"),
		"empty name":    path("media", ""),
		"no type":       {Path: []string{"media"}},
		"empty command": command(""),
		"junk command":  command("\x01\x02junk"),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := h.client.GetFlightInfo(t.Context(), d)
			wantError(t, name, err, codes.InvalidArgument)
			_, err = h.client.GetSchema(t.Context(), d)
			wantError(t, name, err, codes.InvalidArgument)
		})
	}
}

// A table made anew has the version numbers of the dropped one; a ticket that
// pins one of those must not read another table's rows.
func TestPinnedTicketOfADroppedTable(t *testing.T) {
	t.Parallel()
	dir := root(t, "t="+fixtures+"kinds_basic_v22/table.lance")
	h := serve(t, plain, dir)
	info, err := h.client.GetFlightInfo(t.Context(), &flight.FlightDescriptor{Type: flight.DescriptorPATH, Path: []string{"t"}})
	if err != nil {
		t.Fatal(err)
	}
	pinned := string(info.Endpoint[0].Ticket.Ticket)
	if _, rows, err := h.get(t.Context(), pinned); err != nil || len(rows) != 7 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	folder := filepath.Join(dir, "t.lance")
	if err := errors.Join(os.RemoveAll(folder), os.CopyFS(folder, os.DirFS(fixtures+"all_null/table.lance"))); err != nil {
		t.Fatal(err)
	}
	_, _, err = h.get(t.Context(), pinned)
	wantError(t, "pinned", err, codes.NotFound, "table t", "version 1", "made anew")
	if _, rows, err := h.get(t.Context(), `{"table":"t","version":1}`); err != nil || len(rows) != 20 {
		t.Errorf("the new table: %d rows, %v", len(rows), err)
	}
}

func flights(t *testing.T, h *house, expression string) map[string]*flight.FlightInfo {
	t.Helper()
	stream, err := h.client.ListFlights(t.Context(), &flight.Criteria{Expression: []byte(expression)})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*flight.FlightInfo{}
	for {
		info, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all[strings.Join(info.FlightDescriptor.Path, ".")] = info
	}
}

// A damaged table is listed, with the reason, and hides no other.
func TestListFlights(t *testing.T) {
	t.Parallel()
	a := root(t, "media="+demoTable+"/media.lance", "broken="+demoTable+"/media.lance")
	b := root(t, "media="+demoTable+"/media.lance")
	manifests, err := filepath.Glob(filepath.Join(a, "broken.lance/_versions/*.manifest"))
	if err != nil || len(manifests) == 0 {
		t.Fatal(manifests, err)
	}
	for _, m := range manifests {
		if err := os.WriteFile(m, []byte("not a manifest, but of some length"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	h := serve(t, plain, "one="+a, "two="+b)
	got := flights(t, h, "")
	if len(got) != 3 || got["media"] == nil || got["two.main.media"] == nil || got["broken"] == nil {
		t.Fatalf("listed %v", got)
	}
	for _, name := range []string{"media", "two.main.media"} {
		if got[name].TotalRecords != 16 || len(got[name].Schema) == 0 || len(got[name].Endpoint) != 1 {
			t.Errorf("%s: %v", name, got[name])
		}
		if _, err := h.client.GetFlightInfo(t.Context(), got[name].FlightDescriptor); err != nil {
			t.Errorf("%s by its listed path: %v", name, err)
		}
	}
	var reason struct{ Error string }
	if err := json.Unmarshal(got["broken"].AppMetadata, &reason); err != nil || !strings.Contains(reason.Error, "broken") {
		t.Errorf("broken: %s, %v", got["broken"].AppMetadata, err)
	}
	if strings.Contains(reason.Error, a) {
		t.Errorf("the reason shows the local root: %s", reason.Error)
	}
	_, _, err = h.get(t.Context(), `{"table":"broken"}`)
	wantError(t, "broken", err, codes.DataLoss, "broken.lance/_versions")
	if err != nil && strings.Contains(err.Error(), a) {
		t.Errorf("the error shows the local root: %v", err)
	}
	for expression, want := range map[string]int{"two": 1, "m": 1, "one.main.m": 1, "x": 0} {
		if n := len(flights(t, h, expression)); n != want {
			t.Errorf("criteria %q: %d tables, want %d", expression, n, want)
		}
	}
}

func TestActions(t *testing.T) {
	t.Parallel()
	h := serve(t, plain, root(t, "media="+demoTable+"/media.lance"))
	list, err := h.client.ListActions(t.Context(), &flight.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for {
		a, err := list.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, a.Type)
	}
	want := []string{"CancelFlightInfo", "RenewFlightEndpoint", "SetSessionOptions", "GetSessionOptions", "CloseSession", "describe", "set"}
	if want = append(want, operation.Names()...); !slices.Equal(names, want) {
		t.Errorf("actions %v", names)
	}
	act := func(kind, body string) (map[string]any, error) {
		stream, err := h.client.DoAction(t.Context(), &flight.Action{Type: kind, Body: []byte(body)})
		if err != nil {
			return nil, err
		}
		r, err := stream.Recv()
		if err != nil {
			return nil, err
		}
		answer := map[string]any{}
		return answer, json.Unmarshal(r.Body, &answer)
	}
	mustGet(t, h, `{"table":"media","blobs":"descriptor"}`)
	got, err := act("describe", `{"table":"media"}`)
	if err != nil {
		t.Fatal(err)
	}
	if got["table"] != "media" || got["version"] != 2.0 || got["rows"] != 16.0 || got["fragment_count"] != 2.0 {
		t.Errorf("got %v", got)
	}
	objects := got["store"].(map[string]any)["objects"].([]any)
	read := false
	for _, o := range objects {
		name := o.(map[string]any)["object"].(string)
		if strings.HasPrefix(name, "data/") && strings.HasSuffix(name, ".lance") {
			read = true
			ranges, _ := o.(map[string]any)["ranges"].([]any)
			if requests := int(o.(map[string]any)["requests"].(float64)); len(ranges) == 0 || len(ranges) > min(requests, 8) {
				t.Errorf("%s: ranges %v of %d requests", name, ranges, requests)
			}
		}
		if strings.HasSuffix(name, ".blob") || strings.HasPrefix(name, "/") {
			t.Errorf("a descriptor scan asked for %s", name)
		}
	}
	if !read {
		t.Errorf("no data file among %v", objects)
	}
	if got, err = act("describe", `{"table":"media","version":1}`); err != nil || got["rows"] != 12.0 {
		t.Errorf("version 1: %v, %v", got["rows"], err)
	}
	_, err = act("describe", `{"table":"media","to":"x"}`)
	wantError(t, "unknown key", err, codes.InvalidArgument, `"to"`)
	_, err = act("describe", ``)
	wantError(t, "no body", err, codes.InvalidArgument)
	_, err = act("squash", `{"table":"media"}`)
	wantError(t, "unknown action", err, codes.InvalidArgument, `"squash"`, "describe", "add_base")
	for _, c := range []struct{ body, want string }{
		{`{"table":"media"}`, "path is missing"},
		{`{"table":"media","path":3,"name":null}`, "name"},
		{`{"table":"media","path":"x","dataset_root":"perhaps"}`, "true or false"},
		{`{"table":"media","path":"x","to":"y"}`, `unknown key "to"`},
		{`{"path":"x"}`, "table is missing"},
	} {
		_, err = act("add_base", c.body)
		wantError(t, c.body, err, codes.InvalidArgument, c.want)
	}
}

func TestDescribeFitsIntoAMessage(t *testing.T) {
	t.Parallel()
	d := &Description{Table: "wide", FragmentCount: maxFragments}
	for i := range maxFragments {
		d.Fragments = append(d.Fragments, FragmentInfo{ID: uint64(i), Files: []FileInfo{{Path: "x.lance", Fields: make([]int32, 500)}}})
	}
	body, err := describeAnswer(d, nil, 100_000)
	if err != nil {
		t.Fatal(err)
	}
	var got Description
	if err := json.Unmarshal(body, &got); err != nil {
		t.Fatal(err)
	}
	if len(body) > 100_000 || len(got.Fragments) == 0 || got.FragmentCount != maxFragments {
		t.Errorf("%d bytes, %d of %d fragments", len(body), len(got.Fragments), got.FragmentCount)
	}
}

func TestHealthAndReflection(t *testing.T) {
	t.Parallel()
	h := serve(t, plain, root(t))
	conn, err := grpc.NewClient(h.addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	check := func() grpc_health_v1.HealthCheckResponse_ServingStatus {
		r, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: flightService})
		if err != nil {
			t.Fatal(err)
		}
		return r.Status
	}
	if s := check(); s != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Errorf("health %v", s)
	}
	asked, err := grpc_reflection_v1.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := asked.Send(&grpc_reflection_v1.ServerReflectionRequest{
		MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_ListServices{},
	}); err != nil {
		t.Fatal(err)
	}
	answer, err := asked.Recv()
	if err != nil {
		t.Fatal(err)
	}
	var services []string
	for _, s := range answer.GetListServicesResponse().GetService() {
		services = append(services, s.Name)
	}
	if !slices.Contains(services, flightService) {
		t.Errorf("services by reflection: %v", services)
	}
	h.server.Drain()
	if s := check(); s != grpc_health_v1.HealthCheckResponse_NOT_SERVING {
		t.Errorf("health while draining %v", s)
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
