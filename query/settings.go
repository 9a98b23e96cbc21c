package query

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/flightblob/flightblob/query/statement"
	"github.com/flightblob/flightblob/table"
	"github.com/flightblob/flightblob/table/manifest"
)

// addBaseAnswer is the row of CALL add_base.
var addBaseAnswer = arrow.NewSchema([]arrow.Field{
	{Name: "table", Type: arrow.BinaryTypes.String},
	{Name: "version", Type: arrow.PrimitiveTypes.Uint64},
	{Name: "name", Type: arrow.BinaryTypes.String, Nullable: true},
	{Name: "path", Type: arrow.BinaryTypes.String},
	{Name: "dataset_root", Type: arrow.FixedWidthTypes.Boolean},
}, nil)

// prepareCall checks CALL add_base('t', 'path', name := …, dataset_root := …).
func (c *Change) prepareCall(ctx context.Context) error {
	call := c.text.Call
	if call.Function != "add_base" {
		return c.refused()
	}
	var name string
	var base manifest.Base
	for i, a := range call.Args {
		text := a.Value.Kind == statement.String
		switch {
		case a.Name == "" && i == 0 && text:
			name = a.Value.Text
		case (a.Name == "" && i == 1 || a.Name == "path") && text:
			base.Path = a.Value.Text
		case a.Name == "name" && text:
			base.Name = a.Value.Text
		case a.Name == "dataset_root" && a.Value.Kind == statement.Bool:
			base.IsDatasetRoot = a.Value.Bool
		default:
			return c.text.ErrorAt(a.Span, "add_base takes the table and the path as text, then name := text and dataset_root := true or false")
		}
	}
	if name == "" || base.Path == "" {
		return c.text.ErrorAt(c.text.Main, "add_base needs a table and a path: CALL add_base('t', 's3://bucket/prefix', name := 'cam')")
	}
	c.answers = addBaseAnswer
	find := func(ctx context.Context) (t *table.Table, shown string, err error) {
		err = c.scope(ctx, func(r *run) error {
			n, err := r.find(name)
			if err != nil {
				return err
			}
			shown = n.String()
			t, err = c.engine.cat.Table(ctx, n)
			return err
		})
		return t, shown, err
	}
	if _, _, err := find(ctx); err != nil {
		return err
	}
	c.do = func(ctx context.Context, _ *Change, _ []arrow.RecordBatch) (Outcome, error) {
		t, shown, err := find(ctx)
		if err != nil {
			return Outcome{}, err
		}
		snapshot, err := t.AddBase(ctx, "", base)
		if err != nil {
			return Outcome{}, err
		}
		b := array.NewRecordBuilder(memory.DefaultAllocator, addBaseAnswer)
		defer b.Release()
		b.Field(0).(*array.StringBuilder).Append(shown)
		b.Field(1).(*array.Uint64Builder).Append(snapshot.Version())
		if base.Name == "" {
			b.Field(2).AppendNull()
		} else {
			b.Field(2).(*array.StringBuilder).Append(base.Name)
		}
		b.Field(3).(*array.StringBuilder).Append(base.Path)
		b.Field(4).(*array.BooleanBuilder).Append(base.IsDatasetRoot)
		return Outcome{Version: snapshot.Version(), Answer: b.NewRecordBatch()}, nil
	}
	return nil
}
