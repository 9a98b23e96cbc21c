package main

import (
	"context"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/flightblob/flightblob/datafile"
	"github.com/flightblob/flightblob/encoding"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/schema"
)

// bytesStore serves one object from memory.
type bytesStore struct {
	objstore.Store
	data []byte
}

func (s *bytesStore) ReadAt(_ context.Context, _ string, p []byte, off int64) error {
	if off < 0 || off > int64(len(s.data)) || int64(len(p)) > int64(len(s.data))-off {
		return fmt.Errorf("read of %d bytes at %d, past the end", len(p), off)
	}
	copy(p, s.data[off:])
	return nil
}

func (s *bytesStore) URI(path string) string { return path }

func openBytes(ctx context.Context, data []byte, rows uint64) (*datafile.Reader, error) {
	loc := objstore.Location{Store: &bytesStore{data: data}, Path: "data.lance"}
	return datafile.Open(ctx, loc, int64(len(data)), datafile.Options{Rows: rows})
}

// column reads one top-level field by the summary's columns.
func column(ctx context.Context, r *datafile.Reader, s *schema.Schema, sum datafile.Summary, f *schema.Field, rows encoding.Range) (arrow.Array, error) {
	leaves := map[schema.FieldID]*encoding.Leaf{}
	for leaf := range f.Leaves() {
		path := leaf.Path()
		ref := datafile.Leaf{Path: path, Columns: make([]int, len(path))}
		for i, p := range path {
			ref.Columns[i] = -1
			for k, id := range sum.Fields {
				if id == p.ID {
					ref.Columns[i] = int(sum.Columns[k])
				}
			}
		}
		got, err := r.ReadLeaves(ctx, []datafile.Leaf{ref}, []encoding.Range{rows})
		if err != nil {
			return nil, err
		}
		leaves[leaf.ID] = got[0]
	}
	return encoding.Assemble(f, func(l *schema.Field) *encoding.Leaf { return leaves[l.ID] }, int(rows.Len()))
}
