package materialize

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/google/go-cmp/cmp"

	"github.com/flightblob/flightblob/blob"
	"github.com/flightblob/flightblob/blob/blobtest"
)

const fixtures = "../conformance/fixtures/tables"

// TestGolden materializes the blob columns of golden fixtures, nesting and all,
// and compares with what the reference read: one batch for each run of rows of
// a fragment.
func TestGolden(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ rules, fixture string }{
		{"MAT-1 NUL-11", "nested_v22"},
		{"MAT-1 NUL-11", "nested_v23"},
		{"MAT-1 NUL-11 RES-13", "nested_managed_compacted"},
		{"MAT-3 NUL-3", "all_null"},
		{"MAT-5 RES-1", "fragments_and_deletions"},
		{"MAT-5", "managed_lifecycle"},
		{"MAT-5 RES-8", "external_bases"},
		{"NUL-9 NUL-10", "kinds_external_absolute"},
		{"RES-8", "external_many"},
		{"IN-11", "null_children_ignored"},
		{"SCH-6", "non_nullable"},
		{"RES-2", "sidecars_in_bases"},
		{"LEG-6", "legacy_mixed"},
		{"LEG-9", "legacy_v20"},
		{"RES-1", "column_added_later"},
		{"RES-6", "columns_share_ids"},
		{"PCK-8", "many_inline"},
		{"DIFF-2", "clone_shallow"},
	} {
		t.Run(c.rules+" "+c.fixture, func(t *testing.T) {
			t.Parallel()
			for _, s := range blobtest.Open(t, fixtures, c.fixture) {
				if len(s.Rows) > 0 {
					goldenSnapshot(t, s)
				}
			}
		})
	}
}

func goldenSnapshot(t *testing.T, s *blobtest.Snapshot) {
	t.Helper()
	var top []blobtest.Field
	for _, f := range s.Fields {
		if _, ok := s.Descriptors[0][f.Name]; f.Parent < 0 && ok {
			top = append(top, f)
		}
	}
	var fields []arrow.Field
	var leaves []int
	for _, f := range top {
		fields = append(fields, goldenField(s, f, &leaves))
	}
	w := newWorld(t)
	w.blobs = s.Resolver
	var texts []string
	var owners [][]*blob.Owner
	for i := 0; i < len(s.Rows); {
		var batch []any
		first := s.Fragment(i)
		for ; i < len(s.Rows) && s.Fragment(i) == first; i++ {
			row := make(map[string]any)
			for _, f := range top {
				row[f.Name] = goldenDescriptor(s.Descriptors[i][f.Name])
			}
			batch = append(batch, row)
		}
		text, err := json.Marshal(batch)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
		var o []*blob.Owner
		for _, field := range leaves {
			o = append(o, s.Owner(first, field))
		}
		owners = append(owners, o)
	}
	src := w.source(fields, texts...)
	src.owners = owners
	got, err := w.run(src, Options{BatchBytes: 2000})
	if err != nil {
		t.Fatalf("%s: %v", s.Name, err)
	}
	var want []any
	for _, row := range s.Rows {
		out := make(map[string]any)
		for _, f := range top {
			out[f.Name] = goldenValue(goldenShape(s, f, row[f.Name]))
		}
		want = append(want, out)
	}
	if diff := cmp.Diff(want, goldenValue(normal(t, joined(got)))); diff != "" {
		t.Errorf("%s (-want +got):\n%s", s.Name, diff)
	}
}

// goldenField is a column of descriptors; leaves collects the ids of its blobs.
func goldenField(s *blobtest.Snapshot, f blobtest.Field, leaves *[]int) arrow.Field {
	out := arrow.Field{Name: f.Name, Nullable: f.Nullable}
	if f.Blob() {
		*leaves = append(*leaves, f.ID)
		d := descriptorField(f.Name)
		d.Nullable = f.Nullable
		return d
	}
	var children []arrow.Field
	for _, c := range s.Fields {
		if c.Parent != f.ID {
			continue
		}
		var below []int
		child := goldenField(s, c, &below)
		if len(below) > 0 {
			*leaves = append(*leaves, below...)
			children = append(children, child)
		}
	}
	switch {
	case len(children) == 0:
		out.Type = arrow.Null
	case strings.HasPrefix(f.Logical, "large_list"):
		out.Type = arrow.LargeListOfField(children[0])
	case strings.HasPrefix(f.Logical, "list"):
		out.Type = arrow.ListOfField(children[0])
	default:
		out.Type = arrow.StructOf(children...)
	}
	return out
}

// goldenDescriptor turns legacy descriptors into the five-child form.
func goldenDescriptor(v any) any {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = goldenDescriptor(v[i])
		}
		return out
	case map[string]any:
		if _, leaf := v["position"]; !leaf {
			out := make(map[string]any)
			for k, c := range v {
				out[k] = goldenDescriptor(c)
			}
			return out
		}
		d, null := blobtest.Descriptor(v)
		if null {
			return nil
		}
		return map[string]any{"kind": d.Kind, "position": d.Position, "size": d.Size, "blob_id": d.ID, "blob_uri": d.URI}
	}
	return v
}

// goldenShape leaves out the fields of a recorded row that hold no blobs.
func goldenShape(s *blobtest.Snapshot, f blobtest.Field, v any) any {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for _, c := range s.Fields {
			if c.Parent == f.ID {
				for i := range v {
					out[i] = goldenShape(s, c, v[i])
				}
			}
		}
		return out
	case map[string]any:
		if f.Blob() {
			return fmt.Sprint(v["len"], " ", v["sha256"])
		}
		out := make(map[string]any)
		for _, c := range s.Fields {
			var leaves []int
			if c.Parent == f.ID {
				if goldenField(s, c, &leaves); len(leaves) > 0 {
					out[c.Name] = goldenShape(s, c, v[c.Name])
				}
			}
		}
		return out
	}
	return v
}

// goldenValue turns materialized values into length and hash.
func goldenValue(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = goldenValue(v[i])
		}
		return v
	case map[string]any:
		for k := range v {
			v[k] = goldenValue(v[k])
		}
		return v
	case string:
		if strings.Contains(v, " ") { // done already
			return v
		}
		data, err := base64.StdEncoding.DecodeString(v)
		if err != nil {
			panic(err)
		}
		sum := sha256.Sum256(data)
		return fmt.Sprint(len(data), " ", hex.EncodeToString(sum[:]))
	}
	return v
}

var _ array.RecordReader = (*source)(nil)
