package table

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"golang.org/x/sync/semaphore"

	"github.com/flightblob/flightblob/blob"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/schema"
)

// ScanRequest says which columns and rows of a snapshot are wanted. The zero
// value means all of them.
type ScanRequest struct {
	// Columns by name, in this order; nil means all of the table's. Dotted names
	// reach through structs and answer a flat column (schema.Project). RowID and
	// RowAddr may be among them, with stable row ids CreatedAt and UpdatedAt too.
	// An empty list that is not nil yields batches of rows without columns and
	// reads nothing.
	Columns []string

	// Offset skips that many live rows, whole fragments without opening them.
	Offset uint64
	// Limit is the greatest number of rows; nil means no limit.
	Limit *uint64
	// Rows asks for single rows instead, by position in scan order (deleted rows
	// not counted). The answer has one row for each, in this order, duplicates
	// kept. Nil means a scan; Offset and Limit must then be unset otherwise.
	Rows []uint64
	// Only allows to leave out all rows but those of a selection; others may come
	// where leaving them out would take longer. Offset and Limit must then be
	// unset. Nil means all rows.
	Only *Selection

	// Coded lets columns of text and bytes come as dictionary arrays, batch by
	// batch as their pages have them: with indices of type uint32 that are never
	// null, and nulls as an item that is. Schema shows such columns as plain all
	// the same. It holds for scans, not for Rows.
	Coded bool

	// BatchRows is the greatest number of rows in a batch; 0 means MaxBatchRows,
	// which is also the most.
	BatchRows int
	// BatchBytes is how many bytes of Arrow data a batch should hold; 0 means
	// DefaultBatchBytes. A single row may exceed it.
	BatchBytes int64
}

// Batch sizes of a scan.
const (
	MaxBatchRows      = 65536
	DefaultBatchBytes = 4 << 20

	firstBatchRows = 1024 // the first batch is small, so that it comes early
	growth         = 8    // a batch has at most this many times the rows of the one before
	readers        = 4    // batches that are read ahead at the same time, memory permitting
	readAhead      = 4    // read ahead, in batches of BatchBytes
)

func (r ScanRequest) withDefaults() ScanRequest {
	if r.BatchRows <= 0 || r.BatchRows > MaxBatchRows {
		r.BatchRows = MaxBatchRows
	}
	if r.BatchBytes <= 0 {
		r.BatchBytes = DefaultBatchBytes
	}
	return r
}

func (r ScanRequest) check() error {
	if r.Rows != nil && (r.Offset != 0 || r.Limit != nil) {
		return fault.New(fault.Invalid, "table: rows cannot be combined with offset or limit")
	}
	if r.Only != nil && (r.Offset != 0 || r.Limit != nil || r.Rows != nil) {
		return fault.New(fault.Internal, "table: a selection cannot be combined with rows, offset or limit")
	}
	return nil
}

// Scan yields the rows of a request as record batches with descriptor faces;
// it is a materialize.Source. A batch never crosses a fragment. Batches are
// read ahead by goroutines of the scan; the last Release, or the end of the
// context that the scan was opened with, stops them, and Release waits until
// they have. Methods other than Retain and Release are for one goroutine.
type Scan struct {
	snapshot *Snapshot
	plan     *projection
	queue    chan *unit // in order of the answer
	memory   *semaphore.Weighted
	stop     context.CancelCauseFunc
	running  sync.WaitGroup
	refs     atomic.Int64
	end      error // why the queue was closed, nil at the end of the rows; set before

	unit  *unit // the one that the current piece is of
	piece *piece
	err   error
}

// piece is one batch of the answer, made already or when its turn comes.
type piece struct {
	batch     arrow.RecordBatch
	build     func() (arrow.RecordBatch, error)
	fragment  *fragment
	positions positions
}

// positions tells where the rows of a batch stand in scan order: from first
// on, or one by one.
type positions struct {
	first  uint64
	listed []uint64
}

func (p positions) at(i int) uint64 {
	if p.listed != nil {
		return p.listed[i]
	}
	return p.first + uint64(i)
}

// from are the positions without the first i.
func (p positions) from(i int) positions {
	if p.listed != nil {
		return positions{listed: p.listed[i:]}
	}
	return positions{first: p.first + uint64(i)}
}

// positionsOf lists the rows of ranges.
func positionsOf(ranges []positionRange) positions {
	if len(ranges) == 1 {
		return positions{first: ranges[0].start}
	}
	p := positions{listed: []uint64{}}
	for _, r := range ranges {
		for at := r.start; at < r.end; at++ {
			p.listed = append(p.listed, at)
		}
	}
	return p
}

// unit is what is read in one go: a few pieces.
type unit struct {
	done   chan struct{} // closed when pieces and err are set
	pieces []*piece
	err    error
	memory int64 // admitted bytes
}

// job is a unit that can be read.
type job struct {
	read func(ctx context.Context) (result, error)
}

// result is what was read, with how much it is.
type result struct {
	pieces []*piece
	rows   int
	bytes  int64
}

// jobs cuts a request into units of at most the rows that it is told, fewer
// where their pages are large; the zero job says that there are no more.
type jobs interface {
	next(ctx context.Context, rows int) (job, error)
}

// Scan starts to read. Unknown columns are fault.NotFound; a position that does
// not exist is fault.Invalid, naming it and the number of rows. The scan ends
// with ctx.
func (s *Snapshot) Scan(ctx context.Context, req ScanRequest) (*Scan, error) {
	req = req.withDefaults()
	if err := req.check(); err != nil {
		return nil, err
	}
	plan, err := s.project(req.Columns)
	if err != nil {
		return nil, err
	}
	var work jobs
	r := newReader(s, plan, req)
	if req.Rows != nil {
		work, err = newPicks(r, req.Rows)
	} else {
		work = newSweep(r, req)
	}
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancelCause(ctx)
	scan := &Scan{
		snapshot: s, plan: plan,
		queue:  make(chan *unit, readers-1),
		memory: semaphore.NewWeighted(readAhead * req.BatchBytes),
		stop:   stop,
	}
	r.running = &scan.running
	scan.refs.Store(1)
	scan.running.Add(1)
	go scan.produce(ctx, work, req)
	return scan, nil
}

// errReleased is why a released scan stops.
var errReleased = fault.New(fault.Internal, "table: the scan was released")

// produce cuts the request into units and starts to read them, as many at a
// time as memory and readers allow.
func (s *Scan) produce(ctx context.Context, work jobs, req ScanRequest) {
	defer s.running.Done()
	defer close(s.queue)
	defer fault.Recover("table", &s.end)

	size := newSizer(req)
	for {
		rows, bytes := size.next()
		if s.memory.Acquire(ctx, bytes) != nil {
			s.end = context.Cause(ctx)
			return
		}
		j, err := work.next(ctx, rows)
		if err != nil || j.read == nil {
			s.memory.Release(bytes)
			s.end = err
			return
		}
		u := &unit{done: make(chan struct{}), memory: bytes}
		s.running.Add(1)
		go s.read(ctx, u, j, size)
		select {
		case s.queue <- u:
		case <-ctx.Done():
			<-u.done
			u.release(s)
			s.end = context.Cause(ctx)
			return
		}
		if !size.known() { // learn how large rows are before reading more of them
			select {
			case <-u.done:
			case <-ctx.Done():
				s.end = context.Cause(ctx)
				return
			}
		}
	}
}

func (s *Scan) read(ctx context.Context, u *unit, j job, size *sizer) {
	defer s.running.Done()
	defer close(u.done)
	defer fault.Recover("table", &u.err)
	res, err := j.read(ctx)
	if err != nil {
		u.err = err
		return
	}
	u.pieces = res.pieces
	size.observe(res.rows, res.bytes)
}

func (p *piece) release() {
	if p.batch != nil {
		p.batch.Release()
		p.batch = nil
	}
}

// release gives a unit's batches and memory back.
func (u *unit) release(s *Scan) {
	for _, p := range u.pieces {
		p.release()
	}
	u.pieces = nil
	s.memory.Release(u.memory)
	u.memory = 0
}

// Next moves to the next batch. It waits for it, and answers false at the end
// and on failure, which Err tells apart.
func (s *Scan) Next() bool {
	s.drop()
	for s.err == nil {
		if s.unit != nil && len(s.unit.pieces) > 0 {
			s.piece, s.unit.pieces = s.unit.pieces[0], s.unit.pieces[1:]
			if s.piece.batch == nil {
				s.piece.batch, s.err = s.piece.build()
			}
			return s.err == nil
		}
		if s.unit != nil {
			s.unit.release(s)
			s.unit = nil
		}
		u, ok := <-s.queue
		if !ok {
			s.err = s.end
			return false
		}
		<-u.done
		s.unit, s.err = u, u.err
	}
	return false
}

// drop releases the current batch.
func (s *Scan) drop() {
	if s.piece != nil {
		s.piece.release()
		s.piece = nil
	}
}

// Err is why Next answered false; nil at the end of the rows.
func (s *Scan) Err() error { return s.err }

// RecordBatch is the current batch; it is valid until the next call of Next.
func (s *Scan) RecordBatch() arrow.RecordBatch { return s.piece.batch }

// Record is RecordBatch under the name that arrow-go is leaving behind.
func (s *Scan) Record() arrow.RecordBatch { return s.RecordBatch() }

// Schema is the schema of the batches: descriptor faces.
func (s *Scan) Schema() *arrow.Schema { return s.plan.schema }

// SchemaAs is the schema that the rows have with another face of blob columns.
func (s *Scan) SchemaAs(view schema.View) (*arrow.Schema, error) {
	return s.plan.arrow(s.snapshot.Schema(), view)
}

// Snapshot is what the scan reads.
func (s *Scan) Snapshot() *Snapshot { return s.snapshot }

// Owners lists the owner of each blob leaf of the current batch, depth-first
// over the schema; nil for one that no file of the fragment holds.
func (s *Scan) Owners() []*blob.Owner { return s.piece.fragment.owners }

// RowPosition is where row i of the current batch stands in scan order: for a
// request of Rows the position that was asked for.
func (s *Scan) RowPosition(i int) uint64 { return s.piece.positions.at(i) }

// RowPositions is RowPosition of all rows of the current batch: one after the
// other from first on, unless they are listed.
func (s *Scan) RowPositions() (first uint64, listed []uint64) {
	return s.piece.positions.first, s.piece.positions.listed
}

// FragmentID is the fragment that the current batch is of.
func (s *Scan) FragmentID() uint64 { return s.piece.fragment.meta.ID }

// Retain adds a reference.
func (s *Scan) Retain() { s.refs.Add(1) }

// Release gives a reference back. The last one stops reading ahead, waits for
// it to end, and releases what was read.
func (s *Scan) Release() {
	if s.refs.Add(-1) != 0 {
		return
	}
	s.stop(errReleased)
	s.drop()
	if s.unit != nil {
		s.unit.release(s)
		s.unit = nil
	}
	for u := range s.queue {
		<-u.done
		u.release(s)
	}
	s.running.Wait()
}

var _ array.RecordReader = (*Scan)(nil)
