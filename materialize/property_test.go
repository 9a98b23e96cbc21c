package materialize

import (
	"encoding/base64"
	"flag"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/google/go-cmp/cmp"

	"github.com/flightblob/flightblob/blob"
	"github.com/flightblob/flightblob/schema"
)

var seed = flag.Uint64("seed", 0, "seed of the random batches; 0 takes the clock")

// model makes random nested batches and what they must become, row by row.
type model struct {
	*rand.Rand
	world *world
	packs [3][]byte
}

// field invents a column type with blobs at some depth.
func (m *model) field(name string, depth int) arrow.Field {
	f := arrow.Field{Name: name, Nullable: true}
	kind := m.IntN(6)
	if depth == 0 {
		kind = m.IntN(2)
	}
	switch kind {
	case 0, 1:
		return descriptorField(name)
	case 2:
		f.Type = arrow.ListOfField(m.field("item", depth-1))
	case 3:
		f.Type = arrow.LargeListOfField(m.field("element", depth-1))
	default:
		f.Type = arrow.StructOf(
			arrow.Field{Name: "n", Type: arrow.PrimitiveTypes.Int32, Nullable: true},
			m.field("b", depth-1),
			arrow.Field{Name: "t", Type: arrow.BinaryTypes.String, Nullable: true},
			m.field("c", depth-1),
		)
	}
	return f
}

// value appends a random value to a builder and gives what it must become.
func (m *model) value(f arrow.Field, b array.Builder) any {
	if isLeaf(f) {
		return m.blob(b.(*array.StructBuilder))
	}
	if m.IntN(5) == 0 {
		m.null(f, b)
		return nil
	}
	switch dt := f.Type.(type) {
	case *arrow.StructType:
		sb := b.(*array.StructBuilder)
		sb.Append(true)
		out := make(map[string]any)
		for i, c := range dt.Fields() {
			out[c.Name] = m.value(c, sb.FieldBuilder(i))
		}
		return out
	case *arrow.ListType:
		lb := b.(*array.ListBuilder)
		lb.Append(true)
		return m.items(dt.ElemField(), lb.ValueBuilder())
	case *arrow.LargeListType:
		lb := b.(*array.LargeListBuilder)
		lb.Append(true)
		return m.items(dt.ElemField(), lb.ValueBuilder())
	case *arrow.Int32Type:
		v := m.Int32()
		b.(*array.Int32Builder).Append(v)
		return float64(v)
	}
	v := strings.Repeat("t", m.IntN(20))
	b.(*array.StringBuilder).Append(v)
	return v
}

func (m *model) items(f arrow.Field, b array.Builder) any {
	out := []any{}
	for range m.IntN(4) {
		out = append(out, m.value(f, b))
	}
	return out
}

// null appends a null, with hidden elements below where a container allows it:
// their descriptors lead nowhere and must not be followed.
func (m *model) null(f arrow.Field, b array.Builder) {
	switch dt := f.Type.(type) {
	case *arrow.StructType:
		sb := b.(*array.StructBuilder)
		sb.AppendNull() // appends nulls below
	case *arrow.ListType:
		lb := b.(*array.ListBuilder)
		lb.Append(false)
		m.hidden(dt.ElemField(), lb.ValueBuilder())
	case *arrow.LargeListType:
		lb := b.(*array.LargeListBuilder)
		lb.Append(false)
		m.hidden(dt.ElemField(), lb.ValueBuilder())
	default:
		b.AppendNull()
	}
}

func (m *model) hidden(f arrow.Field, b array.Builder) {
	if !isLeaf(f) {
		return
	}
	for range m.IntN(3) {
		m.append(b.(*array.StructBuilder), blob.Descriptor{Kind: blob.Managed, Size: 99, URI: "hidden/must/not/be/read"})
	}
}

func (m *model) append(b *array.StructBuilder, d blob.Descriptor) {
	b.Append(true)
	b.FieldBuilder(0).(*array.Uint8Builder).Append(uint8(d.Kind))
	b.FieldBuilder(1).(*array.Uint64Builder).Append(d.Position)
	b.FieldBuilder(2).(*array.Uint64Builder).Append(d.Size)
	b.FieldBuilder(3).(*array.Uint32Builder).Append(d.ID)
	b.FieldBuilder(4).(*array.StringBuilder).Append(d.URI)
}

func (m *model) blob(b *array.StructBuilder) any {
	pack := m.IntN(len(m.packs))
	data := m.packs[pack]
	var d blob.Descriptor
	switch m.IntN(8) {
	case 0:
		b.AppendNull()
		return nil
	case 1:
		d = blob.Descriptor{Kind: blob.Kind(m.IntN(2)), Position: m.Uint64() >> 1}
		data = nil
	case 2:
		d = blob.Descriptor{Kind: blob.Dedicated, Size: uint64(len(data)), ID: uint32(pack + 1)}
	case 3:
		d = blob.Descriptor{Kind: blob.External, URI: fmt.Sprint("ext:///", sidecar(uint32(pack+1)))}
	default:
		from := m.IntN(len(data))
		n := m.IntN(min(len(data)-from, 300) + 1)
		d = blob.Descriptor{Kind: blob.Packed, Position: uint64(from), Size: uint64(n), ID: uint32(pack + 1)}
		data = data[from : from+n]
	}
	m.append(b, d)
	return base64.StdEncoding.EncodeToString(data)
}

// TestAgainstModel compares random nested batches, cut and sliced in random
// places and fetched in random ways, with a row-by-row model.
func TestAgainstModel(t *testing.T) {
	t.Parallel()
	start := *seed
	if start == 0 {
		start = uint64(time.Now().UnixNano())
	}
	for i := range uint64(60) {
		m := &model{Rand: rand.New(rand.NewPCG(start, i)), world: newWorld(t)}
		m.check(t, fmt.Sprintf("-seed=%d, round %d", start, i))
	}
}

func (m *model) check(t *testing.T, name string) {
	t.Helper()
	w := m.world
	if m.IntN(2) == 0 {
		w.lend()
	}
	for i := range m.packs {
		m.packs[i] = large(100 + m.IntN(10<<m.IntN(14)))
		w.store.objects[sidecar(uint32(i+1))] = m.packs[i]
	}
	var fields []arrow.Field
	for i := range 1 + m.IntN(3) {
		fields = append(fields, m.field(fmt.Sprint("f", i), 3))
	}
	src := w.source(fields)
	var want []any
	for range 1 + m.IntN(3) {
		b := array.NewRecordBuilder(w.mem, src.schema)
		n := m.IntN(30)
		var all []any
		for range n {
			row := make(map[string]any)
			for i, f := range fields {
				row[f.Name] = m.value(f, b.Field(i))
			}
			all = append(all, row)
		}
		rec := b.NewRecordBatch()
		b.Release()
		from := m.IntN(n + 1)
		to := from + m.IntN(n-from+1)
		src.batches = append(src.batches, rec.NewSlice(int64(from), int64(to)))
		rec.Release()
		want = append(want, all[from:to]...)
		tr, err := newTree(src.schema, nil, schema.Materialized, false)
		if err != nil {
			t.Fatal(name, err)
		}
		owners := make([]*blob.Owner, len(tr.leaves))
		for i := range owners {
			owners[i] = w.owner
		}
		src.owners = append(src.owners, owners)
	}
	got, err := w.run(src, Options{
		BatchBytes: 1 << m.IntN(22),
		Budget:     NewBudget(1 << (4 + m.IntN(22))),
		Map:        w.maps != nil && m.IntN(2) == 0,
		Parallel:   m.IntN(5),
		Prefetch:   m.IntN(3),
	})
	if err != nil {
		t.Fatal(name, err)
	}
	rows := []any{}
	for _, line := range got {
		rows = append(rows, normal(t, line).([]any)...)
	}
	if want == nil {
		want = []any{}
	}
	if !reflect.DeepEqual(want, rows) {
		t.Fatalf("%s (-want +got):\n%.2000s", name, cmp.Diff(want, rows))
	}
	for _, read := range w.store.reads {
		if strings.Contains(read, "hidden") {
			t.Fatalf("%s: %s", name, read)
		}
	}
	if w.maps != nil && w.maps.lent.Load() != 0 {
		t.Fatalf("%s: %d mappings left", name, w.maps.lent.Load())
	}
}
