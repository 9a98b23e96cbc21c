package flightsvc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/schema"
	"github.com/flightblob/flightblob/table"
)

// writeValue appends one row whose value in one blob column is the pieces of a
// stream, end to end. The pieces go straight into the value's object: memory does
// not grow with its size.
func (s *Server) writeValue(ctx context.Context, c *putCommand, rows array.RecordReader) (*table.Snapshot, uint64, error) {
	t, err := s.cat.Table(ctx, c.name)
	if err != nil {
		return nil, 0, err
	}
	snapshot, err := t.At(ctx, table.Ref{Branch: c.branch})
	if err != nil {
		return nil, 0, err
	}
	pieces, err := newPieces(ctx, rows)
	if err != nil {
		return nil, 0, err
	}
	row, err := c.value.record(snapshot.Schema())
	if err != nil {
		return nil, 0, err
	}
	defer row.Release()
	a, err := t.Append(ctx, c.branch, row.Schema(), c.options)
	if err != nil {
		return nil, 0, err
	}
	defer a.Abort()
	if err := a.WriteStream(ctx, row, c.value.column, pieces, c.value.size); err != nil {
		if pieces.err != nil && !errors.Is(pieces.err, io.EOF) {
			err = pieces.err
		}
		return nil, 0, fmt.Errorf("put: %w", err)
	}
	if err := pieces.end(); err != nil {
		return nil, 0, err
	}
	done, err := a.Commit(ctx)
	return done, 1, err
}

// record makes the row, with an empty value in the place of the one to come.
func (v *putValueCommand) record(s *schema.Schema) (arrow.RecordBatch, error) {
	root := map[string]any{}
	for key, raw := range v.row {
		d := json.NewDecoder(bytes.NewReader(raw))
		d.UseNumber()
		var value any
		if err := d.Decode(&value); err != nil {
			return nil, fault.New(fault.Invalid, "put: row: %s: %v", quote(key), err)
		}
		root[key] = value
	}
	path := strings.Split(v.column, ".")
	at := root
	for _, name := range path[:len(path)-1] {
		below, ok := at[name].(map[string]any)
		if !ok {
			if at[name] != nil {
				return nil, fault.New(fault.Invalid, "put: row: %s is no struct, and column %s lies below it", quote(name), quote(v.column))
			}
			below = map[string]any{}
			at[name] = below
		}
		at = below
	}
	if last := path[len(path)-1]; at[last] != nil {
		return nil, fault.New(fault.Invalid, "put: row gives a value for %s, whose bytes come in pieces", quote(v.column))
	}
	at[path[len(path)-1]] = ""
	var fields []arrow.Field
	for _, f := range s.Fields {
		if _, ok := root[f.Name]; !ok {
			continue
		}
		shown, err := f.Arrow(schema.Materialized)
		if err != nil {
			return nil, err
		}
		shown.Nullable = true
		fields = append(fields, shown)
	}
	if len(fields) != len(root) {
		for key := range root {
			if !hasField(s.Fields, key) {
				return nil, fault.New(fault.Invalid, "put: row: the table has no column %s", quote(key))
			}
		}
	}
	text, err := json.Marshal([]any{root})
	if err != nil {
		return nil, fault.New(fault.Internal, "flightsvc: write a row: %w", err)
	}
	return rowFromJSON(arrow.NewSchema(fields, nil), text)
}

func hasField(fields []*schema.Field, name string) bool {
	for _, f := range fields {
		if f.Name == name {
			return true
		}
	}
	return false
}

func rowFromJSON(s *arrow.Schema, text []byte) (rec arrow.RecordBatch, err error) {
	defer fault.Recover("flightsvc", &err)
	rec, _, err = array.RecordFromJSON(memory.DefaultAllocator, s, bytes.NewReader(text))
	if err != nil {
		return nil, fault.New(fault.Invalid, "put: row: %w", err)
	}
	return rec, nil
}

// pieces reads the bytes of batches with the columns chunk_no and bytes, in the
// order of their numbers from 0 on.
type pieces struct {
	ctx  context.Context //nolint:containedctx // readers have no context
	rows array.RecordReader
	next uint64

	numbers *array.Uint64
	bytes   func(int) []byte
	row     int
	rest    []byte
	err     error
}

func newPieces(ctx context.Context, rows array.RecordReader) (*pieces, error) {
	s := rows.Schema()
	ok := s.NumFields() == 2 && s.Field(0).Name == "chunk_no" && s.Field(0).Type.ID() == arrow.UINT64 && s.Field(1).Name == "bytes"
	if ok {
		id := s.Field(1).Type.ID()
		ok = id == arrow.LARGE_BINARY || id == arrow.BINARY
	}
	if !ok {
		return nil, fault.New(fault.Invalid, "put: mode value takes the columns chunk_no: uint64 and bytes: large_binary, not %s", shorten(s.String(), 300))
	}
	return &pieces{ctx: ctx, rows: rows}, nil
}

// Read implements io.Reader.
func (p *pieces) Read(into []byte) (int, error) {
	for len(p.rest) == 0 {
		if p.err == nil {
			p.err = p.advance()
		}
		if p.err != nil {
			return 0, p.err
		}
	}
	n := copy(into, p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

// advance goes to the next piece.
func (p *pieces) advance() error {
	for p.numbers == nil || p.row >= p.numbers.Len() {
		if !p.rows.Next() {
			if err := p.rows.Err(); err != nil {
				return putBroken(p.ctx, err)
			}
			return io.EOF
		}
		batch := p.rows.RecordBatch()
		p.numbers, p.row = batch.Column(0).(*array.Uint64), 0
		switch a := batch.Column(1).(type) {
		case *array.LargeBinary:
			p.bytes = a.Value
		case *array.Binary:
			p.bytes = a.Value
		}
		if p.numbers.NullN() > 0 || batch.Column(1).NullN() > 0 {
			return fault.New(fault.Invalid, "put: a piece after number %d is null", p.next)
		}
	}
	if got := p.numbers.Value(p.row); got != p.next {
		return fault.New(fault.Invalid, "put: chunk_no is %d where %d comes next; pieces are numbered from 0 without gaps", got, p.next)
	}
	p.rest = p.bytes(p.row)
	p.row++
	p.next++
	return nil
}

// end checks that no byte is left over.
func (p *pieces) end() error {
	n, err := p.Read(make([]byte, 1))
	switch {
	case n > 0:
		return fault.New(fault.Invalid, "put: more bytes came than size says")
	case errors.Is(err, io.EOF):
		return nil
	}
	return err
}
