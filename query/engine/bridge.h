// What C and Go of this package offer each other.
#pragma once

#include "capi.h"

// fb_batch is one record batch of a scan, exported to C: a struct array with a
// child for each column. Windows of it that the engine holds share it.
typedef struct {
	struct ArrowArray root;
	int64_t window; // most rows of one chunk
	uint64_t first; // position of the first row, which the others follow
	bool listed;    // the last child lists the positions instead
	int64_t refs;
} fb_batch;

// Columns of the output that no child of a batch is for.
#define FB_COUNTED -1  // never looked at
#define FB_POSITION -2 // positions

// fb_scan is one run of a table function: what the engine's threads share.
typedef struct {
	uintptr_t handle;           // of the Go side
	duckdb_connection aux;      // for conversions; borrowed
	idx_t columns;              // of the output
	int64_t *source;            // output column → child of a batch, or one of the two above
	duckdb_arrow_converted_schema *schemas; // one for each child of a batch
	idx_t children;
	int32_t *shapes;   // those of all children, see fb_scan.shape
	int64_t *shape;    // where a child's shape begins, -1 = no struct in a struct
	// A shape is the number of children of a column that is a struct, 0 of any
	// other, then the shapes of those children.
	int64_t *nodes;    // numbers in a child's shape
} fb_scan;

duckdb_state fb_execute(duckdb_pending_result pending, duckdb_result *out);

void fb_scan_function(duckdb_function_info info, duckdb_data_chunk output);
void fb_scan_local_init(duckdb_init_info info);
void fb_scan_free(void *scan);
void *fb_copy_handle(void *data);

// Exported by Go. Errors are malloc'ed texts that the caller frees.
extern void fbBind(duckdb_bind_info info);
extern void fbInit(duckdb_init_info info);
extern int fbNextBatch(uintptr_t scan, fb_batch *out, char **error);
extern void fbCloseScan(uintptr_t scan);
extern void fbDropHandle(void *data);
extern void fbScalar(duckdb_function_info info, duckdb_data_chunk input, duckdb_vector output);
extern void fbGivenBind(duckdb_bind_info info);
extern void fbGiven(duckdb_function_info info, duckdb_data_chunk input, duckdb_vector output);
extern uintptr_t fbSameHandle(uintptr_t handle);
extern bool fbCast(duckdb_function_info info, idx_t count, duckdb_vector input, duckdb_vector output);
