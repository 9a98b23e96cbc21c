package table

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flightblob/flightblob/datafile"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/table/manifest"
	"github.com/flightblob/flightblob/table/rowset"
)

// Limits bounds what an Env keeps in memory between requests. Zero values
// take the defaults.
type Limits struct {
	ManifestBytes int64 // decoded manifests, default 96 MiB
	Files         int   // open data files, default 4096
	FileBytes     int64 // their page tables, default 48 MiB
	PageBytes     int64 // indexes of their pages (chunk tables, dictionaries), default 48 MiB
	DeletionBytes int64 // deletion vectors, default 32 MiB
	IndexBytes    int64 // lookup tables of indexes, default 64 MiB
}

func (l Limits) withDefaults() Limits {
	if l.ManifestBytes <= 0 {
		l.ManifestBytes = 96 << 20
	}
	if l.Files <= 0 {
		l.Files = 4096
	}
	if l.FileBytes <= 0 {
		l.FileBytes = 48 << 20
	}
	if l.PageBytes <= 0 {
		l.PageBytes = 48 << 20
	}
	if l.DeletionBytes <= 0 {
		l.DeletionBytes = 32 << 20
	}
	if l.IndexBytes <= 0 {
		l.IndexBytes = 64 << 20
	}
	return l
}

// Env is what all tables of a server share: how URIs become places, which of
// them may be touched, and caches of what never changes once published. Its
// methods may be called from any goroutine.
type Env struct {
	registry *objstore.Registry
	access   *objstore.Access

	manifests *cache[manifestKey, *loaded]
	infos     *cache[manifestKey, VersionInfo]
	files     *cache[fileKey, *datafile.Reader]
	pages     *datafile.Cache
	deletions *cache[string, *rowset.Deletions]
	indexes   *cache[string, searcher]

	queues    queues
	writer    string // as manifests name who wrote them; "" for the default
	now       func() time.Time
	committed func(context.Context, *Snapshot) // see OnCommit; may be nil
}

// NewEnv makes an environment. access names the roots and the prefixes that
// External values may lie in; a snapshot adds the bases of its manifest.
func NewEnv(registry *objstore.Registry, access *objstore.Access, limits Limits) *Env {
	limits = limits.withDefaults()
	return &Env{
		registry:  registry,
		access:    access,
		manifests: newCache[manifestKey, *loaded](1<<20, limits.ManifestBytes),
		infos:     newCache[manifestKey, VersionInfo](1<<16, 16<<20),
		files:     newCache[fileKey, *datafile.Reader](limits.Files, limits.FileBytes),
		pages:     datafile.NewCache(limits.PageBytes),
		deletions: newCache[string, *rowset.Deletions](1<<20, limits.DeletionBytes),
		indexes:   newCache[string, searcher](1<<16, limits.IndexBytes),
		now:       time.Now,
	}
}

// SetWriter says how manifests that this environment publishes name their
// writer, "library version". Call it before anything is written.
func (e *Env) SetWriter(name string) { e.writer = name }

// OnCommit sets what is done after each commit through this environment, with the
// version that it published, before the commit is answered. It cannot fail the
// commit, which has happened. Call it before anything is written.
func (e *Env) OnCommit(done func(context.Context, *Snapshot)) { e.committed = done }

// manifestKey identifies one published manifest. A version is immutable, but
// its name is not enough: a table that was dropped and made anew has the same
// names again, so length and time of the object count too.
type manifestKey struct {
	uri      string
	size     int64
	modified int64 // unix nanoseconds, 0 = the store does not say
}

// loaded is a decoded manifest with what every snapshot of it needs.
type loaded struct {
	manifest *manifest.Manifest
	// starts[i] is the number of live rows before fragment i; the last entry
	// is the number of live rows.
	starts  []uint64
	deleted uint64
	files   int
	access  *objstore.Access // of the Env, and the bases of this version
	rowIDs  sync.Map         // fragment → *rowset.IDs, those that lookups needed
	moved   atomic.Pointer[moved]
	// verified is, by the id of an index, the fragments it knows, see verify.
	verified sync.Map
}

// decodedFactor is about how much larger a decoded manifest is than its bytes.
const decodedFactor = 4

// load gives a manifest, decoded once while it stays in the cache.
func (e *Env) load(ctx context.Context, t *Table, root objstore.Location, branch string, p published) (*loaded, error) {
	fetch := func(ctx context.Context) (*loaded, int64, error) {
		l, err := readManifest(ctx, t, root, branch, p)
		return l, p.entry.Size * decodedFactor, err
	}
	if p.entry.Modified.IsZero() { // nothing to tell a later object of this name by
		l, _, err := fetch(ctx)
		return l, err
	}
	return e.manifests.get(ctx, keyOf(root, p), fetch)
}

// info gives the facts of a version, from the cache when it has them.
func (e *Env) info(ctx context.Context, t *Table, root objstore.Location, branch string, p published) (VersionInfo, error) {
	fetch := func(ctx context.Context) (VersionInfo, int64, error) {
		l, err := readManifest(ctx, t, root, branch, p)
		if err != nil {
			return VersionInfo{}, 0, err
		}
		operation := l.manifest.Operation
		if operation == "" {
			operation = readOperation(ctx, root, l.manifest.TransactionID)
		}
		return VersionInfo{
			Version: l.manifest.Version, Timestamp: l.manifest.Timestamp, Operation: operation,
			Rows: l.rows(), DeletedRows: l.deleted, Fragments: len(l.manifest.Fragments), DataFiles: l.files,
			ManifestBytes: p.entry.Size, WriterVersion: l.manifest.WriterVersion,
		}, 256, nil
	}
	if p.entry.Modified.IsZero() {
		info, _, err := fetch(ctx)
		return info, err
	}
	return e.infos.get(ctx, keyOf(root, p), fetch)
}

// readOperation asks the transaction file of a version that has no inline copy
// (sheet section 4.3). The file is optional and only informs: without a readable
// one the operation is not known.
func readOperation(ctx context.Context, root objstore.Location, file string) string {
	if file == "" || strings.Contains(file, "/") {
		return ""
	}
	data, err := objstore.ReadAll(ctx, root.Join(manifest.TransactionsDir, file), maxManifestBytes)
	if err != nil {
		return ""
	}
	operation, err := manifest.DecodeOperation(data)
	if err != nil {
		return ""
	}
	return operation
}

func keyOf(root objstore.Location, p published) manifestKey {
	return manifestKey{
		uri:      root.Join(manifest.VersionsDir, p.entry.Name).String(),
		size:     p.entry.Size,
		modified: p.entry.Modified.UnixNano(),
	}
}

// maxManifestBytes bounds a manifest file; a million fragments take about 200 MB.
const maxManifestBytes = 1 << 30

func readManifest(ctx context.Context, t *Table, root objstore.Location, branch string, p published) (*loaded, error) {
	loc := root.Join(manifest.VersionsDir, p.entry.Name)
	data, err := objstore.ReadAll(ctx, loc, maxManifestBytes)
	if err != nil {
		if fault.KindOf(err) == fault.NotFound { // removed since the listing
			return nil, fault.New(fault.NotFound, "table: version %d of %s does not exist any more", p.version, t.name)
		}
		return nil, fmt.Errorf("table: read the manifest of version %d of %s: %w", p.version, t.name, err)
	}
	m, err := manifest.Decode(data)
	if err != nil {
		return nil, fmt.Errorf("table: version %d of %s: %w", p.version, t.name, fault.In(t.inside(loc), err))
	}
	l, err := newLoaded(m, branch, p.version)
	if err == nil {
		l.access = t.env.accessOf(m)
	}
	if err != nil {
		return nil, fmt.Errorf("table: version %d of %s: %w", p.version, t.name, fault.In(t.inside(loc), err))
	}
	return l, nil
}

// newLoaded checks what only a reader of a whole version can: that the body is
// the version that the name says, and that rows add up.
func newLoaded(m *manifest.Manifest, branch string, version uint64) (*loaded, error) {
	if m.Version != version {
		return nil, fault.Corruptf(-1, "the manifest says that it is version %d, its name says %d", m.Version, version)
	}
	if branch != "" && m.Branch != "" && m.Branch != branch {
		return nil, fault.Corruptf(-1, "the manifest belongs to branch %q, it was found in branch %q", m.Branch, branch)
	}
	l := &loaded{manifest: m, starts: make([]uint64, len(m.Fragments)+1)}
	for i := range m.Fragments {
		f := &m.Fragments[i]
		live := f.LiveRows()
		l.starts[i+1] = l.starts[i] + live
		l.deleted += f.PhysicalRows - live
		l.files += len(f.Files)
	}
	return l, nil
}

func (l *loaded) rows() uint64 { return l.starts[len(l.starts)-1] }

// accessOf is what a snapshot may touch: what the server may, and the bases
// that its manifest registers.
func (e *Env) accessOf(m *manifest.Manifest) *objstore.Access { return e.accessTo(m.Bases) }

func (e *Env) accessTo(bases map[uint32]manifest.Base) *objstore.Access {
	paths := make([]string, 0, len(bases))
	for _, b := range bases {
		paths = append(paths, b.Path)
	}
	return e.access.With(paths...)
}

// Locate finds a URI or path that the server may touch: below a root or an
// external prefix. Others are fault.Denied.
func (e *Env) Locate(ctx context.Context, uri string) (objstore.Location, error) {
	return e.registry.Locator(e.access)(ctx, uri)
}
