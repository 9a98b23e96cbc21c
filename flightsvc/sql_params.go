package flightsvc

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/flightblob/flightblob/flightsvc/wire"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/internal/spelling"
)

// Bounds of bound parameters, in bytes of Arrow data. Those that come with an
// update are used at once and given back; they count among the writes that run,
// see puts.
const (
	maxBound    = 64 << 20  // of one statement
	maxBoundAll = 256 << 20 // of all statements and leases together
)

// bound is the parameters of a statement: rows to run it with, one after the
// other. Prepared statement and leases share it; nil stands for none.
type bound struct {
	batches []arrow.RecordBatch
	schema  *arrow.Schema
	size    int64
	refs    atomic.Int64
	room    room
}

// room counts the bytes of bound parameters.
type room interface {
	// take counts n more bytes of parameters that hold held bytes by now, or refuses
	// them.
	take(n, held int64) error
	// free gives bytes back.
	free(n int64)
}

// gauge is the room of parameters that are kept with statements.
type gauge struct{ all *atomic.Int64 }

func (g gauge) take(n, held int64) error {
	all := g.all.Add(n)
	var err error
	switch {
	case held+n > maxBound:
		err = fault.New(fault.Exhausted, "parameters: more than %d bytes; bind fewer rows at a time", maxBound)
	case all > maxBoundAll:
		err = fault.New(fault.Exhausted, "parameters: all clients together hold more than %d bytes; close statements that are done", maxBoundAll)
	}
	if err != nil {
		g.all.Add(-n)
	}
	return err
}

func (g gauge) free(n int64) { g.all.Add(-n) }

// errUnbound is for parameters that were replaced while they were looked at.
var errUnbound = fault.New(fault.Conflict, "statement: its parameters were bound anew meanwhile; run it again")

// retain keeps the parameters for one more user; false when the last one is
// gone already.
func (b *bound) retain() bool {
	if b == nil {
		return true
	}
	for {
		n := b.refs.Load()
		if n == 0 {
			return false
		}
		if b.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (b *bound) release() {
	if b != nil && b.refs.Add(-1) == 0 {
		b.room.free(b.size)
		for _, batch := range b.batches {
			batch.Release()
		}
	}
}

// first is a batch with a row of parameters, or with their types when there is
// none; nil when nothing is bound.
func (b *bound) first() arrow.RecordBatch {
	if b == nil {
		return nil
	}
	for _, batch := range b.batches {
		if batch.NumRows() > 0 {
			return batch
		}
	}
	return array.NewRecordBatch(b.schema, emptyColumns(b.schema), 0)
}

func emptyColumns(s *arrow.Schema) []arrow.Array {
	columns := make([]arrow.Array, s.NumFields())
	for i, f := range s.Fields() {
		columns[i] = array.MakeArrayOfNull(memory.DefaultAllocator, f.Type, 0)
	}
	return columns
}

// announced is how parameters are described to a client. Some build what they
// send by the description, and are told what they build rightly: the JDBC driver
// writes milliseconds into times of any unit; database/sql of Go goes by the
// values where it is told nothing, and cannot send what is not in its list.
func announced(ctx context.Context, params *arrow.Schema) *arrow.Schema {
	if params == nil || params.NumFields() == 0 {
		return nil
	}
	md, _ := metadata.FromIncomingContext(ctx)
	agent := strings.Join(md.Get(headerUserAgent), " ")
	fields := params.Fields()
	for i, f := range fields {
		switch {
		case strings.Contains(agent, "grpc-java"):
			switch dt := f.Type.(type) {
			case *arrow.TimestampType:
				fields[i].Type = &arrow.TimestampType{Unit: arrow.Millisecond, TimeZone: dt.TimeZone}
			case *arrow.Time64Type:
				fields[i].Type = arrow.FixedWidthTypes.Time32ms
			}
		case strings.Contains(agent, "grpc-go") && !strings.Contains(agent, "ADBC"):
			if f.HasMetadata() || !slices.Contains(goBuilds, f.Type.ID()) {
				return nil
			}
		}
	}
	return arrow.NewSchema(fields, nil)
}

// goBuilds are the types of parameters that database/sql of arrow-go sends.
var goBuilds = []arrow.Type{arrow.BOOL, arrow.INT64, arrow.FLOAT64, arrow.STRING}

// fits checks the number of parameters, which are matched by position.
func (b *bound) fits(params *arrow.Schema) error {
	want, have := 0, 0
	if params != nil {
		want = params.NumFields()
	}
	if b != nil {
		have = b.schema.NumFields()
	}
	switch {
	case want == have:
		return nil
	case have == 0:
		return fault.New(fault.Invalid, "statement: it has %s, and none is bound", spelling.Count(want, "parameter"))
	}
	verb := "are"
	if have == 1 {
		verb = "is"
	}
	return fault.New(fault.Invalid, "statement: it has %s, %d %s bound", spelling.Count(want, "parameter"), have, verb)
}

// declared undoes what the bi profile changed in the description of parameters.
func (b *bound) declared(params *arrow.Schema) error {
	to := fromBISchema(b.schema, params)
	for i, batch := range b.batches {
		converted, err := fromBIParams(batch, to, memory.DefaultAllocator)
		if err != nil {
			return err
		}
		b.batches[i] = converted
		batch.Release()
	}
	b.schema = to
	return nil
}

// atRow says which of several rows of parameters an error is about.
func (b *bound) atRow(batch, row int, err error) error {
	if b == nil {
		return err
	}
	at, all := int64(row), int64(0)
	for i, have := range b.batches {
		if i < batch {
			at += have.NumRows()
		}
		all += have.NumRows()
	}
	if all < 2 {
		return err
	}
	return fmt.Errorf("row %d of the parameters: %w", at, err)
}

// readParams reads parameters from a stream. Nothing is bound when there are no
// columns: nil. Dictionaries and views become plain.
func (s *Server) readParams(stream flight.DataStreamReader, room room) (b *bound, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fault.New(fault.Invalid, "parameters: the record batches are damaged")
		}
		if err != nil {
			b.release()
			b = nil
		}
	}()
	r, err := flight.NewRecordReader(stream, ipc.WithAllocator(memory.NewGoAllocator()))
	if err != nil {
		return nil, notReadable(err)
	}
	defer r.Release()
	b = &bound{schema: plainSchema(r.Schema()), room: room}
	b.refs.Store(1)
	for r.Next() {
		chosen, err := withoutUnions(r.RecordBatch())
		if err != nil {
			return b, err
		}
		if len(b.batches) == 0 {
			b.schema = plainSchema(chosen.Schema())
		}
		plain, err := plainBatch(chosen, b.schema)
		chosen.Release()
		if err != nil {
			return b, err
		}
		b.batches = append(b.batches, plain)
		if err := b.add(plain); err != nil {
			return b, err
		}
	}
	if err := r.Err(); err != nil {
		return b, notReadable(err)
	}
	if b.schema.NumFields() == 0 {
		b.release()
		return nil, nil
	}
	return b, nil
}

// withoutUnions puts the values of union columns in their place: some clients
// send each value as one, of which a single child is used. The caller releases
// the result.
func withoutUnions(b arrow.RecordBatch) (arrow.RecordBatch, error) {
	fields := slices.Clone(b.Schema().Fields())
	columns := make([]arrow.Array, 0, len(fields))
	defer func() {
		for _, c := range columns {
			c.Release()
		}
	}()
	for i, c := range b.Columns() {
		u, ok := c.(array.Union)
		if !ok {
			c.Retain()
			columns = append(columns, c)
			continue
		}
		values, err := onlyChild(u)
		if err != nil {
			return nil, fault.New(fault.Invalid, "parameters: column %d: %w", i, err)
		}
		columns = append(columns, values)
		fields[i] = arrow.Field{Name: fields[i].Name, Type: values.DataType(), Nullable: true}
	}
	return array.NewRecordBatch(arrow.NewSchema(fields, nil), columns, b.NumRows()), nil
}

// onlyChild gives the values of a union all of whose rows use one child.
func onlyChild(u array.Union) (arrow.Array, error) {
	n := u.Len()
	if n == 0 {
		return array.NewNull(0), nil
	}
	child, first := u.ChildID(0), 0
	dense, isDense := u.(*array.DenseUnion)
	if isDense {
		first = int(dense.ValueOffset(0))
	} else {
		first = u.Data().Offset()
	}
	for i := range n {
		if u.ChildID(i) != child || isDense && int(dense.ValueOffset(i)) != first+i {
			return nil, fault.New(fault.Invalid, "a union of several types; send each type in rows of its own")
		}
	}
	values := u.Field(child)
	if first < 0 || first+n > values.Len() {
		return nil, fault.New(fault.Invalid, "a union whose rows are not among its values")
	}
	return array.NewSlice(values, int64(first), int64(first+n)), nil
}

// add counts a batch and checks it.
func (b *bound) add(batch arrow.RecordBatch) error {
	n := encodedBatch(batch, 0, batch.NumRows(), wire.Uncompressed)
	if err := b.room.take(n, b.size); err != nil {
		return err
	}
	b.size += n
	for i, c := range batch.Columns() {
		if err := intact(c); err != nil {
			return fault.New(fault.Invalid, "parameters: column %d is damaged: %v", i, err)
		}
	}
	return nil
}

// intact checks what could lead out of an array's bounds.
func intact(a arrow.Array) error {
	if v, ok := a.(interface{ ValidateFull() error }); ok {
		if err := v.ValidateFull(); err != nil {
			return err
		}
	}
	switch a := a.(type) {
	case array.ListLike:
		last := int64(0)
		for i := range a.Len() {
			start, end := a.ValueOffsets(i)
			if start < last || end < start || end > int64(a.ListValues().Len()) {
				return fmt.Errorf("list %d covers values %d to %d of %d", i, start, end, a.ListValues().Len())
			}
			last = start
		}
		return intact(a.ListValues())
	case *array.Struct:
		for i := range a.NumField() {
			if err := intact(a.Field(i)); err != nil {
				return err
			}
		}
	}
	return nil
}

// notReadable classes errors of reading record batches: a stream that broke
// keeps its own.
func notReadable(err error) error {
	if _, ok := status.FromError(err); ok {
		return err
	}
	return fault.New(fault.Invalid, "parameters: the stream holds no readable record batches: %v", err)
}

// plainSchema gives dictionary and view columns, at any depth, the type of
// their values, as SQL shows them.
func plainSchema(s *arrow.Schema) *arrow.Schema {
	fields := make([]arrow.Field, s.NumFields())
	for i, f := range s.Fields() {
		fields[i] = plainField(f)
	}
	m := s.Metadata()
	return arrow.NewSchema(fields, &m)
}

func plainField(f arrow.Field) arrow.Field {
	f.Type = plainType(f.Type)
	return f
}

func plainType(t arrow.DataType) arrow.DataType {
	switch t := t.(type) {
	case *arrow.StringViewType:
		return arrow.BinaryTypes.String
	case *arrow.BinaryViewType:
		return arrow.BinaryTypes.Binary
	case *arrow.DictionaryType:
		return plainType(t.ValueType)
	}
	return withChildren(t, plainField)
}

// withChildren is a nested type with each child field changed; other types stay.
func withChildren(t arrow.DataType, change func(arrow.Field) arrow.Field) arrow.DataType {
	switch t := t.(type) {
	case *arrow.StructType:
		fields := make([]arrow.Field, t.NumFields())
		for i, f := range t.Fields() {
			fields[i] = change(f)
		}
		return arrow.StructOf(fields...)
	case *arrow.MapType:
		m := arrow.MapOfFields(change(t.KeyField()), change(t.ItemField()))
		m.KeysSorted = t.KeysSorted
		return m
	case *arrow.ListType:
		return arrow.ListOfField(change(t.ElemField()))
	case *arrow.LargeListType:
		return arrow.LargeListOfField(change(t.ElemField()))
	case *arrow.FixedSizeListType:
		return arrow.FixedSizeListOfField(t.Len(), change(t.ElemField()))
	}
	return t
}

// plainBatch converts a batch to a schema of plainSchema. The caller releases
// the result.
func plainBatch(b arrow.RecordBatch, to *arrow.Schema) (arrow.RecordBatch, error) {
	return biBatch(b, to, memory.DefaultAllocator)
}
