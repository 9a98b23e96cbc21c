package manifest

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/internal/lancepb"
	"github.com/flightblob/flightblob/schema"
)

// MaxInline is the greatest encoded transaction that a manifest file carries
// inline; larger ones are in their own file only (section 1.3).
const MaxInline = 20 << 20

// Encode gives the bytes of the manifest file: index section, transaction,
// message, footer. transaction is an encoded Transaction to carry inline; nil
// for none, and left out when it is larger than MaxInline.
//
// What Decode understood comes back as it was, fields of newer writers
// included. Bytes differ from run to run of other writers and are not to be
// compared. A manifest with a part that this program does not write (fragment
// tree, overlays) is fault.Unsupported.
func (m *Manifest) Encode(transaction []byte) ([]byte, error) {
	if m.fragmentTree || m.overlays {
		return nil, fault.New(fault.Unsupported, "manifest: version %d has a fragment tree or overlay files, which this program does not write", m.Version)
	}
	pb := m.message()
	var out []byte
	if len(m.entries) > 0 {
		var section []byte
		for _, entry := range m.entries {
			section = protowire.AppendTag(section, 1, protowire.BytesType)
			section = protowire.AppendBytes(section, entry)
		}
		pb.IndexSection = proto.Uint64(uint64(len(out)))
		var err error
		if out, err = appendSection(out, section); err != nil {
			return nil, err
		}
	}
	if transaction != nil && len(transaction) <= MaxInline {
		pb.TransactionSection = proto.Uint64(uint64(len(out)))
		var err error
		if out, err = appendSection(out, transaction); err != nil {
			return nil, err
		}
	}
	position := uint64(len(out))
	body, err := marshal(pb)
	if err != nil {
		return nil, err
	}
	if out, err = appendSection(out, body); err != nil {
		return nil, err
	}
	out = binary.LittleEndian.AppendUint64(out, position)
	out = binary.LittleEndian.AppendUint16(out, 0)
	out = binary.LittleEndian.AppendUint16(out, 2)
	return append(out, magic...), nil
}

func appendSection(out, body []byte) ([]byte, error) {
	if uint64(len(body)) > math.MaxUint32 {
		return nil, fault.New(fault.Exhausted, "manifest: a part of %d bytes is larger than the 4 GiB that a manifest file allows", len(body))
	}
	out = slices.Grow(out, len(body)+4+footerSize)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(body)))
	return append(out, body...), nil
}

// marshal has a fixed order of maps, so that equal values are equal bytes.
func marshal(m proto.Message) ([]byte, error) {
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil { // a string that is not UTF-8
		return nil, fault.New(fault.Invalid, "manifest: %w", err)
	}
	return body, nil
}

func (m *Manifest) message() *lancepb.Manifest {
	pb := &lancepb.Manifest{
		Fields:             fieldMessages(m.Schema),
		Fragments:          fragmentMessages(m.Fragments),
		Version:            m.Version,
		VersionAuxData:     m.aux,
		SchemaMetadata:     octets(m.Schema.Metadata),
		Tag:                m.tag,
		ReaderFeatureFlags: uint64(m.ReaderFlags),
		WriterFeatureFlags: uint64(m.WriterFlags),
		MaxFragmentId:      m.MaxFragmentID,
		TransactionFile:    m.TransactionID,
		WriterVersion:      writerMessage(m.WriterVersion),
		NextRowId:          m.NextRowID,
		Config:             m.Config,
		TableMetadata:      m.TableMetadata,
		BasePaths:          baseMessages(m.Bases),
	}
	if !m.Timestamp.IsZero() {
		pb.Timestamp = &lancepb.Timestamp{Seconds: m.Timestamp.Unix(), Nanos: int32(m.Timestamp.Nanosecond())}
	}
	if m.DataFormat != "" && !m.formatDerived {
		pb.DataFormat = &lancepb.Manifest_DataFormat{FileFormat: "lance", Version: m.DataFormat}
	}
	if m.Branch != "" {
		pb.Branch = proto.String(m.Branch)
	}
	if m.MaxAllocatedFieldID != nil {
		pb.MaxAllocatedFieldId = proto.Int32(int32(*m.MaxAllocatedFieldID))
	}
	pb.ProtoReflect().SetUnknown(m.unknown)
	return pb
}

// writerMessage takes "library version-prerelease+build" apart.
func writerMessage(text string) *lancepb.Manifest_WriterVersion {
	if text == "" {
		return nil
	}
	library, version, _ := strings.Cut(text, " ")
	pb := &lancepb.Manifest_WriterVersion{Library: library}
	if rest, build, ok := strings.Cut(version, "+"); ok {
		version, pb.BuildMetadata = rest, proto.String(build)
	}
	if rest, pre, ok := strings.Cut(version, "-"); ok {
		version, pb.Prerelease = rest, proto.String(pre)
	}
	pb.Version = version
	return pb
}

func fieldMessages(s *schema.Schema) []*lancepb.Field {
	records := s.Records()
	out := make([]*lancepb.Field, len(records))
	for i := range records {
		r := &records[i]
		pb := &lancepb.Field{
			Type:                            r.Carried.Type,
			Name:                            r.Name,
			Id:                              int32(r.ID),
			ParentId:                        int32(r.ParentID),
			LogicalType:                     r.LogicalType,
			Nullable:                        r.Nullable,
			Encoding:                        int32(r.Carried.Encoding),
			ExtensionName:                   r.Extension,
			Metadata:                        octets(r.Metadata),
			UnenforcedPrimaryKey:            r.Carried.PrimaryKey,
			UnenforcedPrimaryKeyPosition:    r.Carried.PrimaryKeyPosition,
			UnenforcedClusteringKey:         r.Carried.ClusteringKey,
			UnenforcedClusteringKeyPosition: r.Carried.ClusteringKeyPosition,
		}
		if d := r.Carried.Dictionary; d != nil {
			pb.Dictionary = &lancepb.FieldDictionary{Offset: d.Offset, Length: d.Length}
		}
		pb.ProtoReflect().SetUnknown(r.Carried.Unknown)
		out[i] = pb
	}
	return out
}

// octets writes metadata values as the bytes that the wire has for them.
func octets(m map[string]string) map[string][]byte {
	if len(m) == 0 {
		return nil
	}
	out := make(map[string][]byte, len(m))
	for k, v := range m {
		out[k] = []byte(v)
	}
	return out
}

func fragmentMessages(list []Fragment) []*lancepb.DataFragment {
	out := make([]*lancepb.DataFragment, len(list))
	for i := range list {
		out[i] = list[i].message()
	}
	return out
}

func (f *Fragment) message() *lancepb.DataFragment {
	pb := &lancepb.DataFragment{Id: f.ID, PhysicalRows: f.PhysicalRows, Files: make([]*lancepb.DataFile, len(f.Files))}
	for i := range f.Files {
		pb.Files[i] = f.Files[i].message()
	}
	if d := f.Deletion; d != nil {
		pb.DeletionFile = &lancepb.DeletionFile{ReadVersion: d.ReadVersion, Id: d.ID, NumDeletedRows: d.Rows, BaseId: d.BaseID}
		if d.Bitmap {
			pb.DeletionFile.FileType = lancepb.DeletionFile_BITMAP
		}
		pb.DeletionFile.ProtoReflect().SetUnknown(d.unknown)
	}
	hidden := &lancepb.DataFragment_HiddenColumn{}
	switch {
	case f.RowIDsInColumn:
		pb.RowIdSequence = &lancepb.DataFragment_RowIdsColumn{RowIdsColumn: hidden}
	case f.RowIDs != nil:
		pb.RowIdSequence = &lancepb.DataFragment_InlineRowIds{InlineRowIds: f.RowIDs}
	}
	switch {
	case f.CreatedInColumn:
		pb.CreatedAtSequence = &lancepb.DataFragment_CreatedAtColumn{CreatedAtColumn: hidden}
	case f.CreatedAt != nil:
		pb.CreatedAtSequence = &lancepb.DataFragment_InlineCreatedAtVersions{InlineCreatedAtVersions: f.CreatedAt}
	}
	switch {
	case f.UpdatedInColumn:
		pb.LastUpdatedAtSequence = &lancepb.DataFragment_LastUpdatedAtColumn{LastUpdatedAtColumn: hidden}
	case f.UpdatedAt != nil:
		pb.LastUpdatedAtSequence = &lancepb.DataFragment_InlineLastUpdatedAtVersions{InlineLastUpdatedAtVersions: f.UpdatedAt}
	}
	pb.ProtoReflect().SetUnknown(f.unknown)
	return pb
}

func (d *DataFile) message() *lancepb.DataFile {
	pb := &lancepb.DataFile{
		Path:             d.Path,
		Fields:           make([]int32, len(d.Fields)),
		ColumnIndices:    d.Columns,
		FileMajorVersion: d.Major,
		FileMinorVersion: d.Minor,
		FileSizeBytes:    d.Size,
		BaseId:           d.BaseID,
	}
	for i, id := range d.Fields {
		pb.Fields[i] = int32(id)
	}
	pb.ProtoReflect().SetUnknown(d.unknown)
	return pb
}

func baseMessages(bases map[uint32]Base) []*lancepb.BasePath {
	out := make([]*lancepb.BasePath, 0, len(bases))
	for _, b := range bases {
		out = append(out, b.message())
	}
	slices.SortFunc(out, func(a, b *lancepb.BasePath) int { return int(int64(a.GetId()) - int64(b.GetId())) })
	return out
}

func (b Base) message() *lancepb.BasePath {
	pb := &lancepb.BasePath{Id: b.ID, IsDatasetRoot: b.IsDatasetRoot, Path: b.Path}
	if b.Name != "" {
		pb.Name = proto.String(b.Name)
	}
	pb.ProtoReflect().SetUnknown([]byte(b.unknown))
	return pb
}
