// Package encoding turns the pages of one physical column into structure and
// values, and arrays into pages. It asks for byte ranges and never opens files.
//
// A page is decoded as levels → validity and offsets per layer → values of
// the visible slots. Pages of a column are joined layer by layer, and the
// leaves of a field are assembled into one nested Arrow array. The intermediate
// form is Leaf: for each field on the way from the top-level field down to the
// leaf exactly one Layer, outermost first, then the leaf's values.
//
// An Encoder goes the other way: arrays → levels and the values of visible
// slots → pages. Of what the format offers it writes what the reference reads
// fully at 2.2 and 2.3: mini-block and full-zip pages, constant pages, and
// sparse pages without values.
package encoding

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"
)

// Version is the format version of a data file.
type Version struct{ Major, Minor uint16 }

// The versions that exist in the wild; 0.1 is recognised in order to be refused.
var (
	V2_0 = Version{2, 0}
	V2_1 = Version{2, 1}
	V2_2 = Version{2, 2}
	V2_3 = Version{2, 3}
)

// Range is the half-open row interval [Start, End).
type Range struct{ Start, End uint64 }

// Len is the number of rows.
func (r Range) Len() uint64 { return r.End - r.Start }

// Extent is a byte interval of the data file.
type Extent struct{ Offset, Size uint64 }

// Fetch reads byte intervals of the file, all in one round trip where the
// store allows it. The answer has one slice per extent, in order and of exactly
// its size. Who is done with them may say so once by release, after which they
// are reused; not calling it (it is never nil) costs garbage only.
type Fetch func(ctx context.Context, extents []Extent) (data [][]byte, release func(), err error)

// Page is one page as the column metadata lists it.
type Page struct {
	Rows    uint64   // Page.length: slots for inner columns of 2.0
	Buffers []Extent // page buffers, in order
	Layout  []byte   // the value of the Any that describes the page
}

// LayerKind tells how a layer's slots relate to those of the next one.
type LayerKind uint8

// The layer kinds.
const (
	ItemLayer      LayerKind = iota // struct, or the leaf itself: one child slot per slot
	ListLayer                       // list, large list, map: Offsets
	FixedListLayer                  // fixed-size list of structs: Dimension child slots per slot
)

// Layer is the structure that one field adds.
type Layer struct {
	Kind      LayerKind
	Slots     int     // number of slots of this layer
	Validity  []byte  // bitmap, least significant bit first; nil = all valid
	Nulls     int     // number of unset bits below Slots
	Offsets   []int64 // ListLayer: Slots+1 child offsets, first 0
	Dimension int     // FixedListLayer
}

// Leaf is what rows of one physical column decode to.
type Leaf struct {
	// Layers has one entry for each field of the path from the top-level field
	// to the leaf, outermost first; the last is the leaf's own ItemLayer.
	Layers []Layer
	// Values has Layers[last].Slots values with the leaf's nulls set. Its type
	// is the field's Storage type, or a dictionary of it when that was asked for
	// (Column.ReadCoded).
	Values arrow.Array
}
