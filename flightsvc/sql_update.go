package flightsvc

import (
	"log/slog"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/flight"
	flightpb "github.com/apache/arrow-go/v18/arrow/flight/gen/flight"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/flightblob/flightblob/internal/fault"
)

// Updates are statements that change something and answer how many rows. They
// come by DoPut, as text or prepared; the rows of parameters that come with a
// prepared one are one commit together.

// mayWrite refuses updates where the operator wants none, or the engine has none.
func (s *Server) mayWrite(st Statement) (Updater, error) {
	if s.opts.ReadOnly {
		return nil, errReadOnly
	}
	u, ok := st.(Updater)
	if !ok {
		return nil, fault.New(fault.Unsupported, "%s: the SQL engine of this server only reads", st.Kind())
	}
	return u, nil
}

// notAQuery refuses the query path to an update. A client that asks for a result
// may never fetch it, or fetch it twice: whether something was written must not
// hang on that.
func notAQuery(kind string) error {
	return fault.New(fault.Invalid, "%s: it changes something and answers no rows; send it as an update (executeUpdate in JDBC, Exec in Go), or prepare it", kind)
}

// update carries an update out and answers the count of rows.
func (s *Server) update(stream flight.FlightService_DoPutServer, st Statement, params []arrow.RecordBatch) error {
	u, err := s.mayWrite(st)
	if err != nil {
		return err
	}
	ctx := stream.Context()
	leave, err := s.puts.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	ctx, stop := s.limited(ctx)
	defer stop()
	done, err := u.Update(ctx, params)
	if err != nil {
		return because(ctx, err)
	}
	s.notice(stream, st.Kind(), done.Notice)
	return sendPut(stream, &flightpb.DoPutUpdateResult{RecordCount: done.Rows})
}

// trailerNotice carries what a client should know about a write that the answer
// has no place for.
const trailerNotice = "flightblob-notice"

// notice logs a notice and sends it behind the answer, if there is one.
func (s *Server) notice(stream grpc.ServerStream, what, text string) {
	if text == "" {
		return
	}
	s.log.LogAttrs(stream.Context(), slog.LevelWarn, text, slog.String("after", what))
	stream.SetTrailer(metadata.Pairs(trailerNotice, text))
}
