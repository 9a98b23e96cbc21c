package rowset

import (
	"bytes"
	"encoding/binary"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/flightblob/flightblob/internal/fault"
)

// bitmapFrom is the number of deleted rows from which writers take a bitmap
// instead of an array (section 5.2).
const bitmapFrom = 5000

// Encode gives the content of a deletion file, and whether it is a bitmap (.bin)
// or an array (.arrow): what the reference would choose.
func (d *Deletions) Encode() (data []byte, bitmap bool, err error) {
	if d.count >= bitmapFrom {
		return d.EncodeBitmap(), true, nil
	}
	data, err = d.EncodeArray()
	return data, false, err
}

// EncodeBitmap gives the portable Roaring form; each container takes the
// smallest of the three forms.
func (d *Deletions) EncodeBitmap() []byte {
	type container struct {
		body []byte
		runs bool
	}
	containers := make([]container, len(d.chunks))
	anyRuns := false
	for i, c := range d.chunks {
		body, runs := encodeChunk(c)
		containers[i] = container{body, runs}
		anyRuns = anyRuns || runs
	}
	var out []byte
	if anyRuns {
		out = binary.LittleEndian.AppendUint32(out, roaringRuns|uint32(len(containers)-1)<<16)
		marks := make([]byte, (len(containers)+7)/8)
		for i, c := range containers {
			if c.runs {
				marks[i/8] |= 1 << (i % 8)
			}
		}
		out = append(out, marks...)
	} else {
		out = binary.LittleEndian.AppendUint32(out, roaringPlain)
		out = binary.LittleEndian.AppendUint32(out, uint32(len(containers)))
	}
	for i, c := range d.chunks {
		out = binary.LittleEndian.AppendUint16(out, d.keys[i])
		out = binary.LittleEndian.AppendUint16(out, uint16(c.count()-1))
	}
	if !anyRuns || len(containers) >= roaringNoOffsets {
		at := len(out) + 4*len(containers)
		for _, c := range containers {
			out = binary.LittleEndian.AppendUint32(out, uint32(at))
			at += len(c.body)
		}
	}
	for _, c := range containers {
		out = append(out, c.body...)
	}
	return out
}

// encodeChunk chooses between runs and the form that the count demands.
func encodeChunk(c chunk) (body []byte, runs bool) {
	plain := chunkSize / 8
	if c.count() <= roaringSortedMost {
		plain = 2 * c.count()
	}
	body = []byte{0, 0}
	count := 0
	for start, end := range c.runs(0) {
		if len(body)+4 >= plain {
			return encodePlain(c), false
		}
		body = binary.LittleEndian.AppendUint16(body, uint16(start))
		body = binary.LittleEndian.AppendUint16(body, uint16(end-start-1))
		count++
	}
	binary.LittleEndian.PutUint16(body, uint16(count))
	return body, true
}

func encodePlain(c chunk) []byte {
	switch c := c.(type) {
	case sortedChunk:
		if c.count() <= roaringSortedMost {
			return c
		}
	case bitChunk:
		if c.count() > roaringSortedMost {
			return c.words
		}
	}
	var page [chunkSize / 64]uint64
	for start, end := range c.runs(0) {
		for v := start; v < end; v++ {
			page[v/64] |= 1 << (v % 64)
		}
	}
	switch c := pageChunk(&page).(type) {
	case sortedChunk:
		return c
	case bitChunk:
		return c.words
	}
	return nil
}

// EncodeArray gives the Arrow form: a file of one batch with the column row_id,
// compressed with zstd.
func (d *Deletions) EncodeArray() ([]byte, error) {
	if d.count > maxArray {
		return nil, fault.New(fault.Exhausted, "rowset: %d deleted rows are too many for an array file", d.count)
	}
	values := make([]uint32, 0, d.count)
	for offset := range d.Offsets() {
		values = append(values, uint32(offset))
	}
	b := array.NewUint32Builder(memory.DefaultAllocator)
	defer b.Release()
	b.AppendValues(values, nil)
	column := b.NewUint32Array()
	defer column.Release()
	schema := arrow.NewSchema([]arrow.Field{{Name: deletedColumn, Type: arrow.PrimitiveTypes.Uint32}}, nil)
	batch := array.NewRecordBatch(schema, []arrow.Array{column}, int64(len(values)))
	defer batch.Release()
	var out bytes.Buffer
	w, err := ipc.NewFileWriter(&out, ipc.WithSchema(schema), ipc.WithZstd())
	if err != nil {
		return nil, fault.New(fault.Internal, "rowset: %w", err)
	}
	if err := w.Write(batch); err != nil {
		return nil, fault.New(fault.Internal, "rowset: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fault.New(fault.Internal, "rowset: %w", err)
	}
	return out.Bytes(), nil
}

// maxArray bounds the array form; bitmaps take over long before.
const maxArray = 1 << 24
