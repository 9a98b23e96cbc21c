package materialize

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
)

// admitted starts an acquisition and tells whether it came through at once.
func admitted(t *testing.T, b *Budget, n int64) (<-chan *lease, bool) {
	t.Helper()
	got := make(chan *lease, 1)
	go func() {
		l, err := b.acquire(t.Context(), n)
		if err == nil {
			got <- l
		}
	}()
	synctest.Wait()
	return got, len(got) == 1
}

func TestBudgetOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(100)
		first, ok := admitted(t, b, 40)
		if !ok {
			t.Fatal("the first request waits")
		}
		second, ok := admitted(t, b, 40)
		if !ok {
			t.Fatal("the second request waits")
		}
		third, ok := admitted(t, b, 30)
		if ok {
			t.Fatal("110 of 100 bytes are in use")
		}
		small, ok := admitted(t, b, 1)
		if ok {
			t.Fatal("a later request overtook an earlier one")
		}
		if s := b.Stats(); s.InUse != 80 || s.Waiting != 2 || s.Peak != 80 || s.Capacity != 100 {
			t.Errorf("%+v", s)
		}
		(<-first).release()
		synctest.Wait()
		if len(third) != 1 || len(small) != 1 {
			t.Error("waiting requests were not admitted")
		}
		for _, c := range []<-chan *lease{second, third, small} {
			(<-c).release()
		}
		if s := b.Stats(); s.InUse != 0 || s.Waiting != 0 {
			t.Errorf("%+v", s)
		}
	})
}

func TestBudgetLargeRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(100)
		slow, _ := admitted(t, b, 50) // somebody who reads slowly
		huge, ok := admitted(t, b, 1000)
		if !ok {
			t.Fatal("a value larger than the budget waits for a slow reader")
		}
		other, ok := admitted(t, b, 60)
		if ok {
			t.Fatal("two large requests at a time")
		}
		fast, ok := admitted(t, b, 50)
		if !ok {
			t.Fatal("a large request holds up small ones")
		}
		if s := b.Stats(); s.Peak != 1100 {
			t.Errorf("peak %d, want capacity and one large request", s.Peak)
		}
		(<-huge).release()
		synctest.Wait()
		if len(other) != 1 {
			t.Error("the next large request was not admitted")
		}
		for _, c := range []<-chan *lease{slow, other, fast} {
			(<-c).release()
		}
	})
}

func TestBudgetCancel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(100)
		l, err := b.acquire(t.Context(), 50)
		if err != nil {
			t.Fatal(err)
		}
		held, _ := admitted(t, b, 30)
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error, 1)
		go func() {
			_, err := b.acquire(ctx, 50)
			failed <- err
		}()
		synctest.Wait()
		behind, ok := admitted(t, b, 20)
		if ok {
			t.Fatal("overtaken")
		}
		cancel()
		synctest.Wait()
		if err := <-failed; !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
		if len(behind) != 1 {
			t.Error("the request behind a cancelled one still waits")
		}
		if _, err := b.acquire(ctx, 1); !errors.Is(err, context.Canceled) {
			t.Errorf("a dead context was admitted: %v", err)
		}
		l.shrink(20)
		if s := b.Stats(); s.InUse != 80 {
			t.Errorf("%+v", s)
		}
		l.release()
		(<-held).release()
		(<-behind).release()
		if s := b.Stats(); s.InUse != 0 || s.Waiting != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// TestBudgetRace lets many streams acquire, shrink, cancel and release.
func TestBudgetRace(t *testing.T) {
	t.Parallel()
	b := NewBudget(1000)
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(i)))
			for range 200 {
				ctx, cancel := context.WithCancel(t.Context())
				if r.IntN(3) == 0 {
					go cancel()
				}
				if l, err := b.acquire(ctx, r.Int64N(1200)); err == nil {
					l.retain()
					l.shrink(min(l.n, r.Int64N(10)))
					go l.release()
					if s := b.Stats(); s.InUse > 1000+1200 {
						t.Errorf("%+v", s)
					}
					l.release()
				}
				cancel()
			}
		})
	}
	wg.Wait()
	for b.Stats().InUse > 0 { // the last asynchronous releases
		if t.Context().Err() != nil {
			t.Fatal(t.Context().Err())
		}
	}
	if s := b.Stats(); s.InUse != 0 || s.Waiting != 0 {
		t.Errorf("%+v", s)
	}
}

func TestPool(t *testing.T) {
	t.Parallel()
	for _, n := range []int64{0, 1, 63, 64, 4096, 4097, 5000, 8192, 100 << 10, 4<<20 - 1, 4 << 20, 64 << 20, 64<<20 + 1} {
		class := sizeClass(n)
		if class < n || class > n+max(64, n/4) {
			t.Errorf("sizeClass(%d) = %d", n, class)
		}
		if sizeClass(class) != class {
			t.Errorf("sizeClass(%d) = %d is not its own class", n, class)
		}
	}
	p := &pool{limit: 16 << 10}
	a := p.get(5000)
	if len(a) != 5000 || int64(cap(a)) != sizeClass(5000) {
		t.Fatalf("len %d cap %d", len(a), cap(a))
	}
	a[0] = 7
	p.put(a)
	if p.held() != sizeClass(5000) {
		t.Errorf("held %d", p.held())
	}
	again := p.get(4200) // same class
	if len(again) != 4200 || &again[0] != &a[0] || p.held() != 0 {
		t.Error("the buffer was not reused")
	}
	p.put(make([]byte, 1<<20))
	p.put(make([]byte, 100))
	if p.held() != 0 {
		t.Errorf("holds %d bytes of buffers that are too large or too small", p.held())
	}
	for range 10 {
		p.put(make([]byte, 8192))
	}
	if p.held() > p.limit {
		t.Errorf("holds %d of %d bytes", p.held(), p.limit)
	}
	p.put(make([]byte, 14<<10)) // a new demand pushes out what is kept
	if p.held() != 14<<10 {
		t.Errorf("held %d", p.held())
	}
}
