package catalog

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/table"
)

// Columns of __manifest beside those of rows.go.
const (
	columnMetadata = "metadata"
	columnBases    = "base_objects"

	// keyPosition marks the column that is the key.
	keyPosition = "lance-schema:unenforced-primary-key:position"
	// writerFlags is the key of the flags that a writer must know, a decimal
	// number; none is defined so far.
	writerFlags = "lance.namespace.manifest.writer_feature_flags"
	// manifestFormat is the format that every client of the namespace reads.
	manifestFormat = "2.2"
)

// Races for the next version of __manifest.
const (
	editAttempts   = 100
	firstEditPause = 5 * time.Millisecond
	mostEditPause  = 300 * time.Millisecond
)

// manifestSchema is that of a __manifest that this program makes, the one of
// the reference.
var manifestSchema = arrow.NewSchema([]arrow.Field{
	{Name: columnID, Type: arrow.BinaryTypes.String, Metadata: arrow.MetadataFrom(map[string]string{keyPosition: "0"})},
	{Name: columnType, Type: arrow.BinaryTypes.String},
	{Name: columnLocation, Type: arrow.BinaryTypes.String, Nullable: true},
	{Name: columnMetadata, Type: arrow.BinaryTypes.String, Nullable: true},
	{Name: columnBases, Type: arrow.ListOfField(arrow.Field{Name: columnID, Type: arrow.BinaryTypes.String, Nullable: true}), Nullable: true},
}, nil)

// entry is a row of __manifest.
type entry struct{ id, kind, location string }

// edit is a change of rows; an empty one changes nothing.
type edit struct {
	add    []entry
	remove []string // ids; all rows of each
}

// edit changes the rows of __manifest, which is made if it is missing, the way
// the reference does: all rows anew in one fragment, published right after the
// version that was read, or else decided again from the newest rows. change may
// be called any number of times.
func (r *root) edit(ctx context.Context, env *table.Env, change func(*registered) (edit, error)) error {
	for attempt := 0; ; attempt++ {
		err := r.tryEdit(ctx, env, change)
		lost := fault.KindOf(err) == fault.Conflict || errors.Is(err, errMade)
		if err == nil || !lost || attempt == editAttempts {
			return err
		}
		timer := time.NewTimer(rand.N(min(firstEditPause<<min(attempt, 10), mostEditPause))) //nolint:gosec // not a secret
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

// errMade says that __manifest was not there and is now.
var errMade = errors.New("made")

func (r *root) tryEdit(ctx context.Context, env *table.Env, change func(*registered) (edit, error)) error {
	rows, err := r.rows(ctx)
	if err != nil {
		return err
	}
	e, err := change(rows)
	if err != nil || len(e.add)+len(e.remove) == 0 {
		return err
	}
	at := fmt.Sprintf("%s of catalog %s", manifestTable, r.name)
	if rows.of == nil {
		w, err := r.manifest.Create(ctx, manifestSchema, table.CreateOptions{WriteOptions: table.WriteOptions{FileVersion: manifestFormat}})
		if err == nil {
			_, err = w.Commit(ctx)
		}
		if err != nil && fault.KindOf(err) != fault.Exists {
			return fmt.Errorf("catalog: make %s: %w", at, err)
		}
		return errMade
	}
	if flags := rows.of.TableMetadata[writerFlags]; flags != "" {
		if n, err := strconv.ParseUint(flags, 10, 64); err != nil || n != 0 {
			return fault.New(fault.Unsupported, "catalog: table metadata %s of %s is %q: writing it needs features that this program does not know", writerFlags, at, flags)
		}
	}
	s, err := r.manifest.At(ctx, table.Ref{Version: rows.of.Version})
	if err != nil {
		return fmt.Errorf("catalog: open %s: %w", at, err)
	}
	if err := r.rewrite(ctx, s, e); err != nil {
		return fmt.Errorf("catalog: write %s: %w", at, err)
	}
	return nil
}

// rewrite publishes the rows of a version, changed, as the next one.
func (r *root) rewrite(ctx context.Context, s *table.Snapshot, e edit) error {
	scan, err := s.Scan(ctx, table.ScanRequest{})
	if err != nil {
		return err
	}
	defer scan.Release()
	w, err := r.manifest.Overwrite(ctx, "", scan.Schema(), table.CreateOptions{
		WriteOptions: table.WriteOptions{FileVersion: manifestFormat, Only: true},
	})
	if err != nil {
		return err
	}
	defer w.Abort()
	if began := w.Base().Version(); began != s.Version() {
		return fault.New(fault.Conflict, "version %d was published meanwhile", began)
	}
	for scan.Next() {
		if err := writeKept(ctx, w, scan.RecordBatch(), e.remove); err != nil {
			return err
		}
	}
	if err := scan.Err(); err != nil {
		return err
	}
	if len(e.add) > 0 {
		batch, err := newRows(scan.Schema(), e.add)
		if err != nil {
			return err
		}
		defer batch.Release()
		if err := w.Write(ctx, batch); err != nil {
			return err
		}
	}
	_, err = w.Commit(ctx)
	return err
}

// writeKept writes the rows that are not removed.
func writeKept(ctx context.Context, w *table.Appender, batch arrow.RecordBatch, remove []string) error {
	columns := batch.Schema().FieldIndices(columnID)
	if len(columns) != 1 {
		return fault.New(fault.Corrupt, "it has %d columns %s", len(columns), columnID)
	}
	ids, ok := batch.Column(columns[0]).(texts)
	if !ok {
		return fault.New(fault.Corrupt, "column %s has type %s, expected text", columnID, batch.Column(columns[0]).DataType())
	}
	n := int(batch.NumRows())
	for from := 0; from < n; {
		to := from
		for to < n && (ids.IsNull(to) || !slices.Contains(remove, ids.Value(to))) {
			to++
		}
		if to > from {
			part := batch.NewSlice(int64(from), int64(to))
			err := w.Write(ctx, part)
			part.Release()
			if err != nil {
				return err
			}
		}
		from = to + 1
	}
	return nil
}

// newRows makes a batch of rows; columns that are not known here are null.
func newRows(schema *arrow.Schema, add []entry) (arrow.RecordBatch, error) {
	mem := memory.DefaultAllocator
	columns := make([]arrow.Array, schema.NumFields())
	defer func() {
		for _, c := range columns {
			if c != nil {
				c.Release()
			}
		}
	}()
	for i, f := range schema.Fields() {
		value := func(entry) string { return "" }
		switch f.Name {
		case columnID:
			value = func(e entry) string { return e.id }
		case columnType:
			value = func(e entry) string { return e.kind }
		case columnLocation:
			value = func(e entry) string { return e.location }
		default:
			if !f.Nullable {
				return nil, fault.New(fault.Unsupported, "column %s may not be null, and this program does not know what it is for", f.Name)
			}
		}
		b := array.NewBuilder(mem, f.Type)
		text, isText := b.(array.StringLikeBuilder)
		for _, e := range add {
			if v := value(e); v == "" {
				b.AppendNull()
			} else if isText {
				text.Append(v)
			} else {
				b.Release()
				return nil, fault.New(fault.Corrupt, "column %s has type %s, expected text", f.Name, f.Type)
			}
		}
		columns[i] = b.NewArray()
		b.Release()
	}
	return array.NewRecordBatch(schema, columns, int64(len(add))), nil
}

func uncertain(err error) bool { return errors.Is(err, objstore.ErrUncertain) }
