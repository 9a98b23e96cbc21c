// What heap_linux.c and interrupt_linux.c share.
#pragma once

#include <stdbool.h>

// fb_unwanted says that the statement which this thread computes a function of
// has been interrupted.
bool fb_unwanted(void);

// Throws std::bad_alloc.
extern void _ZSt17__throw_bad_allocv(void) __attribute__((noreturn));
