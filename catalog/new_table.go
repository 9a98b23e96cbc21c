package catalog

import (
	"context"
	"fmt"
	"regexp"
	"slices"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/table"
)

// plainName is what LanceDB allows as the name of a table or namespace; others
// could be written and then not be opened by everyone.
var plainName = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)

func checkNewName(what, name string) error {
	if !plainName.MatchString(name) || name == "." || name == ".." || name == manifestTable {
		return fault.New(fault.Invalid, "catalog: a new %s cannot be called %q; letters, digits, underscore, dot and minus are allowed", what, name)
	}
	return nil
}

// NewTable gives the place of a table that does not exist yet; nothing is made.
// A table of that name is fault.Exists, an absent schema fault.NotFound.
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
	if !slices.Contains(rows.schemas(), name.Schema) {
		return nil, fault.New(fault.NotFound, "catalog: table %s cannot be created: catalog %s has no schema %q; CREATE SCHEMA makes one", name, name.Catalog, name.Schema)
	}
	if name.Schema != Main {
		return nil, fault.New(fault.Unsupported, "catalog: table %s: tables of child namespaces are not created by this server yet", name)
	}
	_, err = c.Table(ctx, name)
	switch {
	case err == nil:
		return nil, fault.New(fault.Exists, "catalog: table %s exists already", name)
	case fault.KindOf(err) != fault.NotFound:
		return nil, fmt.Errorf("catalog: table %s: %w", name, err)
	}
	return table.New(c.env, r.loc.Join(name.Table+folderSuffix), name.Table), nil
}
