/* SPDX-License-Identifier: MIT */
#ifndef FERRY_TESTS_RIG_H
#define FERRY_TESTS_RIG_H

/*
 * A rig is a simulated device for tests of the code above the device table. A rig performs queued
 * work only when a caller waits, so a missing wait leads to stale bytes. It refuses pointers of
 * other devices. It refuses unpinned host pointers unless the test has enabled pageable memory. It
 * counts live objects. A test can select a call that must fail. All rigs can copy directly to each
 * other unless `no_peers` is set.
 */

#include "src/device/device.h"

struct rig_allocation {
    char *memory;
    size_t bytes;
    struct rig *owner;
    ferry_memory_kind kind; /* PAGEABLE: memory of the test that rig_pin() declared as pinned */
    struct rig_allocation *next;
};

struct rig_operation {
    enum { RIG_COPY, RIG_FILL, RIG_WAIT } what;
    char *target;
    const char *source;
    size_t bytes; /* number of bytes; of a RIG_FILL, the number of patterns */
    uint32_t pattern;
    size_t pattern_bytes;
    struct rig_stream *stream; /* RIG_WAIT: the stream to wait for */
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
    /* number of objects that were created on the device and not freed */
    int live_allocations, live_events, live_streams;
    int fail_in; /* number of calls that succeed until a call fails; negative: no call fails */
    ferry_status fail_with;
    bool tripped;
    const char *fail_slot; /* name of the call that may fail; NULL: any call */
    bool no_peers;
    const char *refused; /* host memory for which copies return UNSUPPORTED */
    size_t refused_bytes;
} rig;

rig *rig_open(int ordinal);
/* Declares memory of the test as pinned until the rig is closed. */
void rig_pin(rig *device, void *memory, size_t bytes);
/* Closes the rig (simulated device). The test fails if an object of this device was not freed. */
void rig_close(rig *device);
/* Lets the next `calls` device calls succeed and the call after them fail, and resets `tripped`. If
 * `calls` is negative, no call fails. */
void rig_fail(rig *device, int calls);

#endif
