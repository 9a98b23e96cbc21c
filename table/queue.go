package table

import (
	"context"
	"sync"
)

// queues lets the commits of this process to one table pass one at a time, so
// that they do not race each other and lose. It is about speed, never about
// safety: other processes do not stand in it, and publishing a manifest is
// create-if-absent.
type queues struct {
	mu     sync.Mutex
	tables map[string]*queue
}

type queue struct {
	turn  chan struct{} // holds one token
	users int
}

// enter waits for the turn of a table and answers how to end it. It fails only
// when ctx ends.
func (q *queues) enter(ctx context.Context, table string) (leave func(), err error) {
	q.mu.Lock()
	if q.tables == nil {
		q.tables = map[string]*queue{}
	}
	mine, ok := q.tables[table]
	if !ok {
		mine = &queue{turn: make(chan struct{}, 1)}
		q.tables[table] = mine
	}
	mine.users++
	q.mu.Unlock()

	gone := func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		if mine.users--; mine.users == 0 {
			delete(q.tables, table)
		}
	}
	select {
	case mine.turn <- struct{}{}:
		return func() { <-mine.turn; gone() }, nil
	case <-ctx.Done():
		gone()
		return nil, ctx.Err()
	}
}
