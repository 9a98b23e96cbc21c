package encoding

import (
	"encoding/binary"
)

// appendRepeated adds count copies of value i of a block.
func (v *vector) appendRepeated(b *block, i, count int) error {
	switch {
	case count == 0:
		return nil
	case v.kind == fixedVector && b.kind == fixedBlock && b.bits == v.width*8 && v.width > 0:
		if count > (maxVectorBytes-len(v.data))/v.width {
			return tooLarge(int64(count) * int64(v.width))
		}
		at := len(v.data)
		v.data = growTo(v.data, at+count*v.width)
		fill(v.data[at:], b.data[i*v.width:(i+1)*v.width])
		v.n += count
		return nil
	case v.kind == bitVector && b.kind == fixedBlock:
		set := b.bits == 1 && getBit(b.data, i) || b.bits == 8 && b.data[i]&1 != 0
		if b.bits != 1 && b.bits != 8 {
			return v.mismatch(b)
		}
		if set {
			v.data = appendOnes(v.data, v.n, count)
		} else {
			v.data = appendZeros(v.data, v.n, count)
		}
		v.n += count
		return nil
	}
	for range count {
		if err := v.append(b, i, i+1); err != nil {
			return err
		}
	}
	return nil
}

// fill repeats pattern over dst, whose length is a multiple of it.
func fill(dst, pattern []byte) {
	if len(dst) == 0 {
		return
	}
	n := copy(dst, pattern)
	for n < len(dst) {
		n += copy(dst[n:], dst[:n])
	}
}

// appendGather adds values idx of items, page dictionaries' way. Indices of
// null slots may be anything; those out of range become fillers.
func (v *vector) appendGather(items *block, idx []uint32) error {
	for i, k := range idx {
		if uint64(k) >= uint64(items.n) {
			v.stray = append(v.stray, v.n+i)
		}
	}
	switch {
	case v.kind == fixedVector && items.kind == fixedBlock && items.bits == v.width*8:
		if v.width > 0 && len(idx) > (maxVectorBytes-len(v.data))/v.width {
			return tooLarge(int64(len(idx)) * int64(v.width))
		}
		at := len(v.data)
		v.data = growTo(v.data, at+len(idx)*v.width)
		gatherFixed(v.data[at:], items.data, idx, items.n, v.width)
		v.n += len(idx)
		return nil
	case v.kind == var32Vector && items.kind == varBlock:
		total := int64(0)
		for _, k := range idx {
			if int(k) < items.n {
				total += items.offs[k+1] - items.offs[k]
			}
		}
		if total > maxVectorBytes {
			return tooLarge(total)
		}
		if err := v.reserve(int(total), len(idx)); err != nil {
			return err
		}
		at := len(v.off32)
		v.off32 = growTo(v.off32, at+len(idx))
		ends, out := v.off32[at:], v.data
		for i, k := range idx {
			if int(k) < items.n {
				out = append(out, items.data[items.offs[k]:items.offs[k+1]]...)
			}
			ends[i] = int32(len(out))
		}
		v.data = out
		v.n += len(idx)
		return nil
	case v.kind == dictVector:
		if err := v.dict.appendIndices(items, idx); err != nil {
			return err
		}
		v.n += len(idx)
		return nil
	}
	for _, k := range idx {
		var err error
		if int(k) < items.n {
			err = v.append(items, int(k), int(k)+1)
		} else {
			err = v.appendNulls(1)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func gatherFixed(dst, src []byte, idx []uint32, n, width int) {
	switch width {
	case 4:
		for i, k := range idx {
			if int(k) < n {
				binary.LittleEndian.PutUint32(dst[4*i:], binary.LittleEndian.Uint32(src[4*k:]))
			}
		}
	case 8:
		for i, k := range idx {
			if int(k) < n {
				binary.LittleEndian.PutUint64(dst[8*i:], binary.LittleEndian.Uint64(src[8*k:]))
			}
		}
	default:
		for i, k := range idx {
			if int(k) < n {
				copy(dst[i*width:(i+1)*width], src[int(k)*width:(int(k)+1)*width])
			}
		}
	}
}
