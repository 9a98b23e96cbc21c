package datafile

import (
	"container/list"
	"sync"

	"github.com/flightblob/flightblob/encoding"
)

// Cache keeps page indexes (chunk tables, dictionaries, sparse structure) of
// many files within one number of bytes, dropping what was used longest ago.
// It may be used from any goroutine.
type Cache struct {
	mu    sync.Mutex
	limit int64
	used  int64
	order *list.List // of *cached, most recent first
	items map[any]*list.Element
}

type cached struct {
	key, value any
	size       int64
}

var _ encoding.Cache = (*Cache)(nil)

// NewCache makes a cache of at most limit bytes.
func NewCache(limit int64) *Cache {
	return &Cache{limit: limit, order: list.New(), items: map[any]*list.Element{}}
}

// Get finds a value and marks it used.
func (c *Cache) Get(key any) (any, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.items[key]
	if !ok {
		return nil, false
	}
	c.order.MoveToFront(e)
	item, _ := e.Value.(*cached)
	return item.value, true
}

// Put keeps a value of about size bytes, unless it is larger than the whole
// cache.
func (c *Cache) Put(key, value any, size int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if size > c.limit {
		return
	}
	if e, ok := c.items[key]; ok {
		c.drop(e)
	}
	c.items[key] = c.order.PushFront(&cached{key, value, size})
	c.used += size
	for c.used > c.limit {
		c.drop(c.order.Back())
	}
}

// Used is the number of bytes held.
func (c *Cache) Used() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.used
}

func (c *Cache) drop(e *list.Element) {
	item, _ := c.order.Remove(e).(*cached)
	delete(c.items, item.key)
	c.used -= item.size
}
