package catalog

import (
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/internal/spelling"
)

// Main is the schema of the tables that lie right under a root.
const Main = "main"

// DefaultCatalog is the name of a root that was given none.
const DefaultCatalog = "lance"

// separator joins a namespace path; a nested namespace is one schema.
const separator = "$"

// Name is the full name of a table. Matching is exact, case included.
type Name struct{ Catalog, Schema, Table string }

// String joins the parts by dots.
func (n Name) String() string { return n.Catalog + "." + n.Schema + "." + n.Table }

// objectID is the name's id in __manifest.
func (n Name) objectID() string {
	if n.Schema == Main {
		return n.Table
	}
	return n.Schema + separator + n.Table
}

// Resolve completes a path of one to three parts: [table], [schema, table] or
// [catalog, schema, table]. Empty leading parts are the default ones: the first
// catalog, and schema main. Other lengths and an empty table are fault.Invalid.
func (c *Catalog) Resolve(path []string) (Name, error) {
	if len(path) == 0 || len(path) > 3 || path[len(path)-1] == "" {
		return Name{}, fault.New(fault.Invalid,
			"catalog: a table path is [table], [schema, table] or [catalog, schema, table], got %q", path)
	}
	n := Name{Table: path[len(path)-1]}
	if len(path) > 1 {
		n.Schema = path[len(path)-2]
	}
	if len(path) > 2 {
		n.Catalog = path[0]
	}
	return c.complete(n), nil
}

func (c *Catalog) complete(n Name) Name {
	if n.Catalog == "" {
		n.Catalog = c.roots[0].name
	}
	if n.Schema == "" {
		n.Schema = Main
	}
	return n
}

// nearest picks at most three names that are close to one that does not exist,
// the closest first.
func nearest(name string, have []string) []string {
	if name == "" {
		return nil
	}
	return spelling.Nearest(name, have, 3, min(max(2, len(name)/3), len(name)-1))
}
