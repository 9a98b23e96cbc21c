// Package sqlengine lets the front door run SQL by package query: it turns the
// one's statements into the other's. It holds what lies between the two and
// nothing else: parameters by position, types that are open until values are
// bound, statements that are plain scans, filters as positions.
package sqlengine

import (
	"context"
	"errors"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/flightblob/flightblob/catalog"
	"github.com/flightblob/flightblob/flightsvc"
	"github.com/flightblob/flightblob/query"
	"github.com/flightblob/flightblob/query/statement"
	"github.com/flightblob/flightblob/schema"
	"github.com/flightblob/flightblob/table"
)

// Engine is a flightsvc.Engine.
type Engine struct {
	cat *catalog.Catalog
	sql *query.Engine
}

// New makes one of an engine over the same catalog. The engine stays the
// caller's to close.
func New(cat *catalog.Catalog, sql *query.Engine) *Engine { return &Engine{cat, sql} }

var _ flightsvc.Engine = (*Engine)(nil)

// Prepare implements flightsvc.Engine.
func (e *Engine) Prepare(ctx context.Context, ns flightsvc.Namespace, text string) (flightsvc.Statement, error) {
	parsed, err := statement.Parse(text)
	if err != nil {
		return nil, err
	}
	session := query.Session{Catalog: ns.Catalog, Schema: ns.Schema, Branch: ns.Branch}
	if !parsed.Kind.Reads() {
		return e.prepareChange(ctx, session, text)
	}
	planned, err := e.sql.Prepare(ctx, session, text)
	if err != nil {
		return nil, err
	}
	st := &stmt{engine: e, kind: planned.Kind(), parsed: parsed, planned: planned}
	st.pins = planned.Pins()
	st.params = paramsOf(planned.Params())
	st.plain, st.isPlain = e.plainScan(ctx, st)
	return st, nil
}

// paramsOf describes the parameters; those of which nothing is known are text.
func paramsOf(params []query.Param) *arrow.Schema {
	if len(params) == 0 {
		return nil
	}
	fields := make([]arrow.Field, len(params))
	for i, p := range params {
		fields[i] = arrow.Field{Name: p.Name, Type: p.Type, Nullable: true}
		if p.Type.ID() == arrow.NULL {
			fields[i].Type = arrow.BinaryTypes.String
		}
		if p.Open {
			fields[i].Metadata = flightsvc.OpenParam
		}
	}
	return arrow.NewSchema(fields, nil)
}

// stmt is a statement that reads.
type stmt struct {
	engine  *Engine
	kind    string
	parsed  *statement.Statement
	planned *query.Statement
	params  *arrow.Schema
	pins    []query.Pin
	plain   flightsvc.PlainScan
	isPlain bool

	// bound are the parameters whose values planned has.
	bound arrow.RecordBatch
	row   int
}

var _ flightsvc.Statement = (*stmt)(nil)

// Kind implements flightsvc.Statement.
func (s *stmt) Kind() string { return s.kind }

// IsUpdate implements flightsvc.Statement.
func (s *stmt) IsUpdate() bool { return false }

// Params implements flightsvc.Statement.
func (s *stmt) Params() *arrow.Schema { return s.params }

// PlainScan implements flightsvc.Statement.
func (s *stmt) PlainScan() (flightsvc.PlainScan, bool) { return s.plain, s.isPlain }

// Snapshots implements flightsvc.Statement.
func (s *stmt) Snapshots() []*table.Snapshot { return s.planned.Snapshots() }

// Schema implements flightsvc.Statement.
func (s *stmt) Schema(ctx context.Context, view schema.View, params arrow.RecordBatch) (*arrow.Schema, error) {
	if params != nil && s.params != nil {
		if err := s.bind(ctx, params, min(int(params.NumRows())-1, 0)); err != nil {
			return nil, err
		}
	}
	sch, err := s.planned.Schema(view)
	if errors.Is(err, query.ErrOpen) {
		err = open{err}
	}
	return sch, err
}

// open is an error that is also flightsvc.ErrOpen.
type open struct{ error }

func (o open) Unwrap() error { return o.error }

func (open) Is(target error) bool { return target == flightsvc.ErrOpen }

// Query implements flightsvc.Statement.
func (s *stmt) Query(ctx context.Context, params arrow.RecordBatch, row int, o flightsvc.QueryOptions) (array.RecordReader, error) {
	if params != nil && s.params != nil {
		if err := s.bind(ctx, params, row); err != nil {
			return nil, err
		}
		s.bound = nil // it may change with the next
	}
	return s.planned.Query(ctx, queryOptions(o))
}

func queryOptions(o flightsvc.QueryOptions) query.QueryOptions {
	return query.QueryOptions{
		View: o.View, BatchBytes: o.Materialize.BatchBytes, MaxValue: o.Materialize.MaxValue,
		Map: o.Materialize.Map, AsPrepared: true,
	}
}

// bind gives the statement a row of parameters, unless it has that one already.
func (s *stmt) bind(ctx context.Context, params arrow.RecordBatch, row int) error {
	if s.bound == params && s.row == row {
		return nil
	}
	named := s.inOrder(params)
	defer named.Release()
	if err := s.planned.Bind(ctx, named, row); err != nil {
		return err
	}
	s.bound, s.row = params, row
	return nil
}

// inOrder gives parameters the names that the statement has for them, by
// position, since clients name them as they like. Only where all names are
// those of the statement's named parameters do they go by name.
func (s *stmt) inOrder(params arrow.RecordBatch) arrow.RecordBatch {
	n := s.params.NumFields()
	fields, columns := make([]arrow.Field, n), make([]arrow.Array, n)
	byName := s.parsed.Params[0].Name != ""
	for _, f := range s.params.Fields() {
		byName = byName && len(params.Schema().FieldIndices(f.Name)) == 1
	}
	for i, f := range s.params.Fields() {
		at := i
		if byName {
			at = params.Schema().FieldIndices(f.Name)[0]
		}
		columns[i] = params.Column(at)
		fields[i] = arrow.Field{Name: f.Name, Type: columns[i].DataType(), Nullable: true}
	}
	return array.NewRecordBatch(arrow.NewSchema(fields, nil), columns, params.NumRows())
}

// Again implements flightsvc.Statement.
func (s *stmt) Again(ctx context.Context) (flightsvc.Statement, error) {
	planned, err := s.planned.Again(ctx)
	if err != nil {
		return nil, err
	}
	return &stmt{
		engine: s.engine, kind: s.kind, parsed: s.parsed, planned: planned,
		params: s.params, pins: s.pins, plain: s.plain, isPlain: s.isPlain,
	}, nil
}

// Close implements flightsvc.Statement.
func (s *stmt) Close() error {
	s.planned.Close()
	s.bound = nil
	return nil
}
