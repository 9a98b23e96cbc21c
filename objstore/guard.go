package objstore

import (
	"context"
	"iter"

	"github.com/flightblob/flightblob/internal/fault"
)

// Guard gives the same location in a store that checks every call against a.
//
// On local files the check is about what was really opened, after links are
// resolved, and the file that was checked is the one that is read; writes
// happen in the folder that was checked. Elsewhere
// it is about the literal path; "." and ".." components are refused. Guarding
// again with the same access changes nothing, and the same store guarded in
// two places gives the same store, so locations stay comparable. Guarding a
// guarded store with another access allows what both allow.
func Guard(loc Location, a *Access) Location {
	if loc.Store == nil {
		return loc
	}
	if a == nil {
		a = nothing
	}
	return Location{Store: a.guard(loc.Store), Path: loc.Path}
}

func (a *Access) guard(s Store) Store {
	if a.all {
		return s
	}
	if g, ok := a.guards.Load(s); ok {
		return g.(Store)
	}
	var g Store
	switch inner := s.(type) {
	case counting:
		// Counting stays outermost: a refused call reads nothing.
		c := inner.counted()
		below := a.guard(c.store)
		if below == c.store {
			return s
		}
		g = count(below, c.root, c.counter)
	case *Local:
		g = &guardedLocal{local: inner, access: a}
	case *guardedLocal:
		if inner.access.includes(a) {
			return s
		}
		g = &guardedLocal{local: inner.local, access: &Access{prefixes: a.prefixes, also: inner.access, self: a}}
	case guarding:
		if inner.guardedBy(a) {
			return s
		}
		g = a.guardPlain(s)
	default:
		g = a.guardPlain(s)
	}
	have, _ := a.guards.LoadOrStore(s, g)
	return have.(Store)
}

func (a *Access) guardPlain(s Store) Store {
	plain := &guarded{store: s, access: a}
	if m, ok := s.(Mapper); ok {
		return &guardedMapper{guarded: plain, mapper: m}
	}
	return plain
}

// guarding marks guarded stores that are not local.
type guarding interface {
	Store
	guardedBy(a *Access) bool
}

// guardedLocal checks inside the local store, between resolving and opening.
type guardedLocal struct {
	local  *Local
	access *Access
}

func (g *guardedLocal) ReadAt(ctx context.Context, path string, p []byte, off int64) error {
	return g.local.readAt(ctx, path, p, off, g.access)
}

func (g *guardedLocal) Size(ctx context.Context, path string) (int64, error) {
	return g.local.size(ctx, path, g.access)
}

func (g *guardedLocal) List(ctx context.Context, dir string) iter.Seq2[Entry, error] {
	return g.local.list(ctx, dir, every, g.access)
}

func (g *guardedLocal) Map(ctx context.Context, path string) (Mapping, error) {
	return g.local.mapFile(ctx, path, g.access)
}

func (g *guardedLocal) ReadWhole(ctx context.Context, path string, limit int64) ([]byte, error) {
	return g.local.readWhole(ctx, path, limit, g.access)
}

func (g *guardedLocal) Create(ctx context.Context, path string) (Writer, error) {
	return g.local.create(ctx, path, g.access)
}

func (g *guardedLocal) PutIfAbsent(ctx context.Context, path string, data []byte) error {
	return g.local.putIfAbsent(ctx, path, data, g.access)
}

func (g *guardedLocal) Put(ctx context.Context, path string, data []byte) error {
	return g.local.put(ctx, path, data, g.access)
}

func (g *guardedLocal) Delete(ctx context.Context, path string) error {
	return g.local.remove(ctx, path, g.access)
}

func (g *guardedLocal) CopyObject(ctx context.Context, from, to string) error {
	return g.local.copyObject(ctx, from, to, g.access)
}

func (g *guardedLocal) RemoveFolder(ctx context.Context, dir string) error {
	return g.local.removeFolder(ctx, dir, g.access)
}

func (g *guardedLocal) URI(path string) string { return g.local.URI(path) }

// guarded checks the URI of each path before it calls the store.
type guarded struct {
	store  Store
	access *Access
}

func (g *guarded) guardedBy(a *Access) bool {
	if below, ok := g.store.(guarding); ok && below.guardedBy(a) {
		return true
	}
	return g.access == a
}

func (g *guarded) check(path string) error {
	if hasDotComponent(path) {
		return fault.New(fault.Denied, "objstore: %s holds a '.' or '..' component", g.store.URI(path))
	}
	t, err := parseTarget(g.store.URI(path))
	if err != nil {
		return err
	}
	return g.access.checkTarget(t)
}

func (g *guarded) ReadAt(ctx context.Context, path string, p []byte, off int64) error {
	if err := g.check(path); err != nil {
		return err
	}
	return g.store.ReadAt(ctx, path, p, off)
}

func (g *guarded) Size(ctx context.Context, path string) (int64, error) {
	if err := g.check(path); err != nil {
		return 0, err
	}
	return g.store.Size(ctx, path)
}

func (g *guarded) List(ctx context.Context, dir string) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		if err := g.check(dir); err != nil {
			yield(Entry{}, err)
			return
		}
		g.store.List(ctx, dir)(yield)
	}
}

func (g *guarded) ReadWhole(ctx context.Context, path string, limit int64) ([]byte, error) {
	if err := g.check(path); err != nil {
		return nil, err
	}
	return ReadAll(ctx, Location{Store: g.store, Path: path}, limit)
}

func (g *guarded) Create(ctx context.Context, path string) (Writer, error) {
	if err := g.check(path); err != nil {
		return nil, err
	}
	return g.store.Create(ctx, path)
}

func (g *guarded) PutIfAbsent(ctx context.Context, path string, data []byte) error {
	if err := g.check(path); err != nil {
		return err
	}
	return g.store.PutIfAbsent(ctx, path, data)
}

func (g *guarded) Put(ctx context.Context, path string, data []byte) error {
	if err := g.check(path); err != nil {
		return err
	}
	return g.store.Put(ctx, path, data)
}

func (g *guarded) Delete(ctx context.Context, path string) error {
	if err := g.check(path); err != nil {
		return err
	}
	return g.store.Delete(ctx, path)
}

func (g *guarded) CopyObject(ctx context.Context, from, to string) error {
	if err := g.check(from); err != nil {
		return err
	}
	if err := g.check(to); err != nil {
		return err
	}
	return copyObject(ctx, g.store, from, to)
}

func (g *guarded) RemoveFolder(ctx context.Context, dir string) error {
	if err := g.check(dir); err != nil {
		return err
	}
	return removeFolder(ctx, g.store, dir)
}

// Walk yields what the store below yields: all of it lies below the folder that
// was checked.
func (g *guarded) Walk(ctx context.Context, dir string) iter.Seq2[Entry, error] {
	w, ok := g.store.(Walker)
	if !ok {
		return walkLists(ctx, g, dir)
	}
	return func(yield func(Entry, error) bool) {
		if err := g.check(dir); err != nil {
			yield(Entry{}, err)
			return
		}
		w.Walk(ctx, dir)(yield)
	}
}

func (g *guarded) URI(path string) string { return g.store.URI(path) }

// guardedMapper is a guarded store that can lend bytes.
type guardedMapper struct {
	*guarded
	mapper Mapper
}

func (g *guardedMapper) Map(ctx context.Context, path string) (Mapping, error) {
	if err := g.check(path); err != nil {
		return nil, err
	}
	return g.mapper.Map(ctx, path)
}
