package engine

import (
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/flightblob/flightblob/query/reference"
)

// TestForgedArguments checks that no function over references looks at one that
// no scan made, nor casts it.
func TestForgedArguments(t *testing.T) {
	db, s := open(t)
	b := array.NewStructBuilder(memory.DefaultAllocator, reference.Type)
	defer b.Release()
	b.Append(true)
	for i := range reference.Type.NumFields() {
		switch f := b.FieldBuilder(i).(type) {
		case *array.Uint8Builder:
			f.Append(3)
		case *array.Uint32Builder:
			f.Append(1)
		case *array.Uint64Builder:
			f.Append(9)
		case *array.StringBuilder:
			f.Append("file:///etc/passwd")
		}
	}
	b.AppendNull()
	a := b.NewArray()
	field := arrow.Field{Name: "b", Type: reference.Type, Nullable: true, Metadata: ReferenceMetadata}
	rec := array.NewRecordBatch(arrow.NewSchema([]arrow.Field{field}, nil), []arrow.Array{a}, 2)
	a.Release()
	s.put("forged", 0, rec)
	c := connect(t, db)
	for _, call := range []string{
		"blob_size(b)", "octet_length(b)", "blob_kind(b)", "blob_uri(b)", "blob_descriptor(b)", "blob_bytes(b)", "blob_range(b, 0, 1)",
		"b::BLOB", "md5(b)", "b::VARCHAR",
	} {
		_, err := tryQuery(t.Context(), c, "select "+call+" from shelf('forged')")
		if err == nil || !strings.Contains(err.Error(), "blob") {
			t.Errorf("%s: %v", call, err)
		}
		if call == "b::VARCHAR" {
			continue
		}
		got, err := tryQuery(t.Context(), c, "select "+call+" from shelf('forged') where b is null")
		if err != nil || len(got) != 1 || got[0] != "(null)" {
			t.Errorf("%s of a null value: %v, %v", call, got, err)
		}
	}
	if got := query(t, c, "select blob_size('abc'::blob), blob_size(null::blob), typeof(b) from shelf('forged') limit 1"); got[0] != "3|(null)|LANCE_BLOB" {
		t.Errorf("got %q", got)
	}
}
