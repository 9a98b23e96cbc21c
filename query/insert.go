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
	schema  *schema.Schema  // of the table when the statement was prepared
	fields  []*schema.Field // those that are given, in the order of the source
	queries []intoQuery     // one after the other; several where rows differ in kind
	direct  []int           // for each field the parameter that is its value; nil when values are computed
	blobs   []bool          // by parameter: all its uses are the value of a blob column
}

// intoQuery is a query and what its columns become.
type intoQuery struct {
	text    string
	columns []arrow.Field // as conformed; nil leaves them the engine's
	payload bool          // its functions read blob values
	own     bool          // it reads the table that it fills
	mixed   bool          // it has bytes in a blob column
	casts   []columnCast
}

// columnCast is a cast of a column on its way into the table.
type columnCast struct {
	column int
	to     string // the type in SQL
	source string // the query before it, with c0, c1, … as its columns
}

func (c *Change) prepareInsert(ctx context.Context) error {
	ins := c.text.Insert
	c.do = runInsert
	name, snapshot, err := c.existing(ctx)
	if err != nil {
		return err
	}
	if err := c.prepareReturning(ctx, snapshot, c.rowsAlias(ins.Alias)); err != nil {
		return err
	}
	c.insert = &insertion{name: name, schema: snapshot.Schema()}
	c.session.gifts = &gifts{}
	if !ins.ByName {
		if c.insert.fields, err = c.listed(snapshot.Schema(), ins.Columns); err != nil {
			return err
		}
	}
	edits, err := c.edits()
	if err != nil {
		return err
	}
	if c.insert.queries, err = c.queries(ctx, edits); err != nil {
		return err
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

// edits number the parameters of the statement, cast those that are values of
// columns to the columns' types, and write what DEFAULT means.
func (c *Change) edits() ([]statement.Edit, error) {
	ins := c.text.Insert
	edits := c.text.Numbered()
	if ins.Source.Empty() { // DEFAULT VALUES
		return nil, nil
	}
	for _, d := range ins.Defaults {
		edits = append(edits, statement.Edit{Span: d, Text: "NULL"})
	}
	c.insert.blobs = make([]bool, c.text.ParamCount())
	uses := make([]int, len(c.insert.blobs))
	for _, p := range c.text.Params {
		uses[p.Index-1]++
	}
	for n, row := range ins.Values {
		if want := len(c.insert.fields); len(row) != want {
			return nil, c.text.ErrorAt(ins.Rows[n], "row %d has %d values for %d columns: %s", n+1, len(row), want, c.fieldList())
		}
		for i, value := range row {
			for k, p := range c.text.Params {
				if p.Span != value {
					continue
				}
				name, err := c.paramType(c.insert.fields[i]) // its type is the column's
				if err != nil {
					return nil, err
				}
				edits[k].Text = "CAST(" + edits[k].Text + " AS " + name + ")"
				if c.insert.fields[i].Blob == schema.BlobV2 {
					uses[p.Index-1]--
					c.insert.blobs[p.Index-1] = uses[p.Index-1] == 0
				}
			}
		}
	}
	return edits, nil
}

// queries makes the queries of the statement's source: one, if it can be, or one
// for each run of VALUES whose rows agree. The engine takes a blob column to be of
// bytes where some row has bytes, and then cannot take what blob_ref makes.
func (c *Change) queries(ctx context.Context, edits []statement.Edit) ([]intoQuery, error) {
	ins := c.text.Insert
	refers := func(s statement.Span) bool { return strings.Contains(strings.ToLower(s.Of(c.text.Text)), "blob_ref") }
	one, err := c.into(ctx, c.session, edits)
	if len(ins.Rows) < 2 || !refers(ins.Source) || err == nil && !one.mixed {
		return []intoQuery{one}, err
	}
	var out []intoQuery
	for from, to := 0, 0; from < len(ins.Rows); from = to {
		for to = from + 1; to < len(ins.Rows) && refers(ins.Rows[to]) == refers(ins.Rows[from]); {
			to++
		}
		q, err := c.into(ctx, c.session, only(edits, ins, from, to))
		switch {
		case (err != nil || q.mixed) && refers(ins.Rows[from]) && to > from+1:
			for n := from; n < to; n++ { // columns of one row differ from those of the next
				if q, err = c.into(ctx, c.session, only(edits, ins, n, n+1)); err != nil {
					return nil, fmt.Errorf("row %d of VALUES: %w", n+1, err)
				}
				out = append(out, q)
			}
		case err != nil:
			return nil, fmt.Errorf("rows %d to %d of VALUES: %w", from+1, to, err)
		default:
			out = append(out, q)
		}
	}
	return out, nil
}

// only leaves the rows [from, to) of VALUES.
func only(edits []statement.Edit, ins *statement.InsertClauses, from, to int) []statement.Edit {
	front := statement.Span{Start: ins.Source.Start, End: ins.Rows[from].Start}
	back := statement.Span{Start: ins.Rows[to-1].End, End: ins.Source.End}
	out := []statement.Edit{{Span: front, Text: "VALUES "}, {Span: back}}
	for _, e := range edits {
		if !front.Contains(e.Span) && !back.Contains(e.Span) {
			out = append(out, e)
		}
	}
	return out
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

// into makes the query that gives the source, with edits, the types of the table.
func (c *Change) into(ctx context.Context, session Session, edits []statement.Edit) (intoQuery, error) {
	var q intoQuery
	text, err := c.source(edits, "", "")
	if err != nil {
		return q, err
	}
	st, err := c.engine.Prepare(ctx, session, text)
	if err != nil {
		return q, err
	}
	given := sourceColumns(st, len(c.insert.fields))
	q.payload = st.first.payload.Load()
	q.own = slices.ContainsFunc(st.Pins(), func(p Pin) bool { return p.Name == c.insert.name })
	st.Close()
	if c.text.Insert.ByName {
		if err := c.byName(c.insert.schema, given); err != nil {
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
		if err := c.fits(f, t, given[i].Type, c.text.Insert.Source); err != nil {
			return q, err
		}
		fill := filling(t, given[i].Type)
		q.mixed = q.mixed || t.HasReference() && holdsBytes(t, fill)
		if special := ofInterval(name, exact.Type, given[i].Type); special != "" {
			name = special + " AS " + name
		} else if fill.String() != given[i].Type.String() || given[i].Type.Unknown() {
			q.casts = append(q.casts, columnCast{column: i, to: typeText(fill)})
			name = "CAST(" + name + " AS " + typeText(fill) + ") AS " + name
		}
		list = append(list, name)
		field := intoField(exact, fill)
		field.Name, field.Nullable = f.Name, true
		q.columns = append(q.columns, field)
	}
	back := ") AS s(" + strings.Join(names, ", ") + ")"
	q.text, err = c.source(edits, "SELECT "+strings.Join(list, ", ")+" FROM (", back)
	for i := range q.casts {
		if err == nil {
			q.casts[i].source, err = c.source(edits, blameFront(q.casts[i], len(names)), back+blameBack(q.casts[i]))
		}
	}
	if err != nil {
		return q, err
	}
	st, err = c.engine.prepare(ctx, session, q.text, &q)
	if err != nil {
		return q, err
	}
	defer st.Close()
	if session.gifts.bound != nil { // the parameters are known
		return q, nil
	}
	c.learn(st)
	return q, nil
}

// sourceColumns are the columns of a source. Where parameters leave them open, those
// with the types that were guessed, else n of them.
func sourceColumns(st *Statement, n int) []engine.Field {
	if !st.plan.unknown {
		return st.plan.prepared.Columns()
	}
	if planned := st.others[guessed]; planned != nil {
		columns := planned.plan.prepared.Columns()
		for i := range columns {
			if !columns[i].Type.HasReference() { // values of other types may be bound
				columns[i].Type = &engine.Type{}
			}
		}
		return columns
	}
	columns := make([]engine.Field, n)
	for i := range columns {
		columns[i].Type = &engine.Type{}
	}
	return columns
}

// holdsBytes tells whether bytes fill a blob of a type.
func holdsBytes(t, fill *engine.Type) bool {
	if t.IsReference() {
		return !fill.IsReference()
	}
	for i, c := range t.Children {
		if i < len(fill.Children) && holdsBytes(c.Type, fill.Children[i].Type) {
			return true
		}
	}
	return false
}

// fits refuses columns that no cast makes a field's: what is no value of bytes
// in the place of a blob, and blobs in the place of anything but bytes.
func (c *Change) fits(f *schema.Field, t, given *engine.Type, at statement.Span) error {
	if extra := unknownMember(t, given, ""); extra != "" {
		return c.text.ErrorAt(at, "column %s has no field %s; it is %s", f.FullName(), statement.Quote(extra), typeText(t))
	}
	if given.IsReference() && !t.IsReference() && t.ID != engine.TypeBlob {
		return c.text.ErrorAt(at, "column %s of type %s takes no blob values; %s", f.FullName(), typeText(t), engine.Advice)
	}
	if !t.IsReference() || given.IsReference() || given.Unknown() {
		return nil
	}
	switch given.ID {
	case engine.TypeBlob, engine.TypeVarchar, engine.TypeNull, engine.TypeInteger: // INTEGER is what NULL alone is
		return nil
	}
	return c.text.ErrorAt(at, "blob column %s takes BLOB values, blob columns and blob_ref(…), not %s", f.FullName(), given)
}

// unknownMember finds a field of a struct that the column's has not: the cast
// would drop it.
func unknownMember(t, given *engine.Type, path string) string {
	if t.IsReference() || given.IsReference() {
		return ""
	}
	switch {
	case t.ID == engine.TypeStruct && given.ID == engine.TypeStruct:
		for _, g := range given.Children {
			at := slices.IndexFunc(t.Children, func(c engine.Field) bool { return strings.EqualFold(c.Name, g.Name) })
			switch {
			case g.Name == "": // by position
			case at < 0:
				return path + g.Name
			default:
				if extra := unknownMember(t.Children[at].Type, g.Type, path+g.Name+"."); extra != "" {
					return extra
				}
			}
		}
	case t.ID != engine.TypeStruct && given.ID != engine.TypeStruct:
		for i := range min(len(t.Children), len(given.Children)) {
			if extra := unknownMember(t.Children[i].Type, given.Children[i].Type, path); extra != "" {
				return extra
			}
		}
	}
	return ""
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

// sharedTries is how often an INSERT that refers to objects of its own table again
// is begun anew when others write the table meanwhile. After that it copies.
const sharedTries = 5

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
	for try := 1; ; try++ {
		o, shared, err := c.insertInto(ctx, t, params, try <= sharedTries)
		if err == nil || !shared || fault.KindOf(err) != fault.Conflict {
			return o, err
		}
	}
}

// insertBase is the newest version; errColumns if the columns that are written are
// others there than when the statement was prepared. New ones are none of them.
func (c *Change) insertBase(ctx context.Context, t *table.Table) (*table.Snapshot, error) {
	base, err := t.At(ctx, c.session.on(table.Ref{}))
	if err != nil {
		return nil, err
	}
	for _, f := range c.insert.fields {
		if now := base.Schema().ByID(f.ID); now == nil || now.Parent != nil || !takesSame(f, now) {
			return nil, errColumns
		}
	}
	return base, nil
}

// insertInto runs the statement on the newest version. With share, a table that
// is managed and read by the statement refers to its objects again (CAP-7): the
// version that is read is protected as long as it is the newest, so that the
// write is published right after it or not at all (GC-3). shared tells that this
// is so.
func (c *Change) insertInto(ctx context.Context, t *table.Table, params []arrow.RecordBatch, share bool) (o Outcome, shared bool, err error) {
	base, err := c.insertBase(ctx, t)
	if err != nil {
		return o, false, err
	}
	managed, err := schema.Managed(base.Schema().Metadata)
	if err != nil {
		return o, false, err
	}
	own := slices.ContainsFunc(c.insert.queries, func(q intoQuery) bool { return q.own })
	f := &feed{engine: c.engine, rows: "row %d of the query"}
	if len(c.insert.queries) > 0 && len(c.text.Insert.Rows) > 0 {
		f.rows, f.first = "row %d of VALUES", 1
	}
	if own && (share || !managed) { // without opt-in nothing is referred to but External objects
		f.shared, shared = base, managed
	}
	if f.input, err = feedSchema(c.insert.fields); err != nil {
		return o, shared, err
	}
	if f.into, err = base.Append(ctx, f.input, f.options(table.WriteOptions{Only: shared})); err != nil {
		return o, shared, err
	}
	defer f.into.Abort()
	session := c.session
	session.Pins = []Pin{{c.insert.name, base.Ref()}}
	done := false
	if len(params) > 0 {
		if done, err = c.runBound(ctx, session, params, f); err != nil {
			return o, shared, err
		}
	}
	if !done {
		if err := c.runEach(ctx, session, params, f); err != nil {
			return o, shared, err
		}
	}
	o, err = c.committed(ctx, f.into)
	return o, shared, err
}

// runEach runs the statement once for each row of parameters.
func (c *Change) runEach(ctx context.Context, session Session, params []arrow.RecordBatch, f *feed) error {
	if len(params) == 0 {
		return c.runRow(ctx, session, nil, 0, f)
	}
	all := int64(0)
	for _, batch := range params {
		for row := range int(batch.NumRows()) {
			f.wrote = 0 // rows are those of VALUES, for each row of parameters
			if err := c.runRow(ctx, session, batch, row, f); err != nil {
				return fmt.Errorf("row %d of the parameters: %w", all, err)
			}
			all++
		}
	}
	return nil
}

// runRow runs the statement with one row of parameters.
func (c *Change) runRow(ctx context.Context, session Session, params arrow.RecordBatch, row int, f *feed) error {
	for _, q := range c.insert.queries {
		if err := c.runInto(ctx, session, q, params, row, f); err != nil {
			return err
		}
	}
	return nil
}

// runBound runs an INSERT of one row of VALUES as one query over all bound rows.
// It tells whether that could be done.
func (c *Change) runBound(ctx context.Context, session Session, params []arrow.RecordBatch, f *feed) (bool, error) {
	ins := c.text.Insert
	if len(ins.Values) != 1 || !c.text.With.Empty() {
		return false, nil
	}
	rows, err := newBoundRows(params, c.insert.blobs)
	if fault.KindOf(err) == fault.Unsupported {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	edits := c.text.Numbered()
	for i, p := range c.text.Params {
		edits[i].Text = " " + boundFunction + "." + boundColumn(p.Index-1) + " "
	}
	for _, d := range ins.Defaults {
		edits = append(edits, statement.Edit{Span: d, Text: "NULL"})
	}
	values := ins.Values[0]
	edits = append(edits,
		statement.Edit{Span: statement.Span{Start: ins.Source.Start, End: values[0].Start}, Text: "SELECT "},
		statement.Edit{Span: statement.Span{Start: values[len(values)-1].End, End: ins.Source.End}, Text: " FROM " + boundFunction + "() AS " + boundFunction})
	session.gifts = &gifts{bound: rows}
	q, err := c.into(ctx, session, edits)
	if err != nil { // of types that SQL does not take for one another, unlike bound ones
		return false, ctx.Err()
	}
	of := *f
	of.rows, of.first = "row %d of the parameters", 0
	if payload := rows.payload(); payload > feedBytes {
		of.slice = max(rows.rows*feedBytes/payload, 1)
	}
	return true, c.runInto(ctx, session, q, nil, 0, &of)
}

// feedBytes is how many bytes of bound values are copied at once, about.
const feedBytes = 32 << 20

func (c *Change) committed(ctx context.Context, a *table.Appender) (Outcome, error) {
	snapshot, err := a.Commit(ctx)
	if err != nil {
		return Outcome{}, err
	}
	c.wrote.inserts(snapshot, a.Rows())
	return Outcome{Rows: int64(a.Rows()), Version: snapshot.Version()}, nil
}

// runInto runs a query with one row of parameters and writes what it gives.
func (c *Change) runInto(ctx context.Context, session Session, q intoQuery, params arrow.RecordBatch, row int, f *feed) error {
	st, err := c.engine.prepare(ctx, session, q.text, &q)
	if err != nil {
		return err
	}
	defer st.Close()
	if params != nil {
		if err := st.bindAll(ctx, params, row); err != nil {
			return err
		}
	}
	before := f.wrote
	if err := st.feed(ctx, f); err != nil {
		return c.blame(ctx, session, q, params, row, f, before, err)
	}
	return nil
}

// runDirect writes bound rows as they are, if they are of types that the table
// takes.
func (c *Change) runDirect(ctx context.Context, t *table.Table, params []arrow.RecordBatch) (Outcome, bool, error) {
	first := directRows(params[0], c.insert.fields, c.insert.direct)
	defer first.Release()
	base, err := c.insertBase(ctx, t)
	if err != nil {
		return Outcome{}, false, err
	}
	a, err := base.Append(ctx, first.Schema(), table.WriteOptions{AllowOutsideBases: true})
	if err != nil {
		if fault.KindOf(err) == fault.Invalid { // other types: by way of the engine's casts
			return Outcome{}, false, nil
		}
		return Outcome{}, false, err
	}
	defer a.Abort()
	f := &feed{rows: "row %d of the parameters"}
	for _, p := range params {
		batch := directRows(p, c.insert.fields, c.insert.direct)
		err := a.Write(ctx, batch)
		batch.Release()
		if err != nil {
			return Outcome{}, false, f.numbered(err)
		}
		f.wrote += p.NumRows()
	}
	o, err := c.committed(ctx, a)
	return o, true, err
}
