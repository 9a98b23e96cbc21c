package materialize

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/flightblob/flightblob/blob"
)

// TestHiddenElements puts descriptors that lead nowhere below a null struct and
// a null list. Nobody may follow them, and the rows around keep their values.
func TestHiddenElements(t *testing.T) {
	t.Parallel()
	for _, nullable := range []bool{true, false} {
		leaf := descriptorField("b")
		leaf.Nullable = nullable
		for name, c := range map[string]struct {
			dt   arrow.DataType
			want string
		}{
			"struct":     {arrow.StructOf(leaf), `[{"f":{"b":"YQ=="}},{"f":null},{"f":{"b":"Yg=="}}]`},
			"list":       {arrow.ListOfField(leaf), `[{"f":["YQ=="]},{"f":null},{"f":["Yg=="]}]`},
			"large list": {arrow.LargeListOfField(leaf), `[{"f":["YQ=="]},{"f":null},{"f":["Yg=="]}]`},
		} {
			t.Run("IN-11 MAT-1 below a null "+name, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				w.store.objects["data/f.lance"] = []byte(letters)
				src := w.source([]arrow.Field{{Name: "f", Type: c.dt, Nullable: true}})
				src.batches = append(src.batches, w.hiding(src.schema))
				src.owners = append(src.owners, []*blob.Owner{w.owner})
				got, err := w.run(src, Options{})
				if err != nil || joined(got) != c.want {
					t.Errorf("got %s, %v", got, err)
				}
				if log := w.store.log(); log != "data/f.lance [0, 2)" && log != "data/f.lance [0, 1) data/f.lance [1, 2)" {
					t.Errorf("read %s", log)
				}
			})
		}
	}
}

// hiding is a batch of three slots with one descriptor below each, the middle
// one null.
func (w *world) hiding(s *arrow.Schema) arrow.RecordBatch {
	b := array.NewStructBuilder(w.mem, children(s.Field(0).Type)[0].Type.(*arrow.StructType))
	defer b.Release()
	var m model
	m.append(b, blob.Descriptor{Kind: blob.Inline, Size: 1})
	m.append(b, blob.Descriptor{Kind: blob.ManagedBase, Size: 1, ID: 99, URI: "no/such/base"})
	m.append(b, blob.Descriptor{Kind: blob.Inline, Position: 1, Size: 1})
	values := b.NewArray()
	defer values.Release()
	buffers := []*memory.Buffer{memory.NewBufferBytes([]byte{0b101})}
	switch s.Field(0).Type.ID() {
	case arrow.LIST:
		buffers = append(buffers, memory.NewBufferBytes(arrow.Int32Traits.CastToBytes([]int32{0, 1, 2, 3})))
	case arrow.LARGE_LIST:
		buffers = append(buffers, memory.NewBufferBytes(arrow.Int64Traits.CastToBytes([]int64{0, 1, 2, 3})))
	}
	data := array.NewData(s.Field(0).Type, 3, buffers, []arrow.ArrayData{values.Data()}, 1, 0)
	defer data.Release()
	arr := array.MakeFromData(data)
	defer arr.Release()
	return array.NewRecordBatch(s, []arrow.Array{arr}, 3)
}
