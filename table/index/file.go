package index

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/flightblob/flightblob/datafile"
	"github.com/flightblob/flightblob/encoding"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/schema"
)

// Open opens a file in the folder of an index, with its description.
type Open func(ctx context.Context, name string) (*datafile.Reader, error)

// ErrMany says that the rows that a test asks for are so many that reading all
// rows is better.
var ErrMany = fault.New(fault.Exhausted, "index: too many rows meet the condition")

// maxTable bounds what is kept of an index between searches, in bytes: the
// bounds of the pages of a B-tree, the keys of a bitmap index.
const maxTable = 64 << 20

// columns are some columns of a file of flat fields.
type columns struct {
	file   *datafile.Reader
	rows   uint64
	leaves []datafile.Leaf
}

// columnsOf finds columns of a file by name; types by name, nil for any type.
func columnsOf(f *datafile.Reader, names []string, types []arrow.DataType) (*columns, error) {
	d := f.Description()
	c := &columns{file: f, rows: d.Rows}
	for i, name := range names {
		at := -1
		for k, field := range d.Schema.Fields {
			if field.Name == name {
				at = k
			}
			if field.Shape != schema.Leaf || field.Packed || field.Blob != schema.NotBlob {
				return nil, fault.New(fault.Unsupported, "index: column %q is not flat", field.Name)
			}
		}
		if at < 0 {
			return nil, fault.New(fault.Unsupported, "index: the file has no column %q", name)
		}
		field := d.Schema.Fields[at]
		if types[i] != nil && !arrow.TypeEqual(field.Storage, types[i]) {
			return nil, fault.New(fault.Unsupported, "index: column %q is of type %s, not %s", name, field.Storage, types[i])
		}
		c.leaves = append(c.leaves, datafile.Leaf{Path: []*schema.Field{field}, Columns: []int{at}})
	}
	return c, nil
}

// read reads rows of the columns.
func (c *columns) read(ctx context.Context, rows []encoding.Range) ([]arrow.Array, error) {
	n := uint64(0)
	for _, r := range rows {
		n += r.Len()
	}
	leaves, err := c.file.ReadLeaves(ctx, c.leaves, rows)
	if err != nil {
		return nil, err
	}
	out := make([]arrow.Array, len(leaves))
	for i, l := range leaves {
		field := c.leaves[i].Path[0]
		if out[i] = l.Values; uint64(out[i].Len()) != n || !arrow.TypeEqual(out[i].DataType(), field.Storage) {
			return nil, fault.Corruptf(-1, "index: column %q gave %d rows of %s, expected %d of %s",
				field.Name, out[i].Len(), out[i].DataType(), n, field.Storage)
		}
	}
	return out, nil
}

// whole reads all rows, which must be small enough to keep; bytes is about what
// they take.
func (c *columns) whole(ctx context.Context) (out []arrow.Array, bytes int64, err error) {
	stored, err := c.file.Stored(c.leaves)
	if err != nil {
		return nil, 0, err
	}
	all := encoding.Range{End: c.rows}
	if n := stored(all); n > maxTable || c.rows > maxTable/8 {
		return nil, 0, fault.New(fault.Unsupported, "index: a table of %d entries in %d bytes is too large to keep", c.rows, n)
	}
	if c.rows == 0 {
		all = encoding.Range{}
	}
	if out, err = c.read(ctx, []encoding.Range{all}); err != nil {
		return nil, 0, err
	}
	for _, a := range out {
		bytes += int64(a.Data().SizeInBytes())
	}
	return out, bytes, nil
}

// rowNumbers are the values of a column of row addresses or ids.
func rowNumbers(a arrow.Array) ([]uint64, error) {
	n, ok := a.(*array.Uint64)
	if !ok || n.NullN() > 0 {
		return nil, fault.Corruptf(-1, "index: %d of %d row numbers are missing", a.NullN(), a.Len())
	}
	return n.Uint64Values(), nil
}
