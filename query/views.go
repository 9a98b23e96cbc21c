package query

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/flightblob/flightblob/catalog"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/query/engine"
)

// views keeps the engine's names in step with the catalog's: a view for each
// table that a statement has named. One goroutine at a time changes them, since
// the engine refuses two that make the same one.
//
// A view binds anew at each use, so nothing has to change when a table does.
type views struct {
	engine *Engine

	mu      sync.Mutex
	conn    *engine.Conn
	schemas map[string]bool         // as the engine compares names
	made    map[string]catalog.Name // what each view reads
}

func newViews(e *Engine) (*views, error) {
	conn, err := e.db.Connect()
	if err != nil {
		return nil, err
	}
	v := &views{engine: e, conn: conn, schemas: map[string]bool{}, made: map[string]catalog.Name{}}
	for _, c := range e.cat.Catalogs() {
		v.schemas[folded(c, catalog.Main)] = true
	}
	return v, nil
}

func (v *views) close() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.conn.Close()
}

func folded(parts ...string) string { return strings.ToLower(strings.Join(parts, "\x00")) }

// schema makes a schema that is not there yet.
func (v *views) schema(ctx context.Context, cat, schema string) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.schemaLocked(ctx, cat, schema)
}

func (v *views) schemaLocked(ctx context.Context, cat, schema string) error {
	key := folded(cat, schema)
	if v.schemas[key] {
		return nil
	}
	if err := v.conn.Exec(ctx, "CREATE SCHEMA IF NOT EXISTS "+engine.Quote(cat)+"."+engine.Quote(schema)); err != nil {
		return fmt.Errorf("query: schema %s.%s: %w", cat, schema, err)
	}
	v.schemas[key] = true
	return nil
}

// table makes the view of a table.
func (v *views) table(ctx context.Context, n catalog.Name) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	key := folded(n.Catalog, n.Schema, n.Table)
	if v.made[key] == n {
		return nil
	}
	if err := v.schemaLocked(ctx, n.Catalog, n.Schema); err != nil {
		return err
	}
	sql := fmt.Sprintf("CREATE OR REPLACE VIEW %s AS SELECT * EXCLUDE (%s) FROM %s(%s, %s, %s)", quoted(n), virtualColumn, viewFunction,
		literal(n.Catalog), literal(n.Schema), literal(n.Table))
	if err := v.conn.Exec(ctx, sql); err != nil {
		return fmt.Errorf("query: table %s: %w", n, err)
	}
	v.made[key] = n
	return nil
}

// drop removes the view of a table that is no more.
func (v *views) drop(ctx context.Context, n catalog.Name) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	key := folded(n.Catalog, n.Schema, n.Table)
	if _, ok := v.made[key]; !ok {
		return nil
	}
	if err := v.conn.Exec(ctx, "DROP VIEW IF EXISTS "+quoted(n)); err != nil {
		return fmt.Errorf("query: table %s: %w", n, err)
	}
	delete(v.made, key)
	return nil
}

// named makes the view that a name in a statement means, if it means a table.
func (v *views) named(ctx context.Context, r *run, path []string) error {
	for _, candidate := range r.candidates(path) {
		found, err := v.engine.cat.Match(ctx, candidate)
		if err != nil {
			return err
		}
		switch len(found) {
		case 0:
			if err := v.drop(ctx, candidate); err != nil {
				return err
			}
			continue
		case 1:
			return v.table(ctx, found[0])
		}
		return ambiguous(path, found)
	}
	return nil
}

func quoted(n catalog.Name) string {
	return engine.Quote(n.Catalog) + "." + engine.Quote(n.Schema) + "." + engine.Quote(n.Table)
}

func literal(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// missing explains a name that the engine does not know by the tables there
// are.
func (r *run) missing(ctx context.Context, err error, named *tree) error {
	if named == nil || fault.KindOf(err) != fault.NotFound || !strings.Contains(err.Error(), "Table with name") {
		return err
	}
	for _, path := range named.tables {
		if !strings.Contains(strings.ToLower(err.Error()), strings.ToLower("name "+path[len(path)-1]+" ")) {
			continue
		}
		if _, lost := r.engine.cat.Table(ctx, r.candidates(path)[0]); lost != nil && fault.KindOf(lost) == fault.NotFound {
			return at(err, lost)
		}
	}
	return err
}
