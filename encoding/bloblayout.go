package encoding

import (
	"encoding/binary"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/internal/lancepb"
)

// blobLayout is the two-child blob of 2.1 (sheet section 5.4, rule LEG-9): an
// inner page of packed position and size. A size of 0 with a position other
// than 0 is no value but its levels, definition in the upper bits. Values come
// out as five-child descriptors of kind Inline (LEG-6).
type blobLayout struct {
	shape  *pageShape
	levels *levelPlan
	inner  layout
}

var legacyPair = arrow.StructOf(
	arrow.Field{Name: "position", Type: arrow.PrimitiveTypes.Uint64},
	arrow.Field{Name: "size", Type: arrow.PrimitiveTypes.Uint64},
)

func newBlobLayout(shape *pageShape, m *lancepb.BlobLayout) (*blobLayout, error) {
	if !shape.legacy {
		return nil, fault.Corruptf(-1, "encoding: a blob page in a column of type %s", shape.storage)
	}
	levels, err := newLevelPlan(m.GetLayers(), shape.steps)
	if err != nil {
		return nil, err
	}
	if levels.lists > 0 {
		return nil, fault.New(fault.Unsupported, "encoding: two-child blobs in lists")
	}
	if m.GetInnerLayout().GetBlob() != nil {
		return nil, fault.Corruptf(-1, "encoding: a blob page inside a blob page")
	}
	inner, err := newPageLayout(&pageShape{
		version: shape.version, steps: []step{{kind: ItemLayer}}, scale: 1,
		rows: shape.rows * shape.scale, storage: legacyPair, buffers: shape.buffers,
	}, m.GetInnerLayout())
	if err != nil {
		return nil, err
	}
	return &blobLayout{shape: shape, levels: levels, inner: inner}, nil
}

func (b *blobLayout) scaled(rows []Range) []Range {
	if b.shape.scale == 1 {
		return rows
	}
	out := make([]Range, len(rows))
	for i, r := range rows {
		out[i] = Range{r.Start * b.shape.scale, r.End * b.shape.scale}
	}
	return out
}

func (b *blobLayout) index() []Extent                           { return b.inner.index() }
func (b *blobLayout) newIndex(data [][]byte) (pageIndex, error) { return b.inner.newIndex(data) }

func (b *blobLayout) locate(ix pageIndex, rows []Range) ([]Extent, error) {
	return b.inner.locate(ix, b.scaled(rows))
}

func (b *blobLayout) plan(ix pageIndex, rows []Range, located [][]byte) (pagePlan, []Extent, error) {
	return b.inner.plan(ix, b.scaled(rows), located)
}

func (b *blobLayout) decode(ix pageIndex, p pagePlan, rows []Range, data [][]byte, out *vector) ([]Layer, error) {
	pairs, err := newVector(legacyPair, 0)
	if err != nil {
		return nil, err
	}
	if _, err := b.inner.decode(ix, p, b.scaled(rows), data, pairs); err != nil {
		return nil, err
	}
	if out.kind != structVector || len(out.kids) != 5 {
		return nil, fault.New(fault.Internal, "encoding: two-child blobs into type %s", out.typ)
	}
	position, size := pairs.kids[0].data, pairs.kids[1].data
	def := make([]uint16, pairs.n)
	for i := range def {
		p := binary.LittleEndian.Uint64(position[8*i:])
		if p == 0 || binary.LittleEndian.Uint64(size[8*i:]) != 0 {
			continue
		}
		if p>>16 > uint64(b.levels.maxDef) || p&0xffff != 0 {
			return nil, fault.Corruptf(-1, "encoding: blob %d has levels %d and %d", i, p>>16, p&0xffff)
		}
		def[i] = uint16(p >> 16)
		clear(position[8*i : 8*i+8])
	}
	for i, kid := range out.kids {
		switch i {
		case 1:
			err = kid.append(&block{kind: fixedBlock, n: pairs.n, bits: 64, data: position}, 0, pairs.n)
		case 2:
			err = kid.append(&block{kind: fixedBlock, n: pairs.n, bits: 64, data: size}, 0, pairs.n)
		default:
			err = kid.appendNulls(pairs.n)
		}
		if err != nil {
			return nil, err
		}
	}
	out.n += pairs.n
	return b.levels.structure(nil, def, pairs.n, b.shape.steps)
}
