package catalog_test

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flightblob/flightblob/catalog"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/table"
	"github.com/flightblob/flightblob/table/tabletest"
)

//go:embed testdata/live.py
var liveScript string

//go:embed testdata/manifest.py
var manifestScript string

func open(t *testing.T, env *table.Env, roots ...catalog.Root) *catalog.Catalog {
	t.Helper()
	c, err := catalog.Open(t.Context(), roots, env)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func names(t *testing.T, c *catalog.Catalog) []string {
	t.Helper()
	got := []string{}
	for n, err := range c.Names(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, n.String())
	}
	return got
}

func schemas(t *testing.T, c *catalog.Catalog) []string {
	t.Helper()
	all, err := c.Schemas(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range all {
		got = append(got, s.Catalog+"."+s.Name)
	}
	return got
}

func rows(t *testing.T, c *catalog.Catalog, path ...string) uint64 {
	t.Helper()
	n, err := c.Resolve(path)
	if err != nil {
		t.Fatal(err)
	}
	tab, err := c.Table(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	return tabletest.At(t, tab, table.Ref{}).Rows()
}

// TestNamespace reads a root that pylance's DirectoryNamespace made.
func TestNamespace(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	tabletest.Pylance(t, liveScript, root)
	counter := objstore.NewCounter(objstore.CounterOptions{})
	env := tabletest.CountedEnv(t, counter, root)
	c := open(t, env, catalog.Root{URI: root})

	want := []string{
		"lance.main.Plain", "lance.main.off", "lance.main.plain", "lance.main.registered",
		"lance.ns.t", "lance.ns$sub.t",
	}
	if diff := cmp.Diff(want, names(t, c)); diff != "" {
		t.Errorf("tables (-want +got):\n%s", diff)
	}
	t.Run("listing opens no tables", func(t *testing.T) {
		for _, o := range counter.Snapshot().Objects {
			if o.Reads+o.Maps > 0 && !strings.Contains(o.URI, "/__manifest/") {
				t.Errorf("%s was read", o.URI)
			}
		}
	})
	t.Run("listing again reads nothing", func(t *testing.T) {
		before := counter.Total().Payload()
		names(t, c)
		if got := counter.Total().Payload() - before; got != 0 {
			t.Errorf("%d bytes were read", got)
		}
	})
	if diff := cmp.Diff([]string{"lance.main", "lance.empty", "lance.ns", "lance.ns$sub"}, schemas(t, c)); diff != "" {
		t.Errorf("schemas (-want +got):\n%s", diff)
	}
	for _, x := range []struct {
		path []string
		rows uint64
	}{
		{[]string{"registered"}, 1},
		{[]string{"ns", "t"}, 2},
		{[]string{"ns$sub", "t"}, 3},
		{[]string{"lance", "ns$sub", "t"}, 3},
		{[]string{"plain"}, 4},
		{[]string{"main", "Plain"}, 5},
		{[]string{"lance", "main", "off"}, 9},
	} {
		if got := rows(t, c, x.path...); got != x.rows {
			t.Errorf("%v has %d rows, want %d", x.path, got, x.rows)
		}
	}
	for _, x := range []struct {
		name  string
		path  []string
		parts []string
	}{
		{"declared only", []string{"declared"}, []string{"lance.main.declared does not exist", "holds no version or is deregistered"}},
		{"row without folder", []string{"ghost"}, []string{"lance.main.ghost does not exist"}},
		{"deregistered", []string{"hidden"}, []string{"lance.main.hidden does not exist", "holds no version or is deregistered"}},
		{"folder without versions", []string{"half"}, []string{"does not exist"}},
		{"file", []string{"file"}, []string{"does not exist"}},
		{"plain sub-folder", []string{"folder", "inside"}, []string{`no schema "folder"`}},
		{"child by id", []string{"ns$t"}, []string{"lance.main.ns$t does not exist"}},
		{"other case", []string{"PLAIN"}, []string{"did you mean", "plain", "Plain"}},
		{"typing mistake", []string{"registred"}, []string{"did you mean registered?"}},
		{"schema mistake", []string{"ns$sup", "t"}, []string{`no schema "ns$sup"`, "did you mean ns$sub"}},
		{"catalog as schema", []string{"lance", "plain"}, []string{`"lance" is a catalog`, "lance.main.plain"}},
		{"catalog", []string{"other", "main", "plain"}, []string{`no catalog "other"`, "lance"}},
		{"the manifest", []string{"__manifest"}, []string{"does not exist"}},
		{"above the root", []string{"../" + filepath.Base(root) + "/plain"}, []string{"does not exist"}},
	} {
		t.Run("missing "+x.name, func(t *testing.T) {
			n, err := c.Resolve(x.path)
			if err != nil {
				t.Fatal(err)
			}
			_, err = c.Table(t.Context(), n)
			if fault.KindOf(err) != fault.NotFound || err == nil {
				t.Fatalf("got %v, want a not found error", err)
			}
			for _, part := range x.parts {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%v does not say %q", err, part)
				}
			}
			if strings.Contains(err.Error(), root) {
				t.Errorf("%v shows a path of the server", err)
			}
		})
	}
	t.Run("what others make and drop shows at once", func(t *testing.T) {
		tabletest.Pylance(t, `
import sys, lance, pyarrow as pa
from lance.namespace import DirectoryNamespace
from lance_namespace import DropTableRequest
ns = DirectoryNamespace(root=sys.argv[1])
lance.write_dataset(pa.table({"a": range(11)}), namespace_client=ns, table_id=["ns", "late"])
ns.drop_table(DropTableRequest(id=["ns", "t"]))`, root)
		want := []string{
			"lance.main.Plain", "lance.main.off", "lance.main.plain", "lance.main.registered",
			"lance.ns.late", "lance.ns$sub.t",
		}
		if diff := cmp.Diff(want, names(t, c)); diff != "" {
			t.Errorf("tables (-want +got):\n%s", diff)
		}
		if got := rows(t, c, "ns", "late"); got != 11 {
			t.Errorf("%d rows, want 11", got)
		}
		if _, err := c.Table(t.Context(), catalog.Name{Schema: "ns", Table: "t"}); fault.KindOf(err) != fault.NotFound {
			t.Errorf("a dropped table: %v", err)
		}
	})
}

type row struct {
	ID       string  `json:"object_id"`
	Type     string  `json:"object_type"`
	Location *string `json:"location"`
}

func writeManifest(t *testing.T, root string, rows []row, metadata map[string]string) {
	t.Helper()
	r, err := json.Marshal(rows)
	if err != nil {
		t.Fatal(err)
	}
	m, err := json.Marshal(metadata)
	if err != nil {
		t.Fatal(err)
	}
	tabletest.Pylance(t, manifestScript, root, string(r), string(m))
}

// copyTable puts a small golden table somewhere.
func copyTable(t *testing.T, to string) {
	t.Helper()
	from := filepath.Join(tabletest.Root(t), "conformance", "fixtures", "tables", "kinds_basic_v22", "table.lance")
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

func TestHostileRows(t *testing.T) {
	t.Parallel()
	above := t.TempDir()
	root := filepath.Join(above, "root")
	copyTable(t, filepath.Join(above, "outside.lance"))
	copyTable(t, filepath.Join(root, "in side", "t.lance"))
	copyTable(t, filepath.Join(root, "real.lance"))
	copyTable(t, filepath.Join(root, "twice.lance"))
	at := func(s string) *string { return &s }
	writeManifest(t, root, []row{
		{"up", "table", at("../outside.lance")},
		{"inner", "table", at("in side/../../outside.lance")},
		{"absolute", "table", at(filepath.Join(above, "outside.lance"))},
		{"uri", "table", at("file://" + filepath.Join(above, "outside.lance"))},
		{"null", "table", nil},
		{"twice", "table", at("twice.lance")},
		{"twice", "table", at("real.lance")},
		{"deep", "table", at("in side/t.lance")},
		{"alias", "table", at("real.lance")},
		{"some", "view", at("real.lance")},
		{"loose$t", "table", at("in side/t.lance")},
	}, nil)
	c := open(t, tabletest.Env(t, root), catalog.Root{Name: "r", URI: root})
	want := []string{"r.main.alias", "r.main.deep", "r.main.twice", "r.loose.t"}
	if diff := cmp.Diff(want, names(t, c)); diff != "" {
		t.Errorf("tables (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"r.main", "r.loose"}, schemas(t, c)); diff != "" {
		t.Errorf("schemas (-want +got):\n%s", diff)
	}
	for _, id := range []string{"up", "inner", "absolute", "uri", "null", "twice"} {
		if _, err := c.Table(t.Context(), catalog.Name{Table: id}); fault.KindOf(err) != fault.Corrupt || !strings.Contains(fmt.Sprint(err), "location") {
			t.Errorf("%s: got %v, want a corrupt error about its location", id, err)
		}
	}
	for _, path := range [][]string{{"deep"}, {"alias"}, {"real"}, {"loose", "t"}} {
		if got := rows(t, c, path...); got != 7 {
			t.Errorf("%v has %d rows", path, got)
		}
	}
}

func TestManifestFlags(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		flags string
		kind  fault.Kind
		fails bool
	}{
		{"0", 0, false}, {"4", fault.Unsupported, true}, {"many", fault.Corrupt, true},
	} {
		t.Run(x.flags, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			copyTable(t, filepath.Join(root, "t.lance"))
			writeManifest(t, root, []row{}, map[string]string{"lance.namespace.manifest.reader_feature_flags": x.flags})
			c := open(t, tabletest.Env(t, root), catalog.Root{URI: root})
			_, err := c.Table(t.Context(), catalog.Name{Table: "t"})
			if !x.fails {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if fault.KindOf(err) != x.kind {
				t.Errorf("got %v, want a %s error", err, x.kind)
			}
			for _, err := range c.Names(t.Context()) {
				if fault.KindOf(err) != x.kind {
					t.Errorf("names: got %v, want a %s error", err, x.kind)
				}
			}
		})
	}
}

func TestLinks(t *testing.T) {
	t.Parallel()
	above := t.TempDir()
	real := filepath.Join(above, "real")
	copyTable(t, filepath.Join(real, "t.lance"))
	copyTable(t, filepath.Join(above, "outside.lance"))
	link := func(to, at string) {
		if err := os.Symlink(to, at); err != nil {
			t.Fatal(err)
		}
	}
	link(real, filepath.Join(above, "root"))
	link(filepath.Join(above, "outside.lance"), filepath.Join(real, "leak.lance"))
	link(filepath.Join(real, "t.lance"), filepath.Join(real, "again.lance"))
	root := filepath.Join(above, "root")
	c := open(t, tabletest.Env(t, root), catalog.Root{URI: root})
	if diff := cmp.Diff([]string{"lance.main.again", "lance.main.t"}, names(t, c)); diff != "" {
		t.Errorf("tables (-want +got):\n%s", diff)
	}
	if got := rows(t, c, "again"); got != 7 {
		t.Errorf("%d rows through a link inside the root", got)
	}
	if _, err := c.Table(t.Context(), catalog.Name{Table: "leak"}); fault.KindOf(err) != fault.Denied || err == nil {
		t.Errorf("a link that leads outside: got %v, want a denied error", err)
	}
}

func TestRoots(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	copyTable(t, filepath.Join(dir, "a", "t.lance"))
	copyTable(t, filepath.Join(dir, "b", "u.lance"))
	env := tabletest.Env(t, dir)
	c := open(t, env, catalog.Root{Name: "one", URI: filepath.Join(dir, "a")},
		catalog.Root{Name: "two", URI: filepath.Join(dir, "b")},
		catalog.Root{Name: "three", URI: filepath.Join(dir, "absent")})
	if diff := cmp.Diff([]string{"one.main.t", "two.main.u"}, names(t, c)); diff != "" {
		t.Errorf("tables (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"one.main", "two.main", "three.main"}, schemas(t, c)); diff != "" {
		t.Errorf("schemas (-want +got):\n%s", diff)
	}
	if rows(t, c, "t") != 7 || rows(t, c, "two", "main", "u") != 7 {
		t.Error("wrong rows")
	}
	for _, bad := range [][]catalog.Root{
		{},
		{{URI: dir}, {URI: dir}},
		{{Name: "x", URI: dir}, {Name: "X", URI: dir}},
		{{Name: "memory", URI: dir}},
		{{Name: "MAIN", URI: dir}},
		{{Name: "temp", URI: dir}},
		{{Name: "system", URI: dir}},
		{{Name: "information_schema", URI: dir}},
		{{Name: "pg_catalog", URI: dir}},
	} {
		if _, err := catalog.Open(t.Context(), bad, env); fault.KindOf(err) != fault.Invalid {
			t.Errorf("roots %v: got %v, want an invalid error", bad, err)
		}
	}
	outside := open(t, env, catalog.Root{URI: t.TempDir()})
	if _, err := outside.Table(t.Context(), catalog.Name{Table: "t"}); fault.KindOf(err) != fault.Denied || err == nil {
		t.Errorf("a root outside the access: %v", err)
	}
	for _, path := range [][]string{nil, {""}, {"a", "b", "c", "d"}, {"a", ""}} {
		if _, err := c.Resolve(path); fault.KindOf(err) != fault.Invalid {
			t.Errorf("path %q: got %v, want an invalid error", path, err)
		}
	}
	n, err := c.Resolve([]string{"", "t"})
	if want := (catalog.Name{Catalog: "one", Schema: "main", Table: "t"}); err != nil || n != want {
		t.Errorf("got %v, %v, want %v", n, err, want)
	}
}
