// The engine's library looks for an interrupt between two chunks of rows. One
// chunk can take it hours: list_transform over long lists, levenshtein of long
// texts, range of times by microseconds.
//
// So this file stands where the library evaluates a function for a vector, and
// looks before each; for lambdas that is once for 2048 items of a list. While a
// function runs, the thread knows whose it is, so that others that are asked in
// between can look too: those that take memory, and the addition of an interval.
// To stop, they throw std::bad_alloc. What the statement then answers is why it
// was interrupted, see Conn.failure.
#include "heap_private.h"

#include <stddef.h>
#include <stdint.h>

// duckdb::ExpressionExecutor and duckdb::ClientContext. The library is pinned,
// and a name that it has no more does not link.
extern bool _ZN6duckdb18ExpressionExecutor10HasContextEv(void *executor);
extern void *_ZN6duckdb18ExpressionExecutor10GetContextEv(void *executor);
extern bool _ZNK6duckdb13ClientContext13IsInterruptedEv(const void *context);

static _Thread_local const void *working; // the context of the function that runs

bool fb_unwanted(void) { return working != NULL && _ZNK6duckdb13ClientContext13IsInterruptedEv(working); }

static void restore(const void **before) { working = *before; }

#define EXECUTE(prefix) prefix##_ZN6duckdb18ExpressionExecutor7ExecuteERKNS_23BoundFunctionExpressionEPNS_15ExpressionStateEPKNS_15SelectionVectorEmRNS_6VectorE

extern void EXECUTE(__real_)(void *executor, const void *function, void *state, const void *rows, uint64_t count, void *result);

// ExpressionExecutor::Execute of a BoundFunctionExpression.
void EXECUTE(__wrap_)(void *executor, const void *function, void *state, const void *rows, uint64_t count, void *result) {
	const void *before __attribute__((cleanup(restore))) = working; // also when something is thrown
	if (_ZN6duckdb18ExpressionExecutor10HasContextEv(executor)) {
		working = _ZN6duckdb18ExpressionExecutor10GetContextEv(executor);
		if (_ZNK6duckdb13ClientContext13IsInterruptedEv(working)) {
			_ZSt17__throw_bad_allocv();
		}
	}
	EXECUTE(__real_)(executor, function, state, rows, count, result);
}

typedef struct {
	int32_t months, days;
	int64_t micros;
} interval;

// added looks after many additions.
static void added(void) {
	static _Thread_local uint32_t times;
	if (++times % 4096 == 0 && fb_unwanted()) {
		_ZSt17__throw_bad_allocv();
	}
}

// Interval::Add and ICUDateFunc::Add, by which range and generate_series count
// their items.
#define ADD(prefix) prefix##_ZN6duckdb8Interval3AddENS_11timestamp_tENS_10interval_tE
#define ADD_IN_ZONE(prefix) prefix##_ZN6duckdb11ICUDateFunc3AddERNS_10TZCalendarENS_11timestamp_tENS_10interval_tE

extern int64_t ADD(__real_)(int64_t time, interval step);
extern int64_t ADD_IN_ZONE(__real_)(void *calendar, int64_t time, interval step);

int64_t ADD(__wrap_)(int64_t time, interval step) {
	added();
	return ADD(__real_)(time, step);
}

int64_t ADD_IN_ZONE(__wrap_)(void *calendar, int64_t time, interval step) {
	added();
	return ADD_IN_ZONE(__real_)(calendar, time, step);
}
