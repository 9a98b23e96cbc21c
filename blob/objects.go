package blob

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
)

// objects are those that a Placer makes outside of the data file. Finished ones
// are made durable by goroutines, a few at a time.
type objects struct {
	tasks *errgroup.Group
	made  []objstore.Location // everything that may exist

	mu    sync.Mutex
	first error // of a task
}

func (o *objects) init(most int) {
	o.tasks = new(errgroup.Group)
	o.tasks.SetLimit(most)
}

// create begins an object that did not exist before.
func (o *objects) create(ctx context.Context, at objstore.Location) (objstore.Writer, error) {
	if err := o.err(); err != nil {
		return nil, err
	}
	w, err := at.Create(ctx)
	if err != nil {
		return nil, err
	}
	o.made = append(o.made, at)
	return w, nil
}

// finish runs a task that ends a writer: it commits or aborts it. It waits
// while too many run.
func (o *objects) finish(task func() error) {
	o.tasks.Go(func() (err error) {
		defer func() {
			if err != nil {
				o.mu.Lock()
				if o.first == nil {
					o.first = err
				}
				o.mu.Unlock()
			}
		}()
		defer fault.Recover("blob", &err)
		return task()
	})
}

// err is the first failure so far.
func (o *objects) err() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.first
}

// wait ends when all tasks have.
func (o *objects) wait() error {
	_ = o.tasks.Wait() // first says the same, in order of time
	return o.err()
}

// removeFor is how long Abort tries to remove objects.
const removeFor = 30 * time.Second

// remove deletes everything that was made.
func (o *objects) remove(ctx context.Context) {
	_ = o.wait()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeFor)
	defer cancel()
	var group errgroup.Group
	group.SetLimit(8)
	for _, at := range o.made {
		group.Go(func() (err error) {
			defer fault.Recover("blob", &err)
			return at.Delete(ctx)
		})
	}
	_ = group.Wait() // what stays is an orphan, which cleanup removes
	o.made = nil
}
