package materialize

import (
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/flightblob/flightblob/blob"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/schema"
)

// mixture is a Mixed source over a source of reference columns.
type mixture struct {
	*source
	origins map[uint32]*blob.Owner
	blobs   *blob.Resolver
}

func (m *mixture) Owners() []*blob.Owner { panic("a mixed source has no owners") }

func (m *mixture) Origin(n uint32) (*blob.Resolver, *blob.Owner, error) {
	o, ok := m.origins[n]
	if !ok {
		return nil, nil, fault.New(fault.Denied, "no source %d", n)
	}
	return m.blobs, o, nil
}

func TestMixedSources(t *testing.T) {
	w := newWorld(t)
	w.store.objects = map[string][]byte{"data/f.lance": []byte(letters), "other.lance": []byte(strings.ToUpper(letters)), "o": []byte("0123")}
	other := &blob.Owner{File: w.store.at("other.lance"), Key: "other", Dir: w.store.at("")}
	leaf := arrow.Field{Name: "img", Type: ReferenceType, Nullable: true, Metadata: arrow.NewMetadata([]string{schema.KeyBlob}, []string{"true"})}
	fields := []arrow.Field{leaf, {Name: "l", Type: arrow.ListOfField(leaf), Nullable: true}}
	sch := arrow.NewSchema(fields, nil)
	ref := func(kind, position, size int, uri string, source int) string {
		return fmt.Sprintf(`{"kind":%d,"position":%d,"size":%d,"blob_id":0,"blob_uri":%q,"source":%d}`, kind, position, size, uri, source)
	}
	text := `[{"img":` + ref(0, 0, 2, "", 1) + `,"l":[` + ref(0, 1, 1, "", 2) + `,null,` + ref(0, 2, 1, "", 1) + `]},` +
		`{"img":null,"l":null},` +
		`{"img":` + ref(0, 3, 2, "", 2) + `,"l":[` + ref(3, 0, 0, "ext:///o", 2) + `]}]`
	rec, _, err := array.RecordFromJSON(w.mem, sch, strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	// A slice, so that sources and descriptors must keep together.
	fresh := func() *mixture {
		s := &source{schema: sch, batches: []arrow.RecordBatch{rec.NewSlice(0, 1), rec.NewSlice(1, 3)}}
		return &mixture{source: s, origins: map[uint32]*blob.Owner{1: w.owner, 2: other}, blobs: w.blobs}
	}
	run := func(src *mixture, view schema.View) (string, error) {
		r, err := NewReader(t.Context(), src, nil, w.options(Options{View: view}))
		src.Release()
		if err != nil {
			return "", err
		}
		lines, err := drain(t, r)
		return strings.Join(lines, " "), err
	}
	got, err := run(fresh(), schema.Materialized)
	want := `[{"img":` + b64("ab") + `,"l":[` + b64("B") + `,null,` + b64("c") + `]}]` + ` [{"img":null,"l":null},{"img":` + b64("DE") + `,"l":[` + b64("0123") + `]}]`
	if err != nil || strings.ReplaceAll(got, "\n", "") != want {
		t.Errorf("got %s, %v\nwant %s", got, err, want)
	}
	if got, err = run(fresh(), schema.Logical); err != nil || !strings.Contains(got, `"uri":"ext:///o"`) {
		t.Errorf("logical: %s, %v", got, err)
	}
	broken := fresh()
	delete(broken.origins, 2)
	if _, err = run(broken, schema.Materialized); fault.KindOf(err) != fault.Denied || !strings.Contains(err.Error(), "row 0") {
		t.Errorf("an unknown source: %v", err)
	}
	rec.Release()
}
