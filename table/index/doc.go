// Package index answers conditions by scalar indexes of a table: B-trees and
// bitmap indexes as the reference writes them. Opened files go in, sets of row
// numbers come out; it does not know where the files lie, nor which rows still
// exist.
//
// Both kinds are Lance data files without a manifest, with flat columns:
//
//	B-tree      page_lookup.lance         min, max: T?  null_count, page_idx: uint32
//	            page_data.lance           values: T?  ids: uint64
//	bitmap      bitmap_page_lookup.lance  keys: T?  bitmaps: binary
//
// Page i of a B-tree is the rows [i·b, (i+1)·b) of page_data, where b is the
// lookup file's metadata batch_size. Values ascend over all pages, nulls first.
// Each row of a bitmap index has one distinct value, or null, and the rows that
// have it (see rowMap). Row numbers are row ids, which are row addresses unless the
// table has stable ids; in B-trees of version 1 they are addresses in any case.
//
// What a search finds are candidates: a row of the indexed fragments that is
// missing does not meet the condition, one that is there need not exist any
// more. Values order as in SQL, which differs from the writer's order for NaN
// and -0 only.
package index
