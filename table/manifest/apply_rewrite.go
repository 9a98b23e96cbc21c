package manifest

import (
	"slices"

	"github.com/flightblob/flightblob/internal/fault"
)

// rewrite replaces fragments by others that hold the same rows (section 7.4).
// Indexes that answer with addresses lose the rewritten fragments.
func (c *change) rewrite(op *Rewrite) error {
	if len(op.Rewritten) > 0 {
		return fault.New(fault.Unsupported, "manifest: this program does not rewrite indexes")
	}
	if err := c.refuseSystemIndexes(); err != nil {
		return err
	}
	if err := c.keepIndexes(func(e *indexEntry) bool { return !e.system() }); err != nil {
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
	groups := slices.Clone(op.Groups)
	for i := range groups {
		groups[i].New = slices.Clone(groups[i].New)
		for j := range groups[i].New {
			f := &groups[i].New[j]
			if f.ID == 0 {
				if err := c.assign(f); err != nil {
					return err
				}
			}
			if err := c.checkRewritten(f); err != nil {
				return err
			}
			c.next.Fragments = append(c.next.Fragments, *f)
		}
	}
	return c.reclaim(groups, old)
}

// checkGroup makes sure that a group neither loses nor gains a row.
func (c *change) checkGroup(g *RewriteGroup) error {
	var before, after uint64
	for i := range g.Old {
		f, err := c.existing(g.Old[i].ID)
		if err != nil {
			return err
		}
		if !f.sameRows(&g.Old[i]) {
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

// CheckMovable says why the rows of this version must not get other addresses,
// or nil: a system entry of the index section depends on where they are, or one
// that cannot be read might.
func (m *Manifest) CheckMovable() error {
	c := &change{next: m}
	return c.refuseSystemIndexes()
}

// HasSame says that the version has these fragments, with the same data files
// and the same rows deleted.
func (m *Manifest) HasSame(fragments []Fragment) bool {
	for i := range fragments {
		f := m.byID(fragments[i].ID)
		if f == nil || !f.sameRows(&fragments[i]) {
			return false
		}
	}
	return true
}

// HasFiles says that the fragment has these data files, with the same columns.
func (f *Fragment) HasFiles(files []DataFile) bool { return sameFiles(f.Files, files) }

func (f *Fragment) sameRows(other *Fragment) bool {
	return sameFiles(f.Files, other.Files) && f.Deletion.same(other.Deletion)
}

// reclaim takes rewritten fragments from what indexes claim to cover. Indexes that
// name rows by stable ids know the new fragments of a group in their place, if
// they knew all of its old ones.
func (c *change) reclaim(groups []RewriteGroup, old []uint64) error {
	claims := map[string][]byte{}
	if c.stableRowIDs() {
		for _, raw := range c.next.entries {
			x, ok := decodeIndex(raw)
			if !ok || !x.NamesIDs() || x.Fragments == nil {
				continue
			}
			if come := follow(&x, groups); len(come) > 0 {
				for j := range c.next.Fragments { // the old ones are gone from it
					if id := c.next.Fragments[j].ID; x.Fragments.Contains(uint32(id)) {
						come = append(come, uint32(id))
					}
				}
				claims[x.UUID] = bitmapOf(come)
			}
		}
	}
	if err := c.unclaim(old, nil); err != nil {
		return err
	}
	for i, raw := range c.next.entries {
		x, ok := decodeIndex(raw)
		if !ok || claims[x.UUID] == nil {
			continue
		}
		var err error
		if c.next.entries[i], err = withBytes(raw, 5, claims[x.UUID]); err != nil {
			return err
		}
	}
	return nil
}

// follow gives the new fragments of groups of which an index knows all old ones.
func follow(x *Index, groups []RewriteGroup) (come []uint32) {
	for i := range groups {
		known := !slices.ContainsFunc(groups[i].Old, func(f Fragment) bool { return !x.Fragments.Contains(uint32(f.ID)) })
		if !known {
			continue
		}
		for j := range groups[i].New {
			come = append(come, uint32(groups[i].New[j].ID))
		}
	}
	return come
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
