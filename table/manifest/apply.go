package manifest

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/schema"
)

// DefaultWriter is what WriterVersion says when ApplyOptions does not: library
// and version, without which the reference takes a table for a very old one.
const DefaultWriter = "flightblob 0.1.0"

// DefaultFormat is the data file version of new tables (DIFF-14).
const DefaultFormat = "2.2"

// ApplyOptions is what a commit decides beside the transaction.
type ApplyOptions struct {
	Now    time.Time // of the commit; required
	Writer string    // "library version"; DefaultWriter if empty

	// Source is the version that a Restore goes back to, or that a Clone is
	// made of; unused otherwise.
	Source *Manifest

	// Copied is what a deep clone holds in the place of its source's fragments
	// and bases; nil for what the source has.
	Copied *Copied

	// Format is the data_format of a new or overwritten table; if empty, the
	// format of its files or of the version before, else DefaultFormat.
	Format string

	// StableRowIDs turns them on; at creation only.
	StableRowIDs bool

	// NoTransactionFile records that transactions are inline only (flag 5).
	NoTransactionFile bool
}

// Copied is what was copied for a deep clone.
type Copied struct {
	Fragments []Fragment      // those of the source, by the places of the copies
	Bases     map[uint32]Base // that descriptors still name
	// Managed says that some of its descriptors are of kinds 4 or 5, so that the
	// clone needs the flag even if the source has none (DESC-8, DIFF-10).
	Managed bool
}

// Apply makes the manifest of the next version (section 4.1, step 3): base is
// the newest version and not changed, nil to create a table. It assigns
// fragment ids and row ids, works out flags, keeps the index section honest
// (section 2.6) and refuses what could not be read afterwards.
//
// It does not ask whether tx may still be applied to base: that is Judge, for
// each transaction since tx.ReadVersion. Fragments that tx names and base does
// not have are fault.Conflict, contents that cannot be published fault.Invalid,
// features of newer writers fault.Unsupported (CAP-9).
func Apply(base *Manifest, tx *Transaction, o ApplyOptions) (*Manifest, error) {
	if tx.UUID == "" || o.Now.IsZero() {
		return nil, fault.New(fault.Internal, "manifest: a commit needs a uuid and a time")
	}
	c := &change{base: base, tx: tx, o: o}
	if err := c.start(); err != nil {
		return nil, err
	}
	if err := c.apply(); err != nil {
		return nil, err
	}
	return c.next, c.finish()
}

// change is one transaction on its way into a manifest.
type change struct {
	base *Manifest // nil at creation
	next *Manifest
	tx   *Transaction
	o    ApplyOptions

	free uint64 // the next fragment id
}

func (c *change) apply() error {
	switch op := c.tx.Op.(type) {
	case *Append:
		return c.append(op)
	case *Delete:
		return c.delete(op)
	case *Overwrite:
		return c.overwrite(op)
	case *CreateIndex:
		return c.createIndex(op)
	case *Rewrite:
		return c.rewrite(op)
	case *Merge:
		return c.merge(op)
	case *Restore:
		return c.restore(op)
	case *ReserveFragments:
		return c.reserve(op)
	case *Update:
		return c.update(op)
	case *Project:
		return c.project(op)
	case *UpdateConfig:
		return c.updateConfig(op)
	case *DataReplacement:
		return c.replaceData(op)
	case *Clone:
		return c.clone(op)
	case *UpdateBases:
		return c.addBases(op.Bases)
	}
	return fault.New(fault.Unsupported, "manifest: this program cannot apply the operation %s (%d)", c.tx.Op.Kind(), c.tx.Op.Kind())
}

// start makes a manifest that says what the version before says, as far as the
// next one inherits it.
func (c *change) start() error {
	if c.base == nil {
		return c.startNew()
	}
	if _, ok := c.tx.Op.(*Clone); ok {
		return fault.New(fault.Exists, "manifest: a clone needs a place without a table")
	}
	if err := c.base.CheckWritable(); err != nil {
		return err
	}
	if c.base.Version == math.MaxUint64 || IsDetached(c.base.Version+1) {
		return fault.New(fault.Exhausted, "manifest: no version follows version %d", c.base.Version)
	}
	c.next = c.base.inherit()
	c.next.Version = c.base.Version + 1
	c.free = c.base.freeFragment()
	if c.o.StableRowIDs && !c.base.StableRowIDs() {
		return fault.New(fault.Precondition, "manifest: stable row ids are chosen when a table is created; this one has none")
	}
	return nil
}

func (c *change) startNew() error {
	switch c.tx.Op.(type) {
	case *Clone:
		if c.o.Source == nil {
			return fault.New(fault.Internal, "manifest: a clone needs its source")
		}
		if err := c.o.Source.CheckWritable(); err != nil {
			return err
		}
		c.next = c.o.Source.inherit()
		c.next.Version = c.o.Source.Version
		return nil
	case *Overwrite:
		c.next = &Manifest{Version: 1, Bases: map[uint32]Base{}, Config: map[string]string{}, TableMetadata: map[string]string{}}
		return nil
	}
	return fault.New(fault.NotFound, "manifest: %s needs a table that exists", c.tx.Op.Kind())
}

// inherit is what a version hands on (section 4.1): all but the transaction, the
// time, the writer and the unused fields.
func (m *Manifest) inherit() *Manifest {
	next := &Manifest{
		Schema:              m.Schema,
		Fragments:           slices.Clone(m.Fragments),
		DataFormat:          m.DataFormat,
		Config:              cloneMap(m.Config),
		TableMetadata:       cloneMap(m.TableMetadata),
		Bases:               maps.Clone(m.Bases),
		Branch:              m.Branch,
		NextRowID:           m.NextRowID,
		MaxFragmentID:       m.MaxFragmentID,
		MaxAllocatedFieldID: m.MaxAllocatedFieldID,
		entries:             m.entries,
		unknown:             m.unknown,
	}
	if next.Bases == nil {
		next.Bases = map[uint32]Base{}
	}
	return next
}

func cloneMap(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return maps.Clone(m)
}

// freeFragment is the fragment id above all that were ever given or reserved
// (section 4.5).
func (m *Manifest) freeFragment() uint64 {
	free := uint64(0)
	if m.MaxFragmentID != nil {
		free = uint64(*m.MaxFragmentID) + 1
	}
	if n := len(m.Fragments); n > 0 {
		free = max(free, m.Fragments[n-1].ID+1)
	}
	return free
}

// MaxFieldID is the greatest field id that the schema or a data file names, or
// that was ever given where ids are kept; -1 if there is none. New columns take
// the ids above it (section 2.5).
func (m *Manifest) MaxFieldID() schema.FieldID {
	most := schema.FieldID(-1)
	for f := range m.Schema.All() {
		most = max(most, f.ID)
	}
	for i := range m.Fragments {
		for j := range m.Fragments[i].Files {
			for _, id := range m.Fragments[i].Files[j].Fields {
				most = max(most, id)
			}
		}
	}
	if m.MaxAllocatedFieldID != nil {
		most = max(most, *m.MaxAllocatedFieldID)
	}
	return most
}

// assign gives a new fragment the next id.
func (c *change) assign(f *Fragment) error {
	if c.free > math.MaxUint32 {
		return fault.New(fault.Exhausted, "manifest: all 2^32 fragment ids of the table are used up")
	}
	f.ID = c.free
	c.free++
	return nil
}

// finish settles what follows from the rest: order, files without data, legacy
// blob columns, marks and flags.
func (c *change) finish() error {
	next := c.next
	slices.SortFunc(next.Fragments, func(a, b Fragment) int {
		switch {
		case a.ID < b.ID:
			return -1
		case a.ID > b.ID:
			return 1
		}
		return 0
	})
	for i := 1; i < len(next.Fragments); i++ {
		if next.Fragments[i].ID == next.Fragments[i-1].ID {
			return fault.New(fault.Invalid, "manifest: fragment id %d would be there twice", next.Fragments[i].ID)
		}
	}
	for i := range next.Fragments {
		next.Fragments[i].dropFiles(func(d *DataFile) bool { return !d.onlyTombstones() })
	}
	if err := c.switchLegacyBlobs(); err != nil {
		return err
	}
	if c.free > 0 {
		if last := uint32(c.free - 1); next.MaxFragmentID == nil || *next.MaxFragmentID < last {
			next.MaxFragmentID = &last
		}
	}
	if next.MaxAllocatedFieldID != nil {
		most := next.MaxFieldID()
		next.MaxAllocatedFieldID = &most
	}
	if err := next.checkColumns(); err != nil {
		return err
	}
	if err := c.setFlags(); err != nil {
		return err
	}
	next.Timestamp = c.o.Now.UTC()
	next.WriterVersion = c.o.Writer
	if next.WriterVersion == "" {
		next.WriterVersion = DefaultWriter
	}
	next.TransactionID = c.tx.FileName()
	if c.o.NoTransactionFile {
		next.TransactionID = ""
	}
	next.tag = c.tx.Tag
	next.Operation = c.tx.Op.Kind().String()
	next.setIndexes(next.entries)
	return nil
}

// dropFiles keeps some files of a fragment, without touching the list that it
// shares with the version before.
func (f *Fragment) dropFiles(keep func(*DataFile) bool) {
	for i := range f.Files {
		if keep(&f.Files[i]) {
			continue
		}
		files := slices.Clone(f.Files[:i])
		for _, d := range f.Files[i+1:] {
			if keep(&d) {
				files = append(files, d)
			}
		}
		f.Files = files
		return
	}
}

func (d *DataFile) onlyTombstones() bool {
	return len(d.Fields) > 0 && !slices.ContainsFunc(d.Fields, func(id schema.FieldID) bool { return id != Tombstone })
}

// reaches says that the file holds a column of the schema, or a hidden one.
func (d *DataFile) reaches(s *schema.Schema) bool {
	return slices.ContainsFunc(d.Fields, func(id schema.FieldID) bool {
		return id <= RowIDColumn || id >= 0 && s.ByID(id) != nil
	})
}

// byID finds a fragment of the manifest.
func (m *Manifest) byID(id uint64) *Fragment {
	i, ok := slices.BinarySearchFunc(m.Fragments, id, func(f Fragment, id uint64) int {
		switch {
		case f.ID < id:
			return -1
		case f.ID > id:
			return 1
		}
		return 0
	})
	if !ok {
		return nil
	}
	return &m.Fragments[i]
}

// existing finds a fragment that the transaction changes.
func (c *change) existing(id uint64) (*Fragment, error) {
	f := c.next.byID(id)
	if f == nil {
		return nil, fault.New(fault.Conflict, "manifest: fragment %d, which this %s changes, is not in version %d any more", id, c.tx.Op.Kind(), c.base.Version)
	}
	return f, nil
}

// remove takes fragments out; each must be there.
func (c *change) remove(ids []uint64) error {
	gone := make(map[uint64]bool, len(ids))
	for _, id := range ids {
		if _, err := c.existing(id); err != nil {
			return err
		}
		gone[id] = true
	}
	c.next.Fragments = slices.DeleteFunc(c.next.Fragments, func(f Fragment) bool { return gone[f.ID] })
	return nil
}
