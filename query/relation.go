package query

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/flightblob/flightblob/blob"
	"github.com/flightblob/flightblob/query/engine"
	"github.com/flightblob/flightblob/schema"
	"github.com/flightblob/flightblob/table"
)

// column is one column of a relation over a table.
type column struct {
	name     string        // in SQL
	stored   string        // as the scan takes it; "" for those that are not scanned
	field    *schema.Field // nil for columns that a scan adds
	carrier  *carrier
	blobs    int  // blob leaves at and below it
	position bool // values are the rows' positions in scan order
}

// relation is a version of a table as the engine sees it.
type relation struct {
	run      *run
	call     string // key of the call that it answers
	snapshot *table.Snapshot
	columns  []column
	schema   *arrow.Schema
	excerpt  *excerpt // the rows that it has, nil for all

	asked    sync.Once // see only
	selected *table.Selection
	failed   error
}

// virtualColumn lets the engine count rows without reading a column. Views hide
// it.
const virtualColumn = "flightblob_row"

// newRelation describes a snapshot. A view asks for the virtual column,
// lance_scan perhaps for row ids.
func (r *run) newRelation(s *table.Snapshot, virtual, rowIDs bool) (*relation, error) {
	rel := &relation{run: r, snapshot: s}
	var fields []arrow.Field
	if virtual {
		rel.columns = append(rel.columns, column{name: virtualColumn})
		fields = append(fields, arrow.Field{Name: virtualColumn, Type: arrow.FixedWidthTypes.Boolean, Nullable: true, Metadata: engine.VirtualMetadata})
	}
	taken := map[string]bool{}
	for _, f := range s.Schema().Fields {
		shown, err := f.Arrow(schema.Descriptor)
		if err != nil {
			return nil, err
		}
		c := column{name: unused(taken, f.Name), stored: f.Name, field: f}
		if c.carrier, err = newCarrier(shown); err != nil {
			return nil, err
		}
		for range f.Blobs() {
			c.blobs++
		}
		c.carrier.field.Name = c.name
		rel.columns = append(rel.columns, c)
		fields = append(fields, c.carrier.field)
	}
	if rowIDs {
		for _, name := range []string{table.RowID, table.RowAddr} {
			c := column{name: unused(taken, name), stored: name}
			c.carrier = &carrier{field: arrow.Field{Name: c.name, Type: arrow.PrimitiveTypes.Uint64, Nullable: true}}
			rel.columns = append(rel.columns, c)
			fields = append(fields, c.carrier.field)
		}
	}
	rel.schema = arrow.NewSchema(fields, nil)
	return rel, nil
}

// unused makes a column name that no earlier one equals but for case: SQL could
// not tell the two apart.
func unused(taken map[string]bool, name string) string {
	free := name
	for i := 1; taken[strings.ToLower(free)]; i++ {
		free = fmt.Sprintf("%s_%d", name, i)
	}
	taken[strings.ToLower(free)] = true
	return free
}

// Schema implements engine.Relation.
func (rel *relation) Schema() *arrow.Schema { return rel.schema }

// Rows implements engine.Relation.
func (rel *relation) Rows() int64 {
	if rel.excerpt != nil {
		return int64(rel.excerpt.rows)
	}
	return int64(rel.snapshot.Rows())
}

// Scan implements engine.Relation.
func (rel *relation) Scan(columns []int) (engine.Batches, error) {
	if len(columns) == 0 {
		return &bareRows{rows: rel.Rows()}, nil
	}
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = rel.columns[c].stored
	}
	b := &batches{relation: rel, columns: columns, resolver: rel.snapshot.Resolver()}
	var err error
	if rel.excerpt != nil {
		b.parts, b.names = rel.excerpt.requests(), names
	} else {
		b.scan, err = rel.whole(names)
	}
	if err != nil {
		rel.run.fail(err)
		return nil, err
	}
	var fields []arrow.Field
	for _, c := range columns {
		fields = append(fields, rel.columns[c].carrier.field)
	}
	b.schema = arrow.NewSchema(fields, nil)
	return b, nil
}

// whole scans the version, or what indexes say is enough of it.
func (rel *relation) whole(names []string) (*table.Scan, error) {
	r := rel.run
	only, err := rel.only()
	if err != nil {
		return nil, err
	}
	req := table.ScanRequest{Columns: names, Only: only, Coded: only == nil}
	if r.first.call == rel.call && only == nil && r.first.call != "" {
		req.Limit = &r.first.rows
	}
	return rel.snapshot.Scan(r.ctx, req)
}

// batches carries a scan, or the scans of an excerpt, into the engine.
type batches struct {
	relation *relation
	scan     *table.Scan
	parts    func(context.Context) (*table.ScanRequest, error) // of an excerpt, those to come
	names    []string
	columns  []int
	schema   *arrow.Schema
	resolver *blob.Resolver
}

// Next implements engine.Batches.
func (b *batches) Next() (engine.Batch, error) {
	r := b.relation.run
	for b.scan == nil || !b.scan.Next() {
		var err error
		if b.scan != nil {
			err = b.scan.Err()
		}
		if err == nil {
			err = b.nextPart()
		}
		if err == io.EOF { //nolint:errorlint // of nextPart
			return nil, err
		}
		if err != nil {
			r.fail(err)
			return nil, err
		}
	}
	in := b.scan.RecordBatch()
	in.Retain()
	made := &scanned{batches: b, in: in, owners: b.scan.Owners()}
	made.first, made.listed = b.scan.RowPositions()
	return made, nil
}

// nextPart begins the next scan of an excerpt, io.EOF when there is none.
func (b *batches) nextPart() error {
	if b.parts == nil {
		return io.EOF
	}
	ctx := b.relation.run.ctx
	req, err := b.parts(ctx)
	if err != nil {
		return err
	}
	if req == nil {
		return io.EOF
	}
	if b.scan != nil {
		b.scan.Release()
		b.scan = nil
	}
	req.Columns = b.names
	b.scan, err = b.relation.snapshot.Scan(ctx, *req)
	return err
}

// Close implements engine.Batches.
func (b *batches) Close() {
	if b.scan != nil {
		b.scan.Release()
	}
}

// bareRows are rows without columns; the manifest says how many there are.
type bareRows struct{ at, rows int64 }

// bareBatch is how many of them a thread of the engine takes at a time.
const bareBatch = 1 << 20

// Next implements engine.Batches.
func (b *bareRows) Next() (engine.Batch, error) {
	first, n := b.at, min(b.rows-b.at, bareBatch)
	if n <= 0 {
		return nil, io.EOF
	}
	b.at += n
	return engine.Made{Rows: array.NewRecordBatch(arrow.NewSchema(nil, nil), nil, n), First: uint64(first)}, nil
}

// Close implements engine.Batches.
func (b *bareRows) Close() {}

// scanned is a batch of a scan that is carried into the engine by the thread
// that takes it.
type scanned struct {
	*batches
	in     arrow.RecordBatch
	owners []*blob.Owner
	first  uint64   // position of the first row
	listed []uint64 // those of all rows when they do not follow it
}

// Make implements engine.Batch.
func (s *scanned) Make() (engine.Made, error) {
	defer s.in.Release()
	batch, window, err := s.carry()
	if err != nil {
		s.relation.run.fail(err)
	}
	return engine.Made{Rows: batch, Window: window, First: s.first, Positions: s.listed}, err
}

func (s *scanned) carry() (arrow.RecordBatch, int, error) {
	rel := s.relation
	t := &tagger{registry: rel.run.engine.registry, numbers: make([]numberer, len(s.owners))}
	for i, o := range s.owners {
		t.numbers[i] = numberer{run: rel.run, snapshot: rel.snapshot, resolver: s.resolver, owner: o}
	}
	columns := make([]arrow.Array, 0, len(s.columns))
	defer func() {
		for _, c := range columns {
			c.Release()
		}
	}()
	for i, at := range s.columns {
		first := t.next
		data, err := rel.columns[at].carrier.carry(s.in.Column(i).Data(), t)
		if err != nil {
			return nil, 0, err
		}
		columns = append(columns, array.MakeFromData(data))
		data.Release()
		t.next = first + rel.columns[at].blobs
	}
	window := 0
	if rel.run.payload.Load() {
		window = windowOf(columns, rel.run.engine.stepBytes()/2)
	}
	return array.NewRecordBatch(s.schemaOf(columns), columns, s.in.NumRows()), window, nil
}

// schemaOf is the schema of a batch, whose columns may be coded.
func (b *batches) schemaOf(columns []arrow.Array) *arrow.Schema {
	var fields []arrow.Field
	for i, c := range columns {
		if c.DataType().ID() != arrow.DICTIONARY {
			continue
		}
		if fields == nil {
			fields = b.schema.Fields()
		}
		fields[i].Type = c.DataType()
	}
	if fields == nil {
		return b.schema
	}
	return arrow.NewSchema(fields, nil)
}

// windowOf is how many rows the engine may take at a time so that the blob
// values in them are of at most so many bytes, if a single row is.
func windowOf(columns []arrow.Array, most int64) int {
	const largest = 2048
	var sizes []*array.Uint64
	for _, c := range columns {
		if s, ok := c.(*array.Struct); ok && isEngineReference(s.DataType()) {
			sizes = append(sizes, s.Field(2).(*array.Uint64))
		}
	}
	if len(sizes) == 0 {
		return 0
	}
	for window := largest; window > 1; window /= 2 {
		if fits(sizes, window, most) {
			return window
		}
	}
	return 1
}

func isEngineReference(dt arrow.DataType) bool {
	st, ok := dt.(*arrow.StructType)
	return ok && st.NumFields() == 7 && st.Field(6).Name == "tag"
}

func fits(sizes []*array.Uint64, window int, most int64) bool {
	n := sizes[0].Len()
	for from := 0; from < n; from += window {
		total := uint64(0)
		for i := from; i < min(from+window, n); i++ {
			for _, s := range sizes {
				if s.IsValid(i) {
					total = min(total+s.Value(i), 1<<62)
				}
			}
		}
		if total > uint64(most) {
			return false
		}
	}
	return true
}
