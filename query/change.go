package query

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/flightblob/flightblob/catalog"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/internal/spelling"
	"github.com/flightblob/flightblob/query/statement"
	"github.com/flightblob/flightblob/schema"
	"github.com/flightblob/flightblob/table"
)

// Change is a statement that writes. It holds nothing of the engine: Run
// prepares what it needs, and sees the newest versions. One goroutine at a time.
type Change struct {
	engine  *Engine
	session Session
	text    *statement.Statement
	params  []Param
	answers *arrow.Schema
	do      func(context.Context, *Change, []arrow.RecordBatch) (Outcome, error)
	columns *schema.Schema // of the target, as do counts on them; nil when it does not
	read    []Pin          // versions that the queries of a mutation read

	insert *insertion
	create *creation

	returning *returning // nil without RETURNING
	wrote     *wrote     // what Run did, for that; nil when nobody asks
}

// Outcome is what a change did.
type Outcome struct {
	Rows    int64  // written; 0 where no rows are
	Version uint64 // of the target afterwards; 0 when there is no target any more
	// Notice is what whoever gave the statement should know besides, "" for nothing.
	Notice string
	// Answer is the row of a statement that answers one, nil for others. The
	// caller releases it.
	Answer arrow.RecordBatch
}

// PrepareChange parses and checks one statement that writes: names, columns,
// types and parameters are known to be right afterwards, and nothing was written.
func (e *Engine) PrepareChange(ctx context.Context, s Session, text string) (*Change, error) {
	parsed, err := statement.Parse(text)
	if err != nil {
		return nil, err
	}
	s.Pins = nil // a write goes to the newest version
	c := &Change{engine: e, session: s, text: parsed}
	ctx, cancel := e.withTimeout(ctx)
	defer cancel()
	switch parsed.Kind {
	case statement.Insert:
		err = c.prepareInsert(ctx)
	case statement.CreateTable, statement.CreateTableAs:
		err = c.prepareCreate(ctx)
	case statement.DropTable:
		err = c.prepareDrop(ctx)
	case statement.Delete:
		err = c.prepareDelete(ctx)
	case statement.Update:
		err = c.prepareUpdate(ctx)
	case statement.Merge:
		err = c.prepareMerge(ctx)
	case statement.Truncate:
		err = c.prepareTruncate(ctx)
	case statement.CreateSchema, statement.DropSchema:
		err = c.prepareSchema(ctx)
	case statement.AlterTable:
		err = c.prepareAlter(ctx)
	case statement.Call:
		err = c.prepareCall(ctx)
	default:
		err = fault.New(fault.Internal, "query: %s changes nothing", parsed.Kind)
	}
	if err != nil {
		return nil, err
	}
	if len(c.params) == 0 {
		c.params = openParams(parsed)
	}
	return c, nil
}

// openParams are parameters of which nothing but number and name is known.
func openParams(s *statement.Statement) []Param {
	params := make([]Param, s.ParamCount())
	for i := range params {
		params[i] = Param{Name: paramName(s, i), Type: arrow.BinaryTypes.String, Open: true}
	}
	return params
}

// paramName is the name of parameter i, from 0: its number unless it has one.
func paramName(s *statement.Statement, i int) string {
	for _, p := range s.Params {
		if p.Index == i+1 && p.Name != "" {
			return p.Name
		}
	}
	return fmt.Sprint(i + 1)
}

// Kind names the statement as SQL does.
func (c *Change) Kind() string { return c.text.Kind.String() }

// IsUpdate says whether the protocol sends the statement as an update. CALL
// answers a row instead.
func (c *Change) IsUpdate() bool { return c.text.IsUpdate() }

// Params lists the parameters in the order of their numbers.
func (c *Change) Params() []Param { return c.params }

// Answers is the schema of the row that the statement answers, nil for none.
func (c *Change) Answers() *arrow.Schema { return c.answers }

// Run carries the statement out, once for each row of params and in one commit;
// without parameters params is empty and it runs once. After an error the tables
// are as they were. What a statement reads are the versions before it.
func (c *Change) Run(ctx context.Context, params []arrow.RecordBatch) (Outcome, error) {
	if len(params) > 0 && params[0].NumCols() == 0 {
		params = nil
	}
	if n := len(c.params); n > 0 && params == nil {
		return Outcome{}, fault.New(fault.Invalid, "query: the statement has %s and no values are bound", spelling.Count(n, "parameter"))
	}
	for _, p := range params {
		if n := len(c.params); int(p.NumCols()) != n {
			return Outcome{}, fault.New(fault.Invalid, "query: %s for the %s of the statement", spelling.Count(p.NumCols(), "value"), spelling.Count(n, "parameter"))
		}
	}
	ctx, cancel := c.engine.withTimeout(ctx)
	defer cancel()
	for try := 1; ; try++ {
		o, err := c.do(ctx, c, params)
		if !errors.Is(err, errColumns) {
			return o, err
		}
		if try == columnTries {
			return Outcome{}, fault.New(fault.Conflict, "query: the columns of the table were changed %d times while the statement was prepared; run it again", try)
		}
		again, err := c.engine.PrepareChange(ctx, c.session, c.text.Text)
		if err != nil {
			return Outcome{}, err
		}
		again.wrote = c.wrote
		*c = *again
	}
}

// columnTries is how often a statement is prepared anew because of other columns.
const columnTries = 20

// errColumns says that the table has other columns than when the statement was
// prepared.
var errColumns = errors.New("query: the columns of the table have changed")

// sameFields says whether what was prepared over one schema holds for another.
func sameFields(a, b *schema.Schema) bool {
	return slices.EqualFunc(a.Records(), b.Records(), func(a, b schema.Record) bool {
		return a.ID == b.ID && a.ParentID == b.ParentID && a.Name == b.Name && a.LogicalType == b.LogicalType &&
			a.Nullable == b.Nullable && a.Extension == b.Extension && maps.Equal(a.Metadata, b.Metadata)
	})
}

// scope runs f with a connection on which names mean what the session says.
func (c *Change) scope(ctx context.Context, f func(*run) error) error {
	r, err := c.engine.newRun(ctx, c.session)
	if err != nil {
		return err
	}
	defer r.close()
	defer r.while(ctx)()
	return f(r)
}

// existing finds the table that the statement writes.
func (c *Change) existing(ctx context.Context) (catalog.Name, *table.Snapshot, error) {
	var name catalog.Name
	var snapshot *table.Snapshot
	err := c.scope(ctx, func(r *run) (err error) {
		if name, err = r.resolve(c.text.Target.Path()); err != nil {
			return err
		}
		snapshot, err = r.snapshot(name, table.Ref{})
		return err
	})
	return name, snapshot, err
}

// place finds the name that a new table gets, and the table that has it already,
// if one has. As everywhere in SQL, case makes no difference.
func (c *Change) place(ctx context.Context) (name catalog.Name, found bool, err error) {
	err = c.scope(ctx, func(r *run) error {
		candidates := r.candidates(c.text.Target.Path())
		schemas, err := c.engine.cat.Schemas(ctx)
		if err != nil {
			return err
		}
		name = candidates[0]
	search:
		for _, candidate := range candidates {
			for _, s := range schemas {
				if strings.EqualFold(s.Catalog, candidate.Catalog) && strings.EqualFold(s.Name, candidate.Schema) {
					name = catalog.Name{Catalog: s.Catalog, Schema: s.Name, Table: candidate.Table}
					break search
				}
			}
		}
		same, err := c.engine.cat.Match(ctx, name)
		if err != nil || len(same) == 0 {
			return err
		}
		found = true
		at := slices.Index(same, name)
		if at < 0 && len(same) > 1 {
			return ambiguous(c.text.Target.Path(), same)
		}
		name = same[max(at, 0)]
		return nil
	})
	return name, found, err
}

// settings reads WITH (…) and SET (…).
func (c *Change) settings(list []statement.Setting) (*table.Settings, error) {
	values := map[string]string{}
	for _, s := range list {
		text := s.Value.Text
		switch s.Value.Kind {
		case statement.Bool:
			text = fmt.Sprint(s.Value.Bool)
		case statement.Null:
			return nil, c.text.ErrorAt(s.Span, "setting %s takes a value, not NULL", s.Key)
		}
		key := s.Key
		if parts, err := statement.ParsePath(key); err == nil { // quotes within the key are SQL's
			key = strings.Join(parts.Path(), ".")
		}
		values[key] = text
	}
	out, err := table.ParseSettings(values)
	if err != nil {
		for _, s := range list {
			if strings.Contains(err.Error(), s.Key) {
				return nil, c.text.ErrorAt(s.Span, "%s", strings.TrimPrefix(err.Error(), "table: "))
			}
		}
	}
	return out, err
}

// takesSame says whether values for a field are values for another one.
func takesSame(a, b *schema.Field) bool {
	return a.ID == b.ID && a.Name == b.Name && a.Logical == b.Logical && a.Blob == b.Blob && slices.EqualFunc(a.Children, b.Children, takesSame)
}

// logical is how batches reach an appender: blob columns by value or URI.
func logicalSchema(fields []*schema.Field) (*arrow.Schema, error) {
	out := make([]arrow.Field, len(fields))
	for i, f := range fields {
		a, err := f.Arrow(schema.Logical)
		if err != nil {
			return nil, err
		}
		out[i] = plainField(a)
	}
	return arrow.NewSchema(out, nil), nil
}

// bindAll binds a row by the position of the parameters: queries made of a write
// number all of them, and may use fewer.
func (s *Statement) bindAll(ctx context.Context, params arrow.RecordBatch, row int) error {
	if len(s.params) == 0 {
		return nil
	}
	fields := make([]arrow.Field, len(s.params))
	for i, p := range s.params {
		fields[i] = arrow.Field{Name: p.Name, Type: params.Column(i).DataType(), Nullable: true}
	}
	named := array.NewRecordBatch(arrow.NewSchema(fields, nil), params.Columns()[:len(fields)], params.NumRows())
	defer named.Release()
	return s.Bind(ctx, named, row)
}
