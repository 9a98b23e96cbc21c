package materialize

import (
	"context"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
)

// fetch runs a plan: each direct read straight into its place, the others
// through scratch buffers of the pool. dst holds one buffer for each leaf with
// pieces. Reads under way are finished before an error is returned, so nothing
// writes into dst afterwards.
func (p *plan) fetch(ctx context.Context, dst [][]byte, pool *pool, parallel int) error {
	return each(parallel, len(p.reads), func(i int) error {
		r := &p.reads[i]
		if err := ctx.Err(); err != nil {
			return err
		}
		if r.direct {
			err := p.objects.at(r.object).ReadAt(ctx, dst[r.leaf][r.dst:r.dst+r.n], r.off)
			return p.blame(ctx, r, err)
		}
		if r.scatter {
			return p.blame(ctx, r, p.scatter(ctx, r, dst))
		}
		buf := pool.get(r.n)
		defer pool.put(buf)
		if err := p.objects.at(r.object).ReadAt(ctx, buf, r.off); err != nil {
			return p.blame(ctx, r, err)
		}
		for _, c := range r.pieces {
			from := c.off - r.off
			copy(dst[c.leaf][c.dst:c.dst+c.n], buf[from:from+c.n])
		}
		return nil
	})
}

// scatter reads the pieces of a request into their places, and the holes
// between them nowhere.
func (p *plan) scatter(ctx context.Context, r *read, dst [][]byte) error {
	parts := make([][]byte, 0, 2*len(r.pieces))
	var hole []byte
	at := r.off
	for _, c := range r.pieces {
		if gap := c.off - at; gap > 0 {
			if int64(len(hole)) < gap {
				hole = make([]byte, gap)
			}
			parts = append(parts, hole[:gap])
		}
		parts = append(parts, dst[c.leaf][c.dst:c.dst+c.n])
		at = c.off + c.n
	}
	return p.objects.at(r.object).ReadScatter(ctx, parts, r.off)
}

// blame finds the value for which a read failed: when the object ends early,
// the first whose end lies beyond it, else the first of the request.
func (p *plan) blame(ctx context.Context, r *read, err error) error {
	if err == nil || ctx.Err() != nil {
		return err
	}
	object := p.objects.at(r.object)
	guilty := r.pieces[0]
	if fault.KindOf(err) == fault.Corrupt {
		if size, serr := object.Size(ctx); serr == nil {
			for _, c := range r.pieces {
				if c.off+c.n > size {
					guilty = c
					break
				}
			}
		}
	}
	return &ValueError{
		Field: p.fields[guilty.leaf],
		Row:   guilty.row,
		Err:   readError(ctx, object, guilty.owned, uint64(guilty.off), uint64(guilty.n), err),
	}
}

// verify asks for the length of objects with large values, before memory is
// taken for what a descriptor claims.
func (p *plan) verify(ctx context.Context, parallel int) error {
	var large []piece
	for i := range p.reads {
		for _, c := range p.reads[i].pieces {
			if c.n >= largeValue && (len(large) == 0 || large[len(large)-1] != c) {
				large = append(large, c)
			}
		}
	}
	return each(parallel, len(large), func(i int) error {
		c := large[i]
		object := p.objects.at(c.object)
		size, err := object.Size(ctx)
		switch {
		case err != nil:
			err = readError(ctx, object, c.owned, uint64(c.off), uint64(c.n), err)
		case c.off+c.n > size:
			err = truncated(object, uint64(c.off), uint64(c.n), size)
		default:
			return nil
		}
		return &ValueError{Field: p.fields[c.leaf], Row: c.row, Err: err}
	})
}

// workers is how many reads to run at once. A few short reads of local files
// are over before a goroutine has started.
func (p *plan) workers(parallel int) int {
	const worthwhile = 512 << 10
	for i := range p.reads {
		if _, local := objstore.AsMapper(p.objects.at(p.reads[i].object)); !local {
			return parallel
		}
	}
	return int(min(int64(parallel), 1+p.bytes()/worthwhile))
}
