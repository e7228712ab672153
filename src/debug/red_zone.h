/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_RED_ZONE_H
#define FERRYI_RED_ZONE_H

/*
 * Red zones detect misuse of blocks of memory. Red zones exist only in builds with debug checks or
 * with AddressSanitizer. In other builds the calls are empty, and their arguments are not
 * evaluated.
 *
 * Patterns are written only into memory that the host can access and that no queued work uses. The
 * requested bytes of a reused block are set to 0xFF before the block is handed out. The remaining
 * bytes of the block are the red zone, which has a pattern as well. When the block is released, its
 * red zone is checked, and the block is filled with another pattern. This pattern is checked when
 * the block is handed out again. An overrun, or a write after the release, is logged with the
 * block's size, its label and the call that allocated the block.
 *
 * Valgrind and AddressSanitizer are notified of the bytes that must not be used: the red zones, and
 * all memory that is in no live block.
 *
 * For device memory, the library uses NVTX's memory API to notify tools such as compute-sanitizer,
 * if NVTX's headers were found at build time. A slab is registered as a heap whose bytes must not
 * be used. A live block is registered as a region of that heap with the requested size. NVTX
 * consists of headers only. It loads the tool that NVTX_INJECTION64_PATH names, and the tool makes
 * no callbacks. Without a tool each call returns immediately.
 */

#include "src/base/base.h"
#include "src/base/sanitizer.h"

#if FERRYI_ADDRESS_SANITIZER || defined(FERRYI_DEBUG_CHECKS)
#define FERRYI_RED_ZONES      1
#define FERRYI_RED_ZONE_BYTES 64 /* minimum size of a red zone */

/* State of a block for the checks of its red zone. The block's owner stores this struct, and sets
 * it to zero when the block is created. */
struct ferryi_zone_state {
    const void *site;      /* address of the call that allocated the block; NULL: unknown */
    size_t zone_bytes;     /* number of bytes of the red zone that were filled with its pattern */
    size_t released_bytes; /* number of bytes at the block's begin that were filled when the block
                              was released */
    bool has_region;       /* whether the block is registered as an NVTX memory region */
};

/* Describes one block. The functions below take this struct as an argument. */
struct ferryi_zoned {
    struct ferryi_zone_state *state;
    char *memory; /* the whole block */
    size_t bytes;
    char *begin; /* begin of the `requested` bytes that the program may use */
    size_t requested;
    bool host_reaches; /* whether the host can access the memory; memory that the host cannot access
                          has no red zone */
    bool is_done;      /* whether no queued work uses the memory */
    void *heap;        /* NVTX heap of the block's slab; may be NULL */
    const char *label; /* may be NULL */
    const char *owner; /* owner's name for messages, such as the name of a pool */
    const struct ferryi_log *log;
};

/* Allows the program to use the requested bytes of a block. Called just before the block is handed
 * out. `fresh` states whether the block's memory was never handed out before. */
void ferryi_red_zone_out(struct ferryi_zoned block, bool fresh);
/* Checks the red zone of a live block before the block is released. The check may be repeated. */
void ferryi_red_zone_check(struct ferryi_zoned block);
/* Called when a live block is released. Forbids the use of the block's memory until the block is
 * handed out again. */
void ferryi_red_zone_in(struct ferryi_zoned block);
/* Unregisters the NVTX memory region of an idle block. Called before the block is merged with its
 * neighbours, and before its slab is freed. */
void ferryi_red_zone_join(struct ferryi_zone_state *state, void *memory);
/* Called when a slab has been allocated. Forbids the use of the slab's memory until its blocks are
 * handed out. Sets `*out_heap` to the slab's NVTX heap, or to NULL if it has none. */
void ferryi_red_zone_came(void *memory, size_t bytes, bool host_reaches, void **out_heap);
/* Called before a slab is freed, when none of its blocks is live. Allows the use of the slab's
 * memory again. */
void ferryi_red_zone_goes(void *memory, size_t bytes, bool host_reaches, void *heap);

#else
#define ferryi_red_zone_out(block, fresh)                       ((void)0)
#define ferryi_red_zone_check(block)                            ((void)0)
#define ferryi_red_zone_in(block)                               ((void)0)
#define ferryi_red_zone_join(state, memory)                     ((void)0)
#define ferryi_red_zone_came(memory, bytes, host_reaches, out)  ((void)0)
#define ferryi_red_zone_goes(memory, bytes, host_reaches, heap) ((void)0)
#endif

#endif
