// Package table opens versions of Lance tables, reads them, adds to them and
// publishes the next.
//
// A Table is a root folder; At fixes one version of it as a Snapshot, and
// Snapshot.Scan yields its live rows as record batches whose blob columns are
// descriptors. Values of columns are found by field id through each fragment's
// own list of data files, never by position; a field that no file of a fragment
// lists is null there.
//
//	Env       shared by all tables of a server: stores, access, caches
//	Table     root folder → versions, tags, branches
//	Snapshot  one manifest → schema, rows, places of files, owners of blobs
//	Scan      rows of a snapshot, in scan order or by position
//	Appender  batches → data files and payload, one version at the end or nothing
//
// Invariants: a Snapshot never changes, whatever is committed meanwhile; an
// unpinned At sees every version published before it was called; a batch never
// crosses a fragment, so each blob column of a batch has one owner; nothing is
// fetched that the request does not need (deleted rows, skipped fragments and
// unnamed columns are not read); memory is bounded by BatchBytes and the read
// ahead, not by the table. Whatever a version names is durable before its
// manifest is published, which is create-if-absent; what fails half-way leaves
// the versions that were there.
package table
