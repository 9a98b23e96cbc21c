package flightsvc

import (
	"errors"
	"log/slog"
	"time"

	"github.com/apache/arrow-go/v18/arrow/flight"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"github.com/flightblob/flightblob/catalog"
	"github.com/flightblob/flightblob/flightsvc/wire"
	"github.com/flightblob/flightblob/materialize"
	"github.com/flightblob/flightblob/objstore"
)

// Options configures a Server. The zero value serves with a budget of
// materialize.DefaultBudget, without mapped objects, logs or authentication.
type Options struct {
	// Budget bounds the payload that all streams hold together.
	Budget *materialize.Budget
	// Counter is the one that the catalog's stores count into; describe shows
	// what it says of a table's objects. May be nil.
	Counter *objstore.Counter
	// Plain promises that connections come from a wire.NewListener without
	// transport security. Frames then go out by writev, and local Lance-owned
	// objects are mapped instead of read.
	Plain bool
	// ReceiveBytes is the longest message taken from a client, default 64 MiB.
	ReceiveBytes int
	// Authenticate decides who makes a call; nil lets everyone.
	Authenticate Authenticate
	// Events reports what happens.
	Events Events
	// Log takes panics, failures of the server and, at debug level, all calls.
	Log *slog.Logger
}

// Server answers Arrow Flight requests over the tables of a catalog. It is
// safe for concurrent use and owns no goroutine; each call's work ends with the
// call's context.
type Server struct {
	flight.BaseFlightServer

	cat    *catalog.Catalog
	opts   Options
	log    *slog.Logger
	redact redactor
	health *health.Server
}

// New makes a server over a catalog, which must outlive it.
func New(cat *catalog.Catalog, opts Options) (*Server, error) {
	if cat == nil {
		return nil, errors.New("flightsvc: no catalog")
	}
	if opts.Budget == nil {
		opts.Budget = materialize.NewBudget(materialize.DefaultBudget)
	}
	if opts.ReceiveBytes <= 0 {
		opts.ReceiveBytes = 64 << 20
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	var roots []string
	for _, name := range cat.Catalogs() {
		root, err := cat.Root(name)
		if err != nil {
			return nil, err
		}
		roots = append(roots, root.String())
	}
	return &Server{
		cat: cat, opts: opts, log: opts.Log,
		redact: newRedactor(roots),
		health: health.NewServer(),
	}, nil
}

const (
	// receiveWindow is what a client may send ahead of the reader, per stream
	// and per connection; smaller windows slow large puts.
	receiveWindow = 8 << 20
	// headerBytes is the most that a call's headers may take.
	headerBytes = 64 << 10
)

// ServerOptions are the gRPC options that this server relies on: its codec,
// interceptors, sizes and limits. Transport credentials are the caller's.
func (s *Server) ServerOptions() []grpc.ServerOption {
	opts := []grpc.ServerOption{
		grpc.ForceServerCodecV2(wire.Codec()),
		grpc.ChainUnaryInterceptor(s.unary),
		grpc.ChainStreamInterceptor(s.streaming),
		grpc.MaxRecvMsgSize(s.opts.ReceiveBytes),
		grpc.MaxSendMsgSize(protocolLimit + 1<<16),
		grpc.MaxHeaderListSize(headerBytes),
		grpc.InitialWindowSize(receiveWindow),
		grpc.InitialConnWindowSize(receiveWindow),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: time.Minute, Timeout: 20 * time.Second}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
	}
	if s.opts.Plain {
		opts = append(opts, grpc.WriteBufferSize(0))
	}
	return opts
}

// Register adds the Flight, health and reflection services to a gRPC server
// that was made with ServerOptions.
func (s *Server) Register(g *grpc.Server) {
	flight.RegisterFlightServiceServer(g, s)
	grpc_health_v1.RegisterHealthServer(g, s.health)
	reflection.Register(g)
	s.health.SetServingStatus("", grpc_health_v1.HealthCheckResponse_SERVING)
	s.health.SetServingStatus(flightService, grpc_health_v1.HealthCheckResponse_SERVING)
}

const flightService = "arrow.flight.protocol.FlightService"

// Drain makes health checks answer that the server takes no new work.
func (s *Server) Drain() { s.health.Shutdown() }
