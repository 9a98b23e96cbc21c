package flightsvc

import (
	"context"
	"errors"
	"iter"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/flightblob/flightblob/materialize"
	"github.com/flightblob/flightblob/schema"
	"github.com/flightblob/flightblob/table"
)

// Engine runs SQL. Its methods may be called from any goroutine; errors are
// those of package fault and name what is wrong with the text.
type Engine interface {
	// Prepare reads and binds the one statement of a text. The newest version
	// of every table that the text does not pin is pinned here. A text without
	// a statement, or with several, is fault.Invalid.
	Prepare(ctx context.Context, ns Namespace, sql string) (Statement, error)
	// CheckFilter says what is wrong with a WHERE condition over the columns of
	// a snapshot, if anything.
	CheckFilter(ctx context.Context, snap *table.Snapshot, condition string) error
	// Positions yields the positions in scan order of the rows that a filter
	// wants, ascending, in lists that become the caller's. After an error there
	// are no more.
	Positions(ctx context.Context, req FilterRequest) iter.Seq2[[]uint64, error]
}

// Namespace is where names without catalog or schema are looked up.
type Namespace struct {
	Catalog, Schema string
	// Branch is the one that statements write, and read where they name none; ""
	// = main.
	Branch string
}

// Statement is a statement bound to the versions that it reads. It is for one
// goroutine at a time, but for Again.
type Statement interface {
	// Kind is the statement's first words in capitals, such as "SELECT" or
	// "CREATE TABLE".
	Kind() string
	// IsUpdate says that the statement changes something and answers a count of
	// rows instead of rows.
	IsUpdate() bool
	// Params describes the parameters by position; nil when there are none.
	// Those that take values of any type carry OpenParam, and a type that fits.
	Params() *arrow.Schema
	// Schema is exactly that of Query's batches, field for field, for the first
	// row of params, or for their types when they have no row. They are nil when
	// nothing is bound: then it is that for the types of Params, or ErrOpen. It is
	// nil for statements that answer no rows.
	Schema(ctx context.Context, view schema.View, params arrow.RecordBatch) (*arrow.Schema, error)
	// Query starts the statement with one row of params, which has a column for
	// each parameter and is nil when there are none. Dictionaries and views
	// among them are plain already. The reader ends with ctx; the statement is
	// free again when it is released.
	Query(ctx context.Context, params arrow.RecordBatch, row int, o QueryOptions) (array.RecordReader, error)
	// PlainScan says that the result is columns of one version of a table, in
	// scan order and under their own names, and nothing else.
	PlainScan() (PlainScan, bool)
	// Snapshots are the versions that the statement reads.
	Snapshots() []*table.Snapshot
	// Again prepares the same text over the same versions as a statement of its
	// own. It may be called while the statement is in use and after Close.
	Again(ctx context.Context) (Statement, error)
	// Close forgets the statement; its readers must be released before.
	Close() error
}

// Updater is a Statement that changes something and can be carried out for a count
// of rows. Its IsUpdate is false where it is a Changer, too.
type Updater interface {
	// Update carries the statement out for all rows of params in one commit, once
	// when there are no parameters. Dictionaries and views among them are plain
	// already.
	Update(ctx context.Context, params []arrow.RecordBatch) (Updated, error)
}

// Changer is a Statement that changes something and answers rows. It is carried
// out once, whoever reads the rows.
type Changer interface {
	// Change carries the statement out for all rows of params, once when there are
	// no parameters, and answers the rows. It ends with ctx, as the reader does.
	Change(ctx context.Context, params []arrow.RecordBatch, o QueryOptions) (array.RecordReader, error)
}

// Updated is what an update did.
type Updated struct {
	Rows    int64
	Version uint64 // of the table that was written; 0 when there is none
	Notice  string // what whoever gave the statement should know besides, in ASCII
}

// ErrOpen is why a statement has no schema: its result depends on values that
// are not bound yet.
var ErrOpen = errors.New("the statement waits for values")

// OpenParam marks parameters that take values of any type.
var OpenParam = arrow.NewMetadata([]string{"flightblob:open"}, []string{"true"})

// QueryOptions say how a result is wanted.
type QueryOptions struct {
	// View is the face of blob columns.
	View schema.View
	// Materialize has the budget, sizes and limits to read blob values with, and
	// the position that the first row of the result has in the stream. Its View
	// is the same; its Schema is nil.
	Materialize materialize.Options
	Mem         memory.Allocator
}

// PlainScan is a query that needs no engine to run.
type PlainScan struct {
	Snapshot *table.Snapshot
	Columns  []string // nil = all
}

// FilterRequest asks for the rows of a snapshot that meet a condition.
type FilterRequest struct {
	Snapshot  *table.Snapshot
	Condition string
	// Offset and Limit count the rows that meet it; nil means no limit.
	Offset uint64
	Limit  *uint64
}
