package flightsvc

import (
	"context"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/flight"
	"golang.org/x/sync/semaphore"

	"github.com/flightblob/flightblob/internal/fault"
)

// readPut reads the schema of a put and gives its rows. The library that builds
// arrays of a client's bytes panics on some that lie; that is an error of the
// stream, not of the server.
func readPut(stream flight.DataStreamReader) (rows array.RecordReader, err error) {
	defer fault.Recover("flightsvc", &err)
	r, err := flight.NewRecordReader(stream)
	if err != nil {
		return nil, err
	}
	return &guardedRows{RecordReader: r}, nil
}

// guardedRows is a reader that fails where another one panics.
type guardedRows struct {
	array.RecordReader
	err error
}

func (g *guardedRows) Next() (more bool) {
	defer func() {
		if g.err != nil {
			more = false
		}
	}()
	defer fault.Recover("the Arrow stream", &g.err)
	return g.err == nil && g.RecordReader.Next()
}

func (g *guardedRows) Err() error {
	if g.err != nil {
		return g.err
	}
	return g.RecordReader.Err()
}

// haveColumns refuses names of columns that the input lacks, at any depth of its
// structs.
func haveColumns(input *arrow.Schema, names []string) error {
	for _, name := range names {
		fields, found := input.Fields(), false
		for part := range strings.SplitSeq(name, ".") {
			found = false
			for _, f := range fields {
				if f.Name == part {
					fields, found = fieldsBelow(f.Type), true
					break
				}
			}
			if !found {
				break
			}
		}
		if !found {
			return fault.New(fault.Invalid, "header %s: the rows have no column %s", headerBlobColumns, quote(name))
		}
	}
	return nil
}

// fieldsBelow are the fields that a dotted name goes on with: those of a struct,
// or of the structs in a list.
func fieldsBelow(t arrow.DataType) []arrow.Field {
	for {
		switch list := t.(type) {
		case *arrow.ListType:
			t = list.Elem()
		case *arrow.LargeListType:
			t = list.Elem()
		case *arrow.StructType:
			return list.Fields()
		default:
			return nil
		}
	}
}

// Limits of what is written at the same time.
const (
	defaultPuts     = 64
	defaultPutBytes = 512 << 20
)

// puts bounds the writes that run at once, by number and by the bytes of their
// batches. What has no room waits.
type puts struct {
	running *semaphore.Weighted
	bytes   *semaphore.Weighted
	keys    *semaphore.Weighted // bytes of the keys of merges, beside those of batches
	most    int64
}

func newPuts(count, bytes int64) *puts {
	return &puts{running: semaphore.NewWeighted(count), bytes: semaphore.NewWeighted(bytes), keys: semaphore.NewWeighted(bytes), most: bytes}
}

// enter waits for a place.
func (p *puts) enter(ctx context.Context) (leave func(), err error) {
	if err := p.running.Acquire(ctx, 1); err != nil {
		return nil, fault.New(fault.Exhausted, "put: too many writes run at once; the server's --max-puts allows more: %w", context.Cause(ctx))
	}
	return func() { p.running.Release(1) }, nil
}

// hold counts a batch while something is done with it. One that is larger than
// everything goes alone.
func (p *puts) hold(ctx context.Context, batch arrow.RecordBatch, do func(arrow.RecordBatch) error) error {
	size := int64(1)
	for _, c := range batch.Columns() {
		size += int64(c.Data().SizeInBytes())
	}
	size = min(size, p.most)
	if err := p.bytes.Acquire(ctx, size); err != nil {
		return fault.New(fault.Exhausted, "put: the writes that run hold too many bytes; the server's --put-memory allows more: %w", context.Cause(ctx))
	}
	defer p.bytes.Release(size)
	return do(batch)
}

// take implements room for the parameters of an update. It does not wait: who
// holds some already could wait for another one that does.
func (p *puts) take(n, held int64) error {
	if held+n > p.most {
		return fault.New(fault.Exhausted, "parameters: more than the %d bytes that writes may hold at once (the server's --put-memory); "+
			"bind fewer rows at a time, or send the rows as a stream: adbc_ingest or DoPut", p.most)
	}
	if !p.bytes.TryAcquire(n) {
		return fault.New(fault.Exhausted, "parameters: the writes that run hold all of the %d bytes that they may (the server's --put-memory); run the statement again", p.most)
	}
	return nil
}

// free implements room.
func (p *puts) free(n int64) { p.bytes.Release(n) }
