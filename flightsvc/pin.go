package flightsvc

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/table"
)

// A pin keeps the versions that a client was given tickets to, so that no
// cleanup, by whatever program, takes them before the client has read them: each
// is a lease of the table, which others see as a tag. It ends when it expires,
// with CancelFlightInfo and with the server; streams that run keep it beyond its
// end, and RenewFlightEndpoint moves that.
type pin struct {
	key, owner string
	principal  string
	span       time.Duration // of the promise, and of each renewal
	leases     []*table.Lease

	mu      sync.Mutex
	until   time.Time
	timer   *time.Timer
	readers int
	leaving bool // it ends with the last reader
	ended   bool
}

// Bounds of pins. A tag is left behind by a server that is killed, and other
// programs do not know that it ends.
const (
	maxPin       = 24 * time.Hour
	maxPinsOwner = 100
	maxPins      = 1000
	pinGrace     = time.Minute // how long the tags last beyond the promise, so that renewals come in time
	pinTimeout   = 30 * time.Second
	pinsAtOnce   = 16
)

// pins are all pins of a server.
type pins struct {
	log    *slog.Logger
	redact redactor

	mu      sync.Mutex
	byKey   map[string]*pin
	byOwner map[string]int
	closed  bool
	ending  sync.WaitGroup // leases being given back or renewed
}

func newPins(log *slog.Logger, redact redactor) *pins {
	return &pins{log: log, redact: redact, byKey: map[string]*pin{}, byOwner: map[string]int{}}
}

// errUnpinned is for tickets whose pin is no more.
var errUnpinned = fault.New(fault.NotFound, "ticket: its lease has ended; ask GetFlightInfo again, and renew tickets with RenewFlightEndpoint before they expire")

// put pins snapshots.
func (p *pins) put(ctx context.Context, c caller, span time.Duration, snapshots []*table.Snapshot) (*pin, error) {
	made := &pin{key: newKey(), owner: c.owner(), principal: c.principal, span: span, until: time.Now().Add(span)}
	if err := p.add(made); err != nil {
		return nil, err
	}
	for _, s := range snapshots {
		l, err := s.Table().Lease(ctx, s, made.until.Add(pinGrace))
		if err != nil {
			p.end(made)
			return nil, err
		}
		made.mu.Lock()
		made.leases = append(made.leases, l)
		made.mu.Unlock()
	}
	made.mu.Lock()
	defer made.mu.Unlock()
	if made.ended { // the server was closed meanwhile
		p.free(made.leases)
		return nil, errUnpinned
	}
	made.timer = time.AfterFunc(span, func() { p.lapse(made) })
	return made, nil
}

func (p *pins) add(made *pin) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return fault.New(fault.Unavailable, "lease: the server is about to end")
	case p.byOwner[made.owner] >= maxPinsOwner || len(p.byKey) >= maxPins:
		return fault.New(fault.Exhausted, "lease: there are %d of this client's and %d in all, %d and %d are allowed; end some with CancelFlightInfo, or ask for shorter ones",
			p.byOwner[made.owner], len(p.byKey), maxPinsOwner, maxPins)
	}
	p.byKey[made.key] = made
	p.byOwner[made.owner]++
	return nil
}

// end is when a promise ends that has an end of its own, or the zero time: not
// after its pin.
func (p *pin) end(other time.Time) time.Time {
	if p == nil {
		return other
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if other.IsZero() || p.until.Before(other) {
		return p.until
	}
	return other
}

// find gives the pin of a key, if it is the principal's and has not ended.
func (p *pins) find(key, principal string) (*pin, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	found := p.byKey[key]
	return found, found != nil && found.principal == principal
}

// enter registers a reader, until leave.
func (p *pins) enter(of *pin) (leave func()) {
	if of == nil {
		return func() {}
	}
	of.mu.Lock()
	of.readers++
	of.mu.Unlock()
	return func() {
		of.mu.Lock()
		of.readers--
		last := of.leaving && of.readers == 0
		of.mu.Unlock()
		if last {
			p.end(of)
		}
	}
}

// renew lets a pin end a span from now.
func (p *pins) renew(ctx context.Context, of *pin) (until time.Time, err error) {
	of.mu.Lock()
	defer of.mu.Unlock()
	if of.ended {
		return until, errUnpinned
	}
	until = time.Now().Add(of.span)
	for _, l := range of.leases {
		if err := l.Renew(ctx, until.Add(pinGrace)); err != nil {
			return of.until, err
		}
	}
	of.until = until
	of.timer.Reset(of.span)
	return until, nil
}

// lapse is called when a pin expires: one with readers lives on.
func (p *pins) lapse(of *pin) {
	if !p.busy() {
		return
	}
	defer p.ending.Done()
	of.mu.Lock()
	read := of.readers > 0
	of.mu.Unlock()
	if read {
		ctx, cancel := context.WithTimeout(context.Background(), pinTimeout)
		defer cancel()
		_, err := p.renew(ctx, of)
		if err == nil || errors.Is(err, errUnpinned) {
			return
		}
		p.warn("renewing a lease", err)
	}
	p.end(of)
}

// busy says that leases may be worked on, which Done ends.
func (p *pins) busy() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.ending.Add(1)
	}
	return !p.closed
}

// drop ends a pin once nobody reads it.
func (p *pins) drop(of *pin) {
	if of == nil {
		return
	}
	of.mu.Lock()
	of.leaving = true
	read := of.readers > 0
	of.mu.Unlock()
	if !read {
		p.end(of)
	}
}

// end gives the leases of a pin back, in the background.
func (p *pins) end(of *pin) {
	p.mu.Lock()
	if p.byKey[of.key] == of {
		delete(p.byKey, of.key)
		if p.byOwner[of.owner]--; p.byOwner[of.owner] == 0 {
			delete(p.byOwner, of.owner)
		}
	}
	p.ending.Add(1)
	p.mu.Unlock()
	defer p.ending.Done()
	of.mu.Lock()
	defer of.mu.Unlock()
	if of.ended {
		return
	}
	of.ended = true
	if of.timer != nil {
		of.timer.Stop()
	}
	p.free(of.leases)
}

// free gives leases back. Those that cannot be end by themselves.
func (p *pins) free(leases []*table.Lease) {
	p.ending.Add(1)
	go func() {
		defer p.ending.Done()
		ctx, cancel := context.WithTimeout(context.Background(), pinTimeout)
		defer cancel()
		var group errgroup.Group
		group.SetLimit(pinsAtOnce)
		for _, l := range leases {
			group.Go(func() error { return l.Free(ctx) })
		}
		if err := group.Wait(); err != nil {
			p.warn("giving a lease back", err)
		}
	}()
}

func (p *pins) warn(what string, err error) {
	p.log.Warn(what, "error", p.redact.text(err.Error()))
}

// close ends all pins and waits until their leases are given back.
func (p *pins) close() {
	p.mu.Lock()
	p.closed = true
	all := make([]*pin, 0, len(p.byKey))
	for _, of := range p.byKey {
		all = append(all, of)
	}
	p.mu.Unlock()
	for _, of := range all {
		p.end(of)
	}
	p.ending.Wait()
}

// pin pins what a call asks for, nil when it asks for no lease.
func (s *Server) pin(ctx context.Context, set settings, snapshots []*table.Snapshot) (*pin, error) {
	if set.lease == 0 || len(snapshots) == 0 {
		return nil, nil
	}
	if s.opts.ReadOnly {
		return nil, fault.New(fault.Denied, "lease: this server writes nothing, and a lease is a tag of the table")
	}
	c, err := s.callerOf(ctx)
	if err != nil {
		return nil, err
	}
	return s.pins.put(ctx, c, set.lease, snapshots)
}

// pinOf finds the pin of a ticket, nil when it has none or that has ended.
func (s *Server) pinOf(ctx context.Context, t *Ticket) (*pin, error) {
	if t.Pin == "" {
		return nil, nil
	}
	c, err := s.callerOf(ctx)
	if err != nil {
		return nil, err
	}
	found, ok := s.pins.find(t.Pin, c.principal)
	if !ok {
		return nil, nil
	}
	return found, nil
}

// keep keeps a snapshot while it is read: by the ticket's pin, else by a lease of
// the stream's own, if the call asks for one.
func (s *Server) keep(ctx context.Context, t *Ticket, set settings, snap *table.Snapshot) (leave func(), err error) {
	of, err := s.pinOf(ctx, t)
	if err == nil && of == nil {
		of, err = s.pin(ctx, set, []*table.Snapshot{snap})
		if of != nil {
			left := s.pins.enter(of)
			s.pins.drop(of) // with the last reader
			return left, nil
		}
	}
	if err != nil {
		return nil, err
	}
	return s.pins.enter(of), nil
}

// parseLease reads how long a client wants versions kept.
func parseLease(from, text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return 0, fault.New(fault.Invalid, "%s is %s, it must be a whole number of seconds", from, quote(text))
	}
	return time.Duration(min(n, uint64(maxPin/time.Second))) * time.Second, nil
}
