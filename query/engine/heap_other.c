//go:build !linux

// Elsewhere the library's own limit is all there is.
#include "heap.h"

void fb_raise(int64_t bytes) { (void)bytes; }

int64_t fb_held(void) { return 0; }

int64_t fb_ceiling(void) { return 0; }

void fb_trim(void) {}
