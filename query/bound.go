package query

import (
	"fmt"
	"io"
	"sort"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/flightblob/flightblob/blob"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/query/engine"
	"github.com/flightblob/flightblob/query/reference"
	"github.com/flightblob/flightblob/schema"
)

// boundFunction is what an INSERT of VALUES with parameters reads, so that all
// bound rows are one query; no statement may call it.
const boundFunction = "flightblob_bound"

// boundColumn names the column of a parameter, from 0.
func boundColumn(parameter int) string { return fmt.Sprintf("p%d", parameter) }

// boundRows are rows of parameters as a relation. Values for blob columns do not
// enter the engine: what stands for them are references by row and parameter.
type boundRows struct {
	batches []arrow.RecordBatch
	first   []int64 // number of the first row of each batch
	rows    int64
	blobs   []bool // by parameter
	carried []*carrier
}

// newBoundRows plans the relation. Types that the engine does not have are
// fault.Unsupported.
func newBoundRows(batches []arrow.RecordBatch, blobs []bool) (*boundRows, error) {
	b := &boundRows{batches: batches, blobs: blobs, carried: make([]*carrier, len(blobs))}
	for _, batch := range batches {
		b.first = append(b.first, b.rows)
		b.rows += batch.NumRows()
	}
	for i := range blobs {
		f := mapField(batches[0].Schema().Field(i), func(f arrow.Field) (arrow.Field, bool) {
			f.Metadata = arrow.Metadata{} // what a client says there means nothing here
			return f, false
		})
		f.Name = boundColumn(i)
		if blobs[i] {
			if !isBlobInput(f.Type) {
				return nil, fault.New(fault.Unsupported, "query: parameter %d is of type %s", i+1, f.Type)
			}
			continue
		}
		var err error
		if b.carried[i], err = newCarrier(f); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// isBlobInput tells the types by which clients send values of blob columns:
// bytes, and the logical structs of either shape.
func isBlobInput(t arrow.DataType) bool {
	switch t := t.(type) {
	case *arrow.BinaryType, *arrow.LargeBinaryType, *arrow.NullType:
		return true
	case *arrow.StructType:
		fields := schema.AnyBlobType.Fields()
		if t.NumFields() != 2 && t.NumFields() != 4 {
			return false
		}
		for i, f := range t.Fields() {
			if f.Name != fields[i].Name || !arrow.TypeEqual(f.Type, fields[i].Type) {
				return false
			}
		}
		return true
	}
	return false
}

// relation gives the rows to a run.
func (b *boundRows) relation(r *run) engine.Relation {
	return &boundRelation{boundRows: b, source: r.give("bound", b.given), registry: r.engine.registry}
}

// given finds the value that a reference stands for.
func (b *boundRows) given(v reference.Value) reference.Given {
	k := sort.Search(len(b.first), func(k int) bool { return b.first[k] > int64(v.Position) }) - 1
	i := int(int64(v.Position) - b.first[k])
	switch a := b.batches[k].Column(int(v.ID)).(type) {
	case *array.Binary:
		if a.IsValid(i) {
			return reference.Given{Data: present(a.Value(i))}
		}
	case *array.LargeBinary:
		if a.IsValid(i) {
			return reference.Given{Data: present(a.Value(i))}
		}
	case *array.Struct:
		if a.IsValid(i) {
			return givenStruct(a, i)
		}
	}
	return reference.Given{Null: true}
}

func present(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

func givenStruct(a *array.Struct, i int) (g reference.Given) {
	if data := a.Field(0).(*array.LargeBinary); data.IsValid(i) {
		g.Data = present(data.Value(i))
	}
	if uri := a.Field(1).(*array.String); uri.IsValid(i) {
		g.URI, g.Named = uri.Value(i), true
	}
	if a.NumField() < 4 {
		return g
	}
	if position := a.Field(2).(*array.Uint64); position.IsValid(i) {
		g.Position, g.HasPosition = position.Value(i), true
	}
	if size := a.Field(3).(*array.Uint64); size.IsValid(i) {
		g.Size, g.HasSize = size.Value(i), true
	}
	return g
}

// payload is the number of bytes that the values of blob columns have, about.
func (b *boundRows) payload() int64 {
	n := int64(0)
	for i, isBlob := range b.blobs {
		for _, batch := range b.batches {
			if isBlob {
				n += int64(batch.Column(i).Data().SizeInBytes())
			}
		}
	}
	return n
}

// boundRelation is bound rows within one run.
type boundRelation struct {
	*boundRows
	source   uint32
	registry *reference.Registry
}

func (b *boundRelation) field(i int) arrow.Field {
	if b.blobs[i] {
		return arrow.Field{Name: boundColumn(i), Type: reference.Type, Nullable: true, Metadata: engine.ReferenceMetadata}
	}
	return b.carried[i].field
}

// Schema implements engine.Relation.
func (b *boundRelation) Schema() *arrow.Schema {
	fields := make([]arrow.Field, len(b.blobs))
	for i := range fields {
		fields[i] = b.field(i)
	}
	return arrow.NewSchema(fields, nil)
}

// Rows implements engine.Relation.
func (b *boundRelation) Rows() int64 { return b.rows }

// Scan implements engine.Relation.
func (b *boundRelation) Scan(columns []int) (engine.Batches, error) {
	if len(columns) == 0 {
		return &bareRows{rows: b.rows}, nil
	}
	return &boundBatches{relation: b, columns: columns}, nil
}

type boundBatches struct {
	relation *boundRelation
	columns  []int
	next     int
}

// Next implements engine.Batches.
func (s *boundBatches) Next() (engine.Batch, error) {
	b := s.relation
	if s.next >= len(b.batches) {
		return nil, io.EOF
	}
	batch, first := b.batches[s.next], b.first[s.next]
	s.next++
	fields := make([]arrow.Field, len(s.columns))
	columns := make([]arrow.Array, 0, len(s.columns))
	defer func() {
		for _, c := range columns {
			c.Release()
		}
	}()
	for i, c := range s.columns {
		fields[i] = b.field(c)
		var data arrow.ArrayData
		var err error
		if b.blobs[c] {
			data = b.references(batch.Column(c), uint32(c), first)
		} else if data, err = b.carried[c].carry(batch.Column(c).Data(), nil); err != nil {
			return nil, err
		}
		columns = append(columns, array.MakeFromData(data))
		data.Release()
	}
	return engine.Made{Rows: array.NewRecordBatch(arrow.NewSchema(fields, nil), columns, batch.NumRows())}, nil
}

// Close implements engine.Batches.
func (s *boundBatches) Close() {}

// references makes the references of a parameter's values.
func (b *boundRelation) references(a arrow.Array, parameter uint32, first int64) arrow.ArrayData {
	n := a.Len()
	validity, positions, ids := newBits(n), newBuffer(n*arrow.Uint64SizeBytes), newBuffer(n*arrow.Uint32SizeBytes)
	kinds, sources, tags := newBuffer(n), newBuffer(n*arrow.Uint32SizeBytes), newBuffer(n*arrow.Uint64SizeBytes)
	sizes, offsets := newBuffer(n*arrow.Uint64SizeBytes), newBuffer((n+1)*arrow.Int32SizeBytes)
	buffers := []*memory.Buffer{validity, positions, ids, kinds, sources, tags, sizes, offsets}
	defer func() {
		for _, buffer := range buffers {
			buffer.Release()
		}
	}()
	position, tag := arrow.Uint64Traits.CastFromBytes(positions.Bytes()), arrow.Uint64Traits.CastFromBytes(tags.Bytes())
	id, source := arrow.Uint32Traits.CastFromBytes(ids.Bytes()), arrow.Uint32Traits.CastFromBytes(sources.Bytes())
	nulls := 0
	var scratch []byte
	for i := range n {
		if a.DataType().ID() == arrow.NULL || a.IsNull(i) {
			nulls++
			continue
		}
		bitutil.SetBit(validity.Bytes(), i)
		v := reference.Value{Source: b.source}
		v.Kind, v.Position, v.ID = blob.External, uint64(first)+uint64(i), parameter
		kinds.Bytes()[i], position[i], id[i], source[i] = uint8(v.Kind), v.Position, v.ID, v.Source
		tag[i] = b.registry.Tag(&v, &scratch)
	}
	fixed := func(t arrow.DataType, values *memory.Buffer) arrow.ArrayData {
		return array.NewData(t, n, []*memory.Buffer{nil, values}, nil, 0, 0)
	}
	children := []arrow.ArrayData{
		fixed(arrow.PrimitiveTypes.Uint8, kinds), fixed(arrow.PrimitiveTypes.Uint64, positions), fixed(arrow.PrimitiveTypes.Uint64, sizes),
		fixed(arrow.PrimitiveTypes.Uint32, ids),
		array.NewData(arrow.BinaryTypes.String, n, []*memory.Buffer{nil, offsets, nil}, nil, 0, 0),
		fixed(arrow.PrimitiveTypes.Uint32, sources), fixed(arrow.PrimitiveTypes.Uint64, tags),
	}
	defer func() {
		for _, c := range children {
			c.Release()
		}
	}()
	return array.NewData(reference.Type, n, []*memory.Buffer{validity}, children, nulls, 0)
}
