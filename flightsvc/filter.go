package flightsvc

import (
	"context"
	"iter"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/table"
)

// A ticket's filter is a condition that the engine decides; the rows that meet
// it are then read as if they had been asked for by position, so that types,
// faces and metadata are those of a ticket without one.

// checkFilter says what is wrong with a ticket's filter before anything is read.
func (s *Server) checkFilter(ctx context.Context, snap *table.Snapshot, t *Ticket) error {
	if s.opts.Engine == nil {
		return fault.New(fault.Unsupported, "ticket: filter is not available without SQL; "+
			"read the columns it needs, then fetch the rows that match by position with rows")
	}
	return s.opts.Engine.CheckFilter(ctx, snap, t.Filter)
}

// openFiltered starts reading the rows that meet a ticket's filter. The reader
// ends with ctx.
func (s *Server) openFiltered(ctx context.Context, snap *table.Snapshot, t *Ticket, set settings) (array.RecordReader, error) {
	if err := s.checkFilter(ctx, snap, t); err != nil {
		return nil, err
	}
	sch, err := scanSchema(ctx, snap, t, set)
	if err != nil {
		return nil, err
	}
	more, stop := iter.Pull2(s.opts.Engine.Positions(ctx, FilterRequest{Snapshot: snap, Condition: t.Filter, Offset: t.Offset, Limit: t.Limit}))
	x := &filtered{server: s, ctx: ctx, snap: snap, set: set, more: more, columns: t.Columns}
	return newPull(sch, x.next, func() {
		x.forget()
		stop()
	}), nil
}

// filtered reads rows list by list.
type filtered struct {
	server  *Server
	ctx     context.Context //nolint:containedctx // the stream's, for its reader
	snap    *table.Snapshot
	columns []string
	set     settings
	more    func() ([]uint64, error, bool)
	rows    array.RecordReader
	sent    int64
}

func (x *filtered) next() (arrow.RecordBatch, error) {
	for {
		if x.rows != nil {
			if x.rows.Next() {
				b := x.rows.RecordBatch()
				b.Retain()
				return b, nil
			}
			if err := x.rows.Err(); err != nil {
				return nil, err
			}
			x.forget()
		}
		positions, err, ok := x.more()
		if !ok || err != nil {
			return nil, err
		}
		if len(positions) == 0 {
			continue
		}
		t := &Ticket{Columns: x.columns, Rows: positions}
		if x.rows, err = x.server.openFrom(x.ctx, x.snap, t, x.set, x.sent); err != nil {
			return nil, err
		}
		x.sent += int64(len(positions))
	}
}

func (x *filtered) forget() {
	if x.rows != nil {
		x.rows.Release()
		x.rows = nil
	}
}
