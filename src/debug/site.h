/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_SITE_H
#define FERRYI_SITE_H

/*
 * Sites: the call sites in the program from which the library was called, such as "load_tile+0x41,
 * main+0x20 (./program)", innermost function first. In checked runs, each created object and each
 * opened scope records its site, for reports about leaks.
 *
 * Public functions are in a separate section (FERRY_API). The section distinguishes the program's
 * frames from the library's, even if both are linked into one file. Each site is stored once, as
 * text, for the rest of the process, and is identified by a small number. Finding the number takes
 * some microseconds.
 */

#include "src/base/base.h"

#define FERRYI_SITE_NONE    0 /* not recorded */
#define FERRYI_SITE_UNKNOWN 1 /* no unwinder, or no room for more sites */

typedef uint16_t ferryi_site;

/* For a function that public functions tail-call. The tail call removes the public function's
 * frame, so the called function must be in their section, too. */
#define FERRYI_AT_EDGE __attribute__((noinline, section("ferry_api")))

/* Returns the call site of the public function that runs on this thread; never NONE. The caller
 * must not hold a lock of the library, because the function takes the loader's lock. */
ferryi_site ferryi_site_here(void);
/* Sets the site that ferryi_site_here() returns on this thread while the thread works for a call
 * made by another thread. NONE resets it. */
void ferryi_site_lend(ferryi_site site);
/* Returns the text of a site, which never changes. Returns "" for NONE and UNKNOWN. Safe in signal
 * handlers. */
const char *ferryi_site_text(ferryi_site site);

#endif
