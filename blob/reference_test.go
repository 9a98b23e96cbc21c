package blob

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"

	"github.com/flightblob/flightblob/datafile"
	"github.com/flightblob/flightblob/encoding"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/objstore/storetest"
	"github.com/flightblob/flightblob/schema"
	"github.com/flightblob/flightblob/table/manifest"
)

// stored is a table for both sides to store.
type stored struct {
	name    string
	fields  []arrow.Field
	meta    map[string]string
	batches []arrow.RecordBatch
	version string
	bases   []manifest.Base
	outside bool
	ingest  bool
	pack    uint64
	target  *manifest.Base // where the data file goes, in its own folder for each side
}

// reference has the reference store tables below dir, as NAME.lance. It gives
// its descriptors, and its words where it refused.
func reference(t *testing.T, dir string, tables []stored) (map[string]arrow.RecordBatch, map[string]string) {
	t.Helper()
	python := storetest.Python(t, "lance")
	for _, c := range tables {
		var stream bytes.Buffer
		m := arrow.MetadataFrom(c.meta)
		s := arrow.NewSchema(c.fields, &m)
		w := ipc.NewWriter(&stream, ipc.WithSchema(s))
		for _, b := range c.batches {
			if err := w.Write(array.NewRecordBatch(s, b.Columns(), b.NumRows())); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		options := map[string]any{"data_storage_version": c.version}
		if c.outside {
			options["allow_external_blob_outside_bases"] = true
		}
		if c.ingest {
			options["external_blob_mode"] = "ingest"
		}
		if c.pack > 0 {
			options["blob_pack_file_size_threshold"] = c.pack
		}
		var bases []any
		if c.target != nil {
			b := *c.target
			b.Path = filepath.Join(dir, c.name+".lance.target")
			c.bases = append(slices.Clip(c.bases), b)
			options["target_bases"] = []string{fmt.Sprint("base", b.ID)}
		}
		for _, b := range c.bases {
			bases = append(bases, []any{b.Path, fmt.Sprint("base", b.ID), b.IsDatasetRoot, b.ID})
		}
		if bases != nil {
			options["bases"] = bases
		}
		text, err := json.Marshal(options)
		if err != nil {
			t.Fatal(err)
		}
		for ext, data := range map[string][]byte{".arrow": stream.Bytes(), ".json": text} {
			if err := os.WriteFile(filepath.Join(dir, c.name+ext), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	cmd := exec.CommandContext(t.Context(), python, "testdata/reference.py", dir)
	var words bytes.Buffer
	cmd.Stderr = &words
	result, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, words.String())
	}
	shown, refused := map[string]arrow.RecordBatch{}, map[string]string{}
	for lines := bufio.NewScanner(bytes.NewReader(result)); lines.Scan(); {
		var answer struct{ Name, Error string }
		if err := json.Unmarshal(lines.Bytes(), &answer); err != nil {
			t.Fatal(err)
		}
		if answer.Error != "" {
			refused[answer.Name] = answer.Error
			continue
		}
		shown[answer.Name] = readStream(t, filepath.Join(dir, answer.Name+".out"))
	}
	if len(shown)+len(refused) != len(tables) {
		t.Fatalf("the reference answered for %d of %d tables", len(shown)+len(refused), len(tables))
	}
	return shown, refused
}

// readStream reads all batches of a file as one.
func readStream(t *testing.T, path string) arrow.RecordBatch {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	r, err := ipc.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	var batches []arrow.RecordBatch
	for r.Next() {
		r.RecordBatch().Retain()
		batches = append(batches, r.RecordBatch())
	}
	if r.Err() != nil || len(batches) == 0 {
		t.Fatalf("%s: %d batches, %v", path, len(batches), r.Err())
	}
	return joined(t, batches)
}

func joined(t *testing.T, batches []arrow.RecordBatch) arrow.RecordBatch {
	t.Helper()
	rows := int64(0)
	for _, b := range batches {
		rows += b.NumRows()
	}
	columns := make([]arrow.Array, batches[0].NumCols())
	for i := range columns {
		var parts []arrow.Array
		for _, b := range batches {
			parts = append(parts, b.Column(i))
		}
		var err error
		if columns[i], err = array.Concatenate(parts, memory.DefaultAllocator); err != nil {
			t.Fatal(err)
		}
	}
	return array.NewRecordBatch(batches[0].Schema(), columns, rows)
}

// ours stores the same table into dir/NAME.ours, with everything that makes it
// a table.
func ours(t *testing.T, dir string, c stored) (arrow.RecordBatch, error) {
	t.Helper()
	m := arrow.MetadataFrom(c.meta)
	s, err := schema.FromArrow(arrow.NewSchema(c.fields, &m), schema.FromOptions{FileVersion: c.version})
	if err != nil {
		t.Fatal(err)
	}
	registry := objstore.NewRegistry(objstore.Options{})
	defer registry.Close()
	at := func(elem ...string) objstore.Location {
		loc, err := registry.Locate(t.Context(), filepath.Join(append([]string{dir, c.name + ".ours"}, elem...)...))
		if err != nil {
			t.Fatal(err)
		}
		return loc
	}
	policy := Policy{PackLimit: c.pack, Bases: basesOf(c.bases...), URIs: URIPolicy{AllowOutside: c.outside, Locate: registry.Locator(objstore.NewAccess("*"))}}
	if c.ingest {
		policy.URIs.Mode = Ingest
	}
	if policy.Managed, err = schema.Managed(c.meta); err != nil {
		t.Fatal(err)
	}
	owner := &Owner{File: at("data", "f.lance"), Key: "f", Dir: at("data"), Base: at()}
	if c.target != nil {
		b := *c.target
		root := c.name + ".ours.target"
		b.Path = filepath.Join(dir, root)
		c.bases = append(slices.Clip(c.bases), b)
		policy.Bases, policy.TargetBase = basesOf(c.bases...), &b.ID
		in := func(elem ...string) objstore.Location { return at(append([]string{"..", root}, elem...)...) }
		data := []string{}
		if b.IsDatasetRoot { // RES-2
			data = []string{"data"}
		}
		owner = &Owner{File: in(append(data, "f.lance")...), Key: "f", Dir: in(data...), Base: in(), BaseID: &b.ID}
	}
	sink, err := owner.File.Create(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	version := encoding.V2_2
	if c.version == "2.3" {
		version = encoding.V2_3
	}
	file, err := datafile.NewWriter(sink, s, datafile.WriterOptions{Version: version})
	if err != nil {
		t.Fatal(err)
	}
	defer file.Abort()
	p, err := NewPlacer(t.Context(), policy, owner, file)
	if err != nil {
		t.Fatal(err)
	}
	var out []arrow.RecordBatch
	for _, b := range c.batches {
		in, err := AsInputs(s, b, nil)
		if err != nil {
			p.Abort(t.Context())
			return nil, err
		}
		placed, err := p.Place(t.Context(), memory.DefaultAllocator, in)
		in.Release()
		if err != nil {
			p.Abort(t.Context())
			return nil, err
		}
		if err := file.Write(t.Context(), placed); err != nil {
			t.Fatal(err)
		}
		out = append(out, placed)
	}
	if err := p.Commit(t.Context()); err != nil {
		p.Abort(t.Context())
		return nil, err
	}
	summary, err := file.Commit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	publish(t, at, s, c, summary, policy.TargetBase)
	return joined(t, out), nil
}

// publish writes the manifest of a table of one file.
func publish(t *testing.T, at func(...string) objstore.Location, s *schema.Schema, c stored, summary datafile.Summary, base *uint32) {
	t.Helper()
	tx := &manifest.Transaction{UUID: "00000000-0000-4000-8000-000000000000", Op: &manifest.Overwrite{
		Schema: s, InitialBases: c.bases,
		Fragments: []manifest.Fragment{{PhysicalRows: summary.Rows, Files: []manifest.DataFile{{
			Path: "f.lance", Fields: summary.Fields, Columns: summary.Columns, Major: summary.Major, Minor: summary.Minor, Size: uint64(summary.Size), BaseID: base,
		}}}},
	}}
	m, err := manifest.Apply(nil, tx, manifest.ApplyOptions{Now: time.Unix(1700000000, 0), Format: c.version})
	if err != nil {
		t.Fatal(err)
	}
	data, err := m.Encode(nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := at("_versions", manifest.Name(1, manifest.V2)).PutIfAbsent(t.Context(), data); err != nil {
		t.Fatal(err)
	}
}

// readBack has the reference read the tables that ours wrote, beside its own.
func readBack(t *testing.T, dir string) map[string]seenBy {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), storetest.Python(t, "lance"), "testdata/reference.py", dir, "read")
	var words bytes.Buffer
	cmd.Stderr = &words
	result, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, words.String())
	}
	out := map[string]seenBy{}
	for lines := bufio.NewScanner(bytes.NewReader(result)); lines.Scan(); {
		var answer seenBy
		if err := json.Unmarshal(lines.Bytes(), &answer); err != nil {
			t.Fatal(err)
		}
		out[answer.Name] = answer
	}
	return out
}

// seenBy is what the reference says about a table of ours: whether it sees
// what it sees in its own.
type seenBy struct {
	Name, Error        string
	Descriptors, Bytes bool
	Read               bool // bytes could be read at all
}

var uuidName = regexp.MustCompile(`_blobs/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.blob`)

// values prints the columns of a batch, managed objects numbered as they come,
// and gives their names in that order.
func values(t *testing.T, b arrow.RecordBatch) (text string, objects []string) {
	t.Helper()
	var out strings.Builder
	for i, c := range b.Columns() {
		data, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "%s %s\n", b.ColumnName(i), strings.ReplaceAll(string(data), "},{", "},\n{"))
	}
	text = uuidName.ReplaceAllStringFunc(out.String(), func(name string) string {
		n := slices.Index(objects, name)
		if n < 0 {
			n = len(objects)
			objects = append(objects, name)
		}
		return fmt.Sprintf("object %d", n)
	})
	return text, objects
}

// sidecars reads the objects beside the data file of a table.
func sidecars(t *testing.T, root string, managed []string) map[string]string {
	t.Helper()
	out := map[string]string{}
	var names []string
	for _, pattern := range []string{"data/*/*.blob", "../" + filepath.Base(root) + ".target/*/*.blob", "../" + filepath.Base(root) + ".target/data/*/*.blob"} {
		more, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, more...)
	}
	digest := func(name string) string {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%d bytes, %x", len(data), sha256.Sum256(data))
	}
	for _, name := range names {
		if filepath.Base(filepath.Dir(name)) != ManagedDir {
			out[filepath.Base(name)] = digest(name)
		}
	}
	all, err := filepath.Glob(filepath.Join(root, "_blobs/*"))
	if err != nil {
		t.Fatal(err)
	}
	more, err := filepath.Glob(root + ".target/_blobs/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(all, more...) {
		n := slices.Index(managed, "_blobs/"+filepath.Base(name))
		out[fmt.Sprintf("object %d", n)] = digest(name)
	}
	return out
}

// TestPlaceAgainstReference stores random tables by both sides: thresholds,
// nestings, batches, columns, bases, modes. Kinds, ids, positions, sizes, URIs,
// and the bytes and names of all sidecars are the same.
func TestPlaceAgainstReference(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 2))
	dir := t.TempDir()
	ext := filepath.Join(dir, "ext é")
	for name, n := range map[string]int{"a.bin": 700, "sub/b c.bin": 900, "empty": 0} {
		path := filepath.Join(ext, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, payload(n, n), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var tables []stored
	for i := range 30 {
		tables = append(tables, randomTable(t, rng, fmt.Sprintf("t%02d", i), ext))
	}
	theirs, refused := reference(t, dir, tables)
	kinds := map[string]int{}
	for _, c := range tables {
		t.Run("LEG-3 EXT-4 WRT-1 PCK-4 PCK-8 "+c.name, func(t *testing.T) {
			got, err := ours(t, dir, c)
			if err != nil || refused[c.name] != "" {
				t.Fatalf("seed %d: the reference says %q, we say %v", seed, refused[c.name], err)
			}
			want, theirObjects := values(t, theirs[c.name])
			have, ourObjects := values(t, got)
			for _, k := range regexp.MustCompile(`"kind":\d`).FindAllString(have, -1) {
				kinds[k]++
			}
			if diff := cmp.Diff(strings.Split(want, "\n"), strings.Split(have, "\n")); diff != "" {
				t.Errorf("seed %d: %+v\n%s", seed, c, diff)
			}
			if diff := cmp.Diff(sidecars(t, filepath.Join(dir, c.name+".lance"), theirObjects), sidecars(t, filepath.Join(dir, c.name+".ours"), ourObjects)); diff != "" {
				t.Errorf("seed %d: %s", seed, diff)
			}
		})
	}
	read := 0
	for name, seen := range readBack(t, dir) {
		if seen.Read {
			read++
		}
		managed := slices.ContainsFunc(tables, func(c stored) bool { return c.name == name && c.meta != nil })
		if seen.Error != "" || !seen.Bytes || !seen.Descriptors && !managed { // managed objects have names of their own
			t.Errorf("seed %d: the reference reads %+v in ours", seed, seen)
		}
	}
	if read < 10 {
		t.Errorf("the bytes of %d tables only were read", read)
	}
	if len(kinds) != 6 {
		t.Errorf("only these kinds were compared: %v", kinds)
	}
}

func randomTable(t *testing.T, rng *rand.Rand, name, ext string) stored {
	t.Helper()
	c := stored{name: name, version: []string{"2.2", "2.3"}[rng.IntN(2)], ingest: rng.IntN(3) == 0}
	c.outside = !c.ingest && rng.IntN(2) == 0
	if rng.IntN(3) == 0 {
		c.meta = map[string]string{schema.KeyManaged: "true"}
	}
	if rng.IntN(3) == 0 {
		c.pack = uint64(1 + rng.IntN(500))
	}
	if !c.outside || rng.IntN(2) == 0 {
		c.bases = []manifest.Base{{ID: 1, Path: ext}}
		if rng.IntN(2) == 0 {
			c.bases = append(c.bases, manifest.Base{ID: 5 + rng.Uint32N(1000), Path: "file://" + objstore.EscapePath(ext+"/sub")})
		}
		if rng.IntN(2) == 0 {
			c.bases = append(c.bases, manifest.Base{ID: 3, Path: ext + "/sub/deep", IsDatasetRoot: true})
		}
	}
	if rng.IntN(4) == 0 {
		c.target = &manifest.Base{ID: 2000 + rng.Uint32N(1000), IsDatasetRoot: rng.IntN(2) == 0}
	}
	c.fields = []arrow.Field{field("id", arrow.PrimitiveTypes.Int32)}
	for i := range 1 + rng.IntN(3) {
		f := limited(fmt.Sprint("b", i), uint64(rng.IntN(3)*50), uint64(1+rng.IntN(3)*90), uint64(1+rng.IntN(4)*150))
		if rng.IntN(3) == 0 {
			f.Type = minimal
		}
		if rng.IntN(8) == 0 { // the defaults
			f.Metadata = mark
		}
		if rng.IntN(4) == 0 { // LEG-2, LEG-3: bytes with the mark of older files
			m := f.Metadata.ToMap()
			delete(m, schema.KeyExtensionName)
			m[schema.KeyBlob] = "true"
			f.Type, f.Metadata = []arrow.DataType{arrow.BinaryTypes.Binary, arrow.BinaryTypes.LargeBinary}[rng.IntN(2)], arrow.MetadataFrom(m)
		}
		switch rng.IntN(6) {
		case 0:
			f = field(f.Name, structure(field("x", arrow.PrimitiveTypes.Int8), f))
		case 1:
			f.Name = "item"
			f = field(fmt.Sprint("b", i), list(f))
		case 2:
			f = field(f.Name, large(field("item", structure(f, field("y", arrow.BinaryTypes.String)))))
		case 3:
			f = field(f.Name, structure(field("l", list(field("item", list(f))))))
		}
		c.fields = append(c.fields, f)
	}
	for range 1 + rng.IntN(3) {
		var rows []any
		for row := range 1 + rng.IntN(25) {
			one := map[string]any{}
			for _, f := range c.fields {
				// The reference cannot read lists of blobs of which none is there.
				one[f.Name] = randomValue(rng, f, ext, row == 0, &c)
			}
			rows = append(rows, one)
		}
		text, err := json.Marshal(rows)
		if err != nil {
			t.Fatal(err)
		}
		c.batches = append(c.batches, batchOf(t, string(text), c.fields...))
	}
	return c
}

// randomValue gives a value as JSON; visible ones hold something.
func randomValue(rng *rand.Rand, f arrow.Field, ext string, visible bool, c *stored) any {
	if f.HasMetadata() && f.Metadata.FindKey(schema.KeyExtensionName) >= 0 {
		return randomBlob(rng, f, ext, visible, c)
	}
	if f.HasMetadata() && f.Metadata.FindKey(schema.KeyBlob) >= 0 {
		if !visible && rng.IntN(8) == 0 {
			return nil
		}
		return base64.StdEncoding.EncodeToString(payload(rng.IntN(300), rng.IntN(1000)))
	}
	if !visible && rng.IntN(6) == 0 {
		return nil
	}
	switch dt := f.Type.(type) {
	case *arrow.StructType:
		out := map[string]any{}
		for _, child := range dt.Fields() {
			out[child.Name] = randomValue(rng, child, ext, visible, c)
		}
		return out
	case arrow.ListLikeType:
		n := rng.IntN(4)
		if visible {
			n++
		}
		out := make([]any, n)
		for i := range out {
			out[i] = randomValue(rng, dt.ElemField(), ext, visible && i == 0, c)
		}
		return out
	case *arrow.StringType:
		return "text"
	}
	return rng.IntN(100)
}

func randomBlob(rng *rand.Rand, f arrow.Field, ext string, visible bool, c *stored) any {
	kind := rng.IntN(10)
	if visible {
		kind = 3 + rng.IntN(6)
	}
	switch {
	case kind == 0:
		return nil
	case kind < 7:
		n := []int{0, 1, 49, 50, 51, 90, 91, 100, 101, 150, 151, 181, 300, 301, 452}[rng.IntN(15)]
		return map[string]any{"data": base64.StdEncoding.EncodeToString(payload(n, rng.IntN(1000)))}
	}
	name, size := "a.bin", 700
	if rng.IntN(2) == 0 {
		name, size = "sub/b c.bin", 900
	}
	if c.ingest && rng.IntN(10) == 0 {
		return map[string]any{"uri": "file://" + ext + "/empty"}
	}
	uri := "file://" + ext + "/" + name
	switch rng.IntN(4) {
	case 0:
		uri = "file://" + objstore.EscapePath(ext+"/"+name)
	case 1:
		if len(c.bases) > 0 {
			uri = ext + "/" + name
		}
	}
	if c.outside && rng.IntN(3) == 0 {
		uri = []string{"s3://bucket/some é/key", "FILE:///x/./y z", "file:///x/%41"}[rng.IntN(3)]
	}
	out := map[string]any{"uri": uri}
	if f.Type.(*arrow.StructType).NumFields() == 4 && rng.IntN(2) == 0 {
		position := rng.IntN(size)
		out["position"], out["size"] = position, 1+rng.IntN(size-position)
	}
	return out
}

// TestRefusalsAgainstReference gives single values of every make to both sides:
// they refuse the same ones.
func TestRefusalsAgainstReference(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	positions := []any{nil, 0, json.Number("18446744073709551614"), json.Number("18446744073709551615")}
	sizes := []any{nil, 0, 1, 2}
	var tables []stored
	for _, data := range []any{nil, "", "YQ=="} {
		for _, uri := range []any{nil, "", "file:///x/y", "rel/x", "/x/y"} {
			for _, position := range positions {
				for _, size := range sizes {
					if (position != nil || size != nil) && uri == "rel/x" {
						continue
					}
					row, err := json.Marshal([]any{map[string]any{"b": map[string]any{"data": data, "uri": uri, "position": position, "size": size}}})
					if err != nil {
						t.Fatal(err)
					}
					f := blobField("b", whole)
					tables = append(tables, stored{
						name: fmt.Sprintf("t%03d", len(tables)), fields: []arrow.Field{f}, version: "2.2", outside: len(tables)%5 > 0,
						batches: []arrow.RecordBatch{batchOf(t, string(row), f)},
					})
				}
			}
		}
	}
	_, refused := reference(t, dir, tables)
	taken := 0
	for _, c := range tables {
		_, err := ours(t, dir, c)
		words := refused[c.name]
		if (err == nil) != (words == "") {
			t.Errorf("%v, outside %v: the reference says %q, we say %v", c.batches[0].Column(0), c.outside, words, err)
		}
		if err == nil {
			taken++
		}
	}
	if taken < 5 || taken > len(tables)/2 {
		t.Errorf("%d of %d are taken", taken, len(tables))
	}
}
