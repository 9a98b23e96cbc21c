package flightsvc

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/flight"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/flightblob/flightblob/internal/fault"
)

// A lease is a query that a client was promised: GetFlightInfo and
// PollFlightInfo give tickets to it, and until they expire each may be read,
// also several times and from other connections, always over the versions that
// were pinned when the promise was made. It holds text and pins; prepared
// statements that wait for their reader are kept apart, and only a few.
type lease struct {
	key       string
	principal string
	query     *query
	pin       *pin // keeps the versions that the query reads; nil for none

	mu        sync.Mutex
	cancelled bool
	readers   map[*reading]struct{}
}

// reading is a stream of a lease under way.
type reading struct {
	cancel context.CancelCauseFunc
	ended  chan struct{}
}

// Bounds of leases.
const (
	defaultLease     = time.Hour
	maxLeasesOfOwner = 1000
	maxLeases        = 20_000
	// Prepared statements hold memory of the engine, so few wait, and not long.
	spareTime      = 30 * time.Second
	maxSparesOwner = 16
	maxSpares      = 64
)

// errNoLease is for tickets that no lease answers to.
var errNoLease = fault.New(fault.NotFound, "ticket: no such statement, or its ticket has expired; "+
	"ask GetFlightInfo again, and renew tickets with RenewFlightEndpoint before they expire")

// errOnce is for a second reader of what changes something.
var errOnce = fault.New(fault.Precondition, "ticket: the statement changes something and was carried out when its rows were first asked for; "+
	"they are sent once, so look at the table and, if that is what you want, run the statement again")

// errTimeLimit is what streams end with after StatementTimeout.
var errTimeLimit = fmt.Errorf("the longest that this server allows: %w", context.DeadlineExceeded)

// errCancelled is what streams end with after CancelFlightInfo.
var errCancelled = fmt.Errorf("statement: cancelled by its client: %w", context.Canceled)

// lend makes a lease of a planned query, whose prepared statement waits for the
// first reader unless the query needs none. Its versions are pinned if the call
// wants that.
func (s *Server) lend(ctx context.Context, c caller, q *query) (*lease, time.Time, error) {
	l := &lease{key: newKey(), principal: c.principal, query: q, readers: map[*reading]struct{}{}}
	set, err := s.settings(ctx, &Ticket{})
	if err == nil {
		l.pin, err = s.pin(ctx, set, q.statement.Snapshots())
	}
	if err != nil {
		s.closeStatement(q.statement)
		q.params.release()
		return nil, time.Time{}, err
	}
	until := s.leases.put(l.key, c.owner(), l)
	if q.plain == nil {
		s.spares.put(l.key, c.owner(), q.statement)
	} else {
		s.closeStatement(q.statement)
	}
	return l, l.pin.end(until), nil
}

// dropLease ends what a lease still holds; its readers go on.
func (s *Server) dropLease(l *lease) {
	if st, ok := s.spares.take(l.key); ok {
		s.closeStatement(st)
	}
	if r, ok := s.ahead.take(l.key); ok {
		r.Release()
	}
	s.pins.drop(l.pin)
	l.query.params.release()
}

func (s *Server) closeStatement(st Statement) {
	if err := st.Close(); err != nil {
		s.log.Warn("closing a statement", "error", s.redact.text(err.Error()))
	}
}

// ticket names one part of a lease.
func (l *lease) ticket(part int) []byte {
	if len(l.query.parts) == 1 {
		return []byte(l.key)
	}
	return []byte(l.key + "." + strconv.Itoa(part))
}

// leaseOf finds the lease and the part that a statement ticket names. Another
// principal's is not found.
func (s *Server) leaseOf(ctx context.Context, handle []byte) (*lease, int, time.Time, error) {
	key, number, _ := strings.Cut(string(handle), ".")
	c, err := s.callerOf(ctx)
	if err != nil {
		return nil, 0, time.Time{}, err
	}
	l, until, ok := s.leases.get(key, false)
	if !ok || l.principal != c.principal {
		return nil, 0, time.Time{}, errNoLease
	}
	part := 0
	if number != "" {
		if part, err = strconv.Atoi(number); err != nil || part < 0 || part >= len(l.query.parts) {
			return nil, 0, time.Time{}, fault.New(fault.Invalid, "ticket: the statement has %d endpoints, none is %s", len(l.query.parts), quote(number))
		}
	}
	return l, part, l.pin.end(until), nil
}

// enter registers a reader. The context it gives ends with the call's, with
// CancelFlightInfo and with the time that a statement may take.
func (s *Server) enter(ctx context.Context, l *lease) (context.Context, func(), error) {
	ctx, cancel := context.WithCancelCause(ctx)
	r := &reading{cancel: cancel, ended: make(chan struct{})}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cancelled {
		cancel(nil)
		return nil, nil, errCancelled
	}
	if !l.query.params.retain() {
		cancel(nil)
		return nil, nil, errNoLease
	}
	l.readers[r] = struct{}{}
	unpin := s.pins.enter(l.pin)
	s.reading.Store(l.key, l)
	ctx, stop := s.limited(ctx)
	return ctx, func() {
		stop()
		cancel(nil)
		l.mu.Lock()
		delete(l.readers, r)
		if len(l.readers) == 0 {
			s.reading.Delete(l.key)
		}
		l.mu.Unlock()
		unpin()
		l.query.params.release()
		close(r.ended)
	}, nil
}

// limited bounds the time that a statement may take.
func (s *Server) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := s.opts.StatementTimeout
	if limit <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf("statement: it ran for %s, %w", limit, errTimeLimit))
}

// because puts the reason why a context ended in the place of what came of it.
func because(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	cause := context.Cause(ctx)
	if errors.Is(cause, errCancelled) || errors.Is(cause, errTimeLimit) {
		return cause
	}
	return err
}

// cancelWait is how long CancelFlightInfo waits for streams to end before it
// answers that they are about to.
const cancelWait = 2 * time.Second

// cancel stops all readers of a lease and refuses new ones.
func (s *Server) cancel(ctx context.Context, l *lease) flight.CancelStatus {
	l.mu.Lock()
	l.cancelled = true
	var waits []chan struct{}
	for r := range l.readers {
		r.cancel(errCancelled)
		waits = append(waits, r.ended)
	}
	l.mu.Unlock()
	if r, ok := s.ahead.take(l.key); ok {
		r.Release()
	}
	if st, ok := s.spares.take(l.key); ok {
		s.closeStatement(st)
	}
	s.pins.drop(l.pin)
	timeout := time.NewTimer(cancelWait)
	defer timeout.Stop()
	for _, ended := range waits {
		select {
		case <-ended:
		case <-ctx.Done():
			return flight.CancelStatusCancelling
		case <-timeout.C:
			return flight.CancelStatusCancelling
		}
	}
	return flight.CancelStatusCancelled
}

// cancelInfo implements CancelFlightInfo for the endpoints of an info. Reads of
// tables by path or JSON are bound to no statement and end with their stream; what
// keeps their version ends with the last one of these.
func (s *Server) cancelInfo(ctx context.Context, info *flight.FlightInfo) (flight.CancelStatus, error) {
	if len(info.GetEndpoint()) == 0 {
		return 0, fault.New(fault.Invalid, "CancelFlightInfo: the info has no endpoint")
	}
	found, unpinned := map[*lease]bool{}, false
	for _, e := range info.Endpoint {
		r, err := routeTicket(e.GetTicket())
		if err != nil {
			return 0, err
		}
		if r.sql == nil {
			pin, err := s.pinOf(ctx, r.ticket)
			if err != nil {
				return 0, err
			}
			s.pins.drop(pin)
			unpinned = unpinned || pin != nil
			continue
		}
		handle, ok, err := statementHandle(r.sql)
		if err != nil {
			return 0, err
		}
		if !ok {
			continue
		}
		l, _, _, err := s.leaseOf(ctx, handle)
		if err != nil {
			key, _, _ := strings.Cut(string(handle), ".")
			active, ok := s.reading.Load(key)
			if c, cerr := s.callerOf(ctx); !ok || cerr != nil || active.(*lease).principal != c.principal {
				return 0, err
			}
			l = active.(*lease)
		}
		found[l] = true
	}
	if len(found) == 0 && !unpinned {
		return flight.CancelStatusNotCancellable, nil
	}
	result := flight.CancelStatusCancelled
	for l := range found {
		if s.cancel(ctx, l) != flight.CancelStatusCancelled {
			result = flight.CancelStatusCancelling
		}
	}
	return result, nil
}

// renew implements RenewFlightEndpoint: the ticket stays, its end moves. Tickets
// that do not expire come back as they are.
func (s *Server) renew(ctx context.Context, e *flight.FlightEndpoint) (*flight.FlightEndpoint, error) {
	if len(e.GetTicket().GetTicket()) == 0 {
		return nil, fault.New(fault.Invalid, "RenewFlightEndpoint: the endpoint has no ticket")
	}
	r, err := routeTicket(e.Ticket)
	if err != nil {
		return nil, err
	}
	if r.sql == nil {
		return s.renewPin(ctx, r.ticket, e)
	}
	handle, ok, err := statementHandle(r.sql)
	if err != nil || !ok {
		return e, err
	}
	l, _, _, err := s.leaseOf(ctx, handle)
	if err != nil {
		return nil, err
	}
	_, until, ok := s.leases.get(l.key, true)
	if !ok {
		return nil, errNoLease
	}
	if l.pin != nil {
		if _, err := s.pins.renew(ctx, l.pin); err != nil {
			return nil, err
		}
	}
	until = l.pin.end(until)
	return &flight.FlightEndpoint{Ticket: e.Ticket, Location: e.Location, AppMetadata: e.AppMetadata, ExpirationTime: timestamppb.New(until)}, nil
}

// renewPin renews what keeps the version of a read by path or JSON. Tickets that
// never had such a thing do not expire.
func (s *Server) renewPin(ctx context.Context, t *Ticket, e *flight.FlightEndpoint) (*flight.FlightEndpoint, error) {
	if t.Pin == "" {
		return e, nil
	}
	pin, err := s.pinOf(ctx, t)
	if err == nil && pin == nil {
		err = errUnpinned
	}
	if err != nil {
		return nil, err
	}
	until, err := s.pins.renew(ctx, pin)
	if err != nil {
		return nil, err
	}
	return &flight.FlightEndpoint{Ticket: e.Ticket, Location: e.Location, AppMetadata: e.AppMetadata, ExpirationTime: timestamppb.New(until)}, nil
}

// acquire gives a statement to read a lease with: the one that waits, else a
// new one over the same versions.
func (s *Server) acquire(ctx context.Context, l *lease) (Statement, error) {
	if l.query.once != nil && !l.query.once.CompareAndSwap(false, true) {
		return nil, errOnce
	}
	if st, ok := s.spares.take(l.key); ok {
		return st, nil
	}
	return l.query.statement.Again(ctx)
}

// info is what a lease's client is told.
func (l *lease) info(d *flight.FlightDescriptor, until time.Time, rows, bytes int64) (*flight.FlightInfo, error) {
	info := &flight.FlightInfo{
		Schema: serialize(l.query.schema), FlightDescriptor: d,
		TotalRecords: rows, TotalBytes: bytes, Ordered: true,
	}
	if l.query.plain != nil {
		info.AppMetadata = versionMetadata(l.query.plain.snap)
	}
	for i := range l.query.parts {
		ticket, err := statementTicket(l.ticket(i))
		if err != nil {
			return nil, err
		}
		e := &flight.FlightEndpoint{Ticket: &flight.Ticket{Ticket: ticket}, ExpirationTime: timestamppb.New(until)}
		if l.query.plain != nil {
			e.AppMetadata = partMetadata(l.query.plain.snap, int64(l.query.parts[i].rows))
		}
		info.Endpoint = append(info.Endpoint, e)
	}
	return info, nil
}

// agrees says that a stream has the schema that was announced, schema metadata
// aside.
func agrees(announced, streamed *arrow.Schema) error {
	if announced.NumFields() == streamed.NumFields() {
		same := true
		for i, f := range announced.Fields() {
			g := streamed.Field(i)
			same = same && f.Name == g.Name && f.Nullable == g.Nullable && arrow.TypeEqual(f.Type, g.Type)
		}
		if same {
			return nil
		}
	}
	return fault.New(fault.Internal, "statement: its result has other columns than were announced:\n%s\ninstead of\n%s", streamed, announced)
}
