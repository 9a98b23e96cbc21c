package query

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/materialize"
	"github.com/flightblob/flightblob/query/reference"
)

// references builds references as the engine's results hold them.
func references(t *testing.T, values ...reference.Value) arrow.Array {
	t.Helper()
	fields := reference.Type.Fields()
	fields[4].Type = arrow.BinaryTypes.LargeString
	b := array.NewStructBuilder(memory.DefaultAllocator, arrow.StructOf(fields...))
	defer b.Release()
	for _, v := range values {
		b.Append(true)
		b.FieldBuilder(0).(*array.Uint8Builder).Append(uint8(v.Kind))
		b.FieldBuilder(1).(*array.Uint64Builder).Append(v.Position)
		b.FieldBuilder(2).(*array.Uint64Builder).Append(v.Size)
		b.FieldBuilder(3).(*array.Uint32Builder).Append(v.ID)
		b.FieldBuilder(4).(*array.LargeStringBuilder).Append(v.URI)
		b.FieldBuilder(5).(*array.Uint32Builder).Append(v.Source)
		b.FieldBuilder(6).(*array.Uint64Builder).Append(v.Tag)
	}
	return b.NewArray()
}

// TestForgedReferences checks that only references that a scan made leave the
// engine: neither a changed one, nor one of a statement that is over.
func TestForgedReferences(t *testing.T) {
	registry := reference.NewRegistry()
	source := registry.Add(&reference.Origin{})
	good := reference.Value{Source: source}
	good.Size, good.URI = 7, "file:///a"
	good.Tag = registry.Tag(&good, nil)
	to := arrow.Field{Name: "b", Type: materialize.ReferenceType, Nullable: true, Metadata: blobMetadata}
	leave := func(v reference.Value, visible []bool) error {
		a := references(t, v)
		defer a.Release()
		c := conformer{registry: registry}
		data, err := c.conform(a.Data(), to, visible)
		if err == nil {
			data.Release()
		}
		return err
	}
	if err := leave(good, nil); err != nil {
		t.Errorf("a good reference: %v", err)
	}
	for name, change := range map[string]func(*reference.Value){
		"kind":     func(v *reference.Value) { v.Kind = 3 },
		"position": func(v *reference.Value) { v.Position++ },
		"size":     func(v *reference.Value) { v.Size++ },
		"id":       func(v *reference.Value) { v.ID++ },
		"uri":      func(v *reference.Value) { v.URI = "file:///etc/passwd" },
		"source":   func(v *reference.Value) { v.Source++ },
		"tag":      func(v *reference.Value) { v.Tag++ },
	} {
		bad := good
		change(&bad)
		if err := leave(bad, nil); fault.KindOf(err) != fault.Denied {
			t.Errorf("another %s: %v", name, err)
		}
		if err := leave(bad, []bool{false}); err != nil {
			t.Errorf("another %s below a null parent, where nobody sees it: %v", name, err)
		}
	}
	registry.Remove(source)
	if err := leave(good, nil); fault.KindOf(err) != fault.Denied {
		t.Errorf("after its statement: %v", err)
	}
	if err := leave(reference.Value{Tag: reference.NewRegistry().Tag(&reference.Value{}, nil)}, nil); fault.KindOf(err) != fault.Denied {
		t.Errorf("of another process: %v", err)
	}
}
