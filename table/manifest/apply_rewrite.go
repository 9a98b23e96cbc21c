package manifest

import (
	"slices"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/table/rowset"
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
	if c.stableRowIDs() {
		return c.reclaim(groups)
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

// reclaim follows rows that keep their ids into new fragments: indexes, which
// answer with ids then, know the new fragments of a group when they knew all of
// its old ones. Of groups that they knew in part they know nothing afterwards.
// Entries that are not touched stay byte for byte.
func (c *change) reclaim(groups []RewriteGroup) error {
	entries, err := parseEntries(c.next.entries)
	if err != nil {
		return err
	}
	var kept [][]byte
	for i := range entries {
		e := &entries[i]
		if e.pb.FragmentBitmap == nil { // nothing tells what it knows
			continue
		}
		covered, err := rowset.DecodeDeletions(e.pb.GetFragmentBitmap(), true, maxRows)
		if err != nil {
			return fault.New(fault.Corrupt, "manifest: the fragments of index %q: %w", e.pb.GetName(), err)
		}
		changed, touched, err := follow(covered, groups)
		if err != nil {
			return err
		}
		raw := e.raw
		if touched {
			if raw, err = withBytes(raw, 5, changed.EncodeBitmap()); err != nil {
				return err
			}
		}
		kept = append(kept, raw)
	}
	c.next.entries = kept
	return nil
}

// follow gives the fragments that an index knows after groups were rewritten,
// and whether that changed them.
func follow(covered *rowset.Deletions, groups []RewriteGroup) (*rowset.Deletions, bool, error) {
	var gone, come []uint64
	for i := range groups {
		known := 0
		for j := range groups[i].Old {
			if covered.Contains(groups[i].Old[j].ID) {
				gone = append(gone, groups[i].Old[j].ID)
				known++
			}
		}
		if known == len(groups[i].Old) {
			come = append(come, idsOf(groups[i].New)...)
		}
	}
	if len(gone) == 0 {
		return covered, false, nil
	}
	without, err := rowset.Deleted(maxRows, slices.Values(gone))
	if err != nil {
		return nil, false, err
	}
	with, err := rowset.Deleted(maxRows, slices.Values(come))
	if err != nil {
		return nil, false, err
	}
	after, err := covered.Without(without).Union(with)
	return after, true, err
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
