/* SPDX-License-Identifier: MIT */
#ifndef BENCH_RING_BY_HAND_H
#define BENCH_RING_BY_HAND_H

/*
 * Copies pageable memory to or from an emulated device as two bare threads can: one copies between
 * the memory and the chunks of a ring, the other between the chunks and the device. They share two
 * counters, and nothing else. The threads, the copy loops, and the size and the number of chunks
 * are those of the transfer engine.
 */

#include "src/transfer/engine.h"

struct bench_ring {
    char *memory;
    size_t chunk_bytes, chunk_count;
};

/** Creates a ring like that of the device at place 1. Returns false if there is no memory. */
bool bench_ring_create(const ferryi_engine *engine, struct bench_ring *out);
void bench_ring_free(struct bench_ring *ring);

/**
 * Makes `count` copies of `bytes` bytes each between successive parts of `host` and `device`, to
 * the device if `up` is true. Like those of the engine, uploads may overlap, and a download ends
 * before the next one begins. Returns the time in nanoseconds, or -1 on failure.
 */
double bench_ring_time(const struct bench_ring *ring, const ferryi_engine *engine,
                       ferryi_timeline *timeline, char *host, char *device, size_t bytes,
                       size_t count, bool up);

#endif
