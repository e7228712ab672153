/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_GUARDED_H
#define FERRYI_GUARDED_H

/*
 * Tools for checked runs: memory with a second address whose pages can be protected, a handler for
 * the resulting faults, and a quarantine in which freed headers stay readable. Ordinary runs do not
 * use them.
 */

#include "src/base/base.h"

/* Returns whether this is a checked run. It is one if FERRY_DEBUG is set to a text other than ""
 * and "0". If the build has debug checks, it is one unless FERRY_DEBUG is "0". */
bool ferryi_is_debug_run(void);

/* -- memory with a second address (double_map.c) ----------------------------------------------- */

enum ferryi_protection {
    FERRYI_PROTECT_NONE = 0,
    FERRYI_PROTECT_READ = 1,
    FERRYI_PROTECT_WRITE = 2
};

/* Allocates whole pages of zeros. */
ferry_status ferryi_double_map_alloc(size_t bytes, void **out);
void ferryi_double_map_free(void *memory);
/* Maps whole pages of memory that can be mapped twice at a second address, the alias. The alias,
 * and one page before and after it, are inaccessible at first. Returns NULL if `memory` cannot be
 * mapped twice, or if the system refuses. */
void *ferryi_alias_make(const void *memory, size_t bytes, size_t align);
bool ferryi_alias_protect(void *alias, size_t bytes, enum ferryi_protection protection);
/* Disconnects the alias from the memory. The alias's pages stay inaccessible. */
void ferryi_alias_void(void *alias, size_t bytes);
void ferryi_alias_free(void *alias, size_t bytes);

/* -- faults (fault.c) -------------------------------------------------------------------------- */

/*
 * Installs a handler for memory faults. It calls `explain` before the previous handler, or the
 * system, ends the program. `explain` runs in the signal handler. If it knows the address, it
 * writes one line without a newline and returns true. Only the first call in a process has an
 * effect.
 */
typedef bool ferryi_fault_explain(const char *address, bool writes, char *text, size_t text_bytes);
void ferryi_fault_watch(ferryi_fault_explain *explain);

/* -- freed headers (quarantine.c) -------------------------------------------------------------- */

/* Keeps a freed header readable until many more headers were added, then calls `release`. Code that
 * uses the header too late thus finds the contents that its owner left. Never fails. */
void ferryi_quarantine_add(void *header, void (*release)(void *header));

#endif
