package objstore

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/flightblob/flightblob/internal/fault"
)

// maxBuckets bounds the open bucket handles: with an access of "*", URIs in
// requests choose the names.
const maxBuckets = 1024

// Opener opens the bucket of a URI, with the options of the matching storage
// section or nil. It does no network I/O that a wrong bucket name would waste.
// If the store is an io.Closer, the registry closes it.
type Opener func(ctx context.Context, bucket string, o *StorageOptions) (Store, error)

// Options configures a Registry. The zero value serves local files and mem://.
type Options struct {
	// Storage holds the options per URI prefix; nil for none.
	Storage *StorageConfig
	// Schemes opens buckets, by lower-case scheme; see package cloud.
	Schemes map[string]Opener
	// Counter, if set, counts what is asked of every store given out.
	Counter *Counter
	// Logger reports opened buckets; nil for none.
	Logger *slog.Logger
	// Local bounds what the local store keeps open.
	Local LocalOptions
}

// Registry turns URIs into locations. Safe for concurrent use.
type Registry struct {
	options Options
	local   *Local
	file    Store // local, counted

	mu      sync.Mutex
	buckets map[bucketKey]Store
	closers []io.Closer
	mems    map[string]*Mem
}

type bucketKey struct {
	scheme, bucket string
	options        *StorageOptions
}

// NewRegistry makes a registry; it opens nothing yet.
func NewRegistry(o Options) *Registry {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	r := &Registry{
		options: o,
		local:   NewLocal(o.Local),
		buckets: make(map[bucketKey]Store),
		mems:    make(map[string]*Mem),
	}
	r.file = Counted(r.local, o.Counter)
	return r
}

// Locate gives the place that a URI or local path names. It takes absolute and
// relative local paths, literally; file:// URIs; s3, gs, az and mem URIs. URIs
// are percent-decoded as the reference does: see parseTarget. Nothing is
// looked up, so the object need not exist; Guard decides what may be touched.
// Errors: Invalid for a URI that is none, or whose scheme is unknown.
func (r *Registry) Locate(ctx context.Context, uri string) (Location, error) {
	t, err := parseTarget(uri)
	if err != nil {
		return Location{}, err
	}
	return r.locate(ctx, t, uri)
}

// Locator gives Locate narrowed to what a may touch: places outside are
// Denied, without opening their buckets, and the locations are guarded.
func (r *Registry) Locator(a *Access) func(ctx context.Context, uri string) (Location, error) {
	if a == nil {
		a = nothing
	}
	return func(ctx context.Context, uri string) (Location, error) {
		t, err := parseTarget(uri)
		if err != nil {
			return Location{}, err
		}
		// Local paths are checked when something is opened: a check by name
		// would cost system calls for each value and decide nothing.
		if t.scheme != fileScheme {
			if err := r.known(t.scheme, uri); err != nil {
				return Location{}, err
			}
			if err := a.checkTarget(t); err != nil {
				return Location{}, err
			}
		}
		loc, err := r.locate(ctx, t, uri)
		if err != nil {
			return Location{}, err
		}
		return Guard(loc, a), nil
	}
}

func (r *Registry) locate(ctx context.Context, t target, uri string) (Location, error) {
	switch t.scheme {
	case fileScheme:
		return Location{Store: r.file, Path: t.path}, nil
	case memScheme:
		s, err := r.bucket(ctx, t, func(context.Context, string, *StorageOptions) (Store, error) {
			return r.memLocked(t.bucket), nil
		})
		return Location{Store: s, Path: t.path}, err
	}
	if err := r.known(t.scheme, uri); err != nil {
		return Location{}, err
	}
	if t.bucket == "" {
		return Location{}, fault.New(fault.Invalid, "objstore: %q names no bucket", redactURI(uri))
	}
	s, err := r.bucket(ctx, t, r.options.Schemes[t.scheme])
	if err != nil {
		return Location{}, err
	}
	return Location{Store: s, Path: t.path}, nil
}

// known refuses schemes that nobody serves.
func (r *Registry) known(scheme, uri string) error {
	if scheme == fileScheme || scheme == memScheme || r.options.Schemes[scheme] != nil {
		return nil
	}
	return fault.New(fault.Invalid, "objstore: unknown scheme %q in %q; known: %s",
		scheme, redactURI(uri), strings.Join(r.Schemes(), ", "))
}

// Schemes lists the schemes that Locate takes.
func (r *Registry) Schemes() []string {
	known := []string{fileScheme, memScheme}
	for s := range r.options.Schemes {
		known = append(known, s)
	}
	slices.Sort(known)
	return known
}

// bucket gives the one handle per scheme, bucket and storage section.
func (r *Registry) bucket(ctx context.Context, t target, open Opener) (Store, error) {
	key := bucketKey{t.scheme, t.bucket, r.options.Storage.match(t)}
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.buckets[key]; s != nil {
		return s, nil
	}
	if len(r.buckets) >= maxBuckets {
		return nil, fault.New(fault.Exhausted, "objstore: %d buckets are open already; narrow --external or restart", maxBuckets)
	}
	s, err := open(ctx, t.bucket, key.options)
	if err != nil {
		return nil, err
	}
	if c, ok := s.(io.Closer); ok {
		r.closers = append(r.closers, c)
	}
	r.options.Logger.DebugContext(ctx, "opened bucket", "scheme", t.scheme, "bucket", t.bucket, "options", key.options)
	s = Counted(s, r.options.Counter)
	r.buckets[key] = s
	return s, nil
}

// Mem gives the in-memory store behind mem://name, made on first use.
func (r *Registry) Mem(name string) *Mem {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.memLocked(name)
}

func (r *Registry) memLocked(name string) *Mem {
	m := r.mems[name]
	if m == nil {
		m = NewMem(name)
		r.mems[name] = m
	}
	return m
}

// Close releases cached files and closes the buckets. Locations given out must
// no longer be used.
func (r *Registry) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	errs := []error{r.local.Close()}
	for _, c := range r.closers {
		errs = append(errs, c.Close())
	}
	r.closers = nil
	clear(r.buckets)
	return errors.Join(errs...)
}
