package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/flight/flightsql"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/flightblob/flightblob/internal/spelling"
	"github.com/flightblob/flightblob/materialize"
	"github.com/flightblob/flightblob/query"
	"github.com/flightblob/flightblob/query/statement"
)

// open finds who runs the statements.
func (q *querying) open(cmd *cobra.Command) (source, error) {
	if q.connect != "" {
		return connect(q.connect, q.branch)
	}
	log, err := q.logger(cmd.ErrOrStderr())
	if err != nil {
		return nil, err
	}
	h, err := openHouse(cmd.Context(), &q.places, log)
	if err != nil {
		return nil, err
	}
	if err := h.checkRoots(); err != nil {
		return nil, errors.Join(err, h.close())
	}
	engine, err := query.Open(h.catalog, query.Options{
		Memory: int64(q.sql.memory), SpillDir: q.sql.spill, SpillBytes: int64(q.sql.spillBytes), Timeout: q.sql.timeout,
		Budget: materialize.NewBudget(int64(q.memory)), Log: log,
	})
	if err != nil {
		return nil, errors.Join(err, h.close())
	}
	return &inProcess{house: h, engine: engine, session: query.Session{Branch: q.branch}}, nil
}

// inProcess runs statements here.
type inProcess struct {
	house   *house
	engine  *query.Engine
	session query.Session
}

func (p *inProcess) close() {
	p.engine.Close()
	_ = p.house.close() // nothing was written
}

func (p *inProcess) run(ctx context.Context, sql, face string) (answer, error) {
	if parsed, err := statement.Parse(sql); err == nil && !parsed.Kind.Reads() {
		return p.change(ctx, sql)
	}
	st, err := p.engine.Prepare(ctx, p.session, sql)
	if err != nil {
		return answer{}, err
	}
	defer st.Close()
	if n := len(st.Params()); n > 0 {
		return answer{}, unbound(n)
	}
	rows, err := st.Query(ctx, query.QueryOptions{View: faces[face]})
	if err != nil {
		return answer{}, err
	}
	return answer{rows: rows}, nil
}

// change runs a statement that writes.
func (p *inProcess) change(ctx context.Context, sql string) (answer, error) {
	c, err := p.engine.PrepareChange(ctx, p.session, sql)
	if err != nil {
		return answer{}, err
	}
	if n := len(c.Params()); n > 0 {
		return answer{}, unbound(n)
	}
	done, err := c.Run(ctx, nil)
	if err != nil || done.Answer == nil {
		return answer{changed: done.Rows, notice: done.Notice}, err
	}
	defer done.Answer.Release()
	rows, err := array.NewRecordReader(done.Answer.Schema(), []arrow.RecordBatch{done.Answer})
	return answer{rows: rows}, err
}

// unbound refuses a statement whose values nobody gives.
func unbound(params int) error {
	return usagef("the statement has %s, which nobody binds here; write the values", spelling.Count(params, "parameter"))
}

// remote runs statements on a server.
type remote struct {
	client *flightsql.Client
	branch string // "" = main
}

// connect prepares a connection; the first statement makes it.
func connect(uri, branch string) (source, error) {
	u, err := url.Parse(uri)
	if err != nil || u.Host == "" || u.Port() == "" || (u.Scheme != "grpc" && u.Scheme != "grpc+tcp") {
		return nil, usagef("--connect %q is not a URI such as grpc://127.0.0.1:31337", uri)
	}
	client, err := flightsql.NewClient(u.Host, nil, nil,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32)))
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", uri, err)
	}
	return &remote{client: client, branch: branch}, nil
}

func (r *remote) close() { _ = r.client.Close() }

func (r *remote) run(ctx context.Context, sql, face string) (answer, error) {
	// The server takes 16 MiB for what a client in Go can receive unless told.
	ctx = metadata.AppendToOutgoingContext(ctx,
		"flightblob-blobs", face, "flightblob-max-message-bytes", strconv.Itoa(math.MaxInt32))
	if r.branch != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "flightblob-branch", r.branch)
	}
	// What cannot be read here is the server's to refuse.
	if st, err := statement.Parse(sql); err == nil && st.IsUpdate() {
		var behind metadata.MD
		n, err := r.client.ExecuteUpdate(ctx, sql, grpc.Trailer(&behind))
		return answer{changed: n, notice: strings.Join(behind.Get("flightblob-notice"), "; ")}, err
	}
	info, err := r.client.Execute(ctx, sql)
	if err != nil {
		return answer{}, err
	}
	rows := &endpoints{ctx: ctx, client: r.client, rest: info.Endpoint}
	if !rows.open() && rows.err != nil {
		return answer{}, rows.err
	}
	if rows.reader == nil {
		schema, err := flight.DeserializeSchema(info.Schema, memory.DefaultAllocator)
		if err != nil {
			return answer{}, fmt.Errorf("schema of the answer: %w", err)
		}
		rows.schema = schema
	}
	return answer{rows: rows}, nil
}

// endpoints reads the streams of an answer one after the other.
type endpoints struct {
	ctx    context.Context // of the whole answer
	client *flightsql.Client
	rest   []*flight.FlightEndpoint
	schema *arrow.Schema
	reader *flight.Reader
	err    error
}

var _ array.RecordReader = (*endpoints)(nil)

// open starts the next stream.
func (e *endpoints) open() bool {
	if e.err != nil || len(e.rest) == 0 {
		return false
	}
	e.reader, e.err = e.client.DoGet(e.ctx, e.rest[0].GetTicket())
	e.rest = e.rest[1:]
	if e.err != nil {
		return false
	}
	e.schema = e.reader.Schema()
	return true
}

func (e *endpoints) Next() bool {
	for e.reader != nil {
		if e.reader.Next() {
			return true
		}
		e.err = e.reader.Err()
		e.reader.Release()
		e.reader = nil
		e.open()
	}
	return false
}

func (e *endpoints) Release() {
	if e.reader != nil {
		e.reader.Release()
		e.reader = nil
	}
}

func (e *endpoints) Retain()                        {}
func (e *endpoints) Schema() *arrow.Schema          { return e.schema }
func (e *endpoints) RecordBatch() arrow.RecordBatch { return e.reader.RecordBatch() }
func (e *endpoints) Record() arrow.RecordBatch      { return e.reader.RecordBatch() }
func (e *endpoints) Err() error                     { return e.err }
