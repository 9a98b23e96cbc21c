package flightsvc

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
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
	// ReadOnly refuses all writes.
	ReadOnly bool
	// MaxPuts is how many writes run at once, default 64; PutBytes bounds the
	// bytes of their batches together, default 512 MiB. What has no room waits.
	MaxPuts  int
	PutBytes int64
	// Authenticate decides who makes a call; nil lets everyone.
	Authenticate Authenticate
	// Principal names who makes a call, from the context that Authenticate gave.
	// What one principal was given, tickets and handles, answers to no other.
	Principal func(context.Context) string
	// Engine runs SQL; nil leaves it out.
	Engine Engine
	// Version is the program's, for clients that ask.
	Version string
	// Lease is how long a statement's tickets are good, default one hour; it can
	// be renewed.
	Lease time.Duration
	// PreparedIdle and SessionIdle are how long prepared statements and sessions
	// stay when nobody uses them, default one hour.
	PreparedIdle, SessionIdle time.Duration
	// StatementTimeout ends streams of statements that take longer; 0 = never.
	StatementTimeout time.Duration
	// EndpointRows is the least number of rows in each endpoint of a plain scan
	// that is given out in several, default 1 Mi; a scan of fewer than twice as
	// many rows has one.
	EndpointRows uint64
	// MaxEndpoints is the most endpoints of one scan, default 16.
	MaxEndpoints int
	// Events reports what happens.
	Events Events
	// Log takes panics, failures of the server and, at debug level, all calls.
	Log *slog.Logger
}

// Server answers Arrow Flight requests over the tables of a catalog. It is
// safe for concurrent use. Each call's work ends with the call's context; only
// statements that are polled run on between calls, until Close at the latest.
type Server struct {
	flight.BaseFlightServer

	cat    *catalog.Catalog
	opts   Options
	log    *slog.Logger
	redact redactor
	health *health.Server

	sessions *shelf[*session]
	prepared *shelf[*prepared]
	leases   *shelf[*lease]
	spares   *shelf[Statement] // by lease
	ahead    *shelf[*run]      // by lease
	puts     *puts
	pins     *pins
	reading  sync.Map     // leases with running streams, by key
	bound    atomic.Int64 // bytes of all parameters

	background sync.WaitGroup // runs
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
	opts.Lease = cmp.Or(opts.Lease, defaultLease)
	opts.PreparedIdle = cmp.Or(opts.PreparedIdle, defaultPreparedIdle)
	opts.SessionIdle = cmp.Or(opts.SessionIdle, defaultSessionIdle)
	opts.EndpointRows = cmp.Or(opts.EndpointRows, defaultEndpointRows)
	opts.MaxEndpoints = cmp.Or(opts.MaxEndpoints, defaultMaxEndpoints)
	var roots []string
	for _, name := range cat.Catalogs() {
		root, err := cat.Root(name)
		if err != nil {
			return nil, err
		}
		roots = append(roots, root.String())
	}
	s := &Server{
		cat: cat, opts: opts, log: opts.Log,
		redact: newRedactor(roots),
		health: health.NewServer(),
	}
	s.puts = newPuts(int64(cmp.Or(opts.MaxPuts, defaultPuts)), cmp.Or(opts.PutBytes, defaultPutBytes))
	s.pins = newPins(opts.Log, s.redact)
	s.sessions = newShelf[*session](opts.SessionIdle, maxSessions/10, maxSessions, nil)
	s.prepared = newShelf(opts.PreparedIdle, maxPreparedOfOwner, maxPrepared, (*prepared).drop)
	s.leases = newShelf(opts.Lease, maxLeasesOfOwner, maxLeases, s.dropLease)
	s.spares = newShelf(spareTime, maxSparesOwner, maxSpares, s.closeStatement)
	s.ahead = newShelf(runIdle, maxRunsOwner, maxRuns, (*run).Release)
	return s, nil
}

// Close drops what is kept for clients and ends the statements that run for
// them, and gives back what it kept from cleanups. Call it when the gRPC server has stopped, before the engine is closed.
func (s *Server) Close() {
	s.leases.close()
	s.ahead.close()
	s.spares.close()
	s.prepared.close()
	s.sessions.close()
	s.pins.close()
	s.background.Wait()
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
		// Whoever stops the server then closes what its calls work with.
		grpc.WaitForHandlers(true),
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
