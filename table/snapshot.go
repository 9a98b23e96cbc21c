package table

import (
	"context"
	"fmt"
	"path"
	"sort"
	"strings"
	"sync"

	"github.com/flightblob/flightblob/blob"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/schema"
	"github.com/flightblob/flightblob/table/manifest"
)

// Snapshot is one version of a table. It is immutable and may be used from any
// goroutine; it holds no resources.
type Snapshot struct {
	table  *Table
	root   objstore.Location // the branch's folder for a branch
	branch string
	loaded *loaded
	locate blob.Locator // what the server may touch, and the version's bases
	bases  sync.Map     // base id → objstore.Location
}

func newSnapshot(t *Table, root objstore.Location, branch string, l *loaded) (*Snapshot, error) {
	if err := l.manifest.CheckReadable(); err != nil {
		return nil, fmt.Errorf("table: %s: %w", t.name, err)
	}
	if l.manifest.DataFormat == "0.1" {
		return nil, fault.New(fault.Unsupported,
			"table: version %d of %s has data files of format 0.1, which this program cannot read; rewrite the table with a current Lance",
			l.manifest.Version, t.name)
	}
	return &Snapshot{
		table: t, root: root, branch: branch, loaded: l,
		locate: t.env.registry.Locator(l.access),
	}, nil
}

// Table is the table that this is a version of.
func (s *Snapshot) Table() *Table { return s.table }

// Version is the version's number.
func (s *Snapshot) Version() uint64 { return s.loaded.manifest.Version }

// Ref pins exactly this snapshot: its branch and version.
func (s *Snapshot) Ref() Ref { return Ref{Branch: s.branch, Version: s.Version()} }

// Manifest is what the version says; read-only.
func (s *Snapshot) Manifest() *manifest.Manifest { return s.loaded.manifest }

// Schema is the field tree of the version; read-only.
func (s *Snapshot) Schema() *schema.Schema { return s.loaded.manifest.Schema }

// Rows is the number of live rows, from the manifest alone.
func (s *Snapshot) Rows() uint64 { return s.loaded.rows() }

// Resolver makes a resolver for the descriptors of this snapshot: it knows the
// bases that the manifest registers, and reaches what the server may touch and
// these bases. It remembers places, so take one for each request.
func (s *Snapshot) Resolver() *blob.Resolver {
	return blob.NewResolver(s.loaded.manifest.Bases, s.locate)
}

// base finds the base path that a file's base id means, and whether it is a
// dataset root: without an id the snapshot's own root, which for a branch is
// the branch's folder (RES-12).
func (s *Snapshot) base(ctx context.Context, id *uint32) (objstore.Location, bool, error) {
	if id == nil {
		return s.root, true, nil
	}
	b, ok := s.loaded.manifest.Bases[*id]
	if !ok {
		return objstore.Location{}, false, fault.New(fault.Corrupt, "table: version %d of %s names base %d, which its manifest does not register",
			s.Version(), s.table.name, *id)
	}
	if loc, ok := s.bases.Load(*id); ok {
		return loc.(objstore.Location), b.IsDatasetRoot, nil
	}
	loc, err := s.locate(ctx, b.Path)
	if err != nil {
		return objstore.Location{}, false, fmt.Errorf("table: base %d of %s: %w", *id, s.table.name, err)
	}
	s.bases.Store(*id, loc)
	return loc, b.IsDatasetRoot, nil
}

// place finds a data file, its data directory (RES-2) and its base path.
func (s *Snapshot) place(ctx context.Context, f *manifest.DataFile) (file, dir, base objstore.Location, err error) {
	base, isRoot, err := s.base(ctx, f.BaseID)
	if err != nil {
		return file, dir, base, err
	}
	dir = base
	if isRoot {
		dir = base.Join(manifest.DataDir)
	}
	return dir.Join(f.Path), dir, base, nil
}

// deletionPlace finds a fragment's deletion file; such files never lie in a
// base that is no dataset root.
func (s *Snapshot) deletionPlace(ctx context.Context, f *manifest.Fragment) (objstore.Location, error) {
	base, isRoot, err := s.base(ctx, f.Deletion.BaseID)
	if err != nil {
		return objstore.Location{}, err
	}
	if !isRoot {
		return objstore.Location{}, fault.New(fault.Corrupt,
			"table: the deletion file of fragment %d lies in base %d, which is no dataset root", f.ID, *f.Deletion.BaseID)
	}
	ext := "arrow"
	if f.Deletion.Bitmap {
		ext = "bin"
	}
	name := fmt.Sprintf("%d-%d-%d.%s", f.ID, f.Deletion.ReadVersion, f.Deletion.ID, ext)
	return base.Join(manifest.DeletionsDir, name), nil
}

// Owner is the data file that holds a blob field in a fragment, with the
// places that its descriptors refer to (RES-1, RES-2, RES-12). It is nil when
// no file of the fragment holds the field, so that all its values are null.
func (s *Snapshot) Owner(ctx context.Context, f *manifest.Fragment, field schema.FieldID) (*blob.Owner, error) {
	file, _ := f.File(field)
	if file == nil {
		return nil, nil
	}
	return s.owner(ctx, file)
}

// FileOwner is a data file as an owner of blob values, whether or not it has any.
func (s *Snapshot) FileOwner(ctx context.Context, file *manifest.DataFile) (*blob.Owner, error) {
	return s.owner(ctx, file)
}

// DeletionFile finds the deletion file of a fragment that has one.
func (s *Snapshot) DeletionFile(ctx context.Context, f *manifest.Fragment) (objstore.Location, error) {
	return s.deletionPlace(ctx, f)
}

// IndexFolder finds the folder of an index.
func (s *Snapshot) IndexFolder(ctx context.Context, x *manifest.Index) (objstore.Location, error) {
	return s.indexPlace(ctx, x)
}

func (s *Snapshot) owner(ctx context.Context, file *manifest.DataFile) (*blob.Owner, error) {
	at, dir, base, err := s.place(ctx, file)
	if err != nil {
		return nil, err
	}
	return &blob.Owner{
		File: at, Key: strings.TrimSuffix(path.Base(file.Path), ".lance"),
		Dir: dir, Base: base, BaseID: file.BaseID, Immutable: true,
	}, nil
}

// position finds the fragment of the live row at a position in scan order, and
// its place among the fragment's live rows.
func (s *Snapshot) position(row uint64) (fragment int, at uint64) {
	starts := s.loaded.starts
	i := sort.Search(len(starts)-1, func(i int) bool { return starts[i+1] > row })
	return i, row - starts[i]
}
