package table

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/schema"
	"github.com/flightblob/flightblob/table/manifest"
)

// Settings are what a user can say about a table beside its columns, at creation
// or later: interface.md, WITH (…) and SET (…).
type Settings struct {
	Managed     *bool // the managed-blob opt-in (CAP-1)
	FileVersion string
	// Thresholds has the placement thresholds of blob columns, in bytes, by dotted
	// name without list levels and what is set: "img.inline", "pages.scan.pack".
	Thresholds map[string]uint64
}

// thresholdKeys are the last parts of the names of thresholds.
var thresholdKeys = map[string]string{
	"inline": schema.KeyInline, "dedicated": schema.KeyDedicated, "pack": schema.KeyPack,
}

// ParseSettings reads settings by name. Unknown names and bad values are
// fault.Invalid and say what there is.
func ParseSettings(values map[string]string) (*Settings, error) {
	s := &Settings{Thresholds: map[string]uint64{}}
	for name, value := range values {
		dot := strings.LastIndexByte(name, '.')
		switch {
		case name == "managed":
			on, err := strconv.ParseBool(strings.ToLower(value))
			if err != nil {
				return nil, fault.New(fault.Invalid, "table: setting managed is %q; it is true or false", value)
			}
			s.Managed = &on
		case name == "file_version":
			if _, ok := writable[value]; !ok {
				return nil, fault.New(fault.Invalid, "table: setting file_version is %q; it is 2.2 or 2.3", value)
			}
			s.FileVersion = value
		case dot > 0 && thresholdKeys[name[dot+1:]] != "":
			n, err := strconv.ParseUint(value, 10, 63)
			if err != nil {
				return nil, fault.New(fault.Invalid, "table: setting %s is %q; it is a number of bytes", name, value)
			}
			if n == 0 && !strings.HasSuffix(name, ".inline") {
				return nil, fault.New(fault.Invalid, "table: setting %s is 0; it must be at least 1", name)
			}
			s.Thresholds[name] = n
		default:
			return nil, fault.New(fault.Invalid, `table: there is no setting %q; there is managed, file_version, and for each blob column "COLUMN.inline", "COLUMN.dedicated" and "COLUMN.pack"`, name)
		}
	}
	return s, nil
}

// fields gives the metadata that thresholds mean, by field.
func (s *Settings) fields(tree *schema.Schema) (map[schema.FieldID]map[string]string, error) {
	blobs, names := map[string]*schema.Field{}, []string{}
	for f := range tree.Blobs() {
		name := nameWithoutLists(f)
		blobs[name] = f
		names = append(names, name)
	}
	out := map[schema.FieldID]map[string]string{}
	for name, bytes := range s.Thresholds {
		dot := strings.LastIndexByte(name, '.')
		f := blobs[name[:dot]]
		if f == nil {
			return nil, fault.New(fault.Invalid, "table: setting %s: there is no blob column %q; %s", name, name[:dot], existing("blob column", names))
		}
		if out[f.ID] == nil {
			out[f.ID] = map[string]string{}
		}
		out[f.ID][thresholdKeys[name[dot+1:]]] = strconv.FormatUint(bytes, 10)
	}
	return out, nil
}

// nameWithoutLists is the dotted name of a field by which users know it.
func nameWithoutLists(f *schema.Field) string {
	var names []string
	inList := false
	for _, p := range f.Path() {
		if !inList {
			names = append(names, p.Name)
		}
		inList = p.Shape == schema.List || p.Shape == schema.LargeList
	}
	return strings.Join(names, ".")
}

// on gives a new table's schema with the settings in its metadata.
func (s *Settings) on(tree *schema.Schema) (*schema.Schema, error) {
	fields, err := s.fields(tree)
	if err != nil {
		return nil, err
	}
	records := tree.Records()
	for i := range records {
		for key, value := range fields[records[i].ID] {
			if records[i].Metadata == nil {
				records[i].Metadata = map[string]string{}
			}
			records[i].Metadata[key] = value
		}
	}
	metadata := map[string]string{}
	for k, v := range tree.Metadata {
		metadata[k] = v
	}
	if s.Managed != nil {
		metadata[schema.KeyManaged] = strconv.FormatBool(*s.Managed)
	}
	out, err := schema.FromRecords(records, metadata)
	if err != nil {
		return nil, fault.New(fault.Invalid, "%w", err)
	}
	for f := range out.Blobs() {
		if _, err := f.Thresholds(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Set changes settings of a table for later writes; nothing that is stored is
// rewritten (CAP-6, WRT-8). It answers the version that says so.
func (t *Table) Set(ctx context.Context, branch string, s *Settings) (*Snapshot, error) {
	if s.FileVersion != "" {
		return nil, fault.New(fault.Invalid, "table: file_version is chosen when a table is created; a single write can name another one")
	}
	base, err := t.At(ctx, Ref{Branch: branch})
	if err != nil {
		return nil, err
	}
	if _, err := s.on(base.Schema()); err != nil {
		return nil, err
	}
	fields, err := s.fields(base.Schema())
	if err != nil {
		return nil, err
	}
	op := &manifest.UpdateConfig{}
	if len(fields) > 0 {
		op.FieldMetadata = map[schema.FieldID]manifest.UpdateMap{}
		for id, values := range fields {
			op.FieldMetadata[id] = updates(values)
		}
	}
	if s.Managed != nil {
		change := updates(map[string]string{schema.KeyManaged: strconv.FormatBool(*s.Managed)})
		op.SchemaMetadata = &change
	}
	if op.FieldMetadata == nil && op.SchemaMetadata == nil {
		return nil, fault.New(fault.Invalid, "table: no setting is given")
	}
	tx := &manifest.Transaction{ReadVersion: base.Version(), UUID: uuid.NewString(), Op: op}
	return t.Commit(ctx, branch, tx, CommitOptions{})
}

// OptInNotice is what whoever opts a table in to managed blobs is told (GC-13).
const OptInNotice = "blob objects of the table are managed from now on: first stop or upgrade every other client that maintains it " +
	"(compaction, cleanup) and does not know managed blobs; one that has an older version at hand can delete objects that are in use"

// OptedIn tells whether a change of a table, new when before is nil, was the one
// that opted it in to managed blobs.
func OptedIn(before, after *Snapshot) bool {
	return after.Manifest().ManagedBlobs() && (before == nil || !before.Manifest().ManagedBlobs())
}

func updates(values map[string]string) manifest.UpdateMap {
	var u manifest.UpdateMap
	for key, value := range values {
		u.Entries = append(u.Entries, manifest.UpdateEntry{Key: key, Value: &value})
	}
	slices.SortFunc(u.Entries, func(a, b manifest.UpdateEntry) int { return strings.Compare(a.Key, b.Key) })
	return u
}

// AddBase registers a base path: a folder, named by path or URI, in which files
// of the table, or objects that its External values name, may lie. The server
// must be allowed to touch it. A name or path that is registered already is
// refused, and an id is never bound anew (CAP-8).
func (t *Table) AddBase(ctx context.Context, branch string, b manifest.Base) (*Snapshot, error) {
	b, err := t.env.checkedBase(ctx, b)
	if err != nil {
		return nil, err
	}
	base, err := t.At(ctx, Ref{Branch: branch})
	if err != nil {
		return nil, err
	}
	tx := &manifest.Transaction{ReadVersion: base.Version(), UUID: uuid.NewString(), Op: &manifest.UpdateBases{Bases: []manifest.Base{b}}}
	return t.Commit(ctx, branch, tx, CommitOptions{})
}

// checkedBase brings the path of a base into the form that manifests hold:
// absolute, local ones without a scheme. It must lie in a root or where External
// values may.
func (e *Env) checkedBase(ctx context.Context, b manifest.Base) (manifest.Base, error) {
	if b.Path == "" {
		return b, fault.New(fault.Invalid, "table: a base has no path")
	}
	loc, err := e.Locate(ctx, b.Path)
	if err == nil {
		err = e.access.Allows(loc.String()) // whoever registered one elsewhere could read it from then on
	}
	if err != nil {
		return b, fmt.Errorf("table: base %q: %w", b.Path, err)
	}
	b.Path = strings.TrimRight(loc.String(), "/")
	return b, nil
}
