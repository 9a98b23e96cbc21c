package flightsvc

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/schema"
	"github.com/flightblob/flightblob/table"
	"github.com/flightblob/flightblob/table/manifest"
)

// Description is what a snapshot's manifest says, for people and programs. Its
// JSON form is the answer of the describe action; the program's inspect command
// prints the same and more.
type Description struct {
	Table         string            `json:"table"`
	Version       uint64            `json:"version"`
	Branch        string            `json:"branch,omitempty"`
	Rows          uint64            `json:"rows"`
	DeletedRows   uint64            `json:"deleted_rows"`
	Committed     time.Time         `json:"committed"`
	Operation     string            `json:"operation,omitempty"`
	Writer        string            `json:"writer,omitempty"`
	FileVersion   string            `json:"file_version"`
	ReaderFlags   []string          `json:"reader_flags"`
	WriterFlags   []string          `json:"writer_flags"`
	Managed       bool              `json:"managed"` // the managed-blob capability is active
	Schema        string            `json:"schema"`  // one line per column, in the bytes face
	Metadata      map[string]string `json:"schema_metadata,omitempty"`
	Config        map[string]string `json:"config,omitempty"`
	TableMetadata map[string]string `json:"table_metadata,omitempty"`
	Blobs         []BlobColumn      `json:"blob_columns"`
	Bases         []BasePath        `json:"bases"`
	Indexes       []IndexInfo       `json:"indexes,omitempty"`
	Fragments     []FragmentInfo    `json:"fragments"`
	// FragmentCount counts all of them; Fragments may be cut short.
	FragmentCount int `json:"fragment_count"`
}

// BlobColumn is a blob field and where values of it are placed when written.
type BlobColumn struct {
	Column     string `json:"column"` // dotted path
	Field      int32  `json:"field"`
	Legacy     bool   `json:"legacy,omitempty"`
	Nullable   bool   `json:"nullable"`
	Thresholds `json:"thresholds"`
}

// Thresholds are the byte sizes that decide placement (WRT-1, PCK-2): longer
// than Dedicated gets an object of its own, longer than Inline is packed, and a
// pack ends at Pack.
type Thresholds struct {
	Inline    uint64 `json:"inline"`
	Dedicated uint64 `json:"dedicated"`
	Pack      uint64 `json:"pack"`
}

// BasePath is a registered base.
type BasePath struct {
	ID          uint32 `json:"id"`
	Name        string `json:"name,omitempty"`
	Path        string `json:"path"`
	DatasetRoot bool   `json:"dataset_root"`
}

// IndexInfo is an entry of the index section; several of one name are the
// segments of one index.
type IndexInfo struct {
	Name    string   `json:"name"`
	Type    string   `json:"type"`    // "BTree", "Bitmap", …
	Columns []string `json:"columns"` // dotted paths; the number of a field that is no more
	Version uint64   `json:"version"` // of the table when it was indexed
	// Fragments of the version that it knows, and their live rows.
	Fragments int    `json:"fragments"`
	Rows      uint64 `json:"rows"`
	Used      bool   `json:"used"` // conditions may be answered by it
}

// FragmentInfo is one fragment with its files.
type FragmentInfo struct {
	ID          uint64     `json:"id"`
	Rows        uint64     `json:"rows"` // live
	DeletedRows uint64     `json:"deleted_rows"`
	Files       []FileInfo `json:"files"`
}

// FileInfo is a data file of a fragment.
type FileInfo struct {
	Path    string  `json:"path"` // relative to its data directory
	Base    *uint32 `json:"base,omitempty"`
	Bytes   uint64  `json:"bytes,omitempty"` // 0 = the manifest does not say
	Version string  `json:"version"`
	Fields  []int32 `json:"fields"`
}

// Describe tells what a snapshot's manifest says, with at most maxFragments
// fragments one by one. It reads nothing.
func Describe(snap *table.Snapshot, maxFragments int) (*Description, error) {
	m := snap.Manifest()
	text, err := schemaText(snap.Schema())
	if err != nil {
		return nil, err
	}
	d := &Description{
		Table: snap.Table().Name(), Version: snap.Version(), Branch: m.Branch, Rows: snap.Rows(),
		Committed: m.Timestamp.UTC(), Operation: m.Operation, Writer: m.WriterVersion, FileVersion: m.DataFormat,
		ReaderFlags: flagNames(m.ReaderFlags), WriterFlags: flagNames(m.WriterFlags), Managed: m.ManagedBlobs(),
		Schema: text, Metadata: snap.Schema().Metadata, Config: m.Config, TableMetadata: m.TableMetadata,
		Blobs: []BlobColumn{}, Bases: []BasePath{}, Fragments: []FragmentInfo{}, FragmentCount: len(m.Fragments),
	}
	for f := range snap.Schema().Blobs() {
		d.Blobs = append(d.Blobs, BlobColumn{
			Column: f.FullName(), Field: int32(f.ID), Legacy: f.Blob == schema.LegacyBlob,
			Nullable: f.Nullable, Thresholds: thresholdsOf(f),
		})
	}
	for _, b := range m.Bases {
		d.Bases = append(d.Bases, BasePath{ID: b.ID, Name: b.Name, Path: b.Path, DatasetRoot: b.IsDatasetRoot})
	}
	slices.SortFunc(d.Bases, func(a, b BasePath) int { return cmp.Compare(a.ID, b.ID) })
	for i := range m.Indexes {
		d.Indexes = append(d.Indexes, indexInfo(snap, &m.Indexes[i]))
	}
	for i := range m.Fragments {
		f := &m.Fragments[i]
		d.DeletedRows += f.PhysicalRows - f.LiveRows()
		if i < maxFragments {
			d.Fragments = append(d.Fragments, fragmentInfo(f))
		}
	}
	return d, nil
}

func indexInfo(snap *table.Snapshot, x *manifest.Index) IndexInfo {
	info := IndexInfo{Name: x.Name, Type: x.Type, Columns: []string{}, Version: x.DatasetVersion}
	for _, id := range x.Fields {
		name := strconv.Itoa(int(id))
		if f := snap.Schema().ByID(id); f != nil {
			name = f.FullName()
			info.Used = info.Used || snap.IndexedBy(f) && x.Searchable()
		}
		info.Columns = append(info.Columns, name)
	}
	for _, f := range snap.Manifest().Fragments {
		if x.Fragments != nil && x.Fragments.Contains(uint32(f.ID)) {
			info.Fragments++
			info.Rows += f.LiveRows()
		}
	}
	return info
}

func fragmentInfo(f *manifest.Fragment) FragmentInfo {
	info := FragmentInfo{ID: f.ID, Rows: f.LiveRows(), DeletedRows: f.PhysicalRows - f.LiveRows(), Files: []FileInfo{}}
	for i := range f.Files {
		file := &f.Files[i]
		fields := make([]int32, len(file.Fields))
		for j, id := range file.Fields {
			fields[j] = int32(id)
		}
		info.Files = append(info.Files, FileInfo{
			Path: file.Path, Base: file.BaseID, Bytes: file.Size, Fields: fields,
			Version: fmt.Sprintf("%d.%d", file.Major, file.Minor),
		})
	}
	return info
}

// schemaText prints the columns in the bytes face, one line each.
func schemaText(sch *schema.Schema) (string, error) {
	var b strings.Builder
	for _, f := range sch.Fields {
		field, err := f.Arrow(schema.Materialized)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "%s: %s", field.Name, field.Type)
		if !field.Nullable {
			b.WriteString(" not null")
		}
		b.WriteByte('\n')
	}
	return b.String(), nil
}

// Field metadata keys of thresholds and their defaults (sheet section 7).
const (
	keyInline    = "lance-encoding:blob-inline-size-threshold"
	keyDedicated = "lance-encoding:blob-dedicated-size-threshold"
	keyPack      = "lance-encoding:blob-pack-file-size-threshold"
)

func thresholdsOf(f *schema.Field) Thresholds {
	value := func(key string, def uint64) uint64 {
		if n, err := strconv.ParseUint(strings.TrimPrefix(f.Metadata[key], "+"), 10, 64); err == nil {
			return n
		}
		return def
	}
	return Thresholds{Inline: value(keyInline, 64<<10), Dedicated: value(keyDedicated, 4<<20), Pack: value(keyPack, 1<<30)}
}

// flagWords names the feature flag bits, table-format sheet section 3.
var flagWords = [...]string{
	"deletion_files", "stable_row_ids", "old_v2_marker", "table_config", "base_paths", "no_transaction_files",
	"overlays", "covering_columns", "mixed_file_versions", "reuse_with_row_ids", "tagged_reuse", "lineage_columns",
	"fragment_tree", "covering_fields", "managed_blobs", "field_ids_kept", "zone_seeds", "object_metadata",
}

func flagNames(f manifest.Flags) []string {
	names := []string{}
	for bit := range 64 {
		if f>>bit&1 == 0 {
			continue
		}
		if bit < len(flagWords) {
			names = append(names, flagWords[bit])
		} else {
			names = append(names, fmt.Sprintf("bit_%d", bit))
		}
	}
	return names
}

// StoreUse is what was asked of stores, in the describe action's answer.
type StoreUse struct {
	Requests int64       `json:"requests"`
	Bytes    int64       `json:"bytes"`
	Objects  []ObjectUse `json:"objects,omitempty"`
}

// ObjectUse is StoreUse of one object.
type ObjectUse struct {
	Object   string `json:"object"` // relative to the table's root, or a URI elsewhere
	Requests int64  `json:"requests"`
	Bytes    int64  `json:"bytes"`
	// Ranges are [offset, length] of the first reads, as many as the counter
	// keeps.
	Ranges [][2]int64 `json:"ranges,omitempty"`
}

// maxObjects bounds the objects that describe lists, to keep its answer small.
const maxObjects = 2000

// storeUse sums what the server has asked of the objects below a table's root
// and its bases since it started.
func storeUse(counter *objstore.Counter, snap *table.Snapshot) *StoreUse {
	if counter == nil {
		return nil
	}
	root := strings.TrimSuffix(snap.Table().Root().String(), "/") + "/"
	var bases []string
	for _, b := range snap.Manifest().Bases {
		bases = append(bases, strings.TrimSuffix(strings.TrimPrefix(b.Path, "file://"), "/")+"/")
	}
	use := &StoreUse{Objects: []ObjectUse{}}
	for _, o := range counter.Snapshot().Objects {
		name, inside := strings.CutPrefix(o.URI+"/", root)
		name = strings.TrimSuffix(name, "/")
		if !inside {
			name = o.URI
			inside = slices.ContainsFunc(bases, func(b string) bool { return strings.HasPrefix(o.URI, b) })
		}
		if !inside {
			continue
		}
		use.Requests += o.Requests()
		use.Bytes += o.Payload()
		if name == "" {
			name = "."
		}
		if len(use.Objects) < maxObjects {
			seen := ObjectUse{Object: name, Requests: o.Requests(), Bytes: o.Payload()}
			for _, r := range o.Ranges {
				seen.Ranges = append(seen.Ranges, [2]int64{r.Offset, r.Length})
			}
			use.Objects = append(use.Objects, seen)
		}
	}
	return use
}
