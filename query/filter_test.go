package query_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/materialize"
	"github.com/flightblob/flightblob/query"
	"github.com/flightblob/flightblob/schema"
	"github.com/flightblob/flightblob/table"
	"github.com/flightblob/flightblob/table/tabletest"
)

func TestFilter(t *testing.T) {
	h := open(t, "fragments_and_deletions", "kinds_basic_v22")
	dir := tabletest.Fixtures(t)
	env := tabletest.CountedEnv(t, h.counter, dir)
	snapshot := func(fixture string) *table.Snapshot {
		return tabletest.At(t, tabletest.Open(t, env, filepath.Join(dir, fixture, "table.lance")), table.Ref{})
	}
	limit := func(n uint64) *uint64 { return &n }
	for _, tt := range []struct {
		fixture string
		req     query.FilterRequest
	}{
		{"fragments_and_deletions", query.FilterRequest{Predicate: "id % 3 = 0"}},
		{"fragments_and_deletions", query.FilterRequest{Predicate: "id > 4 -- and no more", Columns: []string{"img", "id"}}},
		{"fragments_and_deletions", query.FilterRequest{Predicate: "blob_size(img) > 50", Offset: 1, Limit: limit(3)}},
		{"fragments_and_deletions", query.FilterRequest{Predicate: "id < 0"}},
		{"fragments_and_deletions", query.FilterRequest{Predicate: "id IN (9, 2, 7, 1, 5, 3, 6, 8, 4, 10, 11, 12)", Limit: limit(5)}},
		{"fragments_and_deletions", query.FilterRequest{Predicate: "true"}},
		{"kinds_basic_v22", query.FilterRequest{Predicate: `blob_kind(img) = 'packed' or "table".id = 0`}},
		{"kinds_basic_v22", query.FilterRequest{Predicate: "md5(img) = md5(img) and octet_length(img) is not null", Limit: limit(0)}},
		{"kinds_basic_v22", query.FilterRequest{Predicate: "img is null", Columns: []string{"_rowaddr", "img"}}},
	} {
		tt.req.Snapshot = snapshot(tt.fixture)
		f, err := h.engine.Filter(t.Context(), tt.req)
		if err != nil {
			t.Errorf("%s: %v", tt.req.Predicate, err)
			continue
		}
		out, err := f.SchemaAs(schema.Materialized)
		if err != nil {
			t.Fatal(err)
		}
		if announced, err := h.engine.FilterSchema(t.Context(), tt.req, schema.Materialized); err != nil || !announced.Equal(out) {
			t.Errorf("%s: announced %v, %v, want %v", tt.req.Predicate, announced, err, out)
		}
		r, err := materialize.NewReader(t.Context(), f, tt.req.Snapshot.Resolver(), materialize.Options{View: schema.Materialized, Schema: out})
		f.Release()
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for r.Next() {
			b, err := r.RecordBatch().MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			got += strings.TrimSpace(string(b)) + "\n"
		}
		if err := r.Err(); err != nil {
			t.Errorf("%s: %v", tt.req.Predicate, err)
		}
		r.Release()
		n := 0
		for rows, err := range h.engine.Positions(t.Context(), tt.req) {
			if err != nil {
				t.Fatal(err)
			}
			n += len(rows)
		}
		if want := strings.Count(got, `"img"`); n != want {
			t.Errorf("%s: %d positions of %d rows", tt.req.Predicate, n, want)
		}
		columns := "*"
		if tt.req.Columns != nil {
			columns = strings.Join(tt.req.Columns, ", ")
		}
		sql := fmt.Sprintf("select %s from lance_scan('%s.\"table\"', row_ids := %t) as \"table\" where %s\norder by id", columns, tt.fixture, tt.req.Columns != nil, tt.req.Predicate)
		if tt.req.Limit != nil {
			sql += fmt.Sprintf(" limit %d offset %d", *tt.req.Limit, tt.req.Offset)
		}
		if want := h.query(sql); rowsOf(strings.TrimSpace(got)) != rowsOf(want) {
			t.Errorf("%s: got %s, want %s", tt.req.Predicate, got, want)
		}
	}
	for _, tt := range []struct{ predicate, text string }{
		{"", "empty"},
		{"id = (select 1)", "subquery"},
		{"nosuch = 1", "nosuch"},
		{"id >", ""},
		{"id = 1; drop table t", ";"},
		{"id = 1 order by id", "order"},
		{"img < img", "blob_bytes(b)"},
		{"id = ?", "parameter"},
		{"img", ""},
		{"current_setting('x') = 1", "current_setting"},
		{"id = 1) or (1 = 1", ""},
		{"sum(id) > 3", "aggregate"},
	} {
		_, err := h.engine.Filter(t.Context(), query.FilterRequest{Snapshot: snapshot("kinds_basic_v22"), Predicate: tt.predicate})
		if fault.KindOf(err) != fault.Invalid || err == nil || !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(tt.text)) || strings.Contains(err.Error(), "flightblob_") {
			t.Errorf("%q: %v, want %q", tt.predicate, err, tt.text)
		}
	}
}
