package materialize

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/google/go-cmp/cmp"

	"github.com/flightblob/flightblob/schema"
)

func TestLogicalFace(t *testing.T) {
	t.Parallel()
	data := func(s string) string {
		return fmt.Sprintf(`{"data":%s,"uri":null,"position":null,"size":null}`, b64(s))
	}
	ref := func(uri, position, size string) string {
		return fmt.Sprintf(`{"data":null,"uri":%q,"position":%s,"size":%s}`, uri, position, size)
	}
	for _, c := range []struct{ name, desc, want string }{
		{"null stays null", "null", "null"},
		{"owned values are bytes", inline(1, 3), data("bcd")},
		{"empty values are bytes", inline(1, 0), data("")},
		{"external whole object has a null range", desc(3, 0, 0, 0, "ext:///gone"), ref("ext:///gone", "null", "null")},
		{"external range is kept", desc(3, 5, 6, 0, "ext:///gone%20x"), ref("ext:///gone%20x", "5", "6")},
		{"external below a base becomes absolute", desc(3, 5, 6, 7, "é#/x"), ref("file:///base%20seven/%C3%A9%23/x", "5", "6")},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.store.objects["data/f.lance"] = []byte(letters)
			got, err := w.run(w.img(rows(c.desc)), Options{View: schema.Logical})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(normal(t, rows(c.want)), normal(t, joined(got))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if strings.Contains(c.want, "ext") && (w.store.log() != "" || len(w.store.sizes) > 0) {
				t.Error("a reference was read")
			}
		})
	}
	t.Run("NUL-9 a start without length cannot be said", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		_, err := w.run(w.img(rows("null", desc(3, 4, 0, 0, "ext:///o"))), Options{View: schema.Logical, FirstRow: 5})
		var failed *ValueError
		if !errors.As(err, &failed) || failed.Row != 6 || failed.Field != "img" || !strings.Contains(err.Error(), "starts at 4") {
			t.Errorf("error %v", err)
		}
	})
	t.Run("REJ-3 a broken reference fails", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		if _, err := w.run(w.img(rows(desc(3, 0, 0, 99, "x"))), Options{View: schema.Logical}); err == nil || !strings.Contains(err.Error(), "base 99") {
			t.Errorf("error %v", err)
		}
	})
	t.Run("MAT-1 nested", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.store.objects["data/f.lance"] = []byte(letters)
		e := desc(3, 0, 9, 0, "ext:///o")
		in := `[{"s":{"b":` + e + `,"n":"x"},"l":[null,` + inline(0, 2) + `],"pages":[{"scan":` + e + `}],"ll":[[],null]},{"s":null,"l":null}]`
		got, err := w.run(w.source(nestedFields(), in), Options{View: schema.Logical})
		if err != nil {
			t.Fatal(err)
		}
		x := ref("ext:///o", "0", "9")
		want := `[{"s":{"b":` + x + `,"n":"x"},"l":[null,` + data("ab") + `],"pages":[{"n":null,"scan":` + x + `}],"ll":[[],null]},{"s":null,"l":null,"pages":null,"ll":null}]`
		if diff := cmp.Diff(normal(t, want), normal(t, joined(got))); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestSchemas(t *testing.T) {
	t.Parallel()
	field := descriptorField("img")
	field.Metadata = arrow.NewMetadata([]string{"own", schema.KeyBlob, schema.KeyPacked}, []string{"kept", "true", "true"})
	src := arrow.NewSchema([]arrow.Field{{Name: "s", Type: arrow.StructOf(field)}}, nil)
	t.Run("MAT-2 a derived schema keeps other metadata", func(t *testing.T) {
		t.Parallel()
		tr, err := newTree(src, nil, schema.Materialized, false)
		if err != nil {
			t.Fatal(err)
		}
		f := tr.schema.Field(0).Type.(*arrow.StructType).Field(0)
		if f.Type.ID() != arrow.LARGE_BINARY || !f.Nullable || fmt.Sprint(f.Metadata) != `["own": "kept"]` {
			t.Errorf("%v", f)
		}
		tr, err = newTree(src, nil, schema.Logical, false)
		if err != nil {
			t.Fatal(err)
		}
		f = tr.schema.Field(0).Type.(*arrow.StructType).Field(0)
		if v, _ := f.Metadata.GetValue(schema.KeyExtensionName); v != schema.ExtensionBlobV2 || !sameShape(f.Type, LogicalType) {
			t.Errorf("%v", f)
		}
	})
	t.Run("MAT-1 MAT-2 the given schema is the result's", func(t *testing.T) {
		t.Parallel()
		m := arrow.NewMetadata([]string{"table"}, []string{"meta"})
		inner := arrow.Field{Name: "img", Type: arrow.BinaryTypes.LargeBinary, Metadata: arrow.NewMetadata([]string{"k"}, []string{"v"})}
		out := arrow.NewSchema([]arrow.Field{{Name: "s", Type: arrow.StructOf(inner), Nullable: true}}, &m)
		w := newWorld(t)
		w.store.objects["data/f.lance"] = []byte(letters)
		s := w.source([]arrow.Field{{Name: "s", Type: arrow.StructOf(field), Nullable: true}}, `[{"s":{"img":`+inline(0, 1)+`}},{"s":null}]`)
		r := w.start(t.Context(), s, Options{Schema: out})
		defer r.Release()
		if !r.Schema().Equal(out) || !r.Next() {
			t.Fatalf("%v, %v", r.Schema(), r.Err())
		}
		if rec := r.RecordBatch(); !rec.Schema().Equal(out) || !arrow.TypeEqual(rec.Column(0).DataType(), out.Field(0).Type, arrow.CheckMetadata()) {
			t.Errorf("%v of %v", rec.Schema(), rec.Column(0).DataType())
		}
	})
	for name, out := range map[string]*arrow.Schema{
		"too few columns": arrow.NewSchema(nil, nil),
		"no struct":       arrow.NewSchema([]arrow.Field{{Name: "s", Type: arrow.BinaryTypes.LargeBinary}}, nil),
		"another leaf":    arrow.NewSchema([]arrow.Field{{Name: "s", Type: arrow.StructOf(arrow.Field{Name: "img", Type: arrow.BinaryTypes.Binary})}}, nil),
	} {
		t.Run("a schema that does not match: "+name, func(t *testing.T) {
			t.Parallel()
			if _, err := newTree(src, out, schema.Materialized, false); err == nil {
				t.Error("accepted")
			}
		})
	}
	t.Run("SCH-7 blobs below other containers", func(t *testing.T) {
		t.Parallel()
		bad := arrow.NewSchema([]arrow.Field{{Name: "f", Type: arrow.FixedSizeListOfField(2, descriptorField("item"))}}, nil)
		if _, err := newTree(bad, nil, schema.Materialized, false); err == nil || !strings.Contains(err.Error(), "f") {
			t.Errorf("error %v", err)
		}
	})
	t.Run("the descriptor view needs no reader", func(t *testing.T) {
		t.Parallel()
		if _, err := newTree(src, nil, schema.Descriptor, false); err == nil {
			t.Error("accepted")
		}
	})
}
