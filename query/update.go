package query

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/flightblob/flightblob/blob"
	"github.com/flightblob/flightblob/catalog"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/query/statement"
	"github.com/flightblob/flightblob/schema"
	"github.com/flightblob/flightblob/table"
)

// updating is an UPDATE: a query that finds the rows and computes their new
// values. The other columns are taken from the table as they are stored, so that
// nothing of them passes through SQL.
//
//	UPDATE t SET a = a + 1 FROM s WHERE t.id = s.id
//	SELECT "_rowaddr", "_rowid", CAST(c0 AS INTEGER) FROM (
//	  SELECT "t"."_rowaddr", "t"."_rowid", a + 1 FROM lance_scan('t', row_ids := true) AS "t", s WHERE t.id = s.id
//	) AS s("_rowaddr", "_rowid", c0)
type updating struct {
	name    catalog.Name
	set     []*schema.Field
	rows    *derived // the text of query
	query   intoQuery
	carried []string // names of the other columns
	changed []schema.FieldID
}

// identity are the columns by which rows are found again.
var identity = []string{table.RowAddr, table.RowID}

// prepareUpdate checks UPDATE.
func (c *Change) prepareUpdate(ctx context.Context) error {
	u := c.text.Update
	if !u.Returning.Empty() {
		return c.text.ErrorAt(u.Returning, "RETURNING is refused: rows that are changed are not sent back; select them afterwards")
	}
	name, snapshot, err := c.existing(ctx)
	if err != nil {
		return err
	}
	c.session.gifts = &gifts{}
	up := &updating{name: name}
	alias := c.rowsAlias(u.Alias)
	rows, err := c.updated(snapshot.Schema(), up, alias)
	if err != nil {
		return err
	}
	if err := c.fill(ctx, up, rows); err != nil {
		return err
	}
	for _, f := range snapshot.Schema().Fields {
		if !slices.Contains(up.set, f) {
			up.carried = append(up.carried, f.Name)
			continue
		}
		for leaf := range f.Leaves() {
			up.changed = append(up.changed, leaf.ID)
		}
	}
	c.do = func(ctx context.Context, c *Change, params []arrow.RecordBatch) (Outcome, error) {
		return c.mutate(ctx, name, func(m *table.Mutation) (table.MutationOptions, error) {
			writer, err := c.newReplacer(m, up)
			if err != nil {
				return table.MutationOptions{}, err
			}
			err = c.eachRow(params, func(params arrow.RecordBatch, row int) error {
				rows, end, err := c.rowsOf(ctx, m.Base(), name, up.rows, &up.query, params, row)
				if err != nil {
					return err
				}
				defer end()
				for rows.Next() {
					if err := writer.replace(ctx, rows.RecordBatch()); err != nil {
						return err
					}
				}
				return up.rows.place(rows.Err())
			})
			return table.MutationOptions{Changed: up.changed}, err
		})
	}
	return nil
}

// updated writes the query for the rows and their new values.
func (c *Change) updated(s *schema.Schema, up *updating, alias string) (*derived, error) {
	u := c.text.Update
	d := c.derive()
	d.add("SELECT " + alias + "." + identity[0] + ", " + alias + "." + identity[1])
	for _, a := range u.Set {
		f, err := fieldNamed(s, a.Column.Text)
		if err != nil {
			return nil, c.text.ErrorAt(a.Column.Span, "%s", err)
		}
		if slices.Contains(up.set, f) {
			return nil, c.text.ErrorAt(a.Column.Span, "column %s is set twice", a.Column)
		}
		up.set = append(up.set, f)
		d.add(", ")
		if err := c.value(d, f, a); err != nil {
			return nil, err
		}
	}
	c.foundIn(d, up.name, alias, u.From, u.Where)
	return d, d.err
}

// value appends what a column is set to. A bare parameter has the column's type.
func (c *Change) value(d *derived, f *schema.Field, a statement.Assignment) error {
	if a.Default {
		d.add("NULL")
		return nil
	}
	if slices.ContainsFunc(c.text.Params, func(p statement.Param) bool { return p.Span == a.Value }) {
		name, err := c.paramType(f)
		if err != nil {
			return err
		}
		d.add("CAST(")
		d.keep(a.Value)
		d.add(" AS " + name + ")")
		return nil
	}
	d.add("(")
	d.keep(a.Value)
	d.add(")")
	return nil
}

// fill makes the query that gives the new values the types of the table.
func (c *Change) fill(ctx context.Context, up *updating, rows *derived) error {
	st, err := c.engine.Prepare(ctx, c.session, rows.String())
	if err != nil {
		return rows.place(err)
	}
	given := st.plan.prepared.Columns()
	up.query.payload = st.first.payload.Load()
	st.Close()
	whole := &derived{of: rows.of, edits: rows.edits}
	whole.add("SELECT " + strings.Join(identity, ", "))
	names := slices.Clone(identity)
	for _, name := range identity {
		up.query.columns = append(up.query.columns, arrow.Field{Name: name, Type: arrow.PrimitiveTypes.Uint64, Nullable: true})
	}
	for i, f := range up.set {
		name := fmt.Sprintf("c%d", i)
		names = append(names, name)
		t, exact, err := storedType(f)
		if err != nil {
			return err
		}
		at := c.text.Update.Set[i].Value
		from := given[len(identity)+i].Type
		if err := c.fits(f, t, from, at); err != nil {
			return err
		}
		fill := filling(t, from)
		whole.add(", ")
		if special := ofInterval(name, exact.Type, from); special != "" {
			whole.stand(special+" AS "+name, at)
		} else if fill.String() != from.String() || from.Unknown() {
			whole.stand("CAST("+name+" AS "+typeText(fill)+") AS "+name, at)
		} else {
			whole.add(name)
		}
		field := intoField(exact, fill)
		field.Name, field.Nullable = f.Name, true
		up.query.columns = append(up.query.columns, field)
	}
	whole.add(" FROM (")
	whole.embed(rows)
	whole.add(") AS s(" + strings.Join(names, ", ") + ")")
	up.rows, up.query.text = whole, whole.String()
	st, err = c.engine.prepare(ctx, c.session, up.query.text, &up.query)
	if err != nil {
		return whole.place(err)
	}
	defer st.Close()
	c.learn(st)
	return nil
}

// replacer writes the rows of an UPDATE anew.
type replacer struct {
	mutation *table.Mutation
	up       *updating
	carrier  *table.Carrier
	feed     *feed // of the new values
}

func (c *Change) newReplacer(m *table.Mutation, up *updating) (*replacer, error) {
	input, err := feedSchema(up.set)
	return &replacer{mutation: m, up: up, carrier: m.Base().Carry(), feed: &feed{engine: c.engine, input: input, rows: "row %d of those found"}}, err
}

// origin finds where stored values come from: the carried ones, or those that
// columns are set to, of which copies are made.
func (r *replacer) origin(source uint32) (blob.Origin, error) {
	if r.carrier.Carries(source) {
		return r.carrier.Origins(source)
	}
	return r.feed.origin(source)
}

// replace takes a batch of the update's query. A row that is found again keeps
// the values that were found first.
func (r *replacer) replace(ctx context.Context, found arrow.RecordBatch) error {
	addresses, ok := found.Column(0).(*array.Uint64)
	ids, ok2 := found.Column(1).(*array.Uint64)
	if !ok || !ok2 || addresses.NullN()+ids.NullN() > 0 {
		return fault.New(fault.Internal, "query: row addresses come as %s", found.Column(0).DataType())
	}
	fresh, err := r.mutation.Remove(addresses.Uint64Values())
	if err != nil || len(fresh) == 0 {
		return err
	}
	set, err := r.values(found, fresh)
	if err != nil {
		return err
	}
	defer set.Release()
	at, rowIDs := make([]uint64, len(fresh)), make([]uint64, len(fresh))
	for i, k := range fresh {
		at[i], rowIDs[i] = addresses.Value(k), ids.Value(k)
	}
	positions, err := r.mutation.Positions(ctx, at)
	if err != nil {
		return err
	}
	scan, err := r.mutation.Base().Scan(ctx, table.ScanRequest{Columns: r.columns(), Rows: positions})
	if err != nil {
		return err
	}
	defer scan.Release()
	from := int64(0)
	for scan.Next() {
		n := scan.RecordBatch().NumRows()
		if err := r.write(ctx, scan, set, from, rowIDs[from:from+n]); err != nil {
			return err
		}
		from += n
	}
	return scan.Err()
}

// columns are those that are carried; a list that is not nil even if it is empty.
func (r *replacer) columns() []string { return append([]string{}, r.up.carried...) }

// values takes the new values of some rows, in the form that an appender takes.
func (r *replacer) values(found arrow.RecordBatch, rows []int) (arrow.RecordBatch, error) {
	fields := found.Schema().Fields()[len(identity):]
	columns := make([]arrow.Array, len(fields))
	defer func() {
		for _, a := range columns {
			if a != nil {
				a.Release()
			}
		}
	}()
	for i := range fields {
		var err error
		if columns[i], err = table.Gather(found.Column(len(identity)+i), rows); err != nil {
			return nil, err
		}
	}
	part := array.NewRecordBatch(arrow.NewSchema(fields, nil), columns, int64(len(rows)))
	defer part.Release()
	return r.feed.shaped(part)
}

// write joins carried columns and new values of the same rows.
func (r *replacer) write(ctx context.Context, scan *table.Scan, set arrow.RecordBatch, from int64, ids []uint64) error {
	carried, err := r.carrier.Batch(scan)
	if err != nil {
		return err
	}
	defer carried.Release()
	part := set.NewSlice(from, from+carried.NumRows())
	defer part.Release()
	fields := append(carried.Schema().Fields(), part.Schema().Fields()...)
	whole := array.NewRecordBatch(arrow.NewSchema(fields, nil), append(slices.Clone(carried.Columns()), part.Columns()...), carried.NumRows())
	defer whole.Release()
	if err := r.mutation.Replace(ctx, whole, ids, table.WriteOptions{Origins: r.origin, AllowOutsideBases: true}); err != nil {
		return r.feed.numbered(err)
	}
	r.feed.wrote += carried.NumRows()
	return nil
}
