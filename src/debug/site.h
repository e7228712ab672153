/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_SITE_H
#define FERRYI_SITE_H

/*
 * Call sites: the program's code locations that called the library. An example is "load_tile+0x41,
 * main+0x20 (./program)", with the innermost function first. In runs with debug checks, each
 * created object and each opened scope records its site, for reports about leaks.
 *
 * Public functions of the library are in a separate section (FERRY_API). The section distinguishes
 * the program's frames from the library's, even if both are linked into one file. Each site is
 * stored once, as text, until the process ends. A small number identifies the site. Finding the
 * number takes some microseconds.
 */

#include "src/base/base.h"

#define FERRYI_SITE_NONE    0 /* not recorded */
#define FERRYI_SITE_UNKNOWN 1 /* the stack unwinder is missing, or the table of sites is full */

typedef uint16_t ferryi_site;

/* Attribute of an internal function that public functions tail-call. A tail call removes the public
 * function's stack frame. So the internal function must also be in the section of public functions.
 */
#define FERRYI_AT_EDGE __attribute__((noinline, section("ferry_api")))

/* Returns the code location of the program that called the running public function; never
 * FERRYI_SITE_NONE. The caller must not hold a lock of the library, because the function takes the
 * loader's lock. */
ferryi_site ferryi_site_here(void);
/* Makes ferryi_site_here() return `site` on this thread. Used while this thread works for a call
 * that a different thread made. FERRYI_SITE_NONE ends this setting. */
void ferryi_site_lend(ferryi_site site);
/* Returns the text of a site, which never changes. Returns "" for FERRYI_SITE_NONE and
 * FERRYI_SITE_UNKNOWN. May be called in signal handlers. */
const char *ferryi_site_text(ferryi_site site);

#endif
