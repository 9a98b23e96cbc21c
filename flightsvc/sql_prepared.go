package flightsvc

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/flight"
	flightpb "github.com/apache/arrow-go/v18/arrow/flight/gen/flight"
	"google.golang.org/protobuf/proto"

	"github.com/flightblob/flightblob/internal/fault"
)

// A prepared statement is kept as text. Each execution prepares it anew and so
// sees the newest versions; what was promised about its result holds all the
// same, or the execution is refused. A handle therefore holds nothing of the
// engine, and many may be left open.
type prepared struct {
	principal string
	session   string // the key of the session that it was made in, "" for none
	text      string
	namespace Namespace
	kind      string
	isUpdate  bool
	updates   bool          // it may be run as an update
	params    *arrow.Schema // nil = none
	told      *arrow.Schema // params as the client was told, nil = not at all
	promised  *arrow.Schema // of the result, as sent; nil = none
	set       settings      // that it was promised in

	mu    sync.Mutex
	bound *bound
}

// Bounds of prepared statements.
const (
	defaultPreparedIdle = time.Hour
	maxPreparedOfOwner  = 2000
	maxPrepared         = 20_000
)

func (p *prepared) drop() {
	p.mu.Lock()
	b := p.bound
	p.bound = nil
	p.mu.Unlock()
	b.release()
}

// createPrepared implements CreatePreparedStatement.
func (s *Server) createPrepared(ctx context.Context, m *flightpb.ActionCreatePreparedStatementRequest) (*flightpb.ActionCreatePreparedStatementResult, error) {
	if err := noTransaction(m.TransactionId); err != nil {
		return nil, err
	}
	c, err := s.callerOf(ctx)
	if err != nil {
		return nil, err
	}
	set, err := s.settings(ctx, &Ticket{})
	if err != nil {
		return nil, err
	}
	p := &prepared{principal: c.principal, session: c.key, text: m.Query, set: set}
	if p.namespace, err = s.namespaceOf(ctx, s.sessionOf(c)); err != nil {
		return nil, err
	}
	st, err := s.prepare(ctx, p.namespace, m.Query)
	if err != nil {
		return nil, err
	}
	defer s.closeStatement(st)
	p.kind, p.isUpdate, p.params = st.Kind(), st.IsUpdate(), st.Params()
	_, p.updates = st.(Updater)
	// Whether it changes something is always said: without, clients send what
	// does down the path of queries.
	result := &flightpb.ActionCreatePreparedStatementResult{IsUpdate: proto.Bool(p.isUpdate)}
	if !p.isUpdate {
		switch p.promised, err = s.answers(ctx, st, set, nil); {
		case errors.Is(err, ErrOpen): // nothing is promised before values are bound
		case err != nil:
			return nil, err
		default:
			result.DatasetSchema = serialize(p.promised)
		}
	}
	if p.told = p.params; set.bi {
		p.told = biParams(p.told)
	}
	if p.told = announced(ctx, p.told); p.told != nil {
		result.ParameterSchema = serialize(p.told)
	}
	key := newKey()
	s.prepared.put(key, c.owner(), p)
	result.PreparedStatementHandle = []byte(key)
	return result, nil
}

// preparedOf finds a prepared statement of the caller; others' are not found.
// A statement made in a session stays in it.
func (s *Server) preparedOf(ctx context.Context, handle []byte) (*prepared, caller, error) {
	c, err := s.callerOf(ctx)
	if err != nil {
		return nil, c, err
	}
	p, _, ok := s.prepared.get(string(handle), true)
	if !ok || p.principal != c.principal || p.session != "" && p.session != c.key {
		return nil, c, fault.New(fault.NotFound, "prepared statement: there is none of this handle; it was closed, its session was, or it was not used for long. Prepare it again")
	}
	return p, c, nil
}

// closePrepared implements ClosePreparedStatement. Results under way go on.
func (s *Server) closePrepared(ctx context.Context, m *flightpb.ActionClosePreparedStatementRequest) error {
	if _, _, err := s.preparedOf(ctx, m.PreparedStatementHandle); err != nil {
		return err
	}
	if p, ok := s.prepared.take(string(m.PreparedStatementHandle)); ok {
		p.drop()
	}
	return nil
}

// planPrepared prepares the statement anew, with what is bound to it.
func (s *Server) planPrepared(ctx context.Context, p *prepared) (*query, error) {
	set, err := s.settings(ctx, &Ticket{})
	if err != nil {
		return nil, err
	}
	if p.isUpdate {
		return nil, notAQuery(p.kind)
	}
	p.mu.Lock()
	b := p.bound
	if !b.retain() {
		b = nil
	}
	p.mu.Unlock()
	defer b.release()
	st, err := s.prepare(ctx, p.namespace, p.text)
	if err != nil {
		return nil, err
	}
	q, err := s.plan(ctx, st, set, b)
	if err != nil {
		return nil, err
	}
	if err := p.keeps(q); err != nil {
		s.closeStatement(q.statement)
		q.params.release()
		return nil, err
	}
	return q, nil
}

// keeps checks that a result is the promised one. Some clients read it by the
// promise and would take one column's values for another's. Parameters of other
// types than were described, and another face, change it by the client's will.
func (p *prepared) keeps(q *query) error {
	if p.promised == nil || q.view != p.set.view || q.bi != p.set.bi {
		return nil
	}
	if q.params != nil && (p.told == nil || agrees(p.told, q.params.schema) != nil && agrees(p.params, q.params.schema) != nil) {
		return nil
	}
	if agrees(p.promised, q.schema) != nil {
		return fault.New(fault.Precondition, "prepared statement: its result has changed since it was prepared, from\n%s\nto\n%s\nPrepare it again",
			p.promised, q.schema)
	}
	return nil
}

func (s *Server) preparedInfo(ctx context.Context, m *flightpb.CommandPreparedStatementQuery, d *flight.FlightDescriptor) (*flight.FlightInfo, error) {
	p, c, err := s.preparedOf(ctx, m.PreparedStatementHandle)
	if err != nil {
		return nil, err
	}
	q, err := s.planPrepared(ctx, p)
	if err != nil {
		return nil, err
	}
	l, until, err := s.lend(ctx, c, q)
	if err != nil {
		return nil, err
	}
	return l.info(d, until, q.rows(), -1)
}

// preparedSchema answers what was promised.
func (s *Server) preparedSchema(ctx context.Context, m *flightpb.CommandPreparedStatementQuery) (*flight.SchemaResult, error) {
	p, _, err := s.preparedOf(ctx, m.PreparedStatementHandle)
	if err != nil {
		return nil, err
	}
	if p.isUpdate {
		return nil, fault.New(fault.Invalid, "%s: answers no rows and has no schema", p.kind)
	}
	if p.promised == nil {
		return nil, fault.New(fault.Invalid, "prepared statement: its result depends on the values of its parameters; bind them and ask for its FlightInfo")
	}
	return &flight.SchemaResult{Schema: serialize(p.promised)}, nil
}

// preparedGet runs a prepared statement whose command came as a ticket.
func (s *Server) preparedGet(ctx context.Context, m *flightpb.CommandPreparedStatementQuery, stream flight.FlightService_DoGetServer) error {
	p, c, err := s.preparedOf(ctx, m.PreparedStatementHandle)
	if err != nil {
		return err
	}
	q, err := s.planPrepared(ctx, p)
	if err != nil {
		return err
	}
	q.parts = undivided(q)
	l, _, err := s.lend(ctx, c, q)
	if err != nil {
		return err
	}
	defer func() {
		if l, ok := s.leases.take(l.key); ok {
			s.dropLease(l)
		}
	}()
	return s.stream(ctx, l, 0, stream)
}

// bind takes the rows of parameters that a prepared statement is to run with.
func (s *Server) bind(ctx context.Context, m *flightpb.CommandPreparedStatementQuery, stream *replayed) error {
	p, _, err := s.preparedOf(ctx, m.PreparedStatementHandle)
	if err != nil {
		return err
	}
	b, err := s.readParams(stream, gauge{&s.bound})
	if err != nil {
		return err
	}
	if b != nil {
		err := b.fits(p.params)
		if err == nil && p.set.bi {
			err = b.declared(p.params)
		}
		if err != nil {
			b.release()
			return err
		}
	}
	p.mu.Lock()
	old := p.bound
	p.bound = b
	p.mu.Unlock()
	old.release()
	if _, _, ok := s.prepared.get(string(m.PreparedStatementHandle), false); !ok {
		p.drop() // closed meanwhile, so nobody else will
	}
	if err := drain(stream); err != nil {
		return err
	}
	return sendPut(stream, &flightpb.DoPutPreparedStatementResult{PreparedStatementHandle: m.PreparedStatementHandle})
}

// preparedUpdate carries a prepared update out for the rows of parameters that
// come with it.
func (s *Server) preparedUpdate(m *flightpb.CommandPreparedStatementUpdate, stream *replayed) error {
	ctx := stream.Context()
	p, _, err := s.preparedOf(ctx, m.PreparedStatementHandle)
	if err != nil {
		return err
	}
	if !p.isUpdate && !p.updates {
		return notAnUpdate(p.kind)
	}
	b, err := s.updateParams(p, stream)
	if err != nil {
		return err
	}
	defer b.release()
	st, err := s.prepare(ctx, p.namespace, p.text)
	if err != nil {
		return err
	}
	defer s.closeStatement(st)
	if err := b.fits(st.Params()); err != nil {
		return err
	}
	var rows []arrow.RecordBatch
	if b != nil {
		rows = b.batches
	}
	return s.update(stream, st, rows)
}

// updateParams reads the rows of parameters of an update. Where none come, those
// count that were bound before, as some clients do.
func (s *Server) updateParams(p *prepared, stream *replayed) (*bound, error) {
	if stream.first != nil && len(stream.first.DataHeader) > 0 {
		b, err := s.readParams(stream, s.puts)
		if err != nil {
			return nil, err
		}
		if b != nil && p.set.bi {
			if err := b.declared(p.params); err != nil {
				b.release()
				return nil, err
			}
		}
		if b != nil {
			return b, nil
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.bound.retain() {
		return nil, errUnbound
	}
	return p.bound, nil
}
