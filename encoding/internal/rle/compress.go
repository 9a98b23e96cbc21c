package rle

import (
	"bytes"
	"encoding/binary"

	"github.com/apache/arrow-go/v18/arrow"
)

// MaxRun is the longest run that a length of one byte holds.
const MaxRun = 255

// Runs counts the runs of the values of width bytes in src, long ones split
// into runs of at most MaxRun.
func Runs(src []byte, width int) int {
	switch width {
	case 1:
		return count(src)
	case 2:
		return count(arrow.Uint16Traits.CastFromBytes(src))
	case 4:
		return count(arrow.Uint32Traits.CastFromBytes(src))
	case 8:
		return count(arrow.Uint64Traits.CastFromBytes(src))
	}
	runs := 0
	each(src, width, func(_ []byte, count int) {
		runs += (count + MaxRun - 1) / MaxRun
	})
	return runs
}

func count[T uint8 | uint16 | uint32 | uint64](values []T) int {
	if len(values) == 0 {
		return 0
	}
	runs, start, last := 0, 0, values[0]
	for i, v := range values {
		if v != last {
			runs += (i - start + MaxRun - 1) / MaxRun
			start, last = i, v
		}
	}
	return runs + (len(values)-start+MaxRun-1)/MaxRun
}

// Append appends the runs of src: one value per run to values, one length byte
// to lengths.
func Append(values, lengths, src []byte, width int) (v, l []byte) {
	each(src, width, func(value []byte, count int) {
		for ; count > 0; count -= MaxRun {
			values = append(values, value...)
			lengths = append(lengths, byte(min(count, MaxRun)))
		}
	})
	return values, lengths
}

// each calls do for every maximal run.
func each(src []byte, width int, do func(value []byte, count int)) {
	switch width {
	case 1:
		for i := 0; i < len(src); {
			k := i + 1
			for k < len(src) && src[k] == src[i] {
				k++
			}
			do(src[i:i+1], k-i)
			i = k
		}
	case 2:
		for i := 0; i+2 <= len(src); {
			v, k := binary.LittleEndian.Uint16(src[i:]), i+2
			for k+2 <= len(src) && binary.LittleEndian.Uint16(src[k:]) == v {
				k += 2
			}
			do(src[i:i+2], (k-i)/2)
			i = k
		}
	case 4:
		for i := 0; i+4 <= len(src); {
			v, k := binary.LittleEndian.Uint32(src[i:]), i+4
			for k+4 <= len(src) && binary.LittleEndian.Uint32(src[k:]) == v {
				k += 4
			}
			do(src[i:i+4], (k-i)/4)
			i = k
		}
	case 8:
		for i := 0; i+8 <= len(src); {
			v, k := binary.LittleEndian.Uint64(src[i:]), i+8
			for k+8 <= len(src) && binary.LittleEndian.Uint64(src[k:]) == v {
				k += 8
			}
			do(src[i:i+8], (k-i)/8)
			i = k
		}
	default:
		for i := 0; i+width <= len(src); {
			k := i + width
			for k+width <= len(src) && bytes.Equal(src[k:k+width], src[i:i+width]) {
				k += width
			}
			do(src[i:i+width], (k-i)/width)
			i = k
		}
	}
}
