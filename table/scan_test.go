package table_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/materialize"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/schema"
	"github.com/flightblob/flightblob/table"
	"github.com/flightblob/flightblob/table/tabletest"
)

var _ materialize.Source = (*table.Scan)(nil)

// dataReads counts the requests for objects in data folders.
func dataReads(counter *objstore.Counter) (requests int64) {
	for _, o := range counter.Snapshot().Objects {
		if strings.Contains(o.URI, "/data/") {
			requests += o.Requests()
		}
	}
	return requests
}

func drain(t *testing.T, s *table.Snapshot, req table.ScanRequest) (rows int64) {
	t.Helper()
	scan, err := s.Scan(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	defer scan.Release()
	for scan.Next() {
		rows += scan.RecordBatch().NumRows()
	}
	if err := scan.Err(); err != nil {
		t.Fatal(err)
	}
	return rows
}

func TestManyFragments(t *testing.T) {
	t.Parallel()
	const fragments, each = 10_000, 7
	path := copyFixture(t, "kinds_basic_v22")
	multiply(t, path, fragments)
	counter := objstore.NewCounter(objstore.CounterOptions{})
	tab := tabletest.Open(t, tabletest.CountedEnv(t, counter, path), path)
	s := tabletest.At(t, tab, table.Ref{})
	if s.Rows() != fragments*each {
		t.Errorf("%d rows", s.Rows())
	}
	if got := drain(t, s, table.ScanRequest{Columns: []string{}}); got != fragments*each {
		t.Errorf("a scan of no columns has %d rows", got)
	}
	if n := dataReads(counter); n != 0 {
		t.Errorf("counting rows made %d requests to data files", n)
	}
	t.Run("a second look lists and reads no manifest", func(t *testing.T) {
		before := counter.Total()
		tabletest.At(t, tab, table.Ref{})
		after := counter.Total()
		if after.Lists-before.Lists != 1 || after.Payload() != before.Payload() {
			t.Errorf("%d listings and %d bytes", after.Lists-before.Lists, after.Payload()-before.Payload())
		}
	})
	t.Run("an offset skips fragments unopened", func(t *testing.T) {
		limit := uint64(3)
		rows, _ := tabletest.ScanAll(t, s, table.ScanRequest{
			Columns: []string{"id", table.RowAddr}, Offset: 9_999*each + 2, Limit: &limit,
		})
		want := "[map[_rowaddr:42945377992706 id:2] map[_rowaddr:42945377992707 id:3] map[_rowaddr:42945377992708 id:4]]"
		if fmt.Sprint(rows) != want {
			t.Errorf("got %v, want %s", rows, want)
		}
		if n := dataReads(counter); n > 4 {
			t.Errorf("%d requests to data files", n)
		}
	})
	t.Run("all rows", func(t *testing.T) {
		if got := drain(t, s, table.ScanRequest{Columns: []string{"id", "_rowid"}}); got != fragments*each {
			t.Errorf("%d rows", got)
		}
	})
}

// TestPicksCostFewRequests reads 100 rows from all over a table.
func TestPicksCostFewRequests(t *testing.T) {
	t.Parallel()
	dir, _ := liveTables(t)
	counter := objstore.NewCounter(objstore.CounterOptions{})
	tab := tabletest.Open(t, tabletest.CountedEnv(t, counter, dir), filepath.Join(dir, "pages.lance"))
	s := tabletest.At(t, tab, table.Ref{})
	random := rand.New(rand.NewPCG(3, 3))
	rows := make([]uint64, 100)
	for i := range rows {
		rows[i] = random.Uint64N(s.Rows())
	}
	if got := drain(t, s, table.ScanRequest{Rows: rows, Columns: []string{"id", "text"}}); got != 100 {
		t.Errorf("%d rows", got)
	}
	if n := dataReads(counter); n > 20 {
		t.Errorf("100 rows of one fragment cost %d requests", n)
	}
}

// TestBatchSizes reads rows that are tiny at first and large later: neither the
// batches nor the reads behind them may outgrow the target.
func TestBatchSizes(t *testing.T) {
	t.Parallel()
	dir, _ := liveTables(t)
	s := tabletest.At(t, tabletest.Open(t, tabletest.Env(t, dir), filepath.Join(dir, "pages.lance")), table.Ref{})
	for _, target := range []int64{10_000, 100_000, 1 << 20} {
		scan, err := s.Scan(t.Context(), table.ScanRequest{BatchBytes: target})
		if err != nil {
			t.Fatal(err)
		}
		rows, batches := int64(0), 0
		for ; scan.Next(); batches++ {
			batch := scan.RecordBatch()
			big := batch.Column(1).(*array.LargeBinary)
			bytes := int64(0)
			for i := range big.Len() {
				bytes += int64(len(big.Value(i)))
			}
			if batches == 0 && batch.NumRows() > 1024 {
				t.Errorf("the first batch has %d rows", batch.NumRows())
			}
			if bytes > 2*target && batch.NumRows() > 1 {
				t.Errorf("a batch of %d rows and %d bytes, target %d", batch.NumRows(), bytes, target)
			}
			rows += batch.NumRows()
		}
		if err := scan.Err(); err != nil {
			t.Fatal(err)
		}
		scan.Release()
		if rows != int64(s.Rows()) {
			t.Errorf("%d rows", rows)
		}
	}
}

func TestScanStops(t *testing.T) {
	// Not parallel: it counts goroutines.
	path := copyFixture(t, "kinds_basic_v22")
	multiply(t, path, 3000)
	env := tabletest.Env(t, path)
	s := tabletest.At(t, tabletest.Open(t, env, path), table.Ref{})
	settle := func() int {
		n := runtime.NumGoroutine()
		for range 50 {
			time.Sleep(2 * time.Millisecond)
			if m := runtime.NumGoroutine(); m < n {
				n = m
			}
		}
		return n
	}
	before := settle()
	t.Run("released early", func(t *testing.T) {
		scan, err := s.Scan(t.Context(), table.ScanRequest{})
		if err != nil {
			t.Fatal(err)
		}
		scan.Retain()
		for range 3 {
			if !scan.Next() {
				t.Fatal(scan.Err())
			}
		}
		scan.Release()
		if !scan.Next() {
			t.Error("one reference was left")
		}
		scan.Release()
	})
	t.Run("released unread", func(t *testing.T) {
		for _, req := range []table.ScanRequest{{}, {Rows: []uint64{5, 20_000, 7}}} {
			scan, err := s.Scan(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			scan.Release()
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		scan, err := s.Scan(ctx, table.ScanRequest{})
		if err != nil {
			t.Fatal(err)
		}
		defer scan.Release()
		if !scan.Next() {
			t.Fatal(scan.Err())
		}
		why := errors.New("the client went away")
		cancel(why)
		n := 0
		for scan.Next() {
			n++
		}
		// What was read ahead may still come, but never a silent end.
		if !errors.Is(scan.Err(), why) && !errors.Is(scan.Err(), context.Canceled) {
			t.Errorf("a cancelled scan ends with %v", scan.Err())
		}
		if n > 20 {
			t.Errorf("%d batches after the cancellation", n)
		}
	})
	if after := settle(); after > before {
		t.Errorf("%d goroutines before, %d after", before, after)
	}
}

func TestScanRefusals(t *testing.T) {
	t.Parallel()
	path := copyFixture(t, "nested_v22")
	s := tabletest.At(t, tabletest.Open(t, tabletest.Env(t, path), path), table.Ref{})
	limit := uint64(1)
	for _, c := range []struct {
		name string
		req  table.ScanRequest
		kind fault.Kind
		part string
	}{
		{"unknown column", table.ScanRequest{Columns: []string{"idd"}}, fault.NotFound, `"id"`},
		{"column twice", table.ScanRequest{Columns: []string{"id", "id"}}, fault.Invalid, "twice"},
		{"added column twice", table.ScanRequest{Columns: []string{"_rowid", "_rowid"}}, fault.Invalid, "twice"},
		{"into a list", table.ScanRequest{Columns: []string{"ls.caption"}}, fault.Invalid, "list"},
		{"lineage without stable row ids", table.ScanRequest{Columns: []string{table.CreatedAt}}, fault.Invalid, "stable row ids"},
		{"row out of range", table.ScanRequest{Rows: []uint64{1, 5}}, fault.Invalid, "position 5 does not exist; version 1 of t has 5 rows"},
		{"rows and limit", table.ScanRequest{Rows: []uint64{1}, Limit: &limit}, fault.Invalid, "limit"},
		{"rows and offset", table.ScanRequest{Rows: []uint64{1}, Offset: 1}, fault.Invalid, "offset"},
	} {
		t.Run(c.name, func(t *testing.T) {
			scan, err := s.Scan(t.Context(), c.req)
			if err == nil {
				scan.Release()
			}
			if fault.KindOf(err) != c.kind || !strings.Contains(fmt.Sprint(err), c.part) {
				t.Errorf("got %v, want a %s error that says %q", err, c.kind, c.part)
			}
		})
	}
}

func TestFlatColumns(t *testing.T) {
	t.Parallel()
	path := copyFixture(t, "nested_v22")
	s := tabletest.At(t, tabletest.Open(t, tabletest.Env(t, path), path), table.Ref{})
	_, rows := tabletest.ScanAll(t, s, table.ScanRequest{Columns: []string{"s.caption", "sl.blobs", "id", "s.blob"}})
	_, whole := tabletest.ScanAll(t, s, table.ScanRequest{})
	for i, row := range rows {
		want := map[string]any{"id": whole[i]["id"], "s.caption": nil, "s.blob": nil, "sl.blobs": nil}
		if st, ok := whole[i]["s"].(map[string]any); ok {
			want["s.caption"], want["s.blob"] = st["caption"], st["blob"]
		}
		if st, ok := whole[i]["sl"].(map[string]any); ok {
			want["sl.blobs"] = st["blobs"]
		}
		if diff := cmp.Diff(want, row); diff != "" {
			t.Errorf("row %d (-want +got):\n%s", i, diff)
		}
	}
	scan, err := s.Scan(t.Context(), table.ScanRequest{Columns: []string{"s.blob", "_rowid"}})
	if err != nil {
		t.Fatal(err)
	}
	defer scan.Release()
	for view, want := range map[schema.View]string{
		schema.Materialized: "large_binary", schema.Descriptor: "struct<kind: uint8, position: uint64, size: uint64, blob_id: uint32, blob_uri: utf8>",
	} {
		as, err := scan.SchemaAs(view)
		if err != nil {
			t.Fatal(err)
		}
		if f := as.Field(0); f.Name != "s.blob" || !f.Nullable || f.Type.String() != want || as.Field(1).Name != "_rowid" {
			t.Errorf("view %d: %v", view, as)
		}
	}
}

// TestOwners checks whose data file each blob column of a batch has.
func TestOwners(t *testing.T) {
	t.Parallel()
	dir := tabletest.Fixtures(t)
	env := tabletest.Env(t, dir)
	s := tabletest.At(t, tabletest.Open(t, env, filepath.Join(dir, "sidecars_in_bases", "table.lance")), table.Ref{})
	blobField := schema.FieldID(-1)
	for f := range s.Schema().Blobs() {
		blobField = f.ID
	}
	got := map[string]bool{}
	for i := range s.Manifest().Fragments {
		o, err := s.Owner(t.Context(), &s.Manifest().Fragments[i], blobField)
		if err != nil {
			t.Fatal(err)
		}
		rel := func(l objstore.Location) string { return strings.TrimPrefix(l.String(), dir+"/sidecars_in_bases/") }
		if o.Key+".lance" != filepath.Base(o.File.Path) || !o.Immutable {
			t.Errorf("owner %+v", o)
		}
		got[rel(o.Dir)+" of "+rel(o.Base)] = true
	}
	t.Run("RES-2 data directories of bases", func(t *testing.T) {
		want := map[string]bool{"table.lance/data of table.lance": true, "root/data of root": true, "plain of plain": true}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("directory of base (-want +got):\n%s", diff)
		}
	})
	t.Run("RES-1 no file holds the field", func(t *testing.T) {
		o, err := s.Owner(t.Context(), &s.Manifest().Fragments[0], 4711)
		if o != nil || err != nil {
			t.Errorf("got %v, %v, want none", o, err)
		}
	})
}

// TestDamage changes manifests and files; every change must be met by an error
// that says where, never by wrong rows.
func TestDamage(t *testing.T) {
	t.Parallel()
	fragment := func(t *testing.T, change func([]pbField) []pbField) func([]pbField) []pbField {
		return func(fields []pbField) []pbField {
			for i := range fields {
				if fields[i].number == manifestFragments {
					fields[i].bytes = appendMessage(change(parseMessage(t, fields[i].bytes)))
				}
			}
			return fields
		}
	}
	file := func(t *testing.T, change func([]pbField) []pbField) func([]pbField) []pbField {
		return fragment(t, func(fields []pbField) []pbField {
			for i := range fields {
				if fields[i].number == fragmentFiles {
					fields[i].bytes = appendMessage(change(parseMessage(t, fields[i].bytes)))
				}
			}
			return fields
		})
	}
	for _, c := range []struct {
		name   string
		change func(t *testing.T) func([]pbField) []pbField
		kind   fault.Kind
		part   string
	}{
		{"other version in the body", func(*testing.T) func([]pbField) []pbField {
			return func(f []pbField) []pbField { return set(f, manifestVersion, 9) }
		}, fault.Corrupt, "version 9, its name says 1"},
		{"REJ-1 unknown reader flag", func(*testing.T) func([]pbField) []pbField {
			return func(f []pbField) []pbField { return set(f, manifestReaderFlags, 1<<20) }
		}, fault.Unsupported, "1048576"},
		{"CAP-4 half-set managed flag", func(*testing.T) func([]pbField) []pbField {
			return func(f []pbField) []pbField { return set(f, manifestReaderFlags, 16384) }
		}, fault.Corrupt, "16384"},
		{"format 0.1", func(t *testing.T) func([]pbField) []pbField {
			return file(t, func(f []pbField) []pbField { return without(f, fileMajor, fileMinor) })
		}, fault.Unsupported, "format 0.1"},
		{"table of format 0.1", func(*testing.T) func([]pbField) []pbField {
			return func(f []pbField) []pbField {
				format := appendMessage([]pbField{
					{number: 1, kind: protowire.BytesType, bytes: []byte("lance")},
					{number: 2, kind: protowire.BytesType, bytes: []byte("0.1")},
				})
				return append(without(f, manifestFormat), pbField{number: manifestFormat, kind: protowire.BytesType, bytes: format})
			}
		}, fault.Unsupported, "format 0.1"},
		{"other file version", func(t *testing.T) func([]pbField) []pbField {
			return file(t, func(f []pbField) []pbField { return set(f, fileMinor, 1) })
		}, fault.Corrupt, "has format 2.2, the manifest says 2.1"},
		{"other row count", func(t *testing.T) func([]pbField) []pbField {
			return fragment(t, func(f []pbField) []pbField { return set(f, fragmentRows, 5) })
		}, fault.Corrupt, "the manifest says 5"},
		{"REJ-3 unregistered base", func(t *testing.T) func([]pbField) []pbField {
			return file(t, func(f []pbField) []pbField { return set(f, fileBase, 77) })
		}, fault.Corrupt, "base 77"},
		{"base outside", func(t *testing.T) func([]pbField) []pbField {
			return func(f []pbField) []pbField {
				base := appendMessage([]pbField{
					{number: 1, kind: protowire.VarintType, varint: 3},
					{number: 4, kind: protowire.BytesType, bytes: []byte("relative/../../path")},
				})
				f = append(f, pbField{number: manifestBases, kind: protowire.BytesType, bytes: base})
				return file(t, func(f []pbField) []pbField { return set(f, fileBase, 3) })(f)
			}
		}, fault.Corrupt, "missing"},
		{"other branch", func(*testing.T) func([]pbField) []pbField {
			return func(f []pbField) []pbField {
				return append(f, pbField{number: manifestBranch, kind: protowire.BytesType, bytes: []byte("dev")})
			}
		}, 0, ""}, // opened by its folder, a branch is a table of its own
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			path := copyFixture(t, "kinds_basic_v22")
			rewriteManifest(t, filepath.Join(path, version1), c.change(t))
			err := readAll(t, path)
			if c.part == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if fault.KindOf(err) != c.kind || !strings.Contains(fmt.Sprint(err), c.part) {
				t.Errorf("got %v, want a %s error that says %q", err, c.kind, c.part)
			}
		})
	}
	t.Run("data file gone", func(t *testing.T) {
		t.Parallel()
		path := copyFixture(t, "kinds_basic_v22")
		if err := os.RemoveAll(filepath.Join(path, "data")); err != nil {
			t.Fatal(err)
		}
		if err := readAll(t, path); fault.KindOf(err) != fault.Corrupt || !strings.Contains(fmt.Sprint(err), "missing") {
			t.Errorf("got %v, want a corrupt error", err)
		}
	})
	t.Run("data file gone after it was opened", func(t *testing.T) {
		t.Parallel()
		path := copyFixture(t, "kinds_basic_v22")
		tab := tabletest.Open(t, tabletest.Env(t, path), path)
		s := tabletest.At(t, tab, table.Ref{})
		read := func(column string) error {
			scan, err := s.Scan(t.Context(), table.ScanRequest{Columns: []string{column}})
			if err != nil {
				return err
			}
			defer scan.Release()
			for scan.Next() {
			}
			return scan.Err()
		}
		if err := read("id"); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(filepath.Join(path, "data")); err != nil {
			t.Fatal(err)
		}
		if err := read("img"); fault.KindOf(err) != fault.Corrupt || !strings.Contains(fmt.Sprint(err), "missing") {
			t.Errorf("got %v, want a corrupt error", err)
		}
		if err := os.RemoveAll(filepath.Join(path, "_versions")); err != nil {
			t.Fatal(err)
		}
		if err := read("img"); fault.KindOf(err) != fault.NotFound {
			t.Errorf("without its version: got %v, want one that is not found", err)
		}
	})
	t.Run("deletion file gone", func(t *testing.T) {
		t.Parallel()
		path := copyFixture(t, "deletion_bitmap")
		if err := os.RemoveAll(filepath.Join(path, "_deletions")); err != nil {
			t.Fatal(err)
		}
		if err := readAll(t, path); fault.KindOf(err) != fault.Corrupt || !strings.Contains(fmt.Sprint(err), "deletion file") {
			t.Errorf("got %v, want a corrupt error", err)
		}
	})
	t.Run("mixed manifest names", func(t *testing.T) {
		t.Parallel()
		path := copyFixture(t, "kinds_basic_v22")
		data, err := os.ReadFile(filepath.Join(path, version1))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(path, "_versions", "2.manifest"), data, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := readAll(t, path); fault.KindOf(err) != fault.Corrupt || !strings.Contains(fmt.Sprint(err), "both naming schemes") {
			t.Errorf("got %v, want a corrupt error", err)
		}
	})
}

// TestCleanedUpMeanwhile removes a version from below a snapshot of it.
func TestCleanedUpMeanwhile(t *testing.T) {
	t.Parallel()
	path := copyFixture(t, "fragments_and_deletions")
	tab := tabletest.Open(t, tabletest.Env(t, path), path)
	s := tabletest.At(t, tab, table.Ref{Version: 1})
	for _, gone := range []string{"data", "_deletions", version1} {
		if err := os.RemoveAll(filepath.Join(path, gone)); err != nil {
			t.Fatal(err)
		}
	}
	scan, err := s.Scan(t.Context(), table.ScanRequest{})
	if err != nil {
		t.Fatal(err)
	}
	defer scan.Release()
	if scan.Next() {
		t.Fatal("rows of files that are gone")
	}
	if err := scan.Err(); fault.KindOf(err) != fault.NotFound || !strings.Contains(err.Error(), "version 1 of t does not exist; the oldest is 2") {
		t.Errorf("got %v, want a not found error that names the oldest version", err)
	}
	if _, err := tab.At(t.Context(), table.Ref{Version: 1}); fault.KindOf(err) != fault.NotFound {
		t.Errorf("the version again: %v", err)
	}
}

// readAll opens a table and reads all of it.
func readAll(t *testing.T, path string) error {
	t.Helper()
	tab := tabletest.Open(t, tabletest.Env(t, path), path)
	s, err := tab.At(t.Context(), table.Ref{})
	if err != nil {
		return err
	}
	scan, err := s.Scan(t.Context(), table.ScanRequest{})
	if err != nil {
		return err
	}
	defer scan.Release()
	for scan.Next() {
	}
	return scan.Err()
}

func TestBlobUsage(t *testing.T) {
	t.Parallel()
	path := copyFixture(t, "nested_v22")
	s := tabletest.At(t, tabletest.Open(t, tabletest.Env(t, path), path), table.Ref{})
	all, err := s.BlobUsage(t.Context(), nil, true)
	if err != nil {
		t.Fatal(err)
	}
	// The same sums from the rows as they are read in full.
	type key struct{ column string }
	got, want := map[key][2]uint64{}, map[key][2]uint64{}
	for _, u := range all {
		k := key{u.Column}
		got[k] = [2]uint64{got[k][0] + u.Count, got[k][1] + u.Bytes}
		if u.Object != "" && !strings.HasPrefix(u.Object, "data/") {
			t.Errorf("object %q", u.Object)
		}
	}
	_, rows := tabletest.ScanAll(t, s, table.ScanRequest{})
	var walk func(f *schema.Field, v any)
	walk = func(f *schema.Field, v any) {
		switch v := v.(type) {
		case []any:
			for _, item := range v {
				walk(f.Children[0], item)
			}
		case map[string]any:
			if f.Blob != schema.NotBlob {
				var n uint64
				if _, err := fmt.Sscan(fmt.Sprint(v["len"]), &n); err != nil {
					t.Fatal(err)
				}
				k := key{f.FullName()}
				want[k] = [2]uint64{want[k][0] + 1, want[k][1] + n}
				return
			}
			for _, c := range f.Children {
				walk(c, v[c.Name])
			}
		}
	}
	for _, row := range rows {
		for _, f := range s.Schema().Fields {
			walk(f, row[f.Name])
		}
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(key{})); diff != "" || len(want) < 6 {
		t.Errorf("sums of %d leaves (-want +got):\n%s", len(want), diff)
	}
	for _, f := range s.Fragments() {
		if f.Rows != 5 || f.DeletedRows != 0 || len(f.Files) != 1 || f.Files[0].Version != "2.2" || f.Files[0].Columns == 0 {
			t.Errorf("fragment %+v", f)
		}
	}
}
