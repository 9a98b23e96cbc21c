package table

import (
	"context"
	"slices"
	"sort"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/flightblob/flightblob/encoding"
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

// sweep is the work of a scan: live rows in order, all or those of some ranges.
type sweep struct {
	reader *reader
	left   []positionRange // what is still to be read, ascending, none empty
	ahead  []*fragment     // the one at the position and those after it, being opened
}

// openAhead is how many fragments are opened before their turn.
const openAhead = 3

func newSweep(r *reader, req ScanRequest) *sweep {
	if req.Only != nil {
		return &sweep{reader: r, left: slices.Clone(req.Only.ranges)}
	}
	rows := r.snapshot.Rows()
	all := positionRange{min(req.Offset, rows), rows}
	if req.Limit != nil {
		all.end = all.start + min(*req.Limit, rows-all.start)
	}
	if all.start == all.end {
		return &sweep{reader: r}
	}
	return &sweep{reader: r, left: []positionRange{all}}
}

// next takes the next rows, at most to the end of their fragment and no more
// than their pages make advisable.
func (w *sweep) next(ctx context.Context, rows int) (job, error) {
	if len(w.left) == 0 {
		return job{}, nil
	}
	starts := w.reader.snapshot.loaded.starts
	index, _ := w.reader.snapshot.position(w.left[0].start)
	f := w.advance(ctx, index)
	if err := f.open(ctx); err != nil {
		return job{}, err
	}
	taken, err := f.take(w.left, starts[index], starts[index+1], uint64(rows))
	if err != nil {
		return job{}, err
	}
	w.drop(taken)
	return job{read: func(ctx context.Context) (result, error) {
		n := 0
		var physical []encoding.Range
		for _, r := range taken {
			n += int(r.len())
			from, to := r.start-starts[index], r.end-starts[index]
			if f.live.Count() == 0 {
				physical = append(physical, encoding.Range{Start: from, End: to})
				continue
			}
			physical = append(physical, liveRanges(f.live, from, to)...)
		}
		columns, err := f.read(ctx, physical, n)
		if err != nil {
			return result{}, err
		}
		pieces, err := w.reader.cut(f, columns, n, positionsOf(taken))
		return result{pieces: pieces, rows: n, bytes: columnBytes(columns, 0, n)}, err
	}}, nil
}

// drop removes what was taken from the front.
func (w *sweep) drop(taken []positionRange) {
	last := taken[len(taken)-1].end
	for len(w.left) > 0 && w.left[0].end <= last {
		w.left = w.left[1:]
	}
	if len(w.left) > 0 {
		w.left[0].start = max(w.left[0].start, last)
	}
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
	for len(w.ahead) <= openAhead {
		// The next fragment is that of the first row after the last one's.
		done := starts[w.ahead[len(w.ahead)-1].index+1]
		i := sort.Search(len(w.left), func(i int) bool { return w.left[i].end > done })
		if i == len(w.left) {
			break
		}
		next, _ := w.reader.snapshot.position(max(w.left[i].start, done))
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
func (r *reader) cut(f *fragment, columns []arrow.Array, rows int, at positions) ([]*piece, error) {
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
		pieces = append(pieces, &piece{batch: batch, fragment: f, positions: at.from(from)})
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
