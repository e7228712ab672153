/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_DEBUG_H
#define FERRYI_DEBUG_H

/*
 * Tools for checked runs: memory with a second address whose pages can be protected, a handler for
 * the resulting faults, and a quarantine in which freed headers stay readable. Ordinary runs do not
 * use them.
 */

#include "src/base/base.h"

/* Returns whether this is a checked run. If FERRY_DEBUG is not set, a run is checked only if the
 * build has debug checks. If FERRY_DEBUG is "0", the run is not checked. If FERRY_DEBUG is "", the
 * default of the build applies. Any other text makes the run checked. */
bool ferryi_is_debug_run(void);

/* -- memory with a second address (double_map.c) ----------------------------------------------- */

enum ferryi_protection {
    FERRYI_PROTECT_NONE = 0,
    FERRYI_PROTECT_READ = 1,
    FERRYI_PROTECT_WRITE = 2
};

/* Allocates whole pages of zeros. The functions that allocate and free are callbacks of a pool's
 * backend. They ignore `user`, and the freeing function ignores the size. */
ferry_status ferryi_double_map_alloc(void *user, size_t bytes, void **out);
ferry_status ferryi_double_map_free(void *user, void *memory, size_t bytes);
/* Maps whole pages of memory from ferryi_double_map_alloc() at a second address, the alias. The
 * alias, and one page before and after it, are inaccessible. Returns NULL if `memory` is other
 * memory, or if the system refuses the call. */
void *ferryi_alias_make(const void *memory, size_t bytes, size_t align);
bool ferryi_alias_protect(void *alias, size_t bytes, enum ferryi_protection protection);
/* Disconnects the alias from its memory. The pages of the alias stay inaccessible. */
void ferryi_alias_void(void *alias, size_t bytes);
void ferryi_alias_free(void *alias, size_t bytes);

/* -- faults (fault.c) -------------------------------------------------------------------------- */

/* Installs a handler for memory faults. The handler prints the text of
 * ferryi_guard_pages_explain(). Then the previous handler, or the system, ends the program. Only
 * the first call in a process has an effect. */
void ferryi_fault_watch(void);

/* -- freed headers (quarantine.c) -------------------------------------------------------------- */

/* Keeps a freed header readable until many more headers have been added, then calls `release`. So
 * code that uses the header too late finds the contents that the owner left. Never fails. */
void ferryi_quarantine_add(void *header, void (*release)(void *header));
/* Calls `release`. In a checked run, the header first passes through the quarantine. */
static inline void
ferryi_quarantine_free(bool is_checked, void *header, void (*release)(void *header))
{
    if (is_checked)
        ferryi_quarantine_add(header, release);
    else
        release(header);
}

#endif
