package flightsvc

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// Sizes are those of the encoded message: buffers as IPC writes them for a
// range of rows, each padded to 8 bytes, plus what describes them. They are
// computed from lengths and offsets; no value is read.

// Per message: the flatbuffer around field nodes and buffers, the protobuf
// around that. Nodes and buffers take 16 bytes each.
const (
	messageBase = 512
	entryBytes  = 16
)

// encodedBatch is the encoded length of rows [from, to) of a batch as one
// message, dictionaries left out.
func encodedBatch(b arrow.RecordBatch, from, to int64) int64 {
	n := int64(messageBase)
	for _, c := range b.Columns() {
		n += encoded(c, from, to)
	}
	return n
}

// encoded is what rows [from, to) of a column add to a message.
func encoded(a arrow.Array, from, to int64) int64 {
	rows := to - from
	n := int64(3 * entryBytes) // one node, two buffers; more are added below
	if a.DataType().ID() == arrow.NULL {
		return entryBytes
	}
	if a.NullN() > 0 {
		n += bitmap(rows)
	}
	switch a := a.(type) {
	case array.ExtensionArray:
		return encoded(a.Storage(), from, to)
	case *array.Dictionary:
		return encoded(a.Indices(), from, to)
	case *array.Boolean:
		return n + bitmap(rows)
	case *array.Struct:
		for i := range a.NumField() {
			n += encoded(a.Field(i), from, to)
		}
		return n
	case *array.FixedSizeList:
		size := int64(a.DataType().(*arrow.FixedSizeListType).Len())
		base := int64(a.Offset())
		return n + encoded(a.ListValues(), (base+from)*size, (base+to)*size)
	case array.BinaryLike:
		start, end := span(a, from, to)
		return n + entryBytes + padded((rows+1)*offsetWidth(a)) + padded(end-start)
	case array.ViewLike:
		return n + padded(rows*int64(arrow.ViewHeaderSizeBytes)) + viewData(a)
	case array.ListLike:
		start, end := listSpan(a, from, to)
		n += padded((rows + 1) * offsetWidth(a))
		return n + encoded(a.ListValues(), start, end)
	case array.Union:
		for i := range a.NumFields() {
			f := a.Field(i)
			n += encoded(f, 0, int64(f.Len()))
		}
		return n + 5*rows
	}
	if w, ok := a.DataType().(arrow.FixedWidthDataType); ok {
		return n + padded((rows*int64(w.BitWidth())+7)/8)
	}
	return n + whole(a.Data())
}

// span is the byte interval of rows [from, to) in a's values.
func span(a array.BinaryLike, from, to int64) (start, end int64) {
	if from >= to {
		return 0, 0
	}
	start = a.ValueOffset64(int(from))
	last := int(to - 1)
	return start, a.ValueOffset64(last) + int64(a.ValueLen(last))
}

// listSpan is the interval of rows [from, to) in a list's values.
func listSpan(a array.ListLike, from, to int64) (start, end int64) {
	if from >= to {
		return 0, 0
	}
	start, _ = a.ValueOffsets(int(from))
	_, end = a.ValueOffsets(int(to - 1))
	return start, end
}

func offsetWidth(a arrow.Array) int64 {
	switch a.DataType().ID() {
	case arrow.LARGE_BINARY, arrow.LARGE_STRING, arrow.LARGE_LIST:
		return 8
	}
	return 4
}

// viewData is all of a view array's data: IPC sends whole data buffers, even
// for a part of the rows.
func viewData(a arrow.Array) int64 {
	var n int64
	for _, b := range a.Data().Buffers()[2:] {
		if b != nil {
			n += padded(int64(b.Len())) + entryBytes
		}
	}
	return n
}

// whole sums all buffers of an array that cannot be measured by rows.
func whole(d arrow.ArrayData) int64 {
	var n int64
	for _, b := range d.Buffers() {
		if b != nil {
			n += padded(int64(b.Len()))
		}
	}
	for _, c := range d.Children() {
		n += whole(c)
	}
	return n
}

// bitmap is the length of a bitmap that IPC makes anew: padded to 64 bytes.
func bitmap(rows int64) int64 { return ((rows+7)/8 + 63) &^ 63 }

func padded(n int64) int64 { return (n + 7) &^ 7 }

// fit is the largest number of rows, from row from on, whose message stays
// below limit; at least one.
func fit(b arrow.RecordBatch, from, limit int64) int64 {
	low, high := int64(1), b.NumRows()-from
	if encodedBatch(b, from, from+high) <= limit {
		return high
	}
	for low < high {
		mid := low + (high-low+1)/2
		if encodedBatch(b, from, from+mid) <= limit {
			low = mid
		} else {
			high = mid - 1
		}
	}
	return low
}

// largest is the column that takes most of a row, and what it takes.
func largest(b arrow.RecordBatch, row int64) (column string, bytes int64) {
	for i, c := range b.Columns() {
		if n := encoded(c, row, row+1); n > bytes {
			column, bytes = b.ColumnName(i), n
		}
	}
	return column, bytes
}
