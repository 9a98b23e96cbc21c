package query

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/internal/spelling"
	"github.com/flightblob/flightblob/query/engine"
	"github.com/flightblob/flightblob/query/statement"
	"github.com/flightblob/flightblob/schema"
	"github.com/flightblob/flightblob/table"
)

// Param is a parameter of a statement.
type Param struct {
	Name string         // without $; the number of a positional one
	Type arrow.DataType // null when nothing is known of it
	// Open says that the statement leaves the type to the value that is bound;
	// Type is then one with which the statement can be planned.
	Open bool
}

// Statement is a prepared statement. Its methods are for one goroutine at a
// time; its results are independent of it.
type Statement struct {
	engine  *Engine
	session Session
	text    *statement.Statement
	sql     string           // what the engine runs, see compose
	edits   []statement.Edit // that made it of the text
	into    *intoQuery       // set for a query that feeds a write

	first *run // of Prepare, until it is used or closed
	plan  *plan

	params   []Param
	inferred []*engine.Type // of the parameters
	guesses  []string       // casts with which an open statement can be planned; nil = none are known
	casts    []string       // the types that parameters are cast to without being so in the text; "" = none
	numbers  []int          // parameters by the engine's numbers, nil when those are the same
	binding  []any

	bound  *Statement            // what runs with the values of Bind: the statement or one of others
	others map[string]*Statement // this one with types for its parameters, by those
	filled *Statement            // this one with values in the place of its parameters
}

// plan is a statement as prepared on a run.
type plan struct {
	prepared *engine.Prepared
	columns  []resultColumn // nil until the types are known
	unknown  bool
	counted  *relation // its rows are all that the statement counts
	pins     []Pin
	read     []*table.Snapshot
}

// Prepare parses, checks and plans one statement: names, types, and what is done
// with blob columns are known afterwards, and no data has been read. Tables are
// those of this moment. Statements that change something are fault.Unsupported.
func (e *Engine) Prepare(ctx context.Context, s Session, text string) (*Statement, error) {
	return e.prepare(ctx, s, text, nil)
}

// prepare is Prepare; into is set for a query that feeds a write, whose misuses of
// blob columns were looked for before.
func (e *Engine) prepare(ctx context.Context, s Session, text string, into *intoQuery) (*Statement, error) {
	parsed, err := statement.Parse(text)
	if err != nil {
		return nil, err
	}
	if !parsed.Kind.Reads() {
		return nil, fault.New(fault.Unsupported, "%s is not served by this server: it only reads", parsed.Kind)
	}
	st := &Statement{engine: e, session: s, text: parsed, into: into}
	ctx, cancel := e.withTimeout(ctx)
	defer cancel()
	if err := st.begin(ctx, parsed.Numbered(), false); err != nil {
		return nil, err
	}
	if err := st.describeParams(ctx); err != nil {
		st.Close()
		return nil, err
	}
	return st, nil
}

// Again prepares the same statement anew, over the versions that this one read.
// It may be called while this one is in use, and after Close.
func (s *Statement) Again(ctx context.Context) (*Statement, error) {
	ctx, cancel := s.engine.withTimeout(ctx)
	defer cancel()
	st := &Statement{
		engine: s.engine, session: s.session, text: s.text, sql: s.sql, edits: s.edits, into: s.into, params: s.params, inferred: s.inferred, casts: s.casts, guesses: s.guesses,
	}
	st.session.Pins = s.plan.pins
	var err error
	st.first, st.plan, err = st.prepare(ctx)
	if err != nil {
		return nil, err
	}
	return st, nil
}

// begin writes the text that the engine runs and plans it.
func (s *Statement) begin(ctx context.Context, params []statement.Edit, latest bool) error {
	r, err := s.engine.newRun(ctx, s.session)
	if err != nil {
		return err
	}
	defer r.while(ctx)()
	if s.sql, s.edits, err = r.compose(ctx, s.text, params, latest); err == nil {
		s.plan, err = s.on(ctx, r)
	}
	if err != nil {
		r.close()
		return s.place(err)
	}
	s.first = r
	return nil
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
		return nil, nil, s.place(err)
	}
	return r, p, nil
}

func (s *Statement) on(ctx context.Context, r *run) (*plan, error) {
	at := r.placeOf(s.sql)
	k := s.engine.recall.get(at)
	if k == nil || s.into != nil || len(s.session.excerpts) > 0 { // what an excerpt is the text does not say
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
	if learnt && tree != nil && !r.listing && s.into == nil && len(s.session.excerpts) == 0 {
		s.engine.recall.put(at, &known{tree, found})
	}
	s.name(p.columns)
	r.mu.Lock()
	p.pins = append([]Pin(nil), r.pins...)
	p.read = slices.Collect(maps.Values(r.snapshots))
	r.mu.Unlock()
	return p, nil
}

// again prepares a statement of which all is known. It gives nil when that does
// not hold for the tables as they are now.
func (s *Statement) again(ctx context.Context, r *run, k *findings) (*plan, error) {
	if k == nil {
		return nil, nil
	}
	r.readLate(k.late, k.few)
	prepared, err := r.conn.Prepare(ctx, s.sql)
	if err == nil {
		if types := prepared.Columns(); k.fits(r, types) {
			r.payload.Store(k.payload)
			r.first = k.first
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
	for _, c := range types {
		p.unknown = p.unknown || c.Type.Open()
	}
	if p.unknown { // the engine has no plan of open types
		return p, nil, nil
	}
	raw, err := p.prepared.Schema()
	if err != nil {
		return fail(err)
	}
	if s.into != nil {
		r.payload.Store(s.into.payload)
		if p.columns, err = s.into.resultColumns(raw, types); err != nil {
			return fail(err)
		}
		return p, nil, nil
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
	r.first = k.first
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
		if err := s.engine.listing.all(ctx, s.text.Show != nil && s.text.Show.All); err != nil {
			return nil, err
		}
		return nil, r.list(ctx, &tree{})
	}
	if t == nil {
		var err error
		if t, err = r.parse(ctx, query); err != nil {
			var p *engine.Placed
			if errors.As(err, &p) {
				p.Offset += len(s.sql) - len(query)
			}
			return nil, err
		}
	}
	if only, err := r.lists(ctx, t); only || err != nil {
		if err == nil {
			err = r.list(ctx, t)
		}
		return t, err
	}
	for _, path := range t.tables {
		if err := s.engine.views.named(ctx, r, path); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// mainText is the statement behind EXPLAIN, composed as the whole is.
func (s *Statement) mainText() string {
	return strings.TrimPrefix(s.sql, s.text.Text[s.text.Span.Start:s.text.Main.Start])
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

// Snapshots are all versions that the statement reads.
func (s *Statement) Snapshots() []*table.Snapshot { return s.plan.read }

// Known says whether the types of the result are known: parameters can leave
// them open until values are bound.
func (s *Statement) Known() bool { return !s.plan.unknown || s.bound != nil && !s.bound.plan.unknown }

// Schema is the schema of the result with blob columns in a face: with the
// values that are bound, else with the types of Params. It is fault.Invalid when
// the result depends on values and none are bound.
func (s *Statement) Schema(view schema.View) (*arrow.Schema, error) {
	from := s
	switch {
	case s.bound != nil:
		from = s.bound
	case s.plan.unknown && s.others[guessed] != nil:
		from = s.others[guessed]
	}
	if from.plan.unknown {
		return nil, fault.New(fault.Invalid, "query: the result depends on the values of the parameters: %w", ErrOpen)
	}
	return schemaOf(from.plan.columns, view)
}

// ErrOpen is the reason why a statement has no schema before values are bound.
var ErrOpen = errors.New("bind values, or give their types with a cast, as in ?::BIGINT")

// Close forgets the statement; results live on.
func (s *Statement) Close() {
	if s.first != nil {
		s.plan.prepared.Close()
		s.first.close()
		s.first = nil
	}
	for _, o := range s.others {
		o.Close()
	}
	if s.filled != nil {
		s.filled.Close()
	}
	s.bound, s.others, s.filled = nil, nil, nil
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
	if len(s.params) > 0 && s.bound == nil {
		return nil, fault.New(fault.Invalid, "query: the statement has %s and no values are bound", spelling.Count(len(s.params), "parameter"))
	}
	if s.bound != nil {
		s = s.bound
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
	if asPrepared && s.first != nil {
		r := s.first
		s.first = nil
		return r, s.plan, nil
	}
	again := *s
	if asPrepared {
		again.session.Pins = s.plan.pins
	}
	r, p, err := again.prepare(ctx)
	if err != nil {
		return nil, nil, err
	}
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
	return r, p, nil
}
