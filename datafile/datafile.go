// Package datafile reads and writes the container of a Lance data file: footer,
// column metadata, page tables and buffers.
//
//	data buffers (page buffers, blob payloads), each at a multiple of 64
//	global buffer 0 = FileDescriptor
//	column metadata 0, 1, …
//	column metadata offset table   u64 position, u64 size per column
//	global buffer offset table     u64 position, u64 size per buffer
//	footer, 40 bytes
//
// The footer, from its start:
//
//	u64 position of column 0 metadata
//	u64 position of the column metadata offset table
//	u64 position of the global buffer offset table
//	u32 global buffers | u32 columns
//	u16 major | u16 minor | "LANC"
//
// Opening costs at most two requests when the metadata is small. An open Reader
// holds the metadata, not pages; what pages need between reads is kept in a
// Cache that many readers share. Damage is a fault.Corrupt error with the file
// and the byte offset.
//
// The file's own schema and row count are not used for data files of a table:
// the manifest says which column belongs to which field and how many rows there
// are. Files without a manifest are read by their Description. A Writer
// records schema and row count for those.
package datafile

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/flightblob/flightblob/encoding"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
)

const (
	footerSize = 40
	// tailSize is how much of the end of a file is read at first.
	tailSize = 64 << 10
	// maxMetadata bounds the column metadata of one file.
	maxMetadata = 512 << 20
)

// Options of an open Reader. The zero value works.
type Options struct {
	// Rows is the number of rows that the manifest says the file has; a column
	// with another number is damaged. 0 skips the check.
	Rows uint64
	// Cache keeps page indexes between reads. nil keeps none.
	Cache *Cache
	// Describe reads what the file says about itself as well; it takes the place
	// of a missing Rows.
	Describe bool
}

// Reader is an open data file. It may be used from any goroutine and needs no
// closing.
type Reader struct {
	loc     objstore.Location
	name    string
	opts    Options
	size    uint64
	version encoding.Version
	meta    []byte // bytes [metaAt, …) of the file: column metadata
	metaAt  uint64
	columns []encoding.Extent // metadata of each column

	description *Description // nil unless asked for

	mu     sync.Mutex
	parsed map[columnKey]columnReader
	raw20  []encoding.Column20 // all columns of a 2.0 file, parsed at once
}

// Open reads the metadata of a file of size bytes; 0 asks the store for the
// size. Format 0.1 is refused by name.
func Open(ctx context.Context, loc objstore.Location, size int64, opts Options) (*Reader, error) {
	if size <= 0 {
		var err error
		if size, err = loc.Size(ctx); err != nil {
			return nil, err
		}
	}
	r := &Reader{loc: loc, name: loc.String(), opts: opts, size: uint64(size), parsed: map[columnKey]columnReader{}}
	if err := r.open(ctx); err != nil {
		return nil, fault.In(r.name, err)
	}
	return r, nil
}

// Version is the format version of the file; footer version (0,3) is 2.0.
func (r *Reader) Version() encoding.Version { return r.version }

// Columns is the number of physical columns.
func (r *Reader) Columns() int { return len(r.columns) }

// Size estimates the bytes that the Reader itself holds.
func (r *Reader) Size() int64 {
	// Parsed page tables weigh about four times their encoded form.
	return 4*int64(len(r.meta)) + 16*int64(len(r.columns)) + 1024
}

// footer is the decoded end of a file.
type footer struct {
	columnMeta, columnTable, bufferTable uint64
	buffers, columns                     uint32
	version                              encoding.Version
}

func parseFooter(p []byte, size uint64) (footer, error) {
	at := int64(size) - 4
	if len(p) < 16 || string(p[len(p)-4:]) != "LANC" {
		return footer{}, fault.Corruptf(at, "datafile: a Lance file ends with LANC")
	}
	major, minor := binary.LittleEndian.Uint16(p[len(p)-8:]), binary.LittleEndian.Uint16(p[len(p)-6:])
	f := footer{version: encoding.Version{Major: major, Minor: minor}}
	switch {
	case major == 0 && minor < 3:
		return footer{}, fault.New(fault.Unsupported, "datafile: a file of format 0.1, which this program cannot read; rewrite the table with a current Lance")
	case f.version == encoding.Version{Major: 0, Minor: 3}:
		f.version = encoding.V2_0
	case f.version == encoding.V2_0, f.version == encoding.V2_1, f.version == encoding.V2_2, f.version == encoding.V2_3:
	default:
		return footer{}, fault.New(fault.Unsupported, "datafile: file format %d.%d; 2.0 to 2.3 are read", major, minor)
	}
	if len(p) < footerSize {
		return footer{}, fault.Corruptf(0, "datafile: a file of %d bytes", size)
	}
	p = p[len(p)-footerSize:]
	f.columnMeta = binary.LittleEndian.Uint64(p)
	f.columnTable = binary.LittleEndian.Uint64(p[8:])
	f.bufferTable = binary.LittleEndian.Uint64(p[16:])
	f.buffers = binary.LittleEndian.Uint32(p[24:])
	f.columns = binary.LittleEndian.Uint32(p[28:])
	end := size - footerSize
	if f.columnTable > end || f.bufferTable > end || uint64(f.columns)*16 > end-f.columnTable || uint64(f.buffers)*16 > end-f.bufferTable {
		return footer{}, fault.Corruptf(int64(end), "datafile: footer points outside the file")
	}
	return f, nil
}

func (r *Reader) open(ctx context.Context) error {
	tailAt := r.size - min(r.size, tailSize)
	tail := make([]byte, r.size-tailAt)
	if err := r.loc.ReadAt(ctx, tail, int64(tailAt)); err != nil {
		return err
	}
	f, err := parseFooter(tail, r.size)
	if err != nil {
		return err
	}
	r.version = f.version
	first := min(f.columnMeta, f.columnTable)
	if r.size-first > maxMetadata {
		return fault.Corruptf(int64(r.size-footerSize), "datafile: %d bytes of metadata", r.size-first)
	}
	if first < tailAt {
		head := make([]byte, tailAt-first, r.size-first)
		if err := r.loc.ReadAt(ctx, head, int64(first)); err != nil {
			return err
		}
		tail = append(head, tail...)
		tailAt = first
	}
	if r.opts.Describe {
		if err := r.describe(ctx, f, tail, tailAt); err != nil {
			return err
		}
	}
	r.columns = make([]encoding.Extent, f.columns)
	table := tail[f.columnTable-tailAt:]
	lowest := f.columnTable
	for i := range r.columns {
		e := encoding.Extent{Offset: binary.LittleEndian.Uint64(table[16*i:]), Size: binary.LittleEndian.Uint64(table[16*i+8:])}
		if e.Offset < tailAt || e.Offset > r.size || e.Size > r.size-e.Offset {
			return fault.Corruptf(int64(f.columnTable)+int64(16*i), "datafile: metadata of column %d at [%d, +%d)", i, e.Offset, e.Size)
		}
		lowest = min(lowest, e.Offset)
		r.columns[i] = e
	}
	// Keep the metadata only: the tail of a small file is all of it.
	r.meta, r.metaAt = append([]byte(nil), tail[lowest-tailAt:f.columnTable-tailAt]...), lowest
	for i, e := range r.columns {
		if e.Offset+e.Size > f.columnTable {
			return fault.Corruptf(int64(f.columnTable)+int64(16*i), "datafile: metadata of column %d runs into the tables", i)
		}
	}
	return nil
}

// columnBytes gives the encoded metadata of a column.
func (r *Reader) columnBytes(i int) ([]byte, error) {
	if i < 0 || i >= len(r.columns) {
		return nil, fault.Corruptf(-1, "datafile: column %d of %d", i, len(r.columns))
	}
	e := r.columns[i]
	return r.meta[e.Offset-r.metaAt : e.Offset-r.metaAt+e.Size], nil
}

// inColumn adds the column to an error, and the file to a corruption.
func (r *Reader) inColumn(column int, err error) error {
	var e *fault.Error
	if errors.As(err, &e) && e.Kind == fault.Corrupt && e.Object == "" {
		placed := *e
		placed.Object, placed.Text = r.name, fmt.Sprintf("column %d: %s", column, e.Text)
		return &placed
	}
	return fmt.Errorf("column %d: %w", column, err)
}
