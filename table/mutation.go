package table

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/google/uuid"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/schema"
	"github.com/flightblob/flightblob/table/manifest"
	"github.com/flightblob/flightblob/table/rowset"
)

// Mutation removes rows of one version and may write others, those that come in
// the place of removed ones and new ones: DELETE, UPDATE and MERGE. All of it
// becomes one version. Use Remove, RemoveAll and the appenders in any order,
// then exactly one of Commit and Abort. One goroutine at a time.
//
// Memory is a bit for each row of the pages of 65536 rows that lose one, and
// with stable row ids 8 bytes for each row that is replaced.
//
// Beside other commits rows count one by one: two mutations of the same fragment
// both come through when no row is common to them. Otherwise the later one is
// fault.Conflict and nothing of it is seen (table-format sheet section 4.4).
type Mutation struct {
	base      *Snapshot
	fragments map[uint64]int // places in the manifest by fragment id
	marks     map[int]*rowset.Marks
	all       bool
	removed   uint64
	deleted   map[int]*rowset.Marks // those of Delete, which nothing comes in the place of
	gone      uint64                // how many these are

	written []*writtenRows
	carrier *Carrier

	stored    []objstore.Location // deletion files of the current attempt
	finished  bool
	uncertain bool
}

// writtenRows are those of one schema, either moved or new ones.
type writtenRows struct {
	moved  bool
	input  *arrow.Schema
	writer *Appender
	ids    []uint64 // of moved rows, in order; with stable row ids only
}

// Mutate begins a mutation of the newest version of a branch ("" = main).
func (t *Table) Mutate(ctx context.Context, branch string) (*Mutation, error) {
	base, err := t.At(ctx, Ref{Branch: branch})
	if err != nil {
		return nil, err
	}
	return base.Mutate()
}

// Mutate begins a mutation of this version. What was committed after it is
// judged when the mutation is.
func (s *Snapshot) Mutate() (*Mutation, error) {
	if err := s.Manifest().CheckWritable(); err != nil {
		return nil, fmt.Errorf("table: %s: %w", s.table.name, err)
	}
	return &Mutation{base: s, fragments: placesOf(s), marks: map[int]*rowset.Marks{}}, nil
}

// placesOf are the places of fragments in a manifest, by their ids.
func placesOf(s *Snapshot) map[uint64]int {
	places := make(map[uint64]int, len(s.Manifest().Fragments))
	for i := range s.Manifest().Fragments {
		places[s.Manifest().Fragments[i].ID] = i
	}
	return places
}

// Base is the version that the rows are removed from.
func (m *Mutation) Base() *Snapshot { return m.base }

// Remove removes the rows at these addresses (RowAddr of a scan of Base) and
// answers the places in the list of those that no earlier call removed, each row
// once.
func (m *Mutation) Remove(addresses []uint64) ([]int, error) {
	var fresh []int
	for place, a := range addresses {
		i, ok := m.fragments[a>>32]
		offset := a & (1<<32 - 1)
		if !ok || offset >= m.base.Manifest().Fragments[i].PhysicalRows {
			return fresh, m.noRow(a)
		}
		marks := m.marks[i]
		if marks == nil {
			marks = &rowset.Marks{}
			m.marks[i] = marks
		}
		if marks.Add(offset) {
			fresh = append(fresh, place)
		}
	}
	m.removed += uint64(len(fresh))
	return fresh, nil
}

// Positions gives the places in scan order, for ScanRequest.Rows, of the rows at
// addresses, which must be live.
func (m *Mutation) Positions(ctx context.Context, addresses []uint64) ([]uint64, error) {
	out := make([]uint64, len(addresses))
	for i, a := range addresses {
		at, ok := m.fragments[a>>32]
		if !ok {
			return nil, m.noRow(a)
		}
		live, err := m.base.deletions(ctx, &m.base.Manifest().Fragments[at])
		if err != nil {
			return nil, err
		}
		out[i] = m.base.loaded.starts[at] + live.LiveBefore(a&(1<<32-1))
	}
	return out, nil
}

// Carry is the carrier for all rows of Base that Replace gets: appenders take
// the options of the first batch of a schema, so that one Origins must know what
// every later batch refers to.
func (m *Mutation) Carry() *Carrier {
	if m.carrier == nil {
		m.carrier = m.base.Carry()
	}
	return m.carrier
}

func (m *Mutation) noRow(address uint64) error {
	return fault.New(fault.Internal, "table: version %d of %s has no row at address %d", m.base.Version(), m.base.table.name, address)
}

// RemoveAll removes every row, and reads nothing.
func (m *Mutation) RemoveAll() {
	m.all, m.removed = true, m.base.Rows()
}

// Removed is how many rows are removed so far.
func (m *Mutation) Removed() uint64 { return m.removed }

// Replace writes rows that come in the place of removed ones, whose row ids
// (RowID of a scan of Base) they keep where ids are stable. Batches are as those
// for Append; the options of the first one of a schema count.
func (m *Mutation) Replace(ctx context.Context, batch arrow.RecordBatch, ids []uint64, o WriteOptions) error {
	if len(ids) != int(batch.NumRows()) {
		return fault.New(fault.Internal, "table: %d row ids for %d rows", len(ids), batch.NumRows())
	}
	w, err := m.writer(ctx, true, batch.Schema(), o)
	if err != nil {
		return err
	}
	if err := w.writer.Write(ctx, batch); err != nil {
		return err
	}
	if m.base.Manifest().StableRowIDs() {
		w.ids = append(w.ids, ids...)
	}
	return nil
}

// Insert writes new rows. Batches are as those for Append; the options of the
// first one of a schema count.
func (m *Mutation) Insert(ctx context.Context, batch arrow.RecordBatch, o WriteOptions) error {
	w, err := m.writer(ctx, false, batch.Schema(), o)
	if err != nil {
		return err
	}
	return w.writer.Write(ctx, batch)
}

func (m *Mutation) writer(ctx context.Context, moved bool, input *arrow.Schema, o WriteOptions) (*writtenRows, error) {
	for _, w := range m.written {
		if w.moved == moved && w.input.Equal(input) {
			return w, nil
		}
	}
	a, err := m.base.Append(ctx, input, o)
	if err != nil {
		return nil, err
	}
	w := &writtenRows{moved: moved, input: input, writer: a}
	m.written = append(m.written, w)
	return w, nil
}

// MutationOptions is what readers of the history are told.
type MutationOptions struct {
	Predicate string           // of the rows that were removed, for a mutation that writes none
	Changed   []schema.FieldID // fields of the replaced rows that have new values

	// Unmatched says that new rows are written because the version has no such
	// ones: versions since that may have some are ErrNewRows.
	Unmatched bool
}

// ErrNewRows is the fault.Conflict of a mutation that is Unmatched.
var ErrNewRows = errors.New("it wrote rows that may match those that are inserted; run it again")

// unmatched finds operations after which rows may be there that were not.
func unmatched(theirs manifest.Operation) error {
	switch theirs.(type) {
	case *manifest.Append, *manifest.Update, *manifest.DataReplacement:
		return ErrNewRows
	}
	return nil
}

// Commit makes everything durable and publishes it as one version, which it
// answers: Base when nothing was removed or written. A failed Commit leaves the
// table as it was and removes what was stored; see Table.Commit for the one
// exception.
func (m *Mutation) Commit(ctx context.Context, o MutationOptions) (*Snapshot, error) {
	if m.finished {
		return nil, fault.New(fault.Internal, "table: the change of %s was committed or aborted already", m.base.table.name)
	}
	defer m.Abort()
	added, err := m.newFragments(ctx)
	if err != nil {
		return nil, err
	}
	o.Unmatched = o.Unmatched && slices.ContainsFunc(m.written, func(w *writtenRows) bool { return !w.moved })
	return m.publish(ctx, added, o)
}

// publish commits the removed rows together with fragments that are written. Its
// caller aborts the mutation afterwards.
func (m *Mutation) publish(ctx context.Context, added []manifest.Fragment, o MutationOptions) (*Snapshot, error) {
	if m.removed == 0 && len(added) == 0 {
		return m.base, nil
	}
	tx := &manifest.Transaction{ReadVersion: m.base.Version(), UUID: uuid.NewString()}
	var err error
	if tx.Op, err = m.operation(ctx, m.base, added, o); err != nil {
		return nil, err
	}
	var against func(manifest.Operation) error
	if o.Unmatched {
		against = unmatched
	}
	snapshot, err := m.base.table.Commit(ctx, m.base.branch, tx, CommitOptions{
		Against: against,
		Rebase: func(ctx context.Context, newest *Snapshot, v manifest.Verdict) (*manifest.Transaction, error) {
			if v.Decision != manifest.Rebase {
				return nil, fault.New(fault.Conflict, "table: the change of %s was computed on version %d and %s; run it again", m.base.table.name, m.base.Version(), v.Reason)
			}
			m.forget(ctx)
			again := *tx
			again.ReadVersion = newest.Version()
			var err error
			again.Op, err = m.operation(ctx, newest, added, o)
			return &again, err
		},
	})
	if err != nil {
		m.uncertain = errors.Is(err, objstore.ErrUncertain) || snapshot != nil
		return nil, err
	}
	m.finished = true
	return snapshot, nil
}

// newFragments ends the files of written rows.
func (m *Mutation) newFragments(ctx context.Context) ([]manifest.Fragment, error) {
	var out []manifest.Fragment
	for _, w := range m.written {
		if err := w.writer.endFragment(ctx); err != nil {
			return nil, err
		}
		ids := w.ids
		for _, done := range w.writer.done {
			f := done.fragment
			if w.moved && m.base.Manifest().StableRowIDs() {
				f.RowIDs = rowset.IDsOf(ids[:f.PhysicalRows]).Encode()
				ids = ids[f.PhysicalRows:]
			}
			out = append(out, f)
		}
	}
	return out, nil
}

// operation stores the deletion files for a version, the base or a newer one,
// and answers what is done to it.
func (m *Mutation) operation(ctx context.Context, on *Snapshot, added []manifest.Fragment, o MutationOptions) (manifest.Operation, error) {
	var updated []manifest.Fragment
	var gone []uint64
	if m.all {
		for i := range m.base.Manifest().Fragments {
			gone = append(gone, m.base.Manifest().Fragments[i].ID)
		}
	}
	places := m.fragments
	if on != m.base {
		places = placesOf(on)
	}
	for _, i := range slices.Sorted(maps.Keys(m.marks)) {
		if m.all {
			break
		}
		f, whole, err := m.without(ctx, on, places, i)
		switch {
		case err != nil:
			return nil, err
		case whole:
			gone = append(gone, f.ID)
		default:
			updated = append(updated, f)
		}
	}
	if len(added) == 0 {
		return &manifest.Delete{Updated: updated, Deleted: gone, Predicate: o.Predicate}, nil
	}
	return &manifest.Update{Removed: gone, Updated: updated, New: added, FieldsMoved: o.Changed}, nil
}

// without gives a fragment as it is in a version after ours have been removed
// from it, and whether no row is left. places are those of its fragments.
func (m *Mutation) without(ctx context.Context, on *Snapshot, places map[uint64]int, place int) (manifest.Fragment, bool, error) {
	id := m.base.Manifest().Fragments[place].ID
	at, ok := places[id]
	if !ok {
		return manifest.Fragment{}, false, m.lost(on, "removed fragment %d", id)
	}
	f := on.Manifest().Fragments[at]
	ours, err := m.marks[place].Deleted(f.PhysicalRows)
	if err != nil {
		return f, false, err
	}
	have, err := on.deletions(ctx, &f)
	if err != nil {
		return f, false, err
	}
	if offset, ok := ours.Common(have); ok {
		return f, false, m.lost(on, "removed or changed row %d of fragment %d too", offset, id)
	}
	union, err := have.Union(ours)
	if err != nil || union.Live() == 0 {
		return f, true, err
	}
	data, bitmap, err := union.Encode()
	if err != nil {
		return f, false, err
	}
	f.Deletion = &manifest.DeletionFile{Bitmap: bitmap, ReadVersion: on.Version(), ID: rand.Uint64(), Rows: union.Count()} //nolint:gosec // a name, not a secret
	to, err := on.deletionPlace(ctx, &f)
	if err != nil {
		return f, false, err
	}
	m.stored = append(m.stored, to)
	if err := to.PutIfAbsent(ctx, data); err != nil {
		return f, false, fmt.Errorf("table: change of %s: store the deletions of fragment %d: %w", m.base.table.name, id, err)
	}
	return f, false, nil
}

func (m *Mutation) lost(on *Snapshot, format string, args ...any) error {
	return fault.New(fault.Conflict, "table: the change of %s was computed on version %d, and a commit up to version %d %s; run it again",
		m.base.table.name, m.base.Version(), on.Version(), fmt.Sprintf(format, args...))
}

// forget removes the deletion files of an attempt that is over.
func (m *Mutation) forget(ctx context.Context) {
	for _, loc := range m.stored {
		_ = loc.Delete(ctx)
	}
	m.stored = nil
}

// Abort ends the mutation and removes what it stored, as far as that can be
// told. After a Commit it does nothing.
func (m *Mutation) Abort() {
	if m.finished {
		return
	}
	m.finished = true
	for _, w := range m.written {
		w.writer.uncertain = m.uncertain
		w.writer.Abort()
	}
	if m.uncertain {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), abortTimeout)
	defer cancel()
	m.forget(ctx)
}
