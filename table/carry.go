package table

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/flightblob/flightblob/blob"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/schema"
)

// Carrier turns rows of a scan into rows for an appender: blob values become
// references to what is stored, so that an appender decides what moves (RWR-1)
// and nothing is read here. It is for one goroutine.
type Carrier struct {
	snapshot *Snapshot
	resolver *blob.Resolver
	owners   []*blob.Owner // by source number, without the mark and less one
	numbers  map[*blob.Owner]uint32
	remap    func(*blob.Owner, blob.Descriptor) (blob.Descriptor, error) // of each value; nil for none
	owner    func(*blob.Owner) *blob.Owner                               // of remapped values
}

// Source numbers of a carrier are marked, so that they can stand beside those of
// others: the lower bits are the owner's place. Values that no data file holds,
// which are all null, have the mark alone.
const carried = uint32(1) << 31

// Carry makes a carrier of rows of this version, for writes to this table.
func (s *Snapshot) Carry() *Carrier {
	return &Carrier{snapshot: s, resolver: s.Resolver(), numbers: map[*blob.Owner]uint32{}}
}

// Carries says whether a source number of a reference is this carrier's.
func (c *Carrier) Carries(source uint32) bool { return source&carried != 0 }

// Origins finds what the references of this carrier's batches come from. The
// rows must be live until what is written is published (GC-3): those that a
// Mutation replaces are, or it fails.
func (c *Carrier) Origins(source uint32) (blob.Origin, error) {
	o := blob.Origin{Resolver: c.resolver, Same: true}
	switch n := int(source &^ carried); {
	case !c.Carries(source) || n > len(c.owners):
		return o, fault.New(fault.Internal, "table: no source %d", source)
	case n > 0:
		o.Owner = c.owners[n-1]
	}
	return o, nil
}

func (c *Carrier) number(o *blob.Owner) uint32 {
	if o == nil {
		return carried
	}
	n, ok := c.numbers[o]
	if !ok {
		from := o
		if c.owner != nil {
			from = c.owner(o)
		}
		c.owners = append(c.owners, from)
		n = carried | uint32(len(c.owners))
		c.numbers[o] = n
	}
	return n
}

// Batch gives the current batch of a scan of this version, which must have been
// opened with Columns. The caller releases it.
func (c *Carrier) Batch(scan *Scan) (arrow.RecordBatch, error) {
	rec, owners := scan.RecordBatch(), scan.Owners()
	fields := make([]arrow.Field, rec.NumCols())
	columns := make([]arrow.Array, rec.NumCols())
	defer func() {
		for _, a := range columns {
			if a != nil {
				a.Release()
			}
		}
	}()
	for i, col := range scan.plan.columns {
		fields[i] = rec.Schema().Field(i)
		if col.Field == nil || !holdsBlobs(col.Field) {
			rec.Column(i).Retain()
			columns[i] = rec.Column(i)
			continue
		}
		data, err := c.data(col.Field, rec.Column(i).Data(), &owners)
		if err != nil {
			return nil, err
		}
		columns[i] = array.MakeFromData(data)
		data.Release()
		fields[i] = arrow.Field{Name: fields[i].Name, Type: columns[i].DataType(), Nullable: true}
	}
	return array.NewRecordBatch(arrow.NewSchema(fields, nil), columns, rec.NumRows()), nil
}

func holdsBlobs(f *schema.Field) bool {
	for range f.Blobs() {
		return true
	}
	return false
}

// data puts references in the place of the descriptors of a column. owners are
// those of the blob fields that are still to come. The caller releases it.
func (c *Carrier) data(f *schema.Field, d arrow.ArrayData, owners *[]*blob.Owner) (arrow.ArrayData, error) {
	if !holdsBlobs(f) {
		d.Retain()
		return d, nil
	}
	if f.Blob != schema.NotBlob {
		if !arrow.TypeEqual(d.DataType(), schema.DescriptorType) {
			return nil, fault.New(fault.Internal, "table: descriptors of %s come as %s", f.FullName(), d.DataType())
		}
		owner := (*owners)[0]
		*owners = (*owners)[1:]
		if c.remap != nil && owner != nil {
			remapped, err := blob.Remap(memory.DefaultAllocator, d, func(d blob.Descriptor) (blob.Descriptor, error) { return c.remap(owner, d) })
			if err != nil {
				return nil, err
			}
			defer remapped.Release()
			d = remapped.Data()
		}
		source := constant(c.number(owner), d.Offset()+d.Len())
		defer source.Release()
		children := append(append([]arrow.ArrayData{}, d.Children()...), source.Data())
		return array.NewData(schema.ReferenceType, d.Len(), d.Buffers(), children, d.NullN(), d.Offset()), nil
	}
	children := make([]arrow.ArrayData, 0, len(d.Children()))
	defer func() {
		for _, child := range children {
			child.Release()
		}
	}()
	if len(d.Children()) != len(f.Children) {
		return nil, fault.New(fault.Internal, "table: %s with %d children comes as %s", f.FullName(), len(f.Children), d.DataType())
	}
	for i, child := range d.Children() {
		out, err := c.data(f.Children[i], child, owners)
		if err != nil {
			return nil, err
		}
		children = append(children, out)
	}
	return array.NewData(withChildren(d.DataType(), children), d.Len(), d.Buffers(), children, d.NullN(), d.Offset()), nil
}

// withChildren is a nested type with other types for its children.
func withChildren(t arrow.DataType, children []arrow.ArrayData) arrow.DataType {
	typed := func(f arrow.Field, i int) arrow.Field {
		f.Type = children[i].DataType()
		if arrow.TypeEqual(f.Type, schema.ReferenceType) {
			f.Metadata = arrow.Metadata{}
		}
		return f
	}
	switch t := t.(type) {
	case *arrow.StructType:
		fields := t.Fields()
		for i := range fields {
			fields[i] = typed(fields[i], i)
		}
		return arrow.StructOf(fields...)
	case *arrow.ListType:
		return arrow.ListOfField(typed(t.ElemField(), 0))
	case *arrow.LargeListType:
		return arrow.LargeListOfField(typed(t.ElemField(), 0))
	case *arrow.FixedSizeListType:
		return arrow.FixedSizeListOfField(t.Len(), typed(t.ElemField(), 0))
	case *arrow.MapType:
		entries := children[0].DataType().(*arrow.StructType)
		return arrow.MapOfFields(entries.Field(0), entries.Field(1))
	}
	return t
}

// constant is n times the same number.
func constant(value uint32, n int) *array.Uint32 {
	b := array.NewUint32Builder(memory.DefaultAllocator)
	defer b.Release()
	b.Reserve(n)
	for range n {
		b.UnsafeAppend(value)
	}
	return b.NewUint32Array()
}
