// The engine's library keeps its limit on memory for what its buffer manager
// hands out: tables, sorts, joins. Vectors are not among that, and one call of a
// function can make a vector of any size: range(id * 100000000), repeat(s, n).
// Nothing that the library is asked through its API stands in the way.
//
// So this file stands where the library takes memory. It has two sources: the
// jemalloc within it, of which the linker hands the calls over (--wrap), and the
// operators new and delete of C++, which a program may replace. Both are counted;
// a large piece that would go past the ceiling is refused, as if the machine had
// no more. The library makes an ordinary error of that, at whatever place of a
// statement it happens. Small pieces are never refused: programs are good at
// surviving the want of a gigabyte, not of 100 bytes.
#include "heap.h"
#include "heap_private.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>

// Pieces from this size on are refused past the ceiling, and counted at once.
#define LARGE (1 << 20)

// What a thread has taken or given back in small pieces before all are told.
#define APART (256 << 10)

static _Atomic int64_t held, ceiling;
static _Thread_local int64_t apart;

void fb_raise(int64_t bytes) { atomic_fetch_add_explicit(&ceiling, bytes, memory_order_relaxed); }

int64_t fb_held(void) { return atomic_load_explicit(&held, memory_order_relaxed); }

int64_t fb_ceiling(void) { return atomic_load_explicit(&ceiling, memory_order_relaxed); }

static void count(int64_t bytes) {
	apart += bytes;
	if (apart > APART || apart < -APART) {
		atomic_fetch_add_explicit(&held, apart, memory_order_relaxed);
		apart = 0;
	}
}

// room takes a large piece from what is left below the ceiling.
static bool room(int64_t bytes) {
	int64_t most = atomic_load_explicit(&ceiling, memory_order_relaxed);
	int64_t before = atomic_fetch_add_explicit(&held, bytes, memory_order_relaxed);
	if (most <= 0 || (bytes <= most && before <= most - bytes)) {
		return true;
	}
	atomic_fetch_sub_explicit(&held, bytes, memory_order_relaxed);
	return false;
}

// counted gives what was taken for a piece, NULL if there is none. Large ones
// have been counted by what was asked for.
static void *counted(void *p, size_t asked, size_t (*size)(void *)) {
	int64_t before = asked >= LARGE ? (int64_t)asked : 0;
	count((p == NULL ? 0 : (int64_t)size(p)) - before);
	return p;
}

// No machine has pieces beyond this; sizes of them are mistakes of reckoning.
static bool absurd(size_t bytes) { return bytes > INT64_MAX / 4; }

// What is taken for a function whose statement has been interrupted is refused as
// well, from this size on.
#define MIDDLING (16 << 10)

static bool refused(size_t bytes) {
	if (bytes < MIDDLING) {
		return false;
	}
	return absurd(bytes) || fb_unwanted() || (bytes >= LARGE && !room((int64_t)bytes));
}

// jemalloc's.
extern void *__real_duckdb_je_malloc(size_t size);
extern void *__real_duckdb_je_realloc(void *p, size_t size);
extern void __real_duckdb_je_free(void *p);
extern size_t duckdb_je_malloc_usable_size(const void *p);

extern int duckdb_je_mallctl(const char *name, void *old, size_t *old_size, void *value, size_t value_size);

void fb_trim(void) {
	malloc_trim(0);
	duckdb_je_mallctl("arena.4096.purge", NULL, NULL, NULL, 0); // of all arenas
}

static size_t jemalloced(void *p) { return duckdb_je_malloc_usable_size(p); }

void *__wrap_duckdb_je_malloc(size_t size) {
	if (refused(size)) {
		return NULL;
	}
	return counted(__real_duckdb_je_malloc(size), size, jemalloced);
}

void *__wrap_duckdb_je_realloc(void *p, size_t size) {
	if (refused(size)) {
		return NULL;
	}
	int64_t before = p == NULL ? 0 : (int64_t)jemalloced(p);
	void *after = counted(__real_duckdb_je_realloc(p, size), size, jemalloced);
	if (after != NULL) {
		count(-before);
	}
	return after;
}

// Freed pieces from this size on go back to the machine at once. jemalloc would
// keep them for a second, beside the next ones of other sizes.
#define HUGE (16 << 20)

static void drop(void *p, size_t size) {
	size_t page = 4096;
	uintptr_t first = ((uintptr_t)p + page - 1) / page * page, end = ((uintptr_t)p + size) / page * page;
	madvise((void *)first, end - first, MADV_DONTNEED);
}

void __wrap_duckdb_je_free(void *p) {
	if (p == NULL) {
		return;
	}
	size_t size = jemalloced(p);
	count(-(int64_t)size);
	if (size >= HUGE) {
		drop(p, size);
	}
	__real_duckdb_je_free(p);
}

// operator new(size_t) and operator delete(void *), by which the library of C++
// does all the others. They pair with each other only.
static size_t malloced(void *p) { return malloc_usable_size(p); }

void *_Znwm(size_t size) {
	if (refused(size)) {
		_ZSt17__throw_bad_allocv();
	}
	void *p = counted(malloc(size == 0 ? 1 : size), size, malloced);
	if (p == NULL) {
		_ZSt17__throw_bad_allocv();
	}
	return p;
}

void _ZdlPv(void *p) {
	if (p == NULL) {
		return;
	}
	count(-(int64_t)malloced(p));
	free(p);
}
