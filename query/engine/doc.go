// Package engine is DuckDB as this program uses it: one in-memory database that
// reads tables from record batches and gives results as record batches. It is
// the only package with C in it; it knows nothing of Lance, catalogs or Flight.
//
//	Provider ── Relation ── Batches      what tables are read from
//	      │ Arrow C data interface, windows of at most 2048 rows by reference
//	   DuckDB ── Conn ── Prepared ── Result     what statements run on
//	      │ chunk by chunk, one copy
//	   record batches
//
// Blob values travel as references (package reference): structs under the alias
// LANCE_BLOB, at any depth. Functions over references are registered here; what
// they may open is decided by the reference's origin.
//
// Settings are fixed in the order threads, memory, spill folder, Arrow types,
// external access off, configuration locked; afterwards no statement can change
// them or touch a file.
//
// A Conn and what was made from it are for one goroutine at a time; Interrupt
// may come from any. Batches may be pulled from any of the engine's threads, one
// call at a time.
package engine
