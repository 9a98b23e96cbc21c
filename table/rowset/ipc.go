package rowset

import (
	"bytes"
	"encoding/binary"
	"io"
	"math"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/flightblob/flightblob/internal/fault"
)

// A deletion file of offsets is an Arrow IPC file of exactly one shape: one
// batch of one column "row_id: uint32 not null". It is read here and not by
// Arrow's reader, which trusts the lengths that a file claims: a short file
// could ask it for any amount of memory.
const (
	ipcMagic      = "ARROW1"
	ipcTail       = 4 + len(ipcMagic) // footer length and magic
	ipcTypeInt    = 2                 // member of the union Type
	ipcBatch      = 3                 // member of the union MessageHeader
	ipcCodecLZ4   = 0
	ipcCodecZstd  = 1
	ipcBlockSize  = 24
	ipcContinue   = math.MaxUint32
	deletedColumn = "row_id"
)

// maxInflated bounds the offsets of a compressed file: 64 million of them,
// four orders of magnitude past where writers change to bitmaps.
const maxInflated = 256 << 20

// maxWindow bounds what the zstd decoder sets aside before it has seen data.
const maxWindow = 8 << 20

func notDeletions(format string, args ...any) error {
	return fault.Corruptf(-1, "rowset: not an arrow file of deleted rows: "+format, args...)
}

// readOffsets gives the values of the file's column.
func readOffsets(data []byte, physicalRows uint64) ([]uint32, error) {
	batch, body, err := openBatch(data)
	if err != nil {
		return nil, err
	}
	count := batch.int64(0)
	if count < 0 || uint64(count) > physicalRows {
		return nil, notDeletions("it has %d rows, the fragment %d", count, physicalRows)
	}
	nodes, n := batch.structs(1, 16)
	if n != 1 || nodes.int64At(0) != count {
		return nil, notDeletions("its batch has not one column of %d rows", count)
	}
	if nulls := nodes.int64At(8); nulls != 0 {
		return nil, notDeletions("it has %d nulls", nulls)
	}
	buffers, n := batch.structs(2, 16)
	if n != 2 {
		return nil, notDeletions("its column has %d buffers", n)
	}
	raw, ok := body.slice(buffers.int64At(16), buffers.int64At(24))
	if !ok {
		return nil, notDeletions("its values lie outside the batch")
	}
	if compression, ok := batch.table(3); ok {
		if raw, err = inflate(raw, compression.uint8(0), 4*count); err != nil {
			return nil, err
		}
	}
	if int64(len(raw)) < 4*count {
		return nil, notDeletions("%d bytes are too few for %d rows", len(raw), count)
	}
	offsets := make([]uint32, count)
	for i := range offsets {
		offsets[i] = binary.LittleEndian.Uint32(raw[4*i:])
	}
	return offsets, nil
}

// openBatch checks footer and schema and gives the one batch and its body.
func openBatch(data []byte) (batch table, body buffer, err error) {
	tail := len(data) - ipcTail
	if tail < len(ipcMagic)+2 || string(data[:len(ipcMagic)]) != ipcMagic || string(data[tail+4:]) != ipcMagic {
		return batch, nil, notDeletions("the magic bytes are missing")
	}
	size := int64(binary.LittleEndian.Uint32(data[tail:]))
	footerBytes, ok := buffer(data[:tail]).slice(int64(tail)-size, size)
	footer, ok2 := rootTable(footerBytes)
	if !ok || !ok2 {
		return batch, nil, notDeletions("the footer of %d bytes is damaged", size)
	}
	if err := checkSchema(footer); err != nil {
		return batch, nil, err
	}
	blocks, n := footer.structs(3, ipcBlockSize)
	if n != 1 {
		return batch, nil, notDeletions("it has %d batches", n)
	}
	offset, metaSize, bodySize := blocks.int64At(0), int64(blocks.int32At(8)), blocks.int64At(16)
	meta, ok := buffer(data).slice(offset, metaSize)
	if !ok || len(meta) < 8 {
		return batch, nil, notDeletions("its batch lies outside the file")
	}
	if body, ok = buffer(data).slice(offset+metaSize, bodySize); !ok {
		return batch, nil, notDeletions("its batch lies outside the file")
	}
	skip := 4
	if binary.LittleEndian.Uint32(meta) == ipcContinue {
		skip = 8
	}
	message, ok := rootTable(meta[skip:])
	if !ok || message.uint8(1) != ipcBatch {
		return batch, nil, notDeletions("its batch has no header")
	}
	if batch, ok = message.table(2); !ok {
		return batch, nil, notDeletions("its batch has no header")
	}
	return batch, body, nil
}

func checkSchema(footer table) error {
	schema, ok := footer.table(1)
	if !ok || schema.uint8(0) != 0 { // big-endian files exist on paper
		return notDeletions("its schema is missing or big-endian")
	}
	fields, n := schema.tables(1)
	if n != 1 {
		return notDeletions("it has %d columns", n)
	}
	field, ok := fields.at(0)
	if !ok {
		return notDeletions("its column is damaged")
	}
	kind, _ := field.table(3)
	if name := field.text(0); name != deletedColumn {
		return notDeletions("its column is called %.40q", name)
	}
	_, dictionary := field.table(4)
	if field.uint8(2) != ipcTypeInt || kind.int32(0) != 32 || kind.uint8(1) != 0 || dictionary {
		return notDeletions("its column is not of type uint32")
	}
	if field.uint8(1) != 0 {
		return notDeletions("its column is nullable")
	}
	return nil
}

// inflate undoes buffer compression: i64 length, then the compressed bytes, or
// the plain ones after -1. want is the number of bytes that will be used.
func inflate(raw []byte, codec byte, want int64) ([]byte, error) {
	if len(raw) < 8 {
		if want == 0 {
			return nil, nil
		}
		return nil, notDeletions("its values are cut short")
	}
	size := int64(binary.LittleEndian.Uint64(raw))
	raw = raw[8:]
	if size == -1 {
		return raw, nil
	}
	// Buffers may be padded to 64 bytes.
	if size < want || size > want+64 || size > maxInflated {
		return nil, notDeletions("its values claim %d bytes, %d are expected", size, want)
	}
	var in io.Reader
	switch codec {
	case ipcCodecZstd:
		d, err := zstd.NewReader(bytes.NewReader(raw), zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderMaxMemory(maxInflated+maxWindow))
		if err != nil {
			return nil, notDeletions("%v", err)
		}
		defer d.Close()
		in = d
	case ipcCodecLZ4:
		in = lz4.NewReader(bytes.NewReader(raw))
	default:
		return nil, notDeletions("its values have the unknown compression %d", codec)
	}
	return readExactly(in, size)
}

// readExactly reads a stream of known length, growing as bytes come, so that
// a false length costs nothing.
func readExactly(in io.Reader, size int64) (out []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			out, err = nil, notDeletions("its values do not decompress: %v", r)
		}
	}()
	var b bytes.Buffer
	n, err := io.Copy(&b, io.LimitReader(in, size+1))
	if err != nil {
		return nil, notDeletions("its values do not decompress: %v", err)
	}
	if n != size {
		return nil, notDeletions("its values decompress to another length than the %d bytes claimed", size)
	}
	return b.Bytes(), nil
}
