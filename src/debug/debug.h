/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_GUARDED_H
#define FERRYI_GUARDED_H

/*
 * What checked runs stand on: memory with a second address whose pages can be closed, a look at the
 * faults that closed pages cause, and a place where freed headers stay readable. Nothing of it is
 * used in ordinary runs.
 */

#include "src/base/base.h"

/* True where FERRY_DEBUG says so (anything but "0"), or in a checked build unless it says "0". */
bool ferryi_is_debug_run(void);

/* -- memory with a second address (double_map.c) ----------------------------------------------- */

enum ferryi_protection {
    FERRYI_PROTECT_NONE = 0,
    FERRYI_PROTECT_READ = 1,
    FERRYI_PROTECT_WRITE = 2
};

/* Whole pages, cleared. */
ferry_status ferryi_double_map_alloc(size_t bytes, void **out);
void ferryi_double_map_free(void *memory);
/* Another address of whole pages of such memory, closed, with a closed page before and after; NULL:
 * it is none, or the system refuses. */
void *ferryi_alias_make(const void *memory, size_t bytes, size_t align);
bool ferryi_alias_protect(void *alias, size_t bytes, enum ferryi_protection protection);
/* The pages part with the memory and stay closed. */
void ferryi_alias_void(void *alias, size_t bytes);
void ferryi_alias_free(void *alias, size_t bytes);

/* -- faults (fault.c) -------------------------------------------------------------------------- */

/*
 * Let `explain` look at every fault of memory before whoever was asked until now, or the system,
 * ends the program. It runs in the signal's handler and writes a line, without its end, when it
 * knows the address; false: it does not. Once for the process; later calls do nothing.
 */
typedef bool ferryi_fault_explain(const char *address, bool writes, char *text, size_t text_bytes);
void ferryi_fault_watch(ferryi_fault_explain *explain);

/* -- freed headers (quarantine.c) -------------------------------------------------------------- */

/* Call `release` when many more were buried; until then whoever kept the address finds what the
 * owner left in it. Never fails. */
void ferryi_quarantine_add(void *header, void (*release)(void *header));

#endif
