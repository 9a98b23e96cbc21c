package query

import (
	"context"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/flightblob/flightblob/catalog"
	"github.com/flightblob/flightblob/internal/fault"
)

// prepareSchema checks CREATE SCHEMA and DROP SCHEMA: the catalog must exist.
// Whether the schema does is looked at when the statement runs.
func (c *Change) prepareSchema(context.Context) error {
	if _, err := c.schemaNamed(); err != nil {
		return err
	}
	c.do = func(ctx context.Context, c *Change, _ []arrow.RecordBatch) (Outcome, error) {
		if c.text.Create != nil {
			return Outcome{}, c.createSchema(ctx)
		}
		return Outcome{}, c.dropSchema(ctx)
	}
	return nil
}

// schemaNamed is the schema of the statement: of the session's catalog unless it
// names one. A nested schema is its path, joined by "$".
func (c *Change) schemaNamed() (catalog.Schema, error) {
	path := c.text.Target.Path()
	s := catalog.Schema{Catalog: c.session.Catalog, Name: path[len(path)-1]}
	if len(path) > 1 {
		s.Catalog = path[0]
	}
	catalogs := c.engine.cat.Catalogs()
	if s.Catalog == "" {
		s.Catalog = catalogs[0]
	}
	for _, name := range catalogs {
		if strings.EqualFold(name, s.Catalog) {
			s.Catalog = name
			return s, nil
		}
	}
	return s, fault.New(fault.NotFound, "query: there is no catalog %q; there is %s. A schema within a schema is written by its path: %q",
		s.Catalog, strings.Join(catalogs, ", "), strings.Join(path, "$"))
}

// sameSchema finds the schema that a name means: that one, else the one that
// differs in the case of letters.
func (c *Change) sameSchema(ctx context.Context, s catalog.Schema) (catalog.Schema, bool, error) {
	all, err := c.engine.cat.Schemas(ctx)
	if err != nil {
		return s, false, err
	}
	near, found := s, false
	for _, have := range all {
		switch {
		case have == s:
			return s, true, nil
		case have.Catalog == s.Catalog && strings.EqualFold(have.Name, s.Name):
			near, found = have, true
		}
	}
	return near, found, nil
}

func (c *Change) createSchema(ctx context.Context) error {
	s, err := c.schemaNamed()
	if err != nil {
		return err
	}
	have, found, err := c.sameSchema(ctx, s)
	if err != nil {
		return err
	}
	if !found {
		err = c.engine.cat.CreateSchema(ctx, s)
		found = fault.KindOf(err) == fault.Exists // another one was faster
		have = s
	}
	switch {
	case found && c.text.Create.IfNotExists:
		return nil
	case found:
		return fault.New(fault.Exists, "query: schema %s.%s exists already; CREATE SCHEMA IF NOT EXISTS leaves it", have.Catalog, have.Name)
	}
	return err
}

func (c *Change) dropSchema(ctx context.Context) error {
	s, err := c.schemaNamed()
	if err != nil {
		return err
	}
	have, _, err := c.sameSchema(ctx, s)
	if err == nil {
		err = c.engine.cat.DropSchema(ctx, have)
	}
	if c.text.Drop.IfExists && fault.KindOf(err) == fault.NotFound {
		return nil
	}
	return err
}
