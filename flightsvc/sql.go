package flightsvc

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/apache/arrow-go/v18/arrow/flight"
	flightpb "github.com/apache/arrow-go/v18/arrow/flight/gen/flight"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/flightblob/flightblob/flightsvc/wire"
	"github.com/flightblob/flightblob/internal/fault"
)

// Flight SQL commands arrive as protobuf messages inside google.protobuf.Any.
// Those about names and types are answered from the catalog, statements by the
// engine. Results take the way of all others: sender and flightsvc/wire.

// unpack reads a Flight SQL message.
func unpack(command *anypb.Any) (proto.Message, error) {
	m, err := command.UnmarshalNew()
	if err != nil {
		return nil, fault.New(fault.Invalid, "%s: cannot be read: %v", sqlName(command), err)
	}
	return m, nil
}

// sqlName is the short name of a message's type.
func sqlName(command *anypb.Any) string {
	return shorten(strings.TrimPrefix(command.TypeUrl, sqlTypes), 60)
}

// misplaced says that a message is none that a call takes.
func misplaced(call string, command *anypb.Any) error {
	return fault.New(fault.Invalid, "%s: %s has no place here", call, sqlName(command))
}

// sqlInfo answers GetFlightInfo of a Flight SQL command.
func (s *Server) sqlInfo(ctx context.Context, command *anypb.Any, d *flight.FlightDescriptor) (*flight.FlightInfo, error) {
	if s.needsEngine(command) {
		return nil, unserved(command)
	}
	m, err := unpack(command)
	if err != nil {
		return nil, err
	}
	switch m := m.(type) {
	case *flightpb.CommandStatementQuery:
		return s.statementInfo(ctx, m, d)
	case *flightpb.CommandPreparedStatementQuery:
		return s.preparedInfo(ctx, m, d)
	case *flightpb.TicketStatementQuery: // the descriptor of a poll
		return s.leaseInfo(ctx, m, d)
	case *flightpb.CommandStatementSubstraitPlan:
		return nil, errSubstrait
	}
	meta, ok := metadataOf(m)
	if !ok {
		return nil, misplaced("GetFlightInfo", command)
	}
	// The command is its own ticket: what it answers is never pinned.
	ticket, err := proto.Marshal(command)
	if err != nil {
		return nil, fault.New(fault.Internal, "flightsvc: write a ticket: %w", err)
	}
	return &flight.FlightInfo{
		Schema: serialize(meta.schema), FlightDescriptor: d,
		Endpoint:     []*flight.FlightEndpoint{{Ticket: &flight.Ticket{Ticket: ticket}}},
		TotalRecords: -1, TotalBytes: -1, Ordered: true,
	}, nil
}

// sqlSchema answers GetSchema of a Flight SQL command.
func (s *Server) sqlSchema(ctx context.Context, command *anypb.Any) (*flight.SchemaResult, error) {
	if s.needsEngine(command) {
		return nil, unserved(command)
	}
	m, err := unpack(command)
	if err != nil {
		return nil, err
	}
	switch m := m.(type) {
	case *flightpb.CommandStatementQuery:
		return s.statementSchema(ctx, m)
	case *flightpb.CommandPreparedStatementQuery:
		return s.preparedSchema(ctx, m)
	case *flightpb.CommandStatementSubstraitPlan:
		return nil, errSubstrait
	}
	meta, ok := metadataOf(m)
	if !ok {
		return nil, misplaced("GetSchema", command)
	}
	return &flight.SchemaResult{Schema: serialize(meta.schema)}, nil
}

// sqlGet answers DoGet of a Flight SQL ticket.
func (s *Server) sqlGet(ctx context.Context, ticket *anypb.Any, stream flight.FlightService_DoGetServer) error {
	if s.needsEngine(ticket) {
		return unserved(ticket)
	}
	m, err := unpack(ticket)
	if err != nil {
		return err
	}
	switch m := m.(type) {
	case *flightpb.TicketStatementQuery:
		return s.statementGet(ctx, m.StatementHandle, stream)
	case *flightpb.CommandPreparedStatementQuery:
		// Some clients take the command for its ticket.
		return s.preparedGet(ctx, m, stream)
	}
	meta, ok := metadataOf(m)
	if !ok {
		return misplaced("DoGet", ticket)
	}
	return s.metadataGet(ctx, meta, stream)
}

// sqlPut answers DoPut of a Flight SQL command. Rows are read only where they
// are parameters; whoever sends others learns at once that they are not taken.
func (s *Server) sqlPut(command *anypb.Any, first *flight.FlightData, stream flight.FlightService_DoPutServer) error {
	if s.needsEngine(command) {
		return unserved(command)
	}
	m, err := unpack(command)
	if err != nil {
		return err
	}
	switch m := m.(type) {
	case *flightpb.CommandPreparedStatementQuery:
		return s.bind(stream.Context(), m, &replayed{FlightService_DoPutServer: stream, first: first})
	case *flightpb.CommandPreparedStatementUpdate:
		return s.preparedUpdate(m, &replayed{FlightService_DoPutServer: stream, first: first})
	case *flightpb.CommandStatementUpdate:
		return s.statementUpdate(m, stream)
	case *flightpb.CommandStatementIngest:
		return s.ingest(m, &replayed{FlightService_DoPutServer: stream, first: first})
	case *flightpb.CommandStatementSubstraitPlan:
		return errSubstrait
	}
	return misplaced("DoPut", command)
}

// replayed is a stream whose first message was looked at already. All messages
// are checked before anything builds arrays of them.
type replayed struct {
	flight.FlightService_DoPutServer
	first *flight.FlightData
}

func (r *replayed) Recv() (*flight.FlightData, error) {
	m := r.first
	if r.first = nil; m == nil {
		var err error
		if m, err = r.FlightService_DoPutServer.Recv(); err != nil {
			return nil, err
		}
	}
	return m, checkMessage(m)
}

// needsEngine says that a command is for an engine that this server lacks.
func (s *Server) needsEngine(command *anypb.Any) bool {
	return s.opts.Engine == nil && !strings.HasPrefix(command.TypeUrl, sqlTypes+"CommandGet")
}

// errSubstrait refuses Substrait by name.
var errSubstrait = fault.New(fault.Unsupported, "Substrait: plans are not taken; send SQL")

// errReadOnly refuses writes where the operator wants none.
var errReadOnly = fault.New(fault.Unsupported, "this server runs with --read-only: it takes no writes")

// noTransaction refuses the id of a transaction: there are none to have one.
func noTransaction(id []byte) error {
	if len(id) == 0 {
		return nil
	}
	return fault.New(fault.Invalid, "statement: names a transaction, but there are none; each statement stands for itself")
}

// sendPut answers a DoPut with one message.
func sendPut(stream flight.FlightService_DoPutServer, m proto.Message) error {
	b, err := proto.Marshal(m)
	if err != nil {
		return fault.New(fault.Internal, "flightsvc: write a put result: %w", err)
	}
	return stream.Send(&flight.PutResult{AppMetadata: b})
}

// drain reads a stream to its end, so that its client sees the answer rather
// than a broken stream.
func drain(stream interface {
	Recv() (*flight.FlightData, error)
},
) error {
	for {
		if _, err := stream.Recv(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// metadataGet streams the answer of a command about names and types. Those have
// fixed schemas, whatever the session prefers.
func (s *Server) metadataGet(ctx context.Context, meta metadataAnswer, stream flight.FlightService_DoGetServer) error {
	set, err := s.settings(ctx, &Ticket{})
	if err != nil {
		return err
	}
	rows, err := meta.rows(s, ctx, set)
	if err != nil {
		return err
	}
	defer rows.Release()
	set.bi = false
	set.message = min(defaultMessage, set.limit)
	out, err := s.newSender(stream, rows.Schema(), &Ticket{}, set, wire.Options{})
	if err != nil {
		return err
	}
	return out.all(rows)
}
