package query

import (
	"context"
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/query/engine"
	"github.com/flightblob/flightblob/query/statement"
	"github.com/flightblob/flightblob/schema"
)

// Param is a parameter of a statement.
type Param struct {
	Name string         // without $; the number of a positional one
	Type arrow.DataType // null when the statement leaves it open
}

// Statement is a prepared statement. Its methods are for one goroutine at a
// time; its results are independent of it.
type Statement struct {
	engine  *Engine
	session Session
	text    *statement.Statement
	sql     string // what the engine runs: AT clauses are calls of lance_scan

	first   *run // of Prepare, until it is used or closed
	plan    *plan
	params  []Param
	binding []any
	values  []string // the binding as SQL
	bound   bool
}

// plan is a statement as prepared on a run.
type plan struct {
	prepared *engine.Prepared
	columns  []resultColumn // nil until the types are known
	unknown  bool
	filled   bool      // values stand in its text
	counted  *relation // its rows are all that the statement counts
	pins     []Pin
}

// Prepare parses, checks and plans one statement: names, types, and what is done
// with blob columns are known afterwards, and no data has been read. Tables are
// those of this moment. Statements that change something are fault.Unsupported.
func (e *Engine) Prepare(ctx context.Context, s Session, text string) (*Statement, error) {
	parsed, err := statement.Parse(text)
	if err != nil {
		return nil, err
	}
	if !parsed.Kind.Reads() {
		return nil, fault.New(fault.Unsupported, "%s is not served by this server: it only reads", parsed.Kind)
	}
	st := &Statement{engine: e, session: s, text: parsed}
	if st.sql, err = rewriteAts(parsed); err != nil {
		return nil, err
	}
	ctx, cancel := e.withTimeout(ctx)
	defer cancel()
	st.first, st.plan, err = st.prepare(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range st.plan.prepared.Params() {
		st.params = append(st.params, Param{Name: p.Name, Type: paramType(p.Type)})
	}
	st.binding, st.values = make([]any, len(st.params)), make([]string, len(st.params))
	return st, nil
}

// rewriteAts turns t AT (VERSION => 3) into lance_scan('t', version := 3).
func rewriteAts(s *statement.Statement) (string, error) {
	edits := make([]statement.Edit, 0, len(s.Ats))
	for _, at := range s.Ats {
		if at.Literal.Kind == 0 || at.Literal.Kind == statement.Bound {
			return "", fault.New(fault.Invalid, "query: AT (%s => …) takes a number or text, not an expression or parameter: %q", at.Unit, at.Value.Of(s.Text))
		}
		argument := "version"
		value := at.Value.Of(s.Text)
		if at.Unit == statement.AtTimestamp {
			argument, value = "timestamp", "CAST("+value+" AS VARCHAR)"
		}
		edits = append(edits, at.Replace(s.Text, fmt.Sprintf("lance_scan(%s, %s := %s)", literal(at.Table.String()), argument, value)))
	}
	whole, err := statement.Rewrite(s.Text, edits...)
	if err != nil || len(edits) > 0 {
		return whole, err
	}
	return s.Span.Of(s.Text), nil
}

// prepare plans the statement on a new run.
func (s *Statement) prepare(ctx context.Context) (*run, *plan, error) {
	r, err := s.engine.newRun(ctx, s.session)
	if err != nil {
		return nil, nil, err
	}
	defer r.while(ctx)()
	p, err := s.on(ctx, r)
	if err != nil {
		r.close()
		return nil, nil, err
	}
	return r, p, nil
}

func (s *Statement) on(ctx context.Context, r *run) (*plan, error) {
	at := r.placeOf(s.sql)
	k := s.engine.recall.get(at)
	if k == nil {
		k = &known{}
	}
	tree, err := s.names(ctx, r, k.tree)
	if err != nil {
		return nil, r.explain(ctx, err)
	}
	found := k.findings
	p, err := s.again(ctx, r, found)
	if err != nil {
		return nil, err
	}
	learnt := p == nil
	if learnt {
		if p, found, err = s.anew(ctx, r, tree); err != nil {
			return nil, err
		}
	}
	if found != nil {
		if seen := r.lookAt(ctx, found.sight, s.sql); seen.looked != nil && found.sight.looked == nil {
			more := *found
			more.sight = seen
			found, learnt = &more, true
		}
	}
	if learnt && tree != nil && !tree.catalog {
		s.engine.recall.put(at, &known{tree, found})
	}
	r.mu.Lock()
	p.pins = append([]Pin(nil), r.pins...)
	r.mu.Unlock()
	return p, nil
}

// again prepares a statement of which all is known. It gives nil when that does
// not hold for the tables as they are now.
func (s *Statement) again(ctx context.Context, r *run, k *findings) (*plan, error) {
	if k == nil {
		return nil, nil
	}
	r.readLate(k.late, k.limit)
	prepared, err := r.conn.Prepare(ctx, s.sql)
	if err == nil {
		if types := prepared.Columns(); k.fits(r, types) {
			r.payload.Store(k.payload)
			return &plan{prepared: prepared, columns: k.columnsFor(r, types), counted: r.counted(k)}, nil
		}
		prepared.Close()
	}
	r.readLate(nil, false)
	return nil, context.Cause(ctx)
}

// anew prepares a statement and finds out about it.
func (s *Statement) anew(ctx context.Context, r *run, named *tree) (*plan, *findings, error) {
	p := &plan{}
	var err error
	if p.prepared, err = r.conn.Prepare(ctx, s.sql); err != nil {
		return nil, nil, r.missing(ctx, r.explain(ctx, err), named)
	}
	fail := func(err error) (*plan, *findings, error) {
		p.prepared.Close()
		return nil, nil, r.explain(ctx, err)
	}
	types := p.prepared.Columns()
	for _, c := range append(types, p.prepared.Params()...) {
		p.unknown = p.unknown || c.Type.Unknown()
	}
	if p.unknown { // the engine has no plan of open types
		return p, nil, nil
	}
	raw, err := p.prepared.Schema()
	if err != nil {
		return fail(err)
	}
	if s.text.Kind != statement.Select {
		if p.columns, err = resultColumns(raw, types, outputs{}); err != nil {
			return fail(err)
		}
		return p, nil, nil
	}
	a, found, err := r.analyse(ctx, s.sql)
	if err != nil {
		return fail(err)
	}
	if p.columns, err = resultColumns(raw, types, found); err != nil {
		return fail(err)
	}
	k := r.read(types, p.columns, found, a)
	k.sight.moves = r.moves(ctx, a.plan)
	r.payload.Store(k.payload)
	p.counted = r.counted(k)
	if err := r.postpone(ctx, p, s.sql, k); err != nil {
		return fail(err)
	}
	return p, k, nil
}

// names makes views for the tables that the statement names. What the parser
// said is given when it is known already.
func (s *Statement) names(ctx context.Context, r *run, t *tree) (*tree, error) {
	kind, query := s.text.Kind, s.sql
	if s.text.Explain != nil {
		kind = s.text.Explain.Kind
		query = s.mainText()
	}
	if kind == statement.Show {
		return nil, s.engine.views.all(ctx, s.text.Show != nil && s.text.Show.All)
	}
	if t == nil {
		var err error
		if t, err = r.parse(ctx, query); err != nil {
			return nil, err
		}
	}
	if t.catalog {
		if err := s.engine.views.all(ctx, true); err != nil {
			return nil, err
		}
	}
	for _, path := range t.tables {
		if err := s.engine.views.named(ctx, r, path); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// mainText is the statement behind EXPLAIN, rewritten as the whole is.
func (s *Statement) mainText() string {
	front := s.text.Text[s.text.Span.Start:s.text.Main.Start]
	if len(s.text.Ats) > 0 {
		front = s.text.Text[:s.text.Main.Start]
	}
	return strings.TrimRight(strings.TrimPrefix(s.sql, front), "; \t\r\n")
}

// Kind names the statement as SQL does.
func (s *Statement) Kind() string { return s.text.Kind.String() }

// IsUpdate says whether the protocol sends the statement as an update.
func (s *Statement) IsUpdate() bool { return s.text.IsUpdate() }

// Params lists the parameters in order.
func (s *Statement) Params() []Param { return s.params }

// Pins are the versions that the unpinned tables of the statement had when it
// was prepared. A Session with them sees the same.
func (s *Statement) Pins() []Pin { return s.plan.pins }

// Known says whether the types of the result are known: parameters can leave
// them open until values are bound.
func (s *Statement) Known() bool { return !s.plan.unknown }

// Schema is the schema of the result with blob columns in a face.
func (s *Statement) Schema(view schema.View) (*arrow.Schema, error) {
	if s.plan.unknown {
		return nil, fault.New(fault.Invalid, "query: the types of the result depend on the types of the parameters; give them with a cast, as in ?::BIGINT")
	}
	return schemaOf(s.plan.columns, view)
}

// Bind sets all parameters from a row of a record, column by column; a record
// whose columns have the names of the parameters is matched by name.
func (s *Statement) Bind(rec arrow.RecordBatch, row int) error {
	if int(rec.NumCols()) != len(s.params) {
		return fault.New(fault.Invalid, "query: %d values for the %d parameters of the statement", rec.NumCols(), len(s.params))
	}
	if row < 0 || int64(row) >= rec.NumRows() {
		return fault.New(fault.Invalid, "query: the parameters have no row %d", row)
	}
	for i, p := range s.params {
		at := i
		if found := rec.Schema().FieldIndices(p.Name); len(found) == 1 {
			at = found[0]
		}
		v, err := paramValue(rec.Column(at), row)
		if err != nil {
			return fault.New(fault.Invalid, "query: parameter %s, row %d: %w", p.Name, row, err)
		}
		s.binding[i] = v
		if s.values[i], err = paramLiteral(rec.Column(at), row); err != nil {
			return fault.New(fault.Invalid, "query: parameter %s, row %d: %w", p.Name, row, err)
		}
	}
	s.bound = true
	return nil
}

// Close forgets the statement; results live on.
func (s *Statement) Close() {
	if s.first != nil {
		s.plan.prepared.Close()
		s.first.close()
		s.first = nil
	}
}

// QueryOptions say how a result is wanted.
type QueryOptions struct { //nolint:revive // they are those of Statement.Query
	// View is the face of blob columns.
	View schema.View
	// BatchBytes and MaxValue are as in materialize.Options.
	BatchBytes int64
	MaxValue   int64
	// Map lends mapped bytes, as in materialize.Options.
	Map bool
	// AsPrepared reads the versions that Prepare saw. Otherwise the newest ones
	// are read; when the result would then have other columns, that is
	// fault.Precondition.
	AsPrepared bool
}

// Query starts the statement. The result is computed while it is read and ends
// with ctx.
func (s *Statement) Query(ctx context.Context, o QueryOptions) (array.RecordReader, error) {
	if len(s.params) > 0 && !s.bound {
		return nil, fault.New(fault.Invalid, "query: the statement has %d parameters and no values are bound", len(s.params))
	}
	ctx, cancel := s.engine.withTimeout(ctx)
	r, p, err := s.take(ctx, o.AsPrepared)
	if err != nil {
		cancel()
		return nil, err
	}
	res, err := s.start(ctx, r, p, o)
	if err != nil {
		p.prepared.Close()
		r.close()
		cancel()
		return nil, err
	}
	out, err := res.faced(o)
	if err != nil {
		cancel()
		return nil, err
	}
	return endingWith(out, cancel), nil
}

// take gives the run of Prepare once, else a new one.
func (s *Statement) take(ctx context.Context, asPrepared bool) (*run, *plan, error) {
	if asPrepared && s.first != nil && !s.plan.unknown {
		r := s.first
		s.first = nil
		return r, s.plan, nil
	}
	again := *s
	if s.plan.unknown {
		filled, err := s.filled()
		if err != nil {
			return nil, nil, err
		}
		again = *filled
	}
	if asPrepared {
		again.session.Pins = s.plan.pins
	}
	r, p, err := again.prepare(ctx)
	if err != nil {
		return nil, nil, err
	}
	p.filled = s.plan.unknown
	if !s.plan.unknown && !p.unknown {
		was, err := schemaOf(s.plan.columns, schema.Materialized)
		if err == nil {
			var is *arrow.Schema
			if is, err = schemaOf(p.columns, schema.Materialized); err == nil && !is.Equal(was) {
				err = fault.New(fault.Precondition, "query: a table of the statement has other columns than when it was prepared; prepare it again")
			}
		}
		if err != nil {
			p.prepared.Close()
			r.close()
			return nil, nil, err
		}
	}
	return r, p, nil
}

// filled is the statement with its values in the place of its parameters. The
// types of one that leaves them open, and what it does with blob columns, are
// known only then.
func (s *Statement) filled() (*Statement, error) {
	text := s.text.Text
	edits := make([]statement.Edit, 0, len(s.text.Params))
	for _, p := range s.text.Params {
		if p.Index > len(s.values) {
			return nil, fault.New(fault.Internal, "query: parameter %d of %d", p.Index, len(s.values))
		}
		edits = append(edits, statement.Edit{Span: p.Span, Text: s.values[p.Index-1]})
	}
	text, err := statement.Rewrite(text, edits...)
	if err != nil {
		return nil, err
	}
	parsed, err := statement.Parse(text)
	if err != nil {
		return nil, err
	}
	again := *s
	again.text, again.params, again.binding = parsed, nil, nil
	again.sql, err = rewriteAts(parsed)
	return &again, err
}
