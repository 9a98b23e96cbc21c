package nest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"
)

// TestAssemble takes slices of nested arrays apart and puts them together
// again: the same values, from offset 0.
func TestAssemble(t *testing.T) {
	t.Parallel()
	item := arrow.Field{Name: "item", Type: arrow.PrimitiveTypes.Int32, Nullable: true}
	types := map[string]arrow.DataType{
		"list": arrow.ListOfField(item), "large": arrow.LargeListOfField(item), "fixed": arrow.FixedSizeListOfField(2, item),
	}
	rows := `[[1,null],null,[3,4],[null,6],[7,8],null,[9,10],[11,12],[13,14],null]`
	for name, dt := range types {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mem := memory.NewCheckedAllocator(memory.DefaultAllocator)
			defer mem.AssertSize(t, 0)
			whole, _, err := array.FromJSON(memory.DefaultAllocator, dt, strings.NewReader(rows))
			if err != nil {
				t.Fatal(err)
			}
			for from := range whole.Len() + 1 {
				for to := from; to <= whole.Len(); to++ {
					a := array.NewSlice(whole, int64(from), int64(to))
					var got arrow.Array
					switch a := a.(type) {
					case *array.FixedSizeList:
						got = Assemble(dt, a.Len(), []*memory.Buffer{Validity(mem, a)}, []arrow.Array{Elements(a)}, a.NullN())
					case array.ListLike:
						items, first := Items(a)
						offsets := Offsets32
						if name == "large" {
							offsets = Offsets64
						}
						got = Assemble(dt, a.Len(), []*memory.Buffer{Validity(mem, a), offsets(mem, a, first)}, []arrow.Array{items}, a.NullN())
					}
					if diff := cmp.Diff(fmt.Sprint(a), fmt.Sprint(got)); diff != "" || got.Data().Offset() != 0 {
						t.Errorf("%d to %d: %s", from, to, diff)
					}
					got.Release()
				}
			}
		})
	}
}

func TestHolder(t *testing.T) {
	t.Parallel()
	a, _, err := array.FromJSON(memory.DefaultAllocator, arrow.ListOf(arrow.PrimitiveTypes.Int8), strings.NewReader(`[[9],[],[1,2],null,[],[3],[]]`))
	if err != nil {
		t.Fatal(err)
	}
	list := array.NewSlice(a, 1, 7).(*array.List)
	for item, want := range map[int64]int{1: 1, 2: 1, 3: 4} {
		if got := Holder(list, item); got != want {
			t.Errorf("item %d lies in list %d, not %d", item, got, want)
		}
	}
}
