package engine

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// rebased gives a batch that can be exported: no struct array in it has an
// offset. The exporter of arrow-go 18 counts the offset of a sliced struct
// twice, in the struct and again in its children.
func rebased(batch arrow.RecordBatch) arrow.RecordBatch {
	columns := make([]arrow.Array, batch.NumCols())
	for i, c := range batch.Columns() {
		data := rebase(c.Data())
		columns[i] = array.MakeFromData(data)
		data.Release()
	}
	out := array.NewRecordBatch(batch.Schema(), columns, batch.NumRows())
	for _, c := range columns {
		c.Release()
	}
	return out
}

// rebase gives array data without struct offsets. The caller releases it.
func rebase(data arrow.ArrayData) arrow.ArrayData {
	if len(data.Children()) == 0 {
		data.Retain()
		return data
	}
	isStruct := data.DataType().ID() == arrow.STRUCT
	children := make([]arrow.ArrayData, len(data.Children()))
	changed := isStruct && data.Offset() != 0
	for i, c := range data.Children() {
		if isStruct && (data.Offset() != 0 || c.Len() != data.Len()) {
			sliced := array.NewSliceData(c, int64(data.Offset()), int64(data.Offset()+data.Len()))
			children[i] = rebase(sliced)
			sliced.Release()
			changed = true
			continue
		}
		children[i] = rebase(c)
		changed = changed || children[i] != c
	}
	defer func() {
		for _, c := range children {
			c.Release()
		}
	}()
	if !changed {
		data.Retain()
		return data
	}
	buffers, offset := data.Buffers(), data.Offset()
	if isStruct && offset != 0 {
		buffers = []*memory.Buffer{shiftedBits(buffers[0], offset, data.Len())}
		if buffers[0] != nil {
			defer buffers[0].Release()
		}
		offset = 0
	}
	return array.NewData(data.DataType(), data.Len(), buffers, children, data.NullN(), offset)
}

// shiftedBits copies a validity bitmap to offset 0; nil stays nil.
func shiftedBits(buf *memory.Buffer, offset, n int) *memory.Buffer {
	if buf == nil || buf.Len() == 0 {
		return nil
	}
	out := memory.NewResizableBuffer(memory.DefaultAllocator)
	out.Resize(int(bitutil.BytesForBits(int64(n))))
	clear(out.Bytes())
	bitutil.CopyBitmap(buf.Bytes(), offset, n, out.Bytes(), 0)
	return out
}
