package manifest

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/internal/lancepb"
	"github.com/flightblob/flightblob/schema"
)

const (
	footerSize = 16
	magic      = "LANC"
)

// maxRows is how many rows a fragment can have: a row's offset in its fragment
// is the low half of its address.
const maxRows = 1 << 32

// Decode reads a whole manifest file, table-format sheet sections 1.3 and 2.
//
// The footer's position says where the message is; bytes between sections and
// the footer's version numbers do not matter. A transaction that does not decode
// leaves Operation empty. Feature flags are kept, not judged: call
// CheckReadable before rows are read. Only when the rest of the manifest cannot
// be understood do flags of a newer writer turn up here, as the likelier cause.
func Decode(data []byte) (*Manifest, error) {
	body, err := message(data)
	if err != nil {
		return nil, err
	}
	pb := new(lancepb.Manifest)
	if err := proto.Unmarshal(body, pb); err != nil {
		return nil, fault.Corruptf(int64(len(data)-footerSize-len(body)), "manifest: not a manifest message: %v", err)
	}
	m, err := fromMessage(pb)
	if err != nil {
		flags := Manifest{ReaderFlags: Flags(pb.GetReaderFeatureFlags())}
		if newer := flags.checkKnown(); newer != nil {
			return nil, newer
		}
		return nil, err
	}
	entries, err := indexEntries(data, pb)
	if err != nil {
		return nil, err
	}
	m.setIndexes(entries)
	m.Operation = inlineOperation(data, pb)
	return m, nil
}

// message finds the bytes of the Manifest message by the footer.
func message(data []byte) ([]byte, error) {
	if len(data) < footerSize+4 {
		return nil, fault.Corruptf(0, "manifest: a file of %d bytes is too short for a manifest", len(data))
	}
	end := len(data) - footerSize
	if string(data[len(data)-4:]) != magic {
		return nil, fault.Corruptf(int64(len(data)-4), "manifest: the file does not end with %q", magic)
	}
	position := binary.LittleEndian.Uint64(data[end:])
	body, err := section(data[:end], position)
	if err != nil {
		return nil, fault.Corruptf(int64(end), "manifest: the footer names position %d: %v", int64(position), err)
	}
	return body, nil
}

// section gives the message behind the length at a position.
func section(data []byte, position uint64) ([]byte, error) {
	size := uint64(len(data))
	if size < 4 || position > size-4 {
		return nil, fmt.Errorf("it lies outside the %d bytes before the footer", size)
	}
	length := uint64(binary.LittleEndian.Uint32(data[position:]))
	if length > size-4-position {
		return nil, fmt.Errorf("a message of %d bytes there ends outside the %d bytes before the footer", length, size)
	}
	return data[position+4 : position+4+length], nil
}

func fromMessage(pb *lancepb.Manifest) (*Manifest, error) {
	if err := checkWire(pb); err != nil {
		return nil, err
	}
	tree, err := schema.FromRecords(records(pb.GetFields()), texts(pb.GetSchemaMetadata()))
	if err != nil {
		return nil, err
	}
	m := &Manifest{
		Version:       pb.GetVersion(),
		Schema:        tree,
		ReaderFlags:   Flags(pb.GetReaderFeatureFlags()),
		WriterFlags:   Flags(pb.GetWriterFeatureFlags()),
		WriterVersion: writerVersion(pb.GetWriterVersion()),
		Config:        pb.GetConfig(),
		TableMetadata: pb.GetTableMetadata(),
		Branch:        pb.GetBranch(),
		NextRowID:     pb.GetNextRowId(),
		MaxFragmentID: pb.MaxFragmentId,
		TransactionID: pb.GetTransactionFile(),
		fragmentTree:  len(pb.GetFragmentTree()) > 0,
		tag:           pb.GetTag(),
		aux:           pb.GetVersionAuxData(),
		unknown:       pb.ProtoReflect().GetUnknown(),
	}
	if pb.MaxAllocatedFieldId != nil {
		id := schema.FieldID(pb.GetMaxAllocatedFieldId())
		m.MaxAllocatedFieldID = &id
	}
	if err := m.setTimestamp(pb.GetTimestamp()); err != nil {
		return nil, err
	}
	if err := m.setBases(pb.GetBasePaths()); err != nil {
		return nil, err
	}
	if err := m.setFragments(pb.GetFragments()); err != nil {
		return nil, err
	}
	if err := m.checkColumns(); err != nil {
		return nil, err
	}
	return m, m.setDataFormat(pb.GetDataFormat())
}

func records(fields []*lancepb.Field) []schema.Record {
	out := make([]schema.Record, len(fields))
	for i, f := range fields {
		out[i] = schema.Record{
			ID:          schema.FieldID(f.GetId()),
			ParentID:    schema.FieldID(f.GetParentId()),
			Name:        f.GetName(),
			LogicalType: f.GetLogicalType(),
			Nullable:    f.GetNullable(),
			Extension:   f.GetExtensionName(),
			Metadata:    texts(f.GetMetadata()),
			Carried: schema.Carried{
				Type:                  f.GetType(),
				Encoding:              schema.Encoding(f.GetEncoding()),
				PrimaryKey:            f.GetUnenforcedPrimaryKey(),
				PrimaryKeyPosition:    f.GetUnenforcedPrimaryKeyPosition(),
				ClusteringKey:         f.GetUnenforcedClusteringKey(),
				ClusteringKeyPosition: f.GetUnenforcedClusteringKeyPosition(),
				Unknown:               f.ProtoReflect().GetUnknown(),
			},
		}
		if d := f.GetDictionary(); d != nil {
			out[i].Carried.Dictionary = &schema.Dictionary{Offset: d.GetOffset(), Length: d.GetLength()}
		}
	}
	return out
}

// texts reads metadata values, which are bytes on the wire, as UTF-8.
func texts(m map[string][]byte) map[string]string {
	out := make(map[string]string, len(m))
	for k, v := range m {
		out[k] = strings.ToValidUTF8(string(v), "\uFFFD")
	}
	return out
}

func writerVersion(v *lancepb.Manifest_WriterVersion) string {
	s := strings.TrimSpace(v.GetLibrary() + " " + v.GetVersion())
	if p := v.GetPrerelease(); p != "" {
		s += "-" + p
	}
	if b := v.GetBuildMetadata(); b != "" {
		s += "+" + b
	}
	return s
}

func (m *Manifest) setTimestamp(t *lancepb.Timestamp) error {
	if t.GetNanos() < 0 || t.GetNanos() > 999_999_999 {
		return fault.Corruptf(-1, "manifest: the timestamp has %d nanoseconds", t.GetNanos())
	}
	if t != nil {
		m.Timestamp = time.Unix(t.GetSeconds(), int64(t.GetNanos())).UTC()
	}
	return nil
}

func (m *Manifest) setBases(bases []*lancepb.BasePath) error {
	m.Bases = make(map[uint32]Base, len(bases))
	for _, b := range bases {
		id := b.GetId()
		if _, taken := m.Bases[id]; taken {
			return fault.Corruptf(-1, "manifest: base id %d is registered twice", id)
		}
		if b.GetPath() == "" {
			return fault.Corruptf(-1, "manifest: base %d has an empty path", id)
		}
		m.Bases[id] = baseFrom(b)
	}
	return nil
}

func baseFrom(b *lancepb.BasePath) Base {
	return Base{
		ID: b.GetId(), Name: b.GetName(), IsDatasetRoot: b.GetIsDatasetRoot(), Path: b.GetPath(),
		unknown: string(b.ProtoReflect().GetUnknown()),
	}
}

func (m *Manifest) setFragments(list []*lancepb.DataFragment) error {
	m.Fragments = make([]Fragment, len(list))
	for i, pb := range list {
		m.overlays = m.overlays || len(pb.GetOverlays()) > 0
		f := &m.Fragments[i]
		if err := f.set(pb); err != nil {
			return err
		}
	}
	byID := func(a, b Fragment) int {
		switch {
		case a.ID < b.ID:
			return -1
		case a.ID > b.ID:
			return 1
		}
		return 0
	}
	// Writers list fragments by id, and rows come in that order.
	if !slices.IsSortedFunc(m.Fragments, byID) {
		slices.SortStableFunc(m.Fragments, byID)
	}
	for i := 1; i < len(m.Fragments); i++ {
		if m.Fragments[i].ID == m.Fragments[i-1].ID {
			return fault.Corruptf(-1, "manifest: fragment id %d is given twice", m.Fragments[i].ID)
		}
	}
	return nil
}

func (f *Fragment) set(pb *lancepb.DataFragment) error {
	f.ID = pb.GetId()
	f.PhysicalRows = pb.GetPhysicalRows()
	f.unknown = pb.ProtoReflect().GetUnknown()
	if f.ID > math.MaxUint32 {
		return fault.Corruptf(-1, "manifest: fragment id %d does not fit into 32 bits", f.ID)
	}
	if f.PhysicalRows > maxRows {
		return fault.Corruptf(-1, "manifest: fragment %d has %d rows; row addresses allow 2^32", f.ID, f.PhysicalRows)
	}
	f.Files = make([]DataFile, len(pb.GetFiles()))
	for i, file := range pb.GetFiles() {
		if err := f.Files[i].set(file); err != nil {
			return fmt.Errorf("manifest: fragment %d: %w", f.ID, err)
		}
	}
	if err := f.setDeletion(pb.GetDeletionFile()); err != nil {
		return err
	}
	switch s := pb.GetRowIdSequence().(type) {
	case *lancepb.DataFragment_InlineRowIds:
		f.RowIDs = present(s.InlineRowIds)
	case *lancepb.DataFragment_RowIdsColumn:
		f.RowIDsInColumn = true
	}
	switch s := pb.GetCreatedAtSequence().(type) {
	case *lancepb.DataFragment_InlineCreatedAtVersions:
		f.CreatedAt = present(s.InlineCreatedAtVersions)
	case *lancepb.DataFragment_CreatedAtColumn:
		f.CreatedInColumn = true
	}
	switch s := pb.GetLastUpdatedAtSequence().(type) {
	case *lancepb.DataFragment_InlineLastUpdatedAtVersions:
		f.UpdatedAt = present(s.InlineLastUpdatedAtVersions)
	case *lancepb.DataFragment_LastUpdatedAtColumn:
		f.UpdatedInColumn = true
	}
	return nil
}

// present keeps an empty value apart from an absent one.
func present(data []byte) []byte {
	if data == nil {
		return []byte{}
	}
	return data
}

func (f *Fragment) setDeletion(pb *lancepb.DeletionFile) error {
	if pb == nil {
		return nil
	}
	switch pb.GetFileType() {
	case lancepb.DeletionFile_ARROW_ARRAY, lancepb.DeletionFile_BITMAP:
	default:
		return fault.New(fault.Unsupported, "manifest: fragment %d has a deletion file of unknown type %d", f.ID, pb.GetFileType())
	}
	if pb.GetNumDeletedRows() > f.PhysicalRows {
		return fault.Corruptf(-1, "manifest: fragment %d has %d rows of which %d are deleted", f.ID, f.PhysicalRows, pb.GetNumDeletedRows())
	}
	f.Deletion = &DeletionFile{
		Bitmap:      pb.GetFileType() == lancepb.DeletionFile_BITMAP,
		ReadVersion: pb.GetReadVersion(),
		ID:          pb.GetId(),
		Rows:        pb.GetNumDeletedRows(),
		BaseID:      pb.BaseId,
		unknown:     pb.ProtoReflect().GetUnknown(),
	}
	return nil
}

func (d *DataFile) set(pb *lancepb.DataFile) error {
	*d = DataFile{
		Path:    pb.GetPath(),
		Columns: pb.GetColumnIndices(),
		Major:   pb.GetFileMajorVersion(),
		Minor:   pb.GetFileMinorVersion(),
		Size:    pb.GetFileSizeBytes(),
		BaseID:  pb.BaseId,
		unknown: pb.ProtoReflect().GetUnknown(),
	}
	if err := checkRelative(d.Path); err != nil {
		return err
	}
	if d.Size > math.MaxInt64 {
		return fault.Corruptf(-1, "data file %s has a size of %d bytes", d.Path, d.Size)
	}
	fields := pb.GetFields()
	// Format 0.1 has no column indices.
	if len(fields) != len(d.Columns) && !(d.IsFormat01() && len(d.Columns) == 0) {
		return fault.Corruptf(-1, "data file %s lists %d fields and %d columns", d.Path, len(fields), len(d.Columns))
	}
	d.Fields = make([]schema.FieldID, len(fields))
	for i, id := range fields {
		d.Fields[i] = schema.FieldID(id)
	}
	for _, c := range d.Columns {
		if c < -1 {
			return fault.Corruptf(-1, "data file %s names column %d", d.Path, c)
		}
	}
	return d.checkFields()
}

// checkFields refuses a field listed twice, since a lookup would have to guess.
// Negative ids are tombstones and hidden columns (section 2.5).
func (d *DataFile) checkFields() error {
	ascending := true
	for i := 1; i < len(d.Fields); i++ {
		ascending = ascending && d.Fields[i] > d.Fields[i-1]
	}
	if ascending {
		return nil
	}
	seen := make(map[schema.FieldID]bool, len(d.Fields))
	for _, id := range d.Fields {
		if id >= 0 && seen[id] {
			return fault.Corruptf(-1, "data file %s lists field %d twice", d.Path, id)
		}
		seen[id] = true
	}
	return nil
}

// checkRelative wants a path that stays below its folder.
func checkRelative(path string) error {
	for part := range strings.SplitSeq(path, "/") {
		if part == "" || part == "." || part == ".." || strings.ContainsAny(part, "\\\x00") {
			return fault.Corruptf(-1, "data file path %q is not a relative path below the data folder", path)
		}
	}
	return nil
}

// setDataFormat takes the file version of old tables from their files.
func (m *Manifest) setDataFormat(pb *lancepb.Manifest_DataFormat) error {
	if f := pb.GetFileFormat(); f != "" && f != "lance" {
		return fault.New(fault.Unsupported, "manifest: the data files have format %q; only lance files can be read", f)
	}
	m.DataFormat = pb.GetVersion()
	if m.DataFormat != "" {
		return nil
	}
	m.formatDerived = true
	for i := range m.Fragments {
		for j := range m.Fragments[i].Files {
			m.DataFormat = m.Fragments[i].Files[j].Format()
			return nil
		}
	}
	return nil
}
