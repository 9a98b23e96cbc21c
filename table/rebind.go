package table

import (
	"context"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/flightblob/flightblob/blob"
	"github.com/flightblob/flightblob/encoding"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/schema"
	"github.com/flightblob/flightblob/table/manifest"
)

// Rebinding says how blob columns of a fragment are written anew for a copy of the
// table, whose values lie elsewhere (CLN-5).
type Rebinding struct {
	Fragment *manifest.Fragment
	Columns  []*schema.Field          // top-level ones
	Root     objstore.Location        // of the copy
	Bases    map[uint32]manifest.Base // that the copy registers
	// Map says what a value is in the copy: kind 0 is stored by its bytes, in the
	// new file whatever their number, kinds 3 and 4 are recorded as they are. It
	// is asked for deleted rows as well. Other kinds are refused.
	Map func(*blob.Owner, blob.Descriptor) (blob.Descriptor, error)
}

// Rebound is a data file that Rebind has made, without a base.
type Rebound struct {
	File   manifest.DataFile
	writer *fragmentWriter
}

// Remove takes the file back, as far as that can be done.
func (r *Rebound) Remove(ctx context.Context) { r.writer.remove(ctx) }

// Rebind writes columns of a fragment into a data file of a copy of the table,
// row by row, deleted ones included, so that the file stands beside those that
// were copied. It is durable then.
func (s *Snapshot) Rebind(ctx context.Context, r Rebinding) (*Rebound, error) {
	made, err := s.rebind(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("table: fragment %d of %s for its copy: %w", r.Fragment.ID, s.table.name, err)
	}
	return made, nil
}

func (s *Snapshot) rebind(ctx context.Context, r Rebinding) (*Rebound, error) {
	version, err := s.versionFor(r)
	if err != nil {
		return nil, err
	}
	whole, err := s.physical(r.Fragment)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(r.Columns))
	for i, f := range r.Columns {
		names[i] = f.Name
	}
	scan, err := whole.Scan(ctx, ScanRequest{Columns: names})
	if err != nil {
		return nil, err
	}
	defer scan.Release()
	to := target{base: r.Root, dir: r.Root.Join(manifest.DataDir)}
	carrier := whole.Carry()
	carrier.resolver = blob.NewResolver(r.Bases, whole.locate)
	carrier.remap = func(o *blob.Owner, d blob.Descriptor) (blob.Descriptor, error) {
		d, err := r.Map(o, d)
		if err == nil && d.Kind != blob.Inline && d.Kind != blob.External && d.Kind != blob.Managed {
			err = fault.New(fault.Internal, "a value of kind %d for another table", uint8(d.Kind))
		}
		return d, err
	}
	carrier.owner = func(o *blob.Owner) *blob.Owner { // bytes of kind 0 come from there, all else lies in the copy
		return &blob.Owner{File: o.File, Key: o.Key, Dir: to.dir, Base: to.base, Immutable: o.Immutable}
	}
	columns := s.Schema().Only(r.Columns)
	policy := blob.Policy{Managed: true, Bases: r.Bases}
	w, err := newFragmentWriter(ctx, to, columns, version, policy)
	if err != nil {
		return nil, err
	}
	if err := writeRebound(ctx, w, columns, carrier, scan); err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)
		defer cancel()
		w.abort(ctx)
		return nil, err
	}
	return &Rebound{File: w.fragment.Files[0], writer: w}, nil
}

func writeRebound(ctx context.Context, w *fragmentWriter, columns *schema.Schema, carrier *Carrier, scan *Scan) error {
	var mapping *schema.Mapping
	write := func(batch arrow.RecordBatch) (err error) {
		if mapping == nil {
			if mapping, err = columns.AcceptsStored(batch.Schema()); err != nil {
				return err
			}
		}
		mapped, err := mapping.Apply(memory.DefaultAllocator, batch)
		if err != nil {
			return err
		}
		defer mapped.Release()
		inputs, err := blob.AsInputs(columns, mapped, carrier.Origins)
		if err != nil {
			return err
		}
		defer inputs.Release()
		return w.write(ctx, inputs, mapped.NumRows())
	}
	for scan.Next() {
		batch, err := carrier.Batch(scan)
		if err != nil {
			return err
		}
		err = write(batch)
		batch.Release()
		if err != nil {
			return err
		}
	}
	if err := scan.Err(); err != nil {
		return err
	}
	return w.commit(ctx)
}

// versionFor is the format of the file that holds the columns now.
func (s *Snapshot) versionFor(r Rebinding) (encoding.Version, error) {
	for _, f := range r.Columns {
		for b := range f.Blobs() {
			if file, _ := r.Fragment.File(b.ID); file != nil {
				if v, ok := writable[file.Format()]; ok {
					return v, nil
				}
				return encoding.Version{}, fault.New(fault.Unsupported, "blob column %s lies in a file of format %s, in which no references are written", b.FullName(), file.Format())
			}
		}
	}
	return encoding.Version{}, fault.New(fault.Internal, "no file holds the columns")
}

// physical is the version as if it had only one fragment, and no row of it was
// deleted.
func (s *Snapshot) physical(f *manifest.Fragment) (*Snapshot, error) {
	m, whole := *s.Manifest(), *f
	whole.Deletion = nil
	m.Fragments = []manifest.Fragment{whole}
	l, err := newLoaded(&m, "", m.Version)
	if err != nil {
		return nil, err
	}
	l.access = s.loaded.access
	return newSnapshot(s.table, s.root, s.branch, l)
}

// Replaced gives the files of a fragment with a new one for some columns: what
// the others hold of them is marked as replaced (section 2.5).
func Replaced(files []manifest.DataFile, columns []*schema.Field, by manifest.DataFile) []manifest.DataFile {
	gone := map[schema.FieldID]bool{}
	for _, c := range columns {
		for leaf := range c.Leaves() {
			gone[leaf.ID] = true
		}
	}
	out := make([]manifest.DataFile, len(files), len(files)+1)
	for i, f := range files {
		f.Fields = slices.Clone(f.Fields)
		for j, id := range f.Fields {
			if gone[id] {
				f.Fields[j] = manifest.Tombstone
			}
		}
		out[i] = f
	}
	return append(out, by)
}
