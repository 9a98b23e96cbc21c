package blob

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/flightblob/flightblob/schema"
)

// EachStored visits the stored values among the references of a batch that are
// not null and can be seen, in the order of storing (PCK-4). The text of a
// descriptor lies in the batch. An error of visit is told as an *InputError,
// where rows count from first.
func (in *Inputs) EachStored(first int, visit func(*schema.Field, Descriptor, Origin) error) error {
	for _, l := range in.leaves {
		for i := range l.n {
			if l.isNull(i) {
				continue
			}
			v, err := l.at(i)
			if err == nil && v.form == formStored {
				var o Origin
				if o, err = in.origins(v.source); err == nil {
					err = visit(l.field, v.stored, o)
				}
			}
			if err != nil {
				row, elements := l.place.of(i)
				return &InputError{Field: l.field.FullName(), Row: first + row, Elements: elements, Err: err}
			}
		}
	}
	return nil
}

// Remap gives an array of descriptors as others say them, null where it was. A
// value that lacks a child that its kind needs, as one that nobody can see may,
// becomes an empty one. The caller releases the result.
func Remap(mem memory.Allocator, data arrow.ArrayData, as func(Descriptor) (Descriptor, error)) (arrow.Array, error) {
	a := array.MakeFromData(data)
	defer a.Release()
	c, err := AsColumn(a)
	if err != nil {
		return nil, err
	}
	b := newDescriptors(mem, c.Len())
	defer b.release()
	for i := range c.Len() {
		d, null, err := c.At(i)
		switch {
		case null:
			b.null()
			continue
		case err != nil:
			d = Descriptor{}
		default:
			if d, err = as(d); err != nil {
				return nil, err
			}
		}
		if err := b.add(d); err != nil {
			return nil, err
		}
	}
	return b.finish(), nil
}
