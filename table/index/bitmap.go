package index

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/flightblob/flightblob/encoding"
	"github.com/flightblob/flightblob/internal/fault"
)

// keysFile is the one file of a bitmap index.
const keysFile = "bitmap_page_lookup.lance"

// bitmapVersions are the format versions that are read.
const bitmapVersions = 0

// Bitmap is an opened bitmap index. It may be used from any goroutine.
type Bitmap struct {
	keys    values
	bitmaps *columns
	bytes   int64
}

// OpenBitmap reads the keys of a bitmap index over values of a stored type.
// Anything but what the reference writes is fault.Unsupported or fault.Corrupt.
func OpenBitmap(ctx context.Context, open Open, version int32, stored arrow.DataType) (*Bitmap, error) {
	if version < 0 || version > bitmapVersions {
		return nil, fault.New(fault.Unsupported, "index: a bitmap index of version %d; %d is read", version, bitmapVersions)
	}
	file, err := open(ctx, keysFile)
	if err != nil {
		return nil, err
	}
	table, err := columnsOf(file, []string{"keys"}, []arrow.DataType{stored})
	if err != nil {
		return nil, err
	}
	keys, bytes, err := table.whole(ctx)
	if err != nil {
		return nil, err
	}
	b := &Bitmap{bytes: bytes + file.Size()}
	if b.keys, err = valuesOf(keys[0]); err != nil {
		return nil, err
	}
	b.bitmaps, err = columnsOf(file, []string{"bitmaps"}, []arrow.DataType{arrow.BinaryTypes.Binary})
	return b, err
}

// Size is about how many bytes the index keeps alive.
func (b *Bitmap) Size() int64 { return b.bytes }

// readBitmaps is how many bitmaps are read at once.
const readBitmaps = 64

// Search finds the rows that a test is true of, at most so many; more is
// ErrMany.
func (b *Bitmap) Search(ctx context.Context, test Test, most uint64) (Rows, error) {
	var wanted []encoding.Range
	for i := range b.keys.len() {
		if !b.keys.matches(test, i) {
			continue
		}
		at := uint64(i)
		if n := len(wanted); n > 0 && wanted[n-1].End == at && wanted[n-1].Len() < readBitmaps {
			wanted[n-1].End++
		} else {
			wanted = append(wanted, encoding.Range{Start: at, End: at + 1})
		}
	}
	var ranges []Range
	count := uint64(0)
	for len(wanted) > 0 {
		n, bitmaps := 0, uint64(0)
		for n < len(wanted) && bitmaps+wanted[n].Len() <= readBitmaps {
			bitmaps += wanted[n].Len()
			n++
		}
		out, err := b.bitmaps.read(ctx, wanted[:n])
		if err != nil {
			return Rows{}, err
		}
		wanted = wanted[n:]
		raw, ok := out[0].(*array.Binary)
		if !ok || raw.NullN() > 0 {
			return Rows{}, fault.Corruptf(-1, "index: a key without its rows")
		}
		for i := range raw.Len() {
			m, err := decodeRowMap(raw.Value(i))
			if err != nil {
				return Rows{}, err
			}
			// No row has two values, so that counts add up.
			if count += m.count; count > most || m.count > most {
				return Rows{}, ErrMany
			}
			ranges = m.appendTo(ranges)
		}
	}
	return RowsOf(ranges), nil
}
