package query

import (
	"context"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flightblob/flightblob/catalog"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/materialize"
	"github.com/flightblob/flightblob/query/engine"
	"github.com/flightblob/flightblob/query/reference"
)

// Options configures an Engine. The zero value works.
type Options struct {
	// Memory bounds what the SQL engine holds for all statements together, in
	// bytes; 0 means DefaultMemory. Payload of results is in Budget instead.
	Memory int64
	// Threads is how many threads statements share; 0 means one for each CPU.
	Threads int
	// SpillDir is a folder for what does not fit into Memory; "" keeps
	// everything in memory and fails statements that need more.
	SpillDir string
	// SpillBytes bounds SpillDir; 0 means nine tenths of what its disk has free.
	SpillBytes int64
	// Timeout ends statements that run longer; 0 means never.
	Timeout time.Duration
	// Budget bounds the payload in results; nil makes one of
	// materialize.DefaultBudget.
	Budget *materialize.Budget
	// Log takes failures of the engine; nil drops them.
	Log *slog.Logger
}

// DefaultMemory is the engine's share unless Options say otherwise.
const DefaultMemory = 1 << 30

func (o Options) withDefaults() Options {
	if o.Memory <= 0 {
		o.Memory = DefaultMemory
	}
	if o.Threads <= 0 {
		o.Threads = runtime.GOMAXPROCS(0)
	}
	if o.Budget == nil {
		o.Budget = materialize.NewBudget(materialize.DefaultBudget)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// Engine runs statements over the tables of a catalog. Its methods may be
// called from any goroutine.
type Engine struct {
	cat      *catalog.Catalog
	opts     Options
	db       *engine.DB
	registry *reference.Registry
	views    *views
	listing  *listing
	recall   *recall
	moving   atomic.Pointer[[]string] // functions that lookups stay away from

	mu   sync.Mutex
	runs map[uint64]*run // by connection
}

// Open starts the SQL engine over a catalog, which must outlive it.
func Open(cat *catalog.Catalog, opts Options) (*Engine, error) {
	if cat == nil {
		return nil, fault.New(fault.Internal, "query: no catalog")
	}
	opts = opts.withDefaults()
	e := &Engine{cat: cat, opts: opts, registry: reference.NewRegistry(), runs: map[uint64]*run{}, recall: newRecall()}
	var err error
	e.db, err = engine.Open(engine.Config{
		Threads: opts.Threads, Memory: opts.Memory, SpillDir: opts.SpillDir, Spill: opts.SpillBytes,
		Catalogs: cat.Catalogs(), BlobBytes: e.stepBytes(),
	}, tableFunctions, e, e.registry)
	if err != nil {
		return nil, err
	}
	if e.views, err = newViews(e); err != nil {
		e.db.Close()
		return nil, err
	}
	if e.listing, err = newListing(e); err != nil {
		e.views.close()
		e.db.Close()
		return nil, err
	}
	return e, nil
}

// stepBytes is how much payload functions read in one step of one thread.
func (e *Engine) stepBytes() int64 {
	return max(e.opts.Memory/int64(4*e.opts.Threads), 16<<20)
}

// Close ends the engine. Statements and their results must be closed.
func (e *Engine) Close() {
	e.listing.close()
	e.views.close()
	e.db.Close()
}

// Stats are figures of an Engine at one moment.
type Stats struct {
	// Working counts the statements that the engine is at work on: results that
	// wait for their reader are not among them.
	Working int
	// Held is what the SQL engines of this process hold in memory, in bytes; 0
	// where that is not counted.
	Held int64
}

// Stats tells what the engine is doing.
func (e *Engine) Stats() Stats {
	return Stats{Working: e.db.Working() + e.listing.db.Working(), Held: engine.Held()}
}

// Session is what a client's statements have in common.
type Session struct {
	Catalog string // "" = the first
	Schema  string // "" = main
	// Branch is the one that statements write, and read where they name none; ""
	// = main. A table that has no such branch is fault.NotFound.
	Branch string
	// Pins fix the versions of tables that a statement names without a version,
	// as an earlier Statement told them.
	Pins []Pin

	gifts    *gifts     // set for statements that write
	excerpts []*excerpt // what excerptFunction reads
}

// withTimeout bounds a statement's run.
func (e *Engine) withTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	if e.opts.Timeout <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, e.opts.Timeout, fault.New(fault.Exhausted,
		"query: the statement ran longer than the %s that this server allows", e.opts.Timeout))
}
