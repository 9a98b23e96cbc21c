package table

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/uuid"

	"github.com/flightblob/flightblob/blob"
	"github.com/flightblob/flightblob/encoding"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/schema"
	"github.com/flightblob/flightblob/table/manifest"
)

// WriteOptions say how new rows are stored. The zero value appends in the
// table's own format and refuses URIs outside of registered bases.
type WriteOptions struct {
	// FileVersion is the format of the data files: "2.2" or "2.3". Empty is that
	// of the table, DefaultFileVersion for a new one.
	FileVersion string
	// TargetBase is the name or path of a registered base that the files go to;
	// empty is the table's own folder.
	TargetBase string
	// URIs says whether objects that URIs name are referenced (EXT-1) or copied
	// into the table's storage (EXT-9).
	URIs blob.Mode
	// AllowOutsideBases lets URIs that no base matches be stored in absolute form
	// (EXT-6). What the server may touch bounds it all the same.
	AllowOutsideBases bool
	// PackBytes beats the pack thresholds of all columns if not 0; it is not
	// stored.
	PackBytes uint64
	// RowsPerFile and BytesPerFile end a data file; 0 means DefaultRowsPerFile and
	// DefaultBytesPerFile. A batch is never split by bytes.
	RowsPerFile  uint64
	BytesPerFile int64
	// Message is stored with the transaction.
	Message string
	// Only refuses, as fault.Conflict, to publish anything but the version right
	// after the one that the write began on.
	Only bool
	// Origins finds where references to stored values come from; nil when the
	// input has none.
	Origins blob.Origins
	// Batches is the schema of the batches when it is not the input's: with
	// Origins, a new table has the columns of its input and batches of this
	// program's own types.
	Batches *arrow.Schema
}

// Limits of one data file, those of the reference.
const (
	DefaultRowsPerFile  = 1 << 20
	DefaultBytesPerFile = 90 << 30
)

func (o WriteOptions) withDefaults() WriteOptions {
	if o.RowsPerFile == 0 {
		o.RowsPerFile = DefaultRowsPerFile
	}
	if o.BytesPerFile <= 0 {
		o.BytesPerFile = DefaultBytesPerFile
	}
	return o
}

// CreateOptions say what a new or overwritten table is like.
type CreateOptions struct {
	WriteOptions
	// BlobColumns names binary columns that become blob columns.
	BlobColumns []string
	// Settings beside the columns; nil for none. The schema metadata and field
	// metadata of the input count as well.
	Settings *Settings
	// Bases are registered at creation. Ids that are 0 are given in order.
	Bases []manifest.Base
	// Config is set, key by key.
	Config map[string]string
	// StableRowIDs turns them on; at creation only.
	StableRowIDs bool
	// OrAppend makes a creation that finds, at its end, that another one was
	// faster an append to that table, if it has the very same columns.
	OrAppend bool
}

// Appender takes batches and makes them one version: Write any number of times,
// then exactly one of Commit and Abort. One goroutine at a time. Memory is
// bounded by a batch and about a page of each column, not by what was written.
type Appender struct {
	table   *Table
	branch  string
	base    *Snapshot // what was there; nil at creation
	schema  *schema.Schema
	mapping *schema.Mapping
	options WriteOptions
	version encoding.Version
	target  target
	policy  blob.Policy
	replace *CreateOptions // of a creation or an overwrite

	current   *fragmentWriter
	done      []*fragmentWriter
	rows      uint64
	finished  bool
	uncertain bool
}

// Append begins an append to a branch ("" = main). input is the schema of the
// batches; whatever does not fit the table is fault.Invalid before anything is
// stored (see schema.Accepts).
func (t *Table) Append(ctx context.Context, branch string, input *arrow.Schema, o WriteOptions) (*Appender, error) {
	base, err := t.At(ctx, Ref{Branch: branch})
	if err != nil {
		return nil, err
	}
	return base.Append(ctx, input, o)
}

// Append is Table.Append to the version that the caller has seen, which newer
// ones may have followed.
func (s *Snapshot) Append(ctx context.Context, input *arrow.Schema, o WriteOptions) (*Appender, error) {
	if err := s.Manifest().CheckWritable(); err != nil {
		return nil, fmt.Errorf("table: %s: %w", s.table.name, err)
	}
	// The first file of a newer format changes blob columns of old ones (LEG-5), as
	// manifest.Apply does again when it is published.
	tree, err := s.Schema().WithoutLegacyBlobs(s.Manifest().MaxFieldID() + 1)
	if err != nil {
		return nil, err
	}
	a := &Appender{table: s.table, branch: s.branch, base: s, schema: tree, options: o.withDefaults()}
	version := o.FileVersion
	if version == "" {
		version = s.Manifest().DataFormat
	}
	if err := a.begin(ctx, input, version, s.Manifest().Bases); err != nil {
		return nil, err
	}
	return a, nil
}

// Create begins a table that does not exist yet. Nothing can be seen of it
// before Commit, which is fault.Exists if another one was faster.
func (t *Table) Create(ctx context.Context, input *arrow.Schema, o CreateOptions) (*Appender, error) {
	found, err := t.Exists(ctx)
	if err != nil {
		return nil, err
	}
	if found {
		return nil, fault.New(fault.Exists, "table: %s exists already", t.name)
	}
	return t.replacing(ctx, nil, "", input, o)
}

// Overwrite begins new contents, with a new schema, for a branch of a table that
// exists. Older versions stay as they are.
func (t *Table) Overwrite(ctx context.Context, branch string, input *arrow.Schema, o CreateOptions) (*Appender, error) {
	base, err := t.At(ctx, Ref{Branch: branch})
	if err != nil {
		return nil, err
	}
	if err := base.Manifest().CheckWritable(); err != nil {
		return nil, fmt.Errorf("table: %s: %w", t.name, err)
	}
	if len(o.Bases) > 0 {
		return nil, fault.New(fault.Invalid, "table: bases are given when a table is created; %s exists, add a base to it first", t.name)
	}
	return t.replacing(ctx, base, base.branch, input, o)
}

func (t *Table) replacing(ctx context.Context, base *Snapshot, branch string, input *arrow.Schema, o CreateOptions) (*Appender, error) {
	if o.Settings != nil && o.FileVersion == "" {
		o.FileVersion = o.Settings.FileVersion
	}
	from := schema.FromOptions{FileVersion: o.FileVersion, BlobColumns: o.BlobColumns}
	bases := map[uint32]manifest.Base{}
	if base != nil {
		bases = maps.Clone(base.Manifest().Bases)
		if last := base.Manifest().MaxAllocatedFieldID; last != nil { // ids are never used again
			from.NextID = *last + 1
		}
	}
	s, err := schema.FromArrow(input, from)
	if err != nil {
		return nil, err
	}
	if o.Settings != nil {
		if s, err = o.Settings.on(s); err != nil {
			return nil, err
		}
	}
	if o.Bases, err = numbered(o.Bases); err != nil {
		return nil, err
	}
	for i := range o.Bases {
		if o.Bases[i], err = t.env.checkedBase(ctx, o.Bases[i]); err != nil {
			return nil, err
		}
	}
	for _, b := range o.Bases {
		bases[b.ID] = b
	}
	a := &Appender{table: t, branch: branch, base: base, schema: s, options: o.withDefaults(), replace: &o}
	version := o.FileVersion
	if version == "" {
		version = schema.DefaultFileVersion
	}
	if err := a.begin(ctx, input, version, bases); err != nil {
		return nil, err
	}
	return a, nil
}

// numbered gives ids to bases that have none, so that files can name them before
// the table exists.
func numbered(bases []manifest.Base) ([]manifest.Base, error) {
	bases = slices.Clone(bases)
	taken := map[uint32]bool{}
	for _, b := range bases {
		if b.ID != 0 && taken[b.ID] {
			return nil, fault.New(fault.Invalid, "table: two bases have the id %d", b.ID)
		}
		taken[b.ID] = true
	}
	next := uint32(1)
	for i := range bases {
		if bases[i].ID != 0 {
			continue
		}
		for taken[next] {
			next++
		}
		bases[i].ID = next
		taken[next] = true
	}
	return bases, nil
}

// writable are the formats that this program writes.
var writable = map[string]encoding.Version{"2.2": encoding.V2_2, "2.3": encoding.V2_3}

func (a *Appender) begin(ctx context.Context, input *arrow.Schema, version string, bases map[uint32]manifest.Base) error {
	var ok bool
	if a.version, ok = writable[version]; !ok {
		return fault.New(fault.Precondition, "table: the data files of %s have format %s; this program writes 2.2 and 2.3: name one as the file version of the write (\"file_version\" of a DoPut command, --file-version of import), the table then holds files of both (LEG-5)",
			a.table.name, version)
	}
	var err error
	if a.target, err = a.table.target(ctx, a.branch, bases, a.options.TargetBase); err != nil {
		return err
	}
	managed, err := schema.Managed(a.schema.Metadata)
	if err != nil {
		return err
	}
	env := a.table.env
	a.policy = blob.Policy{
		Managed: managed, TargetBase: a.target.id, PackLimit: a.options.PackBytes, Bases: bases,
		URIs: blob.URIPolicy{
			Mode: a.options.URIs, AllowOutside: a.options.AllowOutsideBases,
			Allows: env.access.Allows, Schemes: env.registry.Schemes(), Locate: env.registry.Locator(env.accessTo(bases)),
		},
	}
	if a.options.Batches != nil {
		input = a.options.Batches
	}
	if a.options.Origins != nil {
		a.mapping, err = a.schema.AcceptsStored(input)
	} else {
		a.mapping, err = a.schema.Accepts(input)
	}
	return err
}

// Schema is the field tree that the rows get.
func (a *Appender) Schema() *schema.Schema { return a.schema }

// Base is the version that the write began on, nil at creation.
func (a *Appender) Base() *Snapshot { return a.base }

// Rows is the number of rows written so far.
func (a *Appender) Rows() uint64 { return a.rows }

// Write stores a batch. The whole of it is checked first: a batch that is
// refused, fault.Invalid with field and row, leaves what was written before as
// it was, and more batches may follow. After any other error only Abort is
// left. The batch stays the caller's.
func (a *Appender) Write(ctx context.Context, batch arrow.RecordBatch) error {
	return a.write(ctx, batch, nil)
}

// WriteStream stores a batch in which one value of a blob column is size bytes
// of a reader, so that they need not fit into memory. The value in the batch is
// the one of row 0 and must not be null; what it holds is not used.
func (a *Appender) WriteStream(ctx context.Context, batch arrow.RecordBatch, column string, r io.Reader, size uint64) error {
	if batch.NumRows() != 1 {
		return fault.New(fault.Invalid, "table: a value is streamed into a batch of one row, not of %d", batch.NumRows())
	}
	return a.write(ctx, batch, func(in *blob.Inputs) error { return in.Stream(column, 0, r, size) })
}

func (a *Appender) write(ctx context.Context, batch arrow.RecordBatch, amend func(*blob.Inputs) error) error {
	mapped, err := a.mapping.Apply(memory.DefaultAllocator, batch)
	if err != nil {
		return err
	}
	defer mapped.Release()
	inputs, err := blob.AsInputs(a.schema, mapped, a.options.Origins)
	if err != nil {
		return err
	}
	defer inputs.Release()
	if amend != nil {
		if err := amend(inputs); err != nil {
			return err
		}
	}
	for rest := mapped.NumRows(); rest > 0; {
		if a.current == nil {
			if a.current, err = a.newFragment(ctx); err != nil {
				return err
			}
		}
		n := min(rest, int64(a.options.RowsPerFile-a.current.rows))
		if n < mapped.NumRows() { // rows of two files: each has its own part
			from := mapped.NumRows() - rest
			var part *blob.Inputs
			if part, err = inputs.Slice(from, from+n); err == nil {
				err = a.current.write(ctx, part, n)
				part.Release()
			}
		} else {
			err = a.current.write(ctx, inputs, n)
		}
		if err != nil {
			return err
		}
		rest -= n
		a.rows += uint64(n)
		if a.current.rows >= a.options.RowsPerFile || a.current.file.Size() >= a.options.BytesPerFile {
			if err := a.endFragment(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

func (a *Appender) endFragment(ctx context.Context) error {
	if a.current == nil {
		return nil
	}
	if err := a.current.commit(ctx); err != nil {
		return err
	}
	a.done = append(a.done, a.current)
	a.current = nil
	return nil
}

// Commit makes everything durable and publishes it as one version, which it
// answers. An append without rows makes no version and answers the one it was
// begun on. A failed Commit leaves the table as it was and removes what was
// stored; see Table.Commit for the one exception.
func (a *Appender) Commit(ctx context.Context) (*Snapshot, error) {
	if a.finished {
		return nil, fault.New(fault.Internal, "table: the write to %s was committed or aborted already", a.table.name)
	}
	defer a.Abort()
	if err := a.endFragment(ctx); err != nil {
		return nil, err
	}
	if a.replace == nil && a.rows == 0 {
		return a.base, nil
	}
	tx := &manifest.Transaction{UUID: uuid.NewString(), Op: a.operation()}
	if a.base != nil {
		tx.ReadVersion = a.base.Version()
	}
	if a.options.Message != "" {
		tx.Properties = map[string]string{manifest.KeyCommitMessage: a.options.Message}
	}
	o := CommitOptions{Only: a.options.Only}
	if a.replace != nil {
		o.Format, o.StableRowIDs = formatName(a.version), a.replace.StableRowIDs
	}
	snapshot, err := a.table.Commit(ctx, a.branch, tx, o)
	if a.replace != nil && a.replace.OrAppend && fault.KindOf(err) == fault.Exists {
		snapshot, err = a.appendInstead(ctx, tx)
	}
	if err != nil {
		// With a version beside the error it was published.
		a.uncertain = errors.Is(err, objstore.ErrUncertain) || snapshot != nil
		return nil, err
	}
	a.finished = true
	return snapshot, nil
}

// appendInstead adds what was written for a new table to the one that somebody
// else created meanwhile. Field ids are given by the columns alone, so equal
// columns are equal ids.
func (a *Appender) appendInstead(ctx context.Context, tx *manifest.Transaction) (*Snapshot, error) {
	theirs, err := a.table.At(ctx, Ref{Branch: a.branch})
	if err != nil {
		return nil, err
	}
	if !reflect.DeepEqual(theirs.Schema().Records(), a.schema.Records()) || len(a.replace.Bases) > 0 {
		return nil, fault.New(fault.Exists, "table: %s was created by another write meanwhile, with other columns; look at it and write again", a.table.name)
	}
	if a.rows == 0 {
		return theirs, nil
	}
	fragments := make([]manifest.Fragment, len(a.done))
	for i, w := range a.done {
		fragments[i] = w.fragment
	}
	tx.ReadVersion, tx.Op = theirs.Version(), &manifest.Append{Fragments: fragments}
	return a.table.Commit(ctx, a.branch, tx, CommitOptions{})
}

func formatName(v encoding.Version) string { return fmt.Sprintf("%d.%d", v.Major, v.Minor) }

func (a *Appender) operation() manifest.Operation {
	fragments := make([]manifest.Fragment, len(a.done))
	for i, w := range a.done {
		fragments[i] = w.fragment
	}
	if a.replace == nil {
		return &manifest.Append{Fragments: fragments}
	}
	op := &manifest.Overwrite{Fragments: fragments, Schema: a.schema, ConfigUpserts: maps.Clone(a.replace.Config)}
	if a.base == nil {
		op.InitialBases = a.replace.Bases
	}
	return op
}

// abortTimeout bounds the removal of what an abandoned write stored.
const abortTimeout = time.Minute

// Abort ends the write and removes what it stored, as far as that can be told.
// After a Commit it does nothing.
func (a *Appender) Abort() {
	if a.finished {
		return
	}
	a.finished = true
	ctx, cancel := context.WithTimeout(context.Background(), abortTimeout)
	defer cancel()
	if a.current != nil {
		a.current.abort(ctx)
		a.current = nil
	}
	if a.uncertain { // the version may be there after all
		return
	}
	for _, w := range a.done {
		w.remove(ctx)
	}
}
