package encoding

import (
	"google.golang.org/protobuf/proto"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/internal/lancepb"
)

// layout reads rows of one page. A read takes three rounds of fetching, any of
// which may be empty:
//
//  1. index: what every read of the page needs (chunk table, dictionary,
//     levels of constant pages, sparse structure); kept in a cache,
//  2. locate: what tells where the rows of this read lie,
//  3. plan: their bytes.
//
// Ranges are page-local, sorted, disjoint and not empty. An index is shared by
// concurrent reads and never written after it was made.
type layout interface {
	index() []Extent
	newIndex(data [][]byte) (pageIndex, error)
	locate(ix pageIndex, rows []Range) ([]Extent, error)
	plan(ix pageIndex, rows []Range, located [][]byte) (pagePlan, []Extent, error)
	// decode appends the rows' values to out and gives their structure.
	decode(ix pageIndex, p pagePlan, rows []Range, data [][]byte, out *vector) ([]Layer, error)
}

// pageIndex is what a layout keeps between reads.
type pageIndex interface{ size() int64 }

// pagePlan is what a layout hands from plan to decode.
type pagePlan any

// noIndex is the index of layouts that need none.
type noIndex struct{}

func (noIndex) size() int64 { return 0 }

// pageShape is what a layout has to know of its column and page.
type pageShape struct {
	version Version
	steps   []step
	scale   uint64 // leaf entries per row made by fixed-size lists of structs
	rows    uint64 // top-level rows
	storage arrow.DataType
	legacy  bool // a two-child blob column
	buffers []Extent
}

func (s *pageShape) needBuffers(n int) error {
	if len(s.buffers) != n {
		return fault.Corruptf(-1, "encoding: page with %d buffers, expected %d", len(s.buffers), n)
	}
	return nil
}

// parseLayout decodes a page description of formats 2.1 to 2.3.
func parseLayout(shape *pageShape, desc []byte) (layout, error) {
	if shape.version == V2_3 {
		var m lancepb.PlanarLayout
		if err := proto.Unmarshal(desc, &m); err != nil {
			return nil, fault.Corruptf(-1, "encoding: page description: %v", err)
		}
		return newPlanar(shape, &m)
	}
	var m lancepb.PageLayout
	if err := proto.Unmarshal(desc, &m); err != nil {
		return nil, fault.Corruptf(-1, "encoding: page description: %v", err)
	}
	return newPageLayout(shape, &m)
}

func newPageLayout(shape *pageShape, m *lancepb.PageLayout) (layout, error) {
	switch l := m.GetLayout().(type) {
	case *lancepb.PageLayout_MiniBlock:
		large := l.MiniBlock.GetHasLargeChunk()
		if shape.version != V2_1 && !large {
			return nil, fault.Corruptf(-1, "encoding: small chunks in a %d.%d file", shape.version.Major, shape.version.Minor)
		}
		return newMiniBlock(shape, l.MiniBlock)
	case *lancepb.PageLayout_FullZip:
		return newFullZip(shape, l.FullZip)
	case *lancepb.PageLayout_Constant:
		return newConstant(shape, l.Constant)
	case *lancepb.PageLayout_Blob:
		return newBlobLayout(shape, l.Blob)
	default:
		return nil, fault.Corruptf(-1, "encoding: page without a layout")
	}
}

// within makes the extent [from, to) of a buffer, checked against its size.
func within(buf Extent, from, to uint64) (Extent, error) {
	if from > to || to > buf.Size {
		return Extent{}, fault.Corruptf(int64(buf.Offset), "encoding: bytes [%d, %d) of a buffer of %d", from, to, buf.Size)
	}
	return Extent{Offset: buf.Offset + from, Size: to - from}, nil
}
