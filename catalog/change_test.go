package catalog_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flightblob/flightblob/catalog"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/table/tabletest"
)

func TestCheckName(t *testing.T) {
	t.Parallel()
	for name, ok := range map[string]bool{
		"t": true, "T_1-2.x": true, "...": true, ".t": true, "-": true, "x.lance": true, strings.Repeat("n", 249): true,
		"": false, ".": false, "..": false, "__manifest": false, "a b": false, "a/b": false, "a$b": false, "é": false, "a%b": false,
		"a'b": false, `a"b`: false, "a\x00b": false, "a\nb": false, `a\b`: false, "a:b": false, "#": false, "?": false, strings.Repeat("n", 250): false,
	} {
		err := catalog.CheckName(name)
		if ok && err != nil || !ok && (err == nil || fault.KindOf(err) != fault.Invalid) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// referenceTables lists what pylance's directory namespace shows.
func referenceTables(t *testing.T, root string, namespace ...string) []string {
	t.Helper()
	id, err := json.Marshal(append([]string{}, namespace...))
	if err != nil {
		t.Fatal(err)
	}
	out := tabletest.Pylance(t, `
import sys, json
from lance.namespace import DirectoryNamespace
from lance_namespace import ListTablesRequest
ns = DirectoryNamespace(root=sys.argv[1])
print(json.dumps(sorted(ns.list_tables(ListTablesRequest(id=json.loads(sys.argv[2]))).tables)))`, root, string(id))
	var names []string
	if err := json.Unmarshal(out, &names); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return names
}

// TestPlaceAndDrop makes and drops tables in a root that pylance's namespace
// keeps.
func TestPlaceAndDrop(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	tabletest.Pylance(t, liveScript, root)
	env := tabletest.Env(t, root)
	c := open(t, env, catalog.Root{URI: root})
	before := referenceTables(t, root)

	t.Run("names that are taken", func(t *testing.T) {
		for name, part := range map[string]string{
			"registered": "is registered", "plain": "exists already", "ghost": "is registered", "declared": "is registered",
			"hidden": "taken off the list", "ns": "schema ns has its name", "off": "exists already",
		} {
			_, err := c.Place(t.Context(), catalog.Name{Table: name})
			if fault.KindOf(err) != fault.Exists || !strings.Contains(fmt.Sprint(err), part) {
				t.Errorf("%s: %v, want already exists: %s", name, err, part)
			}
		}
		for _, name := range []catalog.Name{{Schema: "ns", Table: "t"}, {Schema: "ns", Table: "sub"}} {
			if _, err := c.Place(t.Context(), name); fault.KindOf(err) != fault.Exists {
				t.Errorf("%s: %v, want already exists", name, err)
			}
		}
	})
	t.Run("schemas that do not exist", func(t *testing.T) {
		_, err := c.Place(t.Context(), catalog.Name{Schema: "ns$sup", Table: "t"})
		if fault.KindOf(err) != fault.NotFound || !strings.Contains(fmt.Sprint(err), "did you mean ns$sub") {
			t.Errorf("%v, want not found", err)
		}
		if _, err := c.Place(t.Context(), catalog.Name{Catalog: "other", Table: "t"}); fault.KindOf(err) != fault.NotFound {
			t.Errorf("%v, want not found", err)
		}
	})
	t.Run("names that are refused", func(t *testing.T) {
		for _, name := range []string{"", "..", "a$b", "__manifest", "../x"} {
			if _, err := c.Place(t.Context(), catalog.Name{Table: name}); fault.KindOf(err) != fault.Invalid {
				t.Errorf("%q: %v, want invalid", name, err)
			}
		}
	})
	t.Run("a new table", func(t *testing.T) {
		for _, name := range []string{"new.one", "half"} { // half is a folder without versions
			p, err := c.Place(t.Context(), catalog.Name{Table: name})
			if err != nil {
				t.Fatal(err)
			}
			if want := filepath.Join(root, name+".lance"); p.Location.Path != want || p.Name.String() != "lance.main."+name {
				t.Errorf("%s goes to %s as %s, want %s", name, p.Location, p.Name, want)
			}
			if got := referenceTables(t, root); len(got) != len(before) {
				t.Errorf("looking for a place made one: %v", got)
			}
			tabletest.Pylance(t, `
import sys, lance, pyarrow as pa
lance.write_dataset(pa.table({"a": [1, 2, 3]}), sys.argv[1])`, p.Location.Path)
			if got := rows(t, c, name); got != 3 {
				t.Errorf("%s has %d rows", name, got)
			}
			if _, err := c.Place(t.Context(), catalog.Name{Table: name}); fault.KindOf(err) != fault.Exists {
				t.Errorf("%s again: %v, want already exists", name, err)
			}
			if err := c.DropTable(t.Context(), catalog.Name{Table: name}); err != nil {
				t.Error(err)
			}
		}
	})
	t.Run("a place in a child namespace", func(t *testing.T) {
		p, err := c.Place(t.Context(), catalog.Name{Schema: "ns$sub", Table: "new"})
		if err != nil {
			t.Fatal(err)
		}
		if folder := filepath.Base(p.Location.Path); !regexp.MustCompile(`^[0-9a-f]{8}_ns\$sub\$new$`).MatchString(folder) {
			t.Errorf("it is %s", folder)
		}
		if _, err := c.Place(t.Context(), catalog.Name{Schema: "ns$sub", Table: strings.Repeat("n", 240)}); fault.KindOf(err) != fault.Invalid {
			t.Errorf("names that are too long together: %v", err)
		}
	})
	t.Run("drops", func(t *testing.T) {
		for _, name := range []string{"plain", "off"} {
			if err := c.DropTable(t.Context(), catalog.Name{Table: name}); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if err := c.DropTable(t.Context(), catalog.Name{Table: name}); fault.KindOf(err) != fault.NotFound {
				t.Errorf("%s again: %v, want not found", name, err)
			}
		}
		for _, name := range []catalog.Name{{Table: "registered"}, {Schema: "ns", Table: "t"}} {
			if err := c.DropTable(t.Context(), name); fault.KindOf(err) != fault.Precondition || !strings.Contains(fmt.Sprint(err), "registered") {
				t.Errorf("%s: %v, want a precondition", name, err)
			}
		}
		for _, name := range []string{"declared", "hidden", "file", "ghost", "__manifest", "folder", "plain"} {
			if err := c.DropTable(t.Context(), catalog.Name{Table: name}); fault.KindOf(err) != fault.NotFound {
				t.Errorf("%s: %v, want not found", name, err)
			}
		}
	})
	var want []string
	for _, name := range before {
		if name != "plain" && name != "off" && name != "half" {
			want = append(want, name)
		}
	}
	if diff := cmp.Diff(want, referenceTables(t, root)); diff != "" {
		t.Errorf("pylance lists (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff([]string{"lance.main.Plain", "lance.main.registered", "lance.ns.t", "lance.ns$sub.t"}, names(t, c)); diff != "" {
		t.Errorf("tables (-want +got)\n%s", diff)
	}
	if got := rows(t, c, "Plain"); got != 5 {
		t.Errorf("a table of a similar name has %d rows", got)
	}
}

// TestAliases keeps folders that rows of other names point at.
func TestAliases(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	copyTable(t, filepath.Join(root, "real.lance"))
	at := func(s string) *string { return &s }
	writeManifest(t, root, []row{{"alias", "table", at("real.lance")}, {"soon", "table", at("later.lance")}}, nil)
	c := open(t, tabletest.Env(t, root), catalog.Root{URI: root})
	if err := c.DropTable(t.Context(), catalog.Name{Table: "real"}); fault.KindOf(err) != fault.Precondition || !strings.Contains(fmt.Sprint(err), "registered as alias") {
		t.Errorf("%v, want a precondition", err)
	}
	if got := rows(t, c, "alias"); got != 7 {
		t.Errorf("%d rows", got)
	}
	if _, err := c.Place(t.Context(), catalog.Name{Table: "later"}); fault.KindOf(err) != fault.Exists || !strings.Contains(fmt.Sprint(err), "that of table soon") {
		t.Errorf("%v, want already exists", err)
	}
}
