package catalog

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/table"
)

// DropTable removes a table: first the row that registers it, then its folder
// with all that lies in it. What a crash leaves of the folder is as table.Drop
// says; a table of schema main can be seen again then, until it is dropped once
// more. A row without a folder, or with one that has no version, is dropped as
// well, so that its name is free again.
//
// fault.NotFound as for Table, fault.Precondition when rows of other names point
// at the same folder.
func (c *Catalog) DropTable(ctx context.Context, name Name) error {
	name = c.complete(name)
	r, err := c.root(name.Catalog)
	if err != nil {
		return err
	}
	rows, err := r.rows(ctx)
	if err != nil {
		return err
	}
	id, loc, err := c.registration(r, rows, name)
	if err != nil {
		return err
	}
	var t *table.Table
	if id == "" {
		if t, err = c.Table(ctx, name); err != nil {
			return err
		}
		loc = t.Root()
	}
	err = r.edit(ctx, c.env, func(rows *registered) (edit, error) {
		for _, of := range slices.Sorted(maps.Keys(rows.tables)) {
			if at, err := r.locate(of, rows.tables[of]); err == nil && at.Path == loc.Path && of != id {
				return edit{}, fault.New(fault.Precondition, "catalog: table %s cannot be dropped: its folder is registered as table %s too", name, of)
			}
		}
		if _, there := rows.tables[id]; id == "" || !there {
			return edit{}, nil
		}
		return edit{remove: []string{id}}, nil
	})
	if err != nil {
		return err
	}
	if t == nil {
		t = table.New(c.env, loc, name.Table)
	}
	err = t.Drop(ctx)
	if id != "" && fault.KindOf(err) == fault.NotFound {
		err = removeDeclared(ctx, loc)
	}
	if err != nil {
		return fmt.Errorf("catalog: table %s: %w", name, err)
	}
	return nil
}

// registration finds the row of a name: its id and the folder it points at, or
// an empty id when there is none.
func (c *Catalog) registration(r *root, rows *registered, name Name) (string, objstore.Location, error) {
	for _, id := range name.ids() {
		if location, ok := rows.tables[id]; ok {
			loc, err := r.locate(id, location)
			return id, loc, err
		}
	}
	return "", objstore.Location{}, nil
}

// reserved marks a folder that a client declared and has written nothing to.
const reserved = ".lance-reserved"

// removeDeclared removes the mark of a folder that was declared only. Anything
// else in it may be what a writer is about to publish, and stays.
func removeDeclared(ctx context.Context, loc objstore.Location) error {
	for e, err := range loc.List(ctx) {
		if err != nil {
			return err
		}
		if e.Name != reserved {
			return loc.Join(reserved).Delete(ctx)
		}
	}
	err := objstore.RemoveFolder(ctx, loc)
	if fault.KindOf(err) == fault.Unsupported {
		err = loc.Join(reserved).Delete(ctx)
	}
	return err
}
