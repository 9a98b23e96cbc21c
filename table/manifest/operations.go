package manifest

import (
	"fmt"

	"github.com/flightblob/flightblob/schema"
)

// Transaction is one change to a table, as the commit that made it recorded it
// (section 2.7). It is what a later committer is judged by, and it cannot be
// replayed verbatim: ids, row ids and the index section are the commit's work.
type Transaction struct {
	ReadVersion uint64 // the version that the change was computed on; 0 for creation
	UUID        string // hyphenated, new for every transaction
	Tag         string // unused
	Properties  map[string]string
	Op          Operation
}

// KeyCommitMessage is the property that holds the message of a commit.
const KeyCommitMessage = "__lance_commit_message"

// FileName is the name of the transaction's file in _transactions, and the
// value of Manifest.TransactionID (section 4.3).
func (t *Transaction) FileName() string { return fmt.Sprintf("%d-%s.txn", t.ReadVersion, t.UUID) }

// Operation is what a transaction does: one of the types below, by pointer.
type Operation interface {
	// Kind is the operation's number on the wire.
	Kind() Kind
}

// Kind is the field number of an operation in a Transaction message.
type Kind int32

// The operations of section 2.7. Other numbers from 100 to 199 are operations
// of newer writers.
const (
	KindAppend Kind = 100 + iota
	KindDelete
	KindOverwrite
	KindCreateIndex
	KindRewrite
	KindMerge
	KindRestore
	KindReserveFragments
	KindUpdate
	KindProject
	KindUpdateConfig
	KindDataReplacement
	KindUpdateMemWalState
	KindClone
	KindUpdateBases
	KindDataOverlay
	kindEnd
)

var kindNames = [...]string{
	"Append", "Delete", "Overwrite", "CreateIndex", "Rewrite", "Merge", "Restore", "ReserveFragments", "Update",
	"Project", "UpdateConfig", "DataReplacement", "UpdateMemWalState", "Clone", "UpdateBases", "DataOverlay",
}

// known says that this program knows the operation.
func (k Kind) known() bool { return k >= KindAppend && k < kindEnd }

// String is the operation's name, "" for one of a newer writer.
func (k Kind) String() string {
	if !k.known() {
		return ""
	}
	return kindNames[k-KindAppend]
}

// Append adds fragments. Their ids and row ids are assigned by Apply, whatever
// they say.
type Append struct{ Fragments []Fragment }

// Delete removes rows. Updated holds whole fragments with the new deletion
// file; fragments without a live row left are in Deleted.
type Delete struct {
	Updated   []Fragment
	Deleted   []uint64
	Predicate string // for readers of the history
}

// Overwrite replaces all rows and the schema, and creates tables. Fragments are
// new ones; Schema has the ids that their files name. InitialBases are for
// creation only; id 0 stands for one to be assigned.
type Overwrite struct {
	Fragments     []Fragment
	Schema        *schema.Schema
	ConfigUpserts map[string]string
	InitialBases  []Base
}

// CreateIndex adds and removes entries of the index section, each an encoded
// IndexMetadata. Entries go by their uuid.
type CreateIndex struct{ New, Removed [][]byte }

// Rewrite replaces groups of fragments by others with the same rows: compaction.
type Rewrite struct {
	Groups []RewriteGroup
	// Rewritten are indexes that were rewritten for the new addresses, each an
	// encoded RewrittenIndex.
	Rewritten [][]byte
}

// RewriteGroup is one task of a compaction. Ids of New were reserved, or are 0
// and then assigned by Apply.
type RewriteGroup struct{ Old, New []Fragment }

// Merge adds or replaces columns: all fragments with their old ids and the
// files they have now, and the new schema.
type Merge struct {
	Fragments []Fragment
	Schema    *schema.Schema
	// PreservesNullability says that the schema gains no field that rows staged
	// against an older schema could not omit.
	PreservesNullability bool
}

// Restore makes an older version the newest one.
type Restore struct{ Version uint64 }

// ReserveFragments takes fragment ids for a Rewrite that follows.
type ReserveFragments struct{ Count uint32 }

// Update changes rows. With RewriteRows, changed rows are deleted in Updated or
// Removed fragments and stand, with inserted ones, in New; with RewriteColumns,
// Updated fragments have new files for FieldsModified.
type Update struct {
	Removed        []uint64
	Updated        []Fragment
	New            []Fragment
	FieldsModified []schema.FieldID
	// FieldsMoved are the fields whose values changed in rows that moved.
	FieldsMoved []schema.FieldID
	Mode        UpdateMode
	Inserted    *KeyFilter // keys of inserted rows, where a key was checked; else nil
	// Offsets are the rows that RewriteColumns changed, by fragment: portable
	// 32-bit Roaring bitmaps of offsets. Without an entry, all rows.
	Offsets   map[uint64][]byte
	Compacted []CompactedTable
}

// UpdateMode is how an update wrote its values.
type UpdateMode int32

// The modes of section 2.7.
const (
	RewriteRows UpdateMode = iota
	RewriteColumns
)

// KeyFilter knows the keys of inserted rows: exact hashes, or a bloom filter.
type KeyFilter struct {
	Fields []schema.FieldID
	Exact  []uint64
	Bloom  *Bloom // nil for an exact one
}

// Bloom is a split-block bloom filter with the sizes it was made for.
type Bloom struct {
	Bitmap      []byte
	Bits        uint32
	Items       uint64
	Probability float64
}

// CompactedTable is the progress of one shard of a write-ahead log that this
// program does not have.
type CompactedTable struct {
	Shard      []byte
	Generation uint64
}

// Project drops and renames columns and changes nullability: the new schema.
type Project struct {
	Schema               *schema.Schema
	PreservesNullability bool
}

// UpdateConfig changes texts by key. A nil map is left alone.
type UpdateConfig struct {
	Config         *UpdateMap
	TableMetadata  *UpdateMap
	SchemaMetadata *UpdateMap
	FieldMetadata  map[schema.FieldID]UpdateMap
}

// UpdateMap is a change to a map of texts.
type UpdateMap struct {
	Entries []UpdateEntry
	Replace bool // empties the map first
}

// UpdateEntry sets a key, or removes it when Value is nil.
type UpdateEntry struct {
	Key   string
	Value *string
}

// Set makes an entry that sets a key.
func Set(key, value string) UpdateEntry { return UpdateEntry{Key: key, Value: &value} }

// Unset makes an entry that removes a key.
func Unset(key string) UpdateEntry { return UpdateEntry{Key: key} }

// DataReplacement puts other files in the place of columns.
type DataReplacement struct{ Replacements []Replacement }

// Replacement is the new file of some columns of a fragment.
type Replacement struct {
	FragmentID uint64
	File       DataFile
}

// UpdateMemWalState moves the progress of a write-ahead log.
type UpdateMemWalState struct{ Compacted []CompactedTable }

// Clone makes a table of a version of another one, or a branch.
type Clone struct {
	Shallow    bool
	RefName    string // branch of the source, "" when it is main or a tag of it
	RefVersion uint64
	RefPath    string // root of the source
	BranchName string // "" for a table of its own
}

// UpdateBases registers bases. Id 0 stands for one to be assigned.
type UpdateBases struct{ Bases []Base }

// DataOverlay adds overlay files, each an encoded DataOverlayFile.
type DataOverlay struct{ Groups []OverlayGroup }

// OverlayGroup is the overlays of one fragment.
type OverlayGroup struct {
	FragmentID uint64
	Overlays   [][]byte
}

// Unknown is an operation of a newer writer. It conflicts with everything and
// cannot be applied.
type Unknown struct {
	Number Kind
	Body   []byte
}

// Kind is KindAppend.
func (*Append) Kind() Kind { return KindAppend }

// Kind is KindDelete.
func (*Delete) Kind() Kind { return KindDelete }

// Kind is KindOverwrite.
func (*Overwrite) Kind() Kind { return KindOverwrite }

// Kind is KindCreateIndex.
func (*CreateIndex) Kind() Kind { return KindCreateIndex }

// Kind is KindRewrite.
func (*Rewrite) Kind() Kind { return KindRewrite }

// Kind is KindMerge.
func (*Merge) Kind() Kind { return KindMerge }

// Kind is KindRestore.
func (*Restore) Kind() Kind { return KindRestore }

// Kind is KindReserveFragments.
func (*ReserveFragments) Kind() Kind { return KindReserveFragments }

// Kind is KindUpdate.
func (*Update) Kind() Kind { return KindUpdate }

// Kind is KindProject.
func (*Project) Kind() Kind { return KindProject }

// Kind is KindUpdateConfig.
func (*UpdateConfig) Kind() Kind { return KindUpdateConfig }

// Kind is KindDataReplacement.
func (*DataReplacement) Kind() Kind { return KindDataReplacement }

// Kind is KindUpdateMemWalState.
func (*UpdateMemWalState) Kind() Kind { return KindUpdateMemWalState }

// Kind is KindClone.
func (*Clone) Kind() Kind { return KindClone }

// Kind is KindUpdateBases.
func (*UpdateBases) Kind() Kind { return KindUpdateBases }

// Kind is KindDataOverlay.
func (*DataOverlay) Kind() Kind { return KindDataOverlay }

// Kind is the number that the newer writer gave it.
func (u *Unknown) Kind() Kind { return u.Number }
