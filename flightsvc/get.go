package flightsvc

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"google.golang.org/grpc"

	"github.com/flightblob/flightblob/flightsvc/wire"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/materialize"
	"github.com/flightblob/flightblob/schema"
	"github.com/flightblob/flightblob/table"
)

// DoGet implements flight.FlightServer: the rows of a ticket.
func (s *Server) DoGet(t *flight.Ticket, stream flight.FlightService_DoGetServer) error {
	r, err := routeTicket(t)
	if err != nil {
		return err
	}
	if r.ticket == nil {
		return s.sqlGet(stream.Context(), r.sql, stream)
	}
	return s.send(stream.Context(), r.ticket, stream, wire.Options{})
}

// snapshot opens the version that a ticket names. A pinned one is that version
// of that table or none.
func (s *Server) snapshot(ctx context.Context, t *Ticket) (*table.Snapshot, error) {
	tbl, err := s.cat.Table(ctx, t.Name)
	if err != nil {
		return nil, err
	}
	ref := t.Ref
	if !t.Minted {
		if ref, err = s.onBranch(ctx, ref); err != nil {
			return nil, err
		}
	}
	snap, err := tbl.At(ctx, ref)
	if err != nil {
		return nil, err
	}
	if t.Committed != 0 && t.Committed != snap.Manifest().Timestamp.UnixNano() {
		return nil, fault.New(fault.NotFound, "ticket: table %s was dropped and made anew since its %s was pinned; ask for a new ticket",
			t.label(), t.Ref)
	}
	return snap, nil
}

// send answers a ticket on a stream.
func (s *Server) send(ctx context.Context, t *Ticket, stream grpc.ServerStream, opts wire.Options) error {
	set, err := s.settings(ctx, t)
	if err != nil {
		return err
	}
	snap, err := s.snapshot(ctx, t)
	if err != nil {
		return err
	}
	leave, err := s.keep(ctx, t, set, snap)
	if err != nil {
		return err
	}
	defer leave()
	rows, err := s.open(ctx, snap, t, set)
	if err != nil {
		return t.explain(snap, removed(ctx, err, snap))
	}
	defer rows.Release()
	out, err := s.newSender(stream, rows.Schema(), t, set, opts)
	if err != nil {
		return t.explain(snap, err)
	}
	return t.explain(snap, removed(ctx, out.all(rows), snap))
}

// open starts reading what a ticket asks for, with blobs in the chosen face.
// The reader ends with ctx.
func (s *Server) open(ctx context.Context, snap *table.Snapshot, t *Ticket, set settings) (array.RecordReader, error) {
	switch {
	case t.Ranges != nil:
		return s.openRanges(ctx, snap, t, set)
	case t.Filter != "":
		return s.openFiltered(ctx, snap, t, set)
	}
	return s.openFrom(ctx, snap, t, set, int64(t.Offset))
}

// openFrom starts a scan whose first row has a number in the answer.
func (s *Server) openFrom(ctx context.Context, snap *table.Snapshot, t *Ticket, set settings, first int64) (array.RecordReader, error) {
	scan, err := snap.Scan(ctx, table.ScanRequest{
		Columns: t.Columns, Offset: t.Offset, Limit: t.Limit, Rows: t.Rows,
		BatchBytes: set.message,
	})
	if err != nil {
		return nil, err
	}
	if set.view == schema.Descriptor {
		return scan, nil
	}
	out, err := scan.SchemaAs(set.view)
	if err != nil {
		scan.Release()
		return nil, err
	}
	if out.Equal(scan.Schema()) { // no blob column among them
		return scan, nil
	}
	defer scan.Release()
	o := s.materializing(t, set, out)
	o.FirstRow = first
	return materialize.NewReader(ctx, scan, snap.Resolver(), o)
}

func (s *Server) materializing(t *Ticket, set settings, out *arrow.Schema) materialize.Options {
	return materialize.Options{
		Budget: s.opts.Budget, View: set.view, Schema: out,
		BatchBytes: set.message - messageBase, MaxValue: set.limit,
		Map: s.opts.Plain, FirstRow: int64(t.Offset), Mem: memory.DefaultAllocator,
	}
}
