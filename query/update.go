package query

import (
	"context"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/flightblob/flightblob/blob"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/schema"
	"github.com/flightblob/flightblob/table"
)

// identity are the columns by which rows are found again.
var identity = []string{table.RowAddr, table.RowID}

// rewriting is what an UPDATE, or a clause of a MERGE, does: a query that finds
// the rows and computes their new values. The other columns are taken from the
// table as they are stored, so that nothing of them passes through SQL.
type rewriting struct {
	computed
	carried []string // names of the other columns
	changed []schema.FieldID
}

// prepareUpdate checks UPDATE:
//
//	UPDATE t SET a = a + 1 FROM s WHERE t.id = s.id
//	SELECT "_rowaddr", "_rowid", CAST(c0 AS INTEGER) FROM (
//	  SELECT "t"."_rowaddr", "t"."_rowid", a + 1 FROM lance_scan('t', row_ids := true) AS "t", s WHERE t.id = s.id
//	) AS s("_rowaddr", "_rowid", c0)
func (c *Change) prepareUpdate(ctx context.Context) error {
	u := c.text.Update
	name, snapshot, err := c.existing(ctx)
	if err != nil {
		return err
	}
	c.session.gifts, c.columns = &gifts{}, snapshot.Schema()
	alias := c.rowsAlias(u.Alias)
	if err := c.prepareReturning(ctx, snapshot, alias); err != nil {
		return err
	}
	set, err := c.assigned(snapshot.Schema(), u.Set)
	if err != nil {
		return err
	}
	up, err := c.rewriting(ctx, snapshot.Schema(), alias, set, func(d *derived) { c.foundIn(d, name, alias, u.From, u.Where) })
	if err != nil {
		return err
	}
	c.do = func(ctx context.Context, c *Change, params []arrow.RecordBatch) (Outcome, error) {
		return c.mutate(ctx, name, func(m *table.Mutation) (table.MutationOptions, error) {
			writer, err := c.newReplacer(m, up)
			if err != nil {
				return table.MutationOptions{}, err
			}
			writer.once = u.From.Empty()
			err = c.eachRow(params, func(params arrow.RecordBatch, row int) error {
				return c.eachFound(ctx, &up.computed, params, row, func(found arrow.RecordBatch) error {
					_, err := writer.replace(ctx, found)
					return err
				})
			})
			return table.MutationOptions{Changed: up.changed}, err
		})
	}
	return nil
}

// rewriting makes the query of a change of rows; from appends where they are
// found.
func (c *Change) rewriting(ctx context.Context, s *schema.Schema, alias string, set []setting, from func(*derived)) (*rewriting, error) {
	up := &rewriting{}
	var err error
	keys := []string{alias + "." + identity[0], alias + "." + identity[1]}
	if up.computed, err = c.compute(ctx, keys, set, from); err != nil {
		return nil, err
	}
	for _, f := range s.Fields {
		if !slices.Contains(up.fields, f) {
			up.carried = append(up.carried, f.Name)
			continue
		}
		for leaf := range f.Leaves() {
			up.changed = append(up.changed, leaf.ID)
		}
	}
	return up, nil
}

// replacer writes the rows of an UPDATE anew.
type replacer struct {
	mutation *table.Mutation
	up       *rewriting
	carrier  *table.Carrier
	feed     *feed // of the new values
	once     bool  // a row that is found again is an error
}

func (c *Change) newReplacer(m *table.Mutation, up *rewriting) (*replacer, error) {
	input, err := feedSchema(up.fields)
	return &replacer{mutation: m, up: up, carrier: m.Carry(), feed: &feed{engine: c.engine, input: input, rows: "row %d of those found"}}, err
}

// origin finds where stored values come from: the carried ones, or those that
// columns are set to, of which copies are made.
func (r *replacer) origin(source uint32) (blob.Origin, error) {
	if r.carrier.Carries(source) {
		return r.carrier.Origins(source)
	}
	return r.feed.origin(source)
}

// replace takes a batch of the query and answers how many rows it replaced: one
// that is found again keeps the values that were found first. Where it must not
// be, another row of parameters has changed it.
func (r *replacer) replace(ctx context.Context, found arrow.RecordBatch) (int, error) {
	addresses, err := keysOf(found, 0)
	if err != nil {
		return 0, err
	}
	ids, err := keysOf(found, 1)
	if err != nil {
		return 0, err
	}
	fresh, err := r.mutation.Remove(addresses)
	if err == nil && r.once && len(fresh) < len(addresses) {
		err = fault.New(fault.Invalid, "query: a row of the table is changed by an earlier row of the parameters already; all of them are one statement and see what was there before it: run them one by one")
	}
	if err != nil || len(fresh) == 0 {
		return 0, err
	}
	return len(fresh), r.rewrite(ctx, found, fresh, addresses, ids)
}

// rewrite writes some of the rows that were found.
func (r *replacer) rewrite(ctx context.Context, found arrow.RecordBatch, fresh []int, addresses, ids []uint64) error {
	set, err := r.values(found, fresh)
	if err != nil {
		return err
	}
	defer set.Release()
	at, rowIDs := make([]uint64, len(fresh)), make([]uint64, len(fresh))
	for i, k := range fresh {
		at[i], rowIDs[i] = addresses[k], ids[k]
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
