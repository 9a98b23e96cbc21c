package query

import (
	"context"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/flightblob/flightblob/catalog"
	"github.com/flightblob/flightblob/query/engine"
	"github.com/flightblob/flightblob/query/statement"
	"github.com/flightblob/flightblob/table"
)

// A statement that changes rows becomes a query that finds them:
//
//	DELETE FROM t USING s WHERE t.a = s.a
//	SELECT "t"."_rowaddr" FROM lance_scan('t', row_ids := true) AS "t", s WHERE t.a = s.a

// prepareDelete checks DELETE.
func (c *Change) prepareDelete(ctx context.Context) error {
	d := c.text.Delete
	name, snapshot, err := c.existing(ctx)
	if err != nil {
		return err
	}
	alias := c.rowsAlias(d.Alias)
	if err := c.prepareReturning(ctx, snapshot, alias); err != nil {
		return err
	}
	rows := c.derive()
	rows.add("SELECT " + alias + "." + table.RowAddr)
	c.foundIn(rows, name, alias, d.Using, d.Where)
	if err := c.checkQuery(ctx, rows); err != nil {
		return err
	}
	if d.Using.Empty() && d.Where.Empty() {
		c.do = runTruncate(name)
		return nil
	}
	predicate := d.Where.Of(c.text.Text)
	c.do = func(ctx context.Context, c *Change, params []arrow.RecordBatch) (Outcome, error) {
		return c.mutate(ctx, name, func(m *table.Mutation) (table.MutationOptions, error) {
			err := c.eachRow(params, func(params arrow.RecordBatch, row int) error {
				return c.removeFound(ctx, m, rows, params, row)
			})
			return table.MutationOptions{Predicate: predicate}, err
		})
	}
	return nil
}

// prepareTruncate checks TRUNCATE.
func (c *Change) prepareTruncate(ctx context.Context) error {
	name, _, err := c.existing(ctx)
	if err != nil {
		return err
	}
	c.do = runTruncate(name)
	return nil
}

// runTruncate removes all rows without reading any.
func runTruncate(name catalog.Name) func(context.Context, *Change, []arrow.RecordBatch) (Outcome, error) {
	return func(ctx context.Context, c *Change, _ []arrow.RecordBatch) (Outcome, error) {
		return c.mutate(ctx, name, func(m *table.Mutation) (table.MutationOptions, error) {
			m.RemoveAll()
			return table.MutationOptions{Predicate: "true"}, nil
		})
	}
}

// mutate runs one mutation of the newest version of a table. It counts the rows
// that were removed. All queries of the mutation see the same versions: that one,
// and of other tables those that the first one to read them has seen.
func (c *Change) mutate(ctx context.Context, name catalog.Name, change func(*table.Mutation) (table.MutationOptions, error)) (Outcome, error) {
	t, err := c.engine.cat.Table(ctx, name)
	if err != nil {
		return Outcome{}, err
	}
	m, err := t.Mutate(ctx, c.session.Branch)
	if err != nil {
		return Outcome{}, err
	}
	defer m.Abort()
	if c.columns != nil && !sameFields(c.columns, m.Base().Schema()) {
		return Outcome{}, errColumns
	}
	c.read = []Pin{{Name: name, Ref: m.Base().Ref()}}
	if c.wrote != nil && (c.text.Delete != nil || c.text.Merge != nil) {
		if err := c.wrote.hold(ctx, m.Base()); err != nil {
			return Outcome{}, err
		}
	}
	o, err := change(m)
	if err != nil {
		return Outcome{}, err
	}
	snapshot, err := m.Commit(ctx, o)
	if err != nil {
		return Outcome{}, err
	}
	c.wrote.mutates(m, snapshot)
	return Outcome{Rows: int64(m.Removed()), Version: snapshot.Version()}, nil
}

// eachRow runs f for each row of parameters, once without parameters.
func (c *Change) eachRow(params []arrow.RecordBatch, f func(params arrow.RecordBatch, row int) error) error {
	if params == nil {
		return f(nil, 0)
	}
	all := int64(0)
	for _, batch := range params {
		for row := range int(batch.NumRows()) {
			if err := f(batch, row); err != nil {
				return fmt.Errorf("row %d of the parameters: %w", all, err)
			}
			all++
		}
	}
	return nil
}

// rowsAlias is by what the statement qualifies columns of its target.
func (c *Change) rowsAlias(alias statement.Part) string {
	if alias.Text == "" {
		return engine.Quote(c.text.Target.Last())
	}
	return engine.Quote(alias.Text)
}

// foundIn appends where a query finds the rows that a statement changes; from is
// the list of tables beside the target, as the statement has it.
func (c *Change) foundIn(d *derived, name catalog.Name, alias string, from, where statement.Span) {
	d.add(" FROM lance_scan(" + literal(quoted(name)) + ", row_ids := true) AS " + alias)
	if !from.Empty() {
		d.add(", ")
		d.keep(from)
	}
	if !where.Empty() {
		d.add(" WHERE ")
		d.keep(where)
	}
}

// checkQuery prepares a query made of the statement: that says what is wrong
// with its names and types, and which types the parameters have.
func (c *Change) checkQuery(ctx context.Context, d *derived) error {
	if d.err != nil {
		return d.err
	}
	st, err := c.engine.Prepare(ctx, c.session, d.String())
	if err != nil {
		return d.place(err)
	}
	defer st.Close()
	c.learn(st)
	return nil
}

// learn takes over the types of parameters that a query knows, by their numbers.
func (c *Change) learn(st *Statement) {
	if len(c.params) == 0 {
		c.params = openParams(c.text)
	}
	for i, p := range st.Params() {
		if i < len(c.params) && (!p.Open || c.params[i].Open) { // another query knows its type
			p.Name = c.params[i].Name
			c.params[i] = p
		}
	}
}

// rowsOf runs a query of a mutation with one row of parameters. Blob columns come
// as references.
func (c *Change) rowsOf(ctx context.Context, query *derived, into *intoQuery, params arrow.RecordBatch, row int) (_ *result, end func(), err error) {
	session := c.session
	session.Pins = c.read
	st, err := c.engine.prepare(ctx, session, query.String(), into)
	if err != nil {
		return nil, nil, query.place(err)
	}
	defer func() {
		if err != nil {
			st.Close()
			err = query.place(err)
		}
	}()
	for _, p := range st.Pins() {
		if !slices.ContainsFunc(c.read, func(known Pin) bool { return known.Name == p.Name }) {
			c.read = append(c.read, p)
		}
	}
	if params != nil {
		if err := st.bindAll(ctx, params, row); err != nil {
			return nil, nil, err
		}
	}
	rows, err := st.rows(ctx)
	if err != nil {
		return nil, nil, err
	}
	return rows, func() { rows.Release(); st.Close() }, nil
}

// removeFound removes the rows whose addresses a query answers.
func (c *Change) removeFound(ctx context.Context, m *table.Mutation, query *derived, params arrow.RecordBatch, row int) error {
	rows, end, err := c.rowsOf(ctx, query, nil, params, row)
	if err != nil {
		return err
	}
	defer end()
	for rows.Next() {
		addresses, err := keysOf(rows.RecordBatch(), 0)
		if err != nil {
			return err
		}
		if _, err := m.Delete(addresses); err != nil {
			return err
		}
	}
	return query.place(rows.Err())
}
