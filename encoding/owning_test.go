package encoding_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/google/go-cmp/cmp"

	"github.com/flightblob/flightblob/encoding"
)

// mapCache keeps every page index.
type mapCache map[any]any

func (c mapCache) Get(key any) (any, bool)     { v, ok := c[key]; return v, ok }
func (c mapCache) Put(key, value any, _ int64) { c[key] = value }

// TestAnswersOwnTheirBytes: neither what a read answers nor the indexes that it
// leaves in the cache lie in fetched buffers, which are used again after their
// release.
func TestAnswersOwnTheirBytes(t *testing.T) {
	t.Parallel()
	for i, s := range seedPages(t) {
		fetch := func(overwrite bool) encoding.Fetch {
			return func(_ context.Context, extents []encoding.Extent) ([][]byte, func(), error) {
				out := make([][]byte, len(extents))
				for i, e := range extents {
					out[i] = append([]byte(nil), s.file[e.Offset:e.Offset+e.Size]...)
				}
				return out, func() {
					for _, b := range out {
						for k := range b {
							if overwrite {
								b[k] = 0xAA
							}
						}
					}
				}, nil
			}
		}
		name := fmt.Sprintf("page %d, %s at %d.%d of %s", i, s.layout, s.version.Major, s.version.Minor, s.path[0].Name)
		read := func(c *encoding.Column, overwrite bool, rows ...encoding.Range) *encoding.Leaf {
			leaf, err := c.Read(t.Context(), fetch(overwrite), rows)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			return leaf
		}
		column := func() *encoding.Column {
			c, err := encoding.NewColumn(s.version, s.path, []encoding.Page{s.page}, mapCache{})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			return c
		}
		kept, reused := column(), column()
		all := encoding.Range{Start: 0, End: kept.Rows()}
		part := encoding.Range{Start: all.End / 3, End: all.End/3 + 1}
		want, wantPart := read(kept, false, all), read(kept, false, part)
		got, gotPart := read(reused, true, all), read(reused, true, part)
		for _, c := range []struct{ want, got *encoding.Leaf }{{want, got}, {wantPart, gotPart}} {
			if diff := cmp.Diff(c.want.Layers, c.got.Layers); diff != "" {
				t.Errorf("%s: layers (-want +got):\n%s", name, diff)
			}
			if !array.Equal(c.want.Values, c.got.Values) {
				t.Errorf("%s: got %v, want %v", name, c.got.Values, c.want.Values)
			}
		}
	}
}
