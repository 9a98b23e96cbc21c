package catalog

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/table"
)

// Root is a place of tables. Name may be empty when it is the only one.
type Root struct{ Name, URI string }

// Catalog is all roots of a server. Its methods may be called from any
// goroutine.
type Catalog struct {
	env   *table.Env
	roots []*root
}

type root struct {
	name     string
	loc      objstore.Location
	manifest *table.Table // __manifest, whether or not it exists

	mu    sync.Mutex
	known *registered
}

// refused are catalog names that mean something else in SQL.
var refused = []string{"memory", Main, "temp", "system", "information_schema", "pg_catalog"}

// Open checks the names of the roots and finds their places; it reads nothing.
// Refused, empty or repeated names are fault.Invalid. The access of env must
// hold the roots. A root may be a link itself; what it links to is the root.
func Open(ctx context.Context, roots []Root, env *table.Env) (*Catalog, error) {
	if len(roots) == 0 {
		return nil, fault.New(fault.Invalid, "catalog: no root is given")
	}
	c := &Catalog{env: env}
	for _, r := range roots {
		name, err := catalogName(r, len(roots))
		if err != nil {
			return nil, err
		}
		for _, have := range c.roots {
			if strings.EqualFold(have.name, name) {
				return nil, fault.New(fault.Invalid, "catalog: two roots have the name %q", name)
			}
		}
		loc, err := env.Locate(ctx, r.URI)
		if err != nil {
			return nil, fmt.Errorf("catalog: root %q: %w", name, err)
		}
		loc.Path = strings.TrimRight(loc.Path, "/")
		c.roots = append(c.roots, &root{
			name: name, loc: loc,
			manifest: table.New(env, loc.Join(manifestTable), manifestTable),
		})
	}
	return c, nil
}

func catalogName(r Root, of int) (string, error) {
	name := r.Name
	if name == "" {
		if of > 1 {
			return "", fault.New(fault.Invalid, "catalog: with several roots each needs a name, as in --root NAME=URI")
		}
		name = DefaultCatalog
	}
	for _, no := range refused {
		if strings.EqualFold(name, no) {
			return "", fault.New(fault.Invalid, "catalog: a root cannot be called %q, which means something else in SQL; refused are %s",
				name, strings.Join(refused, ", "))
		}
	}
	return name, nil
}

// Env is what the tables of all roots share.
func (c *Catalog) Env() *table.Env { return c.env }

// Catalogs lists the names of the roots, the default one first.
func (c *Catalog) Catalogs() []string {
	names := make([]string, len(c.roots))
	for i, r := range c.roots {
		names[i] = r.name
	}
	return names
}

// Root is the folder of a catalog; fault.NotFound when there is none of the
// name.
func (c *Catalog) Root(catalog string) (objstore.Location, error) {
	r, err := c.root(catalog)
	if err != nil {
		return objstore.Location{}, err
	}
	return r.loc, nil
}

func (c *Catalog) root(name string) (*root, error) {
	for _, r := range c.roots {
		if r.name == name {
			return r, nil
		}
	}
	return nil, fault.New(fault.NotFound, "catalog: there is no catalog %q; there is %s", name, strings.Join(c.Catalogs(), ", "))
}

// Table finds a table. Empty parts of the name are the defaults of Resolve.
// What does not exist is fault.NotFound, naming catalog, schema and table and
// the nearest names that exist. Folders that are only declared, that is,
// without a version, or that are deregistered do not count.
func (c *Catalog) Table(ctx context.Context, name Name) (*table.Table, error) {
	name = c.complete(name)
	r, err := c.root(name.Catalog)
	if err != nil {
		return nil, err
	}
	rows, err := r.rows(ctx)
	if err != nil {
		return nil, err
	}
	label := name.Table
	if name.Schema != Main {
		label = name.Schema + "." + name.Table
	}
	for _, id := range name.ids() {
		location, ok := rows.tables[id]
		if !ok {
			continue
		}
		loc, err := r.locate(id, location)
		if err != nil {
			return nil, err
		}
		t := table.New(c.env, loc, label)
		found, err := t.Exists(ctx)
		if err != nil {
			return nil, fmt.Errorf("catalog: table %s: %w", name, err)
		}
		if found {
			return t, nil
		}
	}
	if name.Schema == Main && folderName(name.Table) {
		loc := r.loc.Join(name.Table + folderSuffix)
		seen, err := inspect(ctx, loc)
		if err != nil {
			return nil, fmt.Errorf("catalog: table %s: %w", name, err)
		}
		if seen.isTable(false) {
			return table.New(c.env, loc, label), nil
		}
	}
	return nil, c.missing(ctx, r, rows, name)
}

// ids are the object ids that a name may have. In schema main a name with the
// separator is no row's: that id belongs to a child namespace. A child
// namespace called main shares its schema with the root, which goes first.
func (n Name) ids() []string {
	if n.Schema != Main {
		return []string{n.objectID()}
	}
	var ids []string
	if !strings.Contains(n.Table, separator) {
		ids = append(ids, n.Table)
	}
	return append(ids, Main+separator+n.Table)
}

// missing explains why a table is not there.
func (c *Catalog) missing(ctx context.Context, r *root, rows *registered, name Name) error {
	schemas := rows.schemas()
	if !slices.Contains(schemas, name.Schema) {
		hint := ""
		if slices.Contains(c.Catalogs(), name.Schema) {
			hint = fmt.Sprintf("; %q is a catalog: name the table %s.%s.%s", name.Schema, name.Schema, Main, name.Table)
		} else if near := nearest(name.Schema, schemas); len(near) > 0 {
			hint = "; did you mean " + strings.Join(near, " or ") + "?"
		}
		return fault.New(fault.NotFound, "catalog: table %s does not exist: catalog %s has no schema %q%s", name, r.name, name.Schema, hint)
	}
	all, err := r.candidates(ctx, rows)
	if err != nil {
		return err
	}
	var have []string
	for _, c := range all {
		switch {
		case c.name == name:
			return fault.New(fault.NotFound, "catalog: table %s does not exist: its folder holds no version or is deregistered", name)
		case c.name.Schema == name.Schema:
			have = append(have, c.name.Table)
		}
	}
	hint := ""
	if near := nearest(name.Table, have); len(near) > 0 {
		hint = "; did you mean " + strings.Join(near, " or ") + "?"
	}
	return fault.New(fault.NotFound, "catalog: table %s does not exist%s", name, hint)
}
