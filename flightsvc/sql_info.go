package flightsvc

import (
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/flight/flightsql/schema_ref"
	flightpb "github.com/apache/arrow-go/v18/arrow/flight/gen/flight"
)

// sqlInfos are the values of SqlInfo by id. The type of each value is part of
// the protocol: clients cast without looking, and fail on ids that are missing.
func (s *Server) sqlInfos() map[flightpb.SqlInfo]any {
	const (
		none      = int64(0) // no limit, or none that is known
		noBits    = int32(0)
		allThree  = int32(7)
		allFour   = int32(15)
		readOnly  = int32(1 << flightpb.SqlSupportedResultSetConcurrency_SQL_RESULT_SET_CONCURRENCY_READ_ONLY)
		isolation = flightpb.SqlTransactionIsolationLevel_SQL_TRANSACTION_NONE
	)
	sql, canWrite := s.opts.Engine != nil, !s.opts.ReadOnly
	return map[flightpb.SqlInfo]any{
		flightpb.SqlInfo_FLIGHT_SQL_SERVER_NAME:                          "flightblob",
		flightpb.SqlInfo_FLIGHT_SQL_SERVER_VERSION:                       s.opts.Version,
		flightpb.SqlInfo_FLIGHT_SQL_SERVER_ARROW_VERSION:                 arrow.PkgVersion,
		flightpb.SqlInfo_FLIGHT_SQL_SERVER_READ_ONLY:                     !canWrite,
		flightpb.SqlInfo_FLIGHT_SQL_SERVER_SQL:                           sql,
		flightpb.SqlInfo_FLIGHT_SQL_SERVER_SUBSTRAIT:                     false,
		flightpb.SqlInfo_FLIGHT_SQL_SERVER_SUBSTRAIT_MIN_VERSION:         "",
		flightpb.SqlInfo_FLIGHT_SQL_SERVER_SUBSTRAIT_MAX_VERSION:         "",
		flightpb.SqlInfo_FLIGHT_SQL_SERVER_TRANSACTION:                   int32(flightpb.SqlSupportedTransaction_SQL_SUPPORTED_TRANSACTION_NONE),
		flightpb.SqlInfo_FLIGHT_SQL_SERVER_CANCEL:                        true,
		flightpb.SqlInfo_FLIGHT_SQL_SERVER_BULK_INGESTION:                canWrite,
		flightpb.SqlInfo_FLIGHT_SQL_SERVER_INGEST_TRANSACTIONS_SUPPORTED: false,
		flightpb.SqlInfo_FLIGHT_SQL_SERVER_STATEMENT_TIMEOUT:             int32(min(s.opts.PreparedIdle.Milliseconds(), 1<<31-1)),
		flightpb.SqlInfo_FLIGHT_SQL_SERVER_TRANSACTION_TIMEOUT:           int32(0),

		flightpb.SqlInfo_SQL_DDL_CATALOG:                      false,
		flightpb.SqlInfo_SQL_DDL_SCHEMA:                       canWrite,
		flightpb.SqlInfo_SQL_DDL_TABLE:                        canWrite,
		flightpb.SqlInfo_SQL_IDENTIFIER_CASE:                  int64(flightpb.SqlSupportedCaseSensitivity_SQL_CASE_SENSITIVITY_CASE_INSENSITIVE),
		flightpb.SqlInfo_SQL_IDENTIFIER_QUOTE_CHAR:            `"`,
		flightpb.SqlInfo_SQL_QUOTED_IDENTIFIER_CASE:           int64(flightpb.SqlSupportedCaseSensitivity_SQL_CASE_SENSITIVITY_CASE_INSENSITIVE),
		flightpb.SqlInfo_SQL_ALL_TABLES_ARE_SELECTABLE:        true,
		flightpb.SqlInfo_SQL_NULL_ORDERING:                    int64(flightpb.SqlNullOrdering_SQL_NULLS_SORTED_AT_END),
		flightpb.SqlInfo_SQL_KEYWORDS:                         sqlKeywords,
		flightpb.SqlInfo_SQL_NUMERIC_FUNCTIONS:                numericFunctions,
		flightpb.SqlInfo_SQL_STRING_FUNCTIONS:                 stringFunctions,
		flightpb.SqlInfo_SQL_SYSTEM_FUNCTIONS:                 systemFunctions,
		flightpb.SqlInfo_SQL_DATETIME_FUNCTIONS:               datetimeFunctions,
		flightpb.SqlInfo_SQL_SEARCH_STRING_ESCAPE:             `\`,
		flightpb.SqlInfo_SQL_EXTRA_NAME_CHARACTERS:            "$",
		flightpb.SqlInfo_SQL_SUPPORTS_COLUMN_ALIASING:         true,
		flightpb.SqlInfo_SQL_NULL_PLUS_NULL_IS_NULL:           true,
		flightpb.SqlInfo_SQL_SUPPORTS_CONVERT:                 conversions(),
		flightpb.SqlInfo_SQL_SUPPORTS_TABLE_CORRELATION_NAMES: true,
		flightpb.SqlInfo_SQL_SUPPORTS_EXPRESSIONS_IN_ORDER_BY: true,
		flightpb.SqlInfo_SQL_SUPPORTS_ORDER_BY_UNRELATED:      true,
		flightpb.SqlInfo_SQL_SUPPORTED_GROUP_BY:               int32(3),
		flightpb.SqlInfo_SQL_SUPPORTS_LIKE_ESCAPE_CLAUSE:      true,
		flightpb.SqlInfo_SQL_SUPPORTS_NON_NULLABLE_COLUMNS:    true,
		flightpb.SqlInfo_SQL_SUPPORTED_GRAMMAR:                allThree,
		flightpb.SqlInfo_SQL_ANSI92_SUPPORTED_LEVEL:           int32(1 << flightpb.SupportedAnsi92SqlGrammarLevel_ANSI92_ENTRY_SQL),
		flightpb.SqlInfo_SQL_OUTER_JOINS_SUPPORT_LEVEL:        int32(flightpb.SqlOuterJoinsSupportLevel_SQL_FULL_OUTER_JOINS),
		flightpb.SqlInfo_SQL_SCHEMA_TERM:                      "schema",
		flightpb.SqlInfo_SQL_PROCEDURE_TERM:                   "procedure",
		flightpb.SqlInfo_SQL_CATALOG_TERM:                     "catalog",
		flightpb.SqlInfo_SQL_CATALOG_AT_START:                 true,
		flightpb.SqlInfo_SQL_SCHEMAS_SUPPORTED_ACTIONS:        noBits,
		flightpb.SqlInfo_SQL_CATALOGS_SUPPORTED_ACTIONS:       noBits,
		flightpb.SqlInfo_SQL_SUPPORTED_POSITIONED_COMMANDS:    noBits,
		flightpb.SqlInfo_SQL_SELECT_FOR_UPDATE_SUPPORTED:      false,
		flightpb.SqlInfo_SQL_STORED_PROCEDURES_SUPPORTED:      false,
		flightpb.SqlInfo_SQL_SUPPORTED_SUBQUERIES:             allFour,
		flightpb.SqlInfo_SQL_CORRELATED_SUBQUERIES_SUPPORTED:  true,
		flightpb.SqlInfo_SQL_SUPPORTED_UNIONS:                 int32(3),
		flightpb.SqlInfo_SQL_MAX_BINARY_LITERAL_LENGTH:        none,
		flightpb.SqlInfo_SQL_MAX_CHAR_LITERAL_LENGTH:          none,
		flightpb.SqlInfo_SQL_MAX_COLUMN_NAME_LENGTH:           none,
		flightpb.SqlInfo_SQL_MAX_COLUMNS_IN_GROUP_BY:          none,
		flightpb.SqlInfo_SQL_MAX_COLUMNS_IN_INDEX:             none,
		flightpb.SqlInfo_SQL_MAX_COLUMNS_IN_ORDER_BY:          none,
		flightpb.SqlInfo_SQL_MAX_COLUMNS_IN_SELECT:            none,
		flightpb.SqlInfo_SQL_MAX_COLUMNS_IN_TABLE:             none,
		flightpb.SqlInfo_SQL_MAX_CONNECTIONS:                  none,
		flightpb.SqlInfo_SQL_MAX_CURSOR_NAME_LENGTH:           none,
		flightpb.SqlInfo_SQL_MAX_INDEX_LENGTH:                 none,
		flightpb.SqlInfo_SQL_DB_SCHEMA_NAME_LENGTH:            none,
		flightpb.SqlInfo_SQL_MAX_PROCEDURE_NAME_LENGTH:        none,
		flightpb.SqlInfo_SQL_MAX_CATALOG_NAME_LENGTH:          none,
		flightpb.SqlInfo_SQL_MAX_ROW_SIZE:                     none,
		flightpb.SqlInfo_SQL_MAX_ROW_SIZE_INCLUDES_BLOBS:      true,
		flightpb.SqlInfo_SQL_MAX_STATEMENT_LENGTH:             int64(maxStatement),
		flightpb.SqlInfo_SQL_MAX_STATEMENTS:                   none,
		flightpb.SqlInfo_SQL_MAX_TABLE_NAME_LENGTH:            none,
		flightpb.SqlInfo_SQL_MAX_TABLES_IN_SELECT:             none,
		flightpb.SqlInfo_SQL_MAX_USERNAME_LENGTH:              none,
		flightpb.SqlInfo_SQL_DEFAULT_TRANSACTION_ISOLATION:    int64(isolation),
		flightpb.SqlInfo_SQL_TRANSACTIONS_SUPPORTED:           false,
		flightpb.SqlInfo_SQL_SUPPORTED_RESULT_SET_TYPES:       int32(1 << flightpb.SqlSupportedResultSetType_SQL_RESULT_SET_TYPE_FORWARD_ONLY),
		flightpb.SqlInfo_SQL_BATCH_UPDATES_SUPPORTED:          canWrite,
		flightpb.SqlInfo_SQL_SAVEPOINTS_SUPPORTED:             false,
		flightpb.SqlInfo_SQL_NAMED_PARAMETERS_SUPPORTED:       false,
		flightpb.SqlInfo_SQL_LOCATORS_UPDATE_COPY:             false,

		flightpb.SqlInfo_SQL_SUPPORTS_DIFFERENT_TABLE_CORRELATION_NAMES:                false,
		flightpb.SqlInfo_SQL_SUPPORTS_INTEGRITY_ENHANCEMENT_FACILITY:                   false,
		flightpb.SqlInfo_SQL_SUPPORTED_TRANSACTIONS_ISOLATION_LEVELS:                   int32(1 << isolation),
		flightpb.SqlInfo_SQL_DATA_DEFINITION_CAUSES_TRANSACTION_COMMIT:                 false,
		flightpb.SqlInfo_SQL_DATA_DEFINITIONS_IN_TRANSACTIONS_IGNORED:                  false,
		flightpb.SqlInfo_SQL_SUPPORTED_CONCURRENCIES_FOR_RESULT_SET_UNSPECIFIED:        noBits,
		flightpb.SqlInfo_SQL_SUPPORTED_CONCURRENCIES_FOR_RESULT_SET_FORWARD_ONLY:       readOnly,
		flightpb.SqlInfo_SQL_SUPPORTED_CONCURRENCIES_FOR_RESULT_SET_SCROLL_SENSITIVE:   noBits,
		flightpb.SqlInfo_SQL_SUPPORTED_CONCURRENCIES_FOR_RESULT_SET_SCROLL_INSENSITIVE: noBits,
		flightpb.SqlInfo_SQL_STORED_FUNCTIONS_USING_CALL_SYNTAX_SUPPORTED:              false,
	}
}

// conversions say which types CAST turns into which.
func conversions() map[int32][]int32 {
	const (
		date      = int32(flightpb.SqlSupportsConvert_SQL_CONVERT_DATE)
		clock     = int32(flightpb.SqlSupportsConvert_SQL_CONVERT_TIME)
		timestamp = int32(flightpb.SqlSupportsConvert_SQL_CONVERT_TIMESTAMP)
	)
	numbers := []int32{
		int32(flightpb.SqlSupportsConvert_SQL_CONVERT_BIGINT), int32(flightpb.SqlSupportsConvert_SQL_CONVERT_BIT),
		int32(flightpb.SqlSupportsConvert_SQL_CONVERT_DECIMAL), int32(flightpb.SqlSupportsConvert_SQL_CONVERT_FLOAT),
		int32(flightpb.SqlSupportsConvert_SQL_CONVERT_INTEGER), int32(flightpb.SqlSupportsConvert_SQL_CONVERT_NUMERIC),
		int32(flightpb.SqlSupportsConvert_SQL_CONVERT_REAL), int32(flightpb.SqlSupportsConvert_SQL_CONVERT_SMALLINT),
		int32(flightpb.SqlSupportsConvert_SQL_CONVERT_TINYINT),
	}
	texts := []int32{
		int32(flightpb.SqlSupportsConvert_SQL_CONVERT_CHAR), int32(flightpb.SqlSupportsConvert_SQL_CONVERT_LONGVARCHAR),
		int32(flightpb.SqlSupportsConvert_SQL_CONVERT_VARCHAR),
	}
	bytes := []int32{
		int32(flightpb.SqlSupportsConvert_SQL_CONVERT_BINARY), int32(flightpb.SqlSupportsConvert_SQL_CONVERT_LONGVARBINARY),
		int32(flightpb.SqlSupportsConvert_SQL_CONVERT_VARBINARY),
	}
	spans := []int32{
		int32(flightpb.SqlSupportsConvert_SQL_CONVERT_INTERVAL_DAY_TIME),
		int32(flightpb.SqlSupportsConvert_SQL_CONVERT_INTERVAL_YEAR_MONTH),
	}
	all := map[int32][]int32{}
	allow := func(from []int32, to ...[]int32) {
		for _, f := range from {
			list := slices.Concat(to...)
			slices.Sort(list)
			all[f] = list
		}
	}
	allow(numbers, numbers, texts)
	allow(texts, numbers, texts, bytes, spans, []int32{date, clock, timestamp})
	allow(bytes, bytes, texts)
	allow(spans, spans, texts)
	allow([]int32{date}, []int32{date, timestamp}, texts)
	allow([]int32{clock}, []int32{clock}, texts)
	allow([]int32{timestamp}, []int32{date, clock, timestamp}, texts)
	return all
}

// infoRows answers CommandGetSqlInfo: the ids asked for, all if none is, by id.
// Ids that mean nothing here are left out.
func (s *Server) infoRows(ids []uint32) array.RecordReader {
	all := s.sqlInfos()
	var wanted []uint32
	if len(ids) == 0 {
		for id := range all {
			wanted = append(wanted, uint32(id))
		}
	} else {
		wanted = slices.DeleteFunc(slices.Clone(ids), func(id uint32) bool {
			_, known := all[flightpb.SqlInfo(id)]
			return !known
		})
	}
	slices.Sort(wanted)
	wanted = slices.Compact(wanted)
	return oneBatch(schema_ref.SqlInfo, func(b *array.RecordBuilder) {
		values := b.Field(1).(*array.DenseUnionBuilder)
		for _, id := range wanted {
			b.Field(0).(*array.Uint32Builder).Append(id)
			appendInfo(values, all[flightpb.SqlInfo(id)])
		}
	})
}

// Children of the value's union, by position and type code alike.
const (
	infoText = iota
	infoBool
	infoInt64
	infoInt32
	infoTexts
	infoMap
)

func appendInfo(b *array.DenseUnionBuilder, v any) {
	child := func(code arrow.UnionTypeCode) array.Builder {
		b.Append(code)
		return b.Child(int(code))
	}
	switch v := v.(type) {
	case string:
		child(infoText).(*array.StringBuilder).Append(v)
	case bool:
		child(infoBool).(*array.BooleanBuilder).Append(v)
	case int64:
		child(infoInt64).(*array.Int64Builder).Append(v)
	case int32:
		child(infoInt32).(*array.Int32Builder).Append(v)
	case []string:
		list := child(infoTexts).(*array.ListBuilder)
		list.Append(true)
		list.ValueBuilder().(*array.StringBuilder).AppendValues(v, nil)
	case map[int32][]int32:
		m := child(infoMap).(*array.MapBuilder)
		m.Append(true)
		keys := make([]int32, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		items := m.ItemBuilder().(*array.ListBuilder)
		for _, k := range keys {
			m.KeyBuilder().(*array.Int32Builder).Append(k)
			items.Append(true)
			items.ValueBuilder().(*array.Int32Builder).AppendValues(v[k], nil)
		}
	}
}
