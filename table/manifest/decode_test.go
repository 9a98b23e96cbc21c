package manifest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/internal/lancepb"
)

// file puts a message, and sections in front of it, into a manifest file.
func file(t testing.TB, pb *lancepb.Manifest, before ...[]byte) []byte {
	t.Helper()
	body, err := proto.Marshal(pb)
	if err != nil {
		t.Fatal(err)
	}
	var out []byte
	for _, b := range append(before, body) {
		out = binary.LittleEndian.AppendUint32(out, uint32(len(b)))
		out = append(out, b...)
	}
	position := len(out) - len(body) - 4
	out = binary.LittleEndian.AppendUint64(out, uint64(position))
	return append(out, 0, 0, 2, 0, 'L', 'A', 'N', 'C')
}

// plain is a small readable manifest.
func plain() *lancepb.Manifest {
	return &lancepb.Manifest{
		Version: 3,
		Fields:  []*lancepb.Field{{Name: "id", Id: 0, ParentId: -1, LogicalType: "int64"}},
		Fragments: []*lancepb.DataFragment{{
			Id: 0, PhysicalRows: 10,
			Files: []*lancepb.DataFile{{Path: "a.lance", Fields: []int32{0}, ColumnIndices: []int32{0}, FileMajorVersion: 2, FileMinorVersion: 2}},
		}},
		WriterVersion: &lancepb.Manifest_WriterVersion{Library: "lance", Version: "14.0.2"},
	}
}

func TestDecodeTolerates(t *testing.T) {
	t.Parallel()
	transaction, err := proto.Marshal(&lancepb.Transaction{Operation: &lancepb.Transaction_Append{Append: &lancepb.AppendOp{}}})
	if err != nil {
		t.Fatal(err)
	}
	newer := []byte{0xBA, 0x07, 0} // field 119, an operation of a newer writer
	zero, four := uint64(0), uint64(4+len(transaction))
	tests := []struct {
		name   string
		data   func(t *testing.T) []byte
		expect func(m *Manifest) bool
	}{
		{"file version of the data files", func(t *testing.T) []byte { return file(t, plain()) }, func(m *Manifest) bool { return m.DataFormat == "2.2" }},
		{"transaction at offset 0", func(t *testing.T) []byte {
			pb := plain()
			pb.TransactionSection = &zero
			return file(t, pb, transaction)
		}, func(m *Manifest) bool { return m.Operation == "Append" }},
		{"old place of the transaction", func(t *testing.T) []byte {
			pb := plain()
			pb.TransactionSectionDeprecated = &zero
			return file(t, pb, transaction)
		}, func(m *Manifest) bool { return m.Operation == "Append" }},
		{"index section at offset 0", func(t *testing.T) []byte {
			pb := plain()
			pb.IndexSection, pb.TransactionSection = &zero, &four
			index, err := proto.Marshal(&lancepb.IndexSection{Indices: []*lancepb.IndexMetadata{{Name: "a"}, {Name: "b"}}})
			if err != nil {
				t.Fatal(err)
			}
			four := uint64(4 + len(index))
			pb.TransactionSection = &four
			return file(t, pb, index, transaction)
		}, func(m *Manifest) bool { return m.IndexCount == 2 && m.Operation == "Append" }},
		{"transaction that does not decode", func(t *testing.T) []byte {
			pb := plain()
			pb.TransactionSection = &zero
			return file(t, pb, []byte{0xFF, 0xFF})
		}, func(m *Manifest) bool { return m.Operation == "" }},
		{"transaction outside the file", func(t *testing.T) []byte {
			pb := plain()
			far := ^uint64(0)
			pb.TransactionSection = &far
			return file(t, pb)
		}, func(m *Manifest) bool { return m.Operation == "" }},
		{"unknown operation", func(t *testing.T) []byte {
			pb := plain()
			pb.TransactionSection = &zero
			return file(t, pb, newer)
		}, func(m *Manifest) bool { return m.Operation == "" }},
		{"bytes around the sections, other footer version", func(t *testing.T) []byte {
			data := file(t, plain(), []byte("anything"))
			data[len(data)-6] = 9
			return data
		}, func(m *Manifest) bool { return m.Version == 3 }},
		{"message that ends before the footer", func(t *testing.T) []byte {
			data := file(t, plain())
			tail := bytes.Clone(data[len(data)-16:])
			return append(append(data[:len(data)-16], "slack"...), tail...)
		}, func(m *Manifest) bool { return m.Version == 3 }},
		{"unknown fields", func(t *testing.T) []byte {
			pb := plain()
			pb.ProtoReflect().SetUnknown([]byte{0xC2, 0x3E, 1, 0})
			return file(t, pb)
		}, func(m *Manifest) bool { return m.Version == 3 }},
		{"bases 0 and 4294967295", func(t *testing.T) []byte {
			pb := plain()
			pb.BasePaths = []*lancepb.BasePath{{Id: 1<<32 - 1, Path: "/x"}, {Id: 0, Path: "s3://b/y", IsDatasetRoot: true}}
			return file(t, pb)
		}, func(m *Manifest) bool { return m.Bases[1<<32-1].Path == "/x" && m.Bases[0].IsDatasetRoot }},
		{"fragments out of order", func(t *testing.T) []byte {
			pb := plain()
			pb.Fragments = append([]*lancepb.DataFragment{{Id: 7, PhysicalRows: 1}}, pb.Fragments...)
			return file(t, pb)
		}, func(m *Manifest) bool { return m.Fragments[0].ID == 0 && m.Fragments[1].ID == 7 }},
		{"file of format 0.1 without columns", func(t *testing.T) []byte {
			pb := plain()
			pb.Fragments[0].Files[0] = &lancepb.DataFile{Path: "a.lance", Fields: []int32{0}, FileMinorVersion: 2}
			return file(t, pb)
		}, func(m *Manifest) bool { return m.DataFormat == "0.1" }},
		{"file version (0,3)", func(t *testing.T) []byte {
			pb := plain()
			pb.Fragments[0].Files[0].FileMajorVersion, pb.Fragments[0].Files[0].FileMinorVersion = 0, 3
			return file(t, pb)
		}, func(m *Manifest) bool { return m.DataFormat == "2.0" }},
		{"tombstones and stale fields", func(t *testing.T) []byte {
			pb := plain()
			pb.Fragments[0].Files[0].Fields = []int32{-2, -2, 99, 0}
			pb.Fragments[0].Files[0].ColumnIndices = []int32{0, 1, 2, 3}
			return file(t, pb)
		}, func(m *Manifest) bool {
			_, column := m.Fragments[0].File(0)
			none, _ := m.Fragments[0].File(Tombstone)
			return column == 3 && none == nil
		}},
		{"hidden columns", func(t *testing.T) []byte {
			pb := plain()
			f := pb.Fragments[0]
			f.RowIdSequence = &lancepb.DataFragment_RowIdsColumn{RowIdsColumn: &lancepb.DataFragment_HiddenColumn{}}
			f.CreatedAtSequence = &lancepb.DataFragment_CreatedAtColumn{CreatedAtColumn: &lancepb.DataFragment_HiddenColumn{}}
			f.LastUpdatedAtSequence = &lancepb.DataFragment_LastUpdatedAtColumn{LastUpdatedAtColumn: &lancepb.DataFragment_HiddenColumn{}}
			f.Files[0].Fields, f.Files[0].ColumnIndices = []int32{0, -3, -4, -5}, []int32{0, 1, 2, 3}
			return file(t, pb)
		}, func(m *Manifest) bool {
			f := &m.Fragments[0]
			_, column := f.File(UpdatedAtColumn)
			return f.RowIDsInColumn && f.CreatedInColumn && f.UpdatedInColumn && column == 3
		}},
		{"metadata that is not text", func(t *testing.T) []byte {
			pb := plain()
			pb.SchemaMetadata = map[string][]byte{"k": {'a', 0xFF}}
			return file(t, pb)
		}, func(m *Manifest) bool { return m.Schema.Metadata["k"] == "a\uFFFD" }},
		{"prerelease writer", func(t *testing.T) []byte {
			pb := plain()
			pre, build := "beta.1", "x"
			pb.WriterVersion.Prerelease, pb.WriterVersion.BuildMetadata = &pre, &build
			return file(t, pb)
		}, func(m *Manifest) bool { return m.WriterVersion == "lance 14.0.2-beta.1+x" }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m, err := Decode(tt.data(t))
			if err != nil {
				t.Fatal(err)
			}
			if !tt.expect(m) {
				t.Errorf("got %+v", m)
			}
		})
	}
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	good := file(t, plain())
	cut := func(n int, from []byte) []byte { return append(bytes.Clone(good[:n]), from...) }
	with := func(change func(pb *lancepb.Manifest, f *lancepb.DataFragment, d *lancepb.DataFile)) []byte {
		pb := plain()
		change(pb, pb.Fragments[0], pb.Fragments[0].Files[0])
		return file(t, pb)
	}
	far := uint64(1 << 40)
	tests := []struct {
		name string
		data []byte
		kind fault.Kind
		want string
	}{
		{"nothing", nil, fault.Corrupt, "too short"},
		{"no magic", cut(len(good)-1, []byte{'X'}), fault.Corrupt, `does not end with "LANC"`},
		{"position past the end", cut(len(good)-16, append([]byte{0, 0, 0, 0, 1, 0, 0, 0}, good[len(good)-8:]...)), fault.Corrupt, "position 4294967296"},
		{"position negative", cut(len(good)-16, append(bytes.Repeat([]byte{0xFF}, 8), good[len(good)-8:]...)), fault.Corrupt, "position -1"},
		{"length past the footer", append([]byte{0xFF, 0xFF, 0, 0}, good[4:]...), fault.Corrupt, "ends outside"},
		{"no protobuf", append([]byte{3, 0, 0, 0, 0xFF, 0xFF, 0xFF}, good[7:]...), fault.Corrupt, "not a manifest message"},
		{"index section outside", with(func(pb *lancepb.Manifest, _ *lancepb.DataFragment, _ *lancepb.DataFile) { pb.IndexSection = &far }), fault.Corrupt, "index section"},
		{"bad field tree", with(func(pb *lancepb.Manifest, _ *lancepb.DataFragment, _ *lancepb.DataFile) { pb.Fields[0].ParentId = 5 }), fault.Corrupt, "parent 5"},
		{"unknown logical type", with(func(pb *lancepb.Manifest, _ *lancepb.DataFragment, _ *lancepb.DataFile) {
			pb.Fields[0].LogicalType = "tensor"
		}), fault.Unsupported, `"tensor"`},
		{"fragment twice", with(func(pb *lancepb.Manifest, f *lancepb.DataFragment, _ *lancepb.DataFile) {
			pb.Fragments = append(pb.Fragments, f)
		}), fault.Corrupt, "fragment id 0 is given twice"},
		{"fragment id", with(func(_ *lancepb.Manifest, f *lancepb.DataFragment, _ *lancepb.DataFile) { f.Id = 1 << 32 }), fault.Corrupt, "32 bits"},
		{"fragment rows", with(func(_ *lancepb.Manifest, f *lancepb.DataFragment, _ *lancepb.DataFile) { f.PhysicalRows = 1<<32 + 1 }), fault.Corrupt, "2^32"},
		{"more deleted than there", with(func(_ *lancepb.Manifest, f *lancepb.DataFragment, _ *lancepb.DataFile) {
			f.DeletionFile = &lancepb.DeletionFile{NumDeletedRows: 11}
		}), fault.Corrupt, "10 rows of which 11 are deleted"},
		{"deletion file type", with(func(_ *lancepb.Manifest, f *lancepb.DataFragment, _ *lancepb.DataFile) {
			f.DeletionFile = &lancepb.DeletionFile{FileType: 7}
		}), fault.Unsupported, "unknown type 7"},
		{"fields and columns", with(func(_ *lancepb.Manifest, _ *lancepb.DataFragment, d *lancepb.DataFile) { d.ColumnIndices = nil }), fault.Corrupt, "1 fields and 0 columns"},
		{"negative column", with(func(_ *lancepb.Manifest, _ *lancepb.DataFragment, d *lancepb.DataFile) { d.ColumnIndices[0] = -2 }), fault.Corrupt, "column -2"},
		{"field twice", with(func(_ *lancepb.Manifest, _ *lancepb.DataFragment, d *lancepb.DataFile) {
			d.Fields, d.ColumnIndices = []int32{4, 4}, []int32{0, 1}
		}), fault.Corrupt, "field 4 twice"},
		{"file size", with(func(_ *lancepb.Manifest, _ *lancepb.DataFragment, d *lancepb.DataFile) { d.FileSizeBytes = 1 << 63 }), fault.Corrupt, "size"},
		{"file without path", with(func(_ *lancepb.Manifest, _ *lancepb.DataFragment, d *lancepb.DataFile) { d.Path = "" }), fault.Corrupt, "not a relative path"},
		{"file above its folder", with(func(_ *lancepb.Manifest, _ *lancepb.DataFragment, d *lancepb.DataFile) { d.Path = "../../secret.lance" }), fault.Corrupt, "not a relative path"},
		{"file with an absolute path", with(func(_ *lancepb.Manifest, _ *lancepb.DataFragment, d *lancepb.DataFile) { d.Path = "/secret.lance" }), fault.Corrupt, "not a relative path"},
		{"base twice", with(func(pb *lancepb.Manifest, _ *lancepb.DataFragment, _ *lancepb.DataFile) {
			pb.BasePaths = []*lancepb.BasePath{{Id: 0, Path: "/a"}, {Id: 0, Path: "/b"}}
		}), fault.Corrupt, "base id 0 is registered twice"},
		{"base without path", with(func(pb *lancepb.Manifest, _ *lancepb.DataFragment, _ *lancepb.DataFile) {
			pb.BasePaths = []*lancepb.BasePath{{Id: 2}}
		}), fault.Corrupt, "empty path"},
		{"timestamp", with(func(pb *lancepb.Manifest, _ *lancepb.DataFragment, _ *lancepb.DataFile) {
			pb.Timestamp = &lancepb.Timestamp{Nanos: -1}
		}), fault.Corrupt, "nanoseconds"},
		{"other file format", with(func(pb *lancepb.Manifest, _ *lancepb.DataFragment, _ *lancepb.DataFile) {
			pb.DataFormat = &lancepb.Manifest_DataFormat{FileFormat: "parquet", Version: "2"}
		}), fault.Unsupported, "parquet"},
		{"newer writer explains an unknown type", with(func(pb *lancepb.Manifest, _ *lancepb.DataFragment, _ *lancepb.DataFile) {
			pb.Fields[0].LogicalType = "tensor"
			pb.ReaderFeatureFlags = 1 << 40
		}), fault.Unsupported, "reader flags 1099511627776"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := Decode(tt.data)
			if err == nil || fault.KindOf(err) != tt.kind || !strings.Contains(fmt.Sprint(err), tt.want) {
				t.Errorf("got %v (%v), want %v with %q", err, fault.KindOf(err), tt.kind, tt.want)
			}
		})
	}
}

func TestCutShort(t *testing.T) {
	t.Parallel()
	data := read(t, "testdata/indexed.manifest")
	for n := range data {
		if _, err := Decode(data[:n]); fault.KindOf(err) != fault.Corrupt {
			t.Fatalf("%d of %d bytes give %v", n, len(data), err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	files, err := filepath.Glob(filepath.Join(fixtures, "*/*/_versions/*.manifest"))
	if err != nil || len(files) < 50 {
		f.Fatalf("%d manifests: %v", len(files), err)
	}
	for i, path := range files {
		if i%5 == 0 {
			f.Add(read(f, path))
		}
	}
	f.Add(read(f, "testdata/indexed.manifest"))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := Decode(data)
		if err != nil {
			if k := fault.KindOf(err); k != fault.Corrupt && k != fault.Unsupported {
				t.Fatalf("kind %v: %v", k, err)
			}
			return
		}
		if again, err := m.Encode(nil); err == nil {
			if _, err := Decode(again); err != nil {
				t.Fatalf("encoded anew: %v", err)
			}
			if _, err := Apply(m, &Transaction{UUID: "u", Op: &ReserveFragments{Count: 1}}, ApplyOptions{Now: time.Unix(1, 0)}); err != nil && fault.KindOf(err) == fault.Internal {
				t.Fatal(err)
			}
		} else if fault.KindOf(err) != fault.Unsupported {
			t.Fatal(err)
		}
		if err := m.CheckReadable(); err != nil && fault.KindOf(err) != fault.Corrupt && fault.KindOf(err) != fault.Unsupported {
			t.Fatal(err)
		}
		m.Rows()
		for i := range m.Fragments {
			for j := range m.Fragments[i].Files {
				if _, err := m.FilePlace(&m.Fragments[i].Files[j]); err != nil && fault.KindOf(err) != fault.Corrupt {
					t.Fatal(err)
				}
			}
			if _, _, err := m.DeletionPlace(&m.Fragments[i]); err != nil && fault.KindOf(err) != fault.Corrupt {
				t.Fatal(err)
			}
		}
	})
}

func BenchmarkDecode10000Fragments(b *testing.B) {
	pb := plain()
	pb.Fragments = nil
	for i := range 10_000 {
		pb.Fragments = append(pb.Fragments, &lancepb.DataFragment{
			Id: uint64(i), PhysicalRows: 1000,
			Files: []*lancepb.DataFile{{
				Path:   fmt.Sprintf("%024b%026x.lance", i, i),
				Fields: []int32{0, 1, 2, 9, 12}, ColumnIndices: []int32{0, 1, 2, 3, 4},
				FileMajorVersion: 2, FileMinorVersion: 2, FileSizeBytes: 123456,
			}},
			DeletionFile:  &lancepb.DeletionFile{ReadVersion: 5, Id: uint64(i) << 32, NumDeletedRows: 3},
			RowIdSequence: &lancepb.DataFragment_InlineRowIds{InlineRowIds: []byte{10, 6, 10, 4, 8, 0, 16, 10}},
		})
	}
	data := file(b, pb)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		m, err := Decode(data)
		if err != nil || len(m.Fragments) != 10_000 {
			b.Fatal(err)
		}
	}
}
