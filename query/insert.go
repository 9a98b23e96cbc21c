package query

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/flightblob/flightblob/catalog"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/query/engine"
	"github.com/flightblob/flightblob/query/statement"
	"github.com/flightblob/flightblob/schema"
	"github.com/flightblob/flightblob/table"
)

// insertion is an INSERT: one query on the engine whose columns have the types
// of the table, or the bound rows themselves.
//
//	INSERT INTO t (b, a) VALUES (?, 1)
//	SELECT CAST(c0 AS …), CAST(c1 AS …) FROM (VALUES (CAST($1 AS …), 1)) AS s(c0, c1)
type insertion struct {
	name    catalog.Name
	fields  []*schema.Field // those that are given, in the order of the source
	queries []intoQuery     // one after the other; several where rows differ in kind
	direct  []int           // for each field the parameter that is its value; nil when values are computed
}

// intoQuery is a query and what its columns become.
type intoQuery struct {
	text    string
	columns []arrow.Field // as conformed; nil leaves them the engine's
	payload bool          // its functions read blob values
}

func (c *Change) prepareInsert(ctx context.Context) error {
	ins := c.text.Insert
	c.do = runInsert
	if !ins.Returning.Empty() {
		return c.text.ErrorAt(ins.Returning, "RETURNING is refused: rows that are written are not sent back; select them afterwards")
	}
	name, snapshot, err := c.existing(ctx)
	if err != nil {
		return err
	}
	c.insert = &insertion{name: name}
	if !ins.ByName {
		if c.insert.fields, err = c.listed(snapshot.Schema(), ins.Columns); err != nil {
			return err
		}
	}
	sources, err := c.sources()
	if err != nil {
		return err
	}
	for _, source := range sources {
		q, err := c.into(ctx, snapshot.Schema(), source)
		if err != nil {
			return err
		}
		c.insert.queries = append(c.insert.queries, q)
	}
	if err := c.required(snapshot.Schema()); err != nil {
		return err
	}
	c.insert.direct = c.straight()
	return nil
}

// listed finds the fields of a column list; none means all.
func (c *Change) listed(s *schema.Schema, columns []statement.Part) ([]*schema.Field, error) {
	if len(columns) == 0 {
		return s.Fields, nil
	}
	out := make([]*schema.Field, len(columns))
	for i, part := range columns {
		f, err := fieldNamed(s, part.Text)
		if err != nil {
			return nil, c.text.ErrorAt(part.Span, "%s", err)
		}
		if slices.Contains(out[:i], f) {
			return nil, c.text.ErrorAt(part.Span, "column %s is listed twice", part)
		}
		out[i] = f
	}
	return out, nil
}

// fieldNamed finds a column as SQL compares names: exactly, else without case.
func fieldNamed(s *schema.Schema, name string) (*schema.Field, error) {
	var found *schema.Field
	var names []string
	for _, f := range s.Fields {
		if f.Name == name {
			return f, nil
		}
		if strings.EqualFold(f.Name, name) {
			found = f
		}
		names = append(names, statement.Quote(f.Name))
	}
	if found != nil {
		return found, nil
	}
	return nil, fault.New(fault.Invalid, "the table has no column %s; it has %s", statement.Quote(name), strings.Join(names, ", "))
}

// required refuses an INSERT that leaves out columns which must not be null.
func (c *Change) required(s *schema.Schema) error {
	for _, f := range s.Fields {
		if !f.Nullable && !slices.Contains(c.insert.fields, f) {
			return c.text.ErrorAt(c.text.Target.Span(), "column %s must not be null and the statement gives it no value", statement.Quote(f.Name))
		}
	}
	return nil
}

// sources gives the edits that make queries of the statement's source: one, or
// one for each row of VALUES where rows of a blob column may differ in kind, as
// bytes and blob_ref do.
func (c *Change) sources() ([][]statement.Edit, error) {
	ins := c.text.Insert
	edits := c.text.Numbered()
	if ins.Source.Empty() { // DEFAULT VALUES
		return [][]statement.Edit{nil}, nil
	}
	for _, d := range ins.Defaults {
		edits = append(edits, statement.Edit{Span: d, Text: "NULL"})
	}
	for n, row := range ins.Values {
		if want := len(c.insert.fields); len(row) != want {
			return nil, c.text.ErrorAt(ins.Rows[n], "row %d has %d values for %d columns: %s", n+1, len(row), want, c.fieldList())
		}
		for i, value := range row {
			for k, p := range c.text.Params {
				if p.Span == value { // its type is the column's
					name, err := c.paramType(c.insert.fields[i])
					if err != nil {
						return nil, err
					}
					edits[k].Text = "CAST(" + edits[k].Text + " AS " + name + ")"
				}
			}
		}
	}
	if len(ins.Rows) < 2 || !strings.Contains(strings.ToLower(ins.Source.Of(c.text.Text)), "blob_ref") {
		return [][]statement.Edit{edits}, nil
	}
	out := make([][]statement.Edit, len(ins.Rows))
	for i, row := range ins.Rows {
		out[i] = append(slices.Clone(edits),
			statement.Edit{Span: statement.Span{Start: ins.Source.Start, End: row.Start}, Text: "VALUES "},
			statement.Edit{Span: statement.Span{Start: row.End, End: ins.Source.End}})
	}
	return out, nil
}

func (c *Change) fieldList() string {
	names := make([]string, len(c.insert.fields))
	for i, f := range c.insert.fields {
		names[i] = f.Name
	}
	return strings.Join(names, ", ")
}

// paramType is the engine's type of a bare parameter that fills a field. Blobs
// come as bytes.
func (c *Change) paramType(f *schema.Field) (string, error) {
	t, _, err := storedType(f)
	if err != nil {
		return "", err
	}
	return typeText(filling(t, &engine.Type{})), nil
}

// source is the query in the place of the whole statement.
func (c *Change) source(edits []statement.Edit, front, back string) (string, error) {
	ins := c.text.Insert
	if ins.Source.Empty() {
		return front + "SELECT" + strings.Repeat(" NULL,", len(c.insert.fields)-1) + " NULL" + back, nil
	}
	return statement.Rewrite(c.text.Text, append(slices.Clone(edits),
		statement.Edit{Span: statement.Span{Start: c.text.Main.Start, End: ins.Source.Start}, Text: front},
		statement.Edit{Span: statement.Span{Start: ins.Source.End, End: c.text.Span.End}, Text: back})...)
}

// into makes the query that gives a source the types of the table.
func (c *Change) into(ctx context.Context, s *schema.Schema, edits []statement.Edit) (intoQuery, error) {
	var q intoQuery
	text, err := c.source(edits, "", "")
	if err != nil {
		return q, err
	}
	st, err := c.engine.Prepare(ctx, c.session, text)
	if err != nil {
		return q, err
	}
	given := st.plan.prepared.Columns()
	q.payload = st.first.payload.Load()
	st.Close()
	if c.text.Insert.ByName {
		if err := c.byName(s, given); err != nil {
			return q, err
		}
	}
	fields := c.insert.fields
	if len(given) != len(fields) {
		return q, c.text.ErrorAt(c.text.Insert.Source, "the query has %d columns for the %d of the table: %s", len(given), len(fields), c.fieldList())
	}
	var list, names []string
	for i, f := range fields {
		name := fmt.Sprintf("c%d", i)
		names = append(names, name)
		t, exact, err := storedType(f)
		if err != nil {
			return q, err
		}
		if err := c.fits(f, t, given[i].Type); err != nil {
			return q, err
		}
		fill := filling(t, given[i].Type)
		if fill.String() != given[i].Type.String() || given[i].Type.Unknown() {
			name = "CAST(" + name + " AS " + typeText(fill) + ") AS " + name
		}
		list = append(list, name)
		field := intoField(exact, fill)
		field.Name, field.Nullable = f.Name, true
		q.columns = append(q.columns, field)
	}
	q.text, err = c.source(edits, "SELECT "+strings.Join(list, ", ")+" FROM (", ") AS s("+strings.Join(names, ", ")+")")
	if err != nil {
		return q, err
	}
	st, err = c.engine.prepare(ctx, c.session, q.text, &q)
	if err != nil {
		return q, err
	}
	defer st.Close()
	if len(c.params) == 0 {
		c.params = openParams(c.text)
	}
	for i, p := range st.Params() {
		if i < len(c.params) {
			p.Name = c.params[i].Name
			c.params[i] = p
		}
	}
	return q, nil
}

// fits refuses columns that no cast makes a field's: what is no value of bytes
// in the place of a blob.
func (c *Change) fits(f *schema.Field, t, given *engine.Type) error {
	if !t.IsReference() || given.IsReference() || given.Unknown() {
		return nil
	}
	switch given.ID {
	case engine.TypeBlob, engine.TypeVarchar, engine.TypeNull, engine.TypeInteger: // INTEGER is what NULL alone is
		return nil
	}
	return c.text.ErrorAt(c.text.Insert.Source, "blob column %s takes BLOB values, blob columns and blob_ref(…), not %s", f.FullName(), given)
}

// byName matches the columns of a query with those of the table by name.
func (c *Change) byName(s *schema.Schema, given []engine.Field) error {
	c.insert.fields = nil
	for _, g := range given {
		f, err := fieldNamed(s, g.Name)
		if err != nil {
			return c.text.ErrorAt(c.text.Insert.Source, "BY NAME: %s", err)
		}
		if slices.Contains(c.insert.fields, f) {
			return c.text.ErrorAt(c.text.Insert.Source, "BY NAME: the query has two columns %s", statement.Quote(f.Name))
		}
		c.insert.fields = append(c.insert.fields, f)
	}
	return nil
}

// straight says which parameter is the value of each field, if the source is one
// row of bare parameters.
func (c *Change) straight() []int {
	ins := c.text.Insert
	if len(ins.Values) != 1 || !c.text.With.Empty() {
		return nil
	}
	out := make([]int, len(ins.Values[0]))
	for i, value := range ins.Values[0] {
		at := slices.IndexFunc(c.text.Params, func(p statement.Param) bool { return p.Span == value })
		if at < 0 {
			return nil
		}
		out[i] = c.text.Params[at].Index - 1
	}
	return out
}

func runInsert(ctx context.Context, c *Change, params []arrow.RecordBatch) (Outcome, error) {
	t, err := c.engine.cat.Table(ctx, c.insert.name)
	if err != nil {
		return Outcome{}, err
	}
	if c.insert.direct != nil && len(params) > 0 {
		if o, done, err := c.runDirect(ctx, t, params); done || err != nil {
			return o, err
		}
	}
	input, err := logicalSchema(c.insert.fields)
	if err != nil {
		return Outcome{}, err
	}
	a, err := t.Append(ctx, "", input, table.WriteOptions{})
	if err != nil {
		return Outcome{}, err
	}
	defer a.Abort()
	if params == nil {
		if err := c.runRow(ctx, nil, 0, a, input); err != nil {
			return Outcome{}, err
		}
	}
	all := int64(0)
	for _, batch := range params {
		for row := range int(batch.NumRows()) {
			if err := c.runRow(ctx, batch, row, a, input); err != nil {
				return Outcome{}, fmt.Errorf("row %d of the parameters: %w", all, err)
			}
			all++
		}
	}
	return committed(ctx, a)
}

// runRow runs the statement with one row of parameters.
func (c *Change) runRow(ctx context.Context, params arrow.RecordBatch, row int, a *table.Appender, input *arrow.Schema) error {
	for n, q := range c.insert.queries {
		err := c.runInto(ctx, q, params, row, a, input)
		if err != nil && len(c.insert.queries) > 1 {
			err = fmt.Errorf("row %d of VALUES: %w", n+1, err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func committed(ctx context.Context, a *table.Appender) (Outcome, error) {
	snapshot, err := a.Commit(ctx)
	if err != nil {
		return Outcome{}, err
	}
	return Outcome{Rows: int64(a.Rows()), Version: snapshot.Version()}, nil
}

// runInto runs a query with one row of parameters and writes what it gives.
func (c *Change) runInto(ctx context.Context, q intoQuery, params arrow.RecordBatch, row int, a *table.Appender, input *arrow.Schema) error {
	st, err := c.engine.prepare(ctx, c.session, q.text, &q)
	if err != nil {
		return err
	}
	defer st.Close()
	if params != nil {
		if err := st.bindAll(ctx, params, row); err != nil {
			return err
		}
	}
	rows, err := st.Query(ctx, QueryOptions{View: schema.Logical, AsPrepared: true})
	if err != nil {
		return err
	}
	defer rows.Release()
	return writeAll(ctx, rows, a, func(b arrow.RecordBatch) (arrow.RecordBatch, error) { return asLogical(b, input) })
}

// runDirect writes bound rows as they are, if they are of types that the table
// takes.
func (c *Change) runDirect(ctx context.Context, t *table.Table, params []arrow.RecordBatch) (Outcome, bool, error) {
	first := boundRows(params[0], c.insert.fields, c.insert.direct)
	defer first.Release()
	a, err := t.Append(ctx, "", first.Schema(), table.WriteOptions{})
	if err != nil {
		if fault.KindOf(err) == fault.Invalid { // other types: by way of the engine's casts
			return Outcome{}, false, nil
		}
		return Outcome{}, false, err
	}
	defer a.Abort()
	for _, p := range params {
		batch := boundRows(p, c.insert.fields, c.insert.direct)
		err := a.Write(ctx, batch)
		batch.Release()
		if err != nil {
			return Outcome{}, false, err
		}
	}
	o, err := committed(ctx, a)
	return o, true, err
}
