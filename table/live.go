package table

import (
	"context"
	"fmt"

	"github.com/flightblob/flightblob/encoding"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/table/manifest"
	"github.com/flightblob/flightblob/table/rowset"
)

// maxDeletionBytes bounds a deletion file: a fragment's 2^32 rows as a bitmap.
const maxDeletionBytes = 1<<29 + 1<<20

// deletions reads the deletion vector of a fragment, through the cache.
// Deletion files have random names and are never changed.
func (s *Snapshot) deletions(ctx context.Context, f *manifest.Fragment) (*rowset.Deletions, error) {
	if f.Deletion == nil {
		return rowset.None(f.PhysicalRows), nil
	}
	at, err := s.deletionPlace(ctx, f)
	if err != nil {
		return nil, err
	}
	d, err := s.table.env.deletions.get(ctx, at.String(), func(ctx context.Context) (*rowset.Deletions, int64, error) {
		data, err := objstore.ReadAll(ctx, at, maxDeletionBytes)
		if err != nil {
			return nil, 0, err
		}
		d, err := rowset.DecodeDeletions(data, f.Deletion.Bitmap, f.PhysicalRows)
		return d, int64(len(data)) + 64, err
	})
	if err != nil {
		return nil, fmt.Errorf("deletion file: %w", fault.In(s.table.inside(at), s.lost(ctx, err)))
	}
	if d.Count() != f.Deletion.Rows || d.Rows() != f.PhysicalRows {
		return nil, fault.In(s.table.inside(at), fault.Corruptf(-1, "the file deletes %d of %d rows, the manifest says %d of %d",
			d.Count(), d.Rows(), f.Deletion.Rows, f.PhysicalRows))
	}
	return d, nil
}

// lost explains the absence of a file that the snapshot names: either the
// version was cleaned up meanwhile, which is fault.NotFound and names the oldest
// that exists, or the table is damaged.
func (s *Snapshot) lost(ctx context.Context, err error) error {
	if fault.KindOf(err) != fault.NotFound {
		return err
	}
	if gone := s.Removed(ctx); gone != nil {
		return gone
	}
	return &fault.Error{Kind: fault.Corrupt, Offset: -1, Text: "the file is missing", Err: err}
}

// Removed is fault.NotFound, naming the oldest version that exists, when somebody
// has removed this one since it was opened, else nil: what it names may be gone then.
func (s *Snapshot) Removed(ctx context.Context) error {
	if _, err := s.table.version(ctx, s.root, s.branch, s.Version()); err != nil && fault.KindOf(err) == fault.NotFound {
		return err
	}
	return nil
}

// liveRanges gives the physical ranges of live rows [from, to).
func liveRanges(d *rowset.Deletions, from, to uint64) []encoding.Range {
	var ranges []encoding.Range
	for r := range d.LiveRanges(from, to) {
		ranges = append(ranges, encoding.Range(r))
	}
	return ranges
}

// pickRanges gives the physical ranges of single live rows, which must ascend
// without duplicates.
func pickRanges(d *rowset.Deletions, live []uint64) ([]encoding.Range, error) {
	var ranges []encoding.Range
	for _, row := range live {
		at, ok := d.Select(row)
		if !ok {
			return nil, fault.New(fault.Internal, "table: live row %d is past the %d of its fragment", row, d.Live())
		}
		if n := len(ranges); n > 0 && ranges[n-1].End == at {
			ranges[n-1].End++
			continue
		}
		ranges = append(ranges, encoding.Range{Start: at, End: at + 1})
	}
	return ranges, nil
}
