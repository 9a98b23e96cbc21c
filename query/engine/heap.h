// What the engine's library holds in memory, and a ceiling for it.
#pragma once

#include <stdint.h>

// fb_raise moves the ceiling by so many bytes; 0 at the start means none.
void fb_raise(int64_t bytes);

// fb_held is what the library holds, to within some MiB.
int64_t fb_held(void);

// fb_ceiling is the ceiling.
int64_t fb_ceiling(void);

// fb_trim gives freed pieces back to the machine.
void fb_trim(void);
