package manifest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/flightblob/flightblob/schema"
)

const fixtures = "../../conformance/fixtures/tables"

// expectedVersion is a version as the fixtures' expected.json tells it.
type expectedVersion struct {
	Version        uint64            `json:"version"`
	ReaderFlags    Flags             `json:"reader_flags"`
	WriterFlags    Flags             `json:"writer_flags"`
	SchemaMetadata map[string]string `json:"schema_metadata"`
	BasePaths      []expectedBase    `json:"base_paths"`
	Fragments      []expectedFragment
	Fields         []expectedField
	Branch         *string
	NextRowID      uint64            `json:"next_row_id"`
	MaxFragmentID  *uint32           `json:"max_fragment_id"`
	DataFormat     string            `json:"data_format"`
	Config         map[string]string `json:"config"`
}

type expectedBase struct {
	ID            uint32
	Name          *string
	IsDatasetRoot bool `json:"is_dataset_root"`
	Path          string
}

type expectedFragment struct {
	ID           uint64
	PhysicalRows uint64 `json:"physical_rows"`
	Files        []expectedFile
	Deletion     *expectedDeletion
	RowIDs       string `json:"row_ids"`
}

type expectedFile struct {
	Path          string
	Fields        []schema.FieldID
	ColumnIndices []int32 `json:"column_indices"`
	Version       string
	Size          uint64
	BaseID        *uint32 `json:"base_id"`
}

type expectedDeletion struct {
	Type        string
	ReadVersion uint64 `json:"read_version"`
	ID          uint64
	Rows        uint64  `json:"num_deleted_rows"`
	BaseID      *uint32 `json:"base_id"`
}

type expectedField struct {
	Name        string
	ID          schema.FieldID
	ParentID    schema.FieldID `json:"parent_id"`
	LogicalType string         `json:"logical_type"`
	Nullable    bool
	Metadata    map[string]string
}

// asExpected puts a manifest into the words of expected.json.
func asExpected(m *Manifest) expectedVersion {
	v := expectedVersion{
		Version: m.Version, ReaderFlags: m.ReaderFlags, WriterFlags: m.WriterFlags,
		SchemaMetadata: m.Schema.Metadata, NextRowID: m.NextRowID, DataFormat: m.DataFormat, Config: m.Config,
	}
	if m.Branch != "" {
		v.Branch = &m.Branch
	}
	v.MaxFragmentID = m.MaxFragmentID
	for f := range m.Schema.All() {
		parent := schema.NoParent
		if f.Parent != nil {
			parent = f.Parent.ID
		}
		v.Fields = append(v.Fields, expectedField{f.Name, f.ID, parent, f.Logical, f.Nullable, f.Metadata})
	}
	for _, f := range m.Fragments {
		e := expectedFragment{ID: f.ID, PhysicalRows: f.PhysicalRows, RowIDs: "none"}
		if f.RowIDs != nil {
			e.RowIDs = "inline"
		}
		for _, d := range f.Files {
			e.Files = append(e.Files, expectedFile{d.Path, d.Fields, d.Columns, d.Format(), d.Size, d.BaseID})
		}
		if d := f.Deletion; d != nil {
			kind := "arrow"
			if d.Bitmap {
				kind = "bitmap"
			}
			e.Deletion = &expectedDeletion{kind, d.ReadVersion, d.ID, d.Rows, d.BaseID}
		}
		v.Fragments = append(v.Fragments, e)
	}
	return v
}

// empties lets nil and empty lists and maps be equal, and sorts bases.
var empties = cmp.Options{
	cmp.FilterValues(func(a, b map[string]string) bool { return len(a)+len(b) == 0 }, cmp.Ignore()),
	cmp.FilterValues(func(a, b []expectedFragment) bool { return len(a)+len(b) == 0 }, cmp.Ignore()),
}

func read(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// manifestsBelow decodes all manifests of a table's or branch's folder.
func manifestsBelow(t testing.TB, root string) map[uint64]*Manifest {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(root, VersionsDir))
	if err != nil {
		t.Fatal(err)
	}
	out := map[uint64]*Manifest{}
	for _, e := range entries {
		version, scheme, ok := ParseName(e.Name())
		if !ok {
			if e.Name() != HintName {
				t.Errorf("%s is no manifest's name", e.Name())
			}
			continue
		}
		if got := Name(version, scheme); got != e.Name() {
			t.Errorf("Name(%d) = %s, want %s", version, got, e.Name())
		}
		m, err := Decode(read(t, filepath.Join(root, VersionsDir, e.Name())))
		if err != nil {
			t.Fatalf("%s: %v", e.Name(), err)
		}
		if err := m.CheckReadable(); err != nil {
			t.Errorf("%s: %v", e.Name(), err)
		}
		if m.Version != version {
			t.Errorf("%s says version %d", e.Name(), m.Version)
		}
		out[version] = m
	}
	return out
}

func compareVersions(t *testing.T, root string, want []expectedVersion) {
	t.Helper()
	got := manifestsBelow(t, root)
	if len(got) != len(want) {
		t.Errorf("%d versions, want %d", len(got), len(want))
	}
	for _, w := range want {
		m := got[w.Version]
		if m == nil {
			t.Errorf("version %d is missing", w.Version)
			continue
		}
		g := asExpected(m)
		if diff := cmp.Diff(w, g, empties, cmp.FilterPath(func(p cmp.Path) bool { return p.String() == "BasePaths" }, cmp.Ignore())); diff != "" {
			t.Errorf("version %d: %s", w.Version, diff)
		}
		if len(w.BasePaths) != len(m.Bases) {
			t.Errorf("version %d: %d bases, want %d", w.Version, len(m.Bases), len(w.BasePaths))
		}
		for _, b := range w.BasePaths {
			have := m.Bases[b.ID]
			name := ""
			if b.Name != nil {
				name = *b.Name
			}
			if diff := cmp.Diff(Base{ID: b.ID, Name: name, IsDatasetRoot: b.IsDatasetRoot, Path: b.Path}, have, cmpopts.IgnoreUnexported(Base{})); diff != "" {
				t.Errorf("version %d: base %d: %s", w.Version, b.ID, diff)
			}
		}
		if m.Timestamp.Year() < 2024 || !strings.HasPrefix(m.WriterVersion, "lance 14.0.2") {
			t.Errorf("version %d: written %v by %q", w.Version, m.Timestamp, m.WriterVersion)
		}
	}
}

// TestFixtures decodes every manifest that the reference wrote for the shared
// fixtures and compares all that expected.json says about it.
func TestFixtures(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(fixtures, "*/expected.json"))
	if err != nil || len(files) < 50 {
		t.Fatalf("%d fixtures: %v", len(files), err)
	}
	for _, file := range files {
		folder := filepath.Dir(file)
		t.Run(filepath.Base(folder), func(t *testing.T) {
			t.Parallel()
			var expected struct {
				Tables map[string]struct {
					Versions []expectedVersion
					Branches map[string]struct {
						ParentBranch  *string `json:"parent_branch"`
						ParentVersion uint64  `json:"parent_version"`
						Versions      []expectedVersion
					}
					Tags map[string]struct {
						Version uint64
						Branch  *string
					}
				}
			}
			if err := json.Unmarshal(read(t, file), &expected); err != nil {
				t.Fatal(err)
			}
			if len(expected.Tables) == 0 {
				t.Fatal("no tables are expected")
			}
			for name, table := range expected.Tables {
				root := filepath.Join(folder, name)
				compareVersions(t, root, table.Versions)
				for branch, b := range table.Branches {
					place, err := BranchRoot(branch)
					if err != nil {
						t.Fatal(err)
					}
					compareVersions(t, filepath.Join(root, place), b.Versions)
					path, err := BranchPath(branch)
					if err != nil {
						t.Fatal(err)
					}
					got, err := DecodeBranch(read(t, filepath.Join(root, path)))
					if err != nil {
						t.Fatal(err)
					}
					if got.Parent != "" || b.ParentBranch != nil || got.ParentVersion != b.ParentVersion || len(got.Identifier) != 1 || got.Identifier[0].ParentVersion != b.ParentVersion || len(got.Identifier[0].ID) != 32 || got.CreatedAt.Year() < 2024 {
						t.Errorf("branch %s is %+v", branch, got)
					}
				}
				for tag, w := range table.Tags {
					path, err := TagPath(tag)
					if err != nil {
						t.Fatal(err)
					}
					got, err := DecodeTag(read(t, filepath.Join(root, path)))
					if err != nil {
						t.Fatal(err)
					}
					if got.Version != w.Version || got.Branch != "" || w.Branch != nil || got.CreatedAt.IsZero() || got.ManifestSize == 0 {
						t.Errorf("tag %s is %+v", tag, got)
					}
				}
			}
		})
	}
}

// TestOperations compares with what an independent decoder says about each
// version: operation of the transaction, number of indexes, live rows.
func TestOperations(t *testing.T) {
	t.Parallel()
	lines := bufio.NewScanner(strings.NewReader(string(read(t, "testdata/operations.txt"))))
	count := 0
	for lines.Scan() {
		var fixture, table, branch, operation string
		var version, rows uint64
		var indexes int
		if _, err := fmt.Sscan(lines.Text(), &fixture, &table, &branch, &version, &operation, &indexes, &rows); err != nil {
			t.Fatal(err)
		}
		root := filepath.Join(fixtures, fixture, table)
		if branch != "-" {
			root = filepath.Join(root, TreeDir, branch)
		}
		m, err := Decode(read(t, filepath.Join(root, Path(version, V2))))
		if err != nil {
			t.Fatal(err)
		}
		if m.Operation != operation || m.IndexCount != indexes || m.Rows() != rows {
			t.Errorf("%s: got %s, %d indexes, %d rows", lines.Text(), m.Operation, m.IndexCount, m.Rows())
		}
		path, ok := m.TransactionPath()
		if !ok {
			t.Errorf("%s: no transaction file", lines.Text())
			continue
		}
		// Cleanup takes old transactions with it.
		if data, err := os.ReadFile(filepath.Join(root, path)); err == nil {
			if got, err := DecodeOperation(data); err != nil || got != operation {
				t.Errorf("%s: the file says %s, %v", path, got, err)
			}
			count++
		}
	}
	if count < 100 {
		t.Errorf("only %d transaction files were compared", count)
	}
}

// TestIndexed reads a manifest with sections in front of the message.
func TestIndexed(t *testing.T) {
	t.Parallel()
	m, err := Decode(read(t, "testdata/indexed.manifest"))
	if err != nil {
		t.Fatal(err)
	}
	if err := m.CheckReadable(); err != nil {
		t.Fatal(err)
	}
	if m.Version != 6 || m.Operation != "Update" || m.IndexCount != 1 || m.Rows() != 90 || m.NextRowID != 100 || *m.MaxFragmentID != 1 {
		t.Errorf("version %d: %s, %d indexes, %d rows, next id %d, fragment %d", m.Version, m.Operation, m.IndexCount, m.Rows(), m.NextRowID, *m.MaxFragmentID)
	}
	if diff := cmp.Diff(map[string]string{"lance.auto_cleanup.interval": "1000", "x": "y"}, m.Config); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]string{"owner": "me"}, m.TableMetadata); diff != "" {
		t.Error(diff)
	}
	if !m.StableRowIDs() || m.ManagedBlobs() || !m.WriterFlags.Has(FlagTableConfig) || m.ReaderFlags.Has(FlagTableConfig) {
		t.Errorf("flags %d, %d", m.ReaderFlags, m.WriterFlags)
	}
	if got := m.Timestamp.UTC().Format("2006-01-02T15:04"); got == "0001-01-01T00:00" {
		t.Error("no timestamp")
	}
	f := m.Fragments[1]
	if f.RowIDs == nil || f.CreatedAt == nil || f.UpdatedAt == nil || f.RowIDsInColumn || f.CreatedInColumn || f.UpdatedInColumn {
		t.Errorf("row lineage of fragment 1: %+v", f)
	}
}

// TestRules are rules of the blob sheet that manifests decide.
func TestRules(t *testing.T) {
	t.Parallel()
	open := func(t *testing.T, fixture, table string, version uint64) *Manifest {
		t.Helper()
		m := manifestsBelow(t, filepath.Join(fixtures, fixture, table))[version]
		if m == nil {
			t.Fatalf("%s has no version %d", fixture, version)
		}
		return m
	}
	t.Run("SCH-14 a blob field and its children have ids of their own", func(t *testing.T) {
		m := open(t, "nested_v22", "table.lance", 1)
		for f := range m.Schema.Blobs() {
			for i, c := range f.Children {
				if c.ID != f.ID+schema.FieldID(i)+1 {
					t.Errorf("child %s of %s has id %d", c.Name, f.FullName(), c.ID)
				}
			}
			if f.Logical != "struct" || len(f.Children) != 4 {
				t.Errorf("%s is a %s of %d children", f.FullName(), f.Logical, len(f.Children))
			}
		}
	})
	t.Run("SCH-15 data files list the leaves, blobs by their own id", func(t *testing.T) {
		m := open(t, "nested_v22", "table.lance", 1)
		var want []schema.FieldID
		for f := range m.Schema.Leaves() {
			want = append(want, f.ID)
		}
		if diff := cmp.Diff(want, m.Fragments[0].Files[0].Fields); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("SCH-16 field metadata is kept", func(t *testing.T) {
		f := open(t, "thresholds_small", "table.lance", 1).Schema
		found := 0
		for b := range f.Blobs() {
			if b.Metadata["lance-encoding:blob-inline-size-threshold"] != "" {
				found++
			}
		}
		if found == 0 {
			t.Error("no thresholds")
		}
	})
	t.Run("RES-1 the file of a field is found by the field's id", func(t *testing.T) {
		m := open(t, "column_added_later", "table.lance", uint64(len(manifestsBelow(t, filepath.Join(fixtures, "column_added_later/table.lance")))))
		later := 0
		for b := range m.Schema.Blobs() {
			for i := range m.Fragments {
				f := &m.Fragments[i]
				file, column := f.File(b.ID)
				if file == nil || file.Fields[slices.Index(file.Columns, int32(column))] != b.ID {
					t.Errorf("fragment %d, field %d: %v", f.ID, b.ID, file)
				}
				if file == &f.Files[1] {
					later++
				}
			}
		}
		if later != len(m.Fragments) {
			t.Errorf("%d fields come from a second file", later)
		}
		if file, _ := m.Fragments[0].File(12345); file != nil {
			t.Errorf("an unknown field comes from %v", file)
		}
	})
	t.Run("RES-2 data directories of the root, a root base and a plain base", func(t *testing.T) {
		m := open(t, "sidecars_in_bases", "table.lance", 3)
		seen := map[string]bool{}
		for i := range m.Fragments {
			file := &m.Fragments[i].Files[0]
			place, err := m.FilePlace(file)
			if err != nil {
				t.Fatal(err)
			}
			root := filepath.Join(fixtures, "sidecars_in_bases/table.lance")
			if place.Base != nil {
				_, rest, _ := strings.Cut(place.Base.Path, "/tables/")
				root = filepath.Join(fixtures, rest)
				seen[fmt.Sprint("base, root ", place.Base.IsDatasetRoot)] = true
			} else {
				seen["none"] = true
			}
			if info, err := os.Stat(filepath.Join(root, place.Path)); err != nil || uint64(info.Size()) != file.Size {
				t.Errorf("data file %+v: %v", place, err)
			}
		}
		if len(seen) != 3 {
			t.Errorf("places seen: %v", seen)
		}
	})
	t.Run("CAP-2 opt-in sets both bits", func(t *testing.T) {
		m := open(t, "managed_fresh", "table.lance", 1)
		if !m.ManagedBlobs() || !m.WriterFlags.Has(FlagManagedBlobs) {
			t.Errorf("flags %d, %d", m.ReaderFlags, m.WriterFlags)
		}
	})
	t.Run("CAP-3 both bits stay after opt-out and restore", func(t *testing.T) {
		for version, m := range manifestsBelow(t, filepath.Join(fixtures, "managed_lifecycle/table.lance")) {
			if m.ManagedBlobs() != (version >= 3) {
				t.Errorf("version %d: flags %d", version, m.ReaderFlags)
			}
		}
	})
	t.Run("CLN-1 a shallow clone names its source by base 0", func(t *testing.T) {
		m := open(t, "clone_shallow", "clone.lance", 1)
		b, err := m.BaseOf(0)
		if err != nil || !b.IsDatasetRoot || !strings.HasSuffix(b.Path, "source.lance") {
			t.Errorf("base 0 is %+v, %v", b, err)
		}
		for _, f := range m.Fragments {
			if id := f.Files[0].BaseID; id == nil || *id != 0 {
				t.Errorf("fragment %d has base %v", f.ID, id)
			}
		}
		m = open(t, "clone_of_clone", "clone2.lance", 4)
		for i := range m.Fragments {
			if place, ok, err := m.DeletionPlace(&m.Fragments[i]); ok && (err != nil || place.Base == nil) {
				t.Errorf("deletions of fragment %d: %+v, %v", m.Fragments[i].ID, place, err)
			}
		}
	})
	t.Run("LEG-5 mixed file versions set bit 8 and keep the table's version", func(t *testing.T) {
		m := open(t, "legacy_mixed", "table.lance", 4)
		versions := map[string]bool{}
		for _, f := range m.Fragments {
			versions[f.Files[0].Format()] = true
		}
		if m.DataFormat != "2.1" || !m.ReaderFlags.Has(FlagMixedVersions) || !versions["2.1"] || !versions["2.2"] {
			t.Errorf("format %s, flags %d, files %v", m.DataFormat, m.ReaderFlags, versions)
		}
	})
}
