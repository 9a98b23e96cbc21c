package manifest

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/internal/lancepb"
	"github.com/flightblob/flightblob/schema"
	"github.com/flightblob/flightblob/table/rowset"
)

// FragmentReuse is the name of the system index that says where the rows of
// compacted fragments went (section 7.4). Names of system indexes start with
// systemIndex.
const (
	FragmentReuse = "__lance_frag_reuse"
	systemIndex   = "__lance_"
)

// The types of index that are searched.
const (
	BTree       = "BTree"
	BitmapIndex = "Bitmap"
)

// Index is one entry of the index section (section 2.6). Several entries of one
// name are the segments of one index.
type Index struct {
	UUID   string // names the folder of its files
	Name   string
	Fields []schema.FieldID
	// DatasetVersion is the version that was indexed.
	DatasetVersion uint64
	// Fragments are those whose rows the index knows, as far as they still
	// exist; nil means that the writer did not say.
	Fragments *rowset.Bitmap
	// Type is the kind of index by the name of its details message, without its
	// package and the ending: "BTree", "Bitmap", …; "" when it has no details.
	Type      string
	Details   []byte // the details message
	Version   int32  // of the index format of this type
	CreatedAt time.Time
	BaseID    *uint32
	Files     []IndexFile // empty when the writer listed none
}

// IndexFile is a file in the folder of an index.
type IndexFile struct {
	Path string
	Size uint64
}

// Searchable says that an index is of a type that is searched, over one column.
// What fragments it knows must be said, since nothing else tells which rows may be
// missing.
func (x *Index) Searchable() bool {
	return (x.Type == BTree || x.Type == BitmapIndex) && len(x.Fields) == 1 && x.Fragments != nil && !x.System()
}

// NamesIDs says that an index of a table with stable row ids is known to name
// rows by them. B-trees of version 1 name addresses, also where rows have stable
// ids; so may indexes of types that are not searched here.
func (x *Index) NamesIDs() bool {
	return x.Type == BitmapIndex || x.Type == BTree && x.Version == 0
}

// System says that an index is bookkeeping of the format, not over columns.
func (x *Index) System() bool { return strings.HasPrefix(x.Name, systemIndex) }

// setIndexes keeps the entries of an index section as they are, and reads them.
// Indexes only make reading faster, so an entry that cannot be understood is
// left out of Indexes and fails nothing.
func (m *Manifest) setIndexes(entries [][]byte) {
	m.entries, m.IndexCount, m.Indexes = entries, len(entries), nil
	for _, entry := range entries {
		if x, ok := decodeIndex(entry); ok {
			m.Indexes = append(m.Indexes, x)
		}
	}
}

func decodeIndex(data []byte) (Index, bool) {
	pb := new(lancepb.IndexMetadata)
	if proto.Unmarshal(data, pb) != nil || known(pb) != nil {
		return Index{}, false
	}
	id, ok := indexUUID(pb.GetUuid())
	if !ok {
		return Index{}, false
	}
	x := Index{
		UUID: id, Name: pb.GetName(), DatasetVersion: pb.GetDatasetVersion(),
		Type: indexType(pb.GetIndexDetails().GetTypeUrl()), Details: pb.GetIndexDetails().GetValue(),
		Version: pb.GetIndexVersion(), BaseID: pb.BaseId,
	}
	for _, f := range pb.GetFields() {
		x.Fields = append(x.Fields, schema.FieldID(f))
	}
	if pb.CreatedAt != nil {
		x.CreatedAt = time.UnixMilli(int64(pb.GetCreatedAt())).UTC()
	}
	if raw := pb.GetFragmentBitmap(); len(raw) > 0 {
		var err error
		if x.Fragments, err = rowset.DecodeBitmap(raw); err != nil {
			return Index{}, false
		}
	}
	for _, f := range pb.GetFiles() {
		if checkRelative(f.GetPath()) != nil {
			return Index{}, false
		}
		x.Files = append(x.Files, IndexFile{Path: f.GetPath(), Size: f.GetSizeBytes()})
	}
	return x, true
}

// IndexFolder is where the files of an entry of the index section lie: a folder of
// this name in the folder for indexes of a base.
type IndexFolder struct {
	UUID   string
	BaseID *uint32
}

// IndexFolders lists the folders of all entries, also of those that are not
// understood otherwise: who removes files must know them all.
func (m *Manifest) IndexFolders() ([]IndexFolder, error) {
	entries, err := parseEntries(m.entries)
	if err != nil {
		return nil, err
	}
	folders := make([]IndexFolder, len(entries))
	for i, e := range entries {
		id, ok := indexUUID(e.pb.GetUuid())
		if !ok {
			return nil, fault.Corruptf(-1, "manifest: entry %d of the index section, %q, has no id", i, e.pb.GetName())
		}
		folders[i] = IndexFolder{UUID: id, BaseID: e.pb.BaseId}
	}
	return folders, nil
}

// indexUUID spells the id, which stands in a message of its own: field 1, 16
// bytes.
func indexUUID(message []byte) (string, bool) {
	number, kind, n := protowire.ConsumeTag(message)
	if n < 0 || number != 1 || kind != protowire.BytesType {
		return "", false
	}
	raw, n := protowire.ConsumeBytes(message[n:])
	if n < 0 || len(raw) != 16 {
		return "", false
	}
	return fmt.Sprintf("%x-%x-%x-%x-%x", raw[:4], raw[4:6], raw[6:8], raw[8:10], raw[10:]), true
}

// indexType cuts "BTree" out of "/lance.table.BTreeIndexDetails".
func indexType(url string) string {
	name := url[strings.LastIndexAny(url, "/.")+1:]
	return strings.TrimSuffix(strings.TrimSuffix(name, "Details"), "Index")
}
