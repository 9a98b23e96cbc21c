package materialize

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/google/go-cmp/cmp"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/schema"
)

// inline is a descriptor of kind 0 as JSON.
func inline(position, size int) string { return desc(0, position, size, 0, "") }

func desc(kind, position, size int, id uint32, uri string) string {
	return fmt.Sprintf(`{"kind":%d,"position":%d,"size":%d,"blob_id":%d,"blob_uri":%q}`, kind, position, size, id, uri)
}

// rows are JSON rows of a single column img.
func rows(values ...string) string {
	for i, v := range values {
		values[i] = `{"img":` + v + `}`
	}
	return "[" + strings.Join(values, ",") + "]"
}

func b64(s string) string { return `"` + base64.StdEncoding.EncodeToString([]byte(s)) + `"` }

const letters = "abcdefghijklmnopqrstuvwxyz"

func TestReadsEachKind(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, desc, want, reads string
		sizes                   int
	}{
		{"RES-3 inline", inline(2, 3), "cde", "data/f.lance [2, 5)", 0},
		{"RES-4 packed", desc(1, 4, 2, 1, ""), "EF", sidecar(1) + " [4, 6)", 0},
		{"RES-4 DIFF-9 dedicated", desc(2, 9, 3, 1, ""), "ABC", sidecar(1) + " [0, 3)", 0},
		{"RES-7 external", desc(3, 1, 2, 0, "ext:///o"), "12", "o [1, 3)", 0},
		{"RES-8 external below a base", desc(3, 1, 2, 7, "x"), "yz", "base seven/x [1, 3)", 0},
		{"RES-12 managed", desc(4, 1, 2, 0, "_blobs/u"), "vw", "root/_blobs/u [1, 3)", 0},
		{"RES-12 managed base", desc(5, 0, 2, 7, "x"), "xy", "base seven/x [0, 2)", 0},
		{"NUL-9 external whole object", desc(3, 0, 0, 0, "ext:///o"), "0123", "o [0, 4)", 1},
		{"NUL-10 empty external object", desc(3, 5, 0, 0, "ext:///empty"), "", "", 1},
		{"NUL-6 empty inline", inline(1<<40, 0), "", "", 0},
		{"NUL-7 empty packed", desc(1, 9, 0, 0, ""), "", "", 0},
		{"NUL-7 empty dedicated", desc(2, 0, 0, 0, ""), "", "", 0},
		{"NUL-8 empty managed", desc(4, 7, 0, 0, "gone"), "", "", 0},
		{"MAT-3 NUL-3 all zero is empty, not null", inline(0, 0), "", "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.store.objects = map[string][]byte{
				"data/f.lance":  []byte(letters),
				sidecar(1):      []byte(strings.ToUpper(letters)),
				"o":             []byte("0123"),
				"empty":         {},
				"base seven/x":  []byte("xyz"),
				"root/_blobs/u": []byte("uvw"),
			}
			got, err := w.run(w.img(rows(c.desc)), Options{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{rows(b64(c.want))}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if log := w.store.log(); log != c.reads {
				t.Errorf("read %s, want %s", log, c.reads)
			}
			if len(w.store.sizes) != c.sizes {
				t.Errorf("asked for the lengths of %q", w.store.sizes)
			}
		})
	}
}

func TestEmptiesTakeNoResult(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		values []string // letters; "" empty, "-" null
	}{
		{"first", []string{"", "ab", "c"}},
		{"last", []string{"ab", "c", ""}},
		{"adjacent", []string{"a", "", "", "b", "-", "", "c"}},
		{"all empty", []string{"", "", ""}},
		{"all null", []string{"-", "-"}},
		{"null and empty", []string{"-", "", "-", ""}},
	} {
		t.Run("MAT-3 NUL-3 "+c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.store.objects["data/f.lance"] = []byte(letters)
			var in, want []string
			for _, v := range c.values {
				if v == "-" {
					in, want = append(in, "null"), append(want, "null")
					continue
				}
				in, want = append(in, inline(max(strings.Index(letters, v), 0), len(v))), append(want, b64(v))
			}
			got, err := w.run(w.img(rows(in...)), Options{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{rows(want...)}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// nestedFields is a blob in every container.
func nestedFields() []arrow.Field {
	plain := arrow.Field{Name: "n", Type: arrow.BinaryTypes.String, Nullable: true}
	in := func(f ...arrow.Field) arrow.DataType { return arrow.StructOf(f...) }
	item := descriptorField("item")
	page := arrow.Field{Name: "item", Type: in(plain, descriptorField("scan")), Nullable: true}
	return []arrow.Field{
		{Name: "s", Type: in(descriptorField("b"), plain), Nullable: true},
		{Name: "l", Type: arrow.ListOfField(item), Nullable: true},
		{Name: "pages", Type: arrow.LargeListOfField(page), Nullable: true},
		{Name: "ll", Type: arrow.ListOfField(arrow.Field{Name: "item", Type: arrow.LargeListOfField(item), Nullable: true}), Nullable: true},
	}
}

func TestNesting(t *testing.T) {
	t.Parallel()
	a, e := inline(0, 1), inline(0, 0)
	in := `[
	 {"s":{"b":` + a + `,"n":"x"},"l":[` + a + `,null,` + e + `],"pages":[{"n":"p","scan":` + a + `},null,{"n":null,"scan":null}],"ll":[[` + a + `],[],null,[null,` + e + `]]},
	 {"s":null,"l":null,"pages":null,"ll":null},
	 {"s":{"b":null,"n":null},"l":[],"pages":[],"ll":[]},
	 {"s":{"b":` + e + `,"n":""},"l":[null],"pages":[{"n":"q","scan":` + e + `}],"ll":[null]}]`
	want := strings.NewReplacer(a, b64("a"), e, b64(""), "\n", "", "\t", "").Replace(in)
	t.Run("MAT-1 NUL-11 null, empty and nested stay apart", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.store.objects["data/f.lance"] = []byte(letters)
		got, err := w.run(w.source(nestedFields(), in), Options{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(normal(t, want), normal(t, strings.Join(got, ""))); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	t.Run("MAT-1 cuts fall between rows only", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.store.objects["data/f.lance"] = []byte(letters)
		got, err := w.run(w.source(nestedFields(), in), Options{BatchBytes: 1})
		if err != nil || len(got) != 4 {
			t.Fatalf("%d batches, %v", len(got), err)
		}
		if diff := cmp.Diff(normal(t, want), normal(t, joined(got))); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// joined makes one JSON array of several.
func joined(lines []string) string {
	return strings.ReplaceAll(strings.Join(lines, ""), "][", ",")
}

func TestNullsOfDescriptors(t *testing.T) {
	t.Parallel()
	loose := descriptorField("img")
	var children []arrow.Field
	for _, f := range schema.DescriptorType.Fields() {
		f.Nullable = true
		children = append(children, f)
	}
	loose.Type = arrow.StructOf(children...)
	t.Run("NUL-2 DESC-4 a null kind is a null value", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		got, err := w.run(w.source([]arrow.Field{loose}, rows(`{"position":1,"size":5}`)), Options{})
		if err != nil || joined(got) != rows("null") {
			t.Errorf("%s, %v", got, err)
		}
	})
	t.Run("NUL-4 REJ-9 a needed child that is null", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		_, err := w.run(w.source([]arrow.Field{loose}, rows("null", `{"kind":1,"position":1,"size":5}`)), Options{FirstRow: 100})
		var failed *ValueError
		if !errors.As(err, &failed) || failed.Field != "img" || failed.Row != 101 || !strings.Contains(err.Error(), "blob_id") {
			t.Errorf("error %v", err)
		}
	})
	t.Run("REJ-8 another struct under the blob mark", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		f := descriptorField("img")
		f.Type = arrow.StructOf(arrow.Field{Name: "kind", Type: arrow.PrimitiveTypes.Uint8})
		src := &source{schema: arrow.NewSchema([]arrow.Field{f}, nil)}
		_, err := NewReader(t.Context(), src, w.blobs, Options{})
		if err == nil || !strings.Contains(err.Error(), "img") || src.refs.Load() != 0 {
			t.Errorf("error %v, %d references", err, src.refs.Load())
		}
	})
}

func TestBrokenValues(t *testing.T) {
	t.Parallel()
	good := inline(0, 1)
	for _, c := range []struct {
		name, desc string
		kind       fault.Kind
		texts      []string
	}{
		{"REJ-6 ERR-15 missing sidecar is data loss", desc(1, 0, 5, 9, ""), fault.Corrupt, []string{sidecar(9), "missing"}},
		{"REJ-6 ERR-15 missing managed object is data loss", desc(4, 0, 5, 0, "_blobs/gone"), fault.Corrupt, []string{"fake:///root/_blobs/gone"}},
		{"REJ-6 ERR-15 missing external object", desc(3, 0, 5, 0, "ext:///gone"), fault.NotFound, []string{"fake:///gone"}},
		{"REJ-6 ERR-15 missing whole external object", desc(3, 0, 0, 0, "ext:///gone"), fault.NotFound, []string{"fake:///gone"}},
		{"RES-14 REJ-6 ERR-16 truncated", inline(20, 7), fault.Corrupt, []string{"fake:///data/f.lance", "7 bytes at 20", "holds 26 bytes"}},
		{"RES-14 ERR-16 truncated external", desc(3, 25, 2, 0, "ext:///data/f.lance"), fault.Corrupt, []string{"2 bytes at 25", "holds 26 bytes"}},
		{"NUL-9 sentinel behind the start", desc(3, 1, 0, 0, "ext:///data/f.lance"), fault.Corrupt, []string{"26 bytes at 1 end", "holds 26 bytes"}},
		{"REJ-2 ERR-11 unknown kind", desc(6, 0, 1, 0, ""), fault.Corrupt, []string{"kind 6"}},
		{"REJ-3 ERR-12 unknown base", desc(5, 0, 1, 8, "x"), fault.Corrupt, []string{"base 8"}},
		{"REJ-4 ERR-13 bad path", desc(4, 0, 1, 0, "../x"), fault.Corrupt, []string{`"../x"`}},
		{"REJ-7 sidecar 0", desc(1, 0, 1, 0, ""), fault.Corrupt, []string{"sidecar 0"}},
		{"REJ-6 beyond what offsets can say", `{"kind":0,"position":9223372036854775807,"size":1,"blob_id":0,"blob_uri":""}`, fault.Corrupt, []string{"9223372036854775807", "holds 26 bytes"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.store.objects["data/f.lance"] = []byte(letters)
			_, err := w.run(w.img(rows(good, "null", c.desc, good)), Options{FirstRow: 40})
			var failed *ValueError
			if !errors.As(err, &failed) || failed.Field != "img" || failed.Row != 42 {
				t.Fatalf("error %v does not name field and row", err)
			}
			if fault.KindOf(err) != c.kind {
				t.Errorf("kind %v of %v", fault.KindOf(err), err)
			}
			for _, text := range c.texts {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("error %q lacks %q", err, text)
				}
			}
		})
	}
	t.Run("RES-15 a broken descriptor fails at its row", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.store.objects["data/f.lance"] = []byte(letters)
		got, err := w.run(w.img(rows(good, good, desc(9, 0, 1, 0, ""), good)), Options{})
		if err == nil || joined(got) != rows(b64("a"), b64("a")) {
			t.Errorf("got %s, %v", got, err)
		}
	})
	t.Run("RES-15 other rows stay readable", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.store.objects["data/f.lance"] = []byte(letters)
		got, err := w.run(w.img(rows(good)), Options{})
		if err != nil || joined(got) != rows(b64("a")) {
			t.Errorf("got %s, %v", got, err)
		}
	})
	t.Run("ERR-15 nested values are named by their path", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		in := `[{"pages":[]},{"pages":[{"scan":` + desc(4, 0, 1, 0, "gone") + `}]}]`
		_, err := w.run(w.source(nestedFields(), in), Options{})
		var failed *ValueError
		if !errors.As(err, &failed) || failed.Field != "pages.item.scan" || failed.Row != 1 {
			t.Errorf("error %v", err)
		}
	})
}

func TestErrorsOfTheSource(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.store.objects["data/f.lance"] = []byte(letters)
	src := w.img(rows(inline(0, 1)))
	src.err = fault.New(fault.Corrupt, "page is damaged")
	got, err := w.run(src, Options{})
	if len(got) != 1 || fault.KindOf(err) != fault.Corrupt || !strings.Contains(err.Error(), "page is damaged") {
		t.Errorf("got %s, %v", got, err)
	}
}

func TestEmptySources(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, src := range map[string]*source{
		"no batches":      w.source([]arrow.Field{descriptorField("img")}),
		"batches of none": w.source([]arrow.Field{descriptorField("img")}, "[]", "[]"),
	} {
		got, err := w.run(src, Options{})
		if len(got) != 0 || err != nil {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
	got, err := w.run(w.source([]arrow.Field{{Name: "n", Type: arrow.PrimitiveTypes.Int64}}, `[{"n":1},{"n":2}]`), Options{})
	if err != nil || joined(got) != `[{"n":1},{"n":2}]` {
		t.Errorf("no blobs at all: %s, %v", got, err)
	}
}
