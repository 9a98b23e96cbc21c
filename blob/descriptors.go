package blob

import (
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/internal/nest"
	"github.com/flightblob/flightblob/schema"
)

// descriptors builds a descriptor array of a known length. Children below a
// null are zero (NUL-1).
type descriptors struct {
	n, at, nulls int
	valid        *memory.Buffer
	kind         *memory.Buffer
	position     *memory.Buffer
	size         *memory.Buffer
	id           *memory.Buffer
	offsets      *memory.Buffer
	uris         *memory.Buffer
	used         int
}

func newDescriptors(mem memory.Allocator, n int) *descriptors {
	zeros := func(size int) *memory.Buffer {
		b := memory.NewResizableBuffer(mem)
		b.Resize(size)
		memory.Set(b.Bytes(), 0)
		return b
	}
	return &descriptors{
		n: n, valid: zeros(int(bitutil.BytesForBits(int64(n)))), kind: zeros(n), position: zeros(8 * n), size: zeros(8 * n),
		id: zeros(4 * n), offsets: zeros(4 * (n + 1)), uris: memory.NewResizableBuffer(mem),
	}
}

func (b *descriptors) null() {
	b.nulls++
	b.end()
}

func (b *descriptors) add(d Descriptor) error {
	bitutil.SetBit(b.valid.Bytes(), b.at)
	b.kind.Bytes()[b.at] = byte(d.Kind)
	arrow.Uint64Traits.CastFromBytes(b.position.Bytes())[b.at] = d.Position
	arrow.Uint64Traits.CastFromBytes(b.size.Bytes())[b.at] = d.Size
	arrow.Uint32Traits.CastFromBytes(b.id.Bytes())[b.at] = d.ID
	if n := len(d.URI); n > 0 {
		if n > math.MaxInt32-b.used {
			return fault.New(fault.Exhausted, "blob: the URIs of a batch have more than 2^31-1 bytes; send smaller batches")
		}
		if need := b.used + n; need > b.uris.Len() {
			b.uris.Resize(max(need, 2*b.uris.Len(), 1024))
		}
		b.used += copy(b.uris.Bytes()[b.used:], d.URI)
	}
	b.end()
	return nil
}

func (b *descriptors) end() {
	b.at++
	arrow.Int32Traits.CastFromBytes(b.offsets.Bytes())[b.at] = int32(b.used)
}

// finish gives the array.
func (b *descriptors) finish() arrow.Array {
	b.uris.Reserve(1)
	b.uris.ResizeNoShrink(b.used)
	types := schema.DescriptorType.Fields()
	child := func(i int, buffers ...*memory.Buffer) arrow.Array {
		for _, buf := range buffers {
			buf.Retain()
		}
		return nest.Assemble(types[i].Type, b.n, append([]*memory.Buffer{nil}, buffers...), nil, 0)
	}
	children := []arrow.Array{child(0, b.kind), child(1, b.position), child(2, b.size), child(3, b.id), child(4, b.offsets, b.uris)}
	var valid *memory.Buffer
	if b.nulls > 0 {
		valid = b.valid
		valid.Retain()
	}
	return nest.Assemble(schema.DescriptorType, b.n, []*memory.Buffer{valid}, children, b.nulls)
}

// release gives the builder's own references back.
func (b *descriptors) release() {
	for _, buf := range []*memory.Buffer{b.valid, b.kind, b.position, b.size, b.id, b.offsets, b.uris} {
		buf.Release()
	}
}

// withDescriptors gives the batch with columns of descriptors in place of the
// blob leaves, in their order. Everything around them is as it was.
func (in *Inputs) withDescriptors(mem memory.Allocator, leaves []arrow.Array) (arrow.RecordBatch, error) {
	r := rebuilder{mem: mem, leaves: leaves}
	fields := in.batch.Schema().Fields()
	columns := make([]arrow.Array, 0, len(fields))
	defer func() {
		for _, c := range columns {
			c.Release()
		}
	}()
	out := make([]arrow.Field, len(fields))
	for i, f := range in.table.Fields {
		c := in.batch.Column(i)
		if holdsBlobs(f) {
			c = r.field(f, c)
		} else {
			c.Retain()
		}
		columns = append(columns, c)
		out[i] = arrow.Field{Name: f.Name, Type: c.DataType(), Nullable: f.Nullable}
	}
	return array.NewRecordBatch(arrow.NewSchema(out, nil), columns, in.batch.NumRows()), nil
}

// rebuilder puts nested arrays together around new leaves.
type rebuilder struct {
	mem    memory.Allocator
	leaves []arrow.Array
}

// field rebuilds an array of f, which holds blobs.
func (r *rebuilder) field(f *schema.Field, a arrow.Array) arrow.Array {
	if f.Blob != schema.NotBlob {
		leaf := r.leaves[0]
		r.leaves = r.leaves[1:]
		leaf.Retain()
		return leaf
	}
	switch a := a.(type) {
	case *array.Struct:
		children := make([]arrow.Array, a.NumField())
		types := make([]arrow.Field, a.NumField())
		for i, c := range f.Children {
			if holdsBlobs(c) {
				children[i] = r.field(c, a.Field(i))
			} else {
				children[i] = a.Field(i)
				children[i].Retain()
			}
			types[i] = arrow.Field{Name: c.Name, Type: children[i].DataType(), Nullable: c.Nullable}
		}
		return nest.Assemble(arrow.StructOf(types...), a.Len(), []*memory.Buffer{nest.Validity(r.mem, a)}, children, a.NullN())
	case *array.List:
		items, first := nest.Items(a)
		defer items.Release()
		child := r.field(f.Children[0], items)
		t := arrow.ListOfField(arrow.Field{Name: f.Children[0].Name, Type: child.DataType(), Nullable: f.Children[0].Nullable})
		return nest.Assemble(t, a.Len(), []*memory.Buffer{nest.Validity(r.mem, a), nest.Offsets32(r.mem, a, first)}, []arrow.Array{child}, a.NullN())
	default:
		large := a.(*array.LargeList) // walk let nothing else through
		items, first := nest.Items(large)
		defer items.Release()
		child := r.field(f.Children[0], items)
		t := arrow.LargeListOfField(arrow.Field{Name: f.Children[0].Name, Type: child.DataType(), Nullable: f.Children[0].Nullable})
		return nest.Assemble(t, a.Len(), []*memory.Buffer{nest.Validity(r.mem, a), nest.Offsets64(r.mem, large, first)}, []arrow.Array{child}, a.NullN())
	}
}
