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
// A column that a statement passes through unchanged comes out with its own type,
// nullability and metadata (dictionaries as plain values); one that is computed
// has the engine's type: text as utf8, BLOB as large_binary, lists with 32-bit
// offsets and the item name "item".
package query
