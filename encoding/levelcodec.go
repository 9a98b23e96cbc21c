package encoding

import (
	"encoding/binary"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/flightblob/flightblob/encoding/internal/bitpack"
	"github.com/flightblob/flightblob/encoding/internal/rle"
	"github.com/flightblob/flightblob/internal/lancepb"
)

// levelCodec writes one stream of levels of a page (sheet section 4.6): plain,
// packed to the width of the greatest level, or as runs.
type levelCodec struct {
	kind  levelKind
	width int
}

type levelKind uint8

const (
	plainLevels levelKind = iota
	packedLevels
	runLevels
)

// maxLevelBytes bounds the bytes of a stream in one chunk.
const maxLevelBytes = 1<<16 - 1

// chooseLevels picks the smallest form of a stream that is cut into parts; cut
// gives the end of part i. Each part of runs has a count of eight bytes.
func chooseLevels(levels []uint16, parts int, cut func(i int) int) levelCodec {
	raw := arrow.Uint16Traits.CastToBytes(levels)
	width := bitpack.Width(raw, 16)
	packed, runs, longest, from := 0, 0, 0, 0
	for i := range parts {
		to := cut(i)
		packed += bitpack.OutOfLineSize(to-from, 16, width)
		size := 8 + 3*rle.Runs(raw[2*from:2*to], 2)
		runs += size
		longest = max(longest, size)
		from = to
	}
	switch {
	case runs < min(packed, len(raw)) && (longest <= maxLevelBytes || parts == 1):
		return levelCodec{kind: runLevels}
	case packed < len(raw):
		return levelCodec{kind: packedLevels, width: width}
	default:
		return levelCodec{}
	}
}

// encoding describes the codec.
func (c levelCodec) encoding() *lancepb.CompressiveEncoding {
	switch c.kind {
	case packedLevels:
		return outOfLineEncoding(16, c.width)
	case runLevels:
		return rleEncoding(16)
	default:
		return flatEncoding(16)
	}
}

// append appends a part of the stream.
func (c levelCodec) append(dst []byte, levels []uint16) []byte {
	raw := arrow.Uint16Traits.CastToBytes(levels)
	switch c.kind {
	case packedLevels:
		return bitpack.AppendOutOfLine(dst, raw, 16, c.width)
	case runLevels:
		at := len(dst)
		dst = append(dst, make([]byte, 8)...)
		dst, lengths := rle.Append(dst, nil, raw, 2)
		binary.LittleEndian.PutUint64(dst[at:], uint64(len(dst)-at-8))
		return append(dst, lengths...)
	default:
		return append(dst, raw...)
	}
}

func flatEncoding(bits int) *lancepb.CompressiveEncoding {
	return &lancepb.CompressiveEncoding{Compression: &lancepb.CompressiveEncoding_Flat{Flat: &lancepb.Flat{BitsPerValue: uint64(bits)}}}
}

func outOfLineEncoding(bits, width int) *lancepb.CompressiveEncoding {
	return &lancepb.CompressiveEncoding{Compression: &lancepb.CompressiveEncoding_OutOfLineBitpacking{
		OutOfLineBitpacking: &lancepb.OutOfLineBitpacking{UncompressedBitsPerValue: uint64(bits), Values: flatEncoding(width)},
	}}
}

func rleEncoding(bits int) *lancepb.CompressiveEncoding {
	return &lancepb.CompressiveEncoding{Compression: &lancepb.CompressiveEncoding_Rle{
		Rle: &lancepb.Rle{Values: flatEncoding(bits), RunLengths: flatEncoding(8)},
	}}
}

func variableEncoding(bits int) *lancepb.CompressiveEncoding {
	return &lancepb.CompressiveEncoding{Compression: &lancepb.CompressiveEncoding_Variable{Variable: &lancepb.Variable{Offsets: flatEncoding(bits)}}}
}

func generalEncoding(c compression, inner *lancepb.CompressiveEncoding) *lancepb.CompressiveEncoding {
	m := &lancepb.BufferCompression{Scheme: lancepb.BufferCompression_Scheme(c.scheme)}
	if c.level != 0 {
		level := int32(c.level)
		m.Level = &level
	}
	return &lancepb.CompressiveEncoding{Compression: &lancepb.CompressiveEncoding_General{General: &lancepb.General{Compression: m, Values: inner}}}
}
