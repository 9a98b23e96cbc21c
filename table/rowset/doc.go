// Package rowset says which rows a fragment has and what they are called:
// deletion vectors, row-id sequences and row versions (table-format sheet
// section 5). It is pure: bytes in, answers out, and back.
//
// Positions come in two kinds, never mixed: a physical offset counts all rows
// of a fragment's data files, a live position only those that are not deleted.
// Decoders keep the compact form of the bytes they are given and check it
// whole, so that the answers need no error; they may share memory with those
// bytes, which must not change afterwards. All types are read-only and safe for
// concurrent use.
package rowset
