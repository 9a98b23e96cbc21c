package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/flight/flightsql"
	flightpb "github.com/apache/arrow-go/v18/arrow/flight/gen/flight"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
)

// What the client of Arrow's integration suite does in each scenario, done to
// this program. That suite's servers give canned answers; here the same calls
// meet tables, and what the suite wants of an answer is wanted of a real one.
// docs/clients.md lists the scenarios that have no place here, and why.

// wholeTable is a plain scan of a fixture of some fragments.
const wholeTable = `SELECT * FROM "table"`

func TestArrowScenarios(t *testing.T) {
	t.Parallel()
	p := served(t, []string{"--endpoint-rows", "8"}, "fragments_and_deletions")
	c := dialSQL(t, p, nil)
	ctx := t.Context()
	scan := func(t *testing.T) *flight.FlightInfo {
		t.Helper()
		info, err := c.Execute(ctx, wholeTable)
		if err != nil {
			t.Fatal(err)
		}
		return info
	}

	t.Run("auth:basic_proto", func(t *testing.T) {
		// Nobody is asked for a name; whoever tells one all the same goes on.
		auth := &tellsName{}
		client, err := flight.NewClientWithMiddleware(p.address(), auth, nil, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = client.Close() }()
		if err := client.Authenticate(ctx); err != nil || !auth.answered {
			t.Errorf("answered %v, %v", auth.answered, err)
		}
		rows, err := ask(ctx, &flightsql.Client{Client: client}, "SELECT 1 AS one")
		wantRows(t, "afterwards", rows, err, "1")
		withToken, err := c.Client.AuthenticateBasicToken(ctx, "arrow", "flight")
		if err != nil {
			t.Fatal(err)
		}
		rows, err = ask(withToken, c, "SELECT 1 AS one")
		wantRows(t, "with the token", rows, err, "1")
	})
	t.Run("ordered", func(t *testing.T) {
		info := scan(t)
		if !info.Ordered || len(info.Endpoint) < 3 {
			t.Errorf("%d endpoints, ordered: %v", len(info.Endpoint), info.Ordered)
		}
		rows, err := rowsOf(ctx, c, info)
		if err != nil {
			t.Fatal(err)
		}
		want, err := ask(ctx, c, wholeTable+" ORDER BY id")
		if err != nil || len(want) == 0 {
			t.Fatal(want, err)
		}
		// The fixture's ids ascend, so the scan's order is theirs.
		wantRows(t, "endpoints one after the other", rows, nil, want...)
	})
	t.Run("expiration_time:do_get", func(t *testing.T) {
		info := scan(t)
		for range 2 { // as often as one likes before the end
			for i, e := range info.Endpoint {
				if e.ExpirationTime == nil || time.Until(e.ExpirationTime.AsTime()) < time.Minute || len(e.Location) > 0 {
					t.Errorf("endpoint %d: expires %v, location %v", i, e.ExpirationTime, e.Location)
				}
			}
			if rows, err := rowsOf(ctx, c, info); err != nil || int64(len(rows)) != info.TotalRecords {
				t.Errorf("%d rows of %d, %v", len(rows), info.TotalRecords, err)
			}
		}
	})
	t.Run("expiration_time:list_actions", func(t *testing.T) {
		stream, err := c.Client.ListActions(ctx, &flight.Empty{})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for {
			a, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, a.Type)
		}
		for _, want := range []string{
			flight.CancelFlightInfoActionType, flight.RenewFlightEndpointActionType, flight.SetSessionOptionsActionType,
			flight.GetSessionOptionsActionType, flight.CloseSessionActionType, flightsql.CreatePreparedStatementActionType,
			flightsql.ClosePreparedStatementActionType, flightsql.CancelQueryActionType, "describe",
		} {
			if !slices.Contains(names, want) {
				t.Errorf("no %s among %v", want, names)
			}
		}
		// What is refused is not listed.
		if slices.Contains(names, flightsql.BeginTransactionActionType) {
			t.Errorf("transactions among %v", names)
		}
	})
	t.Run("expiration_time:cancel_flight_info", func(t *testing.T) {
		info := scan(t)
		result, err := c.CancelFlightInfo(ctx, &flight.CancelFlightInfoRequest{Info: info})
		if err != nil || result.Status != flight.CancelStatusCancelled {
			t.Errorf("%v, %v", result, err)
		}
		for _, e := range info.Endpoint {
			_, err := c.DoGet(ctx, e.Ticket)
			wantCode(t, "a cancelled ticket", err, codes.Canceled, "cancelled by its client")
		}
	})
	t.Run("expiration_time:renew_flight_endpoint", func(t *testing.T) {
		for i, e := range scan(t).Endpoint {
			renewed, err := c.RenewFlightEndpoint(ctx, &flight.RenewFlightEndpointRequest{Endpoint: e})
			if err != nil {
				t.Fatal(err)
			}
			if !renewed.ExpirationTime.AsTime().After(e.ExpirationTime.AsTime()) {
				t.Errorf("endpoint %d: %v, renewed %v", i, e.ExpirationTime.AsTime(), renewed.ExpirationTime.AsTime())
			}
			if string(renewed.AppMetadata) != string(e.AppMetadata) || string(renewed.Ticket.Ticket) != string(e.Ticket.Ticket) {
				t.Errorf("endpoint %d became %v", i, renewed)
			}
		}
	})
	t.Run("location:reuse_connection", func(t *testing.T) {
		// No location means the same and is understood by older clients too.
		for _, e := range scan(t).Endpoint {
			if len(e.Location) > 0 {
				t.Errorf("location %v", e.Location)
			}
		}
	})
	t.Run("poll_flight_info", func(t *testing.T) {
		poll, err := c.ExecutePoll(ctx, "SELECT sum(sqrt(range)) AS s FROM range(100000000)", nil)
		if err != nil {
			t.Fatal(err)
		}
		for n := 0; poll.FlightDescriptor != nil; n++ {
			switch {
			case n > 1000:
				t.Fatal("no end")
			case poll.Progress == nil || poll.GetProgress() < 0 || poll.GetProgress() > 1:
				t.Errorf("progress %v", poll.Progress)
			case poll.ExpirationTime == nil:
				t.Error("no expiry")
			}
			if poll, err = c.ExecutePoll(ctx, "", poll.FlightDescriptor); err != nil {
				t.Fatal(err)
			}
		}
		if poll.GetProgress() != 1 || poll.ExpirationTime != nil || poll.Info.TotalRecords != 1 || poll.Info.TotalBytes <= 0 {
			t.Errorf("at the end: %v", poll)
		}
		rows, err := rowsOf(ctx, c, poll.Info)
		if err != nil || len(rows) != 1 {
			t.Errorf("%v, %v", rows, err)
		}
	})
	t.Run("poll_flight_info growing", func(t *testing.T) {
		// Rows that take their time, so that batches come one by one.
		poll, err := c.ExecutePoll(ctx, "SELECT range AS n, md5(repeat(range::VARCHAR, 2000)) AS m FROM range(60000)", nil)
		if err != nil {
			t.Fatal(err)
		}
		var rows, bytes []int64
		for poll.FlightDescriptor != nil {
			rows, bytes = append(rows, poll.Info.TotalRecords), append(bytes, poll.Info.TotalBytes)
			if poll, err = c.ExecutePoll(ctx, "", poll.FlightDescriptor); err != nil {
				t.Fatal(err)
			}
		}
		rows, bytes = append(rows, poll.Info.TotalRecords), append(bytes, poll.Info.TotalBytes)
		if last := len(rows) - 1; last < 2 || !slices.IsSorted(rows) || !slices.IsSorted(bytes) || rows[last] != 60000 || rows[1] == rows[last] {
			t.Errorf("rows %v, bytes %v", rows, bytes)
		}
	})
	t.Run("app_metadata_flight_info_endpoint", func(t *testing.T) {
		info := scan(t)
		var n int64
		for i, e := range info.Endpoint {
			var version, rows int64
			if _, err := fmt.Sscanf(string(e.AppMetadata), `{"version":%d,"rows":%d}`, &version, &rows); err != nil {
				t.Fatalf("endpoint %d: %s, %v", i, e.AppMetadata, err)
			}
			if n += rows; string(info.AppMetadata) != fmt.Sprintf(`{"version":%d}`, version) {
				t.Errorf("info %s, endpoint %d %s", info.AppMetadata, i, e.AppMetadata)
			}
		}
		if n != info.TotalRecords {
			t.Errorf("endpoints of %d rows, %d in all", n, info.TotalRecords)
		}
	})
	t.Run("session_options", func(t *testing.T) { checkSessionOptions(t, p) })
	t.Run("flight_sql", func(t *testing.T) {
		// Metadata and statements are TestFlightSQLClient's; here the update path.
		if n, err := c.ExecuteUpdate(ctx, `DELETE FROM "table" WHERE false`); n != 0 || err != nil {
			t.Errorf("update of %d rows: %v", n, err)
		}
		st, err := c.Prepare(ctx, `DELETE FROM "table" WHERE id < 0`)
		if err != nil {
			t.Fatal(err)
		}
		if update, said := st.IsUpdate(); !update || !said {
			t.Errorf("is an update: %v, said: %v", update, said)
		}
		if n, err := st.ExecuteUpdate(ctx); n != 0 || err != nil {
			t.Errorf("prepared update of %d rows: %v", n, err)
		}
		if err := st.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Run("flight_sql:extension", func(t *testing.T) {
		// Of it the older form of cancel; transactions and Substrait are refused by
		// name, as TestFlightSQLClient sees.
		info := scan(t)
		result, err := c.CancelQuery(ctx, info) //nolint:staticcheck // older clients send it
		if err != nil || result != flightsql.CancelResultCancelled {
			t.Errorf("%v, %v", result, err)
		}
		_, err = c.DoGet(ctx, info.Endpoint[0].Ticket)
		wantCode(t, "a cancelled ticket", err, codes.Canceled, "cancelled by its client")
	})
}

// tellsName shakes hands by a name and a password in the payload.
type tellsName struct{ answered bool }

func (a *tellsName) Authenticate(_ context.Context, conn flight.AuthConn) error {
	// A BasicAuth message: username arrow, password flight.
	if err := conn.Send([]byte("\x12\x05arrow\x1a\x06flight")); err != nil {
		return err
	}
	if _, err := conn.Read(); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	a.answered = true
	return nil
}

func (*tellsName) GetToken(context.Context) (string, error) { return "", nil }

// checkSessionOptions sets, reads, removes and closes, with cookies and without.
func checkSessionOptions(t *testing.T, p *program) {
	for name, middleware := range map[string][]flight.ClientMiddleware{
		"with cookies": {flight.NewClientCookieMiddleware()}, "without": nil,
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			c := dialSQL(t, p, middleware)
			set := func(values map[string]any) map[string]flightpb.SetSessionOptionsResult_ErrorValue {
				t.Helper()
				options, err := flight.NewSessionOptionValues(values)
				if err != nil {
					t.Fatal(err)
				}
				r, err := c.SetSessionOptions(ctx, &flight.SetSessionOptionsRequest{SessionOptions: options})
				if err != nil {
					t.Fatal(err)
				}
				bad := map[string]flightpb.SetSessionOptionsResult_ErrorValue{}
				for name, e := range r.Errors {
					bad[name] = e.Value
				}
				return bad
			}
			get := func() map[string]*flight.SessionOptionValue {
				t.Helper()
				r, err := c.GetSessionOptions(ctx, &flight.GetSessionOptionsRequest{})
				if err != nil {
					t.Fatal(err)
				}
				return r.SessionOptions
			}
			first := get()
			if len(first) != 2 || first["catalog"].GetStringValue() != "fragments_and_deletions" || first["schema"].GetStringValue() != "main" {
				t.Errorf("a new session has %v", first)
			}
			bad := set(map[string]any{
				"batch_bytes": int64(65536), "max_message_bytes": 8388608.0, "blobs": "descriptor", "lol_invalid": "never set", "profile": "lol_invalid",
				"catalog": []string{"a", "list"},
			})
			if len(bad) != 3 || bad["lol_invalid"] != flight.SetSessionOptionsResultErrorInvalidName ||
				bad["profile"] != flight.SetSessionOptionsResultErrorInvalidValue || bad["catalog"] != flight.SetSessionOptionsResultErrorInvalidValue {
				t.Errorf("refused %v", bad)
			}
			now := get()
			if len(now) != 5 || now["batch_bytes"].GetInt64Value() != 65536 || now["max_message_bytes"].GetDoubleValue() != 8388608 || now["blobs"].GetStringValue() != "descriptor" {
				t.Errorf("set %v", now)
			}
			if bad := set(map[string]any{"batch_bytes": nil}); len(bad) > 0 {
				t.Errorf("unset: %v", bad)
			}
			if now = get(); len(now) != 4 || now["batch_bytes"] != nil {
				t.Errorf("after one was unset: %v", now)
			}
			r, err := c.CloseSession(ctx, &flight.CloseSessionRequest{})
			if err != nil || r.Status != flight.CloseSessionResultClosed {
				t.Errorf("close: %v, %v", r, err)
			}
			if now = get(); len(now) != 2 {
				t.Errorf("after close: %v", now)
			}
		})
	}
}
