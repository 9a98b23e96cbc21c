package objstore

import (
	"context"
	"iter"
)

// namedLister is implemented by stores to which a child that nobody wants costs
// less than one that is listed.
type namedLister interface {
	// ListNamed is List without the children that keep refuses by their names.
	ListNamed(ctx context.Context, dir string, keep func(name string) bool) iter.Seq2[Entry, error]
}

// ListNamed yields the children of the folder whose names keep accepts. A folder
// of the local file system looks at no others.
func (l Location) ListNamed(ctx context.Context, keep func(name string) bool) iter.Seq2[Entry, error] {
	return listNamed(ctx, l.Store, l.Path, keep)
}

func listNamed(ctx context.Context, s Store, dir string, keep func(name string) bool) iter.Seq2[Entry, error] {
	if n, ok := s.(namedLister); ok {
		return n.ListNamed(ctx, dir, keep)
	}
	return func(yield func(Entry, error) bool) {
		for e, err := range s.List(ctx, dir) {
			if err != nil || keep(e.Name) {
				if !yield(e, err) {
					return
				}
			}
		}
	}
}

// ListNamed implements namedLister.
func (l *Local) ListNamed(ctx context.Context, dir string, keep func(name string) bool) iter.Seq2[Entry, error] {
	return l.list(ctx, dir, keep, everything)
}

func (g *guardedLocal) ListNamed(ctx context.Context, dir string, keep func(name string) bool) iter.Seq2[Entry, error] {
	return g.local.list(ctx, dir, keep, g.access)
}

func (g *guarded) ListNamed(ctx context.Context, dir string, keep func(name string) bool) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		if err := g.check(dir); err != nil {
			yield(Entry{}, err)
			return
		}
		listNamed(ctx, g.store, dir, keep)(yield)
	}
}

func (c *countedStore) ListNamed(ctx context.Context, dir string, keep func(name string) bool) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		c.counter.note(c.root, dir, Count{Lists: 1}, Range{})
		listNamed(ctx, c.store, dir, keep)(yield)
	}
}
