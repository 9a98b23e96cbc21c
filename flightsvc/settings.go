package flightsvc

import (
	"context"
	"math"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/flightblob/flightblob/flightsvc/wire"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/schema"
)

// Request headers, in the lower case of HTTP/2.
const (
	headerBlobs      = "flightblob-blobs"
	headerBatchBytes = "flightblob-batch-bytes"
	headerMaxMessage = "flightblob-max-message-bytes"
	headerProfile    = "flightblob-profile"
	headerCompress   = "flightblob-compression"
	headerLease      = "flightblob-lease"
	headerUserAgent  = "user-agent"
)

// profileBI leaves out types that JDBC and ODBC tools cannot show.
const profileBI = "bi"

// Message sizes, in encoded bytes.
const (
	// defaultMessage keeps messages below 4 MiB, the receive limit of Go
	// clients that set none, with room for what surrounds the body.
	defaultMessage = 4<<20 - 64<<10
	minMessage     = 1 << 10
	maxMessage     = 64 << 20
	// goClientLimit is what ADBC's Flight SQL driver receives by default.
	goClientLimit = 16 << 20
	// protocolLimit is the longest message that clients' 32-bit lengths take.
	protocolLimit = math.MaxInt32 - 1<<16
)

// settings are the choices that hold for one request.
type settings struct {
	view schema.View
	bi   bool
	// message is the encoded length that a message stays below unless one row
	// alone is longer.
	message int64
	// limit is the longest message that the client takes.
	limit int64
	// compression is that of record batches. Not every client undoes it, so it
	// must be asked for.
	compression wire.Compression
	// lease is how long versions are kept for the client, 0 for not at all.
	lease time.Duration
}

// sources are the places that a choice can come from, strongest first: the
// ticket or command, the call's headers, the Flight session.
type sources struct {
	ticket  *Ticket
	headers metadata.MD
	session map[string]string // session options by name
}

// settings decides what holds for a request.
func (s *Server) settings(ctx context.Context, t *Ticket) (settings, error) {
	x, err := s.session(ctx)
	if err != nil {
		return settings{}, err
	}
	md, _ := metadata.FromIncomingContext(ctx)
	return sources{ticket: t, headers: md, session: x.values()}.resolve()
}

// resolve is the one place that knows the order of precedence.
func (src sources) resolve() (settings, error) {
	var set settings
	value, from := src.pick(src.ticket.Blobs, headerBlobs, optionBlobs)
	view, err := parseFace(from, value)
	if err != nil {
		return set, err
	}
	set.view = view

	value, from = src.pick(src.ticket.Profile, headerProfile, optionProfile)
	if set.bi, err = parseProfile(from, value); err != nil {
		return set, err
	}

	value, from = src.pick("", headerCompress, optionCompress)
	if set.compression, err = parseCompression(from, value); err != nil {
		return set, err
	}

	lease := ""
	if src.ticket.Lease > 0 {
		lease = strconv.FormatInt(src.ticket.Lease, 10)
	}
	value, from = src.pick(lease, headerLease, optionLease)
	if set.lease, err = parseLease(from, value); err != nil {
		return set, err
	}

	message, err := src.bytes(src.ticket.BatchBytes, headerBatchBytes, optionBatchBytes)
	if err != nil {
		return set, err
	}
	set.message = defaultMessage
	if message > 0 {
		set.message = min(max(message, minMessage), maxMessage)
	}

	limit, err := src.bytes(src.ticket.MaxMessageBytes, headerMaxMessage, optionMaxMessage)
	if err != nil {
		return set, err
	}
	switch {
	case limit > 0:
		set.limit = min(limit, protocolLimit)
	case src.goClient():
		set.limit = goClientLimit
	default:
		set.limit = protocolLimit
	}
	set.message = min(set.message, set.limit)
	return set, nil
}

// pick gives the strongest source's value and that source's name for messages.
func (src sources) pick(ticket, header, option string) (value, from string) {
	if ticket != "" {
		return ticket, "ticket: " + option
	}
	if v := src.headers.Get(header); len(v) > 0 && v[len(v)-1] != "" {
		return v[len(v)-1], "header " + header
	}
	return src.session[option], "session option " + option
}

func (src sources) bytes(ticket int64, header, option string) (int64, error) {
	if ticket > 0 {
		return ticket, nil
	}
	value, from := src.pick("", header, option)
	if value == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
	if err != nil || n < 0 {
		return 0, fault.New(fault.Invalid, "%s: %s is not a number of bytes", from, quote(value))
	}
	return n, nil
}

// goClient recognises clients that grpc-go limits, such as ADBC's driver, by
// their user agent.
func (src sources) goClient() bool {
	for _, agent := range src.headers.Get(headerUserAgent) {
		if strings.Contains(agent, "grpc-go/") {
			return true
		}
	}
	return false
}

// faces are the names of blob faces; "" is the default.
var faces = map[string]schema.View{
	"":           schema.Materialized,
	"bytes":      schema.Materialized,
	"descriptor": schema.Descriptor,
	"logical":    schema.Logical,
}

func parseFace(from, name string) (schema.View, error) {
	v, ok := faces[name]
	if !ok {
		return v, fault.New(fault.Invalid, "%s is %s, it must be bytes, descriptor or logical", from, quote(name))
	}
	return v, nil
}

// faceName is the inverse of parseFace.
func faceName(v schema.View) string {
	switch v {
	case schema.Descriptor:
		return "descriptor"
	case schema.Logical:
		return "logical"
	default:
		return "bytes"
	}
}

// compressions are the ways to compress; "" is the default.
var compressions = map[string]wire.Compression{
	"":     wire.Uncompressed,
	"none": wire.Uncompressed,
	"lz4":  wire.LZ4,
	"zstd": wire.Zstd,
}

func parseCompression(from, name string) (wire.Compression, error) {
	c, ok := compressions[strings.ToLower(name)]
	if !ok {
		return c, fault.New(fault.Invalid, "%s is %s, it must be none, lz4 or zstd", from, quote(name))
	}
	return c, nil
}

func parseProfile(from, name string) (bi bool, err error) {
	switch name {
	case "":
		return false, nil
	case profileBI:
		return true, nil
	}
	return false, fault.New(fault.Invalid, "%s is %s, the only one is bi", from, quote(name))
}
