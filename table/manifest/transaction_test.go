package manifest

import (
	"io/fs"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/internal/lancepb"
	"github.com/flightblob/flightblob/schema"
)

// TestTransactionGoldens reads every transaction file of the fixtures and
// writes it again; the message stays what it was.
func TestTransactionGoldens(t *testing.T) {
	t.Parallel()
	seen := map[string]int{}
	err := filepath.WalkDir(fixtures, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".txn") {
			return err
		}
		data := read(t, path)
		tx, err := DecodeTransaction(data)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			return nil
		}
		if tx.FileName() != filepath.Base(path) {
			t.Errorf("%s calls itself %s", path, tx.FileName())
		}
		seen[tx.Op.Kind().String()]++
		again, err := tx.Encode()
		if err != nil {
			t.Fatal(err)
		}
		want, got := new(lancepb.Transaction), new(lancepb.Transaction)
		if err := proto.Unmarshal(data, want); err != nil {
			t.Fatal(err)
		}
		if err := proto.Unmarshal(again, got); err != nil {
			t.Fatal(err)
		}
		if !proto.Equal(want, got) {
			t.Errorf("%s: %v\nbecame %v", path, want, got)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"Append", "Delete", "Overwrite", "Rewrite", "Merge", "Project", "Restore", "ReserveFragments", "Update", "UpdateConfig", "Clone"} {
		if seen[name] == 0 {
			t.Errorf("no fixture has the operation %s", name)
		}
	}
}

// everyOperation is one operation of each kind, with all that it can say.
func everyOperation(t testing.TB) []Operation {
	t.Helper()
	tree, err := schema.FromRecords([]schema.Record{{ID: 0, ParentID: -1, Name: "a", LogicalType: "int64", Metadata: map[string]string{"k": "v"}}}, map[string]string{"m": "n"})
	if err != nil {
		t.Fatal(err)
	}
	id := uint32(0)
	fragments := []Fragment{{ID: 3, PhysicalRows: 7, Files: []DataFile{{Path: "a.lance", Fields: []schema.FieldID{0}, Columns: []int32{0}, Major: 2, Minor: 2, Size: 9, BaseID: &id}}}}
	deleted := []Fragment{{ID: 3, PhysicalRows: 7, Files: fragments[0].Files, Deletion: &DeletionFile{Bitmap: true, ReadVersion: 4, ID: 5, Rows: 6}}}
	return []Operation{
		&Append{fragments},
		&Delete{deleted, []uint64{4}, "a > 1"},
		&Overwrite{fragments, tree, map[string]string{"c": "d"}, []Base{{Name: "b", Path: "/b", IsDatasetRoot: true}}},
		&CreateIndex{[][]byte{{8, 1}}, [][]byte{{8, 2}}},
		&Rewrite{Groups: []RewriteGroup{{fragments, deleted}, {deleted, fragments}}, Rewritten: [][]byte{{8, 3}}},
		&Merge{fragments, tree, true},
		&Restore{9},
		&ReserveFragments{10},
		&Update{
			Removed: []uint64{1}, Updated: deleted, New: fragments, FieldsModified: []schema.FieldID{2}, FieldsMoved: []schema.FieldID{3}, Mode: RewriteColumns,
			Inserted: &KeyFilter{Fields: []schema.FieldID{0}, Exact: []uint64{1, 2}}, Offsets: map[uint64][]byte{3: {1}}, Compacted: []CompactedTable{{[]byte("shard"), 4}},
		},
		&Update{Inserted: &KeyFilter{Fields: []schema.FieldID{0}, Bloom: &Bloom{[]byte{1}, 8, 9, 0.5}}, Updated: []Fragment{}, New: []Fragment{}},
		&Project{tree.WithMetadata(nil), true},
		&UpdateConfig{
			Config: &UpdateMap{Entries: []UpdateEntry{Set("a", ""), Unset("b")}}, TableMetadata: &UpdateMap{Replace: true}, SchemaMetadata: &UpdateMap{},
			FieldMetadata: map[schema.FieldID]UpdateMap{0: {Entries: []UpdateEntry{Set("x", "y")}}},
		},
		&DataReplacement{[]Replacement{{3, fragments[0].Files[0]}}},
		&UpdateMemWalState{[]CompactedTable{{[]byte("shard"), 4}}},
		&Clone{true, "ref", 3, "/source", "branch"},
		&UpdateBases{[]Base{{ID: 2, Path: "/c"}}},
		&DataOverlay{[]OverlayGroup{{3, [][]byte{{8, 4}}}}},
		&Unknown{150, []byte{8, 5}},
	}
}

func TestTransactionRoundTrip(t *testing.T) {
	t.Parallel()
	for _, op := range everyOperation(t) {
		tx := &Transaction{ReadVersion: 1, UUID: "u", Tag: "t", Properties: map[string]string{KeyCommitMessage: "why"}, Op: op}
		data, err := tx.Encode()
		if err != nil {
			t.Fatalf("%T: %v", op, err)
		}
		got, err := DecodeTransaction(data)
		if err != nil {
			t.Fatalf("%T: %v", op, err)
		}
		again, err := got.Encode()
		if err != nil || string(again) != string(data) {
			t.Errorf("%T: %v\nbecame %+v", op, err, got.Op)
		}
		if reflect.TypeOf(got.Op) != reflect.TypeOf(op) || got.ReadVersion != 1 || got.UUID != "u" || got.Tag != "t" || got.Properties[KeyCommitMessage] != "why" {
			t.Errorf("%T became %+v", op, got)
		}
		if name, err := DecodeOperation(data); err != nil || name != op.Kind().String() {
			t.Errorf("%T is named %q, %v", op, name, err)
		}
	}
}

func TestTransactionOldWords(t *testing.T) {
	t.Parallel()
	decode := func(t *testing.T, pb *lancepb.Transaction) (*Transaction, error) {
		t.Helper()
		data, err := proto.Marshal(pb)
		if err != nil {
			t.Fatal(err)
		}
		return DecodeTransaction(data)
	}
	t.Run("configuration", func(t *testing.T) {
		t.Parallel()
		old := &lancepb.UpdateConfigOp{
			UpsertValues: map[string]string{"a": "b"}, DeleteKeys: []string{"c"}, SchemaMetadata: map[string]string{"s": "t"},
			FieldMetadata: map[uint32]*lancepb.UpdateConfigOp_FieldMetadata{2: {Metadata: map[string]string{"f": "g"}}},
		}
		tx, err := decode(t, &lancepb.Transaction{Operation: &lancepb.Transaction_UpdateConfig{UpdateConfig: old}})
		if err != nil {
			t.Fatal(err)
		}
		want := &UpdateConfig{
			Config:         &UpdateMap{Entries: []UpdateEntry{Set("a", "b"), Unset("c")}},
			SchemaMetadata: &UpdateMap{Entries: []UpdateEntry{Set("s", "t")}, Replace: true},
			FieldMetadata:  map[schema.FieldID]UpdateMap{2: {Entries: []UpdateEntry{Set("f", "g")}, Replace: true}},
		}
		if !reflect.DeepEqual(want, tx.Op) {
			t.Errorf("%+v", tx.Op)
		}
		old.ConfigUpdates = &lancepb.UpdateMap{}
		if _, err := decode(t, &lancepb.Transaction{Operation: &lancepb.Transaction_UpdateConfig{UpdateConfig: old}}); fault.KindOf(err) != fault.Corrupt {
			t.Errorf("both words give %v", err)
		}
	})
	t.Run("rewrite of one group", func(t *testing.T) {
		t.Parallel()
		tx, err := decode(t, &lancepb.Transaction{Operation: &lancepb.Transaction_Rewrite{Rewrite: &lancepb.RewriteOp{
			OldFragments: []*lancepb.DataFragment{{Id: 1}, {Id: 2}}, NewFragments: []*lancepb.DataFragment{{Id: 3}},
		}}})
		if err != nil {
			t.Fatal(err)
		}
		if g := tx.Op.(*Rewrite).Groups; len(g) != 1 || len(g[0].Old) != 2 || g[0].New[0].ID != 3 {
			t.Errorf("%+v", g)
		}
	})
	t.Run("offsets as a list", func(t *testing.T) {
		t.Parallel()
		tx, err := decode(t, &lancepb.Transaction{Operation: &lancepb.Transaction_Update{Update: &lancepb.UpdateOp{
			UpdatedFragmentOffsets: map[uint64]*lancepb.UpdateOp_Offsets{7: {Values: []uint32{4, 1}}},
		}}})
		if err != nil {
			t.Fatal(err)
		}
		if got := tx.Op.(*Update).Offsets[7]; string(got) != string(bitmapOf([]uint32{1, 4})) {
			t.Errorf("%x", got)
		}
	})
}

func TestTransactionRefuses(t *testing.T) {
	t.Parallel()
	append0 := &lancepb.Transaction{Operation: &lancepb.Transaction_Append{Append: &lancepb.AppendOp{}}}
	bad := &lancepb.Transaction{Operation: &lancepb.Transaction_Append{Append: &lancepb.AppendOp{Fragments: []*lancepb.DataFragment{{Files: []*lancepb.DataFile{{Path: "../x"}}}}}}}
	wrong := proto.Clone(append0).(*lancepb.Transaction)
	wrong.GetAppend().ProtoReflect().SetUnknown([]byte{8, 1}) // fragments as a number
	for name, pb := range map[string]*lancepb.Transaction{"no operation": {Uuid: "u"}, "a path that leaves its folder": bad, "another wire type": wrong} {
		data, err := proto.Marshal(pb)
		if err != nil {
			t.Fatal(err)
		}
		if tx, err := DecodeTransaction(data); fault.KindOf(err) != fault.Corrupt {
			t.Errorf("%s: %+v, %v", name, tx, err)
		}
	}
	newer := proto.Clone(append0).(*lancepb.Transaction)
	newer.ProtoReflect().SetUnknown([]byte{0xA2, 0x07, 0}) // field 116
	data, err := proto.Marshal(newer)
	if err != nil {
		t.Fatal(err)
	}
	tx, err := DecodeTransaction(data)
	if err != nil || tx.Op.Kind() != 116 {
		t.Errorf("an operation of a newer writer beside a known one: %+v, %v", tx, err)
	}
	if _, err := DecodeTransaction([]byte{0xFF}); fault.KindOf(err) != fault.Corrupt {
		t.Errorf("junk: %v", err)
	}
}

// applyAnything applies a transaction that may be nonsense: it is refused, or
// makes a version that reads as what it is.
func applyAnything(t *testing.T, base *Manifest, tx *Transaction) {
	t.Helper()
	anything := *tx
	anything.UUID = "u"
	m, err := Apply(base, &anything, ApplyOptions{Now: time.Unix(1, 0), Source: base})
	if err != nil {
		return
	}
	data, err := m.Encode(nil)
	if err != nil {
		t.Fatalf("%+v makes a manifest that does not encode: %v", tx.Op, err)
	}
	again, err := Decode(data)
	if err != nil {
		t.Fatalf("%+v makes a manifest that does not decode: %v", tx.Op, err)
	}
	if err := again.CheckWritable(); err != nil {
		t.Fatalf("%+v makes a manifest that is not to be read or extended: %v", tx.Op, err)
	}
}

func FuzzDecodeTransaction(f *testing.F) {
	for _, op := range everyOperation(f) {
		data, err := (&Transaction{UUID: "u", Op: op}).Encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	bases := []*Manifest{nil, create(f, ApplyOptions{}).now, create(f, ApplyOptions{StableRowIDs: true}).now}
	f.Fuzz(func(t *testing.T, data []byte) {
		tx, err := DecodeTransaction(data)
		if err != nil {
			return
		}
		for _, base := range bases {
			applyAnything(t, base, tx)
		}
		again, err := tx.Encode()
		if err != nil {
			t.Fatalf("%+v does not encode: %v", tx, err)
		}
		twice, err := DecodeTransaction(again)
		if err != nil {
			t.Fatalf("%+v does not decode again: %v", tx, err)
		}
		if third, err := twice.Encode(); err != nil || string(third) != string(again) {
			t.Fatalf("%+v changes with every turn: %v", tx, err)
		}
		for _, other := range everyOperation(t) {
			Judge(tx, &Transaction{Op: other})
			Judge(&Transaction{Op: other}, tx)
		}
	})
}
