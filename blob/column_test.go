package blob

import (
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"

	"github.com/flightblob/flightblob/schema"
)

// nullable is DescriptorType with nullable children.
func nullable() *arrow.StructType {
	fields := make([]arrow.Field, 0, 5)
	for _, f := range schema.DescriptorType.Fields() {
		f.Nullable = true
		fields = append(fields, f)
	}
	return arrow.StructOf(fields...)
}

func fromJSON(t *testing.T, dt arrow.DataType, text string) arrow.Array {
	t.Helper()
	mem := memory.NewCheckedAllocator(memory.DefaultAllocator)
	arr, _, err := array.FromJSON(mem, dt, strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		arr.Release()
		mem.AssertSize(t, 0)
	})
	return arr
}

func TestAsColumn(t *testing.T) {
	t.Parallel()
	t.Run("DESC-1 five children", func(t *testing.T) {
		t.Parallel()
		arr := fromJSON(t, schema.DescriptorType, `[
			{"kind":3,"position":18446744073709551615,"size":7,"blob_id":4294967295,"blob_uri":"a/b"},
			null,
			{"kind":1,"position":5,"size":6,"blob_id":7,"blob_uri":""}]`)
		c, err := AsColumn(arr)
		if err != nil {
			t.Fatal(err)
		}
		if c.Len() != 3 {
			t.Errorf("Len() = %d", c.Len())
		}
		check(t, c, 0, Descriptor{External, 1<<64 - 1, 7, 1<<32 - 1, "a/b"}, false)
		check(t, c, 1, Descriptor{}, true)
		check(t, c, 2, Descriptor{Packed, 5, 6, 7, ""}, false)
	})
	t.Run("DESC-4 nullable children", func(t *testing.T) {
		t.Parallel()
		arr := fromJSON(t, nullable(), `[{"kind":0,"position":1,"size":2,"blob_id":0,"blob_uri":""}]`)
		c, err := AsColumn(arr)
		if err != nil {
			t.Fatal(err)
		}
		check(t, c, 0, Descriptor{Inline, 1, 2, 0, ""}, false)
	})
	t.Run("a slice counts from its offset", func(t *testing.T) {
		t.Parallel()
		arr := fromJSON(t, schema.DescriptorType, `[
			{"kind":0,"position":1,"size":2,"blob_id":0,"blob_uri":"x"}, null,
			{"kind":1,"position":3,"size":4,"blob_id":5,"blob_uri":"yz"}]`)
		s := array.NewSlice(arr, 1, 3)
		defer s.Release()
		c, err := AsColumn(s)
		if err != nil {
			t.Fatal(err)
		}
		check(t, c, 0, Descriptor{}, true)
		check(t, c, 1, Descriptor{Packed, 3, 4, 5, "yz"}, false)
	})
	five := schema.DescriptorType.Fields()
	with := func(i int, f arrow.Field) arrow.DataType {
		fields := append([]arrow.Field(nil), five...)
		fields[i] = f
		return arrow.StructOf(fields...)
	}
	for name, dt := range map[string]arrow.DataType{
		"no struct":     arrow.BinaryTypes.LargeBinary,
		"four children": arrow.StructOf(five[:4]...),
		"six children":  arrow.StructOf(append(append([]arrow.Field(nil), five...), arrow.Field{Name: "x", Type: arrow.PrimitiveTypes.Uint8})...),
		"other name":    with(3, arrow.Field{Name: "id", Type: arrow.PrimitiveTypes.Uint32}),
		"other type":    with(1, arrow.Field{Name: "position", Type: arrow.PrimitiveTypes.Int64}),
		"other text":    with(4, arrow.Field{Name: "blob_uri", Type: arrow.BinaryTypes.LargeString}),
		"other order":   arrow.StructOf(five[0], five[2], five[1], five[3], five[4]),
	} {
		t.Run("REJ-8 "+name, func(t *testing.T) {
			t.Parallel()
			arr := array.MakeArrayOfNull(memory.DefaultAllocator, dt, 1)
			defer arr.Release()
			if _, err := AsColumn(arr); err == nil || !strings.Contains(err.Error(), "kind uint8, position uint64") {
				t.Errorf("error %v does not show the layout", err)
			}
		})
	}
}

func check(t *testing.T, c Column, i int, want Descriptor, wantNull bool) {
	t.Helper()
	got, null, err := c.At(i)
	if err != nil {
		t.Fatalf("At(%d): %v", i, err)
	}
	if null != wantNull {
		t.Errorf("At(%d): null %t, want %t", i, null, wantNull)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("At(%d) (-want +got):\n%s", i, diff)
	}
}

func TestColumnNulls(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, row string
		null      bool
		missing   string
	}{
		{"NUL-2 outer struct is null", `null`, true, ""},
		{"NUL-2 kind is null", `{"position":1,"size":2,"blob_id":3,"blob_uri":"x"}`, true, ""},
		{"NUL-3 all zero is a value", `{"kind":0,"position":0,"size":0,"blob_id":0,"blob_uri":""}`, false, ""},
		{"NUL-4 REJ-9 inline without position", `{"kind":0,"size":2}`, false, "position"},
		{"NUL-4 REJ-9 inline without size", `{"kind":0,"position":2}`, false, "size"},
		{"NUL-4 inline needs no more", `{"kind":0,"position":1,"size":2}`, false, ""},
		{"NUL-4 REJ-9 packed without position", `{"kind":1,"size":2,"blob_id":1}`, false, "position"},
		{"NUL-4 REJ-9 packed without id", `{"kind":1,"position":1,"size":2}`, false, "blob_id"},
		{"NUL-4 packed needs no uri", `{"kind":1,"position":1,"size":2,"blob_id":1}`, false, ""},
		{"NUL-4 dedicated needs no position", `{"kind":2,"size":2,"blob_id":1}`, false, ""},
		{"NUL-4 REJ-9 dedicated without size", `{"kind":2,"blob_id":1}`, false, "size"},
		{"NUL-4 REJ-9 dedicated without id", `{"kind":2,"size":1}`, false, "blob_id"},
		{"NUL-4 REJ-9 external without uri", `{"kind":3,"position":0,"size":1,"blob_id":1}`, false, "blob_uri"},
		{"NUL-4 REJ-9 external without id", `{"kind":3,"position":0,"size":1,"blob_uri":"x"}`, false, "blob_id"},
		{"NUL-4 managed needs no id", `{"kind":4,"position":0,"size":1,"blob_uri":"x"}`, false, ""},
		{"NUL-4 REJ-9 managed without uri", `{"kind":4,"position":0,"size":1}`, false, "blob_uri"},
		{"NUL-4 REJ-9 managed base without id", `{"kind":5,"position":0,"size":1,"blob_uri":"x"}`, false, "blob_id"},
		{"DESC-6 unknown kinds are shown", `{"kind":77}`, false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			col, err := AsColumn(fromJSON(t, nullable(), "["+c.row+"]"))
			if err != nil {
				t.Fatal(err)
			}
			_, null, err := col.At(0)
			switch {
			case c.missing == "" && err != nil:
				t.Errorf("unexpected error %v", err)
			case c.missing != "" && (err == nil || !strings.Contains(err.Error(), "needs "+c.missing+",")):
				t.Errorf("error %v does not name %s", err, c.missing)
			case null != c.null:
				t.Errorf("null = %t", null)
			}
		})
	}
}
