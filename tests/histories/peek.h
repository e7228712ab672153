/* SPDX-License-Identifier: MIT */
#ifndef FERRY_TEST_PEEK_H
#define FERRY_TEST_PEEK_H

#include "tests/buffer/work.h"
#include "tests/support/copy_slots.h"

/* Reads device memory after all work that is queued on the stream. The device copies the bytes into
 * page-locked memory, where the caller can read them. */
static inline ferry_status
peek(fixture *f, ferry_stream *stream, void *pinned, const void *memory, size_t count)
{
    ferryi_device *device = device_of(f, ferry_stream_place(stream));
    void *native = ferry_stream_native(stream);
    ferry_status status =
        device->ops->copy_download(device, pinned, memory, count * sizeof(int32_t), native);
    return status == FERRY_OK ? device->ops->stream_synchronize(device, native) : status;
}

/* Opens a lease at a place without a stream, so that the call waits for the bytes, and abandons it.
 */
static inline ferry_status
lend_briefly(ferry_buffer *buffer, int access, size_t offset, size_t count, int place)
{
    ferry_lease *lease;
    void *memory;
    ferry_lease_options options = {
        .access = (ferry_access)access, .place = place, .offset = offset, .count = count};
    ferry_status status = ferry_lease_open(buffer, INT, &options, &lease, &memory);
    if (status != FERRY_OK)
        return status;
    status = ferry_lease_abandon(lease);
    ferry_lease_destroy(&lease);
    return status;
}

/* Opens a scope on a stream, waits for its bytes, and abandons it. */
static inline ferry_status
wait_briefly(ferry_buffer *buffer, int access, size_t offset, size_t count, ferry_stream *stream)
{
    ferry_scope scope;
    void *memory;
    ferry_status status = ferry_buffer_open_device(buffer, INT, (ferry_access)access, offset, count,
                                                   stream, &scope, &memory);
    if (status != FERRY_OK)
        return status;
    status = ferry_scope_wait(&scope);
    ferry_status abandoned = ferry_scope_abandon(&scope);
    return status == FERRY_OK ? abandoned : status;
}

#endif
