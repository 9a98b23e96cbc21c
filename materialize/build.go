package materialize

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/flightblob/flightblob/blob"
)

// builder turns the cuts of a stream into output batches.
type builder struct {
	opts   Options
	tree   *tree
	values *resolver
	pieces []piece // reused from batch to batch
}

func newBuilder(t *tree, blobs *blob.Resolver, logical bool, o Options) *builder {
	return &builder{
		opts: o,
		tree: t,
		values: &resolver{
			blobs:   blobs,
			logical: logical,
			lengths: lengths{parallel: o.Parallel},
		},
	}
}

// batch materializes one cut of a source batch.
func (b *builder) batch(ctx context.Context, rec arrow.RecordBatch, views []*leafView, k cut) (arrow.RecordBatch, error) {
	leaves, err := b.leaves(ctx, views, k.values)
	if err != nil {
		return nil, err
	}
	defer func() {
		for _, l := range leaves {
			l.Release()
		}
	}()
	columns := make([]arrow.Array, 0, len(b.tree.columns))
	defer func() {
		for _, c := range columns {
			c.Release()
		}
	}()
	for i, n := range b.tree.columns {
		data, err := rebuild(b.opts.Mem, n, rec.Column(i), k.from, k.to, leaves)
		if err != nil {
			return nil, err
		}
		columns = append(columns, array.MakeFromData(data))
		data.Release()
	}
	return array.NewRecordBatch(b.tree.schema, columns, int64(k.to-k.from)), nil
}

// leaves fetches the values of all leaves and builds their arrays.
func (b *builder) leaves(ctx context.Context, views []*leafView, values [][]value) ([]arrow.ArrayData, error) {
	data, err := b.fetch(ctx, views, values)
	if err != nil {
		return nil, err
	}
	out := make([]arrow.ArrayData, len(views))
	for i, l := range views {
		out[i] = b.leafData(l, values[i], data[i])
	}
	return out, nil
}

// fetch gives, for each leaf, its values' bytes end to end. All memory of the
// batch is admitted in one acquisition, and goes back when the last of the
// buffers is released. The caller releases the buffers.
func (b *builder) fetch(ctx context.Context, views []*leafView, values [][]value) ([]*memory.Buffer, error) {
	out, done := make([]*memory.Buffer, len(views)), false
	defer func() {
		for _, buf := range out {
			if buf != nil && !done {
				buf.Release()
			}
		}
	}()
	pieces := b.pieces[:0]
	var cost int64
	var err error
	objects, fields := newObjects(), make([]string, len(views))
	totals := make([]int64, len(views))
	for i, l := range views {
		fields[i] = l.path
		from := len(pieces)
		if pieces, totals[i], err = appendPieces(ctx, pieces, objects, i, l.path, values[i]); err != nil {
			return nil, err
		}
		if b.opts.Map && totals[i] >= smallBorrow {
			if out[i], err = borrow(ctx, l.path, values[i], totals[i]); err != nil {
				return nil, err
			}
			if out[i] != nil {
				pieces, totals[i] = pieces[:from], 0
			}
		}
		cost += sizeClass(totals[i]) + 8*int64(len(values[i]))
	}
	b.pieces = pieces
	p := newPlan(objects, fields, pieces, policyOf)
	parallel := p.workers(b.opts.Parallel)
	if err = p.verify(ctx, parallel); err != nil {
		return nil, err
	}
	scratch := p.scratch(parallel)
	lease, err := b.opts.Budget.acquire(ctx, cost+scratch)
	if err != nil {
		return nil, err
	}
	defer lease.release()
	dst := make([][]byte, len(views))
	for i := range views {
		switch {
		case out[i] != nil:
		case totals[i] == 0:
			out[i] = memory.NewBufferBytes([]byte{})
		default:
			dst[i] = b.opts.Budget.pool.get(totals[i])
			out[i] = pooled(dst[i], lease)
		}
	}
	if err = p.fetch(ctx, dst, &b.opts.Budget.pool, parallel); err != nil {
		return nil, err
	}
	lease.shrink(scratch)
	done = true
	return out, nil
}

// appendPieces lists the non-empty values of a leaf; total is the length of
// its data.
func appendPieces(ctx context.Context, pieces []piece, objects *objects, leaf int, path string, values []value) ([]piece, int64, error) {
	var total int64
	for i := range values {
		v := &values[i]
		n := v.payload()
		if n == 0 { // schedules nothing and takes nothing
			continue
		}
		if beyond(v.ext.Offset, n) != nil {
			size, err := v.ext.Object.Size(ctx)
			if err != nil {
				err = readError(ctx, v.ext.Object, v.ext.Owned, v.ext.Offset, n, err)
			} else {
				err = truncated(v.ext.Object, v.ext.Offset, n, size)
			}
			return nil, 0, &ValueError{Field: path, Row: v.row, Err: err}
		}
		pieces = append(pieces, piece{
			object: objects.intern(v.ext.Object),
			off:    int64(v.ext.Offset), n: int64(n),
			leaf: leaf, dst: total,
			row: v.row, owned: v.ext.Owned,
		})
		total += int64(n)
	}
	return pieces, total, nil
}
