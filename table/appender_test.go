package table_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/materialize"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/schema"
	"github.com/flightblob/flightblob/table"
	"github.com/flightblob/flightblob/table/manifest"
)

// pictures is a schema with a blob column and a list of blobs.
var pictures = func() *arrow.Schema {
	minimal := arrow.StructOf(
		arrow.Field{Name: "data", Type: arrow.BinaryTypes.LargeBinary, Nullable: true},
		arrow.Field{Name: "uri", Type: arrow.BinaryTypes.String, Nullable: true},
	)
	mark := arrow.MetadataFrom(map[string]string{
		schema.KeyExtensionName: schema.ExtensionBlobV2, schema.KeyInline: "8", schema.KeyDedicated: "64",
	})
	return arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64},
		{Name: "img", Type: minimal, Nullable: true, Metadata: mark},
		{Name: "pages", Type: arrow.ListOfField(arrow.Field{Name: "item", Type: minimal, Nullable: true, Metadata: mark}), Nullable: true},
	}, nil)
}()

func pictureRows(t *testing.T, from, n int) arrow.RecordBatch {
	t.Helper()
	b := array.NewRecordBuilder(memory.DefaultAllocator, pictures)
	defer b.Release()
	put := func(s *array.StructBuilder, data []byte) {
		if data == nil {
			s.AppendNull()
			return
		}
		s.Append(true)
		s.FieldBuilder(0).(*array.BinaryBuilder).Append(data)
		s.FieldBuilder(1).AppendNull()
	}
	for i := from; i < from+n; i++ {
		b.Field(0).(*array.Int64Builder).Append(int64(i))
		put(b.Field(1).(*array.StructBuilder), picture(i))
		pages := b.Field(2).(*array.ListBuilder)
		pages.Append(i%5 != 0)
		for k := range i % 3 {
			if i%5 != 0 {
				put(pages.ValueBuilder().(*array.StructBuilder), picture(i+k))
			}
		}
	}
	return b.NewRecordBatch()
}

// picture is the value of a row: null, empty, and of all three placements.
func picture(i int) []byte {
	switch i % 7 {
	case 0:
		return nil
	case 1:
		return []byte{}
	}
	return bytes.Repeat([]byte{byte(i), byte(i >> 8)}, (i%7)*(i%7))
}

func readPictures(t *testing.T, s *table.Snapshot) map[int64][]byte {
	t.Helper()
	scan, err := s.Scan(t.Context(), table.ScanRequest{})
	if err != nil {
		t.Fatal(err)
	}
	rows, err := materialize.NewReader(t.Context(), scan, s.Resolver(), materialize.Options{})
	scan.Release()
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Release()
	got := map[int64][]byte{}
	for rows.Next() {
		rec := rows.RecordBatch()
		for i := range int(rec.NumRows()) {
			id := rec.Column(0).(*array.Int64).Value(i)
			if _, twice := got[id]; twice {
				t.Errorf("row %d came twice", id)
			}
			got[id] = nil
			if img := rec.Column(1).(*array.LargeBinary); img.IsValid(i) {
				got[id] = append([]byte{}, img.Value(i)...)
			}
			pages := rec.Column(2).(*array.List)
			if pages.IsNull(i) != (id%5 == 0) {
				t.Errorf("row %d: pages null is %v", id, pages.IsNull(i))
			} else if pages.IsValid(i) {
				from, to := pages.ValueOffsets(i)
				if to-from != id%3 {
					t.Errorf("row %d has %d pages", id, to-from)
				}
				for k := range to - from {
					value := pages.ListValues().(*array.LargeBinary)
					want := picture(int(id + k))
					if value.IsNull(int(from+k)) != (want == nil) || want != nil && !bytes.Equal(value.Value(int(from+k)), want) {
						t.Errorf("row %d, page %d differs", id, k)
					}
				}
			}
		}
	}
	if rows.Err() != nil {
		t.Fatal(rows.Err())
	}
	return got
}

func checkPictures(t *testing.T, s *table.Snapshot, n int) {
	t.Helper()
	got := readPictures(t, s)
	if len(got) != n {
		t.Errorf("%d rows, want %d", len(got), n)
	}
	for i := range n {
		want := picture(i)
		have, ok := got[int64(i)]
		if !ok || (have == nil) != (want == nil) || !bytes.Equal(have, want) {
			t.Errorf("row %d holds %v, want %v", i, have, want)
		}
	}
}

func TestCreateAppendOverwrite(t *testing.T) {
	t.Parallel()
	for _, managed := range []bool{false, true} {
		t.Run(fmt.Sprintf("managed %v", managed), func(t *testing.T) {
			t.Parallel()
			env, root := environment(t, t.TempDir())
			tbl := table.New(env, root, "t")
			o := table.CreateOptions{Settings: &table.Settings{Managed: &managed}, WriteOptions: table.WriteOptions{RowsPerFile: 30}}
			a, err := tbl.Create(t.Context(), pictures, o)
			if err != nil {
				t.Fatal(err)
			}
			defer a.Abort()
			for from := 0; from < 100; from += 50 {
				if err := a.Write(t.Context(), pictureRows(t, from, 50)); err != nil {
					t.Fatal(err)
				}
			}
			s, err := a.Commit(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			checkPictures(t, s, 100)
			if n := len(s.Manifest().Fragments); n != 4 {
				t.Errorf("%d fragments", n)
			}

			more, err := tbl.Append(t.Context(), "", pictures, table.WriteOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if err := more.Write(t.Context(), pictureRows(t, 100, 20)); err != nil {
				t.Fatal(err)
			}
			if s, err = more.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			checkPictures(t, s, 120)
			fresh, err := tbl.At(t.Context(), table.Ref{})
			if err != nil || fresh.Version() != 2 {
				t.Fatalf("version %v, %v", fresh, err)
			}
			checkPictures(t, fresh, 120)

			over, err := tbl.Overwrite(t.Context(), "", pictures, table.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if err := over.Write(t.Context(), pictureRows(t, 0, 3)); err != nil {
				t.Fatal(err)
			}
			if s, err = over.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			checkPictures(t, s, 3)
			old, err := tbl.At(t.Context(), table.Ref{Version: 2})
			if err != nil {
				t.Fatal(err)
			}
			checkPictures(t, old, 120)
			if managed != s.Manifest().ReaderFlags.Has(manifest.FlagManagedBlobs) {
				t.Errorf("flags %v, managed %v (CAP-3)", s.Manifest().ReaderFlags, managed)
			}
		})
	}
}

// A write that is refused or given up leaves no object behind.
func TestAppenderLeavesNothing(t *testing.T) {
	t.Parallel()
	env, root := environment(t, t.TempDir())
	tbl := table.New(env, root, "t")
	a, err := tbl.Create(t.Context(), pictures, table.CreateOptions{WriteOptions: table.WriteOptions{RowsPerFile: 10}})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Write(t.Context(), pictureRows(t, 0, 25)); err != nil {
		t.Fatal(err)
	}
	a.Abort()
	if left := objects(t, root); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	if _, err := a.Commit(t.Context()); fault.KindOf(err) != fault.Internal {
		t.Errorf("commit after abort: %v", err)
	}
	found, err := tbl.Exists(t.Context())
	if err != nil || found {
		t.Errorf("the table exists: %v, %v", found, err)
	}
}

func TestAppendOfNothingMakesNoVersion(t *testing.T) {
	t.Parallel()
	env, root := environment(t, t.TempDir())
	tbl := table.New(env, root, "t")
	a, err := tbl.Create(t.Context(), pictures, table.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if s, err := a.Commit(t.Context()); err != nil || s.Version() != 1 {
		t.Fatalf("created without rows: %v, %v", s, err)
	}
	if a, err = tbl.Append(t.Context(), "", pictures, table.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if s, err := a.Commit(t.Context()); err != nil || s.Version() != 1 {
		t.Fatalf("appended nothing: %v, %v", s, err)
	}
}

// objects lists everything below a folder.
func objects(t *testing.T, at objstore.Location) []string {
	t.Helper()
	var out []string
	for e, err := range at.List(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Dir {
			for _, name := range objects(t, at.Join(e.Name)) {
				out = append(out, e.Name+"/"+strings.TrimPrefix(name, "/"))
			}
			continue
		}
		out = append(out, e.Name)
	}
	return out
}
