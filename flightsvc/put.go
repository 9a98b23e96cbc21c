package flightsvc

import (
	"errors"
	"io"

	"github.com/apache/arrow-go/v18/arrow/flight"
	"google.golang.org/grpc/metadata"

	"github.com/flightblob/flightblob/flightsvc/wire"
	"github.com/flightblob/flightblob/internal/fault"
)

// DoPut implements flight.FlightServer. This server only reads; it takes the
// parameters of prepared statements, and what a client sends to write is looked
// at far enough to answer in the right terms, and no further.
func (s *Server) DoPut(stream flight.FlightService_DoPutServer) error {
	first, err := stream.Recv()
	if errors.Is(err, io.EOF) {
		return fault.New(fault.Invalid, "DoPut: the stream is empty; its first message carries a descriptor and the schema")
	}
	if err != nil {
		return err
	}
	d := first.GetFlightDescriptor()
	if d == nil {
		return fault.New(fault.Invalid, "DoPut: the first message has no descriptor")
	}
	if d.Type == flight.DescriptorCMD && len(d.Cmd) > 0 && d.Cmd[0] != '{' {
		r, err := route(d)
		if err != nil {
			return err
		}
		return s.sqlPut(r.sql, first, stream)
	}
	return fault.New(fault.Unsupported, "DoPut: this server only reads; write the table with Lance's own tools, it is seen here at once")
}

// DoExchange implements flight.FlightServer. The first message's descriptor is
// a JSON command, typically of ranges; the answer is that of DoGet with the
// same JSON. What the client sends after it is not read.
func (s *Server) DoExchange(stream flight.FlightService_DoExchangeServer) error {
	first, err := stream.Recv()
	if errors.Is(err, io.EOF) {
		return fault.New(fault.Invalid, "DoExchange: the stream is empty; its first message carries a descriptor")
	}
	if err != nil {
		return err
	}
	r, err := route(first.GetFlightDescriptor())
	if err != nil {
		return err
	}
	if r.ticket == nil {
		return misplaced("DoExchange", r.sql)
	}
	return s.send(stream.Context(), r.ticket, stream, wire.Options{})
}

// Handshake implements flight.FlightServer. Calls are not authenticated unless
// Options.Authenticate says so, and this server gives out no tokens. Clients
// that shake hands all the same get what lets them go on: one empty answer, and
// for Basic credentials a token that stands for none.
func (s *Server) Handshake(stream flight.FlightService_HandshakeServer) error {
	if _, err := stream.Recv(); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	md, _ := metadata.FromIncomingContext(stream.Context())
	if len(md.Get("authorization")) > 0 {
		token := metadata.Pairs("authorization", "Bearer anonymous")
		if err := stream.SetHeader(token); err != nil {
			return err
		}
		stream.SetTrailer(token)
	}
	return stream.Send(&flight.HandshakeResponse{})
}
