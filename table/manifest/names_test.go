package manifest

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/internal/lancepb"
)

func TestNames(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		version uint64
		scheme  Scheme
	}{
		{"18446744073709551614.manifest", 1, V2},
		{"18446744073709551615.manifest", 0, V2},
		{"09223372036854775808.manifest", math.MaxInt64, V2},
		{"1.manifest", 1, V1},
		{"12345.manifest", 12345, V1},
		{"d9223372036854775808.manifest", 1 << 63, Detached},
		{"d18446744073709551615.manifest", math.MaxUint64, Detached},
	} {
		version, scheme, ok := ParseName(tt.name)
		if !ok || scheme != tt.scheme || Name(version, scheme) != tt.name || version != tt.version {
			t.Errorf("ParseName(%s) = %d, %d, %v", tt.name, version, scheme, ok)
		}
	}
	if version, _, _ := ParseName("18446744073709551609.manifest"); version != 6 {
		t.Errorf("version %d", version)
	}
	for _, name := range []string{
		"", ".manifest", "manifest", "x.manifest", "1.manifest-1234", ".tmp1.manifest", "-1.manifest", "+1.manifest", "01.manifest",
		"1.2.manifest", "18446744073709551616.manifest", "00000000000000000001.manifest", "9223372036854775808.manifest",
		"d5.manifest", "d.manifest", "dd9223372036854775808.manifest", HintName, "1.manifest.tmp",
	} {
		if version, scheme, ok := ParseName(name); ok {
			t.Errorf("ParseName(%q) = %d, %d", name, version, scheme)
		}
	}
	if got := Path(1, V1); got != "_versions/1.manifest" {
		t.Error(got)
	}
	if got := Name(1<<63|5, V2); got != "d9223372036854775813.manifest" {
		t.Error(got)
	}
}

func TestTransactionPath(t *testing.T) {
	t.Parallel()
	m := &Manifest{TransactionID: "3-0ab.txn"}
	if path, ok := m.TransactionPath(); !ok || path != "_transactions/3-0ab.txn" {
		t.Errorf("%s, %v", path, ok)
	}
	for _, id := range []string{"", "..", "a/b", `a\b`} {
		m.TransactionID = id
		if path, ok := m.TransactionPath(); ok {
			t.Errorf("%q gives %s", id, path)
		}
	}
}

func TestPlaces(t *testing.T) {
	t.Parallel()
	pb := plain()
	pb.BasePaths = []*lancepb.BasePath{{Id: 0, Path: "/root", IsDatasetRoot: true}, {Id: 5, Path: "s3://b/plain"}}
	m, err := Decode(file(t, pb))
	if err != nil {
		t.Fatal(err)
	}
	id := func(n uint32) *uint32 { return &n }
	d := func(base *uint32) *DataFile { return &DataFile{Path: "f.lance", BaseID: base} }
	t.Run("RES-2 no base, a dataset root, another base", func(t *testing.T) {
		for _, tt := range []struct {
			base *uint32
			want Place
		}{
			{nil, Place{nil, "data/f.lance"}},
			{id(0), Place{&Base{IsDatasetRoot: true, Path: "/root"}, "data/f.lance"}},
			{id(5), Place{&Base{ID: 5, Path: "s3://b/plain"}, "f.lance"}},
		} {
			got, err := m.FilePlace(d(tt.base))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got, cmpopts.IgnoreUnexported(Base{})); diff != "" {
				t.Error(diff)
			}
		}
	})
	t.Run("RES-8 bases are found by id, not by position", func(t *testing.T) {
		if _, err := m.FilePlace(d(id(1))); fault.KindOf(err) != fault.Corrupt || !strings.Contains(fmt.Sprint(err), "base 1") {
			t.Errorf("base 1 gives %v", err)
		}
		if b, err := m.BaseOf(5); err != nil || b.Path != "s3://b/plain" {
			t.Errorf("base 5 is %v, %v", b, err)
		}
	})
	t.Run("DIFF-2 base 0 is a base", func(t *testing.T) {
		if b, err := m.BaseOf(0); err != nil || b.Path != "/root" {
			t.Errorf("base 0 is %v, %v", b, err)
		}
	})
	t.Run("deletion files", func(t *testing.T) {
		f := &Fragment{ID: 3}
		if _, ok, err := m.DeletionPlace(f); ok || err != nil {
			t.Errorf("no deletion file gives %v, %v", ok, err)
		}
		f.Deletion = &DeletionFile{ReadVersion: 7, ID: math.MaxUint64}
		if p, ok, err := m.DeletionPlace(f); !ok || err != nil || p.Path != "_deletions/3-7-18446744073709551615.arrow" || p.Base != nil {
			t.Errorf("%v, %v, %v", p, ok, err)
		}
		f.Deletion.Bitmap, f.Deletion.BaseID = true, id(0)
		if p, ok, err := m.DeletionPlace(f); !ok || err != nil || p.Path != "_deletions/3-7-18446744073709551615.bin" || p.Base.Path != "/root" {
			t.Errorf("%v, %v, %v", p, ok, err)
		}
		for _, base := range []uint32{5, 6} {
			f.Deletion.BaseID = id(base)
			if _, ok, err := m.DeletionPlace(f); ok || fault.KindOf(err) != fault.Corrupt {
				t.Errorf("base %d gives %v, %v", base, ok, err)
			}
		}
	})
}

func TestRefNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"v1", "a.b", "A-b_c.1", "größe", "版本", "main"} {
		if err := CheckTagName(name); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"", ".a", "a.", "a..b", "a.lock", "a/b", "a b", "../x", "a%2Fb", "a\x00", "a\xff"} {
		if err := CheckTagName(name); fault.KindOf(err) != fault.Invalid {
			t.Errorf("tag %q gives %v", name, err)
		}
		if _, err := TagPath(name); err == nil {
			t.Errorf("tag %q has a path", name)
		}
	}
	for _, name := range []string{"dev", "a/b", "feature/x.1/y", "ünï/code"} {
		path, err := BranchPath(name)
		if err != nil {
			t.Error(err)
		}
		got, ok := ParseBranchFile(strings.TrimPrefix(path, BranchesDir+"/"))
		if !ok || got != name || strings.Count(path, "/") != 2 {
			t.Errorf("branch %q has the file %s", name, path)
		}
	}
	for _, name := range []string{"", "main", "/a", "a/", "a//b", "a/..", "../a", ".", "a/./b", "a.lock", "a.lock/b", `a\b`, "a%2Fb"} {
		if err := CheckBranchName(name); fault.KindOf(err) != fault.Invalid {
			t.Errorf("branch %q gives %v", name, err)
		}
		if _, err := BranchRoot(name); err == nil {
			t.Errorf("branch %q has a folder", name)
		}
		if _, err := BranchPath(name); err == nil {
			t.Errorf("branch %q has a file", name)
		}
	}
	if path, _ := BranchPath("a/b"); path != "_refs/branches/a%2Fb.json" {
		t.Error(path)
	}
	if root, _ := BranchRoot("a/b"); root != "tree/a/b" {
		t.Error(root)
	}
	if name, ok := ParseTagFile("x.json"); !ok || name != "x" {
		t.Error(name)
	}
	for _, file := range []string{"x", ".json", "a b.json", ".tmp.json.1"} {
		if name, ok := ParseTagFile(file); ok {
			t.Errorf("%s is tag %s", file, name)
		}
	}
}

func TestDecodeRefs(t *testing.T) {
	t.Parallel()
	tag, err := DecodeTag([]byte(`{"branch":"a/b","version":18446744073709551615,"manifestSize":9,"metadata":{"k":"v","n":1}}`))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&Tag{Branch: "a/b", Version: math.MaxUint64, ManifestSize: 9, Metadata: map[string]string{"k": "v", "n": "1"}}, tag); diff != "" {
		t.Error(diff)
	}
	if tag, err = DecodeTag([]byte(`{"branch":"main","version":2,"createdAt":"2026-01-02T03:04:05.123456789+01:00"}`)); err != nil || tag.Branch != "" || !tag.CreatedAt.Equal(time.Date(2026, 1, 2, 2, 4, 5, 123456789, time.UTC)) {
		t.Errorf("%+v, %v", tag, err)
	}
	branch, err := DecodeBranch([]byte(`{"parentBranch":"x","identifier":{"version_mapping":[[1,"ab"],[7,"cd"]]},"parentVersion":7,"createAt":1796017313,"manifestSize":5,"metadata":{}}`))
	if err != nil {
		t.Fatal(err)
	}
	want := &Branch{Parent: "x", ParentVersion: 7, Identifier: []BranchPoint{{1, "ab"}, {7, "cd"}}, CreatedAt: time.Unix(1796017313, 0).UTC(), ManifestSize: 5, Metadata: map[string]string{}}
	if diff := cmp.Diff(want, branch); diff != "" {
		t.Error(diff)
	}
	if branch, err = DecodeBranch([]byte(`{"parentVersion":1}`)); err != nil || branch.Identifier != nil {
		t.Errorf("an old branch file gives %+v, %v", branch, err)
	}
	for _, text := range []string{"", "{}", `{"version":-1}`, `{"version":"1"}`, `{"version":1,"branch":"../x"}`, `[]`, `{"version":1,"createdAt":"yesterday"}`} {
		if _, err := DecodeTag([]byte(text)); fault.KindOf(err) != fault.Corrupt || err == nil {
			t.Errorf("tag %s gives %v", text, err)
		}
	}
	for _, text := range []string{"", "{}", `{"parentVersion":1,"parentBranch":"/"}`, `{"parentVersion":1,"identifier":{"version_mapping":[["x","y"]]}}`, `{"parentVersion":1,"identifier":{"version_mapping":[[1,2]]}}`} {
		if _, err := DecodeBranch([]byte(text)); fault.KindOf(err) != fault.Corrupt || err == nil {
			t.Errorf("branch %s gives %v", text, err)
		}
	}
}

// TestEncodeRefs writes reference files of the fixtures anew, byte by byte.
func TestEncodeRefs(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"tags_and_branches/table.lance/_refs/tags/first.json", "tags_and_branches/table.lance/_refs/branches/dev.json"} {
		data, err := os.ReadFile(filepath.Join("..", "..", "conformance", "fixtures", "tables", file))
		if err != nil {
			t.Fatal(err)
		}
		var ref interface{ Encode() ([]byte, error) }
		if strings.Contains(file, "tags/") {
			ref, err = DecodeTag(data)
		} else {
			ref, err = DecodeBranch(data)
		}
		if err != nil {
			t.Fatal(err)
		}
		again, err := ref.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(data), string(again)); diff != "" {
			t.Errorf("%s (-pylance +ours)\n%s", file, diff)
		}
	}
	full := &Branch{Parent: "a/ü", ParentVersion: 7, Identifier: []BranchPoint{{1, "ab"}, {7, "cd"}}, CreatedAt: time.Unix(1796017313, 0).UTC(), ManifestSize: 5, Metadata: map[string]string{"k": "<v>"}}
	data, err := full.Encode()
	if err != nil {
		t.Fatal(err)
	}
	again, err := DecodeBranch(data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(full, again); diff != "" {
		t.Error(diff)
	}
}

func TestHint(t *testing.T) {
	t.Parallel()
	if v, ok := DecodeHint([]byte(`{"version":7}`)); !ok || v != 7 {
		t.Errorf("%d, %v", v, ok)
	}
	for _, text := range []string{"", "{}", "7", `{"version":-1}`, `{"version":9223372036854775808}`} {
		if v, ok := DecodeHint([]byte(text)); ok {
			t.Errorf("%s gives %d", text, v)
		}
	}
}
