package table

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"golang.org/x/sync/errgroup"

	"github.com/flightblob/flightblob/encoding"
	"github.com/flightblob/flightblob/internal/fault"
)

// picks is the work of a request for single rows. It takes the positions in
// windows: of each window every fragment is read once, its rows in ascending
// order and without duplicates, and then the order asked for is restored.
type picks struct {
	reader    *reader
	rows      []uint64
	at        int
	fragments map[int]*fragment // of the previous window
}

func newPicks(r *reader, rows []uint64) (*picks, error) {
	have := r.snapshot.Rows()
	for _, row := range rows {
		if row >= have {
			return nil, fault.New(fault.Invalid, "table: row position %d does not exist; version %d of %s has %d rows, counted from 0",
				row, r.snapshot.Version(), r.snapshot.table.name, have)
		}
	}
	return &picks{reader: r, rows: rows}, nil
}

// fragmentPicks are the rows of one fragment in a window.
type fragmentPicks struct {
	fragment *fragment
	live     []uint64 // live positions in the fragment, ascending, unique
	columns  []arrow.Array
}

// next takes the next window: the fragments that it needs are opened, and it
// ends where their pages promise more than memory should hold.
func (p *picks) next(ctx context.Context, rows int) (job, error) {
	if p.at >= len(p.rows) {
		return job{}, nil
	}
	window := p.rows[p.at:min(len(p.rows), p.at+rows)]
	if err := p.open(ctx, window); err != nil {
		return job{}, err
	}
	window = window[:p.advisable(window)]
	p.at += len(window)

	byFragment := map[int]*fragmentPicks{}
	for _, row := range window {
		index, at := p.reader.snapshot.position(row)
		fp := byFragment[index]
		if fp == nil {
			fp = &fragmentPicks{fragment: p.fragments[index]}
			byFragment[index] = fp
		}
		fp.live = append(fp.live, at)
	}
	for _, fp := range byFragment {
		slices.Sort(fp.live)
		fp.live = slices.Compact(fp.live)
	}
	return job{read: func(ctx context.Context) (result, error) {
		return p.read(ctx, window, byFragment)
	}}, nil
}

// open opens the fragments of a window; those of the window before stay open.
func (p *picks) open(ctx context.Context, window []uint64) error {
	fragments := map[int]*fragment{}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(fileReaders)
	for _, row := range window {
		index, _ := p.reader.snapshot.position(row)
		if fragments[index] != nil {
			continue
		}
		f := p.fragments[index]
		if f == nil {
			f = p.reader.fragment(index)
		}
		fragments[index] = f
		group.Go(func() error { return f.open(ctx) })
	}
	p.fragments = fragments
	return group.Wait()
}

// advisable is how many rows of a window should be read at once.
func (p *picks) advisable(window []uint64) int {
	sum, limit := uint64(0), uint64(readAhead*p.reader.maxBytes)
	seen := make(map[uint64]bool, len(window))
	for i, row := range window {
		if seen[row] {
			continue
		}
		seen[row] = true
		index, at := p.reader.snapshot.position(row)
		f := p.fragments[index]
		physical, _ := f.live.Select(at)
		if sum += f.stored(encoding.Range{Start: physical, End: physical + 1}); sum > limit && i > 0 {
			return i
		}
	}
	return len(window)
}

// read fetches a window and lists its batches, which are put together when
// they are wanted: a row asked for many times is held once.
func (p *picks) read(ctx context.Context, window []uint64, byFragment map[int]*fragmentPicks) (result, error) {
	var res result
	var rows, bytes atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(fileReaders)
	for _, fp := range byFragment {
		group.Go(func() (err error) {
			defer fault.Recover("table", &err)
			ranges, err := pickRanges(fp.fragment.live, fp.live)
			if err != nil {
				return err
			}
			if fp.columns, err = fp.fragment.read(ctx, ranges, len(fp.live)); err != nil {
				return err
			}
			rows.Add(int64(len(fp.live)))
			bytes.Add(columnBytes(fp.columns, 0, len(fp.live)))
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return res, err
	}
	res.rows, res.bytes = int(rows.Load()), bytes.Load()
	for from := 0; from < len(window); {
		fp, picked, to := p.run(window, from, byFragment)
		res.pieces = append(res.pieces, &piece{
			fragment: fp.fragment, positions: positions{listed: window[from:to]},
			build: func() (arrow.RecordBatch, error) { return p.build(fp, picked) },
		})
		from = to
	}
	return res, nil
}

// run finds the batch that starts at window[from]: positions of one fragment,
// as far as the batch limits allow. picked are their places in the columns.
func (p *picks) run(window []uint64, from int, byFragment map[int]*fragmentPicks) (fp *fragmentPicks, picked []int, to int) {
	bytes := int64(0)
	for to = from; to < len(window) && len(picked) < p.reader.maxRows; to++ {
		index, at := p.reader.snapshot.position(window[to])
		of := byFragment[index]
		if fp == nil {
			fp = of
		}
		if of != fp {
			break
		}
		k, _ := slices.BinarySearch(fp.live, at)
		if bytes += columnBytes(fp.columns, k, k+1); bytes > p.reader.maxBytes && len(picked) > 0 {
			break
		}
		picked = append(picked, k)
	}
	return fp, picked, to
}

func (p *picks) build(fp *fragmentPicks, picked []int) (arrow.RecordBatch, error) {
	columns := make([]arrow.Array, len(fp.columns))
	for i, c := range fp.columns {
		var err error
		if columns[i], err = gather(c, picked); err != nil {
			return nil, err
		}
	}
	return p.reader.batch(columns, len(picked))
}

// columnBytes is the size of rows [from, to) over all columns.
func columnBytes(columns []arrow.Array, from, to int) int64 {
	sum := int64(0)
	for _, c := range columns {
		sum += byteSize(c, from, to)
	}
	return sum
}
