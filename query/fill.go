package query

import (
	"context"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/query/statement"
	"github.com/flightblob/flightblob/schema"
	"github.com/flightblob/flightblob/table"
)

// ALTER TABLE ADD COLUMN … DEFAULT computes the expression for each row that the
// table has, the row's own columns included. Lance keeps no defaults: rows that
// are inserted later without the column have NULL in it.
//
//	ALTER TABLE t ADD COLUMN b BIGINT DEFAULT a + 1
//	SELECT k0, CAST(c0 AS BIGINT) AS c0 FROM (SELECT "t"."_rowaddr", (a + 1) FROM flightblob_rows('0', row_ids := true) AS "t") AS s(k0, c0)

// fillNotice is told of a column that was added with values.
const fillNotice = "the values of DEFAULT are in the rows that the table has; tables keep no defaults, so rows that are inserted without the column have NULL in it"

// prepareFill checks ADD COLUMN … DEFAULT.
func (c *Change) prepareFill(ctx context.Context) error {
	alter := c.text.Alter
	_, snapshot, err := c.existing(ctx)
	if fault.KindOf(err) == fault.NotFound && alter.IfExists {
		c.do = func(context.Context, *Change, []arrow.RecordBatch) (Outcome, error) { return Outcome{}, nil }
		return nil
	}
	if err != nil {
		return err
	}
	if err := c.checkColumn(snapshot); err != nil {
		return err
	}
	columns, err := c.declared(ctx, []statement.ColumnDef{alter.Definition})
	if err != nil {
		return err
	}
	made, err := schema.FromArrow(columns, schema.FromOptions{FileVersion: snapshot.Manifest().DataFormat})
	if err != nil {
		return err
	}
	c.session.gifts, c.columns = &gifts{}, snapshot.Schema()
	c.session.excerpts = []*excerpt{fragmentsOf(snapshot, func(uint64) bool { return true })}
	value, err := c.settingOf(made.Fields[0], alter.Definition.Default, false)
	if err != nil {
		return err
	}
	// The order of rows is lost where others are looked up beside each.
	text := strings.ToLower(alter.Definition.Default.Of(c.text.Text))
	ordered := !slices.ContainsFunc([]string{"select", "over", "unnest"}, func(word string) bool { return strings.Contains(text, word) })
	alias := c.rowsAlias(statement.Part{})
	filled, err := c.compute(ctx, []string{alias + "." + table.RowAddr}, []setting{value}, func(d *derived) {
		d.add(" FROM " + excerptCall(0, true) + " AS " + alias)
		if !ordered {
			d.add(" ORDER BY 1")
		}
	})
	if err != nil {
		return err
	}
	c.do = func(ctx context.Context, c *Change, params []arrow.RecordBatch) (Outcome, error) {
		return c.fill(ctx, columns.Field(0), filled, params)
	}
	return nil
}

// fill carries the statement out.
func (c *Change) fill(ctx context.Context, column arrow.Field, filled computed, params []arrow.RecordBatch) (Outcome, error) {
	name, snapshot, err := c.existing(ctx)
	if err != nil {
		return Outcome{}, err
	}
	if snapshot.HasColumn(c.text.Alter.Column.Path()) && c.text.Alter.IfNotExists {
		return Outcome{Version: snapshot.Version()}, nil
	}
	var row arrow.RecordBatch
	switch {
	case len(params) == 1 && params[0].NumRows() == 1:
		row = params[0]
	case len(params) > 0:
		return Outcome{}, fault.New(fault.Invalid, "query: a column is added with one row of parameters, not with several or none")
	}
	f := &feed{engine: c.engine, rows: "row %d of the table"}
	if f.input, err = feedSchema(filled.fields); err != nil {
		return Outcome{}, err
	}
	values := func(ctx context.Context, of *table.Snapshot, fragments []uint64, write func([]uint64, arrow.RecordBatch) error) error {
		if !sameFields(c.columns, of.Schema()) {
			return errColumns
		}
		wanted := map[uint64]bool{}
		for _, id := range fragments {
			wanted[id] = true
		}
		c.session.excerpts = []*excerpt{fragmentsOf(of, func(id uint64) bool { return wanted[id] })}
		c.read = []Pin{{Name: name, Ref: of.Ref()}}
		f.wrote = 0
		return c.eachFound(ctx, &filled, row, 0, func(found arrow.RecordBatch) error {
			addresses, err := keysOf(found, 0)
			if err != nil {
				return err
			}
			part := array.NewRecordBatch(arrow.NewSchema(found.Schema().Fields()[1:], nil), found.Columns()[1:], found.NumRows())
			defer part.Release()
			shaped, err := f.shaped(part)
			if err != nil {
				return err
			}
			defer shaped.Release()
			if err := write(addresses, shaped); err != nil {
				return f.numbered(err)
			}
			f.wrote += found.NumRows()
			return nil
		})
	}
	changed, err := snapshot.Table().AddFilledColumn(ctx, c.session.Branch, table.Filling{
		Column: column, Input: f.input, Options: f.options(table.WriteOptions{}), Values: values,
	})
	if err != nil {
		return Outcome{}, err
	}
	return Outcome{Rows: int64(changed.Rows()), Version: changed.Version(), Notice: fillNotice}, nil
}
