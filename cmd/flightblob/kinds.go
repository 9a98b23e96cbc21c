package main

import (
	"context"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/flightblob/flightblob/blob"
	"github.com/flightblob/flightblob/schema"
	"github.com/flightblob/flightblob/table"
)

// kindCount is how many values of one kind a blob column holds.
type kindCount struct {
	Kind   string `json:"kind"`
	Values uint64 `json:"values"`
	Bytes  uint64 `json:"bytes"`
	// Whole counts External values that stand for a whole object, whose length
	// is not recorded and not in Bytes.
	Whole uint64 `json:"whole_objects,omitempty"`
}

// kindNames are the kinds as SQL's blob_kind names them; null is no kind of the
// format.
var kindNames = [...]string{"inline", "packed", "dedicated", "external", "managed", "managed (explicit base)"}

// kindNull and kindOther follow the kinds of the format.
const (
	kindNull  = len(kindNames)
	kindOther = kindNull + 1
	kinds     = kindOther + 1
)

// countKinds scans the descriptors of all blob columns of a snapshot.
func countKinds(ctx context.Context, snap *table.Snapshot) (map[string][]kindCount, error) {
	result := map[string][]kindCount{}
	for field := range snap.Schema().Blobs() {
		counts, err := countColumn(ctx, snap, field)
		if err != nil {
			return nil, fmt.Errorf("column %q: %w", field.FullName(), err)
		}
		var list []kindCount
		for i, c := range counts {
			switch {
			case i < kindNull:
				c.Kind = kindNames[i]
			case i == kindNull:
				c.Kind = "null"
			default:
				c.Kind = "unknown"
			}
			if c.Values > 0 {
				list = append(list, c)
			}
		}
		result[field.FullName()] = list
	}
	return result, nil
}

// countColumn scans the top-level column that a blob field lies in and counts
// at the field.
func countColumn(ctx context.Context, snap *table.Snapshot, field *schema.Field) (counts [kinds]kindCount, err error) {
	path := field.Path()
	scan, err := snap.Scan(ctx, table.ScanRequest{Columns: []string{path[0].Name}})
	if err != nil {
		return counts, err
	}
	defer scan.Release()
	k := kindCounter{path: path, counts: &counts}
	for scan.Next() {
		col := scan.RecordBatch().Column(0)
		for row := range col.Len() {
			if err := k.visit(col, row, 0); err != nil {
				return counts, err
			}
		}
	}
	return counts, scan.Err()
}

// kindCounter walks from a top-level value down to one blob field.
type kindCounter struct {
	path   []*schema.Field
	counts *[kinds]kindCount

	arr    arrow.Array // the array that column views
	column blob.Column
}

// visit counts what slot i of arr, the array of path[depth], holds. What a null
// container hides is no value.
func (k *kindCounter) visit(arr arrow.Array, i, depth int) error {
	if depth == len(k.path)-1 {
		return k.count(arr, i)
	}
	if arr.IsNull(i) {
		return nil
	}
	switch a := arr.(type) {
	case *array.Struct:
		next := k.path[depth+1]
		for c, f := range k.path[depth].Children {
			if f == next {
				return k.visit(a.Field(c), i, depth+1)
			}
		}
	case array.ListLike:
		start, end := a.ValueOffsets(i)
		for j := start; j < end; j++ {
			if err := k.visit(a.ListValues(), int(j), depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	return fmt.Errorf("%s has no values for field %q", arr.DataType(), k.path[depth+1].Name)
}

func (k *kindCounter) count(arr arrow.Array, i int) error {
	if arr != k.arr {
		column, err := blob.AsColumn(arr)
		if err != nil {
			return err
		}
		k.arr, k.column = arr, column
	}
	d, null, err := k.column.At(i)
	if err != nil {
		return err
	}
	at := int(d.Kind)
	switch {
	case null:
		at = kindNull
	case at >= len(kindNames):
		at = kindOther
	}
	c := &k.counts[at]
	c.Values++
	c.Bytes += d.Size
	if at == int(blob.External) && d.Size == 0 {
		c.Whole++
	}
	return nil
}
