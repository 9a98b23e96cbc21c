package catalog

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/flightblob/flightblob/internal/fault"
)

// CreateSchema registers a child namespace; __manifest is made if it is
// missing. A nested one is written by its path, joined by "$", and its parents
// must be there. fault.Exists when a schema or a table has the name.
func (c *Catalog) CreateSchema(ctx context.Context, s Schema) error {
	if s.Catalog == "" {
		s.Catalog = c.roots[0].name
	}
	r, err := c.root(s.Catalog)
	if err != nil {
		return err
	}
	if s.Name == Main {
		return fault.New(fault.Exists, "catalog: schema %s.%s exists already: every catalog has it", r.name, Main)
	}
	if err := checkNewSchema(s.Name); err != nil {
		return err
	}
	return r.edit(ctx, c.env, func(rows *registered) (edit, error) {
		if slices.Contains(rows.namespaces, s.Name) {
			return edit{}, fault.New(fault.Exists, "catalog: schema %s.%s exists already", r.name, s.Name)
		}
		if _, taken := rows.tables[s.Name]; taken {
			return edit{}, fault.New(fault.Exists, "catalog: schema %s.%s cannot be created: a table is registered as %s", r.name, s.Name, s.Name)
		}
		if i := strings.LastIndex(s.Name, separator); i >= 0 && !slices.Contains(rows.namespaces, s.Name[:i]) {
			return edit{}, fault.New(fault.NotFound, "catalog: schema %s.%s cannot be created: there is no schema %q that it could be in", r.name, s.Name, s.Name[:i])
		}
		return edit{add: []entry{{id: s.Name, kind: typeNamespace}}}, nil
	})
}

// DropSchema takes a child namespace off __manifest. It must be empty: one with
// tables or schemas in it, whether or not they have folders, is
// fault.Precondition. fault.NotFound when there is none.
func (c *Catalog) DropSchema(ctx context.Context, s Schema) error {
	if s.Catalog == "" {
		s.Catalog = c.roots[0].name
	}
	r, err := c.root(s.Catalog)
	if err != nil {
		return err
	}
	if s.Name == Main {
		return fault.New(fault.Precondition, "catalog: schema %s.%s cannot be dropped: it holds the tables right under the root", r.name, Main)
	}
	return r.edit(ctx, c.env, func(rows *registered) (edit, error) {
		var held []string
		for id := range rows.tables {
			if strings.HasPrefix(id, s.Name+separator) {
				held = append(held, "table "+strings.TrimPrefix(id, s.Name+separator))
			}
		}
		for _, id := range rows.namespaces {
			if strings.HasPrefix(id, s.Name+separator) {
				held = append(held, "schema "+id)
			}
		}
		switch {
		case len(held) > 0:
			slices.Sort(held)
			more := ""
			if len(held) > 3 {
				held, more = held[:3], fmt.Sprintf(" and %d more", len(held)-3)
			}
			return edit{}, fault.New(fault.Precondition, "catalog: schema %s.%s cannot be dropped: it holds %s%s", r.name, s.Name, strings.Join(held, ", "), more)
		case !slices.Contains(rows.namespaces, s.Name):
			hint := ""
			if near := nearest(s.Name, rows.schemas()); len(near) > 0 {
				hint = "; did you mean " + strings.Join(near, " or ") + "?"
			}
			return edit{}, fault.New(fault.NotFound, "catalog: schema %s.%s does not exist%s", r.name, s.Name, hint)
		}
		return edit{remove: []string{s.Name}}, nil
	})
}
