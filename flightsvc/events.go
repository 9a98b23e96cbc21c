package flightsvc

import (
	"time"

	"google.golang.org/grpc/codes"
)

// Events are callbacks for whoever watches a server, such as metrics. All are
// optional; they are called from many goroutines and must not block.
type Events struct {
	// CallStarted reports a call by its method, such as "DoGet".
	CallStarted func(method string)
	// CallEnded reports its end.
	CallEnded func(Call)
	// Sent reports one message of a data stream and its rows.
	Sent func(bytes, rows int64)
	// Panicked reports a panic that was turned into an error.
	Panicked func(method string)
}

// Call is what is known of a call that has ended.
type Call struct {
	Method   string // last part of the full gRPC name
	Service  string // such as "arrow.flight.protocol.FlightService"
	Stream   bool
	Code     codes.Code
	Duration time.Duration
}

func (e *Events) callStarted(method string) {
	if e.CallStarted != nil {
		e.CallStarted(method)
	}
}

func (e *Events) callEnded(c Call) {
	if e.CallEnded != nil {
		e.CallEnded(c)
	}
}

func (e *Events) sent(bytes, rows int64) {
	if e.Sent != nil {
		e.Sent(bytes, rows)
	}
}

func (e *Events) panicked(method string) {
	if e.Panicked != nil {
		e.Panicked(method)
	}
}
