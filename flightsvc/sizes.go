package flightsvc

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/flightblob/flightblob/flightsvc/wire"
)

// Sizes are those of the encoded message: buffers as IPC writes them for a
// range of rows, each padded to 8 bytes, plus what describes them. They are
// computed from lengths and offsets; no value is read. The real length is never
// above the computed one.

// Per message: the flatbuffer around field nodes and buffers, the protobuf
// around that. Nodes and buffers take 16 bytes each; a compressed buffer has its
// own length before it, and one that does not shrink goes as it is.
const (
	messageBase      = 512
	entryBytes       = 16
	compressedPrefix = 8
)

// encodedBatch is an upper bound of the encoded length of rows [from, to) of a
// batch as one message, dictionaries left out.
func encodedBatch(b arrow.RecordBatch, from, to int64, c wire.Compression) int64 {
	n, entries := int64(messageBase), int64(0)
	for _, column := range b.Columns() {
		n += encoded(column, from, to, &entries)
	}
	n += entries * entryBytes
	if c != wire.Uncompressed {
		n += entries * compressedPrefix
	}
	return n
}

// encoded is what the buffers of rows [from, to) of a column add to a message;
// entries counts the nodes and buffers that describe them.
func encoded(a arrow.Array, from, to int64, entries *int64) int64 {
	switch a := a.(type) {
	case array.ExtensionArray:
		return encoded(a.Storage(), from, to, entries)
	case *array.Dictionary:
		return encoded(a.Indices(), from, to, entries)
	case *array.Null:
		*entries++
		return 0
	}
	rows := to - from
	*entries += 3 // the node and two buffers; more are added below
	n := int64(0)
	if a.NullN() > 0 {
		n = bitmap(rows)
	}
	switch a := a.(type) {
	case *array.Boolean:
		return n + bitmap(rows)
	case *array.Struct:
		for i := range a.NumField() {
			n += encoded(a.Field(i), from, to, entries)
		}
		return n
	case *array.FixedSizeList:
		size := int64(a.DataType().(*arrow.FixedSizeListType).Len())
		base := int64(a.Offset())
		return n + encoded(a.ListValues(), (base+from)*size, (base+to)*size, entries)
	case array.BinaryLike:
		*entries++
		start, end := span(a, from, to)
		return n + padded((rows+1)*offsetWidth(a)) + padded(end-start)
	case array.ViewLike:
		*entries++ // its number of data buffers
		return n + fixedWidth(a, from, rows, int64(arrow.ViewHeaderSizeBytes)) + viewData(a, entries)
	case array.ListLike:
		start, end := listSpan(a, from, to)
		n += padded((rows + 1) * offsetWidth(a))
		return n + encoded(a.ListValues(), start, end, entries)
	case array.Union:
		for i := range a.NumFields() {
			f := a.Field(i)
			n += encoded(f, 0, int64(f.Len()), entries)
		}
		return n + rounded(rows) + rounded(4*rows)
	}
	if w, ok := a.DataType().(arrow.FixedWidthDataType); ok {
		return n + fixedWidth(a, from, rows, int64(w.BitWidth()/8))
	}
	return n + whole(a.Data(), entries)
}

// fixedWidth is the length of rows values of width bytes. IPC sends a buffer that no
// row is cut off from as it is, up to 63 bytes beyond its values.
func fixedWidth(a arrow.Array, from, rows, width int64) int64 {
	n := rows * width
	if values := a.Data().Buffers()[1]; values != nil && int64(a.Data().Offset())+from == 0 {
		n = max(n, min(rounded(n), int64(values.Len())))
	}
	return padded(n)
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
func viewData(a arrow.Array, entries *int64) int64 {
	var n int64
	for _, b := range a.Data().Buffers()[2:] {
		*entries++
		if b != nil {
			n += padded(int64(b.Len()))
		}
	}
	return n
}

// whole sums all buffers of an array that cannot be measured by rows.
func whole(d arrow.ArrayData, entries *int64) int64 {
	var n int64
	*entries++
	for _, b := range d.Buffers() {
		*entries++
		if b != nil {
			n += padded(int64(b.Len()))
		}
	}
	for _, c := range d.Children() {
		n += whole(c, entries)
	}
	return n
}

// bitmap is the length of a bitmap that IPC makes anew: padded to 64 bytes.
func bitmap(rows int64) int64 { return rounded((rows + 7) / 8) }

// rounded is the length that builders give a buffer of n bytes.
func rounded(n int64) int64 { return (n + 63) &^ 63 }

func padded(n int64) int64 { return (n + 7) &^ 7 }

// fit is the largest number of rows, from row from on, whose message stays
// below limit; at least one.
func fit(b arrow.RecordBatch, from, limit int64, c wire.Compression) int64 {
	low, high := int64(1), b.NumRows()-from
	if encodedBatch(b, from, from+high, c) <= limit {
		return high
	}
	for low < high {
		mid := low + (high-low+1)/2
		if encodedBatch(b, from, from+mid, c) <= limit {
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
		entries := int64(0)
		if n := encoded(c, row, row+1, &entries) + entries*entryBytes; n > bytes {
			column, bytes = b.ColumnName(i), n
		}
	}
	return column, bytes
}
