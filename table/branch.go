package table

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/table/manifest"
)

// CreateBranch makes a branch at a version of main or of another branch and
// answers its first version, which has the number of that one (section 6.4). It
// is a shallow clone inside the table: nothing is copied, and its files are found
// through a base that stands for its parent (CLN-6). A branch that exists is
// fault.Exists; of several that make one at the same time one wins.
//
// The manifest is published first and the file that makes it a branch after it,
// while a lease keeps the parent's version (GC-3). What a crash leaves in between
// is no branch; a branch of that name made later takes it over or removes it.
func (t *Table) CreateBranch(ctx context.Context, name string, from Ref) (*Snapshot, error) {
	path, err := newBranch(name)
	if err != nil {
		return nil, err
	}
	source, err := t.At(ctx, from)
	if err != nil {
		return nil, err
	}
	if manifest.IsDetached(source.Version()) {
		return nil, fault.New(fault.Invalid, "table: version %d of %s is detached and no part of its history; a branch begins at a version of a branch", source.Version(), t.name)
	}
	free, err := t.Hold(ctx, source)
	if err != nil {
		return nil, err
	}
	defer free()
	leave, err := t.env.queues.enter(ctx, t.branchQueue())
	if err != nil {
		return nil, err
	}
	defer leave()
	first, err := t.createBranch(ctx, name, t.root.Join(path), source)
	if err != nil && fault.KindOf(err) == fault.Exists {
		return nil, fault.New(fault.Exists, "table: %s has a branch %q already", t.name, name)
	}
	if err != nil {
		return nil, fmt.Errorf("table: create branch %q of %s: %w", name, t.name, err)
	}
	return first, nil
}

// branchQueue is where creations and deletions of branches of this process wait
// for each other.
func (t *Table) branchQueue() string { return t.root.Join(manifest.BranchesDir).String() }

// ownFolders are what a branch has in its folder. A branch below another one
// must not lie where that one has files of its own.
var ownFolders = map[string]bool{
	manifest.VersionsDir: true, manifest.TransactionsDir: true, manifest.DataDir: true, manifest.DeletionsDir: true,
	manifest.TreeDir: true, refsDir: true, "_indices": true, "_blobs": true, "_fri": true,
}

// maxFileName is how long the name of a file may be, in bytes, where that counts.
const maxFileName = 255

// newBranch judges the name of a new branch and answers the path of its file.
func newBranch(name string) (path string, err error) {
	if path, err = manifest.BranchPath(name); err != nil {
		return "", err
	}
	if file := path[strings.LastIndexByte(path, '/')+1:]; len(file) > maxFileName {
		return "", fault.New(fault.Invalid, "table: %s is no name for a branch: its file %s would have a name of %d bytes, and file systems take %d",
			fault.Quote(name), fault.Quote(file), len(file), maxFileName)
	}
	_, below, _ := strings.Cut(name, "/")
	for part := range strings.SplitSeq(below, "/") {
		if ownFolders[part] {
			return "", fault.New(fault.Invalid, "table: %q is no name for a branch: %s is a folder that each branch has for its own files", name, part)
		}
	}
	return path, nil
}

func (t *Table) createBranch(ctx context.Context, name string, at objstore.Location, source *Snapshot) (*Snapshot, error) {
	if _, err := t.branch(ctx, name); !errors.Is(err, errRefGone) {
		if err == nil {
			err = fault.New(fault.Exists, "table: there is a branch %q", name)
		}
		return nil, err
	}
	file, err := t.describeBranch(ctx, source)
	if err != nil {
		return nil, err
	}
	data, err := file.Encode()
	if err != nil {
		return nil, err
	}
	first, err := t.firstOfBranch(ctx, name, source)
	if err != nil {
		return nil, err
	}
	err = putRef(ctx, at, data)
	if err != nil && fault.KindOf(err) == fault.Exists {
		t.yieldTo(ctx, name, first)
	}
	if err != nil {
		return nil, err
	}
	return first, nil
}

// describeBranch says what the file of a branch of a snapshot does: its descent
// is that of its parent and one step more.
func (t *Table) describeBranch(ctx context.Context, source *Snapshot) (*manifest.Branch, error) {
	var descent []manifest.BranchPoint
	if source.branch != "" {
		parent, err := t.branch(ctx, source.branch)
		if errors.Is(err, errRefGone) {
			return nil, fault.New(fault.Conflict, "table: branch %q was deleted meanwhile", source.branch)
		}
		if err != nil {
			return nil, err
		}
		if len(parent.identifier) == 0 {
			// The reference derives one that cannot be told here; with another one it
			// would not see that the new branch needs its parent.
			return nil, fault.New(fault.Precondition, "table: branch %q was made by an old Lance, whose file of it has no identifier; "+
				"make the branch with pylance", source.branch)
		}
		descent = append(descent, parent.identifier...)
	}
	p, err := t.version(ctx, source.root, source.branch, source.Version())
	if err != nil {
		return nil, err
	}
	id := strings.ReplaceAll(uuid.NewString(), "-", "")
	return &manifest.Branch{
		Parent: source.branch, ParentVersion: source.Version(),
		Identifier: append(descent, manifest.BranchPoint{ParentVersion: source.Version(), ID: id}),
		CreatedAt:  t.env.now(), ManifestSize: uint64(p.entry.Size),
	}, nil
}

// firstOfBranch publishes the first version of a branch. One that is there is
// taken when it says just the same: whoever made it stopped before it was a
// branch, or makes the same one now.
func (t *Table) firstOfBranch(ctx context.Context, name string, source *Snapshot) (*Snapshot, error) {
	op := &manifest.Clone{
		Shallow: true, RefName: source.branch, RefVersion: source.Version(),
		RefPath: strings.TrimRight(source.root.String(), "/"), BranchName: name,
	}
	folder, err := manifest.BranchRoot(name)
	if err != nil {
		return nil, err
	}
	root := t.root.Join(folder)
	left, err := listVersions(ctx, root, false)
	if err != nil {
		return nil, err
	}
	if len(left) == 1 && left[0].version == source.Version() {
		if theirs, ok := cloneIn(ctx, root, left[0]); ok && *theirs == *op {
			l, err := t.env.load(ctx, t, root, name, left[0])
			if err != nil {
				return nil, err
			}
			return newSnapshot(t, root, name, l)
		}
	}
	if len(left) > 0 {
		if err := t.removeLeftover(ctx, name, left); err != nil {
			return nil, err
		}
	}
	tx := &manifest.Transaction{ReadVersion: source.Version(), UUID: uuid.NewString(), Op: op}
	return t.commitTo(ctx, root, name, tx, CommitOptions{Source: source})
}

// cloneIn reads how a version was cloned, if it was and says so itself.
func cloneIn(ctx context.Context, root objstore.Location, p published) (*manifest.Clone, bool) {
	data, err := objstore.ReadAll(ctx, root.Join(manifest.VersionsDir, p.entry.Name), maxManifestBytes)
	if err != nil {
		return nil, false
	}
	tx, err := manifest.InlineTransaction(data)
	if err != nil || tx == nil {
		return nil, false
	}
	op, ok := tx.Op.(*manifest.Clone)
	return op, ok
}

// branchSettles is how long the folder of a branch may lack its file before it
// is certain that nobody is making the branch any more.
const branchSettles = 10 * time.Minute

// removeLeftover removes what a creation or deletion that was killed has left of
// a branch, unless it is so young that it may be somebody's who still works.
func (t *Table) removeLeftover(ctx context.Context, name string, left []published) error {
	for _, p := range left {
		if age := t.env.now().Sub(p.entry.Modified); age < branchSettles {
			return fault.New(fault.Conflict, "table: another process makes branch %q of %s at a different version, or was stopped while it made or deleted it; "+
				"delete the branch if that is over, else try again later", name, t.name)
		}
	}
	return t.removeBranch(ctx, name)
}

// yieldTo removes a first version that lost to a branch that another process
// made meanwhile at a different version, of which it would be a later version.
func (t *Table) yieldTo(ctx context.Context, name string, first *Snapshot) {
	ctx = context.WithoutCancel(ctx)
	winner, err := t.branch(ctx, name)
	if err != nil || winner.ParentVersion == first.Version() {
		return
	}
	if p, err := t.version(ctx, first.root, name, first.Version()); err == nil {
		if op, ok := cloneIn(ctx, first.root, p); ok && op.BranchName == name {
			_ = first.root.Join(manifest.VersionsDir, p.entry.Name).Delete(ctx)
		}
	}
}
