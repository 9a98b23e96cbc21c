package flightsvc

import (
	"cmp"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/flight/flightsql/schema_ref"
	flightpb "github.com/apache/arrow-go/v18/arrow/flight/gen/flight"
)

// typeInfo is a type of SQL as CommandGetXdbcTypeInfo describes it. Codes are
// those of ODBC and JDBC. A negative number stands for null.
type typeInfo struct {
	name      string
	code      flightpb.XdbcDataType
	size      int32 // digits, characters or bytes
	quote     string
	params    []string
	unsigned  int32 // 0 signed, 1 unsigned, -1 no number
	exact     bool  // a number of fixed digits
	min, max  int32 // scale
	radix     int32
	datetime  flightpb.XdbcDatetimeSubcode
	text      bool
	described flightpb.XdbcDataType // when it differs from code
}

// unlimited is the size of types that have no bound of their own.
const unlimited = 1<<31 - 1

// types are all that a column of a result can have.
var types = []typeInfo{
	{name: "BOOLEAN", code: flightpb.XdbcDataType_XDBC_BIT, size: 1, unsigned: -1, min: -1, max: -1, radix: -1},
	{name: "TINYINT", code: flightpb.XdbcDataType_XDBC_TINYINT, size: 3, exact: true, radix: 10},
	{name: "UTINYINT", code: flightpb.XdbcDataType_XDBC_TINYINT, size: 3, unsigned: 1, exact: true, radix: 10},
	{name: "SMALLINT", code: flightpb.XdbcDataType_XDBC_SMALLINT, size: 5, exact: true, radix: 10},
	{name: "USMALLINT", code: flightpb.XdbcDataType_XDBC_SMALLINT, size: 5, unsigned: 1, exact: true, radix: 10},
	{name: "INTEGER", code: flightpb.XdbcDataType_XDBC_INTEGER, size: 10, exact: true, radix: 10},
	{name: "UINTEGER", code: flightpb.XdbcDataType_XDBC_INTEGER, size: 10, unsigned: 1, exact: true, radix: 10},
	{name: "BIGINT", code: flightpb.XdbcDataType_XDBC_BIGINT, size: 19, exact: true, radix: 10},
	{name: "UBIGINT", code: flightpb.XdbcDataType_XDBC_BIGINT, size: 20, unsigned: 1, exact: true, radix: 10},
	{name: "HUGEINT", code: flightpb.XdbcDataType_XDBC_NUMERIC, size: 39, exact: true, radix: 10},
	{name: "UHUGEINT", code: flightpb.XdbcDataType_XDBC_NUMERIC, size: 39, unsigned: 1, exact: true, radix: 10},
	{name: "DECIMAL", code: flightpb.XdbcDataType_XDBC_DECIMAL, size: 38, params: []string{"precision", "scale"}, exact: true, max: 38, radix: 10},
	{name: "FLOAT", code: flightpb.XdbcDataType_XDBC_REAL, size: 24, radix: 2, min: -1, max: -1},
	{name: "DOUBLE", code: flightpb.XdbcDataType_XDBC_DOUBLE, size: 53, radix: 2, min: -1, max: -1},
	{name: "VARCHAR", code: flightpb.XdbcDataType_XDBC_VARCHAR, size: unlimited, quote: "'", unsigned: -1, min: -1, max: -1, radix: -1, text: true},
	{name: "BLOB", code: flightpb.XdbcDataType_XDBC_VARBINARY, size: unlimited, quote: "'", unsigned: -1, min: -1, max: -1, radix: -1},
	{name: blobTypeName, code: flightpb.XdbcDataType_XDBC_LONGVARBINARY, size: unlimited, unsigned: -1, min: -1, max: -1, radix: -1},
	{name: "UUID", code: flightpb.XdbcDataType_XDBC_CHAR, size: 36, quote: "'", unsigned: -1, min: -1, max: -1, radix: -1},
	{
		name: "DATE", code: flightpb.XdbcDataType_XDBC_DATE, size: 10, quote: "'", unsigned: -1, min: -1, max: -1, radix: -1,
		datetime: flightpb.XdbcDatetimeSubcode_XDBC_SUBCODE_DATE, described: flightpb.XdbcDataType_XDBC_DATETIME,
	},
	{
		name: "TIME", code: flightpb.XdbcDataType_XDBC_TIME, size: 15, quote: "'", unsigned: -1, max: 6, radix: -1,
		datetime: flightpb.XdbcDatetimeSubcode_XDBC_SUBCODE_TIME, described: flightpb.XdbcDataType_XDBC_DATETIME,
	},
	{
		name: "TIMESTAMP", code: flightpb.XdbcDataType_XDBC_TIMESTAMP, size: 26, quote: "'", unsigned: -1, max: 6, radix: -1,
		datetime: flightpb.XdbcDatetimeSubcode_XDBC_SUBCODE_TIMESTAMP, described: flightpb.XdbcDataType_XDBC_DATETIME,
	},
	{
		name: "TIMESTAMP_S", code: flightpb.XdbcDataType_XDBC_TIMESTAMP, size: 19, quote: "'", unsigned: -1, radix: -1,
		datetime: flightpb.XdbcDatetimeSubcode_XDBC_SUBCODE_TIMESTAMP, described: flightpb.XdbcDataType_XDBC_DATETIME,
	},
	{
		name: "TIMESTAMP_MS", code: flightpb.XdbcDataType_XDBC_TIMESTAMP, size: 23, quote: "'", unsigned: -1, max: 3, radix: -1,
		datetime: flightpb.XdbcDatetimeSubcode_XDBC_SUBCODE_TIMESTAMP, described: flightpb.XdbcDataType_XDBC_DATETIME,
	},
	{
		name: "TIMESTAMP_NS", code: flightpb.XdbcDataType_XDBC_TIMESTAMP, size: 29, quote: "'", unsigned: -1, max: 9, radix: -1,
		datetime: flightpb.XdbcDatetimeSubcode_XDBC_SUBCODE_TIMESTAMP, described: flightpb.XdbcDataType_XDBC_DATETIME,
	},
	{
		name: "TIMESTAMP WITH TIME ZONE", code: flightpb.XdbcDataType_XDBC_TIMESTAMP, size: 32, quote: "'", unsigned: -1, max: 6, radix: -1,
		datetime: flightpb.XdbcDatetimeSubcode_XDBC_SUBCODE_TIMESTAMP_WITH_TIMEZONE, described: flightpb.XdbcDataType_XDBC_DATETIME,
	},
	{name: "INTERVAL", code: flightpb.XdbcDataType_XDBC_INTERVAL, size: 40, quote: "'", unsigned: -1, min: -1, max: -1, radix: -1},
	{name: "ARRAY", code: xdbcArray, size: unlimited, unsigned: -1, min: -1, max: -1, radix: -1},
	{name: "LIST", code: xdbcArray, size: unlimited, unsigned: -1, min: -1, max: -1, radix: -1},
	{name: "STRUCT", code: xdbcStruct, size: unlimited, unsigned: -1, min: -1, max: -1, radix: -1},
	{name: "MAP", code: xdbcObject, size: unlimited, unsigned: -1, min: -1, max: -1, radix: -1},
}

// Codes of JDBC that the protocol's enumeration has no names for.
const (
	xdbcObject flightpb.XdbcDataType = 2000
	xdbcStruct flightpb.XdbcDataType = 2002
	xdbcArray  flightpb.XdbcDataType = 2003
)

// typeInfoRows lists the types, those of one code if one is given, by code and
// name.
func typeInfoRows(code *int32) array.RecordReader {
	list := slices.DeleteFunc(slices.Clone(types), func(t typeInfo) bool { return code != nil && int32(t.code) != *code })
	slices.SortFunc(list, func(a, b typeInfo) int {
		return cmp.Or(cmp.Compare(a.code, b.code), strings.Compare(a.name, b.name))
	})
	return oneBatch(schema_ref.XdbcTypeInfo, func(b *array.RecordBuilder) {
		for i := range list {
			list[i].append(b)
		}
	})
}

func (t *typeInfo) append(b *array.RecordBuilder) {
	text := func(column int, v string) {
		if v == "" {
			b.Field(column).AppendNull()
			return
		}
		appendText(b, column, v)
	}
	number := func(column int, v int32) {
		if v < 0 {
			b.Field(column).AppendNull()
			return
		}
		b.Field(column).(*array.Int32Builder).Append(v)
	}
	code := func(column int, v int32) { b.Field(column).(*array.Int32Builder).Append(v) }
	yes := func(column int, v bool) { b.Field(column).(*array.BooleanBuilder).Append(v) }

	text(0, t.name)
	code(1, int32(t.code))
	number(2, t.size)
	text(3, t.quote)
	text(4, t.quote)
	if params := b.Field(5).(*array.ListBuilder); len(t.params) > 0 {
		params.Append(true)
		params.ValueBuilder().(*array.StringBuilder).AppendValues(t.params, nil)
	} else {
		params.AppendNull()
	}
	code(6, int32(flightpb.Nullable_NULLABILITY_NULLABLE))
	yes(7, t.text)
	if t.text {
		code(8, int32(flightpb.Searchable_SEARCHABLE_FULL))
	} else {
		code(8, int32(flightpb.Searchable_SEARCHABLE_BASIC))
	}
	if t.unsigned < 0 {
		b.Field(9).AppendNull()
		b.Field(11).AppendNull()
	} else {
		yes(9, t.unsigned == 1)
		yes(11, false)
	}
	yes(10, t.exact)
	text(12, t.name)
	number(13, t.min)
	number(14, t.max)
	described := t.described
	if described == flightpb.XdbcDataType_XDBC_UNKNOWN_TYPE {
		described = t.code
	}
	code(15, int32(described))
	if t.datetime == flightpb.XdbcDatetimeSubcode_XDBC_SUBCODE_UNKNOWN {
		b.Field(16).AppendNull()
	} else {
		code(16, int32(t.datetime))
	}
	number(17, t.radix)
	b.Field(18).AppendNull()
}
