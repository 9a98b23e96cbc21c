package materialize

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// valid tells whether a value shows in the result. A hidden one is null where
// the field allows it and empty elsewhere: nobody sees it either way.
func (v *value) valid(nullable bool) bool {
	switch v.state {
	case stateNull:
		return false
	case stateHidden:
		return !nullable
	}
	return true
}

// binary builds the large_binary array of a leaf from its values and their
// bytes laid end to end. shown tells which values are not null. It takes over
// the caller's reference of data.
func binary(mem memory.Allocator, dt arrow.DataType, values []value, data *memory.Buffer, shown func(*value) bool) arrow.ArrayData {
	defer data.Release()
	offsets := memory.NewResizableBuffer(mem)
	defer offsets.Release()
	offsets.Resize(arrow.Int64Traits.BytesRequired(len(values) + 1))
	at, end := arrow.Int64Traits.CastFromBytes(offsets.Bytes()), int64(0)
	for i := range values {
		at[i] = end
		end += int64(values[i].payload())
	}
	at[len(values)] = end
	validity, nulls := bitmap(mem, values, shown)
	if validity != nil {
		defer validity.Release()
	}
	return array.NewData(dt, len(values), []*memory.Buffer{validity, offsets, data}, nil, nulls, 0)
}

// bitmap builds a validity bitmap, nil when everything is shown.
func bitmap(mem memory.Allocator, values []value, shown func(*value) bool) (*memory.Buffer, int) {
	nulls := 0
	for i := range values {
		if !shown(&values[i]) {
			nulls++
		}
	}
	if nulls == 0 {
		return nil, 0
	}
	buf := memory.NewResizableBuffer(mem)
	buf.Resize(int(bitutil.BytesForBits(int64(len(values)))))
	bits := buf.Bytes()
	clear(bits)
	for i := range values {
		if shown(&values[i]) {
			bitutil.SetBit(bits, i)
		}
	}
	return buf, nulls
}

// leafData builds the array of a leaf in the reader's view.
func (b *builder) leafData(l *leafView, values []value, data *memory.Buffer) arrow.ArrayData {
	shown := func(v *value) bool { return v.valid(l.nullable) }
	if !b.values.logical {
		return binary(b.opts.Mem, l.out, values, data, shown)
	}
	return logical(b.opts.Mem, l.out.(*arrow.StructType), values, data, shown)
}
