package query

import (
	"context"
	"errors"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/query/engine"
	"github.com/flightblob/flightblob/query/statement"
	"github.com/flightblob/flightblob/schema"
	"github.com/flightblob/flightblob/table"
	"github.com/flightblob/flightblob/table/manifest"
)

// creation is CREATE TABLE, with columns or with a query.
type creation struct {
	settings *table.Settings
	columns  *arrow.Schema // nil when a query says, or parameters
	query    string
}

func (c *Change) prepareCreate(ctx context.Context) error {
	cr := c.text.Create
	c.create, c.do = &creation{}, runCreate
	if len(cr.Settings) > 0 {
		var err error
		if c.create.settings, err = c.settings(cr.Settings); err != nil {
			return err
		}
	}
	if c.text.Kind == statement.CreateTableAs {
		return c.prepareCreateAs(ctx)
	}
	var err error
	c.create.columns, err = c.declared(ctx, cr.Columns)
	return err
}

// declared gives the Arrow schema of column definitions: the engine reads the
// types, as those of nulls.
func (c *Change) declared(ctx context.Context, defs []statement.ColumnDef) (*arrow.Schema, error) {
	casts := make([]string, len(defs))
	seen := map[string]bool{}
	for i, d := range defs {
		key := strings.ToLower(d.Name.Text)
		if seen[key] {
			return nil, c.text.ErrorAt(d.Name.Span, "there are two columns %s", d.Name)
		}
		seen[key] = true
		casts[i] = "CAST(NULL AS " + d.Type.Of(c.text.Text) + ") AS " + engine.Quote(d.Name.Text)
	}
	read := func(casts []string) (*arrow.Schema, error) {
		st, err := c.engine.prepare(ctx, c.session, "SELECT "+strings.Join(casts, ", "), &intoQuery{})
		if err != nil {
			return nil, err
		}
		defer st.Close()
		return st.Schema(schema.Logical)
	}
	s, err := read(casts)
	if err != nil {
		for i, d := range defs { // which one?
			if _, one := read(casts[i : i+1]); one != nil {
				return nil, c.text.ErrorAt(d.Type, "the type of column %s: %s", d.Name, withoutPlace(one))
			}
		}
		return nil, err
	}
	fields := s.Fields()
	for i, d := range defs {
		fields[i].Nullable = !d.NotNull
	}
	return arrow.NewSchema(fields, nil), nil
}

// withoutPlace cuts the place off an error of the engine, which is one of a text
// that nobody wrote.
func withoutPlace(err error) string {
	text, _, _ := strings.Cut(err.Error(), "\n\nLINE ")
	return strings.TrimSpace(text)
}

func (c *Change) prepareCreateAs(ctx context.Context) error {
	cr := c.text.Create
	text, err := statement.Rewrite(c.text.Text, append(c.text.Numbered(),
		statement.Edit{Span: statement.Span{Start: c.text.Main.Start, End: cr.Query.Start}},
		statement.Edit{Span: statement.Span{Start: cr.Query.End, End: c.text.Span.End}})...)
	if err != nil {
		return err
	}
	c.create.query = text
	st, err := c.engine.Prepare(ctx, c.session, text)
	if err != nil {
		return err
	}
	defer st.Close()
	c.params = st.Params()
	for i := range c.params {
		c.params[i].Name = paramName(c.text, i)
	}
	if !st.Known() {
		return nil
	}
	s, err := st.Schema(schema.Logical)
	if err != nil {
		return err
	}
	c.create.columns, err = c.named(s)
	return err
}

// named gives the columns of a query the names of the statement's list.
func (c *Change) named(s *arrow.Schema) (*arrow.Schema, error) {
	names := c.text.Create.Names
	fields := s.Fields()
	if len(names) > len(fields) {
		return nil, c.text.ErrorAt(names[len(fields)].Span, "%d columns are named and the query has %d", len(names), len(fields))
	}
	for i, n := range names {
		fields[i].Name = n.Text
	}
	seen := map[string]bool{}
	for _, f := range fields {
		key := strings.ToLower(f.Name)
		if seen[key] {
			return nil, c.text.ErrorAt(c.text.Create.Query, "the query has two columns %q; give them names of their own", f.Name)
		}
		seen[key] = true
	}
	return arrow.NewSchema(fields, nil), nil
}

// errTwice is for statements that make a table for more than one row of
// parameters.
var errTwice = fault.New(fault.Invalid, "query: a statement that creates runs with one row of parameters")

func runCreate(ctx context.Context, c *Change, bound []arrow.RecordBatch) (Outcome, error) {
	var params arrow.RecordBatch
	for _, b := range bound {
		switch {
		case b.NumRows() == 0:
		case params != nil || b.NumRows() > 1:
			return Outcome{}, errTwice
		default:
			params = b
		}
	}
	if params == nil && len(c.params) > 0 {
		return Outcome{}, errTwice
	}
	cr := c.text.Create
	name, found, err := c.place(ctx)
	if err != nil {
		return Outcome{}, err
	}
	if found && cr.IfNotExists {
		return c.stays(ctx)
	}
	var source *Statement
	columns := c.create.columns
	if c.text.Kind == statement.CreateTableAs && !cr.NoData || columns == nil {
		if source, err = c.engine.Prepare(ctx, c.session, c.create.query); err != nil {
			return Outcome{}, err
		}
		defer source.Close()
		if params != nil {
			if err := source.bindAll(ctx, params, 0); err != nil {
				return Outcome{}, err
			}
		}
		if columns, err = source.Schema(schema.Logical); err != nil {
			return Outcome{}, err
		}
		if columns, err = c.named(columns); err != nil {
			return Outcome{}, err
		}
	}
	f := &feed{engine: c.engine, rows: "row %d of the query"}
	o := table.CreateOptions{Settings: c.create.settings}
	if source != nil {
		f.input = anyBlobs(columns)
		o.WriteOptions = f.options(o.WriteOptions)
		o.Batches = f.input
	}
	var a *table.Appender
	if found {
		if !cr.OrReplace {
			return Outcome{}, fault.New(fault.Exists, "query: table %s exists already; CREATE OR REPLACE TABLE gives it new columns and rows, CREATE TABLE IF NOT EXISTS leaves it", name)
		}
		t, err := c.engine.cat.Table(ctx, name)
		if err != nil {
			return Outcome{}, err
		}
		if a, err = t.Overwrite(ctx, c.session.Branch, columns, o); err != nil {
			return Outcome{}, err
		}
	} else {
		if branch := c.session.Branch; branch != "" && branch != manifest.MainBranch {
			return Outcome{}, fault.New(fault.NotFound, "query: table %s does not exist, and a new one has no branch %q; create it on main", name, branch)
		}
		t, err := c.engine.cat.NewTable(ctx, name)
		if err != nil {
			return Outcome{}, err
		}
		if a, err = t.Create(ctx, columns, o); err != nil {
			return Outcome{}, err
		}
	}
	defer a.Abort()
	if source != nil && !cr.NoData {
		f.into = a
		if err := source.feed(ctx, f); err != nil {
			return Outcome{}, err
		}
	}
	snapshot, err := a.Commit(ctx)
	if err != nil {
		if cr.IfNotExists && fault.KindOf(err) == fault.Exists { // another one was faster
			if o, late := c.stays(ctx); late == nil {
				return o, nil
			}
		}
		return Outcome{}, err
	}
	return Outcome{Rows: int64(a.Rows()), Version: snapshot.Version(), Notice: optInNotice(a.Base(), snapshot)}, nil
}

// stays is the outcome of CREATE TABLE IF NOT EXISTS on a table that exists.
func (c *Change) stays(ctx context.Context) (Outcome, error) {
	_, snapshot, err := c.existing(ctx)
	if err != nil {
		return Outcome{}, errors.Join(err)
	}
	return Outcome{Version: snapshot.Version()}, nil
}
