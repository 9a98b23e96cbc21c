package table

import (
	"context"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/table/manifest"
	"github.com/flightblob/flightblob/table/rowset"
)

// matches are the rows of an upsert that come in the place of others, ascending.
type matches struct {
	rows []match
}

// match is one of them.
type match struct {
	row     uint64 // of the upsert
	address uint64 // of the row that it replaces
	id      uint64
}

// match looks the rows up by their keys: one scan of the key columns.
func (u *Upsert) match(ctx context.Context, on *Snapshot) (*matches, error) {
	scan, err := on.Scan(ctx, ScanRequest{Columns: append(slices.Clone(u.on), RowAddr, RowID)})
	if err != nil {
		return nil, err
	}
	defer scan.Release()
	m := &matches{}
	taken := map[uint64]bool{}
	for scan.Next() {
		batch := scan.RecordBatch()
		columns := batch.Columns()[:len(u.on)]
		if err := u.comparable(columns); err != nil {
			return nil, err
		}
		addresses, ids := batch.Column(len(u.on)).(*array.Uint64), batch.Column(len(u.on)+1).(*array.Uint64)
		for i := range int(batch.NumRows()) {
			key, ok := u.hasher.of(columns, i)
			if !ok {
				continue
			}
			row, ok := u.places[key]
			if !ok {
				continue
			}
			if taken[row] {
				return nil, fault.New(fault.Precondition, "table: %s is %s in several rows of %s, and one row comes in its place; "+
					"make the keys of the table unique, or say with MERGE INTO in SQL what becomes of each", keyNames(u.on), keyText(columns, i), on.table.name)
			}
			taken[row] = true
			m.rows = append(m.rows, match{row: row, address: addresses.Value(i), id: ids.Value(i)})
		}
	}
	if err := scan.Err(); err != nil {
		return nil, err
	}
	slices.SortFunc(m.rows, func(a, b match) int {
		if a.row < b.row {
			return -1
		}
		return 1
	})
	return m, nil
}

// comparable makes sure that keys of the table and of the batches are values of
// the same types.
func (u *Upsert) comparable(columns []arrow.Array) error {
	for i, at := range u.keys {
		want := u.staged.mapping.Schema().Field(at).Type
		if have := columns[i].DataType(); !arrow.TypeEqual(have, want) {
			return fault.New(fault.Internal, "table: key column %s is read as %s and written as %s", u.on[i], have, want)
		}
	}
	return nil
}

// addresses are those of the rows that are replaced.
func (m *matches) addresses() []uint64 {
	out := make([]uint64, len(m.rows))
	for i, r := range m.rows {
		out[i] = r.address
	}
	return out
}

// name gives the rows of fragments their stable ids: those of the rows that they
// replace, the next free ones to the others.
func (m *matches) name(fragments []manifest.Fragment, next uint64) {
	row, found := uint64(0), m.rows
	for i := range fragments {
		ids := make([]uint64, fragments[i].PhysicalRows)
		for k := range ids {
			if len(found) > 0 && found[0].row == row {
				ids[k], found = found[0].id, found[1:]
			} else {
				ids[k] = next
				next++
			}
			row++
		}
		fragments[i].RowIDs = rowset.IDsOf(ids).Encode()
	}
}
