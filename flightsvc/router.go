package flightsvc

import (
	"strings"

	"github.com/apache/arrow-go/v18/arrow/flight"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/flightblob/flightblob/catalog"
	"github.com/flightblob/flightblob/internal/fault"
)

// A descriptor is one of three things: a table's path, this server's JSON, or
// a Flight SQL command. A ticket is one of two: this server's (minted or JSON)
// or Flight SQL's. Deciding which happens here and nowhere else, and always
// before anything else looks at the message: the Flight SQL library follows nil
// descriptors.

// request is what a descriptor asks for.
type request struct {
	ticket *Ticket    // a path or JSON command
	sql    *anypb.Any // else: a Flight SQL command
}

// route reads a descriptor.
func route(d *flight.FlightDescriptor) (request, error) {
	switch {
	case d == nil:
		return request{}, fault.New(fault.Invalid, "descriptor: missing; give a path such as [\"t\"] or a JSON command")
	case d.Type == flight.DescriptorPATH:
		t, err := pathTicket(d.Path)
		return request{ticket: t}, err
	case d.Type != flight.DescriptorCMD:
		return request{}, fault.New(fault.Invalid, "descriptor: type %v is neither PATH nor CMD", d.Type)
	}
	return routeBytes(d.Cmd, "command")
}

// routeTicket reads a DoGet ticket.
func routeTicket(t *flight.Ticket) (request, error) {
	if b := t.GetTicket(); len(b) > 0 && b[0] == 0 {
		ticket, err := ParseTicket(b)
		return request{ticket: ticket}, err
	}
	return routeBytes(t.GetTicket(), "ticket")
}

func routeBytes(b []byte, what string) (request, error) {
	if len(b) > 0 && b[0] == '{' {
		ticket, err := ParseTicket(b)
		return request{ticket: ticket}, err
	}
	var command anypb.Any
	if len(b) > 0 && proto.Unmarshal(b, &command) == nil && strings.HasPrefix(command.TypeUrl, sqlTypes) {
		return request{sql: &command}, nil
	}
	if command.TypeUrl != "" {
		return request{}, fault.New(fault.Invalid, "%s: %s is no command of Arrow Flight SQL", what, quote(command.TypeUrl))
	}
	return request{}, fault.New(fault.Invalid,
		`%s: give JSON such as {"table":"t"}, or what this server's GetFlightInfo answered`, what)
}

// sqlTypes starts the type names of Flight SQL's commands and tickets.
const sqlTypes = "type.googleapis.com/arrow.flight.protocol.sql."

// unserved says that a Flight SQL command reached a server without SQL.
func unserved(command *anypb.Any) error {
	return fault.New(fault.Unsupported, "%s: this server answers no SQL; read tables by path, JSON command or ticket",
		shorten(strings.TrimPrefix(command.TypeUrl, sqlTypes), 60))
}

// pathTicket turns ["t"], ["schema","t"] or ["catalog","schema","t"] into a
// request for the whole table.
func pathTicket(path []string) (*Ticket, error) {
	for _, part := range path {
		if part == "" {
			return nil, fault.New(fault.Invalid, "descriptor: the path holds an empty name")
		}
	}
	switch len(path) {
	case 1:
		return &Ticket{Name: catalog.Name{Table: path[0]}}, nil
	case 2:
		return &Ticket{Name: catalog.Name{Schema: path[0], Table: path[1]}}, nil
	case 3:
		return &Ticket{Name: catalog.Name{Catalog: path[0], Schema: path[1], Table: path[2]}}, nil
	}
	return nil, fault.New(fault.Invalid, `descriptor: a path has one to three names, ["catalog","schema","table"], not %d`, len(path))
}
