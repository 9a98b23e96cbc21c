package flightsvc

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/flight/flightsql"
	flightpb "github.com/apache/arrow-go/v18/arrow/flight/gen/flight"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/flightblob/flightblob/internal/fault"
)

// flightAction is an action of the protocols: a message in, one out. Those of
// Flight SQL travel in google.protobuf.Any, those of Flight bare.
type flightAction struct {
	name    string
	about   string
	refused string // why it is not done; such an action is not listed
	engine  bool   // it needs one
	do      func(s *Server, ctx context.Context, body []byte) (*flight.Result, error)
}

// flightActions are all that the protocols know, in the order of ListActions.
var flightActions = []flightAction{{
	name:  flight.CancelFlightInfoActionType,
	about: "Stops a statement: its running streams end, its tickets are refused. CancelFlightInfoRequest in, CancelFlightInfoResult out.",
	do: bare(func(s *Server, ctx context.Context, m *flight.CancelFlightInfoRequest) (*flight.CancelFlightInfoResult, error) {
		status, err := s.cancelInfo(ctx, m.Info)
		return &flight.CancelFlightInfoResult{Status: status}, err
	}),
}, {
	name:  flight.RenewFlightEndpointActionType,
	about: "Moves the expiry of an endpoint's ticket. RenewFlightEndpointRequest in, FlightEndpoint out.",
	do: bare(func(s *Server, ctx context.Context, m *flight.RenewFlightEndpointRequest) (*flight.FlightEndpoint, error) {
		return s.renew(ctx, m.Endpoint)
	}),
}, {
	name:  flight.SetSessionOptionsActionType,
	about: "Sets catalog, schema, branch, blobs, batch_bytes, max_message_bytes, lease, profile, compression for the session. SetSessionOptionsRequest in, SetSessionOptionsResult out.",
	do:    bare((*Server).setSessionOptions),
}, {
	name:  flight.GetSessionOptionsActionType,
	about: "What is set for the session. GetSessionOptionsRequest in, GetSessionOptionsResult out.",
	do:    bare((*Server).getSessionOptions),
}, {
	name:  flight.CloseSessionActionType,
	about: "Forgets the session and its prepared statements. CloseSessionRequest in, CloseSessionResult out.",
	do:    bare((*Server).closeSessionAction),
}, {
	name:  flightsql.CreatePreparedStatementActionType,
	about: "Prepares a statement. ActionCreatePreparedStatementRequest in, ActionCreatePreparedStatementResult out.",
	do:    packed((*Server).createPrepared), engine: true,
}, {
	name:  flightsql.ClosePreparedStatementActionType,
	about: "Closes a prepared statement. ActionClosePreparedStatementRequest in, nothing out.",
	do: packed(func(s *Server, ctx context.Context, m *flightpb.ActionClosePreparedStatementRequest) (proto.Message, error) {
		return nil, s.closePrepared(ctx, m)
	}), engine: true,
}, {
	name:  flightsql.CancelQueryActionType,
	about: "Older form of CancelFlightInfo. ActionCancelQueryRequest in, ActionCancelQueryResult out.",
	do:    packed((*Server).cancelQuery), engine: true,
}, {
	name: flightsql.BeginTransactionActionType, refused: "each statement stands for itself",
}, {
	name: flightsql.EndTransactionActionType, refused: "there are no transactions; each statement stands for itself",
}, {
	name: flightsql.BeginSavepointActionType, refused: "there are no transactions; each statement stands for itself",
}, {
	name: flightsql.EndSavepointActionType, refused: "there are no transactions; each statement stands for itself",
}, {
	name: flightsql.CreatePreparedSubstraitPlanActionType, refused: "Substrait plans are not taken; send SQL",
}}

// doFlightAction carries out an action of the protocols.
func (s *Server) doFlightAction(a *flightAction, body []byte, stream flight.FlightService_DoActionServer) error {
	switch {
	case a.refused != "":
		return fault.New(fault.Unsupported, "%s: %s", a.name, a.refused)
	case a.engine && s.opts.Engine == nil:
		return fault.New(fault.Unsupported, "%s: this server answers no SQL", a.name)
	case len(body) > maxFlightBody:
		return fault.New(fault.Invalid, "%s: a body of %d bytes is over the limit of %d", a.name, len(body), maxFlightBody)
	}
	out, err := a.do(s, stream.Context(), body)
	if err != nil {
		return err
	}
	return stream.Send(out)
}

// maxFlightBody bounds what a client may send with an action of the protocols:
// the text of a statement, or an info with all its tickets.
const maxFlightBody = 16 << 20

// bare makes an action of a function over messages that are sent as they are.
func bare[In any, PIn interface {
	*In
	proto.Message
}, Out proto.Message](do func(*Server, context.Context, PIn) (Out, error)) func(*Server, context.Context, []byte) (*flight.Result, error) {
	return func(s *Server, ctx context.Context, body []byte) (*flight.Result, error) {
		in := PIn(new(In))
		if err := proto.Unmarshal(body, in); err != nil {
			return nil, fault.New(fault.Invalid, "action: the body is no %s: %v", in.ProtoReflect().Descriptor().Name(), err)
		}
		out, err := do(s, ctx, in)
		if err != nil {
			return nil, err
		}
		return result(out)
	}
}

// packed makes an action of a function over messages that are sent in Any. An
// answer of nil is an empty result.
func packed[In any, PIn interface {
	*In
	proto.Message
}, Out proto.Message](do func(*Server, context.Context, PIn) (Out, error)) func(*Server, context.Context, []byte) (*flight.Result, error) {
	return func(s *Server, ctx context.Context, body []byte) (*flight.Result, error) {
		in := PIn(new(In))
		var command anypb.Any
		err := proto.Unmarshal(body, &command)
		if err == nil {
			err = command.UnmarshalTo(in)
		}
		if err != nil {
			return nil, fault.New(fault.Invalid, "action: the body is no google.protobuf.Any of a %s: %v", in.ProtoReflect().Descriptor().Name(), err)
		}
		out, err := do(s, ctx, in)
		if err != nil {
			return nil, err
		}
		if proto.Message(out) == nil {
			return &flight.Result{}, nil
		}
		answer, err := anypb.New(out)
		if err != nil {
			return nil, fault.New(fault.Internal, "flightsvc: write an action's result: %w", err)
		}
		return result(answer)
	}
}

func result(m proto.Message) (*flight.Result, error) {
	body, err := proto.Marshal(m)
	if err != nil {
		return nil, fault.New(fault.Internal, "flightsvc: write an action's result: %w", err)
	}
	return &flight.Result{Body: body}, nil
}

// cancelQuery is CancelFlightInfo in its older form.
func (s *Server) cancelQuery(ctx context.Context, m *flightpb.ActionCancelQueryRequest) (*flightpb.ActionCancelQueryResult, error) { //nolint:staticcheck // clients still send it
	var info flight.FlightInfo
	if err := proto.Unmarshal(m.Info, &info); err != nil {
		return nil, fault.New(fault.Invalid, "CancelQuery: its info is no FlightInfo: %v", err)
	}
	status, err := s.cancelInfo(ctx, &info)
	if err != nil {
		return nil, err
	}
	results := map[flight.CancelStatus]flightpb.ActionCancelQueryResult_CancelResult{
		flight.CancelStatusCancelled:      flightpb.ActionCancelQueryResult_CANCEL_RESULT_CANCELLED,
		flight.CancelStatusCancelling:     flightpb.ActionCancelQueryResult_CANCEL_RESULT_CANCELLING,
		flight.CancelStatusNotCancellable: flightpb.ActionCancelQueryResult_CANCEL_RESULT_NOT_CANCELLABLE,
	}
	return &flightpb.ActionCancelQueryResult{Result: results[status]}, nil //nolint:staticcheck // clients still read it
}
