package table

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/flightblob/flightblob/blob"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/schema"
)

// FragmentInfo is what the manifest says about a fragment.
type FragmentInfo struct {
	ID          uint64
	Rows        uint64 // live ones
	DeletedRows uint64
	Files       []FileInfo
}

// FileInfo is what the manifest says about a data file.
type FileInfo struct {
	Fragment uint64
	Path     string  // relative to its data directory
	BaseID   *uint32 // nil = the table's own root
	Bytes    uint64  // 0 = the manifest does not say
	Version  string  // "2.2"
	Columns  int     // columns of fields that the schema still has
}

// Fragments lists the fragments with their data files. It reads nothing.
func (s *Snapshot) Fragments() []FragmentInfo {
	infos := make([]FragmentInfo, len(s.Manifest().Fragments))
	for i := range infos {
		f := &s.Manifest().Fragments[i]
		info := FragmentInfo{ID: f.ID, Rows: f.LiveRows(), DeletedRows: f.PhysicalRows - f.LiveRows()}
		for j := range f.Files {
			d := &f.Files[j]
			file := FileInfo{Fragment: f.ID, Path: d.Path, BaseID: d.BaseID, Bytes: d.Size, Version: d.Format()}
			for _, id := range d.Fields {
				if id >= 0 && s.Schema().ByID(id) != nil {
					file.Columns++
				}
			}
			info.Files = append(info.Files, file)
		}
		infos[i] = info
	}
	return infos
}

// BlobUsage counts the values of a blob leaf that are of one kind and, if asked
// for, lie in one object. Null values are not counted.
type BlobUsage struct {
	Column string // full name of the leaf
	Kind   blob.Kind
	Object string // relative to the table's root when it lies there, else a URI; "" = of all objects, or of empty values
	Count  uint64 // values
	Bytes  uint64 // their lengths; those of Whole are not known
	Whole  uint64 // External values whose length is that of the object (NUL-9)
}

// BlobUsage scans the descriptors of some columns (nil = all), without reading
// any payload, and sums them by leaf and kind, and by object as well when
// byObject is set. Descriptors that cannot be resolved count with Object "?".
func (s *Snapshot) BlobUsage(ctx context.Context, columns []string, byObject bool) ([]BlobUsage, error) {
	if columns == nil {
		columns = []string{}
		for _, f := range s.Schema().Fields {
			for range f.Blobs() {
				columns = append(columns, f.Name)
				break
			}
		}
	}
	u := usage{snapshot: s, resolver: s.Resolver(), byObject: byObject, sums: map[usageKey]*BlobUsage{}}
	err := s.Descriptors(ctx, ScanRequest{Columns: columns}, func(f *schema.Field, c blob.Column, from, to int, owner *blob.Owner) error {
		u.count(ctx, f, c, from, to, owner)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return u.sorted(), nil
}

type usageKey struct {
	column string
	kind   blob.Kind
	object string
}

type usage struct {
	snapshot *Snapshot
	resolver *blob.Resolver
	byObject bool
	sums     map[usageKey]*BlobUsage
}

func (u *usage) count(ctx context.Context, f *schema.Field, c blob.Column, from, to int, owner *blob.Owner) {
	name := f.FullName()
	for i := from; i < to; i++ {
		d, null, err := c.At(i)
		if null {
			continue
		}
		key := usageKey{column: name, kind: d.Kind}
		if err != nil {
			key.object = "?"
		} else if u.byObject {
			key.object = u.object(ctx, d, owner)
		}
		sum := u.sums[key]
		if sum == nil {
			key.object = strings.Clone(key.object)
			sum = &BlobUsage{Column: name, Kind: d.Kind, Object: key.object}
			u.sums[key] = sum
		}
		sum.Count++
		sum.Bytes += d.Size
		if d.Kind == blob.External && d.Size == 0 {
			sum.Whole++
		}
	}
}

// object names the object that a value lies in.
func (u *usage) object(ctx context.Context, d blob.Descriptor, owner *blob.Owner) string {
	e, err := u.resolver.Resolve(ctx, d, owner)
	switch {
	case err != nil:
		return "?"
	case e.Object.Store == nil: // an empty value is nowhere
		return ""
	}
	return u.snapshot.relative(e.Object)
}

// relative names an object by its path below the table's root, or by its URI.
func (s *Snapshot) relative(loc objstore.Location) string {
	uri := loc.String()
	if rest, ok := strings.CutPrefix(uri, s.table.root.String()+"/"); ok {
		return rest
	}
	return uri
}

func (u *usage) sorted() []BlobUsage {
	all := make([]BlobUsage, 0, len(u.sums))
	for _, sum := range u.sums {
		all = append(all, *sum)
	}
	slices.SortFunc(all, func(a, b BlobUsage) int {
		return cmp.Or(strings.Compare(a.Column, b.Column), cmp.Compare(a.Kind, b.Kind), strings.Compare(a.Object, b.Object))
	})
	return all
}
