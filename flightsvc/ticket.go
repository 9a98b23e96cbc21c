package flightsvc

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/flightblob/flightblob/catalog"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/table"
)

// Ticket is a request to read: the JSON of a ticket or command. Tickets that
// the server mints hold the same JSON behind mintedPrefix, so a forged one can
// ask for nothing that a hand-written one could not.
type Ticket struct {
	Name catalog.Name
	Ref  table.Ref

	Columns []string // nil = all
	Blobs   string   // a face by name, "" = not given
	Offset  uint64   // rows left out at the start
	Limit   *uint64  // most rows to send, nil = all
	Rows    []uint64 // positions in scan order; nil = not given
	Filter  string   // a condition in SQL, "" = none; Offset and Limit count the rows that meet it
	// Column and Ranges ask for byte ranges of one blob column instead.
	Column string
	Ranges []Range // nil = not given

	BatchBytes      int64 // 0 = not given
	MaxMessageBytes int64 // 0 = not given

	Lease int64 // seconds that the version is kept for the client, 0 = not given; not of minted tickets

	// Pin is the key of the pin that keeps the version. For minted tickets only.
	Pin string
	// Minted says that this server made the ticket, so that it names its branch.
	Minted bool
	// Committed is when the pinned version was committed, in Unix nanoseconds: a
	// table that was dropped and made anew has the same version numbers. 0 = not
	// given. For minted tickets only.
	Committed int64
	// Profile is the profile of the request that a minted ticket answers, so
	// that its stream has the schema that was announced. Not for hand-written
	// tickets, which take the header.
	Profile string
}

// Range asks for Length bytes from Offset of the blob in a row, which is a
// position in scan order.
type Range struct{ Row, Offset, Length uint64 }

// Limits of tickets. Requests are memory of the server before they are checked.
const (
	maxTicketBytes = 4 << 20 // of a ticket or command that is read
	maxMintedBytes = 2 << 20 // of a ticket that is given out, below every client's limit
)

// mintedPrefix starts the tickets of this server: a byte that neither JSON nor
// a protobuf Any starts with, then the layout's version.
const mintedPrefix = "\x00\x01"

// ParseTicket reads a DoGet ticket, minted or hand-written. Errors are
// fault.Invalid and name the key.
func ParseTicket(b []byte) (*Ticket, error) {
	if len(b) > maxTicketBytes {
		return nil, fault.New(fault.Invalid, "ticket: %d bytes are more than the %d that are read", len(b), maxTicketBytes)
	}
	minted := strings.HasPrefix(string(b[:min(len(b), len(mintedPrefix))]), mintedPrefix)
	switch {
	case minted:
		b = b[len(mintedPrefix):]
	case len(b) > 0 && b[0] == 0:
		return nil, fault.New(fault.Invalid, "ticket: not one of this server's tickets, or of a newer one")
	case len(b) == 0 || b[0] != '{':
		return nil, fault.New(fault.Invalid, `ticket: give one from GetFlightInfo, or JSON such as {"table":"t"}`)
	}
	return parseRequest(b, minted)
}

// Append writes the ticket in its minted form. It fails with fault.Invalid when
// that would be too long for a client to receive.
func (t *Ticket) Append(dst []byte) ([]byte, error) {
	wire := ticketJSON{
		Catalog: t.Name.Catalog, Schema: t.Name.Schema, Table: t.Name.Table,
		Columns: t.Columns, Blobs: t.Blobs, Tag: t.Ref.Tag, Branch: t.Ref.Branch,
		Limit: t.Limit, Offset: t.Offset, Column: t.Column,
		Filter: t.Filter, BatchBytes: t.BatchBytes, MaxMessageBytes: t.MaxMessageBytes, Profile: t.Profile,
		Version: t.Ref.Version, Committed: t.Committed, Pin: t.Pin,
	}
	if t.Rows != nil {
		wire.Rows = &t.Rows
	}
	if t.Ranges != nil {
		ranges := make([][3]uint64, len(t.Ranges))
		for i, r := range t.Ranges {
			ranges[i] = [3]uint64{r.Row, r.Offset, r.Length}
		}
		wire.Ranges = &ranges
	}
	if !t.Ref.Timestamp.IsZero() {
		wire.Timestamp = t.Ref.Timestamp.UTC().Format(time.RFC3339Nano)
	}
	b, err := json.Marshal(wire)
	if err != nil {
		return dst, fmt.Errorf("ticket: %w", err)
	}
	if len(b) > maxMintedBytes {
		return dst, fault.New(fault.Invalid,
			"ticket: the answer's ticket would have %d bytes, %d are allowed; send the request itself as a DoGet ticket", len(b), maxMintedBytes)
	}
	return append(append(dst, mintedPrefix...), b...), nil
}

// ticketJSON is the minted form; parseRequest reads it.
type ticketJSON struct {
	Catalog         string       `json:"catalog,omitempty"`
	Schema          string       `json:"schema,omitempty"`
	Table           string       `json:"table"`
	Columns         []string     `json:"columns,omitempty"`
	Blobs           string       `json:"blobs,omitempty"`
	Version         uint64       `json:"version,omitempty"`
	Tag             string       `json:"tag,omitempty"`
	Branch          string       `json:"branch,omitempty"`
	Timestamp       string       `json:"timestamp,omitempty"`
	Limit           *uint64      `json:"limit,omitempty"`
	Offset          uint64       `json:"offset,omitempty"`
	Rows            *[]uint64    `json:"rows,omitempty"`
	Filter          string       `json:"filter,omitempty"`
	Column          string       `json:"column,omitempty"`
	Ranges          *[][3]uint64 `json:"ranges,omitempty"`
	BatchBytes      int64        `json:"batch_bytes,omitempty"`
	MaxMessageBytes int64        `json:"max_message_bytes,omitempty"`
	Committed       int64        `json:"committed,omitempty"`
	Profile         string       `json:"profile,omitempty"`
	Pin             string       `json:"pin,omitempty"`
}

// parseRequest reads the JSON of a ticket or command, strictly.
func parseRequest(b []byte, minted bool) (*Ticket, error) {
	o, err := parseObject("ticket", b)
	if err != nil {
		return nil, err
	}
	t := &Ticket{Minted: minted}
	o.name(&t.Name)
	o.ref(&t.Ref)
	o.string("filter", &t.Filter)
	o.strings("columns", &t.Columns)
	o.string("blobs", &t.Blobs)
	o.uint("offset", &t.Offset)
	if o.has("limit") {
		t.Limit = new(uint64)
		o.uint("limit", t.Limit)
	}
	o.positions("rows", &t.Rows)
	o.string("column", &t.Column)
	o.ranges("ranges", &t.Ranges)
	o.size("batch_bytes", &t.BatchBytes)
	o.size("max_message_bytes", &t.MaxMessageBytes)
	if minted {
		o.decode("committed", "a whole number", &t.Committed)
		o.string("profile", &t.Profile)
		o.string("pin", &t.Pin)
	} else {
		o.size("lease", &t.Lease)
	}
	o.exclude("rows", "filter", "limit", "offset")
	o.together("column", "ranges")
	o.exclude("ranges", "columns", "blobs", "rows", "filter", "limit", "offset")
	if err := o.finish(); err != nil {
		return nil, err
	}
	if _, err := parseFace("ticket: blobs", t.Blobs); err != nil {
		return nil, err
	}
	if t.Profile != "" {
		if _, err := parseProfile("ticket: profile", t.Profile); err != nil {
			return nil, err
		}
	}
	return t, nil
}
