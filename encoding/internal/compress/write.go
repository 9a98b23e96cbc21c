package compress

import (
	"encoding/binary"
	"sync"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/flightblob/flightblob/internal/fault"
)

// Append appends the compressed form of src in the framing that Decompress
// reads. A level of 0 is the scheme's default; zstd levels are those of the
// zstd command line, LZ4 has none.
func Append(dst []byte, scheme Scheme, level int, src []byte) ([]byte, error) {
	switch scheme {
	case LZ4:
		return appendLZ4(dst, src)
	case Zstd:
		e, err := zstdEncoder(level)
		if err != nil {
			return nil, err
		}
		dst = binary.LittleEndian.AppendUint64(dst, uint64(len(src)))
		return e.EncodeAll(src, dst), nil
	default:
		return nil, fault.New(fault.Internal, "compress: unknown compression scheme %d", int32(scheme))
	}
}

// maxLZ4 is the largest input of an LZ4 block.
const maxLZ4 = 0x7E000000

func appendLZ4(dst, src []byte) ([]byte, error) {
	if len(src) > maxLZ4 {
		return nil, fault.New(fault.Exhausted, "compress: %d bytes in one LZ4 block, at most %d", len(src), maxLZ4)
	}
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(src)))
	if len(src) == 0 {
		return dst, nil
	}
	at, bound := len(dst), lz4.CompressBlockBound(len(src))
	dst = append(dst, make([]byte, bound)...)
	var c lz4.Compressor
	n, err := c.CompressBlock(src, dst[at:])
	if err != nil {
		return nil, fault.New(fault.Internal, "compress: LZ4: %w", err)
	}
	if n == 0 {
		return appendLiterals(dst[:at], src), nil
	}
	return dst[:at+n], nil
}

// appendLiterals is an LZ4 block without matches, for input in which the
// compressor finds none.
func appendLiterals(dst, src []byte) []byte {
	if len(src) < 15 {
		dst = append(dst, byte(len(src))<<4)
	} else {
		dst = append(dst, 0xF0)
		rest := len(src) - 15
		for ; rest >= 255; rest -= 255 {
			dst = append(dst, 255)
		}
		dst = append(dst, byte(rest))
	}
	return append(dst, src...)
}

// zstdEncoders has one encoder for each of the library's four strengths, made
// when first used; they serve EncodeAll calls of all goroutines.
var zstdEncoders [5]struct {
	once sync.Once
	e    *zstd.Encoder
	err  error
}

func zstdEncoder(level int) (*zstd.Encoder, error) {
	strength := zstd.SpeedDefault
	if level > 0 {
		strength = zstd.EncoderLevelFromZstd(level)
	}
	s := &zstdEncoders[strength]
	s.once.Do(func() {
		s.e, s.err = zstd.NewWriter(nil, zstd.WithEncoderLevel(strength), zstd.WithEncoderCRC(false),
			zstd.WithSingleSegment(true), zstd.WithLowerEncoderMem(true))
	})
	if s.err != nil {
		return nil, fault.New(fault.Internal, "compress: %w", s.err)
	}
	return s.e, nil
}
