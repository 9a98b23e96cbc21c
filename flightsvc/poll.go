package flightsvc

import (
	"context"
	"sync"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/flight"
	flightpb "github.com/apache/arrow-go/v18/arrow/flight/gen/flight"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/flightblob/flightblob/flightsvc/wire"
	"github.com/flightblob/flightblob/internal/fault"
)

// PollFlightInfo starts a statement before anyone reads it. The first call
// answers at once, later ones when there is news. The statement runs ahead of
// its reader by a few batches: once these are full, or hold the whole result,
// the poll is over and the reader goes on from there.

const (
	// runBytes is how far a statement runs ahead, in encoded bytes.
	runBytes = 8 << 20
	// runIdle is how long it waits for a poll or a reader. After that its tickets
	// are still good, but what it has done is done again.
	runIdle = time.Minute
	// Bounds of the statements that run ahead at the same time.
	maxRunsOwner = 8
	maxRuns      = 16
	// pollWait is the longest that a poll waits for news.
	pollWait = 500 * time.Millisecond
)

// run is a statement that runs ahead of its reader.
type run struct {
	cancel context.CancelCauseFunc
	schema *arrow.Schema // of the batches; set before the first
	left   func()        // after the producer's end

	mu      sync.Mutex
	news    chan struct{} // closed and replaced at every change
	queue   []arrow.RecordBatch
	queued  int64
	rows    int64 // so far
	bytes   int64
	full    bool // ahead as far as it may, at least once
	done    bool
	err     error
	stopped bool
}

// start runs a lease's statement ahead.
func (s *Server) start(ctx context.Context, c caller, l *lease, set settings) error {
	// The run outlives this call, but not the server.
	ctx, leave, err := s.enter(context.WithoutCancel(ctx), l)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	s.background.Add(1)
	r := &run{cancel: cancel, news: make(chan struct{}), left: func() {
		leave()
		s.background.Done()
	}}
	s.ahead.put(l.key, c.owner(), r)
	go r.produce(ctx, func() (array.RecordReader, error) {
		st, err := s.acquire(ctx, l)
		if err != nil {
			return nil, err
		}
		return s.execute(ctx, st, l.query, set)
	})
	return nil
}

func (r *run) produce(ctx context.Context, open func() (array.RecordReader, error)) {
	defer r.left()
	err := func() (err error) {
		defer fault.Recover("flightsvc", &err)
		rows, err := open()
		if err != nil {
			return err
		}
		defer rows.Release()
		r.change(func() { r.schema = rows.Schema() })
		for rows.Next() {
			b := rows.RecordBatch()
			if b.NumRows() == 0 {
				continue
			}
			b.Retain()
			if !r.push(ctx, b) {
				return context.Cause(ctx)
			}
		}
		return rows.Err()
	}()
	err = because(ctx, err)
	r.cancel(nil)
	r.change(func() { r.done, r.err = true, err })
}

// change alters the state and tells those who wait.
func (r *run) change(do func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	do()
	close(r.news)
	r.news = make(chan struct{})
}

// push queues a batch and waits until the next may come.
func (r *run) push(ctx context.Context, b arrow.RecordBatch) bool {
	n := encodedBatch(b, 0, b.NumRows(), wire.Uncompressed)
	r.change(func() {
		if r.stopped {
			b.Release()
			return
		}
		r.queue = append(r.queue, b)
		r.queued += n
		r.rows += b.NumRows()
		r.bytes += n
		r.full = r.full || r.queued >= runBytes
	})
	for {
		r.mu.Lock()
		room, news := r.queued < runBytes, r.news
		r.mu.Unlock()
		if ctx.Err() != nil {
			return false
		}
		if room {
			return true
		}
		select {
		case <-news:
		case <-ctx.Done():
			return false
		}
	}
}

// pop gives the next batch, nil at the end.
func (r *run) pop(ctx context.Context) (arrow.RecordBatch, error) {
	for {
		r.mu.Lock()
		news := r.news
		if len(r.queue) > 0 {
			b := r.queue[0]
			r.queue = r.queue[1:]
			r.queued -= encodedBatch(b, 0, b.NumRows(), wire.Uncompressed)
			r.mu.Unlock()
			r.change(func() {})
			return b, nil
		}
		done, err := r.done, r.err
		r.mu.Unlock()
		if done {
			return nil, err
		}
		select {
		case <-news:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Release stops the statement and drops what nobody read.
func (r *run) Release() {
	r.cancel(context.Canceled)
	r.change(func() {
		r.stopped = true
		for _, b := range r.queue {
			b.Release()
		}
		r.queue, r.queued = nil, 0
	})
}

// attach makes the run a reader, which then owns it.
func (r *run) attach(ctx context.Context) (array.RecordReader, error) {
	for {
		r.mu.Lock()
		sch, done, err, news := r.schema, r.done, r.err, r.news
		r.mu.Unlock()
		switch {
		case sch != nil:
			return newPull(sch, func() (arrow.RecordBatch, error) { return r.pop(ctx) }, r.Release), nil
		case done:
			r.Release()
			return nil, err
		}
		select {
		case <-news:
		case <-ctx.Done():
			r.Release()
			return nil, context.Cause(ctx)
		}
	}
}

// runState is what a poll tells of a run.
type runState struct {
	rows, bytes int64
	ready       bool // full or done
	done        bool
	err         error
	news        <-chan struct{} // closed at the next change
}

func (r *run) state() runState {
	r.mu.Lock()
	defer r.mu.Unlock()
	return runState{rows: r.rows, bytes: r.bytes, ready: r.full || r.done, done: r.done, err: r.err, news: r.news}
}

// PollFlightInfo implements flight.FlightServer for statements and prepared
// statements; reads of tables are ready at once.
func (s *Server) PollFlightInfo(ctx context.Context, d *flight.FlightDescriptor) (*flight.PollInfo, error) {
	r, err := route(d)
	if err != nil {
		return nil, err
	}
	if r.sql == nil {
		info, err := s.GetFlightInfo(ctx, d)
		return &flight.PollInfo{Info: info, Progress: proto.Float64(1)}, err
	}
	if s.needsEngine(r.sql) {
		return nil, unserved(r.sql)
	}
	m, err := unpack(r.sql)
	if err != nil {
		return nil, err
	}
	c, err := s.callerOf(ctx)
	if err != nil {
		return nil, err
	}
	var q *query
	switch m := m.(type) {
	case *flightpb.TicketStatementQuery:
		return s.pollAgain(ctx, m.StatementHandle)
	case *flightpb.CommandStatementQuery:
		q, err = s.planText(ctx, m)
	case *flightpb.CommandPreparedStatementQuery:
		var p *prepared
		if p, c, err = s.preparedOf(ctx, m.PreparedStatementHandle); err == nil {
			q, err = s.planPrepared(ctx, p)
		}
	default:
		info, err := s.sqlInfo(ctx, r.sql, d)
		return &flight.PollInfo{Info: info, Progress: proto.Float64(1)}, err
	}
	if err != nil {
		return nil, err
	}
	l, until, err := s.lend(ctx, c, q)
	if err != nil {
		return nil, err
	}
	if q.plain == nil {
		set, err := s.settings(ctx, &Ticket{})
		if err != nil {
			return nil, err
		}
		set.view, set.bi = q.view, q.bi
		if err := s.start(ctx, c, l, set); err != nil {
			return nil, err
		}
	}
	return s.polled(l, until)
}

// pollAgain waits for news of a run.
func (s *Server) pollAgain(ctx context.Context, handle []byte) (*flight.PollInfo, error) {
	l, _, _, err := s.leaseOf(ctx, handle)
	if err != nil {
		return nil, err
	}
	_, until, ok := s.leases.get(l.key, true)
	if !ok {
		return nil, errNoLease
	}
	if r, _, ok := s.ahead.get(l.key, true); ok {
		if now := r.state(); !now.ready {
			timeout := time.NewTimer(pollWait)
			defer timeout.Stop()
			select {
			case <-now.news:
			case <-timeout.C:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
	}
	return s.polled(l, until)
}

// polled tells how far a lease is. A failed statement answers its error.
func (s *Server) polled(l *lease, until time.Time) (*flight.PollInfo, error) {
	until = l.pin.end(until)
	l.mu.Lock()
	cancelled := l.cancelled
	l.mu.Unlock()
	if cancelled {
		return nil, errCancelled
	}
	now := runState{rows: l.query.rows(), bytes: -1, ready: true, done: true}
	progress := 1.0
	if r, _, ok := s.ahead.get(l.key, false); ok {
		if now = r.state(); now.err != nil {
			return nil, l.query.explain(now.err)
		}
		progress = min(0.99, float64(now.bytes)/runBytes)
		if now.ready && !now.done { // more will come than was counted
			now.rows, now.bytes = -1, -1
		}
	}
	ticket, err := anypb.New(&flightpb.TicketStatementQuery{StatementHandle: []byte(l.key)})
	if err != nil {
		return nil, fault.New(fault.Internal, "flightsvc: write a descriptor: %w", err)
	}
	command, err := proto.Marshal(ticket)
	if err != nil {
		return nil, fault.New(fault.Internal, "flightsvc: write a descriptor: %w", err)
	}
	d := &flight.FlightDescriptor{Type: flight.DescriptorCMD, Cmd: command}
	info, err := l.info(d, until, now.rows, now.bytes)
	if err != nil {
		return nil, err
	}
	poll := &flight.PollInfo{Info: info, Progress: proto.Float64(1)}
	if !now.ready { // the expiry is the descriptor's; the tickets have their own
		poll.FlightDescriptor, poll.ExpirationTime, poll.Progress = d, timestamppb.New(until), proto.Float64(progress)
	}
	return poll, nil
}
