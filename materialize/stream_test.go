package materialize

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/flightblob/flightblob/internal/fault"
)

// many is a source of n rows of size bytes each, from one packed object.
func (w *world) many(n, size int) *source {
	w.tb.Helper()
	w.store.mu.Lock()
	if len(w.store.objects[sidecar(1)]) != n*size {
		w.store.objects[sidecar(1)] = large(n * size)
	}
	w.store.mu.Unlock()
	in := make([]string, n)
	for i := range in {
		in[i] = desc(1, i*size, size, 1, "")
	}
	return w.img(rows(in...))
}

// count reads a reader to its end and checks each value against the object.
func (w *world) count(r array.RecordReader, size int, slow time.Duration) (n int, err error) {
	defer r.Release()
	w.store.mu.Lock()
	object := w.store.objects[sidecar(1)]
	w.store.mu.Unlock()
	for r.Next() {
		values := r.RecordBatch().Column(0).(*array.LargeBinary)
		for i := range values.Len() {
			if !bytes.Equal(values.Value(i), object[n*size:(n+1)*size]) {
				return n, fmt.Errorf("row %d holds other bytes", n)
			}
			n++
		}
		time.Sleep(slow)
	}
	return n, r.Err()
}

// TestSlowAndFastReaders shares a small budget between streams, one of which
// hardly reads. All end, and nobody exceeds the budget.
func TestSlowAndFastReaders(t *testing.T) {
	t.Parallel()
	const n, size = 400, 10 << 10
	w := newWorld(t)
	b := NewBudget(1 << 20)
	stalled := w.start(t.Context(), w.many(n, size), Options{Budget: b})
	if !stalled.Next() {
		t.Fatal(stalled.Err())
	}
	var wg sync.WaitGroup
	for range 8 {
		r := w.start(t.Context(), w.many(n, size), Options{Budget: b})
		wg.Go(func() {
			if got, err := w.count(r, size, 0); got != n || err != nil {
				t.Errorf("%d rows, %v", got, err)
			}
		})
	}
	wg.Wait()
	s := b.Stats()
	if s.Peak > 1<<20 || s.Peak < 1<<18 {
		t.Errorf("%+v", s)
	}
	if s.InUse > 1<<18+1<<10 {
		t.Errorf("a stalled reader holds %d bytes", s.InUse)
	}
	stalled.Release()
	if s := b.Stats(); s.InUse != 0 || s.Pooled > 1<<18 {
		t.Errorf("%+v", s)
	}
}

// TestValuesLargerThanTheBudget go through one at a time.
func TestValuesLargerThanTheBudget(t *testing.T) {
	t.Parallel()
	const n, size = 6, 300 << 10
	w := newWorld(t)
	b := NewBudget(100 << 10)
	var wg sync.WaitGroup
	for i := range 4 {
		r := w.start(t.Context(), w.many(n, size), Options{Budget: b})
		wg.Go(func() {
			if got, err := w.count(r, size, time.Duration(i)*time.Millisecond); got != n || err != nil {
				t.Errorf("%d rows, %v", got, err)
			}
		})
	}
	wg.Wait()
	if s := b.Stats(); s.Peak > 2*size || s.InUse != 0 {
		t.Errorf("%+v", s)
	}
}

func TestBuffersAreGivenBackWithTheBatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := NewBudget(1 << 20)
	r := w.start(t.Context(), w.many(10, 20<<10), Options{Budget: b, BatchBytes: 1 << 20})
	if !r.Next() {
		t.Fatal(r.Err())
	}
	rec := r.RecordBatch()
	rec.Retain()
	r.Release()
	if s := b.Stats(); s.InUse < 100<<10 {
		t.Errorf("a batch in use counts as %+v", s)
	}
	part := rec.NewSlice(1, 3)
	rec.Release()
	if s := b.Stats(); s.InUse < 100<<10 {
		t.Errorf("a slice in use counts as %+v", s)
	}
	part.Release()
	if s := b.Stats(); s.InUse != 0 {
		t.Errorf("after the last release %+v", s)
	}
}

func TestPrefetchIsBounded(t *testing.T) {
	t.Parallel()
	for _, prefetch := range []int{0, 1, 3} {
		w := newWorld(t)
		r := w.start(t.Context(), w.many(50, 10<<10), Options{BatchBytes: 15 << 10, Prefetch: prefetch})
		if !r.Next() {
			t.Fatal(r.Err())
		}
		want := 1 + max(prefetch, 1)
		deadline := time.Now().Add(5 * time.Second)
		for {
			w.store.mu.Lock()
			n := len(w.store.reads)
			w.store.mu.Unlock()
			if n >= want || time.Now().After(deadline) {
				break
			}
			time.Sleep(time.Millisecond)
		}
		time.Sleep(20 * time.Millisecond) // what would be read too early has time to
		if got := len(strings.Split(w.store.log(), ") ")); got != want {
			t.Errorf("prefetch %d: %d batches were read, want %d", prefetch, got, want)
		}
		r.Release()
	}
}

// goroutines waits for the number to fall back to at most n.
func goroutines(t *testing.T, n int) {
	t.Helper()
	deadline := time.Now().Add(5 * time.Second)
	for runtime.NumGoroutine() > n {
		if time.Now().After(deadline) {
			buf := make([]byte, 1<<16)
			t.Fatalf("%d goroutines instead of %d\n%s", runtime.NumGoroutine(), n, buf[:runtime.Stack(buf, true)])
		}
		time.Sleep(time.Millisecond)
	}
}

// TestStopping does not run in parallel: it counts goroutines.
func TestStopping(t *testing.T) {
	t.Run("release in the middle", func(t *testing.T) {
		before := runtime.NumGoroutine()
		w := newWorld(t)
		b := NewBudget(1 << 20)
		src := w.many(200, 10<<10)
		r := w.start(t.Context(), src, Options{Budget: b})
		if !r.Next() {
			t.Fatal(r.Err())
		}
		r.Release()
		if s := b.Stats(); s.InUse != 0 || s.Waiting != 0 || src.refs.Load() != -1 {
			t.Errorf("%+v, %d references of the source", s, src.refs.Load())
		}
		goroutines(t, before)
	})
	t.Run("release before the first batch", func(t *testing.T) {
		before := runtime.NumGoroutine()
		w := newWorld(t)
		w.start(t.Context(), w.many(200, 10<<10), Options{}).Release()
		goroutines(t, before)
	})
	t.Run("cancel while waiting for the budget", func(t *testing.T) {
		before := runtime.NumGoroutine()
		w := newWorld(t)
		b := NewBudget(100)
		hold, err := b.acquire(t.Context(), 60) // the place of the one large request
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		r := w.start(ctx, w.many(10, 1000), Options{Budget: b})
		go func() {
			for b.Stats().Waiting == 0 {
				time.Sleep(time.Millisecond)
			}
			cancel()
		}()
		if r.Next() || !errors.Is(r.Err(), context.Canceled) {
			t.Errorf("error %v", r.Err())
		}
		r.Release()
		hold.release()
		if s := b.Stats(); s.InUse != 0 || s.Waiting != 0 {
			t.Errorf("%+v", s)
		}
		goroutines(t, before)
	})
	t.Run("cancel while a store hangs", func(t *testing.T) {
		before := runtime.NumGoroutine()
		w := newWorld(t)
		src := w.many(10, 1000)
		w.store.before = func(ctx context.Context, _ string) error {
			<-ctx.Done()
			return ctx.Err()
		}
		ctx, cancel := context.WithCancel(t.Context())
		r := w.start(ctx, src, Options{})
		time.AfterFunc(20*time.Millisecond, cancel)
		if r.Next() || !errors.Is(r.Err(), context.Canceled) {
			t.Errorf("error %v", r.Err())
		}
		r.Release()
		goroutines(t, before)
	})
	t.Run("a panic below is an error", func(t *testing.T) {
		before := runtime.NumGoroutine()
		w := newWorld(t)
		src := w.many(3, 1000)
		w.store.before = func(context.Context, string) error { panic("store") }
		got, err := w.run(src, Options{})
		if len(got) != 0 || fault.KindOf(err) != fault.Internal || !strings.Contains(err.Error(), "store") {
			t.Errorf("got %s, %v", got, err)
		}
		goroutines(t, before)
	})
	t.Run("an error while others read", func(t *testing.T) {
		before := runtime.NumGoroutine()
		w := newWorld(t)
		src := w.many(8, 1000)
		var in []string
		for i := range 8 {
			w.store.objects[fmt.Sprint("o", i)] = large(1000)
			in = append(in, desc(3, 0, 1000, 0, fmt.Sprint("ext:///o", i)))
		}
		src.Release()
		w.store.before = func(_ context.Context, path string) error {
			if path == "o5" {
				return fault.New(fault.Internal, "broken")
			}
			time.Sleep(time.Millisecond)
			return nil
		}
		_, err := w.run(w.img(rows(in...)), Options{})
		var failed *ValueError
		if !errors.As(err, &failed) || failed.Row != 5 {
			t.Errorf("error %v", err)
		}
		if w.store.most < 2 || w.store.most > defaultParallel {
			t.Errorf("%d reads at a time", w.store.most)
		}
		goroutines(t, before)
	})
}

func TestLookAhead(t *testing.T) {
	t.Parallel()
	t.Run("NUL-9 lengths are asked for together, each object once", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		var in []string
		for i := range 40 {
			w.store.objects[fmt.Sprint("o", i%20)] = []byte(letters)
			in = append(in, desc(3, 0, 0, 0, fmt.Sprint("ext:///o", i%20)))
		}
		got, err := w.run(w.img(rows(in...)), Options{Parallel: 4})
		if err != nil || len(got) != 1 {
			t.Fatalf("%d batches, %v", len(got), err)
		}
		if len(w.store.sizes) != 20 {
			t.Errorf("%d lengths were asked for", len(w.store.sizes))
		}
	})
	t.Run("RES-15 a missing object fails at its own row", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.store.objects["o"] = []byte("x")
		ok, gone := desc(3, 0, 0, 0, "ext:///o"), desc(3, 0, 0, 0, "ext:///gone")
		got, err := w.run(w.img(rows(ok, ok, gone, ok)), Options{})
		var failed *ValueError
		if !errors.As(err, &failed) || failed.Row != 2 || fault.KindOf(err) != fault.NotFound {
			t.Errorf("error %v", err)
		}
		if joined(got) != rows(b64("x"), b64("x")) {
			t.Errorf("got %s", got)
		}
	})
}
