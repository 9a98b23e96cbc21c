package table

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/google/uuid"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/schema"
	"github.com/flightblob/flightblob/table/manifest"
)

// Changes of columns that need no data: the files stay as they are, and the
// schema says anew what they mean. Each is computed on the newest version, as
// often as it takes beside other commits.

// AddColumn adds a column in which every row is null. at is the dotted path of
// the struct that gets it, nil for the table itself. Field metadata counts as at
// creation, the mark of blob columns too.
func (t *Table) AddColumn(ctx context.Context, branch string, at []string, column arrow.Field) (*Snapshot, error) {
	if !column.Nullable {
		return nil, fault.New(fault.Invalid, "table: column %s is added with nulls in it, so it must be nullable", column.Name)
	}
	return t.alter(ctx, branch, func(_ context.Context, s *Snapshot) (manifest.Operation, error) {
		tree, _, err := s.with(at, column)
		if err != nil {
			return nil, err
		}
		return &manifest.Merge{Fragments: slices.Clone(s.Manifest().Fragments), Schema: tree, PreservesNullability: true}, nil
	})
}

// with gives the schema with another column, and that column alone.
func (s *Snapshot) with(at []string, column arrow.Field) (all, alone *schema.Schema, err error) {
	next := s.Manifest().MaxFieldID() + 1
	alone, err = schema.FromArrow(arrow.NewSchema([]arrow.Field{column}, nil), schema.FromOptions{FileVersion: s.Manifest().DataFormat, NextID: next})
	if err != nil {
		return nil, nil, err
	}
	added := alone.Records()
	if len(at) > 0 {
		parent, err := fieldAt(s.Schema(), at)
		if err != nil {
			return nil, nil, err
		}
		if err := wholeColumn(parent, "a field is added to"); err != nil {
			return nil, nil, err
		}
		for above := parent.Parent; above != nil; above = above.Parent {
			if above.Shape == schema.FixedSizeList { // pylance reads no such column that a file lacks
				return nil, nil, fault.New(fault.Invalid, "table: column %s lies in a fixed-size list, whose items have the fields that they were made with", parent.FullName())
			}
		}
		if parent.Shape != schema.Struct {
			return nil, nil, fault.New(fault.Invalid, "table: column %s is no struct; a column is added to a struct or to the table", parent.FullName())
		}
		added[0].ParentID = parent.ID
	}
	all, err = schema.FromRecords(append(s.Schema().Records(), added...), s.Schema().Metadata)
	return all, alone.WithMetadata(s.Schema().Metadata), err
}

// DropColumn drops a column, or a field of a struct. The bytes stay in the files
// until these are rewritten.
func (t *Table) DropColumn(ctx context.Context, branch string, path []string) (*Snapshot, error) {
	return t.project(ctx, branch, true, path, func(_ context.Context, s *Snapshot, f *schema.Field) ([]schema.Record, error) {
		siblings := s.Schema().Fields
		if f.Parent != nil {
			siblings = f.Parent.Children
		}
		if len(siblings) == 1 {
			return nil, fault.New(fault.Invalid, "table: %s is the last column of its table or struct; drop that", f.FullName())
		}
		var kept []schema.Record
		for _, r := range s.Schema().Records() {
			if !slices.Contains(s.Schema().ByID(r.ID).Path(), f) {
				kept = append(kept, r)
			}
		}
		return kept, nil
	})
}

// RenameColumn renames a column, or a field of a struct.
func (t *Table) RenameColumn(ctx context.Context, branch string, path []string, name string) (*Snapshot, error) {
	return t.project(ctx, branch, true, path, func(_ context.Context, s *Snapshot, f *schema.Field) ([]schema.Record, error) {
		siblings := s.Schema().Fields
		if f.Parent != nil {
			siblings = f.Parent.Children
			if f.Parent.Shape != schema.Struct {
				return nil, fault.New(fault.Invalid, "table: %s is the items of a list or map, which have no name of their own", f.FullName())
			}
		} else if err := schema.CheckColumnName(name); err != nil {
			return nil, err
		}
		for _, other := range siblings {
			if other != f && strings.EqualFold(other.Name, name) {
				return nil, fault.New(fault.Exists, "table: there is a column %s already", other.FullName())
			}
		}
		return changed(s, f, func(r *schema.Record) { r.Name = name }), nil
	})
}

// SetNullable allows nulls in a column, or forbids them, which is
// fault.Precondition while there are any. It is for whole columns.
func (t *Table) SetNullable(ctx context.Context, branch string, path []string, nullable bool) (*Snapshot, error) {
	return t.project(ctx, branch, nullable, path, func(ctx context.Context, s *Snapshot, f *schema.Field) ([]schema.Record, error) {
		if f.Parent != nil {
			return nil, fault.New(fault.Invalid, "table: %s is part of a column; nulls are allowed or forbidden in whole columns", f.FullName())
		}
		if !nullable {
			if err := s.withoutNulls(ctx, f); err != nil {
				return nil, err
			}
		}
		return changed(s, f, func(r *schema.Record) { r.Nullable = nullable }), nil
	})
}

// withoutNulls looks for nulls in a column of the table.
func (s *Snapshot) withoutNulls(ctx context.Context, f *schema.Field) error {
	scan, err := s.Scan(ctx, ScanRequest{Columns: []string{f.Name}})
	if err != nil {
		return err
	}
	defer scan.Release()
	first := uint64(0)
	for scan.Next() {
		a := scan.RecordBatch().Column(0)
		for i := range a.Len() {
			if a.IsNull(i) {
				return fault.New(fault.Precondition, "table: column %s of %s has nulls, the first in row %d; fill them before nulls are forbidden", f.FullName(), s.table.name, first+uint64(i))
			}
		}
		first += uint64(a.Len())
	}
	return scan.Err()
}

func changed(s *Snapshot, f *schema.Field, change func(*schema.Record)) []schema.Record {
	records := s.Schema().Records()
	for i := range records {
		if records[i].ID == f.ID {
			change(&records[i])
		}
	}
	return records
}

// project publishes another schema over the same data. preserves says that it
// demands nothing of rows that are staged beside it.
func (t *Table) project(ctx context.Context, branch string, preserves bool, path []string, change func(context.Context, *Snapshot, *schema.Field) ([]schema.Record, error)) (*Snapshot, error) {
	return t.alter(ctx, branch, func(ctx context.Context, s *Snapshot) (manifest.Operation, error) {
		f, err := fieldAt(s.Schema(), path)
		if err != nil {
			return nil, err
		}
		if f.Parent != nil {
			if err := wholeColumn(f.Parent, "a field is changed of"); err != nil {
				return nil, err
			}
		}
		records, err := change(ctx, s, f)
		if err != nil {
			return nil, err
		}
		tree, err := schema.FromRecords(records, s.Schema().Metadata)
		if err != nil {
			return nil, err
		}
		if err := tree.CheckKeys(); err != nil {
			return nil, err
		}
		return &manifest.Project{Schema: tree, PreservesNullability: preserves}, nil
	})
}

// wholeColumn refuses a field whose children are no columns of their own: those of
// packed structs lie in one column together, maps have keys and values.
func wholeColumn(f *schema.Field, change string) error {
	switch {
	case f.Packed:
		return fault.New(fault.Invalid, "table: %s %s, which is a packed struct: its fields are one column", change, f.FullName())
	case f.Shape == schema.Map || f.Parent != nil && f.Parent.Shape == schema.Map:
		return fault.New(fault.Invalid, "table: %s %s, but a map is made of keys and values", change, f.FullName())
	}
	return nil
}

// alter commits a change that is computed anew on each newer version.
func (t *Table) alter(ctx context.Context, branch string, compute func(context.Context, *Snapshot) (manifest.Operation, error)) (*Snapshot, error) {
	base, err := t.At(ctx, Ref{Branch: branch})
	if err != nil {
		return nil, err
	}
	if err := base.Manifest().CheckWritable(); err != nil {
		return nil, fmt.Errorf("table: %s: %w", t.name, err)
	}
	tx := &manifest.Transaction{ReadVersion: base.Version(), UUID: uuid.NewString()}
	if tx.Op, err = compute(ctx, base); err != nil {
		return nil, err
	}
	return t.Commit(ctx, branch, tx, CommitOptions{
		Rebase: func(ctx context.Context, newest *Snapshot, _ manifest.Verdict) (*manifest.Transaction, error) {
			again := *tx
			again.ReadVersion = newest.Version()
			var err error
			again.Op, err = compute(ctx, newest)
			return &again, err
		},
	})
}

// fieldAt finds a column, or a field of a struct, by its path; a step through a
// list is "element" or the name of its items. Letters of either case match where
// no exact name does.
func fieldAt(s *schema.Schema, path []string) (*schema.Field, error) {
	fields := s.Fields
	var found *schema.Field
	for i, name := range path {
		var names []string
		var next *schema.Field
		for _, f := range fields {
			inList := found != nil && found.Shape != schema.Struct && name == "element"
			if f.Name == name || inList || next == nil && strings.EqualFold(f.Name, name) {
				next = f
			}
			names = append(names, f.Name)
		}
		if next == nil || found != nil && found.Blob != schema.NotBlob {
			return nil, fault.New(fault.NotFound, "table: there is no column %s; at %q there are %s", strings.Join(path, "."), strings.Join(path[:i], "."), strings.Join(names, ", "))
		}
		found, fields = next, next.Children
	}
	return found, nil
}

// HasColumn says whether there is a column, or a field of a struct, at a path as
// DropColumn takes it.
func (s *Snapshot) HasColumn(path []string) bool {
	_, err := fieldAt(s.Schema(), path)
	return err == nil
}
