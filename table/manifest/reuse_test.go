package manifest

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/table/rowset"
)

// movedDetails are the details that testdata/moved.manifest holds.
func movedDetails(tb testing.TB) []byte {
	tb.Helper()
	m, err := Decode(read(tb, "testdata/moved.manifest"))
	if err != nil {
		tb.Fatal(err)
	}
	for _, x := range m.Indexes {
		if x.Name == FragmentReuse {
			if x.Type != "FragmentReuse" || !x.System() || x.Searchable() {
				tb.Fatalf("read %+v", x)
			}
			return x.Details
		}
	}
	tb.Fatalf("no %s among %d indexes", FragmentReuse, len(m.Indexes))
	return nil
}

func TestReuse(t *testing.T) {
	t.Parallel()
	details := movedDetails(t)
	got, err := DecodeReuse(details)
	if err != nil {
		t.Fatal(err)
	}
	if got.File != nil || len(got.Moves) != 2 {
		t.Fatalf("read %+v", got)
	}
	first := got.Moves[0]
	rows := uint64(0)
	for _, r := range first.Rows {
		rows += r.Len()
	}
	if diff := cmp.Diff([]MovedFragment{{0, 40}, {1, 40}, {2, 20}}, first.Old); diff != "" || len(first.New) != 1 || first.New[0].PhysicalRows != 90 || rows != 90 {
		t.Errorf("the first compaction moved %d rows: %+v", rows, first)
	}
	if diff := cmp.Diff([]rowset.Range{{Start: 0, End: 3}, {Start: 4, End: 13}}, first.Rows[:2]); diff != "" {
		t.Error(diff)
	}
	if second := got.Moves[1]; second.Old[0].ID != first.New[0].ID {
		t.Errorf("the second compaction moved %+v", second)
	}
	for n := range details {
		if _, err := DecodeReuse(details[:n]); err != nil && fault.KindOf(err) != fault.Corrupt {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	for what, c := range map[string]struct {
		details []byte
		kind    fault.Kind
	}{
		"a field of a newer writer": {[]byte{0x1A, 0}, fault.Unsupported},
		"transitions":               {[]byte{0x0A, 2, 0x12, 0}, fault.Unsupported},
		"a group without rows":      {[]byte{0x0A, 4, 0x0A, 2, 0x1A, 0}, fault.Corrupt},
		"a path that leads up":      {append([]byte{0x12, 6, 0x0A, 4}, "../a"...), fault.Corrupt},
		"no message":                {[]byte{0xFF}, fault.Corrupt},
	} {
		if _, err := DecodeReuse(c.details); fault.KindOf(err) != c.kind {
			t.Errorf("%s: %v", what, err)
		}
	}
	file, err := DecodeReuse(append([]byte{0x12, 9, 0x0A, 3}, 'a', '/', 'b', 0x10, 5, 0x18, 7))
	if err != nil || *file.File != (ReuseFile{Path: "a/b", Offset: 5, Size: 7}) {
		t.Errorf("a file: %+v, %v", file, err)
	}
}

func FuzzDecodeReuse(f *testing.F) {
	f.Add(movedDetails(f))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := DecodeReuse(data)
		if err != nil {
			if k := fault.KindOf(err); k != fault.Corrupt && k != fault.Unsupported {
				t.Fatal(err)
			}
			return
		}
		for _, m := range r.Moves {
			last := uint64(0)
			for i, x := range m.Rows {
				if x.Start >= x.End && x.End != 0 || i > 0 && x.Start <= last {
					t.Fatalf("ranges %v", m.Rows)
				}
				last = x.End
			}
		}
	})
}
