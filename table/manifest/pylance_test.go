package manifest_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/flightblob/flightblob/schema"
	"github.com/flightblob/flightblob/table/manifest"
	"github.com/flightblob/flightblob/table/rowset"
	"github.com/flightblob/flightblob/table/tabletest"
)

// These tests publish manifests made by Apply and Encode beside the reference,
// by the few file operations that a commit takes, and let it read, check and
// extend the result.

// referee is a Python session in which the tables of one test live.
type referee struct {
	*tabletest.Session
	t   *testing.T
	dir string
}

const prelude = `
import base64, json, lance, pyarrow as pa, pyarrow.compute as pc
from lance import LanceOperation as Op
from lance.fragment import write_fragments
def stage(data, uri, **kw):
    return [json.loads(json.dumps(f.to_json())) if not isinstance(f.to_json(), str) else json.loads(f.to_json()) for f in write_fragments(data, uri, mode="append", **kw)]
def ids(uri, version=None):
    ds = lance.dataset(uri, version=version)
    ds.validate()
    got = sorted(ds.to_table(columns=["id"])["id"].to_pylist())
    assert ds.count_rows() == len(got), (ds.count_rows(), len(got))
    return got
`

func newReferee(t *testing.T) *referee {
	t.Helper()
	r := &referee{Session: tabletest.StartSession(t), t: t, dir: t.TempDir()}
	r.Run(nil, prelude)
	r.Run(nil, fmt.Sprintf("import os; os.chdir(%q)", r.dir))
	return r
}

// writer publishes versions of one table as a committer does.
type writer struct {
	t    *testing.T
	root string
}

func (r *referee) table(name string) *writer { return &writer{r.t, filepath.Join(r.dir, name)} }

// at reads one version, 0 for the newest.
func (w *writer) at(version uint64) *manifest.Manifest {
	w.t.Helper()
	entries, err := os.ReadDir(filepath.Join(w.root, manifest.VersionsDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.t.Fatal(err)
	}
	newest := version
	for _, e := range entries {
		if v, scheme, ok := manifest.ParseName(e.Name()); ok && scheme == manifest.V2 && version == 0 {
			newest = max(newest, v)
		}
	}
	if newest == 0 {
		return nil
	}
	data, err := os.ReadFile(filepath.Join(w.root, manifest.Path(newest, manifest.V2)))
	if err != nil {
		w.t.Fatal(err)
	}
	m, err := manifest.Decode(data)
	if err != nil {
		w.t.Fatal(err)
	}
	return m
}

// commit applies an operation to the newest version and publishes the result.
func (w *writer) commit(op manifest.Operation, o manifest.ApplyOptions) *manifest.Manifest {
	w.t.Helper()
	m, err := w.try(op, o)
	if err != nil {
		w.t.Fatal(err)
	}
	return m
}

func (w *writer) try(op manifest.Operation, o manifest.ApplyOptions) (*manifest.Manifest, error) {
	w.t.Helper()
	base := w.at(0)
	tx := &manifest.Transaction{UUID: uuid.NewString(), Op: op}
	if base != nil {
		tx.ReadVersion = base.Version
	}
	o.Now = time.Now()
	next, err := manifest.Apply(base, tx, o)
	if err != nil {
		return nil, err
	}
	body, err := tx.Encode()
	if err != nil {
		return nil, err
	}
	inline := body
	if o.NoTransactionFile {
		body = nil
	}
	data, err := next.Encode(inline)
	if err != nil {
		return nil, err
	}
	if body != nil {
		w.write(filepath.Join(manifest.TransactionsDir, tx.FileName()), body)
	}
	w.write(manifest.Path(next.Version, manifest.V2), data)
	return next, nil
}

// write publishes a file that must not be there yet.
func (w *writer) write(name string, data []byte) {
	w.t.Helper()
	path := filepath.Join(w.root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		w.t.Fatal(err)
	}
	staged := filepath.Join(filepath.Dir(path), ".tmp"+uuid.NewString())
	if err := os.WriteFile(staged, data, 0o644); err != nil {
		w.t.Fatal(err)
	}
	if err := os.Link(staged, path); err != nil {
		w.t.Fatal(err)
	}
	if err := os.Remove(staged); err != nil {
		w.t.Fatal(err)
	}
}

// deleteRows writes a deletion file with the rows of a fragment that are gone
// after some more were deleted, and gives the fragment with it.
func (w *writer) deleteRows(m *manifest.Manifest, id uint64, bitmap bool, offsets ...uint64) manifest.Fragment {
	w.t.Helper()
	i := slices.IndexFunc(m.Fragments, func(f manifest.Fragment) bool { return f.ID == id })
	f := m.Fragments[i]
	gone, err := rowset.Deleted(f.PhysicalRows, slices.Values(offsets))
	if err != nil {
		w.t.Fatal(err)
	}
	if place, ok, err := m.DeletionPlace(&f); err != nil {
		w.t.Fatal(err)
	} else if ok {
		data, err := os.ReadFile(filepath.Join(w.root, place.Path))
		if err != nil {
			w.t.Fatal(err)
		}
		before, err := rowset.DecodeDeletions(data, f.Deletion.Bitmap, f.PhysicalRows)
		if err != nil {
			w.t.Fatal(err)
		}
		if gone, err = gone.Union(before); err != nil {
			w.t.Fatal(err)
		}
	}
	data := gone.EncodeBitmap()
	if !bitmap {
		if data, err = gone.EncodeArray(); err != nil {
			w.t.Fatal(err)
		}
	}
	f.Deletion = &manifest.DeletionFile{Bitmap: bitmap, ReadVersion: m.Version, ID: uint64(time.Now().UnixNano()), Rows: gone.Count()}
	place, _, err := m.DeletionPlace(&f)
	if err != nil {
		w.t.Fatal(err)
	}
	w.write(place.Path, data)
	return f
}

// staged is a fragment as the reference tells it.
type staged struct {
	Files []struct {
		Path    string
		Fields  []schema.FieldID
		Columns []int32 `json:"column_indices"`
		Major   uint32  `json:"file_major_version"`
		Minor   uint32  `json:"file_minor_version"`
		Size    uint64  `json:"file_size_bytes"`
		BaseID  *uint32 `json:"base_id"`
	}
	PhysicalRows uint64 `json:"physical_rows"`
}

// stage lets the reference write data files that no version names yet.
func (r *referee) stage(code string) []manifest.Fragment {
	r.t.Helper()
	var list []staged
	r.Run(&list, code)
	var out []manifest.Fragment
	for _, s := range list {
		f := manifest.Fragment{PhysicalRows: s.PhysicalRows}
		for _, d := range s.Files {
			f.Files = append(f.Files, manifest.DataFile{Path: d.Path, Fields: d.Fields, Columns: d.Columns, Major: d.Major, Minor: d.Minor, Size: d.Size, BaseID: d.BaseID})
		}
		out = append(out, f)
	}
	return out
}

// expect compares the ids of all live rows, after the reference validated the
// table.
func (r *referee) expect(uri string, want ...int) {
	r.t.Helper()
	var got []int
	r.Run(&got, fmt.Sprintf("ids(%q)", uri))
	if !slices.Equal(got, want) {
		r.t.Errorf("%s has the rows %v, want %v", uri, got, want)
	}
}

func TestReferenceExtendsOurVersions(t *testing.T) {
	t.Parallel()
	r := newReferee(t)
	r.Run(nil, `ds = lance.write_dataset(pa.table({"id": [0, 1, 2, 3], "s": ["a", "b", "c", "d"]}), "t", max_rows_per_file=2)`)
	w := r.table("t")

	m := w.commit(&manifest.Append{Fragments: r.stage(`stage(pa.table({"id": [4, 5], "s": ["e", None]}), "t")`)}, manifest.ApplyOptions{})
	if m.Version != 2 || len(m.Fragments) != 3 || m.Fragments[2].ID != 2 || m.ReaderFlags != 0 || m.WriterFlags != 0 {
		t.Errorf("%+v", m)
	}
	r.expect("t", 0, 1, 2, 3, 4, 5)

	t.Run("deletion files in both forms", func(t *testing.T) {
		m = w.commit(&manifest.Delete{Updated: []manifest.Fragment{w.deleteRows(m, 0, false, 1), w.deleteRows(m, 1, true, 0)}, Predicate: "x"}, manifest.ApplyOptions{})
		if !m.ReaderFlags.Has(manifest.FlagDeletionFiles) || !m.WriterFlags.Has(manifest.FlagDeletionFiles) {
			t.Errorf("flags %d, %d", m.ReaderFlags, m.WriterFlags)
		}
		r.expect("t", 0, 3, 4, 5)
	})
	t.Run("whole fragments", func(t *testing.T) {
		w.commit(&manifest.Delete{Deleted: []uint64{2}}, manifest.ApplyOptions{})
		r.expect("t", 0, 3)
	})
	t.Run("configuration and metadata", func(t *testing.T) {
		m := w.commit(&manifest.UpdateConfig{
			Config:         &manifest.UpdateMap{Entries: []manifest.UpdateEntry{manifest.Set("k", "v"), manifest.Set("gone", "x")}},
			TableMetadata:  &manifest.UpdateMap{Entries: []manifest.UpdateEntry{manifest.Set("owner", "me")}},
			SchemaMetadata: &manifest.UpdateMap{Entries: []manifest.UpdateEntry{manifest.Set("a", "b")}},
			FieldMetadata:  map[schema.FieldID]manifest.UpdateMap{1: {Entries: []manifest.UpdateEntry{manifest.Set("f", "g")}}},
		}, manifest.ApplyOptions{})
		if m.ReaderFlags != manifest.FlagDeletionFiles || m.WriterFlags != manifest.FlagDeletionFiles|manifest.FlagTableConfig {
			t.Errorf("flags %d, %d", m.ReaderFlags, m.WriterFlags)
		}
		w.commit(&manifest.UpdateConfig{Config: &manifest.UpdateMap{Entries: []manifest.UpdateEntry{manifest.Unset("gone")}}}, manifest.ApplyOptions{})
		var got []map[string]string
		r.Run(&got, `ds = lance.dataset("t")
[ds.config(), ds.metadata, {k.decode(): v.decode() for k, v in ds.schema.metadata.items()}, {k.decode(): v.decode() for k, v in ds.schema.field("s").metadata.items() if k != b"lance:field_id"}]`)
		for i, want := range []string{"map[k:v]", "map[owner:me]", "map[a:b]", "map[f:g]"} {
			if fmt.Sprint(got[i]) != want {
				t.Errorf("the reference sees %v, want %s", got[i], want)
			}
		}
	})
	t.Run("bases", func(t *testing.T) {
		m := w.commit(&manifest.UpdateBases{Bases: []manifest.Base{{Name: "one", Path: filepath.Join(r.dir, "b1")}, {Path: filepath.Join(r.dir, "b2"), IsDatasetRoot: true}}}, manifest.ApplyOptions{})
		if m.Bases[1].Name != "one" || !m.Bases[2].IsDatasetRoot {
			t.Errorf("bases %v", m.Bases)
		}
		r.Run(nil, `
lance.write_dataset(pa.table({"id": [20, 21], "s": ["x", "y"]}), "t", mode="append", target_bases=["one"])`)
		r.expect("t", 0, 3, 20, 21)
	})
	t.Run("the reference goes on: append, delete, update, columns, compaction, index", func(t *testing.T) {
		r.Run(nil, `
ds = lance.write_dataset(pa.table({"id": [6, 7], "s": ["g", "h"]}), "t", mode="append")
ds.delete("id = 6")
ds.update({"s": "'new'"}, where="id = 3")
ds.add_columns({"twice": "id * 2"})
ds.create_scalar_index("id", "BTREE")
ds.optimize.compact_files()
ds.validate()
`)
		r.expect("t", 0, 3, 7, 20, 21)
		var got []any
		r.Run(&got, `t = lance.dataset("t").to_table(filter="id = 3"); [t["s"].to_pylist(), t["twice"].to_pylist(), len(lance.dataset("t").versions())]`)
		if fmt.Sprint(got) != "[[new] [6] 15]" {
			t.Errorf("%v", got)
		}
	})
	t.Run("we go on, over the index of the reference", func(t *testing.T) {
		m := w.commit(&manifest.Append{Fragments: r.stage(`stage(pa.table({"id": [30], "s": ["z"], "twice": [60]}), "t")`)}, manifest.ApplyOptions{})
		if m.IndexCount != 1 {
			t.Errorf("%d indexes", m.IndexCount)
		}
		r.expect("t", 0, 3, 7, 20, 21, 30)
		var got []any
		r.Run(&got, `[lance.dataset("t").to_table(filter="id = %d" % i)["twice"].to_pylist() for i in (30, 21, 6)]`)
		if fmt.Sprint(got) != "[[60] [42] []]" {
			t.Errorf("through the index: %v", got)
		}
		m = w.commit(&manifest.Restore{Version: 2}, manifest.ApplyOptions{Source: w.at(2)})
		if m.IndexCount != 0 {
			t.Errorf("%d indexes after a restore to a version without", m.IndexCount)
		}
		r.expect("t", 0, 1, 2, 3, 4, 5)
		r.Run(nil, `lance.write_dataset(pa.table({"id": [40], "s": ["x"]}), "t", mode="append").delete("id < 5")`)
		r.expect("t", 5, 40)
	})
	t.Run("without a transaction file", func(t *testing.T) {
		m := w.commit(&manifest.ReserveFragments{Count: 5}, manifest.ApplyOptions{NoTransactionFile: true})
		if !m.WriterFlags.Has(manifest.FlagNoTransactionFiles) || m.ReaderFlags.Has(manifest.FlagNoTransactionFiles) {
			t.Errorf("flags %d, %d", m.ReaderFlags, m.WriterFlags)
		}
		before := *m.MaxFragmentID
		r.Run(nil, `ds = lance.write_dataset(pa.table({"id": [41], "s": ["x"]}), "t", mode="append"); ds.validate()`)
		if got := w.at(0); *got.MaxFragmentID != before+1 {
			t.Errorf("the reference gives the fragment id %d after %d", *got.MaxFragmentID, before)
		}
	})
}

func TestReferenceRebasesOverOurVersions(t *testing.T) {
	t.Parallel()
	r := newReferee(t)
	r.Run(nil, `ds = lance.write_dataset(pa.table({"id": list(range(8)), "s": ["x"] * 8}), "t", max_rows_per_file=2)`)
	w := r.table("t")
	// stale opens a handle, lets us commit, and then commits through the handle.
	stale := func(code string, op manifest.Operation) string {
		t.Helper()
		r.Run(nil, `stale = lance.dataset("t")`)
		w.commit(op, manifest.ApplyOptions{})
		return r.Try(nil, code)
	}
	more := func(id int) *manifest.Append {
		t.Helper()
		return &manifest.Append{Fragments: r.stage(fmt.Sprintf(`stage(pa.table({"id": [%d], "s": ["y"]}), "t")`, id))}
	}
	if text := stale(`stale.delete("id = 7")`, more(8)); text != "" {
		t.Errorf("a delete over our append: %s", text)
	}
	r.expect("t", 0, 1, 2, 3, 4, 5, 6, 8)
	if text := stale(`lance.write_dataset(pa.table({"id": [9], "s": ["z"]}), stale, mode="append")`, more(10)); text != "" {
		t.Errorf("an append over our append: %s", text)
	}
	r.expect("t", 0, 1, 2, 3, 4, 5, 6, 8, 9, 10)
	m := w.at(0)
	if text := stale(`stale.delete("id = 0")`, &manifest.Delete{Updated: []manifest.Fragment{w.deleteRows(m, 0, false, 1)}}); text != "" {
		t.Errorf("a delete over our delete of another row of the fragment: %s", text)
	}
	r.expect("t", 2, 3, 4, 5, 6, 8, 9, 10)
	m = w.at(0)
	if text := stale(`stale.update({"s": "'changed'"}, where="id = 2")`, &manifest.Delete{Updated: []manifest.Fragment{w.deleteRows(m, 1, true, 1)}}); text != "" {
		t.Errorf("an update over our delete of another row of the fragment: %s", text)
	}
	r.expect("t", 2, 4, 5, 6, 8, 9, 10)
	if text := stale(`stale.optimize.compact_files()`, more(11)); text != "" {
		t.Errorf("a compaction over our append: %s", text)
	}
	r.expect("t", 2, 4, 5, 6, 8, 9, 10, 11)
	if text := stale(`stale.create_scalar_index("id", "BTREE")`, more(12)); text != "" {
		t.Errorf("an index over our append: %s", text)
	}
	if text := stale(`stale.update_config({"k": "theirs"})`, &manifest.UpdateConfig{Config: &manifest.UpdateMap{Entries: []manifest.UpdateEntry{manifest.Set("k", "ours")}}}); !strings.Contains(text, "conflict") && !strings.Contains(text, "ncompatible") {
		t.Errorf("the same configuration key twice: %q", text)
	}
	r.expect("t", 2, 4, 5, 6, 8, 9, 10, 11, 12)
}

func TestReferenceReadsTablesThatWeCreate(t *testing.T) {
	t.Parallel()
	r := newReferee(t)
	r.Run(nil, `lance.write_dataset(pa.table({"id": [0, 1], "s": ["a", None]}), "source")`)
	source := r.table("source").at(0)
	files := r.stage(`stage(pa.table({"id": [0, 1], "s": ["a", None]}), "new")`)

	for _, stable := range []bool{false, true} {
		name := fmt.Sprintf("new%v", stable)
		w := r.table(name)
		if err := os.CopyFS(filepath.Join(r.dir, name), os.DirFS(filepath.Join(r.dir, "new"))); err != nil {
			t.Fatal(err)
		}
		m := w.commit(&manifest.Overwrite{
			Fragments: files, Schema: source.Schema.WithMetadata(map[string]string{"a": "b"}),
			ConfigUpserts: map[string]string{"k": "v"}, InitialBases: []manifest.Base{{Name: "x", Path: filepath.Join(r.dir, "x")}},
		}, manifest.ApplyOptions{StableRowIDs: stable})
		if m.Version != 1 || m.DataFormat != "2.2" || m.StableRowIDs() != stable || m.Bases[1].Name != "x" {
			t.Errorf("%+v", m)
		}
		r.expect(name, 0, 1)
		r.Run(nil, fmt.Sprintf(`
ds = lance.write_dataset(pa.table({"id": [2, 3], "s": ["c", "d"]}), %q, mode="append")
ds.delete("id = 1")
ds.update({"s": "'u'"}, where="id = 2")
ds.optimize.compact_files()
assert ds.has_stable_row_ids == %s if hasattr(ds, "has_stable_row_ids") else True
`, name, map[bool]string{false: "False", true: "True"}[stable]))
		r.expect(name, 0, 2, 3)
		w.commit(&manifest.Append{Fragments: r.stage(fmt.Sprintf(`stage(pa.table({"id": [5], "s": ["e"]}), %q)`, name))}, manifest.ApplyOptions{})
		r.expect(name, 0, 2, 3, 5)
		if stable {
			var rows map[string][]int
			r.Run(&rows, fmt.Sprintf(`lance.dataset(%q).to_table(columns=["id", "_rowid", "_row_created_at_version", "_row_last_updated_at_version"]).sort_by("id").to_pydict()`, name))
			want := `map[_row_created_at_version:[1 2 2 7] _row_last_updated_at_version:[1 4 2 7] _rowid:[0 2 3 4] id:[0 2 3 5]]`
			if got := fmt.Sprint(rows); got != want {
				t.Errorf("rows %s, want %s", got, want)
			}
		}
	}

	t.Run("no rows at all", func(t *testing.T) {
		w := r.table("empty")
		m := w.commit(&manifest.Overwrite{Schema: source.Schema}, manifest.ApplyOptions{})
		if m.MaxFragmentID != nil || m.DataFormat != manifest.DefaultFormat {
			t.Errorf("%+v", m)
		}
		r.expect("empty")
		r.Run(nil, `lance.write_dataset(pa.table({"id": [2, 3], "s": ["c", "d"]}), "empty", mode="append")`)
		r.expect("empty", 2, 3)
	})
	t.Run("overwrite of a table of the reference", func(t *testing.T) {
		r.Run(nil, `lance.write_dataset(pa.table({"other": [1.5]}), "source", mode="append", schema=None) if False else None
ds = lance.dataset("source"); ds.create_scalar_index("id", "BTREE"); ds.update_config({"keep": "me"})`)
		w := r.table("source")
		before := w.at(0)
		m := w.commit(&manifest.Overwrite{Fragments: r.stage(`stage(pa.table({"id": [0, 1], "s": ["a", None]}), "source")`), Schema: source.Schema, ConfigUpserts: map[string]string{"k": "v"}}, manifest.ApplyOptions{})
		if m.IndexCount != 0 || m.Config["keep"] != "me" || m.Config["k"] != "v" || m.Fragments[0].ID != uint64(*before.MaxFragmentID)+1 {
			t.Errorf("%+v", m)
		}
		r.expect("source", 0, 1)
		r.Run(nil, `ds = lance.dataset("source"); assert ds.list_indices() == []; ds.create_scalar_index("id", "BTREE"); ds.delete("id = 0")`)
		r.expect("source", 1)
	})
}

// TestReferenceRowIDs has the reference read row ids and versions that we made:
// of an update that moves rows and inserts others, and of a compaction.
func TestReferenceRowIDs(t *testing.T) {
	t.Parallel()
	r := newReferee(t)
	r.Run(nil, `ds = lance.write_dataset(pa.table({"id": [0, 1, 2, 3], "s": ["a"] * 4}), "t", max_rows_per_file=2, enable_stable_row_ids=True)
lance.write_dataset(pa.table({"id": [4, 5], "s": ["a"] * 2}), "t", mode="append")`)
	w := r.table("t")
	base := w.at(0)
	// Rows 1 and 4 change and move, row 9 is inserted.
	moved := r.stage(`stage(pa.table({"id": [4, 1, 9], "s": ["n"] * 3}), "t")`)
	moved[0].RowIDs = rowset.IDsOf([]uint64{4, 1}).Encode()
	m := w.commit(&manifest.Update{
		Updated: []manifest.Fragment{w.deleteRows(base, 0, false, 1), w.deleteRows(base, 2, false, 0)}, New: moved,
		FieldsMoved: []schema.FieldID{0, 1},
	}, manifest.ApplyOptions{})
	if m.NextRowID != 7 {
		t.Errorf("next row id %d", m.NextRowID)
	}
	check := func(want string) {
		t.Helper()
		var rows map[string][]int
		r.Run(&rows, `lance.dataset("t").to_table(columns=["id", "_rowid", "_row_created_at_version", "_row_last_updated_at_version"]).sort_by("id").to_pydict()`)
		if got := fmt.Sprint(rows); got != want {
			t.Errorf("rows %s, want %s", got, want)
		}
		var taken []int
		r.Run(&taken, `[lance.dataset("t")._take_rows([i])["id"].to_pylist()[0] for i in (1, 4, 6)]`)
		if !slices.Equal(taken, []int{1, 4, 9}) {
			t.Errorf("taken by row id: %v", taken)
		}
	}
	check(`map[_row_created_at_version:[1 1 1 1 2 2 3] _row_last_updated_at_version:[1 3 1 1 3 2 3] _rowid:[0 1 2 3 4 5 6] id:[0 1 2 3 4 5 9]]`)

	// Compaction of fragments 0, 2 and 3, rows in order.
	old := []manifest.Fragment{m.Fragments[0], m.Fragments[2], m.Fragments[3]}
	whole := r.stage(`stage(pa.table({"id": [0, 5, 4, 1, 9], "s": ["a", "a", "n", "n", "n"]}), "t")`)
	var ids []*rowset.IDs
	var created, updated []*rowset.Versions
	for i := range old {
		f := &old[i]
		live := rowset.None(f.PhysicalRows)
		if place, ok, err := m.DeletionPlace(f); err != nil {
			t.Fatal(err)
		} else if ok {
			data, err := os.ReadFile(filepath.Join(w.root, place.Path))
			if err != nil {
				t.Fatal(err)
			}
			if live, err = rowset.DecodeDeletions(data, f.Deletion.Bitmap, f.PhysicalRows); err != nil {
				t.Fatal(err)
			}
		}
		id, err := rowset.DecodeRowIDs(f.RowIDs, f.PhysicalRows)
		if err != nil {
			t.Fatal(err)
		}
		c, err := rowset.DecodeVersions(f.CreatedAt, f.PhysicalRows)
		if err != nil {
			t.Fatal(err)
		}
		u, err := rowset.DecodeVersions(f.UpdatedAt, f.PhysicalRows)
		if err != nil {
			t.Fatal(err)
		}
		ids, created, updated = append(ids, id.Live(live)), append(created, c.Live(live)), append(updated, u.Live(live))
	}
	whole[0].RowIDs = rowset.JoinIDs(ids...).Encode()
	whole[0].CreatedAt = rowset.JoinVersions(created...).Encode()
	whole[0].UpdatedAt = rowset.JoinVersions(updated...).Encode()
	reserved := w.commit(&manifest.ReserveFragments{Count: 1}, manifest.ApplyOptions{})
	whole[0].ID = uint64(*reserved.MaxFragmentID)
	m = w.commit(&manifest.Rewrite{Groups: []manifest.RewriteGroup{{Old: old, New: whole}}}, manifest.ApplyOptions{})
	if len(m.Fragments) != 2 || m.Fragments[1].ID != 4 {
		t.Errorf("%+v", m.Fragments)
	}
	check(`map[_row_created_at_version:[1 1 1 1 2 2 3] _row_last_updated_at_version:[1 3 1 1 3 2 3] _rowid:[0 1 2 3 4 5 6] id:[0 1 2 3 4 5 9]]`)
	r.Run(nil, `ds = lance.dataset("t"); ds.update({"s": "'z'"}, where="id = 9"); ds.optimize.compact_files(); ds.validate()`)
	check(`map[_row_created_at_version:[1 1 1 1 2 2 3] _row_last_updated_at_version:[1 3 1 1 3 2 6] _rowid:[0 1 2 3 4 5 6] id:[0 1 2 3 4 5 9]]`)
}

// TestReferenceColumns has the reference read columns that were added, dropped
// and replaced by us.
func TestReferenceColumns(t *testing.T) {
	t.Parallel()
	r := newReferee(t)
	for _, stable := range []string{"False", "True"} {
		name := "t" + stable
		r.Run(nil, fmt.Sprintf(`ds = lance.write_dataset(pa.table({"id": [0, 1], "s": ["a", "b"]}), %q, enable_stable_row_ids=%s)
ds.create_scalar_index("s", "BTREE")
ds.create_scalar_index("id", "BTREE")`, name, stable))
		w := r.table(name)
		base := w.at(0)
		records := append(base.Schema.Records(), schema.Record{ID: 2, ParentID: -1, Name: "n", LogicalType: "double", Nullable: true})
		wider, err := schema.FromRecords(records, base.Schema.Metadata)
		if err != nil {
			t.Fatal(err)
		}
		w.commit(&manifest.Merge{Fragments: base.Fragments, Schema: wider, PreservesNullability: true}, manifest.ApplyOptions{})
		r.expect(name, 0, 1)
		var got any
		r.Run(&got, fmt.Sprintf(`lance.dataset(%q).to_table()["n"].to_pylist()`, name))
		if fmt.Sprint(got) != "[<nil> <nil>]" {
			t.Errorf("a column without data: %v", got)
		}
		// A file of its own for the new column; written as a table of one column
		// and told to be field 2.
		column := func(code string, id schema.FieldID) manifest.DataFile {
			t.Helper()
			f := r.stage(fmt.Sprintf(`stage(%s, %q)`, code, name+"_columns"))[0].Files[0]
			from := filepath.Join(r.dir, name+"_columns", "data", f.Path)
			if err := os.Rename(from, filepath.Join(w.root, "data", f.Path)); err != nil {
				t.Fatal(err)
			}
			f.Fields = []schema.FieldID{id}
			return f
		}
		m := w.commit(&manifest.DataReplacement{Replacements: []manifest.Replacement{{FragmentID: 0, File: column(`pa.table({"n": [0.5, 1.5]})`, 2)}}}, manifest.ApplyOptions{})
		if len(m.Fragments[0].Files) != 2 || m.IndexCount != 2 {
			t.Errorf("%+v, %d indexes", m.Fragments[0].Files, m.IndexCount)
		}
		m = w.commit(&manifest.DataReplacement{Replacements: []manifest.Replacement{{FragmentID: 0, File: column(`pa.table({"s": ["x", "y"]})`, 1)}}}, manifest.ApplyOptions{})
		if f := m.Fragments[0].Files; len(f) != 3 || !slices.Equal(f[0].Fields, []schema.FieldID{0, manifest.Tombstone}) {
			t.Errorf("%+v", f)
		}
		r.expect(name, 0, 1)
		r.Run(&got, fmt.Sprintf(`ds = lance.dataset(%q); [ds.to_table()["n"].to_pylist(), ds.to_table(filter="s = 'x'")["id"].to_pylist(), ds.to_table(filter="s = 'a'")["id"].to_pylist(), ds.to_table(filter="id = 1")["s"].to_pylist()]`, name))
		if fmt.Sprint(got) != "[[0.5 1.5] [0] [] [y]]" {
			t.Errorf("after replacements: %v", got)
		}
		// The same by an update of columns.
		f := m.Fragments[0]
		f.Files = append(slices.Clone(f.Files[:2]), column(`pa.table({"s": ["p", "q"]})`, 1))
		m = w.commit(&manifest.Update{Updated: []manifest.Fragment{f}, FieldsModified: []schema.FieldID{1}, Mode: manifest.RewriteColumns}, manifest.ApplyOptions{})
		r.Run(&got, fmt.Sprintf(`ds = lance.dataset(%q); ds.validate(); [ds.to_table(filter="s = 'p'")["id"].to_pylist(), ds.to_table(filter="s = 'x'")["id"].to_pylist()]`, name))
		if fmt.Sprint(got) != "[[0] []]" {
			t.Errorf("after an update of columns: %v", got)
		}
		narrow, err := schema.FromRecords(slices.DeleteFunc(m.Schema.Records(), func(r schema.Record) bool { return r.ID == 1 }), m.Schema.Metadata)
		if err != nil {
			t.Fatal(err)
		}
		m = w.commit(&manifest.Project{Schema: narrow, PreservesNullability: true}, manifest.ApplyOptions{})
		if len(m.Fragments[0].Files) != 2 || m.IndexCount != 1 {
			t.Errorf("%+v, %d indexes", m.Fragments[0].Files, m.IndexCount)
		}
		r.expect(name, 0, 1)
		r.Run(&got, fmt.Sprintf(`
ds = lance.dataset(%q)
names = [i["name"] if isinstance(i, dict) else i.name for i in ds.list_indices()]
ds.add_columns({"late": "id + 1"})
ds.delete("id = 0")
ds.optimize.compact_files()
ds.validate()
[names, ds.to_table().to_pylist()]`, name))
		if fmt.Sprint(got) != "[[id_idx] [map[id:1 late:2 n:1.5]]]" {
			t.Errorf("after a projection: %v", got)
		}
	}
}

// TestReferenceIndexesAfterCompaction compacts a table with indexes without
// rewriting them: answers stay right, since rewritten fragments are not claimed.
func TestReferenceIndexesAfterCompaction(t *testing.T) {
	t.Parallel()
	r := newReferee(t)
	r.Run(nil, `ds = lance.write_dataset(pa.table({"id": list(range(6)), "s": ["a"] * 6}), "t", max_rows_per_file=2)
ds.create_scalar_index("id", "BTREE")
ds.create_scalar_index("s", "BITMAP")`)
	w := r.table("t")
	m := w.at(0)
	whole := r.stage(`stage(pa.table({"id": [0, 1, 2, 3], "s": ["a"] * 4}), "t")`)
	m = w.commit(&manifest.Rewrite{Groups: []manifest.RewriteGroup{{Old: m.Fragments[:2], New: whole}}}, manifest.ApplyOptions{})
	if m.IndexCount != 2 || m.Indexes[0].Fragments.Count() != 1 || !m.Indexes[0].Fragments.Contains(2) {
		t.Errorf("%+v", m.Indexes)
	}
	r.expect("t", 0, 1, 2, 3, 4, 5)
	var got any
	r.Run(&got, `ds = lance.dataset("t"); [[ds.count_rows("id = %d" % i) for i in range(7)], ds.count_rows("s = 'a'")]`)
	if fmt.Sprint(got) != "[[1 1 1 1 1 1 0] 6]" {
		t.Errorf("through the index: %v", got)
	}
	r.Run(&got, `ds.optimize.optimize_indices(); ds.delete("id = 1"); ds.optimize.compact_files(); ds.validate(); [[ds.count_rows("id = %d" % i) for i in range(7)], ds.count_rows("s = 'a'")]`)
	if fmt.Sprint(got) != "[[1 0 1 1 1 1 0] 5]" {
		t.Errorf("through the optimized index: %v", got)
	}
}

// TestReferenceDeletionFiles reads vectors of all shapes that we encode.
func TestReferenceDeletionFiles(t *testing.T) {
	t.Parallel()
	r := newReferee(t)
	r.Run(nil, `ds = lance.write_dataset(pa.table({"id": pa.array(range(300000))}), "t")`)
	w := r.table("t")
	m := w.at(0)
	shapes := map[string]func(yield func(uint64) bool){
		"one":        func(yield func(uint64) bool) { yield(299999) },
		"few":        func(yield func(uint64) bool) { _ = yield(70000) && yield(0) && yield(65536) },
		"every 7th":  every(7),
		"every 20th": every(20),
		"a range": func(yield func(uint64) bool) {
			for i := uint64(1000); i < 200000 && yield(i); i++ {
			}
		},
		"all but one": func(yield func(uint64) bool) {
			for i := uint64(0); i < 299999 && yield(i); i++ {
			}
		},
	}
	for name, offsets := range shapes {
		t.Run(name, func(t *testing.T) {
			gone, err := rowset.Deleted(300000, offsets)
			if err != nil {
				t.Fatal(err)
			}
			for _, bitmap := range []bool{false, true} {
				f := w.deleteRows(m, 0, bitmap, slices.Collect(offsets)...)
				w.commit(&manifest.Delete{Updated: []manifest.Fragment{f}}, manifest.ApplyOptions{})
				var live, sum uint64
				r.Run(&live, `ds = lance.dataset("t"); ds.validate(); ds.count_rows()`)
				r.Run(&sum, `pc.sum(ds.to_table()["id"]).as_py()`)
				want := uint64(300000 * 299999 / 2)
				for offset := range gone.Offsets() {
					want -= offset
				}
				if live != gone.Live() || sum != want {
					t.Errorf("bitmap %v: %d rows of sum %d, want %d of %d", bitmap, live, sum, gone.Live(), want)
				}
				w.commit(&manifest.Restore{Version: 1}, manifest.ApplyOptions{Source: m})
			}
		})
	}
}

func every(n uint64) func(yield func(uint64) bool) {
	return func(yield func(uint64) bool) {
		for i := uint64(0); i < 300000 && yield(i); i += n {
		}
	}
}

// TestReferenceSchema has the reference read a schema that went through our
// records and messages: all types, metadata and table keys.
func TestReferenceSchema(t *testing.T) {
	t.Parallel()
	r := newReferee(t)
	r.Run(nil, `
key = {"lance-schema:unenforced-primary-key": "true", "lance-schema:unenforced-primary-key:position": "1", "x": "y"}
fields = [pa.field("id", pa.int64(), False, metadata=key), pa.field("ck", pa.int64(), metadata={"lance-schema:unenforced-clustering-key:position": "1"}),
  pa.field("st", pa.struct([pa.field("a", pa.int8(), False), pa.field("l", pa.large_list(pa.field("it", pa.struct([pa.field("b", pa.large_string())]))))])),
  pa.field("d", pa.dictionary(pa.int16(), pa.string())), pa.field("n", pa.null()), pa.field("f", pa.list_(pa.list_(pa.float16(), 2), 3)),
  pa.field("m", pa.map_(pa.string(), pa.int32())), pa.field("ts", pa.timestamp("us", "+08:00")), pa.field("dec", pa.decimal256(50, -3)),
  pa.field("blob", lance.blob_field("blob").type, metadata={"note": "v"}), pa.field("j", pa.json_()), pa.field("b", pa.binary(7)), pa.field("u", pa.duration("ns"))]
full = pa.schema(fields, metadata={"k": "v", "empty": ""})
ds = lance.write_dataset([], "source", schema=full)
`)
	source := r.table("source").at(0)
	r.table("ours").commit(&manifest.Overwrite{Schema: source.Schema}, manifest.ApplyOptions{Format: "2.2"})
	r.table("ours").commit(&manifest.UpdateConfig{FieldMetadata: map[schema.FieldID]manifest.UpdateMap{1: {Entries: []manifest.UpdateEntry{manifest.Set("more", "m")}}}}, manifest.ApplyOptions{})
	var differences []string
	r.Run(&differences, `
ours = lance.dataset("ours")
a, b = ds.schema, ours.schema
out = [] if a.metadata == b.metadata else [str((a.metadata, b.metadata))]
for x in a:
    y = b.field(x.name)
    want = dict(x.metadata or {})
    if x.name == "ck":
        want[b"more"] = b"m"
    if x.type != y.type or x.nullable != y.nullable or want != dict(y.metadata or {}):
        out.append(str((x, x.metadata, y, y.metadata)))
out + ([] if ds.lance_schema.fields()[0].is_unenforced_primary_key() == ours.lance_schema.fields()[0].is_unenforced_primary_key() else ["key"])
`)
	if len(differences) > 0 {
		t.Errorf("the reference sees %s", strings.Join(differences, "\n"))
	}
	var refused string
	r.Run(&refused, `
try:
    ours.update_field_metadata({"ck": {"lance-schema:unenforced-primary-key": "true"}}) if hasattr(ours, "update_field_metadata") else ours.replace_field_metadata("ck", {"lance-schema:unenforced-primary-key": "true"})
    text = ""
except Exception as e:
    text = str(e)
text`)
	if !strings.Contains(refused, "primary key") {
		t.Errorf("the reference changes the key that we carried: %q", refused)
	}
}

// TestReferenceSpilledLineage extends a table that keeps row ids and versions
// in hidden columns.
func TestReferenceSpilledLineage(t *testing.T) {
	t.Parallel()
	r := newReferee(t)
	r.Run(nil, `
ds = lance.write_dataset(pa.table({"id": list(range(400)), "s": ["a"] * 400}), "t", max_rows_per_file=100, enable_stable_row_ids=True)
ds.update_config({"lance.row_lineage.spill": "true", "lance.row_lineage.inline_max_bytes": "1", "lance.row_ids.range_segments": "false"})
ds.update({"s": "'u'"}, where="id % 3 = 0")
ds.optimize.compact_files()
`)
	w := r.table("t")
	m := w.at(0)
	if !m.ReaderFlags.Has(manifest.FlagLineageColumns) || !m.Fragments[0].RowIDsInColumn {
		t.Fatalf("the reference spilled nothing: flags %d", m.ReaderFlags)
	}
	const lineage = `ds.to_table(columns=["id", "_rowid", "_row_created_at_version", "_row_last_updated_at_version"]).sort_by("id").to_pylist()`
	r.Run(nil, `ds = lance.dataset("t"); before = `+lineage)
	m = w.commit(&manifest.Append{Fragments: r.stage(`stage(pa.table({"id": [900, 901], "s": ["n", "n"]}), "t")`)}, manifest.ApplyOptions{})
	if !m.ReaderFlags.Has(manifest.FlagLineageColumns) || !m.WriterFlags.Has(manifest.FlagLineageColumns) {
		t.Errorf("flags %d %d", m.ReaderFlags, m.WriterFlags)
	}
	w.commit(&manifest.Delete{Updated: []manifest.Fragment{w.deleteRows(m, m.Fragments[0].ID, false, 0)}}, manifest.ApplyOptions{})
	var got []any
	r.Run(&got, `
ds = lance.dataset("t")
ds.validate()
after = `+lineage+`
[len(after), [row for row in after if row["id"] < 900 and row not in before], sum(row["_rowid"] for row in after if row["id"] >= 900)]`)
	if fmt.Sprint(got) != "[401 [] 801]" {
		t.Errorf("%v", got)
	}
	r.Run(&got, `ds.update({"s": "'z'"}, where="id = 901"); ds.optimize.compact_files(); ds.validate(); [ds.count_rows(), ds.count_rows("s = 'z'")]`)
	if fmt.Sprint(got) != "[401 1]" {
		t.Errorf("%v", got)
	}
}

// TestReferenceClones opens clones and branches whose first manifests we made.
func TestReferenceClones(t *testing.T) {
	t.Parallel()
	r := newReferee(t)
	r.Run(nil, `
ds = lance.write_dataset(pa.table({"id": list(range(6)), "s": ["a"] * 6}), "t", max_rows_per_file=3)
ds.create_scalar_index("id", "BTREE")
ds.delete("id = 1")
`)
	source := r.table("t").at(0)
	w := r.table("clone")
	op := &manifest.Clone{Shallow: true, RefVersion: source.Version, RefPath: filepath.Join(r.dir, "t")}
	m := w.commit(op, manifest.ApplyOptions{Source: source})
	if m.Version != source.Version {
		t.Errorf("version %d", m.Version)
	}
	r.expect("clone", 0, 2, 3, 4, 5)
	var got []any
	r.Run(&got, `
ds = lance.write_dataset(pa.table({"id": [7], "s": ["b"]}), "clone", mode="append")
ds.delete("id = 0")
found = [ds.count_rows("id = %d" % i) for i in (0, 2, 7)]
# No compaction: the reference looks for the index that it rewrites in the base, in clones of its own too.
ds.optimize.optimize_indices()
ds.validate()
found + [ds.count_rows("id = %d" % i) for i in (0, 2, 7)]`)
	if fmt.Sprint(got) != "[0 1 1 0 1 1]" {
		t.Errorf("through the index of the source: %v", got)
	}
	r.expect("clone", 2, 3, 4, 5, 7)
	r.expect("t", 0, 2, 3, 4, 5)

	branch := r.table("t/tree/side")
	op.BranchName = "side"
	branch.commit(op, manifest.ApplyOptions{Source: source})
	file := fmt.Sprintf(`{"parentBranch":null,"identifier":{"version_mapping":[[%d,%q]]},"parentVersion":%d,"createAt":1700000000,"manifestSize":1000,"metadata":{}}`,
		source.Version, strings.ReplaceAll(uuid.NewString(), "-", ""), source.Version)
	r.table("t").write("_refs/branches/side.json", []byte(file))
	r.Run(&got, `
side = lance.dataset("t").checkout_version(("side", None))
lance.write_dataset(pa.table({"id": [8], "s": ["b"]}), side, mode="append")
side = lance.dataset("t").checkout_version(("side", None))
side.validate()
sorted(side.to_table()["id"].to_pylist())`)
	if fmt.Sprint(got) != "[0 2 3 4 5 8]" {
		t.Errorf("the branch has the rows %v", got)
	}
	r.expect("t", 0, 2, 3, 4, 5)
}

// TestReferenceBlobs appends blob values to a table with the managed opt-in and
// to one of the old generation.
func TestReferenceBlobs(t *testing.T) {
	t.Parallel()
	r := newReferee(t)
	r.Run(nil, `
def blobs(start, n):
    return pa.table({"id": list(range(start, start + n)), "b": lance.blob_array([bytes([i]) * 10 for i in range(start, start + n)])})
def read(uri):
    ds = lance.dataset(uri)
    ds.validate()
    t = ds.to_table(columns=["id"])
    return [[i, f.readall().hex() if f is not None else None] for i, f in zip(t["id"].to_pylist(), ds.take_blobs("b", indices=list(range(len(t)))))]
lance.write_dataset(blobs(0, 2), "v2")
old = pa.schema([pa.field("id", pa.int64()), pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})])
legacy = lambda start, n: pa.table({"id": list(range(start, start + n)), "b": pa.array([bytes([i]) * 10 for i in range(start, start + n)], pa.large_binary())}, schema=old)
lance.write_dataset(legacy(0, 2), "v21", data_storage_version="2.1")
`)
	w := r.table("v2")
	w.commit(&manifest.Append{Fragments: r.stage(`stage(blobs(2, 2), "v2")`)}, manifest.ApplyOptions{})
	w.commit(&manifest.UpdateConfig{SchemaMetadata: &manifest.UpdateMap{Entries: []manifest.UpdateEntry{manifest.Set(schema.KeyManaged, "true")}}}, manifest.ApplyOptions{})
	var got []any
	r.Run(&got, `read("v2")`)
	const all = "[[0 00000000000000000000] [1 01010101010101010101] [2 02020202020202020202] [3 03030303030303030303]]"
	if fmt.Sprint(got) != all {
		t.Errorf("%v", got)
	}
	r.Run(&got, `lance.dataset("v2").optimize.compact_files(); read("v2")`)
	if fmt.Sprint(got) != all {
		t.Errorf("after the compaction of the opted-in table: %v", got)
	}

	old := r.table("v21")
	m := old.commit(&manifest.Append{Fragments: r.stage(`stage(legacy(2, 1), "v21", data_storage_version="2.1")`)}, manifest.ApplyOptions{})
	if m.Schema.ByID(1).Blob != schema.LegacyBlob || m.ReaderFlags != 0 {
		t.Errorf("flags %d, %+v", m.ReaderFlags, m.Schema.ByID(1))
	}
	t.Run("LEG-5 a file of format 2.2 switches the column", func(t *testing.T) {
		newer := r.stage(`stage(blobs(3, 1), "other", data_storage_version="2.2")`)
		if err := os.Rename(filepath.Join(r.dir, "other", "data", newer[0].Files[0].Path), filepath.Join(r.dir, "v21", "data", newer[0].Files[0].Path)); err != nil {
			t.Fatal(err)
		}
		m := old.commit(&manifest.Append{Fragments: newer}, manifest.ApplyOptions{})
		if m.Schema.ByID(1).Blob != schema.BlobV2 || m.ReaderFlags != manifest.FlagMixedVersions {
			t.Errorf("flags %d, %+v", m.ReaderFlags, m.Schema.ByID(1))
		}
		r.Run(&got, `read("v21")`)
		if fmt.Sprint(got) != all {
			t.Errorf("%v", got)
		}
		r.Run(&got, `lance.write_dataset(legacy(4, 1), "v21", mode="append"); lance.dataset("v21").delete("id = 4"); read("v21")`)
		if fmt.Sprint(got) != all {
			t.Errorf("%v", got)
		}
	})
}
