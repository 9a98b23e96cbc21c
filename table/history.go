package table

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/table/manifest"
)

// History is the versions of one line of a table as one listing showed them, for
// those who look at all of them. It holds no manifests.
type History struct {
	table  *Table
	root   objstore.Location
	branch string

	// Versions are those of the history, oldest first.
	Versions []Listed
	// Detached are versions beside the history (section 1.4).
	Detached []Listed
}

// Listed is a manifest that a listing showed.
type Listed struct {
	Version  uint64
	Name     string // in _versions
	Size     int64
	Modified time.Time // zero when the store does not say
}

// History lists the versions of a branch ("" = main). A line without versions
// gives an empty one; a branch that does not exist is fault.NotFound.
func (t *Table) History(ctx context.Context, branch string) (*History, error) {
	if branch == manifest.MainBranch {
		branch = ""
	}
	root, err := t.line(ctx, branch)
	if err != nil {
		return nil, err
	}
	h := &History{table: t, root: root, branch: branch}
	all, err := listVersions(ctx, root, false)
	if err != nil {
		return nil, err
	}
	for _, p := range slices.Backward(all) {
		h.Versions = append(h.Versions, listed(p))
	}
	for e, err := range root.Join(manifest.VersionsDir).List(ctx) {
		if err != nil {
			return nil, fmt.Errorf("table: list versions: %w", err)
		}
		if version, s, ok := manifest.ParseName(e.Name); ok && !e.Dir && s == manifest.Detached {
			h.Detached = append(h.Detached, listed(published{version, e}))
		}
	}
	return h, nil
}

func listed(p published) Listed {
	return Listed{Version: p.version, Name: p.entry.Name, Size: p.entry.Size, Modified: p.entry.Modified}
}

// Branch is the name of the line, "" for main.
func (h *History) Branch() string { return h.branch }

// Root is the folder of the line.
func (h *History) Root() objstore.Location { return h.root }

// At is where a manifest lies.
func (h *History) At(l Listed) objstore.Location { return h.root.Join(manifest.VersionsDir, l.Name) }

// Open reads a version. One that was removed since the listing is
// fault.NotFound.
func (h *History) Open(ctx context.Context, l Listed) (*Snapshot, error) {
	p := published{version: l.Version, entry: objstore.Entry{Name: l.Name, Size: l.Size, Modified: l.Modified}}
	loaded, err := h.table.env.load(ctx, h.table, h.root, h.branch, p)
	if err != nil {
		return nil, err
	}
	return newSnapshot(h.table, h.root, h.branch, loaded)
}

// Fork is a branch that descends from a line, directly or by way of others.
type Fork struct {
	Branch string
	// Version is where the way to the branch left the line; 0 when nothing tells.
	Version uint64
}

// Forks lists the branches that descend from a branch ("" = main), by name. One
// that does not say where it comes from counts as descending from every line.
func (t *Table) Forks(ctx context.Context, of string) ([]Fork, error) {
	if of == manifest.MainBranch {
		of = ""
	}
	all := map[string]*manifest.Branch{}
	var names []string
	for name, err := range refNames(ctx, t.root, manifest.BranchesDir) {
		if err != nil {
			return nil, fmt.Errorf("table: list branches: %w", err)
		}
		path, err := manifest.BranchPath(name)
		if err != nil {
			return nil, err
		}
		b, err := readRef(ctx, t.root.Join(path), manifest.DecodeBranch)
		if errors.Is(err, errRefGone) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all[name] = b
		names = append(names, name)
	}
	if of != "" && all[of] == nil {
		return nil, t.missingRef(ctx, "branch", of, manifest.BranchesDir)
	}
	slices.Sort(names)
	var forks []Fork
	for _, name := range names {
		if name == of {
			continue
		}
		if version, ok := leaves(all, of, name); ok {
			forks = append(forks, Fork{name, version})
		}
	}
	return forks, nil
}

// leaves finds the version of a line at which the way to a branch left it: by the
// branch's identifier, of which that of each line above is a beginning, else by
// the names of parents.
func leaves(all map[string]*manifest.Branch, line, branch string) (version uint64, ok bool) {
	var above []manifest.BranchPoint
	known := line == ""
	if b := all[line]; b != nil {
		above, known = b.Identifier, len(b.Identifier) > 0
	}
	if own := all[branch].Identifier; known && len(own) > 0 {
		if len(own) > len(above) && slices.Equal(own[:len(above)], above) {
			return own[len(above)].ParentVersion, true
		}
		return 0, false
	}
	for range all { // a way without rings is no longer
		b := all[branch]
		switch {
		case b == nil: // the parent is gone
			return 0, true
		case b.Parent == line:
			return b.ParentVersion, true
		case b.Parent == "":
			return 0, false
		}
		branch = b.Parent
	}
	return 0, true
}

// Root is the folder that the version's own files lie in: the branch's, for a
// version of a branch.
func (s *Snapshot) Root() objstore.Location { return s.root }

// BaseFolder is the folder that the base id of a file means, and whether it is
// the root of a table, so that data files are in data below it. Without an id it
// is the version's own root.
func (s *Snapshot) BaseFolder(ctx context.Context, id *uint32) (folder objstore.Location, root bool, err error) {
	return s.base(ctx, id)
}
