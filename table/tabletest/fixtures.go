// Package tabletest gives tests of tables and of what reads them the golden
// fixtures, tables that pylance writes on the spot, and Arrow rows as plain
// values that can be compared.
package tabletest

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"sort"
	"testing"

	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/table"
)

// recordedRoot is the folder that the fixtures were written below; absolute
// paths in them start with it.
const recordedRoot = "/tmp/flightblob-fixtures"

// Root is the top of the repository.
func Root(tb testing.TB) string {
	tb.Helper()
	dir, err := os.Getwd()
	if err != nil {
		tb.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			tb.Fatal("no go.mod above the test")
		}
		dir = parent
	}
}

// Fixtures is the folder of the golden tables, at the place that their absolute
// paths name: a link that this function makes when it is missing or dangling,
// and that belongs to the whole machine. Anything else there fails the test.
func Fixtures(tb testing.TB) string {
	tb.Helper()
	real := filepath.Join(Root(tb), "conformance", "fixtures")
	want, err := filepath.EvalSymlinks(real)
	if err != nil {
		tb.Fatal(err)
	}
	for range 10 {
		got, err := filepath.EvalSymlinks(recordedRoot)
		if err == nil {
			if got == want || sameFixtures(got, want) {
				return filepath.Join(recordedRoot, "tables")
			}
			tb.Fatalf("%s leads to %s, which holds other fixtures than %s; remove it", recordedRoot, got, want)
		}
		if _, err := os.Lstat(recordedRoot); err == nil {
			_ = os.Remove(recordedRoot) // a dangling link
		}
		// A link made aside and renamed appears at once, also beside other tests.
		aside := filepath.Join(tb.TempDir(), "link")
		if err := os.Symlink(want, aside); err != nil {
			tb.Fatal(err)
		}
		if err := os.Rename(aside, recordedRoot); err != nil {
			if err := os.Symlink(want, recordedRoot); err != nil && !os.IsExist(err) {
				tb.Fatal(err)
			}
		}
	}
	tb.Fatalf("%s cannot be made", recordedRoot)
	return ""
}

// sameFixtures says that two folders hold the same recorded results.
func sameFixtures(a, b string) bool {
	x, err := filepath.Glob(filepath.Join(a, "tables", "*", "expected.json"))
	y, err2 := filepath.Glob(filepath.Join(b, "tables", "*", "expected.json"))
	if err != nil || err2 != nil || len(x) != len(y) || len(x) == 0 {
		return false
	}
	for i := range x {
		p, err := os.ReadFile(x[i])
		q, err2 := os.ReadFile(y[i])
		if err != nil || err2 != nil || !bytes.Equal(p, q) {
			return false
		}
	}
	return true
}

// Recorded is what a fixture must read back as.
type Recorded struct {
	About  string                   `json:"about"`
	Tables map[string]*RecordedLine `json:"tables"`
}

// RecordedLine is what one table or branch must read back as.
type RecordedLine struct {
	LatestVersion uint64                       `json:"latest_version"`
	Versions      []RecordedVersion            `json:"versions"`
	Snapshots     map[uint64]*RecordedSnapshot `json:"snapshots"`
	Tags          map[string]struct {
		Version uint64  `json:"version"`
		Branch  *string `json:"branch"`
	} `json:"tags"`
	Branches map[string]*RecordedBranch `json:"branches"`
}

// RecordedBranch is a branch with its parent.
type RecordedBranch struct {
	RecordedLine
	ParentBranch  *string `json:"parent_branch"`
	ParentVersion uint64  `json:"parent_version"`
}

// RecordedVersion is what one manifest holds.
type RecordedVersion struct {
	Version     uint64 `json:"version"`
	ReaderFlags uint64 `json:"reader_flags"`
	WriterFlags uint64 `json:"writer_flags"`
}

// RecordedSnapshot is the content of one version, in scan order.
type RecordedSnapshot struct {
	RowCount     uint64           `json:"row_count"`
	Rows         []map[string]any `json:"rows"`
	Descriptors  []map[string]any `json:"descriptors"`
	RowIDs       []uint64         `json:"row_ids"`
	RowAddresses []uint64         `json:"row_addresses"`
}

// ReadRecorded reads the expected.json of a fixture. Numbers are json.Number.
func ReadRecorded(tb testing.TB, dir, fixture string) *Recorded {
	tb.Helper()
	data, err := os.ReadFile(filepath.Join(dir, fixture, "expected.json"))
	if err != nil {
		tb.Fatal(err)
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	r := new(Recorded)
	if err := decoder.Decode(r); err != nil {
		tb.Fatalf("%s: %v", fixture, err)
	}
	return r
}

// FixtureNames lists the fixtures.
func FixtureNames(tb testing.TB, dir string) []string {
	tb.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		tb.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	if len(names) == 0 {
		tb.Fatalf("no fixtures in %s", dir)
	}
	sort.Strings(names)
	return names
}

// Env makes an environment over local files that may touch the given prefixes.
func Env(tb testing.TB, prefixes ...string) *table.Env {
	tb.Helper()
	return CountedEnv(tb, nil, prefixes...)
}

// CountedEnv is an Env whose requests to stores are counted.
func CountedEnv(tb testing.TB, counter *objstore.Counter, prefixes ...string) *table.Env {
	tb.Helper()
	registry := objstore.NewRegistry(objstore.Options{Counter: counter})
	tb.Cleanup(func() {
		if err := registry.Close(); err != nil {
			tb.Error(err)
		}
	})
	return table.NewEnv(registry, objstore.NewAccess(prefixes...), table.Limits{})
}

// Open opens the table in a local folder.
func Open(tb testing.TB, env *table.Env, path string) *table.Table {
	tb.Helper()
	loc, err := env.Locate(tb.Context(), path)
	if err != nil {
		tb.Fatal(err)
	}
	t, err := table.Open(tb.Context(), env, loc)
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

// At opens a version of a table.
func At(tb testing.TB, t *table.Table, ref table.Ref) *table.Snapshot {
	tb.Helper()
	s, err := t.At(tb.Context(), ref)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}
