package flightsvc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/flight/flightsql"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// streamOf starts reading the first endpoint of an info and takes one batch.
func streamOf(ctx context.Context, t testing.TB, h *house, info *flight.FlightInfo) *flight.Reader {
	t.Helper()
	r, err := h.sql().DoGet(ctx, info.Endpoint[0].Ticket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Release)
	if !r.Next() {
		t.Fatal(r.Err())
	}
	return r
}

// drained reads to the end and gives the error there.
func drained(r *flight.Reader) error {
	for r.Next() {
	}
	if errors.Is(r.Err(), io.EOF) {
		return nil
	}
	return r.Err()
}

func TestCancelFlightInfo(t *testing.T) {
	t.Parallel()
	h, e := serveSQL(t, plain, root(t, "media="+demoTable+"/media.lance"))
	execute := func(t *testing.T, text string) *flight.FlightInfo {
		t.Helper()
		info, err := h.sql().Execute(t.Context(), text)
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	t.Run("a running statement", func(t *testing.T) {
		info := execute(t, "endless")
		one, two := streamOf(t.Context(), t, h, info), streamOf(t.Context(), t, h, info)
		result, err := h.client.CancelFlightInfo(t.Context(), &flight.CancelFlightInfoRequest{Info: info})
		if err != nil || result.Status != flight.CancelStatusCancelled {
			t.Fatalf("%v, %v", result, err)
		}
		if n := e.reading.Load(); n != 0 {
			t.Errorf("%d results are computed after the cancel", n)
		}
		for _, r := range []*flight.Reader{one, two} {
			wantError(t, "its stream", drained(r), codes.Canceled, "cancelled by its client")
		}
		_, err = tryFetch(t.Context(), t, h, info)
		wantError(t, "its ticket", err, codes.Canceled)
		if result, err = h.client.CancelFlightInfo(t.Context(), &flight.CancelFlightInfoRequest{Info: info}); err != nil || result.Status != flight.CancelStatusCancelled {
			t.Errorf("again: %v, %v", result, err)
		}
	})
	t.Run("before it runs", func(t *testing.T) {
		info := execute(t, "rows 3")
		if _, err := h.client.CancelFlightInfo(t.Context(), &flight.CancelFlightInfoRequest{Info: info}); err != nil {
			t.Fatal(err)
		}
		_, err := tryFetch(t.Context(), t, h, info)
		wantError(t, "its ticket", err, codes.Canceled)
	})
	t.Run("in the older form", func(t *testing.T) {
		info := execute(t, "endless")
		r := streamOf(t.Context(), t, h, info)
		result, err := h.sql().CancelQuery(t.Context(), info) //nolint:staticcheck // clients still send it
		if err != nil || result != flightsql.CancelResultCancelled {
			t.Errorf("%v, %v", result, err)
		}
		wantError(t, "its stream", drained(r), codes.Canceled)
	})
	t.Run("a read of a table", func(t *testing.T) {
		info, err := h.client.GetFlightInfo(t.Context(), &flight.FlightDescriptor{Type: flight.DescriptorPATH, Path: []string{"media"}})
		if err != nil {
			t.Fatal(err)
		}
		result, err := h.client.CancelFlightInfo(t.Context(), &flight.CancelFlightInfoRequest{Info: info})
		if err != nil || result.Status != flight.CancelStatusNotCancellable {
			t.Errorf("%v, %v", result, err)
		}
	})
	t.Run("unknown", func(t *testing.T) {
		info := execute(t, "rows 3")
		other := proto.Clone(info).(*flight.FlightInfo)
		ticket, err := statementTicket([]byte("nobody's"))
		if err != nil {
			t.Fatal(err)
		}
		other.Endpoint[0].Ticket.Ticket = ticket
		_, err = h.client.CancelFlightInfo(t.Context(), &flight.CancelFlightInfoRequest{Info: other})
		wantError(t, "unknown", err, codes.NotFound)
		if n := len(fetch(t, h, info)); n != 3 {
			t.Errorf("%d rows of the other statement", n)
		}
	})
}

// However often and wherever streams end early, nothing is left behind.
func TestEarlyEndsLeaveNothing(t *testing.T) {
	t.Parallel()
	h, e := serveSQL(t, plain, t.TempDir())
	info, err := h.sql().Execute(t.Context(), "slow 30")
	if err != nil {
		t.Fatal(err)
	}
	fetch(t, h, info)
	before := runtime.NumGoroutine()
	for at := range 12 {
		ctx, cancel := context.WithCancel(t.Context())
		r := streamOf(ctx, t, h, info)
		for range at {
			r.Next()
		}
		cancel()
		if err := drained(r); status.Code(err) != codes.Canceled && !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled after %d batches: %v", at+1, err)
		}
	}
	eventually(t, time.Second, "no result is computed any more", func() bool { return e.reading.Load() == 0 })
	eventually(t, 2*time.Second, "goroutines have ended", func() bool { return runtime.NumGoroutine() <= before+4 })
	if _, ok := h.server.reading.Load(info.String()); ok {
		t.Error("the lease counts as being read")
	}
}

func TestTicketsExpireAndAreRenewed(t *testing.T) {
	t.Parallel()
	opts := plain
	opts.Lease = 400 * time.Millisecond
	h, _ := serveSQL(t, opts, t.TempDir())
	info, err := h.sql().Execute(t.Context(), "rows 3")
	if err != nil {
		t.Fatal(err)
	}
	e := info.Endpoint[0]
	first := e.ExpirationTime.AsTime()
	if left := time.Until(first); left <= 0 || left > opts.Lease {
		t.Errorf("expires in %s", left)
	}
	// Renewed twice, the ticket outlives its first expiry.
	for range 2 {
		time.Sleep(250 * time.Millisecond)
		renewed, err := h.client.RenewFlightEndpoint(t.Context(), &flight.RenewFlightEndpointRequest{Endpoint: e})
		if err != nil {
			t.Fatal(err)
		}
		if !renewed.ExpirationTime.AsTime().After(e.ExpirationTime.AsTime()) || string(renewed.Ticket.Ticket) != string(e.Ticket.Ticket) {
			t.Errorf("renewed %v to %v", e, renewed)
		}
		e = renewed
	}
	if !time.Now().After(first) {
		t.Fatal("the first expiry is not over")
	}
	info.Endpoint[0] = e
	if n := len(fetch(t, h, info)); n != 3 {
		t.Errorf("%d rows of a renewed ticket", n)
	}
	eventually(t, 3*time.Second, "the lease is gone", func() bool { return h.server.leases.len() == 0 })
	_, err = tryFetch(t.Context(), t, h, info)
	wantError(t, "expired", err, codes.NotFound, "expired")
	_, err = h.client.RenewFlightEndpoint(t.Context(), &flight.RenewFlightEndpointRequest{Endpoint: e})
	wantError(t, "renewal of an expired one", err, codes.NotFound)
}

// An expired ticket does not end a stream, which can still be cancelled.
func TestExpiryLeavesStreamsAlone(t *testing.T) {
	t.Parallel()
	opts := plain
	opts.Lease = 100 * time.Millisecond
	h, _ := serveSQL(t, opts, t.TempDir())
	info, err := h.sql().Execute(t.Context(), "endless")
	if err != nil {
		t.Fatal(err)
	}
	r := streamOf(t.Context(), t, h, info)
	eventually(t, 2*time.Second, "the lease is gone", func() bool { return h.server.leases.len() == 0 })
	for range 20 {
		if !r.Next() {
			t.Fatal(r.Err())
		}
	}
	result, err := h.client.CancelFlightInfo(t.Context(), &flight.CancelFlightInfoRequest{Info: info})
	if err != nil || result.Status != flight.CancelStatusCancelled {
		t.Errorf("%v, %v", result, err)
	}
	wantError(t, "stream", drained(r), codes.Canceled)
}

func TestStatementTimeout(t *testing.T) {
	t.Parallel()
	opts := plain
	opts.StatementTimeout = 150 * time.Millisecond
	h, _ := serveSQL(t, opts, t.TempDir())
	info, err := h.sql().Execute(t.Context(), "endless")
	if err != nil {
		t.Fatal(err)
	}
	started := time.Now()
	_, err = tryFetch(t.Context(), t, h, info)
	wantError(t, "endless", err, codes.DeadlineExceeded, "150ms", "longest")
	if took := time.Since(started); took > 2*time.Second {
		t.Errorf("took %s", took)
	}
}

func TestShelf(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var dropped []string
		s := newShelf(time.Minute, 2, 4, func(v string) { dropped = append(dropped, v) })
		put := func(owner, v string) { s.put(v, owner, v) }
		has := func(v string) bool { _, _, ok := s.get(v, false); return ok }
		put("a", "1")
		put("a", "2")
		put("a", "3") // one too many of a's
		if !slices.Equal(dropped, []string{"1"}) || has("1") || !has("2") {
			t.Errorf("dropped %v", dropped)
		}
		s.get("2", true) // now 3 is the older one
		put("a", "4")
		if !slices.Equal(dropped, []string{"1", "3"}) {
			t.Errorf("dropped %v", dropped)
		}
		put("b", "5")
		put("b", "6")
		put("c", "7") // one too many of all
		if !slices.Equal(dropped, []string{"1", "3", "2"}) || s.len() != 4 {
			t.Errorf("dropped %v, %d left", dropped, s.len())
		}
		if v, ok := s.take("5"); !ok || v != "5" || has("5") || len(dropped) != 3 {
			t.Errorf("took %q, dropped %v", v, dropped)
		}
		time.Sleep(40 * time.Second)
		s.get("6", true)
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if !slices.Equal(dropped, []string{"1", "3", "2", "4", "7"}) || !has("6") {
			t.Errorf("dropped %v after 70 s", dropped)
		}
		time.Sleep(31 * time.Second)
		synctest.Wait()
		if s.len() != 0 || len(s.byOwner) != 0 {
			t.Errorf("%d things, %d owners at the end", s.len(), len(s.byOwner))
		}
		put("d", "8")
		put("d", "9")
		s.dropOwner("d")
		s.dropOwner("nobody")
		s.close()
		put("d", "10")
		if s.len() != 0 || !slices.Equal(dropped[len(dropped)-3:], []string{"8", "9", "10"}) {
			t.Errorf("dropped %v, %d left", dropped, s.len())
		}
	})
}

func TestPoll(t *testing.T) {
	t.Parallel()
	h, e := serveSQL(t, plain, root(t, "media="+demoTable+"/media.lance"))
	start := func(t *testing.T, text string) *flight.PollInfo {
		t.Helper()
		p, err := h.sql().ExecutePoll(t.Context(), text, nil)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	t.Run("rows and bytes grow", func(t *testing.T) {
		p := start(t, "slow 60")
		var rows, bytes []int64
		var progress []float64
		for p.FlightDescriptor != nil {
			if p.ExpirationTime == nil || len(p.Info.Endpoint) != 1 {
				t.Errorf("poll %v", p)
			}
			rows, bytes, progress = append(rows, p.Info.TotalRecords), append(bytes, p.Info.TotalBytes), append(progress, p.GetProgress())
			var err error
			if p, err = h.sql().ExecutePoll(t.Context(), "", p.FlightDescriptor); err != nil {
				t.Fatal(err)
			}
		}
		if len(rows) < 3 || !slices.IsSorted(rows) || !slices.IsSorted(bytes) || rows[len(rows)-1] <= rows[0] || bytes[len(bytes)-1] <= bytes[0] {
			t.Errorf("rows %v, bytes %v", rows, bytes)
		}
		if p.ExpirationTime != nil {
			t.Errorf("expires at %v, with nothing to poll", p.ExpirationTime)
		}
		if !slices.IsSorted(progress) || progress[len(progress)-1] >= 1 || p.GetProgress() != 1 || p.Info.TotalRecords != 60 {
			t.Errorf("progress %v, then %v with %d rows", progress, p.GetProgress(), p.Info.TotalRecords)
		}
		before := e.made.Load()
		if got := numbersIn(fetch(t, h, p.Info), "n"); !slices.Equal(got, numbersTo(60)) {
			t.Errorf("rows %v", got)
		}
		if e.made.Load() != before {
			t.Error("the result was computed twice")
		}
		if got := len(fetch(t, h, p.Info)); got != 60 {
			t.Errorf("%d rows when read again", got)
		}
	})
	t.Run("read before it is ready", func(t *testing.T) {
		p := start(t, "slow 30")
		if p.FlightDescriptor == nil {
			t.Fatal("ready at once")
		}
		if got := len(fetch(t, h, p.Info)); got != 30 {
			t.Errorf("%d rows", got)
		}
	})
	t.Run("runs ahead a bounded way", func(t *testing.T) {
		p := start(t, "rows 200000")
		for p.FlightDescriptor != nil {
			var err error
			if p, err = h.sql().ExecutePoll(t.Context(), "", p.FlightDescriptor); err != nil {
				t.Fatal(err)
			}
		}
		if p.Info.TotalRecords != -1 {
			t.Errorf("%d rows are announced of a result that is not complete", p.Info.TotalRecords)
		}
		made := e.made.Load()
		time.Sleep(50 * time.Millisecond)
		if more := e.made.Load() - made; more > 1 {
			t.Errorf("%d more batches while nobody reads", more)
		}
		r := streamOf(t.Context(), t, h, p.Info)
		n := r.RecordBatch().NumRows()
		for r.Next() {
			n += r.RecordBatch().NumRows()
		}
		if n != 200000 {
			t.Errorf("%d rows", n)
		}
	})
	t.Run("cancel", func(t *testing.T) {
		p := start(t, "endless")
		result, err := h.client.CancelFlightInfo(t.Context(), &flight.CancelFlightInfoRequest{Info: p.Info})
		if err != nil || result.Status != flight.CancelStatusCancelled {
			t.Errorf("%v, %v", result, err)
		}
		if n := e.reading.Load(); n != 0 {
			t.Errorf("%d results are computed", n)
		}
		_, err = h.sql().ExecutePoll(t.Context(), "", p.FlightDescriptor)
		wantError(t, "poll", err, codes.Canceled)
		_, err = tryFetch(t.Context(), t, h, p.Info)
		wantError(t, "ticket", err, codes.Canceled)
	})
	t.Run("failures", func(t *testing.T) {
		for text, want := range map[string]codes.Code{"fail": codes.DataLoss, "panic": codes.Internal} {
			p, err := h.sql().ExecutePoll(t.Context(), text, nil)
			for err == nil && p.FlightDescriptor != nil {
				p, err = h.sql().ExecutePoll(t.Context(), "", p.FlightDescriptor)
			}
			wantError(t, text, err, want)
		}
		_, err := h.sql().ExecutePoll(t.Context(), "gibberish", nil)
		wantError(t, "gibberish", err, codes.InvalidArgument)
	})
	t.Run("prepared", func(t *testing.T) {
		p, err := h.sql().Prepare(t.Context(), "slow 5")
		if err != nil {
			t.Fatal(err)
		}
		poll, err := p.ExecutePoll(t.Context(), nil)
		for err == nil && poll.FlightDescriptor != nil {
			poll, err = p.ExecutePoll(t.Context(), poll.FlightDescriptor)
		}
		if err != nil {
			t.Fatal(err)
		}
		if n := len(fetch(t, h, poll.Info)); n != 5 {
			t.Errorf("%d rows", n)
		}
	})
	t.Run("what is ready at once", func(t *testing.T) {
		for _, d := range []*flight.FlightDescriptor{
			{Type: flight.DescriptorPATH, Path: []string{"media"}}, descriptorOf([]byte(`{"table":"media"}`)),
		} {
			p, err := h.client.PollFlightInfo(t.Context(), d)
			if err != nil || p.FlightDescriptor != nil || p.Info.TotalRecords != 16 || p.GetProgress() != 1 {
				t.Errorf("%v: %v, %v", d, p, err)
			}
		}
	})
	t.Run("more than may run", func(t *testing.T) {
		var polls []*flight.PollInfo
		for range maxRunsOwner + 3 {
			polls = append(polls, start(t, "endless"))
		}
		eventually(t, time.Second, "the oldest ones have stopped", func() bool { return e.reading.Load() <= maxRunsOwner })
		// The others' tickets are good all the same.
		streamOf(t.Context(), t, h, polls[0].Info)
		for _, p := range polls {
			if _, err := h.client.CancelFlightInfo(t.Context(), &flight.CancelFlightInfoRequest{Info: p.Info}); err != nil {
				t.Error(err)
			}
		}
	})
}

// Closing the server ends what runs for clients that went away.
func TestCloseEndsRuns(t *testing.T) {
	t.Parallel()
	h, e := serveSQL(t, plain, t.TempDir())
	for i := range 3 {
		if _, err := h.sql().ExecutePoll(t.Context(), "endless", nil); err != nil {
			t.Fatal(i, err)
		}
	}
	h.server.Close()
	if n := e.reading.Load() + e.open.Load(); n != 0 {
		t.Errorf("%d statements or results after Close", n)
	}
	_, err := h.sql().Execute(t.Context(), "rows 1")
	if err != nil {
		t.Error(err)
	}
}

func TestEndpoints(t *testing.T) {
	t.Parallel()
	opts := plain
	opts.EndpointRows, opts.MaxEndpoints = 8, 3
	dir := root(t, "f="+fixtures+"fragments_and_deletions/table.lance", "media="+demoTable+"/media.lance")
	h, e := serveSQL(t, opts, dir)
	want := mustGet(t, h, `{"table":"f"}`)
	path := &flight.FlightDescriptor{Type: flight.DescriptorPATH, Path: []string{"f"}}
	for name, ask := range map[string]func() (*flight.FlightInfo, error){
		"path": func() (*flight.FlightInfo, error) { return h.client.GetFlightInfo(t.Context(), path) },
		"JSON": func() (*flight.FlightInfo, error) {
			return h.client.GetFlightInfo(t.Context(), descriptorOf([]byte(`{"table":"f"}`)))
		},
		"statement": func() (*flight.FlightInfo, error) { return h.sql().Execute(t.Context(), "scan f") },
		"prepared": func() (*flight.FlightInfo, error) {
			p, err := h.sql().Prepare(t.Context(), "scan f")
			if err != nil {
				return nil, err
			}
			return p.Execute(t.Context())
		},
	} {
		t.Run(name, func(t *testing.T) {
			info, err := ask()
			if err != nil {
				t.Fatal(err)
			}
			if n := len(info.Endpoint); n < 2 || n > 3 || !info.Ordered || info.TotalRecords != int64(len(want)) {
				t.Errorf("%d endpoints, ordered %v, %d rows", n, info.Ordered, info.TotalRecords)
			}
			if got := fetch(t, h, info); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%d rows, want %d, or other ones", len(got), len(want))
			}
			for i, e := range info.Endpoint {
				_, rows, err := h.get(t.Context(), string(e.Ticket.Ticket))
				if err != nil || len(rows) < 8 {
					t.Errorf("endpoint %d has %d rows, %v", i, len(rows), err)
				}
				if says := fmt.Sprintf(`,"rows":%d}`, len(rows)); !strings.HasSuffix(string(e.AppMetadata), says) {
					t.Errorf("endpoint %d says %s, want …%s", i, e.AppMetadata, says)
				}
			}
		})
	}
	t.Run("not where it makes no sense", func(t *testing.T) {
		for _, command := range []string{`{"table":"media","limit":9}`, `{"table":"f","limit":9}`, `{"table":"f","rows":[0,1,2]}`, `{"table":"f","filter":"even"}`} {
			info, err := h.client.GetFlightInfo(t.Context(), descriptorOf([]byte(command)))
			if err != nil {
				t.Fatal(err)
			}
			if len(info.Endpoint) != 1 {
				t.Errorf("%s: %d endpoints", command, len(info.Endpoint))
			}
		}
	})
	t.Run("part of the rows", func(t *testing.T) {
		info, err := h.client.GetFlightInfo(t.Context(), descriptorOf([]byte(`{"table":"f","offset":3,"limit":25}`)))
		if err != nil {
			t.Fatal(err)
		}
		if got := fetch(t, h, info); len(info.Endpoint) < 2 || fmt.Sprint(got) != fmt.Sprint(want[3:28]) {
			t.Errorf("%d endpoints, %d rows", len(info.Endpoint), len(got))
		}
	})
	if e.reading.Load() != 0 || e.made.Load() != 0 {
		t.Error("the engine ran a plain scan")
	}
}

func TestFilter(t *testing.T) {
	t.Parallel()
	h, e := serveSQL(t, plain, root(t, "media="+demoTable+"/media.lance"))
	all := mustGet(t, h, `{"table":"media"}`)
	pick := func(positions ...int) string {
		var rows []map[string]any
		for _, p := range positions {
			rows = append(rows, all[p])
		}
		return fmt.Sprint(rows)
	}
	for ticket, want := range map[string]string{
		`{"table":"media","filter":"even"}`:                                pick(0, 2, 4, 6, 8, 10, 12, 14),
		`{"table":"media","filter":"even","offset":2}`:                     pick(4, 6, 8, 10, 12, 14),
		`{"table":"media","filter":"even","offset":1,"limit":4}`:           pick(2, 4, 6, 8),
		`{"table":"media","filter":"even","limit":0}`:                      pick(),
		`{"table":"media","filter":"even","offset":99}`:                    pick(),
		`{"table":"media","filter":"even","batch_bytes":1024,"limit":100}`: pick(0, 2, 4, 6, 8, 10, 12, 14),
	} {
		if got := fmt.Sprint(mustGet(t, h, ticket)); got != want {
			t.Errorf("%s: other rows", ticket)
		}
		info, err := h.client.GetFlightInfo(t.Context(), descriptorOf([]byte(ticket)))
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(fetch(t, h, info)); got != want || info.TotalRecords != -1 {
			t.Errorf("%s: other rows by its info, or %d announced", ticket, info.TotalRecords)
		}
	}
	_, _, err := h.get(t.Context(), `{"table":"media","filter":"odd"}`)
	wantError(t, "unreadable", err, codes.InvalidArgument, "odd")
	_, err = h.client.GetFlightInfo(t.Context(), descriptorOf([]byte(`{"table":"media","filter":"odd"}`)))
	wantError(t, "unreadable, info", err, codes.InvalidArgument, "odd")
	_, _, err = h.get(t.Context(), `{"table":"media","filter":"broken"}`)
	wantError(t, "broken", err, codes.DataLoss, "damage")
	if n := e.reading.Load(); n != 0 {
		t.Errorf("%d filters are read", n)
	}
}
