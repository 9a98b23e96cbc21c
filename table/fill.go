package table

import (
	"context"
	"errors"
	"math"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/schema"
	"github.com/flightblob/flightblob/table/manifest"
)

// Filling is a column that is added with a value in each row.
type Filling struct {
	Column arrow.Field
	// Input is the schema of the batches of values, which have this column alone.
	Input   *arrow.Schema
	Options WriteOptions
	// Values computes the column for the fragments of a version. It calls write
	// with the addresses of rows (RowAddr), ascending, and as many values; each
	// live row of the fragments comes once.
	Values func(ctx context.Context, of *Snapshot, fragments []uint64, write func(addresses []uint64, values arrow.RecordBatch) error) error
}

// AddFilledColumn adds a column of the table with a value in each row: one new
// data file for each fragment (RWR-8), in which deleted rows are null, or have
// a neighbour's value where the column must not be null. Values are computed for
// fragments that others add meanwhile, too. After an error the table is as it
// was, and what was stored is removed; see Commit for the one exception.
func (t *Table) AddFilledColumn(ctx context.Context, branch string, f Filling) (*Snapshot, error) {
	w := &filler{table: t, filling: f, files: map[uint64]*filledFile{}}
	s, err := t.alter(ctx, branch, w.operation)
	if err != nil && !errors.Is(err, objstore.ErrUncertain) && s == nil {
		w.abort()
	}
	return s, err
}

// filler writes the files of a column that is added.
type filler struct {
	table   *Table
	filling Filling
	columns *schema.Schema // the column alone, as the files have it
	files   map[uint64]*filledFile
}

// filledFile is the file of one fragment.
type filledFile struct {
	beside []manifest.DataFile // the fragment's others, of which values were computed
	writer *fragmentWriter
}

// operation fills the fragments that have no values yet.
func (w *filler) operation(ctx context.Context, s *Snapshot) (manifest.Operation, error) {
	tree, alone, err := s.with(nil, w.filling.Column)
	if err != nil {
		return nil, err
	}
	if w.columns != nil && !slices.EqualFunc(w.columns.Records(), alone.Records(), sameRecord) {
		w.abort() // another column took the id
	}
	w.columns = alone
	var open []uint64
	for i := range s.Manifest().Fragments {
		f := &s.Manifest().Fragments[i]
		if have := w.files[f.ID]; have == nil || !slices.EqualFunc(have.beside, f.Files, sameFile) {
			open = append(open, f.ID)
		}
	}
	if err := w.fill(ctx, s, open); err != nil {
		return nil, err
	}
	fragments := slices.Clone(s.Manifest().Fragments)
	for i := range fragments {
		f := &fragments[i]
		f.Files = append(slices.Clone(f.Files), w.files[f.ID].writer.fragment.Files...)
	}
	return &manifest.Merge{Fragments: fragments, Schema: tree, PreservesNullability: w.filling.Column.Nullable}, nil
}

// sameFile says that two entries of fragments are of the same values.
func sameFile(a, b manifest.DataFile) bool {
	sameBase := a.BaseID == nil && b.BaseID == nil || a.BaseID != nil && b.BaseID != nil && *a.BaseID == *b.BaseID
	return a.Path == b.Path && sameBase && slices.Equal(a.Fields, b.Fields)
}

// fill computes and writes the values of some fragments.
func (w *filler) fill(ctx context.Context, s *Snapshot, fragments []uint64) error {
	if len(fragments) == 0 {
		return nil
	}
	o := w.filling.Options
	o.RowsPerFile, o.BytesPerFile = math.MaxInt64, math.MaxInt64
	a, err := s.writer(ctx, w.columns, w.filling.Input, o)
	if err != nil {
		return err
	}
	p := &filledPart{filler: w, snapshot: s, writer: a, fragments: fragments}
	defer a.Abort()
	err = w.filling.Values(ctx, s, fragments, func(addresses []uint64, values arrow.RecordBatch) error { return p.write(ctx, addresses, values) })
	for err == nil && p.at < len(fragments) {
		err = p.end(ctx)
	}
	p.release()
	return err
}

// abort removes all files.
func (w *filler) abort() {
	ctx, cancel := context.WithTimeout(context.Background(), abortTimeout)
	defer cancel()
	for id, f := range w.files {
		f.writer.remove(ctx)
		delete(w.files, id)
	}
}

// filledPart is the work on some fragments, one after the other.
type filledPart struct {
	*filler
	snapshot  *Snapshot
	writer    *Appender
	fragments []uint64
	at        int               // the fragment that is being written
	next      uint64            // the physical row that comes next in it
	live      uint64            // rows that have got a value in it
	last      arrow.RecordBatch // one row: the value before next, nil at the start
}

func (p *filledPart) fragment() *manifest.Fragment {
	for i := range p.snapshot.Manifest().Fragments {
		if f := &p.snapshot.Manifest().Fragments[i]; f.ID == p.fragments[p.at] {
			return f
		}
	}
	return nil
}

// write takes values of rows, and ends the fragments before theirs.
func (p *filledPart) write(ctx context.Context, addresses []uint64, values arrow.RecordBatch) error {
	for from := 0; from < len(addresses); {
		id := addresses[from] >> 32
		to := from
		for to < len(addresses) && addresses[to]>>32 == id {
			to++
		}
		for p.at < len(p.fragments) && p.fragments[p.at] != id {
			if err := p.end(ctx); err != nil {
				return err
			}
		}
		if p.at == len(p.fragments) {
			return errFillOrder
		}
		part := values.NewSlice(int64(from), int64(to))
		err := p.rows(ctx, addresses[from:to], part)
		part.Release()
		if err != nil {
			return err
		}
		from = to
	}
	return nil
}

var errFillOrder = fault.New(fault.Invalid, "table: the values of the new column are not one for each row; an expression that gives several, or none, fills no column")

// rows writes values of one fragment, and something in the deleted rows between.
func (p *filledPart) rows(ctx context.Context, addresses []uint64, values arrow.RecordBatch) error {
	f := p.fragment()
	var from []int // for each physical row the value, that behind the last is null
	nullable := p.columns.Fields[0].Nullable
	for i, a := range addresses {
		row := a & (1<<32 - 1)
		if row < p.next || row >= f.PhysicalRows {
			return errFillOrder
		}
		for ; p.next < row; p.next++ {
			if nullable {
				from = append(from, len(addresses))
			} else {
				from = append(from, i)
			}
		}
		from = append(from, i)
		p.next++
	}
	p.live += uint64(len(addresses))
	p.release()
	p.last = values.NewSlice(values.NumRows()-1, values.NumRows())
	if err := p.gathered(ctx, values, from); err != nil || p.live < f.LiveRows() {
		return err
	}
	return p.end(ctx) // while what the last value refers to is known
}

// gathered writes rows of a batch in another order; the one behind its end is
// null.
func (p *filledPart) gathered(ctx context.Context, values arrow.RecordBatch, from []int) error {
	if len(from) == int(values.NumRows()) {
		return p.writer.Write(ctx, values)
	}
	a, err := withNulls(values.Column(0), from)
	if err != nil {
		return err
	}
	defer a.Release()
	batch := array.NewRecordBatch(p.filling.Input, []arrow.Array{a}, int64(len(from)))
	defer batch.Release()
	return p.writer.Write(ctx, batch)
}

// fillRows is how many deleted rows are written at once.
const fillRows = 4096

// end completes the fragment.
func (p *filledPart) end(ctx context.Context) error {
	f := p.fragment()
	if p.live != f.LiveRows() {
		return errFillOrder
	}
	empty := array.MakeArrayOfNull(memory.DefaultAllocator, p.filling.Input.Field(0).Type, 0)
	defer empty.Release()
	none := array.NewRecordBatch(p.filling.Input, []arrow.Array{empty}, 0)
	defer none.Release()
	for p.next < f.PhysicalRows {
		n := min(fillRows, f.PhysicalRows-p.next)
		values := none
		if !p.columns.Fields[0].Nullable && p.last != nil {
			values = p.last
		}
		if err := p.gathered(ctx, values, make([]int, n)); err != nil {
			return err
		}
		p.next += n
	}
	if err := p.writer.endFragment(ctx); err != nil {
		return err
	}
	if old := p.files[f.ID]; old != nil {
		old.writer.remove(ctx)
	}
	done := p.writer.done[len(p.writer.done)-1]
	p.writer.done = p.writer.done[:len(p.writer.done)-1]
	p.files[f.ID] = &filledFile{beside: slices.Clone(f.Files), writer: done}
	p.release()
	p.at, p.next, p.live = p.at+1, 0, 0
	return nil
}

func (p *filledPart) release() {
	if p.last != nil {
		p.last.Release()
		p.last = nil
	}
}
