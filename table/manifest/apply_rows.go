package manifest

import (
	"github.com/flightblob/flightblob/internal/fault"
)

// append adds new fragments under the next ids.
func (c *change) append(op *Append) error {
	if len(op.Fragments) == 0 {
		return fault.New(fault.Invalid, "manifest: an append without fragments")
	}
	if c.next.DataFormat == "" {
		if err := c.chooseFormat(op.Fragments); err != nil {
			return err
		}
	}
	return c.addNew(op.Fragments)
}

// addNew adds fragments that were just written: ids, row ids and lineage are
// given here.
func (c *change) addNew(fragments []Fragment) error {
	for _, f := range fragments {
		if f.Deletion != nil {
			return fault.New(fault.Invalid, "manifest: a new fragment has a deletion file; its name would hold an id that the fragment does not have yet")
		}
		if err := c.assign(&f); err != nil {
			return err
		}
		if err := c.checkNew(&f); err != nil {
			return err
		}
		if err := c.nameRows(&f); err != nil {
			return err
		}
		c.next.Fragments = append(c.next.Fragments, f)
	}
	return nil
}

func (c *change) delete(op *Delete) error {
	if len(op.Updated)+len(op.Deleted) == 0 {
		return fault.New(fault.Invalid, "manifest: a delete without fragments")
	}
	for i := range op.Updated {
		if err := c.deleteRows(&op.Updated[i]); err != nil {
			return err
		}
	}
	return c.remove(op.Deleted)
}

// deleteRows gives a fragment its new deletion file and leaves all else as the
// newest version has it.
func (c *change) deleteRows(updated *Fragment) error {
	f, err := c.existing(updated.ID)
	if err != nil {
		return err
	}
	d := updated.Deletion
	switch {
	case d == nil || d.Rows == 0:
		return fault.New(fault.Invalid, "manifest: fragment %d is to lose rows but has no deletion file", f.ID)
	case updated.PhysicalRows != f.PhysicalRows:
		return fault.New(fault.Conflict, "manifest: fragment %d has %d rows, not the %d that the transaction saw", f.ID, f.PhysicalRows, updated.PhysicalRows)
	case d.Rows >= f.PhysicalRows:
		return fault.New(fault.Invalid, "manifest: all %d rows of fragment %d are deleted; such a fragment is removed", f.PhysicalRows, f.ID)
	case f.Deletion != nil && d.Rows < f.Deletion.Rows:
		return fault.New(fault.Conflict, "manifest: fragment %d has %d deleted rows in version %d, the transaction knows %d only", f.ID, f.Deletion.Rows, c.base.Version, d.Rows)
	}
	if err := c.checkBase(d.BaseID, "deletion file of fragment", f.ID); err != nil {
		return err
	}
	f.Deletion = d
	return nil
}

// overwrite replaces rows, schema and indexes, or creates the table. What the
// table has beside them stays; ids of fragments and rows go on.
func (c *change) overwrite(op *Overwrite) error {
	if op.Schema == nil {
		return fault.New(fault.Invalid, "manifest: an overwrite needs a schema")
	}
	next := c.next
	next.Fragments = nil
	next.entries = nil
	if c.base != nil {
		if len(op.InitialBases) > 0 {
			return fault.New(fault.Invalid, "manifest: bases are given when a table is created, or added to it later")
		}
		if c.base.MaxAllocatedFieldID != nil {
			for f := range op.Schema.All() {
				if f.ID <= c.base.MaxFieldID() {
					return fault.New(fault.Invalid, "manifest: field %s has id %d; this table never uses ids again, the next one is %d", f.FullName(), f.ID, c.base.MaxFieldID()+1)
				}
			}
		}
	}
	next.Schema = op.Schema
	if err := checkNames(op.Schema); err != nil {
		return err
	}
	for k, v := range op.ConfigUpserts {
		next.Config[k] = v
	}
	if err := c.addInitialBases(op.InitialBases); err != nil {
		return err
	}
	if err := c.chooseFormat(op.Fragments); err != nil {
		return err
	}
	return c.addNew(op.Fragments)
}

// chooseFormat settles data_format: as asked for, as before, as the files say.
func (c *change) chooseFormat(fragments []Fragment) error {
	switch {
	case c.o.Format != "":
		c.next.DataFormat = c.o.Format
	case c.next.DataFormat != "":
	default:
		c.next.DataFormat = DefaultFormat
		for i := range fragments {
			for j := range fragments[i].Files {
				c.next.DataFormat = fragments[i].Files[j].Format()
			}
		}
	}
	switch c.next.DataFormat {
	case "2.0", "2.1", "2.2", "2.3":
		return nil
	}
	return fault.New(fault.Unsupported, "manifest: data file version %q; allowed are 2.0, 2.1, 2.2 and 2.3", c.next.DataFormat)
}

func (c *change) update(op *Update) error {
	if len(op.Compacted) > 0 {
		return fault.New(fault.Unsupported, "manifest: an update that moves the progress of a write-ahead log")
	}
	if len(op.Removed)+len(op.Updated)+len(op.New) == 0 {
		return fault.New(fault.Invalid, "manifest: an update without fragments")
	}
	sources := newSources(c)
	for i := range op.Updated {
		updated := &op.Updated[i]
		sources.add(updated.ID)
		var err error
		if op.Mode == RewriteColumns {
			err = c.updateColumns(op, updated)
		} else {
			err = c.deleteRows(updated)
		}
		if err != nil {
			return err
		}
	}
	for _, id := range op.Removed {
		sources.add(id)
	}
	if err := c.remove(op.Removed); err != nil {
		return err
	}
	if op.Mode == RewriteColumns {
		if err := c.unclaim(idsOf(op.Updated), op.FieldsModified); err != nil {
			return err
		}
	}
	for _, f := range op.New {
		if f.Deletion != nil {
			return fault.New(fault.Invalid, "manifest: a new fragment has a deletion file")
		}
		if err := c.assign(&f); err != nil {
			return err
		}
		if err := c.checkNew(&f); err != nil {
			return err
		}
		if err := c.nameMovedRows(&f, sources); err != nil {
			return err
		}
		c.next.Fragments = append(c.next.Fragments, f)
	}
	return nil
}

func idsOf(fragments []Fragment) []uint64 {
	ids := make([]uint64, len(fragments))
	for i := range fragments {
		ids[i] = fragments[i].ID
	}
	return ids
}

// rewrite replaces fragments by others that hold the same rows (section 7.4).
// Indexes answer with addresses, so they lose the rewritten fragments.
func (c *change) rewrite(op *Rewrite) error {
	if len(op.Rewritten) > 0 {
		return fault.New(fault.Unsupported, "manifest: this program does not rewrite indexes")
	}
	if err := c.refuseSystemIndexes(); err != nil {
		return err
	}
	var old []uint64
	for i := range op.Groups {
		g := &op.Groups[i]
		if len(g.Old) == 0 {
			return fault.New(fault.Invalid, "manifest: a rewrite of no fragments")
		}
		if err := c.checkGroup(g); err != nil {
			return err
		}
		old = append(old, idsOf(g.Old)...)
	}
	if err := c.remove(old); err != nil {
		return err
	}
	for i := range op.Groups {
		for _, f := range op.Groups[i].New {
			if f.ID == 0 {
				if err := c.assign(&f); err != nil {
					return err
				}
			}
			if err := c.checkRewritten(&f); err != nil {
				return err
			}
			c.next.Fragments = append(c.next.Fragments, f)
		}
	}
	return c.unclaim(old, nil)
}

// checkGroup makes sure that a group neither loses nor gains a row.
func (c *change) checkGroup(g *RewriteGroup) error {
	var before, after uint64
	for i := range g.Old {
		f, err := c.existing(g.Old[i].ID)
		if err != nil {
			return err
		}
		if !sameFiles(f.Files, g.Old[i].Files) || !f.Deletion.same(g.Old[i].Deletion) {
			return fault.New(fault.Conflict, "manifest: fragment %d is not in version %d what it was when it was rewritten", f.ID, c.base.Version)
		}
		before += f.LiveRows()
	}
	for i := range g.New {
		after += g.New[i].LiveRows()
	}
	if before != after {
		return fault.New(fault.Invalid, "manifest: a rewrite makes %d rows of %d", after, before)
	}
	return nil
}

// checkRewritten wants a complete fragment: id taken before, rows named.
func (c *change) checkRewritten(f *Fragment) error {
	if f.ID >= c.free {
		return fault.New(fault.Invalid, "manifest: fragment id %d was not reserved; the greatest one is %d", f.ID, c.free-1)
	}
	if err := c.checkNew(f); err != nil {
		return err
	}
	if !c.stableRowIDs() {
		return nil
	}
	return checkNamed(f)
}

func (d *DeletionFile) same(other *DeletionFile) bool {
	if d == nil || other == nil {
		return d == other
	}
	return d.Bitmap == other.Bitmap && d.ReadVersion == other.ReadVersion && d.ID == other.ID && d.Rows == other.Rows && sameBase(d.BaseID, other.BaseID)
}

func sameBase(a, b *uint32) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// sameFiles says that two lists name the same files with the same columns. Sizes
// are left out, since some writers do not know them.
func sameFiles(a, b []DataFile) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !a[i].same(&b[i]) {
			return false
		}
	}
	return true
}
