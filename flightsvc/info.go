package flightsvc

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/flightblob/flightblob/catalog"
	"github.com/flightblob/flightblob/materialize"
	"github.com/flightblob/flightblob/table"
)

// GetFlightInfo implements flight.FlightServer: endpoints whose tickets pin the
// version, with the schema that their streams will have.
func (s *Server) GetFlightInfo(ctx context.Context, d *flight.FlightDescriptor) (*flight.FlightInfo, error) {
	r, err := route(d)
	if err != nil {
		return nil, err
	}
	if r.ticket == nil {
		return s.sqlInfo(ctx, r.sql, d)
	}
	return s.tableInfo(ctx, r.ticket, d, true)
}

// tableInfo is the info of a read by path or JSON. With keep its version is
// pinned, if the call wants that.
func (s *Server) tableInfo(ctx context.Context, t *Ticket, d *flight.FlightDescriptor, keep bool) (*flight.FlightInfo, error) {
	a, err := s.announce(ctx, t)
	if err != nil {
		return nil, err
	}
	if keep {
		a.pin, err = s.pin(ctx, a.settings, []*table.Snapshot{a.snapshot})
		if err != nil {
			return nil, err
		}
	}
	endpoints, err := s.endpoints(a)
	if err != nil {
		s.pins.drop(a.pin)
	}
	if err != nil {
		return nil, err
	}
	return &flight.FlightInfo{
		Schema:           serialize(a.schema),
		FlightDescriptor: d,
		Endpoint:         endpoints,
		TotalRecords:     a.rows,
		TotalBytes:       a.bytes,
		Ordered:          true,
		AppMetadata:      versionMetadata(a.snapshot),
	}, nil
}

// GetSchema implements flight.FlightServer.
func (s *Server) GetSchema(ctx context.Context, d *flight.FlightDescriptor) (*flight.SchemaResult, error) {
	r, err := route(d)
	if err != nil {
		return nil, err
	}
	if r.ticket == nil {
		return s.sqlSchema(ctx, r.sql)
	}
	a, err := s.announce(ctx, r.ticket)
	if err != nil {
		return nil, err
	}
	return &flight.SchemaResult{Schema: serialize(a.schema)}, nil
}

// ListFlights implements flight.FlightServer: every table of every root, by
// its shortest path. The criteria's expression, if any, is a prefix that the
// table's full name (catalog.schema.table) or its path joined with dots must
// have. A table that cannot be opened is listed all the same, without schema
// and with the reason in app_metadata as {"error":"…"}: one damaged table must
// not hide the others.
func (s *Server) ListFlights(c *flight.Criteria, stream flight.FlightService_ListFlightsServer) error {
	ctx := stream.Context()
	prefix := string(c.GetExpression())
	for name, err := range s.cat.Names(ctx) {
		if err != nil {
			return err
		}
		path := s.path(name)
		full := strings.Join([]string{name.Catalog, name.Schema, name.Table}, ".")
		if !strings.HasPrefix(full, prefix) && !strings.HasPrefix(strings.Join(path, "."), prefix) {
			continue
		}
		info, err := s.listed(ctx, name, path)
		if err != nil {
			return err
		}
		if err := stream.Send(info); err != nil {
			return err
		}
	}
	return nil
}

// listed describes one table of a listing; an error means that the listing
// itself must end.
func (s *Server) listed(ctx context.Context, name catalog.Name, path []string) (*flight.FlightInfo, error) {
	d := &flight.FlightDescriptor{Type: flight.DescriptorPATH, Path: path}
	t, err := pathTicket(path)
	if err == nil {
		var info *flight.FlightInfo
		if info, err = s.tableInfo(ctx, t, d, false); err == nil {
			return info, nil
		}
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	reason, jerr := json.Marshal(map[string]string{"error": s.redact.text(err.Error())})
	if jerr != nil {
		return nil, fmt.Errorf("flightsvc: list %s: %w", name.Table, jerr)
	}
	return &flight.FlightInfo{FlightDescriptor: d, TotalRecords: -1, TotalBytes: -1, AppMetadata: reason}, nil
}

// announcement is what can be said of a request without answering it.
type announcement struct {
	snapshot *table.Snapshot
	settings settings
	pin      *pin          // nil for none
	ticket   *Ticket       // pinned to snapshot and to the settings
	schema   *arrow.Schema // exactly the stream's
	rows     int64         // -1 = unknown
	bytes    int64         // of Arrow data, -1 = unknown
}

func (s *Server) announce(ctx context.Context, t *Ticket) (*announcement, error) {
	set, err := s.settings(ctx, t)
	if err != nil {
		return nil, err
	}
	snap, err := s.snapshot(ctx, t)
	if err != nil {
		return nil, err
	}
	a := &announcement{snapshot: snap, settings: set, rows: -1, bytes: -1}
	if t.Ranges != nil {
		a.schema, err = materialize.RangeSchema, checkRanges(snap, t)
		a.rows = int64(len(t.Ranges))
	} else {
		a.schema, err = scanSchema(ctx, snap, t, set)
		a.rows = int64(rowsOf(snap, t))
	}
	if err == nil && t.Filter != "" {
		a.rows, err = -1, s.checkFilter(ctx, snap, t)
	}
	if err != nil {
		return nil, t.explain(snap, err)
	}
	if set.bi {
		a.schema = biSchema(a.schema)
	}
	if a.rows == 0 {
		a.bytes = 0
	}
	pinned := *t
	pinned.Ref, pinned.Committed = snap.Ref(), snap.Manifest().Timestamp.UnixNano()
	if t.Ranges == nil {
		pinned.Blobs = faceName(set.view)
	}
	if set.bi {
		pinned.Profile = profileBI
	}
	a.ticket = &pinned
	return a, nil
}

// scanSchema is the schema of a scan in the chosen face. It opens a scan of no
// rows, so announcement and stream take it from the same place; positions are
// checked as well, since that costs nothing.
func scanSchema(ctx context.Context, snap *table.Snapshot, t *Ticket, set settings) (*arrow.Schema, error) {
	for i, row := range t.Rows {
		if row >= snap.Rows() {
			return nil, noRow(snap, "rows", i, row)
		}
	}
	none := uint64(0)
	scan, err := snap.Scan(ctx, table.ScanRequest{Columns: t.Columns, Limit: &none})
	if err != nil {
		return nil, err
	}
	defer scan.Release()
	return scan.SchemaAs(set.view)
}

// rowsOf is how many rows a ticket's stream has.
func rowsOf(snap *table.Snapshot, t *Ticket) uint64 {
	if t.Rows != nil {
		return uint64(len(t.Rows))
	}
	n := snap.Rows() - min(t.Offset, snap.Rows())
	if t.Limit != nil {
		n = min(n, *t.Limit)
	}
	return n
}

func serialize(sch *arrow.Schema) []byte {
	return flight.SerializeSchema(sch, memory.DefaultAllocator)
}

// versionMetadata is the app_metadata of answers about a snapshot.
func versionMetadata(snap *table.Snapshot) []byte {
	return fmt.Appendf(nil, `{"version":%d}`, snap.Version())
}

// path is the shortest path that names a table: the default catalog and schema
// main are left out.
func (s *Server) path(name catalog.Name) []string {
	switch {
	case name.Catalog != s.cat.Catalogs()[0]:
		return []string{name.Catalog, name.Schema, name.Table}
	case name.Schema != catalog.Main:
		return []string{name.Schema, name.Table}
	}
	return []string{name.Table}
}
