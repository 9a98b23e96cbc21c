package flightsvc

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/schema"
	"github.com/flightblob/flightblob/table"
	"github.com/flightblob/flightblob/table/manifest"
)

// pinned makes a table in memory, and says how many leases it has and that each
// lasts until a pin ends.
func pinned(t *testing.T) (s *table.Snapshot, leases func(*pin) int) {
	t.Helper()
	registry := objstore.NewRegistry(objstore.Options{})
	env := table.NewEnv(registry, objstore.NewAccess("mem://m"), table.Limits{})
	tbl := table.New(env, objstore.Location{Store: objstore.NewMem("m"), Path: "t.lance"}, "t")
	tree, err := schema.FromRecords([]schema.Record{{ID: 0, ParentID: schema.NoParent, Name: "id", LogicalType: "int64", Nullable: true}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	tx := &manifest.Transaction{UUID: uuid.NewString(), Op: &manifest.Overwrite{Schema: tree}}
	if s, err = tbl.Commit(t.Context(), "", tx, table.CommitOptions{}); err != nil {
		t.Fatal(err)
	}
	return s, func(of *pin) int {
		t.Helper()
		synctest.Wait()
		tags, err := tbl.Tags(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, tag := range tags {
			if until, ok := tag.LeasedUntil(); !ok || !until.Equal(of.end(time.Time{}).Add(pinGrace)) || tag.Expired(time.Now()) {
				t.Errorf("%s lasts until %v, the promise until %v", tag.Name, until, of.end(time.Time{}))
			}
		}
		return len(tags)
	}
}

func TestPins(t *testing.T) {
	t.Parallel()
	const span = time.Hour
	made := func(t *testing.T) (all *pins, of *pin, leases func() int) {
		t.Helper()
		s, count := pinned(t)
		all = newPins(slog.New(slog.DiscardHandler), redactor{})
		of, err := all.put(t.Context(), caller{principal: "p"}, span, []*table.Snapshot{s})
		if err != nil {
			t.Fatal(err)
		}
		if n := count(of); n != 1 {
			t.Fatalf("there are %d leases", n)
		}
		return all, of, func() int { return count(of) }
	}
	for name, test := range map[string]func(t *testing.T, all *pins, of *pin, leases func() int){
		"it ends by time": func(t *testing.T, all *pins, of *pin, leases func() int) {
			time.Sleep(span - time.Second)
			if n := leases(); n != 1 {
				t.Errorf("%d leases before the end", n)
			}
			time.Sleep(time.Second)
			if n := leases(); n != 0 {
				t.Errorf("%d leases after the end", n)
			}
			if _, err := all.renew(t.Context(), of); fault.KindOf(err) != fault.NotFound {
				t.Errorf("renewed: %v", err)
			}
			if _, ok := all.find(of.key, "p"); ok {
				t.Error("it is found")
			}
		},
		"it is renewed": func(t *testing.T, all *pins, of *pin, leases func() int) {
			time.Sleep(span - time.Second)
			until, err := all.renew(t.Context(), of)
			if err != nil || !until.Equal(time.Now().Add(span)) {
				t.Errorf("%v, %v", until, err)
			}
			time.Sleep(span - time.Second)
			if n := leases(); n != 1 {
				t.Errorf("%d leases before the new end", n)
			}
		},
		"readers keep it": func(t *testing.T, all *pins, of *pin, leases func() int) {
			leave := all.enter(of)
			time.Sleep(10*span + span/2)
			if n := leases(); n != 1 {
				t.Errorf("%d leases while it is read", n)
			}
			leave()
			time.Sleep(span)
			if n := leases(); n != 0 {
				t.Errorf("%d leases after the last reader", n)
			}
		},
		"dropped, it ends with the last reader": func(t *testing.T, all *pins, of *pin, leases func() int) {
			one, two := all.enter(of), all.enter(of)
			all.drop(of)
			one()
			time.Sleep(3 * span) // what renews it must not forget that it is to end
			if n := leases(); n != 1 {
				t.Errorf("%d leases while it is read", n)
			}
			two()
			if n := leases(); n != 0 {
				t.Errorf("%d leases after the last reader", n)
			}
		},
		"it is its principal's": func(t *testing.T, all *pins, of *pin, _ func() int) {
			if _, ok := all.find(of.key, "q"); ok {
				t.Error("another one finds it")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				all, of, leases := made(t)
				test(t, all, of, leases)
				all.close()
				if n := leases(); n != 0 {
					t.Errorf("%d leases after the server", n)
				}
				if _, err := all.put(t.Context(), caller{}, span, nil); fault.KindOf(err) != fault.Unavailable {
					t.Errorf("pinned after the server: %v", err)
				}
			})
		})
	}
}
