package sqlengine

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/flightblob/flightblob/catalog"
	"github.com/flightblob/flightblob/flightsvc"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/query"
	"github.com/flightblob/flightblob/query/statement"
	"github.com/flightblob/flightblob/table"
)

// Filter implements flightsvc.Engine: the engine answers the addresses of the
// rows that meet the condition, which become positions here.
func (e *Engine) Filter(ctx context.Context, name catalog.Name, snap *table.Snapshot, condition string) (flightsvc.Filter, error) {
	condition, err := statement.CheckPredicate(condition)
	if err != nil {
		return nil, err
	}
	for _, f := range snap.Schema().Fields {
		if strings.EqualFold(f.Name, table.RowAddr) {
			return nil, fault.New(fault.Unsupported, "filter: the table has a column %s of its own; run a SELECT statement instead", f.Name)
		}
	}
	ref := snap.Ref()
	branch := ""
	if ref.Branch != "" {
		branch = ", branch := " + statement.QuoteString(ref.Branch)
	}
	full := statement.Quote(name.Catalog) + "." + statement.Quote(name.Schema) + "." + statement.Quote(name.Table)
	// The line break ends a comment in the condition.
	text := fmt.Sprintf("SELECT %s FROM lance_scan(%s, version := %d%s, row_ids := true) WHERE (%s\n)",
		table.RowAddr, statement.QuoteString(full), ref.Version, branch, condition)
	st, err := e.sql.Prepare(ctx, query.Session{Catalog: name.Catalog, Schema: name.Schema}, text)
	if err != nil {
		// The place it shows is one in a text that the client did not write.
		message, _, _ := strings.Cut(err.Error(), "\n\nLINE ")
		return nil, fault.New(fault.KindOf(err), "filter: %s", message)
	}
	return &filter{snap: snap, statement: st}, nil
}

type filter struct {
	snap      *table.Snapshot
	statement *query.Statement
}

// Close implements flightsvc.Filter.
func (f *filter) Close() error {
	f.statement.Close()
	return nil
}

// Positions implements flightsvc.Filter.
func (f *filter) Positions(ctx context.Context) iter.Seq2[[]uint64, error] {
	return func(yield func([]uint64, error) bool) {
		rows, err := f.statement.Query(ctx, query.QueryOptions{AsPrepared: true})
		if err != nil {
			yield(nil, err)
			return
		}
		defer rows.Release()
		p := newPlaces(f.snap)
		for rows.Next() {
			addresses, ok := rows.RecordBatch().Column(0).(*array.Uint64)
			if !ok || addresses.NullN() > 0 {
				yield(nil, fault.New(fault.Internal, "sqlengine: row addresses of type %s", rows.RecordBatch().Column(0).DataType()))
				return
			}
			positions, err := p.positions(ctx, addresses.Uint64Values())
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(positions, nil) {
				return
			}
		}
		if err := rows.Err(); err != nil {
			yield(nil, err)
		}
	}
}

// places turns addresses, fragment and row in it, into positions in scan order.
type places struct {
	snap  *table.Snapshot
	start map[uint64]fragment // by id
	last  int64

	// rows are the addresses of the live rows of a fragment with deletions.
	rows map[uint64][]uint64
}

type fragment struct {
	first, live uint64
	whole       bool // nothing is deleted: the row's number is its place
}

func newPlaces(snap *table.Snapshot) *places {
	p := &places{snap: snap, start: map[uint64]fragment{}, last: -1, rows: map[uint64][]uint64{}}
	at := uint64(0)
	m := snap.Manifest()
	for i := range m.Fragments {
		f := &m.Fragments[i]
		p.start[f.ID] = fragment{first: at, live: f.LiveRows(), whole: f.LiveRows() == f.PhysicalRows}
		at += f.LiveRows()
	}
	return p
}

// positions keeps the order of the scan, which the engine keeps; that is checked.
func (p *places) positions(ctx context.Context, addresses []uint64) ([]uint64, error) {
	out := make([]uint64, len(addresses))
	for i, a := range addresses {
		f, ok := p.start[a>>32]
		if !ok {
			return nil, fault.New(fault.Internal, "sqlengine: the engine answered a row of fragment %d, which the version does not have", a>>32)
		}
		at := a & 0xffffffff
		if !f.whole {
			var err error
			if at, err = p.live(ctx, a, f); err != nil {
				return nil, err
			}
		}
		out[i] = f.first + at
		if int64(out[i]) <= p.last {
			return nil, fault.New(fault.Internal, "sqlengine: the engine answered rows out of their order")
		}
		p.last = int64(out[i])
	}
	return out, nil
}

// live finds the place of an address among the live rows of its fragment.
func (p *places) live(ctx context.Context, address uint64, f fragment) (uint64, error) {
	rows := p.rows[address>>32]
	if rows == nil {
		var err error
		if rows, err = p.read(ctx, f); err != nil {
			return 0, err
		}
		clear(p.rows) // fragments come one after the other
		p.rows[address>>32] = rows
	}
	low, high := 0, len(rows)
	for low < high {
		if mid := (low + high) / 2; rows[mid] < address {
			low = mid + 1
		} else {
			high = mid
		}
	}
	if low == len(rows) || rows[low] != address {
		return 0, fault.New(fault.Internal, "sqlengine: the engine answered row address %d, which is deleted", address)
	}
	return uint64(low), nil
}

func (p *places) read(ctx context.Context, f fragment) ([]uint64, error) {
	scan, err := p.snap.Scan(ctx, table.ScanRequest{Columns: []string{table.RowAddr}, Offset: f.first, Limit: &f.live})
	if err != nil {
		return nil, err
	}
	defer scan.Release()
	rows := make([]uint64, 0, f.live)
	for scan.Next() {
		rows = append(rows, scan.RecordBatch().Column(0).(*array.Uint64).Uint64Values()...)
	}
	return rows, scan.Err()
}
