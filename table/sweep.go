package table

import (
	"context"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/flightblob/flightblob/internal/fault"
)

// reader reads fragments for one request.
type reader struct {
	snapshot *Snapshot
	plan     *projection
	maxRows  int
	maxBytes int64
	coded    bool
	running  *sync.WaitGroup // of the scan, which waits for all its goroutines
}

func newReader(s *Snapshot, plan *projection, req ScanRequest) *reader {
	return &reader{snapshot: s, plan: plan, maxRows: req.BatchRows, maxBytes: req.BatchBytes, coded: req.Coded && req.Rows == nil}
}

func (r *reader) fragment(index int) *fragment {
	return &fragment{reader: r, index: index, meta: &r.snapshot.Manifest().Fragments[index]}
}

// batch makes a record batch of columns that were read.
func (r *reader) batch(columns []arrow.Array, rows int) (arrow.RecordBatch, error) {
	shown := r.plan.schema
	for i, c := range columns {
		field := r.plan.schema.Field(i)
		coded := r.isCoded(c, field.Type)
		if coded {
			shown = codedSchema(shown, i, c.DataType())
		}
		if c.Len() != rows || !coded && !arrow.TypeEqual(field.Type, c.DataType()) {
			return nil, fault.New(fault.Internal, "table: column %q was read as %d rows of %s, expected %d of %s",
				field.Name, c.Len(), c.DataType(), rows, field.Type)
		}
	}
	return array.NewRecordBatch(shown, columns, int64(rows)), nil
}

// isCoded says that a column was read as a dictionary of what it shows.
func (r *reader) isCoded(a arrow.Array, shown arrow.DataType) bool {
	d, ok := a.DataType().(*arrow.DictionaryType)
	return ok && r.coded && arrow.TypeEqual(d.ValueType, shown)
}

// codedSchema is a schema with another type for one column.
func codedSchema(s *arrow.Schema, i int, dt arrow.DataType) *arrow.Schema {
	fields := s.Fields()
	fields[i].Type = dt
	m := s.Metadata()
	return arrow.NewSchema(fields, &m)
}

// sweep is the work of a scan: live rows in order, from an offset, up to a
// limit.
type sweep struct {
	reader *reader
	at     uint64 // position in scan order
	end    uint64
	ahead  []*fragment // the one at the position and those after it, being opened
}

// openAhead is how many fragments are opened before their turn.
const openAhead = 3

func newSweep(r *reader, req ScanRequest) *sweep {
	rows := r.snapshot.Rows()
	w := &sweep{reader: r, at: min(req.Offset, rows), end: rows}
	if req.Limit != nil {
		w.end = w.at + min(*req.Limit, rows-w.at)
	}
	return w
}

// next takes the next rows, at most to the end of their fragment and no more
// than their pages make advisable.
func (w *sweep) next(ctx context.Context, rows int) (job, error) {
	if w.at >= w.end {
		return job{}, nil
	}
	index, at := w.reader.snapshot.position(w.at)
	first := w.at
	n := min(uint64(rows), w.reader.snapshot.loaded.starts[index+1]-first, w.end-first)
	f := w.advance(ctx, index)
	if err := f.open(ctx); err != nil {
		return job{}, err
	}
	n, err := f.advisable(at, n)
	if err != nil {
		return job{}, err
	}
	w.at += n
	return job{read: func(ctx context.Context) (result, error) {
		columns, err := f.read(ctx, liveRanges(f.live, at, at+n), int(n))
		if err != nil {
			return result{}, err
		}
		pieces, err := w.reader.cut(f, columns, int(n), first)
		return result{pieces: pieces, rows: int(n), bytes: columnBytes(columns, 0, int(n))}, err
	}}, nil
}

// advance gives a fragment and starts to open those that the scan comes to
// next.
func (w *sweep) advance(ctx context.Context, index int) *fragment {
	for len(w.ahead) > 0 && w.ahead[0].index != index {
		w.ahead = w.ahead[1:]
	}
	if len(w.ahead) == 0 {
		w.ahead = append(w.ahead, w.reader.fragment(index))
	}
	starts := w.reader.snapshot.loaded.starts
	for next := w.ahead[len(w.ahead)-1].index + 1; len(w.ahead) <= openAhead && next < len(starts)-1; next++ {
		if starts[next] >= w.end {
			break
		}
		if starts[next+1] == starts[next] { // no live row
			continue
		}
		f := w.reader.fragment(next)
		w.ahead = append(w.ahead, f)
		w.reader.running.Add(1)
		go func() {
			defer w.reader.running.Done()
			_ = f.open(ctx) // the error is met when its turn comes, if it comes
		}()
	}
	return w.ahead[0]
}

// cut makes batches of columns that were read together: one, unless the rows
// turned out larger than the rows before had promised.
func (r *reader) cut(f *fragment, columns []arrow.Array, rows int, first uint64) ([]*piece, error) {
	var pieces []*piece
	for from := 0; from < rows; {
		to := r.fit(columns, from, rows)
		part := columns
		if from > 0 || to < rows {
			part = make([]arrow.Array, len(columns))
			for i, c := range columns {
				part[i] = array.NewSlice(c, int64(from), int64(to))
			}
		}
		batch, err := r.batch(part, to-from)
		if err != nil {
			return nil, err
		}
		pieces = append(pieces, &piece{batch: batch, fragment: f, positions: positions{first: first + uint64(from)}})
		from = to
	}
	return pieces, nil
}

// fit says where a batch that starts at row from should end: the most rows
// within twice the target, so that near misses are left whole, and at least one.
func (r *reader) fit(columns []arrow.Array, from, rows int) int {
	end := min(rows, from+r.maxRows)
	if columnBytes(columns, from, end) <= 2*r.maxBytes {
		return end
	}
	low, high := from+1, end // a single row always goes, whatever its size
	for low < high {
		mid := (low + high + 1) / 2
		if columnBytes(columns, from, mid) <= r.maxBytes {
			low = mid
		} else {
			high = mid - 1
		}
	}
	return low
}
