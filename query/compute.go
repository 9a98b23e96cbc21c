package query

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/query/engine"
	"github.com/flightblob/flightblob/query/statement"
	"github.com/flightblob/flightblob/schema"
)

// setting is a column and what it is set to.
type setting struct {
	field *schema.Field
	at    statement.Span // in the statement, for errors
	write func(*derived) // appends the expression
}

// assigned reads SET a = 1, b = 2.
func (c *Change) assigned(s *schema.Schema, list []statement.Assignment) ([]setting, error) {
	set := make([]setting, 0, len(list))
	for _, a := range list {
		f, err := fieldNamed(s, a.Column.Text)
		if err != nil {
			return nil, c.text.ErrorAt(a.Column.Span, "%s", err)
		}
		if slices.ContainsFunc(set, func(s setting) bool { return s.field == f }) {
			return nil, c.text.ErrorAt(a.Column.Span, "column %s is set twice", a.Column)
		}
		value, err := c.settingOf(f, a.Value, a.Default)
		if err != nil {
			return nil, err
		}
		set = append(set, value)
	}
	return set, nil
}

// settingOf sets a field to an expression of the statement. A bare parameter has
// the field's type.
func (c *Change) settingOf(f *schema.Field, value statement.Span, isDefault bool) (setting, error) {
	s := setting{field: f, at: value}
	front, back := "(", ")"
	if slices.ContainsFunc(c.text.Params, func(p statement.Param) bool { return p.Span == value }) {
		name, err := c.paramType(f)
		if err != nil {
			return s, err
		}
		front, back = "CAST(", " AS "+name+")"
	}
	s.write = func(d *derived) {
		if isDefault {
			d.add("NULL")
			return
		}
		d.add(front)
		d.keep(value)
		d.add(back)
	}
	return s, nil
}

// computed is a query whose columns are some keys, numbers by which rows are
// found, and behind them values for fields of a table in the types that these
// have in SQL.
type computed struct {
	fields []*schema.Field // of the values
	text   *derived        // of the query
	query  intoQuery
}

// compute makes a query; from appends where its rows come from.
func (c *Change) compute(ctx context.Context, keys []string, set []setting, from func(*derived)) (computed, error) {
	var out computed
	rows := c.derive()
	rows.add("SELECT " + strings.Join(keys, ", "))
	for i, s := range set {
		if i+len(keys) > 0 {
			rows.add(", ")
		}
		s.write(rows)
		out.fields = append(out.fields, s.field)
	}
	from(rows)
	if rows.err != nil {
		return out, rows.err
	}
	st, err := c.engine.Prepare(ctx, c.session, rows.String())
	if err != nil {
		return out, rows.place(err)
	}
	given := sourceColumns(st, len(keys)+len(set))
	out.query.payload = st.first.payload.Load()
	st.Close()

	names := make([]string, 0, len(given))
	out.text = &derived{of: rows.of, edits: rows.edits}
	out.text.add("SELECT ")
	for i := range keys {
		names = append(names, fmt.Sprintf("k%d", i))
		out.query.columns = append(out.query.columns, arrow.Field{Name: names[i], Type: arrow.PrimitiveTypes.Uint64, Nullable: true})
	}
	out.text.add(strings.Join(names, ", "))
	for i, s := range set {
		name := fmt.Sprintf("c%d", i)
		names = append(names, name)
		if i+len(keys) > 0 {
			out.text.add(", ")
		}
		if err := c.cast(&out, s, name, given[len(keys)+i]); err != nil {
			return out, err
		}
	}
	out.text.add(" FROM (")
	out.text.embed(rows)
	out.text.add(") AS s(" + strings.Join(names, ", ") + ")")
	out.query.text = out.text.String()
	if st, err = c.engine.prepare(ctx, c.session, out.query.text, &out.query); err != nil {
		return out, out.text.place(err)
	}
	defer st.Close()
	c.learn(st)
	return out, nil
}

// cast appends a column in the type that a field has in SQL.
func (c *Change) cast(out *computed, s setting, name string, given engine.Field) error {
	t, exact, err := storedType(s.field)
	if err != nil {
		return err
	}
	if err := c.fits(s.field, t, given.Type, s.at); err != nil {
		return err
	}
	fill := filling(t, given.Type)
	if special := ofInterval(name, exact.Type, given.Type); special != "" {
		out.text.stand(special+" AS "+name, s.at)
	} else if fill.String() != given.Type.String() || given.Type.Unknown() {
		out.text.stand("CAST("+name+" AS "+typeText(fill)+") AS "+name, s.at)
	} else {
		out.text.add(name)
	}
	field := intoField(exact, fill)
	field.Name, field.Nullable = s.field.Name, true
	out.query.columns = append(out.query.columns, field)
	return nil
}

// eachFound runs a query of a mutation, with one row of parameters.
// Blob columns come as references.
func (c *Change) eachFound(ctx context.Context, q *computed, params arrow.RecordBatch, row int, f func(arrow.RecordBatch) error) error {
	rows, end, err := c.rowsOf(ctx, q.text, &q.query, params, row)
	if err != nil {
		return err
	}
	defer end()
	n := 0
	for rows.Next() {
		if err := f(rows.RecordBatch()); err != nil {
			return err
		}
		n += int(rows.RecordBatch().NumRows())
	}
	var cell *cellError
	if err := rows.Err(); errors.As(err, &cell) { // of the batch that was to come next
		return fault.New(fault.Invalid, "query: column %s, row %d of those found: %s", cell.column, n+cell.row, cell.text)
	}
	return q.text.place(rows.Err())
}

// keysOf is a column of keys.
func keysOf(found arrow.RecordBatch, column int) ([]uint64, error) {
	a, ok := found.Column(column).(*array.Uint64)
	if !ok || a.NullN() > 0 {
		return nil, fault.New(fault.Internal, "query: row addresses come as %s", found.Column(column).DataType())
	}
	return a.Uint64Values(), nil
}
