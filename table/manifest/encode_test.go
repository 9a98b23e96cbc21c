package manifest

import (
	"bytes"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/internal/lancepb"
)

// everyManifest gives the paths of all manifest files of the fixtures, branches
// and further tables included.
func everyManifest(t testing.TB) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(fixtures, func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".manifest") {
			out = append(out, path)
		}
		return err
	})
	if err != nil || len(out) < 100 {
		t.Fatalf("%d manifests: %v", len(out), err)
	}
	return append(out, "testdata/indexed.manifest")
}

// bare is the message of a manifest file without what belongs to the file.
func bare(t testing.TB, data []byte) (*lancepb.Manifest, []byte) {
	t.Helper()
	body, err := message(data)
	if err != nil {
		t.Fatal(err)
	}
	pb := new(lancepb.Manifest)
	if err := proto.Unmarshal(body, pb); err != nil {
		t.Fatal(err)
	}
	inline, err := inlineBytes(data, pb)
	if err != nil {
		t.Fatal(err)
	}
	pb.IndexSection, pb.TransactionSection, pb.TransactionSectionDeprecated = nil, nil, nil
	slices.SortFunc(pb.BasePaths, func(a, b *lancepb.BasePath) int { return int(a.GetId()) - int(b.GetId()) })
	return pb, inline
}

// TestEncodeGoldens rewrites every manifest of the reference: all fields, the
// transaction and the index section come back as they were.
func TestEncodeGoldens(t *testing.T) {
	t.Parallel()
	for _, path := range everyManifest(t) {
		data := read(t, path)
		want, inline := bare(t, data)
		m, err := Decode(data)
		if err != nil {
			t.Fatal(err)
		}
		again, err := m.Encode(inline)
		if err != nil {
			t.Fatal(err)
		}
		got, carried := bare(t, again)
		if !proto.Equal(want, got) {
			t.Errorf("%s: %v\nbecame %v", path, want, got)
		}
		if !bytes.Equal(inline, carried) {
			t.Errorf("%s: the inline transaction changed", path)
		}
		m2, err := Decode(again)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if m2.Operation != m.Operation || !slices.EqualFunc(m.entries, m2.entries, bytes.Equal) {
			t.Errorf("%s: %s with %d indexes became %s with %d", path, m.Operation, len(m.entries), m2.Operation, len(m2.entries))
		}
	}
}

func TestEncodeKeepsWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	strange := []byte{0xC2, 0x3E, 1, 7} // field 1000
	pb := plain()
	pb.Tag, pb.VersionAuxData = "old", 4
	pb.Fragments[0].DeletionFile = &lancepb.DeletionFile{NumDeletedRows: 1, Id: 3}
	pb.Fragments[0].RowIdSequence = &lancepb.DataFragment_InlineRowIds{InlineRowIds: []byte{}}
	pb.Fragments[0].CreatedAtSequence = &lancepb.DataFragment_InlineCreatedAtVersions{InlineCreatedAtVersions: []byte{}}
	pb.Fragments[0].LastUpdatedAtSequence = &lancepb.DataFragment_LastUpdatedAtColumn{LastUpdatedAtColumn: &lancepb.DataFragment_HiddenColumn{}}
	pb.BasePaths = []*lancepb.BasePath{{Id: 4, Path: "/x", Name: proto.String("n")}}
	pb.Fields[0].Dictionary = &lancepb.FieldDictionary{Offset: 5, Length: 6}
	pb.Fields[0].Encoding, pb.Fields[0].Type = 1, 2
	pb.Fields[0].UnenforcedPrimaryKey, pb.Fields[0].UnenforcedClusteringKeyPosition = true, 3
	pb.WriterVersion = &lancepb.Manifest_WriterVersion{Library: "lance", Version: "15.0.0", Prerelease: proto.String("beta.1"), BuildMetadata: proto.String("abc")}
	pb.MaxAllocatedFieldId = proto.Int32(0)
	for _, m := range []proto.Message{pb, pb.Fragments[0], pb.Fragments[0].Files[0], pb.Fragments[0].DeletionFile, pb.BasePaths[0], pb.Fields[0]} {
		m.ProtoReflect().SetUnknown(strange)
	}
	m, err := Decode(file(t, pb))
	if err != nil {
		t.Fatal(err)
	}
	data, err := m.Encode(nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, inline := bare(t, data); !proto.Equal(pb, got) || inline != nil {
		t.Errorf("%v\nbecame %v", pb, got)
	}
}

func TestEncodeRefuses(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*lancepb.Manifest){
		"fragment tree": func(pb *lancepb.Manifest) { pb.FragmentTree = []byte{1} },
		"overlays":      func(pb *lancepb.Manifest) { pb.Fragments[0].Overlays = [][]byte{{1}} },
	} {
		pb := plain()
		change(pb)
		m, err := Decode(file(t, pb))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.Encode(nil); fault.KindOf(err) != fault.Unsupported {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestEncodeInlineTransaction(t *testing.T) {
	t.Parallel()
	m, err := Decode(file(t, plain()))
	if err != nil {
		t.Fatal(err)
	}
	tx := &Transaction{ReadVersion: 2, UUID: "u", Op: &Restore{Version: 1}}
	body, err := tx.Encode()
	if err != nil {
		t.Fatal(err)
	}
	data, err := m.Encode(body)
	if err != nil {
		t.Fatal(err)
	}
	got, err := InlineTransaction(data)
	if err != nil || got == nil || got.FileName() != "2-u.txn" || got.Op.(*Restore).Version != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	data, err = m.Encode(make([]byte, MaxInline+1))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := InlineTransaction(data); got != nil || err != nil || len(data) > 1000 {
		t.Errorf("a transaction above the limit: %d bytes, %v, %v", len(data), got, err)
	}
}
