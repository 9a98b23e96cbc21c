package manifest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/internal/lancepb"
)

// TestEachFlag sets each bit alone in both words, the reader word, the writer
// word, and compares with what the reference does on opening (section 3).
func TestEachFlag(t *testing.T) {
	t.Parallel()
	const opens, refuses, corrupt = "opens", "refuses", "corrupt"
	want := func(bit int) (both, reader, writer string) {
		switch bit {
		case 0, 2, 3, 4, 5, 7, 11:
			return opens, opens, opens
		case 1: // the manifest here has no row ids
			return corrupt, corrupt, opens
		case 8, 10, 14:
			return opens, corrupt, corrupt
		case 15:
			return corrupt, corrupt, corrupt
		case 16:
			return refuses, corrupt, corrupt
		}
		return refuses, refuses, opens
	}
	for bit := range 64 {
		both, reader, writer := want(bit)
		for words, want := range map[[2]bool]string{{true, true}: both, {true, false}: reader, {false, true}: writer} {
			pb := plain()
			if words[0] {
				pb.ReaderFeatureFlags = 1 << bit
			}
			if words[1] {
				pb.WriterFeatureFlags = 1 << bit
			}
			m, err := Decode(file(t, pb))
			if err != nil {
				t.Fatal(err)
			}
			got := opens
			if err := m.CheckReadable(); err != nil {
				switch fault.KindOf(err) {
				case fault.Unsupported:
					got = refuses
				case fault.Corrupt:
					got = corrupt
				default:
					t.Errorf("bit %d: %v", bit, err)
				}
			}
			if got != want {
				t.Errorf("bit %d, reader %v, writer %v: %s, want %s", bit, words[0], words[1], got, want)
			}
		}
	}
}

func TestFlagRules(t *testing.T) {
	t.Parallel()
	check := func(t *testing.T, change func(pb *lancepb.Manifest), kind fault.Kind, want ...string) {
		t.Helper()
		pb := plain()
		change(pb)
		m, err := Decode(file(t, pb))
		if err != nil {
			t.Fatal(err)
		}
		err = m.CheckReadable()
		if len(want) == 0 {
			if err != nil {
				t.Error(err)
			}
			return
		}
		for _, w := range want {
			if fault.KindOf(err) != kind || !strings.Contains(fmt.Sprint(err), w) {
				t.Errorf("got %v, want %v with %q", err, kind, w)
			}
		}
	}
	t.Run("REJ-1 unknown reader flags", func(t *testing.T) {
		check(t, func(pb *lancepb.Manifest) { pb.ReaderFeatureFlags = 1 << 20 }, fault.Unsupported, "1048576")
	})
	t.Run("REJ-1 one of the two managed bits", func(t *testing.T) {
		check(t, func(pb *lancepb.Manifest) { pb.ReaderFeatureFlags = 16384 }, fault.Corrupt, "managed")
	})
	t.Run("ERR-18 unknown flags print the whole word", func(t *testing.T) {
		check(t, func(pb *lancepb.Manifest) { pb.ReaderFeatureFlags = 1<<20 | 1 }, fault.Unsupported, "reader flags 1048577", "1048576 are unknown", "version 3")
	})
	t.Run("ERR-17 half-set managed bits are named", func(t *testing.T) {
		check(t, func(pb *lancepb.Manifest) { pb.WriterFeatureFlags = 16384 }, fault.Corrupt, "only one of the two managed-blob flags", "writer flags 16384")
	})
	t.Run("CAP-4 half-set managed bits are corrupt either way", func(t *testing.T) {
		check(t, func(pb *lancepb.Manifest) { pb.ReaderFeatureFlags = 16384 | 1 }, fault.Corrupt, "one word only")
		check(t, func(pb *lancepb.Manifest) { pb.WriterFeatureFlags = 16384 | 1 }, fault.Corrupt, "one word only")
		check(t, func(pb *lancepb.Manifest) { pb.ReaderFeatureFlags, pb.WriterFeatureFlags = 16384, 16384 }, 0)
	})
	t.Run("CAP-9 unknown writer flags still read", func(t *testing.T) {
		check(t, func(pb *lancepb.Manifest) { pb.WriterFeatureFlags = 1<<40 | 1<<17 | 1<<6 }, 0)
	})
	t.Run("CAP-10 neighbouring bits", func(t *testing.T) {
		check(t, func(pb *lancepb.Manifest) {
			pb.ReaderFeatureFlags, pb.WriterFeatureFlags = 1|16|256|2048, 1|8|16|256|2048
		}, 0)
	})
	t.Run("stable row ids in every fragment", func(t *testing.T) {
		ids := func(pb *lancepb.Manifest) {
			pb.ReaderFeatureFlags = 2
			pb.Fragments[0].RowIdSequence = &lancepb.DataFragment_InlineRowIds{InlineRowIds: []byte{}}
		}
		check(t, ids, 0)
		check(t, func(pb *lancepb.Manifest) {
			ids(pb)
			pb.Fragments = append(pb.Fragments, &lancepb.DataFragment{Id: 4})
		}, fault.Corrupt, "fragment 4 has none")
		check(t, func(pb *lancepb.Manifest) {
			pb.ReaderFeatureFlags = 2
			pb.Fragments[0].RowIdSequence = &lancepb.DataFragment_RowIdsColumn{RowIdsColumn: &lancepb.DataFragment_HiddenColumn{}}
		}, 0)
	})
	t.Run("field ids kept needs the greatest id", func(t *testing.T) {
		id := int32(7)
		check(t, func(pb *lancepb.Manifest) { pb.WriterFeatureFlags = 32768 }, fault.Corrupt, "no greatest field id")
		check(t, func(pb *lancepb.Manifest) { pb.WriterFeatureFlags, pb.MaxAllocatedFieldId = 32768, &id }, 0)
	})
	t.Run("fragment tree and overlays without their flags", func(t *testing.T) {
		check(t, func(pb *lancepb.Manifest) { pb.FragmentTree = []byte{8, 1} }, fault.Unsupported, "fragment tree")
		check(t, func(pb *lancepb.Manifest) { pb.Fragments[0].Overlays = [][]byte{{}} }, fault.Unsupported, "overlay")
	})
}
