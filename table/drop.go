package table

import (
	"context"
	"fmt"
	"strings"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/table/manifest"
)

// refsDir holds tags and branches.
const refsDir = "_refs"

// Drop removes the table with all that lies in its folder; fault.NotFound when
// it has no version. Bases and objects outside stay.
//
// Whatever happens meanwhile, the table can be read as of some moment before,
// or is gone: a local folder vanishes as one, and elsewhere tags and branches
// go first, then the versions with the newest as the last one, and only then
// what they refer to. What a crash leaves behind is no table, and a table that
// is made in its place does not see it.
//
// Commits of this process are waited for. What another process publishes before
// the end of Drop goes as well, and one of this program sees that its files are
// gone when it publishes later, and takes its version back. A version of another
// program that is published after the end stays, without files: the reference
// looks at nothing then. So does one of any program without a file of its own in
// the table's folder.
func (t *Table) Drop(ctx context.Context) error {
	leave, err := t.env.queues.enter(ctx, t.root.String())
	if err != nil {
		return err
	}
	defer leave()
	found, err := t.Exists(ctx)
	if err != nil {
		return err
	}
	if !found {
		return t.noVersions("")
	}
	defer t.env.forget(t.root)
	for range dropRounds {
		if err := t.remove(ctx); err != nil {
			return t.dropping(err)
		}
		left, err := t.leftover(ctx)
		if err != nil || !left {
			return t.dropping(err)
		}
	}
	return fault.New(fault.Conflict, "table: drop %s: others keep writing it; stop them and drop it again", t.name)
}

// dropRounds bounds how often what others published meanwhile is removed.
const dropRounds = 5

// leftover tells whether a version is there that somebody published during the
// removal. It follows one that is gone, as the first of a new table does not.
func (t *Table) leftover(ctx context.Context) (bool, error) {
	all, err := listVersions(ctx, t.root, false)
	if err != nil || len(all) == 0 {
		return false, err
	}
	for _, v := range all {
		if v.version == 1 {
			return false, nil
		}
	}
	return true, nil
}

// remove removes everything that lies in the folder.
func (t *Table) remove(ctx context.Context) error {
	err := objstore.RemoveFolder(ctx, t.root)
	if err == nil || fault.KindOf(err) != fault.Unsupported {
		return err
	}
	return t.removeObjects(ctx, func(string) bool { return true })
}

// removeObjects removes what lies in wanted folders right below the root, one by
// one.
func (t *Table) removeObjects(ctx context.Context, wanted func(folder string) bool) error {
	steps, err := t.remains(ctx, wanted)
	if err != nil {
		return err
	}
	for _, step := range steps {
		if err := objstore.DeleteAll(ctx, step); err != nil {
			return err
		}
	}
	return nil
}

func (t *Table) dropping(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("table: drop %s: %w", t.name, err)
}

// remains lists the objects of the table in the steps in which they go, those in
// folders right below its root that are wanted.
func (t *Table) remains(ctx context.Context, wanted func(folder string) bool) ([][]objstore.Location, error) {
	var refs, branches, versions, others []objstore.Location
	var newest objstore.Location
	var last uint64
	for o, err := range objstore.Walk(ctx, t.root) {
		if err != nil {
			return nil, err
		}
		top, rest, _ := strings.Cut(o.Name, "/")
		if !wanted(top) {
			continue
		}
		switch top {
		case refsDir:
			refs = append(refs, o.Location)
		case manifest.TreeDir:
			branches = append(branches, o.Location)
		case manifest.VersionsDir:
			if version, _, ok := attached(rest); ok && version > last {
				newest, last = o.Location, version
			}
			versions = append(versions, o.Location)
		default:
			others = append(others, o.Location)
		}
	}
	older := versions[:0]
	for _, v := range versions {
		if v.Path != newest.Path {
			older = append(older, v)
		}
	}
	steps := [][]objstore.Location{refs, branches, older}
	if last > 0 {
		steps = append(steps, []objstore.Location{newest})
	}
	return append(steps, others), nil
}

// forget drops what is remembered of the versions below a root: a table that is
// made anew within the resolution of a store's times would look the same.
func (e *Env) forget(root objstore.Location) {
	prefix := root.String() + "/"
	below := func(k manifestKey) bool { return strings.HasPrefix(k.uri, prefix) }
	e.manifests.drop(below)
	e.infos.drop(below)
}
