/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_SITE_H
#define FERRYI_SITE_H

/*
 * Sites: where in the program a call of the library's came from, such as "load_tile+0x41, main+0x20
 * (./program)", the innermost function first. Checked runs note them for what is made and opened,
 * so that a report can say who forgot it.
 *
 * Public functions lie in a section of their own (FERRY_API), which separates the program's frames
 * from the library's, also where both are one file. Each site is kept once, as text, for the rest
 * of the process, and is referred to by a small number. Finding the number takes some microseconds.
 */

#include "src/base/base.h"

#define FERRYI_SITE_NONE    0 /* not looked for */
#define FERRYI_SITE_UNKNOWN 1 /* there is no unwinder, or no room for more sites */

typedef uint16_t ferryi_site;

/* Of a function that public ones end in: its frame stands for theirs, which is gone by then. */
#define FERRYI_AT_EDGE __attribute__((noinline, section("ferry_api")))

/* Who called the public function that runs now on this thread; never NONE. Takes the loader's lock:
 * none of the library's own may be held. */
ferryi_site ferryi_site_here(void);
/* This thread works for another one's call: until NONE is lent, that is its site. */
void ferryi_site_lend(ferryi_site site);
/* Never changes; "" for NONE and UNKNOWN. Also in a signal's handler. */
const char *ferryi_site_text(ferryi_site site);

#endif
