package flightsvc

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/flight"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/flightblob/flightblob/schema"
	"github.com/flightblob/flightblob/table"
)

// A large plain scan is given out as several endpoints, so that clients read it
// over several streams. Each covers whole fragments; in order they are the scan.

// part is the rows of one endpoint, as offset and count in scan order. A query
// that is no plain scan has one part, which is all of it.
type part struct{ offset, rows uint64 }

// Defaults of Options.
const (
	defaultEndpointRows = 1 << 20
	defaultMaxEndpoints = 16
)

// split cuts rows [offset, offset+rows) of a snapshot at fragment borders into
// parts of at least EndpointRows rows, and not more than MaxEndpoints. Fewer
// than two such parts are one.
func (s *Server) split(snap *table.Snapshot, offset, rows uint64) []part {
	n := min(uint64(max(s.opts.MaxEndpoints, 1)), rows/s.opts.EndpointRows)
	if n < 2 {
		return []part{{offset, rows}}
	}
	size := (rows + n - 1) / n
	end := offset + rows
	var parts []part
	from, at := offset, uint64(0)
	for i := range snap.Manifest().Fragments {
		at += snap.Manifest().Fragments[i].LiveRows()
		if to := min(at, end); to > from && to-from >= size && end-to > 0 && uint64(len(parts)+1) < n {
			parts = append(parts, part{from, to - from})
			from = to
		}
	}
	return append(parts, part{from, end - from})
}

// endpoints are those of a read by path or JSON. Without a location the client
// comes back to where it asked.
func (s *Server) endpoints(a *announcement) ([]*flight.FlightEndpoint, error) {
	t := a.ticket
	parts := []part{{}}
	if t.Rows == nil && t.Ranges == nil && t.Filter == "" {
		parts = s.split(a.snapshot, t.Offset, uint64(a.rows))
	}
	endpoints := make([]*flight.FlightEndpoint, len(parts))
	for i, p := range parts {
		one := *t
		if a.pin != nil {
			one.Pin = a.pin.key
		}
		if len(parts) > 1 {
			one.Offset, one.Limit = p.offset, &p.rows
		}
		b, err := one.Append(nil)
		if err != nil {
			return nil, err
		}
		rows := a.rows
		if len(parts) > 1 {
			rows = int64(p.rows)
		}
		endpoints[i] = &flight.FlightEndpoint{Ticket: &flight.Ticket{Ticket: b}, AppMetadata: partMetadata(a.snapshot, rows)}
		if a.pin != nil {
			endpoints[i].ExpirationTime = timestamppb.New(a.pin.end(time.Time{}))
		}
	}
	return endpoints, nil
}

// partMetadata is the app_metadata of an endpoint, for readers that share the
// work: the version, and the rows if their number is known (not -1).
func partMetadata(snap *table.Snapshot, rows int64) []byte {
	if rows < 0 {
		return versionMetadata(snap)
	}
	return fmt.Appendf(nil, `{"version":%d,"rows":%d}`, snap.Version(), rows)
}

// plainScan is a plain scan that this server runs by itself, without the
// engine's copies.
type plainScan struct {
	snap    *table.Snapshot
	columns []string
	schema  *arrow.Schema // in the face asked for, dictionaries and views plain
}

// planScan looks whether a statement is a plain scan whose columns look the
// same either way, and cuts it into parts.
func (s *Server) planScan(ctx context.Context, st Statement, set settings, announced *arrow.Schema) (*plainScan, []part, error) {
	one := []part{{}}
	scan, ok := st.PlainScan()
	if !ok {
		return nil, one, nil
	}
	raw, err := scanSchema(ctx, scan.Snapshot, &Ticket{Columns: scan.Columns}, set)
	if err != nil {
		return nil, nil, err
	}
	p := &plainScan{snap: scan.Snapshot, columns: scan.Columns, schema: plainSchema(raw)}
	shown := p.schema
	if set.bi {
		shown = biSchema(shown)
	}
	if agrees(announced, shown) != nil {
		return nil, one, nil
	}
	// What SQL announces has no metadata of the table's schema.
	m := announced.Metadata()
	p.schema = arrow.NewSchema(p.schema.Fields(), &m)
	return p, s.split(p.snap, 0, p.snap.Rows()), nil
}

// readsAllEndpoints says whether a client that asks for a statement without
// preparing it can be given several endpoints. flightsql-dbapi, on pyarrow's C++
// client, reads the first and takes it for the whole; the clients in Go and Java
// read all.
func readsAllEndpoints(ctx context.Context) bool {
	md, _ := metadata.FromIncomingContext(ctx)
	return slices.ContainsFunc(md.Get(headerUserAgent), func(agent string) bool {
		return strings.Contains(agent, "grpc-go/") || strings.Contains(agent, "grpc-java")
	})
}

// undivided is a query's rows in one part.
func undivided(q *query) []part {
	var all part
	for _, p := range q.parts {
		all.rows += p.rows
	}
	return []part{all}
}

// scanRows starts reading a part of a plain scan. The reader ends with ctx.
func (s *Server) scanRows(ctx context.Context, p *plainScan, of part, set settings) (array.RecordReader, error) {
	t := &Ticket{Columns: p.columns, Offset: of.offset, Limit: &of.rows}
	rows, err := s.open(ctx, p.snap, t, set)
	if err != nil {
		return nil, err
	}
	if rows.Schema().Equal(p.schema) {
		return rows, nil
	}
	return newPull(p.schema, func() (arrow.RecordBatch, error) {
		if !rows.Next() {
			return nil, rows.Err()
		}
		return plainBatch(rows.RecordBatch(), p.schema)
	}, rows.Release), nil
}

// sqlSchemaOf is the schema of SELECT * FROM a table, as engines must show it.
func sqlSchemaOf(snap *table.Snapshot, view schema.View) (*arrow.Schema, error) {
	raw, err := snap.Schema().Arrow(view)
	if err != nil {
		return nil, err
	}
	return plainSchema(raw), nil
}
