package table

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"golang.org/x/sync/errgroup"

	"github.com/flightblob/flightblob/datafile"
	"github.com/flightblob/flightblob/encoding"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/schema"
	"github.com/flightblob/flightblob/table/manifest"
	"github.com/flightblob/flightblob/table/rowset"
)

// addedColumns are the sources of the columns that a scan adds, for one
// fragment: sequences of the manifest, or hidden columns of its data files
// (flag bit 11).
type addedColumns struct {
	sequences map[string]sequence
	hidden    map[string]*hiddenColumn
}

// sequence gives one number for each physical row.
type sequence interface {
	AppendRange(dst []uint64, start, end uint64) []uint64
}

// addresses are the row addresses of a fragment.
type addresses uint64 // fragment id << 32

// AppendRange adds the addresses of physical rows [start, end).
func (a addresses) AppendRange(dst []uint64, start, end uint64) []uint64 {
	for row := start; row < end; row++ {
		dst = append(dst, uint64(a)|row)
	}
	return dst
}

// hiddenColumn is a non-null uint64 column that belongs to no field.
type hiddenColumn struct {
	file *datafile.Reader
	name string
	leaf datafile.Leaf
}

// openAdded finds the sources of the wanted columns; files are opened in the
// group.
func (f *fragment) openAdded(ctx context.Context, group *errgroup.Group) error {
	f.added = addedColumns{sequences: map[string]sequence{}, hidden: map[string]*hiddenColumn{}}
	m, rows := f.meta, f.meta.PhysicalRows
	stable := f.reader.snapshot.Manifest().StableRowIDs()
	for name := range f.reader.plan.added {
		var err error
		switch {
		case name == RowAddr, name == RowID && !stable:
			f.added.sequences[name] = addresses(m.ID << 32)
		case name == RowID && m.RowIDsInColumn:
			err = f.openHidden(ctx, group, name, manifest.RowIDColumn)
		case name == RowID:
			f.added.sequences[name], err = rowset.DecodeRowIDs(m.RowIDs, rows)
		case name == CreatedAt && m.CreatedInColumn:
			err = f.openHidden(ctx, group, name, manifest.CreatedAtColumn)
		case name == CreatedAt:
			f.added.sequences[name], err = versions(m.CreatedAt, rows)
		case name == UpdatedAt && m.UpdatedInColumn:
			err = f.openHidden(ctx, group, name, manifest.UpdatedAtColumn)
		case name == UpdatedAt:
			f.added.sequences[name], err = versions(m.UpdatedAt, rows)
		}
		if err != nil {
			return fmt.Errorf("column %q: %w", name, err)
		}
	}
	return nil
}

func versions(data []byte, rows uint64) (sequence, error) {
	if len(data) == 0 {
		return rowset.DefaultVersions(rows), nil
	}
	return rowset.DecodeVersions(data, rows)
}

func (f *fragment) openHidden(ctx context.Context, group *errgroup.Group, name string, id schema.FieldID) error {
	d, column := f.meta.File(id)
	if d == nil {
		return fault.New(fault.Corrupt, "column %q is said to be in a data file, but none lists field %d", name, id)
	}
	h := &hiddenColumn{leaf: datafile.Leaf{
		Path:    []*schema.Field{{ID: id, Name: name, Logical: "uint64", Shape: schema.Leaf, Storage: arrow.PrimitiveTypes.Uint64}},
		Columns: []int{column},
	}}
	f.added.hidden[name] = h
	group.Go(func() (err error) {
		defer fault.Recover("table", &err)
		h.file, h.name, err = f.reader.snapshot.openFile(ctx, f.meta, d)
		return err
	})
	return nil
}

// readAdded answers the added columns of physical row ranges.
func (f *fragment) readAdded(ctx context.Context, ranges []encoding.Range, rows int) (map[string]arrow.Array, error) {
	out := map[string]arrow.Array{}
	for name, s := range f.added.sequences {
		values := make([]uint64, 0, rows)
		for _, r := range ranges {
			values = s.AppendRange(values, r.Start, r.End)
		}
		out[name] = uint64s(values)
	}
	for name, h := range f.added.hidden {
		leaves, err := h.file.ReadLeaves(ctx, []datafile.Leaf{h.leaf}, ranges)
		if err != nil {
			return nil, renamed(err, h.name)
		}
		a, ok := leaves[0].Values.(*array.Uint64)
		if !ok || a.Len() != rows || a.NullN() > 0 {
			return nil, fault.In(h.name, fault.Corruptf(-1, "hidden column %q holds %s with %d nulls, expected %d numbers",
				name, leaves[0].Values.DataType(), leaves[0].Values.NullN(), rows))
		}
		out[name] = a
	}
	for name := range f.reader.plan.added {
		if out[name] == nil || out[name].Len() != rows {
			return nil, fault.New(fault.Internal, "column %q has no source", name)
		}
	}
	return out, nil
}

// uint64s makes an array without nulls.
func uint64s(values []uint64) arrow.Array {
	bytes := make([]byte, 0, 8*len(values))
	for _, v := range values {
		bytes = binary.LittleEndian.AppendUint64(bytes, v)
	}
	data := array.NewData(arrow.PrimitiveTypes.Uint64, len(values),
		[]*memory.Buffer{nil, memory.NewBufferBytes(bytes)}, nil, 0, 0)
	defer data.Release()
	return array.NewUint64Data(data)
}
