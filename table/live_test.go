package table_test

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/google/go-cmp/cmp"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/table"
	"github.com/flightblob/flightblob/table/tabletest"
)

//go:embed testdata/live.py
var liveScript string

type liveFacts map[string]struct {
	Versions      []uint64             `json:"versions"`
	Times         map[uint64]time.Time `json:"times"`
	Rows          map[string][]int64   `json:"rows"`
	BranchVersion uint64               `json:"branch_version"`
}

var live struct {
	sync.Once
	dir   string
	facts liveFacts
}

// TestMain removes what pylance wrote for the whole package.
func TestMain(m *testing.M) {
	code := m.Run()
	if live.dir != "" {
		_ = os.RemoveAll(live.dir)
	}
	os.Exit(code)
}

// liveTables has pylance write the tables of testdata/live.py, once.
func liveTables(t *testing.T) (string, liveFacts) {
	t.Helper()
	live.Do(func() {
		dir, err := os.MkdirTemp("", "flightblob-live")
		if err != nil {
			t.Fatal(err)
		}
		live.dir = dir
		out := tabletest.Pylance(t, liveScript, dir)
		if err := json.Unmarshal(out, &live.facts); err != nil {
			t.Fatalf("facts: %v\n%s", err, out)
		}
	})
	if live.facts == nil {
		t.Skip("pylance wrote no tables, see the first test that needed them")
	}
	return live.dir, live.facts
}

// expected reads an Arrow file of pylance as one batch.
func expected(t *testing.T, path string) arrow.RecordBatch {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := ipc.NewFileReader(f)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if r.NumRecords() != 1 {
		t.Fatalf("%s holds %d batches", path, r.NumRecords())
	}
	batch, err := r.RecordBatch(0)
	if err != nil {
		t.Fatal(err)
	}
	batch.Retain() // the reader keeps it only until it is closed
	return batch
}

// compare reads a request and compares it with some rows of a batch.
func compare(t *testing.T, s *table.Snapshot, req table.ScanRequest, want arrow.RecordBatch, rows []int) {
	t.Helper()
	for _, f := range want.Schema().Fields() {
		req.Columns = append(req.Columns, f.Name)
	}
	scan, err := s.Scan(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	defer scan.Release()
	for i, f := range scan.Schema().Fields() {
		// IPC of pylance and this reader agree on everything but key order.
		if w := want.Schema().Field(i); !arrow.TypeEqual(f.Type, w.Type) || f.Nullable != w.Nullable || f.Name != w.Name {
			t.Errorf("column %d is %v, want %v", i, f, w)
		}
	}
	n := 0
	for scan.Next() {
		got := scan.RecordBatch()
		if got.NumRows() == 0 {
			t.Error("an empty batch")
		}
		for i := range int(got.NumRows()) {
			if n >= len(rows) {
				t.Fatalf("more than %d rows", len(rows))
			}
			if req.Rows != nil && scan.RowPosition(i) != req.Rows[n] {
				t.Fatalf("row %d says position %d, want %d", n, scan.RowPosition(i), req.Rows[n])
			}
			for c, a := range got.Columns() {
				k := int64(rows[n])
				if !sameValue(a, int64(i), want.Column(c), k) {
					t.Fatalf("row %d, column %s: %s, want %s", n, got.ColumnName(c), a.ValueStr(i), want.Column(c).ValueStr(int(k)))
				}
			}
			n++
		}
	}
	if err := scan.Err(); err != nil {
		t.Fatal(err)
	}
	if n != len(rows) {
		t.Errorf("%d rows, want %d", n, len(rows))
	}
}

// sameValue compares two values; those of dictionaries by what they stand for,
// since each file numbers its words itself.
func sameValue(a arrow.Array, i int64, b arrow.Array, k int64) bool {
	if _, ok := a.(*array.Dictionary); ok {
		return a.IsNull(int(i)) == b.IsNull(int(k)) && a.ValueStr(int(i)) == b.ValueStr(int(k))
	}
	return array.SliceEqual(a, i, i+1, b, k, k+1)
}

func upTo(from, to int) []int {
	rows := make([]int, 0, to-from)
	for i := from; i < to; i++ {
		rows = append(rows, i)
	}
	return rows
}

// TestLive reads tables that pylance has just written: all types in all file
// versions, columns of several pages, columns that no file lists, other
// manifest names, detached versions, hidden lineage columns, mixed versions.
func TestLive(t *testing.T) {
	t.Parallel()
	dir, facts := liveTables(t)
	env := tabletest.Env(t, dir)
	for name, fact := range facts {
		for _, version := range fact.Versions {
			t.Run(fmt.Sprintf("%s@%d", name, version), func(t *testing.T) {
				t.Parallel()
				want := expected(t, filepath.Join(dir, fmt.Sprintf("%s.%d.arrow", name, version)))
				tab := tabletest.Open(t, env, filepath.Join(dir, name+".lance"))
				s := tabletest.At(t, tab, table.Ref{Version: version})
				n := int(want.NumRows())
				if s.Rows() != uint64(n) {
					t.Fatalf("%d rows, want %d", s.Rows(), n)
				}
				compare(t, s, table.ScanRequest{}, want, upTo(0, n))
				few := uint64(90)
				compare(t, s, table.ScanRequest{BatchRows: 7, BatchBytes: 300, Offset: uint64(n / 4), Limit: &few}, want, upTo(n/4, min(n, n/4+int(few))))
				limit := uint64(n / 2)
				compare(t, s, table.ScanRequest{Offset: uint64(n / 3), Limit: &limit}, want, upTo(n/3, min(n, n/3+n/2)))

				random := rand.New(rand.NewPCG(version, 1))
				picks := make([]uint64, 300)
				rows := make([]int, len(picks))
				for i := range picks {
					rows[i] = random.IntN(n)
					if i%10 == 9 { // neighbours and repeats
						rows[i] = rows[i-1]
					}
					picks[i] = uint64(rows[i])
				}
				compare(t, s, table.ScanRequest{Rows: picks}, want, rows)
				compare(t, s, table.ScanRequest{Rows: picks[:40], BatchBytes: 200}, want, rows[:40])
			})
		}
	}
}

func TestLiveSchemas(t *testing.T) {
	t.Parallel()
	dir, facts := liveTables(t)
	env := tabletest.Env(t, dir)
	for name := range facts {
		if !strings.HasPrefix(name, "types") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := expected(t, filepath.Join(dir, fmt.Sprintf("%s.%d.arrow", name, facts[name].Versions[0]))).Schema()
			s := tabletest.At(t, tabletest.Open(t, env, filepath.Join(dir, name+".lance")), table.Ref{})
			scan, err := s.Scan(t.Context(), table.ScanRequest{})
			if err != nil {
				t.Fatal(err)
			}
			defer scan.Release()
			for i, f := range scan.Schema().Fields() {
				if w := want.Field(i); !f.Equal(w) {
					t.Errorf("column %v, want %v", f, w)
				}
			}
		})
	}
}

func TestRefs(t *testing.T) {
	t.Parallel()
	dir, facts := liveTables(t)
	refs := facts["refs"]
	tab := tabletest.Open(t, tabletest.Env(t, dir), filepath.Join(dir, "refs.lance"))
	values := func(t *testing.T, ref table.Ref) []int64 {
		t.Helper()
		rows, _ := tabletest.ScanAll(t, tabletest.At(t, tab, ref), table.ScanRequest{})
		out := make([]int64, len(rows))
		for i, row := range rows {
			out[i], _ = row["a"].(json.Number).Int64()
		}
		return out
	}
	for branch, want := range refs.Rows {
		if diff := cmp.Diff(want, values(t, table.Ref{Branch: branch})); diff != "" {
			t.Errorf("branch %q (-want +got):\n%s", branch, diff)
		}
	}
	first, second := refs.Times[1], refs.Times[2]
	infos, err := tab.Versions(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	exact := infos[0].Timestamp
	for _, c := range []struct {
		name string
		ref  table.Ref
		want []int64
	}{
		{"main by name", table.Ref{Branch: "main"}, []int64{1, 2}},
		{"version of a branch", table.Ref{Branch: "exp/one", Version: 2}, []int64{1, 2}},
		{"tag into a branch", table.Ref{Tag: "on-branch"}, []int64{1, 2, 10}},
		{"tag of an old version", table.Ref{Tag: "main-1"}, []int64{1}},
		{"exact time", table.Ref{Timestamp: first}, []int64{1}},
		{"as a float may give it", table.Ref{Timestamp: exact.Truncate(time.Microsecond).Add(-time.Microsecond)}, []int64{1}},
		{"just before the second", table.Ref{Timestamp: second.Add(-3 * time.Microsecond)}, []int64{1}},
		{"now", table.Ref{Timestamp: time.Now()}, []int64{1, 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, values(t, c.ref)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	for _, c := range []struct {
		name  string
		ref   table.Ref
		kind  fault.Kind
		parts []string
	}{
		{"version", table.Ref{Version: 9}, fault.NotFound, []string{"version 9", "oldest is 1", "newest 2", "refs"}},
		{"version of a branch", table.Ref{Branch: "exp/one", Version: 1}, fault.NotFound, []string{"version 1", "oldest is 2"}},
		{"detached", table.Ref{Version: 1<<63 + 5}, fault.NotFound, []string{"9223372036854775813"}},
		{"tag", table.Ref{Tag: "nope"}, fault.NotFound, []string{`"nope"`, "main-1", "on-branch"}},
		{"tag that leaves the folder", table.Ref{Tag: "../branches/exp%2Fone"}, fault.NotFound, []string{"main-1"}},
		{"branch", table.Ref{Branch: "nope"}, fault.NotFound, []string{`"nope"`, "deeper", "exp/one"}},
		{"too early", table.Ref{Timestamp: first.Add(-time.Hour)}, fault.NotFound, []string{"oldest, 1,"}},
		{"two pins", table.Ref{Version: 1, Tag: "main-1"}, fault.Invalid, []string{"at most one"}},
		{"tag and branch", table.Ref{Branch: "exp/one", Tag: "main-1"}, fault.Invalid, []string{"names its branch"}},
	} {
		t.Run("missing "+c.name, func(t *testing.T) {
			_, err := tab.At(t.Context(), c.ref)
			if err == nil || fault.KindOf(err) != c.kind {
				t.Fatalf("got %v, want a %s error", err, c.kind)
			}
			for _, part := range c.parts {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%v does not say %q", err, part)
				}
			}
			if strings.Contains(err.Error(), dir) {
				t.Errorf("%v shows a path of the server", err)
			}
		})
	}
	branches, err := tab.Branches(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, b := range branches {
		if b.CreatedAt.IsZero() {
			t.Errorf("branch %s was created at an unknown time", b.Name)
		}
		got = append(got, fmt.Sprintf("%s from %q@%d", b.Name, b.ParentBranch, b.ParentVersion))
	}
	want := []string{fmt.Sprintf("deeper from \"exp/one\"@%d", refs.BranchVersion), `exp/one from ""@2`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("branches (-want +got):\n%s", diff)
	}
}

// TestFreshness commits with pylance beside an open table.
func TestFreshness(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "t.lance")
	write := func(mode string, n int) {
		tabletest.Pylance(t, `
import sys, lance, pyarrow as pa
lance.write_dataset(pa.table({"a": pa.array(range(int(sys.argv[3])))}), sys.argv[1], mode=sys.argv[2])`, path, mode, fmt.Sprint(n))
	}
	write("create", 3)
	tab := tabletest.Open(t, tabletest.Env(t, path), path)
	pinned := tabletest.At(t, tab, table.Ref{})
	write("append", 2)
	if got := tabletest.At(t, tab, table.Ref{}).Rows(); got != 5 {
		t.Errorf("%d rows after an append, want 5", got)
	}
	if pinned.Rows() != 3 || tabletest.At(t, tab, pinned.Ref()).Rows() != 3 {
		t.Error("a pinned snapshot changed")
	}
	// Dropped and made anew: version 1 has the same name and is another one.
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	if _, err := tab.At(t.Context(), table.Ref{}); fault.KindOf(err) != fault.NotFound {
		t.Errorf("a dropped table: %v", err)
	}
	write("create", 7)
	if got := tabletest.At(t, tab, table.Ref{Version: 1}).Rows(); got != 7 {
		t.Errorf("%d rows in the new version 1, want 7", got)
	}
}

func TestVersionsOfManyAppends(t *testing.T) {
	t.Parallel()
	dir, _ := liveTables(t)
	tab := tabletest.Open(t, tabletest.Env(t, dir), filepath.Join(dir, "v1names.lance"))
	infos, err := tab.Versions(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	for i, info := range infos {
		op := "Append"
		if i == 0 {
			op = "Overwrite"
		}
		if info.Version != uint64(i+1) || info.Rows != uint64(i+2) || info.Operation != op || info.Fragments != i+1 {
			t.Errorf("entry %d: %+v", i, info)
		}
	}
	if len(infos) != 12 || !slices.IsSortedFunc(infos, func(a, b table.VersionInfo) int { return a.Timestamp.Compare(b.Timestamp) }) {
		t.Errorf("%d versions, in order of time: want 12", len(infos))
	}
}
