// Package materialize turns descriptors into LargeBinary values, never using
// more memory than agreed.
//
// Descriptor batches go in, batches in the Materialized or Logical view come
// out, cut by bytes. For each source batch it
//
//  1. collects the descriptors of all blob leaves, at any depth (collect),
//  2. cuts row ranges by the bytes they will weigh (cut),
//
// and for each cut it
//
//  3. plans the reads, sorted and joined by object (plan),
//  4. waits until the shared budget admits them (budget),
//  5. fetches them, a few at a time, or borrows mapped bytes (fetch, borrow),
//  6. rebuilds lists and structs around the new leaves (rebuild).
//
// Nulls and empty values read nothing, hidden elements below null lists and
// structs neither. A value that cannot be read fails the stream when its row is
// reached, with field and row (RES-15); rows of earlier cuts come out first.
package materialize

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/flightblob/flightblob/blob"
	"github.com/flightblob/flightblob/schema"
)

// Source yields descriptor batches. Blob leaves are the fields whose type is
// schema.DescriptorType and whose metadata holds lance-encoding:blob (DESC-3),
// at any depth below structs, lists and large lists.
type Source interface {
	array.RecordReader
	// Owners lists, for the current batch, the owner of each blob leaf in
	// depth-first order over the schema. An entry is nil when every value of
	// the leaf is null in this batch, since no file holds the column.
	Owners() []*blob.Owner
}

// NewReader starts materializing src; r may be nil for a Mixed one. The reader keeps a reference of src until
// it is released; the caller's stays the caller's. Batches that are retained
// beyond the next call of Next keep their share of the budget, so a caller must
// not hoard them. End ctx or release the reader to stop it; src must end its
// own waits by the context that it was made with.
func NewReader(ctx context.Context, src Source, r *blob.Resolver, o Options) (array.RecordReader, error) {
	mixed := newOrigins(src)
	t, err := newTree(src.Schema(), o.Schema, o.View, mixed != nil)
	if err != nil {
		return nil, err
	}
	o = o.withDefaults()
	b := newBuilder(t, r, o.View == schema.Logical, o)
	src.Retain()
	return newStream(ctx, t.schema, o.Prefetch, func(ctx context.Context, send emit) error {
		defer src.Release()
		return b.run(ctx, src, mixed, send)
	}), nil
}

// run materializes a source to its end.
func (b *builder) run(ctx context.Context, src Source, mixed *origins, send emit) error {
	c := cutter{
		values:   b.values,
		first:    b.opts.FirstRow,
		overhead: overhead(b.tree.schema),
		target:   b.opts.BatchBytes * 8,
		limit:    b.opts.MaxValue * 8,
	}
	for src.Next() {
		if err := ctx.Err(); err != nil {
			return err
		}
		rec := src.RecordBatch()
		if rec.NumRows() == 0 {
			continue
		}
		views, err := b.tree.collect(rec, b.values.blobs, src, mixed)
		if err != nil {
			return err
		}
		c.start(views, b.tree, rec)
		for {
			k, done, err := c.next(ctx)
			if err != nil {
				return err
			}
			if done {
				break
			}
			out, err := b.batch(ctx, rec, views, k)
			if err != nil {
				return err
			}
			if err := send(out); err != nil {
				return err
			}
		}
		c.first += rec.NumRows()
	}
	return src.Err()
}
