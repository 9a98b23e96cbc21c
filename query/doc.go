// Package query runs SQL over snapshots.
//
// A statement is parsed, its table names become views over the scan function of
// an in-memory engine (package engine), and each table is pinned to one version
// for as long as the statement lives. Blob columns enter the engine as references
// (package reference); payload is read when a result's rows are encoded, or by
// the functions that ask for bytes.
//
// What the engine shows differs from what a table holds where its types do: the
// table of types in docs/sql.md.
//
// What is written goes the way back. Casts are the engine's: numbers are rounded
// to the digits of a DECIMAL, times to the unit of a TIMESTAMP_S or TIMESTAMP_MS.
// Where the engine has no type of the column's own, a value that the column cannot
// hold exactly is refused, but for float16, which takes the nearest number. An
// INTERVAL also fills duration[ns], and blob columns take bytes, blob columns and
// blob_ref.
//
// A column that a statement passes through unchanged comes out with its own type,
// nullability and metadata (dictionaries as plain values); one that is computed
// has the engine's type: text as utf8, BLOB as large_binary, lists with 32-bit
// offsets and the item name "item".
package query
