#include "bridge.h"

#include <sched.h>
#include <time.h>

// fb_execute is duckdb_execute_pending, but waits where that would spin: while
// the engine's other threads have all the work there is, asking for some again
// and again takes a processor from those who decode what they read.
duckdb_state fb_execute(duckdb_pending_result pending, duckdb_result *out) {
	for (int idle = 0;;) {
		switch (duckdb_pending_execute_task(pending)) {
		case DUCKDB_PENDING_RESULT_NOT_READY:
			idle = 0;
			continue;
		case DUCKDB_PENDING_NO_TASKS_AVAILABLE:
			if (++idle <= 32) {
				sched_yield();
				continue;
			}
			struct timespec pause = {0, idle <= 64 ? 50 * 1000 : 200 * 1000};
			nanosleep(&pause, NULL);
			continue;
		case DUCKDB_PENDING_ERROR:
			return DuckDBError;
		default:
			return duckdb_execute_pending(pending, out);
		}
	}
}

// fb_copy_handle copies what extra makes on the Go side.
void *fb_copy_handle(void *data) {
	uintptr_t *copy = malloc(sizeof(uintptr_t));
	*copy = fbSameHandle(*(uintptr_t *)data);
	return copy;
}
