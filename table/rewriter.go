package table

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/google/uuid"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/table/manifest"
	"github.com/flightblob/flightblob/table/rowset"
)

// Rewriter stores the rows of neighbouring fragments of one version again, in
// their order and without the deleted ones, and publishes the new fragments in
// the place of the old ones (table-format sheet section 7.4). Write groups with
// Group, then call exactly one of Commit and Abort. One goroutine at a time.
//
// Values of blob columns are carried by their references (RWR-2): the placer
// decides what moves. Memory is that of a Scan and an Appender, and with stable
// row ids 24 bytes for each row of a new fragment.
//
// The old fragments must stay protected until the commit is done (GC-3). Those
// of groups that are published were in every version until then, since what is
// gone from the newest one is not replaced; Table.Lease protects the others from
// vanishing while they are read.
type Rewriter struct {
	base    *Snapshot
	options RewriteOptions
	groups  []*groupWriter

	finished  bool
	uncertain bool
}

// RewriteOptions say how the new fragments are stored. They go to the table's
// own folder (RWR-6).
type RewriteOptions struct {
	// FileVersion is the format of the data files, "2.2" or "2.3"; empty is that
	// of the table.
	FileVersion string
	// RowsPerFile and BytesPerFile end a data file; 0 means DefaultRowsPerFile and
	// DefaultBytesPerFile.
	RowsPerFile  uint64
	BytesPerFile int64
	// Message is stored with the transaction.
	Message string
}

// RewrittenGroup is what became of one group.
type RewrittenGroup struct{ Old, New []manifest.Fragment }

// Rewritten is the outcome of Rewriter.Commit.
type Rewritten struct {
	Snapshot *Snapshot // the version that has the new fragments
	Groups   []RewrittenGroup
	// Lost are the groups of which others changed or removed a fragment
	// meanwhile: they are as those others left them.
	Lost []RewrittenGroup
}

// groupWriter is one group on its way.
type groupWriter struct {
	old   []manifest.Fragment
	files *Appender // nil when no row was left
	added []manifest.Fragment
}

// Rewrite begins to rewrite fragments of this version. It is fault.Unsupported
// where rows must not be moved, and fault.Precondition for a format that is not
// written.
func (s *Snapshot) Rewrite(o RewriteOptions) (*Rewriter, error) {
	m := s.Manifest()
	if err := m.CheckWritable(); err != nil {
		return nil, fmt.Errorf("table: %s: %w", s.table.name, err)
	}
	if err := m.CheckMovable(); err != nil {
		return nil, fmt.Errorf("table: %s: %w", s.table.name, err)
	}
	if o.FileVersion == "" {
		o.FileVersion = m.DataFormat
	}
	if _, ok := writable[o.FileVersion]; !ok {
		return nil, fault.New(fault.Precondition, "table: the data files of %s would be rewritten in format %s; this program writes 2.2 and 2.3: name one as data_storage_version, the table then holds files of both formats and blob columns become Blob v2 (LEG-10)",
			s.table.name, o.FileVersion)
	}
	return &Rewriter{base: s, options: o}, nil
}

// Base is the version whose fragments are rewritten.
func (r *Rewriter) Base() *Snapshot { return r.base }

// Group stores the rows of n fragments anew, those from place first on in the
// list of the manifest. progress is told how many rows were stored since it was
// called last; nil for nobody. After an error only Abort is left.
func (r *Rewriter) Group(ctx context.Context, first, n int, progress func(rows uint64)) error {
	fragments := r.base.Manifest().Fragments
	if first < 0 || n < 1 || first+n > len(fragments) {
		return fault.New(fault.Internal, "table: %d fragments from place %d on of %d", n, first, len(fragments))
	}
	g := &groupWriter{old: fragments[first : first+n]}
	r.groups = append(r.groups, g)
	start, rows := r.base.loaded.starts[first], r.base.loaded.starts[first+n]-r.base.loaded.starts[first]
	if rows == 0 {
		return nil
	}
	if err := r.copyRows(ctx, g, start, rows, progress); err != nil {
		return err
	}
	for _, done := range g.files.done {
		f := done.fragment
		if r.base.Manifest().StableRowIDs() {
			if err := r.nameRows(ctx, &f, start); err != nil {
				return err
			}
		}
		start += f.PhysicalRows
		g.added = append(g.added, f)
	}
	return nil
}

// copyRows writes the live rows [start, start+rows) of the version.
func (r *Rewriter) copyRows(ctx context.Context, g *groupWriter, start, rows uint64, progress func(rows uint64)) error {
	scan, err := r.base.Scan(ctx, ScanRequest{Offset: start, Limit: &rows})
	if err != nil {
		return err
	}
	defer scan.Release()
	carrier := r.base.Carry()
	for scan.Next() {
		if err := r.copyBatch(ctx, g, carrier, scan); err != nil {
			return err
		}
		if progress != nil {
			progress(uint64(scan.RecordBatch().NumRows()))
		}
	}
	if err := scan.Err(); err != nil {
		return err
	}
	if err := g.files.endFragment(ctx); err != nil {
		return err
	}
	if g.files.rows != rows {
		return fault.New(fault.Internal, "table: %d rows were written of %d", g.files.rows, rows)
	}
	return nil
}

func (r *Rewriter) copyBatch(ctx context.Context, g *groupWriter, carrier *Carrier, scan *Scan) error {
	batch, err := carrier.Batch(scan)
	if err != nil {
		return err
	}
	defer batch.Release()
	if g.files == nil {
		g.files, err = r.base.Append(ctx, batch.Schema(), WriteOptions{
			FileVersion: r.options.FileVersion, RowsPerFile: r.options.RowsPerFile, BytesPerFile: r.options.BytesPerFile,
			Origins: carrier.Origins,
		})
		if err != nil {
			return err
		}
	}
	return g.files.Write(ctx, batch)
}

// nameRows gives a new fragment the row ids and the lineage of its rows, which
// begin at a place in scan order (sections 5.3, 5.4).
func (r *Rewriter) nameRows(ctx context.Context, f *manifest.Fragment, start uint64) error {
	scan, err := r.base.Scan(ctx, ScanRequest{Columns: []string{RowID, CreatedAt, UpdatedAt}, Offset: start, Limit: &f.PhysicalRows})
	if err != nil {
		return err
	}
	defer scan.Release()
	var values [3][]uint64
	for scan.Next() {
		for i := range values {
			column, ok := scan.RecordBatch().Column(i).(*array.Uint64)
			if !ok || column.NullN() > 0 {
				return fault.New(fault.Internal, "table: column %q comes as %s", scan.Schema().Field(i).Name, scan.RecordBatch().Column(i).DataType())
			}
			values[i] = append(values[i], column.Uint64Values()...)
		}
	}
	if err := scan.Err(); err != nil {
		return err
	}
	f.RowIDs = rowset.RunsOf(values[0]).Encode()
	f.CreatedAt = rowset.VersionsOf(values[1]).Encode()
	f.UpdatedAt = rowset.VersionsOf(values[2]).Encode()
	return nil
}

// Commit reserves ids for the new fragments, as a version of its own, and
// publishes all groups as one version. Groups that others have touched
// meanwhile are left out; when that is all of them, the error is fault.Conflict.
// Without groups nothing is published. A failed Commit leaves the rows of the
// table where they were and removes what was stored; see Table.Commit for the
// one exception.
func (r *Rewriter) Commit(ctx context.Context) (*Rewritten, error) {
	if r.finished {
		return nil, fault.New(fault.Internal, "table: the rewriting of %s was committed or aborted already", r.base.table.name)
	}
	defer r.Abort()
	if len(r.groups) == 0 {
		return &Rewritten{Snapshot: r.base}, nil
	}
	newest, err := r.base.table.At(ctx, Ref{Branch: r.base.branch})
	if err != nil {
		return nil, err
	}
	kept := intact(newest, r.groups)
	if len(kept) == 0 {
		return nil, r.lost("versions since changed or removed fragments of it")
	}
	if err := r.reserve(ctx, kept); err != nil {
		return nil, err
	}
	tx := &manifest.Transaction{ReadVersion: r.base.Version(), UUID: uuid.NewString(), Op: rewriteOf(kept)}
	if r.options.Message != "" {
		tx.Properties = map[string]string{manifest.KeyCommitMessage: r.options.Message}
	}
	snapshot, err := r.base.table.Commit(ctx, r.base.branch, tx, CommitOptions{
		Rebase: func(_ context.Context, newest *Snapshot, v manifest.Verdict) (*manifest.Transaction, error) {
			if kept = intact(newest, kept); len(kept) == 0 {
				return nil, r.lost(v.Reason)
			}
			again := *tx
			again.ReadVersion, again.Op = newest.Version(), rewriteOf(kept)
			return &again, nil
		},
	})
	if err != nil {
		r.uncertain = errors.Is(err, objstore.ErrUncertain) || snapshot != nil
		return nil, err
	}
	out := &Rewritten{Snapshot: snapshot}
	for _, g := range r.groups {
		if !slices.Contains(kept, g) {
			out.Lost = append(out.Lost, RewrittenGroup{Old: g.old, New: g.added})
			continue // Abort removes its files
		}
		out.Groups = append(out.Groups, RewrittenGroup{Old: g.old, New: g.added})
		if g.files != nil {
			g.files.finished = true
		}
	}
	return out, nil
}

func (r *Rewriter) lost(reason string) error {
	return fault.New(fault.Conflict, "table: all that was rewritten of version %d of %s was changed meanwhile: %s; run it again", r.base.Version(), r.base.table.name, reason)
}

// intact are the groups whose fragments are in a version what they were when
// they were rewritten.
func intact(in *Snapshot, groups []*groupWriter) []*groupWriter {
	var kept []*groupWriter
	for _, g := range groups {
		if in.Manifest().HasSame(g.old) {
			kept = append(kept, g)
		}
	}
	return kept
}

func rewriteOf(groups []*groupWriter) *manifest.Rewrite {
	op := &manifest.Rewrite{}
	for _, g := range groups {
		op.Groups = append(op.Groups, manifest.RewriteGroup{Old: g.old, New: g.added})
	}
	return op
}

// reserve takes ids for the fragments of groups.
func (r *Rewriter) reserve(ctx context.Context, groups []*groupWriter) error {
	count := uint32(0)
	for _, g := range groups {
		count += uint32(len(g.added))
	}
	if count == 0 {
		return nil
	}
	tx := &manifest.Transaction{ReadVersion: r.base.Version(), UUID: uuid.NewString(), Op: &manifest.ReserveFragments{Count: count}}
	reserved, err := r.base.table.Commit(ctx, r.base.branch, tx, CommitOptions{})
	if err != nil {
		return err
	}
	id := uint64(*reserved.Manifest().MaxFragmentID) - uint64(count) + 1
	for _, g := range groups {
		for i := range g.added {
			g.added[i].ID = id
			id++
		}
	}
	return nil
}

// Abort ends the rewriting and removes what it stored, as far as that can be
// told; after a Commit, what groups left behind that it did not publish.
func (r *Rewriter) Abort() {
	r.finished = true
	for _, g := range r.groups {
		if g.files != nil {
			g.files.uncertain = r.uncertain
			g.files.Abort()
		}
	}
}
