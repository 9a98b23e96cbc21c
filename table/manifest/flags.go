package manifest

import (
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/schema"
)

// The feature flags of table-format sheet section 3.
const (
	FlagDeletionFiles      Flags = 1 << 0  // some fragment has a deletion file
	FlagStableRowIDs       Flags = 1 << 1  // every fragment carries row ids
	FlagOldV2Marker        Flags = 1 << 2  // means nothing
	FlagTableConfig        Flags = 1 << 3  // writer word: config is not empty
	FlagBasePaths          Flags = 1 << 4  // bases are registered
	FlagNoTransactionFiles Flags = 1 << 5  // writer word: transactions are inline only
	FlagOverlays           Flags = 1 << 6  // fragments have overlay files
	FlagCoveringColumns    Flags = 1 << 7  // indexes carry columns
	FlagMixedVersions      Flags = 1 << 8  // a data file's version differs from DataFormat
	FlagReuseWithRowIDs    Flags = 1 << 9  // fragment reuse with stable row ids
	FlagTaggedReuse        Flags = 1 << 10 // tagged fragment reuse index
	FlagLineageColumns     Flags = 1 << 11 // row lineage in hidden columns
	FlagFragmentTree       Flags = 1 << 12 // fragments are listed elsewhere
	FlagCoveringFields     Flags = 1 << 13 // independent covering fields
	FlagManagedBlobs       Flags = 1 << 14 // blob kinds 4 and 5 (CAP-2)
	FlagFieldIDsKept       Flags = 1 << 15 // writer word: field ids are never used again
	FlagZoneSeeds          Flags = 1 << 16 // zone statistics seeds
	FlagObjectMetadata     Flags = 1 << 17 // object metadata and clustering
)

// readable are the bits whose presence in the reader word does not change how
// rows are read, or changes it in a way that this program knows.
const readable = FlagDeletionFiles | FlagStableRowIDs | FlagOldV2Marker | FlagTableConfig | FlagBasePaths |
	FlagNoTransactionFiles | FlagCoveringColumns | FlagMixedVersions | FlagTaggedReuse | FlagLineageColumns |
	FlagManagedBlobs

// writable are the bits of the writer word under which this program writes: it
// keeps what they promise, or hands it on untouched.
const writable = readable | FlagFieldIDsKept

// sticky are the bits that a table keeps for good once it has them.
const sticky = paired | FlagFieldIDsKept

// paired are the bits that are valid in both words or in none.
const paired = FlagMixedVersions | FlagTaggedReuse | FlagManagedBlobs | FlagZoneSeeds

// Has says that all given bits are set.
func (f Flags) Has(bits Flags) bool { return f&bits == bits }

// StableRowIDs says that _rowid is a stable id and not the row's address.
func (m *Manifest) StableRowIDs() bool { return m.ReaderFlags.Has(FlagStableRowIDs) }

// ManagedBlobs says that the snapshot has the managed-blob capability (CAP-2).
func (m *Manifest) ManagedBlobs() bool { return m.ReaderFlags.Has(FlagManagedBlobs) }

// CheckReadable says why rows of this version must not be read, or nil. Unknown
// reader flags are fault.Unsupported (REJ-1, CAP-9), words that contradict each
// other or the fragments fault.Corrupt (CAP-4). Unknown writer flags do not
// matter to a reader. Each decision is the reference's own.
func (m *Manifest) CheckReadable() error {
	if half := (m.ReaderFlags ^ m.WriterFlags) & paired; half != 0 {
		return m.halfSet(half)
	}
	if m.ReaderFlags.Has(FlagFieldIDsKept) {
		return fault.Corruptf(-1, "manifest: version %d has flag %d, which belongs into the writer word, in the reader word %d", m.Version, FlagFieldIDsKept, m.ReaderFlags)
	}
	if err := m.checkKnown(); err != nil {
		return err
	}
	if m.WriterFlags.Has(FlagFieldIDsKept) && m.MaxAllocatedFieldID == nil {
		return fault.Corruptf(-1, "manifest: version %d has writer flag %d but no greatest field id", m.Version, FlagFieldIDsKept)
	}
	if m.fragmentTree {
		return fault.New(fault.Unsupported, "manifest: version %d lists its fragments in a fragment tree, which this program cannot read", m.Version)
	}
	if m.overlays {
		return fault.New(fault.Unsupported, "manifest: version %d has overlay files, which this program cannot read", m.Version)
	}
	if !m.StableRowIDs() {
		return nil
	}
	for i := range m.Fragments {
		if f := &m.Fragments[i]; f.RowIDs == nil && !f.RowIDsInColumn {
			return fault.Corruptf(-1, "manifest: version %d has stable row ids but fragment %d has none", m.Version, f.ID)
		}
	}
	return nil
}

// CheckWritable says why nothing may be published on top of this version, or
// nil: it must be readable, and all its writer flags known (CAP-9).
func (m *Manifest) CheckWritable() error {
	if err := m.CheckReadable(); err != nil {
		return err
	}
	if unknown := m.WriterFlags &^ writable; unknown != 0 {
		return fault.New(fault.Unsupported, "manifest: version %d needs writers with features that this program does not know: writer flags %d, of which %d are unknown; it can be read", m.Version, m.WriterFlags, unknown)
	}
	if m.DataFormat == "0.1" || m.DataFormat == "" && len(m.Fragments) > 0 {
		return fault.New(fault.Unsupported, "manifest: version %d has data files of format %q, which this program does not write", m.Version, m.DataFormat)
	}
	return nil
}

// setFlags works the flags of the next version out anew (section 3), but for
// the sticky ones.
func (c *change) setFlags() error {
	next := c.next
	var both, writer Flags
	for i := range next.Fragments {
		f := &next.Fragments[i]
		if f.Deletion != nil {
			both |= FlagDeletionFiles
		}
		if f.RowIDsInColumn || f.CreatedInColumn || f.UpdatedInColumn {
			both |= FlagLineageColumns
		}
		for j := range f.Files {
			if f.Files[j].Format() != next.DataFormat {
				both |= FlagMixedVersions
			}
		}
	}
	if c.stableRowIDs() {
		both |= FlagStableRowIDs
	}
	if len(next.Config) > 0 {
		writer |= FlagTableConfig
	}
	if len(next.Bases) > 0 {
		both |= FlagBasePaths
	}
	if c.o.NoTransactionFile {
		writer |= FlagNoTransactionFiles
	}
	covering, err := next.covering()
	if err != nil {
		return err
	}
	if covering {
		both |= FlagCoveringColumns
	}
	managed, err := managedOptIn(next.Schema.Metadata)
	if err != nil {
		return err
	}
	if managed {
		both |= FlagManagedBlobs
	}
	if c.o.Copied != nil && c.o.Copied.Managed {
		both |= FlagManagedBlobs
	}
	for _, before := range []*Manifest{c.base, c.o.Source} {
		if before != nil {
			both |= before.ReaderFlags & paired
			writer |= before.WriterFlags & sticky
		}
	}
	next.ReaderFlags, next.WriterFlags = both, both|writer
	return next.CheckReadable()
}

// managedOptIn reads the opt-in of rule CAP-1.
func managedOptIn(metadata map[string]string) (bool, error) {
	switch value, ok := metadata[schema.KeyManaged]; {
	case !ok, value == "false":
		return false, nil
	case value == "true":
		return true, nil
	default:
		return false, fault.New(fault.Invalid, "manifest: the schema metadata %s is %q; allowed are \"true\" and \"false\"", schema.KeyManaged, value)
	}
}

func (m *Manifest) checkKnown() error {
	if unknown := m.ReaderFlags &^ readable; unknown != 0 {
		return fault.New(fault.Unsupported, "manifest: version %d needs features that this program does not know: reader flags %d, of which %d are unknown; read it with a newer release", m.Version, m.ReaderFlags, unknown)
	}
	return nil
}

// halfSet reports paired bits that only one word has (ERR-17).
func (m *Manifest) halfSet(half Flags) error {
	name := "some paired flags"
	if half.Has(FlagManagedBlobs) {
		name = "only one of the two managed-blob flags"
	}
	return fault.Corruptf(-1, "manifest: version %d has %s: flag bits %d are set in one word only (reader flags %d, writer flags %d)", m.Version, name, half, m.ReaderFlags, m.WriterFlags)
}
