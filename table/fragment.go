package table

import (
	"context"
	"fmt"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"golang.org/x/sync/errgroup"

	"github.com/flightblob/flightblob/blob"
	"github.com/flightblob/flightblob/datafile"
	"github.com/flightblob/flightblob/encoding"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/schema"
	"github.com/flightblob/flightblob/table/manifest"
	"github.com/flightblob/flightblob/table/rowset"
)

// fragment is one fragment as a scan sees it: opened once, on first use, and
// then read in as many pieces as the scan cuts.
type fragment struct {
	reader *reader
	index  int // in the manifest
	meta   *manifest.Fragment

	once sync.Once
	err  error

	width   sync.Once
	between uint64 // see gap

	files  []fileColumns
	owners []*blob.Owner
	live   *rowset.Deletions
	added  addedColumns
}

// fileColumns is one data file and the leaves that are read from it.
type fileColumns struct {
	file   *datafile.Reader
	name   string // for messages
	leaves []datafile.Leaf
	slots  []int                            // index of each leaf in the projection's leaves
	stored func(rows encoding.Range) uint64 // estimated bytes of the leaves
}

// open finds the files of the wanted leaves and reads what deletions and row
// ids need. It runs once; later callers get its outcome.
func (f *fragment) open(ctx context.Context) error {
	f.once.Do(func() {
		if err := f.doOpen(ctx); err != nil {
			f.err = fmt.Errorf("table: fragment %d of %s: %w", f.meta.ID, f.reader.snapshot.table.name, err)
		}
	})
	return f.err
}

func (f *fragment) doOpen(ctx context.Context) (err error) {
	defer fault.Recover("table", &err)
	r := f.reader
	if len(r.plan.columns) == 0 { // rows are only counted, and the manifest did that
		f.live = rowset.None(f.meta.LiveRows())
		return nil
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(fileReaders)
	if f.live, err = r.snapshot.deletions(ctx, f.meta); err != nil {
		return err
	}
	defer func() { _ = group.Wait() }() // also when this function fails
	if err := f.openAdded(ctx, group); err != nil {
		return err
	}

	where := f.columnsByField()
	wanted := map[int]*fileColumns{}
	var order []int
	for slot, leaf := range r.plan.leaves {
		at, ok := f.source(leaf, where)
		if !ok {
			continue // no file holds it: all null
		}
		c := wanted[at.file]
		if c == nil {
			c = &fileColumns{}
			wanted[at.file] = c
			order = append(order, at.file)
		}
		c.leaves = append(c.leaves, f.leafColumns(leaf, at.file, where))
		c.slots = append(c.slots, slot)
	}
	f.files = make([]fileColumns, len(order))
	for i, file := range order {
		group.Go(func() (err error) {
			defer fault.Recover("table", &err)
			c := wanted[file]
			if c.file, c.name, err = r.snapshot.openFile(ctx, f.meta, &f.meta.Files[file]); err != nil {
				return err
			}
			if c.stored, err = c.file.Stored(c.leaves); err != nil {
				return renamed(err, c.name)
			}
			f.files[i] = *c
			return nil
		})
	}
	f.owners = make([]*blob.Owner, len(r.plan.blobs))
	for i, b := range r.plan.blobs {
		if at, ok := where[b.ID]; ok {
			if f.owners[i], err = r.snapshot.owner(ctx, &f.meta.Files[at.file]); err != nil {
				break
			}
		}
	}
	if opening := group.Wait(); err == nil {
		err = opening
	}
	return err
}

// fileReaders is how many files of a fragment are opened or read at once.
const fileReaders = 8

// place is where a field's column is in a fragment.
type place struct{ file, column int }

// columnsByField indexes the columns of a fragment's files. Negative ids are
// tombstones and hidden columns and name no field; ids that the schema no
// longer has do no harm here.
func (f *fragment) columnsByField() map[schema.FieldID]place {
	where := map[schema.FieldID]place{}
	for i := range f.meta.Files {
		file := &f.meta.Files[i]
		for j, id := range file.Fields {
			if id < 0 || j >= len(file.Columns) || file.Columns[j] < 0 {
				continue
			}
			if _, taken := where[id]; !taken {
				where[id] = place{i, int(file.Columns[j])}
			}
		}
	}
	return where
}

// source finds the file of a leaf: by its own id or, where files of format 2.0
// keep it in the rows of a field above, by that one's.
func (f *fragment) source(leaf *schema.Field, where map[schema.FieldID]place) (place, bool) {
	at, ok := where[leaf.ID]
	for p := leaf.Parent; p != nil && !ok; p = p.Parent {
		if at, ok = where[p.ID]; ok {
			ok = p.InRows20() && f.meta.Files[at.file].Format() == "2.0"
		}
	}
	return at, ok
}

// leafColumns names the physical columns of a leaf and of the fields above it
// in one file. From format 2.1 on only the leaf has one.
func (f *fragment) leafColumns(leaf *schema.Field, file int, where map[schema.FieldID]place) datafile.Leaf {
	l := datafile.Leaf{Path: leaf.Path(), Coded: f.reader.coded}
	if leaf.Blob == schema.BlobV2 && !holdsBlobV2(&f.meta.Files[file]) {
		l.Path[len(l.Path)-1] = asLegacy(leaf)
	}
	l.Columns = make([]int, len(l.Path))
	for i, field := range l.Path {
		l.Columns[i] = -1
		if at, ok := where[field.ID]; ok && at.file == file {
			l.Columns[i] = at.column
		}
	}
	if leaf.Packed {
		for _, c := range leaf.Children {
			if at, ok := where[c.ID]; ok && at.file == file {
				if l.Packed == nil {
					l.Packed = map[schema.FieldID]int{}
				}
				l.Packed[c.ID] = at.column
			}
		}
	}
	return l
}

// holdsBlobV2 says that a file is of format 2.2 or later, SCH-12.
func holdsBlobV2(d *manifest.DataFile) bool { return d.Major == 2 && d.Minor >= 2 }

// asLegacy is a Blob v2 field as the older files of a mixed snapshot hold it:
// a marked large_binary under the same id (LEG-5).
func asLegacy(f *schema.Field) *schema.Field {
	return &schema.Field{
		ID: f.ID, Name: f.Name, Logical: "large_binary", Nullable: f.Nullable,
		Metadata: map[string]string{schema.KeyBlob: "true"},
		Shape:    schema.Leaf, Blob: schema.LegacyBlob, Parent: f.Parent, Storage: schema.DescriptorType,
	}
}

// fileKey identifies an open data file: published ones never change, and what
// the manifest says about them is checked when they are opened.
type fileKey struct {
	uri  string
	size uint64
	rows uint64
}

// openFile opens a data file through the cache and checks that it is the one
// that the manifest describes.
func (s *Snapshot) openFile(ctx context.Context, f *manifest.Fragment, d *manifest.DataFile) (*datafile.Reader, string, error) {
	at, _, _, err := s.place(ctx, d)
	if err != nil {
		return nil, "", err
	}
	if d.IsFormat01() {
		return nil, "", fault.New(fault.Unsupported,
			"data file %s has format 0.1, which this program cannot read; rewrite the table with a current Lance", d.Path)
	}
	name := s.table.inside(at)
	key := fileKey{at.String(), d.Size, f.PhysicalRows}
	r, err := s.table.env.files.get(ctx, key, func(ctx context.Context) (*datafile.Reader, int64, error) {
		r, err := datafile.Open(ctx, at, int64(d.Size), datafile.Options{Rows: f.PhysicalRows, Cache: s.table.env.pages})
		if err != nil {
			return nil, 0, err
		}
		return r, r.Size(), nil
	})
	if err != nil {
		return nil, "", fmt.Errorf("data file %s: %w", d.Path, s.lost(ctx, renamed(err, name)))
	}
	want := encoding.Version{Major: uint16(d.Major), Minor: uint16(d.Minor)}
	if d.Major == 0 {
		want = encoding.V2_0 // (0,3) is the old way to say 2.0
	}
	if got := r.Version(); got != want {
		return nil, "", fault.In(name, fault.Corruptf(-1, "the file has format %d.%d, the manifest says %d.%d",
			got.Major, got.Minor, want.Major, want.Minor))
	}
	return r, name, nil
}

// renamed names the object of a corruption by its path inside the table, in
// place of the full one that the file's reader knows.
func renamed(err error, name string) error {
	if e, ok := err.(*fault.Error); ok && e.Kind == fault.Corrupt { //nolint:errorlint // only the outermost can be renamed
		inside := *e
		inside.Object = name
		return &inside
	}
	return err
}

// advisable is how many of n live rows from a place on should be read at once,
// at least one: what their pages say may be far more than what rows before them
// took.
func (f *fragment) advisable(from, n uint64) (uint64, error) {
	for n > 1 {
		first, _ := f.live.Select(from)
		last, ok := f.live.Select(from + n - 1)
		if !ok {
			return 0, fault.New(fault.Internal, "table: fragment %d has no live row %d", f.meta.ID, from+n-1)
		}
		stored := f.stored(encoding.Range{Start: first, End: last + 1})
		limit := 2 * uint64(f.reader.maxBytes)
		if stored <= limit {
			break
		}
		n = max(1, min(n/2, uint64(float64(n)*float64(limit)/float64(stored))))
	}
	return n, nil
}

// take cuts ranges of positions from the front of a list: rows of this fragment,
// whose positions are [start, end), at most so many, and no more than should be
// read at once. Ranges with a gap between them that is read faster than passed
// over become one.
func (f *fragment) take(from []positionRange, start, end, rows uint64) ([]positionRange, error) {
	var taken []positionRange
	bytes, gap, limit := uint64(0), f.gap(), 2*uint64(f.reader.maxBytes)
	for i := 0; i < len(from) && from[i].start < end && rows > 0; {
		part := positionRange{from[i].start, min(from[i].end, end, from[i].start+rows)}
		whole := part.end == from[i].end
		for i++; whole && i < len(from) && from[i].start < end && from[i].start-part.end <= gap && from[i].start-part.start < rows; i++ {
			part.end = min(from[i].end, end, part.start+rows)
			whole = part.end == from[i].end
		}
		first, ok := f.live.Select(part.start - start)
		last, ok2 := f.live.Select(part.end - 1 - start)
		if !ok || !ok2 {
			return nil, fault.New(fault.Internal, "table: fragment %d has no live rows [%d, %d)", f.meta.ID, part.start-start, part.end-start)
		}
		stored := f.stored(encoding.Range{Start: first, End: last + 1})
		if len(taken) > 0 && bytes+stored > limit {
			break
		}
		if stored > limit { // of the first one
			n, err := f.advisable(part.start-start, part.len())
			if err != nil {
				return nil, err
			}
			whole = whole && n == part.len()
			part.end = part.start + n
		}
		taken = append(taken, part)
		if !whole {
			break
		}
		bytes += stored
		rows -= part.len()
	}
	return taken, nil
}

// About what it takes to read, in nanoseconds.
const (
	rangeCost = 2000 // a range of rows of its own
	rowCost   = 16   // a row beside others
	byteCost  = 3    // a stored byte, which may stand for several
)

// gap is how many rows between two ranges are read with them.
func (f *fragment) gap() uint64 {
	f.width.Do(func() {
		bytes := f.stored(encoding.Range{End: f.meta.PhysicalRows}) / max(f.meta.PhysicalRows, 1)
		f.between = rangeCost / (rowCost + bytes*byteCost)
	})
	return f.between
}

// stored estimates the bytes that physical rows take in the files.
func (f *fragment) stored(rows encoding.Range) uint64 {
	sum := uint64(0)
	for i := range f.files {
		sum += f.files[i].stored(rows)
	}
	return sum
}

// read answers the columns of physical row ranges, ascending and disjoint, that
// hold that many rows.
func (f *fragment) read(ctx context.Context, ranges []encoding.Range, rows int) ([]arrow.Array, error) {
	plan := f.reader.plan
	leaves := make([]*encoding.Leaf, len(plan.leaves))
	added := map[string]arrow.Array{}
	group, reading := errgroup.WithContext(ctx)
	group.SetLimit(fileReaders)
	for i := range f.files {
		c := &f.files[i]
		group.Go(func() (err error) {
			defer fault.Recover("table", &err)
			got, err := c.file.ReadLeaves(reading, c.leaves, ranges)
			if err != nil { // files that were opened before may be gone since
				return renamed(f.reader.snapshot.lost(reading, err), c.name)
			}
			for j, slot := range c.slots {
				leaves[slot] = got[j]
			}
			return nil
		})
	}
	if len(plan.added) > 0 {
		group.Go(func() (err error) {
			defer fault.Recover("table", &err)
			added, err = f.readAdded(reading, ranges, rows)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, fmt.Errorf("table: fragment %d of %s: %w", f.meta.ID, f.reader.snapshot.table.name, err)
	}
	columns := make([]arrow.Array, len(plan.columns))
	for i, c := range plan.columns {
		if c.Field == nil {
			columns[i] = added[c.added]
			continue
		}
		a, err := f.assemble(i, c.Field, leaves, rows)
		if err != nil {
			return nil, fmt.Errorf("table: fragment %d of %s: column %q: %w", f.meta.ID, f.reader.snapshot.table.name, c.Name, err)
		}
		columns[i] = a
	}
	return columns, nil
}
