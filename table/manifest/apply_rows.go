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
