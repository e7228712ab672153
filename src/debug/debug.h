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

/* Returns whether this process runs with Ferry's debug checks. The environment variable FERRY_DEBUG
 * decides this. The value "0" disables the checks. If the variable is unset or empty, the checks
 * are enabled only if the build has debug checks. Any other value enables the checks. */
bool ferryi_is_debug_run(void);

/* -- memory with a second address (double_map.c) ----------------------------------------------- */

enum ferryi_protection {
    FERRYI_PROTECT_NONE = 0,
    FERRYI_PROTECT_READ = 1,
    FERRYI_PROTECT_WRITE = 2
};

/* ferryi_double_map_alloc() allocates whole pages of zeros, which can be mapped at a second address
 * later. ferryi_double_map_free() frees the pages. Both functions are callbacks of a pool's
 * backend. Both ignore `user`, and ferryi_double_map_free() ignores `bytes`. */
ferry_status ferryi_double_map_alloc(void *user, size_t bytes, void **out);
ferry_status ferryi_double_map_free(void *user, void *memory, size_t bytes);
/* Maps whole pages of memory from ferryi_double_map_alloc() at a second address, which is called
 * the alias. ferryi_alias_protect() can make the pages of the alias accessible later. The page
 * before the alias and the page after it are never accessible. Returns NULL if `memory` is not from
 * ferryi_double_map_alloc(), or if the system refuses the mapping. */
void *ferryi_alias_make(const void *memory, size_t bytes, size_t align);
bool ferryi_alias_protect(void *alias, size_t bytes, enum ferryi_protection protection);
/* Unmaps the memory of an alias, which ferryi_alias_make() returned. The addresses of the alias
 * stay reserved and inaccessible. */
void ferryi_alias_void(void *alias, size_t bytes);
void ferryi_alias_free(void *alias, size_t bytes);

/* -- faults (fault.c) -------------------------------------------------------------------------- */

/* Installs a signal handler for memory faults. If the faulting address is in a buffer, the handler
 * prints the text of ferryi_guard_pages_explain(). After this, the handler calls the handler that
 * was installed before it, or lets the system end the program. Only the first call in a process has
 * an effect. */
void ferryi_fault_watch(void);

/* -- freed headers (quarantine.c) -------------------------------------------------------------- */

/* Keeps the header of a freed object readable until many more headers have been added. After that,
 * calls `release` to free the header. So code that uses the freed object by mistake still reads the
 * header's last contents. Never fails. */
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
