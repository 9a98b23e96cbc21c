package table

import (
	"context"
	"errors"
	"fmt"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/table/index"
	"github.com/flightblob/flightblob/table/manifest"
)

// A compaction that leaves indexes as they are notes where it moved rows (sheet
// section 7.4). Until they are rewritten, such indexes name the old addresses,
// whatever fragments the manifest says they know: later commits of the reference
// put the new fragments there.

// moved is what compactions moved since some index of a version was written.
type moved struct {
	groups []manifest.Move
	moves  []index.Move
}

// maxMovedBytes bounds the notes of a version.
const maxMovedBytes = 16 << 20

// moved reads the notes of the version, once.
func (s *Snapshot) moved(ctx context.Context) (*moved, error) {
	if m := s.loaded.moved.Load(); m != nil {
		return m, nil
	}
	if len(s.Manifest().Indexes) != s.Manifest().IndexCount {
		return nil, fault.New(fault.Unsupported, "an entry of the index section cannot be read; it may tell where rows were moved")
	}
	if s.Manifest().ReaderFlags.Has(manifest.FlagTaggedReuse) {
		return nil, fault.New(fault.Unsupported, "the table notes where rows were moved in a way that is not known here")
	}
	m := &moved{}
	for i := range s.Manifest().Indexes {
		x := &s.Manifest().Indexes[i]
		if x.Name != manifest.FragmentReuse {
			continue
		}
		if s.Manifest().StableRowIDs() {
			return nil, fault.New(fault.Unsupported, "rows with stable ids were moved without their indexes")
		}
		groups, err := s.readMoves(ctx, x)
		if err != nil {
			return nil, fmt.Errorf("where compactions moved rows: %w", err)
		}
		m.groups = append(m.groups, groups...)
	}
	for i := range m.groups {
		m.moves = append(m.moves, moveOf(&m.groups[i]))
	}
	s.loaded.moved.Store(m)
	return m, nil
}

func (s *Snapshot) readMoves(ctx context.Context, x *manifest.Index) ([]manifest.Move, error) {
	if x.Type != "FragmentReuse" {
		return nil, fault.New(fault.Unsupported, "%s is of type %q", x.Name, x.Type)
	}
	r, err := manifest.DecodeReuse(x.Details)
	if err != nil || r.File == nil {
		return r.Moves, err
	}
	if r.File.Size > maxMovedBytes || r.File.Offset > 1<<62 {
		return nil, fault.New(fault.Unsupported, "%s has %d bytes", r.File.Path, r.File.Size)
	}
	dir, err := s.indexPlace(ctx, x)
	if err != nil {
		return nil, err
	}
	at := dir.Join(r.File.Path)
	data := make([]byte, r.File.Size)
	if err := at.ReadAt(ctx, data, int64(r.File.Offset)); err != nil {
		return nil, err
	}
	moves, err := manifest.DecodeMoves(data)
	if err != nil {
		return nil, fault.In(s.table.inside(at), err)
	}
	return moves, nil
}

// moveOf turns a group of fragments into addresses.
func moveOf(g *manifest.Move) index.Move {
	m := index.Move{}
	var gone []index.Range
	for _, f := range g.Old {
		gone = append(gone, addressesOfMoved(f))
	}
	m.Gone = index.RowsOf(gone)
	for _, r := range g.Rows {
		m.From = append(m.From, index.Range(r))
	}
	for _, f := range g.New {
		m.To = append(m.To, addressesOfMoved(f))
	}
	return m
}

func addressesOfMoved(f manifest.MovedFragment) index.Range {
	return wholeFragment(&manifest.Fragment{ID: f.ID, PhysicalRows: f.PhysicalRows})
}

// coverage is the fragments that an index knows, after moves.
type coverage struct {
	index *manifest.Index
	other map[uint64]bool // where it differs from what the manifest says
}

func (c coverage) has(fragment uint64) bool {
	if known, ok := c.other[fragment]; ok {
		return known
	}
	return c.index.Fragments.Contains(uint32(fragment))
}

// coverage follows the fragments of an index: fragments that all of a group's
// rows came from are known, if all of those were.
func (m *moved) coverage(x *manifest.Index) coverage {
	c := coverage{index: x, other: map[uint64]bool{}}
	for _, g := range m.groups {
		all := len(g.Old) > 0
		for _, f := range g.Old {
			all = all && c.has(f.ID)
			c.other[f.ID] = false
		}
		for _, f := range g.New {
			if all {
				c.other[f.ID] = true
			}
		}
	}
	return c
}

// verifiedEntries is how many rows an index may have that is verified.
const verifiedEntries = 4 << 20

// verify takes fragments away from what a segment knows unless it names all their
// rows. It does so only in versions that note moved rows: there the reference's
// own rewriting of indexes has lost rows, and said that it knows the fragment.
func (s *Snapshot) verify(ctx context.Context, seg *segment, m *moved) error {
	if len(m.groups) == 0 {
		return nil
	}
	key := seg.index.UUID
	if known, ok := s.loaded.verified.Load(key); ok {
		seg.known = known.([]int)
		return nil
	}
	all, err := seg.open.Search(ctx, index.NewTest(index.True, index.Interval{}), verifiedEntries)
	if errors.Is(err, index.ErrMany) {
		return fault.New(fault.Unsupported, "rows were moved, and more than %d rows are too many to see whether the index knows", verifiedEntries)
	}
	if err == nil {
		all, err = s.placesOf(all, seg, m)
	}
	if err != nil {
		return err
	}
	var known []int
	for _, i := range seg.known {
		f := &s.Manifest().Fragments[i]
		live, err := s.deletions(ctx, f)
		if err != nil {
			return err
		}
		whole := wholeFragment(f)
		complete := true
		for _, r := range index.RowsOf([]index.Range{whole}).Without(all).Ranges() {
			complete = complete && live.LiveBefore(r.Start-whole.Start) == live.LiveBefore(r.End-whole.Start)
		}
		if complete {
			known = append(known, i)
		}
	}
	s.loaded.verified.Store(key, known)
	seg.known = known
	return nil
}
