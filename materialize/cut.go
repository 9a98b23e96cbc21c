package materialize

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"
)

// cut is a run of rows of a source batch that becomes one output batch, and
// the values of each leaf in it. Values are reused by the next cut.
type cut struct {
	from, to int
	values   [][]value // leaf → elements [bound(from), bound(to))
}

// cutter divides one source batch into cuts by the bytes of their messages,
// known from the descriptors before anything is fetched. A row that is larger
// than the target by itself goes alone.
type cutter struct {
	views    []*leafView
	weights  columnWeights
	values   *resolver
	rows     int
	first    int64 // stream row of row 0
	overhead int64 // bits of an empty message
	target   int64 // bits that a message should not exceed
	limit    int64 // bits that it must not exceed
	at       int
	scratch  [][]value
}

func (c *cutter) start(views []*leafView, t *tree, rec arrow.RecordBatch) {
	c.views, c.weights = views, newColumnWeights(t, rec)
	c.rows, c.at = int(rec.NumRows()), 0
	c.values.lengths.forget()
	if c.scratch == nil {
		c.scratch = make([][]value, len(views))
	}
}

// next gives the next cut; done when no rows are left. An error belongs to the
// first row not yet cut: the rows before it come out first.
func (c *cutter) next(ctx context.Context) (k cut, done bool, err error) {
	if c.at >= c.rows {
		return cut{}, true, nil
	}
	for i := range c.scratch {
		c.scratch[i] = c.scratch[i][:0]
	}
	from, total := c.at, c.overhead
	for c.at < c.rows {
		bits, err := c.row(ctx, c.at)
		if err == nil {
			err = c.check(bits, c.at)
		}
		full := c.at > from && plus(total, bits) > c.target
		if full || err != nil && c.at > from {
			c.drop(c.at) // comes again with the next cut
			break
		}
		if err != nil {
			return cut{}, false, err
		}
		total = plus(total, bits)
		c.at++
	}
	return cut{from: from, to: c.at, values: c.scratch}, false, nil
}

// row resolves the values of row r, appends them and weighs the row.
func (c *cutter) row(ctx context.Context, r int) (int64, error) {
	bits := c.weights.row(r)
	for i, l := range c.views {
		for e, end := l.bound(r), l.bound(r+1); e < end; e++ {
			v, err := c.values.element(ctx, l, e, c.first+int64(r))
			if err != nil {
				return 0, err
			}
			bits = plus(bits, leafBits(&v, c.values.logical))
			c.scratch[i] = append(c.scratch[i], v)
		}
	}
	return bits, nil
}

// drop takes the values of row r away again.
func (c *cutter) drop(r int) {
	for i := range c.scratch {
		n := len(c.scratch[i])
		for n > 0 && c.scratch[i][n-1].row == c.first+int64(r) {
			n--
		}
		c.scratch[i] = c.scratch[i][:n]
	}
}

// check refuses a row whose message would exceed the limit.
func (c *cutter) check(bits int64, r int) error {
	if plus(c.overhead, bits) <= c.limit {
		return nil
	}
	field, largest := "", int64(-1)
	for i, l := range c.views {
		values := c.scratch[i]
		for k := len(values) - 1; k >= 0 && values[k].row == c.first+int64(r); k-- {
			if w := leafBits(&values[k], c.values.logical); w > largest {
				field, largest = l.path, w
			}
		}
	}
	return &TooLargeError{
		Field: field,
		Row:   c.first + int64(r),
		Size:  plus(c.overhead, bits) / 8,
		Limit: c.limit / 8,
	}
}
