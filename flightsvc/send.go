package flightsvc

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"google.golang.org/grpc"

	"github.com/flightblob/flightblob/flightsvc/wire"
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
	opts.Limit, opts.Compression = set.limit, set.compression
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
		n := fit(b, from, s.set.message, s.set.compression)
		if n == 1 {
			if size := encodedBatch(b, from, from+1, s.set.compression); size > s.set.limit {
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
