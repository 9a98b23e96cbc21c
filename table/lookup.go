package table

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"

	"golang.org/x/sync/errgroup"

	"github.com/flightblob/flightblob/datafile"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/schema"
	"github.com/flightblob/flightblob/table/index"
	"github.com/flightblob/flightblob/table/manifest"
	"github.com/flightblob/flightblob/table/rowset"
)

// Limits of what indexes are used for.
const (
	// candidateShare: a lookup must leave out all but one in so many of the rows
	// that an index knows; reading all of them in order is faster otherwise.
	candidateShare = 10
	// mostCandidates bounds the memory of a lookup.
	mostCandidates = 4 << 20
	// coveredShare: indexes must know at least one in so many rows of the table.
	coveredShare = 4
	// fewCandidates need no second index to become fewer.
	fewCandidates = 256
)

// Lookup tells what indexes said about a condition.
type Lookup struct {
	// Selection holds every row that can meet the condition; nil when indexes
	// are of no use for it.
	Selection *Selection
	// Used are the names of the indexes that were searched.
	Used []string
	// Failed tells why indexes that could have been of use were not: damage, a
	// version that is not known, what could not be read.
	Failed []error
}

// Indexed says that an index may be of use for conditions on some column.
func (s *Snapshot) Indexed() bool {
	return slices.ContainsFunc(s.Manifest().Indexes, func(x manifest.Index) bool { return x.Searchable() })
}

// IndexedBy says that an index may be of use for conditions on a field.
func (s *Snapshot) IndexedBy(f *schema.Field) bool {
	return slices.ContainsFunc(s.Manifest().Indexes, func(x manifest.Index) bool { return x.Searchable() && x.Fields[0] == f.ID })
}

// Lookup asks the indexes for the rows that can meet a condition. Rows of
// fragments that an index does not know are among them, deleted rows are not.
// An index that fails is told of and not used; only the end of ctx and damage of
// the table itself are errors.
func (s *Snapshot) Lookup(ctx context.Context, c index.Condition) (Lookup, error) {
	l := lookup{snapshot: s}
	if c == nil || !s.Indexed() {
		return l.Lookup, nil
	}
	found, err := l.condition(ctx, c)
	if err != nil || found == nil {
		return l.Lookup, err
	}
	if found.chosen > s.Rows()/candidateShare {
		return l.Lookup, nil
	}
	l.Selection, err = s.selection(ctx, found.rows)
	return l.Lookup, err
}

// lookup is one call of Lookup.
type lookup struct {
	Lookup
	snapshot *Snapshot
}

// answer is row addresses that hold every row that meets a condition. Nil means
// that nothing is known.
type answer struct {
	rows   index.Rows
	chosen uint64 // those of them that an index named
}

func (l *lookup) condition(ctx context.Context, c index.Condition) (*answer, error) {
	switch c := c.(type) {
	case index.Where:
		return l.where(ctx, c)
	case index.Every:
		return l.every(ctx, c)
	case index.Any:
		return l.any(ctx, c)
	}
	return nil, nil
}

// every intersects what the parts say; parts that say nothing do not matter.
// Once few rows are left the others are not asked.
func (l *lookup) every(ctx context.Context, parts index.Every) (*answer, error) {
	ordered := slices.Clone(parts)
	slices.SortStableFunc(ordered, func(a, b index.Condition) int { return cmp.Compare(effort(a), effort(b)) })
	var all *answer
	for _, p := range ordered {
		if all != nil && all.chosen <= fewCandidates {
			break
		}
		found, err := l.condition(ctx, p)
		if err != nil {
			return nil, err
		}
		switch {
		case found == nil:
		case all == nil:
			all = found
		default:
			all = &answer{all.rows.Intersect(found.rows), min(all.chosen, found.chosen)}
		}
	}
	return all, nil
}

// effort orders conditions by how many rows they are likely to leave.
func effort(c index.Condition) int {
	w, ok := c.(index.Where)
	if !ok {
		return 3
	}
	for _, i := range w.Test.Intervals() {
		if i.Low == nil || i.High == nil || i.Low.Compare(*i.High) != 0 {
			return 2
		}
	}
	if w.Test.Null() == index.True {
		return 1
	}
	return 0
}

func (l *lookup) any(ctx context.Context, parts index.Any) (*answer, error) {
	var all *answer
	for _, p := range parts {
		found, err := l.condition(ctx, p)
		if err != nil || found == nil {
			return nil, err
		}
		if all == nil {
			all = found
		} else {
			all = &answer{all.rows.Union(found.rows), all.chosen + found.chosen}
		}
	}
	return all, nil
}

// where searches one index over the field, all its segments; another one if that
// fails.
func (l *lookup) where(ctx context.Context, w index.Where) (*answer, error) {
	for _, segments := range l.snapshot.indexesOf(w.Field) {
		found, err := l.search(ctx, segments, w)
		switch {
		case err == nil:
			if !slices.Contains(l.Used, segments[0].Name) {
				l.Used = append(l.Used, segments[0].Name)
			}
			return found, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case errors.Is(err, index.ErrMany):
			return nil, nil
		}
		l.Failed = append(l.Failed, fmt.Errorf("table: index %q of %s: %w", segments[0].Name, l.snapshot.table.name, err))
	}
	return nil, nil
}

// indexesOf lists the indexes over a field with their segments, those first
// that know most fragments.
func (s *Snapshot) indexesOf(f *schema.Field) [][]*manifest.Index {
	byName := map[string]int{}
	var out [][]*manifest.Index
	all := s.Manifest().Indexes
	for i := range all {
		x := &all[i]
		if !x.Searchable() || x.Fields[0] != f.ID {
			continue
		}
		at, ok := byName[x.Name]
		if !ok {
			at = len(out)
			byName[x.Name] = at
			out = append(out, nil)
		}
		out[at] = append(out[at], x)
	}
	known := func(segments []*manifest.Index) (n uint64) {
		for _, f := range s.Manifest().Fragments {
			if slices.ContainsFunc(segments, func(x *manifest.Index) bool { return x.Fragments.Contains(uint32(f.ID)) }) {
				n += f.LiveRows()
			}
		}
		return n
	}
	if len(out) > 1 {
		slices.SortStableFunc(out, func(a, b []*manifest.Index) int { return cmp.Compare(known(b), known(a)) })
	}
	return out
}

// holdsIDs says that an index names rows by their stable ids.
func (s *Snapshot) holdsIDs(x *manifest.Index) bool {
	return s.Manifest().StableRowIDs() && x.NamesIDs()
}

// segment is an index, or one of its segments, as it is searched.
type segment struct {
	index *manifest.Index
	known []int // fragments by their place in the manifest
	open  searcher
}

// search gives the addresses of the rows that a test can be true of. What the
// segments do not know is among them.
func (l *lookup) search(ctx context.Context, list []*manifest.Index, w index.Where) (*answer, error) {
	s := l.snapshot
	fragments := s.Manifest().Fragments
	moved, err := s.moved(ctx)
	if err != nil {
		return nil, err
	}
	segments := make([]segment, 0, len(list))
	for _, x := range list {
		seg := segment{index: x, known: s.knownBy(x, moved)}
		if len(seg.known) == 0 {
			continue
		}
		if seg.open, err = s.openIndex(ctx, x, w.Field); err != nil {
			return nil, err
		}
		if err := s.verify(ctx, &seg, moved); err != nil {
			return nil, s.renamedIndex(ctx, x, err)
		}
		segments = append(segments, seg)
	}
	found := make([]bool, len(fragments))
	rows, deleted := uint64(0), uint64(0)
	for _, seg := range segments {
		for _, i := range seg.known {
			if !found[i] {
				found[i] = true
				rows += fragments[i].LiveRows()
				deleted += fragments[i].PhysicalRows - fragments[i].LiveRows()
			}
		}
	}
	if rows == 0 || rows < s.Rows()/coveredShare {
		return nil, index.ErrMany
	}
	most := min(rows/candidateShare, mostCandidates)
	var all index.Rows
	for _, seg := range segments {
		named, err := seg.open.Search(ctx, w.Test, most+deleted) // it may still name deleted rows
		if err == nil {
			named, err = s.placesOf(named, &seg, moved)
		}
		if err != nil {
			return nil, s.renamedIndex(ctx, seg.index, err)
		}
		all = all.Union(named)
	}
	if all.Count() > most+deleted {
		return nil, index.ErrMany
	}
	var rest []index.Range
	for i := range fragments {
		if !found[i] {
			rest = append(rest, wholeFragment(&fragments[i]))
		}
	}
	return &answer{all.Union(index.RowsOf(rest)), all.Count()}, nil
}

// knownBy lists the fragments that an index knows.
func (s *Snapshot) knownBy(x *manifest.Index, moved *moved) []int {
	var known []int
	covers := moved.coverage(x)
	for i := range s.Manifest().Fragments {
		f := &s.Manifest().Fragments[i]
		// Row ids in a hidden column would have to be read whole to find some.
		if covers.has(f.ID) && !(f.RowIDsInColumn && s.holdsIDs(x)) {
			known = append(known, i)
		}
	}
	return known
}

// placesOf turns what a segment names into addresses in the fragments it knows.
func (s *Snapshot) placesOf(named index.Rows, seg *segment, moved *moved) (index.Rows, error) {
	if s.holdsIDs(seg.index) {
		return s.addressesOf(named, seg.known)
	}
	return index.Moved(named, moved.moves).Intersect(addressesIn(s.Manifest().Fragments, seg.known)), nil
}

// addressesIn are those of all rows of some fragments.
func addressesIn(fragments []manifest.Fragment, which []int) index.Rows {
	ranges := make([]index.Range, len(which))
	for k, i := range which {
		ranges[k] = wholeFragment(&fragments[i])
	}
	return index.RowsOf(ranges)
}

// wholeFragment is the addresses of all rows of a fragment.
func wholeFragment(f *manifest.Fragment) index.Range {
	r := index.Range{Start: f.ID << 32, End: f.ID<<32 + f.PhysicalRows}
	if r.End < r.Start {
		r.End = math.MaxUint64
	}
	return r
}

// addressesOf finds the rows that have some of the stable ids in some fragments.
// An id may be in several, of which all but one have that row deleted.
func (s *Snapshot) addressesOf(ids index.Rows, fragments []int) (index.Rows, error) {
	wanted := make([]rowset.Range, len(ids.Ranges()))
	for i, r := range ids.Ranges() {
		wanted[i] = rowset.Range(r)
	}
	var out []index.Range
	for _, i := range fragments {
		seq, err := s.rowIDs(i)
		if err != nil {
			return index.Rows{}, err
		}
		base := s.Manifest().Fragments[i].ID << 32
		seq.Find(wanted, func(r rowset.Range) {
			out = append(out, index.Range{Start: base + r.Start, End: base + r.End})
		})
	}
	return index.RowsOf(out), nil
}

// rowIDs decodes the inline row ids of a fragment, once while the manifest is
// held. They share the memory of the manifest for the most part.
func (s *Snapshot) rowIDs(fragment int) (*rowset.IDs, error) {
	if ids, ok := s.loaded.rowIDs.Load(fragment); ok {
		return ids.(*rowset.IDs), nil
	}
	f := &s.Manifest().Fragments[fragment]
	ids, err := rowset.DecodeRowIDs(f.RowIDs, f.PhysicalRows)
	if err != nil {
		return nil, fmt.Errorf("row ids of fragment %d: %w", f.ID, err)
	}
	s.loaded.rowIDs.Store(fragment, ids)
	return ids, nil
}

// selection turns row addresses into positions; rows that are deleted, or in no
// fragment, have none.
func (s *Snapshot) selection(ctx context.Context, rows index.Rows) (*Selection, error) {
	fragments := s.Manifest().Fragments
	live := make([]*rowset.Deletions, len(fragments))
	parts := make([][]index.Range, len(fragments))
	for _, r := range rows.Ranges() {
		// Ranges of one fragment may have been joined with those of the next.
		i := sort.Search(len(fragments), func(i int) bool { return wholeFragment(&fragments[i]).End > r.Start })
		for ; i < len(fragments) && fragments[i].ID<<32 < r.End; i++ {
			all := wholeFragment(&fragments[i])
			parts[i] = append(parts[i], index.Range{Start: max(r.Start, all.Start) - all.Start, End: min(r.End, all.End) - all.Start})
		}
	}
	group, reading := errgroup.WithContext(ctx)
	group.SetLimit(fileReaders)
	for i := range fragments {
		f := &fragments[i]
		if len(parts[i]) == 0 || f.Deletion == nil || parts[i][0].End-parts[i][0].Start == f.PhysicalRows {
			continue
		}
		group.Go(func() (err error) {
			defer fault.Recover("table", &err)
			live[i], err = s.deletions(reading, f)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	out := &Selection{}
	for i := range fragments {
		f, first := &fragments[i], s.loaded.starts[i]
		for _, r := range parts[i] {
			switch {
			case r.End-r.Start == f.PhysicalRows:
				out.add(first, first+f.LiveRows())
			case live[i] == nil:
				out.add(first+r.Start, first+r.End)
			default:
				out.add(first+live[i].LiveBefore(r.Start), first+live[i].LiveBefore(r.End))
			}
		}
	}
	return out, nil
}

// searcher is an opened index of either kind.
type searcher interface {
	Search(ctx context.Context, test index.Test, most uint64) (index.Rows, error)
	Size() int64
}

// openIndex opens a segment of an index through the cache: files of indexes are
// never changed.
func (s *Snapshot) openIndex(ctx context.Context, x *manifest.Index, f *schema.Field) (searcher, error) {
	dir, err := s.indexPlace(ctx, x)
	if err != nil {
		return nil, err
	}
	if f.Storage == nil {
		return nil, fault.New(fault.Unsupported, "field %q is of type %s", f.Name, f.Logical)
	}
	key := fmt.Sprintf("%s %s %d %s", dir, x.Type, x.Version, f.Storage)
	found, err := s.table.env.indexes.get(ctx, key, func(ctx context.Context) (searcher, int64, error) {
		open := func(ctx context.Context, name string) (*datafile.Reader, error) {
			size := uint64(0)
			for _, listed := range x.Files {
				if listed.Path == name && listed.Size <= math.MaxInt64 {
					size = listed.Size
				}
			}
			return datafile.Open(ctx, dir.Join(name), int64(size), datafile.Options{Cache: s.table.env.pages, Describe: true})
		}
		var opened searcher
		var err error
		if x.Type == manifest.BitmapIndex {
			opened, err = index.OpenBitmap(ctx, open, x.Version, f.Storage)
		} else {
			opened, err = index.OpenBTree(ctx, open, x.Version, f.Storage)
		}
		if err != nil {
			return nil, 0, err
		}
		return opened, opened.Size(), nil
	})
	return found, s.renamedIndex(ctx, x, err)
}

// indexPlace finds the folder of an index (section 6.1).
func (s *Snapshot) indexPlace(ctx context.Context, x *manifest.Index) (objstore.Location, error) {
	base, isRoot, err := s.base(ctx, x.BaseID)
	if err != nil {
		return objstore.Location{}, err
	}
	if isRoot {
		base = base.Join(manifest.IndicesDir)
	}
	return base.Join(x.UUID), nil
}

// renamedIndex names the object of a corruption by its path inside the table.
func (s *Snapshot) renamedIndex(ctx context.Context, x *manifest.Index, err error) error {
	if err == nil || fault.KindOf(err) != fault.Corrupt {
		return err
	}
	dir, derr := s.indexPlace(ctx, x)
	if derr != nil {
		return err
	}
	return renamed(err, s.table.inside(dir))
}
