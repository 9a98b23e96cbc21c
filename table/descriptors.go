package table

import (
	"context"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/flightblob/flightblob/blob"
	"github.com/flightblob/flightblob/schema"
)

// VisitDescriptors sees the values [from, to) of a blob leaf. owner is the data
// file that holds them, nil when no file does and all are null. What it is given
// is valid until it returns.
type VisitDescriptors func(f *schema.Field, c blob.Column, from, to int, owner *blob.Owner) error

// Descriptors scans a request and shows the descriptors of its blob leaves, those
// inside structs and lists too. It reads no payload. Columns without blobs should
// not be asked for: they would be read in vain.
func (s *Snapshot) Descriptors(ctx context.Context, req ScanRequest, visit VisitDescriptors) error {
	scan, err := s.Scan(ctx, req)
	if err != nil {
		return err
	}
	defer scan.Release()
	for scan.Next() {
		w := leafWalk{owners: scan.Owners(), visit: visit}
		for i, c := range scan.RecordBatch().Columns() {
			field := scan.plan.columns[i].Field
			if field == nil {
				continue
			}
			if err := w.values(field, c, 0, c.Len()); err != nil {
				return fmt.Errorf("table: column %q of %s: %w", field.FullName(), s.table.name, err)
			}
		}
	}
	return scan.Err()
}

// leafWalk comes to the blob leaves of a batch depth-first.
type leafWalk struct {
	owners []*blob.Owner // of the leaves
	leaf   int
	visit  VisitDescriptors
}

func (w *leafWalk) values(f *schema.Field, a arrow.Array, from, to int) error {
	if f.Blob != schema.NotBlob {
		owner := w.owners[w.leaf]
		w.leaf++
		c, err := blob.AsColumn(a)
		if err != nil {
			return err
		}
		return w.visit(f, c, from, to, owner)
	}
	switch a := a.(type) {
	case *array.Struct:
		for i, c := range f.Children {
			if err := w.values(c, a.Field(i), from, to); err != nil {
				return err
			}
		}
	case *array.List, *array.LargeList:
		list := a.(array.ListLike)
		start, end := int64(0), int64(0)
		if to > from {
			start, _ = list.ValueOffsets(from)
			_, end = list.ValueOffsets(to - 1)
		}
		return w.values(f.Children[0], list.ListValues(), int(start), int(end))
	}
	return nil
}
