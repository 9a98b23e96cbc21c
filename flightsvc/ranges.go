package flightsvc

import (
	"context"
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/flightblob/flightblob/blob"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/materialize"
	"github.com/flightblob/flightblob/schema"
	"github.com/flightblob/flightblob/table"
)

// maxRanges bounds the ranges of one request.
const maxRanges = 1 << 18

// checkRanges finds the blob column that a range request is about.
func checkRanges(snap *table.Snapshot, t *Ticket) error {
	if len(t.Ranges) > maxRanges {
		return fault.New(fault.Invalid, "ticket: %d ranges are more than the %d of one request", len(t.Ranges), maxRanges)
	}
	columns, err := snap.Schema().Project([]string{t.Column})
	if err != nil {
		return err
	}
	if columns[0].Field.Blob == schema.NotBlob {
		return fault.New(fault.Invalid, "ticket: column %s is of type %s; ranges are read from blob columns only",
			quote(t.Column), columns[0].Field.Logical)
	}
	for i, r := range t.Ranges {
		if r.Row >= snap.Rows() {
			return noRow(snap, "ranges", i, r.Row)
		}
	}
	return nil
}

// noRow says that a position does not exist.
func noRow(snap *table.Snapshot, key string, entry int, row uint64) error {
	return fault.New(fault.Invalid, "ticket: %s, entry %d: row %d does not exist, version %d has %d rows",
		key, entry, row, snap.Version(), snap.Rows())
}

// openRanges starts reading parts of values: one row for each range, in order.
func (s *Server) openRanges(ctx context.Context, snap *table.Snapshot, t *Ticket, set settings) (array.RecordReader, error) {
	if err := checkRanges(snap, t); err != nil {
		return nil, err
	}
	requests, err := rangeRequests(ctx, snap, t)
	if err != nil {
		return nil, err
	}
	return materialize.Ranges(ctx, requests, snap.Resolver(), s.materializing(t, set, nil))
}

// rangeRequests reads the descriptors that the ranges are about.
func rangeRequests(ctx context.Context, snap *table.Snapshot, t *Ticket) ([]materialize.RangeRequest, error) {
	rows := make([]uint64, len(t.Ranges))
	for i, r := range t.Ranges {
		rows[i] = r.Row
	}
	scan, err := snap.Scan(ctx, table.ScanRequest{Columns: []string{t.Column}, Rows: rows})
	if err != nil {
		return nil, err
	}
	defer scan.Release()
	requests := make([]materialize.RangeRequest, 0, len(rows))
	for scan.Next() {
		column, err := blob.AsColumn(scan.RecordBatch().Column(0))
		if err != nil {
			return nil, err
		}
		owner := scan.Owners()[0]
		for i := range column.Len() {
			if len(requests) == len(t.Ranges) {
				return nil, fault.New(fault.Internal, "flightsvc: more rows than the %d asked for", len(rows))
			}
			r := t.Ranges[len(requests)]
			d, null, err := column.At(i)
			if err != nil {
				return nil, fmt.Errorf("flightsvc: column %s, row %d: %w", quote(t.Column), r.Row, err)
			}
			d.URI = strings.Clone(d.URI) // the batch is gone when it is used
			requests = append(requests, materialize.RangeRequest{
				Value: d, Null: null || owner == nil, Owner: owner,
				Offset: r.Offset, Length: r.Length, Field: t.Column, Row: int64(r.Row),
			})
		}
	}
	if err := scan.Err(); err != nil {
		return nil, err
	}
	if len(requests) != len(rows) {
		return nil, fault.New(fault.Internal, "flightsvc: %d rows where %d were asked for", len(requests), len(rows))
	}
	return requests, nil
}
