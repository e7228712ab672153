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

#endif
