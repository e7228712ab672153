/* SPDX-License-Identifier: MIT */
#ifndef FERRY_CLI_ALLOCATOR_H
#define FERRY_CLI_ALLOCATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What a script is run with: Ferry's pool on some device, or the stand-in for the pools of today.
 * Used by one thread, closed by whoever opened it.
 */

/* Bytes given are those of blocks, at least what was asked for. */
struct allocator_state {
    uint64_t reserved_bytes, peak_reserved_bytes; /* taken from the device */
    uint64_t peak_given_bytes;                    /* in live blocks */
    uint64_t free_bytes, largest_free_bytes;      /* idle, of the reserved */
    double fragmentation;  /* 1 - largest free / free; 0 when nothing is free */
    uint64_t hits, misses; /* a miss asked the device */
    uint64_t waits;        /* of a stream for another's last use */
};

struct allocator {
    const char *name;
    void *user;
    /* NULL when it is out of memory, or it failed: `why` says which. `stream` is below the number
     * it was opened with. */
    void *(*take)(void *user, uint64_t bytes, uint32_t stream, uint64_t *out_given);
    void (*give)(void *user, void *block, uint32_t stream);
    /* Costs time, and may move idle memory from where it is quick to take to where it is counted.
     */
    void (*look)(void *user, struct allocator_state *out);
    const char *(*why)(void *user); /* of the last take that gave NULL; good until the next call */
    void (*close)(void *user);
};

struct allocator_options {
    const char *devices;  /* as ferry_context_options.devices; NULL: FERRY_DEVICE, else the host:
                             replaying needs no GPU */
    uint64_t limit_bytes; /* 0: what the device has */
    uint32_t streams;
    uint64_t handle_bytes; /* of the handles that the pool maps (device.handle); 0: it has slabs */
};

enum { ALLOCATOR_STREAMS_MAX = 32 }; /* of the device; more of a script share them */

/*
 * The pool of the first device's memory. *out_device (may be NULL) is its name, good until the
 * close; *out_limit what was set or the device has. Only ask for memory and give it back: nothing
 * of it is touched. False after a message in ferry_last_error().
 */
bool pool_open(const struct allocator_options *options, struct allocator *out,
               const char **out_device, uint64_t *out_limit);

#endif
