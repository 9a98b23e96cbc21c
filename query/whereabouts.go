package query

import (
	"context"
	"fmt"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/flightblob/flightblob/blob"
	"github.com/flightblob/flightblob/query/reference"
	"github.com/flightblob/flightblob/schema"
	"github.com/flightblob/flightblob/table"
)

// A function that fails over a blob value knows the value, not the row that it
// came from: the engine has moved it. For the error the row is looked for in the
// descriptors of the table, within limits; they hold every value with its file.

// Limits of looking for a row.
const (
	whereRows = 16 << 20
	whereTime = 2 * time.Second
)

// where says in which table, column and row a value is, "" when it is not found.
func (r *run) where(s *table.Snapshot, v reference.Value) string {
	ctx, cancel := context.WithTimeout(r.ctx, whereTime)
	defer cancel()
	columns := []string{}
	for _, f := range s.Schema().Fields {
		for range f.Blobs() {
			columns = append(columns, f.Name)
			break
		}
	}
	limit := uint64(whereRows)
	scan, err := s.Scan(ctx, table.ScanRequest{Columns: columns, Limit: &limit})
	if err != nil {
		return ""
	}
	defer scan.Release()
	for scan.Next() {
		rec := scan.RecordBatch()
		w := wanted{run: r, value: v, snapshot: s, owners: scan.Owners()}
		rows := make([]int, rec.NumRows())
		for i := range rows {
			rows[i] = i
		}
		for i, f := range rec.Schema().Fields() {
			if row, path := w.in(f, rec.Column(i), f.Name, rows); row >= 0 {
				return fmt.Sprintf("table %s, column %q, row %d", s.Table().Name(), path, scan.RowPosition(row))
			}
		}
	}
	return ""
}

// wanted is a value that is looked for in one batch.
type wanted struct {
	run      *run
	value    reference.Value
	snapshot *table.Snapshot
	owners   []*blob.Owner
	leaf     int // of the next blob leaf
}

// in looks for the value in a column; rows are those of the batch that the
// array's values belong to. It gives the row, -1 for none, and the dotted path.
func (w *wanted) in(f arrow.Field, a arrow.Array, path string, rows []int) (int, string) {
	if isBlob(f) {
		leaf := w.leaf
		w.leaf++
		if leaf < len(w.owners) {
			if i := w.at(a, w.owners[leaf]); i >= 0 && i < len(rows) {
				return rows[i], path
			}
		}
		return -1, ""
	}
	switch a := a.(type) {
	case *array.Struct:
		for i, child := range f.Type.(*arrow.StructType).Fields() {
			if row, found := w.in(child, a.Field(i), path+"."+child.Name, rows); row >= 0 {
				return row, found
			}
		}
	case *array.Map:
	case array.ListLike:
		element := f.Type.(arrow.ListLikeType).ElemField()
		if !holdsBlob(element) {
			break
		}
		items := make([]int, a.ListValues().Len())
		for i := range items {
			items[i] = -1
		}
		for i := range a.Len() {
			if a.IsNull(i) {
				continue
			}
			from, to := a.ValueOffsets(i)
			for k := from; k < to; k++ {
				items[k] = rows[i]
			}
		}
		return w.in(element, a.ListValues(), path, items)
	}
	return -1, ""
}

func holdsBlob(f arrow.Field) bool {
	found := false
	mapField(f, func(f arrow.Field) (arrow.Field, bool) {
		found = found || isBlob(f)
		return f, found
	})
	return found
}

// at looks for the value in descriptors of an owner.
func (w *wanted) at(a arrow.Array, owner *blob.Owner) int {
	number := numberer{run: w.run, snapshot: w.snapshot, resolver: w.snapshot.Resolver(), owner: owner}
	if source, err := number.of(w.value.Kind); err != nil || source != w.value.Source {
		return -1
	}
	s, ok := a.(*array.Struct)
	if !ok || s.NumField() != schema.DescriptorType.NumFields() {
		return -1
	}
	kind, ok1 := s.Field(0).(*array.Uint8)
	position, ok2 := s.Field(1).(*array.Uint64)
	size, ok3 := s.Field(2).(*array.Uint64)
	id, ok4 := s.Field(3).(*array.Uint32)
	uri, ok5 := s.Field(4).(*array.String)
	if !ok1 || !ok2 || !ok3 || !ok4 || !ok5 {
		return -1
	}
	for i := range s.Len() {
		if s.IsValid(i) && blob.Kind(kind.Value(i)) == w.value.Kind && position.Value(i) == w.value.Position &&
			size.Value(i) == w.value.Size && id.Value(i) == w.value.ID && uri.Value(i) == w.value.URI {
			return i
		}
	}
	return -1
}
