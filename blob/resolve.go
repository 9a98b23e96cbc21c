package blob

import (
	"context"
	"math"
	"strings"
	"sync"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/table/manifest"
)

// Resolver finds the bytes of descriptors of one snapshot. It may be used from
// any goroutine. Bases are located once and remembered, so a Resolver should
// live no longer than the request it serves.
type Resolver struct {
	bases  map[uint32]manifest.Base
	locate Locator

	mu      sync.Mutex
	located map[uint32]objstore.Location // base id → its folder
}

// NewResolver makes a Resolver for a snapshot's bases, keyed by id (RES-8),
// with the locator of this server's stores.
func NewResolver(bases map[uint32]manifest.Base, locate Locator) *Resolver {
	return &Resolver{
		bases:   bases,
		locate:  locate,
		located: make(map[uint32]objstore.Location),
	}
}

// Resolve gives the object and byte interval that a value selects, without
// reading anything. o is the data file of the value's row; External values and
// managed ones with a base need none. Length 0 without Whole is an empty
// value, and its Object may be nowhere. The error says what is wrong with the
// descriptor; the caller adds field and row.
func (r *Resolver) Resolve(ctx context.Context, d Descriptor, o *Owner) (Extent, error) {
	e, err := r.interval(d, o)
	if err != nil || e.Length == 0 && !e.Whole {
		return e, err
	}
	if e.Object, err = r.object(ctx, d, o); err != nil {
		return Extent{}, err
	}
	return e, nil
}

// interval is what Resolve says apart from the object.
func (r *Resolver) interval(d Descriptor, o *Owner) (Extent, error) {
	if err := r.Check(d); err != nil {
		return Extent{}, err
	}
	e := Extent{Offset: d.Position, Length: d.Size, Owned: true, Immutable: o != nil && o.Immutable}
	switch {
	case d.Kind == External:
		e.Owned, e.Immutable, e.Whole = false, false, d.Size == 0
	case d.Size == 0: // nothing to look at, NUL-6…8
		e.Offset = 0
	case d.Kind == Dedicated: // the position is ignored, DIFF-9
		e.Offset = 0
	}
	return e, nil
}

// object finds where the bytes of a checked descriptor lie.
func (r *Resolver) object(ctx context.Context, d Descriptor, o *Owner) (objstore.Location, error) {
	if o == nil && (d.Kind <= Dedicated || d.Kind == Managed) {
		return objstore.Location{}, fault.New(fault.Internal, "blob: kind %d (%s) without an owning data file", uint8(d.Kind), d.Kind)
	}
	switch d.Kind {
	case Inline: // RES-3
		return o.File, nil
	case Packed, Dedicated:
		return o.Sidecar(d.ID), nil
	case External:
		return r.external(ctx, d)
	case Managed: // RES-12, RES-13
		return below(o.Base, d.URI), nil
	}
	base, err := r.baseLocation(ctx, d) // ManagedBase
	return below(base, d.URI), err
}

// Check refuses a descriptor that no store could make readable: unknown kind
// (REJ-2), unregistered base (REJ-3), bad path (REJ-4, RES-9, RES-10), range
// beyond 2^64-1 (REJ-5), sidecar id 0 with bytes (REJ-7).
func (r *Resolver) Check(d Descriptor) error {
	if !d.Kind.Known() {
		return fault.New(fault.Corrupt, "blob: unknown descriptor kind %d; 0 to 5 are known", uint8(d.Kind))
	}
	if d.Kind != Dedicated && d.Position > math.MaxUint64-d.Size {
		return fault.New(fault.Corrupt, "blob: position %d and size %d exceed 2^64-1", d.Position, d.Size)
	}
	switch d.Kind {
	case Packed, Dedicated:
		if d.ID == 0 && d.Size > 0 {
			return fault.New(fault.Corrupt, "blob: %s value of %d bytes names sidecar 0; sidecar ids start at 1", d.Kind, d.Size)
		}
	case External:
		if d.ID == 0 {
			return checkExternalURI(d.URI)
		}
		if _, err := r.base(d); err != nil {
			return err
		}
		_, err := externalPath(d.URI)
		return err
	case ManagedBase:
		if _, err := r.base(d); err != nil {
			return err
		}
		return checkManagedPath(d.URI)
	case Managed:
		return checkManagedPath(d.URI)
	}
	return nil
}

// base finds the descriptor's registered base by id.
func (r *Resolver) base(d Descriptor) (manifest.Base, error) {
	base, ok := r.bases[d.ID]
	if !ok {
		return base, fault.New(fault.Corrupt, "blob: %s value names base %d, which the manifest does not register", d.Kind, d.ID)
	}
	return base, nil
}

// baseLocation locates the base once.
func (r *Resolver) baseLocation(ctx context.Context, d Descriptor) (objstore.Location, error) {
	base, err := r.base(d)
	if err != nil {
		return objstore.Location{}, err
	}
	r.mu.Lock()
	loc, ok := r.located[d.ID]
	r.mu.Unlock()
	if ok {
		return loc, nil
	}
	loc, err = r.locate(ctx, base.Path)
	if err != nil {
		return objstore.Location{}, err
	}
	r.mu.Lock()
	r.located[d.ID] = loc
	r.mu.Unlock()
	return loc, nil
}

// below appends a literal path. A descriptor's text may lie in a buffer that is
// released before the location is used, so it is never kept as it is.
func below(folder objstore.Location, path string) objstore.Location {
	if folder.Path == "" {
		path = strings.Clone(path)
	}
	return folder.Join(path)
}

// external locates the object of an External value (RES-7, RES-8). A base's
// path is used as it is, even for a dataset root: data/ is never added.
func (r *Resolver) external(ctx context.Context, d Descriptor) (objstore.Location, error) {
	if d.ID != 0 {
		loc, err := r.baseLocation(ctx, d)
		if err != nil {
			return objstore.Location{}, err
		}
		path, err := externalPath(d.URI)
		if err != nil {
			return objstore.Location{}, err
		}
		return below(loc, path), nil
	}
	return r.locate(ctx, strings.Clone(d.URI)) // see below
}
