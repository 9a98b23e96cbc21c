package schema

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/flightblob/flightblob/internal/fault"
)

func md(pairs ...string) arrow.Metadata {
	m := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return arrow.MetadataFrom(m)
}

// col is a nullable field with metadata.
func col(name string, t arrow.DataType, pairs ...string) arrow.Field {
	return arrow.Field{Name: name, Type: t, Nullable: true, Metadata: md(pairs...)}
}

// req is a required field with metadata.
func req(name string, t arrow.DataType, pairs ...string) arrow.Field {
	f := col(name, t, pairs...)
	f.Nullable = false
	return f
}

var (
	tInt8  = arrow.PrimitiveTypes.Int8
	tInt32 = arrow.PrimitiveTypes.Int32
	tText  = arrow.BinaryTypes.String
	tBin   = arrow.BinaryTypes.Binary
	tLarge = arrow.BinaryTypes.LargeBinary

	minimalType  = arrow.StructOf(col("data", tLarge), col("uri", tText))
	completeType = arrow.StructOf(col("data", tLarge), col("uri", tText), col("position", arrow.PrimitiveTypes.Uint64), col("size", arrow.PrimitiveTypes.Uint64))
)

func blobCol(name string, t arrow.DataType, pairs ...string) arrow.Field {
	return col(name, t, append([]string{KeyExtensionName, ExtensionBlobV2}, pairs...)...)
}

func listOf(f arrow.Field) arrow.DataType      { return arrow.ListOfField(f) }
func largeListOf(f arrow.Field) arrow.DataType { return arrow.LargeListOfField(f) }

func fixedOf(n int32, t arrow.DataType, pairs ...string) arrow.DataType {
	return arrow.FixedSizeListOfField(n, col("item", t, pairs...))
}

// example is an input schema and what is expected of it.
type example struct {
	fields  []arrow.Field
	meta    []string
	version string // "" is 2.2
	refused string // words of our refusal, "" when it is taken
	alone   bool   // the reference is not asked: it takes what is refused here, or cannot be given it
}

func one(f arrow.Field) example { return example{fields: []arrow.Field{f}} }

func (e example) at(version string) example         { e.version = version; return e }
func (e example) refuse(words string) example       { e.refused = words; return e }
func (e example) refuseAlone(words string) example  { e.refused, e.alone = words, true; return e }
func (e example) schema() *arrow.Schema             { m := md(e.meta...); return arrow.NewSchema(e.fields, &m) }
func (e example) options() FromOptions              { return FromOptions{FileVersion: e.version} }
func (e example) withMetadata(m ...string) example  { e.meta = m; return e }
func structOf(fields ...arrow.Field) arrow.DataType { return arrow.StructOf(fields...) }

func examples() map[string]example {
	const (
		marked = KeyBlob
		packed = KeyPacked
	)
	out := map[string]example{}
	leaves := []arrow.DataType{
		arrow.Null, arrow.FixedWidthTypes.Boolean, tInt8, arrow.PrimitiveTypes.Uint8, arrow.PrimitiveTypes.Int16, arrow.PrimitiveTypes.Uint16,
		tInt32, arrow.PrimitiveTypes.Uint32, arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Uint64,
		arrow.FixedWidthTypes.Float16, arrow.PrimitiveTypes.Float32, arrow.PrimitiveTypes.Float64,
		tText, arrow.BinaryTypes.LargeString, tBin, tLarge, arrow.BinaryTypes.StringView, arrow.BinaryTypes.BinaryView,
		&arrow.FixedSizeBinaryType{ByteWidth: 3}, &arrow.FixedSizeBinaryType{},
		arrow.FixedWidthTypes.Date32, arrow.FixedWidthTypes.Date64,
		arrow.FixedWidthTypes.Time32s, arrow.FixedWidthTypes.Time32ms, arrow.FixedWidthTypes.Time64us, arrow.FixedWidthTypes.Time64ns,
		&arrow.TimestampType{Unit: arrow.Second}, &arrow.TimestampType{Unit: arrow.Millisecond, TimeZone: "UTC"},
		&arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "+08:00"}, &arrow.TimestampType{Unit: arrow.Nanosecond, TimeZone: "Europe/Berlin"},
		&arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "-"},
		arrow.FixedWidthTypes.Duration_s, arrow.FixedWidthTypes.Duration_ms, arrow.FixedWidthTypes.Duration_us, arrow.FixedWidthTypes.Duration_ns,
		&arrow.Decimal128Type{Precision: 38, Scale: 38}, &arrow.Decimal128Type{Precision: 10, Scale: -2}, &arrow.Decimal256Type{Precision: 76, Scale: 3},
		fixedOf(4, arrow.PrimitiveTypes.Float32), fixedOf(2, fixedOf(4, arrow.FixedWidthTypes.Float16)), fixedOf(3, arrow.FixedWidthTypes.Boolean),
		fixedOf(2, &arrow.Decimal128Type{Precision: 5, Scale: 2}), fixedOf(2, &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "+08:00"}),
		fixedOf(2, &arrow.FixedSizeBinaryType{ByteWidth: 3}), fixedOf(4, &arrow.FixedSizeBinaryType{ByteWidth: 2}, KeyExtensionName, "lance.bfloat16"),
		fixedOf(2, fixedOf(4, &arrow.FixedSizeBinaryType{ByteWidth: 2}, KeyExtensionName, "lance.bfloat16")), fixedOf(3, arrow.Null),
		arrow.FixedSizeListOfField(4, req("el", tInt32, "lost", "x")),
	}
	for _, v := range []arrow.DataType{tText, arrow.BinaryTypes.LargeString, tBin, tLarge, tInt32, arrow.PrimitiveTypes.Uint64, arrow.FixedWidthTypes.Boolean, arrow.PrimitiveTypes.Float64, arrow.FixedWidthTypes.Float16, arrow.BinaryTypes.StringView} {
		leaves = append(leaves, &arrow.DictionaryType{IndexType: tInt8, ValueType: v}, &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Uint32, ValueType: v, Ordered: true})
	}
	for i, l := range leaves {
		for _, v := range []string{"2.0", "2.1", "2.2", "2.3"} {
			out[fmt.Sprintf("leaf %02d %s", i, v)] = one(col("c", l, "k", "v")).at(v)
		}
		out[fmt.Sprintf("nested %02d", i)] = example{fields: []arrow.Field{
			req("s", structOf(col("x", l), req("l", listOf(req("it", l, "x", "y"))))), col("ll", largeListOf(col("item", listOf(col("item", l))))),
		}}
	}
	refused := map[string]arrow.DataType{
		"decimal32": &arrow.Decimal32Type{Precision: 5, Scale: 2}, "decimal64": &arrow.Decimal64Type{Precision: 5, Scale: 2},
		"interval": arrow.FixedWidthTypes.MonthDayNanoInterval, "runs": arrow.RunEndEncodedOf(tInt32, tText),
		"list view": arrow.ListViewOf(tInt8), "large list view": arrow.LargeListViewOf(tInt8),
		"dense union":  arrow.DenseUnionOf([]arrow.Field{col("a", tInt8)}, []arrow.UnionTypeCode{0}),
		"sparse union": arrow.SparseUnionOf([]arrow.Field{col("a", tInt8)}, []arrow.UnionTypeCode{0}),
	}
	for name, dt := range refused {
		out[name] = one(col("c", dt)).refuse("field c has type " + typeText(dt) + ", which Lance tables cannot hold")
		out[name+" deep"] = one(col("s", structOf(col("l", listOf(col("item", dt)))))).refuse("field s.l.item has type")
	}
	for _, v := range []arrow.DataType{&arrow.FixedSizeBinaryType{ByteWidth: 3}, &arrow.TimestampType{Unit: arrow.Second}, &arrow.Decimal128Type{Precision: 5}, arrow.FixedWidthTypes.Date32} {
		out["dictionary of "+v.String()] = one(col("c", &arrow.DictionaryType{IndexType: tInt8, ValueType: v})).refuse("field c has type dictionary")
	}
	sorted := arrow.MapOf(tText, tInt8)
	sorted.KeysSorted = true
	add := map[string]example{
		"map":                    one(col("c", arrow.MapOf(tText, tInt8))),
		"map of struct":          one(req("c", arrow.MapOfFields(req("key", listOf(col("item", tInt8))), req("value", structOf(col("a", tInt8), col("b", tText)))))),
		"sorted map":             one(col("c", sorted)).refuse("field c is a map with sorted keys"),
		"map 2.1":                one(col("c", arrow.MapOf(tText, tInt8))).at("2.1").refuseAlone("field c: files of version 2.1 cannot hold maps; 2.2 and later can"),
		"fixed of lists":         one(col("c", fixedOf(2, listOf(col("item", tInt8))))).refuse("a fixed-size list may hold fixed-width values, structs"),
		"fixed of maps":          one(col("c", fixedOf(2, arrow.MapOf(tText, tInt8)))).refuse("a fixed-size list may hold"),
		"fixed of texts":         one(col("c", fixedOf(2, tText))).refuseAlone("field c: files of version 2.2 cannot hold fixed-size lists of utf8; take a list"),
		"fixed of dicts":         one(col("c", fixedOf(2, &arrow.DictionaryType{IndexType: tInt8, ValueType: tText}))).refuseAlone("cannot hold fixed-size lists of dictionary"),
		"fixed deep":             one(col("c", fixedOf(2, fixedOf(2, structOf(col("a", tInt8)))))).refuse("a fixed-size list may hold"),
		"fixed of struct":        one(col("c", arrow.FixedSizeListOfField(2, req("it", structOf(col("a", tText), req("b", fixedOf(2, tInt8))), "k", "v")))),
		"fixed 2.1":              one(col("c", fixedOf(2, structOf(col("a", tInt8))))).at("2.1").refuseAlone("2.2 and later can"),
		"fixed with list":        one(col("c", fixedOf(2, structOf(col("a", listOf(col("item", tInt8))))))).refuseAlone("field c.item.a: files of version 2.2 cannot hold lists or maps in a fixed-size list of structs; 2.3 can"),
		"fixed with list at 2.3": one(col("c", fixedOf(2, structOf(col("a", listOf(col("item", tInt8))))))).at("2.3"),
		"list of fixed":          one(col("c", listOf(col("item", fixedOf(2, structOf(col("a", tInt8))))))).refuseAlone("cannot hold fixed-size lists of structs in a list"),
		"list of fixed at 2.3":   one(col("c", listOf(col("item", fixedOf(2, structOf(col("a", tInt8))))))).at("2.3"),

		"json":           one(col("c", tText, KeyExtensionName, "arrow.json", KeyExtensionMetadata, "")),
		"json large":     one(col("c", arrow.BinaryTypes.LargeString, KeyExtensionName, "arrow.json", "k", "v")),
		"json nested":    one(col("c", listOf(col("j", tText, KeyExtensionName, "arrow.json")))),
		"json stored":    one(col("c", tLarge, KeyExtensionName, "lance.json")),
		"json as bytes":  {fields: []arrow.Field{col("c", tLarge, KeyExtensionName, "arrow.json")}, alone: true},
		"json name only": one(col("c", tText, KeyExtensionName, "lance.json")),
		"uuid":           one(col("c", &arrow.FixedSizeBinaryType{ByteWidth: 16}, KeyExtensionName, "arrow.uuid", KeyExtensionMetadata, "")),
		"own":            one(col("c", tInt32, KeyExtensionName, "my.type", KeyExtensionMetadata, "p=1")),
		"bfloat16":       one(col("c", &arrow.FixedSizeBinaryType{ByteWidth: 2}, KeyExtensionName, "lance.bfloat16")),
		"bfloat16 named": one(col("c", arrow.FixedSizeListOfField(4, req("x", &arrow.FixedSizeBinaryType{ByteWidth: 2}, KeyExtensionName, "lance.bfloat16", "k", "v")))),
		"bfloat16 int":   one(col("c", fixedOf(4, arrow.PrimitiveTypes.Int16, KeyExtensionName, "lance.bfloat16"))),

		"two":           {fields: []arrow.Field{col("a", tInt8), col("a", tText)}, refused: `there are two fields "a"`},
		"two below":     one(col("s", structOf(col("a", tInt8), col("a", tText)))).refuseAlone(`there are two fields "s.a"`),
		"cases":         {fields: []arrow.Field{col("a", tInt8), col("A", tText)}},
		"dot":           one(col("a.b", tInt8)).refuse(`column "a.b" has a dot in its name`),
		"dot below":     one(col("s", structOf(col("a.b", tInt8)))),
		"no name":       one(col("", tInt8)),
		"no columns":    {},
		"metadata":      one(col("c", tInt8, "ü", "ö", "PARQUET:field_id", "3", "lance:field_id", "9")).withMetadata("top", "level", "lance.blob.managed", "false"),
		"empty struct":  {fields: []arrow.Field{col("c", structOf()), req("d", structOf(req("e", structOf())))}},
		"empty in list": one(col("c", listOf(col("item", structOf())))).refuseAlone("cannot hold empty structs"),

		"a key":           {fields: []arrow.Field{req("a", tInt8, KeyPrimary, "true"), req("s", structOf(req("b", tText, KeyPrimaryPosition, "2")))}},
		"a nullable key":  one(col("a", tInt8, KeyPrimary, "yes")).refuse("field a is declared part of the primary key, but a may be null or is a list"),
		"a key in a null": one(col("s", structOf(req("a", tInt8, KeyPrimary, "true")))).refuse("field s.a is declared part of the primary key, but s may be null"),
		"a key in a list": one(req("l", listOf(req("a", tInt8, KeyPrimary, "1")))).refuse("but l may be null or is a list"),

		"packed":             one(col("c", structOf(col("a", tInt32), req("b", arrow.PrimitiveTypes.Float64)), packed, "true")),
		"packed texts":       one(col("c", structOf(col("a", tText), col("b", fixedOf(2, tInt8))), packed, "true")),
		"packed texts 2.1":   one(col("c", structOf(col("a", tText)), packed, "true")).at("2.1").refuseAlone("field c.a: files of version 2.1 cannot hold values of variable width in a packed struct"),
		"packed bool":        one(col("c", structOf(col("a", arrow.FixedWidthTypes.Boolean)), packed, "true")).refuseAlone("values of type bool in a packed struct"),
		"packed list":        one(col("c", structOf(col("a", listOf(col("item", tInt8)))), packed, "true")).refuseAlone("lists or maps in a packed struct"),
		"packed deep":        one(col("c", structOf(col("a", structOf(col("b", tInt8)))), packed, "true")).refuseAlone("structs in a packed struct; 2.3 can"),
		"packed deep at 2.3": one(col("c", structOf(col("a", structOf(col("b", tInt8)))), packed, "true")).at("2.3"),
		"packed no":          one(col("c", structOf(col("a", listOf(col("item", tInt8)))), "packed", "no")),

		"SCH-1 minimal":                 one(blobCol("c", minimalType)),
		"SCH-1 complete":                one(blobCol("c", completeType)).at("2.3"),
		"SCH-1 extension metadata":      {fields: []arrow.Field{blobCol("c", completeType, KeyExtensionMetadata, "anything")}, alone: true},
		"SCH-2 binary":                  one(blobCol("c", structOf(col("data", tBin), col("uri", tText)))).refuse("blob field c has the children [data: binary, uri: string]; it must have"),
		"SCH-2 large_string":            one(blobCol("c", structOf(col("data", tLarge), col("uri", arrow.BinaryTypes.LargeString)))).refuse("uri: large_string"),
		"SCH-2 int64":                   one(blobCol("c", structOf(col("data", tLarge), col("uri", tText), col("position", arrow.PrimitiveTypes.Int64), col("size", arrow.PrimitiveTypes.Int64)))).refuse("position: int64"),
		"SCH-2 three":                   one(blobCol("c", structOf(completeType.Fields()[:3]...))).refuse("blob field c has the children"),
		"SCH-2 order":                   one(blobCol("c", structOf(col("uri", tText), col("data", tLarge)))).refuse("[uri: string, data: large_binary]"),
		"SCH-2 nested child":            one(blobCol("c", structOf(col("data", listOf(col("item", tInt8))), col("uri", tText)))).refuse("data: list<item: int8, nullable>"),
		"SCH-2 view":                    {fields: []arrow.Field{blobCol("c", structOf(col("data", tLarge), col("uri", arrow.BinaryTypes.StringView)))}, alone: true},
		"SCH-3 data required":           one(blobCol("c", structOf(req("data", tLarge), col("uri", tText)))).refuse("data: large_binary not null"),
		"SCH-3 uri required":            one(blobCol("c", structOf(col("data", tLarge), req("uri", tText)))).refuse("uri: string not null"),
		"SCH-4 SCH-9 child metadata":    one(blobCol("c", structOf(col("data", tLarge, "note", "x"), col("uri", tText, KeyExtensionName, "x.y", KeyInline, "x")))),
		"SCH-4 child mark":              one(blobCol("c", structOf(col("data", tLarge, marked, "true"), col("uri", tText)))).refuse("child data of blob field c is marked lance-encoding:blob"),
		"SCH-5 range required":          one(blobCol("c", structOf(col("data", tLarge), col("uri", tText), req("position", arrow.PrimitiveTypes.Uint64), req("size", arrow.PrimitiveTypes.Uint64)))),
		"SCH-5 one required":            one(blobCol("c", structOf(col("data", tLarge), col("uri", tText), req("position", arrow.PrimitiveTypes.Uint64), col("size", arrow.PrimitiveTypes.Uint64)))),
		"SCH-6 required, no name":       {fields: []arrow.Field{{Name: "", Type: minimalType, Metadata: md(KeyExtensionName, ExtensionBlobV2)}}},
		"SCH-7 SCH-14 nested":           {fields: []arrow.Field{col("id", tInt8), col("st", structOf(col("a", tInt32), blobCol("b", completeType))), col("li", listOf(blobCol("item", completeType))), col("ls", largeListOf(col("item", structOf(col("a", tInt32), blobCol("b", minimalType))))), col("tail", tInt8)}},
		"SCH-7 ERR-5 fixed list":        one(col("c", fixedOf(2, minimalType, KeyExtensionName, ExtensionBlobV2))).refuseAlone("blob field c.item lies in a fixed-size list; blobs may lie in structs, lists and large lists only"),
		"SCH-7 ERR-5 map":               one(col("c", arrow.MapOfFields(req("key", tText), blobCol("value", minimalType)))).refuseAlone("blob field c.entries.value lies in a map"),
		"SCH-7 packed struct":           one(col("c", structOf(blobCol("b", minimalType)), packed, "true")).refuseAlone("blob field c.b lies in a packed struct"),
		"SCH-8 not a struct":            one(blobCol("c", tLarge)).refuse("field c is marked lance.blob.v2 but has type large_binary; it must be a struct of [data: large_binary, uri: string]"),
		"SCH-8 unmarked struct":         one(col("c", completeType)),
		"SCH-12 ERR-6 2.1":              one(col("s", structOf(blobCol("c", minimalType)))).at("2.1").refuse("blob field s.c needs file version 2.2 or later, not 2.1"),
		"SCH-12 ERR-6 2.0":              one(blobCol("c", minimalType)).at("2.0").refuse("not 2.0"),
		"SCH-13 prepared":               one(blobCol("c", preparedType)).refuseAlone("blob field c has the children [kind: uint8, data: large_binary"),
		"SCH-16 metadata":               one(blobCol("c", minimalType, "own", "1", KeyInline, "+05", KeyDedicated, "007", KeyPack, "18446744073709551615")),
		"WRT-7 ERR-8 text":              one(blobCol("c", minimalType, KeyInline, "12k")).refuse(`field c has lance-encoding:blob-inline-size-threshold = "12k"; it must be a whole number of bytes`),
		"WRT-7 empty":                   one(blobCol("c", minimalType, KeyPack, "")).refuse(`= ""; it must be a positive whole number of bytes`),
		"WRT-7 minus":                   one(blobCol("c", minimalType, KeyInline, "-1")).refuse(`"-1"`),
		"WRT-7 blank":                   one(blobCol("c", minimalType, KeyInline, " 5")).refuse(`" 5"`),
		"WRT-7 exponent":                one(blobCol("c", minimalType, KeyInline, "1e3")).refuse(`"1e3"`),
		"WRT-7 underscore":              one(blobCol("c", minimalType, KeyInline, "5_0")).refuse(`"5_0"`),
		"WRT-7 two plus":                one(blobCol("c", minimalType, KeyInline, "++5")).refuse(`"++5"`),
		"WRT-7 2^64":                    one(blobCol("c", minimalType, KeyInline, "18446744073709551616")).refuse(`"18446744073709551616"`),
		"WRT-7 dedicated 0":             one(blobCol("c", minimalType, KeyDedicated, "0")).refuse(`blob-dedicated-size-threshold = "0"; it must be a positive`),
		"WRT-7 pack 0":                  one(blobCol("c", minimalType, KeyPack, "00")).refuse(`blob-pack-file-size-threshold = "00"`),
		"WRT-7 inline 0":                one(blobCol("c", minimalType, KeyInline, "0")),
		"WRT-7 nested":                  one(col("l", listOf(blobCol("c", minimalType, KeyPack, "x")))).refuse("field l.c has"),
		"WRT-7 no blob":                 one(col("c", tInt8, KeyInline, "x")),
		"CAP-1 true":                    one(col("c", tInt8)).withMetadata(KeyManaged, "true"),
		"CAP-1 ERR-9 TRUE":              one(col("c", tInt8)).withMetadata(KeyManaged, "TRUE").refuse(`schema metadata lance.blob.managed = "TRUE"; it must be "true" or "false"`),
		"CAP-1 empty":                   one(col("c", tInt8)).withMetadata(KeyManaged, "").refuse(`lance.blob.managed = ""`),
		"CAP-1 one":                     one(col("c", tInt8)).withMetadata(KeyManaged, "1").refuse(`lance.blob.managed = "1"`),
		"LEG-1 2.1":                     one(col("c", tLarge, marked, "true", KeyInline, "x")).at("2.1"),
		"LEG-1 2.0":                     one(req("c", tLarge, marked, "true")).at("2.0"),
		"LEG-1 binary 2.1":              one(col("c", tBin, marked, "true")).at("2.1").refuseAlone("files of version 2.1 take large_binary only"),
		"LEG-2 large_binary":            one(col("c", tLarge, marked, "true", "own", "1", KeyInline, "5")),
		"LEG-2 binary required":         one(req("c", tBin, marked, "true", KeyExtensionName, "x.y", KeyExtensionMetadata, "z")),
		"LEG-2 view":                    one(col("c", arrow.BinaryTypes.BinaryView, marked, "true")),
		"LEG-2 nested":                  {fields: []arrow.Field{col("l", listOf(col("q", tLarge, marked, "true"))), col("s", structOf(col("ll", largeListOf(req("item", tBin, marked, ""))), col("after", tInt8)))}},
		"LEG-2 fixed list":              one(col("c", fixedOf(2, tLarge, marked, "true"))).refuseAlone("fixed-size lists of large_binary"),
		"LEG-2 map":                     one(col("c", arrow.MapOfFields(req("key", tText), col("value", tLarge, marked, "true")))).refuseAlone("lies in a map"),
		"LEG-4 unmarked":                {fields: []arrow.Field{col("a", tLarge), col("b", tBin)}},
		"LEG-11 false":                  one(col("c", tLarge, marked, "false")),
		"a mark on text":                one(col("c", tText, marked, "true")).refuseAlone("field c is marked lance-encoding:blob but has type utf8"),
		"a mark on text 2.1":            one(col("c", tText, marked, "true")).at("2.1").refuseAlone("has type utf8"),
		"both marks":                    one(blobCol("c", minimalType, marked, "true")).refuse("is marked lance.blob.v2 and lance-encoding:blob at once"),
		"both marks on binary":          one(blobCol("c", tLarge, marked, "true")).refuse("has type large_binary"),
		"a blob's packed mark is kept":  one(blobCol("c", minimalType, packed, "true")),
		"LEG-2 packed mark kept":        one(col("c", tLarge, packed, "true", marked, "true")),
		"descriptors are no input":      one(col("c", DescriptorType, marked, "true", packed, "true")).refuse("is marked lance-encoding:blob but has type struct"),
		"LEG-11 descriptors v2":         one(blobCol("c", DescriptorType)).refuse("blob field c has the children [kind: uint8 not null"),
		"a file version of the future":  one(col("c", tInt8)).at("2.4").refuse(`file version "2.4" is unknown; it may be 2.0, 2.1, 2.2 or 2.3`),
		"a file version nobody writes":  one(col("c", tInt8)).at("0.1").refuseAlone(`file version "0.1" is unknown`),
		"names that are not UTF-8":      one(col("a\xff", tInt8)).refuseAlone(`field name "a\xff" is not UTF-8`),
		"metadata that is not UTF-8":    one(col("a", tInt8, "k", "\xff")).refuseAlone(`metadata "k" of field a is not UTF-8`),
		"metadata that is not UTF-8, 2": one(col("a", tInt8)).withMetadata("\xff", "").refuseAlone(`metadata "\xff" of the schema is not UTF-8`),
	}
	for _, name := range reserved {
		add["reserved "+name] = one(col(name, tInt8)).refuse("column name " + name + " is reserved")
		add["reserved below "+name] = one(col("s", structOf(col(name, tInt8))))
	}
	for name, e := range add {
		if _, ok := out[name]; ok {
			panic(name)
		}
		out[name] = e
	}
	return out
}

var preparedType = structOf(col("kind", arrow.PrimitiveTypes.Uint8), col("data", tLarge), col("uri", tText),
	col("blob_id", arrow.PrimitiveTypes.Uint32), col("blob_size", arrow.PrimitiveTypes.Uint64), col("position", arrow.PrimitiveTypes.Uint64))

// text prints records for the golden file, one line each.
func text(records []Record) string {
	var out strings.Builder
	for _, r := range records {
		null := " not null"
		if r.Nullable {
			null = ""
		}
		m := make([]string, 0, len(r.Metadata))
		for k, v := range r.Metadata {
			if k == KeyExtensionMetadata && v == "" { // Arrow for Python adds it to types that it knows
				continue
			}
			m = append(m, fmt.Sprintf("%s=%q", k, v))
		}
		slices.Sort(m)
		fmt.Fprintf(&out, "%d<%d %q %s%s %v\n", r.ID, r.ParentID, r.Name, r.LogicalType, null, m)
	}
	return out.String()
}

// listed gives the records of a tree, of its blobs' children too.
func listed(s *Schema) []Record {
	var out []Record
	for f := range s.All() {
		parent := NoParent
		if f.Parent != nil {
			parent = f.Parent.ID
		}
		out = append(out, Record{ID: f.ID, ParentID: parent, Name: f.Name, LogicalType: f.Logical, Nullable: f.Nullable, Metadata: f.Metadata})
	}
	return out
}

func TestFromArrow(t *testing.T) {
	t.Parallel()
	want := sections(t, "testdata/from_arrow.txt")
	for name, e := range examples() {
		t.Run(name, func(t *testing.T) {
			got, err := FromArrow(e.schema(), e.options())
			if e.refused != "" {
				if err == nil || fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), e.refused) {
					t.Errorf("got %v, want %q", err, e.refused)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if isGolden(name) && !e.alone {
				if diff := cmp.Diff(want[name], text(listed(got))); diff != "" {
					t.Error(diff)
				}
			}
			if diff := cmp.Diff(e.schema().Metadata().ToMap(), got.Metadata, cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// isGolden tells the examples that the golden file holds.
func isGolden(name string) bool {
	return !strings.HasPrefix(name, "leaf ") && !strings.HasPrefix(name, "nested ") && !strings.HasPrefix(name, "random ")
}

var rewrite = flag.Bool("rewrite-goldens", false, "write the goldens anew, from what the reference does")

// TestFromArrowAgainstReference has the reference make tables of the examples
// and of random schemas: the manifests say what FromArrow says.
func TestFromArrowAgainstReference(t *testing.T) {
	t.Parallel()
	all := examples()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	for i := range 60 {
		all[fmt.Sprintf("random %d", i)] = random(rng)
	}
	tables := map[string]written{}
	for name, e := range all {
		if e.alone {
			continue
		}
		version := e.version
		if version == "" {
			version = DefaultFileVersion
		}
		tables[name] = written{schema: e.schema(), options: map[string]any{"data_storage_version": version}}
	}
	dir, refused := reference(t, tables)
	golden := map[string]string{}
	for name := range tables {
		e := all[name]
		got, err := FromArrow(e.schema(), e.options())
		if words := refused[name]; words != "" || err != nil {
			if words == "" || err == nil {
				t.Errorf("%s: the reference says %q, we say %v; %v", name, words, err, e.schema())
			}
			continue
		}
		records, metadata := manifestRecords(t, newest(t, filepath.Join(dir, name+".lance")))
		if diff := cmp.Diff(text(records), text(listed(got))); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if diff := cmp.Diff(metadata, got.Metadata, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if isGolden(name) {
			golden[name] = text(records)
		}
	}
	if *rewrite {
		var out strings.Builder
		for _, name := range slices.Sorted(maps.Keys(golden)) {
			fmt.Fprintf(&out, "# %s\n%s", name, golden[name])
		}
		if err := os.WriteFile("testdata/from_arrow.txt", []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// random makes a schema that 2.2 or 2.3 can hold.
func random(rng *rand.Rand) example {
	e := example{version: []string{"2.2", "2.3"}[rng.IntN(2)], meta: []string{"a", "b"}}
	for i := range 1 + rng.IntN(4) {
		e.fields = append(e.fields, randomField(rng, fmt.Sprintf("f%d", i), 4, false))
	}
	return e
}

func randomField(rng *rand.Rand, name string, depth int, blobless bool) arrow.Field {
	f := arrow.Field{Name: name, Nullable: rng.IntN(3) > 0}
	var meta []string
	if rng.IntN(4) == 0 {
		meta = append(meta, "k", "v", "ü", fmt.Sprint(rng.Uint32()))
	}
	kind := rng.IntN(12)
	if depth == 0 {
		kind = 5 + rng.IntN(7)
	}
	if blobless && kind >= 8 {
		kind = 6
	}
	below := func(name string) arrow.Field { return randomField(rng, name, depth-1, blobless) }
	switch kind {
	case 0, 1:
		var fields []arrow.Field
		for i := range 1 + rng.IntN(3) {
			fields = append(fields, below(string(rune('a'+i))))
		}
		f.Type = structOf(fields...)
	case 2:
		f.Type = listOf(below([]string{"item", "it", "element"}[rng.IntN(3)]))
	case 3:
		f.Type = largeListOf(below("item"))
	case 4:
		key := randomField(rng, "key", 0, true)
		key.Nullable = false
		f.Type = arrow.MapOfFields(key, randomField(rng, "value", depth-1, true))
	case 5:
		f.Type = fixedOf(1+rng.Int32N(4), tInt32)
	case 6, 7:
		f.Type = []arrow.DataType{tText, tInt8, arrow.FixedWidthTypes.Timestamp_us, arrow.BinaryTypes.StringView, tBin}[rng.IntN(5)]
	case 8:
		f.Type, meta = tLarge, append(meta, KeyBlob, "true")
	case 9:
		f.Type, meta = tBin, append(meta, KeyBlob, "true", KeyInline, fmt.Sprint(rng.Uint32()))
	case 10:
		f.Type, meta = minimalType, append(meta, KeyExtensionName, ExtensionBlobV2)
	case 11:
		f.Type, meta = completeType, append(meta, KeyExtensionName, ExtensionBlobV2)
	}
	f.Metadata = md(meta...)
	return f
}

func TestFromArrowOptions(t *testing.T) {
	t.Parallel()
	fields := []arrow.Field{
		col("id", tInt8),
		col("a", tBin, "own", "1"),
		col("s", structOf(col("b", tLarge), col("x", tText))),
		col("l", listOf(col("item", arrow.BinaryTypes.BinaryView))),
		col("ls", largeListOf(col("item", structOf(req("scan", tBin))))),
		blobCol("v", completeType),
	}
	s := arrow.NewSchema(fields, nil)
	t.Run("named columns become blobs at any depth", func(t *testing.T) {
		got, err := FromArrow(s, FromOptions{BlobColumns: []string{"a", "s.b", "l", "ls.scan", "v"}, NextID: 10})
		if err != nil {
			t.Fatal(err)
		}
		var blobs []string
		for f := range got.Blobs() {
			blobs = append(blobs, fmt.Sprintf("%d %s %v", f.ID, f.FullName(), f.Nullable))
		}
		want := []string{"11 a true", "15 s.b true", "20 l.item true", "25 ls.item.scan false", "28 v true"}
		if diff := cmp.Diff(want, blobs); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(map[string]string{"own": "1", KeyExtensionName: ExtensionBlobV2}, got.Fields[1].Metadata); diff != "" {
			t.Error(diff)
		}
		if l := got.Fields[3].Logical; l != "list.struct" {
			t.Errorf("a list of blobs has the type %s", l)
		}
	})
	for name, c := range map[string]struct {
		names   []string
		version string
		want    string
	}{
		"absent":       {[]string{"a", "s.bb"}, "", `there is no column "s.bb" to make a blob column of; the nearest are "s.b"`},
		"of a wrong":   {[]string{"s.x"}, "", `blob column "s.x" has type utf8; a blob column is made from binary or large_binary`},
		"a struct":     {[]string{"s"}, "", `blob column "s" has type struct`},
		"item levels":  {[]string{"l.item"}, "", `there is no column "l.item"`},
		"SCH-12 ERR-6": {[]string{"a"}, "2.1", "blob field a needs file version 2.2 or later, not 2.1"},
	} {
		t.Run(name, func(t *testing.T) {
			input := s
			if c.version != "" {
				input = arrow.NewSchema(fields[:5], nil)
			}
			_, err := FromArrow(input, FromOptions{BlobColumns: c.names, FileVersion: c.version})
			want := strings.Replace(c.want, "the nearest are", "the nearest binary ones are", 1)
			if fault.KindOf(err) != fault.Invalid || err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
		})
	}
	t.Run("registered extension types are their storage", func(t *testing.T) {
		got, err := FromArrow(arrow.NewSchema([]arrow.Field{
			col("u", extension("arrow.uuid", &arrow.FixedSizeBinaryType{ByteWidth: 16}), "k", "v"), col("l", listOf(col("j", extension("arrow.json", tText)))), col("f", fixedOf(2, extension("arrow.bool8", tInt8))),
		}, nil), FromOptions{})
		if err != nil {
			t.Fatal(err)
		}
		want := `0<-1 "u" fixed_size_binary:16 [ARROW:extension:name="arrow.uuid" k="v"]
1<-1 "l" list []
2<1 "j" json [ARROW:extension:name="lance.json"]
3<-1 "f" fixed_size_list:int8:2 []
`
		if diff := cmp.Diff(want, text(listed(got))); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("nesting is bounded", func(t *testing.T) {
		f := col("x", tInt8)
		for range 2 * MaxDepth {
			f = col("x", structOf(f))
		}
		if _, err := FromArrow(arrow.NewSchema([]arrow.Field{f}, nil), FromOptions{}); fault.KindOf(err) != fault.Invalid || err == nil || !strings.Contains(err.Error(), "more than 100 levels") {
			t.Error(err)
		}
	})
}

type registeredArray struct{ array.ExtensionArrayBase }

// registered is an extension type as Arrow shows those that a program knows.
type registered struct {
	arrow.ExtensionBase
	name string
}

func extension(name string, storage arrow.DataType) arrow.DataType {
	return &registered{ExtensionBase: arrow.ExtensionBase{Storage: storage}, name: name}
}

func (r *registered) ArrayType() reflect.Type                    { return reflect.TypeFor[registeredArray]() }
func (r *registered) ExtensionName() string                      { return r.name }
func (r *registered) ExtensionEquals(o arrow.ExtensionType) bool { return o.ExtensionName() == r.name }
func (r *registered) Serialize() string                          { return "" }
func (r *registered) Deserialize(arrow.DataType, string) (arrow.ExtensionType, error) {
	return r, nil
}
