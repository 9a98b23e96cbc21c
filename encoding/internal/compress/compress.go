// Package compress does and undoes general compression (file-format sheet section 6.6):
//
//	LZ4    u32 uncompressed size, one raw LZ4 block
//	ZSTD   u64 uncompressed size, zstd frame
//	       or a bare zstd frame, as early writers left it
//
// Safe with any input: nothing is allocated before a recorded size was held
// against the caller's limit. Damage is fault.Corrupt with its offset; a size
// above the limit is fault.Exhausted. Safe for concurrent use.
package compress

import (
	"encoding/binary"
	"errors"
	"math"
	"sync"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/flightblob/flightblob/internal/fault"
)

// Scheme is a compression scheme by its number in page descriptions.
type Scheme int32

// The schemes.
const (
	LZ4  Scheme = 1
	Zstd Scheme = 2
)

// maxLZ4Ratio bounds what a byte of an LZ4 block can stand for: a match length
// grows by 255 with each of its bytes.
const maxLZ4Ratio = 255

// Decompress returns the content of one compressed buffer, at most limit bytes.
// The answer is the caller's and shares nothing with src.
func Decompress(scheme Scheme, src []byte, limit int) ([]byte, error) {
	switch scheme {
	case LZ4:
		return decompressLZ4(src, limit)
	case Zstd:
		return decompressZstd(src, limit)
	default:
		return nil, fault.New(fault.Unsupported, "compress: unsupported compression scheme %d", int32(scheme))
	}
}

func decompressLZ4(src []byte, limit int) ([]byte, error) {
	if len(src) < 4 {
		return nil, fault.Corruptf(0, "compress: LZ4 buffer of %d bytes has no size", len(src))
	}
	size, block := uint64(binary.LittleEndian.Uint32(src)), src[4:]
	if size > maxLZ4Ratio*uint64(len(block)) {
		return nil, fault.Corruptf(0, "compress: LZ4 block of %d bytes cannot hold %d", len(block), size)
	}
	if err := withinLimit(size, limit); err != nil {
		return nil, err
	}
	if size == 0 {
		return []byte{}, nil
	}
	out := make([]byte, size)
	switch n, err := lz4.UncompressBlock(block, out); {
	case err != nil:
		return nil, fault.Corruptf(4, "compress: LZ4 block of %d bytes: %v", len(block), err)
	case n != len(out):
		return nil, fault.Corruptf(4, "compress: LZ4 block holds %d bytes, not %d", n, size)
	}
	return out, nil
}

// zstdDecoder serves DecodeAll calls of all goroutines. It owns no goroutine.
// The capacity of the destination is the limit of each call.
var zstdDecoder = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(math.MaxInt64))
})

func decompressZstd(src []byte, limit int) ([]byte, error) {
	if len(src) == 0 {
		return []byte{}, nil
	}
	d, err := zstdDecoder()
	if err != nil {
		return nil, fault.New(fault.Internal, "compress: %w", err)
	}
	if bareFrame(src) {
		return decompressBare(d, src, limit)
	}
	if len(src) < 8 {
		return nil, fault.Corruptf(0, "compress: zstd buffer of %d bytes has no size", len(src))
	}
	size := binary.LittleEndian.Uint64(src)
	if err := withinLimit(size, limit); err != nil {
		return nil, err
	}
	if most := uint64(len(src)) * maxBlock / minBlock; size > most {
		return nil, fault.Corruptf(0, "compress: zstd frame of %d bytes cannot hold %d", len(src)-8, size)
	}
	out, err := d.DecodeAll(src[8:], make([]byte, 0, size))
	if err != nil {
		return nil, fault.Corruptf(8, "compress: zstd frame of %d bytes: %v", len(src)-8, err)
	}
	if uint64(len(out)) != size {
		return nil, fault.Corruptf(8, "compress: zstd frame holds %d bytes, not %d", len(out), size)
	}
	return out, nil
}

// A zstd block has at least a header of minBlock-1 bytes and one more, and
// yields at most maxBlock bytes.
const (
	minBlock = 4
	maxBlock = 128 << 10
)

// bareFrame tells a frame from a size: it begins with the zstd magic and bit 4
// of the frame header, unused by the format, is clear.
func bareFrame(src []byte) bool {
	return len(src) >= 5 && binary.LittleEndian.Uint32(src) == 0xFD2FB528 && src[4]&0x10 == 0
}

// decompressBare decodes a frame whose size may be recorded nowhere. The block
// headers bound it, to less than one block in what encoders write.
func decompressBare(d *zstd.Decoder, src []byte, limit int) ([]byte, error) {
	bound, err := frameBound(src)
	if err != nil {
		return nil, err
	}
	// One block of slack, so that content just above the limit is seen to be.
	room := min(bound, uint64(max(limit, 0))+maxBlock)
	out, err := d.DecodeAll(src, make([]byte, 0, room))
	switch {
	case errors.Is(err, zstd.ErrDecoderSizeExceeded) || err == nil && len(out) > limit:
		return nil, fault.New(fault.Exhausted, "compress: content exceeds the limit of %d bytes", limit)
	case err != nil:
		return nil, fault.Corruptf(0, "compress: zstd frame of %d bytes: %v", len(src), err)
	}
	return out, nil
}

// frameBound walks the block headers of the single frame that src must be and
// adds up the most that each block can yield.
func frameBound(src []byte) (uint64, error) {
	var header zstd.Header
	if err := header.Decode(src); err != nil {
		return 0, fault.Corruptf(0, "compress: zstd frame of %d bytes: %v", len(src), err)
	}
	var bound uint64
	at := header.HeaderSize
	for last := false; !last; {
		if len(src)-at < 3 {
			return 0, fault.Corruptf(int64(at), "compress: zstd frame ends within a block header")
		}
		block := int(src[at]) | int(src[at+1])<<8 | int(src[at+2])<<16
		at += 3
		last = block&1 == 1
		size, stored := block>>3, block>>3
		yield := size
		switch block >> 1 & 3 {
		case 1: // one byte, repeated
			stored = 1
		case 2: // compressed
			yield = maxBlock
		}
		if stored > len(src)-at {
			return 0, fault.Corruptf(int64(at), "compress: zstd block of %d bytes, %d left", stored, len(src)-at)
		}
		at += stored
		bound += uint64(min(yield, maxBlock))
	}
	if header.HasCheckSum {
		at += 4
	}
	if at != len(src) {
		return 0, fault.Corruptf(int64(at), "compress: zstd frame of %d bytes in a buffer of %d", at, len(src))
	}
	return bound, nil
}

func withinLimit(size uint64, limit int) error {
	if limit < 0 || size > uint64(limit) {
		return fault.New(fault.Exhausted, "compress: content of %d bytes exceeds the limit of %d", size, limit)
	}
	return nil
}
