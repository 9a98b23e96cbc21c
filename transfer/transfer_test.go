package transfer_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/table"
	"github.com/flightblob/flightblob/table/tabletest"
	"github.com/flightblob/flightblob/transfer"
)

func environment(t *testing.T) *table.Env {
	t.Helper()
	registry := objstore.NewRegistry(objstore.Options{})
	t.Cleanup(func() { _ = registry.Close() })
	return table.NewEnv(registry, objstore.NewAccess("*"), table.Limits{})
}

func locate(t *testing.T, env *table.Env, path string) objstore.Location {
	t.Helper()
	loc, err := env.Locate(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

func jsonRecord(t *testing.T, s *arrow.Schema, text string) arrow.RecordBatch {
	t.Helper()
	rec, _, err := array.RecordFromJSON(memory.DefaultAllocator, s, bytes.NewReader([]byte(text)))
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

func reader(t *testing.T, recs ...arrow.RecordBatch) array.RecordReader {
	t.Helper()
	r, err := array.NewRecordReader(recs[0].Schema(), recs)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Types that Parquet lacks change as documented, everything else comes back.
func TestParquetKeepsRows(t *testing.T) {
	t.Parallel()
	env := environment(t)
	meta := arrow.MetadataFrom(map[string]string{"k": "v"})
	s := arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64},
		{Name: "data", Type: arrow.BinaryTypes.LargeBinary, Nullable: true, Metadata: meta},
		{Name: "pages", Nullable: true, Type: arrow.LargeListOf(arrow.StructOf(
			arrow.Field{Name: "no", Type: arrow.PrimitiveTypes.Int32, Nullable: true},
			arrow.Field{Name: "scan", Type: arrow.BinaryTypes.LargeBinary, Nullable: true},
		))},
		{Name: "took", Type: arrow.FixedWidthTypes.Duration_ms, Nullable: true},
	}, &meta)
	rec := jsonRecord(t, s, `[
		{"id": 1, "data": "AAEC", "pages": [{"no": 1, "scan": "AQ=="}, {"no": null, "scan": null}], "took": 5},
		{"id": 2, "data": "", "pages": [], "took": null},
		{"id": 3, "data": null, "pages": null, "took": -7}]`)
	file := filepath.Join(t.TempDir(), "t.parquet")
	out, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	n, err := transfer.WriteParquet(t.Context(), reader(t, rec, rec), out, nil)
	if err != nil || n != 6 {
		t.Fatalf("%d rows, %v", n, err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	in, err := transfer.OpenParquet(t.Context(), locate(t, env, file), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Release()
	if in.Rows() != 6 {
		t.Errorf("%d rows", in.Rows())
	}
	var got int64
	for in.Next() {
		b := in.RecordBatch()
		if !array.Equal(b.Column(1), concatenated(t, rec.Column(1), rec.Column(1))) {
			t.Errorf("data %v", b.Column(1))
		}
		if took := b.Column(3).(*array.Int64); took.Value(0) != 5 || !took.IsNull(1) || took.Value(2) != -7 {
			t.Errorf("took %v", took)
		}
		if text := b.Column(2).String(); text != concatenated(t, rec.Column(2), rec.Column(2)).String() {
			t.Errorf("pages %s", text)
		}
		got += b.NumRows()
	}
	if in.Err() != nil || got != 6 {
		t.Errorf("%d rows, %v", got, in.Err())
	}
	if f, _ := in.Schema().FieldsByName("data"); f[0].Type.ID() != arrow.LARGE_BINARY || !f[0].Metadata.Equal(meta) {
		t.Errorf("field %v", f)
	}
}

func concatenated(t *testing.T, arrs ...arrow.Array) arrow.Array {
	t.Helper()
	out, err := array.Concatenate(arrs, memory.DefaultAllocator)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestParquetDecimalsOfNegativeScale(t *testing.T) {
	t.Parallel()
	dt := &arrow.Decimal128Type{Precision: 5, Scale: -3}
	b := array.NewDecimal128Builder(memory.DefaultAllocator, dt)
	b.Append(decimal128.FromI64(12))
	b.AppendNull()
	arr := b.NewArray()
	s := arrow.NewSchema([]arrow.Field{{Name: "d", Type: dt, Nullable: true}}, nil)
	file := filepath.Join(t.TempDir(), "t.parquet")
	out, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := transfer.WriteParquet(t.Context(), reader(t, array.NewRecordBatch(s, []arrow.Array{arr}, 2)), out, nil); err != nil {
		t.Fatal(err)
	}
	_ = out.Close()
	in, err := transfer.OpenParquet(t.Context(), locate(t, environment(t), file), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Release()
	if !in.Next() || in.RecordBatch().Column(0).ValueStr(0) != "12000" || !in.RecordBatch().Column(0).IsNull(1) {
		t.Errorf("batch %v, %v", in.RecordBatch(), in.Err())
	}
}

func TestParquetRefusals(t *testing.T) {
	t.Parallel()
	s := arrow.NewSchema([]arrow.Field{{Name: "nothing", Type: arrow.StructOf(), Nullable: true}}, nil)
	empty := array.NewRecordBatch(s, []arrow.Array{array.NewStructBuilder(memory.DefaultAllocator, arrow.StructOf()).NewArray()}, 0)
	if _, err := transfer.WriteParquet(t.Context(), reader(t, empty), &bytes.Buffer{}, nil); fault.KindOf(err) != fault.Unsupported {
		t.Errorf("a struct without fields: %v", err)
	}
	junk := filepath.Join(t.TempDir(), "junk.parquet")
	if err := os.WriteFile(junk, []byte("PAR1 this is none PAR1"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := transfer.OpenParquet(t.Context(), locate(t, environment(t), junk), nil); fault.KindOf(err) != fault.Corrupt {
		t.Errorf("junk: %v", err)
	}
}

func TestFolderRows(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"a.png": "\x89PNG\r\n\x1a\nrest", "sub/deep/b.csv": "1,2\n", "sub/c": "", ".hidden": "x", ".git/config": "y", "é #.txt": "text",
	} {
		full := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(full), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	rows, skipped := transfer.ReadFolder(t.Context(), locate(t, environment(t), dir))
	defer rows.Release()
	if !rows.Next() {
		t.Fatal(rows.Err())
	}
	b := rows.RecordBatch()
	want := [][3]string{
		{"a.png", "12", "image/png"}, {"sub/c", "0", "text/plain"}, {"sub/deep/b.csv", "4", "text/csv"}, {"é #.txt", "4", "text/plain"},
	}
	if int(b.NumRows()) != len(want) {
		t.Fatalf("rows %v", b)
	}
	for i, w := range want {
		if got := [3]string{b.Column(0).ValueStr(i), b.Column(1).ValueStr(i), b.Column(3).ValueStr(i)}; got != w {
			t.Errorf("row %d: %v, want %v", i, got, w)
		}
	}
	uri := b.Column(4).(*array.Struct).Field(1).ValueStr(3)
	if want := "file://" + objstore.EscapePath(dir) + "/%C3%A9%20%23.txt"; uri != want {
		t.Errorf("uri %s, want %s", uri, want)
	}
	if rows.Next() || rows.Err() != nil || skipped() != 2 {
		t.Errorf("more rows, or %v; %d skipped", rows.Err(), skipped())
	}
}

func TestFolderOfValues(t *testing.T) {
	t.Parallel()
	env := environment(t)
	fixture := filepath.Join(tabletest.Fixtures(t), "nested_v22", "table.lance")
	tbl, err := table.Open(t.Context(), env, locate(t, env, fixture))
	if err != nil {
		t.Fatal(err)
	}
	s, err := tbl.At(t.Context(), table.Ref{})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	n, err := transfer.WriteFolder(t.Context(), s, locate(t, env, dir), transfer.FolderOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var files int64
	_ = filepath.WalkDir(dir, func(_ string, d os.DirEntry, _ error) error {
		if !d.IsDir() {
			files++
		}
		return nil
	})
	if files != n || n == 0 {
		t.Errorf("%d files, %d answered", files, n)
	}
}
