package table_test

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flightblob/flightblob/schema"
	"github.com/flightblob/flightblob/table"
	"github.com/flightblob/flightblob/table/tabletest"
)

// fixtureRules says which rules of the blob sheet a fixture judges here: which
// file owns a value, what a legacy column shows, what flags and clones mean.
var fixtureRules = map[string]string{
	"column_added_later":            "RES-1",
	"fragments_and_deletions":       "RES-1",
	"sidecars_in_bases":             "RES-2",
	"managed_registered_base_plain": "RES-2",
	"managed_prepared":              "RES-12",
	"managed_registered_base_root":  "RES-12",
	"clone_shallow":                 "CLN-1 CLN-2 CLN-3",
	"clone_shallow_unmanaged":       "CLN-1 CLN-2",
	"clone_of_clone":                "CLN-1",
	"clone_deep":                    "CLN-5 CLN-7",
	"tags_and_branches":             "CLN-6",
	"branches_managed":              "CLN-6 RES-12",
	"legacy_mixed":                  "LEG-5 LEG-6 LEG-7",
	"legacy_v20":                    "LEG-6 LEG-9",
	"legacy_v21":                    "LEG-6 LEG-9",
	"managed_fresh":                 "CAP-2",
	"managed_lifecycle":             "CAP-2 CAP-3 CAP-6",
	"managed_optout_compacted":      "CAP-3",
	"managed_adopted_cleaned":       "RES-13",
	"kinds_basic_v23":               "MAT-4 RES-15",
	"external_missing":              "RES-15",
	"descriptors_crafted":           "DESC-6 RES-15",
	"nested_v22":                    "NUL-11",
	"nested_v23":                    "NUL-11",
	"nested_managed_compacted":      "NUL-11",
	"append_complete_on_minimal":    "SCH-9",
	"append_minimal_on_complete":    "SCH-9",
	"thresholds_changed":            "MAT-5",
}

// TestFixtures reads every version of every golden table in every way and
// compares it with what the reference recorded.
func TestFixtures(t *testing.T) {
	t.Parallel()
	dir := tabletest.Fixtures(t)
	for _, fixture := range tabletest.FixtureNames(t, dir) {
		name := fixture
		if rules := fixtureRules[fixture]; rules != "" {
			name = rules + " " + fixture
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// External objects lie in the fixture's own folder.
			env := tabletest.Env(t, filepath.Join(dir, fixture))
			recorded := tabletest.ReadRecorded(t, dir, fixture)
			if len(recorded.Tables) == 0 {
				t.Fatal("nothing is recorded")
			}
			for name, line := range recorded.Tables {
				tab := tabletest.Open(t, env, filepath.Join(dir, fixture, name))
				checkLine(t, tab, "", line)
				for branch, b := range line.Branches {
					checkLine(t, tab, branch, &b.RecordedLine)
				}
				checkRefs(t, tab, line)
			}
		})
	}
}

func checkLine(t *testing.T, tab *table.Table, branch string, line *tabletest.RecordedLine) {
	t.Helper()
	if s := tabletest.At(t, tab, table.Ref{Branch: branch}); s.Version() != line.LatestVersion {
		t.Errorf("newest version of %q is %d, want %d", branch, s.Version(), line.LatestVersion)
	}
	var numbers []uint64
	for _, v := range line.Versions {
		numbers = append(numbers, v.Version)
		s := tabletest.At(t, tab, table.Ref{Branch: branch, Version: v.Version})
		m := s.Manifest()
		if uint64(m.ReaderFlags) != v.ReaderFlags || uint64(m.WriterFlags) != v.WriterFlags {
			t.Errorf("flags of version %d: %d, %d, want %d, %d", v.Version, m.ReaderFlags, m.WriterFlags, v.ReaderFlags, v.WriterFlags)
		}
	}
	infos, err := tab.Versions(t.Context(), branch)
	if err != nil {
		t.Fatal(err)
	}
	var listed []uint64
	for _, info := range infos {
		listed = append(listed, info.Version)
		if want := line.Snapshots[info.Version]; want != nil && info.Rows != want.RowCount {
			t.Errorf("Versions says %d rows of version %d, want %d", info.Rows, info.Version, want.RowCount)
		}
		if info.Operation == "" || info.Timestamp.IsZero() {
			t.Errorf("version %d: operation %q at %v", info.Version, info.Operation, info.Timestamp)
		}
	}
	slices.Sort(numbers)
	if diff := cmp.Diff(numbers, listed); diff != "" {
		t.Errorf("versions of %q (-want +got):\n%s", branch, diff)
	}
	for version, want := range line.Snapshots {
		s := tabletest.At(t, tab, table.Ref{Branch: branch, Version: version})
		checkSnapshot(t, fmt.Sprintf("%s@%s%d", tab.Name(), branch, version), s, want)
	}
}

func checkSnapshot(t *testing.T, name string, s *table.Snapshot, want *tabletest.RecordedSnapshot) {
	t.Helper()
	if s.Rows() != want.RowCount {
		t.Errorf("%s has %d rows, want %d", name, s.Rows(), want.RowCount)
	}
	legacy := pureLegacy(s.Schema())
	descriptors, rows := tabletest.ScanAll(t, s, table.ScanRequest{})
	if diff := cmp.Diff(want.Rows, rows, sameWhenEmpty); diff != "" {
		t.Errorf("rows of %s (-want +got):\n%s", name, diff)
	}
	stored := want.Descriptors
	if legacy {
		stored = legacyNulls(stored)
	}
	if diff := cmp.Diff(stored, onlyBlobs(s.Schema(), descriptors, legacy), sameWhenEmpty); diff != "" {
		t.Errorf("descriptors of %s (-want +got):\n%s", name, diff)
	}
	added, _ := tabletest.ScanAll(t, s, table.ScanRequest{Columns: []string{table.RowID, table.RowAddr}})
	for i, row := range added {
		if got, want := fmt.Sprint(row), fmt.Sprintf("map[_rowaddr:%d _rowid:%d]", want.RowAddresses[i], want.RowIDs[i]); got != want {
			t.Errorf("row %d of %s: %s, want %s", i, name, got, want)
		}
	}
	checkSelections(t, name, s, rows)
}

// checkSelections reads parts and single rows and compares with the whole.
func checkSelections(t *testing.T, name string, s *table.Snapshot, all []map[string]any) {
	t.Helper()
	n := len(all)
	for _, c := range [][2]int{{0, 0}, {1, 1}, {n / 2, min(n, 2000)}, {n / 3, 3}, {n - 1, 5}, {n, 1}} {
		offset, limit := max(0, c[0]), uint64(c[1])
		_, got := tabletest.ScanAll(t, s, table.ScanRequest{Offset: uint64(offset), Limit: &limit, BatchRows: max(3, n/20)})
		want := all[min(offset, n):min(n, offset+c[1])]
		if diff := cmp.Diff(want, got, sameWhenEmpty); diff != "" {
			t.Errorf("%s from %d, %d rows (-want +got):\n%s", name, offset, limit, diff)
		}
	}
	if n == 0 {
		return
	}
	var rows []uint64
	for i := range min(n, 40) {
		rows = append(rows, uint64(n-1-(i*7)%n), uint64((i*i)%n))
	}
	rows = append(rows, rows[0], rows[0], 0)
	_, got := tabletest.ScanAll(t, s, table.ScanRequest{Rows: rows})
	want := make([]map[string]any, len(rows))
	for i, row := range rows {
		want[i] = all[row]
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s, rows %v (-want +got):\n%s", name, rows, diff)
	}
}

var sameWhenEmpty = cmp.Transformer("empty", func(rows []map[string]any) []map[string]any {
	if len(rows) == 0 {
		return nil
	}
	return rows
})

func pureLegacy(s *schema.Schema) bool {
	for b := range s.Blobs() {
		if b.Blob == schema.LegacyBlob {
			return true
		}
	}
	return false
}

// onlyBlobs leaves what holds blobs, as expected.json does; of purely legacy
// tables only position and size are recorded.
func onlyBlobs(s *schema.Schema, rows []map[string]any, legacy bool) []map[string]any {
	out := make([]map[string]any, len(rows))
	for i, row := range rows {
		out[i] = map[string]any{}
		for _, f := range s.Fields {
			if holdsBlobs(f) {
				out[i][f.Name] = prune(f, row[f.Name], legacy)
			}
		}
	}
	return out
}

func holdsBlobs(f *schema.Field) bool {
	for range f.Blobs() {
		return true
	}
	return false
}

func prune(f *schema.Field, value any, legacy bool) any {
	switch v := value.(type) {
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = prune(f.Children[0], item, legacy)
		}
		return out
	case map[string]any:
		out := map[string]any{}
		switch {
		case f.Blob != schema.NotBlob && legacy:
			return map[string]any{"position": v["position"], "size": v["size"]}
		case f.Blob != schema.NotBlob:
			return v
		}
		for _, c := range f.Children {
			if holdsBlobs(c) {
				out[c.Name] = prune(c, v[c.Name], legacy)
			}
		}
		return out
	}
	return value
}

// legacyNulls shows a stored null of format 2.0, size 0 at a position, as null.
func legacyNulls(rows []map[string]any) []map[string]any {
	out := make([]map[string]any, len(rows))
	for i, row := range rows {
		out[i] = maps.Clone(row)
		for name, v := range row {
			if d, ok := v.(map[string]any); ok && fmt.Sprint(d["size"]) == "0" && fmt.Sprint(d["position"]) != "0" {
				out[i][name] = nil
			}
		}
	}
	return out
}

func checkRefs(t *testing.T, tab *table.Table, line *tabletest.RecordedLine) {
	t.Helper()
	tags, err := tab.Tags(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, tag := range tags {
		got[tag.Name] = tag.Branch + "@" + strconv.FormatUint(tag.Version, 10)
		s := tabletest.At(t, tab, table.Ref{Tag: tag.Name})
		if s.Version() != tag.Version || s.Ref().Branch != tag.Branch {
			t.Errorf("tag %s opens %v", tag.Name, s.Ref())
		}
	}
	want := map[string]string{}
	for name, tag := range line.Tags {
		branch := ""
		if tag.Branch != nil {
			branch = *tag.Branch
		}
		want[name] = branch + "@" + strconv.FormatUint(tag.Version, 10)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("tags of %s (-want +got):\n%s", tab.Name(), diff)
	}
	branches, err := tab.Branches(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	parents := map[string]string{}
	for _, b := range branches {
		parents[b.Name] = b.ParentBranch + "@" + strconv.FormatUint(b.ParentVersion, 10)
	}
	want = map[string]string{}
	for name, b := range line.Branches {
		parent := ""
		if b.ParentBranch != nil {
			parent = *b.ParentBranch
		}
		want[name] = parent + "@" + strconv.FormatUint(b.ParentVersion, 10)
	}
	if diff := cmp.Diff(want, parents); diff != "" {
		t.Errorf("branches of %s (-want +got):\n%s", tab.Name(), diff)
	}
}
