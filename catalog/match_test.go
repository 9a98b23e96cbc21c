package catalog_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/flightblob/flightblob/catalog"
	"github.com/flightblob/flightblob/table/tabletest"
)

// TestMatch checks that names match without the case of letters, and that only
// tables do.
func TestMatch(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for _, dir := range []string{"One.lance/_versions", "one.lance/_versions", "two.lance/_versions", "declared.lance/data"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, dir, "1.manifest"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c := open(t, tabletest.Env(t, root), catalog.Root{URI: root})
	for _, tt := range []struct {
		name catalog.Name
		want []string
	}{
		{catalog.Name{Table: "ONE"}, []string{"lance.main.One", "lance.main.one"}},
		{catalog.Name{Schema: "MAIN", Table: "Two"}, []string{"lance.main.two"}},
		{catalog.Name{Catalog: "LANCE", Schema: "main", Table: "two"}, []string{"lance.main.two"}},
		{catalog.Name{Table: "declared"}, nil},
		{catalog.Name{Table: "three"}, nil},
		{catalog.Name{Catalog: "other", Schema: "main", Table: "two"}, nil},
		{catalog.Name{Schema: "other", Table: "two"}, nil},
	} {
		found, err := c.Match(t.Context(), tt.name)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, n := range found {
			got = append(got, n.String())
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}
