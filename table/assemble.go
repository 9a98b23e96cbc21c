package table

import (
	"github.com/apache/arrow-go/v18/arrow"

	"github.com/flightblob/flightblob/encoding"
	"github.com/flightblob/flightblob/schema"
)

// assemble builds a column from the leaves that were read; leaves that no file
// holds are nil.
func (f *fragment) assemble(index int, field *schema.Field, leaves []*encoding.Leaf, rows int) (arrow.Array, error) {
	plan := f.reader.plan
	a, err := encoding.Assemble(field, func(leaf *schema.Field) *encoding.Leaf {
		return leaves[plan.slot[leaf.ID]]
	}, rows)
	if err != nil {
		return nil, err
	}
	return conform(a, field, plan.schema.Field(index).Type)
}
