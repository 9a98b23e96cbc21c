package table

import (
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/table/manifest"
)

// Table is a table's root folder. It holds no version: each At looks anew.
type Table struct {
	env  *Env
	root objstore.Location
	name string // for messages

	created func(context.Context) error // see OnCreate
}

// Open checks that root holds a Lance table, that is, at least one version;
// fault.NotFound otherwise. root must be guarded by what the server may touch.
func Open(ctx context.Context, env *Env, root objstore.Location) (*Table, error) {
	t := New(env, root, "")
	found, err := t.Exists(ctx)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, t.noVersions("")
	}
	return t, nil
}

// New gives the table at root without looking whether there is one. Messages
// call it name, or by the last component of its root without ".lance" when name
// is empty.
func New(env *Env, root objstore.Location, name string) *Table {
	root.Path = strings.TrimRight(root.Path, "/")
	if name == "" {
		name = strings.TrimSuffix(path.Base(root.Path), ".lance")
	}
	return &Table{env: env, root: root, name: name}
}

// OnCreate sets what is done when a commit through this value has created the
// table, before that commit is answered. Its error is that of the commit.
func (t *Table) OnCreate(done func(context.Context) error) { t.created = done }

// Exists says whether main has a version, reading as little as it can.
func (t *Table) Exists(ctx context.Context) (bool, error) {
	for e, err := range t.root.Join(manifest.VersionsDir).List(ctx) {
		if err != nil {
			return false, fmt.Errorf("table: list versions: %w", err)
		}
		if _, _, ok := attached(e.Name); ok && !e.Dir {
			return true, nil
		}
	}
	return false, nil
}

// Env is what the table shares with others.
func (t *Table) Env() *Env { return t.env }

// Root is the table's folder.
func (t *Table) Root() objstore.Location { return t.root }

// Name is what messages call the table.
func (t *Table) Name() string { return t.name }

// inside names an object for messages by its path below the folder that holds
// the table, so that no path beyond the root is shown.
func (t *Table) inside(loc objstore.Location) string {
	if rest, ok := strings.CutPrefix(loc.Path, t.root.Path); ok {
		return path.Base(t.root.Path) + rest
	}
	return path.Base(loc.Path)
}

// At fixes a version. Without a pin it is the newest one published before the
// call. Missing versions, tags and branches are fault.NotFound and name those
// that exist; two pins at once are fault.Invalid; a version that needs a
// feature unknown here is fault.Unsupported.
func (t *Table) At(ctx context.Context, ref Ref) (*Snapshot, error) {
	for attempt := 0; ; attempt++ {
		root, branch, p, err := t.resolve(ctx, ref)
		if err != nil {
			return nil, err
		}
		l, err := t.env.load(ctx, t, root, branch, p)
		if err != nil {
			if vanished(err) && attempt < 3 {
				continue // cleaned up between listing and reading; the next listing tells
			}
			return nil, err
		}
		return newSnapshot(t, root, branch, l)
	}
}

func vanished(err error) bool { return fault.KindOf(err) == fault.NotFound }
