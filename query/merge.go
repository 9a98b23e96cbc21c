package query

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/flightblob/flightblob/catalog"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/internal/spelling"
	"github.com/flightblob/flightblob/query/engine"
	"github.com/flightblob/flightblob/query/statement"
	"github.com/flightblob/flightblob/schema"
	"github.com/flightblob/flightblob/table"
)

// MERGE is a query for each of its clauses, over the same version. A clause takes
// the rows of its kind of match for which its condition holds and that of no
// clause of that kind before it:
//
//	WHEN MATCHED                FROM target JOIN source
//	WHEN NOT MATCHED            FROM source ANTI JOIN target
//	WHEN NOT MATCHED BY SOURCE  FROM target ANTI JOIN source

// mergeClause is one clause that does something.
type mergeClause struct {
	number int
	action statement.Action
	rows   *rewriting // of UPDATE; its computed alone for the others
	at     statement.Span
}

// mergeNames are by what columns are qualified, quoted.
type mergeNames struct {
	table         catalog.Name
	target        string
	source        string
	sourceColumns []engine.Field
}

// prepareMerge checks MERGE INTO.
func (c *Change) prepareMerge(ctx context.Context) error {
	m := c.text.Merge
	name, snapshot, err := c.existing(ctx)
	if err != nil {
		return err
	}
	c.session.gifts, c.columns = &gifts{}, snapshot.Schema()
	names := mergeNames{table: name, target: c.rowsAlias(m.Alias), source: engine.Quote(m.SourceName)}
	if err := c.prepareReturning(ctx, snapshot, names.target); err != nil {
		return err
	}
	if names.sourceColumns, err = c.mergeSource(ctx); err != nil {
		return err
	}
	var clauses []mergeClause
	for i := range m.When {
		clause, err := c.mergeClause(ctx, snapshot.Schema(), names, i)
		if err != nil {
			return err
		}
		if clause.action != statement.MergeNothing {
			clauses = append(clauses, clause)
		}
	}
	c.do = func(ctx context.Context, c *Change, params []arrow.RecordBatch) (Outcome, error) {
		for try := 1; ; try++ {
			o, err := c.merge(ctx, name, clauses, params)
			if !errors.Is(err, table.ErrNewRows) || try == mergeTries {
				return o, err
			}
		}
	}
	return nil
}

// mergeTries is how often a MERGE that inserts is run when others write rows
// meanwhile, which it would have to find.
const mergeTries = 20

// merge carries the statement out on the newest version.
func (c *Change) merge(ctx context.Context, name catalog.Name, clauses []mergeClause, params []arrow.RecordBatch) (Outcome, error) {
	rows := int64(0)
	o, err := c.mutate(ctx, name, func(m *table.Mutation) (table.MutationOptions, error) {
		o := table.MutationOptions{Unmatched: true}
		for _, clause := range clauses {
			n, err := c.runClause(ctx, m, clause, params)
			if err != nil {
				return o, err
			}
			rows += n
			o.Changed = append(o.Changed, clause.rows.changed...)
		}
		slices.Sort(o.Changed)
		o.Changed = slices.Compact(o.Changed)
		return o, nil
	})
	o.Rows = rows
	return o, err
}

// mergeSource gives the columns of the source.
func (c *Change) mergeSource(ctx context.Context) ([]engine.Field, error) {
	d := c.derive()
	d.add("SELECT * FROM ")
	d.keep(c.text.Merge.Source)
	d.add(" WHERE true")
	c.mention(d)
	if d.err != nil {
		return nil, d.err
	}
	st, err := c.engine.Prepare(ctx, c.session, d.String())
	if err != nil {
		return nil, d.place(err)
	}
	defer st.Close()
	return sourceColumns(st, 0), c.steady(ctx, d)
}

// steady refuses a source that would give each of several clauses other rows.
func (c *Change) steady(ctx context.Context, d *derived) error {
	if len(c.text.Merge.When) < 2 {
		return nil
	}
	return c.scope(ctx, func(r *run) error {
		t, err := r.parse(ctx, d.String())
		if err == nil && t.unsteady != "" {
			err = c.text.ErrorAt(c.text.Merge.Source, "the source has %s, and each clause would see other rows; store them first: CREATE TABLE … AS", t.unsteady)
		}
		return err
	})
}

// mergeClause makes the query of clause i.
func (c *Change) mergeClause(ctx context.Context, s *schema.Schema, names mergeNames, i int) (mergeClause, error) {
	when := &c.text.Merge.When[i]
	out := mergeClause{number: i, action: when.Action, at: when.Span, rows: &rewriting{}}
	from := func(d *derived) { c.clauseRows(d, names, i) }
	var set []setting
	var err error
	switch when.Action {
	case statement.MergeUpdate:
		if set, err = c.mergeUpdate(s, names, when); err == nil {
			out.rows, err = c.rewriting(ctx, s, names.target, set, from)
		}
	case statement.MergeInsert:
		if set, err = c.mergeInsert(s, names, when); err == nil {
			out.rows.computed, err = c.compute(ctx, nil, set, from)
		}
	case statement.MergeDelete:
		out.rows.computed, err = c.compute(ctx, []string{names.target + "." + identity[0]}, nil, from)
	default: // the rows of ERROR and DO NOTHING are counted
		out.rows.computed, err = c.compute(ctx, []string{"count(*)::UBIGINT"}, nil, from)
	}
	return out, err
}

// clauseRows appends where clause i finds its rows.
func (c *Change) clauseRows(d *derived, names mergeNames, i int) {
	m := c.text.Merge
	when := m.When[i]
	target := "lance_scan(" + literal(quoted(names.table)) + ", row_ids := true) AS " + names.target
	d.add(" FROM ")
	switch when.Match {
	case statement.NotMatched:
		d.keep(m.Source)
		d.add(" ANTI JOIN " + target)
	case statement.NotMatchedBySource:
		d.add(target + " ANTI JOIN ")
		d.keep(m.Source)
	default:
		d.add(target + " JOIN ")
		d.keep(m.Source)
	}
	if m.On.Empty() {
		d.add(" USING (")
		for n, part := range m.Using {
			if n > 0 {
				d.add(", ")
			}
			d.keep(part.Span)
		}
		d.add(")")
	} else {
		d.add(" ON (")
		d.keep(m.On)
		d.add(")")
	}
	d.add(" WHERE true")
	for _, earlier := range m.When[:i] {
		switch {
		case earlier.Match != when.Match:
		case earlier.Condition.Empty():
			d.add(" AND false")
		default:
			d.add(" AND NOT coalesce((")
			d.keep(earlier.Condition)
			d.add("), false)")
		}
	}
	if !when.Condition.Empty() {
		d.add(" AND (")
		d.keep(when.Condition)
		d.add(")")
	}
	c.mention(d)
}

// mention appends conditions that are always true to those of a query which has
// only a part of the statement: its parameters must be numbered without a gap.
func (c *Change) mention(d *derived) {
	has := map[int]bool{}
	for _, p := range c.text.Params {
		has[p.Index] = has[p.Index] || slices.ContainsFunc(d.parts, func(part derivedPart) bool {
			return !part.stands && part.from.Contains(p.Span)
		})
	}
	for n := range c.text.ParamCount() {
		if !has[n+1] {
			d.add(fmt.Sprintf(" AND ($%d IS NULL OR true)", n+1))
		}
	}
}

// mergeUpdate is what WHEN … THEN UPDATE sets.
func (c *Change) mergeUpdate(s *schema.Schema, names mergeNames, when *statement.WhenClause) ([]setting, error) {
	if when.Columns == statement.Listed {
		return c.assigned(s, when.Set)
	}
	if when.Match == statement.NotMatchedBySource {
		return nil, c.text.ErrorAt(when.Span, "a row that is not matched by the source has no source row: list what is SET")
	}
	return c.fromSource(s, names, when)
}

// mergeInsert is what WHEN NOT MATCHED THEN INSERT writes.
func (c *Change) mergeInsert(s *schema.Schema, names mergeNames, when *statement.WhenClause) ([]setting, error) {
	if when.Match != statement.NotMatched {
		return nil, c.text.ErrorAt(when.Span, "INSERT is for rows of the source that are not matched: WHEN NOT MATCHED")
	}
	switch when.Columns {
	case statement.Listed:
	case statement.Defaults:
		return c.nulls(s, when.Span, nil)
	default:
		set, err := c.fromSource(s, names, when)
		if err != nil {
			return nil, err
		}
		return c.nulls(s, when.Span, set)
	}
	fields, err := c.listed(s, when.Into)
	if err != nil {
		return nil, err
	}
	if len(fields) != len(when.Values) {
		return nil, c.text.ErrorAt(when.Span, "%d values for the %d columns of the table", len(when.Values), len(fields))
	}
	set := make([]setting, len(fields))
	for i, f := range fields {
		if set[i], err = c.settingOf(f, when.Values[i].Span, when.Values[i].Default); err != nil {
			return nil, err
		}
	}
	return c.nulls(s, when.Span, set)
}

// nulls refuses rows without a value for a column that must not be null. Of a row
// without any value the first column is written as null.
func (c *Change) nulls(s *schema.Schema, at statement.Span, set []setting) ([]setting, error) {
	for _, f := range s.Fields {
		if !f.Nullable && !slices.ContainsFunc(set, func(s setting) bool { return s.field == f }) {
			return nil, c.text.ErrorAt(at, "column %s must not be null and the clause gives it no value", statement.Quote(f.Name))
		}
	}
	if len(set) == 0 && len(s.Fields) > 0 {
		null, err := c.settingOf(s.Fields[0], at, true)
		return []setting{null}, err
	}
	return set, nil
}

// fromSource sets columns to those of the source: by name, or one after the other.
func (c *Change) fromSource(s *schema.Schema, names mergeNames, when *statement.WhenClause) ([]setting, error) {
	if c.text.Merge.SourceName == "" {
		return nil, c.text.ErrorAt(c.text.Merge.Source, "the source has no name by which its columns could be taken: give it an alias")
	}
	byName := when.Columns == statement.ByName
	if n := len(names.sourceColumns); !byName && n != len(s.Fields) {
		return nil, c.text.ErrorAt(when.Span, "the source has %d columns and the table %d: list them, or write BY NAME", n, len(s.Fields))
	}
	var set []setting
	for i, column := range names.sourceColumns {
		var f *schema.Field
		if byName {
			var err error
			if f, err = fieldNamed(s, column.Name); err != nil {
				return nil, c.text.ErrorAt(c.text.Merge.Source, "BY NAME: %s", err)
			}
		} else {
			f = s.Fields[i]
		}
		text := names.source + "." + engine.Quote(column.Name)
		set = append(set, setting{field: f, at: when.Span, write: func(d *derived) { d.stand(text, when.Span) }})
	}
	return set, nil
}

// runClause carries out one clause and answers how many rows it changed.
func (c *Change) runClause(ctx context.Context, m *table.Mutation, clause mergeClause, params []arrow.RecordBatch) (int64, error) {
	rows := int64(0)
	var writer *replacer
	var inserted *feed
	var err error
	switch clause.action {
	case statement.MergeUpdate:
		writer, err = c.newReplacer(m, clause.rows)
	case statement.MergeInsert:
		inserted = &feed{engine: c.engine, rows: "row %d of those inserted"}
		inserted.input, err = feedSchema(clause.rows.fields)
	}
	if err != nil {
		return 0, err
	}
	err = c.eachRow(params, func(params arrow.RecordBatch, row int) error {
		return c.eachFound(ctx, &clause.rows.computed, params, row, func(found arrow.RecordBatch) error {
			n := found.NumRows()
			switch clause.action {
			case statement.MergeError:
				return c.mergeError(found, clause)
			case statement.MergeInsert:
				rows += n
				return inserted.insert(ctx, m, found)
			case statement.MergeUpdate:
				replaced, err := writer.replace(ctx, found)
				rows += int64(replaced)
				return twice(err, int64(replaced), n)
			}
			addresses, err := keysOf(found, 0)
			if err != nil {
				return err
			}
			fresh, err := m.Delete(addresses)
			rows += int64(len(fresh))
			return twice(err, int64(len(fresh)), n)
		})
	})
	return rows, err
}

// twice refuses a row of the target that is changed more than once.
func twice(err error, fresh, found int64) error {
	if err == nil && fresh < found {
		return fault.New(fault.Invalid, "query: a row of the table is matched by more than one row of the source; make the keys of the source unique, as with SELECT DISTINCT ON")
	}
	return err
}

// mergeError is the failure of a statement that has rows for WHEN … THEN ERROR.
func (c *Change) mergeError(found arrow.RecordBatch, clause mergeClause) error {
	counts, err := keysOf(found, 0)
	if err != nil || len(counts) == 0 || counts[0] == 0 {
		return err
	}
	if message := c.text.Merge.When[clause.number].Message; !message.Empty() {
		return c.text.ErrorAt(message, "%s, of %s", message.Of(c.text.Text), spelling.Count(counts[0], "row"))
	}
	return c.text.ErrorAt(clause.at, "this clause forbids what %s would be", spelling.Count(counts[0], "row"))
}

// insert writes rows of a result as new ones of a mutation.
func (f *feed) insert(ctx context.Context, m *table.Mutation, batch arrow.RecordBatch) error {
	shaped, err := f.shaped(batch)
	if err != nil {
		return err
	}
	defer shaped.Release()
	if err := m.Insert(ctx, shaped, f.options(table.WriteOptions{})); err != nil {
		return f.numbered(err)
	}
	f.wrote += batch.NumRows()
	return nil
}
