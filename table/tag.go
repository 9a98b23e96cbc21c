package table

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/table/manifest"
)

// TagOptions is what may be said about a new tag.
type TagOptions struct {
	// Replace moves a tag that exists already. It keeps the time of its creation,
	// and its metadata unless new ones are given.
	Replace  bool
	Metadata map[string]string
}

// CreateTag names a version of any branch, so that no cleanup removes it
// (section 6.4, GC-4). A tag that exists is fault.Exists unless it may be
// replaced; of several that make one at the same time one wins. Names that
// leases have are fault.Invalid.
func (t *Table) CreateTag(ctx context.Context, name string, of Ref, o TagOptions) (Tag, error) {
	if strings.HasPrefix(name, leasePrefix) {
		return Tag{}, fault.New(fault.Invalid, "table: tags that begin with %s are leases, which this program makes itself; choose another name", leasePrefix)
	}
	return t.putTag(ctx, name, of, o)
}

func (t *Table) putTag(ctx context.Context, name string, of Ref, o TagOptions) (Tag, error) {
	path, err := manifest.TagPath(name)
	if err != nil {
		return Tag{}, err
	}
	root, branch, p, err := t.resolve(ctx, of)
	if err != nil {
		return Tag{}, err
	}
	if manifest.IsDetached(p.version) {
		return Tag{}, fault.New(fault.Invalid, "table: version %d of %s is detached and no part of its history; only versions of a branch can be named", p.version, t.name)
	}
	now := t.env.now()
	f := &manifest.Tag{
		Branch: branch, Version: p.version, CreatedAt: now, UpdatedAt: now,
		ManifestSize: uint64(p.entry.Size), Metadata: o.Metadata,
	}
	at := t.root.Join(path)
	var before []byte
	if o.Replace {
		if before, err = t.tagBefore(ctx, at, f); err != nil {
			return Tag{}, err
		}
	}
	data, err := f.Encode()
	if err != nil {
		return Tag{}, err
	}
	if before != nil {
		err = at.Put(ctx, data)
	} else {
		err = putRef(ctx, at, data)
	}
	if fault.KindOf(err) == fault.Exists {
		return Tag{}, fault.New(fault.Exists, "table: %s has a tag %q already; delete it first or replace it", t.name, name)
	}
	if err != nil {
		return Tag{}, fmt.Errorf("table: create tag %q of %s: %w", name, t.name, err)
	}
	// A cleanup or a deletion of the branch that did not see the tag yet may have
	// taken the version; one that begins now sees it.
	if err := t.stillThere(ctx, root, branch, p.version); err != nil {
		undo := context.WithoutCancel(ctx)
		if before != nil {
			err = errors.Join(err, at.Put(undo, before))
		} else {
			err = errors.Join(err, at.Delete(undo))
		}
		return Tag{}, fmt.Errorf("table: create tag %q of %s: %w", name, t.name, err)
	}
	return tagFrom(name, f), nil
}

// tagBefore hands on what a tag that exists says about itself, and answers its
// file, nil if there is none. One that cannot be read hands nothing on.
func (t *Table) tagBefore(ctx context.Context, at objstore.Location, f *manifest.Tag) ([]byte, error) {
	data, err := objstore.ReadAll(ctx, at, maxRefBytes)
	if err != nil && fault.KindOf(err) == fault.NotFound {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("table: read reference %s: %w", t.inside(at), err)
	}
	old, err := manifest.DecodeTag(data)
	if err != nil {
		return data, nil //nolint:nilerr // replacing it is the way to get rid of it
	}
	if !old.CreatedAt.IsZero() {
		f.CreatedAt = old.CreatedAt
	}
	if f.Metadata == nil {
		f.Metadata = old.Metadata
	}
	return data, nil
}

// stillThere checks that a version exists, and the branch that it belongs to.
func (t *Table) stillThere(ctx context.Context, root objstore.Location, branch string, version uint64) error {
	if _, err := t.line(ctx, branch); err != nil {
		return err
	}
	_, err := t.version(ctx, root, branch, version)
	return err
}

// putRef stores a reference file if there is none. Where the outcome is not
// known it looks; the contents of no two references are the same, as they have
// the times or random ids of their making.
func putRef(ctx context.Context, at objstore.Location, data []byte) error {
	err := at.PutIfAbsent(ctx, data)
	if err == nil || !errors.Is(err, objstore.ErrUncertain) {
		return err
	}
	asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	there, readErr := objstore.ReadAll(asking, at, maxRefBytes)
	switch {
	case readErr == nil && string(there) == string(data):
		return nil
	case readErr == nil:
		return fault.New(fault.Exists, "table: %s exists already", at)
	}
	return err
}

// DeleteTag removes a tag and answers what it said; fault.NotFound names those
// there are. A tag that cannot be read goes, too.
func (t *Table) DeleteTag(ctx context.Context, name string) (Tag, error) {
	path, err := manifest.TagPath(name)
	if err != nil {
		return Tag{}, err
	}
	tag, err := t.tag(ctx, name)
	if errors.Is(err, errRefGone) {
		return Tag{}, t.missingRef(ctx, "tag", name, manifest.TagsDir)
	}
	if err != nil && fault.KindOf(err) != fault.Corrupt {
		return Tag{}, err
	}
	tag.Name = name
	if err := t.root.Join(path).Delete(ctx); err != nil {
		return Tag{}, fmt.Errorf("table: delete tag %q of %s: %w", name, t.name, err)
	}
	return tag, nil
}

func tagFrom(name string, f *manifest.Tag) Tag {
	return Tag{Name: name, Branch: f.Branch, Version: f.Version, CreatedAt: f.CreatedAt, UpdatedAt: f.UpdatedAt, Metadata: f.Metadata}
}
