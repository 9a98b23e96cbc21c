package query

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"regexp"
	"strings"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/flightblob/flightblob/blob"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/materialize"
	"github.com/flightblob/flightblob/query/engine"
	"github.com/flightblob/flightblob/query/statement"
	"github.com/flightblob/flightblob/schema"
	"github.com/flightblob/flightblob/table"
)

// filterFunction is what filters read; no statement may call it.
const filterFunction = "flightblob_filter"

// positionColumn is a row's position in scan order.
const positionColumn = "flightblob_position"

// FilterRequest asks for the rows of a version that meet a condition.
type FilterRequest struct {
	Snapshot *table.Snapshot
	// Predicate is a WHERE condition over the columns of the table; blob
	// functions may be in it, subqueries may not.
	Predicate string
	// Columns, BatchBytes and BatchRows are as in table.ScanRequest.
	Columns    []string
	BatchBytes int64
	BatchRows  int
	// Offset and Limit count rows that meet the condition; nil means no limit.
	Offset uint64
	Limit  *uint64
}

// Filtered yields the rows that meet a condition, in scan order, as descriptor
// batches like those of table.Scan; it is a materialize.Source. The condition's
// columns are read of all rows, the wanted ones only of those that meet it.
type Filtered struct {
	run      *run
	prepared *engine.Prepared
	rows     *engine.Result
	unlink   func()
	cancel   context.CancelFunc
	ctx      context.Context
	snapshot *table.Snapshot
	scanning table.ScanRequest
	schema   *arrow.Schema
	none     *table.Scan // of no rows, for what it knows about the columns

	scan  *table.Scan // of the current positions
	last  uint64      // the last position that met the condition
	begun bool        // there was one
	err   error
	end   bool
	refs  atomic.Int64
}

// FilterSchema checks a request and gives the schema of its rows with blobs in
// a face, without reading any.
func (e *Engine) FilterSchema(ctx context.Context, req FilterRequest, view schema.View) (*arrow.Schema, error) {
	ctx, cancel := e.withTimeout(ctx)
	defer cancel()
	r, p, err := e.prepareFilter(ctx, req)
	if err != nil {
		return nil, err
	}
	p.Close()
	r.close()
	zero := uint64(0)
	none, err := req.Snapshot.Scan(ctx, table.ScanRequest{Columns: req.Columns, Limit: &zero})
	if err != nil {
		return nil, err
	}
	defer none.Release()
	return none.SchemaAs(view)
}

// Filter starts to read. A condition that is none is fault.Invalid. The reader
// ends with ctx.
func (e *Engine) Filter(ctx context.Context, req FilterRequest) (*Filtered, error) {
	ctx, cancel := e.withTimeout(ctx)
	zero := uint64(0)
	none, err := req.Snapshot.Scan(ctx, table.ScanRequest{Columns: req.Columns, Limit: &zero})
	if err != nil {
		cancel()
		return nil, err
	}
	r, p, err := e.prepareFilter(ctx, req)
	if err != nil {
		none.Release()
		cancel()
		return nil, err
	}
	f := &Filtered{
		run: r, prepared: p, ctx: ctx, cancel: cancel, unlink: r.while(ctx), snapshot: req.Snapshot, none: none, schema: none.Schema(),
		scanning: table.ScanRequest{Columns: req.Columns, BatchBytes: req.BatchBytes, BatchRows: req.BatchRows},
	}
	f.refs.Store(1)
	if f.rows, err = p.Execute(ctx); err != nil {
		err = r.explain(ctx, err)
		f.Release()
		return nil, err
	}
	return f, nil
}

func (e *Engine) prepareFilter(ctx context.Context, req FilterRequest) (*run, *engine.Prepared, error) {
	condition, err := statement.CheckPredicate(req.Predicate)
	if err != nil {
		return nil, nil, fault.New(fault.KindOf(err), "filter: %w", err)
	}
	r, err := e.newRun(ctx, Session{})
	if err != nil {
		return nil, nil, err
	}
	r.filter = req.Snapshot
	unlink := r.while(ctx)
	defer unlink()
	p, err := r.prepareFilter(ctx, condition, req)
	if err != nil {
		r.close()
		return nil, nil, filterError(err, req.Predicate, condition)
	}
	return r, p, nil
}

func (r *run) prepareFilter(ctx context.Context, condition string, req FilterRequest) (*engine.Prepared, error) {
	// Brackets around, and a line break for a comment at the end.
	front := fmt.Sprintf("SELECT %s FROM %s() AS %s WHERE (\n", positionColumn, filterFunction, engine.Quote(req.Snapshot.Table().Name()))
	// The place of an error is told as one in what the engine runs.
	in := func(front string, err error) error {
		var p *engine.Placed
		if errors.As(err, &p) {
			p.Offset -= len(front)
		}
		return err
	}
	named, err := r.parse(ctx, "SELECT (\n"+condition+"\n)")
	if err != nil {
		return nil, in("SELECT (\n", err)
	}
	if len(named.tables) > 0 || named.catalog {
		return nil, fault.New(fault.Invalid, "a condition holds no subquery; run a SELECT statement instead")
	}
	sql := front + condition + "\n)"
	if inList.MatchString(condition) { // the engine may join with a list, which loses the order
		sql += " ORDER BY " + positionColumn
	}
	if req.Limit != nil {
		sql += fmt.Sprintf(" LIMIT %d", min(*req.Limit, math.MaxInt64))
	}
	if req.Offset > 0 {
		sql += fmt.Sprintf(" OFFSET %d", min(req.Offset, math.MaxInt64))
	}
	p, err := r.conn.Prepare(ctx, sql)
	if err != nil {
		return nil, in(front, r.explain(ctx, err))
	}
	a, _, err := r.analyse(ctx, sql)
	if err != nil {
		p.Close()
		return nil, in(front, r.explain(ctx, err))
	}
	r.payload.Store(a.payload)
	r.lookAt(ctx, sight{moves: r.moves(ctx, a.plan)}, sql)
	return p, nil
}

// inList finds IN in a condition, or what looks like it.
var inList = regexp.MustCompile(`(?i)\bin\b`)

// filterError says what is wrong with a condition, and where in the predicate
// that the client sent.
func filterError(err error, predicate, condition string) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	text, kind := err.Error(), fault.KindOf(err)
	var p *engine.Placed
	placed := errors.As(err, &p)
	if i := strings.Index(text, "\nCandidate bindings"); i >= 0 && strings.Contains(text[i:], "flightblob_") {
		text = text[:i]
	}
	err = fault.New(kind, "%s", text)
	if start := strings.Index(predicate, condition); placed && start >= 0 && p.Offset >= 0 && p.Offset <= len(condition) {
		err = statement.Place(predicate, start+p.Offset, err)
	}
	return fault.New(kind, "filter: %w", err)
}

// filtered is the relation of filterFunction.
func (r *run) filtered() (engine.Relation, error) {
	if r.filter == nil {
		return nil, fault.New(fault.Internal, "query: %s outside of a filter", filterFunction)
	}
	rel, err := r.newRelation(r.filter, false, false)
	if err != nil {
		return nil, err
	}
	rel.addPosition()
	rel.call = callKey(filterFunction, nil, nil)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.relations[rel.call] = rel
	return rel, nil
}

// addPosition adds the column of positions.
func (rel *relation) addPosition() {
	rel.columns = append(rel.columns, column{name: positionColumn, position: true})
	rel.schema = arrow.NewSchema(append(rel.schema.Fields(), positionField(positionColumn)), nil)
}

// Next implements array.RecordReader.
func (f *Filtered) Next() bool {
	for f.err == nil && !f.end {
		if f.scan != nil {
			if f.scan.Next() {
				return true
			}
			f.err = f.scan.Err()
			f.scan.Release()
			f.scan = nil
			continue
		}
		f.err = f.more()
		if errors.Is(f.err, io.EOF) {
			f.err, f.end = nil, true
		}
	}
	return false
}

// morePositions is how many rows one scan of survivors takes.
const morePositions = 64 << 10

// more opens the scan of the next rows that meet the condition.
func (f *Filtered) more() error {
	rows, err := f.positions()
	if err != nil {
		return err
	}
	f.scanning.Rows = rows
	f.scan, err = f.snapshot.Scan(f.ctx, f.scanning)
	return err
}

// Positions gives the positions in scan order of the rows that meet the
// condition of a request, ascending, some at a time; Columns do not matter. A
// slice belongs to the caller. After an error there are no more.
func (e *Engine) Positions(ctx context.Context, req FilterRequest) iter.Seq2[[]uint64, error] {
	return func(yield func([]uint64, error) bool) {
		req.Columns = []string{}
		f, err := e.Filter(ctx, req)
		if err != nil {
			yield(nil, err)
			return
		}
		defer f.Release()
		for {
			rows, err := f.positions()
			if errors.Is(err, io.EOF) || !yield(rows, err) || err != nil {
				return
			}
		}
	}
}

// positions gives the next rows that meet the condition, io.EOF at the end.
func (f *Filtered) positions() ([]uint64, error) {
	var rows []uint64
	first := !f.begun
	for len(rows) < morePositions {
		chunk, err := f.rows.Next(f.ctx)
		if err != nil {
			return nil, filterError(f.run.explain(f.ctx, err), "", "")
		}
		if chunk == nil {
			break
		}
		column, ok := chunk.Column(0).(*array.Uint64)
		if !ok {
			chunk.Release()
			return nil, fault.New(fault.Internal, "query: positions are %s", chunk.Column(0).DataType())
		}
		for _, at := range column.Uint64Values() {
			if f.begun && at <= f.last {
				chunk.Release()
				return nil, fault.New(fault.Internal, "query: rows of a filter out of order: %d after %d", at, f.last)
			}
			f.begun, f.last = true, at
			rows = append(rows, at)
		}
		chunk.Release()
		if first {
			break // the first batch early
		}
	}
	if len(rows) == 0 {
		return nil, io.EOF
	}
	return rows, nil
}

// Err implements array.RecordReader.
func (f *Filtered) Err() error { return f.err }

// RecordBatch implements array.RecordReader.
func (f *Filtered) RecordBatch() arrow.RecordBatch { return f.scan.RecordBatch() }

// Record implements array.RecordReader.
func (f *Filtered) Record() arrow.RecordBatch { return f.RecordBatch() }

// Schema implements array.RecordReader.
func (f *Filtered) Schema() *arrow.Schema { return f.schema }

// SchemaAs is the schema that the rows have with another face of blob columns.
func (f *Filtered) SchemaAs(view schema.View) (*arrow.Schema, error) { return f.none.SchemaAs(view) }

// Owners implements materialize.Source.
func (f *Filtered) Owners() []*blob.Owner { return f.scan.Owners() }

// RowPosition is where row i of the current batch stands in scan order.
func (f *Filtered) RowPosition(i int) uint64 { return f.scan.RowPosition(i) }

// Retain implements array.RecordReader.
func (f *Filtered) Retain() { f.refs.Add(1) }

// Release implements array.RecordReader; the last one ends the filter.
func (f *Filtered) Release() {
	if f.refs.Add(-1) != 0 {
		return
	}
	if f.scan != nil {
		f.scan.Release()
		f.scan = nil
	}
	f.none.Release()
	if f.rows != nil {
		f.rows.Close()
	}
	f.prepared.Close()
	f.unlink()
	f.run.close()
	f.cancel()
}

var _ materialize.Source = (*Filtered)(nil)
