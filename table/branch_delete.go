package table

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/table/manifest"
)

// DeleteBranch deletes a branch with its files. It is fault.Precondition while
// tags point at versions of it or other branches descend from it (section 6.4).
//
// The file that makes it a branch goes first, so that nobody sees a part of it.
// What a crash leaves after that is no branch; deleting it again, or making a
// branch of that name, removes it.
func (t *Table) DeleteBranch(ctx context.Context, name string) error {
	path, err := manifest.BranchPath(name)
	if err != nil {
		return err
	}
	leave, err := t.env.queues.enter(ctx, t.branchQueue())
	if err != nil {
		return err
	}
	defer leave()
	if err := t.deleteBranch(ctx, name, t.root.Join(path)); err != nil {
		return fmt.Errorf("table: delete branch %q of %s: %w", name, t.name, err)
	}
	return nil
}

func (t *Table) deleteBranch(ctx context.Context, name string, at objstore.Location) error {
	if err := t.checkUnused(ctx, name); err != nil {
		return err
	}
	file, err := objstore.ReadAll(ctx, at, maxRefBytes)
	if err != nil && fault.KindOf(err) == fault.NotFound {
		return t.deleteLeftover(ctx, name)
	}
	if err != nil {
		return err
	}
	if err := at.Delete(ctx); err != nil {
		return err
	}
	// Whoever tagged it or branched off meanwhile looks for the branch afterwards.
	if err := t.checkUnused(ctx, name); err != nil {
		return errors.Join(err, putRef(context.WithoutCancel(ctx), at, file))
	}
	return t.removeBranch(ctx, name)
}

// deleteLeftover ends a deletion that was broken off.
func (t *Table) deleteLeftover(ctx context.Context, name string) error {
	folder, err := manifest.BranchRoot(name)
	if err != nil {
		return err
	}
	left, err := listVersions(ctx, t.root.Join(folder), true)
	if err != nil {
		return err
	}
	if len(left) == 0 {
		return t.missingRef(ctx, "branch", name, manifest.BranchesDir)
	}
	return t.removeBranch(ctx, name)
}

// checkUnused refuses a branch that tags or other branches need.
func (t *Table) checkUnused(ctx context.Context, name string) error {
	var users []string
	tags, err := t.Tags(ctx)
	if err != nil {
		return err
	}
	for _, tag := range tags {
		if tag.Branch != name {
			continue
		}
		if until, ok := tag.LeasedUntil(); ok {
			if !tag.Expired(t.env.now()) {
				users = append(users, fmt.Sprintf("lease %s until %s", tag.Name, until.UTC().Format("2006-01-02T15:04:05Z")))
			}
			continue
		}
		users = append(users, "tag "+tag.Name)
	}
	branches, err := t.Branches(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(branches, func(b Branch) bool { return b.Name == name })
	for _, b := range branches {
		if b.ParentBranch == name || i >= 0 && b.descendsFrom(branches[i]) {
			users = append(users, "branch "+b.Name)
		}
	}
	if len(users) == 0 {
		return nil
	}
	const most = 10
	if len(users) > most {
		users = append(users[:most], fmt.Sprintf("%d more", len(users)-most))
	}
	return fault.New(fault.Precondition, "it is needed by %s; delete what needs it first", strings.Join(users, ", "))
}

// descendsFrom says that one branch left another, or one that did.
func (b Branch) descendsFrom(other Branch) bool {
	n := len(other.identifier)
	return n > 0 && len(b.identifier) > n && slices.Equal(b.identifier[:n], other.identifier)
}

// removeBranch removes the files of a branch, its versions as the last of them
// where folders can go at once, so that a deletion that was broken off is found
// again. Branches whose names begin with its name and a slash lie in its folder,
// perhaps one that somebody makes just now: they stay.
func (t *Table) removeBranch(ctx context.Context, name string) error {
	folder, err := manifest.BranchRoot(name)
	if err != nil {
		return err
	}
	root := t.root.Join(folder)
	defer t.env.forget(root)
	own := slices.DeleteFunc(slices.Sorted(maps.Keys(ownFolders)), func(dir string) bool { return dir == manifest.VersionsDir })
	for _, dir := range append(own, manifest.VersionsDir) {
		err := objstore.RemoveFolder(ctx, root.Join(dir))
		if err != nil && fault.KindOf(err) == fault.Unsupported {
			return (&Table{env: t.env, root: root, name: t.name}).removeObjects(ctx, func(folder string) bool { return ownFolders[folder] })
		}
		if err != nil {
			return err
		}
	}
	for _, err := range root.List(ctx) {
		if err != nil {
			return err
		}
		return nil // a branch below it
	}
	return objstore.RemoveFolder(ctx, root)
}
