package table

import (
	"fmt"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/table/manifest"
)

func TestAttachedNames(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		version uint64
		scheme  manifest.Scheme
	}{
		{"18446744073709551614.manifest", 1, manifest.V2},
		{"18446744073709551604.manifest", 11, manifest.V2},
		{"09223372036854775808.manifest", 1<<63 - 1, manifest.V2},
		{"09223372036854775807.manifest", 0, 0}, // would be a detached number
		{"18446744073709551615.manifest", 0, 0}, // version 0
		{"1.manifest", 1, manifest.V1},
		{"120.manifest", 120, manifest.V1},
		{"0.manifest", 0, 0},
		{"99999999999999999999.manifest", 0, 0}, // beyond 64 bits
		{"d9844352371591360445.manifest", 0, 0},
		{"latest_version_hint.json", 0, 0},
		{".tmp1.manifest", 0, 0},
		{"1.manifest-0b9d", 0, 0},
		{"+1.manifest", 0, 0},
		{"1_0.manifest", 0, 0},
		{".manifest", 0, 0},
		{"manifest", 0, 0},
	} {
		version, scheme, ok := attached(c.name)
		if ok != (c.scheme != 0) || ok && (version != c.version || scheme != c.scheme) {
			t.Errorf("%s: version %d, scheme %d, %t", c.name, version, scheme, ok)
		}
	}
}

func v2Name(version uint64) string {
	return fmt.Sprintf("_versions/%020d.manifest", uint64(math.MaxUint64)-version)
}

func TestListVersions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		files []string
		want  []uint64
		kind  fault.Kind
	}{
		{"nothing", nil, nil, 0},
		{"second scheme", []string{v2Name(1), v2Name(2), v2Name(30)}, []uint64{30, 2, 1}, 0},
		{"first scheme", []string{"_versions/1.manifest", "_versions/9.manifest", "_versions/10.manifest"}, []uint64{10, 9, 1}, 0},
		{"strangers", []string{v2Name(4), "_versions/.tmp_x.manifest", "_versions/d9844352371591360445.manifest", "_versions/latest_version_hint.json", v2Name(5) + "-1234", "_versions/1.manifest/x"}, []uint64{4}, 0},
		{"both schemes", []string{v2Name(4), "_versions/5.manifest"}, nil, fault.Corrupt},
		{"padded", []string{"_versions/5.manifest", "_versions/05.manifest"}, []uint64{5}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			store := objstore.NewMem("m")
			for _, f := range c.files {
				store.Set("t/"+f, []byte("x"))
			}
			for _, newestOnly := range []bool{false, true} {
				all, err := listVersions(t.Context(), objstore.Location{Store: store, Path: "t"}, newestOnly)
				if c.kind != 0 {
					if fault.KindOf(err) != c.kind || err == nil {
						t.Errorf("got %v, want a %s error", err, c.kind)
					}
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				var got []uint64
				for _, p := range all {
					got = append(got, p.version)
				}
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
		})
	}
}

// TestNewestOfMany looks at the first page of a long listing only.
func TestNewestOfMany(t *testing.T) {
	t.Parallel()
	store := objstore.NewMem("m")
	const n = 5000
	for v := uint64(1); v <= n; v++ {
		store.Set("t/"+v2Name(v), nil)
	}
	root := objstore.Location{Store: store, Path: "t"}
	all, err := listVersions(t.Context(), root, true)
	if err != nil || all[0].version != n || len(all) > firstPage {
		t.Errorf("newest %d of %d listed, %v", all[0].version, len(all), err)
	}
	if all, err = listVersions(t.Context(), root, false); err != nil || len(all) != n {
		t.Errorf("%d versions, %v", len(all), err)
	}
}

func TestSizer(t *testing.T) {
	t.Parallel()
	s := newSizer(ScanRequest{}.withDefaults())
	if rows, bytes := s.next(); rows != firstBatchRows || bytes != DefaultBatchBytes || s.known() {
		t.Errorf("at first %d rows of %d bytes", rows, bytes)
	}
	s.observe(firstBatchRows, firstBatchRows*100)
	for _, want := range []int{8192, DefaultBatchBytes / 100, DefaultBatchBytes / 100} {
		rows, bytes := s.next()
		if rows != want || bytes > DefaultBatchBytes || bytes < int64(rows)*100 && bytes != DefaultBatchBytes {
			t.Errorf("%d rows of %d bytes, want %d rows", rows, bytes, want)
		}
	}
	s.observe(10, 10<<20) // rows of a megabyte
	if rows, _ := s.next(); rows != 4 {
		t.Errorf("%d rows of a megabyte each", rows)
	}
	s.observe(4, 400<<20)
	if rows, bytes := s.next(); rows != 1 || bytes > DefaultBatchBytes {
		t.Errorf("%d rows of 100 megabytes each, %d bytes", rows, bytes)
	}
	for range 40 {
		s.observe(1, 8)
	}
	rows := 0
	for range 10 {
		rows, _ = s.next()
	}
	if rows != MaxBatchRows {
		t.Errorf("%d rows of 8 bytes", rows)
	}
}
