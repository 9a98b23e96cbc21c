package sqlengine

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/flightblob/flightblob/flightsvc"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/query"
	"github.com/flightblob/flightblob/schema"
	"github.com/flightblob/flightblob/table"
)

// change is a statement that changes something and answers rows.
type change struct {
	engine  *Engine
	session query.Session
	text    string
	planned *query.Change
	params  *arrow.Schema
}

// update is a change that answers a count.
type update struct{ *change }

// returning is a change whose rows are those that it changes: who asks for it as
// an update gets their number.
type returning struct{ update }

var (
	_ flightsvc.Statement = (*change)(nil)
	_ flightsvc.Changer   = (*change)(nil)
	_ flightsvc.Updater   = update{}
	_ flightsvc.Changer   = returning{}
)

// prepareChange prepares a statement that does not read.
func (e *Engine) prepareChange(ctx context.Context, session query.Session, text string) (flightsvc.Statement, error) {
	planned, err := e.sql.PrepareChange(ctx, session, text)
	if err != nil {
		return nil, err
	}
	c := &change{engine: e, session: session, text: text, planned: planned, params: paramsOf(planned.Params())}
	switch {
	case planned.Returns():
		return returning{update{c}}, nil
	case planned.IsUpdate():
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

// Snapshots implements flightsvc.Statement; what a change reads is chosen when it
// is carried out.
func (c *change) Snapshots() []*table.Snapshot { return nil }

// Schema implements flightsvc.Statement.
func (c *change) Schema(_ context.Context, view schema.View, _ arrow.RecordBatch) (*arrow.Schema, error) {
	if c.planned.Returns() {
		return c.planned.Returned(view)
	}
	return c.planned.Answers(), nil
}

// Query implements flightsvc.Statement. What changes something is no query: it is
// carried out once, by Change.
func (c *change) Query(context.Context, arrow.RecordBatch, int, flightsvc.QueryOptions) (array.RecordReader, error) {
	return nil, fault.New(fault.Internal, "%s is no query", c.Kind())
}

// Change implements flightsvc.Changer.
func (c *change) Change(ctx context.Context, params []arrow.RecordBatch, o flightsvc.QueryOptions) (array.RecordReader, error) {
	if c.planned.Returns() {
		rows, _, err := c.planned.Return(ctx, params, queryOptions(o))
		return rows, err
	}
	if c.params == nil {
		params = []arrow.RecordBatch{nil}
	}
	var answers []arrow.RecordBatch
	defer func() {
		for _, a := range answers {
			a.Release()
		}
	}()
	for _, batch := range params { // each row is a call of its own
		rows := int64(1)
		if batch != nil {
			rows = batch.NumRows()
		}
		for row := range rows {
			var bound []arrow.RecordBatch
			if batch != nil {
				bound = []arrow.RecordBatch{batch.NewSlice(row, row+1)}
			}
			done, err := c.planned.Run(ctx, bound)
			for _, b := range bound {
				b.Release()
			}
			if err != nil {
				return nil, err
			}
			answers = append(answers, done.Answer)
		}
	}
	return array.NewRecordReader(c.planned.Answers(), answers)
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
