package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/grpc"

	"github.com/flightblob/flightblob/flightsvc"
	"github.com/flightblob/flightblob/flightsvc/sqlengine"
	"github.com/flightblob/flightblob/flightsvc/wire"
	"github.com/flightblob/flightblob/materialize"
	"github.com/flightblob/flightblob/query"
)

// serving are the settings of commands that serve.
type serving struct {
	places
	logging
	listen   string
	memory   byteSize
	drain    time.Duration
	insecure bool
	metrics  string
	writes   writeSettings
	sql      sqlSettings
}

// writeSettings are those of writes.
type writeSettings struct {
	refused bool
	most    int
	memory  byteSize
	message byteSize
}

func (w *writeSettings) flags(f *pflag.FlagSet) {
	f.BoolVar(&w.refused, "read-only", false, "take no writes")
	f.IntVar(&w.most, "max-puts", 64, "writes that run at once; more wait")
	w.memory = 512 << 20
	f.Var(&w.memory, "put-memory", "bytes of batches that all writes hold together")
	w.message = 64 << 20
	f.Var(&w.message, "max-receive", "longest message that is taken from a client")
}

// sqlSettings are those of statements.
type sqlSettings struct {
	memory       byteSize
	spill        string
	spillBytes   byteSize
	timeout      time.Duration
	endpointRows uint64
}

func (s *sqlSettings) flags(f *pflag.FlagSet) {
	s.memory = query.DefaultMemory
	f.Var(&s.memory, "sql-memory", "bytes that the SQL engine holds for all statements together, payload of results aside")
	f.StringVar(&s.spill, "sql-spill", "", "`FOLDER` for what does not fit into --sql-memory; empty fails statements that need more")
	f.Var(&s.spillBytes, "sql-spill-bytes", "bytes in the folder of --sql-spill at most; 0 for nearly all that its disk has free")
	f.DurationVar(&s.timeout, "statement-timeout", 0, "how long a statement may run; 0 for ever")
	f.Uint64Var(&s.endpointRows, "endpoint-rows", 1<<20, "least `ROWS` in each endpoint of a plain scan that clients may read over several streams")
}

func (s *serving) flags(f *pflag.FlagSet) {
	s.places.flags(f, nil)
	f.StringVar(&s.listen, "listen", "127.0.0.1:31337", "`ADDR` to listen on; port 0 picks one")
	s.memory = materialize.DefaultBudget
	f.Var(&s.memory, "memory", "bytes of payload that all streams hold together")
	f.DurationVar(&s.drain, "drain-timeout", 30*time.Second, "how long running streams may go on after SIGTERM")
	f.BoolVar(&s.insecure, "insecure", false, "allow an address that other machines reach, without TLS and authentication")
	f.StringVar(&s.metrics, "metrics", "", "`ADDR` to serve Prometheus metrics on, at /metrics; empty for none")
	s.writes.flags(f)
	s.sql.flags(f)
	s.logging.flags(f)
}

func serveCommand() *cobra.Command {
	var s serving
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serves the tables of one or more roots",
		Long: `Serves the tables of one or more roots over Arrow Flight.

When ready it prints one line on stdout: flightblob listening on grpc://HOST:PORT.
SIGTERM or Ctrl-C: no new calls, running streams get --drain-timeout, then exit.
A second signal ends it at once.`,
		Example: `  flightblob serve --root ./warehouse
  flightblob serve --root media=s3://bucket/tables --root ref=/srv/tables --storage storage.toml
  FLIGHTBLOB_LISTEN=127.0.0.1:0 flightblob serve`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return s.run(cmd, hooks{})
		},
	}
	s.flags(cmd.Flags())
	return cmd
}

// hooks are what a command does besides serving. Each may be nil.
type hooks struct {
	prepare func(h *house) error                        // before the roots are looked at
	serving func(ctx context.Context, uri string) error // once calls are answered, before anyone is told
	ready   func(uri string)                            // afterwards
}

// run serves until the context of cmd ends.
func (s *serving) run(cmd *cobra.Command, do hooks) error {
	log, err := s.logger(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	if err := s.checkListen(); err != nil {
		return err
	}
	if s.memory <= 0 {
		return usagef("--memory %s: streams need some memory; the default is 256MiB", s.memory.String())
	}
	if s.drain < 0 {
		return usagef("--drain-timeout %s: a time to wait, 0 for none", s.drain)
	}
	if err := makeDefaultRoot(&s.places); err != nil {
		return err
	}
	ctx := cmd.Context()
	h, err := openHouse(ctx, &s.places, log)
	if err != nil {
		return err
	}
	defer func() {
		if err := h.close(); err != nil {
			log.Warn("closing stores", "error", err)
		}
	}()
	if do.prepare != nil {
		if err := do.prepare(h); err != nil {
			return err
		}
	}
	if err := h.checkRoots(); err != nil {
		return err
	}
	limitMemory(int64(s.memory))

	budget := materialize.NewBudget(int64(s.memory))
	meters := newMeters(h.counter, budget)
	sql, err := query.Open(h.catalog, query.Options{
		Memory: int64(s.sql.memory), SpillDir: s.sql.spill, SpillBytes: int64(s.sql.spillBytes), Budget: budget, Log: log,
	})
	if err != nil {
		return err
	}
	defer sql.Close()
	meters.watch(sql)
	svc, err := flightsvc.New(h.catalog, flightsvc.Options{
		Budget: budget, Counter: h.counter, Plain: true, Events: meters.events(), Log: log, Version: version,
		Engine: sqlengine.New(h.catalog, sql), StatementTimeout: s.sql.timeout, EndpointRows: max(s.sql.endpointRows, 1),
		ReadOnly: s.writes.refused, MaxPuts: s.writes.most, PutBytes: int64(s.writes.memory), ReceiveBytes: int(s.writes.message),
	})
	if err != nil {
		return err
	}
	defer svc.Close()
	g := grpc.NewServer(svc.ServerOptions()...)
	svc.Register(g)

	l, err := net.Listen("tcp", s.listen)
	if err != nil {
		return listenError("--listen", s.listen, err)
	}
	stopMetrics, err := meters.serve(s.metrics, log)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	defer stopMetrics()

	served := make(chan error, 1)
	go func() { served <- g.Serve(wire.NewListener(l)) }()
	uri := "grpc://" + l.Addr().String()
	if do.serving != nil {
		if err := do.serving(ctx, uri); err != nil {
			g.Stop()
			return errors.Join(err, <-served)
		}
	}
	fmt.Fprintf(cmd.OutOrStdout(), "flightblob listening on %s\n", uri)
	log.Info("serving", "uri", uri, "catalogs", h.catalog.Catalogs(), "memory", s.memory.String())
	if do.ready != nil {
		do.ready(uri)
	}
	select {
	case err := <-served:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	s.stop(g, svc, log)
	if err := <-served; err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// stop ends the server in order: no new calls, then the running ones, then all.
func (s *serving) stop(g *grpc.Server, svc *flightsvc.Server, log *slog.Logger) {
	log.Info("draining", "timeout", s.drain)
	again := make(chan os.Signal, 1)
	signal.Notify(again, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(again)

	svc.Drain()
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		g.GracefulStop()
	}()
	timeout := time.NewTimer(s.drain)
	defer timeout.Stop()
	select {
	case <-drained:
		return
	case <-again:
		log.Warn("stopping at once", "reason", "second signal")
	case <-timeout.C:
		log.Warn("stopping at once", "reason", "drain timeout")
	}
	g.Stop()
	<-drained
}

// listenError names the flag in the place of what the net package repeats.
func listenError(flag, addr string, err error) error {
	var op *net.OpError
	if errors.As(err, &op) && op.Err != nil {
		err = op.Err
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%s %s: the address is in use; give another, port 0 picks one", flag, addr)
	}
	return fmt.Errorf("%s %s: %w", flag, addr, err)
}

// checkListen refuses addresses that anyone could reach unless that is wanted.
func (s *serving) checkListen() error {
	local, err := loopback(s.listen)
	if err != nil {
		return err
	}
	if !local && !s.insecure {
		return usagef("--listen %s can be reached from other machines, without TLS and authentication; add --insecure if that is meant", s.listen)
	}
	return nil
}

// heapBeside is what the heap may hold beside the payload budget before the
// collector works harder: caches of tables and what it has not swept yet.
const heapBeside = 128 << 20

// gcPercent lets the small live heap of a scanning server grow further between
// collections than Go's default would; the memory limit bounds it all the same.
const gcPercent = 400

// limitMemory tells the collector how large the heap may be, unless the user
// did by GOMEMLIMIT and GOGC.
func limitMemory(budget int64) {
	boundHeap(budget)
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}

// boundHeap is limitMemory for a command that moves payload once: collecting
// often costs it little.
func boundHeap(budget int64) {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(budget + heapBeside)
	}
}
