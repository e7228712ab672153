/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_DEBUG_H
#define FERRYI_DEBUG_H

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

/* Allocates whole pages of zeros. Both functions are callbacks of a pool's backend; they use
 * neither `user` nor the size of what is freed. */
ferry_status ferryi_double_map_alloc(void *user, size_t bytes, void **out);
ferry_status ferryi_double_map_free(void *user, void *memory, size_t bytes);
/* Maps whole pages of such memory at a second address, the alias. The alias, and one page before
 * and after it, are inaccessible. Returns NULL if `memory` is other memory, or the system
 * refuses. */
void *ferryi_alias_make(const void *memory, size_t bytes, size_t align);
bool ferryi_alias_protect(void *alias, size_t bytes, enum ferryi_protection protection);
/* Disconnects the alias from the memory. The alias's pages stay inaccessible. */
void ferryi_alias_void(void *alias, size_t bytes);
void ferryi_alias_free(void *alias, size_t bytes);

/* -- faults (fault.c) -------------------------------------------------------------------------- */

/* Installs a handler for memory faults, which prints the text of ferryi_guard_pages_explain()
 * before the previous handler, or the system, ends the program. Takes effect once per process;
 * later calls do nothing. */
void ferryi_fault_watch(void);

/* -- freed headers (quarantine.c) -------------------------------------------------------------- */

/* Keeps a freed header readable until many more headers were added, then calls `release`. Code that
 * uses the header too late thus finds the contents that its owner left. Never fails. */
void ferryi_quarantine_add(void *header, void (*release)(void *header));
/* Calls `release`, in a checked run only after the header has left the quarantine. */
static inline void
ferryi_quarantine_free(bool is_checked, void *header, void (*release)(void *header))
{
    if (is_checked)
        ferryi_quarantine_add(header, release);
    else
        release(header);
}

#endif
