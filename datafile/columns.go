package datafile

import (
	"context"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	"github.com/flightblob/flightblob/encoding"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/internal/lancepb"
	"github.com/flightblob/flightblob/schema"
)

// Leaf names the physical column of a leaf field.
type Leaf struct {
	// Path leads from the top-level field down to the leaf.
	Path []*schema.Field
	// Columns[i] is the physical column of Path[i], -1 where the file lists
	// none. From format 2.1 on only the leaf has one.
	Columns []int
	// Packed has the columns of a packed struct's children: early writers of
	// format 2.0 stored one each in spite of the mark. Nil otherwise.
	Packed map[schema.FieldID]int
	// Coded takes text and bytes of pages with small dictionaries as dictionary
	// arrays (encoding.Column.ReadCoded).
	Coded bool
}

// columnReader is a column of any format version.
type columnReader interface {
	Read(ctx context.Context, fetch encoding.Fetch, rows []encoding.Range) (*encoding.Leaf, error)
}

// codedReader is one that can leave values coded.
type codedReader interface {
	ReadCoded(ctx context.Context, fetch encoding.Fetch, rows []encoding.Range) (*encoding.Leaf, error)
}

// columnKey identifies a parsed column: the same bytes may be asked for under
// the schemas of several table versions, which may see another type in them.
type columnKey struct {
	column int
	path   string
}

func (l Leaf) key() columnKey {
	var b strings.Builder
	for i, f := range l.Path {
		b.WriteString(strconv.Itoa(int(f.Shape)))
		b.WriteByte(':')
		b.WriteString(f.Logical)
		b.WriteByte(':')
		b.WriteString(strconv.Itoa(int(f.Blob)))
		b.WriteByte(':')
		// Fields that a 2.0 file keeps in the rows of one above have no column
		// to tell them apart.
		b.WriteString(strconv.Itoa(int(f.ID)))
		b.WriteByte(':')
		b.WriteString(strconv.Itoa(l.Columns[i]))
		b.WriteByte('/')
	}
	leaf := l.Path[len(l.Path)-1]
	if leaf.Packed {
		b.WriteString(leaf.Storage.String())
	}
	return columnKey{l.Columns[len(l.Columns)-1], b.String()}
}

// leafReaders is how many columns of a file are read at once.
const leafReaders = 4

// ReadLeaves reads the rows, which are sorted and disjoint, of several leaves.
func (r *Reader) ReadLeaves(ctx context.Context, leaves []Leaf, rows []encoding.Range) ([]*encoding.Leaf, error) {
	out := make([]*encoding.Leaf, len(leaves))
	read := func(ctx context.Context, i int) (err error) {
		defer fault.Recover("datafile", &err)
		c, err := r.column(leaves[i])
		if err == nil {
			read := c.Read
			if coded, ok := c.(codedReader); ok && leaves[i].Coded {
				read = coded.ReadCoded
			}
			out[i], err = read(ctx, r.fetch, rows)
		}
		if err != nil {
			return r.inColumn(leaves[i].Columns[len(leaves[i].Columns)-1], err)
		}
		return nil
	}
	if len(leaves) == 1 {
		return out, read(ctx, 0)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(leafReaders)
	for i := range leaves {
		group.Go(func() error { return read(ctx, i) })
	}
	return out, group.Wait()
}

// column finds or parses the column of a leaf.
func (r *Reader) column(l Leaf) (columnReader, error) {
	if len(l.Path) == 0 || len(l.Path) != len(l.Columns) {
		return nil, fault.New(fault.Internal, "datafile: a path of %d fields with %d columns", len(l.Path), len(l.Columns))
	}
	key := l.key()
	r.mu.Lock()
	defer r.mu.Unlock()
	if c, ok := r.parsed[key]; ok {
		return c, nil
	}
	var c columnReader
	var err error
	if r.version == encoding.V2_0 {
		c, err = r.column20(l)
	} else {
		c, err = r.column21(l)
	}
	if err != nil {
		return nil, err
	}
	r.parsed[key] = c
	return c, nil
}

func (r *Reader) column21(l Leaf) (columnReader, error) {
	m, err := r.metadata(key21(l))
	if err != nil {
		return nil, err
	}
	want := "/lance.encodings21.PageLayout"
	if r.version == encoding.V2_3 {
		want = "/lance.encodings23.PlanarLayout"
	}
	pages, err := r.pages(m, want)
	if err != nil {
		return nil, err
	}
	var cache encoding.Cache
	if r.opts.Cache != nil {
		cache = r.opts.Cache
	}
	c, err := encoding.NewColumn(r.version, l.Path, pages, cache)
	if err != nil {
		return nil, err
	}
	if r.opts.Rows != 0 && c.Rows() != r.opts.Rows {
		return nil, fault.Corruptf(-1, "datafile: %d rows, the manifest says %d", c.Rows(), r.opts.Rows)
	}
	return c, nil
}

func key21(l Leaf) int { return l.Columns[len(l.Columns)-1] }

// column20 hands all columns to the 2.0 reader, which finds its way by field.
func (r *Reader) column20(l Leaf) (columnReader, error) {
	if r.raw20 == nil {
		for i := range r.columns {
			m, err := r.metadata(i)
			if err != nil {
				return nil, err
			}
			c := encoding.Column20{}
			if c.Pages, err = r.pages(m, "/lance.encodings.ArrayEncoding"); err != nil {
				return nil, err
			}
			if c.Buffers, err = r.extents(m.GetBufferOffsets(), m.GetBufferSizes()); err != nil {
				return nil, err
			}
			if d := m.GetEncoding().GetDirect(); d != nil {
				if c.Encoding, err = anyValue(d.GetEncoding(), "/lance.encodings.ColumnEncoding"); err != nil {
					return nil, err
				}
			}
			r.raw20 = append(r.raw20, c)
		}
	}
	file := &encoding.File20{Columns: r.raw20, ByField: map[schema.FieldID]int{}}
	for i, f := range l.Path {
		if l.Columns[i] >= 0 {
			file.ByField[f.ID] = l.Columns[i]
		}
	}
	for id, column := range l.Packed {
		file.ByField[id] = column
	}
	c, err := encoding.NewReader20(l.Path, file)
	if err != nil {
		return nil, err
	}
	if c.PlainBlob() {
		return nil, fault.New(fault.Unsupported, "datafile: a column marked as blobs that an early writer stored as plain binary; rewrite the table with a current Lance")
	}
	if r.opts.Rows != 0 && c.Rows() != r.opts.Rows {
		return nil, fault.Corruptf(-1, "datafile: %d rows, the manifest says %d", c.Rows(), r.opts.Rows)
	}
	return c, nil
}

func (r *Reader) metadata(i int) (*lancepb.ColumnMetadata, error) {
	raw, err := r.columnBytes(i)
	if err != nil {
		return nil, err
	}
	var m lancepb.ColumnMetadata
	if err := proto.Unmarshal(raw, &m); err != nil {
		return nil, fault.Corruptf(int64(r.columns[i].Offset), "datafile: metadata of column %d: %v", i, err)
	}
	return &m, nil
}

// pages converts a column's page table, checking every buffer against the file.
func (r *Reader) pages(m *lancepb.ColumnMetadata, typeURL string) ([]encoding.Page, error) {
	pages := make([]encoding.Page, len(m.GetPages()))
	for i, p := range m.GetPages() {
		d := p.GetEncoding().GetDirect()
		if d == nil {
			return nil, fault.New(fault.Unsupported, "datafile: page %d has no description of its own", i)
		}
		desc, err := anyValue(d.GetEncoding(), typeURL)
		if err != nil {
			return nil, err
		}
		bufs, err := r.extents(p.GetBufferOffsets(), p.GetBufferSizes())
		if err != nil {
			return nil, err
		}
		pages[i] = encoding.Page{Rows: p.GetLength(), Buffers: bufs, Layout: desc}
	}
	return pages, nil
}

func anyValue(raw []byte, typeURL string) ([]byte, error) {
	var a lancepb.AnyValue
	if err := proto.Unmarshal(raw, &a); err != nil {
		return nil, fault.Corruptf(-1, "datafile: description: %v", err)
	}
	if a.GetTypeUrl() != typeURL {
		return nil, fault.New(fault.Unsupported, "datafile: description of type %q, expected %q", a.GetTypeUrl(), typeURL)
	}
	return a.GetValue(), nil
}

func (r *Reader) extents(offsets, sizes []uint64) ([]encoding.Extent, error) {
	if len(offsets) != len(sizes) {
		return nil, fault.Corruptf(-1, "datafile: %d buffer offsets, %d sizes", len(offsets), len(sizes))
	}
	out := make([]encoding.Extent, len(offsets))
	for i := range out {
		e := encoding.Extent{Offset: offsets[i], Size: sizes[i]}
		if e.Offset > r.size || e.Size > r.size-e.Offset {
			return nil, fault.Corruptf(int64(min(e.Offset, 1<<62)), "datafile: buffer [%d, +%d) of a file of %d bytes", e.Offset, e.Size, r.size)
		}
		out[i] = e
	}
	return out, nil
}
