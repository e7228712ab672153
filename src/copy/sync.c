/* SPDX-License-Identifier: MIT */
#include "src/buffer/buffer.h"
#include "src/copy/async.h"
#include "src/stream/shell.h"

ferry_status
ferry_buffer_sync_to(ferry_buffer *buffer, size_t offset, size_t count, int place,
                     const ferry_copy_options *options)
{
    ferry_status status;
    bool async = options && options->event;
    do {
        struct ferryi_range range;
        status = ferryi_place_check(buffer, offset, count, place, "sync", &range);
        if (status == FERRY_OK && options && options->convert)
            status = ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                                 "sync: it converts nothing, but options.convert is %d",
                                 options->convert);
        if (status != FERRY_OK)
            return status;
        if (range.begin == range.end)
            return async ? ferryi_async_finished(buffer->store->context, options->event) : FERRY_OK;
        status = async ? ferryi_async_sync(buffer->store, range, place, options)
                       : ferryi_buffer_bring(buffer->store, range, place, "sync_to", options);
    } while (ferryi_buffer_starts_over(status, count));
    return status == FERRY_OK && !async ? ferryi_place_settle(buffer->store, place) : status;
}
