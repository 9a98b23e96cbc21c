package manifest

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/internal/lancepb"
	"github.com/flightblob/flightblob/schema"
	"github.com/flightblob/flightblob/table/rowset"
)

// tree makes a schema of records.
func tree(t testing.TB, records ...schema.Record) *schema.Schema {
	t.Helper()
	s, err := schema.FromRecords(records, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func field(id schema.FieldID, name, logical string) schema.Record {
	return schema.Record{ID: id, ParentID: -1, Name: name, LogicalType: logical, Nullable: true}
}

func below(parent, id schema.FieldID, name, logical string) schema.Record {
	return schema.Record{ID: id, ParentID: parent, Name: name, LogicalType: logical, Nullable: true}
}

// lance is a data file of format 2.2 with some fields.
func lance(path string, fields ...schema.FieldID) DataFile {
	d := DataFile{Path: path, Fields: fields, Major: 2, Minor: 2, Size: 100}
	for i := range fields {
		d.Columns = append(d.Columns, int32(i))
	}
	return d
}

func rows(n uint64, files ...DataFile) Fragment { return Fragment{PhysicalRows: n, Files: files} }

// world is a table whose versions are made by Apply.
type world struct {
	t    testing.TB
	now  *Manifest
	made int
}

// create makes version 1: columns a and b, fragments 0 of 10 and 1 of 5 rows.
func create(t testing.TB, o ApplyOptions) *world {
	t.Helper()
	w := &world{t: t}
	w.do(&Overwrite{Schema: tree(t, field(0, "a", "int64"), field(1, "b", "string")), Fragments: []Fragment{rows(10, lance("0", 0, 1)), rows(5, lance("1", 0, 1))}}, o)
	return w
}

func (w *world) try(op Operation, o ApplyOptions) (*Manifest, error) {
	w.made++
	o.Now = time.Unix(int64(w.made), 5)
	tx := &Transaction{UUID: fmt.Sprintf("u%d", w.made), Op: op}
	if w.now != nil {
		tx.ReadVersion = w.now.Version
	}
	return Apply(w.now, tx, o)
}

// do goes on with the next version, after a turn through its bytes.
func (w *world) do(op Operation, o ApplyOptions) *Manifest {
	w.t.Helper()
	m, err := w.try(op, o)
	if err != nil {
		w.t.Fatalf("%s: %v", op.Kind(), err)
	}
	data, err := m.Encode(nil)
	if err != nil {
		w.t.Fatal(err)
	}
	if w.now, err = Decode(data); err != nil {
		w.t.Fatal(err)
	}
	return w.now
}

// fails wants an error of a kind with some words.
func (w *world) fails(op Operation, o ApplyOptions, kind fault.Kind, words string) {
	w.t.Helper()
	before, err := w.now.Encode(nil)
	if err != nil {
		w.t.Fatal(err)
	}
	m, err := w.try(op, o)
	if fault.KindOf(err) != kind || !strings.Contains(fmt.Sprint(err), words) {
		w.t.Errorf("%s: %+v, %v; want %v with %q", op.Kind(), m, err, kind, words)
	}
	if after, err := w.now.Encode(nil); err != nil || string(after) != string(before) {
		w.t.Errorf("%s changed the version that it was applied to", op.Kind())
	}
}

func (m *Manifest) ids() []uint64 {
	return idsOf(m.Fragments)
}

// gone is a fragment of w with some more rows deleted.
func (w *world) gone(id, rows uint64) Fragment {
	f := *w.now.byID(id)
	f.Deletion = &DeletionFile{ReadVersion: w.now.Version, ID: 7, Rows: rows}
	return f
}

func TestApplyAppend(t *testing.T) {
	t.Parallel()
	w := create(t, ApplyOptions{})
	if w.now.Version != 1 || w.now.WriterVersion != DefaultWriter || w.now.TransactionID != "0-u1.txn" || !w.now.Timestamp.Equal(time.Unix(1, 5)) {
		t.Errorf("%+v", w.now)
	}
	m := w.do(&Append{[]Fragment{{ID: 99, PhysicalRows: 3, Files: []DataFile{lance("2", 0)}, RowIDs: []byte{1}}}}, ApplyOptions{Writer: "mine 1.2.3-x+y"})
	if !slices.Equal(m.ids(), []uint64{0, 1, 2}) || *m.MaxFragmentID != 2 || m.Version != 2 || m.Rows() != 18 || m.WriterVersion != "mine 1.2.3-x+y" || m.TransactionID != "1-u2.txn" {
		t.Errorf("%+v", m)
	}
	if m.ReaderFlags != 0 || m.WriterFlags != 0 || m.NextRowID != 0 || m.Fragments[2].RowIDs != nil {
		t.Errorf("flags %d %d, row ids %v", m.ReaderFlags, m.WriterFlags, m.Fragments[2].RowIDs)
	}
	t.Run("ids go on after the greatest one that ever was", func(t *testing.T) {
		w.do(&Delete{Deleted: []uint64{1, 2}}, ApplyOptions{})
		w.do(&ReserveFragments{Count: 3}, ApplyOptions{})
		if m := w.do(&Append{[]Fragment{rows(1, lance("x", 0))}}, ApplyOptions{}); !slices.Equal(m.ids(), []uint64{0, 6}) {
			t.Errorf("%v", m.ids())
		}
		if m := w.do(&Restore{Version: 1}, ApplyOptions{Source: create(t, ApplyOptions{}).now}); !slices.Equal(m.ids(), []uint64{0, 1}) || *m.MaxFragmentID != 6 {
			t.Errorf("%v, %d", m.ids(), *m.MaxFragmentID)
		}
		w.do(&Overwrite{Schema: w.now.Schema}, ApplyOptions{})
		if m := w.do(&Append{[]Fragment{rows(1, lance("x", 0))}}, ApplyOptions{}); !slices.Equal(m.ids(), []uint64{7}) {
			t.Errorf("%v", m.ids())
		}
	})
	t.Run("a table without rows counts reserved ids from 0", func(t *testing.T) {
		w := &world{t: t}
		if m := w.do(&Overwrite{Schema: tree(t, field(0, "a", "int64"))}, ApplyOptions{}); m.MaxFragmentID != nil {
			t.Errorf("greatest id %d", *m.MaxFragmentID)
		}
		if m := w.do(&ReserveFragments{Count: 2}, ApplyOptions{}); *m.MaxFragmentID != 2 {
			t.Errorf("greatest id %d", *m.MaxFragmentID)
		}
	})
	t.Run("ids end", func(t *testing.T) {
		w := create(t, ApplyOptions{})
		w.do(&ReserveFragments{Count: math.MaxUint32 - 2}, ApplyOptions{})
		w.fails(&ReserveFragments{Count: 2}, ApplyOptions{}, fault.Exhausted, "not left")
		if m := w.do(&Append{[]Fragment{rows(1, lance("x", 0))}}, ApplyOptions{}); m.Fragments[2].ID != math.MaxUint32 {
			t.Errorf("%v", m.ids())
		}
		w.fails(&Append{[]Fragment{rows(1, lance("x", 0))}}, ApplyOptions{}, fault.Exhausted, "2^32 fragment ids")
	})
}

func TestApplyRefusesFragments(t *testing.T) {
	t.Parallel()
	w := &world{t: t}
	w.do(&Overwrite{Schema: tree(t, field(0, "a", "int64"), field(1, "st", "struct"), below(1, 2, "x", "int8"),
		schema.Record{ID: 3, ParentID: -1, Name: "blob", LogicalType: "struct", Nullable: true, Extension: schema.ExtensionBlobV2},
		below(3, 4, "data", "large_binary"), below(3, 5, "uri", "string"))}, ApplyOptions{})
	base9 := uint32(9)
	with := func(change func(f *Fragment)) *Append {
		f := rows(4, lance("f.lance", 0, 2, 3))
		change(&f)
		return &Append{[]Fragment{f}}
	}
	for _, test := range []struct {
		name   string
		op     Operation
		kind   fault.Kind
		expect string
	}{
		{"nothing", &Append{}, fault.Invalid, "without fragments"},
		{"no rows", with(func(f *Fragment) { f.PhysicalRows = 0 }), fault.Invalid, "0 rows"},
		{"too many rows", with(func(f *Fragment) { f.PhysicalRows = 1<<32 + 1 }), fault.Invalid, "2^32"},
		{"no file", with(func(f *Fragment) { f.Files = nil }), fault.Invalid, "no data file"},
		{"no field", with(func(f *Fragment) { f.Files[0].Fields, f.Files[0].Columns = nil, nil }), fault.Invalid, "0 fields"},
		{"fewer columns", with(func(f *Fragment) { f.Files[0].Columns = []int32{0} }), fault.Invalid, "3 fields and 1 columns"},
		{"path", with(func(f *Fragment) { f.Files[0].Path = "../f" }), fault.Invalid, "relative path"},
		{"format 0.1", with(func(f *Fragment) { f.Files[0].Major, f.Files[0].Minor = 0, 2 }), fault.Unsupported, "version 0.1"},
		{"format of the future", with(func(f *Fragment) { f.Files[0].Minor = 9 }), fault.Unsupported, "version 2.9"},
		{"base", with(func(f *Fragment) { f.Files[0].BaseID = &base9 }), fault.Invalid, "base 9"},
		{"a leaf without column", with(func(f *Fragment) { f.Files[0].Columns[0] = -1 }), fault.Invalid, "no column for field a"},
		{"a blob without column", with(func(f *Fragment) { f.Files[0].Columns[2] = -1 }), fault.Invalid, "no column for field blob"},
		{"a struct with a column", with(func(f *Fragment) { f.Files[0].Fields[1] = 1 }), fault.Invalid, "column for field st"},
		{"a child of a blob", with(func(f *Fragment) { f.Files[0].Fields[2] = 4 }), fault.Invalid, "stored with blob"},
		{"field -1", with(func(f *Fragment) { f.Files[0].Fields[0] = -1 }), fault.Invalid, "field id -1"},
		{"column -2", with(func(f *Fragment) { f.Files[0].Columns[0] = -2 }), fault.Invalid, "column -2"},
		{"one field twice", with(func(f *Fragment) { f.Files = append(f.Files, lance("g.lance", 0)) }), fault.Invalid, "both hold field 0"},
		{"deletion file", with(func(f *Fragment) { f.Deletion = &DeletionFile{Rows: 1} }), fault.Invalid, "deletion file"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := *w
			w.t = t
			w.fails(test.op, ApplyOptions{}, test.kind, test.expect)
		})
	}
	t.Run("a struct listed without a column, and a dropped field, pass", func(t *testing.T) {
		w.do(with(func(f *Fragment) {
			f.Files[0].Fields, f.Files[0].Columns = []schema.FieldID{0, 1, 2, 3, 17}, []int32{0, -1, 1, 2, 3}
		}), ApplyOptions{})
	})
}

func TestApplyDelete(t *testing.T) {
	t.Parallel()
	w := create(t, ApplyOptions{})
	m := w.do(&Delete{Updated: []Fragment{w.gone(0, 4)}, Deleted: []uint64{1}}, ApplyOptions{})
	if m.Rows() != 6 || m.ReaderFlags != FlagDeletionFiles || m.WriterFlags != FlagDeletionFiles {
		t.Errorf("%d rows, flags %d %d", m.Rows(), m.ReaderFlags, m.WriterFlags)
	}
	w.fails(&Delete{}, ApplyOptions{}, fault.Invalid, "without fragments")
	w.fails(&Delete{Deleted: []uint64{1}}, ApplyOptions{}, fault.Conflict, "fragment 1")
	w.fails(&Delete{Updated: []Fragment{{ID: 5}}}, ApplyOptions{}, fault.Conflict, "fragment 5")
	w.fails(&Delete{Updated: []Fragment{w.gone(0, 3)}}, ApplyOptions{}, fault.Conflict, "4 deleted rows")
	w.fails(&Delete{Updated: []Fragment{w.gone(0, 10)}}, ApplyOptions{}, fault.Invalid, "is removed")
	w.fails(&Delete{Updated: []Fragment{w.gone(0, 0)}}, ApplyOptions{}, fault.Invalid, "no deletion file")
	other := w.gone(0, 5)
	other.PhysicalRows = 11
	w.fails(&Delete{Updated: []Fragment{other}}, ApplyOptions{}, fault.Conflict, "10 rows")
	elsewhere, nine := w.gone(0, 5), uint32(9)
	elsewhere.Deletion.BaseID = &nine
	w.fails(&Delete{Updated: []Fragment{elsewhere}}, ApplyOptions{}, fault.Invalid, "base 9")
	t.Run("flags go with the last deletion file", func(t *testing.T) {
		w.do(&Append{[]Fragment{rows(1, lance("x", 0))}}, ApplyOptions{})
		if m := w.do(&Delete{Deleted: []uint64{0}}, ApplyOptions{}); m.ReaderFlags != 0 || m.WriterFlags != 0 {
			t.Errorf("flags %d %d", m.ReaderFlags, m.WriterFlags)
		}
	})
	t.Run("columns that were dropped meanwhile stay away", func(t *testing.T) {
		w := &world{t: t}
		w.do(&Overwrite{Schema: tree(t, field(0, "a", "int64"), field(1, "b", "string")), Fragments: []Fragment{rows(9, lance("0", 0), lance("1", 1))}}, ApplyOptions{})
		stale := w.gone(0, 2)
		w.do(&Project{Schema: tree(t, field(0, "a", "int64"))}, ApplyOptions{})
		if m := w.do(&Delete{Updated: []Fragment{stale}}, ApplyOptions{}); len(m.Fragments[0].Files) != 1 || m.Rows() != 7 {
			t.Errorf("%+v", m.Fragments[0])
		}
	})
}

func TestApplyCreation(t *testing.T) {
	t.Parallel()
	one := tree(t, field(0, "a", "int64"))
	w := &world{t: t}
	if _, err := w.try(&Append{[]Fragment{rows(1, lance("x", 0))}}, ApplyOptions{}); fault.KindOf(err) != fault.NotFound {
		t.Errorf("an append to nothing: %v", err)
	}
	if _, err := w.try(&Overwrite{}, ApplyOptions{}); fault.KindOf(err) != fault.Invalid {
		t.Errorf("no schema: %v", err)
	}
	if _, err := w.try(&Overwrite{Schema: one}, ApplyOptions{Format: "2.9"}); fault.KindOf(err) != fault.Unsupported {
		t.Errorf("a format of the future: %v", err)
	}
	if _, err := w.try(&Overwrite{Schema: tree(t, field(0, "a", "int64"), field(1, "a", "int8"))}, ApplyOptions{}); fault.KindOf(err) != fault.Invalid {
		t.Errorf("two columns of one name: %v", err)
	}
	for _, tx := range []*Transaction{{Op: &Overwrite{Schema: one}}, {UUID: "u", Op: &Overwrite{Schema: one}}} {
		if _, err := Apply(nil, tx, ApplyOptions{}); fault.KindOf(err) != fault.Internal {
			t.Errorf("without uuid or time: %v", err)
		}
	}
	files := rows(1, lance("x", 0))
	files.Files[0].Minor = 1
	for want, o := range map[string]ApplyOptions{"2.1": {}, "2.3": {Format: "2.3"}} {
		w := &world{t: t}
		m := w.do(&Overwrite{Schema: one, Fragments: []Fragment{files}}, o)
		if m.DataFormat != want || m.ReaderFlags.Has(FlagMixedVersions) != (want == "2.3") || m.WriterFlags.Has(FlagMixedVersions) != (want == "2.3") {
			t.Errorf("format %s, flags %d", m.DataFormat, m.ReaderFlags)
		}
	}
	t.Run("initial bases are numbered from 1, around those that have ids", func(t *testing.T) {
		w := &world{t: t}
		m := w.do(&Overwrite{Schema: one, InitialBases: []Base{{Path: "/a"}, {ID: 1, Path: "/b"}, {Path: "/c"}, {ID: math.MaxUint32, Path: "/d"}}}, ApplyOptions{})
		if m.Bases[1].Path != "/b" || m.Bases[2].Path != "/a" || m.Bases[3].Path != "/c" || m.Bases[math.MaxUint32].Path != "/d" || m.ReaderFlags != FlagBasePaths || m.WriterFlags != FlagBasePaths {
			t.Errorf("%v, flags %d %d", m.Bases, m.ReaderFlags, m.WriterFlags)
		}
		w.fails(&Overwrite{Schema: one, InitialBases: []Base{{Path: "/e"}}}, ApplyOptions{}, fault.Invalid, "when a table is created")
	})
	t.Run("an overwrite keeps what is not rows", func(t *testing.T) {
		w := create(t, ApplyOptions{StableRowIDs: true})
		w.do(&UpdateConfig{Config: &UpdateMap{Entries: []UpdateEntry{Set("k", "v")}}, TableMetadata: &UpdateMap{Entries: []UpdateEntry{Set("o", "m")}}}, ApplyOptions{})
		w.do(&UpdateBases{Bases: []Base{{Path: "/a"}}}, ApplyOptions{})
		m := w.do(&Overwrite{Schema: one, Fragments: []Fragment{rows(2, lance("z", 0))}, ConfigUpserts: map[string]string{"l": "w"}}, ApplyOptions{})
		if m.Config["k"] != "v" || m.Config["l"] != "w" || m.TableMetadata["o"] != "m" || len(m.Bases) != 1 || m.NextRowID != 17 || !m.StableRowIDs() {
			t.Errorf("%+v", m)
		}
		if m := w.do(&Overwrite{Schema: one}, ApplyOptions{Format: "2.3"}); m.DataFormat != "2.3" {
			t.Errorf("format %s", m.DataFormat)
		}
	})
}

func TestApplyBases(t *testing.T) {
	t.Parallel()
	w := create(t, ApplyOptions{})
	w.do(&UpdateBases{Bases: []Base{{ID: 2, Name: "two", Path: "/2"}, {Path: "/1"}, {Path: "/3"}}}, ApplyOptions{})
	if b := w.now.Bases; b[1].Path != "/1" || b[2].Name != "two" || b[3].Path != "/3" {
		t.Errorf("%v", b)
	}
	t.Run("CAP-8 a base id is never bound to another path", func(t *testing.T) {
		w.fails(&UpdateBases{Bases: []Base{{ID: 2, Path: "/other"}}}, ApplyOptions{}, fault.Exists, "base id 2 stands for /2")
	})
	w.fails(&UpdateBases{Bases: []Base{{Name: "two", Path: "/x"}}}, ApplyOptions{}, fault.Exists, `named "two"`)
	w.fails(&UpdateBases{Bases: []Base{{Path: "/1/"}}}, ApplyOptions{}, fault.Exists, "base 1")
	w.fails(&UpdateBases{Bases: []Base{{Name: "y"}}}, ApplyOptions{}, fault.Invalid, "no path")
	w.fails(&UpdateBases{}, ApplyOptions{}, fault.Invalid, "no bases")
	t.Run("CAP-8 not after a restore either", func(t *testing.T) {
		m := w.do(&Restore{Version: 1}, ApplyOptions{Source: create(t, ApplyOptions{}).now})
		if len(m.Bases) != 3 {
			t.Errorf("%v", m.Bases)
		}
		if m := w.do(&UpdateBases{Bases: []Base{{Path: "/new"}}}, ApplyOptions{}); m.Bases[4].Path != "/new" {
			t.Errorf("%v", m.Bases)
		}
	})
}

func managed(value string) *UpdateConfig {
	return &UpdateConfig{SchemaMetadata: &UpdateMap{Entries: []UpdateEntry{Set(schema.KeyManaged, value)}}}
}

func TestApplyManagedBlobs(t *testing.T) {
	t.Parallel()
	w := create(t, ApplyOptions{})
	first := w.now
	for _, value := range []string{"TRUE", "1", ""} {
		t.Run(fmt.Sprintf("CAP-1 the opt-in %q is refused", value), func(t *testing.T) {
			w.fails(managed(value), ApplyOptions{}, fault.Invalid, schema.KeyManaged)
		})
	}
	t.Run("CAP-1 false is no opt-in", func(t *testing.T) {
		if m := w.do(managed("false"), ApplyOptions{}); m.ReaderFlags != 0 || m.WriterFlags != 0 {
			t.Errorf("flags %d %d", m.ReaderFlags, m.WriterFlags)
		}
	})
	t.Run("CAP-2 true sets both bits without a blob column", func(t *testing.T) {
		if m := w.do(managed("true"), ApplyOptions{}); m.ReaderFlags != FlagManagedBlobs || m.WriterFlags != FlagManagedBlobs || !m.ManagedBlobs() {
			t.Errorf("flags %d %d", m.ReaderFlags, m.WriterFlags)
		}
	})
	for name, op := range map[string]Operation{
		"false": managed("false"), "a removed key": &UpdateConfig{SchemaMetadata: &UpdateMap{Replace: true}},
		"an overwrite": &Overwrite{Schema: tree(t, field(0, "a", "int64"))}, "a restore": &Restore{Version: 1},
	} {
		t.Run("CAP-3 both bits stay after "+name, func(t *testing.T) {
			if m := w.do(op, ApplyOptions{Source: first}); m.ReaderFlags != FlagManagedBlobs || m.WriterFlags != FlagManagedBlobs {
				t.Errorf("flags %d %d", m.ReaderFlags, m.WriterFlags)
			}
		})
	}
	t.Run("CAP-4 one bit alone is refused", func(t *testing.T) {
		half := *w.now
		half.WriterFlags &^= FlagManagedBlobs
		w := &world{t: t, now: &half}
		w.fails(&ReserveFragments{Count: 1}, ApplyOptions{}, fault.Corrupt, "managed-blob")
	})
}

func TestApplyFlags(t *testing.T) {
	t.Parallel()
	for _, bit := range []Flags{1 << 18, 1 << 63, FlagOverlays, FlagReuseWithRowIDs, FlagFragmentTree, FlagCoveringFields, FlagObjectMetadata} {
		t.Run(fmt.Sprintf("CAP-9 writer flag %d is refused", bit), func(t *testing.T) {
			t.Parallel()
			w := create(t, ApplyOptions{})
			w.now.WriterFlags |= bit
			if err := w.now.CheckReadable(); err != nil {
				t.Errorf("it cannot be read either: %v", err)
			}
			w.fails(&ReserveFragments{Count: 1}, ApplyOptions{}, fault.Unsupported, "unknown")
			w.now.ReaderFlags |= bit
			w.fails(&ReserveFragments{Count: 1}, ApplyOptions{}, fault.Unsupported, "unknown")
		})
	}
	t.Run("bits are worked out anew, sticky ones stay", func(t *testing.T) {
		t.Parallel()
		w := create(t, ApplyOptions{})
		set := FlagDeletionFiles | FlagOldV2Marker | FlagTableConfig | FlagBasePaths | FlagNoTransactionFiles | FlagCoveringColumns | FlagLineageColumns
		w.now.ReaderFlags |= set | FlagMixedVersions | FlagTaggedReuse
		w.now.WriterFlags |= set | FlagMixedVersions | FlagTaggedReuse
		if m := w.do(&ReserveFragments{Count: 1}, ApplyOptions{}); m.ReaderFlags != FlagMixedVersions|FlagTaggedReuse || m.WriterFlags != m.ReaderFlags {
			t.Errorf("flags %d %d", m.ReaderFlags, m.WriterFlags)
		}
	})
	t.Run("configuration and missing transaction files are for writers", func(t *testing.T) {
		t.Parallel()
		w := create(t, ApplyOptions{})
		w.do(&UpdateConfig{Config: &UpdateMap{Entries: []UpdateEntry{Set("k", "v")}}}, ApplyOptions{})
		m := w.do(&ReserveFragments{Count: 1}, ApplyOptions{NoTransactionFile: true})
		if m.ReaderFlags != 0 || m.WriterFlags != FlagTableConfig|FlagNoTransactionFiles || m.TransactionID != "" {
			t.Errorf("flags %d %d, %q", m.ReaderFlags, m.WriterFlags, m.TransactionID)
		}
		if m := w.do(&UpdateConfig{Config: &UpdateMap{Replace: true}}, ApplyOptions{}); m.WriterFlags != 0 {
			t.Errorf("flags %d", m.WriterFlags)
		}
	})
	t.Run("files of another version, for good", func(t *testing.T) {
		t.Parallel()
		w := create(t, ApplyOptions{})
		newer := rows(1, lance("x", 0))
		newer.Files[0].Minor = 3
		m := w.do(&Append{[]Fragment{newer}}, ApplyOptions{})
		if m.ReaderFlags != FlagMixedVersions || m.WriterFlags != FlagMixedVersions || m.DataFormat != "2.2" {
			t.Errorf("flags %d %d, %s", m.ReaderFlags, m.WriterFlags, m.DataFormat)
		}
		if m := w.do(&Delete{Deleted: []uint64{2}}, ApplyOptions{}); m.ReaderFlags != FlagMixedVersions {
			t.Errorf("flags %d", m.ReaderFlags)
		}
	})
	t.Run("hidden columns are carried", func(t *testing.T) {
		t.Parallel()
		w := create(t, ApplyOptions{StableRowIDs: true})
		f := &w.now.Fragments[0]
		f.RowIDs, f.RowIDsInColumn = nil, true
		f.Files = append(slices.Clone(f.Files), lance("hidden", RowIDColumn))
		m := w.do(&Project{Schema: tree(t, field(1, "b", "string"))}, ApplyOptions{})
		if !m.ReaderFlags.Has(FlagLineageColumns) || !m.WriterFlags.Has(FlagLineageColumns) || len(m.Fragments[0].Files) != 2 || !m.Fragments[0].RowIDsInColumn {
			t.Errorf("flags %d, %+v", m.ReaderFlags, m.Fragments[0])
		}
		w.fails(&Update{Updated: []Fragment{w.gone(0, 1)}, New: []Fragment{{PhysicalRows: 1, Files: []DataFile{lance("n", 1)}, RowIDs: rowset.IDsOf([]uint64{3}).Encode()}}}, ApplyOptions{}, fault.Unsupported, "when its rows were created")
	})
	t.Run("format 0.1 is not extended", func(t *testing.T) {
		t.Parallel()
		w := create(t, ApplyOptions{})
		w.now.DataFormat = "0.1"
		w.fails(&ReserveFragments{Count: 1}, ApplyOptions{}, fault.Unsupported, "0.1")
	})
}

func TestApplyKeptFieldIDs(t *testing.T) {
	t.Parallel()
	kept := func() *world {
		w := create(t, ApplyOptions{})
		most := schema.FieldID(4)
		w.now.MaxAllocatedFieldID = &most
		w.now.WriterFlags |= FlagFieldIDsKept
		return w
	}
	w := kept()
	w.fails(&Overwrite{Schema: tree(t, field(0, "a", "int64"))}, ApplyOptions{}, fault.Invalid, "the next one is 5")
	w.fails(&Project{Schema: tree(t, field(0, "a", "int64"), field(3, "n", "int8"))}, ApplyOptions{}, fault.Invalid, "up to 4")
	m := w.do(&Overwrite{Schema: tree(t, field(7, "a", "int64")), Fragments: []Fragment{rows(1, lance("x", 7))}}, ApplyOptions{})
	if *m.MaxAllocatedFieldID != 7 || m.WriterFlags != FlagFieldIDsKept || m.ReaderFlags != 0 {
		t.Errorf("greatest %d, flags %d", *m.MaxAllocatedFieldID, m.WriterFlags)
	}
	old := kept().now
	if m := w.do(&Restore{Version: old.Version}, ApplyOptions{Source: old}); *m.MaxAllocatedFieldID != 7 {
		t.Errorf("greatest %d after a restore", *m.MaxAllocatedFieldID)
	}
	w.fails(&Restore{Version: 1}, ApplyOptions{Source: create(t, ApplyOptions{}).now}, fault.Precondition, "field ids")
}

func TestApplyRestore(t *testing.T) {
	t.Parallel()
	w := create(t, ApplyOptions{StableRowIDs: true})
	first := w.now
	w.do(&Append{[]Fragment{rows(4, lance("x", 0))}}, ApplyOptions{})
	m := w.do(&Restore{Version: 1}, ApplyOptions{Source: first})
	if m.Version != 3 || m.Rows() != 15 || m.NextRowID != 19 || *m.MaxFragmentID != 2 {
		t.Errorf("%+v", m)
	}
	w.fails(&Restore{Version: 2}, ApplyOptions{Source: first}, fault.Internal, "version 2")
	w.fails(&Restore{Version: 2}, ApplyOptions{}, fault.Internal, "version 2")
	w.fails(&Restore{Version: 1}, ApplyOptions{Source: create(t, ApplyOptions{}).now}, fault.Precondition, "stable row ids")
	strange := *first
	strange.WriterFlags |= 1 << 40
	w.fails(&Restore{Version: 1}, ApplyOptions{Source: &strange}, fault.Unsupported, "unknown")
}

func TestApplyConfig(t *testing.T) {
	t.Parallel()
	w := create(t, ApplyOptions{})
	value := func(entries ...UpdateEntry) *UpdateMap { return &UpdateMap{Entries: entries} }
	m := w.do(&UpdateConfig{
		Config: value(Set("a", "1"), Set("b", "2"), Unset("a")), TableMetadata: value(Set("t", "u")), SchemaMetadata: value(Set("s", "")),
		FieldMetadata: map[schema.FieldID]UpdateMap{1: *value(Set("f", "g"), Set(schema.KeyExtensionName, "e"))},
	}, ApplyOptions{})
	if !maps.Equal(m.Config, map[string]string{"b": "2"}) || m.TableMetadata["t"] != "u" || m.Schema.ByID(1).Metadata["f"] != "g" || m.Schema.ByID(1).Metadata[schema.KeyExtensionName] != "e" {
		t.Errorf("%v %v %v", m.Config, m.TableMetadata, m.Schema.ByID(1).Metadata)
	}
	if v, ok := m.Schema.Metadata["s"]; !ok || v != "" {
		t.Errorf("schema metadata %v", m.Schema.Metadata)
	}
	m = w.do(&UpdateConfig{Config: &UpdateMap{Replace: true, Entries: []UpdateEntry{Set("c", "3")}}, FieldMetadata: map[schema.FieldID]UpdateMap{1: {Replace: true}}}, ApplyOptions{})
	if !maps.Equal(m.Config, map[string]string{"c": "3"}) || len(m.Schema.ByID(1).Metadata) != 0 {
		t.Errorf("%v, %v", m.Config, m.Schema.ByID(1).Metadata)
	}
	w.fails(&UpdateConfig{FieldMetadata: map[schema.FieldID]UpdateMap{8: {}}}, ApplyOptions{}, fault.NotFound, "id 8")
	w.fails(&UpdateConfig{FieldMetadata: map[schema.FieldID]UpdateMap{1: *value(Set(schema.KeyExtensionName, schema.ExtensionBlobV2))}}, ApplyOptions{}, fault.Invalid, schema.ExtensionBlobV2)

	t.Run("table keys are set once", func(t *testing.T) {
		key := func(id schema.FieldID, entries ...UpdateEntry) *UpdateConfig {
			return &UpdateConfig{FieldMetadata: map[schema.FieldID]UpdateMap{id: *value(entries...)}}
		}
		w.fails(key(0, Set(schema.KeyPrimary, "no")), ApplyOptions{}, fault.Invalid, "primary")
		w.fails(key(0, Set(schema.KeyClusteringPosition, "x")), ApplyOptions{}, fault.Invalid, "clustering")
		m := w.do(key(0, Set(schema.KeyPrimary, "true"), Set(schema.KeyPrimaryPosition, "1")), ApplyOptions{})
		if r := m.Schema.Records()[0]; !r.Carried.PrimaryKey || r.Carried.PrimaryKeyPosition != 1 {
			t.Errorf("%+v", r)
		}
		w.do(key(0, Set(schema.KeyClusteringPosition, "1")), ApplyOptions{})
		w.do(key(1, Set("other", "x")), ApplyOptions{})
		w.fails(key(1, Set(schema.KeyPrimary, "true")), ApplyOptions{}, fault.Precondition, "primary")
		w.fails(key(0, Unset(schema.KeyPrimary), Unset(schema.KeyPrimaryPosition)), ApplyOptions{}, fault.Precondition, "primary")
		w.fails(key(1, Set(schema.KeyClusteringPosition, "2")), ApplyOptions{}, fault.Precondition, "clustering")
		w.fails(&UpdateConfig{FieldMetadata: map[schema.FieldID]UpdateMap{0: {Replace: true}}}, ApplyOptions{}, fault.Precondition, "key")
	})
}

func TestApplyColumns(t *testing.T) {
	t.Parallel()
	ab := []schema.Record{field(0, "a", "int64"), field(1, "b", "string")}
	wider := append(slices.Clone(ab), field(2, "c", "double"))
	w := create(t, ApplyOptions{StableRowIDs: true})
	merged := func(change func(f *Fragment)) []Fragment {
		out := slices.Clone(w.now.Fragments)
		for i := range out {
			out[i].Files = slices.Clone(out[i].Files)
			change(&out[i])
		}
		return out
	}
	nothing := func(*Fragment) {}

	t.Run("schemas that files do not bear are refused", func(t *testing.T) {
		for name, test := range map[string]struct {
			records []schema.Record
			expect  string
		}{
			"a used id":      {append(slices.Clone(ab[:1]), field(1, "b", "string"), field(0, "x", "int8")), ""},
			"another type":   {[]schema.Record{field(0, "a", "string"), ab[1]}, "turns from int64 into string"},
			"tighter":        {[]schema.Record{{ID: 0, ParentID: -1, Name: "a", LogicalType: "int64"}, ab[1]}, "int64 not null"},
			"another parent": {[]schema.Record{field(2, "st", "struct"), below(2, 0, "a", "int64"), ab[1]}, "stays below its parent"},
			"one name twice": {[]schema.Record{ab[0], field(1, "a", "string")}, "two fields are called a"},
		} {
			s, err := schema.FromRecords(test.records, nil)
			if test.expect == "" {
				if err == nil {
					t.Errorf("%s: made %v", name, s)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			w.fails(&Merge{Fragments: merged(nothing), Schema: s}, ApplyOptions{}, fault.Invalid, test.expect)
		}
		w.fails(&Merge{Fragments: merged(nothing)}, ApplyOptions{}, fault.Invalid, "needs a schema")
		w.fails(&Merge{Fragments: merged(nothing)[:1], Schema: tree(t, wider...)}, ApplyOptions{}, fault.Conflict, "1 fragments")
		w.fails(&Merge{Fragments: merged(func(f *Fragment) { f.PhysicalRows++ }), Schema: tree(t, wider...)}, ApplyOptions{}, fault.Invalid, "rows")
		w.fails(&Merge{Fragments: merged(func(f *Fragment) { f.ID += 9 }), Schema: tree(t, wider...)}, ApplyOptions{}, fault.Conflict, "fragment 9")
		w.fails(&Project{Schema: tree(t, field(0, "a", "string"))}, ApplyOptions{}, fault.Invalid, "string")
	})
	t.Run("a column with data", func(t *testing.T) {
		m := w.do(&Merge{Fragments: merged(func(f *Fragment) { f.Files = append(f.Files, lance(fmt.Sprintf("c%d", f.ID), 2)) }), Schema: tree(t, wider...)}, ApplyOptions{})
		updated, err := rowset.DecodeVersions(m.Fragments[0].UpdatedAt, 10)
		if err != nil {
			t.Fatal(err)
		}
		created, err := rowset.DecodeVersions(m.Fragments[0].CreatedAt, 10)
		if err != nil {
			t.Fatal(err)
		}
		if len(m.Fragments[1].Files) != 2 || updated.At(9) != 2 || created.At(9) != 1 {
			t.Errorf("%+v", m.Fragments)
		}
	})
	t.Run("a type may change where all is rewritten", func(t *testing.T) {
		cast := []schema.Record{ab[0], ab[1], field(2, "c", "float")}
		w.fails(&Merge{Fragments: merged(nothing), Schema: tree(t, cast...)}, ApplyOptions{}, fault.Invalid, "turns from double into float")
		w.fails(&Merge{Fragments: merged(func(f *Fragment) {
			if f.ID == 0 {
				f.Files[1] = lance("new", 2)
			}
		}), Schema: tree(t, cast...)}, ApplyOptions{}, fault.Invalid, "turns from double into float")
		w.do(&Merge{Fragments: merged(func(f *Fragment) { f.Files[1] = lance(fmt.Sprintf("new%d", f.ID), 2) }), Schema: tree(t, cast...)}, ApplyOptions{})
	})
	t.Run("dropped columns take their files along", func(t *testing.T) {
		w.now.Schema = w.now.Schema.WithMetadata(map[string]string{"k": "v"})
		m := w.do(&Project{Schema: tree(t, field(0, "a", "int64"), field(9, "late", "int8"))}, ApplyOptions{})
		if len(m.Fragments[0].Files) != 1 || m.Schema.Metadata["k"] != "v" || m.MaxFieldID() != 9 || m.Schema.ByID(9) == nil {
			t.Errorf("%+v", m.Fragments[0])
		}
		w.fails(&Project{Schema: tree(t, field(9, "late", "int8"))}, ApplyOptions{}, fault.Precondition, "fragment 0")
	})
}

func TestApplyReplacement(t *testing.T) {
	t.Parallel()
	w := &world{t: t}
	w.do(&Overwrite{Schema: tree(t, field(0, "a", "int64"), field(1, "b", "string"), field(2, "c", "int8")), Fragments: []Fragment{rows(4, lance("ab", 0, 1))}}, ApplyOptions{})
	replace := func(d DataFile) *DataReplacement { return &DataReplacement{[]Replacement{{0, d}}} }
	show := func() string {
		var out []string
		for _, d := range w.now.Fragments[0].Files {
			out = append(out, fmt.Sprint(d.Path, d.Fields))
		}
		return strings.Join(out, " ")
	}
	for _, step := range []struct {
		op   Operation
		want string
	}{
		{replace(lance("c", 2)), "ab[0 1] c[2]"},
		{replace(lance("c2", 2)), "ab[0 1] c2[2]"},
		{replace(lance("b", 1)), "ab[0 -2] c2[2] b[1]"},
		{replace(lance("a", 0)), "c2[2] b[1] a[0]"},
		{replace(lance("bc", 1, 2)), "a[0] bc[1 2]"},
	} {
		w.do(step.op, ApplyOptions{})
		if got := show(); got != step.want {
			t.Errorf("%s, want %s", got, step.want)
		}
	}
	w.fails(&DataReplacement{}, ApplyOptions{}, fault.Invalid, "nothing")
	w.fails(&DataReplacement{[]Replacement{{5, lance("x", 0)}}}, ApplyOptions{}, fault.Conflict, "fragment 5")
	w.fails(&DataReplacement{[]Replacement{{0, lance("x", 0)}, {0, lance("y", 1)}}}, ApplyOptions{}, fault.Invalid, "same fields")

	t.Run("columns rewritten by an update", func(t *testing.T) {
		w := create(t, ApplyOptions{StableRowIDs: true})
		f := w.now.Fragments[0]
		f.Files = []DataFile{lance("0", 0, Tombstone), lance("n", 1)}
		m := w.do(&Update{Updated: []Fragment{f}, FieldsModified: []schema.FieldID{1}, Mode: RewriteColumns, Offsets: map[uint64][]byte{0: bitmapOf([]uint32{3})}}, ApplyOptions{})
		updated, err := rowset.DecodeVersions(m.Fragments[0].UpdatedAt, 10)
		if err != nil || updated.At(3) != 2 || updated.At(4) != 1 || len(m.Fragments[0].Files) != 2 {
			t.Errorf("%+v, %v", m.Fragments[0], err)
		}
		f = w.now.Fragments[0]
		f.Files = []DataFile{lance("n2", 0, 1)}
		m = w.do(&Update{Updated: []Fragment{f}, FieldsModified: []schema.FieldID{0, 1}, Mode: RewriteColumns}, ApplyOptions{})
		if updated, err := rowset.DecodeVersions(m.Fragments[0].UpdatedAt, 10); err != nil || updated.At(4) != 3 {
			t.Errorf("%v, %v", updated, err)
		}
		w.fails(&Update{Updated: []Fragment{f}, Mode: RewriteColumns, Offsets: map[uint64][]byte{0: bitmapOf([]uint32{10})}}, ApplyOptions{}, fault.Invalid, "row 10")
		w.fails(&Update{Updated: []Fragment{w.gone(0, 1)}, Mode: RewriteColumns}, ApplyOptions{}, fault.Conflict, "deleted since")
	})
}

func TestApplyUpdateRows(t *testing.T) {
	t.Parallel()
	w := create(t, ApplyOptions{StableRowIDs: true})
	if f := w.now.Fragments[1]; w.now.NextRowID != 15 || f.RowIDs == nil || f.CreatedAt == nil || f.UpdatedAt == nil {
		t.Errorf("%+v", w.now)
	}
	moved := rows(3, lance("n", 0, 1))
	moved.RowIDs = rowset.IDsOf([]uint64{12, 1}).Encode()
	m := w.do(&Update{Updated: []Fragment{w.gone(0, 1)}, Removed: []uint64{1}, New: []Fragment{moved}}, ApplyOptions{})
	ids, err := rowset.DecodeRowIDs(m.Fragments[1].RowIDs, 3)
	if err != nil || ids.At(0) != 12 || ids.At(1) != 1 || ids.At(2) != 15 || m.NextRowID != 16 || !slices.Equal(m.ids(), []uint64{0, 2}) {
		t.Errorf("%v, %v, next %d", m.ids(), err, m.NextRowID)
	}
	created, err := rowset.DecodeVersions(m.Fragments[1].CreatedAt, 3)
	if err != nil || created.At(0) != 1 || created.At(1) != 1 || created.At(2) != 2 {
		t.Errorf("created %v, %v", created, err)
	}
	given := rows(1, lance("m", 0, 1))
	given.RowIDs, given.CreatedAt = rowset.IDsOf([]uint64{12}).Encode(), rowset.UniformVersions(1, 77).Encode()
	m = w.do(&Update{Updated: []Fragment{w.gone(2, 1)}, New: []Fragment{given}}, ApplyOptions{})
	if v, err := rowset.DecodeVersions(m.byID(3).CreatedAt, 1); err != nil || v.At(0) != 77 {
		t.Errorf("created %v, %v", v, err)
	}
	bad := func(change func(f *Fragment)) *Update {
		f := rows(1, lance("m", 0, 1))
		change(&f)
		return &Update{Updated: []Fragment{w.gone(2, 2)}, New: []Fragment{f}}
	}
	w.fails(bad(func(f *Fragment) { f.RowIDs = rowset.IDsOf([]uint64{1, 2}).Encode() }), ApplyOptions{}, fault.Corrupt, "row ids")
	w.fails(bad(func(f *Fragment) { f.RowIDs = []byte{0xFF} }), ApplyOptions{}, fault.Corrupt, "row id")
	w.fails(bad(func(f *Fragment) { f.RowIDsInColumn = true }), ApplyOptions{}, fault.Unsupported, "hidden")
	w.fails(bad(func(f *Fragment) { f.CreatedAt = []byte{0xFF} }), ApplyOptions{}, fault.Corrupt, "versions")
	w.fails(bad(func(f *Fragment) { f.Deletion = &DeletionFile{} }), ApplyOptions{}, fault.Invalid, "deletion file")
	w.fails(bad(func(f *Fragment) { f.PhysicalRows = 0 }), ApplyOptions{}, fault.Invalid, "0 rows")
	w.fails(&Update{}, ApplyOptions{}, fault.Invalid, "without fragments")
	w.fails(&Update{Removed: []uint64{9}}, ApplyOptions{}, fault.Conflict, "fragment 9")
	w.fails(&Update{Removed: []uint64{0}, Compacted: []CompactedTable{{}}}, ApplyOptions{}, fault.Unsupported, "write-ahead log")
	w.now.NextRowID = math.MaxUint64
	w.fails(&Append{[]Fragment{rows(1, lance("x", 0))}}, ApplyOptions{}, fault.Exhausted, "row ids")
}

func TestApplyRewrite(t *testing.T) {
	t.Parallel()
	w := create(t, ApplyOptions{})
	w.do(&Delete{Updated: []Fragment{w.gone(0, 4)}}, ApplyOptions{})
	w.do(&Append{[]Fragment{rows(2, lance("2", 0, 1))}}, ApplyOptions{})
	w.do(&ReserveFragments{Count: 2}, ApplyOptions{})
	group := func(change func(g *RewriteGroup)) *Rewrite {
		g := RewriteGroup{Old: slices.Clone(w.now.Fragments[:2]), New: []Fragment{rows(11, lance("c", 0, 1))}}
		g.New[0].ID = 3
		change(&g)
		return &Rewrite{Groups: []RewriteGroup{g}}
	}
	w.fails(&Rewrite{Groups: []RewriteGroup{{}}}, ApplyOptions{}, fault.Invalid, "no fragments")
	w.fails(&Rewrite{Rewritten: [][]byte{{}}}, ApplyOptions{}, fault.Unsupported, "indexes")
	w.fails(group(func(g *RewriteGroup) { g.New[0].PhysicalRows = 12 }), ApplyOptions{}, fault.Invalid, "12 rows of 11")
	w.fails(group(func(g *RewriteGroup) { g.New[0].ID = 5 }), ApplyOptions{}, fault.Invalid, "not reserved")
	w.fails(group(func(g *RewriteGroup) { g.New[0].ID = 2 }), ApplyOptions{}, fault.Invalid, "twice")
	w.fails(group(func(g *RewriteGroup) { g.Old[0].Deletion = nil }), ApplyOptions{}, fault.Conflict, "fragment 0")
	w.fails(group(func(g *RewriteGroup) { g.Old[0].Files = []DataFile{lance("z", 0, 1)} }), ApplyOptions{}, fault.Conflict, "fragment 0")
	w.fails(group(func(g *RewriteGroup) { g.Old[1].ID = 8 }), ApplyOptions{}, fault.Conflict, "fragment 8")
	twice := group(func(*RewriteGroup) {})
	twice.Groups = append(twice.Groups, twice.Groups[0])
	w.fails(twice, ApplyOptions{}, fault.Invalid, "twice")
	if m := w.do(group(func(*RewriteGroup) {}), ApplyOptions{}); !slices.Equal(m.ids(), []uint64{2, 3}) || *m.MaxFragmentID != 4 || m.Rows() != 13 || m.ReaderFlags != 0 {
		t.Errorf("%v, greatest %d", m.ids(), *m.MaxFragmentID)
	}
	t.Run("with row ids", func(t *testing.T) {
		w := create(t, ApplyOptions{StableRowIDs: true})
		whole := rows(15, lance("c", 0, 1))
		op := &Rewrite{Groups: []RewriteGroup{{Old: w.now.Fragments, New: []Fragment{whole}}}}
		w.fails(op, ApplyOptions{}, fault.Invalid, "0 row ids for 15 rows")
		op.Groups[0].New[0].RowIDs = w.now.Fragments[0].RowIDs
		w.fails(op, ApplyOptions{}, fault.Invalid, "10 row ids for 15 rows")
		ids, err := rowset.IDRange(0, 15)
		if err != nil {
			t.Fatal(err)
		}
		op.Groups[0].New[0].RowIDs, op.Groups[0].New[0].CreatedAt = ids.Encode(), rowset.UniformVersions(3, 1).Encode()
		w.fails(op, ApplyOptions{}, fault.Invalid, "3 row versions for 15 rows")
		op.Groups[0].New[0].CreatedAt = rowset.UniformVersions(15, 1).Encode()
		if m := w.do(op, ApplyOptions{}); !slices.Equal(m.ids(), []uint64{2}) || m.NextRowID != 15 {
			t.Errorf("%v, next row id %d", m.ids(), m.NextRowID)
		}
	})
}

func TestApplyClone(t *testing.T) {
	t.Parallel()
	w := create(t, ApplyOptions{})
	w.do(&UpdateBases{Bases: []Base{{Path: "/other", IsDatasetRoot: true}}}, ApplyOptions{})
	one := uint32(1)
	far := rows(2, lance("far", 0))
	far.Files[0].BaseID = &one
	w.do(&Append{[]Fragment{far}}, ApplyOptions{})
	w.do(&Delete{Updated: []Fragment{w.gone(0, 1)}}, ApplyOptions{})
	source := w.now
	target := &world{t: t}
	m := target.do(&Clone{Shallow: true, RefVersion: source.Version, RefPath: "/source", BranchName: "b/c"}, ApplyOptions{Source: source})
	if m.Version != source.Version || m.Branch != "b/c" || m.Bases[0].Path != "/source" || !m.Bases[0].IsDatasetRoot || *m.Fragments[0].Files[0].BaseID != 0 ||
		*m.Fragments[2].Files[0].BaseID != 1 || *m.Fragments[0].Deletion.BaseID != 0 || *m.MaxFragmentID != 2 {
		t.Errorf("%+v", m)
	}
	if source.Fragments[0].Files[0].BaseID != nil || len(source.Bases) != 1 {
		t.Error("the clone changed its source")
	}
	again := &world{t: t}
	if m := again.do(&Clone{Shallow: true, RefVersion: m.Version, RefPath: "/clone"}, ApplyOptions{Source: m}); m.Bases[2].Path != "/clone" || *m.Fragments[0].Files[0].BaseID != 0 || m.Branch != "" {
		t.Errorf("a clone of a clone: %+v", m)
	}
	deep := &world{t: t}
	if m := deep.do(&Clone{RefVersion: source.Version, RefPath: "/source"}, ApplyOptions{Source: source}); m.Fragments[2].Files[0].BaseID != nil || m.Fragments[0].Deletion.BaseID != nil || len(m.Bases) != 1 {
		t.Errorf("a deep clone: %+v", m)
	}
	copied := &Copied{Fragments: slices.Clone(source.Fragments[:1]), Bases: map[uint32]Base{7: {ID: 7, Path: "/kept"}}, Managed: true}
	copied.Fragments[0].Files = []DataFile{lance("copy", 0, 1)}
	if m := (&world{t: t}).do(&Clone{RefVersion: source.Version, RefPath: "/source"}, ApplyOptions{Source: source, Copied: copied}); len(m.Fragments) != 1 ||
		m.Fragments[0].Files[0].Path != copied.Fragments[0].Files[0].Path || len(m.Bases) != 1 || m.Bases[7].Path != "/kept" || !m.ManagedBlobs() || *m.MaxFragmentID != 2 {
		t.Errorf("a deep clone with files of its own: %+v", m)
	}
	if _, err := (&world{t: t}).try(&Clone{Shallow: true, RefVersion: source.Version, RefPath: "/source"}, ApplyOptions{Source: source, Copied: copied}); fault.KindOf(err) != fault.Internal {
		t.Errorf("a shallow clone with copies: %v", err)
	}
	w.fails(&Clone{RefVersion: source.Version}, ApplyOptions{Source: source}, fault.Exists, "without a table")
	for _, op := range []*Clone{{RefVersion: 9}, {Shallow: true, RefVersion: source.Version}} {
		if _, err := (&world{t: t}).try(op, ApplyOptions{Source: source}); err == nil {
			t.Errorf("%+v was applied", op)
		}
	}
	if _, err := (&world{t: t}).try(&Clone{}, ApplyOptions{}); fault.KindOf(err) != fault.Internal {
		t.Errorf("no source: %v", err)
	}
}

func TestApplyUnknown(t *testing.T) {
	t.Parallel()
	w := create(t, ApplyOptions{})
	for _, op := range []Operation{&Unknown{Number: 150}, &UpdateMemWalState{}, &DataOverlay{}} {
		w.fails(op, ApplyOptions{}, fault.Unsupported, fmt.Sprint(int(op.Kind())))
	}
	w.fails(&ReserveFragments{}, ApplyOptions{}, fault.Invalid, "no fragment ids")
	w.fails(&ReserveFragments{Count: 1}, ApplyOptions{StableRowIDs: true}, fault.Precondition, "when a table is created")
	w.now.Version = 1<<63 - 1
	w.fails(&ReserveFragments{Count: 1}, ApplyOptions{}, fault.Exhausted, "no version follows")
}

// TestApplyIndexes keeps the index section true (section 2.6).
func TestApplyIndexes(t *testing.T) {
	t.Parallel()
	strange := []byte{0xC2, 0x3E, 1, 7} // a field that nobody knows
	entry := func(name string, field int32, fragments ...uint32) []byte {
		pb := &lancepb.IndexMetadata{Uuid: append([]byte{10, 16}, fmt.Sprintf("%16s", name)...), Name: name, Fields: []int32{field}}
		if fragments != nil {
			pb.FragmentBitmap = bitmapOf(fragments)
		}
		pb.ProtoReflect().SetUnknown(strange)
		data, err := proto.Marshal(pb)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	on := func(t *testing.T, entries ...[]byte) *world {
		t.Helper()
		w := create(t, ApplyOptions{})
		w.do(&CreateIndex{New: entries}, ApplyOptions{})
		return w
	}
	show := func(m *Manifest) string {
		var out []string
		for _, x := range m.Indexes {
			var covers []uint64
			for id := range uint32(5) {
				if x.Fragments != nil && x.Fragments.Contains(id) {
					covers = append(covers, uint64(id))
				}
			}
			out = append(out, fmt.Sprint(x.Name, covers))
		}
		return strings.Join(out, " ")
	}
	a, b, sys := entry("a", 0, 0, 1), entry("b", 1, 0, 1), entry(FragmentReuse, 99, 0)
	unknown := entry("u", 1)
	column := lance("n", 1)
	rewrite := func(w *world) *Update {
		f := w.now.Fragments[0]
		f.Files = []DataFile{lance("0", 0, Tombstone), column}
		return &Update{Updated: []Fragment{f}, FieldsModified: []schema.FieldID{1}, Mode: RewriteColumns}
	}
	for _, test := range []struct {
		name    string
		entries [][]byte
		op      func(w *world) Operation
		want    string
	}{
		{"append", [][]byte{a, b, unknown, sys}, func(*world) Operation { return &Append{[]Fragment{rows(1, lance("x", 0))}} }, "a[0 1] b[0 1] u[] __lance_frag_reuse[0]"},
		{"delete", [][]byte{a, b}, func(w *world) Operation { return &Delete{Updated: []Fragment{w.gone(0, 1)}, Deleted: []uint64{1}} }, "a[0 1] b[0 1]"},
		{"update that moves rows", [][]byte{a, b}, func(w *world) Operation {
			return &Update{Updated: []Fragment{w.gone(0, 1)}, New: []Fragment{rows(1, lance("x", 0, 1))}}
		}, "a[0 1] b[0 1]"},
		{"columns rewritten by an update", [][]byte{a, b, unknown}, func(w *world) Operation { return rewrite(w) }, "a[0 1] b[1]"},
		{"columns rewritten where a bitmap names older fragments", [][]byte{a, b, sys}, func(w *world) Operation { return rewrite(w) }, "a[0 1] __lance_frag_reuse[0]"},
		{"columns replaced", [][]byte{a, b}, func(*world) Operation { return &DataReplacement{[]Replacement{{1, column}}} }, "a[0 1] b[0]"},
		{"columns rewritten by a merge", [][]byte{a, b}, func(w *world) Operation {
			f := slices.Clone(w.now.Fragments)
			f[1].Files = []DataFile{lance("1", 0, Tombstone), column}
			return &Merge{Fragments: f, Schema: w.now.Schema}
		}, "a[0 1] b[0]"},
		{"columns dropped", [][]byte{a, b, sys}, func(*world) Operation { return &Project{Schema: tree(t, field(1, "b", "string"))} }, "b[0 1] __lance_frag_reuse[0]"},
		{"overwrite", [][]byte{a, b, sys}, func(w *world) Operation { return &Overwrite{Schema: w.now.Schema} }, ""},
		{"compaction", [][]byte{a, b, unknown}, func(w *world) Operation {
			return &Rewrite{Groups: []RewriteGroup{{Old: w.now.Fragments[:1], New: []Fragment{rows(10, lance("x", 0, 1))}}}}
		}, "a[1] b[1]"},
		{"configuration", [][]byte{a}, func(*world) Operation { return managed("true") }, "a[0 1]"},
		{"bases", [][]byte{a}, func(*world) Operation { return &UpdateBases{Bases: []Base{{Path: "/x"}}} }, "a[0 1]"},
		{"reserve", [][]byte{a}, func(*world) Operation { return &ReserveFragments{Count: 1} }, "a[0 1]"},
		{"replaced index", [][]byte{a, b}, func(*world) Operation { return &CreateIndex{New: [][]byte{entry("a", 0, 1)}, Removed: [][]byte{b}} }, "a[1]"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := on(t, test.entries...)
			before := w.now.entries
			m := w.do(test.op(w), ApplyOptions{})
			if got := show(m); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
			for _, e := range m.entries {
				touched := !slices.ContainsFunc(before, func(old []byte) bool { return string(old) == string(e) })
				if touched && (!strings.Contains(string(e), string(strange)) || strings.Contains(test.want, "[0 1] u")) {
					t.Errorf("an entry lost bytes: %x", e)
				}
			}
		})
	}
	t.Run("rows are not moved under a system entry", func(t *testing.T) {
		w := on(t, a, sys)
		w.fails(&Rewrite{Groups: []RewriteGroup{{Old: w.now.Fragments[:1], New: []Fragment{rows(10, lance("x", 0, 1))}}}}, ApplyOptions{}, fault.Unsupported, FragmentReuse)
	})
	t.Run("restore brings the old section back", func(t *testing.T) {
		w := on(t, a)
		old := w.now
		w.do(&Overwrite{Schema: w.now.Schema}, ApplyOptions{})
		if m := w.do(&Restore{Version: old.Version}, ApplyOptions{Source: old}); show(m) != "a[0 1]" {
			t.Error(show(m))
		}
	})
	t.Run("clones find the files in their base", func(t *testing.T) {
		w := on(t, a)
		target := &world{t: t}
		m := target.do(&Clone{Shallow: true, RefVersion: w.now.Version, RefPath: "/s"}, ApplyOptions{Source: w.now})
		if x := m.Indexes[0]; x.BaseID == nil || *x.BaseID != 0 {
			t.Errorf("%+v", x)
		}
		back := &world{t: t}
		if m := back.do(&Clone{RefVersion: m.Version, RefPath: "/s"}, ApplyOptions{Source: m}); m.Indexes[0].BaseID != nil {
			t.Errorf("%+v", m.Indexes[0])
		}
	})
	t.Run("covering columns set a flag", func(t *testing.T) {
		pb := &lancepb.IndexMetadata{Uuid: append([]byte{10, 16}, "0123456789abcdef"...), Name: "c", Fields: []int32{0, 1}, CoveringFields: []int32{1}}
		data, err := proto.Marshal(pb)
		if err != nil {
			t.Fatal(err)
		}
		w := on(t, data)
		if w.now.ReaderFlags != FlagCoveringColumns || w.now.WriterFlags != FlagCoveringColumns {
			t.Errorf("flags %d %d", w.now.ReaderFlags, w.now.WriterFlags)
		}
		if m := w.do(&CreateIndex{Removed: [][]byte{data}}, ApplyOptions{}); m.ReaderFlags != 0 || m.IndexCount != 0 {
			t.Errorf("flags %d, %d indexes", m.ReaderFlags, m.IndexCount)
		}
	})
	t.Run("entries that are no messages", func(t *testing.T) {
		w := create(t, ApplyOptions{})
		w.now.entries = [][]byte{{0xFF}}
		w.fails(&Append{[]Fragment{rows(1, lance("x", 0))}}, ApplyOptions{}, fault.Corrupt, "protobuf")
		w.now.entries = [][]byte{append(entry("d", 0), 0x2A, 1, 9)}
		w.fails(&Rewrite{Groups: []RewriteGroup{{Old: w.now.Fragments[:1], New: []Fragment{rows(10, lance("x", 0, 1))}}}}, ApplyOptions{}, fault.Corrupt, `index "d"`)
	})
}

// TestApplyLegacySwitch is rule LEG-5 for a nested column; the fixture
// legacy_mixed has the plain case.
func TestApplyLegacySwitch(t *testing.T) {
	t.Parallel()
	w := &world{t: t}
	blob := below(1, 2, "b", "large_binary")
	blob.Metadata = map[string]string{schema.KeyBlob: "true", "k": "v"}
	old := rows(2, lance("old", 0, 2))
	old.Files[0].Minor = 1
	w.do(&Overwrite{Schema: tree(t, field(0, "a", "int64"), field(1, "st", "struct"), blob, field(3, "z", "int8")), Fragments: []Fragment{old}}, ApplyOptions{})
	t.Run("LEG-7 appends of the old version change nothing", func(t *testing.T) {
		if m := w.do(&Append{[]Fragment{old}}, ApplyOptions{}); m.Schema.ByID(2).Blob != schema.LegacyBlob || m.ReaderFlags != 0 {
			t.Errorf("%+v, flags %d", m.Schema.ByID(2), m.ReaderFlags)
		}
	})
	t.Run("LEG-5 another column in a new file changes nothing but the flag", func(t *testing.T) {
		if m := w.do(&Append{[]Fragment{rows(1, lance("new", 0))}}, ApplyOptions{}); m.Schema.ByID(2).Blob != schema.LegacyBlob || m.ReaderFlags != FlagMixedVersions {
			t.Errorf("%+v, flags %d", m.Schema.ByID(2), m.ReaderFlags)
		}
	})
	t.Run("LEG-5 the first new file switches the column", func(t *testing.T) {
		m := w.do(&Append{[]Fragment{rows(1, lance("new", 0, 2))}}, ApplyOptions{})
		f := m.Schema.ByID(2)
		if f.Blob != schema.BlobV2 || f.Logical != "struct" || len(f.Children) != 2 || f.Children[0].ID != 4 || f.Children[1].ID != 5 ||
			f.Metadata["k"] != "v" || f.Metadata[schema.KeyExtensionName] != schema.ExtensionBlobV2 || f.Metadata[schema.KeyBlob] != "" {
			t.Errorf("%+v", f)
		}
		if m.DataFormat != "2.1" || m.ReaderFlags != FlagMixedVersions || m.WriterFlags != FlagMixedVersions {
			t.Errorf("format %s, flags %d %d", m.DataFormat, m.ReaderFlags, m.WriterFlags)
		}
	})
	t.Run("LEG-7 appends of the old version stay legal", func(t *testing.T) {
		w.do(&Append{[]Fragment{old}}, ApplyOptions{})
	})
}
