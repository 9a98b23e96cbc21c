package objstore

import (
	"context"
	"iter"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/flightblob/flightblob/internal/fault"
)

// deletesAtOnce is how many objects DeleteAll deletes at a time.
const deletesAtOnce = 16

// Object is an object found by Walk.
type Object struct {
	Location
	Entry
}

// Walker is implemented by stores that list whole trees with fewer requests
// than one per folder. Counting and guarding wrappers pass it on.
type Walker interface {
	// Walk yields all objects below folder dir, in the order of their keys by
	// bytes. Entry.Name is the path below dir. An absent folder yields nothing.
	Walk(ctx context.Context, dir string) iter.Seq2[Entry, error]
}

// Walk yields all objects below a folder, those of a folder in one piece; the
// names in the entries are paths below it. Folders that links lead to are
// entered, and a folder that holds itself that way never ends.
func Walk(ctx context.Context, dir Location) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		for e, err := range walk(ctx, dir.Store, dir.Path) {
			if !yield(Object{dir.Join(e.Name), e}, err) || err != nil {
				return
			}
		}
	}
}

func walk(ctx context.Context, s Store, dir string) iter.Seq2[Entry, error] {
	if w, ok := s.(Walker); ok {
		return w.Walk(ctx, dir)
	}
	return walkLists(ctx, s, dir)
}

// walkLists lists folder by folder.
func walkLists(ctx context.Context, s Store, dir string) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) { walkFolder(ctx, Location{Store: s, Path: dir}, "", yield) }
}

func walkFolder(ctx context.Context, dir Location, below string, yield func(Entry, error) bool) bool {
	for e, err := range dir.List(ctx) {
		if err != nil {
			return yield(Entry{}, err)
		}
		path := below + e.Name
		if e.Dir {
			if !walkFolder(ctx, dir.Join(e.Name), path+"/", yield) {
				return false
			}
			continue
		}
		e.Name = path
		if !yield(e, nil) {
			return false
		}
	}
	return true
}

// DeleteAll deletes objects, several at a time and in any order. Absent ones
// are no error. It stops at the first error, when any of them may be gone.
func DeleteAll(ctx context.Context, objects []Location) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(deletesAtOnce)
	for _, at := range objects {
		group.Go(func() error { return at.Delete(ctx) })
	}
	return group.Wait()
}

// FolderRemover is implemented by stores where a folder with all that is in it
// can be removed as one. Counting and guarding wrappers have it always, and
// answer Unsupported when the store below cannot.
type FolderRemover interface {
	// RemoveFolder removes the folder: after a crash it is there as it was, or
	// gone. An absent one is no error. Links are removed, never followed.
	// Unsupported when that cannot be done for this folder; then nothing was.
	RemoveFolder(ctx context.Context, dir string) error
}

// RemoveFolder removes a folder with all that is in it, at once. Unsupported
// where objects can only go one by one: see Walk and DeleteAll.
func RemoveFolder(ctx context.Context, dir Location) error {
	return removeFolder(ctx, dir.Store, strings.TrimSuffix(dir.Path, "/"))
}

func removeFolder(ctx context.Context, s Store, dir string) error {
	if r, ok := s.(FolderRemover); ok {
		return r.RemoveFolder(ctx, dir)
	}
	return fault.New(fault.Unsupported, "objstore: the store of %s removes no folders", s.URI(dir))
}
