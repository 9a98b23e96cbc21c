// Package rle makes and expands run-length encodings (file-format sheet sections 6.1 and
// 6.2): run values beside run lengths.
//
// Pure and safe with any input: the destination is the caller's, so no length
// read from a file decides how much is allocated. Damage is fault.Corrupt.
package rle

import (
	"encoding/binary"

	"github.com/flightblob/flightblob/internal/fault"
)

// MaxWidth is the widest run value in bytes (decimal256).
const MaxWidth = 32

// Mode says what a surplus of the last runs means.
type Mode uint8

// The modes.
const (
	Exact Mode = iota // the runs must cover exactly n values (block position)
	Cut               // values past n are dropped (mini-block chunks)
)

// Total adds up run lengths of lengthWidth bytes (1, 2 or 4). It is the level
// count of a chunk whose recorded count has wrapped.
func Total(lengths []byte, lengthWidth int) (uint64, error) {
	if err := checkLengths(lengths, lengthWidth); err != nil {
		return 0, err
	}
	var sum uint64
	for i := 0; i < len(lengths); i += lengthWidth {
		sum += length(lengths[i:], lengthWidth)
	}
	return sum, nil
}

// Expand writes n values of width bytes (1 to MaxWidth) to dst, which has room
// for them. values holds one value per run, lengths one little-endian length
// of lengthWidth bytes (1, 2 or 4) per run. A run may have length 0.
func Expand(dst, values []byte, width int, lengths []byte, lengthWidth, n int, mode Mode) error {
	if err := checkLengths(lengths, lengthWidth); err != nil {
		return err
	}
	if width < 1 || width > MaxWidth {
		return fault.Corruptf(-1, "rle: values of %d bytes, allowed are 1 to %d", width, MaxWidth)
	}
	if n < 0 || n > len(dst)/width {
		return fault.New(fault.Internal, "rle: destination of %d bytes for %d values of %d bytes", len(dst), n, width)
	}
	runs := len(lengths) / lengthWidth
	if len(values)%width != 0 || len(values)/width != runs {
		return fault.Corruptf(0, "rle: %d runs have %d bytes of %d-byte values", runs, len(values), width)
	}
	// free counts values, out is the part of dst still to be filled.
	free, out := uint64(n), dst[:n*width]
	for i := range runs {
		count := length(lengths[i*lengthWidth:], lengthWidth)
		if count > free {
			if mode == Exact {
				return fault.Corruptf(int64(i*lengthWidth), "rle: run %d of %d goes past %d values", i, count, n)
			}
			count = free
		}
		size := int(count) * width
		fill(out[:size], values[i*width:][:width])
		out = out[size:]
		if free -= count; free == 0 && mode == Cut {
			return nil
		}
	}
	if free > 0 {
		return fault.Corruptf(0, "rle: %d runs give %d values, expected %d", runs, uint64(n)-free, n)
	}
	return nil
}

func checkLengths(lengths []byte, lengthWidth int) error {
	switch lengthWidth {
	case 1, 2, 4:
	default:
		return fault.Corruptf(-1, "rle: run lengths of %d bytes, allowed are 1, 2, 4", lengthWidth)
	}
	if len(lengths)%lengthWidth != 0 {
		return fault.Corruptf(0, "rle: %d bytes of run lengths are no multiple of %d", len(lengths), lengthWidth)
	}
	return nil
}

func length(b []byte, width int) uint64 {
	switch width {
	case 1:
		return uint64(b[0])
	case 2:
		return uint64(binary.LittleEndian.Uint16(b))
	default:
		return uint64(binary.LittleEndian.Uint32(b))
	}
}

// fill repeats value over out, whose length is a multiple of its own.
func fill(out, value []byte) {
	if len(out) == 0 {
		return
	}
	// The usual widths are spread over a register, stored eight bytes at a
	// time; what remains, and odd widths, double what is there already.
	var pattern uint64
	switch len(value) {
	case 1:
		pattern = uint64(value[0]) * 0x0101010101010101
	case 2:
		pattern = uint64(binary.LittleEndian.Uint16(value)) * 0x0001000100010001
	case 4:
		pattern = uint64(binary.LittleEndian.Uint32(value)) * 0x0000000100000001
	case 8:
		pattern = binary.LittleEndian.Uint64(value)
	default:
		done := copy(out, value)
		for done < len(out) {
			done += copy(out[done:], out[:done])
		}
		return
	}
	const direct = 256 // longer runs gain from memmove
	head := out[:min(len(out), direct)]
	for len(head) >= 8 {
		binary.LittleEndian.PutUint64(head, pattern)
		head = head[8:]
	}
	for i := range head {
		head[i] = byte(pattern >> (8 * i))
	}
	for done := direct; done < len(out); {
		done += copy(out[done:], out[:done])
	}
}
