package maintain

import (
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/flightblob/flightblob/blob"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/schema"
	"github.com/flightblob/flightblob/table"
	"github.com/flightblob/flightblob/table/manifest"
)

// values copies the objects that live blob values lie in and notes which columns
// have values that must be bound to other places. It reads descriptors only.
func (d *deep) values(ctx context.Context) error {
	var fields []*schema.Field
	var names []string
	for _, f := range d.source.Schema().Fields {
		for b := range f.Blobs() {
			if b.Blob == schema.BlobV2 { // the others lie in data files
				fields, names = append(fields, f), append(names, f.Name)
				break
			}
		}
	}
	if len(fields) == 0 {
		return nil
	}
	columns := d.source.Schema().Only(fields)
	scan, err := d.source.Scan(ctx, table.ScanRequest{Columns: names})
	if err != nil {
		return err
	}
	defer scan.Release()
	carrier := d.source.Carry()
	for scan.Next() {
		batch, err := carrier.Batch(scan)
		if err != nil {
			return err
		}
		err = d.batch(ctx, columns, batch, carrier, scan)
		batch.Release()
		if err != nil {
			return err
		}
	}
	if err := scan.Err(); err != nil {
		return err
	}
	return d.copies.flush(ctx)
}

func (d *deep) batch(ctx context.Context, columns *schema.Schema, batch arrow.RecordBatch, carrier *table.Carrier, scan *table.Scan) error {
	inputs, err := blob.AsInputs(columns, batch, carrier.Origins)
	if err != nil {
		return fmt.Errorf("maintain: %w", err)
	}
	defer inputs.Release()
	return inputs.EachStored(int(scan.RowPosition(0)), func(f *schema.Field, v blob.Descriptor, o blob.Origin) error {
		moved, err := d.value(ctx, v, o.Owner)
		if err == nil && moved {
			top := f.Path()[0].ID
			if d.rebind[scan.FragmentID()] == nil {
				d.rebind[scan.FragmentID()] = map[schema.FieldID]bool{}
			}
			d.rebind[scan.FragmentID()][top] = true
		}
		return err
	})
}

// value has the object of a live value copied and says whether the value must be
// bound to another place.
func (d *deep) value(ctx context.Context, v blob.Descriptor, o *blob.Owner) (moved bool, err error) {
	e, err := d.resolver.Resolve(ctx, v, o)
	if err != nil {
		return false, err
	}
	switch v.Kind {
	case blob.External:
		if v.ID != 0 {
			d.bases[v.ID] = true
		}
		return false, nil
	case blob.Managed, blob.ManagedBase:
		d.managed = true
	}
	if e.Length == 0 {
		return v.Kind == blob.ManagedBase, nil // the base that it names goes
	}
	end := e.Offset + e.Length
	if v.Kind == blob.Inline {
		if size := d.files[o.File.String()].size; end > size {
			return false, fault.New(fault.Corrupt, "bytes [%d, %d) lie outside of the data file, which has %d", e.Offset, end, size)
		}
		return false, nil
	}
	if l := &d.last; l.owner == o && l.kind == v.Kind && l.id == v.ID && l.uri == v.URI {
		return l.moved, l.claim.need(end)
	}
	claim, moved, err := d.object(ctx, v, o, &waiting{from: e.Object, least: end})
	d.last = lastObject{owner: o, kind: v.Kind, id: v.ID, uri: strings.Clone(v.URI), claim: claim, moved: moved}
	return moved, err
}

// lastObject is the object of the value before, which many have in common.
type lastObject struct {
	owner *blob.Owner
	kind  blob.Kind
	id    uint32
	uri   string
	claim *waiting
	moved bool
}

// object has an object copied and says whether it has another place then than its
// values name.
func (d *deep) object(ctx context.Context, v blob.Descriptor, o *blob.Owner, w *waiting) (claim *waiting, moved bool, err error) {
	var ok bool
	if w.path, ok = d.path(v, o); ok {
		if claim, err = d.copies.take(ctx, w); claim != nil || err != nil {
			return claim, false, err
		}
	}
	d.managed = true
	w.path = d.renamed(w.from)
	if claim, err = d.copies.take(ctx, w); claim == nil && err == nil {
		err = fault.New(fault.Internal, "two objects of one new name")
	}
	return claim, true, err
}

// path is where an object that a value names may lie in the clone, so that the
// value need not change: a sidecar beside its data file, and a managed object at
// its own path. ok is false for those that a base is named for, and for paths that
// a table has for something else.
func (d *deep) path(v blob.Descriptor, o *blob.Owner) (p string, ok bool) {
	switch v.Kind {
	case blob.Packed, blob.Dedicated:
		return manifest.DataDir + "/" + d.files[o.File.String()].key + "/" + blob.SidecarName(v.ID), true
	case blob.Managed:
		return strings.Clone(v.URI), keepable(v.URI, o.BaseID == nil)
	}
	return "", false
}

// keepable says whether a managed object may keep its path. Those from bases do
// only where cleanups look for them.
func keepable(p string, own bool) bool {
	top, rest, below := strings.Cut(p, "/")
	switch {
	case top == blob.ManagedDir && below && path.Ext(p) == ".blob":
		return !strings.Contains(rest, "/") || own
	case top == manifest.DataDir:
		return strings.Count(rest, "/") == 1 && path.Ext(p) == ".blob"
	case strings.HasPrefix(top, "_"), strings.HasPrefix(top, "."), top == manifest.TreeDir:
		return false
	}
	return own
}

// renamed is the place of an object that cannot keep its own (PCK-6): the same in
// each attempt.
func (d *deep) renamed(from objstore.Location) string {
	return blob.ManagedDir + "/" + d.copies.mark.name(from).String() + ".blob"
}

// remapped is what a value is in the clone. Objects that were not copied are those
// of deleted rows, whose values become empty, and so do others of theirs that
// cannot be read.
func (d *deep) remapped(ctx context.Context, o *blob.Owner, v blob.Descriptor) (blob.Descriptor, error) {
	empty := blob.Descriptor{}
	e, err := d.resolver.Resolve(ctx, v, o)
	if ctx.Err() != nil {
		return empty, ctx.Err()
	}
	switch {
	case err != nil:
		return empty, nil //nolint:nilerr // live ones were resolved before
	case v.Kind == blob.External:
		if v.ID != 0 && !d.bases[v.ID] {
			return empty, nil
		}
		return v, nil
	case e.Length == 0:
		return empty, nil
	case v.Kind == blob.Inline:
		if e.Offset+e.Length > d.files[o.File.String()].size {
			return empty, nil
		}
		return v, nil
	}
	for _, p := range []func() (string, bool){
		func() (string, bool) { return d.path(v, o) },
		func() (string, bool) { return d.renamed(e.Object), true },
	} {
		if at, ok := p(); ok && d.copies.holds(at, e.Object) {
			return blob.Descriptor{Kind: blob.Managed, Position: e.Offset, Size: e.Length, URI: at}, nil
		}
	}
	return empty, nil
}
