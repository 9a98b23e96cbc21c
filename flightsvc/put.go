package flightsvc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/flight"
	"google.golang.org/grpc/metadata"

	"github.com/flightblob/flightblob/flightsvc/wire"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/table"
	"github.com/flightblob/flightblob/table/manifest"
)

// DoPut implements flight.FlightServer: rows for a table, named by a path, a
// JSON command or an ingest command, and the parameters of prepared statements.
// One put is one commit; a stream that fails or breaks leaves the table as it
// was.
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
	rows := &replayed{FlightService_DoPutServer: stream, first: first}
	switch {
	case d.Type == flight.DescriptorCMD && len(d.Cmd) > 0 && d.Cmd[0] == '{':
		c, err := parsePut(d.Cmd)
		if err != nil {
			return err
		}
		return s.put(c, rows)
	case d.Type == flight.DescriptorPATH:
		t, err := pathTicket(d.Path)
		if err != nil {
			return err
		}
		return s.put(&putCommand{name: t.Name, mode: putCreateAppend}, rows)
	}
	r, err := route(d)
	if err != nil {
		return err
	}
	return s.sqlPut(r.sql, first, stream)
}

// putAnswer is the app_metadata of a put's result.
type putAnswer struct {
	Version uint64 `json:"version"`
	Rows    uint64 `json:"rows"`
	// Updated is how many of them came in the place of others, of mode merge only.
	Updated *uint64 `json:"updated,omitempty"`
	Notice  string  `json:"notice,omitempty"`
}

// put writes the rows of a stream and answers one result.
func (s *Server) put(c *putCommand, stream flight.FlightService_DoPutServer) error {
	answer, snapshot, err := s.write(c, stream)
	if err != nil {
		return err
	}
	answer.Version = snapshot.Version()
	if c.managed != nil && *c.managed && snapshot.Version() == 1 {
		answer.Notice = s.optedIn(stream.Context(), snapshot.Table().Name(), nil, snapshot)
	}
	b, err := json.Marshal(answer)
	if err != nil {
		return fault.New(fault.Internal, "flightsvc: write a put result: %w", err)
	}
	return stream.Send(&flight.PutResult{AppMetadata: b})
}

// write makes the rows of a stream one version and says how many there were.
func (s *Server) write(c *putCommand, stream flight.FlightService_DoPutServer) (done putAnswer, snapshot *table.Snapshot, err error) {
	if s.opts.ReadOnly {
		return done, nil, errReadOnly
	}
	ctx := stream.Context()
	leave, err := s.puts.enter(ctx)
	if err != nil {
		return done, nil, err
	}
	defer leave()
	rows, err := readPut(stream)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return done, nil, cause
		}
		return done, nil, fault.New(fault.Invalid, "put: the stream has no readable schema; its first message carries one in Arrow's IPC format")
	}
	defer rows.Release()
	c.blobColumns = append(c.blobColumns, blobColumnsOf(ctx)...)
	if c.branch == "" {
		if c.branch, err = s.branch(ctx); err != nil {
			return done, nil, err
		}
	}
	switch c.mode {
	case putValue:
		snapshot, done.Rows, err = s.writeValue(ctx, c, rows)
		return done, snapshot, err
	case putMerge:
		return s.writeMerge(ctx, c, rows)
	}
	a, err := s.appender(ctx, c, rows.Schema())
	if err != nil {
		return done, nil, err
	}
	defer a.Abort()
	if err := s.writeRows(ctx, rows, a); err != nil {
		return done, nil, err
	}
	done.Rows = a.Rows()
	snapshot, err = a.Commit(ctx)
	return done, snapshot, err
}

// rowWriter is what the rows of a put go into.
type rowWriter interface {
	Write(ctx context.Context, batch arrow.RecordBatch) error
	Rows() uint64
}

// writeRows hands on all rows of a put.
func (s *Server) writeRows(ctx context.Context, rows array.RecordReader, into rowWriter) error {
	for rows.Next() {
		if err := s.puts.hold(ctx, rows.RecordBatch(), func(batch arrow.RecordBatch) error { return into.Write(ctx, batch) }); err != nil {
			return fmt.Errorf("put: after %d rows: %w", into.Rows(), err)
		}
	}
	if err := rows.Err(); err != nil {
		return putBroken(ctx, err)
	}
	return nil
}

// putBroken says why the rows of a put ended early: the client went away, or it
// sent what is no Arrow stream.
func putBroken(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return fault.New(fault.Invalid, "put: the stream cannot be read: %w", err)
}

// appender opens what the rows go into.
func (s *Server) appender(ctx context.Context, c *putCommand, input *arrow.Schema) (*table.Appender, error) {
	create := table.CreateOptions{
		WriteOptions: c.options, BlobColumns: c.blobColumns, Bases: c.bases, OrAppend: c.mode == putCreateAppend,
	}
	if c.managed != nil {
		create.Settings = &table.Settings{Managed: c.managed}
	}
	if c.mode != putCreate {
		t, err := s.cat.Table(ctx, c.name)
		switch {
		case err == nil && (c.mode == putOverwrite || c.mode == putReplace):
			return t.Overwrite(ctx, c.branch, input, create)
		case err == nil:
			if err := haveColumns(input, c.blobColumns); err != nil {
				return nil, err
			}
			return t.Append(ctx, c.branch, input, c.options)
		case fault.KindOf(err) != fault.NotFound || c.mode == putAppend || c.mode == putOverwrite:
			return nil, err
		}
	}
	if c.branch != "" && c.branch != manifest.MainBranch {
		return nil, fault.New(fault.NotFound, "put: a new table %s would have no branch %s; create it on main", c.name, quote(c.branch))
	}
	t, err := s.cat.NewTable(ctx, c.name)
	if err != nil {
		return nil, err
	}
	return t.Create(ctx, input, create)
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
