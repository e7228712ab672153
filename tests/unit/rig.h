/* SPDX-License-Identifier: MIT */
#ifndef FERRY_TESTS_RIG_H
#define FERRY_TESTS_RIG_H

/*
 * A device for tests of the layer right above the table. It does work only when a caller waits for
 * it, so that a missing wait reads old bytes; it refuses device pointers that are not its own, and
 * host pointers that are not pinned unless it takes pageable memory; it counts what is alive; and
 * it fails the call that a test selects. Every rig reaches every other one until `no_peers` is set.
 */

#include "src/device/device.h"

struct rig_allocation {
    char *memory;
    size_t bytes;
    struct rig *owner;
    ferry_memory_kind kind; /* PAGEABLE: memory of the test, declared pinned */
    struct rig_allocation *next;
};

struct rig_operation {
    enum { RIG_COPY, RIG_FILL, RIG_WAIT } what;
    char *target;
    const char *source;
    size_t bytes; /* RIG_FILL: the count */
    uint32_t pattern;
    size_t pattern_bytes;
    struct rig_stream *stream; /* RIG_WAIT */
    size_t until;
};

struct rig_stream {
    struct rig_operation *operations;
    size_t count, capacity, performed;
    struct rig_stream *next;
};

struct rig_event {
    struct rig_stream *stream;
    size_t until;
};

typedef struct rig {
    ferryi_device head;
    struct rig_stream *streams;
    int live_allocations, live_events, live_streams; /* owned by users of the device */
    int fail_in;                                     /* calls until one fails; negative: never */
    ferry_status fail_with;
    bool tripped;
    const char *fail_slot; /* NULL: any */
    bool no_peers;
    const char *refused; /* host memory that copies do not take: UNSUPPORTED */
    size_t refused_bytes;
} rig;

rig *rig_open(int ordinal);
/* Let memory of the test be used as pinned; it is forgotten at close. */
void rig_pin(rig *device, void *memory, size_t bytes);
/* Closes; fails the test when something is still alive. */
void rig_close(rig *device);
/* Fail the call after `calls` more; rearms `tripped`. Negative: none. */
void rig_fail(rig *device, int calls);

#endif
