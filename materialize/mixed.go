package materialize

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/flightblob/flightblob/blob"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/schema"
)

// ReferenceType is the type of blob leaves of a Mixed source: the descriptor's
// children, and behind them the number of the place that the value came from.
var ReferenceType = schema.ReferenceType

// Mixed is a Source whose values come from several data files, tables or
// versions within one batch, as the results of statements do. Its blob leaves
// are of ReferenceType and carry the mark lance-encoding:blob; Owners has no
// meaning and is not asked.
type Mixed interface {
	Source
	// Origin gives the resolver and the owner for values of a source number.
	Origin(source uint32) (*blob.Resolver, *blob.Owner, error)
}

// origins remembers how values of each source number are resolved.
type origins struct {
	mixed Mixed
	known map[uint32]*origin
}

type origin struct {
	blobs  *blob.Resolver
	cursor blob.Cursor
}

func newOrigins(src Source) *origins {
	mixed, ok := src.(Mixed)
	if !ok {
		return nil
	}
	return &origins{mixed: mixed, known: map[uint32]*origin{}}
}

func (o *origins) of(source uint32) (*origin, error) {
	if found := o.known[source]; found != nil {
		return found, nil
	}
	blobs, owner, err := o.mixed.Origin(source)
	if err != nil {
		return nil, err
	}
	found := &origin{blobs: blobs, cursor: blobs.Cursor(owner)}
	o.known[source] = found
	return found, nil
}

// resolve resolves the descriptor of element i.
func (l *leafView) resolve(ctx context.Context, i int, d blob.Descriptor) (blob.Extent, error) {
	if l.sources == nil {
		return l.cursor.Resolve(ctx, d)
	}
	o, err := l.origins.of(l.sources.Value(i))
	if err != nil {
		return blob.Extent{}, err
	}
	return o.cursor.Resolve(ctx, d)
}

// resolver is the one that knows the bases of element i.
func (l *leafView) resolver(i int, plain *blob.Resolver) (*blob.Resolver, error) {
	if l.sources == nil {
		return plain, nil
	}
	o, err := l.origins.of(l.sources.Value(i))
	if err != nil {
		return nil, err
	}
	return o.blobs, nil
}

// checkLeaf refuses types that no blob leaf of the source may have.
func checkLeaf(dt arrow.DataType, mixed bool) error {
	if mixed {
		if !sameShape(dt, ReferenceType) {
			return fault.New(fault.Internal, "a reference column is %s, got %s", ReferenceType, dt)
		}
		return nil
	}
	return blob.CheckType(dt)
}

// reference splits a leaf of a Mixed source into descriptors and sources. The
// descriptor array lives as long as arr does.
func reference(arr arrow.Array) (blob.Column, *array.Uint32, error) {
	s, ok := arr.(*array.Struct)
	n := schema.DescriptorType.NumFields()
	if !ok || s.NumField() != n+1 {
		return blob.Column{}, nil, fault.New(fault.Internal, "a reference column is %s, got %s", ReferenceType, arr.DataType())
	}
	sources, ok := s.Field(n).(*array.Uint32)
	if !ok || sources.Len() != s.Len() {
		return blob.Column{}, nil, fault.New(fault.Internal, "a reference column without sources")
	}
	data := s.Data()
	part := array.NewData(schema.DescriptorType, data.Len(), lent(data.Buffers()), lentData(data.Children()[:n]), data.NullN(), data.Offset())
	column, err := blob.AsColumn(array.NewStructData(part))
	return column, sources, err
}

// lent wraps the bytes of buffers, so that arrays over them need no release
// and are valid while the buffers' owner is retained.
func lent(buffers []*memory.Buffer) []*memory.Buffer {
	out := make([]*memory.Buffer, len(buffers))
	for i, b := range buffers {
		if b != nil {
			out[i] = memory.NewBufferBytes(b.Bytes())
		}
	}
	return out
}

func lentData(children []arrow.ArrayData) []arrow.ArrayData {
	out := make([]arrow.ArrayData, len(children))
	for i, c := range children {
		out[i] = array.NewData(c.DataType(), c.Len(), lent(c.Buffers()), nil, c.NullN(), c.Offset())
	}
	return out
}
