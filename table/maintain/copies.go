package maintain

import (
	"context"
	"crypto/sha256"
	"errors"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/table"
)

const (
	copiesAtOnce = 6    // objects that are copied at a time; each takes up to 8 MiB of memory between stores
	copiesWait   = 1024 // objects that wait until they are copied together
)

// copies are the objects of a table that is made by copying. Of each it remembers
// some 60 bytes: where it came from, so that no two share a place, and how long it
// is. One goroutine at a time uses it.
type copies struct {
	root    objstore.Location
	locate  func(ctx context.Context, uri string) (objstore.Location, error) // as the root was located
	mark    *mark
	tell    func(Copied)
	known   map[digest]known
	waiting map[string]*waiting
	order   []*waiting

	mu     sync.Mutex
	copied Copied
}

type digest [16]byte

func digestOf(text string) digest {
	sum := sha256.Sum256([]byte(text))
	return digest(sum[:16])
}

// known is an object that was copied.
type known struct {
	from digest
	size uint64
}

// waiting is an object that is to be copied.
type waiting struct {
	path  string // below the root
	from  objstore.Location
	least uint64 // bytes that are needed of it
	exact bool   // it has no more
	size  uint64 // once it was copied
}

func newCopies(target *table.Table, m *mark, tell func(Copied)) *copies {
	if tell == nil {
		tell = func(Copied) {}
	}
	return &copies{root: target.Root(), locate: target.Env().Locate, mark: m, tell: tell, known: map[digest]known{}, waiting: map[string]*waiting{}}
}

// claim has an object copied to a path below the root, of which the first bytes
// must be there. ok is false when another object has the path.
func (c *copies) claim(ctx context.Context, path string, from objstore.Location, least uint64) (ok bool, err error) {
	w, err := c.take(ctx, &waiting{path: path, from: from, least: least})
	return w != nil, err
}

// need says that so many bytes must be there of an object that was claimed.
func (w *waiting) need(least uint64) error {
	if w.size > 0 && least > w.size { // it was copied already
		return short(w.from, w.size, least)
	}
	w.least = max(w.least, least)
	return nil
}

// claimExactly is claim for an object whose length is known.
func (c *copies) claimExactly(ctx context.Context, path string, from objstore.Location, size uint64) (ok bool, err error) {
	w, err := c.take(ctx, &waiting{path: path, from: from, least: size, exact: true})
	return w != nil, err
}

// take answers the claim that stands for an object, nil when another object has
// its path.
func (c *copies) take(ctx context.Context, w *waiting) (*waiting, error) {
	if have := c.waiting[w.path]; have != nil {
		if have.from.String() != w.from.String() {
			return nil, nil
		}
		return have, have.need(w.least)
	}
	if have, ok := c.known[digestOf(w.path)]; ok {
		if have.from != digestOf(w.from.String()) {
			return nil, nil
		}
		w.size = have.size
		return w, w.need(w.least)
	}
	c.waiting[w.path] = w
	c.order = append(c.order, w)
	if len(c.order) < copiesWait {
		return w, nil
	}
	return w, c.flush(ctx)
}

func short(at objstore.Location, size, least uint64) error {
	return fault.New(fault.Corrupt, "%s has %d bytes; %d are needed", at, size, least)
}

// holds says whether an object was copied to a path.
func (c *copies) holds(path string, from objstore.Location) bool {
	have, ok := c.known[digestOf(path)]
	return ok && have.from == digestOf(from.String())
}

// flush copies what waits, several at a time.
func (c *copies) flush(ctx context.Context) error {
	group, copying := errgroup.WithContext(ctx)
	group.SetLimit(copiesAtOnce)
	for _, w := range c.order {
		group.Go(func() (err error) {
			defer fault.Recover("maintain", &err)
			return c.copy(copying, w)
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for _, w := range c.order {
		c.known[digestOf(w.path)] = known{from: digestOf(w.from.String()), size: w.size}
	}
	clear(c.waiting)
	c.order = c.order[:0]
	return nil
}

// copy makes one copy, unless an earlier attempt has: objects never change, and
// are there as a whole or not at all.
func (c *copies) copy(ctx context.Context, w *waiting) error {
	size, err := w.from.Size(ctx)
	if err != nil {
		return c.lost(w.from, err)
	}
	if w.size = uint64(size); w.size < w.least || w.exact && w.size != w.least {
		return short(w.from, w.size, w.least)
	}
	to := c.root.Join(w.path)
	found := false
	if c.mark.found {
		n, err := to.Size(ctx)
		if err != nil && fault.KindOf(err) != fault.NotFound {
			return err
		}
		found = err == nil && n == size
	}
	if !found {
		if err := c.transfer(ctx, w.from, to, size); err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.copied.Objects++
	c.copied.Bytes += w.size
	if found {
		c.copied.Found++
	}
	c.tell(c.copied)
	return nil
}

// transfer copies and looks at the length of what came of it.
func (c *copies) transfer(ctx context.Context, from, to objstore.Location, size int64) error {
	err := objstore.Copy(ctx, c.near(ctx, from), to)
	if err != nil && !errors.Is(err, objstore.ErrUncertain) {
		return c.lost(from, err)
	}
	n, sizeErr := to.Size(ctx)
	switch {
	case err != nil && (sizeErr != nil || n != size):
		return err
	case sizeErr != nil:
		return sizeErr
	case n != size:
		return fault.New(fault.Corrupt, "%s has %d bytes after it was copied from %s, which has %d", to, n, from, size)
	}
	return nil
}

// near finds an object of a base by the way that leads to the root, so that a
// bucket that both are in copies by itself. On disks what may be touched is known
// only when something is opened.
func (c *copies) near(ctx context.Context, from objstore.Location) objstore.Location {
	uri := from.AbsoluteURI()
	if from.Store == c.root.Store || strings.HasPrefix(uri, "file:") {
		return from
	}
	if at, err := c.locate(ctx, uri); err == nil && at.Store == c.root.Store {
		return at
	}
	return from
}

// lost explains the absence of an object that the source names.
func (c *copies) lost(from objstore.Location, err error) error {
	if fault.KindOf(err) != fault.NotFound {
		return err
	}
	return fault.New(fault.Corrupt, "%s is missing", from)
}

// made counts a file that was written.
func (c *copies) made(bytes uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.copied.Rewritten++
	c.copied.Objects++
	c.copied.Bytes += bytes
	c.tell(c.copied)
}

// remove takes everything below the root back, as far as that can be done; nobody
// else may write there.
func (c *copies) remove(ctx context.Context) {
	err := objstore.RemoveFolder(ctx, c.root)
	if err == nil || fault.KindOf(err) != fault.Unsupported {
		return
	}
	var all []objstore.Location
	for o, err := range objstore.Walk(ctx, c.root) {
		if err != nil {
			return
		}
		all = append(all, o.Location)
	}
	_ = objstore.DeleteAll(ctx, all) // nobody knows the folder; what stays takes space only
}
