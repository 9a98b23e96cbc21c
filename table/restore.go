package table

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/table/manifest"
)

// Restore makes a version of a branch ("" = main), or a tag of it, the newest
// one again: the next version says what that one said. Fragment and row ids and
// the flags of managed blobs never fall back (sections 4.4 and 4.5, CAP-3), and
// bases that were registered since stay, whose ids are never bound anew (CAP-8).
//
// A restore wins over changes that others publish meanwhile. A lease keeps the
// old version until the new one is there (GC-3).
func (t *Table) Restore(ctx context.Context, branch string, to Ref) (*Snapshot, error) {
	if to.Tag == "" {
		to.Branch = branch
	}
	old, err := t.At(ctx, to)
	if err != nil {
		return nil, err
	}
	if branch == manifest.MainBranch {
		branch = ""
	}
	if old.branch != branch {
		return nil, fault.New(fault.Invalid, "table: %s of %s is a version of %s; only a version of %s can be restored there",
			to, t.name, lineName(old.branch), lineName(branch))
	}
	if manifest.IsDetached(old.Version()) {
		return nil, fault.New(fault.Invalid, "table: version %d of %s is detached and no part of its history", old.Version(), t.name)
	}
	free, err := t.Hold(ctx, old)
	if err != nil {
		return nil, err
	}
	defer free()
	newest, err := t.At(ctx, Ref{Branch: branch})
	if err != nil {
		return nil, err
	}
	tx := &manifest.Transaction{ReadVersion: newest.Version(), UUID: uuid.NewString(), Op: &manifest.Restore{Version: old.Version()}}
	restored, err := t.Commit(ctx, branch, tx, CommitOptions{Source: old})
	if err != nil {
		return nil, fmt.Errorf("table: restore %s: %w", to, err)
	}
	return restored, nil
}

// lineName is what messages call a branch.
func lineName(branch string) string {
	if branch == "" {
		return "main"
	}
	return fmt.Sprintf("branch %q", branch)
}
