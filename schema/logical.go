package schema

import (
	"math"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/flightblob/flightblob/internal/fault"
)

// plainTypes are the logical types without parameters.
var plainTypes = map[string]arrow.DataType{
	"null":         arrow.Null,
	"bool":         arrow.FixedWidthTypes.Boolean,
	"int8":         arrow.PrimitiveTypes.Int8,
	"uint8":        arrow.PrimitiveTypes.Uint8,
	"int16":        arrow.PrimitiveTypes.Int16,
	"uint16":       arrow.PrimitiveTypes.Uint16,
	"int32":        arrow.PrimitiveTypes.Int32,
	"uint32":       arrow.PrimitiveTypes.Uint32,
	"int64":        arrow.PrimitiveTypes.Int64,
	"uint64":       arrow.PrimitiveTypes.Uint64,
	"halffloat":    arrow.FixedWidthTypes.Float16,
	"float":        arrow.PrimitiveTypes.Float32,
	"double":       arrow.PrimitiveTypes.Float64,
	"string":       arrow.BinaryTypes.String,
	"large_string": arrow.BinaryTypes.LargeString,
	"binary":       arrow.BinaryTypes.Binary,
	"large_binary": arrow.BinaryTypes.LargeBinary,
	"blob":         arrow.BinaryTypes.LargeBinary,
	"json":         arrow.BinaryTypes.LargeBinary,
	"date32:day":   arrow.FixedWidthTypes.Date32,
	"date64:ms":    arrow.FixedWidthTypes.Date64,
	"time32:s":     arrow.FixedWidthTypes.Time32s,
	"time32:ms":    arrow.FixedWidthTypes.Time32ms,
	"time64:us":    arrow.FixedWidthTypes.Time64us,
	"time64:ns":    arrow.FixedWidthTypes.Time64ns,
	"duration:s":   arrow.FixedWidthTypes.Duration_s,
	"duration:ms":  arrow.FixedWidthTypes.Duration_ms,
	"duration:us":  arrow.FixedWidthTypes.Duration_us,
	"duration:ns":  arrow.FixedWidthTypes.Duration_ns,
}

var timeUnits = map[string]arrow.TimeUnit{
	"s": arrow.Second, "ms": arrow.Millisecond, "us": arrow.Microsecond, "ns": arrow.Nanosecond,
}

// parseLogical turns the logical type of a leaf into the Arrow type that files
// hold, table-format sheet section 2.3. depth counts the types around this one.
func parseLogical(f *Field, logical string, depth int) (arrow.DataType, error) {
	if depth > MaxDepth {
		return nil, fault.Corruptf(-1, "schema: the type of field %s is nested more than %d levels deep", f.dotted(), MaxDepth)
	}
	if t, ok := plainTypes[logical]; ok {
		return t, nil
	}
	head, rest, _ := strings.Cut(logical, ":")
	switch head {
	case "fixed_size_binary":
		n, err := length(f, rest)
		if err != nil {
			return nil, err
		}
		return &arrow.FixedSizeBinaryType{ByteWidth: int(n)}, nil
	case "timestamp":
		return parseTimestamp(f, rest)
	case "decimal":
		return parseDecimal(f, rest)
	case "dict":
		return parseDictionary(f, rest, depth)
	case "fixed_size_list":
		return parseFixedSizeList(f, rest, depth)
	}
	return nil, unknownType(f)
}

func unknownType(f *Field) error {
	return fault.New(fault.Unsupported, "schema: field %s has the unknown logical type %q", f.dotted(), f.Logical)
}

// parseTimestamp reads unit:zone; the zone may hold colons itself.
func parseTimestamp(f *Field, text string) (arrow.DataType, error) {
	unitText, zone, ok := strings.Cut(text, ":")
	unit, known := timeUnits[unitText]
	if !ok || !known {
		return nil, unknownType(f)
	}
	if zone == "-" {
		zone = ""
	}
	return &arrow.TimestampType{Unit: unit, TimeZone: zone}, nil
}

func parseDecimal(f *Field, text string) (arrow.DataType, error) {
	parts := strings.Split(text, ":")
	if len(parts) != 3 {
		return nil, unknownType(f)
	}
	precision, err1 := strconv.ParseInt(parts[1], 10, 16)
	scale, err2 := strconv.ParseInt(parts[2], 10, 8)
	limit := map[string]int64{"128": 38, "256": 76}[parts[0]]
	if err1 != nil || err2 != nil || limit == 0 {
		return nil, unknownType(f)
	}
	if precision < 1 || precision > limit || scale > precision {
		return nil, fault.Corruptf(-1, "schema: field %s has the impossible type %q", f.dotted(), f.Logical)
	}
	if limit == 38 {
		return &arrow.Decimal128Type{Precision: int32(precision), Scale: int32(scale)}, nil
	}
	return &arrow.Decimal256Type{Precision: int32(precision), Scale: int32(scale)}, nil
}

// parseDictionary reads value:index:ordered. Writers refuse value types with a
// colon; they are read all the same, since the last two parts have none.
func parseDictionary(f *Field, text string, depth int) (arrow.DataType, error) {
	parts := strings.Split(text, ":")
	if len(parts) < 3 {
		return nil, unknownType(f)
	}
	n := len(parts)
	index, ok := plainTypes[parts[n-2]]
	if !ok || !arrow.IsInteger(index.ID()) || parts[n-1] != "false" && parts[n-1] != "true" {
		return nil, unknownType(f)
	}
	value, err := parseLogical(f, strings.Join(parts[:n-2], ":"), depth+1)
	if err != nil {
		return nil, err
	}
	if value.ID() == arrow.DICTIONARY {
		return nil, unknownType(f)
	}
	return &arrow.DictionaryType{IndexType: index, ValueType: value, Ordered: parts[n-1] == "true"}, nil
}

// parseFixedSizeList reads inner:n, where inner may be such a list again. Item
// name and nullability are not stored; readers show a nullable "item".
func parseFixedSizeList(f *Field, text string, depth int) (arrow.DataType, error) {
	cut := strings.LastIndexByte(text, ':')
	if cut < 0 {
		return nil, unknownType(f)
	}
	n, err := positive(f, text[cut+1:])
	if err != nil {
		return nil, err
	}
	item := arrow.Field{Name: "item", Nullable: true}
	if text[:cut] == extensionBFloat16 {
		item.Type = &arrow.FixedSizeBinaryType{ByteWidth: 2}
		item.Metadata = arrow.MetadataFrom(map[string]string{KeyExtensionName: extensionBFloat16, KeyExtensionMetadata: ""})
	} else if item.Type, err = parseLogical(f, text[:cut], depth+1); err != nil {
		return nil, err
	}
	if values(item.Type) > math.MaxInt32/n {
		return nil, fault.Corruptf(-1, "schema: a value of field %s, type %q, has more than 2^31-1 elements", f.dotted(), f.Logical)
	}
	return arrow.FixedSizeListOfField(int32(n), item), nil
}

// values is the number of innermost values in one value of a type, at most
// 2^31-1 by construction.
func values(t arrow.DataType) int64 {
	if l, ok := t.(*arrow.FixedSizeListType); ok {
		return int64(l.Len()) * values(l.Elem())
	}
	return 1
}

func positive(f *Field, text string) (int64, error) {
	n, err := length(f, text)
	if err == nil && n == 0 {
		err = fault.Corruptf(-1, "schema: field %s has type %q; its size must be positive", f.dotted(), f.Logical)
	}
	return n, err
}

func length(f *Field, text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 0 {
		return 0, fault.Corruptf(-1, "schema: field %s has type %q; its size is not a number below 2^31", f.dotted(), f.Logical)
	}
	return n, nil
}
