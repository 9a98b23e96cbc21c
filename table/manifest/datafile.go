package manifest

import (
	"fmt"

	"github.com/flightblob/flightblob/schema"
)

// Ids in DataFile.Fields that are no ids of the schema, section 2.5.
const (
	Tombstone       schema.FieldID = -2 // the column was replaced by a later file
	RowIDColumn     schema.FieldID = -3 // hidden column _rowid
	CreatedAtColumn schema.FieldID = -4 // hidden column _row_created_at_version
	UpdatedAtColumn schema.FieldID = -5 // hidden column _row_last_updated_at_version
)

// IsFormat01 says that the file has the first format, which this program does
// not read.
func (d *DataFile) IsFormat01() bool { return d.Major == 0 && d.Minor < 3 }

// formats2 are the texts of versions (2,0) and up, which every file has.
var formats2 = [...]string{"2.0", "2.1", "2.2", "2.3"}

// Format is the file's version in the words of data_format: (0,0..2) is "0.1",
// (0,3) is "2.0".
func (d *DataFile) Format() string {
	switch {
	case d.IsFormat01():
		return "0.1"
	case d.Major == 0 && d.Minor == 3:
		return "2.0"
	case d.Major == 2 && int(d.Minor) < len(formats2):
		return formats2[d.Minor]
	}
	return fmt.Sprintf("%d.%d", d.Major, d.Minor)
}

// Column is the physical column of a field in this file. Only hidden columns
// are found under a negative id.
func (d *DataFile) Column(id schema.FieldID) (int, bool) {
	if id == Tombstone || id == schema.NoParent {
		return 0, false
	}
	for i, have := range d.Fields {
		if have == id && i < len(d.Columns) && d.Columns[i] >= 0 {
			return int(d.Columns[i]), true
		}
	}
	return 0, false
}

// File finds the data file that holds a field, and the field's physical column
// there (RES-1). It gives nil when no file lists the field: then the column is
// all null in this fragment.
func (f *Fragment) File(id schema.FieldID) (*DataFile, int) {
	for i := range f.Files {
		if column, ok := f.Files[i].Column(id); ok {
			return &f.Files[i], column
		}
	}
	return nil, 0
}
