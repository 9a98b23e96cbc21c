package materialize

import (
	"context"
	"sync"
	"sync/atomic"
)

// DefaultBudget is the capacity of the budget that a reader makes for itself
// when it is given none.
const DefaultBudget = 256 << 20

// Budget bounds the bytes that all streams sharing it hold at a time: value
// buffers from the moment they are planned until the last batch that points
// into them is released, and scratch buffers. Borrowed mappings are page cache
// and cost nothing.
//
// Each output batch is admitted in one acquisition, in order of arrival, so
// that no stream waits for more while others wait for what it holds. A request
// of more than half the capacity waits in a lane of its own: one such request
// is in at a time, beside the others. Without that lane a huge value would
// have to wait for every slow reader to finish, and everyone behind it too.
// In use are therefore at most capacity bytes plus one such request.
type Budget struct {
	capacity int64
	pool     pool

	mu     sync.Mutex
	shared lane // requests up to half the capacity, together at most capacity
	single lane // larger ones, one at a time
	peak   int64
}

// lane is a first-in-first-out queue of requests and what is admitted.
type lane struct {
	used    int64
	holders int
	queue   []*waiter
}

type waiter struct {
	n     int64
	ready chan struct{} // closed once admitted
}

// BudgetStats is a moment's view of a Budget.
type BudgetStats struct {
	Capacity int64 // bytes
	InUse    int64 // bytes admitted and not given back
	Peak     int64 // highest InUse so far
	Waiting  int   // requests that wait
	Pooled   int64 // bytes kept for reuse
}

// NewBudget makes a budget of the given bytes; less than 1 means 1.
func NewBudget(bytes int64) *Budget {
	b := &Budget{capacity: max(bytes, 1)}
	b.pool.limit = b.capacity / 4
	return b
}

// Stats gives the counters of this moment.
func (b *Budget) Stats() BudgetStats {
	b.mu.Lock()
	defer b.mu.Unlock()
	return BudgetStats{
		Capacity: b.capacity,
		InUse:    b.shared.used + b.single.used,
		Peak:     b.peak,
		Waiting:  len(b.shared.queue) + len(b.single.queue),
		Pooled:   b.pool.held(),
	}
}

// share is the largest batch that a stream should aim for: with the two that
// it may have in flight, one slow reader holds a quarter of the capacity.
func (b *Budget) share() int64 { return max(b.capacity/8, 1) }

// lane picks the queue for a request and its admission rule.
func (b *Budget) lane(n int64) *lane {
	if n > b.capacity/2 {
		return &b.single
	}
	return &b.shared
}

func (b *Budget) fits(l *lane, n int64) bool {
	if l == &b.single {
		return l.holders == 0
	}
	return l.used+n <= b.capacity
}

// acquire waits until n bytes are admitted or ctx ends. The lease starts with
// one reference.
func (b *Budget) acquire(ctx context.Context, n int64) (*lease, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	b.mu.Lock()
	l := b.lane(n)
	if len(l.queue) == 0 && b.fits(l, n) {
		b.admit(l, n)
		b.mu.Unlock()
		return newLease(b, n), nil
	}
	w := &waiter{n: n, ready: make(chan struct{})}
	l.queue = append(l.queue, w)
	b.mu.Unlock()

	select {
	case <-w.ready:
		return newLease(b, n), nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, other := range l.queue {
		if other == w {
			l.queue = append(l.queue[:i], l.queue[i+1:]...)
			b.wake(l) // those behind may fit where this one did not
			return nil, ctx.Err()
		}
	}
	b.giveLocked(l, n, 1) // admitted at the same moment
	return nil, ctx.Err()
}

func (b *Budget) admit(l *lane, n int64) {
	l.used += n
	l.holders++
	b.peak = max(b.peak, b.shared.used+b.single.used)
}

// wake admits from the head of the queue while the head fits.
func (b *Budget) wake(l *lane) {
	for len(l.queue) > 0 && b.fits(l, l.queue[0].n) {
		w := l.queue[0]
		l.queue[0] = nil
		l.queue = l.queue[1:]
		b.admit(l, w.n)
		close(w.ready)
	}
}

func (b *Budget) giveLocked(l *lane, n int64, holders int) {
	l.used -= n
	l.holders -= holders
	b.wake(l)
}

// lease is an admitted request. It is given back when the last reference is.
type lease struct {
	budget *Budget
	lane   *lane
	n      int64
	refs   atomic.Int64
}

func newLease(b *Budget, n int64) *lease {
	l := &lease{budget: b, lane: b.lane(n), n: n}
	l.refs.Store(1)
	return l
}

func (l *lease) retain() { l.refs.Add(1) }

// shrink gives n bytes back early. The caller holds a reference.
func (l *lease) shrink(n int64) {
	if n <= 0 {
		return
	}
	l.budget.mu.Lock()
	defer l.budget.mu.Unlock()
	l.n -= n
	l.budget.giveLocked(l.lane, n, 0)
}

func (l *lease) release() {
	if l.refs.Add(-1) != 0 {
		return
	}
	l.budget.mu.Lock()
	defer l.budget.mu.Unlock()
	l.budget.giveLocked(l.lane, l.n, 1)
}
