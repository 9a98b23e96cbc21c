#include "bridge.h"

#include <stdatomic.h>
#include <string.h>

// The engine takes at most this many rows in a chunk (duckdb_vector_size).
#define FB_CHUNK 2048

static fb_batch *batch_new(void) {
	fb_batch *b = calloc(1, sizeof(fb_batch));
	if (b) {
		b->refs = 1;
	}
	return b;
}

static void batch_drop(fb_batch *b) {
	if (!b || __atomic_sub_fetch(&b->refs, 1, __ATOMIC_ACQ_REL) != 0) {
		return;
	}
	if (b->root.release) {
		b->root.release(&b->root);
	}
	free(b);
}

// A window is a run of rows of one column, as an Arrow struct array of its own.
// The engine owns it and releases it when no vector points into it any more.
typedef struct {
	struct ArrowArray column;
	struct ArrowArray *children[1];
	const void *buffers[1];
	fb_batch *batch;
} window;

static void column_release(struct ArrowArray *a) {
	a->release = NULL;
}

static void window_release(struct ArrowArray *a) {
	window *w = a->private_data;
	a->release = NULL;
	batch_drop(w->batch);
	free(w);
}

// window_of makes rows [from, from+n) of a child of a batch an array.
static bool window_of(fb_batch *b, int64_t child, int64_t from, int64_t n, struct ArrowArray *out) {
	window *w = calloc(1, sizeof(window));
	if (!w) {
		return false;
	}
	w->column = *b->root.children[child];
	w->column.offset += from;
	w->column.length = n;
	if (w->column.null_count > 0) {
		w->column.null_count = -1; // of the window it is not known
	}
	w->column.release = column_release;
	w->column.private_data = NULL;
	w->children[0] = &w->column;
	w->batch = b;
	__atomic_add_fetch(&b->refs, 1, __ATOMIC_ACQ_REL);

	memset(out, 0, sizeof(*out));
	out->length = n;
	out->n_buffers = 1;
	out->n_children = 1;
	out->buffers = w->buffers;
	out->children = w->children;
	out->release = window_release;
	out->private_data = w;
	return true;
}

// local is what one thread of the engine is reading.
typedef struct {
	fb_batch *batch;
	int64_t at;
} local;

static void local_free(void *p) {
	local *l = p;
	if (l) {
		batch_drop(l->batch);
		free(l);
	}
}

void fb_scan_local_init(duckdb_init_info info) {
	local *l = calloc(1, sizeof(local));
	if (!l) {
		duckdb_init_set_error(info, "out of memory");
		return;
	}
	duckdb_init_set_init_data(info, l, local_free);
}

// fill puts rows [l->at, l->at+n) into the output, by reference.
static bool fill(duckdb_function_info info, fb_scan *s, local *l, int64_t n, duckdb_data_chunk output) {
	for (idx_t i = 0; i < s->columns; i++) {
		if (s->source[i] < 0) {
			continue;
		}
		struct ArrowArray array;
		if (!window_of(l->batch, s->source[i], l->at, n, &array)) {
			duckdb_function_set_error(info, "out of memory");
			return false;
		}
		duckdb_data_chunk chunk = NULL;
		duckdb_error_data failed = duckdb_data_chunk_from_arrow(s->aux, &array, s->schemas[s->source[i]], &chunk);
		if (failed) {
			bool bad = duckdb_error_data_has_error(failed);
			if (bad) {
				duckdb_function_set_error(info, duckdb_error_data_message(failed));
			}
			duckdb_destroy_error_data(&failed);
			if (bad) {
				if (array.release) {
					array.release(&array);
				}
				if (chunk) {
					duckdb_destroy_data_chunk(&chunk);
				}
				return false;
			}
		}
		duckdb_vector_reference_vector(duckdb_data_chunk_get_vector(output, i), duckdb_data_chunk_get_vector(chunk, 0));
		duckdb_destroy_data_chunk(&chunk);
	}
	return true;
}

void fb_scan_function(duckdb_function_info info, duckdb_data_chunk output) {
	fb_scan *s = duckdb_function_get_init_data(info);
	local *l = duckdb_function_get_local_init_data(info);
	duckdb_data_chunk_set_size(output, 0);
	while (!l->batch || l->at >= l->batch->root.length) {
		batch_drop(l->batch);
		l->batch = NULL;
		fb_batch *b = batch_new();
		if (!b) {
			duckdb_function_set_error(info, "out of memory");
			return;
		}
		char *error = NULL;
		int more = fbNextBatch(s->handle, &b->root, &b->window, &error);
		if (more <= 0) {
			batch_drop(b);
			if (more < 0) {
				duckdb_function_set_error(info, error ? error : "the scan failed");
			}
			free(error);
			return;
		}
		l->batch = b;
		l->at = 0;
	}
	int64_t n = l->batch->root.length - l->at;
	if (n > FB_CHUNK) {
		n = FB_CHUNK;
	}
	if (l->batch->window > 0 && n > l->batch->window) {
		n = l->batch->window;
	}
	if (!fill(info, s, l, n, output)) {
		duckdb_data_chunk_set_size(output, 0);
		return;
	}
	l->at += n;
	duckdb_data_chunk_set_size(output, (idx_t)n);
}

void fb_scan_free(void *p) {
	fb_scan *s = p;
	if (!s) {
		return;
	}
	if (s->handle) {
		fbCloseScan(s->handle);
	}
	for (idx_t i = 0; i < s->children; i++) {
		if (s->schemas[i]) {
			duckdb_destroy_arrow_converted_schema(&s->schemas[i]);
		}
	}
	free(s->schemas);
	free(s->source);
	free(s);
}
