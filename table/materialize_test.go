package table_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flightblob/flightblob/materialize"
	"github.com/flightblob/flightblob/schema"
	"github.com/flightblob/flightblob/table"
	"github.com/flightblob/flightblob/table/tabletest"
)

// TestMaterialized hands scans to the room above: owners, leaves and schemas
// must be what it takes, at every depth and for picked rows.
func TestMaterialized(t *testing.T) {
	t.Parallel()
	dir := tabletest.Fixtures(t)
	for _, fixture := range []string{
		"nested_v22", "nested_v23", "nested_managed_compacted", "sidecars_in_bases_adopted", "column_added_later",
		"legacy_mixed", "legacy_v20", "legacy_v21", "fragments_and_deletions",
	} {
		t.Run(fixture, func(t *testing.T) {
			t.Parallel()
			env := tabletest.Env(t, filepath.Join(dir, fixture))
			s := tabletest.At(t, tabletest.Open(t, env, filepath.Join(dir, fixture, "table.lance")), table.Ref{})
			n := s.Rows()
			picks := []uint64{n - 1, 0, n / 2, 0, 0, n - 1}
			for _, req := range []table.ScanRequest{{}, {Rows: picks}, {BatchRows: 2}} {
				_, rows := tabletest.ScanAll(t, s, req)
				got := materialized(t, s, req)
				if diff := cmp.Diff(digests(rows), got); diff != "" {
					t.Errorf("%+v (-want +got):\n%s", req, diff)
				}
			}
		})
	}
}

func materialized(t *testing.T, s *table.Snapshot, req table.ScanRequest) (rows []any) {
	t.Helper()
	scan, err := s.Scan(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	defer scan.Release()
	shown, err := scan.SchemaAs(schema.Materialized)
	if err != nil {
		t.Fatal(err)
	}
	r, err := materialize.NewReader(t.Context(), scan, s.Resolver(), materialize.Options{Schema: shown})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	for r.Next() {
		for i := range int(r.RecordBatch().NumRows()) {
			v := tabletest.Values{}
			rows = append(rows, digests(v.Row(r.RecordBatch(), i)))
		}
	}
	if err := r.Err(); err != nil {
		t.Fatal(err)
	}
	return rows
}

// digests shows bytes and recorded payloads alike: by length and digest.
func digests(v any) any {
	switch v := v.(type) {
	case []map[string]any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = digests(v[i])
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = digests(v[i])
		}
		return out
	case map[string]any:
		if text, ok := v["hex"].(string); ok {
			data, err := hex.DecodeString(text)
			if err != nil {
				return err
			}
			sum := sha256.Sum256(data)
			return fmt.Sprintf("%d %x", len(data), sum)
		}
		if sum, ok := v["sha256"].(string); ok {
			return fmt.Sprintf("%s %s", v["len"].(json.Number), sum)
		}
		out := map[string]any{}
		for k, item := range v {
			out[k] = digests(item)
		}
		return out
	}
	return v
}
