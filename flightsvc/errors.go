package flightsvc

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/flightblob/flightblob/internal/fault"
)

// statusCodes says which code a client sees for each kind of failure.
var statusCodes = map[fault.Kind]codes.Code{
	fault.Internal:     codes.Internal,
	fault.Invalid:      codes.InvalidArgument,
	fault.NotFound:     codes.NotFound,
	fault.Exists:       codes.AlreadyExists,
	fault.Precondition: codes.FailedPrecondition,
	fault.Conflict:     codes.Aborted,
	fault.Exhausted:    codes.ResourceExhausted,
	fault.Denied:       codes.PermissionDenied,
	fault.Corrupt:      codes.DataLoss,
	fault.Unsupported:  codes.Unimplemented,
	fault.Unavailable:  codes.Unavailable,
}

// code is the gRPC code of an error. A call that its client gave up is that,
// whatever came of it inside.
func code(err error) codes.Code {
	var f *fault.Error
	s, isStatus := status.FromError(err)
	switch {
	case err == nil:
		return codes.OK
	case errors.Is(err, context.Canceled):
		return codes.Canceled
	case errors.Is(err, context.DeadlineExceeded):
		return codes.DeadlineExceeded
	case errors.As(err, &f):
		return statusCodes[f.Kind]
	case isStatus:
		return s.Code()
	}
	return codes.Internal
}

// maxErrorText is the longest error text that is sent, in bytes. It travels in
// a header, which clients limit.
const maxErrorText = 4 << 10

// status turns any error into the one that the client gets.
func (s *Server) status(err error) error {
	if err == nil {
		return nil
	}
	c := code(err)
	text := err.Error()
	var f *fault.Error
	if st, ok := status.FromError(err); ok && !errors.As(err, &f) {
		text = st.Message()
	}
	return status.Error(c, s.redact.text(text))
}
