package flightsvc

import (
	"context"
	"fmt"
	"iter"
	"math/rand"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/flightblob/flightblob/catalog"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/schema"
	"github.com/flightblob/flightblob/table"
)

// fakeEngine answers a few texts:
//
//	rows N             int64 n, 0 to N-1, ten to a batch
//	endless            int64 n without end, a batch a millisecond
//	slow N             N batches of one row, ten milliseconds apart
//	fail               a batch, then damage
//	panic              a batch, then a panic
//	echo               one row that is its parameters, k int64 and v utf8
//	random N           a row of a schema that N decides
//	moving             a schema that is another one each time
//	names              catalog and schema that names are looked up in
//	scan NAME          a plain scan of a table
//	change             a statement that writes, with one parameter
//	nothing            a statement that answers no rows
type fakeEngine struct {
	cat      *catalog.Catalog
	open     atomic.Int64 // statements
	reading  atomic.Int64
	prepared atomic.Int64
	made     atomic.Int64 // batches

	mu    sync.Mutex
	again int // statements made by Again
}

func (e *fakeEngine) Prepare(ctx context.Context, ns Namespace, sql string) (Statement, error) {
	e.prepared.Add(1)
	word, rest, _ := strings.Cut(strings.TrimSpace(sql), " ")
	st := &fakeStatement{engine: e, ns: ns, word: word, rest: rest, number: e.prepared.Load()}
	switch word {
	case "rows", "endless", "slow", "fail", "panic", "echo", "random", "moving", "names", "change", "nothing":
	case "scan":
		t, err := e.cat.Table(ctx, catalog.Name{Catalog: ns.Catalog, Schema: ns.Schema, Table: rest})
		if err != nil {
			return nil, err
		}
		if st.snap, err = t.At(ctx, table.Ref{}); err != nil {
			return nil, err
		}
	default:
		return nil, fault.New(fault.Invalid, "fake: cannot read %s", quote(sql))
	}
	e.open.Add(1)
	return st, nil
}

// The conditions that the engine reads: the position is even; and one that
// fails behind the first rows.
func (e *fakeEngine) CheckFilter(_ context.Context, _ *table.Snapshot, condition string) error {
	if condition != "even" && condition != "broken" {
		return fault.New(fault.Invalid, "fake: cannot read the condition %s", quote(condition))
	}
	return nil
}

func (e *fakeEngine) Positions(_ context.Context, req FilterRequest) iter.Seq2[[]uint64, error] {
	return func(yield func([]uint64, error) bool) {
		e.reading.Add(1)
		defer e.reading.Add(-1)
		var list []uint64
		for at := uint64(0); at < req.Snapshot.Rows(); at += 2 {
			list = append(list, at)
		}
		list = list[min(req.Offset, uint64(len(list))):]
		if req.Limit != nil {
			list = list[:min(*req.Limit, uint64(len(list)))]
		}
		for some := range slices.Chunk(list, 3) {
			if !yield(some, nil) {
				return
			}
			if req.Condition == "broken" {
				yield(nil, fault.Corruptf(7, "fake: damage"))
				return
			}
		}
	}
}

type fakeStatement struct {
	engine     *fakeEngine
	ns         Namespace
	word, rest string
	number     int64
	snap       *table.Snapshot
	closed     atomic.Bool
}

func (s *fakeStatement) Kind() string {
	switch s.word {
	case "change":
		return "INSERT"
	case "nothing":
		return "SET"
	}
	return "SELECT"
}

func (s *fakeStatement) IsUpdate() bool { return s.word == "change" }

var (
	numbers = arrow.NewSchema([]arrow.Field{{Name: "n", Type: arrow.PrimitiveTypes.Int64}}, nil)
	echoed  = arrow.NewSchema([]arrow.Field{
		{Name: "k", Type: arrow.PrimitiveTypes.Int64, Nullable: true}, {Name: "v", Type: arrow.BinaryTypes.String, Nullable: true},
	}, nil)
	named = arrow.NewSchema([]arrow.Field{{Name: "catalog", Type: arrow.BinaryTypes.String}, {Name: "schema", Type: arrow.BinaryTypes.String}}, nil)
)

func (s *fakeStatement) Params() *arrow.Schema {
	switch s.word {
	case "echo":
		return echoed
	case "change":
		return numbers
	}
	return nil
}

func (s *fakeStatement) Schema(_ context.Context, view schema.View, _ arrow.RecordBatch) (*arrow.Schema, error) {
	switch s.word {
	case "echo":
		return echoed, nil
	case "names":
		return named, nil
	case "random":
		seed, err := strconv.ParseInt(s.rest, 10, 64)
		return randomSchema(rand.New(rand.NewSource(seed)), view), err
	case "moving":
		return arrow.NewSchema([]arrow.Field{{Name: fmt.Sprint("c", s.number), Type: arrow.PrimitiveTypes.Int8}}, nil), nil
	case "change", "nothing":
		return nil, nil
	case "scan":
		return sqlSchemaOf(s.snap, view)
	}
	return numbers, nil
}

func (s *fakeStatement) Snapshots() []*table.Snapshot {
	if s.snap == nil {
		return nil
	}
	return []*table.Snapshot{s.snap}
}

func (s *fakeStatement) PlainScan() (PlainScan, bool) {
	return PlainScan{Snapshot: s.snap}, s.word == "scan"
}

func (s *fakeStatement) Again(context.Context) (Statement, error) {
	s.engine.mu.Lock()
	s.engine.again++
	s.engine.mu.Unlock()
	s.engine.open.Add(1)
	return &fakeStatement{engine: s.engine, ns: s.ns, word: s.word, rest: s.rest, number: s.number, snap: s.snap}, nil
}

func (s *fakeStatement) Close() error {
	if s.closed.Swap(true) {
		return fault.New(fault.Internal, "fake: closed twice")
	}
	s.engine.open.Add(-1)
	return nil
}

func (s *fakeStatement) Query(ctx context.Context, params arrow.RecordBatch, row int, o QueryOptions) (array.RecordReader, error) {
	if s.closed.Load() {
		return nil, fault.New(fault.Internal, "fake: a closed statement is asked")
	}
	sch, err := s.Schema(ctx, o.View, nil)
	if err != nil {
		return nil, err
	}
	left, pause := 0, time.Duration(0)
	switch s.word {
	case "rows":
		if left, err = strconv.Atoi(s.rest); err != nil {
			return nil, err
		}
	case "slow":
		if left, err = strconv.Atoi(s.rest); err != nil {
			return nil, err
		}
		pause = 10 * time.Millisecond
	case "endless":
		left, pause = 1<<60, time.Millisecond
	case "fail", "panic":
		left = 20
	default:
		left = 1
	}
	if s.word == "echo" && params.Column(0).IsValid(row) && params.Column(0).(*array.Int64).Value(row) == 13 {
		return nil, fault.New(fault.Invalid, "fake: thirteen")
	}
	s.engine.reading.Add(1)
	at := int64(0)
	return newPull(sch, func() (arrow.RecordBatch, error) {
		if pause > 0 {
			select {
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			case <-time.After(pause):
			}
		}
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		switch {
		case left <= 0:
			return nil, nil
		case at > 0 && s.word == "fail":
			return nil, fault.In("x.lance", fault.Corruptf(7, "fake: damage"))
		case at > 0 && s.word == "panic":
			panic("fake: a bug")
		}
		s.engine.made.Add(1)
		b := array.NewRecordBuilder(memory.DefaultAllocator, sch)
		defer b.Release()
		switch s.word {
		case "echo":
			if k := params.Column(0); k.IsValid(row) {
				b.Field(0).(*array.Int64Builder).Append(k.(*array.Int64).Value(row))
			} else {
				b.Field(0).AppendNull()
			}
			b.Field(1).(*array.StringBuilder).Append(params.Column(1).ValueStr(row))
			left--
		case "names":
			b.Field(0).(*array.StringBuilder).Append(s.ns.Catalog)
			b.Field(1).(*array.StringBuilder).Append(s.ns.Schema)
			left--
		case "random", "moving":
			for _, f := range b.Fields() {
				f.AppendEmptyValue()
			}
			left--
		case "slow":
			b.Field(0).(*array.Int64Builder).Append(at)
			left--
			at++
		default:
			for range min(10, left) {
				b.Field(0).(*array.Int64Builder).Append(at)
				at++
				left--
			}
		}
		return b.NewRecordBatch(), nil
	}, func() { s.engine.reading.Add(-1) }), nil
}

// randomSchema makes a schema with a bit of everything, and a blob column in
// the face asked for.
func randomSchema(r *rand.Rand, view schema.View) *arrow.Schema {
	var fields []arrow.Field
	for i := range 1 + r.Intn(6) {
		fields = append(fields, arrow.Field{Name: fmt.Sprintf("c%d %d", i, r.Intn(3)), Type: randomType(r, 2), Nullable: r.Intn(2) == 0})
	}
	img := arrow.Field{Name: "img", Type: arrow.BinaryTypes.LargeBinary, Nullable: true}
	if view == schema.Descriptor {
		img.Type = schema.DescriptorType
	}
	fields = append(fields, img)
	r.Shuffle(len(fields), func(i, j int) { fields[i], fields[j] = fields[j], fields[i] })
	m := arrow.NewMetadata([]string{"about"}, []string{"a table"})
	return arrow.NewSchema(fields, &m)
}

func randomType(r *rand.Rand, depth int) arrow.DataType {
	leaves := []arrow.DataType{
		arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Uint8, arrow.PrimitiveTypes.Uint16, arrow.PrimitiveTypes.Uint32, arrow.PrimitiveTypes.Uint64,
		arrow.PrimitiveTypes.Int64, arrow.FixedWidthTypes.Float16, arrow.PrimitiveTypes.Float64, arrow.FixedWidthTypes.Boolean,
		arrow.BinaryTypes.String, arrow.BinaryTypes.LargeString, arrow.BinaryTypes.LargeBinary, arrow.FixedWidthTypes.Date32,
		&arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}, &arrow.Decimal128Type{Precision: 10, Scale: 2},
	}
	if depth == 0 || r.Intn(3) > 0 {
		return leaves[r.Intn(len(leaves))]
	}
	child := arrow.Field{Name: "x", Type: randomType(r, depth-1), Nullable: r.Intn(2) == 0}
	switch r.Intn(4) {
	case 0:
		return arrow.ListOfField(child)
	case 1:
		return arrow.LargeListOfField(child)
	case 2:
		return arrow.FixedSizeListOfField(3, child)
	}
	return arrow.StructOf(child, arrow.Field{Name: "y", Type: randomType(r, depth-1), Nullable: true})
}

// serveSQL starts a server with a fake engine over roots. When the test ends
// nothing of the engine may be left open.
func serveSQL(t testing.TB, opts Options, roots ...string) (*house, *fakeEngine) {
	t.Helper()
	e := &fakeEngine{}
	t.Cleanup(func() {
		if n := e.open.Load(); n != 0 {
			t.Errorf("%d statements are open at the end", n)
		}
		if n := e.reading.Load(); n != 0 {
			t.Errorf("%d results are read at the end", n)
		}
	})
	opts.Engine = e
	opts.Version = "1.2.3"
	h := serve(t, opts, roots...)
	e.cat = h.server.cat
	return h, e
}
