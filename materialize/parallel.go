package materialize

import (
	"sync"
	"sync/atomic"

	"github.com/flightblob/flightblob/internal/fault"
)

// each runs do for 0 to n-1, at most limit at a time, and waits for all that
// it started. After a failure nothing new is started; the error is that of the
// lowest index. A panic in do is an error, since it would end the process from
// a goroutine that nobody else guards.
func each(limit, n int, do func(i int) error) error {
	errs := make([]error, n)
	var next atomic.Int64
	var failed atomic.Bool
	work := func() {
		for !failed.Load() {
			i := int(next.Add(1)) - 1
			if i >= n {
				return
			}
			if errs[i] = guard(func() error { return do(i) }); errs[i] != nil {
				failed.Store(true)
			}
		}
	}
	var wg sync.WaitGroup
	for range min(limit, n) - 1 {
		wg.Go(work)
	}
	work()
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// guard runs f and turns a panic into an error.
func guard(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fault.New(fault.Internal, "materialize: panic: %v", p)
		}
	}()
	return f()
}
