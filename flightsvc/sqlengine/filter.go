package sqlengine

import (
	"context"
	"iter"

	"github.com/flightblob/flightblob/flightsvc"
	"github.com/flightblob/flightblob/query"
	"github.com/flightblob/flightblob/schema"
	"github.com/flightblob/flightblob/table"
)

// CheckFilter implements flightsvc.Engine.
func (e *Engine) CheckFilter(ctx context.Context, snap *table.Snapshot, condition string) error {
	_, err := e.sql.FilterSchema(ctx, query.FilterRequest{Snapshot: snap, Predicate: condition, Columns: []string{}}, schema.Descriptor)
	return err
}

// Positions implements flightsvc.Engine.
func (e *Engine) Positions(ctx context.Context, req flightsvc.FilterRequest) iter.Seq2[[]uint64, error] {
	return e.sql.Positions(ctx, query.FilterRequest{Snapshot: req.Snapshot, Predicate: req.Condition, Offset: req.Offset, Limit: req.Limit})
}
