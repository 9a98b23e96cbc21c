// Package sqlengine lets the front door run SQL by package query: it turns the
// one's statements into the other's. It holds what lies between the two and
// nothing else: parameters by position, types that are open until values are
// bound, statements that are plain scans, filters as positions.
package sqlengine

import (
	"context"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/flightblob/flightblob/catalog"
	"github.com/flightblob/flightblob/flightsvc"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/query"
	"github.com/flightblob/flightblob/query/statement"
	"github.com/flightblob/flightblob/schema"
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

// Prepare implements flightsvc.Engine. Statements that change something are
// described, not planned.
func (e *Engine) Prepare(ctx context.Context, ns flightsvc.Namespace, text string) (flightsvc.Statement, error) {
	parsed, err := statement.Parse(text)
	if err != nil {
		return nil, err
	}
	if !parsed.Kind.Reads() {
		return &change{kind: parsed.Kind.String(), update: parsed.IsUpdate(), params: openParams(parsed)}, nil
	}
	session := query.Session{Catalog: ns.Catalog, Schema: ns.Schema}
	planned, err := e.sql.Prepare(ctx, session, text)
	if err != nil {
		return nil, err
	}
	st := &stmt{engine: e, session: session, text: text, kind: planned.Kind(), parsed: parsed, planned: planned}
	st.pins = planned.Pins()
	st.params = paramsOf(parsed, planned)
	st.plain, st.isPlain = e.plainScan(ctx, st)
	return st, nil
}

// paramsOf describes the parameters; those whose type is open are text.
func paramsOf(parsed *statement.Statement, planned *query.Statement) *arrow.Schema {
	params := planned.Params()
	if len(params) == 0 {
		return nil
	}
	fields := make([]arrow.Field, len(params))
	for i, p := range params {
		fields[i] = arrow.Field{Name: p.Name, Type: p.Type, Nullable: true}
		if isOpen(p) {
			fields[i].Type = arrow.BinaryTypes.String
		}
	}
	return arrow.NewSchema(fields, nil)
}

func isOpen(p query.Param) bool { return p.Type == nil || p.Type.ID() == arrow.NULL }

// stmt is a statement that reads.
type stmt struct {
	engine  *Engine
	session query.Session
	text    string
	kind    string
	parsed  *statement.Statement
	planned *query.Statement // nil once closed
	params  *arrow.Schema
	pins    []query.Pin
	plain   flightsvc.PlainScan
	isPlain bool

	// typed is the statement with its open parameters cast to the types that were
	// bound, which are given by key.
	typed *query.Statement
	key   string
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

// Schema implements flightsvc.Statement.
func (s *stmt) Schema(view schema.View, params *arrow.Schema) (*arrow.Schema, error) {
	st, err := s.with(context.Background(), params)
	if err != nil {
		return nil, err
	}
	return st.Schema(view)
}

// Query implements flightsvc.Statement.
func (s *stmt) Query(ctx context.Context, params arrow.RecordBatch, row int, o flightsvc.QueryOptions) (array.RecordReader, error) {
	var types *arrow.Schema
	if params != nil {
		types = params.Schema()
	}
	st, err := s.with(ctx, types)
	if err != nil {
		return nil, err
	}
	if params != nil && s.params != nil {
		named := s.inOrder(params)
		defer named.Release()
		if err := st.Bind(named, row); err != nil {
			return nil, err
		}
	}
	return st.Query(ctx, query.QueryOptions{
		View: o.View, BatchBytes: o.Materialize.BatchBytes, MaxValue: o.Materialize.MaxValue,
		Map: o.Materialize.Map, AsPrepared: true,
	})
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
	session := s.session
	session.Pins = s.pins
	planned, err := s.engine.sql.Prepare(ctx, session, s.text)
	if err != nil {
		return nil, err
	}
	return &stmt{
		engine: s.engine, session: session, text: s.text, kind: s.kind, parsed: s.parsed, planned: planned,
		params: s.params, pins: s.pins, plain: s.plain, isPlain: s.isPlain,
	}, nil
}

// Close implements flightsvc.Statement.
func (s *stmt) Close() error {
	for _, st := range []*query.Statement{s.planned, s.typed} {
		if st != nil {
			st.Close()
		}
	}
	s.typed = nil
	return nil
}

// with is the statement for parameters of some types. Where the planner leaves
// the type of a parameter open, the result's types depend on it: such parameters
// are cast to the types that are bound, text when none are.
func (s *stmt) with(ctx context.Context, types *arrow.Schema) (*query.Statement, error) {
	if s.planned.Known() {
		return s.planned, nil
	}
	edits := s.parsed.Numbered()
	key := ""
	for i, p := range s.planned.Params() {
		if !isOpen(p) {
			continue
		}
		var dt arrow.DataType = arrow.BinaryTypes.String
		if types != nil && i < types.NumFields() {
			dt = types.Field(i).Type
		}
		name, err := castName(dt)
		if err != nil {
			return nil, fault.New(fault.Invalid, "query: parameter %s: %w", p.Name, err)
		}
		key += name + ","
		for n, use := range s.parsed.Params {
			if use.Index == i+1 {
				edits[n].Text = " CAST(" + edits[n].Text + " AS " + name + ") "
			}
		}
	}
	if s.typed != nil && s.key == key {
		return s.typed, nil
	}
	text, err := statement.Rewrite(s.parsed.Text, edits...)
	if err != nil {
		return nil, err
	}
	session := s.session
	session.Pins = s.pins
	typed, err := s.engine.sql.Prepare(ctx, session, text)
	if err != nil {
		return nil, err
	}
	if s.typed != nil {
		s.typed.Close()
	}
	s.typed, s.key = typed, key
	return typed, nil
}

// castName is the SQL type that holds all values of a parameter's type.
func castName(t arrow.DataType) (string, error) {
	switch t := t.(type) {
	case arrow.DecimalType:
		if t.GetPrecision() <= 38 && t.GetScale() >= 0 && t.GetScale() <= t.GetPrecision() {
			return "DECIMAL(" + itoa(t.GetPrecision()) + "," + itoa(t.GetScale()) + ")", nil
		}
		return "VARCHAR", nil
	case *arrow.TimestampType:
		switch {
		case t.TimeZone != "":
			return "TIMESTAMP WITH TIME ZONE", nil
		case t.Unit == arrow.Nanosecond:
			return "TIMESTAMP_NS", nil
		}
		return "TIMESTAMP", nil
	}
	if name, ok := castNames[t.ID()]; ok {
		return name, nil
	}
	return "", fault.New(fault.Invalid, "a value of type %s cannot be bound; send it as text", t)
}

var castNames = map[arrow.Type]string{
	arrow.NULL: "INTEGER", arrow.BOOL: "BOOLEAN",
	arrow.INT8: "TINYINT", arrow.INT16: "SMALLINT", arrow.INT32: "INTEGER", arrow.INT64: "BIGINT",
	arrow.UINT8: "UTINYINT", arrow.UINT16: "USMALLINT", arrow.UINT32: "UINTEGER", arrow.UINT64: "UBIGINT",
	arrow.FLOAT16: "FLOAT", arrow.FLOAT32: "FLOAT", arrow.FLOAT64: "DOUBLE",
	arrow.STRING: "VARCHAR", arrow.LARGE_STRING: "VARCHAR",
	arrow.BINARY: "BLOB", arrow.LARGE_BINARY: "BLOB", arrow.FIXED_SIZE_BINARY: "BLOB",
	arrow.DATE32: "DATE", arrow.DATE64: "DATE", arrow.TIME32: "TIME", arrow.TIME64: "TIME", arrow.DURATION: "INTERVAL",
}

// change is a statement that would change something. It is known by its outline.
type change struct {
	kind   string
	update bool
	params *arrow.Schema
}

var _ flightsvc.Statement = (*change)(nil)

// openParams describes parameters of which nothing but their number is known.
func openParams(parsed *statement.Statement) *arrow.Schema {
	n := parsed.ParamCount()
	if n == 0 {
		return nil
	}
	fields := make([]arrow.Field, n)
	for i := range fields {
		fields[i] = arrow.Field{Name: itoa(i + 1), Type: arrow.BinaryTypes.String, Nullable: true}
		at := slices.IndexFunc(parsed.Params, func(p statement.Param) bool { return p.Index == i+1 })
		if at >= 0 && parsed.Params[at].Name != "" {
			fields[i].Name = parsed.Params[at].Name
		}
	}
	return arrow.NewSchema(fields, nil)
}

// Kind implements flightsvc.Statement.
func (c *change) Kind() string { return c.kind }

// IsUpdate implements flightsvc.Statement.
func (c *change) IsUpdate() bool { return c.update }

// Params implements flightsvc.Statement.
func (c *change) Params() *arrow.Schema { return c.params }

// PlainScan implements flightsvc.Statement.
func (c *change) PlainScan() (flightsvc.PlainScan, bool) { return flightsvc.PlainScan{}, false }

// Schema implements flightsvc.Statement.
func (c *change) Schema(schema.View, *arrow.Schema) (*arrow.Schema, error) {
	if c.update {
		return nil, nil
	}
	return nil, c.refused()
}

// Query implements flightsvc.Statement.
func (c *change) Query(context.Context, arrow.RecordBatch, int, flightsvc.QueryOptions) (array.RecordReader, error) {
	return nil, c.refused()
}

func (c *change) refused() error {
	return fault.New(fault.Unsupported, "%s: this server only reads", c.kind)
}

// Again implements flightsvc.Statement.
func (c *change) Again(context.Context) (flightsvc.Statement, error) { return c, nil }

// Close implements flightsvc.Statement.
func (c *change) Close() error { return nil }
