package table

import (
	"context"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/flightblob/flightblob/blob"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/schema"
	"github.com/flightblob/flightblob/table/manifest"
)

// keptRows is how many rows of kept columns are put together at once.
const keptRows = 4096

// keeper writes the columns that an upsert leaves out into files beside those of
// its rows: values of replaced rows as they are stored, nulls in new rows.
type keeper struct {
	*Appender
	mutation *Mutation
	names    []string
}

// keep adds the files to the fragments of an upsert. Its caller aborts what it
// answers, which may be without any file.
func (u *Upsert) keep(ctx context.Context, m *Mutation, found *matches, fragments []manifest.Fragment) (*Appender, error) {
	none := &Appender{table: u.base.table, finished: true}
	if u.kept == nil {
		return none, nil
	}
	if err := u.mayLack(found); err != nil {
		return none, err
	}
	k := &keeper{mutation: m}
	for _, f := range u.kept.Fields {
		k.names = append(k.names, f.Name)
	}
	if err := k.begin(ctx, u); err != nil {
		return none, err
	}
	row, rest := uint64(0), found.rows
	for i := range fragments {
		end := row + fragments[i].PhysicalRows
		for row < end {
			to, n := min(row+keptRows, end), 0
			for n < len(rest) && rest[n].row < to {
				n++
			}
			if err := k.write(ctx, row, to, rest[:n]); err != nil {
				k.Abort()
				return none, err
			}
			row, rest = to, rest[n:]
		}
		if err := k.endFragment(ctx); err != nil {
			k.Abort()
			return none, err
		}
		fragments[i].Files = append(fragments[i].Files, k.done[i].fragment.Files...)
	}
	return k.Appender, nil
}

// mayLack refuses new rows without a value for a column that must not be null.
func (u *Upsert) mayLack(found *matches) error {
	if uint64(len(found.rows)) == u.rows {
		return nil
	}
	first := uint64(0)
	for _, r := range found.rows {
		if r.row != first {
			break
		}
		first++
	}
	for _, f := range u.kept.Fields {
		if !f.Nullable {
			return fault.New(fault.Invalid, "table: row %d of the input is new, and has no column %s, which must not be null", first, f.FullName())
		}
	}
	return nil
}

// begin opens the writer; its files end where those of the rows do.
func (k *keeper) begin(ctx context.Context, u *Upsert) error {
	base := k.mutation.base
	scan, err := base.Scan(ctx, ScanRequest{Columns: k.names, Rows: []uint64{}})
	if err != nil {
		return err
	}
	defer scan.Release()
	carrier := k.mutation.Carry()
	fields := make([]arrow.Field, len(u.kept.Fields))
	for i, f := range u.kept.Fields {
		if fields[i], err = carrier.field(f, scan.Schema().Field(i)); err != nil {
			return err
		}
	}
	o := WriteOptions{
		FileVersion: u.options.FileVersion, TargetBase: u.options.TargetBase, PackBytes: u.options.PackBytes,
		RowsPerFile: math.MaxInt64, BytesPerFile: math.MaxInt64, Origins: carrier.Origins, AllowOutsideBases: true,
	}
	k.Appender, err = base.writer(ctx, u.kept, arrow.NewSchema(fields, nil), o)
	return err
}

// write puts the rows [from, to) together, of which some come in the place of
// others.
func (k *keeper) write(ctx context.Context, from, to uint64, found []match) error {
	if len(found) == 0 {
		return k.nulls(ctx, int(to-from))
	}
	at := make([]uint64, len(found))
	for i, r := range found {
		at[i] = r.address
	}
	positions, err := k.mutation.Positions(ctx, at)
	if err != nil {
		return err
	}
	scan, err := k.mutation.base.Scan(ctx, ScanRequest{Columns: k.names, Rows: positions})
	if err != nil {
		return err
	}
	defer scan.Release()
	for scan.Next() {
		n := scan.RecordBatch().NumRows()
		end := found[n-1].row + 1
		if int(n) == len(found) {
			end = to
		}
		if err := k.spread(ctx, scan, from, end, found[:n]); err != nil {
			return err
		}
		from, found = end, found[n:]
	}
	return scan.Err()
}

// spread writes the rows [from, to): those of a scan's batch and nulls between.
func (k *keeper) spread(ctx context.Context, scan *Scan, from, to uint64, found []match) error {
	carried, err := k.mutation.Carry().Batch(scan)
	if err != nil {
		return err
	}
	defer carried.Release()
	if uint64(len(found)) == to-from {
		return k.Write(ctx, carried)
	}
	null := int(carried.NumRows())
	rows := make([]int, to-from)
	for i := range rows {
		rows[i] = null
	}
	for i, r := range found {
		rows[r.row-from] = i
	}
	columns := make([]arrow.Array, 0, carried.NumCols())
	defer func() {
		for _, c := range columns {
			c.Release()
		}
	}()
	for _, c := range carried.Columns() {
		a, err := withNulls(c, rows)
		if err != nil {
			return err
		}
		columns = append(columns, a)
	}
	batch := array.NewRecordBatch(carried.Schema(), columns, int64(len(rows)))
	defer batch.Release()
	return k.Write(ctx, batch)
}

// withNulls gathers rows of an array; the one behind its end is null.
func withNulls(a arrow.Array, rows []int) (arrow.Array, error) {
	null := array.MakeArrayOfNull(memory.DefaultAllocator, a.DataType(), 1)
	defer null.Release()
	all, err := array.Concatenate([]arrow.Array{a, null}, memory.DefaultAllocator)
	if err != nil {
		return nil, fault.New(fault.Internal, "table: nulls beside a column of type %s: %w", a.DataType(), err)
	}
	defer all.Release()
	return gather(all, rows)
}

// nulls writes rows that have no values.
func (k *keeper) nulls(ctx context.Context, rows int) error {
	input := k.mapping.Input()
	columns := make([]arrow.Array, input.NumFields())
	for i, f := range input.Fields() {
		columns[i] = array.MakeArrayOfNull(memory.DefaultAllocator, f.Type, rows)
	}
	batch := array.NewRecordBatch(input, columns, int64(rows))
	for _, c := range columns {
		c.Release()
	}
	defer batch.Release()
	return k.Write(ctx, batch)
}

// field is what a column is in this carrier's batches.
func (c *Carrier) field(f *schema.Field, scanned arrow.Field) (arrow.Field, error) {
	if !holdsBlobs(f) {
		return scanned, nil
	}
	empty := array.MakeArrayOfNull(memory.DefaultAllocator, scanned.Type, 0)
	defer empty.Release()
	var owners []*blob.Owner
	for range f.Blobs() {
		owners = append(owners, nil)
	}
	data, err := c.data(f, empty.Data(), &owners)
	if err != nil {
		return scanned, err
	}
	defer data.Release()
	return arrow.Field{Name: scanned.Name, Type: data.DataType(), Nullable: true}, nil
}
