package encoding

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/schema"
)

// Pages of few distinct values hold a dictionary and numbers. Who works with the
// values by number is spared a copy of each.

// codedRows is how many rows a read must have for each item of its dictionaries,
// so that the values are worth their numbers.
const codedRows = 4

// ReadCoded is Read, but for text and bytes in pages with small dictionaries,
// which it answers as a dictionary array: indices of type uint32, without nulls;
// null slots have the dictionary's last item, which is null then. Layers are
// those of Read.
func (c *Column) ReadCoded(ctx context.Context, fetch Fetch, rows []Range) (*Leaf, error) {
	return c.read(ctx, fetch, rows, true)
}

// collector makes the vector that a read collects its values in.
func (c *Column) collector(reads []*pageRead, total uint64, coded bool) (*vector, error) {
	if !coded || !c.isCoded(reads, total) {
		return newVector(c.leaf.Storage, int(total))
	}
	return newVector(codedType(c.leaf.Storage), int(total))
}

// codedType is the type of a coded leaf.
func codedType(values arrow.DataType) *arrow.DictionaryType {
	return &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Uint32, ValueType: values}
}

// isCoded says that all pages of a read have dictionaries, small ones for the
// rows that are read.
func (c *Column) isCoded(reads []*pageRead, total uint64) bool {
	if len(c.steps) != 1 || c.leaf.IsJSON() || c.leaf.Blob != schema.NotBlob || len(reads) == 0 {
		return false
	}
	switch c.leaf.Storage.ID() {
	case arrow.STRING, arrow.LARGE_STRING, arrow.BINARY, arrow.LARGE_BINARY:
	default:
		return false
	}
	items := uint64(0)
	for _, r := range reads {
		ix, ok := r.index.(*miniBlockIndex)
		if !ok || ix.dict == nil || ix.dict.kind != varBlock {
			return false
		}
		items += uint64(ix.dict.n)
	}
	return items*codedRows <= total
}

// codedArray makes the array of a coded leaf under its validity bitmap.
func (v *vector) codedArray(valid []byte, nulls int) (arrow.Array, error) {
	d := v.dict
	null := uint32(d.items.n)
	if nulls > 0 {
		d.items.item = true // so that its nulls are kept
		if err := d.items.appendNulls(1); err != nil {
			return nil, err
		}
		for i := range d.idx {
			if !getBit(valid, i) {
				d.idx[i] = null
			}
		}
	}
	if len(v.stray) > 0 { // those under nulls were replaced
		for i, k := range d.idx {
			if k == strayIndex {
				return nil, fault.Corruptf(-1, "encoding: value %d has a dictionary index out of range", i)
			}
		}
	}
	items, err := d.items.arrayData(d.items.valid, d.items.nulls)
	if err != nil {
		return nil, err
	}
	defer items.Release()
	index := memory.NewBufferBytes(arrow.Uint32Traits.CastToBytes(d.idx))
	data := array.NewDataWithDictionary(v.typ, v.n, []*memory.Buffer{nil, index}, 0, 0, items)
	defer data.Release()
	return array.MakeFromData(data), nil
}
