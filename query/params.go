package query

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/flightblob/flightblob/query/engine"
)

// paramType is the Arrow type in which clients best send a parameter.
func paramType(t *engine.Type) arrow.DataType {
	switch t.ID {
	case engine.TypeBoolean:
		return arrow.FixedWidthTypes.Boolean
	case engine.TypeTinyInt:
		return arrow.PrimitiveTypes.Int8
	case engine.TypeSmallInt:
		return arrow.PrimitiveTypes.Int16
	case engine.TypeInteger:
		return arrow.PrimitiveTypes.Int32
	case engine.TypeBigInt:
		return arrow.PrimitiveTypes.Int64
	case engine.TypeUTinyInt:
		return arrow.PrimitiveTypes.Uint8
	case engine.TypeUSmallInt:
		return arrow.PrimitiveTypes.Uint16
	case engine.TypeUInteger:
		return arrow.PrimitiveTypes.Uint32
	case engine.TypeUBigInt:
		return arrow.PrimitiveTypes.Uint64
	case engine.TypeFloat:
		return arrow.PrimitiveTypes.Float32
	case engine.TypeDouble:
		return arrow.PrimitiveTypes.Float64
	case engine.TypeBlob:
		return arrow.BinaryTypes.LargeBinary
	case engine.TypeDate:
		return arrow.FixedWidthTypes.Date32
	case engine.TypeTime:
		return arrow.FixedWidthTypes.Time64us
	case engine.TypeTimestampS:
		return &arrow.TimestampType{Unit: arrow.Second}
	case engine.TypeTimestampMS:
		return &arrow.TimestampType{Unit: arrow.Millisecond}
	case engine.TypeTimestamp:
		return &arrow.TimestampType{Unit: arrow.Microsecond}
	case engine.TypeTimestampNS:
		return &arrow.TimestampType{Unit: arrow.Nanosecond}
	case engine.TypeTimestampTZ:
		return &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}
	case engine.TypeDecimal:
		return &arrow.Decimal128Type{Precision: int32(t.Width), Scale: int32(t.Scale)}
	case engine.TypeVarchar, engine.TypeUUID, engine.TypeEnum:
		return arrow.BinaryTypes.String
	}
	return arrow.Null
}

// paramValue is a value as the engine binds it; it casts text to the type that
// the statement wants, so times and decimals go as text.
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
		return float64(a.Value(i).Float32()), nil
	case *array.Float32:
		return float64(a.Value(i)), nil
	case *array.Float64:
		return a.Value(i), nil
	case *array.String:
		return string([]byte(a.Value(i))), nil
	case *array.LargeString:
		return string([]byte(a.Value(i))), nil
	case *array.StringView:
		return string([]byte(a.Value(i))), nil
	case *array.Binary:
		return append([]byte{}, a.Value(i)...), nil
	case *array.LargeBinary:
		return append([]byte{}, a.Value(i)...), nil
	case *array.BinaryView:
		return append([]byte{}, a.Value(i)...), nil
	case *array.FixedSizeBinary:
		return append([]byte{}, a.Value(i)...), nil
	case *array.Decimal32, *array.Decimal64, *array.Decimal128, *array.Decimal256:
		return a.ValueStr(i), nil
	case *array.Date32:
		return a.Value(i).ToTime().Format(time.DateOnly), nil
	case *array.Date64:
		return a.Value(i).ToTime().Format(time.DateOnly), nil
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
		return a.Value(i).ToTime(dt.Unit).UTC().Format(layout), nil
	case *array.Duration:
		n := int64(a.Value(i))
		unit := map[arrow.TimeUnit]string{arrow.Second: "seconds", arrow.Millisecond: "milliseconds", arrow.Microsecond: "microseconds"}
		if word, ok := unit[a.DataType().(*arrow.DurationType).Unit]; ok {
			return strconv.FormatInt(n, 10) + " " + word, nil
		}
		return strconv.FormatInt(n/1000, 10) + " microseconds", nil
	}
	return nil, fmt.Errorf("a value of type %s cannot be bound; send it as text", a.DataType())
}

// paramLiteral writes a value as SQL, for statements whose types depend on those
// of their parameters.
func paramLiteral(a arrow.Array, i int) (string, error) {
	if d, ok := a.(*array.Dictionary); ok && d.IsValid(i) {
		return paramLiteral(d.Dictionary(), d.GetValueIndex(i))
	}
	v, err := paramValue(a, i)
	if err != nil {
		return "", err
	}
	as := func(text, name string) string { return "CAST(" + literal(text) + " AS " + name + ")" }
	switch v := v.(type) {
	case nil:
		return "NULL", nil
	case bool:
		return strconv.FormatBool(v), nil
	case int64:
		return "(" + strconv.FormatInt(v, 10) + ")", nil
	case uint64:
		return "(" + strconv.FormatUint(v, 10) + ")", nil
	case float64:
		return as(strconv.FormatFloat(v, 'g', -1, 64), "DOUBLE"), nil
	case []byte:
		return "from_hex(" + literal(hex.EncodeToString(v)) + ")", nil
	case string:
		switch dt := a.DataType().(type) {
		case arrow.DecimalType:
			if dt.GetPrecision() <= 38 && dt.GetScale() >= 0 {
				return as(v, fmt.Sprintf("DECIMAL(%d, %d)", dt.GetPrecision(), dt.GetScale())), nil
			}
			return as(v, "DOUBLE"), nil
		case *arrow.Date32Type, *arrow.Date64Type:
			return as(v, "DATE"), nil
		case *arrow.Time32Type, *arrow.Time64Type:
			return as(v, "TIME"), nil
		case *arrow.DurationType:
			return as(v, "INTERVAL"), nil
		case *arrow.TimestampType:
			if dt.TimeZone != "" {
				return as(v, "TIMESTAMPTZ"), nil
			}
			return as(v, "TIMESTAMP"), nil
		}
		return literal(v), nil
	}
	return "", fmt.Errorf("a value of type %s cannot be bound; send it as text", a.DataType())
}
