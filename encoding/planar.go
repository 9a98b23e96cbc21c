package encoding

import (
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/internal/lancepb"
)

// newPlanar makes the layout of a 2.3 page (sheet sections 3.2 and 5.5).
// Dense pages are mini-block, full-zip and constant pages under other field
// numbers; sparse ones keep structure apart from values.
func newPlanar(shape *pageShape, m *lancepb.PlanarLayout) (layout, error) {
	if shape.legacy {
		return nil, fault.Corruptf(-1, "encoding: a two-child blob column in a 2.3 file")
	}
	values := m.GetValues()
	if values.GetPlane() == nil {
		return nil, fault.Corruptf(-1, "encoding: page without a value plane")
	}
	if s := m.GetStructure().GetSparse(); s != nil {
		return newSparse(shape, s.GetLayers(), values)
	}
	dense := m.GetStructure().GetDense()
	if dense == nil {
		return nil, fault.Corruptf(-1, "encoding: page without a structural plane")
	}
	switch v := values.GetPlane().(type) {
	case *lancepb.ValuePlane_Chunked:
		return denseChunked(shape, dense.GetLayers(), v.Chunked)
	case *lancepb.ValuePlane_Zipped:
		return denseZipped(shape, dense.GetLayers(), v.Zipped)
	case *lancepb.ValuePlane_Constant:
		for _, l := range dense.GetLayers() {
			if l != lancepb.RepDefLayer_ALL_VALID_ITEM {
				return nil, fault.Corruptf(-1, "encoding: constant page with layer %s", l)
			}
		}
		if v.Constant.Scalar == nil {
			v.Constant.Scalar = []byte{}
		}
		return newConstant(shape, &lancepb.ConstantLayout{Layers: dense.GetLayers(), InlineValue: v.Constant.Scalar})
	case *lancepb.ValuePlane_None:
		if err := shape.needBuffers(0); err != nil {
			return nil, err
		}
		return newConstant(shape, &lancepb.ConstantLayout{Layers: dense.GetLayers()})
	default:
		return nil, fault.Corruptf(-1, "encoding: value plane %T with dense structure", v)
	}
}

func denseChunked(shape *pageShape, layers []lancepb.RepDefLayer, m *lancepb.ChunkedValues) (layout, error) {
	if m.GetLevels() == nil {
		return nil, fault.Corruptf(-1, "encoding: dense chunks without level descriptions")
	}
	return newMiniBlock(shape, &lancepb.MiniBlockLayout{
		RepCompression: m.GetLevels().GetRepetition(), DefCompression: m.GetLevels().GetDefinition(),
		ValueCompression: m.GetCompression(), Dictionary: m.GetDictionary(), NumDictionaryItems: m.GetNumDictionaryItems(),
		Layers: layers, NumBuffers: m.GetNumBuffers(), RepetitionIndexDepth: m.GetLevels().GetRepetitionIndexDepth(),
		NumItems: m.GetNumItems(), HasLargeChunk: true,
	})
}

func denseZipped(shape *pageShape, layers []lancepb.RepDefLayer, m *lancepb.ZippedValues) (layout, error) {
	if m.GetLevels() == nil {
		return nil, fault.Corruptf(-1, "encoding: dense zipped values without level descriptions")
	}
	plan, err := newLevelPlan(layers, shape.steps)
	if err != nil {
		return nil, err
	}
	z := &fullZip{
		shape: shape, levels: plan, items: m.GetNumItems(), value: m.GetCompression(),
		bitsRep: uint(m.GetLevels().GetBitsRepetition()), bitsDef: uint(m.GetLevels().GetBitsDefinition()),
	}
	if err := z.setWidth(m); err != nil {
		return nil, err
	}
	return z, z.init()
}

func (z *fullZip) setWidth(m *lancepb.ZippedValues) error {
	switch w := m.GetWidth().(type) {
	case *lancepb.ZippedValues_BitsPerValue:
		return z.setFixed(uint64(w.BitsPerValue))
	case *lancepb.ZippedValues_BitsPerOffset:
		return z.setVariable(uint64(w.BitsPerOffset))
	default:
		return fault.Corruptf(-1, "encoding: zipped values without a width")
	}
}
