package catalog

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/table"
	"github.com/flightblob/flightblob/table/manifest"
)

// The catalog table of a root and the columns that are read of it.
const (
	manifestTable = "__manifest"

	columnID       = "object_id"
	columnType     = "object_type"
	columnLocation = "location"

	typeNamespace = "namespace"
	typeTable     = "table"

	// readerFlags is the key of the flags that a reader must know, a decimal
	// number; none is defined so far.
	readerFlags = "lance.namespace.manifest.reader_feature_flags"
)

// registered is what the rows of one version of __manifest say.
type registered struct {
	of         *manifest.Manifest // the version; nil = there is no __manifest
	tables     map[string]string  // object id → location; "" = several rows claim the id
	namespaces []string           // sorted, each once
}

var unregistered = &registered{tables: map[string]string{}}

// rows gives the rows of the newest __manifest. They are read again only when
// there is a newer one.
func (r *root) rows(ctx context.Context) (*registered, error) {
	s, err := r.manifest.At(ctx, table.Ref{})
	if err != nil {
		if fault.KindOf(err) == fault.NotFound {
			return unregistered, nil
		}
		return nil, fmt.Errorf("catalog: open %s of catalog %s: %w", manifestTable, r.name, err)
	}
	r.mu.Lock()
	known := r.known
	r.mu.Unlock()
	if known != nil && known.of == s.Manifest() {
		return known, nil
	}
	known, err = readRows(ctx, s)
	if err != nil {
		return nil, fmt.Errorf("catalog: read %s of catalog %s: %w", manifestTable, r.name, err)
	}
	r.mu.Lock()
	r.known = known
	r.mu.Unlock()
	return known, nil
}

func readRows(ctx context.Context, s *table.Snapshot) (*registered, error) {
	if text, ok := s.Manifest().TableMetadata[readerFlags]; ok {
		flags, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return nil, fault.New(fault.Corrupt, "table metadata %s is %q, which is no number", readerFlags, text)
		}
		if flags != 0 {
			return nil, fault.New(fault.Unsupported, "table metadata %s is %d: it needs features that this program does not know", readerFlags, flags)
		}
	}
	scan, err := s.Scan(ctx, table.ScanRequest{Columns: []string{columnID, columnType, columnLocation}})
	if err != nil {
		return nil, err
	}
	defer scan.Release()
	found := &registered{of: s.Manifest(), tables: map[string]string{}}
	for scan.Next() {
		if err := found.add(scan.RecordBatch()); err != nil {
			return nil, err
		}
	}
	if err := scan.Err(); err != nil {
		return nil, err
	}
	slices.Sort(found.namespaces)
	found.namespaces = slices.Compact(found.namespaces)
	return found, nil
}

// texts is a column of either string type.
type texts interface {
	arrow.Array
	Value(i int) string
}

func (r *registered) add(batch arrow.RecordBatch) error {
	columns := make([]texts, 3)
	for i := range columns {
		c, ok := batch.Column(i).(texts)
		if !ok {
			return fault.New(fault.Corrupt, "column %s has type %s, expected text", batch.ColumnName(i), batch.Column(i).DataType())
		}
		columns[i] = c
	}
	ids, types, locations := columns[0], columns[1], columns[2]
	for i := range int(batch.NumRows()) {
		if ids.IsNull(i) || types.IsNull(i) {
			continue
		}
		id := strings.Clone(ids.Value(i))
		switch types.Value(i) {
		case typeNamespace:
			r.namespaces = append(r.namespaces, id)
		case typeTable:
			location := ""
			if _, twice := r.tables[id]; !twice && locations.IsValid(i) {
				location = strings.Clone(locations.Value(i))
			}
			r.tables[id] = location
		}
	}
	return nil
}

// locate finds the folder of a registered table. A location that is not a
// relative path below the root is refused.
func (r *root) locate(id, location string) (objstore.Location, error) {
	bad := func(why string) error {
		return fault.New(fault.Corrupt, "catalog: %s of catalog %s gives table %q the location %q, %s",
			manifestTable, r.name, id, location, why)
	}
	if location == "" {
		return objstore.Location{}, bad("or several rows have this object_id")
	}
	if strings.Contains(location, "://") || strings.HasPrefix(location, "/") || strings.ContainsAny(location, "\\\x00") {
		return objstore.Location{}, bad("which is not relative to the root")
	}
	for part := range strings.SplitSeq(location, "/") {
		if part == "" || part == "." || part == ".." {
			return objstore.Location{}, bad("which is not a path below the root")
		}
	}
	return r.loc.Join(location), nil
}
