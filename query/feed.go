package query

import (
	"context"
	"errors"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/flightblob/flightblob/blob"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/query/reference"
	"github.com/flightblob/flightblob/schema"
	"github.com/flightblob/flightblob/table"
)

// feed moves the rows of queries into an appender. Blob values go as what they
// are: bytes, URIs, or references to stored values, of which the appender keeps
// what the table may refer to and copies the rest. No payload passes through the
// engine or through a result.
type feed struct {
	engine *Engine
	into   *table.Appender
	input  *arrow.Schema // of the batches for the appender, see feedSchema
	// shared is the version whose objects the target may refer to again: it must be
	// protected until the write is published (GC-3). nil means that all are copied.
	shared *table.Snapshot
	// slice is how many rows are handed over at once, 0 for all of a batch.
	slice int64
	// rows says what the numbers of rows in errors are of; first is the number of
	// the first.
	rows  string // such as "row %d of VALUES"
	first int
	wrote int64
}

// feedSchema is the schema of the batches that a feed gives to an appender for
// fields of a table: blob columns take values of all kinds.
func feedSchema(fields []*schema.Field) (*arrow.Schema, error) {
	s, err := logicalSchema(fields)
	if err != nil {
		return nil, err
	}
	return anyBlobs(s), nil
}

// anyBlobs gives blob columns of a logical schema the type of values of all kinds.
func anyBlobs(s *arrow.Schema) *arrow.Schema {
	fields := s.Fields()
	for i, f := range fields {
		fields[i] = mapField(f, func(f arrow.Field) (arrow.Field, bool) {
			if name, _ := f.Metadata.GetValue(schema.KeyExtensionName); name != schema.ExtensionBlobV2 {
				return f, false
			}
			return arrow.Field{Name: f.Name, Type: schema.AnyBlobType, Nullable: true}, true
		})
	}
	return arrow.NewSchema(fields, nil)
}

// options completes the options of a write that the feed fills. What blob_ref
// names may lie anywhere the server may touch.
func (f *feed) options(o table.WriteOptions) table.WriteOptions {
	o.AllowOutsideBases = true
	o.Origins = f.origin
	return o
}

// origin finds where stored values come from.
func (f *feed) origin(source uint32) (blob.Origin, error) {
	o := f.engine.registry.Origin(source)
	if o == nil || o.Given != nil {
		return blob.Origin{}, fault.New(fault.Internal, "query: a blob value of no table")
	}
	from, ok := o.From.(*table.Snapshot)
	same := ok && f.shared != nil && from.Version() == f.shared.Version() && from.Ref().Branch == f.shared.Ref().Branch &&
		from.Table().Root() == f.shared.Table().Root()
	return blob.Origin{Resolver: o.Resolver, Owner: o.Owner, Same: same}, nil
}

// rows starts the statement on the versions that it was prepared on; blob columns
// come as references.
func (s *Statement) rows(ctx context.Context) (*result, error) {
	if s.bound != nil {
		s = s.bound
	}
	r, p, err := s.take(ctx, true)
	if err != nil {
		return nil, err
	}
	rows, err := s.start(ctx, r, p, QueryOptions{View: schema.Logical})
	if err != nil {
		p.prepared.Close()
		r.close()
	}
	return rows, err
}

// feed runs the statement for a feed.
func (s *Statement) feed(ctx context.Context, f *feed) error {
	rows, err := s.rows(ctx)
	if err != nil {
		return err
	}
	defer rows.Release()
	return f.take(ctx, rows)
}

// take writes all rows of a result.
func (f *feed) take(ctx context.Context, rows *result) error {
	for rows.Next() {
		batch := rows.RecordBatch()
		step := batch.NumRows()
		if f.slice > 0 {
			step = f.slice
		}
		for at := int64(0); at < batch.NumRows(); at += step {
			part := batch.NewSlice(at, min(at+step, batch.NumRows()))
			err := f.write(ctx, part)
			part.Release()
			if err != nil {
				return err
			}
		}
	}
	return rows.Err()
}

func (f *feed) write(ctx context.Context, batch arrow.RecordBatch) error {
	shaped, err := f.shaped(batch)
	if err != nil {
		return err
	}
	defer shaped.Release()
	if err := f.into.Write(ctx, shaped); err != nil {
		return f.numbered(err)
	}
	f.wrote += batch.NumRows()
	return nil
}

// shaped gives rows of a result the feed's schema. The caller releases them.
func (f *feed) shaped(batch arrow.RecordBatch) (arrow.RecordBatch, error) {
	columns := make([]arrow.Array, 0, batch.NumCols())
	defer func() {
		for _, c := range columns {
			c.Release()
		}
	}()
	for i, c := range batch.Columns() {
		data, err := f.data(c.Data(), f.input.Field(i).Type)
		if err != nil {
			return nil, err
		}
		columns = append(columns, array.MakeFromData(data))
		data.Release()
	}
	return array.NewRecordBatch(f.input, columns, batch.NumRows()), nil
}

// numbered gives the row in an error about a value its number among all rows of
// the statement.
func (f *feed) numbered(err error) error {
	var ofBlob *blob.InputError
	var other *schema.RowError
	switch {
	case errors.As(err, &ofBlob):
		return f.at(fault.KindOf(err), ofBlob.Field, ofBlob.Row, ofBlob.Reason())
	case errors.As(err, &other):
		return f.at(fault.KindOf(err), other.Field, other.Row, other.Reason())
	}
	return err
}

// at is an error about a value in a row of the batch that is being written; reason
// begins with ": ", or with the place in a list.
func (f *feed) at(kind fault.Kind, column string, row int, reason string) error {
	return fault.New(kind, "query: column %s, "+f.rows+"%s", column, f.first+int(f.wrote)+row, reason)
}

// data turns an array of a result into one of a feed's input. The caller
// releases it.
func (f *feed) data(data arrow.ArrayData, to arrow.DataType) (arrow.ArrayData, error) {
	if arrow.TypeEqual(to, schema.AnyBlobType) {
		switch {
		case data.DataType().ID() == arrow.LARGE_BINARY:
			return bytesAsAny(data), nil
		case arrow.TypeEqual(data.DataType(), schema.ReferenceType):
			return f.asAny(data)
		}
		return nil, misfit(data.DataType(), to)
	}
	nested, ok := to.(arrow.NestedType)
	if !ok || len(data.Children()) == 0 {
		data.Retain()
		return data, nil
	}
	fields := nested.Fields()
	children := make([]arrow.ArrayData, 0, len(data.Children()))
	defer func() {
		for _, c := range children {
			c.Release()
		}
	}()
	for i, c := range data.Children() {
		if i >= len(fields) {
			return nil, misfit(data.DataType(), to)
		}
		child, err := f.data(c, fields[i].Type)
		if err != nil {
			return nil, err
		}
		children = append(children, child)
	}
	return array.NewData(to, data.Len(), data.Buffers(), children, data.NullN(), data.Offset()), nil
}

// bytesAsAny makes blob input of bytes.
func bytesAsAny(data arrow.ArrayData) arrow.ArrayData {
	return anyData(data.Len(), validityOf(data), data.NullN(), data, nil)
}

// anyData puts together blob input: of parts, those that are nil are null. It
// takes over validity and the parts but the first.
func anyData(n int, validity *memory.Buffer, nulls int, parts ...arrow.ArrayData) arrow.ArrayData {
	fields := schema.AnyBlobType.Fields()
	children := make([]arrow.ArrayData, len(fields))
	for i, f := range fields {
		if i < len(parts) && parts[i] != nil {
			children[i] = parts[i]
			if i == 0 {
				children[i].Retain()
			}
			continue
		}
		children[i] = taken(array.MakeArrayOfNull(memory.DefaultAllocator, f.Type, n))
	}
	defer func() {
		for _, c := range children {
			c.Release()
		}
		if validity != nil {
			validity.Release()
		}
	}()
	return array.NewData(schema.AnyBlobType, n, []*memory.Buffer{validity}, children, nulls, 0)
}

// asAny makes blob input of references: given values become what they are, the
// others stay references.
func (f *feed) asAny(data arrow.ArrayData) (arrow.ArrayData, error) {
	a := array.NewStructData(data)
	defer a.Release()
	source, ok := a.Field(schema.DescriptorType.NumFields()).(*array.Uint32)
	if !ok {
		return nil, misfit(data.DataType(), schema.AnyBlobType)
	}
	given := map[uint32]func(reference.Value) reference.Given{}
	for i := range a.Len() {
		if a.IsNull(i) {
			continue
		}
		n := source.Value(i)
		if _, known := given[n]; known {
			continue
		}
		o := f.engine.registry.Origin(n)
		if o == nil {
			return nil, fault.New(fault.Internal, "query: a blob value of no table")
		}
		given[n] = o.Given
	}
	made := newAnyBuilder(a.Len())
	defer made.release()
	for i := range a.Len() {
		switch {
		case a.IsNull(i):
			made.null()
		case given[source.Value(i)] == nil:
			made.stored(i)
		default:
			made.given(given[source.Value(i)](valueAt(a, i)))
		}
	}
	return made.over(data), nil
}

// valueAt is what a given value's reference says.
func valueAt(a *array.Struct, i int) reference.Value {
	return valueOf(i, a.Field(1).(*array.Uint64), a.Field(2).(*array.Uint64), a.Field(3).(*array.Uint32), a.Field(4).(*array.String))
}

// anyBuilder builds blob input value by value.
type anyBuilder struct {
	n, nulls       int
	validity       *memory.Buffer
	keeps          *memory.Buffer // values that stay references
	kept           int
	data           *array.BinaryBuilder
	uri            *array.StringBuilder
	position, size *array.Uint64Builder
}

func newAnyBuilder(n int) *anyBuilder {
	b := &anyBuilder{
		data:     array.NewBinaryBuilder(memory.DefaultAllocator, arrow.BinaryTypes.LargeBinary),
		uri:      array.NewStringBuilder(memory.DefaultAllocator),
		position: array.NewUint64Builder(memory.DefaultAllocator),
		size:     array.NewUint64Builder(memory.DefaultAllocator),
	}
	b.validity, b.keeps = newBits(n), newBits(n)
	return b
}

func (b *anyBuilder) release() {
	b.data.Release()
	b.uri.Release()
	b.position.Release()
	b.size.Release()
	b.validity.Release()
	b.keeps.Release()
}

func (b *anyBuilder) add(valid, keep bool, g reference.Given) {
	if valid {
		setBit(b.validity, b.n)
	} else {
		b.nulls++
	}
	if keep {
		setBit(b.keeps, b.n)
		b.kept++
	}
	b.n++
	if g.Data != nil {
		b.data.Append(g.Data)
	} else {
		b.data.AppendNull()
	}
	if g.Named {
		b.uri.Append(g.URI)
	} else {
		b.uri.AppendNull()
	}
	for _, end := range []struct {
		to  *array.Uint64Builder
		has bool
		v   uint64
	}{{b.position, g.HasPosition, g.Position}, {b.size, g.HasSize, g.Size}} {
		if end.has {
			end.to.Append(end.v)
		} else {
			end.to.AppendNull()
		}
	}
}

func (b *anyBuilder) null()      { b.add(false, false, reference.Given{}) }
func (b *anyBuilder) stored(int) { b.add(true, true, reference.Given{}) }

// given adds a given value.
func (b *anyBuilder) given(g reference.Given) { b.add(!g.Null, false, g) }

// over puts the input together with the references that it was made of.
func (b *anyBuilder) over(references arrow.ArrayData) arrow.ArrayData {
	children := make([]arrow.ArrayData, len(references.Children()))
	for i, c := range references.Children() {
		children[i] = array.NewSliceData(c, int64(references.Offset()), int64(references.Offset()+b.n))
		defer children[i].Release()
	}
	stored := array.NewData(schema.ReferenceType, b.n, []*memory.Buffer{b.keeps}, children, b.n-b.kept, 0)
	data := taken(b.data.NewArray())
	defer data.Release()
	b.validity.Retain()
	return anyData(b.n, b.validity, b.nulls, data, taken(b.uri.NewArray()), taken(b.position.NewArray()), taken(b.size.NewArray()), stored)
}
