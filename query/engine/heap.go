package engine

// #include "heap.h"
import "C"

import (
	"sync"
	"time"
)

// Held is what the engines of this process hold in memory, in bytes: within
// their limits and beside them. 0 where that is not counted.
func Held() int64 { return int64(C.fb_held()) }

// Ceiling is what they may hold at most before large pieces are refused; 0 = no
// engine is open, or nothing is counted.
func Ceiling() int64 { return int64(C.fb_ceiling()) }

// beside is what an engine may hold beside its limit, in bytes: the vectors that
// its threads work on, and results on their way out.
func beside(cfg Config) int64 {
	if cfg.Small {
		return 0
	}
	return cfg.Memory/2 + 96<<20
}

// sentinel stops statements when the engine holds more than the ceiling all the
// same, in pieces too small to be refused: states of aggregates such as histogram
// are made of those. The call that has gone on for longest is stopped, then the
// next one, until there is less.
type sentinel struct {
	stop, done chan struct{}

	mu    sync.Mutex
	calls map[*Conn]time.Time // under way, and since when
}

// looking is how often a sentinel looks: an engine fills some 10 MiB meanwhile.
const looking = 25 * time.Millisecond

func newSentinel() *sentinel {
	s := &sentinel{stop: make(chan struct{}), done: make(chan struct{}), calls: map[*Conn]time.Time{}}
	go s.run()
	return s
}

// Working counts the calls that the engine is at work on.
func (db *DB) Working() int {
	db.sentinel.mu.Lock()
	defer db.sentinel.mu.Unlock()
	return len(db.sentinel.calls)
}

func (s *sentinel) close() {
	close(s.stop)
	<-s.done
}

func (s *sentinel) run() {
	defer close(s.done)
	tick := time.NewTicker(looking)
	defer tick.Stop()
	high := int64(0) // of what was held since memory was last given back
	for {
		select {
		case <-s.stop:
			return
		case <-tick.C:
		}
		most, held := Ceiling(), Held()
		high = max(high, held)
		if most > 0 && held > most {
			s.end()
		}
		if high > most/4 && held < high/2 {
			high = held
			C.fb_trim()
		}
	}
}

// end interrupts the oldest call.
func (s *sentinel) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	var oldest *Conn
	for c, since := range s.calls {
		if oldest == nil || since.Before(s.calls[oldest]) {
			oldest = c
		}
	}
	if oldest != nil {
		oldest.over.Store(true)
		oldest.interrupt()
	}
}

// enter notes a call on a connection, until the returned function is called.
func (s *sentinel) enter(c *Conn) func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[c] = time.Now()
	c.over.Store(false)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.calls, c)
	}
}
