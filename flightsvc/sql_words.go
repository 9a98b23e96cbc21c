package flightsvc

import "strings"

// Words of DuckDB 1.5.6, for SqlInfo: the reserved keywords, and the scalar
// functions by the kinds that the protocol has.
var (
	sqlKeywords = strings.Fields(`
		ALL ANALYSE ANALYZE AND ANTI ANY ARRAY AS ASC ASOF ASYMMETRIC AT AUTHORIZATION BINARY BOTH BY CASE CAST CHECK
		COLLATE COLLATION COLUMN COLUMNS CONCURRENTLY CONSTRAINT CREATE CROSS DEFAULT DEFERRABLE DESC DESCRIBE
		DISTINCT DO ELSE END EXCEPT FALSE FETCH FOR FOREIGN FREEZE FROM FULL GENERATED GLOB GROUP HAVING ILIKE IN
		INITIALLY INNER INTERSECT INTO IS ISNULL JOIN LAMBDA LATERAL LEADING LEFT LIKE LIMIT MAP NATURAL NOT NOTNULL
		NULL OFFSET ON ONLY OR ORDER OUTER OVERLAPS PIVOT PIVOT_LONGER PIVOT_WIDER PLACING POSITIONAL PRIMARY QUALIFY
		REFERENCES RETURNING RIGHT SELECT SEMI SHOW SIMILAR SOME STRUCT SUMMARIZE SYMMETRIC TABLE TABLESAMPLE THEN TO
		TRAILING TRUE TRY_CAST UNION UNIQUE UNPACK UNPIVOT USING VARIADIC VERBOSE WHEN WHERE WINDOW WITH`)
	numericFunctions = strings.Fields(`
		abs acos acosh asin asinh atan atan2 atanh bit_count cbrt ceil ceiling cos cosh cot degrees even exp factorial
		fdiv floor fmod gamma gcd greatest greatest_common_divisor isfinite isinf isnan lcm least
		least_common_multiple lgamma ln log log10 log2 mod nextafter pi pow power radians random round round_even
		setseed sign signbit sin sinh sqrt tan tanh trunc xor`)
	stringFunctions = strings.Fields(`
		array_extract ascii bar base64 bin bit_length char_length character_length chr concat concat_ws contains
		damerau_levenshtein ends_with format format_bytes from_base64 from_hex hamming hex instr jaccard
		jaro_similarity jaro_winkler_similarity lcase left left_grapheme length length_grapheme levenshtein
		like_escape lower lpad ltrim md5 nfc_normalize octet_length ord parse_dirname parse_dirpath parse_filename
		parse_path position prefix printf regexp_escape regexp_extract regexp_extract_all regexp_full_match
		regexp_matches regexp_replace regexp_split_to_array repeat replace reverse right right_grapheme rpad rtrim
		sha1 sha256 split split_part starts_with str_split string_split string_split_regex strip_accents strlen strpos
		substr substring substring_grapheme suffix to_base to_base64 to_hex translate trim ucase unbin unhex unicode
		upper url_decode url_encode`)
	systemFunctions = strings.Fields(`
		alias blob_bytes blob_descriptor blob_kind blob_range blob_size blob_uri coalesce constant_or_null
		current_catalog current_database current_schema current_schemas current_user error hash if ifnull nullif
		pg_typeof session_user typeof user uuid version`)
	datetimeFunctions = strings.Fields(`
		age century current_date current_localtime current_localtimestamp date_add date_diff date_part date_sub
		date_trunc datediff datepart datesub datetrunc day dayname dayofmonth dayofweek dayofyear decade epoch
		epoch_ms epoch_ns epoch_us era get_current_time get_current_timestamp hour isodow isoyear julian last_day
		make_date make_time make_timestamp microsecond millennium millisecond minute month monthname nanosecond now
		quarter second strftime strptime time_bucket timezone timezone_hour timezone_minute to_centuries to_days
		to_decades to_hours to_microseconds to_millennia to_milliseconds to_minutes to_months to_quarters to_seconds
		to_timestamp to_weeks to_years today transaction_timestamp try_strptime week weekday weekofyear year yearweek`)
)
