// Package manifest is what a version of a table says and what a change to it
// means. It is pure: bytes in, values out, no I/O.
//
// A version is one Manifest (Decode, Encode). A change is a Transaction; Apply
// makes the next Manifest of it, and Judge says whether it may still be applied
// when others committed first.
//
//	[ u32 length | IndexSection ]   only if the version has indexes
//	[ u32 length | Transaction  ]   only if stored inline
//	  u32 length | Manifest         at the position that the footer names
//	  i64 manifest position, u16 0, u16 2, "LANC"
package manifest

import (
	"time"

	"github.com/flightblob/flightblob/schema"
)

// Manifest is one decoded version. Read-only.
type Manifest struct {
	Version       uint64
	Schema        *schema.Schema
	Fragments     []Fragment // ascending by id
	Timestamp     time.Time
	ReaderFlags   Flags
	WriterFlags   Flags
	DataFormat    string // "2.2"; from the data files when the manifest names none
	WriterVersion string // "lance 14.0.2"
	Config        map[string]string
	TableMetadata map[string]string
	Bases         map[uint32]Base
	Branch        string // "" on main
	NextRowID     uint64
	MaxFragmentID *uint32 // greatest id ever given or reserved; nil before the first
	Operation     string  // of the transaction: "Append", …; "" when unknown
	TransactionID string  // file name inside _transactions, may be empty
	IndexCount    int
	Indexes       []Index // those of IndexCount that are understood

	// MaxAllocatedFieldID is the greatest field id ever given, where ids are
	// never used again (FlagFieldIDsKept); nil otherwise.
	MaxAllocatedFieldID *schema.FieldID

	fragmentTree bool // fragments are listed in a tree, not here
	overlays     bool // some fragment has overlay files

	entries       [][]byte // entries of the index section, as they came
	tag           string   // field 8, unused
	aux           uint64   // field 4, unused
	formatDerived bool     // DataFormat is not in the message
	unknown       []byte   // fields of a newer writer, as they came
}

// Flags is a feature flag word, table-format sheet section 3.
type Flags uint64

// Fragment is a horizontal slice of the table.
type Fragment struct {
	ID           uint64
	Files        []DataFile
	Deletion     *DeletionFile
	PhysicalRows uint64 // deleted rows included
	// RowIDs holds the encoded RowIdSequence (stable row ids only). With
	// RowIDsInColumn the sequence is the hidden column -3 of a data file.
	RowIDs          []byte
	RowIDsInColumn  bool
	CreatedAt       []byte // encoded version sequence, hidden column -4 if CreatedAtInColumn
	CreatedInColumn bool
	UpdatedAt       []byte // hidden column -5 if UpdatedInColumn
	UpdatedInColumn bool

	unknown []byte
}

// DataFile is one file of a fragment: some columns of all its rows.
type DataFile struct {
	Path    string // relative to the data directory
	Fields  []schema.FieldID
	Columns []int32 // physical column of Fields[i]
	Major   uint32
	Minor   uint32
	Size    uint64 // 0 = unknown
	BaseID  *uint32

	unknown []byte
}

// DeletionFile names the file that lists a fragment's deleted rows.
type DeletionFile struct {
	Bitmap      bool // false: Arrow array, true: Roaring bitmap
	ReadVersion uint64
	ID          uint64
	Rows        uint64
	BaseID      *uint32

	unknown []byte
}

// Base is a registered base path of a manifest, looked up by id, never by
// position in the list.
type Base struct {
	ID            uint32
	Name          string
	IsDatasetRoot bool
	Path          string // as the manifest spells it: plain path or URI

	unknown string
}

// LiveRows is the number of rows that are not deleted.
func (f *Fragment) LiveRows() uint64 {
	if f.Deletion == nil {
		return f.PhysicalRows
	}
	return f.PhysicalRows - f.Deletion.Rows
}

// Rows is the number of rows of the version, deleted ones not counted. It
// cannot overflow: a fragment has at most 2^32 rows, and fewer than 2^32
// fragments fit into a manifest.
func (m *Manifest) Rows() uint64 {
	var n uint64
	for i := range m.Fragments {
		n += m.Fragments[i].LiveRows()
	}
	return n
}
