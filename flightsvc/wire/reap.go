package wire

import (
	"runtime"
	"sync/atomic"
	"time"
)

// reapAfter are the moments, counted from the end of a stream, at which its
// lost messages are looked for. gRPC's own pools may point at a dropped message
// over two collections, hence three.
var reapAfter = [...]time.Duration{100 * time.Millisecond, 300 * time.Millisecond, 600 * time.Millisecond}

// reapPause is the least time between two collections, whoever asks.
const reapPause = 100 * time.Millisecond

var lastReap atomic.Int64 // unix nanoseconds

// reap watches the messages of a stream that has ended. They are either still
// being written, and come back by themselves, or gRPC has dropped them with
// their connection: then only the garbage collector finds them, and without new
// allocations it would not run for minutes while the budget they count against
// stays taken.
func reap(inFlight *atomic.Int64) {
	go func() {
		var waited time.Duration
		for _, at := range reapAfter {
			time.Sleep(at - waited)
			waited = at
			if inFlight.Load() == 0 {
				return
			}
			now, last := time.Now().UnixNano(), lastReap.Load()
			if now-last >= int64(reapPause) && lastReap.CompareAndSwap(last, now) {
				runtime.GC()
			}
		}
	}()
}
