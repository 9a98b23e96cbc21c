package table_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/flightblob/flightblob/table"
	"github.com/flightblob/flightblob/table/manifest"
	"github.com/flightblob/flightblob/table/tabletest"
)

// TestRowsOfFormat20: children that a 2.0 file keeps in the rows of a
// fixed-size list or a packed struct are listed under no column of their own,
// and are not null for that.
func TestRowsOfFormat20(t *testing.T) {
	t.Parallel()
	golden, path := "../datafile/testdata/golden/rows_20/", t.TempDir()
	raw, err := os.ReadFile(golden + "manifest")
	if err != nil {
		t.Fatal(err)
	}
	m, err := manifest.Decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{
		"manifest": manifest.Path(1, manifest.V2), "data.lance": manifest.DataDir + "/" + m.Fragments[0].Files[0].Path,
	} {
		data, err := os.ReadFile(golden + from)
		if err != nil {
			t.Fatal(err)
		}
		to = filepath.Join(path, to)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s := tabletest.At(t, tabletest.Open(t, tabletest.Env(t, path), path), table.Ref{})
	_, rows := tabletest.ScanAll(t, s, table.ScanRequest{})
	if len(rows) != 40 {
		t.Fatalf("%d rows", len(rows))
	}
	got, err := json.Marshal(rows[5])
	if err != nil {
		t.Fatal(err)
	}
	want := `{"list":[{"a":5,"b":-5,"v":[5,1]},{"a":10,"b":7,"v":[5,2]}],"marked":{"a":5,"b":25,"v":[3,5]}}`
	if string(got) != want {
		t.Errorf("row 5 is %s, want %s", got, want)
	}
}
