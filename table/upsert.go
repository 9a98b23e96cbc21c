package table

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/schema"
	"github.com/flightblob/flightblob/table/manifest"
)

// Upsert takes rows that come in the place of those with the same key, and beside
// the others: what pylance calls merge_insert. Write any number of times, then
// exactly one of Commit and Abort. One goroutine at a time.
//
// Rows are stored as they come, once, whatever they turn out to be; which of them
// replace others is looked up at the end in the newest version, and again when
// somebody else's commit was faster. Columns that the batches do not have keep
// their values in rows that are replaced and are null in new ones. A key with a
// null in it is equal to none.
//
// Memory is UpsertRowBytes for each row, which UpsertOptions.Hold may bound.
type Upsert struct {
	base    *Snapshot // what the rows were checked against
	on      []string
	keys    []int // of the batches of the staged writer's columns
	options UpsertOptions
	staged  *Appender
	kept    *schema.Schema // columns that the batches do not have; nil for none
	input   *schema.Schema // those that they have

	hasher   keyHasher
	places   map[keyHash]uint64 // rows of the batches by key
	rows     uint64
	updated  uint64
	finished bool
}

// UpsertOptions say how rows are matched and stored.
type UpsertOptions struct {
	WriteOptions
	// On names the columns of the key, at least one.
	On []string
	// Hold is asked before memory for more rows is taken, in bytes; nil allows all.
	Hold func(bytes int64) error
}

// UpsertRowBytes is the memory that an Upsert takes for a row, about.
const UpsertRowBytes = 96

// Upsert begins an upsert of a branch ("" = main). input is the schema of the
// batches; whatever does not fit the table is fault.Invalid before anything is
// stored (see schema.Accepts).
func (t *Table) Upsert(ctx context.Context, branch string, input *arrow.Schema, o UpsertOptions) (*Upsert, error) {
	base, err := t.At(ctx, Ref{Branch: branch})
	if err != nil {
		return nil, err
	}
	if err := base.Manifest().CheckWritable(); err != nil {
		return nil, fmt.Errorf("table: %s: %w", t.name, err)
	}
	u := &Upsert{base: base, on: o.On, options: o, places: map[keyHash]uint64{}}
	if err := u.columns(input); err != nil {
		return nil, err
	}
	u.staged, err = base.writer(ctx, u.input, input, o.WriteOptions)
	return u, err
}

// columns finds the columns of the key, of the batches, and the others.
func (u *Upsert) columns(input *arrow.Schema) error {
	all := u.base.Schema()
	var given, kept []*schema.Field
	for _, f := range all.Fields {
		if input.HasField(f.Name) {
			given = append(given, f)
		} else {
			kept = append(kept, f)
		}
	}
	if len(u.on) == 0 {
		return fault.New(fault.Invalid, "table: rows are matched on key columns, and none is named")
	}
	for i, name := range u.on {
		at := slices.IndexFunc(given, func(f *schema.Field) bool { return f.Name == name })
		switch {
		case at < 0 && slices.ContainsFunc(kept, func(f *schema.Field) bool { return f.Name == name }):
			return fault.New(fault.Invalid, "table: the input has no column %s, on which rows are matched", fault.Quote(name))
		case at < 0:
			return fault.New(fault.Invalid, "table: %s has no column %s to match rows on; keys are whole columns of the table", u.base.table.name, fault.Quote(name))
		case slices.Contains(u.on[:i], name):
			return fault.New(fault.Invalid, "table: rows are matched on column %s twice", fault.Quote(name))
		}
		if err := keyField(given[at]); err != nil {
			return err
		}
		u.keys = append(u.keys, at)
	}
	u.input = all
	if len(kept) == 0 || input.NumFields() != len(given) { // of unknown columns the whole schema says more
		return nil
	}
	var err error
	if u.input, err = part(all, given); err == nil {
		u.kept, err = part(all, kept)
	}
	return err
}

// part is a schema of some columns of a table.
func part(s *schema.Schema, fields []*schema.Field) (*schema.Schema, error) {
	var records []schema.Record
	for _, r := range s.Records() {
		if slices.Contains(fields, s.ByID(r.ID).Path()[0]) {
			records = append(records, r)
		}
	}
	return schema.FromRecords(records, s.Metadata)
}

// writer begins files of some columns of this version.
func (s *Snapshot) writer(ctx context.Context, columns *schema.Schema, input *arrow.Schema, o WriteOptions) (*Appender, error) {
	a := &Appender{table: s.table, branch: s.branch, base: s, schema: columns, options: o.withDefaults()}
	version := o.FileVersion
	if version == "" {
		version = s.Manifest().DataFormat
	}
	return a, a.begin(ctx, input, version, s.Manifest().Bases)
}

// Rows is the number of rows written so far.
func (u *Upsert) Rows() uint64 { return u.rows }

// Updated is how many of them came in the place of others; known after Commit.
func (u *Upsert) Updated() uint64 { return u.updated }

// Write stores a batch. A key that an earlier row had is fault.Invalid, before
// anything of the batch is stored. The batch stays the caller's.
func (u *Upsert) Write(ctx context.Context, batch arrow.RecordBatch) error {
	if u.options.Hold != nil {
		if err := u.options.Hold(batch.NumRows() * UpsertRowBytes); err != nil {
			return err
		}
	}
	if err := u.note(batch); err != nil {
		return err
	}
	if err := u.staged.Write(ctx, batch); err != nil {
		return err
	}
	u.rows += uint64(batch.NumRows())
	return nil
}

// note remembers the keys of a batch.
func (u *Upsert) note(batch arrow.RecordBatch) error {
	mapped, err := u.staged.mapping.Apply(memory.DefaultAllocator, batch)
	if err != nil {
		return err
	}
	defer mapped.Release()
	columns := make([]arrow.Array, len(u.keys))
	for i, at := range u.keys {
		columns[i] = mapped.Column(at)
	}
	for i := range int(mapped.NumRows()) {
		key, ok := u.hasher.of(columns, i)
		if !ok {
			continue
		}
		row := u.rows + uint64(i)
		if first, taken := u.places[key]; taken {
			return fault.New(fault.Invalid, "table: %s is %s in rows %d and %d of the input; a key comes once in all of it", keyNames(u.on), keyText(columns, i), first, row)
		}
		u.places[key] = row
	}
	return nil
}

func keyNames(on []string) string {
	if len(on) == 1 {
		return "column " + on[0]
	}
	return "the key " + fmt.Sprint(on)
}

// upsertTries is how often rows are matched anew when others commit meanwhile.
const upsertTries = 20

// Commit makes everything durable and publishes it as one version, which it
// answers: the one that the upsert was begun on when there were no rows. A
// failed Commit leaves the table as it was and removes what was stored; see
// Table.Commit for the one exception.
func (u *Upsert) Commit(ctx context.Context) (*Snapshot, error) {
	if u.finished {
		return nil, fault.New(fault.Internal, "table: the write to %s was committed or aborted already", u.base.table.name)
	}
	defer u.Abort()
	if err := u.staged.endFragment(ctx); err != nil {
		return nil, err
	}
	if u.rows == 0 {
		return u.base, nil
	}
	for try := 1; ; try++ {
		on, err := u.newest(ctx)
		if err != nil {
			return nil, err
		}
		s, err := u.publish(ctx, on)
		if err == nil || try == upsertTries || fault.KindOf(err) != fault.Conflict || u.staged.uncertain {
			return s, err
		}
	}
}

// newest is the version to match rows in.
func (u *Upsert) newest(ctx context.Context) (*Snapshot, error) {
	on, err := u.base.table.At(ctx, Ref{Branch: u.base.branch})
	if err != nil {
		return nil, err
	}
	if !slices.EqualFunc(u.base.Schema().Records(), on.Schema().Records(), sameRecord) {
		return nil, fault.New(fault.Conflict, "table: the columns of %s were changed up to version %d while rows for those of version %d were written; write them again",
			u.base.table.name, on.Version(), u.base.Version())
	}
	return on, nil
}

// sameRecord says whether rows written for one field are rows for the other.
func sameRecord(a, b schema.Record) bool {
	return a.ID == b.ID && a.ParentID == b.ParentID && a.Name == b.Name && a.LogicalType == b.LogicalType && a.Nullable == b.Nullable && a.Extension == b.Extension
}

// publish matches the rows in a version and commits.
func (u *Upsert) publish(ctx context.Context, on *Snapshot) (*Snapshot, error) {
	m, err := on.Mutate()
	if err != nil {
		return nil, err
	}
	defer m.Abort()
	found, err := u.match(ctx, on)
	if err != nil {
		return nil, err
	}
	if _, err := m.Remove(found.addresses()); err != nil {
		return nil, err
	}
	fragments := make([]manifest.Fragment, len(u.staged.done))
	for i, w := range u.staged.done {
		fragments[i] = w.fragment
		fragments[i].Files = slices.Clone(w.fragment.Files)
	}
	keep, err := u.keep(ctx, m, found, fragments)
	if err != nil {
		return nil, err
	}
	defer keep.Abort()
	if on.Manifest().StableRowIDs() {
		found.name(fragments, on.Manifest().NextRowID)
	}
	o := MutationOptions{Unmatched: uint64(len(found.rows)) < u.rows}
	for leaf := range u.input.Leaves() {
		o.Changed = append(o.Changed, leaf.ID)
	}
	s, err := m.publish(ctx, fragments, o)
	uncertain := errors.Is(err, objstore.ErrUncertain) || s != nil && err != nil
	m.uncertain, u.staged.uncertain, keep.uncertain = uncertain, uncertain, uncertain
	if err != nil {
		return nil, err
	}
	m.finished, u.staged.finished, u.finished, keep.finished = true, true, true, true
	u.updated = uint64(len(found.rows))
	return s, nil
}

// Abort ends the upsert and removes what it stored, as far as that can be told.
// After a Commit it does nothing.
func (u *Upsert) Abort() {
	u.finished = true
	u.staged.Abort()
}
