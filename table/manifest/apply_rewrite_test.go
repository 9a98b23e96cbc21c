package manifest

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/flightblob/flightblob/internal/lancepb"
	"github.com/flightblob/flightblob/table/rowset"
)

// TestIndexesAfterRewrite compacts fragments 0 and 1 into 5, and 2 and 3 into 6,
// where an index knows 0, 1, 2 and 4. Indexes that name rows by stable ids know
// what became of 0 and 1; those that name addresses know nothing of it, as
// B-trees of version 1 of the reference do even where rows have ids.
func TestIndexesAfterRewrite(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		kind    string
		version int32
		stable  bool
		want    []uint64
	}{
		"bitmap over ids":           {"Bitmap", 0, true, []uint64{4, 5}},
		"bitmap over addresses":     {"Bitmap", 0, false, []uint64{4}},
		"b-tree over ids":           {"BTree", 0, true, []uint64{4, 5}},
		"b-tree of version 1":       {"BTree", 1, true, []uint64{4}},
		"a type that nobody judged": {"Inverted", 0, true, []uint64{4}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			entry, err := proto.Marshal(&lancepb.IndexMetadata{
				Uuid: append([]byte{10, 16}, "0123456789abcdef"...), Name: "x", Fields: []int32{0},
				FragmentBitmap: bitmapOf([]uint32{0, 1, 2, 4}), IndexVersion: &c.version,
				IndexDetails: &lancepb.AnyValue{TypeUrl: "/lance.table." + c.kind + "IndexDetails"},
			})
			if err != nil {
				t.Fatal(err)
			}
			w := create(t, ApplyOptions{StableRowIDs: c.stable})
			w.do(&Append{[]Fragment{rows(1, lance("2", 0, 1)), rows(2, lance("3", 0, 1)), rows(3, lance("4", 0, 1))}}, ApplyOptions{})
			w.do(&CreateIndex{New: [][]byte{entry}}, ApplyOptions{})
			whole := []Fragment{rows(15, lance("5", 0, 1)), rows(3, lance("6", 0, 1))}
			if c.stable {
				for i := range whole {
					ids, err := rowset.IDRange(uint64(15*i), whole[i].PhysicalRows)
					if err != nil {
						t.Fatal(err)
					}
					whole[i].RowIDs = ids.Encode()
				}
			}
			m := w.do(&Rewrite{Groups: []RewriteGroup{
				{Old: w.now.Fragments[:2], New: whole[:1]}, {Old: w.now.Fragments[2:4], New: whole[1:]},
			}}, ApplyOptions{})
			var got []uint64
			for _, id := range m.ids() {
				if m.Indexes[0].Fragments.Contains(uint32(id)) {
					got = append(got, id)
				}
			}
			if !slices.Equal(got, c.want) || !slices.Equal(m.ids(), []uint64{4, 5, 6}) {
				t.Errorf("of %v the index knows %v, want %v", m.ids(), got, c.want)
			}
		})
	}
}
