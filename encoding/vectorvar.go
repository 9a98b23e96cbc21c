package encoding

import (
	"github.com/flightblob/flightblob/encoding/internal/fsst"
	"github.com/flightblob/flightblob/internal/fault"
)

// appendVar copies variable-width values [from, to) of a block.
func (v *vector) appendVar(b *block, from, to int) error {
	first, last := b.offs[from], b.offs[to]
	if err := v.reserve(int(last-first), to-from); err != nil {
		return err
	}
	shift := int64(len(v.data)) - first
	v.data = append(v.data, b.data[first:last]...)
	v.appendOffsets(b.offs[from+1:to+1], shift)
	v.n += to - from
	return nil
}

// appendFSST expands FSST codes [from, to) straight into the vector.
func (v *vector) appendFSST(d *fsst.Decoder, b *block, from, to int) error {
	if b.kind != varBlock {
		return fault.Corruptf(-1, "encoding: fsst over %s", b.describe())
	}
	codes := int(b.offs[to] - b.offs[from])
	if most := d.MaxDecoded(codes); most > maxVectorBytes-len(v.data) {
		return tooLarge(int64(len(v.data) + most))
	}
	if err := v.reserve(2*codes, to-from); err != nil {
		return err
	}
	at32, at64 := len(v.off32), len(v.off64)
	if v.kind == var32Vector {
		v.off32 = growTo(v.off32, at32+to-from)
	} else {
		v.off64 = growTo(v.off64, at64+to-from)
	}
	var out []byte
	var err error
	if v.kind == var32Vector {
		out, err = fsst.AppendValues(d, v.data, b.data, b.offs[from:to+1], v.off32[at32:])
	} else {
		out, err = fsst.AppendValues(d, v.data, b.data, b.offs[from:to+1], v.off64[at64:])
	}
	if err != nil {
		return err
	}
	if len(out) > maxVectorBytes {
		return tooLarge(int64(len(out)))
	}
	v.data = out
	v.n += to - from
	return nil
}

// appendOffsets adds end offsets, each moved by shift.
func (v *vector) appendOffsets(ends []int64, shift int64) {
	if v.kind == var32Vector {
		at := len(v.off32)
		v.off32 = growTo(v.off32, at+len(ends))
		out := v.off32[at:]
		for i, o := range ends {
			out[i] = int32(o + shift)
		}
		return
	}
	at := len(v.off64)
	v.off64 = growTo(v.off64, at+len(ends))
	out := v.off64[at:]
	for i, o := range ends {
		out[i] = o + shift
	}
}

// reserve makes room for more bytes of variable-width values, count of them,
// and on growing for as much as the values still wanted will take if they are
// like those so far.
func (v *vector) reserve(more, count int) error {
	need := len(v.data) + more
	if need > maxVectorBytes {
		return tooLarge(int64(need))
	}
	if need <= cap(v.data) {
		return nil
	}
	room := need
	if n := v.n + count; n > 0 && n < v.want {
		room = int(min(float64(need)/float64(n)*float64(v.want)*1.02, maxVectorBytes)) + 64
	}
	v.data = append(make([]byte, 0, max(need, min(room, 8*need+4096))), v.data...)
	return nil
}

// appendSpans copies values that lie apart in data; size -1 marks a null slot.
func (v *vector) appendSpans(data []byte, spans []span) error {
	total := 0
	for _, s := range spans {
		total += max(s.size, 0)
	}
	if err := v.reserve(total, len(spans)); err != nil {
		return err
	}
	out := v.data
	if v.kind == var32Vector {
		at := len(v.off32)
		v.off32 = growTo(v.off32, at+len(spans))
		ends := v.off32[at:]
		for i, s := range spans {
			out = append(out, data[s.at:s.at+max(s.size, 0)]...)
			ends[i] = int32(len(out))
		}
	} else {
		at := len(v.off64)
		v.off64 = growTo(v.off64, at+len(spans))
		ends := v.off64[at:]
		for i, s := range spans {
			out = append(out, data[s.at:s.at+max(s.size, 0)]...)
			ends[i] = int64(len(out))
		}
	}
	v.data = out
	v.n += len(spans)
	return nil
}
