package catalog

import (
	"context"
	"fmt"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/table"
)

// DropTable removes a table of schema main that no row of __manifest points at,
// with all that lies in its folder; see table.Drop for what a crash leaves.
// What does not exist is fault.NotFound, as for Table. A registered table is
// fault.Precondition: its row has to go first, or clients that go by rows could
// neither open nor make it.
func (c *Catalog) DropTable(ctx context.Context, name Name) error {
	name = c.complete(name)
	t, err := c.Table(ctx, name)
	if err != nil {
		return err
	}
	r, err := c.root(name.Catalog)
	if err != nil {
		return err
	}
	rows, err := r.rows(ctx)
	if err != nil {
		return err
	}
	if id, ok := r.pointing(rows, t); ok {
		return fault.New(fault.Precondition, "catalog: table %s is registered as %s in %s; deregister it first", name, id, manifestTable)
	}
	if err := t.Drop(ctx); err != nil {
		return fmt.Errorf("catalog: table %s: %w", name, err)
	}
	return nil
}

// pointing gives the id of a row whose location is the table's folder.
func (r *root) pointing(rows *registered, t *table.Table) (string, bool) {
	for id, location := range rows.tables {
		if loc, err := r.locate(id, location); err == nil && loc.Path == t.Root().Path {
			return id, true
		}
	}
	return "", false
}
