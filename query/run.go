package query

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/flightblob/flightblob/blob"
	"github.com/flightblob/flightblob/catalog"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/query/engine"
	"github.com/flightblob/flightblob/query/reference"
	"github.com/flightblob/flightblob/query/statement"
	"github.com/flightblob/flightblob/table"
	"github.com/flightblob/flightblob/table/manifest"
)

// Pin says which version a table had for a statement.
type Pin struct {
	Name catalog.Name
	Ref  table.Ref // branch and version
}

// run is one connection with everything that a statement on it needs: pinned
// versions, origins of blob values, and why something failed.
type run struct {
	engine  *Engine
	conn    *engine.Conn
	session Session

	ctx    context.Context // of scans and of blob functions
	cancel context.CancelCauseFunc

	// payload says that functions of the statement read blob values, so that
	// scans hand over fewer rows at a time.
	payload atomic.Bool

	// first are the rows of a call that are enough for the statement.
	first first

	// listing says that the connection is one to the engine of empty tables.
	listing bool

	// filter is the version that a filter without a statement reads.
	filter *table.Snapshot

	mu        sync.Mutex
	snapshots map[pinKey]*table.Snapshot
	pins      []Pin
	relations map[string]*relation // by call, for the columns that a plan names
	late      map[tableColumn]bool // columns that the engine does not get, where that is worthwhile
	few       bool                 // few rows are likely to come out
	looked    looked               // what scans may leave out
	params    map[string]any       // values of parameters, for looked
	sources   map[sourceKey]uint32
	failed    error
}

type pinKey struct {
	name catalog.Name
	ref  string
}

type sourceKey struct {
	snapshot *table.Snapshot
	object   string
}

// newRun opens a connection for a statement of a session.
func (e *Engine) newRun(ctx context.Context, s Session) (*run, error) {
	conn, err := e.db.Connect()
	if err != nil {
		return nil, err
	}
	r := &run{
		engine: e, conn: conn, session: s,
		snapshots: map[pinKey]*table.Snapshot{},
		relations: map[string]*relation{}, sources: map[sourceKey]uint32{},
	}
	r.ctx, r.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	e.mu.Lock()
	e.runs[conn.ID()] = r
	e.mu.Unlock()
	err = r.use(ctx)
	if err != nil && strings.Contains(err.Error(), "No catalog + schema named") {
		if err = r.makeSchema(ctx); err == nil {
			err = r.use(ctx)
		}
	}
	if err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

// use makes the session's schema the one that unqualified names are in.
func (r *run) use(ctx context.Context) error {
	return r.conn.Exec(ctx, "USE "+engine.Quote(r.catalog())+"."+engine.Quote(r.schema()))
}

// makeSchema tells the engine of a schema of the catalog that it has not heard
// of yet.
func (r *run) makeSchema(ctx context.Context) error {
	schemas, err := r.engine.cat.Schemas(ctx)
	if err != nil {
		return err
	}
	for _, s := range schemas {
		if strings.EqualFold(s.Catalog, r.catalog()) && strings.EqualFold(s.Name, r.schema()) {
			return r.engine.views.schema(ctx, s.Catalog, s.Name)
		}
	}
	return fault.New(fault.NotFound, "query: the session's schema %s.%s does not exist", r.catalog(), r.schema())
}

func (r *run) catalog() string {
	if r.session.Catalog == "" {
		return r.engine.cat.Catalogs()[0]
	}
	return r.session.Catalog
}

func (r *run) schema() string {
	if r.session.Schema == "" {
		return catalog.Main
	}
	return r.session.Schema
}

// errClosed is why what a closed run started stops.
var errClosed = errors.New("query: the statement was closed")

// close ends the run. Its results and prepared statements must be closed.
func (r *run) close() {
	r.cancel(errClosed)
	r.engine.forget(r)
	r.conn.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.sources {
		r.engine.registry.Remove(s)
	}
	r.sources = nil
}

// forget ends that table functions on the run's connection are the run's.
func (e *Engine) forget(r *run) {
	if r.listing { // of another engine, with numbers of its own
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.runs, r.conn.ID())
}

// while makes scans and functions of the run end with ctx, until the returned
// function is called.
func (r *run) while(ctx context.Context) func() {
	stop := context.AfterFunc(ctx, func() { r.cancel(context.Cause(ctx)) })
	return func() { stop() }
}

// fail keeps the first failure of what the engine called.
func (r *run) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed == nil {
		r.failed = err
	}
}

// explain gives the failure behind an error of the engine: what a scan or a
// function said with its kind, if that is what went wrong.
func (r *run) explain(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed != nil {
		err = at(err, r.failed)
		r.failed = nil
	}
	return advise(err)
}

// at puts another error in the place of one of the engine.
func at(err, other error) error {
	var p *engine.Placed
	if errors.As(err, &p) {
		return &engine.Placed{Offset: p.Offset, Err: other}
	}
	return other
}

// advise adds what to write to errors about the types of blob columns.
func advise(err error) error {
	text := err.Error()
	if fault.KindOf(err) == fault.Invalid && strings.Contains(text, reference.TypeName) && !strings.Contains(text, "blob_bytes(b)") {
		return fault.New(fault.Invalid, "%w\n%s is a blob column: %s", err, reference.TypeName, engine.Advice)
	}
	return err
}

// snapshot pins a table's version: the same for the whole run.
func (r *run) snapshot(name catalog.Name, ref table.Ref) (*table.Snapshot, error) {
	unpinned := ref == (table.Ref{})
	if unpinned {
		for _, p := range r.session.Pins {
			if p.Name == name {
				ref = p.Ref
			}
		}
	}
	if unpinned == (ref == (table.Ref{})) { // not one of the session's pins, which know their branch
		ref = r.session.on(ref)
	}
	key := pinKey{name, ref.String()}
	r.mu.Lock()
	known := r.snapshots[key]
	r.mu.Unlock()
	if known != nil {
		return known, nil
	}
	t, err := r.engine.cat.Table(r.ctx, name)
	if err != nil {
		return nil, err
	}
	s, err := t.At(r.ctx, ref)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.snapshots[key]; known != nil {
		return known, nil
	}
	r.snapshots[key] = s
	if unpinned || slices.ContainsFunc(r.session.Pins, func(p Pin) bool { return p.Name == name && p.Ref == ref }) {
		r.pins = append(r.pins, Pin{name, s.Ref()})
	}
	return s, nil
}

// on gives a reference that names no branch that of the session.
func (s Session) on(ref table.Ref) table.Ref {
	if ref.Branch == "" && ref.Tag == "" && !manifest.IsDetached(ref.Version) {
		ref.Branch = s.Branch
	}
	return ref
}

// find turns a name as SQL writes it into a table: exactly that one, else the
// only one that differs in the case of letters.
func (r *run) find(text string) (catalog.Name, error) {
	parsed, err := statement.ParseName(text)
	if err != nil {
		// A table whose name SQL would have to quote is meant all the same.
		exact := catalog.Name{Catalog: r.catalog(), Schema: r.schema(), Table: text}
		if _, lost := r.engine.cat.Table(r.ctx, exact); lost == nil {
			return exact, nil
		}
		return catalog.Name{}, err
	}
	return r.resolve(parsed.Path())
}

func (r *run) resolve(path []string) (catalog.Name, error) {
	var found []catalog.Name
	for _, name := range r.candidates(path) {
		names, err := r.engine.cat.Match(r.ctx, name)
		if err != nil {
			return name, err
		}
		for _, n := range names {
			if n.Table == name.Table {
				return n, nil
			}
		}
		found = append(found, names...)
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		first := r.candidates(path)[0]
		_, err := r.engine.cat.Table(r.ctx, first)
		if err == nil {
			return first, nil
		}
		return first, err
	}
	return found[0], ambiguous(path, found)
}

// ambiguous is the error for a name that means several tables.
func ambiguous(path []string, found []catalog.Name) error {
	var names []string
	for _, n := range found {
		names = append(names, n.String())
	}
	return fault.New(fault.Invalid, "query: %s may be %s, which differ only in case; write lance_scan('%s') with the exact name",
		strings.Join(path, "."), strings.Join(names, " or "), engine.Quote(found[0].Table))
}

// candidates are the tables that a name of one to three parts can mean: two
// parts are schema and table, or catalog and table of schema main.
func (r *run) candidates(path []string) []catalog.Name {
	switch len(path) {
	case 1:
		return []catalog.Name{{Catalog: r.catalog(), Schema: r.schema(), Table: path[0]}}
	case 2:
		return []catalog.Name{
			{Catalog: r.catalog(), Schema: path[0], Table: path[1]},
			{Catalog: path[0], Schema: catalog.Main, Table: path[1]},
		}
	}
	return []catalog.Name{{Catalog: path[0], Schema: path[1], Table: path[2]}}
}

// numberer gives the source numbers for the values of one blob leaf in one data
// file. Values that no data file owns have one number for the whole version, so
// that equal references compare equal whatever fragment they are in.
type numberer struct {
	run      *run
	snapshot *table.Snapshot
	resolver *blob.Resolver
	owner    *blob.Owner
	file     *uint32
	shared   *uint32
	base     *uint32
}

func (n *numberer) of(kind blob.Kind) (uint32, error) {
	slot, owner := &n.file, n.owner
	switch kind {
	case blob.External, blob.ManagedBase:
		slot, owner = &n.shared, &shared
	case blob.Managed:
		slot = &n.base
	}
	if owner == nil {
		return 0, fault.New(fault.Internal, "query: a blob value without a data file")
	}
	if *slot == nil {
		object := "file " + owner.File.String()
		switch slot {
		case &n.shared:
			object = ""
		case &n.base:
			object = "base " + owner.Base.String()
		}
		number := n.run.source(n.snapshot, object, n.resolver, owner)
		*slot = &number
	}
	return **slot, nil
}

// shared owns values that no data file does.
var shared = blob.Owner{Immutable: true}

// source gives the number of an origin, the same for the same place.
func (r *run) source(s *table.Snapshot, object string, resolver *blob.Resolver, owner *blob.Owner) uint32 {
	key := sourceKey{s, object}
	r.mu.Lock()
	defer r.mu.Unlock()
	if n, ok := r.sources[key]; ok {
		return n
	}
	n := r.engine.registry.Add(&reference.Origin{
		Context: r.ctx, Resolver: resolver, Owner: owner, Fail: r.fail,
		Where: func(v reference.Value) string { return r.where(s, v) }, From: s,
	})
	if r.sources != nil { // not closed meanwhile
		r.sources[key] = n
	}
	return n
}
