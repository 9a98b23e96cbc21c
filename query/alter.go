package query

import (
	"context"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/query/statement"
	"github.com/flightblob/flightblob/table"
)

// prepareAlter checks ALTER TABLE.
func (c *Change) prepareAlter(ctx context.Context) error {
	alter := c.text.Alter
	var change func(context.Context, *table.Table) (*table.Snapshot, error)
	var err error
	switch path := alter.Column.Path(); alter.Action {
	case statement.SetSettings:
		change, err = c.alterSettings()
	case statement.AddColumn:
		if filled := alter.Definition.Default; !filled.Empty() && !strings.EqualFold(filled.Of(c.text.Text), "null") {
			return c.prepareFill(ctx)
		}
		change, err = c.addColumn(ctx)
	case statement.DropColumn:
		change = func(ctx context.Context, t *table.Table) (*table.Snapshot, error) {
			return t.DropColumn(ctx, c.session.Branch, path)
		}
	case statement.RenameColumn:
		change = func(ctx context.Context, t *table.Table) (*table.Snapshot, error) {
			return t.RenameColumn(ctx, c.session.Branch, path, alter.NewName.Text)
		}
	default:
		change = func(ctx context.Context, t *table.Table) (*table.Snapshot, error) {
			return t.SetNullable(ctx, c.session.Branch, path, alter.Action == statement.DropNotNull)
		}
	}
	if err != nil {
		return err
	}
	_, snapshot, err := c.existing(ctx)
	absent := func(err error) bool { return alter.IfExists && fault.KindOf(err) == fault.NotFound }
	if err != nil {
		if !absent(err) {
			return err
		}
	} else if err := c.checkColumn(snapshot); err != nil {
		return err
	}
	c.do = func(ctx context.Context, c *Change, _ []arrow.RecordBatch) (Outcome, error) {
		_, snapshot, err := c.existing(ctx)
		if err != nil {
			if absent(err) {
				err = nil
			}
			return Outcome{}, err
		}
		if there := snapshot.HasColumn(alter.Column.Path()); alter.IfNotExists && there || alter.ColumnIfExists && !there {
			return Outcome{Version: snapshot.Version()}, nil
		}
		changed, err := change(ctx, snapshot.Table())
		if err != nil {
			return Outcome{}, err
		}
		return Outcome{Version: changed.Version(), Notice: optInNotice(snapshot, changed)}, nil
	}
	return nil
}

// optInNotice is what is told of a change that opted a table in to managed blobs.
func optInNotice(before, after *table.Snapshot) string {
	if table.OptedIn(before, after) {
		return table.OptInNotice
	}
	return ""
}

// checkColumn says whether the column that is changed exists, and one that is
// added does not.
func (c *Change) checkColumn(s *table.Snapshot) error {
	alter := c.text.Alter
	if alter.Action == statement.SetSettings {
		return nil
	}
	there := s.HasColumn(alter.Column.Path())
	switch {
	case alter.Action != statement.AddColumn && !there && !alter.ColumnIfExists:
		return c.text.ErrorAt(alter.Column.Span(), "the table has no column %s", alter.Column)
	case alter.Action == statement.AddColumn && there && !alter.IfNotExists:
		return c.text.ErrorAt(alter.Column.Span(), "the table has a column %s already", alter.Column)
	}
	return nil
}

// addColumn reads the column that is added.
func (c *Change) addColumn(ctx context.Context) (func(context.Context, *table.Table) (*table.Snapshot, error), error) {
	alter := c.text.Alter
	columns, err := c.declared(ctx, []statement.ColumnDef{alter.Definition})
	if err != nil {
		return nil, err
	}
	if alter.Definition.NotNull {
		return nil, c.text.ErrorAt(alter.Definition.Default, "column %s must not be null, and is null in every row", alter.Column)
	}
	path := alter.Column.Path()
	return func(ctx context.Context, t *table.Table) (*table.Snapshot, error) {
		return t.AddColumn(ctx, c.session.Branch, path[:len(path)-1], columns.Field(0))
	}, nil
}

// alterSettings reads SET (…).
func (c *Change) alterSettings() (func(context.Context, *table.Table) (*table.Snapshot, error), error) {
	settings, err := c.settings(c.text.Alter.Settings)
	return func(ctx context.Context, t *table.Table) (*table.Snapshot, error) {
		return t.Set(ctx, c.session.Branch, settings)
	}, err
}
