package query

import (
	"context"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/flightblob/flightblob/blob"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/materialize"
	"github.com/flightblob/flightblob/query/engine"
	"github.com/flightblob/flightblob/schema"
)

// result computes a statement's rows: a Mixed source of reference batches.
type result struct {
	run      *run
	prepared *engine.Prepared
	rows     chunks
	columns  []resultColumn
	schema   *arrow.Schema // references as leaves
	leaves   int

	ctx      context.Context
	unlink   func()
	place    func(error) error // finds the place in the statement's text
	target   int64
	conform  conformer
	waiting  arrow.RecordBatch // fetched, did not fit into the last batch
	late     bool              // some columns are fetched now
	written  bool              // the rows are written
	rowBytes int64             // of late columns, as the last batch had them; 0 = not known
	cur      arrow.RecordBatch
	err      error
	ended    bool
	produced bool
	refs     atomic.Int64
}

// start executes the statement on a run.
func (s *Statement) start(ctx context.Context, r *run, p *plan, o QueryOptions) (*result, error) {
	unlink := r.while(ctx)
	for i, v := range s.binding {
		if err := p.prepared.Bind(i, v); err != nil {
			unlink()
			return nil, err
		}
	}
	r.setParams(s.binding)
	rows, err := p.execute(ctx)
	if err != nil {
		unlink()
		return nil, s.place(r.explain(ctx, err))
	}
	res := &result{
		run: r, prepared: p.prepared, rows: rows, columns: p.columns, ctx: ctx, unlink: unlink, place: s.place,
		target: o.BatchBytes, conform: conformer{registry: s.engine.registry}, written: s.into != nil,
	}
	if res.target <= 0 {
		res.target = materialize.DefaultBatchBytes
	}
	res.refs.Store(1)
	if computed, ok := rows.(*engine.Result); ok && res.columns == nil { // known only now that values are bound
		if res.columns, err = resultColumns(computed.Schema(), computed.Columns(), outputs{}); err != nil {
			rows.Close()
			unlink()
			return nil, err
		}
	}
	fields := make([]arrow.Field, len(res.columns))
	for i, c := range res.columns {
		fields[i] = c.reference
		res.leaves += leavesOf(c.reference)
		res.late = res.late || c.late != nil
	}
	res.schema = arrow.NewSchema(fields, nil)
	return res, nil
}

// execute starts what computes the rows.
func (p *plan) execute(ctx context.Context) (chunks, error) {
	if p.counted == nil {
		return p.prepared.Execute(ctx)
	}
	fields := make([]arrow.Field, len(p.columns))
	for i, c := range p.columns {
		fields[i] = c.reference
	}
	return &oneRow{schema: arrow.NewSchema(fields, nil), value: p.counted.Rows()}, nil
}

// faced gives the reader with blob columns in a face. It takes over res.
func (res *result) faced(o QueryOptions) (array.RecordReader, error) {
	out, err := schemaOf(res.columns, o.View)
	if err != nil {
		res.Release()
		return nil, err
	}
	if res.leaves == 0 || o.View == schema.Descriptor {
		return &plainReader{result: res, out: out}, nil
	}
	defer res.Release() // the reader keeps it
	return materialize.NewReader(res.ctx, res, nil, materialize.Options{
		Budget: res.run.engine.opts.Budget, View: o.View, Schema: out,
		BatchBytes: o.BatchBytes, MaxValue: o.MaxValue, Map: o.Map,
	})
}

// Rows in one batch: the first comes as soon as it is there, later ones gather
// chunks until they are worth a message.
const mostRows = 64 << 10

// Next implements array.RecordReader.
func (res *result) Next() bool {
	if res.cur != nil {
		res.cur.Release()
		res.cur = nil
	}
	if res.ended {
		return false
	}
	gathered, err := res.gather()
	if err == nil && gathered != nil {
		res.cur, err = res.shaped(gathered)
		gathered.Release()
	}
	if err != nil || res.cur == nil {
		res.ended = true
		res.err = res.place(res.run.explain(res.ctx, err))
		return false
	}
	res.produced = true
	return true
}

// gather collects chunks of the engine, nil at the end.
func (res *result) gather() (arrow.RecordBatch, error) {
	var parts []arrow.RecordBatch
	defer func() {
		for _, p := range parts {
			p.Release()
		}
	}()
	rows, bytes := int64(0), int64(0)
	for {
		chunk, err := res.chunk(res.most() - rows)
		if err != nil {
			return nil, err
		}
		if chunk == nil {
			break
		}
		parts = append(parts, chunk)
		rows += chunk.NumRows()
		bytes += sizeOf(chunk)
		if !res.produced || rows >= res.most() || bytes >= res.target {
			break
		}
	}
	if len(parts) == 0 {
		return nil, nil
	}
	if len(parts) == 1 {
		parts[0].Retain()
		return parts[0], nil
	}
	columns := make([]arrow.Array, parts[0].NumCols())
	defer func() {
		for _, c := range columns {
			if c != nil {
				c.Release()
			}
		}
	}()
	for i := range columns {
		pieces := make([]arrow.Array, len(parts))
		for k, p := range parts {
			pieces[k] = p.Column(i)
		}
		var err error
		if columns[i], err = array.Concatenate(pieces, memory.DefaultAllocator); err != nil {
			return nil, fault.New(fault.Internal, "query: join chunks of column %s: %w", parts[0].ColumnName(i), err)
		}
	}
	return array.NewRecordBatch(parts[0].Schema(), columns, rows), nil
}

// most is how many rows a batch may have.
func (res *result) most() int64 {
	switch {
	case !res.late:
		return mostRows
	case res.rowBytes == 0:
		return lateFirst
	}
	return min(max(res.target/res.rowBytes, 1), mostRows)
}

// chunk gives the engine's next rows, at most so many when columns of them are
// fetched yet.
func (res *result) chunk(most int64) (arrow.RecordBatch, error) {
	next := res.waiting
	res.waiting = nil
	if next == nil {
		var err error
		if next, err = res.rows.Next(res.ctx); next == nil || err != nil {
			return nil, err
		}
	}
	if !res.late || next.NumRows() <= most {
		return next, nil
	}
	defer next.Release()
	res.waiting = next.NewSlice(most, next.NumRows())
	return next.NewSlice(0, most), nil
}

func sizeOf(batch arrow.RecordBatch) int64 {
	n := int64(0)
	for _, c := range batch.Columns() {
		n += int64(c.Data().SizeInBytes())
	}
	return n
}

// shaped gives a batch the types of the result.
func (res *result) shaped(in arrow.RecordBatch) (arrow.RecordBatch, error) {
	columns := make([]arrow.Array, 0, len(res.columns))
	defer func() {
		for _, c := range columns {
			c.Release()
		}
	}()
	late, err := res.fetchLate(in)
	if err != nil {
		return nil, err
	}
	defer func() {
		for _, g := range late {
			g.release()
		}
	}()
	for i, c := range res.columns {
		if c.late != nil {
			a := lateArray(late, in.Column(i), c.late)
			a.Retain()
			columns = append(columns, a)
			continue
		}
		data, err := res.conform.conform(in.Column(i).Data(), c.reference, nil)
		if err != nil {
			return nil, named(err, c.reference.Name, res.written)
		}
		columns = append(columns, array.MakeFromData(data))
		data.Release()
	}
	return array.NewRecordBatch(res.schema, columns, in.NumRows()), nil
}

// Err implements array.RecordReader.
func (res *result) Err() error { return res.err }

// RecordBatch implements array.RecordReader.
func (res *result) RecordBatch() arrow.RecordBatch { return res.cur }

// Record implements array.RecordReader.
func (res *result) Record() arrow.RecordBatch { return res.cur }

// Schema implements array.RecordReader.
func (res *result) Schema() *arrow.Schema { return res.schema }

// Owners implements materialize.Source; a Mixed source has none.
func (res *result) Owners() []*blob.Owner { return nil }

// Origin implements materialize.Mixed.
func (res *result) Origin(source uint32) (*blob.Resolver, *blob.Owner, error) {
	o := res.run.engine.registry.Origin(source)
	if o == nil || o.Given != nil {
		return nil, nil, fault.New(fault.Internal, "query: a blob value of no table")
	}
	return o.Resolver, o.Owner, nil
}

// Retain implements array.RecordReader.
func (res *result) Retain() { res.refs.Add(1) }

// Release implements array.RecordReader; the last one ends the statement.
func (res *result) Release() {
	if res.refs.Add(-1) != 0 {
		return
	}
	if res.cur != nil {
		res.cur.Release()
		res.cur = nil
	}
	if res.waiting != nil {
		res.waiting.Release()
		res.waiting = nil
	}
	res.rows.Close()
	res.prepared.Close()
	res.unlink()
	res.run.close()
}

var _ materialize.Mixed = (*result)(nil)

// ending is a reader whose context ends when it is released, and not earlier: a
// reader that prepares batches ahead may be done with its source before its
// caller is done with it.
type ending struct {
	array.RecordReader
	cancel context.CancelFunc
	refs   atomic.Int64
}

func endingWith(r array.RecordReader, cancel context.CancelFunc) *ending {
	e := &ending{RecordReader: r, cancel: cancel}
	e.refs.Store(1)
	return e
}

// Retain implements array.RecordReader.
func (e *ending) Retain() { e.refs.Add(1) }

// Release implements array.RecordReader.
func (e *ending) Release() {
	if e.refs.Add(-1) == 0 {
		e.RecordReader.Release()
		e.cancel()
	}
}

// plainReader shows a result without payload: no blobs at all, or descriptors.
type plainReader struct {
	*result
	out   *arrow.Schema
	shown arrow.RecordBatch
}

// Schema implements array.RecordReader.
func (p *plainReader) Schema() *arrow.Schema { return p.out }

// Next implements array.RecordReader.
func (p *plainReader) Next() bool {
	p.drop()
	if !p.result.Next() {
		return false
	}
	columns := make([]arrow.Array, p.out.NumFields())
	for i, c := range p.cur.Columns() {
		data := descriptors(c.Data(), p.out.Field(i))
		columns[i] = array.MakeFromData(data)
		data.Release()
	}
	p.shown = array.NewRecordBatch(p.out, columns, p.cur.NumRows())
	for _, c := range columns {
		c.Release()
	}
	return true
}

func (p *plainReader) drop() {
	if p.shown != nil {
		p.shown.Release()
		p.shown = nil
	}
}

// RecordBatch implements array.RecordReader.
func (p *plainReader) RecordBatch() arrow.RecordBatch { return p.shown }

// Record implements array.RecordReader.
func (p *plainReader) Record() arrow.RecordBatch { return p.shown }

// Release implements array.RecordReader.
func (p *plainReader) Release() {
	if p.refs.Load() == 1 {
		p.drop()
	}
	p.result.Release()
}
