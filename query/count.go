package query

import (
	"context"
	"math"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/flightblob/flightblob/query/engine"
)

// A statement that counts the rows of one version of a table, and nothing else,
// is answered from the manifest: the engine has checked it and named its columns
// by then, and would count to the same number.

// countedCall is the call of the table function whose rows a plan counts, ""
// when it does anything else.
func countedCall(n object) string {
	if text(n["type"]) != "LOGICAL_PROJECTION" || len(objects(n["children"])) != 1 {
		return ""
	}
	counts := objects(n["children"])[0]
	if text(counts["type"]) != "LOGICAL_AGGREGATE_AND_GROUP_BY" || len(listOf(counts["groups"]))+len(listOf(counts["grouping_sets"])) > 0 ||
		len(listOf(counts["grouping_functions"])) > 0 || len(objects(counts["children"])) != 1 {
		return ""
	}
	if !all(counts["expressions"], isCount) || !all(n["expressions"], func(e object) bool { return text(e["expression_class"]) == "BOUND_REF" }) {
		return ""
	}
	// What is projected below is not counted, whatever it is.
	below := objects(counts["children"])[0]
	for text(below["type"]) == "LOGICAL_PROJECTION" && len(objects(below["children"])) == 1 {
		below = objects(below["children"])[0]
	}
	filters, _ := below["table_filters"].(object)
	if text(below["type"]) != "LOGICAL_GET" || len(listOf(filters["filters"])) > 0 {
		return ""
	}
	return callOf(below)
}

func all(v any, holds func(object) bool) bool {
	list := objects(v)
	return len(list) > 0 && !slices.ContainsFunc(list, func(e object) bool { return !holds(e) })
}

// isCount says that an aggregate counts rows.
func isCount(e object) bool {
	return text(e["expression_class"]) == "BOUND_AGGREGATE" && text(e["name"]) == "count_star" && text(e["aggregate_type"]) == "NON_DISTINCT" &&
		e["filter"] == nil && len(listOf(e["children"])) == 0
}

// counted is the relation whose rows a statement counts, nil when it does more.
func (r *run) counted(k *findings) *relation {
	if k.counted == "" {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	rel := r.relations[k.counted]
	if rel == nil || uint64(rel.Rows()) > math.MaxInt64 || slices.ContainsFunc(k.columns, func(c resultColumn) bool { return c.reference.Type.ID() != arrow.INT64 }) {
		return nil
	}
	return rel
}

// chunks are the rows of a result as the engine gives them.
type chunks interface {
	Next(ctx context.Context) (arrow.RecordBatch, error)
	Close()
}

var _ chunks = (*engine.Result)(nil)

// oneRow is a result of one row with the same number in all columns.
type oneRow struct {
	schema *arrow.Schema
	value  int64
	given  bool
}

// Next implements chunks.
func (o *oneRow) Next(ctx context.Context) (arrow.RecordBatch, error) {
	if o.given || ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	o.given = true
	b := array.NewInt64Builder(memory.DefaultAllocator)
	defer b.Release()
	b.Append(o.value)
	a := b.NewArray()
	defer a.Release()
	columns := make([]arrow.Array, o.schema.NumFields())
	for i := range columns {
		columns[i] = a
	}
	return array.NewRecordBatch(o.schema, columns, 1), nil
}

// Close implements chunks.
func (o *oneRow) Close() {}

// first is the call of the table function of which a statement with LIMIT wants
// the first rows, whichever, and nothing else; and how many.
type first struct {
	call string
	rows uint64
}

// firstOf finds it in a plan: a LIMIT, over nothing but projections.
func firstOf(n object) first {
	var none first
	if text(n["type"]) != "LOGICAL_LIMIT" || len(objects(n["children"])) != 1 {
		return none
	}
	rows, known := constantRows(n["limit_val"])
	skipped, ok := constantRows(n["offset_val"])
	if !known || !ok || rows > lateLimit || skipped > math.MaxInt64 {
		return none
	}
	below := objects(n["children"])[0]
	for text(below["type"]) == "LOGICAL_PROJECTION" && len(objects(below["children"])) == 1 {
		below = objects(below["children"])[0]
	}
	filters, _ := below["table_filters"].(object)
	if text(below["type"]) != "LOGICAL_GET" || len(listOf(filters["filters"])) > 0 {
		return none
	}
	return first{callOf(below), rows + skipped}
}

// constantRows reads a LIMIT or OFFSET; one that is not there skips none.
func constantRows(v any) (uint64, bool) {
	o, _ := v.(object)
	n, _ := o["constant_integer"].(float64)
	switch text(o["type"]) {
	case "CONSTANT_VALUE":
		return uint64(n), n >= 0 && n < 1<<53
	case "UNSET":
		return 0, true
	}
	return 0, false
}
