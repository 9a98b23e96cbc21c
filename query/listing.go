package query

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/flightblob/flightblob/catalog"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/query/engine"
	"github.com/flightblob/flightblob/schema"
	"github.com/flightblob/flightblob/table"
)

// listing is a second engine, which holds an empty table for each table of the
// catalog, with its columns, their types and NOT NULL. Statements that list or
// describe tables run on it: to the first engine all tables are views, whose
// columns may be null.
type listing struct {
	engine *Engine
	db     *engine.DB

	mu       sync.Mutex
	conn     *engine.Conn
	building engine.Relation // what the table that is being made has for columns
	schemas  map[string]bool
	made     map[string]madeTable
}

// madeTable is a table as it was made.
type madeTable struct {
	name   catalog.Name
	schema *schema.Schema // nil when only the name was wanted, or nothing else is known
}

// listingMemory is what the engine of empty tables may hold.
const listingMemory = 64 << 20

func newListing(e *Engine) (*listing, error) {
	l := &listing{engine: e, schemas: map[string]bool{}, made: map[string]madeTable{}}
	var err error
	l.db, err = engine.Open(engine.Config{
		Threads: 1, Memory: listingMemory, Catalogs: e.cat.Catalogs(), BlobBytes: listingMemory, Small: true,
	}, []engine.TableFunction{{Name: viewFunction, Args: 3}}, l, e.registry)
	if err != nil {
		return nil, err
	}
	if l.conn, err = l.db.Connect(); err != nil {
		l.db.Close()
		return nil, err
	}
	for _, c := range e.cat.Catalogs() {
		l.schemas[folded(c, catalog.Main)] = true
	}
	return l, nil
}

func (l *listing) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conn.Close()
	l.db.Close()
}

// Bind implements engine.Provider.
func (l *listing) Bind(call engine.Call) (engine.Relation, error) {
	if l.building == nil {
		return nil, fault.New(fault.Internal, "query: %s in a list of tables", call.Function)
	}
	return l.building, nil
}

// unreadable stands for a table that cannot be opened, which must not hide the
// others.
var unreadable = arrow.NewSchema([]arrow.Field{{Name: "unreadable", Type: arrow.FixedWidthTypes.Boolean, Nullable: true}}, nil)

// all makes the tables of a catalog, with their columns when those are wanted,
// and removes others. Of two that differ only in case there is one.
func (l *listing) all(ctx context.Context, columns bool) error {
	schemas, err := l.engine.cat.Schemas(ctx)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range schemas {
		if err := l.makeSchema(ctx, s.Catalog, s.Name); err != nil {
			return err
		}
	}
	there := map[string]bool{}
	for n, err := range l.engine.cat.Names(ctx) {
		if err != nil {
			return err
		}
		key := folded(n.Catalog, n.Schema, n.Table)
		if there[key] {
			continue
		}
		there[key] = true
		if old, ok := l.made[key]; ok && old.name == n && !columns {
			continue
		}
		var snap *table.Snapshot
		if columns {
			if snap, err = l.newest(ctx, n); err != nil && ctx.Err() != nil {
				return context.Cause(ctx)
			}
		}
		if err := l.table(ctx, n, snap); err != nil {
			return err
		}
	}
	for key, t := range l.made {
		if !there[key] {
			if err := l.conn.Exec(ctx, "DROP TABLE IF EXISTS "+quoted(t.name)); err != nil {
				return err
			}
			delete(l.made, key)
		}
	}
	return nil
}

// named makes the table that a name means, if it means one.
func (l *listing) named(ctx context.Context, r *run, path []string) error {
	for _, candidate := range r.candidates(path) {
		found, err := l.engine.cat.Match(ctx, candidate)
		switch {
		case err != nil:
			return err
		case len(found) > 1:
			return ambiguous(path, found)
		case len(found) == 0:
			continue
		}
		snap, err := r.snapshot(found[0], table.Ref{})
		if err != nil {
			return err
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if err := l.makeSchema(ctx, found[0].Catalog, found[0].Schema); err != nil {
			return err
		}
		return l.table(ctx, found[0], snap)
	}
	return nil
}

func (l *listing) newest(ctx context.Context, n catalog.Name) (*table.Snapshot, error) {
	t, err := l.engine.cat.Table(ctx, n)
	if err != nil {
		return nil, err
	}
	return t.At(ctx, table.Ref{})
}

func (l *listing) makeSchema(ctx context.Context, cat, name string) error {
	key := folded(cat, name)
	if l.schemas[key] {
		return nil
	}
	if err := l.conn.Exec(ctx, "CREATE SCHEMA IF NOT EXISTS "+engine.Quote(cat)+"."+engine.Quote(name)); err != nil {
		return fmt.Errorf("query: schema %s.%s: %w", cat, name, err)
	}
	l.schemas[key] = true
	return nil
}

// table makes one table, unless it is there with the same columns.
func (l *listing) table(ctx context.Context, n catalog.Name, snap *table.Snapshot) error {
	key := folded(n.Catalog, n.Schema, n.Table)
	now := madeTable{name: n}
	shown := engine.Relation(&rows{schema: unreadable})
	if snap != nil {
		r := &run{engine: l.engine, ctx: ctx}
		if rel, err := r.newRelation(snap, false, false); err == nil {
			shown, now.schema = rel, snap.Schema()
		}
	}
	if old, ok := l.made[key]; ok && old.name == n && old.schema != nil && now.schema != nil && sameColumns(old.schema, now.schema) {
		return nil
	}
	l.building = shown
	defer func() { l.building = nil }()
	var sql strings.Builder
	fmt.Fprintf(&sql, "BEGIN; CREATE OR REPLACE TABLE %s AS FROM %s('', '', '') LIMIT 0", quoted(n), viewFunction)
	if rel, ok := shown.(*relation); ok {
		for _, c := range rel.columns {
			if c.field != nil && !c.field.Nullable {
				fmt.Fprintf(&sql, "; ALTER TABLE %s ALTER COLUMN %s SET NOT NULL", quoted(n), engine.Quote(c.name))
			}
		}
	}
	sql.WriteString("; COMMIT")
	if err := l.conn.Exec(ctx, sql.String()); err != nil {
		_ = l.conn.Exec(context.WithoutCancel(ctx), "ROLLBACK")
		delete(l.made, key)
		return fmt.Errorf("query: table %s: %w", n, err)
	}
	l.made[key] = now
	return nil
}

// lists says that a statement reads the engine's lists of tables, or describes
// tables. Those know nothing of what tables hold, so that one statement reads
// either.
func (r *run) lists(ctx context.Context, t *tree) (bool, error) {
	list, data := t.catalog || len(t.described) > 0, t.own
	listed := func(path []string) bool { return listsName(path) && !t.ctes[strings.ToLower(path[0])] }
	if !list && !slices.ContainsFunc(t.tables, listed) {
		return false, nil
	}
	for _, path := range t.tables {
		found := false
		for _, candidate := range r.candidates(path) {
			names, err := r.engine.cat.Match(ctx, candidate)
			if err != nil {
				return false, err
			}
			found = found || len(names) > 0
		}
		data, list = data || found, list || listed(path) && !found
	}
	if list && data {
		return false, fault.New(fault.Invalid, "query: a statement reads either lists of tables or tables; ask for them one after the other")
	}
	return list, nil
}

// listsName says that the engine has a list of tables under a name, unless the
// catalog has a table of that name.
func listsName(path []string) bool {
	return slices.ContainsFunc(path, func(p string) bool {
		p = strings.ToLower(p)
		return slices.Contains(listings, p) || strings.HasPrefix(p, "duckdb_") || strings.HasPrefix(p, "pg_")
	})
}

// list moves a run to the engine of empty tables, with those that the statement
// wants to know of.
func (r *run) list(ctx context.Context, t *tree) error {
	l := r.engine.listing
	for _, path := range t.described {
		if err := l.named(ctx, r, path); err != nil {
			return err
		}
	}
	if t.catalog || len(t.tables) > 0 {
		if err := l.all(ctx, true); err != nil {
			return err
		}
	}
	conn, err := l.db.Connect()
	if err != nil {
		return err
	}
	r.engine.forget(r)
	r.conn.Close()
	r.conn, r.listing = conn, true
	return r.use(ctx)
}
