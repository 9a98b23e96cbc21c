package tabletest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/flightblob/flightblob/blob"
	"github.com/flightblob/flightblob/schema"
	"github.com/flightblob/flightblob/table"
)

// Values turns Arrow values into what expected.json holds: json.Number, string,
// bool, {"hex": …} for binary, lists, maps, nil. Blob leaves go through Blob,
// which is told the leaf's number in depth-first order.
type Values struct {
	Blob func(leaf int, d blob.Column, row int) any
	leaf int
}

// Row gives row i of a batch as a map from column to value.
func (v *Values) Row(batch arrow.RecordBatch, i int) map[string]any {
	row := map[string]any{}
	v.leaf = 0
	for k, c := range batch.Columns() {
		row[batch.ColumnName(k)] = v.value(c, i)
	}
	return row
}

// blobs counts the blob leaves of a type.
func blobs(t arrow.DataType) int {
	if arrow.TypeEqual(t, schema.DescriptorType) {
		return 1
	}
	nested, ok := t.(arrow.NestedType)
	if !ok {
		return 0
	}
	n := 0
	for _, f := range nested.Fields() {
		n += blobs(f.Type)
	}
	return n
}

func (v *Values) value(a arrow.Array, i int) any {
	if arrow.TypeEqual(a.DataType(), schema.DescriptorType) {
		leaf := v.leaf
		v.leaf++
		c, err := blob.AsColumn(a)
		if err != nil {
			return err
		}
		return v.Blob(leaf, c, i)
	}
	if a.IsNull(i) {
		v.leaf += blobs(a.DataType())
		return nil
	}
	switch a := a.(type) {
	case *array.Struct:
		out := map[string]any{}
		for k := range a.NumField() {
			out[a.DataType().(*arrow.StructType).Field(k).Name] = v.value(a.Field(k), i)
		}
		return out
	case array.ListLike:
		from, to := a.ValueOffsets(i)
		out := []any{}
		first := v.leaf
		for k := from; k < to; k++ {
			v.leaf = first // every item has the same leaves
			out = append(out, v.value(a.ListValues(), int(k)))
		}
		v.leaf = first + blobs(a.DataType())
		return out
	case *array.Boolean:
		return a.Value(i)
	case *array.String:
		return a.Value(i)
	case *array.LargeString:
		return a.Value(i)
	case *array.Binary:
		return map[string]any{"hex": hex.EncodeToString(a.Value(i))}
	case *array.LargeBinary:
		return map[string]any{"hex": hex.EncodeToString(a.Value(i))}
	case *array.Uint64:
		return json.Number(strconv.FormatUint(a.Value(i), 10))
	}
	return json.Number(a.ValueStr(i))
}

// Descriptor shows a descriptor as expected.json does.
func Descriptor(_ int, c blob.Column, i int) any {
	d, null, err := c.At(i)
	if err != nil {
		return err
	}
	if null {
		return nil
	}
	number := func(n uint64) json.Number { return json.Number(strconv.FormatUint(n, 10)) }
	return map[string]any{
		"kind": number(uint64(d.Kind)), "position": number(d.Position), "size": number(d.Size),
		"blob_id": number(uint64(d.ID)), "blob_uri": d.URI,
	}
}

// Payload reads the value behind a descriptor and shows its digest; External
// ones say where they come from, broken ones only that they are.
func Payload(ctx context.Context, r *blob.Resolver, owners []*blob.Owner) func(leaf int, c blob.Column, i int) any {
	return func(leaf int, c blob.Column, i int) any {
		d, null, err := c.At(i)
		if err == nil && null {
			return nil
		}
		var data []byte
		if err == nil {
			data, err = fetch(ctx, r, d, owners[leaf])
		}
		if err != nil {
			return map[string]any{"error": true}
		}
		sum := sha256.Sum256(data)
		out := map[string]any{"len": json.Number(strconv.Itoa(len(data))), "sha256": hex.EncodeToString(sum[:])}
		if d.Kind == blob.External {
			out["uri"], out["base_id"] = d.URI, json.Number(strconv.FormatUint(uint64(d.ID), 10))
		}
		return out
	}
}

func fetch(ctx context.Context, r *blob.Resolver, d blob.Descriptor, o *blob.Owner) ([]byte, error) {
	e, err := r.Resolve(ctx, d, o)
	if err != nil {
		return nil, err
	}
	if e.Whole {
		size, err := e.Object.Size(ctx)
		if err != nil {
			return nil, err
		}
		e.Length = uint64(size)
	}
	if e.Length == 0 {
		return nil, nil
	}
	if e.Length > 1<<30 {
		return nil, fmt.Errorf("%d bytes", e.Length)
	}
	data := make([]byte, e.Length)
	return data, e.Object.ReadAt(ctx, data, int64(e.Offset))
}

// ScanAll reads a request to the end: rows as Values shows them with
// descriptors, and with payloads.
func ScanAll(tb testing.TB, s *table.Snapshot, req table.ScanRequest) (descriptors, payloads []map[string]any) {
	tb.Helper()
	scan, err := s.Scan(tb.Context(), req)
	if err != nil {
		tb.Fatal(err)
	}
	defer scan.Release()
	r := s.Resolver()
	for scan.Next() {
		batch := scan.RecordBatch()
		for i := range int(batch.NumRows()) {
			d := Values{Blob: Descriptor}
			descriptors = append(descriptors, d.Row(batch, i))
			p := Values{Blob: Payload(tb.Context(), r, scan.Owners())}
			payloads = append(payloads, p.Row(batch, i))
		}
	}
	if err := scan.Err(); err != nil {
		tb.Fatal(err)
	}
	return descriptors, payloads
}
