package blob

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/objstore/faultstore"
)

// through lets the desk's Placer see another store over the desk's own.
func (d *desk) through(s objstore.Store) {
	d.owner.File.Store, d.owner.Dir.Store, d.owner.Base.Store = s, s, s
	d.policy.URIs.Locate = func(ctx context.Context, uri string) (objstore.Location, error) {
		loc, err := d.locate(ctx, uri)
		loc.Store = s
		return loc, err
	}
}

// session places two batches with every kind of source, and commits or aborts.
func session(ctx context.Context, d *desk) error {
	s := tableOf(d.t, limited("a", 5, 100, 60), limited("b", 5, 100, 60))
	fields := []arrow.Field{blobField("a", whole), blobField("b", whole)}
	p := d.open()
	err := func() error {
		for seed := range 2 {
			batch := batchOf(d.t, fmt.Sprintf(`[{"a":%s,"b":%s},{"a":{"uri":"mem://desk/ext/x"},"b":{"uri":"mem://desk/ext/x","position":3,"size":50}},{"a":%s,"b":%s}]`,
				dataJSON(30, seed), dataJSON(200, seed), dataJSON(40, seed), dataJSON(3, seed)), fields...)
			in, err := AsInputs(s, batch, nil)
			if err != nil {
				return err
			}
			out, err := p.Place(ctx, memory.DefaultAllocator, in)
			in.Release()
			if err != nil {
				return err
			}
			out.Release()
		}
		return p.Commit(ctx)
	}()
	if err != nil {
		p.Abort(ctx)
	}
	return err
}

// TestPlacerFaults lets every call of the store fail once, in every way. A
// session that fails leaves nothing behind, one that does not has everything
// durable.
func TestPlacerFaults(t *testing.T) {
	t.Parallel()
	for name, managed := range map[string]bool{"sidecars": false, "managed": true} {
		complete := func() []string {
			d := newDesk(t)
			d.policy.Managed, d.policy.URIs.Mode = managed, Ingest
			d.store.Set("ext/x", payload(500, 1))
			if err := session(t.Context(), d); err != nil {
				t.Fatal(err)
			}
			return d.tree()
		}()
		for _, how := range []faultstore.How{faultstore.Refused, faultstore.Lost, faultstore.Unanswered, faultstore.Cancelled} {
			t.Run(fmt.Sprintf("WRT-9 %s, way %d", name, how), func(t *testing.T) {
				t.Parallel()
				failures := 0
				for n := 1; ; n++ {
					d := newDesk(t)
					d.policy.Managed, d.policy.URIs.Mode = managed, Ingest
					d.policy.Copies = 1 // so that calls come in one order
					d.store.Set("ext/x", payload(500, 1))
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					s := faultstore.New(d.store, faultstore.Plan{Call: n, How: how, Cancel: cancel})
					d.through(s)
					err := session(ctx, d)
					tree := d.tree()
					switch calls := s.Calls(); {
					case err == nil:
						if fmt.Sprint(tree) != fmt.Sprint(complete) {
							t.Errorf("call %d: stored %v, not %v", n, tree, complete)
						}
					case len(tree) != 1: // only the source
						if last := calls[n-1]; last.Op != faultstore.Delete {
							t.Errorf("call %d, %s: left %v after %v", n, last, tree, err)
						}
					default:
						failures++
					}
					if !s.Failed() {
						break
					}
				}
				if failures < 5 {
					t.Errorf("%d sessions failed", failures)
				}
			})
		}
	}
}

func TestPlacerEnds(t *testing.T) {
	t.Parallel()
	s := tableOf(t, limited("b", 0, 10, 100))
	place := func(t *testing.T, d *desk) error {
		_, err := d.place(s, batchOf(t, rowsOf("b", dataJSON(5, 1), dataJSON(50, 2)), blobField("b", whole)))
		return err
	}
	t.Run("abort takes everything back, after commit too", func(t *testing.T) {
		for _, commit := range []bool{false, true} {
			d := newDesk(t)
			if err := place(t, d); err != nil {
				t.Fatal(err)
			}
			if commit {
				if err := d.placer.Commit(t.Context()); err != nil {
					t.Fatal(err)
				}
				if len(d.tree()) != 2 {
					t.Errorf("stored %v", d.tree())
				}
			}
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			d.placer.Abort(ended)
			if left := d.tree(); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
			d.placer.Abort(t.Context()) // again
		}
	})
	t.Run("nothing goes on after the end", func(t *testing.T) {
		d := newDesk(t)
		d.commit()
		if err := place(t, d); fault.KindOf(err) != fault.Internal || err == nil {
			t.Errorf("place: %v", err)
		}
		if err := d.placer.Commit(t.Context()); err == nil {
			t.Error("commits twice")
		}
		d = newDesk(t)
		d.open().Abort(t.Context())
		if err := place(t, d); err == nil {
			t.Error("places after abort")
		}
		if err := d.placer.Commit(t.Context()); err == nil {
			t.Error("commits after abort")
		}
	})
	t.Run("a full data file", func(t *testing.T) {
		d := newDesk(t)
		d.file.fail = fault.New(fault.Exhausted, "no space")
		_, err := d.place(tableOf(t, limited("b", 10, 20, 100)), batchOf(t, rowsOf("b", dataJSON(5, 1)), blobField("b", whole)))
		var bad *InputError
		if fault.KindOf(err) != fault.Exhausted || errors.As(err, &bad) {
			t.Errorf("a failure of the file is no failure of a value: %v", err)
		}
	})
	t.Run("a base that is not registered", func(t *testing.T) {
		id := uint32(7)
		_, err := NewPlacer(t.Context(), Policy{TargetBase: &id}, &Owner{BaseID: &id}, &dataFile{})
		if err == nil || !strings.Contains(err.Error(), "base 7 is not registered") {
			t.Error(err)
		}
		if _, err := NewPlacer(t.Context(), Policy{}, &Owner{BaseID: &id}, &dataFile{}); fault.KindOf(err) != fault.Internal || err == nil {
			t.Error(err)
		}
	})
	t.Run("memory goes back when a batch fails", func(t *testing.T) {
		d := newDesk(t)
		d.policy.URIs.Mode = Ingest
		mem := memory.NewCheckedAllocator(memory.DefaultAllocator)
		defer mem.AssertSize(t, 0)
		both := tableOf(t, limited("b", 0, 10, 100), field("l", list(limited("c", 0, 10, 100))))
		batch := batchOf(t, `[{"b":{"data":"YQ=="},"l":[{"data":"YQ=="},{"uri":"mem://desk/gone"}]}]`, blobField("b", whole), field("l", list(blobField("c", whole))))
		in, err := AsInputs(both, batch, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer in.Release()
		if _, err := d.open().Place(t.Context(), mem, in); err == nil {
			t.Error("a missing source is taken")
		}
	})
}
