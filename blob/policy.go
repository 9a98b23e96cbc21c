package blob

import (
	"github.com/google/uuid"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/table/manifest"
)

// Policy is how a Placer stores values. Writers follow it; readers follow what
// was recorded.
type Policy struct {
	// Managed says that the table opted into managed storage (CAP-1, CAP-5):
	// bytes outside of data files become kind 4 or 5 instead of 1 and 2
	// (WRT-6).
	Managed bool
	// TargetBase is the registered base that the data file is written to; nil
	// is the table's own folder.
	TargetBase *uint32
	// PackLimit, in bytes, replaces the pack thresholds of all columns for
	// this write and is recorded nowhere; 0 leaves them.
	PackLimit uint64
	// URIs is what happens to values that are given by a URI.
	URIs URIPolicy
	// Bases are those that the manifest registers, by id.
	Bases map[uint32]manifest.Base
	// Copies bounds the objects that are read and written at the same time,
	// CopyMemory the bytes that are read ahead of being stored, one value at
	// least. Defaults: 8, and 32 MiB.
	Copies     int
	CopyMemory int64
	// NewUUID names managed objects; by default random ones, version 4.
	NewUUID func() uuid.UUID
}

// Mode says whether URIs are recorded or followed.
type Mode uint8

// The modes of external values.
const (
	Reference Mode = iota // record the URI, copy nothing (EXT-1)
	Ingest                // copy the bytes into the table (EXT-9)
)

// ParseMode reads the name of a mode as users write it; "" is Reference.
func ParseMode(text string) (Mode, error) {
	switch text {
	case "", "reference":
		return Reference, nil
	case "ingest":
		return Ingest, nil
	}
	return 0, fault.New(fault.Invalid, `blob: external mode %s is unknown; it is "reference" or "ingest"`, fault.Quote(text))
}

// URIPolicy is how values that are given by a URI are stored.
type URIPolicy struct {
	Mode Mode
	// AllowOutside permits references to objects outside of all registered
	// bases, which are stored as absolute URIs (EXT-6). It does not go with
	// Ingest.
	AllowOutside bool
	// Allows tells whether this server may refer to a URI outside of the
	// bases: objstore.Access.Allows. Nil allows everything.
	Allows func(uri string) error
	// Schemes are those that this server can read, objstore.Registry.Schemes;
	// references to others are refused (DIFF-11). Nil knows all.
	Schemes []string
	// Locate finds sources to copy from. Needed for Ingest.
	Locate Locator
}

// check refuses what makes no sense and fills in defaults.
func (p *Policy) check() error {
	if p.URIs.Mode == Ingest && p.URIs.AllowOutside {
		return fault.New(fault.Invalid, "blob: values are copied in external mode ingest, so references outside of the bases cannot be allowed as well; leave allow_outside_bases out (EXT-9)")
	}
	if p.TargetBase != nil {
		if _, ok := p.Bases[*p.TargetBase]; !ok {
			return fault.New(fault.Invalid, "blob: the target base %d is not registered in the manifest", *p.TargetBase)
		}
	}
	if p.Copies <= 0 {
		p.Copies = 8
	}
	if p.CopyMemory <= 0 {
		p.CopyMemory = 32 << 20
	}
	if p.NewUUID == nil {
		p.NewUUID = uuid.New
	}
	return nil
}

// ManagedDir is the folder of managed objects below a base (PCK-6).
const ManagedDir = "_blobs"

// managedPath is the path of a new managed object relative to its base.
func managedPath(id uuid.UUID) string { return ManagedDir + "/" + id.String() + ".blob" }

// sameFolder compares two folders by what they name.
func sameFolder(a, b string) bool {
	rest, _, ok, err := objstore.Below(a+"/x", b)
	return err == nil && ok && rest == "x"
}
