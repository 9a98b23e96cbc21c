package manifest

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/flightblob/flightblob/internal/lancepb"
	"github.com/flightblob/flightblob/schema"
)

func TestIndexes(t *testing.T) {
	t.Parallel()
	m, err := Decode(read(t, "testdata/indexed.manifest"))
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Indexes) != 1 {
		t.Fatalf("%d indexes", len(m.Indexes))
	}
	x := m.Indexes[0]
	if x.Name != "k_idx" || x.Type != "BTree" || len(x.Fields) != 1 || x.Fields[0] != 0 || x.DatasetVersion != 3 || x.System() ||
		x.Version != 1 || x.BaseID != nil || len(x.UUID) != 36 || x.CreatedAt.Before(time.Unix(1700000000, 0)) {
		t.Errorf("read %+v", x)
	}
	if f := x.Fragments; f == nil || f.Count() != 1 || !f.Contains(0) || f.Contains(1) {
		t.Errorf("fragments %+v", f)
	}
	if len(x.Files) != 2 || x.Files[0].Path != "page_data.lance" || x.Files[0].Size == 0 || x.Files[1].Path != "page_lookup.lance" {
		t.Errorf("files %+v", x.Files)
	}
}

// TestIndexesLeftOut has entries that cannot be understood beside one that can.
func TestIndexesLeftOut(t *testing.T) {
	t.Parallel()
	good := &lancepb.IndexMetadata{
		Uuid: append([]byte{0x0A, 16}, "0123456789abcdef"...), Name: "good", Fields: []int32{0},
		IndexDetails: &lancepb.AnyValue{TypeUrl: "type.googleapis.com/lance.index.pb.ZoneMapIndexDetails"},
	}
	spoil := func(f func(x *lancepb.IndexMetadata)) []byte {
		x := proto.Clone(good).(*lancepb.IndexMetadata)
		f(x)
		b, err := proto.Marshal(x)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	bad := map[string][]byte{
		"no uuid":            spoil(func(x *lancepb.IndexMetadata) { x.Uuid = nil }),
		"short uuid":         spoil(func(x *lancepb.IndexMetadata) { x.Uuid = []byte{0x0A, 2, 1, 2} }),
		"uuid cut short":     spoil(func(x *lancepb.IndexMetadata) { x.Uuid = []byte{0x0A, 16, 1, 2} }),
		"bitmap":             spoil(func(x *lancepb.IndexMetadata) { x.FragmentBitmap = []byte("no bitmap") }),
		"path that leads up": spoil(func(x *lancepb.IndexMetadata) { x.Files = []*lancepb.IndexMetadata_File{{Path: "../a.lance"}} }),
		"wire type":          {0x10, 0, 0x18, 1, 0x1A, 0, 0x0D, 1, 2, 3, 4},
		"no message":         {0xFF},
	}
	for name, entry := range bad {
		t.Run(name, func(t *testing.T) {
			var body []byte
			for _, e := range [][]byte{entry, spoil(func(*lancepb.IndexMetadata) {})} {
				body = append(append(body, 0x0A, byte(len(e))), e...)
			}
			pb := plain()
			pb.IndexSection = proto.Uint64(0)
			m, err := Decode(file(t, pb, body))
			if err != nil {
				t.Fatal(err)
			}
			if m.IndexCount != 2 || len(m.Indexes) != 1 {
				t.Fatalf("%d of %d indexes", len(m.Indexes), m.IndexCount)
			}
			x := m.Indexes[0]
			if x.UUID != "30313233-3435-3637-3839-616263646566" || x.Type != "ZoneMap" || x.Fragments != nil || x.Fields[0] != schema.FieldID(0) {
				t.Errorf("read %+v", x)
			}
		})
	}
}
