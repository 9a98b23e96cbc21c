// Package datafile reads the container of a Lance data file: footer, column
// metadata, page tables and buffers.
//
//	data buffers (page buffers, blob payloads), each at a multiple of 64
//	global buffer 0 = FileDescriptor
//	column metadata 0, 1, …
//	column metadata offset table   u64 position, u64 size per column
//	global buffer offset table     u64 position, u64 size per buffer
//	footer, 40 bytes               three positions, two counts, version, "LANC"
//
// Opening costs at most two requests when the metadata is small; an open
// Reader holds page tables, not pages.
package datafile
