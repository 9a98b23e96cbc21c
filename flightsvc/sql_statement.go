package flightsvc

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/flight"
	flightpb "github.com/apache/arrow-go/v18/arrow/flight/gen/flight"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/flightblob/flightblob/catalog"
	"github.com/flightblob/flightblob/flightsvc/wire"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/materialize"
	"github.com/flightblob/flightblob/schema"
)

// maxStatement is the longest text of a statement that is read, in bytes.
const maxStatement = maxTicketBytes

// query is a statement with all that decides its answer, except the sizes of
// messages, which are the reader's. It does not change.
type query struct {
	statement Statement // the one to make others from; may be closed
	view      schema.View
	bi        bool
	params    *bound        // nil = none
	schema    *arrow.Schema // exactly the stream's
	plain     *plainScan    // set when the engine is not needed to run it
	parts     []part        // at least one
	once      *atomic.Bool  // of what changes something: whether it was begun; nil for the others
}

// prepare reads a text in a namespace.
func (s *Server) prepare(ctx context.Context, ns Namespace, text string) (Statement, error) {
	switch {
	case strings.TrimSpace(text) == "":
		return nil, fault.New(fault.Invalid, "statement: the text is empty")
	case len(text) > maxStatement:
		return nil, fault.New(fault.Invalid, "statement: a text of %d bytes is over the limit of %d", len(text), maxStatement)
	}
	ctx, stop := s.limited(ctx)
	defer stop()
	st, err := s.opts.Engine.Prepare(ctx, ns, text)
	return st, because(ctx, err)
}

// answers gives the schema of a statement's rows as sent. A statement without
// rows is refused: it is no query.
func (s *Server) answers(ctx context.Context, st Statement, set settings, params *bound) (*arrow.Schema, error) {
	if st.IsUpdate() {
		return nil, notAQuery(st.Kind())
	}
	ctx, stop := s.limited(ctx)
	defer stop()
	sch, err := st.Schema(ctx, set.view, params.first())
	if err != nil {
		return nil, params.atRow(0, 0, because(ctx, err))
	}
	if sch == nil {
		return nil, fault.New(fault.Invalid, "statement: %s answers no rows", st.Kind())
	}
	if set.bi {
		sch = biSchema(sch)
	}
	return sch, nil
}

// plan makes a query of a statement, which is then the query's. The
// parameters, of which the query keeps a reference, must fit.
func (s *Server) plan(ctx context.Context, st Statement, set settings, params *bound) (*query, error) {
	q := &query{statement: st, view: set.view, bi: set.bi, params: params}
	if err := func() (err error) {
		if !st.IsUpdate() {
			if err = params.fits(st.Params()); err != nil {
				return err
			}
		}
		if q.schema, err = s.answers(ctx, st, set, params); err != nil {
			return err
		}
		if _, changes := st.(Changer); changes {
			if s.opts.ReadOnly {
				return errReadOnly
			}
			q.once = &atomic.Bool{}
		}
		q.plain, q.parts, err = s.planScan(ctx, st, set, q.schema)
		return err
	}(); err != nil {
		s.closeStatement(st)
		return nil, err
	}
	if !params.retain() {
		s.closeStatement(st)
		return nil, errUnbound
	}
	return q, nil
}

// planText makes a query of a command's text.
func (s *Server) planText(ctx context.Context, m *flightpb.CommandStatementQuery) (*query, error) {
	if err := noTransaction(m.TransactionId); err != nil {
		return nil, err
	}
	set, err := s.settings(ctx, &Ticket{})
	if err != nil {
		return nil, err
	}
	ns, err := s.namespace(ctx)
	if err != nil {
		return nil, err
	}
	st, err := s.prepare(ctx, ns, m.Query)
	if err != nil {
		return nil, err
	}
	q, err := s.plan(ctx, st, set, nil)
	if err == nil && !readsAllEndpoints(ctx) {
		q.parts = undivided(q)
	}
	return q, err
}

// statementInfo plans a text and lends its result.
func (s *Server) statementInfo(ctx context.Context, m *flightpb.CommandStatementQuery, d *flight.FlightDescriptor) (*flight.FlightInfo, error) {
	c, err := s.callerOf(ctx)
	if err != nil {
		return nil, err
	}
	q, err := s.planText(ctx, m)
	if err != nil {
		return nil, err
	}
	l, until, err := s.lend(ctx, c, q)
	if err != nil {
		return nil, err
	}
	return l.info(d, until, q.rows(), -1)
}

// leaseInfo tells again what a lease is.
func (s *Server) leaseInfo(ctx context.Context, m *flightpb.TicketStatementQuery, d *flight.FlightDescriptor) (*flight.FlightInfo, error) {
	l, _, until, err := s.leaseOf(ctx, m.StatementHandle)
	if err != nil {
		return nil, err
	}
	return l.info(d, until, l.query.rows(), -1)
}

func (s *Server) statementSchema(ctx context.Context, m *flightpb.CommandStatementQuery) (*flight.SchemaResult, error) {
	set, err := s.settings(ctx, &Ticket{})
	if err != nil {
		return nil, err
	}
	ns, err := s.namespace(ctx)
	if err != nil {
		return nil, err
	}
	st, err := s.prepare(ctx, ns, m.Query)
	if err != nil {
		return nil, err
	}
	defer s.closeStatement(st)
	sch, err := s.answers(ctx, st, set, nil)
	if err != nil {
		return nil, err
	}
	return &flight.SchemaResult{Schema: serialize(sch)}, nil
}

// statementUpdate answers a text that is to change something.
func (s *Server) statementUpdate(m *flightpb.CommandStatementUpdate, stream flight.FlightService_DoPutServer) error {
	ctx := stream.Context()
	if err := noTransaction(m.TransactionId); err != nil {
		return err
	}
	ns, err := s.namespace(ctx)
	if err != nil {
		return err
	}
	st, err := s.prepare(ctx, ns, m.Query)
	if err != nil {
		return err
	}
	defer s.closeStatement(st)
	if _, updates := st.(Updater); !updates && !st.IsUpdate() {
		return notAnUpdate(st.Kind())
	}
	if st.Params() != nil {
		return fault.New(fault.Invalid, "%s: it has parameters, and comes without values; prepare it and bind some", st.Kind())
	}
	return s.update(stream, st, nil)
}

// notAnUpdate refuses the update path to a query.
func notAnUpdate(kind string) error {
	return fault.New(fault.Invalid, "%s: it answers rows and changes nothing; run it as a query (in ADBC execute, not executemany or execute_update)", kind)
}

// statementTicket packs a handle as the protocol's ticket.
func statementTicket(handle []byte) ([]byte, error) {
	packed, err := anypb.New(&flightpb.TicketStatementQuery{StatementHandle: handle})
	if err == nil {
		var b []byte
		if b, err = proto.Marshal(packed); err == nil {
			return b, nil
		}
	}
	return nil, fault.New(fault.Internal, "flightsvc: write a ticket: %w", err)
}

// statementHandle is the inverse of statementTicket; ok says that the message
// is such a ticket.
func statementHandle(packed *anypb.Any) (handle []byte, ok bool, err error) {
	m, err := unpack(packed)
	if err != nil {
		return nil, false, err
	}
	t, ok := m.(*flightpb.TicketStatementQuery)
	return t.GetStatementHandle(), ok, nil
}

// statementGet streams one part of a lease.
func (s *Server) statementGet(ctx context.Context, handle []byte, stream flight.FlightService_DoGetServer) error {
	l, part, _, err := s.leaseOf(ctx, handle)
	if err != nil {
		return err
	}
	if n := len(l.query.parts); n > 1 && !bytes.ContainsRune(handle, '.') {
		return fault.New(fault.Invalid, "ticket: the statement has %d endpoints, and it names none of them", n)
	}
	return s.stream(ctx, l, part, stream)
}

// stream sends one part of a lease's result.
func (s *Server) stream(ctx context.Context, l *lease, part int, stream flight.FlightService_DoGetServer) error {
	set, err := s.settings(ctx, &Ticket{})
	if err != nil {
		return err
	}
	set.view, set.bi = l.query.view, l.query.bi
	ctx, leave, err := s.enter(ctx, l)
	if err != nil {
		return err
	}
	defer leave()
	err = removed(ctx, s.sendQuery(ctx, l, part, set, stream), l.query.statement.Snapshots()...)
	return because(ctx, l.query.explain(err))
}

// explain adds to an error of reading how a client gets past a limit.
func (q *query) explain(err error) error {
	if q.plain != nil && err != nil {
		return (&Ticket{Name: catalog.Name{Table: q.plain.snap.Table().Name()}}).explain(q.plain.snap, err)
	}
	var large *materialize.TooLargeError
	if errors.As(err, &large) {
		return fault.New(fault.Exhausted, "column %s, row %d of the result: a message of %d bytes exceeds the %d that this client is taken to accept; "+
			"raise the client's limit (ADBC: %s, other Go clients: grpc.MaxCallRecvMsgSize) and tell the server with header %s or session option %s; "+
			"or select the value in pieces with blob_range(%s, offset, length)",
			quote(large.Field), large.Row, large.Size, large.Limit, clientOption, headerMaxMessage, optionMaxMessage, quoteName(large.Field))
	}
	return (&Ticket{}).detail(nil, err)
}

func (s *Server) sendQuery(ctx context.Context, l *lease, part int, set settings, stream flight.FlightService_DoGetServer) error {
	rows, err := s.rows(ctx, l, part, set)
	if err != nil {
		return err
	}
	defer rows.Release()
	sch := rows.Schema()
	if l.query.plain != nil {
		sch = l.query.plain.schema
	}
	out, err := s.newSender(stream, sch, &Ticket{Offset: l.query.parts[part].offset}, set, wire.Options{})
	if err != nil {
		return err
	}
	if err := agrees(l.query.schema, out.schema); err != nil {
		return err
	}
	return out.all(rows)
}

// rows starts reading one part of a lease. The reader ends with ctx.
func (s *Server) rows(ctx context.Context, l *lease, part int, set settings) (array.RecordReader, error) {
	if l.query.plain != nil {
		return s.scanRows(ctx, l.query.plain, l.query.parts[part], set)
	}
	if r, ok := s.ahead.take(l.key); ok {
		return r.attach(ctx)
	}
	st, err := s.acquire(ctx, l)
	if err != nil {
		return nil, err
	}
	return s.execute(ctx, st, l.query, set)
}

// execute runs a statement once for each row of its parameters, and hands on
// the results one after the other. The statement is closed with the reader.
func (s *Server) execute(ctx context.Context, st Statement, q *query, set settings) (array.RecordReader, error) {
	if c, ok := st.(Changer); ok {
		return s.change(ctx, c, st, q, set)
	}
	e := &executions{server: s, ctx: ctx, statement: st, query: q, set: set}
	if ok, err := e.advance(); err != nil {
		e.stop()
		return nil, err
	} else if !ok { // no row of parameters: an empty result
		e.stop()
		return newPull(e.rawSchema, func() (arrow.RecordBatch, error) { return nil, nil }, nil), nil
	}
	return newPull(e.current.Schema(), e.next, e.stop), nil
}

// change carries out what changes something for all rows of its parameters, and
// hands on the rows that it answers.
func (s *Server) change(ctx context.Context, c Changer, st Statement, q *query, set settings) (array.RecordReader, error) {
	defer s.closeStatement(st)
	leave, err := s.puts.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	o := QueryOptions{View: set.view, Materialize: s.materializing(&Ticket{}, set, nil), Mem: memory.DefaultAllocator}
	var params []arrow.RecordBatch
	if q.params != nil {
		params = q.params.batches
	}
	return c.Change(ctx, params, o)
}

type executions struct {
	server    *Server
	ctx       context.Context //nolint:containedctx // the stream's, for its reader
	statement Statement
	query     *query
	set       settings
	current   array.RecordReader
	rawSchema *arrow.Schema // as the statement says
	batch     int           // of parameters
	row       int           // of the batch, the next to run
	ran       bool
	sent      int64
}

// advance starts the next execution and says whether there was one.
func (e *executions) advance() (bool, error) {
	params, row, ok := e.nextParams()
	if !ok {
		if e.rawSchema == nil {
			var err error
			if e.rawSchema, err = e.statement.Schema(e.ctx, e.set.view, e.query.params.first()); err != nil {
				return false, err
			}
		}
		return false, nil
	}
	o := QueryOptions{View: e.set.view, Materialize: e.server.materializing(&Ticket{}, e.set, nil), Mem: memory.DefaultAllocator}
	o.Materialize.FirstRow = e.sent
	r, err := e.statement.Query(e.ctx, params, row, o)
	if err != nil {
		return false, e.query.params.atRow(e.batch, row, err)
	}
	if e.rawSchema == nil {
		e.rawSchema = r.Schema()
	} else if err := agrees(e.rawSchema, r.Schema()); err != nil {
		r.Release()
		return false, err
	}
	e.current = r
	return true, nil
}

// nextParams gives the next row of parameters; a statement without any runs
// once.
func (e *executions) nextParams() (arrow.RecordBatch, int, bool) {
	if e.query.params == nil {
		first := !e.ran
		e.ran = true
		return nil, 0, first
	}
	batches := e.query.params.batches
	for e.batch < len(batches) && int64(e.row) >= batches[e.batch].NumRows() {
		e.batch, e.row = e.batch+1, 0
	}
	if e.batch >= len(batches) {
		return nil, 0, false
	}
	e.row++
	return batches[e.batch], e.row - 1, true
}

func (e *executions) next() (arrow.RecordBatch, error) {
	for {
		if e.current.Next() {
			b := e.current.RecordBatch()
			b.Retain()
			e.sent += b.NumRows()
			return b, nil
		}
		if err := e.current.Err(); err != nil {
			return nil, err
		}
		e.current.Release()
		e.current = nil
		if ok, err := e.advance(); !ok || err != nil {
			return nil, err
		}
	}
}

func (e *executions) stop() {
	if e.current != nil {
		e.current.Release()
		e.current = nil
	}
	e.server.closeStatement(e.statement)
}

// rows is how many rows the whole result has, -1 when that is not known before
// it was computed.
func (q *query) rows() int64 {
	if q.plain == nil {
		return -1
	}
	var n int64
	for _, p := range q.parts {
		n += int64(p.rows)
	}
	return n
}
