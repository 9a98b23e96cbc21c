package maintain

import (
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/flightblob/flightblob/blob"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/table"
	"github.com/flightblob/flightblob/table/manifest"
)

// names are the files that some versions refer to.
//
// Those of versions that stay are remembered by the ends of their paths alone,
// whichever base they are in: a base may be another spelling of the own root (a
// link, a URI), and names are random, so that this keeps a file too many at worst.
// Those of versions that go are remembered by their paths below the own root, and
// only if they surely lie there: knowing them lets files go.
type names struct {
	data         map[string]struct{}
	deletions    map[string]struct{}
	indexes      map[string]struct{} // ids of folders
	transactions map[string]struct{}
	// objects are hashes of paths of managed objects: there may be one for each
	// value, and 16 bytes are what a large table can afford.
	objects map[xxh3.Uint128]struct{}
}

func newNames() names {
	return names{
		data: map[string]struct{}{}, deletions: map[string]struct{}{}, indexes: map[string]struct{}{},
		transactions: map[string]struct{}{}, objects: map[xxh3.Uint128]struct{}{},
	}
}

func has(set map[string]struct{}, name string) bool {
	_, ok := set[name]
	return ok
}

func (n *names) object(path string) bool {
	_, ok := n.objects[xxh3.HashString128(path)]
	return ok
}

// tail is the end of a path that tells an object from all others: its name, and
// for a sidecar, of which others have the same name, the folder too.
func tail(p string) string {
	last := strings.LastIndexByte(p, '/')
	if last > 0 && sidecarName(p[last+1:]) {
		last = strings.LastIndexByte(p[:last], '/')
	}
	return p[last+1:]
}

// sidecarName says that a name is that of a sidecar id (RES-5).
func sidecarName(name string) bool {
	bits, ok := strings.CutSuffix(name, ".blob")
	return ok && len(bits) == 32 && strings.Trim(bits, "01") == ""
}

// below gives the path of a location below a folder; false when it lies
// elsewhere, as far as spelling tells.
func below(folder, at objstore.Location) (rel string, ok bool) {
	if at.Store == nil {
		return "", false
	}
	top, own := strings.TrimRight(folder.String(), "/"), strings.TrimRight(at.String(), "/")
	if own == top {
		return "", true
	}
	return strings.CutPrefix(own, top+"/")
}

// addKept adds what a version that stays refers to. inside says whether some of it
// lies below root, as far as spelling tells.
func (n *names) addKept(ctx context.Context, s *table.Snapshot, root objstore.Location) (inside bool, err error) {
	m := s.Manifest()
	bases := map[uint32]bool{}
	mine, _ := below(root, s.Root())
	within := func(id *uint32) (bool, error) {
		if id == nil {
			return mine == "" && s.Root().String() == root.String(), nil
		}
		if in, ok := bases[*id]; ok {
			return in, nil
		}
		folder, _, err := s.BaseFolder(ctx, id)
		if fault.KindOf(err) == fault.Corrupt {
			return false, err
		}
		_, in := below(root, folder)
		bases[*id] = in && err == nil
		return bases[*id], nil
	}
	note := func(id *uint32) error {
		in, err := within(id)
		inside = inside || in
		return err
	}
	for i := range m.Fragments {
		f := &m.Fragments[i]
		for j := range f.Files {
			n.data[path.Base(f.Files[j].Path)] = struct{}{}
			if err := note(f.Files[j].BaseID); err != nil {
				return false, err
			}
		}
		place, ok, err := m.DeletionPlace(f)
		if err != nil {
			return false, err
		}
		if ok {
			n.deletions[path.Base(place.Path)] = struct{}{}
			if err := note(f.Deletion.BaseID); err != nil {
				return false, err
			}
		}
	}
	folders, err := m.IndexFolders()
	if err != nil {
		return false, err
	}
	for _, x := range folders {
		n.indexes[x.UUID] = struct{}{}
		if err := note(x.BaseID); err != nil {
			return false, err
		}
	}
	if m.TransactionID != "" && s.Root().String() == root.String() {
		n.transactions[m.TransactionID] = struct{}{}
	}
	return inside, nil
}

// addExpired adds what a version that goes refers to below root.
func (n *names) addExpired(ctx context.Context, s *table.Snapshot, root objstore.Location) {
	m := s.Manifest()
	type base struct {
		path string
		root bool
		own  bool
	}
	bases := map[uint32]base{}
	find := func(id *uint32) base {
		if id == nil {
			return base{root: true, own: true}
		}
		b, ok := bases[*id]
		if !ok {
			folder, isRoot, err := s.BaseFolder(ctx, id)
			b.root = isRoot
			if err == nil {
				b.path, b.own = below(root, folder)
			}
			bases[*id] = b
		}
		return b
	}
	for i := range m.Fragments {
		f := &m.Fragments[i]
		for j := range f.Files {
			d := &f.Files[j]
			b := find(d.BaseID)
			if !b.own {
				continue
			}
			dir := b.path
			if b.root {
				dir = path.Join(dir, manifest.DataDir)
			}
			n.data[path.Join(dir, d.Path)] = struct{}{}
			n.data[path.Join(dir, path.Base(d.Path))] = struct{}{} // which the folder of its sidecars is called after
		}
		if place, ok, err := m.DeletionPlace(f); err == nil && ok {
			if b := find(f.Deletion.BaseID); b.own {
				n.deletions[path.Join(b.path, place.Path)] = struct{}{}
			}
		}
	}
	if folders, err := m.IndexFolders(); err == nil {
		for _, x := range folders {
			if b := find(x.BaseID); b.own && b.root && b.path == "" {
				n.indexes[x.UUID] = struct{}{}
			}
		}
	}
	if m.TransactionID != "" {
		n.transactions[m.TransactionID] = struct{}{}
	}
}

// managed says that a descriptor names a managed object, after checking it, and
// that the kind is one that is known (GC-11). Values of other kinds are not
// judged: they keep nothing alive but what their data file does (GC-7, GC-8).
func managed(r *blob.Resolver, d blob.Descriptor) (bool, error) {
	if d.Kind.Known() && d.Kind != blob.Managed && d.Kind != blob.ManagedBase {
		return false, nil
	}
	if err := r.Check(d); err != nil {
		return false, err
	}
	return true, nil
}

// hint names a place for messages.
func hint(column string, owner *blob.Owner) string {
	if owner == nil {
		return fmt.Sprintf("column %q", column)
	}
	return fmt.Sprintf("column %q of data file %s", column, owner.Key)
}
