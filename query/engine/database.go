package engine

// #include "bridge.h"
// #include "heap.h"
import "C"

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	_ "github.com/duckdb/duckdb-go-bindings" // links the engine

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/query/reference"
)

// Config says what the engine may use. All values must be set, but SpillDir.
type Config struct {
	Threads  int
	Memory   int64    // bytes
	SpillDir string   // "" = nothing is written to disk
	Spill    int64    // most bytes in SpillDir; 0 = no limit
	Catalogs []string // names of the in-memory databases that views live in
	// BlobBytes is the most that functions read from blob values in one step.
	BlobBytes int64
	// Small says that the engine works on little: it need not have room beside
	// Memory for what statements do to values.
	Small bool
}

// DB is one engine. Its methods may be called from any goroutine.
type DB struct {
	db       C.duckdb_database
	aux      *Conn // for conversions, never runs a statement
	provider Provider
	refs     *reference.Registry
	spill    string
	memory   int64
	share    int64 // of the ceiling for all engines
	blobs    int64
	threads  int
	sentinel *sentinel

	converting sync.Mutex // schemas are converted one at a time
}

// Open starts an engine whose table functions are answered by provider and
// whose blob functions open what refs allows.
func Open(cfg Config, functions []TableFunction, provider Provider, refs *reference.Registry) (*DB, error) {
	db := &DB{provider: provider, refs: refs, spill: cfg.SpillDir, memory: cfg.Memory, blobs: cfg.BlobBytes, threads: max(cfg.Threads, 1)}
	if err := db.open(); err != nil {
		return nil, err
	}
	db.sentinel = newSentinel()
	db.share = cfg.Memory + beside(cfg)
	C.fb_raise(C.int64_t(db.share))
	if err := db.setUp(cfg, functions); err != nil {
		db.Close()
		return nil, err
	}
	return db, nil
}

func (db *DB) open() error {
	var config C.duckdb_config
	if C.duckdb_create_config(&config) != C.DuckDBSuccess {
		return fault.New(fault.Internal, "engine: no configuration")
	}
	defer C.duckdb_destroy_config(&config)
	var text *C.char
	if C.duckdb_open_ext(nil, &db.db, config, &text) != C.DuckDBSuccess {
		defer C.duckdb_free(unsafe.Pointer(text))
		return fault.New(fault.Internal, "engine: %s", C.GoString(text))
	}
	return nil
}

func (db *DB) setUp(cfg Config, functions []TableFunction) error {
	conn, err := db.Connect()
	if err != nil {
		return err
	}
	defer conn.Close()
	for _, f := range functions {
		if err := conn.registerTable(f); err != nil {
			return err
		}
	}
	if err := conn.registerBlobs(); err != nil {
		return err
	}
	if giver, ok := db.provider.(Giver); ok {
		if err := conn.registerGiven(giver); err != nil {
			return err
		}
	}
	statements := []string{
		fmt.Sprintf("SET GLOBAL threads = %d", db.threads),
		fmt.Sprintf("SET GLOBAL memory_limit = '%dB'", cfg.Memory),
		"SET GLOBAL allocator_background_threads = true", // gives back what was freed
		"SET GLOBAL temp_directory = " + quoteText(cfg.SpillDir),
	}
	if cfg.SpillDir != "" && cfg.Spill > 0 {
		statements = append(statements, fmt.Sprintf("SET GLOBAL max_temp_directory_size = '%dB'", cfg.Spill))
	}
	for _, c := range cfg.Catalogs {
		statements = append(statements, "ATTACH ':memory:' AS "+Quote(c))
	}
	statements = append(statements,
		"SET GLOBAL arrow_large_buffer_size = true",
		"SET GLOBAL TimeZone = 'UTC'",
		"SET GLOBAL autoinstall_known_extensions = false",
		"SET GLOBAL autoload_known_extensions = false",
		"SET GLOBAL enable_external_access = false",
		"SET GLOBAL errors_as_json = true", // with the place in the text
		"SET GLOBAL lock_configuration = true",
	)
	for _, s := range statements {
		if err := conn.Exec(context.Background(), s); err != nil {
			return fmt.Errorf("engine: start: %w", err)
		}
	}
	db.aux, err = db.Connect()
	return err
}

// Close ends the engine. All connections must be closed.
func (db *DB) Close() {
	if db.aux != nil {
		db.aux.Close()
		db.aux = nil
	}
	if db.db != nil {
		db.sentinel.close()
		C.duckdb_close(&db.db)
		C.fb_raise(C.int64_t(-db.share))
	}
}

// Conn is one connection.
type Conn struct {
	db   *DB
	conn C.duckdb_connection
	id   uint64
	over atomic.Bool // stopped by the sentinel
}

// Connect opens a connection.
func (db *DB) Connect() (*Conn, error) {
	c := &Conn{db: db}
	if C.duckdb_connect(db.db, &c.conn) != C.DuckDBSuccess {
		return nil, fault.New(fault.Exhausted, "engine: no connection to the SQL engine")
	}
	var context C.duckdb_client_context
	C.duckdb_connection_get_client_context(c.conn, &context)
	c.id = uint64(C.duckdb_client_context_get_connection_id(context))
	C.duckdb_destroy_client_context(&context)
	return c, nil
}

// ID is the number by which table functions know the connection.
func (c *Conn) ID() uint64 { return c.id }

// Close ends the connection. Results and prepared statements must be closed.
func (c *Conn) Close() {
	if c.conn != nil {
		C.duckdb_disconnect(&c.conn)
	}
}

func (c *Conn) interrupt() { C.duckdb_interrupt(c.conn) }

// Exec runs statements and drops their results.
func (c *Conn) Exec(ctx context.Context, sql string) error {
	defer c.watch(ctx)()
	text := C.CString(sql)
	defer C.free(unsafe.Pointer(text))
	result := newResult()
	defer freeResult(result)
	if C.duckdb_query(c.conn, text, result) != C.DuckDBSuccess {
		return c.failure(ctx, C.GoString(C.duckdb_result_error(result)))
	}
	return nil
}

// Text runs a statement with text parameters and gives the first value of its
// first row, which must be text, or "" if there is none.
func (c *Conn) Text(ctx context.Context, sql string, params ...string) (string, error) {
	p, err := c.Prepare(ctx, sql)
	if err != nil {
		return "", err
	}
	defer p.Close()
	for i, v := range params {
		if err := p.Bind(i, v); err != nil {
			return "", err
		}
	}
	r, err := p.Execute(ctx)
	if err != nil {
		return "", err
	}
	defer r.Close()
	return r.text(ctx)
}

// newResult makes an empty result in C memory: the engine keeps its address.
func newResult() *C.duckdb_result {
	return (*C.duckdb_result)(C.calloc(1, C.sizeof_duckdb_result))
}

func freeResult(r *C.duckdb_result) {
	C.duckdb_destroy_result(r)
	C.free(unsafe.Pointer(r))
}

// Quote makes a name a quoted SQL identifier.
func Quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

func quoteText(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
