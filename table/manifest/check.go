package manifest

import (
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/schema"
)

// checkNew refuses a fragment that was just written and could not be read, or
// that the reference would refuse.
func (c *change) checkNew(f *Fragment) error {
	if f.PhysicalRows == 0 || f.PhysicalRows > maxRows {
		return fault.New(fault.Invalid, "manifest: a new fragment has %d rows; 1 to 2^32 are allowed", f.PhysicalRows)
	}
	if len(f.Files) == 0 {
		return fault.New(fault.Invalid, "manifest: a new fragment of %d rows has no data file", f.PhysicalRows)
	}
	return c.checkFiles(f)
}

// checkFiles compares the files of a fragment with the schema that they come to
// lie under (section 2.5).
func (c *change) checkFiles(f *Fragment) error {
	owner := map[schema.FieldID]string{}
	for i := range f.Files {
		d := &f.Files[i]
		if err := c.checkFile(d); err != nil {
			return err
		}
		for _, id := range d.Fields {
			if id < 0 {
				continue
			}
			if other, taken := owner[id]; taken {
				return fault.New(fault.Invalid, "manifest: data files %s and %s of one fragment both hold field %d", other, d.Path, id)
			}
			owner[id] = d.Path
		}
	}
	return nil
}

func (c *change) checkFile(d *DataFile) error {
	if err := checkRelative(d.Path); err != nil {
		return fault.New(fault.Invalid, "manifest: %w", err)
	}
	switch d.Format() {
	case "2.0", "2.1", "2.2", "2.3":
	default:
		return fault.New(fault.Unsupported, "manifest: data file %s has version %s; allowed are 2.0, 2.1, 2.2 and 2.3", d.Path, d.Format())
	}
	if len(d.Fields) == 0 || len(d.Fields) != len(d.Columns) {
		return fault.New(fault.Invalid, "manifest: data file %s lists %d fields and %d columns", d.Path, len(d.Fields), len(d.Columns))
	}
	if err := c.checkBase(d.BaseID, "data file", d.Path); err != nil {
		return err
	}
	for i, id := range d.Fields {
		if err := c.checkColumn(d, id, d.Columns[i]); err != nil {
			return err
		}
	}
	return nil
}

// checkColumn is the rule of which fields own a column: leaves, packed structs
// and blobs, from format 2.1 on. An id that the schema does not have is normal,
// since columns are dropped while files are staged.
func (c *change) checkColumn(d *DataFile, id schema.FieldID, column int32) error {
	switch {
	case id == schema.NoParent || id < UpdatedAtColumn:
		return fault.New(fault.Invalid, "manifest: data file %s lists the field id %d", d.Path, id)
	case column < -1:
		return fault.New(fault.Invalid, "manifest: data file %s names column %d", d.Path, column)
	}
	f := c.next.Schema.ByID(id)
	if f == nil || d.Major == 2 && d.Minor == 0 || d.Major == 0 {
		return nil
	}
	switch {
	case f.Shape == schema.Leaf && column < 0:
		return fault.New(fault.Invalid, "manifest: data file %s has no column for field %s", d.Path, f.FullName())
	case f.Shape != schema.Leaf && column >= 0:
		return fault.New(fault.Invalid, "manifest: data file %s has a column for field %s, which is a struct or a list", d.Path, f.FullName())
	}
	for p := f.Parent; p != nil; p = p.Parent {
		if p.Shape == schema.Leaf {
			return fault.New(fault.Invalid, "manifest: data file %s has a column for field %s, which is stored with %s", d.Path, f.FullName(), p.FullName())
		}
	}
	return nil
}

func (c *change) checkBase(id *uint32, what string, name any) error {
	if id == nil {
		return nil
	}
	if _, ok := c.next.Bases[*id]; !ok {
		return fault.New(fault.Invalid, "manifest: %s %v is in base %d, which is not registered", what, name, *id)
	}
	return nil
}
