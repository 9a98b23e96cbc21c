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

// bindFilter reads a ticket's filter.
func (s *Server) bindFilter(ctx context.Context, snap *table.Snapshot, t *Ticket) (Filter, error) {
	if s.opts.Engine == nil {
		return nil, fault.New(fault.Unsupported, "ticket: filter is not available without SQL; "+
			"read the columns it needs, then fetch the rows that match by position with rows")
	}
	name, err := s.cat.Resolve([]string{t.Name.Catalog, t.Name.Schema, t.Name.Table})
	if err != nil {
		return nil, err
	}
	return s.opts.Engine.Filter(ctx, name, snap, t.Filter)
}

// checkFilter says what is wrong with a ticket's filter before anything is read.
func (s *Server) checkFilter(ctx context.Context, snap *table.Snapshot, t *Ticket) error {
	if t.Filter == "" {
		return nil
	}
	f, err := s.bindFilter(ctx, snap, t)
	if err != nil {
		return err
	}
	return f.Close()
}

// openFiltered starts reading the rows that meet a ticket's filter. The reader
// ends with ctx.
func (s *Server) openFiltered(ctx context.Context, snap *table.Snapshot, t *Ticket, set settings) (array.RecordReader, error) {
	f, err := s.bindFilter(ctx, snap, t)
	if err != nil {
		return nil, err
	}
	sch, err := scanSchema(ctx, snap, t, set)
	if err != nil {
		return nil, joined(err, f.Close())
	}
	more, stop := iter.Pull2(f.Positions(ctx))
	x := &filtered{
		server: s, ctx: ctx, snap: snap, set: set, more: more, skip: t.Offset, left: ^uint64(0),
		columns: t.Columns,
	}
	if t.Limit != nil {
		x.left = *t.Limit
	}
	return newPull(sch, x.next, func() {
		x.forget()
		stop()
		if err := f.Close(); err != nil {
			s.log.Warn("closing a filter", "error", s.redact.text(err.Error()))
		}
	}), nil
}

// joined keeps the first error.
func joined(err, also error) error {
	if err != nil {
		return err
	}
	return also
}

// filtered reads rows list by list.
type filtered struct {
	server  *Server
	ctx     context.Context //nolint:containedctx // the stream's, for its reader
	snap    *table.Snapshot
	columns []string
	set     settings
	more    func() ([]uint64, error, bool)
	skip    uint64 // rows still to leave out
	left    uint64 // rows still to send
	rows    array.RecordReader
	sent    uint64
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
		if x.left == 0 {
			return nil, nil
		}
		positions, err, ok := x.more()
		if !ok || err != nil {
			return nil, err
		}
		if err := x.open(positions); err != nil {
			return nil, err
		}
	}
}

// open starts reading the rows of one list.
func (x *filtered) open(positions []uint64) error {
	n := min(x.skip, uint64(len(positions)))
	positions, x.skip = positions[n:], x.skip-n
	positions = positions[:min(x.left, uint64(len(positions)))]
	if len(positions) == 0 {
		return nil
	}
	x.left -= uint64(len(positions))
	t := &Ticket{Columns: x.columns, Rows: append([]uint64(nil), positions...)}
	rows, err := x.server.openFrom(x.ctx, x.snap, t, x.set, int64(x.sent))
	x.rows, x.sent = rows, x.sent+uint64(len(positions))
	return err
}

func (x *filtered) forget() {
	if x.rows != nil {
		x.rows.Release()
		x.rows = nil
	}
}
