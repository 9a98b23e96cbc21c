package manifest

import (
	"maps"
	"slices"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/schema"
)

// merge takes the files and the schema of a transaction that added or replaced
// columns. All else of a fragment stays as the newest version has it.
func (c *change) merge(op *Merge) error {
	if len(op.Fragments) != len(c.next.Fragments) {
		return fault.New(fault.Conflict, "manifest: a merge of %d fragments on version %d, which has %d", len(op.Fragments), c.base.Version, len(c.next.Fragments))
	}
	seen := make(map[uint64]bool, len(op.Fragments))
	for i := range op.Fragments {
		merged := &op.Fragments[i]
		f, err := c.existing(merged.ID)
		if err != nil {
			return err
		}
		if seen[merged.ID] || merged.PhysicalRows != f.PhysicalRows {
			return fault.New(fault.Invalid, "manifest: the merge gives fragment %d %d rows; it has %d", f.ID, merged.PhysicalRows, f.PhysicalRows)
		}
		seen[merged.ID] = true
	}
	if err := checkSchemaChange(c.base, op.Schema, op.Fragments); err != nil {
		return err
	}
	c.next.Schema = op.Schema
	for i := range op.Fragments {
		if err := c.mergeFiles(&op.Fragments[i]); err != nil {
			return err
		}
	}
	return c.dropColumns()
}

func (c *change) mergeFiles(merged *Fragment) error {
	f, err := c.existing(merged.ID)
	if err != nil {
		return err
	}
	if sameFiles(f.Files, merged.Files) {
		return nil
	}
	rewritten := rewrittenFields(f.Files, merged.Files)
	f.Files = merged.Files
	if err := c.checkFiles(f); err != nil {
		return err
	}
	if err := c.touch(f, nil); err != nil {
		return err
	}
	return c.unclaim([]uint64{f.ID}, rewritten)
}

// rewrittenFields are the fields that both lists have, in different files: an
// empty list, not nil, when there are none.
func rewrittenFields(before, after []DataFile) []schema.FieldID {
	was := map[schema.FieldID]*DataFile{}
	for i := range before {
		for _, id := range before[i].Fields {
			if id >= 0 {
				was[id] = &before[i]
			}
		}
	}
	out := []schema.FieldID{}
	for i := range after {
		for _, id := range after[i].Fields {
			if file := was[id]; id >= 0 && file != nil && !file.samePlace(&after[i]) {
				out = append(out, id)
			}
		}
	}
	return out
}

func (d *DataFile) samePlace(other *DataFile) bool {
	return d.Path == other.Path && sameBase(d.BaseID, other.BaseID)
}

func (d *DataFile) same(other *DataFile) bool {
	return d.samePlace(other) && d.Major == other.Major && d.Minor == other.Minor &&
		slices.Equal(d.Fields, other.Fields) && slices.Equal(d.Columns, other.Columns)
}

// project takes a schema with fewer columns, other names or other nullability,
// or with columns that have no data yet.
func (c *change) project(op *Project) error {
	if err := checkSchemaChange(c.base, op.Schema, nil); err != nil {
		return err
	}
	c.next.Schema = op.Schema.WithMetadata(c.base.Schema.Metadata)
	for i := range c.next.Fragments {
		f := &c.next.Fragments[i]
		had := len(f.Files)
		f.dropFiles(func(d *DataFile) bool { return d.reaches(c.next.Schema) })
		if had > 0 && len(f.Files) == 0 { // pylance cannot read such a fragment
			return fault.New(fault.Precondition, "manifest: none of the columns that stay has a value in fragment %d; give it one in every row first, NULL will do", f.ID)
		}
	}
	return c.dropColumns()
}

// updateColumns takes the new files of a fragment whose columns were rewritten.
func (c *change) updateColumns(op *Update, updated *Fragment) error {
	f, err := c.existing(updated.ID)
	if err != nil {
		return err
	}
	if updated.PhysicalRows != f.PhysicalRows || !f.Deletion.same(updated.Deletion) {
		return fault.New(fault.Conflict, "manifest: rows of fragment %d were deleted since its columns were rewritten", f.ID)
	}
	f.Files = slices.Clone(updated.Files)
	if err := c.checkFiles(f); err != nil {
		return err
	}
	f.dropFiles(func(d *DataFile) bool { return d.reaches(c.next.Schema) })
	return c.touch(f, op.Offsets[f.ID])
}

// replaceData puts files in the place of columns (section 2.7): where a file
// has exactly these columns it goes, where it has more they become tombstones,
// where none has them the new one is added.
func (c *change) replaceData(op *DataReplacement) error {
	if len(op.Replacements) == 0 {
		return fault.New(fault.Invalid, "manifest: a replacement of nothing")
	}
	for i := range op.Replacements {
		r := &op.Replacements[i]
		if !slices.Equal(r.File.Fields, op.Replacements[0].File.Fields) {
			return fault.New(fault.Invalid, "manifest: all files of one replacement have the same fields; %s has %v, %s has %v",
				op.Replacements[0].File.Path, op.Replacements[0].File.Fields, r.File.Path, r.File.Fields)
		}
		f, err := c.existing(r.FragmentID)
		if err != nil {
			return err
		}
		f.Files = replaceColumns(f.Files, r.File)
		if err := c.checkFiles(f); err != nil {
			return err
		}
		f.dropFiles(func(d *DataFile) bool { return d.reaches(c.next.Schema) })
		if err := c.touch(f, nil); err != nil {
			return err
		}
		if err := c.unclaim([]uint64{f.ID}, r.File.Fields); err != nil {
			return err
		}
	}
	return nil
}

// replaceColumns gives the list of files in which one file answers for its
// fields alone.
func replaceColumns(files []DataFile, with DataFile) []DataFile {
	out := make([]DataFile, 0, len(files)+1)
	placed := false
	for _, d := range files {
		switch {
		case !placed && slices.Equal(d.Fields, with.Fields):
			placed = true
			d = with
		case slices.ContainsFunc(d.Fields, func(id schema.FieldID) bool { return id >= 0 && slices.Contains(with.Fields, id) }):
			d.Fields = slices.Clone(d.Fields)
			for i, id := range d.Fields {
				if id >= 0 && slices.Contains(with.Fields, id) {
					d.Fields[i] = Tombstone
				}
			}
		}
		out = append(out, d)
	}
	if !placed {
		out = append(out, with)
	}
	return out
}

// checkSchemaChange refuses a schema under which files would be read as what
// they are not: ids go on to mean the same field, with the same type, unless
// every fragment has a new file for it; new fields have new ids. fragments are
// those of a merge, nil when no data is written.
func checkSchemaChange(base *Manifest, next *schema.Schema, fragments []Fragment) error {
	if next == nil {
		return fault.New(fault.Invalid, "manifest: a change of columns needs a schema")
	}
	if err := checkNames(next); err != nil {
		return err
	}
	most := base.MaxFieldID()
	for f := range next.All() {
		old := base.Schema.ByID(f.ID)
		if old == nil {
			if f.ID <= most {
				return fault.New(fault.Invalid, "manifest: the new field %s has id %d, but ids up to %d are taken by fields that exist or existed", f.FullName(), f.ID, most)
			}
			continue
		}
		if parentID(f) != parentID(old) {
			return fault.New(fault.Invalid, "manifest: field %d moves from %s to %s; a field stays below its parent", f.ID, old.FullName(), f.FullName())
		}
		if f.Logical == old.Logical && f.Nullable == old.Nullable {
			continue
		}
		if fragments == nil && f.Logical == old.Logical {
			continue // nullability may change without data
		}
		if base.MaxAllocatedFieldID != nil && f.Logical != old.Logical || !rewrittenEverywhere(base, fragments, f.ID) {
			return fault.New(fault.Invalid, "manifest: field %s (id %d) turns from %s into %s, and not every fragment has new data for it; give it a new id",
				f.FullName(), f.ID, typeText(old), typeText(f))
		}
	}
	return nil
}

func parentID(f *schema.Field) schema.FieldID {
	if f.Parent == nil {
		return schema.NoParent
	}
	return f.Parent.ID
}

func typeText(f *schema.Field) string {
	if f.Nullable {
		return f.Logical
	}
	return f.Logical + " not null"
}

func rewrittenEverywhere(base *Manifest, fragments []Fragment, id schema.FieldID) bool {
	for i := range fragments {
		before := base.byID(fragments[i].ID)
		after, _ := fragments[i].File(id)
		if before == nil || after == nil {
			return false
		}
		if old, _ := before.File(id); old != nil && old.samePlace(after) {
			return false
		}
	}
	return len(fragments) == len(base.Fragments) && fragments != nil
}

// checkNames refuses siblings of one name.
func checkNames(s *schema.Schema) error {
	if err := distinct(s.Fields); err != nil {
		return err
	}
	for f := range s.All() {
		if err := distinct(f.Children); err != nil {
			return err
		}
	}
	return nil
}

func distinct(fields []*schema.Field) error {
	seen := make(map[string]bool, len(fields))
	for _, f := range fields {
		if seen[f.Name] {
			return fault.New(fault.Invalid, "manifest: two fields are called %s", f.FullName())
		}
		seen[f.Name] = true
	}
	return nil
}

// switchLegacyBlobs gives legacy blob columns the Blob v2 schema as soon as a
// file of format 2.2 or later holds them (LEG-5): same id, the marker exchanged,
// new ids for the two children at the end. Old files stay as they are.
func (c *change) switchLegacyBlobs() error {
	var switched map[schema.FieldID]bool
	for f := range c.next.Schema.Blobs() {
		if f.Blob == schema.LegacyBlob && c.next.inBlobV2File(f.ID) {
			if switched == nil {
				switched = map[schema.FieldID]bool{}
			}
			switched[f.ID] = true
		}
	}
	if switched == nil {
		return nil
	}
	free := c.next.MaxFieldID() + 1
	var records []schema.Record
	for _, r := range c.next.Schema.Records() {
		if !switched[r.ID] {
			records = append(records, r)
			continue
		}
		r.LogicalType = "struct"
		r.Extension = schema.ExtensionBlobV2
		r.Metadata = maps.Clone(r.Metadata)
		delete(r.Metadata, schema.KeyBlob)
		r.Metadata[schema.KeyExtensionName] = schema.ExtensionBlobV2
		r.Carried.Encoding = schema.EncodingNone
		records = append(records, r,
			schema.Record{ID: free, ParentID: r.ID, Name: "data", LogicalType: "large_binary", Nullable: true},
			schema.Record{ID: free + 1, ParentID: r.ID, Name: "uri", LogicalType: "string", Nullable: true})
		free += 2
	}
	tree, err := schema.FromRecords(records, c.next.Schema.Metadata)
	if err != nil {
		return err
	}
	c.next.Schema = tree
	return nil
}

func (m *Manifest) inBlobV2File(id schema.FieldID) bool {
	for i := range m.Fragments {
		if d, _ := m.Fragments[i].File(id); d != nil && d.Major >= 2 && d.Minor >= 2 {
			return true
		}
	}
	return false
}
