package schema

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"

	"github.com/flightblob/flightblob/objstore/storetest"
)

// written is a table that the reference is asked to write.
type written struct {
	schema  *arrow.Schema
	batches []arrow.RecordBatch
	options map[string]any // of lance.write_dataset
}

// reference has the reference write tables. It gives the folder that they lie
// in, as NAME.lance, and for each that it refused its words.
func reference(t *testing.T, tables map[string]written) (dir string, refused map[string]string) {
	t.Helper()
	python := storetest.Python(t, "lance")
	dir = t.TempDir()
	for name, w := range tables {
		var stream bytes.Buffer
		out := ipc.NewWriter(&stream, ipc.WithSchema(w.schema))
		for _, b := range w.batches {
			if err := out.Write(b); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if err := out.Close(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		options, err := json.Marshal(w.options)
		if err != nil {
			t.Fatal(err)
		}
		for ext, data := range map[string][]byte{".arrow": stream.Bytes(), ".json": options} {
			if err := os.WriteFile(filepath.Join(dir, name+ext), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	cmd := exec.CommandContext(t.Context(), python, "testdata/reference.py", dir)
	var words bytes.Buffer
	cmd.Stderr = &words // its panics are long
	result, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, words.String())
	}
	refused = map[string]string{}
	answers := 0
	for lines := bufio.NewScanner(bytes.NewReader(result)); lines.Scan(); answers++ {
		var answer struct{ Name, Error string }
		if err := json.Unmarshal(lines.Bytes(), &answer); err != nil {
			t.Fatal(err)
		}
		if answer.Error != "" {
			refused[answer.Name] = answer.Error
		}
	}
	if answers != len(tables) {
		t.Fatalf("the reference answered for %d of %d tables", answers, len(tables))
	}
	return dir, refused
}

// newest finds the manifest of the newest version of a table.
func newest(t *testing.T, table string) string {
	t.Helper()
	versions, err := filepath.Glob(filepath.Join(table, "_versions/*.manifest"))
	if err != nil || len(versions) == 0 {
		t.Fatalf("no manifests in %s: %v", table, err)
	}
	return versions[0]
}
