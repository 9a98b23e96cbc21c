package materialize

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flightblob/flightblob/internal/fault"
)

// large is n bytes that differ from place to place.
func large(n int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(i*7 + i>>8)
	}
	return p
}

func TestBorrow(t *testing.T) {
	t.Parallel()
	const n = 40 << 10
	packed := func(position int) string { return desc(1, position, n, 1, "") }
	for _, c := range []struct {
		name   string
		values []string
		lent   bool
	}{
		{"packed values in order", []string{packed(0), packed(n), packed(2 * n)}, true},
		{"nulls and empties between", []string{"null", packed(n), desc(1, 0, 0, 1, ""), "null", packed(2 * n), inline(0, 0)}, true},
		{"one dedicated value", []string{desc(2, 0, 4*n, 1, "")}, true},
		{"one inline value", []string{inline(7, n)}, true},
		{"out of order", []string{packed(n), packed(0)}, false},
		{"a hole", []string{packed(0), packed(n + 1)}, false},
		{"two objects", []string{packed(0), desc(1, n, n, 2, "")}, false},
		{"the same value twice", []string{packed(0), packed(0)}, false},
		{"too small to be worth it", []string{desc(1, 5, 100, 1, "")}, false},
		{"external objects may change", []string{desc(3, 0, n, 0, "ext:///o")}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			objects := map[string][]byte{
				"data/f.lance": large(2 * n), sidecar(1): large(4 * n), sidecar(2): large(4 * n), "o": large(n),
			}
			run := func(lend bool) (string, *world) {
				w := newWorld(t)
				w.store.objects = objects
				w.lend()
				got, err := w.run(w.img(rows(append([]string(nil), c.values...)...)), Options{Map: lend})
				if err != nil {
					t.Fatal(err)
				}
				return joined(got), w
			}
			want, plain := run(false)
			got, w := run(true)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("borrowed bytes differ (-want +got):\n%.500s", diff)
			}
			if plain.maps.maps.Load() != 0 {
				t.Error("mapped without being asked to")
			}
			if lent := w.maps.maps.Load() > 0; lent != c.lent {
				t.Errorf("lent = %t", lent)
			}
			if c.lent && (w.store.log() != "" || w.maps.noted.Load() == 0) {
				t.Errorf("%d bytes noted, and something was read", w.maps.noted.Load())
			}
			if w.maps.lent.Load() != 0 {
				t.Errorf("%d mappings were not given back", w.maps.lent.Load())
			}
		})
	}
	t.Run("mutable owners are read", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.store.objects[sidecar(1)] = large(2 * n)
		w.lend()
		w.owner.Immutable = false
		if _, err := w.run(w.img(rows(packed(0))), Options{Map: true}); err != nil || w.maps.maps.Load() != 0 {
			t.Errorf("%d maps, %v", w.maps.maps.Load(), err)
		}
	})
	t.Run("lent bytes cost no budget and no copy", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.store.objects[sidecar(1)] = large(2 * n)
		w.lend()
		b := NewBudget(64 << 20)
		r := w.start(t.Context(), w.img(rows(packed(0), packed(n))), Options{Map: true, Budget: b})
		if !r.Next() {
			t.Fatal(r.Err())
		}
		data := r.RecordBatch().Column(0).Data().Buffers()[2].Bytes()
		if &data[0] != &w.store.objects[sidecar(1)][0] || len(data) != 2*n {
			t.Error("the batch does not point into the object")
		}
		if s := b.Stats(); s.InUse > 1024 {
			t.Errorf("%+v", s)
		}
		rec := r.RecordBatch()
		rec.Retain()
		r.Release()
		if w.maps.lent.Load() != 1 {
			t.Error("the mapping went before the batch")
		}
		rec.Release()
		if w.maps.lent.Load() != 0 {
			t.Error("the mapping outlived the batch")
		}
	})
	t.Run("RES-14 ERR-16 an object cut short is an error, not a fault", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.store.objects[sidecar(1)] = large(2*n - 1)
		w.lend()
		_, err := w.run(w.img(rows(packed(0), packed(n))), Options{Map: true})
		if fault.KindOf(err) != fault.Corrupt || !strings.Contains(err.Error(), "row 1:") ||
			!strings.Contains(err.Error(), fmt.Sprintf("%d bytes at %d end beyond the object, which holds %d", n, n, 2*n-1)) {
			t.Errorf("error %v", err)
		}
	})
	t.Run("REJ-6 a missing object is data loss", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.lend()
		_, err := w.run(w.img(rows(packed(0))), Options{Map: true})
		if fault.KindOf(err) != fault.Corrupt || !strings.Contains(err.Error(), sidecar(1)) {
			t.Errorf("error %v", err)
		}
	})
}
