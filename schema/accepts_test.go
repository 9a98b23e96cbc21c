package schema

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/google/go-cmp/cmp"

	"github.com/flightblob/flightblob/internal/fault"
)

func table(t *testing.T, version string, fields ...arrow.Field) *Schema {
	t.Helper()
	s, err := FromArrow(arrow.NewSchema(fields, nil), FromOptions{FileVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var tTime = &arrow.TimestampType{Unit: arrow.Microsecond}

func mandatory(f arrow.Field) arrow.Field {
	f.Nullable = false
	return f
}

func dict(index, value arrow.DataType) arrow.DataType {
	return &arrow.DictionaryType{IndexType: index, ValueType: value}
}

// appending is an input for a table's columns.
type appending struct {
	version string
	table   []arrow.Field
	input   []arrow.Field
	refused string // our words; "" when it is taken
	ours    bool   // the reference does otherwise, or judges when the first row comes only
}

func appendings() map[string]appending {
	two := []arrow.Field{col("a", tInt32), col("b", tText)}
	out := map[string]appending{
		"another order":            {table: two, input: []arrow.Field{two[1], two[0]}},
		"a nullable column less":   {table: two, input: two[:1]},
		"a required column less":   {table: []arrow.Field{two[0], req("b", tText)}, input: two[:1], refused: `the input has no column b, which must not be null; it has "a"`},
		"no columns":               {table: two},
		"an unknown column":        {table: two, input: append(two[:2:2], col("aa", tInt8), col("c", tInt8)), refused: `the table has no column "aa", "c"; the nearest are a, b`},
		"another case":             {table: two, input: []arrow.Field{col("A", tInt32)}, refused: `the table has no column "A"`},
		"two of a name":            {table: two, input: []arrow.Field{two[0], two[0]}, refused: `there are two fields "a"`},
		"nested order":             {table: []arrow.Field{col("s", structOf(two...))}, input: []arrow.Field{col("s", structOf(two[1], two[0]))}},
		"a nested column less":     {table: []arrow.Field{col("l", listOf(col("item", structOf(two...))))}, input: []arrow.Field{col("l", listOf(col("item", structOf(two[1]))))}},
		"an unknown nested one":    {table: []arrow.Field{col("s", structOf(two...))}, input: []arrow.Field{col("s", structOf(two[0], col("z", tText)))}, refused: `the table has no column "s.z"; the nearest are s.a, s.b`},
		"a required nested one":    {table: []arrow.Field{col("s", structOf(two[0], req("b", tText)))}, input: []arrow.Field{col("s", structOf(two[0]))}, refused: "the input has no column s.b, which must not be null"},
		"SCH-11 nullable input":    {table: []arrow.Field{req("a", tInt32), mandatory(blobCol("b", minimalType))}, input: []arrow.Field{col("a", tInt32), blobCol("b", minimalType)}},
		"SCH-11 required input":    {table: []arrow.Field{col("a", tInt32), blobCol("b", minimalType)}, input: []arrow.Field{req("a", tInt32), mandatory(blobCol("b", minimalType))}},
		"metadata does not matter": {table: []arrow.Field{col("a", tInt32, "k", "v")}, input: []arrow.Field{col("a", tInt32, "k", "w")}},
		"struct and number":        {table: two, input: []arrow.Field{col("a", structOf(two...))}, refused: "column a has type int32 and the input has struct<a: int32"},
		"map parts by position":    {table: []arrow.Field{col("m", arrow.MapOf(tText, tInt8))}, input: []arrow.Field{col("m", arrow.MapOfFields(req("key", tText), req("value", tInt8)))}},
		"map of another value":     {table: []arrow.Field{col("m", arrow.MapOf(tText, tInt8))}, input: []arrow.Field{col("m", arrow.MapOf(tText, tInt32))}, refused: "column m.entries.value has type int8 and the input has int32; cast the input"},

		"SCH-10 complete on minimal":      {table: []arrow.Field{blobCol("c", minimalType)}, input: []arrow.Field{blobCol("c", completeType)}},
		"SCH-10 minimal on complete":      {table: []arrow.Field{blobCol("c", completeType)}, input: []arrow.Field{blobCol("c", minimalType)}},
		"SCH-10 nested":                   {table: []arrow.Field{col("l", listOf(blobCol("item", completeType)))}, input: []arrow.Field{col("l", listOf(blobCol("item", minimalType)))}},
		"SCH-2 another shape":             {table: []arrow.Field{blobCol("c", completeType)}, input: []arrow.Field{blobCol("c", structOf(col("data", tBin), col("uri", tText)))}, refused: "blob field c has the children"},
		"SCH-13 prepared":                 {table: []arrow.Field{blobCol("c", completeType)}, input: []arrow.Field{blobCol("c", preparedType)}, refused: "blob field c has the children [kind: uint8", ours: true},
		"an unmarked shape":               {table: []arrow.Field{blobCol("c", minimalType)}, input: []arrow.Field{col("c", minimalType)}},
		"another unmarked shape":          {table: []arrow.Field{blobCol("c", minimalType)}, input: []arrow.Field{col("c", completeType)}, ours: true},
		"marked binary":                   {table: []arrow.Field{blobCol("c", minimalType)}, input: []arrow.Field{col("c", tBin, KeyBlob, "true")}},
		"marked large_binary":             {table: []arrow.Field{blobCol("c", minimalType)}, input: []arrow.Field{col("c", tLarge, KeyBlob, "true")}},
		"plain binary, ours":              {table: []arrow.Field{blobCol("c", minimalType)}, input: []arrow.Field{col("c", tBin)}, ours: true},
		"plain large_binary, ours":        {table: []arrow.Field{blobCol("c", minimalType)}, input: []arrow.Field{col("c", tLarge)}, ours: true},
		"plain binary_view, ours":         {table: []arrow.Field{blobCol("c", minimalType)}, input: []arrow.Field{col("c", arrow.BinaryTypes.BinaryView)}, ours: true},
		"text on a blob":                  {table: []arrow.Field{blobCol("c", minimalType)}, input: []arrow.Field{col("c", tText)}, refused: "blob column c cannot be filled from type utf8; send a struct of"},
		"descriptors on a blob":           {table: []arrow.Field{blobCol("c", minimalType)}, input: []arrow.Field{col("c", DescriptorType)}, refused: "blob column c cannot be filled from type struct<kind: uint8"},
		"references from outside":         {table: []arrow.Field{blobCol("c", minimalType)}, input: []arrow.Field{col("c", ReferenceType)}, refused: "blob column c cannot be filled from type struct<kind: uint8"},
		"any blob from outside":           {table: []arrow.Field{blobCol("c", minimalType)}, input: []arrow.Field{col("c", AnyBlobType)}, refused: "blob column c cannot be filled from type struct<data"},
		"a blob on plain binary":          {table: []arrow.Field{col("c", tLarge)}, input: []arrow.Field{blobCol("c", minimalType)}, refused: "column c has type large_binary and the input has struct<data: large_binary nullable, uri: utf8 nullable>; the column is no blob column; send plain binary values"},
		"LEG-4 a mark on plain binary":    {table: []arrow.Field{col("c", tLarge)}, input: []arrow.Field{col("c", tLarge, KeyBlob, "true")}, refused: "the column is no blob column"},
		"a blob on a struct":              {table: []arrow.Field{col("c", minimalType)}, input: []arrow.Field{blobCol("c", minimalType)}, refused: "the column is no blob column", ours: true},
		"LEG-7 plain on legacy":           {version: "2.1", table: []arrow.Field{col("c", tLarge, KeyBlob, "true")}, input: []arrow.Field{col("c", tLarge)}},
		"LEG-7 marked on legacy":          {version: "2.1", table: []arrow.Field{col("c", tLarge, KeyBlob, "true")}, input: []arrow.Field{col("c", tLarge, KeyBlob, "true")}},
		"LEG-8 REJ-10 a struct on legacy": {version: "2.1", table: []arrow.Field{col("c", tLarge, KeyBlob, "true")}, input: []arrow.Field{blobCol("c", minimalType)}, refused: "column c is a blob column of files before 2.2 and takes binary values; structs of lance.blob.v2 need file version 2.2 or later"},

		"WRT-8 the same":           {table: []arrow.Field{blobCol("c", minimalType, KeyInline, "5")}, input: []arrow.Field{blobCol("c", minimalType, KeyInline, "5")}},
		"WRT-8 the same value":     {table: []arrow.Field{blobCol("c", minimalType, KeyInline, "5")}, input: []arrow.Field{blobCol("c", minimalType, KeyInline, "+05")}},
		"WRT-8 the default":        {table: []arrow.Field{blobCol("c", minimalType)}, input: []arrow.Field{blobCol("c", minimalType, KeyInline, "65536", KeyDedicated, "4194304", KeyPack, "1073741824")}},
		"WRT-8 none":               {table: []arrow.Field{blobCol("c", minimalType, KeyInline, "5")}, input: []arrow.Field{blobCol("c", minimalType)}},
		"WRT-8 ERR-8 another":      {table: []arrow.Field{col("l", listOf(blobCol("c", minimalType, KeyInline, "5")))}, input: []arrow.Field{col("l", listOf(blobCol("c", minimalType, KeyInline, "6")))}, refused: "the input states lance-encoding:blob-inline-size-threshold = 6 for field l.c, where 5 is in effect"},
		"WRT-8 not the default":    {table: []arrow.Field{blobCol("c", minimalType)}, input: []arrow.Field{blobCol("c", minimalType, KeyDedicated, "6")}, refused: "threshold = 6 for field c, where 4194304 is in effect"},
		"WRT-8 pack":               {table: []arrow.Field{blobCol("c", minimalType)}, input: []arrow.Field{blobCol("c", minimalType, KeyPack, "6")}, refused: "where 1073741824 is in effect"},
		"WRT-7 WRT-8 bad":          {table: []arrow.Field{blobCol("c", minimalType)}, input: []arrow.Field{blobCol("c", minimalType, KeyPack, "x")}, refused: `threshold = "x"`},
		"LEG-2 nested marked":      {table: []arrow.Field{col("l", listOf(col("item", tLarge, KeyBlob, "true")))}, input: []arrow.Field{col("l", listOf(col("item", tBin, KeyBlob, "true")))}},
		"a list of blobs, by mark": {table: []arrow.Field{col("l", listOf(col("item", tLarge, KeyBlob, "true")))}, input: []arrow.Field{col("l", listOf(blobCol("item", minimalType)))}, ours: true},
	}
	type pair struct {
		to, in  arrow.DataType
		refused bool
		ours    bool
	}
	fixed := func(t arrow.DataType) arrow.DataType { return fixedOf(2, t) }
	for i, p := range []pair{
		{arrow.PrimitiveTypes.Int64, tInt32, true, false},
		{tInt32, arrow.PrimitiveTypes.Int64, true, false},
		{arrow.PrimitiveTypes.Float64, arrow.PrimitiveTypes.Float32, true, false},
		{arrow.FixedWidthTypes.Boolean, tInt8, true, false},
		{tTime, &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}, true, false},
		{tTime, &arrow.TimestampType{Unit: arrow.Millisecond}, true, false},
		{tTime, &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "-"}, false, false},
		{arrow.FixedWidthTypes.Date32, arrow.FixedWidthTypes.Date64, true, false},
		{&arrow.Decimal128Type{Precision: 10, Scale: 2}, &arrow.Decimal128Type{Precision: 12, Scale: 2}, true, false},
		{&arrow.FixedSizeBinaryType{ByteWidth: 3}, &arrow.FixedSizeBinaryType{ByteWidth: 4}, true, false},
		{&arrow.FixedSizeBinaryType{ByteWidth: 3}, tBin, true, false},
		{tText, tBin, true, false},
		{tBin, tText, true, false},
		{tText, arrow.BinaryTypes.StringView, false, false},
		{tBin, arrow.BinaryTypes.BinaryView, false, false},
		{arrow.BinaryTypes.LargeString, arrow.BinaryTypes.StringView, false, true},
		{tText, arrow.BinaryTypes.LargeString, false, true},
		{arrow.BinaryTypes.LargeString, tText, false, true},
		{tLarge, tBin, false, true},
		{tBin, tLarge, false, true},
		{dict(tInt8, tText), dict(tInt8, tText), false, false},
		{dict(tInt8, tText), &arrow.DictionaryType{IndexType: tInt8, ValueType: tText, Ordered: true}, false, false},
		{dict(tInt8, tText), dict(tInt32, tText), false, true},
		{dict(tInt8, tText), tText, false, true},
		{tText, dict(tInt8, tText), false, true},
		{arrow.BinaryTypes.LargeString, dict(tInt8, arrow.BinaryTypes.StringView), false, true},
		{tInt32, dict(tInt8, tText), true, false},
		{dict(tInt8, tInt32), tInt32, false, true},
		{dict(tInt8, tInt32), arrow.PrimitiveTypes.Int64, true, false},
		{listOf(col("item", tInt32)), largeListOf(col("item", tInt32)), false, true},
		{largeListOf(col("item", tInt32)), listOf(col("item", tInt32)), false, true},
		{listOf(col("item", tInt32)), listOf(col("it", tInt32)), false, true},
		{listOf(col("item", tInt32)), listOf(req("item", tInt32)), false, false},
		{listOf(req("item", tInt32)), listOf(col("item", tInt32)), false, false},
		{fixed(tInt32), listOf(col("item", tInt32)), true, false},
		{fixed(tInt32), fixedOf(3, tInt32), true, false},
		{fixed(tInt32), arrow.FixedSizeListOfField(2, req("x", tInt32)), false, false},
		{fixed(structOf(col("a", tInt8))), arrow.FixedSizeListOfField(2, col("item", structOf(col("a", tInt8)))), false, false},
		{fixed(structOf(col("a", tInt8))), fixedOf(3, structOf(col("a", tInt8))), true, false},
		{tInt32, arrow.Null, false, true},
		{listOf(col("item", tInt32)), arrow.Null, false, true},
		{arrow.Null, tInt32, true, false},
	} {
		c := appending{table: []arrow.Field{col("c", p.to)}, input: []arrow.Field{col("c", p.in)}, ours: p.ours}
		if p.refused {
			c.refused = "column c has type " + typeText(made(c.table).Fields[0].arrowType())
		}
		out[fmt.Sprintf("types %02d %.40s from %.40s", i, p.to, p.in)] = c
	}
	json := func(t arrow.DataType) arrow.Field { return col("c", t, KeyExtensionName, "arrow.json") }
	uuid := col("c", &arrow.FixedSizeBinaryType{ByteWidth: 16}, KeyExtensionName, "arrow.uuid", KeyExtensionMetadata, "")
	for name, c := range map[string]appending{
		"json":                 {table: []arrow.Field{json(tText)}, input: []arrow.Field{json(arrow.BinaryTypes.LargeString)}},
		"text on json":         {table: []arrow.Field{json(tText)}, input: []arrow.Field{col("c", tText)}, ours: true},
		"json on text":         {table: []arrow.Field{col("c", tText)}, input: []arrow.Field{json(tText)}, ours: true},
		"number on json":       {table: []arrow.Field{json(tText)}, input: []arrow.Field{col("c", tInt8)}, refused: "column c has type utf8 and the input has int8"},
		"stored json on json":  {table: []arrow.Field{json(tText)}, input: []arrow.Field{col("c", tLarge, KeyExtensionName, "lance.json")}},
		"stored json on text":  {table: []arrow.Field{col("c", tText)}, input: []arrow.Field{col("c", tLarge, KeyExtensionName, "lance.json")}, refused: "column c has type utf8 and the input has large_binary"},
		"extension and none":   {table: []arrow.Field{uuid}, input: []arrow.Field{col("c", &arrow.FixedSizeBinaryType{ByteWidth: 16})}, ours: true},
		"none and extension":   {table: []arrow.Field{col("c", &arrow.FixedSizeBinaryType{ByteWidth: 16})}, input: []arrow.Field{uuid}, ours: true},
		"another extension":    {table: []arrow.Field{uuid}, input: []arrow.Field{col("c", &arrow.FixedSizeBinaryType{ByteWidth: 16}, KeyExtensionName, "my.id")}, refused: `column c is of extension type "arrow.uuid" and the input of "my.id"`, ours: true},
		"null on required":     {table: []arrow.Field{req("c", tInt8)}, input: []arrow.Field{col("c", arrow.Null)}, refused: "column c has type null in the input, but must not be null"},
		"null on a blob, ours": {table: []arrow.Field{blobCol("c", minimalType)}, input: []arrow.Field{col("c", arrow.Null)}, ours: true},
	} {
		out[name] = c
	}
	return out
}

func made(fields []arrow.Field) *Schema {
	s, err := FromArrow(arrow.NewSchema(fields, nil), FromOptions{})
	if err != nil {
		panic(err)
	}
	return s
}

func (f *Field) arrowType() arrow.DataType {
	a, err := f.Arrow(Logical)
	if err != nil {
		panic(err)
	}
	return a.Type
}

func TestAccepts(t *testing.T) {
	t.Parallel()
	for name, c := range appendings() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, err := table(t, c.version, c.table...).Accepts(arrow.NewSchema(c.input, nil))
			if c.refused != "" {
				if err == nil || fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), c.refused) {
					t.Errorf("got %v, want %q", err, c.refused)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if m.Schema().NumFields() != len(c.table) {
				t.Errorf("the result has %v", m.Schema())
			}
		})
	}
}

// TestAcceptsAgainstReference appends the same inputs, without rows, by the
// reference: it takes and refuses the same ones, apart from those that are
// ours.
func TestAcceptsAgainstReference(t *testing.T) {
	t.Parallel()
	tables := map[string]written{}
	all := appendings()
	for name, c := range all {
		if c.ours || name == "two of a name" {
			continue
		}
		version := c.version
		if version == "" {
			version = DefaultFileVersion
		}
		name = strings.ReplaceAll(name, "/", "-")
		tables[name+" 0"] = written{schema: arrow.NewSchema(c.table, nil), options: map[string]any{"data_storage_version": version, "uri": name + ".lance"}}
		tables[name+" 1"] = written{schema: arrow.NewSchema(c.input, nil), options: map[string]any{"mode": "append", "uri": name + ".lance"}}
	}
	_, refused := reference(t, tables)
	for name := range tables {
		base, step := name[:len(name)-2], name[len(name)-1]
		words := refused[name]
		if step == '0' {
			if words != "" {
				t.Errorf("%s: the reference does not make the table: %s", base, words)
			}
			continue
		}
		if c := all[base]; (c.refused == "") != (words == "") {
			t.Errorf("%s: the reference says %q, we say %q", base, words, c.refused)
		}
	}
}

func TestAcceptsManagedMetadata(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"true", "false", "TRUE"} {
		t.Run("CAP-5 an input says "+value, func(t *testing.T) {
			m := md(KeyManaged, value)
			s := table(t, "", col("a", tInt8))
			if _, err := s.Accepts(arrow.NewSchema([]arrow.Field{col("a", tInt8)}, &m)); err != nil || len(s.Metadata) != 0 {
				t.Errorf("%v, %v", s.Metadata, err)
			}
		})
	}
}

// TestWithoutLegacyBlobsAgainstReference takes the newest schema of a table
// that began with legacy files from the fixtures, and the first one.
func TestWithoutLegacyBlobsAgainstReference(t *testing.T) {
	t.Parallel()
	versions, err := filepath.Glob(filepath.Join(fixtures, "legacy_mixed/table.lance/_versions/*.manifest"))
	if err != nil || len(versions) < 2 {
		t.Fatal(versions, err)
	}
	newest, metadata := manifestRecords(t, versions[0])
	first, _ := manifestRecords(t, versions[len(versions)-1])
	t.Run("LEG-5 legacy_mixed", func(t *testing.T) {
		s, err := FromRecords(first, metadata)
		if err != nil || !s.HasLegacyBlobs() {
			t.Fatalf("%v, %v", s, err)
		}
		next := FieldID(0)
		for _, r := range first {
			next = max(next, r.ID+1)
		}
		got, err := s.WithoutLegacyBlobs(next)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(text(newest), text(listed(got))); diff != "" {
			t.Error(diff)
		}
	})
}
