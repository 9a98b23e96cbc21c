package query_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/flightblob/flightblob/catalog"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/query"
	"github.com/flightblob/flightblob/schema"
	"github.com/flightblob/flightblob/table/tabletest"
)

// house is an engine over fixtures, each a catalog of its own.
type house struct {
	tb      testing.TB
	cat     *catalog.Catalog
	engine  *query.Engine
	counter *objstore.Counter
}

func open(tb testing.TB, fixtures ...string) *house {
	tb.Helper()
	return openWith(tb, query.Options{Threads: 2}, fixtures...)
}

// openWith is open with an engine that has options.
func openWith(tb testing.TB, o query.Options, fixtures ...string) *house {
	tb.Helper()
	dir := tabletest.Fixtures(tb)
	h := &house{tb: tb, counter: objstore.NewCounter(objstore.CounterOptions{Ranges: 64})}
	var roots []catalog.Root
	for _, f := range fixtures {
		roots = append(roots, catalog.Root{Name: f, URI: filepath.Join(dir, f)})
	}
	h.find(roots, dir)
	h.start(o)
	return h
}

func (h *house) over(roots []catalog.Root, prefixes ...string) *house {
	h.tb.Helper()
	h.find(roots, prefixes...)
	h.start(query.Options{Threads: 2})
	return h
}

// find puts a catalog of roots in place.
func (h *house) find(roots []catalog.Root, prefixes ...string) {
	h.tb.Helper()
	env := tabletest.CountedEnv(h.tb, h.counter, prefixes...)
	cat, err := catalog.Open(h.tb.Context(), roots, env)
	if err != nil {
		h.tb.Fatal(err)
	}
	h.cat = cat
}

// start puts an engine with other options in place.
func (h *house) start(o query.Options) {
	h.tb.Helper()
	e, err := query.Open(h.cat, o)
	if err != nil {
		h.tb.Fatal(err)
	}
	h.engine = e
	h.tb.Cleanup(func() {
		if runs, origins := e.Left(); runs != 0 || origins != 0 {
			h.tb.Errorf("%d statements and %d origins of blob values are left", runs, origins)
		}
		if n := e.InUse(); n != 0 {
			h.tb.Errorf("results hold %d bytes of payload", n)
		}
		e.Close()
	})
}

func (h *house) timeout(d time.Duration) { h.start(query.Options{Threads: 2, Timeout: d}) }

func (h *house) limit(bytes int64) { h.start(query.Options{Threads: 2, Memory: bytes}) }

func (h *house) try(ctx context.Context, s query.Session, view schema.View, sql string) (string, array.RecordReader, error) {
	st, err := h.engine.Prepare(ctx, s, sql)
	if err != nil {
		return "", nil, err
	}
	defer st.Close()
	r, err := st.Query(ctx, query.QueryOptions{View: view, AsPrepared: true})
	if err != nil {
		return "", nil, err
	}
	defer r.Release()
	if st.Known() {
		want, err := st.Schema(view)
		if err != nil {
			return "", nil, err
		}
		if !want.Equal(r.Schema()) {
			h.tb.Errorf("%s: announced %s, sent %s", sql, want, r.Schema())
		}
	}
	var rows []string
	for r.Next() {
		b := r.RecordBatch()
		if !b.Schema().Equal(r.Schema()) {
			h.tb.Errorf("%s: a batch of %s in a reader of %s", sql, b.Schema(), r.Schema())
		}
		text, err := b.MarshalJSON()
		if err != nil {
			h.tb.Fatal(err)
		}
		rows = append(rows, strings.TrimSpace(string(text)))
	}
	return strings.Join(rows, "\n"), r, r.Err()
}

func (h *house) query(sql string) string {
	h.tb.Helper()
	out, _, err := h.try(h.tb.Context(), query.Session{}, schema.Materialized, sql)
	if err != nil {
		h.tb.Fatalf("%s: %v", sql, err)
	}
	return out
}
