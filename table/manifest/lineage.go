package manifest

import (
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/table/rowset"
)

// stableRowIDs says that rows of the next version have stable ids.
func (c *change) stableRowIDs() bool {
	switch {
	case c.base != nil:
		return c.base.StableRowIDs()
	case c.o.Source != nil:
		return c.o.Source.StableRowIDs()
	}
	return c.o.StableRowIDs
}

// nameRows gives the rows of a new fragment their ids and versions (sections
// 5.3, 5.4).
func (c *change) nameRows(f *Fragment) error {
	f.RowIDs, f.CreatedAt, f.UpdatedAt = nil, nil, nil
	f.RowIDsInColumn, f.CreatedInColumn, f.UpdatedInColumn = false, false, false
	if !c.stableRowIDs() {
		return nil
	}
	ids, err := c.takeRowIDs(f.PhysicalRows)
	if err != nil {
		return err
	}
	f.RowIDs = ids.Encode()
	f.CreatedAt = rowset.UniformVersions(f.PhysicalRows, c.next.Version).Encode()
	f.UpdatedAt = f.CreatedAt
	return nil
}

func (c *change) takeRowIDs(rows uint64) (*rowset.IDs, error) {
	ids, err := rowset.IDRange(c.next.NextRowID, rows)
	if err != nil {
		return nil, err
	}
	c.next.NextRowID += rows
	return ids, nil
}

// takeGivenIDs takes those of the ids that no row has had yet: rows that were
// inserted among moved ones. They are the next ids, in order, or those of another
// version.
func (c *change) takeGivenIDs(ids *rowset.IDs) error {
	for i := range ids.Len() {
		switch id := ids.At(i); {
		case id > c.next.NextRowID:
			return fault.New(fault.Conflict, "manifest: a new row brings the id %d, the next one of version %d is %d", id, c.base.Version, c.next.NextRowID)
		case id == c.next.NextRowID:
			c.next.NextRowID++
		}
	}
	return nil
}

// nameMovedRows completes a fragment that an update wrote: moved rows have
// brought their ids, inserted ones after them get new ids. Moved rows keep the
// version that created them.
func (c *change) nameMovedRows(f *Fragment, from *sources) error {
	if !c.stableRowIDs() {
		return c.nameRows(f)
	}
	if f.RowIDsInColumn || f.CreatedInColumn || f.UpdatedInColumn {
		return fault.New(fault.Unsupported, "manifest: new fragments with row ids in hidden columns are not written")
	}
	moved, err := rowset.DecodePartialRowIDs(f.RowIDs, f.PhysicalRows)
	if err != nil {
		return err
	}
	if err := c.takeGivenIDs(moved); err != nil {
		return err
	}
	inserted, err := c.takeRowIDs(f.PhysicalRows - moved.Len())
	if err != nil {
		return err
	}
	f.RowIDs = rowset.JoinIDs(moved, inserted).Encode()
	if f.CreatedAt == nil {
		created, err := from.createdAt(moved)
		if err != nil {
			return err
		}
		f.CreatedAt = rowset.JoinVersions(created, rowset.UniformVersions(inserted.Len(), c.next.Version)).Encode()
	} else if _, err := rowset.DecodeVersions(f.CreatedAt, f.PhysicalRows); err != nil {
		return err
	}
	f.UpdatedAt = rowset.UniformVersions(f.PhysicalRows, c.next.Version).Encode()
	return nil
}

// sources are the fragments that an update moves rows out of, as they are in
// the version before.
type sources struct {
	c         *change
	fragments []*Fragment
}

func newSources(c *change) *sources { return &sources{c: c} }

func (s *sources) add(id uint64) {
	if f := s.c.base.byID(id); f != nil {
		s.fragments = append(s.fragments, f)
	}
}

// createdAt looks the rows up by their ids. A row that no source has is taken
// for one that the update inserted under an id of its own.
func (s *sources) createdAt(ids *rowset.IDs) (*rowset.Versions, error) {
	wanted := ids.AppendRange(nil, 0, ids.Len())
	created := make(map[uint64]uint64, len(wanted))
	for _, id := range wanted {
		created[id] = s.c.next.Version
	}
	if len(wanted) == 0 {
		return rowset.VersionsOf(nil), nil
	}
	for _, f := range s.fragments {
		if f.RowIDsInColumn || f.CreatedInColumn {
			return nil, fault.New(fault.Unsupported, "manifest: fragment %d keeps row ids or their versions in hidden columns; the update must say when its rows were created", f.ID)
		}
		have, err := rowset.DecodeRowIDs(f.RowIDs, f.PhysicalRows)
		if err != nil {
			return nil, err
		}
		versions := rowset.DefaultVersions(f.PhysicalRows)
		if f.CreatedAt != nil {
			if versions, err = rowset.DecodeVersions(f.CreatedAt, f.PhysicalRows); err != nil {
				return nil, err
			}
		}
		for row := range f.PhysicalRows {
			id := have.At(row)
			if _, ok := created[id]; ok {
				created[id] = versions.At(row)
			}
		}
	}
	out := make([]uint64, len(wanted))
	for i, id := range wanted {
		out[i] = created[id]
	}
	return rowset.VersionsOf(out), nil
}

// touch marks rows of a fragment as updated by this version; rows is a Roaring
// bitmap of their offsets, nil for all.
func (c *change) touch(f *Fragment, rows []byte) error {
	if !c.stableRowIDs() {
		return nil
	}
	if rows == nil {
		f.UpdatedAt, f.UpdatedInColumn = rowset.UniformVersions(f.PhysicalRows, c.next.Version).Encode(), false
		return nil
	}
	if f.UpdatedInColumn {
		return fault.New(fault.Unsupported, "manifest: fragment %d keeps the versions of its rows in a hidden column; an update of some rows must rewrite them", f.ID)
	}
	set, err := rowset.DecodeDeletions(rows, true, f.PhysicalRows)
	if err != nil {
		return fault.New(fault.Invalid, "manifest: updated rows of fragment %d: %w", f.ID, err)
	}
	versions := rowset.DefaultVersions(f.PhysicalRows)
	if f.UpdatedAt != nil {
		if versions, err = rowset.DecodeVersions(f.UpdatedAt, f.PhysicalRows); err != nil {
			return err
		}
	}
	f.UpdatedAt = versions.With(set, c.next.Version).Encode()
	return nil
}

// checkNamed wants a row id for each row of a fragment.
func checkNamed(f *Fragment) error {
	if f.RowIDsInColumn {
		return nil
	}
	if _, err := rowset.DecodeRowIDs(f.RowIDs, f.PhysicalRows); err != nil {
		return fault.New(fault.Invalid, "manifest: fragment %d: %w", f.ID, err)
	}
	for _, versions := range [][]byte{f.CreatedAt, f.UpdatedAt} {
		if versions == nil {
			continue
		}
		if _, err := rowset.DecodeVersions(versions, f.PhysicalRows); err != nil {
			return fault.New(fault.Invalid, "manifest: fragment %d: %w", f.ID, err)
		}
	}
	return nil
}

// bitmapOf encodes numbers as a Roaring bitmap.
func bitmapOf(values []uint32) []byte {
	set, err := rowset.Deleted(maxRows, func(yield func(uint64) bool) {
		for _, v := range values {
			if !yield(uint64(v)) {
				return
			}
		}
	})
	if err != nil { // no number of 32 bits is outside
		return nil
	}
	return set.EncodeBitmap()
}
