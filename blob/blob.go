// Package blob is what the Blob v2 specification says about one value: what a
// descriptor means, which object and byte interval it selects, and when it is
// refused; and the other way round, what a value given by a user means, and
// where its bytes are stored.
//
// Reading: a Column views an Arrow array as Descriptors, a Resolver turns a
// Descriptor and its Owner into an Extent, Length asks a store for the one
// length that a descriptor may leave open. It resolves, it reads no payload.
// Descriptors of the legacy two-child layout arrive here as kind 0 (LEG-6).
//
// Writing: AsInputs checks the values of a whole batch, a Placer stores them
// and gives the batch with descriptors in their place:
//
//	batch ─▶ AsInputs     IN-*: every value of every blob column, at any depth
//	         Placer.Place plan    URIs → bases, stored values → kept or copied   nothing stored yet
//	                      sizes   lengths of whole objects that are copied
//	                      store   inline → the data file (OutOfLine)
//	                              packed → the open pack     data/<key>/<id>.blob, or _blobs/<uuid>.blob
//	                              dedicated → its own object              "
//	         Placer.Commit        all objects durable; Abort removes them
//
// Bytes of a batch are not copied on the way. Bytes of other objects are read a
// few at a time, ahead of their turn, and larger ones piece by piece.
package blob

import (
	"context"

	"github.com/flightblob/flightblob/objstore"
)

// Kind is the numeric descriptor kind, a format contract.
type Kind uint8

// The six kinds of DESC's table.
const (
	Inline      Kind = 0
	Packed      Kind = 1
	Dedicated   Kind = 2
	External    Kind = 3
	Managed     Kind = 4
	ManagedBase Kind = 5 // Managed with an explicit base
)

// Descriptor is one stored value of a blob column, DESC-1.
type Descriptor struct {
	Kind     Kind
	Position uint64
	Size     uint64
	ID       uint32 // sidecar id (1, 2) or base id (3, 5)
	URI      string
}

// Owner is the data file that a row's blob column lies in, and everything that
// resolution needs to know about it (RES-1, RES-2, RES-12). One Owner serves
// all rows of a fragment for one blob column.
type Owner struct {
	File objstore.Location // the data file itself: kind 0
	Key  string            // last component of its path without ".lance": kinds 1, 2
	Dir  objstore.Location // data directory, RES-2
	Base objstore.Location // implicit base path: dataset root or the file's base, kind 4
	// BaseID is the registered base that the file lies in, nil for the dataset
	// root. Writing needs it; resolving does not.
	BaseID *uint32
	// Immutable is true when File, sidecars and managed objects may be mapped:
	// a Lance-owned object never changes once published.
	Immutable bool
}

// Extent is the byte interval of an object that holds a value.
type Extent struct {
	Object objstore.Location
	Offset uint64
	Length uint64
	// Whole marks the External sentinel NUL-9: the length is that of the
	// object and is not known yet; Offset keeps the recorded position.
	Whole bool
	// Owned is true for Lance-owned bytes (all kinds but External): missing
	// ones are data loss.
	Owned bool
	// Immutable repeats the owner's word that the object may be mapped.
	Immutable bool
}

// Locator turns a URI, or a plain path, into a place that this server may
// touch; anything else is Denied.
type Locator func(ctx context.Context, uri string) (objstore.Location, error)
