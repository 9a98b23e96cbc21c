package materialize

import (
	"context"
	"errors"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/flightblob/flightblob/blob"
	"github.com/flightblob/flightblob/internal/fault"
)

// RangeRequest asks for Length bytes from Offset of one value.
type RangeRequest struct {
	Value  blob.Descriptor
	Null   bool        // the value is null, and so is the answer
	Owner  *blob.Owner // data file of the value's row, as for Resolve
	Offset uint64
	Length uint64
	Field  string // dotted path and row of the value, for messages
	Row    int64
}

// RangeSchema is that of the answers of Ranges.
var RangeSchema = arrow.NewSchema([]arrow.Field{
	{Name: "request", Type: arrow.PrimitiveTypes.Uint32},
	{Name: "bytes", Type: arrow.BinaryTypes.LargeBinary, Nullable: true},
}, nil)

// Ranges reads parts of values: one row for each request, in order, cut into
// batches as Options say (View, Schema and FirstRow have no meaning here). A
// range must lie within its value (RES-14); on a null value only its overflow
// is judged, and the answer is null (REJ-11). An empty range reads nothing but,
// for a whole External object, its length.
func Ranges(ctx context.Context, requests []RangeRequest, r *blob.Resolver, o Options) (array.RecordReader, error) {
	if int64(len(requests)) > 1<<32-1 {
		return nil, fault.New(fault.Invalid, "materialize: %d ranges in one request", len(requests))
	}
	o = o.withDefaults()
	b := newBuilder(&tree{schema: RangeSchema}, r, false, o)
	return newStream(ctx, RangeSchema, o.Prefetch, func(ctx context.Context, send emit) error {
		return b.ranges(ctx, requests, send)
	}), nil
}

// rangeBits is what a row of RangeSchema weighs apart from its bytes.
const rangeBits = 32 + 64 + 2

func (b *builder) ranges(ctx context.Context, requests []RangeRequest, send emit) error {
	empty := overhead(RangeSchema)
	var values []value
	for next := 0; next < len(requests); {
		values = values[:0]
		total := empty
		first := next
		for next < len(requests) {
			v, err := b.slice(ctx, requests, next)
			bits := plus(rangeBits, weight(v.payload()))
			if err == nil && plus(empty, bits) > b.opts.MaxValue*8 {
				err = &TooLargeError{
					Field: requests[next].Field, Row: requests[next].Row,
					Size: plus(empty, bits) / 8, Limit: b.opts.MaxValue,
				}
			}
			if next > first && (err != nil || plus(total, bits) > b.opts.BatchBytes*8) {
				break // comes again as the first of the next batch
			}
			if err != nil {
				return err
			}
			total = plus(total, bits)
			values = append(values, v)
			next++
		}
		rec, err := b.rangeBatch(ctx, first, values)
		if err != nil {
			return named(err, requests)
		}
		if err := send(rec); err != nil {
			return err
		}
	}
	return nil
}

// slice resolves request i to the bytes it asks for.
func (b *builder) slice(ctx context.Context, requests []RangeRequest, i int) (value, error) {
	q := &requests[i]
	v := value{row: int64(i)}
	err := blob.CheckRange(q.Offset, q.Length)
	if err == nil && !q.Null {
		v.state = stateBytes
		v.ext, err = b.rangeOf(ctx, requests, i)
	}
	if err != nil {
		return value{}, &ValueError{Field: q.Field, Row: q.Row, Err: err}
	}
	return v, nil
}

func (b *builder) rangeOf(ctx context.Context, requests []RangeRequest, i int) (blob.Extent, error) {
	q := &requests[i]
	e, err := b.values.blobs.Resolve(ctx, q.Value, q.Owner)
	if err != nil {
		return e, err
	}
	if e.Whole {
		n, err := b.rangeLength(ctx, requests, i, e)
		if err != nil {
			return e, readError(ctx, e.Object, false, 0, 0, err)
		}
		e = e.Sized(n) // keeps the recorded position: ranges count from it, NUL-9
	}
	return e.Slice(q.Offset, q.Length)
}

// rangeLength finds the length of a whole External object, and of those of the
// next requests along with it.
func (b *builder) rangeLength(ctx context.Context, requests []RangeRequest, i int, e blob.Extent) (uint64, error) {
	l := &b.values.lengths
	if f, ok := l.known[element{nil, i}]; ok {
		return f.n, f.err
	}
	wanted, extents := []int{i}, []blob.Extent{e}
	for k := i + 1; k < len(requests) && len(wanted) < lookAhead; k++ {
		q := &requests[k]
		if q.Null || q.Value.Kind != blob.External || q.Value.Size != 0 {
			continue
		}
		if ahead, err := b.values.blobs.Resolve(ctx, q.Value, q.Owner); err == nil {
			wanted, extents = append(wanted, k), append(extents, ahead)
		}
	}
	return l.ask(ctx, nil, wanted, extents)
}

// named turns the request number in an error into the value's field and row.
func named(err error, requests []RangeRequest) error {
	var failed *ValueError
	if errors.As(err, &failed) && failed.Row >= 0 && failed.Row < int64(len(requests)) {
		q := &requests[failed.Row]
		return &ValueError{Field: q.Field, Row: q.Row, Err: failed.Err}
	}
	return err
}

// rangeBatch fetches the values of requests from first on. Its errors name the
// request for the row.
func (b *builder) rangeBatch(ctx context.Context, first int, values []value) (arrow.RecordBatch, error) {
	view := &leafView{leafInfo: leafInfo{path: "bytes", nullable: true, out: arrow.BinaryTypes.LargeBinary}}
	leaves, err := b.leaves(ctx, []*leafView{view}, [][]value{values})
	if err != nil {
		return nil, err
	}
	defer leaves[0].Release()
	numbers := array.NewUint32Builder(b.opts.Mem)
	defer numbers.Release()
	for i := range values {
		numbers.Append(uint32(first + i))
	}
	request, bytes := numbers.NewArray(), array.MakeFromData(leaves[0])
	defer request.Release()
	defer bytes.Release()
	return array.NewRecordBatch(RangeSchema, []arrow.Array{request, bytes}, int64(len(values))), nil
}
