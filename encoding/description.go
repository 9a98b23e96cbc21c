package encoding

import (
	"google.golang.org/protobuf/proto"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/internal/lancepb"
)

// The descriptions of 2.3 pages name other fields than those of 2.2, over the
// same bytes (sheet sections 3.1 and 3.2).

func marshal(m proto.Message) ([]byte, error) {
	// Equal pages have equal descriptions, so that files can be compared.
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return nil, fault.New(fault.Internal, "encoding: page description: %w", err)
	}
	return b, nil
}

func planar(layers []lancepb.RepDefLayer, values *lancepb.ValuePlane) ([]byte, error) {
	return marshal(&lancepb.PlanarLayout{
		Structure: &lancepb.StructuralPlane{Structure: &lancepb.StructuralPlane_Dense{Dense: &lancepb.DenseStructure{Layers: layers}}},
		Values:    values,
	})
}

func describeMiniBlock(v Version, m *lancepb.MiniBlockLayout) ([]byte, error) {
	if v != V2_3 {
		return marshal(&lancepb.PageLayout{Layout: &lancepb.PageLayout_MiniBlock{MiniBlock: m}})
	}
	return planar(m.GetLayers(), &lancepb.ValuePlane{Plane: &lancepb.ValuePlane_Chunked{Chunked: &lancepb.ChunkedValues{
		Compression: m.GetValueCompression(),
		Levels: &lancepb.ChunkedValues_Levels{
			Repetition: m.GetRepCompression(), Definition: m.GetDefCompression(), RepetitionIndexDepth: m.GetRepetitionIndexDepth(),
		},
		Dictionary: m.GetDictionary(), NumDictionaryItems: m.GetNumDictionaryItems(),
		NumBuffers: m.GetNumBuffers(), NumItems: m.GetNumItems(),
	}}})
}

func describeFullZip(v Version, m *lancepb.FullZipLayout) ([]byte, error) {
	if v != V2_3 {
		return marshal(&lancepb.PageLayout{Layout: &lancepb.PageLayout_FullZip{FullZip: m}})
	}
	z := &lancepb.ZippedValues{
		Compression: m.GetValueCompression(),
		Levels:      &lancepb.ZippedValues_Levels{BitsRepetition: m.GetBitsRep(), BitsDefinition: m.GetBitsDef()},
		NumItems:    uint64(m.GetNumItems()), NumVisibleItems: uint64(m.GetNumVisibleItems()),
	}
	switch w := m.GetWidth().(type) {
	case *lancepb.FullZipLayout_BitsPerValue:
		z.Width = &lancepb.ZippedValues_BitsPerValue{BitsPerValue: w.BitsPerValue}
	case *lancepb.FullZipLayout_BitsPerOffset:
		z.Width = &lancepb.ZippedValues_BitsPerOffset{BitsPerOffset: w.BitsPerOffset}
	}
	return planar(m.GetLayers(), &lancepb.ValuePlane{Plane: &lancepb.ValuePlane_Zipped{Zipped: z}})
}

// describeConstant describes a page of one value, or of nulls without levels.
// 2.3 has these for pages without levels only.
func describeConstant(v Version, m *lancepb.ConstantLayout) ([]byte, error) {
	switch {
	case v != V2_3:
		return marshal(&lancepb.PageLayout{Layout: &lancepb.PageLayout_Constant{Constant: m}})
	case m.InlineValue != nil:
		return planar(m.GetLayers(), &lancepb.ValuePlane{Plane: &lancepb.ValuePlane_Constant{Constant: &lancepb.ConstantValues{Scalar: m.GetInlineValue()}}})
	default:
		return planar(m.GetLayers(), &lancepb.ValuePlane{Plane: &lancepb.ValuePlane_None{None: &lancepb.NoValues{}}})
	}
}
