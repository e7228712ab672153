/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_DEBUG_H
#define FERRYI_DEBUG_H

/*
 * Tools for checked runs, which are runs with debug checks. Host memory gets a second address,
 * whose pages can be protected. A handler explains the faults that this protection causes. A
 * quarantine keeps the headers of freed objects readable. Runs without debug checks use none of
 * this.
 */

#include "src/base/base.h"

/* Returns whether this process runs with Ferry's debug checks. If FERRY_DEBUG is "0", it does not.
 * If FERRY_DEBUG is not set or is "", it does so only if the build has debug checks. Any other text
 * turns the checks on. */
bool ferryi_is_debug_run(void);

/* -- memory with a second address (double_map.c) ----------------------------------------------- */

enum ferryi_protection {
    FERRYI_PROTECT_NONE = 0,
    FERRYI_PROTECT_READ = 1,
    FERRYI_PROTECT_WRITE = 2
};

/* Allocates whole pages of zeros, which can later be mapped at a second address. Both functions are
 * callbacks of a pool's backend. They ignore `user`, and ferryi_double_map_free() ignores `bytes`.
 */
ferry_status ferryi_double_map_alloc(void *user, size_t bytes, void **out);
ferry_status ferryi_double_map_free(void *user, void *memory, size_t bytes);
/* Maps whole pages of memory from ferryi_double_map_alloc() at a second address, the alias. At
 * first, no page of the alias is accessible. The pages just before and after it never are. Returns
 * NULL if `memory` was not allocated with that function, or if the system refuses the mapping. */
void *ferryi_alias_make(const void *memory, size_t bytes, size_t align);
bool ferryi_alias_protect(void *alias, size_t bytes, enum ferryi_protection protection);
/* Disconnects an alias, made by ferryi_alias_make(), from its memory. The pages of the alias stay
 * inaccessible. */
void ferryi_alias_void(void *alias, size_t bytes);
void ferryi_alias_free(void *alias, size_t bytes);

/* -- faults (fault.c) -------------------------------------------------------------------------- */

/* Installs a handler for memory faults. If a fault is in a buffer, the handler prints the text of
 * ferryi_guard_pages_explain(). Then the previous handler, or the system, ends the program. Only
 * the first call in a process has an effect. */
void ferryi_fault_watch(void);

/* -- freed headers (quarantine.c) -------------------------------------------------------------- */

/* Keeps the header of a freed object readable until many more headers have been added, and then
 * calls `release`. Code that uses the object too late still finds the contents that its owner left.
 * Never fails. */
void ferryi_quarantine_add(void *header, void (*release)(void *header));
/* Frees the header of an object by calling `release`. If `is_checked` is true, the header first
 * stays readable in the quarantine. */
static inline void
ferryi_quarantine_free(bool is_checked, void *header, void (*release)(void *header))
{
    if (is_checked)
        ferryi_quarantine_add(header, release);
    else
        release(header);
}

#endif
