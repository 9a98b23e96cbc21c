package table

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/flightblob/flightblob/internal/fault"
)

func TestCacheLoadsOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCache[string, int](10, 1000)
		loads := 0
		release := make(chan struct{})
		var group sync.WaitGroup
		for range 20 {
			group.Go(func() {
				v, err := c.get(t.Context(), "k", func(context.Context) (int, int64, error) {
					loads++
					<-release
					return 7, 1, nil
				})
				if v != 7 || err != nil {
					t.Errorf("got %d, %v", v, err)
				}
			})
		}
		synctest.Wait()
		close(release)
		group.Wait()
		if loads != 1 {
			t.Errorf("%d loads", loads)
		}
	})
}

func TestCacheOneCallerGivesUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCache[string, int](10, 1000)
		release := make(chan struct{})
		fetch := func(ctx context.Context) (int, int64, error) {
			select {
			case <-release:
				return 7, 1, nil
			case <-ctx.Done():
				return 0, 0, ctx.Err()
			}
		}
		impatient, cancel := context.WithCancelCause(t.Context())
		var group sync.WaitGroup
		why := errors.New("enough")
		group.Go(func() {
			if _, err := c.get(impatient, "k", fetch); !errors.Is(err, why) {
				t.Errorf("the impatient caller got %v", err)
			}
		})
		synctest.Wait()
		group.Go(func() {
			if v, err := c.get(t.Context(), "k", fetch); v != 7 || err != nil {
				t.Errorf("the other caller got %d, %v", v, err)
			}
		})
		synctest.Wait()
		cancel(why)
		synctest.Wait()
		close(release)
		group.Wait()
	})
}

func TestCacheAllCallersGiveUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCache[string, int](10, 1000)
		ctx, cancel := context.WithCancel(t.Context())
		stopped := false
		go cancel()
		_, err := c.get(ctx, "k", func(ctx context.Context) (int, int64, error) {
			<-ctx.Done()
			stopped = true
			return 0, 0, ctx.Err()
		})
		if !errors.Is(err, context.Canceled) || !stopped {
			t.Errorf("got %v, load stopped: %t", err, stopped)
		}
		v, err := c.get(t.Context(), "k", func(context.Context) (int, int64, error) { return 8, 1, nil })
		if v != 8 || err != nil {
			t.Errorf("a later caller got %d, %v", v, err)
		}
	})
}

func TestCacheBounds(t *testing.T) {
	t.Parallel()
	loads := 0
	get := func(c *cache[string, int], key string, bytes int64) {
		t.Helper()
		if _, err := c.get(t.Context(), key, func(context.Context) (int, int64, error) {
			loads++
			return 1, bytes, nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	for _, x := range []struct {
		name     string
		count    int
		bytes    int64
		size     int64
		wantHeld int
	}{
		{"by count", 3, 1000, 1, 3},
		{"by bytes", 100, 50, 20, 2},
		{"too large for the cache", 100, 50, 51, 0},
	} {
		c := newCache[string, int](x.count, x.bytes)
		for i := range 10 {
			get(c, fmt.Sprint(i), x.size)
		}
		if len(c.entries) != x.wantHeld || c.recent.Len() != x.wantHeld || c.bytes != int64(x.wantHeld)*x.size {
			t.Errorf("%s: %d entries of %d bytes, want %d", x.name, len(c.entries), c.bytes, x.wantHeld)
		}
	}
	c := newCache[string, int](2, 1000)
	get(c, "a", 1)
	get(c, "b", 1)
	get(c, "a", 1)
	get(c, "c", 1) // drops b, which was used longest ago
	loads = 0
	get(c, "a", 1)
	get(c, "b", 1)
	if loads != 1 {
		t.Errorf("%d loads of a and b, want that of b", loads)
	}
}

func TestCacheFailures(t *testing.T) {
	t.Parallel()
	c := newCache[string, int](10, 1000)
	if _, err := c.get(t.Context(), "k", func(context.Context) (int, int64, error) { panic("broken") }); fault.KindOf(err) != fault.Internal {
		t.Errorf("a panic became %v", err)
	}
	fails := errors.New("no luck")
	if _, err := c.get(t.Context(), "k", func(context.Context) (int, int64, error) { return 0, 0, fails }); !errors.Is(err, fails) {
		t.Errorf("got %v", err)
	}
	if v, err := c.get(t.Context(), "k", func(context.Context) (int, int64, error) { return 3, 1, nil }); v != 3 || err != nil {
		t.Errorf("after failures: %d, %v", v, err)
	}
}
