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

// A piece is an array of a window: the batch's, but for where it begins.
typedef struct {
	struct ArrowArray array;
	const void *buffers[1]; // of a struct
	uint8_t *bits;          // a validity bitmap of its own; may be NULL
} piece;

// A window is a run of rows of one column, as an Arrow struct array of its own.
// The engine owns it and releases it when no vector points into it any more.
typedef struct {
	struct ArrowArray *children[1];
	const void *buffers[1];
	fb_batch *batch;
	int64_t used;               // pieces that are made
	struct ArrowArray **nested; // room for pointers to those below the first
	piece pieces[];
} window;

static void column_release(struct ArrowArray *a) {
	a->release = NULL;
}

static void window_release(struct ArrowArray *a) {
	window *w = a->private_data;
	a->release = NULL;
	batch_drop(w->batch);
	for (int64_t i = 0; i < w->used; i++) {
		free(w->pieces[i].bits);
	}
	free(w);
}

// bits_from gives n bits of a bitmap from one of them on, at a byte's border.
static const uint8_t *bits_from(const uint8_t *from, int64_t at, int64_t n, uint8_t **made) {
	from += at / 8;
	int shift = at % 8;
	if (shift == 0) {
		return from;
	}
	int64_t last = (shift + n - 1) / 8; // the byte of the last bit
	*made = calloc(1, n / 8 + 8);
	for (int64_t i = 0; *made && i <= (n - 1) / 8; i++) {
		(*made)[i] = from[i] >> shift | (i < last ? from[i + 1] << (8 - shift) : 0);
	}
	return *made;
}

// cut makes rows [from, from+n) of an array the window's next piece. Structs
// begin at 0 and what is below them begins later: the engine adds a struct's
// beginning to its children, but forgets it for theirs.
static struct ArrowArray *cut(window *w, const int32_t **shape, const struct ArrowArray *in, int64_t from, int64_t n) {
	piece *p = &w->pieces[w->used++];
	p->array = *in;
	p->array.length = n;
	if (p->array.null_count > 0) {
		p->array.null_count = -1; // of the window it is not known
	}
	p->array.release = column_release;
	p->array.private_data = NULL;
	int32_t children = shape ? *(*shape)++ : 0;
	if (children == 0) {
		p->array.offset += from;
		return &p->array;
	}
	from += in->offset;
	p->array.offset = 0;
	p->array.buffers = p->buffers;
	p->array.children = w->nested;
	w->nested += children;
	if (in->null_count != 0 && in->buffers[0]) {
		p->buffers[0] = bits_from(in->buffers[0], from, n, &p->bits);
		if (!p->buffers[0]) {
			return NULL;
		}
	}
	for (int32_t i = 0; i < children; i++) {
		p->array.children[i] = cut(w, shape, in->children[i], from, n);
		if (!p->array.children[i]) {
			return NULL;
		}
	}
	return &p->array;
}

// window_over makes rows [from, from+n) of an array of a batch an array of its
// own. pieces is how many arrays are cut, by shape unless it is NULL.
static bool window_over(fb_batch *b, const int32_t *shape, int64_t pieces, const struct ArrowArray *in, int64_t from, int64_t n,
                        struct ArrowArray *out) {
	pieces = shape ? pieces : 1;
	window *w = calloc(1, sizeof(window) + pieces * (sizeof(piece) + sizeof(struct ArrowArray *)));
	if (!w) {
		return false;
	}
	w->nested = (struct ArrowArray **)(w->pieces + pieces);
	w->children[0] = cut(w, shape ? &shape : NULL, in, from, n);
	if (!w->children[0]) {
		for (int64_t i = 0; i < w->used; i++) {
			free(w->pieces[i].bits);
		}
		free(w);
		return false;
	}
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

// window_of makes rows [from, from+n) of a child of a batch an array.
static bool window_of(fb_scan *s, fb_batch *b, int64_t child, int64_t from, int64_t n, struct ArrowArray *out) {
	const int32_t *shape = s->shape[child] >= 0 ? s->shapes + s->shape[child] : NULL;
	return window_over(b, shape, s->nodes[child], b->root.children[child], from, n, out);
}

// local is what one thread of the engine is reading. dictionaries are vectors
// with the items of the batch's coded columns, made when they are first needed.
// They point into the batch and keep it, so they belong to the thread.
typedef struct {
	fb_batch *batch;
	int64_t at;
	duckdb_data_chunk *dictionaries; // by child of the batch
	int64_t children;
} local;

// leave ends the reading of a batch.
static void leave(local *l) {
	for (int64_t i = 0; i < l->children; i++) {
		if (l->dictionaries[i]) {
			duckdb_destroy_data_chunk(&l->dictionaries[i]);
		}
	}
	free(l->dictionaries);
	l->dictionaries = NULL;
	l->children = 0;
	batch_drop(l->batch);
	l->batch = NULL;
}

static void local_free(void *p) {
	local *l = p;
	if (l) {
		leave(l);
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

// convert turns an array, which it takes over, into a chunk of one vector.
static bool convert(duckdb_function_info info, fb_scan *s, int64_t child, struct ArrowArray *array, duckdb_data_chunk *chunk) {
	duckdb_error_data failed = duckdb_data_chunk_from_arrow(s->aux, array, s->schemas[child], chunk);
	if (!failed) {
		return true;
	}
	bool bad = duckdb_error_data_has_error(failed);
	if (bad) {
		duckdb_function_set_error(info, duckdb_error_data_message(failed));
		if (array->release) {
			array->release(array);
		}
		if (*chunk) {
			duckdb_destroy_data_chunk(chunk);
		}
	}
	duckdb_destroy_error_data(&failed);
	return !bad;
}

// slice_known is duckdb_slice_vector with the number of values that stand in the
// dictionary. The C API has no such call, and without the number the engine
// groups row by row; so the engine's own function is called, whose arguments are
// what the API's handles point to. A build without it slices as the API does.
#if defined(__linux__) && defined(__LP64__)
extern void engine_dictionary(duckdb_vector out, duckdb_vector items, idx_t size, duckdb_selection_vector numbers, idx_t n)
    __asm__("_ZN6duckdb6Vector10DictionaryERS0_mRKNS_15SelectionVectorEm") __attribute__((weak));
#else
static void (*const engine_dictionary)(duckdb_vector, duckdb_vector, idx_t, duckdb_selection_vector, idx_t) = NULL;
#endif

static void slice_known(duckdb_vector out, duckdb_vector items, idx_t size, duckdb_selection_vector numbers, idx_t n) {
	if (engine_dictionary) {
		engine_dictionary(out, items, size, numbers, n);
		return;
	}
	duckdb_vector_reference_vector(out, items);
	duckdb_slice_vector(out, numbers, n);
}

// fill_coded makes rows [l->at, l->at+n) of a coded column a dictionary vector:
// numbers of values that stand once. Its indices are of type uint32, as numbers
// in the engine are, and never null.
static bool fill_coded(duckdb_function_info info, fb_scan *s, local *l, int64_t child, int64_t n, duckdb_vector out) {
	struct ArrowArray *column = l->batch->root.children[child];
	if (!l->dictionaries) {
		l->children = s->children;
		l->dictionaries = calloc(s->children, sizeof(duckdb_data_chunk));
		if (!l->dictionaries) {
			duckdb_function_set_error(info, "out of memory");
			l->children = 0;
			return false;
		}
	}
	if (!l->dictionaries[child]) {
		struct ArrowArray items;
		if (!window_over(l->batch, NULL, 0, column->dictionary, 0, column->dictionary->length, &items)) {
			duckdb_function_set_error(info, "out of memory");
			return false;
		}
		if (!convert(info, s, child, &items, &l->dictionaries[child])) {
			return false;
		}
	}
	duckdb_selection_vector numbers = duckdb_create_selection_vector(n);
	memcpy(duckdb_selection_vector_get_data_ptr(numbers), (const uint32_t *)column->buffers[1] + column->offset + l->at, n * sizeof(uint32_t));
	slice_known(out, duckdb_data_chunk_get_vector(l->dictionaries[child], 0), column->dictionary->length, numbers, n);
	duckdb_destroy_selection_vector(numbers);
	return true;
}

// fill_positions tells the positions of rows [l->at, l->at+n).
static void fill_positions(fb_scan *s, local *l, int64_t n, uint64_t *out) {
	if (l->batch->listed) {
		struct ArrowArray *column = l->batch->root.children[s->children];
		memcpy(out, (const uint64_t *)column->buffers[1] + column->offset + l->at, n * sizeof(uint64_t));
		return;
	}
	for (int64_t i = 0; i < n; i++) {
		out[i] = l->batch->first + l->at + i;
	}
}

// fill puts rows [l->at, l->at+n) into the output, by reference.
static bool fill(duckdb_function_info info, fb_scan *s, local *l, int64_t n, duckdb_data_chunk output) {
	for (idx_t i = 0; i < s->columns; i++) {
		int64_t child = s->source[i];
		if (child == FB_COUNTED) {
			continue;
		}
		duckdb_vector out = duckdb_data_chunk_get_vector(output, i);
		if (child == FB_POSITION) {
			fill_positions(s, l, n, duckdb_vector_get_data(out));
			continue;
		}
		if (l->batch->root.children[child]->dictionary) {
			if (!fill_coded(info, s, l, child, n, out)) {
				return false;
			}
			continue;
		}
		struct ArrowArray array;
		if (!window_of(s, l->batch, child, l->at, n, &array)) {
			duckdb_function_set_error(info, "out of memory");
			return false;
		}
		duckdb_data_chunk chunk = NULL;
		if (!convert(info, s, child, &array, &chunk)) {
			return false;
		}
		duckdb_vector_reference_vector(out, duckdb_data_chunk_get_vector(chunk, 0));
		duckdb_destroy_data_chunk(&chunk);
	}
	return true;
}

void fb_scan_function(duckdb_function_info info, duckdb_data_chunk output) {
	fb_scan *s = duckdb_function_get_init_data(info);
	local *l = duckdb_function_get_local_init_data(info);
	duckdb_data_chunk_set_size(output, 0);
	while (!l->batch || l->at >= l->batch->root.length) {
		leave(l);
		fb_batch *b = batch_new();
		if (!b) {
			duckdb_function_set_error(info, "out of memory");
			return;
		}
		char *error = NULL;
		int more = fbNextBatch(s->handle, b, &error);
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
	free(s->shapes);
	free(s->shape);
	free(s->nodes);
	free(s->source);
	free(s);
}
