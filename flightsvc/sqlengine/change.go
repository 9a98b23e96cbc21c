package sqlengine

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/flightblob/flightblob/flightsvc"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/query"
	"github.com/flightblob/flightblob/schema"
)

// change is a statement that changes something.
type change struct {
	engine  *Engine
	session query.Session
	text    string
	planned *query.Change
	params  *arrow.Schema
}

// update is a change that answers a count.
type update struct{ *change }

var (
	_ flightsvc.Statement = (*change)(nil)
	_ flightsvc.Updater   = update{}
)

// prepareChange prepares a statement that does not read.
func (e *Engine) prepareChange(ctx context.Context, session query.Session, text string) (flightsvc.Statement, error) {
	planned, err := e.sql.PrepareChange(ctx, session, text)
	if err != nil {
		return nil, err
	}
	c := &change{engine: e, session: session, text: text, planned: planned, params: paramsOf(planned.Params())}
	if planned.IsUpdate() {
		return update{c}, nil
	}
	return c, nil
}

// Kind implements flightsvc.Statement.
func (c *change) Kind() string { return c.planned.Kind() }

// IsUpdate implements flightsvc.Statement.
func (c *change) IsUpdate() bool { return c.planned.IsUpdate() }

// Params implements flightsvc.Statement.
func (c *change) Params() *arrow.Schema { return c.params }

// PlainScan implements flightsvc.Statement.
func (c *change) PlainScan() (flightsvc.PlainScan, bool) { return flightsvc.PlainScan{}, false }

// Schema implements flightsvc.Statement.
func (c *change) Schema(context.Context, schema.View, arrow.RecordBatch) (*arrow.Schema, error) {
	return c.planned.Answers(), nil
}

// Query implements flightsvc.Statement: it carries out what answers a row.
func (c *change) Query(ctx context.Context, params arrow.RecordBatch, row int, _ flightsvc.QueryOptions) (array.RecordReader, error) {
	if c.planned.Answers() == nil {
		return nil, fault.New(fault.Internal, "%s answers no rows", c.Kind())
	}
	var bound []arrow.RecordBatch
	if params != nil && params.NumCols() > 0 {
		one := params.NewSlice(int64(row), int64(row)+1)
		defer one.Release()
		bound = []arrow.RecordBatch{one}
	}
	done, err := c.planned.Run(ctx, bound)
	if err != nil {
		return nil, err
	}
	defer done.Answer.Release()
	return array.NewRecordReader(c.planned.Answers(), []arrow.RecordBatch{done.Answer})
}

// Update implements flightsvc.Updater.
func (u update) Update(ctx context.Context, params []arrow.RecordBatch) (flightsvc.Updated, error) {
	done, err := u.planned.Run(ctx, params)
	if done.Answer != nil {
		done.Answer.Release()
	}
	return flightsvc.Updated{Rows: done.Rows, Version: done.Version, Notice: done.Notice}, err
}

// Again implements flightsvc.Statement.
func (c *change) Again(ctx context.Context) (flightsvc.Statement, error) {
	return c.engine.prepareChange(ctx, c.session, c.text)
}

// Close implements flightsvc.Statement.
func (c *change) Close() error { return nil }
