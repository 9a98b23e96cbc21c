package query

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/schema"
)

// The engine says of a value that a cast does not take what it is, and not where
// it stood. So when a write fails, each cast is tried by itself on the same rows,
// and the first value that one does not take is what is told.

// blameFront and blameBack stand around a source to find the first value that a
// cast does not take.
func blameFront(cast columnCast, _ int) string {
	return fmt.Sprintf("SELECT n::BIGINT AS n, CAST(v AS VARCHAR) AS v FROM (SELECT row_number() OVER () AS n, c%d AS v FROM (", cast.column)
}

func blameBack(cast columnCast) string {
	return fmt.Sprintf(") WHERE v IS NOT NULL AND TRY(CAST(v AS %s)) IS NULL ORDER BY n LIMIT 1", cast.to)
}

// blame finds out which value made a query fail.
func (c *Change) blame(ctx context.Context, session Session, q intoQuery, params arrow.RecordBatch, row int, f *feed, before int64, err error) error {
	var cell *cellError
	if errors.As(err, &cell) { // of the batch that was to be written next
		return f.at(fault.Invalid, cell.column, cell.row, ": "+cell.text)
	}
	if fault.KindOf(err) != fault.Invalid || ctx.Err() != nil || !strings.Contains(err.Error(), "Error: ") {
		return err
	}
	for _, cast := range q.casts {
		if strings.Contains(cast.to, "LANCE_BLOB") {
			continue
		}
		n, value, found := c.uncastable(ctx, session, cast.source, params, row)
		if !found {
			continue
		}
		field := c.insert.fields[cast.column]
		f.wrote = before
		return f.at(fault.Invalid, field.Name, int(n)-1, fmt.Sprintf(": %s is no value of %s%s", fault.Quote(value), cast.to, limits(field)))
	}
	return err
}

// uncastable runs the query of a cast: the number of a row, from 1, and its value.
func (c *Change) uncastable(ctx context.Context, session Session, text string, params arrow.RecordBatch, row int) (int64, string, bool) {
	st, err := c.engine.prepare(ctx, session, text, &intoQuery{})
	if err != nil {
		return 0, "", false
	}
	defer st.Close()
	if params != nil {
		if err := st.bindAll(ctx, params, row); err != nil {
			return 0, "", false
		}
	}
	rows, err := st.Query(ctx, QueryOptions{View: schema.Descriptor, AsPrepared: true})
	if err != nil {
		return 0, "", false
	}
	defer rows.Release()
	if !rows.Next() || rows.RecordBatch().NumRows() == 0 {
		return 0, "", false
	}
	batch := rows.RecordBatch()
	n, isNumber := batch.Column(0).(*array.Int64)
	value, isText := batch.Column(1).(*array.String)
	if !isNumber || !isText {
		return 0, "", false
	}
	return n.Value(0), strings.Clone(value.Value(0)), true
}

// limits says what values a column has, where that helps.
func limits(f *schema.Field) string {
	bits := map[string]int{"int8": 8, "int16": 16, "int32": 32, "int64": 64, "uint8": 8, "uint16": 16, "uint32": 32, "uint64": 64}[f.Logical]
	switch {
	case bits == 0:
		return ""
	case f.Logical[0] == 'u':
		return fmt.Sprintf("; it takes whole numbers from 0 to %d", ^uint64(0)>>(64-bits))
	}
	return fmt.Sprintf("; it takes whole numbers from %d to %d", int64(-1)<<(bits-1), ^(int64(-1) << (bits - 1)))
}
