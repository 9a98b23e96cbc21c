package table

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/table/manifest"
)

// A lease is a tag that says itself until when it counts. Every cleanup of
// Lance respects it as a tag; this program's takes one that has expired for
// absent and removes its file.
const (
	leasePrefix = "flightblob-lease-"
	leaseUntil  = "flightblob.lease.until" // metadata: RFC 3339, by the clock of the holder
)

// LeasedUntil says until when a tag keeps its version, if it is a lease. A tag
// of such a name that does not say it is none, and stays for good.
func (t Tag) LeasedUntil() (until time.Time, ok bool) {
	if !strings.HasPrefix(t.Name, leasePrefix) {
		return time.Time{}, false
	}
	until, err := time.Parse(time.RFC3339Nano, t.Metadata[leaseUntil])
	return until, err == nil
}

// Expired says that a tag is a lease that does not count any more.
func (t Tag) Expired(now time.Time) bool {
	until, ok := t.LeasedUntil()
	return ok && !now.Before(until)
}

// Lease keeps a version from every cleanup until it expires or is freed (GC-3).
// Its methods may be called from any goroutine.
type Lease struct {
	table   *Table
	name    string // of the tag
	version Ref

	mu    sync.Mutex
	freed bool
}

// Lease makes a lease of a snapshot. A version that is gone is fault.NotFound,
// as is one that a cleanup removes at the same time; one that began before the
// lease was there may still remove files of a version that is neither the newest
// nor tagged.
func (t *Table) Lease(ctx context.Context, s *Snapshot, until time.Time) (*Lease, error) {
	l := &Lease{table: t, name: leasePrefix + uuid.NewString(), version: s.Ref()}
	_, err := t.putTag(ctx, l.name, l.version, TagOptions{Metadata: leaseMetadata(until)})
	if err != nil {
		return nil, fmt.Errorf("table: lease version %d of %s: %w", s.Version(), t.name, err)
	}
	return l, nil
}

func leaseMetadata(until time.Time) map[string]string {
	return map[string]string{leaseUntil: until.UTC().Format(time.RFC3339Nano)}
}

// Tag is the name of the tag that the lease is.
func (l *Lease) Tag() string { return l.name }

// Renew lets the lease end at another time. It begins anew if it had expired
// and was removed, as long as its version is there: fault.NotFound otherwise. A
// freed one stays free: fault.Precondition.
func (l *Lease) Renew(ctx context.Context, until time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.freed {
		return fault.New(fault.Precondition, "table: the lease of %s of %s was given back", l.version, l.table.name)
	}
	_, err := l.table.putTag(ctx, l.name, l.version, TagOptions{Replace: true, Metadata: leaseMetadata(until)})
	if err != nil {
		return fmt.Errorf("table: renew the lease of %s of %s: %w", l.version, l.table.name, err)
	}
	return nil
}

// Free gives the lease back. One whose tag cannot be removed ends by itself.
func (l *Lease) Free(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.freed {
		return nil
	}
	path, err := manifest.TagPath(l.name)
	if err != nil {
		return err
	}
	if err := l.table.root.Join(path).Delete(ctx); err != nil {
		return fmt.Errorf("table: free the lease of %s of %s: %w", l.version, l.table.name, err)
	}
	l.freed = true
	return nil
}

// What is held for work of unknown length is leased for a while at a time, so
// that a killed process holds it no longer than that.
const (
	holdFor   = 10 * time.Minute
	holdRenew = holdFor / 3
)

// Hold keeps a snapshot until free is called, by a lease that it renews
// meanwhile. free is to be called once, also after ctx has ended.
func (t *Table) Hold(ctx context.Context, s *Snapshot) (free func(), err error) {
	lease, err := t.Lease(ctx, s, t.env.now().Add(holdFor))
	if err != nil {
		return nil, err
	}
	work := context.WithoutCancel(ctx)
	renewing, stop := context.WithCancel(work)
	done := make(chan struct{})
	go func() {
		defer close(done)
		ticks := time.NewTicker(holdRenew)
		defer ticks.Stop()
		for {
			select {
			case <-ticks.C:
				_ = lease.Renew(renewing, t.env.now().Add(holdFor)) // there are two more tries before it expires
			case <-renewing.Done():
				return
			}
		}
	}()
	return func() {
		stop()
		<-done
		freeing, cancel := context.WithTimeout(work, settleTimeout)
		defer cancel()
		_ = lease.Free(freeing) // it ends by itself
	}, nil
}
