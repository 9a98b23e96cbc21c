package query

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/internal/half"
	"github.com/flightblob/flightblob/query/engine"
)

// paramTypes are the Arrow types in which clients best send parameters. Clients
// that send exactly what is announced know one type of integers and one of
// floating-point numbers, and cut others to what they are told.
var paramTypes = map[engine.TypeID]arrow.DataType{
	engine.TypeBoolean: arrow.FixedWidthTypes.Boolean,
	engine.TypeTinyInt: arrow.PrimitiveTypes.Int64, engine.TypeSmallInt: arrow.PrimitiveTypes.Int64,
	engine.TypeInteger: arrow.PrimitiveTypes.Int64, engine.TypeBigInt: arrow.PrimitiveTypes.Int64,
	engine.TypeUTinyInt: arrow.PrimitiveTypes.Int64, engine.TypeUSmallInt: arrow.PrimitiveTypes.Int64,
	engine.TypeUInteger: arrow.PrimitiveTypes.Int64, engine.TypeUBigInt: arrow.PrimitiveTypes.Int64,
	engine.TypeHugeInt: arrow.PrimitiveTypes.Int64, engine.TypeUHugeInt: arrow.PrimitiveTypes.Int64,
	engine.TypeFloat: arrow.PrimitiveTypes.Float64, engine.TypeDouble: arrow.PrimitiveTypes.Float64,
	engine.TypeBlob: arrow.BinaryTypes.LargeBinary,
	engine.TypeDate: arrow.FixedWidthTypes.Date32,
	engine.TypeTime: arrow.FixedWidthTypes.Time64us, engine.TypeTimeNS: arrow.FixedWidthTypes.Time64ns,
	engine.TypeTimestampS: &arrow.TimestampType{Unit: arrow.Second}, engine.TypeTimestampMS: &arrow.TimestampType{Unit: arrow.Millisecond},
	engine.TypeTimestamp: &arrow.TimestampType{Unit: arrow.Microsecond}, engine.TypeTimestampNS: &arrow.TimestampType{Unit: arrow.Nanosecond},
	engine.TypeTimestampTZ: &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"},
}

// paramType is the Arrow type that a parameter is announced with: text, which
// becomes what it is taken for, where there is none.
func paramType(t *engine.Type) arrow.DataType {
	if t.ID == engine.TypeDecimal {
		return &arrow.Decimal128Type{Precision: int32(t.Width), Scale: int32(t.Scale)}
	}
	if dt, ok := paramTypes[t.ID]; ok && !t.IsReference() {
		return dt
	}
	return arrow.BinaryTypes.String
}

// typeNamed is the Arrow type that a guess is announced with.
func typeNamed(name string) arrow.DataType {
	switch name {
	case "DOUBLE":
		return arrow.PrimitiveTypes.Float64
	case "BIGINT":
		return arrow.PrimitiveTypes.Int64
	case "BLOB":
		return arrow.BinaryTypes.LargeBinary
	case "TIMESTAMP":
		return paramTypes[engine.TypeTimestamp]
	case "TIMESTAMP WITH TIME ZONE":
		return paramTypes[engine.TypeTimestampTZ]
	case "BOOLEAN":
		return arrow.FixedWidthTypes.Boolean
	case "DATE":
		return arrow.FixedWidthTypes.Date32
	}
	return arrow.BinaryTypes.String
}

var castNames = map[arrow.Type]string{
	arrow.BOOL: "BOOLEAN",
	arrow.INT8: "TINYINT", arrow.INT16: "SMALLINT", arrow.INT32: "INTEGER", arrow.INT64: "BIGINT",
	arrow.UINT8: "UTINYINT", arrow.UINT16: "USMALLINT", arrow.UINT32: "UINTEGER", arrow.UINT64: "UBIGINT",
	arrow.FLOAT16: "FLOAT", arrow.FLOAT32: "FLOAT", arrow.FLOAT64: "DOUBLE",
	arrow.STRING: "VARCHAR", arrow.LARGE_STRING: "VARCHAR", arrow.STRING_VIEW: "VARCHAR",
	arrow.BINARY: "BLOB", arrow.LARGE_BINARY: "BLOB", arrow.BINARY_VIEW: "BLOB", arrow.FIXED_SIZE_BINARY: "BLOB",
	arrow.DATE32: "DATE", arrow.DATE64: "DATE", arrow.TIME32: "TIME",
	arrow.DURATION: "INTERVAL", arrow.INTERVAL_MONTHS: "INTERVAL", arrow.INTERVAL_DAY_TIME: "INTERVAL", arrow.INTERVAL_MONTH_DAY_NANO: "INTERVAL",
}

// castName is the type of SQL that has all values of a bound type.
func castName(t arrow.DataType) (string, error) {
	switch t := t.(type) {
	case arrow.DecimalType:
		if t.GetPrecision() <= 38 && t.GetScale() >= 0 && t.GetScale() <= t.GetPrecision() {
			return fmt.Sprintf("DECIMAL(%d,%d)", t.GetPrecision(), t.GetScale()), nil
		}
		return "VARCHAR", nil
	case *arrow.Time64Type:
		if t.Unit == arrow.Nanosecond {
			return "TIME_NS", nil
		}
		return "TIME", nil
	case *arrow.TimestampType:
		switch {
		case t.Unit == arrow.Nanosecond:
			return "TIMESTAMP_NS", nil
		case t.TimeZone != "":
			return "TIMESTAMP WITH TIME ZONE", nil
		}
		return "TIMESTAMP", nil
	case *arrow.DictionaryType:
		return castName(t.ValueType)
	case *arrow.NullType: // of lists that are empty or hold nothing else
		return "INTEGER", nil
	case arrow.ListLikeType:
		if t.ID() == arrow.MAP {
			break
		}
		name, err := castName(t.Elem())
		return name + "[]", err
	}
	if name, ok := castNames[t.ID()]; ok {
		return name, nil
	}
	return "", fmt.Errorf("a value of type %s cannot be bound; send it as text", t)
}

// paramValue is a value as the engine binds it, which casts text to the type
// that the statement wants: times, decimals and what lists hold go as text.
func paramValue(a arrow.Array, i int) (any, error) {
	if d, ok := a.(*array.Dictionary); ok && d.IsValid(i) {
		return paramValue(d.Dictionary(), d.GetValueIndex(i))
	}
	if a.IsNull(i) {
		return nil, nil
	}
	switch a := a.(type) {
	case *array.Null:
		return nil, nil
	case *array.Boolean:
		return a.Value(i), nil
	case *array.Int8:
		return int64(a.Value(i)), nil
	case *array.Int16:
		return int64(a.Value(i)), nil
	case *array.Int32:
		return int64(a.Value(i)), nil
	case *array.Int64:
		return a.Value(i), nil
	case *array.Uint8:
		return uint64(a.Value(i)), nil
	case *array.Uint16:
		return uint64(a.Value(i)), nil
	case *array.Uint32:
		return uint64(a.Value(i)), nil
	case *array.Uint64:
		return a.Value(i), nil
	case *array.Float16:
		return float64(half.Float32(a.Value(i))), nil
	case *array.Float32:
		return float64(a.Value(i)), nil
	case *array.Float64:
		return a.Value(i), nil
	case *array.Binary:
		return append([]byte{}, a.Value(i)...), nil
	case *array.LargeBinary:
		return append([]byte{}, a.Value(i)...), nil
	case *array.BinaryView:
		return append([]byte{}, a.Value(i)...), nil
	case *array.FixedSizeBinary:
		return append([]byte{}, a.Value(i)...), nil
	case *array.Map:
	case array.ListLike:
		from, to := a.ValueOffsets(i)
		items := make([]any, 0, to-from)
		for k := from; k < to; k++ {
			item, err := listed(a.ListValues(), int(k))
			if err != nil {
				return nil, err
			}
			items = append(items, item)
		}
		return items, nil
	}
	return paramText(a, i)
}

// listed is an item of a list: text, nil, or a list.
func listed(a arrow.Array, i int) (any, error) {
	if d, ok := a.(*array.Dictionary); ok && d.IsValid(i) {
		return listed(d.Dictionary(), d.GetValueIndex(i))
	}
	v, err := paramValue(a, i)
	if err != nil {
		return nil, err
	}
	switch v.(type) {
	case nil, []any:
		return v, nil
	}
	return paramText(a, i)
}

// Words of the engine for what is no number.
func floatText(v float64, bits int) string {
	switch {
	case math.IsNaN(v):
		return "nan"
	case math.IsInf(v, 1):
		return "infinity"
	case math.IsInf(v, -1):
		return "-infinity"
	}
	return strconv.FormatFloat(v, 'g', -1, bits)
}

// paramText is a value as text that the engine casts to its type.
func paramText(a arrow.Array, i int) (string, error) {
	switch a := a.(type) {
	case *array.String:
		return strings.Clone(a.Value(i)), nil
	case *array.LargeString:
		return strings.Clone(a.Value(i)), nil
	case *array.StringView:
		return strings.Clone(a.Value(i)), nil
	case *array.Boolean, *array.Int8, *array.Int16, *array.Int32, *array.Int64, *array.Uint8, *array.Uint16, *array.Uint32, *array.Uint64,
		*array.Decimal32, *array.Decimal64, *array.Decimal128, *array.Decimal256:
		return a.ValueStr(i), nil
	case *array.Float16:
		return floatText(float64(half.Float32(a.Value(i))), 32), nil
	case *array.Float32:
		return floatText(float64(a.Value(i)), 32), nil
	case *array.Float64:
		return floatText(a.Value(i), 64), nil
	case *array.Date32:
		return dated(a.Value(i).ToTime(), time.DateOnly)
	case *array.Date64:
		return dated(a.Value(i).ToTime(), time.DateOnly)
	case *array.Time32:
		return a.Value(i).ToTime(a.DataType().(*arrow.Time32Type).Unit).Format("15:04:05.999999999"), nil
	case *array.Time64:
		return a.Value(i).ToTime(a.DataType().(*arrow.Time64Type).Unit).Format("15:04:05.999999999"), nil
	case *array.Timestamp:
		dt := a.DataType().(*arrow.TimestampType)
		layout := "2006-01-02 15:04:05.999999999"
		if dt.TimeZone != "" {
			layout += "Z07:00"
		}
		return dated(a.Value(i).ToTime(dt.Unit).UTC(), layout)
	case *array.Duration:
		n, unit := int64(a.Value(i)), a.DataType().(*arrow.DurationType).Unit
		switch unit {
		case arrow.Second:
			return strconv.FormatInt(n, 10) + " seconds", nil
		case arrow.Millisecond:
			return strconv.FormatInt(n, 10) + " milliseconds", nil
		case arrow.Microsecond:
			return strconv.FormatInt(n, 10) + " microseconds", nil
		}
		return strconv.FormatInt(n/1000, 10) + " microseconds", nil
	case *array.MonthInterval:
		return fmt.Sprintf("%d months", a.Value(i)), nil
	case *array.DayTimeInterval:
		v := a.Value(i)
		return fmt.Sprintf("%d days %d milliseconds", v.Days, v.Milliseconds), nil
	case *array.MonthDayNanoInterval:
		v := a.Value(i)
		return fmt.Sprintf("%d months %d days %d microseconds", v.Months, v.Days, v.Nanoseconds/1000), nil
	case array.BinaryLike:
		return bytesText(a.ValueBytes()[a.ValueOffset64(i) : a.ValueOffset64(i)+int64(a.ValueLen(i))]), nil
	case *array.FixedSizeBinary:
		return bytesText(a.Value(i)), nil
	}
	return "", fmt.Errorf("a value of type %s cannot be bound; send it as text", a.DataType())
}

// dated writes a time of the years that its spelling has.
func dated(t time.Time, layout string) (string, error) {
	if t.Year() < 1 || t.Year() > 9999 {
		return "", fmt.Errorf("a time in year %d cannot be bound; send it as text", t.Year())
	}
	return t.Format(layout), nil
}

// bytesText spells bytes as the engine's cast to BLOB reads them.
func bytesText(b []byte) string {
	var out strings.Builder
	for _, c := range b {
		if c < ' ' || c > '~' || c == '\\' || c == '\'' || c == '"' {
			fmt.Fprintf(&out, `\x%02X`, c)
			continue
		}
		out.WriteByte(c)
	}
	return out.String()
}

// longestLiteral bounds a value that is written into a statement's text, in
// bytes.
const longestLiteral = 64 << 10

// paramLiteral writes a value as SQL.
func paramLiteral(a arrow.Array, i int) (string, error) {
	if a.DataType().ID() == arrow.NULL {
		return "NULL", nil
	}
	name, err := castName(a.DataType())
	if err != nil {
		return "", err
	}
	v, err := listed(a, i)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	out.WriteString("CAST(")
	writeLiteral(&out, v)
	out.WriteString(" AS " + name + ")")
	if out.Len() > longestLiteral {
		return "", fault.New(fault.Invalid, "a value of more than %d bytes decides about the result's columns", longestLiteral)
	}
	return out.String(), nil
}

func writeLiteral(out *strings.Builder, v any) {
	switch v := v.(type) {
	case string:
		out.WriteString(literal(v))
	case []any:
		out.WriteByte('[')
		for i, item := range v {
			if i > 0 {
				out.WriteString(", ")
			}
			writeLiteral(out, item)
		}
		out.WriteByte(']')
	default:
		out.WriteString("NULL")
	}
}
