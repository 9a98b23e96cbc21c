package table

import (
	"container/list"
	"context"
	"sync"

	"github.com/flightblob/flightblob/internal/fault"
)

// cache keeps the most recently used values, bounded by count and by bytes,
// and loads each missing one once however many callers ask for it. Values are
// immutable and shared; dropping one from the cache never invalidates it for
// its holders.
type cache[K comparable, V any] struct {
	maxCount int
	maxBytes int64

	mu      sync.Mutex
	entries map[K]*list.Element // of *entry[K, V]
	recent  *list.List          // front = most recently used
	bytes   int64
	loading map[K]*load[V]
}

type entry[K comparable, V any] struct {
	key   K
	value V
	bytes int64
}

// load is one running fetch and the callers that wait for it.
type load[V any] struct {
	done    chan struct{}
	waiters int
	cancel  context.CancelFunc
	value   V
	err     error
}

func newCache[K comparable, V any](maxCount int, maxBytes int64) *cache[K, V] {
	return &cache[K, V]{
		maxCount: maxCount, maxBytes: maxBytes,
		entries: map[K]*list.Element{}, recent: list.New(), loading: map[K]*load[V]{},
	}
}

// get gives the value of key, fetching it when it is not held. fetch answers
// the value and the bytes that it keeps alive; its errors are not remembered.
// It runs under a context that ends when the last waiting caller gives up, so
// one caller's cancellation never fails the others.
func (c *cache[K, V]) get(ctx context.Context, key K, fetch func(context.Context) (V, int64, error)) (V, error) {
	var zero V
	c.mu.Lock()
	if e, ok := c.entries[key]; ok {
		c.recent.MoveToFront(e)
		value := e.Value.(*entry[K, V]).value
		c.mu.Unlock()
		return value, nil
	}
	l, running := c.loading[key]
	if running {
		l.waiters++
	} else {
		fetching, cancel := context.WithCancel(context.WithoutCancel(ctx))
		l = &load[V]{done: make(chan struct{}), waiters: 1, cancel: cancel}
		c.loading[key] = l
		go c.run(fetching, key, l, fetch)
	}
	c.mu.Unlock()

	select {
	case <-l.done:
		return l.value, l.err
	case <-ctx.Done():
	}
	c.mu.Lock()
	l.waiters--
	abandoned := l.waiters == 0
	if abandoned && c.loading[key] == l {
		delete(c.loading, key) // a later caller starts afresh
	}
	c.mu.Unlock()
	if abandoned {
		l.cancel()
		<-l.done // nothing runs on behalf of nobody
	}
	return zero, context.Cause(ctx)
}

func (c *cache[K, V]) run(ctx context.Context, key K, l *load[V], fetch func(context.Context) (V, int64, error)) {
	defer l.cancel()
	defer close(l.done)
	value, bytes, err := guarded(func() (V, int64, error) { return fetch(ctx) })
	c.mu.Lock()
	defer c.mu.Unlock()
	l.value, l.err = value, err
	if c.loading[key] != l {
		return
	}
	delete(c.loading, key)
	if err == nil && bytes <= c.maxBytes {
		c.put(key, value, bytes)
	}
}

// put stores a value under the lock and drops the least recently used ones.
func (c *cache[K, V]) put(key K, value V, bytes int64) {
	c.entries[key] = c.recent.PushFront(&entry[K, V]{key, value, bytes})
	c.bytes += bytes
	for c.recent.Len() > c.maxCount || c.bytes > c.maxBytes {
		oldest := c.recent.Back()
		e := c.recent.Remove(oldest).(*entry[K, V])
		delete(c.entries, e.key)
		c.bytes -= e.bytes
	}
}

// drop forgets the values of matching keys, and what is being loaded for them.
func (c *cache[K, V]) drop(match func(K) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for k, e := range c.entries {
		if match(k) {
			c.bytes -= c.recent.Remove(e).(*entry[K, V]).bytes
			delete(c.entries, k)
		}
	}
	for k := range c.loading {
		if match(k) {
			delete(c.loading, k) // those who wait get it, nobody else does
		}
	}
}

// guarded turns a panic of fetch into an error: a fault met on a goroutine of
// ours must fail one request, not end the process.
func guarded[V any](fetch func() (V, int64, error)) (value V, bytes int64, err error) {
	defer fault.Recover("table", &err)
	return fetch()
}
