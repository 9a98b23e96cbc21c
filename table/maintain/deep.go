package maintain

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/flightblob/flightblob/blob"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/schema"
	"github.com/flightblob/flightblob/table"
	"github.com/flightblob/flightblob/table/manifest"
)

// DeepOptions tune a deep clone. The zero value works.
type DeepOptions struct {
	// Once says that no later attempt comes to the same place, so that a failure
	// removes what was copied.
	Once bool
	// Progress is told what was copied so far, by one goroutine at a time.
	Progress func(Copied)
}

// Copied counts what a deep clone has of its own.
type Copied struct {
	Objects   uint64 // data, deletion and index files, sidecars and managed objects
	Bytes     uint64 // of them
	Found     uint64 // objects among them that an earlier attempt had copied
	Rewritten uint64 // data files made for values that were bound to other places
}

// DeepClone makes a table with copies of all that a version of another one needs:
// it reads when the source is gone (CLN-5). Source and target may lie in different
// stores. Row ids, lineage, deletions, indexes, settings and flags stay.
//
// What lies below the source's own folder keeps its path, and so do data files,
// deletion files and indexes from registered bases, and objects there that no
// other one of the clone has the path of. Objects that descriptors name by a base,
// kind 5, are copied to new names, and the columns with such descriptors are
// written into another data file, which names them by kind 4. Of sidecars and
// managed objects only those of live rows are copied. External values stay as they
// are; bases that they name are kept by their ids, which the reference does for
// flagged tables only (DIFF-4). Data files in bases that are no dataset roots are
// copied too, which the reference cannot.
//
// The manifest comes last. After a failure, or a crash, the same call goes on with
// what is there; a folder that holds anything else is refused: fault.Exists for a
// table, fault.Precondition for other things. A lease keeps the version meanwhile
// (GC-3).
func DeepClone(ctx context.Context, source *table.Table, ref table.Ref, target *table.Table, o DeepOptions) (*Cloned, error) {
	s, free, err := held(ctx, source, ref, target)
	if err != nil {
		return nil, err
	}
	defer free()
	m := s.Manifest()
	if len(m.Indexes) != m.IndexCount || m.ReaderFlags.Has(manifest.FlagTaggedReuse) {
		return nil, fault.New(fault.Unsupported, "maintain: version %d of %s has indexes whose files are not known to this program; drop them, or make a shallow clone", s.Version(), source.Name())
	}
	mark, err := markTarget(ctx, s, target.Root())
	if err != nil {
		return nil, err
	}
	d := newDeep(s, target, mark, o)
	clone, err := d.run(ctx, target)
	if err != nil {
		return nil, d.failed(ctx, clone, err)
	}
	mark.remove(ctx)
	return &Cloned{Source: s, Clone: clone, Copied: d.copies.copied}, nil
}

// deep is a deep clone in the making.
type deep struct {
	source   *table.Snapshot
	root     objstore.Location // of the clone
	options  DeepOptions
	copies   *copies
	resolver *blob.Resolver
	managed  bool            // some value is of kind 4 or 5
	bases    map[uint32]bool // that External values name
	rebind   map[uint64]map[schema.FieldID]bool
	files    map[string]fileCopy // of data files, by their place in the source
	rebound  []*table.Rebound
	last     lastObject
}

// fileCopy is a data file of the source.
type fileCopy struct {
	key  string // of its sidecars in the clone
	size uint64
}

func newDeep(s *table.Snapshot, target *table.Table, mark *mark, o DeepOptions) *deep {
	return &deep{
		source: s, root: target.Root(), options: o, copies: newCopies(target, mark, o.Progress), resolver: s.Resolver(),
		bases: map[uint32]bool{}, rebind: map[uint64]map[schema.FieldID]bool{}, files: map[string]fileCopy{},
	}
}

// run copies everything and publishes it.
func (d *deep) run(ctx context.Context, target *table.Table) (*table.Snapshot, error) {
	fragments, err := d.fragments(ctx)
	if err != nil {
		return nil, err
	}
	if err := d.indexes(ctx); err != nil {
		return nil, err
	}
	if err := d.values(ctx); err != nil {
		return nil, err
	}
	copied := &manifest.Copied{Fragments: fragments, Bases: maps.Clone(d.source.Manifest().Bases), Managed: d.managed}
	maps.DeleteFunc(copied.Bases, func(id uint32, _ manifest.Base) bool { return !d.bases[id] })
	for i := range fragments {
		if err := d.rewrite(ctx, i, &fragments[i], copied.Bases); err != nil {
			return nil, err
		}
	}
	return published(ctx, target, d.source, cloneOf(d.source), copied)
}

// fragments copies data files and deletion files, and gives the fragments by the
// places of the copies.
func (d *deep) fragments(ctx context.Context) ([]manifest.Fragment, error) {
	fragments := slices.Clone(d.source.Manifest().Fragments)
	for i := range fragments {
		f := &fragments[i]
		f.Files = slices.Clone(f.Files)
		for j := range f.Files {
			if err := d.dataFile(ctx, &f.Files[j]); err != nil {
				return nil, err
			}
		}
		if f.Deletion == nil {
			continue
		}
		from, err := d.source.DeletionFile(ctx, f)
		if err != nil {
			return nil, err
		}
		deletion := *f.Deletion
		f.Deletion = &deletion
		for deletion.BaseID = nil; ; deletion.ID++ {
			place, _, err := d.source.Manifest().DeletionPlace(f)
			if err != nil {
				return nil, err
			}
			if ok, err := d.copies.claim(ctx, place.Path, from, 0); err != nil {
				return nil, err
			} else if ok {
				break
			}
		}
	}
	return fragments, d.copies.flush(ctx)
}

// dataFile copies a data file, under another name if two bases have files of one.
func (d *deep) dataFile(ctx context.Context, f *manifest.DataFile) error {
	owner, err := d.source.FileOwner(ctx, f)
	if err != nil {
		return err
	}
	size := f.Size
	if size == 0 { // old writers leave it open
		n, err := owner.File.Size(ctx)
		if err != nil {
			return d.copies.lost(owner.File, err)
		}
		size = uint64(n)
	}
	key := owner.Key
	ok, err := d.copies.claimExactly(ctx, manifest.DataDir+"/"+f.Path, owner.File, size)
	if err == nil && !ok {
		key = d.copies.mark.name(owner.File).String()
		f.Path = key + ".lance"
		_, err = d.copies.claimExactly(ctx, manifest.DataDir+"/"+f.Path, owner.File, size)
	}
	if err != nil {
		return err
	}
	f.BaseID = nil
	d.files[owner.File.String()] = fileCopy{key, size}
	return nil
}

// indexes copies the folders of all indexes.
func (d *deep) indexes(ctx context.Context) error {
	for i := range d.source.Manifest().Indexes {
		x := &d.source.Manifest().Indexes[i]
		folder, err := d.source.IndexFolder(ctx, x)
		if err != nil {
			return err
		}
		missing := map[string]uint64{}
		for _, f := range x.Files {
			missing[f.Path] = f.Size
		}
		for o, err := range objstore.Walk(ctx, folder) {
			if err != nil {
				return fmt.Errorf("maintain: list the files of index %q: %w", x.Name, err)
			}
			if want, ok := missing[o.Name]; ok && want != 0 && want != uint64(o.Entry.Size) {
				return fault.New(fault.Corrupt, "maintain: file %s of index %q has %d bytes, the manifest says %d", o.Name, x.Name, o.Entry.Size, want)
			}
			delete(missing, o.Name)
			path := manifest.IndicesDir + "/" + x.UUID + "/" + o.Name
			ok, err := d.copies.claim(ctx, path, o.Location, uint64(o.Entry.Size))
			if err == nil && !ok {
				err = fault.New(fault.Unsupported, "maintain: two indexes have the folder %s", x.UUID)
			}
			if err != nil {
				return err
			}
		}
		for name := range missing {
			return fault.New(fault.Corrupt, "maintain: file %s of index %q is missing; drop the index, or build it anew", name, x.Name)
		}
	}
	return d.copies.flush(ctx)
}

// rewrite writes the columns of a fragment anew that have values bound to other
// places in the clone.
func (d *deep) rewrite(ctx context.Context, i int, f *manifest.Fragment, bases map[uint32]manifest.Base) error {
	wanted := d.rebind[f.ID]
	if len(wanted) == 0 {
		return nil
	}
	var columns []*schema.Field
	for _, c := range d.source.Schema().Fields {
		if wanted[c.ID] {
			columns = append(columns, c)
		}
	}
	made, err := d.source.Rebind(ctx, table.Rebinding{
		Fragment: &d.source.Manifest().Fragments[i], Columns: columns, Root: d.root, Bases: bases,
		Map: func(o *blob.Owner, v blob.Descriptor) (blob.Descriptor, error) { return d.remapped(ctx, o, v) },
	})
	if err != nil {
		return err
	}
	d.rebound = append(d.rebound, made)
	f.Files = table.Replaced(f.Files, columns, made.File)
	d.copies.made(made.File.Size)
	return nil
}

// cleanFor bounds how long a failed clone tidies up.
const cleanFor = time.Minute

// failed takes back what a later attempt cannot use, and says what to do.
func (d *deep) failed(ctx context.Context, clone *table.Snapshot, err error) error {
	if clone != nil || errors.Is(err, objstore.ErrUncertain) { // it was published, or may have been
		return fmt.Errorf("maintain: deep clone of %s: %w", d.source.Table().Name(), err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanFor)
	defer cancel()
	for _, r := range d.rebound {
		r.Remove(ctx)
	}
	if d.options.Once {
		d.copies.remove(ctx)
		return fmt.Errorf("maintain: deep clone of %s: %w", d.source.Table().Name(), err)
	}
	return fmt.Errorf("maintain: deep clone of %s: %w; what was copied stays: begin the same clone again to go on with it, or remove the folder", d.source.Table().Name(), err)
}
