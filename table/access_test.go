package table_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flightblob/flightblob/blob"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/table"
	"github.com/flightblob/flightblob/table/tabletest"
)

// resolveAll resolves every blob of a table and sizes its object; it gives the
// errors by row.
func resolveAll(t *testing.T, s *table.Snapshot) map[int]error {
	t.Helper()
	scan, err := s.Scan(t.Context(), table.ScanRequest{Columns: []string{"img"}})
	if err != nil {
		t.Fatal(err)
	}
	defer scan.Release()
	r := s.Resolver()
	failed := map[int]error{}
	for n := 0; scan.Next(); {
		c, err := blob.AsColumn(scan.RecordBatch().Column(0))
		if err != nil {
			t.Fatal(err)
		}
		for i := range c.Len() {
			d, null, err := c.At(i)
			if err == nil && !null {
				var e blob.Extent
				if e, err = r.Resolve(t.Context(), d, scan.Owners()[0]); err == nil && e.Object.Store != nil {
					_, err = e.Object.Size(t.Context())
				}
			}
			if err != nil {
				failed[n] = err
			}
			n++
		}
	}
	if err := scan.Err(); err != nil {
		t.Fatal(err)
	}
	return failed
}

func TestAccess(t *testing.T) {
	t.Parallel()
	dir := tabletest.Fixtures(t)
	t.Run("registered bases are reached from outside the roots", func(t *testing.T) {
		t.Parallel()
		for _, fixture := range []string{"sidecars_in_bases", "managed_registered_base_plain", "external_bases"} {
			path := filepath.Join(dir, fixture, "table.lance")
			s := tabletest.At(t, tabletest.Open(t, tabletest.Env(t, path), path), table.Ref{})
			for row, err := range resolveAll(t, s) {
				// Row 7 of external_bases is absolute.
				if fixture != "external_bases" || row != 7 {
					t.Errorf("%s, row %d: %v", fixture, row, err)
				}
			}
		}
	})
	t.Run("an absolute External outside is denied, its row alone", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(dir, "kinds_external_absolute", "table.lance")
		s := tabletest.At(t, tabletest.Open(t, tabletest.Env(t, path), path), table.Ref{})
		failed := resolveAll(t, s)
		if len(failed) == 0 || len(failed) == int(s.Rows()) {
			t.Errorf("%d of %d rows failed", len(failed), s.Rows())
		}
		for row, err := range failed {
			if fault.KindOf(err) != fault.Denied || !strings.Contains(err.Error(), "--external") {
				t.Errorf("row %d: got %v, want a denied error that names the flag", row, err)
			}
		}
		open := tabletest.At(t, tabletest.Open(t, tabletest.Env(t, path, filepath.Dir(path)), path), table.Ref{})
		if failed := resolveAll(t, open); len(failed) != 0 {
			t.Errorf("with the prefix: %v", failed)
		}
	})
	t.Run("a data file that is a link to the outside is denied", func(t *testing.T) {
		t.Parallel()
		path := copyFixture(t, "kinds_basic_v22")
		files, err := filepath.Glob(filepath.Join(path, "data", "*.lance"))
		if err != nil || len(files) != 1 {
			t.Fatal(files, err)
		}
		outside := filepath.Join(t.TempDir(), "secret.lance")
		if err := os.Rename(files[0], outside); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(outside, files[0]); err != nil {
			t.Fatal(err)
		}
		if err := readAll(t, path); fault.KindOf(err) != fault.Denied {
			t.Errorf("got %v, want a denied error", err)
		}
	})
	t.Run("a branch that leads out of the table is none", func(t *testing.T) {
		t.Parallel()
		path := copyFixture(t, "tags_and_branches")
		tab := tabletest.Open(t, tabletest.Env(t, path), path)
		for _, name := range []string{"../..", "dev/../../..", "/", "dev/"} {
			if _, err := tab.At(t.Context(), table.Ref{Branch: name}); fault.KindOf(err) != fault.NotFound || !strings.Contains(fmt.Sprint(err), "dev") {
				t.Errorf("%q: got %v, want a not found error that names dev", name, err)
			}
		}
	})
}
