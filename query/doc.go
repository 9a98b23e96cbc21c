// Package query runs SQL over snapshots.
//
// A statement is parsed, its table names become views over the scan function of
// an in-memory engine (package engine), and each table is pinned to one version
// for as long as the statement lives. Blob columns enter the engine as references
// (package reference); payload is read when a result's rows are encoded, or by
// the functions that ask for bytes.
//
// What the engine shows differs from what a table holds where its types do:
//
//	in the table                          inside SQL
//	blob column                           LANCE_BLOB, a reference; bytes by blob_bytes
//	float16                               FLOAT
//	decimal128, decimal256 up to 38       DECIMAL; VARCHAR when the scale is negative
//	decimal256 beyond 38 digits           VARCHAR
//	timestamp with zone                   TIMESTAMP WITH TIME ZONE, shown in UTC
//	timestamp[ns] with zone               TIMESTAMP_NS, in UTC
//	date64                                DATE
//	time32                                TIME
//	duration[s, ms, us]                   INTERVAL
//	duration[ns]                          BIGINT, nanoseconds
//	fixed_size_binary                     BLOB
//	fixed_size_list beyond 100000 items   list
//	dictionary                            its values
//	null                                  INTEGER
//	struct without fields                 BOOLEAN
//	json                                  VARCHAR
//
// A column that a statement passes through unchanged comes out with its own type,
// nullability and metadata (dictionaries as plain values); one that is computed
// has the engine's type: text as utf8, BLOB as large_binary, lists with 32-bit
// offsets and the item name "item".
package query
