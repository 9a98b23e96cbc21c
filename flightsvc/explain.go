package flightsvc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/flightblob/flightblob/flightsvc/wire"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/materialize"
	"github.com/flightblob/flightblob/schema"
	"github.com/flightblob/flightblob/table"
)

// explain adds to an error of reading what only the front door knows: the
// table's name, the position that a row of the stream has, and how a client
// gets past a limit. Local bases outside the roots are shown by their ids. snap
// is what was read.
func (t *Ticket) explain(snap *table.Snapshot, err error) error {
	if err == nil {
		return nil
	}
	err = fmt.Errorf("table %s: %w", t.label(), t.detail(snap.Schema(), err))
	return &shownError{baseRedactor(snap.Manifest().Bases).paths(err.Error()), err}
}

// removed explains the loss of something that versions name, when one of them was
// removed while it was read.
func removed(ctx context.Context, err error, read ...*table.Snapshot) error {
	if fault.KindOf(err) != fault.Corrupt {
		return err
	}
	for _, snap := range read {
		if gone := snap.Removed(ctx); gone != nil {
			return gone
		}
	}
	return err
}

// shownError is an error with another text.
type shownError struct {
	text string
	err  error
}

func (e *shownError) Error() string { return e.text }
func (e *shownError) Unwrap() error { return e.err }

// label is the table's name as the ticket gives it.
func (t *Ticket) label() string {
	parts := []string{t.Name.Catalog, t.Name.Schema, t.Name.Table}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), ".")
}

func (t *Ticket) detail(sch *schema.Schema, err error) error {
	var large *materialize.TooLargeError
	if errors.As(err, &large) {
		return fault.New(fault.Exhausted, "%s", t.tooLarge(sch, large))
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

func (t *Ticket) tooLarge(sch *schema.Schema, e *materialize.TooLargeError) string {
	text := fmt.Sprintf("column %s, row %d%s: a message of %d bytes exceeds the %d that this client is taken to accept; "+
		"raise the client's limit (ADBC: %s, other Go clients: grpc.MaxCallRecvMsgSize) and tell the server with max_message_bytes "+
		"(ticket field, or header %s)", quote(e.Field), e.Row, t.place(e.Row), e.Size, e.Limit, clientOption, headerMaxMessage)
	if t.Ranges != nil {
		return text + "; or ask for shorter ranges"
	}
	columns, err := sch.Project([]string{e.Field})
	if err != nil || columns[0].Field.Blob == schema.NotBlob {
		return text + "; or ask for fewer columns"
	}
	return text + `; or read the value in pieces with a range ticket {"table":…,"column":…,"ranges":[[row,offset,length],…]}, in SQL blob_range`
}
