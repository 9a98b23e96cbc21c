package flightsvc

import (
	"context"
	"log/slog"
	"runtime/debug"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Authenticate decides who makes a call. The context it gives is the one that
// the call runs with; its error, a status or fault error, refuses the call.
// method is the full gRPC name. Health checks are never asked.
type Authenticate func(ctx context.Context, method string) (context.Context, error)

func (s *Server) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
	err = s.around(ctx, info.FullMethod, false, func(ctx context.Context) (err error) {
		resp, err = handler(ctx, req)
		return err
	})
	if err != nil {
		return nil, err
	}
	return resp, nil
}

func (s *Server) streaming(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	return s.around(ss.Context(), info.FullMethod, true, func(ctx context.Context) error {
		return handler(srv, &contextStream{ServerStream: ss, ctx: ctx})
	})
}

// around is what surrounds every call: events, recovery, authentication, the
// conversion of errors, logs. Nothing in between lets a panic pass.
func (s *Server) around(ctx context.Context, fullMethod string, stream bool, handle func(context.Context) error) (err error) {
	service, method := splitMethod(fullMethod)
	started := time.Now()
	s.opts.Events.callStarted(method)
	defer func() {
		if r := recover(); r != nil {
			s.opts.Events.panicked(method)
			s.log.LogAttrs(ctx, slog.LevelError, "panic in a call",
				slog.String("method", method), slog.Any("panic", r), slog.String("stack", string(debug.Stack())))
			err = status.Error(codes.Internal, "internal error; the server's log has the details")
		}
		c := status.Code(err)
		took := time.Since(started)
		s.opts.Events.callEnded(Call{Method: method, Service: service, Stream: stream, Code: c, Duration: took})
		s.logCall(ctx, method, c, took, err)
	}()
	if s.opts.Authenticate != nil && service != healthService {
		if ctx, err = s.opts.Authenticate(ctx, fullMethod); err != nil {
			return s.status(err)
		}
	}
	return s.status(handle(ctx))
}

const healthService = "grpc.health.v1.Health"

// logCall logs an end by whose concern it is: the client's at debug level, the
// operator's as warnings.
func (s *Server) logCall(ctx context.Context, method string, c codes.Code, took time.Duration, err error) {
	level := slog.LevelDebug
	switch c {
	case codes.Internal, codes.DataLoss, codes.Unknown, codes.Unavailable:
		level = slog.LevelWarn
	}
	if !s.log.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{slog.String("method", method), slog.String("code", c.String()), slog.Duration("took", took)}
	if err != nil {
		attrs = append(attrs, slog.String("error", status.Convert(err).Message()))
	}
	s.log.LogAttrs(ctx, level, "call", attrs...)
}

func splitMethod(full string) (service, method string) {
	full = strings.TrimPrefix(full, "/")
	if i := strings.LastIndexByte(full, '/'); i >= 0 {
		return full[:i], full[i+1:]
	}
	return "", full
}

// contextStream is a stream with the context of authentication.
type contextStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *contextStream) Context() context.Context { return s.ctx }
