package query

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/query/statement"
	"github.com/flightblob/flightblob/schema"
	"github.com/flightblob/flightblob/table"
)

// RETURNING answers the rows that a statement wrote, as the version has them that
// it made, or those that DELETE removed, as they were. The list is a query over
// these rows alone:
//
//	UPDATE t SET a = a + 1 WHERE id > 3 RETURNING id, a
//	SELECT id, a FROM flightblob_rows('0') AS "t"
//
// That of MERGE is one for each action that may occur, with the action's name in
// the place of merge_action.

// returning is the list of a statement that answers rows.
type returning struct {
	parts   []returnedPart
	columns []resultColumn
}

// returnedPart is the query for the rows of one action.
type returnedPart struct {
	action statement.Action // of MERGE, else 0
	text   *derived
}

// wrote are the rows of a statement that was carried out, by what was done.
type wrote struct {
	written, inserted, updated, deleted *excerpt

	free func() // of the version that deleted rows are read from; nil for none
}

// hold keeps the version that rows are deleted from until they are read: cleanups
// may follow the commit at once.
func (w *wrote) hold(ctx context.Context, s *table.Snapshot) (err error) {
	w.release()
	w.free, err = s.Table().Hold(ctx, s)
	return err
}

// release ends that.
func (w *wrote) release() {
	if w.free != nil {
		w.free()
		w.free = nil
	}
}

// actions are those of MERGE in the order in which their rows are answered.
var actions = []statement.Action{statement.MergeUpdate, statement.MergeInsert, statement.MergeDelete}

// prepareReturning checks the list behind RETURNING of a statement whose target
// is known by alias.
func (c *Change) prepareReturning(ctx context.Context, snapshot *table.Snapshot, alias string) error {
	list := c.text.Returning()
	if list.Empty() {
		return nil
	}
	for _, p := range c.text.Params {
		if list.Contains(p.Span) {
			return c.text.ErrorAt(p.Span, "parameters have no place in RETURNING, which is about rows of all of them")
		}
	}
	r := &returning{}
	used := []statement.Action{0}
	if m := c.text.Merge; m != nil {
		used = nil
		for _, a := range actions {
			if slices.ContainsFunc(m.When, func(w statement.WhenClause) bool { return w.Action == a }) {
				used = append(used, a)
			}
		}
		if used == nil { // nothing is ever answered
			used = []statement.Action{statement.MergeUpdate}
		}
	}
	for _, action := range used {
		d := &derived{of: c.text, edits: c.text.Numbered()}
		if action != 0 {
			d.edits = append(d.edits, c.text.Merge.ActionNames(action)...)
		}
		d.add("SELECT ")
		d.keep(list)
		d.add(" FROM " + excerptCall(0, false) + " AS " + alias)
		if d.err != nil {
			return d.err
		}
		r.parts = append(r.parts, returnedPart{action, d})
	}
	session := c.session
	session.gifts, session.excerpts = nil, []*excerpt{fragmentsOf(snapshot, func(uint64) bool { return true })}
	d := r.parts[0].text
	st, err := c.engine.Prepare(ctx, session, d.String())
	if err != nil {
		return d.place(err)
	}
	defer st.Close()
	r.columns = st.plan.columns
	scope := *c
	scope.session = session
	var a *analysis
	if err := scope.scope(ctx, func(on *run) (err error) {
		a, _, err = on.analyse(ctx, d.String())
		return err
	}); err != nil {
		return d.place(err)
	}
	if !ofEachRow(a.plan) {
		return c.text.ErrorAt(list, "RETURNING takes expressions over one row: aggregates, windows and queries have no place in it; select from the table afterwards")
	}
	c.returning = r
	return nil
}

// ofEachRow says whether a plan computes expressions of each row of a scan, and
// nothing else.
func ofEachRow(n object) bool {
	children := objects(n["children"])
	switch text(n["type"]) {
	case "LOGICAL_GET":
		return len(children) == 0
	case "LOGICAL_PROJECTION":
		return len(children) == 1 && ofEachRow(children[0])
	}
	return false
}

// Returns says whether the statement answers the rows that it changes.
func (c *Change) Returns() bool { return c.returning != nil }

// Returned is the schema of these rows with blob columns in a face.
func (c *Change) Returned(view schema.View) (*arrow.Schema, error) {
	return schemaOf(c.returning.columns, view)
}

// Return is Run for a statement that answers the rows that it changes. They are
// read while the answer is, after the commit: an error in them takes nothing back.
func (c *Change) Return(ctx context.Context, params []arrow.RecordBatch, o QueryOptions) (array.RecordReader, Outcome, error) {
	c.wrote = &wrote{}
	out, err := c.Run(ctx, params)
	var want *arrow.Schema
	if err == nil {
		want, err = c.Returned(o.View)
	}
	if err != nil {
		c.wrote.release()
		return nil, out, err
	}
	all := &returned{schema: want, wrote: c.wrote}
	all.refs.Store(1)
	for _, p := range c.returning.parts {
		rows := c.wrote.of(p.action)
		if rows == nil || rows.rows == 0 {
			continue
		}
		session := c.session
		session.gifts, session.Pins, session.excerpts = nil, nil, []*excerpt{rows}
		all.parts = append(all.parts, func() (array.RecordReader, error) {
			st, err := c.engine.Prepare(ctx, session, p.text.String())
			if err != nil {
				return nil, p.text.place(err)
			}
			defer st.Close()
			o.AsPrepared = true
			return st.Query(ctx, o)
		})
	}
	return all, out, nil
}

func (w *wrote) of(action statement.Action) *excerpt {
	switch action {
	case statement.MergeUpdate:
		return w.updated
	case statement.MergeInsert:
		return w.inserted
	case statement.MergeDelete:
		return w.deleted
	}
	return w.written
}

// inserts notes the rows that an INSERT wrote, which are the last of a version.
func (w *wrote) inserts(s *table.Snapshot, rows uint64) {
	if w != nil {
		w.written = lastRows(s, []table.Written{{Rows: rows}}, func(table.Written) bool { return true })
	}
}

// mutates notes what a mutation did.
func (w *wrote) mutates(m *table.Mutation, s *table.Snapshot) {
	if w == nil {
		return
	}
	all := m.Written()
	w.updated = lastRows(s, all, func(x table.Written) bool { return x.Moved })
	w.inserted = lastRows(s, all, func(x table.Written) bool { return !x.Moved })
	rows, _ := m.Deleted()
	w.deleted = &excerpt{snapshot: m.Base(), rows: rows, requests: func() func(context.Context) (*table.ScanRequest, error) {
		_, next := m.Deleted()
		return func(ctx context.Context) (*table.ScanRequest, error) {
			positions, err := next(ctx)
			if err != nil || len(positions) == 0 {
				return nil, err
			}
			return &table.ScanRequest{Rows: positions}, nil
		}
	}}
	if w.written = w.updated; rows > 0 {
		w.written = w.deleted
	}
}

// lastRows is an excerpt of some of the rows that stand at the end of a version.
func lastRows(s *table.Snapshot, all []table.Written, want func(table.Written) bool) *excerpt {
	first := s.Rows()
	for _, w := range all {
		first -= w.Rows
	}
	var parts []span
	for _, w := range all {
		if want(w) {
			parts = append(parts, span{first, w.Rows})
		}
		first += w.Rows
	}
	return spansOf(s, parts)
}

// returned are the rows of several queries, one after the other.
type returned struct {
	refs    atomic.Int64
	schema  *arrow.Schema
	wrote   *wrote
	parts   []func() (array.RecordReader, error)
	current array.RecordReader
	err     error
}

func (r *returned) Schema() *arrow.Schema { return r.schema }

// Next implements array.RecordReader.
func (r *returned) Next() bool {
	for r.err == nil {
		if r.current != nil {
			if r.current.Next() {
				return true
			}
			r.err = r.current.Err()
			r.current.Release()
			r.current = nil
			continue
		}
		if len(r.parts) == 0 {
			return false
		}
		r.current, r.err = r.parts[0]()
		r.parts = r.parts[1:]
		if r.err == nil && !sameShown(r.current.Schema(), r.schema) {
			r.err = fault.New(fault.Internal, "query: RETURNING gives %s, and was to give %s", r.current.Schema(), r.schema)
		}
	}
	return false
}

func sameShown(a, b *arrow.Schema) bool {
	return slices.EqualFunc(a.Fields(), b.Fields(), func(a, b arrow.Field) bool {
		return a.Name == b.Name && a.Nullable == b.Nullable && arrow.TypeEqual(a.Type, b.Type)
	})
}

// RecordBatch implements array.RecordReader.
func (r *returned) RecordBatch() arrow.RecordBatch {
	if r.current == nil {
		return nil
	}
	return r.current.RecordBatch()
}

// Record implements array.RecordReader.
func (r *returned) Record() arrow.RecordBatch { return r.RecordBatch() }

// Err implements array.RecordReader.
func (r *returned) Err() error { return r.err }

// Retain implements array.RecordReader.
func (r *returned) Retain() { r.refs.Add(1) }

// Release implements array.RecordReader.
func (r *returned) Release() {
	if r.refs.Add(-1) > 0 {
		return
	}
	if r.current != nil {
		r.current.Release()
		r.current = nil
	}
	r.wrote.release()
}
