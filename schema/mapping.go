package schema

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/internal/nest"
	"github.com/flightblob/flightblob/internal/validate"
)

// Mapping brings batches of one input schema into a table's columns. It may be
// used from any goroutine.
type Mapping struct {
	table *Schema
	input *arrow.Schema
	plans []*plan
	out   *arrow.Schema
}

func newMapping(s *Schema, input *arrow.Schema, plans []*plan) (*Mapping, error) {
	fields := make([]arrow.Field, len(plans))
	for i, p := range plans {
		fields[i] = arrow.Field{Name: p.to.Name, Type: p.out, Nullable: p.to.Nullable}
	}
	return &Mapping{table: s, input: input, plans: plans, out: arrow.NewSchema(fields, nil)}, nil
}

// Schema is that of the batches that Apply gives: the table's columns in the
// table's order, leaves as files hold them (JSON in binary form), blob columns
// as the input has them, extension types and views unwrapped.
func (m *Mapping) Schema() *arrow.Schema { return m.out }

// Input is the schema of the batches that Apply takes.
func (m *Mapping) Input() *arrow.Schema { return m.input }

// Absent lists the top-level columns that the input does not have; all their
// values are null.
func (m *Mapping) Absent() []*Field {
	var out []*Field
	for _, p := range m.plans {
		if p.from < 0 {
			out = append(out, p.to)
		}
	}
	return out
}

// Apply checks a batch and brings it into the table's columns. Values are
// shared with the batch where they need no conversion; the caller releases the
// result, and still owns the batch. Errors name the dotted field and the row of
// the batch: fault.Invalid. Blob values are not judged here, package blob does
// that; everything else is (ERR-19).
func (m *Mapping) Apply(mem memory.Allocator, batch arrow.RecordBatch) (arrow.RecordBatch, error) {
	if int(batch.NumCols()) != m.input.NumFields() {
		return nil, fault.New(fault.Invalid, "schema: a batch has %d columns, its schema %d", batch.NumCols(), m.input.NumFields())
	}
	n := int(batch.NumRows())
	columns := make([]arrow.Array, len(m.plans))
	defer func() {
		for _, c := range columns {
			if c != nil {
				c.Release()
			}
		}
	}()
	c := converter{mem: mem}
	for i, p := range m.plans {
		var in arrow.Array
		if p.from >= 0 {
			in = batch.Column(p.from)
			if err := m.checkColumn(p, in, n); err != nil {
				return nil, err
			}
		}
		var err error
		if columns[i], err = c.apply(p, in, n, nil); err != nil {
			return nil, err
		}
		if err := required(p.to, columns[i]); err != nil {
			return nil, err
		}
	}
	return array.NewRecordBatch(m.out, columns, int64(n)), nil
}

// checkColumn trusts nothing of a column, not even its type.
func (m *Mapping) checkColumn(p *plan, in arrow.Array, n int) error {
	if want := m.input.Field(p.from).Type; !arrow.TypeEqual(want, in.DataType()) {
		return fault.New(fault.Invalid, "schema: column %s has type %s in a batch and %s in the schema before it", p.to.dotted(), typeText(in.DataType()), typeText(want))
	}
	if in.Len() != n {
		return fault.New(fault.Invalid, "schema: column %s has %d values in a batch of %d rows", p.to.dotted(), in.Len(), n)
	}
	if err := validate.Array(in); err != nil {
		return fault.New(fault.Invalid, "schema: column %s: %w", p.to.dotted(), err)
	}
	return nil
}

// seen tells whether value i of an array can be seen by anybody, and in which
// row of the batch; nil is an array of the batch itself.
type seen func(i int) (row int, ok bool)

func (s seen) at(i int) (int, bool) {
	if s == nil {
		return i, true
	}
	return s(i)
}

// converter carries out plans.
type converter struct{ mem memory.Allocator }

// apply converts n values; in is nil when the input has none. The result has
// offset 0 when it is nested.
func (c *converter) apply(p *plan, in arrow.Array, n int, s seen) (arrow.Array, error) {
	if in == nil || in.DataType().ID() == arrow.NULL && p.to.Logical != "null" {
		return array.MakeArrayOfNull(c.mem, p.out, n), nil
	}
	in = unwrapped(in)
	switch {
	case p.to.Blob != NotBlob:
		return c.blob(p, in, s)
	case p.to.Logical == "struct":
		return c.structs(p, in, s)
	case p.to.Shape == List || p.to.Shape == LargeList || p.to.Shape == Map:
		return c.lists(p, in, s)
	case p.to.Shape == FixedSizeList:
		return c.fixedLists(p, in, s)
	}
	return c.leaf(p.to, in, p.out, s)
}

// unwrapped gives the storage of an extension array. It borrows.
func unwrapped(a arrow.Array) arrow.Array {
	for {
		ext, ok := a.(array.ExtensionArray)
		if !ok {
			return a
		}
		a = ext.Storage()
	}
}

func (c *converter) structs(p *plan, in arrow.Array, s seen) (arrow.Array, error) {
	from, ok := in.(*array.Struct)
	if !ok {
		return nil, unexpectedArray(p.to, in)
	}
	below := func(i int) (int, bool) {
		row, ok := s.at(i)
		return row, ok && from.IsValid(i)
	}
	children, err := c.children(p.children, from, below)
	if err != nil {
		return nil, err
	}
	return nest.Assemble(p.out, from.Len(), []*memory.Buffer{nest.Validity(c.mem, from)}, children, from.NullN()), nil
}

func (c *converter) children(plans []*plan, from *array.Struct, below seen) ([]arrow.Array, error) {
	children := make([]arrow.Array, 0, len(plans))
	for _, child := range plans {
		var in arrow.Array
		if child.from >= 0 {
			in = from.Field(child.from)
		}
		out, err := c.apply(child, in, from.Len(), below)
		if err != nil {
			for _, done := range children {
				done.Release()
			}
			return nil, err
		}
		children = append(children, out)
	}
	return children, nil
}

// lists converts lists of either kind, and maps.
func (c *converter) lists(p *plan, in arrow.Array, s seen) (arrow.Array, error) {
	from, ok := in.(array.ListLike)
	if !ok {
		return nil, unexpectedArray(p.to, in)
	}
	items, first := nest.Items(from)
	defer items.Release()
	below := func(i int) (int, bool) {
		list := nest.Holder(from, first+int64(i))
		row, ok := s.at(list)
		return row, ok && in.IsValid(list)
	}
	offsets, err := c.offsets(p.to, from, first)
	if err != nil {
		return nil, err
	}
	var child arrow.Array
	if p.to.Shape == Map {
		child, err = c.entries(p, items, below)
	} else {
		child, err = c.apply(p.children[0], items, items.Len(), below)
	}
	if err != nil {
		offsets.Release()
		return nil, err
	}
	return nest.Assemble(p.out, in.Len(), []*memory.Buffer{nest.Validity(c.mem, in), offsets}, []arrow.Array{child}, in.NullN()), nil
}

// entries converts the entries of maps, whose keys and values are found by
// position.
func (c *converter) entries(p *plan, in arrow.Array, below seen) (arrow.Array, error) {
	from, ok := in.(*array.Struct)
	if !ok {
		return nil, unexpectedArray(p.to, in)
	}
	children, err := c.children(p.children, from, below)
	if err != nil {
		return nil, err
	}
	return nest.Assemble(p.out.(*arrow.MapType).Elem(), from.Len(), []*memory.Buffer{nil}, children, 0), nil
}

// offsets gives the offsets of lists in the width of the table's type, from 0.
func (c *converter) offsets(to *Field, from array.ListLike, first int64) (*memory.Buffer, error) {
	if to.Shape == LargeList {
		return nest.Offsets64(c.mem, from, first), nil
	}
	if n := from.Len(); n > 0 {
		if _, end := from.ValueOffsets(n - 1); end-first > maxOffset32 {
			return nil, tooLarge(to, "list items")
		}
	}
	return nest.Offsets32(c.mem, from, first), nil
}

func tooLarge(to *Field, what string) error {
	return fault.New(fault.Invalid, "schema: column %s, of type %s, holds at most 2^31-1 %s in one batch; send smaller batches", to.dotted(), to.typeName(), what)
}

func (c *converter) fixedLists(p *plan, in arrow.Array, s seen) (arrow.Array, error) {
	from, ok := in.(*array.FixedSizeList)
	if !ok {
		return nil, unexpectedArray(p.to, in)
	}
	size := p.to.Dimension
	items := nest.Elements(from)
	defer items.Release()
	below := func(i int) (int, bool) {
		row, ok := s.at(i / size)
		return row, ok && from.IsValid(i/size)
	}
	child, err := c.apply(p.children[0], items, items.Len(), below)
	if err != nil {
		return nil, err
	}
	return nest.Assemble(p.out, from.Len(), []*memory.Buffer{nest.Validity(c.mem, from)}, []arrow.Array{child}, from.NullN()), nil
}

func unexpectedArray(to *Field, in arrow.Array) error {
	return fault.New(fault.Internal, "schema: column %s came as %T", to.dotted(), in)
}
