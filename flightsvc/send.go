package flightsvc

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"google.golang.org/grpc"

	"github.com/flightblob/flightblob/flightsvc/wire"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/materialize"
)

// sender puts batches on a stream in messages of the wanted size.
type sender struct {
	server *Server
	ticket *Ticket
	set    settings
	schema *arrow.Schema // as sent
	out    *wire.Writer
	rows   uint64 // sent so far
	bytes  int64  // of out.Bytes, reported so far
}

func (s *Server) newSender(stream grpc.ServerStream, sch *arrow.Schema, t *Ticket, set settings, opts wire.Options) (*sender, error) {
	if set.bi {
		sch = biSchema(sch)
	}
	opts.Limit = set.limit
	out, err := wire.NewWriter(stream, sch, opts)
	if err != nil {
		return nil, err
	}
	return &sender{server: s, ticket: t, set: set, schema: sch, out: out}, nil
}

// all sends the schema and everything that a reader yields. Batches without
// rows are left out: the schema message alone says that there are none.
func (s *sender) all(rows array.RecordReader) (err error) {
	defer func() {
		if cerr := s.out.Close(); err == nil {
			err = cerr
		}
	}()
	if err := s.out.WriteSchema(); err != nil {
		return err
	}
	for rows.Next() {
		b := rows.RecordBatch()
		if b.NumRows() == 0 {
			continue
		}
		if err := s.batch(b); err != nil {
			return err
		}
	}
	return rows.Err()
}

func (s *sender) batch(b arrow.RecordBatch) error {
	if s.set.bi {
		converted, err := biBatch(b, s.schema, memory.DefaultAllocator)
		if err != nil {
			return err
		}
		defer converted.Release()
		b = converted
	}
	for from := int64(0); from < b.NumRows(); {
		n := fit(b, from, s.set.message)
		if n == 1 {
			if size := encodedBatch(b, from, from+1); size > s.set.limit {
				field, _ := largest(b, from)
				return &materialize.TooLargeError{Field: field, Row: int64(s.rows + s.ticket.Offset), Size: size, Limit: s.set.limit}
			}
		}
		if err := s.slice(b, from, from+n); err != nil {
			return err
		}
		from += n
	}
	return nil
}

func (s *sender) slice(b arrow.RecordBatch, from, to int64) error {
	part := b
	if from > 0 || to < b.NumRows() {
		part = b.NewSlice(from, to)
		defer part.Release()
	}
	if err := s.out.Write(part, nil); err != nil {
		return err
	}
	s.rows += uint64(to - from)
	s.server.opts.Events.sent(s.out.Bytes()-s.bytes, to-from)
	s.bytes = s.out.Bytes()
	return nil
}

// explain adds to an error of reading what only the front door knows: the
// table's name, the position that a row of the stream has, and how a client
// gets past a limit.
func (t *Ticket) explain(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("table %s: %w", t.label(), t.detail(err))
}

// label is the table's name as the ticket gives it.
func (t *Ticket) label() string {
	parts := []string{t.Name.Catalog, t.Name.Schema, t.Name.Table}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), ".")
}

func (t *Ticket) detail(err error) error {
	var large *materialize.TooLargeError
	if errors.As(err, &large) {
		return fault.New(fault.Exhausted, "%s", t.tooLarge(large))
	}
	var long *wire.TooLongError
	if errors.As(err, &long) {
		return fmt.Errorf("%w; raise the client's limit (ADBC: %s) and tell the server with max_message_bytes (ticket field, or header %s)",
			err, clientOption, headerMaxMessage)
	}
	var value *materialize.ValueError
	if errors.As(err, &value) && t.Rows != nil {
		return fmt.Errorf("%w%s", err, t.place(value.Row))
	}
	return err
}

// place says which row of the table a row of the stream is, where the two
// differ.
func (t *Ticket) place(row int64) string {
	switch {
	case row < 0:
	case t.Rows != nil && row < int64(len(t.Rows)):
		return fmt.Sprintf(" (position %d of the table)", t.Rows[row])
	}
	return ""
}

// clientOption is how ADBC's Flight SQL driver names its receive limit.
const clientOption = "adbc.flight.sql.client_option.with_max_msg_size"

func (t *Ticket) tooLarge(e *materialize.TooLargeError) string {
	text := fmt.Sprintf("column %s, row %d%s: a message of %d bytes exceeds the %d that this client is taken to accept; "+
		"raise the client's limit (ADBC: %s, other Go clients: grpc.MaxCallRecvMsgSize) and tell the server with max_message_bytes "+
		"(ticket field, or header %s)", quote(e.Field), e.Row, t.place(e.Row), e.Size, e.Limit, clientOption, headerMaxMessage)
	if t.Ranges != nil {
		return text + "; or ask for shorter ranges"
	}
	return text + `; or read the value in pieces with a range ticket {"table":…,"column":…,"ranges":[[row,offset,length],…]}, in SQL blob_range`
}
