package catalog_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"

	"github.com/flightblob/flightblob/catalog"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/table"
	"github.com/flightblob/flightblob/table/tabletest"
)

// create makes a table with n rows.
func create(t *testing.T, c *catalog.Catalog, name catalog.Name, n int) error {
	t.Helper()
	tab, err := c.NewTable(t.Context(), name)
	if err != nil {
		return err
	}
	return fill(t, tab, n)
}

func fill(t *testing.T, tab *table.Table, n int) error {
	t.Helper()
	schema := arrow.NewSchema([]arrow.Field{{Name: "a", Type: arrow.PrimitiveTypes.Int64}}, nil)
	w, err := tab.Create(t.Context(), schema, table.CreateOptions{})
	if err != nil {
		return err
	}
	defer w.Abort()
	b := array.NewInt64Builder(memory.DefaultAllocator)
	defer b.Release()
	for i := range n {
		b.Append(int64(i))
	}
	column := b.NewArray()
	defer column.Release()
	batch := array.NewRecordBatch(schema, []arrow.Array{column}, int64(n))
	defer batch.Release()
	if err := w.Write(t.Context(), batch); err != nil {
		return err
	}
	_, err = w.Commit(t.Context())
	return err
}

func TestNewNames(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	c := open(t, tabletest.Env(t, root), catalog.Root{URI: root})
	for name, ok := range map[string]bool{
		"t": true, "T_1-2.x": true, "...": true, ".t": true, "-": true, "x.lance": true, strings.Repeat("n", 249): true,
		"": false, ".": false, "..": false, "__manifest": false, "a b": false, "a/b": false, "a$b": false, "é": false, "a%b": false,
		"a'b": false, `a"b`: false, "a\x00b": false, "a\nb": false, `a\b`: false, "a:b": false, "#": false, "?": false,
		strings.Repeat("n", 250): false, strings.Repeat("é", 250): false,
	} {
		_, err := c.NewTable(t.Context(), catalog.Name{Table: name})
		if ok && err != nil || !ok && (err == nil || fault.KindOf(err) != fault.Invalid) {
			t.Errorf("table %q: %v", name, err)
		}
		if !ok && name != "a$b" {
			for _, path := range []string{name, "x$" + name, name + "$x"} {
				if err := c.CreateSchema(t.Context(), catalog.Schema{Name: path}); err == nil || fault.KindOf(err) != fault.Invalid {
					t.Errorf("schema %q: %v", path, err)
				}
			}
		}
	}
	for _, name := range []string{"information_schema", "PG_CATALOG", "temp"} {
		if err := c.CreateSchema(t.Context(), catalog.Schema{Name: name}); err == nil || fault.KindOf(err) != fault.Invalid {
			t.Errorf("schema %q: %v", name, err)
		}
	}
	if entries, err := os.ReadDir(root); err != nil || len(entries) != 0 {
		t.Errorf("%v was made, %v", entries, err)
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

// reference runs a script with ns, the directory namespace of a root, and
// answers the JSON that it prints.
func reference(t *testing.T, root, script string) any {
	t.Helper()
	out := tabletest.Pylance(t, `
import sys, json, lance, pyarrow as pa
from lance.namespace import DirectoryNamespace
from lance_namespace import *
root = sys.argv[1]
ns = DirectoryNamespace(root=root)
`+script, root)
	var value any
	if len(out) == 0 {
		return nil
	}
	if err := json.Unmarshal(out, &value); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return value
}

// TestNewTables makes tables in a root that pylance's namespace keeps.
func TestNewTables(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	tabletest.Pylance(t, liveScript, root)
	env := tabletest.Env(t, root)
	c := open(t, env, catalog.Root{URI: root})
	before := referenceTables(t, root)
	for _, test := range []struct {
		name catalog.Name
		kind fault.Kind
		part string
	}{
		{catalog.Name{Table: "registered"}, fault.Exists, "is registered"},
		{catalog.Name{Table: "plain"}, fault.Exists, "exists already"},
		{catalog.Name{Table: "ghost"}, fault.Exists, "is registered"},
		{catalog.Name{Table: "declared"}, fault.Exists, "is registered"},
		{catalog.Name{Table: "hidden"}, fault.Exists, "taken off the list"},
		{catalog.Name{Table: "ns"}, fault.Exists, "a schema has its name"},
		{catalog.Name{Table: "off"}, fault.Exists, "exists already"},
		{catalog.Name{Schema: "ns", Table: "t"}, fault.Exists, "is registered"},
		{catalog.Name{Schema: "ns", Table: "sub"}, fault.Exists, "a schema has its name"},
		{catalog.Name{Schema: "ns$sup", Table: "t"}, fault.NotFound, "did you mean ns$sub"},
		{catalog.Name{Schema: "unheard-of", Table: "t"}, fault.NotFound, "CREATE SCHEMA makes one"},
		{catalog.Name{Catalog: "other", Table: "t"}, fault.NotFound, "no catalog"},
		{catalog.Name{Schema: "ns$sub", Table: strings.Repeat("n", 240)}, fault.Invalid, "bytes together"},
	} {
		if err := create(t, c, test.name, 1); fault.KindOf(err) != test.kind || !strings.Contains(fmt.Sprint(err), test.part) {
			t.Errorf("%s: %v, want %s: %s", test.name, err, test.kind, test.part)
		}
	}
	if diff := cmp.Diff(before, referenceTables(t, root)); diff != "" {
		t.Errorf("refusals changed the list (-want +got)\n%s", diff)
	}
	for i, name := range []catalog.Name{{Table: "new.one"}, {Table: "half"}, {Schema: "ns$sub", Table: "new"}, {Schema: "empty", Table: "new"}} {
		if err := create(t, c, name, i+2); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := rows(t, c, name.Schema, name.Table); got != uint64(i+2) {
			t.Errorf("%s has %d rows", name, got)
		}
		if err := create(t, c, name, 1); fault.KindOf(err) != fault.Exists {
			t.Errorf("%s again: %v, want already exists", name, err)
		}
	}
	got := reference(t, root, `
def rows(*id):
    return lance.dataset(namespace_client=ns, table_id=list(id)).count_rows()
def names(*id):
    return sorted(ns.list_tables(ListTablesRequest(id=list(id))).tables)
out = [rows("new.one"), rows("half"), rows("ns", "sub", "new"), rows("empty", "new"), names("ns", "sub"), names("empty")]
for id in (["new.one"], ["ns", "sub", "new"]):
    ns.drop_table(DropTableRequest(id=id))
print(json.dumps(out))`)
	want := []any{2.0, 3.0, 4.0, 5.0, []any{"new", "t"}, []any{"new"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pylance sees (-want +got)\n%s", diff)
	}
	wantNames := []string{
		"lance.main.Plain", "lance.main.half", "lance.main.off", "lance.main.plain", "lance.main.registered",
		"lance.empty.new", "lance.ns.t", "lance.ns$sub.t",
	}
	if diff := cmp.Diff(wantNames, names(t, c)); diff != "" {
		t.Errorf("tables after pylance dropped two (-want +got)\n%s", diff)
	}
}

// TestPlainRoots keeps a root without __manifest that way, until a schema needs
// one.
func TestPlainRoots(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	c := open(t, tabletest.Env(t, root), catalog.Root{URI: root})
	if err := create(t, c, catalog.Name{Table: "t"}, 3); err != nil {
		t.Fatal(err)
	}
	if err := create(t, c, catalog.Name{Table: "u"}, 4); err != nil {
		t.Fatal(err)
	}
	if err := c.DropTable(t.Context(), catalog.Name{Table: "t"}); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(root)
	if err != nil || len(entries) != 1 || entries[0].Name() != "u.lance" {
		t.Errorf("%v is there, %v", entries, err)
	}
	if err := c.DropSchema(t.Context(), catalog.Schema{Name: "s"}); fault.KindOf(err) != fault.NotFound {
		t.Errorf("drop an absent schema: %v", err)
	}
	if err := c.CreateSchema(t.Context(), catalog.Schema{Name: "s"}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []catalog.Name{{Schema: "s", Table: "v"}, {Table: "w"}} {
		if err := create(t, c, name, 5); err != nil {
			t.Fatal(err)
		}
	}
	got := reference(t, root, `
ds = lance.dataset(f"{root}/__manifest")
rows = [(r["object_id"], r["object_type"], r["location"] if r["object_id"] == "w" else None, r["metadata"], r["base_objects"]) for r in ds.to_table().to_pylist()]
print(json.dumps([rows, str(ds.schema), ds.data_storage_version, [f.physical_rows for f in ds.get_fragments()]]))`)
	shape := "object_id: string not null\n  -- field metadata --\n  lance-schema:unenforced-primary-key:position: '0'\nobject_type: string not null\n" +
		"location: string\nmetadata: string\nbase_objects: list<object_id: string>\n  child 0, object_id: string"
	want := []any{
		[]any{
			[]any{"s", "namespace", nil, nil, nil}, []any{"s$v", "table", nil, nil, nil}, []any{"w", "table", "w.lance", nil, nil},
		},
		shape, "2.2",
		[]any{3.0},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("__manifest (-want +got)\n%s", diff)
	}
}

// TestSchemas makes and drops schemas by turns with pylance.
func TestSchemas(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	c := open(t, tabletest.Env(t, root), catalog.Root{URI: root})
	do := func(what string, err error, kind fault.Kind, part string) {
		t.Helper()
		if err == nil || fault.KindOf(err) != kind || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: %v, want %s: %s", what, err, kind, part)
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx := t.Context()
	do("nested without a parent", c.CreateSchema(ctx, catalog.Schema{Name: "a$b"}), fault.NotFound, `no schema "a"`)
	must(c.CreateSchema(ctx, catalog.Schema{Name: "a"}))
	must(c.CreateSchema(ctx, catalog.Schema{Catalog: "lance", Name: "a$b"}))
	do("twice", c.CreateSchema(ctx, catalog.Schema{Name: "a$b"}), fault.Exists, "a$b exists already")
	do("main", c.CreateSchema(ctx, catalog.Schema{Name: "main"}), fault.Exists, "every catalog has it")
	do("another catalog", c.CreateSchema(ctx, catalog.Schema{Catalog: "x", Name: "a"}), fault.NotFound, "no catalog")
	must(create(t, c, catalog.Name{Table: "t"}, 1))
	do("a table's name", c.CreateSchema(ctx, catalog.Schema{Name: "t"}), fault.Exists, "a table is registered")
	got := reference(t, root, `
ns.create_namespace(CreateNamespaceRequest(id=["theirs"], properties={"k": "v"}))
ns.create_namespace(CreateNamespaceRequest(id=["a", "b", "c"]))
lance.write_dataset(pa.table({"a": [1, 2]}), namespace_client=ns, table_id=["a", "b", "t"])
def names(*id):
    return sorted(ns.list_namespaces(ListNamespacesRequest(id=list(id))).namespaces)
print(json.dumps([names(), names("a"), names("a", "b")]))`)
	if diff := cmp.Diff([]any{[]any{"a", "theirs"}, []any{"b"}, []any{"c"}}, got); diff != "" {
		t.Errorf("pylance's namespaces (-want +got)\n%s", diff)
	}
	do("one with a table", c.DropSchema(ctx, catalog.Schema{Name: "a$b"}), fault.Precondition, "holds schema a$b$c, table t")
	do("one with schemas", c.DropSchema(ctx, catalog.Schema{Name: "a"}), fault.Precondition, "schema a$b")
	do("main", c.DropSchema(ctx, catalog.Schema{Name: "main"}), fault.Precondition, "right under the root")
	do("a typing mistake", c.DropSchema(ctx, catalog.Schema{Name: "their"}), fault.NotFound, "did you mean theirs?")
	do("another catalog", c.DropSchema(ctx, catalog.Schema{Catalog: "x", Name: "a"}), fault.NotFound, "no catalog")
	must(c.DropSchema(ctx, catalog.Schema{Name: "a$b$c"}))
	must(c.DropTable(ctx, catalog.Name{Schema: "a$b", Table: "t"}))
	must(c.DropSchema(ctx, catalog.Schema{Name: "a$b"}))
	must(c.DropSchema(ctx, catalog.Schema{Name: "a"}))
	if diff := cmp.Diff([]string{"lance.main", "lance.theirs"}, schemas(t, c)); diff != "" {
		t.Errorf("schemas (-want +got)\n%s", diff)
	}
	got = reference(t, root, `
out = [sorted(ns.list_namespaces(ListNamespacesRequest(id=[])).namespaces), ns.describe_namespace(DescribeNamespaceRequest(id=["theirs"])).properties]
ns.drop_namespace(DropNamespaceRequest(id=["theirs"]))
ns.drop_table(DropTableRequest(id=["t"]))
print(json.dumps(out))`)
	if diff := cmp.Diff([]any{[]any{"theirs"}, map[string]any{"k": "v"}}, got); diff != "" {
		t.Errorf("pylance sees (-want +got)\n%s", diff)
	}
	entries, err := os.ReadDir(root)
	if err != nil || len(entries) != 1 {
		t.Errorf("%v is left, %v", entries, err)
	}
	if got := append(schemas(t, c), names(t, c)...); len(got) != 1 {
		t.Errorf("%v is left", got)
	}
}

// TestDropTables drops what a root may hold.
func TestDropTables(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	tabletest.Pylance(t, liveScript, root)
	c := open(t, tabletest.Env(t, root), catalog.Root{URI: root})
	for _, name := range []catalog.Name{{Table: "plain"}, {Table: "off"}, {Table: "registered"}, {Schema: "ns", Table: "t"}, {Table: "ghost"}, {Table: "declared"}} {
		if err := c.DropTable(t.Context(), name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := c.DropTable(t.Context(), name); fault.KindOf(err) != fault.NotFound {
			t.Errorf("%s again: %v, want not found", name, err)
		}
	}
	for _, name := range []string{"hidden", "file", "__manifest", "folder", "half"} {
		if err := c.DropTable(t.Context(), catalog.Name{Table: name}); fault.KindOf(err) != fault.NotFound {
			t.Errorf("%s: %v, want not found", name, err)
		}
	}
	if diff := cmp.Diff([]string{"lance.main.Plain", "lance.ns$sub.t"}, names(t, c)); diff != "" {
		t.Errorf("tables (-want +got)\n%s", diff)
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, e := range entries {
		name := e.Name()
		if i := strings.Index(name, "_ns$"); i > 0 {
			name = name[i:]
		}
		left = append(left, name)
	}
	slices.Sort(left)
	if diff := cmp.Diff([]string{"Plain.lance", "__manifest", "_ns$sub$t", "file.lance", "folder", "half.lance", "hidden.lance"}, left); diff != "" {
		t.Errorf("files (-want +got)\n%s", diff)
	}
	// The names are free for pylance, too.
	got := reference(t, root, `
for id in (["registered"], ["ghost"], ["ns", "t"]):
    lance.write_dataset(pa.table({"a": [1, 2]}), namespace_client=ns, table_id=id)
print(json.dumps(sorted(ns.list_tables(ListTablesRequest(id=[])).tables)))`)
	if list, ok := got.([]any); !ok || !slices.Contains(list, any("registered")) || !slices.Contains(list, any("ghost")) || slices.Contains(list, any("plain")) {
		t.Errorf("pylance lists %v", got)
	}
	if rows(t, c, "registered") != 2 || rows(t, c, "ns", "t") != 2 {
		t.Error("pylance's new tables have other rows")
	}
}

// TestEditsRace changes one __manifest from several sides at the same time.
func TestEditsRace(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	const sides, each = 4, 8
	catalogs := make([]*catalog.Catalog, sides)
	for i := range catalogs {
		catalogs[i] = open(t, tabletest.Env(t, root), catalog.Root{URI: root})
	}
	var wg sync.WaitGroup
	var wins atomic.Int64
	for i, c := range catalogs {
		wg.Go(func() {
			for n := range each {
				if err := c.CreateSchema(t.Context(), catalog.Schema{Name: fmt.Sprintf("s%d-%d", i, n)}); err != nil {
					t.Errorf("side %d: %v", i, err)
				}
				switch err := c.CreateSchema(t.Context(), catalog.Schema{Name: fmt.Sprintf("all-%d", n)}); {
				case err == nil:
					wins.Add(1)
				case fault.KindOf(err) != fault.Exists:
					t.Errorf("side %d: %v", i, err)
				}
				if n%3 == 2 {
					if err := c.DropSchema(t.Context(), catalog.Schema{Name: fmt.Sprintf("s%d-%d", i, n)}); err != nil {
						t.Errorf("side %d: %v", i, err)
					}
				}
			}
		})
	}
	wg.Go(func() {
		reference(t, root, `
import time
for i in range(200):
    try:
        lance.dataset(f"{root}/__manifest")
        break
    except ValueError:
        time.sleep(0.1)
for n in range(8):
    ns.create_namespace(CreateNamespaceRequest(id=[f"theirs-{n}"]))`)
	})
	wg.Wait()
	if wins.Load() != each {
		t.Errorf("%d names had %d winners", each, wins.Load())
	}
	want := []string{"lance.main"}
	for n := range each {
		want = append(want, fmt.Sprintf("lance.all-%d", n))
	}
	for i := range sides {
		for n := range each {
			if n%3 != 2 {
				want = append(want, fmt.Sprintf("lance.s%d-%d", i, n))
			}
		}
	}
	for n := range 8 {
		want = append(want, fmt.Sprintf("lance.theirs-%d", n))
	}
	if diff := cmp.Diff(want, schemas(t, catalogs[0])); diff != "" {
		t.Errorf("schemas (-want +got)\n%s", diff)
	}
	got := reference(t, root, `
ids = lance.dataset(f"{root}/__manifest").to_table()["object_id"].to_pylist()
print(json.dumps(len(ids) - len(set(ids))))`)
	if got != 0.0 {
		t.Errorf("%v object ids are there twice", got)
	}
}

// TestOneCreator lets two create the same table of a schema.
func TestOneCreator(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	c := open(t, tabletest.Env(t, root), catalog.Root{URI: root})
	if err := c.CreateSchema(t.Context(), catalog.Schema{Name: "s"}); err != nil {
		t.Fatal(err)
	}
	name := catalog.Name{Schema: "s", Table: "t"}
	first, err := c.NewTable(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	second, err := c.NewTable(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	if err := fill(t, first, 1); err != nil {
		t.Fatal(err)
	}
	if err := fill(t, second, 2); fault.KindOf(err) != fault.Exists {
		t.Errorf("the second: %v, want already exists", err)
	}
	if got := rows(t, c, "s", "t"); got != 1 {
		t.Errorf("%d rows, want those of the first", got)
	}
	folder := func(tab *table.Table) error { _, err := os.Stat(tab.Root().Path); return err }
	if folder(first) != nil || folder(second) == nil {
		t.Errorf("folders: %v and %v, want the first one only", folder(first), folder(second))
	}
}

// TestForeignManifest keeps columns and settings that are not known here, and
// refuses to write where that cannot be right.
func TestForeignManifest(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, script string
		kind         fault.Kind
		fails        bool
	}{
		{"more columns", `ds.add_columns(pa.table({"extra": ["kept", "kept"]}).to_reader())`, 0, false},
		{"a column that needs a value", `ds.add_columns({"extra": "cast('kept' as string)"})`, fault.Unsupported, true},
		{"table metadata", `ds.update_metadata({"mine": "kept"})`, 0, false},
		{"writer flags", `ds.update_metadata({"lance.namespace.manifest.writer_feature_flags": "2"})`, fault.Unsupported, true},
		{"no flags", `ds.update_metadata({"lance.namespace.manifest.writer_feature_flags": "0"})`, 0, false},
		{"deleted rows", `ds.delete("object_id = 'gone'")`, 0, false},
		{"several fragments", `lance.write_dataset(pa.table({"object_id": ["more"], "object_type": ["namespace"]}, schema=pa.schema([pa.field("object_id", pa.string(), False), pa.field("object_type", pa.string(), False)])), ds.uri, mode="append")`, 0, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			reference(t, root, `
for name in ("old", "gone"):
    ns.create_namespace(CreateNamespaceRequest(id=[name]))
ds = lance.dataset(f"{root}/__manifest")
`+test.script)
			c := open(t, tabletest.Env(t, root), catalog.Root{URI: root})
			err := c.CreateSchema(t.Context(), catalog.Schema{Name: "new"})
			if test.fails {
				if fault.KindOf(err) != test.kind {
					t.Errorf("%v, want %s", err, test.kind)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got := reference(t, root, `
ds = lance.dataset(f"{root}/__manifest")
out = {r["object_id"]: r.get("extra") for r in ds.to_table().to_pylist()}
print(json.dumps([out, ds.metadata.get("mine") if isinstance(ds.metadata, dict) else None]))`)
			ids := map[string]any{"old": nil, "gone": nil, "new": nil}
			var mine any
			switch test.name {
			case "more columns":
				ids["old"], ids["gone"] = "kept", "kept"
			case "table metadata":
				mine = "kept"
			case "deleted rows":
				delete(ids, "gone")
			case "several fragments":
				ids["more"] = nil
			}
			if diff := cmp.Diff([]any{ids, mine}, got); diff != "" {
				t.Errorf("rows and settings (-want +got)\n%s", diff)
			}
		})
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
	if err := c.DropTable(t.Context(), catalog.Name{Table: "real"}); fault.KindOf(err) != fault.Precondition || !strings.Contains(fmt.Sprint(err), "registered as table alias") {
		t.Errorf("%v, want a precondition", err)
	}
	if got := rows(t, c, "alias"); got != 7 {
		t.Errorf("%d rows", got)
	}
	if _, err := c.NewTable(t.Context(), catalog.Name{Table: "later"}); fault.KindOf(err) != fault.Exists || !strings.Contains(fmt.Sprint(err), "that of table soon") {
		t.Errorf("%v, want already exists", err)
	}
}
