package query

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/flightblob/flightblob/internal/fault"
)

// prepareDrop checks DROP TABLE.
func (c *Change) prepareDrop(ctx context.Context) error {
	absent := func(err error) bool { return c.text.Drop.IfExists && fault.KindOf(err) == fault.NotFound }
	if _, _, err := c.existing(ctx); err != nil && !absent(err) {
		return err
	}
	c.do = func(ctx context.Context, c *Change, _ []arrow.RecordBatch) (Outcome, error) {
		name, _, err := c.existing(ctx)
		if err == nil {
			err = c.engine.cat.DropTable(ctx, name)
		}
		if absent(err) {
			err = nil
		}
		return Outcome{}, err
	}
	return nil
}
