package table

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/internal/jsonb"
	"github.com/flightblob/flightblob/schema"
)

// conform gives a stored array the type that a scan shows. Stored and shown
// types differ in JSON leaves, which become text, and in names, nullability and
// metadata of nested fields; nothing else is converted.
func conform(a arrow.Array, field *schema.Field, want arrow.DataType) (arrow.Array, error) {
	if field.IsJSON() {
		return jsonText(a, want)
	}
	// A list of stored JSON may call itself a list of text already.
	if arrow.TypeEqual(a.DataType(), want, arrow.CheckMetadata()) && !holdsJSON(field) {
		return a, nil
	}
	types := childTypes(want)
	data := a.Data()
	if a.DataType().ID() != want.ID() || len(types) != len(data.Children()) {
		return nil, misfit(a, want)
	}
	if len(types) == 0 && !arrow.TypeEqual(a.DataType(), want) {
		return nil, misfit(a, want)
	}
	children := make([]arrow.ArrayData, len(types))
	for i, child := range data.Children() {
		part := array.MakeFromData(child)
		var err error
		if field.Shape == schema.Leaf { // a packed struct or a descriptor: names only
			err = sameShape(part.DataType(), types[i])
			child = array.NewData(types[i], child.Len(), child.Buffers(), child.Children(), child.NullN(), child.Offset())
		} else if part, err = conform(part, field.Children[i], types[i]); err == nil {
			child = part.Data()
		}
		if err != nil {
			return nil, err
		}
		children[i] = child
	}
	if d, ok := a.(*array.Dictionary); ok {
		out := array.NewDataWithDictionary(want, data.Len(), data.Buffers(), data.NullN(), data.Offset(), d.Dictionary().Data().(*array.Data))
		return array.MakeFromData(out), nil
	}
	return array.MakeFromData(array.NewData(want, data.Len(), data.Buffers(), children, data.NullN(), data.Offset())), nil
}

func holdsJSON(field *schema.Field) bool {
	for leaf := range field.Leaves() {
		if leaf.IsJSON() {
			return true
		}
	}
	return false
}

func misfit(a arrow.Array, want arrow.DataType) error {
	return fault.New(fault.Internal, "stored as %s, to be shown as %s", a.DataType(), want)
}

func sameShape(have, want arrow.DataType) error {
	if have.ID() != want.ID() || len(childTypes(want)) > 0 && !arrow.TypeEqual(have, want) {
		return fault.New(fault.Internal, "stored as %s, to be shown as %s", have, want)
	}
	return nil
}

// childTypes are the types of an array's children in its data.
func childTypes(t arrow.DataType) []arrow.DataType {
	switch t := t.(type) {
	case *arrow.StructType:
		types := make([]arrow.DataType, t.NumFields())
		for i, f := range t.Fields() {
			types[i] = f.Type
		}
		return types
	case *arrow.MapType:
		return []arrow.DataType{t.Elem()}
	case *arrow.FixedSizeListType:
		return []arrow.DataType{t.Elem()}
	case arrow.ListLikeType:
		return []arrow.DataType{t.Elem()}
	}
	return nil
}

// jsonText turns stored JSON into text.
func jsonText(a arrow.Array, want arrow.DataType) (arrow.Array, error) {
	if a.DataType().ID() == want.ID() { // nulls of a column that no file holds
		return a, nil
	}
	stored, ok := a.(*array.LargeBinary)
	if !ok || want.ID() != arrow.STRING {
		return nil, misfit(a, want)
	}
	offsets, err := newOffsets(stored.Len(), false, 0, want)
	if err != nil {
		return nil, err
	}
	var text []byte
	for i := range stored.Len() {
		if stored.IsValid(i) {
			if text, err = jsonb.AppendText(text, stored.Value(i)); err != nil {
				return nil, err
			}
			if len(text) > maxText {
				return nil, fault.New(fault.Exhausted, "more than 2 GiB of JSON text in one batch; ask for smaller batches")
			}
		}
		offsets.add(int64(len(text)))
	}
	valid, nulls := gatherValidity(stored, identity(stored.Len()))
	data := array.NewData(want, stored.Len(), []*memory.Buffer{valid, offsets.buffer(), memory.NewBufferBytes(text)}, nil, nulls, 0)
	return array.NewStringData(data), nil
}

// maxText is what 32-bit offsets can address.
const maxText = 1<<31 - 1

func identity(n int) []int {
	rows := make([]int, n)
	for i := range rows {
		rows[i] = i
	}
	return rows
}
