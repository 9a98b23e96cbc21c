package catalog_test

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flightblob/flightblob/catalog"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/objstore/faultstore"
	"github.com/flightblob/flightblob/table"
)

// catalogOver opens a catalog whose root lies in a store, as another process
// would.
func catalogOver(t *testing.T, s objstore.Store) *catalog.Catalog {
	t.Helper()
	registry := objstore.NewRegistry(objstore.Options{Schemes: map[string]objstore.Opener{
		"s3": func(context.Context, string, *objstore.StorageOptions) (objstore.Store, error) { return s, nil },
	}})
	t.Cleanup(func() { _ = registry.Close() })
	env := table.NewEnv(registry, objstore.NewAccess("s3://m/root"), table.Limits{})
	return open(t, env, catalog.Root{URI: "s3://m/root"})
}

// bucketOf is a memory store that looks like a bucket.
type bucketOf struct{ *objstore.Mem }

func (b bucketOf) URI(path string) string { return "s3://m/" + objstore.EscapePath(path) }

// TestBrokenChanges lets every call of every change fail, in several ways. What
// is there afterwards is the state before or the one after, and the change can
// be made again.
func TestBrokenChanges(t *testing.T) {
	t.Parallel()
	changes := []struct {
		name  string
		apply func(t *testing.T, c *catalog.Catalog) error
		again fault.Kind // of a second time after a success
	}{
		{"create schema", func(t *testing.T, c *catalog.Catalog) error {
			return c.CreateSchema(t.Context(), catalog.Schema{Name: "new"})
		}, fault.Exists},
		{"drop schema", func(t *testing.T, c *catalog.Catalog) error {
			return c.DropSchema(t.Context(), catalog.Schema{Name: "empty"})
		}, fault.NotFound},
		{"create table", func(t *testing.T, c *catalog.Catalog) error {
			return create(t, c, catalog.Name{Table: "new"}, 2)
		}, fault.Exists},
		{"create table of a schema", func(t *testing.T, c *catalog.Catalog) error {
			return create(t, c, catalog.Name{Schema: "ns", Table: "new"}, 2)
		}, fault.Exists},
		{"drop table", func(t *testing.T, c *catalog.Catalog) error {
			return c.DropTable(t.Context(), catalog.Name{Table: "t"})
		}, fault.NotFound},
		{"drop table of a schema", func(t *testing.T, c *catalog.Catalog) error {
			return c.DropTable(t.Context(), catalog.Name{Schema: "ns", Table: "u"})
		}, fault.NotFound},
	}
	start := objstore.NewMem("m")
	first := catalogOver(t, bucketOf{start})
	for _, err := range []error{
		first.CreateSchema(t.Context(), catalog.Schema{Name: "ns"}), first.CreateSchema(t.Context(), catalog.Schema{Name: "empty"}),
		create(t, first, catalog.Name{Table: "t"}, 3), create(t, first, catalog.Name{Schema: "ns", Table: "u"}, 4),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	state := func(c *catalog.Catalog) []string { return append(names(t, c), schemas(t, c)...) }
	before := state(first)
	for _, change := range changes {
		done := start.CrashClone()
		if err := change.apply(t, catalogOver(t, bucketOf{done})); err != nil {
			t.Fatal(err)
		}
		after := state(catalogOver(t, bucketOf{done}))
		for how, plan := range map[string]faultstore.Plan{
			"refused": {How: faultstore.Refused}, "lost": {How: faultstore.Lost}, "unanswered": {How: faultstore.Unanswered},
			"killed": {How: faultstore.Refused, Forever: true},
		} {
			t.Run(change.name+", "+how, func(t *testing.T) {
				for n := 1; ; n++ {
					m := start.CrashClone()
					plan := plan
					plan.Call = n
					s := faultstore.New(bucketOf{m}, plan)
					err := change.apply(t, catalogOver(t, s))
					left := m.CrashClone()
					c := catalogOver(t, bucketOf{left})
					got := state(c)
					if !s.Failed() {
						if err != nil {
							t.Fatal(err)
						}
						return
					}
					call := s.Calls()[n-1]
					if !slices.Equal(got, before) && !slices.Equal(got, after) {
						t.Errorf("%s: neither before nor after: %s", call, cmp.Diff(before, got))
					}
					if err == nil && !slices.Equal(got, after) {
						t.Errorf("%s: success, but %s", call, cmp.Diff(after, got))
					}
					if err != nil && fault.KindOf(err) != fault.Unavailable {
						t.Errorf("%s: %v", call, err)
					}
					// Again, with a store that works.
					err = change.apply(t, c)
					if err != nil && fault.KindOf(err) != change.again {
						t.Errorf("%s: again: %v", call, err)
					}
					if got := state(c); !slices.Equal(got, after) {
						t.Errorf("%s: again: %v, %s", call, err, cmp.Diff(after, got))
					}
					for name, rows := range map[string]uint64{"t": 3, "u": 4, "new": 2} {
						if tab, err := c.Table(t.Context(), catalog.Name{Table: name}); err == nil {
							if at, err := tab.At(t.Context(), table.Ref{}); err != nil || at.Rows() != rows {
								t.Errorf("%s: table %s: %v, %v", call, name, at, err)
							}
						}
					}
				}
			})
		}
	}
}
