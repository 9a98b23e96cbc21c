package maintain

import (
	"context"
	"encoding/binary"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/flightblob/flightblob/blob"
	"github.com/flightblob/flightblob/schema"
	"github.com/flightblob/flightblob/table"
	"github.com/flightblob/flightblob/table/manifest"
)

// liveness finds the managed objects that live rows refer to (GC-5). Versions
// share most of their data files, so a column of a fragment is read once for each
// pair of data and deletion file.
type liveness struct {
	read map[xxh3.Uint128]struct{} // columns of fragments
	also *liveness                 // what it has read need not be read again; may be nil
}

func newLiveness(also *liveness) *liveness {
	return &liveness{read: map[xxh3.Uint128]struct{}{}, also: also}
}

func (l *liveness) knows(key xxh3.Uint128) bool {
	if l == nil {
		return false
	}
	_, ok := l.read[key]
	return ok || l.also.knows(key)
}

// columnsOf are the columns of a version that can hold managed references.
func columnsOf(s *table.Snapshot) []*schema.Field {
	var found []*schema.Field
	for _, f := range s.Schema().Fields {
		for b := range f.Blobs() {
			if b.Blob == schema.BlobV2 {
				found = append(found, f)
				break
			}
		}
	}
	return found
}

// visit shows the descriptors of live rows that were not shown before. What was
// shown counts as known only if nothing failed.
func (l *liveness) visit(ctx context.Context, s *table.Snapshot, visit table.VisitDescriptors) error {
	m := s.Manifest()
	bases := fingerprint(s)
	for _, f := range columnsOf(s) {
		var keys []xxh3.Uint128
		first, rows := uint64(0), uint64(0) // a run of fragments that are new
		position := uint64(0)
		flush := func() error {
			if rows > 0 {
				req := table.ScanRequest{Columns: []string{f.Name}, Offset: first, Limit: &rows}
				if err := s.Descriptors(ctx, req, visit); err != nil {
					return fmt.Errorf("column %q: %w", f.Name, err)
				}
			}
			for _, k := range keys {
				l.read[k] = struct{}{}
			}
			keys, rows = nil, 0
			return nil
		}
		for i := range m.Fragments {
			fragment := &m.Fragments[i]
			key, held := columnKey(f, fragment, bases)
			if held && !l.knows(key) && fragment.LiveRows() > 0 {
				if rows == 0 {
					first = position
				}
				rows += fragment.LiveRows()
				keys = append(keys, key)
			} else if err := flush(); err != nil {
				return err
			}
			position += fragment.LiveRows()
		}
		if err := flush(); err != nil {
			return err
		}
	}
	return nil
}

// columnKey identifies what the live rows of a column of a fragment say: its data
// files, its deletion file and what bases mean. held is false when no file holds
// blob values that can be managed: those of format 2.1 and before cannot
// (SCH-12).
func columnKey(f *schema.Field, fragment *manifest.Fragment, bases string) (key xxh3.Uint128, held bool) {
	b := []byte(bases)
	number := func(n uint64) { b = binary.AppendUvarint(b, n) }
	base := func(id *uint32) {
		if id == nil {
			number(0)
			return
		}
		number(uint64(*id) + 1)
	}
	for leaf := range f.Blobs() {
		d, column := fragment.File(leaf.ID)
		if d == nil {
			number(0)
			continue
		}
		held = held || d.Major == 2 && d.Minor >= 2
		number(1)
		number(uint64(column))
		number(uint64(len(d.Path)))
		b = append(b, d.Path...)
		base(d.BaseID)
	}
	if d := fragment.Deletion; d != nil {
		number(fragment.ID)
		number(d.ReadVersion)
		number(d.ID)
		base(d.BaseID)
	}
	return xxh3.Hash128(b), held
}

// fingerprint is what places mean in a version: its root and its bases.
func fingerprint(s *table.Snapshot) string {
	bases := s.Manifest().Bases
	lines := make([]string, 0, len(bases)+1)
	for id, b := range bases {
		lines = append(lines, fmt.Sprintf("%d %t %s", id, b.IsDatasetRoot, b.Path))
	}
	slices.Sort(lines)
	return s.Root().String() + "\n" + strings.Join(lines, "\n") + "\n"
}

// keep adds the managed objects that live rows of a version refer to. A value
// that cannot be understood is an error (GC-11).
func (l *liveness) keep(ctx context.Context, s *table.Snapshot, n *names) error {
	r := s.Resolver()
	last := "" // most values are in the object of the one before
	return l.visit(ctx, s, func(f *schema.Field, c blob.Column, from, to int, owner *blob.Owner) error {
		for i := from; i < to; i++ {
			d, null, err := c.At(i)
			if null {
				continue
			}
			ok := false
			if err == nil {
				ok, err = managed(r, d)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", hint(f.FullName(), owner), err)
			}
			if !ok || d.URI == last {
				continue
			}
			last = strings.Clone(d.URI)
			n.objects[xxh3.HashString128(tail(last))] = struct{}{}
		}
		return nil
	})
}

// expire adds the managed objects below the root of a line that live rows of a
// version refer to which goes. What cannot be read or understood adds nothing.
func (l *liveness) expire(ctx context.Context, s *table.Snapshot, n *names) error {
	r := s.Resolver()
	bases := map[uint32]string{} // paths below the root, "-" for elsewhere
	err := l.visit(ctx, s, func(_ *schema.Field, c blob.Column, from, to int, owner *blob.Owner) error {
		for i := from; i < to; i++ {
			d, null, err := c.At(i)
			if null || err != nil {
				continue
			}
			if ok, err := managed(r, d); !ok || err != nil {
				continue
			}
			id := owner.BaseID
			if d.Kind == blob.ManagedBase {
				id = &d.ID
			}
			dir := ""
			if id != nil {
				known := false
				if dir, known = bases[*id]; !known {
					dir = "-"
					if folder, _, err := s.BaseFolder(ctx, id); err == nil {
						if rel, ok := below(s.Root(), folder); ok {
							dir = rel
						}
					}
					bases[*id] = dir
				}
			}
			if dir != "-" {
				n.objects[xxh3.HashString128(path.Join(dir, d.URI))] = struct{}{}
			}
		}
		return nil
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	_ = err // the files of a version that goes may be gone or damaged
	return nil
}
