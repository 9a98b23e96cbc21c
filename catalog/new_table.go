package catalog

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/table"
)

// NewTable gives the place of a table that does not exist yet; nothing is made.
// Its first version, once published, makes it known: in schema main by the name
// of its folder, and where there is a __manifest, as elsewhere, by a row.
//
// fault.Invalid for a name that LanceDB could not open, fault.Exists when a
// table, a row or a schema has the name, fault.NotFound for an absent schema. Of
// two that create the same table one wins, the other's Commit is fault.Exists.
func (c *Catalog) NewTable(ctx context.Context, name Name) (*table.Table, error) {
	name = c.complete(name)
	r, err := c.root(name.Catalog)
	if err != nil {
		return nil, err
	}
	if err := checkNewName("table", name.Table); err != nil {
		return nil, err
	}
	rows, err := r.rows(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.free(r, rows, name); err != nil {
		return nil, err
	}
	id := name.objectID()
	if name.Schema != Main {
		folder := randomFolder(id)
		if len(folder) > longestFile {
			return nil, fault.New(fault.Invalid, "catalog: the names of table %s have %d bytes together, more than %d", name, len(id), longestFile-len(folder)+len(id))
		}
		t := table.New(c.env, r.loc.Join(folder), name.Schema+"."+name.Table)
		t.OnCreate(func(ctx context.Context) error { return c.registerChild(ctx, r, name, folder, t) })
		return t, nil
	}
	folder := name.Table + folderSuffix
	loc := r.loc.Join(folder)
	if of, taken := r.pointing(rows, loc); taken {
		return nil, fault.New(fault.Exists, "catalog: table %s cannot be created: its folder is that of table %s", name, of)
	}
	seen, err := inspect(ctx, loc)
	switch {
	case err != nil:
		return nil, fmt.Errorf("catalog: table %s: %w", name, err)
	case seen.versions && seen.deregistered:
		return nil, fault.New(fault.Exists, "catalog: table %s cannot be created: its folder holds one that was taken off the list; remove %s to see it", name, deregistered)
	case seen.versions:
		return nil, fault.New(fault.Exists, "catalog: table %s exists already", name)
	}
	t := table.New(c.env, loc, name.Table)
	t.OnCreate(func(ctx context.Context) error { return c.registerMain(ctx, r, name, folder) })
	return t, nil
}

// free says whether no row stands in the way of a new table.
func (c *Catalog) free(r *root, rows *registered, name Name) error {
	for _, id := range name.ids() {
		if _, taken := rows.tables[id]; taken {
			return fault.New(fault.Exists, "catalog: table %s exists already: it is registered", name)
		}
	}
	switch {
	case slices.Contains(rows.namespaces, name.objectID()):
		return fault.New(fault.Exists, "catalog: table %s cannot be created: a schema has its name", name)
	case name.Schema != Main && !slices.Contains(rows.namespaces, name.Schema):
		hint := "; CREATE SCHEMA makes one"
		if near := nearest(name.Schema, rows.schemas()); len(near) > 0 {
			hint = "; did you mean " + strings.Join(near, " or ") + "?"
		}
		return fault.New(fault.NotFound, "catalog: table %s cannot be created: catalog %s has no schema %q%s", name, r.name, name.Schema, hint)
	}
	return nil
}

// registerMain adds a row for a table of schema main, where there is a
// __manifest: clients that go by rows could not drop it otherwise. A root that
// only plain clients use stays without.
func (c *Catalog) registerMain(ctx context.Context, r *root, name Name, folder string) error {
	err := r.edit(ctx, c.env, func(rows *registered) (edit, error) {
		if rows.of == nil {
			return edit{}, nil
		}
		if location, taken := rows.tables[name.Table]; taken && location == folder {
			return edit{}, nil // another client was faster to register the same table
		}
		if err := c.free(r, rows, name); err != nil {
			return edit{}, err
		}
		return edit{add: []entry{{id: name.objectID(), kind: typeTable, location: folder}}}, nil
	})
	if err != nil {
		return fmt.Errorf("catalog: table %s was created, but is not registered: %w", name, err)
	}
	return nil
}

// registerChild adds the row that makes a table of a child namespace known, or
// removes the table when that cannot be done.
func (c *Catalog) registerChild(ctx context.Context, r *root, name Name, folder string, t *table.Table) error {
	err := r.edit(ctx, c.env, func(rows *registered) (edit, error) {
		if err := c.free(r, rows, name); err != nil {
			return edit{}, err
		}
		return edit{add: []entry{{id: name.objectID(), kind: typeTable, location: folder}}}, nil
	})
	if err == nil {
		return nil
	}
	if !uncertain(err) {
		// Nobody knows the folder; one that stays behind takes space only.
		_ = t.Drop(context.WithoutCancel(ctx))
	}
	return fmt.Errorf("catalog: table %s: %w", name, err)
}

// randomFolder names the folder of a table in a child namespace.
func randomFolder(id string) string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:]) + "_" + id
}

// pointing gives the id of a row whose location is a folder.
func (r *root) pointing(rows *registered, at objstore.Location) (string, bool) {
	for id, location := range rows.tables {
		if loc, err := r.locate(id, location); err == nil && loc.Path == at.Path {
			return id, true
		}
	}
	return "", false
}
