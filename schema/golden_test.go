package schema

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/flightblob/flightblob/internal/lancepb"
)

const fixtures = "../conformance/fixtures/tables"

// manifestRecords takes the fields of a manifest file.
func manifestRecords(t testing.TB, path string) ([]Record, map[string]string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	position := binary.LittleEndian.Uint64(data[len(data)-16:])
	m := new(lancepb.Manifest)
	if err := proto.Unmarshal(data[position+4:len(data)-16], m); err != nil {
		t.Fatal(err)
	}
	text := func(m map[string][]byte) map[string]string {
		out := map[string]string{}
		for k, v := range m {
			out[k] = string(v)
		}
		return out
	}
	var records []Record
	for _, f := range m.GetFields() {
		records = append(records, Record{
			ID: FieldID(f.GetId()), ParentID: FieldID(f.GetParentId()), Name: f.GetName(), LogicalType: f.GetLogicalType(),
			Nullable: f.GetNullable(), Extension: f.GetExtensionName(), Metadata: text(f.GetMetadata()),
		})
	}
	return records, text(m.GetSchemaMetadata())
}

// golden reads views.txt: a dump for each table and view.
func golden(t *testing.T) map[string]string {
	t.Helper()
	return sections(t, "testdata/views.txt")
}

// sections reads a file of texts with titles, "# title" before each.
func sections(t *testing.T, path string) map[string]string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	title := ""
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		if rest, ok := strings.CutPrefix(lines.Text(), "# "); ok {
			title = rest
			continue
		}
		out[title] += lines.Text() + "\n"
	}
	return out
}

// legacyDescriptor is how the reference shows an old blob column; here it has
// the five children and marks of all others (LEG-6).
var legacyDescriptor = regexp.MustCompile(`(?m)^( *)(\S+) \+s (null|notnull) \{"lance-encoding:blob":"true"\}\n +position L null \{\}\n +size L null \{\}\n`)

// orphan is extension metadata that the reference leaves behind on materialized
// columns without the extension's name (MAT-2).
var orphan = regexp.MustCompile(`(?m)^( *\S+ Z \S+ \{)"ARROW:extension:metadata":"",?`)

const uniformDescriptor = "$1$2 +s $3 {\"lance-encoding:blob\":\"true\",\"lance-encoding:packed\":\"true\"}\n" +
	"$1  kind C notnull {}\n$1  position L notnull {}\n$1  size L notnull {}\n$1  blob_id I notnull {}\n$1  blob_uri u notnull {}\n"

func TestViewsAgainstReference(t *testing.T) {
	t.Parallel()
	want := golden(t)
	paths := map[string]string{"types": "testdata/types.manifest", "legacy": "testdata/legacy.manifest"}
	tables, err := filepath.Glob(filepath.Join(fixtures, "*/*.lance"))
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range tables {
		versions, err := filepath.Glob(filepath.Join(table, "_versions/*.manifest"))
		if err != nil || len(versions) == 0 {
			t.Fatalf("no manifests in %s: %v", table, err)
		}
		title, err := filepath.Rel(fixtures, table)
		if err != nil {
			t.Fatal(err)
		}
		paths[filepath.ToSlash(title)] = versions[0] // the newest comes first
	}
	if len(want) != 2*len(paths) || len(paths) < 50 {
		t.Errorf("%d dumps for %d tables", len(want), len(paths))
	}
	views := map[string]View{
		"MAT-1 MAT-2 DESC-3 all_binary":          Materialized,
		"DESC-1 DESC-3 LEG-6 blobs_descriptions": Descriptor,
	}
	for title, path := range paths {
		records, metadata := manifestRecords(t, path)
		s, err := FromRecords(records, metadata)
		if err != nil {
			t.Fatalf("%s: %v", title, err)
		}
		for name, view := range views {
			t.Run(name+" "+title, func(t *testing.T) {
				t.Parallel()
				got, err := s.Arrow(view)
				if err != nil {
					t.Fatal(err)
				}
				handling := name[strings.LastIndexByte(name, ' ')+1:]
				text := legacyDescriptor.ReplaceAllString(want[title+" "+handling], uniformDescriptor)
				text = orphan.ReplaceAllString(text, "$1")
				if diff := cmp.Diff(text, dump(t, got)); diff != "" {
					t.Error(diff)
				}
				flat, err := s.ArrowOf(s.Columns(), view)
				if err != nil || !flat.Equal(got) {
					t.Errorf("the projection of all columns differs: %v, %v", flat, err)
				}
			})
		}
	}
}

// dump prints a schema in the words of views.txt.
func dump(t *testing.T, s *arrow.Schema) string {
	t.Helper()
	var out strings.Builder
	fmt.Fprintf(&out, "schema %s\n", metadataText(t, s.Metadata()))
	for _, f := range s.Fields() {
		dumpField(t, f, "", &out)
	}
	return out.String()
}

func dumpField(t *testing.T, f arrow.Field, indent string, out *strings.Builder) {
	t.Helper()
	null := "notnull"
	if f.Nullable {
		null = "null"
	}
	fmt.Fprintf(out, "%s%s %s %s %s\n", indent, f.Name, format(t, f.Type), null, metadataText(t, f.Metadata))
	if nested, ok := f.Type.(arrow.NestedType); ok {
		for _, c := range nested.Fields() {
			dumpField(t, c, indent+"  ", out)
		}
	}
	if d, ok := f.Type.(*arrow.DictionaryType); ok {
		fmt.Fprintf(out, "%s  of %s\n", indent, format(t, d.ValueType))
	}
}

func metadataText(t *testing.T, m arrow.Metadata) string {
	t.Helper()
	if m.Len() == 0 {
		return "{}"
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(m.ToMap()); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out.String())
}

// format is the type's C data interface format.
func format(t *testing.T, dt arrow.DataType) string {
	t.Helper()
	units := map[arrow.TimeUnit]string{arrow.Second: "s", arrow.Millisecond: "m", arrow.Microsecond: "u", arrow.Nanosecond: "n"}
	switch dt := dt.(type) {
	case *arrow.FixedSizeBinaryType:
		return fmt.Sprintf("w:%d", dt.ByteWidth)
	case *arrow.FixedSizeListType:
		return fmt.Sprintf("+w:%d", dt.Len())
	case *arrow.TimestampType:
		return fmt.Sprintf("ts%s:%s", units[dt.Unit], dt.TimeZone)
	case *arrow.DurationType:
		return "tD" + units[dt.Unit]
	case *arrow.Time32Type:
		return "tt" + units[dt.Unit]
	case *arrow.Time64Type:
		return "tt" + units[dt.Unit]
	case *arrow.Decimal128Type:
		return fmt.Sprintf("d:%d,%d", dt.Precision, dt.Scale)
	case *arrow.Decimal256Type:
		return fmt.Sprintf("d:%d,%d,256", dt.Precision, dt.Scale)
	case *arrow.DictionaryType:
		return format(t, dt.IndexType)
	}
	f, ok := map[arrow.Type]string{
		arrow.NULL: "n", arrow.BOOL: "b", arrow.INT8: "c", arrow.UINT8: "C", arrow.INT16: "s", arrow.UINT16: "S",
		arrow.INT32: "i", arrow.UINT32: "I", arrow.INT64: "l", arrow.UINT64: "L", arrow.FLOAT16: "e", arrow.FLOAT32: "f",
		arrow.FLOAT64: "g", arrow.STRING: "u", arrow.LARGE_STRING: "U", arrow.BINARY: "z", arrow.LARGE_BINARY: "Z",
		arrow.DATE32: "tdD", arrow.DATE64: "tdm", arrow.STRUCT: "+s", arrow.LIST: "+l", arrow.LARGE_LIST: "+L", arrow.MAP: "+m",
	}[dt.ID()]
	if !ok {
		t.Fatalf("no format for %v", dt)
	}
	return f
}

// TestLeavesAgainstReference holds the leaves against what the reference's data
// files list: their order is that of the physical columns.
func TestLeavesAgainstReference(t *testing.T) {
	t.Parallel()
	for _, fixture := range []string{"nested_v22", "nested_v23", "columns_share_ids", "non_nullable", "legacy_v21", "shape_minimal"} {
		data, err := os.ReadFile(filepath.Join(fixtures, fixture, "expected.json"))
		if err != nil {
			t.Fatal(err)
		}
		var expected struct {
			Tables map[string]struct {
				Versions []struct {
					Fragments []struct {
						Files []struct{ Fields []FieldID }
					}
				}
			}
		}
		if err := json.Unmarshal(data, &expected); err != nil {
			t.Fatal(err)
		}
		versions, err := filepath.Glob(filepath.Join(fixtures, fixture, "table.lance/_versions/*.manifest"))
		if err != nil || len(versions) == 0 {
			t.Fatal(fixture, err)
		}
		records, metadata := manifestRecords(t, versions[0])
		s, err := FromRecords(records, metadata)
		if err != nil {
			t.Fatal(err)
		}
		var got []FieldID
		for f := range s.Leaves() {
			got = append(got, f.ID)
		}
		if diff := cmp.Diff(expected.Tables["table.lance"].Versions[0].Fragments[0].Files[0].Fields, got); diff != "" {
			t.Errorf("%s: %s", fixture, diff)
		}
	}
}
