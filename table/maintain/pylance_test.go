package maintain_test

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flightblob/flightblob/table"
	"github.com/flightblob/flightblob/table/maintain"
	"github.com/flightblob/flightblob/table/tabletest"
)

// prelude are the tools of the Python side. state reads every version, tag and
// branch of a table with the bytes of its blobs.
const prelude = `
import datetime, hashlib, lance, numpy, os, pathlib, pyarrow as pa, shutil, time
from lance import blob_array, blob_field

def rows(first, n=7, managed=False, plain=False):
    sizes = [10, 0, None, 100, 90, 300, 129]
    values = [None if sizes[i % 7] is None else numpy.random.default_rng(first + i).bytes(sizes[i % 7]) for i in range(n)]
    md = {"lance.blob.managed": "true"} if managed else None
    ids = pa.array(range(first, first + n), pa.int64())
    if plain:
        return pa.table({"id": ids, "s": pa.array([str(i) for i in range(n)])})
    f = blob_field("img", inline_size_threshold=64, dedicated_size_threshold=128, pack_file_size_threshold=150)
    return pa.table([ids, blob_array(values)], schema=pa.schema([pa.field("id", pa.int64()), f], metadata=md))

def append(path, *a, **kw):
    return lance.write_dataset(rows(*a, **kw), path, mode="append")

def files(path):
    return sorted(str(f.relative_to(path)) for f in pathlib.Path(path).rglob("*") if f.is_file())

def old(path, days=8):
    t = time.time() - days * 86400
    os.utime(path, (t, t))

def stray(path, name, days=0):
    p = pathlib.Path(path, name)
    p.parent.mkdir(parents=True, exist_ok=True)
    p.write_bytes(b"stray")
    old(p, days)

def digest(ds):
    if not any(f.name == "img" for f in ds.schema):
        return hashlib.sha256(repr(ds.to_table().to_pylist()).encode()).hexdigest()
    return hashlib.sha256(repr(ds.scanner(blob_handling="all_binary").to_table().to_pylist()).encode()).hexdigest()

def state(path):
    ds = lance.dataset(path)
    found = {f"main {v['version']}": digest(ds.checkout_version(v["version"])) for v in ds.versions()}
    for name in ds.branches.list():
        b = ds.checkout_version((name, None))
        found.update({f"{name} {v['version']}": digest(b.checkout_version((name, v["version"]))) for v in b.versions()})
    found.update({f"tag {name}": digest(ds.checkout_version(name)) for name in ds.tags.list()})
    return found
`

// life is a table that pylance makes at path P, and how it is cleaned up.
type life struct {
	name   string
	make   string
	clean  string // arguments of cleanup_old_versions
	of     string // expression that gives the dataset to clean, by default the table
	policy maintain.Policy
	// more are files that pylance removes and this program keeps on purpose, fewer
	// those that only this program removes.
	more, fewer func(file string) bool
}

func age(d time.Duration) *time.Duration { return &d }

var all = maintain.Policy{OlderThan: age(0)}

const everything = `older_than=datetime.timedelta(0), error_if_tagged_old_versions=False`

func lives() []life {
	return []life{
		{
			name: "GC-4 appends, deletes and an overwrite",
			make: `
lance.write_dataset(rows(0, plain=True), P)
append(P, 7, plain=True)
lance.dataset(P).delete("id in (1, 2, 9)")
append(P, 14, plain=True)
lance.write_dataset(rows(50, plain=True), P, mode="overwrite")
lance.dataset(P).delete("id = 51")
`, clean: everything, policy: all,
		},
		{
			name: "GC-4 the newest three",
			make: `
lance.write_dataset(rows(0), P)
for i in range(1, 5): lance.write_dataset(rows(7 * i), P, mode="overwrite")
`, clean: `retain_versions=3`, policy: maintain.Policy{RetainVersions: 3},
		},
		{
			name: "GC-4 both conditions",
			make: `
lance.write_dataset(rows(0), P)
for i in range(1, 5): lance.write_dataset(rows(7 * i), P, mode="overwrite")
`, clean: `retain_versions=3, older_than=datetime.timedelta(days=1)`, policy: maintain.Policy{RetainVersions: 3, OlderThan: age(24 * time.Hour)},
		},
		{
			name: "GC-4 the default is two weeks",
			make: `
lance.write_dataset(rows(0), P)
lance.write_dataset(rows(7), P, mode="overwrite")
`, clean: ``, policy: maintain.Policy{},
		},
		{
			name: "GC-4 tags",
			make: `
ds = lance.write_dataset(rows(0), P)
ds = lance.write_dataset(rows(7), P, mode="overwrite")
ds.tags.create("second", 2)
append(P, 14)
lance.write_dataset(rows(21), P, mode="overwrite")
`, clean: everything, policy: all,
		},
		{
			name: "GC-7 sidecars of compacted files",
			make: `
lance.write_dataset(rows(0), P)
append(P, 7)
lance.dataset(P).delete("id in (3, 4)")
lance.dataset(P).optimize.compact_files()
`, clean: everything, policy: all,
		},
		{
			name: "GC-2 GC-5 GC-6 adopted sidecars and managed objects after deletes",
			make: `
lance.write_dataset(rows(0), P)
append(P, 7)
lance.dataset(P).update_schema_metadata({"lance.blob.managed": "true"})
append(P, 14, managed=True)
append(P, 21, managed=True)
lance.dataset(P).delete("id in (3, 10, 11, 17, 19, 24, 25)")
lance.dataset(P).optimize.compact_files()
lance.dataset(P).delete("id in (5, 18)")
append(P, 28, managed=True)
`, clean: everything, policy: all,
		},
		{
			name: "GC-5 GC-9 managed objects that nothing refers to any more",
			make: `
lance.write_dataset(rows(0, managed=True), P)
lance.write_dataset(rows(7, managed=True), P, mode="overwrite")
lance.dataset(P).delete("id > 8")
append(P, 14, managed=True)
stray(P, "_blobs/00000000-0000-0000-0000-000000000000.blob", 8)
stray(P, "_blobs/00000000-0000-0000-0000-000000000001.blob", 6)
`, clean: everything, policy: all,
		},
		{
			name: "GC-5 managed after the opt-out",
			make: `
lance.write_dataset(rows(0, managed=True), P)
lance.dataset(P).update_schema_metadata({"lance.blob.managed": "false"})
append(P, 7)
lance.dataset(P).optimize.compact_files()
append(P, 14)
`, clean: everything, policy: all,
		},
		{
			name: "GC-9 indexes that were replaced",
			make: `
ds = lance.write_dataset(rows(0, 500, plain=True), P)
ds.create_scalar_index("id", "BTREE")
lance.dataset(P).create_scalar_index("s", "BITMAP")
append(P, 500, 100, plain=True)
lance.dataset(P).optimize.optimize_indices()
lance.dataset(P).create_scalar_index("id", "BTREE", replace=True)
`, clean: everything, policy: all,
		},
		{
			name: "GC-9 what nobody knows, young and old",
			make: strays, clean: everything, policy: all, more: reuseMap,
		},
		{
			name: "GC-9 what nobody knows, on request",
			make: strays, clean: everything + `, delete_unverified=True`, policy: maintain.Policy{OlderThan: age(0), DeleteUnverified: true}, more: reuseMap,
			// pylance does not look at these when they are newer than the oldest version that stays.
			fewer: func(f string) bool {
				return strings.HasPrefix(f, "_versions/.tmp") || strings.HasPrefix(f, "_transactions/") || strings.HasPrefix(f, "_deletions/")
			},
		},
		{
			name: "GC-4 GC-12 a branch from a version that went",
			make: `
ds = lance.write_dataset(rows(0, managed=True), P)
append(P, 7, managed=True)
b = lance.dataset(P).create_branch("dev/one", 2)
lance.write_dataset(rows(100, managed=True), b, mode="append")
lance.write_dataset(rows(14, managed=True), P, mode="overwrite")
append(P, 21, managed=True)
`, clean: everything, policy: all,
			more: func(f string) bool { return strings.HasPrefix(f, "_transactions/1-") }, // of the version that the branch left
		},
		{
			name: "GC-12 a branch that needs nothing of its parent any more",
			make: `
ds = lance.write_dataset(rows(0), P)
b = lance.dataset(P).create_branch("dev", 1)
b = lance.write_dataset(rows(100), b, mode="overwrite")
lance.dataset(P).checkout_version(("dev", None)).cleanup_old_versions(older_than=datetime.timedelta(0))
lance.write_dataset(rows(14), P, mode="overwrite")
`, clean: everything, policy: all,
		},
		{
			name: "GC-4 a branch is cleaned",
			make: `
ds = lance.write_dataset(rows(0, managed=True), P)
b = ds.create_branch("dev", 1)
b = lance.write_dataset(rows(100, managed=True), b, mode="append")
b = b.checkout_version(("dev", None))
b.delete("id in (0, 103)")
b = b.checkout_version(("dev", None))
lance.write_dataset(rows(200, managed=True), b, mode="overwrite")
lance.write_dataset(rows(7, managed=True), P, mode="overwrite")
`, of: `lance.dataset(P).checkout_version(("dev", None))`, clean: everything, policy: maintain.Policy{OlderThan: age(0), Branch: "dev"},
		},
		{
			name: "GC-10 a clone is cleaned, not its source",
			make: `
S = P + "-source.lance"
shutil.rmtree(S, ignore_errors=True)
src = lance.write_dataset(rows(0, managed=True), S)
src.tags.create("pin", 1)
src.shallow_clone(P, "pin")
append(P, 7, managed=True)
lance.dataset(P).delete("id in (3, 10)")
lance.dataset(P).optimize.compact_files()
`, clean: everything + `, delete_unverified=True`, policy: maintain.Policy{OlderThan: age(0), DeleteUnverified: true},
		},
		{
			name: "GC-10 files in other bases",
			make: `
B = P + "-base"
shutil.rmtree(B, ignore_errors=True); os.makedirs(B)
lance.write_dataset(rows(0, managed=True), P, initial_bases=[lance.DatasetBasePath(B, "b1", True, 7)], target_bases=["b1"])
append(P, 7, managed=True)
lance.write_dataset(rows(14, managed=True), P, mode="overwrite")
`, clean: everything + `, delete_unverified=True`, policy: maintain.Policy{OlderThan: age(0), DeleteUnverified: true},
		},
		{
			name: "GC-8 external values",
			make: `
E = P + "-outside"
shutil.rmtree(E, ignore_errors=True); os.makedirs(E)
pathlib.Path(E, "x.bin").write_bytes(b"outside")
f = blob_field("img")
t = pa.table([pa.array([1], pa.int64()), blob_array(["file://" + E + "/x.bin"])], schema=pa.schema([pa.field("id", pa.int64()), f], metadata={"lance.blob.managed": "true"}))
lance.write_dataset(t, P, allow_external_blob_outside_bases=True)
lance.write_dataset(rows(7, managed=True), P, mode="overwrite")
`, clean: everything, policy: all,
		},
		{
			name: "GC-9 a legacy column that became Blob v2",
			make: `
f = pa.field("img", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
def legacy(first): return pa.table([pa.array([first, first + 1], pa.int64()), pa.array([b"x" * 5000, b"y"], pa.large_binary())], schema=pa.schema([pa.field("id", pa.int64()), f]))
lance.write_dataset(legacy(0), P, data_storage_version="2.1")
lance.write_dataset(legacy(2), P, mode="append", data_storage_version="2.2")
lance.write_dataset(legacy(4), P, mode="append")
lance.dataset(P).delete("id = 2")
`, clean: everything, policy: all,
		},
	}
}

// reuseMap names row maps of the tagged fragment reuse index, which this program
// does not maintain.
func reuseMap(f string) bool { return strings.HasPrefix(f, "_fri/") }

const strays = `
lance.write_dataset(rows(0, managed=True), P)
lance.write_dataset(rows(7, managed=True), P, mode="overwrite")
for days in (0, 6, 8):
    stem = f"0101010101010101010101{days:02d}aaaaaaaaaaaaaaaaaaaaaaaaaa"
    stray(P, f"data/{stem}.lance", days)
    stray(P, f"data/{stem}s/10000000000000000000000000000000.blob", days)
    stray(P, f"_blobs/{days:08d}-0000-0000-0000-000000000000.blob", days)
    stray(P, f"_deletions/0-1-{days}77.arrow", days)
    stray(P, f"_deletions/0-1-{days}78.bin", days)
    stray(P, f"_transactions/1-{days:08d}-0000-0000-0000-000000000000.txn", days)
    stray(P, f"_indices/{days:08d}-0000-0000-0000-000000000000/page_data.lance", days)
    stray(P, f"_versions/.tmp-{days}", days)
    stray(P, f"data/.tmp-{days}", days)
    stray(P, f"data/{stem}s/.tmp-{days}", days)
    stray(P, f"data/notes{days}.txt", days)
    stray(P, f"_blobs/notes{days}.txt", days)
    stray(P, f"_versions/18446744073709551610.manifest-{days}", days)
    stray(P, f"notes{days}.lance", days)
    stray(P, f"elsewhere/data/x{days}.lance", days)
    stray(P, f"_fri/x/map{days}", days)
`

// TestCleanupRemovesWhatPylanceRemoves lets pylance and this program clean up the
// same table, and compares what is left. What stays is read by pylance, and what
// pylance leaves by this program.
func TestCleanupRemovesWhatPylanceRemoves(t *testing.T) {
	session := tabletest.StartSession(t)
	session.Run(nil, prelude)
	for _, l := range lives() {
		t.Run(l.name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "t.lance")
			session.Run(nil, fmt.Sprintf("P = %q\n%s", path, l.make))
			before := contents(t, path)
			beside := contents(t, dir)
			saved := filepath.Join(t.TempDir(), "saved")
			session.Run(nil, fmt.Sprintf("shutil.copytree(%q, %q)", path, saved))
			var states map[string]string
			session.Run(&states, "state(P)")

			of := l.of
			if of == "" {
				of = "lance.dataset(P)"
			}
			session.Run(nil, of+".cleanup_old_versions("+l.clean+")")
			theirs := contents(t, path)
			opened := tabletest.Open(t, tabletest.Env(t, dir), path)
			readAll(t, opened, l.policy.Branch)

			session.Run(nil, fmt.Sprintf("shutil.rmtree(P)\nshutil.copytree(%q, P)", saved))
			tbl := tabletest.Open(t, tabletest.Env(t, dir), path)
			dry := l.policy
			dry.DryRun = true
			foreseen, err := maintain.Cleanup(t.Context(), tbl, dry)
			if err != nil {
				t.Fatal(err)
			}
			if got := contents(t, path); !maps.Equal(got, before) {
				t.Errorf("the dry run changed files: %v", differences(before, got))
			}
			report, err := maintain.Cleanup(t.Context(), tbl, l.policy)
			if err != nil {
				t.Fatal(err)
			}
			ours := contents(t, path)
			for f := range before {
				_, a := theirs[f]
				_, b := ours[f]
				if a != b && (!b || l.more == nil || !l.more(f)) && (!a || l.fewer == nil || !l.fewer(f)) {
					t.Errorf("%s: pylance keeps it: %t, this program: %t", f, a, b)
				}
			}
			for _, f := range emptyFolders(t, path) {
				if strings.HasPrefix(f, "data/") || strings.HasPrefix(f, "_indices/") {
					t.Errorf("folder %s is left, and empty", f)
				}
			}
			sum, gone := report.Total(), differences(before, ours)
			if int(sum.Files) != len(gone) {
				t.Errorf("the report counts %d files, %d are gone", sum.Files, len(gone))
			}
			foreseen.DryRun = false
			if a, b := foreseen.String(), report.String(); a != b {
				t.Errorf("foreseen\n%s\nremoved\n%s", a, b)
			}
			for f, content := range contents(t, dir) { // GC-2, GC-8, GC-10
				if beside[f] != content {
					t.Errorf("%s was changed", f)
				}
				delete(beside, f)
			}
			for f := range beside {
				if !strings.HasPrefix(f, "t.lance/") {
					t.Errorf("%s lies outside of the table and is gone", f)
				}
			}
			var after map[string]string
			session.Run(&after, "state(P)")
			for what, digest := range after {
				if states[what] != digest {
					t.Errorf("pylance reads %s as something else", what)
				}
			}
			if len(after) == 0 || len(after)+len(report.Removed) != len(states) {
				t.Errorf("%d states before, %d after, %d versions removed", len(states), len(after), len(report.Removed))
			}
			readAll(t, tbl, l.policy.Branch)
			t.Log(report.String())
		})
	}
}

// contents maps the files below a folder to what they hold.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path)
		files[rel] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// emptyFolders lists the folders that hold nothing.
func emptyFolders(t *testing.T, dir string) (empty []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		entries, err := os.ReadDir(path)
		if rel, _ := filepath.Rel(dir, path); len(entries) == 0 {
			empty = append(empty, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return empty
}

// differences are the files that are in only one of two folders.
func differences(a, b map[string]string) []string {
	var out []string
	for f := range a {
		if _, ok := b[f]; !ok {
			out = append(out, f)
		}
	}
	for f := range b {
		if _, ok := a[f]; !ok {
			out = append(out, f)
		}
	}
	slices.Sort(out)
	return out
}

// readAll reads every version and tag with all values.
func readAll(t *testing.T, tbl *table.Table, branch string) {
	t.Helper()
	for _, line := range slices.Compact([]string{"", branch}) {
		versions, err := tbl.Versions(t.Context(), line)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range versions {
			tabletest.ScanAll(t, tabletest.At(t, tbl, table.Ref{Branch: line, Version: v.Version}), table.ScanRequest{})
		}
	}
	tags, err := tbl.Tags(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, tag := range tags {
		tabletest.ScanAll(t, tabletest.At(t, tbl, table.Ref{Tag: tag.Name}), table.ScanRequest{})
	}
}
